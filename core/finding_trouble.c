/* Findings about capacity that is lost and about bad days: work done twice or for nobody, inputs that grow, replicas that
   are gone. */
#include "core/finding.h"

#include "core/units.h"

#include <math.h>

/* Share of the bill that is work of which no success comes. */
static double failed_share(const struct scorecard *card)
{
  return card->cost.items.failed_usd / card->cost.per_successful_request_usd;
}

/* ---- work done twice, work for nobody ---- */

/* A preempted sequence gives its blocks back and is computed again from its first token: what the pool lacks is paid in
   prefill. */
static void find_preemption(struct finding_case *c)
{
  const double noticed = 0.01, grave = 0.25;
  const struct scorecard_success *s = &c->card->success;
  const double sessions = c->card->memory.max_concurrent_sessions * c->card->configuration.replicas;
  const struct scorecard_evidence evidence[] = {{"preempted", s->preempted_ratio},
                                                {"success_rate", s->rate_ratio},
                                                {"at_concurrency", c->card->throughput.at_concurrency},
                                                {"full_length_sessions", sessions},
                                                {"itl_p99_ms", c->card->latency.itl_s.p99 / MS},
                                                {"failed_share_of_bill", failed_share(c->card)}};
  if (!(s->preempted_ratio > noticed))
    return;
  FINDING_ADD(c, "kv_preemption_loop", s->preempted_ratio > grave ? SEVERITY_CRITICAL : SEVERITY_WARNING,
              arena_printf(c->arena,
                           "%.3g %% of the requests lose their KV blocks half-way and are computed again: %.4g are in "
                           "the system at once, the pool holds %.0f of full length; a concurrency limit near that, or "
                           "less cache a token, ends it",
                           100 * s->preempted_ratio, c->card->throughput.at_concurrency, sessions),
              evidence);
}

/* Clients that give up and come back add to the load that made them give up. */
static void find_cascade(struct finding_case *c)
{
  const double noticed = 0.01, grave = 0.1;
  const struct workload_traffic *traffic = &c->input->workload->traffic;
  const struct scorecard_success *s = &c->card->success;
  const struct scorecard_evidence evidence[] = {
      {"timed_out", s->timed_out_ratio},
      {"timeout_ms", traffic->client_timeout_ms},
      {"retries", traffic->client_retries},
      {"offered_requests_per_s", traffic->requests_per_s},
      {"saturation_requests_per_s", c->card->limits.saturation_requests_per_s},
      {"success_rate", s->rate_ratio}};
  if (!(s->timed_out_ratio > noticed))
    return;
  FINDING_ADD(
      c, "timeout_cascade", s->timed_out_ratio > grave ? SEVERITY_CRITICAL : SEVERITY_WARNING,
      arena_printf(c->arena,
                   "%.3g %% of the requests are given up after %.4g ms and %s: answers nobody waits for take the "
                   "place of others; a concurrency limit that sheds early, or more replicas, breaks the chain",
                   100 * s->timed_out_ratio, traffic->client_timeout_ms,
                   traffic->client_retries > 0 ? "most are sent again" : "lost"),
      evidence);
}

/* ---- the stress cases that say most ---- */

static double replicas_of(const struct scorecard_stress *stress)
{
  const bool is_known = stress->way_out != NULL && stress->way_out->requires != REQUIRES_PROMISE;
  return is_known ? stress->way_out->to.number : (double)NAN;
}

static const char *way_out_of(const struct finding_case *c, const struct scorecard_stress *stress)
{
  return stress->way_out != NULL ? arena_printf(c->arena, "; way out: %s", stress->way_out->message) : "";
}

/* What twice the input does first, in words. */
static const char *growth_breaks(const struct finding_case *c, const struct scorecard_stress *s)
{
  if (s->missed_metric != NULL)
    return arena_printf(c->arena, "%s goes first, to %.4g over a limit of %.4g", s->missed_metric, s->missed_actual,
                        s->missed_target);
  if (isnan(s->success_ratio) && s->first_limit == LIMIT_KV_CACHE && s->way_out == NULL)
    return "memory goes first: no room for such requests, or too little to keep up";
  return arena_printf(c->arena, "the rate goes first: requests come faster than %s lets this fleet answer them",
                      s->first_limit != LIMIT_NONE ? limit_name(s->first_limit) : "what is left");
}

static void find_growth(struct finding_case *c)
{
  const struct scorecard_stress *s = &c->card->stress[STRESS_INPUT_DOUBLED];
  const double tokens = 2 * length_mean_tokens(&c->input->workload->traffic.input);
  const struct scorecard_evidence evidence[] = {{"input_tokens", tokens},
                                                {"target", s->missed_target},
                                                {"actual", s->missed_actual},
                                                {"success_rate", s->success_ratio},
                                                {"concurrency_limit", s->concurrency_limit},
                                                {"replicas_that_bear_it", replicas_of(s)}};
  const char *breaks, *way_out;
  if (!s->is_computed || s->verdict != VERDICT_NO_FIT || c->card->verdict != VERDICT_FIT)
    return;
  breaks = growth_breaks(c, s);
  way_out = way_out_of(c, s);
  FINDING_ADD(c, "input_growth_breaks", SEVERITY_WARNING,
              breaks == NULL || way_out == NULL
                  ? NULL
                  : arena_printf(c->arena, "with inputs of %.0f tokens, twice as many, it no longer fits: %s%s", tokens,
                                 breaks, way_out),
              evidence);
}

/* A minute is what load balancers and clients bridge by themselves; in longer gaps of a fleet that can not spare a replica
   requests are missed. */
static void find_recovery(struct finding_case *c)
{
  const double noticed_s = 60;
  const struct scorecard_startup *startup = &c->card->startup;
  const struct scorecard_stress *lost = &c->card->stress[STRESS_REPLICA_LOST];
  const struct workload *workload = c->input->workload;
  const double restarts = isnan(workload->restarts_per_day) ? 0 : workload->restarts_per_day;
  const double deploys = isnan(workload->deploys_per_week) ? 0 : workload->deploys_per_week / 7;
  const double short_s = startup->ready_s * (restarts + deploys * c->card->configuration.replicas);
  const struct scorecard_evidence evidence[] = {
      {"ready_s", startup->ready_s},
      {"weights_load_s", startup->weights_load_s},
      {"replicas", c->card->configuration.replicas},
      {"requests_meanwhile", startup->ready_s * c->card->throughput.requests_per_s},
      {"short_of_a_replica_s_per_day", short_s},
      {"replicas_that_bear_it", replicas_of(lost)}};
  const char *way_out;
  if (!lost->is_computed || lost->verdict == VERDICT_FIT || c->card->verdict != VERDICT_FIT ||
      !(startup->ready_s > noticed_s))
    return;
  way_out = way_out_of(c, lost);
  FINDING_ADD(
      c, "slow_recovery", short_s > 0 ? SEVERITY_WARNING : SEVERITY_INFO,
      way_out == NULL
          ? NULL
          : arena_printf(c->arena,
                         "a replica is back %.0f s after a restart, %.0f s of it loading weights, and without it "
                         "the fleet does not keep its targets: %.3g requests come meanwhile%s",
                         startup->ready_s, startup->weights_load_s, evidence[3].value, way_out),
      evidence);
}

void finding_of_trouble(struct finding_case *c)
{
  find_preemption(c);
  find_cascade(c);
  find_growth(c);
  find_recovery(c);
}
