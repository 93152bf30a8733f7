/* One scorecard of the core as the JSON document that is answered and stored: wire units, every member of the contract in
   its order, null for what is not known or not computed. */
#include "api/derate.h"
#include "api/evaluation.h"

#include <math.h>

#include "api/quality.h"
#include "api/write.h"
#include "core/units.h"

/* One member: `value` is taken over. A failed allocation is remembered, so that the document is checked once. */
struct writer {
  bool is_failed;
};

static void put(struct writer *w, json_t *object, const char *key, json_t *value)
{
  if (json_object_set_new(object, key, value) != 0)
    w->is_failed = true;
}

static void append(struct writer *w, json_t *array, json_t *value)
{
  if (json_array_append_new(array, value) != 0)
    w->is_failed = true;
}

static void put_number(struct writer *w, json_t *object, const char *key, double value)
{
  put(w, object, key, write_number(value));
}

static void put_text(struct writer *w, json_t *object, const char *key, const char *text)
{
  put(w, object, key, write_text(text));
}

static void put_null(struct writer *w, json_t *object, const char *key)
{
  put(w, object, key, json_null());
}

/* An object whose members are all null: figures that this version does not compute keep their place. */
static json_t *nulls(struct writer *w, const char *const *keys)
{
  json_t *object = json_object();
  for (; *keys != NULL; keys++)
    put_null(w, object, *keys);
  return object;
}

/* Counts that core leaves at 0 where there is none. */
static double count_or_nan(unsigned count)
{
  return count != 0 ? (double)count : (double)NAN;
}

static json_t *strings(struct writer *w, const char *const *items, size_t count)
{
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    append(w, array, write_text(items[i]));
  return array;
}

static void put_identity(struct writer *w, json_t *card, const struct scorecard_identity *identity)
{
  const struct sketch *sketch = identity->sketch;
  put_text(w, card, "id", identity->id);
  put_text(w, card, "evaluation", identity->evaluation);
  put_text(w, card, "created_at", identity->created_at);
  put_text(w, card, "label", identity->label);
  put_text(w, card, "workload", sketch->workload.name);
  put_text(w, card, "model", sketch->model_name);
  put_number(w, card, "model_revision", sketch->model_revision > 0 ? (double)sketch->model_revision : (double)NAN);
  put(w, card, "context", sketch->context != NULL ? json_incref(sketch->context) : json_null());
  put_text(w, card, "profile", identity->profile->hardware.name);
  put_number(w, card, "profile_revision", identity->profile->revision);
  put(w, card, "stack", sketch->stack != NULL ? json_incref(sketch->stack) : json_null());
  put_text(w, card, "core_version", CORE_VERSION);
  put_text(w, card, "sketch_digest", sketch->digest);
  put_text(w, card, "trace_digest", sketch->replay.digest[0] != '\0' ? sketch->replay.digest : NULL);
  put(w, card, "seed", json_integer(sketch->workload.seed));
}

static json_t *configuration(struct writer *w, const struct scorecard_configuration *from)
{
  json_t *to = json_object(), *precision = json_object();
  put_number(w, to, "tensor_parallel", from->tensor_parallel);
  put_number(w, to, "pipeline_parallel", from->pipeline_parallel);
  put_number(w, to, "expert_parallel", from->expert_parallel);
  put_number(w, to, "attention_data_parallel", from->attention_data_parallel);
  put_number(w, to, "replicas", from->replicas);
  put_number(w, to, "gpus", from->gpus);
  put_number(w, to, "gpus_billed", from->gpus_billed);
  put_number(w, to, "max_batch", from->max_batch);
  put_text(w, precision, "weights", precision_name(from->weights));
  put_text(w, precision, "kv_cache", precision_name(from->kv_cache));
  put_text(w, precision, "activations", precision_name(from->activations));
  put(w, to, "precision", precision);
  put(w, to, "precision_fallbacks", strings(w, from->precision_fallbacks, from->precision_fallback_count));
  put_text(w, to, "launch", from->launch);
  return to;
}

