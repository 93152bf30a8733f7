/* /v1/reviews/{week}: items put on the agenda and answered, signatures, addenda. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/decision.h"
#include "api/document.h"
#include "api/handlers.h"
#include "api/json_memory.h"
#include "api/put.h"
#include "api/read.h"
#include "api/review.h"
#include "api/write.h"

#define TEAMS_MAX 32

/* ---- Items ---------------------------------------------------------------------------------------------------------- */

struct added {
  const char *title, *note, *owner, *by;
  char workload[65];
  struct record_moment due;
};

static json_t *added_item(const struct api_call *call, const struct added *added, size_t number)
{
  json_t *item = json_object();
  put_member(&item, "id", json_sprintf("added-%zu", number));
  put_member(&item, "kind", json_string("added"));
  put_member(&item, "workload", write_text(added->workload[0] != '\0' ? added->workload : NULL));
  put_member(&item, "title", json_string(added->title));
  put_member(&item, "status", json_string("open"));
  put_member(&item, "resolution", json_null());
  put_member(&item, "note", write_text(added->note));
  put_member(&item, "owner", write_text(added->owner));
  put_member(&item, "due", write_text(added->due.is_given ? added->due.text : NULL));
  put_member(&item, "by", write_text(added->by));
  put_member(&item, "added_at", record_time(call->now_ms));
  put_member(&item, "token", record_token(call));
  return item;
}

static size_t count_added(const json_t *items)
{
  const json_t *item;
  size_t i, count = 0;
  json_array_foreach(items, i, item)
  {
    count += strcmp(json_string_value(json_object_get(item, "kind")), "added") == 0 ? 1 : 0;
  }
  return count;
}

enum err reviews_items_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct added added = {.title = NULL};
  const struct read_field fields[] = {
      {.name = "title", .kind = READ_CALL, .is_required = true, .to = &added.title, .call = record_read_line},
      {.name = "workload", .kind = READ_NAME, .allows_null = true, .to = added.workload, .size = sizeof added.workload},
      {.name = "note", .kind = READ_CALL, .allows_null = true, .to = &added.note, .call = record_read_prose},
      {.name = "owner", .kind = READ_CALL, .allows_null = true, .to = &added.owner, .call = record_read_line},
      {.name = "due", .kind = READ_CALL, .allows_null = true, .to = &added.due, .call = record_read_moment},
      {.name = "by", .kind = READ_CALL, .allows_null = true, .to = &added.by, .call = record_read_line},
  };
  struct store_review row;
  json_t *document, *item = NULL, *items;
  enum err rc = review_begin(&row, &document, call, e);
  if (rc != ERR_OK)
    return rc;
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (added.workload[0] != '\0')
    rc = document_check_workload(call, added.workload, "/workload", false, e);
  if (rc == ERR_OK)
    rc = record_check(call, e);
  items = json_object_get(document, "items");
  if (rc == ERR_OK) {
    item = added_item(call, &added, count_added(items) + 1);
    rc = json_array_append(items, item) == 0 ? review_save(call, &row, document, false, e) : record_nomem(e);
  }
  json_decref(document);
  store_review_fini(&row);
  if (rc == ERR_OK)
    return respond_json_steal(out, 201, item, e);
  json_decref(item);
  return rc;
}

/* How an item is answered: exactly one of three ways. */
struct answer {
  const json_t *decision; /* id or body */
  const char *no_action_because, *action, *owner, *by;
  struct record_moment due;
};

