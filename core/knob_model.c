/* Knobs of the resolved architecture: one field in every layer that has it, and the sizes that layers share. */
#include "core/knob_int.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const char prefix[] = "/model/";

/* ---- fields of layers, core/model.def ---- */

enum part { PART_ATTENTION, PART_FEED_FORWARD };
enum width { WIDTH_COUNT, WIDTH_FLAG, WIDTH_BIG };

struct field {
  const char *name;
  enum part part;
  enum width width;
  size_t offset;
  double most;
};

static const struct field fields[] = {
#define ATTENTION_COUNT(member, name, largest)                                                                         \
  {name, PART_ATTENTION, WIDTH_COUNT, offsetof(struct attention, member), largest},
#define ATTENTION_FLAG(member, name) {name, PART_ATTENTION, WIDTH_FLAG, offsetof(struct attention, member), 1},
#define ATTENTION_BIG(member, name, largest)                                                                           \
  {name, PART_ATTENTION, WIDTH_BIG, offsetof(struct attention, member), largest},
#define FEED_FORWARD_COUNT(member, name, largest)                                                                      \
  {name, PART_FEED_FORWARD, WIDTH_COUNT, offsetof(struct feed_forward, member), largest},
#define FEED_FORWARD_FLAG(member, name) {name, PART_FEED_FORWARD, WIDTH_FLAG, offsetof(struct feed_forward, member), 1},
#include "core/model.def"
};

static const struct field *find_field(const char *pointer)
{
  if (strncmp(pointer, prefix, strlen(prefix)) != 0)
    return NULL;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (strcmp(fields[i].name, pointer + strlen(prefix)) == 0)
      return &fields[i];
  return NULL;
}

static const void *field_at(const struct field *field, const struct layer *layer)
{
  const char *part =
      field->part == PART_ATTENTION ? (const char *)&layer->attention : (const char *)&layer->feed_forward;
  return part + field->offset;
}

static double load(const struct field *field, const struct layer *layer)
{
  const void *at = field_at(field, layer);
  switch (field->width) {
  case WIDTH_COUNT: return *(const unsigned *)at;
  case WIDTH_FLAG: return *(const bool *)at;
  case WIDTH_BIG: return (double)*(const uint64_t *)at;
  }
  return 0;
}

static void store(const struct field *field, struct layer *layer, double number)
{
  char *part = field->part == PART_ATTENTION ? (char *)&layer->attention : (char *)&layer->feed_forward;
  void *at = part + field->offset;
  switch (field->width) {
  case WIDTH_COUNT: *(unsigned *)at = (unsigned)number; break;
  case WIDTH_FLAG: *(bool *)at = number > 0; break;
  case WIDTH_BIG: *(uint64_t *)at = (uint64_t)number; break;
  }
}

/* A field that is 0 is one that the layer does without; a window and a flag can be given to any layer of their part. */
static bool has(const struct field *field, const struct layer *layer)
{
  const bool is_window = field->part == PART_ATTENTION && field->offset == offsetof(struct attention, window_tokens);
  if (is_window)
    return layer->attention.kind == ATTENTION_GROUPED;
  if (field->width == WIDTH_FLAG)
    return field->part == PART_ATTENTION ? layer->attention.kind != ATTENTION_NONE
                                         : layer->feed_forward.kind != FEED_FORWARD_NONE;
  return load(field, layer) > 0;
}

/* ---- sizes outside of layers ---- */

static unsigned scaled(unsigned count, double ratio)
{
  return (unsigned)floor(count * ratio + 0.5);
}

/* Norms are as wide as what they normalise. */
static void set_hidden_size(struct model *model, unsigned size)
{
  const double ratio = (double)size / model->hidden_size;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    model->layers[kind].norm_parameters = scaled(model->layers[kind].norm_parameters, ratio);
  model->draft.layer.norm_parameters = scaled(model->draft.layer.norm_parameters, ratio);
  model->final_norm_parameters = scaled(model->final_norm_parameters, ratio);
  model->embedding_norm_parameters = scaled(model->embedding_norm_parameters, ratio);
  model->hidden_size = size;
}

/* Kinds of layers keep their order and their shares. */
static void set_layer_count(struct model *model, unsigned count)
{
  uint8_t order[MODEL_LAYERS_MAX];
  for (unsigned i = 0; i < count; i++)
    order[i] = model->layer_order[(size_t)i * model->layer_count / count];
  memcpy(model->layer_order, order, count);
  model->layer_count = count;
}

