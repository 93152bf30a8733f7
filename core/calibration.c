/* Gauss-Newton on ln(predicted / measured) with Huber's weights; every ln(factor) is held to 0 by a prior, so that a factor
   which the measurements say nothing about stays 1. The same method as tests/accuracy/fit uses for the shipped constants. */
#include "core/calibration.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define N CALIBRATION_FACTOR_COUNT

/* Standard deviations: of a single measured run about a calibrated prediction (repeated public runs of one setting scatter
   by 3-10 %), beyond which its loss is linear, and of ln(factor) over stacks. Half of each group of the open table, rows of
   the other half: 4.6 % median error, 4-5 % for noise between 0.05 and 0.12. */
static const double noise = 0.08, huber = 0.15;
static const double spread[N] = {0.25, 0.5, 0.5, 0.5};
/* As in the fit of the shipped constants: first tokens and throughput are noisier, and first tokens move prompts alone. */
static const double weight_of[BAND_METRIC_COUNT] = {1.0, 0.3, 0.3};
static const double slope_step = 0.02, longest_step = 0.5;

static const struct {
  size_t member;
  enum calibration_factor factor;
} moves[] = {
#define MOVES(name, factor)                                                                                            \
  {                                                                                                                    \
    offsetof(struct step_constants, name), CALIBRATION_##factor                                                        \
  }
    MOVES(scale_linear, WORK),
    MOVES(scale_attention, WORK),
    MOVES(scale_experts, WORK),
    MOVES(scale_state, WORK),
    MOVES(scale_collective, WORK),
    MOVES(scale_floor, FIXED),
    MOVES(scale_experts_floor, FIXED),
    MOVES(layer_us, FIXED),
    MOVES(layer_old_us, FIXED),
    MOVES(experts_layer_us, FIXED),
    MOVES(experts_quantise_us, FIXED),
    MOVES(indexer_layer_us, FIXED),
    MOVES(step_us, FIXED),
    MOVES(eager_ampere_us, FIXED),
    MOVES(eager_us, FIXED),
    MOVES(sequence_us, SEQUENCE),
    MOVES(sequence_old_us, SEQUENCE),
    MOVES(scale_prefill, PROMPT),
    MOVES(scale_prefill_eager, PROMPT),
    MOVES(prefill_layer_us, PROMPT),
    MOVES(prefill_layer_trt_us, PROMPT),
    MOVES(prefill_layer_sglang_us, PROMPT),
    MOVES(prefill_layer_sglang_graph_us, PROMPT),
#undef MOVES
};

const char *calibration_factor_name(enum calibration_factor factor)
{
  static const char *const names[N] = {"work", "fixed", "sequence", "prompt"};
  return names[factor];
}

struct calibration calibration_none(void)
{
  struct calibration out;
  for (int i = 0; i < N; i++)
    out.factor_ratio[i] = 1;
  for (int i = 0; i < BAND_METRIC_COUNT; i++)
    out.band_scale[i] = 1;
  return out;
}

struct step_constants calibration_constants(const struct calibration *calibration, const struct step_constants *base)
{
  struct step_constants out = *base;
  for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
    double value;
    memcpy(&value, (const char *)base + moves[i].member, sizeof value);
    value *= calibration->factor_ratio[moves[i].factor];
    memcpy((char *)&out + moves[i].member, &value, sizeof value);
  }
  return out;
}

struct calibration calibration_moved(const struct calibration *calibration, enum calibration_factor factor)
{
  struct calibration out = *calibration;
  out.factor_ratio[factor] *= exp(slope_step);
  return out;
}

/* ---- The fit -------------------------------------------------------------------------------------------------------- */

static bool is_usable(const struct calibration_observation *o)
{
  return o->measured > 0 && o->predicted > 0 && isfinite(o->measured) && isfinite(o->predicted);
}

static double residual(const struct calibration_observation *o)
{
  return log(o->predicted / o->measured);
}

static double slope(const struct calibration_observation *o, int factor)
{
  const double moved = o->moved[factor];
  if ((o->metric == BAND_TTFT && factor != CALIBRATION_PROMPT) || !(moved > 0) || !isfinite(moved))
    return 0;
  return log(moved / o->predicted) / slope_step;
}

/* Normal equations a·x = b of one step. */
struct normal {
  double a[N][N], b[N];
};

