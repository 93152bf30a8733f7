/* A hardware profile: what one accelerator can sustain. Numbers keep the wire's units (the suffix says so); the
   functions below give SI. Value struct: copy freely, owns nothing. All functions are pure.
   Source: hardware catalogue (deploy/catalog/profiles), conventions in its NOTES. */
#ifndef FITD_CORE_HARDWARE_H
#define FITD_CORE_HARDWARE_H

#include "core/error.h"
#include "core/precision.h"

/* Which fitted constants apply (core/timing.h). POOLED when the profile's family is not known. */
enum hardware_family {
  HARDWARE_POOLED,
  HARDWARE_VOLTA, /* Volta and Turing */
  HARDWARE_AMPERE_DC,
  HARDWARE_AMPERE_RTX,
  HARDWARE_ADA,
  HARDWARE_ADA_CONSUMER,
  HARDWARE_HOPPER,
  HARDWARE_BLACKWELL_DC,
  HARDWARE_BLACKWELL_ULTRA_DC,
  HARDWARE_BLACKWELL_RTX,
  HARDWARE_CDNA,
  HARDWARE_FAMILY_COUNT
};

/* What connects the devices of one domain; decides which collective constants apply. */
enum hardware_link {
  HARDWARE_LINK_PCIE,
  HARDWARE_LINK_NVLINK2,
  HARDWARE_LINK_NVLINK3,
  HARDWARE_LINK_NVLINK4,
  HARDWARE_LINK_NVLINK5,
  HARDWARE_LINK_XGMI,
  HARDWARE_LINK_OTHER
};

/* One quote, for on-demand use unless `commitment` says otherwise. */
struct hardware_price {
  char cloud[32];
  char instance[64];
  char region[64];
  char date[32];       /* as the source gives it; RFC 3339 date or "undated snapshot" */
  char commitment[32]; /* "on_demand", … */
  double accelerators; /* devices in the rented unit */
  double usd_per_accelerator_hour;
};
#define HARDWARE_PRICES_MAX 32

struct hardware {
  char name[65];         /* identifier, "h100-sxm-80gb" */
  char display_name[96]; /* "NVIDIA H100 SXM5 80GB" */
  char architecture[48];
  char memory_type[32]; /* "HBM3", "GDDR6", …; "" = not stated */
  char link_kind[48];   /* "NVLink4", "PCIe", … as stored */
  char topology[64];    /* "switched", "bridge pair", "host", … */
  char measured_as[24]; /* device whose own operator tables exist ("h100_sxm"); "" = the family\'s apply */
  char confidence[16];  /* high | medium | low | recalled */
  enum hardware_family family;
  enum hardware_link link;
  bool is_available;       /* the operator marked it as obtainable */
  double link_scale_ratio; /* what-if factor on every link's bandwidth; 0 = 1 */
  bool family_is_given;    /* false: derived from the architecture, or pooled */
#define HARDWARE(need, member, pointer, unit, min, max, sentence) double member; /* unit in the .def */
#include "core/hardware.def"
#undef HARDWARE
  unsigned price_count;
  struct hardware_price prices[HARDWARE_PRICES_MAX];
};

/* Sets every number to NaN and every text to "". */
void hardware_init(struct hardware *hardware);

/* Fills family (when not given) and link from architecture, link_kind, topology; call after reading. */
void hardware_resolve(struct hardware *hardware);

/* Required fields, bounds of hardware.def, conflicts between fields (a power cap above the TDP …). */
void hardware_check(const struct hardware *hardware, struct faults *faults);

const char *hardware_family_name(enum hardware_family family); /* "hopper", "pooled", … */
bool hardware_family_parse(enum hardware_family *family, const char *name);

/* Bytes of device memory as inference engines count it, share of the device applied (MEMORY §5.2: the engine's own
   figure; else the tool's total less 0.6 %). *is_assumed (may be NULL) tells that the figure had to be derived. */
double hardware_memory_bytes(const struct hardware *hardware, bool *is_assumed);
double hardware_bandwidth_bytes_s(const struct hardware *hardware);

/* Dense peak of a format in FLOP/s with clock derates applied; 0 where the device has no native path. */
double hardware_peak_flops(const struct hardware *hardware, enum precision precision);

#endif
