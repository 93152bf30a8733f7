/* Fleets: one replica is the single simulation, several by hand, and who gives up, is shed or slowed down. */
#include "core/fleet.h"

#include <stdalign.h>

#include "tests/core/reference_fleet.h"
#include "tests/core/serving_fixtures.h"

/* Runs in an arena of exactly the announced size. */
static enum err fleet_try(struct serving_outcome *outcomes, struct fleet_totals *totals,
                          struct serving_totals *replicas, const struct fleet_run *run, struct error *e)
{
  const size_t bytes = fleet_arena_bytes(run);
  void *memory = malloc(bytes);
  struct arena arena;
  enum err err;
  ck_assert_ptr_nonnull(memory);
  arena_init(&arena, memory, bytes);
  err = fleet_simulate(outcomes, totals, replicas, run, &arena, e);
  ck_assert_uint_eq(arena.used_bytes, 0);
  free(memory);
  return err;
}

static void fleet_ok(struct serving_outcome *outcomes, struct fleet_totals *totals, struct serving_totals *replicas,
                     const struct fleet_run *run)
{
  struct error e;
  const enum err err = fleet_try(outcomes, totals, replicas, run, &e);
  ck_assert_msg(err == ERR_OK, "%s", err == ERR_OK ? "" : e.message);
}

START_TEST(test_one_replica_is_the_single_simulation)
{
  uint64_t state = 4711;
  for (unsigned workload = 0; workload < 300; workload++) {
    struct arrival rows[SMALL];
    struct serving_outcome alone[SMALL], outcomes[SMALL];
    const struct serving_cost cost = serving_random_cost(&state);
    struct serving_run run = {
        .settings = serving_random_settings(&state), .cost = &cost, .arrivals = rows, .count = SMALL};
    struct fleet_run fleet = {.settings = run.settings, .cost = &cost, .replicas = 1, .arrivals = rows, .count = SMALL};
    struct serving_totals alone_totals, replica;
    struct fleet_totals totals;
    serving_random_arrivals(rows, &state);
    run.users = fleet.users = pick(&state, 0, 2) == 0 ? pick(&state, 1, 20) : 0;
    simulate_ok(alone, &alone_totals, &run);
    fleet_ok(outcomes, &totals, &replica, &fleet);
    for (int i = 0; i < SMALL; i++)
      assert_same_outcome(&outcomes[i], &alone[i], workload, i);
    ck_assert_uint_eq(replica.decode_steps, alone_totals.decode_steps);
    ck_assert_uint_eq(totals.serving.completed, alone_totals.completed);
    ck_assert_uint_eq(totals.serving.rejected, alone_totals.rejected);
    ck_assert(!(totals.serving.busy_s < alone_totals.busy_s) && !(totals.serving.busy_s > alone_totals.busy_s));
  }
}
END_TEST

/* ---- against the step-by-step fleet ---- */

enum { REPLICAS_MOST = 4, SLOWDOWNS = 2, HASHES = 8 * SMALL };

/* A fleet and all that it borrows. */
struct random_fleet {
  struct arrival rows[SMALL];
  uint32_t hashes[HASHES];
  struct serving_cost costs[REPLICAS_MOST];
  const struct serving_cost *own[REPLICAS_MOST];
  struct fleet_slowdown slowdowns[SLOWDOWNS];
  struct fleet_run run;
};

/* Prompts of a few conversations: alike up to some block, then of their own. */
static void add_hashes(struct random_fleet *f, uint64_t *state)
{
  struct serving_settings *settings = &f->run.settings;
  settings->shared_prefix_tokens = 0;
  settings->hash_block_tokens = settings->kv_block_tokens * pick(state, 1, 4);
  f->run.hashes = f->hashes;
  f->run.hash_count = HASHES;
  for (uint32_t i = 0; i < SMALL; i++) {
    const uint32_t conversation = pick(state, 1, 4), alike = pick(state, 0, 8);
    f->rows[i].hash_first = 8 * i;
    f->rows[i].hash_count = pick(state, 0, 8);
    for (uint32_t k = 0; k < 8; k++)
      f->hashes[8 * i + k] = k < alike ? 10 * conversation + k : 1000 + 10 * i + k;
  }
}

