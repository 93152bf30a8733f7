/* /v1/knobs: what may be turned in a workload's sketch, by whom, and how it is turned back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/document.h"
#include "api/handlers.h"
#include "api/json_memory.h"
#include "api/knobs.h"
#include "api/pointer.h"
#include "api/put.h"
#include "api/read.h"
#include "api/record.h"
#include "api/write.h"

static const char *const kinds[] = {"batching_policy",       "precision",    "max_context", "parallelism",
                                    "runtime_configuration", "architecture", "hardware",    NULL};

/* ---- Answers -------------------------------------------------------------------------------------------------------- */

static char *knob_answer(const struct store_knob *row)
{
  json_t *head = json_object();
  put_member(&head, "workload", json_string(row->workload));
  put_member(&head, "knob", json_string(row->name));
  put_member(&head, "revision", json_integer(row->revision));
  put_member(&head, "created_at", record_time(row->created_at_ms));
  put_member(&head, "changed_at", record_time(row->changed_at_ms));
  return record_splice_steal(head, row->document);
}

static enum err list_knobs(struct api_call *call, struct api_response *out, const char *workload, struct error *e)
{
  struct store_knobs list = {.rows = NULL};
  struct store_page page;
  char **texts, after[24];
  enum err rc;
  if (!call_page(call, &page))
    return ERR_INVALID;
  rc = store_knob_list(call_store(call), &list, workload, &page, e);
  if (rc != ERR_OK)
    return rc;
  texts = calloc(list.count + 1, sizeof *texts);
  for (size_t i = 0; texts != NULL && i < list.count; i++)
    texts[i] = knob_answer(&list.rows[i]);
  (void)snprintf(after, sizeof after, "%lld", list.count > 0 ? (long long)list.rows[list.count - 1].id : 0);
  rc = texts != NULL ? record_respond_texts(call, out, texts, list.count, list.has_more ? after : NULL, e)
                     : record_nomem(e);
  record_free_texts(texts, list.count);
  store_knobs_fini(&list);
  return rc;
}

enum err knobs_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return list_knobs(call, out, call_query(call, "workload"), e);
}

enum err knobs_of_workload_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return list_knobs(call, out, call->params[0], e);
}

enum err knobs_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_knob row;
  enum err rc = store_knob_get(call_store(call), &row, call->params[0], call->params[1], e);
  if (rc != ERR_OK)
    return rc;
  rc = respond_string_steal(out, 200, "application/json", knob_answer(&row), e);
  store_knob_fini(&row);
  return rc;
}

/* ---- Writing -------------------------------------------------------------------------------------------------------- */

struct knob_body {
  int kind;
  char pointer[160];
  const char *owner, *rollback_plan;
  const json_t *value, *safe_range;
};

static void check_name(struct api_call *call, const char *what, const char *name)
{
  if (!read_is_name(name))
    faults_add(call->faults, FAULT_WRONG_TYPE, what, NULL,
               "\"%.64s\" is no name: lower-case letters, digits, \".\", \"_\" and \"-\", at most 64, are expected",
               name);
}

static enum err check_value(struct api_call *call, const struct knob_body *body, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  enum err rc = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (rc != ERR_OK)
    return rc;
  rc = knobs_check_value(call_store(call), snapshot, call->params[0], body->pointer, "/pointer", body->value, "/value",
                         call->faults, e);
  catalogue_release(call_catalogue(call), snapshot);
  return rc;
}

