/* Running the fitd binary to its end: exit status, what it printed, with a deadline. Output is owned by the scratch.
   Threads: the test's own thread only. */
#ifndef FITD_TESTS_LIB_COMMAND_H
#define FITD_TESTS_LIB_COMMAND_H

#include <sys/types.h>

struct command_result {
  int exit_status; /* -1: ended by a signal */
  char *out;
  char *err;
};

/* FITD_BINARY, or fitd in the build directory of the running test. Owned by the scratch. */
const char *command_binary(void);

/* Starts the binary in a child that dies with this process; descriptors become its 0, 1 and 2. No setting is inherited:
   variables starting with FITD_ are left out of its environment. `arguments` ends with NULL and excludes argv[0]. */
pid_t command_spawn(const char *const *arguments, int in_fd, int out_fd, int err_fd);

/* Waits for `pid`; past the deadline the child is killed and the test fails. Returns the exit status, -1 after a signal. */
int command_wait(pid_t pid, double timeout_s);

/* Runs a command with `input` (NULL: nothing) on its standard input. */
struct command_result command_run(const char *const *arguments, const char *input);

/* The same with a terminal as standard output. */
struct command_result command_run_on_terminal(const char *const *arguments);

#endif
