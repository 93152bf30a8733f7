/* The agenda beside what moved: gates, decisions, knobs, measurements, and what the last review left to be done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_memory.h"
#include "api/knobs.h"
#include "api/put.h"
#include "api/read.h"
#include "api/review.h"
#include "api/write.h"

#define LIST_MAX 1000
#define MEASUREMENT_DAYS 30 /* older ones say little about the fleet of today */

static const char *text_at(const json_t *object, const char *member)
{
  const char *text = json_string_value(json_object_get(object, member));
  return text != NULL ? text : "";
}

/* ---- Gates ---------------------------------------------------------------------------------------------------------- */

static const char *first_message(const json_t *check)
{
  return text_at(json_array_get(json_object_get(check, "reasons"), 0), "message");
}

/* Checks since the last review that did not pass, newest first. */
static enum err add_gate(struct review *review, const char *workload, const struct store_gate_records *checks,
                         const char *gate, struct error *e)
{
  json_t *check = NULL, *last_failed = NULL, *item;
  struct text title = {0};
  size_t failed = 0;
  enum err rc = ERR_OK;
  for (size_t i = 0; i < checks->count && rc == ERR_OK; i++) {
    rc = record_parse(&check, checks->rows[i].document, e);
    if (rc == ERR_OK && strcmp(text_at(check, "verdict"), "pass") != 0) {
      failed++;
      if (last_failed == NULL)
        last_failed = json_incref(check);
    }
    json_decref(check);
    check = NULL;
  }
  if (rc == ERR_OK && failed > 0) {
    text_printf(&title, "gate %s: %zu of %zu checks did not pass; the last of them: %s", gate, failed, checks->count,
                first_message(last_failed));
    item = review_item_add(review, "gate_failure", workload, gate, text_take(&title, NULL));
    put_member(&item, "gate", json_string(gate));
    put_member(&item, "check", record_share(json_object_get(last_failed, "id")));
    put_member(&item, "verdict", record_share(json_object_get(last_failed, "verdict")));
    rc = review_item_end(item, e);
  }
  json_decref(last_failed);
  return rc;
}

static enum err add_gates(struct review *review, const char *workload, struct error *e)
{
  const struct store_page page = {.limit = LIST_MAX};
  struct store *store = call_store(review->call);
  struct store_gates gates;
  enum err rc = store_gate_list(store, &gates, workload, &page, e);
  if (rc != ERR_OK)
    return rc;
  for (size_t i = 0; i < gates.count && rc == ERR_OK; i++) {
    const struct store_gate_check_filter filter = {.gate = gates.rows[i].name, .since_ms = review->since_ms};
    struct store_gate_records checks;
    rc = store_gate_check_list(store, &checks, &filter, &page, e);
    if (rc != ERR_OK)
      break;
    rc = add_gate(review, workload, &checks, gates.rows[i].name, e);
    store_gate_records_fini(&checks);
  }
  store_gates_fini(&gates);
  return rc;
}

/* ---- Decisions and knobs -------------------------------------------------------------------------------------------- */

static enum err add_due_decisions(struct review *review, const char *workload, struct error *e)
{
  const struct store_decision_filter filter = {.workload = workload, .status = "due", .as_of_ms = review->call->now_ms};
  const struct store_page page = {.limit = LIST_MAX, .ascending = true};
  struct store_decisions list;
  enum err rc = store_decision_list(call_store(review->call), &list, &filter, &page, e);
  if (rc != ERR_OK)
    return rc;
  for (size_t i = 0; i < list.count && rc == ERR_OK; i++) {
    struct text title = {0};
    json_t *document, *item;
    rc = record_parse(&document, list.rows[i].document, e);
    if (rc != ERR_OK)
      break;
    text_printf(&title, "the decision of %s about %s was to be looked at by %s: %s", text_at(document, "date"),
                text_at(document, "knob"), text_at(document, "review_by"), text_at(document, "rationale"));
    item = review_item_add(review, "decision_due", workload, list.rows[i].id, text_take(&title, NULL));
    put_member(&item, "decision", json_string(list.rows[i].id));
    put_member(&item, "knob", json_string(list.rows[i].knob));
    put_member(&item, "owner", record_share(json_object_get(document, "owner")));
    json_decref(document);
    rc = review_item_end(item, e);
  }
  store_decisions_fini(&list);
  return rc;
}

