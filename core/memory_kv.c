/* The KV pool: bytes of a token, blocks, groups of layers, what a sequence holds of them. MEMORY §2. */
#include "core/memory_int.h"

#include "core/units.h"

#include <math.h>

struct memory_stage memory_stage_of(const struct model *model, const struct layout *layout, bool counts_head,
                                    unsigned stage)
{
  const unsigned stages = layout->pipeline_parallel;
  const unsigned units = model->layer_count + (counts_head ? 1 : 0);
  const unsigned each = units / stages, more = units % stages;
  struct memory_stage s = {.is_first = stage == 0, .is_last = stage + 1 == stages};
  s.first = stage * each + (stage < more ? stage : more);
  s.end = s.first + each + (stage < more ? 1 : 0);
  if (s.end > model->layer_count)
    s.end = model->layer_count;
  if (s.first > s.end)
    s.first = s.end;
  return s;
}

/* ---- one layer ---- */

static double latent_elements(const struct attention *a, const struct layout *layout, const struct preset *preset)
{
  const double latent = a->kv_lora_rank + a->rope_head_dim;
  switch (preset->memory.latent_cache) {
  case LATENT_CACHE_PADDED: return memory_split(latent, 128) * 128;
  case LATENT_CACHE_FULL_HEADS:
    return memory_split(a->query_heads, layout->tensor_parallel) * 2 *
           memory_split(a->nope_head_dim + a->rope_head_dim, 128) * 128;
  case LATENT_CACHE_COMPRESSED: break;
  }
  return latent;
}

/* KV bytes a token adds to one layer on one rank. KV heads are never fewer than one; a latent is whole on every rank, and
   an indexer keeps an fp8 key with a 4-byte scale for every 128 elements. */
static double layer_token_bytes(const struct attention *a, const struct layout *layout,
                                const struct model_precision *precision, const struct preset *preset)
{
  const double element = precision_element_bytes(precision->kv_cache);
  if (a->shares_kv)
    return 0;
  if (a->kind == ATTENTION_GROUPED)
    return memory_split(a->kv_heads, layout->tensor_parallel) * (a->head_dim + a->value_head_dim) * element;
  if (a->kind == ATTENTION_LATENT)
    return latent_elements(a, layout, preset) * element +
           (a->index_top_k != 0 ? a->index_head_dim + 4 * memory_split(a->index_head_dim, 128) : 0);
  return 0;
}

/* Recurrent state of one sequence in one layer on one rank. vLLM keeps one input less of the convolution than the model:
   the newest needs no memory. */
static double layer_state_bytes(const struct attention *a, const struct layout *layout, const struct preset *preset)
{
  const double newest = 2 * (2.0 * a->linear_key_heads * a->linear_key_head_dim +
                             (double)a->linear_value_heads * a->linear_value_head_dim);
  double bytes = a->linear_state_bytes != 0 ? (double)a->linear_state_bytes : 2 * (double)a->linear_state_elements;
  if (preset->memory_rule == MEMORY_RULE_VLLM && a->linear_conv_kernel > 1)
    bytes = fmax(0, bytes - newest);
  return a->kind == ATTENTION_LINEAR ? bytes / layout->tensor_parallel : 0;
}

double memory_stage_token_bytes(const struct model *model, const struct layout *layout,
                                const struct model_precision *precision, const struct preset *preset,
                                const struct memory_stage *stage)
{
  memory_by_kind token = {0};
  double bytes = 0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    token[kind] = layer_token_bytes(&model->layers[kind].attention, layout, precision, preset);
  for (unsigned i = stage->first; i < stage->end; i++)
    bytes += token[model->layer_order[i]];
  return bytes;
}

/* ---- groups of layers ---- */

/* Layers of one stage by what they hold. */
struct shape {
  unsigned full, windowed, recurrent;
  double window_tokens;     /* the longest */
  double layer_token_bytes; /* of the layer that holds most */
  double token_bytes;       /* all layers */
  double state_bytes;       /* of the largest state of one layer */
};

static void add_layers(struct shape *shape, const struct attention *a, double count, double token, double state)
{
  if (a->kind == ATTENTION_LINEAR)
    shape->recurrent += (unsigned)count;
  else if (token > 0 && a->window_tokens != 0)
    shape->windowed += (unsigned)count;
  else if (token > 0)
    shape->full += (unsigned)count;
  shape->window_tokens = fmax(shape->window_tokens, a->window_tokens);
  shape->layer_token_bytes = fmax(shape->layer_token_bytes, token);
  shape->token_bytes += count * token;
  shape->state_bytes = fmax(shape->state_bytes, state);
}

static struct shape shape_of(const struct model *model, const struct layout *layout,
                             const struct model_precision *precision, const struct preset *preset,
                             const struct memory_stage *stage)
{
  unsigned counts[MODEL_LAYER_KINDS_MAX] = {0};
  struct shape shape = {0};
  for (unsigned i = stage->first; i < stage->end; i++)
    counts[model->layer_order[i]]++;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct attention *a = &model->layers[kind].attention;
    if (counts[kind] != 0)
      add_layers(&shape, a, counts[kind], layer_token_bytes(a, layout, precision, preset),
                 layer_state_bytes(a, layout, preset));
  }
  if (!preset->memory.has_window_groups) { /* charged like the others */
    shape.full += shape.windowed;
    shape.windowed = 0;
  }
  if (preset->memory_rule != MEMORY_RULE_VLLM) /* states have a pool of their own */
    shape.recurrent = 0;
  return shape;
}

