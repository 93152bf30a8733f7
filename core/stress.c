/* Each case is a copy of the input with one change, the chosen layout and fleet prepared for it, and a simulation. */
#include "core/stress_int.h"

#include "core/advice.h"
#include "core/scorecard.h"
#include "core/search_int.h"

#include <math.h>

static const double throttled_clock_ratio = 0.6, capped_ratio = 0.8, burst_s = 30;

const char *stress_case_name(enum stress_case which)
{
  static const char *const names[STRESS_CASES] = {
      "input_doubled",     "output_doubled", "bursts_doubled",   "power_cap_minus_20_percent",
      "one_gpu_throttled", "replica_lost",   "kernels_fall_back"};
  return names[which];
}

static void double_length(struct length *length)
{
  length->fixed_tokens *= 2;
  length->p50_tokens *= 2;
  length->p99_tokens *= 2;
  length->mean_tokens *= 2;
}

static void double_input(struct stress_variant *v)
{
  double_length(&v->workload.traffic.input);
  v->input.prompt_tokens = length_mean_tokens(&v->workload.traffic.input) - v->input.cached_tokens;
  v->input.replay.input_ratio = 2;
}

static void double_output(struct stress_variant *v)
{
  double_length(&v->workload.traffic.output);
  v->input.output_tokens *= 2;
  v->input.median_output_tokens *= 2;
  v->input.replay.output_ratio = 2;
}

/* Twice the peak of stated bursts, twice the users of a closed loop; other arrivals come within half of the time. */
static void double_bursts(struct stress_variant *v)
{
  struct workload_traffic *traffic = &v->workload.traffic;
  if (traffic->load == LOAD_CLOSED)
    traffic->concurrency *= 2;
  else if (traffic->arrival == ARRIVAL_SPIKY && v->input.replay.rows == NULL)
    traffic->burst_peak_to_mean *= 2;
  else
    v->run.doubled_burst_s = burst_s;
}

static void lower_cap(struct stress_variant *v)
{
  v->is_known = !isnan(v->hardware.tdp_w);
  v->hardware.power_cap_w = capped_ratio * power_lower_cap_w(v->hardware.power_cap_w, v->hardware.tdp_w);
}

static void throttle_one(struct stress_variant *v)
{
  const double clock = v->hardware.sustained_clock_fraction;
  v->throttled = v->hardware;
  v->throttled.sustained_clock_fraction = throttled_clock_ratio * (isnan(clock) ? 1 : clock);
}

/* Their native paths are gone: the math runs in 16 bit, the stored formats stay. */
static void fall_back(struct stress_variant *v)
{
  v->workload.activations = isnan(v->hardware.bf16_tflops) ? PRECISION_FP16 : PRECISION_BF16;
}

static void change(struct stress_variant *v, enum stress_case which, const struct candidate *best)
{
  struct pools left;
  switch (which) {
  case STRESS_INPUT_DOUBLED: double_input(v); break;
  case STRESS_OUTPUT_DOUBLED: double_output(v); break;
  case STRESS_BURSTS_DOUBLED: double_bursts(v); break;
  case STRESS_POWER_CAP: lower_cap(v); break;
  case STRESS_ONE_GPU_THROTTLED: throttle_one(v); break;
  case STRESS_REPLICA_LOST:
    v->run.lost_replicas = 1;
    left = judge_pools_left(&v->input.pools, 1);
    v->is_hopeless = best->replicas == 1 ||
                     (v->input.pools.prefill_replicas != 0 && fmin(left.prefill_replicas, left.decode_replicas) < 1);
    break;
  case STRESS_KERNELS_FALL_BACK: fall_back(v); break;
  case STRESS_CASES: break;
  }
}

/* The whole replica goes at the pace of its slowest GPU. */
static void slow_down(struct stress_variant *v, const struct candidate *best)
{
  struct search_input slow = v->input;
  struct candidate candidate;
  slow.hardware = &v->throttled;
  if (!search_prepare(&candidate, &v->obstacle, &slow, &best->layout, best->engine.preset.max_batch))
    return;
  v->slow_engine = candidate.engine;
  v->run.slow_engine = &v->slow_engine;
}

