/* Request bodies of the scenarios. Texts belong to the scratch. */
#ifndef FITD_TESTS_LIB_SAMPLE_H
#define FITD_TESTS_LIB_SAMPLE_H

#include "tests/lib/daemon.h"

#include <jansson.h>

struct sample_sketch {
  const char *workload;  /* NULL: support-chat */
  const char *model;     /* NULL: llama-3.1-70b */
  int input_tokens;      /* 0: 2048 */
  int output_tokens;     /* 0: 256 */
  double requests_per_s; /* 0: 2 */
  const char *more;      /* further members of the sketch as JSON text, without braces; NULL: none */
};

const char *sample_sketch(const struct sample_sketch *sketch);
/* The default sketch with further members. */
const char *sample_sketch_with(const char *more);

/* A profile body in the fields of the accelerator catalogue: an H100 SXM with this memory bandwidth and price
   (a number or "null"). */
const char *sample_profile(double memory_bandwidth_gb_s, const char *price_usd_per_hour);

/* POST /v1/evaluations, which must answer 201; the whole document. */
json_t *sample_evaluate(const struct daemon *daemon, const char *sketch);
/* The same for one profile: its only scorecard. */
json_t *sample_scorecard(const struct daemon *daemon, const char *sketch);

#endif
