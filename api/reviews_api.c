/* /v1/reviews: opened once a week, worked through item by item, signed by the teams, and from then on only added to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/json_memory.h"
#include "api/put.h"
#include "api/read.h"
#include "api/review.h"
#include "api/write.h"

#define FORMATS (FORMAT_JSON | FORMAT_MARKDOWN)
#define WEEK_FIRST "2000-W01"

/* ---- Answers -------------------------------------------------------------------------------------------------------- */

static int64_t local_ms(const struct api_call *call)
{
  const struct api_deps *deps = call_deps(call);
  return call->now_ms + (deps->utc_offset_s != NULL ? (int64_t)deps->utc_offset_s(deps->cls, call->now_ms) * 1000 : 0);
}

/* Names between commas, trimmed. */
static json_t *required_teams(const struct api_call *call)
{
  const char *at = call_deps(call)->review_teams;
  json_t *teams = json_array();
  while (at != NULL && *at != '\0') {
    const size_t length = strcspn(at, ",");
    size_t first = strspn(at, " "), last = length;
    while (last > first && at[last - 1] == ' ')
      last--;
    if (last > first)
      put_element(&teams, json_stringn(at + first, last - first));
    at += length + (at[length] == ',' ? 1 : 0);
  }
  return teams;
}

static enum err addenda_json(json_t **to, const struct api_call *call, const char *week, struct error *e)
{
  struct store_review_addenda list;
  enum err rc = store_review_addenda(call_store(call), &list, week, e);
  *to = json_array();
  if (rc != ERR_OK)
    return rc;
  for (size_t i = 0; i < list.count && rc == ERR_OK; i++) {
    json_t *addendum;
    rc = record_parse(&addendum, list.documents[i], e);
    if (rc == ERR_OK)
      put_element(to, addendum);
  }
  store_review_addenda_fini(&list);
  return rc;
}

/* The whole review; *out is the caller's. */
static enum err review_answer(json_t **out, const struct api_call *call, const struct store_review *row,
                              struct error *e)
{
  json_t *to = json_object(), *document = NULL, *addenda = NULL;
  enum err rc = record_parse(&document, row->document, e);
  if (rc == ERR_OK)
    rc = addenda_json(&addenda, call, row->week, e);
  put_member(&to, "week", json_string(row->week));
  put_member(&to, "state", json_string(review_state(row, document)));
  put_member(&to, "version", json_integer(row->version));
  put_member(&to, "opened_at", record_time(row->created_at_ms));
  put_member(&to, "changed_at", record_time(row->changed_at_ms));
  put_member(&to, "signed_at", record_time(row->signed_at_ms));
  if (rc == ERR_OK && (to == NULL || json_object_update_missing(to, document) != 0))
    rc = record_nomem(e);
  put_member(&to, "addenda", addenda);
  json_decref(document);
  if (rc == ERR_OK && to == NULL)
    rc = record_nomem(e);
  if (rc != ERR_OK)
    json_decref(to);
  *out = rc == ERR_OK ? to : NULL;
  return rc;
}

enum err review_respond(struct api_call *call, struct api_response *out, unsigned status, enum format format,
                        const char *week, struct error *e)
{
  struct store_review row;
  json_t *review;
  enum err rc = store_review_get(call_store(call), &row, week, e);
  if (rc != ERR_OK)
    return rc;
  rc = review_answer(&review, call, &row, e);
  store_review_fini(&row);
  if (rc != ERR_OK)
    return rc;
  if (format == FORMAT_MARKDOWN)
    rc = respond_string_steal(out, status, "text/markdown", review_markdown(review), e);
  else
    rc = respond_json_steal(out, status, json_incref(review), e);
  json_decref(review);
  return rc;
}

enum err reviews_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMATS);
  return review_respond(call, out, 200, format, call->params[0], e);
}

/* In a list a review is told in numbers. */
static json_t *brief(const struct store_review *row, const json_t *document)
{
  const json_t *items = json_object_get(document, "items"), *item;
  json_t *to = json_object();
  json_int_t open = 0;
  size_t i;
  json_array_foreach(items, i, item)
  {
    open += strcmp(json_string_value(json_object_get(item, "status")), "open") == 0 ? 1 : 0;
  }
  put_member(&to, "week", json_string(row->week));
  put_member(&to, "state", json_string(review_state(row, document)));
  put_member(&to, "opened_at", record_time(row->created_at_ms));
  put_member(&to, "signed_at", record_time(row->signed_at_ms));
  put_member(&to, "workloads", json_integer((json_int_t)json_array_size(json_object_get(document, "workloads"))));
  put_member(&to, "items", json_integer((json_int_t)json_array_size(items)));
  put_member(&to, "open_items", json_integer(open));
  return to;
}

