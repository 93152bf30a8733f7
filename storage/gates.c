/* Gates with their baselines, waivers and checks. A check is written together with the baselines it sets, so that two first
   checks at once can not both become one. */
#include <stdlib.h>

#include "storage/store_int.h"

static const char columns[] = "t.id, t.name, t.workload, t.revision, t.created_at_ms, t.changed_at_ms, t.document";

void store_gate_fini(struct store_gate *row)
{
  free(row->name);
  free(row->workload);
  free(row->document);
  *row = (struct store_gate){0};
}

void store_gates_fini(struct store_gates *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_gate_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_gates){0};
}

void store_gate_baselines_fini(struct store_gate_baselines *list)
{
  for (size_t i = 0; i < list->count; i++) {
    free(list->rows[i].profile);
    free(list->rows[i].scorecard);
  }
  free(list->rows);
  *list = (struct store_gate_baselines){0};
}

void store_gate_records_fini(struct store_gate_records *list)
{
  for (size_t i = 0; i < list->count; i++) {
    free(list->rows[i].id);
    free(list->rows[i].document);
  }
  free(list->rows);
  *list = (struct store_gate_records){0};
}

static void read_row(void *to, struct query *q)
{
  struct store_gate *row = to;
  *row = (struct store_gate){
      .id = query_int(q, 0),
      .name = query_text(q, 1),
      .workload = query_text(q, 2),
      .revision = (int)query_int(q, 3),
      .created_at_ms = query_int(q, 4),
      .changed_at_ms = query_int(q, 5),
      .document = query_text(q, 6),
  };
}

/* ---- Gates ---- */

/* What is stored under the row's name; revision 0 = nothing. */
static enum err read_stored(int *revision, bool *is_same, struct store_tx *tx, const struct store_gate *row,
                            struct error *e)
{
  struct query q;
  *revision = 0;
  *is_same = false;
  query_begin(&q, tx->connection, "SELECT revision, document = ?2 FROM gate WHERE name = ?1");
  query_bind_text(&q, 1, row->name);
  query_bind_text(&q, 2, row->document);
  if (query_row(&q)) {
    *revision = (int)query_int(&q, 0);
    *is_same = query_int(&q, 1) != 0;
  }
  return query_end(&q, e);
}

static enum err drop_baselines(struct store_tx *tx, const char *name, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "DELETE FROM gate_baseline WHERE is_chosen = 0 AND gate = (SELECT id FROM gate WHERE name = ?1)");
  query_bind_text(&q, 1, name);
  return query_run(&q, e);
}

enum err store_gate_put(struct store_tx *tx, const struct store_gate *row, int expected_revision, bool is_signed_anew,
                        bool *created, struct error *e)
{
  struct query q;
  int revision;
  bool is_same;
  enum err result = read_stored(&revision, &is_same, tx, row, e);
  if (result == ERR_OK)
    result = check_revision("gate", row->name, expected_revision, revision, e);
  if (result != ERR_OK)
    return result;
  *created = revision == 0;
  if (is_same)
    return ERR_OK;
  query_begin(&q, tx->connection,
              "INSERT INTO gate (name, workload, revision, created_at_ms, changed_at_ms, document) "
              "VALUES (?1, ?2, 1, ?3, ?3, ?4) ON CONFLICT (name) DO UPDATE SET revision = revision + 1, "
              "workload = excluded.workload, changed_at_ms = excluded.changed_at_ms, document = excluded.document");
  query_bind_text(&q, 1, row->name);
  query_bind_text(&q, 2, row->workload);
  query_bind_int(&q, 3, row->changed_at_ms);
  query_bind_text(&q, 4, row->document);
  result = query_run(&q, e);
  return result == ERR_OK && is_signed_anew ? drop_baselines(tx, row->name, e) : result;
}

enum err store_gate_get(struct store *store, struct store_gate *out, const char *name, struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  enum err result;
  *out = (struct store_gate){0};
  sql_append(&sql, "SELECT %s FROM gate AS t WHERE t.name = ?1", columns);
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, name);
  result = read_one(out, &q, store, read_row, e, "there is no gate %s", name);
  if (result != ERR_OK)
    store_gate_fini(out);
  return result;
}

enum err store_gate_delete(struct store_tx *tx, const char *name, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection, "DELETE FROM gate WHERE name = ?1");
  query_bind_text(&q, 1, name);
  return query_run_on_row(&q, e, "there is no gate %s", name);
}

enum err store_gate_list(struct store *store, struct store_gates *out, const char *workload,
                         const struct store_page *page, struct error *e)
{
  const bool is_filtered = workload != NULL && workload[0] != '\0';
  struct sql_text sql = {.length = 0};
  struct query q;
  struct rows rows;
  enum err result;
  sql_append(&sql, "SELECT %s FROM gate AS t WHERE t.name > ?1%s ORDER BY t.name LIMIT ?2", columns,
             is_filtered ? " AND t.workload = ?3" : "");
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, page->after);
  query_bind_int(&q, 2, (int64_t)page->limit + 1);
  if (is_filtered)
    query_bind_text(&q, 3, workload);
  rows = query_rows(&q, page->limit, sizeof *out->rows, read_row);
  result = read_end(&q, store, e);
  *out = (struct store_gates){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_gates_fini(out);
  return result;
}

/* ---- Baselines ---- */

