/* /v1/decisions: recorded once, never changed; what was in force on a day is asked with as_of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/decision.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/read.h"

static enum err respond_decision(struct api_call *call, struct api_response *out, unsigned status, const char *id,
                                 int64_t as_of_ms, struct error *e)
{
  struct store_decision row;
  char *text;
  enum err rc = store_decision_get(call_store(call), &row, id, as_of_ms, e);
  if (rc != ERR_OK)
    return rc;
  rc = decision_answer(&text, call, &row, e);
  store_decision_fini(&row);
  if (rc == ERR_OK)
    rc = respond_string_steal(out, status, "application/json", text, e);
  if (rc == ERR_OK && status == 201)
    respond_header(out, "Location", "/v1/decisions/%s", id);
  return rc;
}

enum err decisions_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct decision decision = {.workload = ""};
  char id[37];
  enum err rc;
  decision_read(&decision, call->body, "", call->faults);
  rc = record_check(call, e);
  if (rc == ERR_OK)
    rc = decision_record(id, call, &decision, "", e);
  return rc == ERR_OK ? respond_decision(call, out, 201, id, call->now_ms, e) : rc;
}

/* The decision that takes back another: its values the other way round, on the other's owner and plan. `document` is the
   other's and outlives it. */
static void make_revert(struct decision *to, const struct store_decision *row, const json_t *document)
{
  const json_t *stack = json_object_get(document, "stack");
  (void)snprintf(to->workload, sizeof to->workload, "%s", row->workload);
  (void)snprintf(to->knob, sizeof to->knob, "%s", row->knob);
  (void)snprintf(to->supersedes, sizeof to->supersedes, "%s", row->id);
  to->from = json_object_get(document, "to");
  to->to = json_object_get(document, "from");
  to->owner = json_string_value(json_object_get(document, "owner"));
  to->rollback_plan = json_string_value(json_object_get(document, "rollback_plan"));
  to->stack = json_is_null(stack) ? NULL : stack;
  to->is_revert = true;
}

/* A bare date stands for its day, on which the decision may have been made earlier. */
static void check_revert_date(struct api_call *call, struct record_moment *date, const struct store_decision *row)
{
  if (!date->is_given || date->ms >= row->effective_at_ms)
    return;
  if (record_moment_end_ms(date) >= row->effective_at_ms)
    date->ms = row->effective_at_ms;
  else
    faults_add(call->faults, FAULT_CONFLICT, "/date", NULL, "lies before the decision that is reverted");
}

static enum err revert(char id[37], struct api_call *call, const struct store_decision *row, struct error *e)
{
  struct decision decision = {.workload = ""};
  const struct read_field fields[] = {
      {.name = "date", .kind = READ_CALL, .to = &decision.date, .call = record_read_moment},
      {.name = "rationale",
       .kind = READ_CALL,
       .is_required = true,
       .to = &decision.rationale,
       .call = record_read_prose},
  };
  json_t *document;
  enum err rc = record_parse(&document, row->document, e);
  if (rc != ERR_OK)
    return rc;
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  check_revert_date(call, &decision.date, row);
  make_revert(&decision, row, document);
  rc = record_check(call, e);
  if (rc == ERR_OK)
    rc = decision_record(id, call, &decision, "", e);
  json_decref(document);
  return rc;
}

enum err decisions_revert_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_decision row;
  char id[37];
  enum err rc = store_decision_get(call_store(call), &row, call->params[0], call->now_ms, e);
  if (rc != ERR_OK)
    return rc;
  if (row.ended_by[0] != '\0')
    rc = error_set(e, ERR_CONFLICT, "", "decision %s is %s already, by %s", row.id, row.status, row.ended_by);
  else
    rc = revert(id, call, &row, e);
  store_decision_fini(&row);
  return rc == ERR_OK ? respond_decision(call, out, 201, id, call->now_ms, e) : rc;
}

/* ?as_of=; the present without one. */
static int64_t as_of(struct api_call *call, bool *is_given)
{
  struct record_moment moment;
  record_query_moment(&moment, call, "as_of");
  *is_given = moment.is_given;
  return moment.is_given ? record_moment_end_ms(&moment) : call->now_ms;
}

enum err decisions_get(struct api_call *call, struct api_response *out, struct error *e)
{
  bool is_given;
  const int64_t as_of_ms = as_of(call, &is_given);
  const enum err rc = record_check(call, e);
  return rc == ERR_OK ? respond_decision(call, out, 200, call->params[0], as_of_ms, e) : rc;
}

static enum err read_filter(struct store_decision_filter *filter, struct store_page *page, struct api_call *call,
                            struct error *e)
{
  static const char *const statuses[] = {"in_force", "superseded", "reverted", "due", NULL};
  int status = -1;
  const struct read_field status_field = {.kind = READ_WORD, .to = &status, .words = statuses};
  struct record_moment since, until;
  bool is_as_of;
  (void)call_page(call, page); /* its faults are counted below */
  history_query(call, "status", &status_field);
  record_query_moment(&since, call, "since");
  record_query_moment(&until, call, "until");
  *filter = (struct store_decision_filter){.workload = call_query(call, "workload"),
                                           .knob = call_query(call, "knob"),
                                           .status = status >= 0 ? statuses[status] : NULL,
                                           .as_of_ms = as_of(call, &is_as_of),
                                           .since_ms = since.ms,
                                           .until_ms = until.ms};
  filter->only_in_force = is_as_of && status < 0;
  return record_check(call, e);
}

enum err decisions_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_decision_filter filter;
  struct store_decisions list;
  struct store_page page;
  char **texts;
  const char *next;
  enum err rc = read_filter(&filter, &page, call, e);
  if (rc != ERR_OK)
    return rc;
  rc = store_decision_list(call_store(call), &list, &filter, &page, e);
  if (rc != ERR_OK)
    return rc;
  texts = calloc(list.count + 1, sizeof *texts);
  if (texts == NULL)
    rc = record_nomem(e);
  for (size_t i = 0; i < list.count && rc == ERR_OK; i++)
    rc = decision_answer(&texts[i], call, &list.rows[i], e);
  next = list.has_more && list.count > 0 ? list.rows[list.count - 1].id : NULL;
  if (rc == ERR_OK)
    rc = record_respond_texts(call, out, texts, list.count, next, e);
  record_free_texts(texts, list.count);
  store_decisions_fini(&list);
  return rc;
}
