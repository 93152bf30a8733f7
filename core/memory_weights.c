/* Bytes of the weights on one GPU: every fused tensor of the largest stage with the allocator's rounding, what is split
   and what every rank holds. MEMORY §1. */
#include "core/memory_int.h"

#include "core/parallel.h"
#include "core/units.h"

#include <math.h>

/* What a weight sum depends on. Borrowed. */
struct weights {
  const struct model *model;
  const struct layout *layout;
  const struct model_precision *precision;
};

double memory_split(unsigned value, unsigned parts)
{
  return ceil((double)value / (double)parts);
}

double memory_padded_vocabulary(const struct model *model)
{
  return ceil(model->vocab_size / 64.0) * 64;
}

/* PyTorch's caching allocator: 512-byte steps; a tensor of 10 MiB and more gets a segment in 2 MiB steps, and a remainder
   of at most 1 MiB stays with it. */
static double allocated_bytes(double bytes)
{
  const double rounded = ceil(bytes / 512) * 512;
  double segment;
  if (rounded < 10 * MIB)
    return rounded;
  segment = ceil(rounded / (2 * MIB)) * 2 * MIB;
  return segment - rounded <= MIB ? segment : rounded;
}

/* `stack` matrices of one fused tensor in their format; 8-bit formats carry a 4-byte scale per output channel. */
static double matrix_bytes(const struct weights *w, double stack, double outputs, double inputs,
                           enum precision precision)
{
  double bytes = allocated_bytes(stack * outputs * inputs * model_bytes_per_weight(w->model, precision));
  if (precision == PRECISION_FP8 || precision == PRECISION_INT8)
    bytes += allocated_bytes(stack * outputs * 4);
  return bytes;
}

static double vector_bytes(const struct weights *w, double elements)
{
  return allocated_bytes(elements * precision_weight_bytes(w->precision->embeddings));
}

static double grouped(const struct weights *w, const struct attention *attention)
{
  const unsigned tp = w->layout->tensor_parallel;
  const double query_heads = memory_split(attention->query_heads, tp);
  const double kv_heads = attention->shares_kv ? 0 : memory_split(attention->kv_heads, tp); /* replicated beyond */
  const double qkv = query_heads * (attention->has_output_gate ? 2 : 1) * attention->head_dim +
                     kv_heads * (attention->head_dim + attention->value_head_dim);
  const enum precision precision = w->precision->attention;
  double bytes = matrix_bytes(w, 1, qkv, w->model->hidden_size, precision) +
                 matrix_bytes(w, 1, w->model->hidden_size, query_heads * attention->value_head_dim, precision);
  if (attention->has_qkv_bias)
    bytes += vector_bytes(w, qkv);
  if (attention->has_output_bias)
    bytes += vector_bytes(w, w->model->hidden_size);
  return bytes + vector_bytes(w, attention->query_norm_size) + vector_bytes(w, attention->key_norm_size) +
         vector_bytes(w, attention->sink_parameters);
}

/* Down-projections, latents and the indexer are on every rank; what carries heads is split. */
static double latent(const struct weights *w, const struct attention *attention)
{
  const enum precision precision = w->precision->attention;
  const double hidden = w->model->hidden_size;
  const double heads = memory_split(attention->query_heads, w->layout->tensor_parallel);
  const double query_dims = attention->nope_head_dim + attention->rope_head_dim;
  const double latent_dims = attention->kv_lora_rank + attention->rope_head_dim;
  const double query_inputs = attention->query_lora_rank != 0 ? attention->query_lora_rank : hidden;
  double bytes = matrix_bytes(w, 1, attention->query_lora_rank + latent_dims, hidden, precision);
  bytes += matrix_bytes(w, 1, heads * query_dims, query_inputs, precision);
  bytes += matrix_bytes(w, 1, heads * (attention->nope_head_dim + attention->value_head_dim), attention->kv_lora_rank,
                        precision);
  bytes += matrix_bytes(w, 1, hidden, heads * attention->value_head_dim, precision);
  if (attention->index_top_k != 0)
    bytes += matrix_bytes(w, 1, (double)attention->index_heads * attention->index_head_dim, attention->query_lora_rank,
                          precision) +
             matrix_bytes(w, 1, attention->index_head_dim, hidden, precision);
  return bytes + vector_bytes(w, attention->query_norm_size) + vector_bytes(w, attention->key_norm_size);
}

