/* Counts of models written down by hand, each with its derivation. */
#include "core/model.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"

/* Exactly equal: byte counts are whole numbers. */
static bool is_same(double seen, double wanted)
{
  return !(seen < wanted) && !(seen > wanted);
}

static void append(struct model *model, const struct layer *layer, unsigned count)
{
  struct error e;
  ck_assert_int_eq(model_append_layers(model, layer, count, &e), ERR_OK);
}

static void set_precision(struct model *model, enum precision precision)
{
  struct model_precision *p = &model->precision;
  p->embeddings = p->head = PRECISION_BF16;
  p->attention = p->dense = p->experts = precision;
}

static struct layer llama_layer(unsigned heads, unsigned kv_heads, unsigned intermediate, unsigned hidden)
{
  struct layer layer;
  memset(&layer, 0, sizeof layer);
  layer.attention.kind = ATTENTION_GROUPED;
  layer.attention.query_heads = heads;
  layer.attention.kv_heads = kv_heads;
  layer.attention.head_dim = layer.attention.value_head_dim = 128;
  layer.feed_forward.kind = FEED_FORWARD_DENSE;
  layer.feed_forward.intermediate_size = intermediate;
  layer.feed_forward.is_gated = true;
  layer.norm_parameters = 2 * hidden;
  return layer;
}

static void make_llama(struct model *model, unsigned layers, unsigned hidden, unsigned heads, unsigned intermediate)
{
  const struct layer layer = llama_layer(heads, 8, intermediate, hidden);
  memset(model, 0, sizeof *model);
  model->hidden_size = hidden;
  model->vocab_size = 128256;
  model->max_context_tokens = 131072;
  model->final_norm_parameters = hidden;
  set_precision(model, PRECISION_BF16);
  append(model, &layer, layers);
}

/* Llama-3.1-8B, a layer: attention 4096·(4096 + 2·1024) + 4096·4096 = 41,943,040; MLP 3·4096·14336 = 176,160,768; norms
   8,192: together 218,112,000. 32 of them 6,979,584,000; final norm 4,096; embedding and head 2·128256·4096 =
   1,050,673,152. Sum 8,030,261,248, the published count. */
START_TEST(counts_llama_8b)
{
  struct model model;
  struct parameter_counts counts;
  make_llama(&model, 32, 4096, 32, 14336);
  counts = model_parameters(&model);
  ck_assert_uint_eq(counts.attention, 32ULL * 41943040);
  ck_assert_uint_eq(counts.dense, 32ULL * 176160768);
  ck_assert_uint_eq(counts.norms, 65ULL * 4096);
  ck_assert_uint_eq(counts.embeddings, 525336576);
  ck_assert_uint_eq(counts.head, 525336576);
  ck_assert_uint_eq(model_parameters_total(&model), 8030261248);
  ck_assert_uint_eq(model_parameters_active(&model), 8030261248);
  ck_assert(is_same(model_weights_bytes(&model), 2.0 * 8030261248));
  model.has_tied_embeddings = true;
  ck_assert_uint_eq(model_parameters_total(&model), 8030261248 - 525336576);
  model.has_head_bias = true; /* stays beside a tied head */
  ck_assert_uint_eq(model_parameters_total(&model), 8030261248 - 525336576 + 128256);
}
END_TEST

/* KV bytes a token: layers · 2 · 8 heads · 128 · 2 bytes: 32, 80 and 126 layers. fp8 halves, fp32 doubles. */
START_TEST(counts_kv_bytes)
{
  struct model model;
  make_llama(&model, 32, 4096, 32, 14336);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_NONE).growing_per_token_bytes, 131072));
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_FP8).growing_per_token_bytes, 65536));
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_FP32).growing_per_token_bytes, 262144));
  ck_assert(is_same(model_kv_sequence_bytes(&model, PRECISION_NONE, 1000.0), 131072000));
  make_llama(&model, 80, 8192, 64, 28672);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 327680));
  make_llama(&model, 126, 16384, 128, 53248);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 516096));
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).windowed_per_token_bytes, 0));
}
END_TEST

