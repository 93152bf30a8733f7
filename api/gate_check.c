/* One check of a gate: evaluate, judge, record. The same sketch against the same gate and catalogue gives the same answer
   apart from ids and times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gate_check.h"
#include "api/json_memory.h"
#include "api/pointer.h"
#include "api/read.h"
#include "api/write.h"

#define DAY_MS INT64_C(86400000)

/* ---- The body ------------------------------------------------------------------------------------------------------- */

/* A sketch, or {sketch, measured}. */
static void read_body(struct check *check)
{
  const json_t *body = check->call->body;
  const struct read_field fields[] = {
      {.name = "sketch", .kind = READ_CALL, .is_required = true, .to = &check->sketch, .call = record_read_any},
      {.name = "measured", .kind = READ_CALL, .allows_null = true, .to = &check->measured, .call = record_read_any},
  };
  check->sketch = body;
  check->pointer = "";
  if (json_object_get(body, "sketch") == NULL)
    return;
  check->pointer = "/sketch";
  (void)read_object(body, "", fields, sizeof fields / sizeof fields[0], check->call->faults);
  if (check->measured != NULL)
    gate_check_measured(check->measured, "/measured", check->call->faults);
}

/* ---- What is asked of the gate itself and of the sketch as a whole -------------------------------------------------- */

static void judge_sign_off(struct check *check)
{
  const struct record_moment *expiry = &check->gate.expires_at;
  struct gate_reason *reason;
  if (json_array_size(check->gate.signed_off) == 0) {
    reason = gate_reason_add(&check->reasons, "signed_off", "sign_off", NULL, GATE_FAIL);
    (void)snprintf(reason->message, sizeof reason->message, "fail: nobody has signed the gate %s off",
                   check->row->name);
  }
  if (expiry->is_given && record_moment_end_ms(expiry) < check->call->now_ms) {
    reason = gate_reason_add(&check->reasons, "expires_at", "sign_off", NULL, GATE_FAIL);
    (void)snprintf(reason->message, sizeof reason->message, "fail: the gate %s expired on %s and must be signed anew",
                   check->row->name, expiry->text);
  }
}

/* Every part that is required, and nothing is said of others. */
static bool has_parts(const json_t *stack, const json_t *required)
{
  const char *part;
  json_t *value;
  json_object_foreach(read_iterable(required), part, value)
  {
    if (!pointer_same_value(json_object_get(stack, part), value))
      return false;
  }
  return true;
}

static bool is_required_stack(const struct check *check)
{
  const struct sketch *sketch = &check->trial.sketch;
  const char *name = json_string_value(check->gate.require_stack);
  const struct catalogue_stack *stored;
  json_t *parts;
  bool is_it;
  if (name == NULL)
    return sketch->stack != NULL && has_parts(sketch->stack, check->gate.require_stack);
  if (strcmp(name, sketch->stack_name) == 0)
    return true;
  stored = catalogue_find_stack(check->trial.snapshot, name);
  if (stored == NULL || sketch->stack == NULL)
    return false;
  parts = stack_write(stored);
  is_it = parts != NULL && has_parts(sketch->stack, parts);
  json_decref(parts);
  return is_it;
}

static void judge_stack(struct check *check)
{
  const json_t *required = check->gate.require_stack, *stack = check->trial.sketch.stack;
  struct gate_reason *reason;
  char *wanted, *seen;
  if (required == NULL)
    return;
  reason = gate_reason_add(&check->reasons, "stack", "stack", NULL, is_required_stack(check) ? GATE_PASS : GATE_FAIL);
  wanted = json_memory_dumps(required, WRITE_FLAGS | JSON_ENCODE_ANY);
  seen = stack != NULL ? json_memory_dumps(stack, WRITE_FLAGS) : NULL;
  (void)snprintf(reason->message, sizeof reason->message, "%s: the stack is %.120s, %.120s is required",
                 gate_verdicts[reason->verdict], seen != NULL ? seen : "not given",
                 wanted != NULL ? wanted : "another");
  free(wanted);
  free(seen);
}

/* Whether one of this workload and profile was posted lately. */
static enum err find_measurement(bool *is_found, const struct check *check, const char *profile, struct error *e)
{
  const double days = check->gate.measurement_max_age_days;
  const struct store_history_filter filter = {.workload = check->gate.workload,
                                              .profile = profile,
                                              .since_ms = check->call->now_ms - (int64_t)(days * (double)DAY_MS)};
  const struct store_page page = {.limit = 1};
  struct store_measurements list;
  const enum err rc = store_measurement_list(call_store(check->call), &list, &filter, &page, e);
  *is_found = rc == ERR_OK && list.count > 0;
  if (rc == ERR_OK)
    store_measurements_fini(&list);
  return rc;
}

/* The check brings one, or it was posted before. */
static enum err judge_measurement(struct check *check, const char *profile, struct error *e)
{
  const double days = check->gate.measurement_max_age_days;
  const bool is_brought = json_object_size(check->measured) > 0;
  bool is_found = false;
  struct gate_reason *reason;
  enum err rc = ERR_OK;
  if (isnan(days))
    return ERR_OK;
  if (!is_brought)
    rc = find_measurement(&is_found, check, profile, e);
  if (rc != ERR_OK)
    return rc;
  reason = gate_reason_add(&check->reasons, "measurement", "measurement", profile,
                           is_brought || is_found ? GATE_PASS : GATE_INCONCLUSIVE);
  reason->target = days;
  (void)snprintf(reason->message, sizeof reason->message, "%s: %s of the last %.6g days",
                 gate_verdicts[reason->verdict],
                 is_brought ? "the check brings its measurement, which counts as one"
                 : is_found ? "there is a measurement"
                            : "there is no measurement",
                 days);
  return ERR_OK;
}

