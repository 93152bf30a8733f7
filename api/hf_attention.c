/* Attention by keys: heads and their sizes, biases, norms on queries and keys, sinks and gates; MLA's ranks. */
#include "api/hf.h"

#include <string.h>

#include "api/read.h"

#define HEADS_MAX 4096
#define HEAD_DIM_MAX 8192

static void read_head_dim(struct hf *hf, const struct hf_sizes *sizes, struct attention *a)
{
  static const char keys[] = "head_dim kv_channels attention_head_dim";
  if (!hf_has(hf, keys) && a->query_heads != 0 && sizes->hidden != 0) {
    if (sizes->hidden % a->query_heads != 0)
      hf_fault(hf, FAULT_CONFLICT, HF_HEADS,
               "hidden_size %u is not a multiple of %u attention heads and head_dim is not given", sizes->hidden,
               a->query_heads);
    a->head_dim = sizes->hidden / a->query_heads;
    hf_assume(hf, "head_dim is not given: hidden_size / num_attention_heads = %u", a->head_dim);
  }
  (void)hf_count(hf, keys, 1, HEAD_DIM_MAX, &a->head_dim);
  a->value_head_dim = a->head_dim;
  (void)hf_count(hf, "v_head_dim", 1, HEAD_DIM_MAX, &a->value_head_dim);
  (void)hf_count(hf, "attention_hidden_size", 1, 2 * MODEL_HIDDEN_MAX, &a->input_size);
  if (a->input_size == sizes->hidden)
    a->input_size = 0;
}

static void check_kv_heads(struct hf *hf, const char *keys, unsigned query_heads, unsigned kv_heads)
{
  if (query_heads != 0 && kv_heads != 0 && query_heads % kv_heads != 0)
    hf_fault(hf, FAULT_CONFLICT, keys, "%u KV heads do not divide %u attention heads", kv_heads, query_heads);
}

static void read_kv_head_list(struct hf *hf, const char *keys, unsigned query_heads, struct hf_plan *plan)
{
  const json_t *list = hf_layer_list(hf, keys, plan->rows);
  for (unsigned i = 0; list != NULL && i < plan->rows; i++) {
    const json_t *value = json_array_get(list, i);
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > HEADS_MAX) {
      hf_fault(hf, FAULT_OUT_OF_RANGE, keys, "entry %u is not a whole number between 1 and %u", i, HEADS_MAX);
      return;
    }
    plan->row[i].kv_heads = (unsigned)json_integer_value(value);
    check_kv_heads(hf, keys, query_heads, plan->row[i].kv_heads);
  }
}

/* Falcon and GPT-BigCode: one KV head with multi_query, unless Falcon's newer decoder counts them. */
static bool has_one_kv_head(struct hf *hf)
{
  const bool is_falcon = hf_has_trait(hf, HF_NORM_BY_FIELDS);
  if (hf_flag(hf, "new_decoder_architecture", false))
    return false;
  if (is_falcon && !hf_has(hf, "multi_query"))
    hf_assume(hf, "multi_query is not given: one KV head, as the class does");
  return hf_flag(hf, "multi_query", is_falcon);
}

/* Whether the config counts KV heads in a key that it does not mean. */
static bool ignores_kv_heads(struct hf *hf)
{
  if (hf_has(hf, "multi_query_attention"))
    return !hf_flag(hf, "multi_query_attention", true);
  return hf_has(hf, "multi_query") && !hf_flag(hf, "new_decoder_architecture", false);
}

static bool rows_have_kv_heads(const struct hf_plan *plan)
{
  for (unsigned i = 0; i < plan->rows; i++)
    if (plan->row[i].kv_heads != 0)
      return true;
  return false;
}

static void read_kv_heads(struct hf *hf, struct hf_plan *plan, struct attention *a)
{
  static const char keys[] = "num_key_value_heads num_kv_heads n_head_kv multi_query_group_num attn_config.kv_n_heads";
  char pointer[160];
  const json_t *value = hf_get(hf, keys, pointer);
  a->kv_heads = a->query_heads;
  if (has_one_kv_head(hf)) {
    a->kv_heads = 1;
  } else if (json_is_array(value)) {
    read_kv_head_list(hf, keys, a->query_heads, plan);
  } else if (value == NULL || ignores_kv_heads(hf)) {
    if (!rows_have_kv_heads(plan))
      hf_assume(hf, "num_key_value_heads is not given: as many KV heads as attention heads");
  } else if (hf_count(hf, keys, 1, HEADS_MAX, &a->kv_heads)) {
    check_kv_heads(hf, keys, a->query_heads, a->kv_heads);
  }
}

