/* Time of routed experts (grouped products): seven fitted constants per device and kernel path. Private to core/timing.c.
   PREDICTOR §2e: 9-19 % median on held-out model shapes; the weakest operator, kernel choice of a release moves it 2x. */
#ifndef FITD_CORE_EXPERTS_H
#define FITD_CORE_EXPERTS_H

#include "core/operators.h"

struct experts_time {
  double floor_s;
  double compute_s, memory_s, p; /* legs of the work and the norm that joins them */
  double dispatch_s;             /* of each expert that has work, beside both */
};

struct experts_time experts_time(const struct op *op, const struct hardware *hardware, bool has_static_scales,
                                 double bandwidth_bytes_s, double compute_units);

#endif
