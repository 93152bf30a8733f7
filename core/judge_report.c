/* A scorecard's figures as the simulation has them. */
#include "core/judge.h"

#include "core/units.h"

#include <math.h>

void judge_figures(struct target_figures *out, const struct judged *judged, const struct candidate *candidate,
                   const struct search_input *input)
{
  const struct scorecard_latency *latency = &judged->latency;
  *out = (struct target_figures){
      .ttft_s = latency->ttft_s,
      .itl_s = latency->itl_s,
      .e2e_s = latency->e2e_s,
      .tpot_s = latency->tpot_mean_s,
      .max_context_tokens = candidate->max_context_tokens,
      .per_successful_request_usd = candidate->usd_per_request,
      .per_million_output_tokens_usd =
          candidate->usd_per_request * judged->success.rate_ratio / input->output_tokens * 1e6,
      .monthly_usd = candidate->price.usd_per_gpu_hour * candidate->gpus_billed * HOURS_PER_MONTH,
      .success_rate_ratio = judged->success.rate_ratio,
      .margin_to_knee_ratio = candidate->margin_to_knee_ratio};
}

static void report_throughput(struct scorecard_throughput *out, const struct judged *judged,
                              const struct candidate *best, const struct search_input *input)
{
  out->requests_per_s = judged->completed_per_s;
  out->output_tok_s = judged->completed_per_s * input->output_tokens;
  out->output_tok_s_per_gpu = out->output_tok_s / best->gpus;
  out->output_tok_s_per_user = 1 / judged->latency.tpot_mean_s;
  out->mean_batch = judged->decode_batch;
  out->at_concurrency = judged->in_system;
}

/* A target that is missed makes no fit, however it came about. */
static void judge_verdict(struct scorecard *card)
{
  if (card->verdict == VERDICT_FIT && targets_worst_excess(card->targets, card->target_count) > 0) {
    card->verdict = VERDICT_NO_FIT;
    card->no_fit_reason = NO_FIT_TARGETS_MISSED;
    card->no_fit_detail = "the simulation of the chosen configuration misses a target by little";
  }
}

/* What a full replica finishes is measured where all wait; a fleet that was seen to finish more can do it. Not of open
   loops above the knee and not of traces, where clients alone set the rate. */
static double saturation_per_s(const struct judged *judged, const struct candidate *best,
                               const struct search_input *input)
{
  const double capacity = best->capacity_requests_per_s * best->replicas;
  if (input->workload->traffic.load != LOAD_CLOSED)
    return capacity;
  return fmax(fmax(capacity, judged->completed_per_s), best->knee_requests_per_s); /* fmax skips an unknown knee */
}

void judge_report(struct scorecard *card, const struct judged *judged, const struct candidate *best,
                  const struct search_input *input)
{
  struct target_figures figures;
  card->is_simulated = true;
  card->latency = judged->latency;
  card->success = judged->success;
  if (!isnan(judged->kv_p99_ratio))
    card->memory.headroom_ratio = 1 - judged->kv_p99_ratio;
  report_throughput(&card->throughput, judged, best, input);
  card->limits.saturation_requests_per_s = saturation_per_s(judged, best, input);
  card->limits.knee_requests_per_s = best->knee_requests_per_s;
  card->limits.margin_to_knee_ratio = best->margin_to_knee_ratio;
  if (judged->is_queue_first)
    card->limits.first_limit = LIMIT_QUEUE;
  cost_fleet(&card->cost, &best->price, best->gpus_billed, judged->sent_per_s * input->load_share_ratio,
             card->throughput.output_tok_s * input->load_share_ratio, judged->success.rate_ratio);
  judge_figures(&figures, judged, best, input);
  figures.per_successful_request_usd = card->cost.per_successful_request_usd;
  figures.per_million_output_tokens_usd = card->cost.per_million_output_tokens_usd;
  card->target_count = targets_list(card->targets, &input->workload->targets, &figures);
  judge_verdict(card);
}
