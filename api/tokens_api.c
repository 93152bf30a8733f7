/* /v1/tokens: made here and shown once; what is stored is a salt and SHA-256(salt, token). */
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/read.h"
#include "api/write.h"

#define TOKEN_BYTES 32
#define SALT_BYTES 16
#define TOKEN_PREFIX "fitd_" /* lets secret scanners recognise one */

static const char *const scopes[] = {"read", "evaluate", "review", "admin", NULL};

static json_t *time_or_null(int64_t unix_ms)
{
  char text[WRITE_TIME_SIZE];
  if (unix_ms == 0)
    return json_null();
  write_time(text, unix_ms);
  return json_string(text);
}

static json_t *token_write(const struct store_token *row)
{
  json_t *token = json_object();
  if (json_object_set_new(token, "id", write_text(row->id)) != 0 ||
      json_object_set_new(token, "name", write_text(row->name)) != 0 ||
      json_object_set_new(token, "scope", write_text(row->scope)) != 0 ||
      json_object_set_new(token, "created_at", time_or_null(row->created_at_ms)) != 0 ||
      json_object_set_new(token, "revoked_at", time_or_null(row->revoked_at_ms)) != 0) {
    json_decref(token);
    return NULL;
  }
  return token;
}

/* Newest first by id, which begins with the time. */
static int compare_tokens(const void *a, const void *b)
{
  const struct store_token *left = a, *right = b;
  return strcmp(right->id, left->id);
}

enum err tokens_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_tokens list = {.rows = NULL};
  struct store_page page;
  json_t *items = NULL;
  const char *next_after = NULL;
  enum err code;
  size_t i, taken = 0;
  if (!call_page(call, &page))
    return ERR_INVALID;
  code = store_token_list(call_store(call), &list, e);
  if (code != ERR_OK)
    return code;
  items = json_array();
  if (list.count > 0)
    qsort(list.rows, list.count, sizeof *list.rows, compare_tokens);
  for (i = 0; i < list.count && code == ERR_OK; i++) {
    if (page.after[0] != '\0' && strcmp(list.rows[i].id, page.after) >= 0)
      continue;
    if (taken++ == page.limit) {
      next_after = list.rows[i - 1].id;
      break;
    }
    if (json_array_append_new(items, token_write(&list.rows[i])) != 0)
      code = error_set(e, ERR_NOMEM, "", "not enough memory for the list");
  }
  if (code == ERR_OK)
    code = respond_page_steal(call, out, json_incref(items), next_after, e);
  json_decref(items);
  store_tokens_fini(&list);
  return code;
}

/* What of one new token is a secret, and what is kept of it. */
struct secret {
  char token[sizeof TOKEN_PREFIX + 2 * TOKEN_BYTES];
  char salt[2 * SALT_BYTES + 1], hash[2 * SHA256_DIGEST_SIZE + 1];
};

static void secret_make(struct secret *out, const struct api_deps *deps)
{
  unsigned char bytes[TOKEN_BYTES], salt[SALT_BYTES], digest[SHA256_DIGEST_SIZE];
  struct sha256_ctx context;
  deps->random_bytes(deps->cls, bytes, sizeof bytes);
  deps->random_bytes(deps->cls, salt, sizeof salt);
  (void)snprintf(out->token, sizeof out->token, "%s", TOKEN_PREFIX);
  write_hex(out->token + strlen(TOKEN_PREFIX), bytes, sizeof bytes);
  sha256_init(&context);
  sha256_update(&context, sizeof salt, salt);
  sha256_update(&context, strlen(out->token), (const uint8_t *)out->token);
  sha256_digest(&context, sizeof digest, digest);
  write_hex(out->salt, salt, sizeof salt);
  write_hex(out->hash, digest, sizeof digest);
}

static enum err insert_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_token_insert(tx, cls, e);
}

enum err tokens_post(struct api_call *call, struct api_response *out, struct error *e)
{
  char name[65] = "", scope_text[16] = "", id[WRITE_UUID_SIZE];
  int scope = 0;
  const struct read_field fields[] = {
      {.name = "name", .kind = READ_NAME, .is_required = true, .to = name, .size = sizeof name},
      {.name = "scope", .kind = READ_WORD, .is_required = true, .to = &scope, .words = scopes},
  };
  struct secret secret;
  struct store_token row;
  json_t *answer;
  enum err code;
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (call->faults->count > 0)
    return ERR_INVALID;
  secret_make(&secret, call_deps(call));
  call_new_id(call, id, 0);
  (void)snprintf(scope_text, sizeof scope_text, "%s", scopes[scope]);
  row = (struct store_token){.id = id,
                             .name = name,
                             .scope = scope_text,
                             .salt = secret.salt,
                             .hash = secret.hash,
                             .created_at_ms = call->now_ms};
  code = store_write(call_store(call), "token", insert_work, &row, e);
  if (code == ERR_CONFLICT)
    return error_set(e, ERR_CONFLICT, "", "a token named \"%s\" is in force; revoke it first or take another name",
                     name);
  if (code != ERR_OK)
    return code;
  answer = token_write(&row);
  if (json_object_set_new(answer, "token", write_text(secret.token)) != 0) {
    json_decref(answer);
    answer = NULL;
  }
  code = respond_json_steal(out, 201, answer, e);
  if (code == ERR_OK) {
    respond_header(out, "Location", "/v1/tokens/%s", name);
    respond_header(out, "Cache-Control", "no-store");
  }
  return code;
}

struct revoke_work {
  const char *name;
  int64_t now_ms;
};

static enum err revoke_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct revoke_work *work = cls;
  return store_token_revoke(tx, work->name, work->now_ms, e);
}

enum err tokens_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  struct revoke_work work = {call->params[0], call->now_ms};
  const enum err code = store_write(call_store(call), "token", revoke_work, &work, e);
  if (code == ERR_NOT_FOUND)
    return error_set(e, ERR_NOT_FOUND, "", "no token named \"%s\" is in force", call->params[0]);
  if (code == ERR_OK)
    out->status = 204;
  return code;
}
