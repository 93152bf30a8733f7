/* The native architecture object: Hugging Face's words for a list of runs of equal layers. What is written reads back to
   the same model; fields that are zero or false are left out. */
#include "api/catalogue.h"

#include <stdio.h>
#include <string.h>

#include "api/put.h"
#include "api/read.h"

/* ---- reading ---- */

struct reading {
  struct model *model;
  json_t *assumptions;
  struct faults *faults;
};

static void assume(const struct reading *r, const char *sentence)
{
  if (json_array_append_new(r->assumptions, json_string(sentence)) != 0)
    faults_add(r->faults, FAULT_OUT_OF_RANGE, "", NULL, "an assumption could not be recorded");
}

static void read_precision(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  enum precision *precision = to;
  const char *name = json_string_value(value);
  char seen[READ_EXCERPT_SIZE];
  if (name == NULL) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "expected a format such as \"bf16\", saw %s",
               read_type_name(value));
    return;
  }
  *precision = precision_parse(name);
  if (*precision == PRECISION_NONE)
    faults_add(faults, FAULT_UNKNOWN_VALUE, pointer, NULL,
               "\"%s\" is none of fp32, bf16, fp16, fp8, int8, int4, nf4, nvfp4 and mxfp4", read_excerpt(seen, name));
}

static void read_precisions(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct model_precision *p = to;
  const struct read_field fields[] = {
      {.name = "embeddings", .kind = READ_CALL, .to = &p->embeddings, .call = read_precision},
      {.name = "attention", .kind = READ_CALL, .to = &p->attention, .call = read_precision},
      {.name = "dense", .kind = READ_CALL, .to = &p->dense, .call = read_precision},
      {.name = "experts", .kind = READ_CALL, .to = &p->experts, .call = read_precision},
      {.name = "head", .kind = READ_CALL, .to = &p->head, .call = read_precision},
      {.name = "kv_cache", .kind = READ_CALL, .allows_null = true, .to = &p->kv_cache, .call = read_precision},
      {.name = "static_scales", .kind = READ_BOOL, .to = &p->has_static_scales},
      {.name = "quantised_weight_bytes", .kind = READ_NUMBER, .to = &p->quantised_weight_bytes, .min = 0.5, .max = 1.5},
      {.name = "scale_block_outputs", .kind = READ_COUNT, .to = &p->scale_block_outputs, .max = 1048576},
      {.name = "scale_block_inputs", .kind = READ_COUNT, .to = &p->scale_block_inputs, .max = 1048576},
  };
  (void)read_object(value, pointer, fields, sizeof fields / sizeof fields[0], faults);
}

static const char *const attention_words[] = {"mha", "gqa", "mqa", "mla", "linear", "none", NULL};
enum attention_word { WORD_MHA, WORD_GQA, WORD_MQA, WORD_MLA, WORD_LINEAR, WORD_NONE };

static enum attention_kind kind_of_word(int word)
{
  return word <= WORD_MQA      ? ATTENTION_GROUPED
         : word == WORD_MLA    ? ATTENTION_LATENT
         : word == WORD_LINEAR ? ATTENTION_LINEAR
                               : ATTENTION_NONE;
}

/* Sizes that follow from others where they are left out. */
static void complete_attention(const struct reading *r, int word, struct attention *a, const char *pointer)
{
  char at[160];
  if (a->kind == ATTENTION_LATENT) {
    a->kv_heads = a->kv_heads != 0 ? a->kv_heads : 1;
    a->head_dim = a->head_dim != 0 ? a->head_dim : a->nope_head_dim + a->rope_head_dim;
  }
  if (a->kind != ATTENTION_GROUPED || a->query_heads == 0)
    return;
  if (a->head_dim == 0) {
    a->head_dim = r->model->hidden_size / a->query_heads;
    assume(r, "head_dim is not given: hidden_size / num_attention_heads");
  }
  a->value_head_dim = a->value_head_dim != 0 ? a->value_head_dim : a->head_dim;
  if (a->kv_heads == 0 && word != WORD_GQA)
    a->kv_heads = word == WORD_MQA ? 1 : a->query_heads;
  read_pointer(at, sizeof at, pointer, "num_key_value_heads");
  if (a->kv_heads == 0)
    faults_add(r->faults, FAULT_MISSING, at, NULL, "is required for grouped attention");
  else if (strcmp(attention_name(a), attention_words[word]) != 0)
    faults_add(r->faults, FAULT_CONFLICT, at, NULL, "%u KV heads of %u attention heads are %s, not %s", a->kv_heads,
               a->query_heads, attention_name(a), attention_words[word]);
}

