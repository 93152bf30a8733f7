/* The scraper's thread: which targets there are, which are due, what is on its way, what came of it. */
#include "server/scrape.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/fetch.h"

#define RUNNING_MAX 256 /* more wait for their turn; also a bound on memory */
#define WAIT_MAX_MS 500 /* how late a change of the nodes is noticed */
#define LATE_US 1000000

struct target {
  struct api_target api;
  int64_t due_us, begun_us;
  unsigned failures;
  struct fetch *running; /* NULL = none */
};

struct scrape {
  struct scrape_options options;
  struct exporters *exporters;
  struct fetch_options fetch_options;
  CURLM *multi;
  pthread_t thread;
  atomic_bool is_stopping;
  struct target **targets; /* each of its own, so that a running fetch's stays where it is */
  size_t count, running_count;
  uint64_t version; /* of the targets, plus 1 */
  atomic_uint_fast64_t scrapes, failures, late;
  atomic_uint target_count;
};

/* ---- Targets ---- */

static void target_free(struct scrape *scrape, struct target *target)
{
  if (target->running != NULL) {
    (void)curl_multi_remove_handle(scrape->multi, fetch_easy(target->running));
    fetch_free(target->running);
    scrape->running_count--;
  }
  explicit_bzero(target, sizeof *target);
  free(target);
}

static bool is_same(const struct api_target *a, const struct api_target *b)
{
  return strcmp(a->url, b->url) == 0 && a->exporter == b->exporter && a->interval_ms == b->interval_ms &&
         a->timeout_ms == b->timeout_ms && strcmp(a->bearer_token, b->bearer_token) == 0 &&
         strcmp(a->username, b->username) == 0 && strcmp(a->password, b->password) == 0 &&
         strcmp(a->ca_file, b->ca_file) == 0 && strcmp(a->server_name, b->server_name) == 0;
}

/* The one of that name, taken out of the old list; NULL when there is none or it has changed. */
static struct target *take_same(struct scrape *scrape, const struct api_target *wanted)
{
  for (size_t i = 0; i < scrape->count; i++) {
    struct target *target = scrape->targets[i];
    if (target == NULL || strcmp(target->api.name, wanted->name) != 0)
      continue;
    if (!is_same(&target->api, wanted))
      return NULL;
    scrape->targets[i] = NULL;
    return target;
  }
  return NULL;
}

static struct target *target_new(const struct api_target *wanted)
{
  struct target *target = calloc(1, sizeof *target);
  if (target != NULL) {
    target->api = *wanted;
    target->due_us = scrape_first_due(wanted->name, wanted->interval_ms * INT64_C(1000), clock_monotonic_us());
  }
  return target;
}

/* Both lists are in order of name, yet short enough that looking through does not matter: it happens on changes only. */
static void replace_targets(struct scrape *scrape, const struct api_targets *wanted)
{
  struct target **fresh = calloc(wanted->count + 1, sizeof *fresh);
  size_t count = 0;
  if (fresh == NULL)
    return; /* tried again in a moment */
  for (size_t i = 0; i < wanted->count; i++) {
    struct target *target = take_same(scrape, &wanted->rows[i]);
    if (target == NULL)
      target = target_new(&wanted->rows[i]);
    if (target != NULL)
      fresh[count++] = target;
  }
  for (size_t i = 0; i < scrape->count; i++)
    if (scrape->targets[i] != NULL)
      target_free(scrape, scrape->targets[i]);
  free(scrape->targets);
  scrape->targets = fresh;
  scrape->count = count;
  atomic_store(&scrape->target_count, (unsigned)count);
}

static void follow_nodes(struct scrape *scrape)
{
  const uint64_t version = api_targets_version(scrape->options.api) + 1;
  struct api_targets targets;
  struct error e;
  if (version == scrape->version)
    return;
  if (api_targets_load(&targets, scrape->options.api, &e) != ERR_OK) {
    log_write(scrape->options.log, LOG_ERROR, "the nodes to scrape can not be read: %s", e.message);
    return;
  }
  replace_targets(scrape, &targets);
  api_targets_fini(&targets);
  scrape->version = version;
}

/* ---- Scrapes ---- */

static void report(struct scrape *scrape, struct target *target, const struct observation *seen, const char *failure)
{
  const int64_t now_us = clock_monotonic_us();
  const struct api_scrape result = {.node = target->api.name,
                                    .at_ms = clock_unix_ms(),
                                    .duration_ms = (unsigned)((now_us - target->begun_us) / 1000),
                                    .observation = seen,
                                    .failure = failure};
  if (seen == NULL && target->failures == 0)
    log_write(scrape->options.log, LOG_WARNING, "node %s: %s", target->api.name, failure);
  else if (seen != NULL && target->failures > 0)
    log_write(scrape->options.log, LOG_INFO, "node %s: answers again after %u failures", target->api.name,
              target->failures);
  target->failures = seen != NULL ? 0 : target->failures + 1;
  atomic_fetch_add(&scrape->scrapes, 1);
  atomic_fetch_add(&scrape->failures, seen == NULL);
  api_observe(scrape->options.api, &result);
  target->due_us = scrape_next_due(target->due_us, target->api.interval_ms * INT64_C(1000), target->failures, now_us);
}

