/* The SQL of the history and its reading: equality filters on indexed columns, times as ranges of ids, keyset paging by id. Only what
   is asked for becomes a term, so that SQLite can walk an index that already has the order. */
#include "storage/store_int.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum { COLUMN_COUNT = 9, PARAMETER_SINCE = COLUMN_COUNT + 1, PARAMETER_UNTIL, PARAMETER_AFTER, PARAMETER_LIMIT };

#define IN(table) (1u << HISTORY_##table)
#define IN_ALL (IN(EVALUATION) | IN(SCORECARD) | IN(MEASUREMENT) | IN(CALIBRATION) | IN(QUALITY))

/* Column i has parameter i + 1. A sparse column's index leaves out rows without a value, and SQLite must be told that
   they are not wanted. */
static const struct {
  const char *name;
  bool is_sparse;
  unsigned tables;
} columns[COLUMN_COUNT] = {{"workload", false, IN(EVALUATION) | IN(SCORECARD) | IN(MEASUREMENT)},
                           {"model", false, IN_ALL},
                           {"profile", false, IN(SCORECARD) | IN(MEASUREMENT) | IN(CALIBRATION)},
                           {"verdict", false, IN(SCORECARD)},
                           {"label", true, IN(EVALUATION) | IN(SCORECARD)},
                           {"stack", true, IN(SCORECARD) | IN(MEASUREMENT) | IN(CALIBRATION) | IN(QUALITY)},
                           {"context_ref", true, IN(SCORECARD)},
                           {"evaluation", false, IN(SCORECARD)},
                           {"benchmark", false, IN(QUALITY)}};

static const char *const names[HISTORY_TABLES] = {"evaluation", "scorecard", "measurement", "calibration",
                                                  "quality_result"};

static const char *filter_value(const struct store_history_filter *filter, size_t column)
{
  const char *const values[COLUMN_COUNT] = {filter->workload,    filter->model,      filter->profile,
                                            filter->verdict,     filter->label,      filter->stack,
                                            filter->context_ref, filter->evaluation, filter->benchmark};
  return values[column];
}

static bool is_wanted(const struct store_history_filter *filter, enum history_table table, size_t column)
{
  const char *value = filter_value(filter, column);
  return value != NULL && value[0] != '\0' && (columns[column].tables & 1u << table) != 0;
}

void sql_append(struct sql_text *sql, const char *format, ...)
{
  const size_t room = sizeof sql->text - sql->length;
  va_list args;
  int n;
  va_start(args, format);
  n = vsnprintf(sql->text + sql->length, room, format, args);
  va_end(args);
  assert(n >= 0 && (size_t)n < room); /* made of fixed pieces only */
  sql->length += (size_t)n;
}

static void append_filter(struct sql_text *sql, enum history_table table, const struct store_history_filter *filter)
{
  for (size_t i = 0; i < COLUMN_COUNT; i++)
    if (is_wanted(filter, table, i))
      sql_append(sql, " AND t.%s = ?%zu%s%s%s", columns[i].name, i + 1, columns[i].is_sparse ? " AND t." : "",
                 columns[i].is_sparse ? columns[i].name : "", columns[i].is_sparse ? " <> ''" : "");
  if (filter->only_in_use && table == HISTORY_CALIBRATION)
    sql_append(sql, " AND t.retired_at_ms IS NULL");
  if (filter->since_ms > 0)
    sql_append(sql, " AND t.id >= ?%d", PARAMETER_SINCE);
  if (filter->until_ms > 0)
    sql_append(sql, " AND t.id < ?%d", PARAMETER_UNTIL);
}

static void append_page(struct sql_text *sql, const char *row, const struct store_page *page)
{
  if (page->after[0] != '\0')
    sql_append(sql, " AND %s.id %s ?%d", row, page->ascending ? ">" : "<", PARAMETER_AFTER);
  sql_append(sql, " ORDER BY %s.id %s LIMIT ?%d", row, page->ascending ? "ASC" : "DESC", PARAMETER_LIMIT);
}

