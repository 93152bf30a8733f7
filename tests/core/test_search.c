/* The search against plain enumeration, and the wishes of a sketch that it must respect. */
#include "core/search.h"

#include "core/parallel.h"
#include "tests/core/search_fixtures.h"

/* ---- enumeration ---- */

struct choice {
  bool exists;
  struct layout layout;
  unsigned replicas, billed_gpus;
  double utilisation;
  double cost; /* a request; GPUs per request rate without a price */
};

/* Cheaper, then fewer GPUs to pay, fewer replicas and stages, more headroom, fewer GPUs, expert ranks, attention ranks. */
static bool beats(const struct choice *a, const struct choice *b)
{
  if (fabs(a->cost - b->cost) > 1e-9 * b->cost)
    return a->cost < b->cost;
  if (a->billed_gpus != b->billed_gpus)
    return a->billed_gpus < b->billed_gpus;
  if (a->replicas != b->replicas)
    return a->replicas < b->replicas;
  if (a->layout.pipeline_parallel != b->layout.pipeline_parallel)
    return a->layout.pipeline_parallel < b->layout.pipeline_parallel;
  if (fabs(a->utilisation - b->utilisation) > 1e-9)
    return a->utilisation < b->utilisation;
  if (parallel_gpus(&a->layout) != parallel_gpus(&b->layout))
    return parallel_gpus(&a->layout) < parallel_gpus(&b->layout);
  if (a->layout.expert_parallel != b->layout.expert_parallel)
    return a->layout.expert_parallel < b->layout.expert_parallel;
  return a->layout.attention_data_parallel < b->layout.attention_data_parallel;
}

/* False when the layout does not hold the model and a request. */
static bool try_fleets(struct choice *best, const struct problem *p, struct layout layout, unsigned most_replicas)
{
  const struct engine engine =
      step_engine(&p->model, &p->hardware, &layout, &p->input.precision, PRECISION_NONE, &p->input.preset);
  const double prompt = p->input.prompt_tokens, output = p->input.output_tokens;
  struct memory_plan memory;
  double limit;
  bool is_kv;
  memory_plan(&memory, &p->model, &p->hardware, &layout, &p->input.precision, &p->input.preset);
  if (memory.kv_cache_bytes <
      memory_sequence_bytes(&p->model, &layout, &p->input.precision, &p->input.preset, prompt + output))
    return false;
  limit = fmax(1, steady_batch_limit(&is_kv, &engine, &memory, prompt, output));
  for (unsigned replicas = 1; replicas <= most_replicas; replicas++) {
    const struct steady_load load = problem_load(p, replicas);
    const unsigned gpus = replicas * parallel_gpus(&layout), quota = p->workload.constraints.gpu_quota;
    struct steady_state state;
    const struct price price = cost_price(&p->hardware, &p->workload.constraints, layout.tensor_parallel);
    double cost;
    if (quota != 0 && gpus > quota)
      break;
    steady_evaluate(&state, &engine, &load, limit);
    if (!problem_meets(&state, p))
      continue;
    cost = isnan(price.usd_per_gpu_hour) ? gpus : price.usd_per_gpu_hour * cost_billed_gpus(&price, gpus) / 3600;
    cost /= state.requests_per_s * replicas;
    const struct choice choice = {true, layout, replicas, cost_billed_gpus(&price, gpus), state.utilisation_ratio,
                                  cost};
    if (!best->exists || beats(&choice, best))
      *best = choice;
  }
  return true;
}

/* The fewest stages that hold the model, and every doubling of them. */
static void try_stages(struct choice *best, const struct problem *p, struct layout layout, unsigned most_replicas)
{
  unsigned stages = 1;
  char why[192];
  while (stages <= 8) {
    layout.pipeline_parallel = stages;
    if (!parallel_check(why, sizeof why, &p->model, &p->hardware, &layout))
      return;
    stages = try_fleets(best, p, layout, most_replicas) ? 2 * stages : stages + 1;
  }
}

/* Every layout that core/parallel.h allows, without a thought of which could be any good. */
static struct choice enumerate_layouts(const struct problem *p, unsigned most_replicas)
{
  struct choice best = {.exists = false};
  for (unsigned tp = 1; tp <= 8; tp++)
    for (unsigned data = 1; data <= 8 / tp; data *= 2) {
      try_stages(&best, p, (struct layout){tp, 1, 1, data}, most_replicas);
      if (tp * data > 1)
        try_stages(&best, p, (struct layout){tp, 1, tp * data, data}, most_replicas);
    }
  return best;
}

