/* /v1/gates: signed targets, their baselines and waivers, and the checks that pipelines run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/document.h"
#include "api/gate.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/json_memory.h"
#include "api/pointer.h"
#include "api/problem.h"
#include "api/put.h"
#include "api/read.h"
#include "api/write.h"

/* ---- Answers -------------------------------------------------------------------------------------------------------- */

static enum err baselines_json(json_t **to, const struct api_call *call, int64_t gate, struct error *e)
{
  struct store_gate_baselines list;
  const enum err rc = store_gate_baselines(call_store(call), &list, gate, e);
  *to = json_object();
  if (rc != ERR_OK)
    return rc;
  for (size_t i = 0; i < list.count; i++) {
    json_t *row = json_object();
    put_member(&row, "scorecard", json_string(list.rows[i].scorecard));
    put_member(&row, "set_at", record_time(list.rows[i].set_at_ms));
    put_member(&row, "chosen", json_boolean(list.rows[i].is_chosen));
    put_member(to, list.rows[i].profile, row);
  }
  store_gate_baselines_fini(&list);
  return ERR_OK;
}

static enum err waivers_json(json_t **to, const struct api_call *call, int64_t gate, struct error *e)
{
  struct store_gate_records list;
  enum err rc = store_gate_waivers(call_store(call), &list, gate, call->now_ms, e);
  *to = json_array();
  if (rc != ERR_OK)
    return rc;
  for (size_t i = 0; i < list.count && rc == ERR_OK; i++) {
    json_t *waiver;
    rc = record_parse(&waiver, list.rows[i].document, e);
    if (rc == ERR_OK)
      put_element(to, waiver);
  }
  store_gate_records_fini(&list);
  return rc;
}

/* Baselines and waivers come last: the tag of a conditional PUT covers them too. */
static enum err gate_answer(char **text, const struct api_call *call, const struct store_gate *row, struct error *e)
{
  json_t *head = json_object(), *tail = json_object(), *baselines = NULL, *waivers = NULL;
  char *own;
  enum err rc = baselines_json(&baselines, call, row->id, e);
  *text = NULL;
  if (rc == ERR_OK)
    rc = waivers_json(&waivers, call, row->id, e);
  put_member(&head, "name", json_string(row->name));
  put_member(&head, "revision", json_integer(row->revision));
  put_member(&head, "created_at", record_time(row->created_at_ms));
  put_member(&head, "changed_at", record_time(row->changed_at_ms));
  put_member(&tail, "baselines", baselines);
  put_member(&tail, "waivers", waivers);
  own = record_splice_steal(head, row->document);
  if (rc == ERR_OK && own != NULL && tail != NULL) {
    json_t *whole = json_loads(own, 0, NULL);
    if (whole != NULL && json_object_update(whole, tail) == 0)
      *text = json_memory_dumps(whole, WRITE_FLAGS);
    json_decref(whole);
  }
  free(own);
  json_decref(tail);
  return rc == ERR_OK && *text == NULL ? record_nomem(e) : rc;
}

enum err gates_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_gate row;
  char *text;
  enum err rc = store_gate_get(call_store(call), &row, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  rc = gate_answer(&text, call, &row, e);
  store_gate_fini(&row);
  return rc == ERR_OK ? respond_string_steal(out, 200, "application/json", text, e) : rc;
}

enum err gates_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_gates list;
  struct store_page page;
  char **texts;
  enum err rc;
  if (!call_page(call, &page))
    return ERR_INVALID;
  rc = store_gate_list(call_store(call), &list, call_query(call, "workload"), &page, e);
  if (rc != ERR_OK)
    return rc;
  texts = calloc(list.count + 1, sizeof *texts);
  if (texts == NULL)
    rc = record_nomem(e);
  for (size_t i = 0; i < list.count && rc == ERR_OK; i++)
    rc = gate_answer(&texts[i], call, &list.rows[i], e);
  if (rc == ERR_OK)
    rc = record_respond_texts(call, out, texts, list.count, list.has_more ? list.rows[list.count - 1].name : NULL, e);
  record_free_texts(texts, list.count);
  store_gates_fini(&list);
  return rc;
}

/* ---- PUT and DELETE ------------------------------------------------------------------------------------------------- */

/* Everything but what the service adds, and whose token put it. */
static json_t *gate_document(const struct api_call *call)
{
  static const char *const ours[] = {"name",       "revision",  "created_at", "changed_at",
                                     "changed_by", "baselines", "waivers"};
  json_t *document = json_copy(call->body);
  for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
    (void)json_object_del(document, ours[i]); /* absent is fine */
  put_member(&document, "changed_by", record_token(call));
  return document;
}