/* fp8 linears: 32·(41,943,040 + 176,160,768) = 6,979,321,856 bytes, and 32·7 scales of 4 bytes; the rest, 1,050,939,392
   parameters, 2 bytes each. */
START_TEST(weighs_quantised_modules)
{
  struct model model;
  make_llama(&model, 32, 4096, 32, 14336);
  set_precision(&model, PRECISION_FP8);
  ck_assert(is_same(model_weights_bytes(&model), 6979321856.0 + 4.0 * 224 + 2.0 * 1050939392.0));
  set_precision(&model, PRECISION_INT4);
  model.precision.quantised_weight_bytes = 0.5 + 2.0 / 128; /* a 16-bit scale for 128 weights */
  ck_assert(is_same(model_weights_bytes(&model), 6979321856.0 * 0.515625 + 2.0 * 1050939392.0));
  ck_assert(is_same(model_bytes_per_weight(&model, PRECISION_INT4), 0.515625));
  ck_assert(is_same(model_bytes_per_weight(&model, PRECISION_FP8), 1.0));
  model.precision.quantised_weight_bytes = 0.0;
  ck_assert(is_same(model_bytes_per_weight(&model, PRECISION_INT4), precision_weight_bytes(PRECISION_INT4)));
}
END_TEST

/* hidden 10, 4 heads of 3, 2 KV heads: qkv 10·(12 + 6 + 6) = 240, out 12·10 = 120. Biases 24 and 10; gate 10·12 more and
   12 more bias; norms of 3 and 3; sinks 4. MLP of 7, two matrices 140, biases 7 and 10. */
START_TEST(counts_biases_gates_and_norms)
{
  struct model model;
  struct layer layer = llama_layer(4, 2, 7, 10);
  make_llama(&model, 1, 10, 4, 7);
  layer.attention.head_dim = layer.attention.value_head_dim = 3;
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 360);
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).dense, 210);
  layer.attention.has_qkv_bias = layer.attention.has_output_bias = true;
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 394);
  layer.attention.has_output_gate = true;
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 394 + 132);
  layer.attention.query_norm_size = layer.attention.key_norm_size = 3;
  layer.attention.sink_parameters = 4;
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 394 + 132 + 10);
  layer.feed_forward.is_gated = false;
  layer.feed_forward.has_up_bias = layer.feed_forward.has_down_bias = true;
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).dense, 157);
}
END_TEST

/* hidden 10, 5 experts of width 6, 2 of them a token: an expert 3·10·6 = 180, router 50; a shared expert of 4: 120, its
   gate 10; router bias 5; expert biases 2·6 + 10 = 22 each. */
START_TEST(counts_experts)
{
  struct model model;
  struct layer layer = llama_layer(4, 2, 6, 10);
  struct parameter_counts counts;
  make_llama(&model, 1, 10, 4, 6);
  layer.feed_forward.kind = FEED_FORWARD_MOE;
  layer.feed_forward.experts = 5;
  layer.feed_forward.experts_per_token = 2;
  counts = model_layer_parameters(&model, &layer);
  ck_assert_uint_eq(counts.experts, 900);
  ck_assert_uint_eq(counts.experts_active, 360);
  ck_assert_uint_eq(counts.router, 50);
  ck_assert_uint_eq(counts.dense, 0);
  layer.feed_forward.shared_intermediate_size = 4;
  layer.feed_forward.has_shared_gate = layer.feed_forward.has_router_bias = layer.feed_forward.has_expert_bias = true;
  counts = model_layer_parameters(&model, &layer);
  ck_assert_uint_eq(counts.dense, 130);
  ck_assert_uint_eq(counts.router, 55);
  ck_assert_uint_eq(counts.experts, 900 + 110);
  ck_assert_uint_eq(counts.experts_active, 360 + 44);
}
END_TEST

