/* Time of one operator on one device, from the fitted constants of the device's class. Pure functions.
   Forms and their held-out errors: PREDICTOR §2 (linear 5-15 %, decode attention 6-18 %, prefill attention 5-13 %,
   experts 8-17 %). */
#ifndef FITD_CORE_TIMING_H
#define FITD_CORE_TIMING_H

#include "core/operators.h"
#include "core/power.h"

/* How linear layers stored in one format run on the device. */
struct linear_path {
  enum precision math;
  double peak_flops; /* of that math */
  double t0_s, compute_efficiency, memory_efficiency;
  double input_bytes; /* of one activation element */
};

/* What timing needs of a profile, looked up once per evaluation. */
struct device {
  const struct hardware *hardware; /* borrowed */
  double bandwidth_bytes_s;
  double peak_16_bit_flops;
  double compute_units;
  bool has_static_scales;
  struct power power;
  struct linear_path linear[PRECISION_COUNT]; /* by format of the weights */
  const char *provenance; /* "own": this device was measured; "class": others of its family; "pooled": all together */
};

struct device timing_device(const struct hardware *hardware, const struct model_precision *precision,
                            enum precision activations);

/* Fills work_s, floor_s, capped_s and bound. */
void timing_apply(struct op *op, const struct device *device);

/* Peak that the operator's math runs at, for utilisation figures. */
double timing_peak_flops(const struct op *op, const struct device *device);

/* Devices whose own tables exist, as `measured_as` of a profile names them; NULL-terminated. */
extern const char *const timing_measured_devices[];

#endif
