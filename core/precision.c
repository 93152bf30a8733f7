/* Formats by table: wire names, bytes with scales, and the path that a device takes for each of them. */
#include "core/precision.h"

#include "core/hardware.h"

#include <string.h>

/* Bytes of a weight include what its format stores beside it: int4 group scales and zero points (AWQ/GPTQ g128),
   nvfp4 one fp8 scale per 16, mxfp4 one e8m0 scale per 32, nf4 one double-quantised scale per 64. STEPMODEL §1.4. */
struct format {
  const char *name;
  const char *aliases[4];
  double weight_bytes, element_bytes;
};
static const struct format formats[PRECISION_COUNT] = {
    [PRECISION_NONE] = {"none", {NULL}, 0.0, 0.0},
    [PRECISION_FP32] = {"fp32", {"float32", "float", NULL}, 4.0, 4.0},
    [PRECISION_BF16] = {"bf16", {"bfloat16", NULL}, 2.0, 2.0},
    [PRECISION_FP16] = {"fp16", {"float16", "half", NULL}, 2.0, 2.0},
    [PRECISION_FP8] = {"fp8", {"e4m3", "float8", "fp8_e4m3", NULL}, 1.0, 1.0},
    [PRECISION_INT8] = {"int8", {"w8a8", NULL}, 1.0, 1.0},
    [PRECISION_INT4] = {"int4", {"w4a16", NULL}, 0.53, 0.5},
    [PRECISION_NF4] = {"nf4", {"bnb4", NULL}, 0.516, 0.5},
    [PRECISION_NVFP4] = {"nvfp4", {NULL}, 0.5625, 0.5},
    [PRECISION_MXFP4] = {"mxfp4", {NULL}, 0.53125, 0.5},
};

const char *precision_name(enum precision precision)
{
  return formats[precision].name;
}

enum precision precision_parse(const char *name)
{
  for (int i = PRECISION_NONE + 1; i < PRECISION_COUNT; i++) {
    if (strcmp(formats[i].name, name) == 0)
      return (enum precision)i;
    for (const char *const *alias = formats[i].aliases; *alias != NULL; alias++)
      if (strcmp(*alias, name) == 0)
        return (enum precision)i;
  }
  return PRECISION_NONE;
}

double precision_weight_bytes(enum precision precision)
{
  return formats[precision].weight_bytes;
}

double precision_element_bytes(enum precision precision)
{
  return formats[precision].element_bytes;
}

/* 16-bit math of the device: bf16 where it has it, else fp16 (Volta, Turing). */
static enum precision math_16_bit(const struct hardware *hardware)
{
  return hardware_peak_flops(hardware, PRECISION_BF16) > 0 ? PRECISION_BF16 : PRECISION_FP16;
}

static bool is_16_bit(enum precision precision)
{
  return precision == PRECISION_BF16 || precision == PRECISION_FP16;
}

/* A path narrower than 16 bit counts as native only where it is not slower than 16-bit math (int8 on Volta and on
   Blackwell Ultra is). */
static bool has_native(const struct hardware *hardware, enum precision precision)
{
  const double peak = hardware_peak_flops(hardware, precision);
  if (precision == PRECISION_FP32 || is_16_bit(precision))
    return peak > 0;
  return peak > 0 && peak >= hardware_peak_flops(hardware, math_16_bit(hardware));
}

static enum precision_support support_16_bit(const struct hardware *hardware, enum precision weights,
                                             enum precision *math)
{
  *math = has_native(hardware, weights) ? weights : math_16_bit(hardware);
  if (hardware_peak_flops(hardware, *math) <= 0)
    return PRECISION_UNSUPPORTED;
  return *math == weights ? PRECISION_NATIVE : PRECISION_FALLBACK;
}

enum precision_support precision_support(const struct hardware *hardware, enum precision weights,
                                         enum precision activations, enum precision *math)
{
  *math = math_16_bit(hardware);
  switch (weights) {
  case PRECISION_FP32:
    if (!has_native(hardware, PRECISION_FP32))
      return hardware_peak_flops(hardware, *math) > 0 ? PRECISION_FALLBACK : PRECISION_UNSUPPORTED;
    *math = PRECISION_FP32;
    return PRECISION_NATIVE;
  case PRECISION_BF16:
  case PRECISION_FP16: return support_16_bit(hardware, weights, math);
  case PRECISION_FP8:
  case PRECISION_INT8:
  case PRECISION_NVFP4:
  case PRECISION_MXFP4:
    if (has_native(hardware, weights) && !is_16_bit(activations)) {
      *math = weights;
      return PRECISION_NATIVE;
    }
    return hardware_peak_flops(hardware, *math) > 0 ? PRECISION_WEIGHT_ONLY : PRECISION_UNSUPPORTED;
  case PRECISION_INT4:
  case PRECISION_NF4: /* kernels unpack to 16 bits: weight-only everywhere */
    return hardware_peak_flops(hardware, *math) > 0 ? PRECISION_WEIGHT_ONLY : PRECISION_UNSUPPORTED;
  case PRECISION_NONE:
  case PRECISION_COUNT: break;
  }
  return PRECISION_UNSUPPORTED;
}

const char *precision_support_name(enum precision_support support)
{
  static const char *const names[] = {"native", "weight_only", "fallback", "unsupported"};
  return names[support];
}
