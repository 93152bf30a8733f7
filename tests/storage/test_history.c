/* Lists of the history against a plain loop over the same rows: every filter, both directions, page by page, with rows
   arriving in between; and how SQLite means to run them. */
#include "tests/storage/fixture.h"

#define ROWS 240

static const char *const workloads[] = {"chat", "code", "rag"};
static const char *const profiles[] = {"a100", "h100", "l40s", "mi300x"};
static const char *const verdicts[] = {"fit", "no_fit", "fit_with_changes"};
static const char *const labels[] = {"", "", "nightly", "", "pr-12"};

static struct store_scorecard rows[ROWS];
static size_t row_count;

static enum err insert_row(struct store_tx *tx, const struct store_scorecard *row, struct error *e)
{
  struct store_evaluation evaluation = make_evaluation(row->created_at_ms, 0, row->workload);
  enum err result;
  evaluation.id = row->evaluation;
  evaluation.label = row->label;
  evaluation.model = row->model;
  result = store_evaluation_insert(tx, &evaluation, e);
  return result != ERR_OK ? result : store_scorecard_insert(tx, row, e);
}

/* Row i of a mix in which every combination comes up; two rows share a millisecond. */
static struct store_scorecard *make_row(void)
{
  const unsigned i = (unsigned)row_count;
  struct store_scorecard *row = &rows[row_count++];
  *row = make_scorecard(T0_MS + i / 2 * 1000, i, workloads[i * 7 % 3], profiles[i * 5 / 3 % 4]);
  row->verdict = text(verdicts[i * i % 3]);
  row->label = text(labels[i % 5]);
  row->stack = text(i % 7 == 0 ? "vllm-0.19" : "");
  row->context_ref = text(i % 11 == 0 ? "refs/heads/main" : "");
  row->model = text(i % 4 == 1 ? "qwen3-32b" : "llama-3.1-70b");
  return row;
}

static enum err insert_rows(struct store_tx *tx, void *cls, struct error *e)
{
  const size_t *until = cls;
  enum err result = ERR_OK;
  while (result == ERR_OK && row_count < *until)
    result = insert_row(tx, make_row(), e);
  return result;
}

static void add_row(void)
{
  size_t until = row_count + 1;
  ck_assert_err(write_row(insert_rows, &until), ERR_OK);
}

static void setup_rows(void)
{
  size_t until = ROWS - 20;
  setup();
  row_count = 0;
  ck_assert_err(write_row(insert_rows, &until), ERR_OK);
}

static bool is_same(const char *wanted, const char *value)
{
  return wanted == NULL || wanted[0] == '\0' || strcmp(wanted, value) == 0;
}

static bool is_match(const struct store_history_filter *f, const struct store_scorecard *row)
{
  return is_same(f->workload, row->workload) && is_same(f->model, row->model) && is_same(f->profile, row->profile) &&
         is_same(f->verdict, row->verdict) && is_same(f->label, row->label) && is_same(f->stack, row->stack) &&
         is_same(f->context_ref, row->context_ref) && is_same(f->evaluation, row->evaluation) &&
         (f->since_ms == 0 || row->created_at_ms >= f->since_ms) &&
         (f->until_ms == 0 || row->created_at_ms < f->until_ms);
}

/* Rows are in the order of their ids, so the newest of a series is its last match. */
static bool is_newest(const struct store_history_filter *f, size_t at, size_t count)
{
  for (size_t i = at + 1; i < count; i++)
    if (strcmp(rows[i].workload, rows[at].workload) == 0 && strcmp(rows[i].profile, rows[at].profile) == 0 &&
        is_match(f, &rows[i]))
      return false;
  return true;
}

static size_t expect(const char **ids, const struct store_history_filter *f, bool ascending, size_t count)
{
  size_t found = 0;
  for (size_t n = 0; n < count; n++) {
    const size_t i = ascending ? n : count - 1 - n;
    if (is_match(f, &rows[i]) && (!f->latest || is_newest(f, i, count)))
      ids[found++] = rows[i].id;
  }
  return found;
}