static void read_answer(struct answer *to, struct api_call *call)
{
  const struct read_field fields[] = {
      {.name = "decision", .kind = READ_CALL, .to = &to->decision, .call = record_read_any},
      {.name = "no_action_because", .kind = READ_CALL, .to = &to->no_action_because, .call = record_read_prose},
      {.name = "action", .kind = READ_CALL, .to = &to->action, .call = record_read_prose},
      {.name = "owner", .kind = READ_CALL, .to = &to->owner, .call = record_read_line},
      {.name = "due", .kind = READ_CALL, .to = &to->due, .call = record_read_moment},
      {.name = "by", .kind = READ_CALL, .allows_null = true, .to = &to->by, .call = record_read_line},
  };
  const json_t *body = call->body;
  const int ways = (json_object_get(body, "decision") != NULL ? 1 : 0) +
                   (json_object_get(body, "no_action_because") != NULL ? 1 : 0) +
                   (json_object_get(body, "action") != NULL ? 1 : 0);
  const bool is_action = json_object_get(body, "action") != NULL;
  if (!read_object(body, "", fields, sizeof fields / sizeof fields[0], call->faults))
    return;
  if (ways != 1)
    faults_add(call->faults, ways == 0 ? FAULT_MISSING : FAULT_CONFLICT, "", NULL,
               "exactly one of decision, no_action_because and action (with owner and due) is expected");
  if (is_action && json_object_get(body, "owner") == NULL)
    faults_add(call->faults, FAULT_MISSING, "/owner", NULL, "an action needs an owner");
  if (is_action && json_object_get(body, "due") == NULL)
    faults_add(call->faults, FAULT_MISSING, "/due", NULL, "an action needs a date by which it is done");
  if (!is_action && (json_object_get(body, "owner") != NULL || json_object_get(body, "due") != NULL))
    faults_add(call->faults, FAULT_CONFLICT, "/action", NULL, "owner and due go with an action");
}

/* A decision that exists, or one to be recorded about the item's workload and knob in this review. */
static enum err settle_decision(char id[40], struct api_call *call, const json_t *given, const json_t *item,
                                struct error *e)
{
  struct decision decision = {.workload = ""};
  struct store_decision row;
  enum err rc;
  if (json_is_string(given)) {
    (void)snprintf(id, 40, "%s", json_string_value(given));
    rc = store_decision_get(call_store(call), &row, id, INT64_MAX, e);
    if (rc == ERR_NOT_FOUND) {
      faults_add(call->faults, FAULT_UNKNOWN_NAME, "/decision", NULL, "there is no decision with this id");
      return record_check(call, e);
    }
    if (rc == ERR_OK)
      store_decision_fini(&row);
    return rc;
  }
  if (json_is_string(json_object_get(item, "workload")))
    (void)snprintf(decision.workload, sizeof decision.workload, "%s",
                   json_string_value(json_object_get(item, "workload")));
  if (json_is_string(json_object_get(item, "knob")))
    (void)snprintf(decision.knob, sizeof decision.knob, "%s", json_string_value(json_object_get(item, "knob")));
  decision_read(&decision, given, "/decision", call->faults);
  (void)snprintf(decision.review, sizeof decision.review, "%.8s", call->params[0]);
  rc = record_check(call, e);
  return rc == ERR_OK ? decision_record(id, call, &decision, "/decision", e) : rc;
}

static json_t *resolution_of(const struct api_call *call, const struct answer *answer, const char *decision)
{
  json_t *to = json_object();
  if (answer->decision != NULL)
    put_member(&to, "decision", json_string(decision));
  else if (answer->no_action_because != NULL)
    put_member(&to, "no_action_because", json_string(answer->no_action_because));
  else {
    put_member(&to, "action", json_string(answer->action));
    put_member(&to, "owner", json_string(answer->owner));
    put_member(&to, "due", json_string(answer->due.text));
  }
  put_member(&to, "by", write_text(answer->by));
  put_member(&to, "at", record_time(call->now_ms));
  put_member(&to, "token", record_token(call));
  return to;
}

static json_t *find_item(const json_t *document, const char *id)
{
  json_t *item;
  size_t i;
  json_array_foreach(json_object_get(document, "items"), i, item)
  {
    if (strcmp(json_string_value(json_object_get(item, "id")), id) == 0)
      return item;
  }
  return NULL;
}