static void begin(struct scrape *scrape, struct target *target, int64_t now_us)
{
  struct error e;
  target->begun_us = now_us;
  if (now_us - target->due_us > LATE_US)
    atomic_fetch_add(&scrape->late, 1);
  if (fetch_new(&target->running, &target->api, &scrape->fetch_options, &e) != ERR_OK) {
    target->running = NULL;
    report(scrape, target, NULL, e.message);
    return;
  }
  if (curl_multi_add_handle(scrape->multi, fetch_easy(target->running)) != CURLM_OK) {
    fetch_free(target->running);
    target->running = NULL;
    report(scrape, target, NULL, "a scrape can not be begun");
    return;
  }
  scrape->running_count++;
}

/* Begins what is due; returns when the next is, in microseconds from now. */
static int64_t begin_due(struct scrape *scrape)
{
  const int64_t now_us = clock_monotonic_us();
  int64_t wait_us = WAIT_MAX_MS * INT64_C(1000);
  for (size_t i = 0; i < scrape->count; i++) {
    struct target *target = scrape->targets[i];
    if (target->running != NULL)
      continue;
    if (target->due_us <= now_us && scrape->running_count < RUNNING_MAX)
      begin(scrape, target, now_us);
    else if (target->due_us > now_us && target->due_us - now_us < wait_us)
      wait_us = target->due_us - now_us;
  }
  return wait_us;
}

static struct target *running_target(const struct scrape *scrape, CURL *easy)
{
  for (size_t i = 0; i < scrape->count; i++)
    if (scrape->targets[i]->running != NULL && fetch_easy(scrape->targets[i]->running) == easy)
      return scrape->targets[i];
  return NULL;
}

static void end_finished(struct scrape *scrape)
{
  CURLMsg *message;
  int left;
  while ((message = curl_multi_info_read(scrape->multi, &left)) != NULL) {
    const CURLcode code = message->data.result;
    struct target *target = running_target(scrape, message->easy_handle);
    const struct observation *seen;
    const char *failure;
    if (message->msg != CURLMSG_DONE || target == NULL)
      continue;
    (void)curl_multi_remove_handle(scrape->multi, message->easy_handle);
    if (!fetch_result(&seen, &failure, target->running, code))
      seen = NULL;
    report(scrape, target, seen, failure);
    fetch_free(target->running);
    target->running = NULL;
    scrape->running_count--;
  }
}

static void *run(void *cls)
{
  struct scrape *scrape = cls;
  while (!atomic_load(&scrape->is_stopping)) {
    int64_t wait_us;
    int running;
    follow_nodes(scrape);
    wait_us = begin_due(scrape);
    if (curl_multi_perform(scrape->multi, &running) != CURLM_OK ||
        curl_multi_poll(scrape->multi, NULL, 0, (int)((wait_us + 999) / 1000), NULL) != CURLM_OK)
      log_write(scrape->options.log, LOG_ERROR, "libcurl's multi interface fails");
    end_finished(scrape);
  }
  return NULL;
}

/* ---- Life ---- */

enum err scrape_start(struct scrape **out, const struct scrape_options *options, struct error *e)
{
  struct scrape *scrape = calloc(1, sizeof *scrape);
  enum err code;
  if (scrape == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the scraper");
  scrape->options = *options;
  code = exporters_open(&scrape->exporters, e);
  scrape->fetch_options = (struct fetch_options){scrape->exporters, options->allowed, options->body_max_bytes};
  scrape->multi = curl_multi_init();
  if (code == ERR_OK && (scrape->multi == NULL || pthread_create(&scrape->thread, NULL, run, scrape) != 0))
    code = error_set(e, ERR_UNAVAILABLE, "", "the scraper can not be started");
  if (code != ERR_OK) {
    (void)curl_multi_cleanup(scrape->multi);
    exporters_close(scrape->exporters);
    free(scrape);
    return code;
  }
  *out = scrape;
  return ERR_OK;
}

void scrape_stop(struct scrape *scrape)
{
  if (scrape == NULL)
    return;
  atomic_store(&scrape->is_stopping, true);
  (void)curl_multi_wakeup(scrape->multi);
  (void)pthread_join(scrape->thread, NULL);
  for (size_t i = 0; i < scrape->count; i++)
    target_free(scrape, scrape->targets[i]);
  free(scrape->targets);
  (void)curl_multi_cleanup(scrape->multi);
  exporters_close(scrape->exporters);
  free(scrape);
}

void scrape_count(struct scrape_counts *out, const struct scrape *scrape)
{
  *out = (struct scrape_counts){.targets = 0};
  if (scrape == NULL)
    return;
  *out = (struct scrape_counts){atomic_load(&scrape->scrapes), atomic_load(&scrape->failures),
                                atomic_load(&scrape->late), atomic_load(&scrape->target_count)};
}
