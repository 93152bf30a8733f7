/* The serving simulation against a step-by-step one, by hand on small cases, and its refusals. */
#include "core/serving.h"

#include <stdalign.h>

#include "tests/core/reference_fleet.h"
#include "tests/core/serving_fixtures.h"

/* What all 1,000 together must have exercised. */
struct coverage {
  uint64_t preemptions, cached, rejected, completed, closed;
};

static void compare_one(struct coverage *coverage, uint64_t *state, unsigned workload)
{
  static struct histogram gaps, reference_gaps;
  struct arrival rows[SMALL];
  struct serving_outcome outcomes[SMALL], expected[SMALL];
  const struct serving_cost cost = serving_random_cost(state);
  struct serving_run run = {
      .settings = serving_random_settings(state), .cost = &cost, .arrivals = rows, .count = SMALL};
  struct serving_totals totals;
  struct reference_fleet reference_fleet;
  struct reference reference;
  serving_random_arrivals(rows, state);
  run.users = pick(state, 0, 2) == 0 ? pick(state, 1, 20) : 0;
  histogram_init(&gaps);
  histogram_init(&reference_gaps);
  run.itl = &gaps;
  const struct fleet_run fleet = {
      .settings = run.settings, .cost = &cost, .replicas = 1, .arrivals = rows, .count = SMALL, .users = run.users};
  reference_simulate_fleet(&reference_fleet, &reference, expected, &reference_gaps, &fleet);
  simulate_ok(outcomes, &totals, &run);
  for (int i = 0; i < SMALL; i++)
    assert_same_outcome(&outcomes[i], &expected[i], workload, i);
  assert_same_gaps(&gaps, &reference_gaps);
  ck_assert_uint_eq(totals.prompt_tokens, reference.prompt_tokens);
  ck_assert_uint_eq(totals.prompt_steps, reference.prompt_steps);
  assert_close(totals.busy_s, reference.busy_s, 1e-13);
  assert_close(totals.running_sequence_s, reference.running_sequence_s, 1e-12);
  assert_close(totals.decode_sequence_s, reference.decode_sequence_s, 1e-12);
  coverage->preemptions += totals.preemptions;
  coverage->cached += totals.cached_tokens;
  coverage->rejected += totals.rejected;
  coverage->completed += totals.completed;
  coverage->closed += run.users != 0;
}

START_TEST(test_equals_step_by_step)
{
  struct coverage coverage = {0};
  uint64_t state = 20261130;
  for (unsigned workload = 0; workload < 1000; workload++)
    compare_one(&coverage, &state, workload);
  ck_assert_uint_gt(coverage.preemptions, 1000);
  ck_assert_uint_gt(coverage.cached, 100000);
  ck_assert_uint_gt(coverage.rejected, 100);
  ck_assert_uint_gt(coverage.closed, 200);
  ck_assert_uint_eq(coverage.completed + coverage.rejected, 1000 * SMALL);
}
END_TEST

START_TEST(test_one_request)
{
  struct small s;
  small_init(&s, 1);
  s.rows[0].send_s = 5;
  s.cost.server_s = 0.003;
  s.cost.server_token_s = 0.00001;
  s.cost.prompt_fixed_s = 0.007;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[0].visible_s, 5.004);
  assert_time(s.outcomes[0].admitted_s, 5.004);
  assert_time(s.outcomes[0].first_s, 5.004 + 0.020 + 0.050 + 0.007);
  assert_time(s.outcomes[0].finish_s, s.outcomes[0].first_s + 2 * 0.011);
}
END_TEST

/* Half of a prompt's way is beside the steps of others: 50 ms of its tokens in its step, the same again until the client has
   the first one, and all after it. */
START_TEST(test_tokens_come_late)
{
  struct small s;
  small_init(&s, 2);
  s.rows[1].send_s = 1;
  s.cost.prompt_late_ratio = 1;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[0].first_s, 0.070 + 0.050);
  assert_time(s.outcomes[0].finish_s, 0.092 + 0.050);
  assert_time(s.totals.busy_s, 2 * 0.092);
}
END_TEST

