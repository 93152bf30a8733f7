/* Fleets where theory is exact: many servers behind one queue (Erlang C), Little's law and the conservation laws under every
   policy of the fleet; the same figures on every build. */
#include "core/fleet.h"
#include "core/rng.h"

#include "tests/core/serving_fixtures.h"

enum { ROWS = 200000, SEEDS = 10 }; /* 2 million requests a case */

static struct arrival rows[ROWS];
static uint32_t hashes[4 * ROWS];
static struct serving_outcome outcomes[ROWS];

static void run_ok(struct fleet_totals *totals, const struct fleet_run *run)
{
  const size_t bytes = fleet_arena_bytes(run);
  void *memory = malloc(bytes);
  struct arena arena;
  struct error e;
  ck_assert_ptr_nonnull(memory);
  arena_init(&arena, memory, bytes);
  ck_assert_int_eq(fleet_simulate(outcomes, totals, NULL, run, &arena, &e), ERR_OK);
  ck_assert_uint_eq(arena.used_bytes, 0);
  free(memory);
}

/* ---- many servers ---- */

/* Erlang's second formula: mean wait of Poisson arrivals for one of `servers` with exponential service times. */
static double erlang_wait_s(unsigned servers, double rate, double service_s)
{
  const double offered = rate * service_s;
  double blocked = 1, waits;
  for (unsigned n = 1; n <= servers; n++)
    blocked = offered * blocked / (n + offered * blocked);
  waits = blocked / (1 - offered / servers * (1 - blocked));
  return waits * service_s / (servers - offered);
}

/* One sequence at a time in each of `servers` replicas; a token takes 1 ms and answers have a geometric number of them, 1,000
   in the mean, so service times are exponential but for 0.1 % of their variance. */
static double fleet_wait_s(uint32_t servers, double load, uint32_t limit)
{
  const double mean = 1000;
  struct serving_cost cost = linear_cost(0.001, 0, 0);
  struct fleet_run run = {.settings = plain_settings(),
                          .cost = &cost,
                          .replicas = servers,
                          .arrivals = rows,
                          .count = ROWS,
                          .concurrency_limit = limit};
  struct fleet_totals totals;
  double wait_s = 0;
  cost.prompt_step_s = 0.001;
  run.settings.max_batch = 1;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct rng rng;
    double now = 0;
    rng_init(&rng, seed);
    for (int i = 0; i < ROWS; i++) {
      now += rng_exponential(&rng) * 0.001 * mean / (load * servers);
      rows[i] = (struct arrival){.send_s = now, .input_tokens = 1};
      rows[i].output_tokens = 1 + (uint32_t)(log(rng_uniform(&rng)) / log(1 - 1 / mean));
    }
    run_ok(&totals, &run);
    ck_assert_uint_eq(totals.serving.completed, ROWS);
    for (int i = 0; i < ROWS; i++)
      wait_s += outcomes[i].admitted_s - outcomes[i].send_s;
  }
  return wait_s / ((double)ROWS * SEEDS);
}

/* A limit of one request a replica makes the balancer's queue the only one: M/M/c. */
START_TEST(test_one_queue_before_many_servers)
{
  assert_close(fleet_wait_s(2, 0.6, 2), erlang_wait_s(2, 0.6 * 2, 1), 0.02);
  assert_close(fleet_wait_s(4, 0.7, 4), erlang_wait_s(4, 0.7 * 4, 1), 0.02);
}
END_TEST

/* Who joins the shortest of four queues waits longer than in one queue for all, and less than in one of four at random. */
START_TEST(test_shortest_queue)
{
  const double wait_s = fleet_wait_s(4, 0.7, 0);
  ck_assert_double_gt(wait_s, 1.05 * erlang_wait_s(4, 0.7 * 4, 1));
  ck_assert_double_lt(wait_s, 0.5 * erlang_wait_s(1, 0.7, 1));
}
END_TEST

/* ---- every policy ---- */

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

enum { MANY = 30000, POLICIES = 8 };
static const char *const names[POLICIES] = {"plain", "clients give up", "limit",  "background shed",
                                            "pools", "hashes",          "drafts", "slow clock"};

static const struct fleet_slowdown slow = {600, 900, 1 / 0.6, FLEET_ALL_REPLICAS};