/* Layers of one group: as many as the smallest kind of layer has. */
static double group_size(const struct shape *shape)
{
  const unsigned counts[] = {shape->full, shape->windowed, shape->recurrent};
  double least = 0;
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    if (counts[i] != 0 && (least <= 0 || counts[i] < least))
      least = counts[i];
  return least;
}

static double groups_of(const struct shape *shape)
{
  const double size = fmax(1, group_size(shape));
  return memory_split(shape->full, size) + memory_split(shape->windowed, size) + memory_split(shape->recurrent, size);
}

/* A block of attention grows until it can stand for a layer's state; layers that are all alike form one group. */
static void cut(struct memory_pool *out, const struct shape *shape, const struct preset *preset)
{
  out->block_tokens = preset->kv_block_tokens;
  out->groups = groups_of(shape);
  if (shape->recurrent != 0 && shape->layer_token_bytes > 0)
    out->block_tokens = fmax(out->block_tokens, memory_split(shape->state_bytes / shape->layer_token_bytes, 16) * 16);
  if (out->groups > 1)
    out->block_bytes = group_size(shape) * fmax(out->block_tokens * shape->layer_token_bytes, shape->state_bytes);
  else
    out->block_bytes = fmax(out->block_tokens * shape->token_bytes, shape->recurrent * shape->state_bytes);
}

/* Blocks of one sequence with `windowed` of its `tokens` in layers with a window. */
static double sequence_blocks(const struct shape *shape, const struct preset *preset, double block, double tokens,
                              double windowed)
{
  const double size = fmax(1, group_size(shape));
  return memory_split(shape->full, size) * memory_split(tokens, block) +
         memory_split(shape->windowed, size) * memory_split(windowed, block) +
         memory_split(shape->recurrent, size) * preset->memory.state_blocks;
}

/* The stage that charges most for a token. */
static struct shape fullest_shape(const struct model *model, const struct layout *layout,
                                  const struct model_precision *precision, const struct preset *preset)
{
  const bool counts_head = preset->memory_rule == MEMORY_RULE_LLAMA_CPP;
  struct shape fullest = {0};
  for (unsigned i = 0; i < layout->pipeline_parallel; i++) {
    const struct memory_stage stage = memory_stage_of(model, layout, counts_head, i);
    const struct shape shape = shape_of(model, layout, precision, preset, &stage);
    if (i == 0 || shape.token_bytes > fullest.token_bytes)
      fullest = shape;
  }
  return fullest;
}

void memory_pool_cut(struct memory_pool *out, const struct model *model, const struct layout *layout,
                     const struct model_precision *precision, const struct preset *preset, double pool_bytes)
{
  const struct shape shape = fullest_shape(model, layout, precision, preset);
  *out = (struct memory_pool){0};
  cut(out, &shape, preset);
  if (out->block_bytes > 0)
    out->blocks = floor(fmax(0, pool_bytes) / out->block_bytes);
  out->printed_tokens = floor(out->blocks / fmax(1, out->groups)) * out->block_tokens;
}

/* During prefill a window holds what a full step adds, and one block that it shares with what fell out of it. */
double memory_pool_sequences(const struct model *model, const struct layout *layout,
                             const struct model_precision *precision, const struct preset *preset, double pool_bytes,
                             double tokens)
{
  const struct shape shape = fullest_shape(model, layout, precision, preset);
  const double step = shape.window_tokens - 1 + preset->max_batched_tokens;
  struct memory_pool pool;
  double needed;
  memory_pool_cut(&pool, model, layout, precision, preset, pool_bytes);
  needed = sequence_blocks(&shape, preset, pool.block_tokens, tokens, fmin(step, tokens) + pool.block_tokens);
  return needed > 0 ? pool.blocks / needed : 0;
}

/* ---- a sequence that decodes ---- */

/* Engines without groups keep windows and states apart, each layer at its own size. */
static double layerwise_bytes(const struct model *model, const struct layout *layout,
                              const struct model_precision *precision, const struct preset *preset,
                              const struct memory_stage *stage, double tokens)
{
  const double block = preset->kv_block_tokens;
  memory_by_kind held = {0};
  double bytes = 0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct attention *a = &model->layers[kind].attention;
    const double seen = a->window_tokens != 0 ? fmin(tokens, a->window_tokens) : tokens;
    held[kind] = memory_split(seen, block) * block * layer_token_bytes(a, layout, precision, preset) +
                 layer_state_bytes(a, layout, preset);
  }
  for (unsigned i = stage->first; i < stage->end; i++)
    bytes += held[model->layer_order[i]];
  return bytes;
}

static double stage_sequence_bytes(const struct model *model, const struct layout *layout,
                                   const struct model_precision *precision, const struct preset *preset,
                                   const struct memory_stage *stage, double tokens)
{
  struct memory_pool pool;
  struct shape shape;
  if (preset->memory_rule != MEMORY_RULE_VLLM)
    return layerwise_bytes(model, layout, precision, preset, stage, tokens);
  shape = shape_of(model, layout, precision, preset, stage);
  cut(&pool, &shape, preset);
  return pool.block_bytes *
         sequence_blocks(&shape, preset, pool.block_tokens, tokens, fmin(shape.window_tokens, tokens));
}

double memory_sequence_bytes(const struct model *model, const struct layout *layout,
                             const struct model_precision *precision, const struct preset *preset, double tokens)
{
  const bool counts_head = preset->memory_rule == MEMORY_RULE_LLAMA_CPP;
  double most = 0;
  for (unsigned i = 0; i < layout->pipeline_parallel; i++) {
    const struct memory_stage stage = memory_stage_of(model, layout, counts_head, i);
    most = fmax(most, stage_sequence_bytes(model, layout, precision, preset, &stage, tokens));
  }
  return most;
}
