/* Calibrations: fits are kept for ever; retiring one only says from when on it is not used. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] =
    "t.id, t.created_at_ms, t.profile, t.model, t.stack, coalesce(t.retired_at_ms, 0), t.document";

void store_calibration_fini(struct store_calibration *row)
{
  free(row->id);
  free(row->profile);
  free(row->model);
  free(row->stack);
  free(row->document);
  *row = (struct store_calibration){0};
}

void store_calibrations_fini(struct store_calibrations *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_calibration_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_calibrations){0};
}

static void read_row(void *to, struct query *q)
{
  struct store_calibration *row = to;
  *row = (struct store_calibration){
      .id = query_text(q, 0),
      .created_at_ms = query_int(q, 1),
      .profile = query_text(q, 2),
      .model = query_text(q, 3),
      .stack = query_text(q, 4),
      .retired_at_ms = query_int(q, 5),
      .document = query_text(q, 6),
  };
}

static const struct history_rows history = {HISTORY_CALIBRATION, columns, sizeof(struct store_calibration), read_row};

uint64_t store_calibration_version(const struct store *store)
{
  store_assert(store);
  return atomic_load(&store->versions[TOUCHED_CALIBRATIONS_KIND]);
}

enum err store_calibration_insert(struct store_tx *tx, const struct store_calibration *row, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO calibration (id, created_at_ms, profile, model, stack, document) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  query_bind_text(&q, 1, row->id);
  query_bind_int(&q, 2, row->created_at_ms);
  query_bind_text(&q, 3, row->profile);
  query_bind_text(&q, 4, row->model);
  query_bind_text(&q, 5, row->stack);
  query_bind_text(&q, 6, row->document);
  result = query_run(&q, e);
  tx->touched |= TOUCHED_CALIBRATIONS;
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "calibration %s is stored already", row->id);
  return result;
}

/* 0 rows: there is none, or it was retired before. */
static enum err retire(bool *is_done, struct store_tx *tx, const char *id, int64_t now_ms, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "UPDATE calibration SET retired_at_ms = ?2 WHERE id = ?1 AND retired_at_ms IS NULL RETURNING 1");
  query_bind_text(&q, 1, id);
  query_bind_int(&q, 2, now_ms);
  *is_done = query_row(&q);
  return query_end(&q, e);
}

static enum err find(bool *is_there, struct store_tx *tx, const char *id, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection, "SELECT 1 FROM calibration WHERE id = ?1");
  query_bind_text(&q, 1, id);
  *is_there = query_row(&q);
  return query_end(&q, e);
}

enum err store_calibration_retire(struct store_tx *tx, const char *id, int64_t now_ms, struct error *e)
{
  bool is_there, is_done = false;
  enum err result = find(&is_there, tx, id, e);
  if (result == ERR_OK && !is_there)
    return error_set(e, ERR_NOT_FOUND, "", "there is no calibration %s", id);
  if (result == ERR_OK)
    result = retire(&is_done, tx, id, now_ms, e);
  if (result == ERR_OK && !is_done)
    return error_set(e, ERR_CONFLICT, "", "calibration %s is retired already", id);
  tx->touched |= TOUCHED_CALIBRATIONS;
  return result;
}

enum err store_calibration_get(struct store *store, struct store_calibration *out, const char *id, struct error *e)
{
  enum err result;
  *out = (struct store_calibration){0};
  result = history_get(out, store, &history, id, e);
  if (result != ERR_OK)
    store_calibration_fini(out);
  return result;
}

enum err store_calibration_list(struct store *store, struct store_calibrations *out,
                                const struct store_history_filter *filter, bool only_in_use,
                                const struct store_page *page, struct error *e)
{
  struct store_history_filter wanted = *filter;
  struct rows rows;
  enum err result;
  wanted.only_in_use = only_in_use;
  result = history_list(&rows, store, &history, &wanted, page, e);
  *out = (struct store_calibrations){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_calibrations_fini(out);
  return result;
}
