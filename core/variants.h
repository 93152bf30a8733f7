/* What depth full adds to a scorecard: the same sketch evaluated with other precisions (the fallback ladder, priced), and
   the chosen configuration on a slightly better device (what to pay for). Private to core/fit.c. */
#ifndef FITD_CORE_VARIANTS_H
#define FITD_CORE_VARIANTS_H

#include "core/fit.h"

/* Fills ladder and sensitivity. The arena is given back what the variants used. */
enum err variants_fill(struct scorecard *card, const struct fit_request *request, struct arena *arena,
                       struct error *e) MUST_CHECK;

#endif
