/* The search against plain enumeration, and the wishes of a sketch that it must respect. */
#include "core/search.h"

#include "core/parallel.h"
#include "tests/core/fixtures.h"

/* One sketch on one device, resolved the way core/search.h describes its input. */
struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
  struct search_input input;
};

static void problem_resolve(struct problem *p, double usd, double unit)
{
  struct search_input *input = &p->input;
  memset(input, 0, sizeof *input);
  input->workload = &p->workload;
  input->model = &p->model;
  input->hardware = &p->hardware;
  fixture_set_precision(&input->precision, PRECISION_BF16);
  ck_assert_int_eq(preset_resolve(&input->preset, &p->workload.serving, &p->hardware, NULL), ERR_OK);
  p->hardware.price_count = 0;
  if (!isnan(usd))
    fixture_add_price(&p->hardware, "a cloud", "an instance", unit, usd, "");
  input->prompt_tokens = p->workload.traffic.input.fixed_tokens;
  input->output_tokens = input->median_output_tokens = p->workload.traffic.output.fixed_tokens;
}

static void problem_init(struct problem *p, const char *device, const char *model)
{
  p->hardware = fixture_hardware(device);
  p->model = fixture_model(model);
  p->workload = fixture_workload();
  p->workload.targets.itl_ms.p50 = 80;
  p->workload.serving.pipeline_parallel = 1;
  problem_resolve(p, 2, 1);
}

static void search(struct search_result *result, const struct problem *p)
{
  ck_assert_int_eq(search_best(result, &p->input, NULL, NULL, NULL), ERR_OK);
}

/* ---- enumeration ---- */

struct choice {
  bool exists;
  unsigned tp, replicas, billed_gpus;
  double utilisation;
  double cost; /* a request; GPUs per request rate without a price */
};

static struct steady_load load_of(const struct problem *p, unsigned replicas)
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

static bool meets(const struct steady_state *state, const struct problem *p)
{
  const struct workload_targets *t = &p->workload.targets;
  return !state->is_saturated && !(state->ttft_s * 1e3 > t->ttft_ms.p50) && !(state->ttft_s * 1e3 > t->ttft_ms.p99) &&
         !(state->itl_s * 1e3 > t->itl_ms.p50) && !(state->itl_s * 1e3 > t->itl_ms.p99) &&
         !(state->e2e_s * 1e3 > t->e2e_ms.p50);
}

/* Cheaper, then fewer GPUs to pay, fewer replicas, more headroom. */
static bool beats(const struct choice *a, const struct choice *b)
{
  if (fabs(a->cost - b->cost) > 1e-9 * b->cost)
    return a->cost < b->cost;
  if (a->billed_gpus != b->billed_gpus)
    return a->billed_gpus < b->billed_gpus;
  if (a->replicas != b->replicas)
    return a->replicas < b->replicas;
  return a->utilisation < b->utilisation;
}

static void try_fleets(struct choice *best, const struct problem *p, unsigned tp, unsigned most_replicas)
{
  const struct layout layout = {tp, 1, 1, 1};
  const struct engine engine =
      step_engine(&p->model, &p->hardware, &layout, &p->input.precision, PRECISION_NONE, &p->input.preset);
  const double prompt = p->input.prompt_tokens, output = p->input.output_tokens;
  struct memory_plan memory;
  double limit;
  bool is_kv;
  memory_plan(&memory, &p->model, &p->hardware, &layout, &p->input.precision, &p->input.preset);
  if (memory.kv_cache_bytes <
      memory_sequence_bytes(&p->model, &layout, &p->input.precision, &p->input.preset, prompt + output))
    return;
  limit = fmax(1, steady_batch_limit(&is_kv, &engine, &memory, prompt, output));
  for (unsigned replicas = 1; replicas <= most_replicas; replicas++) {
    const struct steady_load load = load_of(p, replicas);
    const unsigned gpus = replicas * tp, quota = p->workload.constraints.gpu_quota;
    struct steady_state state;
    const struct price price = cost_price(&p->hardware, &p->workload.constraints, tp);
    double cost;
    if (quota != 0 && gpus > quota)
      break;
    steady_evaluate(&state, &engine, &load, limit);
    if (!meets(&state, p))
      continue;
    cost = isnan(price.usd_per_gpu_hour) ? gpus : price.usd_per_gpu_hour * cost_billed_gpus(&price, gpus) / 3600;
    cost /= state.requests_per_s * replicas;
    const struct choice choice = {true, tp, replicas, cost_billed_gpus(&price, gpus), state.utilisation_ratio, cost};
    if (!best->exists || beats(&choice, best))
      *best = choice;
  }
}

