/* Findings about traffic: what more of it does, what its tails come from, and whether there is enough of it. */
#include "core/finding.h"

#include "core/units.h"

#include <math.h>
#include <string.h>

/* ---- volume ---- */

static double requests_per_h(const struct finding_case *c)
{
  const struct workload_traffic *traffic = &c->input->workload->traffic;
  const double rate = traffic->load == LOAD_OPEN ? traffic->requests_per_s : c->card->throughput.requests_per_s;
  return rate * SECONDS_PER_HOUR;
}

/* 120 requests an hour are one every 30 s: no engine has a second request to batch with. */
static void find_low_volume(struct finding_case *c)
{
  const double least_per_h = 120;
  const struct scorecard_alternatives *other = &c->card->alternatives;
  const double rate = requests_per_h(c);
  const struct scorecard_evidence evidence[] = {
      {"requests_per_h", rate},
      {"per_request_usd", c->card->cost.per_successful_request_usd},
      {"managed_per_request_usd", other->managed_per_request_usd},
      {"break_even_requests_per_h", other->break_even_requests_per_h},
      {"monthly_usd", c->card->cost.monthly_usd},
      {"managed_monthly_usd", rate * HOURS_PER_MONTH * other->managed_per_request_usd}};
  if (!(rate < least_per_h) && !(rate < other->break_even_requests_per_h))
    return;
  FINDING_ADD(c, "low_volume", SEVERITY_WARNING,
              isnan(other->break_even_requests_per_h)
                  ? arena_printf(c->arena,
                                 "%.3g requests an hour keep no GPU busy: a managed API is worth asking for; give its "
                                 "prices in constraints.managed_api for the break-even",
                                 rate)
                  : arena_printf(c->arena,
                                 "%.3g requests an hour cost %.3g USD each on this fleet and %.3g USD at the managed "
                                 "API: the fleet's own costs are earned back from %.4g requests an hour on",
                                 rate, c->card->cost.per_successful_request_usd, other->managed_per_request_usd,
                                 other->break_even_requests_per_h),
              evidence);
}

/* ---- what a scheduler can not do ---- */

static const struct scorecard_target *missed(const struct scorecard *card, const char *group)
{
  for (size_t i = 0; i < card->target_count; i++)
    if (card->targets[i].met == 0 && strncmp(card->targets[i].metric, group, strlen(group)) == 0)
      return &card->targets[i];
  return NULL;
}

/* One request alone has no queue and no neighbours: what misses a limit then misses it under every batching policy. */
static void find_helpless(struct finding_case *c)
{
  const struct candidate *best = &c->result->best;
  const struct scorecard_target *itl = missed(c->card, "latency.itl_ms");
  const double context = c->input->cached_tokens + c->input->prompt_tokens + c->input->output_tokens / 2;
  struct step_time alone;
  step_decode(&alone, &best->engine, 1, context);
  if (itl == NULL)
    itl = missed(c->card, "latency.tpot_ms");
  const struct scorecard_evidence evidence[] = {
      {"active_parameters", (double)model_parameters_active(c->input->model)},
      {"step_ms_alone", alone.seconds / MS},
      {"target_ms", itl != NULL ? itl->target : (double)NAN},
      {"saturation_requests_per_s", c->card->limits.saturation_requests_per_s},
      {"offered_requests_per_s", c->input->workload->traffic.requests_per_s}};
  if (itl != NULL && alone.seconds / MS > itl->target)
    FINDING_ADD(c, "scheduler_cannot_help", SEVERITY_CRITICAL,
                arena_printf(c->arena,
                             "a step takes %.3g ms with one request alone, the limit is %.3g: %.3g billion active "
                             "parameters are the cause, not queueing or batching",
                             alone.seconds / MS, itl->target, evidence[0].value / GIGA),
                evidence);
  else if (best->state.is_saturated && c->card->limits.first_limit != LIMIT_BATCH &&
           c->card->limits.first_limit != LIMIT_KV_CACHE)
    FINDING_ADD(c, "scheduler_cannot_help", SEVERITY_CRITICAL,
                arena_printf(c->arena,
                             "%u GPUs are saturated at %.3g requests/s by %s, at any batch: %.3g billion active "
                             "parameters a token are the cause, not the order of requests",
                             c->card->configuration.gpus, c->card->limits.saturation_requests_per_s,
                             limit_name(c->card->limits.first_limit), evidence[0].value / GIGA),
                evidence);
}

/* ---- tails, where they were simulated ---- */

static double spread(const struct percentiles *p)
{
  return p->p99 / p->p50;
}

/* A gap that holds a stranger's prompt is longer than one that does not. */
static void find_blocking(struct finding_case *c)
{
  const double noticed = 3;
  const struct percentiles *itl = &c->card->latency.itl_s;
  const double stall_s = c->result->best.state.stall_s;
  const struct scorecard_evidence evidence[] = {
      {"itl_p50_ms", itl->p50 / MS},
      {"itl_p99_ms", itl->p99 / MS},
      {"p99_over_p50", spread(itl)},
      {"prompt_stall_ms", stall_s / MS},
      {"max_batched_tokens", c->result->best.engine.preset.max_batched_tokens}};
  if (!(spread(itl) > noticed) || !(stall_s > itl->p50))
    return;
  FINDING_ADD(c, "head_of_line_blocking", SEVERITY_WARNING,
              arena_printf(c->arena,
                           "one prompt holds up those who are reading for %.3g ms: ITL p99 is %.3g times its p50; "
                           "smaller chunks (max_batched_tokens, now %u) or more replicas spread it",
                           stall_s / MS, spread(itl), c->result->best.engine.preset.max_batched_tokens),
              evidence);
}

/* What a request waits for others, beside what its own prompt takes: by some in a tail, by most where bursts bring more at
   once than is answered meanwhile. */
static void find_spikes(struct finding_case *c)
{
  const double noticed = 3;
  const struct workload_traffic *traffic = &c->input->workload->traffic;
  const struct percentiles *ttft = &c->card->latency.ttft_s;
  const double queue_p99_s = c->card->latency.queue_s.p99;
  const bool is_spiky = traffic->arrival == ARRIVAL_SPIKY;
  const struct scorecard_evidence evidence[] = {{"ttft_p50_ms", ttft->p50 / MS},
                                                {"ttft_p99_ms", ttft->p99 / MS},
                                                {"p99_over_p50", spread(ttft)},
                                                {"queue_p99_ms", queue_p99_s / MS},
                                                {"prompt_ms", c->card->prefill.time_s / MS},
                                                {"peak_to_mean", traffic->burst_peak_to_mean}};
  if (!(spread(ttft) > noticed && queue_p99_s > ttft->p50) &&
      !(is_spiky && queue_p99_s > noticed * c->card->prefill.time_s))
    return;
  FINDING_ADD(c, "spiky_tail", SEVERITY_WARNING,
              arena_printf(c->arena,
                           "TTFT p99 is %.4g ms, %.3g times its p50, and %.4g ms of it are queueing behind %s, where a "
                           "prompt alone takes %.3g ms: replicas or a limit that sheds early shorten it, a faster step "
                           "hardly does",
                           ttft->p99 / MS, spread(ttft), queue_p99_s / MS,
                           is_spiky ? "bursts" : "arrivals that bunch up", c->card->prefill.time_s / MS),
              evidence);
}

void finding_of_load(struct finding_case *c)
{
  find_low_volume(c);
  find_helpless(c);
  find_blocking(c);
  find_spikes(c);
}
