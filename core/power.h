/* Power limits: the clock that a board holds under a cap, by what its work draws. Pure functions.
   Draws: PREDICTOR §6; the slope is fitted to runs of one machine under two and three caps (core/power.c). */
#ifndef FITD_CORE_POWER_H
#define FITD_CORE_POWER_H

#include "core/hardware.h"

struct power {
  double cap_ratio;   /* cap over the board's own limit; 1 = none that binds */
  double clock_ratio; /* that the board holds anyway (sustained_clock_fraction); a cap may cost nothing beyond it */
};
struct power power_of(const struct hardware *hardware);

/* The lower one of two caps, each NaN when not given; NaN when neither is. */
double power_lower_cap_w(double cap_w, double other_cap_w);

/* Share of the board's limit that work draws at full clock, between streaming from memory and computing all the time. */
double power_draw_ratio(bool is_attention, double compute_s, double memory_s);

/* Share of its full clock that work with this draw keeps under the cap; 1 while the cap is above the draw. */
double power_clock_ratio(const struct power *power, double draw_ratio);

/* Computing at the clock that the board holds anyway, and streaming, to what both take under the cap. */
void power_slow_down(const struct power *power, bool is_attention, double *compute_s, double *memory_s);

#endif