static void random_fleet_init(struct random_fleet *f, uint64_t *state)
{
  memset(f, 0, sizeof *f);
  serving_random_arrivals(f->rows, state);
  f->run = (struct fleet_run){.settings = serving_random_settings(state),
                              .cost = &f->costs[0],
                              .replicas = pick(state, 1, REPLICAS_MOST),
                              .arrivals = f->rows,
                              .count = SMALL,
                              .users = pick(state, 0, 2) == 0 ? pick(state, 1, 20) : 0,
                              .seed = pick(state, 0, 1000)};
  for (int i = 0; i < REPLICAS_MOST; i++) {
    f->costs[i] = serving_random_cost(state);
    f->own[i] = pick(state, 0, 3) == 0 ? &f->costs[i] : NULL;
  }
  if (pick(state, 0, 1) != 0)
    f->run.costs = f->own;
  if (pick(state, 0, 1) != 0)
    f->run.concurrency_limit = pick(state, 1, 20);
  f->run.sheddable_share = pick(state, 0, 1) * ldexp(pick(state, 0, 8), -3);
  if (pick(state, 0, 2) != 0) {
    f->run.timeout_s = dyadic(state, 0.05, pick(state, 0, 1) != 0 ? 1 : 8);
    f->run.retries = pick(state, 0, 3);
  }
  for (int i = 0; i < SLOWDOWNS; i++) {
    const double from_s = dyadic(state, 0, 20);
    f->slowdowns[i] = (struct fleet_slowdown){.from_s = from_s,
                                              .until_s = from_s + dyadic(state, 0.01, 10),
                                              .ratio = ldexp(pick(state, 2, 12), -2),
                                              .replica = pick(state, 0, 1) != 0 ? 0 : FLEET_ALL_REPLICAS};
  }
  if (pick(state, 0, 1) != 0)
    add_hashes(f, state);
  if (f->run.replicas > 1 && pick(state, 0, 2) == 0) {
    f->run.prefill_replicas = pick(state, 1, f->run.replicas - 1);
    f->run.transfer_s = pick(state, 0, 1) * dyadic(state, 0, 0.05);
    f->run.transfer_token_s = pick(state, 0, 1) * dyadic(state, 0, 0.001);
  }
  f->run.slowdowns = f->slowdowns;
  f->run.slowdown_count = pick(state, 0, SLOWDOWNS);
}

/* What all 1,000 together must have exercised. */
struct fleet_coverage {
  uint64_t shed, timed_out, retried, completed, rejected, preemptions, wasted_tokens, cached_tokens;
};

