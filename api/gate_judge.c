/* Judging one scorecard by a gate: each thing that was asked for becomes a reason with its own verdict. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/figure.h"
#include "api/gate.h"
#include "api/pointer.h"
#include "api/put.h"
#include "api/read.h"
#include "api/write.h"

const char *const gate_verdicts[] = {"pass", "fail", "inconclusive", "no_target", NULL};

struct gate_reason *gate_reason_add(struct gate_reasons *reasons, const char *metric, const char *kind,
                                    const char *profile, enum gate_verdict verdict)
{
  static struct gate_reason lost; /* written when memory is out, read by nobody */
  const double none = (double)NAN;
  struct gate_reason *rows = realloc(reasons->rows, (reasons->count + 1) * sizeof *rows);
  if (rows == NULL) {
    reasons->is_failed = true;
    return &lost;
  }
  reasons->rows = rows;
  rows[reasons->count] = (struct gate_reason){.metric = metric,
                                              .kind = kind,
                                              .profile = profile,
                                              .verdict = verdict,
                                              .target = none,
                                              .actual = none,
                                              .probability = none,
                                              .margin = none,
                                              .baseline = none,
                                              .limit = none,
                                              .change = none,
                                              .noise = none};
  return &rows[reasons->count++];
}

static json_t *reason_write(const struct gate_reason *reason)
{
  json_t *to = json_object();
  put_member(&to, "metric", json_string(reason->metric));
  put_member(&to, "kind", json_string(reason->kind));
  put_member(&to, "profile", write_text(reason->profile));
  put_member(&to, "verdict", json_string(gate_verdicts[reason->verdict]));
  put_member(&to, "waived", json_boolean(reason->is_waived));
  put_member(&to, "target", write_number(reason->target));
  put_member(&to, "actual", write_number(reason->actual));
  put_member(&to, "probability", write_number(reason->probability));
  put_member(&to, "margin", write_number(reason->margin));
  if (!isnan(reason->limit)) {
    put_member(&to, "baseline", write_number(reason->baseline));
    put_member(&to, "max_regression", write_number(reason->limit));
    put_member(&to, "change", write_number(reason->change));
    put_member(&to, "smallest_detectable_change", write_number(reason->noise));
  }
  put_member(&to, "message", json_string(reason->message));
  return to;
}

json_t *gate_reasons_write(struct gate_reasons *reasons)
{
  static const enum gate_verdict order[] = {GATE_NO_TARGET, GATE_FAIL, GATE_INCONCLUSIVE, GATE_PASS};
  json_t *to = reasons->is_failed ? NULL : json_array();
  for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
    for (size_t i = 0; i < reasons->count; i++)
      if (reasons->rows[i].verdict == order[k] && !reasons->rows[i].is_dropped)
        put_element(&to, reason_write(&reasons->rows[i]));
  return to;
}

/* ---- Targets -------------------------------------------------------------------------------------------------------- */

/* "1,234.5 ms": as much as a person reads. */
static void print_figure(char to[48], const struct figure *figure, double value)
{
  (void)snprintf(to, 48, "%.6g%s%s", value, figure->unit[0] != '\0' ? " " : "", figure->unit);
}

static double margin_of(const struct figure *figure, double target, double actual)
{
  return figure->sense == FIGURE_LOWER_IS_BETTER ? 1 - actual / target : actual / target - 1;
}

static enum gate_verdict verdict_of(double probability, double certainty)
{
  if (probability >= certainty)
    return GATE_PASS;
  return probability <= 1 - certainty ? GATE_FAIL : GATE_INCONCLUSIVE;
}

static void explain_target(struct gate_reason *reason, const struct figure *figure, bool is_measured, bool is_banded)
{
  char actual[48], target[48], how[64] = "";
  const char *const bound = figure->sense == FIGURE_LOWER_IS_BETTER ? "at most" : "at least";
  print_figure(actual, figure, reason->actual);
  print_figure(target, figure, reason->target);
  if (is_banded)
    (void)snprintf(how, sizeof how, ", met with probability %.2f", reason->probability);
  (void)snprintf(reason->message, sizeof reason->message, "%s: %s is %s %s, the target is %s %s (margin %+.1f %%%s)",
                 gate_verdicts[reason->verdict], figure->label, is_measured ? "measured as" : "predicted as", actual,
                 bound, target, 100 * reason->margin, how);
}

