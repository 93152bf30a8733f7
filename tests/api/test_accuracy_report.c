/* The arithmetic of the report on tables small enough to do by hand. */
#include "api/accuracy.h"
#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct accuracy_row rows[16];
static struct accuracy accuracy;

static void setup(void)
{
  memset(rows, 0, sizeof rows);
  accuracy = (struct accuracy){.rows = rows};
}

static void teardown(void)
{
  scratch_release();
}

static struct accuracy_row *add(const char *hardware, enum accuracy_metric metric, double measured, double predicted)
{
  struct accuracy_row *row = &rows[accuracy.row_count++];
  (void)snprintf(row->id, sizeof row->id, "r%zu", accuracy.row_count);
  (void)snprintf(row->hardware, sizeof row->hardware, "%s", hardware);
  (void)snprintf(row->model, sizeof row->model, "org/model");
  row->metric = metric;
  row->load = BENCHMARK_CLOSED;
  row->measured = measured;
  row->predicted = predicted;
  row->has_band = true;
  row->band = (struct band){0.8, 1.25};
  row->band_class = BAND_DENSE_CLOSED_LOOP;
  accuracy.total = accuracy.row_count;
  return row;
}

static json_t *report(void)
{
  return scratch_json_steal(accuracy_write_json(&accuracy));
}

static void expect(const json_t *doc, const char *path, double value)
{
  ck_assert_double_eq_tol(doc_number(doc, path), value, 1e-12);
}

/* Five rows of one group measured at 100: predicted 90, 100, 120, 130, 200, so errors of .10, 0, .20, .30, 1.00.
   Sorted 0 .1 .2 .3 1: median .2; p90 lies at place .9·4 = 3.6, so .3 + .6·.7 = .72; three of five within .25.
   Predicted / measured sorted .9 1 1.2 1.3 2: its median's logarithm is ln 1.2.
   Measured / predicted: 1.111, 1, .833, .769, .5; the band .8 … 1.25 holds three of five. */
START_TEST(five_rows_of_one_group)
{
  const double predicted[] = {90, 100, 120, 130, 200};
  const json_t *doc;
  for (size_t i = 0; i < 5; i++)
    (void)add("a", ACCURACY_TPOT, 100, predicted[i]);
  doc = report();
  ck_assert_int_eq(doc_integer(doc, "rows"), 5);
  ck_assert_int_eq(doc_integer(doc, "answered"), 5);
  ck_assert_int_eq(doc_integer(doc, "metrics.tpot.n"), 5);
  expect(doc, "metrics.tpot.median_ape", 0.2);
  expect(doc, "metrics.tpot.p90_ape", 0.72);
  expect(doc, "metrics.tpot.within_25", 0.6);
  expect(doc, "metrics.tpot.bias", log(1.2));
  expect(doc, "metrics.tpot.band_coverage", 0.6);
  expect(doc, "metrics.tpot.band_coverage_of_groups", 0.6);
  expect(doc, "groups.0.median_ape", 0.2);
  ck_assert_ptr_null(doc_at(doc, "metrics.ttft"));
}
END_TEST

/* Group a: three of three inside; group b: one row, outside. Rows 3/4, groups (1 + 0)/2. */
START_TEST(coverage_of_rows_and_of_groups_differ)
{
  const json_t *doc;
  for (int i = 0; i < 3; i++)
    (void)add("a", ACCURACY_TTFT, 10, 10);
  (void)add("b", ACCURACY_TTFT, 10, 30);
  doc = report();
  expect(doc, "metrics.ttft.band_coverage", 0.75);
  expect(doc, "metrics.ttft.band_coverage_of_groups", 0.5);
  ck_assert_str_eq(doc_text(doc, "groups.1.hw"), "b");
}
END_TEST

/* Closed loop 10 % off, open loop 50 %: together the median of .1 and .5 is .3. */
START_TEST(loads_are_told_apart)
{
  const json_t *doc;
  (void)add("a", ACCURACY_TPOT, 100, 110);
  add("a", ACCURACY_TPOT, 100, 50)->load = BENCHMARK_POISSON;
  doc = report();
  expect(doc, "metrics.tpot.median_ape", 0.3);
  expect(doc, "metrics.tpot_closed.median_ape", 0.1);
  expect(doc, "metrics.tpot_open.median_ape", 0.5);
}
END_TEST

START_TEST(offered_rates_are_no_achievement)
{
  struct accuracy_row *row = add("a", ACCURACY_THROUGHPUT, 100, 100);
  const json_t *doc;
  row->load = BENCHMARK_POISSON;
  row->is_offered_rate = true;
  (void)add("a", ACCURACY_THROUGHPUT, 100, 150);
  doc = report();
  ck_assert_int_eq(doc_integer(doc, "metrics.throughput.n"), 1);
  expect(doc, "metrics.throughput.median_ape", 0.5);
}
END_TEST

START_TEST(no_rows_at_all)
{
  const json_t *doc = report();
  ck_assert_int_eq(doc_integer(doc, "answered"), 0);
  ck_assert_uint_eq(json_object_size(doc_at(doc, "metrics")), 0);
  ck_assert_uint_eq(json_array_size(doc_at(doc, "groups")), 0);
}
END_TEST

START_TEST(refusals_are_listed)
{
  struct accuracy_refusal refusal = {"r9", "unknown hardware \"abacus\""};
  char *text;
  const json_t *doc;
  accuracy.refusals = &refusal;
  accuracy.refusal_count = 1;
  accuracy.total = 1;
  doc = report();
  ck_assert_str_eq(doc_text(doc, "refused.0.id"), "r9");
  ck_assert_str_eq(doc_text(doc, "refused.0.reason"), "unknown hardware \"abacus\"");
  text = accuracy_write_text(&accuracy);
  ck_assert_ptr_nonnull(strstr(text, "1 rows, 0 answered (0.0 %), 1 refused"));
  ck_assert_ptr_nonnull(strstr(text, "refused r9: unknown hardware \"abacus\""));
  free(text);
}
END_TEST

START_TEST(rows_as_csv)
{
  char *text;
  (void)add("a", ACCURACY_TPOT, 100, 90);
  add("b, \"c\"", ACCURACY_E2E, 2, 3)->has_band = false;
  text = accuracy_write_rows(&accuracy);
  ck_assert_str_eq(text, "id,metric,load,hw,model,measured,predicted,low,high,class\n"
                         "r1,tpot,closed,a,org/model,100,90,72,112.5,dense_closed_loop\n"
                         "r2,e2e,closed,\"b, \"\"c\"\"\",org/model,2,3,,,dense_closed_loop\n");
  free(text);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/accuracy_report");
  TCase *tcase = suite_case(suite, "report", setup, teardown);
  tcase_add_test(tcase, five_rows_of_one_group);
  tcase_add_test(tcase, coverage_of_rows_and_of_groups_differ);
  tcase_add_test(tcase, loads_are_told_apart);
  tcase_add_test(tcase, offered_rates_are_no_achievement);
  tcase_add_test(tcase, no_rows_at_all);
  tcase_add_test(tcase, refusals_are_listed);
  tcase_add_test(tcase, rows_as_csv);
  return suite_run(suite);
}
