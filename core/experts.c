/* Grouped products of routed experts: which table row applies, and its formula. */
#include "core/experts.h"

#include "core/units.h"

#include <math.h>
#include <string.h>

enum experts_device {
  DEVICE_A100,
  DEVICE_H100,
  DEVICE_H200,
  DEVICE_B200,
  DEVICE_B300,
  DEVICE_GB200,
  DEVICE_GB300,
  DEVICE_L40S,
  DEVICE_RTX_PRO_6000,
  DEVICE_B60,
  DEVICE_COUNT
};
enum experts_path {
  PATH_BF16,
  PATH_FP8,
  PATH_FP8_BLOCK,
  PATH_NVFP4,
  PATH_MXFP4_WEIGHT_ONLY,
  PATH_INT4_WEIGHT_ONLY,
  PATH_COUNT
};

struct experts_row {
  double t0_us, compute_efficiency, memory_efficiency, tile, p, per_expert_us, activation_factor;
};
static const struct experts_row table[DEVICE_COUNT][PATH_COUNT] = {
#define EXPERTS(device, path, t0, ec, em, tile, p, tau, act)                                                           \
  [DEVICE_##device][PATH_##path] = {t0, ec, em, tile, p, tau, act},
#include "core/timing.def"
};

/* The A100 was measured with skewed routing alone, where with expert parallelism the device with most work takes several
   times the mean, and its fit is 24 % off in the median. Ada runs the kernels of Ampere, so Ampere takes the L40S'. */
static enum experts_device device_of(const struct hardware *hardware)
{
  static const struct {
    const char *name;
    enum experts_device device;
  } own[] = {{"h100_sxm", DEVICE_H100}, {"h200_sxm", DEVICE_H200},
             {"b200_sxm", DEVICE_B200}, {"b300_sxm", DEVICE_B300},
             {"gb200", DEVICE_GB200},   {"gb300", DEVICE_GB300},
             {"l40s", DEVICE_L40S},     {"rtx_pro_6000", DEVICE_RTX_PRO_6000},
             {"b60", DEVICE_B60}};
  static const enum experts_device by_family[HARDWARE_FAMILY_COUNT] = {
      [HARDWARE_POOLED] = DEVICE_L40S,
      [HARDWARE_VOLTA] = DEVICE_L40S,
      [HARDWARE_AMPERE_DC] = DEVICE_L40S,
      [HARDWARE_AMPERE_RTX] = DEVICE_L40S,
      [HARDWARE_ADA] = DEVICE_L40S,
      [HARDWARE_ADA_CONSUMER] = DEVICE_L40S,
      [HARDWARE_HOPPER] = DEVICE_H100,
      [HARDWARE_BLACKWELL_DC] = DEVICE_B200,
      [HARDWARE_BLACKWELL_ULTRA_DC] = DEVICE_B300,
      [HARDWARE_BLACKWELL_RTX] = DEVICE_RTX_PRO_6000,
      [HARDWARE_CDNA] = DEVICE_H200,
  };
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
    if (strcmp(own[i].name, hardware->measured_as) == 0)
      return own[i].device;
  return by_family[hardware->family];
}

/* Kernels by what is stored and what the device computes natively. fp4 experts of either scaling run on fp4 units where
   they were measured, else unpacked to 16 bit; without fp8 units fp8 weights are unpacked too (STEPMODEL §1.6-1.7). */
static enum experts_path path_of(enum precision weights, const struct hardware *hardware, enum experts_device device)
{
  const bool has_fp4_row = table[device][PATH_NVFP4].compute_efficiency > 0;
  switch (weights) {
  case PRECISION_FP8: return hardware_peak_flops(hardware, PRECISION_FP8) > 0 ? PATH_FP8_BLOCK : PATH_BF16;
  case PRECISION_INT8: return PATH_FP8;
  case PRECISION_NVFP4:
  case PRECISION_MXFP4: return has_fp4_row ? PATH_NVFP4 : PATH_MXFP4_WEIGHT_ONLY;
  case PRECISION_INT4:
  case PRECISION_NF4: return PATH_INT4_WEIGHT_ONLY;
  case PRECISION_NONE:
  case PRECISION_FP32:
  case PRECISION_BF16:
  case PRECISION_FP16:
  case PRECISION_COUNT: break;
  }
  return PATH_BF16;
}

/* A device without the row takes the L40S', then the H100's (STEPMODEL §1.7). */
static const struct experts_row *row_of(enum experts_device device, enum experts_path path)
{
  const enum experts_device order[] = {device, DEVICE_L40S, DEVICE_H100};
  for (size_t i = 0; i < 3; i++)
    if (table[order[i]][path].compute_efficiency > 0)
      return &table[order[i]][path];
  return &table[DEVICE_H100][PATH_BF16];
}

static double peak_of(enum experts_path path, enum precision weights, const struct hardware *hardware)
{
  const double wide =
      fmax(hardware_peak_flops(hardware, PRECISION_BF16), hardware_peak_flops(hardware, PRECISION_FP16));
  double narrow = 0;
  if (path == PATH_FP8 || path == PATH_FP8_BLOCK)
    narrow = hardware_peak_flops(hardware, PRECISION_FP8);
  else if (path == PATH_NVFP4)
    narrow = hardware_peak_flops(hardware, PRECISION_NVFP4);
  else if (weights == PRECISION_FP32)
    narrow = hardware_peak_flops(hardware, PRECISION_FP32);
  return narrow > 0 ? narrow : wide;
}

/* Tc = FLOPs of (pairs + hit·tile/2) / (P·ec); Tm = (weights hit + c_act·activations) / (BW·em);
   t = t0 + 8·tau·hit/SM + (Tc^p + Tm^p)^(1/p). */
struct experts_time experts_time(const struct op *op, const struct hardware *hardware, bool has_static_scales,
                                 double bandwidth_bytes_s, double compute_units)
{
  const enum experts_device device = device_of(hardware);
  const enum experts_path path = path_of(op->precision, hardware, device);
  const struct experts_row *row = row_of(device, path);
  const double static_floor = 0.5; /* per-tensor scales: STEPMODEL §1.7 */
  double efficiency = row->compute_efficiency;
  double padded_flops = op->flops;
  double compute_s, memory_s;
  struct experts_time time;
  if (path == PATH_FP8_BLOCK && has_static_scales)
    efficiency = fmax(efficiency, static_floor);
  if (op->token_experts > 0)
    padded_flops *= (op->token_experts + op->experts_hit * row->tile / 2) / op->token_experts;
  compute_s = padded_flops / (peak_of(path, op->precision, hardware) * efficiency);
  memory_s =
      (op->weight_bytes + row->activation_factor * op->activation_bytes) / (bandwidth_bytes_s * row->memory_efficiency);
  time.floor_s = row->t0_us * US;
  time.dispatch_s = 8 * row->per_expert_us * US * op->experts_hit / compute_units;
  time.p = row->p;
  time.compute_s = compute_s;
  time.memory_s = memory_s;
  return time;
}