static struct choice enumerate(const struct problem *p, unsigned most_replicas)
{
  struct choice best = {.exists = false};
  char why[192];
  for (unsigned tp = 1; tp <= 8; tp++) {
    const struct layout layout = {tp, 1, 1, 1};
    if (parallel_check(why, sizeof why, &p->model, &p->hardware, &layout))
      (void)try_fleets(&best, p, layout, most_replicas);
  }
  return best;
}

static void assert_same(const struct search_result *result, const struct choice *best, const struct problem *p, int i)
{
  const struct candidate *found = &result->best;
  const struct layout *a = &found->layout, *b = &best->layout;
  ck_assert_msg(result->fits == best->exists, "sketch %d, %s on %s: search %s (%s), enumeration %s: tp %u x %u", i,
                p->model.name, p->hardware.name, result->fits ? "fits" : "does not fit", result->detail,
                best->exists ? "fits" : "does not fit", b->tensor_parallel, best->replicas);
  if (!best->exists)
    return;
  ck_assert_msg(memcmp(a, b, sizeof *a) == 0 && found->replicas == best->replicas &&
                    found->replicas * parallel_gpus(a) == found->gpus,
                "sketch %d, %s on %s: tp %u pp %u ep %u dp %u x %u at %.12g, enumeration tp %u pp %u ep %u dp %u x %u "
                "at %.12g",
                i, p->model.name, p->hardware.name, a->tensor_parallel, a->pipeline_parallel, a->expert_parallel,
                a->attention_data_parallel, found->replicas, found->usd_per_request, b->tensor_parallel,
                b->pipeline_parallel, b->expert_parallel, b->attention_data_parallel, best->replicas, best->cost);
  if (!isnan(found->usd_per_request))
    assert_close(found->usd_per_request, best->cost, 1e-9);
}

START_TEST(the_answer_is_that_of_plain_enumeration)
{
  static struct problem p;
  uint64_t seed = 2026;
  unsigned fits = 0;
  for (int i = 0; i < (int)suite_rounds(200); i++) {
    struct search_result result;
    struct choice best;
    problem_random(&p, &seed);
    best = enumerate(&p, 80);
    problem_search(&result, &p);
    if (result.fits && result.best.replicas > 80)
      continue; /* beyond what was enumerated */
    assert_same(&result, &best, &p, i);
    fits += best.exists;
  }
  ck_assert_msg(fits >= suite_rounds(60) && fits <= suite_rounds(180),
                "%u sketches fit: both outcomes must be exercised", fits);
}
END_TEST

/* Tensor, pipeline, expert and attention data parallelism open. */
START_TEST(the_answer_over_all_layouts_is_that_of_plain_enumeration)
{
  static struct problem p;
  uint64_t seed = 99;
  unsigned fits = 0, staged = 0, spread = 0;
  for (int i = 0; i < (int)suite_rounds(300); i++) {
    struct search_result result;
    struct choice best;
    problem_random(&p, &seed);
    if (i % 3 == 2)
      p.model = fixture_mixture(i % 2 == 0);
    p.workload.serving.pipeline_parallel = 0;
    best = enumerate_layouts(&p, 40);
    problem_search(&result, &p);
    if (result.fits && result.best.replicas > 40)
      continue; /* beyond what was enumerated */
    assert_same(&result, &best, &p, i);
    fits += best.exists;
    staged += best.exists && best.layout.pipeline_parallel > 1;
    spread += best.exists && best.layout.expert_parallel > 1;
  }
  ck_assert_msg(fits >= suite_rounds(100) && fits <= suite_rounds(290) && staged >= suite_rounds(15) &&
                    spread >= suite_rounds(3),
                "%u fit, %u with stages, %u spread experts", fits, staged, spread);
}
END_TEST

/* Users of a closed loop; devices rented one by one. */
START_TEST(the_answer_for_users_is_that_of_plain_enumeration)
{
  static struct problem p;
  uint64_t seed = 7;
  unsigned fits = 0;
  for (int i = 0; i < (int)suite_rounds(60); i++) {
    struct search_result result;
    struct choice best;
    problem_random(&p, &seed);
    fixture_close_loop(&p.workload, floor(exp(fixture_random(&seed, 0, 5))));
    problem_resolve(&p, 2, 1);
    best = enumerate(&p, 150);
    problem_search(&result, &p);
    assert_same(&result, &best, &p, i);
    fits += best.exists;
  }
  ck_assert_msg(fits >= suite_rounds(15), "%u fit", fits);
}
END_TEST

