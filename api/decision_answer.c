/* What became of a decision: its status as of a moment, and its outcome, which holds the effect it was expected to have
   against the newest scorecard of the workload's official sketch. */
#include "api/decision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/figure.h"
#include "api/json_memory.h"
#include "api/pointer.h"
#include "api/put.h"
#include "api/write.h"

#define WORTH_RATIO 0.01    /* changes below 1 % were not what the decision was for */
#define DELIVERED_RATIO 0.9 /* of the expected improvement */
#define SLACK_RATIO 0.02    /* by which a figure may be beside what was expected before it counts */

/* ---- Outcome -------------------------------------------------------------------------------------------------------- */

enum outcome { OUTCOME_DELIVERED, OUTCOME_SHORT, OUTCOME_WORSE, OUTCOME_NOT_JUDGED };
static const char *const outcome_names[] = {"delivered", "short", "worse", "unmeasured"};

/* One figure: an improvement that was expected must be there; a price that was expected to be paid must not be higher. */
static enum outcome judge(const struct figure *figure, double before, double expected, double actual)
{
  const double hoped = -figure_worsening(figure, before, expected);
  const double got = -figure_worsening(figure, before, actual);
  if (hoped >= WORTH_RATIO) {
    if (got >= DELIVERED_RATIO * hoped)
      return OUTCOME_DELIVERED;
    return got < -SLACK_RATIO ? OUTCOME_WORSE : OUTCOME_SHORT;
  }
  if (hoped <= -WORTH_RATIO)
    return got < hoped - SLACK_RATIO ? OUTCOME_WORSE : OUTCOME_DELIVERED;
  return OUTCOME_NOT_JUDGED;
}

static json_t *outcome_figure(const struct figure *figure, double before, double expected, double actual,
                              enum outcome outcome)
{
  json_t *to = json_object();
  put_member(&to, "before", write_number(before));
  put_member(&to, "expected", write_number(expected));
  put_member(&to, "actual", write_number(actual));
  put_member(&to, "expected_relative", write_number(figure_change(before, expected)));
  put_member(&to, "actual_relative", write_number(figure_change(before, actual)));
  put_member(&to, "better", json_string(figure->sense == FIGURE_LOWER_IS_BETTER ? "lower" : "higher"));
  put_member(&to, "outcome", json_string(outcome_names[outcome]));
  return to;
}

/* The worst of the figures that were judged. */
static enum outcome judge_all(json_t **to, const json_t *expected_effect, const json_t *newer)
{
  enum outcome worst = OUTCOME_DELIVERED;
  bool is_judged = false;
  for (size_t i = 0; i < figure_count; i++) {
    const json_t *delta = json_object_get(expected_effect, figures[i].metric);
    const double before = json_number_value(json_object_get(delta, "before"));
    const double expected = json_number_value(json_object_get(delta, "after"));
    const double actual = figure_value(newer, figures[i].metric);
    enum outcome outcome;
    if (delta == NULL || isnan(actual))
      continue;
    outcome = judge(&figures[i], before, expected, actual);
    put_member(to, figures[i].metric, outcome_figure(&figures[i], before, expected, actual, outcome));
    if (outcome == OUTCOME_NOT_JUDGED)
      continue;
    is_judged = true;
    worst = outcome > worst ? outcome : worst;
  }
  return is_judged ? worst : OUTCOME_NOT_JUDGED;
}

json_t *decision_outcome(const json_t *expected_effect, const json_t *newer)
{
  json_t *to = json_object(), *judged = json_object();
  const enum outcome outcome = newer != NULL ? judge_all(&judged, expected_effect, newer) : OUTCOME_NOT_JUDGED;
  put_member(&to, "outcome", json_string(outcome_names[outcome]));
  put_member(&to, "outcome_scorecard", record_share(json_object_get(newer, "id")));
  put_member(&to, "outcome_figures", judged);
  return to;
}

/* ---- The newer scorecard -------------------------------------------------------------------------------------------- */

/* The scorecard of the workload's newest official evaluation on the decision's profile, when it was made after the decision
   was recorded; NULL otherwise. */
