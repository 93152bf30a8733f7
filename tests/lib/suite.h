/* Running a check suite: scratch directory, timeouts fit for real processes, and an exit status that cannot lie.
   Ownership: the suite belongs to the runner. Threads: one suite a process, driven from main. */
#ifndef FITD_TESTS_LIB_SUITE_H
#define FITD_TESTS_LIB_SUITE_H

#include <check.h>
#include <stddef.h>

/* A case whose tests may take a minute (times CK_TIMEOUT_MULTIPLIER); setup and teardown run around every test. */
TCase *suite_case(Suite *suite, const char *name, SFun setup, SFun teardown);

/* Runs everything and returns the exit status of the process: failure also when not a single check ran.
   Directories that tests left behind belong to failed ones: the ends of their logs are printed, then all is removed. */
int suite_run(Suite *suite);

/* Where this run may write; exists only within suite_run. */
const char *suite_dir(void);
/* A new empty directory in suite_dir, written to `path`. */
void suite_make_dir(char *path, size_t size);
/* Removes a directory and all it holds. */
void suite_remove_dir(const char *path);

/* `relative` seen from the root of the source tree, which is found from the place of the running binary. */
char *suite_source_path(const char *relative);

/* How many of `full` rounds of a random or exhaustive test are run: all of them, or a fifth (at least one) in builds with a
   sanitizer, which are several times slower and look for other faults than wrong figures. Scales asserted totals as well. */
unsigned suite_rounds(unsigned full);

/* Monotonic seconds, and a sleep that signals do not shorten. */
double suite_now_s(void);
void suite_sleep_s(double seconds);

#endif