/* The newest matching id of every workload × profile, one look-up each; then the page among those ids; then its rows. */
static void append_latest(struct sql_text *sql, const char *list, const struct store_history_filter *filter,
                          const struct store_page *page)
{
  sql_append(sql, "WITH newest (id) AS MATERIALIZED (SELECT (SELECT t.id FROM scorecard AS t INDEXED BY "
                  "scorecard_by_series WHERE t.workload = s.workload AND t.profile = s.profile");
  append_filter(sql, HISTORY_SCORECARD, filter);
  sql_append(sql, " ORDER BY t.id DESC LIMIT 1) FROM scorecard_series AS s WHERE TRUE");
  if (is_wanted(filter, HISTORY_SCORECARD, 0))
    sql_append(sql, " AND s.workload = ?1");
  if (is_wanted(filter, HISTORY_SCORECARD, 2))
    sql_append(sql, " AND s.profile = ?3");
  sql_append(sql, "), page (id) AS MATERIALIZED (SELECT n.id FROM newest AS n WHERE n.id IS NOT NULL");
  append_page(sql, "n", page);
  sql_append(sql, ") SELECT %s FROM page AS p CROSS JOIN scorecard AS t ON t.id = p.id ORDER BY t.id %s", list,
             page->ascending ? "ASC" : "DESC");
}

void history_sql(struct sql_text *sql, enum history_table table, const char *list,
                 const struct store_history_filter *filter, const struct store_page *page)
{
  sql->length = 0;
  if (table == HISTORY_SCORECARD && filter->latest) {
    append_latest(sql, list, filter, page);
    return;
  }
  sql_append(sql, "SELECT %s FROM %s AS t WHERE TRUE", list, names[table]);
  append_filter(sql, table, filter);
  append_page(sql, "t", page);
}

void history_id_floor(char floor[16], int64_t time_ms)
{
  const int64_t latest = ((int64_t)1 << 48) - 1;
  const uint64_t bits = (uint64_t)(time_ms < latest ? time_ms : latest);
  (void)snprintf(floor, 16, "%08x-%04x-", (unsigned)(bits >> 16), (unsigned)(bits & 0xffff));
}

void history_bind(struct query *q, struct history_bounds *bounds, enum history_table table,
                  const struct store_history_filter *filter, const struct store_page *page)
{
  for (size_t i = 0; i < COLUMN_COUNT; i++)
    if (is_wanted(filter, table, i))
      query_bind_text(q, (int)i + 1, filter_value(filter, i));
  if (filter->since_ms > 0) {
    history_id_floor(bounds->since, filter->since_ms);
    query_bind_text(q, PARAMETER_SINCE, bounds->since);
  }
  if (filter->until_ms > 0) {
    history_id_floor(bounds->until, filter->until_ms);
    query_bind_text(q, PARAMETER_UNTIL, bounds->until);
  }
  if (page->after[0] != '\0')
    query_bind_text(q, PARAMETER_AFTER, page->after);
  query_bind_int(q, PARAMETER_LIMIT, (int64_t)page->limit + 1);
}

enum err history_get(void *row, struct store *store, const struct history_rows *from, const char *id, struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  sql_append(&sql, "SELECT %s FROM %s AS t WHERE t.id = ?1", from->columns, names[from->table]);
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, id);
  return read_one(row, &q, store, from->read, e, "there is no %s %s", names[from->table], id);
}

enum err history_list(struct rows *out, struct store *store, const struct history_rows *from,
                      const struct store_history_filter *filter, const struct store_page *page, struct error *e)
{
  struct sql_text sql;
  struct history_bounds bounds;
  struct query q;
  history_sql(&sql, from->table, from->columns, filter, page);
  read_begin(&q, store, sql.text);
  history_bind(&q, &bounds, from->table, filter, page);
  *out = query_rows(&q, page->limit, from->row_size, from->read);
  return read_end(&q, store, e);
}
