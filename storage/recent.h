/* Recently read scorecard documents in memory. A scorecard never changes and is never deleted, so an entry is right for
   ever; each id has one slot, and a newer document of the same slot replaces the older. Private to storage/.
   Threads: any; a short lock per slot group. */
#ifndef FITD_STORAGE_RECENT_H
#define FITD_STORAGE_RECENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define RECENT_SLOTS 1024
#define RECENT_LOCKS 16
#define RECENT_DOCUMENT_BYTES 16384 /* larger documents are not kept: at most 16 MiB in all */

struct recent_slot {
  char id[40];
  char *document;
  size_t length;
};
struct recent {
  pthread_mutex_t locks[RECENT_LOCKS];
  struct recent_slot slots[RECENT_SLOTS];
};

void recent_init(struct recent *recent);
void recent_fini(struct recent *recent);

/* A malloc'ed copy of the document; false when it is not here (or memory is out: the caller then reads the database). */
bool recent_get(struct recent *recent, char **document, size_t *length, const char *id);
void recent_put(struct recent *recent, const char *id, const char *document, size_t length);

#endif
