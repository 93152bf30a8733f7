/* From the outcomes of a run to what its users saw: which requests count, percentiles, success, work in vain, the pool. */
#include "core/judge_int.h"

#include "core/startup.h"
#include "core/units.h"

#include <math.h>

/* ---- who counts ---- */

struct window {
  double first_s, last_s; /* of sending */
};

/* The start, in which the system fills, and the end, in which nobody comes any more, are not what users get. A trace is
   replayed whole. */
static struct window window_of(const struct judge_simulation *sim, const struct judge_case *c)
{
  const double most_start = 0.3, most_end = 0.2;
  const struct serving_totals *totals = &sim->totals.serving;
  const double first_s = sim->outcomes[0].send_s, last_s = sim->outcomes[sim->run.count - 1].send_s;
  const double span_s = last_s - first_s;
  const double stay_s = totals->completed > 0 ? totals->running_sequence_s / (double)totals->completed : 0;
  if (c->input->replay.rows != NULL)
    return (struct window){first_s, last_s};
  return (struct window){first_s + fmin(most_start * span_s, fmax(0.02 * span_s, 3 * stay_s)),
                         last_s - fmin(most_end * span_s, stay_s)};
}

/* ---- success ---- */

static double highest_s(const struct percentiles *limit_ms)
{
  return MS * (!isnan(limit_ms->p99) ? limit_ms->p99 : !isnan(limit_ms->p90) ? limit_ms->p90 : limit_ms->p50);
}

struct judge_success judge_success_of(const struct workload *workload)
{
  const struct workload_targets *own = &workload->success, *targets = &workload->targets;
  if (own->are_given)
    return (struct judge_success){own->ttft_ms.mean * MS, own->itl_ms.mean * MS, own->e2e_ms.mean * MS};
  return (struct judge_success){highest_s(&targets->ttft_ms), highest_s(&targets->itl_ms), highest_s(&targets->e2e_ms)};
}

static double mean_gap_s(const struct serving_outcome *outcome)
{
  return outcome->output_tokens > 1 ? (outcome->finish_s - outcome->first_s) / (outcome->output_tokens - 1.0) : 0;
}

/* A limit that is not given is never exceeded. */
static bool is_success(const struct serving_outcome *outcome, const struct judge_success *limits)
{
  return outcome->status == SERVING_COMPLETED && !(outcome->first_s - outcome->send_s > limits->ttft_s) &&
         !(mean_gap_s(outcome) > limits->mean_itl_s) && !(outcome->finish_s - outcome->send_s > limits->e2e_s);
}

/* ---- sums ---- */

struct sums {
  double sent, completed, succeeded, preempted, shed, timed_out, rejected;
  double decoding_s;
};

static void count(struct sums *sums, const struct serving_outcome *outcome, const struct judge_success *limits)
{
  sums->sent++;
  sums->rejected += outcome->status == SERVING_REJECTED;
  sums->shed += outcome->status == SERVING_SHED;
  sums->timed_out += outcome->status == SERVING_TIMED_OUT;
  sums->preempted += outcome->preemptions != 0;
  sums->succeeded += is_success(outcome, limits);
  if (outcome->status != SERVING_COMPLETED)
    return;
  sums->completed++;
  sums->decoding_s += outcome->finish_s - outcome->first_s;
}

/* Engine time of so many tokens, for shares of the work. */
static double work_s(const struct candidate *candidate, double prompt_tokens, double output_tokens)
{
  const struct steady_state *state = &candidate->state;
  const double prompt_s = state->has_pools ? state->prompt.alone_s : state->stall_s;
  return prompt_tokens * prompt_s / fmax(1, state->view.input_tokens) +
         output_tokens * state->decode.seconds / fmax(1, state->view.batch);
}

/* All that is computed but is in no success: late answers, answers nobody waits for any more, what is computed twice. */
static double failed_work_ratio(const struct judge_simulation *sim, const struct judge_case *c,
                                const struct judge_success *limits)
{
  const struct serving_totals *totals = &sim->totals.serving;
  const double all_s = work_s(c->candidate, (double)totals->prompt_tokens, (double)totals->output_tokens);
  double prompt_tokens = 0, output_tokens = 0;
  for (size_t i = 0; i < sim->run.count; i++)
    if (is_success(&sim->outcomes[i], limits)) {
      prompt_tokens += sim->rows[i].input_tokens - sim->outcomes[i].cached_tokens;
      output_tokens += sim->outcomes[i].output_tokens;
    }
  return all_s > 0 ? fmin(1, fmax(0, 1 - work_s(c->candidate, prompt_tokens, output_tokens) / all_s)) : 0;
}

/* ---- the pool ---- */

/* From `from_s` on so many blocks, growing by so many a second, until `until_s`. */
static void hold(struct judge_samples *samples, double spacing_s, double from_s, double until_s, double blocks,
                 double blocks_s)
{
  const size_t first = (size_t)fmin(JUDGE_SAMPLES, ceil(from_s / spacing_s));
  const size_t last = (size_t)fmin(JUDGE_SAMPLES, ceil(until_s / spacing_s));
  const double at_zero = blocks - blocks_s * from_s;
  samples->level[first] += at_zero;
  samples->level[last] -= at_zero;
  samples->slope[first] += blocks_s;
  samples->slope[last] -= blocks_s;
}

