/* What the daemon does by itself: a thread that gives every job its turn. A job looks for what is due (in the store, so that a
   restart forgets nothing), does one piece of it, and says whether more may be due.
   Threads: jobs run one after another on the thread of the schedule, never on two at once. Errors of a job go to the log and
   the job is tried again at its next turn. */
#ifndef FITD_SERVER_SCHEDULE_H
#define FITD_SERVER_SCHEDULE_H

#include "core/error.h"
#include "server/log.h"

struct schedule;

/* One piece of work; *again: call once more before waiting. Must not wait for anything but the store. */
typedef enum err schedule_run(void *cls, bool *again, struct error *e);
struct schedule_job {
  const char *name; /* in logs */
  unsigned period_s;
  schedule_run *run;
  void *cls;
};

/* Jobs are copied, their names and cls borrowed. The first turn of each comes at once. */
enum err schedule_start(struct schedule **out, const struct schedule_job *jobs, size_t count, struct log *log,
                        struct error *e) MUST_CHECK;
/* Lets the running piece finish, then joins. NULL is allowed. */
void schedule_stop(struct schedule *schedule);

#endif
