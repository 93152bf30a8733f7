/* What makes a model's numbers impossible. Faults point into the native architecture object, where layers are listed
   as runs of equal ones. */
#include "core/model.h"

#include <inttypes.h>
#include <stdio.h>

static void check_range(struct faults *faults, const char *parent, const char *name, uint64_t value, uint64_t least,
                        uint64_t largest)
{
  char pointer[160];
  if (value >= least && value <= largest)
    return;
  (void)snprintf(pointer, sizeof pointer, "%s/%s", parent, name);
  if (value < least)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "%" PRIu64 " is below %" PRIu64, value, least);
  else
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "%" PRIu64 " is above %" PRIu64, value, largest);
}

/* Upper bounds are checked for every field; this is for the fields that a kind can not do without. */
static void check_given(struct faults *faults, const char *parent, const char *name, uint64_t value)
{
  check_range(faults, parent, name, value, 1, UINT64_MAX);
}

/* Upper bounds of every field, whatever the kind. */
static void check_bounds(struct faults *faults, const struct layer *layer, const char *attention,
                         const char *feed_forward)
{
  const struct attention *a = &layer->attention;
  const struct feed_forward *f = &layer->feed_forward;
#define ATTENTION_COUNT(member, name, largest) check_range(faults, attention, name, a->member, 0, largest);
#define ATTENTION_BIG(member, name, largest) check_range(faults, attention, name, a->member, 0, largest);
#define FEED_FORWARD_COUNT(member, name, largest) check_range(faults, feed_forward, name, f->member, 0, largest);
#include "core/model.def"
}

static void check_grouped(struct faults *faults, const struct attention *a, const char *parent)
{
  check_given(faults, parent, "num_attention_heads", a->query_heads);
  check_given(faults, parent, "head_dim", a->head_dim);
  check_given(faults, parent, "v_head_dim", a->value_head_dim);
  check_given(faults, parent, "num_key_value_heads", a->kv_heads);
  if (a->kv_heads != 0 && a->query_heads % a->kv_heads != 0) {
    char pointer[160];
    (void)snprintf(pointer, sizeof pointer, "%s/num_key_value_heads", parent);
    faults_add(faults, FAULT_CONFLICT, pointer, NULL, "%u KV heads do not divide %u attention heads", a->kv_heads,
               a->query_heads);
  }
}

static void check_latent(struct faults *faults, const struct attention *a, const char *parent)
{
  check_given(faults, parent, "num_attention_heads", a->query_heads);
  check_given(faults, parent, "kv_lora_rank", a->kv_lora_rank);
  check_given(faults, parent, "qk_nope_head_dim", a->nope_head_dim);
  check_given(faults, parent, "v_head_dim", a->value_head_dim);
  if (a->index_heads == 0 && a->index_head_dim == 0 && a->index_top_k == 0)
    return;
  check_given(faults, parent, "q_lora_rank", a->query_lora_rank);
  check_given(faults, parent, "index_n_heads", a->index_heads);
  check_given(faults, parent, "index_head_dim", a->index_head_dim);
  check_given(faults, parent, "index_topk", a->index_top_k);
}

static void check_attention(struct faults *faults, const struct attention *a, const char *parent)
{
  switch (a->kind) {
  case ATTENTION_GROUPED: check_grouped(faults, a, parent); break;
  case ATTENTION_LATENT: check_latent(faults, a, parent); break;
  case ATTENTION_LINEAR:
    check_given(faults, parent, "parameters", a->linear_parameters);
    check_given(faults, parent, "state_elements", a->linear_state_elements);
    break;
  case ATTENTION_NONE: break;
  }
}

static void check_feed_forward(struct faults *faults, const struct feed_forward *f, const char *parent)
{
  if (f->kind == FEED_FORWARD_NONE)
    return;
  check_given(faults, parent, "intermediate_size", f->intermediate_size);
  if (f->kind == FEED_FORWARD_MOE) {
    check_given(faults, parent, "num_experts", f->experts);
    check_given(faults, parent, "num_experts_per_tok", f->experts_per_token);
    if (f->experts != 0)
      check_range(faults, parent, "num_experts_per_tok", f->experts_per_token, 0, f->experts);
  }
}

static void check_layer(struct faults *faults, const struct layer *layer, const char *parent)
{
  char attention[64];
  char feed_forward[64];
  (void)snprintf(attention, sizeof attention, "%s/attention", parent);
  (void)snprintf(feed_forward, sizeof feed_forward, "%s/feed_forward", parent);
  check_bounds(faults, layer, attention, feed_forward);
  check_attention(faults, &layer->attention, attention);
  check_feed_forward(faults, &layer->feed_forward, feed_forward);
  check_range(faults, parent, "norm_parameters", layer->norm_parameters, 0, 16777216);
  check_range(faults, parent, "other_parameters", layer->other_parameters, 0, MODEL_LAYER_OTHER_MAX);
  if (layer->attention.kind == ATTENTION_NONE && layer->feed_forward.kind == FEED_FORWARD_NONE &&
      layer->other_parameters == 0)
    faults_add(faults, FAULT_MISSING, parent, NULL, "a layer has attention or a feed-forward");
}

static void check_outer(struct faults *faults, const struct model *model)
{
  check_range(faults, "", "hidden_size", model->hidden_size, 1, MODEL_HIDDEN_MAX);
  check_range(faults, "", "vocab_size", model->vocab_size, 1, MODEL_VOCAB_MAX);
  check_range(faults, "", "max_context_tokens", model->max_context_tokens, 0, MODEL_CONTEXT_MAX);
  check_range(faults, "", "final_norm_parameters", model->final_norm_parameters, 0, 16777216);
  check_range(faults, "", "embedding_norm_parameters", model->embedding_norm_parameters, 0, 16777216);
  check_range(faults, "", "position_embeddings", model->position_embeddings, 0, MODEL_CONTEXT_MAX);
  check_range(faults, "", "layer_embedding_parameters", model->layer_embedding_parameters, 0, MODEL_EXTRA_MAX);
  check_range(faults, "", "extra_parameters", model->extra_parameters, 0, MODEL_EXTRA_MAX);
  check_range(faults, "", "vision_parameters", model->vision_parameters, 0, MODEL_EXTRA_MAX);
  check_range(faults, "/multi_token_prediction", "modules", model->draft.modules, 0, MODEL_DRAFT_MODULES_MAX);
  if (model->draft.modules != 0)
    check_layer(faults, &model->draft.layer, "/multi_token_prediction");
}

void model_check(const struct model *model, struct faults *faults)
{
  bool is_checked[MODEL_LAYER_KINDS_MAX] = {false};
  unsigned run = 0;
  char parent[32];
  check_outer(faults, model);
  if (model->layer_count == 0)
    faults_add(faults, FAULT_MISSING, "/layers", NULL, "a model has at least one layer");
  for (unsigned i = 0; i < model->layer_count; i++) {
    const unsigned kind = model->layer_order[i];
    (void)snprintf(parent, sizeof parent, "/layers/%u", run);
    if (!is_checked[kind])
      check_layer(faults, &model->layers[kind], parent);
    is_checked[kind] = true;
    run += i + 1 < model->layer_count && model->layer_order[i + 1] != kind;
  }
}
