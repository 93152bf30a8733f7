/* One request: its headers, its body, and the view of it that the api gets. */
#include "server/http_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/clock.h"
#include "server/encoding.h"

#define BODY_FIRST_BYTES 4096

struct http_call *http_call_new(struct http *http, struct MHD_Connection *connection, const char *uri)
{
  struct http_call *call = malloc(sizeof *call);
  const char *query = strchr(uri, '?');
  if (call == NULL)
    return NULL;
  memset(call, 0, offsetof(struct http_call, response));
  call->response.status = 0;
  call->response.type[0] = '\0';
  call->response.header_count = 0;
  call->response.bytes = NULL;
  call->response.bytes_len = 0;
  call->http = http;
  call->connection = connection;
  call->began_us = clock_monotonic_us();
  call->has_nul = strstr(uri, "%00") != NULL;
  call->method = call->path = "";
  call->route.pattern = "";
  if (query != NULL && (call->query_text = strdup(query + 1)) == NULL) {
    free(call);
    return NULL;
  }
  return call;
}

static void release_body(struct http_call *call)
{
  if (call->body_capacity > 0)
    (void)atomic_fetch_sub(&call->http->body_bytes, call->body_capacity);
  free(call->body);
  call->body = NULL;
  call->body_len = call->body_capacity = 0;
}

void http_call_free(struct http_call *call)
{
  release_body(call);
  api_response_fini(&call->response);
  free(call->stripped[0]);
  free(call->stripped[1]);
  free(call->query_text);
  free(call);
}

bool http_call_is_head(const struct http_call *call)
{
  return strcmp(call->method, "HEAD") == 0;
}

/* ---- Headers ---- */

static enum MHD_Result read_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
  struct http_headers *headers = cls;
  (void)kind;
  if (value == NULL)
    value = "";
  headers->has_blank_in_name |= name[strcspn(name, " \t")] != '\0';
  switch (name[0] | 0x20) {
  case 'a':
    if (strcasecmp(name, "Accept-Encoding") == 0)
      headers->accepts_gzip |= encoding_accepts_gzip(value);
    else if (strcasecmp(name, "Authorization") == 0)
      headers->authorization = value;
    else if (strcasecmp(name, "Access-Control-Request-Method") == 0)
      headers->access_control_method = value;
    break;
  case 'c':
    if (strcasecmp(name, "Content-Length") == 0) {
      headers->content_length = value;
      headers->lengths++;
    }
    break;
  case 'h': headers->hosts += strcasecmp(name, "Host") == 0; break;
  case 'o':
    if (strcasecmp(name, "Origin") == 0)
      headers->origin = value;
    break;
  case 'r':
    if (strcasecmp(name, "Request-Id") == 0)
      headers->request_id = value;
    break;
  case 't':
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
      headers->transfer_encoding = value;
      headers->transfer_encodings++;
    }
    break;
  default: break;
  }
  return MHD_YES;
}

static bool is_id(const char *text)
{
  size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
  return length > 0 && length < HTTP_ID_SIZE && text[length] == '\0';
}

static void choose_id(struct http_call *call)
{
  static const char digits[] = "0123456789abcdef";
  struct http *http = call->http;
  uint64_t number;
  size_t i;
  if (call->headers.request_id != NULL && is_id(call->headers.request_id)) {
    memcpy(call->id, call->headers.request_id, strlen(call->headers.request_id) + 1);
    return;
  }
  number = (uint64_t)http->id_prefix << 32 | (atomic_fetch_add(&http->next_id, 1) & 0xffffffff);
  for (i = 0; i < 16; i++)
    call->id[i] = digits[number >> (60 - 4 * i) & 15];
  call->id[16] = '\0';
}

void http_call_read_headers(struct http_call *call)
{
  (void)MHD_get_connection_values(call->connection, MHD_HEADER_KIND, read_header, &call->headers);
  choose_id(call);
}

/* ---- Body ---- */

bool http_call_has_body(const struct http_call *call)
{
  const char *length = call->headers.content_length;
  return call->headers.transfer_encoding != NULL || (length != NULL && length[strspn(length, "0")] != '\0');
}

/* Room for `needed` bytes and a NUL, never more than the largest body of the route takes; reserved against the limit that
   all bodies share. */
