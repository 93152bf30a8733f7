/* The world as the api sees it. */
#include "server/deps.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "server/clock.h"
#include "server/stats.h"

static int64_t now_ms(void *cls)
{
  (void)cls;
  return clock_unix_ms();
}

/* Up to 256 bytes the kernel gives whole and without fail once it is seeded; without randomness nothing may go on. */
static void random_bytes(void *cls, void *to, size_t count)
{
  char *at = to;
  (void)cls;
  while (count > 0) {
    size_t part = count < 256 ? count : 256;
    if (getrandom(at, part, 0) != (ssize_t)part)
      abort();
    at += part;
    count -= part;
  }
}

void deps_log(void *cls, const char *sentence)
{
  const struct deps *deps = cls;
  if (deps->log != NULL)
    log_write(deps->log, LOG_ERROR, "%s", sentence);
  else
    (void)fprintf(stderr, "fitd: %s\n", sentence);
}

static void not_ready_reason(void *cls, char *reason, size_t size)
{
  struct deps *deps = cls;
  struct error e = {.code = ERR_OK, .message = ""};
  reason[0] = '\0';
  if (atomic_load(&deps->is_stopping))
    (void)snprintf(reason, size, "fitd is shutting down");
  else if (deps->store != NULL && store_check(deps->store, &e) != ERR_OK)
    (void)snprintf(reason, size, "store: %s", e.message);
}

static enum err check_target(void *cls, const char *host, const char *port, struct error *e)
{
  const struct deps *deps = cls;
  return addresses_check_host(&deps->scrape_allow, host, port, e);
}

static void stats(void *cls, struct api_stats *out)
{
  const struct deps *deps = cls;
  struct scrape_counts counts;
  stats_process(out);
  if (deps->scrape == NULL)
    return;
  scrape_count(&counts, deps->scrape);
  out->scrapes = (double)counts.scrapes;
  out->scrape_failures = (double)counts.failures;
  out->scrapes_late = (double)counts.late;
}

static void run_all(void *cls, size_t count, void (*job)(void *job_cls, size_t index), void *job_cls)
{
  const struct deps *deps = cls;
  workers_run_all(deps->workers, count, job, job_cls);
}

static int utc_offset_s(void *cls, int64_t unix_ms)
{
  const struct deps *deps = cls;
  const time_t seconds = (time_t)(unix_ms / 1000);
  struct tm local;
  if (deps->zone != NULL)
    return zone_offset_s(deps->zone, unix_ms / 1000);
  return localtime_r(&seconds, &local) != NULL ? (int)local.tm_gmtoff : 0;
}

void deps_fill(struct api_deps *out, struct deps *deps, size_t arena_bytes)
{
  *out = (struct api_deps){.store = deps->store,
                           .now_ms = now_ms,
                           .random_bytes = random_bytes,
                           .log = deps_log,
                           .not_ready_reason = not_ready_reason,
                           .check_target = check_target,
                           .stats = stats,
                           .cls = deps,
                           .arena_bytes = arena_bytes,
                           .review_teams = deps->review_teams,
                           .run_all = run_all,
                           .utc_offset_s = utc_offset_s};
}
