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
static const int64_t patience_us = 60 * 1000000;

static void nothing(void)
{
}

static struct counted *counted_of(struct work *work)
{
  return (struct counted *)(void *)work; /* its first member */
}

static void run(struct work *work)
{
  (void)work;
  (void)pthread_mutex_lock(&gate);
  (void)pthread_mutex_unlock(&gate);
}

static void finish(struct work *work)
{
  (void)atomic_fetch_add(&counted_of(work)->runs, 1);
}

static void refuse(struct work *work)
{
  (void)atomic_fetch_add(&counted_of(work)->refusals, 1);
}

static bool push_to(enum work_lane lane, struct counted *item)
{
  item->work.lane = lane;
  item->work.run = run;
  item->work.finish = finish;
  item->work.refuse = refuse;
  return workers_push(workers, &item->work);
}

static bool push(struct counted *item)
{
  return push_to(WORK_QUICK, item);
}

START_TEST(everything_is_run_once)
{
  static struct counted items[2000];
  size_t pushed = 0;
  ck_assert_int_eq((int)workers_open(&workers, 4, 10, patience_us, &error), ERR_OK);
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
  ck_assert_int_eq((int)workers_open(&workers, 1, 3, patience_us, &error), ERR_OK);
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
  ck_assert_int_eq((int)workers_open(&workers, 1, 3, patience_us, &error), ERR_OK);
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

static unsigned order[24], order_count; /* by the one thread of the workers */

struct numbered {
  struct counted counted;
  unsigned number;
};

static void note_number(struct work *work)
{
  run(work);
  order[order_count++] = ((struct numbered *)(void *)work)->number;
}

static void push_numbered(struct numbered *item, enum work_lane lane, unsigned number)
{
  item->number = number;
  item->counted.work = (struct work){.lane = lane, .run = note_number, .finish = finish, .refuse = refuse};
  ck_assert(workers_push(workers, &item->counted.work));
}

/* One heavy piece comes first and holds the thread; of what then waits, quick pieces go first, and after sixteen of them
   the heavy one has its turn. */
START_TEST(quick_work_goes_first_and_heavy_does_not_starve)
{
  static struct numbered items[22];
  ck_assert_int_eq((int)workers_open(&workers, 1, 100, patience_us, &error), ERR_OK);
  (void)pthread_mutex_lock(&gate);
  push_numbered(&items[0], WORK_HEAVY, 100);
  suite_sleep_s(0.2);
  push_numbered(&items[1], WORK_HEAVY, 101);
  for (unsigned i = 0; i < 20; i++)
    push_numbered(&items[2 + i], WORK_QUICK, i);
  (void)pthread_mutex_unlock(&gate);
  while (atomic_load(&items[21].counted.runs) == 0)
    suite_sleep_s(0.001);
  workers_close(workers);
  ck_assert_uint_eq(order_count, 22);
  ck_assert_uint_eq(order[0], 100);
  for (unsigned i = 0; i < 16; i++)
    ck_assert_uint_eq(order[1 + i], i);
  ck_assert_uint_eq(order[17], 101);
  ck_assert_uint_eq(order[21], 19);
}
END_TEST

static void take_a_while(struct work *work)
{
  suite_sleep_s(0.05);
  run(work);
}

static void open_busy(struct counted *first, int64_t patience)
{
  ck_assert_int_eq((int)workers_open(&workers, 1, 100, patience, &error), ERR_OK);
  first[0].work = (struct work){.lane = WORK_HEAVY, .run = take_a_while, .finish = finish, .refuse = refuse};
  ck_assert(workers_push(workers, &first[0].work));
  while (atomic_load(&first[0].runs) == 0)
    suite_sleep_s(0.001);
  suite_sleep_s(0.1); /* the mean is known now: about 50 ms */
  (void)pthread_mutex_lock(&gate);
  ck_assert(push_to(WORK_HEAVY, &first[1]));
  suite_sleep_s(0.2); /* the thread has it and waits at the gate */
}

static void open_the_gate(const struct counted *last)
{
  (void)pthread_mutex_unlock(&gate);
  while (atomic_load(&last->runs) == 0)
    suite_sleep_s(0.001);
  workers_close(workers);
}

/* Without patience one piece may wait for each thread: a second would come after two, which is twice the time and more. */
START_TEST(heavy_work_that_would_wait_too_long_is_refused)
{
  static struct counted items[5];
  open_busy(items, 0);
  ck_assert(push_to(WORK_HEAVY, &items[2]));
  ck_assert(!push_to(WORK_HEAVY, &items[3]));
  ck_assert(push_to(WORK_QUICK, &items[4]));
  open_the_gate(&items[2]);
  ck_assert_int_eq(atomic_load(&items[3].runs) + atomic_load(&items[3].refusals), 0);
  ck_assert_int_eq(atomic_load(&items[4].runs), 1);
}
END_TEST

/* With patience a burst may queue. The worker is then busy for longer than the patience: the queue stands, and one piece may
   wait for each thread as without; there are more already. */
START_TEST(patience_is_for_bursts)
{
  static struct counted items[7];
  open_busy(items, 2000000);
  for (size_t i = 2; i < 6; i++)
    ck_assert(push_to(WORK_HEAVY, &items[i]));
  suite_sleep_s(2.2);
  ck_assert(!push_to(WORK_HEAVY, &items[6]));
  open_the_gate(&items[5]);
  ck_assert_int_eq(atomic_load(&items[6].runs) + atomic_load(&items[6].refusals), 0);
}
END_TEST

static atomic_bool was_refused;

static void take_a_moment(struct work *work)
{
  suite_sleep_s(0.001);
  run(work);
}

/* As a client that asks again when it has its answer, with one more waiting: never more than one for each thread. */
static void finish_and_ask_again(struct work *work)
{
  static atomic_int rounds;
  if (atomic_fetch_add(&rounds, 1) < 200 && !workers_push(workers, work))
    atomic_store(&was_refused, true);
  (void)atomic_fetch_add(&counted_of(work)->refusals, 1); /* counts the rounds here */
}

START_TEST(what_is_over_refuses_nothing)
{
  static struct counted items[2];
  ck_assert_int_eq((int)workers_open(&workers, 1, 100, 0, &error), ERR_OK);
  for (size_t i = 0; i < 2; i++) {
    items[i].work =
        (struct work){.lane = WORK_HEAVY, .run = take_a_moment, .finish = finish_and_ask_again, .refuse = refuse};
    ck_assert(workers_push(workers, &items[i].work));
  }
  while (atomic_load(&items[0].refusals) + atomic_load(&items[1].refusals) < 200 && !atomic_load(&was_refused))
    suite_sleep_s(0.001);
  workers_close(workers);
  ck_assert(!atomic_load(&was_refused));
}
END_TEST

/* ---- jobs shared out ---- */

enum { JOBS = 1000 };
static atomic_int job_runs[JOBS];

static void run_job(void *cls, size_t index)
{
  (void)atomic_fetch_add((atomic_int *)cls, 1);
  (void)atomic_fetch_add(&job_runs[index], 1);
}

static void forget_runs(void)
{
  for (int i = 0; i < JOBS; i++)
    atomic_store(&job_runs[i], 0);
}

static void assert_each_ran(int times)
{
  for (int i = 0; i < JOBS; i++)
    ck_assert_int_eq(atomic_load(&job_runs[i]), times);
}

START_TEST(jobs_are_shared_out_and_run_once)
{
  atomic_int sum = 0;
  forget_runs();
  ck_assert_int_eq((int)workers_open(&workers, 4, 10, patience_us, &error), ERR_OK);
  for (int round = 1; round <= 50; round++) {
    workers_run_all(workers, JOBS, run_job, &sum);
    ck_assert_int_eq(atomic_load(&sum), round * JOBS); /* all are done when it returns */
  }
  assert_each_ran(50);
  workers_run_all(workers, 0, run_job, &sum);
  workers_run_all(workers, 1, run_job, &sum);
  ck_assert_int_eq(atomic_load(&sum), 50 * JOBS + 1);
  workers_close(workers);
  workers_run_all(NULL, 1, run_job, &sum);
  ck_assert_int_eq(atomic_load(&sum), 50 * JOBS + 2);
}
END_TEST

struct sharing {
  struct counted counted;
  atomic_int sum;
};

static void share_out(struct work *work)
{
  struct sharing *sharing = (struct sharing *)(void *)work;
  workers_run_all(workers, JOBS, run_job, &sharing->sum);
  (void)atomic_fetch_add(&sharing->counted.runs, 1);
}

/* Every worker shares out at once, so none is free to help: each does its own, nobody waits for ever. Help that is still asked
   for when the workers close is refused. */
START_TEST(workers_share_out_themselves)
{
  static struct sharing items[8];
  forget_runs();
  ck_assert_int_eq((int)workers_open(&workers, 2, 100, patience_us, &error), ERR_OK);
  for (int i = 0; i < 8; i++) {
    items[i].counted.work = (struct work){.lane = WORK_HEAVY, .run = share_out, .finish = finish, .refuse = refuse};
    ck_assert(workers_push(workers, &items[i].counted.work));
  }
  for (int i = 0; i < 8; i++)
    while (atomic_load(&items[i].counted.runs) == 0)
      suite_sleep_s(0.001);
  workers_close(workers);
  for (int i = 0; i < 8; i++)
    ck_assert_int_eq(atomic_load(&items[i].sum), JOBS);
  assert_each_ran(8);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("workers");
  TCase *tcase = suite_case(suite, "workers", nothing, nothing);
  tcase_add_test(tcase, everything_is_run_once);
  tcase_add_test(tcase, a_full_queue_refuses);
  tcase_add_test(tcase, closing_finishes_what_runs_and_refuses_what_waits);
  tcase_add_test(tcase, quick_work_goes_first_and_heavy_does_not_starve);
  tcase_add_test(tcase, heavy_work_that_would_wait_too_long_is_refused);
  tcase_add_test(tcase, patience_is_for_bursts);
  tcase_add_test(tcase, what_is_over_refuses_nothing);
  tcase_add_test(tcase, jobs_are_shared_out_and_run_once);
  tcase_add_test(tcase, workers_share_out_themselves);
  return suite_run(suite);
}
