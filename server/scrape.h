/* Scraping: one thread that fetches every node's page at its interval with libcurl's multi interface, so that a slow target
   never holds up another, and gives what it saw to the api.
   Threads: start and stop from main; the rest happens on the scraper's own thread. */
#ifndef FITD_SERVER_SCRAPE_H
#define FITD_SERVER_SCRAPE_H

#include <stdint.h>

#include "server/addresses.h"
#include "server/log.h"

struct api;
struct scrape;

struct scrape_options {
  struct api *api;
  struct log *log;
  const struct addresses *allowed;
  size_t body_max_bytes;
};
enum err scrape_start(struct scrape **out, const struct scrape_options *options, struct error *e) MUST_CHECK;
void scrape_stop(struct scrape *scrape); /* NULL is allowed; breaks off what runs */

struct scrape_counts {
  uint64_t scrapes, failures;
  uint64_t late; /* begun more than a second after they were due */
  unsigned targets;
};
void scrape_count(struct scrape_counts *out, const struct scrape *scrape);

/* ---- The plan, in microseconds of any clock ---- */
/* When a target is scraped first: spread over the interval by its name, and by that the same after every start. */
int64_t scrape_first_due(const char *name, int64_t interval_us, int64_t now_us);
/* When next, after a scrape that was due at `due_us`: on the grid of the interval; after failures in a row fewer and fewer
   points of it, at least one in SCRAPE_BACK_OFF_MAX_S. */
#define SCRAPE_BACK_OFF_MAX_S 300
int64_t scrape_next_due(int64_t due_us, int64_t interval_us, unsigned failures, int64_t now_us);

#endif
