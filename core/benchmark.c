/* Benchmarks as they were run: layout guesses, running batch, start-up wave, percentiles by load. */
#include "core/benchmark_int.h"

#include "core/parallel.h"
#include "core/served.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

static const double requests_per_user = BENCHMARK_REQUESTS_PER_USER;

/* The smallest power of two whose weights take at most 0.72 of the memory. STEPMODEL §1.1. */
static unsigned guess_tensor_parallel(const struct benchmark *benchmark)
{
  const double memory = hardware_memory_bytes(benchmark->hardware, NULL);
  struct layout layout = {1, 1, 1, 1};
  while (layout.tensor_parallel < benchmark->gpus &&
         memory_weights_bytes(benchmark->model, &layout, &benchmark->precision) > 0.72 * memory)
    layout.tensor_parallel *= 2;
  return layout.tensor_parallel;
}

/* Where the table does not say: mixtures with expert parallelism run attention data-parallel when one device holds it all
   or the load is high. STEPMODEL §1.2. */
static bool guesses_attention_data_parallel(const struct benchmark *benchmark, unsigned tp, unsigned ep)
{
  const bool is_trt = strcmp(benchmark->preset.runtime, "tensorrt-llm") == 0;
  if (!served_has_experts(benchmark->model) || ep <= 1)
    return false;
  return tp == 1 || benchmark->batch >= 32 * benchmark->gpus || (is_trt && benchmark->load == BENCHMARK_OFFLINE);
}

static struct layout layout_of(const struct benchmark *benchmark)
{
  struct layout layout = {benchmark->tensor_parallel, benchmark->pipeline_parallel, benchmark->expert_parallel,
                          benchmark->attention_data_parallel};
  if (layout.tensor_parallel == 0)
    layout.tensor_parallel = guess_tensor_parallel(benchmark);
  if (layout.pipeline_parallel == 0)
    layout.pipeline_parallel = 1;
  if (layout.expert_parallel == 0)
    layout.expert_parallel = 1;
  if (layout.attention_data_parallel > 1) {
    layout.tensor_parallel = 1;
  } else if (layout.attention_data_parallel == 0 &&
             guesses_attention_data_parallel(benchmark, layout.tensor_parallel, layout.expert_parallel)) {
    layout.attention_data_parallel = (unsigned)fmax(layout.tensor_parallel, layout.expert_parallel);
    layout.tensor_parallel = 1;
  }
  if (layout.attention_data_parallel == 0)
    layout.attention_data_parallel = 1;
  if (layout.expert_parallel > 1) /* experts are cut over all ranks */
    layout.expert_parallel = layout.tensor_parallel * layout.attention_data_parallel;
  return layout;
}

/* Sequences that fit, and the tokens of their pool: KV budget of STEPMODEL §4, for runs whose engine version and limits are
   not known exactly. */
static double batch_cap(double *kv_tokens, const struct benchmark_run *run)
{
  const struct benchmark *benchmark = run->benchmark;
  const struct engine *engine = &run->engine;
  const bool is_trt = engine->preset.memory_rule == MEMORY_RULE_TENSORRT;
  const double memory = hardware_memory_bytes(engine->hardware, NULL);
  const double weights = memory_weights_bytes(engine->model, &engine->layout, &engine->precision);
  const double budget = is_trt ? (0.985 * memory - weights - 2 * GIB) * 0.93 : 0.92 * memory - weights - 2.5 * GIB;
  const double held = benchmark->input_tokens + engine->preset.kv_reserve_output_ratio * benchmark->output_tokens;
  const double need = memory_sequence_bytes(engine->model, &engine->layout, &engine->precision, &engine->preset, held);
  const double ranks = engine->layout.attention_data_parallel;
  *kv_tokens = ranks * fmax(1 / ranks, budget / need) * held;
  return ranks * fmin(engine->preset.max_batch, fmax(1 / ranks, budget / need));
}

