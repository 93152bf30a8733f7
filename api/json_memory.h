/* Watches jansson's allocations. It takes no notice of some that fail: a token then lacks characters, a document a member,
   and no error says so. What was read or answered while one failed on the thread is therefore not to be trusted.
   Threads: json_memory_watch before any other thread makes documents; the others from any thread, each for itself.
   Private to api/. */
#ifndef FITD_API_JSON_MEMORY_H
#define FITD_API_JSON_MEMORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

void json_memory_watch(void);
/* A new piece of work begins on this thread. */
void json_memory_begin(void);
/* Whether an allocation has failed since. */
bool json_memory_has_failed(void);
/* json_loadb and json_dumps, NULL too when an allocation failed on the way: jansson 2.14 writes an object without one of its
   keys then. Its parser writes through a null pointer when the buffer of a token can not grow, so memory for the whole is
   asked for before. *is_out: memory is what failed. */
json_t *json_memory_loadb(bool *is_out, const char *text, size_t length, size_t flags, json_error_t *problem);
char *json_memory_dumps(const json_t *value, size_t flags);

#endif
