/* A few threads that run what would hold up a network thread: evaluations, writes, large compressions. The queue is
   bounded: what does not fit is refused at once, so that waiting stays short.
   Threads: workers_push from any thread; open and close from one. Ownership: work items stay the caller's and are handed
   to exactly one of run or refuse when push took them. */
#ifndef FITD_SERVER_WORKERS_H
#define FITD_SERVER_WORKERS_H

#include "core/error.h"

struct workers;
struct work {
  struct work *next;
  void (*run)(struct work *work);
  void (*refuse)(struct work *work); /* the workers are closing; called instead of run */
};

enum err workers_open(struct workers **out, unsigned threads, unsigned queue_max, struct error *e) MUST_CHECK;
/* False when the queue is full or closing. */
bool workers_push(struct workers *workers, struct work *work);
/* Refuses what waits, lets finish what runs, joins. */
void workers_close(struct workers *workers);

#endif