/* ---- The run -------------------------------------------------------------------------------------------------------- */

static enum err judge_candidates(struct check *check, struct error *e)
{
  const size_t cards = json_array_size(check->evaluation.scorecards);
  enum err rc = ERR_OK;
  check->candidates = calloc(cards + 1, sizeof *check->candidates);
  if (check->candidates == NULL)
    return record_nomem(e);
  check->candidate_count = check->gate.judge == GATE_RECOMMENDED && cards > 1 ? 1 : cards;
  for (size_t i = 0; i < check->candidate_count && rc == ERR_OK; i++) {
    struct candidate *candidate = &check->candidates[i];
    candidate->card = json_array_get(check->evaluation.scorecards, i);
    candidate->profile = json_string_value(json_object_get(candidate->card, "profile"));
    candidate->first_reason = check->reasons.count;
    rc = gate_judge_card(&check->reasons, call_store(check->call), &check->gate, candidate->card, check->measured, e);
    if (rc == ERR_OK)
      rc = judge_measurement(check, candidate->profile, e);
    if (rc == ERR_OK)
      rc = gate_check_regressions(check, candidate, e);
    candidate->reason_count = check->reasons.count - candidate->first_reason;
  }
  return rc;
}

/* The sketch names profiles, and none of them is one of the gate's. */
static bool is_elsewhere(const struct check *check)
{
  const struct sketch *sketch = &check->trial.sketch;
  if (check->gate.profiles == NULL || !sketch->profiles_are_named)
    return false;
  for (size_t i = 0; i < sketch->profile_count; i++)
    for (size_t k = 0; k < json_array_size(check->gate.profiles); k++)
      if (strcmp(sketch->profiles[i]->hardware.name, json_string_value(json_array_get(check->gate.profiles, k))) == 0)
        return false;
  return true;
}

static bool is_covered(struct check *check)
{
  const char *workload = check->trial.sketch.workload.name;
  struct gate_reason *reason;
  if (strcmp(workload, check->gate.workload) != 0) {
    reason = gate_reason_add(&check->reasons, "workload", "coverage", NULL, GATE_NO_TARGET);
    (void)snprintf(reason->message, sizeof reason->message, "no_target: the gate %s covers the workload %s, not %s",
                   check->row->name, check->gate.workload, workload);
    return false;
  }
  if (!is_elsewhere(check))
    return true;
  reason = gate_reason_add(&check->reasons, "profiles", "coverage", NULL, GATE_NO_TARGET);
  (void)snprintf(reason->message, sizeof reason->message,
                 "no_target: the gate %s covers none of the profiles that the sketch names", check->row->name);
  return false;
}

static enum err run_covered(struct check *check, struct error *e)
{
  char label[65];
  enum err rc = ERR_OK;
  (void)snprintf(label, sizeof label, "gate:%.59s", check->row->name);
  if (check->gate.profiles != NULL)
    rc = trial_use_profiles(&check->trial, check->gate.profiles, e);
  if (rc == ERR_OK)
    rc = trial_run_stored(&check->evaluation, &check->trial, label, check->gate.profiles != NULL, check->pointer,
                          check->call->faults, e);
  return rc == ERR_OK ? judge_candidates(check, e) : rc;
}

static enum err load_waivers(struct check *check, struct error *e)
{
  struct store_gate_records list;
  enum err rc = store_gate_waivers(call_store(check->call), &list, check->row->id, check->call->now_ms, e);
  check->waivers = json_array();
  for (size_t i = 0; rc == ERR_OK && i < list.count; i++) {
    json_t *waiver;
    rc = record_parse(&waiver, list.rows[i].document, e);
    if (rc == ERR_OK && json_array_append_new(check->waivers, waiver) != 0)
      rc = record_nomem(e);
  }
  if (list.rows != NULL)
    store_gate_records_fini(&list);
  return rc;
}

static enum err run(struct check *check, struct error *e)
{
  enum err rc = store_gate_baselines(call_store(check->call), &check->baselines, check->row->id, e);
  if (rc == ERR_OK)
    rc = load_waivers(check, e);
  if (rc != ERR_OK)
    return rc;
  judge_sign_off(check);
  if (!is_covered(check))
    return ERR_OK;
  judge_stack(check);
  return run_covered(check, e);
}

enum err gate_check(json_t **answer, bool *stops, struct api_call *call, const struct store_gate *row, struct error *e)
{
  struct check check = {.call = call, .row = row};
  enum err rc = record_parse(&check.document, row->document, e);
  *answer = NULL;
  if (rc != ERR_OK)
    return rc;
  gate_read(&check.gate, check.document, NULL, call->now_ms, call->faults);
  read_body(&check);
  rc = record_check(call, e);
  if (rc == ERR_OK)
    rc = trial_open(&check.trial, call, check.sketch, check.pointer, call->faults, e);
  if (rc != ERR_OK) {
    json_decref(check.document);
    return rc;
  }
  rc = record_check(call, e);
  if (rc == ERR_OK)
    rc = run(&check, e);
  if (rc == ERR_OK)
    rc = gate_check_finish(answer, &check, e);
  *stops = check.verdict != GATE_PASS && !(check.verdict == GATE_INCONCLUSIVE && check.gate.on_inconclusive == 1);
  store_gate_baselines_fini(&check.baselines);
  evaluation_fini(&check.evaluation);
  trial_close(&check.trial);
  json_decref(check.waivers);
  json_decref(check.document);
  free(check.candidates);
  free(check.reasons.rows);
  return rc;
}
