/* What a quantisation leaves alone: lists of module names, prefixes, globs and regular expressions, understood by the
   words in them, since every tool writes them differently. */
#include "api/hf.h"

#include <ctype.h>
#include <string.h>

#include "api/read.h"

/* The group a module name or pattern speaks of. Order matters: a shared expert is no routed one, a gate no projection. */
static enum hf_group group_of(const char *entry)
{
  static const struct {
    const char *word;
    enum hf_group group;
  } words[] = {
      {"lm_head", HF_GROUP_HEAD},      {"output_layer", HF_GROUP_HEAD},   {"norm", HF_GROUP_OTHER},
      {"embed", HF_GROUP_OTHER},       {"vision", HF_GROUP_OTHER},        {"visual", HF_GROUP_OTHER},
      {"projector", HF_GROUP_OTHER},   {"conv1d", HF_GROUP_OTHER},        {"router", HF_GROUP_OTHER},
      {"bias", HF_GROUP_OTHER},        {"mtp", HF_GROUP_OTHER},           {"eh_proj", HF_GROUP_OTHER},
      {"indexer", HF_GROUP_OTHER},     {"in_proj_a", HF_GROUP_OTHER},     {"in_proj_b", HF_GROUP_OTHER},
      {"expert_gate", HF_GROUP_OTHER}, {"shared_expert", HF_GROUP_DENSE}, {"experts", HF_GROUP_EXPERTS},
      {"attn", HF_GROUP_ATTENTION},    {"attention", HF_GROUP_ATTENTION}, {"q_proj", HF_GROUP_ATTENTION},
      {"k_proj", HF_GROUP_ATTENTION},  {"v_proj", HF_GROUP_ATTENTION},    {"o_proj", HF_GROUP_ATTENTION},
      {"in_proj", HF_GROUP_ATTENTION}, {"out_proj", HF_GROUP_ATTENTION},  {"gate_proj", HF_GROUP_DENSE},
      {"up_proj", HF_GROUP_DENSE},     {"down_proj", HF_GROUP_DENSE},     {"_proj", HF_GROUP_DENSE},
      {"gate", HF_GROUP_OTHER},        {"mlp", HF_GROUP_DENSE},           {"feed_forward", HF_GROUP_DENSE},
  };
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strstr(entry, words[i].word) != NULL)
      return words[i].group;
  return strstr(entry, "layers") != NULL ? HF_GROUP_ALL : HF_GROUP_OTHER;
}

/* Marks the layers that an entry names by the numbers after "layers" ("layers.3.", "layers\\.(0|31)\\."), or all. */
static void mark_layers(bool *is_marked, unsigned layers, const char *entry)
{
  const char *at = strstr(entry, "layers");
  bool is_numbered = false;
  at = at != NULL ? at + strlen("layers") : "";
  at += strspn(at, "\\.[(");
  while (isdigit((unsigned char)*at)) {
    unsigned layer = 0;
    for (; isdigit((unsigned char)*at); at++)
      layer = layer <= MODEL_LAYERS_MAX ? layer * 10 + (unsigned)(*at - '0') : layer;
    if (layer < layers)
      is_marked[layer] = true;
    is_numbered = true;
    at += *at == '|';
  }
  if (!is_numbered)
    memset(is_marked, true, layers);
}

static bool layer_has(const struct model *model, unsigned i, enum hf_group group)
{
  const struct layer *layer = &model->layers[model->layer_order[i]];
  if (group == HF_GROUP_ATTENTION)
    return layer->attention.kind != ATTENTION_NONE;
  if (group == HF_GROUP_EXPERTS)
    return layer->feed_forward.kind == FEED_FORWARD_MOE;
  return layer->feed_forward.kind == FEED_FORWARD_DENSE || layer->feed_forward.shared_intermediate_size != 0;
}

/* Whether most layers of a group are left alone; a group is one format, so a mixture is told as an assumption. */
bool hf_is_left_alone(struct hf *hf, const json_t *ignored, const struct model *model, enum hf_group group)
{
  static const char *const names[] = {"attention", "dense MLPs and shared experts", "experts"};
  bool is_marked[MODEL_LAYERS_MAX] = {false};
  unsigned marked = 0;
  unsigned present = 0;
  size_t i;
  json_t *entry;
  json_array_foreach(read_iterable(ignored), i, entry)
  {
    const char *text = json_string_value(entry);
    const enum hf_group named = text != NULL ? group_of(text) : HF_GROUP_OTHER;
    if (text != NULL && (named == group || named == HF_GROUP_ALL))
      mark_layers(is_marked, group == HF_GROUP_HEAD ? 1 : model->layer_count, text);
  }
  if (group == HF_GROUP_HEAD)
    return is_marked[0];
  for (unsigned layer = 0; layer < model->layer_count; layer++) {
    present += layer_has(model, layer, group);
    marked += layer_has(model, layer, group) && is_marked[layer];
  }
  if (marked != 0 && marked != present)
    hf_assume(hf, "the quantisation leaves out %u of %u layers' %s: all are counted as %s", marked, present,
              names[group], 2 * marked > present ? "left out" : "quantised");
  return 2 * marked > present;
}