static void compare_fleets(struct fleet_coverage *coverage, uint64_t *state, unsigned workload)
{
  static struct histogram gaps, reference_gaps;
  struct random_fleet f;
  struct serving_outcome outcomes[SMALL], expected[SMALL];
  struct fleet_totals totals;
  struct serving_totals replicas[REPLICAS_MOST];
  struct reference_fleet reference;
  struct reference reference_replicas[REPLICAS_MOST];
  random_fleet_init(&f, state);
  histogram_init(&gaps);
  histogram_init(&reference_gaps);
  f.run.itl = &gaps;
  reference_simulate_fleet(&reference, reference_replicas, expected, &reference_gaps, &f.run);
  fleet_ok(outcomes, &totals, replicas, &f.run);
  for (int i = 0; i < SMALL; i++) {
    assert_same_outcome(&outcomes[i], &expected[i], workload, i);
    ck_assert_msg(outcomes[i].replica == expected[i].replica && outcomes[i].attempts == expected[i].attempts,
                  "workload %u, request %d: replica %u/%u, attempts %u/%u", workload, i, outcomes[i].replica,
                  expected[i].replica, outcomes[i].attempts, expected[i].attempts);
  }
  assert_same_gaps(&gaps, &reference_gaps);
  ck_assert_uint_eq(totals.attempts, reference.attempts);
  ck_assert_uint_eq(totals.shed, reference.shed);
  ck_assert_uint_eq(totals.timed_out, reference.timed_out);
  ck_assert_uint_eq(totals.serving.rejected, reference.rejected);
  for (uint32_t i = 0; i < f.run.replicas; i++) {
    const struct reference *r = &reference_replicas[i];
    ck_assert_uint_eq(replicas[i].prompt_tokens, r->prompt_tokens);
    ck_assert_uint_eq(replicas[i].prompt_steps, r->prompt_steps);
    ck_assert_uint_eq(replicas[i].output_tokens, r->output_tokens);
    ck_assert_uint_eq(replicas[i].wasted_tokens, r->wasted_tokens);
    ck_assert_uint_eq(replicas[i].preemptions, r->preemptions);
    assert_close(1 + replicas[i].busy_s, 1 + r->busy_s, 1e-13);
    assert_close(1 + replicas[i].running_sequence_s, 1 + r->running_sequence_s, 1e-12);
    assert_close(1 + replicas[i].decode_sequence_s, 1 + r->decode_sequence_s, 1e-12);
  }
  coverage->shed += totals.shed;
  coverage->timed_out += totals.timed_out;
  coverage->retried += totals.attempts - SMALL;
  coverage->completed += totals.serving.completed;
  coverage->rejected += totals.serving.rejected;
  coverage->preemptions += totals.serving.preemptions;
  coverage->wasted_tokens += totals.serving.wasted_tokens;
  coverage->cached_tokens += totals.serving.cached_tokens;
}

START_TEST(test_equals_step_by_step)
{
  struct fleet_coverage coverage = {0};
  uint64_t state = 20261201;
  for (unsigned workload = 0; workload < 1000; workload++)
    compare_fleets(&coverage, &state, workload);
  ck_assert_uint_gt(coverage.shed, 1000);
  ck_assert_uint_gt(coverage.timed_out, 1000);
  ck_assert_uint_gt(coverage.retried, 1000);
  ck_assert_uint_gt(coverage.preemptions, 400);
  ck_assert_uint_gt(coverage.wasted_tokens, 10000);
  ck_assert_uint_gt(coverage.cached_tokens, 100000);
  ck_assert_uint_eq(coverage.completed + coverage.rejected + coverage.shed + coverage.timed_out, 1000 * SMALL);
}
END_TEST

/* ---- by hand ---- */

static struct fleet_run small_fleet(struct small *s, size_t count, uint32_t replicas)
{
  small_init(s, count);
  return (struct fleet_run){
      .settings = s->run.settings, .cost = &s->cost, .replicas = replicas, .arrivals = s->rows, .count = count};
}

/* One takes 0.020 + 0.050 + 2 × 0.011 alone. Both replicas are free: the first; then the second; at 0.03 both have one:
   the first. At 0.095 the first has one left, the second none. */
START_TEST(test_least_loaded)
{
  static const uint32_t expected[] = {0, 1, 0, 1};
  struct small s;
  struct fleet_totals totals;
  struct serving_totals replicas[2];
  struct fleet_run run = small_fleet(&s, 4, 2);
  s.rows[1].send_s = 0.001;
  s.rows[2].send_s = 0.03;
  s.rows[3].send_s = 0.095;
  fleet_ok(s.outcomes, &totals, replicas, &run);
  for (int i = 0; i < 4; i++)
    ck_assert_uint_eq(s.outcomes[i].replica, expected[i]);
  assert_time(s.outcomes[1].finish_s, 0.093);
  assert_time(s.outcomes[3].finish_s, 0.187);
  ck_assert_uint_eq(replicas[0].completed, 2);
  ck_assert_uint_eq(totals.serving.completed, 4);
  ck_assert_uint_eq(totals.peak_in_system, 3);
  ck_assert_uint_eq(totals.attempts, 4);
}
END_TEST

