/* For every possible tensor degree the fewest replicas that meet what can be decided, then the cheapest of those. */
#include "core/search.h"

#include "core/parallel.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TENSOR_DEGREES_MAX 64
static const unsigned replicas_most = 65536;

/* 0 = to be searched. */
static unsigned replicas_given(const struct search_input *input)
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
    steady_evaluate(out, &candidate->engine, &load, candidate->batch_limit);
}

double search_gap_s(const struct search_input *input, double seconds)
{
  return input->output_tokens > 1 ? seconds : (double)NAN;
}

static double median_e2e_s(const struct search_input *input, const struct steady_state *state)
{
  return state->ttft_s + (input->median_output_tokens - 1) * state->tpot_s;
}

static double latency_excess(const struct search_input *input, const struct workload_targets *targets,
                             const struct steady_state *state)
{
  if (state->is_saturated)
    return (double)INFINITY;
  return targets_latency_excess(targets, state->ttft_s, search_gap_s(input, state->itl_s),
                                search_gap_s(input, state->tpot_s), median_e2e_s(input, state));
}

/* Lowest load scale above which latency limits are missed, found by bisection; saturation bounds it from above. */
static double knee_scale(const struct search_input *input, const struct candidate *candidate,
                         const struct workload_targets *targets)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  const double fleet = candidate->capacity_requests_per_s * candidate->replicas;
  struct steady_state state;
  double low = 0;
  double high = traffic->load == LOAD_CLOSED ? 4 * candidate->batch_limit * candidate->replicas / traffic->concurrency
                                             : fleet / traffic->requests_per_s;
  for (int i = 0; i < 24; i++) {
    const double middle = (low + high) / 2;
    search_state_at(&state, input, candidate, candidate->replicas, middle);
    if (latency_excess(input, targets, &state) <= 0)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static void find_knee(struct candidate *candidate, const struct search_input *input)
{
  const struct workload_targets *targets = &input->workload->targets;
  struct steady_state state;
  if (!targets_have_latency(targets))
    return;
  search_state_at(&state, input, candidate, candidate->replicas, knee_scale(input, candidate, targets));
  candidate->knee_requests_per_s = state.requests_per_s * candidate->replicas;
  if (candidate->knee_requests_per_s > 0)
    candidate->margin_to_knee_ratio = 1 - candidate->state.requests_per_s / state.requests_per_s;
}

/* Without stated latency targets the interactive preset steers, and saturation alone decides the verdict. */
static double steering_excess(const struct search_input *input, const struct steady_state *state)
{
  const struct workload_targets *stated = &input->workload->targets;
  const struct workload_targets preset = targets_preset();
  return latency_excess(input, targets_have_latency(stated) ? stated : &preset, state);
}

static bool replicas_suffice(const struct search_input *input, const struct candidate *candidate, unsigned replicas)
{
  struct steady_state state;
  search_state_at(&state, input, candidate, replicas, 1);
  return steering_excess(input, &state) <= 0;
}

static unsigned replicas_for_capacity(const struct search_input *input, const struct candidate *candidate)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  double needed = 1;
  if (traffic->load == LOAD_OPEN) /* strictly below saturation */
    needed = floor(traffic->requests_per_s / candidate->capacity_requests_per_s) + 1;
  return (unsigned)fmin(fmax(1, needed), replicas_most);
}

/* Latency falls with the number of replicas: the fewest that suffice by doubling and bisection; where even many do not,
   the fewest that carry the load. */
/* With so many replicas that each stands idle, latency is at its floor: what misses a limit there misses it always. */
static bool floor_suffices(const struct search_input *input, const struct candidate *candidate)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  struct steady_state state;
  const double alone = traffic->load == LOAD_CLOSED ? 1 / traffic->concurrency : 1e-6;
  search_state_at(&state, input, candidate, 1, alone);
  return steering_excess(input, &state) <= 0;
}

