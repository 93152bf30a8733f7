/* MLPs and experts by keys. Shared experts are told in four ways: as a count of routed ones, as a width of their own,
   as both, or only by the class. */
#include "api/hf.h"

#include <string.h>

#define WIDTH_MAX 1048576
#define ROUTER_BIAS "use_routing_bias use_expert_bias moe_use_aux_free"
#define EXPERT_WIDTH "moe_intermediate_size ffn_config.ffn_hidden_size"
#define SHARED_EXPERTS "n_shared_experts num_shared_experts moe_num_shared_experts"

/* Wide enough for three matrices where the config counts two (LFM2). */
static unsigned adjusted(struct hf *hf, unsigned width)
{
  unsigned multiple = 1;
  const bool is_lfm2 = hf_has(hf, "block_ff_dim block_multiple_of");
  if (is_lfm2 && !hf_has(hf, "block_auto_adjust_ff_dim"))
    hf_assume(hf, "block_auto_adjust_ff_dim is not given: the MLP is two thirds as wide as stated, as the class does");
  if (!hf_flag(hf, "block_auto_adjust_ff_dim", is_lfm2))
    return width;
  (void)hf_count(hf, "block_multiple_of", 1, WIDTH_MAX, &multiple);
  width = (unsigned)(2ULL * width / 3);
  return (width + multiple - 1) / multiple * multiple;
}

static bool rows_have_widths(const struct hf_plan *plan)
{
  for (unsigned i = 0; i < plan->rows; i++)
    if (plan->row[i].mlp == HF_MLP_DENSE && plan->row[i].intermediate_size == 0)
      return false;
  return true;
}

static void read_dense(struct hf *hf, const struct hf_sizes *sizes, const struct hf_plan *plan, struct feed_forward *f)
{
  static const char others[] = "intermediate_size n_inner ffn_hidden_size ffn_dim block_ff_dim";
  const bool is_llama4 = hf_has(hf, "intermediate_size_mlp");
  const char *keys = is_llama4 ? "intermediate_size_mlp" : others; /* Llama-4's dense layers */
  unsigned ratio = 4;
  f->kind = FEED_FORWARD_DENSE;
  if (rows_have_widths(plan))
    return;
  if (!is_llama4 && hf_has_trait(hf, HF_SHARED_EXPERT))
    hf_assume(hf, "intermediate_size_mlp is not given: dense layers are as wide as an expert");
  if (hf_has(hf, "shared_intermediate_size") && hf_peek(hf, "shared_intermediate_size") != 0 &&
      hf_has(hf, HF_EXPERTS) && hf_peek(hf, HF_EXPERTS) == 0) { /* Granite-4 without experts keeps the shared one */
    (void)hf_count(hf, "shared_intermediate_size", 1, WIDTH_MAX, &f->intermediate_size);
  } else if (hf_has_trait(hf, HF_PLAIN_MLP) && !hf_has(hf, keys)) {
    (void)hf_count(hf, "expansion_ratio", 1, 64, &ratio);
    f->intermediate_size = ratio * sizes->hidden;
    if (!hf_has(hf, "expansion_ratio"))
      hf_assume(hf, "the MLP's width is not given: 4 × hidden_size = %u", f->intermediate_size);
  } else if (hf_need(hf, keys, 1, WIDTH_MAX, &f->intermediate_size)) {
    f->intermediate_size = adjusted(hf, f->intermediate_size);
  }
}

static void read_shared(struct hf *hf, struct feed_forward *f)
{
  unsigned count = 0;
  unsigned width = f->intermediate_size;
  if (hf_has(hf, "shared_expert_intermediate_size")) {
    (void)hf_count(hf, "shared_expert_intermediate_size", 0, WIDTH_MAX, &f->shared_intermediate_size);
    f->has_shared_gate = f->shared_intermediate_size != 0;
  } else if (hf_flag(hf, "enable_moe_block", false)) { /* Gemma-4: a dense MLP beside the experts */
    (void)hf_need(hf, "intermediate_size", 1, WIDTH_MAX, &f->shared_intermediate_size);
  } else if (hf_has(hf, "shared_intermediate_size")) {
    (void)hf_count(hf, "shared_intermediate_size", 0, WIDTH_MAX, &f->shared_intermediate_size);
  } else if (hf_count(hf, SHARED_EXPERTS, 0, 64, &count)) {
    if (!hf_count(hf, "moe_shared_expert_intermediate_size", 1, WIDTH_MAX, &width) &&
        hf_has_trait(hf, HF_SHARED_BY_KEY))
      hf_assume(hf, "moe_shared_expert_intermediate_size is not given: as wide as a routed expert");
    if (count * (uint64_t)width > WIDTH_MAX)
      hf_fault(hf, FAULT_OUT_OF_RANGE, SHARED_EXPERTS, "%u shared experts of width %u are wider than %u", count, width,
               WIDTH_MAX);
    else
      f->shared_intermediate_size = count * width;
  } else if (hf_has_trait(hf, HF_SHARED_EXPERT)) {
    f->shared_intermediate_size = width;
    hf_assume(hf, "one shared expert of width %u beside the routed ones, as the class \"%s\" does", width,
              hf->model_type);
  } else if (hf_has(hf, "n_routed_experts moe_num_experts first_k_dense_replace") && !hf_has(hf, SHARED_EXPERTS)) {
    hf_assume(hf, "n_shared_experts is not given: no shared experts");
  } else if (hf_has_trait(hf, HF_SHARED_BY_KEY)) {
    hf_assume(hf, "shared_expert_intermediate_size is not given: no shared experts");
  }
}