/* Three users, two replicas: two share the first one. The user of the second finishes first and goes on there. */
START_TEST(test_closed_loop_over_the_fleet)
{
  struct small s;
  struct fleet_totals totals;
  struct fleet_run run = small_fleet(&s, 4, 2);
  run.users = 3;
  fleet_ok(s.outcomes, &totals, NULL, &run);
  ck_assert_uint_eq(s.outcomes[2].replica, 0);
  assert_time(s.outcomes[1].finish_s, 0.092);
  assert_time(s.outcomes[3].send_s, 0.092);
  ck_assert_uint_eq(s.outcomes[3].replica, 1);
}
END_TEST

/* The second replica has a decode step of 30 ms instead of 11. */
START_TEST(test_slow_replica)
{
  struct small s;
  struct fleet_totals totals;
  struct fleet_run run = small_fleet(&s, 2, 2);
  struct serving_cost slow = s.cost;
  const struct serving_cost *costs[] = {NULL, &slow};
  for (int i = 0; i < SERVING_SEGMENTS; i++)
    slow.decode[i].step_s = 0.029;
  run.costs = costs;
  fleet_ok(s.outcomes, &totals, NULL, &run);
  assert_time(s.outcomes[0].finish_s, 0.070 + 2 * 0.011);
  assert_time(s.outcomes[1].finish_s, 0.070 + 2 * 0.030);
}
END_TEST

/* 40 tokens: the prompt until 0.070, then steps of 11 ms. From 0.1 on (within the third step) they take twice as long, for
   the steps that begin before 0.2: the fourth begins at 0.103, five of 22 ms end at 0.213. Then 39 - 3 - 5 normal ones. */
START_TEST(test_clock_drops_for_a_while)
{
  struct small s;
  struct fleet_totals totals;
  struct fleet_run run = small_fleet(&s, 1, 1);
  const struct fleet_slowdown slow = {.from_s = 0.1, .until_s = 0.2, .ratio = 2, .replica = FLEET_ALL_REPLICAS};
  s.rows[0].output_tokens = 40;
  run.slowdowns = &slow;
  run.slowdown_count = 1;
  fleet_ok(s.outcomes, &totals, NULL, &run);
  assert_time(s.outcomes[0].finish_s, 0.070 + 3 * 0.011 + 5 * 0.022 + 31 * 0.011);
}
END_TEST

/* It gives up at 0.1, in the step from 0.092 to 0.103, and comes back at 0.1: seen at the step that begins at 0.103, where
   the abandoned one has left. By then that has emitted 1 + 3 tokens. The second attempt is given up at 0.2. */
START_TEST(test_clients_give_up_and_try_again)
{
  struct small s;
  struct fleet_totals totals;
  struct fleet_run run = small_fleet(&s, 1, 1);
  s.rows[0].output_tokens = 40;
  run.timeout_s = 0.1;
  run.retries = 1;
  fleet_ok(s.outcomes, &totals, NULL, &run);
  ck_assert_int_eq(s.outcomes[0].status, SERVING_TIMED_OUT);
  ck_assert_uint_eq(s.outcomes[0].attempts, 2);
  assert_time(s.outcomes[0].send_s, 0);
  assert_time(s.outcomes[0].admitted_s, 0.103);
  assert_time(s.outcomes[0].first_s, 0.173);
  assert_time(s.outcomes[0].finish_s, 0.2);
  ck_assert_uint_eq(totals.timed_out, 1);
  ck_assert_uint_eq(totals.attempts, 2);
  ck_assert_uint_eq(totals.serving.output_tokens, 8);
  ck_assert_uint_eq(totals.serving.wasted_tokens, 8);
  ck_assert_uint_eq(totals.serving.prompt_tokens, 200);
}
END_TEST

