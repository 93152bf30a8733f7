/* Formats of the module groups: the config's dtype, then what quantization_config (or ModelOpt's hf_quant_config.json)
   makes of the linear layers, less what it leaves alone. Embeddings, norms, biases and routers are never quantised. */
#include "api/hf.h"

#include <stdio.h>
#include <string.h>

#include "api/read.h"

#define BLOCK_MAX 1048576

struct quantisation {
  struct hf *hf;
  const json_t *config;
  char pointer[160];
  enum precision format;                /* NONE = nothing is quantised */
  double weight_bytes;                  /* of formats with group scales */
  unsigned block_outputs, block_inputs; /* of a matrix that share a scale; 0 = all */
  bool has_static_scales;
  bool takes_only_experts;
  bool takes_head;
  enum precision kv_cache;
  const json_t *ignored; /* list of modules left alone, or NULL */
};

static const json_t *member(const struct quantisation *q, const char *key, char pointer[160])
{
  const json_t *value = json_object_get(q->config, key);
  read_pointer(pointer, 160, q->pointer, key);
  return json_is_null(value) ? NULL : value;
}

static bool says(const struct quantisation *q, const char *key, const char *word)
{
  const char *text = json_string_value(json_object_get(q->config, key));
  return text != NULL && strcmp(text, word) == 0;
}

static void refuse(const struct quantisation *q, const char *key, const char *supported)
{
  char pointer[160];
  char seen[READ_EXCERPT_SIZE];
  const json_t *value = member(q, key, pointer);
  if (json_is_string(value))
    hf_fault_at(q->hf, FAULT_UNSUPPORTED, pointer, "\"%s\" is not supported; supported are %s",
                read_excerpt(seen, json_string_value(value)), supported);
  else if (json_is_integer(value))
    hf_fault_at(q->hf, FAULT_UNSUPPORTED, pointer, "%" JSON_INTEGER_FORMAT " is not supported; supported are %s",
                json_integer_value(value), supported);
  else
    hf_fault_at(q->hf, FAULT_UNSUPPORTED, pointer, "%s is not supported; supported are %s", read_type_name(value),
                supported);
}

static const json_t *first_list(const struct quantisation *q, const char *const *keys)
{
  char pointer[160];
  for (; *keys != NULL; keys++) {
    const json_t *list = member(q, *keys, pointer);
    if (list != NULL && !json_is_array(list))
      hf_fault_at(q->hf, FAULT_WRONG_TYPE, pointer, "expected a list of modules, saw %s", read_type_name(list));
    if (json_is_array(list))
      return list;
  }
  return NULL;
}

/* A 16-bit scale for each group and, with zero points, one more number as wide as a weight. */
static double grouped_bytes(unsigned bits, const json_t *group_size, bool has_zero_points)
{
  const json_int_t group = json_is_integer(group_size) ? json_integer_value(group_size) : 0;
  const double weight = bits / 8.0;
  if (group <= 0)
    return weight;
  return weight + (has_zero_points ? 2.0 + weight : 2.0) / (double)group;
}

static void set_block(struct quantisation *q, unsigned outputs, unsigned inputs)
{
  q->block_outputs = outputs;
  q->block_inputs = inputs;
}

/* Also -1: scales of whole outputs, whose bytes do not count. */
static bool is_group_size(const json_t *value)
{
  const json_int_t size = json_integer_value(value);
  return json_is_integer(value) && (size == -1 || (size >= 1 && size <= BLOCK_MAX));
}

/* A pair of numbers: outputs and inputs that share a scale. */
static void read_block(struct quantisation *q, const json_t *pair, const char *pointer)
{
  const json_t *outputs = json_array_get(pair, 0);
  const json_t *inputs = json_array_get(pair, 1);
  if (pair == NULL || json_is_null(pair))
    return;
  if (json_array_size(pair) != 2 || !json_is_integer(outputs) || !json_is_integer(inputs) ||
      json_integer_value(outputs) < 1 || json_integer_value(outputs) > BLOCK_MAX || json_integer_value(inputs) < 1 ||
      json_integer_value(inputs) > BLOCK_MAX) {
    hf_fault_at(q->hf, FAULT_OUT_OF_RANGE, pointer, "expected two whole numbers between 1 and %d", BLOCK_MAX);
    return;
  }
  set_block(q, (unsigned)json_integer_value(outputs), (unsigned)json_integer_value(inputs));
}

/* ---- methods ---- */

