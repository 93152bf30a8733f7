/* The body that brings a model, and what is answered about it: counts and bytes that follow from its architecture. */
#include "api/catalogue.h"

#include <string.h>

#include "api/put.h"
#include "api/read.h"
#include "api/write.h"

void model_read(struct model *out, json_t **assumptions, const json_t *body, const char *pointer, struct faults *faults)
{
  static const struct read_field fields[] = {
      {.name = "hf_config", .kind = READ_IGNORE},    {.name = "hf_quant_config", .kind = READ_IGNORE},
      {.name = "architecture", .kind = READ_IGNORE}, {.name = "name", .kind = READ_IGNORE},
      {.name = "alias", .kind = READ_IGNORE},
  };
  const json_t *config = json_object_get(body, "hf_config");
  const json_t *quant_config = json_object_get(body, "hf_quant_config");
  const json_t *architecture = json_object_get(body, "architecture");
  char at[160];
  memset(out, 0, sizeof *out);
  *assumptions = json_array();
  if (!read_object(body, pointer, fields, sizeof fields / sizeof fields[0], faults))
    return;
  read_pointer(at, sizeof at, pointer, architecture != NULL ? "architecture" : "hf_config");
  if (config != NULL && architecture != NULL)
    faults_add(faults, FAULT_CONFLICT, at, NULL, "give hf_config or architecture, not both");
  else if (architecture != NULL && quant_config != NULL)
    faults_add(faults, FAULT_CONFLICT, at, NULL, "hf_quant_config belongs to hf_config; use precision in architecture");
  else if (architecture != NULL)
    architecture_read(out, *assumptions, architecture, at, faults);
  else if (config != NULL)
    hf_config_read(out, *assumptions, config, json_is_null(quant_config) ? NULL : quant_config, at, faults);
  else
    faults_add(
        faults, FAULT_MISSING, at, NULL,
        "needed: hf_config with the contents of a config.json, or architecture with a native architecture object");
}

static json_t *write_modules(const struct model *model)
{
  const struct parameter_counts counts = model_parameters(model);
  json_t *object = json_object();
  put_member(&object, "embeddings", json_integer((json_int_t)counts.embeddings));
  put_member(&object, "attention", json_integer((json_int_t)counts.attention));
  put_member(&object, "dense", json_integer((json_int_t)counts.dense));
  put_member(&object, "router", json_integer((json_int_t)counts.router));
  put_member(&object, "experts", json_integer((json_int_t)counts.experts));
  put_member(&object, "norms", json_integer((json_int_t)counts.norms));
  put_member(&object, "head", json_integer((json_int_t)counts.head));
  put_member(&object, "extra", json_integer((json_int_t)counts.extra));
  return object;
}

/* What published checkpoints store beside the decoder, in none of its totals. */
static void put_beside(json_t **object, const struct model *model)
{
  const struct parameter_counts decoder = model_parameters(model);
  const struct parameter_counts draft = model_draft_parameters(model);
  const uint64_t scales = decoder.scales + draft.scales;
  put_member(object, "parameters_vision", json_integer((json_int_t)model->vision_parameters));
  put_member(object, "parameters_multi_token_prediction", json_integer((json_int_t)parameter_counts_total(&draft)));
  put_member(object, "quantisation_scales", json_integer((json_int_t)scales));
}

static json_t *write_attention_group(const struct model *model, unsigned kind)
{
  const struct attention *a = &model->layers[kind].attention;
  json_t *object = json_object();
  put_member(&object, "kind", json_string(attention_name(a)));
  put_member(&object, "layers", json_integer(model_layers_of_kind(model, kind)));
  put_member(&object, "window_tokens", a->window_tokens != 0 ? json_integer(a->window_tokens) : json_null());
  return object;
}

static json_t *write_attention_groups(const struct model *model)
{
  json_t *groups = json_array();
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    put_element(&groups, write_attention_group(model, kind));
  return groups;
}

json_t *model_derived_write(const struct model *model, const json_t *assumptions)
{
  const enum precision kv_cache =
      model->precision.kv_cache != PRECISION_NONE ? model->precision.kv_cache : PRECISION_BF16;
  const struct kv_bytes kv = model_kv_bytes(model, kv_cache);
  json_t *object = json_object();
  put_member(&object, "layers", json_integer(model->layer_count));
  put_member(&object, "parameters_total", json_integer((json_int_t)model_parameters_total(model)));
  put_member(&object, "parameters_active", json_integer((json_int_t)model_parameters_active(model)));
  put_member(&object, "parameters_by_module", write_modules(model));
  put_beside(&object, model);
  put_member(&object, "weights_bytes", write_number(model_weights_bytes(model)));
  put_member(&object, "kv_cache_precision", json_string(precision_name(kv_cache)));
  put_member(&object, "kv_bytes_per_token", write_number(kv.growing_per_token_bytes + kv.windowed_per_token_bytes));
  if (kv.windowed_per_token_bytes > 0.0)
    put_member(&object, "kv_bytes_per_token_past_window", write_number(kv.growing_per_token_bytes));
  put_member(&object, "state_bytes_per_sequence", write_number(kv.state_per_sequence_bytes));
  put_member(&object, "attention", write_attention_groups(model));
  put_member(&object, "assumptions", assumptions != NULL ? json_deep_copy(assumptions) : json_array());
  return object;
}
