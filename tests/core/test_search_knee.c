/* How much load one replica bears: the knee of fleets, the fewest replicas, headroom. */
#include "core/search_int.h"

#include "tests/core/search_fixtures.h"

START_TEST(headroom_adds_replicas)
{
  static struct problem p;
  struct search_result without, with;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.requests_per_s = 60;
  p.workload.serving.tensor_parallel = 1;
  problem_resolve(&p, 2, 1);
  problem_search(&without, &p);
  ck_assert(without.fits);
  for (double wanted = 0.1; wanted < 0.95; wanted += 0.1) {
    p.workload.targets.headroom_ratio = wanted;
    problem_search(&with, &p);
    ck_assert_msg(with.fits && with.best.margin_to_knee_ratio >= wanted, "wanted %g, got %g with %u replicas (%s)",
                  wanted, with.best.margin_to_knee_ratio, with.best.replicas, with.detail);
    ck_assert_uint_ge(with.best.replicas, without.best.replicas);
    /* not more than needed: one replica less has too little */
    p.workload.serving.replicas = with.best.replicas - 1;
    if (p.workload.serving.replicas > 0) {
      problem_search(&without, &p);
      ck_assert_msg(without.best.margin_to_knee_ratio < wanted || !without.fits, "wanted %g: %u replicas would do",
                    wanted, p.workload.serving.replicas);
    }
    p.workload.serving.replicas = 0;
  }
}
END_TEST

/* The knee: at it every latency limit is met, a little beyond one is missed or the replica saturates. */
START_TEST(the_knee_is_the_last_rate_that_meets_the_limits)
{
  static struct problem p;
  struct search_result result;
  struct steady_state state;
  double scale;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.requests_per_s = 5;
  p.workload.targets.itl_ms.p50 = 20;
  p.workload.serving.replicas = 2;
  p.workload.serving.tensor_parallel = 1;
  problem_resolve(&p, 2, 1);
  problem_search(&result, &p);
  ck_assert(result.fits);
  scale = result.best.knee_requests_per_s / 5;
  ck_assert_msg(scale > 1, "knee %g", result.best.knee_requests_per_s);
  search_state_at(&state, &p.input, &result.best, 2, scale);
  ck_assert(problem_meets(&state, &p));
  search_state_at(&state, &p.input, &result.best, 2, scale * 1.001);
  ck_assert(!problem_meets(&state, &p));
  assert_close(result.best.margin_to_knee_ratio, 1 - 1 / scale, 1e-9);
}
END_TEST

/* A sketch with limits on latency and a headroom, one layout held, for users or a rate. */
static void problem_with_headroom(struct problem *p, uint64_t *seed, double headroom)
{
  problem_random(p, seed);
  p->workload.constraints.gpu_quota = 0;
  p->workload.serving.tensor_parallel = 1u << fixture_random_index(seed, 4);
  p->workload.targets.ttft_ms.p50 = exp(fixture_random(seed, log(200), log(5000)));
  p->workload.targets.itl_ms.p50 = exp(fixture_random(seed, log(15), log(200)));
  p->workload.targets.headroom_ratio = headroom;
}

/* Each replica of a fleet sees its share of the load, so the fleet's knee is that of one, times their number: at it every
   limit holds, a hair beyond one is missed. */