static enum err start(struct benchmark_run *run, const struct benchmark *benchmark,
                      const struct step_constants *constants, struct error *e)
{
  const struct layout layout = layout_of(benchmark);
  const double memory = hardware_memory_bytes(benchmark->hardware, NULL);
  memset(run, 0, sizeof *run);
  run->benchmark = benchmark;
  run->engine = step_engine_with(constants, benchmark->model, benchmark->hardware, &layout, &benchmark->precision,
                                 PRECISION_NONE, &benchmark->preset);
  if (memory_weights_bytes(benchmark->model, &layout, &benchmark->precision) > memory)
    return error_set(e, ERR_INVALID, "", "weights of %.1f GiB per device exceed its memory of %.1f GiB",
                     memory_weights_bytes(benchmark->model, &layout, &benchmark->precision) / GIB, memory / GIB);
  if (parallel_gpus(&layout) > benchmark->gpus)
    return error_set(e, ERR_INVALID, "", "the layout needs %u devices, the row has %u", parallel_gpus(&layout),
                     benchmark->gpus);
  run->replicas = benchmark->gpus / parallel_gpus(&layout);
  run->cap = batch_cap(&run->kv_tokens, run);
  run->users = isnan(benchmark->batch) ? run->cap : fmax(1, benchmark->batch / run->replicas);
  run->context = benchmark->input_tokens + benchmark->output_tokens / 2;
  step_prompt(&run->prompt, &run->engine, benchmark->input_tokens, 0, 1, run->context);
  return ERR_OK;
}

static double prompt_host_s(const struct benchmark_run *run)
{
  return step_prompt_host_s(&run->engine, run->prompt.chunks);
}

static double prompt_added_s(const struct benchmark_run *run, const struct step_time *decode, double batch)
{
  return step_prompt_added_s(&run->engine, decode, run->benchmark->input_tokens, 0, batch, run->context);
}

static double prompt_stall_s(const struct benchmark_run *run, double added_s, double batch)
{
  return step_prompt_stall_s(&run->engine, added_s, run->prompt.chunks, run->benchmark->input_tokens, batch,
                             run->benchmark->output_tokens);
}

static double server_s(const struct benchmark_run *run)
{
  return step_server_s(&run->engine, run->benchmark->input_tokens);
}

/* Requests before the run compile kernels for as many tokens as one of their prompts has; beyond some thousands of tokens
   kernels differ no more. Those of Blackwell come compiled. */
static bool is_prepared(const struct benchmark_run *run)
{
  const enum hardware_family family = run->engine.hardware->family;
  const bool is_blackwell = family == HARDWARE_BLACKWELL_DC || family == HARDWARE_BLACKWELL_ULTRA_DC;
  const double largest_shape_tokens = 4096;
  return run->benchmark->is_warm && (is_blackwell || run->benchmark->input_tokens >= largest_shape_tokens);
}

/* Time that the first steps of a run lose to kernels that are compiled or loaded then. SERVING §4. */
double benchmark_cold_start_s(const struct benchmark_run *run)
{
  const struct engine *engine = &run->engine;
  if (is_prepared(run))
    return 0;
  if (engine->preset.memory_rule == MEMORY_RULE_SGLANG)
    return engine->constants.prefill_cold_sglang_ms * MS;
  if (engine->preset.memory_rule == MEMORY_RULE_TENSORRT && engine->hardware->family == HARDWARE_HOPPER &&
      served_has_experts(engine->model))
    return engine->constants.prefill_cold_trt_ms * MS;
  return 0;
}

/* Waiting of a request in steady state: rest of a step, look-ahead, polling, batch wait; then its own prompt, in steps that
   carry the others' decodes too; half a prompt of another before it at load rho. SERVING §2, §6. */
static double steady_first_token_s(const struct benchmark_run *run, const struct benchmark_figures *figures,
                                   double decode_s, double prompt_s, double rho)
{
  const struct preset *preset = &run->engine.preset;
  const double polling = preset->recv_interval_steps > 1 ? preset->recv_interval_steps / 2.0 : 0;
  const double steps = 0.5 + preset->look_ahead_steps + polling + preset->batch_wait_steps;
  return server_s(run) + steps * figures->tpot_mean_s + run->prompt.chunks * decode_s +
         (1 + 0.5 * rho) * (prompt_s + prompt_host_s(run));
}

/* Prefill-first engines with prompts of one length run in waves: who prefills makes everybody wait. STEPMODEL §4. */
static double lock_step(const struct benchmark_run *run)
{
  const bool is_prefill_first =
      run->engine.preset.memory_rule == MEMORY_RULE_SGLANG || strcmp(run->engine.preset.runtime, "atom") == 0;
  return is_prefill_first && !(run->benchmark->spread_ratio > 0) ? 0.5 : 0;
}

struct running {
  double share;   /* of a request's life that it decodes: running batch = share · B */
  double added_s; /* work of one prompt */
  double stall_s; /* what others wait for it */
  struct step_time decode;
};

