/* Measured figures by path. */
#include "api/measurement.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/read.h"
#include "core/units.h"

static const struct store_figure *figure_of(const char *path)
{
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++)
    if (strcmp(store_figures[i].path, path) == 0)
      return &store_figures[i];
  return NULL;
}

static const char *nearest_path(const char *path)
{
  const char *words[STORE_FIGURE_COUNT + 1] = {NULL};
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++)
    words[i] = store_figures[i].path;
  return read_nearest(path, words);
}

/* Fractions are 0..1, as everywhere. */
static double largest(const struct store_figure *figure)
{
  return strcmp(figure->path, "success.rate") == 0 || strcmp(figure->path, "memory.headroom") == 0 ? 1 : 1e15;
}

static void check_not_above(const json_t *measured, const char *pointer, const char *lower, const char *upper,
                            struct faults *faults)
{
  const json_t *low = json_object_get(measured, lower), *high = json_object_get(measured, upper);
  char at[160];
  if (!json_is_number(low) || !json_is_number(high) || json_number_value(low) <= json_number_value(high))
    return;
  read_pointer(at, sizeof at, pointer, upper);
  faults_add(faults, FAULT_CONFLICT, at, NULL, "is %.6g, below %s, %.6g", json_number_value(high), lower,
             json_number_value(low));
}

void measured_check_order(const json_t *measured, const char *pointer, struct faults *faults)
{
  static const char *const metrics[] = {"ttft_ms", "itl_ms", "e2e_ms", "queue_ms"};
  static const char *const percentiles[] = {"p50", "p90", "p99"};
  char lower[64], upper[64];
  for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
    for (size_t low = 0; low < 3; low++)
      for (size_t high = low + 1; high < 3; high++) {
        (void)snprintf(lower, sizeof lower, "latency.%s.%s", metrics[i], percentiles[low]);
        (void)snprintf(upper, sizeof upper, "latency.%s.%s", metrics[i], percentiles[high]);
        check_not_above(measured, pointer, lower, upper, faults);
      }
  for (size_t k = 0; k < 3; k++) { /* every request has its first token before its last */
    (void)snprintf(lower, sizeof lower, "latency.ttft_ms.%s", percentiles[k]);
    (void)snprintf(upper, sizeof upper, "latency.e2e_ms.%s", percentiles[k]);
    check_not_above(measured, pointer, lower, upper, faults);
  }
}

void measured_read(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct measured *measured = to;
  json_t *figure;
  const char *path;
  char at[160], excerpt[READ_EXCERPT_SIZE];
  measured->count = 0;
  if (!json_is_object(value) || json_object_size(value) == 0) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; an object of figures by their dotted path is expected, as {\"latency.tpot_ms.mean\": 21.5}",
               json_is_object(value) ? "empty" : read_type_name(value));
    return;
  }
  json_object_foreach(read_iterable(value), path, figure)
  {
    const struct store_figure *known = figure_of(path);
    double number = 0;
    const struct read_field field = {
        .kind = READ_NUMBER, .to = &number, .min = 1e-12, .max = known != NULL ? largest(known) : 0};
    read_pointer(at, sizeof at, pointer, path);
    if (known == NULL)
      faults_add(faults, FAULT_UNKNOWN_FIELD, at, nearest_path(path), "\"%s\" is no figure that is measured",
                 read_excerpt(excerpt, path));
    else
      read_value(figure, at, &field, faults);
    if (known != NULL && measured->count < MEASURED_MAX)
      measured->figures[measured->count++] = (struct store_measured){known->path, number, STORE_FIGURE_ABSENT};
  }
  measured_check_order(value, pointer, faults);
}

bool measured_predict(double *value, enum band_metric *metric, const struct scorecard *card, const char *path)
{
  static const struct {
    const char *path;
    enum band_metric metric;
    size_t member; /* of struct scorecard */
    double unit;   /* wire units are this many of the core's */
  } known[] = {
#define AT(member) offsetof(struct scorecard, member)
      {"latency.tpot_ms.mean", BAND_TPOT, AT(latency.tpot_mean_s), MS},
      {"latency.itl_ms.p50", BAND_TPOT, AT(latency.itl_s.p50), MS},
      {"latency.ttft_ms.p50", BAND_TTFT, AT(latency.ttft_s.p50), MS},
      {"latency.e2e_ms.p50", BAND_THROUGHPUT, AT(latency.e2e_s.p50), MS},
      {"throughput.output_tokens_per_s", BAND_THROUGHPUT, AT(throughput.output_tok_s), 1},
      {"throughput.output_tokens_per_s_per_gpu", BAND_THROUGHPUT, AT(throughput.output_tok_s_per_gpu), 1},
      {"throughput.output_tokens_per_s_per_user", BAND_TPOT, AT(throughput.output_tok_s_per_user), 1},
      {"throughput.requests_per_s", BAND_THROUGHPUT, AT(throughput.requests_per_s), 1},
#undef AT
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(known[i].path, path) == 0) {
      memcpy(value, (const char *)card + known[i].member, sizeof *value);
      *value /= known[i].unit;
      *metric = known[i].metric;
      return true;
    }
  return false;
}