/* The limit that the search settles on is at least as cheap as any that a sketch could hold. Users whose gaps and waits are
   both limited: fewer at once may do where all at once are too slow. */
START_TEST(no_held_batch_limit_does_better)
{
  static struct problem p;
  uint64_t seed = 5;
  unsigned smaller = 0;
  for (int i = 0; i < (int)suite_rounds(40); i++) {
    struct search_result open, held;
    problem_random(&p, &seed);
    fixture_close_loop(&p.workload, floor(exp(fixture_random(&seed, 1, 6))));
    p.workload.targets.itl_ms.p50 = exp(fixture_random(&seed, log(6), log(60)));
    p.workload.targets.ttft_ms.p50 = exp(fixture_random(&seed, log(500), log(60000)));
    p.workload.constraints.gpu_quota = 1 + fixture_random_index(&seed, 8);
    p.workload.serving.max_batch = 0;
    problem_resolve(&p, 2, 1);
    problem_search(&open, &p);
    for (unsigned limit = 1; limit <= 1024; limit *= 2) {
      p.workload.serving.max_batch = limit;
      problem_resolve(&p, 2, 1);
      problem_search(&held, &p);
      if (held.fits)
        ck_assert_msg(open.fits && open.best.usd_per_request <= held.best.usd_per_request * (1 + 1e-6),
                      "sketch %d, %s on %s: %g with a limit of %u, %g (%s) with %u", i, p.model.name, p.hardware.name,
                      held.best.usd_per_request, limit, open.best.usd_per_request, open.detail,
                      open.best.engine.preset.max_batch);
    }
    smaller += open.fits && open.best.engine.preset.max_batch * open.best.replicas < p.workload.traffic.concurrency;
  }
  ck_assert_msg(smaller >= suite_rounds(2), "%u sketches are served with users waiting", smaller);
}
END_TEST

/* The best and those next to it are the same ones that a search without pruning keeps. */
START_TEST(finalists_are_in_order_and_begin_with_the_best)
{
  static struct problem p;
  uint64_t seed = 11;
  for (int i = 0; i < 40; i++) {
    struct search_result one, four;
    problem_random(&p, &seed);
    problem_search(&one, &p);
    ck_assert_int_eq(search_best(&four, &p.input, SEARCH_FINALISTS, NULL, NULL, NULL), ERR_OK);
    ck_assert(one.has_candidate == four.has_candidate && one.fits == four.fits);
    if (!one.has_candidate)
      continue;
    ck_assert_mem_eq(&one.best.layout, &four.best.layout, sizeof one.best.layout);
    ck_assert_uint_eq(one.best.replicas, four.best.replicas);
    ck_assert_uint_eq(one.finalist_count, 1);
    for (size_t k = 1; k < four.finalist_count; k++)
      ck_assert(!search_is_better(&four.finalists[k], &four.finalists[k - 1]));
  }
}
END_TEST

/* ---- the nearest where nothing fits ---- */

/* The worst figure over its limit, where twice the GPUs must bring it a tenth nearer (core/search.h). */
static double distance(const struct problem *p, const struct steady_state *state, unsigned gpus)
{
  const struct workload_targets *t = &p->workload.targets;
  const double ratios[] = {state->ttft_s * 1e3 / t->ttft_ms.p50, state->ttft_s * 1e3 / t->ttft_ms.p99,
                           state->itl_s * 1e3 / t->itl_ms.p50, state->e2e_s * 1e3 / t->e2e_ms.p50};
  double worst = 1;
  for (size_t i = 0; i < FIXTURE_COUNT(ratios); i++)
    worst = fmax(worst, ratios[i]); /* no limit: NaN, not larger */
  if (state->is_saturated)
    worst = fmax(worst, 1 + state->utilisation_ratio);
  return worst * pow(0.9, -log2(gpus));
}

