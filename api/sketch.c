/* The sketch as a whole: its top level is read here, its blocks in api/sketch_*.c; what needs several fields at once is
   core's workload_check. */
#include "api/evaluation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/put.h"
#include "api/read.h"
#include "api/trace.h"
#include "api/sketch_parts.h"
#include "api/write.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* What the callbacks of the top level need beside the value. */
struct reading {
  struct sketch *sketch;
  const struct catalogue_snapshot *snapshot;
};

void sketch_unknown_name(const char *pointer, const char *kind, const char *name, const char *const *names,
                         struct faults *faults)
{
  char excerpt[READ_EXCERPT_SIZE];
  faults_add(faults, FAULT_UNKNOWN_NAME, pointer, read_nearest(name, names), "no %s is named \"%s\"", kind,
             read_excerpt(excerpt, name));
}

/* ---- Precision ---------------------------------------------------------------------------------------------------- */

static void read_format(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const char *words[PRECISION_COUNT];
  const char *text = json_string_value(value);
  enum precision *precision = to;
  char excerpt[READ_EXCERPT_SIZE];
  for (int i = 1; i < PRECISION_COUNT; i++)
    words[i - 1] = precision_name((enum precision)i);
  words[PRECISION_COUNT - 1] = NULL;
  if (text == NULL) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; a number format (\"fp8\") is expected",
               read_type_name(value));
    return;
  }
  *precision = precision_parse(text);
  if (*precision == PRECISION_NONE)
    faults_add(faults, FAULT_UNKNOWN_VALUE, pointer, read_nearest(text, words),
               "\"%s\" is not a known number format: fp32, bf16, fp16, fp8, int8, int4, nf4, nvfp4, mxfp4",
               read_excerpt(excerpt, text));
}

void sketch_read_precision(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload *workload = to;
  enum precision word = PRECISION_NONE;
  const struct read_field fields[] = {
      {.name = "weights", .kind = READ_CALL, .to = &workload->weights, .call = read_format},
      {.name = "kv_cache", .kind = READ_CALL, .to = &workload->kv_cache, .call = read_format},
      {.name = "activations", .kind = READ_CALL, .to = &workload->activations, .call = read_format},
  };
  if (json_is_object(value)) {
    (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  } else {
    read_format(value, pointer, &word, faults);
    workload_set_precision(workload, word);
  }
}

/* ---- Model, profiles, stack ---------------------------------------------------------------------------------------- */

static void read_stored_model(struct sketch *sketch, const struct catalogue_snapshot *snapshot, const char *name,
                              const char *pointer, struct faults *faults)
{
  const struct catalogue_model *row = catalogue_find_model(snapshot, name);
  if (row == NULL) {
    sketch_unknown_name(pointer, "model", name, snapshot->model_names, faults);
    return;
  }
  sketch->model = row->model;
  sketch->model_revision = row->revision;
  (void)snprintf(sketch->model_name, sizeof sketch->model_name, "%s", row->name);
}

static void read_model(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct reading *reading = to;
  struct sketch *sketch = reading->sketch;
  if (json_is_string(value)) {
    read_stored_model(sketch, reading->snapshot, json_string_value(value), pointer, faults);
  } else if (json_is_object(value)) {
    json_decref(sketch->model_assumptions);
    sketch->model_assumptions = NULL;
    model_read(&sketch->model, &sketch->model_assumptions, value, pointer, faults);
    (void)snprintf(sketch->model_name, sizeof sketch->model_name, "%s",
                   sketch->model.name[0] != '\0' ? sketch->model.name : "inline");
  } else {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; the name of a model, {\"hf_config\": …} or {\"architecture\": …} is expected",
               read_type_name(value));
  }
}

/* The serving block has its name only. */
static void find_draft_model(struct reading *reading, const char *pointer, struct faults *faults)
{
  struct sketch *sketch = reading->sketch;
  const char *name = sketch->workload.serving.speculative_draft_model;
  const struct catalogue_model *row;
  char at[160];
  if (name[0] == '\0')
    return;
  row = catalogue_find_model(reading->snapshot, name);
  sketch->has_draft_model = row != NULL;
  if (row != NULL) {
    sketch->draft_model = row->model;
    return;
  }
  (void)snprintf(at, sizeof at, "%s/serving/speculative/draft_model", pointer);
  sketch_unknown_name(at, "model", name, reading->snapshot->model_names, faults);
}

static bool is_listed(const struct sketch *sketch, const struct catalogue_profile *profile)
{
  for (size_t i = 0; i < sketch->profile_count; i++)
    if (sketch->profiles[i] == profile)
      return true;
  return false;
}

static void read_profile(struct reading *reading, const json_t *value, const char *pointer, struct faults *faults)
{
  struct sketch *sketch = reading->sketch;
  const struct catalogue_profile *profile;
  if (!json_is_string(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; the name of a profile is expected",
               read_type_name(value));
    return;
  }
  profile = catalogue_find_profile(reading->snapshot, json_string_value(value));
  if (profile == NULL)
    sketch_unknown_name(pointer, "profile", json_string_value(value), reading->snapshot->profile_names, faults);
  else if (is_listed(sketch, profile))
    faults_add(faults, FAULT_CONFLICT, pointer, NULL, "\"%s\" is listed twice", profile->hardware.name);
  else
    sketch->profiles[sketch->profile_count++] = profile;
}

static void read_profiles(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct reading *reading = to;
  char at[160];
  reading->sketch->profiles_are_named = true;
  if (!json_is_array(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; an array of names of profiles is expected",
               read_type_name(value));
    return;
  }
  if (json_array_size(value) == 0)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "names no profile; leave it out for the default candidates");
  for (size_t i = 0; i < json_array_size(value) && reading->sketch->profiles != NULL; i++) {
    read_pointer_index(at, sizeof at, pointer, i);
    read_profile(reading, json_array_get(value, i), at, faults);
  }
}

