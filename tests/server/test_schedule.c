/* The schedule: every job gets its turns, `again` is honoured at once, a failing job neither stops the others nor floods the
   log, and stopping waits for nothing but the running piece. */
#include "server/schedule.h"

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <stdatomic.h>
#include <string.h>

static struct log *log_file;
static const char *path;
static struct schedule *schedule;
static struct error error;
static atomic_int runs, failures;

static void setup(void)
{
  path = scratch_printf("%s/log", suite_dir());
  ck_assert_int_eq((int)log_open(&log_file, path, LOG_INFO, &error), ERR_OK);
  atomic_store(&runs, 0);
  atomic_store(&failures, 0);
}

static void teardown(void)
{
  log_close(log_file);
  scratch_release();
}

static enum err count_to(void *cls, bool *again, struct error *e)
{
  const int goal = *(const int *)cls;
  (void)e;
  *again = atomic_fetch_add(&runs, 1) + 1 < goal;
  return ERR_OK;
}

static enum err break_down(void *cls, bool *again, struct error *e)
{
  (void)cls;
  *again = true; /* a failure waits for its next turn whatever it says */
  (void)atomic_fetch_add(&failures, 1);
  return error_set(e, ERR_UNAVAILABLE, "", "the moon is full");
}

static void wait_for(atomic_int *number, int at_least)
{
  while (atomic_load(number) < at_least)
    suite_sleep_s(0.001);
}

START_TEST(pieces_follow_one_another)
{
  int goal = 500;
  const struct schedule_job job = {"count", 3600, count_to, &goal};
  ck_assert_int_eq((int)schedule_start(&schedule, &job, 1, log_file, &error), ERR_OK);
  wait_for(&runs, goal);
  suite_sleep_s(0.05);
  schedule_stop(schedule);
  ck_assert_int_eq(atomic_load(&runs), goal); /* and then it waited for its hour */
}
END_TEST

START_TEST(period_brings_it_back)
{
  int goal = 0;
  const struct schedule_job job = {"count", 0, count_to, &goal};
  ck_assert_int_eq((int)schedule_start(&schedule, &job, 1, log_file, &error), ERR_OK);
  wait_for(&runs, 3);
  schedule_stop(schedule);
}
END_TEST

START_TEST(failure_is_logged_once_and_others_go_on)
{
  int goal = 0;
  const struct schedule_job jobs[] = {{"broken", 0, break_down, NULL}, {"count", 0, count_to, &goal}};
  const char *text, *first;
  ck_assert_int_eq((int)schedule_start(&schedule, jobs, 2, log_file, &error), ERR_OK);
  wait_for(&failures, 5);
  wait_for(&runs, 5);
  schedule_stop(schedule);
  log_flush(log_file);
  text = scratch_read_file(path);
  first = strstr(text, "schedule: broken: the moon is full");
  ck_assert_ptr_nonnull(first);
  ck_assert_ptr_null(strstr(strstr(first, "full"), "the moon is full"));
}
END_TEST

START_TEST(stop_of_nothing_is_fine)
{
  schedule_stop(NULL);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("server/schedule");
  TCase *tcase = suite_case(suite, "schedule", setup, teardown);
  tcase_add_test(tcase, pieces_follow_one_another);
  tcase_add_test(tcase, period_brings_it_back);
  tcase_add_test(tcase, failure_is_logged_once_and_others_go_on);
  tcase_add_test(tcase, stop_of_nothing_is_fine);
  return suite_run(suite);
}
