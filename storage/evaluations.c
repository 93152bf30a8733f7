/* Evaluations: one row for each sketch that was evaluated and kept. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] = "t.id, t.created_at_ms, t.workload, t.model, t.label, t.core_version, t.sketch_digest, "
                              "t.sketch, t.document";

void store_evaluation_fini(struct store_evaluation *row)
{
  free(row->id);
  free(row->workload);
  free(row->model);
  free(row->label);
  free(row->core_version);
  free(row->sketch_digest);
  free(row->sketch);
  free(row->document);
  *row = (struct store_evaluation){0};
}

void store_evaluations_fini(struct store_evaluations *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_evaluation_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_evaluations){0};
}

static void read_row(struct store_evaluation *row, struct query *q)
{
  *row = (struct store_evaluation){
      .id = query_text(q, 0),
      .created_at_ms = query_int(q, 1),
      .workload = query_text(q, 2),
      .model = query_text(q, 3),
      .label = query_text(q, 4),
      .core_version = query_text(q, 5),
      .sketch_digest = query_text(q, 6),
      .sketch = query_text(q, 7),
      .document = query_text(q, 8),
  };
}

enum err store_evaluation_insert(struct store_tx *tx, const struct store_evaluation *row, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO evaluation (id, created_at_ms, workload, model, label, core_version, sketch_digest, sketch, "
              "document) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  query_bind_text(&q, 1, row->id);
  query_bind_int(&q, 2, row->created_at_ms);
  query_bind_text(&q, 3, row->workload);
  query_bind_text(&q, 4, row->model);
  query_bind_text(&q, 5, row->label);
  query_bind_text(&q, 6, row->core_version);
  query_bind_text(&q, 7, row->sketch_digest);
  query_bind_text(&q, 8, row->sketch);
  query_bind_text(&q, 9, row->document);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "evaluation %s is stored already", row->id);
  return result;
}

enum err store_evaluation_get(struct store *store, struct store_evaluation *out, const char *id, struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct connection *c;
  struct query q;
  bool is_found;
  enum err result;
  store_assert(store);
  *out = (struct store_evaluation){0};
  sql_append(&sql, "SELECT %s FROM evaluation AS t WHERE t.id = ?1", columns);
  c = readers_take(&store->readers);
  query_begin(&q, c, sql.text);
  query_bind_text(&q, 1, id);
  is_found = query_row(&q);
  if (is_found)
    read_row(out, &q);
  result = query_end(&q, e);
  readers_give(&store->readers, c);
  if (result != ERR_OK)
    store_evaluation_fini(out);
  else if (!is_found)
    return error_set(e, ERR_NOT_FOUND, "", "there is no evaluation %s", id);
  return result;
}

static void read_page(struct store_evaluations *out, struct query *q, size_t limit)
{
  while (query_row(q)) {
    struct store_evaluation *rows;
    if (out->count == limit) {
      out->has_more = true;
      return;
    }
    rows = rows_grow(out->rows, out->count, sizeof *rows);
    if (rows == NULL) {
      query_out_of_memory(q);
      return;
    }
    out->rows = rows;
    read_row(&rows[out->count++], q);
  }
}

enum err store_evaluation_list(struct store *store, struct store_evaluations *out,
                               const struct store_history_filter *filter, const struct store_page *page,
                               struct error *e)
{
  struct sql_text sql;
  struct history_bounds bounds;
  struct connection *c;
  struct query q;
  enum err result;
  store_assert(store);
  *out = (struct store_evaluations){0};
  history_sql(&sql, HISTORY_EVALUATION, columns, filter, page);
  c = readers_take(&store->readers);
  query_begin(&q, c, sql.text);
  history_bind(&q, &bounds, HISTORY_EVALUATION, filter, page);
  read_page(out, &q, page->limit);
  result = query_end(&q, e);
  readers_give(&store->readers, c);
  if (result != ERR_OK)
    store_evaluations_fini(out);
  return result;
}