/* Walks all pages and compares them with the loop; `inserts` rows arrive after the first page. */
static size_t check_pages(const struct store_history_filter *filter, unsigned limit, bool ascending, unsigned inserts)
{
  const char *ids[ROWS];
  const size_t count = expect(ids, filter, ascending, row_count);
  struct store_page page = {.limit = limit, .ascending = ascending};
  size_t seen = 0;
  bool has_more = true;
  while (has_more) {
    struct store_scorecards list;
    ck_assert_err(store_scorecard_list(store, &list, filter, &page, &error), ERR_OK);
    ck_assert_uint_le(seen + list.count, count);
    for (size_t i = 0; i < list.count; i++)
      ck_assert_str_eq(list.rows[i].id, ids[seen++]);
    has_more = list.has_more;
    ck_assert(has_more == (seen < count));
    if (has_more) {
      ck_assert_uint_eq(list.count, limit);
      (void)snprintf(page.after, sizeof page.after, "%s", list.rows[list.count - 1].id);
    }
    store_scorecards_fini(&list);
    for (; inserts > 0; inserts--)
      add_row();
  }
  ck_assert_uint_eq(seen, count);
  return count;
}

static const struct store_history_filter filters[] = {
    {.workload = NULL},
    {.workload = "chat"},
    {.workload = "", .profile = "h100"},
    {.model = "qwen3-32b"},
    {.verdict = "fit"},
    {.label = "nightly"},
    {.stack = "vllm-0.19"},
    {.context_ref = "refs/heads/main"},
    {.workload = "code", .profile = "l40s", .verdict = "no_fit"},
    {.workload = "rag", .label = "pr-12", .model = "llama-3.1-70b"},
    {.since_ms = T0_MS + 20000},
    {.until_ms = T0_MS + 20000},
    {.since_ms = T0_MS + 10001, .until_ms = T0_MS + 60001, .workload = "chat"},
    {.workload = "chat", .profile = "h100", .model = "llama-3.1-70b", .until_ms = T0_MS + 90000},
};
#define FILTERS (sizeof filters / sizeof filters[0])

START_TEST(test_filter)
{
  struct store_history_filter filter = filters[_i / 2];
  size_t all, found;
  filter.latest = _i % 2 == 1;
  all = check_pages(&(struct store_history_filter){.latest = filter.latest}, ROWS, false, 0);
  found = check_pages(&filter, ROWS, false, 0);
  ck_assert_uint_gt(found, 0);                       /* the mix has rows for it … */
  ck_assert(filter.latest || _i < 2 || found < all); /* … and others */
  ck_assert_uint_eq(check_pages(&filter, 7, false, 0), found);
  ck_assert_uint_eq(check_pages(&filter, 7, true, 0), found);
  ck_assert_uint_eq(check_pages(&filter, 1, true, 0), found);
}
END_TEST

START_TEST(test_latest_of_all)
{
  ck_assert_uint_eq(check_pages(&(struct store_history_filter){.latest = true}, 5, false, 0), 12); /* 3 × 4 series */
  ck_assert_uint_eq(check_pages(&(struct store_history_filter){.latest = true, .workload = "chat"}, 5, false, 0), 4);
}
END_TEST

START_TEST(test_pages_are_stable_under_inserts)
{
  /* Newer rows come before the first page of a list that starts with the newest: nothing moves. */
  ck_assert_uint_eq(check_pages(&(struct store_history_filter){.workload = NULL}, 25, false, 20), ROWS - 20);
  ck_assert_uint_eq(row_count, ROWS);
}
END_TEST

START_TEST(test_one_evaluation)
{
  ck_assert_uint_eq(check_pages(&(struct store_history_filter){.evaluation = rows[17].evaluation}, 5, false, 0), 1);
}
END_TEST

START_TEST(test_times_at_the_ends_of_the_world)
{
  ck_assert_uint_eq(check_pages(&(struct store_history_filter){.until_ms = INT64_MAX}, ROWS, false, 0), row_count);
  ck_assert_uint_eq(check_pages(&(struct store_history_filter){.since_ms = INT64_MAX}, ROWS, false, 0), 0);
  ck_assert_uint_eq(check_pages(&(struct store_history_filter){.since_ms = 1}, ROWS, false, 0), row_count);
}
END_TEST

