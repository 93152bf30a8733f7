/* Series against a plain loop over the same scorecards: days from the sums, other buckets and other paths from the rows, and
   what was observed from measurements. */
#include "tests/storage/fixture.h"

#include <math.h>

#define ROWS 400
#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

static struct store_scorecard rows[ROWS];

static enum err insert_all(struct store_tx *tx, void *cls, struct error *e)
{
  enum err result = ERR_OK;
  (void)cls;
  for (unsigned i = 0; i < ROWS && result == ERR_OK; i++) {
    struct store_evaluation evaluation = make_evaluation(rows[i].created_at_ms, i, rows[i].workload);
    result = store_evaluation_insert(tx, &evaluation, e);
    if (result == ERR_OK)
      result = store_scorecard_insert(tx, &rows[i], e);
  }
  return result;
}

/* 400 cards over 33 days of two workloads × two profiles; every ninth has no monthly cost, margins fall below 0. */
static void setup_rows(void)
{
  setup();
  for (unsigned i = 0; i < ROWS; i++) {
    rows[i] = make_scorecard(T0_MS + i * 2 * HOUR_MS, i, i % 3 == 0 ? "chat" : "code", i % 2 == 0 ? "h100" : "l40s");
    rows[i].monthly_usd = i % 9 == 0 ? STORE_FIGURE_ABSENT : 1000.0 + i * 7 % 31;
    rows[i].margin_to_knee = 0.5 - i * 0.01;
    rows[i].label = text(i % 5 == 0 ? "nightly" : "");
    rows[i].document = scratch_printf("{\"cost\":{\"odd\":%u},\"name\":\"x\"}", i);
  }
  ck_assert_err(write_row(insert_all, NULL), ERR_OK);
}

static double monthly(const struct store_scorecard *row)
{
  return row->monthly_usd;
}

static double margin(const struct store_scorecard *row)
{
  return row->margin_to_knee;
}

static double odd(const struct store_scorecard *row)
{
  return (double)(row - rows);
}

static int64_t bucket_of(int64_t time_ms, const struct store_series_query *query)
{
  return (time_ms - query->offset_ms) / query->bucket_ms * query->bucket_ms + query->offset_ms;
}

static struct store_point expect(const struct store_series_query *query, const struct store_series *series,
                                 int64_t time_ms, double (*value_of)(const struct store_scorecard *row))
{
  struct store_point point = {.time_ms = time_ms, .least = INFINITY, .greatest = -INFINITY};
  for (size_t i = 0; i < ROWS; i++) {
    const double value = value_of(&rows[i]);
    if (strcmp(rows[i].workload, series->workload) != 0 || strcmp(rows[i].profile, series->profile) != 0 ||
        (query->by == STORE_BY_LABEL && strcmp(rows[i].label, series->by) != 0) || isnan(value) ||
        bucket_of(rows[i].created_at_ms, query) != time_ms || rows[i].created_at_ms < query->since_ms ||
        rows[i].created_at_ms >= query->until_ms)
      continue;
    point.count++;
    point.mean += value;
    point.least = fmin(point.least, value);
    point.greatest = fmax(point.greatest, value);
  }
  point.mean /= (double)point.count;
  return point;
}

static int64_t check(const struct store_series_query *query, size_t series_count,
                     double (*value_of)(const struct store_scorecard *row))
{
  struct store_series_list list;
  int64_t total = 0;
  ck_assert_err(store_series_list(store, &list, query, &error), ERR_OK);
  ck_assert_uint_eq(list.count, series_count);
  for (size_t s = 0; s < list.count; s++)
    for (size_t i = 0; i < list.rows[s].count; i++) {
      const struct store_point *seen = &list.rows[s].points[i];
      const struct store_point wanted = expect(query, &list.rows[s], seen->time_ms, value_of);
      ck_assert(i == 0 || seen->time_ms > list.rows[s].points[i - 1].time_ms);
      ck_assert_int_eq(seen->count, wanted.count);
      ck_assert_double_eq_tol(seen->mean, wanted.mean, 1e-9);
      ck_assert_double_eq_tol(seen->least, wanted.least, 1e-12);
      ck_assert_double_eq_tol(seen->greatest, wanted.greatest, 1e-12);
      total += seen->count;
    }
  store_series_list_fini(&list);
  return total;
}

static struct store_series_query over_all(const char *figure, int64_t bucket_ms)
{
  return (struct store_series_query){.path = figure,
                                     .bucket_ms = bucket_ms,
                                     .since_ms = T0_MS / (7 * DAY_MS) * 7 * DAY_MS,
                                     .until_ms = T0_MS + 100 * DAY_MS,
                                     .points_max = 10000};
}

