/* When a target is missed or nothing fits: for every setting that could give way the smallest single change that makes it
   fit, found on the evaluation itself. Private to core; after core/finding.h.
   Each way out fits; moved back towards what is now by 1 %, by one of a count or by one place of a list, it does not.
   Ordered by what it takes (settings of the engine, requantising, a promise, more hardware, retraining), then by cost. */
#ifndef FITD_CORE_WAYS_OUT_H
#define FITD_CORE_WAYS_OUT_H

#include "core/change.h"
#include "core/finding.h"

#define WAYS_OUT_MAX 40

/* Fills the card's ways out unless it fits; the verdict becomes fit_with_changes where one takes configuration or
   requantisation alone. ERR_LIMIT, ERR_CANCELLED. */
enum err ways_out_fill(struct finding_case *c, struct error *e) MUST_CHECK;

#endif
