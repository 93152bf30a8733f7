/* From a row of a table of measurements to a benchmark of core and back to the figure that the row names. */
#include "api/accuracy.h"

#include "api/csv.h"
#include "api/data_sets.h"
#include "api/launch_flags.h"
#include "core/llama_cpp.h"
#include "core/served.h"
#include "core/units.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLAY_BYTES ((size_t)32 << 20) /* for the largest benchmark that is replayed */

const char *accuracy_metric_name(enum accuracy_metric metric)
{
  static const char *const names[ACCURACY_METRIC_COUNT] = {"tpot", "tpot_tail", "ttft",      "ttft_tail",
                                                           "e2e",  "e2e_tail",  "throughput"};
  return names[metric];
}

/* clang-format off */
#define COLUMNS(X)                                                                                                     \
  X(id) X(model) X(hw) X(n_gpus) X(tp) X(pp) X(ep) X(attention_dp) X(weight_precision) X(kv_precision) X(isl) X(osl)    \
  X(length_scale) X(concurrency_or_batch) X(arrival) X(metric) X(value) X(runtime) X(runtime_version) X(date) X(tpot_ms)
/* clang-format on */

struct columns {
#define COLUMN(name) size_t name;
  COLUMNS(COLUMN)
#undef COLUMN
};

static enum err find_columns(struct columns *columns, const struct csv *csv, struct error *e)
{
#define COLUMN(name)                                                                                                   \
  columns->name = csv_column(csv, #name);                                                                              \
  if (columns->name == SIZE_MAX && strcmp(#name, "date") != 0 && strcmp(#name, "tpot_ms") != 0)                        \
    return error_set(e, ERR_INVALID, "", "the table has no column \"%s\"", #name);
  COLUMNS(COLUMN)
#undef COLUMN
  return ERR_OK;
}

static double number(const char *text)
{
  char *end;
  const double value = strtod(text, &end);
  return end != text ? value : (double)NAN;
}

static unsigned count(const char *text)
{
  const double value = number(text);
  return value >= 1 && value < 1e6 ? (unsigned)value : 0;
}

/* The engine's version in the many spellings of public tables: "0.7.3", "~0.6.3 (Nov 2024)", "rocm6.3.1_vllm0.8.3_2025",
   "v0.5.9-rocm700". Year-like ones before 2025 mean an engine of that time. "" = newest. */
static void plain_version(char to[16], const char *text)
{
  const char *vllm = strstr(text, "vllm");
  const char *at = vllm != NULL ? vllm + 4 : text;
  unsigned major, minor, patch = 0;
  char *end;
  to[0] = '\0';
  at += strspn(at, "_~v");
  if (strncmp(text, "2024", 4) == 0 || strcmp(text, "v4.1") == 0) {
    (void)snprintf(to, 16, "0.6");
    return;
  }
  if (*at < '0' || *at > '9')
    return;
  major = (unsigned)strtoul(at, &end, 10);
  if (major > 9 || *end != '.')
    return;
  minor = (unsigned)strtoul(end + 1, &end, 10);
  if (*end == '.')
    patch = (unsigned)strtoul(end + 1, NULL, 10);
  (void)snprintf(to, 16, "%u.%u.%u", major, minor % 1000, patch % 1000);
}

static enum precision precision_of(const char *text)
{
  static const struct {
    const char *text;
    enum precision precision;
  } spellings[] = {{"int4 (w4a16)", PRECISION_INT4}, {"int8 (w8a16)", PRECISION_INT8}, {"int8 (w8a8)", PRECISION_INT8}};
  for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
    if (strcmp(spellings[i].text, text) == 0)
      return spellings[i].precision;
  return precision_parse(text);
}

static bool starts_with(const char *text, const char *prefix)
{
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void read_load(struct benchmark *benchmark, const char *arrival)
{
  benchmark->load = BENCHMARK_CLOSED;
  if (starts_with(arrival, "single"))
    benchmark->load = BENCHMARK_SINGLE;
  else if (starts_with(arrival, "offline"))
    benchmark->load = BENCHMARK_OFFLINE;
  else if (starts_with(arrival, "poisson"))
    benchmark->load = BENCHMARK_POISSON;
  benchmark->requests_per_s = benchmark->load == BENCHMARK_POISSON ? number(arrival + strlen("poisson")) : (double)NAN;
}

/* Nightly builds and runs without a version are as new as their day: SGLang 0.5.10 came with April 2026. */
static void date_version(char version[16], const char *runtime, const char *date)
{
  if (version[0] == '\0' && strcmp(runtime, "sglang") == 0 && date[0] != '\0' && strcmp(date, "2026-04") < 0)
    (void)snprintf(version, 16, "0.5.9");
}

static enum err read_runtime(struct benchmark *benchmark, const struct csv *csv, const struct columns *columns,
                             struct error *e)
{
  struct workload workload;
  char version[16];
  workload_init(&workload);
  (void)snprintf(workload.serving.runtime, sizeof workload.serving.runtime, "%s", csv_field(csv, columns->runtime));
  plain_version(version, csv_field(csv, columns->runtime_version));
  date_version(version, workload.serving.runtime, csv_field(csv, columns->date));
  (void)snprintf(workload.serving.runtime_version, sizeof workload.serving.runtime_version, "%s", version);
  return preset_resolve(&benchmark->preset, &workload.serving, benchmark->hardware, e);
}

static void read_numbers(struct benchmark *benchmark, const struct csv *csv, const struct columns *columns)
{
  const double scale = number(csv_field(csv, columns->length_scale));
  const double known = isnan(scale) ? 1 : scale;
  benchmark->gpus = count(csv_field(csv, columns->n_gpus));
  benchmark->tensor_parallel = count(csv_field(csv, columns->tp));
  benchmark->pipeline_parallel = count(csv_field(csv, columns->pp));
  benchmark->expert_parallel = count(csv_field(csv, columns->ep));
  benchmark->attention_data_parallel = count(csv_field(csv, columns->attention_dp));
  benchmark->input_tokens = known * number(csv_field(csv, columns->isl));
  benchmark->output_tokens = known * number(csv_field(csv, columns->osl));
  benchmark->batch = number(csv_field(csv, columns->concurrency_or_batch));
  benchmark->spread_ratio = known < 1 ? 1 / known - 1 : 0;
  benchmark->tpot_s = MS * number(csv_field(csv, columns->tpot_ms));
  benchmark->requests = (double)NAN;
}

/* The figure of the row in its own unit; NaN where the load does not define it. */
static double figure_of(const struct benchmark_figures *f, const char *metric, const struct benchmark *benchmark)
{
  const double tokens = f->requests_per_s * benchmark->output_tokens;
  const struct {
    const char *name;
    double value;
  } figures[] = {
      {"tpot_ms_mean", f->tpot_mean_s / MS},
      {"tpot_ms_p50", f->tpot_p50_s / MS},
      {"tpot_ms_p90", f->tpot_p90_s / MS},
      {"tpot_ms_p99", f->tpot_p99_s / MS},
      {"itl_ms_mean", f->tpot_mean_s / MS},
      {"itl_ms_p50", f->itl_p50_s / MS},
      {"itl_ms_p90", f->tpot_p90_s / MS},
      {"itl_ms_p99", f->tpot_p99_s / MS},
      {"ttft_ms_mean", f->ttft_mean_s / MS},
      {"ttft_ms_p50", f->ttft_p50_s / MS},
      {"ttft_ms_p90", f->ttft_p90_s / MS},
      {"ttft_ms_p99", f->ttft_p99_s / MS},
      {"e2e_ms_mean", f->e2e_mean_s / MS},
      {"e2e_ms_p50", f->e2e_p50_s / MS},
      {"e2e_ms_p90", f->e2e_p90_s / MS},
      {"e2e_ms_p99", f->e2e_p99_s / MS},
      {"req_s", f->requests_per_s},
      {"output_tok_s", tokens},
      {"output_tok_s_per_gpu", tokens / benchmark->gpus},
      {"total_tok_s", f->requests_per_s * (benchmark->input_tokens + benchmark->output_tokens)},
      {"total_tok_s_per_gpu",
       f->requests_per_s * (benchmark->input_tokens + benchmark->output_tokens) / benchmark->gpus},
  };
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
    if (strcmp(figures[i].name, metric) == 0)
      return figures[i].value;
  return (double)NAN;
}

static bool is_tail(const char *metric)
{
  return strstr(metric, "_p90") != NULL || strstr(metric, "_p95") != NULL || strstr(metric, "_p99") != NULL;
}

static bool metric_of(enum accuracy_metric *out, const char *metric)
{
  if (starts_with(metric, "tpot_") || starts_with(metric, "itl_"))
    *out = is_tail(metric) ? ACCURACY_TPOT_TAIL : ACCURACY_TPOT;
  else if (starts_with(metric, "ttft_"))
    *out = is_tail(metric) ? ACCURACY_TTFT_TAIL : ACCURACY_TTFT;
  else if (starts_with(metric, "e2e_"))
    *out = is_tail(metric) ? ACCURACY_E2E_TAIL : ACCURACY_E2E;
  else if (strstr(metric, "tok_s") != NULL || strcmp(metric, "req_s") == 0)
    *out = ACCURACY_THROUGHPUT;
  else
    return false;
  return true;
}

static void set_band(struct accuracy_row *row, enum band_class class)
{
  row->band_class = class;
  row->has_band = row->metric == ACCURACY_TPOT || row->metric == ACCURACY_TTFT || row->metric == ACCURACY_THROUGHPUT;
  if (row->metric == ACCURACY_TPOT)
    row->band = band_of(class, BAND_TPOT);
  else if (row->metric == ACCURACY_TTFT)
    row->band = band_of(class, BAND_TTFT);
  else
    row->band = band_of(class, BAND_THROUGHPUT);
}

/* llama.cpp rows are single streams: decode_tok_s and prefill_tok_s. */
static enum err predict_llama_cpp(struct accuracy_row *row, const struct benchmark *benchmark, const char *weights,
                                  const char *metric, struct error *e)
{
  const double bytes = strcmp(weights, "q4_k_m") == 0 ? 0.6 : strcmp(weights, "q8_0") == 0 ? 1.06 : 2.0;
  const double context = benchmark->input_tokens + benchmark->output_tokens / 2;
  if (strcmp(metric, "decode_tok_s") == 0)
    row->predicted =
        1 / llama_cpp_token_s(benchmark->model, benchmark->hardware, bytes, isnan(context) ? 512 : context);
  else if (strcmp(metric, "prefill_tok_s") == 0)
    row->predicted = llama_cpp_prefill_tok_s(benchmark->model, benchmark->hardware, bytes, benchmark->gpus);
  else
    return error_set(e, ERR_INVALID, "", "llama.cpp: metric %s is not predicted", metric);
  set_band(row, BAND_OLD_ENGINE);
  return ERR_OK;
}

static const struct step_constants *constants_for(const struct accuracy_constants *constants,
                                                  const struct accuracy_row *row)
{
  for (size_t i = 0; i < constants->fold_count; i++)
    if (strcmp(constants->folds[i].hardware, row->hardware) == 0 && strcmp(constants->folds[i].model, row->model) == 0)
      return &constants->folds[i].constants;
  return constants->all;
}

struct reader {
  const struct catalogue_snapshot *catalogue;
  const struct accuracy_constants *constants;
  accuracy_find_model *find_model;
  void *find_cls;
  struct columns columns;
  struct model model; /* of the last row, kept while the name stands */
  char model_name[129];
  struct arena arena; /* of one replay */
  /* Rows that follow each other are mostly figures of one run. */
  struct benchmark last;
  const struct step_constants *last_constants;
  struct benchmark_figures last_figures;
  enum err last_err; /* ERR_OK: last_figures; else last_refusal */
  struct error last_refusal;
};

static enum err find_model(struct reader *reader, const char *name, struct error *e)
{
  const struct catalogue_model *known;
  bool found = false;
  enum err err;
  if (strcmp(reader->model_name, name) == 0)
    return ERR_OK;
  reader->model_name[0] = '\0';
  if (reader->find_model != NULL &&
      (err = reader->find_model(&reader->model, &found, name, reader->find_cls, e)) != ERR_OK)
    return err;
  if (!found) {
    known = catalogue_find_model(reader->catalogue, name);
    if (known == NULL)
      return error_set(e, ERR_INVALID, "", "unknown model \"%s\"", name);
    reader->model = known->model;
  }
  (void)snprintf(reader->model_name, sizeof reader->model_name, "%s", name);
  return ERR_OK;
}

/* Checkpoints quantised for TensorRT-LLM to 8 or 4 bits carry an fp8 KV cache (kv_cache_quant_algo of their ModelOpt files),
   and public vLLM runs of quantised models on Blackwell keep one: with 16 bits their users would queue, and they did not.
   Elsewhere a blank means the format of the model. */
static enum precision kv_cache_of(const struct csv *csv, const struct columns *columns, enum precision weights)
{
  const char *stated = csv_field(csv, columns->kv_precision);
  const bool is_trt = strcmp(csv_field(csv, columns->runtime), "tensorrt-llm") == 0;
  const char *hardware = csv_field(csv, columns->hw);
  const bool is_blackwell =
      starts_with(hardware, "b200") || starts_with(hardware, "b300") || starts_with(hardware, "gb");
  const bool is_vllm = strcmp(csv_field(csv, columns->runtime), "vllm") == 0;
  if (stated[0] == '\0' && is_trt && (weights == PRECISION_FP8 || weights == PRECISION_NVFP4))
    return PRECISION_FP8;
  if (stated[0] == '\0' && is_vllm && is_blackwell && precision_weight_bytes(weights) < 2)
    return PRECISION_FP8;
  return precision_parse(stated);
}

static enum err read_benchmark(struct benchmark *benchmark, struct reader *reader, const struct csv *csv,
                               struct error *e)
{
  const struct columns *columns = &reader->columns;
  const struct catalogue_profile *profile = catalogue_find_profile(reader->catalogue, csv_field(csv, columns->hw));
  const char *weights = csv_field(csv, columns->weight_precision);
  const bool is_llama_cpp = strcmp(csv_field(csv, columns->runtime), "llama.cpp") == 0;
  enum precision precision;
  enum err err;
  memset(benchmark, 0, sizeof *benchmark);
  if (profile == NULL)
    return error_set(e, ERR_INVALID, "", "unknown hardware \"%s\"", csv_field(csv, columns->hw));
  if ((err = find_model(reader, csv_field(csv, columns->model), e)) != ERR_OK)
    return err;
  benchmark->hardware = &profile->hardware;
  benchmark->model = &reader->model;
  read_numbers(benchmark, csv, columns);
  read_load(benchmark, csv_field(csv, columns->arrival));
  if (is_llama_cpp)
    return ERR_OK;
  precision = precision_of(weights);
  if (precision == PRECISION_NONE)
    return error_set(e, ERR_INVALID, "", "unknown weight precision \"%s\"", weights);
  benchmark->precision = served_precision(benchmark->model, precision, kv_cache_of(csv, columns, precision));
  return read_runtime(benchmark, csv, columns, e);
}

/* Latencies of a stated batch: the batch runs alone from start to end. */
static bool metric_is_latency(const char *metric)
{
  return strstr(metric, "_ms_") != NULL;
}

static void read_launch_flags(struct benchmark *benchmark, const struct csv *csv, const struct columns *columns)
{
  const struct launch_run run = {.runtime = csv_field(csv, columns->runtime),
                                 .model = csv_field(csv, columns->model),
                                 .hardware = csv_field(csv, columns->hw),
                                 .weight_precision = csv_field(csv, columns->weight_precision),
                                 .date = csv_field(csv, columns->date),
                                 .nominal_input_tokens = number(csv_field(csv, columns->isl)),
                                 .nominal_output_tokens = number(csv_field(csv, columns->osl))};
  if (run.nominal_input_tokens > 0)
    launch_flags_apply(benchmark, &run);
}

static void read_settings(struct benchmark *benchmark, const struct csv *csv, const struct columns *columns)
{
  const char *runtime = csv_field(csv, columns->runtime);
  const char *version = csv_field(csv, columns->runtime_version);
  const bool is_mlperf =
      starts_with(version, "TensorRT") || strcmp(version, "v5.1") == 0 || strcmp(version, "v4.1") == 0;
  if (!is_mlperf)
    read_launch_flags(benchmark, csv, columns);
  data_sets_apply(benchmark, is_mlperf);
  benchmark->input_tokens = fmax(1, benchmark->input_tokens);
  benchmark->output_tokens = fmax(1, benchmark->output_tokens);
  if (is_mlperf) { /* a C++ harness in the engine's process */
    benchmark->preset.server_constant_s = 5 * MS;
    benchmark->preset.has_compiled_prefill = true;
    if (strcmp(runtime, "tensorrt-llm") == 0)
      benchmark->preset.kv_reserve_output_ratio = 0.6; /* batch_scheduler_policy max_util in their configs */
  }
  benchmark->is_static_batch = starts_with(runtime, "splitwise") || strstr(version, "benchmark_latency") != NULL ||
                               (benchmark->load == BENCHMARK_OFFLINE && !isnan(benchmark->batch) &&
                                metric_is_latency(csv_field(csv, columns->metric)));
}

static bool metric_is_percentile(const char *metric)
{
  return strstr(metric, "_ms_p") != NULL && strcmp(metric, "tpot_ms_p50") != 0 && strcmp(metric, "itl_ms_p50") != 0;
}

/* Figures of the run before serve again, with percentiles where none are asked for. */
static bool is_last_run(const struct reader *reader, const struct benchmark *benchmark,
                        const struct step_constants *constants)
{
  struct benchmark same = *benchmark;
  same.has_percentiles = benchmark->has_percentiles || reader->last.has_percentiles;
  return reader->last_constants == constants && memcmp(&reader->last, &same, sizeof same) == 0;
}

static enum err predict(struct benchmark_figures *out, struct reader *reader, const struct benchmark *benchmark,
                        const struct step_constants *constants, struct error *e)
{
  if (!is_last_run(reader, benchmark, constants)) {
    reader->last = *benchmark;
    reader->last_constants = constants;
    reader->last_err =
        benchmark_predict(&reader->last_figures, benchmark, constants, &reader->arena, &reader->last_refusal);
  }
  *out = reader->last_figures;
  if (reader->last_err != ERR_OK)
    *e = reader->last_refusal;
  return reader->last_err;
}

/* One row; ERR_INVALID = refused with that reason. */
static enum err predict_row(struct accuracy_row *row, struct reader *reader, const struct csv *csv, struct error *e)
{
  const struct columns *columns = &reader->columns;
  const char *metric = csv_field(csv, columns->metric);
  struct benchmark benchmark;
  struct benchmark_figures figures;
  enum err err;
  (void)snprintf(row->hardware, sizeof row->hardware, "%s", csv_field(csv, columns->hw));
  (void)snprintf(row->model, sizeof row->model, "%s", csv_field(csv, columns->model));
  row->measured = number(csv_field(csv, columns->value));
  if (!(row->measured > 0))
    return error_set(e, ERR_INVALID, "", "value \"%s\" is not a positive number", csv_field(csv, columns->value));
  if (!metric_of(&row->metric, metric))
    return error_set(e, ERR_INVALID, "", "unknown metric \"%s\"", metric);
  if ((err = read_benchmark(&benchmark, reader, csv, e)) != ERR_OK)
    return err;
  if (benchmark.gpus == 0)
    return error_set(e, ERR_INVALID, "", "n_gpus \"%s\" is not a count", csv_field(csv, columns->n_gpus));
  row->load = benchmark.load;
  row->is_offered_rate = benchmark.load == BENCHMARK_POISSON && row->metric == ACCURACY_THROUGHPUT;
  if (strcmp(csv_field(csv, columns->runtime), "llama.cpp") == 0)
    return predict_llama_cpp(row, &benchmark, csv_field(csv, columns->weight_precision), metric, e);
  read_settings(&benchmark, csv, columns);
  benchmark.has_percentiles = metric_is_percentile(metric);
  if ((err = predict(&figures, reader, &benchmark, constants_for(reader->constants, row), e)) != ERR_OK)
    return err;
  row->predicted = figure_of(&figures, metric, &benchmark);
  if (!(row->predicted > 0) || !isfinite(row->predicted))
    return error_set(e, ERR_INVALID, "", "metric %s is not predicted for this load", metric);
  set_band(row, figures.band_class);
  return ERR_OK;
}

static enum err grow(void **items, size_t count_now, size_t size, struct error *e)
{
  void *larger;
  if ((count_now & (count_now - 1)) != 0) /* room until the next power of two */
    return ERR_OK;
  larger = realloc(*items, (count_now == 0 ? 1 : 2 * count_now) * size);
  if (larger == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the table's rows");
  *items = larger;
  return ERR_OK;
}

static enum err add_row(struct accuracy *out, struct reader *reader, const struct csv *csv, struct error *e)
{
  struct error refusal = {ERR_OK, "", ""};
  struct accuracy_row row;
  void *items;
  enum err err;
  memset(&row, 0, sizeof row);
  (void)snprintf(row.id, sizeof row.id, "%s", csv_field(csv, reader->columns.id));
  out->total++;
  if (predict_row(&row, reader, csv, &refusal) == ERR_OK) {
    items = out->rows;
    if ((err = grow(&items, out->row_count, sizeof row, e)) != ERR_OK)
      return err;
    out->rows = items;
    out->rows[out->row_count++] = row;
    return ERR_OK;
  }
  items = out->refusals;
  if ((err = grow(&items, out->refusal_count, sizeof *out->refusals, e)) != ERR_OK)
    return err;
  out->refusals = items;
  (void)snprintf(out->refusals[out->refusal_count].id, sizeof out->refusals[0].id, "%s", row.id);
  (void)snprintf(out->refusals[out->refusal_count].reason, sizeof out->refusals[0].reason, "%s", refusal.message);
  out->refusal_count++;
  return ERR_OK;
}

enum err accuracy_run(struct accuracy *out, const char *text, size_t length, const struct catalogue_snapshot *catalogue,
                      const struct accuracy_constants *constants, accuracy_find_model *lookup, void *lookup_cls,
                      struct error *e)
{
  struct reader *reader = calloc(1, sizeof *reader);
  void *memory = malloc(REPLAY_BYTES);
  struct error problem = {ERR_OK, "", ""};
  struct csv csv;
  enum err err = ERR_OK;
  memset(out, 0, sizeof *out);
  if (reader == NULL || memory == NULL) {
    free(reader);
    free(memory);
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the table");
  }
  arena_init(&reader->arena, memory, REPLAY_BYTES);
  reader->catalogue = catalogue;
  reader->constants = constants;
  reader->find_model = lookup;
  reader->find_cls = lookup_cls;
  csv_init(&csv, text, length);
  if (!csv_next(&csv, &problem))
    err = error_set(e, ERR_INVALID, "", "%s", problem.code != ERR_OK ? problem.message : "the table is empty");
  else
    err = find_columns(&reader->columns, &csv, e);
  while (err == ERR_OK && csv_next(&csv, &problem))
    err = add_row(out, reader, &csv, e);
  if (err == ERR_OK && problem.code != ERR_OK)
    err = error_set(e, problem.code, "", "%s", problem.message);
  csv_fini(&csv);
  free(memory);
  free(reader);
  if (err != ERR_OK)
    accuracy_fini(out);
  return err;
}

void accuracy_fini(struct accuracy *accuracy)
{
  free(accuracy->rows);
  free(accuracy->refusals);
  memset(accuracy, 0, sizeof *accuracy);
}
