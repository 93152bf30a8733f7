/* Evaluations: one row for each sketch that was evaluated and kept. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] = "t.id, t.created_at_ms, t.workload, t.model, t.label, t.core_version, t.sketch_digest, "
                              "t.sketch, t.document, t.official_revision";

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

static void read_row(void *to, struct query *q)
{
  struct store_evaluation *row = to;
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
      .official_revision = (int)query_int(q, 9),
  };
}

static const struct history_rows history = {HISTORY_EVALUATION, columns, sizeof(struct store_evaluation), read_row};

enum err store_evaluation_insert(struct store_tx *tx, const struct store_evaluation *row, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO evaluation (id, created_at_ms, workload, model, label, core_version, sketch_digest, sketch, "
              "document, official_revision) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
  query_bind_text(&q, 1, row->id);
  query_bind_int(&q, 2, row->created_at_ms);
  query_bind_text(&q, 3, row->workload);
  query_bind_text(&q, 4, row->model);
  query_bind_text(&q, 5, row->label);
  query_bind_text(&q, 6, row->core_version);
  query_bind_text(&q, 7, row->sketch_digest);
  query_bind_text(&q, 8, row->sketch);
  query_bind_text(&q, 9, row->document);
  query_bind_int(&q, 10, row->official_revision);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "evaluation %s is stored already", row->id);
  return result;
}

enum err store_evaluation_get(struct store *store, struct store_evaluation *out, const char *id, struct error *e)
{
  enum err result;
  *out = (struct store_evaluation){0};
  result = history_get(out, store, &history, id, e);
  if (result != ERR_OK)
    store_evaluation_fini(out);
  return result;
}

enum err store_evaluation_list(struct store *store, struct store_evaluations *out,
                               const struct store_history_filter *filter, const struct store_page *page,
                               struct error *e)
{
  struct rows rows;
  const enum err result = history_list(&rows, store, &history, filter, page, e);
  *out = (struct store_evaluations){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_evaluations_fini(out);
  return result;
}

enum err store_evaluation_official(struct store *store, struct store_evaluation *out, const char *workload,
                                   struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  enum err result;
  *out = (struct store_evaluation){0};
  sql_append(&sql,
             "SELECT %s FROM evaluation AS t WHERE t.workload = ?1 AND t.official_revision > 0 ORDER BY t.id DESC "
             "LIMIT 1",
             columns);
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, workload);
  result = read_one(out, &q, store, read_row, e, "the official sketch of workload %s was not evaluated yet", workload);
  if (result != ERR_OK)
    store_evaluation_fini(out);
  return result;
}
