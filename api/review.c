/* Computing a review: one workload after the other, then the agenda. */
#include "api/review.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/document.h"
#include "api/figure.h"
#include "api/pointer.h"
#include "api/put.h"
#include "api/read.h"
#include "api/write.h"

#define WEEK_MS (INT64_C(7) * 86400000)
#define PAGE 100

void review_fini(struct review *review)
{
  json_decref(review->last);
  json_decref(review->workloads);
  json_decref(review->items);
}

json_t *review_item_add(struct review *review, const char *kind, const char *workload, const char *key,
                        char *title_steal)
{
  char seed[512], digest[WRITE_DIGEST_SIZE], id[64];
  json_t *item = json_object();
  (void)snprintf(seed, sizeof seed, "%s\n%s\n%.300s", kind, workload != NULL ? workload : "", key);
  write_digest(digest, seed, strlen(seed));
  (void)snprintf(id, sizeof id, "%s-%.8s", kind, digest + strlen("sha256:"));
  put_member(&item, "id", json_string(id));
  put_member(&item, "kind", json_string(kind));
  put_member(&item, "workload", write_text(workload));
  put_member(&item, "title", title_steal != NULL ? json_string(title_steal) : NULL);
  put_member(&item, "status", json_string("open"));
  put_member(&item, "resolution", json_null());
  free(title_steal);
  put_element(&review->items, item != NULL ? json_incref(item) : NULL);
  return item;
}

enum err review_item_end(json_t *item, struct error *e)
{
  if (item == NULL)
    return record_nomem(e);
  json_decref(item);
  return ERR_OK;
}

/* ---- Traces --------------------------------------------------------------------------------------------------------- */

/* {"name", "digest"} of the trace that a sketch replays, null without one. */
static enum err trace_identity(json_t **to, const struct review *review, const json_t *sketch, struct error *e)
{
  const json_t *trace = pointer_get(sketch, "/traffic/trace");
  const char *name = json_string_value(json_is_object(trace) ? json_object_get(trace, "name") : trace);
  struct store_trace row;
  enum err rc;
  *to = json_null();
  if (name == NULL)
    return ERR_OK;
  rc = store_trace_get(call_store(review->call), &row, name, e);
  if (rc == ERR_NOT_FOUND)
    return ERR_OK; /* the sketch can not be evaluated then, which is told */
  if (rc != ERR_OK)
    return rc;
  *to = json_pack("{s:s, s:s}", "name", name, "digest", row.digest);
  store_trace_fini(&row);
  return *to != NULL ? ERR_OK : record_nomem(e);
}

static const json_t *last_entry(const struct review *review, const char *workload)
{
  const json_t *entries = json_object_get(review->last, "workloads"), *entry;
  size_t i;
  json_array_foreach(entries, i, entry)
  {
    const char *name = json_string_value(json_object_get(entry, "workload"));
    if (name != NULL && strcmp(name, workload) == 0)
      return entry;
  }
  return NULL;
}

static bool is_trace_changed(const json_t *last, const json_t *trace)
{
  return last != NULL && !pointer_same_value(json_object_get(last, "trace"), trace);
}

/* Before anything is evaluated, so that a refusal leaves nothing behind. */
static enum err check_trace(struct review *review, const char *workload, const json_t *sketch, struct error *e)
{
  json_t *trace;
  enum err rc = trace_identity(&trace, review, sketch, e);
  if (rc != ERR_OK)
    return rc;
  if (is_trace_changed(last_entry(review, workload), trace) && review->trace_change_reason == NULL &&
      !review->is_scheduled)
    rc = error_set(e, ERR_CONFLICT, "",
                   "the trace of %s is not the one of the review of %s: trace_change_reason must say why", workload,
                   json_string_value(json_object_get(review->last, "week")));
  json_decref(trace);
  return rc;
}

/* ---- One workload --------------------------------------------------------------------------------------------------- */

static json_t *card_row(const json_t *card)
{
  json_t *row = json_object();
  put_member(&row, "profile", record_share(json_object_get(card, "profile")));
  put_member(&row, "scorecard", record_share(json_object_get(card, "id")));
  put_member(&row, "verdict", record_share(json_object_get(card, "verdict")));
  return row;
}

/* What the table of the review shows: of the scorecard that comes first. */
static json_t *main_figures(const json_t *card)
{
  json_t *to = json_object();
  for (size_t i = 0; i < figure_count; i++)
    put_member(&to, figures[i].metric, write_number(figure_value(card, figures[i].metric)));
  return to;
}

