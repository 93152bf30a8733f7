/* Findings about phases, capacity, precision, power and provenance; the other groups are called from here. */
#include "core/finding.h"

#include "core/scorecard.h"
#include "core/served.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

void finding_add(struct finding_case *c, const char *code, enum severity severity, const char *message,
                 const struct scorecard_evidence *evidence, size_t count)
{
  if (message == NULL)
    c->is_failed = true;
  else
    scorecard_add_finding(c->card, code, severity, message, evidence, count);
}

bool finding_has(const struct scorecard *card, const char *code)
{
  for (size_t i = 0; i < card->finding_count; i++)
    if (strcmp(card->findings[i].code, code) == 0)
      return true;
  return false;
}

/* ---- phases ---- */

static void find_prefill(struct finding_case *c)
{
  const struct scorecard_phase *p = &c->card->prefill;
  const struct scorecard_evidence evidence[] = {{"time_share", p->time_share_ratio},
                                                {"time_ms", p->time_s / MS},
                                                {"compute_share", p->bound_share_ratio[BOUND_COMPUTE]},
                                                {"flops_utilisation", p->flops_utilisation_ratio}};
  if (p->bound != BOUND_COMPUTE)
    return;
  FINDING_ADD(c, "prefill_compute_bound", SEVERITY_INFO,
              arena_printf(c->arena,
                           "prefill takes %.0f %% of busy time and spends %.0f %% of it computing, at %.0f %% of the "
                           "peak: only more compute, fewer tokens or a cached prefix shorten it",
                           100 * p->time_share_ratio, 100 * p->bound_share_ratio[BOUND_COMPUTE],
                           100 * p->flops_utilisation_ratio),
              evidence);
}

static void find_decode(struct finding_case *c)
{
  const struct scorecard_phase *d = &c->card->decode;
  const struct scorecard_evidence evidence[] = {
      {"time_share", d->time_share_ratio},
      {"step_ms", d->time_s / MS},
      {"memory_share", d->bound_share_ratio[BOUND_MEMORY_BANDWIDTH]},
      {"bandwidth_utilisation", d->bandwidth_utilisation_ratio},
      {"weights_gb", d->weights_bytes / GIGA},
      {"kv_gb", d->kv_bytes / GIGA},
  };
  if (d->bound != BOUND_MEMORY_BANDWIDTH)
    return;
  FINDING_ADD(c, "decode_bandwidth_bound", SEVERITY_INFO,
              arena_printf(c->arena,
                           "decode takes %.0f %% of busy time and spends %.0f %% of it moving memory: each step reads "
                           "%.3g GB of weights and %.3g GB of KV cache on every GPU",
                           100 * d->time_share_ratio, 100 * d->bound_share_ratio[BOUND_MEMORY_BANDWIDTH],
                           d->weights_bytes / GIGA, d->kv_bytes / GIGA),
              evidence);
}

static void find_launch(struct finding_case *c)
{
  const struct scorecard_phase *d = &c->card->decode;
  const struct scorecard_evidence evidence[] = {{"launch_share", d->bound_share_ratio[BOUND_LAUNCH_OVERHEAD]},
                                                {"step_ms", d->time_s / MS},
                                                {"mean_batch", c->card->throughput.mean_batch},
                                                {"layers", c->input->model->layer_count}};
  if (d->bound != BOUND_LAUNCH_OVERHEAD)
    return;
  FINDING_ADD(c, "launch_bound", SEVERITY_WARNING,
              arena_printf(c->arena,
                           "%.0f %% of a decode step of %.3g ms is launching kernels, not working: fewer GPUs a "
                           "replica, graphs or a larger batch use the device, a faster one does not help",
                           100 * d->bound_share_ratio[BOUND_LAUNCH_OVERHEAD], d->time_s / MS),
              evidence);
}

/* ---- capacity ---- */

static void find_kv_limit(struct finding_case *c)
{
  const struct scorecard_memory *m = &c->card->memory;
  const struct scorecard_evidence evidence[] = {{"max_concurrent_sessions", m->max_concurrent_sessions},
                                                {"max_batch", c->card->configuration.max_batch},
                                                {"kv_gib_per_session", m->kv_bytes_per_session / GIB},
                                                {"kv_cache_gib", m->kv_cache_bytes / GIB},
                                                {"kv_bytes_per_token", m->kv_bytes_per_token}};
  if (c->card->limits.first_limit != LIMIT_KV_CACHE)
    return;
  FINDING_ADD(c, "kv_cache_limits_batch", SEVERITY_WARNING,
              arena_printf(c->arena,
                           "the KV cache ends the batch at %.0f sessions of %.3g GiB, before compute or bandwidth do: "
                           "a larger batch would still pay",
                           m->max_concurrent_sessions, m->kv_bytes_per_session / GIB),
              evidence);
}

