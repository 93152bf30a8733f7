/* A benchmark simulated as its client drove it, from the first request to the last, and the statistics that it prints.
   An open loop of a known number of requests is all simulation: near and above capacity the queue depends on how long the
   run was, which no steady state knows. Elsewhere the closed form says how long a token takes, the simulation runs at the
   pace that gives the same, and says how the requests spread about it. Clients and their rules: SERVING §6. */
#include "core/benchmark_int.h"

#include "core/rng.h"
#include "core/serving.h"

#include <math.h>
#include <string.h>

#define SEED 1
#define OPEN_RUN_S 600 /* open loops of unknown length: MLPerf's rules ask for ten minutes */
#define OPEN_RUN_MOST 8000

struct replay {
  const struct benchmark_run *run;
  struct serving_run serving;
  struct serving_cost unpaced, cost;
  struct arrival *rows;
  struct serving_outcome *outcomes;
  struct serving_totals totals;
  struct histogram *itl;
  struct serving_latencies *latencies;
};

static bool is_endless(const struct benchmark *benchmark)
{
  return benchmark->load == BENCHMARK_POISSON && isnan(benchmark->requests);
}

static uint32_t even_tokens(struct rng *rng, double mean, double spread)
{
  return (uint32_t)fmax(1, round(mean * (1 + spread * (2 * rng_uniform(rng) - 1))));
}

/* Load generators of closed loops draw prompts and answers apart, evenly between a share of the nominal length and all of it. */
static void draw_even(struct replay *replay)
{
  const struct benchmark *benchmark = replay->run->benchmark;
  struct rng inputs, outputs;
  rng_init_stream(&inputs, SEED, 1);
  rng_init_stream(&outputs, SEED, 2);
  for (size_t i = 0; i < replay->serving.count; i++)
    replay->rows[i] =
        (struct arrival){.input_tokens = even_tokens(&inputs, benchmark->input_tokens, benchmark->spread_ratio),
                         .output_tokens = even_tokens(&outputs, benchmark->output_tokens, benchmark->spread_ratio)};
}

static enum err draw(struct replay *replay, struct error *e)
{
  const struct benchmark *benchmark = replay->run->benchmark;
  const struct arrivals plan = {
      .load = LOAD_OPEN,
      .requests_per_s = benchmark->requests_per_s / replay->run->replicas,
      .input = {.kind = LENGTH_MOMENTS, .mean_tokens = benchmark->input_tokens, .cv_ratio = benchmark->prompt_cv_ratio},
      .output = {
          .kind = LENGTH_MOMENTS, .mean_tokens = benchmark->output_tokens, .cv_ratio = benchmark->answer_cv_ratio}};
  if (replay->serving.users == 0)
    return arrivals_draw(replay->rows, replay->serving.count, &plan, SEED, e);
  draw_even(replay);
  return ERR_OK;
}

static double request_count(const struct replay *replay)
{
  const struct benchmark *benchmark = replay->run->benchmark;
  if (replay->serving.users != 0)
    return BENCHMARK_REQUESTS_PER_USER * (double)replay->serving.users;
  if (!isnan(benchmark->requests))
    return benchmark->requests / replay->run->replicas;
  return fmin(OPEN_RUN_MOST, OPEN_RUN_S * benchmark->requests_per_s / replay->run->replicas);
}

/* Decode steps so many times as long. */
static void set_pace(struct replay *replay, double pace)
{
  replay->cost = replay->unpaced;
  for (int i = 0; i < SERVING_SEGMENTS; i++) {
    replay->cost.decode[i].step_s *= pace;
    replay->cost.decode[i].sequence_s *= pace;
    replay->cost.decode[i].context_token_s *= pace;
  }
}

/* Decode steps all alike: those of the mean batch. Runs near capacity take hours to settle when the batch is free. */
static void set_step(struct replay *replay, double step_s)
{
  replay->cost = replay->unpaced;
  for (int i = 0; i < SERVING_SEGMENTS; i++)
    replay->cost.decode[i] = (struct serving_decode){.step_s = step_s};
}

static enum err prepare(struct replay *replay, const struct benchmark_run *run, struct arena *arena, struct error *e)
{
  struct serving_run *serving = &replay->serving;
  struct serving_settings *settings = &serving->settings;
  const unsigned ranks = run->engine.layout.attention_data_parallel;
  memset(replay, 0, sizeof *replay);
  replay->run = run;
  serving_settings_of(settings, &run->engine.preset);
  serving_cost_of(&replay->unpaced, &run->engine, run->benchmark->input_tokens, 0, run->benchmark->output_tokens);
  settings->max_batch *= ranks; /* one scheduler stands for those of all ranks */
  settings->max_batched_tokens *= ranks;
  serving->cost = &replay->cost;
  if (run->benchmark->load == BENCHMARK_CLOSED)
    serving->users = (uint32_t)fmax(1, round(run->users));
  serving->count = (size_t)fmax(1, round(request_count(replay)));
  if (!is_endless(run->benchmark))
    settings->kv_blocks = (uint64_t)fmax(1, ceil(run->kv_tokens / settings->kv_block_tokens));
  else
    settings->max_batch = settings->max_batched_tokens / 2;
  replay->rows = arena_alloc(arena, serving->count, sizeof *replay->rows);
  replay->outcomes = arena_alloc(arena, serving->count, sizeof *replay->outcomes);
  replay->latencies = arena_alloc(arena, 1, sizeof *replay->latencies);
  replay->itl = arena_alloc(arena, 1, sizeof *replay->itl);
  if (replay->rows == NULL || replay->outcomes == NULL || replay->latencies == NULL || replay->itl == NULL)
    return error_set(e, ERR_LIMIT, "", "the replay of the benchmark needs more memory than allowed");
  serving->arrivals = replay->rows;
  serving->itl = replay->itl;
  set_pace(replay, 1);
  return draw(replay, e);
}

