/* The traffic block of a sketch: token lengths, and one of three kinds of load. */
#include "api/sketch_parts.h"

#include <math.h>

#include "api/read.h"
#include "core/workload.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static bool has(const json_t *object, const char *key)
{
  return json_object_get(object, key) != NULL;
}

static void read_fixed(struct length *length, const json_t *value, const char *pointer, struct faults *faults)
{
  unsigned tokens = 0;
  const struct read_field field = {.kind = READ_COUNT, .to = &tokens, .min = 1, .max = SKETCH_TOKENS_MAX};
  read_value(value, pointer, &field, faults);
  length->kind = LENGTH_FIXED;
  if (tokens != 0)
    length->fixed_tokens = tokens;
}

static void read_distribution(struct length *length, const json_t *value, const char *pointer, struct faults *faults)
{
  const struct read_field fields[] = {
      {.name = "p50", .kind = READ_NUMBER, .to = &length->p50_tokens, .min = 1, .max = SKETCH_TOKENS_MAX},
      {.name = "p99", .kind = READ_NUMBER, .to = &length->p99_tokens, .min = 1, .max = SKETCH_TOKENS_MAX},
      {.name = "mean", .kind = READ_NUMBER, .to = &length->mean_tokens, .min = 1, .max = SKETCH_TOKENS_MAX},
      {.name = "cv", .kind = READ_NUMBER, .to = &length->cv_ratio, .min = 0, .max = 100},
  };
  const bool has_quantiles = has(value, "p50") || has(value, "p99");
  const bool has_moments = has(value, "mean") || has(value, "cv");
  length->kind = has_moments && !has_quantiles ? LENGTH_MOMENTS : LENGTH_QUANTILES;
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  if (has_quantiles && has_moments) {
    faults_add(faults, FAULT_CONFLICT, pointer, NULL,
               "p50, p99 and mean, cv describe the same lengths twice: give {\"p50\", \"p99\"} or {\"mean\", \"cv\"}");
    length->kind = LENGTH_QUANTILES;
    return;
  }
  for (size_t i = has_moments ? 2 : 0, end = i + 2; i < end; i++)
    if (!has(value, fields[i].name)) {
      char at[160];
      read_pointer(at, sizeof at, pointer, fields[i].name);
      faults_add(faults, FAULT_MISSING, at, NULL, "is required: lengths need %s",
                 has_moments ? "mean and cv" : "p50 and p99");
    }
}

static void read_length(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  if (json_is_number(value))
    read_fixed(to, value, pointer, faults);
  else if (json_is_object(value))
    read_distribution(to, value, pointer, faults);
  else
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; a number of tokens, {\"p50\", \"p99\"} or {\"mean\", \"cv\"} is expected",
               read_type_name(value));
  if (((struct length *)to)->kind == LENGTH_ABSENT)
    ((struct length *)to)->kind = LENGTH_FIXED; /* given, though faulty: not to be reported as missing too */
}