START_TEST(test_evaluations_agree)
{
  const struct store_page page = {.limit = ROWS};
  const struct store_history_filter filter = {.workload = "chat", .model = "qwen3-32b", .since_ms = T0_MS + 5000};
  const char *ids[ROWS];
  const size_t count = expect(ids, &filter, false, row_count);
  struct store_evaluations list;
  ck_assert_err(store_evaluation_list(store, &list, &filter, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, count);
  for (size_t i = 0; i < count; i++)
    ck_assert_str_eq(list.rows[i].id, ids[i]); /* each row has the id of its evaluation */
  store_evaluations_fini(&list);
}
END_TEST

/* The plan of a list as one text. */
static const char *plan_of(const struct store_history_filter *filter)
{
  const struct store_page page = {.limit = 20, .after = "x"};
  struct sql_text sql;
  sqlite3_stmt *statement = NULL;
  sqlite3 *db = open_raw();
  char *plan = text("");
  history_sql(&sql, HISTORY_SCORECARD, "t.id, t.document", filter, &page);
  ck_assert_int_eq(sqlite3_prepare_v2(db, scratch_printf("EXPLAIN QUERY PLAN %s", sql.text), -1, &statement, NULL),
                   SQLITE_OK);
  while (sqlite3_step(statement) == SQLITE_ROW)
    plan = scratch_printf("%s%s\n", plan, (const char *)sqlite3_column_text(statement, 3));
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return plan;
}

/* One indexed column is enough to never sort and never walk the whole table; with none, the ids themselves are walked
   from the newest. */
START_TEST(test_plan)
{
  static const struct {
    struct store_history_filter filter;
    const char *index;
  } cases[] = {{{.workload = "a"}, "scorecard_by_workload (workload=? AND id<?)"},
               {{.workload = "a", .profile = "b"}, "scorecard_by_series (workload=? AND profile=? AND id<?)"},
               {{.model = "a"}, "scorecard_by_model (model=? AND id<?)"},
               {{.profile = "a"}, "scorecard_by_profile (profile=? AND id<?)"},
               {{.label = "a"}, "scorecard_by_label (label=? AND id<?)"},
               {{.stack = "a"}, "scorecard_by_stack (stack=? AND id<?)"},
               {{.context_ref = "a"}, "scorecard_by_context (context_ref=? AND id<?)"},
               {{.verdict = "a"}, "sqlite_autoindex_scorecard_1 (id<?)"},
               {{.since_ms = 5, .until_ms = 9}, "sqlite_autoindex_scorecard_1 (id>? AND id<?)"}};
  const char *plan = plan_of(&cases[_i].filter);
  ck_assert_msg(strstr(plan, cases[_i].index) != NULL, "%s", plan);
  ck_assert_msg(strstr(plan, "B-TREE") == NULL && strstr(plan, "SCAN") == NULL, "%s", plan);
}
END_TEST

START_TEST(test_plan_of_latest)
{
  const char *plan = plan_of(&(struct store_history_filter){.latest = true, .workload = "a", .label = "b"});
  ck_assert_msg(strstr(plan, "SEARCH s USING PRIMARY KEY (workload=?)") != NULL, "%s", plan);
  ck_assert_msg(strstr(plan, "USING INDEX scorecard_by_series (workload=? AND profile=?)") != NULL, "%s", plan);
  ck_assert_msg(strstr(plan, "SCAN t") == NULL, "%s", plan);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/history");
  TCase *tcase = suite_case(suite, "lists", setup_rows, teardown);
  TCase *plans = suite_case(suite, "plans", setup, teardown);
  tcase_add_loop_test(tcase, test_filter, 0, (int)(2 * FILTERS));
  tcase_add_test(tcase, test_latest_of_all);
  tcase_add_test(tcase, test_pages_are_stable_under_inserts);
  tcase_add_test(tcase, test_one_evaluation);
  tcase_add_test(tcase, test_times_at_the_ends_of_the_world);
  tcase_add_test(tcase, test_evaluations_agree);
  tcase_add_loop_test(plans, test_plan, 0, 9);
  tcase_add_test(plans, test_plan_of_latest);
  return suite_run(suite);
}
