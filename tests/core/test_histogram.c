/* Percentiles against sorted values, over sizes from nanoseconds to months. */
#include "core/histogram.h"

#include "tests/core/fixtures.h"

static int by_size(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { VALUES = 5000 };

static struct histogram histogram;

/* A value with rank ceil(p · n) among the sorted ones is the definition. */
static void assert_percentiles(double *values, size_t n, double relative)
{
  static const double ps[] = {0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1};
  qsort(values, n, sizeof *values, by_size);
  for (size_t i = 0; i < FIXTURE_COUNT(ps); i++) {
    const double rank = ceil(ps[i] * (double)n);
    assert_close(histogram_percentile(&histogram, ps[i]), values[rank < 1 ? 0 : (size_t)rank - 1], relative);
  }
}

START_TEST(test_percentiles_of_many_sizes)
{
  static double values[VALUES];
  uint64_t state = 1;
  for (int spread = 1; spread < 23; spread++) {
    double sum = 0;
    histogram_init(&histogram);
    for (int i = 0; i < VALUES; i++) {
      values[i] = exp2(fixture_random(&state, -spread, spread));
      sum += values[i];
      histogram_add(&histogram, values[i], 1);
    }
    assert_percentiles(values, VALUES, 0.004);
    assert_close(histogram_mean(&histogram), sum / VALUES, 1e-12);
  }
}
END_TEST

START_TEST(test_one_value_is_exact)
{
  histogram_init(&histogram);
  histogram_add(&histogram, 0.1234567, 17);
  for (double p = 0; p <= 1; p += 0.25)
    ck_assert_double_eq_tol(histogram_percentile(&histogram, p), 0.1234567, 1e-15);
  ck_assert_uint_eq(histogram.count, 17);
}
END_TEST

START_TEST(test_empty_is_nan)
{
  histogram_init(&histogram);
  histogram_add(&histogram, 1, 0);
  ck_assert(isnan(histogram_percentile(&histogram, 0.5)));
  ck_assert(isnan(histogram_mean(&histogram)));
}
END_TEST

START_TEST(test_edges_are_kept)
{
  histogram_init(&histogram);
  histogram_add(&histogram, 0, 1);
  histogram_add(&histogram, 1e-9, 1);
  histogram_add(&histogram, 1e12, 1);
  ck_assert_uint_eq(histogram.count, 3);
  ck_assert_uint_eq(histogram.zeros, 2);
  ck_assert_double_eq_tol(histogram_percentile(&histogram, 0.5), 0, 1e-15);
  ck_assert_double_gt(histogram_percentile(&histogram, 1), 1e7);
  ck_assert_double_eq_tol(histogram.most, 1e12, 1e-15);
}
END_TEST

START_TEST(test_merge_is_the_same_as_adding)
{
  static struct histogram parts[2];
  uint64_t state = 5;
  histogram_init(&histogram);
  histogram_init(&parts[0]);
  histogram_init(&parts[1]);
  for (int i = 0; i < VALUES; i++) {
    const double value = fixture_random(&state, 0, 2);
    histogram_add(&histogram, value, 1);
    histogram_add(&parts[i % 3 == 0], value, 1);
  }
  histogram_merge(&parts[0], &parts[1]);
  ck_assert_uint_eq(parts[0].count, histogram.count);
  ck_assert_mem_eq(parts[0].bins, histogram.bins, sizeof histogram.bins);
  ck_assert_double_eq_tol(parts[0].least, histogram.least, 1e-15);
  ck_assert_double_eq_tol(parts[0].most, histogram.most, 1e-15);
  assert_close(parts[0].sum, histogram.sum, 1e-12);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("histogram");
  tcase_add_test(tcase, test_percentiles_of_many_sizes);
  tcase_add_test(tcase, test_one_value_is_exact);
  tcase_add_test(tcase, test_empty_is_nan);
  tcase_add_test(tcase, test_edges_are_kept);
  tcase_add_test(tcase, test_merge_is_the_same_as_adding);
  return fixture_run("histogram", tcase);
}
