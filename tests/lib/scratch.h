/* What one test allocates and never wants to think about: texts, JSON documents, replies. Everything lives until
   scratch_release, which the teardown of each test calls.
   Errors: out of memory fails the running test. Threads: callers on other threads than the test's own must not use it. */
#ifndef FITD_TESTS_LIB_SCRATCH_H
#define FITD_TESTS_LIB_SCRATCH_H

#include <jansson.h>
#include <stddef.h>

/* Zeroed memory, owned by the scratch. */
void *scratch_alloc(size_t bytes);
/* Formatted text, owned by the scratch. */
char *scratch_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Takes the reference over and hands the document back; NULL fails the test. */
json_t *scratch_json_steal(json_t *document);
/* The whole file as text, owned by the scratch; fails the test when it cannot be read. */
char *scratch_read_file(const char *path);

void scratch_release(void);

#endif
