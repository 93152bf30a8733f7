/* Start-up logs of engines as core's structs: the rows of a table that share a `point`, and which config and which
   profile a name stands for (models.csv and gpus.csv beside it, the longest fragment wins). Everything that is read is
   owned by the scratch. */
#ifndef FITD_TESTS_ACCURACY_START_LOGS_H
#define FITD_TESTS_ACCURACY_START_LOGS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/catalogue.h"
#include "api/csv.h"
#include "core/memory.h"
#include "core/units.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- the table ---- */

enum column {
  ID,
  POINT,
  ENGINE,
  VERSION,
  MODEL,
  GPU,
  GPU_MIB,
  TP,
  PP,
  DTYPE,
  QUANTIZATION,
  KV_DTYPE,
  CONTEXT,
  UTILISATION,
  TOKENS,
  SEQUENCES,
  EAGER,
  METRIC,
  VALUE,
  NOTE,
  COLUMN_COUNT
};
static const char *const column_names[COLUMN_COUNT] = {"id",
                                                       "point",
                                                       "engine",
                                                       "version",
                                                       "model",
                                                       "gpu",
                                                       "gpu_memory_mib",
                                                       "tp",
                                                       "pp",
                                                       "dtype",
                                                       "quantization",
                                                       "kv_cache_dtype",
                                                       "max_model_len",
                                                       "gpu_memory_utilization",
                                                       "max_num_batched_tokens",
                                                       "max_num_seqs",
                                                       "enforce_eager",
                                                       "metric",
                                                       "value",
                                                       "note"};

#define METRICS_MAX 48
struct point {
  char *text[COLUMN_COUNT]; /* of its first row */
  size_t metric_count;
  struct {
    char *name;
    double value;
  } metrics[METRICS_MAX];
};

#define POINTS_MAX 512
static struct {
  size_t count;
  struct point points[POINTS_MAX];
} table;

struct pair {
  char *fragment, *target;
};
static struct {
  size_t count;
  struct pair pairs[256];
} models, gpus;

static char *source_file(const char *relative)
{
  return scratch_read_file(suite_source_path(relative));
}

static void add_metric(struct point *point, const char *name, const char *value)
{
  ck_assert_uint_lt(point->metric_count, METRICS_MAX);
  point->metrics[point->metric_count].name = scratch_printf("%s", name);
  point->metrics[point->metric_count++].value = strtod(value, NULL);
}

static void load_table(void)
{
  const char *given = getenv("FITD_MEMORY_TABLE");
  char *text = given != NULL ? scratch_read_file(given) : source_file("tests/data/memory/memory_open.csv");
  size_t columns[COLUMN_COUNT];
  struct csv csv;
  struct error e;
  struct point *point = NULL;
  csv_init(&csv, text, strlen(text));
  ck_assert(csv_next(&csv, &e));
  for (int i = 0; i < COLUMN_COUNT; i++) {
    columns[i] = csv_column(&csv, column_names[i]);
    ck_assert_msg(columns[i] != SIZE_MAX, "no column %s", column_names[i]);
  }
  table.count = 0;
  while (csv_next(&csv, &e)) {
    if (point == NULL || strcmp(point->text[POINT], csv_field(&csv, columns[POINT])) != 0) {
      ck_assert_uint_lt(table.count, POINTS_MAX);
      point = &table.points[table.count++];
      point->metric_count = 0;
      for (int i = 0; i < COLUMN_COUNT; i++)
        point->text[i] = scratch_printf("%s", csv_field(&csv, columns[i]));
    }
    add_metric(point, csv_field(&csv, columns[METRIC]), csv_field(&csv, columns[VALUE]));
  }
  ck_assert_msg(e.code == ERR_OK, "%s", e.message);
  csv_fini(&csv);
}

static size_t load_pairs(struct pair *pairs, size_t max, const char *file)
{
  char *text = source_file(file);
  struct csv csv;
  struct error e;
  size_t count = 0;
  csv_init(&csv, text, strlen(text));
  ck_assert(csv_next(&csv, &e));
  while (csv_next(&csv, &e)) {
    ck_assert_uint_lt(count, max);
    pairs[count].fragment = scratch_printf("%s", csv_field(&csv, 0));
    pairs[count++].target = scratch_printf("%s", csv_field(&csv, 1));
  }
  csv_fini(&csv);
  return count;
}

