/* Scorecards: the history that everything else reads. The document is the truth; the other columns are what lists are
   filtered by and what series are drawn from. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store_int.h"

#define FIGURE(column, path, unit) ", t." #column
static const char columns[] =
    "t.id, t.evaluation, t.ordinal, t.created_at_ms, t.workload, t.model, t.model_revision, t.profile, "
    "t.profile_revision, t.verdict, t.label, t.stack, t.context_ref, t.sketch_digest, t.core_version, t.document, "
    "t.trace_digest"
#include "storage/figures.def"
    ;
#undef FIGURE
enum { BEFORE_FIGURES = 17 }; /* columns */

/* Members of the figures, in the order of their columns. */
#define FIGURE(column, path, unit) offsetof(struct store_scorecard, column),
static const size_t members[STORE_FIGURE_COUNT] = {
#include "storage/figures.def"
};
#undef FIGURE

double *store_scorecard_figure(struct store_scorecard *row, size_t figure)
{
  return (double *)(void *)((char *)row + members[figure]);
}

void store_scorecard_fini(struct store_scorecard *row)
{
  free(row->id);
  free(row->evaluation);
  free(row->workload);
  free(row->model);
  free(row->profile);
  free(row->verdict);
  free(row->label);
  free(row->stack);
  free(row->context_ref);
  free(row->sketch_digest);
  free(row->core_version);
  free(row->document);
  free(row->trace_digest);
  *row = (struct store_scorecard){0};
}

void store_scorecards_fini(struct store_scorecards *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_scorecard_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_scorecards){0};
}

static void read_row(void *to, struct query *q)
{
  struct store_scorecard *row = to;
  *row = (struct store_scorecard){
      .id = query_text(q, 0),
      .evaluation = query_text(q, 1),
      .ordinal = (int)query_int(q, 2),
      .created_at_ms = query_int(q, 3),
      .workload = query_text(q, 4),
      .model = query_text(q, 5),
      .model_revision = (int)query_int(q, 6),
      .profile = query_text(q, 7),
      .profile_revision = (int)query_int(q, 8),
      .verdict = query_text(q, 9),
      .label = query_text(q, 10),
      .stack = query_text(q, 11),
      .context_ref = query_text(q, 12),
      .sketch_digest = query_text(q, 13),
      .core_version = query_text(q, 14),
      .document = query_text(q, 15),
      .trace_digest = query_text(q, 16),
  };
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++)
    *store_scorecard_figure(row, i) = query_figure(q, BEFORE_FIGURES + (int)i);
}

static const struct history_rows history = {HISTORY_SCORECARD, columns, sizeof(struct store_scorecard), read_row};

static double value_of(const struct store_scorecard *row, size_t figure)
{
  double value;
  memcpy(&value, (const char *)row + members[figure], sizeof value);
  return value;
}

static void bind_row(struct query *q, const struct store_scorecard *row)
{
  query_bind_text(q, 1, row->id);
  query_bind_text(q, 2, row->evaluation);
  query_bind_int(q, 3, row->ordinal);
  query_bind_int(q, 4, row->created_at_ms);
  query_bind_text(q, 5, row->workload);
  query_bind_text(q, 6, row->model);
  query_bind_int(q, 7, row->model_revision);
  query_bind_text(q, 8, row->profile);
  query_bind_int(q, 9, row->profile_revision);
  query_bind_text(q, 10, row->verdict);
  query_bind_text(q, 11, row->label);
  query_bind_text(q, 12, row->stack);
  query_bind_text(q, 13, row->context_ref);
  query_bind_text(q, 14, row->sketch_digest);
  query_bind_text(q, 15, row->core_version);
  query_bind_text(q, 16, row->document);
  if (row->trace_digest != NULL && row->trace_digest[0] != '\0') /* NULL without one: it refers to nothing */
    query_bind_text(q, 17, row->trace_digest);
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++)
    query_bind_figure(q, BEFORE_FIGURES + 1 + (int)i, value_of(row, i));
}

enum err store_scorecard_insert(struct store_tx *tx, const struct store_scorecard *row, struct error *e)
{
#define FIGURE(column, path, unit) ", " #column
  static const char insert[] =
      "INSERT INTO scorecard (id, evaluation, ordinal, created_at_ms, workload, model, model_revision, profile, "
      "profile_revision, verdict, label, stack, context_ref, sketch_digest, core_version, document, trace_digest"
#include "storage/figures.def"
#undef FIGURE
#define FIGURE(column, path, unit) ", ?"
      ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
#include "storage/figures.def"
      ")";
#undef FIGURE
  struct query q;
  enum err result;
  query_begin(&q, tx->connection, insert);
  bind_row(&q, row);
  result = query_run(&q, e);
  if (result == ERR_CONFLICT)
    return error_set(e, result, "",
                     "scorecard %s is stored already, or its evaluation, model %s (revision %d), profile %s "
                     "(revision %d) or trace is not stored",
                     row->id, row->model, row->model_revision, row->profile, row->profile_revision);
  return result;
}

enum err store_scorecard_get(struct store *store, struct store_scorecard *out, const char *id, struct error *e)
{
  enum err result;
  *out = (struct store_scorecard){0};
  result = history_get(out, store, &history, id, e);
  if (result != ERR_OK)
    store_scorecard_fini(out);
  return result;
}

enum err store_scorecard_document(struct store *store, char **document, size_t *length, const char *id, struct error *e)
{
  struct query q;
  enum err result;
  store_assert(store);
  *document = NULL;
  *length = 0;
  if (recent_get(&store->recent, document, length, id))
    return ERR_OK;
  read_begin(&q, store, "SELECT document FROM scorecard WHERE id = ?1");
  query_bind_text(&q, 1, id);
  if (query_row(&q)) {
    *document = query_text(&q, 0);
    *length = query_bytes(&q, 0);
  }
  result = read_end(&q, store, e);
  if (result == ERR_OK && *document == NULL)
    return error_set(e, ERR_NOT_FOUND, "", "there is no scorecard %s", id);
  if (result == ERR_OK)
    recent_put(&store->recent, id, *document, *length);
  return result;
}

enum err store_scorecard_list(struct store *store, struct store_scorecards *out,
                              const struct store_history_filter *filter, const struct store_page *page, struct error *e)
{
  struct rows rows;
  const enum err result = history_list(&rows, store, &history, filter, page, e);
  *out = (struct store_scorecards){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_scorecards_fini(out);
  return result;
}

enum err store_evaluation_scorecards(struct store *store, struct store_scorecards *out, const char *evaluation,
                                     struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct rows rows;
  struct query q;
  enum err result;
  sql_append(&sql, "SELECT %s FROM scorecard AS t WHERE t.evaluation = ?1 ORDER BY t.ordinal", columns);
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, evaluation);
  rows = query_rows(&q, SIZE_MAX, history.row_size, read_row);
  result = read_end(&q, store, e);
  *out = (struct store_scorecards){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_scorecards_fini(out);
  return result;
}