/* The first steps of the run take so much longer: the requests sent at its start wait for them, all others are sent later. */
static void add_cold_start(struct replay *replay)
{
  for (uint32_t i = 0; i < replay->serving.users && i < replay->serving.count; i++)
    replay->outcomes[i].send_s -= benchmark_cold_start_s(replay->run);
}

/* The long answers of an endless run end while others still come. */
static size_t counted(const struct replay *replay)
{
  return is_endless(replay->run->benchmark) ? (replay->serving.count + 1) / 2 : replay->serving.count;
}

static enum err simulate(struct replay *replay, struct arena *arena, struct error *e)
{
  enum err err;
  histogram_init(replay->itl);
  memset(&replay->totals, 0, sizeof replay->totals);
  err = serving_simulate(replay->outcomes, &replay->totals, &replay->serving, arena, e);
  if (err == ERR_OK && replay->totals.completed == 0)
    err = error_set(e, ERR_INVALID, "", "no request of the run fits the KV cache");
  if (err != ERR_OK)
    return err;
  add_cold_start(replay);
  serving_latencies_init(replay->latencies);
  serving_latencies_add(replay->latencies, replay->outcomes, counted(replay));
  return ERR_OK;
}

/* Times per token against the given one, at decode steps of exp(at) times their length: 0 where they agree. */
static enum err gap_at(double *gap, struct replay *replay, double at, double tpot_s, struct arena *arena,
                       struct error *e)
{
  enum err err;
  if (is_endless(replay->run->benchmark))
    set_step(replay, exp(at) * tpot_s);
  else
    set_pace(replay, exp(at));
  if ((err = simulate(replay, arena, e)) == ERR_OK)
    *gap = log(histogram_percentile(&replay->latencies->tpot_s, 0.5) / tpot_s);
  return err;
}

/* Simulates at the decode steps that make the median time per token the given one: secants, halving where they leave the
   bounds. The time grows with the steps, and less than they do. */
static enum err simulate_paced(struct replay *replay, double tpot_s, struct arena *arena, struct error *e)
{
  const double close = 0.005;
  double low = log(1 / 32.0), high = log(8), at = 0, gap, slope = 1, last_at, last_gap;
  enum err err = gap_at(&gap, replay, at, tpot_s, arena, e);
  for (int i = 0; err == ERR_OK && fabs(gap) > close && i < 12; i++) {
    if (gap > 0)
      high = at;
    else
      low = at;
    last_at = at;
    last_gap = gap;
    at -= gap / slope;
    if (!(at > low && at < high))
      at = 0.5 * (low + high);
    err = gap_at(&gap, replay, at, tpot_s, arena, e);
    slope = fmax(0.1, (gap - last_gap) / (at - last_at));
  }
  return err;
}

static void fill_percentiles(struct benchmark_figures *out, const struct replay *replay)
{
  const struct serving_latencies *latencies = replay->latencies;
  out->ttft_p50_s = histogram_percentile(&latencies->ttft_s, 0.5);
  out->ttft_p90_s = histogram_percentile(&latencies->ttft_s, 0.9);
  out->ttft_p99_s = histogram_percentile(&latencies->ttft_s, 0.99);
  out->e2e_p50_s = histogram_percentile(&latencies->e2e_s, 0.5);
  out->e2e_p90_s = histogram_percentile(&latencies->e2e_s, 0.9);
  out->e2e_p99_s = histogram_percentile(&latencies->e2e_s, 0.99);
  out->tpot_p90_s = histogram_percentile(&latencies->tpot_s, 0.9);
  out->tpot_p99_s = histogram_percentile(&latencies->tpot_s, 0.99);
}

static void fill_all(struct benchmark_figures *out, const struct replay *replay)
{
  const struct serving_latencies *latencies = replay->latencies;
  fill_percentiles(out, replay);
  out->ttft_mean_s = histogram_mean(&latencies->ttft_s);
  out->e2e_mean_s = histogram_mean(&latencies->e2e_s);
  out->tpot_mean_s = histogram_mean(&latencies->tpot_s);
  out->tpot_p50_s = histogram_percentile(&latencies->tpot_s, 0.5);
  out->itl_p50_s = histogram_percentile(replay->itl, 0.5);
  out->batch = replay->totals.decode_sequence_s / replay->totals.busy_s;
}

enum err benchmark_replay(struct benchmark_figures *out, const struct benchmark_run *run, struct arena *arena,
                          struct error *e)
{
  const size_t mark = arena_mark(arena);
  const bool is_whole = run->benchmark->load == BENCHMARK_POISSON && !isnan(run->benchmark->requests);
  struct replay replay;
  enum err err = prepare(&replay, run, arena, e);
  if (err == ERR_OK)
    err = is_whole && !(run->benchmark->tpot_s > 0) ? simulate(&replay, arena, e)
                                                    : simulate_paced(&replay, out->tpot_p50_s, arena, e);
  if (err == ERR_OK && is_whole)
    fill_all(out, &replay);
  else if (err == ERR_OK)
    fill_percentiles(out, &replay);
  arena_release(arena, mark);
  return err;
}