START_TEST(the_knee_of_a_fleet_is_that_of_its_replicas)
{
  static const unsigned fleets[] = {1, 2, 3, 7, 64};
  static struct problem p;
  uint64_t seed = 31;
  unsigned found = 0;
  for (int i = 0; i < (int)suite_rounds(60); i++) {
    double each = (double)NAN;
    problem_with_headroom(&p, &seed, (double)NAN);
    if (i % 2 == 0)
      fixture_close_loop(&p.workload, floor(exp(fixture_random(&seed, 0, 6))));
    for (size_t k = 0; k < FIXTURE_COUNT(fleets); k++) {
      struct search_result result;
      struct steady_state state;
      p.workload.serving.replicas = fleets[k];
      problem_resolve(&p, 2, 1);
      problem_search(&result, &p);
      if (!result.has_candidate || !(result.best.knee_requests_per_s > 0))
        continue;
      if (isnan(each))
        each = result.best.knee_requests_per_s / fleets[k];
      assert_close(result.best.knee_requests_per_s, each * fleets[k], 1e-6);
      search_state_at(&state, &p.input, &result.best, 1, result.best.limit_scale * (1 - 1e-6));
      ck_assert(search_latency_excess(&p.input, &p.workload.targets, &state) <= 0);
      search_state_at(&state, &p.input, &result.best, 1, result.best.limit_scale * (1 + 1e-5));
      ck_assert_msg(search_latency_excess(&p.input, &p.workload.targets, &state) > 0 ||
                        result.best.limit_scale * p.workload.traffic.concurrency > 3.99 * result.best.batch_limit,
                    "sketch %d: more than %g of the load would do", i, result.best.limit_scale);
      found++;
    }
  }
  ck_assert_uint_ge(found, suite_rounds(60));
}
END_TEST

/* A limit that a request alone misses has no knee. */
START_TEST(without_a_load_that_holds_there_is_no_knee)
{
  static struct problem p;
  struct search_result result;
  for (int is_closed = 0; is_closed < 2; is_closed++) {
    problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
    p.workload.targets.itl_ms.p50 = 0.1;
    if (is_closed)
      fixture_close_loop(&p.workload, 10);
    problem_resolve(&p, 2, 1);
    problem_search(&result, &p);
    ck_assert(result.has_candidate && !result.fits);
    ck_assert(!(result.best.knee_requests_per_s > 0));
    ck_assert(isnan(result.best.margin_to_knee_ratio));
  }
}
END_TEST

/* By enumeration: the first fleet, no larger than there are users, that meets the limits with so much left. */
static unsigned fewest_by_enumeration(const struct problem *p, const struct candidate *candidate, unsigned users)
{
  const struct workload_targets *targets = &p->workload.targets;
  const double knee_each = candidate->knee_requests_per_s / candidate->replicas;
  for (unsigned replicas = 1; replicas <= users; replicas++) {
    struct steady_state state;
    search_state_at(&state, &p->input, candidate, replicas, 1);
    if (search_latency_excess(&p->input, targets, &state) <= 0 &&
        state.requests_per_s <= (1 - targets->headroom_ratio) * knee_each)
      return replicas;
  }
  return 0;
}

START_TEST(headroom_for_users_takes_the_fewest_replicas)
{
  static struct problem p;
  uint64_t seed = 77;
  unsigned fits = 0, misses = 0;
  for (int i = 0; i < (int)suite_rounds(150); i++) {
    const unsigned users = 1 + (unsigned)exp(fixture_random(&seed, 0, 6));
    struct search_result result;
    unsigned fewest;
    problem_with_headroom(&p, &seed, fixture_random(&seed, 0.05, 0.98));
    fixture_close_loop(&p.workload, users);
    problem_resolve(&p, 2, 1);
    problem_search(&result, &p);
    if (!result.has_candidate || !(result.best.knee_requests_per_s > 0))
      continue;
    ck_assert_uint_le(result.best.replicas, users);
    fewest = fewest_by_enumeration(&p, &result.best, users);
    ck_assert_msg(result.fits == (fewest != 0), "sketch %d: %u replicas for %u users, %u by enumeration", i,
                  result.best.replicas, users, fewest);
    if (fewest != 0)
      ck_assert_uint_eq(result.best.replicas, fewest);
    fits += fewest != 0;
    misses += fewest == 0;
  }
  ck_assert_msg(fits >= suite_rounds(20) && misses >= suite_rounds(3), "%u fit, %u do not", fits, misses);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("search_knee");
  tcase_add_test(tcase, headroom_adds_replicas);
  tcase_add_test(tcase, headroom_for_users_takes_the_fewest_replicas);
  tcase_add_test(tcase, the_knee_is_the_last_rate_that_meets_the_limits);
  tcase_add_test(tcase, the_knee_of_a_fleet_is_that_of_its_replicas);
  tcase_add_test(tcase, without_a_load_that_holds_there_is_no_knee);
  return fixture_run("core/search_knee", tcase);
}
