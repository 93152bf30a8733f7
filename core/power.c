/* Clocks under a power cap. A governor lowers the core clock until the board draws no more than the cap; the memory clock
   does not move, so work that draws less than the cap is as fast as ever. */
#include "core/power.h"

#include <math.h>

/* Dynamic power is f·V², and V falls with f down to a floor: the exponent of the clock is 3 near the top and 1 at the floor,
   and leakage, which no clock lowers, takes off more. One exponent stands for all of it, fitted to whole runs of 8 H200
   (fp8, offline, every sequence its own operators), measured → predicted:
     Llama-2-70B  500 of 700 W    0.807 → 0.824  (+2 %)
     Mixtral-8x7B 500 of 700 W    0.830 → 0.835  (+1 %)
     GPT-J-6B     350 of 700 W    0.65  → 0.71   (+9 %; measured with four beams, computed with one)
   and, as if its limit were 1,000 W, where the clock ends before the power does:
     Llama-2-70B  700 of 1,000 W  0.898 → 0.814  (-9 %)
     Llama-2-70B  500 of 1,000 W  0.725 → 0.654  (-10 %) */
static const double clock_exponent = 1.43;

/* Products of matrices draw 0.57-0.80 of the limit when they stream weights, all of it when they compute. Attention: median
   and p90 are 0.27-0.39 and 0.53-0.70 in decode, 0.56-0.74 and 0.83-0.96 in prefill; time goes by in the larger shapes, so
   the middle of p90. */
static const struct {
  double stream_ratio, compute_ratio;
} product_draw = {0.69, 1.0}, attention_draw = {0.62, 0.9};

double power_lower_cap_w(double cap_w, double other_cap_w)
{
  return fmin(cap_w, other_cap_w); /* the other one where one is NaN */
}

struct power power_of(const struct hardware *hardware)
{
  const double sustained = hardware->sustained_clock_fraction;
  struct power power = {1, isnan(sustained) ? 1 : sustained};
  if (hardware->power_cap_w < hardware->tdp_w) /* false where either is not known */
    power.cap_ratio = hardware->power_cap_w / hardware->tdp_w;
  return power;
}

double power_draw_ratio(bool is_attention, double compute_s, double memory_s)
{
  const double stream = is_attention ? attention_draw.stream_ratio : product_draw.stream_ratio;
  const double compute = is_attention ? attention_draw.compute_ratio : product_draw.compute_ratio;
  const double busy = compute_s < memory_s ? compute_s / memory_s : 1; /* share of the time that units compute */
  return stream + (compute - stream) * busy;
}

/* draw · f^n = cap. Part of a stream's draw is the memory's own, which no core clock lowers, so the clock has to fall
   further; on the other hand bandwidth falls by less than the clock. Taken to cancel out. */
double power_clock_ratio(const struct power *power, double draw_ratio)
{
  return power->cap_ratio >= draw_ratio ? 1 : pow(power->cap_ratio / draw_ratio, 1 / clock_exponent);
}

/* Computing takes the lower of the two clocks, a stream knows none but the governor's: a clock that is low anyway costs it
   nothing and saves it nothing. */
void power_slow_down(const struct power *power, bool is_attention, double *compute_s, double *memory_s)
{
  const double full_clock_s = *compute_s * power->clock_ratio;
  const double clock = power_clock_ratio(power, power_draw_ratio(is_attention, full_clock_s, *memory_s));
  *compute_s = full_clock_s / fmin(clock, power->clock_ratio);
  *memory_s /= clock;
}