static void judge_target(struct gate_reasons *reasons, const struct gate *gate, const struct scorecard_target *target,
                         const json_t *card, const json_t *measured)
{
  const char *profile = json_string_value(json_object_get(card, "profile"));
  const json_t *given = json_object_get(measured, target->metric);
  const struct figure *figure = figure_find(target->metric);
  struct gate_reason *reason = gate_reason_add(reasons, target->metric, "target", profile, GATE_INCONCLUSIVE);
  bool is_banded = false;
  reason->target = target->target;
  reason->actual = given != NULL ? json_number_value(given) : figure_value(card, target->metric);
  if (figure == NULL || isnan(reason->actual)) {
    (void)snprintf(reason->message, sizeof reason->message,
                   "inconclusive: %s is not known, so the target %.6g can not be judged",
                   figure != NULL ? figure->label : target->metric, target->target);
    return;
  }
  reason->margin = margin_of(figure, reason->target, reason->actual);
  if (given != NULL)
    reason->probability = reason->margin >= 0 ? 1 : 0;
  else
    reason->probability = figure_probability(&is_banded, figure, card, reason->target);
  reason->verdict = verdict_of(reason->probability, gate->certainty);
  explain_target(reason, figure, given != NULL, is_banded);
}

/* ---- What else is asked of a scorecard ------------------------------------------------------------------------------ */

/* Without a configuration, or beyond saturation, there are no figures that a target could be held against. */
static void judge_fitting(struct gate_reasons *reasons, const json_t *card)
{
  const char *verdict = json_string_value(json_object_get(card, "verdict"));
  const char *why = json_string_value(json_object_get(card, "no_fit_reason"));
  const char *detail = json_string_value(json_object_get(card, "no_fit_detail"));
  struct gate_reason *reason;
  if (verdict == NULL || strcmp(verdict, "fit") == 0 || !isnan(figure_value(card, "latency.ttft_ms.p50")))
    return;
  reason =
      gate_reason_add(reasons, "verdict", "verdict", json_string_value(json_object_get(card, "profile")), GATE_FAIL);
  (void)snprintf(reason->message, sizeof reason->message, "fail: the sketch does not fit: %s%s%s",
                 why != NULL ? why : "no reason", detail != NULL ? ": " : "", detail != NULL ? detail : "");
}

