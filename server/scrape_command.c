/* fitd scrape: what fitd sees at an exporter, or in a page kept in a file: devices, engines, and what was left out. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "server/commands.h"
#include "server/fetch.h"

#define PAGE_MAX_BYTES ((size_t)64 << 20)
#define TIMEOUT_MS 30000
#define JSON_FLAGS (JSON_INDENT(2) | JSON_REAL_PRECISION(15))

/* ---- JSON ---- */

static json_t *number(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *quantities_json(const double *values, const struct quantity *quantities, size_t count)
{
  json_t *object = json_object();
  for (size_t q = 0; q < count; q++)
    (void)json_object_set_new(object, quantities[q].name, number(values[q]));
  return object;
}

static json_t *gpus_json(const struct observation *seen)
{
  json_t *gpus = json_array();
  for (size_t i = 0; i < seen->gpu_count; i++) {
    const struct observed_gpu *gpu = &seen->gpus[i];
    (void)json_array_append_new(gpus, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "gpu", gpu->id, "uuid",
                                                gpu->uuid, "pci_bus_id", gpu->bus, "model", gpu->model, "driver",
                                                gpu->driver, "partition", gpu->partition, "quantities",
                                                quantities_json(gpu->quantities, gpu_quantities, GPU_QUANTITIES)));
  }
  return gpus;
}

static json_t *histogram_json(const struct buckets *buckets)
{
  static const double quantiles[] = {0.5, 0.9, 0.99};
  static const char *const names[] = {"p50", "p90", "p99"};
  json_t *object;
  if (buckets->count == 0)
    return json_null();
  object = json_pack("{s:f, s:o}", "count", buckets_total(buckets), "mean", number(buckets_mean(buckets)));
  for (size_t i = 0; i < 3; i++) {
    const struct bucket_bounds bounds = buckets_quantile(buckets, quantiles[i]);
    (void)json_object_set_new(object, names[i],
                              json_pack("{s:o, s:o}", "above", number(bounds.lower), "at_most", number(bounds.upper)));
  }
  return object;
}

static json_t *engine_json(const struct observed_engine *engine)
{
  json_t *histograms;
  if (!engine->is_seen)
    return json_null();
  histograms = json_object();
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++)
    (void)json_object_set_new(histograms, engine_histogram_names[h], histogram_json(&engine->histograms[h]));
  return json_pack("{s:s, s:o, s:o}", "model", engine->model, "quantities",
                   quantities_json(engine->quantities, engine_quantities, ENGINE_QUANTITIES), "histograms", histograms);
}

static json_t *notes_json(const struct reading *reading)
{
  const struct reading_note *notes;
  const size_t count = reading_notes(&notes, reading);
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    (void)json_array_append_new(array,
                                json_pack("{s:o, s:s}", "line",
                                          notes[i].line > 0 ? json_integer((json_int_t)notes[i].line) : json_null(),
                                          "reason", notes[i].text));
  return array;
}

static int print_json(const struct observation *seen, const struct reading *reading)
{
  json_t *document = json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "exporters", seen->exporters, "samples",
                               (json_int_t)seen->sample_count, "samples_recognised", (json_int_t)seen->recognised_count,
                               "lines_skipped", (json_int_t)seen->skipped_count, "values_out_of_range",
                               (json_int_t)seen->out_of_range_count, "gpus", gpus_json(seen), "engine",
                               engine_json(&seen->engine), "notes", notes_json(reading));
  char *text = document != NULL ? json_dumps(document, JSON_FLAGS) : NULL;
  json_decref(document);
  if (text == NULL) {
    (void)fputs("fitd: not enough memory\n", stderr);
    return EXIT_STATUS_FAILED;
  }
  (void)puts(text);
  free(text);
  return commands_end_output(EXIT_STATUS_OK, EXIT_STATUS_FAILED);
}

/* ---- Text ---- */

static void print_quantities(const double *values, const struct quantity *quantities, size_t count)
{
  for (size_t q = 0; q < count; q++)
    if (!isnan(values[q]))
      (void)printf("  %-24s %.10g\n", quantities[q].name, values[q]);
}

