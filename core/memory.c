/* A replica's memory: the parts of each pipeline stage, the pool that the engine's own rule leaves, the smallest
   layout. Every term names its section of MEMORY; bytes throughout. */
#include "core/memory.h"

#include "core/memory_int.h"
#include "core/parallel.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

/* ---- the pool by each engine's rule (MEMORY §3-4) ---- */

double memory_fraction(const struct memory_case *c)
{
  const double loss = c->layout->tensor_parallel >= 4 ? c->preset->wide_memory_fraction_loss_ratio : 0;
  return c->preset->memory_fraction_ratio - loss;
}

/* What other processes and the device's context hold is not subtracted, it must merely be free. */
static void vllm_budget(struct memory_plan *plan, double fraction)
{
  plan->usable_bytes = fraction * plan->total_bytes;
  plan->kv_cache_bytes = plan->usable_bytes - plan->weights_bytes - plan->activations_bytes - plan->runtime_bytes;
}

/* Holds back (1 - fraction) of what is free before loading; activations and buffers live in there. */
static void sglang_budget(struct memory_plan *plan, double fraction)
{
  const double context_bytes = 0.5 * GIB;
  plan->activations_bytes = 0;
  plan->runtime_bytes = context_bytes;
  plan->kv_cache_bytes = fraction * (plan->total_bytes - context_bytes) - plan->weights_bytes;
  plan->usable_bytes = plan->weights_bytes + plan->runtime_bytes + plan->kv_cache_bytes;
}

/* Gives the pool a fraction of what is free after the engine is loaded. */
static void tensorrt_budget(struct memory_plan *plan, double fraction)
{
  const double free_bytes = plan->total_bytes - plan->weights_bytes - plan->activations_bytes - plan->runtime_bytes;
  plan->kv_cache_bytes = fraction * free_bytes;
  plan->usable_bytes = plan->total_bytes - (1 - fraction) * free_bytes;
}

static void set_pool(struct memory_plan *plan, const struct memory_case *c)
{
  switch (c->preset->memory_rule) {
  case MEMORY_RULE_VLLM: vllm_budget(plan, memory_fraction(c)); break;
  case MEMORY_RULE_SGLANG: sglang_budget(plan, memory_fraction(c)); break;
  case MEMORY_RULE_TENSORRT: tensorrt_budget(plan, memory_fraction(c)); break;
  case MEMORY_RULE_LLAMA_CPP: vllm_budget(plan, memory_fraction(c)); break;
  }
}

/* ---- plans ---- */

static bool counts_head(const struct memory_case *c)
{
  return c->preset->memory_rule == MEMORY_RULE_LLAMA_CPP;
}

static void plan_one(struct memory_plan *out, const struct memory_case *c, const struct memory_stage *stage,
                     const memory_by_kind layers)
{
  out->total_bytes = hardware_memory_bytes(c->hardware, NULL);
  out->weights_bytes = memory_stage_weights(c, stage, layers);
  out->activations_bytes = memory_activations_bytes(c, stage);
  out->graphs_bytes = memory_graphs_bytes(c);
  out->runtime_bytes = memory_non_torch_bytes(c) + (c->preset->memory.has_graphs_in_budget ? out->graphs_bytes : 0);
  set_pool(out, c);
  out->kv_growing_per_token_bytes = memory_stage_token_bytes(c->model, c->layout, c->precision, c->preset, stage);
  out->kv_tokens = 0;
}

void memory_plan_stage(struct memory_plan *out, const struct memory_case *c, unsigned stage)
{
  const struct memory_stage s = memory_stage_of(c->model, c->layout, counts_head(c), stage);
  memory_by_kind layers;
  memory_layer_weights(layers, c);
  plan_one(out, c, &s, layers);
}

/* Tokens for which a stage has room; stages without growing layers compare by bytes. */
static double room(const struct memory_plan *plan)
{
  return plan->kv_cache_bytes / fmax(1, plan->kv_growing_per_token_bytes);
}

void memory_plan_of(struct memory_plan *out, const struct memory_case *c)
{
  const double block = c->preset->kv_block_tokens;
  memory_by_kind layers;
  memory_layer_weights(layers, c);
  memset(out, 0, sizeof *out);
  for (unsigned i = 0; i < c->layout->pipeline_parallel; i++) {
    const struct memory_stage stage = memory_stage_of(c->model, c->layout, counts_head(c), i);
    struct memory_plan plan;
    plan_one(&plan, c, &stage, layers);
    if (i == 0 || room(&plan) < room(out))
      *out = plan;
  }
  if (out->kv_cache_bytes > 0 && out->kv_growing_per_token_bytes > 0)
    out->kv_tokens = floor(out->kv_cache_bytes / (block * out->kv_growing_per_token_bytes)) * block *
                     c->layout->attention_data_parallel;
}

void memory_plan(struct memory_plan *out, const struct model *model, const struct hardware *hardware,
                 const struct layout *layout, const struct model_precision *precision, const struct preset *preset)
{
  const struct memory_case c = {
      .model = model, .hardware = hardware, .layout = layout, .precision = precision, .preset = preset};
  memory_plan_of(out, &c);
}

/* ---- the smallest layout ---- */

/* What one request lacks on the tightest stage; ≤ 0: it fits. The tightest stage for the pool need not be the one whose
   layers hold most, so a little is lost where layers differ. */
double memory_missing_bytes(const struct memory_case *c, double tokens)
{
  struct memory_plan plan;
  memory_plan_of(&plan, c);
  return memory_sequence_bytes(c->model, c->layout, c->precision, c->preset, tokens) - plan.kv_cache_bytes;
}

static bool holds(const struct memory_case *base, const struct layout *layout, double tokens)
{
  struct memory_case c = *base;
  c.layout = layout;
  return memory_missing_bytes(&c, tokens) <= 0;
}

/* By bisection: memory per GPU falls with the number of stages. */
unsigned memory_fewest_stages(const struct model *model, const struct hardware *hardware,
                              const struct model_precision *precision, const struct preset *preset,
                              unsigned tensor_parallel, unsigned most, double tokens)
{
  const struct memory_case c = {.model = model, .hardware = hardware, .precision = precision, .preset = preset};
  struct layout layout = {tensor_parallel, most < model->layer_count ? most : model->layer_count, 1, 1};
  unsigned low = 1, high = layout.pipeline_parallel;
  if (most == 0 || !holds(&c, &layout, tokens))
    return 0;
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    layout.pipeline_parallel = middle;
    if (holds(&c, &layout, tokens))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

unsigned memory_min_gpus(struct layout *layout, const struct model *model, const struct hardware *hardware,
                         const struct model_precision *precision, const struct preset *preset, double tokens)
{
  unsigned degrees[64];
  const size_t count = parallel_tensor_degrees(degrees, 64, model, hardware);
  unsigned best = 0;
  for (size_t i = 0; i < count; i++) {
    const unsigned most = best != 0 ? best : 1024;
    const unsigned stages =
        memory_fewest_stages(model, hardware, precision, preset, degrees[i], most / degrees[i], tokens);
    if (stages == 0 || (best != 0 && stages * degrees[i] > best))
      continue;
    best = stages * degrees[i]; /* at equal size the larger tensor degree: it is also the faster one */
    *layout = (struct layout){degrees[i], stages, 1, 1};
  }
  return best;
}
