/* Configs of published models against the counts in tests/data/model_facts.csv, and configs that are wrong. */
#include "api/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static struct model model;
static struct faults faults;
static json_t *assumptions;

static void prepare(void)
{
  memset(&faults, 0, sizeof faults);
  assumptions = json_array();
}

static void release(void)
{
  json_decref(assumptions);
  scratch_release();
}

static void again(void)
{
  json_decref(assumptions);
  prepare();
}

static json_t *load(const char *name)
{
  const char *path = suite_source_path(scratch_printf("tests/data/models/%s", name));
  json_error_t error;
  json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  ck_assert_msg(document != NULL, "%s: %s", path, error.text);
  return scratch_json_steal(document);
}

/* The side file of ModelOpt, where the model has one. */
static json_t *load_quant_config(const char *config_file)
{
  char *name = scratch_printf("%.*s.hf_quant_config.json", (int)(strlen(config_file) - strlen(".json")), config_file);
  json_t *document = json_load_file(suite_source_path(scratch_printf("tests/data/models/%s", name)), 0, NULL);
  return document != NULL ? scratch_json_steal(document) : NULL;
}

static void read_published(const char *config_file)
{
  again();
  hf_config_read(&model, assumptions, load(config_file), load_quant_config(config_file), "/hf_config", &faults);
}

