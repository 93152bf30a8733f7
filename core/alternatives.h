/* What else there is than serving it oneself: the managed API of the sketch's constraints, and from which rate on a fleet is
   cheaper. Pure functions. Private to core. */
#ifndef FITD_CORE_ALTERNATIVES_H
#define FITD_CORE_ALTERNATIVES_H

#include "core/fit.h"

/* From a card with its fleet and bill filled in. */
void alternatives_fill(struct scorecard *card, const struct workload *workload);

#endif