/* The same experts on a latent of 4: 3·4·6 = 72 each, and 10·4 to it and back, which are no experts. */
START_TEST(counts_experts_on_a_latent)
{
  struct model model;
  struct layer layer = llama_layer(4, 2, 6, 10);
  struct parameter_counts counts;
  make_llama(&model, 1, 10, 4, 6);
  layer.feed_forward.kind = FEED_FORWARD_MOE;
  layer.feed_forward.experts = 5;
  layer.feed_forward.experts_per_token = 2;
  layer.feed_forward.latent_size = 4;
  counts = model_layer_parameters(&model, &layer);
  ck_assert_uint_eq(counts.experts, 5 * 72);
  ck_assert_uint_eq(counts.experts_active, 2 * 72);
  ck_assert_uint_eq(counts.router, 50);
  ck_assert_uint_eq(counts.dense, 80);
}
END_TEST

/* hidden 10, 4 heads of 3, 2 KV heads: values that are keys save 10·6 of 360 parameters and no KV; inputs of width 20 double
   q, k and v, 240. A layer that shares parameters adds none, but KV of 2·6·2 bytes; what else it has is its own. */
START_TEST(counts_what_is_shared_once)
{
  struct model model;
  struct layer layer = llama_layer(4, 2, 7, 10);
  uint64_t before;
  make_llama(&model, 1, 10, 4, 7);
  layer.attention.head_dim = layer.attention.value_head_dim = 3;
  layer.attention.values_are_keys = true;
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 300);
  layer.attention.values_are_keys = false;
  layer.attention.input_size = 20;
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 360 + 240);
  model.layer_count = model.layer_kind_count = 0;
  append(&model, &layer, 1);
  before = model_parameters_total(&model);
  layer.shares_parameters = true;
  append(&model, &layer, 2);
  ck_assert_uint_eq(model.layer_kind_count, 2);
  ck_assert_uint_eq(model_parameters_total(&model), before);
  ck_assert_uint_eq(model_parameters_active(&model), before);
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 600);
  ck_assert(is_same(model_weights_bytes(&model), 2.0 * (double)before));
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 3 * 24));
  layer.shares_parameters = false;
  layer.other_parameters = 1000;
  append(&model, &layer, 1);
  ck_assert_uint_eq(model_parameters_total(&model), before + 600 + 210 + 20 + 1000);
  model.layer_embedding_parameters = 7;
  model.extra_parameters = 5;
  ck_assert_uint_eq(model_parameters_total(&model), before + 600 + 210 + 20 + 1000 + 12);
}
END_TEST

/* Two modules of Llama-3.1-8B's layer: 218,112,000 each, a projection 2·4096² and three norms; with copies of embedding and
   head 2·525,336,576 more. The decoder's total is none the wiser, nor does the tower count. */
START_TEST(counts_what_is_beside)
{
  struct model model;
  struct parameter_counts counts;
  make_llama(&model, 32, 4096, 32, 14336);
  counts = model_draft_parameters(&model);
  ck_assert_uint_eq(parameter_counts_total(&counts), 0);
  model.draft.modules = 2;
  model.draft.layer = model.layers[0];
  model.vision_parameters = 400000000;
  counts = model_draft_parameters(&model);
  ck_assert_uint_eq(parameter_counts_total(&counts), 2ULL * (218112000 + 2 * 4096 * 4096 + 3 * 4096));
  model.draft.has_own_embeddings = true;
  counts = model_draft_parameters(&model);
  ck_assert_uint_eq(parameter_counts_total(&counts),
                    2ULL * (218112000 + 2 * 4096 * 4096 + 3 * 4096 + 2 * 525336576ULL));
  ck_assert_uint_eq(model_parameters_total(&model), 8030261248);
}
END_TEST

/* fp8 in blocks of 128: a layer of Llama-3.1-8B has q and o 32·32 each, k and v 8·32 each, gate and up 112·32 each, down
   32·112: 13,312 scales. An int8 head has one for every one of 128,256 outputs, and none where it is tied. */
