/* What somebody measured: read, put beside its prediction, stored. Private to api/. */
#ifndef FITD_API_MEASUREMENT_H
#define FITD_API_MEASUREMENT_H

#include "api/call.h"
#include "core/calibration.h"
#include "core/fit.h"

#define MEASURED_MAX STORE_FIGURE_COUNT

/* Figures by path, each > 0 and of store_figures. */
struct measured {
  struct store_measured figures[MEASURED_MAX];
  size_t count;
};
/* Percentiles that stand above higher ones, first tokens after last ones: faults. */
void measured_check_order(const json_t *measured, const char *pointer, struct faults *faults);
void measured_read(const json_t *value, const char *pointer, void *to, struct faults *faults); /* struct measured */

/* Figures that say something about the step constants: of the closed form, in the wire's unit. False: the path is none. */
bool measured_predict(double *value, enum band_metric *metric, const struct scorecard *card, const char *path);

#endif
