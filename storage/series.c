/* Figures over time. Buckets of whole days come from the sums of each day, anything else from the rows themselves. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store_int.h"

#define DAY_MS INT64_C(86400000)

#define FIGURE(column, path, unit) {path, unit},
const struct store_figure store_figures[STORE_FIGURE_COUNT] = {
#include "storage/figures.def"
};
#undef FIGURE

#define FIGURE(column, path, unit) #column,
static const char *const figure_columns[STORE_FIGURE_COUNT] = {
#include "storage/figures.def"
};
#undef FIGURE

enum { WORKLOAD = 1, PROFILE, SINCE, UNTIL, BUCKET, OFFSET, PATH, LIMIT };

static const char *column_of(const char *path)
{
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++)
    if (strcmp(store_figures[i].path, path) == 0)
      return figure_columns[i];
  return NULL;
}

static bool is_given(const char *text)
{
  return text != NULL && text[0] != '\0';
}

static bool is_daily(const struct store_series_query *query)
{
  return !query->is_observed && query->by == STORE_BY_PROFILE && column_of(query->path) != NULL &&
         query->bucket_ms % DAY_MS == 0 && query->offset_ms % DAY_MS == 0;
}

static const char *by_column(enum store_series_by by)
{
  switch (by) {
  case STORE_BY_PROFILE: break;
  case STORE_BY_MODEL: return "t.model";
  case STORE_BY_LABEL: return "t.label";
  case STORE_BY_STACK: return "t.stack";
  case STORE_BY_CONTEXT: return "t.context_ref";
  case STORE_BY_VERDICT: return "t.verdict";
  }
  return "''";
}

static void append_series(struct sql_text *sql, const struct store_series_query *query)
{
  if (is_given(query->workload))
    sql_append(sql, " AND t.workload = ?%d", WORKLOAD);
  if (is_given(query->profile))
    sql_append(sql, " AND t.profile = ?%d", PROFILE);
}

static void append_days(struct sql_text *sql, const struct store_series_query *query)
{
  const char *column = column_of(query->path);
  sql_append(sql,
             "SELECT t.workload, t.profile, '', (t.day * %lld - ?%d) / ?%d * ?%d + ?%d AS time, sum(t.%s_count), "
             "sum(t.%s_sum), min(t.%s_min), max(t.%s_max) FROM scorecard_day AS t "
             "WHERE t.day >= ?%d / %lld AND t.day < ?%d / %lld",
             (long long)DAY_MS, OFFSET, BUCKET, BUCKET, OFFSET, column, column, column, column, SINCE,
             (long long)DAY_MS, UNTIL, (long long)DAY_MS);
  append_series(sql, query);
}

/* What a row contributes: a column, or a number in the document at the path. */
static void append_value(struct sql_text *sql, const char *function, const struct store_series_query *query)
{
  const char *column = column_of(query->path);
  if (query->is_observed)
    sql_append(sql, ", %s(f.measured)", function);
  else if (column != NULL)
    sql_append(sql, ", %s(t.%s)", function, column);
  else
    sql_append(sql,
               ", %s(CASE WHEN json_type(t.document, ?%d) IN ('integer', 'real') THEN json_extract(t.document, ?%d) "
               "END)",
               function, PATH, PATH);
}

static void append_rows(struct sql_text *sql, const struct store_series_query *query)
{
  sql_append(sql, "SELECT t.workload, t.profile, %s, (t.created_at_ms - ?%d) / ?%d * ?%d + ?%d AS time",
             by_column(query->by), OFFSET, BUCKET, BUCKET, OFFSET);
  append_value(sql, "count", query);
  append_value(sql, "sum", query);
  append_value(sql, "min", query);
  append_value(sql, "max", query);
  if (query->is_observed)
    sql_append(sql, " FROM measurement AS t JOIN measurement_figure AS f ON f.measurement = t.id AND f.path = ?%d",
               PATH);
  else
    sql_append(sql, " FROM scorecard AS t");
  sql_append(sql, " WHERE t.id >= ?%d AND t.id < ?%d", SINCE, UNTIL);
  append_series(sql, query);
}

