/* A small HTTP client over libcurl. Redirects are not followed and proxies of the environment not asked: a command talks
   to the server it was given. */
#include "server/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX_BYTES (64u * 1024 * 1024)
#define TIMEOUT_MS 120000L
#define CONNECT_TIMEOUT_MS 5000L

static size_t collect(char *bytes, size_t size, size_t count, void *cls)
{
  struct client_answer *answer = cls;
  size_t length = size * count;
  char *grown;
  if (answer->length + length > ANSWER_MAX_BYTES)
    return 0;
  grown = realloc(answer->bytes, answer->length + length + 1);
  if (grown == NULL)
    return 0;
  memcpy(grown + answer->length, bytes, length);
  answer->bytes = grown;
  answer->length += length;
  answer->bytes[answer->length] = '\0';
  return length;
}

static bool add_header(struct curl_slist **headers, const char *line)
{
  struct curl_slist *grown = curl_slist_append(*headers, line);
  if (grown != NULL)
    *headers = grown;
  return grown != NULL;
}

static bool set_headers(struct curl_slist **headers, const struct client_request *request)
{
  char line[600];
  bool ok = add_header(headers, "Accept: application/json") && add_header(headers, "Expect:");
  if (request->body != NULL)
    ok = ok && add_header(headers, "Content-Type: application/json");
  if (request->token != NULL)
    ok = ok && (size_t)snprintf(line, sizeof line, "Authorization: Bearer %s", request->token) < sizeof line &&
         add_header(headers, line);
  return ok;
}

static bool set_limits(CURL *curl)
{
  return curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS) == CURLE_OK;
}

static bool set_options(CURL *curl, const struct client_request *request, struct curl_slist *headers,
                        struct client_answer *answer, char *message)
{
  bool ok = curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message) == CURLE_OK && set_limits(curl);
  ok = ok && curl_easy_setopt(curl, CURLOPT_URL, request->url) == CURLE_OK;
  ok = ok && curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK;
  ok = ok && curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK;
  ok = ok && curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect) == CURLE_OK;
  ok = ok && curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer) == CURLE_OK;
  if (request->body != NULL) {
    ok = ok && curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body) == CURLE_OK;
  }
  if (request->unix_socket != NULL)
    ok = ok && curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket) == CURLE_OK;
  return ok;
}

static enum err describe(CURLcode code, const struct client_request *request, const char *message, struct error *e)
{
  const char *reason = message[0] != '\0' ? message : curl_easy_strerror(code);
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
    return error_set(e, ERR_INVALID, "", "%.120s is no URL that works here: %.120s", request->url, reason);
  if (code == CURLE_WRITE_ERROR)
    return error_set(e, ERR_LIMIT, "", "the answer of %.120s is larger than %u bytes, or memory is out", request->url,
                     ANSWER_MAX_BYTES);
  return error_set(e, ERR_UNAVAILABLE, "", "no answer from %.120s: %.120s",
                   request->unix_socket != NULL ? request->unix_socket : request->url, reason);
}

enum err client_send(struct client_answer *out, const struct client_request *request, struct error *e)
{
  char message[CURL_ERROR_SIZE] = "";
  struct curl_slist *headers = NULL;
  CURL *curl = curl_easy_init();
  CURLcode code;
  enum err err = ERR_OK;
  *out = (struct client_answer){0, NULL, 0};
  if (curl == NULL || !set_headers(&headers, request) || !set_options(curl, request, headers, out, message)) {
    err = error_set(e, ERR_NOMEM, "", "the request to %.120s can not be set up", request->url);
    goto out;
  }
  code = curl_easy_perform(curl);
  if (code == CURLE_OK)
    code = curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &out->status);
  if (code != CURLE_OK)
    err = describe(code, request, message, e);
  else if (out->bytes == NULL && (out->bytes = calloc(1, 1)) == NULL)
    err = error_set(e, ERR_NOMEM, "", "no memory for the answer");
out:
  if (err != ERR_OK)
    client_answer_fini(out);
  curl_easy_cleanup(curl);
  curl_slist_free_all(headers);
  return err;
}

void client_answer_fini(struct client_answer *answer)
{
  free(answer->bytes);
  answer->bytes = NULL;
  answer->length = 0;
}

char *client_escape(const char *value)
{
  char *escaped = curl_easy_escape(NULL, value, 0), *copy;
  copy = escaped != NULL ? strdup(escaped) : NULL;
  curl_free(escaped);
  return copy;
}
