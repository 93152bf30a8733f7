/* Memory sums per GPU. Every term names its section of MEMORY; bytes throughout. */
#include "core/memory.h"

#include "core/memory_int.h"
#include "core/parallel.h"
#include "core/units.h"

#include <math.h>

/* Forward pass of one layer over a full token budget. MEMORY §3. */
static double forward_bytes(const struct model *model, const struct feed_forward *feed_forward,
                            const struct layout *layout, const struct model_precision *precision, double tokens)
{
  const bool is_moe = feed_forward->kind == FEED_FORWARD_MOE;
  const unsigned size = is_moe ? feed_forward->shared_intermediate_size : feed_forward->intermediate_size;
  const double intermediate = memory_split(size, layout->tensor_parallel);
  double bytes = 2 * tokens * ((feed_forward->is_gated ? 3 : 2) * intermediate + 4.0 * model->hidden_size) + 16 * MIB;
  if (precision->dense == PRECISION_FP8 || precision->dense == PRECISION_INT8)
    bytes += tokens * intermediate; /* 1-byte copy of the down projection's input */
  if (layout->pipeline_parallel > 1)
    bytes += 4 * tokens * model->hidden_size;
  return bytes;
}

/* Two workspaces of the grouped kernels, on top of the peak; kernels for mxfp4 experts need none (MEMORY §3). */
static double workspace_bytes(const struct model *model, const struct feed_forward *feed_forward,
                              const struct layout *layout, const struct model_precision *precision, double tokens)
{
  const double ranks = layout->expert_parallel > 1 ? 1 : layout->tensor_parallel * layout->attention_data_parallel;
  const double intermediate = feed_forward->intermediate_size / ranks;
  const double hidden = model->hidden_size;
  if (feed_forward->kind != FEED_FORWARD_MOE || precision->experts == PRECISION_MXFP4)
    return 0;
  return 2 * tokens * feed_forward->experts_per_token * (fmax(intermediate, hidden) + fmax(2 * intermediate, hidden));
}

/* Activation peak = max(sampler, forward) + workspace of the engine's own memory profile. MEMORY §3. */
static double activations_bytes(const struct model *model, const struct layout *layout,
                                const struct model_precision *precision, const struct preset *preset)
{
  const double tokens = preset->max_batched_tokens;
  const double sampler = preset->sampler_multiple * 4 * memory_padded_vocabulary(model) * preset->max_batch +
                         tokens * (2.39 * model->hidden_size + 4429);
  double forward = 0, workspace = 0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct feed_forward *feed_forward = &model->layers[kind].feed_forward;
    forward = fmax(forward, forward_bytes(model, feed_forward, layout, precision, tokens));
    workspace = fmax(workspace, workspace_bytes(model, feed_forward, layout, precision, tokens));
  }
  return fmax(sampler, forward) + workspace;
}

/* Growth outside of the framework's allocator: NCCL and custom all-reduce buffers from two ranks on. MEMORY §3, medians of
   vLLM 0.18-0.19 on NVLink; hosts without it were seen at 0.2 GiB. */
static double non_torch_bytes(const struct hardware *hardware, const struct layout *layout)
{
  const unsigned ranks = parallel_gpus(layout);
  if (ranks == 1)
    return 0.25 * GIB;
  if (hardware->link == HARDWARE_LINK_PCIE)
    return 0.21 * GIB;
  return (ranks == 2 ? 2.07 : 2.17) * GIB;
}

static void vllm_budget(struct memory_plan *plan, double fraction)
{
  plan->usable_bytes = fraction * plan->total_bytes;
  plan->kv_cache_bytes = plan->usable_bytes - plan->weights_bytes - plan->activations_bytes - plan->runtime_bytes;
}

/* SGLang reserves (1 - fraction) of what is free before loading, and holds its activations in that reserve. */
static void sglang_budget(struct memory_plan *plan, double fraction)
{
  const double context_bytes = 0.5 * GIB;
  plan->activations_bytes = 0;
  plan->runtime_bytes = context_bytes;
  plan->kv_cache_bytes = fraction * (plan->total_bytes - context_bytes) - plan->weights_bytes;
  plan->usable_bytes = plan->weights_bytes + plan->runtime_bytes + plan->kv_cache_bytes;
}

/* TensorRT-LLM gives the pool a fraction of what is free after the engine is loaded. */
static void tensorrt_budget(struct memory_plan *plan, double fraction)
{
  const double free_bytes = plan->total_bytes - plan->weights_bytes - plan->activations_bytes - plan->runtime_bytes;
  plan->kv_cache_bytes = fraction * free_bytes;
  plan->usable_bytes = plan->total_bytes - (1 - fraction) * free_bytes;
}

static double element_bytes(const struct model_precision *precision)
{
  return precision_element_bytes(precision->kv_cache);
}

/* KV bytes a token adds to one layer on one rank. KV heads are never fewer than one; a latent is whole on every rank, and
   an indexer keeps an fp8 key with a 4-byte scale. MEMORY §2. */