static void read_attention(const struct reading *r, const json_t *value, const char *pointer, struct attention *a)
{
  int word = WORD_NONE;
  int64_t linear_state_elements = 0;
  int64_t linear_state_bytes = 0;
  int64_t linear_parameters = 0;
  const size_t faults_before = r->faults->count;
  const struct read_field fields[] = {
      {.name = "kind", .kind = READ_WORD, .is_required = true, .to = &word, .words = attention_words},
#define ATTENTION_COUNT(member, wire, largest) {.name = wire, .kind = READ_COUNT, .to = &a->member, .max = largest},
#define ATTENTION_FLAG(member, wire) {.name = wire, .kind = READ_BOOL, .to = &a->member},
#define ATTENTION_BIG(member, wire, largest) {.name = wire, .kind = READ_INTEGER, .to = &member, .max = largest},
#include "core/model.def"
  };
  if (!read_object(value, pointer, fields, sizeof fields / sizeof fields[0], r->faults))
    return;
  a->kind = kind_of_word(word);
  a->linear_state_elements = (uint64_t)linear_state_elements;
  a->linear_state_bytes = (uint64_t)linear_state_bytes;
  a->linear_parameters = (uint64_t)linear_parameters;
  if (r->faults->count == faults_before)
    complete_attention(r, word, a, pointer);
}

static void read_feed_forward(const struct reading *r, const json_t *value, const char *pointer, struct feed_forward *f)
{
  static const char *const words[] = {"dense", "moe", "none", NULL};
  static const enum feed_forward_kind kinds[] = {FEED_FORWARD_DENSE, FEED_FORWARD_MOE, FEED_FORWARD_NONE};
  int word = 0;
  const struct read_field fields[] = {
      {.name = "kind", .kind = READ_WORD, .is_required = true, .to = &word, .words = words},
#define FEED_FORWARD_COUNT(member, wire, largest) {.name = wire, .kind = READ_COUNT, .to = &f->member, .max = largest},
#define FEED_FORWARD_FLAG(member, wire) {.name = wire, .kind = READ_BOOL, .to = &f->member},
#include "core/model.def"
  };
  f->is_gated = true;
  if (!read_object(value, pointer, fields, sizeof fields / sizeof fields[0], r->faults))
    return;
  f->kind = kinds[word];
  if (f->kind == FEED_FORWARD_NONE)
    f->is_gated = false;
  else if (json_object_get(value, "gated") == NULL)
    assume(r, "gated is not given: the MLP has three matrices");
}

/* What a layer stands in: how many of it there are, and a flag. */
struct layer_form {
  const char *count_name, *flag_name;
  unsigned count_max;
  unsigned *count;
  bool *flag;
};

