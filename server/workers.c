/* The worker pool: bounded queues under one lock. */
#include "server/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"

#define QUICK_IN_A_ROW 16 /* then one heavy piece gets its turn, so that a flood of reads starves nothing */
#define MEAN_SHARE 8      /* weight of the newest in the running mean: one in so many */

struct lane {
  struct work *head, *tail;
  unsigned queued;
};

struct workers {
  pthread_mutex_t lock; /* guards everything below but threads */
  pthread_cond_t wake;
  struct lane lanes[WORK_LANES];
  unsigned queue_max, quick_in_a_row, running_count;
  int64_t patience_us, heavy_mean_us; /* running mean of what a heavy piece takes; 0 = none has run */
  int64_t idle_seen_us;               /* when a push last found a worker without work */
  bool is_closing;
  unsigned thread_count;
  pthread_t threads[];
};

static struct work *take_from(struct lane *lane)
{
  struct work *work = lane->head;
  if (work == NULL)
    return NULL;
  lane->head = work->next;
  if (lane->head == NULL)
    lane->tail = NULL;
  lane->queued--;
  return work;
}

static struct work *take(struct workers *workers)
{
  struct lane *const lanes = workers->lanes;
  const bool is_heavys_turn = lanes[WORK_QUICK].queued == 0 || workers->quick_in_a_row >= QUICK_IN_A_ROW;
  if (is_heavys_turn && lanes[WORK_HEAVY].queued > 0) {
    workers->quick_in_a_row = 0;
    return take_from(&lanes[WORK_HEAVY]);
  }
  workers->quick_in_a_row++;
  return take_from(&lanes[lanes[WORK_QUICK].queued > 0 ? WORK_QUICK : WORK_HELP]);
}

static void note_heavy(struct workers *workers, int64_t took_us)
{
  if (workers->heavy_mean_us == 0)
    workers->heavy_mean_us = took_us;
  else
    workers->heavy_mean_us += (took_us - workers->heavy_mean_us) / MEAN_SHARE;
}

/* With the lock held before and after, and not meanwhile. The worker counts as free before anybody is told that the work is
   done: who then comes with more must not be refused for what is over. */
static void run_unlocked(struct workers *workers, struct work *work)
{
  const bool is_heavy = work->lane == WORK_HEAVY, is_help = work->lane == WORK_HELP;
  int64_t began_us;
  workers->running_count += !is_help; /* who helps is as good as free: it stops after one job */
  (void)pthread_mutex_unlock(&workers->lock);
  began_us = clock_monotonic_us();
  work->run(work);
  (void)pthread_mutex_lock(&workers->lock);
  workers->running_count -= !is_help;
  if (is_heavy)
    note_heavy(workers, clock_monotonic_us() - began_us);
  (void)pthread_mutex_unlock(&workers->lock);
  work->finish(work); /* which may free it */
  (void)pthread_mutex_lock(&workers->lock);
}

static void *run_worker(void *cls)
{
  struct workers *workers = cls;
  struct work *work;
  (void)pthread_mutex_lock(&workers->lock);
  for (;;) {
    while ((work = take(workers)) == NULL && !workers->is_closing)
      (void)pthread_cond_wait(&workers->wake, &workers->lock);
    if (work == NULL)
      break;
    if (workers->is_closing) {
      (void)pthread_mutex_unlock(&workers->lock);
      work->refuse(work);
      (void)pthread_mutex_lock(&workers->lock);
    } else {
      run_unlocked(workers, work);
    }
  }
  (void)pthread_mutex_unlock(&workers->lock);
  return NULL;
}

