/* What a check comes to: the verdict with waivers held against it, the baselines that it sets, the answer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gate_check.h"
#include "api/json_memory.h"
#include "api/knobs.h"
#include "api/put.h"
#include "api/write.h"

/* ---- The verdict ---------------------------------------------------------------------------------------------------- */

/* Sign-off, fitting and coverage can not be waived. */
static bool is_waivable(const struct gate_reason *reason)
{
  return strcmp(reason->kind, "sign_off") != 0 && strcmp(reason->kind, "verdict") != 0 &&
         strcmp(reason->kind, "coverage") != 0;
}

/* skipped: the waiver that is left out of account; SIZE_MAX = none. */
static bool is_waived(const struct check *check, const struct gate_reason *reason, size_t skipped)
{
  for (size_t i = 0; i < json_array_size(check->waivers) && is_waivable(reason); i++) {
    const char *metric = json_string_value(json_object_get(json_array_get(check->waivers, i), "metric"));
    if (i != skipped && metric != NULL && strcmp(metric, reason->metric) == 0)
      return true;
  }
  return false;
}

static enum gate_verdict worse(enum gate_verdict a, enum gate_verdict b)
{
  static const int rank[] = {[GATE_PASS] = 0, [GATE_INCONCLUSIVE] = 1, [GATE_FAIL] = 2, [GATE_NO_TARGET] = 3};
  return rank[a] >= rank[b] ? a : b;
}

static enum gate_verdict verdict_over(const struct check *check, size_t first, size_t count, const char *profile,
                                      size_t skipped)
{
  enum gate_verdict verdict = GATE_PASS;
  for (size_t i = first; i < first + count; i++) {
    const struct gate_reason *reason = &check->reasons.rows[i];
    if ((reason->profile == NULL) == (profile == NULL) && !is_waived(check, reason, skipped))
      verdict = worse(verdict, reason->verdict);
  }
  return verdict;
}

static enum gate_verdict verdict_of_candidate(const struct check *check, const struct candidate *candidate,
                                              size_t skipped)
{
  return verdict_over(check, candidate->first_reason, candidate->reason_count, candidate->profile, skipped);
}

/* All profiles: the worst of them; any: the best. Then what is asked of the whole. */
static enum gate_verdict final_verdict(const struct check *check, size_t skipped)
{
  const bool is_any = check->gate.judge == GATE_ANY;
  enum gate_verdict verdict =
      check->candidate_count > 0 ? verdict_of_candidate(check, &check->candidates[0], skipped) : GATE_PASS;
  for (size_t i = 1; i < check->candidate_count; i++) {
    const enum gate_verdict other = verdict_of_candidate(check, &check->candidates[i], skipped);
    const bool is_worse = worse(verdict, other) == other;
    verdict = is_worse != is_any ? other : verdict;
  }
  return worse(verdict, verdict_over(check, 0, check->reasons.count, NULL, skipped));
}

/* A waiver was used where the verdict would have been another without it. */
static bool settle(struct check *check)
{
  bool is_any_used = false;
  json_t *waiver;
  size_t i;
  check->verdict = final_verdict(check, SIZE_MAX);
  for (i = 0; i < check->reasons.count; i++)
    check->reasons.rows[i].is_waived =
        check->reasons.rows[i].verdict != GATE_PASS && is_waived(check, &check->reasons.rows[i], SIZE_MAX);
  json_array_foreach(check->waivers, i, waiver)
  {
    const bool is_used = final_verdict(check, i) != check->verdict;
    is_any_used |= is_used;
    if (json_object_set_new(waiver, "used", json_boolean(is_used)) != 0)
      check->reasons.is_failed = true;
  }
  return is_any_used;
}

/* ---- The answer ----------------------------------------------------------------------------------------------------- */

/* The largest over what was compared; null without a comparison. */
static json_t *smallest_detectable(const struct check *check)
{
  double largest = (double)NAN;
  for (size_t i = 0; i < check->reasons.count; i++)
    if (!check->reasons.rows[i].is_dropped)
      largest = fmax(largest, check->reasons.rows[i].noise);
  return write_number(largest);
}

/* The waiver that decided, else the first in force. */
static json_t *the_waiver(const struct check *check)
{
  for (size_t i = 0; i < json_array_size(check->waivers); i++)
    if (json_is_true(json_object_get(json_array_get(check->waivers, i), "used")))
      return json_incref(json_array_get(check->waivers, i));
  return record_share(json_array_get(check->waivers, 0));
}

static json_t *profiles_write(const struct check *check)
{
  json_t *to = json_array();
  for (size_t i = 0; i < check->candidate_count; i++) {
    const struct candidate *candidate = &check->candidates[i];
    json_t *row = json_object();
    put_member(&row, "profile", json_string(candidate->profile));
    put_member(&row, "verdict", json_string(gate_verdicts[verdict_of_candidate(check, candidate, SIZE_MAX)]));
    put_member(&row, "scorecard", record_share(json_object_get(candidate->card, "id")));
    put_member(&row, "baseline_scorecard", write_text(candidate->baseline[0] != '\0' ? candidate->baseline : NULL));
    put_element(&to, row);
  }
  return to;
}