static enum err add_unowned(struct review *review, const char *workload, const struct agreed_knob *knob,
                            struct error *e)
{
  const bool has_owner = knobs_text(knob, "owner") != NULL, has_plan = knobs_text(knob, "rollback_plan") != NULL;
  struct text title = {0};
  json_t *item;
  if (has_owner && has_plan)
    return ERR_OK;
  text_printf(&title, "the knob %s of %s has no %s", knob->name, workload,
              !has_owner && !has_plan ? "owner and no rollback plan"
              : has_owner             ? "rollback plan"
                                      : "owner");
  item = review_item_add(review, "unowned_knob", workload, knob->name, text_take(&title, NULL));
  put_member(&item, "knob", json_string(knob->name));
  return review_item_end(item, e);
}

static void print_value(struct text *text, const json_t *value)
{
  char *dumped = value != NULL ? json_memory_dumps(value, WRITE_FLAGS | JSON_ENCODE_ANY) : NULL;
  text_puts(text, dumped != NULL ? dumped : "?");
  free(dumped);
}

static enum err add_undecided(struct review *review, const char *workload, const json_t *change, struct error *e)
{
  static const char *const members[] = {"knob", "pointer", "from", "to", "owner"};
  struct text title = {0};
  json_t *item;
  text_printf(&title, "%s was turned without a decision: %s from ", text_at(change, "knob"),
              text_at(change, "pointer"));
  print_value(&title, json_object_get(change, "from"));
  text_puts(&title, " to ");
  print_value(&title, json_object_get(change, "to"));
  item = review_item_add(review, "undecided_change", workload, text_at(change, "knob"), text_take(&title, NULL));
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
    put_member(&item, members[i], record_share(json_object_get(change, members[i])));
  return review_item_end(item, e);
}

static enum err add_knobs(struct review *review, const char *workload, const json_t *sketch, struct error *e)
{
  struct knobs knobs;
  json_t *changes;
  enum err rc = knobs_load(&knobs, call_store(review->call), workload, review->call->now_ms, e);
  if (rc != ERR_OK)
    return rc;
  for (size_t i = 0; i < knobs.count && rc == ERR_OK; i++)
    rc = add_unowned(review, workload, &knobs.rows[i], e);
  changes = knobs_undecided(&knobs, sketch);
  if (changes == NULL && rc == ERR_OK)
    rc = record_nomem(e);
  for (size_t i = 0; i < json_array_size(changes) && rc == ERR_OK; i++)
    rc = add_undecided(review, workload, json_array_get(changes, i), e);
  json_decref(changes);
  knobs_fini(&knobs);
  return rc;
}

/* ---- Measurements --------------------------------------------------------------------------------------------------- */

/* Predictions that nobody has held against the hardware lately: of the profile that the sketch runs best on. */
static enum err add_measurement(struct review *review, const json_t *entry, struct error *e)
{
  const char *workload = text_at(entry, "workload"), *profile = text_at(entry, "profile");
  const struct store_history_filter filter = {.workload = workload, .profile = profile};
  const struct store_page page = {.limit = 1};
  struct store_measurements list;
  struct text title = {0};
  json_t *item;
  int64_t age_days;
  enum err rc;
  if (profile[0] == '\0')
    return ERR_OK;
  rc = store_measurement_list(call_store(review->call), &list, &filter, &page, e);
  if (rc != ERR_OK)
    return rc;
  age_days = list.count > 0 ? (review->call->now_ms - list.rows[0].created_at_ms) / INT64_C(86400000) : -1;
  if (age_days < 0)
    text_printf(&title, "%s was never measured on %s", workload, profile);
  else if (age_days > MEASUREMENT_DAYS)
    text_printf(&title, "the last measurement of %s on %s is older than %d days", workload, profile, MEASUREMENT_DAYS);
  if (age_days < 0 || age_days > MEASUREMENT_DAYS) {
    item = review_item_add(review, "measurement", workload, profile, text_take(&title, NULL));
    put_member(&item, "profile", json_string(profile));
    put_member(&item, "measurement", write_text(list.count > 0 ? list.rows[0].id : NULL));
    rc = review_item_end(item, e);
  }
  store_measurements_fini(&list);
  return rc;
}