static void prepare(struct stress_variant *v, enum stress_case which, const struct search_input *input,
                    const struct candidate *best, const struct judge_options *options)
{
  v->workload = *input->workload;
  v->hardware = *input->hardware;
  v->input = *input;
  v->input.workload = &v->workload;
  v->input.hardware = &v->hardware;
  v->run = (struct judge_case){.input = &v->input,
                               .candidate = &v->candidate,
                               .load_scale = 1,
                               .requests = JUDGE_REQUESTS_COMPARE,
                               .stop = options->stop,
                               .stop_cls = options->stop_cls};
  v->is_known = true;
  change(v, which, best);
  if (v->is_hopeless)
    return;
  v->is_hopeless =
      !search_prepare(&v->candidate, &v->obstacle, &v->input, &best->layout, best->engine.preset.max_batch);
  if (v->is_hopeless)
    return;
  search_set_replicas(&v->candidate, &v->input, best->replicas);
  if (which == STRESS_ONE_GPU_THROTTLED)
    slow_down(v, best);
}

static bool keeps_latency(const struct stress_variant *v, double users)
{
  const struct search_input *input = &v->input;
  const struct engine *engine = v->run.slow_engine != NULL ? v->run.slow_engine : &v->candidate.engine;
  const struct pools pools = judge_pools_left(&input->pools, v->run.lost_replicas);
  const struct steady_load load = {.kind = LOAD_CLOSED,
                                   .users = users,
                                   .prompt_tokens = input->prompt_tokens,
                                   .cached_tokens = input->cached_tokens,
                                   .output_tokens = input->output_tokens};
  struct steady_state state;
  if (pools.prefill_replicas != 0)
    disaggregated_evaluate(&state, engine, &pools, &load, v->candidate.batch_limit);
  else
    steady_evaluate(&state, engine, &load, v->candidate.batch_limit);
  return targets_latency_excess(&v->workload.targets, state.ttft_s, search_gap_s(input, state.itl_s),
                                search_gap_s(input, state.tpot_s), state.e2e_s) <= 0;
}

/* The most requests at once with which the closed form keeps the latency limits: what a load balancer should let in. Pools
   are asked as a whole, other replicas each. */
static unsigned concurrency_limit(const struct stress_variant *v)
{
  const unsigned serving = v->candidate.replicas - v->run.lost_replicas;
  const bool has_pools = v->input.pools.prefill_replicas != 0;
  const double most = 2 * v->candidate.batch_limit * (has_pools ? serving : 1);
  unsigned low = 0, high = (unsigned)fmin(1e6, ceil(most));
  while (low < high) {
    const unsigned users = low + (high - low + 1) / 2;
    if (keeps_latency(v, users))
      low = users;
    else
      high = users - 1;
  }
  return has_pools ? low : low * serving;
}

/* The target that is missed by most; NULL where all are met. */
static const struct scorecard_target *worst_of(const struct scorecard_target *list, size_t count)
{
  const struct scorecard_target *worst = NULL;
  for (size_t i = 0; i < count; i++)
    if (list[i].met == 0 && (worst == NULL || list[i].margin_ratio < worst->margin_ratio))
      worst = &list[i];
  return worst;
}

static void report_miss(struct scorecard_stress *out, const struct stress_variant *v, const struct judged *judged)
{
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  struct target_figures figures;
  const struct scorecard_target *worst;
  size_t count;
  judge_figures(&figures, judged, &v->candidate, &v->input);
  figures.margin_to_knee_ratio = (double)NAN; /* headroom is there to be used up */
  count = targets_list(list, &v->workload.targets, &figures);
  worst = worst_of(list, count);
  out->missed_metric = worst != NULL ? worst->metric : NULL;
  out->missed_target = worst != NULL ? worst->target : (double)NAN;
  out->missed_actual = worst != NULL ? worst->actual : (double)NAN;
  out->verdict =
      judged->success.rate_ratio > 0 && targets_worst_excess(list, count) <= 0 ? VERDICT_FIT : VERDICT_NO_FIT;
}

void stress_clear(struct scorecard_stress *out)
{
  const double unknown = (double)NAN;
  *out = (struct scorecard_stress){.is_computed = true,
                                   .verdict = VERDICT_NO_FIT,
                                   .ttft_p99_s = unknown,
                                   .itl_p99_s = unknown,
                                   .success_ratio = unknown,
                                   .per_successful_request_usd = unknown,
                                   .missed_target = unknown,
                                   .missed_actual = unknown};
}

/* Twice as many requests in the system as run at once, all the time: the queue grows, if more slowly than full replicas tell
   (preempted work is done again). Bursts and traces may pile up as much and be worked off. */
