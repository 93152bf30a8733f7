/* Exact counts of parameters and bytes. Every layer is taken apart into the matrices that checkpoints store, before
   engines fuse any; counts, bytes and the scales of quantised matrices all follow from those shapes. */
#include "core/model.h"

enum module { MODULE_ATTENTION, MODULE_DENSE, MODULE_ROUTER, MODULE_EXPERTS, MODULE_COUNT };

struct matrix {
  enum module module;
  uint64_t count, outputs, inputs;
};

#define MATRICES_MAX 24
struct shapes {
  unsigned matrix_count;
  struct matrix matrices[MATRICES_MAX];
  uint64_t loose[MODULE_COUNT];   /* parameters of matrices whose shapes are not kept */
  uint64_t vectors[MODULE_COUNT]; /* biases and norms, and matrices that are never quantised */
};

static void add_matrix(struct shapes *s, enum module module, uint64_t count, uint64_t outputs, uint64_t inputs)
{
  if (count * outputs * inputs != 0)
    s->matrices[s->matrix_count++] = (struct matrix){module, count, outputs, inputs};
}

static uint64_t product(uint64_t a, uint64_t b)
{
  return a * b;
}

/* ---- shapes of a layer ---- */

static void add_grouped(struct shapes *s, const struct attention *a, uint64_t hidden)
{
  const uint64_t input = a->input_size != 0 ? a->input_size : hidden;
  const uint64_t query = product(a->query_heads, a->head_dim) * (a->has_output_gate ? 2 : 1);
  const uint64_t key = a->shares_kv ? 0 : product(a->kv_heads, a->head_dim);
  const uint64_t value = a->shares_kv || a->values_are_keys ? 0 : product(a->kv_heads, a->value_head_dim);
  uint64_t *vectors = &s->vectors[MODULE_ATTENTION];
  add_matrix(s, MODULE_ATTENTION, 1, query, input);
  add_matrix(s, MODULE_ATTENTION, 1, key, input);
  add_matrix(s, MODULE_ATTENTION, 1, value, input);
  add_matrix(s, MODULE_ATTENTION, 1, hidden, product(a->query_heads, a->value_head_dim));
  *vectors += (a->has_qkv_bias ? query + key + value : 0) + (a->has_output_bias ? hidden : 0);
  *vectors += (uint64_t)a->query_norm_size + a->key_norm_size + a->sink_parameters;
}

/* Sparse attention's indexer: queries from the query latent, one key and one weight per head from the hidden state (the
   weights are never quantised), and a layer norm with bias on the key. */
static void add_indexer(struct shapes *s, const struct attention *a, uint64_t hidden)
{
  if (a->index_heads == 0)
    return;
  add_matrix(s, MODULE_ATTENTION, 1, product(a->index_heads, a->index_head_dim), a->query_lora_rank);
  add_matrix(s, MODULE_ATTENTION, 1, a->index_head_dim, hidden);
  s->vectors[MODULE_ATTENTION] += hidden * a->index_heads + 2ULL * a->index_head_dim;
}

static void add_latent(struct shapes *s, const struct attention *a, uint64_t hidden)
{
  const uint64_t query = product(a->query_heads, a->nope_head_dim + a->rope_head_dim);
  const uint64_t latent = (uint64_t)a->kv_lora_rank + a->rope_head_dim;
  uint64_t *vectors = &s->vectors[MODULE_ATTENTION];
  add_matrix(s, MODULE_ATTENTION, 1, a->query_lora_rank, hidden);
  add_matrix(s, MODULE_ATTENTION, 1, query, a->query_lora_rank != 0 ? a->query_lora_rank : hidden);
  add_matrix(s, MODULE_ATTENTION, 1, latent, hidden);
  add_matrix(s, MODULE_ATTENTION, 1, product(a->query_heads, a->nope_head_dim + a->value_head_dim), a->kv_lora_rank);
  add_matrix(s, MODULE_ATTENTION, 1, hidden, product(a->query_heads, a->value_head_dim));
  *vectors += (uint64_t)a->query_lora_rank + a->kv_lora_rank; /* the norms of both latents */
  *vectors += (a->has_qkv_bias ? a->query_lora_rank + latent : 0) + (a->has_output_bias ? hidden : 0);
  add_indexer(s, a, hidden);
}

static void add_attention(struct shapes *s, const struct attention *a, uint64_t hidden)
{
  switch (a->kind) {
  case ATTENTION_GROUPED: add_grouped(s, a, hidden); break;
  case ATTENTION_LATENT: add_latent(s, a, hidden); break;
  case ATTENTION_LINEAR: s->loose[MODULE_ATTENTION] += a->linear_parameters; break;
  case ATTENTION_NONE: break;
  }
}

