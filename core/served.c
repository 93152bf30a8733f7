/* Which module gets which format. */
#include "core/served.h"

static bool is_16_bit_or_more(enum precision precision)
{
  return precision_weight_bytes(precision) >= 2;
}

bool served_has_experts(const struct model *model)
{
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    if (model->layers[kind].feed_forward.kind == FEED_FORWARD_MOE)
      return true;
  return false;
}

static bool has_plain_attention(const struct model *model)
{
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    if (model->layers[kind].attention.kind == ATTENTION_LATENT ||
        model->layers[kind].attention.kind == ATTENTION_LINEAR)
      return false;
  return true;
}

static enum precision wide_format(const struct model *model)
{
  return is_16_bit_or_more(model->precision.embeddings) ? model->precision.embeddings : PRECISION_BF16;
}

static void quantise_mixture(struct model_precision *served, const struct model *model, enum precision weights)
{
  const enum precision wide = wide_format(model);
  served->experts = weights;
  served->dense = weights == PRECISION_NVFP4 ? weights : wide;
  served->attention = wide;
  if (weights == PRECISION_NVFP4 && has_plain_attention(model) && is_16_bit_or_more(model->precision.attention))
    served->attention = weights;
}

static void quantise(struct model_precision *served, const struct model *model, enum precision weights)
{
  const bool is_four_bit = precision_weight_bytes(weights) < 1;
  if (is_four_bit && served_has_experts(model)) {
    quantise_mixture(served, model, weights);
    return;
  }
  served->attention = served->dense = served->experts = weights;
  if (is_16_bit_or_more(weights))
    served->embeddings = served->head = weights;
  /* fp8 made from a 16-bit release is the static per-tensor kind; block scales come with the release itself */
  if (weights == PRECISION_FP8)
    served->has_static_scales = is_16_bit_or_more(model->precision.dense) || model->precision.has_static_scales;
}

struct model_precision served_precision(const struct model *model, enum precision weights, enum precision kv_cache)
{
  struct model_precision served = model->precision;
  const bool is_as_released = weights == PRECISION_NONE || weights == model->precision.experts;
  if (!is_as_released || (weights != PRECISION_NONE && !served_has_experts(model) && weights != model->precision.dense))
    quantise(&served, model, weights);
  if (kv_cache != PRECISION_NONE)
    served.kv_cache = kv_cache;
  else if (served.kv_cache == PRECISION_NONE)
    served.kv_cache = wide_format(model);
  return served;
}