/* The second comes 5 ms into the first decode step of the other. Mixed: its prompt rides in the next step, after which
   both or it alone decode: 0.070 + 0.011, then 0.011 + 0.050, then 2 × 0.011. */
START_TEST(test_prompt_rides_along)
{
  struct small s;
  small_init(&s, 2);
  s.rows[1].send_s = 0.075;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[1].admitted_s, 0.081);
  assert_time(s.outcomes[0].finish_s, 0.142);
  assert_time(s.outcomes[1].first_s, 0.142);
  assert_time(s.outcomes[1].finish_s, 0.164);
}
END_TEST

/* Prefill first: 0.020 + 0.050 for the prompt while the other stands still, then a step of two and one alone. */
START_TEST(test_prefill_first)
{
  struct small s;
  small_init(&s, 2);
  s.rows[1].send_s = 0.075;
  s.run.settings.is_prefill_first = true;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[1].first_s, 0.151);
  assert_time(s.outcomes[0].finish_s, 0.163);
  assert_time(s.outcomes[1].finish_s, 0.174);
}
END_TEST

/* With look-ahead the step that begins at 0.081 takes what was visible at 0.070: the second waits for the next one, at
   0.092; then nothing decodes. */
START_TEST(test_look_ahead)
{
  struct small s;
  small_init(&s, 2);
  s.rows[1].send_s = 0.075;
  s.rows[0].output_tokens = 4;
  s.run.settings.has_look_ahead = true;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[1].admitted_s, 0.092);
}
END_TEST

/* A poll every four decode steps: the prompt ends at 0.070 and makes it due, then at 0.070 + 4 × 0.011. */
START_TEST(test_recv_interval)
{
  struct small s;
  small_init(&s, 2);
  s.rows[1].send_s = 0.075;
  s.rows[0].output_tokens = 40;
  s.run.settings.is_prefill_first = true;
  s.run.settings.recv_interval_steps = 4;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[1].admitted_s, 0.114);
}
END_TEST

/* 100 waiting tokens and one decode are less than 0.5 × 8192: seen at 0.081, held for 3 steps, taken at 0.114. */
START_TEST(test_batch_wait)
{
  struct small s;
  small_init(&s, 2);
  s.rows[1].send_s = 0.075;
  s.rows[0].output_tokens = 40;
  s.run.settings.batch_wait_steps = 3;
  s.run.settings.batch_wait_ratio = 0.5;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[1].admitted_s, 0.114);
}
END_TEST

/* Whole prompts as long as the budget never ride with a decode: SERVING §2's livelock. The second waits for the last of
   40 tokens, at 0.020 + 0.050 + 39 × 0.011. */
START_TEST(test_prompt_as_long_as_the_budget_waits_for_all_decodes)
{
  struct small s;
  small_init(&s, 2);
  s.rows[1].send_s = 0.075;
  s.rows[0].output_tokens = 40;
  s.run.settings.has_whole_prompts = true;
  s.run.settings.max_batched_tokens = s.run.settings.max_batch = 100;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[1].admitted_s, 0.070 + 39 * 0.011);
}
END_TEST

/* 100 + 39 tokens take 9 blocks of 16, the pool has 15: both prompts take 7 each, the first to grow (from 112 tokens on,
   both in the step that writes the 113th) finds one block for two. The later one goes, and comes back when the other has
   left after 39 steps: then it computes 100 + 13 tokens and goes on. */
START_TEST(test_preemption)
{
  struct small s;
  small_init(&s, 2);
  s.rows[0].output_tokens = s.rows[1].output_tokens = 40;
  s.run.settings.kv_blocks = 15;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  ck_assert_uint_eq(s.outcomes[0].preemptions, 0);
  ck_assert_uint_eq(s.outcomes[1].preemptions, 1);
  assert_time(s.outcomes[0].first_s, 0.120);
  assert_time(s.outcomes[0].finish_s, 0.120 + 12 * 0.012 + 27 * 0.011);
  assert_time(s.outcomes[1].finish_s, s.outcomes[0].finish_s + 0.020 + 113 * 0.0005 + 26 * 0.011);
  ck_assert_uint_eq(s.totals.output_tokens, 80);
  ck_assert_uint_eq(s.totals.prompt_tokens, 313);
}
END_TEST