static bool grow(struct http_call *call, size_t needed)
{
  struct http *http = call->http;
  size_t capacity = call->body_capacity > 0 ? call->body_capacity : BODY_FIRST_BYTES, more;
  char *grown;
  while (capacity <= needed)
    capacity *= 2;
  if (capacity > call->route.body_max_bytes + 1)
    capacity = call->route.body_max_bytes + 1;
  more = capacity - call->body_capacity;
  if (atomic_fetch_add(&http->body_bytes, more) + more > http->options.bodies_max_bytes ||
      (grown = realloc(call->body, capacity)) == NULL) {
    (void)atomic_fetch_sub(&http->body_bytes, more);
    return false;
  }
  call->body = grown;
  call->body_capacity = capacity;
  return true;
}

void http_call_append(struct http_call *call, const char *bytes, size_t count)
{
  if (call->body_is_too_large || call->body_has_no_room)
    return;
  if (count > call->route.body_max_bytes - call->body_len) {
    call->body_is_too_large = true;
    release_body(call);
    return;
  }
  if (call->body_len + count >= call->body_capacity && !grow(call, call->body_len + count)) {
    call->body_has_no_room = true;
    release_body(call);
    return;
  }
  memcpy(call->body + call->body_len, bytes, count);
  call->body_len += count;
  call->body[call->body_len] = '\0';
}

/* ---- The api's view ---- */

/* The api does not know the gzip forms of its entity tags. */
static const char *strip_tags(char **slot, bool *has_gzip_tag, const char *value)
{
  if (strstr(value, "-gzip\"") == NULL)
    return value;
  if (*slot == NULL)
    *slot = malloc(strlen(value) + 1);
  if (*slot == NULL)
    return value; /* the condition then does not hold: a whole answer, or a 412 */
  *has_gzip_tag = encoding_strip_gzip_tags(*slot, value);
  return *slot;
}

static const char *header(const void *cls, const char *name)
{
  struct http_call *call = *(struct http_call *const *)cls;
  const char *value = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
  bool ignored;
  if (value == NULL)
    return NULL;
  if (strcasecmp(name, "If-Match") == 0)
    return strip_tags(&call->stripped[0], &ignored, value);
  /* Who does not take gzip now can not be answered that the gzip form it has is current. */
  if (strcasecmp(name, "If-None-Match") == 0 && call->headers.accepts_gzip)
    return strip_tags(&call->stripped[1], &call->asks_gzip_tag, value);
  return value;
}

struct query_search {
  const char *key, **values;
  size_t count, max;
};

static enum MHD_Result collect_value(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
  struct query_search *search = cls;
  (void)kind;
  if (strcmp(key, search->key) != 0)
    return MHD_YES;
  if (search->count < search->max)
    search->values[search->count] = value != NULL ? value : "";
  search->count++;
  return MHD_YES;
}

static size_t query(const void *cls, const char *key, const char **values, size_t max)
{
  struct http_call *call = *(struct http_call *const *)cls;
  struct query_search search = {.key = key, .values = values, .count = 0, .max = max};
  if (call->query_text != NULL)
    (void)MHD_get_connection_values(call->connection, MHD_GET_ARGUMENT_KIND, collect_value, &search);
  return search.count;
}

struct key_visit {
  void (*each)(void *cls, const char *key);
  void *cls;
};

static enum MHD_Result visit_key(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
  const struct key_visit *visit = cls;
  (void)kind;
  (void)value;
  visit->each(visit->cls, key);
  return MHD_YES;
}

static void query_keys(const void *cls, void (*each)(void *each_cls, const char *key), void *each_cls)
{
  struct http_call *call = *(struct http_call *const *)cls;
  struct key_visit visit = {.each = each, .cls = each_cls};
  if (call->query_text != NULL)
    (void)MHD_get_connection_values(call->connection, MHD_GET_ARGUMENT_KIND, visit_key, &visit);
}

void http_call_handle(struct http_call *call)
{
  const struct api_caller caller = {.scope = call->caller.scope, .name = call->caller.name};
  const struct api_request request = {.method = call->method,
                                      .path = call->path,
                                      .query_text = call->query_text != NULL ? call->query_text : "",
                                      .request_id = call->id,
                                      .caller = &caller,
                                      .body = call->body,
                                      .body_len = call->body_len,
                                      .header = header,
                                      .query = query,
                                      .query_keys = query_keys,
                                      .cls = &call};
  api_handle(call->http->options.api, &request, &call->response);
  release_body(call);
}