static unsigned fewest_replicas(const struct search_input *input, const struct candidate *candidate)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  const unsigned least = replicas_for_capacity(input, candidate);
  const unsigned most =
      traffic->load == LOAD_CLOSED ? (unsigned)fmin(replicas_most, fmax(1, ceil(traffic->concurrency))) : replicas_most;
  unsigned low = least, high = least;
  if (!floor_suffices(input, candidate))
    return least;
  while (!replicas_suffice(input, candidate, high)) {
    if (high >= most)
      return least;
    low = high + 1;
    high = high * 2 < most ? high * 2 : most;
  }
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    if (replicas_suffice(input, candidate, middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

static double max_context_tokens(const struct search_input *input, const struct candidate *candidate)
{
  const unsigned stated = input->model->max_context_tokens;
  const double pool = candidate->memory.kv_growing_per_token_bytes > 0 ? candidate->memory.kv_tokens : (double)INFINITY;
  return stated != 0 ? fmin(pool, stated) : pool;
}

static void judge(struct candidate *candidate, const struct search_input *input)
{
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  const struct target_figures figures = {
      .ttft_s = candidate->state.ttft_s,
      .itl_s = search_gap_s(input, candidate->state.itl_s),
      .tpot_s = search_gap_s(input, candidate->state.tpot_s),
      .e2e_s = candidate->e2e_median_s,
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

static void evaluate_fleet(struct candidate *candidate, const struct search_input *input, unsigned replicas)
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
  candidate->usd_per_request = usd_per_s / (candidate->state.requests_per_s * replicas);
  candidate->knee_requests_per_s = (double)NAN;
  candidate->margin_to_knee_ratio = (double)NAN;
  if (!isnan(input->workload->targets.headroom_ratio)) /* else only the winner's knee is of interest */
    find_knee(candidate, input);
  candidate->max_context_tokens = max_context_tokens(input, candidate);
  judge(candidate, input);
}

/* Headroom is asked at the fleet's load: more replicas until the margin is there (each step re-evaluates the fleet). */
static void add_headroom(struct candidate *candidate, const struct search_input *input)
{
  const double wanted = input->workload->targets.headroom_ratio;
  for (int i = 0; i < 64 && candidate->margin_to_knee_ratio < wanted && candidate->worst_excess <= 1; i++) {
    const double knee_each = candidate->knee_requests_per_s / candidate->replicas;
    const double needed = candidate->state.requests_per_s * candidate->replicas / ((1 - wanted) * knee_each);
    if (!(needed > candidate->replicas) || needed > replicas_most)
      return;
    evaluate_fleet(candidate, input, (unsigned)ceil(needed));
  }
}

static void note_obstacle(struct search_result *out, const struct layout *layout, const struct memory_plan *memory,
                          double request_bytes)
{
  const double before_kv = memory->usable_bytes - memory->kv_cache_bytes;
  const bool weights = memory->weights_bytes > memory->usable_bytes || memory->kv_cache_bytes <= 0;
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
static void settle_batch_limit(struct candidate *candidate, const struct search_input *input)
{
  const unsigned most = input->preset.max_batch;
  unsigned *limit = &candidate->engine.preset.max_batch;
  plan_memory(candidate, input);
  if (input->workload->serving.max_batch != 0)
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

/* Of one replica; pools share the fleet's evenly. */
static double capacity_each(const struct candidate *candidate, const struct search_input *input)
{
  const struct steady_load load = load_of(input, 1, 1);
  struct pools_capacity capacity;
  if (input->pools.prefill_replicas == 0)
    return steady_capacity(&candidate->engine, &load, candidate->batch_limit);
  capacity = disaggregated_capacities(&candidate->engine, &input->pools, &load, candidate->batch_limit);
  return disaggregated_capacity(&capacity) / replicas_given(input);
}

/* False when the layout can not hold the model and one request. */
static bool prepare(struct candidate *candidate, struct search_result *out, const struct search_input *input,
                    const struct layout *layout)
{
  const double request_tokens = input->cached_tokens + input->prompt_tokens + input->output_tokens;
  double request_bytes;
  memset(candidate, 0, sizeof *candidate);
  candidate->layout = *layout;
  candidate->price = cost_price(input->hardware, &input->workload->constraints, layout->tensor_parallel);
  candidate->engine =
      step_engine_with(input->constants != NULL ? input->constants : &step_constants_default, input->model,
                       input->hardware, layout, &input->precision, input->workload->activations, &input->preset);
  candidate->engine.adapters = input->adapters;
  if (input->speculation.draft_tokens != 0)
    speculative_attach(&candidate->engine, &input->speculation);
  settle_batch_limit(candidate, input);
  request_bytes = steady_sequence_bytes(&candidate->engine, request_tokens);
  if (candidate->memory.kv_cache_bytes <= 0 || candidate->memory.kv_cache_bytes < request_bytes) {
    note_obstacle(out, layout, &candidate->memory, request_bytes);
    return false;
  }
  candidate->batch_limit = fmax(1, candidate->batch_limit);
  candidate->capacity_requests_per_s = capacity_each(candidate, input);
  return true;
}

/* Cheaper per request, then fewer GPUs to pay, fewer replicas, more headroom: a paid GPU that stands unused helps nobody. Unpriced
   ones compare by GPUs per request. */
static bool is_cheaper(const struct candidate *a, const struct candidate *b)
{
  const double tie = 1e-9;
  const double cost_a =
      isnan(a->usd_per_request) ? a->gpus / (a->state.requests_per_s * a->replicas) : a->usd_per_request;
  const double cost_b =
      isnan(b->usd_per_request) ? b->gpus / (b->state.requests_per_s * b->replicas) : b->usd_per_request;
  if (fabs(cost_a - cost_b) > tie * cost_b)
    return cost_a < cost_b;
  if (a->gpus_billed != b->gpus_billed)
    return a->gpus_billed < b->gpus_billed;
  if (a->replicas != b->replicas)
    return a->replicas < b->replicas;
  return a->state.utilisation_ratio < b->state.utilisation_ratio;
}

static bool fits(const struct candidate *candidate)
{
  return candidate->is_within_quota && candidate->worst_excess <= 0;
}

/* A fit beats a miss; among misses the one within quota, then the one that misses least. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
  if (fits(a) != fits(b))
    return fits(a);
  if (fits(a))
    return is_cheaper(a, b);
  if (a->is_within_quota != b->is_within_quota)
    return a->is_within_quota;
  if (fabs(a->worst_excess - b->worst_excess) > 1e-9)
    return a->worst_excess < b->worst_excess;
  return is_cheaper(a, b);
}

static unsigned replicas_of(const struct search_input *input, const struct candidate *candidate)
{
  const unsigned given = replicas_given(input);
  return given != 0 ? given : fewest_replicas(input, candidate);
}

/* A fleet over the quota is tried again with as many replicas as the quota holds: fewer, and closer to what is allowed. */
static void respect_quota(struct candidate *candidate, const struct search_input *input)
{
  const unsigned quota = input->workload->constraints.gpu_quota;
  const unsigned each = parallel_gpus(&candidate->layout);
  candidate->wanted_gpus = candidate->gpus;
  if (candidate->is_within_quota || replicas_given(input) != 0 || each == 0 || each > quota)
    return;
  evaluate_fleet(candidate, input, quota / each);
}

static void consider(struct search_result *out, const struct search_input *input, const struct layout *layout)
{
  struct candidate candidate;
  if (!prepare(&candidate, out, input, layout))
    return;
  evaluate_fleet(&candidate, input, replicas_of(input, &candidate));
  if (replicas_given(input) == 0)
    add_headroom(&candidate, input);
  respect_quota(&candidate, input);
  if (!out->has_candidate || is_better(&candidate, &out->best))
    out->best = candidate;
  out->has_candidate = true;
}

static struct layout layout_of(const struct workload_serving *serving, unsigned tp)
{
  struct layout layout = {tp, 1, 1, 1};
  if (serving->pipeline_parallel != 0)
    layout.pipeline_parallel = serving->pipeline_parallel;
  if (serving->expert_parallel != 0)
    layout.expert_parallel = serving->expert_parallel;
  if (serving->attention_data_parallel != 0)
    layout.attention_data_parallel = serving->attention_data_parallel;
  return layout;
}

static size_t tensor_degrees(unsigned degrees[TENSOR_DEGREES_MAX], const struct search_input *input)
{
  const unsigned given = input->workload->serving.tensor_parallel;
  if (given == 0)
    return parallel_tensor_degrees(degrees, TENSOR_DEGREES_MAX, input->model, input->hardware);
  degrees[0] = given;
  return 1;
}

static void explain_miss(struct search_result *out, const struct search_input *input)
{
  const struct candidate *best = &out->best;
  const unsigned quota = input->workload->constraints.gpu_quota;
  if (quota != 0 && best->wanted_gpus > quota) {
    out->reason = NO_FIT_QUOTA_EXCEEDED;
    (void)snprintf(out->detail, sizeof out->detail, "%u GPUs are needed, the quota is %u", best->wanted_gpus, quota);
  } else if (best->state.is_saturated) {
    out->reason = NO_FIT_TARGETS_MISSED;
    (void)snprintf(out->detail, sizeof out->detail,
                   "%.3g requests/s are offered, %u replicas finish at most %.3g: the queue grows without end",
                   input->workload->traffic.requests_per_s, best->replicas,
                   best->capacity_requests_per_s * best->replicas);
  } else {
    out->reason = NO_FIT_TARGETS_MISSED;
    (void)snprintf(out->detail, sizeof out->detail, "the closest configuration misses a target by %.3g %%",
                   best->worst_excess * 100);
  }
}

/* Layouts whose single replica is over the quota are not allowed at all: what stays decides the reason. */
static bool is_allowed(const struct search_input *input, const struct layout *layout)
{
  const unsigned quota = input->workload->constraints.gpu_quota;
  return quota == 0 || parallel_gpus(layout) <= quota || input->workload->serving.tensor_parallel != 0;
}

/* One layout: evaluated, or why it is none. */
static void try_layout(struct search_result *out, const struct search_input *input, const struct layout *layout)
{
  char why[192];
  if (!parallel_check(why, sizeof why, input->model, input->hardware, layout)) {
    if (!out->has_tightest)
      (void)snprintf(out->detail, sizeof out->detail, "%s", why);
  } else if (is_allowed(input, layout)) {
    consider(out, input, layout);
  } else if (!out->has_tightest && out->reason != NO_FIT_QUOTA_EXCEEDED) {
    out->reason = NO_FIT_QUOTA_EXCEEDED;
    (void)snprintf(out->detail, sizeof out->detail, "one replica needs %u GPUs, the quota is %u", parallel_gpus(layout),
                   input->workload->constraints.gpu_quota);
  }
}

/* Stages cost latency and buy memory alone: they are searched where the sketch leaves the layout open and no single
   stage holds the model, up to as many as hosts are joined to one replica in practice. */
enum { STAGES_MOST = 8 };

static bool searches_stages(const struct search_input *input, const struct search_result *out)
{
  const struct workload_serving *serving = &input->workload->serving;
  return !out->has_candidate && serving->tensor_parallel == 0 && serving->pipeline_parallel == 0 &&
         serving->expert_parallel <= 1 && serving->attention_data_parallel <= 1 && input->pools.prefill_replicas == 0;
}

static void try_stages(struct search_result *out, const struct search_input *input, unsigned tensor_parallel)
{
  const unsigned quota = input->workload->constraints.gpu_quota;
  const unsigned most = quota != 0 && quota / tensor_parallel < STAGES_MOST ? quota / tensor_parallel : STAGES_MOST;
  const double tokens = input->cached_tokens + input->prompt_tokens + input->output_tokens;
  const unsigned stages = memory_fewest_stages(input->model, input->hardware, &input->precision, &input->preset,
                                               tensor_parallel, most, tokens);
  const struct layout layout = {tensor_parallel, stages, 1, 1};
  if (stages > 1)
    try_layout(out, input, &layout);
}

enum err search_best(struct search_result *out, const struct search_input *input, bool (*stop)(void *cls),
                     void *stop_cls, struct error *e)
{
  unsigned degrees[TENSOR_DEGREES_MAX];
  const size_t count = tensor_degrees(degrees, input);
  bool with_stages;
  memset(out, 0, sizeof *out);
  out->reason = NO_FIT_LAYOUT_IMPOSSIBLE;
  for (size_t i = 0; i < count; i++) {
    const struct layout layout = layout_of(&input->workload->serving, degrees[i]);
    if (stop != NULL && stop(stop_cls))
      return error_set(e, ERR_CANCELLED, "", "the evaluation was cancelled");
    try_layout(out, input, &layout);
  }
  with_stages = searches_stages(input, out);
  for (size_t i = 0; with_stages && i < count; i++)
    try_stages(out, input, degrees[i]);
  if (out->has_candidate) {
    if (isnan(out->best.knee_requests_per_s))
      find_knee(&out->best, input);
    out->fits = fits(&out->best);
    out->reason = NO_FIT_NONE;
    if (!out->fits)
      explain_miss(out, input);
  }
  return ERR_OK;
}
