/* The one thread that writes. Jobs that wait at the same time share a transaction, each inside its own savepoint, and
   one fsync; every caller learns of its own job after that COMMIT. The same thread checkpoints, because in this SQLite
   two connections that write or checkpoint at the same moment can damage the log. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "storage/store_int.h"

#define GROUP_MAX 64
#define GROUP_US 2000
#define IDLE_US 1000000 /* quiet for so long: checkpoint, or see whether writing works again */
#define WAL_PAGES_MAX 16000
#define PROBE_BYTES 65536

static int64_t now_us(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* can not fail for this clock */
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static enum err run(struct connection *c, const char *sql, struct error *e)
{
  struct query q;
  query_begin(&q, c, sql);
  return query_run(&q, e);
}

/* ---- The queue ---- */

static void queue_push(struct writer *w, struct job *job)
{
  pthread_mutex_lock(&w->mutex);
  assert(!w->is_stopping);
  *w->last = job;
  w->last = &job->next;
  w->queued_count++;
  if (w->queued_count >= w->wanted_count)
    pthread_cond_signal(&w->is_wanted);
  pthread_mutex_unlock(&w->mutex);
}

static struct job *queue_pop(struct writer *w)
{
  struct job *job;
  pthread_mutex_lock(&w->mutex);
  job = w->first;
  if (job != NULL) {
    w->first = job->next;
    if (w->first == NULL)
      w->last = &w->first;
    w->queued_count--;
  }
  pthread_mutex_unlock(&w->mutex);
  return job;
}

/* Waits until `count` jobs are queued, the writer is stopped, or the time is over. The mutex is held. */
static void wait_for_jobs(struct writer *w, size_t count, int64_t until_us)
{
  const struct timespec until = {(time_t)(until_us / 1000000), (until_us % 1000000) * 1000};
  int rc = 0;
  w->wanted_count = count;
  while (w->queued_count < count && !w->is_stopping && rc == 0)
    rc = until_us < 0 ? pthread_cond_wait(&w->is_wanted, &w->mutex)
                      : pthread_cond_timedwait(&w->is_wanted, &w->mutex, &until);
  assert(rc == 0 || rc == ETIMEDOUT);
  w->wanted_count = 1;
}

enum turn { TURN_GROUP, TURN_IDLE, TURN_STOP };

static enum turn next_turn(struct store *store)
{
  struct writer *w = &store->writer;
  const bool has_chores = w->wal_pages > 0 || store_is_failing(store);
  enum turn turn;
  pthread_mutex_lock(&w->mutex);
  wait_for_jobs(w, 1, has_chores ? now_us() + IDLE_US : -1);
  /* The callers of the last group are likely to come back: waiting for them costs at most one commit, and saves one
     each. After a lone job nobody is waited for. */
  if (w->queued_count > 0 && w->queued_count < w->last_group_count)
    wait_for_jobs(w, w->last_group_count,
                  now_us() + (w->last_commit_us < w->group_us ? w->last_commit_us : w->group_us));
  turn = w->queued_count > 0 ? TURN_GROUP : w->is_stopping ? TURN_STOP : TURN_IDLE;
  pthread_mutex_unlock(&w->mutex);
  return turn;
}

/* ---- One group ---- */

/* Runs one job inside its savepoint. Afterwards the transaction is open still, unless SQLite gave it up. */
static void job_run(struct job *job, struct store *store)
{
  struct connection *c = &store->writer.connection;
  job->tx = (struct store_tx){.store = store, .connection = c};
  job->result = run(c, "SAVEPOINT job", &job->error);
  if (job->result == ERR_OK) {
    job->result = job->work(&job->tx, job->cls, &job->error);
    if (job->result == ERR_OK)
      job->result = run(c, "RELEASE job", &job->error);
    if (job->result != ERR_OK && !sqlite3_get_autocommit(c->db) &&
        (run(c, "ROLLBACK TO job", NULL) != ERR_OK || run(c, "RELEASE job", NULL) != ERR_OK))
      (void)sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL); /* the group sees that the transaction is gone */
  }
  if (job->result == ERR_OK && sqlite3_get_autocommit(c->db))
    job->result = error_set(&job->error, ERR_INTERNAL, "", "the transaction was rolled back");
  if (job->result != ERR_OK && job->error.code != job->result)
    error_set(&job->error, job->result, "", "%s", error_text(job->result));
  if (job->result == ERR_INTERNAL || job->result == ERR_UNAVAILABLE)
    connection_log(c, "store: write %s failed: %s", job->name, job->error.message);
}