static void print_reasons(double reasons)
{
  if (isnan(reasons))
    return;
  (void)printf("  %-24s", "held down by");
  for (size_t bit = 0; bit < 9; bit++)
    if (((uint64_t)reasons >> bit & 1) != 0)
      (void)printf(" %s", throttle_names[bit]);
  (void)puts(reasons > 0 ? "" : " nothing");
}

static void print_gpu(const struct observed_gpu *gpu)
{
  (void)printf("\nGPU %s%s%s%s%s%s%s\n", gpu->id, gpu->model[0] != '\0' ? "  " : "", gpu->model,
               gpu->partition[0] != '\0' ? "  part " : "", gpu->partition, gpu->uuid[0] != '\0' ? "  " : "", gpu->uuid);
  print_quantities(gpu->quantities, gpu_quantities, GPU_QUANTITIES);
  print_reasons(gpu->quantities[GPU_throttle_reasons]);
}

static void print_bounds(const char *name, struct bucket_bounds bounds)
{
  if (isinf(bounds.upper))
    (void)printf("  %s > %.6g", name, bounds.lower);
  else
    (void)printf("  %s %.6g..%.6g", name, bounds.lower, bounds.upper);
}

static void print_engine(const struct observed_engine *engine)
{
  (void)printf("\nengine  %s\n", engine->model);
  print_quantities(engine->quantities, engine_quantities, ENGINE_QUANTITIES);
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++) {
    const struct buckets *buckets = &engine->histograms[h];
    if (!(buckets_total(buckets) > 0))
      continue;
    (void)printf("  %-24s %.0f requests, mean %.6g", engine_histogram_names[h], buckets_total(buckets),
                 buckets_mean(buckets));
    print_bounds("p50", buckets_quantile(buckets, 0.5));
    print_bounds("p99", buckets_quantile(buckets, 0.99));
    (void)puts("");
  }
}

static void print_notes(const struct reading *reading)
{
  const struct reading_note *notes;
  const size_t count = reading_notes(&notes, reading);
  if (count > 0)
    (void)puts("\nleft out");
  for (size_t i = 0; i < count; i++)
    if (notes[i].line > 0)
      (void)printf("  line %llu: %s\n", (unsigned long long)notes[i].line, notes[i].text);
    else
      (void)printf("  %s\n", notes[i].text);
}

static int print_text(const struct observation *seen, const struct reading *reading)
{
  (void)printf("%llu samples, %llu of them known%s%s; %llu lines left out, %llu values outside their bounds\n",
               (unsigned long long)seen->sample_count, (unsigned long long)seen->recognised_count,
               seen->exporters[0] != '\0' ? " from " : "", seen->exporters, (unsigned long long)seen->skipped_count,
               (unsigned long long)seen->out_of_range_count);
  for (size_t i = 0; i < seen->gpu_count; i++)
    print_gpu(&seen->gpus[i]);
  if (seen->engine.is_seen)
    print_engine(&seen->engine);
  print_notes(reading);
  return commands_end_output(EXIT_STATUS_OK, EXIT_STATUS_FAILED);
}

static int print(const struct observation *seen, const struct reading *reading, bool is_json)
{
  return is_json ? print_json(seen, reading) : print_text(seen, reading);
}

/* ---- Where the page comes from ---- */

static int complain(const char *source, const char *sentence)
{
  (void)fprintf(stderr, "fitd: %s: %s\n", source, sentence);
  return EXIT_STATUS_FAILED;
}

/* The file as text, through gzip where it is. NULL after a complaint. */
static char *read_page(const char *path, size_t *length)
{
  gzFile file = strcmp(path, "-") == 0 ? gzdopen(0, "rb") : gzopen(path, "rb");
  char *bytes = malloc(PAGE_MAX_BYTES + 1);
  int count = -1;
  if (file != NULL && bytes != NULL)
    count = gzread(file, bytes, (unsigned)(PAGE_MAX_BYTES + 1));
  if (count < 0)
    (void)complain(path, "can not be read");
  else if ((size_t)count > PAGE_MAX_BYTES)
    (void)complain(path, "is larger than a page may be");
  if (file != NULL)
    (void)gzclose(file);
  *length = count > 0 ? (size_t)count : 0;
  if (count >= 0 && (size_t)count <= PAGE_MAX_BYTES)
    return bytes;
  free(bytes);
  return NULL;
}

