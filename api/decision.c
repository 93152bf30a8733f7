/* A decision on its way into the store. */
#include "api/decision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/figure.h"
#include "api/json_memory.h"
#include "api/knobs.h"
#include "api/pointer.h"
#include "api/put.h"
#include "api/read.h"
#include "api/week.h"
#include "api/write.h"

void decision_read(struct decision *out, const json_t *body, const char *pointer, struct faults *faults)
{
  const struct read_field fields[] = {
      {.name = "date", .kind = READ_CALL, .to = &out->date, .call = record_read_moment},
      {.name = "workload",
       .kind = READ_NAME,
       .is_required = out->workload[0] == '\0',
       .to = out->workload,
       .size = sizeof out->workload},
      {.name = "knob",
       .kind = READ_NAME,
       .is_required = out->knob[0] == '\0',
       .to = out->knob,
       .size = sizeof out->knob},
      {.name = "from", .kind = READ_CALL, .allows_null = true, .to = &out->from, .call = record_read_any},
      {.name = "to", .kind = READ_CALL, .is_required = true, .to = &out->to, .call = record_read_any},
      {.name = "rationale", .kind = READ_CALL, .is_required = true, .to = &out->rationale, .call = record_read_prose},
      {.name = "owner", .kind = READ_CALL, .allows_null = true, .to = &out->owner, .call = record_read_line},
      {.name = "rollback_plan",
       .kind = READ_CALL,
       .allows_null = true,
       .to = &out->rollback_plan,
       .call = record_read_prose},
      {.name = "before_scorecard",
       .kind = READ_TEXT,
       .allows_null = true,
       .to = out->before_scorecard,
       .size = sizeof out->before_scorecard},
      {.name = "after_scorecard",
       .kind = READ_TEXT,
       .allows_null = true,
       .to = out->after_scorecard,
       .size = sizeof out->after_scorecard},
      {.name = "stack", .kind = READ_CALL, .allows_null = true, .to = &out->stack, .call = record_read_any},
      {.name = "review", .kind = READ_TEXT, .allows_null = true, .to = out->review, .size = sizeof out->review},
      {.name = "review_by", .kind = READ_CALL, .allows_null = true, .to = &out->review_by, .call = record_read_moment},
      {.name = "supersedes",
       .kind = READ_TEXT,
       .allows_null = true,
       .to = out->supersedes,
       .size = sizeof out->supersedes},
      {.name = "approved_by",
       .kind = READ_CALL,
       .allows_null = true,
       .to = &out->approved_by,
       .call = record_read_line},
  };
  (void)read_object(body, pointer, fields, sizeof fields / sizeof fields[0], faults);
}

/* ---- Against what is stored ----------------------------------------------------------------------------------------- */

/* A decision being recorded. */
struct recording {
  struct api_call *call;
  const struct decision *decision;
  const char *pointer;            /* of its body */
  struct knobs knobs;             /* of the workload, today */
  const struct agreed_knob *knob; /* NULL: not registered */
  const char *owner, *rollback_plan;
  int64_t effective_at_ms;
  json_t *before, *after; /* scorecards */
};

static void fault_at(const struct recording *r, enum fault_code code, const char *member, const char *suggestion,
                     const char *sentence)
{
  char at[160];
  read_pointer(at, sizeof at, r->pointer, member);
  faults_add(r->call->faults, code, at, suggestion, "%s", sentence);
}

static void check_date(struct recording *r)
{
  const struct record_moment *date = &r->decision->date;
  const int64_t now_ms = r->call->now_ms;
  r->effective_at_ms = date->is_given && date->ms < now_ms ? date->ms : now_ms;
  if (record_moment_is_ahead(date, now_ms))
    fault_at(r, FAULT_OUT_OF_RANGE, "date", NULL, "lies in the future; a decision is dated on the day it is made");
  if (r->decision->review[0] != '\0' && !week_is_valid(r->decision->review))
    fault_at(r, FAULT_OUT_OF_RANGE, "review", NULL, "is no ISO 8601 week such as 2026-W49");
  if (r->decision->review_by.is_given && record_moment_end_ms(&r->decision->review_by) < r->effective_at_ms)
    fault_at(r, FAULT_CONFLICT, "review_by", NULL, "lies before the decision's own date");
}

/* The name of the knob nearest to one that is not registered. */
static const char *nearest_knob(const struct recording *r, const char **names)
{
  for (size_t i = 0; i < r->knobs.count; i++)
    names[i] = r->knobs.rows[i].name;
  names[r->knobs.count] = NULL;
  return read_nearest(r->decision->knob, names);
}