static enum err undecided(json_t **to, const struct check *check, struct error *e)
{
  struct knobs knobs;
  enum err rc = knobs_load(&knobs, call_store(check->call), check->gate.workload, check->call->now_ms, e);
  *to = NULL;
  if (rc != ERR_OK)
    return rc;
  *to = check->verdict == GATE_NO_TARGET ? json_array() : knobs_undecided(&knobs, check->sketch);
  knobs_fini(&knobs);
  return ERR_OK;
}

static enum err write_answer(json_t **answer, struct check *check, const char *id, struct error *e)
{
  const struct candidate *first = check->candidate_count > 0 ? &check->candidates[0] : NULL;
  json_t *to = json_object(), *changes;
  enum err rc = undecided(&changes, check, e);
  put_member(&to, "id", json_string(id));
  put_member(&to, "created_at", record_time(check->call->now_ms));
  put_member(&to, "gate", json_string(check->row->name));
  put_member(&to, "gate_revision", json_integer(check->row->revision));
  put_member(&to, "workload", json_string(check->trial.sketch.workload.name));
  put_member(&to, "verdict", json_string(gate_verdicts[check->verdict]));
  put_member(&to, "exit_code", json_integer(check->verdict));
  put_member(&to, "reasons", gate_reasons_write(&check->reasons));
  put_member(&to, "smallest_detectable_change", smallest_detectable(check));
  put_member(&to, "undecided_changes", changes);
  put_member(&to, "waiver", the_waiver(check));
  put_member(&to, "waivers", json_incref(check->waivers));
  put_member(&to, "scorecard", record_share(first != NULL ? json_object_get(first->card, "id") : NULL));
  put_member(&to, "baseline_scorecard",
             write_text(first != NULL && first->baseline[0] != '\0' ? first->baseline : NULL));
  put_member(&to, "evaluation", write_text(check->evaluation.id[0] != '\0' ? check->evaluation.id : NULL));
  put_member(&to, "profiles", profiles_write(check));
  put_member(&to, "certainty", write_number(check->gate.certainty));
  put_member(&to, "context", record_share(check->trial.sketch.context));
  put_member(&to, "checked_by", record_token(check->call));
  *answer = to;
  return rc == ERR_OK && to == NULL ? record_nomem(e) : rc;
}

struct insert_work {
  const struct check *check;
  struct store_gate_check row;
};

static enum err insert_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct insert_work *work = cls;
  const struct check *check = work->check;
  enum err rc = store_gate_check_insert(tx, &work->row, e);
  for (size_t i = 0; i < check->candidate_count && rc == ERR_OK; i++) {
    const struct candidate *candidate = &check->candidates[i];
    char profile[65], scorecard[40];
    const struct store_gate_baseline row = {profile, scorecard, work->row.created_at_ms, false};
    if (!candidate->is_its_own_baseline || candidate->baseline[0] == '\0')
      continue;
    (void)snprintf(profile, sizeof profile, "%s", candidate->profile);
    (void)snprintf(scorecard, sizeof scorecard, "%s", candidate->baseline);
    rc = store_gate_set_baseline(tx, check->row->id, &row, e);
  }
  return rc;
}

static enum err store_check_row(struct check *check, const char *id, const json_t *answer, struct error *e)
{
  char *document = json_memory_dumps(answer, WRITE_FLAGS);
  struct insert_work work = {check,
                             {.id = id,
                              .created_at_ms = check->call->now_ms,
                              .gate = check->row->name,
                              .workload = check->trial.sketch.workload.name,
                              .verdict = gate_verdicts[check->verdict],
                              .document = document}};
  const enum err rc =
      document != NULL ? store_write(call_store(check->call), "gate check", insert_work, &work, e) : record_nomem(e);
  free(document);
  return rc;
}

/* A comparison with itself did not take place. */
static void drop_regressions(struct check *check, const struct candidate *candidate)
{
  for (size_t i = 0; i < candidate->reason_count; i++) {
    struct gate_reason *reason = &check->reasons.rows[candidate->first_reason + i];
    if (strcmp(reason->kind, "regression") == 0 && reason->verdict == GATE_PASS)
      reason->is_dropped = true;
  }
}

/* Profiles that had no baseline: a check that passes by itself gives them one. */
static void settle_baselines(struct check *check, bool is_waiver_used)
{
  for (size_t i = 0; i < check->candidate_count; i++) {
    struct candidate *candidate = &check->candidates[i];
    const char *id = json_string_value(json_object_get(candidate->card, "id"));
    if (!candidate->is_its_own_baseline)
      continue;
    if (check->verdict == GATE_PASS && !is_waiver_used && id != NULL &&
        verdict_of_candidate(check, candidate, SIZE_MAX) == GATE_PASS)
      (void)snprintf(candidate->baseline, sizeof candidate->baseline, "%s", id);
    else
      drop_regressions(check, candidate);
  }
}

enum err gate_check_finish(json_t **answer, struct check *check, struct error *e)
{
  char id[37];
  enum err rc;
  settle_baselines(check, settle(check));
  if (check->reasons.is_failed)
    return record_nomem(e);
  call_new_id(check->call, id, 0);
  rc = write_answer(answer, check, id, e);
  return rc == ERR_OK ? store_check_row(check, id, *answer, e) : rc;
}
