/* What an engine needs beside weights and KV cache: the activation peak of its profile run, buffers outside of the
   framework's allocator, CUDA graphs. MEMORY §3. */
#include "core/memory_int.h"

#include "core/units.h"

#include <math.h>

static double element_bytes(const struct memory_case *c)
{
  return precision_element_bytes(c->precision->embeddings);
}

static bool is_8_bit(enum precision precision)
{
  return precision == PRECISION_FP8 || precision == PRECISION_INT8;
}

/* Copies of the hidden state beside the MLP's: the first engine with FlashAttention and without biases on the query needs
   one less. */
static double hidden_copies(const struct memory_case *c, const struct attention *attention)
{
  const bool has_flash = c->hardware->family != HARDWARE_VOLTA;
  return c->preset->memory.is_first_engine && has_flash && !attention->has_qkv_bias ? 3 : 4;
}

/* An MLP over a full token budget; 8-bit ones copy the down projection's input. */
static double mlp_bytes(const struct memory_case *c, const struct layer *layer, unsigned intermediate_size)
{
  const double tokens = c->preset->max_batched_tokens;
  const double intermediate = memory_split(intermediate_size, c->layout->tensor_parallel);
  const double wide = (layer->feed_forward.is_gated ? 3 : 2) * intermediate;
  const double hidden = hidden_copies(c, &layer->attention) * c->model->hidden_size;
  return element_bytes(c) * tokens * (wide + hidden) + (is_8_bit(c->precision->dense) ? tokens * intermediate : 0);
}

/* Routed experts of engines without a workspace: every token once for each of its experts. */
static double routed_bytes(const struct memory_case *c, const struct feed_forward *feed_forward)
{
  const double tokens = c->preset->max_batched_tokens;
  const double hidden = c->model->hidden_size;
  const double intermediate = memory_split(feed_forward->intermediate_size, c->layout->tensor_parallel);
  return 2 * tokens * feed_forward->experts_per_token * (3 * intermediate + hidden) + 6 * tokens * hidden;
}

/* Kernels for mxfp4 experts need no workspace of their own. */
static bool has_workspace(const struct memory_case *c)
{
  return c->preset->memory.has_expert_workspace && c->precision->experts != PRECISION_MXFP4;
}

/* Two workspaces of the grouped kernels, on top of the peak. */
static double workspace_bytes(const struct memory_case *c, const struct feed_forward *feed_forward)
{
  const struct layout *layout = c->layout;
  const double ranks = layout->expert_parallel > 1 ? 1 : layout->tensor_parallel * layout->attention_data_parallel;
  const double intermediate = feed_forward->intermediate_size / ranks;
  const double hidden = feed_forward->latent_size != 0 ? feed_forward->latent_size : c->model->hidden_size;
  const double rows = (double)c->preset->max_batched_tokens * feed_forward->experts_per_token;
  if (feed_forward->kind != FEED_FORWARD_MOE || !has_workspace(c))
    return 0;
  return 2 * rows * (fmax(intermediate, hidden) + fmax(2 * intermediate, hidden));
}

static double forward_bytes(const struct memory_case *c, const struct layer *layer)
{
  const struct feed_forward *feed_forward = &layer->feed_forward;
  const double fixed = 16 * MIB;
  const double between_stages =
      c->layout->pipeline_parallel > 1 ? 4.0 * c->preset->max_batched_tokens * c->model->hidden_size : 0;
  switch (feed_forward->kind) {
  case FEED_FORWARD_DENSE: return mlp_bytes(c, layer, feed_forward->intermediate_size) + fixed + between_stages;
  case FEED_FORWARD_MOE:
    if (!has_workspace(c))
      return routed_bytes(c, feed_forward) + fixed + between_stages;
    return mlp_bytes(c, layer, feed_forward->shared_intermediate_size) + fixed + between_stages;
  case FEED_FORWARD_NONE: break;
  }
  return mlp_bytes(c, layer, 0) + fixed + between_stages;
}

/* Logits of every running sequence with the sampler's copies, on all ranks of the last stage. The first engine samples
   nothing while it profiles chunked prefill, and as many sequences as full images fit its budget: one. */
static double sampler_bytes(const struct memory_case *c)
{
  const struct preset *preset = c->preset;
  const bool has_images = preset->memory.is_first_engine && c->model->vision_parameters != 0;
  const double sequences = has_images ? 1 : preset->max_batch;
  const double multiple = preset->sampler_multiple + (c->precision->embeddings == PRECISION_FP32 ? 0.5 : 0);
  if (preset->memory.is_first_engine && preset->has_chunked_prefill)
    return 0;
  return multiple * 4 * memory_padded_vocabulary(c->model) * sequences +
         preset->max_batched_tokens * (2.39 * c->model->hidden_size + 4429);
}

