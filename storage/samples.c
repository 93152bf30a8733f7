/* Roll-ups of what scrapes saw: one row a GPU, and one a node's engines, for each step of time. */
#include <stdlib.h>
#include <string.h>

#include "storage/store_int.h"

/* Of a node deleted meanwhile nothing is kept. */
enum err store_gpu_sample_put(struct store_tx *tx, const struct store_gpu_sample *row, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "INSERT OR REPLACE INTO gpu_sample (node, gpu, step_s, time_ms, figures) SELECT ?1, ?2, ?3, ?4, ?5 "
              "WHERE EXISTS (SELECT 1 FROM node WHERE name = ?1)");
  query_bind_text(&q, 1, row->node);
  query_bind_text(&q, 2, row->gpu);
  query_bind_int(&q, 3, row->step_s);
  query_bind_int(&q, 4, row->time_ms);
  query_bind_blob(&q, 5, row->figures, row->figures_bytes);
  return query_run(&q, e);
}

enum err store_engine_sample_put(struct store_tx *tx, const struct store_engine_sample *row, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "INSERT OR REPLACE INTO engine_sample (node, step_s, time_ms, document) SELECT ?1, ?2, ?3, ?4 "
              "WHERE EXISTS (SELECT 1 FROM node WHERE name = ?1)");
  query_bind_text(&q, 1, row->node);
  query_bind_int(&q, 2, row->step_s);
  query_bind_int(&q, 3, row->time_ms);
  query_bind_text(&q, 4, row->document);
  return query_run(&q, e);
}

static enum err delete_before(struct store_tx *tx, const char *sql, unsigned step_s, int64_t before_ms, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection, sql);
  query_bind_int(&q, 1, step_s);
  query_bind_int(&q, 2, before_ms);
  return query_run(&q, e);
}

enum err store_samples_prune(struct store_tx *tx, unsigned step_s, int64_t before_ms, struct error *e)
{
  enum err result =
      delete_before(tx, "DELETE FROM gpu_sample WHERE step_s = ?1 AND time_ms < ?2", step_s, before_ms, e);
  if (result == ERR_OK)
    result = delete_before(tx, "DELETE FROM engine_sample WHERE step_s = ?1 AND time_ms < ?2", step_s, before_ms, e);
  return result;
}

void store_gpu_samples_fini(struct store_gpu_samples *list)
{
  for (size_t i = 0; i < list->count; i++) {
    free(list->rows[i].gpu);
    free(list->rows[i].figures);
  }
  free(list->rows);
  *list = (struct store_gpu_samples){0};
}

void store_engine_samples_fini(struct store_engine_samples *list)
{
  for (size_t i = 0; i < list->count; i++)
    free(list->rows[i].document);
  free(list->rows);
  *list = (struct store_engine_samples){0};
}

static void read_gpu(void *to, struct query *q)
{
  struct store_gpu_sample *row = to;
  const unsigned char *bytes;
  *row = (struct store_gpu_sample){
      .gpu = query_text(q, 0), .step_s = (unsigned)query_int(q, 1), .time_ms = query_int(q, 2)};
  bytes = query_blob(&row->figures_bytes, q, 3);
  row->figures = malloc(row->figures_bytes + 1);
  if (row->figures == NULL) {
    query_out_of_memory(q);
    return;
  }
  if (row->figures_bytes > 0)
    memcpy(row->figures, bytes, row->figures_bytes);
}

enum err store_gpu_sample_list(struct store *store, struct store_gpu_samples *out,
                               const struct store_sample_filter *filter, struct error *e)
{
  struct query q;
  struct rows rows;
  enum err result;
  read_begin(&q, store,
             filter->gpu != NULL
                 ? "SELECT gpu, step_s, time_ms, figures FROM gpu_sample WHERE node = ?1 AND gpu = ?5 AND step_s = ?2 "
                   "AND time_ms >= ?3 AND time_ms < ?4 ORDER BY time_ms"
                 : "SELECT gpu, step_s, time_ms, figures FROM gpu_sample WHERE node = ?1 AND step_s = ?2 "
                   "AND time_ms >= ?3 AND time_ms < ?4 ORDER BY gpu, time_ms");
  query_bind_text(&q, 1, filter->node);
  query_bind_int(&q, 2, filter->step_s);
  query_bind_int(&q, 3, filter->since_ms);
  query_bind_int(&q, 4, filter->until_ms);
  if (filter->gpu != NULL)
    query_bind_text(&q, 5, filter->gpu);
  rows = query_rows(&q, filter->limit, sizeof *out->rows, read_gpu);
  result = read_end(&q, store, e);
  *out = (struct store_gpu_samples){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_gpu_samples_fini(out);
  return result;
}

static void read_engine(void *to, struct query *q)
{
  struct store_engine_sample *row = to;
  *row = (struct store_engine_sample){
      .step_s = (unsigned)query_int(q, 0), .time_ms = query_int(q, 1), .document = query_text(q, 2)};
}

enum err store_engine_sample_list(struct store *store, struct store_engine_samples *out,
                                  const struct store_sample_filter *filter, struct error *e)
{
  struct query q;
  struct rows rows;
  enum err result;
  read_begin(&q, store,
             "SELECT step_s, time_ms, document FROM engine_sample WHERE node = ?1 AND step_s = ?2 AND time_ms >= ?3 "
             "AND time_ms < ?4 ORDER BY time_ms");
  query_bind_text(&q, 1, filter->node);
  query_bind_int(&q, 2, filter->step_s);
  query_bind_int(&q, 3, filter->since_ms);
  query_bind_int(&q, 4, filter->until_ms);
  rows = query_rows(&q, filter->limit, sizeof *out->rows, read_engine);
  result = read_end(&q, store, e);
  *out = (struct store_engine_samples){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_engine_samples_fini(out);
  return result;
}