/* 70 common tokens are 4 whole blocks of 16: the second computes 36 of its 100 tokens. */
START_TEST(test_shared_prefix)
{
  struct small s;
  small_init(&s, 2);
  s.rows[1].send_s = 3;
  s.run.settings.shared_prefix_tokens = 70;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  ck_assert_uint_eq(s.outcomes[0].cached_tokens, 0);
  ck_assert_uint_eq(s.outcomes[1].cached_tokens, 64);
  assert_time(s.outcomes[1].first_s, 3 + 0.020 + 36 * 0.0005);
}
END_TEST

static void assert_refused(const struct small *s, const char *pointer)
{
  struct serving_outcome outcomes[4];
  struct serving_totals totals;
  struct error e;
  ck_assert_int_eq(simulate(outcomes, &totals, &s->run, &e), ERR_INVALID);
  ck_assert_str_eq(e.pointer, pointer);
}

/* 1.75 tokens a step: after one to four steps 1, 3, 5 and 7 of the seven that follow the first. Two decodes with four
   drafts each take 10 tokens of a step's budget. */
START_TEST(test_speculative)
{
  struct small s;
  small_init(&s, 2);
  s.rows[0].output_tokens = 8;
  s.rows[1].output_tokens = 7;
  s.run.settings.draft_tokens = 4;
  s.run.settings.tokens_per_step = 1.75;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[0].first_s, 0.120);
  assert_time(s.outcomes[0].finish_s, 0.120 + 4 * 0.012);
  assert_time(s.outcomes[1].finish_s, 0.120 + 4 * 0.012);
  ck_assert_uint_eq(s.totals.output_tokens, 15);
  s.run.settings.max_batch = 2;
  s.run.settings.max_batched_tokens = 9;
  assert_refused(&s, "/serving/max_batch");
  s.run.settings.max_batched_tokens = 12;
  s.run.settings.tokens_per_step = 5.5;
  assert_refused(&s, "/serving/speculative");
}
END_TEST

/* Hashes of 32 tokens: a prompt of 100 has three whole ones. The second finds all and computes 4 tokens, the third finds what
   is alike from the start on. */
START_TEST(test_prefix_by_hashes)
{
  static const uint32_t hashes[] = {1, 2, 3, 4, 1, 7, 3};
  struct small s;
  small_init(&s, 3);
  s.run.hashes = hashes;
  s.run.hash_count = FIXTURE_COUNT(hashes);
  s.run.settings.hash_block_tokens = 32;
  s.rows[0].hash_count = s.rows[1].hash_count = 4;
  s.rows[2].hash_first = 4;
  s.rows[2].hash_count = 3;
  s.rows[1].send_s = 1;
  s.rows[2].send_s = 2;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  ck_assert_uint_eq(s.outcomes[0].cached_tokens, 0);
  ck_assert_uint_eq(s.outcomes[1].cached_tokens, 96);
  ck_assert_uint_eq(s.outcomes[2].cached_tokens, 32);
  assert_time(s.outcomes[1].first_s, 1 + 0.020 + 4 * 0.0005);
  ck_assert_uint_eq(s.totals.prompt_tokens, 100 + 4 + 68);
}
END_TEST

/* 96 tokens in three hashed blocks: the last token is computed all the same, so the third block is not used. */
START_TEST(test_last_token_is_always_computed)
{
  static const uint32_t hashes[] = {1, 2, 3};
  struct small s;
  small_init(&s, 2);
  s.run.hashes = hashes;
  s.run.hash_count = FIXTURE_COUNT(hashes);
  s.run.settings.hash_block_tokens = 32;
  for (int i = 0; i < 2; i++) {
    s.rows[i].input_tokens = 96;
    s.rows[i].hash_count = 3;
    s.rows[i].send_s = i;
  }
  simulate_ok(s.outcomes, &s.totals, &s.run);
  ck_assert_uint_eq(s.outcomes[1].cached_tokens, 64);
}
END_TEST