static void read_biases(struct hf *hf, struct attention *a)
{
  a->has_qkv_bias = hf_bias(hf, HF_QKV_BIAS);
  a->has_output_bias = hf_bias(hf, HF_OUTPUT_BIAS);
  if (hf_has(hf, "attention_bias")) {
    a->has_qkv_bias = hf_flag(hf, "attention_bias", a->has_qkv_bias);
    if (!hf_has_trait(hf, HF_QKV_BIAS_ONLY))
      a->has_output_bias = a->has_qkv_bias;
  } else if (a->has_qkv_bias) {
    hf_assume(hf, "query, key and value projections%s have biases, as the class \"%s\" does",
              a->has_output_bias ? " and the output projection" : "", hf->model_type);
  } else if (hf_has_trait(hf, HF_BIAS_BY_KEY) && !hf_has(hf, "qkv_bias add_qkv_bias")) {
    hf_assume(hf, "attention_bias is not given: attention has no biases");
  }
  a->has_qkv_bias = hf_flag(hf, "qkv_bias add_qkv_bias", a->has_qkv_bias);
  a->has_output_bias = hf_flag(hf, "attention_out_bias", a->has_output_bias);
}

static void set_query_key_norms(struct attention *a, bool is_full)
{
  a->query_norm_size = is_full ? a->query_heads * a->head_dim : a->head_dim;
  a->key_norm_size = is_full ? a->kv_heads * a->head_dim : a->head_dim;
}

static void read_query_key_norms(struct hf *hf, struct attention *a)
{
  const bool by_key = hf_has_trait(hf, HF_QK_NORM_BY_KEY);
  const char *type = hf_text(hf, "qk_norm_type");
  const bool is_full = hf_has_trait(hf, HF_QK_NORM_FULL) || (type != NULL && strcmp(type, "per_layer") == 0);
  if (hf_flag(hf, "qk_layernorm", false)) { /* Phi: layer norms over one head */
    a->query_norm_size = a->key_norm_size = 2 * a->head_dim;
    return;
  }
  if (!is_full && !hf_has_trait(hf, HF_QK_NORM_HEAD))
    return;
  if (by_key && hf->is_known_type && !hf_has(hf, "use_qk_norm"))
    hf_assume(hf, "use_qk_norm is not given: queries and keys are not normalised");
  if (!hf_flag(hf, "use_qk_norm", !by_key))
    return;
  if (!by_key && !hf_has(hf, "use_qk_norm"))
    hf_assume(hf, "queries and keys are normalised over %s, as the class \"%s\" does",
              is_full ? "all heads" : "each head", hf->model_type);
  set_query_key_norms(a, is_full);
}

/* Gemma-4 gives layers over the whole context larger and fewer heads, whose values may be the keys. */
static void read_global(struct hf *hf, struct attention *a)
{
  static const char keys[] = "global_head_dim num_global_key_value_heads attention_k_eq_v";
  if (!hf_has(hf, keys))
    return;
  if (!hf_has(hf, "global_head_dim"))
    hf_assume(hf, "global_head_dim is not given: all layers have heads of one size");
  if (!hf_has(hf, "attention_k_eq_v"))
    hf_assume(hf, "attention_k_eq_v is not given: values have their own projection and as many heads everywhere");
  a->values_are_keys = hf_flag(hf, "attention_k_eq_v", false);
  if (a->values_are_keys && !hf_has(hf, "num_global_key_value_heads"))
    hf_assume(hf, "num_global_key_value_heads is not given: as many KV heads in all layers");
  if (hf_count(hf, "global_head_dim", 1, HEAD_DIM_MAX, &a->head_dim)) {
    a->value_head_dim = a->head_dim;
    if (a->query_norm_size != 0)
      set_query_key_norms(a, hf_has_trait(hf, HF_QK_NORM_FULL));
  }
  if (a->values_are_keys && hf_count(hf, "num_global_key_value_heads", 1, HEADS_MAX, &a->kv_heads))
    check_kv_heads(hf, "num_global_key_value_heads", a->query_heads, a->kv_heads);
}

/* Where some keys of windowed layers' heads are given, the others would be too. */
static void note_window_heads(struct hf *hf)
{
  static const char *const keys[] = {"v_head_dim", "swa_num_attention_heads", "swa_head_dim", "swa_v_head_dim",
                                     "swa_num_key_value_heads"};
  if (!hf_has(hf, "swa_num_attention_heads swa_head_dim swa_v_head_dim swa_num_key_value_heads"))
    return;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    if (!hf_has(hf, keys[i]))
      hf_assume(hf, "%s is not given beside its kin: as in the other layers", keys[i]);
  if (!hf_has(hf, "add_swa_attention_sink_bias"))
    hf_assume(hf, "add_swa_attention_sink_bias is not given: windowed layers have no attention sinks");
}

