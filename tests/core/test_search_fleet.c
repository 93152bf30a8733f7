/* One layout as a fleet: replicas, quota, batch limit. */
#include "core/search_int.h"

#include "tests/core/search_fixtures.h"

START_TEST(more_replicas_are_not_slower)
{
  static struct problem p;
  struct search_result result;
  double ttft = (double)INFINITY, itl = (double)INFINITY, e2e = (double)INFINITY;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.traffic.requests_per_s = 4;
  p.workload.serving.tensor_parallel = 4;
  for (unsigned replicas = 1; replicas <= 12; replicas++) {
    p.workload.serving.replicas = replicas;
    problem_resolve(&p, 2, 1);
    problem_search(&result, &p);
    if (result.best.state.is_saturated)
      continue;
    ck_assert_msg(result.best.state.ttft_s <= ttft * 1.001 && result.best.state.itl_s <= itl * 1.001 &&
                      result.best.state.e2e_s <= e2e * 1.001,
                  "%u replicas: ttft %g itl %g e2e %g, with one less %g %g %g", replicas, result.best.state.ttft_s,
                  result.best.state.itl_s, result.best.state.e2e_s, ttft, itl, e2e);
    ttft = result.best.state.ttft_s;
    itl = result.best.state.itl_s;
    e2e = result.best.state.e2e_s;
  }
  ck_assert(isfinite(ttft));
}
END_TEST

START_TEST(limits_that_even_an_idle_fleet_misses_are_missed)
{
  static struct problem p;
  struct search_result result;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.targets.itl_ms.p50 = 0.1;
  problem_resolve(&p, 2, 1);
  problem_search(&result, &p);
  ck_assert(result.has_candidate && !result.fits);
  ck_assert_int_eq(result.reason, NO_FIT_TARGETS_MISSED);
  ck_assert(result.best.worst_excess > 0);
  ck_assert_uint_gt(strlen(result.detail), 10);
}
END_TEST

/* 70B needs two H100 at least (test_memory). One is refused for memory; two are enough for little; many requests are not
   served by two: with the quota the queue grows or targets are missed, without it there is a fleet. */
START_TEST(the_quota_is_a_bound)
{
  static struct problem p;
  struct search_result result;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.constraints.gpu_quota = 1;
  p.workload.traffic.requests_per_s = 0.1;
  problem_resolve(&p, 2, 1);
  problem_search(&result, &p);
  ck_assert(!result.has_candidate);
  ck_assert_int_eq(result.reason, NO_FIT_WEIGHTS_EXCEED_MEMORY);
  p.workload.constraints.gpu_quota = 2;
  problem_search(&result, &p);
  ck_assert_msg(result.fits && result.best.gpus == 2, "%s", result.detail);
  p.workload.traffic.requests_per_s = 200;
  problem_search(&result, &p);
  ck_assert(!result.fits && result.has_candidate);
  ck_assert_uint_le(result.best.gpus, 2);
  ck_assert_uint_gt(strlen(result.detail), 10);
  p.workload.constraints.gpu_quota = 0;
  problem_search(&result, &p);
  ck_assert_msg(result.fits && result.best.gpus > 8, "%s", result.detail);
}
END_TEST

START_TEST(room_for_weights_without_room_for_a_request_is_told_apart)
{
  static struct problem p;
  struct search_result result;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.tensor_parallel = 1;
  p.workload.serving.memory_fraction_ratio = 0.25; /* 19.8 GiB: weights 15.0, activation 1.9, buffers 0.25: 2.7 left */
  p.workload.traffic.input.fixed_tokens = 60000;   /* 7.3 GiB */
  problem_resolve(&p, 2, 1);
  problem_search(&result, &p);
  ck_assert(!result.has_candidate && result.has_tightest);
  ck_assert_int_eq(result.reason, NO_FIT_NO_ROOM_FOR_KV_CACHE);
  p.workload.serving.memory_fraction_ratio = 0.1;
  problem_resolve(&p, 2, 1);
  problem_search(&result, &p);
  ck_assert_int_eq(result.reason, NO_FIT_WEIGHTS_EXCEED_MEMORY);
}
END_TEST

/* One H100 runs about 200 of these requests at once (60 GiB of KV over 0.29 GB), so 20,000 users need some 100 replicas; a
   fleet is not refused for being large. */
START_TEST(many_users_get_many_replicas)
{
  static struct problem p;
  struct search_result result;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  fixture_close_loop(&p.workload, 20000);
  p.workload.serving.tensor_parallel = 1;
  p.workload.targets.ttft_ms.p50 = 1000;
  problem_resolve(&p, 2, 1);
  problem_search(&result, &p);
  ck_assert_msg(result.fits, "%s", result.detail);
  ck_assert_uint_ge(result.best.replicas, 90);
}
END_TEST

/* An open batch limit settles where the pool that is left beside its own sampler runs it. */
START_TEST(an_open_batch_limit_is_what_the_pool_runs)
{
  static const char *const devices[] = {"h100-sxm-80gb", "l40s-48gb", "a100-pcie-80gb"};
  for (size_t i = 0; i < FIXTURE_COUNT(devices); i++) {
    static struct problem p;
    struct search_result result;
    problem_init(&p, devices[i], "llama-3.1-8b");
    p.workload.traffic.requests_per_s = 0.1;
    problem_search(&result, &p);
    ck_assert_msg(result.has_candidate, "%s: %s", devices[i], result.detail);
    ck_assert(result.best.batch_limit >= 1 && result.best.batch_limit <= p.input.preset.max_batch);
    ck_assert(result.best.batch_limit *
                  memory_sequence_bytes(&p.model, &result.best.layout, &p.input.precision, &p.input.preset, 2048) <=
              result.best.memory.kv_cache_bytes * (1 + 1e-9));
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("search_fleet");
  tcase_add_test(tcase, more_replicas_are_not_slower);
  tcase_add_test(tcase, limits_that_even_an_idle_fleet_misses_are_missed);
  tcase_add_test(tcase, the_quota_is_a_bound);
  tcase_add_test(tcase, room_for_weights_without_room_for_a_request_is_told_apart);
  tcase_add_test(tcase, many_users_get_many_replicas);
  tcase_add_test(tcase, an_open_batch_limit_is_what_the_pool_runs);
  return fixture_run("core/search_fleet", tcase);
}
