/* /v1/traces: recordings come in as CSV or JSON lines, statistics and the requests in canonical form go out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/document.h"
#include "api/evaluation.h"
#include "api/handlers.h"
#include "api/json_memory.h"
#include "api/read.h"
#include "api/trace.h"

#define FORMATS (FORMAT_JSON | FORMAT_CSV)
#define NAMES_MAX 1000 /* looked through for a near one */

static const char noun[] = "trace";

static const char *request_header(const struct api_call *call, const char *name)
{
  return call->request->header != NULL ? call->request->header(call->request->cls, name) : NULL;
}

/* ---- Answers ---------------------------------------------------------------------------------------------------------- */

/* {"name":…,"revision":…,"created_at":…} and the members of the stored document. */
static char *trace_text(const struct store_trace *row, size_t *length)
{
  struct text text = {NULL, 0, 0, false};
  char created[WRITE_TIME_SIZE];
  write_time(created, row->created_at_ms);
  text_printf(&text, "{\"name\":\"%s\",\"revision\":%d,\"created_at\":\"%s\",", row->name, row->revision, created);
  text_puts(&text, row->document + 1);
  return text_take(&text, length);
}

static enum err respond_trace(struct api_response *out, unsigned status, const struct store_trace *row, struct error *e)
{
  size_t length;
  char *bytes = trace_text(row, &length);
  return respond_text_steal(out, status, "application/json", bytes, length, e);
}

/* The stored name nearest to an unknown one, copied; "" when none is near. */
static enum err nearest_name(char to[80], const struct api_call *call, const char *name, struct error *e)
{
  const struct store_page page = {.limit = NAMES_MAX};
  struct store_traces list = {.rows = NULL};
  const char **names = NULL, *near;
  enum err code = store_trace_list(call_store(call), &list, &page, e);
  to[0] = '\0';
  if (code != ERR_OK)
    return code;
  names = calloc(list.count + 1, sizeof *names);
  if (names == NULL) {
    code = error_set(e, ERR_NOMEM, "", "not enough memory to look for a trace");
    goto out;
  }
  for (size_t i = 0; i < list.count; i++)
    names[i] = list.rows[i].name;
  near = read_nearest(name, names);
  (void)snprintf(to, 80, "%s", near != NULL ? near : "");
out:
  free(names);
  store_traces_fini(&list);
  return code;
}

static enum err not_found(const struct api_call *call, const char *name, struct error *e)
{
  char near[80];
  const enum err code = nearest_name(near, call, name, e);
  if (code != ERR_OK)
    return code;
  if (near[0] != '\0')
    return error_set(e, ERR_NOT_FOUND, "", "no trace is named \"%s\"; the nearest is \"%s\"", name, near);
  return error_set(e, ERR_NOT_FOUND, "", "no trace is named \"%s\"", name);
}

/* The trace that the path names; a 404 has the nearest name. */
static enum err get_row(struct store_trace *row, const struct api_call *call, struct error *e)
{
  const enum err code = store_trace_get(call_store(call), row, call->params[0], e);
  return code == ERR_NOT_FOUND ? not_found(call, call->params[0], e) : code;
}

enum err traces_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_trace row = {.name = NULL};
  enum err code = get_row(&row, call, e);
  if (code == ERR_OK)
    code = respond_trace(out, 200, &row, e);
  store_trace_fini(&row);
  return code;
}

static enum err respond_list(struct api_call *call, struct api_response *out, const struct store_traces *list,
                             struct error *e)
{
  char **texts = calloc(list->count + 1, sizeof *texts);
  enum err code = ERR_OK;
  if (texts == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the list");
  for (size_t i = 0; i < list->count && code == ERR_OK; i++) {
    texts[i] = trace_text(&list->rows[i], NULL);
    if (texts[i] == NULL)
      code = error_set(e, ERR_NOMEM, "", "not enough memory for the list");
  }
  if (code == ERR_OK)
    code = respond_page_texts(call, out, (const char *const *)texts, list->count,
                              list->has_more ? list->rows[list->count - 1].name : NULL, e);
  for (size_t i = 0; i < list->count; i++)
    free(texts[i]);
  free(texts);
  return code;
}

enum err traces_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_traces list = {.rows = NULL};
  struct store_page page;
  enum err code;
  if (!call_page(call, &page))
    return ERR_INVALID;
  code = store_trace_list(call_store(call), &list, &page, e);
  if (code == ERR_OK)
    code = respond_list(call, out, &list, e);
  store_traces_fini(&list);
  return code;
}

/* ---- Requests --------------------------------------------------------------------------------------------------------- */

#define KEY_DIGITS 16 /* of the digest, in a cursor */

/* A key is "<start of the digest>:<requests seen>", so that a cursor does not go on in another recording. */
static bool key_parse(size_t *first, const char *key, const struct store_trace *row)
{
  const char *digest = row->digest + strlen("sha256:");
  char *end = NULL;
  *first = 0;
  if (key[0] == '\0')
    return true;
  if (strncmp(key, digest, KEY_DIGITS) != 0 || key[KEY_DIGITS] != ':')
    return false;
  *first = strtoul(key + KEY_DIGITS + 1, &end, 10);
  return *end == '\0' && *first < row->request_count;
}

