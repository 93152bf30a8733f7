/* Weekly reviews: one row a week, replaced as a whole under a version while it is open. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] = "t.week, t.version, t.created_at_ms, t.changed_at_ms, t.signed_at_ms, t.document";

void store_review_fini(struct store_review *row)
{
  free(row->week);
  free(row->document);
  *row = (struct store_review){0};
}

void store_reviews_fini(struct store_reviews *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_review_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_reviews){0};
}

static void read_row(void *to, struct query *q)
{
  struct store_review *row = to;
  *row = (struct store_review){
      .week = query_text(q, 0),
      .version = (int)query_int(q, 1),
      .created_at_ms = query_int(q, 2),
      .changed_at_ms = query_int(q, 3),
      .signed_at_ms = query_int(q, 4),
      .document = query_text(q, 5),
  };
}

enum err store_review_insert(struct store_tx *tx, const struct store_review *row, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO review (week, version, created_at_ms, changed_at_ms, signed_at_ms, document) "
              "VALUES (?1, 1, ?2, ?2, NULL, ?3)");
  query_bind_text(&q, 1, row->week);
  query_bind_int(&q, 2, row->created_at_ms);
  query_bind_text(&q, 3, row->document);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "the review of %s is open already", row->week);
  return result;
}

enum err store_review_update(struct store_tx *tx, const struct store_review *row, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "UPDATE review SET version = version + 1, changed_at_ms = ?3, signed_at_ms = ?4, document = ?5 "
              "WHERE week = ?1 AND version = ?2 AND signed_at_ms IS NULL");
  query_bind_text(&q, 1, row->week);
  query_bind_int(&q, 2, row->version);
  query_bind_int(&q, 3, row->changed_at_ms);
  if (row->signed_at_ms != 0)
    query_bind_int(&q, 4, row->signed_at_ms);
  query_bind_text(&q, 5, row->document);
  result = query_run(&q, e);
  if (result == ERR_OK && sqlite3_changes(tx->connection->db) == 0)
    return error_set(e, ERR_CONFLICT, "", "the review of %s was changed by another request meanwhile", row->week);
  return result;
}

enum err store_review_get(struct store *store, struct store_review *out, const char *week, struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  enum err result;
  *out = (struct store_review){0};
  sql_append(&sql, "SELECT %s FROM review AS t WHERE t.week = ?1", columns);
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, week);
  result = read_one(out, &q, store, read_row, e, "there is no review of %s", week);
  if (result != ERR_OK)
    store_review_fini(out);
  return result;
}

enum err store_review_last_signed(struct store *store, struct store_review *out, const char *before_week,
                                  struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  enum err result;
  *out = (struct store_review){0};
  sql_append(&sql,
             "SELECT %s FROM review AS t WHERE t.week < ?1 AND t.signed_at_ms IS NOT NULL ORDER BY t.week DESC LIMIT 1",
             columns);
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, before_week);
  result = read_one(out, &q, store, read_row, e, "no review before %s is signed", before_week);
  if (result != ERR_OK)
    store_review_fini(out);
  return result;
}

enum err store_review_list(struct store *store, struct store_reviews *out, const struct store_page *page,
                           struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  struct rows rows;
  enum err result;
  sql_append(&sql, "SELECT %s FROM review AS t WHERE t.week %s ?1 ORDER BY t.week %s LIMIT ?2", columns,
             page->ascending || page->after[0] == '\0' ? ">" : "<", page->ascending ? "ASC" : "DESC");
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, page->after);
  query_bind_int(&q, 2, (int64_t)page->limit + 1);
  rows = query_rows(&q, page->limit, sizeof *out->rows, read_row);
  result = read_end(&q, store, e);
  *out = (struct store_reviews){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_reviews_fini(out);
  return result;
}

/* ---- Addenda ---- */

void store_review_addenda_fini(struct store_review_addenda *list)
{
  for (size_t i = 0; i < list->count; i++)
    free(list->documents[i]);
  free(list->documents);
  *list = (struct store_review_addenda){0};
}

enum err store_review_addendum_insert(struct store_tx *tx, const char *id, const char *week, int64_t created_at_ms,
                                      const char *document, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "INSERT INTO review_addendum (id, week, created_at_ms, document) VALUES (?1, ?2, ?3, ?4)");
  query_bind_text(&q, 1, id);
  query_bind_text(&q, 2, week);
  query_bind_int(&q, 3, created_at_ms);
  query_bind_text(&q, 4, document);
  return query_run(&q, e);
}

static void read_document(void *to, struct query *q)
{
  char **document = to;
  *document = query_text(q, 0);
}

enum err store_review_addenda(struct store *store, struct store_review_addenda *out, const char *week, struct error *e)
{
  struct query q;
  struct rows rows;
  enum err result;
  read_begin(&q, store, "SELECT document FROM review_addendum WHERE week = ?1 ORDER BY id");
  query_bind_text(&q, 1, week);
  rows = query_rows(&q, SIZE_MAX, sizeof *out->documents, read_document);
  result = read_end(&q, store, e);
  *out = (struct store_review_addenda){rows.at, rows.count};
  if (result != ERR_OK)
    store_review_addenda_fini(out);
  return result;
}
