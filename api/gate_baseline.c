/* Regressions: a scorecard against the baseline of its profile, both under the same random numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/figure.h"
#include "api/gate_check.h"
#include "api/pointer.h"

static const struct store_gate_baseline *find_baseline(const struct check *check, const char *profile)
{
  for (size_t i = 0; i < check->baselines.count; i++)
    if (strcmp(check->baselines.rows[i].profile, profile) == 0)
      return &check->baselines.rows[i];
  return NULL;
}

/* Everything that figures follow from is the same. */
static bool same_input(const json_t *a, const json_t *b)
{
  static const char *const members[] = {
      "sketch_digest", "model_revision", "profile_revision", "stack", "trace_digest", "core_version", "seed"};
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
    if (!pointer_same_value(json_object_get(a, members[i]), json_object_get(b, members[i])))
      return false;
  return pointer_same_value(pointer_get(a, "/provenance/calibration"), pointer_get(b, "/provenance/calibration"));
}

/* Against a baseline made of other inputs: both sides at its configuration and seed. */
static enum err judge_held(struct check *check, const char *profile, const json_t *baseline, struct error *e)
{
  double noise[64];
  struct trial other;
  bool is_open = false;
  json_t *held = NULL;
  enum err rc = trial_run_held(&held, &check->trial, profile, json_object_get(baseline, "configuration"),
                               json_integer_value(json_object_get(baseline, "seed")), e);
  if (figure_count > sizeof noise / sizeof noise[0])
    rc = error_set(e, ERR_INTERNAL, "", "there are more figures than a check has room for");
  if (rc == ERR_OK)
    rc = trial_open_scorecard(&other, &is_open, check->call, baseline, e);
  if (rc == ERR_OK)
    rc = trial_noise(noise, &check->trial, held, is_open ? &other : NULL, baseline, e);
  if (rc == ERR_OK)
    gate_judge_regressions(&check->reasons, &check->gate, profile, held, baseline, noise);
  if (is_open)
    trial_close(&other);
  json_decref(held);
  return rc;
}

static void judge_same(struct check *check, const struct candidate *candidate, const json_t *baseline)
{
  double noise[64];
  for (size_t i = 0; i < sizeof noise / sizeof noise[0]; i++)
    noise[i] = TRIAL_ARITHMETIC;
  gate_judge_regressions(&check->reasons, &check->gate, candidate->profile, candidate->card, baseline, noise);
}

enum err gate_check_regressions(struct check *check, struct candidate *candidate, struct error *e)
{
  const struct store_gate_baseline *row = find_baseline(check, candidate->profile);
  char *document = NULL;
  json_t *baseline = NULL;
  size_t length;
  enum err rc;
  if (json_object_size(check->gate.max_regression) == 0)
    return ERR_OK;
  if (row == NULL) {
    candidate->is_its_own_baseline = true;
    judge_same(check, candidate, candidate->card);
    return ERR_OK;
  }
  (void)snprintf(candidate->baseline, sizeof candidate->baseline, "%s", row->scorecard);
  rc = store_scorecard_document(call_store(check->call), &document, &length, row->scorecard, e);
  if (rc == ERR_OK)
    rc = record_parse(&baseline, document, e);
  if (rc == ERR_OK && same_input(candidate->card, baseline))
    judge_same(check, candidate, baseline);
  else if (rc == ERR_OK)
    rc = judge_held(check, candidate->profile, baseline, e);
  json_decref(baseline);
  free(document);
  return rc;
}