static enum err respond_requests(struct api_call *call, struct api_response *out,
                                 const struct store_trace_requests *requests, const char *next, struct error *e)
{
  char **texts = calloc(requests->count + 1, sizeof *texts);
  enum err code = ERR_OK;
  if (texts == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the requests");
  for (size_t i = 0; i < requests->count && code == ERR_OK; i++) {
    struct text text = {NULL, 0, 0, false};
    trace_write_json(&text, requests, i);
    texts[i] = text_take(&text, NULL);
    if (texts[i] == NULL)
      code = error_set(e, ERR_NOMEM, "", "not enough memory for the requests");
  }
  if (code == ERR_OK)
    code = respond_page_texts(call, out, (const char *const *)texts, requests->count, next, e);
  for (size_t i = 0; i < requests->count; i++)
    free(texts[i]);
  free(texts);
  return code;
}

static enum err respond_page(struct api_call *call, struct api_response *out, const struct store_trace *row,
                             size_t first, size_t limit, enum format format, struct error *e)
{
  struct store_trace_requests requests = {.rows = NULL};
  struct text csv = {NULL, 0, 0, false};
  char next[80] = "";
  enum err code = store_trace_requests_get(call_store(call), &requests, row->digest, first, limit, e);
  if (code != ERR_OK)
    return code;
  if (first + requests.count < row->request_count)
    (void)snprintf(next, sizeof next, "%.*s:%zu", KEY_DIGITS, row->digest + strlen("sha256:"), first + requests.count);
  if (format == FORMAT_CSV) {
    trace_write_csv(&csv, &requests);
    code = respond_page_csv_steal(call, out, text_take(&csv, NULL), next, e);
  } else {
    code = respond_requests(call, out, &requests, next, e);
  }
  store_trace_requests_fini(&requests);
  return code;
}

enum err traces_requests_list(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  struct store_trace row = {.name = NULL};
  struct store_page page;
  size_t first;
  enum err code;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMATS);
  if (!call_page(call, &page))
    return ERR_INVALID;
  code = get_row(&row, call, e);
  if (code != ERR_OK)
    return code;
  if (key_parse(&first, page.after, &row)) {
    code = respond_page(call, out, &row, first, page.limit, format, e);
  } else {
    faults_add(call->faults, FAULT_CONFLICT, "?cursor", NULL,
               "belongs to requests that the trace \"%s\" no longer has; it was replaced meanwhile", row.name);
    code = ERR_INVALID;
  }
  store_trace_fini(&row);
  return code;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------------- */

static bool is_type(const char *type, const char *wanted)
{
  const size_t length = strcspn(type, "; \t");
  return length == strlen(wanted) && strncasecmp(type, wanted, length) == 0;
}

/* By Content-Type; false: `out` holds the refusal. */
static bool choose_carrier(enum trace_carrier *carrier, const struct api_call *call, struct api_response *out)
{
  static const char *const lines[] = {"application/jsonl", "application/x-ndjson", "application/x-jsonlines",
                                      "application/jsonlines", "application/ndjson"};
  const char *type = request_header(call, "Content-Type");
  bool is_known = type != NULL && call_charset_is_utf8(type) && is_type(type, "text/csv");
  *carrier = TRACE_CSV;
  for (size_t i = 0; type != NULL && call_charset_is_utf8(type) && i < sizeof lines / sizeof lines[0]; i++)
    if (is_type(type, lines[i])) {
      *carrier = TRACE_JSON_LINES;
      is_known = true;
    }
  if (!is_known)
    api_problem(out, 415, "unsupported-media-type", call->request->request_id, call->request->path,
                "the Content-Type must be text/csv or application/jsonl, in UTF-8");
  return is_known;
}

static void check_name(struct api_call *call)
{
  char normal[65] = "";
  const struct read_field field = {.kind = READ_NAME, .to = normal, .size = sizeof normal};
  json_t *given = json_string(call->params[0]);
  read_value(given, "{name}", &field, call->faults);
  json_decref(given);
}

/* If-Match and If-None-Match; *expected is the revision that must still be the newest at the write, -1 without a
   condition. */
static enum err check_conditions(int *expected, const struct api_call *call, struct error *e)
{
  struct store_trace row = {.name = NULL};
  char tag[ETAG_SIZE], *bytes = NULL;
  size_t length;
  enum err code;
  *expected = -1;
  if (request_header(call, "If-Match") == NULL && request_header(call, "If-None-Match") == NULL)
    return ERR_OK;
  code = store_trace_get(call_store(call), &row, call->params[0], e);
  if (code != ERR_OK && code != ERR_NOT_FOUND)
    return code;
  if (code == ERR_OK) {
    bytes = trace_text(&row, &length);
    if (bytes == NULL) {
      code = error_set(e, ERR_NOMEM, "", "not enough memory to compare entity tags");
      goto out;
    }
    etag_of(tag, bytes, length);
  }
  code = document_compare_tag(call, noun, bytes != NULL ? tag : NULL, e);
  *expected = row.revision;
out:
  free(bytes);
  store_trace_fini(&row);
  return code;
}

struct put_work {
  const struct store_trace *row;
  const struct store_trace_requests *requests;
  int expected_revision, revision;
  bool is_created;
};

static enum err put_work(struct store_tx *tx, void *cls, struct error *e)
{
  struct put_work *work = cls;
  return store_trace_put(tx, work->row, work->requests, work->expected_revision, &work->revision, &work->is_created, e);
}

static enum err row_of(struct store_trace *out, const struct api_call *call, const struct trace *trace, struct error *e)
{
  json_t *document = trace_document(trace);
  *out = (struct store_trace){.created_at_ms = call->now_ms};
  if (document != NULL) {
    out->name = strdup(call->params[0]);
    out->digest = strdup(trace->digest);
    out->document = json_memory_dumps(document, WRITE_FLAGS);
  }
  json_decref(document);
  if (out->name != NULL && out->digest != NULL && out->document != NULL)
    return ERR_OK;
  store_trace_fini(out);
  return error_set(e, ERR_NOMEM, "", "not enough memory to store the trace");
}

static enum err put(struct api_call *call, struct api_response *out, const struct trace *trace, struct error *e)
{
  struct store_trace row = {.name = NULL}, stored = {.name = NULL};
  struct put_work work = {.row = &row, .requests = &trace->requests};
  enum err code = check_conditions(&work.expected_revision, call, e);
  if (code == ERR_OK)
    code = row_of(&row, call, trace, e);
  if (code != ERR_OK)
    return code;
  code = store_write(call_store(call), noun, put_work, &work, e);
  if (code == ERR_PRECONDITION)
    code = error_set(e, ERR_PRECONDITION, "", "the trace \"%s\" was changed by another request", row.name);
  if (code == ERR_OK)
    code = store_trace_get(call_store(call), &stored, row.name, e);
  if (code == ERR_OK)
    code = respond_trace(out, work.is_created ? 201 : 200, &stored, e);
  if (code == ERR_OK && work.is_created)
    respond_header(out, "Location", "/v1/traces/%s", row.name);
  store_trace_fini(&stored);
  store_trace_fini(&row);
  return code;
}

enum err traces_put(struct api_call *call, struct api_response *out, struct error *e)
{
  const struct api_request *request = call->request;
  enum trace_carrier carrier;
  struct trace trace;
  enum err code;
  if (!choose_carrier(&carrier, call, out))
    return ERR_OK;
  check_name(call);
  code = trace_read(&trace, carrier, request->body != NULL ? request->body : "", request->body_len, call->faults, e);
  if (code == ERR_LIMIT) {
    api_problem(out, 413, "payload-too-large", request->request_id, request->path, "%s", e->message);
    return ERR_OK;
  }
  if (code == ERR_OK)
    code = put(call, out, &trace, e);
  trace_fini(&trace); /* harmless after an error of reading, which left it empty */
  return code;
}

static enum err delete_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_trace_delete(tx, cls, e);
}