static bool read_layer(const struct reading *r, const json_t *value, const char *pointer, const struct layer_form *form,
                       struct layer *layer)
{
  char at[160];
  int64_t other = 0;
  const size_t faults_before = r->faults->count;
  const struct read_field fields[] = {
      {.name = form->count_name, .kind = READ_COUNT, .to = form->count, .min = 1, .max = form->count_max},
      {.name = form->flag_name, .kind = READ_BOOL, .to = form->flag},
      {.name = "attention", .kind = READ_IGNORE, .is_required = true},
      {.name = "feed_forward", .kind = READ_IGNORE, .is_required = true},
      {.name = "norm_parameters", .kind = READ_COUNT, .to = &layer->norm_parameters, .max = 16777216},
      {.name = "other_parameters", .kind = READ_INTEGER, .to = &other, .max = (double)MODEL_LAYER_OTHER_MAX},
  };
  memset(layer, 0, sizeof *layer);
  layer->norm_parameters = 2 * r->model->hidden_size;
  if (!read_object(value, pointer, fields, sizeof fields / sizeof fields[0], r->faults))
    return false;
  layer->other_parameters = (uint64_t)other;
  if (json_object_get(value, "norm_parameters") == NULL)
    assume(r, "norm_parameters is not given: two norms of hidden_size a layer");
  read_pointer(at, sizeof at, pointer, "attention");
  if (json_object_get(value, "attention") != NULL)
    read_attention(r, json_object_get(value, "attention"), at, &layer->attention);
  read_pointer(at, sizeof at, pointer, "feed_forward");
  if (json_object_get(value, "feed_forward") != NULL)
    read_feed_forward(r, json_object_get(value, "feed_forward"), at, &layer->feed_forward);
  return r->faults->count == faults_before;
}

static void read_run(const struct reading *r, const json_t *value, const char *pointer)
{
  struct layer layer;
  unsigned count = 1;
  bool shares_parameters = false;
  struct error e;
  const struct layer_form form = {"count", "shares_parameters", MODEL_LAYERS_MAX, &count, &shares_parameters};
  if (!read_layer(r, value, pointer, &form, &layer))
    return;
  layer.shares_parameters = shares_parameters;
  if (model_append_layers(r->model, &layer, count, &e) != ERR_OK)
    faults_add(r->faults, FAULT_OUT_OF_RANGE, pointer, NULL, "%s", e.message);
}

static void read_draft(const struct reading *r, const json_t *value, const char *pointer)
{
  struct draft *draft = &r->model->draft;
  const struct layer_form form = {"modules", "own_embeddings", MODEL_DRAFT_MODULES_MAX, &draft->modules,
                                  &draft->has_own_embeddings};
  if (value == NULL)
    return;
  draft->modules = 1;
  (void)read_layer(r, value, pointer, &form, &draft->layer);
}

static void read_layers(const struct reading *r, const json_t *layers, const char *pointer)
{
  size_t i;
  json_t *run;
  char at[160];
  if (!json_is_array(layers)) {
    faults_add(r->faults, FAULT_WRONG_TYPE, pointer, NULL, "expected an array of runs of layers, saw %s",
               read_type_name(layers));
    return;
  }
  json_array_foreach(read_iterable(layers), i, run)
  {
    if (i == MODEL_LAYERS_MAX) {
      faults_add(r->faults, FAULT_OUT_OF_RANGE, pointer, NULL, "more than %d runs", MODEL_LAYERS_MAX);
      return;
    }
    read_pointer_index(at, sizeof at, pointer, i);
    read_run(r, run, at);
  }
}

/* core's pointers start at the architecture object. */
static void check_model(const struct model *model, const char *pointer, struct faults *faults)
{
  struct faults found;
  memset(&found, 0, sizeof found);
  model_check(model, &found);
  for (size_t i = 0; i < found.count; i++) {
    char at[sizeof found.items[i].pointer * 2];
    (void)snprintf(at, sizeof at, "%s%s", pointer, found.items[i].pointer);
    faults_add(faults, found.items[i].code, at, NULL, "%s", found.items[i].detail);
  }
}

/* Sizes beyond 32 bits on their way into the model. */
struct big {
  int64_t layer_embeddings, extra, vision;
};

