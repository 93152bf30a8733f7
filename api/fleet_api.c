/* GET /v1/fleet: per profile what the devices do, per workload what was observed beside what was predicted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/concurrency.h"
#include "api/derate.h"
#include "api/drift.h"
#include "api/figure.h"
#include "api/fleet.h"
#include "api/handlers.h"
#include "api/put.h"
#include "api/write.h"

#define BUSY_LOOKS 0.8 /* busy time from which a device looks used up … */
#define BUSY_IS 0.3    /* … while neither its tensor pipe nor its memory is beyond this */
#define CLOCK_NOTICED 0.97
#define AT_CAP 0.97

/* ---- One profile ---- */

struct totals {
  struct derate derate;
  unsigned thermal, power, other, reasons_unknown; /* of throttled devices; by state unknown */
  struct {
    double sum;
    unsigned count;
  } utilisation, tensor, dram, free_ratio, power_ratio;
  double free_least, power_w;
  unsigned at_cap, misleading;
};

static void add_mean(double *sum, unsigned *count, double value)
{
  if (isnan(value))
    return;
  *sum += value;
  ++*count;
}
#define ADD_MEAN(mean, value) add_mean(&(mean).sum, &(mean).count, value)
#define MEAN(mean) ((mean).count > 0 ? (mean).sum / (mean).count : (double)NAN)

static void add_throttling(struct totals *totals, const struct live_gpu *gpu)
{
  if (gpu->throttled == LIVE_UNKNOWN)
    totals->reasons_unknown++;
  if (gpu->throttled != LIVE_YES)
    return;
  if ((gpu->throttle_bits & (THROTTLE_THERMAL | THROTTLE_HW_SLOWDOWN)) != 0)
    totals->thermal++;
  if ((gpu->throttle_bits & THROTTLE_POWER) != 0)
    totals->power++;
  if ((gpu->throttle_bits & (THROTTLE_THERMAL | THROTTLE_HW_SLOWDOWN | THROTTLE_POWER)) == 0)
    totals->other++;
}

static void add_gpu(struct totals *totals, const struct live_gpu *gpu)
{
  struct roll window;
  double total, used, utilisation, tensor, dram, power_ratio;
  live_window(&window, gpu);
  total = roll_value(&window, GPU_memory_total_gib);
  used = roll_max(&window, GPU_memory_used_gib);
  utilisation = roll_value(&window, GPU_utilisation_ratio);
  tensor = roll_value(&window, GPU_tensor_active_ratio);
  dram = roll_value(&window, GPU_dram_active_ratio);
  power_ratio = roll_value(&window, GPU_power_w) / roll_value(&window, GPU_power_limit_w);
  add_throttling(totals, gpu);
  ADD_MEAN(totals->utilisation, utilisation);
  ADD_MEAN(totals->tensor, tensor);
  ADD_MEAN(totals->dram, dram);
  ADD_MEAN(totals->free_ratio, 1 - used / total);
  if (!isnan(used / total) && !(totals->free_least <= 1 - used / total))
    totals->free_least = 1 - used / total;
  totals->misleading += utilisation >= BUSY_LOOKS && tensor < BUSY_IS && dram < BUSY_IS;
  if (gpu->now.is_partition) /* its power is the card's */
    return;
  ADD_MEAN(totals->power_ratio, power_ratio);
  totals->at_cap += power_ratio >= AT_CAP;
  if (!isnan(gpu->now.quantities[GPU_power_w]))
    totals->power_w =
        isnan(totals->power_w) ? gpu->now.quantities[GPU_power_w] : totals->power_w + gpu->now.quantities[GPU_power_w];
}

static void finding(json_t **findings, const char *code, const char *message, json_t *evidence)
{
  json_t *object = json_object();
  put_member(&object, "code", json_string(code));
  put_member(&object, "severity", json_string("warning"));
  put_member(&object, "message", json_string(message));
  put_member(&object, "evidence", evidence);
  put_element(findings, object);
}