static bool has_price(const struct hardware *hardware)
{
  return hardware->price_count > 0 || !isnan(hardware->price_usd_per_hour);
}

/* Profiles marked available; without any, those with a price whose figures are not just recalled. */
static void default_profiles(struct reading *reading, const char *pointer, struct faults *faults)
{
  const struct catalogue_snapshot *snapshot = reading->snapshot;
  struct sketch *sketch = reading->sketch;
  char at[160];
  if (sketch->profiles == NULL)
    return;
  for (size_t i = 0; i < snapshot->profile_count; i++)
    if (snapshot->profiles[i].hardware.is_available)
      sketch->profiles[sketch->profile_count++] = &snapshot->profiles[i];
  if (sketch->profile_count > 0)
    return;
  for (size_t i = 0; i < snapshot->profile_count; i++) {
    const struct hardware *hardware = &snapshot->profiles[i].hardware;
    if (has_price(hardware) && strcmp(hardware->confidence, "recalled") != 0)
      sketch->profiles[sketch->profile_count++] = &snapshot->profiles[i];
  }
  if (sketch->profile_count > 0)
    return;
  read_pointer(at, sizeof at, pointer, "profiles");
  faults_add(faults, FAULT_MISSING, at, NULL,
             "is required here: no stored profile is marked available, and none has a price and a confidence");
}

/* The scorecard says what the name stood for: {"name", "revision", "driver", …}. */
static void read_stored_stack(struct sketch *sketch, const struct catalogue_snapshot *snapshot, const char *pointer,
                              struct faults *faults)
{
  const struct catalogue_stack *stack = catalogue_find_stack(snapshot, sketch->stack_name);
  json_t *parts;
  if (stack == NULL && !snapshot->is_seed_alone) {
    sketch_unknown_name(pointer, "stack", sketch->stack_name, snapshot->stack_names, faults);
    return;
  }
  sketch->stack = json_pack("{s:s}", "name", sketch->stack_name);
  if (stack == NULL)
    return;
  put_member(&sketch->stack, "revision", json_integer(stack->revision));
  parts = stack_write(stack);
  if (parts == NULL || json_object_update(sketch->stack, parts) != 0) {
    json_decref(sketch->stack);
    sketch->stack = NULL; /* memory is out, which the next writer reports */
  }
  json_decref(parts);
}

static void read_stack(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct reading *reading = to;
  struct sketch *sketch = reading->sketch;
  struct catalogue_stack stack;
  const size_t before = faults->count;
  const struct read_field name = {.kind = READ_NAME, .to = sketch->stack_name, .size = sizeof sketch->stack_name};
  if (json_is_string(value)) {
    read_value(value, pointer, &name, faults);
    if (faults->count == before)
      read_stored_stack(sketch, reading->snapshot, pointer, faults);
  } else if (json_is_object(value)) {
    stack_read(&stack, value, pointer, faults);
    sketch->stack = json_deep_copy(value);
  } else {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; the name of a stack or {\"driver\", \"framework\", \"runtime\", \"kernels\"} is expected",
               read_type_name(value));
  }
}

char *sketch_stack_text(const struct sketch *sketch)
{
  if (sketch->stack_name[0] != '\0')
    return strdup(sketch->stack_name);
  return sketch->stack != NULL ? write_canonical(sketch->stack) : strdup("");
}

