/* Jobs of the daemon by period, on a thread of their own. */
#include "server/schedule.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"

struct entry {
  struct schedule_job job;
  int64_t due_us;
  char last_error[320]; /* a failure that lasts is logged once */
};

struct schedule {
  struct log *log;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t is_stopped;
  bool is_stopping; /* guarded by the mutex */
  size_t count;
  struct entry entries[];
};

static void note(struct schedule *schedule, struct entry *entry, enum err result, const struct error *e)
{
  if (result == ERR_OK) {
    entry->last_error[0] = '\0';
  } else if (strcmp(entry->last_error, e->message) != 0) {
    memcpy(entry->last_error, e->message, sizeof entry->last_error);
    log_write(schedule->log, LOG_ERROR, "schedule: %s: %s", entry->job.name, e->message);
  }
}

static void run_piece(struct schedule *schedule, struct entry *entry)
{
  struct error e = {.code = ERR_OK, .message = ""};
  bool again = false;
  const enum err result = entry->job.run(entry->job.cls, &again, &e);
  note(schedule, entry, result, &e);
  if (result != ERR_OK || !again)
    entry->due_us = clock_monotonic_us() + (int64_t)entry->job.period_s * 1000000;
}

static struct entry *next_due(struct schedule *schedule)
{
  struct entry *next = &schedule->entries[0];
  for (size_t i = 1; i < schedule->count; i++)
    if (schedule->entries[i].due_us < next->due_us)
      next = &schedule->entries[i];
  return next;
}

/* Until the time, or until the schedule is stopped: then false. */
static bool wait_until(struct schedule *schedule, int64_t due_us)
{
  const struct timespec until = {(time_t)(due_us / 1000000), (due_us % 1000000) * 1000};
  int rc = 0;
  bool goes_on;
  pthread_mutex_lock(&schedule->mutex);
  while (!schedule->is_stopping && rc == 0 && clock_monotonic_us() < due_us)
    rc = pthread_cond_timedwait(&schedule->is_stopped, &schedule->mutex, &until);
  assert(rc == 0 || rc == ETIMEDOUT);
  goes_on = !schedule->is_stopping;
  pthread_mutex_unlock(&schedule->mutex);
  return goes_on;
}

static void *schedule_main(void *cls)
{
  struct schedule *schedule = cls;
  struct entry *entry = next_due(schedule);
  while (wait_until(schedule, entry->due_us)) {
    run_piece(schedule, entry);
    entry = next_due(schedule);
  }
  return NULL;
}

static int start_thread(struct schedule *schedule)
{
  pthread_condattr_t monotonic;
  int rc = pthread_condattr_init(&monotonic);
  if (rc != 0)
    return rc;
  rc = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  if (rc == 0)
    rc = pthread_cond_init(&schedule->is_stopped, &monotonic);
  (void)pthread_condattr_destroy(&monotonic); /* can not fail for one that was initialised */
  if (rc == 0)
    rc = pthread_mutex_init(&schedule->mutex, NULL);
  return rc == 0 ? pthread_create(&schedule->thread, NULL, schedule_main, schedule) : rc;
}

enum err schedule_start(struct schedule **out, const struct schedule_job *jobs, size_t count, struct log *log,
                        struct error *e)
{
  struct schedule *schedule = calloc(1, sizeof *schedule + count * sizeof schedule->entries[0]);
  int rc;
  assert(count > 0);
  *out = NULL;
  if (schedule == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the schedule");
  schedule->log = log;
  schedule->count = count;
  for (size_t i = 0; i < count; i++)
    schedule->entries[i].job = jobs[i];
  rc = start_thread(schedule);
  if (rc != 0) {
    free(schedule);
    return error_set(e, ERR_UNAVAILABLE, "", "the thread of the schedule can not be started: %s", strerror(rc));
  }
  *out = schedule;
  return ERR_OK;
}

void schedule_stop(struct schedule *schedule)
{
  if (schedule == NULL)
    return;
  pthread_mutex_lock(&schedule->mutex);
  schedule->is_stopping = true;
  pthread_cond_signal(&schedule->is_stopped);
  pthread_mutex_unlock(&schedule->mutex);
  (void)pthread_join(schedule->thread, NULL); /* it is our own running thread */
  (void)pthread_cond_destroy(&schedule->is_stopped);
  (void)pthread_mutex_destroy(&schedule->mutex);
  free(schedule);
}