/* The path's, and the body's where what GET answers is sent back. */
static void check_name(struct api_call *call)
{
  const json_t *given = json_object_get(call->body, "name");
  if (!read_is_name(call->params[0]))
    faults_add(call->faults, FAULT_WRONG_TYPE, "{name}", NULL,
               "\"%.64s\" is no name: lower-case letters, digits, \".\", \"_\" and \"-\", at most 64, are expected",
               call->params[0]);
  if (given != NULL && (!json_is_string(given) || strcmp(json_string_value(given), call->params[0]) != 0))
    faults_add(call->faults, FAULT_CONFLICT, "/name", call->params[0], "is not the name in the path, \"%s\"",
               call->params[0]);
}

static enum err read_body(struct api_call *call, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  struct gate gate;
  enum err rc = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (rc != ERR_OK)
    return rc;
  check_name(call);
  gate_read(&gate, call->body, snapshot, call->now_ms, call->faults);
  catalogue_release(call_catalogue(call), snapshot);
  return record_check(call, e);
}

/* What is stored under the name; *old is the caller's, NULL when there is nothing. *expected: see document_compare_tag. */
static enum err look_at_old(json_t **old, int *expected, const struct api_call *call, struct error *e)
{
  struct store_gate row;
  char tag[ETAG_SIZE], *text = NULL;
  enum err rc = store_gate_get(call_store(call), &row, call->params[0], e);
  *old = NULL;
  *expected = -1;
  if (rc == ERR_NOT_FOUND)
    return document_compare_tag(call, "gate", NULL, e);
  if (rc != ERR_OK)
    return rc;
  rc = gate_answer(&text, call, &row, e);
  if (rc == ERR_OK) {
    etag_of(tag, text, strlen(text));
    rc = document_compare_tag(call, "gate", tag, e);
  }
  if (rc == ERR_OK)
    rc = record_parse(old, row.document, e);
  if (call->request->header != NULL && call->request->header(call->request->cls, "If-Match") != NULL)
    *expected = row.revision;
  free(text);
  store_gate_fini(&row);
  return rc;
}

struct put_work {
  struct store_gate row;
  int expected_revision;
  bool is_signed_anew, is_created;
};

static enum err put_work(struct store_tx *tx, void *cls, struct error *e)
{
  struct put_work *work = cls;
  return store_gate_put(tx, &work->row, work->expected_revision, work->is_signed_anew, &work->is_created, e);
}

enum err gates_put(struct api_call *call, struct api_response *out, struct error *e)
{
  struct put_work work = {.row = {.name = call->params[0], .changed_at_ms = call->now_ms}};
  char workload[65];
  json_t *document, *old = NULL;
  enum err rc = read_body(call, e);
  if (rc == ERR_OK)
    rc = look_at_old(&old, &work.expected_revision, call, e);
  if (rc != ERR_OK)
    return rc;
  document = gate_document(call);
  work.is_signed_anew =
      !pointer_same_value(json_object_get(old, "signed_off"), json_object_get(document, "signed_off"));
  (void)snprintf(workload, sizeof workload, "%s", json_string_value(json_object_get(call->body, "workload")));
  work.row.workload = workload;
  work.row.document = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL;
  rc = work.row.document != NULL ? store_write(call_store(call), "gate", put_work, &work, e) : record_nomem(e);
  if (rc == ERR_OK)
    rc = gates_get(call, out, e);
  if (rc == ERR_OK && work.is_created) {
    out->status = 201;
    respond_header(out, "Location", "/v1/gates/%s", call->params[0]);
  }
  free(work.row.document);
  json_decref(document);
  json_decref(old);
  return rc;
}

static enum err delete_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_gate_delete(tx, cls, e);
}

enum err gates_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  int expected;
  json_t *old;
  enum err rc = look_at_old(&old, &expected, call, e);
  json_decref(old);
  if (rc == ERR_OK)
    rc = store_write(call_store(call), "gate", delete_work, call->params[0], e);
  if (rc == ERR_OK)
    out->status = 204;
  return rc;
}

/* ---- Baselines ------------------------------------------------------------------------------------------------------ */

struct baseline_work {
  int64_t gate;
  struct store_gate_baseline row;
};

static enum err baseline_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct baseline_work *work = cls;
  return store_gate_set_baseline(tx, work->gate, &work->row, e);
}

