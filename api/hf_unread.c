/* Keys of a config that were not read: those known to change the architecture are refused, and those of an unknown
   model_type that look like structure are named. */
#include "api/hf.h"

#include <stdio.h>
#include <string.h>

#include "api/read.h"

/* Keys that change the architecture in ways that are not counted here; refused while their value is not empty. */
static const struct {
  const char *key;
  const char *why;
} unsupported[] = {
    {"add_cross_attention", "cross attention"},
    {"block_types", "recurrent blocks by block_types"},
    {"compress_ratios", "compressed attention"},
    {"cross_attention_layers", "cross attention"},
    {"ffn_multipliers", "differently wide layers by ffn_multipliers"},
    {"is_encoder_decoder", "encoder-decoder models"},
    {"layer_group_size", "linear attention by layer_group_size"},
    {"lru_width", "recurrent blocks"},
    {"zero_expert_num", "experts that compute nothing"},
};

static bool is_empty(const json_t *value)
{
  if (value == NULL || json_is_null(value) || json_is_false(value))
    return true;
  if (json_is_number(value))
    return !(json_number_value(value) > 0.0 || json_number_value(value) < 0.0);
  return (json_is_array(value) && json_array_size(value) == 0) ||
         (json_is_object(value) && json_object_size(value) == 0);
}

void hf_refuse_unsupported(struct hf *hf)
{
  char pointer[160];
  for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++)
    if (!is_empty(hf_get(hf, unsupported[i].key, pointer)))
      hf_fault(hf, FAULT_UNSUPPORTED, unsupported[i].key, "%s: not supported", unsupported[i].why);
}

/* Words of keys about sampling, numerics, training or tokens, whatever else is in them. */
static bool is_harmless(const char *key)
{
  static const char *const words[] = {"eps",          "beam",    "ngram",    "token_id", "return",          "labels",
                                      "init",         "dropout", "theta",    "aux",      "chunk_size_feed", "keep",
                                      "original_max", "pruned",  "scale",    "scaling",  "precision",       "index",
                                      "label",        "batch",   "layerdrop"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strstr(key, words[i]) != NULL)
      return true;
  return false;
}

static bool looks_structural(const char *key)
{
  static const char *const words[] = {"num_", "_num", "layer", "head",  "expert", "window",
                                      "rank", "dim",  "size",  "block", "pattern"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strstr(key, words[i]) != NULL)
      return !is_harmless(key);
  return false;
}

static bool was_used(const struct hf *hf, const char *key)
{
  for (size_t i = 0; i < hf->used->count; i++)
    if (strcmp(hf->used->keys[i], key) == 0)
      return true;
  return false;
}

/* One sentence names what fits into it and counts the rest. */
void hf_name_unread(struct hf *hf)
{
  char names[240] = "";
  size_t length = 0;
  unsigned more = 0;
  const char *key;
  json_t *value;
  if (hf->is_known_type)
    return;
  json_object_foreach(read_iterable(hf->text), key, value)
  {
    char name[READ_EXCERPT_SIZE];
    if (is_empty(value) || json_is_string(value) || !looks_structural(key) || was_used(hf, key))
      continue;
    (void)read_excerpt(name, key);
    if (length + strlen(name) + 3 > sizeof names)
      more++;
    else
      length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", length != 0 ? ", " : "", name);
  }
  if (length != 0)
    hf_assume(hf, "keys that look like structure and were not read: %s%s", names, more != 0 ? " and more" : "");
}
