/* Bytes of the weights on one GPU: every fused tensor with the allocator's rounding, what is split and what every rank
   holds. MEMORY §1. */
#include "core/memory_int.h"

#include "core/units.h"

#include <math.h>

double memory_split(double value, double parts)
{
  return ceil(value / parts);
}

double memory_padded_vocabulary(const struct model *model)
{
  return memory_split(model->vocab_size, 64) * 64;
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

static bool is_llama_cpp(const struct memory_case *c)
{
  return c->preset != NULL && c->preset->memory_rule == MEMORY_RULE_LLAMA_CPP;
}

static double tensor_bytes(const struct memory_case *c, double bytes)
{
  return is_llama_cpp(c) ? bytes : allocated_bytes(bytes);
}

/* 4-byte scales of 8-bit weights; those of smaller formats are in the bytes of their weights. */
static double scale_count(const struct model_precision *p, enum precision precision, double outputs, double inputs)
{
  const double rows = p->scale_block_outputs != 0 ? memory_split(outputs, p->scale_block_outputs) : 1;
  const double columns = p->scale_block_inputs != 0 ? memory_split(inputs, p->scale_block_inputs) : 1;
  if (precision == PRECISION_FP8 || (precision == PRECISION_INT8 && p->quantised_weight_bytes <= 0))
    return rows * columns;
  return 0;
}

static double weight_bytes(const struct memory_case *c, enum precision precision)
{
  if (c->precision->quantised_weight_bytes > 0 &&
      (precision == PRECISION_INT4 || precision == PRECISION_NF4 || precision == PRECISION_INT8))
    return c->precision->quantised_weight_bytes;
  return model_bytes_per_weight(c->model, precision);
}

/* `stack` matrices of one fused tensor in their format. */
static double matrix_bytes(const struct memory_case *c, double stack, double outputs, double inputs,
                           enum precision precision)
{
  if (stack * outputs * inputs <= 0)
    return 0;
  return tensor_bytes(c, stack * outputs * inputs * weight_bytes(c, precision)) +
         tensor_bytes(c, 4 * stack * scale_count(c->precision, precision, outputs, inputs));
}

static double vector_bytes(const struct memory_case *c, double elements)
{
  return tensor_bytes(c, elements * precision_weight_bytes(c->precision->embeddings));
}

/* LoRA slots beside one linear layer that fuses `slices`: the input side is kept per slice, and what the layer's own
   split leaves whole is whole here too. */
static double adapter_bytes(const struct memory_case *c, double slices, double outputs, double inputs)
{
  return 2.0 * c->adapter_count * c->adapter_rank * (slices * inputs + outputs);
}

static double linear_bytes(const struct memory_case *c, double slices, double outputs, double inputs,
                           enum precision precision)
{
  return matrix_bytes(c, 1, outputs, inputs, precision) + adapter_bytes(c, slices, outputs, inputs);
}

/* KV heads beyond their number are replicated. */
static double grouped(const struct memory_case *c, const struct attention *a)
{
  const unsigned tp = c->layout->tensor_parallel;
  const double hidden = c->model->hidden_size;
  const double query_heads = memory_split(a->query_heads, tp);
  const double kv_heads = a->shares_kv ? 0 : memory_split(a->kv_heads, tp);
  const double kv_dims = a->head_dim + (a->values_are_keys ? 0 : a->value_head_dim);
  const double qkv = query_heads * (a->has_output_gate ? 2 : 1) * a->head_dim + kv_heads * kv_dims;
  const double slices = kv_heads > 0 ? 3 : 1;
  double bytes = linear_bytes(c, slices, qkv, a->input_size != 0 ? a->input_size : hidden, c->precision->attention) +
                 linear_bytes(c, 1, hidden, query_heads * a->value_head_dim, c->precision->attention);
  if (a->has_qkv_bias)
    bytes += vector_bytes(c, qkv);
  if (a->has_output_bias)
    bytes += vector_bytes(c, hidden);
  return bytes + vector_bytes(c, a->query_norm_size) + vector_bytes(c, a->key_norm_size) +
         vector_bytes(c, a->sink_parameters);
}

static double indexer(const struct memory_case *c, const struct attention *a)
{
  const double hidden = c->model->hidden_size;
  if (a->index_top_k == 0)
    return 0;
  return matrix_bytes(c, 1, (double)a->index_heads * a->index_head_dim, a->query_lora_rank, c->precision->attention) +
         matrix_bytes(c, 1, a->index_head_dim, hidden, c->precision->attention) +
         vector_bytes(c, hidden * a->index_heads) + vector_bytes(c, 2.0 * a->index_head_dim);
}

/* What decoding on the latent keeps beside the projections: an early engine both of them multiplied into their
   neighbours; later ones a 16-bit copy where the checkpoint is quantised. */
static double latent_copies(const struct memory_case *c, const struct attention *a, double heads, double query_inputs)
{
  const enum precision precision = c->precision->attention;
  if (c->preset != NULL && c->preset->memory.has_absorbed_latent)
    return matrix_bytes(c, 1, heads * (a->kv_lora_rank + a->rope_head_dim), query_inputs, precision) +
           matrix_bytes(c, 1, c->model->hidden_size, heads * a->kv_lora_rank, precision);
  if (precision == PRECISION_BF16 || precision == PRECISION_FP16)
    return 0;
  return tensor_bytes(c, 2 * heads * (a->nope_head_dim + a->value_head_dim) * a->kv_lora_rank);
}

/* Down-projections, latents and the indexer are on every rank; what carries heads is split. */
static double latent(const struct memory_case *c, const struct attention *a)
{
  const enum precision precision = c->precision->attention;
  const double hidden = c->model->hidden_size;
  const double heads = memory_split(a->query_heads, c->layout->tensor_parallel);
  const double latent_dims = a->kv_lora_rank + a->rope_head_dim;
  const double query_inputs = a->query_lora_rank != 0 ? a->query_lora_rank : hidden;
  double bytes = linear_bytes(c, 1, a->query_lora_rank + latent_dims, hidden, precision);
  bytes += linear_bytes(c, 1, heads * (a->nope_head_dim + a->rope_head_dim), query_inputs, precision);
  bytes += linear_bytes(c, 1, heads * (a->nope_head_dim + a->value_head_dim), a->kv_lora_rank, precision);
  bytes += linear_bytes(c, 1, hidden, heads * a->value_head_dim, precision);
  bytes += latent_copies(c, a, heads, query_inputs);
  return bytes + vector_bytes(c, a->query_lora_rank) + vector_bytes(c, a->kv_lora_rank) + indexer(c, a);
}

static double attention_bytes(const struct memory_case *c, const struct attention *a)
{
  const double hidden = c->model->hidden_size;
  switch (a->kind) {
  case ATTENTION_GROUPED: return grouped(c, a);
  case ATTENTION_LATENT: return latent(c, a);
  case ATTENTION_LINEAR:
    return matrix_bytes(c, 1, (double)a->linear_parameters / hidden / c->layout->tensor_parallel, hidden,
                        c->precision->attention);
  case ATTENTION_NONE: break;
  }
  return 0;
}

static double dense(const struct memory_case *c, const struct feed_forward *f, unsigned intermediate_size)
{
  const double hidden = c->model->hidden_size;
  const double intermediate = memory_split(intermediate_size, c->layout->tensor_parallel);
  const double slices = f->is_gated ? 2 : 1;
  double bytes = linear_bytes(c, slices, slices * intermediate, hidden, c->precision->dense) +
                 linear_bytes(c, 1, hidden, intermediate, c->precision->dense);
  if (f->has_up_bias)
    bytes += vector_bytes(c, slices * intermediate);
  if (f->has_down_bias)
    bytes += vector_bytes(c, hidden);
  return bytes;
}

/* Kernels for mxfp4 experts want the width in steps of 256 and each rank's intermediate size in steps of 64, repacked
   ones of 128. */
static double aligned_width(const struct memory_case *c, double size)
{
  return c->precision->experts == PRECISION_MXFP4 ? memory_split(size, 256) * 256 : size;
}

static double aligned_intermediate(const struct memory_case *c, double size)
{
  const enum hardware_family family = c->hardware != NULL ? c->hardware->family : HARDWARE_POOLED;
  const bool is_native = c->preset != NULL && c->preset->memory.has_native_mxfp4 && family >= HARDWARE_HOPPER &&
                         family <= HARDWARE_BLACKWELL_RTX;
  const double step = is_native ? 64 : 128;
  return c->precision->experts == PRECISION_MXFP4 ? memory_split(size, step) * step : size;
}

/* Routed experts are one stack per projection: whole experts under expert parallelism, slices of all of them without. */
static double routed(const struct memory_case *c, const struct feed_forward *f)
{
  const unsigned ranks = c->layout->tensor_parallel * c->layout->attention_data_parallel;
  const bool is_whole = c->layout->expert_parallel > 1;
  const double hidden = c->model->hidden_size;
  const double stack = is_whole ? memory_split(f->experts, ranks) : f->experts;
  const double width = aligned_width(c, f->latent_size != 0 ? f->latent_size : hidden);
  const double intermediate =
      aligned_intermediate(c, is_whole ? f->intermediate_size : memory_split(f->intermediate_size, ranks));
  const double up = intermediate * (f->is_gated ? 2 : 1);
  double bytes = vector_bytes(c, f->experts * hidden) + matrix_bytes(c, stack, up, width, c->precision->experts) +
                 matrix_bytes(c, stack, width, intermediate, c->precision->experts);
  bytes += 2 * matrix_bytes(c, 1, f->latent_size, hidden, c->precision->dense);
  if (f->has_router_bias)
    bytes += vector_bytes(c, f->experts);
  if (f->has_expert_bias)
    bytes += vector_bytes(c, stack * up) + vector_bytes(c, stack * width);
  if (f->shared_intermediate_size != 0)
    bytes += dense(c, f, f->shared_intermediate_size);
  return bytes;
}

void memory_layer_weights(memory_by_kind out, const struct memory_case *c)
{
  for (unsigned kind = 0; kind < c->model->layer_kind_count; kind++) {
    const struct layer *layer = &c->model->layers[kind];
    double bytes = vector_bytes(c, layer->norm_parameters) + attention_bytes(c, &layer->attention) +
                   tensor_bytes(c, (double)layer->other_parameters * weight_bytes(c, c->precision->dense));
    if (layer->feed_forward.kind == FEED_FORWARD_DENSE)
      bytes += dense(c, &layer->feed_forward, layer->feed_forward.intermediate_size);
    else if (layer->feed_forward.kind == FEED_FORWARD_MOE)
      bytes += routed(c, &layer->feed_forward);
    out[kind] = layer->shares_parameters ? 0 : bytes;
  }
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

/* What the first stage holds before its layers. */
static double input_bytes(const struct memory_case *c)
{
  const struct model *m = c->model;
  const double tp = c->layout->tensor_parallel;
  const double rows = memory_split(memory_padded_vocabulary(m), tp);
  return matrix_bytes(c, 1, rows, m->hidden_size, c->precision->embeddings) +
         vector_bytes(c, (double)m->position_embeddings * m->hidden_size) +
         vector_bytes(c, m->embedding_norm_parameters) + vector_bytes(c, (double)m->layer_embedding_parameters / tp) +
         vector_bytes(c, (double)m->vision_parameters / (c->has_whole_vision ? 1 : tp));
}

/* What the last stage holds after its layers: a tied head is a copy where the embedding sits on another stage. */
static double output_bytes(const struct memory_case *c, bool has_input)
{
  const struct model *m = c->model;
  const double rows = memory_split(memory_padded_vocabulary(m), c->layout->tensor_parallel);
  double bytes = vector_bytes(c, m->final_norm_parameters);
  if (!m->has_tied_embeddings || !has_input)
    bytes += matrix_bytes(c, 1, rows, m->hidden_size, c->precision->head);
  if (m->has_head_bias)
    bytes += vector_bytes(c, rows);
  return bytes;
}

static double workspace_bytes(const struct memory_case *c, const struct memory_stage *stage)
{
  if (c->preset == NULL)
    return 0;
  for (unsigned i = stage->first; i < stage->end; i++) {
    const struct attention *a = &c->model->layers[c->model->layer_order[i]].attention;
    if (a->kind == ATTENTION_LATENT || a->sink_parameters != 0)
      return c->preset->memory.attention_workspace_gib * GIB;
  }
  return 0;
}

/* llama.cpp leaves the embedding on the CPU and computes positions. */
double memory_stage_weights(const struct memory_case *c, const struct memory_stage *stage, const memory_by_kind layers)
{
  double bytes = c->replicated_bytes + vector_bytes(c, (double)c->model->extra_parameters) + workspace_bytes(c, stage);
  if (!is_llama_cpp(c))
    bytes += rotary_bytes(c->model);
  for (unsigned i = stage->first; i < stage->end; i++)
    bytes += layers[c->model->layer_order[i]];
  if (stage->is_first && !is_llama_cpp(c))
    bytes += input_bytes(c);
  if (stage->is_last)
    bytes += output_bytes(c, stage->is_first && !is_llama_cpp(c));
  return bytes;
}

double memory_weights_of(const struct memory_case *c)
{
  memory_by_kind layers;
  double most = 0;
  memory_layer_weights(layers, c);
  for (unsigned i = 0; i < c->layout->pipeline_parallel; i++) {
    const struct memory_stage stage = memory_stage_of(c->model, c->layout, is_llama_cpp(c), i);
    most = fmax(most, memory_stage_weights(c, &stage, layers));
  }
  return most;
}

double memory_weights_bytes(const struct model *model, const struct layout *layout,
                            const struct model_precision *precision)
{
  const struct memory_case c = {.model = model, .layout = layout, .precision = precision};
  return memory_weights_of(&c);
}
