/* Answers on their way out: refusals, compression, the headers that are the server's, and CORS. */
#include "server/http_call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/refusals.h"
#include "server/encoding.h"

#define GZIP_MIN_BYTES 1024
#define GZIP_HEAVY_BYTES (32 * 1024) /* about 200 us of compression */

void http_refuse(struct http_call *call, unsigned status, const char *slug, const char *format, ...)
{
  char detail[400];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  api_problem(&call->response, status, slug, call->id, call->path, "%s", detail);
  api_count_refusal(call->http->options.api, status);
  call->state = HTTP_READY;
}

void http_add_header(struct api_response *response, const char *name, const char *value)
{
  struct api_header *header = &response->headers[response->header_count];
  if (response->header_count == sizeof response->headers / sizeof response->headers[0])
    return;
  (void)snprintf(header->name, sizeof header->name, "%s", name);
  (void)snprintf(header->value, sizeof header->value, "%s", value);
  response->header_count++;
}

/* ---- Compression ---- */

static bool is_compressible(const struct http_call *call)
{
  return call->headers.accepts_gzip && call->response.bytes_len > GZIP_MIN_BYTES;
}

bool http_encoding_is_heavy(const struct http_call *call)
{
  return is_compressible(call) && call->response.bytes_len > GZIP_HEAVY_BYTES;
}

static struct api_header *find_header(struct api_response *response, const char *name)
{
  size_t i;
  for (i = 0; i < response->header_count; i++)
    if (strcasecmp(response->headers[i].name, name) == 0)
      return &response->headers[i];
  return NULL;
}

void http_encode(struct http_call *call)
{
  struct api_response *response = &call->response;
  const size_t header_max = sizeof response->headers / sizeof response->headers[0];
  struct api_header *tag = find_header(response, "ETag");
  char *packed;
  size_t packed_len;
  if (response->status == 304 && call->asks_gzip_tag && tag != NULL)
    (void)encoding_mark_gzip_tag(tag->value, sizeof tag->value);
  if (!is_compressible(call) || response->header_count == header_max)
    return;
  if (tag != NULL && !encoding_mark_gzip_tag(tag->value, sizeof tag->value))
    return; /* two forms may not share a strong tag */
  if (encoding_gzip(&packed, &packed_len, response->bytes, response->bytes_len) != ERR_OK) {
    if (tag != NULL)
      (void)encoding_strip_gzip_tags(tag->value, tag->value);
    return; /* the plain form is as good */
  }
  free(response->bytes);
  response->bytes = packed;
  response->bytes_len = packed_len;
  http_add_header(response, "Content-Encoding", "gzip");
}

/* ---- CORS ---- */

bool http_origin_is_allowed(const char *allowed, const char *origin)
{
  size_t length = strlen(origin);
  while (*allowed != '\0') {
    size_t item;
    allowed += strspn(allowed, " ,");
    item = strcspn(allowed, " ,");
    if ((item == 1 && *allowed == '*') || (item > 0 && item == length && strncasecmp(allowed, origin, item) == 0))
      return true;
    allowed += item;
  }
  return false;
}

static bool has_allowed_origin(struct http_call *call)
{
  struct http *http = call->http;
  bool is_allowed;
  if (call->headers.origin == NULL || !atomic_load_explicit(&http->has_cors, memory_order_relaxed))
    return false;
  (void)pthread_rwlock_rdlock(&http->cors_lock);
  is_allowed = http_origin_is_allowed(http->cors_origins, call->headers.origin);
  (void)pthread_rwlock_unlock(&http->cors_lock);
  return is_allowed;
}

bool http_preflight(struct http_call *call)
{
  if (strcmp(call->method, "OPTIONS") != 0 || call->headers.access_control_method == NULL || !has_allowed_origin(call))
    return false;
  call->response.status = 204;
  http_add_header(&call->response, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE");
  http_add_header(&call->response, "Access-Control-Allow-Headers",
                  "Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key, Request-Id");
  http_add_header(&call->response, "Access-Control-Max-Age", "600");
  call->state = HTTP_READY;
  return true;
}

/* ---- Headers and queueing ---- */

static bool add(struct MHD_Response *answer, const char *name, const char *value)
{
  return MHD_add_response_header(answer, name, value) == MHD_YES;
}

static bool add_cors(struct http_call *call, struct MHD_Response *answer)
{
  if (!has_allowed_origin(call))
    return true;
  return add(answer, "Access-Control-Allow-Origin", call->headers.origin) &&
         add(answer, "Access-Control-Expose-Headers", "ETag, Link, Location, Request-Id, Retry-After");
}

static bool add_headers(struct http_call *call, struct MHD_Response *answer)
{
  struct api_response *response = &call->response;
  bool has_cors = atomic_load_explicit(&call->http->has_cors, memory_order_relaxed), ok;
  size_t i;
  ok = response->type[0] == '\0' || add(answer, "Content-Type", response->type);
  for (i = 0; ok && i < response->header_count; i++)
    ok = add(answer, response->headers[i].name, response->headers[i].value);
  ok = ok && add(answer, "Request-Id", call->id);
  ok = ok && add(answer, "Vary", has_cors ? "Accept, Accept-Encoding, Origin" : "Accept, Accept-Encoding");
  ok = ok && add(answer, "Cache-Control", find_header(response, "ETag") != NULL ? "private, no-cache" : "no-store");
  if (ok && (call->must_close || atomic_load_explicit(&call->http->is_draining, memory_order_relaxed)))
    ok = add(answer, "Connection", "close");
  return ok && add_cors(call, answer);
}

enum MHD_Result http_queue(struct http_call *call)
{
  struct api_response *response = &call->response;
  struct MHD_Response *answer = MHD_create_response_from_buffer(
      response->bytes_len, response->bytes, response->bytes != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
  enum MHD_Result result = MHD_NO;
  if (answer == NULL)
    return MHD_NO;
  call->status = response->status;
  call->bytes_sent = http_call_is_head(call) ? 0 : response->bytes_len;
  response->bytes = NULL; /* the answer's now */
  response->bytes_len = 0;
  if (add_headers(call, answer))
    result = MHD_queue_response(call->connection, response->status, answer);
  if (result == MHD_NO)
    log_write(call->http->options.log, LOG_ERROR, "request %s: the answer could not be queued", call->id);
  MHD_destroy_response(answer);
  call->state = HTTP_ANSWERED;
  return result;
}