static void add_observation(struct normal *normal, const struct calibration_observation *o)
{
  const double r = residual(o);
  double weight = weight_of[o->metric] / (noise * noise);
  double slopes[N];
  if (fabs(r) > huber)
    weight *= huber / fabs(r);
  for (int i = 0; i < N; i++)
    slopes[i] = slope(o, i);
  for (int i = 0; i < N; i++) {
    normal->b[i] -= weight * slopes[i] * r;
    for (int k = 0; k < N; k++)
      normal->a[i][k] += weight * slopes[i] * slopes[k];
  }
}

/* By elimination without pivots: the prior makes the matrix positive definite. */
static void solve(double x[N], struct normal *normal)
{
  for (int i = 0; i < N; i++)
    for (int row = i + 1; row < N; row++) {
      const double ratio = normal->a[row][i] / normal->a[i][i];
      for (int k = i; k < N; k++)
        normal->a[row][k] -= ratio * normal->a[i][k];
      normal->b[row] -= ratio * normal->b[i];
    }
  for (int i = N - 1; i >= 0; i--) {
    x[i] = normal->b[i];
    for (int k = i + 1; k < N; k++)
      x[i] -= normal->a[i][k] * x[k];
    x[i] /= normal->a[i][i];
  }
}

void calibration_improve(struct calibration *calibration, const struct calibration_observation *observations,
                         size_t count)
{
  const double bound = log(CALIBRATION_BOUND);
  struct normal normal = {.b = {0}};
  double change[N];
  for (size_t i = 0; i < count; i++)
    if (is_usable(&observations[i]))
      add_observation(&normal, &observations[i]);
  for (int i = 0; i < N; i++) {
    const double prior = 1 / (spread[i] * spread[i]);
    normal.a[i][i] += prior;
    normal.b[i] -= prior * log(calibration->factor_ratio[i]);
  }
  solve(change, &normal);
  for (int i = 0; i < N; i++) {
    const double step = fmax(-longest_step, fmin(longest_step, change[i]));
    calibration->factor_ratio[i] = exp(fmax(-bound, fmin(bound, log(calibration->factor_ratio[i]) + step)));
  }
}

/* ---- What is left over ---------------------------------------------------------------------------------------------- */

/* Insertion sort: observations are few. */
static void sort(double *values, size_t count)
{
  for (size_t i = 1; i < count; i++) {
    const double value = values[i];
    size_t k = i;
    for (; k > 0 && values[k - 1] > value; k--)
      values[k] = values[k - 1];
    values[k] = value;
  }
}

double calibration_error_ratio(const struct calibration_observation *observations, size_t count,
                               enum band_metric metric, double *scratch)
{
  size_t used = 0;
  for (size_t i = 0; i < count; i++)
    if (observations[i].metric == metric && is_usable(&observations[i]))
      scratch[used++] = fabs(observations[i].predicted / observations[i].measured - 1);
  if (used == 0)
    return (double)NAN;
  sort(scratch, used);
  return (scratch[(used - 1) / 2] + scratch[used / 2]) / 2;
}

/* Half the width of a band that holds 80 % of what is normally distributed, per standard deviation. */
static const double width_of_deviation = 1.2816;
/* The class's band counts as that many observations: a handful of good runs does not make a prediction certain. */
static const double prior_observations = 8;

static double scale_of(const struct calibration_observation *observations, size_t count, enum band_metric metric,
                       double class_width)
{
  double squares = 0, used = 0, width;
  for (size_t i = 0; i < count; i++)
    if (observations[i].metric == metric && is_usable(&observations[i])) {
      squares += residual(&observations[i]) * residual(&observations[i]);
      used++;
    }
  width = sqrt((prior_observations * class_width * class_width + width_of_deviation * width_of_deviation * squares) /
               (prior_observations + used));
  return used > 0 ? fmin(1, width / class_width) : 1;
}

void calibration_narrow(struct calibration *calibration, const struct calibration_observation *observations,
                        size_t count, enum band_class class)
{
  for (int metric = 0; metric < BAND_METRIC_COUNT; metric++) {
    const struct band band = band_of(class, (enum band_metric)metric);
    calibration->band_scale[metric] =
        scale_of(observations, count, (enum band_metric)metric, log(band.high_ratio / band.low_ratio) / 2);
  }
}

struct band calibration_band(const struct calibration *calibration, enum band_class class, enum band_metric metric)
{
  const struct band band = band_of(class, metric);
  const double scale = calibration->band_scale[metric];
  return (struct band){pow(band.low_ratio, scale), pow(band.high_ratio, scale)};
}
