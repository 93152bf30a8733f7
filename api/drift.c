/* The last day of a workload's engines as series, their shifts, and a ranking of what changed at that time. */
#include "api/drift.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/shift.h"

#define SPAN_MS (INT64_C(24) * 3600 * 1000)
#define STEPS_MAX 320                    /* of LIVE_ENGINE_STEP_S in the span, and some */
#define AROUND_MS (INT64_C(3600) * 1000) /* of GPUs, before and after an onset */
#define GPU_ROWS_MAX 20000
#define SUSPECT_LEAST 0.03 /* changes below 3 % are no suspects */

const char *drift_state_name(enum drift_state state)
{
  static const char *const names[] = {"no_data", "steady", "shifted", "off_prediction"};
  return names[state];
}

static const struct {
  const char *name, *band;
  enum engine_histogram histogram;
} metrics[DRIFT_METRICS] = {{"ttft_ms", "latency.ttft_ms", HISTOGRAM_ttft_ms},
                            {"itl_ms", "latency.itl_ms", HISTOGRAM_itl_ms},
                            {"e2e_ms", NULL, HISTOGRAM_e2e_ms}};

/* ---- Series ---- */

/* Steps of all nodes of the workload, added up by time. */
struct history {
  struct live_engine_step *steps;
  size_t count;
};

static struct live_engine_step *step_at(struct history *history, int64_t time_ms)
{
  size_t at = history->count;
  while (at > 0 && history->steps[at - 1].time_ms > time_ms)
    at--;
  if (at > 0 && history->steps[at - 1].time_ms == time_ms)
    return &history->steps[at - 1];
  if (history->count == STEPS_MAX)
    return NULL;
  memmove(&history->steps[at + 1], &history->steps[at], (history->count - at) * sizeof *history->steps);
  engine_step_init(&history->steps[at], time_ms);
  history->count++;
  return &history->steps[at];
}

static enum err add_node(struct history *history, struct store *store, const char *node, int64_t now_ms,
                         struct error *e)
{
  const struct store_sample_filter filter = {node, NULL, LIVE_ENGINE_STEP_S, now_ms - SPAN_MS, now_ms, STEPS_MAX};
  struct store_engine_samples list;
  enum err code = store_engine_sample_list(store, &list, &filter, e);
  for (size_t i = 0; code == ERR_OK && i < list.count; i++) {
    struct live_engine_step *to = step_at(history, list.rows[i].time_ms), step = {.time_ms = list.rows[i].time_ms};
    json_t *document = json_loads(list.rows[i].document, 0, NULL);
    engine_step_read(&step, document);
    json_decref(document);
    if (to != NULL)
      engine_step_merge(to, &step);
  }
  if (code == ERR_OK)
    store_engine_samples_fini(&list);
  return code;
}

