/* The p10..p90 band of a prediction, from the out-of-sample errors of its class of load (which decides the width; the
   device hardly does: STEPMODEL §5). Pure functions. */
#ifndef FITD_CORE_BAND_H
#define FITD_CORE_BAND_H

#include "core/steady.h"

enum band_class {
  BAND_DENSE_CLOSED_LOOP,
  BAND_MOE_CLOSED_LOOP,
  BAND_OLD_ENGINE,
  BAND_OPEN_LOOP,       /* below 0.6 of capacity */
  BAND_NEAR_SATURATION, /* an error of the service time is multiplied by up to 1 / (1 - u) */
  BAND_CLASS_COUNT
};
enum band_metric { BAND_TPOT, BAND_TTFT, BAND_THROUGHPUT, BAND_METRIC_COUNT };

struct band {
  double low_ratio, high_ratio; /* of the prediction */
};

enum band_class band_class_of(const struct engine *engine, bool is_open_loop, double utilisation_ratio);
struct band band_of(enum band_class class, enum band_metric metric);
const char *band_class_name(enum band_class class);

#endif