static bool is_overrun(const struct stress_variant *v, const struct judged *judged)
{
  const double serving = v->candidate.replicas - v->run.lost_replicas;
  return v->workload.traffic.arrival != ARRIVAL_SPIKY && v->input.replay.rows == NULL &&
         !(v->workload.traffic.client_timeout_ms > 0) && judged->in_system > 2 * serving * v->candidate.batch_limit;
}

enum err stress_simulate(struct scorecard_stress *out, struct stress_variant *v, struct arena *arena, struct error *e)
{
  struct candidate *candidate = &v->candidate;
  const double serving = candidate->replicas - v->run.lost_replicas;
  const bool is_open = v->workload.traffic.load != LOAD_CLOSED;
  struct judged judged;
  enum err err;
  if (is_open && v->workload.traffic.requests_per_s >= candidate->capacity_requests_per_s * serving &&
      !judge_is_bounded(&v->input, candidate))
    return ERR_OK; /* the queue grows */
  if ((err = judge_run(&judged, &v->run, arena, e)) != ERR_OK)
    return err;
  if (is_open && is_overrun(v, &judged))
    return ERR_OK;
  candidate->usd_per_request = candidate->price.usd_per_gpu_hour * candidate->gpus_billed / 3600 /
                               (judged.sent_per_s * v->input.load_share_ratio * judged.success.rate_ratio);
  out->ttft_p99_s = judged.latency.ttft_s.p99;
  out->itl_p99_s = judged.latency.itl_s.p99;
  out->success_ratio = judged.success.rate_ratio;
  out->per_successful_request_usd = judged.success.rate_ratio > 0 ? candidate->usd_per_request : (double)NAN;
  report_miss(out, v, &judged);
  return ERR_OK;
}

static enum err run(struct scorecard_stress *out, struct stress_variant *v, struct arena *arena, struct error *e)
{
  const enum err err = judge_capacity(&v->candidate.capacity_requests_per_s, &v->run, arena, e);
  if (err != ERR_OK)
    return err;
  out->first_limit = scorecard_first_limit(&v->candidate, &v->input);
  if (targets_have_latency(&v->workload.targets))
    out->concurrency_limit = concurrency_limit(v);
  return stress_simulate(out, v, arena, e);
}

/* ---- the whole ---- */

/* One replica that is lost leaves nothing to simulate, a model that no longer fits in neither; the first has a way out. */
static enum err fill(struct scorecard_stress *out, struct scorecard_change *way, struct stress_variant *v,
                     enum verdict verdict, const struct candidate *best, struct arena *arena, struct error *e)
{
  const bool is_last = v->is_hopeless && v->run.lost_replicas != 0;
  enum err err = ERR_OK;
  stress_clear(out);
  out->is_computed = v->is_known;
  if (!v->is_known)
    return ERR_OK;
  if (v->is_hopeless)
    out->first_limit = is_last ? LIMIT_NONE : LIMIT_KV_CACHE;
  else
    err = run(out, v, arena, e);
  if (err != ERR_OK || verdict != VERDICT_FIT || out->verdict == VERDICT_FIT || (v->is_hopeless && !is_last))
    return err;
  if (is_last)
    v->candidate = *best;
  return stress_way_out(way, v, out, best->replicas, arena, e);
}

static enum err keep(struct scorecard_stress *out, const struct scorecard_change *way, struct arena *arena,
                     struct error *e)
{
  struct scorecard_change *kept = arena_alloc(arena, 1, sizeof *kept);
  if (kept != NULL) {
    *kept = *way;
    kept->message = advice_message(arena, kept, "the same configuration bears the case then");
    out->way_out = kept;
  }
  return kept != NULL && kept->message != NULL
             ? ERR_OK
             : error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
}

enum err stress_fill(struct scorecard *card, const struct search_input *input, const struct candidate *best,
                     const struct judge_options *options, struct arena *arena, struct error *e)
{
  enum err err = ERR_OK;
  for (int which = 0; which < STRESS_CASES && err == ERR_OK; which++) {
    struct scorecard_change way = {.pointer = NULL};
    const size_t mark = arena_mark(arena);
    struct stress_variant *v = arena_alloc(arena, 1, sizeof *v);
    if (v == NULL)
      return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
    prepare(v, (enum stress_case)which, input, best, options);
    err = fill(&card->stress[which], &way, v, card->verdict, best, arena, e);
    arena_release(arena, mark);
    if (err == ERR_OK && way.pointer != NULL)
      err = keep(&card->stress[which], &way, arena, e);
  }
  return err;
}