static void read_fp8(struct quantisation *q)
{
  char at[160];
  char pointer[160];
  const json_t *block = member(q, "weight_block_size", pointer);
  q->format = PRECISION_FP8;
  q->has_static_scales = says(q, "activation_scheme", "static");
  if (member(q, "activation_scheme", at) == NULL)
    hf_assume(q->hf, "activation_scheme is not given: dynamic");
  else if (!q->has_static_scales && !says(q, "activation_scheme", "dynamic"))
    refuse(q, "activation_scheme", "static and dynamic");
  read_block(q, block, pointer);
}

/* One scale an output. */
static void read_fbgemm_fp8(struct quantisation *q)
{
  q->format = PRECISION_FP8;
  set_block(q, 1, 0);
}

static void read_integer(struct quantisation *q)
{
  char pointer[160];
  const json_t *group_size = member(q, "group_size", pointer);
  const json_t *bits = member(q, "bits", pointer);
  const json_int_t n = json_is_integer(bits) ? json_integer_value(bits) : bits == NULL ? 4 : 0;
  if (n != 4 && n != 8) {
    refuse(q, "bits", "4 and 8");
    return;
  }
  if (group_size != NULL && !is_group_size(group_size))
    refuse(q, "group_size", "whole numbers, or -1 for one scale an output");
  q->format = n == 4 ? PRECISION_INT4 : PRECISION_INT8;
  q->takes_head = json_is_true(json_object_get(q->config, "lm_head"));
  q->weight_bytes = grouped_bytes((unsigned)n, group_size, true); /* AWQ and GPTQ store zero points though all alike */
  if (bits == NULL)
    hf_assume(q->hf, "bits is not given: 4");
  if (group_size == NULL || json_integer_value(group_size) == -1)
    hf_assume(q->hf, "group_size is %s: scales are not counted", group_size == NULL ? "not given" : "-1");
}

static void read_bitsandbytes(struct quantisation *q)
{
  if (json_is_true(json_object_get(q->config, "load_in_4bit"))) {
    char pointer[160];
    const json_t *nested = member(q, "bnb_4bit_use_double_quant", pointer);
    const bool is_nested = json_is_true(nested);
    if (nested == NULL)
      hf_assume(q->hf, "bnb_4bit_use_double_quant is not given: scales are not quantised");
    else if (!json_is_boolean(nested))
      refuse(q, "bnb_4bit_use_double_quant", "true and false");
    q->format = PRECISION_NF4; /* one fp32 scale for 64 weights, or one byte and an fp32 scale for 256 of those */
    q->weight_bytes = 0.5 + (is_nested ? 1.0 / 64 + 4.0 / (64 * 256) : 4.0 / 64);
  } else if (json_is_true(json_object_get(q->config, "load_in_8bit"))) {
    q->format = PRECISION_INT8;
    set_block(q, 1, 0);
  } else {
    refuse(q, "load_in_4bit", "load_in_4bit or load_in_8bit true");
  }
}

static void read_mxfp4(struct quantisation *q)
{
  q->format = PRECISION_MXFP4;
  q->takes_only_experts = true;
}

static enum precision scheme_format(const json_t *weights)
{
  const json_int_t bits = json_integer_value(json_object_get(weights, "num_bits"));
  const char *type = json_string_value(json_object_get(weights, "type"));
  const json_int_t group = json_integer_value(json_object_get(weights, "group_size"));
  if (type == NULL)
    return PRECISION_NONE;
  if (strcmp(type, "float") == 0)
    return bits == 8 ? PRECISION_FP8 : bits == 4 ? (group == 32 ? PRECISION_MXFP4 : PRECISION_NVFP4) : PRECISION_NONE;
  if (strcmp(type, "int") == 0)
    return bits == 8 ? PRECISION_INT8 : bits == 4 ? PRECISION_INT4 : PRECISION_NONE;
  return PRECISION_NONE;
}

static void read_kv_scheme(struct quantisation *q, const char *key)
{
  char pointer[160];
  const json_t *scheme = member(q, key, pointer);
  if (scheme == NULL)
    return;
  q->kv_cache = scheme_format(scheme);
  if (q->kv_cache == PRECISION_NONE)
    refuse(q, key, "8-bit float or integer and 4-bit float");
}

