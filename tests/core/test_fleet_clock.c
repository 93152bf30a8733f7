/* Clocks that drop while a fleet works, the articles' case: what a limit on the requests inside is worth to those that are let
   in, and what becomes of all without one. */
#include "core/fleet.h"

#include "tests/core/serving_fixtures.h"

/* Replicas of round figures: a prompt of 1,000 tokens takes 50 ms, a step of n answers 10 + 0.1 n ms, an answer has 200
   tokens. With n at once a replica finishes r(n) requests a second: steps have 1 - 0.05 r of the time, so n = r · 199 · (10 +
   0.1 n) ms / (1 - 0.05 r), r(n) = n / (1.99 + 0.0699 n): 8.35 with 40, 9.9 with 64, the most. Everything takes 1 / 0.6 as long
   at 0.6 of the clock. */
enum { REQUESTS = 20000, MOST = 64, LIMIT = 40 };
static const double drop_s = 100, recovery_s = 200, patience_s = 10, slow_clock = 0.6;

struct story {
  struct serving_cost cost;
  struct fleet_slowdown slow;
  struct fleet_run run;
  struct fleet_totals totals;
  struct arrival rows[REQUESTS];
  struct serving_outcome outcomes[REQUESTS];
};

/* Clients that wait for 10 s and try once more; half of the requests are background. */
static void story_init(struct story *s, uint32_t replicas, double rate_per_s, uint32_t slow_replica)
{
  const struct arrivals plan = {.load = LOAD_OPEN,
                                .arrival = ARRIVAL_POISSON,
                                .requests_per_s = rate_per_s,
                                .input = {.kind = LENGTH_FIXED, .fixed_tokens = 1000},
                                .output = {.kind = LENGTH_FIXED, .fixed_tokens = 200}};
  s->cost = linear_cost(0.010, 0.0001, 0);
  s->cost.prompt_step_s = 0.010;
  s->cost.prompt_token_s = 50e-6;
  s->slow = (struct fleet_slowdown){drop_s, recovery_s, 1 / slow_clock, slow_replica};
  s->run = (struct fleet_run){.settings = plain_settings(),
                              .cost = &s->cost,
                              .replicas = replicas,
                              .arrivals = s->rows,
                              .count = REQUESTS,
                              .seed = 1,
                              .sheddable_share = 0.5,
                              .timeout_s = patience_s,
                              .retries = 1,
                              .slowdowns = &s->slow,
                              .slowdown_count = 1};
  s->run.settings.max_batch = MOST;
  ck_assert_int_eq(arrivals_draw(s->rows, REQUESTS, &plan, 1, NULL), ERR_OK);
}

static void run(struct story *s)
{
  const size_t bytes = fleet_arena_bytes(&s->run);
  void *memory = malloc(bytes);
  struct arena arena;
  struct error e;
  enum err err;
  ck_assert_ptr_nonnull(memory);
  arena_init(&arena, memory, bytes);
  err = fleet_simulate(s->outcomes, &s->totals, NULL, &s->run, &arena, &e);
  ck_assert_msg(err == ERR_OK, "%s", err == ERR_OK ? "" : e.message);
  free(memory);
}

/* What became of the requests that were sent within a span. */
struct fate {
  double sent, completed, shed, timed_out;
  double e2e_p99_s; /* of those that completed */
};

static struct fate fate_of(const struct story *s, double from_s, double until_s)
{
  static struct histogram e2e;
  struct fate fate = {.sent = 0};
  histogram_init(&e2e);
  for (int i = 0; i < REQUESTS; i++) {
    const struct serving_outcome *outcome = &s->outcomes[i];
    if (outcome->send_s < from_s || outcome->send_s >= until_s)
      continue;
    fate.sent++;
    fate.shed += outcome->status == SERVING_SHED;
    fate.timed_out += outcome->status == SERVING_TIMED_OUT;
    if (outcome->status != SERVING_COMPLETED)
      continue;
    fate.completed++;
    histogram_add(&e2e, outcome->finish_s - outcome->send_s, 1);
  }
  fate.e2e_p99_s = histogram_percentile(&e2e, 0.99);
  return fate;
}

/* ---- the clock of all of them, four replicas at 30 requests a second: full they finish 39.6, at the low clock 23.8 ---- */

/* 7.5 a second each: n = 7.5 · 1.99 / (1 - 7.5 · 0.0699) = 31 at once, which stay 31 / 7.5 = 4.2 s. */
static void assert_undisturbed(const struct fate *fate)
{
  ck_assert(fate->timed_out <= 0 && fate->shed < 0.01 * fate->sent);
  ck_assert_msg(fate->e2e_p99_s > 4.2 && fate->e2e_p99_s < 0.8 * patience_s, "%g s", fate->e2e_p99_s);
}

