/* Which layer is what: the many ways in which configs say which layers see the whole context, a window or keep a state,
   and which hold experts. Decided by keys; a model_type only fills what its class would. */
#include "api/hf.h"

#include <string.h>

#include "api/read.h"

bool hf_plan_uses(const struct hf_plan *plan, enum hf_mixer mixer)
{
  for (unsigned i = 0; i < plan->rows; i++)
    if (plan->row[i].mixer == mixer)
      return true;
  return false;
}

bool hf_plan_uses_mlp(const struct hf_plan *plan, enum hf_mlp mlp)
{
  for (unsigned i = 0; i < plan->rows; i++)
    if (plan->row[i].mlp == mlp)
      return true;
  return false;
}

const json_t *hf_layer_list(struct hf *hf, const char *keys, unsigned layers)
{
  const json_t *list = hf_list(hf, keys);
  if (list == NULL || json_array_size(list) == layers)
    return list;
  hf_fault(hf, FAULT_CONFLICT, keys, "%zu entries for %u layers", json_array_size(list), layers);
  return NULL;
}

/* Without a number the lists of layers tell it. */
static unsigned count_layers(struct hf *hf)
{
  static const char keys[] = "num_hidden_layers n_layer num_layers n_layers";
  static const char *const lists[] = {HF_LAYER_TYPES, "block_configs", "hybrid_layer_pattern", "attn_type_list"};
  const char *pattern = hf_text(hf, "hybrid_override_pattern");
  unsigned layers = 0;
  if (hf_has(hf, keys)) {
    (void)hf_count(hf, keys, 1, MODEL_LAYERS_MAX, &layers);
    return layers;
  }
  if (pattern != NULL && strlen(pattern) != 0 && strlen(pattern) <= MODEL_LAYERS_MAX)
    return (unsigned)strlen(pattern);
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    const size_t size = json_array_size(hf_list(hf, lists[i]));
    if (size != 0 && size <= MODEL_LAYERS_MAX)
      return (unsigned)size;
  }
  (void)hf_need(hf, keys, 1, MODEL_LAYERS_MAX, &layers);
  return 0;
}

static bool mixer_of_type(const char *type, uint8_t *mixer)
{
  static const struct {
    const char *name;
    enum hf_mixer mixer;
  } types[] = {
      {"full_attention", HF_MIXER_FULL},
      {"attention", HF_MIXER_FULL},
      {"sliding_attention", HF_MIXER_WINDOW},
      {"chunked_attention", HF_MIXER_WINDOW},
      {"linear_attention", HF_MIXER_LINEAR},
      {"mamba", HF_MIXER_LINEAR},
      {"conv", HF_MIXER_LINEAR},
  };
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strcmp(types[i].name, type) == 0) {
      *mixer = (uint8_t)types[i].mixer;
      return true;
    }
  return false;
}

static void plan_layer_types(struct hf *hf, struct hf_plan *plan)
{
  const json_t *list = hf_layer_list(hf, HF_LAYER_TYPES, plan->rows);
  if (list == NULL)
    return;
  for (unsigned i = 0; i < plan->rows; i++) {
    const char *type = json_string_value(json_array_get(list, i));
    char seen[READ_EXCERPT_SIZE];
    if (type != NULL && mixer_of_type(type, &plan->row[i].mixer))
      continue;
    hf_fault(hf, FAULT_UNSUPPORTED, HF_LAYER_TYPES,
             "entry %u is %s; supported are full_attention, sliding_attention, chunked_attention, linear_attention, "
             "mamba and conv",
             i, type != NULL ? read_excerpt(seen, type) : "not text");
    return;
  }
}

/* A list of whole numbers, one a layer; `mixers` says what each number means. */
void hf_plan_numbers(struct hf *hf, struct hf_plan *plan, const char *keys, const enum hf_mixer mixers[2])
{
  const json_t *list = hf_layer_list(hf, keys, plan->rows);
  for (unsigned i = 0; list != NULL && i < plan->rows; i++) {
    const json_t *value = json_array_get(list, i);
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 1) {
      hf_fault(hf, FAULT_UNKNOWN_VALUE, keys, "entry %u is neither 0 nor 1", i);
      return;
    }
    plan->row[i].mixer = (uint8_t)mixers[json_integer_value(value)];
  }
}