START_TEST(counts_scales)
{
  struct model model;
  make_llama(&model, 32, 4096, 32, 14336);
  ck_assert_uint_eq(model_parameters(&model).scales, 0);
  set_precision(&model, PRECISION_FP8);
  model.precision.scale_block_outputs = model.precision.scale_block_inputs = 128;
  ck_assert_uint_eq(model_parameters(&model).scales, 32 * 13312);
  model.precision.has_static_scales = true;
  ck_assert_uint_eq(model_parameters(&model).scales, 32 * (13312 + 7));
  set_precision(&model, PRECISION_BF16);
  model.precision.head = PRECISION_INT8;
  model.precision.scale_block_outputs = 1;
  model.precision.scale_block_inputs = 0;
  model.precision.has_static_scales = false;
  ck_assert_uint_eq(model_parameters(&model).scales, 128256);
  model.has_tied_embeddings = true;
  ck_assert_uint_eq(model_parameters(&model).scales, 0);
}
END_TEST

/* DeepSeek-V3's attention: q 7168·1536 + 1536·128·192, latent 7168·576, up 512·128·256, out 128·128·7168, norms of the
   latents 1536 + 512: 187,107,328. KV 61·576·2 = 70,272 bytes. With an indexer (64 heads of 128): 1536·8192 +
   7168·(128 + 64) + 2·128 = 13,959,424 more parameters and 132 bytes of fp8 keys and scale more a layer. */
START_TEST(counts_latent_attention)
{
  struct model model;
  struct layer layer = llama_layer(128, 1, 18432, 7168);
  struct attention *a = &layer.attention;
  make_llama(&model, 1, 7168, 128, 18432);
  model.layer_count = model.layer_kind_count = 0;
  a->kind = ATTENTION_LATENT;
  a->query_lora_rank = 1536;
  a->kv_lora_rank = 512;
  a->rope_head_dim = 64;
  a->nope_head_dim = 128;
  append(&model, &layer, 61);
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 187107328);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 70272));
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_FP8).growing_per_token_bytes, 35136));
  a->index_heads = 64;
  a->index_head_dim = 128;
  a->index_top_k = 2048;
  append(&model, &layer, 1);
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 187107328 + 13959424);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 70272 + 1152 + 132));
}
END_TEST

/* Three layers of 4,096 bytes a token (2·8·128·2), two of them with a window of 100: at 50 tokens all three grow, at 1,000
   one does. A state layer adds its bytes whatever the length; shared KV adds none. */
START_TEST(holds_windows_and_states)
{
  struct model model;
  struct layer layer = llama_layer(32, 8, 14336, 4096);
  make_llama(&model, 1, 4096, 32, 14336);
  layer.attention.window_tokens = 100;
  append(&model, &layer, 2);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 4096));
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).windowed_per_token_bytes, 8192));
  ck_assert(is_same(model_kv_sequence_bytes(&model, PRECISION_BF16, 50.0), 3 * 4096 * 50));
  ck_assert(is_same(model_kv_sequence_bytes(&model, PRECISION_BF16, 1000.0), 4096 * 1000 + 2 * 4096 * 100));
  memset(&layer.attention, 0, sizeof layer.attention);
  layer.attention.kind = ATTENTION_LINEAR;
  layer.attention.linear_parameters = 77;
  layer.attention.linear_state_elements = 500;
  append(&model, &layer, 2);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_FP8).state_per_sequence_bytes, 2000));
  ck_assert(is_same(model_kv_sequence_bytes(&model, PRECISION_BF16, 50.0), 3 * 4096 * 50 + 2000));
  ck_assert_uint_eq(model_layer_parameters(&model, &layer).attention, 77);
  layer.attention.linear_state_bytes = 1800;
  append(&model, &layer, 1);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).state_per_sequence_bytes, 3800));
  layer = llama_layer(32, 8, 14336, 4096);
  layer.attention.shares_kv = true;
  append(&model, &layer, 1);
  ck_assert(is_same(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 4096));
}
END_TEST

