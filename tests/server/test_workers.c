/* The worker pool: everything pushed is run or refused exactly once; a full queue says so. */
#include "server/workers.h"

#include "tests/lib/suite.h"

#include <pthread.h>
#include <stdatomic.h>

struct counted {
  struct work work;
  atomic_int runs, refusals;
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held: running work waits */
static struct workers *workers;
static struct error error;

static void nothing(void)
{
}

static struct counted *counted_of(struct work *work)
{
  return (struct counted *)(void *)work; /* its first member */
}

static void run(struct work *work)
{
  (void)pthread_mutex_lock(&gate);
  (void)pthread_mutex_unlock(&gate);
  (void)atomic_fetch_add(&counted_of(work)->runs, 1);
}

static void refuse(struct work *work)
{
  (void)atomic_fetch_add(&counted_of(work)->refusals, 1);
}

static bool push(struct counted *item)
{
  item->work.run = run;
  item->work.refuse = refuse;
  return workers_push(workers, &item->work);
}

START_TEST(everything_is_run_once)
{
  static struct counted items[2000];
  size_t pushed = 0;
  ck_assert_int_eq((int)workers_open(&workers, 4, 10, &error), ERR_OK);
  while (pushed < 2000)
    pushed += push(&items[pushed]);
  while (atomic_load(&items[1999].runs) == 0)
    suite_sleep_s(0.001);
  workers_close(workers);
  for (size_t i = 0; i < 2000; i++)
    ck_assert_int_eq(atomic_load(&items[i].runs) + atomic_load(&items[i].refusals), 1);
}
END_TEST

START_TEST(a_full_queue_refuses)
{
  static struct counted items[5];
  size_t i, taken = 0;
  ck_assert_int_eq((int)workers_open(&workers, 1, 3, &error), ERR_OK);
  (void)pthread_mutex_lock(&gate);
  ck_assert(push(&items[0]));
  suite_sleep_s(0.2); /* the one thread has it and waits at the gate */
  for (i = 1; i < 5; i++)
    taken += push(&items[i]);
  (void)pthread_mutex_unlock(&gate);
  ck_assert_uint_eq(taken, 3);
  while (atomic_load(&items[3].runs) == 0)
    suite_sleep_s(0.001);
  workers_close(workers);
  ck_assert_int_eq(atomic_load(&items[4].runs) + atomic_load(&items[4].refusals), 0);
}
END_TEST

static void *close_workers(void *cls)
{
  (void)cls;
  workers_close(workers);
  return NULL;
}

START_TEST(closing_finishes_what_runs_and_refuses_what_waits)
{
  static struct counted items[3];
  pthread_t closer;
  ck_assert_int_eq((int)workers_open(&workers, 1, 3, &error), ERR_OK);
  (void)pthread_mutex_lock(&gate);
  ck_assert(push(&items[0]));
  suite_sleep_s(0.2);
  ck_assert(push(&items[1]));
  ck_assert(push(&items[2]));
  ck_assert_int_eq(pthread_create(&closer, NULL, close_workers, NULL), 0);
  suite_sleep_s(0.2);
  (void)pthread_mutex_unlock(&gate);
  ck_assert_int_eq(pthread_join(closer, NULL), 0);
  ck_assert_int_eq(atomic_load(&items[0].runs), 1);
  ck_assert_int_eq(atomic_load(&items[1].refusals), 1);
  ck_assert_int_eq(atomic_load(&items[2].refusals), 1);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("workers");
  TCase *tcase = suite_case(suite, "workers", nothing, nothing);
  tcase_add_test(tcase, everything_is_run_once);
  tcase_add_test(tcase, a_full_queue_refuses);
  tcase_add_test(tcase, closing_finishes_what_runs_and_refuses_what_waits);
  return suite_run(suite);
}