static void bind(struct query *q, struct history_bounds *bounds, const struct store_series_query *query, char *path)
{
  if (is_given(query->workload))
    query_bind_text(q, WORKLOAD, query->workload);
  if (is_given(query->profile))
    query_bind_text(q, PROFILE, query->profile);
  if (is_daily(query)) {
    query_bind_int(q, SINCE, query->since_ms);
    query_bind_int(q, UNTIL, query->until_ms);
  } else {
    history_id_floor(bounds->since, query->since_ms);
    history_id_floor(bounds->until, query->until_ms);
    query_bind_text(q, SINCE, bounds->since);
    query_bind_text(q, UNTIL, bounds->until);
  }
  query_bind_int(q, BUCKET, query->bucket_ms);
  query_bind_int(q, OFFSET, query->offset_ms);
  if (query->is_observed || column_of(query->path) == NULL)
    query_bind_text(q, PATH, path);
  query_bind_int(q, LIMIT, (int64_t)query->points_max + 1);
}

/* ---- Rows ---- */

void store_series_list_fini(struct store_series_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    free(list->rows[i].workload);
    free(list->rows[i].profile);
    free(list->rows[i].by);
    free(list->rows[i].points);
  }
  free(list->rows);
  *list = (struct store_series_list){0};
}

static bool is_column(struct query *q, int column, const char *text)
{
  const char *seen = (const char *)sqlite3_column_text(q->statement, column);
  return strcmp(seen != NULL ? seen : "", text) == 0;
}

/* The series of the current row, which is the last one or a new one; NULL when memory is out. */
static struct store_series *series_of(struct store_series_list *list, struct query *q)
{
  struct store_series *last = list->count > 0 ? &list->rows[list->count - 1] : NULL, *rows;
  if (last != NULL && is_column(q, 0, last->workload) && is_column(q, 1, last->profile) && is_column(q, 2, last->by))
    return last;
  rows = rows_grow(list->rows, list->count, sizeof *rows);
  if (rows == NULL) {
    query_out_of_memory(q);
    return NULL;
  }
  list->rows = rows;
  last = &rows[list->count++];
  *last = (struct store_series){.workload = query_text(q, 0), .profile = query_text(q, 1), .by = query_text(q, 2)};
  return last->workload != NULL && last->profile != NULL && last->by != NULL ? last : NULL;
}

static void add_point(struct store_series_list *list, struct query *q)
{
  struct store_series *series = series_of(list, q);
  struct store_point *points;
  const int64_t count = query_int(q, 4);
  if (series == NULL)
    return;
  points = rows_grow(series->points, series->count, sizeof *points);
  if (points == NULL) {
    query_out_of_memory(q);
    return;
  }
  series->points = points;
  points[series->count++] = (struct store_point){query_int(q, 3), count, query_figure(q, 5) / (double)count,
                                                 query_figure(q, 6), query_figure(q, 7)};
}

enum err store_series_list(struct store *store, struct store_series_list *out, const struct store_series_query *query,
                           struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct history_bounds bounds;
  char path[160];
  struct query q;
  size_t seen = 0;
  enum err result;
  assert(query->bucket_ms > 0);
  *out = (struct store_series_list){0};
  (void)snprintf(path, sizeof path, query->is_observed ? "%s" : "$.%s", query->path);
  if (is_daily(query))
    append_days(&sql, query);
  else
    append_rows(&sql, query);
  sql_append(&sql, " GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT ?%d", LIMIT);
  read_begin(&q, store, sql.text);
  bind(&q, &bounds, query, path);
  while (query_row(&q) && seen++ < query->points_max)
    if (query_int(&q, 4) > 0)
      add_point(out, &q);
  result = read_end(&q, store, e);
  if (result == ERR_OK && seen > query->points_max)
    result = error_set(e, ERR_LIMIT, "", "more than %zu points", query->points_max);
  if (result != ERR_OK)
    store_series_list_fini(out);
  return result;
}