START_TEST(joins_equal_layers)
{
  struct model model;
  struct layer a = llama_layer(32, 8, 14336, 4096);
  struct layer b = llama_layer(32, 4, 14336, 4096);
  struct error e;
  memset(&model, 0, sizeof model);
  append(&model, &a, 2);
  append(&model, &b, 1);
  append(&model, &a, 3);
  ck_assert_uint_eq(model.layer_kind_count, 2);
  ck_assert_uint_eq(model_layers_of_kind(&model, 0), 5);
  ck_assert_uint_eq(model_layers_of_kind(&model, 1), 1);
  ck_assert_uint_eq(model.layer_order[2], 1);
  ck_assert_int_eq(model_append_layers(&model, &a, MODEL_LAYERS_MAX - 5, &e), ERR_LIMIT);
  ck_assert_uint_eq(model.layer_count, 6);
  for (unsigned i = 2; i < MODEL_LAYER_KINDS_MAX; i++) {
    b.norm_parameters = i;
    append(&model, &b, 1);
  }
  b.norm_parameters = 0;
  ck_assert_int_eq(model_append_layers(&model, &b, 1, &e), ERR_LIMIT);
  ck_assert_str_eq(e.pointer, "/layers");
}
END_TEST

START_TEST(names_attention)
{
  struct layer layer = llama_layer(32, 32, 1, 1);
  ck_assert_str_eq(attention_name(&layer.attention), "mha");
  layer.attention.kv_heads = 8;
  ck_assert_str_eq(attention_name(&layer.attention), "gqa");
  layer.attention.kv_heads = 1;
  ck_assert_str_eq(attention_name(&layer.attention), "mqa");
  layer.attention.kind = ATTENTION_LATENT;
  ck_assert_str_eq(attention_name(&layer.attention), "mla");
  layer.attention.kind = ATTENTION_LINEAR;
  ck_assert_str_eq(attention_name(&layer.attention), "linear");
  layer.attention.kind = ATTENTION_NONE;
  ck_assert_str_eq(attention_name(&layer.attention), "none");
}
END_TEST

static bool has_fault(const struct faults *faults, const char *pointer, enum fault_code code)
{
  for (size_t i = 0; i < faults->count; i++)
    if (faults->items[i].code == code && strcmp(faults->items[i].pointer, pointer) == 0)
      return true;
  return false;
}

