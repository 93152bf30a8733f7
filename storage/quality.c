/* Results of quality benchmarks by model and the formats it was served in. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] = "t.id, t.created_at_ms, t.model, t.weights, t.kv_cache, t.stack, t.benchmark, t.slice, "
                              "t.score, t.document";

void store_quality_fini(struct store_quality *row)
{
  free(row->id);
  free(row->model);
  free(row->weights);
  free(row->kv_cache);
  free(row->stack);
  free(row->benchmark);
  free(row->slice);
  free(row->document);
  *row = (struct store_quality){0};
}

void store_qualities_fini(struct store_qualities *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_quality_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_qualities){0};
}

static void read_row(void *to, struct query *q)
{
  struct store_quality *row = to;
  *row = (struct store_quality){
      .id = query_text(q, 0),
      .created_at_ms = query_int(q, 1),
      .model = query_text(q, 2),
      .weights = query_text(q, 3),
      .kv_cache = query_text(q, 4),
      .stack = query_text(q, 5),
      .benchmark = query_text(q, 6),
      .slice = query_text(q, 7),
      .score = query_figure(q, 8),
      .document = query_text(q, 9),
  };
}

static const struct history_rows history = {HISTORY_QUALITY, columns, sizeof(struct store_quality), read_row};

enum err store_quality_insert(struct store_tx *tx, const struct store_quality *row, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO quality_result (id, created_at_ms, model, weights, kv_cache, stack, benchmark, slice, "
              "score, document) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
  query_bind_text(&q, 1, row->id);
  query_bind_int(&q, 2, row->created_at_ms);
  query_bind_text(&q, 3, row->model);
  query_bind_text(&q, 4, row->weights);
  query_bind_text(&q, 5, row->kv_cache);
  query_bind_text(&q, 6, row->stack);
  query_bind_text(&q, 7, row->benchmark);
  query_bind_text(&q, 8, row->slice);
  query_bind_figure(&q, 9, row->score);
  query_bind_text(&q, 10, row->document);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "quality result %s is stored already", row->id);
  return result;
}

enum err store_quality_list(struct store *store, struct store_qualities *out, const struct store_history_filter *filter,
                            const char *benchmark, const struct store_page *page, struct error *e)
{
  struct store_history_filter wanted = *filter;
  struct rows rows;
  enum err result;
  wanted.benchmark = benchmark;
  result = history_list(&rows, store, &history, &wanted, page, e);
  *out = (struct store_qualities){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_qualities_fini(out);
  return result;
}

static void read_score(void *to, struct query *q)
{
  *(double *)to = query_figure(q, 0);
}

enum err store_quality_newest(struct store *store, double *score, const char *model, const char *weights,
                              const char *kv_cache, const char *benchmark, const char *slice, struct error *e)
{
  struct query q;
  read_begin(&q, store,
             "SELECT t.score FROM quality_result AS t WHERE t.model = ?1 AND t.benchmark = ?2 AND t.slice = ?3 AND "
             "t.weights = ?4 AND t.kv_cache IN ('', ?5) ORDER BY t.id DESC LIMIT 1");
  query_bind_text(&q, 1, model);
  query_bind_text(&q, 2, benchmark);
  query_bind_text(&q, 3, slice);
  query_bind_text(&q, 4, weights);
  query_bind_text(&q, 5, kv_cache);
  return read_one(score, &q, store, read_score, e, "no result of %s is stored for %s", benchmark, model);
}
