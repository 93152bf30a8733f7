/* Turning a search result into the scorecard that people read. Private to core: the facade is core/fit.h. */
#ifndef FITD_CORE_SCORECARD_H
#define FITD_CORE_SCORECARD_H

#include "core/notes.h"
#include "core/search.h"

/* Sets every number to NaN or 0. */
void scorecard_clear(struct scorecard *card);

/* Fills everything but assumptions and fallbacks. `notes` gets sentences about defaults used on the way.
   ERR_LIMIT when the arena is exhausted. */
enum err scorecard_fill(struct scorecard *card, const struct search_result *result, const struct search_input *input,
                        struct arena *arena, struct error *e) MUST_CHECK;

/* What stops a replica of the candidate at saturation. */
enum limit scorecard_first_limit(const struct candidate *best, const struct search_input *input);

void scorecard_add_finding(struct scorecard *card, const char *code, enum severity severity, const char *message,
                           const struct scorecard_evidence *evidence, size_t count);

#endif
