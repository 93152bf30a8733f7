/* The draft is an engine of its own that runs inside the steps of the other: no scheduler, no sampling of its own. */
#include "core/speculative.h"

#include "core/parallel.h"
#include "core/step.h"

#include <math.h>
#include <string.h>

double speculative_tokens_per_step(unsigned draft_tokens, double acceptance_ratio, double output_tokens)
{
  double tokens = 1, accepted = 1;
  for (unsigned i = 0; i < draft_tokens; i++) {
    accepted *= acceptance_ratio;
    tokens += accepted;
  }
  return fmin(tokens, fmax(1, output_tokens - 1));
}

/* ---- the draft ---- */

static bool has_cache(const struct layer *layer)
{
  return layer->attention.kind == ATTENTION_GROUPED || layer->attention.kind == ATTENTION_LATENT;
}

/* The checkpoint's own prediction module, else the last layer that attends to a cache. */
static const struct layer *module_layer(const struct model *model)
{
  if (model->draft.modules != 0)
    return &model->draft.layer;
  for (unsigned i = model->layer_count; i > 0; i--)
    if (has_cache(&model->layers[model->layer_order[i - 1]]))
      return &model->layers[model->layer_order[i - 1]];
  return &model->layers[model->layer_order[model->layer_count - 1]];
}

void speculative_module(struct model *out, const struct model *model)
{
  *out = *model;
  out->layers[0] = *module_layer(model);
  out->layers[0].shares_parameters = false;
  out->layers[0].attention.shares_kv = false;
  out->layer_order[0] = 0;
  out->layer_count = out->layer_kind_count = 1;
  out->extra_parameters = out->layer_embedding_parameters = out->vision_parameters = 0;
  out->draft.modules = 0;
}

/* ---- beside an engine ---- */

static unsigned tensor_degree(const struct model *draft, const struct hardware *hardware, unsigned tp)
{
  char why[192];
  for (; tp > 1; tp--) {
    const struct layout layout = {tp, 1, 1, 1};
    if (parallel_check(why, sizeof why, draft, hardware, &layout))
      break;
  }
  return tp;
}

/* A module's one layer; embedding and head are the model's. */
static double module_bytes(const struct model *module, const struct layout *layout,
                           const struct model_precision *precision)
{
  const double wide = precision_weight_bytes(precision->embeddings);
  const struct parameter_counts counts = model_layer_parameters(module, &module->layers[0]);
  const double split = (double)counts.attention * model_bytes_per_weight(module, precision->attention) +
                       (double)counts.dense * model_bytes_per_weight(module, precision->dense);
  const double experts = (double)counts.experts * model_bytes_per_weight(module, precision->experts);
  return (split + experts / layout->attention_data_parallel) / layout->tensor_parallel +
         (double)(counts.router + counts.norms) * wide;
}

void speculative_attach(struct engine *engine, const struct speculation *speculation)
{
  struct drafter *drafter = &engine->drafter;
  struct layout layout = engine->layout;
  struct engine draft;
  layout.tensor_parallel = tensor_degree(speculation->model, engine->hardware, layout.tensor_parallel);
  layout.pipeline_parallel = 1;
  if (!speculation->is_module)
    layout.expert_parallel = 1;
  draft = step_engine_with(&engine->constants, speculation->model, engine->hardware, &layout, &speculation->precision,
                           PRECISION_NONE, &engine->preset);
  drafter->draft_tokens = speculation->draft_tokens;
  drafter->tokens_per_step = speculation->tokens_per_step;
  drafter->model = draft.model;
  drafter->layout = layout;
  drafter->precision = draft.precision;
  drafter->device = draft.device;
  memcpy(drafter->layers_of_kind, draft.layers_of_kind, sizeof draft.layers_of_kind);
  drafter->layers_s = draft.layers_s;
  drafter->weights_bytes = speculation->is_module ? module_bytes(draft.model, &layout, &draft.precision)
                                                  : memory_weights_bytes(draft.model, &layout, &draft.precision);
}

/* Scheduled with the step that it is part of, so without a cost of its own for step and sequences. */
static struct engine draft_engine(const struct engine *engine)
{
  const struct drafter *drafter = &engine->drafter;
  struct engine draft = *engine;
  draft.eager_s *= (double)drafter->model->layer_count / engine->model->layer_count;
  draft.model = drafter->model;
  draft.layout = drafter->layout;
  draft.precision = drafter->precision;
  draft.device = drafter->device;
  memcpy(draft.layers_of_kind, drafter->layers_of_kind, sizeof draft.layers_of_kind);
  draft.layers_s = drafter->layers_s;
  draft.constants.step_us = 0;
  draft.adapters = (struct adapters){0, 0};
  draft.drafter.draft_tokens = 0;
  return draft;
}

/* Its time is a part of its own: groups and launch costs of the step stay the model's. */
static void add(struct step_time *sum, const struct engine *engine, const struct step_shape *shape, double times)
{
  const struct engine draft = draft_engine(engine);
  struct step_time time;
  step_time(&time, &draft, shape, 0);
  sum->seconds += times * time.seconds;
  sum->draft_s += times * time.seconds;
  for (int bound = 0; bound < BOUND_COUNT; bound++)
    sum->bound_s[bound] += times * time.bound_s[bound];
  sum->flops_s += times * time.flops_s;
  sum->weight_bytes += times * time.weight_bytes;
  sum->kv_bytes += times * time.kv_bytes;
  sum->activation_bytes += times * time.activation_bytes;
}

void speculative_add_drafts(struct step_time *sum, const struct engine *engine, const struct step_shape *shape)
{
  const struct step_shape one = {.decode_sequences = shape->decode_sequences,
                                 .decode_context_tokens = shape->decode_context_tokens};
  add(sum, engine, &one, engine->drafter.draft_tokens);
}

void speculative_add_chunk(struct step_time *sum, const struct engine *engine, const struct step_shape *shape)
{
  const struct step_shape chunk = {.prefill_tokens = shape->prefill_tokens,
                                   .prefill_past_tokens = shape->prefill_past_tokens,
                                   .prefill_sequences = shape->prefill_sequences};
  add(sum, engine, &chunk, 1);
}