static const char *find_pair(const struct pair *pairs, size_t count, const char *name)
{
  const struct pair *best = NULL;
  for (size_t i = 0; i < count; i++)
    if (strcasestr(name, pairs[i].fragment) != NULL &&
        (best == NULL || strlen(pairs[i].fragment) > strlen(best->fragment)))
      best = &pairs[i];
  return best != NULL ? best->target : NULL;
}

static void setup(void)
{
  load_table();
  models.count = load_pairs(models.pairs, COUNT(models.pairs), "tests/data/memory/models.csv");
  gpus.count = load_pairs(gpus.pairs, COUNT(gpus.pairs), "tests/data/memory/gpus.csv");
}

static double metric(const struct point *point, const char *name)
{
  for (size_t i = 0; i < point->metric_count; i++)
    if (strcmp(point->metrics[i].name, name) == 0)
      return point->metrics[i].value;
  return (double)NAN;
}

static double number(const struct point *point, enum column column)
{
  char *end;
  const double value = strtod(point->text[column], &end);
  return end != point->text[column] ? value : (double)NAN;
}

static bool says(const struct point *point, enum column column, const char *words)
{
  return strcasestr(point->text[column], words) != NULL;
}

static bool is_engine(const struct point *point, const char *engine)
{
  return strcmp(point->text[ENGINE], engine) == 0;
}

/* ---- a point in core's terms ---- */

struct subject {
  const struct point *point;
  struct model model;
  struct hardware hardware;
  struct layout layout;
  struct model_precision precision;
  struct preset preset;
  struct memory_case c;
  bool has_total, total_is_printed; /* of the device's memory */
  bool has_fraction, has_limits;    /* stated in the log, or the version's default for what it states */
  bool is_inferred;                 /* the model is a guess from the shape of its KV cache */
};

/* The decoder at hand; parts of it that core counts by other means: a table of positions that linear scaling makes longer,
   and vision towers that the checkpoint's own format keeps whole on every rank. */
static bool set_model(struct subject *s)
{
  const char *file = find_pair(models.pairs, models.count, s->point->text[MODEL]);
  const json_t *config, *text, *scaling;
  json_t *assumptions;
  static struct faults faults;
  if (file == NULL)
    return false;
  config = scratch_json_steal(json_loads(source_file(scratch_printf("tests/data/%s", file)), 0, NULL));
  assumptions = scratch_json_steal(json_array());
  memset(&faults, 0, sizeof faults);
  hf_config_read(&s->model, assumptions, config, NULL, "", &faults);
  ck_assert_msg(faults.count == 0, "%s: %s %s", file, faults.items[0].pointer, faults.items[0].detail);
  text = json_object_get(config, "text_config") != NULL ? json_object_get(config, "text_config") : config;
  scaling = json_object_get(text, "rope_scaling");
  if (json_string_value(json_object_get(scaling, "rope_type")) != NULL &&
      strcmp(json_string_value(json_object_get(scaling, "rope_type")), "linear") == 0)
    s->c.replicated_bytes = 2.0 * s->model.max_context_tokens * s->model.layers[0].attention.head_dim *
                            json_number_value(json_object_get(scaling, "factor"));
  if (s->model.vision_parameters == 0)
    s->model.vision_parameters = (uint64_t)json_integer_value(json_object_get(config, "vision_parameters"));
  s->c.has_whole_vision = json_object_get(config, "checkpoint_format") != NULL;
  return true;
}

static void set_hardware(struct subject *s)
{
  const char *profile = find_pair(gpus.pairs, gpus.count, s->point->text[GPU]);
  const double mib = number(s->point, GPU_MIB);
  static struct faults faults;
  hardware_init(&s->hardware);
  if (profile != NULL) {
    const json_t *document = scratch_json_steal(
        json_loads(source_file(scratch_printf("deploy/catalog/profiles/%s.json", profile)), 0, NULL));
    memset(&faults, 0, sizeof faults);
    profile_read(&s->hardware, document, "", &faults);
    ck_assert_msg(faults.count == 0, "%s: %s %s", profile, faults.items[0].pointer, faults.items[0].detail);
  }
  s->has_total = profile != NULL || !isnan(mib);
  s->total_is_printed = !isnan(mib);
  if (!isnan(mib))
    s->hardware.memory_engine_mib = mib;
  if (!s->has_total)
    s->hardware.memory_engine_mib = 24 * KIB; /* decides nothing but the version's small defaults */
}