static enum err resolve(struct api_call *call, struct store_review *row, json_t *document, json_t *item,
                        struct error *e)
{
  struct answer answer = {.decision = NULL};
  char decision[40] = "";
  enum err rc;
  read_answer(&answer, call);
  rc = record_check(call, e);
  if (rc == ERR_OK && answer.decision != NULL)
    rc = settle_decision(decision, call, answer.decision, item, e);
  if (rc == ERR_OK && (json_object_set_new(item, "status", json_string("resolved")) != 0 ||
                       json_object_set_new(item, "resolution", resolution_of(call, &answer, decision)) != 0))
    rc = record_nomem(e);
  return rc == ERR_OK ? review_save(call, row, document, false, e) : rc;
}

enum err reviews_item_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_review row;
  json_t *document, *item;
  enum err rc = review_begin(&row, &document, call, e);
  if (rc != ERR_OK)
    return rc;
  item = find_item(document, call->params[1]);
  if (item == NULL)
    rc = error_set(e, ERR_NOT_FOUND, "", "the review of %s has no item %s", row.week, call->params[1]);
  else
    rc = resolve(call, &row, document, item, e);
  if (rc == ERR_OK)
    rc = respond_json_steal(out, 200, json_incref(item), e);
  json_decref(document);
  store_review_fini(&row);
  return rc;
}

/* ---- Sign-off and addenda ------------------------------------------------------------------------------------------- */

/* What must be answered before anybody signs: what moved, and a trace that nobody has given a reason for. */
static bool must_be_resolved(const json_t *item)
{
  const char *kind = json_string_value(json_object_get(item, "kind"));
  const bool is_open = strcmp(json_string_value(json_object_get(item, "status")), "open") == 0;
  return is_open && (strcmp(kind, "moved") == 0 ||
                     (strcmp(kind, "trace_changed") == 0 && !json_is_string(json_object_get(item, "reason"))));
}

static enum err check_open_items(const json_t *document, struct error *e)
{
  struct text open = {0};
  const json_t *item;
  size_t i, count = 0;
  char *ids;
  enum err rc = ERR_OK;
  json_array_foreach(json_object_get(document, "items"), i, item)
  {
    if (must_be_resolved(item))
      text_printf(&open, "%s%s", count++ > 0 ? ", " : "", json_string_value(json_object_get(item, "id")));
  }
  ids = text_take(&open, NULL);
  if (count > 0)
    rc = error_set(e, ERR_CONFLICT, "", "%zu %s must be answered before the review is signed: %.200s", count,
                   count == 1 ? "item" : "items", ids != NULL ? ids : "");
  free(ids);
  return rc;
}

struct signature {
  const char *team, *by, *rationale;
};

static bool has_signed(const json_t *document, const char *team)
{
  const json_t *signature;
  size_t i;
  json_array_foreach(json_object_get(document, "sign_offs"), i, signature)
  {
    if (strcmp(json_string_value(json_object_get(signature, "team")), team) == 0)
      return true;
  }
  return false;
}

/* Where teams are configured only they sign: a misspelt one would never complete the review. */
static void check_team(struct api_call *call, const json_t *document, const char *team)
{
  const json_t *required = json_object_get(document, "required_teams");
  const char *names[TEAMS_MAX + 1];
  size_t count = 0, i;
  const json_t *name;
  json_array_foreach(required, i, name)
  {
    if (count < TEAMS_MAX)
      names[count++] = json_string_value(name);
  }
  names[count] = NULL;
  for (i = 0; i < count; i++)
    if (strcmp(names[i], team) == 0)
      return;
  if (count > 0)
    faults_add(call->faults, FAULT_UNKNOWN_NAME, "/team", read_nearest(team, names),
               "is not one of the teams that sign reviews");
}

static bool is_complete(const json_t *document)
{
  const json_t *name;
  size_t i;
  json_array_foreach(json_object_get(document, "required_teams"), i, name)
  {
    if (!has_signed(document, json_string_value(name)))
      return false;
  }
  return true;
}