static double layer_token_bytes(const struct attention *attention, const struct layout *layout,
                                const struct model_precision *precision)
{
  if (attention->shares_kv)
    return 0;
  if (attention->kind == ATTENTION_GROUPED)
    return memory_split(attention->kv_heads, layout->tensor_parallel) *
           (attention->head_dim + attention->value_head_dim) * element_bytes(precision);
  if (attention->kind == ATTENTION_LATENT)
    return (attention->kv_lora_rank + attention->rope_head_dim) * element_bytes(precision) +
           (attention->index_top_k != 0 ? attention->index_head_dim + 4 : 0);
  return 0;
}

/* Recurrent state of one sequence in one layer on one rank. */
static double layer_state_bytes(const struct attention *attention, const struct layout *layout)
{
  const double bytes = attention->linear_state_bytes != 0 ? (double)attention->linear_state_bytes
                                                          : 2 * (double)attention->linear_state_elements;
  return attention->kind == ATTENTION_LINEAR ? bytes / layout->tensor_parallel : 0;
}

double memory_sequence_bytes(const struct model *model, const struct layout *layout,
                             const struct model_precision *precision, const struct preset *preset, double tokens)
{
  const double block = preset->kv_block_tokens;
  double bytes = 0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct attention *attention = &model->layers[kind].attention;
    const double held = attention->window_tokens != 0 ? fmin(tokens, attention->window_tokens) : tokens;
    bytes += model_layers_of_kind(model, kind) *
             (ceil(held / block) * block * layer_token_bytes(attention, layout, precision) +
              layer_state_bytes(attention, layout));
  }
  return bytes / layout->pipeline_parallel;
}

/* One token in every layer of the largest stage (windowed ones too). */
static double token_bytes(const struct model *model, const struct layout *layout,
                          const struct model_precision *precision)
{
  const unsigned stage_layers = parallel_stage_layers(model, layout);
  double bytes = 0;
  for (unsigned i = 0; i < stage_layers; i++) {
    const struct attention *attention = &model->layers[model->layer_order[i]].attention;
    bytes += layer_token_bytes(attention, layout, precision);
  }
  return bytes;
}

void memory_plan(struct memory_plan *out, const struct model *model, const struct hardware *hardware,
                 const struct layout *layout, const struct model_precision *precision, const struct preset *preset)
{
  const double block = preset->kv_block_tokens;
  out->total_bytes = hardware_memory_bytes(hardware, NULL);
  out->weights_bytes = memory_weights_bytes(model, layout, precision);
  out->activations_bytes = activations_bytes(model, layout, precision, preset);
  out->runtime_bytes = non_torch_bytes(hardware, layout);
  switch (preset->memory_rule) {
  case MEMORY_RULE_VLLM: vllm_budget(out, preset->memory_fraction_ratio); break;
  case MEMORY_RULE_SGLANG: sglang_budget(out, preset->memory_fraction_ratio); break;
  case MEMORY_RULE_LLAMA_CPP:
  case MEMORY_RULE_TENSORRT: tensorrt_budget(out, preset->memory_fraction_ratio); break;
  }
  out->kv_growing_per_token_bytes = token_bytes(model, layout, precision);
  out->kv_tokens = 0;
  if (out->kv_cache_bytes > 0 && out->kv_growing_per_token_bytes > 0)
    out->kv_tokens = floor(out->kv_cache_bytes / (block * out->kv_growing_per_token_bytes)) * block;
}

static bool holds(const struct model *model, const struct hardware *hardware, const struct layout *layout,
                  const struct model_precision *precision, const struct preset *preset, double tokens)
{
  struct memory_plan plan;
  memory_plan(&plan, model, hardware, layout, precision, preset);
  return plan.kv_cache_bytes >= memory_sequence_bytes(model, layout, precision, preset, tokens);
}

/* For each tensor degree the fewest stages by bisection (memory per GPU falls with the number of stages). */
static unsigned fewest_stages(const struct model *model, const struct hardware *hardware, unsigned tp, unsigned most,
                              const struct model_precision *precision, const struct preset *preset, double tokens)
{
  struct layout layout = {tp, most, 1, 1};
  unsigned low = 1, high = most;
  if (most == 0 || !holds(model, hardware, &layout, precision, preset, tokens))
    return 0;
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    layout.pipeline_parallel = middle;
    if (holds(model, hardware, &layout, precision, preset, tokens))
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
    const unsigned most_gpus = best != 0 ? best : 1024;
    const unsigned most_stages = (unsigned)fmin(most_gpus / degrees[i], model->layer_count);
    const unsigned stages = fewest_stages(model, hardware, degrees[i], most_stages, precision, preset, tokens);
    if (stages == 0 || (best != 0 && stages * degrees[i] > best))
      continue;
    best = stages * degrees[i]; /* at equal size the larger tensor degree: it is also the faster one */
    *layout = (struct layout){degrees[i], stages, 1, 1};
  }
  return best;
}
