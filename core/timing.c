/* Operator times: constants by device class, one function per form. */
#include "core/timing.h"

#include "core/collectives.h"
#include "core/experts.h"
#include "core/units.h"

#include <math.h>

enum class {
  CLASS_POOLED,
  CLASS_AMPERE_DC,
  CLASS_HOPPER_DC,
  CLASS_BLACKWELL_DC,
  CLASS_BLACKWELL_ULTRA_DC,
  CLASS_ADA_PCIE,
  CLASS_BLACKWELL_RTX,
  CLASS_ADA_CONSUMER,
  CLASS_COUNT
};

struct linear_constants {
  double t0_us, compute_efficiency, memory_efficiency;
};
struct decode_constants {
  double t0_us, memory_efficiency;
};
struct prefill_constants {
  double t0_us, compute_efficiency, memory_efficiency, p, head_exponent, wave_exponent;
};
struct latent_constants {
  double t0_us, compute_efficiency, memory_efficiency, p;
};

static const struct linear_constants linear_table[CLASS_COUNT][PRECISION_COUNT] = {
#define LINEAR(class, precision, t0, ec, em) [CLASS_##class][PRECISION_##precision] = {t0, ec, em},
#include "core/timing.def"
};
static const struct decode_constants decode_table[CLASS_COUNT][PRECISION_COUNT] = {
#define DECODE(class, precision, t0, em) [CLASS_##class][PRECISION_##precision] = {t0, em},
#include "core/timing.def"
};
static const struct prefill_constants prefill_table[CLASS_COUNT] = {
#define PREFILL(class, t0, ec, em, p, a, d) [CLASS_##class] = {t0, ec, em, p, a, d},
#include "core/timing.def"
};
static const struct latent_constants latent_table[CLASS_COUNT] = {
#define LATENT(class, t0, ec, em, p) [CLASS_##class] = {t0, ec, em, p},
#include "core/timing.def"
};

/* Families without tables of their own take the nearest measured class (STEPMODEL §1.7): Volta, Turing and GDDR Ampere
   the Ampere data-centre one, AMD and everything unknown the pooled one. */
static enum class class_of(enum hardware_family family) {
  static const enum class classes[HARDWARE_FAMILY_COUNT] =
      {
          [HARDWARE_POOLED] = CLASS_POOLED,
          [HARDWARE_VOLTA] = CLASS_AMPERE_DC,
          [HARDWARE_AMPERE_DC] = CLASS_AMPERE_DC,
          [HARDWARE_AMPERE_RTX] = CLASS_AMPERE_DC,
          [HARDWARE_ADA] = CLASS_ADA_PCIE,
          [HARDWARE_ADA_CONSUMER] = CLASS_ADA_CONSUMER,
          [HARDWARE_HOPPER] = CLASS_HOPPER_DC,
          [HARDWARE_BLACKWELL_DC] = CLASS_BLACKWELL_DC,
          [HARDWARE_BLACKWELL_ULTRA_DC] = CLASS_BLACKWELL_ULTRA_DC,
          [HARDWARE_BLACKWELL_RTX] = CLASS_BLACKWELL_RTX,
          [HARDWARE_CDNA] = CLASS_POOLED,
      };
  return classes[family];
}

const char *const timing_measured_devices[] = {"a100_sxm", "h100_sxm", "h200_sxm",     "b200_sxm", "b300_sxm", "gb200",
                                               "gb300",    "l40s",     "rtx_pro_6000", "rtx_4090", "b60",      NULL};

static const char *provenance_of(const struct hardware *hardware)
{
  if (hardware->measured_as[0] != '\0')
    return "own";
  return class_of(hardware->family) == CLASS_POOLED ? "pooled" : "class";
}

/* The row of a class or, where it has none, the pooled one. */
static struct linear_constants linear_row(enum class class, enum precision precision)
{
  const struct linear_constants *row = &linear_table[class][precision];
  return row->compute_efficiency > 0 ? *row : linear_table[CLASS_POOLED][precision];
}

/* fp8 with static per-tensor scales needs no kernel of its own to quantise activations: the floor and memory efficiency
   of 16 bit, and more of the peak (STEPMODEL §1.5). */