void hf_plan_every(struct hf_plan *plan, unsigned interval, enum hf_mixer between)
{
  for (unsigned i = 0; i < plan->rows; i++)
    plan->row[i].mixer = (uint8_t)((i + 1) % interval == 0 ? HF_MIXER_FULL : between);
}

/* Attention where the list has the layer's number, counted from `first`; a state everywhere else. */
static void plan_listed(struct hf *hf, struct hf_plan *plan, const char *key, json_int_t first)
{
  const json_t *list = hf_list(hf, key);
  size_t i;
  json_t *entry;
  if (!hf_has(hf, key))
    hf_fault(hf, FAULT_MISSING, key, "needed: the numbers of the layers with attention");
  for (unsigned layer = 0; layer < plan->rows; layer++)
    plan->row[layer].mixer = HF_MIXER_LINEAR;
  json_array_foreach(read_iterable(list), i, entry)
  {
    const json_int_t layer = json_is_integer(entry) ? json_integer_value(entry) : -1;
    if (layer < first || layer >= first + (json_int_t)plan->rows) {
      hf_fault(hf, FAULT_OUT_OF_RANGE, key, "entry %zu is no layer of %u", i, plan->rows);
      return;
    }
    plan->row[layer - first].mixer = HF_MIXER_FULL;
  }
}

/* Jamba: attention in one layer of each period, a state in the others. */
static void plan_periods(struct hf *hf, struct hf_plan *plan)
{
  unsigned period = 1;
  unsigned offset = 0;
  (void)hf_count(hf, "attn_layer_period", 1, MODEL_LAYERS_MAX, &period);
  if (!hf_count(hf, "attn_layer_offset", 0, MODEL_LAYERS_MAX, &offset))
    hf_assume(hf, "attn_layer_offset is not given: 0");
  for (unsigned i = 0; i < plan->rows; i++)
    plan->row[i].mixer = i % period == offset % period ? HF_MIXER_FULL : HF_MIXER_LINEAR;
}

/* Linear layers whose places the config leaves to its class. */
static void plan_unsaid(struct hf *hf, struct hf_plan *plan)
{
  if (hf_has_trait(hf, HF_LAYER_LIST_NEEDED)) {
    hf_fault(hf, FAULT_MISSING, "attn_type_list layer_types", "needed: layers of this class are of different kinds");
  } else if (hf_has(hf, "linear_num_key_heads linear_num_value_heads")) {
    hf_assume(hf, "every 4th layer has full attention and the others linear attention, as the class does");
    hf_plan_every(plan, 4, HF_MIXER_LINEAR);
  } else if (hf_has(hf, "mamba_d_state mamba_n_heads mamba_num_heads n_mamba_heads conv_L_cache")) {
    hf_fault(hf, FAULT_MISSING, HF_LAYER_TYPES, "needed beside the keys of state layers: which layers they are");
  } else {
    hf_plan_windows(hf, plan);
  }
}

static void plan_mixers(struct hf *hf, struct hf_plan *plan)
{
  static const enum hf_mixer attn_type[2] = {HF_MIXER_LINEAR, HF_MIXER_FULL};
  static const enum hf_mixer hybrid_layer[2] = {HF_MIXER_FULL, HF_MIXER_WINDOW};
  unsigned interval = 0;
  if (hf_has(hf, HF_LAYER_TYPES))
    plan_layer_types(hf, plan);
  else if (hf_has(hf, "attn_type_list"))
    hf_plan_numbers(hf, plan, "attn_type_list", attn_type);
  else if (hf_has(hf, "hybrid_layer_pattern"))
    hf_plan_numbers(hf, plan, "hybrid_layer_pattern", hybrid_layer);
  else if (hf_has(hf, "attn_layer_period"))
    plan_periods(hf, plan);
  else if (hf_has(hf, "attn_layer_indices"))
    plan_listed(hf, plan, "attn_layer_indices", 0);
  else if (hf_has(hf, "linear_attn_config"))
    plan_listed(hf, plan, "linear_attn_config.full_attn_layers", 1);
  else if (hf_count(hf, "full_attention_interval", 1, MODEL_LAYERS_MAX, &interval))
    hf_plan_every(plan, interval, HF_MIXER_LINEAR);
  else
    plan_unsaid(hf, plan);
}