/* A pool of 8 blocks of 16: the first leaves 3 × 2 of them in the cache; the second takes 4, so the end of the first one's
   prompt goes; the third is like the first and finds two thirds. */
START_TEST(test_unused_prefixes_make_room)
{
  static const uint32_t hashes[] = {1, 2, 3, 9};
  struct small s;
  small_init(&s, 3);
  s.run.hashes = hashes;
  s.run.hash_count = FIXTURE_COUNT(hashes);
  s.run.settings.hash_block_tokens = 32;
  s.run.settings.kv_blocks = 8;
  s.rows[0].hash_count = s.rows[2].hash_count = 3;
  s.rows[1].input_tokens = 50;
  s.rows[1].hash_first = 3;
  s.rows[1].hash_count = 1;
  s.rows[1].send_s = 1;
  s.rows[2].send_s = 2;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  ck_assert_uint_eq(s.outcomes[1].cached_tokens, 0);
  ck_assert_uint_eq(s.outcomes[2].cached_tokens, 64);
  ck_assert_uint_eq(s.totals.peak_kv_blocks, 7);
}
END_TEST

/* Two users: each sends the next row when its answer is there. */
START_TEST(test_closed_loop)
{
  struct small s;
  small_init(&s, 4);
  s.rows[0].output_tokens = 1;
  s.run.users = 2;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  assert_time(s.outcomes[1].send_s, 0);
  assert_time(s.outcomes[0].finish_s, 0.120);
  assert_time(s.outcomes[2].send_s, 0.120);
  assert_time(s.outcomes[3].send_s, s.outcomes[1].finish_s);
}
END_TEST

START_TEST(test_too_long_is_rejected_and_counted)
{
  struct small s;
  small_init(&s, 4);
  s.rows[1].input_tokens = 300;
  s.rows[2].output_tokens = 200;
  s.run.settings.kv_blocks = 18;           /* 288 tokens */
  s.run.settings.max_context_tokens = 299; /* of which 300 is beyond both */
  simulate_ok(s.outcomes, &s.totals, &s.run);
  ck_assert_int_eq(s.outcomes[1].status, SERVING_REJECTED);
  ck_assert_int_eq(s.outcomes[2].status, SERVING_REJECTED);
  ck_assert_uint_eq(s.totals.rejected, 2);
  ck_assert_uint_eq(s.totals.completed, 2);
}
END_TEST

/* Rows 1 … 2 of three; of one token the time per further token is not defined. */
START_TEST(test_latencies)
{
  static struct serving_latencies latencies;
  struct small s;
  small_init(&s, 4);
  for (int i = 0; i < 4; i++)
    s.rows[i].send_s = 10 * i;
  s.rows[1].output_tokens = 1;
  s.rows[3].output_tokens = 50;
  s.cost.server_s = 0.005;
  simulate_ok(s.outcomes, &s.totals, &s.run);
  serving_latencies_init(&latencies);
  serving_latencies_add(&latencies, &s.outcomes[1], 2);
  ck_assert_uint_eq(latencies.ttft_s.count, 2);
  ck_assert_uint_eq(latencies.e2e_s.count, 2);
  ck_assert_uint_eq(latencies.tpot_s.count, 1);
  assert_close(histogram_mean(&latencies.ttft_s), 0.075, 1e-9);
  assert_close(histogram_mean(&latencies.tpot_s), 0.011, 1e-9);
  assert_close(histogram_mean(&latencies.e2e_s), 0.075 + 0.011, 1e-9);
  assert_close(histogram_mean(&latencies.queue_s) + 1, 1, 1e-9);
}
END_TEST

