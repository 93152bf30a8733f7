/* What becomes of a chosen configuration when the world is worse than the sketch says: each case changes one thing and is
   simulated with 2,000 requests, the same ones for all. Private to core. */
#ifndef FITD_CORE_STRESS_H
#define FITD_CORE_STRESS_H

#include "core/judge.h"

/* Fills card->stress for the configuration `best`. Errors as of judge_run. */
enum err stress_fill(struct scorecard *card, const struct search_input *input, const struct candidate *best,
                     const struct judge_options *options, struct arena *arena, struct error *e) MUST_CHECK;

#endif