static void add_dense(struct shapes *s, const struct feed_forward *f, uint64_t width, uint64_t hidden)
{
  const uint64_t ups = f->is_gated ? 2 : 1;
  add_matrix(s, MODULE_DENSE, ups, width, hidden);
  add_matrix(s, MODULE_DENSE, 1, hidden, width);
  s->vectors[MODULE_DENSE] += (f->has_up_bias ? ups * width : 0) + (f->has_down_bias ? hidden : 0);
}

static void add_routed(struct shapes *s, const struct feed_forward *f, uint64_t hidden)
{
  const uint64_t ups = f->is_gated ? 2 : 1;
  const uint64_t width = f->intermediate_size;
  const uint64_t input = f->latent_size != 0 ? f->latent_size : hidden;
  s->vectors[MODULE_ROUTER] += f->experts * hidden + (f->has_router_bias ? f->experts : 0);
  add_matrix(s, MODULE_EXPERTS, f->experts * ups, width, input);
  add_matrix(s, MODULE_EXPERTS, f->experts, input, width);
  s->vectors[MODULE_EXPERTS] += f->has_expert_bias ? f->experts * (ups * width + input) : 0;
  add_matrix(s, MODULE_DENSE, 1, f->latent_size, hidden);
  add_matrix(s, MODULE_DENSE, 1, hidden, f->latent_size);
  if (f->shared_intermediate_size == 0)
    return;
  add_dense(s, f, f->shared_intermediate_size, hidden);
  s->vectors[MODULE_DENSE] += f->has_shared_gate ? hidden : 0;
}

static void shapes_of(struct shapes *s, const struct layer *layer, uint64_t hidden)
{
  *s = (struct shapes){.matrix_count = 0};
  add_attention(s, &layer->attention, hidden);
  if (layer->feed_forward.kind == FEED_FORWARD_DENSE)
    add_dense(s, &layer->feed_forward, layer->feed_forward.intermediate_size, hidden);
  else if (layer->feed_forward.kind == FEED_FORWARD_MOE)
    add_routed(s, &layer->feed_forward, hidden);
  s->loose[MODULE_DENSE] += layer->other_parameters;
}

/* ---- scales ---- */

static enum precision precision_of(const struct model_precision *p, enum module module)
{
  switch (module) {
  case MODULE_ATTENTION: return p->attention;
  case MODULE_DENSE: return p->dense;
  case MODULE_EXPERTS: return p->experts;
  case MODULE_ROUTER:
  case MODULE_COUNT: break;
  }
  return p->embeddings;
}

/* 8-bit weights have scales of their own; those of smaller formats are in the bytes of their weights. */
static bool has_scales(const struct model_precision *p, enum precision precision)
{
  return precision == PRECISION_FP8 || (precision == PRECISION_INT8 && !(p->quantised_weight_bytes > 0.0));
}

static uint64_t blocks(uint64_t size, uint64_t block)
{
  return block != 0 ? (size + block - 1) / block : 1;
}

static uint64_t matrix_scales(const struct model_precision *p, const struct matrix *m)
{
  if (!has_scales(p, precision_of(p, m->module)))
    return 0;
  return m->count * (blocks(m->outputs, p->scale_block_outputs) * blocks(m->inputs, p->scale_block_inputs) +
                     (p->has_static_scales ? 1 : 0));
}

/* Matrices without shapes: as if they were one of hidden_size inputs. */
static uint64_t loose_scales(const struct model_precision *p, uint64_t parameters, enum module module, uint64_t hidden)
{
  const struct matrix m = {module, 1, blocks(parameters, hidden), hidden};
  return parameters != 0 ? matrix_scales(p, &m) : 0;
}

/* ---- parameters ---- */

struct parameter_counts model_layer_parameters(const struct model *model, const struct layer *layer)
{
  const struct model_precision *p = &model->precision;
  const struct feed_forward *f = &layer->feed_forward;
  struct parameter_counts counts = {.norms = layer->norm_parameters};
  uint64_t modules[MODULE_COUNT] = {0};
  struct shapes s;
  shapes_of(&s, layer, model->hidden_size);
  for (unsigned i = 0; i < MODULE_COUNT; i++) {
    modules[i] += s.vectors[i] + s.loose[i];
    counts.scales += loose_scales(p, s.loose[i], (enum module)i, model->hidden_size);
  }
  for (unsigned i = 0; i < s.matrix_count; i++) {
    modules[s.matrices[i].module] += s.matrices[i].count * s.matrices[i].outputs * s.matrices[i].inputs;
    counts.scales += matrix_scales(p, &s.matrices[i]);
  }
  counts.attention = modules[MODULE_ATTENTION];
  counts.dense = modules[MODULE_DENSE];
  counts.router = modules[MODULE_ROUTER];
  counts.experts = modules[MODULE_EXPERTS];
  if (f->kind == FEED_FORWARD_MOE && f->experts != 0)
    counts.experts_active = counts.experts / f->experts * f->experts_per_token;
  return counts;
}

