/* What the server gives the api: the store, the clock, randomness, a place for sentences about internal errors, readiness.
   Threads: the functions given run on any thread. Ownership: borrows store and log. */
#ifndef FITD_SERVER_DEPS_H
#define FITD_SERVER_DEPS_H

#include <stdatomic.h>

#include "api/api.h"
#include "server/addresses.h"
#include "server/log.h"
#include "server/scrape.h"
#include "server/zone.h"
#include "server/workers.h"
#include "storage/store.h"

struct deps {
  struct store *store;     /* NULL offline */
  struct log *log;         /* NULL: sentences go to standard error */
  atomic_bool is_stopping; /* makes the daemon not ready */
  struct addresses scrape_allow;
  struct scrape *scrape;    /* NULL: nothing is scraped here */
  struct zone *zone;        /* in which weeks are counted; NULL: that of the process */
  struct workers *workers;  /* that share out what one request computes; NULL: none */
  const char *review_teams; /* see api_deps; NULL = none */
};
void deps_fill(struct api_deps *out, struct deps *deps, size_t arena_bytes);

/* The same place for sentences, in the form that the store takes; cls is a struct deps. */
void deps_log(void *cls, const char *sentence);

#endif