/* Reads a config given as text with ' for ". */
static void read_text(const char *text)
{
  char *json = scratch_printf("%s", text);
  json_error_t error;
  json_t *config;
  for (char *at = json; *at != '\0'; at++)
    *at = *at == '\'' ? '"' : *at;
  config = json_loads(json, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  ck_assert_msg(config != NULL, "%s: %s", text, error.text);
  again();
  hf_config_read(&model, assumptions, scratch_json_steal(config), NULL, "/hf_config", &faults);
}

static bool has_fault(const char *pointer, enum fault_code code)
{
  for (size_t i = 0; i < faults.count; i++)
    if (faults.items[i].code == code && strcmp(faults.items[i].pointer, pointer) == 0)
      return true;
  return false;
}

static bool assumes(const char *part)
{
  size_t i;
  json_t *sentence;
  json_array_foreach(assumptions, i, sentence)
  {
    if (strstr(json_string_value(sentence), part) != NULL)
      return true;
  }
  return false;
}

/* Exactly equal: byte counts are whole numbers. */
static bool is_same(double seen, double wanted)
{
  return !(seen < wanted) && !(seen > wanted);
}

static const char *first_fault(void)
{
  return faults.count != 0 ? scratch_printf("%s: %s", faults.items[0].pointer, faults.items[0].detail) : "no fault";
}

/* ---- the table of facts ---- */

#define COLUMNS_MAX 64
struct row {
  char *fields[COLUMNS_MAX];
  size_t count;
};

/* Splits one CSV line in place; quoted fields may hold commas and doubled quotes. */
static void split(struct row *row, char *line)
{
  char *from = line;
  row->count = 0;
  for (bool more = true; more;) {
    const bool is_quoted = *from == '"';
    char *to = from + is_quoted;
    ck_assert_uint_lt(row->count, COLUMNS_MAX);
    row->fields[row->count++] = to;
    for (from = to; *from != '\0' && (is_quoted ? *from != '"' || from[1] == '"' : *from != ',');) {
      from += is_quoted && *from == '"';
      *to++ = *from++;
    }
    from += is_quoted && *from == '"';
    more = *from == ',';
    from += more;
    *to = '\0';
  }
}

struct facts {
  struct row header, row;
  char *rest;
};

static void facts_open(struct facts *facts)
{
  facts->rest = scratch_read_file(suite_source_path("tests/data/model_facts.csv"));
  split(&facts->header, strsep(&facts->rest, "\n"));
}

static bool facts_next(struct facts *facts)
{
  char *line = strsep(&facts->rest, "\n");
  if (line == NULL || *line == '\0')
    return false;
  line[strcspn(line, "\r")] = '\0';
  split(&facts->row, line);
  ck_assert_uint_eq(facts->row.count, facts->header.count);
  return true;
}

static const char *fact(const struct facts *facts, const char *column)
{
  for (size_t i = 0; i < facts->header.count; i++)
    if (strcmp(facts->header.fields[i], column) == 0)
      return facts->row.fields[i];
  ck_abort_msg("no column %s", column);
  return "";
}

static unsigned long long number(const struct facts *facts, const char *column)
{
  return strtoull(fact(facts, column), NULL, 10);
}

static unsigned long long state_elements(void)
{
  unsigned long long sum = 0;
  for (unsigned kind = 0; kind < model.layer_kind_count; kind++)
    sum += model_layers_of_kind(&model, kind) * model.layers[kind].attention.linear_state_elements;
  return sum;
}

static unsigned windowed_layers(void)
{
  unsigned sum = 0;
  for (unsigned kind = 0; kind < model.layer_kind_count; kind++)
    sum += model.layers[kind].attention.window_tokens != 0 ? model_layers_of_kind(&model, kind) : 0;
  return sum;
}

static void check_row(const struct facts *facts)
{
  const char *name = fact(facts, "model");
  const struct kv_bytes kv = model_kv_bytes(&model, PRECISION_BF16);
  ck_assert_msg(model_parameters_total(&model) == number(facts, "params_total_derived"), "%s: total", name);
  ck_assert_msg(model_parameters_active(&model) == number(facts, "params_active_derived"), "%s: active", name);
  const double kv_bytes = (double)number(facts, "kv_bytes_per_token_bf16");
  const double past_window_bytes = (double)number(facts, "kv_growing_bytes_per_token_past_window");
  ck_assert_msg(is_same(kv.growing_per_token_bytes + kv.windowed_per_token_bytes, kv_bytes), "%s: KV", name);
  ck_assert_msg(is_same(kv.growing_per_token_bytes, past_window_bytes), "%s: KV past the window", name);
  ck_assert_msg(windowed_layers() == number(facts, "kv_windowed_layers"), "%s: windowed layers", name);
  ck_assert_msg(state_elements() == number(facts, "recurrent_state_elements_per_seq"), "%s: state", name);
  ck_assert_msg(model.layer_count == number(facts, "layers"), "%s: layers", name);
  ck_assert_msg(model.vocab_size == number(facts, "vocab"), "%s: vocab", name);
  ck_assert_msg(model.has_tied_embeddings == (strcmp(fact(facts, "tied_embeddings"), "true") == 0), "%s: tied", name);
  if (model.max_context_tokens != 0) /* Falcon leaves it to its class */
    ck_assert_msg(model.max_context_tokens == number(facts, "max_positions"), "%s: context", name);
}

/* Every row with derived figures is exact to the integer; those without are covered below, or refused by name. */
START_TEST(agrees_with_the_facts)
{
  struct facts facts;
  unsigned exact = 0;
  unsigned refused = 0;
  unsigned other = 0;
  facts_open(&facts);
  while (facts_next(&facts)) {
    read_published(fact(&facts, "config_file"));
    if (*fact(&facts, "params_total_derived") != '\0') {
      ck_assert_msg(faults.count == 0, "%s: %s", fact(&facts, "model"), first_fault());
      check_row(&facts);
      exact++;
    } else if (faults.count != 0) {
      ck_assert_msg(faults.items[0].code == FAULT_UNSUPPORTED, "%s: %s", fact(&facts, "model"), first_fault());
      refused++;
    } else {
      other++;
    }
  }
  printf("model facts: %u exact, %u refused by name, %u without derived figures\n", exact, refused, other);
  ck_assert_uint_ge(exact, 81);
  ck_assert_uint_eq(exact + refused + other, 88);
}
END_TEST

/* Published totals of models that the table has no derivation for, less what the checkpoint stores besides:
   MiniMax-M2.5: one fp8 scale for each 128×128: a layer q, o 24·48 each, k, v 24·8 each, experts 256·3·24·12 → 223,872,
   times 62 = 13,880,064.
   DeepSeek-V3.2: as V3 (13,504,966,800: scales, and a prediction layer with embedding and head), the indexer of that layer
   1536·8192 + 7168·(128 + 64) + 256 = 13,959,424, and scales of the indexers 62·(12·64 + 56·1) = 51,088.
   GLM-5: one prediction layer: attention with its indexer 174,394,112, experts and router 9,702,998,272, a projection of
   both inputs 2·6144² and five norms.
   Qwen3.5-27B: vision tower 460,730,096 and a prediction layer 424,699,392. */
START_TEST(agrees_with_published_totals)
{
  static const struct {
    const char *file;
    unsigned long long published, beside;
  } cases[] = {
      {"MiniMaxAI--MiniMax-M2.5.json", 228703644928, 13880064},
      {"deepseek-ai--DeepSeek-V3.2.json", 685396921376, 13504966800 + 13959424 + 51088},
      {"zai-org--GLM-5.json", 753864139008, 174394112 + 9702998272 + 2 * 6144 * 6144 + 5 * 6144},
      {"Qwen--Qwen3.5-27B.json", 27781427952, 460730096 + 424699392},
  };
  read_published(cases[_i].file);
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_uint_eq(model_parameters_total(&model), cases[_i].published - cases[_i].beside);
}
END_TEST

START_TEST(refuses_what_it_cannot_count)
{
  read_published("google--gemma-4-26B-A4B.json");
  ck_assert(has_fault("/hf_config/text_config/attention_k_eq_v", FAULT_UNSUPPORTED));
  read_published("Zyphra--Zamba2-2.7B.json");
  ck_assert(has_fault("/hf_config/layers_block_type", FAULT_UNSUPPORTED));
}
END_TEST

/* Stored bytes of quantised checkpoints. GPTQ stores group indices besides (4 bytes an input feature: 0.08 %). */
START_TEST(weighs_quantised_checkpoints)
{
  struct facts facts;
  unsigned rows = 0;
  facts_open(&facts);
  while (facts_next(&facts)) {
    const double stored_bytes = (double)number(&facts, "stored_bytes_derived");
    if (*fact(&facts, "stored_bytes_derived") == '\0')
      continue;
    read_published(fact(&facts, "config_file"));
    ck_assert_double_eq_tol(model_weights_bytes(&model) / stored_bytes, 1.0, 0.001);
    rows++;
  }
  ck_assert_uint_ge(rows, 7);
}
END_TEST

/* What is written reads back to the same object, the same counts and no assumption. */
static void check_round_trip(const char *name)
{
  json_t *written = scratch_json_steal(architecture_write(&model));
  json_t *sentences = scratch_json_steal(json_array());
  static struct model copy;
  architecture_read(&copy, sentences, written, "/architecture", &faults);
  ck_assert_msg(faults.count == 0, "%s: %s", name, first_fault());
  ck_assert_uint_eq(json_array_size(sentences), 0);
  ck_assert_msg(json_equal(written, scratch_json_steal(architecture_write(&copy))), "%s: written twice", name);
  ck_assert_uint_eq(copy.layer_count, model.layer_count);
  ck_assert_int_eq(memcmp(copy.layer_order, model.layer_order, sizeof model.layer_order), 0);
  ck_assert_uint_eq(model_parameters_total(&copy), model_parameters_total(&model));
  ck_assert_uint_eq(model_parameters_active(&copy), model_parameters_active(&model));
  ck_assert(is_same(model_weights_bytes(&copy), model_weights_bytes(&model)));
  ck_assert(is_same(model_kv_sequence_bytes(&copy, PRECISION_BF16, 9999.0),
                    model_kv_sequence_bytes(&model, PRECISION_BF16, 9999.0)));
  ck_assert_int_eq(copy.precision.kv_cache, model.precision.kv_cache);
  ck_assert_int_eq(copy.precision.has_static_scales, model.precision.has_static_scales);
}

START_TEST(round_trips_every_model)
{
  struct facts facts;
  unsigned rows = 0;
  facts_open(&facts);
  while (facts_next(&facts)) {
    read_published(fact(&facts, "config_file"));
    if (faults.count != 0)
      continue;
    check_round_trip(fact(&facts, "model"));
    rows++;
  }
  ck_assert_uint_ge(rows, 81);
}
END_TEST

/* ---- one key at a time ---- */

#define LLAMA "'model_type':'llama','torch_dtype':'bfloat16','tie_word_embeddings':false,'vocab_size':1000,"
#define SIZES "'hidden_size':64,'num_hidden_layers':8,'num_attention_heads':4,'intermediate_size':128,"
#define TAIL "'max_position_embeddings':4096,'num_key_value_heads':2"

START_TEST(assumes_nothing_when_all_is_said)
{
  read_text("{" LLAMA SIZES TAIL ",'head_dim':16,'attention_bias':false,'some_new_key':{'x':[1]}}");
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_uint_eq(json_array_size(assumptions), 0);
}
END_TEST

/* A layer of the config above: 64·(64 + 2·32) + 64·64 = 12,288; 3·64·128 = 24,576; norms 128. Eight of them, the final norm
   and 2·64,000: 424,000. */
START_TEST(takes_an_unknown_type_by_its_fields)
{
  read_text("{'model_type':'brand_new','vocab_size':1000," SIZES TAIL "}");
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_uint_eq(model_parameters_total(&model), 8 * 36992 + 64 + 128000);
  ck_assert(assumes("brand_new"));
  ck_assert(assumes("tie_word_embeddings"));
  ck_assert(assumes("head_dim"));
  ck_assert(assumes("dtype"));
}
END_TEST

START_TEST(reads_windows)
{
  static const struct {
    const char *keys;
    unsigned windowed, window_tokens;
  } cases[] = {
      {"'sliding_window':512", 8, 512},
      {"'sliding_window':null", 0, 0},
      {"'sliding_window':512,'use_sliding_window':false", 0, 0},
      {"'sliding_window':512,'use_sliding_window':null", 8, 512},
      {"'sliding_window':512,'max_window_layers':6", 0, 0},
      {"'sliding_window':512,'max_window_layers':6,'use_sliding_window':true", 2, 512},
      {"'sliding_window':4096", 0, 0},
      {"'sliding_window':512,'sliding_window_pattern':4", 6, 512},
      {"'sliding_window':512,'_sliding_window_pattern':2", 4, 512},
      {"'sliding_window':512,'sliding_window_pattern':'LLLG'", 6, 512},
      {"'sliding_window':512,'layer_types':['sliding_attention','full_attention','sliding_attention','full_attention',"
       "'sliding_attention','full_attention','full_attention','full_attention']",
       3, 512},
      {"'attention_chunk_size':1024", 6, 1024},
      {"'attention_chunk_size':1024,'no_rope_layers':[1,1,1,0,1,1,0,0]", 5, 1024},
  };
  read_text(scratch_printf("{" LLAMA SIZES TAIL ",%s}", cases[_i].keys));
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_uint_eq(windowed_layers(), cases[_i].windowed);
  for (unsigned kind = 0; kind < model.layer_kind_count; kind++)
    if (model.layers[kind].attention.window_tokens != 0)
      ck_assert_uint_eq(model.layers[kind].attention.window_tokens, cases[_i].window_tokens);
}
END_TEST

START_TEST(reads_where_experts_are)
{
  static const struct {
    const char *keys;
    unsigned layers;
  } cases[] = {
      {"'num_local_experts':4", 8},
      {"'num_experts':4,'decoder_sparse_step':2", 4},
      {"'num_experts':4,'decoder_sparse_step':1,'mlp_only_layers':[0,7]", 6},
      {"'n_routed_experts':4,'first_k_dense_replace':3", 5},
      {"'n_routed_experts':4,'first_k_dense_replace':1,'moe_layer_freq':2", 3},
      {"'n_routed_experts':4,'moe_layer_freq':[0,1,1,1,1,1,1,0]", 6},
      {"'num_local_experts':4,'interleave_moe_layer_step':4", 2},
      {"'num_local_experts':4,'moe_layers':[1,3,5]", 3},
      {"'num_experts':4,'expert_layer_period':2,'expert_layer_offset':1", 4},
      {"'num_experts':0", 0},
  };
  unsigned layers = 0;
  read_text(scratch_printf("{" LLAMA SIZES TAIL ",'num_experts_per_tok':2,%s}", cases[_i].keys));
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  for (unsigned kind = 0; kind < model.layer_kind_count; kind++)
    if (model.layers[kind].feed_forward.kind == FEED_FORWARD_MOE)
      layers += model_layers_of_kind(&model, kind);
  ck_assert_uint_eq(layers, cases[_i].layers);
}
END_TEST

/* KV bytes of 8 layers with these heads: 2·2 bytes·16 a head. */
START_TEST(reads_kv_heads_by_layer)
{
  read_text("{" LLAMA SIZES "'num_key_value_heads':[4,4,2,2,1,1,1,1]}");
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 16 * 64));
  read_text("{" LLAMA SIZES "'num_key_value_heads':[4,4,3,2,1,1,1,1]}");
  ck_assert(has_fault("/hf_config/num_key_value_heads", FAULT_CONFLICT));
  read_text("{" LLAMA SIZES "'num_key_value_heads':null}");
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 8 * 4 * 64));
  ck_assert(assumes("num_key_value_heads"));
}
END_TEST

