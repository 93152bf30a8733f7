/* Hardware profiles: bounds from hardware.def, the family and link that follow from the fields, SI figures. */
#include "core/hardware.h"

#include "core/units.h"

#include <math.h>
#include <string.h>
#include <strings.h>

void hardware_init(struct hardware *hardware)
{
  memset(hardware, 0, sizeof *hardware);
#define HARDWARE(need, member, pointer, unit, min, max, sentence) hardware->member = (double)NAN;
#include "core/hardware.def"
#undef HARDWARE
}

static const char *const family_names[HARDWARE_FAMILY_COUNT] = {
    [HARDWARE_POOLED] = "pooled",
    [HARDWARE_VOLTA] = "volta",
    [HARDWARE_AMPERE_DC] = "ampere_dc",
    [HARDWARE_AMPERE_RTX] = "ampere_rtx",
    [HARDWARE_ADA] = "ada",
    [HARDWARE_ADA_CONSUMER] = "ada_consumer",
    [HARDWARE_HOPPER] = "hopper",
    [HARDWARE_BLACKWELL_DC] = "blackwell_dc",
    [HARDWARE_BLACKWELL_ULTRA_DC] = "blackwell_ultra_dc",
    [HARDWARE_BLACKWELL_RTX] = "blackwell_rtx",
    [HARDWARE_CDNA] = "cdna",
};

const char *hardware_family_name(enum hardware_family family)
{
  return family_names[family];
}

bool hardware_family_parse(enum hardware_family *family, const char *name)
{
  for (int i = 0; i < HARDWARE_FAMILY_COUNT; i++) {
    if (strcmp(family_names[i], name) == 0) {
      *family = (enum hardware_family)i;
      return true;
    }
  }
  return false;
}

static bool starts_with(const char *text, const char *prefix)
{
  return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

static enum hardware_link link_of(const char *kind)
{
  static const struct {
    const char *prefix;
    enum hardware_link link;
  } links[] = {
      {"NVLink-C2C", HARDWARE_LINK_PCIE}, /* to the host CPU, not to other devices */
      {"NVLink2", HARDWARE_LINK_NVLINK2}, {"NVLink3", HARDWARE_LINK_NVLINK3}, {"NVLink4", HARDWARE_LINK_NVLINK4},
      {"NVLink5", HARDWARE_LINK_NVLINK5}, {"xGMI", HARDWARE_LINK_XGMI},       {"PCIe", HARDWARE_LINK_PCIE},
  };
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
    if (starts_with(kind, links[i].prefix))
      return links[i].link;
  return HARDWARE_LINK_OTHER;
}

/* Boards with HBM are the data-centre kind; where the memory type is not stored, over 1 TB/s tells. */
static bool has_hbm(const struct hardware *hardware)
{
  if (hardware->memory_type[0] != '\0')
    return starts_with(hardware->memory_type, "HBM");
  return hardware->memory_bandwidth_gb_s > 1000;
}

/* The architecture's name decides between generations, memory and link between the kinds of board of one. */
static enum hardware_family family_of(const struct hardware *hardware)
{
  const char *architecture = hardware->architecture;
  if (starts_with(architecture, "Hopper"))
    return HARDWARE_HOPPER;
  if (starts_with(architecture, "Blackwell Ultra"))
    return HARDWARE_BLACKWELL_ULTRA_DC;
  if (starts_with(architecture, "Blackwell"))
    return hardware->link == HARDWARE_LINK_PCIE ? HARDWARE_BLACKWELL_RTX : HARDWARE_BLACKWELL_DC;
  if (starts_with(architecture, "Ampere"))
    return has_hbm(hardware) ? HARDWARE_AMPERE_DC : HARDWARE_AMPERE_RTX;
  if (starts_with(architecture, "Ada"))
    return HARDWARE_ADA;
  if (starts_with(architecture, "Volta") || starts_with(architecture, "Turing"))
    return HARDWARE_VOLTA;
  if (starts_with(architecture, "CDNA"))
    return HARDWARE_CDNA;
  return HARDWARE_POOLED;
}

void hardware_resolve(struct hardware *hardware)
{
  hardware->link = link_of(hardware->link_kind);
  if (!hardware->family_is_given)
    hardware->family = family_of(hardware);
}

static void check_number(double value, bool is_required, const char *pointer, const char *unit, double min, double max,
                         struct faults *faults)
{
  if (isnan(value)) {
    if (is_required)
      faults_add(faults, FAULT_MISSING, pointer, NULL, "required: a number in %s between %g and %g", unit, min, max);
  } else if (!(value >= min && value <= max)) {
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "%g %s is outside %g to %g", value, unit, min, max);
  }
}