static bool router_has_bias(struct hf *hf)
{
  const char *method = hf_text(hf, "topk_method");
  if (method != NULL && strcmp(method, "greedy") != 0 && strcmp(method, "group_limited_greedy") != 0 &&
      strcmp(method, "noaux_tc") != 0)
    hf_fault(hf, FAULT_UNKNOWN_VALUE, "topk_method", "expected greedy, group_limited_greedy or noaux_tc");
  if (method != NULL)
    return strcmp(method, "noaux_tc") == 0;
  if (!hf_has(hf, ROUTER_BIAS) && !hf_has_trait(hf, HF_ROUTER_BIAS) && hf_has(hf, "scoring_func"))
    hf_assume(hf, "neither topk_method nor use_routing_bias is given: the router has no bias");
  return hf_flag(hf, ROUTER_BIAS, hf_has_trait(hf, HF_ROUTER_BIAS));
}

static void read_experts(struct hf *hf, struct feed_forward *f)
{
  f->kind = FEED_FORWARD_MOE;
  (void)hf_need(hf, HF_EXPERTS, 1, 8192, &f->experts);
  if (hf_need(hf, HF_EXPERTS_PER_TOKEN, 1, 8192, &f->experts_per_token) && f->experts != 0 &&
      f->experts_per_token > f->experts)
    hf_fault(hf, FAULT_CONFLICT, HF_EXPERTS_PER_TOKEN, "%u experts a token of only %u", f->experts_per_token,
             f->experts);
  if (!hf_has(hf, EXPERT_WIDTH) && (hf_has_trait(hf, HF_EXPERT_WIDTH_BY_KEY) || hf_has(hf, "n_routed_experts")))
    hf_assume(hf, "moe_intermediate_size is not given: experts are as wide as intermediate_size");
  (void)hf_need(hf, EXPERT_WIDTH " intermediate_size", 1, WIDTH_MAX, &f->intermediate_size);
  if (!hf_count(hf, "moe_latent_size", 1, MODEL_HIDDEN_MAX, &f->latent_size) && hf_has(hf, "hybrid_override_pattern"))
    hf_assume(hf, "moe_latent_size is not given: experts work on the hidden state itself");
  f->has_router_bias = router_has_bias(hf);
  f->has_expert_bias = hf_has_trait(hf, HF_EXPERT_BIAS);
  if (f->has_router_bias && !hf_has(hf, "topk_method " ROUTER_BIAS))
    hf_assume(hf, "the router has a bias, as the class \"%s\" does", hf->model_type);
  read_shared(hf, f);
}

void hf_feed_forward_read(struct hf *hf, const struct hf_sizes *sizes, const struct hf_plan *plan,
                          struct hf_feed_forward *out)
{
  const bool is_gated = !hf_has_trait(hf, HF_PLAIN_MLP);
  const bool has_bias = hf_flag(hf, "mlp_bias", hf_bias(hf, HF_MLP_BIAS));
  memset(out, 0, sizeof *out);
  if (hf_plan_uses_mlp(plan, HF_MLP_DENSE))
    read_dense(hf, sizes, plan, &out->dense);
  if (hf_plan_uses_mlp(plan, HF_MLP_MOE))
    read_experts(hf, &out->moe);
  out->dense.is_gated = out->moe.is_gated = is_gated;
  out->dense.has_up_bias = out->moe.has_up_bias = has_bias;
  out->dense.has_down_bias = out->moe.has_down_bias = has_bias;
}