/* With the fewest replicas that carry the load, or as many as the quota allows where an idle one meets the limits. */
static double distance_of(const struct problem *p, const struct layout *layout)
{
  const struct engine engine =
      step_engine(&p->model, &p->hardware, layout, &p->input.precision, PRECISION_NONE, &p->input.preset);
  const unsigned quota = p->workload.constraints.gpu_quota, each = parallel_gpus(layout);
  const double tokens = p->input.prompt_tokens + p->input.output_tokens;
  const struct steady_load alone = problem_load(p, 1000000);
  struct steady_load load = problem_load(p, 1);
  struct memory_plan memory;
  struct steady_state state;
  double limit, replicas;
  bool is_kv;
  memory_plan(&memory, &p->model, &p->hardware, layout, &p->input.precision, &p->input.preset);
  if (memory.kv_cache_bytes < memory_sequence_bytes(&p->model, layout, &p->input.precision, &p->input.preset, tokens) ||
      (quota != 0 && each > quota))
    return (double)INFINITY;
  limit = fmax(1, steady_batch_limit(&is_kv, &engine, &memory, p->input.prompt_tokens, p->input.output_tokens));
  replicas = floor(load.requests_per_s / steady_capacity(&engine, &load, limit)) + 1;
  steady_evaluate(&state, &engine, &alone, limit);
  if (quota != 0)
    replicas = problem_meets(&state, p) ? quota / each : fmin(replicas, quota / each);
  load = problem_load(p, (unsigned)replicas);
  steady_evaluate(&state, &engine, &load, limit);
  return distance(p, &state, (unsigned)replicas * each);
}

START_TEST(the_nearest_miss_is_that_of_plain_enumeration)
{
  static struct problem p;
  uint64_t seed = 404;
  unsigned misses = 0;
  for (int i = 0; i < (int)suite_rounds(200); i++) {
    struct search_result result;
    double least = (double)INFINITY;
    char why[192];
    problem_random(&p, &seed);
    p.workload.targets.itl_ms.p50 = exp(fixture_random(&seed, log(0.5), log(10)));
    problem_search(&result, &p);
    if (!result.has_candidate || result.fits || result.best.steering_excess <= 0)
      continue;
    for (unsigned tp = 1; tp <= 8; tp++) {
      const struct layout layout = {tp, 1, 1, 1};
      if (parallel_check(why, sizeof why, &p.model, &p.hardware, &layout))
        least = fmin(least, distance_of(&p, &layout));
    }
    ck_assert_msg(fabs(distance(&p, &result.best.state, result.best.gpus) - least) <= 1e-6 * least,
                  "sketch %d, %s on %s: %u GPUs at %g, enumeration %g", i, p.model.name, p.hardware.name,
                  result.best.gpus, distance(&p, &result.best.state, result.best.gpus), least);
    misses++;
  }
  ck_assert_uint_ge(misses, suite_rounds(60));
}
END_TEST

/* A first token within 1 ms is out of reach for any number of GPUs: what is shown is no larger than what helps. */
START_TEST(the_nearest_miss_takes_no_more_gpus_than_help)
{
  static struct problem p;
  struct search_result result;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.pipeline_parallel = 0;
  p.workload.traffic.requests_per_s = 1;
  p.workload.targets.ttft_ms.p50 = 1;
  problem_resolve(&p, 2, 1);
  problem_search(&result, &p);
  ck_assert(result.has_candidate && !result.fits);
  ck_assert_uint_le(result.best.gpus, 8);
  ck_assert_uint_eq(result.best.layout.pipeline_parallel, 1);
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
  problem_search(&result, &p);
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
  problem_search(&result, &p);
  ck_assert(!result.has_candidate && !result.fits);
  ck_assert_int_eq(result.reason, NO_FIT_LAYOUT_IMPOSSIBLE);
  ck_assert_msg(strstr(result.detail, "tensor_parallel 3") != NULL &&
                    strstr(result.detail, "nearest possible: 2") != NULL,
                "\"%s\"", result.detail);
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
    ck_assert_int_eq(search_best(&result, &p.input, 1, stop_after, &left, &e), ERR_CANCELLED);
    ck_assert_int_eq(e.code, ERR_CANCELLED);
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("search");
  tcase_add_test(tcase, the_answer_is_that_of_plain_enumeration);
  tcase_add_test(tcase, the_answer_over_all_layouts_is_that_of_plain_enumeration);
  tcase_add_test(tcase, the_answer_for_users_is_that_of_plain_enumeration);
  tcase_add_test(tcase, no_held_batch_limit_does_better);
  tcase_add_test(tcase, finalists_are_in_order_and_begin_with_the_best);
  tcase_add_test(tcase, the_nearest_miss_is_that_of_plain_enumeration);
  tcase_add_test(tcase, the_nearest_miss_takes_no_more_gpus_than_help);
  tcase_add_test(tcase, explicit_layouts_are_respected);
  tcase_add_test(tcase, an_impossible_layout_is_named);
  tcase_add_test(tcase, stop_cancels_at_once_and_later);
  return fixture_run("core/search", tcase);
}