static void check_conflicts(const struct hardware *hardware, struct faults *faults)
{
  if (isnan(hardware->bf16_tflops) && isnan(hardware->fp16_tflops))
    faults_add(faults, FAULT_MISSING, "/peak_tflops_dense", NULL, "one of bf16 and fp16 is needed");
  if (hardware->power_cap_w > hardware->tdp_w)
    faults_add(faults, FAULT_CONFLICT, "/power_cap_w", NULL, "a cap of %g W is above tdp_w %g W", hardware->power_cap_w,
               hardware->tdp_w);
  if (hardware->bf16_tflops > 0 && hardware->fp8_tflops > 4 * hardware->bf16_tflops)
    faults_add(faults, FAULT_OUT_OF_RANGE, "/peak_tflops_dense/fp8", NULL,
               "fp8 %g TFLOP/s is over four times bf16 %g: a figure with sparsity?", hardware->fp8_tflops,
               hardware->bf16_tflops);
  if (hardware->memory_usable_mib > 1.05 * hardware->memory_gib * 1024 ||
      hardware->memory_usable_mib < 0.8 * hardware->memory_gib * 1024)
    faults_add(faults, FAULT_CONFLICT, "/memory_usable_mib", NULL, "%g MiB does not agree with memory_gib %g (%g MiB)",
               hardware->memory_usable_mib, hardware->memory_gib, hardware->memory_gib * 1024);
}

void hardware_check(const struct hardware *hardware, struct faults *faults)
{
  enum { OPT = 0, REQ = 1 };
  const size_t before = faults->count;
#define HARDWARE(need, member, pointer, unit, min, max, sentence)                                                      \
  check_number(hardware->member, need != OPT, pointer, unit, min, max, faults);
#include "core/hardware.def"
#undef HARDWARE
  if (faults->count == before)
    check_conflicts(hardware, faults);
}

/* Engines print 0.6 % less than the vendor's tool where both were seen (H100 81,091 of 81,559 MiB). MEMORY §5.2. */
double hardware_memory_bytes(const struct hardware *hardware, bool *is_assumed)
{
  const double engine_over_tool = 0.994;
  const double share = isnan(hardware->share) ? 1.0 : hardware->share;
  double mib = hardware->memory_engine_mib;
  if (is_assumed != NULL)
    *is_assumed = isnan(mib);
  if (isnan(mib))
    mib = engine_over_tool *
          (isnan(hardware->memory_usable_mib) ? hardware->memory_gib * KIB : hardware->memory_usable_mib);
  return mib * MIB * share;
}

/* A slice of a device gets its share of bandwidth and units. Clocks do not move memory bandwidth. */
double hardware_bandwidth_bytes_s(const struct hardware *hardware)
{
  const double share = isnan(hardware->share) ? 1.0 : hardware->share;
  return hardware->memory_bandwidth_gb_s * GIGA * share;
}

static double peak_tflops(const struct hardware *hardware, enum precision precision)
{
  switch (precision) {
  case PRECISION_FP32: return hardware->fp32_tflops;
  case PRECISION_BF16: return hardware->bf16_tflops;
  case PRECISION_FP16: return hardware->fp16_tflops;
  case PRECISION_FP8: return hardware->fp8_tflops;
  case PRECISION_INT8: return hardware->int8_tflops;
  case PRECISION_NVFP4:
  case PRECISION_MXFP4: return hardware->fp4_tflops;
  case PRECISION_INT4: return hardware->int4_tflops;
  case PRECISION_NF4:
  case PRECISION_NONE:
  case PRECISION_COUNT: break;
  }
  return (double)NAN;
}

double hardware_peak_flops(const struct hardware *hardware, enum precision precision)
{
  const double tflops = peak_tflops(hardware, precision);
  const double clock = isnan(hardware->sustained_clock_fraction) ? 1.0 : hardware->sustained_clock_fraction;
  const double share = isnan(hardware->share) ? 1.0 : hardware->share;
  return isnan(tflops) ? 0.0 : tflops * TERA * clock * share;
}