/* One image or clip in flight: embeddings of a full budget and the encoder's own peak. */
static double vision_bytes(const struct memory_case *c)
{
  if (c->model->vision_parameters == 0)
    return 0;
  return 2.0 * c->preset->max_batched_tokens * c->model->hidden_size + 0.06 * GIB;
}

/* llama.cpp's compute buffer: logits of one ubatch, or the scores of all heads over the whole context with six copies of
   the hidden state; ten more where devices pass it on. All in fp32; exact for the logs of MEMORY §4. */
static double compute_buffer_bytes(const struct memory_case *c)
{
  const double rows = c->preset->max_batched_tokens;
  const double context = c->context_tokens > 0 ? c->context_tokens : c->model->max_context_tokens;
  const double copy = 4 * rows * c->model->hidden_size;
  double heads = 0;
  for (unsigned kind = 0; kind < c->model->layer_kind_count; kind++)
    heads = fmax(heads, c->model->layers[kind].attention.query_heads);
  return fmax(4 * rows * c->model->vocab_size + copy, 4 * rows * heads * context + 6 * copy) +
         (c->layout->pipeline_parallel > 1 ? 10 * copy : 0);
}

double memory_activations_bytes(const struct memory_case *c, const struct memory_stage *stage)
{
  bool is_here[MODEL_LAYER_KINDS_MAX] = {false};
  double forward = 0, workspace = 0;
  if (c->preset->memory_rule == MEMORY_RULE_LLAMA_CPP)
    return compute_buffer_bytes(c);
  for (unsigned i = stage->first; i < stage->end; i++)
    is_here[c->model->layer_order[i]] = true;
  for (unsigned kind = 0; kind < c->model->layer_kind_count; kind++)
    if (is_here[kind]) {
      forward = fmax(forward, forward_bytes(c, &c->model->layers[kind]));
      workspace = fmax(workspace, workspace_bytes(c, &c->model->layers[kind].feed_forward));
    }
  return fmax(stage->is_last ? sampler_bytes(c) : 0, forward) + workspace + (stage->is_first ? vision_bytes(c) : 0);
}

static double one_rank_gib(const struct memory_case *c)
{
  const struct memory_traits *memory = &c->preset->memory;
  const double large_device_bytes = 70 * GIB;
  double special = 0;
  if (c->layout->pipeline_parallel > 1)
    special = memory->pipeline_non_torch_gib;
  else if (c->hardware->family == HARDWARE_CDNA)
    special = memory->cdna_non_torch_gib;
  else if (hardware_memory_bytes(c->hardware, NULL) >= large_device_bytes)
    special = memory->large_device_non_torch_gib;
  return special > 0 ? special : memory->non_torch_gib[0];
}

/* Collective buffers decide from two ranks on: by version, ranks and link. */
double memory_non_torch_bytes(const struct memory_case *c)
{
  const struct memory_traits *memory = &c->preset->memory;
  const unsigned ranks = c->layout->tensor_parallel * c->layout->attention_data_parallel;
  if (c->non_torch_bytes > 0)
    return c->non_torch_bytes;
  if (ranks == 1)
    return GIB * one_rank_gib(c);
  if (c->hardware->link == HARDWARE_LINK_PCIE)
    return GIB * memory->pcie_non_torch_gib;
  return GIB * memory->non_torch_gib[ranks >= 8 ? 3 : ranks >= 3 ? 2 : 1];
}

/* Sizes that are captured: 1, 2, 4, then every 8th to 256, every 16th to 512; none above twice the batch limit. */
static double graph_sizes(unsigned max_batch)
{
  const double largest = fmin(512, 2.0 * max_batch);
  return 3 + floor(fmin(largest, 256) / 8) + fmax(0, floor((largest - 256) / 16));
}

/* Fitted on 51 sizes of dense models with one rank; experts add 0.4 GiB, ±0.7. The first engine's graphs are small. */
double memory_graphs_bytes(const struct memory_case *c)
{
  const double layers = memory_split(c->model->layer_count, c->layout->pipeline_parallel);
  bool has_experts = false;
  if (c->preset->is_eager || c->preset->memory_rule == MEMORY_RULE_LLAMA_CPP)
    return 0;
  if (c->preset->memory.is_first_engine)
    return GIB * 0.0065 * layers;
  for (unsigned kind = 0; kind < c->model->layer_kind_count; kind++)
    has_experts = has_experts || c->model->layers[kind].feed_forward.kind == FEED_FORWARD_MOE;
  return GIB * (0.130 + (has_experts ? 0.4 : 0) + 0.0216 * layers * graph_sizes(c->preset->max_batch) / 51);
}