/* How the weights of a group share scales. */
static void read_strategy(struct quantisation *q, const json_t *weights)
{
  char pointer[160];
  const char *strategy = json_string_value(json_object_get(weights, "strategy"));
  if (q->format == PRECISION_INT4)
    q->weight_bytes =
        grouped_bytes(4, json_object_get(weights, "group_size"), json_is_false(json_object_get(weights, "symmetric")));
  read_pointer(pointer, sizeof pointer, q->pointer, "config_groups");
  if (strategy == NULL || strcmp(strategy, "tensor") == 0)
    set_block(q, 0, 0);
  else if (strcmp(strategy, "channel") == 0)
    set_block(q, 1, 0);
  else if (strcmp(strategy, "block") == 0)
    read_block(q, json_object_get(weights, "block_structure"), pointer);
  else if (json_integer_value(json_object_get(weights, "group_size")) > 0)
    set_block(q, 1, (unsigned)(json_integer_value(json_object_get(weights, "group_size")) % BLOCK_MAX));
}

static void read_compressed_tensors(struct quantisation *q)
{
  json_t *groups = read_iterable(json_object_get(q->config, "config_groups"));
  const char *name;
  json_t *group;
  json_object_foreach(groups, name, group)
  {
    const json_t *weights = json_object_get(group, "weights");
    const json_t *inputs = json_object_get(group, "input_activations");
    const enum precision format = scheme_format(weights);
    if (format == PRECISION_NONE || (q->format != PRECISION_NONE && q->format != format)) {
      refuse(q, "config_groups", "groups of one format: 8-bit float or integer, 4-bit float or integer weights");
      return;
    }
    q->format = format;
    q->has_static_scales = json_is_false(json_object_get(inputs, "dynamic"));
    read_strategy(q, weights);
  }
  if (q->format == PRECISION_NONE)
    refuse(q, "config_groups", "an object with at least one group");
  read_kv_scheme(q, "kv_cache_scheme");
}

static void read_modelopt_kv(struct quantisation *q)
{
  static const char key[] = "kv_cache_quant_algo";
  char pointer[160];
  const json_t *value = member(q, key, pointer);
  if (json_object_get(q->config, key) == NULL)
    hf_assume(q->hf, "%s is not given: the checkpoint does not say how KV is kept", key);
  if (value == NULL || says(q, key, "none"))
    return;
  q->kv_cache = says(q, key, "FP8")     ? PRECISION_FP8
                : says(q, key, "NVFP4") ? PRECISION_NVFP4
                : says(q, key, "INT8")  ? PRECISION_INT8
                                        : PRECISION_NONE;
  if (q->kv_cache == PRECISION_NONE)
    refuse(q, key, "FP8, INT8 and NVFP4");
}

static void read_modelopt(struct quantisation *q)
{
  static const struct {
    const char *name;
    enum precision format;
    unsigned block_outputs, block_inputs;
  } algorithms[] = {{"FP8", PRECISION_FP8, 0, 0},
                    {"FP8_PB_WO", PRECISION_FP8, 128, 128},
                    {"NVFP4", PRECISION_NVFP4, 0, 0},
                    {"NVFP4_AWQ", PRECISION_NVFP4, 0, 0},
                    {"W4A16_AWQ", PRECISION_INT4, 0, 0},
                    {"INT8_SQ", PRECISION_INT8, 1, 0},
                    {"FP8_PER_CHANNEL_PER_TOKEN", PRECISION_FP8, 1, 0}};
  for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
    if (says(q, "quant_algo", algorithms[i].name)) {
      q->format = algorithms[i].format;
      set_block(q, algorithms[i].block_outputs, algorithms[i].block_inputs);
    }
  if (q->format == PRECISION_NONE)
    refuse(q, "quant_algo", "FP8, FP8_PB_WO, FP8_PER_CHANNEL_PER_TOKEN, NVFP4, NVFP4_AWQ, W4A16_AWQ and INT8_SQ");
  q->has_static_scales = says(q, "quant_algo", "FP8");
  if (q->format == PRECISION_INT4)
    q->weight_bytes = grouped_bytes(4, json_object_get(q->config, "group_size"), false);
  read_modelopt_kv(q);
}

static void read_method(struct quantisation *q)
{
  static const struct {
    const char *name;
    void (*read)(struct quantisation *q);
  } methods[] = {
      {"fp8", read_fp8},      {"fbgemm_fp8", read_fbgemm_fp8},     {"awq", read_integer},
      {"gptq", read_integer}, {"bitsandbytes", read_bitsandbytes}, {"compressed-tensors", read_compressed_tensors},
      {"mxfp4", read_mxfp4},  {"modelopt", read_modelopt},
  };
  static const char *const ignore_keys[] = {"modules_to_not_convert", "ignore", "exclude_modules",
                                            "llm_int8_skip_modules", NULL};
  q->ignored = first_list(q, ignore_keys);
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
    if (says(q, "quant_method", methods[i].name)) {
      methods[i].read(q);
      return;
    }
  refuse(q, "quant_method", "fp8, fbgemm_fp8, awq, gptq, bitsandbytes, compressed-tensors, mxfp4 and modelopt");
}