/* The limit of one: the second waits in front until 0.092, the rest too unless it is background work. */
START_TEST(test_concurrency_limit)
{
  struct small s;
  struct fleet_totals totals;
  struct fleet_run run = small_fleet(&s, 3, 2);
  run.concurrency_limit = 1;
  fleet_ok(s.outcomes, &totals, NULL, &run);
  assert_time(s.outcomes[1].visible_s, 0.092);
  assert_time(s.outcomes[2].finish_s, 3 * 0.092);
  ck_assert_uint_eq(totals.peak_in_system, 1);
  run.sheddable_share = 1;
  fleet_ok(s.outcomes, &totals, NULL, &run);
  ck_assert_int_eq(s.outcomes[0].status, SERVING_COMPLETED);
  ck_assert_int_eq(s.outcomes[1].status, SERVING_SHED);
  ck_assert_uint_eq(totals.shed, 2);
}
END_TEST

/* Both prompts are done at 0.120. A cache travels 5 ms + 100 × 0.1 ms, one after the other: the first decodes from 0.135 on,
   the second is there at 0.150 and joins at the boundary of 0.157, when the first has its last token. */
START_TEST(test_pools)
{
  struct small s;
  struct fleet_totals totals;
  struct serving_totals replicas[2];
  struct fleet_run run = small_fleet(&s, 2, 2);
  run.prefill_replicas = 1;
  run.transfer_s = 0.005;
  run.transfer_token_s = 0.0001;
  fleet_ok(s.outcomes, &totals, replicas, &run);
  assert_time(s.outcomes[0].first_s, 0.135);
  assert_time(s.outcomes[0].finish_s, 0.157);
  assert_time(s.outcomes[0].waited_s, 0);
  assert_time(s.outcomes[1].first_s, 0.157);
  assert_time(s.outcomes[1].waited_s, 0.015 + 0.007);
  assert_time(s.outcomes[1].finish_s, 0.179);
  ck_assert_uint_eq(s.outcomes[1].replica, 1);
  ck_assert_uint_eq(replicas[0].prompt_tokens, 200);
  ck_assert_uint_eq(replicas[0].output_tokens, 2);
  ck_assert_uint_eq(replicas[1].output_tokens, 4);
  ck_assert_uint_eq(replicas[1].prompt_tokens, 0);
  ck_assert_uint_eq(totals.serving.completed, 2);
}
END_TEST

/* Three whole prompts to a pool of 18 blocks (288 tokens): the third waits for a place, not for the link. */
START_TEST(test_pools_wait_for_memory)
{
  struct small s;
  struct fleet_totals totals;
  struct fleet_run run = small_fleet(&s, 3, 2);
  run.prefill_replicas = 1;
  run.settings.kv_blocks = 18;
  for (int i = 0; i < 3; i++)
    s.rows[i].send_s = 0.1 * i;
  s.rows[0].output_tokens = s.rows[1].output_tokens = 30;
  fleet_ok(s.outcomes, &totals, NULL, &run);
  assert_time(s.outcomes[2].first_s, s.outcomes[0].finish_s);
  assert_time(s.outcomes[2].waited_s, s.outcomes[0].finish_s - 0.270);
}
END_TEST

static void assert_fleet_refused(const struct fleet_run *run, const char *pointer)
{
  struct serving_outcome outcomes[4];
  struct fleet_totals totals;
  struct error e;
  ck_assert_int_eq(fleet_try(outcomes, &totals, NULL, run, &e), ERR_INVALID);
  ck_assert_str_eq(e.pointer, pointer);
}

