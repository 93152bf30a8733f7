/* What is refused before a body is read: requests whose end or target is in doubt, callers without a token, bodies that are
   too large or not wanted, and everything while too many connections are open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http_call.h"

/* Two readers of these could disagree where the request ends, which is how requests are smuggled past proxies. */
static const char *framing_fault(const struct http_headers *headers, bool is_http_1_1)
{
  if (headers->has_blank_in_name)
    return "a header name contains a blank";
  if (headers->hosts > 1)
    return "there is more than one Host header";
  if (headers->hosts == 0 && is_http_1_1)
    return "the Host header is missing";
  if (headers->lengths > 1)
    return "there is more than one Content-Length header";
  if (headers->transfer_encodings > 1 ||
      (headers->transfer_encoding != NULL && strcasecmp(headers->transfer_encoding, "chunked") != 0))
    return "the only Transfer-Encoding that works is chunked";
  if (headers->transfer_encoding != NULL && headers->lengths > 0)
    return "Content-Length and Transfer-Encoding exclude each other";
  return NULL;
}

static bool is_overloaded(struct http *http)
{
  unsigned max = http->options.connections_max;
  return peers_count(http->peers) > max - max / 16;
}

/* Refuses what can be refused from the request line and the header alone. */
static bool refuse_shape(struct http_call *call, const char *version)
{
  const char *fault = framing_fault(&call->headers, strcmp(version, "HTTP/1.1") == 0);
  if (fault != NULL)
    http_refuse(call, 400, "bad-request", "%s", fault);
  else if (call->has_nul)
    http_refuse(call, 400, "bad-request", "the request target contains %%00");
  else if (strlen(call->path) > HTTP_PATH_MAX_BYTES)
    http_refuse(call, 414, "uri-too-long", "the path has %zu bytes, at most %d are allowed", strlen(call->path),
                HTTP_PATH_MAX_BYTES);
  else
    return false;
  call->must_close = true;
  return true;
}

void http_refuse_busy(struct http_call *call, const char *reason)
{
  http_refuse(call, 503, "busy", "%s; try again", reason);
  http_add_header(&call->response, "Retry-After", "1");
}

/* Before anything is looked up: a flood must stay cheap. */
static bool refuse_client(struct http_call *call)
{
  struct clients *clients = call->http->clients;
  struct client *client = call->peer->client;
  unsigned wait_s;
  char seconds[16];
  if (clients_has_too_many(clients, client)) {
    http_refuse(call, 429, "too-many-requests", "this client has too many connections open");
    http_add_header(&call->response, "Retry-After", "1");
    call->must_close = true;
    return true;
  }
  wait_s = clients_take_request(clients, client, call->began_us);
  if (wait_s == 0)
    return false;
  http_refuse(call, 429, "too-many-requests", "this client sends more requests than it may; try again in %u s", wait_s);
  (void)snprintf(seconds, sizeof seconds, "%u", wait_s);
  http_add_header(&call->response, "Retry-After", seconds);
  return true;
}

static bool refuse_caller(struct http_call *call)
{
  struct http *http = call->http;
  struct error e = {.code = ERR_OK};
  enum err err;
  call->caller.scope = SCOPE_ADMIN;
  if (http->options.auth == NULL)
    return false;
  call->caller.scope = SCOPE_PUBLIC;
  if (call->route.scope == SCOPE_PUBLIC)
    return false;
  err = auth_resolve(&call->caller, http->options.auth, call->headers.authorization, call->peer->is_local, &e);
  if (err == ERR_OK)
    return false;
  if (err == ERR_PRECONDITION) {
    http_refuse(call, 401, "unauthorized", "%s", e.message);
    http_add_header(&call->response, "WWW-Authenticate", "Bearer realm=\"fitd\"");
  } else {
    log_write(http->options.log, LOG_ERROR, "request %s: tokens can not be checked: %s", call->id, e.message);
    http_refuse_busy(call, "tokens can not be checked at the moment");
  }
  return true;
}

void http_refuse_large(struct http_call *call)
{
  http_refuse(call, 413, "payload-too-large", "the body is larger than the limit of %zu bytes (%zu kB)",
              call->route.body_max_bytes, call->route.body_max_bytes / 1024);
  call->must_close = true;
}

/* The library has checked that the length is a number. */
static bool refuse_body(struct http_call *call)
{
  const char *length = call->headers.content_length;
  if (!http_call_has_body(call))
    return false;
  if (!call->route.takes_body) {
    http_refuse(call, 400, "bad-request", "%s %s takes no body", call->method, call->route.pattern);
    return true;
  }
  if (length == NULL || strtoull(length, NULL, 10) <= call->route.body_max_bytes)
    return false;
  http_refuse_large(call);
  return true;
}

void http_guard(struct http_call *call, const char *version)
{
  if (refuse_shape(call, version) || http_preflight(call))
    return;
  api_route_info(&call->route, call->method, call->path);
  if (call->route.body_max_bytes >= call->http->options.bodies_max_bytes) /* could never be received: say so at once */
    call->route.body_max_bytes = call->http->options.bodies_max_bytes - 1;
  if (is_overloaded(call->http)) {
    http_refuse_busy(call, "too many connections are open");
    call->must_close = true;
  } else if (!refuse_client(call) && !refuse_caller(call)) {
    (void)refuse_body(call);
  }
}