static struct linear_constants fp8_row(enum class class, const struct device *device)
{
  struct linear_constants row = linear_row(class, PRECISION_FP8);
  if (device->has_static_scales) {
    const struct linear_constants bf16 = linear_row(class, PRECISION_BF16);
    const double static_floor = class == CLASS_HOPPER_DC ? 0.65 : 0.50;
    row.t0_us = bf16.t0_us + 1;
    row.memory_efficiency = bf16.memory_efficiency;
    row.compute_efficiency = fmax(row.compute_efficiency, static_floor);
  }
  return row;
}

static struct linear_constants linear_constants_of(enum precision math, const struct device *device)
{
  const enum class class = class_of(device->hardware->family);
  if (math == PRECISION_FP8)
    return fp8_row(class, device);
  if (math == PRECISION_INT8)
    return linear_row(CLASS_POOLED, PRECISION_FP8); /* no int8 table; its kernels quantise activations alike */
  if (math == PRECISION_NVFP4 || math == PRECISION_MXFP4)
    return linear_row(class, PRECISION_NVFP4);
  return linear_row(class, PRECISION_BF16);
}

/* GDDR streams more of its datasheet than the HBM of the same generation. Boards that were not measured take the mean of the
   three that were: L40S 0.77, RTX PRO 6000 0.80, RTX 4090 0.94. */
static double linear_memory_efficiency(const struct linear_constants *row, enum precision math,
                                       const struct hardware *hardware)
{
  const double gddr_mean = 0.84;
  const enum hardware_family family = hardware->family;
  const bool has_gddr = family == HARDWARE_AMPERE_RTX || family == HARDWARE_ADA || family == HARDWARE_ADA_CONSUMER ||
                        family == HARDWARE_BLACKWELL_RTX;
  const bool is_guessed = has_gddr && hardware->measured_as[0] == '\0' && precision_weight_bytes(math) >= 2;
  return is_guessed ? fmax(row->memory_efficiency, gddr_mean) : row->memory_efficiency;
}

static struct linear_path linear_path_of(enum precision weights, enum precision activations,
                                         const struct device *device)
{
  struct linear_path path;
  struct linear_constants row;
  (void)precision_support(device->hardware, weights, activations, &path.math);
  row = linear_constants_of(path.math, device);
  path.peak_flops = hardware_peak_flops(device->hardware, path.math);
  path.t0_s = row.t0_us * US;
  path.compute_efficiency = row.compute_efficiency;
  path.memory_efficiency = linear_memory_efficiency(&row, path.math, device->hardware);
  path.input_bytes = precision_weight_bytes(path.math) < 2 ? 1 : 2;
  return path;
}

struct device timing_device(const struct hardware *hardware, const struct model_precision *precision,
                            enum precision activations)
{
  struct device device = {.hardware = hardware};
  device.bandwidth_bytes_s = hardware_bandwidth_bytes_s(hardware);
  device.peak_16_bit_flops =
      fmax(hardware_peak_flops(hardware, PRECISION_BF16), hardware_peak_flops(hardware, PRECISION_FP16));
  device.compute_units = hardware->compute_units * (isnan(hardware->share) ? 1.0 : hardware->share);
  device.has_static_scales = precision->has_static_scales;
  device.power = power_of(hardware);
  device.provenance = provenance_of(hardware);
  for (int weights = PRECISION_NONE + 1; weights < PRECISION_COUNT; weights++)
    device.linear[weights] = linear_path_of((enum precision)weights, activations, &device);
  return device;
}

/* Legs of the work that overlap: the longer one (p infinite), or a p-norm of both where they get in each other's way. */
struct legs {
  double compute_s, memory_s, p;
};

static double joined_s(const struct legs *legs)
{
  if (isinf(legs->p))
    return fmax(legs->compute_s, legs->memory_s);
  return pow(pow(legs->compute_s, legs->p) + pow(legs->memory_s, legs->p), 1 / legs->p);
}

