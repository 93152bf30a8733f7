/* Problem documents. Making one never fails: when memory is out, the bare status is left. */
#include "api/problem.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/json_memory.h"
#include "api/write.h"

static void response_reset(struct api_response *response, unsigned status)
{
  api_response_fini(response);
  response->status = status;
  response->type[0] = '\0';
  response->header_count = 0;
}

/* "not-found" → "Not found". */
static void title_of_slug(char *to, size_t size, const char *slug)
{
  size_t i;
  for (i = 0; slug[i] != '\0' && i + 1 < size; i++)
    to[i] = slug[i] == '-' ? ' ' : slug[i];
  to[i] = '\0';
  if (to[0] >= 'a' && to[0] <= 'z')
    to[0] = (char)(to[0] - 'a' + 'A');
}

static json_t *problem_json(unsigned status, const char *slug, const char *detail, const char *request_id,
                            const char *path)
{
  char type[96], title[64];
  json_t *problem = json_object();
  bool failed;
  (void)snprintf(type, sizeof type, "/problems/%s", slug);
  title_of_slug(title, sizeof title, slug);
  failed = json_object_set_new(problem, "type", write_text(type)) != 0 ||
           json_object_set_new(problem, "title", write_text(title)) != 0 ||
           json_object_set_new(problem, "status", json_integer(status)) != 0 ||
           json_object_set_new(problem, "detail", write_text(detail)) != 0 ||
           json_object_set_new(problem, "instance", write_text(path)) != 0 ||
           json_object_set_new(problem, "request_id", write_text(request_id)) != 0;
  if (failed) {
    json_decref(problem);
    return NULL;
  }
  return problem;
}

static void respond_problem_steal(struct api_response *response, json_t *problem)
{
  response->bytes = problem != NULL ? json_memory_dumps(problem, WRITE_FLAGS) : NULL;
  json_decref(problem);
  if (response->bytes == NULL)
    return;
  response->bytes_len = strlen(response->bytes);
  (void)snprintf(response->type, sizeof response->type, "application/problem+json");
}

void api_problem(struct api_response *response, unsigned status, const char *slug, const char *request_id,
                 const char *path, const char *format, ...)
{
  char detail[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  response_reset(response, status);
  respond_problem_steal(response, problem_json(status, slug, detail, request_id, path));
}

static json_t *fault_json(const char *pointer, const char *code, const char *detail, const char *suggestion)
{
  json_t *fault = json_object();
  if (json_object_set_new(fault, "pointer", write_text(pointer)) != 0 ||
      json_object_set_new(fault, "code", write_text(code)) != 0 ||
      json_object_set_new(fault, "detail", write_text(detail)) != 0 ||
      (suggestion[0] != '\0' && json_object_set_new(fault, "suggestion", write_text(suggestion)) != 0)) {
    json_decref(fault);
    return NULL;
  }
  return fault;
}

static json_t *faults_json(const struct faults *faults)
{
  json_t *errors = json_array();
  size_t i;
  for (i = 0; i < faults->count; i++) {
    const struct fault *fault = &faults->items[i];
    if (json_array_append_new(
            errors, fault_json(fault->pointer, fault_code_name(fault->code), fault->detail, fault->suggestion)) != 0) {
      json_decref(errors);
      return NULL;
    }
  }
  return errors;
}

static void faults_sentence(char *to, size_t size, const struct faults *faults)
{
  if (faults->is_truncated)
    (void)snprintf(to, size, "the request has more than %d faults; the first %d are listed", FAULTS_MAX, FAULTS_MAX);
  else if (faults->count == 1)
    (void)snprintf(to, size, "%s: %s",
                   faults->items[0].pointer[0] != '\0' ? faults->items[0].pointer : "(the whole document)",
                   faults->items[0].detail);
  else
    (void)snprintf(to, size, "the request has %zu faults", faults->count);
}

/* errors[] of an ERR_INVALID or ERR_LIMIT: the collected faults, or the one that stands in the error itself. */
static json_t *errors_json(enum err code, const struct error *e, const struct faults *faults)
{
  json_t *errors;
  if (faults != NULL && faults->count > 0)
    return faults_json(faults);
  errors = json_array();
  if (json_array_append_new(errors, fault_json(e->pointer, error_slug(code), e->message, "")) != 0) {
    json_decref(errors);
    return NULL;
  }
  return errors;
}

void problem_of_error(struct api_response *response, enum err code, const struct error *e, const struct faults *faults,
                      const char *request_id, const char *path)
{
  const unsigned status = status_of_error(code);
  const bool has_faults = code == ERR_INVALID && faults != NULL && faults->count > 0;
  char detail[512];
  json_t *problem;
  response_reset(response, status);
  if (has_faults)
    faults_sentence(detail, sizeof detail, faults);
  else if (code == ERR_INTERNAL || e->code != code || e->message[0] == '\0')
    (void)snprintf(detail, sizeof detail, "%s", error_text(code)); /* internals go to the log, not to the client */
  else
    (void)snprintf(detail, sizeof detail, "%s", e->message);
  problem = problem_json(status, error_slug(code), detail, request_id, path);
  if (status == 422 && (has_faults || e->code == code) &&
      json_object_set_new(problem, "errors", errors_json(code, e, has_faults ? faults : NULL)) != 0) {
    json_decref(problem);
    problem = NULL;
  }
  respond_problem_steal(response, problem);
  if (status == 503)
    respond_header(response, "Retry-After", "1");
}