enum err reviews_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_reviews list;
  struct store_page page;
  json_t *items = json_array();
  enum err rc;
  if (!call_page(call, &page)) {
    json_decref(items);
    return ERR_INVALID;
  }
  rc = store_review_list(call_store(call), &list, &page, e);
  if (rc != ERR_OK) {
    json_decref(items);
    return rc;
  }
  for (size_t i = 0; i < list.count && rc == ERR_OK; i++) {
    json_t *document;
    rc = record_parse(&document, list.rows[i].document, e);
    if (rc == ERR_OK)
      put_element(&items, brief(&list.rows[i], document));
    json_decref(document);
  }
  if (rc == ERR_OK)
    rc = respond_page_steal(call, out, items, list.has_more ? list.rows[list.count - 1].week : NULL, e);
  else
    json_decref(items);
  store_reviews_fini(&list);
  return rc;
}

/* ---- Opening -------------------------------------------------------------------------------------------------------- */

static json_t *document_of(const struct review *review)
{
  json_t *to = json_object();
  put_member(&to, "week", json_string(review->week));
  put_member(&to, "opened_by", review->is_scheduled ? json_string("schedule") : record_token(review->call));
  put_member(&to, "compared_with", record_share(json_object_get(review->last, "week")));
  put_member(&to, "trace_change_reason", write_text(review->trace_change_reason));
  put_member(&to, "only", review->only != NULL ? json_deep_copy(review->only) : json_null());
  put_member(&to, "required_teams", required_teams(review->call));
  put_member(&to, "workloads", record_share(review->workloads));
  put_member(&to, "items", record_share(review->items));
  put_member(&to, "sign_offs", json_array());
  return to;
}

static enum err insert_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_review_insert(tx, cls, e);
}

static enum err update_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_review_update(tx, cls, e);
}

/* Writes a document back as the next version of the row. */
enum err review_save(struct api_call *call, struct store_review *row, const json_t *document, bool is_signed,
                     struct error *e)
{
  char *const old = row->document;
  enum err rc;
  row->document = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL;
  row->changed_at_ms = call->now_ms;
  row->signed_at_ms = is_signed ? call->now_ms : 0;
  rc = row->document != NULL ? store_write(call_store(call), "review", update_work, row, e) : record_nomem(e);
  free(row->document);
  row->document = old;
  return rc;
}

static enum err open_review(struct review *review, struct error *e)
{
  struct store_review row = {.week = review->week, .created_at_ms = review->call->now_ms};
  json_t *document;
  enum err rc = store_review_get(call_store(review->call), &row, review->week, e);
  if (rc == ERR_OK) {
    store_review_fini(&row);
    return error_set(e, ERR_CONFLICT, "", "the review of %s is open already", review->week);
  }
  if (rc != ERR_NOT_FOUND)
    return rc;
  rc = review_compute(review, e);
  if (rc != ERR_OK)
    return rc;
  document = document_of(review);
  row = (struct store_review){.week = review->week,
                              .created_at_ms = review->call->now_ms,
                              .document = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL};
  json_decref(document);
  rc = row.document != NULL ? store_write(call_store(review->call), "review", insert_work, &row, e) : record_nomem(e);
  free(row.document);
  return rc;
}

static void check_week(struct api_call *call, char week[WEEK_SIZE], const char *given)
{
  char now[WEEK_SIZE], excerpt[READ_EXCERPT_SIZE];
  week_of(now, local_ms(call));
  (void)snprintf(week, WEEK_SIZE, "%s", now);
  if (given[0] == '\0')
    return;
  if (!week_is_valid(given))
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "/week", now, "\"%s\" is no ISO 8601 week such as %s",
               read_excerpt(excerpt, given), now);
  else if (strcmp(given, WEEK_FIRST) < 0)
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "/week", now, "%s lies before the year 2000", given);
  else if (strcmp(given, now) > 0)
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "/week", now, "%s has not begun; it is %s", given, now);
  else
    (void)snprintf(week, WEEK_SIZE, "%.8s", given);
}

enum err reviews_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct review review = {.call = call};
  char week[16] = "";
  const struct read_field fields[] = {
      {.name = "week", .kind = READ_TEXT, .to = week, .size = sizeof week},
      {.name = "workloads", .kind = READ_CALL, .allows_null = true, .to = &review.only, .call = record_read_any},
      {.name = "trace_change_reason",
       .kind = READ_CALL,
       .allows_null = true,
       .to = &review.trace_change_reason,
       .call = record_read_prose},
  };
  enum err rc;
  if (call->body != NULL)
    (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (review.only != NULL && !json_is_array(review.only))
    faults_add(call->faults, FAULT_WRONG_TYPE, "/workloads", NULL, "is %s; a list of names is expected",
               read_type_name(review.only));
  check_week(call, review.week, week);
  rc = record_check(call, e);
  if (rc == ERR_OK)
    rc = open_review(&review, e);
  review_fini(&review);
  if (rc == ERR_OK)
    rc = review_respond(call, out, 201, FORMAT_JSON, review.week, e);
  if (rc == ERR_OK)
    respond_header(out, "Location", "/v1/reviews/%s", review.week);
  return rc;
}

