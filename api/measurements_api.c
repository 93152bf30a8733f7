/* /v1/measurements: a run as somebody measured it, kept beside the prediction for the same sketch. */
#include <math.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/card_table.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/json_memory.h"
#include "api/measurement.h"
#include "api/put.h"
#include "api/read.h"
#include "api/trace.h"
#include "api/write.h"

struct measurement {
  struct measured measured;
  char profile[65], source[513];
  const json_t *sketch, *stack; /* of the body; stack NULL = what the sketch says */
};

static void read_body(struct measurement *to, struct api_call *call)
{
  const struct read_field fields[] = {
      {.name = "sketch", .kind = READ_IGNORE, .is_required = true}, /* read with the catalogue */
      {.name = "profile", .kind = READ_TEXT, .is_required = true, .to = to->profile, .size = sizeof to->profile},
      {.name = "stack", .kind = READ_IGNORE, .allows_null = true},
      {.name = "measured", .kind = READ_CALL, .is_required = true, .to = &to->measured, .call = measured_read},
      {.name = "source", .kind = READ_TEXT, .is_required = true, .to = to->source, .size = sizeof to->source},
  };
  *to = (struct measurement){.sketch = json_object_get(call->body, "sketch"),
                             .stack = json_object_get(call->body, "stack")};
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (json_is_null(to->stack))
    to->stack = NULL;
}

/* The sketch on this profile alone, with the stack that the run had. */
static json_t *sketch_of_run(const struct measurement *measurement)
{
  json_t *sketch = json_copy(read_iterable(measurement->sketch));
  put_member(&sketch, "profiles", json_pack("[s]", measurement->profile));
  if (measurement->stack != NULL)
    put_member(&sketch, "stack", json_incref(read_iterable(measurement->stack)));
  return sketch;
}

/* Faults of what was put into the sketch are those of the body's own members. */
static void move_faults(struct faults *faults, size_t first, bool has_stack)
{
  for (size_t i = first; i < faults->count; i++) {
    char *pointer = faults->items[i].pointer;
    if (strncmp(pointer, "/sketch/profiles", 16) == 0)
      (void)snprintf(pointer, sizeof faults->items[i].pointer, "/profile");
    else if (has_stack && strncmp(pointer, "/sketch/stack", 13) == 0)
      memmove(pointer, pointer + 7, strlen(pointer + 7) + 1);
  }
}

static void read_sketch(struct sketch *sketch, const struct catalogue_snapshot *snapshot,
                        const struct measurement *measurement, const json_t *body, struct faults *faults)
{
  const size_t first = faults->count;
  json_t *own = json_object_get(measurement->sketch, "stack");
  sketch_read(sketch, snapshot, body, "/sketch", faults);
  move_faults(faults, first, measurement->stack != NULL);
  if (measurement->stack != NULL && own != NULL && json_equal(own, read_iterable(measurement->stack)) == 0)
    faults_add(faults, FAULT_CONFLICT, "/stack", NULL, "is another stack than the sketch's");
}

/* ---- Storing -------------------------------------------------------------------------------------------------------- */

static json_t *figures_write(struct measured *measured, const json_t *card)
{
  json_t *object = json_object();
  for (size_t i = 0; i < measured->count; i++) {
    struct store_measured *figure = &measured->figures[i];
    const json_t *predicted = card_at(card, figure->path);
    json_t *member = json_object();
    if (json_is_number(predicted))
      figure->predicted = json_number_value(predicted);
    put_member(&member, "measured", write_number(figure->measured));
    put_member(&member, "predicted", write_number(figure->predicted));
    put_member(&member, "relative_error", write_number(figure->predicted / figure->measured - 1));
    put_member(&object, figure->path, member);
  }
  return object;
}

static json_t *document_write(const char *id, const char *created_at, struct measurement *measurement,
                              const struct sketch *sketch, const json_t *card)
{
  json_t *document = json_object();
  const json_t *calibration = card_at(card, "provenance.calibration"), *verdict = card_at(card, "verdict");
  put_member(&document, "id", write_text(id));
  put_member(&document, "created_at", write_text(created_at));
  put_member(&document, "workload", write_text(sketch->workload.name));
  put_member(&document, "model", write_text(sketch->model_name));
  put_member(&document, "profile", write_text(measurement->profile));
  put_member(&document, "stack", sketch->stack != NULL ? json_incref(sketch->stack) : json_null());
  put_member(&document, "source", write_text(measurement->source));
  put_member(&document, "scorecard", write_text(json_string_value(card_at(card, "id"))));
  put_member(&document, "verdict", write_text(json_string_value(verdict)));
  put_member(&document, "calibration", write_text(json_string_value(calibration)));
  put_member(&document, "figures", figures_write(&measurement->measured, card));
  return document;
}

struct insertion {
  struct store_measurement row;
  const struct measured *measured;
};

static enum err insert(struct store_tx *tx, void *cls, struct error *e)
{
  const struct insertion *insertion = cls;
  return store_measurement_insert(tx, &insertion->row, insertion->measured->figures, insertion->measured->count, e);
}