static json_t *findings_write(const struct totals *totals)
{
  json_t *findings = json_array();
  if (totals->thermal > 0)
    finding(&findings, "thermally_throttled", "devices are held down by heat: airflow, inlet temperature, fans",
            json_pack("{s:i, s:i, s:o}", "gpus", (int)totals->thermal, "gpus_seen", (int)totals->derate.gpu_count,
                      "slowest_clock_fraction", write_number(totals->derate.slowest_ratio)));
  if (totals->power > 0 || (totals->at_cap > 0 && totals->derate.slowest_ratio < CLOCK_NOTICED))
    finding(&findings, "power_capped", "devices draw all they may and give up clock for it",
            json_pack("{s:i, s:i, s:o}", "gpus", (int)(totals->power > totals->at_cap ? totals->power : totals->at_cap),
                      "gpus_seen", (int)totals->derate.gpu_count, "power_limit_w",
                      write_number(totals->derate.power_limit_w)));
  if (totals->misleading > 0)
    finding(
        &findings, "utilisation_misleads",
        "devices look busy by utilisation while their tensor pipes and memory are mostly idle: launch overhead, small "
        "batches or waiting for peers",
        json_pack("{s:i, s:o, s:o, s:o}", "gpus", (int)totals->misleading, "utilisation_ratio",
                  write_number(MEAN(totals->utilisation)), "tensor_active_ratio", write_number(MEAN(totals->tensor)),
                  "dram_active_ratio", write_number(MEAN(totals->dram))));
  return findings;
}

static json_t *profile_write_totals(const char *profile, const struct totals *totals, unsigned seen)
{
  const struct derate *derate = &totals->derate;
  json_t *object = json_object();
  put_member(&object, "profile", json_string(profile));
  put_member(&object, "nodes", json_integer(derate->node_count));
  put_member(&object, "gpus_seen", json_integer(seen));
  put_member(&object, "gpus_fresh", json_integer(derate->gpu_count));
  put_member(&object, "gpus_busy", json_integer(derate->busy_count));
  put_member(&object, "throttled",
             json_pack("{s:i, s:i, s:i, s:i, s:i}", "gpus", (int)derate->throttled_count, "thermal",
                       (int)totals->thermal, "power", (int)totals->power, "other", (int)totals->other, "unknown",
                       (int)totals->reasons_unknown));
  put_member(&object, "sustained_clock_fraction",
             json_pack("{s:o, s:o}", "slowest", write_number(derate->slowest_ratio), "mean",
                       write_number(derate->mean_ratio)));
  put_member(&object, "memory_headroom",
             json_pack("{s:o, s:o}", "least", write_number(totals->free_least), "mean",
                       write_number(MEAN(totals->free_ratio))));
  put_member(&object, "utilisation_ratio", write_number(MEAN(totals->utilisation)));
  put_member(&object, "tensor_active_ratio", write_number(MEAN(totals->tensor)));
  put_member(&object, "dram_active_ratio", write_number(MEAN(totals->dram)));
  put_member(&object, "power_w", write_number(totals->power_w));
  put_member(&object, "power_of_limit_ratio", write_number(MEAN(totals->power_ratio)));
  put_member(&object, "power_limit_w", write_number(derate->power_limit_w));
  put_member(&object, "findings", findings_write(totals));
  return object;
}

static json_t *profile_totals(const struct live_nodes *nodes, const struct catalogue_snapshot *snapshot,
                              const char *profile)
{
  const struct catalogue_profile *row = catalogue_find_profile(snapshot, profile);
  struct totals totals = {.free_least = (double)NAN, .power_w = (double)NAN};
  unsigned seen = 0;
  derate_of(&totals.derate, nodes, profile, NULL, row != NULL ? row->hardware.boost_clock_mhz : (double)NAN);
  for (size_t i = 0; i < nodes->count; i++) {
    if (strcmp(nodes->rows[i].profile, profile) != 0)
      continue;
    seen += (unsigned)nodes->rows[i].gpu_count;
    for (size_t g = 0; g < nodes->rows[i].gpu_count; g++)
      if (nodes->rows[i].gpus[g].is_fresh)
        add_gpu(&totals, &nodes->rows[i].gpus[g]);
  }
  return profile_write_totals(profile, &totals, seen);
}

static bool is_first_of_profile(const struct live_nodes *nodes, size_t at)
{
  for (size_t i = 0; i < at; i++)
    if (strcmp(nodes->rows[i].profile, nodes->rows[at].profile) == 0)
      return false;
  return true;
}

static json_t *profiles_write(const struct live_nodes *nodes, const struct catalogue_snapshot *snapshot)
{
  json_t *array = json_array();
  for (size_t i = 0; i < nodes->count; i++)
    if (is_first_of_profile(nodes, i))
      put_element(&array, profile_totals(nodes, snapshot, nodes->rows[i].profile));
  return array;
}

