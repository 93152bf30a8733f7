/* The real daemon, started on a free loopback port over a database in its own scratch directory.
   Errors: whatever goes wrong fails the running test. Threads: start and stop from the test's own thread; the fields may be
   read by others meanwhile. */
#ifndef FITD_TESTS_LIB_DAEMON_H
#define FITD_TESTS_LIB_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

struct daemon {
  pid_t pid;     /* 0: not running */
  int stdout_fd; /* -1: not running */
  unsigned port;
  char url[64]; /* http://127.0.0.1:PORT, or https */
  char dir[128];
  char database[160];
  char log[160]; /* its standard error, all starts after one another */
};

/* A new directory; nothing is started. */
void daemon_prepare(struct daemon *daemon);
/* Starts on the prepared database and waits for the line that names the port; `more` (or NULL) are further arguments. */
void daemon_launch(struct daemon *daemon, const char *const *more);
/* Both. */
void daemon_start(struct daemon *daemon);

/* SIGTERM; must end by itself with status 0. */
void daemon_stop(struct daemon *daemon);
/* SIGKILL, as a power cut would. */
void daemon_kill(struct daemon *daemon);
/* Stops if running, removes the directory, releases the scratch: the teardown of most cases. */
void daemon_finish(struct daemon *daemon);

#endif