START_TEST(finds_nested_decoders)
{
  read_text("{'model_type':'new_vl','tie_word_embeddings':true,'dtype':'float16','vision_config':{'hidden_size':7},"
            "'llm_config':{'model_type':'llama','vocab_size':1000," SIZES TAIL "}}");
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert(model.has_tied_embeddings);
  ck_assert_int_eq(model.precision.attention, PRECISION_FP16);
  ck_assert(assumes("vision tower"));
  read_text("{'text_config':{'model_type':'llama','hidden_size':-1}}");
  ck_assert(has_fault("/hf_config/text_config/hidden_size", FAULT_OUT_OF_RANGE));
}
END_TEST

/* ---- quantisation ---- */

START_TEST(reads_formats_of_published_models)
{
  static const struct {
    const char *file;
    enum precision attention, dense, experts, head, kv_cache;
    bool is_static;
  } cases[] = {
      {"Qwen--Qwen2.5-7B-Instruct-AWQ.json", PRECISION_INT4, PRECISION_INT4, PRECISION_INT4, PRECISION_BF16,
       PRECISION_NONE, false},
      {"Qwen--Qwen3-32B-FP8.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16, PRECISION_NONE, false},
      {"Qwen--Qwen3-235B-A22B-FP8.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16, PRECISION_NONE,
       false},
      {"RedHatAI--Meta-Llama-3.1-8B-Instruct-FP8.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16,
       PRECISION_NONE, true},
      {"mistralai--Devstral-2-123B-Instruct-2512.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16,
       PRECISION_NONE, true},
      {"nvidia--Llama-3.1-70B-Instruct-FP8.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16,
       PRECISION_FP8, true},
      {"nvidia--Qwen3-235B-A22B-NVFP4.json", PRECISION_NVFP4, PRECISION_NVFP4, PRECISION_NVFP4, PRECISION_BF16,
       PRECISION_FP8, false},
      {"openai--gpt-oss-20b.json", PRECISION_BF16, PRECISION_BF16, PRECISION_MXFP4, PRECISION_BF16, PRECISION_NONE,
       false},
      {"moonshotai--Kimi-K2.5.json", PRECISION_BF16, PRECISION_BF16, PRECISION_INT4, PRECISION_BF16, PRECISION_NONE,
       false},
      {"unsloth--Meta-Llama-3.1-8B-Instruct-bnb-4bit.json", PRECISION_NF4, PRECISION_NF4, PRECISION_NF4, PRECISION_BF16,
       PRECISION_NONE, false},
      {"allenai--OLMo-2-1124-7B.json", PRECISION_BF16, PRECISION_BF16, PRECISION_BF16, PRECISION_BF16, PRECISION_NONE,
       false},
  };
  read_published(cases[_i].file);
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_int_eq(model.precision.embeddings, PRECISION_BF16);
  ck_assert_int_eq(model.precision.attention, cases[_i].attention);
  ck_assert_int_eq(model.precision.dense, cases[_i].dense);
  ck_assert_int_eq(model.precision.experts, cases[_i].experts);
  ck_assert_int_eq(model.precision.head, cases[_i].head);
  ck_assert_int_eq(model.precision.kv_cache, cases[_i].kv_cache);
  ck_assert_int_eq(model.precision.has_static_scales, cases[_i].is_static);
}
END_TEST

/* What stays unquantised, by the ways in which tools write it. */
START_TEST(reads_ignore_lists)
{
  static const struct {
    const char *entries;
    bool attention, dense; /* quantised */
  } cases[] = {
      {"'lm_head'", true, true},
      {"'re:.*self_attn.*'", false, true},
      {"'model.layers.*.self_attn'", false, true},
      {"'re:.*mlp\\\\.(gate|up|down)_proj.*'", true, false},
      {"'model.layers.0.mlp.gate','model.layers.0.input_layernorm','model.embed_tokens','visual'", true, true},
      {"'model.layers.0','model.layers.7'", true, true},
      {"'re:.*layers\\\\.(0|1|2|3|4)\\\\..*'", false, false},
      {"'model.layers.0.self_attn','model.layers.1.self_attn','model.layers.2.self_attn','model.layers.3.self_attn',"
       "'model.layers.4.self_attn','model.layers.99.mlp'",
       false, true},
      {"'model.layers.1.linear_attn.in_proj_ba','model.layers.1.mlp.shared_expert_gate'", true, true},
      {"17, 'not a module'", true, true},
  };
  read_text(scratch_printf("{" LLAMA SIZES TAIL
                           ",'quantization_config':{'quant_method':'fp8','modules_to_not_convert':[%s]}}",
                           cases[_i].entries));
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_int_eq(model.precision.attention, cases[_i].attention ? PRECISION_FP8 : PRECISION_BF16);
  ck_assert_int_eq(model.precision.dense, cases[_i].dense ? PRECISION_FP8 : PRECISION_BF16);
}
END_TEST

START_TEST(reads_quantisation_methods)
{
  static const struct {
    const char *config;
    enum precision precision, kv_cache;
    double weight_bytes;
  } cases[] = {
      {"{'quant_method':'gptq','bits':8,'group_size':128}", PRECISION_INT8, PRECISION_NONE, 0.0},
      {"{'quant_method':'gptq','bits':4,'group_size':32}", PRECISION_INT4, PRECISION_NONE, 0.5 + 2.5 / 32},
      {"{'quant_method':'awq','bits':4,'group_size':-1}", PRECISION_INT4, PRECISION_NONE, 0.5},
      {"{'quant_method':'bitsandbytes','load_in_8bit':true}", PRECISION_INT8, PRECISION_NONE, 0.0},
      {"{'quant_method':'bitsandbytes','load_in_4bit':true}", PRECISION_NF4, PRECISION_NONE, 0.5625},
      {"{'quant_method':'fbgemm_fp8','modules_to_not_convert':[]}", PRECISION_FP8, PRECISION_NONE, 0.0},
      {"{'quant_method':'modelopt','quant_algo':'NVFP4','kv_cache_quant_algo':'FP8'}", PRECISION_NVFP4, PRECISION_FP8,
       0.0},
      {"{'quant_method':'compressed-tensors','config_groups':{'a':{'weights':{'num_bits':8,'type':'int'}}},"
       "'kv_cache_scheme':{'num_bits':8,'type':'float'}}",
       PRECISION_INT8, PRECISION_FP8, 0.0},
      {"{'quant_method':'compressed-tensors','config_groups':{'a':{'weights':{'num_bits':4,'type':'float',"
       "'group_size':16}}}}",
       PRECISION_NVFP4, PRECISION_NONE, 0.0},
  };
  read_text(scratch_printf("{" LLAMA SIZES TAIL ",'quantization_config':%s}", cases[_i].config));
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_int_eq(model.precision.attention, cases[_i].precision);
  ck_assert_int_eq(model.precision.kv_cache, cases[_i].kv_cache);
  ck_assert(is_same(model.precision.quantised_weight_bytes, cases[_i].weight_bytes));
  ck_assert_int_eq(model.precision.head, PRECISION_BF16);
}
END_TEST

/* ---- wrong configs ---- */

START_TEST(faults_wrong_values)
{
  static const struct {
    const char *config, *pointer;
    enum fault_code code;
  } cases[] = {
      {"[]", "", FAULT_WRONG_TYPE},
      {"'text'", "", FAULT_WRONG_TYPE},
      {"{}", "/hidden_size", FAULT_MISSING},
      {"{}", "/vocab_size", FAULT_MISSING},
      {"{}", "/num_hidden_layers", FAULT_MISSING},
      {"{}", "/num_attention_heads", FAULT_MISSING},
      {"{}", "/intermediate_size", FAULT_MISSING},
      {"{" LLAMA "'hidden_size':null}", "/hidden_size", FAULT_MISSING},
      {"{" LLAMA "'hidden_size':'4096'}", "/hidden_size", FAULT_WRONG_TYPE},
      {"{" LLAMA "'hidden_size':4096.0}", "/hidden_size", FAULT_WRONG_TYPE},
      {"{" LLAMA "'hidden_size':-4096}", "/hidden_size", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'hidden_size':9223372036854775807}", "/hidden_size", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'n_embd':0}", "/n_embd", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'num_hidden_layers':1000000000}", "/num_hidden_layers", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'num_hidden_layers':1e9}", "/num_hidden_layers", FAULT_WRONG_TYPE},
      {"{" LLAMA "'num_attention_heads':0}", "/num_attention_heads", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'num_attention_heads':[4]}", "/num_attention_heads", FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'num_key_value_heads':3}", "/num_key_value_heads", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'num_key_value_heads':8}", "/num_key_value_heads", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'num_key_value_heads':0}", "/num_key_value_heads", FAULT_OUT_OF_RANGE},
      {"{" LLAMA SIZES "'num_key_value_heads':[1,1]}", "/num_key_value_heads", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'head_dim':0}", "/head_dim", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'hidden_size':65,'num_hidden_layers':8,'num_attention_heads':4,'intermediate_size':8}",
       "/num_attention_heads", FAULT_CONFLICT},
      {"{'tie_word_embeddings':'yes'}", "/tie_word_embeddings", FAULT_WRONG_TYPE},
      {"{'model_type':'llama','attention_bias':1}", "/attention_bias", FAULT_MISSING},
      {"{" LLAMA SIZES "'layer_types':['full_attention']}", "/layer_types", FAULT_CONFLICT},
      {"{'model_type':7}", "/model_type", FAULT_WRONG_TYPE},
      {"{" SIZES "'vocab_size':9,'torch_dtype':16}", "/torch_dtype", FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'num_local_experts':8,'num_experts_per_tok':1,'moe_layers':7}", "/moe_layers",
       FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'awq','bits':4,'group_size':'128'}}",
       "/quantization_config/group_size", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'layer_types':7}", "/layer_types", FAULT_WRONG_TYPE},
      {"{" LLAMA "'num_hidden_layers':1,'layer_types':['magic']}", "/layer_types", FAULT_UNSUPPORTED},
      {"{" LLAMA "'num_hidden_layers':1,'layer_types':['sliding_attention']}", "/sliding_window", FAULT_MISSING},
      {"{" LLAMA SIZES "'sliding_window':0}", "/sliding_window", FAULT_OUT_OF_RANGE},
      {"{" LLAMA SIZES "'sliding_window':8,'sliding_window_pattern':'LX'}", "/sliding_window_pattern",
       FAULT_UNKNOWN_VALUE},
      {"{" LLAMA SIZES "'hybrid_override_pattern':'MM'}", "/hybrid_override_pattern", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'hybrid_override_pattern':'MMMMQQQQ'}", "/hybrid_override_pattern", FAULT_UNKNOWN_VALUE},
      {"{" LLAMA SIZES "'attn_type_list':[0,1,2,0,0,0,0,0]}", "/attn_type_list", FAULT_UNKNOWN_VALUE},
      {"{" LLAMA SIZES "'full_attention_interval':4}", "/full_attention_interval", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'num_local_experts':8}", "/num_experts_per_tok", FAULT_MISSING},
      {"{" LLAMA SIZES "'num_local_experts':8,'num_experts_per_tok':9}", "/num_experts_per_tok", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'num_local_experts':8,'num_experts_per_tok':1,'decoder_sparse_step':0}", "/decoder_sparse_step",
       FAULT_OUT_OF_RANGE},
      {"{" LLAMA SIZES "'kv_lora_rank':512}", "/qk_rope_head_dim", FAULT_MISSING},
      {"{" LLAMA SIZES "'block_configs':[{}]}", "/block_configs", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'is_encoder_decoder':true}", "/is_encoder_decoder", FAULT_UNSUPPORTED},
      {"{" LLAMA "'hidden_size':64,'num_hidden_layers':8,'state_size':16}", "/state_size", FAULT_UNSUPPORTED},
      {"{'model_type':'opt','hidden_size':64,'word_embed_proj_dim':32}", "/word_embed_proj_dim", FAULT_UNSUPPORTED},
      {"{" SIZES "'vocab_size':9,'torch_dtype':'int3'}", "/torch_dtype", FAULT_UNKNOWN_VALUE},
      {"{" LLAMA SIZES "'quantization_config':'fp8'}", "/quantization_config", FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'quantization_config':{}}", "/quantization_config/quant_method", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'aqlm'}}", "/quantization_config/quant_method",
       FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'gptq','bits':3}}", "/quantization_config/bits",
       FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'fp8','modules_to_not_convert':'lm_head'}}",
       "/quantization_config/modules_to_not_convert", FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'compressed-tensors'}}",
       "/quantization_config/config_groups", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'modelopt','quant_algo':'MIXED_PRECISION'}}",
       "/quantization_config/quant_algo", FAULT_UNSUPPORTED},
  };
  read_text(cases[_i].config);
  if (strstr(cases[_i].config, "attention_bias") != NULL) /* a wrong flag is told beside what is missing */
    ck_assert(has_fault("/hf_config/attention_bias", FAULT_WRONG_TYPE));
  else
    ck_assert_msg(has_fault(scratch_printf("/hf_config%s", cases[_i].pointer), cases[_i].code), "%s: %s",
                  cases[_i].config, first_fault());
}
END_TEST

