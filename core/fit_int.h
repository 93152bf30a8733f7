/* What the facade shares with core/explain.c, core/fit_options.c and core/fit_report.c. Private to core. */
#ifndef FITD_CORE_FIT_INT_H
#define FITD_CORE_FIT_INT_H

#include "core/notes.h"
#include "core/search.h"

/* The request with everything filled in that the sketch leaves open, each default noted. Errors as of fit_evaluate. */
enum err fit_resolve(struct search_input *input, const struct fit_request *request, struct notes *notes,
                     struct arena *arena, struct error *e) MUST_CHECK;

/* Power cap, adapters, speculative decoding, pools: resolved at the end of fit_resolve (fit_options.c), reported once the
   scorecard is filled (fit_report.c). ERR_INVALID with the field's pointer, ERR_LIMIT. */
enum err fit_options_resolve(struct search_input *input, const struct fit_request *request, struct notes *notes,
                             struct arena *arena, struct error *e) MUST_CHECK;
enum err fit_options_report(struct scorecard *card, struct notes *notes, const struct search_result *result,
                            const struct search_input *input, struct arena *arena, struct error *e) MUST_CHECK;

#endif
