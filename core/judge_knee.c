/* Where a fleet ends: the rate that a full replica sustains, and the load up to which its promises hold. */
#include "core/judge.h"

#include <math.h>

static bool holds(const struct judge_case *c, const struct judged *judged)
{
  return targets_simulated_excess(&c->input->workload->targets, &judged->latency, judged->success.rate_ratio) <= 0;
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
enum err judge_knee(double *requests_per_s, double *margin_ratio, const struct judge_case *c,
                    const struct judged *judged, struct arena *arena, struct error *e)
{
  const int rounds = 7;
  const double headroom = c->input->workload->targets.headroom_ratio;
  const bool holds_now = holds(c, judged);
  double low = holds_now ? 1 : 0, high = holds_now ? fmax(1, highest_scale(c)) : 1;
  double knee = holds_now ? judged->completed_per_s : 0;
  *requests_per_s = *margin_ratio = (double)NAN;
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
      knee = there.completed_per_s;
    } else {
      high = at.load_scale;
    }
  }
  *requests_per_s = knee;
  if (knee > 0)
    *margin_ratio = 1 - judged->completed_per_s / knee;
  return ERR_OK;
}