/* Without a Content-Type the end tells: only OpenMetrics must have it. */
static enum exposition_format format_of(const char *bytes, size_t length)
{
  static const char end[] = "# EOF";
  while (length > 0 && bytes[length - 1] == '\n')
    length--;
  return length >= sizeof end - 1 && memcmp(bytes + length - (sizeof end - 1), end, sizeof end - 1) == 0
             ? EXPOSITION_OPENMETRICS
             : EXPOSITION_TEXT;
}

static enum err parse_page(const struct observation **seen, struct reading *reading, const char *bytes, size_t length,
                           struct error *e)
{
  struct exposition parser;
  enum err code =
      exposition_init(&parser, format_of(bytes, length), EXPOSITION_LIMITS_DEFAULT, reading_sink(reading), e);
  if (code == ERR_OK)
    code = exposition_feed(&parser, bytes, length, e);
  if (code == ERR_OK)
    code = exposition_finish(&parser, e);
  exposition_fini(&parser);
  return code == ERR_OK ? reading_finish(seen, reading, e) : code;
}

static int scrape_file(const char *path, const struct exporters *exporters, bool is_json)
{
  size_t length;
  char *bytes = read_page(path, &length);
  struct reading *reading = NULL;
  const struct observation *seen;
  struct error e;
  int status;
  if (bytes == NULL)
    return EXIT_STATUS_FAILED;
  if (reading_new(&reading, exporters, 0, &e) != ERR_OK || parse_page(&seen, reading, bytes, length, &e) != ERR_OK)
    status = complain(path, e.message);
  else
    status = print(seen, reading, is_json);
  reading_free(reading);
  free(bytes);
  return status;
}

/* Whoever types a URL chooses the host: no list of networks stands between. */
static int scrape_url(const char *url, const struct exporters *exporters, bool is_json)
{
  const struct fetch_options options = {exporters, NULL, PAGE_MAX_BYTES};
  struct api_target target = {.timeout_ms = TIMEOUT_MS};
  struct fetch *fetch = NULL;
  const struct observation *seen;
  const char *failure;
  struct error e;
  int status;
  if (strlen(url) >= sizeof target.url)
    return complain(url, "is too long");
  memcpy(target.url, url, strlen(url) + 1);
  if (fetch_new(&fetch, &target, &options, &e) != ERR_OK)
    return complain(url, e.message);
  if (fetch_result(&seen, &failure, fetch, curl_easy_perform(fetch_easy(fetch))))
    status = print(seen, fetch_reading(fetch), is_json);
  else
    status = complain(url, failure);
  fetch_free(fetch);
  return status;
}

int command_scrape(int argc, char *const *argv)
{
  const char *source = NULL;
  struct exporters *exporters;
  struct error e;
  bool is_json = false;
  int status;
  const struct command_word words[] = {{.value = &source}, {.name = "--json", .flag = &is_json}};
  for (int i = 0; i < argc; i++)
    if (!commands_take_word(words, sizeof words / sizeof words[0], argc, argv, &i))
      return commands_refuse_word(argv[i]);
  if (source == NULL) {
    (void)fputs("fitd: usage: fitd scrape URL|FILE [--json]\n", stderr);
    return EXIT_STATUS_INVALID;
  }
  if (exporters_open(&exporters, &e) != ERR_OK)
    return complain(source, e.message);
  status = strncmp(source, "http://", 7) == 0 || strncmp(source, "https://", 8) == 0
               ? scrape_url(source, exporters, is_json)
               : scrape_file(source, exporters, is_json);
  exporters_close(exporters);
  return status;
}
