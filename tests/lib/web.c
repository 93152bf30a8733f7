/* One curl handle a request: a test measures the daemon, not connection reuse. */
#include "tests/lib/web.h"

#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"

#include <check.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REQUEST_TIMEOUT_MS 30000L

struct bytes {
  char *data;
  size_t count;
};

static size_t take(char *data, size_t size, size_t count, void *cls)
{
  struct bytes *bytes = cls;
  char *grown = realloc(bytes->data, bytes->count + size * count + 1);
  if (grown == NULL)
    return 0;
  memcpy(grown + bytes->count, data, size * count);
  bytes->data = grown;
  bytes->count += size * count;
  grown[bytes->count] = '\0';
  return size * count;
}

static char *keep(struct bytes *bytes)
{
  char *copy = scratch_alloc(bytes->count + 1);
  if (bytes->count > 0)
    memcpy(copy, bytes->data, bytes->count);
  free(bytes->data);
  return copy;
}

static bool names_header(const struct request *request, const char *name)
{
  for (size_t i = 0; request->headers != NULL && request->headers[i] != NULL; i++)
    if (strncasecmp(request->headers[i], name, strlen(name)) == 0)
      return true;
  return false;
}

static struct curl_slist *append(struct curl_slist *list, const char *header)
{
  struct curl_slist *longer = curl_slist_append(list, header);
  ck_assert_ptr_nonnull(longer);
  return longer;
}

static struct curl_slist *header_list(const struct request *request)
{
  struct curl_slist *list = append(NULL, "Expect:");
  if (request->body != NULL && !names_header(request, "Content-Type:"))
    list = append(list, "Content-Type: application/json");
  for (size_t i = 0; request->headers != NULL && request->headers[i] != NULL; i++)
    list = append(list, request->headers[i]);
  return list;
}

#define SET(handle, option, value) ck_assert_int_eq(curl_easy_setopt(handle, option, value), CURLE_OK)

