/* From the state of GPUs to the hardware that an evaluation should reckon with. */
#include "api/derate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/put.h"
#include "api/write.h"

#define MIB_PER_GIB 1024.0

static double least(double a, double b)
{
  return isnan(a) || b < a ? b : a;
}

static void add_gpu(struct derate *out, const struct live_gpu *gpu, double rated_mhz)
{
  const double clock = live_clock_fraction(gpu, rated_mhz);
  out->gpu_count++;
  out->throttled_count += gpu->throttled == LIVE_YES;
  if (!isnan(clock)) {
    out->mean_ratio =
        out->busy_count == 0 ? clock : (out->mean_ratio * out->busy_count + clock) / (out->busy_count + 1);
    out->slowest_ratio = least(out->slowest_ratio, clock);
    out->busy_count++;
  }
  if (gpu->now.is_partition)
    return;
  if (!isnan(gpu->now.quantities[GPU_power_limit_w]))
    out->power_limit_w = least(out->power_limit_w, gpu->now.quantities[GPU_power_limit_w]);
  if (!isnan(gpu->now.quantities[GPU_memory_total_gib]))
    out->memory_gib = least(out->memory_gib, gpu->now.quantities[GPU_memory_total_gib]);
}

static bool is_of(const struct live_node *node, const char *profile, const char *workload)
{
  return node->gpu_count > 0 && strcmp(node->profile, profile) == 0 &&
         (workload == NULL || strcmp(node->workload, workload) == 0);
}

static bool has_any(const struct live_nodes *nodes, const char *profile, const char *workload)
{
  for (size_t i = 0; i < nodes->count; i++)
    if (is_of(&nodes->rows[i], profile, workload))
      return true;
  return false;
}

void derate_of(struct derate *out, const struct live_nodes *nodes, const char *profile, const char *workload,
               double rated_mhz)
{
  const double unknown = (double)NAN;
  *out =
      (struct derate){.slowest_ratio = unknown, .mean_ratio = unknown, .power_limit_w = unknown, .memory_gib = unknown};
  if (workload != NULL && !has_any(nodes, profile, workload))
    workload = NULL;
  for (size_t i = 0; i < nodes->count; i++) {
    const unsigned before = out->gpu_count;
    if (!is_of(&nodes->rows[i], profile, workload))
      continue;
    for (size_t g = 0; g < nodes->rows[i].gpu_count; g++)
      if (nodes->rows[i].gpus[g].is_fresh)
        add_gpu(out, &nodes->rows[i].gpus[g], rated_mhz);
    out->node_count += out->gpu_count > before;
  }
}

bool derate_is_known(const struct derate *derate)
{
  return !isnan(derate->slowest_ratio) || !isnan(derate->power_limit_w) || !isnan(derate->memory_gib);
}

/* A driver's total that is less than the profile's shrinks what engines can use in the same ratio. */
static void apply_memory(struct hardware *hardware, double memory_gib)
{
  const double profile_mib =
      isnan(hardware->memory_usable_mib) ? hardware->memory_gib * MIB_PER_GIB : hardware->memory_usable_mib;
  const double ratio = memory_gib * MIB_PER_GIB / profile_mib;
  if (!(ratio < 1))
    return;
  hardware->memory_gib *= ratio;
  hardware->memory_usable_mib *= ratio;
  hardware->memory_engine_mib *= ratio;
}

void derate_apply(struct hardware *hardware, const struct derate *derate)
{
  if (derate->slowest_ratio < 1)
    hardware->sustained_clock_fraction = fmax(derate->slowest_ratio, 0.05);
  if (derate->power_limit_w < hardware->tdp_w && !(hardware->power_cap_w <= derate->power_limit_w))
    hardware->power_cap_w = derate->power_limit_w;
  if (!isnan(derate->memory_gib))
    apply_memory(hardware, derate->memory_gib);
}

json_t *derate_write(const struct derate *derate)
{
  json_t *object = json_object();
  put_member(&object, "nodes", json_integer(derate->node_count));
  put_member(&object, "gpus", json_integer(derate->gpu_count));
  put_member(&object, "gpus_busy", json_integer(derate->busy_count));
  put_member(&object, "gpus_throttled", json_integer(derate->throttled_count));
  put_member(&object, "slowest_clock_fraction", write_number(derate->slowest_ratio));
  put_member(&object, "mean_clock_fraction", write_number(derate->mean_ratio));
  put_member(&object, "power_limit_w", write_number(derate->power_limit_w));
  put_member(&object, "memory_gib", write_number(derate->memory_gib));
  return object;
}

static double number(const json_t *object, const char *name)
{
  const json_t *value = json_object_get(object, name);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

void derate_read(struct derate *out, const json_t *object)
{
  *out = (struct derate){.slowest_ratio = number(object, "slowest_clock_fraction"),
                         .mean_ratio = number(object, "mean_clock_fraction"),
                         .power_limit_w = number(object, "power_limit_w"),
                         .memory_gib = number(object, "memory_gib")};
}

void derate_describe(char to[DERATE_SENTENCE_SIZE], const struct derate *derate, const char *profile)
{
  int used;
  if (derate->gpu_count == 0) {
    (void)snprintf(to, DERATE_SENTENCE_SIZE, "live hardware: no fresh node of %s: figures are for the datasheet",
                   profile);
    return;
  }
  used = snprintf(to, DERATE_SENTENCE_SIZE, "live hardware: %u GPUs of %s on %u nodes, %u throttled", derate->gpu_count,
                  profile, derate->node_count, derate->throttled_count);
  if (derate->busy_count > 0)
    used += snprintf(to + used, DERATE_SENTENCE_SIZE - (size_t)used,
                     "; the slowest of %u busy ones holds %.3g of its clock (mean %.3g), and the figures are for it",
                     derate->busy_count, derate->slowest_ratio, derate->mean_ratio);
  else
    used +=
        snprintf(to + used, DERATE_SENTENCE_SIZE - (size_t)used, "; none was busy, so the clock is the datasheet's");
  if (!isnan(derate->power_limit_w))
    (void)snprintf(to + used, DERATE_SENTENCE_SIZE - (size_t)used, "; power limit %g W", derate->power_limit_w);
}
