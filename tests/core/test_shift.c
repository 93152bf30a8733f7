/* Lasting shifts, spikes and noise. The noise is a fixed pattern, so that every expectation can be followed by hand. */
#include "core/shift.h"
#include "tests/lib/suite.h"

#include <math.h>

static double values[2000];

/* A level with a scatter of ± 2 % in a pattern that does not repeat soon. */
static void fill(size_t from, size_t to, double level)
{
  for (size_t i = from; i < to; i++)
    values[i] = level * (1 + 0.02 * sin(12.9898 * (double)i));
}

START_TEST(a_step_is_found_where_it_is)
{
  struct shift shift;
  fill(0, 60, 20);
  fill(60, 100, 26);
  shift = shift_find(values, 100);
  ck_assert(shift.is_found);
  ck_assert_uint_eq(shift.onset, 60);
  ck_assert_double_eq_tol(shift.before, 20, 0.4);
  ck_assert_double_eq_tol(shift.after, 26, 0.52);
}
END_TEST

START_TEST(down_counts_too)
{
  struct shift shift;
  fill(0, 10, 20);
  fill(10, 14, 15);
  shift = shift_find(values, 14);
  ck_assert(shift.is_found);
  ck_assert_uint_eq(shift.onset, 10);
}
END_TEST

START_TEST(a_spike_is_no_shift)
{
  fill(0, 100, 20);
  values[50] = values[51] = 200;
  ck_assert(!shift_find(values, 100).is_found);
  values[98] = values[99] = 200; /* two points at the end are not three */
  ck_assert(!shift_find(values, 100).is_found);
}
END_TEST

START_TEST(what_went_back_is_over)
{
  fill(0, 50, 20);
  fill(50, 70, 30);
  fill(70, 100, 20);
  ck_assert(!shift_find(values, 100).is_found);
}
END_TEST

START_TEST(noise_and_small_steps_are_none)
{
  fill(0, 100, 20);
  ck_assert(!shift_find(values, 100).is_found);
  fill(50, 100, 20.6); /* 3 % */
  ck_assert(!shift_find(values, 100).is_found);
}
END_TEST

START_TEST(few_points_tell_nothing)
{
  fill(0, 2, 20);
  fill(2, 5, 40);
  ck_assert(!shift_find(values, 5).is_found);
  ck_assert(!shift_find(values, 0).is_found);
}
END_TEST

START_TEST(long_series_are_looked_at_from_their_end)
{
  struct shift shift;
  fill(0, 1800, 20);
  fill(1800, 2000, 30);
  shift = shift_find(values, 2000);
  ck_assert(shift.is_found);
  ck_assert_uint_eq(shift.onset, 1800);
}
END_TEST

START_TEST(equal_values_end)
{
  for (size_t i = 0; i < 100; i++)
    values[i] = 5;
  ck_assert(!shift_find(values, 100).is_found);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("shift");
  TCase *tcase = suite_case(suite, "shift", NULL, NULL);
  tcase_add_test(tcase, a_step_is_found_where_it_is);
  tcase_add_test(tcase, down_counts_too);
  tcase_add_test(tcase, a_spike_is_no_shift);
  tcase_add_test(tcase, what_went_back_is_over);
  tcase_add_test(tcase, noise_and_small_steps_are_none);
  tcase_add_test(tcase, few_points_tell_nothing);
  tcase_add_test(tcase, long_series_are_looked_at_from_their_end);
  tcase_add_test(tcase, equal_values_end);
  return suite_run(suite);
}
