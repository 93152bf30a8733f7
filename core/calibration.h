/* Efficiency factors fitted to somebody's own measurements of one model on one profile and stack: what the shipped constants
   of the step formula (core/step.def) are multiplied with there. Pure functions.
   A fit runs the model as a black box: its caller predicts every observation as it stands and with each factor a little
   higher (calibration_moved), calls calibration_improve, and does that CALIBRATION_ROUNDS times. */
#ifndef FITD_CORE_CALIBRATION_H
#define FITD_CORE_CALIBRATION_H

#include "core/band.h"

/* Few on purpose: what runs of one stack can tell apart. */
enum calibration_factor {
  CALIBRATION_WORK,     /* operators: linear layers, attention, experts, states, collectives */
  CALIBRATION_FIXED,    /* launches: kernel floors, costs of a layer and of a step, eager hosts */
  CALIBRATION_SEQUENCE, /* host work of each running sequence */
  CALIBRATION_PROMPT,   /* what prompts add to steps, and their host work */
  CALIBRATION_FACTOR_COUNT
};
const char *calibration_factor_name(enum calibration_factor factor); /* "work", … */

struct calibration {
  double factor_ratio[CALIBRATION_FACTOR_COUNT]; /* within CALIBRATION_BOUND of 1 */
  /* What is left of the class's band, in its logarithm: ≤ 1. */
  double band_scale[BAND_METRIC_COUNT];
};
#define CALIBRATION_BOUND 3.0 /* a factor is between 1/3 and 3 */
#define CALIBRATION_ROUNDS 4

/* All ones. */
struct calibration calibration_none(void);
struct step_constants calibration_constants(const struct calibration *calibration, const struct step_constants *base);

/* One measured figure with its predictions under the factors as they stand and under each of calibration_moved. */
struct calibration_observation {
  enum band_metric metric;
  double measured, predicted; /* > 0, same unit */
  double moved[CALIBRATION_FACTOR_COUNT];
};
struct calibration calibration_moved(const struct calibration *calibration, enum calibration_factor factor);
/* One step of the fit. Observations that are not finite and positive count for nothing. */
void calibration_improve(struct calibration *calibration, const struct calibration_observation *observations,
                         size_t count);

/* Median of |predicted / measured - 1| of one metric; NaN without an observation of it. `scratch` has room for `count`. */
double calibration_error_ratio(const struct calibration_observation *observations, size_t count,
                               enum band_metric metric, double *scratch);
/* Sets band_scale from what the last round left over; the class's band is that of its first observation's load. */
void calibration_narrow(struct calibration *calibration, const struct calibration_observation *observations,
                        size_t count, enum band_class class);
struct band calibration_band(const struct calibration *calibration, enum band_class class, enum band_metric metric);

#endif