/* ---- Changing an open review ---------------------------------------------------------------------------------------- */

/* The row and its document for a change; ERR_CONFLICT once somebody has signed. */
enum err review_begin(struct store_review *row, json_t **document, const struct api_call *call, struct error *e)
{
  enum err rc = store_review_get(call_store(call), row, call->params[0], e);
  *document = NULL;
  if (rc != ERR_OK)
    return rc;
  rc = record_parse(document, row->document, e);
  if (rc == ERR_OK && row->signed_at_ms != 0)
    rc = error_set(e, ERR_CONFLICT, "", "the review of %s is signed and stands; say more in an addendum", row->week);
  else if (rc == ERR_OK && json_array_size(json_object_get(*document, "sign_offs")) > 0)
    rc = error_set(e, ERR_CONFLICT, "", "the review of %s is being signed: what was signed already must not change",
                   row->week);
  if (rc != ERR_OK) {
    json_decref(*document);
    *document = NULL;
    store_review_fini(row);
  }
  return rc;
}

enum err reviews_refresh_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct review review = {.call = call};
  const struct read_field fields[] = {{.name = "trace_change_reason",
                                       .kind = READ_CALL,
                                       .allows_null = true,
                                       .to = &review.trace_change_reason,
                                       .call = record_read_prose}};
  struct store_review row;
  json_t *document;
  enum err rc = review_begin(&row, &document, call, e);
  if (rc != ERR_OK)
    return rc;
  if (call->body != NULL)
    (void)read_object(call->body, "", fields, 1, call->faults);
  if (review.trace_change_reason == NULL)
    review.trace_change_reason = json_string_value(json_object_get(document, "trace_change_reason"));
  if (json_is_array(json_object_get(document, "only")))
    review.only = json_object_get(document, "only");
  (void)snprintf(review.week, sizeof review.week, "%s", row.week);
  rc = record_check(call, e);
  if (rc == ERR_OK)
    rc = review_compute(&review, e);
  if (rc == ERR_OK && !review_keep_resolutions(review.items, json_object_get(document, "items")))
    rc = record_nomem(e);
  if (rc == ERR_OK &&
      (json_object_set(document, "workloads", review.workloads) != 0 ||
       json_object_set(document, "items", review.items) != 0 ||
       json_object_set_new(document, "trace_change_reason", write_text(review.trace_change_reason)) != 0))
    rc = record_nomem(e);
  if (rc == ERR_OK)
    rc = review_save(call, &row, document, false, e);
  review_fini(&review);
  json_decref(document);
  store_review_fini(&row);
  return rc == ERR_OK ? review_respond(call, out, 200, FORMAT_JSON, call->params[0], e) : rc;
}

/* ---- By itself ------------------------------------------------------------------------------------------------------ */

/* The week's review from the configured day and hour on, unless somebody opened it; none while nothing is registered. */
static enum err open_due(struct api_call *call, int day, int hour, struct error *e)
{
  struct review review = {.call = call, .is_scheduled = true};
  const int64_t local = local_ms(call);
  const struct store_page page = {.limit = 1};
  struct store_documents workloads;
  struct store_review row;
  enum err rc;
  if (week_day(local) < day || (week_day(local) == day && week_hour(local) < hour))
    return ERR_OK;
  week_of(review.week, local);
  rc = store_review_get(call_store(call), &row, review.week, e);
  if (rc == ERR_OK)
    store_review_fini(&row);
  if (rc != ERR_NOT_FOUND)
    return rc;
  rc = store_document_list(call_store(call), &workloads, STORE_WORKLOAD, &page, e);
  if (rc != ERR_OK)
    return rc;
  if (workloads.count > 0)
    rc = open_review(&review, e);
  store_documents_fini(&workloads);
  review_fini(&review);
  return rc;
}

enum err api_review_due(struct api *api, int day, int hour, struct error *e)
{
  static const struct api_caller caller = {SCOPE_REVIEW, "schedule"};
  const struct api_request request = {
      .method = "POST", .path = "/v1/reviews", .query_text = "", .request_id = "schedule", .caller = &caller};
  struct faults *faults = calloc(1, sizeof *faults);
  struct api_call call = {.api = api, .request = &request, .faults = faults};
  enum err rc;
  if (faults == NULL)
    return record_nomem(e);
  call.now_ms = call_deps(&call)->now_ms(call_deps(&call)->cls);
  rc = open_due(&call, day, hour, e);
  free(faults);
  return rc;
}