static enum err sign(struct api_call *call, struct store_review *row, json_t *document, struct error *e)
{
  struct signature signature = {NULL, NULL, NULL};
  const struct read_field fields[] = {
      {.name = "team", .kind = READ_CALL, .is_required = true, .to = &signature.team, .call = record_read_line},
      {.name = "by", .kind = READ_CALL, .is_required = true, .to = &signature.by, .call = record_read_line},
      {.name = "rationale",
       .kind = READ_CALL,
       .is_required = true,
       .to = &signature.rationale,
       .call = record_read_prose},
  };
  json_t *to = json_object();
  enum err rc;
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (signature.team != NULL)
    check_team(call, document, signature.team);
  rc = record_check(call, e);
  if (rc == ERR_OK && has_signed(document, signature.team))
    rc =
        error_set(e, ERR_CONFLICT, "", "the team %.80s has signed the review of %s already", signature.team, row->week);
  if (rc == ERR_OK)
    rc = check_open_items(document, e);
  put_member(&to, "team", write_text(signature.team));
  put_member(&to, "by", write_text(signature.by));
  put_member(&to, "rationale", write_text(signature.rationale));
  put_member(&to, "at", record_time(call->now_ms));
  put_member(&to, "token", record_token(call));
  if (rc == ERR_OK && json_array_append(json_object_get(document, "sign_offs"), to) != 0)
    rc = record_nomem(e);
  json_decref(to);
  return rc == ERR_OK ? review_save(call, row, document, is_complete(document), e) : rc;
}

enum err reviews_sign_off_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_review row;
  json_t *document = NULL;
  enum err rc = store_review_get(call_store(call), &row, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  rc = record_parse(&document, row.document, e);
  if (rc == ERR_OK && row.signed_at_ms != 0)
    rc = error_set(e, ERR_CONFLICT, "", "the review of %s is signed already", row.week);
  if (rc == ERR_OK)
    rc = sign(call, &row, document, e);
  json_decref(document);
  store_review_fini(&row);
  return rc == ERR_OK ? review_respond(call, out, 200, FORMAT_JSON, call->params[0], e) : rc;
}

struct addendum_work {
  const char *id, *week, *document;
  int64_t now_ms;
};

static enum err addendum_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct addendum_work *work = cls;
  return store_review_addendum_insert(tx, work->id, work->week, work->now_ms, work->document, e);
}

static enum err store_addendum(struct api_call *call, struct api_response *out, const char *text, const char *by,
                               struct error *e)
{
  char id[37], *document;
  json_t *to = json_object();
  struct addendum_work work = {id, call->params[0], NULL, call->now_ms};
  enum err rc;
  call_new_id(call, id, 0);
  put_member(&to, "id", json_string(id));
  put_member(&to, "at", record_time(call->now_ms));
  put_member(&to, "text", json_string(text));
  put_member(&to, "by", json_string(by));
  put_member(&to, "token", record_token(call));
  work.document = document = to != NULL ? json_memory_dumps(to, WRITE_FLAGS) : NULL;
  json_decref(to);
  rc = document != NULL ? store_write(call_store(call), "addendum", addendum_work, &work, e) : record_nomem(e);
  if (rc == ERR_OK)
    return respond_string_steal(out, 201, "application/json", document, e);
  free(document);
  return rc;
}

enum err reviews_addenda_post(struct api_call *call, struct api_response *out, struct error *e)
{
  const char *text = NULL, *by = NULL;
  const struct read_field fields[] = {
      {.name = "text", .kind = READ_CALL, .is_required = true, .to = &text, .call = record_read_prose},
      {.name = "by", .kind = READ_CALL, .is_required = true, .to = &by, .call = record_read_line},
  };
  struct store_review row;
  enum err rc = store_review_get(call_store(call), &row, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  if (row.signed_at_ms == 0)
    rc = error_set(e, ERR_CONFLICT, "", "the review of %s is not signed yet: change it instead", row.week);
  store_review_fini(&row);
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (rc == ERR_OK)
    rc = record_check(call, e);
  return rc == ERR_OK ? store_addendum(call, out, text, by, e) : rc;
}