static void add_counts(struct parameter_counts *sum, const struct parameter_counts *one, uint64_t n)
{
  sum->attention += n * one->attention;
  sum->dense += n * one->dense;
  sum->router += n * one->router;
  sum->experts += n * one->experts;
  sum->experts_active += n * one->experts_active;
  sum->norms += n * one->norms;
  sum->embeddings += n * one->embeddings;
  sum->head += n * one->head;
  sum->extra += n * one->extra;
  sum->scales += n * one->scales;
}

static uint64_t head_scales(const struct model *model)
{
  const struct model_precision *p = &model->precision;
  const struct model_precision head = {.dense = p->head,
                                       .scale_block_outputs = p->scale_block_outputs,
                                       .scale_block_inputs = p->scale_block_inputs,
                                       .has_static_scales = p->has_static_scales,
                                       .quantised_weight_bytes = p->quantised_weight_bytes};
  const struct matrix m = {MODULE_DENSE, 1, model->vocab_size, model->hidden_size};
  return model->has_tied_embeddings ? 0 : matrix_scales(&head, &m);
}

struct parameter_counts model_parameters(const struct model *model)
{
  const uint64_t hidden = model->hidden_size;
  struct parameter_counts sum = {.extra = model->extra_parameters, .scales = head_scales(model)};
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct parameter_counts one = model_layer_parameters(model, &model->layers[kind]);
    if (!model->layers[kind].shares_parameters)
      add_counts(&sum, &one, model_layers_of_kind(model, kind));
  }
  sum.norms += model->final_norm_parameters;
  sum.embeddings = hidden * ((uint64_t)model->vocab_size + model->position_embeddings) +
                   model->embedding_norm_parameters + model->layer_embedding_parameters;
  sum.head =
      (model->has_tied_embeddings ? 0 : hidden * model->vocab_size) + (model->has_head_bias ? model->vocab_size : 0);
  return sum;
}

/* One projection of two vectors to one, three norms, a layer; and embedding and head where they are its own. */
struct parameter_counts model_draft_parameters(const struct model *model)
{
  const uint64_t hidden = model->hidden_size;
  struct parameter_counts sum = {0};
  struct parameter_counts one;
  if (model->draft.modules == 0)
    return sum;
  one = model_layer_parameters(model, &model->draft.layer);
  one.norms += 3 * hidden;
  one.dense += 2 * hidden * hidden;
  if (model->draft.has_own_embeddings)
    one.embeddings = one.head = hidden * model->vocab_size;
  add_counts(&sum, &one, model->draft.modules);
  return sum;
}

uint64_t parameter_counts_total(const struct parameter_counts *c)
{
  return c->attention + c->dense + c->router + c->experts + c->norms + c->embeddings + c->head + c->extra;
}

uint64_t model_parameters_total(const struct model *model)
{
  const struct parameter_counts counts = model_parameters(model);
  return parameter_counts_total(&counts);
}

uint64_t model_parameters_active(const struct model *model)
{
  const struct parameter_counts counts = model_parameters(model);
  return parameter_counts_total(&counts) - counts.experts + counts.experts_active;
}

/* ---- bytes ---- */

double model_bytes_per_weight(const struct model *model, enum precision precision)
{
  const struct model_precision *p = &model->precision;
  const bool is_grouped = precision == PRECISION_INT4 || precision == PRECISION_NF4 || precision == PRECISION_INT8;
  if (is_grouped && p->quantised_weight_bytes > 0.0)
    return p->quantised_weight_bytes;
  return precision_weight_bytes(precision);
}

static double layer_weights_bytes(const struct model *model, const struct layer *layer)
{
  const struct model_precision *p = &model->precision;
  const double plain_bytes = precision_weight_bytes(p->embeddings);
  double bytes = (double)layer->norm_parameters * plain_bytes;
  struct shapes s;
  shapes_of(&s, layer, model->hidden_size);
  for (unsigned i = 0; i < MODULE_COUNT; i++)
    bytes += (double)s.vectors[i] * plain_bytes +
             (double)s.loose[i] * model_bytes_per_weight(model, precision_of(p, (enum module)i));
  for (unsigned i = 0; i < s.matrix_count; i++) {
    const struct matrix *m = &s.matrices[i];
    bytes += (double)(m->count * m->outputs * m->inputs) * model_bytes_per_weight(model, precision_of(p, m->module));
  }
  return bytes;
}

double model_weights_bytes(const struct model *model)
{
  const struct model_precision *p = &model->precision;
  const struct parameter_counts counts = model_parameters(model);
  const uint64_t head_bias = model->has_head_bias ? model->vocab_size : 0;
  double bytes = (double)(counts.embeddings + model->final_norm_parameters + counts.extra + head_bias) *
                 precision_weight_bytes(p->embeddings);
  bytes += (double)(counts.head - head_bias) * model_bytes_per_weight(model, p->head);
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    if (!model->layers[kind].shares_parameters)
      bytes += model_layers_of_kind(model, kind) * layer_weights_bytes(model, &model->layers[kind]);
  return bytes + 4.0 * (double)counts.scales;
}