/* A scorecard of the gate's workload that has figures. */
static enum err check_baseline(struct api_call *call, const struct store_gate *gate, const char *id, char profile[65],
                               struct error *e)
{
  struct store_scorecard row;
  enum err rc = store_scorecard_get(call_store(call), &row, id, e);
  if (rc == ERR_NOT_FOUND) {
    faults_add(call->faults, FAULT_UNKNOWN_NAME, "/scorecard", NULL, "there is no scorecard with this id");
    return record_check(call, e);
  }
  if (rc != ERR_OK)
    return rc;
  if (strcmp(row.workload, gate->workload) != 0)
    faults_add(call->faults, FAULT_CONFLICT, "/scorecard", NULL, "is one of the workload %s; the gate covers %s",
               row.workload, gate->workload);
  else if (row.output_tokens_per_s < 0)
    faults_add(call->faults, FAULT_CONFLICT, "/scorecard", NULL, "has no figures to compare with: it is %s",
               row.verdict);
  (void)snprintf(profile, 65, "%s", row.profile);
  store_scorecard_fini(&row);
  return record_check(call, e);
}

enum err gates_baseline_post(struct api_call *call, struct api_response *out, struct error *e)
{
  char id[40] = "", profile[65];
  const struct read_field fields[] = {
      {.name = "scorecard", .kind = READ_TEXT, .is_required = true, .to = id, .size = sizeof id}};
  struct store_gate gate;
  struct baseline_work work;
  enum err rc = store_gate_get(call_store(call), &gate, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  (void)read_object(call->body, "", fields, 1, call->faults);
  rc = record_check(call, e);
  if (rc == ERR_OK)
    rc = check_baseline(call, &gate, id, profile, e);
  if (rc == ERR_OK) {
    work = (struct baseline_work){gate.id, {profile, id, call->now_ms, true}};
    rc = store_write(call_store(call), "gate baseline", baseline_work, &work, e);
  }
  store_gate_fini(&gate);
  return rc == ERR_OK ? gates_get(call, out, e) : rc;
}

/* ---- Waivers -------------------------------------------------------------------------------------------------------- */

struct waiver {
  char metric[128];
  const char *by, *rationale;
  struct record_moment expires_at;
};

static void check_waiver(struct api_call *call, const struct waiver *waiver, const struct gate *gate)
{
  const char *metrics[GATE_METRICS_MAX + 1];
  const char *const *known;
  char excerpt[READ_EXCERPT_SIZE];
  if (waiver->expires_at.is_given && record_moment_end_ms(&waiver->expires_at) <= call->now_ms)
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "/expires_at", NULL, "has passed already");
  if (waiver->metric[0] == '\0')
    return;
  gate_metrics(metrics, gate);
  for (known = metrics; *known != NULL && strcmp(*known, waiver->metric) != 0; known++)
    ;
  if (*known == NULL)
    faults_add(call->faults, FAULT_UNKNOWN_NAME, "/metric", read_nearest(waiver->metric, metrics),
               "the gate asks nothing of \"%s\"", read_excerpt(excerpt, waiver->metric));
}

static enum err read_waiver(struct waiver *waiver, struct api_call *call, const struct store_gate *row, struct error *e)
{
  const struct read_field fields[] = {
      {.name = "metric", .kind = READ_TEXT, .is_required = true, .to = waiver->metric, .size = sizeof waiver->metric},
      {.name = "by", .kind = READ_CALL, .is_required = true, .to = &waiver->by, .call = record_read_line},
      {.name = "rationale",
       .kind = READ_CALL,
       .is_required = true,
       .to = &waiver->rationale,
       .call = record_read_prose},
      {.name = "expires_at",
       .kind = READ_CALL,
       .is_required = true,
       .to = &waiver->expires_at,
       .call = record_read_moment},
  };
  struct gate gate;
  json_t *document;
  enum err rc = record_parse(&document, row->document, e);
  if (rc != ERR_OK)
    return rc;
  gate_read(&gate, document, NULL, call->now_ms, call->faults);
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  check_waiver(call, waiver, &gate);
  json_decref(document);
  return record_check(call, e);
}

struct waiver_work {
  int64_t gate;
  struct store_gate_record row;
};

static enum err waiver_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct waiver_work *work = cls;
  return store_gate_waiver_insert(tx, work->gate, &work->row, e);
}

