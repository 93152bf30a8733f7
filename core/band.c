/* Bands by class, from core/band.def. */
#include "core/band.h"

#include "core/served.h"

#include <math.h>

struct band_row {
  double p10, p90; /* of ln(measured / predicted) */
};
static const struct band_row rows[BAND_CLASS_COUNT][BAND_METRIC_COUNT] = {
#define BAND(class, metric, p10, p90) [BAND_##class][BAND_##metric] = {p10, p90},
#include "core/band.def"
#undef BAND
};

enum band_class band_class_of(const struct engine *engine, bool is_open_loop, double utilisation_ratio)
{
  const double near_saturation = 0.6;
  if (is_open_loop)
    return utilisation_ratio < near_saturation ? BAND_OPEN_LOOP : BAND_NEAR_SATURATION;
  if (engine->preset.is_old_engine || engine->preset.is_eager)
    return BAND_OLD_ENGINE;
  return served_has_experts(engine->model) ? BAND_MOE_CLOSED_LOOP : BAND_DENSE_CLOSED_LOOP;
}

struct band band_of(enum band_class class, enum band_metric metric)
{
  const struct band_row *row = &rows[class][metric];
  const struct band band = {exp(row->p10), exp(row->p90)};
  return band;
}

const char *band_class_name(enum band_class class)
{
  static const char *const names[BAND_CLASS_COUNT] = {"dense_closed_loop", "moe_closed_loop", "old_engine", "open_loop",
                                                      "near_saturation"};
  return names[class];
}
