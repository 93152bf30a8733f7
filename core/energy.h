/* What the boards of a fleet draw, and per request and token. Pure functions. Private to core. */
#ifndef FITD_CORE_ENERGY_H
#define FITD_CORE_ENERGY_H

#include "core/search.h"

/* A fleet whose replicas work `busy_ratio` of the time and finish so many requests and tokens a second; NaN where the
   profile states no board limit. */
struct scorecard_energy energy_of(const struct candidate *candidate, double busy_ratio, double requests_per_s,
                                  double output_tok_s);

#endif