static enum precision dtype_of(const struct point *point)
{
  if (says(point, DTYPE, "float32"))
    return PRECISION_FP32;
  return says(point, DTYPE, "bfloat16") ? PRECISION_BF16 : PRECISION_FP16;
}

/* The table's quantisation as a format and its bytes a weight (0: the format's own). */
static enum precision format_of(const struct point *point, double *bytes)
{
  static const struct {
    const char *word;
    enum precision format;
    double bytes;
  } formats[] = {{"fp8", PRECISION_FP8, 0},
                 {"w8a8", PRECISION_INT8, 0},
                 {"nvfp4", PRECISION_NVFP4, 0},
                 {"mxfp4", PRECISION_MXFP4, 0},
                 {"awq", PRECISION_INT4, 0.5 + 2.5 / 128},
                 {"w4", PRECISION_INT4, 0.5 + 2.0 / 128},
                 {"int4", PRECISION_INT4, 0.5 + 2.0 / 128},
                 {"gptq", PRECISION_INT4, 0.5 + 2.0 / 128},
                 {"nf4", PRECISION_NF4, 0.5 + 1.0 / 64},
                 {"q4_0", PRECISION_INT4, 0.5 + 2.0 / 32}};
  for (size_t i = 0; i < COUNT(formats); i++)
    if (says(point, QUANTIZATION, formats[i].word)) {
      *bytes = formats[i].bytes;
      return formats[i].format;
    }
  return PRECISION_NONE;
}

/* A config that is quantised in the row's format keeps what it leaves alone. */
static void set_precision(struct subject *s)
{
  struct model_precision *p = &s->model.precision;
  const enum precision base = dtype_of(s->point);
  double bytes = 0;
  const enum precision format = format_of(s->point, &bytes);
  const bool is_own = format != PRECISION_NONE && (p->experts == format || p->dense == format);
  p->embeddings = p->head = base;
  if (!is_own) {
    p->attention = p->dense = p->experts = format != PRECISION_NONE ? format : base;
    p->scale_block_outputs = format != PRECISION_NONE ? 1 : 0;
    p->scale_block_inputs = 0;
    p->quantised_weight_bytes = bytes;
    if (is_engine(s->point, "llama.cpp")) /* its files quantise the head too */
      p->head = p->dense;
  }
  p->kv_cache = says(s->point, KV_DTYPE, "fp8") ? PRECISION_FP8 : base == PRECISION_FP32 ? base : PRECISION_BF16;
  s->precision = *p;
}

static bool is_first_engine(const struct point *point)
{
  unsigned minor = 0;
  const char *version = point->text[VERSION];
  if (strncmp(version, "0.", 2) == 0)
    minor = (unsigned)strtoul(version + 2, NULL, 10);
  return is_engine(point, "vllm") && version[0] != '\0' && !says(point, NOTE, "V1 engine") &&
         strstr(version, "0.2x") == NULL && (minor < 8 || says(point, NOTE, "V0"));
}

/* Versions as preset_resolve takes them; the first engine of 0.8 to 0.10 is that of 0.7. */
static void set_version(char version[32], const struct point *point)
{
  const char *given = point->text[VERSION];
  char *x;
  (void)snprintf(version, 32, "%s", given[0] == 'b' ? "" : given);
  if (says(point, NOTE, "V1 engine") && strncmp(given, "0.7", 3) == 0)
    (void)snprintf(version, 32, "0.8");
  if (is_first_engine(point) && strtoul(given + 2, NULL, 10) >= 8)
    (void)snprintf(version, 32, "0.7");
  x = strchr(version, 'x'); /* "0.6.x" is a late 0.6, "0.2x" at least 0.20 */
  if (x != NULL)
    *x = x[-1] == '.' ? '9' : '0';
}

