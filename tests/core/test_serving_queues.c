/* The simulation where theory is exact: one server with constant and general service times (Pollaczek-Khinchine), Little's
   law and the conservation laws under every policy; the same figures on every build. */
#include "core/rng.h"
#include "core/serving.h"

#include "tests/core/serving_fixtures.h"

enum { ROWS = 200000, SEEDS = 10 }; /* 2 million requests a case */

static struct arrival rows[ROWS];
static struct serving_outcome outcomes[ROWS];

/* One sequence at a time: 30 ms for the prompt, 1 ms for each further token. */
static struct serving_cost single_cost(void)
{
  struct serving_cost cost = linear_cost(0.001, 0, 0);
  cost.prompt_step_s = 0.010;
  cost.prompt_token_s = 0.0001;
  cost.prompt_fixed_s = 0.010;
  return cost;
}

/* Mean wait of 2 million Poisson arrivals for a single server; answers have `low` … `high` tokens, all alike often. */
static double single_server_wait_s(double rate, uint32_t low, uint32_t high)
{
  const struct serving_cost cost = single_cost();
  struct serving_run run = {.settings = plain_settings(), .cost = &cost, .arrivals = rows, .count = ROWS};
  struct serving_totals totals;
  double wait_s = 0;
  run.settings.max_batch = 1;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct rng rng;
    double now = 0;
    rng_init(&rng, seed);
    for (int i = 0; i < ROWS; i++) {
      now += rng_exponential(&rng) / rate;
      rows[i] = (struct arrival){
          .send_s = now, .input_tokens = 100, .output_tokens = low + (uint32_t)(rng_uniform(&rng) * (high - low + 1))};
    }
    simulate_ok(outcomes, &totals, &run);
    ck_assert_uint_eq(totals.completed, ROWS);
    for (int i = 0; i < ROWS; i++)
      wait_s += outcomes[i].admitted_s - outcomes[i].visible_s;
  }
  return wait_s / ((double)ROWS * SEEDS);
}

/* W = λ E[S²] / (2 (1 - ρ)); all answers of one token: S = 30 ms. */
START_TEST(test_constant_service)
{
  static const double loads[] = {0.3, 0.6, 0.8};
  for (size_t i = 0; i < FIXTURE_COUNT(loads); i++) {
    const double rate = loads[i] / 0.030;
    const double expected_s = loads[i] * 0.030 / (2 * (1 - loads[i]));
    assert_close(single_server_wait_s(rate, 1, 1), expected_s, 0.02);
  }
}
END_TEST

/* Answers of 1 … 101 tokens: S = 30 ms + U ms, U uniform over 0 … 100. E[S] = 80 ms, Var S = (101² - 1)/12 ms². */
START_TEST(test_general_service)
{
  static const double loads[] = {0.3, 0.6, 0.8};
  const double second_moment_s2 = 0.080 * 0.080 + (101.0 * 101.0 - 1) / 12 * 1e-6;
  for (size_t i = 0; i < FIXTURE_COUNT(loads); i++) {
    const double rate = loads[i] / 0.080;
    assert_close(single_server_wait_s(rate, 1, 101), rate * second_moment_s2 / (2 * (1 - loads[i])), 0.02);
  }
}
END_TEST

/* ---- every policy ---- */

struct policy {
  const char *name;
  struct serving_settings settings;
  uint32_t users;
};

static struct serving_cost batch_cost(void)
{
  struct serving_cost cost = linear_cost(0.0123, 0.00011, 31e-9);
  cost.prompt_step_s = 0.011;
  cost.prompt_token_s = 43e-6;
  cost.prompt_pair_s = 1.3e-9;
  cost.prompt_fixed_s = 0.017;
  cost.server_s = 0.015;
  cost.server_token_s = 2e-6;
  return cost;
}

enum { POLICIES = 7 };