static enum err find_newer(json_t **out, const struct api_call *call, const struct store_decision *row,
                           const json_t *document, struct error *e)
{
  const char *profile = json_string_value(json_object_get(document, "profile"));
  struct store_evaluation official;
  struct store_scorecards list = {.rows = NULL};
  enum err rc = store_evaluation_official(call_store(call), &official, row->workload, e);
  *out = NULL;
  if (rc == ERR_NOT_FOUND)
    return ERR_OK;
  if (rc != ERR_OK)
    return rc;
  if (official.created_at_ms > row->created_at_ms)
    rc = store_evaluation_scorecards(call_store(call), &list, official.id, e);
  for (size_t i = 0; rc == ERR_OK && i < list.count && *out == NULL; i++)
    if (profile == NULL || strcmp(list.rows[i].profile, profile) == 0)
      rc = record_parse(out, list.rows[i].document, e);
  store_scorecards_fini(&list);
  store_evaluation_fini(&official);
  return rc;
}

/* Sets "a.b.c" of a document. */
static bool set_figure(json_t *document, const char *metric, double value)
{
  char pointer[160];
  json_t *number = write_number(value);
  bool is_set;
  (void)snprintf(pointer, sizeof pointer, "/%s", metric);
  for (char *at = pointer; *at != '\0'; at++)
    *at = *at == '.' ? '/' : *at;
  is_set = number != NULL && pointer_set(document, pointer, number);
  json_decref(number);
  return is_set;
}

/* What was measured since takes the place of what is predicted. *measurement gets its id, the caller's; NULL = none. */
static enum err take_measured(json_t **newer, char **measurement, const struct api_call *call,
                              const struct store_decision *row, const json_t *document, struct error *e)
{
  const struct store_history_filter filter = {.workload = row->workload,
                                              .profile = json_string_value(json_object_get(document, "profile")),
                                              .since_ms = row->created_at_ms + 1};
  const struct store_page page = {.limit = 1};
  struct store_measurements list;
  json_t *measured = NULL;
  enum err rc = store_measurement_list(call_store(call), &list, &filter, &page, e);
  if (rc != ERR_OK || list.count == 0)
    return rc;
  rc = record_parse(&measured, list.rows[0].document, e);
  *measurement = strdup(list.rows[0].id);
  if (rc == ERR_OK && *newer == NULL)
    *newer = json_object();
  for (size_t i = 0; rc == ERR_OK && i < figure_count; i++) {
    const json_t *figure = json_object_get(json_object_get(measured, "figures"), figures[i].metric);
    const json_t *value = json_object_get(figure, "measured");
    if (json_is_number(value) && !set_figure(*newer, figures[i].metric, json_number_value(value)))
      rc = record_nomem(e);
  }
  if (*measurement == NULL)
    rc = record_nomem(e);
  json_decref(measured);
  store_measurements_fini(&list);
  return rc;
}

enum err decision_answer(char **text, const struct api_call *call, const struct store_decision *row, struct error *e)
{
  json_t *document, *newer = NULL, *tail = NULL;
  char *measurement = NULL;
  enum err rc = record_parse(&document, row->document, e);
  *text = NULL;
  if (rc != ERR_OK)
    return rc;
  if (json_is_object(json_object_get(document, "expected_effect")))
    rc = find_newer(&newer, call, row, document, e);
  if (rc == ERR_OK && json_is_object(json_object_get(document, "expected_effect")))
    rc = take_measured(&newer, &measurement, call, row, document, e);
  if (rc == ERR_OK) {
    char *rest;
    tail = decision_outcome(json_object_get(document, "expected_effect"), newer);
    put_member(&tail, "outcome_measurement", write_text(measurement));
    put_member(&tail, "status", json_string(row->status));
    put_member(&tail, "ended_by", write_text(row->ended_by[0] != '\0' ? row->ended_by : NULL));
    rest = tail != NULL ? json_memory_dumps(tail, WRITE_FLAGS) : NULL;
    *text = rest != NULL ? record_splice_steal(json_incref(document), rest) : NULL;
    free(rest);
    rc = *text != NULL ? ERR_OK : record_nomem(e);
  }
  free(measurement);
  json_decref(tail);
  json_decref(newer);
  json_decref(document);
  return rc;
}
