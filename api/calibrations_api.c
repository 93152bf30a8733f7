/* /v1/calibrations: factors fitted to measurements, kept for ever, used until they are retired. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calibrate.h"
#include "api/catalogue.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/json_memory.h"
#include "api/put.h"
#include "api/read.h"
#include "api/write.h"

struct calibration_body {
  char profile[65], model[129], stack[640]; /* model, stack "" = of any */
  const json_t *measurements;
};

/* A stack by name, or in full as measurements have it. */
static void read_stack(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  char *stack = to, *text;
  struct catalogue_stack parts;
  const struct read_field name = {.kind = READ_NAME, .to = stack, .size = 65};
  if (!json_is_object(value)) {
    read_value(value, pointer, &name, faults);
    return;
  }
  stack_read(&parts, value, pointer, faults);
  text = write_canonical(value);
  (void)snprintf(stack, 640, "%s", text != NULL ? text : "");
  free(text);
}

static void read_body(struct calibration_body *to, struct api_call *call)
{
  const struct read_field fields[] = {
      {.name = "profile", .kind = READ_TEXT, .is_required = true, .to = to->profile, .size = sizeof to->profile},
      {.name = "model", .kind = READ_TEXT, .allows_null = true, .to = to->model, .size = sizeof to->model},
      {.name = "stack", .kind = READ_CALL, .allows_null = true, .to = to->stack, .call = read_stack},
      {.name = "measurements", .kind = READ_IGNORE, .is_required = true},
  };
  *to = (struct calibration_body){.measurements = json_object_get(call->body, "measurements")};
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (to->measurements == NULL)
    return;
  if (!json_is_array(to->measurements))
    faults_add(call->faults, FAULT_WRONG_TYPE, "/measurements", NULL,
               "is %s; an array of ids of measurements is expected", read_type_name(to->measurements));
  else if (json_array_size(to->measurements) == 0 || json_array_size(to->measurements) > CALIBRATE_RUNS_MAX)
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "/measurements", NULL, "has %zu entries; 1 to %d are expected",
               json_array_size(to->measurements), CALIBRATE_RUNS_MAX);
}

/* Profile and model by their own names: an alias of a model becomes its name. */
static enum err resolve(struct calibration_body *body, struct api_call *call, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  const struct catalogue_model *model;
  char excerpt[READ_EXCERPT_SIZE];
  enum err rc = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (rc != ERR_OK)
    return rc;
  if (body->profile[0] != '\0' && catalogue_find_profile(snapshot, body->profile) == NULL)
    faults_add(call->faults, FAULT_UNKNOWN_NAME, "/profile", read_nearest(body->profile, snapshot->profile_names),
               "no profile is named \"%s\"", read_excerpt(excerpt, body->profile));
  model = body->model[0] != '\0' ? catalogue_find_model(snapshot, body->model) : NULL;
  if (model != NULL)
    (void)snprintf(body->model, sizeof body->model, "%s", model->name); /* models given inline have no other name */
  catalogue_release(call_catalogue(call), snapshot);
  return ERR_OK;
}

/* A run says something about this fit only when it is of the same profile, model and stack. */
static void check_run(struct api_call *call, const struct calibration_body *body, const struct store_measurement *run,
                      const char *pointer)
{
  if (strcmp(run->profile, body->profile) != 0)
    faults_add(call->faults, FAULT_CONFLICT, pointer, NULL, "was measured on \"%s\", not on \"%s\"", run->profile,
               body->profile);
  if (body->model[0] != '\0' && strcmp(run->model, body->model) != 0)
    faults_add(call->faults, FAULT_CONFLICT, pointer, NULL, "is of model \"%s\", not of \"%s\"", run->model,
               body->model);
  if (body->stack[0] != '\0' && strcmp(run->stack, body->stack) != 0)
    faults_add(call->faults, FAULT_CONFLICT, pointer, NULL, "was measured on %s%.80s, not on %.80s",
               run->stack[0] != '\0' ? "stack " : "no stated stack", run->stack, body->stack);
}

static bool is_listed_before(const json_t *list, size_t index)
{
  for (size_t i = 0; i < index; i++)
    if (json_equal(json_array_get(list, i), json_array_get(list, index)))
      return true;
  return false;
}

