/* Simulated requests a second beside a plain simulator that takes every step, in the same run: rates on a shared machine
   swing, ratios hardly do. Prints; fails when CORE §9's goal is missed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/fleet.h"

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

/* One running sequence of the plain simulator. */
struct running {
  uint32_t row, left, kv_tokens;
};

/* A replica the plain way: first come, first served while batch and blocks allow, prompts beside decodes, one step after
   the other and one sequence after the other in each. No preemption, no look-ahead: the least that a step loop does. */
struct plain {
  const struct serving_settings *settings;
  const struct serving_cost *cost;
  struct running running[4096];
  uint32_t count;
  size_t next;
  double now;
  uint64_t used_blocks;
};

static uint64_t blocks_of(const struct plain *plain, uint64_t tokens)
{
  return (tokens + plain->settings->kv_block_tokens - 1) / plain->settings->kv_block_tokens;
}

/* Prompt tokens that this step takes in. */
static uint32_t plain_admit(struct plain *plain, uint32_t most)
{
  uint32_t tokens = 0;
  while (plain->next < REQUESTS && plain->count < most && tokens < plain->settings->max_batched_tokens &&
         rows[plain->next].send_s <= plain->now) {
    const struct arrival *row = &rows[plain->next];
    const uint64_t blocks = blocks_of(plain, row->input_tokens);
    if (plain->used_blocks + blocks > plain->settings->kv_blocks)
      break;
    plain->used_blocks += blocks;
    tokens += row->input_tokens;
    plain->running[plain->count++] = (struct running){(uint32_t)plain->next++, row->output_tokens, row->input_tokens};
  }
  return tokens;
}

static void plain_step(struct plain *plain, uint32_t prompt_tokens)
{
  const struct serving_decode *decode = serving_segment(plain->cost, plain->count);
  uint64_t context = 0;
  for (uint32_t i = 0; i < plain->count; i++)
    context += plain->running[i].kv_tokens;
  plain->now += decode->step_s + decode->sequence_s * plain->count + decode->context_token_s * (double)context;
  if (prompt_tokens != 0)
    plain->now += serving_prompt_s(plain->cost, prompt_tokens, 0) + plain->cost->prompt_fixed_s;
  for (uint32_t i = 0; i < plain->count; i++) {
    struct running *r = &plain->running[i];
    plain->used_blocks += r->kv_tokens++ % plain->settings->kv_block_tokens == 0;
    if (--r->left != 0)
      continue;
    outcomes[r->row].finish_s = plain->now;
    plain->used_blocks -= blocks_of(plain, r->kv_tokens);
    *r = plain->running[--plain->count];
    i--;
  }
}

static double plain_s(const struct serving_settings *settings, const struct serving_cost *cost, uint32_t users)
{
  static struct plain plain;
  const double began = cpu_s();
  const uint32_t most = users != 0 && users < settings->max_batch ? users : settings->max_batch;
  plain = (struct plain){.settings = settings, .cost = cost};
  while (plain.next < REQUESTS || plain.count != 0) {
    const uint32_t tokens = plain_admit(&plain, most);
    if (plain.count == 0)
      plain.now = rows[plain.next].send_s;
    else
      plain_step(&plain, tokens);
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
  double drawn_s = cpu_s(), simulated_s = (double)INFINITY;
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
  printf("%-34s %5.2f M requests/s (drawn at %5.2f M/s), %5.1f × a plain step loop, %5.1f decoding, %lu preemptions\n",
         setting->name, 1e-6 * REQUESTS / simulated_s, 1e-6 * REQUESTS / drawn_s,
         plain_s(&setting->settings, &cost, setting->users) / simulated_s, totals.decode_sequence_s / totals.busy_s,
         (unsigned long)totals.preemptions);
  return REQUESTS / simulated_s >= goal_per_s;
}

/* Eight replicas with all that a fleet has: clients that give up, a limit, background requests, a slow clock. */
static bool measure_fleet(const struct serving_settings *settings, double goal_per_s)
{
  static unsigned char memory[4 << 20];
  static const struct fleet_slowdown slow = {100, 150, 1 / 0.6, FLEET_ALL_REPLICAS};
  const struct serving_cost cost = cost_of();
  const struct arrivals plan = {.load = LOAD_OPEN,
                                .arrival = ARRIVAL_POISSON,
                                .requests_per_s = 60,
                                .input = {.kind = LENGTH_QUANTILES, .p50_tokens = 1000, .p99_tokens = 6000},
                                .output = {.kind = LENGTH_MOMENTS, .mean_tokens = 250, .cv_ratio = 0.8}};
  const struct fleet_run run = {.settings = *settings,
                                .cost = &cost,
                                .replicas = 8,
                                .arrivals = rows,
                                .count = REQUESTS,
                                .concurrency_limit = 600,
                                .sheddable_share = 0.2,
                                .seed = 1,
                                .timeout_s = 60,
                                .retries = 2,
                                .slowdowns = &slow,
                                .slowdown_count = 1};
  struct fleet_totals totals = {0};
  struct arena arena;
  double simulated_s = (double)INFINITY;
  if (arrivals_draw(rows, REQUESTS, &plan, 1, NULL) != ERR_OK)
    return false;
  arena_init(&arena, memory, sizeof memory);
  for (int i = 0; i < 7; i++) {
    const double began = cpu_s();
    if (fleet_simulate(outcomes, &totals, NULL, &run, &arena, NULL) != ERR_OK)
      return false;
    simulated_s = fmin(simulated_s, cpu_s() - began);
  }
  printf("%-34s %5.2f M requests/s, %lu attempts, %lu shed, %lu timed out, arena %zu kB\n",
         "eight replicas, all policies", 1e-6 * REQUESTS / simulated_s, (unsigned long)totals.attempts,
         (unsigned long)totals.shed, (unsigned long)totals.timed_out, arena.peak_bytes / 1024);
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
    is_met = measure_fleet(&v1, 2e6) && is_met;
  }
  return is_met ? EXIT_SUCCESS : EXIT_FAILURE;
}
