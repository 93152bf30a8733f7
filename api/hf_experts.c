/* Which layers hold experts: every layer, all but the first, every n-th, or those of a list. */
#include "api/hf.h"

struct sparse {
  unsigned first_dense, last_moe, modulo, step, interleave, period, offset;
  const json_t *is_moe_list, *dense_list, *moe_list;
};

static bool list_has(const json_t *list, unsigned layer)
{
  size_t i;
  json_t *entry;
  json_array_foreach(list, i, entry)
  {
    if (json_is_integer(entry) && json_integer_value(entry) == layer)
      return true;
  }
  return false;
}

static void read_sparse(struct hf *hf, unsigned layers, struct sparse *s)
{
  static const char first[] = "first_k_dense_replace num_dense_layers moe_layer_start_index";
  char pointer[160];
  (void)hf_count(hf, first, 0, MODEL_LAYERS_MAX, &s->first_dense);
  (void)hf_count(hf, "moe_layer_end_index", 0, MODEL_LAYERS_MAX, &s->last_moe);
  if (json_is_array(hf_get(hf, "moe_layer_freq", pointer)))
    s->is_moe_list = hf_layer_list(hf, "moe_layer_freq", layers);
  else if (!hf_has(hf, first) && hf_has(hf, "n_routed_experts moe_num_experts moe_layer_freq"))
    hf_assume(hf, "first_k_dense_replace is not given: no dense layers come first");
  if (s->is_moe_list == NULL)
    (void)hf_count(hf, "moe_layer_freq moe_layer_interval", 1, MODEL_LAYERS_MAX, &s->modulo);
  (void)hf_count(hf, "decoder_sparse_step", 1, MODEL_LAYERS_MAX, &s->step);
  if (!hf_count(hf, "interleave_moe_layer_step", 1, MODEL_LAYERS_MAX, &s->interleave) &&
      hf_has(hf, "intermediate_size_mlp"))
    hf_assume(hf, "interleave_moe_layer_step is not given: experts in every layer");
  if (!hf_count(hf, "expert_layer_period", 1, MODEL_LAYERS_MAX, &s->period) && hf_has(hf, "attn_layer_period"))
    hf_assume(hf, "expert_layer_period is not given: experts in every layer");
  (void)hf_count(hf, "expert_layer_offset", 0, MODEL_LAYERS_MAX, &s->offset);
  s->dense_list = hf_list(hf, "mlp_only_layers");
  s->moe_list = hf_list(hf, "moe_layers");
}

static bool layer_has_experts(const struct sparse *s, unsigned layer)
{
  if (s->moe_list != NULL)
    return list_has(s->moe_list, layer);
  if (s->is_moe_list != NULL)
    return json_integer_value(json_array_get(s->is_moe_list, layer)) != 0;
  return layer >= s->first_dense && layer <= s->last_moe && layer % s->modulo == 0 && (layer + 1) % s->step == 0 &&
         (layer + 1) % s->interleave == 0 && layer % s->period == s->offset % s->period &&
         !list_has(s->dense_list, layer);
}

/* Whether the config has experts at all; a config that says how many a token uses must say of how many. */
static bool has_experts(struct hf *hf)
{
  unsigned experts = 0;
  if (hf_has(hf, HF_EXPERTS))
    (void)hf_count(hf, HF_EXPERTS, 0, 8192, &experts);
  else if (hf_peek(hf, HF_EXPERTS_PER_TOKEN) != 0)
    hf_fault(hf, FAULT_MISSING, HF_EXPERTS, "needed: the config says how many experts a token uses, not of how many");
  if (hf_has(hf, "top_k_experts") && !hf_has(hf, "enable_moe_block"))
    hf_fault(hf, FAULT_MISSING, "enable_moe_block", "needed beside top_k_experts: whether the experts are used");
  return experts != 0 && hf_flag(hf, "enable_moe_block", true);
}

void hf_plan_experts(struct hf *hf, struct hf_plan *plan)
{
  struct sparse s = {0, MODEL_LAYERS_MAX, 1, 1, 1, 1, 0, NULL, NULL, NULL};
  if (!has_experts(hf))
    return;
  read_sparse(hf, plan->rows, &s);
  for (unsigned i = 0; i < plan->rows; i++)
    plan->row[i].mlp = layer_has_experts(&s, i) ? HF_MLP_MOE : HF_MLP_DENSE;
}
