/* What a sketch promises and what it must keep to: targets, success, constraints. */
#include "api/sketch_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/catalogue.h"
#include "api/quality.h"
#include "api/read.h"
#include "core/workload.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define USD_MIN 1e-12
#define USD_MAX 1e12

/* An object that promises nothing is one in which something was forgotten. */
static void refuse_empty(const json_t *value, const char *pointer, const char *members, struct faults *faults)
{
  if (json_object_size(value) == 0)
    faults_add(faults, FAULT_MISSING, pointer, NULL, "is empty; %s is expected", members);
}

static void read_percentiles(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct percentiles *limits = to;
  const struct read_field fields[] = {
      {.name = "p50", .kind = READ_NUMBER, .to = &limits->p50, .min = 1e-3, .max = SKETCH_MS_MAX},
      {.name = "p90", .kind = READ_NUMBER, .to = &limits->p90, .min = 1e-3, .max = SKETCH_MS_MAX},
      {.name = "p99", .kind = READ_NUMBER, .to = &limits->p99, .min = 1e-3, .max = SKETCH_MS_MAX},
  };
  if (read_object(value, pointer, fields, COUNT_OF(fields), faults))
    refuse_empty(value, pointer, "p50, p90 or p99", faults);
}

static void read_mean(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct percentiles *limits = to;
  const struct read_field fields[] = {
      {.name = "mean",
       .kind = READ_NUMBER,
       .is_required = true,
       .to = &limits->mean,
       .min = 1e-3,
       .max = SKETCH_MS_MAX},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

static void read_cost(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_targets *targets = to;
  const struct read_field fields[] = {
      {.name = "per_successful_request_usd",
       .kind = READ_NUMBER,
       .to = &targets->cost_per_successful_request_usd,
       .min = USD_MIN,
       .max = USD_MAX},
      {.name = "per_million_output_tokens_usd",
       .kind = READ_NUMBER,
       .to = &targets->cost_per_million_output_tokens_usd,
       .min = USD_MIN,
       .max = USD_MAX},
      {.name = "monthly_usd", .kind = READ_NUMBER, .to = &targets->cost_monthly_usd, .min = USD_MIN, .max = USD_MAX},
  };
  if (read_object(value, pointer, fields, COUNT_OF(fields), faults))
    refuse_empty(value, pointer, "a limit such as per_successful_request_usd", faults);
}

/* Quality targets change no figure: they are checked here and judged by api/quality.c. */
static void read_quality(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  char benchmark[128], slice[128];
  double least = 0.0;
  const struct read_field fields[] = {
      {.name = "benchmark", .kind = READ_TEXT, .is_required = true, .to = benchmark, .size = sizeof benchmark},
      {.name = "slice", .kind = READ_TEXT, .to = slice, .size = sizeof slice},
      {.name = "min", .kind = READ_NUMBER, .is_required = true, .to = &least, .min = 0, .max = 1},
  };
  (void)to;
  if (!json_is_array(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; an array of quality targets is expected",
               read_type_name(value));
    return;
  }
  if (json_array_size(value) > QUALITY_TARGETS_MAX)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "has %zu entries; at most %d are judged",
               json_array_size(value), QUALITY_TARGETS_MAX);
  for (size_t i = 0; i < json_array_size(value); i++) {
    char at[160];
    read_pointer_index(at, sizeof at, pointer, i);
    (void)read_object(json_array_get(value, i), at, fields, COUNT_OF(fields), faults);
  }
}

void sketch_read_targets(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_targets *targets = to;
  unsigned context_tokens = 0;
  const struct read_field fields[] = {
      {.name = "ttft_ms", .kind = READ_CALL, .to = &targets->ttft_ms, .call = read_percentiles},
      {.name = "itl_ms", .kind = READ_CALL, .to = &targets->itl_ms, .call = read_percentiles},
      {.name = "tpot_ms", .kind = READ_CALL, .to = &targets->tpot_ms, .call = read_mean},
      {.name = "e2e_ms", .kind = READ_CALL, .to = &targets->e2e_ms, .call = read_percentiles},
      {.name = "max_context_tokens",
       .kind = READ_COUNT,
       .to = &context_tokens,
       .min = 1,
       .max = SKETCH_CONTEXT_TOKENS_MAX},
      {.name = "cost", .kind = READ_CALL, .to = targets, .call = read_cost},
      {.name = "success_rate", .kind = READ_NUMBER, .to = &targets->success_rate_ratio, .min = 0, .max = 1},
      {.name = "headroom", .kind = READ_NUMBER, .to = &targets->headroom_ratio, .min = 0, .max = 0.99},
      {.name = "quality", .kind = READ_CALL, .call = read_quality},
  };
  if (!read_object(value, pointer, fields, COUNT_OF(fields), faults))
    return;
  targets->are_given = json_object_size(value) > 0;
  if (context_tokens != 0)
    targets->max_context_tokens = context_tokens;
}

void sketch_read_success(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_targets *success = to;
  const struct read_field fields[] = {
      {.name = "ttft_ms", .kind = READ_NUMBER, .to = &success->ttft_ms.mean, .min = 1e-3, .max = SKETCH_MS_MAX},
      {.name = "mean_itl_ms", .kind = READ_NUMBER, .to = &success->itl_ms.mean, .min = 1e-3, .max = SKETCH_MS_MAX},
      {.name = "e2e_ms", .kind = READ_NUMBER, .to = &success->e2e_ms.mean, .min = 1e-3, .max = SKETCH_MS_MAX},
  };
  success->are_given = read_object(value, pointer, fields, COUNT_OF(fields), faults);
  if (success->are_given)
    refuse_empty(value, pointer, "ttft_ms, mean_itl_ms or e2e_ms", faults);
}

static void read_managed_api(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_constraints *constraints = to;
  const struct read_field fields[] = {
      {.name = "usd_per_million_input_tokens",
       .kind = READ_NUMBER,
       .is_required = true,
       .to = &constraints->managed_input_usd_per_million_tokens,
       .min = 0,
       .max = 1e6},
      {.name = "usd_per_million_output_tokens",
       .kind = READ_NUMBER,
       .is_required = true,
       .to = &constraints->managed_output_usd_per_million_tokens,
       .min = 0,
       .max = 1e6},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

#define QUOTE_WORDS_MAX 64
/* Distinct clouds (or commitments) over all quotes of the catalogue; the list ends with NULL. */
static void quote_words(const char *words[QUOTE_WORDS_MAX + 1], const struct catalogue_snapshot *snapshot,
                        bool of_commitments)
{
  size_t count = 0;
  for (size_t i = 0; i < snapshot->profile_count; i++) {
    const struct hardware *hardware = &snapshot->profiles[i].hardware;
    for (unsigned k = 0; k < hardware->price_count && count < QUOTE_WORDS_MAX; k++) {
      const char *word = of_commitments ? hardware->prices[k].commitment : hardware->prices[k].cloud;
      size_t seen = 0;
      while (seen < count && strcasecmp(words[seen], word) != 0)
        seen++;
      if (seen == count && word[0] != '\0')
        words[count++] = word;
    }
  }
  words[count] = NULL;
}

/* Reads a text that must be one of `words`, without case; the catalogue's spelling is kept. */
static void read_quote_word(char *to, size_t size, const json_t *parent, const char *key, const char *parent_pointer,
                            const char *const *words, struct faults *faults)
{
  const json_t *value = json_object_get(parent, key);
  char pointer[160], excerpt[READ_EXCERPT_SIZE];
  read_pointer(pointer, sizeof pointer, parent_pointer, key);
  if (!json_is_string(value))
    return; /* absent, or reported as a wrong type */
  for (size_t i = 0; words[i] != NULL; i++)
    if (strcasecmp(words[i], json_string_value(value)) == 0) {
      (void)snprintf(to, size, "%s", words[i]);
      return;
    }
  faults_add(faults, FAULT_UNKNOWN_VALUE, pointer, read_nearest(json_string_value(value), words),
             "no price of the catalogue has the %s \"%s\"", key, read_excerpt(excerpt, json_string_value(value)));
}

static void read_price(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const struct sketch_constraints *reading = to;
  struct workload_constraints *constraints = reading->constraints;
  char text[256];
  const char *words[QUOTE_WORDS_MAX + 1];
  const struct read_field fields[] = {
      {.name = "cloud", .kind = READ_TEXT, .to = text, .size = sizeof text},
      {.name = "commitment", .kind = READ_TEXT, .to = text, .size = sizeof text},
  };
  if (!read_object(value, pointer, fields, COUNT_OF(fields), faults))
    return;
  quote_words(words, reading->snapshot, false);
  read_quote_word(constraints->price_cloud, sizeof constraints->price_cloud, value, "cloud", pointer, words, faults);
  quote_words(words, reading->snapshot, true);
  read_quote_word(constraints->price_commitment, sizeof constraints->price_commitment, value, "commitment", pointer,
                  words, faults);
}

static void read_price_override(struct workload_constraints *constraints, const char *profile, const json_t *value,
                                const char *pointer, struct faults *faults)
{
  struct workload_price_override *row;
  struct read_field field = {.kind = READ_NUMBER, .min = 1e-4, .max = 1e4};
  if (constraints->price_override_count == COUNT_OF(constraints->price_overrides)) {
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "at most %zu prices can be given",
               COUNT_OF(constraints->price_overrides));
    return;
  }
  row = &constraints->price_overrides[constraints->price_override_count++];
  (void)snprintf(row->profile, sizeof row->profile, "%s", profile);
  field.to = &row->usd_per_gpu_hour;
  read_value(value, pointer, &field, faults);
}

static void read_prices(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const struct sketch_constraints *reading = to;
  const char *name;
  json_t *object, *price;
  char at[160];
  if (!json_is_object(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; an object of USD per GPU hour by profile is expected",
               read_type_name(value));
    return;
  }
  object = read_iterable(value);
  json_object_foreach(object, name, price)
  {
    read_pointer(at, sizeof at, pointer, name);
    if (catalogue_find_profile(reading->snapshot, name) == NULL)
      sketch_unknown_name(at, "profile", name, reading->snapshot->profile_names, faults);
    else
      read_price_override(reading->constraints, name, price, at, faults);
  }
}

void sketch_read_constraints(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  static const char *const policies[] = {"free", "validated", "locked", NULL}; /* order of enum accuracy_policy */
  struct sketch_constraints *reading = to;
  struct workload_constraints *constraints = reading->constraints;
  int accuracy = ACCURACY_FREE;
  const struct read_field fields[] = {
      {.name = "gpu_quota", .kind = READ_COUNT, .to = &constraints->gpu_quota, .min = 1, .max = SKETCH_GPUS_MAX},
      {.name = "power_cap_w", .kind = READ_NUMBER, .to = &constraints->power_cap_w, .min = 10, .max = 10000},
      {.name = "accuracy", .kind = READ_WORD, .to = &accuracy, .words = policies},
      {.name = "price", .kind = READ_CALL, .to = reading, .call = read_price},
      {.name = "prices", .kind = READ_CALL, .to = reading, .call = read_prices},
      {.name = "managed_api", .kind = READ_CALL, .to = constraints, .call = read_managed_api},
      {.name = "change_cost_usd", .kind = READ_NUMBER, .to = &constraints->change_cost_usd, .min = 0, .max = USD_MAX},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  constraints->accuracy = (enum accuracy_policy)accuracy;
}
