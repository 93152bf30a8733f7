/* ISO 8601 weeks: the borders of years, as in the standard's own examples and calendars. */
#include "api/week.h"
#include "api/write.h"
#include "tests/lib/suite.h"

#include <string.h>

static void assert_week(const char *date, const char *week)
{
  char seen[WEEK_SIZE];
  int64_t ms;
  ck_assert(write_time_parse(&ms, date));
  week_of(seen, ms);
  ck_assert_msg(strcmp(seen, week) == 0, "%s: %s instead of %s", date, seen, week);
}

START_TEST(borders_of_years)
{
  assert_week("1970-01-01", "1970-W01");
  assert_week("2005-01-01", "2004-W53");
  assert_week("2005-01-02", "2004-W53");
  assert_week("2005-12-31", "2005-W52");
  assert_week("2007-01-01", "2007-W01");
  assert_week("2008-12-29", "2009-W01");
  assert_week("2008-12-31", "2009-W01");
  assert_week("2010-01-03", "2009-W53");
  assert_week("2026-11-30T23:59:59Z", "2026-W49");
  assert_week("2026-11-29T23:59:59Z", "2026-W48");
  assert_week("1969-12-28T23:00:00Z", "1969-W52");
}
END_TEST

START_TEST(days_and_hours)
{
  int64_t ms;
  ck_assert(write_time_parse(&ms, "2026-11-30T09:30:00Z")); /* a Monday */
  ck_assert_int_eq(week_day(ms), 0);
  ck_assert_int_eq(week_hour(ms), 9);
  ck_assert(write_time_parse(&ms, "2026-12-06T23:59:59Z"));
  ck_assert_int_eq(week_day(ms), 6);
  ck_assert_int_eq(week_hour(ms), 23);
}
END_TEST

START_TEST(weeks_that_exist)
{
  ck_assert(week_is_valid("2026-W01"));
  ck_assert(week_is_valid("2026-W53")); /* 2026 begins on a Thursday */
  ck_assert(!week_is_valid("2025-W53"));
  ck_assert(!week_is_valid("2026-W00"));
  ck_assert(!week_is_valid("2026-W54"));
  ck_assert(!week_is_valid("2026-48"));
  ck_assert(!week_is_valid("2026-w48"));
  ck_assert(!week_is_valid("2026-W4x"));
  ck_assert(!week_is_valid(""));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("week");
  TCase *tcase = suite_case(suite, "week", NULL, NULL);
  tcase_add_test(tcase, borders_of_years);
  tcase_add_test(tcase, days_and_hours);
  tcase_add_test(tcase, weeks_that_exist);
  return suite_run(suite);
}
