/* Knobs of a workload with the value in force. */
#include "api/knobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluation.h"
#include "api/pointer.h"
#include "api/put.h"
#include "api/read.h"
#include "api/record.h"
#include "core/knob.h"

#define KNOBS_MAX 1000 /* of one workload: a page of the store */

/* ---- Loading -------------------------------------------------------------------------------------------------------- */

void knobs_fini(struct knobs *knobs)
{
  for (size_t i = 0; i < knobs->count; i++) {
    json_decref(knobs->rows[i].document);
    json_decref(knobs->rows[i].value);
  }
  free(knobs->rows);
  *knobs = (struct knobs){NULL, 0};
}

static enum err take_row(struct agreed_knob *to, const struct store_knob *row, struct error *e)
{
  enum err rc = record_parse(&to->document, row->document, e);
  if (rc != ERR_OK)
    return rc;
  (void)snprintf(to->name, sizeof to->name, "%s", row->name);
  to->value = record_share(json_object_get(to->document, "value"));
  return ERR_OK;
}

/* What the decision set, unless the knob was registered anew after it. */
static enum err take_decision(struct agreed_knob *to, const struct store_decision *decision, struct error *e)
{
  json_t *document;
  enum err rc = record_parse(&document, decision->document, e);
  if (rc != ERR_OK)
    return rc;
  json_decref(to->value);
  to->value = record_share(json_object_get(document, "to"));
  (void)snprintf(to->decision, sizeof to->decision, "%s", decision->id);
  json_decref(document);
  return ERR_OK;
}

static enum err take_decisions(struct knobs *knobs, struct store *store, const char *workload, int64_t as_of_ms,
                               struct error *e)
{
  const struct store_decision_filter filter = {.workload = workload, .as_of_ms = as_of_ms, .only_in_force = true};
  const struct store_page page = {.limit = KNOBS_MAX};
  struct store_decisions list;
  enum err rc = store_decision_list(store, &list, &filter, &page, e);
  for (size_t i = 0; rc == ERR_OK && i < knobs->count; i++)
    for (size_t k = 0; k < list.count; k++)
      if (strcmp(list.rows[k].knob, knobs->rows[i].name) == 0) {
        rc = take_decision(&knobs->rows[i], &list.rows[k], e);
        break;
      }
  if (rc == ERR_OK || list.rows != NULL)
    store_decisions_fini(&list);
  return rc;
}

enum err knobs_load(struct knobs *out, struct store *store, const char *workload, int64_t as_of_ms, struct error *e)
{
  const struct store_page page = {.limit = KNOBS_MAX};
  struct store_knobs list;
  enum err rc = store_knob_list(store, &list, workload, &page, e);
  *out = (struct knobs){NULL, 0};
  if (rc != ERR_OK)
    return rc;
  out->rows = calloc(list.count + 1, sizeof *out->rows);
  if (out->rows == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for the knobs");
  for (size_t i = 0; i < list.count && rc == ERR_OK; i++) {
    rc = take_row(&out->rows[i], &list.rows[i], e);
    out->count += rc == ERR_OK ? 1 : 0;
  }
  store_knobs_fini(&list);
  if (rc == ERR_OK && out->count > 0)
    rc = take_decisions(out, store, workload, as_of_ms, e);
  if (rc != ERR_OK)
    knobs_fini(out);
  return rc;
}

const struct agreed_knob *knobs_find(const struct knobs *knobs, const char *name)
{
  for (size_t i = 0; i < knobs->count; i++)
    if (strcmp(knobs->rows[i].name, name) == 0)
      return &knobs->rows[i];
  return NULL;
}

const char *knobs_text(const struct agreed_knob *knob, const char *member)
{
  return json_string_value(json_object_get(knob->document, member));
}

/* ---- Turned without a decision -------------------------------------------------------------------------------------- */

json_t *knobs_undecided(const struct knobs *knobs, const json_t *sketch)
{
  json_t *changes = json_array();
  for (size_t i = 0; i < knobs->count; i++) {
    const struct agreed_knob *knob = &knobs->rows[i];
    const char *pointer = knobs_text(knob, "pointer");
    json_t *seen = pointer != NULL ? pointer_sketch_value(sketch, pointer) : NULL, *change;
    if (seen == NULL || pointer_same_value(seen, knob->value))
      continue;
    change = json_object();
    put_member(&change, "knob", json_string(knob->name));
    put_member(&change, "kind", record_share(json_object_get(knob->document, "kind")));
    put_member(&change, "pointer", json_string(pointer));
    put_member(&change, "from", record_share(knob->value));
    put_member(&change, "to", record_share(seen));
    put_member(&change, "owner", record_share(json_object_get(knob->document, "owner")));
    put_element(&changes, change);
  }
  return changes;
}

/* ---- Safe ranges ---------------------------------------------------------------------------------------------------- */

static bool is_pair(const json_t *range)
{
  return json_array_size(range) == 2 && json_is_number(json_array_get(range, 0)) &&
         json_is_number(json_array_get(range, 1));
}

static void check_bounds(const json_t *low, const json_t *high, const char *pointer, struct faults *faults)
{
  if (low != NULL && high != NULL && json_number_value(low) > json_number_value(high))
    faults_add(faults, FAULT_CONFLICT, pointer, NULL, "the least value %g is above the largest %g",
               json_number_value(low), json_number_value(high));
}

static void check_range_object(const json_t *range, const char *pointer, struct faults *faults)
{
  double low = 0, high = 0;
  const json_t *values = NULL;
  const struct read_field fields[] = {
      {.name = "min", .kind = READ_NUMBER, .to = &low},
      {.name = "max", .kind = READ_NUMBER, .to = &high},
      {.name = "values", .kind = READ_CALL, .to = &values, .call = record_read_any},
  };
  if (!read_object(range, pointer, fields, sizeof fields / sizeof fields[0], faults))
    return;
  if (values != NULL && (!json_is_array(values) || json_array_size(values) == 0))
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "values is %s; a list of values is expected",
               json_is_array(values) ? "empty" : read_type_name(values));
  else if (values == NULL && json_object_get(range, "min") == NULL && json_object_get(range, "max") == NULL)
    faults_add(faults, FAULT_MISSING, pointer, NULL, "min, max or values is expected");
  check_bounds(json_object_get(range, "min"), json_object_get(range, "max"), pointer, faults);
}