/* ---- together ---- */

static enum precision read_dtype(struct hf *hf)
{
  char pointer[160];
  char seen[READ_EXCERPT_SIZE];
  const json_t *value = hf_get(hf, "torch_dtype dtype", pointer);
  const char *name = json_string_value(value);
  enum precision precision;
  if (name == NULL)
    name = json_string_value(json_object_get(hf->root, "torch_dtype"));
  if (name == NULL)
    name = json_string_value(json_object_get(hf->root, "dtype"));
  if (value != NULL && !json_is_string(value)) {
    hf_fault_at(hf, FAULT_WRONG_TYPE, pointer, "expected text, saw %s", read_type_name(value));
    return PRECISION_BF16;
  }
  if (name == NULL || strcmp(name, "auto") == 0) {
    hf_assume(hf, "the config states no dtype: bf16");
    return PRECISION_BF16;
  }
  if (strncmp(name, "torch.", 6) == 0)
    name += 6;
  precision = precision_parse(name);
  if (precision == PRECISION_FP32) {
    hf_assume(hf, "a float32 checkpoint is served in bf16");
    return PRECISION_BF16;
  }
  if (precision != PRECISION_BF16 && precision != PRECISION_FP16) {
    hf_fault_at(hf, FAULT_UNKNOWN_VALUE, pointer, "\"%s\" is none of bfloat16, float16 and float32",
                read_excerpt(seen, name));
    return PRECISION_BF16;
  }
  return precision;
}

/* The quantisation's object: hf_quant_config's own, or the config's, beside or inside the decoder's part. */
static bool find_quantisation(struct quantisation *q, const json_t *quant_config)
{
  struct hf *hf = q->hf;
  const json_t *outer = json_object_get(hf->root, "quantization_config");
  if (quant_config != NULL) {
    /* hf_quant_config.json is a sibling of config.json in the body */
    char *last = strrchr(hf->root_pointer, '/');
    const int parent = last != NULL ? (int)(last - hf->root_pointer) : 0;
    (void)snprintf(q->pointer, sizeof q->pointer, "%.*s/hf_quant_config/quantization", parent, hf->root_pointer);
    q->config = json_object_get(quant_config, "quantization");
    if (!json_is_object(q->config))
      hf_fault_at(hf, FAULT_MISSING, q->pointer, "needed: the object of a hf_quant_config.json");
    return json_is_object(q->config);
  }
  q->config = hf_get(hf, "quantization_config", q->pointer);
  if (q->config == NULL && outer != NULL && !json_is_null(outer)) {
    q->config = outer;
    read_pointer(q->pointer, sizeof q->pointer, hf->root_pointer, "quantization_config");
  }
  if (q->config != NULL && !json_is_object(q->config))
    hf_fault_at(hf, FAULT_WRONG_TYPE, q->pointer, "expected an object, saw %s", read_type_name(q->config));
  return json_is_object(q->config);
}

void hf_precision_read(struct hf *hf, const json_t *quant_config, const struct model *model,
                       struct model_precision *out)
{
  struct quantisation q = {.hf = hf};
  const enum precision base = read_dtype(hf);
  out->embeddings = out->attention = out->dense = out->experts = out->head = base;
  if (!find_quantisation(&q, quant_config))
    return;
  if (quant_config != NULL) {
    static const char *const ignore_keys[] = {"exclude_modules", NULL};
    q.ignored = first_list(&q, ignore_keys);
    read_modelopt(&q);
  } else {
    read_method(&q);
  }
  out->kv_cache = q.kv_cache;
  if (q.format == PRECISION_NONE)
    return;
  out->quantised_weight_bytes = q.weight_bytes;
  out->has_static_scales = q.has_static_scales;
  out->scale_block_outputs = q.block_outputs;
  out->scale_block_inputs = q.block_inputs;
  if (!hf_is_left_alone(hf, q.ignored, model, HF_GROUP_EXPERTS))
    out->experts = q.format;
  if (!q.takes_only_experts && !hf_is_left_alone(hf, q.ignored, model, HF_GROUP_ATTENTION))
    out->attention = q.format;
  if (!q.takes_only_experts && !hf_is_left_alone(hf, q.ignored, model, HF_GROUP_DENSE))
    out->dense = q.format;
  if (q.takes_head && !hf_is_left_alone(hf, q.ignored, model, HF_GROUP_HEAD))
    out->head = q.format;
}