static bool read_outer(const json_t *architecture, const char *pointer, struct model *out, struct big *big,
                       struct faults *faults)
{
  const struct read_field fields[] = {
      {.name = "hidden_size",
       .kind = READ_COUNT,
       .is_required = true,
       .to = &out->hidden_size,
       .min = 1,
       .max = MODEL_HIDDEN_MAX},
      {.name = "vocab_size",
       .kind = READ_COUNT,
       .is_required = true,
       .to = &out->vocab_size,
       .min = 1,
       .max = MODEL_VOCAB_MAX},
      {.name = "max_context_tokens",
       .kind = READ_COUNT,
       .allows_null = true,
       .to = &out->max_context_tokens,
       .min = 1,
       .max = MODEL_CONTEXT_MAX},
      {.name = "tied_embeddings", .kind = READ_BOOL, .to = &out->has_tied_embeddings},
      {.name = "head_bias", .kind = READ_BOOL, .to = &out->has_head_bias},
      {.name = "final_norm_parameters", .kind = READ_COUNT, .to = &out->final_norm_parameters, .max = 16777216},
      {.name = "embedding_norm_parameters", .kind = READ_COUNT, .to = &out->embedding_norm_parameters, .max = 16777216},
      {.name = "position_embeddings", .kind = READ_COUNT, .to = &out->position_embeddings, .max = MODEL_CONTEXT_MAX},
      {.name = "layer_embedding_parameters",
       .kind = READ_INTEGER,
       .to = &big->layer_embeddings,
       .max = (double)MODEL_EXTRA_MAX},
      {.name = "extra_parameters", .kind = READ_INTEGER, .to = &big->extra, .max = (double)MODEL_EXTRA_MAX},
      {.name = "vision_parameters", .kind = READ_INTEGER, .to = &big->vision, .max = (double)MODEL_EXTRA_MAX},
      {.name = "multi_token_prediction", .kind = READ_IGNORE},
      {.name = "precision", .kind = READ_CALL, .to = &out->precision, .call = read_precisions},
      {.name = "layers", .kind = READ_IGNORE, .is_required = true},
  };
  return read_object(architecture, pointer, fields, sizeof fields / sizeof fields[0], faults);
}

void architecture_read(struct model *out, json_t *assumptions, const json_t *architecture, const char *pointer,
                       struct faults *faults)
{
  const struct reading r = {out, assumptions, faults};
  const size_t faults_before = faults->count;
  struct big big = {0, 0, 0};
  char at[160];
  memset(out, 0, sizeof *out);
  out->precision.embeddings = out->precision.attention = out->precision.dense = PRECISION_BF16;
  out->precision.experts = out->precision.head = PRECISION_BF16;
  if (!read_outer(architecture, pointer, out, &big, faults))
    return;
  out->layer_embedding_parameters = (uint64_t)big.layer_embeddings;
  out->extra_parameters = (uint64_t)big.extra;
  out->vision_parameters = (uint64_t)big.vision;
  if (json_object_get(architecture, "final_norm_parameters") == NULL)
    out->final_norm_parameters = out->hidden_size;
  if (json_object_get(architecture, "precision") == NULL)
    assume(&r, "precision is not given: bf16 weights");
  read_pointer(at, sizeof at, pointer, "multi_token_prediction");
  read_draft(&r, json_object_get(architecture, "multi_token_prediction"), at);
  read_pointer(at, sizeof at, pointer, "layers");
  if (json_object_get(architecture, "layers") != NULL)
    read_layers(&r, json_object_get(architecture, "layers"), at);
  if (faults->count == faults_before && !faults->is_truncated)
    check_model(out, pointer, faults);
}

/* ---- writing ---- */

static void put_count(json_t **object, const char *name, uint64_t value)
{
  if (value != 0)
    put_member(object, name, json_integer((json_int_t)value));
}

static void put_true(json_t **object, const char *name, bool value)
{
  if (value)
    put_member(object, name, json_true());
}

