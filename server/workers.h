/* A few threads that run what would hold up a network thread: evaluations, writes, large compressions. Reads and writes
   go before evaluations, which take a hundred times as long. What would wait too long is refused at once: an answer in time
   or a plain refusal, never a queue that only grows.
   Threads: workers_push from any thread; open and close from one. Ownership: work items stay the caller's and are handed
   to exactly one of run with finish, or refuse, when push took them. */
#ifndef FITD_SERVER_WORKERS_H
#define FITD_SERVER_WORKERS_H

#include <stdint.h>

#include "core/error.h"

struct workers;
enum work_lane { WORK_QUICK, WORK_HEAVY, WORK_HELP, WORK_LANES }; /* help: with what another one runs, when idle */

struct work {
  struct work *next;
  enum work_lane lane;
  void (*run)(struct work *work);
  void (*finish)(struct work *work); /* after run: tells whoever waits for it */
  void (*refuse)(struct work *work); /* the workers are closing; called instead of both */
};

/* `patience_us`: heavy work that would wait longer than this, and as long as one such piece takes, is refused; so is all that
   would wait as long as one such piece takes once no worker has been idle for this time. */
enum err workers_open(struct workers **out, unsigned threads, unsigned queue_max, int64_t patience_us,
                      struct error *e) MUST_CHECK;
/* False when the queue is full, the wait would be too long, or the workers are closing. */
bool workers_push(struct workers *workers, struct work *work);
/* Runs job(cls, i) once for every i below count: on the calling thread, and on workers that have nothing else to do. Returns
   when all are done. From any thread, workers too; NULL workers: on the calling thread alone. */
void workers_run_all(struct workers *workers, size_t count, void (*job)(void *cls, size_t index), void *cls);
/* Refuses what waits, lets finish what runs, joins. */
void workers_close(struct workers *workers);

#endif
