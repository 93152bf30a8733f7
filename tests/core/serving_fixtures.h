/* Running the serving simulation in tests: an arena of exactly the announced size, and settings to start from. */
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

#endif
