/* One check of a gate while it runs: what its steps share. Private to api/gate_*.c. */
#ifndef FITD_API_GATE_CHECK_H
#define FITD_API_GATE_CHECK_H

#include "api/gate.h"

/* One profile that counts. */
struct candidate {
  const json_t *card; /* borrowed from the evaluation */
  const char *profile;
  char baseline[40];        /* scorecard; "" = none */
  bool is_its_own_baseline; /* there was none: it becomes that when the check passes */
  size_t first_reason, reason_count;
};

struct check {
  struct api_call *call;
  const struct store_gate *row;
  json_t *document; /* of the gate; owned */
  struct gate gate;
  const json_t *sketch, *measured;
  const char *pointer; /* of the sketch in the body */
  struct trial trial;
  struct evaluation evaluation;
  struct store_gate_baselines baselines;
  json_t *waivers; /* in force; owned */
  struct candidate *candidates;
  size_t candidate_count;
  struct gate_reasons reasons;
  enum gate_verdict verdict;
};

/* The regressions of one candidate: against its baseline, or against itself where it has none. gate_baseline.c */
enum err gate_check_regressions(struct check *check, struct candidate *candidate, struct error *e) MUST_CHECK;
/* Verdict, waivers, baselines to be set; the answer, stored. gate_answer.c */
enum err gate_check_finish(json_t **answer, struct check *check, struct error *e) MUST_CHECK;

#endif