/* Leaves calibrations NULL when memory is out; evaluation_run reports it. */
static void find_calibrations(struct sketch *sketch, const struct catalogue_snapshot *snapshot)
{
  char *stack = sketch_stack_text(sketch);
  sketch->calibrations = stack != NULL ? calloc(sketch->profile_count + 1, sizeof *sketch->calibrations) : NULL;
  for (size_t i = 0; sketch->calibrations != NULL && i < sketch->profile_count; i++) {
    const struct catalogue_calibration *row =
        catalogue_find_calibration(snapshot, sketch->profiles[i]->hardware.name, sketch->model_name, stack);
    if (row == NULL)
      continue;
    memcpy(sketch->calibrations[i].id, row->id, sizeof row->id);
    sketch->calibrations[i].calibration = row->calibration;
  }
  free(stack);
}

const struct sketch_calibration *sketch_calibration(const struct sketch *sketch,
                                                    const struct catalogue_profile *profile)
{
  for (size_t i = 0; i < sketch->profile_count; i++)
    if (sketch->profiles[i] == profile && sketch->calibrations[i].id[0] != '\0')
      return &sketch->calibrations[i];
  return NULL;
}

static void read_context(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct sketch *sketch = to;
  char text[2049];
  const struct read_field fields[] = {
      {.name = "commit", .kind = READ_TEXT, .allows_null = true, .to = text, .size = 129},
      {.name = "ref", .kind = READ_TEXT, .allows_null = true, .to = text, .size = 257},
      {.name = "url", .kind = READ_TEXT, .allows_null = true, .to = text, .size = sizeof text},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  sketch->context = json_deep_copy(value);
}

/* ---- Top level ------------------------------------------------------------------------------------------------------ */

static void read_adapters(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload *workload = to;
  const struct read_field fields[] = {
      {.name = "count",
       .kind = READ_COUNT,
       .is_required = true,
       .to = &workload->adapter_count,
       .min = 1,
       .max = 10000},
      {.name = "rank", .kind = READ_COUNT, .is_required = true, .to = &workload->adapter_rank, .min = 1, .max = 4096},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

static void read_operations(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload *workload = to;
  const struct read_field fields[] = {
      {.name = "restarts_per_day", .kind = READ_NUMBER, .to = &workload->restarts_per_day, .min = 0, .max = 1e5},
      {.name = "deploys_per_week", .kind = READ_NUMBER, .to = &workload->deploys_per_week, .min = 0, .max = 1e5},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

static void read_top(struct reading *reading, const json_t *body, const char *pointer, struct faults *faults)
{
  static const char *const hardware_words[] = {"datasheet", "live", NULL};
  struct workload *workload = &reading->sketch->workload;
  struct sketch_constraints constraints = {&workload->constraints, reading->snapshot};
  int hardware = 0;
  const struct read_field fields[] = {
      {.name = "workload", .kind = READ_NAME, .is_required = true, .to = workload->name, .size = sizeof workload->name},
      {.name = "model", .kind = READ_CALL, .is_required = true, .to = reading, .call = read_model},
      {.name = "precision", .kind = READ_CALL, .to = workload, .call = sketch_read_precision},
      {.name = "adapters", .kind = READ_CALL, .to = workload, .call = read_adapters},
      {.name = "traffic",
       .kind = READ_CALL,
       .is_required = true,
       .to = &workload->traffic,
       .call = sketch_read_traffic},
      {.name = "targets", .kind = READ_CALL, .to = &workload->targets, .call = sketch_read_targets},
      {.name = "success", .kind = READ_CALL, .to = &workload->success, .call = sketch_read_success},
      {.name = "constraints", .kind = READ_CALL, .to = &constraints, .call = sketch_read_constraints},
      {.name = "serving", .kind = READ_CALL, .to = &workload->serving, .call = sketch_read_serving},
      {.name = "operations", .kind = READ_CALL, .to = workload, .call = read_operations},
      {.name = "stack", .kind = READ_CALL, .to = reading, .call = read_stack},
      {.name = "hardware", .kind = READ_WORD, .to = &hardware, .words = hardware_words},
      {.name = "profiles", .kind = READ_CALL, .to = reading, .call = read_profiles},
      {.name = "seed", .kind = READ_INTEGER, .to = &workload->seed, .min = 0, .max = 9007199254740991.0},
      {.name = "context", .kind = READ_CALL, .to = reading->sketch, .call = read_context},
  };
  if (!read_object(body, pointer, fields, COUNT_OF(fields), faults))
    return;
  workload->uses_live_hardware = hardware == 1;
  find_draft_model(reading, pointer, faults);
  if (!reading->sketch->profiles_are_named)
    default_profiles(reading, pointer, faults);
}

/* Whether a fault at the pointer, or at something that contains it, is known: one slip is reported once. */
static bool is_covered(const struct faults *faults, const char *pointer)
{
  for (size_t i = 0; i < faults->count; i++) {
    const size_t length = strlen(faults->items[i].pointer);
    if (strncmp(pointer, faults->items[i].pointer, length) == 0 && (pointer[length] == '\0' || pointer[length] == '/'))
      return true;
  }
  return false;
}

static void check_together(const struct workload *workload, const char *pointer, struct faults *faults)
{
  struct faults found = {.count = 0};
  char at[160];
  workload_check(workload, &found);
  for (size_t i = 0; i < found.count; i++) {
    const struct fault *fault = &found.items[i];
    (void)snprintf(at, sizeof at, "%s%s", pointer, fault->pointer);
    if (!is_covered(faults, at))
      faults_add(faults, fault->code, at, NULL, "%s", fault->detail);
  }
}

/* ---- Notes, digest ---------------------------------------------------------------------------------------------------- */

/* Accepted members that change no figure; each becomes a sentence of the scorecard's assumptions. */
static void note_unused(struct sketch *sketch, bool is_stack_unknown)
{
  if (is_stack_unknown)
    (void)json_array_append_new(
        sketch->notes,
        json_sprintf("stack \"%s\" is recorded by name: there is no store to look it up in", sketch->stack_name));
  if (sketch->workload.traffic.load == LOAD_CLOSED && sketch->workload.traffic.arrival_is_given)
    (void)json_array_append_new(
        sketch->notes, json_string("traffic.arrival is not used: users of a closed loop send again when answered"));
}

/* Prose members say nothing about the workload, wherever they stand. */
static void strip_prose(json_t *value)
{
  json_t *member;
  const char *key;
  size_t i;
  (void)json_object_del(value, "$schema");
  (void)json_object_del(value, "description");
  json_object_foreach(value, key, member) strip_prose(member);
  json_array_foreach(value, i, member) strip_prose(member);
}

bool sketch_digest(char to[WRITE_DIGEST_SIZE], const json_t *body)
{
  json_t *core = json_deep_copy(body);
  char *text = NULL;
  bool is_made;
  if (core != NULL) {
    strip_prose(core);
    (void)json_object_del(core, "context");
    text = write_canonical(core);
  }
  if (text != NULL)
    write_digest(to, text, strlen(text));
  json_decref(core);
  is_made = text != NULL;
  free(text);
  return is_made;
}

/* Leaves canonical NULL when memory is out; evaluation_run reports it. */
static void seal(struct sketch *sketch, const json_t *body)
{
  if (sketch_digest(sketch->digest, body))
    sketch->canonical = write_canonical(body);
}

void sketch_use_profiles_steal(struct sketch *sketch, const struct catalogue_snapshot *snapshot,
                               const struct catalogue_profile **profiles, size_t count)
{
  free(sketch->profiles);
  free(sketch->calibrations);
  sketch->profiles = profiles;
  sketch->profile_count = count;
  sketch->profiles_are_named = true;
  find_calibrations(sketch, snapshot);
}

void sketch_read(struct sketch *out, const struct catalogue_snapshot *snapshot, const json_t *body, const char *pointer,
                 struct faults *faults)
{
  struct reading reading = {out, snapshot};
  memset(out, 0, sizeof *out);
  workload_init(&out->workload);
  out->notes = json_array();
  out->model_assumptions = json_array();
  out->profiles = calloc(snapshot->profile_count + 1, sizeof *out->profiles);
  read_top(&reading, body, pointer, faults);
  check_together(&out->workload, pointer, faults);
  find_calibrations(out, snapshot);
  out->quality = json_deep_copy(json_object_get(json_object_get(body, "targets"), "quality"));
  out->traffic = json_deep_copy(json_object_get(body, "traffic"));
  note_unused(out, out->stack_name[0] != '\0' && snapshot->is_seed_alone);
  seal(out, body);
}

bool sketch_is_whole(const struct sketch *sketch)
{
  return sketch->canonical != NULL && sketch->profiles != NULL && sketch->calibrations != NULL &&
         sketch->notes != NULL && sketch->model_assumptions != NULL && sketch->traffic != NULL;
}

void sketch_fini(struct sketch *sketch)
{
  trace_replay_fini(sketch);
  json_decref(sketch->model_assumptions);
  json_decref(sketch->notes);
  json_decref(sketch->traffic);
  json_decref(sketch->stack);
  json_decref(sketch->context);
  json_decref(sketch->quality);
  free(sketch->calibrations);
  free(sketch->profiles);
  free(sketch->canonical);
  memset(sketch, 0, sizeof *sketch);
}
