/* Nodes that tests watch without a network: requests to the API, and scrapes made up by hand at a virtual time. */
#ifndef FITD_TESTS_API_LIVE_FIXTURES_H
#define FITD_TESTS_API_LIVE_FIXTURES_H

#include <math.h>
#include <string.h>

#include "api/observation.h"
#include "tests/lib/doc.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static struct fake fake;

static void setup(void)
{
  fake_open(&fake, suite_dir());
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

/* The answer's document (null without one), which must have this status. */
static json_t *ask(const char *method, const char *path, const char *query, const char *body, unsigned status)
{
  const struct fake_request request = {.method = method,
                                       .path = path,
                                       .query = query,
                                       .body = body,
                                       .body_len = body != NULL ? strlen(body) : 0,
                                       .scope = SCOPE_ADMIN};
  struct api_response response;
  json_t *document;
  fake_send(&fake, &request, &response);
  ck_assert_msg(response.status == status, "%s %s: %u %.*s", method, path, response.status,
                (int)(response.bytes_len < 2000 ? response.bytes_len : 2000), response.bytes);
  document =
      response.bytes_len > 0 ? json_loadb(response.bytes, response.bytes_len, JSON_DECODE_ANY, NULL) : json_null();
  api_response_fini(&response);
  return scratch_json_steal(document);
}

static inline json_t *get(const char *path)
{
  return ask("GET", path, NULL, NULL, 200);
}

static inline void put_node(const char *name, const char *more)
{
  (void)ask("PUT", scratch_printf("/v1/nodes/%s", name), NULL,
            scratch_printf("{\"url\": \"http://10.0.0.7:9400/metrics\", \"profile\": \"h100-sxm-80gb\"%s}", more), 201);
}

/* A GPU of which nothing is known yet. */
static inline struct observed_gpu blank_gpu(const char *id)
{
  struct observed_gpu gpu = {.uuid = "GPU-1"};
  (void)snprintf(gpu.id, sizeof gpu.id, "%s", id);
  for (size_t q = 0; q < GPU_QUANTITIES; q++)
    gpu.quantities[q] = (double)NAN;
  return gpu;
}

/* Busy at a clock, with throttle reasons (negative: not known). */
static inline struct observed_gpu busy_gpu(const char *id, double clock_mhz, int reasons)
{
  struct observed_gpu gpu = blank_gpu(id);
  gpu.quantities[GPU_engine_active_ratio] = 0.95;
  gpu.quantities[GPU_sm_clock_mhz] = clock_mhz;
  gpu.quantities[GPU_sm_clock_max_mhz] = 1980;
  if (reasons >= 0)
    gpu.quantities[GPU_throttle_reasons] = reasons;
  return gpu;
}

static inline void blank_engine(struct observed_engine *engine)
{
  *engine = (struct observed_engine){.is_seen = true};
  for (size_t q = 0; q < ENGINE_QUANTITIES; q++)
    engine->quantities[q] = (double)NAN;
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++)
    buckets_init(&engine->histograms[h]);
}

/* One scrape now. */
static inline void observe(const char *node, struct observed_gpu *gpus, size_t count,
                           const struct observed_engine *engine)
{
  struct observation seen = {.gpus = gpus, .gpu_count = count, .sample_count = 10, .recognised_count = 5};
  const struct api_scrape scrape = {.node = node, .at_ms = fake.now_ms, .duration_ms = 4, .observation = &seen};
  if (engine != NULL)
    seen.engine = *engine;
  api_observe(fake.api, &scrape);
}

static inline void observe_failure(const char *node, const char *failure)
{
  const struct api_scrape scrape = {.node = node, .at_ms = fake.now_ms, .duration_ms = 5000, .failure = failure};
  api_observe(fake.api, &scrape);
}

static inline void store_observed(void)
{
  static const struct api_retention retention = {.minutes_days = 2, .hours_days = 30};
  struct error e;
  ck_assert_msg(api_store_observed(fake.api, &retention, &e) == ERR_OK, "%s", e.message);
}

static inline void pass_s(double seconds)
{
  fake.now_ms += (int64_t)(seconds * 1e3);
}

#endif