static struct choice enumerate(const struct problem *p, unsigned most_replicas)
{
  struct choice best = {false, 0, 0, 0, 0, 0};
  char why[192];
  for (unsigned tp = 1; tp <= 8; tp++) {
    const struct layout layout = {tp, 1, 1, 1};
    if (parallel_check(why, sizeof why, &p->model, &p->hardware, &layout))
      try_fleets(&best, p, tp, most_replicas);
  }
  return best;
}

static void random_problem(struct problem *p, uint64_t *seed)
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

static void assert_same(const struct search_result *result, const struct choice *best, const struct problem *p, int i)
{
  const struct candidate *found = &result->best;
  ck_assert_msg(result->fits == best->exists, "sketch %d, %s on %s: search %s (%s), enumeration %s: tp %u × %u", i,
                p->model.name, p->hardware.name, result->fits ? "fits" : "does not fit", result->detail,
                best->exists ? "fits" : "does not fit", best->tp, best->replicas);
  if (!best->exists)
    return;
  ck_assert_msg(found->layout.tensor_parallel == best->tp && found->replicas == best->replicas &&
                    found->replicas * found->layout.tensor_parallel == found->gpus,
                "sketch %d, %s on %s: tp %u × %u, enumeration tp %u × %u", i, p->model.name, p->hardware.name,
                found->layout.tensor_parallel, found->replicas, best->tp, best->replicas);
  if (!isnan(found->usd_per_request))
    assert_close(found->usd_per_request, best->cost, 1e-9);
}

START_TEST(the_answer_is_that_of_plain_enumeration)
{
  static struct problem p;
  uint64_t seed = 2026;
  unsigned fits = 0;
  for (int i = 0; i < 200; i++) {
    struct search_result result;
    struct choice best;
    random_problem(&p, &seed);
    best = enumerate(&p, 80);
    search(&result, &p);
    if (result.fits && result.best.replicas > 80)
      continue; /* beyond what was enumerated */
    assert_same(&result, &best, &p, i);
    fits += best.exists;
  }
  ck_assert_msg(fits >= 60 && fits <= 180, "%u of 200 sketches fit: both outcomes must be exercised", fits);
}
END_TEST

/* Users of a closed loop; devices rented one by one. */
START_TEST(the_answer_for_users_is_that_of_plain_enumeration)
{
  static struct problem p;
  uint64_t seed = 7;
  unsigned fits = 0;
  for (int i = 0; i < 60; i++) {
    struct search_result result;
    struct choice best;
    random_problem(&p, &seed);
    fixture_close_loop(&p.workload, floor(exp(fixture_random(&seed, 0, 5))));
    problem_resolve(&p, 2, 1);
    best = enumerate(&p, 150);
    search(&result, &p);
    assert_same(&result, &best, &p, i);
    fits += best.exists;
  }
  ck_assert_msg(fits >= 15, "%u fit", fits);
}
END_TEST

/* ---- wishes ---- */

START_TEST(explicit_layouts_are_respected)
{
  static struct problem p;
  struct search_result result;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.tensor_parallel = 4;
  p.workload.serving.pipeline_parallel = 2;
  p.workload.serving.replicas = 3;
  problem_resolve(&p, 2, 1);
  search(&result, &p);
  ck_assert(result.has_candidate);
  ck_assert_uint_eq(result.best.layout.tensor_parallel, 4);
  ck_assert_uint_eq(result.best.layout.pipeline_parallel, 2);
  ck_assert_uint_eq(result.best.replicas, 3);
  ck_assert_uint_eq(result.best.gpus, 24);
}
END_TEST

START_TEST(an_impossible_layout_is_named)
{
  static struct problem p;
  struct search_result result;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.tensor_parallel = 3;
  problem_resolve(&p, 2, 1);
  search(&result, &p);
  ck_assert(!result.has_candidate && !result.fits);
  ck_assert_int_eq(result.reason, NO_FIT_LAYOUT_IMPOSSIBLE);
  ck_assert_msg(strstr(result.detail, "tensor_parallel 3") != NULL &&
                    strstr(result.detail, "nearest possible: 2") != NULL,
                "\"%s\"", result.detail);
}
END_TEST

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
    search(&result, &p);
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