/* MiMo-V2 gives windowed layers their own heads. */
static void read_window(struct hf *hf, const struct hf_plan *plan, struct hf_attention *out)
{
  struct attention *w = &out->window;
  *w = out->full;
  w->window_tokens = plan->window_tokens;
  if (!hf_plan_uses(plan, HF_MIXER_WINDOW))
    return;
  note_window_heads(hf);
  (void)hf_count(hf, "swa_num_attention_heads", 1, HEADS_MAX, &w->query_heads);
  (void)hf_count(hf, "swa_head_dim", 1, HEAD_DIM_MAX, &w->head_dim);
  (void)hf_count(hf, "swa_v_head_dim", 1, HEAD_DIM_MAX, &w->value_head_dim);
  if (hf_count(hf, "swa_num_key_value_heads", 1, HEADS_MAX, &w->kv_heads))
    check_kv_heads(hf, "swa_num_key_value_heads", w->query_heads, w->kv_heads);
  if (hf_flag(hf, "add_swa_attention_sink_bias", false))
    w->sink_parameters = w->query_heads;
  if (hf_flag(hf, "add_full_attention_sink_bias", false))
    out->full.sink_parameters = out->full.query_heads;
}

static void read_grouped(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan, struct hf_attention *out)
{
  struct attention *a = &out->full;
  a->kind = ATTENTION_GROUPED;
  (void)hf_need(hf, HF_HEADS, 1, HEADS_MAX, &a->query_heads);
  read_head_dim(hf, sizes, a);
  read_kv_heads(hf, plan, a);
  read_biases(hf, a);
  read_query_key_norms(hf, a);
  a->has_output_gate = hf_flag(hf, "attn_output_gate", hf_has_trait(hf, HF_OUTPUT_GATE));
  if (a->has_output_gate && !hf_has(hf, "attn_output_gate"))
    hf_assume(hf, "attention has an output gate, as the class \"%s\" does", hf->model_type);
  a->sink_parameters = hf_has_trait(hf, HF_SINKS) ? a->query_heads : 0;
  if (a->sink_parameters != 0)
    hf_assume(hf, "each head has an attention sink, as the class \"%s\" does", hf->model_type);
  read_window(hf, plan, out);
  read_global(hf, a);
}

static void read_latent(struct hf *hf, const struct hf_plan *plan, struct attention *a)
{
  a->kind = ATTENTION_LATENT;
  (void)hf_need(hf, "num_attention_heads", 1, HEADS_MAX, &a->query_heads);
  (void)hf_need(hf, "kv_lora_rank", 1, 65536, &a->kv_lora_rank);
  if (hf_is_silent(hf, "q_lora_rank"))
    hf_assume(hf, "q_lora_rank is not given: queries are projected in one step");
  (void)hf_count(hf, "q_lora_rank", 1, 65536, &a->query_lora_rank);
  (void)hf_need(hf, "qk_rope_head_dim", 1, HEAD_DIM_MAX, &a->rope_head_dim);
  (void)hf_need(hf, "qk_nope_head_dim", 1, HEAD_DIM_MAX, &a->nope_head_dim);
  (void)hf_need(hf, "v_head_dim", 1, HEAD_DIM_MAX, &a->value_head_dim);
  a->kv_heads = 1; /* the latent is one for all heads */
  a->head_dim = a->rope_head_dim + a->nope_head_dim;
  a->has_qkv_bias = a->has_output_bias = hf_flag(hf, "attention_bias", false);
  if (hf_has(hf, "index_topk index_n_heads index_head_dim") &&
      hf_need(hf, "index_topk", 1, MODEL_CONTEXT_MAX, &a->index_top_k)) {
    (void)hf_need(hf, "index_n_heads", 1, HEADS_MAX, &a->index_heads);
    (void)hf_need(hf, "index_head_dim", 1, HEAD_DIM_MAX, &a->index_head_dim);
    (void)hf_need(hf, "q_lora_rank", 1, 65536, &a->query_lora_rank);
  }
  if (hf_plan_uses(plan, HF_MIXER_WINDOW))
    hf_fault(hf, FAULT_UNSUPPORTED, "kv_lora_rank", "latent attention together with windows is not supported");
}

void hf_attention_read(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan, struct hf_attention *out)
{
  memset(out, 0, sizeof *out);
  if (hf_plan_uses(plan, HF_MIXER_LINEAR))
    hf_linear_read(hf, sizes, &out->linear);
  if (!hf_plan_uses(plan, HF_MIXER_FULL) && !hf_plan_uses(plan, HF_MIXER_WINDOW))
    return;
  if (hf_has(hf, "kv_lora_rank q_lora_rank qk_rope_head_dim qk_nope_head_dim"))
    read_latent(hf, plan, &out->full);
  else
    read_grouped(hf, sizes, plan, out);
}
