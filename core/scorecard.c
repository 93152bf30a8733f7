/* Figures of the best candidate, in the scorecard's order. */
#include "core/scorecard.h"

#include "core/band.h"
#include "core/launch.h"
#include "core/parallel.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

static const struct percentiles no_percentiles = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};

static void clear_cost(struct scorecard_cost *cost)
{
  const double nothing = (double)NAN;
  *cost = (struct scorecard_cost){nothing,
                                  NULL,
                                  nothing,
                                  nothing,
                                  nothing,
                                  nothing,
                                  nothing,
                                  nothing,
                                  nothing,
                                  nothing,
                                  nothing,
                                  nothing,
                                  {nothing, nothing, nothing, nothing, nothing}};
}

void scorecard_clear(struct scorecard *card)
{
  const double nothing = (double)NAN;
  memset(card, 0, sizeof *card);
  card->memory.max_concurrent_sessions = nothing;
  card->memory.max_context_tokens = nothing;
  card->memory.headroom_ratio = nothing;
  card->latency = (struct scorecard_latency){no_percentiles, no_percentiles, no_percentiles, no_percentiles, nothing};
  card->throughput = (struct scorecard_throughput){nothing, nothing, nothing, nothing, nothing, nothing};
  card->limits = (struct scorecard_limits){nothing, nothing, nothing, LIMIT_NONE};
  card->success = (struct scorecard_success){nothing, nothing, nothing, nothing, nothing};
  clear_cost(&card->cost);
  for (int i = 0; i < STRESS_CASES; i++)
    card->stress[i] = (struct scorecard_stress){.ttft_p99_s = nothing,
                                                .itl_p99_s = nothing,
                                                .success_ratio = nothing,
                                                .per_successful_request_usd = nothing,
                                                .missed_target = nothing,
                                                .missed_actual = nothing};
  card->energy = (struct scorecard_energy){nothing, nothing, nothing};
  card->startup = (struct scorecard_startup){nothing, nothing};
  card->uncertainty = (struct scorecard_uncertainty){{nothing, nothing}, {nothing, nothing}, {nothing, nothing}, NULL};
  card->sensitivity = (struct scorecard_sensitivity){nothing, nothing, nothing, nothing};
  card->alternatives = (struct scorecard_alternatives){nothing, nothing, -1};
}

void scorecard_add_finding(struct scorecard *card, const char *code, enum severity severity, const char *message,
                           const struct scorecard_evidence *evidence, size_t count)
{
  const size_t most = sizeof card->findings[0].evidence / sizeof card->findings[0].evidence[0];
  struct scorecard_finding *finding;
  if (card->finding_count == SCORECARD_FINDINGS_MAX)
    return;
  finding = &card->findings[card->finding_count++];
  finding->code = code;
  finding->severity = severity;
  finding->message = message;
  for (size_t i = 0; i < count && i < most; i++)
    finding->evidence[finding->evidence_count++] = evidence[i];
}

static void fill_memory_plan(struct scorecard_memory *memory, const struct memory_plan *plan)
{
  memory->usable_bytes = plan->usable_bytes;
  memory->weights_bytes = plan->weights_bytes;
  memory->activations_bytes = plan->activations_bytes;
  memory->runtime_bytes = plan->runtime_bytes;
  memory->kv_cache_bytes = fmax(0, plan->kv_cache_bytes); /* nothing is left where the rest exceeds the budget */
}

static double request_tokens(const struct search_input *input)
{
  return input->cached_tokens + input->prompt_tokens + input->output_tokens;
}

/* Per token and per session over all GPUs of a replica; KV heads replicated by tensor parallelism count where they are. */
static void fill_kv(struct scorecard_memory *memory, const struct search_input *input, const struct layout *layout,
                    const struct memory_plan *plan)
{
  const double gpus = layout->tensor_parallel * layout->pipeline_parallel; /* that hold one sequence */
  const struct memory_case c = {.model = input->model,
                                .hardware = input->hardware,
                                .layout = layout,
                                .precision = &input->precision,
                                .preset = &input->preset};
  const double session =
      memory_sequence_bytes(input->model, layout, &input->precision, &input->preset, request_tokens(input));
  memory->kv_bytes_per_token = plan->kv_growing_per_token_bytes * layout->tensor_parallel;
  if (layout->pipeline_parallel > 1) { /* the plan speaks of one stage */
    memory->kv_bytes_per_token = 0;
    for (unsigned stage = 0; stage < layout->pipeline_parallel; stage++) {
      struct memory_plan part;
      memory_plan_stage(&part, &c, stage);
      memory->kv_bytes_per_token += part.kv_growing_per_token_bytes * layout->tensor_parallel;
    }
  }
  memory->kv_bytes_per_session = session * gpus;
  if (session > 0)
    memory->max_concurrent_sessions = floor(fmax(0, plan->kv_cache_bytes) / session) * layout->attention_data_parallel;
}

