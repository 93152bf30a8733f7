/* Simulated requests a second beside a loop that takes every step, in the same run: rates on a shared machine swing, ratios
   hardly do. Prints; fails when CORE §9's goal is missed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/serving.h"

enum { REQUESTS = 20000 };

static double cpu_s(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct arrival rows[REQUESTS];
static struct serving_outcome outcomes[REQUESTS];
static struct histogram itl;

/* Llama-3.1-70B on four H100 in round figures. */
static struct serving_cost cost_of(void)
{
  struct serving_cost cost = {.prompt_step_s = 0.012,
                              .prompt_token_s = 40e-6,
                              .prompt_pair_s = 1e-9,
                              .prompt_fixed_s = 0.02,
                              .server_s = 0.015,
                              .server_token_s = 2e-6};
  for (int i = 0; i < SERVING_SEGMENTS; i++)
    cost.decode[i] = (struct serving_decode){.step_s = 0.012, .sequence_s = 20e-6, .context_token_s = 25e-9};
  return cost;
}

/* Gives every sequence its token in every step and nothing else: the least that a simulator without jumps does. */
static double step_loop_s(uint64_t steps, unsigned batch)
{
  static volatile unsigned finished;
  static unsigned left[4096];
  const double began = cpu_s();
  for (unsigned i = 0; i < batch; i++)
    left[i] = 1 + 2 * i;
  for (uint64_t step = 0; step < steps; step++)
    for (unsigned i = 0; i < batch; i++)
      if (--left[i] == 0) {
        left[i] = 500;
        finished++;
      }
  return cpu_s() - began;
}

struct setting {
  const char *name;
  double rate;
  uint32_t users;
  struct serving_settings settings;
  bool has_itl;
};

static bool measure(const struct setting *setting, double goal_per_s)
{
  static unsigned char memory[1 << 20];
  const struct serving_cost cost = cost_of();
  const struct arrivals plan = {.load = setting->users != 0 ? LOAD_CLOSED : LOAD_OPEN,
                                .arrival = ARRIVAL_POISSON,
                                .requests_per_s = setting->rate,
                                .input = {.kind = LENGTH_QUANTILES, .p50_tokens = 1000, .p99_tokens = 6000},
                                .output = {.kind = LENGTH_MOMENTS, .mean_tokens = 250, .cv_ratio = 0.8}};
  struct serving_run run = {.settings = setting->settings,
                            .cost = &cost,
                            .arrivals = rows,
                            .count = REQUESTS,
                            .users = setting->users,
                            .itl = setting->has_itl ? &itl : NULL};
  struct serving_totals totals = {0};
  struct arena arena;
  double drawn_s = cpu_s(), simulated_s = (double)INFINITY, step_s;
  if (arrivals_draw(rows, REQUESTS, &plan, 1, NULL) != ERR_OK)
    return false;
  drawn_s = cpu_s() - drawn_s;
  arena_init(&arena, memory, sizeof memory);
  for (int i = 0; i < 7; i++) {
    const double began = cpu_s();
    if (serving_simulate(outcomes, &totals, &run, &arena, NULL) != ERR_OK)
      return false;
    simulated_s = fmin(simulated_s, cpu_s() - began);
  }
  step_s = step_loop_s(totals.decode_steps, (unsigned)(totals.decode_sequence_s / totals.busy_s + 1));
  printf("%-34s %5.2f M requests/s (drawn at %5.2f M/s), %4.1f × a loop over every sequence of every step, "
         "%5.1f decoding, %lu preemptions\n",
         setting->name, 1e-6 * REQUESTS / simulated_s, 1e-6 * REQUESTS / drawn_s, step_s / simulated_s,
         totals.decode_sequence_s / totals.busy_s, (unsigned long)totals.preemptions);
  return REQUESTS / simulated_s >= goal_per_s;
}

int main(void)
{
  const struct serving_settings v1 = {.has_look_ahead = true,
                                      .max_batch = 1024,
                                      .max_batched_tokens = 8192,
                                      .recv_interval_steps = 1,
                                      .admit_interval_steps = 1,
                                      .kv_block_tokens = 16,
                                      .kv_blocks = 30000};
  struct serving_settings sglang = v1, tensorrt = v1, tight = v1;
  bool is_met = true;
  sglang.is_prefill_first = true;
  sglang.kv = SERVING_KV_RATIO;
  sglang.kv_ratio = 0.1;
  sglang.kv_blocks = 480000;
  sglang.kv_block_tokens = 1;
  sglang.recv_interval_steps = 10;
  tensorrt.has_look_ahead = false;
  tensorrt.has_whole_prompts = true;
  tensorrt.kv = SERVING_KV_RESERVE;
  tensorrt.batch_wait_steps = 20;
  tensorrt.batch_wait_ratio = 0.9;
  tight.kv_blocks = 6000;
  {
    const struct setting settings[] = {{"vllm v1, Poisson, half load", 6, 0, v1, false},
                                       {"vllm v1, Poisson, high load", 9, 0, v1, false},
                                       {"the same with gaps between tokens", 9, 0, v1, true},
                                       {"vllm v1, little memory", 9, 0, tight, false},
                                       {"vllm v1, 256 users", 0, 256, v1, false},
                                       {"sglang, Poisson, high load", 9, 0, sglang, false},
                                       {"tensorrt-llm, Poisson, high load", 9, 0, tensorrt, false}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
      is_met = measure(&settings[i], 2e6) && is_met;
  }
  return is_met ? EXIT_SUCCESS : EXIT_FAILURE;
}