/* x = 1 - P·(1 + kq·(B - 1)) / (B·P + osl·s(B·x)), iterated. STEPMODEL §4. */
static void find_running(struct running *out, const struct benchmark_run *run, double batch)
{
  const double output = run->benchmark->output_tokens;
  out->share = 1;
  for (int i = 0; i < 3; i++) {
    const double decoding = fmax(1, batch * out->share);
    step_decode(&out->decode, &run->engine, decoding, run->context);
    out->added_s = prompt_added_s(run, &out->decode, decoding);
    out->stall_s = prompt_stall_s(run, out->added_s, batch);
    if (batch > 1)
      out->share = fmax(0.3, 1 - out->stall_s * (1 + lock_step(run) * (batch - 1)) /
                                     (batch * out->stall_s + output * out->decode.seconds));
  }
  step_decode(&out->decode, &run->engine, fmax(1, batch * out->share), run->context);
}

static void closed_ttft(struct benchmark_figures *out, const struct benchmark_run *run, const struct running *running,
                        double batch)
{
  const struct preset *preset = &run->engine.preset;
  const double prompt_s = batch > 1 ? running->added_s : run->prompt.alone_s;
  const double host_s = prompt_host_s(run);
  const double rho = batch * (prompt_s + host_s) / (out->tpot_mean_s * run->benchmark->output_tokens);
  const double per_step = fmax(1, floor(preset->max_batched_tokens / run->benchmark->input_tokens));
  /* users still waiting see the decodes of those already served: half of them on average */
  const double wave_s =
      prompt_s + (host_s + 0.5 * running->decode.seconds * run->prompt.chunks) / fmin(per_step, run->users);
  const double steady = batch > 1 ? steady_first_token_s(run, out, running->decode.seconds, prompt_s, fmin(2, rho))
                                  : server_s(run) + prompt_s + host_s;
  const double wave_mean = server_s(run) + benchmark_cold_start_s(run) + (run->users + 1) / 2 * wave_s;
  double slot_wait = 0;
  if (run->users > batch) /* users beyond the cap wait for a slot: Little's law */
    slot_wait = (run->users / batch - 1) * (steady + (run->benchmark->output_tokens - 1) * out->tpot_mean_s);
  out->ttft_mean_s = wave_mean / requests_per_user + (1 - 1 / requests_per_user) * steady + slot_wait;
  out->ttft_p50_s = steady + slot_wait;
  out->ttft_p90_s = fmax(out->ttft_p50_s, server_s(run) + 0.1 * run->users * wave_s);
  out->ttft_p99_s = fmax(out->ttft_p90_s, server_s(run) + 0.9 * run->users * wave_s);
}

static void fill_end_to_end(struct benchmark_figures *out, const struct benchmark_run *run)
{
  const double gaps = run->benchmark->output_tokens - 1;
  out->e2e_mean_s = out->ttft_mean_s + gaps * out->tpot_mean_s;
  out->e2e_p50_s = out->ttft_p50_s + gaps * out->tpot_mean_s;
  out->e2e_p90_s = out->ttft_p90_s + gaps * out->tpot_mean_s;
  out->e2e_p99_s = out->ttft_p99_s + gaps * out->tpot_p99_s;
}

/* ITL medians see no prefill where most gaps are pure decode steps. STEPMODEL §4. */
static double median_gap_s(const struct benchmark_run *run, const struct running *running, double tpot_s, double batch)
{
  const double long_prompts = fmax(1, run->benchmark->input_tokens / 8192);
  const double stalls = (batch - 1) * running->share / run->benchmark->output_tokens * long_prompts;
  return stalls < 0.5 ? running->decode.seconds : tpot_s;
}

static void predict_closed(struct benchmark_figures *out, const struct benchmark_run *run)
{
  const struct benchmark *benchmark = run->benchmark;
  const double batch = fmax(1, fmin(run->users, run->cap));
  struct running running;
  find_running(&running, run, batch);
  out->batch = batch * running.share;
  out->tpot_mean_s =
      running.decode.seconds + (batch - 1) * running.share / fmax(1, benchmark->output_tokens - 1) * running.stall_s;
  out->tpot_p50_s = out->tpot_mean_s;
  out->itl_p50_s = median_gap_s(run, &running, out->tpot_mean_s, batch);
  out->tpot_p90_s = 1.02 * out->tpot_mean_s;
  out->tpot_p99_s = 1.03 * out->tpot_mean_s;
  closed_ttft(out, run, &running, batch);
  fill_end_to_end(out, run);
  out->requests_per_s =
      run->replicas * batch / (benchmark->output_tokens * running.decode.seconds + batch * running.stall_s);
  out->utilisation_ratio = batch / run->cap;
}

