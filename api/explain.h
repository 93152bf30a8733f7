/* The answer of GET /v1/scorecards/{id}/explain: from the store's texts to the core's explanation, and from that to JSON and
   Markdown. Private to api/. */
#ifndef FITD_API_EXPLAIN_H
#define FITD_API_EXPLAIN_H

#include "api/call.h"
#include "api/evaluation.h"
#include "core/explain.h"

/* What a stored scorecard was made from, at the revisions that it names. */
struct explain_inputs {
  json_t *card; /* owned */
  struct sketch sketch;
  struct catalogue_profile profile;
  bool has_configuration;
  struct explain_configuration configuration;
  bool has_calibration;
  struct calibration calibration; /* that the scorecard names, retired since or not */
};
/* ERR_NOT_FOUND: no such scorecard. ERR_CONFLICT: this version can not read the stored sketch. */
enum err explain_load(struct explain_inputs *out, struct api_call *call, const char *id, struct error *e) MUST_CHECK;
void explain_inputs_fini(struct explain_inputs *inputs);

/* NULL when memory is out. */
json_t *explain_write(const struct explanation *explanation, const struct explain_inputs *inputs);
char *explain_markdown(const json_t *document);

#endif
