/* One layout as a fleet: what it holds and carries with a number of replicas, and what can be decided of the targets. */
#include "core/search_int.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

unsigned search_given_replicas(const struct search_input *input)
{
  const unsigned pools = input->pools.prefill_replicas + input->pools.decode_replicas;
  return pools != 0 ? pools : input->workload->serving.replicas;
}

static struct steady_load load_of(const struct search_input *input, unsigned replicas, double scale)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  struct steady_load load = {.kind = traffic->load,
                             .is_poisson = traffic->arrival != ARRIVAL_STEADY,
                             .prompt_tokens = input->prompt_tokens,
                             .cached_tokens = input->cached_tokens,
                             .output_tokens = input->output_tokens};
  if (traffic->load == LOAD_CLOSED)
    load.users = fmax(1e-6, traffic->concurrency * scale / replicas);
  else
    load.requests_per_s = traffic->requests_per_s * scale / replicas;
  return load;
}

void search_state_at(struct steady_state *out, const struct search_input *input, const struct candidate *candidate,
                     unsigned replicas, double scale)
{
  const struct steady_load load = load_of(input, input->pools.prefill_replicas != 0 ? 1 : replicas, scale);
  if (input->pools.prefill_replicas != 0)
    disaggregated_evaluate(out, &candidate->engine, &input->pools, &load, candidate->batch_limit);
  else
    steady_evaluate_on(out, &candidate->base, &candidate->engine, &load, candidate->batch_limit);
}

double search_gap_s(const struct search_input *input, double seconds)
{
  return input->output_tokens > 1 ? seconds : (double)NAN;
}

static double median_e2e_s(const struct search_input *input, const struct steady_state *state)
{
  return state->ttft_s + (input->median_output_tokens - 1) * state->tpot_s;
}

double search_latency_excess(const struct search_input *input, const struct workload_targets *targets,
                             const struct steady_state *state)
{
  if (state->is_saturated)
    return (double)INFINITY;
  return targets_latency_excess(targets, state->ttft_s, search_gap_s(input, state->itl_s),
                                search_gap_s(input, state->tpot_s), median_e2e_s(input, state));
}

const struct workload_targets *search_steering(const struct search_input *input, struct workload_targets *preset)
{
  const struct workload_targets *stated = &input->workload->targets;
  *preset = targets_preset();
  return targets_have_latency(stated) ? stated : preset;
}

/* Without stated latency targets the interactive preset steers, and saturation alone decides the verdict. */
double search_steering_excess(const struct search_input *input, const struct steady_state *state)
{
  struct workload_targets preset;
  return search_latency_excess(input, search_steering(input, &preset), state);
}

/* Headroom at the sketch's rate is the same as meeting the limits at the rate that leaves it. Users of a closed loop slow
   down under load, so there the knee itself must tell. */
double search_judged_scale(const struct search_input *input)
{
  const double headroom = input->workload->targets.headroom_ratio;
  const double above_rounding = 1 + 1e-6; /* of the knee's bisection */
  if (isnan(headroom) || input->workload->traffic.load == LOAD_CLOSED || !(headroom < 1) ||
      !targets_have_latency(&input->workload->targets))
    return 1;
  return above_rounding / (1 - headroom);
}

/* Strictly below saturation. */
unsigned search_capacity_replicas(const struct search_input *input, const struct candidate *candidate)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  double needed = 1;
  if (traffic->load == LOAD_OPEN)
    needed = floor(search_judged_scale(input) * traffic->requests_per_s / candidate->capacity_requests_per_s) + 1;
  return (unsigned)fmin(fmax(1, needed), SEARCH_REPLICAS_MAX);
}

/* With so many replicas that each stands idle, latency is at its floor: what misses a limit there misses it always. */
double search_excess_alone(const struct search_input *input, const struct candidate *candidate)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  struct steady_state state;
  search_state_at(&state, input, candidate, 1, traffic->load == LOAD_CLOSED ? 1 / traffic->concurrency : 1e-6);
  return search_steering_excess(input, &state);
}

double search_max_context_tokens(const struct search_input *input, const struct candidate *candidate)
{
  const unsigned stated = input->model->max_context_tokens;
  const double pool = candidate->memory.kv_growing_per_token_bytes > 0 ? candidate->memory.kv_tokens : (double)INFINITY;
  return stated != 0 ? fmin(pool, stated) : pool;
}