/* ---- precision ---- */

/* Cost of the rung of the ladder in this format; NaN where it is not there. */
static double rung_usd(const struct scorecard *card, enum precision precision)
{
  for (size_t i = 0; i < card->ladder_count; i++)
    if (card->ladder[i].precision == precision)
      return card->ladder[i].per_successful_request_usd;
  return (double)NAN;
}

static void find_fallback(struct finding_case *c)
{
  const struct hardware *hardware = c->input->hardware;
  const enum precision weights =
      served_has_experts(c->input->model) ? c->input->precision.experts : c->input->precision.dense;
  enum precision math;
  const enum precision_support support = precision_support(hardware, weights, c->input->workload->activations, &math);
  const double usd = c->card->has_latency ? c->card->cost.per_successful_request_usd : (double)NAN;
  const struct scorecard_evidence evidence[] = {
      {"stored_bytes_per_weight", model_bytes_per_weight(c->input->model, weights)},
      {"math_peak_tflops", hardware_peak_flops(hardware, math) / TERA},
      {"per_successful_request_usd", usd},
      {"per_successful_request_usd_in_bf16", rung_usd(c->card, PRECISION_BF16)}};
  if (support == PRECISION_NATIVE)
    return;
  FINDING_ADD(c, "precision_fallback", SEVERITY_WARNING,
              support == PRECISION_WEIGHT_ONLY
                  ? arena_printf(c->arena,
                                 "%s has no %s arithmetic in use here: weights stay small, the math runs in %s at %.0f "
                                 "TFLOP/s",
                                 hardware->name, precision_name(weights), precision_name(math),
                                 hardware_peak_flops(hardware, math) / TERA)
                  : arena_printf(c->arena, "%s does not run %s: %s stands in", hardware->name, precision_name(weights),
                                 precision_name(math)),
              evidence);
}

/* ---- power and clocks ---- */

static void find_throttling(struct finding_case *c)
{
  const double noticed = 0.97;
  const struct hardware *hardware = c->input->hardware;
  const double clock = hardware->sustained_clock_fraction;
  const struct scorecard_evidence evidence[] = {{"sustained_clock_fraction", clock},
                                                {"bf16_tflops_sustained", hardware->bf16_tflops * clock},
                                                {"bf16_tflops_datasheet", hardware->bf16_tflops}};
  if (!(clock < noticed))
    return;
  FINDING_ADD(c, "thermally_throttled", SEVERITY_WARNING,
              arena_printf(c->arena,
                           "this profile holds %.0f %% of its rated clock under load: figures are for %.0f instead of "
                           "%.0f TFLOP/s in bf16",
                           100 * clock, hardware->bf16_tflops * clock, hardware->bf16_tflops),
              evidence);
}

/* ---- what the figures rest on ---- */

static void find_uncalibrated(struct finding_case *c)
{
  const struct scorecard_uncertainty *u = &c->card->uncertainty;
  const struct scorecard_evidence evidence[] = {{"itl_p10", u->itl_ratio[0]},
                                                {"itl_p90", u->itl_ratio[1]},
                                                {"throughput_p10", u->throughput_ratio[0]},
                                                {"throughput_p90", u->throughput_ratio[1]}};
  if (c->card->constants_provenance == NULL || strcmp(c->card->constants_provenance, "own") == 0)
    return;
  FINDING_ADD(c, "uncalibrated", SEVERITY_INFO,
              arena_printf(c->arena,
                           "operators of %s were not measured themselves (constants: %s): measured ITL may lie between "
                           "%.2g and %.2g of what is predicted",
                           c->input->hardware->name, c->card->constants_provenance, u->itl_ratio[0], u->itl_ratio[1]),
              evidence);
}

/* ---- the whole ---- */

enum err finding_fill(struct finding_case *c, struct error *e)
{
  find_fallback(c);
  find_throttling(c);
  if (c->card->has_latency) {
    find_prefill(c);
    find_decode(c);
    find_launch(c);
    find_kv_limit(c);
    find_uncalibrated(c);
    finding_of_layout(c);
    finding_of_load(c);
    finding_of_trouble(c);
  }
  finding_of_structure(c);
  return c->is_failed ? error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed") : ERR_OK;
}