/* The newest score of the card's model in its formats; NaN where there is none. */
static enum err find_score(double *score, struct store *store, const json_t *card, const json_t *target,
                           struct error *e)
{
  const json_t *precision = pointer_get(card, "/configuration/precision");
  const char *model = json_string_value(json_object_get(card, "model"));
  const char *weights = json_string_value(json_object_get(precision, "weights"));
  const char *kv_cache = json_string_value(json_object_get(precision, "kv_cache"));
  const char *slice = json_string_value(json_object_get(target, "slice"));
  enum err rc = ERR_NOT_FOUND;
  if (model != NULL && weights != NULL && kv_cache != NULL)
    rc = store_quality_newest(store, score, model, weights, kv_cache,
                              json_string_value(json_object_get(target, "benchmark")), slice != NULL ? slice : "", e);
  if (rc == ERR_NOT_FOUND)
    *score = (double)NAN;
  return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static void judge_score(struct gate_reasons *reasons, const json_t *card, const json_t *target, double score)
{
  const char *slice = json_string_value(json_object_get(target, "slice"));
  const char *benchmark = json_string_value(json_object_get(target, "benchmark"));
  struct gate_reason *reason = gate_reason_add(reasons, "quality", "quality",
                                               json_string_value(json_object_get(card, "profile")), GATE_INCONCLUSIVE);
  char seen[32] = "";
  reason->target = json_number_value(json_object_get(target, "min"));
  reason->actual = score;
  if (!isnan(score)) {
    reason->verdict = score >= reason->target ? GATE_PASS : GATE_FAIL;
    reason->probability = score >= reason->target ? 1 : 0;
    reason->margin = reason->target > 0 ? score / reason->target - 1 : (double)NAN;
    (void)snprintf(seen, sizeof seen, "%.6g", score);
  }
  (void)snprintf(reason->message, sizeof reason->message,
                 "%s: quality by %.80s%s%.40s is %s, the target is at least %.6g", gate_verdicts[reason->verdict],
                 benchmark, slice != NULL ? ", slice " : "", slice != NULL ? slice : "",
                 isnan(score) ? "unmeasured for this model and precision" : seen, reason->target);
}

enum err gate_judge_card(struct gate_reasons *reasons, struct store *store, const struct gate *gate, const json_t *card,
                         const json_t *measured, struct error *e)
{
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  const size_t count = gate_targets(list, gate);
  enum err rc = ERR_OK;
  judge_fitting(reasons, card);
  for (size_t i = 0; i < count; i++)
    judge_target(reasons, gate, &list[i], card, measured);
  for (size_t i = 0; i < json_array_size(gate->quality) && rc == ERR_OK; i++) {
    double score;
    rc = find_score(&score, store, card, json_array_get(gate->quality, i), e);
    if (rc == ERR_OK)
      judge_score(reasons, card, json_array_get(gate->quality, i), score);
  }
  return rc;
}

/* ---- Regressions ---------------------------------------------------------------------------------------------------- */

/* An unchanged figure passes whatever the noise; otherwise only what is nearer to the limit than the noise is open. */
static enum gate_verdict judge_change(double worsening, double limit, double noise)
{
  if (fabs(worsening) <= 0 || (worsening < 0 && noise <= TRIAL_ARITHMETIC))
    return GATE_PASS;
  if (fabs(worsening - limit) < noise)
    return GATE_INCONCLUSIVE;
  return worsening <= limit ? GATE_PASS : GATE_FAIL;
}

static void explain_regression(struct gate_reason *reason, const struct figure *figure)
{
  char before[48], after[48];
  print_figure(before, figure, reason->baseline);
  print_figure(after, figure, reason->actual);
  if (fabs(reason->change) <= 0) {
    (void)snprintf(reason->message, sizeof reason->message, "%s: %s is unchanged at %s; the limit is %.2f %% worse",
                   gate_verdicts[reason->verdict], figure->label, after, 100 * reason->limit);
    return;
  }
  (void)snprintf(reason->message, sizeof reason->message,
                 "%s: %s went from %s to %s, %.2f %% %s; the limit is %.2f %% worse%s", gate_verdicts[reason->verdict],
                 figure->label, before, after, 100 * fabs(reason->change), reason->change > 0 ? "worse" : "better",
                 100 * reason->limit,
                 reason->verdict == GATE_INCONCLUSIVE ? ", nearer than what can be told from chance" : "");
}

static void judge_regression(struct gate_reasons *reasons, const char *profile, const struct figure *figure,
                             double limit, const json_t *card, const json_t *baseline, double noise)
{
  struct gate_reason *reason = gate_reason_add(reasons, figure->metric, "regression", profile, GATE_INCONCLUSIVE);
  const double worst = figure->sense == FIGURE_LOWER_IS_BETTER ? 1 + limit : 1 - limit;
  reason->limit = limit;
  reason->noise = noise;
  reason->baseline = figure_value(baseline, figure->metric);
  reason->actual = figure_value(card, figure->metric);
  if (fabs(figure_change(reason->baseline, reason->actual)) <= 0)
    reason->baseline = reason->actual; /* to the last digit too, which a stored one has lost */
  reason->target = reason->baseline * worst;
  if (isnan(reason->baseline) || isnan(reason->actual)) {
    (void)snprintf(reason->message, sizeof reason->message,
                   "inconclusive: %s is not known %s, so its change can not be judged", figure->label,
                   isnan(reason->actual) ? "at the baseline's configuration" : "of the baseline");
    return;
  }
  reason->change = figure_worsening(figure, reason->baseline, reason->actual);
  reason->margin = limit - reason->change;
  reason->verdict = judge_change(reason->change, limit, noise);
  explain_regression(reason, figure);
}

void gate_judge_regressions(struct gate_reasons *reasons, const struct gate *gate, const char *profile,
                            const json_t *card, const json_t *baseline, const double *noise)
{
  const char *metric;
  json_t *limit;
  json_object_foreach(read_iterable(gate->max_regression), metric, limit)
  {
    const struct figure *figure = figure_find(metric);
    if (figure != NULL)
      judge_regression(reasons, profile, figure, json_number_value(limit), card, baseline, noise[figure - figures]);
  }
}