/* With the batch limit as it stands; a configuration that needs fewer, having set it lower, is the proof of fewer. */
static void fill_min_gpus(struct scorecard_memory *memory, const struct search_result *result,
                          const struct search_input *input)
{
  struct layout layout = {0, 0, 0, 0};
  const struct layout *found = &result->best.layout;
  memory->min_gpus =
      memory_min_gpus(&layout, input->model, input->hardware, &input->precision, &input->preset, request_tokens(input));
  if (result->has_candidate && (memory->min_gpus == 0 || parallel_gpus(found) < memory->min_gpus)) {
    memory->min_gpus = parallel_gpus(found);
    layout = *found;
  }
  memory->min_gpus_tensor_parallel = layout.tensor_parallel;
  memory->min_gpus_pipeline_parallel = layout.pipeline_parallel;
}

static enum bound largest_bound(const double bound_s[BOUND_COUNT])
{
  int largest = 0;
  for (int bound = 1; bound < BOUND_COUNT; bound++)
    if (bound_s[bound] > bound_s[largest])
      largest = bound;
  return (enum bound)largest;
}

static void fill_phase(struct scorecard_phase *phase, const struct step_time *time, const struct engine *engine,
                       double time_share_ratio)
{
  const double bytes = time->weight_bytes + time->kv_bytes + time->activation_bytes;
  phase->bound = largest_bound(time->bound_s);
  phase->time_share_ratio = time_share_ratio;
  phase->time_s = time->seconds;
  phase->flops_utilisation_ratio = time->flops_s / time->seconds;
  phase->bandwidth_utilisation_ratio = bytes / engine->device.bandwidth_bytes_s / time->seconds;
  phase->communication_share_ratio = time->bound_s[BOUND_INTERCONNECT] / time->seconds;
  phase->weights_bytes = time->weight_bytes / engine->layout.pipeline_parallel; /* of one device's stage */
  phase->kv_bytes = time->kv_bytes / engine->layout.pipeline_parallel;
  for (int bound = 0; bound < BOUND_COUNT; bound++)
    phase->bound_share_ratio[bound] = time->bound_s[bound] / time->seconds;
}

static void fill_latency(struct scorecard_latency *latency, const struct candidate *best,
                         const struct search_input *input)
{
  const struct steady_state *state = &best->state;
  if (state->is_saturated) /* waiting grows without end: only the step itself has a figure */
    return;
  latency->ttft_s.p50 = state->ttft_s;
  latency->itl_s.p50 = search_gap_s(input, state->itl_s);
  latency->e2e_s.p50 = best->e2e_median_s;
  latency->e2e_s.mean = state->e2e_s;
  latency->queue_s.p50 = state->queue_s;
  latency->tpot_mean_s = search_gap_s(input, state->tpot_s);
}

static void fill_throughput(struct scorecard_throughput *throughput, const struct candidate *best,
                            const struct search_input *input)
{
  const struct steady_state *state = &best->state;
  const double rate = state->is_saturated ? best->capacity_requests_per_s : state->requests_per_s;
  throughput->requests_per_s = rate * best->replicas;
  throughput->output_tok_s = throughput->requests_per_s * input->output_tokens;
  throughput->output_tok_s_per_gpu = throughput->output_tok_s / best->gpus;
  throughput->output_tok_s_per_user = 1 / search_gap_s(input, state->tpot_s);
  throughput->mean_batch = state->decode_batch;
  if (!state->is_saturated)
    throughput->at_concurrency = state->in_system * best->replicas;
}

static enum limit limit_of(const double bound_s[BOUND_COUNT])
{
  static const enum limit limits[BOUND_COUNT] = {LIMIT_COMPUTE, LIMIT_MEMORY_BANDWIDTH, LIMIT_INTERCONNECT,
                                                 LIMIT_LAUNCH_OVERHEAD};
  return limits[largest_bound(bound_s)];
}

