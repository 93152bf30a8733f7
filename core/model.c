/* A model's list of layers, and what they keep of a sequence. Parameters are counted in core/model_parameters.c. */
#include "core/model.h"

#include <string.h>

/* ---- layers ---- */

static bool attention_equals(const struct attention *a, const struct attention *b)
{
  return a->kind == b->kind
#define ATTENTION_COUNT(member, name, largest) &&a->member == b->member
#define ATTENTION_FLAG(member, name) &&a->member == b->member
#define ATTENTION_BIG(member, name, largest) &&a->member == b->member
#include "core/model.def"
      ;
}

static bool feed_forward_equals(const struct feed_forward *a, const struct feed_forward *b)
{
  return a->kind == b->kind
#define FEED_FORWARD_COUNT(member, name, largest) &&a->member == b->member
#define FEED_FORWARD_FLAG(member, name) &&a->member == b->member
#include "core/model.def"
      ;
}

static bool layer_equals(const struct layer *a, const struct layer *b)
{
  return a->norm_parameters == b->norm_parameters && a->shares_parameters == b->shares_parameters &&
         a->other_parameters == b->other_parameters && attention_equals(&a->attention, &b->attention) &&
         feed_forward_equals(&a->feed_forward, &b->feed_forward);
}

unsigned model_layers_of_kind(const struct model *model, unsigned kind)
{
  unsigned count = 0;
  for (unsigned i = 0; i < model->layer_count; i++)
    count += model->layer_order[i] == kind;
  return count;
}

enum err model_append_layers(struct model *model, const struct layer *layer, unsigned count, struct error *e)
{
  unsigned kind = 0;
  if (count > MODEL_LAYERS_MAX - model->layer_count)
    return error_set(e, ERR_LIMIT, "/layers", "more than %d layers", MODEL_LAYERS_MAX);
  while (kind < model->layer_kind_count && !layer_equals(&model->layers[kind], layer))
    kind++;
  if (kind == MODEL_LAYER_KINDS_MAX)
    return error_set(e, ERR_LIMIT, "/layers", "more than %d different kinds of layers", MODEL_LAYER_KINDS_MAX);
  if (kind == model->layer_kind_count)
    model->layers[model->layer_kind_count++] = *layer;
  memset(model->layer_order + model->layer_count, (int)kind, count);
  model->layer_count += count;
  return ERR_OK;
}

/* ---- bytes of a sequence ---- */

/* KV bytes one token adds in one layer. The indexer of sparse attention caches fp8 keys with a 4-byte scale for every
   128 of them, whatever the format of the KV cache (MEMORY §2). */
static double attention_kv_bytes(const struct attention *a, double element_bytes)
{
  const unsigned index_scales = (a->index_head_dim + 127) / 128;
  if (a->shares_kv)
    return 0.0;
  if (a->kind == ATTENTION_GROUPED)
    return (double)((uint64_t)a->kv_heads * (a->head_dim + a->value_head_dim)) * element_bytes;
  if (a->kind == ATTENTION_LATENT)
    return (double)(a->kv_lora_rank + a->rope_head_dim) * element_bytes + a->index_head_dim + 4.0 * index_scales;
  return 0.0;
}

static double attention_state_bytes(const struct attention *a)
{
  if (a->kind != ATTENTION_LINEAR)
    return 0.0;
  return a->linear_state_bytes != 0 ? (double)a->linear_state_bytes : 2.0 * (double)a->linear_state_elements;
}

static double kv_element_bytes(enum precision kv_cache)
{
  return precision_element_bytes(kv_cache == PRECISION_NONE ? PRECISION_BF16 : kv_cache);
}

struct kv_bytes model_kv_bytes(const struct model *model, enum precision kv_cache)
{
  const double element_bytes = kv_element_bytes(kv_cache);
  struct kv_bytes sum = {0.0, 0.0, 0.0};
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct attention *a = &model->layers[kind].attention;
    const double n = model_layers_of_kind(model, kind);
    const double bytes = n * attention_kv_bytes(a, element_bytes);
    if (a->window_tokens == 0)
      sum.growing_per_token_bytes += bytes;
    else
      sum.windowed_per_token_bytes += bytes;
    sum.state_per_sequence_bytes += n * attention_state_bytes(a);
  }
  return sum;
}

double model_kv_sequence_bytes(const struct model *model, enum precision kv_cache, double tokens)
{
  const double element_bytes = kv_element_bytes(kv_cache);
  double sum = 0.0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct attention *a = &model->layers[kind].attention;
    const bool is_cut = a->window_tokens != 0 && tokens > a->window_tokens;
    const double held = is_cut ? (double)a->window_tokens : tokens;
    sum += model_layers_of_kind(model, kind) * (held * attention_kv_bytes(a, element_bytes) + attention_state_bytes(a));
  }
  return sum;
}

const char *attention_name(const struct attention *attention)
{
  switch (attention->kind) {
  case ATTENTION_LATENT: return "mla";
  case ATTENTION_LINEAR: return "linear";
  case ATTENTION_NONE: return "none";
  case ATTENTION_GROUPED: break;
  }
  if (attention->kv_heads == attention->query_heads)
    return "mha";
  return attention->kv_heads == 1 ? "mqa" : "gqa";
}