void search_judge(struct candidate *candidate, const struct search_input *input)
{
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  const struct target_figures figures = {
      .ttft_s = targets_median(candidate->state.ttft_s),
      .itl_s = targets_median(search_gap_s(input, candidate->state.itl_s)),
      .tpot_s = search_gap_s(input, candidate->state.tpot_s),
      .e2e_s = targets_median(candidate->e2e_median_s),
      .max_context_tokens = candidate->max_context_tokens,
      .per_successful_request_usd = candidate->usd_per_request,
      .per_million_output_tokens_usd = candidate->usd_per_request / input->output_tokens * 1e6,
      .monthly_usd = candidate->price.usd_per_gpu_hour * candidate->gpus_billed * HOURS_PER_MONTH,
      .success_rate_ratio = (double)NAN,
      .margin_to_knee_ratio = candidate->margin_to_knee_ratio,
  };
  const size_t count = targets_list(list, &input->workload->targets, &figures);
  candidate->worst_excess = targets_worst_excess(list, count);
  if (candidate->state.is_saturated)
    candidate->worst_excess = fmax(candidate->worst_excess, candidate->state.utilisation_ratio);
}

void search_set_replicas(struct candidate *candidate, const struct search_input *input, unsigned replicas)
{
  const unsigned quota = input->workload->constraints.gpu_quota;
  double usd_per_s;
  candidate->replicas = replicas;
  candidate->gpus = replicas * parallel_gpus(&candidate->layout);
  candidate->gpus_billed = cost_billed_gpus(&candidate->price, candidate->gpus);
  candidate->is_within_quota = quota == 0 || candidate->gpus <= quota;
  search_state_at(&candidate->state, input, candidate, replicas, 1);
  candidate->busy_ratio = (1 - candidate->state.idle_ratio) * candidate->gpus / candidate->gpus_billed;
  candidate->e2e_median_s = median_e2e_s(input, &candidate->state);
  usd_per_s = candidate->price.usd_per_gpu_hour * candidate->gpus_billed / SECONDS_PER_HOUR;
  candidate->usd_per_request = usd_per_s / (candidate->state.requests_per_s * replicas * input->load_share_ratio);
  candidate->knee_requests_per_s = (double)NAN;
  candidate->margin_to_knee_ratio = (double)NAN;
  candidate->steering_excess = search_steering_excess(input, &candidate->state);
  candidate->max_context_tokens = search_max_context_tokens(input, candidate);
  search_judge(candidate, input);
}

static void note_obstacle(struct search_result *out, const struct layout *layout, const struct memory_plan *memory,
                          double request_bytes)
{
  const double before_kv = memory->usable_bytes - memory->kv_cache_bytes;
  const bool weights = memory->weights_bytes > memory->usable_bytes || memory->kv_cache_bytes <= 0;
  if (out->has_tightest && memory->kv_cache_bytes < out->tightest.kv_cache_bytes)
    return; /* another one came closer */
  out->has_tightest = true;
  out->tightest = *memory;
  out->tightest_layout = *layout;
  out->reason = weights ? NO_FIT_WEIGHTS_EXCEED_MEMORY : NO_FIT_NO_ROOM_FOR_KV_CACHE;
  if (weights)
    (void)snprintf(out->detail, sizeof out->detail,
                   "weights %.1f GiB, activations and runtime %.1f GiB on each of %u GPUs exceed the usable %.1f GiB",
                   memory->weights_bytes / GIB, (before_kv - memory->weights_bytes) / GIB, parallel_gpus(layout),
                   memory->usable_bytes / GIB);
  else
    (void)snprintf(out->detail, sizeof out->detail,
                   "%.2f GiB are left for the KV cache on each of %u GPUs; one request needs %.2f GiB",
                   memory->kv_cache_bytes / GIB, parallel_gpus(layout), request_bytes / GIB);
}

/* A draft model caches every token too. */
static void share_pool(struct memory_plan *memory, const struct engine *engine)
{
  const double block = engine->preset.kv_block_tokens;
  memory->kv_growing_per_token_bytes +=
      (steady_sequence_bytes(engine, block) -
       memory_sequence_bytes(engine->model, &engine->layout, &engine->precision, &engine->preset, block)) /
      block;
  if (memory->kv_cache_bytes > 0 && memory->kv_growing_per_token_bytes > 0)
    memory->kv_tokens = floor(memory->kv_cache_bytes / (block * memory->kv_growing_per_token_bytes)) * block *
                        engine->layout.attention_data_parallel;
}

