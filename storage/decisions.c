/* Decisions: dated records that are never rewritten. Whether one is in force is a question about a day, so it is asked of
   the rows each time: what ended a decision is the first later one about its knob, or the first that names it. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] = "t.id, t.created_at_ms, t.effective_at_ms, t.workload, t.knob, t.supersedes, "
                              "t.is_revert, t.review_by_ms, t.document, t.ended_by, t.status";

void store_decision_fini(struct store_decision *row)
{
  free(row->id);
  free(row->workload);
  free(row->knob);
  free(row->supersedes);
  free(row->document);
  free(row->ended_by);
  free(row->status);
  *row = (struct store_decision){0};
}

void store_decisions_fini(struct store_decisions *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_decision_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_decisions){0};
}

static void read_row(void *to, struct query *q)
{
  struct store_decision *row = to;
  *row = (struct store_decision){
      .id = query_text(q, 0),
      .created_at_ms = query_int(q, 1),
      .effective_at_ms = query_int(q, 2),
      .workload = query_text(q, 3),
      .knob = query_text(q, 4),
      .supersedes = query_text(q, 5),
      .is_revert = query_int(q, 6) != 0,
      .review_by_ms = query_int(q, 7),
      .document = query_text(q, 8),
      .ended_by = query_text(q, 9),
      .status = query_text(q, 10),
  };
}

/* ---- Writing ---- */

/* ERR_CONFLICT when the superseded decision has ended already. */
static enum err check_superseded(struct store_tx *tx, const struct store_decision *row, struct error *e)
{
  struct query q;
  bool has_ended, is_found;
  enum err result;
  query_begin(&q, tx->connection,
              "SELECT EXISTS (SELECT 1 FROM decision AS s WHERE s.supersedes = t.id) OR EXISTS (SELECT 1 FROM decision "
              "AS s WHERE s.workload = t.workload AND s.knob = t.knob AND (s.effective_at_ms, s.id) > "
              "(t.effective_at_ms, t.id)) FROM decision AS t WHERE t.id = ?1");
  query_bind_text(&q, 1, row->supersedes);
  is_found = query_row(&q);
  has_ended = is_found && query_int(&q, 0) != 0;
  result = query_end(&q, e);
  if (result == ERR_OK && !is_found)
    return error_set(e, ERR_NOT_FOUND, "", "there is no decision %s", row->supersedes);
  if (result == ERR_OK && has_ended)
    return error_set(e, ERR_CONFLICT, "", "decision %s is not in force any more", row->supersedes);
  return result;
}

enum err store_decision_insert(struct store_tx *tx, const struct store_decision *row, struct error *e)
{
  const bool supersedes = row->supersedes != NULL && row->supersedes[0] != '\0';
  struct query q;
  enum err result = supersedes ? check_superseded(tx, row, e) : ERR_OK;
  if (result != ERR_OK)
    return result;
  query_begin(&q, tx->connection,
              "INSERT INTO decision (id, created_at_ms, effective_at_ms, workload, knob, supersedes, is_revert, "
              "review_by_ms, document) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  query_bind_text(&q, 1, row->id);
  query_bind_int(&q, 2, row->created_at_ms);
  query_bind_int(&q, 3, row->effective_at_ms);
  query_bind_text(&q, 4, row->workload);
  query_bind_text(&q, 5, row->knob);
  if (supersedes)
    query_bind_text(&q, 6, row->supersedes);
  query_bind_int(&q, 7, row->is_revert ? 1 : 0);
  if (row->review_by_ms != 0)
    query_bind_int(&q, 8, row->review_by_ms);
  query_bind_text(&q, 9, row->document);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "", "decision %s is stored already", row->id);
  return result;
}

/* ---- Reading ---- */

enum { WORKLOAD = 1, KNOB, STATUS, AS_OF, SINCE, UNTIL, AFTER, LIMIT, ID };