/* Falcon: one norm for attention and MLP side by side, two in its newer decoder or when they follow each other. */
static unsigned norms_by_fields(struct hf *hf)
{
  const bool is_new = hf_flag(hf, "new_decoder_architecture", false);
  unsigned norms = is_new ? 2 : 1;
  (void)hf_count(hf, "num_ln_in_parallel_attn", 1, 2, &norms);
  if (!hf_has(hf, "new_decoder_architecture"))
    hf_assume(hf, "new_decoder_architecture is not given: the older decoder");
  if (!hf_has(hf, "parallel_attn"))
    hf_assume(hf, "parallel_attn is not given: attention and MLP side by side");
  return hf_flag(hf, "parallel_attn", true) ? norms : 2;
}

static void set_norms(struct hf *hf, struct hf_plan *plan)
{
  const unsigned norms = hf_has_trait(hf, HF_NORM_BY_FIELDS) ? norms_by_fields(hf) : hf->traits->norms;
  for (unsigned i = 0; i < plan->rows; i++)
    plan->row[i].norms = (uint8_t)norms;
}

/* Layers whose MLPs are listed by width. */
static void set_widths(struct hf *hf, struct hf_plan *plan)
{
  char pointer[160];
  const json_t *list = hf_get(hf, "intermediate_size", pointer);
  if (!json_is_array(list) || hf_layer_list(hf, "intermediate_size", plan->rows) == NULL)
    return;
  for (unsigned i = 0; i < plan->rows; i++) {
    const json_t *width = json_array_get(list, i);
    if (!json_is_integer(width) || json_integer_value(width) < 1 || json_integer_value(width) > 1048576) {
      hf_fault(hf, FAULT_OUT_OF_RANGE, "intermediate_size", "entry %u is not a whole number between 1 and 1048576", i);
      return;
    }
    plan->row[i].intermediate_size = (unsigned)json_integer_value(width);
  }
}

/* Layers that use the KV of earlier ones: the last few, or all but every n-th. */
static void set_shared_kv(struct hf *hf, struct hf_plan *plan)
{
  unsigned last = 0;
  unsigned every = 1;
  (void)hf_count(hf, "num_kv_shared_layers", 0, plan->rows - 1, &last);
  for (unsigned i = plan->rows - last; i < plan->rows; i++)
    plan->row[i].shares_kv = true;
  if (!hf_flag(hf, "use_cla", hf_has(hf, "cla_share_factor")) ||
      !hf_count(hf, "cla_share_factor", 1, MODEL_LAYERS_MAX, &every))
    return;
  for (unsigned i = 0; i < plan->rows; i++)
    plan->row[i].shares_kv = i % every != 0;
}

void hf_plan_read(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan)
{
  memset(plan, 0, sizeof *plan); /* full attention and a dense MLP everywhere */
  plan->rows = count_layers(hf);
  if (plan->rows == 0) {
    plan->rows = 1;
    plan->row[0].mlp = hf_peek(hf, HF_EXPERTS) != 0 ? HF_MLP_MOE : HF_MLP_DENSE;
    return;
  }
  set_norms(hf, plan);
  if (!hf_plan_hybrid(hf, sizes, plan)) {
    plan_mixers(hf, plan);
    hf_plan_experts(hf, plan);
    set_widths(hf, plan);
    set_shared_kv(hf, plan);
  }
  hf_plan_fill_windows(hf, sizes->context, plan);
}