static void fill_policies(struct policy policies[POLICIES])
{
  static const char *const names[POLICIES] = {"vllm v1",       "vllm v0",       "sglang",     "tensorrt-llm",
                                              "little memory", "shared prefix", "closed loop"};
  for (int i = 0; i < POLICIES; i++) {
    policies[i] = (struct policy){.name = names[i], .settings = plain_settings()};
    policies[i].settings.has_look_ahead = true;
    policies[i].settings.kv_blocks = 20000;
  }
  policies[1].settings.is_prefill_first = policies[1].settings.has_whole_prompts = true;
  policies[1].settings.admit_interval_steps = 8;
  policies[1].settings.has_look_ahead = false;
  policies[2].settings.is_prefill_first = true;
  policies[2].settings.kv = SERVING_KV_RATIO;
  policies[2].settings.kv_ratio = 0.25;
  policies[2].settings.recv_interval_steps = 10;
  policies[3].settings.has_whole_prompts = true;
  policies[3].settings.has_look_ahead = false;
  policies[3].settings.kv = SERVING_KV_RESERVE;
  policies[3].settings.batch_wait_steps = 5;
  policies[3].settings.batch_wait_ratio = 0.9;
  policies[4].settings.kv_blocks = 3500;
  policies[5].settings.shared_prefix_tokens = 500;
  policies[6].users = 64;
}

enum { MANY = 30000 };

static void run_policy(struct serving_totals *totals, const struct policy *policy)
{
  const struct arrivals plan = {.load = LOAD_OPEN,
                                .requests_per_s = 4,
                                .input = {.kind = LENGTH_MOMENTS, .mean_tokens = 1000, .cv_ratio = 0.7},
                                .output = {.kind = LENGTH_QUANTILES, .p50_tokens = 200, .p99_tokens = 900}};
  const struct serving_cost cost = batch_cost();
  const struct serving_run run = {
      .settings = policy->settings, .cost = &cost, .arrivals = rows, .count = MANY, .users = policy->users};
  struct error e;
  ck_assert_int_eq(arrivals_draw(rows, MANY, &plan, 11, &e), ERR_OK);
  simulate_ok(outcomes, totals, &run);
}

/* Time that [from, to] has in common with the window. */
static double overlap_s(double from, double to, double begin, double end)
{
  return fmax(0, fmin(to, end) - fmax(from, begin));
}

/* Over the middle of the run: mean number in the system against arrival rate × mean time in the system of those that came. */
static void assert_little(const struct policy *policy)
{
  const double begin = outcomes[MANY / 10].send_s, end = outcomes[MANY - MANY / 10].send_s;
  double in_system_s = 0, time_s = 0;
  size_t came = 0;
  for (int i = 0; i < MANY; i++) {
    const struct serving_outcome *o = &outcomes[i];
    in_system_s += overlap_s(o->send_s, o->finish_s, begin, end);
    if (o->send_s >= begin && o->send_s < end) {
      time_s += o->finish_s - o->send_s;
      came++;
    }
  }
  ck_assert_msg(fabs(in_system_s / time_s - 1) <= 0.005, "%s: %zu came, %g in the system, by Little %g", policy->name,
                came, in_system_s / (end - begin), time_s / (end - begin));
}

/* What holds for every request, whatever the policy. */
static void assert_request(const struct policy *policy, int i, const struct serving_cost *cost)
{
  const struct serving_outcome *o = &outcomes[i];
  const double own = rows[i].input_tokens - o->cached_tokens;
  const double prefill_s = own * cost->prompt_token_s + cost->prompt_fixed_s;
  const double queue_s = o->admitted_s - o->send_s, ttft_s = o->first_s - o->send_s, e2e_s = o->finish_s - o->send_s;
  ck_assert_msg(o->status == SERVING_COMPLETED && o->output_tokens == rows[i].output_tokens, "%s: request %d",
                policy->name, i);
  ck_assert_msg(o->visible_s >= o->send_s + cost->server_s, "%s: request %d", policy->name, i);
  ck_assert_msg(o->admitted_s >= o->visible_s, "%s: request %d", policy->name, i);
  ck_assert_msg(ttft_s >= (queue_s + prefill_s) * (1 - 1e-9), "%s: request %d: ttft %g, queue %g + prefill %g",
                policy->name, i, ttft_s, queue_s, prefill_s);
  ck_assert_msg(e2e_s >= (ttft_s + (rows[i].output_tokens - 1) * cost->decode[0].step_s) * (1 - 1e-9),
                "%s: request %d: e2e %g, ttft %g", policy->name, i, e2e_s, ttft_s);
  ck_assert_msg(i == 0 || o->admitted_s >= outcomes[i - 1].admitted_s, "%s: request %d overtook", policy->name, i);
}