static json_t *memory(struct writer *w, const struct scorecard_memory *from)
{
  json_t *to = json_object();
  put_number(w, to, "usable_gib", from->usable_bytes / GIB);
  put_number(w, to, "weights_gib", from->weights_bytes / GIB);
  put_number(w, to, "activations_gib", from->activations_bytes / GIB);
  put_number(w, to, "runtime_gib", from->runtime_bytes / GIB);
  put_number(w, to, "kv_cache_gib", from->kv_cache_bytes / GIB);
  put_number(w, to, "kv_bytes_per_token", from->kv_bytes_per_token);
  put_number(w, to, "kv_gib_per_session", from->kv_bytes_per_session / GIB);
  put_number(w, to, "max_concurrent_sessions", from->max_concurrent_sessions);
  put_number(w, to, "max_context_tokens", from->max_context_tokens);
  put_number(w, to, "headroom", from->headroom_ratio);
  put_number(w, to, "min_gpus", count_or_nan(from->min_gpus));
  return to;
}

static json_t *phases(struct writer *w, const struct scorecard *card)
{
  json_t *to = json_object(), *prefill = json_object(), *decode = json_object(), *bytes = json_object();
  put_text(w, prefill, "bound", bound_name(card->prefill.bound));
  put_number(w, prefill, "time_share", card->prefill.time_share_ratio);
  put_number(w, prefill, "time_ms", card->prefill.time_s / MS);
  put_number(w, prefill, "flops_utilisation", card->prefill.flops_utilisation_ratio);
  put_number(w, prefill, "bandwidth_utilisation", card->prefill.bandwidth_utilisation_ratio);
  put_text(w, decode, "bound", bound_name(card->decode.bound));
  put_number(w, decode, "time_share", card->decode.time_share_ratio);
  put_number(w, decode, "step_ms", card->decode.time_s / MS);
  put_number(w, decode, "flops_utilisation", card->decode.flops_utilisation_ratio);
  put_number(w, decode, "bandwidth_utilisation", card->decode.bandwidth_utilisation_ratio);
  put_number(w, decode, "communication_share", card->decode.communication_share_ratio);
  put_number(w, bytes, "weights", card->decode.weights_bytes);
  put_number(w, bytes, "kv", card->decode.kv_bytes);
  put(w, decode, "bytes", bytes);
  put(w, to, "prefill", prefill);
  put(w, to, "decode", decode);
  return to;
}

/* "mean" is what Little's law is about: requests_per_s × mean e2e = at_concurrency. */
static json_t *percentiles_ms(struct writer *w, const struct percentiles *from_s)
{
  json_t *to = json_object();
  put_number(w, to, "p50", from_s->p50 / MS);
  put_number(w, to, "p90", from_s->p90 / MS);
  put_number(w, to, "p99", from_s->p99 / MS);
  put_number(w, to, "mean", from_s->mean / MS);
  return to;
}

static json_t *latency(struct writer *w, const struct scorecard_latency *from)
{
  json_t *to = json_object(), *tpot = json_object();
  put(w, to, "ttft_ms", percentiles_ms(w, &from->ttft_s));
  put(w, to, "itl_ms", percentiles_ms(w, &from->itl_s));
  put_number(w, tpot, "mean", from->tpot_mean_s / MS);
  put(w, to, "tpot_ms", tpot);
  put(w, to, "e2e_ms", percentiles_ms(w, &from->e2e_s));
  put(w, to, "queue_ms", percentiles_ms(w, &from->queue_s));
  return to;
}

static json_t *throughput(struct writer *w, const struct scorecard_throughput *from)
{
  json_t *to = json_object();
  put_number(w, to, "requests_per_s", from->requests_per_s);
  put_number(w, to, "output_tokens_per_s", from->output_tok_s);
  put_number(w, to, "output_tokens_per_s_per_gpu", from->output_tok_s_per_gpu);
  put_number(w, to, "output_tokens_per_s_per_user", from->output_tok_s_per_user);
  put_number(w, to, "mean_batch", from->mean_batch);
  put_number(w, to, "at_concurrency", from->at_concurrency);
  return to;
}

static json_t *limits(struct writer *w, const struct scorecard_limits *from)
{
  json_t *to = json_object();
  put_number(w, to, "knee_requests_per_s", from->knee_requests_per_s);
  put_number(w, to, "saturation_requests_per_s", from->saturation_requests_per_s);
  put_number(w, to, "margin_to_knee", from->margin_to_knee_ratio);
  put_text(w, to, "first_limit", limit_name(from->first_limit));
  return to;
}

static json_t *success(struct writer *w, const struct scorecard_success *from)
{
  json_t *to = json_object();
  put_number(w, to, "rate", from->rate_ratio);
  put_number(w, to, "preempted", from->preempted_ratio);
  put_number(w, to, "shed", from->shed_ratio);
  put_number(w, to, "timed_out", from->timed_out_ratio);
  put_number(w, to, "rejected", from->rejected_ratio);
  return to;
}

