/* One request from its bytes to its answer: route, scope, query, body, handler, conditions. The order of the checks is the
   order in which a client should hear of its mistakes. */
#include "api/api.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "api/catalogue.h"
#include "api/idempotency.h"
#include "api/json_memory.h"
#include "api/live.h"
#include "api/metrics.h"
#include "api/problem.h"
#include "api/read.h"
#include "api/refusals.h"
#include "api/router.h"
#include "api/write.h"

#define API_MAGIC 0x66697464u /* "fitd" */

struct api {
  unsigned magic;
  struct api_deps deps;
  struct catalogue *catalogue;
  struct live *live;
  int64_t opened_at_ms;
  atomic_uint_fast64_t requests[6]; /* handled, by class of the status */
};

const char *scope_name(enum scope scope)
{
  static const char *const names[] = {"public", "read", "evaluate", "review", "admin"};
  return names[scope];
}

bool scope_parse(enum scope *scope, const char *name)
{
  enum scope each;
  for (each = SCOPE_READ; each <= SCOPE_ADMIN; each++) {
    if (strcmp(scope_name(each), name) == 0) {
      *scope = each;
      return true;
    }
  }
  return false;
}

enum err api_open(struct api **out, const struct api_deps *deps, struct error *e)
{
  struct api *api = calloc(1, sizeof *api);
  enum err code;
  *out = NULL;
  if (api == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to open the API");
  json_memory_watch();
  api->magic = API_MAGIC;
  api->deps = *deps;
  api->opened_at_ms = deps->now_ms(deps->cls);
  code = catalogue_seed_store(deps->store, api->opened_at_ms, e);
  if (code == ERR_OK)
    code = catalogue_open(&api->catalogue, deps->store, e);
  if (code == ERR_OK)
    code = live_open(&api->live, e);
  if (code != ERR_OK) {
    catalogue_close(api->catalogue);
    free(api);
    return code;
  }
  *out = api;
  return ERR_OK;
}

void api_close(struct api *api)
{
  if (api == NULL)
    return;
  assert(api->magic == API_MAGIC);
  live_close(api->live);
  catalogue_close(api->catalogue);
  api->magic = 0;
  free(api);
}

int64_t metrics_opened_at_ms(const struct api *api)
{
  return api->opened_at_ms;
}

void api_count_refusal(struct api *api, unsigned status)
{
  atomic_fetch_add(&api->requests[status / 100 % 6], 1);
}

uint64_t metrics_requests(const struct api *api, unsigned status_class)
{
  return atomic_load(&api->requests[status_class]);
}

struct live *live_of(const struct api *api)
{
  return api->live;
}

struct store *live_store(const struct api *api)
{
  return api->deps.store;
}

int64_t live_now_ms(const struct api *api)
{
  return api->deps.now_ms(api->deps.cls);
}

struct store *call_store(const struct api_call *call)
{
  return call->api->deps.store;
}

const struct api_deps *call_deps(const struct api_call *call)
{
  return &call->api->deps;
}

struct catalogue *call_catalogue(const struct api_call *call)
{
  return call->api->catalogue;
}

void call_new_id(const struct api_call *call, char id[37], unsigned sequence)
{
  unsigned char random[8];
  call->api->deps.random_bytes(call->api->deps.cls, random, sizeof random);
  write_uuid7(id, call->now_ms, sequence, random);
}

static const char *header_of(const struct api_call *call, const char *name)
{
  return call->request->header != NULL ? call->request->header(call->request->cls, name) : NULL;
}

/* ---- Query ---------------------------------------------------------------------------------------------------------- */

static void check_query_key(void *cls, const char *key)
{
  static const char *const none[] = {NULL};
  struct api_call *call = cls;
  const char *const *allowed = call->route->query != NULL ? call->route->query : none;
  const char *const *word;
  const char *first = NULL;
  char pointer[80], excerpt[READ_EXCERPT_SIZE];
  size_t i, times;
  bool may_repeat;
  (void)snprintf(pointer, sizeof pointer, "?%s", read_excerpt(excerpt, key));
  for (i = 0; i < call->faults->count; i++)
    if (strcmp(call->faults->items[i].pointer, pointer) == 0)
      return; /* a key that comes twice is reported once */
  for (word = allowed; *word != NULL && strcmp(*word, key) != 0; word++)
    ;
  times = call->request->query(call->request->cls, key, &first, 1);
  may_repeat = (call->route->flags & ROUTE_METRICS) != 0 && strcmp(key, "metric") == 0;
  if (*word == NULL)
    faults_add(call->faults, FAULT_UNKNOWN_FIELD, pointer, read_nearest(key, allowed),
               "the query key \"%s\" is not known here", excerpt);
  else if (times > 1 && !may_repeat)
    faults_add(call->faults, FAULT_CONFLICT, pointer, NULL, "is given more than once");
  else if (first == NULL || first[0] == '\0')
    faults_add(call->faults, FAULT_OUT_OF_RANGE, pointer, NULL, "is empty: give it a value or leave it out");
}

static bool query_is_known(struct api_call *call)
{
  if (call->request->query_keys != NULL)
    call->request->query_keys(call->request->cls, check_query_key, call);
  return call->faults->count == 0;
}

/* ---- Body ----------------------------------------------------------------------------------------------------------- */

/* application/json or application/<anything>+json, whatever parameters follow. */
static bool is_json_type(const char *type)
{
  const size_t length = strcspn(type, "; \t");
  if (length == 16 && strncasecmp(type, "application/json", 16) == 0)
    return true;
  return length > 17 && strncasecmp(type, "application/", 12) == 0 && strncasecmp(type + length - 5, "+json", 5) == 0;
}

/* Parses the body where the route takes one in JSON. False: `out` holds the refusal. */
static bool take_body(struct api_call *call, struct api_response *out, struct error *e)
{
  const struct api_request *request = call->request;
  const char *type = header_of(call, "Content-Type"), *encoding = header_of(call, "Content-Encoding");
  const unsigned flags = call->route->flags;
  int line, column;
  enum err code;
  if ((flags & (ROUTE_BODY | ROUTE_BODY_OPTIONAL)) == 0) {
    if (request->body_len > 0)
      api_problem(out, 400, "unexpected-body", request->request_id, request->path, "%s here takes no body",
                  request->method);
    return request->body_len == 0;
  }
  if (request->body_len == 0 && (flags & ROUTE_BODY_OPTIONAL) != 0)
    return true;
  if (request->body_len > 0 && type != NULL && (flags & ROUTE_BODY_TRACE) == 0 &&
      (!is_json_type(type) || !call_charset_is_utf8(type))) {
    api_problem(out, 415, "unsupported-media-type", request->request_id, request->path,
                "the body must be application/json, in UTF-8");
    return false;
  }
  if (request->body_len > 0 && encoding != NULL && strcasecmp(encoding, "identity") != 0) {
    api_problem(out, 415, "unsupported-media-type", request->request_id, request->path,
                "the body must be sent without Content-Encoding");
    return false;
  }
  if ((flags & ROUTE_BODY_TRACE) != 0)
    return true;
  code = read_json(&call->body, request->body, request->body_len, &line, &column, e);
  if (code == ERR_INVALID)
    api_problem(out, 400, "malformed-body", request->request_id, request->path, "%s", e->message);
  else if (code != ERR_OK)
    problem_of_error(out, code, e, NULL, request->request_id, request->path);
  return code == ERR_OK;
}

/* ---- The handler and what surrounds it ------------------------------------------------------------------------------ */

/* Routes that know other representations than JSON choose themselves; they have the query key "format". */
static bool is_acceptable(const struct api_call *call)
{
  const char *const *key;
  for (key = call->route->query; key != NULL && *key != NULL; key++)
    if (strcmp(*key, "format") == 0)
      return true;
  return strcmp(call->route->method, "DELETE") == 0 || call_format(call, FORMAT_JSON) == FORMAT_JSON;
}

static void log_internal(const struct api_call *call, const struct error *e)
{
  const struct api_deps *deps = &call->api->deps;
  char sentence[640];
  if (deps->log == NULL)
    return;
  (void)snprintf(sentence, sizeof sentence, "%s %s: internal error: %s", call->request->method, call->route->pattern,
                 e->message);
  deps->log(deps->cls, sentence);
}

static void refuse(const struct api_call *call, struct api_response *out, enum err code, const struct error *e)
{
  if (code == ERR_INTERNAL)
    log_internal(call, e);
  problem_of_error(out, code, e, call->faults, call->request->request_id, call->request->path);
}

/* Runs the handler, under its Idempotency-Key where the route honours one. */
static void run_handler(struct api_call *call, struct api_response *out, struct error *e)
{
  struct idempotency idempotency = {.is_claimed = false};
  bool is_answered = false;
  enum err code = ERR_OK;
  if ((call->route->flags & ROUTE_IDEMPOTENT_KEY) != 0)
    code = idempotency_begin(&idempotency, &is_answered, call, out, call->api->opened_at_ms, e);
  if (code == ERR_OK && !is_answered)
    code = call->route->handle(call, out, e);
  if (code != ERR_OK)
    refuse(call, out, code, e);
  if (!idempotency.is_claimed)
    return;
  code = idempotency_end(&idempotency, call, out, e);
  if (code != ERR_OK && call->api->deps.log != NULL)
    call->api->deps.log(call->api->deps.cls,
                        e->message); /* the work is done and answered; only a replay would differ */
}

/* Entity tags of what GET and PUT answer, and 304. */
static void apply_conditions(const struct api_call *call, struct api_response *out)
{
  const bool is_get = strcmp(call->route->method, "GET") == 0, is_put = strcmp(call->route->method, "PUT") == 0;
  const char *none_match = header_of(call, "If-None-Match"), *quoted;
  char tag[128];
  size_t length;
  if (out->bytes == NULL || !((is_get && out->status == 200) || (is_put && (out->status == 200 || out->status == 201))))
    return;
  if (respond_header_value(out, "ETag") == NULL) {
    etag_of(tag, out->bytes, out->bytes_len);
    respond_etag(out, tag);
  }
  if (!is_get || none_match == NULL)
    return;
  quoted = respond_header_value(out, "ETag");
  length = strlen(quoted);
  if (length < 2 || length - 2 >= sizeof tag)
    return;
  (void)snprintf(tag, sizeof tag, "%.*s", (int)(length - 2), quoted + 1);
  if (!etag_matches(none_match, tag))
    return;
  api_response_fini(out);
  out->status = 304;
  out->type[0] = '\0';
}

static void handle_call(struct api_call *call, struct api_response *out)
{
  const struct api_request *request = call->request;
  struct error e = {.code = ERR_OK};
  if (request->caller->scope < call->route->scope) {
    api_problem(out, 403, "forbidden", request->request_id, request->path,
                "this needs the scope \"%s\"; the token has \"%s\"", scope_name(call->route->scope),
                scope_name(request->caller->scope));
    return;
  }
  if (!is_acceptable(call)) {
    (void)call_not_acceptable(call, out, FORMAT_JSON);
    return;
  }
  if (!query_is_known(call)) {
    refuse(call, out, ERR_INVALID, &e);
    return;
  }
  if (!take_body(call, out, &e))
    return;
  run_handler(call, out, &e);
  apply_conditions(call, out);
  json_decref(call->body);
}

static void handle(struct api *api, const struct api_request *request, struct api_response *response)
{
  struct faults faults; /* large: only its head is cleared */
  struct api_call call = {.api = api, .request = request, .faults = &faults};
  struct route_match match;
  assert(api->magic == API_MAGIC);
  faults.count = 0;
  faults.is_truncated = false;
  *response = (struct api_response){.status = 500};
  router_match(&match, api_routes, api_route_count, request->method, request->path);
  if (match.pattern == NULL) {
    api_problem(response, 404, "not-found", request->request_id, request->path, "there is nothing at this path");
    return;
  }
  if (match.route == NULL && strcmp(request->method, "OPTIONS") == 0) {
    response->status = 204;
    respond_header(response, "Allow", "%s", match.allow);
    return;
  }
  if (match.route == NULL) {
    api_problem(response, 405, "method-not-allowed", request->request_id, request->path, "this path knows %s",
                match.allow);
    respond_header(response, "Allow", "%s", match.allow);
    return;
  }
  call.route = match.route;
  memcpy(call.params, match.params, sizeof call.params);
  call.now_ms = api->deps.now_ms(api->deps.cls);
  handle_call(&call, response);
}

void api_handle(struct api *api, const struct api_request *request, struct api_response *response)
{
  json_memory_begin();
  handle(api, request, response);
  if (json_memory_has_failed()) /* whatever the answer says */
    api_problem(response, 503, "out-of-memory", request->request_id, request->path,
                "not enough memory for this request at the moment");
  api_count_refusal(api, response->status);
}