/* Who answers for it and how it is taken back: from the decision, else from the knob. */
static void check_accountability(struct recording *r)
{
  const char **names = calloc(r->knobs.count + 1, sizeof *names);
  const char *near = names != NULL && r->knob == NULL ? nearest_knob(r, names) : NULL;
  r->owner = r->decision->owner;
  r->rollback_plan = r->decision->rollback_plan;
  if (r->owner == NULL && r->knob != NULL)
    r->owner = knobs_text(r->knob, "owner");
  if (r->rollback_plan == NULL && r->knob != NULL)
    r->rollback_plan = knobs_text(r->knob, "rollback_plan");
  if (near != NULL && (r->owner == NULL || r->rollback_plan == NULL))
    fault_at(r, FAULT_UNKNOWN_NAME, "knob", near, "no such knob is registered, so its owner can not be taken from it");
  if (r->owner == NULL)
    fault_at(r, FAULT_MISSING, "owner", NULL, "neither the decision nor the knob names an owner");
  if (r->rollback_plan == NULL)
    fault_at(r, FAULT_MISSING, "rollback_plan", NULL, "neither the decision nor the knob has a rollback plan");
  free(names);
}

/* What the knob says of the new value: whether a sketch takes it, and whether it is safe. */
static enum err check_value(struct recording *r, const struct catalogue_snapshot *snapshot, struct error *e)
{
  const char *pointer = r->knob != NULL ? knobs_text(r->knob, "pointer") : NULL;
  char at[160];
  if (r->knob == NULL || r->decision->to == NULL || r->decision->is_revert)
    return ERR_OK;
  if (!knobs_is_safe(json_object_get(r->knob->document, "safe_range"), r->decision->to) &&
      r->decision->approved_by == NULL)
    fault_at(r, FAULT_MISSING, "approved_by", NULL,
             "the value is outside the safe range of the knob, which needs approval");
  if (pointer == NULL || json_is_null(r->decision->to))
    return ERR_OK;
  read_pointer(at, sizeof at, r->pointer, "to");
  return knobs_check_value(call_store(r->call), snapshot, r->decision->workload, pointer, at, r->decision->to, at,
                           r->call->faults, e);
}

static enum err check_with_catalogue(struct recording *r, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  char at[160];
  enum err rc = catalogue_acquire(&snapshot, call_catalogue(r->call), e);
  if (rc != ERR_OK)
    return rc;
  read_pointer(at, sizeof at, r->pointer, "stack");
  if (r->decision->stack != NULL && !r->decision->is_revert)
    stack_check(r->decision->stack, at, snapshot, r->call->faults);
  rc = check_value(r, snapshot, e);
  catalogue_release(call_catalogue(r->call), snapshot);
  return rc;
}

static enum err load_scorecard(json_t **out, struct recording *r, const char *member, const char *id, struct error *e)
{
  char *document = NULL;
  size_t length;
  const char *workload;
  enum err rc;
  if (id[0] == '\0')
    return ERR_OK;
  rc = store_scorecard_document(call_store(r->call), &document, &length, id, e);
  if (rc == ERR_NOT_FOUND) {
    fault_at(r, FAULT_UNKNOWN_NAME, member, NULL, "there is no scorecard with this id");
    return ERR_OK;
  }
  if (rc == ERR_OK)
    rc = record_parse(out, document, e);
  free(document);
  workload = json_string_value(json_object_get(*out, "workload"));
  if (workload != NULL && strcmp(workload, r->decision->workload) != 0)
    fault_at(r, FAULT_CONFLICT, member, NULL, "is a scorecard of another workload");
  return rc;
}

static enum err check_superseded(struct recording *r, struct error *e)
{
  struct store_decision row;
  enum err rc;
  if (r->decision->supersedes[0] == '\0' || r->decision->is_revert)
    return ERR_OK;
  rc = store_decision_get(call_store(r->call), &row, r->decision->supersedes, INT64_MAX, e);
  if (rc == ERR_NOT_FOUND) {
    fault_at(r, FAULT_UNKNOWN_NAME, "supersedes", NULL, "there is no decision with this id");
    return ERR_OK;
  }
  if (rc != ERR_OK)
    return rc;
  if (strcmp(row.workload, r->decision->workload) != 0)
    fault_at(r, FAULT_CONFLICT, "supersedes", NULL, "is a decision about another workload");
  if (row.effective_at_ms > r->effective_at_ms)
    fault_at(r, FAULT_CONFLICT, "date", NULL, "lies before the decision that it supersedes");
  store_decision_fini(&row);
  return ERR_OK;
}