enum err traces_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  int expected;
  enum err code = check_conditions(&expected, call, e);
  if (code == ERR_OK)
    code = store_write(call_store(call), noun, delete_work, call->params[0], e);
  if (code == ERR_NOT_FOUND)
    return not_found(call, call->params[0], e);
  if (code == ERR_CONFLICT)
    return error_set(e, code, "", "the trace \"%s\" can not be deleted: history refers to it", call->params[0]);
  if (code == ERR_OK)
    out->status = 204;
  return code;
}

/* ---- Sketches that replay a trace ------------------------------------------------------------------------------------- */

enum err trace_check_sketch(struct api_call *call, struct sketch *sketch, const char *pointer, struct error *e)
{
  const char *name = sketch->workload.traffic.trace;
  const bool is_object = json_is_object(json_object_get(sketch->traffic, "trace"));
  struct store_trace row = {.name = NULL};
  char at[160], near[80], excerpt[READ_EXCERPT_SIZE];
  enum err code;
  if (sketch->workload.traffic.load != LOAD_TRACE || name[0] == '\0')
    return ERR_OK;
  code = store_trace_get(call_store(call), &row, name, e);
  if (code == ERR_OK)
    code = trace_replay_load(sketch, call_store(call), &row, e);
  store_trace_fini(&row);
  if (code != ERR_NOT_FOUND)
    return code;
  code = nearest_name(near, call, name, e);
  (void)snprintf(at, sizeof at, "%s/traffic/trace%s", pointer, is_object ? "/name" : "");
  if (code == ERR_OK)
    faults_add(call->faults, FAULT_UNKNOWN_NAME, at, near[0] != '\0' ? near : NULL, "no trace is named \"%s\"",
               read_excerpt(excerpt, name));
  return code;
}