/* Takes jobs until the group is full, its time is over or nobody waits; without a transaction they only get the error. */
static enum err run_jobs(struct job *jobs[GROUP_MAX], size_t *count, struct store *store, struct error *e)
{
  struct writer *w = &store->writer;
  const int64_t until_us = now_us() + w->group_us;
  enum err result = store_check_file(store, e);
  struct job *job;
  *count = 0;
  if (result == ERR_OK)
    result = run(&w->connection, "BEGIN IMMEDIATE", e);
  while (*count < GROUP_MAX && (*count == 0 || now_us() < until_us) && (job = queue_pop(w)) != NULL) {
    jobs[(*count)++] = job;
    if (result != ERR_OK)
      continue;
    job_run(job, store);
    if (sqlite3_get_autocommit(w->connection.db)) {
      *e = job->error;
      return job->result;
    }
  }
  return result;
}

static enum err commit(struct writer *w, struct error *e)
{
  const int64_t start_us = now_us();
  const enum err result = run(&w->connection, "COMMIT", e);
  w->last_commit_us = now_us() - start_us;
  if (result != ERR_OK && !sqlite3_get_autocommit(w->connection.db))
    (void)sqlite3_exec(w->connection.db, "ROLLBACK", NULL, NULL, NULL); /* the failed COMMIT is what is reported */
  return result;
}

/* A job that could not be written makes the store unwell; a commit that changed something makes it well. */
static void judge_group(struct store *store, struct job *const *jobs, size_t count, bool has_written)
{
  for (size_t i = 0; i < count; i++)
    if (jobs[i]->result == ERR_UNAVAILABLE) {
      store_note(store, DUTY_COMMIT, &jobs[i]->error);
      return;
    }
  if (has_written)
    store_note(store, DUTY_COMMIT, NULL);
}

static void bump_versions(struct store *store, unsigned touched)
{
  for (unsigned kind = 0; kind < TOUCHED_KINDS; kind++)
    if ((touched & 1u << kind) != 0)
      atomic_fetch_add(&store->versions[kind], 1);
}

static void run_group(struct store *store)
{
  struct writer *w = &store->writer;
  struct job *jobs[GROUP_MAX];
  struct error error = {0};
  size_t count;
  const int64_t changes = sqlite3_total_changes64(w->connection.db);
  enum err result = run_jobs(jobs, &count, store, &error);
  if (result == ERR_OK)
    result = commit(w, &error);
  for (size_t i = 0; i < count; i++) {
    if (result != ERR_OK && jobs[i]->result == ERR_OK) {
      jobs[i]->result = result;
      jobs[i]->error = error;
    } else if (jobs[i]->result == ERR_OK) {
      bump_versions(store, jobs[i]->tx.touched);
    }
  }
  judge_group(store, jobs, count, result == ERR_OK && sqlite3_total_changes64(w->connection.db) != changes);
  w->last_group_count = count;
  for (size_t i = 0; i < count; i++)
    sem_post(&jobs[i]->is_done); /* from here on the job belongs to its caller */
}

/* ---- Chores ---- */

static int note_wal_pages(void *cls, sqlite3 *db, const char *schema, int pages)
{
  struct writer *w = cls;
  (void)db;
  (void)schema;
  w->wal_pages = pages;
  return SQLITE_OK;
}

/* RESTART and TRUNCATE wait for readers, which are short, so that the log starts again from its beginning. */
static void checkpoint(struct store *store, int mode)
{
  struct connection *c = &store->writer.connection;
  struct error error = {0};
  int pages = 0, copied = 0;
  const int rc = sqlite3_wal_checkpoint_v2(c->db, NULL, mode, &pages, &copied);
  if (rc == SQLITE_OK || rc == SQLITE_BUSY) {
    store->writer.wal_pages = pages > copied ? pages - copied : 0;
    store_note(store, DUTY_CHECKPOINT, NULL);
  } else {
    (void)sql_error(c, rc, "checkpoint", &error);
    store_note(store, DUTY_CHECKPOINT, &error);
  }
}