static enum err add_run(struct calibrate *calibrate, struct api_call *call, const struct calibration_body *body,
                        size_t index, struct error *e)
{
  const char *id = json_string_value(json_array_get(body->measurements, index));
  const size_t before = call->faults->count;
  struct store_measurement run;
  char pointer[64];
  enum err rc;
  read_pointer_index(pointer, sizeof pointer, "/measurements", index);
  rc = store_measurement_get(call_store(call), &run, id != NULL ? id : "", e);
  if (rc == ERR_NOT_FOUND) {
    faults_add(call->faults, FAULT_UNKNOWN_NAME, pointer, NULL, "is not the id of a measurement");
    return ERR_OK;
  }
  if (rc != ERR_OK)
    return rc;
  if (is_listed_before(body->measurements, index))
    faults_add(call->faults, FAULT_CONFLICT, pointer, NULL, "is listed twice");
  check_run(call, body, &run, pointer);
  if (call->faults->count == before)
    rc = calibrate_add(calibrate, call, &run, e);
  store_measurement_fini(&run);
  return rc;
}

/* ---- The document --------------------------------------------------------------------------------------------------- */

/* {"tpot": …, "ttft": …, "throughput": …}: medians of |predicted / measured - 1|; null without such a figure. */
static json_t *residuals(const struct calibrate *calibrate, bool is_before)
{
  static const char *const names[BAND_METRIC_COUNT] = {"tpot", "ttft", "throughput"};
  size_t count;
  const struct calibrate_figure *figures = calibrate_figures(&count, calibrate);
  struct calibration_observation *observations = calloc(count + 1, sizeof *observations);
  double *scratch = calloc(count + 1, sizeof *scratch);
  json_t *object = observations != NULL && scratch != NULL ? json_object() : NULL;
  for (size_t i = 0; object != NULL && i < count; i++) {
    observations[i] = figures[i].observation;
    if (is_before)
      observations[i].predicted = figures[i].before;
  }
  for (int metric = 0; object != NULL && metric < BAND_METRIC_COUNT; metric++)
    put_member(&object, names[metric],
               write_number(calibration_error_ratio(observations, count, (enum band_metric)metric, scratch)));
  free(scratch);
  free(observations);
  return object;
}

static json_t *rows(const struct calibrate *calibrate, const json_t *measurements)
{
  size_t count;
  const struct calibrate_figure *figures = calibrate_figures(&count, calibrate);
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++) {
    const double measured = figures[i].observation.measured;
    json_t *row = json_object();
    put_member(&row, "measurement", json_incref(json_array_get(measurements, figures[i].run)));
    put_member(&row, "metric", write_text(figures[i].path));
    put_member(&row, "measured", write_number(measured));
    put_member(&row, "error_before", write_number(figures[i].before / measured - 1));
    put_member(&row, "error_after", write_number(figures[i].observation.predicted / measured - 1));
    put_element(&array, row);
  }
  return array;
}

static json_t *document_write(const char *id, const struct api_call *call, const struct calibration_body *body,
                              const struct calibration *calibration, const struct calibrate *calibrate)
{
  char created_at[WRITE_TIME_SIZE];
  json_t *document = json_object(), *errors = json_object();
  write_time(created_at, call->now_ms);
  put_member(&errors, "before", residuals(calibrate, true));
  put_member(&errors, "after", residuals(calibrate, false));
  put_member(&errors, "rows", rows(calibrate, body->measurements));
  put_member(&document, "id", write_text(id));
  put_member(&document, "created_at", write_text(created_at));
  put_member(&document, "profile", write_text(body->profile));
  put_member(&document, "model", write_text(body->model[0] != '\0' ? body->model : NULL));
  put_member(&document, "stack",
             body->stack[0] == '{' ? json_loads(body->stack, 0, NULL)
                                   : write_text(body->stack[0] != '\0' ? body->stack : NULL));
  put_member(&document, "measurements", json_deep_copy(body->measurements));
  put_member(&document, "factors", calibration_factors_write(calibration));
  put_member(&document, "band_scale", calibration_bands_write(calibration));
  put_member(&document, "residuals", errors);
  return document;
}

/* The stored document with what may change: when it was retired. */
static char *answer_text(const char *document, int64_t retired_at_ms)
{
  const size_t length = strlen(document);
  struct text text = {NULL, 0, 0, false};
  char time[WRITE_TIME_SIZE];
  text_append(&text, document, length > 0 ? length - 1 : 0); /* without its closing brace */
  if (retired_at_ms > 0) {
    write_time(time, retired_at_ms);
    text_printf(&text, ",\"retired_at\":\"%s\"}", time);
  } else {
    text_puts(&text, ",\"retired_at\":null}");
  }
  return text_take(&text, NULL);
}

