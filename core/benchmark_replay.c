/* An open-loop benchmark simulated as its client drove it: so many Poisson arrivals, from the first to the last, and the
   statistics that it prints. Near and above capacity the queue depends on how long the run was, which no steady state knows.
   Clients and their rules: SERVING §6. */
#include "core/benchmark_int.h"

#include "core/serving.h"

#include <math.h>
#include <string.h>

#define LENGTH_CV 0.8 /* of data sets of conversations: 0.7 to 0.85 (SERVING §4) */
#define SEED 1

struct replay {
  struct serving_run serving;
  struct serving_cost cost;
  struct arrival *rows;
  struct serving_outcome *outcomes;
  struct serving_totals totals;
  struct histogram *itl;
  struct serving_latencies *latencies;
};

static enum err draw(struct replay *replay, const struct benchmark_run *run, struct error *e)
{
  const struct benchmark *benchmark = run->benchmark;
  const struct arrivals plan = {
      .load = LOAD_OPEN,
      .requests_per_s = benchmark->requests_per_s / run->replicas,
      .input = {.kind = LENGTH_MOMENTS, .mean_tokens = benchmark->input_tokens, .cv_ratio = LENGTH_CV},
      .output = {.kind = LENGTH_MOMENTS, .mean_tokens = benchmark->output_tokens, .cv_ratio = LENGTH_CV}};
  return arrivals_draw(replay->rows, replay->serving.count, &plan, SEED, e);
}

static enum err prepare(struct replay *replay, const struct benchmark_run *run, struct arena *arena, struct error *e)
{
  struct serving_run *serving = &replay->serving;
  struct serving_settings *settings = &serving->settings;
  const unsigned ranks = run->engine.layout.attention_data_parallel;
  memset(replay, 0, sizeof *replay);
  serving_settings_of(settings, &run->engine.preset);
  serving_cost_of(&replay->cost, &run->engine, run->benchmark->input_tokens, 0, run->benchmark->output_tokens);
  settings->max_batch *= ranks; /* one scheduler stands for those of all ranks */
  settings->max_batched_tokens *= ranks;
  settings->kv_blocks = (uint64_t)fmax(1, ceil(run->kv_tokens / settings->kv_block_tokens));
  serving->cost = &replay->cost;
  serving->count = (size_t)fmax(1, round(run->benchmark->requests / run->replicas));
  replay->rows = arena_alloc(arena, serving->count, sizeof *replay->rows);
  replay->outcomes = arena_alloc(arena, serving->count, sizeof *replay->outcomes);
  replay->latencies = arena_alloc(arena, 1, sizeof *replay->latencies);
  replay->itl = arena_alloc(arena, 1, sizeof *replay->itl);
  if (replay->rows == NULL || replay->outcomes == NULL || replay->latencies == NULL || replay->itl == NULL)
    return error_set(e, ERR_LIMIT, "", "the replay of the benchmark needs more memory than allowed");
  serving->arrivals = replay->rows;
  serving->itl = replay->itl;
  histogram_init(replay->itl);
  return draw(replay, run, e);
}

static void fill(struct benchmark_figures *out, struct replay *replay)
{
  struct serving_latencies *latencies = replay->latencies;
  serving_latencies_init(latencies);
  serving_latencies_add(latencies, replay->outcomes, replay->serving.count);
  out->ttft_mean_s = histogram_mean(&latencies->ttft_s);
  out->ttft_p50_s = histogram_percentile(&latencies->ttft_s, 0.5);
  out->ttft_p90_s = histogram_percentile(&latencies->ttft_s, 0.9);
  out->ttft_p99_s = histogram_percentile(&latencies->ttft_s, 0.99);
  out->e2e_mean_s = histogram_mean(&latencies->e2e_s);
  out->e2e_p50_s = histogram_percentile(&latencies->e2e_s, 0.5);
  out->e2e_p90_s = histogram_percentile(&latencies->e2e_s, 0.9);
  out->e2e_p99_s = histogram_percentile(&latencies->e2e_s, 0.99);
  out->tpot_mean_s = histogram_mean(&latencies->tpot_s);
  out->tpot_p50_s = histogram_percentile(&latencies->tpot_s, 0.5);
  out->tpot_p90_s = histogram_percentile(&latencies->tpot_s, 0.9);
  out->tpot_p99_s = histogram_percentile(&latencies->tpot_s, 0.99);
  out->itl_p50_s = histogram_percentile(replay->itl, 0.5);
  out->batch = replay->totals.decode_sequence_s / replay->totals.busy_s;
}

enum err benchmark_replay(struct benchmark_figures *out, const struct benchmark_run *run, struct arena *arena,
                          struct error *e)
{
  const size_t mark = arena_mark(arena);
  struct replay replay;
  enum err err = prepare(&replay, run, arena, e);
  if (err == ERR_OK)
    err = serving_simulate(replay.outcomes, &replay.totals, &replay.serving, arena, e);
  if (err == ERR_OK && replay.totals.completed == 0)
    err = error_set(e, ERR_INVALID, "", "no request of the run fits the KV cache");
  if (err == ERR_OK)
    fill(out, &replay);
  arena_release(arena, mark);
  return err;
}
