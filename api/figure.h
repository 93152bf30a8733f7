/* The figures of a scorecard that agreements speak of, by their dotted path: which way is better, how sure a prediction is,
   and how two scorecards differ in them. Private to api/. */
#ifndef FITD_API_FIGURE_H
#define FITD_API_FIGURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum figure_sense { FIGURE_LOWER_IS_BETTER, FIGURE_HIGHER_IS_BETTER };

/* Which published error band a figure moves with; see figure.c. */
enum figure_band { FIGURE_EXACT, FIGURE_TTFT, FIGURE_ITL, FIGURE_E2E, FIGURE_COST, FIGURE_RATE, FIGURE_MARGIN };

struct figure {
  const char *metric; /* "latency.ttft_ms.p99" */
  const char *label;  /* for people: "TTFT p99" */
  const char *unit;   /* for people: "ms"; "" = none */
  enum figure_sense sense;
  enum figure_band band;
};
extern const struct figure figures[];
extern const size_t figure_count;

const struct figure *figure_find(const char *metric); /* NULL when unknown */
/* All metrics, NULL-terminated: for suggestions. */
const char *const *figure_metrics(void);

/* NaN when the card does not have it. */
double figure_value(const json_t *card, const char *metric);
/* (after - before) / |before|: > 0 is larger. 0 when both are 0; infinite when only before is. */
double figure_change(double before, double after);
/* The same, > 0 when it got worse. */
double figure_worsening(const struct figure *figure, double before, double after);

/* The probability that what will be measured keeps to the limit: at most it where lower is better, at least it otherwise.
   *is_banded tells whether the card publishes a band for the figure; without one it is 0 or 1. */
double figure_probability(bool *is_banded, const struct figure *figure, const json_t *card, double limit);

/* {"metric": {"before", "after", "change", "relative"}} of every figure that differs; NULL when memory is out. */
json_t *figure_deltas(const json_t *before, const json_t *after);

#endif
