/* What would make it cheaper or better: one change each, proposed where a finding or a figure calls for it, and advised only
   where the evaluation of the changed sketch bears it out. Private to core; after core/finding.h. */
#ifndef FITD_CORE_ADVICE_H
#define FITD_CORE_ADVICE_H

#include "core/change.h"
#include "core/finding.h"

#define ADVICE_MAX 16

/* Fills the card's advice, and findings that only an evaluation can show (over_sharded, batch_trades_interactivity,
   accuracy_locked). Changes to weights, formats or architecture are withheld unless accuracy is free.
   ERR_LIMIT, ERR_CANCELLED. */
enum err advice_fill(struct finding_case *c, struct error *e) MUST_CHECK;

/* "max_batch 64 -> 128: reason; cost per request 0.011 -> 0.006 USD, …" in the arena; NULL when it is exhausted. */
const char *advice_message(struct arena *arena, const struct scorecard_change *change, const char *reason);

/* Whether the sketch's accuracy policy lets a change of this kind be shown; no quality results are known to core. */
bool advice_is_allowed(const struct workload *workload, enum change_requires requires);

#endif