static enum err store(struct api_call *call, struct api_response *out, struct measurement *measurement,
                      const struct sketch *sketch, const json_t *card, struct error *e)
{
  struct insertion insertion = {.measured = &measurement->measured};
  char id[37], created_at[WRITE_TIME_SIZE], workload[65], model[129], scorecard[37];
  char *stack = sketch_stack_text(sketch);
  json_t *document;
  char *text;
  enum err rc;
  call_new_id(call, id, 0);
  (void)snprintf(workload, sizeof workload, "%s", sketch->workload.name);
  (void)snprintf(model, sizeof model, "%s", sketch->model_name);
  (void)snprintf(scorecard, sizeof scorecard, "%s", json_string_value(card_at(card, "id")));
  write_time(created_at, call->now_ms);
  document = document_write(id, created_at, measurement, sketch, card);
  text = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL;
  json_decref(document);
  if (text == NULL || stack == NULL) {
    free(text);
    free(stack);
    return error_set(e, ERR_NOMEM, "", "not enough memory to store the measurement");
  }
  insertion.row = (struct store_measurement){.id = id,
                                             .created_at_ms = call->now_ms,
                                             .workload = workload,
                                             .model = model,
                                             .profile = measurement->profile,
                                             .stack = stack,
                                             .scorecard = scorecard,
                                             .document = text};
  rc = store_write(call_store(call), "measurement", insert, &insertion, e);
  free(stack);
  if (rc != ERR_OK) {
    free(text);
    return rc;
  }
  respond_header(out, "Location", "/v1/measurements/%s", id);
  return respond_string_steal(out, 201, "application/json", text, e);
}

/* The prediction is an evaluation like any other, stored under a label of its own. */
static enum err predict(struct api_call *call, struct api_response *out, struct measurement *measurement,
                        const struct sketch *sketch, struct error *e)
{
  const struct evaluation_options options = {.label = "measurement",
                                             .now_ms = call->now_ms,
                                             .arena_bytes = call_deps(call)->arena_bytes,
                                             .deps = call_deps(call)};
  struct evaluation evaluation = {.head = NULL};
  struct evaluation_texts texts = {NULL, NULL, 0};
  enum err rc = evaluation_run(&evaluation, sketch, &options, e);
  if (rc == ERR_INVALID)
    faults_add(call->faults, FAULT_UNSUPPORTED, e->pointer, NULL, "%s", e->message);
  if (rc == ERR_OK)
    rc = evaluation_texts_make(&texts, &evaluation, e);
  if (rc == ERR_OK)
    rc = evaluation_store(call_store(call), &evaluation, sketch, &texts, call->now_ms, e);
  if (rc == ERR_OK)
    rc = store(call, out, measurement, sketch, json_array_get(evaluation.scorecards, 0), e);
  evaluation_texts_fini(&texts);
  evaluation_fini(&evaluation);
  return rc;
}

enum err measurements_post(struct api_call *call, struct api_response *out, struct error *e)
{
  const struct catalogue_snapshot *snapshot = NULL;
  struct measurement measurement;
  struct sketch sketch;
  json_t *body;
  enum err rc;
  read_body(&measurement, call);
  if (!json_is_object(measurement.sketch)) {
    if (measurement.sketch != NULL)
      faults_add(call->faults, FAULT_WRONG_TYPE, "/sketch", NULL, "is %s; a sketch is expected",
                 read_type_name(measurement.sketch));
    return error_set(e, ERR_INVALID, "", "the measurement is not valid");
  }
  body = sketch_of_run(&measurement);
  if (body == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the measurement");
  rc = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (rc != ERR_OK) {
    json_decref(body);
    return rc;
  }
  read_sketch(&sketch, snapshot, &measurement, body, call->faults);
  rc = trace_check_sketch(call, &sketch, "/sketch", e);
  if (rc == ERR_OK && call->faults->count > 0)
    rc = error_set(e, ERR_INVALID, "", "the measurement is not valid");
  else if (rc == ERR_OK)
    rc = predict(call, out, &measurement, &sketch, e);
  sketch_fini(&sketch);
  catalogue_release(call_catalogue(call), snapshot);
  json_decref(body);
  return rc;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------- */

enum err measurements_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_history_filter filter;
  struct store_measurements list = {.rows = NULL};
  struct store_page page;
  enum err rc = history_filter(&filter, &page, call, e);
  if (rc == ERR_OK)
    rc = store_measurement_list(call_store(call), &list, &filter, &page, e);
  if (rc != ERR_OK)
    return rc;
  const struct page_rows rows = {.rows = list.rows,
                                 .size = sizeof *list.rows,
                                 .count = list.count,
                                 .document_at = offsetof(struct store_measurement, document),
                                 .key_at = offsetof(struct store_measurement, id),
                                 .has_more = list.has_more};
  rc = respond_page_rows(call, out, &rows, e);
  store_measurements_fini(&list);
  return rc;
}

enum err measurements_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_measurement row;
  char *document;
  enum err rc = store_measurement_get(call_store(call), &row, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  document = row.document;
  row.document = NULL;
  store_measurement_fini(&row);
  return respond_string_steal(out, 200, "application/json", document, e);
}
