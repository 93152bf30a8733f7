/* GET /v1/annotations: dated marks to put beside a series: decisions, and changes of the official sketch and of the models,
   profiles, prices and stacks that the scorecards of a workload were made with. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/document.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/json_memory.h"
#include "api/put.h"
#include "api/read.h"
#include "api/write.h"

#define PAGE_ROWS 500
#define NAMES_MAX 1000 /* workload × profile that are looked at */

struct marks {
  struct api_call *call;
  json_t *items; /* {"time", "kind", …}, in any order; NULL when memory is out */
  int64_t since_ms, until_ms;
  json_t *seen; /* object: "profile/h100-sxm-80gb" … that were visited */
};

static void add(struct marks *marks, int64_t time_ms, const char *kind, const char *name, char *title_steal,
                const char *link)
{
  char time[WRITE_TIME_SIZE];
  json_t *item;
  if (time_ms >= marks->since_ms && time_ms < marks->until_ms) {
    write_time(time, time_ms);
    item = json_object();
    put_member(&item, "time", write_text(time));
    put_member(&item, "kind", write_text(kind));
    put_member(&item, "name", write_text(name));
    put_member(&item, "title", title_steal != NULL ? write_text(title_steal) : NULL);
    put_member(&item, "link", write_text(link));
    put_element(&marks->items, item);
  }
  free(title_steal);
}

static char *sentence(const char *format, ...) PRINTF_LIKE(1, 2);
static char *sentence(const char *format, ...)
{
  char *text;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0)
    text = NULL;
  va_end(args);
  return text;
}

/* ---- Decisions ------------------------------------------------------------------------------------------------------ */

static void add_decision(struct marks *marks, const struct store_decision *row)
{
  json_t *document = json_loads(row->document, 0, NULL);
  const char *rationale = json_string_value(json_object_get(document, "rationale"));
  char *from = json_memory_dumps(json_object_get(document, "from"), JSON_ENCODE_ANY | WRITE_FLAGS);
  char *to = json_memory_dumps(json_object_get(document, "to"), JSON_ENCODE_ANY | WRITE_FLAGS);
  char link[80];
  (void)snprintf(link, sizeof link, "/v1/decisions/%s", row->id);
  add(marks, row->effective_at_ms, "decision", row->knob,
      sentence("%s: %s%s from %s to %s%s%.120s", row->workload, row->is_revert ? "taken back, " : "", row->knob,
               from != NULL ? from : "?", to != NULL ? to : "?", rationale != NULL ? ": " : "",
               rationale != NULL ? rationale : ""),
      link);
  free(to);
  free(from);
  json_decref(document);
}

static enum err add_decisions(struct marks *marks, const char *workload, struct error *e)
{
  const struct store_decision_filter filter = {
      .workload = workload, .as_of_ms = marks->call->now_ms, .since_ms = marks->since_ms, .until_ms = marks->until_ms};
  struct store_page page = {.limit = PAGE_ROWS};
  bool has_more = true;
  enum err rc = ERR_OK;
  while (has_more && rc == ERR_OK) {
    struct store_decisions list;
    rc = store_decision_list(call_store(marks->call), &list, &filter, &page, e);
    for (size_t i = 0; rc == ERR_OK && i < list.count; i++)
      add_decision(marks, &list.rows[i]);
    has_more = rc == ERR_OK && list.has_more && list.count > 0;
    if (has_more)
      (void)snprintf(page.after, sizeof page.after, "%s", list.rows[list.count - 1].id);
    if (rc == ERR_OK)
      store_decisions_fini(&list);
  }
  return rc;
}

/* ---- Revisions ------------------------------------------------------------------------------------------------------ */

static bool is_same_member(const json_t *a, const json_t *b, const char *name)
{
  const json_t *x = json_object_get(a, name), *y = json_object_get(b, name);
  return x == NULL || y == NULL ? x == y : json_equal(x, y) != 0;
}

/* What a revision of a profile changed: its prices alone are a mark of their own kind. */
static const char *profile_kind(const struct store_document *row, const struct store_document *before)
{
  static const char *const prices[] = {"price_usd_per_hour", "prices", "price"};
  json_t *now = json_loads(row->source, 0, NULL), *then = json_loads(before->source, 0, NULL);
  bool is_price = false;
  for (size_t i = 0; i < sizeof prices / sizeof prices[0]; i++)
    is_price = is_price || !is_same_member(now, then, prices[i]);
  json_decref(then);
  json_decref(now);
  return is_price ? "price" : "profile";
}

