/* One setting changed and everything evaluated again: what findings, advice and ways out rest on. Nothing here is
   estimated. Private to core. Threads: reentrant. */
#ifndef FITD_CORE_CHANGE_H
#define FITD_CORE_CHANGE_H

#include "core/fit.h"
#include "core/preset.h"

/* What is changed, and how it is evaluated. */
struct change_base {
  const struct fit_request *request;
  enum fit_depth depth;
  struct arena *arena;
  bool is_verdict_enough, is_probe; /* as of fit_request */
};

/* The card of the request with `pointer` set to `value`. *is_possible false: the setting, or the sketch with it, is
   refused (a bound, a layout that the model has not), or takes more memory than allowed; `out` is then not filled. What the evaluation allocates is given
   back: strings of `out` are gone. ERR_CANCELLED. */
enum err change_evaluate(struct scorecard *out, bool *is_possible, const struct change_base *base, const char *pointer,
                         const struct knob_value *value, struct error *e) MUST_CHECK;

/* What the setting is now: the request's, else what was taken for it; KNOB_VALUE_NULL where there is neither. */
struct knob_value change_value(const struct fit_request *request, const struct scorecard *card,
                               const struct preset *preset, const char *pointer);

/* The figures that differ by over 0.5 % between two cards, most telling first. */
void change_effects(struct scorecard_change *change, const struct scorecard *from, const struct scorecard *to);

/* Cost per successful request, or GPUs where no price is known; NaN without a configuration that serves. */
double change_cost(const struct scorecard *card);

/* change_cost_usd over what is saved a month; NaN where either is not there. */
double change_payback_months(const struct scorecard *from, const struct scorecard *to, const struct workload *workload);

#endif