static void set_vocab_size(struct model *model, unsigned size)
{
  model->vocab_size = size;
}

static void set_max_context(struct model *model, unsigned tokens)
{
  model->max_context_tokens = tokens;
}

static const struct outer {
  const char *pointer;
  size_t offset;
  unsigned most;
  void (*set)(struct model *model, unsigned value);
} outers[] = {
    {"/model/num_hidden_layers", offsetof(struct model, layer_count), MODEL_LAYERS_MAX, set_layer_count},
    {"/model/hidden_size", offsetof(struct model, hidden_size), MODEL_HIDDEN_MAX, set_hidden_size},
    {"/model/vocab_size", offsetof(struct model, vocab_size), MODEL_VOCAB_MAX, set_vocab_size},
    {"/model/max_context_tokens", offsetof(struct model, max_context_tokens), MODEL_CONTEXT_MAX, set_max_context},
};

static const struct outer *find_outer(const char *pointer)
{
  for (size_t i = 0; i < sizeof outers / sizeof outers[0]; i++)
    if (strcmp(outers[i].pointer, pointer) == 0)
      return &outers[i];
  return NULL;
}

/* ---- the whole ---- */

static enum err no_such(const char *pointer, struct error *e)
{
  return error_set(e, ERR_INVALID, pointer, "leads to nothing that can be changed");
}

bool knob_model_kind(enum knob_kind *kind, const char *pointer, const struct model *model)
{
  const struct field *field = find_field(pointer);
  if (model == NULL || (field == NULL && find_outer(pointer) == NULL))
    return false;
  *kind = field != NULL && field->width == WIDTH_FLAG ? KNOB_KIND_FLAG : KNOB_KIND_COUNT;
  return true;
}

/* The value of the first layer that has the field. */
static bool first_value(double *out, const struct field *field, const struct model *model)
{
  for (unsigned i = 0; i < model->layer_count; i++) {
    const struct layer *layer = &model->layers[model->layer_order[i]];
    if (has(field, layer)) {
      *out = load(field, layer);
      return true;
    }
  }
  return false;
}

enum err knob_model_get(struct knob_value *out, const char *pointer, const struct model *model, struct error *e)
{
  const struct outer *outer = find_outer(pointer);
  const struct field *field = find_field(pointer);
  double number = 0;
  if (model == NULL || (outer == NULL && field == NULL))
    return no_such(pointer, e);
  if (outer != NULL)
    number = *(const unsigned *)(const void *)((const char *)model + outer->offset);
  *out = knob_number(number);
  if (field == NULL)
    return ERR_OK;
  out->type = first_value(&out->number, field, model) ? KNOB_VALUE_NUMBER : KNOB_VALUE_NULL;
  if (field->width == WIDTH_FLAG && out->type == KNOB_VALUE_NUMBER)
    out->type = KNOB_VALUE_FLAG;
  return ERR_OK;
}

static enum err set_field(struct model *model, const struct field *field, const char *pointer,
                          const struct knob_value *value, struct error *e)
{
  double number = value->number, seen;
  enum err err = ERR_OK;
  if (field->width == WIDTH_FLAG && value->type != KNOB_VALUE_FLAG)
    return knob_wrong_type(e, pointer, "true or false", value->type);
  if (field->width != WIDTH_FLAG)
    err = knob_number_in(&number, pointer, value, true, 0, field->most, e);
  if (err != ERR_OK)
    return err;
  if (!first_value(&seen, field, model))
    return error_set(e, ERR_INVALID, pointer, "no layer of %s has such a field", model->name);
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    if (has(field, &model->layers[kind]))
      store(field, &model->layers[kind], number);
  if (model->draft.modules != 0 && has(field, &model->draft.layer))
    store(field, &model->draft.layer, number);
  return ERR_OK;
}

enum err knob_model_set(struct model *model, const char *pointer, const struct knob_value *value, struct error *e)
{
  const struct outer *outer = find_outer(pointer);
  const struct field *field = find_field(pointer);
  double number;
  enum err err;
  if (model == NULL || (outer == NULL && field == NULL))
    return no_such(pointer, e);
  if (field != NULL)
    return set_field(model, field, pointer, value, e);
  if ((err = knob_number_in(&number, pointer, value, true, 1, outer->most, e)) == ERR_OK)
    outer->set(model, (unsigned)number);
  return err;
}