START_TEST(checks_impossible_numbers)
{
  static struct faults faults;
  static struct model model;
  struct layer layer = llama_layer(32, 8, 14336, 4096);
  make_llama(&model, 2, 4096, 32, 14336);
  model_check(&model, &faults);
  ck_assert_uint_eq(faults.count, 0);
  layer.attention.kv_heads = 5; /* does not divide 32 */
  layer.feed_forward.intermediate_size = 0;
  append(&model, &layer, 1);
  layer = llama_layer(32, 8, 2000000, 4096);
  layer.attention.head_dim = 0;
  layer.feed_forward.kind = FEED_FORWARD_MOE;
  layer.feed_forward.experts = 4;
  layer.feed_forward.experts_per_token = 5;
  append(&model, &layer, 1);
  model.hidden_size = 0;
  model.vocab_size = MODEL_VOCAB_MAX + 1;
  model_check(&model, &faults);
  ck_assert(has_fault(&faults, "/hidden_size", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/vocab_size", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/1/attention/num_key_value_heads", FAULT_CONFLICT));
  ck_assert(has_fault(&faults, "/layers/1/feed_forward/intermediate_size", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/2/attention/head_dim", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/2/feed_forward/intermediate_size", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/2/feed_forward/num_experts_per_tok", FAULT_OUT_OF_RANGE));
  ck_assert_uint_eq(faults.count, 7);
}
END_TEST

START_TEST(checks_kinds_for_what_they_need)
{
  static struct faults faults;
  static struct model model;
  struct layer layer;
  memset(&layer, 0, sizeof layer);
  layer.feed_forward.kind = FEED_FORWARD_NONE;
  make_llama(&model, 1, 4096, 32, 14336);
  model.layer_count = model.layer_kind_count = 0;
  model_check(&model, &faults);
  ck_assert(has_fault(&faults, "/layers", FAULT_MISSING));
  layer.attention.kind = ATTENTION_LATENT;
  layer.attention.index_top_k = 2048;
  append(&model, &layer, 1);
  memset(&layer.attention, 0, sizeof layer.attention);
  layer.attention.kind = ATTENTION_LINEAR;
  append(&model, &layer, 1);
  layer.attention.kind = ATTENTION_NONE;
  append(&model, &layer, 1);
  memset(&faults, 0, sizeof faults);
  model_check(&model, &faults);
  ck_assert(has_fault(&faults, "/layers/0/attention/kv_lora_rank", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/0/attention/qk_nope_head_dim", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/0/attention/index_n_heads", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/0/attention/q_lora_rank", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/1/attention/parameters", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/1/attention/state_elements", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/layers/2", FAULT_MISSING)); /* nothing in it */
  model.draft.modules = MODEL_DRAFT_MODULES_MAX + 1;
  model.vision_parameters = MODEL_EXTRA_MAX + 1ULL;
  model_check(&model, &faults);
  ck_assert(has_fault(&faults, "/multi_token_prediction/modules", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/multi_token_prediction/attention/num_attention_heads", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault(&faults, "/vision_parameters", FAULT_OUT_OF_RANGE));
}
END_TEST

/* The largest numbers that are accepted stay below 2^63, so that no count wraps. */
START_TEST(bounds_keep_counts_exact)
{
  static struct faults faults;
  static struct model model;
  struct layer layer = llama_layer(4096, 4096, 1048576, MODEL_HIDDEN_MAX);
  make_llama(&model, 1, MODEL_HIDDEN_MAX, 4096, 1048576);
  model.layer_count = model.layer_kind_count = 0;
  layer.attention.head_dim = layer.attention.value_head_dim = 8192;
  layer.feed_forward.kind = FEED_FORWARD_MOE;
  layer.feed_forward.experts = 8192;
  layer.feed_forward.experts_per_token = 8192;
  layer.feed_forward.shared_intermediate_size = 1048576;
  append(&model, &layer, MODEL_LAYERS_MAX);
  model_check(&model, &faults);
  ck_assert_uint_eq(faults.count, 0);
  /* 1024 layers · 8192 experts · 3 · 2^18 · 2^20 = 3·2^61 is the largest term. */
  ck_assert_uint_gt(model_parameters_total(&model), 3ULL << 61);
  ck_assert_uint_lt(model_parameters_total(&model), 1ULL << 63);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("core/model");
  TCase *tcase = suite_case(suite, "model", NULL, NULL);
  tcase_add_test(tcase, counts_llama_8b);
  tcase_add_test(tcase, counts_kv_bytes);
  tcase_add_test(tcase, weighs_quantised_modules);
  tcase_add_test(tcase, counts_biases_gates_and_norms);
  tcase_add_test(tcase, counts_experts);
  tcase_add_test(tcase, counts_experts_on_a_latent);
  tcase_add_test(tcase, counts_what_is_shared_once);
  tcase_add_test(tcase, counts_what_is_beside);
  tcase_add_test(tcase, counts_scales);
  tcase_add_test(tcase, counts_latent_attention);
  tcase_add_test(tcase, holds_windows_and_states);
  tcase_add_test(tcase, joins_equal_layers);
  tcase_add_test(tcase, names_attention);
  tcase_add_test(tcase, checks_impossible_numbers);
  tcase_add_test(tcase, checks_kinds_for_what_they_need);
  tcase_add_test(tcase, bounds_keep_counts_exact);
  return suite_run(suite);
}
