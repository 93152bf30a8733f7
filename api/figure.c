/* Figures and their bands. The card publishes p10 and p90 of measured / predicted for TTFT, ITL and throughput; every other
   figure moves with one of them, or is exact given the configuration. */
#include "api/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/put.h"
#include "api/write.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

const struct figure figures[] = {
#define FIGURE(metric, label, unit, sense, band) {metric, label, unit, FIGURE_##sense##_IS_BETTER, FIGURE_##band},
#include "api/figure.def"
#undef FIGURE
};
const size_t figure_count = COUNT_OF(figures);

const struct figure *figure_find(const char *metric)
{
  for (size_t i = 0; i < COUNT_OF(figures); i++)
    if (strcmp(figures[i].metric, metric) == 0)
      return &figures[i];
  return NULL;
}

const char *const *figure_metrics(void)
{
  static const char *const metrics[] = {
#define FIGURE(metric, label, unit, sense, band) metric,
#include "api/figure.def"
#undef FIGURE
      NULL};
  return metrics;
}

double figure_value(const json_t *card, const char *metric)
{
  const json_t *value = card;
  const char *at = metric;
  while (value != NULL && *at != '\0') {
    const size_t length = strcspn(at, ".");
    char name[64];
    if (length >= sizeof name)
      return (double)NAN;
    (void)snprintf(name, sizeof name, "%.*s", (int)length, at);
    value = json_object_get(value, name);
    at += length + (at[length] == '.' ? 1 : 0);
  }
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

double figure_change(double before, double after)
{
  const double digits = 1e-13; /* stored documents have 15 of them */
  const double difference = after - before;
  if (fabs(difference) <= digits * fabs(before))
    return 0;
  return difference / fabs(before);
}

double figure_worsening(const struct figure *figure, double before, double after)
{
  const double change = figure_change(before, after);
  return figure->sense == FIGURE_LOWER_IS_BETTER ? change : -change;
}

/* ---- Probability ---------------------------------------------------------------------------------------------------- */

/* ln of p10 and p90 of measured / predicted. */
struct band {
  double low, high;
};

static bool published_band(struct band *band, const json_t *card, const char *name)
{
  const json_t *pair = json_object_get(json_object_get(card, "uncertainty"), name);
  const double low = json_number_value(json_array_get(pair, 0)), high = json_number_value(json_array_get(pair, 1));
  if (!(low > 0) || !(high > 0))
    return false;
  *band = (struct band){log(low), log(high)};
  return true;
}

/* End to end is the first token and then gaps: both errors at once, weighted by their share of the time. */
static bool e2e_band(struct band *band, const json_t *card)
{
  const double e2e = figure_value(card, "latency.e2e_ms.p50"), ttft = figure_value(card, "latency.ttft_ms.p50");
  struct band first, gaps;
  double share;
  if (!published_band(&first, card, "latency.ttft_ms") || !published_band(&gaps, card, "latency.itl_ms") ||
      !(e2e > 0) || !(ttft >= 0))
    return false;
  share = fmin(1, ttft / e2e);
  band->low = log(share * exp(first.low) + (1 - share) * exp(gaps.low));
  band->high = log(share * exp(first.high) + (1 - share) * exp(gaps.high));
  return true;
}

static bool band_of_figure(struct band *band, enum figure_band kind, const json_t *card)
{
  struct band rate;
  switch (kind) {
  case FIGURE_EXACT: return false;
  case FIGURE_TTFT: return published_band(band, card, "latency.ttft_ms");
  case FIGURE_ITL: return published_band(band, card, "latency.itl_ms");
  case FIGURE_E2E: return e2e_band(band, card);
  case FIGURE_RATE:
  case FIGURE_MARGIN: return published_band(band, card, "throughput");
  case FIGURE_COST: /* the same bill over more or fewer requests */
    if (!published_band(&rate, card, "throughput"))
      return false;
    *band = (struct band){-rate.high, -rate.low};
    return true;
  }
  return false;
}

/* P(ln(measured / predicted) ≤ x): two half normals that meet at the prediction, which is their median, so that a target at
   the prediction itself is met with probability 1/2. z(0.9) = 1.2816. */
static double cumulative(const struct band *band, double x)
{
  const double z90 = 1.2815515655446004, least = 1e-9;
  const double sigma = fmax(x < 0 ? -band->low : band->high, least) / z90;
  return 0.5 * erfc(-x / sigma / sqrt(2));
}

/* ln(measured / predicted) at which the figure stands at its limit. */
static double log_ratio(const struct figure *figure, double actual, double limit)
{
  if (figure->band == FIGURE_MARGIN) /* 1 - load / knee: the knee moves */
    return limit < 1 && actual < 1 ? log((1 - actual) / (1 - limit)) : (double)INFINITY;
  if (strcmp(figure->metric, "throughput.output_tokens_per_s_per_user") == 0)
    return log(actual / limit); /* the reciprocal of a gap */
  return log(limit / actual);
}

double figure_probability(bool *is_banded, const struct figure *figure, const json_t *card, double limit)
{
  const double actual = figure_value(card, figure->metric);
  const bool is_lower = figure->sense == FIGURE_LOWER_IS_BETTER;
  const bool is_met = is_lower ? actual <= limit : actual >= limit;
  struct band band;
  double x;
  *is_banded =
      band_of_figure(&band, figure->band, card) && (figure->band == FIGURE_MARGIN || (actual > 0 && limit > 0));
  if (!*is_banded)
    return is_met ? 1 : 0;
  x = log_ratio(figure, actual, limit);
  if (is_lower || strcmp(figure->metric, "throughput.output_tokens_per_s_per_user") == 0)
    return cumulative(&band, x);
  return 1 - cumulative(&band, x);
}

/* ---- Differences ---------------------------------------------------------------------------------------------------- */

json_t *figure_deltas(const json_t *before, const json_t *after)
{
  json_t *deltas = json_object();
  for (size_t i = 0; i < COUNT_OF(figures); i++) {
    const double a = figure_value(before, figures[i].metric), b = figure_value(after, figures[i].metric);
    json_t *delta;
    if (isnan(a) || isnan(b) || fabs(figure_change(a, b)) <= 0)
      continue;
    delta = json_object();
    put_member(&delta, "before", write_number(a));
    put_member(&delta, "after", write_number(b));
    put_member(&delta, "change", write_number(b - a));
    put_member(&delta, "relative", write_number(figure_change(a, b)));
    put_member(&deltas, figures[i].metric, delta);
  }
  return deltas;
}