static void set_body(CURL *curl, const struct request *request)
{
  const size_t bytes = request->body_bytes > 0 ? request->body_bytes : strlen(request->body);
  SET(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
  SET(curl, CURLOPT_POSTFIELDS, request->body);
}

static void set_request(CURL *curl, const struct daemon *daemon, const struct request *request)
{
  SET(curl, CURLOPT_URL, scratch_printf("%s%s", daemon->url, request->path));
  SET(curl, CURLOPT_PATH_AS_IS, 1L);
  SET(curl, CURLOPT_NOSIGNAL, 1L);
  SET(curl, CURLOPT_PROXY, "");
  SET(curl, CURLOPT_PROTOCOLS_STR, "http");
  SET(curl, CURLOPT_TIMEOUT_MS, REQUEST_TIMEOUT_MS);
  if (request->socket != NULL)
    SET(curl, CURLOPT_UNIX_SOCKET_PATH, request->socket);
  if (request->body != NULL)
    set_body(curl, request);
  if (strcmp(request->method, "HEAD") == 0)
    SET(curl, CURLOPT_NOBODY, 1L);
  SET(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static bool is_json(const struct reply *reply)
{
  const char *type = reply_header(reply, "Content-Type");
  return type != NULL && strstr(type, "json") != NULL && reply_header(reply, "Content-Encoding") == NULL &&
         reply->body_bytes > 0;
}

const struct reply *web_send(const struct daemon *daemon, const struct request *request)
{
  struct reply *reply = scratch_alloc(sizeof *reply);
  struct bytes head = {NULL, 0}, body = {NULL, 0};
  struct curl_slist *headers = header_list(request);
  CURL *curl = curl_easy_init();
  CURLcode code;
  ck_assert_ptr_nonnull(curl);
  reply->what = scratch_printf("%s %s", request->method, request->path);
  set_request(curl, daemon, request);
  SET(curl, CURLOPT_HTTPHEADER, headers);
  SET(curl, CURLOPT_HEADERFUNCTION, take);
  SET(curl, CURLOPT_HEADERDATA, &head);
  SET(curl, CURLOPT_WRITEFUNCTION, take);
  SET(curl, CURLOPT_WRITEDATA, &body);
  code = curl_easy_perform(curl);
  ck_assert_int_eq(curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply->status), CURLE_OK);
  curl_easy_cleanup(curl);
  curl_slist_free_all(headers);
  reply->body_bytes = body.count;
  reply->head = keep(&head);
  reply->body = keep(&body);
  ck_assert_msg(code == CURLE_OK, "%s: %s", reply->what, curl_easy_strerror(code));
  if (is_json(reply))
    reply->json = doc_parse(reply->body);
  return reply;
}

const struct reply *web_get(const struct daemon *daemon, const char *path)
{
  return web_send(daemon, &(struct request){.method = "GET", .path = path});
}

const struct reply *web_post(const struct daemon *daemon, const char *path, const char *body)
{
  return web_send(daemon, &(struct request){.method = "POST", .path = path, .body = body});
}

const struct reply *web_put(const struct daemon *daemon, const char *path, const char *body)
{
  return web_send(daemon, &(struct request){.method = "PUT", .path = path, .body = body});
}

const struct reply *web_delete(const struct daemon *daemon, const char *path)
{
  return web_send(daemon, &(struct request){.method = "DELETE", .path = path});
}

const struct reply *web_with(const struct daemon *daemon, const char *method, const char *path, const char *header,
                             const char *body)
{
  const char *const headers[] = {header, NULL};
  return web_send(daemon, &(struct request){.method = method, .path = path, .headers = headers, .body = body});
}

void reply_assert_status(const struct reply *reply, long status)
{
  ck_assert_msg(reply->status == status, "%s: status %ld instead of %ld: %.600s", reply->what, reply->status, status,
                reply->body);
}

json_t *web_get_ok(const struct daemon *daemon, const char *path)
{
  const struct reply *reply = web_get(daemon, path);
  reply_assert_status(reply, 200);
  ck_assert_ptr_nonnull(reply->json);
  return reply->json;
}

json_t *web_post_created(const struct daemon *daemon, const char *path, const char *body)
{
  const struct reply *reply = web_post(daemon, path, body);
  reply_assert_status(reply, 201);
  ck_assert_ptr_nonnull(reply->json);
  return reply->json;
}

json_t *web_put_status(const struct daemon *daemon, const char *path, const char *body, long status)
{
  const struct reply *reply = web_put(daemon, path, body);
  reply_assert_status(reply, status);
  return reply->json;
}

const char *reply_header(const struct reply *reply, const char *name)
{
  const size_t length = strlen(name);
  const char *line = reply->head;
  while ((line = strstr(line, "\r\n")) != NULL) {
    line += 2;
    if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
      const char *value = line + length + 1;
      value += strspn(value, " \t");
      return scratch_printf("%.*s", (int)strcspn(value, "\r\n"), value);
    }
  }
  return NULL;
}

json_t *reply_assert_problem(const struct reply *reply, long status)
{
  const char *type = reply_header(reply, "Content-Type");
  reply_assert_status(reply, status);
  ck_assert_msg(type != NULL && strncmp(type, "application/problem+json", 24) == 0, "type %s: %.300s",
                type != NULL ? type : "absent", reply->body);
  ck_assert_ptr_nonnull(reply->json);
  ck_assert_msg(strncmp(doc_text(reply->json, "type"), "/problems/", 10) == 0, "%s", doc_text(reply->json, "type"));
  ck_assert_int_eq(doc_integer(reply->json, "status"), status);
  ck_assert_str_ne(doc_text(reply->json, "title"), "");
  ck_assert_str_ne(doc_text(reply->json, "detail"), "");
  ck_assert_str_ne(doc_text(reply->json, "instance"), "");
  return reply->json;
}