/* Without a configuration there is nothing to bill: all but the price itself is null. */
static json_t *cost(struct writer *w, const struct scorecard *card)
{
  const struct scorecard_cost *from = &card->cost;
  const double none = card->has_latency ? 0.0 : (double)NAN; /* NaN added to a figure makes it null */
  json_t *to = json_object(), *by_bound = json_object(), *items = json_object();
  put_number(w, to, "usd_per_gpu_hour", from->price_basis != NULL ? from->usd_per_gpu_hour : (double)NAN);
  put_text(w, to, "price_basis", from->price_basis);
  put_number(w, to, "per_attempted_request_usd", from->per_attempted_request_usd + none);
  put_number(w, to, "per_successful_request_usd", from->per_successful_request_usd + none);
  put_number(w, to, "per_million_output_tokens_usd", from->per_million_output_tokens_usd + none);
  put_number(w, to, "monthly_usd", from->monthly_usd + none);
  put_number(w, items, "busy_usd", from->items.busy_usd);
  put_number(w, items, "idle_usd", from->items.idle_usd);
  put_number(w, items, "headroom_usd", from->items.headroom_usd);
  put_number(w, items, "failed_usd", from->items.failed_usd);
  put_number(w, items, "startup_usd", from->items.startup_usd);
  put(w, to, "items", items);
  put_number(w, by_bound, "compute", from->by_bound_compute + none);
  put_number(w, by_bound, "weights", from->by_bound_weights + none);
  put_number(w, by_bound, "kv_cache", from->by_bound_kv_cache + none);
  put_number(w, by_bound, "interconnect", from->by_bound_interconnect + none);
  put_number(w, by_bound, "launch", from->by_bound_launch + none);
  put_number(w, by_bound, "idle", from->by_bound_idle + none);
  put(w, to, "by_bound", by_bound);
  return to;
}

static json_t *targets(struct writer *w, const struct scorecard *card, const struct quality *quality)
{
  json_t *array = json_array();
  for (size_t i = 0; i < card->target_count; i++) {
    const struct scorecard_target *from = &card->targets[i];
    json_t *to = json_object();
    put_text(w, to, "metric", from->metric);
    put_number(w, to, "target", from->target);
    put_number(w, to, "actual", from->actual);
    put_number(w, to, "margin", from->margin_ratio);
    put(w, to, "met", from->met < 0 ? json_null() : json_boolean(from->met));
    append(w, array, to);
  }
  if (quality != NULL && !quality_write(array, quality))
    w->is_failed = true;
  return array;
}

static const char *severity_name(enum severity severity)
{
  switch (severity) {
  case SEVERITY_INFO: return "info";
  case SEVERITY_WARNING: return "warning";
  case SEVERITY_CRITICAL: return "critical";
  }
  return NULL;
}

static json_t *findings(struct writer *w, const struct scorecard *card)
{
  json_t *array = json_array();
  for (size_t i = 0; i < card->finding_count; i++) {
    const struct scorecard_finding *from = &card->findings[i];
    json_t *to = json_object(), *evidence = json_object();
    put_text(w, to, "code", from->code);
    put_text(w, to, "severity", severity_name(from->severity));
    put_text(w, to, "message", from->message);
    for (size_t k = 0; k < from->evidence_count; k++)
      put_number(w, evidence, from->evidence[k].name, from->evidence[k].value);
    put(w, to, "evidence", evidence);
    append(w, array, to);
  }
  return array;
}

static void append_texts(struct writer *w, json_t *to, const json_t *from)
{
  for (size_t i = 0; i < json_array_size(from); i++)
    append(w, to, json_incref(json_array_get(from, i)));
}

/* Which factors stand behind the figures. */
static void append_calibration(struct writer *w, json_t *to, const struct sketch_calibration *calibration)
{
  const double *factors = calibration != NULL ? calibration->calibration.factor_ratio : NULL;
  if (calibration == NULL)
    return;
  append(w, to,
         json_sprintf("calibrated by measurements (%s): operators x %.3g, launches x %.3g, sequences x %.3g, prompts x "
                      "%.3g, against the shipped constants",
                      calibration->id, factors[CALIBRATION_WORK], factors[CALIBRATION_FIXED],
                      factors[CALIBRATION_SEQUENCE], factors[CALIBRATION_PROMPT]));
}

