/* Running the serving simulation in tests: an arena of exactly the announced size, settings to start from, small workloads
   drawn or made by hand. */
#ifndef FITD_TESTS_CORE_SERVING_FIXTURES_H
#define FITD_TESTS_CORE_SERVING_FIXTURES_H

#include "core/serving.h"
#include "tests/core/fixtures.h"

/* Runs in an arena of exactly the announced size. */
static inline enum err simulate(struct serving_outcome *outcomes, struct serving_totals *totals,
                                const struct serving_run *run, struct error *e)
{
  const size_t bytes = serving_arena_bytes(run);
  void *memory = malloc(bytes);
  struct arena arena;
  enum err err;
  ck_assert_ptr_nonnull(memory);
  arena_init(&arena, memory, bytes);
  err = serving_simulate(outcomes, totals, run, &arena, e);
  ck_assert_uint_eq(arena.used_bytes, 0);
  free(memory);
  return err;
}

static inline void simulate_ok(struct serving_outcome *outcomes, struct serving_totals *totals,
                               const struct serving_run *run)
{
  struct error e;
  const enum err err = simulate(outcomes, totals, run, &e);
  ck_assert_msg(err == ERR_OK, "%s", err == ERR_OK ? "" : e.message);
}

/* vLLM v1 without limits that bind. */
static inline struct serving_settings plain_settings(void)
{
  const struct serving_settings settings = {.kv = SERVING_KV_GROW,
                                            .max_batch = 256,
                                            .max_batched_tokens = 8192,
                                            .recv_interval_steps = 1,
                                            .admit_interval_steps = 1,
                                            .kv_block_tokens = 16};
  return settings;
}

/* One line in batch and context at all sizes. */
static inline struct serving_cost linear_cost(double step_s, double sequence_s, double context_token_s)
{
  struct serving_cost cost;
  memset(&cost, 0, sizeof cost);
  for (int i = 0; i < SERVING_SEGMENTS; i++)
    cost.decode[i] = (struct serving_decode){step_s, sequence_s, context_token_s};
  return cost;
}

/* ---- random small workloads ---- */

/* Multiples of 2^-30 s: sums of them are exact in double, so that both simulations must agree to the last bit, whatever
   the order of their additions. */
static inline double dyadic(uint64_t *state, double low, double high)
{
  return ldexp(floor(ldexp(fixture_random(state, low, high), 30)), -30);
}

static inline uint32_t pick(uint64_t *state, uint32_t low, uint32_t high)
{
  return low + fixture_random_index(state, high - low + 1);
}

static inline struct serving_cost serving_random_cost(uint64_t *state)
{
  struct serving_cost cost = {.prompt_step_s = dyadic(state, 0.001, 0.02),
                              .prompt_token_s = dyadic(state, 1e-6, 1e-3),
                              .prompt_pair_s = pick(state, 0, 1) * dyadic(state, 1e-9, 1e-6),
                              .prompt_alone_saved_ratio = pick(state, 0, 1) * (ldexp(pick(state, 0, 8), -3) - 0.25),
                              .prompt_fixed_s = pick(state, 0, 1) * dyadic(state, -0.01, 0.05),
                              .server_s = pick(state, 0, 1) * dyadic(state, 0, 0.03),
                              .server_token_s = pick(state, 0, 1) * dyadic(state, 0, 1e-4)};
  const double context_s = pick(state, 0, 1) * dyadic(state, 1e-7, 1e-5);
  for (int i = 0; i < SERVING_SEGMENTS; i++)
    cost.decode[i] = (struct serving_decode){
        .step_s = dyadic(state, 0.005, 0.02), .sequence_s = dyadic(state, 0, 0.001), .context_token_s = context_s};
  return cost;
}