void knobs_check_range(const json_t *range, const char *pointer, struct faults *faults)
{
  if (json_is_object(range))
    check_range_object(range, pointer, faults);
  else if (!json_is_array(range) || json_array_size(range) == 0)
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; {\"min\", \"max\"}, {\"values\": […]} or a list is expected",
               json_is_array(range) ? "an empty list" : read_type_name(range));
  else if (is_pair(range))
    check_bounds(json_array_get(range, 0), json_array_get(range, 1), pointer, faults);
}

static bool is_between(const json_t *value, const json_t *low, const json_t *high)
{
  const double number = json_number_value(value);
  return json_is_number(value) && (!json_is_number(low) || number >= json_number_value(low)) &&
         (!json_is_number(high) || number <= json_number_value(high));
}

static bool is_listed(const json_t *value, const json_t *values)
{
  for (size_t i = 0; i < json_array_size(values); i++)
    if (pointer_same_value(value, json_array_get(values, i)))
      return true;
  return false;
}

bool knobs_is_safe(const json_t *range, const json_t *value)
{
  if (is_pair(range))
    return is_between(value, json_array_get(range, 0), json_array_get(range, 1));
  if (json_is_array(range))
    return is_listed(value, range);
  if (!json_is_object(range))
    return true;
  if (json_object_get(range, "values") != NULL)
    return is_listed(value, json_object_get(range, "values"));
  return is_between(value, json_object_get(range, "min"), json_object_get(range, "max"));
}

/* ---- Pointer and value ---------------------------------------------------------------------------------------------- */

/* The official sketch of the workload, or a plain one. *out is the caller's. */
static enum err sketch_to_patch(json_t **out, struct store *store, const struct catalogue_snapshot *snapshot,
                                const char *workload, struct error *e)
{
  struct store_document row = {.name = NULL};
  json_t *source;
  enum err rc = store_document_get(store, &row, STORE_WORKLOAD, workload, 0, e);
  if (rc == ERR_NOT_FOUND) {
    *out = json_pack("{s:s, s:s, s:{s:i, s:i, s:f}}", "workload", workload, "model",
                     snapshot->model_count > 0 ? snapshot->models[0].name : "", "traffic", "input_tokens", 512,
                     "output_tokens", 128, "requests_per_s", 1.0);
    return *out != NULL ? ERR_OK : record_nomem(e);
  }
  if (rc != ERR_OK)
    return rc;
  rc = record_parse(&source, row.source, e);
  if (rc == ERR_OK) {
    *out = json_deep_copy(json_object_get(source, "sketch"));
    json_decref(source);
    rc = *out != NULL ? ERR_OK : record_nomem(e);
  }
  store_document_fini(&row);
  return rc;
}