static enum err check(struct recording *r, struct error *e)
{
  const struct decision *decision = r->decision;
  enum err rc = knobs_load(&r->knobs, call_store(r->call), decision->workload, r->call->now_ms, e);
  if (rc != ERR_OK)
    return rc;
  r->knob = knobs_find(&r->knobs, decision->knob);
  check_date(r);
  check_accountability(r);
  rc = check_with_catalogue(r, e);
  if (rc == ERR_OK)
    rc = load_scorecard(&r->before, r, "before_scorecard", decision->before_scorecard, e);
  if (rc == ERR_OK)
    rc = load_scorecard(&r->after, r, "after_scorecard", decision->after_scorecard, e);
  if (rc == ERR_OK)
    rc = check_superseded(r, e);
  return rc == ERR_OK ? record_check(r->call, e) : rc;
}

/* ---- Storing -------------------------------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
  return write_text(text[0] != '\0' ? text : NULL);
}

static json_t *copy_or_null(const json_t *value)
{
  return value != NULL ? json_deep_copy(value) : json_null();
}

/* Where the decision did not say what the value was, it is the one in force. */
static json_t *value_before(const struct recording *r)
{
  if (r->decision->from != NULL)
    return json_deep_copy(r->decision->from);
  return r->knob != NULL ? record_share(r->knob->value) : json_null();
}

static char *document_of(const struct recording *r, const char *id)
{
  const struct decision *decision = r->decision;
  json_t *to = json_object();
  char date[WRITE_TIME_SIZE], *text;
  write_time(date, r->effective_at_ms);
  put_member(&to, "id", json_string(id));
  put_member(&to, "created_at", record_time(r->call->now_ms));
  put_member(&to, "date", json_string(decision->date.is_given ? decision->date.text : date));
  put_member(&to, "workload", json_string(decision->workload));
  put_member(&to, "knob", json_string(decision->knob));
  put_member(&to, "from", value_before(r));
  put_member(&to, "to", copy_or_null(decision->to));
  put_member(&to, "rationale", json_string(decision->rationale));
  put_member(&to, "owner", json_string(r->owner));
  put_member(&to, "rollback_plan", json_string(r->rollback_plan));
  put_member(&to, "approved_by", write_text(decision->approved_by));
  put_member(&to, "stack", copy_or_null(decision->stack));
  put_member(&to, "review", text_or_null(decision->review));
  put_member(&to, "review_by", write_text(decision->review_by.is_given ? decision->review_by.text : NULL));
  put_member(&to, "supersedes", text_or_null(decision->supersedes));
  put_member(&to, "reverts", text_or_null(decision->is_revert ? decision->supersedes : ""));
  put_member(&to, "before_scorecard", text_or_null(decision->before_scorecard));
  put_member(&to, "after_scorecard", text_or_null(decision->after_scorecard));
  put_member(&to, "profile", record_share(json_object_get(r->after, "profile")));
  put_member(&to, "expected_effect",
             r->before != NULL && r->after != NULL ? figure_deltas(r->before, r->after) : json_null());
  put_member(&to, "recorded_by", record_token(r->call));
  text = to != NULL ? json_memory_dumps(to, WRITE_FLAGS) : NULL;
  json_decref(to);
  return text;
}

static enum err insert_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_decision_insert(tx, cls, e);
}

/* For the row, which takes strings it may change but does not. */
static char *lend(const char *text)
{
  union {
    const char *in;
    char *out;
  } pointer = {.in = text};
  return pointer.out;
}

static enum err insert(struct recording *r, const char *id, struct error *e)
{
  const struct decision *decision = r->decision;
  struct store_decision row = {.id = lend(id),
                               .created_at_ms = r->call->now_ms,
                               .effective_at_ms = r->effective_at_ms,
                               .workload = lend(decision->workload),
                               .knob = lend(decision->knob),
                               .supersedes = lend(decision->supersedes),
                               .is_revert = decision->is_revert,
                               .review_by_ms =
                                   decision->review_by.is_given ? record_moment_end_ms(&decision->review_by) : 0,
                               .document = document_of(r, id)};
  enum err rc;
  if (row.document == NULL)
    return record_nomem(e);
  rc = store_write(call_store(r->call), "decision", insert_work, &row, e);
  free(row.document);
  return rc;
}

enum err decision_record(char id[37], struct api_call *call, const struct decision *decision, const char *pointer,
                         struct error *e)
{
  struct recording r = {.call = call, .decision = decision, .pointer = pointer};
  enum err rc = check(&r, e);
  if (rc == ERR_OK) {
    call_new_id(call, id, 0);
    rc = insert(&r, id, e);
  }
  knobs_fini(&r.knobs);
  json_decref(r.before);
  json_decref(r.after);
  return rc;
}