/* A limit on the batch is what stops it where a larger batch would raise throughput by over 5 %. */
static const double worth_a_batch = 1.05;

/* What stops the replica at saturation: the batch, else what the steps there wait for. */
static enum limit replica_first_limit(const struct candidate *best, const struct search_input *input,
                                      const struct steady_load *load)
{
  const double context = input->cached_tokens + input->prompt_tokens + input->output_tokens / 2;
  struct step_time decode;
  struct prompt_time prompt;
  double bound_s[BOUND_COUNT];
  if (steady_capacity(&best->engine, load, 2 * best->batch_limit) >
      worth_a_batch * steady_capacity(&best->engine, load, best->batch_limit))
    return best->kv_limits_batch ? LIMIT_KV_CACHE : LIMIT_BATCH;
  step_decode(&decode, &best->engine, best->batch_limit, context);
  step_prompt(&prompt, &best->engine, input->prompt_tokens, input->cached_tokens, best->batch_limit, context);
  for (int bound = 0; bound < BOUND_COUNT; bound++) {
    const double steps = input->output_tokens / best->engine.drafter.tokens_per_step;
    const double decode_s = steps * decode.bound_s[bound] / best->batch_limit;
    const double prefill_s = prompt.added_s * prompt.profile.bound_s[bound] / prompt.profile.seconds;
    bound_s[bound] = decode_s + prefill_s;
  }
  return limit_of(bound_s);
}

/* What stops the weaker pool. */
static enum limit pools_first_limit(const struct candidate *best, const struct search_input *input,
                                    const struct steady_load *load)
{
  const struct pools_capacity capacity =
      disaggregated_capacities(&best->engine, &input->pools, load, best->batch_limit);
  const double least = disaggregated_capacity(&capacity);
  struct pools_capacity larger;
  struct step_time step;
  if (capacity.transfer_requests_per_s <= least)
    return LIMIT_INTERCONNECT;
  if (capacity.prefill_requests_per_s <= least)
    return limit_of(best->state.prompt.profile.bound_s);
  larger = disaggregated_capacities(&best->engine, &input->pools, load, 2 * best->batch_limit);
  if (larger.decode_requests_per_s > worth_a_batch * least)
    return best->kv_limits_batch ? LIMIT_KV_CACHE : LIMIT_BATCH;
  step_decode(&step, &best->engine, best->batch_limit,
              load->cached_tokens + load->prompt_tokens + load->output_tokens / 2);
  return limit_of(step.bound_s);
}

enum limit scorecard_first_limit(const struct candidate *best, const struct search_input *input)
{
  const struct steady_load load = {.prompt_tokens = input->prompt_tokens,
                                   .cached_tokens = input->cached_tokens,
                                   .output_tokens = input->output_tokens};
  if (input->pools.prefill_replicas != 0)
    return pools_first_limit(best, input, &load);
  return replica_first_limit(best, input, &load);
}

static void fill_limits(struct scorecard_limits *limits, const struct candidate *best, const struct search_input *input)
{
  limits->knee_requests_per_s = best->knee_requests_per_s;
  limits->margin_to_knee_ratio = best->margin_to_knee_ratio;
  limits->saturation_requests_per_s = best->capacity_requests_per_s * best->replicas;
  limits->first_limit = scorecard_first_limit(best, input);
}

/* Shares of the bill: the fleet's time by what it waits for, idle time and unused GPUs apart; memory time is divided by
   the bytes moved. */
static void fill_bill(struct scorecard_cost *cost, const struct candidate *best)
{
  const struct steady_state *state = &best->state;
  const double busy = best->busy_ratio;
  const double moved = state->decode.weight_bytes + state->decode.activation_bytes + state->decode.kv_bytes;
  double share[BOUND_COUNT];
  for (int bound = 0; bound < BOUND_COUNT; bound++)
    share[bound] =
        busy * (state->prefill_share_ratio * state->prompt.profile.bound_s[bound] / state->prompt.profile.seconds +
                state->decode_share_ratio * state->decode.bound_s[bound] / state->decode.seconds);
  cost->by_bound_compute = share[BOUND_COMPUTE];
  cost->by_bound_kv_cache = share[BOUND_MEMORY_BANDWIDTH] * state->decode.kv_bytes / moved;
  cost->by_bound_weights = share[BOUND_MEMORY_BANDWIDTH] - cost->by_bound_kv_cache;
  cost->by_bound_interconnect = share[BOUND_INTERCONNECT];
  cost->by_bound_launch = share[BOUND_LAUNCH_OVERHEAD];
  cost->by_bound_idle = 1 - busy;
}