/* One batch from start to end: its prompts in one step, then decode steps that nobody joins. */
static void predict_static(struct benchmark_figures *out, const struct benchmark_run *run)
{
  const struct benchmark *benchmark = run->benchmark;
  const double batch = fmax(1, run->users);
  const double ranks = run->engine.layout.attention_data_parallel * run->engine.layout.pipeline_parallel;
  const struct step_shape shape = {.prefill_tokens = benchmark->input_tokens * batch / ranks,
                                   .prefill_sequences = batch / ranks};
  struct step_time prefill, decode;
  step_time(&prefill, &run->engine, &shape, batch);
  step_decode(&decode, &run->engine, batch, run->context);
  out->batch = batch;
  out->tpot_mean_s = out->tpot_p50_s = out->itl_p50_s = out->tpot_p90_s = out->tpot_p99_s = decode.seconds;
  out->ttft_mean_s = prefill.seconds * (run->engine.preset.is_eager ? run->engine.constants.scale_prefill_eager
                                                                    : run->engine.constants.scale_prefill);
  out->ttft_p50_s = out->ttft_p90_s = out->ttft_p99_s = out->ttft_mean_s;
  fill_end_to_end(out, run);
  out->requests_per_s = run->replicas * batch / out->e2e_mean_s;
  out->utilisation_ratio = 1;
}

struct wave {
  double tpot_s, life_s; /* of each request of a batch that is always full */
};

static struct wave wave_of(const struct benchmark_run *run, double batch)
{
  const double output = run->benchmark->output_tokens;
  struct step_time decode;
  double stall_s;
  step_decode(&decode, &run->engine, batch, run->context);
  stall_s = prompt_stall_s(run, prompt_added_s(run, &decode, batch), batch);
  return (struct wave){decode.seconds + (batch - 1) / output * stall_s, output * decode.seconds + batch * stall_s};
}

/* Requests of one length that start together end together: they go in waves, the last one of those that are left. */
static double offline_rate(const struct benchmark_run *run, const struct wave *wave, double batch)
{
  const double requests = run->benchmark->requests / run->replicas;
  const double waves = floor(requests / batch);
  const double left = requests - waves * batch;
  if (!run->benchmark->has_fixed_lengths || !(requests > batch))
    return batch / wave->life_s;
  return requests / (waves * wave->life_s + (left >= 1 ? wave_of(run, left).life_s : 0));
}

/* Everything queued: the engine keeps as many running as fit. Where lengths differ, fewer towards the end of a short run. */
static void predict_offline(struct benchmark_figures *out, const struct benchmark_run *run)
{
  const struct benchmark *benchmark = run->benchmark;
  const double most = (benchmark->has_fixed_lengths ? 1 : 0.6) * benchmark->requests / run->replicas;
  const double batch = fmax(1, fmin(fmin(run->users, run->cap), isnan(most) ? (double)INFINITY : most));
  const struct wave wave = wave_of(run, batch);
  out->batch = batch;
  out->tpot_mean_s = out->tpot_p50_s = out->itl_p50_s = wave.tpot_s;
  out->tpot_p90_s = out->tpot_p99_s = out->tpot_mean_s;
  out->requests_per_s = run->replicas * offline_rate(run, &wave, batch);
  out->e2e_mean_s = out->e2e_p50_s = wave.life_s;
  out->ttft_mean_s = out->ttft_p50_s = run->prompt.alone_s;
  out->utilisation_ratio = 1;
}

/* Above capacity the queue grows while the run lasts: the i-th request waits for i - B others at the pace of service, less
   the time that its arrival took. Waiting of the median request; 0 below capacity and for runs of unknown length. */
static double overload_wait_s(const struct benchmark_run *run, double rate, double most)
{
  const struct benchmark *benchmark = run->benchmark;
  const double requests = benchmark->requests / run->replicas;
  struct step_time full;
  double between_s;
  if (isnan(requests))
    return 0;
  step_decode(&full, &run->engine, most, run->context);
  between_s =
      benchmark->output_tokens * full.seconds / most + prompt_stall_s(run, prompt_added_s(run, &full, most), most);
  return fmax(0, (0.5 * requests - most) * between_s - 0.5 * requests / rate);
}

