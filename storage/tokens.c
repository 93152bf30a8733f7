/* Access tokens: salted hashes, never the token itself. Revoked ones stay, so that the audit log keeps its names. */
#include <stdlib.h>

#include "storage/store_int.h"

void store_token_fini(struct store_token *row)
{
  free(row->id);
  free(row->name);
  free(row->scope);
  free(row->salt);
  free(row->hash);
  *row = (struct store_token){0};
}

void store_tokens_fini(struct store_tokens *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_token_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_tokens){0};
}

enum err store_token_insert(struct store_tx *tx, const struct store_token *row, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO token (id, name, scope, salt, hash, created_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  query_bind_text(&q, 1, row->id);
  query_bind_text(&q, 2, row->name);
  query_bind_text(&q, 3, row->scope);
  query_bind_text(&q, 4, row->salt);
  query_bind_text(&q, 5, row->hash);
  query_bind_int(&q, 6, row->created_at_ms);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "a token named %s is in force", row->name);
  tx->touched |= TOUCHED_TOKENS;
  return result;
}

enum err store_token_revoke(struct store_tx *tx, const char *name, int64_t now_ms, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection, "UPDATE token SET revoked_at_ms = ?2 WHERE name = ?1 AND revoked_at_ms IS NULL");
  query_bind_text(&q, 1, name);
  query_bind_int(&q, 2, now_ms);
  result = query_run_on_row(&q, e, "no token named %s is in force", name);
  tx->touched |= TOUCHED_TOKENS;
  return result;
}

static void read_row(void *to, struct query *q)
{
  struct store_token *row = to;
  *row = (struct store_token){
      .id = query_text(q, 0),
      .name = query_text(q, 1),
      .scope = query_text(q, 2),
      .salt = query_text(q, 3),
      .hash = query_text(q, 4),
      .created_at_ms = query_int(q, 5),
      .revoked_at_ms = query_int(q, 6),
  };
}

enum err store_token_list(struct store *store, struct store_tokens *out, struct error *e)
{
  struct rows rows;
  struct query q;
  enum err result;
  read_begin(&q, store,
             "SELECT id, name, scope, salt, hash, created_at_ms, revoked_at_ms FROM token "
             "ORDER BY created_at_ms, id");
  rows = query_rows(&q, SIZE_MAX, sizeof *out->rows, read_row);
  result = read_end(&q, store, e);
  *out = (struct store_tokens){rows.at, rows.count};
  if (result != ERR_OK)
    store_tokens_fini(out);
  return result;
}

uint64_t store_token_version(const struct store *store)
{
  store_assert(store);
  return atomic_load(&store->versions[TOUCHED_TOKENS_KIND]);
}