static void assert_conserved(const struct policy *policy, const struct serving_totals *totals)
{
  uint64_t output = 0, computed = 0;
  double admitted_s = 0;
  for (int i = 0; i < MANY; i++) {
    output += rows[i].output_tokens;
    computed += rows[i].input_tokens - outcomes[i].cached_tokens;
    admitted_s += outcomes[i].finish_s - outcomes[i].admitted_s;
  }
  ck_assert_uint_eq(totals->completed, MANY);
  ck_assert_uint_eq(totals->rejected, 0);
  ck_assert_uint_eq(totals->output_tokens, output);
  ck_assert_uint_le(totals->peak_kv_blocks, policy->settings.kv_blocks);
  ck_assert_uint_le(totals->peak_batch, policy->settings.max_batch);
  if (totals->preemptions != 0) {
    ck_assert_uint_gt(totals->prompt_tokens, computed);
    return;
  }
  ck_assert_uint_eq(totals->prompt_tokens, computed);
  assert_close(totals->running_sequence_s, admitted_s, 1e-8); /* the engine never rests while somebody is admitted */
}

START_TEST(test_every_policy)
{
  const struct serving_cost cost = batch_cost();
  struct policy policies[POLICIES];
  fill_policies(policies);
  for (int p = 0; p < POLICIES; p++) {
    struct serving_totals totals;
    run_policy(&totals, &policies[p]);
    for (int i = 0; i < MANY; i++)
      assert_request(&policies[p], i, &cost);
    assert_conserved(&policies[p], &totals);
    assert_little(&policies[p]);
    ck_assert_int_eq(totals.preemptions != 0, p == 4);
  }
}
END_TEST

/* FNV-1a over counts and over times to a microsecond: the same on every build, whatever its optimisation. */
static uint64_t digest(const struct serving_totals *totals)
{
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < MANY; i++) {
    const struct serving_outcome *o = &outcomes[i];
    const uint64_t words[] = {(uint64_t)llround(1e6 * o->admitted_s), (uint64_t)llround(1e6 * o->first_s),
                              (uint64_t)llround(1e6 * o->finish_s), o->preemptions};
    for (size_t w = 0; w < FIXTURE_COUNT(words); w++)
      hash = (hash ^ words[w]) * 1099511628211u;
  }
  return (hash ^ totals->decode_steps) * 1099511628211u;
}

/* Recorded from the debug build; new rules or random streams change them, compilers and flags must not. */
static const uint64_t recorded[POLICIES] = {0x47566ec76ddb1157u, 0x57bf1f3a3de2314du, 0x6149970ea1dff5c8u,
                                            0xb9a5b62fbb6f0dd8u, 0x167fc932ee22acd8u, 0x643743c030394fd4u,
                                            0x04d6e75d2509e2e1u};

START_TEST(test_same_figures_on_every_build)
{
  struct policy policies[POLICIES];
  fill_policies(policies);
  for (int p = 0; p < POLICIES; p++) {
    struct serving_totals totals;
    run_policy(&totals, &policies[p]);
    ck_assert_msg(digest(&totals) == recorded[p], "%s: 0x%016lx", policies[p].name, (unsigned long)digest(&totals));
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("serving_queues");
  tcase_add_test(tcase, test_constant_service);
  tcase_add_test(tcase, test_general_service);
  tcase_add_test(tcase, test_every_policy);
  tcase_add_test(tcase, test_same_figures_on_every_build);
  return fixture_run("serving_queues", tcase);
}