static enum err insert(struct store_tx *tx, void *cls, struct error *e)
{
  return store_calibration_insert(tx, cls, e);
}

static enum err store(struct api_call *call, struct api_response *out, struct calibration_body *body,
                      const struct calibration *calibration, const struct calibrate *calibrate, struct error *e)
{
  char id[37];
  json_t *document;
  struct store_calibration row = {
      .id = id, .created_at_ms = call->now_ms, .profile = body->profile, .model = body->model, .stack = body->stack};
  enum err rc;
  call_new_id(call, id, 0);
  document = document_write(id, call, body, calibration, calibrate);
  row.document = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL;
  json_decref(document);
  if (row.document == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to store the calibration");
  rc = store_write(call_store(call), "calibration", insert, &row, e);
  if (rc == ERR_OK)
    rc = respond_string_steal(out, 201, "application/json", answer_text(row.document, 0), e);
  if (rc == ERR_OK)
    respond_header(out, "Location", "/v1/calibrations/%s", id);
  free(row.document);
  return rc;
}

enum err calibrations_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct calibration_body body;
  struct calibration calibration;
  struct calibrate *calibrate = NULL;
  enum err rc;
  read_body(&body, call);
  rc = resolve(&body, call, e);
  if (rc == ERR_OK && call->faults->count > 0)
    rc = error_set(e, ERR_INVALID, "", "the calibration is not valid");
  if (rc == ERR_OK)
    rc = calibrate_new(&calibrate, json_array_size(body.measurements), e);
  for (size_t i = 0; rc == ERR_OK && i < json_array_size(body.measurements); i++)
    rc = add_run(calibrate, call, &body, i, e);
  if (rc == ERR_OK && call->faults->count > 0)
    rc = error_set(e, ERR_INVALID, "", "the calibration is not valid");
  if (rc == ERR_OK) {
    rc = calibrate_run(&calibration, calibrate, call_deps(call)->arena_bytes, e);
    if (rc == ERR_INVALID)
      faults_add(call->faults, FAULT_UNSUPPORTED, e->pointer, NULL, "%s", e->message);
  }
  if (rc == ERR_OK)
    rc = store(call, out, &body, &calibration, calibrate, e);
  calibrate_free(calibrate);
  return rc;
}

/* ---- Reading and retiring ------------------------------------------------------------------------------------------- */

static enum err respond_list(struct api_call *call, struct api_response *out, const struct store_calibrations *list,
                             struct error *e)
{
  char **texts = calloc(list->count + 1, sizeof *texts);
  bool is_complete = texts != NULL;
  enum err rc;
  for (size_t i = 0; is_complete && i < list->count; i++) {
    texts[i] = answer_text(list->rows[i].document, list->rows[i].retired_at_ms);
    is_complete = texts[i] != NULL;
  }
  if (is_complete)
    rc = respond_page_texts(call, out, (const char *const *)texts, list->count,
                            list->has_more && list->count > 0 ? list->rows[list->count - 1].id : NULL, e);
  else
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for the list");
  for (size_t i = 0; texts != NULL && i < list->count; i++)
    free(texts[i]);
  free(texts);
  return rc;
}

enum err calibrations_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_history_filter filter;
  struct store_calibrations list = {.rows = NULL};
  struct store_page page;
  enum err rc = history_filter(&filter, &page, call, e);
  if (rc == ERR_OK)
    rc = store_calibration_list(call_store(call), &list, &filter, false, &page, e);
  if (rc == ERR_OK)
    rc = respond_list(call, out, &list, e);
  store_calibrations_fini(&list);
  return rc;
}

enum err calibrations_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_calibration row;
  enum err rc = store_calibration_get(call_store(call), &row, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  rc = respond_string_steal(out, 200, "application/json", answer_text(row.document, row.retired_at_ms), e);
  store_calibration_fini(&row);
  return rc;
}

struct retirement {
  const char *id;
  int64_t now_ms;
};

static enum err retire(struct store_tx *tx, void *cls, struct error *e)
{
  const struct retirement *retirement = cls;
  return store_calibration_retire(tx, retirement->id, retirement->now_ms, e);
}

enum err calibrations_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  struct retirement retirement = {call->params[0], call->now_ms};
  const enum err rc = store_write(call_store(call), "calibration", retire, &retirement, e);
  if (rc == ERR_OK)
    out->status = 204;
  return rc;
}
