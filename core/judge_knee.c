/* Where a fleet ends: the rate that a full replica sustains, and the load up to which its promises hold. */
#include "core/judge.h"

#include <math.h>

static bool holds(const struct judge_case *c, const struct judged *judged)
{
  return targets_simulated_excess(&c->input->workload->targets, &judged->latency, judged->success.rate_ratio) <= 0;
}

/* Gaps between tokens are right, and most of the time to the first one is waiting. */
static bool waits_too_long(const struct judge_case *c, const struct judged *beyond)
{
  const double most = 0.5;
  const struct percentiles none = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};
  struct workload_targets gaps = c->input->workload->targets;
  gaps.ttft_ms = gaps.e2e_ms = none;
  gaps.success_rate_ratio = (double)NAN;
  return targets_simulated_excess(&gaps, &beyond->latency, 1) <= 0 &&
         beyond->latency.queue_s.p99 > most * beyond->latency.ttft_s.p99;
}

/* The load scale beyond which there is nothing to look for. */
static double highest_scale(const struct judge_case *c)
{
  const struct workload_traffic *traffic = &c->input->workload->traffic;
  const struct candidate *candidate = c->candidate;
  if (traffic->load == LOAD_CLOSED)
    return 4 * candidate->batch_limit * candidate->replicas / traffic->concurrency;
  return candidate->capacity_requests_per_s * candidate->replicas / traffic->requests_per_s;
}

/* A hair more than asked, so that rounding does not undo it. */
double judge_headroom_scale(double headroom_ratio)
{
  return (1 + 1e-6) / (1 - headroom_ratio);
}

/* Bisection. The load of now and the one with the asked headroom come first, so that margin and verdict agree. */
enum err judge_knee(struct judge_knee *out, const struct judge_case *c, const struct judged *judged,
                    struct arena *arena, struct error *e)
{
  const int rounds = 7;
  const double nearly = 0.9;
  const double headroom = c->input->workload->targets.headroom_ratio;
  const bool holds_now = holds(c, judged);
  double low = holds_now ? 1 : 0, high = holds_now ? fmax(1, highest_scale(c)) : 1;
  double knee = holds_now ? judged->completed_per_s : 0;
  *out = (struct judge_knee){(double)NAN, (double)NAN, holds_now ? false : waits_too_long(c, judged)};
  if (!targets_have_latency(&c->input->workload->targets))
    return ERR_OK;
  for (int i = 0; i < rounds; i++) {
    struct judge_case at = *c;
    struct judged there;
    enum err err;
    at.load_scale = i == 0 && holds_now && headroom > 0 && headroom < 1 ? fmin(high, judge_headroom_scale(headroom))
                                                                        : (low + high) / 2;
    at.requests = JUDGE_REQUESTS_COMPARE;
    if ((err = judge_run(&there, &at, arena, e)) != ERR_OK)
      return err;
    if (holds(c, &there)) {
      low = at.load_scale;
      knee = fmax(knee, there.completed_per_s); /* of a shorter run: what the long one has shown stands */
    } else {
      high = at.load_scale;
      out->is_queue = waits_too_long(c, &there);
    }
  }
  out->requests_per_s = knee;
  out->is_queue = out->is_queue && knee < nearly * c->candidate->capacity_requests_per_s * c->candidate->replicas;
  if (knee > 0)
    out->margin_ratio = 1 - judged->completed_per_s / knee;
  return ERR_OK;
}