START_TEST(test_days)
{
  struct store_series_query query = over_all("cost.monthly_usd", DAY_MS);
  ck_assert_int_eq(check(&query, 4, monthly), ROWS - (ROWS + 8) / 9);
  query.bucket_ms = 3 * DAY_MS;
  query.since_ms = 0;
  ck_assert_int_eq(check(&query, 4, monthly), ROWS - (ROWS + 8) / 9);
  query = over_all("limits.margin_to_knee", DAY_MS); /* below 0 too */
  ck_assert_int_eq(check(&query, 4, margin), ROWS);
  query.workload = "chat";
  query.profile = "h100";
  ck_assert_int_eq(check(&query, 1, margin), 67); /* multiples of 6 below 400 */
}
END_TEST

START_TEST(test_weeks_begin_on_mondays)
{
  struct store_series_query query = over_all("cost.monthly_usd", 7 * DAY_MS);
  query.offset_ms = 4 * DAY_MS; /* 1970-01-05 was a Monday */
  query.since_ms = 4 * DAY_MS;
  ck_assert_int_eq(check(&query, 4, monthly), ROWS - (ROWS + 8) / 9);
}
END_TEST

START_TEST(test_hours_and_groups)
{
  struct store_series_query query = over_all("cost.monthly_usd", 6 * HOUR_MS);
  ck_assert_int_eq(check(&query, 4, monthly), ROWS - (ROWS + 8) / 9);
  query.by = STORE_BY_LABEL;
  ck_assert_int_eq(check(&query, 8, monthly), ROWS - (ROWS + 8) / 9);
  query.since_ms = T0_MS + 30 * HOUR_MS;
  query.until_ms = T0_MS + 60 * HOUR_MS;
  query.bucket_ms = HOUR_MS;
  ck_assert_int_eq(check(&query, 7, monthly), 13); /* cards 15 to 29 but 18 and 27, in all but one of the groups */
}
END_TEST

START_TEST(test_a_path_without_a_column)
{
  struct store_series_query query = over_all("cost.odd", DAY_MS);
  ck_assert_int_eq(check(&query, 4, odd), ROWS);
  query.path = "name"; /* no number */
  (void)check(&query, 0, odd);
  query.path = "cost.even";
  (void)check(&query, 0, odd);
}
END_TEST

START_TEST(test_too_many_points)
{
  struct store_series_query query = over_all("cost.monthly_usd", HOUR_MS);
  struct store_series_list list;
  query.points_max = 100;
  ck_assert_err(store_series_list(store, &list, &query, &error), ERR_LIMIT);
  ck_assert_uint_eq(list.count, 0);
}
END_TEST

/* The sums of each day are what the rows say, whatever wrote them. */
START_TEST(test_days_agree_with_rows)
{
  ck_assert_int_eq(raw_number("SELECT count(*) FROM (SELECT workload, profile, created_at_ms / 86400000, "
                              "count(monthly_usd), sum(monthly_usd), min(monthly_usd), max(monthly_usd) FROM scorecard "
                              "GROUP BY 1, 2, 3 EXCEPT SELECT workload, profile, day, monthly_usd_count, "
                              "monthly_usd_sum, monthly_usd_min, monthly_usd_max FROM scorecard_day)"),
                   0);
}
END_TEST

START_TEST(test_year_by_day_is_read_from_the_sums)
{
  sqlite3 *db = open_raw();
  sqlite3_stmt *statement = NULL;
  ck_assert_int_eq(sqlite3_prepare_v2(db,
                                      "EXPLAIN QUERY PLAN SELECT sum(t.gpus_sum) FROM scorecard_day AS t WHERE "
                                      "t.day >= 1 AND t.day < 400 AND t.workload = 'a' AND t.profile = 'b'",
                                      -1, &statement, NULL),
                   SQLITE_OK);
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  ck_assert_ptr_nonnull(strstr((const char *)sqlite3_column_text(statement, 3),
                               "PRIMARY KEY (workload=? AND profile=? AND day>? AND day<?)"));
  sqlite3_finalize(statement);
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/series");
  TCase *tcase = suite_case(suite, "series", setup_rows, teardown);
  tcase_add_test(tcase, test_days);
  tcase_add_test(tcase, test_weeks_begin_on_mondays);
  tcase_add_test(tcase, test_hours_and_groups);
  tcase_add_test(tcase, test_a_path_without_a_column);
  tcase_add_test(tcase, test_too_many_points);
  tcase_add_test(tcase, test_days_agree_with_rows);
  tcase_add_test(tcase, test_year_by_day_is_read_from_the_sums);
  return suite_run(suite);
}