static enum err store_waiver(struct api_call *call, struct api_response *out, const struct store_gate *gate,
                             const struct waiver *waiver, struct error *e)
{
  char id[37];
  json_t *to = json_object();
  struct waiver_work work = {.gate = gate->id, .row = {.id = id, .created_at_ms = call->now_ms}};
  enum err rc;
  call_new_id(call, id, 0);
  work.row.expires_at_ms = record_moment_end_ms(&waiver->expires_at);
  put_member(&to, "id", json_string(id));
  put_member(&to, "created_at", record_time(call->now_ms));
  put_member(&to, "gate", json_string(gate->name));
  put_member(&to, "metric", json_string(waiver->metric));
  put_member(&to, "by", json_string(waiver->by));
  put_member(&to, "token", record_token(call));
  put_member(&to, "rationale", json_string(waiver->rationale));
  put_member(&to, "expires_at", json_string(waiver->expires_at.text));
  work.row.document = to != NULL ? json_memory_dumps(to, WRITE_FLAGS) : NULL;
  json_decref(to);
  rc = work.row.document != NULL ? store_write(call_store(call), "waiver", waiver_work, &work, e) : record_nomem(e);
  if (rc == ERR_OK)
    return respond_string_steal(out, 201, "application/json", work.row.document, e);
  free(work.row.document);
  return rc;
}

enum err gates_waivers_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_gate gate;
  struct waiver waiver = {.metric = ""};
  enum err rc = store_gate_get(call_store(call), &gate, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  rc = read_waiver(&waiver, call, &gate, e);
  if (rc == ERR_OK)
    rc = store_waiver(call, out, &gate, &waiver, e);
  store_gate_fini(&gate);
  return rc;
}

/* ---- Checks --------------------------------------------------------------------------------------------------------- */

/* The check as a refusal: 409 with the members of both. */
static enum err respond_refusal(struct api_call *call, struct api_response *out, const json_t *check, struct error *e)
{
  const char *verdict = json_string_value(json_object_get(check, "verdict"));
  const char *why = json_string_value(json_object_get(json_array_get(json_object_get(check, "reasons"), 0), "message"));
  json_t *problem;
  char *text = NULL;
  api_problem(out, 409, "gate-not-passed", call->request->request_id, call->request->path, "gate %s: %s",
              call->params[0], why != NULL ? why : verdict);
  problem = out->bytes != NULL ? json_loadb(out->bytes, out->bytes_len, 0, NULL) : NULL;
  if (problem != NULL && json_object_update(problem, read_iterable(check)) == 0)
    text = json_memory_dumps(problem, WRITE_FLAGS);
  json_decref(problem);
  api_response_fini(out);
  return respond_string_steal(out, 409, "application/problem+json", text, e);
}

enum err gates_checks_post(struct api_call *call, struct api_response *out, struct error *e)
{
  static const char *const booleans[] = {"true", "false", NULL};
  int enforce = 1;
  const struct read_field field = {.kind = READ_WORD, .to = &enforce, .words = booleans};
  struct store_gate row;
  json_t *check = NULL;
  bool stops = false;
  enum err rc = store_gate_get(call_store(call), &row, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  history_query(call, "enforce", &field);
  rc = gate_check(&check, &stops, call, &row, e);
  store_gate_fini(&row);
  if (rc == ERR_OK && enforce == 0 && stops)
    rc = respond_refusal(call, out, check, e);
  else if (rc == ERR_OK)
    rc = respond_json_steal(out, 201, json_incref(check), e);
  json_decref(check);
  return rc;
}

enum err gates_checks_list(struct api_call *call, struct api_response *out, struct error *e)
{
  int verdict = -1;
  const struct read_field field = {.kind = READ_WORD, .to = &verdict, .words = gate_verdicts};
  struct store_gate_check_filter filter = {.gate = call->params[0]};
  struct store_gate_records list;
  struct record_moment since;
  struct store_page page;
  const char **texts;
  enum err rc;
  (void)call_page(call, &page); /* its faults are counted below */
  history_query(call, "verdict", &field);
  record_query_moment(&since, call, "since");
  filter.verdict = verdict >= 0 ? gate_verdicts[verdict] : NULL;
  filter.since_ms = since.ms;
  rc = record_check(call, e);
  if (rc == ERR_OK)
    rc = store_gate_check_list(call_store(call), &list, &filter, &page, e);
  if (rc != ERR_OK)
    return rc;
  texts = calloc(list.count + 1, sizeof *texts);
  for (size_t i = 0; texts != NULL && i < list.count; i++)
    texts[i] = list.rows[i].document;
  rc = texts != NULL
           ? respond_page_texts(call, out, texts, list.count, list.has_more ? list.rows[list.count - 1].id : NULL, e)
           : record_nomem(e);
  free(texts);
  store_gate_records_fini(&list);
  return rc;
}
