/* The worker pool: a bounded queue under one lock. */
#include "server/workers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct workers {
  pthread_mutex_t lock; /* guards everything below but threads */
  pthread_cond_t wake;
  struct work *head, *tail;
  unsigned queued, queue_max;
  bool is_closing;
  unsigned thread_count;
  pthread_t threads[];
};

static struct work *take(struct workers *workers)
{
  struct work *work = workers->head;
  if (work == NULL)
    return NULL;
  workers->head = work->next;
  if (workers->head == NULL)
    workers->tail = NULL;
  workers->queued--;
  return work;
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
    bool is_refused = workers->is_closing;
    (void)pthread_mutex_unlock(&workers->lock);
    if (is_refused)
      work->refuse(work);
    else
      work->run(work);
    (void)pthread_mutex_lock(&workers->lock);
  }
  (void)pthread_mutex_unlock(&workers->lock);
  return NULL;
}

enum err workers_open(struct workers **out, unsigned threads, unsigned queue_max, struct error *e)
{
  struct workers *workers = calloc(1, sizeof *workers + threads * sizeof workers->threads[0]);
  int error = 0;
  *out = NULL;
  if (workers == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for %u workers", threads);
  (void)pthread_mutex_init(&workers->lock, NULL);
  (void)pthread_cond_init(&workers->wake, NULL);
  workers->queue_max = queue_max;
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

bool workers_push(struct workers *workers, struct work *work)
{
  bool is_taken;
  (void)pthread_mutex_lock(&workers->lock);
  is_taken = workers->queued < workers->queue_max && !workers->is_closing;
  if (is_taken) {
    work->next = NULL;
    if (workers->tail != NULL)
      workers->tail->next = work;
    else
      workers->head = work;
    workers->tail = work;
    workers->queued++;
    (void)pthread_cond_signal(&workers->wake);
  }
  (void)pthread_mutex_unlock(&workers->lock);
  return is_taken;
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