START_TEST(test_refusals)
{
  struct small s;
  small_init(&s, 2);
  s.run.settings.max_batch = 0;
  assert_refused(&s, "/serving/max_batch");
  s.run.settings.max_batch = s.run.settings.max_batched_tokens + 1;
  assert_refused(&s, "/serving/max_batch");
  small_init(&s, 2);
  s.run.settings.recv_interval_steps = 0;
  assert_refused(&s, "/serving");
  small_init(&s, 2);
  s.run.settings.batch_wait_steps = 1;
  s.run.settings.admit_interval_steps = 2;
  assert_refused(&s, "/serving/batch_wait_steps");
  small_init(&s, 2);
  s.run.settings.kv = SERVING_KV_RATIO;
  s.run.settings.kv_ratio = (double)NAN;
  assert_refused(&s, "/serving");
  small_init(&s, 2);
  s.run.settings.hash_block_tokens = 40;
  assert_refused(&s, "/serving/kv_block_tokens");
  s.run.settings.hash_block_tokens = 32;
  s.run.settings.shared_prefix_tokens = 1;
  assert_refused(&s, "/traffic/shared_prefix_tokens");
  s.run.settings.shared_prefix_tokens = 0;
  s.rows[1].hash_count = 1;
  assert_refused(&s, "");
}
END_TEST

START_TEST(test_every_arena_too_small_is_refused)
{
  struct small s;
  unsigned char memory[4096];
  size_t bytes;
  static const uint32_t hashes[] = {1, 2, 3};
  small_init(&s, 4);
  s.run.hashes = hashes;
  s.run.hash_count = FIXTURE_COUNT(hashes);
  s.run.settings.hash_block_tokens = 32;
  bytes = serving_arena_bytes(&s.run);
  ck_assert_uint_le(bytes, sizeof memory);
  for (size_t capacity = 0; capacity + 2 * alignof(max_align_t) <= bytes; capacity += 8) {
    struct arena arena;
    struct error e;
    arena_init(&arena, memory, capacity);
    ck_assert_int_eq(serving_simulate(s.outcomes, &s.totals, &s.run, &arena, &e), ERR_LIMIT);
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
  struct error e;
  int polls = 0;
  small_init(&s, 1);
  for (int i = 0; i < MANY; i++)
    rows[i] = (struct arrival){.send_s = i, .input_tokens = 10, .output_tokens = 10};
  s.run.arrivals = rows;
  s.run.count = MANY;
  s.run.stop = stop_at_once;
  s.run.stop_cls = &polls;
  ck_assert_int_eq(simulate(outcomes, &s.totals, &s.run, &e), ERR_CANCELLED);
  ck_assert_int_eq(polls, 1);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("serving");
  tcase_add_test(tcase, test_equals_step_by_step);
  tcase_add_test(tcase, test_one_request);
  tcase_add_test(tcase, test_tokens_come_late);
  tcase_add_test(tcase, test_prompt_rides_along);
  tcase_add_test(tcase, test_prefill_first);
  tcase_add_test(tcase, test_look_ahead);
  tcase_add_test(tcase, test_recv_interval);
  tcase_add_test(tcase, test_batch_wait);
  tcase_add_test(tcase, test_prompt_as_long_as_the_budget_waits_for_all_decodes);
  tcase_add_test(tcase, test_preemption);
  tcase_add_test(tcase, test_shared_prefix);
  tcase_add_test(tcase, test_speculative);
  tcase_add_test(tcase, test_prefix_by_hashes);
  tcase_add_test(tcase, test_last_token_is_always_computed);
  tcase_add_test(tcase, test_unused_prefixes_make_room);
  tcase_add_test(tcase, test_closed_loop);
  tcase_add_test(tcase, test_too_long_is_rejected_and_counted);
  tcase_add_test(tcase, test_latencies);
  tcase_add_test(tcase, test_refusals);
  tcase_add_test(tcase, test_every_arena_too_small_is_refused);
  tcase_add_test(tcase, test_stop);
  return fixture_run("serving", tcase);
}