/* One of the two pointers leads to the other. */
static bool is_on_the_way(const char *a, const char *b)
{
  const size_t length = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
  const char *longer = strlen(a) < strlen(b) ? b : a;
  return strncmp(a, b, length) == 0 && (longer[length] == '\0' || longer[length] == '/');
}

/* What is said of the pointer's own place; what contradicts other fields of the sketch, or is missing, is not the knob's. */
static void take_faults(const struct faults *from, const char *pointer, const char *pointer_at, const json_t *value,
                        const char *value_at, struct faults *to)
{
  for (size_t i = 0; i < from->count; i++) {
    const struct fault *fault = &from->items[i];
    const char *suggestion = fault->suggestion[0] != '\0' ? fault->suggestion : NULL;
    if (!is_on_the_way(fault->pointer, pointer) || fault->code == FAULT_MISSING || fault->code == FAULT_CONFLICT)
      continue;
    if (fault->code == FAULT_UNKNOWN_FIELD)
      faults_add(to, FAULT_UNKNOWN_FIELD, pointer_at, suggestion, "a sketch has no %s", fault->pointer);
    else if (value != NULL)
      faults_add(to, fault->code, value_at, suggestion, "%s", fault->detail);
    else
      continue;
    return; /* one fault says it */
  }
}

/* Short forms on the way ("precision": "fp8", "input_tokens": 2048) make room for their long ones. */
static bool open_short_forms(json_t *sketch, const char *pointer)
{
  char way[160];
  for (const char *at = strchr(pointer + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
    const json_t *parent;
    json_t *object;
    bool is_set;
    (void)snprintf(way, sizeof way, "%.*s", (int)(at - pointer), pointer);
    parent = pointer_get(sketch, way);
    if (!json_is_string(parent) && !json_is_number(parent))
      continue;
    object = json_object();
    is_set = pointer_set(sketch, way, object);
    json_decref(object);
    if (!is_set)
      return false;
  }
  return true;
}

/* A JSON Pointer that leads somewhere in the sketch, to which the value is set. */
static bool patch(json_t *sketch, const char *pointer, json_t *value)
{
  return pointer_is_valid(pointer) && pointer[0] == '/' && open_short_forms(sketch, pointer) &&
         pointer_set(sketch, pointer, value);
}

/* Into the resolved model or the profile, as /v1/what-ifs knows them: no fields of the sketch itself. */
static bool is_of_what_the_sketch_names(const char *pointer)
{
  return strncmp(pointer, "/model/", 7) == 0 || strncmp(pointer, "/profile/", 9) == 0;
}

static void check_named(const char *pointer, const char *pointer_at, struct faults *faults)
{
  for (const char *const *known = knob_pointers; *known != NULL; known++)
    if (strcmp(*known, pointer) == 0)
      return;
  faults_add(faults, FAULT_UNKNOWN_VALUE, pointer_at, read_nearest(pointer, knob_pointers),
             "\"%.80s\" is nothing that can be turned", pointer);
}

enum err knobs_check_value(struct store *store, const struct catalogue_snapshot *snapshot, const char *workload,
                           const char *pointer, const char *pointer_at, const json_t *value, const char *value_at,
                           struct faults *faults, struct error *e)
{
  json_t *patched = NULL, *set = value != NULL ? json_deep_copy(value) : json_null();
  struct faults *seen = calloc(1, sizeof *seen);
  struct sketch sketch;
  enum err rc = set != NULL && seen != NULL ? sketch_to_patch(&patched, store, snapshot, workload, e) : record_nomem(e);
  if (rc != ERR_OK)
    goto out;
  if (is_of_what_the_sketch_names(pointer)) {
    check_named(pointer, pointer_at, faults);
    goto out;
  }
  if (!patch(patched, pointer, set)) {
    faults_add(faults, FAULT_UNKNOWN_VALUE, pointer_at, NULL,
               "\"%.80s\" leads nowhere in a sketch; a JSON Pointer like /serving/max_batch is expected", pointer);
    goto out;
  }
  sketch_read(&sketch, snapshot, patched, "", seen);
  take_faults(seen, pointer, pointer_at, value, value_at, faults);
  sketch_fini(&sketch);
out:
  json_decref(patched);
  json_decref(set);
  free(seen);
  return rc;
}