static void fill_cost(struct scorecard *card, const struct candidate *best, const struct search_input *input)
{
  const double all_succeed = 1;
  fill_bill(&card->cost, best);
  cost_fleet(&card->cost, &best->price, best->gpus_billed, card->throughput.requests_per_s * input->load_share_ratio,
             card->throughput.output_tok_s * input->load_share_ratio, all_succeed);
}

static void fill_band(double ratio[2], const struct search_input *input, enum band_class class, enum band_metric metric)
{
  const struct band band =
      input->calibration != NULL ? calibration_band(input->calibration, class, metric) : band_of(class, metric);
  ratio[0] = band.low_ratio;
  ratio[1] = band.high_ratio;
}

static void fill_uncertainty(struct scorecard_uncertainty *to, const struct candidate *best,
                             const struct search_input *input)
{
  const bool is_open = input->workload->traffic.load != LOAD_CLOSED;
  const enum band_class class = band_class_of(&best->engine, is_open, best->state.utilisation_ratio);
  fill_band(to->ttft_ratio, input, class, BAND_TTFT);
  fill_band(to->itl_ratio, input, class, BAND_TPOT);
  fill_band(to->throughput_ratio, input, class, BAND_THROUGHPUT);
  to->band_class = band_class_name(class);
}

static enum err fill_configuration(struct scorecard *card, const struct candidate *best,
                                   const struct search_input *input, struct arena *arena, struct error *e)
{
  struct scorecard_configuration *configuration = &card->configuration;
  configuration->tensor_parallel = best->layout.tensor_parallel;
  configuration->pipeline_parallel = best->layout.pipeline_parallel;
  configuration->expert_parallel = best->layout.expert_parallel;
  configuration->attention_data_parallel = best->layout.attention_data_parallel;
  configuration->replicas = best->replicas;
  configuration->gpus = best->gpus;
  configuration->gpus_billed = best->gpus_billed;
  configuration->max_batch = best->engine.preset.max_batch;
  configuration->launch = launch_command(best, input, arena);
  if (configuration->launch == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  return ERR_OK;
}

static void fill_targets(struct scorecard *card, const struct candidate *best, const struct search_input *input)
{
  const bool is_saturated = best->state.is_saturated;
  const struct target_figures figures = {
      .ttft_s = targets_median(is_saturated ? (double)INFINITY : best->state.ttft_s),
      .itl_s = targets_median(search_gap_s(input, best->state.itl_s)),
      .tpot_s = search_gap_s(input, best->state.tpot_s),
      .e2e_s = targets_median(is_saturated ? (double)INFINITY : best->e2e_median_s),
      .max_context_tokens = best->max_context_tokens,
      .per_successful_request_usd = card->cost.per_successful_request_usd,
      .per_million_output_tokens_usd = card->cost.per_million_output_tokens_usd,
      .monthly_usd = card->cost.monthly_usd,
      .success_rate_ratio = (double)NAN,
      .margin_to_knee_ratio = best->margin_to_knee_ratio,
  };
  card->target_count = targets_list(card->targets, &input->workload->targets, &figures);
}

static void find_capacity(struct scorecard *card)
{
  const struct scorecard_evidence evidence[] = {
      {"usable_gib", card->memory.usable_bytes / GIB},           {"weights_gib", card->memory.weights_bytes / GIB},
      {"activations_gib", card->memory.activations_bytes / GIB}, {"runtime_gib", card->memory.runtime_bytes / GIB},
      {"kv_cache_gib", card->memory.kv_cache_bytes / GIB},       {"min_gpus", card->memory.min_gpus}};
  const char *code = no_fit_reason_name(card->no_fit_reason);
  if (card->no_fit_reason == NO_FIT_WEIGHTS_EXCEED_MEMORY || card->no_fit_reason == NO_FIT_NO_ROOM_FOR_KV_CACHE)
    scorecard_add_finding(card, code, SEVERITY_CRITICAL, card->no_fit_detail, evidence, 6);
}

/* A miss by a little is not "a little slower": says what would have to give way. */
static enum err find_near_miss(struct scorecard *card, const struct search_result *result,
                               const struct search_input *input, struct arena *arena, struct error *e)
{
  const struct memory_case tight = {.model = input->model,
                                    .hardware = input->hardware,
                                    .layout = &result->tightest_layout,
                                    .precision = &input->precision,
                                    .preset = &input->preset};
  struct memory_near_miss miss;
  const char *message;
  memory_near_miss(&miss, &tight, request_tokens(input));
  if (miss.fits || !miss.is_near)
    return ERR_OK;
  message =
      arena_printf(arena,
                   "%.2f GiB are missing on each GPU (%.1f %%): it takes fewer sequences, a smaller token budget, a "
                   "shorter context, a larger memory fraction or offloading, each at its price",
                   miss.missing_bytes / GIB, 100 * miss.missing_ratio);
  if (message == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  const struct scorecard_evidence evidence[] = {{"missing_gib", miss.missing_bytes / GIB},
                                                {"missing_ratio", miss.missing_ratio},
                                                {"longest_tokens", miss.longest_tokens},
                                                {"largest_max_batch", miss.largest_max_batch},
                                                {"largest_max_batched_tokens", miss.largest_batched_tokens},
                                                {"needed_memory_fraction", miss.needed_fraction_ratio}};
  scorecard_add_finding(card, "near_miss", SEVERITY_WARNING, message, evidence, 6);
  return ERR_OK;
}

static void find_price(struct scorecard *card)
{
  if (isnan(card->cost.usd_per_gpu_hour))
    scorecard_add_finding(card, "no_price", SEVERITY_WARNING,
                          "no price is known for this profile under the sketch's constraints: cost is null, not 0",
                          NULL, 0);
}

static void find_unused(struct scorecard *card, const struct candidate *best)
{
  const struct scorecard_evidence evidence[] = {{"gpus", best->gpus}, {"gpus_billed", best->gpus_billed}};
  if (best->gpus_billed > best->gpus)
    scorecard_add_finding(card, "unused_gpus", SEVERITY_WARNING,
                          "whole instances are billed, and some of their GPUs carry no replica", evidence, 2);
}

/* Without a configuration the price of the smallest unit is still of interest. */
static enum err fill_price(struct scorecard_cost *cost, const struct search_result *result,
                           const struct search_input *input, struct arena *arena, struct error *e)
{
  const struct price smallest = cost_price(input->hardware, &input->workload->constraints, 1);
  const struct price *price = result->has_candidate ? &result->best.price : &smallest;
  cost->usd_per_gpu_hour = price->usd_per_gpu_hour;
  return cost_basis(&cost->price_basis, price, arena, e);
}

enum err scorecard_fill(struct scorecard *card, const struct search_result *result, const struct search_input *input,
                        struct arena *arena, struct error *e)
{
  const struct candidate *best = &result->best;
  enum err err;
  card->verdict = result->fits ? VERDICT_FIT : VERDICT_NO_FIT;
  card->no_fit_reason = result->reason;
  if (!result->fits && (card->no_fit_detail = arena_printf(arena, "%s", result->detail)) == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  if (!input->is_brief)
    fill_min_gpus(&card->memory, result, input);
  if ((err = fill_price(&card->cost, result, input, arena, e)) != ERR_OK)
    return err;
  if (!result->has_candidate) {
    if (result->has_tightest) {
      fill_memory_plan(&card->memory, &result->tightest);
      fill_kv(&card->memory, input, &result->tightest_layout, &result->tightest);
    }
    find_capacity(card);
    find_price(card);
    return result->has_tightest ? find_near_miss(card, result, input, arena, e) : ERR_OK;
  }
  card->has_configuration = true;
  card->has_latency = true;
  if ((err = fill_configuration(card, best, input, arena, e)) != ERR_OK)
    return err;
  fill_memory_plan(&card->memory, &best->memory);
  fill_kv(&card->memory, input, &best->layout, &best->memory);
  card->memory.max_context_tokens = best->max_context_tokens;
  fill_phase(&card->prefill, &best->state.prompt.profile, &best->engine, best->state.prefill_share_ratio);
  fill_phase(&card->decode, &best->state.decode, &best->engine, best->state.decode_share_ratio);
  fill_latency(&card->latency, best, input);
  fill_throughput(&card->throughput, best, input);
  fill_limits(&card->limits, best, input);
  fill_cost(card, best, input);
  fill_targets(card, best, input);
  find_price(card);
  find_unused(card, best);
  card->constants_provenance = best->engine.device.provenance;
  fill_uncertainty(&card->uncertainty, best, input);
  return ERR_OK;
}