static void read_trace(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_traffic *traffic = to;
  const struct read_field fields[] = {
      {.name = "name", .kind = READ_NAME, .is_required = true, .to = traffic->trace, .size = sizeof traffic->trace},
      {.name = "rate_scale", .kind = READ_NUMBER, .to = &traffic->rate_scale, .min = 1e-6, .max = 1e6},
  };
  traffic->rate_scale = 1.0;
  if (json_is_string(value))
    read_value(value, pointer, &fields[0], faults);
  else if (json_is_object(value))
    (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  else
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; the name of a trace or {\"name\", \"rate_scale\"} is expected", read_type_name(value));
}

static void read_burst(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_traffic *traffic = to;
  const struct read_field fields[] = {
      {.name = "peak_to_mean",
       .kind = READ_NUMBER,
       .is_required = true,
       .to = &traffic->burst_peak_to_mean,
       .min = 1,
       .max = 1000},
      {.name = "duration_s",
       .kind = READ_NUMBER,
       .is_required = true,
       .to = &traffic->burst_duration_s,
       .min = 1e-3,
       .max = 86400},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

static void read_hourly_shape(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_traffic *traffic = to;
  const size_t hours = COUNT_OF(traffic->hourly_shape);
  double sum = 0.0;
  if (!json_is_array(value) || json_array_size(value) != hours) {
    faults_add(faults, json_is_array(value) ? FAULT_OUT_OF_RANGE : FAULT_WRONG_TYPE, pointer, NULL,
               "an array of 24 numbers, one an hour, is expected");
    return;
  }
  for (size_t i = 0; i < hours; i++) {
    char at[160];
    const struct read_field field = {.kind = READ_NUMBER, .to = &traffic->hourly_shape[i], .min = 0, .max = 1e9};
    read_pointer_index(at, sizeof at, pointer, i);
    traffic->hourly_shape[i] = (double)NAN;
    read_value(json_array_get(value, i), at, &field, faults);
    sum += traffic->hourly_shape[i];
  }
  traffic->has_hourly_shape = true;
  if (!(sum > 0.0) && !isnan(sum))
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "at least one hour must carry load");
}

static void read_client(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_traffic *traffic = to;
  const struct read_field fields[] = {
      {.name = "timeout_ms",
       .kind = READ_NUMBER,
       .is_required = true,
       .to = &traffic->client_timeout_ms,
       .min = 1,
       .max = SKETCH_MS_MAX},
      {.name = "retries", .kind = READ_COUNT, .to = &traffic->client_retries, .min = 0, .max = 100},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

/* Which of the three kinds of load is given; a second one is a fault at its own pointer. */
static void choose_load(struct workload_traffic *traffic, const json_t *value, const char *pointer,
                        struct faults *faults)
{
  static const char *const names[] = {"requests_per_s", "concurrency", "trace"};
  static const enum load_kind kinds[] = {LOAD_OPEN, LOAD_CLOSED, LOAD_TRACE};
  const char *first = NULL;
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char at[160];
    if (!has(value, names[i]))
      continue;
    if (first == NULL) {
      first = names[i];
      traffic->load = kinds[i];
      continue;
    }
    read_pointer(at, sizeof at, pointer, names[i]);
    faults_add(faults, FAULT_CONFLICT, at, NULL,
               "%s and %s exclude each other: give exactly one of requests_per_s, concurrency, trace", first, names[i]);
  }
}

void sketch_read_traffic(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  static const char *const arrivals[] = {"poisson", "steady", "spiky", NULL}; /* order of enum arrival_kind */
  struct workload_traffic *traffic = to;
  unsigned concurrency = 0, shared_prefix_tokens = 0;
  int arrival = ARRIVAL_POISSON;
  const struct read_field fields[] = {
      {.name = "input_tokens", .kind = READ_CALL, .to = &traffic->input, .call = read_length},
      {.name = "output_tokens", .kind = READ_CALL, .to = &traffic->output, .call = read_length},
      {.name = "requests_per_s", .kind = READ_NUMBER, .to = &traffic->requests_per_s, .min = 1e-9, .max = 1e9},
      {.name = "concurrency", .kind = READ_COUNT, .to = &concurrency, .min = 1, .max = 1e7},
      {.name = "trace", .kind = READ_CALL, .to = traffic, .call = read_trace},
      {.name = "arrival", .kind = READ_WORD, .to = &arrival, .words = arrivals},
      {.name = "burst", .kind = READ_CALL, .to = traffic, .call = read_burst},
      {.name = "shared_prefix_tokens",
       .kind = READ_COUNT,
       .to = &shared_prefix_tokens,
       .min = 0,
       .max = SKETCH_TOKENS_MAX},
      {.name = "hourly_shape", .kind = READ_CALL, .to = traffic, .call = read_hourly_shape},
      {.name = "client", .kind = READ_CALL, .to = traffic, .call = read_client},
      {.name = "sheddable_share", .kind = READ_NUMBER, .to = &traffic->sheddable_share_ratio, .min = 0, .max = 1},
  };
  if (!read_object(value, pointer, fields, COUNT_OF(fields), faults))
    return;
  choose_load(traffic, value, pointer, faults);
  if (concurrency != 0)
    traffic->concurrency = concurrency;
  if (has(value, "shared_prefix_tokens"))
    traffic->shared_prefix_tokens = shared_prefix_tokens;
  traffic->arrival = (enum arrival_kind)arrival;
  traffic->arrival_is_given = has(value, "arrival");
}
