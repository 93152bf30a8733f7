/* Reading what a gate asks for. */
#include "api/gate.h"

#include <math.h>
#include <string.h>

#include "api/figure.h"
#include "api/measurement.h"
#include "api/read.h"
#include "api/sketch_parts.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* What the callbacks need beside the value. */
struct reading {
  struct gate *gate;
  const struct catalogue_snapshot *snapshot; /* NULL: read anew from the store, where it was checked */
  int64_t now_ms;
};

static bool is_listed_before(const json_t *array, size_t index)
{
  for (size_t i = 0; i < index; i++)
    if (json_equal(json_array_get(array, i), json_array_get(array, index)) != 0)
      return true;
  return false;
}

static void read_profiles(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const struct reading *reading = to;
  char at[160];
  if (!json_is_array(value) || json_array_size(value) == 0) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; a list of profile names is expected",
               json_is_array(value) ? "empty" : read_type_name(value));
    return;
  }
  for (size_t i = 0; i < json_array_size(value); i++) {
    const char *name = json_string_value(json_array_get(value, i));
    read_pointer_index(at, sizeof at, pointer, i);
    if (name == NULL)
      faults_add(faults, FAULT_WRONG_TYPE, at, NULL, "is %s; the name of a profile is expected",
                 read_type_name(json_array_get(value, i)));
    else if (reading->snapshot != NULL && catalogue_find_profile(reading->snapshot, name) == NULL)
      sketch_unknown_name(at, "profile", name, reading->snapshot->profile_names, faults);
    else if (is_listed_before(value, i))
      faults_add(faults, FAULT_CONFLICT, at, NULL, "is listed twice");
  }
  reading->gate->profiles = value;
}

static void read_targets(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const struct reading *reading = to;
  sketch_read_targets(value, pointer, &reading->gate->targets, faults);
  reading->gate->quality = json_object_get(value, "quality");
}