static void fill_entry(json_t **entry, const struct evaluation *evaluation)
{
  const json_t *first = json_array_get(evaluation->scorecards, 0);
  json_t *cards = json_array();
  for (size_t i = 0; i < json_array_size(evaluation->scorecards); i++)
    put_element(&cards, card_row(json_array_get(evaluation->scorecards, i)));
  put_member(entry, "evaluation", json_string(evaluation->id));
  put_member(entry, "sketch_digest", record_share(json_object_get(evaluation->head, "sketch_digest")));
  put_member(entry, "model", record_share(json_object_get(evaluation->head, "model")));
  put_member(entry, "stack", record_share(json_object_get(first, "stack")));
  put_member(entry, "seed", record_share(json_object_get(first, "seed")));
  put_member(entry, "profile", record_share(json_object_get(first, "profile")));
  put_member(entry, "verdict", record_share(json_object_get(first, "verdict")));
  put_member(entry, "summary", record_share(pointer_get(evaluation->head, "/recommendation/summary")));
  put_member(entry, "figures", main_figures(first));
  put_member(entry, "scorecards", cards);
}

static enum err not_evaluated(struct review *review, json_t **entry, const char *workload, const struct faults *faults,
                              struct error *e)
{
  struct text title = {0};
  const struct fault *fault = &faults->items[0];
  text_printf(&title, "%s was not evaluated: %s: %s", workload, fault->pointer, fault->detail);
  put_member(entry, "evaluation", json_null());
  put_member(entry, "error", json_sprintf("%s: %s", fault->pointer, fault->detail));
  return review_item_end(review_item_add(review, "not_evaluated", workload, "", text_take(&title, NULL)), e);
}

static enum err note_trace(struct review *review, json_t *entry, const char *workload, struct error *e)
{
  struct text title = {0};
  json_t *item;
  if (!is_trace_changed(last_entry(review, workload), json_object_get(entry, "trace")))
    return ERR_OK;
  text_printf(&title, "the trace of %s changed%s%s", workload, review->trace_change_reason != NULL ? ": " : "",
              review->trace_change_reason != NULL ? review->trace_change_reason : "; nobody has said why");
  item = review_item_add(review, "trace_changed", workload, "", text_take(&title, NULL));
  put_member(&item, "reason", write_text(review->trace_change_reason));
  return review_item_end(item, e);
}

/* Runs the sketch and compares it. */
static enum err evaluate(struct review *review, json_t **entry, const char *workload, const json_t *sketch,
                         struct faults *faults, struct error *e)
{
  const json_t *last = last_entry(review, workload);
  struct evaluation evaluation = {.head = NULL};
  struct trial trial;
  char label[32];
  enum err rc = trial_open(&trial, review->call, sketch, "", faults, e);
  if (rc != ERR_OK)
    return rc;
  (void)snprintf(label, sizeof label, "review:%s", review->week);
  if (faults->count == 0)
    rc = trial_run_stored(&evaluation, &trial, label, false, "", faults, e);
  if (faults->count > 0)
    rc = not_evaluated(review, entry, workload, faults, e);
  else if (rc == ERR_OK) {
    fill_entry(entry, &evaluation);
    if (*entry != NULL && last != NULL)
      rc = review_compare(review, &trial, *entry, evaluation.scorecards, last, e);
  }
  evaluation_fini(&evaluation);
  trial_close(&trial);
  return rc;
}

static enum err review_workload(struct review *review, const struct store_document *row, const json_t *source,
                                struct error *e)
{
  const json_t *sketch = json_object_get(source, "sketch");
  struct faults *faults = calloc(1, sizeof *faults);
  json_t *entry = json_object(), *trace = NULL;
  enum err rc = faults != NULL ? trace_identity(&trace, review, sketch, e) : record_nomem(e);
  put_member(&entry, "workload", json_string(row->name));
  put_member(&entry, "revision", json_integer(row->revision));
  put_member(&entry, "owner", record_share(json_object_get(source, "owner")));
  put_member(&entry, "team", record_share(json_object_get(source, "team")));
  put_member(&entry, "trace", trace);
  if (rc == ERR_OK && entry != NULL)
    rc = note_trace(review, entry, row->name, e);
  if (rc == ERR_OK)
    rc = evaluate(review, &entry, row->name, sketch, faults, e);
  if (rc == ERR_OK && entry != NULL)
    rc = review_agenda(review, entry, sketch, e);
  free(faults);
  if (rc != ERR_OK)
    json_decref(entry);
  else
    put_element(&review->workloads, entry);
  return rc;
}

/* ---- All of them ---------------------------------------------------------------------------------------------------- */

typedef enum err each_workload(struct review *review, const struct store_document *row, const json_t *source,
                               struct error *e);

static enum err check_one(struct review *review, const struct store_document *row, const json_t *source,
                          struct error *e)
{
  return check_trace(review, row->name, json_object_get(source, "sketch"), e);
}

static bool is_wanted(const struct review *review, const char *name)
{
  const json_t *wanted;
  size_t i;
  if (review->only == NULL)
    return true;
  json_array_foreach(review->only, i, wanted)
  {
    if (json_is_string(wanted) && strcmp(json_string_value(wanted), name) == 0)
      return true;
  }
  return false;
}

