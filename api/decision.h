/* Decisions: dated, immutable records of a knob turned. Reading one, recording it, and answering it with what followed.
   Private to api/. */
#ifndef FITD_API_DECISION_H
#define FITD_API_DECISION_H

#include "api/call.h"
#include "api/record.h"

/* A decision as sent; texts and values are borrowed from the body. */
struct decision {
  struct record_moment date, review_by;
  char workload[65], knob[65], review[16];
  const json_t *from, *to, *stack;
  const char *rationale, *owner, *rollback_plan, *approved_by;
  char before_scorecard[40], after_scorecard[40], supersedes[40]; /* "" = none */
  bool is_revert;
};
/* Reads the fields of a decision. The names of a workload and knob that are known already may be given in *out before. */
void decision_read(struct decision *out, const json_t *body, const char *pointer, struct faults *faults);

/* Checks it against what is stored, computes the expected effect, stores it; id[] gets its id. ERR_INVALID with faults
   (pointers under `pointer`), ERR_CONFLICT when what it supersedes is not in force. */
enum err decision_record(char id[37], struct api_call *call, const struct decision *decision, const char *pointer,
                         struct error *e) MUST_CHECK;

/* The answer: the record, its status and its outcome. malloc'ed text in *text. */
enum err decision_answer(char **text, const struct api_call *call, const struct store_decision *row,
                         struct error *e) MUST_CHECK;

/* Outcome of an expected effect: {"outcome": delivered | short | worse | unmeasured, "outcome_scorecard", "outcome_figures"},
   from figure_deltas and a newer scorecard (NULL: unmeasured). NULL when memory is out. */
json_t *decision_outcome(const json_t *expected_effect, const json_t *newer);

#endif
