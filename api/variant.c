/* What a variant changes. */
#include "api/variant.h"

#include "core/served.h"

static const struct {
  const char *name, *title, *requires;
} variants[VARIANT_COUNT] = {
    [VARIANT_AS_IS] = {"as_is", "as is", NULL},
    [VARIANT_GQA] = {"gqa_8_1", "GQA 8:1", "retraining"},
    [VARIANT_FP8] = {"fp8", "FP8", "requantisation"},
    [VARIANT_GQA_FP8] = {"gqa_8_1_fp8", "GQA 8:1 + FP8", "retraining"},
};

const char *variant_name(enum variant variant)
{
  return variants[variant].name;
}

const char *variant_title(enum variant variant)
{
  return variants[variant].title;
}

const char *variant_requires(enum variant variant)
{
  return variants[variant].requires;
}

/* Eight query heads share one KV head; layers that share more, or hold no keys and values of heads, stay. */
static bool group_heads(struct model *model)
{
  const unsigned sharing = 8;
  bool changes = false;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    struct attention *attention = &model->layers[kind].attention;
    if (attention->kind != ATTENTION_GROUPED || attention->query_heads % sharing != 0 ||
        attention->kv_heads <= attention->query_heads / sharing)
      continue;
    attention->kv_heads = attention->query_heads / sharing;
    changes = true;
  }
  return changes;
}

static bool has_8_bits_at_most(enum precision precision)
{
  return precision_weight_bytes(precision) <= 1;
}

/* What the format's own path computes with is left open, so that devices without it fall back to weights only. */
static bool quantise(struct workload *workload, const struct model *model)
{
  const struct model_precision served = served_precision(model, workload->weights, workload->kv_cache);
  const enum precision weights = served_has_experts(model) ? served.experts : served.dense;
  if (has_8_bits_at_most(weights) && has_8_bits_at_most(served.kv_cache))
    return false;
  if (!has_8_bits_at_most(weights)) {
    workload->weights = PRECISION_FP8;
    workload->activations = PRECISION_NONE;
  }
  if (!has_8_bits_at_most(served.kv_cache))
    workload->kv_cache = PRECISION_FP8;
  return true;
}

bool variant_apply(enum variant variant, struct workload *workload, struct model *model)
{
  const bool groups = variant == VARIANT_GQA || variant == VARIANT_GQA_FP8;
  const bool quantises = variant == VARIANT_FP8 || variant == VARIANT_GQA_FP8;
  if (groups && !group_heads(model))
    return false;
  return !quantises || quantise(workload, model);
}

bool variant_runs_on(const struct workload *workload, const struct model *model, const struct hardware *hardware)
{
  const struct model_precision served = served_precision(model, workload->weights, workload->kv_cache);
  enum precision math;
  return precision_support(hardware, served_has_experts(model) ? served.experts : served.dense, workload->activations,
                           &math) != PRECISION_UNSUPPORTED;
}