static inline struct serving_settings serving_random_settings(uint64_t *state)
{
  struct serving_settings s = plain_settings();
  const bool is_large = pick(state, 0, 1) != 0;
  s.is_prefill_first = pick(state, 0, 1) != 0;
  s.has_whole_prompts = pick(state, 0, 1) != 0;
  s.has_look_ahead = pick(state, 0, 1) != 0;
  s.kv = (enum serving_kv)pick(state, 0, 2);
  s.kv_ratio = ldexp(pick(state, 0, 8), -3);
  s.max_batch = is_large ? pick(state, 13, 40) : pick(state, 1, 12);
  if (pick(state, 0, 2) == 0) {
    s.draft_tokens = pick(state, 0, 5);
    s.tokens_per_step = 1 + ldexp(pick(state, 0, 8 * s.draft_tokens), -3);
  }
  s.max_batched_tokens = s.max_batch * (1 + s.draft_tokens) + pick(state, 0, 200);
  s.kv_block_tokens = 1 + pick(state, 0, 1) * pick(state, 0, 15);
  s.recv_interval_steps = pick(state, 0, 2) == 0 ? pick(state, 2, 12) : 1;
  if (pick(state, 0, 3) == 0)
    s.batch_wait_steps = pick(state, 1, 20);
  else if (pick(state, 0, 3) == 0)
    s.admit_interval_steps = pick(state, 2, 8);
  s.batch_wait_ratio = 0.75;
  s.shared_prefix_tokens = pick(state, 0, 1) * pick(state, 0, 60);
  if (pick(state, 0, 3) != 0)
    s.kv_blocks = (is_large ? pick(state, 500, 3000) : pick(state, 120, 500)) / s.kv_block_tokens;
  s.kv_watermark_blocks = s.kv_blocks / 50 * pick(state, 0, 1);
  s.max_context_tokens = pick(state, 0, 4) == 0 ? 200 : 0;
  return s;
}

enum { SMALL = 60 };

static inline void serving_random_arrivals(struct arrival rows[SMALL], uint64_t *state)
{
  const double gap_s = fixture_random(state, 0.01, 1.5);
  double now = 0;
  for (int i = 0; i < SMALL; i++) {
    now += pick(state, 0, 4) == 0 ? 0 : dyadic(state, 0, 2 * gap_s);
    rows[i] = (struct arrival){.send_s = now, .input_tokens = pick(state, 1, 150), .output_tokens = pick(state, 1, 60)};
  }
}

static inline void assert_same_outcome(const struct serving_outcome *a, const struct serving_outcome *b,
                                       unsigned workload, int row)
{
  const double times_a[] = {a->send_s,     a->waited_s, a->visible_s,
                            a->admitted_s, a->first_s,  a->status == SERVING_COMPLETED ? a->finish_s : 0};
  const double times_b[] = {b->send_s,     b->waited_s, b->visible_s,
                            b->admitted_s, b->first_s,  b->status == SERVING_COMPLETED ? b->finish_s : 0};
  for (size_t i = 0; i < FIXTURE_COUNT(times_a); i++)
    ck_assert_msg(fabs(times_a[i] - times_b[i]) <= 0, "workload %u, request %d, time %zu: %.17g, step by step %.17g",
                  workload, row, i, times_a[i], times_b[i]);
  ck_assert_msg(a->status == b->status && a->output_tokens == b->output_tokens && a->preemptions == b->preemptions &&
                    a->cached_tokens == b->cached_tokens,
                "workload %u, request %d: status %d/%d, output %u/%u, preemptions %u/%u, cached %u/%u", workload, row,
                (int)a->status, (int)b->status, a->output_tokens, b->output_tokens, a->preemptions, b->preemptions,
                a->cached_tokens, b->cached_tokens);
}

static inline void assert_same_gaps(const struct histogram *a, const struct histogram *b)
{
  ck_assert_uint_eq(a->count, b->count);
  if (a->count == 0)
    return;
  assert_close(a->sum, b->sum, 1e-12);
  for (double p = 0; p <= 1; p += 0.125)
    assert_close(histogram_percentile(a, p), histogram_percentile(b, p), 0.009);
}

/* ---- by hand ---- */

/* Answers of three tokens to prompts of 100; a decode step takes 10 ms + 1 ms a sequence, a prompt 50 ms + 20 ms. */
struct small {
  struct serving_cost cost;
  struct serving_run run;
  struct arrival rows[4];
  struct serving_outcome outcomes[4];
  struct serving_totals totals;
};

static inline void small_init(struct small *small, size_t count)
{
  memset(small, 0, sizeof *small);
  small->cost = linear_cost(0.010, 0.001, 0);
  small->cost.prompt_step_s = 0.020;
  small->cost.prompt_token_s = 0.0005;
  for (size_t i = 0; i < count; i++)
    small->rows[i] = (struct arrival){.input_tokens = 100, .output_tokens = 3};
  small->run =
      (struct serving_run){.settings = plain_settings(), .cost = &small->cost, .arrivals = small->rows, .count = count};
}

#define assert_time(actual, expected) ck_assert_double_eq_tol(actual, expected, 1e-12)

#endif
