/* What would make a stress case bearable, tried on the case itself: the fewest replicas, else the promise that it breaks. */
#include "core/stress_int.h"

#include "core/knob.h"
#include "core/parallel.h"
#include "core/search_int.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

/* A fleet of over so many times as many is another one. */
static const double most_times = 4;

/* A fleet that the closed form sees saturated, or as full as it can be, is not worth a simulation: those near the end take
   longest and tell least. */
static enum err with_replicas(struct scorecard_stress *out, struct stress_variant *v, unsigned replicas,
                              struct arena *arena, struct error *e)
{
  const struct steady_state *state = &v->candidate.state;
  const double full = 0.9;
  stress_clear(out);
  search_set_replicas(&v->candidate, &v->input, replicas);
  if (v->workload.traffic.load != LOAD_CLOSED && !(v->workload.traffic.client_timeout_ms > 0) &&
      (state->is_saturated || state->in_system > full * v->candidate.batch_limit))
    return ERR_OK;
  return stress_simulate(out, v, arena, e);
}

/* As many as leave the queue bounded, where the requests' rate is given; of large fleets with a tenth to spare, as simulations
   near the end take long and tell little. */
static unsigned enough_for_rate(const struct stress_variant *v, unsigned given)
{
  const unsigned small = 8;
  const double use = given > small ? 0.9 : 1;
  const double offered = v->workload.traffic.requests_per_s, each = use * v->candidate.capacity_requests_per_s;
  if (v->workload.traffic.load == LOAD_CLOSED || judge_is_bounded(&v->input, &v->candidate) || !(each > 0))
    return given + 1;
  return (unsigned)fmin(SEARCH_REPLICAS_MAX, fmax(given + 1, floor(offered / each) + 1 + v->run.lost_replicas));
}

/* Replicas that leave the worst miss where it was do not help: that latency is at its floor. */
static bool has_helped(const struct scorecard_stress *found, const struct scorecard_stress *last)
{
  const double helps = 0.98;
  if (found->missed_metric == NULL || last->missed_metric == NULL)
    return true;
  return strcmp(found->missed_metric, last->missed_metric) != 0 ||
         fabs(found->missed_actual - found->missed_target) < helps * fabs(last->missed_actual - last->missed_target);
}

/* Just enough for the rate, then a quarter more, twice and four times as many. *fits 0: none of them do; else those are
   enough and *misses are not. */
static enum err leap(unsigned *misses, unsigned *fits, struct scorecard_stress *found, struct stress_variant *v,
                     unsigned given, const struct scorecard_stress *before, struct arena *arena, struct error *e)
{
  static const double leaps[] = {1, 1.25, 2, 4};
  const struct workload_traffic *traffic = &v->workload.traffic;
  const double most = traffic->load == LOAD_CLOSED ? traffic->concurrency : most_times * (given + 1.0);
  const unsigned least = enough_for_rate(v, given);
  struct scorecard_stress last = *before;
  enum err err = ERR_OK;
  *misses = least - 1;
  *fits = 0;
  for (size_t i = 0; i < sizeof leaps / sizeof leaps[0] && *fits == 0; i++) {
    const unsigned next = (unsigned)ceil(leaps[i] * least);
    if (next > most || (next == *misses && i > 0))
      continue;
    if ((err = with_replicas(found, v, next, arena, e)) != ERR_OK)
      return err;
    if (found->verdict == VERDICT_FIT)
      *fits = next;
    else if (has_helped(found, &last))
      *misses = next;
    else
      break;
    last = *found;
  }
  return ERR_OK;
}

/* To within a tenth of a large fleet, or to the next leap where the rate alone has to be borne. */
static enum err fewest(unsigned *replicas, struct scorecard_stress *found, struct stress_variant *v, unsigned given,
                       const struct scorecard_stress *before, struct arena *arena, struct error *e)
{
  const double close = 0.1;
  unsigned misses;
  enum err err = leap(&misses, replicas, found, v, given, before, arena, e);
  while (*replicas > misses + 1 + close * misses && targets_have_latency(&v->workload.targets) && err == ERR_OK) {
    const unsigned middle = misses + (*replicas - misses) / 2;
    struct scorecard_stress tried;
    err = with_replicas(&tried, v, middle, arena, e);
    if (err == ERR_OK && tried.verdict == VERDICT_FIT) {
      *replicas = middle;
      *found = tried;
    } else {
      misses = middle;
    }
  }
  return err;
}