static void add_revision(struct marks *marks, const struct document_kind *kind, const struct store_document *row,
                         const struct store_document *before)
{
  const bool is_profile = kind->catalogue == STORE_PROFILE;
  const char *noun = is_profile ? profile_kind(row, before) : kind->noun;
  char link[160];
  if (kind->catalogue == STORE_WORKLOAD)
    (void)snprintf(link, sizeof link, "%s/%s", kind->path, row->name);
  else
    (void)snprintf(link, sizeof link, "%s/%s/revisions/%d", kind->path, row->name, row->revision);
  add(marks, row->created_at_ms, noun, row->name,
      sentence("%s %s: revision %d%s", kind->noun, row->name, row->revision,
               strcmp(noun, "price") == 0 ? " changes its price" : ""),
      link);
}

/* Every revision but the first, which changed nothing. Each name once. */
static enum err add_revisions(struct marks *marks, const struct document_kind *kind, const char *name, struct error *e)
{
  const struct store_page page = {.limit = PAGE_ROWS};
  struct store_documents list;
  char key[160];
  enum err rc;
  (void)snprintf(key, sizeof key, "%s/%s", kind->noun, name);
  if (name[0] == '\0' || json_object_get(marks->seen, key) != NULL)
    return ERR_OK;
  put_member(&marks->seen, key, json_true());
  rc = store_document_revisions(call_store(marks->call), &list, kind->catalogue, name, &page, e);
  for (size_t i = 0; rc == ERR_OK && i + 1 < list.count; i++)
    add_revision(marks, kind, &list.rows[i], &list.rows[i + 1]);
  store_documents_fini(&list);
  return rc == ERR_NOT_FOUND ? ERR_OK : rc; /* given inline */
}

/* What the newest scorecard of each workload × profile was made with. */
static enum err add_inputs(struct marks *marks, const char *workload, struct error *e)
{
  const struct store_history_filter filter = {.workload = workload, .latest = true};
  const struct store_page page = {.limit = NAMES_MAX};
  struct store_scorecards list;
  enum err rc = store_scorecard_list(call_store(marks->call), &list, &filter, &page, e);
  for (size_t i = 0; rc == ERR_OK && i < list.count; i++) {
    rc = add_revisions(marks, &document_workloads, list.rows[i].workload, e);
    if (rc == ERR_OK)
      rc = add_revisions(marks, &document_models, list.rows[i].model, e);
    if (rc == ERR_OK)
      rc = add_revisions(marks, &document_profiles, list.rows[i].profile, e);
    if (rc == ERR_OK)
      rc = add_revisions(marks, &document_stacks, list.rows[i].stack, e);
  }
  store_scorecards_fini(&list);
  return rc;
}

/* ---- The answer ----------------------------------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
  const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
  return strcmp(json_string_value(json_object_get(y, "time")), json_string_value(json_object_get(x, "time")));
}

/* The newest `limit` of them in order; a new reference. */
static json_t *newest(const json_t *items, unsigned limit)
{
  const size_t count = json_array_size(items);
  json_t **sorted = calloc(count + 1, sizeof *sorted), *out = json_array();
  if (sorted == NULL || items == NULL) {
    json_decref(out);
    free(sorted);
    return NULL;
  }
  for (size_t i = 0; i < count; i++)
    sorted[i] = json_array_get(items, i);
  qsort(sorted, count, sizeof *sorted, newest_first);
  for (size_t i = 0; i < count && i < limit; i++)
    put_element(&out, json_incref(sorted[i]));
  free(sorted);
  return out;
}

enum err annotations_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct marks marks = {.call = call, .until_ms = INT64_MAX};
  const char *workload = call_query(call, "workload");
  struct store_page page;
  enum err rc;
  (void)call_page(call, &page); /* its faults are counted below */
  history_time(call, "since", &marks.since_ms);
  history_time(call, "until", &marks.until_ms);
  if (marks.since_ms >= marks.until_ms)
    faults_add(call->faults, FAULT_CONFLICT, "?until", NULL, "until is not after since");
  if (call->faults->count > 0)
    return error_set(e, ERR_INVALID, "", "the query is not valid");
  marks.items = json_array();
  marks.seen = json_object();
  rc = add_decisions(&marks, workload, e);
  if (rc == ERR_OK && workload != NULL)
    rc = add_revisions(&marks, &document_workloads, workload, e);
  if (rc == ERR_OK)
    rc = add_inputs(&marks, workload, e);
  if (rc == ERR_OK)
    rc = respond_page_steal(call, out, newest(marks.items, page.limit), NULL, e);
  json_decref(marks.seen);
  json_decref(marks.items);
  return rc;
}