/* The decisions made until ?4 as t, with what ended each of them until then. */
static void append_judged(struct sql_text *sql, const char *where)
{
  sql_append(sql,
             "WITH made AS (SELECT d.*, (SELECT s.id FROM decision AS s WHERE s.effective_at_ms <= ?%d AND "
             "((s.workload = d.workload AND s.knob = d.knob AND (s.effective_at_ms, s.id) > (d.effective_at_ms, d.id)) "
             "OR s.supersedes = d.id) ORDER BY s.effective_at_ms, s.id LIMIT 1) AS ended_by FROM decision AS d "
             "WHERE d.effective_at_ms <= ?%d%s), ",
             AS_OF, AS_OF, where);
  sql_append(sql,
             "judged AS (SELECT m.*, CASE WHEN m.ended_by IS NULL THEN CASE WHEN m.review_by_ms < ?%d THEN 'due' ELSE "
             "'in_force' END WHEN EXISTS (SELECT 1 FROM decision AS r WHERE r.id = m.ended_by AND r.is_revert = 1 AND "
             "r.supersedes = m.id) THEN 'reverted' ELSE 'superseded' END AS status FROM made AS m) "
             "SELECT %s FROM judged AS t",
             AS_OF, columns);
}

static bool is_given(const char *text)
{
  return text != NULL && text[0] != '\0';
}

static void append_where(struct sql_text *where, const struct store_decision_filter *filter)
{
  if (is_given(filter->workload))
    sql_append(where, " AND d.workload = ?%d", WORKLOAD);
  if (is_given(filter->knob))
    sql_append(where, " AND d.knob = ?%d", KNOB);
  if (filter->since_ms > 0)
    sql_append(where, " AND d.effective_at_ms >= ?%d", SINCE);
  if (filter->until_ms > 0)
    sql_append(where, " AND d.effective_at_ms < ?%d", UNTIL);
}

enum err store_decision_list(struct store *store, struct store_decisions *out,
                             const struct store_decision_filter *filter, const struct store_page *page, struct error *e)
{
  struct sql_text where = {.length = 0}, sql = {.length = 0};
  struct query q;
  struct rows rows;
  enum err result;
  append_where(&where, filter);
  append_judged(&sql, where.text);
  sql_append(&sql, " WHERE %s",
             is_given(filter->status) ? "t.status = ?3"
             : filter->only_in_force  ? "t.ended_by IS NULL"
                                      : "TRUE");
  if (page->after[0] != '\0')
    sql_append(&sql, " AND t.id %s ?%d", page->ascending ? ">" : "<", AFTER);
  sql_append(&sql, " ORDER BY t.id %s LIMIT ?%d", page->ascending ? "ASC" : "DESC", LIMIT);
  read_begin(&q, store, sql.text);
  query_bind_int(&q, AS_OF, filter->as_of_ms);
  if (is_given(filter->workload))
    query_bind_text(&q, WORKLOAD, filter->workload);
  if (is_given(filter->knob))
    query_bind_text(&q, KNOB, filter->knob);
  if (is_given(filter->status))
    query_bind_text(&q, STATUS, filter->status);
  if (filter->since_ms > 0)
    query_bind_int(&q, SINCE, filter->since_ms);
  if (filter->until_ms > 0)
    query_bind_int(&q, UNTIL, filter->until_ms);
  if (page->after[0] != '\0')
    query_bind_text(&q, AFTER, page->after);
  query_bind_int(&q, LIMIT, (int64_t)page->limit + 1);
  rows = query_rows(&q, page->limit, sizeof *out->rows, read_row);
  result = read_end(&q, store, e);
  *out = (struct store_decisions){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_decisions_fini(out);
  return result;
}

enum err store_decision_get(struct store *store, struct store_decision *out, const char *id, int64_t as_of_ms,
                            struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  enum err result;
  *out = (struct store_decision){0};
  append_judged(&sql, " AND d.id = ?9");
  read_begin(&q, store, sql.text);
  query_bind_int(&q, AS_OF, as_of_ms);
  query_bind_text(&q, ID, id);
  result = read_one(out, &q, store, read_row, e, "there is no decision %s", id);
  if (result != ERR_OK)
    store_decision_fini(out);
  return result;
}