/* One request's blocks: its prompt from admission on, then a token a step. A shared prefix is held once for all. */
static void hold_request(const struct judge_simulation *sim, double spacing_s, size_t row)
{
  const struct serving_outcome *outcome = &sim->outcomes[row];
  const double block = sim->run.settings.kv_block_tokens;
  const double prompt = (sim->rows[row].input_tokens - outcome->cached_tokens) / block + 0.5;
  const double decoding_s = outcome->finish_s - outcome->first_s;
  if (sim->run.prefill_replicas == 0) /* else it was elsewhere until then */
    hold(sim->samples, spacing_s, outcome->admitted_s, outcome->first_s, prompt, 0);
  if (decoding_s > 0)
    hold(sim->samples, spacing_s, outcome->first_s, outcome->finish_s, prompt,
         outcome->output_tokens / block / decoding_s);
}

/* Of the first replica that decodes, to which equals give way: the fullest. Between admission and finish, sampled at even times. */
static double kv_p99_ratio(const struct judge_simulation *sim, const struct window *window)
{
  const double pool = (double)sim->run.settings.kv_blocks;
  const double spacing_s = sim->totals.serving.end_s / JUDGE_SAMPLES;
  double level = 0, slope = 0;
  if (!(pool > 0) || !(spacing_s > 0))
    return (double)NAN;
  for (size_t i = 0; i < sim->run.count; i++)
    if (sim->outcomes[i].status == SERVING_COMPLETED && sim->outcomes[i].replica == sim->run.prefill_replicas)
      hold_request(sim, spacing_s, i);
  for (size_t i = 0; i < JUDGE_SAMPLES; i++) {
    const double time_s = (double)i * spacing_s;
    level += sim->samples->level[i];
    slope += sim->samples->slope[i];
    if (time_s >= window->first_s && time_s <= window->last_s)
      histogram_add(&sim->histograms->kv_blocks, fmax(0, level + slope * time_s), 1);
  }
  return fmin(1, (histogram_percentile(&sim->histograms->kv_blocks, 0.99) +
                  sim->run.settings.shared_prefix_tokens / sim->run.settings.kv_block_tokens) /
                     pool);
}

/* ---- the whole ---- */

static struct percentiles percentiles_of(const struct histogram *histogram)
{
  return (struct percentiles){histogram_percentile(histogram, 0.5), histogram_percentile(histogram, 0.9),
                              histogram_percentile(histogram, 0.99), histogram_mean(histogram)};
}

static void fill_latency(struct scorecard_latency *out, const struct judge_histograms *histograms)
{
  out->ttft_s = percentiles_of(&histograms->latencies.ttft_s);
  out->e2e_s = percentiles_of(&histograms->latencies.e2e_s);
  out->queue_s = percentiles_of(&histograms->latencies.queue_s);
  out->itl_s = percentiles_of(&histograms->itl);
  out->tpot_mean_s = histogram_mean(&histograms->latencies.tpot_s);
}

/* Little's law gives the rate of a closed loop and the number in the system of an open one: neither is counted, which
   would only add noise. The simulation may be of a part of the fleet. */
static void fill_load(struct judged *out, const struct judge_case *c, const struct judge_simulation *sim,
                      const struct sums *sums)
{
  const struct workload_traffic *traffic = &c->input->workload->traffic;
  const double fleet = (double)c->candidate->replicas / (c->lost_replicas + sim->run.replicas);
  const double decoders = sim->run.replicas - sim->run.prefill_replicas;
  const double mean_e2e_s = out->latency.e2e_s.mean, answered = sums->completed / sums->sent;
  if (c->input->replay.rows != NULL)
    out->completed_per_s = arrivals_rate_per_s(sim->rows, sim->run.count) * answered;
  else if (traffic->load == LOAD_CLOSED)
    out->completed_per_s = fleet * sim->run.users / mean_e2e_s;
  else
    out->completed_per_s = traffic->requests_per_s * c->load_scale * answered;
  out->sent_per_s = answered > 0 ? out->completed_per_s / answered : traffic->requests_per_s * c->load_scale;
  out->in_system = out->completed_per_s * mean_e2e_s;
  out->decode_batch = fmin(sim->run.settings.max_batch, out->completed_per_s / (fleet * decoders) * sums->decoding_s /
                                                            sums->completed); /* preempted ones wait */
  out->counted = (size_t)sums->sent;
}

void judge_measure(struct judged *out, const struct judge_case *c, const struct judge_simulation *sim)
{
  const struct window window = window_of(sim, c);
  const struct judge_success limits = judge_success_of(c->input->workload);
  const struct serving_totals *totals = &sim->totals.serving;
  struct sums sums = {.sent = 0};
  for (size_t i = 0; i < sim->run.count; i++) {
    if (sim->outcomes[i].send_s < window.first_s || sim->outcomes[i].send_s > window.last_s)
      continue;
    count(&sums, &sim->outcomes[i], &limits);
    serving_latencies_add(&sim->histograms->latencies, &sim->outcomes[i], 1);
  }
  fill_latency(&out->latency, sim->histograms);
  out->success = (struct scorecard_success){.rate_ratio = sums.succeeded / sums.sent *
                                                          startup_available_ratio(c->candidate, c->input),
                                            .preempted_ratio = sums.preempted / sums.sent,
                                            .shed_ratio = sums.shed / sums.sent,
                                            .timed_out_ratio = sums.timed_out / sums.sent,
                                            .rejected_ratio = sums.rejected / sums.sent};
  fill_load(out, c, sim, &sums);
  out->busy_ratio = totals->end_s > 0 ? fmin(1, totals->busy_s / totals->end_s / sim->run.replicas) : 0;
  out->failed_work_ratio = failed_work_ratio(sim, c, &limits);
  out->kv_p99_ratio = kv_p99_ratio(sim, &window);
}