START_TEST(headroom_adds_replicas)
{
  static struct problem p;
  struct search_result without, with;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.requests_per_s = 60;
  p.workload.serving.tensor_parallel = 1;
  problem_resolve(&p, 2, 1);
  search(&without, &p);
  ck_assert(without.fits);
  for (double wanted = 0.1; wanted < 0.95; wanted += 0.1) {
    p.workload.targets.headroom_ratio = wanted;
    search(&with, &p);
    ck_assert_msg(with.fits && with.best.margin_to_knee_ratio >= wanted, "wanted %g, got %g with %u replicas (%s)",
                  wanted, with.best.margin_to_knee_ratio, with.best.replicas, with.detail);
    ck_assert_uint_ge(with.best.replicas, without.best.replicas);
    /* not more than needed: one replica less has too little */
    p.workload.serving.replicas = with.best.replicas - 1;
    if (p.workload.serving.replicas > 0) {
      search(&without, &p);
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
  search(&result, &p);
  ck_assert(result.fits);
  scale = result.best.knee_requests_per_s / 5;
  ck_assert_msg(scale > 1, "knee %g", result.best.knee_requests_per_s);
  search_state_at(&state, &p.input, &result.best, 2, scale);
  ck_assert(meets(&state, &p));
  search_state_at(&state, &p.input, &result.best, 2, scale * 1.001);
  ck_assert(!meets(&state, &p));
  assert_close(result.best.margin_to_knee_ratio, 1 - 1 / scale, 1e-9);
}
END_TEST

START_TEST(limits_that_even_an_idle_fleet_misses_are_missed)
{
  static struct problem p;
  struct search_result result;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.targets.itl_ms.p50 = 0.1;
  problem_resolve(&p, 2, 1);
  search(&result, &p);
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
  search(&result, &p);
  ck_assert(!result.has_candidate);
  ck_assert_int_eq(result.reason, NO_FIT_WEIGHTS_EXCEED_MEMORY);
  p.workload.constraints.gpu_quota = 2;
  search(&result, &p);
  ck_assert_msg(result.fits && result.best.gpus == 2, "%s", result.detail);
  p.workload.traffic.requests_per_s = 200;
  search(&result, &p);
  ck_assert(!result.fits && result.has_candidate);
  ck_assert_uint_le(result.best.gpus, 2);
  ck_assert_uint_gt(strlen(result.detail), 10);
  p.workload.constraints.gpu_quota = 0;
  search(&result, &p);
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
  search(&result, &p);
  ck_assert(!result.has_candidate && result.has_tightest);
  ck_assert_int_eq(result.reason, NO_FIT_NO_ROOM_FOR_KV_CACHE);
  p.workload.serving.memory_fraction_ratio = 0.1;
  problem_resolve(&p, 2, 1);
  search(&result, &p);
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
  search(&result, &p);
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
    search(&result, &p);
    ck_assert_msg(result.has_candidate, "%s: %s", devices[i], result.detail);
    ck_assert(result.best.batch_limit >= 1 && result.best.batch_limit <= p.input.preset.max_batch);
    ck_assert(result.best.batch_limit *
                  memory_sequence_bytes(&p.model, &result.best.layout, &p.input.precision, &p.input.preset, 2048) <=
              result.best.memory.kv_cache_bytes * (1 + 1e-9));
  }
}
END_TEST

static bool stop_after(void *cls)
{
  unsigned *left = cls;
  return (*left)-- == 0;
}

START_TEST(stop_cancels_at_once_and_later)
{
  static struct problem p;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  for (unsigned after = 0; after < 3; after++) {
    struct search_result result;
    struct error e;
    unsigned left = after;
    ck_assert_int_eq(search_best(&result, &p.input, stop_after, &left, &e), ERR_CANCELLED);
    ck_assert_int_eq(e.code, ERR_CANCELLED);
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("search");
  tcase_add_test(tcase, the_answer_is_that_of_plain_enumeration);
  tcase_add_test(tcase, the_answer_for_users_is_that_of_plain_enumeration);
  tcase_add_test(tcase, explicit_layouts_are_respected);
  tcase_add_test(tcase, an_impossible_layout_is_named);
  tcase_add_test(tcase, more_replicas_are_not_slower);
  tcase_add_test(tcase, headroom_adds_replicas);
  tcase_add_test(tcase, the_knee_is_the_last_rate_that_meets_the_limits);
  tcase_add_test(tcase, limits_that_even_an_idle_fleet_misses_are_missed);
  tcase_add_test(tcase, the_quota_is_a_bound);
  tcase_add_test(tcase, room_for_weights_without_room_for_a_request_is_told_apart);
  tcase_add_test(tcase, many_users_get_many_replicas);
  tcase_add_test(tcase, an_open_batch_limit_is_what_the_pool_runs);
  tcase_add_test(tcase, stop_cancels_at_once_and_later);
  return fixture_run("core/search", tcase);
}