/* ---- One workload ---- */

static json_t *observed_write(const struct fleet_workload *workload)
{
  json_t *object = json_object();
  put_member(&object, "requests_per_s", write_number(workload->requests_per_s));
  put_member(&object, "output_tokens_per_s", write_number(workload->output_tokens_per_s));
  put_member(&object, "requests_running", write_number(workload->requests_running));
  put_member(&object, "requests_waiting", write_number(workload->requests_waiting));
  put_member(&object, "kv_cache_usage_ratio", write_number(workload->kv_cache_usage_ratio));
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++)
    put_member(&object, engine_histogram_names[h], live_histogram_write(&workload->window.histograms[h]));
  return object;
}

static json_t *share(const json_t *card, const char *group, const char *name)
{
  json_t *value = json_object_get(json_object_get(card, group), name);
  return value != NULL ? json_incref(value) : json_null();
}

static json_t *predicted_write(const json_t *card)
{
  json_t *object;
  if (card == NULL)
    return json_null();
  object = json_object();
  put_member(&object, "scorecard", json_incref(json_object_get(card, "id")));
  put_member(&object, "requests_per_s", share(card, "throughput", "requests_per_s"));
  put_member(&object, "output_tokens_per_s", share(card, "throughput", "output_tokens_per_s"));
  put_member(&object, "ttft_ms", share(card, "latency", "ttft_ms"));
  put_member(&object, "itl_ms", share(card, "latency", "itl_ms"));
  put_member(&object, "e2e_ms", share(card, "latency", "e2e_ms"));
  return object;
}

static enum err workload_write(json_t **out, struct api_call *call, const struct live_nodes *nodes, const char *name,
                               struct error *e)
{
  struct fleet_workload workload;
  struct drift drift;
  json_t *card = NULL, *object;
  enum err code;
  (void)fleet_workload_of(&workload, nodes, name);
  code = fleet_official_card(&card, call, name, workload.profile, e);
  if (code == ERR_OK)
    code = drift_find(&drift, call, nodes, &workload, card, e);
  if (code != ERR_OK) {
    json_decref(card);
    return code;
  }
  object = json_object();
  put_member(&object, "workload", json_string(name));
  put_member(&object, "profile", json_string(workload.profile));
  put_member(&object, "nodes", json_integer(workload.node_count));
  put_member(&object, "nodes_fresh", json_integer(workload.fresh_count));
  put_member(&object, "observed", workload.fresh_count > 0 ? observed_write(&workload) : json_null());
  put_member(&object, "predicted", predicted_write(card));
  put_member(&object, "drift", json_string(drift_state_name(drift.state)));
  put_member(&object, "recommended_concurrency_limit", concurrency_last_write(live_of(call->api), name));
  json_decref(card);
  *out = object;
  return ERR_OK;
}

static enum err workloads_write(json_t **out, struct api_call *call, const struct live_nodes *nodes, struct error *e)
{
  const char **names = NULL;
  size_t count = 0;
  enum err code = fleet_workload_names(&names, &count, nodes, e);
  *out = json_array();
  for (size_t i = 0; i < count && code == ERR_OK; i++) {
    json_t *one = NULL;
    code = workload_write(&one, call, nodes, names[i], e);
    if (code == ERR_OK)
      put_element(out, one);
  }
  free(names);
  return code;
}

enum err fleet_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const struct catalogue_snapshot *snapshot = NULL;
  struct live_nodes nodes = {.rows = NULL};
  json_t *answer = NULL, *workloads = NULL;
  enum err code = live_sync(live_of(call->api), call_store(call), e);
  if (code == ERR_OK)
    code = live_nodes_copy(&nodes, live_of(call->api), call->now_ms, e);
  if (code == ERR_OK)
    code = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (code == ERR_OK)
    code = workloads_write(&workloads, call, &nodes, e);
  if (code == ERR_OK) {
    answer = json_object();
    put_member(&answer, "time", live_time(call->now_ms));
    put_member(&answer, "window_s", json_integer(LIVE_WINDOW_MINUTES * 60));
    put_member(&answer, "profiles", profiles_write(&nodes, snapshot));
    put_member(&answer, "workloads", workloads);
    workloads = NULL;
    code = respond_json_steal(out, 200, answer, e);
  }
  json_decref(workloads);
  if (snapshot != NULL)
    catalogue_release(call_catalogue(call), snapshot);
  live_nodes_fini(&nodes);
  return code;
}
