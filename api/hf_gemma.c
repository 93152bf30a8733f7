/* What Gemma-3n and Gemma-4 add to their layers: embeddings of their own (one lookup table for all layers), layers that use
   the KV of earlier ones, twice as wide MLPs there, and Gemma-3n's low-rank side path and alternating updates. */
#include "api/hf.h"

#define PER_LAYER "hidden_size_per_layer_input"

/* Each layer gates its own embedding and projects it back, with a norm; all of them together come from one table and one
   projection of the first hidden state, with a norm over one layer's part. */
static void add_layer_embeddings(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan, struct model *out)
{
  unsigned width = 0;
  unsigned vocab = sizes->vocab;
  if (!hf_has(hf, PER_LAYER) && hf_has(hf, "vocab_size_per_layer_input"))
    hf_assume(hf, PER_LAYER " is not given: layers have no embeddings of their own");
  if (!hf_count(hf, PER_LAYER, 0, 8192, &width) || width == 0)
    return;
  if (!hf_count(hf, "vocab_size_per_layer_input", 1, MODEL_VOCAB_MAX, &vocab))
    hf_assume(hf, "vocab_size_per_layer_input is not given: vocab_size");
  out->layer_embedding_parameters = (uint64_t)vocab * width * plan->rows;
  out->extra_parameters += (uint64_t)sizes->hidden * width * plan->rows + width;
  for (unsigned i = 0; i < plan->rows; i++) {
    plan->row[i].other_parameters += 2ULL * sizes->hidden * width;
    plan->row[i].norms++;
  }
}

/* Alternating updates of n streams: a prediction and a correction from n routed coefficients, a norm and a scale; the
   streams are made and merged by one projection each but the first. A side path of low rank has a norm. */
static void add_side_paths(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan, struct model *out)
{
  unsigned streams = 0;
  unsigned rank = 0;
  if (!hf_has(hf, "altup_num_inputs laurel_rank") || !hf_need(hf, "altup_num_inputs", 1, 64, &streams))
    return;
  (void)hf_need(hf, "laurel_rank", 1, 65536, &rank);
  out->extra_parameters += 2ULL * (streams - 1) * sizes->hidden * sizes->hidden;
  for (unsigned i = 0; i < plan->rows; i++) {
    plan->row[i].other_parameters += (uint64_t)streams * streams * (streams + 1) + (uint64_t)sizes->hidden * streams;
    plan->row[i].other_parameters += 2ULL * sizes->hidden * rank;
    plan->row[i].norms = (uint8_t)(plan->row[i].norms + 3);
  }
}

/* Three more norms split the hidden state between experts and MLP, and the router scales its input. */
static void add_expert_norms(struct hf *hf, struct hf_plan *plan)
{
  if (!hf_flag(hf, "enable_moe_block", false))
    return;
  for (unsigned i = 0; i < plan->rows; i++)
    plan->row[i].norms = (uint8_t)(plan->row[i].norms + (plan->row[i].mlp == HF_MLP_MOE ? 4 : 0));
}

static void widen_sharing_layers(struct hf *hf, struct hf_plan *plan)
{
  if (!hf_flag(hf, "use_double_wide_mlp", false))
    return;
  for (unsigned i = 0; i < plan->rows; i++)
    if (plan->row[i].shares_kv)
      plan->row[i].intermediate_size = 2 * hf_peek(hf, "intermediate_size");
}

void hf_gemma_read(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan, struct model *out)
{
  if (hf_has(hf, PER_LAYER) && !hf_has(hf, "num_kv_shared_layers"))
    hf_assume(hf, "num_kv_shared_layers is not given: every layer has its own KV");
  add_layer_embeddings(hf, sizes, plan, out);
  add_side_paths(hf, sizes, plan, out);
  add_expert_norms(hf, plan);
  widen_sharing_layers(hf, plan);
}