/* Work from its legs, at the clock that a power cap leaves for what it draws. Links have clocks of their own. */
static void settle(struct op *op, const struct device *device, struct legs legs)
{
  op->bound = legs.compute_s > legs.memory_s ? BOUND_COMPUTE : BOUND_MEMORY_BANDWIDTH;
  op->work_s = joined_s(&legs);
  if (device->power.cap_ratio < 1) {
    const double uncapped_s = op->work_s;
    power_slow_down(&device->power, op->group == OPERATOR_ATTENTION, &legs.compute_s, &legs.memory_s);
    op->work_s = joined_s(&legs);
    op->capped_s = op->work_s - uncapped_s;
  }
}

static void settle_longer(struct op *op, const struct device *device, double compute_s, double memory_s)
{
  settle(op, device, (struct legs){compute_s, memory_s, (double)INFINITY});
}

/* t = t0 + max(FLOPs / (P·ec), bytes / (BW·em)). */
static void time_linear(struct op *op, const struct device *device)
{
  const struct linear_path *path = &device->linear[op->precision];
  const double bytes = op->weight_bytes + op->rows * (op->inputs * path->input_bytes + 2 * op->outputs);
  const double compute_s = op->flops / (path->peak_flops * path->compute_efficiency);
  const double memory_s = bytes / (device->bandwidth_bytes_s * path->memory_efficiency);
  op->floor_s = path->t0_s;
  settle_longer(op, device, compute_s, memory_s);
}

/* t = t0 + KV bytes / (BW·em). Verifying many drafts can compute for longer than it reads, as prefill does. */
static void time_decode_attention(struct op *op, const struct device *device)
{
  const enum class class = class_of(device->hardware->family);
  const enum precision format = precision_element_bytes(op->precision) < 2 ? PRECISION_FP8 : PRECISION_BF16;
  const struct decode_constants *row = &decode_table[class][format];
  /* one token of each sequence is far from the tensor units' own efficiency, and past their peak it can not go */
  const double efficiency = op->tokens_per_sequence > 1 ? prefill_table[class].compute_efficiency : 1;
  double compute_s, memory_s;
  if (!(row->memory_efficiency > 0))
    row = &decode_table[CLASS_POOLED][format];
  op->floor_s = row->t0_us * US;
  memory_s = op->kv_bytes / (device->bandwidth_bytes_s * row->memory_efficiency);
  compute_s = op->flops / (device->peak_16_bit_flops * efficiency);
  settle_longer(op, device, compute_s, memory_s);
}

/* Time over that of full waves: units stand idle in the last wave of tiles, half of them in the mean, and in the only one
   where there are fewer tiles than units. Rows of queries make a tile each; kernels of data-centre Blackwell take two in
   turns. No wave is shorter than its tile takes one unit, so the exponent stays at one: a fit of it above one, from full
   tiles of large batches, would make longer prompts faster. Root mean square on ops_open.csv's B200 and H100 rows: 16 and
   14 %; with whole waves of single tiles and the fitted exponents 17 and 16 %. */
static double wave_waste(const struct op *op, const struct device *device, enum class class)
{
  const bool has_pairs = class == CLASS_BLACKWELL_DC || class == CLASS_BLACKWELL_ULTRA_DC;
  const double tiles = fmax(1, op->tokens_per_sequence / (has_pairs ? 256 : 128));
  const double waves = op->sequences * op->query_heads * tiles / device->compute_units;
  return pow(fmax(1, waves + 0.5) / waves, fmin(1, prefill_table[class].wave_exponent));
}

/* p-norm of compute and memory time; the last wave of tiles wastes units (q). */
static void time_prefill_attention(struct op *op, const struct device *device)
{
  const enum class class = class_of(device->hardware->family);
  const struct prefill_constants *row = &prefill_table[class];
  const double head = pow(op->head_dim / 128, row->head_exponent);
  const double compute_s =
      op->flops / (device->peak_16_bit_flops * row->compute_efficiency * head) * wave_waste(op, device, class);
  const double memory_s = (op->activation_bytes + op->kv_bytes) / (device->bandwidth_bytes_s * row->memory_efficiency);
  op->floor_s = row->t0_us * US;
  settle(op, device, (struct legs){compute_s, memory_s, row->p});
}