/* Defaults filled in by core, then those of the model's config, then what is accepted or asked for and not computed. */
static json_t *assumptions(struct writer *w, const struct scorecard *card, const struct scorecard_identity *identity)
{
  const struct sketch *sketch = identity->sketch;
  json_t *array = strings(w, card->assumptions, card->assumption_count);
  append_texts(w, array, sketch->model_assumptions);
  append_texts(w, array, sketch->notes);
  append_calibration(w, array, identity->calibration);
  if (identity->hardware_note != NULL)
    append(w, array, json_string(identity->hardware_note));
  if (!card->is_simulated)
    append(w, array, json_string("not computed without a simulation (null): latency p90 and p99, success, stress"));
  return array;
}

static json_t *band(struct writer *w, const double ratio[2])
{
  json_t *array = json_array();
  append(w, array, write_number(ratio[0]));
  append(w, array, write_number(ratio[1]));
  return array;
}

/* {"p50":…, "p90":null, "p99":null} of one metric under "latency". */
static json_t *rung_latency(struct writer *w, double itl_p50_s)
{
  json_t *latency = json_object(), *itl = json_object();
  put_number(w, itl, "p50", itl_p50_s / MS);
  put_null(w, itl, "p99");
  put(w, latency, "itl_ms", itl);
  return latency;
}

static json_t *one_figure(struct writer *w, const char *key, double value)
{
  json_t *object = json_object();
  put_number(w, object, key, value);
  return object;
}

static json_t *ladder(struct writer *w, const struct scorecard *card)
{
  json_t *array = json_array();
  for (size_t i = 0; i < card->ladder_count; i++) {
    const struct scorecard_rung *rung = &card->ladder[i];
    json_t *to = json_object();
    put_text(w, to, "precision", precision_name(rung->precision));
    put_text(w, to, "support", precision_support_name(rung->support));
    put_text(w, to, "verdict", verdict_name(rung->verdict));
    put_number(w, to, "gpus", count_or_nan(rung->gpus));
    put(w, to, "memory", one_figure(w, "weights_gib", rung->weights_bytes / GIB));
    put(w, to, "throughput", one_figure(w, "output_tokens_per_s", rung->output_tok_s));
    put(w, to, "latency", rung_latency(w, rung->itl_p50_s));
    put(w, to, "cost", one_figure(w, "per_successful_request_usd", rung->per_successful_request_usd));
    append(w, array, to);
  }
  return array;
}

static json_t *sensitivity(struct writer *w, const struct scorecard_sensitivity *from)
{
  json_t *to = json_object();
  put_number(w, to, "memory_gib", from->memory_ratio);
  put_number(w, to, "memory_bandwidth", from->memory_bandwidth_ratio);
  put_number(w, to, "compute", from->compute_ratio);
  put_number(w, to, "interconnect", from->interconnect_ratio);
  return to;
}

/* p10..p90 of what will be measured, as multiples of what is predicted. */
static json_t *uncertainty(struct writer *w, const struct scorecard *card)
{
  static const char *const keys[] = {"latency.ttft_ms", "latency.itl_ms", "throughput", NULL};
  json_t *to;
  if (!card->has_latency)
    return nulls(w, keys);
  to = json_object();
  put(w, to, keys[0], band(w, card->uncertainty.ttft_ratio));
  put(w, to, keys[1], band(w, card->uncertainty.itl_ratio));
  put(w, to, keys[2], band(w, card->uncertainty.throughput_ratio));
  return to;
}

static json_t *provenance(struct writer *w, const struct scorecard *card, const struct sketch_calibration *calibration)
{
  json_t *to = json_object();
  put_text(w, to, "constants", card->constants_provenance);
  put_text(w, to, "band_class", card->uncertainty.band_class);
  put_text(w, to, "calibration", calibration != NULL ? calibration->id : NULL);
  return to;
}

static json_t *energy(struct writer *w, const struct scorecard_energy *from)
{
  json_t *to = json_object();
  put_number(w, to, "watts_per_gpu", from->watts_per_gpu);
  put_number(w, to, "joules_per_request", from->joules_per_request);
  put_number(w, to, "kwh_per_million_output_tokens", from->kwh_per_million_output_tokens);
  return to;
}

static json_t *startup(struct writer *w, const struct scorecard_startup *from)
{
  json_t *to = json_object();
  put_number(w, to, "weights_load_s", from->weights_load_s);
  put_number(w, to, "ready_s", from->ready_s);
  return to;
}