enum err review_agenda(struct review *review, const json_t *entry, const json_t *sketch, struct error *e)
{
  const char *workload = text_at(entry, "workload");
  enum err rc = add_gates(review, workload, e);
  if (rc == ERR_OK)
    rc = add_due_decisions(review, workload, e);
  if (rc == ERR_OK)
    rc = add_knobs(review, workload, sketch, e);
  if (rc == ERR_OK)
    rc = add_measurement(review, entry, e);
  if (rc == ERR_OK)
    rc = review_live(review, workload, e);
  return rc;
}

/* ---- From the last review ------------------------------------------------------------------------------------------- */

/* What somebody promised to do, and what a person put on the agenda and nobody answered. */
static bool is_carried(const json_t *item)
{
  const char *kind = text_at(item, "kind");
  if (json_object_get(json_object_get(item, "resolution"), "action") != NULL)
    return true;
  return strcmp(text_at(item, "status"), "open") == 0 && (strcmp(kind, "action") == 0 || strcmp(kind, "added") == 0);
}

static bool is_overdue(const struct review *review, const char *due)
{
  int64_t due_ms;
  const int64_t day_ms = INT64_C(86400000);
  return due[0] != '\0' && write_time_parse(&due_ms, due) && due_ms + day_ms <= review->call->now_ms;
}

static enum err carry(struct review *review, const json_t *old, struct error *e)
{
  const json_t *resolution = json_object_get(old, "resolution");
  const json_t *source = json_object_get(resolution, "action") != NULL ? resolution : old;
  const char *what = source == resolution                     ? text_at(resolution, "action")
                     : json_object_get(old, "action") != NULL ? text_at(old, "action")
                                                              : text_at(old, "title");
  const char *origin = json_object_get(old, "origin") != NULL ? text_at(old, "origin") : text_at(old, "id");
  const char *workload = json_string_value(json_object_get(old, "workload"));
  const bool is_late = is_overdue(review, text_at(source, "due"));
  struct text title = {0};
  json_t *item;
  text_printf(&title, "%s: %s%s%s%s%s", is_late ? "overdue" : "to be done", what,
              text_at(source, "owner")[0] != '\0' ? ", owner " : "", text_at(source, "owner"),
              text_at(source, "due")[0] != '\0' ? ", due " : "", text_at(source, "due"));
  item = review_item_add(review, "action", workload, origin, text_take(&title, NULL));
  put_member(&item, "action", json_string(what));
  put_member(&item, "owner", record_share(json_object_get(source, "owner")));
  put_member(&item, "due", record_share(json_object_get(source, "due")));
  put_member(&item, "overdue", json_boolean(is_late));
  put_member(&item, "origin", json_string(origin));
  put_member(&item, "from_week", record_share(json_object_get(review->last, "week")));
  return review_item_end(item, e);
}

enum err review_carry_over(struct review *review, struct error *e)
{
  const json_t *old;
  size_t i;
  enum err rc = ERR_OK;
  json_array_foreach(json_object_get(review->last, "items"), i, old)
  {
    if (is_carried(old) && rc == ERR_OK)
      rc = carry(review, old, e);
  }
  return rc;
}
