/* Two scorecards beside one another: what differs, which inputs changed, and what each of them did to the figures, found by
   evaluating again with one input of the second at a time. Private to api/. */
#ifndef FITD_API_COMPARE_H
#define FITD_API_COMPARE_H

#include "api/explain.h"

/* In the order of the waterfall. A stack moves no figure itself; the calibration that it selects does. */
enum compare_input {
  COMPARE_SKETCH,
  COMPARE_TRACE,
  COMPARE_MODEL,
  COMPARE_PROFILE,
  COMPARE_PRICE,
  COMPARE_STACK,
  COMPARE_CALIBRATION,
  COMPARE_CORE_VERSION,
  COMPARE_INPUTS
};
const char *compare_input_name(enum compare_input input); /* "sketch", … */

/* {"before", "after", "figures", "words", "inputs", "waterfall"}. ERR_CONFLICT: this version can not evaluate one of them. */
enum err compare_write(json_t **out, const struct explain_inputs *before, const struct explain_inputs *after,
                       size_t arena_bytes, struct error *e) MUST_CHECK;

/* malloc'ed; NULL when memory is out. */
char *compare_csv(const json_t *document);
char *compare_markdown(const json_t *document);

#endif