/* One case with the names that the scorecard has for the same figures. */
static json_t *missed(struct writer *w, const struct scorecard_stress *from)
{
  json_t *to;
  if (from->missed_metric == NULL)
    return json_null();
  to = json_object();
  put_text(w, to, "metric", from->missed_metric);
  put_number(w, to, "target", from->missed_target);
  put_number(w, to, "actual", from->missed_actual);
  return to;
}

static json_t *stressed(struct writer *w, const struct scorecard_stress *from, const struct sketch *sketch)
{
  json_t *to = json_object(), *latency = json_object(), *limits = json_object();
  put_text(w, to, "verdict", verdict_name(from->verdict));
  put(w, latency, "ttft_ms", one_figure(w, "p99", from->ttft_p99_s / MS));
  put(w, latency, "itl_ms", one_figure(w, "p99", from->itl_p99_s / MS));
  put(w, to, "latency", latency);
  put(w, to, "success", one_figure(w, "rate", from->success_ratio));
  put(w, to, "cost", one_figure(w, "per_successful_request_usd", from->per_successful_request_usd));
  put_text(w, limits, "first_limit", limit_name(from->first_limit));
  put(w, to, "limits", limits);
  put_number(w, to, "concurrency_limit", count_or_nan(from->concurrency_limit));
  put(w, to, "missed", missed(w, from));
  put(w, to, "way_out", from->way_out != NULL ? scorecard_change_write(from->way_out, sketch) : json_null());
  return to;
}

static json_t *stress(struct writer *w, const struct scorecard *card, const struct sketch *sketch)
{
  json_t *to = json_object();
  for (int i = 0; i < STRESS_CASES; i++)
    put(w, to, stress_case_name((enum stress_case)i),
        card->stress[i].is_computed ? stressed(w, &card->stress[i], sketch) : json_null());
  return to;
}

/* Groups from success to alternatives that wait for the simulation, in the contract's order around what exists. */
static void put_rest(struct writer *w, json_t *to, const struct scorecard *card,
                     const struct scorecard_identity *identity)
{
  put(w, to, "energy", energy(w, &card->energy));
  put(w, to, "startup", startup(w, &card->startup));
  put(w, to, "stress", stress(w, card, identity->sketch));
  put(w, to, "targets", targets(w, card, identity->quality));
  put(w, to, "findings", findings(w, card));
  put(w, to, "advice", scorecard_advice(card, identity->sketch));
  put(w, to, "ways_out", scorecard_ways_out(card, identity->sketch));
  put(w, to, "precision_ladder", ladder(w, card));
  put(w, to, "sensitivity", sensitivity(w, &card->sensitivity));
  put(w, to, "alternatives", scorecard_alternatives(card));
  put(w, to, "uncertainty", uncertainty(w, card));
  put(w, to, "provenance", provenance(w, card, identity->calibration));
  if (identity->derate != NULL)
    put(w, to, "live_hardware", derate_write(identity->derate));
  put(w, to, "assumptions", assumptions(w, card, identity));
}

json_t *scorecard_write(const struct scorecard *card, const struct scorecard_identity *identity)
{
  struct writer w = {false};
  json_t *to = json_object();
  put_identity(&w, to, identity);
  put_text(&w, to, "verdict", verdict_name(card->verdict));
  put_text(&w, to, "no_fit_reason", no_fit_reason_name(card->no_fit_reason));
  put_text(&w, to, "no_fit_detail", card->no_fit_detail);
  put(&w, to, "configuration", card->has_configuration ? configuration(&w, &card->configuration) : json_null());
  put(&w, to, "memory", memory(&w, &card->memory));
  put(&w, to, "phases", card->has_latency ? phases(&w, card) : json_null());
  put(&w, to, "latency", card->has_latency ? latency(&w, &card->latency) : json_null());
  put(&w, to, "throughput", card->has_latency ? throughput(&w, &card->throughput) : json_null());
  put(&w, to, "limits", card->has_latency ? limits(&w, &card->limits) : json_null());
  put(&w, to, "success", success(&w, &card->success));
  put_text(&w, to, "quality", quality_verdict_name(identity->quality));
  put(&w, to, "cost", cost(&w, card));
  put_rest(&w, to, card, identity);
  if (!w.is_failed)
    return to;
  json_decref(to);
  return NULL;
}