START_TEST(tells_all_faults_at_once)
{
  read_text("{'model_type':'llama','hidden_size':'4096','num_hidden_layers':0,'num_attention_heads':-1,"
            "'num_key_value_heads':2.5,'vocab_size':[],'torch_dtype':'int3','tie_word_embeddings':7}");
  ck_assert(has_fault("/hf_config/hidden_size", FAULT_WRONG_TYPE));
  ck_assert(has_fault("/hf_config/num_hidden_layers", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault("/hf_config/num_attention_heads", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault("/hf_config/num_key_value_heads", FAULT_WRONG_TYPE));
  ck_assert(has_fault("/hf_config/vocab_size", FAULT_WRONG_TYPE));
  ck_assert(has_fault("/hf_config/torch_dtype", FAULT_UNKNOWN_VALUE));
  ck_assert(has_fault("/hf_config/tie_word_embeddings", FAULT_WRONG_TYPE));
  ck_assert(has_fault("/hf_config/intermediate_size", FAULT_MISSING));
  ck_assert_uint_eq(faults.count, 8);
}
END_TEST

/* Every key of every published config, turned into something wrong, is a fault or is ignored: never a crash. */
START_TEST(survives_wrong_types_everywhere)
{
  static const char *const files[] = {
      "deepseek-ai--DeepSeek-V3.2.json", "openai--gpt-oss-20b.json", "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
      "MiniMaxAI--MiniMax-Text-01.json", "tiiuae--falcon-7b.json",   "Qwen--Qwen3-Next-80B-A3B-Instruct.json",
      "XiaomiMiMo--MiMo-V2-Flash.json"};
  static const char *const wrong[] = {"null", "true",          "-1", "0", "1e300", "9223372036854775807", "\"x\"", "[]",
                                      "{}",   "[null,{},\"\"]"};
  const char *key;
  json_t *value;
  size_t tried = 0;
  json_t *config = load(files[_i]);
  json_t *names = scratch_json_steal(json_copy(config));
  json_object_foreach(names, key, value)
  {
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
      json_t *changed = json_copy(config);
      ck_assert_int_eq(json_object_set_new(changed, key, json_loads(wrong[i], JSON_DECODE_ANY, NULL)), 0);
      again();
      hf_config_read(&model, assumptions, changed, NULL, "", &faults);
      if (faults.count == 0)
        ck_assert_uint_gt(model_parameters_total(&model), 0);
      json_decref(changed);
      tried++;
    }
  }
  ck_assert_uint_gt(tried, 100);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_config");
  TCase *facts = suite_case(suite, "facts", prepare, release);
  TCase *keys = suite_case(suite, "keys", prepare, release);
  TCase *quantisation = suite_case(suite, "quantisation", prepare, release);
  TCase *wrong = suite_case(suite, "wrong", prepare, release);
  tcase_add_test(facts, agrees_with_the_facts);
  tcase_add_loop_test(facts, agrees_with_published_totals, 0, 4);
  tcase_add_test(facts, refuses_what_it_cannot_count);
  tcase_add_test(facts, weighs_quantised_checkpoints);
  tcase_add_test(facts, round_trips_every_model);
  tcase_add_test(keys, assumes_nothing_when_all_is_said);
  tcase_add_test(keys, takes_an_unknown_type_by_its_fields);
  tcase_add_loop_test(keys, reads_windows, 0, 13);
  tcase_add_loop_test(keys, reads_where_experts_are, 0, 10);
  tcase_add_test(keys, reads_kv_heads_by_layer);
  tcase_add_test(keys, finds_nested_decoders);
  tcase_add_loop_test(quantisation, reads_formats_of_published_models, 0, 11);
  tcase_add_loop_test(quantisation, reads_ignore_lists, 0, 10);
  tcase_add_loop_test(quantisation, reads_quantisation_methods, 0, 9);
  tcase_add_loop_test(wrong, faults_wrong_values, 0, 55);
  tcase_add_test(wrong, tells_all_faults_at_once);
  tcase_add_loop_test(wrong, survives_wrong_types_everywhere, 0, 7);
  return suite_run(suite);
}