/* The first engine profiles the whole context unless that is long enough for chunked prefill. */
static void set_first_engine_tokens(struct subject *s, struct workload_serving *serving)
{
  const double context = number(s->point, CONTEXT);
  const bool is_chunked = context > 32768;
  serving->chunked_prefill = is_chunked;
  if (serving->max_batched_tokens != 0)
    return;
  serving->max_batched_tokens = is_chunked ? 2048 : (unsigned)fmax(2048, isnan(context) ? 0 : context);
  s->has_limits = serving->max_batch != 0 && !isnan(context);
}

/* The batch limit that the note tells: it follows from the printed activation, or is the largest batch whose graph the
   first engine captures. 0: it tells none. */
static unsigned noted_sequences(const struct point *point)
{
  static const char *const phrases[] = {"activation fits max_num_seqs ", "capture sizes 1,", "capture up to "};
  for (size_t i = 0; i < COUNT(phrases); i++) {
    const char *at = strcasestr(point->text[NOTE], phrases[i]);
    if (at != NULL)
      return (unsigned)strtoul(at + strlen(phrases[i]), NULL, 10);
  }
  return 0;
}

static void set_preset(struct subject *s)
{
  const struct point *p = s->point;
  const char *block = strcasestr(p->text[NOTE], "block size ");
  struct workload workload;
  struct workload_serving *serving = &workload.serving;
  struct error e;
  workload_init(&workload);
  (void)snprintf(serving->runtime, sizeof serving->runtime, "%s", p->text[ENGINE]);
  set_version(serving->runtime_version, p);
  serving->max_batch = isnan(number(p, SEQUENCES)) ? 0 : (unsigned)number(p, SEQUENCES);
  serving->max_batched_tokens = isnan(number(p, TOKENS)) ? 0 : (unsigned)number(p, TOKENS);
  serving->memory_fraction_ratio = number(p, UTILISATION);
  s->has_fraction = !isnan(serving->memory_fraction_ratio);
  if (noted_sequences(p) != 0)
    serving->max_batch = noted_sequences(p);
  s->has_limits = serving->max_batch != 0 && serving->max_batched_tokens != 0 && strchr(p->text[VERSION], '-') == NULL;
  if (is_first_engine(p))
    set_first_engine_tokens(s, serving);
  if (block != NULL)
    serving->kv_block_tokens = (unsigned)strtoul(block + strlen("block size "), NULL, 10);
  if (!isnan(metric(p, "block_size")))
    serving->kv_block_tokens = (unsigned)metric(p, "block_size");
  serving->cuda_graphs = says(p, EAGER, "yes") ? 0 : -1;
  ck_assert_msg(preset_resolve(&s->preset, serving, &s->hardware, &e) == ERR_OK, "%s: %s", p->text[POINT], e.message);
  if (says(p, NOTE, "all 36 layers charged")) /* a KV connector switches the manager of windows off */
    s->preset.memory.has_window_groups = false;
}

static void set_layout(struct subject *s)
{
  const double tp = number(s->point, TP), pp = number(s->point, PP);
  s->layout = (struct layout){isnan(tp) ? 1 : (unsigned)tp, isnan(pp) ? 1 : (unsigned)pp, 1, 1};
  if (says(s->point, NOTE, "expert parallel"))
    s->layout.expert_parallel = s->layout.tensor_parallel;
}

/* False without a config for the model. */
static bool subject_of(struct subject *s, const struct point *point)
{
  memset(s, 0, sizeof *s);
  s->point = point;
  if (!set_model(s))
    return false;
  set_hardware(s);
  set_precision(s);
  set_layout(s);
  set_preset(s);
  if (says(point, NOTE, "LoRA")) { /* the engine's defaults */
    s->c.adapter_count = 1;
    s->c.adapter_rank = 16;
  }
  s->is_inferred = says(point, MODEL, "(inferred)") && isnan(metric(point, "weights_gib"));
  s->c.model = &s->model;
  s->c.hardware = &s->hardware;
  s->c.layout = &s->layout;
  s->c.precision = &s->precision;
  s->c.preset = &s->preset;
  s->c.context_tokens = isnan(number(point, CONTEXT)) ? 0 : number(point, CONTEXT);
  return true;
}

#endif
