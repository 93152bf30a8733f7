/* Multi-token prediction: modules that published checkpoints store beside the decoder, drafting tokens with one more layer
   of the decoder's kind. */
#include "api/hf.h"

#include <string.h>

static struct layer draft_layer(const struct hf_plan *plan, const struct hf_attention *attention,
                                const struct hf_feed_forward *feed_forward, unsigned norm_parameters)
{
  struct layer layer;
  memset(&layer, 0, sizeof layer);
  layer.attention = attention->full;
  layer.feed_forward = hf_plan_uses_mlp(plan, HF_MLP_MOE) ? feed_forward->moe : feed_forward->dense;
  layer.norm_parameters = norm_parameters;
  return layer;
}

/* Whether some layer is attention over the whole context with an MLP behind it, as modules are. */
static bool has_plain_layer(const struct hf_plan *plan)
{
  for (unsigned i = 0; i < plan->rows; i++)
    if (plan->row[i].mixer == HF_MIXER_FULL && plan->row[i].mlp != HF_MLP_NONE)
      return true;
  return false;
}

void hf_draft_read(struct hf *hf, const struct hf_plan *plan, const struct hf_attention *attention,
                   const struct hf_feed_forward *feed_forward, unsigned norm_parameters, struct model *out)
{
  static const char keys[] = "num_nextn_predict_layers mtp_num_hidden_layers";
  unsigned modules = hf_has_trait(hf, HF_DRAFT_UNSAID) ? 1 : 0;
  if (hf_peek(hf, "num_mtp_modules") != 0)
    hf_assume(hf, "num_mtp_modules is not counted: published checkpoints do not hold those modules");
  if (hf_has(hf, keys))
    (void)hf_count(hf, keys, 0, MODEL_DRAFT_MODULES_MAX, &modules);
  else if (modules != 0)
    hf_assume(hf, "the checkpoint holds one module for multi-token prediction, as those of \"%s\" do", hf->model_type);
  if (modules == 0)
    return;
  if (!has_plain_layer(plan)) {
    hf_assume(hf, "modules for multi-token prediction are not counted beside layers of this kind");
    return;
  }
  out->draft.modules = modules;
  out->draft.has_own_embeddings = hf_flag(hf, "mtp_use_dedicated_embeddings", hf_has_trait(hf, HF_DRAFT_COPIES));
  out->draft.layer = draft_layer(plan, attention, feed_forward, norm_parameters);
  hf_assume(hf,
            "modules for multi-token prediction (%u, %s embedding and head of their own) are counted apart: they are "
            "loaded for speculative decoding only",
            modules, out->draft.has_own_embeddings ? "with" : "without");
}