static enum err visit(struct review *review, const struct store_document *row, each_workload *each, struct error *e)
{
  json_t *source;
  enum err rc = record_parse(&source, row->document, e);
  if (rc != ERR_OK)
    return rc;
  rc = each(review, row, source, e);
  json_decref(source);
  return rc;
}

static enum err visit_all(struct review *review, each_workload *each, struct error *e)
{
  struct store_page page = {.limit = PAGE};
  struct store_documents list;
  bool has_more = true;
  enum err rc = ERR_OK;
  while (rc == ERR_OK && has_more) {
    rc = store_document_list(call_store(review->call), &list, STORE_WORKLOAD, &page, e);
    if (rc != ERR_OK)
      return rc;
    for (size_t i = 0; i < list.count && rc == ERR_OK; i++)
      if (is_wanted(review, list.rows[i].name))
        rc = visit(review, &list.rows[i], each, e);
    has_more = list.has_more;
    if (list.count > 0)
      (void)snprintf(page.after, sizeof page.after, "%s", list.rows[list.count - 1].name);
    store_documents_fini(&list);
  }
  return rc;
}

static bool is_listed_before(const json_t *array, size_t index)
{
  for (size_t i = 0; i < index; i++)
    if (json_equal(json_array_get(array, i), json_array_get(array, index)) != 0)
      return true;
  return false;
}

static enum err check_names(struct review *review, struct error *e)
{
  struct faults *faults = review->call->faults;
  const json_t *name;
  char at[160];
  size_t i;
  enum err rc = ERR_OK;
  if (review->only != NULL && json_array_size(review->only) == 0)
    faults_add(faults, FAULT_MISSING, "/workloads", NULL, "is empty; left out, every registered workload is reviewed");
  json_array_foreach(review->only, i, name)
  {
    read_pointer_index(at, sizeof at, "/workloads", i);
    if (!json_is_string(name))
      faults_add(faults, FAULT_WRONG_TYPE, at, NULL, "is %s; the name of a workload is expected", read_type_name(name));
    else if (is_listed_before(review->only, i))
      faults_add(faults, FAULT_CONFLICT, at, NULL, "is listed twice");
    else
      rc = document_check_workload(review->call, json_string_value(name), at, false, e);
    if (rc != ERR_OK)
      return rc;
  }
  return record_check(review->call, e);
}

static enum err load_last(struct review *review, struct error *e)
{
  struct store_review row;
  enum err rc = store_review_last_signed(call_store(review->call), &row, review->week, e);
  review->since_ms = review->call->now_ms - WEEK_MS;
  if (rc == ERR_NOT_FOUND)
    return ERR_OK;
  if (rc != ERR_OK)
    return rc;
  review->since_ms = row.created_at_ms;
  rc = record_parse(&review->last, row.document, e);
  store_review_fini(&row);
  return rc;
}

enum err review_compute(struct review *review, struct error *e)
{
  enum err rc = load_last(review, e);
  review->workloads = json_array();
  review->items = json_array();
  if (rc == ERR_OK)
    rc = check_names(review, e);
  if (rc == ERR_OK)
    rc = visit_all(review, check_one, e);
  if (rc == ERR_OK)
    rc = visit_all(review, review_workload, e);
  if (rc == ERR_OK)
    rc = review_carry_over(review, e);
  if (rc == ERR_OK && (review->workloads == NULL || review->items == NULL))
    rc = record_nomem(e);
  return rc;
}

/* ---- Items that stay ------------------------------------------------------------------------------------------------ */

static json_t *find_item(const json_t *items, const char *id)
{
  json_t *item;
  size_t i;
  json_array_foreach(items, i, item)
  {
    if (strcmp(json_string_value(json_object_get(item, "id")), id) == 0)
      return item;
  }
  return NULL;
}

static bool same_title(const json_t *a, const json_t *b)
{
  return pointer_same_value(json_object_get(a, "title"), json_object_get(b, "title"));
}

bool review_keep_resolutions(json_t *items, const json_t *old_items)
{
  json_t *old;
  size_t i;
  json_array_foreach(old_items, i, old)
  {
    json_t *item = find_item(items, json_string_value(json_object_get(old, "id")));
    const bool is_added = strcmp(json_string_value(json_object_get(old, "kind")), "added") == 0;
    if (item == NULL && is_added && json_array_append(items, old) != 0)
      return false;
    if (item != NULL && same_title(item, old) &&
        (json_object_set(item, "status", json_object_get(old, "status")) != 0 ||
         json_object_set(item, "resolution", json_object_get(old, "resolution")) != 0))
      return false;
  }
  return true;
}

const char *review_state(const struct store_review *row, const json_t *document)
{
  if (row->signed_at_ms != 0)
    return "signed";
  return json_array_size(json_object_get(document, "sign_offs")) > 0 ? "signing" : "open";
}
