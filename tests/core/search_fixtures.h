/* Sketches for the tests of the search, resolved the way core/search.h describes its input, and what is asked of them. */
#ifndef FITD_TESTS_CORE_SEARCH_FIXTURES_H
#define FITD_TESTS_CORE_SEARCH_FIXTURES_H

#include "core/search.h"
#include "tests/core/fixtures.h"

/* One sketch on one device. */
struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
  struct search_input input;
};

static inline void problem_resolve(struct problem *p, double usd, double unit)
{
  struct search_input *input = &p->input;
  memset(input, 0, sizeof *input);
  input->workload = &p->workload;
  input->model = &p->model;
  input->hardware = &p->hardware;
  fixture_set_precision(&input->precision, PRECISION_BF16);
  input->load_share_ratio = 1;
  ck_assert_int_eq(preset_resolve(&input->preset, &p->workload.serving, &p->hardware, NULL), ERR_OK);
  p->hardware.price_count = 0;
  if (!isnan(usd))
    fixture_add_price(&p->hardware, "a cloud", "an instance", unit, usd, "");
  input->prompt_tokens = p->workload.traffic.input.fixed_tokens;
  input->output_tokens = input->median_output_tokens = p->workload.traffic.output.fixed_tokens;
}

static inline void problem_init(struct problem *p, const char *device, const char *model)
{
  p->hardware = fixture_hardware(device);
  p->model = fixture_model(model);
  p->workload = fixture_workload();
  p->workload.targets.itl_ms.p50 = 80;
  p->workload.serving.pipeline_parallel = 1;
  problem_resolve(p, 2, 1);
}

static inline void problem_search(struct search_result *result, const struct problem *p)
{
  ck_assert_int_eq(search_best(result, &p->input, 1, NULL, NULL, NULL), ERR_OK);
}

static inline struct steady_load problem_load(const struct problem *p, unsigned replicas)
{
  const struct workload_traffic *traffic = &p->workload.traffic;
  const struct steady_load load = {.kind = traffic->load,
                                   .is_poisson = traffic->arrival == ARRIVAL_POISSON,
                                   .requests_per_s = traffic->requests_per_s / replicas,
                                   .users = traffic->concurrency / replicas,
                                   .prompt_tokens = p->input.prompt_tokens,
                                   .output_tokens = p->input.output_tokens};
  return load;
}

static inline bool problem_meets(const struct steady_state *state, const struct problem *p)
{
  const struct workload_targets *t = &p->workload.targets;
  return !state->is_saturated && !(state->ttft_s * 1e3 > t->ttft_ms.p50) && !(state->ttft_s * 1e3 > t->ttft_ms.p99) &&
         !(state->itl_s * 1e3 > t->itl_ms.p50) && !(state->itl_s * 1e3 > t->itl_ms.p99) &&
         !(state->e2e_s * 1e3 > t->e2e_ms.p50);
}

static inline void problem_random(struct problem *p, uint64_t *seed)
{
  static const char *const devices[] = {"h100-sxm-80gb",  "a100-sxm-80gb",          "a100-pcie-80gb", "l40s-48gb",
                                        "b200-sxm-180gb", "rtxpro6000-server-96gb", "mi300x-192gb",   "t4-16gb"};
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "qwen2-7b", "phi-4", "llama-2-7b", "qwen2-72b"};
  struct workload_targets *targets;
  problem_init(p, devices[fixture_random_index(seed, FIXTURE_COUNT(devices))],
               models[fixture_random_index(seed, FIXTURE_COUNT(models))]);
  targets = &p->workload.targets;
  p->workload.traffic.input.fixed_tokens = floor(exp(fixture_random(seed, log(16), log(3000))));
  p->workload.traffic.output.fixed_tokens = floor(exp(fixture_random(seed, log(8), log(1000))));
  p->workload.traffic.requests_per_s = exp(fixture_random(seed, log(0.01), log(20)));
  p->workload.traffic.arrival = fixture_random(seed, 0, 1) < 0.5 ? ARRIVAL_POISSON : ARRIVAL_STEADY;
  targets->itl_ms.p50 = exp(fixture_random(seed, log(8), log(200)));
  p->workload.serving.max_batch = 1 + fixture_random_index(seed, 1024); /* an open one is the search's to settle */
  if (fixture_random(seed, 0, 1) < 0.5)
    targets->ttft_ms.p99 = exp(fixture_random(seed, log(50), log(5000)));
  if (fixture_random(seed, 0, 1) < 0.3)
    targets->e2e_ms.p50 = exp(fixture_random(seed, log(1000), log(60000)));
  if (fixture_random(seed, 0, 1) < 0.3)
    p->workload.constraints.gpu_quota = 1 + fixture_random_index(seed, 24);
  problem_resolve(p, fixture_random(seed, 0, 1) < 0.3 ? (double)NAN : exp(fixture_random(seed, 0, 2)),
                  fixture_random(seed, 0, 1) < 0.5 ? 1 : 8);
}

#endif