static enum err read_body(struct knob_body *to, struct api_call *call, struct error *e)
{
  const struct read_field fields[] = {
      {.name = "kind", .kind = READ_WORD, .is_required = true, .to = &to->kind, .words = kinds},
      {.name = "pointer", .kind = READ_TEXT, .is_required = true, .to = to->pointer, .size = sizeof to->pointer},
      {.name = "owner", .kind = READ_CALL, .allows_null = true, .to = &to->owner, .call = record_read_line},
      {.name = "rollback_plan",
       .kind = READ_CALL,
       .allows_null = true,
       .to = &to->rollback_plan,
       .call = record_read_prose},
      {.name = "value", .kind = READ_CALL, .allows_null = true, .to = &to->value, .call = record_read_any},
      {.name = "safe_range", .kind = READ_CALL, .allows_null = true, .to = &to->safe_range, .call = record_read_any},
      /* what GET answers may be sent back */
      {.name = "workload", .kind = READ_IGNORE},
      {.name = "knob", .kind = READ_IGNORE},
      {.name = "revision", .kind = READ_IGNORE},
      {.name = "created_at", .kind = READ_IGNORE},
      {.name = "changed_at", .kind = READ_IGNORE},
  };
  enum err rc = ERR_OK;
  check_name(call, "{workload}", call->params[0]);
  check_name(call, "{knob}", call->params[1]);
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (to->safe_range != NULL)
    knobs_check_range(to->safe_range, "/safe_range", call->faults);
  if (call->faults->count == 0)
    rc = check_value(call, to, e);
  if (rc == ERR_OK && call->faults->count == 0 && to->value != NULL && !knobs_is_safe(to->safe_range, to->value))
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "/value", NULL, "is outside the safe range given beside it");
  return rc != ERR_OK ? rc : record_check(call, e);
}

static char *knob_document(const struct knob_body *body, const json_t *source)
{
  json_t *document = json_object();
  char *text;
  put_member(&document, "kind", json_string(kinds[body->kind]));
  put_member(&document, "pointer", json_string(body->pointer));
  put_member(&document, "owner", write_text(body->owner));
  put_member(&document, "rollback_plan", write_text(body->rollback_plan));
  put_member(&document, "value", body->value != NULL ? json_deep_copy(body->value) : json_null());
  put_member(&document, "safe_range", body->safe_range != NULL ? json_deep_copy(body->safe_range) : json_null());
  if (json_object_get(source, "description") != NULL)
    put_member(&document, "description", json_incref(json_object_get(source, "description")));
  text = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL;
  json_decref(document);
  return text;
}

/* If-Match and If-None-Match; *expected is the revision that must still be the newest at the write, -1 without one. */
static enum err check_conditions(int *expected, const struct api_call *call, struct error *e)
{
  struct store_knob row;
  char tag[ETAG_SIZE], *text = NULL;
  enum err rc = store_knob_get(call_store(call), &row, call->params[0], call->params[1], e);
  *expected = -1;
  if (rc == ERR_NOT_FOUND)
    return document_compare_tag(call, "knob", NULL, e);
  if (rc != ERR_OK)
    return rc;
  text = knob_answer(&row);
  if (text == NULL) {
    rc = record_nomem(e);
  } else {
    etag_of(tag, text, strlen(text));
    rc = document_compare_tag(call, "knob", tag, e);
    *expected = call->request->header(call->request->cls, "If-Match") != NULL ? row.revision : -1;
  }
  free(text);
  store_knob_fini(&row);
  return rc;
}

struct put_work {
  struct store_knob row;
  int expected_revision;
  bool is_created;
};

static enum err put_work(struct store_tx *tx, void *cls, struct error *e)
{
  struct put_work *work = cls;
  return store_knob_put(tx, &work->row, work->expected_revision, &work->is_created, e);
}

enum err knobs_put(struct api_call *call, struct api_response *out, struct error *e)
{
  struct knob_body body = {.kind = 0};
  struct put_work work = {.row = {.workload = call->params[0], .name = call->params[1], .changed_at_ms = call->now_ms}};
  enum err rc = read_body(&body, call, e);
  if (rc == ERR_OK)
    rc = check_conditions(&work.expected_revision, call, e);
  if (rc != ERR_OK)
    return rc;
  work.row.document = knob_document(&body, call->body);
  if (work.row.document == NULL)
    return record_nomem(e);
  rc = store_write(call_store(call), "knob", put_work, &work, e);
  free(work.row.document);
  if (rc == ERR_OK)
    rc = knobs_get(call, out, e);
  if (rc == ERR_OK && work.is_created) {
    out->status = 201;
    respond_header(out, "Location", "/v1/knobs/%s/%s", call->params[0], call->params[1]);
  }
  return rc;
}

static enum err delete_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct api_call *call = cls;
  return store_knob_delete(tx, call->params[0], call->params[1], e);
}

enum err knobs_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  int expected;
  enum err rc = check_conditions(&expected, call, e);
  if (rc == ERR_OK)
    rc = store_write(call_store(call), "knob", delete_work, call, e);
  if (rc == ERR_OK)
    out->status = 204;
  return rc;
}