static json_t *write_precisions(const struct model_precision *p)
{
  json_t *object = json_object();
  put_member(&object, "embeddings", json_string(precision_name(p->embeddings)));
  put_member(&object, "attention", json_string(precision_name(p->attention)));
  put_member(&object, "dense", json_string(precision_name(p->dense)));
  put_member(&object, "experts", json_string(precision_name(p->experts)));
  put_member(&object, "head", json_string(precision_name(p->head)));
  put_member(&object, "kv_cache",
             p->kv_cache != PRECISION_NONE ? json_string(precision_name(p->kv_cache)) : json_null());
  put_true(&object, "static_scales", p->has_static_scales);
  if (p->quantised_weight_bytes > 0.0)
    put_member(&object, "quantised_weight_bytes", json_real(p->quantised_weight_bytes));
  put_count(&object, "scale_block_outputs", p->scale_block_outputs);
  put_count(&object, "scale_block_inputs", p->scale_block_inputs);
  return object;
}

static json_t *write_attention(const struct attention *a)
{
  json_t *object = json_object();
  put_member(&object, "kind", json_string(attention_name(a)));
#define ATTENTION_COUNT(member, name, largest) put_count(&object, name, a->member);
#define ATTENTION_FLAG(member, name) put_true(&object, name, a->member);
#define ATTENTION_BIG(member, name, largest) put_count(&object, name, a->member);
#include "core/model.def"
  return object;
}

static json_t *write_feed_forward(const struct feed_forward *f)
{
  static const char *const kinds[] = {"dense", "moe", "none"};
  json_t *object = json_object();
  put_member(&object, "kind", json_string(kinds[f->kind]));
  if (f->kind != FEED_FORWARD_NONE)
    put_member(&object, "gated", json_boolean(f->is_gated));
#define FEED_FORWARD_COUNT(member, name, largest) put_count(&object, name, f->member);
#define FEED_FORWARD_FLAG(member, name) put_true(&object, name, f->member);
#include "core/model.def"
  return object;
}

static void put_layer(json_t **object, const struct layer *layer)
{
  put_member(object, "attention", write_attention(&layer->attention));
  put_member(object, "feed_forward", write_feed_forward(&layer->feed_forward));
  put_member(object, "norm_parameters", json_integer(layer->norm_parameters));
  put_count(object, "other_parameters", layer->other_parameters);
}

static json_t *write_draft(const struct draft *draft)
{
  json_t *object = json_object();
  put_member(&object, "modules", json_integer(draft->modules));
  put_true(&object, "own_embeddings", draft->has_own_embeddings);
  put_layer(&object, &draft->layer);
  return object;
}

static json_t *write_layers(const struct model *model)
{
  json_t *layers = json_array();
  for (unsigned i = 0, count; i < model->layer_count; i += count) {
    const struct layer *layer = &model->layers[model->layer_order[i]];
    json_t *run = json_object();
    for (count = 1; i + count < model->layer_count; count++)
      if (model->layer_order[i + count] != model->layer_order[i])
        break;
    put_member(&run, "count", json_integer(count));
    put_true(&run, "shares_parameters", layer->shares_parameters);
    put_layer(&run, layer);
    put_element(&layers, run);
  }
  return layers;
}

json_t *architecture_write(const struct model *model)
{
  json_t *object = json_object();
  put_member(&object, "hidden_size", json_integer(model->hidden_size));
  put_member(&object, "vocab_size", json_integer(model->vocab_size));
  put_member(&object, "max_context_tokens",
             model->max_context_tokens != 0 ? json_integer(model->max_context_tokens) : json_null());
  put_member(&object, "tied_embeddings", json_boolean(model->has_tied_embeddings));
  put_true(&object, "head_bias", model->has_head_bias);
  put_member(&object, "final_norm_parameters", json_integer(model->final_norm_parameters));
  put_count(&object, "embedding_norm_parameters", model->embedding_norm_parameters);
  put_count(&object, "position_embeddings", model->position_embeddings);
  put_count(&object, "layer_embedding_parameters", model->layer_embedding_parameters);
  put_count(&object, "extra_parameters", model->extra_parameters);
  put_count(&object, "vision_parameters", model->vision_parameters);
  if (model->draft.modules != 0)
    put_member(&object, "multi_token_prediction", write_draft(&model->draft));
  put_member(&object, "precision", write_precisions(&model->precision));
  put_member(&object, "layers", write_layers(model));
  return object;
}