static void read_regressions(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const struct reading *reading = to;
  const char *metric;
  json_t *limit;
  char at[160];
  if (!json_is_object(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; an object of the largest worsening by metric is expected", read_type_name(value));
    return;
  }
  json_object_foreach(read_iterable(value), metric, limit)
  {
    double ratio;
    const struct read_field field = {.kind = READ_NUMBER, .to = &ratio, .min = 0, .max = 10};
    read_pointer(at, sizeof at, pointer, metric);
    if (figure_find(metric) == NULL)
      faults_add(faults, FAULT_UNKNOWN_NAME, at, read_nearest(metric, figure_metrics()),
                 "no figure of a scorecard has this path");
    else
      read_value(limit, at, &field, faults);
  }
  reading->gate->max_regression = value;
}

static void read_stack(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const struct reading *reading = to;
  if (reading->snapshot != NULL)
    stack_check(value, pointer, reading->snapshot, faults);
  reading->gate->require_stack = value;
}

static void read_measurement(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const struct reading *reading = to;
  const struct read_field fields[] = {{.name = "max_age_days",
                                       .kind = READ_NUMBER,
                                       .is_required = true,
                                       .to = &reading->gate->measurement_max_age_days,
                                       .min = 0.01,
                                       .max = 3660}};
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

static void read_signature(const json_t *value, const char *pointer, int64_t now_ms, struct faults *faults)
{
  char when[160];
  const char *by, *rationale, *team;
  struct record_moment at = {.is_given = false};
  const struct read_field fields[] = {
      {.name = "by", .kind = READ_CALL, .is_required = true, .to = &by, .call = record_read_line},
      {.name = "at", .kind = READ_CALL, .is_required = true, .to = &at, .call = record_read_moment},
      {.name = "rationale", .kind = READ_CALL, .to = &rationale, .call = record_read_prose},
      {.name = "team", .kind = READ_CALL, .to = &team, .call = record_read_line},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  read_pointer(when, sizeof when, pointer, "at");
  if (record_moment_is_ahead(&at, now_ms))
    faults_add(faults, FAULT_OUT_OF_RANGE, when, NULL,
               "lies in the future; a signature is dated on the day it is given");
}

static void read_signatures(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const struct reading *reading = to;
  char at[160];
  if (!json_is_array(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; a list of {\"by\", \"at\", \"rationale\", \"team\"} is expected", read_type_name(value));
    return;
  }
  for (size_t i = 0; i < json_array_size(value); i++) {
    read_pointer_index(at, sizeof at, pointer, i);
    read_signature(json_array_get(value, i), at, reading->now_ms, faults);
  }
  reading->gate->signed_off = value;
}

static bool has_targets(const struct gate *gate)
{
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  return gate_targets(list, gate) > 0 || json_array_size(gate->quality) > 0 ||
         json_object_size(gate->max_regression) > 0;
}

void gate_read(struct gate *out, const json_t *body, const struct catalogue_snapshot *snapshot, int64_t now_ms,
               struct faults *faults)
{
  static const char *const judges[] = {"all", "any", "recommended", NULL}; /* order of enum gate_judge */
  static const char *const inconclusive[] = {"fail", "warn", NULL};
  struct reading reading = {out, snapshot, now_ms};
  struct workload none;
  const struct read_field fields[] = {
      {.name = "workload", .kind = READ_NAME, .is_required = true, .to = out->workload, .size = sizeof out->workload},
      {.name = "profiles", .kind = READ_CALL, .allows_null = true, .to = &reading, .call = read_profiles},
      {.name = "judge", .kind = READ_WORD, .to = &out->judge, .words = judges},
      {.name = "targets", .kind = READ_CALL, .allows_null = true, .to = &reading, .call = read_targets},
      {.name = "max_regression", .kind = READ_CALL, .allows_null = true, .to = &reading, .call = read_regressions},
      {.name = "certainty", .kind = READ_NUMBER, .to = &out->certainty, .min = 0.5, .max = 0.999},
      {.name = "on_inconclusive", .kind = READ_WORD, .to = &out->on_inconclusive, .words = inconclusive},
      {.name = "require_stack", .kind = READ_CALL, .allows_null = true, .to = &reading, .call = read_stack},
      {.name = "require_measurement", .kind = READ_CALL, .allows_null = true, .to = &reading, .call = read_measurement},
      {.name = "signed_off", .kind = READ_CALL, .allows_null = true, .to = &reading, .call = read_signatures},
      {.name = "expires_at",
       .kind = READ_CALL,
       .allows_null = true,
       .to = &out->expires_at,
       .call = record_read_moment},
      /* what GET answers may be sent back */
      {.name = "name", .kind = READ_IGNORE},
      {.name = "revision", .kind = READ_IGNORE},
      {.name = "created_at", .kind = READ_IGNORE},
      {.name = "changed_at", .kind = READ_IGNORE},
      {.name = "changed_by", .kind = READ_IGNORE},
      {.name = "baselines", .kind = READ_IGNORE},
      {.name = "waivers", .kind = READ_IGNORE},
  };
  const size_t before = faults->count;
  workload_init(&none);
  *out = (struct gate){
      .judge = GATE_RECOMMENDED, .targets = none.targets, .certainty = 0.5, .measurement_max_age_days = (double)NAN};
  (void)read_object(body, "", fields, COUNT_OF(fields), faults);
  if (faults->count == before && !has_targets(out))
    faults_add(faults, FAULT_MISSING, "/targets", NULL, "a gate needs targets or max_regression");
}

size_t gate_targets(struct scorecard_target list[SCORECARD_TARGETS_MAX], const struct gate *gate)
{
  const double none = (double)NAN;
  const struct target_figures unknown = {.ttft_s = targets_median(none),
                                         .itl_s = targets_median(none),
                                         .tpot_s = none,
                                         .e2e_s = targets_median(none),
                                         .max_context_tokens = none,
                                         .per_successful_request_usd = none,
                                         .per_million_output_tokens_usd = none,
                                         .monthly_usd = none,
                                         .success_rate_ratio = none,
                                         .margin_to_knee_ratio = none};
  return targets_list(list, &gate->targets, &unknown);
}

void gate_metrics(const char *metrics[GATE_METRICS_MAX + 1], const struct gate *gate)
{
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  size_t count = gate_targets(list, gate);
  const char *metric;
  json_t *limit;
  for (size_t i = 0; i < count; i++)
    metrics[i] = list[i].metric;
  json_object_foreach(read_iterable(gate->max_regression), metric, limit)
  {
    if (count < GATE_METRICS_MAX - 3)
      metrics[count++] = metric;
  }
  if (json_array_size(gate->quality) > 0)
    metrics[count++] = "quality";
  if (gate->require_stack != NULL)
    metrics[count++] = "stack";
  if (!isnan(gate->measurement_max_age_days))
    metrics[count++] = "measurement";
  metrics[count] = NULL;
}

void gate_check_measured(const json_t *measured, const char *pointer, struct faults *faults)
{
  const char *metric;
  json_t *value;
  char at[160];
  if (!json_is_object(measured) || json_object_size(measured) == 0) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; an object of measured figures by metric is expected",
               json_is_object(measured) ? "empty" : read_type_name(measured));
    return;
  }
  json_object_foreach(read_iterable(measured), metric, value)
  {
    double number;
    const bool is_fraction = strcmp(metric, "success.rate") == 0 || strcmp(metric, "memory.headroom") == 0;
    const struct read_field field = {.kind = READ_NUMBER, .to = &number, .min = 0, .max = is_fraction ? 1 : 1e15};
    read_pointer(at, sizeof at, pointer, metric);
    if (figure_find(metric) == NULL)
      faults_add(faults, FAULT_UNKNOWN_NAME, at, read_nearest(metric, figure_metrics()),
                 "no figure of a scorecard has this path");
    else
      read_value(value, at, &field, faults);
  }
  measured_check_order(measured, pointer, faults);
}
