/* Quality targets of a sketch against results of benchmarks posted for its model in the formats of a scorecard. Private to
   api/. */
#ifndef FITD_API_QUALITY_H
#define FITD_API_QUALITY_H

#include "api/evaluation.h"

#define QUALITY_TARGETS_MAX 32

enum quality_verdict { QUALITY_UNMEASURED, QUALITY_MET, QUALITY_MISSED };
struct quality_target {
  char metric[280];     /* "quality.ifeval.de" */
  double least, actual; /* actual NaN = not measured */
};
struct quality {
  enum quality_verdict verdict; /* missed when one target is, met when all are */
  struct quality_target targets[QUALITY_TARGETS_MAX];
  size_t count;
};

/* store NULL (offline), or no configuration: nothing is measured. */
enum err quality_judge(struct quality *out, struct store *store, const struct sketch *sketch,
                       const struct scorecard *card, struct error *e) MUST_CHECK;
const char *quality_verdict_name(const struct quality *quality); /* NULL: unmeasured */
/* Appends the targets to a scorecard's list; false when memory is out. */
bool quality_write(json_t *targets, const struct quality *quality);

#endif
