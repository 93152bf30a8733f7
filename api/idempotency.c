/* Keys are claimed in the store before the work starts, so two requests with one key can not both run. */
#include "api/idempotency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/read.h"
#include "api/write.h"

#define KEEP_MS ((int64_t)24 * 3600 * 1000)
#define KEY_MAX 128

static bool is_key(const char *text)
{
  const size_t length = strlen(text);
  size_t i;
  for (i = 0; i < length; i++)
    if (text[i] <= ' ' || text[i] > '~')
      return false;
  return length >= 1 && length <= KEY_MAX;
}

static enum err request_digest(char to[WRITE_DIGEST_SIZE], const struct api_request *request, struct error *e)
{
  struct text text = {NULL, 0, 0, false};
  size_t length;
  char *bytes;
  text_printf(&text, "%s %s?%s\n", request->method, request->path,
              request->query_text != NULL ? request->query_text : "");
  if (request->body_len > 0)
    text_append(&text, request->body, request->body_len);
  bytes = text_take(&text, &length);
  if (bytes == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for this request at the moment");
  write_digest(to, bytes, length);
  free(bytes);
  return ERR_OK;
}

struct claim {
  char *key, *caller, *digest; /* borrowed */
  int64_t now_ms, not_before_ms;
  const struct api_response *response; /* of finish */
  char *headers, *body;
};

static struct store_idempotency row_of_claim(const struct claim *claim)
{
  return (struct store_idempotency){
      .key = claim->key, .caller = claim->caller, .request_digest = claim->digest, .created_at_ms = claim->now_ms};
}

static enum err claim_work(struct store_tx *tx, void *cls, struct error *e)
{
  static char none[] = "";
  const struct claim *claim = cls;
  struct store_idempotency row = row_of_claim(claim);
  row.content_type = row.headers = row.body = none;
  return store_idempotency_claim(tx, &row, claim->not_before_ms, e);
}

static enum err finish_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct claim *claim = cls;
  struct store_idempotency row = row_of_claim(claim);
  char type[sizeof claim->response->type];
  memcpy(type, claim->response->type, sizeof type);
  row.status = (int)claim->response->status;
  row.content_type = type;
  row.headers = claim->headers;
  row.body = claim->body;
  return store_idempotency_finish(tx, &row, e);
}

static enum err release_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct claim *claim = cls;
  return store_idempotency_release(tx, claim->key, claim->caller, e);
}

/* Headers are kept as "Name: value" lines. */
static void restore_headers(struct api_response *response, const char *lines)
{
  while (*lines != '\0') {
    const size_t length = strcspn(lines, "\n");
    const char *colon = memchr(lines, ':', length);
    char name[32];
    if (colon != NULL && (size_t)(colon - lines) < sizeof name) {
      (void)snprintf(name, sizeof name, "%.*s", (int)(colon - lines), lines);
      respond_header(response, name, "%.*s", (int)(length - (size_t)(colon - lines) - 2), colon + 2);
    }
    lines += length + (lines[length] == '\n' ? 1 : 0);
  }
}

static enum err replay(struct api_response *response, struct store_idempotency *row, struct error *e)
{
  char *body = row->body;
  const size_t length = strlen(body);
  row->body = NULL; /* handed on */
  restore_headers(response, row->headers);
  respond_header(response, "Idempotency-Replayed", "true");
  return respond_text_steal(response, (unsigned)row->status, row->content_type, body, length, e);
}

/* The key exists: the first answer again, or why not. */
static enum err answer_known(const struct idempotency *idempotency, const struct api_call *call,
                             struct api_response *response, struct store_idempotency *row, struct error *e)
{
  if (strcmp(row->request_digest, idempotency->digest) != 0) {
    faults_add(call->faults, FAULT_CONFLICT, "Idempotency-Key", NULL,
               "this key was used for another request; a key goes with one body");
    return ERR_INVALID;
  }
  if (row->status == 0)
    return error_set(e, ERR_CONFLICT, "", "the first request with this Idempotency-Key is still running");
  return replay(response, row, e);
}

enum err idempotency_begin(struct idempotency *out, bool *is_answered, struct api_call *call,
                           struct api_response *response, int64_t opened_at_ms, struct error *e)
{
  const struct api_request *request = call->request;
  struct store *store = call_store(call);
  struct store_idempotency row = {.key = NULL};
  char key[KEY_MAX + 1], caller[80];
  struct claim claim;
  enum err code;
  *is_answered = false;
  *out = (struct idempotency){.key = request->header != NULL ? request->header(request->cls, "Idempotency-Key") : NULL};
  if (out->key == NULL)
    return ERR_OK;
  if (!is_key(out->key)) {
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "Idempotency-Key", NULL, "must be 1 to %d visible ASCII characters",
               KEY_MAX);
    return ERR_INVALID;
  }
  code = request_digest(out->digest, request, e);
  if (code != ERR_OK)
    return code;
  (void)snprintf(key, sizeof key, "%s", out->key);
  (void)snprintf(caller, sizeof caller, "%s", request->caller->name);
  claim = (struct claim){.key = key,
                         .caller = caller,
                         .digest = out->digest,
                         .now_ms = call->now_ms,
                         .not_before_ms = call->now_ms - KEEP_MS};
  code = store_write(store, "idempotency_claim", claim_work, &claim, e);
  if (code == ERR_CONFLICT) {
    code = store_idempotency_get(store, &row, out->key, caller, e);
    if (code != ERR_OK)
      return code;
    if (row.status == 0 && row.created_at_ms < opened_at_ms) {
      claim.not_before_ms = row.created_at_ms + 1; /* its process is gone */
      code = store_write(store, "idempotency_claim", claim_work, &claim, e);
    } else {
      *is_answered = true;
      code = answer_known(out, call, response, &row, e);
    }
    store_idempotency_fini(&row);
  }
  out->is_claimed = code == ERR_OK && !*is_answered;
  return code;
}

enum err idempotency_end(const struct idempotency *idempotency, const struct api_call *call,
                         const struct api_response *response, struct error *e)
{
  char key[KEY_MAX + 1], caller[80], digest[sizeof idempotency->digest], none[] = "";
  struct claim claim = {.key = key, .caller = caller, .digest = digest, .now_ms = call->now_ms, .response = response};
  struct text headers = {NULL, 0, 0, false};
  enum err code;
  size_t i;
  (void)snprintf(key, sizeof key, "%s", idempotency->key);
  (void)snprintf(caller, sizeof caller, "%s", call->request->caller->name);
  memcpy(digest, idempotency->digest, sizeof digest);
  if (response->status >= 300)
    return store_write(call_store(call), "idempotency_release", release_work, &claim, e);
  for (i = 0; i < response->header_count; i++)
    text_printf(&headers, "%s: %s\n", response->headers[i].name, response->headers[i].value);
  claim.headers = text_take(&headers, NULL);
  claim.body = response->bytes != NULL ? response->bytes : none;
  if (claim.headers == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to keep the answer");
  code = store_write(call_store(call), "idempotency_finish", finish_work, &claim, e);
  free(claim.headers);
  return code;
}