/* ---- what comes of it ---- */

static void add_effect(struct scorecard_change *way, const char *metric, double from, double to)
{
  const double noticed = 0.005;
  if (isfinite(to) && !(fabs(to - from) <= noticed * fabs(from)))
    way->effects[way->effect_count++] = (struct scorecard_effect){metric, from, to};
}

static void add_effects(struct scorecard_change *way, const struct scorecard_stress *before,
                        const struct scorecard_stress *after)
{
  add_effect(way, "latency.ttft_ms.p99", before->ttft_p99_s / MS, after->ttft_p99_s / MS);
  add_effect(way, "latency.itl_ms.p99", before->itl_p99_s / MS, after->itl_p99_s / MS);
  add_effect(way, "success.rate", before->success_ratio, after->success_ratio);
  add_effect(way, "cost.per_successful_request_usd", before->per_successful_request_usd,
             after->per_successful_request_usd);
  way->payback_months = (double)NAN;
}

static void describe_replicas(struct scorecard_change *way, const struct stress_variant *v, unsigned from, unsigned to)
{
  const unsigned quota = v->workload.constraints.gpu_quota, each = parallel_gpus(&v->candidate.layout);
  way->knob = "replicas";
  way->pointer = "/serving/replicas";
  way->from = knob_number(from);
  way->to = knob_number(to);
  way->requires = quota != 0 && to * each > quota ? REQUIRES_PROCUREMENT : REQUIRES_CONFIGURATION;
  add_effect(way, "configuration.gpus", from * each, to * each);
}

/* Four digits, no less than what is seen. */
static double rounded_up(double value)
{
  const double unit = pow(10, floor(log10(value)) - 3);
  return ceil(value / unit * (1 - 1e-12)) * unit;
}

/* The limit that is missed, as far as it is missed: enough where it is the only one. */
static enum err relax(struct scorecard_change *way, struct stress_variant *v, const struct scorecard_stress *before,
                      unsigned given, struct arena *arena, struct error *e)
{
  const char *pointer = before->missed_metric != NULL ? targets_latency_pointer(before->missed_metric) : NULL;
  const struct knob_subject subject = {.workload = &v->workload};
  struct knob_value to;
  struct scorecard_stress after;
  enum err err;
  if (pointer == NULL)
    return ERR_OK;
  to = knob_number(rounded_up(before->missed_actual));
  if ((err = knob_set(&subject, pointer, &to, e)) == ERR_OK)
    err = with_replicas(&after, v, given, arena, e);
  if (err != ERR_OK || after.verdict != VERDICT_FIT)
    return err == ERR_INVALID ? ERR_OK : err; /* further than a limit may be set */
  way->knob = pointer + strlen("/targets/");
  way->pointer = pointer;
  way->from = knob_number(before->missed_target);
  way->to = to;
  way->requires = REQUIRES_PROMISE;
  add_effects(way, before, &after);
  return ERR_OK;
}

enum err stress_way_out(struct scorecard_change *way, struct stress_variant *v, const struct scorecard_stress *before,
                        unsigned given, struct arena *arena, struct error *e)
{
  const bool has_pools = v->input.pools.prefill_replicas != 0; /* two numbers, not one */
  struct scorecard_stress after;
  unsigned replicas = 0;
  const enum err err = has_pools ? ERR_OK : fewest(&replicas, &after, v, given, before, arena, e);
  if (err != ERR_OK)
    return err;
  if (replicas == 0)
    return relax(way, v, before, given, arena, e);
  describe_replicas(way, v, given, replicas);
  add_effects(way, before, &after);
  return ERR_OK;
}