enum err workers_open(struct workers **out, unsigned threads, unsigned queue_max, int64_t patience_us, struct error *e)
{
  struct workers *workers = calloc(1, sizeof *workers + threads * sizeof workers->threads[0]);
  int error = 0;
  *out = NULL;
  if (workers == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for %u workers", threads);
  (void)pthread_mutex_init(&workers->lock, NULL);
  (void)pthread_cond_init(&workers->wake, NULL);
  workers->queue_max = queue_max;
  workers->patience_us = patience_us;
  workers->idle_seen_us = clock_monotonic_us();
  while (error == 0 && workers->thread_count < threads) {
    error = pthread_create(&workers->threads[workers->thread_count], NULL, run_worker, workers);
    workers->thread_count += error == 0;
  }
  if (error != 0) {
    workers_close(workers);
    return error_set(e, ERR_UNAVAILABLE, "", "worker threads can not be started: %s", strerror(error));
  }
  *out = workers;
  return ERR_OK;
}

/* A burst may wait for as long as the patience. A queue that has stood for that long is no burst: all that waiting in it
   would add is latency, so only one piece for each thread may. The wait is that of the pieces which free workers do not take
   at once, shared among the threads, each as long as the mean. */
static bool would_wait_too_long(const struct workers *workers, unsigned free_count, int64_t now_us)
{
  const unsigned queued = workers->lanes[WORK_HEAVY].queued, waiting = queued > free_count ? queued - free_count : 0;
  const bool is_burst = now_us - workers->idle_seen_us <= workers->patience_us;
  const int64_t wait_us = workers->heavy_mean_us * waiting / workers->thread_count;
  return wait_us > 0 && wait_us >= workers->heavy_mean_us && (!is_burst || wait_us > workers->patience_us);
}

static bool has_room(struct workers *workers, enum work_lane lane)
{
  const unsigned queued = workers->lanes[WORK_QUICK].queued + workers->lanes[WORK_HEAVY].queued;
  const unsigned free_count = workers->thread_count - workers->running_count;
  const int64_t now_us = clock_monotonic_us();
  if (lane == WORK_HELP) /* few, and none of them keeps anybody waiting */
    return !workers->is_closing;
  if (free_count > queued)
    workers->idle_seen_us = now_us;
  return !workers->is_closing && queued < workers->queue_max &&
         (lane != WORK_HEAVY || !would_wait_too_long(workers, free_count, now_us));
}

bool workers_push(struct workers *workers, struct work *work)
{
  struct lane *lane = &workers->lanes[work->lane];
  bool is_taken;
  (void)pthread_mutex_lock(&workers->lock);
  is_taken = has_room(workers, work->lane);
  if (is_taken) {
    work->next = NULL;
    if (lane->tail != NULL)
      lane->tail->next = work;
    else
      lane->head = work;
    lane->tail = work;
    lane->queued++;
    (void)pthread_cond_signal(&workers->wake);
  }
  (void)pthread_mutex_unlock(&workers->lock);
  return is_taken;
}

/* ---- Jobs shared out ---- */

struct team;
struct helper {
  struct work work; /* first */
  struct team *team;
};

/* What the caller and its helpers share; the last one to leave frees it, as a helper may be taken up long after all is done. */
struct team {
  struct workers *workers;
  void (*job)(void *cls, size_t index);
  void *cls;
  size_t count;
  atomic_size_t next;
  pthread_mutex_t lock;
  pthread_cond_t all_done;
  size_t done;      /* guarded by the lock */
  unsigned members; /* likewise */
  struct helper helpers[];
};

/* False when none was left. */
static bool do_one(struct team *team)
{
  const size_t index = atomic_fetch_add(&team->next, 1);
  if (index >= team->count)
    return false;
  team->job(team->cls, index);
  (void)pthread_mutex_lock(&team->lock);
  if (++team->done == team->count)
    (void)pthread_cond_signal(&team->all_done);
  (void)pthread_mutex_unlock(&team->lock);
  return true;
}

static void leave(struct team *team)
{
  unsigned left;
  (void)pthread_mutex_lock(&team->lock);
  left = --team->members;
  (void)pthread_mutex_unlock(&team->lock);
  if (left > 0)
    return;
  (void)pthread_cond_destroy(&team->all_done);
  (void)pthread_mutex_destroy(&team->lock);
  free(team);
}

static struct team *team_of(struct work *work)
{
  return ((struct helper *)(void *)work)->team;
}

static void refuse_help(struct work *work)
{
  leave(team_of(work));
}

static void help(struct work *work)
{
  (void)do_one(team_of(work));
}

/* One job at a time: whatever else has come meanwhile goes first. */
static void help_again(struct work *work)
{
  struct team *team = team_of(work);
  if (atomic_load(&team->next) >= team->count || !workers_push(team->workers, work))
    leave(team);
}

/* NULL: no memory. */
static struct team *team_new(struct workers *workers, unsigned helpers, size_t count,
                             void (*job)(void *cls, size_t index), void *cls)
{
  struct team *team = calloc(1, sizeof *team + helpers * sizeof team->helpers[0]);
  if (team == NULL)
    return NULL;
  (void)pthread_mutex_init(&team->lock, NULL);
  (void)pthread_cond_init(&team->all_done, NULL);
  team->workers = workers;
  team->job = job;
  team->cls = cls;
  team->count = count;
  team->members = 1 + helpers;
  for (unsigned i = 0; i < helpers; i++)
    team->helpers[i] =
        (struct helper){{.lane = WORK_HELP, .run = help, .finish = help_again, .refuse = refuse_help}, team};
  return team;
}

void workers_run_all(struct workers *workers, size_t count, void (*job)(void *cls, size_t index), void *cls)
{
  const unsigned most = workers != NULL ? workers->thread_count : 0;
  const unsigned helpers = count > most ? most : count > 1 ? (unsigned)(count - 1) : 0;
  struct team *team = helpers > 0 ? team_new(workers, helpers, count, job, cls) : NULL;
  if (team == NULL) {
    for (size_t i = 0; i < count; i++)
      job(cls, i);
    return;
  }
  for (unsigned i = 0; i < helpers; i++)
    if (!workers_push(workers, &team->helpers[i].work))
      leave(team);
  while (do_one(team))
    continue;
  (void)pthread_mutex_lock(&team->lock);
  while (team->done < count)
    (void)pthread_cond_wait(&team->all_done, &team->lock);
  (void)pthread_mutex_unlock(&team->lock);
  leave(team);
}

void workers_close(struct workers *workers)
{
  unsigned i;
  if (workers == NULL)
    return;
  (void)pthread_mutex_lock(&workers->lock);
  workers->is_closing = true;
  (void)pthread_cond_broadcast(&workers->wake);
  (void)pthread_mutex_unlock(&workers->lock);
  for (i = 0; i < workers->thread_count; i++)
    (void)pthread_join(workers->threads[i], NULL);
  (void)pthread_cond_destroy(&workers->wake);
  (void)pthread_mutex_destroy(&workers->lock);
  free(workers);
}