START_TEST(test_refusals)
{
  struct small s;
  struct fleet_slowdown slow = {.from_s = 2, .until_s = 1, .ratio = 1};
  struct fleet_run run = small_fleet(&s, 2, 0);
  assert_fleet_refused(&run, "/serving/replicas");
  run = small_fleet(&s, 2, 2);
  run.prefill_replicas = 2;
  assert_fleet_refused(&run, "/serving/disaggregated");
  run.prefill_replicas = 1;
  run.transfer_s = -1;
  assert_fleet_refused(&run, "/serving/disaggregated");
  run = small_fleet(&s, 2, 1);
  run.sheddable_share = 1.5;
  assert_fleet_refused(&run, "/traffic/sheddable_share");
  run = small_fleet(&s, 2, 1);
  run.timeout_s = -1;
  assert_fleet_refused(&run, "/traffic/client/timeout_ms");
  run = small_fleet(&s, 2, 1);
  run.slowdowns = &slow;
  run.slowdown_count = 1;
  assert_fleet_refused(&run, "");
  slow.until_s = 3;
  slow.ratio = 0;
  assert_fleet_refused(&run, "");
  slow.ratio = 1;
  slow.replica = 1;
  assert_fleet_refused(&run, "");
  run.settings.max_batch = 0;
  assert_fleet_refused(&run, "/serving/max_batch");
}
END_TEST

START_TEST(test_every_arena_too_small_is_refused)
{
  static unsigned char memory[1 << 14];
  struct small s;
  struct fleet_totals totals;
  struct fleet_run run = small_fleet(&s, 4, 3);
  size_t bytes;
  run.timeout_s = 1;
  run.prefill_replicas = 1;
  bytes = fleet_arena_bytes(&run);
  ck_assert_uint_le(bytes, sizeof memory);
  for (size_t capacity = 0; capacity + 2 * alignof(max_align_t) <= bytes; capacity += 8) {
    struct arena arena;
    struct error e;
    arena_init(&arena, memory, capacity);
    ck_assert_int_eq(fleet_simulate(s.outcomes, &totals, NULL, &run, &arena, &e), ERR_LIMIT);
    ck_assert_uint_eq(arena.used_bytes, 0);
  }
}
END_TEST

static bool stop_at_once(void *cls)
{
  ++*(int *)cls;
  return true;
}

START_TEST(test_stop)
{
  enum { MANY = 5000 };
  static struct arrival rows[MANY];
  static struct serving_outcome outcomes[MANY];
  struct small s;
  struct fleet_totals totals;
  struct fleet_run run = small_fleet(&s, 1, 2);
  struct error e;
  int polls = 0;
  for (int i = 0; i < MANY; i++)
    rows[i] = (struct arrival){.send_s = i, .input_tokens = 10, .output_tokens = 10};
  run.arrivals = rows;
  run.count = MANY;
  run.stop = stop_at_once;
  run.stop_cls = &polls;
  ck_assert_int_eq(fleet_try(outcomes, &totals, NULL, &run, &e), ERR_CANCELLED);
  ck_assert_int_eq(polls, 1);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("fleet");
  tcase_add_test(tcase, test_one_replica_is_the_single_simulation);
  tcase_add_test(tcase, test_equals_step_by_step);
  tcase_add_test(tcase, test_least_loaded);
  tcase_add_test(tcase, test_closed_loop_over_the_fleet);
  tcase_add_test(tcase, test_slow_replica);
  tcase_add_test(tcase, test_clock_drops_for_a_while);
  tcase_add_test(tcase, test_clients_give_up_and_try_again);
  tcase_add_test(tcase, test_concurrency_limit);
  tcase_add_test(tcase, test_pools);
  tcase_add_test(tcase, test_pools_wait_for_memory);
  tcase_add_test(tcase, test_refusals);
  tcase_add_test(tcase, test_every_arena_too_small_is_refused);
  tcase_add_test(tcase, test_stop);
  return fixture_run("fleet", tcase);
}