static double attention_bytes(const struct weights *w, const struct attention *attention)
{
  switch (attention->kind) {
  case ATTENTION_GROUPED: return grouped(w, attention);
  case ATTENTION_LATENT: return latent(w, attention);
  case ATTENTION_LINEAR:
    return matrix_bytes(w, 1, (double)attention->linear_parameters / w->model->hidden_size / w->layout->tensor_parallel,
                        w->model->hidden_size, w->precision->attention);
  case ATTENTION_NONE: break;
  }
  return 0;
}

static double dense(const struct weights *w, const struct feed_forward *feed_forward, unsigned intermediate_size)
{
  const double intermediate = memory_split(intermediate_size, w->layout->tensor_parallel);
  const double up = intermediate * (feed_forward->is_gated ? 2 : 1);
  double bytes = matrix_bytes(w, 1, up, w->model->hidden_size, w->precision->dense) +
                 matrix_bytes(w, 1, w->model->hidden_size, intermediate, w->precision->dense);
  if (feed_forward->has_up_bias)
    bytes += vector_bytes(w, up);
  if (feed_forward->has_down_bias)
    bytes += vector_bytes(w, w->model->hidden_size);
  return bytes;
}

/* Routed experts are one stack per projection: whole experts under expert parallelism, slices of all of them without. */
static double routed(const struct weights *w, const struct feed_forward *feed_forward)
{
  const unsigned ranks = w->layout->tensor_parallel * w->layout->attention_data_parallel;
  const bool is_whole = w->layout->expert_parallel > 1;
  const double stack = is_whole ? memory_split(feed_forward->experts, ranks) : feed_forward->experts;
  const double intermediate =
      is_whole ? feed_forward->intermediate_size : memory_split(feed_forward->intermediate_size, ranks);
  const double up = intermediate * (feed_forward->is_gated ? 2 : 1);
  const double hidden = w->model->hidden_size;
  double bytes = vector_bytes(w, feed_forward->experts * hidden) +
                 matrix_bytes(w, stack, up, hidden, w->precision->experts) +
                 matrix_bytes(w, stack, hidden, intermediate, w->precision->experts);
  if (feed_forward->has_expert_bias)
    bytes += vector_bytes(w, stack * up) + vector_bytes(w, stack * hidden);
  if (feed_forward->shared_intermediate_size != 0)
    bytes += dense(w, feed_forward, feed_forward->shared_intermediate_size);
  return bytes;
}

static double layer_bytes(const struct weights *w, const struct layer *layer)
{
  double bytes = vector_bytes(w, layer->norm_parameters) + attention_bytes(w, &layer->attention);
  if (layer->feed_forward.kind == FEED_FORWARD_DENSE)
    bytes += dense(w, &layer->feed_forward, layer->feed_forward.intermediate_size);
  else if (layer->feed_forward.kind == FEED_FORWARD_MOE)
    bytes += routed(w, &layer->feed_forward);
  return bytes;
}

/* cos/sin table of the rotary embedding, on every rank; none where positions are learned. */
static double rotary_bytes(const struct model *model)
{
  if (model->position_embeddings != 0)
    return 0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct attention *attention = &model->layers[kind].attention;
    if (attention->kind == ATTENTION_GROUPED)
      return 2.0 * model->max_context_tokens * attention->head_dim;
    if (attention->kind == ATTENTION_LATENT)
      return 2.0 * model->max_context_tokens * attention->rope_head_dim;
  }
  return 0;
}

/* Layers are summed in stage order; the stage with the most layers comes first, so the first is the largest. Being first or
   last it holds one of embedding and head; a single stage holds both. */
double memory_weights_bytes(const struct model *model, const struct layout *layout,
                            const struct model_precision *precision)
{
  const struct weights w = {model, layout, precision};
  const unsigned stage_layers = parallel_stage_layers(model, layout);
  const double rows = ceil(memory_padded_vocabulary(model) / layout->tensor_parallel);
  double bytes = matrix_bytes(&w, 1, rows, model->hidden_size, precision->embeddings) + rotary_bytes(model);
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    unsigned count = 0;
    for (unsigned i = 0; i < stage_layers; i++)
      count += model->layer_order[i] == kind;
    bytes += count * layer_bytes(&w, &model->layers[kind]);
  }
  if (layout->pipeline_parallel == 1 && !model->has_tied_embeddings)
    bytes += matrix_bytes(&w, 1, rows, model->hidden_size, precision->head);
  bytes += vector_bytes(&w, (double)model->position_embeddings * model->hidden_size);
  return bytes + vector_bytes(&w, model->final_norm_parameters) + vector_bytes(&w, model->embedding_norm_parameters);
}
