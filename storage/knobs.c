/* Knobs: what a team may turn in a workload's sketch. The document holds what people agreed on; the row only its name. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] = "t.id, t.workload, t.name, t.revision, t.created_at_ms, t.changed_at_ms, t.document";

void store_knob_fini(struct store_knob *row)
{
  free(row->workload);
  free(row->name);
  free(row->document);
  *row = (struct store_knob){0};
}

void store_knobs_fini(struct store_knobs *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_knob_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_knobs){0};
}

static void read_row(void *to, struct query *q)
{
  struct store_knob *row = to;
  *row = (struct store_knob){
      .id = query_int(q, 0),
      .workload = query_text(q, 1),
      .name = query_text(q, 2),
      .revision = (int)query_int(q, 3),
      .created_at_ms = query_int(q, 4),
      .changed_at_ms = query_int(q, 5),
      .document = query_text(q, 6),
  };
}

/* Revision now stored; 0 = none. */
static enum err read_revision(int *revision, bool *is_same, struct store_tx *tx, const struct store_knob *row,
                              struct error *e)
{
  struct query q;
  *revision = 0;
  *is_same = false;
  query_begin(&q, tx->connection, "SELECT revision, document = ?3 FROM knob WHERE workload = ?1 AND name = ?2");
  query_bind_text(&q, 1, row->workload);
  query_bind_text(&q, 2, row->name);
  query_bind_text(&q, 3, row->document);
  if (query_row(&q)) {
    *revision = (int)query_int(&q, 0);
    *is_same = query_int(&q, 1) != 0;
  }
  return query_end(&q, e);
}

enum err store_knob_put(struct store_tx *tx, const struct store_knob *row, int expected_revision, bool *created,
                        struct error *e)
{
  struct query q;
  int revision;
  bool is_same;
  enum err result = read_revision(&revision, &is_same, tx, row, e);
  if (result == ERR_OK)
    result = check_revision("knob", row->name, expected_revision, revision, e);
  if (result != ERR_OK)
    return result;
  *created = revision == 0;
  if (is_same)
    return ERR_OK;
  query_begin(&q, tx->connection,
              "INSERT INTO knob (workload, name, revision, created_at_ms, changed_at_ms, document) "
              "VALUES (?1, ?2, 1, ?3, ?3, ?4) ON CONFLICT (workload, name) DO UPDATE SET revision = revision + 1, "
              "changed_at_ms = excluded.changed_at_ms, document = excluded.document");
  query_bind_text(&q, 1, row->workload);
  query_bind_text(&q, 2, row->name);
  query_bind_int(&q, 3, row->changed_at_ms);
  query_bind_text(&q, 4, row->document);
  return query_run(&q, e);
}

enum err store_knob_get(struct store *store, struct store_knob *out, const char *workload, const char *name,
                        struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  enum err result;
  *out = (struct store_knob){0};
  sql_append(&sql, "SELECT %s FROM knob AS t WHERE t.workload = ?1 AND t.name = ?2", columns);
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, workload);
  query_bind_text(&q, 2, name);
  result = read_one(out, &q, store, read_row, e, "the workload %s has no knob %s", workload, name);
  if (result != ERR_OK)
    store_knob_fini(out);
  return result;
}

enum err store_knob_delete(struct store_tx *tx, const char *workload, const char *name, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection, "DELETE FROM knob WHERE workload = ?1 AND name = ?2");
  query_bind_text(&q, 1, workload);
  query_bind_text(&q, 2, name);
  return query_run_on_row(&q, e, "the workload %s has no knob %s", workload, name);
}

enum err store_knob_list(struct store *store, struct store_knobs *out, const char *workload,
                         const struct store_page *page, struct error *e)
{
  const bool is_filtered = workload != NULL && workload[0] != '\0';
  struct sql_text sql = {.length = 0};
  struct query q;
  struct rows rows;
  enum err result;
  sql_append(&sql, "SELECT %s FROM knob AS t WHERE t.id > ?1%s ORDER BY t.id LIMIT ?2", columns,
             is_filtered ? " AND t.workload = ?3" : "");
  read_begin(&q, store, sql.text);
  query_bind_int(&q, 1, page->after[0] != '\0' ? strtoll(page->after, NULL, 10) : 0);
  query_bind_int(&q, 2, (int64_t)page->limit + 1);
  if (is_filtered)
    query_bind_text(&q, 3, workload);
  rows = query_rows(&q, page->limit, sizeof *out->rows, read_row);
  result = read_end(&q, store, e);
  *out = (struct store_knobs){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_knobs_fini(out);
  return result;
}