/* B = λ·osl·(s(1) - σ) / (1 - u) with the step linear in B (slope σ), u = λ·P + λ·osl·σ held below 0.88: beyond the knee an
   error of the service time has no bound. STEPMODEL §4. */
static void predict_poisson(struct benchmark_figures *out, const struct benchmark_run *run)
{
  const struct benchmark *benchmark = run->benchmark;
  const double rate = benchmark->requests_per_s / run->replicas;
  const double output = benchmark->output_tokens;
  const double most = fmin(run->cap, isnan(benchmark->requests) ? (double)INFINITY
                                                                : fmax(1, 0.7 * benchmark->requests / run->replicas));
  const double largest_load = 0.88;
  struct step_time one, decode;
  double batch = 2, added_s = 0, load = 0, steady_s, wait_s;
  step_decode(&one, &run->engine, 1, run->context);
  for (int i = 0; i < 40; i++) {
    double slope, next;
    step_decode(&decode, &run->engine, batch, run->context);
    added_s = prompt_stall_s(run, prompt_added_s(run, &decode, batch), batch);
    slope = fmax(0, (decode.seconds - one.seconds) / fmax(batch - 1, 0.5));
    load = rate * added_s + rate * output * slope;
    next = fmin(most, fmax(1, rate * output * (one.seconds - slope) / (1 - fmin(load, largest_load))));
    if (fabs(next - batch) < 0.005 * batch)
      break;
    batch = 0.5 * (batch + next);
  }
  out->batch = batch;
  out->tpot_mean_s = decode.seconds + fmax(0, batch - 1) / output * added_s;
  out->tpot_p50_s = out->itl_p50_s = out->tpot_mean_s;
  out->tpot_p90_s = 1.3 * out->tpot_mean_s;
  out->tpot_p99_s = 1.36 * out->tpot_mean_s;
  steady_s = steady_first_token_s(run, out, out->tpot_mean_s, added_s, fmin(0.9, rate * added_s));
  wait_s = overload_wait_s(run, rate, most);
  out->ttft_p50_s = steady_s + wait_s;
  out->ttft_mean_s = 1.1 * steady_s + wait_s;
  out->ttft_p90_s = 1.6 * steady_s + 1.8 * wait_s; /* the queue grows evenly */
  out->ttft_p99_s = 2.2 * steady_s + 2 * wait_s;
  fill_end_to_end(out, run);
  out->requests_per_s = benchmark->requests_per_s;
  out->utilisation_ratio = load;
}

static void clear(struct benchmark_figures *out)
{
  const double nothing = (double)NAN;
  *out =
      (struct benchmark_figures){.batch = nothing, .tpot_mean_s = nothing, .tpot_p50_s = nothing, .itl_p50_s = nothing};
  out->tpot_p90_s = out->tpot_p99_s = nothing;
  out->ttft_mean_s = out->ttft_p50_s = out->ttft_p90_s = out->ttft_p99_s = nothing;
  out->e2e_mean_s = out->e2e_p50_s = out->e2e_p90_s = out->e2e_p99_s = nothing;
  out->requests_per_s = out->utilisation_ratio = nothing;
}

static bool is_replayed(const struct benchmark *benchmark)
{
  if (benchmark->load == BENCHMARK_POISSON)
    return !isnan(benchmark->requests) || benchmark->has_percentiles;
  return benchmark->load == BENCHMARK_CLOSED && benchmark->has_percentiles && benchmark->spread_ratio > 0;
}

enum err benchmark_predict(struct benchmark_figures *out, const struct benchmark *benchmark,
                           const struct step_constants *constants, struct arena *arena, struct error *e)
{
  struct benchmark_run run;
  enum err err;
  clear(out);
  if ((err = start(&run, benchmark, constants, e)) != ERR_OK)
    return err;
  out->layout = run.engine.layout;
  out->replicas = run.replicas;
  if (benchmark->is_static_batch)
    predict_static(out, &run);
  else if (benchmark->load == BENCHMARK_POISSON)
    predict_poisson(out, &run);
  else if (benchmark->load == BENCHMARK_OFFLINE)
    predict_offline(out, &run);
  else
    predict_closed(out, &run);
  if (benchmark->tpot_s > 0)
    out->tpot_p50_s = benchmark->tpot_s;
  if (is_replayed(benchmark) && (err = benchmark_replay(out, &run, arena, e)) != ERR_OK)
    return err;
  out->band_class = band_class_of(&run.engine, benchmark->load == BENCHMARK_POISSON, out->utilisation_ratio);
  return ERR_OK;
}