static void plan_memory(struct candidate *candidate, const struct search_input *input)
{
  const struct engine *engine = &candidate->engine;
  const struct memory_case c = {.model = input->model,
                                .hardware = input->hardware,
                                .layout = &candidate->layout,
                                .precision = &engine->precision,
                                .preset = &engine->preset,
                                .adapter_count = input->adapters.count,
                                .adapter_rank = input->adapters.rank,
                                .replicated_bytes = engine->drafter.weights_bytes};
  memory_plan_of(&candidate->memory, &c);
  if (engine->drafter.draft_tokens != 0)
    share_pool(&candidate->memory, engine);
  candidate->batch_limit = steady_batch_limit(&candidate->kv_limits_batch, engine, &candidate->memory,
                                              input->cached_tokens + input->prompt_tokens, input->output_tokens);
}

/* An open batch limit is set to what the KV pool runs: a larger one only makes the engine reserve more for its sampler.
   Reserving less leaves more KV, so the limit is found by iteration (it settles within a few rounds). */
static void settle_batch_limit(struct candidate *candidate, const struct search_input *input, unsigned max_batch)
{
  const unsigned most = input->preset.max_batch;
  unsigned *limit = &candidate->engine.preset.max_batch;
  plan_memory(candidate, input);
  if (max_batch != 0 || input->workload->serving.max_batch != 0)
    return;
  for (int i = 0; i < 8; i++) {
    const double per_rank = steady_kv_batch(&candidate->engine, &candidate->memory,
                                            input->cached_tokens + input->prompt_tokens, input->output_tokens);
    const unsigned next = (unsigned)fmin(most, fmax(1, floor(per_rank)));
    if (next == *limit)
      return;
    *limit = next;
    plan_memory(candidate, input);
  }
}

/* Pools share the fleet's capacity evenly. */
double search_capacity_at(const struct search_input *input, const struct candidate *candidate, double batch)
{
  const struct steady_load load = load_of(input, 1, 1);
  struct pools_capacity capacity;
  if (input->pools.prefill_replicas == 0)
    return steady_capacity(&candidate->engine, &load, batch);
  capacity = disaggregated_capacities(&candidate->engine, &input->pools, &load, batch);
  return disaggregated_capacity(&capacity) / search_given_replicas(input);
}

static void set_capacity(struct candidate *candidate, const struct search_input *input)
{
  const struct steady_load load = load_of(input, 1, 1);
  if (input->pools.prefill_replicas == 0)
    steady_base_of(&candidate->base, &candidate->engine, &load, candidate->batch_limit);
  candidate->capacity_requests_per_s = input->pools.prefill_replicas == 0
                                           ? candidate->base.peak_requests_per_s
                                           : search_capacity_at(input, candidate, candidate->batch_limit);
}

/* False when the layout can not hold the model and one request. */
bool search_prepare(struct candidate *candidate, struct search_result *out, const struct search_input *input,
                    const struct layout *layout, unsigned max_batch)
{
  const double request_tokens = input->cached_tokens + input->prompt_tokens + input->output_tokens;
  double request_bytes;
  memset(candidate, 0, sizeof *candidate);
  candidate->layout = *layout;
  candidate->limit_scale = (double)NAN;
  candidate->price = cost_price(input->hardware, &input->workload->constraints, layout->tensor_parallel);
  candidate->engine =
      step_engine_with(input->constants != NULL ? input->constants : &step_constants_default, input->model,
                       input->hardware, layout, &input->precision, input->workload->activations, &input->preset);
  candidate->engine.adapters = input->adapters;
  if (input->speculation.draft_tokens != 0)
    speculative_attach(&candidate->engine, &input->speculation);
  if (max_batch != 0)
    candidate->engine.preset.max_batch = max_batch;
  settle_batch_limit(candidate, input, max_batch);
  request_bytes = steady_sequence_bytes(&candidate->engine, request_tokens);
  if (candidate->memory.kv_cache_bytes <= 0 || candidate->memory.kv_cache_bytes < request_bytes) {
    note_obstacle(out, layout, &candidate->memory, request_bytes);
    return false;
  }
  candidate->batch_limit = fmax(1, candidate->batch_limit);
  set_capacity(candidate, input);
  return true;
}

/* A fleet over the quota is tried again with as many replicas as the quota holds: fewer, and closer to what is allowed. */
void search_respect_quota(struct candidate *candidate, const struct search_input *input)
{
  const unsigned quota = input->workload->constraints.gpu_quota;
  const unsigned each = parallel_gpus(&candidate->layout);
  candidate->wanted_gpus = candidate->gpus;
  if (candidate->is_within_quota || search_given_replicas(input) != 0 || each == 0 || each > quota)
    return;
  search_set_replicas(candidate, input, quota / each);
  search_headroom_knee(candidate, input);
}