/* While writing fails nobody may send writes any more, so the writer finds out by itself when it works again: with a
   write that needs new pages. */
static void probe(struct store *store)
{
  struct connection *c = &store->writer.connection;
  struct error error = {0};
  char sql[128];
  (void)sqlite3_snprintf(sizeof sql, sql, "BEGIN IMMEDIATE; REPLACE INTO write_probe VALUES (1, zeroblob(%d)); COMMIT",
                         PROBE_BYTES);
  if (store_check_file(store, &error) == ERR_OK && sql_execute(c, sql, &error) == ERR_OK &&
      sql_execute(c, "DELETE FROM write_probe", &error) == ERR_OK) {
    store_note(store, DUTY_COMMIT, NULL);
    return;
  }
  if (!sqlite3_get_autocommit(c->db))
    (void)sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL); /* the failed write is what is reported */
  store_note(store, DUTY_COMMIT, &error);
}

static void do_chores(struct store *store)
{
  if (store_is_failing(store))
    probe(store);
  if (store->writer.wal_pages > 0)
    checkpoint(store, SQLITE_CHECKPOINT_PASSIVE);
}

static void *writer_main(void *cls)
{
  struct store *store = cls;
  struct writer *w = &store->writer;
  enum turn turn;
  while ((turn = next_turn(store)) != TURN_STOP) {
    if (turn == TURN_IDLE)
      do_chores(store);
    else
      run_group(store);
    if (w->wal_pages > w->wal_pages_max)
      checkpoint(store, SQLITE_CHECKPOINT_RESTART);
  }
  /* Both only help the next opening: nothing is lost when they fail. */
  if (sql_execute(&w->connection, "PRAGMA analysis_limit = 400; PRAGMA optimize;", NULL) != ERR_OK)
    connection_log(&w->connection, "store: the optimisation at closing failed");
  checkpoint(store, SQLITE_CHECKPOINT_TRUNCATE);
  return NULL;
}

/* ---- For everyone else ---- */

enum err writer_start(struct store *store, struct error *e)
{
  struct writer *w = &store->writer;
  pthread_condattr_t monotonic;
  int rc;
  pthread_mutex_init(&w->mutex, NULL);
  rc = pthread_condattr_init(&monotonic);
  if (rc == 0)
    rc = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  if (rc == 0)
    rc = pthread_cond_init(&w->is_wanted, &monotonic);
  pthread_condattr_destroy(&monotonic);
  if (rc == 0) {
    w->wanted_count = 1;
    w->wal_pages_max = WAL_PAGES_MAX;
    w->group_us = GROUP_US;
    (void)sqlite3_wal_hook(w->connection.db, note_wal_pages, w);
    rc = pthread_create(&w->thread, NULL, writer_main, store);
  }
  if (rc != 0)
    return error_set(e, ERR_UNAVAILABLE, "", "the writer thread can not be started: %s", strerror(rc));
  w->is_running = true;
  return ERR_OK;
}

void writer_stop(struct store *store)
{
  struct writer *w = &store->writer;
  if (!w->is_running)
    return;
  pthread_mutex_lock(&w->mutex);
  w->is_stopping = true;
  pthread_cond_signal(&w->is_wanted);
  pthread_mutex_unlock(&w->mutex);
  (void)pthread_join(w->thread, NULL); /* it is our own running thread */
  pthread_cond_destroy(&w->is_wanted);
  pthread_mutex_destroy(&w->mutex);
  w->is_running = false;
}

enum err store_write(struct store *store, const char *name, store_work *work, void *cls, struct error *e)
{
  struct job job = {.name = name, .work = work, .cls = cls};
  store_assert(store);
  assert(!pthread_equal(pthread_self(), store->writer.thread)); /* a job that writes would wait for itself */
  if (sem_init(&job.is_done, 0, 0) != 0)
    return error_set(e, ERR_INTERNAL, "", "a semaphore can not be made");
  queue_push(&store->writer, &job);
  while (sem_wait(&job.is_done) != 0)
    assert(errno == EINTR);
  (void)sem_destroy(&job.is_done); /* nobody waits on it */
  if (job.result != ERR_OK && e != NULL)
    *e = job.error;
  return job.result;
}