/* MLA decode: heads are padded to 64 for the tensor units, but not on CDNA. STEPMODEL §2. */
static void time_latent_decode(struct op *op, const struct device *device)
{
  const struct latent_constants *row = &latent_table[class_of(device->hardware->family)];
  const double least_heads = device->hardware->family == HARDWARE_CDNA ? 16 : 64;
  const double padding = fmax(op->query_heads, least_heads) / op->query_heads;
  double compute_s, memory_s;
  if (!(row->compute_efficiency > 0))
    row = &latent_table[CLASS_POOLED];
  compute_s = padding * op->flops / (device->peak_16_bit_flops * row->compute_efficiency);
  memory_s = op->kv_bytes / (device->bandwidth_bytes_s * row->memory_efficiency);
  op->floor_s = row->t0_us * US;
  settle(op, device, (struct legs){compute_s, memory_s, row->p});
}

static void time_latent_prefill(struct op *op, const struct device *device)
{
  const struct prefill_constants *row = &prefill_table[class_of(device->hardware->family)];
  op->floor_s = row->t0_us * US;
  settle_longer(op, device, op->flops / (device->peak_16_bit_flops * row->compute_efficiency), 0);
}

static void time_experts(struct op *op, const struct device *device)
{
  const struct experts_time time =
      experts_time(op, device->hardware, device->has_static_scales, device->bandwidth_bytes_s, device->compute_units);
  op->floor_s = time.floor_s;
  settle(op, device, (struct legs){time.compute_s, time.memory_s, time.p});
  op->work_s += time.dispatch_s;
}

static void time_all_reduce(struct op *op, const struct device *device)
{
  const struct collective_time time = collective_all_reduce(device->hardware, op->devices, op->wire_bytes);
  op->floor_s = time.floor_s;
  op->work_s = time.work_s;
  op->bound = BOUND_INTERCONNECT;
}

static void time_hand_off(struct op *op, const struct device *device)
{
  const struct collective_time time = collective_hand_off(device->hardware, op->devices, op->stages, op->wire_bytes);
  op->floor_s = time.floor_s;
  op->work_s = time.work_s;
  op->bound = BOUND_INTERCONNECT;
}

/* Elementwise kernels and sampling reach half of the bandwidth; their launches are counted per layer (core/step.c). */
static void time_stream(struct op *op, const struct device *device)
{
  const double stream_efficiency = 0.5;
  op->floor_s = 0;
  settle_longer(op, device, 0, op->activation_bytes / (device->bandwidth_bytes_s * stream_efficiency));
}

/* Peak of an operator that names its own efficiencies: its format's where the device has it, else 16 bit. */
static double stated_peak_flops(const struct op *op, const struct device *device)
{
  const struct linear_path *path = &device->linear[op->precision];
  return op->form == FORM_STATED && path->math == op->precision ? path->peak_flops : device->peak_16_bit_flops;
}

static void time_stated(struct op *op, const struct device *device)
{
  const double bytes = op->weight_bytes + op->kv_bytes + op->activation_bytes;
  const double compute_s = op->flops / (stated_peak_flops(op, device) * op->compute_efficiency);
  const double memory_s = bytes / (device->bandwidth_bytes_s * op->memory_efficiency);
  settle_longer(op, device, compute_s, memory_s);
}

void timing_apply(struct op *op, const struct device *device)
{
  switch (op->form) {
  case FORM_LINEAR: time_linear(op, device); break;
  case FORM_DECODE_ATTENTION: time_decode_attention(op, device); break;
  case FORM_PREFILL_ATTENTION: time_prefill_attention(op, device); break;
  case FORM_LATENT_DECODE: time_latent_decode(op, device); break;
  case FORM_LATENT_PREFILL: time_latent_prefill(op, device); break;
  case FORM_EXPERTS: time_experts(op, device); break;
  case FORM_ALL_REDUCE: time_all_reduce(op, device); break;
  case FORM_HAND_OFF: time_hand_off(op, device); break;
  case FORM_STREAM: time_stream(op, device); break;
  case FORM_STATED: time_stated(op, device); break;
  }
}

double timing_peak_flops(const struct op *op, const struct device *device)
{
  if (op->form == FORM_LINEAR || op->form == FORM_EXPERTS)
    return device->linear[op->precision].peak_flops;
  return stated_peak_flops(op, device);
}