/* Prompts of 40 conversations, alike for their first 512 … 1536 tokens. */
static void add_hashes(struct fleet_run *run)
{
  run->settings.hash_block_tokens = 512;
  run->hashes = hashes;
  run->hash_count = FIXTURE_COUNT(hashes);
  for (uint32_t i = 0; i < MANY; i++) {
    rows[i].hash_first = 4 * i;
    rows[i].hash_count = 4;
    for (uint32_t k = 0; k < 4; k++)
      hashes[4 * i + k] = k <= i % 3 ? 4 * (i * 7 % 40) + k : 1000 + 4 * i + k;
  }
}

static void policy_init(struct fleet_run *run, const struct serving_cost *cost, int policy)
{
  const struct arrivals plan = {.load = LOAD_OPEN,
                                .requests_per_s = 16,
                                .input = {.kind = LENGTH_MOMENTS, .mean_tokens = 1000, .cv_ratio = 0.7},
                                .output = {.kind = LENGTH_QUANTILES, .p50_tokens = 200, .p99_tokens = 900}};
  struct error e;
  ck_assert_int_eq(arrivals_draw(rows, MANY, &plan, 11, &e), ERR_OK);
  *run = (struct fleet_run){
      .settings = plain_settings(), .cost = cost, .replicas = 4, .arrivals = rows, .count = MANY, .seed = 11};
  run->settings.has_look_ahead = true;
  run->settings.kv_blocks = 20000;
  if (policy == 1) {
    run->timeout_s = 6;
    run->retries = 2;
  }
  if (policy == 2 || policy == 3)
    run->concurrency_limit = 80;
  if (policy == 3)
    run->sheddable_share = 0.3;
  if (policy == 4) {
    run->replicas = 6;
    run->prefill_replicas = 2;
    run->transfer_s = 0.002;
    run->transfer_token_s = 5e-6;
  }
  if (policy == 5)
    add_hashes(run);
  if (policy == 6) {
    run->settings.draft_tokens = 4;
    run->settings.tokens_per_step = 2.6;
  }
  if (policy == 7) {
    run->slowdowns = &slow;
    run->slowdown_count = 1;
  }
}

static double overlap_s(double from, double to, double begin, double end)
{
  return fmax(0, fmin(to, end) - fmax(from, begin));
}

/* Over the middle of the run: mean number in the system against arrival rate × mean time in the system. */
static void assert_little(int policy)
{
  const double begin = outcomes[MANY / 10].send_s, end = outcomes[MANY - MANY / 10].send_s;
  double in_system_s = 0, time_s = 0;
  for (int i = 0; i < MANY; i++) {
    const struct serving_outcome *o = &outcomes[i];
    in_system_s += overlap_s(o->send_s, o->finish_s, begin, end);
    if (o->send_s >= begin && o->send_s < end)
      time_s += o->finish_s - o->send_s;
  }
  ck_assert_msg(fabs(in_system_s / time_s - 1) <= 0.005, "%s: %g in the system, by Little %g", names[policy],
                in_system_s / (end - begin), time_s / (end - begin));
}

static void assert_request(int policy, int i, const struct serving_cost *cost)
{
  const struct serving_outcome *o = &outcomes[i];
  const double own = rows[i].input_tokens - o->cached_tokens;
  const double prefill_s = own * cost->prompt_token_s + cost->prompt_fixed_s;
  if (o->status != SERVING_COMPLETED)
    return;
  ck_assert_uint_eq(o->output_tokens, rows[i].output_tokens);
  ck_assert_msg(o->visible_s >= o->send_s + cost->server_s && o->admitted_s >= o->visible_s, "%s: request %d",
                names[policy], i);
  ck_assert_msg(o->first_s - o->admitted_s >= (prefill_s + o->waited_s) * (1 - 1e-9), "%s: request %d", names[policy],
                i);
  ck_assert_msg(o->finish_s >= o->first_s, "%s: request %d", names[policy], i);
}