static void read_baseline(void *to, struct query *q)
{
  struct store_gate_baseline *row = to;
  *row = (struct store_gate_baseline){
      .profile = query_text(q, 0),
      .scorecard = query_text(q, 1),
      .set_at_ms = query_int(q, 2),
      .is_chosen = query_int(q, 3) != 0,
  };
}

enum err store_gate_baselines(struct store *store, struct store_gate_baselines *out, int64_t gate, struct error *e)
{
  struct query q;
  struct rows rows;
  enum err result;
  read_begin(&q, store,
             "SELECT profile, scorecard, set_at_ms, is_chosen FROM gate_baseline WHERE gate = ?1 ORDER BY profile");
  query_bind_int(&q, 1, gate);
  rows = query_rows(&q, SIZE_MAX, sizeof *out->rows, read_baseline);
  result = read_end(&q, store, e);
  *out = (struct store_gate_baselines){rows.at, rows.count};
  if (result != ERR_OK)
    store_gate_baselines_fini(out);
  return result;
}

enum err store_gate_set_baseline(struct store_tx *tx, int64_t gate, const struct store_gate_baseline *row,
                                 struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              row->is_chosen ? "INSERT INTO gate_baseline (gate, profile, scorecard, set_at_ms, is_chosen) VALUES (?1, "
                               "?2, ?3, ?4, 1) ON CONFLICT (gate, profile) DO UPDATE SET scorecard = "
                               "excluded.scorecard, set_at_ms = excluded.set_at_ms, is_chosen = 1"
                             : "INSERT INTO gate_baseline (gate, profile, scorecard, set_at_ms, is_chosen) VALUES (?1, "
                               "?2, ?3, ?4, 0) ON CONFLICT (gate, profile) DO NOTHING");
  query_bind_int(&q, 1, gate);
  query_bind_text(&q, 2, row->profile);
  query_bind_text(&q, 3, row->scorecard);
  query_bind_int(&q, 4, row->set_at_ms);
  return query_run(&q, e);
}

/* ---- Waivers and checks ---- */

static void read_record(void *to, struct query *q)
{
  struct store_gate_record *row = to;
  *row = (struct store_gate_record){
      .id = query_text(q, 0),
      .created_at_ms = query_int(q, 1),
      .expires_at_ms = query_int(q, 2),
      .document = query_text(q, 3),
  };
}

enum err store_gate_waiver_insert(struct store_tx *tx, int64_t gate, const struct store_gate_record *row,
                                  struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "INSERT INTO gate_waiver (id, gate, created_at_ms, expires_at_ms, document) VALUES (?1, ?2, ?3, ?4, ?5)");
  query_bind_text(&q, 1, row->id);
  query_bind_int(&q, 2, gate);
  query_bind_int(&q, 3, row->created_at_ms);
  query_bind_int(&q, 4, row->expires_at_ms);
  query_bind_text(&q, 5, row->document);
  return query_run(&q, e);
}

static enum err end_records(struct store_gate_records *out, struct query *q, struct store *store, size_t limit,
                            struct error *e)
{
  const struct rows rows = query_rows(q, limit, sizeof *out->rows, read_record);
  const enum err result = read_end(q, store, e);
  *out = (struct store_gate_records){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_gate_records_fini(out);
  return result;
}

enum err store_gate_waivers(struct store *store, struct store_gate_records *out, int64_t gate, int64_t after_ms,
                            struct error *e)
{
  struct query q;
  read_begin(&q, store,
             "SELECT id, created_at_ms, expires_at_ms, document FROM gate_waiver WHERE gate = ?1 AND "
             "expires_at_ms > ?2 ORDER BY id");
  query_bind_int(&q, 1, gate);
  query_bind_int(&q, 2, after_ms);
  return end_records(out, &q, store, SIZE_MAX, e);
}

enum err store_gate_check_insert(struct store_tx *tx, const struct store_gate_check *row, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "INSERT INTO gate_check (id, created_at_ms, gate, workload, verdict, document) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  query_bind_text(&q, 1, row->id);
  query_bind_int(&q, 2, row->created_at_ms);
  query_bind_text(&q, 3, row->gate);
  query_bind_text(&q, 4, row->workload);
  query_bind_text(&q, 5, row->verdict);
  query_bind_text(&q, 6, row->document);
  return query_run(&q, e);
}

enum err store_gate_check_list(struct store *store, struct store_gate_records *out,
                               const struct store_gate_check_filter *filter, const struct store_page *page,
                               struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  sql_append(&sql, "SELECT id, created_at_ms, 0, document FROM gate_check WHERE %s = ?1 AND created_at_ms >= ?2",
             filter->gate != NULL ? "gate" : "workload");
  if (filter->verdict != NULL)
    sql_append(&sql, " AND verdict = ?3");
  if (page->after[0] != '\0')
    sql_append(&sql, " AND id %s ?4", page->ascending ? ">" : "<");
  sql_append(&sql, " ORDER BY id %s LIMIT ?5", page->ascending ? "ASC" : "DESC");
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, filter->gate != NULL ? filter->gate : filter->workload);
  query_bind_int(&q, 2, filter->since_ms);
  if (filter->verdict != NULL)
    query_bind_text(&q, 3, filter->verdict);
  if (page->after[0] != '\0')
    query_bind_text(&q, 4, page->after);
  query_bind_int(&q, 5, (int64_t)page->limit + 1);
  return end_records(out, &q, store, page->limit, e);
}
