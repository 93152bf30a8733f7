/* Measurements: what was measured on a profile, beside the scorecard that predicts the same sketch. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] = "t.id, t.created_at_ms, t.workload, t.model, t.profile, t.stack, t.scorecard, t.document";

void store_measurement_fini(struct store_measurement *row)
{
  free(row->id);
  free(row->workload);
  free(row->model);
  free(row->profile);
  free(row->stack);
  free(row->scorecard);
  free(row->document);
  *row = (struct store_measurement){0};
}

void store_measurements_fini(struct store_measurements *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_measurement_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_measurements){0};
}

static void read_row(void *to, struct query *q)
{
  struct store_measurement *row = to;
  *row = (struct store_measurement){
      .id = query_text(q, 0),
      .created_at_ms = query_int(q, 1),
      .workload = query_text(q, 2),
      .model = query_text(q, 3),
      .profile = query_text(q, 4),
      .stack = query_text(q, 5),
      .scorecard = query_text(q, 6),
      .document = query_text(q, 7),
  };
}

static const struct history_rows history = {HISTORY_MEASUREMENT, columns, sizeof(struct store_measurement), read_row};

static enum err insert_figure(struct store_tx *tx, const char *id, const struct store_measured *figure, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "INSERT INTO measurement_figure (measurement, path, measured, predicted) VALUES (?1, ?2, ?3, ?4)");
  query_bind_text(&q, 1, id);
  query_bind_text(&q, 2, figure->path);
  query_bind_figure(&q, 3, figure->measured);
  query_bind_figure(&q, 4, figure->predicted);
  return query_run(&q, e);
}

enum err store_measurement_insert(struct store_tx *tx, const struct store_measurement *row,
                                  const struct store_measured *figures, size_t count, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO measurement (id, created_at_ms, workload, model, profile, stack, scorecard, document) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  query_bind_text(&q, 1, row->id);
  query_bind_int(&q, 2, row->created_at_ms);
  query_bind_text(&q, 3, row->workload);
  query_bind_text(&q, 4, row->model);
  query_bind_text(&q, 5, row->profile);
  query_bind_text(&q, 6, row->stack);
  query_bind_text(&q, 7, row->scorecard);
  query_bind_text(&q, 8, row->document);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "measurement %s is stored already, or its scorecard %s is not", row->id,
                     row->scorecard);
  for (size_t i = 0; result == ERR_OK && i < count; i++)
    result = insert_figure(tx, row->id, &figures[i], e);
  return result;
}

enum err store_measurement_get(struct store *store, struct store_measurement *out, const char *id, struct error *e)
{
  enum err result;
  *out = (struct store_measurement){0};
  result = history_get(out, store, &history, id, e);
  if (result != ERR_OK)
    store_measurement_fini(out);
  return result;
}

enum err store_measurement_list(struct store *store, struct store_measurements *out,
                                const struct store_history_filter *filter, const struct store_page *page,
                                struct error *e)
{
  struct rows rows;
  const enum err result = history_list(&rows, store, &history, filter, page, e);
  *out = (struct store_measurements){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_measurements_fini(out);
  return result;
}
