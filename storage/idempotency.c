/* Idempotency keys: the first answer to a request that clients may send again, kept for as long as the caller says. */
#include <stdlib.h>

#include "storage/store_int.h"

void store_idempotency_fini(struct store_idempotency *row)
{
  free(row->key);
  free(row->caller);
  free(row->request_digest);
  free(row->content_type);
  free(row->headers);
  free(row->body);
  *row = (struct store_idempotency){0};
}

/* Every claim clears away some expired rows, so that the table stays as small as a day of keys. */
static enum err remove_expired(struct store_tx *tx, const struct store_idempotency *row, int64_t not_before_ms,
                               struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection, "DELETE FROM idempotency_key WHERE key = ?1 AND caller = ?2 AND created_at_ms < ?3");
  query_bind_text(&q, 1, row->key);
  query_bind_text(&q, 2, row->caller);
  query_bind_int(&q, 3, not_before_ms);
  result = query_run(&q, e);
  if (result != ERR_OK)
    return result;
  query_begin(&q, tx->connection,
              "DELETE FROM idempotency_key WHERE rowid IN (SELECT rowid FROM idempotency_key "
              "WHERE created_at_ms < ?1 ORDER BY created_at_ms LIMIT 100)");
  query_bind_int(&q, 1, not_before_ms);
  return query_run(&q, e);
}

enum err store_idempotency_claim(struct store_tx *tx, const struct store_idempotency *row, int64_t not_before_ms,
                                 struct error *e)
{
  struct query q;
  enum err result = remove_expired(tx, row, not_before_ms, e);
  if (result != ERR_OK)
    return result;
  query_begin(&q, tx->connection,
              "INSERT INTO idempotency_key (key, caller, request_digest, created_at_ms, status, content_type, headers, "
              "body) VALUES (?1, ?2, ?3, ?4, 0, '', '', '')");
  query_bind_text(&q, 1, row->key);
  query_bind_text(&q, 2, row->caller);
  query_bind_text(&q, 3, row->request_digest);
  query_bind_int(&q, 4, row->created_at_ms);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "the idempotency key is in use");
  return result;
}

enum err store_idempotency_finish(struct store_tx *tx, const struct store_idempotency *row, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "UPDATE idempotency_key SET status = ?3, content_type = ?4, headers = ?5, body = ?6 "
              "WHERE key = ?1 AND caller = ?2");
  query_bind_text(&q, 1, row->key);
  query_bind_text(&q, 2, row->caller);
  query_bind_int(&q, 3, row->status);
  query_bind_text(&q, 4, row->content_type);
  query_bind_text(&q, 5, row->headers);
  query_bind_text(&q, 6, row->body);
  return query_run_on_row(&q, e, "the idempotency key is not claimed");
}

enum err store_idempotency_release(struct store_tx *tx, const char *key, const char *caller, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection, "DELETE FROM idempotency_key WHERE key = ?1 AND caller = ?2");
  query_bind_text(&q, 1, key);
  query_bind_text(&q, 2, caller);
  return query_run(&q, e);
}

static void read_row(void *to, struct query *q)
{
  struct store_idempotency *row = to;
  *row = (struct store_idempotency){
      .key = query_text(q, 0),
      .caller = query_text(q, 1),
      .request_digest = query_text(q, 2),
      .created_at_ms = query_int(q, 3),
      .status = (int)query_int(q, 4),
      .content_type = query_text(q, 5),
      .headers = query_text(q, 6),
      .body = query_text(q, 7),
  };
}

enum err store_idempotency_get(struct store *store, struct store_idempotency *out, const char *key, const char *caller,
                               struct error *e)
{
  struct query q;
  enum err result;
  *out = (struct store_idempotency){0};
  read_begin(&q, store,
             "SELECT key, caller, request_digest, created_at_ms, status, content_type, headers, body "
             "FROM idempotency_key WHERE key = ?1 AND caller = ?2");
  query_bind_text(&q, 1, key);
  query_bind_text(&q, 2, caller);
  result = read_one(out, &q, store, read_row, e, "the idempotency key is not known");
  if (result != ERR_OK)
    store_idempotency_fini(out);
  return result;
}
