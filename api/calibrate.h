/* Fitting a calibration to stored measurements: each run's sketch is predicted again with the inputs and the configuration of
   its stored prediction, in the closed form. Private to api/. */
#ifndef FITD_API_CALIBRATE_H
#define FITD_API_CALIBRATE_H

#include "api/call.h"
#include "core/calibration.h"

#define CALIBRATE_RUNS_MAX 200

/* One measured figure of one run. */
struct calibrate_figure {
  size_t run; /* in the order they were added */
  char path[64];
  double before; /* predicted without factors; NaN = the closed form has no such figure, so it is not used */
  struct calibration_observation observation; /* after the last round */
};
struct calibrate;

enum err calibrate_new(struct calibrate **out, size_t runs_max, struct error *e) MUST_CHECK;
void calibrate_free(struct calibrate *calibrate);
enum err calibrate_add(struct calibrate *calibrate, struct api_call *call, const struct store_measurement *measurement,
                       struct error *e) MUST_CHECK;
/* ERR_INVALID: no figure can be used. */
enum err calibrate_run(struct calibration *out, struct calibrate *calibrate, size_t arena_bytes,
                       struct error *e) MUST_CHECK;
/* Borrowed. */
const struct calibrate_figure *calibrate_figures(size_t *count, const struct calibrate *calibrate);

#endif
