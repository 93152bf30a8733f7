/* Offsets of time zones across their changes. The expected ones are those of the laws: Europe changes at 01:00 UTC on the last
   Sundays of March and October, New York at 02:00 local time on the second Sunday of March and the first of November, Lord
   Howe by half an hour, Kolkata never. `date -u -d @N` tells the moments. */
#include "tests/lib/suite.h"

#include "api/week.h"
#include "server/zone.h"

#include <string.h>

static struct zone *zone;
static struct error error;

static void open_zone(const char *name)
{
  ck_assert_msg(zone_open(&zone, name, &error) == ERR_OK, "%s", error.message);
}

static void teardown(void)
{
  zone_close(zone);
  zone = NULL;
}

START_TEST(offsets_change_when_the_law_says)
{
  static const struct {
    const char *name;
    int64_t at; /* the first second of the new time */
    int before_s, after_s;
  } changes[] = {
      {"Europe/Berlin", 1774746000, 3600, 7200},         /* 2026-03-29T01:00Z */
      {"Europe/Berlin", 1792890000, 7200, 3600},         /* 2026-10-25T01:00Z */
      {"Europe/Berlin", 2531955600, 3600, 7200},         /* 2050-03-27T01:00Z: by the rule behind the list */
      {"Europe/Berlin", 2550704400, 7200, 3600},         /* 2050-10-30T01:00Z */
      {"America/New_York", 1772953200, -18000, -14400},  /* 2026-03-08T07:00Z */
      {"America/New_York", 1793512800, -14400, -18000},  /* 2026-11-01T06:00Z */
      {"Australia/Lord_Howe", 1775314800, 39600, 37800}, /* 2026-04-04T15:00Z: 02:00 of the 5th at +11 */
      {"Australia/Lord_Howe", 1791041400, 37800, 39600}, /* 2026-10-03T15:30Z: 02:00 of the 4th at +10:30 */
  };
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    open_zone(changes[i].name);
    ck_assert_int_eq(zone_offset_s(zone, changes[i].at - 1), changes[i].before_s);
    ck_assert_int_eq(zone_offset_s(zone, changes[i].at), changes[i].after_s);
    teardown();
  }
}
END_TEST

START_TEST(zones_without_changes)
{
  open_zone("Asia/Kolkata");
  ck_assert_int_eq(zone_offset_s(zone, 1774746000), 19800);
  ck_assert_int_eq(zone_offset_s(zone, 4102444800), 19800); /* 2100 */
  teardown();
  open_zone("UTC");
  ck_assert_int_eq(zone_offset_s(zone, 1774746000), 0);
}
END_TEST

static void assert_week(int64_t unix_s, const char *wanted)
{
  char week[WEEK_SIZE];
  week_of(week, (unix_s + zone_offset_s(zone, unix_s)) * 1000);
  ck_assert_str_eq(week, wanted);
}

/* A week begins at Monday 00:00 local time: on the day after a change that is an hour of UTC earlier or later than the week
   before. 2026-03-29 and 2026-10-25 are Sundays, ends of W13 and W43. */
START_TEST(weeks_begin_at_local_midnight)
{
  open_zone("Europe/Berlin");
  assert_week(1774220399, "2026-W12"); /* 2026-03-22T22:59:59Z, 23:59:59 at +1 */
  assert_week(1774220400, "2026-W13");
  assert_week(1774821599, "2026-W13"); /* 2026-03-29T21:59:59Z, 23:59:59 at +2 */
  assert_week(1774821600, "2026-W14");
  assert_week(1792969199, "2026-W43"); /* 2026-10-25T22:59:59Z, 23:59:59 at +1 */
  assert_week(1792969200, "2026-W44");
  teardown();
  open_zone("UTC");
  assert_week(1774828799, "2026-W13"); /* 2026-03-29T23:59:59Z */
  assert_week(1774828800, "2026-W14");
}
END_TEST

START_TEST(what_is_no_zone)
{
  static const char *const names[] = {"Europe/Berlni", "../../etc/passwd", "/etc/localtime", "",
                                      "Europe",        "zone.tab",         "Europe/../UTC"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    ck_assert_msg(zone_open(&zone, names[i], &error) == ERR_INVALID, "%s", names[i]);
    ck_assert(zone == NULL && error.message[0] != '\0');
  }
}
END_TEST

/* A zone file of one transition, cut at every length and with every byte turned: refused or read, never more. */
START_TEST(damaged_files_are_refused)
{
  static const unsigned char file[] = {'T',  'Z', 'i', 'f', '2', 0,   0,   0,  0,  0,  0, 0, 0,   0,   0,   0, 0,
                                       0,    0,   0, /* version 1: nothing but a type */
                                       0,    0,   0,   0,   0,   0,   0,   0,  0,  0,  0, 0, 0,   0,   0,   0, 0,
                                       0,    0,   1,   0,   0,   0,   0, /* counts */
                                       0,    0,   0,   0,   0,   0,      /* its type */
                                       'T',  'Z', 'i', 'f', '2', 0,   0,   0,  0,  0,  0, 0, 0,   0,   0,   0, 0,
                                       0,    0,   0,   0,   0,   0,   0,   0,  0,  0,  0, 0, 0,   0,   0,   0, 0,
                                       0,    1,   0,   0,   0,   2,   0,   0,  0,  4, /* one time, two types, four characters */
                                       0,    0,   0,   0,   0,   0,   0,   10, /* at 10 s */
                                       1,                                      /* the second type begins */
                                       0,    0,   0,   0,   0,   0,   0,   0,  14, 16, 0, 0, 'A', 'B', 'C', 0, /* +0, +3600 */
                                       '\n', 'A', 'B', 'C', '-', '1', '\n'};
  unsigned char copy[sizeof file];
  ck_assert_msg(zone_parse(&zone, file, sizeof file, &error) == ERR_OK, "%s", error.message);
  ck_assert_int_eq(zone_offset_s(zone, 9), 0);
  ck_assert_int_eq(zone_offset_s(zone, 10), 3600);
  teardown();
  for (size_t count = 0; count < sizeof file; count++)
    ck_assert(zone_parse(&zone, file, count, &error) == ERR_INVALID && zone == NULL);
  for (size_t i = 0; i < sizeof file; i++) {
    memcpy(copy, file, sizeof file);
    copy[i] ^= 0xff;
    if (zone_parse(&zone, copy, sizeof copy, &error) == ERR_OK)
      (void)zone_offset_s(zone, 1774746000);
    teardown();
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("zone");
  TCase *tcase = tcase_create("zone");
  tcase_add_checked_fixture(tcase, NULL, teardown);
  tcase_add_test(tcase, offsets_change_when_the_law_says);
  tcase_add_test(tcase, zones_without_changes);
  tcase_add_test(tcase, weeks_begin_at_local_midnight);
  tcase_add_test(tcase, what_is_no_zone);
  tcase_add_test(tcase, damaged_files_are_refused);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