static enum err load_history(struct history *history, struct api_call *call, const struct live_nodes *nodes,
                             const char *workload, struct error *e)
{
  enum err code = ERR_OK;
  history->count = 0;
  history->steps = calloc(STEPS_MAX + 1, sizeof *history->steps);
  if (history->steps == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to look for drift");
  for (size_t i = 0; i < nodes->count && code == ERR_OK; i++)
    if (strcmp(nodes->rows[i].workload, workload) == 0)
      code = add_node(history, call_store(call), nodes->rows[i].name, call->now_ms, e);
  return code;
}

/* ---- Prediction ---- */

static double number(const json_t *object, const char *name)
{
  const json_t *value = json_object_get(object, name);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Means where the scorecard has them, else the median, which skewed latencies lie above. */
static double predicted_of(const json_t *card, const char *metric)
{
  const json_t *latency = json_object_get(card, "latency");
  const double mean = strcmp(metric, "itl_ms") == 0 ? number(json_object_get(latency, "tpot_ms"), "mean")
                                                    : number(json_object_get(latency, metric), "mean");
  return isnan(mean) ? number(json_object_get(latency, metric), "p50") : mean;
}

static void read_band(double band[2], const json_t *card, const char *name)
{
  const json_t *pair = name != NULL ? json_object_get(json_object_get(card, "uncertainty"), name) : NULL;
  for (size_t i = 0; i < 2; i++) {
    const json_t *value = json_array_get(pair, i);
    band[i] = json_is_number(value) ? json_number_value(value) : (double)NAN;
  }
}

/* ---- One metric ---- */

static void judge_metric(struct drift_metric *out, const struct history *history, size_t m, const json_t *card)
{
  double values[STEPS_MAX];
  int64_t times[STEPS_MAX];
  struct shift shift;
  *out = (struct drift_metric){.name = metrics[m].name, .predicted = predicted_of(card, metrics[m].name)};
  read_band(out->band, card, metrics[m].band);
  out->observed = (double)NAN;
  for (size_t i = 0; i < history->count; i++) {
    const double mean = buckets_mean(&history->steps[i].histograms[metrics[m].histogram]);
    if (!(mean > 0))
      continue;
    times[out->point_count] = history->steps[i].time_ms;
    values[out->point_count++] = mean;
  }
  if (out->point_count == 0)
    return;
  out->observed = values[out->point_count - 1];
  shift = shift_find(values, out->point_count);
  if (!shift.is_found)
    return;
  out->is_shifted = true;
  out->onset_ms = times[shift.onset];
  out->before = shift.before;
  out->after = shift.after;
  out->observed = shift.after;
}

static bool is_off(const struct drift_metric *metric)
{
  const double ratio = metric->observed / metric->predicted;
  return ratio < metric->band[0] || ratio > metric->band[1];
}

static enum drift_state state_of(const struct drift *drift, const struct fleet_workload *workload)
{
  bool has_points = false, is_shifted = false, is_out = false;
  for (size_t m = 0; m < DRIFT_METRICS; m++) {
    has_points = has_points || drift->metrics[m].point_count >= 2 * SHIFT_SIDE_MIN;
    is_shifted = is_shifted || drift->metrics[m].is_shifted;
    is_out = is_out || is_off(&drift->metrics[m]);
  }
  if (workload->fresh_count == 0 || !has_points)
    return DRIFT_NO_DATA;
  return is_shifted ? DRIFT_SHIFTED : is_out ? DRIFT_OFF : DRIFT_STEADY;
}

/* ---- Suspects ---- */

static void suspect(struct drift *drift, const char *code, const char *message, double before, double after,
                    double weight)
{
  size_t at = drift->suspect_count;
  if (!(weight >= SUSPECT_LEAST) || drift->suspect_count == DRIFT_SUSPECTS_MAX)
    return;
  for (; at > 0 && drift->suspects[at - 1].weight < weight; at--)
    drift->suspects[at] = drift->suspects[at - 1];
  drift->suspects[at] = (struct drift_suspect){code, message, before, after, weight};
  drift->suspect_count++;
}

static double change(double before, double after)
{
  return before > 0 && after > 0 ? fabs(log(after / before)) : 0;
}

/* Engines before and after. */
static void suspect_engines(struct drift *drift, const struct history *history)
{
  struct live_engine_step before, after;
  engine_step_init(&before, 0);
  engine_step_init(&after, 0);
  for (size_t i = 0; i < history->count; i++)
    engine_step_merge(history->steps[i].time_ms < drift->onset_ms ? &before : &after, &history->steps[i]);
  const double rates[2] = {fleet_requests(&before) / before.covered_s, fleet_requests(&after) / after.covered_s};
  const double inputs[2] = {engine_step_value(&before, ENGINE_input_tokens_total) / fleet_requests(&before),
                            engine_step_value(&after, ENGINE_input_tokens_total) / fleet_requests(&after)};
  const double outputs[2] = {engine_step_value(&before, ENGINE_output_tokens_total) / fleet_requests(&before),
                             engine_step_value(&after, ENGINE_output_tokens_total) / fleet_requests(&after)};
  const double caches[2] = {engine_step_value(&before, ENGINE_kv_cache_usage_ratio),
                            engine_step_value(&after, ENGINE_kv_cache_usage_ratio)};
  suspect(drift, "traffic_rate", "requests a second changed", rates[0], rates[1], change(rates[0], rates[1]));
  suspect(drift, "input_tokens", "prompts changed in length", inputs[0], inputs[1], change(inputs[0], inputs[1]));
  suspect(drift, "output_tokens", "answers changed in length", outputs[0], outputs[1], change(outputs[0], outputs[1]));
  suspect(drift, "kv_cache_usage", "the KV cache is fuller", caches[0], caches[1],
          caches[1] > caches[0] ? change(caches[0], caches[1]) : 0);
}

/* All GPUs behind the workload in the hour before and the hour after. */
struct around {
  struct roll before, after;
};

static enum err add_gpus(struct around *around, struct store *store, const char *node, int64_t onset_ms,
                         struct error *e)
{
  const struct store_sample_filter filter = {
      node, NULL, LIVE_GPU_STEP_S, onset_ms - AROUND_MS, onset_ms + AROUND_MS, GPU_ROWS_MAX};
  struct store_gpu_samples list;
  enum err code = store_gpu_sample_list(store, &list, &filter, e);
  for (size_t i = 0; code == ERR_OK && i < list.count; i++) {
    struct roll roll = {.time_ms = list.rows[i].time_ms};
    if (roll_decode(&roll, list.rows[i].figures, list.rows[i].figures_bytes))
      roll_merge(roll.time_ms < onset_ms ? &around->before : &around->after, &roll);
  }
  if (code == ERR_OK)
    store_gpu_samples_fini(&list);
  return code;
}

/* Share of scrapes in which something held the clock down. */
static double held_share(const struct roll *roll)
{
  const struct roll_figure *reasons = &roll->figures[GPU_throttle_reasons];
  return reasons->count > 0 ? reasons->sum / reasons->count : (double)NAN;
}

static void suspect_reasons(struct drift *drift, const struct around *around)
{
  const double before = held_share(&around->before), after = held_share(&around->after);
  const unsigned bits = (unsigned)fmax(0, around->after.figures[GPU_throttle_reasons].max);
  const double more = isnan(before) ? after : after - before;
  if ((bits & (THROTTLE_THERMAL | THROTTLE_HW_SLOWDOWN)) != 0)
    suspect(drift, "thermal_throttling", "clocks are held down by heat", before, after, more);
  else if ((bits & THROTTLE_POWER) != 0)
    suspect(drift, "power_throttling", "clocks are held down by power", before, after, more);
}

static void suspect_clock(struct drift *drift, const struct around *around, enum gpu_quantity quantity,
                          const char *code, const char *message)
{
  const double before = roll_value(&around->before, quantity), after = roll_value(&around->after, quantity);
  suspect(drift, code, message, before, after, after < before ? change(before, after) : 0);
}

static enum err suspect_gpus(struct drift *drift, struct api_call *call, const struct live_nodes *nodes,
                             const struct fleet_workload *workload, struct error *e)
{
  struct around around;
  enum err code = ERR_OK;
  roll_init(&around.before, 0);
  roll_init(&around.after, 0);
  for (size_t i = 0; i < nodes->count && code == ERR_OK; i++) {
    const struct live_node *node = &nodes->rows[i];
    if (node->gpu_count == 0 || strcmp(node->profile, workload->profile) != 0)
      continue;
    code = add_gpus(&around, call_store(call), node->name, drift->onset_ms, e);
    for (size_t g = 0; g < node->gpu_count; g++)
      if (llabs(node->gpus[g].driver_changed_at_ms - drift->onset_ms) < AROUND_MS)
        suspect(drift, "driver_changed", "the driver was changed", (double)NAN, (double)NAN, 0.5);
  }
  suspect_reasons(drift, &around);
  suspect_clock(drift, &around, GPU_busy_sm_clock_mhz, "sm_clock", "the SM clock under load fell");
  suspect_clock(drift, &around, GPU_memory_clock_mhz, "memory_clock", "the memory clock fell");
  suspect_clock(drift, &around, GPU_power_limit_w, "power_limit", "the power limit was lowered");
  suspect_clock(drift, &around, GPU_pcie_link_width, "link_width", "a PCIe link lost lanes");
  return code;
}

/* ---- The whole ---- */

enum err drift_find(struct drift *out, struct api_call *call, const struct live_nodes *nodes,
                    const struct fleet_workload *workload, const json_t *card, struct error *e)
{
  struct history history = {.count = 0};
  enum err code = load_history(&history, call, nodes, workload->name, e);
  *out = (struct drift){.state = DRIFT_NO_DATA};
  for (size_t m = 0; m < DRIFT_METRICS; m++) {
    struct drift_metric *metric = &out->metrics[m];
    if (code != ERR_OK)
      break;
    judge_metric(metric, &history, m, card);
    if (metric->is_shifted && (out->onset_ms == 0 || metric->onset_ms < out->onset_ms))
      out->onset_ms = metric->onset_ms;
  }
  if (code == ERR_OK)
    out->state = state_of(out, workload);
  if (code == ERR_OK && out->state == DRIFT_SHIFTED) {
    suspect_engines(out, &history);
    code = suspect_gpus(out, call, nodes, workload, e);
  }
  free(history.steps);
  return code;
}
