/* Cumulative histograms, with counts small enough to count by hand. */
#include "core/buckets.h"
#include "tests/lib/suite.h"

#include <math.h>

static struct buckets made(size_t count, const double (*rows)[2], double sum)
{
  struct buckets buckets;
  buckets_init(&buckets);
  for (size_t i = 0; i < count; i++)
    ck_assert(buckets_add(&buckets, rows[i][0], rows[i][1]));
  buckets.sum = sum;
  return buckets;
}
#define MADE(sum, ...)                                                                                                 \
  made(sizeof((const double[][2]){__VA_ARGS__}) / sizeof(double[2]), (const double[][2]){__VA_ARGS__}, sum)
#define INF ((double)INFINITY)

static void expect(struct bucket_bounds seen, double lower, double upper)
{
  ck_assert_double_eq(seen.lower, lower);
  ck_assert_double_eq(seen.upper, upper);
}

START_TEST(quantiles_are_buckets)
{
  /* 10 observations: 5 up to 1, 4 more up to 2, the last beyond 4. */
  const struct buckets b = MADE(20, {1, 5}, {2, 9}, {4, 9}, {INF, 10});
  expect(buckets_quantile(&b, 0.5), 0, 1);
  expect(buckets_quantile(&b, 0.51), 1, 2);
  expect(buckets_quantile(&b, 0.9), 1, 2);
  expect(buckets_quantile(&b, 0.99), 4, INF);
  ck_assert_double_eq(buckets_mean(&b), 2);
}
END_TEST

START_TEST(series_in_any_order_add_up)
{
  const struct buckets b = MADE((double)NAN, {INF, 4}, {1, 1}, {2, 3}, {1, 10}, {INF, 20}, {2, 20});
  ck_assert_uint_eq(b.count, 3);
  ck_assert_double_eq(b.cumulative[0], 11);
  ck_assert_double_eq(b.cumulative[1], 23);
  ck_assert_double_eq(buckets_total(&b), 24);
}
END_TEST

START_TEST(nothing_observed_is_unknown)
{
  const struct buckets none = MADE(0, {1, 0}, {INF, 0});
  ck_assert_double_nan(buckets_quantile(&none, 0.5).upper);
  ck_assert_double_nan(buckets_mean(&none));
  ck_assert_double_nan(buckets_share(&none, 1).lower);
}
END_TEST

START_TEST(increases_and_resets)
{
  const struct buckets before = MADE(10, {1, 5}, {INF, 10}), now = MADE(16, {1, 6}, {INF, 14}),
                       anew = MADE(2, {1, 2}, {INF, 3}), others = MADE(90, {5, 20}, {INF, 30});
  struct buckets out;
  bool has_reset;
  buckets_increase(&out, &before, &now, &has_reset);
  ck_assert(!has_reset);
  ck_assert_double_eq(out.cumulative[0], 1);
  ck_assert_double_eq(out.cumulative[1], 4);
  ck_assert_double_eq(out.sum, 6);
  buckets_increase(&out, &before, &anew, &has_reset);
  ck_assert(has_reset);
  ck_assert_double_eq(buckets_total(&out), 3);
  buckets_increase(&out, &before, &others, &has_reset);
  ck_assert(has_reset);
  ck_assert_double_eq(buckets_total(&out), 30);
}
END_TEST

START_TEST(merging_keeps_common_bounds)
{
  struct buckets into = MADE(1, {1, 1}, {2, 2}, {INF, 3});
  const struct buckets more = MADE(2, {2, 10}, {3, 20}, {INF, 30}), none = MADE(0, {7, 1});
  ck_assert(buckets_merge(&into, &more));
  ck_assert_uint_eq(into.count, 2);
  ck_assert_double_eq(into.upper[0], 2);
  ck_assert_double_eq(into.cumulative[0], 12);
  ck_assert_double_eq(into.cumulative[1], 33);
  ck_assert_double_eq(into.sum, 3);
  ck_assert(!buckets_merge(&into, &none));
  ck_assert_uint_eq(into.count, 2);
}
END_TEST

START_TEST(shares_below_a_value)
{
  const struct buckets b = MADE(0, {1, 5}, {2, 9}, {INF, 10});
  expect(buckets_share(&b, 2), 0.9, 0.9);
  expect(buckets_share(&b, 1.5), 0.5, 0.9);
  expect(buckets_share(&b, 3), 0.9, 1);
  expect(buckets_share(&b, 0.5), 0, 0.5);
}
END_TEST

START_TEST(refuses_what_is_no_count)
{
  struct buckets b;
  buckets_init(&b);
  ck_assert(!buckets_add(&b, (double)NAN, 1));
  ck_assert(!buckets_add(&b, 1, -1));
  ck_assert(!buckets_add(&b, 1, INF));
  for (size_t i = 0; i < BUCKETS_MAX; i++)
    ck_assert(buckets_add(&b, (double)i, 1));
  ck_assert(!buckets_add(&b, 0.5, 1));
  ck_assert(buckets_add(&b, 3, 1));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("buckets");
  TCase *tcase = suite_case(suite, "buckets", NULL, NULL);
  tcase_add_test(tcase, quantiles_are_buckets);
  tcase_add_test(tcase, series_in_any_order_add_up);
  tcase_add_test(tcase, nothing_observed_is_unknown);
  tcase_add_test(tcase, increases_and_resets);
  tcase_add_test(tcase, merging_keeps_common_bounds);
  tcase_add_test(tcase, shares_below_a_value);
  tcase_add_test(tcase, refuses_what_is_no_count);
  return suite_run(suite);
}