/* Every request has one end; every token went to a client that has its whole answer, or was wasted. */
static void assert_conserved(int policy, const struct fleet_totals *totals)
{
  uint64_t counts[SERVING_TIMED_OUT + 1] = {0}, delivered = 0, attempts = 0;
  for (int i = 0; i < MANY; i++) {
    counts[outcomes[i].status]++;
    delivered += outcomes[i].status == SERVING_COMPLETED ? outcomes[i].output_tokens : 0;
    attempts += outcomes[i].attempts;
  }
  ck_assert_uint_eq(counts[SERVING_COMPLETED], totals->serving.completed);
  ck_assert_uint_eq(counts[SERVING_REJECTED], totals->serving.rejected);
  ck_assert_uint_eq(counts[SERVING_SHED], totals->shed);
  ck_assert_uint_eq(counts[SERVING_TIMED_OUT], totals->timed_out);
  ck_assert_uint_eq(totals->serving.completed + totals->serving.rejected + totals->shed + totals->timed_out, MANY);
  ck_assert_uint_eq(totals->attempts, attempts);
  ck_assert_uint_eq(totals->serving.output_tokens, delivered + totals->serving.wasted_tokens);
  ck_assert_int_eq(totals->serving.wasted_tokens != 0, policy == 1);
  ck_assert_int_eq(totals->timed_out != 0, policy == 1);
  ck_assert_int_eq(totals->shed != 0, policy == 3);
  ck_assert_int_eq(totals->serving.cached_tokens != 0, policy == 5);
}

/* FNV-1a over counts and over times to a microsecond. */
static uint64_t digest(const struct fleet_totals *totals)
{
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < MANY; i++) {
    const struct serving_outcome *o = &outcomes[i];
    const uint64_t words[] = {(uint64_t)llround(1e6 * o->admitted_s),
                              (uint64_t)llround(1e6 * o->first_s),
                              (uint64_t)llround(1e6 * o->finish_s),
                              (uint64_t)o->status,
                              o->attempts,
                              o->replica};
    for (size_t w = 0; w < FIXTURE_COUNT(words); w++)
      hash = (hash ^ words[w]) * 1099511628211u;
  }
  return (hash ^ totals->serving.decode_steps) * 1099511628211u;
}

/* Recorded from the release build; new rules or random streams change them, compilers and flags must not. */
static const uint64_t recorded[POLICIES] = {0x02e0d2922be5d508u, 0x3d1bdb22fff1ab50u, 0x8eb07617990b0197u,
                                            0x7d06fef0e2ba6245u, 0xa584f384f92ea31fu, 0xe8c78ddce41b7b48u,
                                            0x4d1933b739e9511cu, 0x995deb4e53c289f2u};

START_TEST(test_every_policy)
{
  const struct serving_cost cost = batch_cost();
  for (int policy = 0; policy < POLICIES; policy++) {
    struct fleet_run run;
    struct fleet_totals totals;
    policy_init(&run, &cost, policy);
    run_ok(&totals, &run);
    for (int i = 0; i < MANY; i++)
      assert_request(policy, i, &cost);
    assert_conserved(policy, &totals);
    assert_little(policy);
    ck_assert_msg(digest(&totals) == recorded[policy], "%s: 0x%016lx", names[policy], (unsigned long)digest(&totals));
  }
}
END_TEST

/* Requests far apart never meet: all of them see what a single replica shows. */
START_TEST(test_light_load_is_a_single_replica)
{
  enum { FEW = 500 };
  const struct serving_cost cost = batch_cost();
  static struct serving_outcome alone[FEW];
  struct fleet_run run;
  struct serving_run single;
  struct fleet_totals totals;
  struct serving_totals single_totals;
  policy_init(&run, &cost, 0);
  for (int i = 0; i < FEW; i++)
    rows[i].send_s = 100.0 * i;
  run.count = FEW;
  single = (struct serving_run){.settings = run.settings, .cost = &cost, .arrivals = rows, .count = FEW};
  simulate_ok(alone, &single_totals, &single);
  run_ok(&totals, &run);
  for (int i = 0; i < FEW; i++)
    assert_same_outcome(&outcomes[i], &alone[i], 0, i);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("fleet_queues");
  tcase_add_test(tcase, test_one_queue_before_many_servers);
  tcase_add_test(tcase, test_shortest_queue);
  tcase_add_test(tcase, test_every_policy);
  tcase_add_test(tcase, test_light_load_is_a_single_replica);
  return fixture_run("fleet_queues", tcase);
}
