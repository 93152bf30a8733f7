/* Gates: what a gate asks for, and one check of it. Private to api/. */
#ifndef FITD_API_GATE_H
#define FITD_API_GATE_H

#include "api/record.h"
#include "api/trial.h"
#include "core/targets.h"

enum gate_judge { GATE_ALL, GATE_ANY, GATE_RECOMMENDED };

/* A gate as read; JSON values and texts are borrowed from the document. */
struct gate {
  char workload[65];
  const json_t *profiles; /* names; NULL: the candidates of the sketch */
  int judge;              /* enum gate_judge */
  struct workload_targets targets;
  const json_t *quality;        /* targets.quality; NULL = none */
  const json_t *max_regression; /* {metric: largest worsening}; NULL = none */
  double certainty;
  int on_inconclusive; /* 0 fail, 1 warn */
  const json_t *require_stack;
  double measurement_max_age_days; /* NaN: none is asked for */
  const json_t *signed_off;        /* array; NULL = nobody */
  struct record_moment expires_at;
};
/* snapshot: where profiles are looked up; NULL for what is stored already. */
void gate_read(struct gate *out, const json_t *body, const struct catalogue_snapshot *snapshot, int64_t now_ms,
               struct faults *faults);
/* Every target of the gate with nothing known about it yet; returns their number. */
size_t gate_targets(struct scorecard_target list[SCORECARD_TARGETS_MAX], const struct gate *gate);
/* What a waiver may speak of: the metrics of targets and max_regression, and "quality", "stack", "measurement" where the gate
   asks for them. NULL-terminated; at most GATE_METRICS_MAX of them. */
#define GATE_METRICS_MAX (SCORECARD_TARGETS_MAX + 64)
void gate_metrics(const char *metrics[GATE_METRICS_MAX + 1], const struct gate *gate);

enum gate_verdict { GATE_PASS, GATE_FAIL, GATE_INCONCLUSIVE, GATE_NO_TARGET }; /* the exit code of a check */
extern const char *const gate_verdicts[];

/* One thing that was judged. */
struct gate_reason {
  const char *metric;  /* a figure's path, or what else was asked for: "verdict", "signed_off", "stack" … */
  const char *kind;    /* target | regression | quality | measurement | stack | verdict | sign_off | coverage */
  const char *profile; /* NULL: the gate as a whole */
  enum gate_verdict verdict;
  bool is_waived;
  bool is_dropped;                            /* is not answered */
  double target, actual, probability, margin; /* NaN = there is none */
  double baseline, limit, change, noise;      /* of a regression; else NaN */
  char message[320];
};
struct gate_reasons {
  struct gate_reason *rows;
  size_t count;
  bool is_failed; /* memory is out */
};
/* The new reason, to be filled in; never NULL. */
struct gate_reason *gate_reason_add(struct gate_reasons *reasons, const char *metric, const char *kind,
                                    const char *profile, enum gate_verdict verdict);
json_t *gate_reasons_write(struct gate_reasons *reasons); /* sorted: fail, inconclusive, pass */

/* Figures that were measured for the sketch: {metric: number}; NULL = none. */
void gate_check_measured(const json_t *measured, const char *pointer, struct faults *faults);

/* Targets, quality and fitting of one scorecard. */
enum err gate_judge_card(struct gate_reasons *reasons, struct store *store, const struct gate *gate, const json_t *card,
                         const json_t *measured, struct error *e) MUST_CHECK;
/* Regressions of `card` on a profile, held at the baseline's configuration. noise: by figure, see trial_noise. The profile's
   name must live as long as the reasons; the cards need not. */
void gate_judge_regressions(struct gate_reasons *reasons, const struct gate *gate, const char *profile,
                            const json_t *card, const json_t *baseline, const double *noise);

/* Runs one check of a stored gate with the body of the call and stores it. *answer is the caller's; *stops tells whether
   ?enforce=true turns it into a refusal. */
enum err gate_check(json_t **answer, bool *stops, struct api_call *call, const struct store_gate *row,
                    struct error *e) MUST_CHECK;

#endif
