/* A lasting shift in a series: where it began, and how large it is. Medians of at least three points stand on both sides, so
   that a spike is none. Pure. */
#ifndef FITD_CORE_SHIFT_H
#define FITD_CORE_SHIFT_H

#include <stdbool.h>
#include <stddef.h>

#define SHIFT_POINTS_MAX 1024
#define SHIFT_SIDE_MIN 3       /* points on either side */
#define SHIFT_LEAST_RATIO 0.05 /* smaller ones are not worth a person's time */
#define SHIFT_NOISE_FACTOR 4   /* standard errors of the points' own scatter */

struct shift {
  bool is_found;
  size_t onset;         /* number of the first point after it */
  double before, after; /* medians */
  double noise_ratio;   /* scatter from point to point, as a standard deviation of ln(value) */
};

/* Of values > 0 in order of time; only a shift that still lasts at the end counts. More than SHIFT_POINTS_MAX: the last ones,
   and onset counts from the first of all. */
struct shift shift_find(const double *values, size_t count);

#endif