/* 3,000 requests in 100 s, of which 2,380 can be answered: all wait longer and longer, until each is given up after most of
   its work is done, and tried again. Clients that try again are 60 requests a second for 39.6 that could be answered, so the
   clock's return does not end it: all work goes into answers that nobody waits for any more. */
START_TEST(without_a_limit_requests_fail_and_go_on_failing)
{
  static struct story s;
  struct fate fate;
  story_init(&s, 4, 30, FLEET_ALL_REPLICAS);
  run(&s);
  fate = fate_of(&s, 20, drop_s - patience_s);
  assert_undisturbed(&fate);
  fate = fate_of(&s, drop_s, recovery_s);
  ck_assert_msg(fate.timed_out > 0.9 * fate.sent, "%g of %g", fate.timed_out, fate.sent);
  fate = fate_of(&s, recovery_s + 60, (double)INFINITY);
  ck_assert_msg(fate.timed_out > 0.9 * fate.sent, "%g of %g", fate.timed_out, fate.sent);
  ck_assert_uint_gt(s.totals.serving.wasted_tokens, s.totals.serving.output_tokens / 3);
}
END_TEST

/* 40 in each: 0.6 · 8.35 · 4 = 20 requests a second, each after 40 / 5.01 = 8 s. The 15 that are not background are all among
   them; of 100 s some 1,000 background requests are refused at once. Nothing is done in vain, and nothing is left of it a few
   seconds after the clock has come back. */
START_TEST(with_a_limit_those_let_in_keep_their_target)
{
  static struct story s;
  struct fate fate;
  story_init(&s, 4, 30, FLEET_ALL_REPLICAS);
  s.run.concurrency_limit = 4 * LIMIT;
  run(&s);
  fate = fate_of(&s, drop_s, recovery_s);
  ck_assert(fate.timed_out <= 0);
  assert_close(fate.e2e_p99_s, 8.0, 0.1);
  assert_close(fate.shed, 1000, 0.15); /* a deviation of √3000 of what is sent is 5 % of it */
  fate = fate_of(&s, recovery_s + 20, (double)INFINITY);
  assert_undisturbed(&fate);
  ck_assert_uint_eq(s.totals.timed_out, 0);
  ck_assert_uint_eq(s.totals.serving.wasted_tokens, 0);
}
END_TEST

/* ---- the clock of one in eight, at 70 requests a second: 79.2 full, 75.3 with one of them slow ---- */

/* All hold as many, as each request goes where the fewest are: before 8.75 a second each with n = 45 for 5.1 s. Then 7.6 r(n) =
   70: r = 9.2, n = 51; the slow one lets go of 0.6 · 9.2, after 51 / 5.5 = 9.3 s. It answers 7 % of all, so that is the p99 (and
   more, where arrivals crowd). */
START_TEST(one_slow_replica_is_the_tail)
{
  static struct story s;
  struct fate before, during;
  story_init(&s, 8, 70, 0);
  s.run.timeout_s = 0;
  run(&s);
  before = fate_of(&s, 20, drop_s - patience_s);
  during = fate_of(&s, drop_s + 20, recovery_s - patience_s);
  ck_assert_msg(before.e2e_p99_s > 5.1 && before.e2e_p99_s < 7.5, "%g s", before.e2e_p99_s);
  ck_assert_msg(during.e2e_p99_s > 9.3 && during.e2e_p99_s < 16, "%g s", during.e2e_p99_s);
}
END_TEST

/* Clients that give up after 10 s lose some of those 7 %; with 40 in each the slow one's take 40 / (0.6 · 8.35) = 8 s. */
START_TEST(a_limit_brings_the_slow_ones_back_in_time)
{
  static struct story s;
  struct fate fate;
  story_init(&s, 8, 70, 0);
  run(&s);
  fate = fate_of(&s, drop_s, recovery_s);
  ck_assert_msg(fate.timed_out > 0.01 * fate.sent, "%g of %g", fate.timed_out, fate.sent);
  s.run.concurrency_limit = 8 * LIMIT;
  run(&s);
  fate = fate_of(&s, drop_s, recovery_s);
  ck_assert(fate.timed_out <= 0);
  assert_close(fate.e2e_p99_s, 8.0, 0.1);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("clock");
  tcase_add_test(tcase, without_a_limit_requests_fail_and_go_on_failing);
  tcase_add_test(tcase, with_a_limit_those_let_in_keep_their_target);
  tcase_add_test(tcase, one_slow_replica_is_the_tail);
  tcase_add_test(tcase, a_limit_brings_the_slow_ones_back_in_time);
  return fixture_run("core/fleet_clock", tcase);
}
