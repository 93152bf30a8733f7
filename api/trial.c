/* Runs of a sketch whose results are compared: the same seeds on both sides, the same settings where the sketch has none. */
#include "api/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/figure.h"
#include "api/history.h"
#include "api/live.h"
#include "api/read.h"
#include "api/live.h"
#include "api/record.h"
#include "api/trace.h"

enum err trial_open(struct trial *out, struct api_call *call, const json_t *sketch, const char *pointer,
                    struct faults *faults, struct error *e)
{
  struct faults *const callers = call->faults;
  enum err rc = catalogue_acquire(&out->snapshot, call_catalogue(call), e);
  if (rc != ERR_OK)
    return rc;
  out->call = call;
  out->depth = FIT_FULL;
  sketch_read(&out->sketch, out->snapshot, sketch, pointer, faults);
  call->faults = faults; /* where the trace is looked for */
  rc = trace_check_sketch(call, &out->sketch, pointer, e);
  call->faults = callers;
  if (rc != ERR_OK)
    trial_close(out);
  return rc;
}

void trial_close(struct trial *trial)
{
  sketch_fini(&trial->sketch);
  catalogue_release(call_catalogue(trial->call), trial->snapshot);
}

enum err trial_open_scorecard(struct trial *out, bool *is_open, struct api_call *call, const json_t *card,
                              struct error *e)
{
  const char *id = json_string_value(json_object_get(card, "evaluation"));
  struct faults *faults = calloc(1, sizeof *faults);
  struct store_evaluation row = {.id = NULL};
  json_t *sketch = NULL;
  enum err rc =
      faults != NULL ? store_evaluation_get(call_store(call), &row, id != NULL ? id : "", e) : record_nomem(e);
  *is_open = false;
  if (rc == ERR_OK)
    rc = record_parse(&sketch, row.sketch, e);
  if (rc == ERR_OK)
    rc = trial_open(out, call, sketch, "", faults, e);
  *is_open = rc == ERR_OK && faults->count == 0;
  if (rc == ERR_OK && !*is_open)
    trial_close(out);
  json_decref(sketch);
  store_evaluation_fini(&row);
  free(faults);
  return rc;
}

enum err trial_use_profiles(struct trial *trial, const json_t *names, struct error *e)
{
  const size_t count = json_array_size(names);
  const struct catalogue_profile **rows = calloc(count + 1, sizeof *rows);
  if (rows == NULL)
    return record_nomem(e);
  for (size_t i = 0; i < count; i++) {
    const char *name = json_string_value(json_array_get(names, i));
    rows[i] = name != NULL ? catalogue_find_profile(trial->snapshot, name) : NULL;
    if (rows[i] == NULL) {
      free(rows);
      return error_set(e, ERR_CONFLICT, "", "the profile %s is not stored any more", name != NULL ? name : "?");
    }
  }
  sketch_use_profiles_steal(&trial->sketch, trial->snapshot, rows, count);
  return ERR_OK;
}

static struct evaluation_options options_of(const struct trial *trial, const char *label)
{
  const struct api_deps *deps = call_deps(trial->call);
  return (struct evaluation_options){.label = label,
                                     .depth = trial->depth,
                                     .depth_is_given = trial->depth != FIT_FULL,
                                     .now_ms = trial->call->now_ms,
                                     .arena_bytes = deps->arena_bytes,
                                     .deps = deps,
                                     .live = live_of(trial->call->api)};
}

enum err trial_run_stored(struct evaluation *out, struct trial *trial, const char *label, bool is_partial,
                          const char *pointer, struct faults *faults, struct error *e)
{
  const struct evaluation_options options = options_of(trial, label);
  struct evaluation_texts texts = {NULL, NULL, 0};
  enum err rc = evaluation_run(out, &trial->sketch, &options, e);
  if (rc == ERR_INVALID) {
    char at[160];
    (void)snprintf(at, sizeof at, "%s%s", pointer, e->pointer);
    faults_add(faults, FAULT_UNSUPPORTED, at, NULL, "%s", e->message);
  }
  if (rc != ERR_OK)
    return rc;
  out->is_quick = is_partial;
  rc = evaluation_texts_make(&texts, out, e);
  if (rc == ERR_OK)
    rc = evaluation_store(call_store(trial->call), out, &trial->sketch, &texts, trial->call->now_ms, e);
  evaluation_texts_fini(&texts);
  if (rc != ERR_OK)
    evaluation_fini(out);
  return rc;
}

/* ---- Held runs ------------------------------------------------------------------------------------------------------ */

static void hold(unsigned *setting, const json_t *configuration, const char *name)
{
  const json_t *value = json_object_get(configuration, name);
  if (*setting == 0 && json_is_integer(value))
    *setting = (unsigned)json_integer_value(value);
}

/* What the search decides where the sketch does not. Disaggregated pools are counted apart from replicas. */
static void hold_all(struct workload_serving *serving, const json_t *configuration)
{
  hold(&serving->tensor_parallel, configuration, "tensor_parallel");
  hold(&serving->pipeline_parallel, configuration, "pipeline_parallel");
  hold(&serving->expert_parallel, configuration, "expert_parallel");
  hold(&serving->attention_data_parallel, configuration, "attention_data_parallel");
  hold(&serving->max_batch, configuration, "max_batch");
  if (serving->prefill_replicas == 0)
    hold(&serving->replicas, configuration, "replicas");
}

enum err trial_run_held(json_t **card, const struct trial *trial, const char *profile, const json_t *configuration,
                        int64_t seed, struct error *e)
{
  struct evaluation_options options = options_of(trial, NULL);
  const struct catalogue_profile **rows = calloc(1, sizeof *rows);
  struct sketch held = trial->sketch; /* shares everything but what is changed here */
  struct evaluation evaluation;
  enum err rc;
  *card = NULL;
  if (rows == NULL)
    return record_nomem(e);
  rows[0] = catalogue_find_profile(trial->snapshot, profile);
  if (rows[0] == NULL) {
    free(rows);
    return error_set(e, ERR_CONFLICT, "", "the profile %s is not stored any more", profile);
  }
  held.profiles = NULL;
  held.calibrations = NULL;
  sketch_use_profiles_steal(&held, trial->snapshot, rows, 1);
  held.workload.seed = seed;
  options.are_figures_enough = true;
  hold_all(&held.workload.serving, configuration);
  rc = evaluation_run(&evaluation, &held, &options, e);
  free(held.profiles);
  free(held.calibrations);
  if (rc != ERR_OK)
    return rc;
  *card = json_incref(json_array_get(evaluation.scorecards, 0));
  evaluation_fini(&evaluation);
  return ERR_OK;
}

/* ---- Noise ---------------------------------------------------------------------------------------------------------- */

#define SEEDS 4 /* beside that of the comparison */

static bool same_figures(const json_t *a, const json_t *b)
{
  for (size_t i = 0; i < figure_count; i++) {
    const double x = figure_value(a, figures[i].metric), y = figure_value(b, figures[i].metric);
    if (isnan(x) != isnan(y) || fabs(x - y) > 0)
      return false;
  }
  return true;
}

/* Twice the standard deviation of the differences (two sided, 95 % for normal ones). */
static double spread(const double differences[SEEDS])
{
  double mean = 0, squares = 0;
  for (size_t i = 0; i < SEEDS; i++)
    mean += differences[i] / SEEDS;
  for (size_t i = 0; i < SEEDS; i++)
    squares += (differences[i] - mean) * (differences[i] - mean) / (SEEDS - 1);
  return 2 * sqrt(squares);
}

static void spread_all(double *noise, json_t *const candidates[SEEDS], json_t *const baselines[SEEDS])
{
  for (size_t i = 0; i < figure_count; i++) {
    double differences[SEEDS];
    for (size_t k = 0; k < SEEDS; k++)
      differences[k] =
          figure_change(figure_value(baselines[k], figures[i].metric), figure_value(candidates[k], figures[i].metric));
    noise[i] = spread(differences);
    if (!(noise[i] > TRIAL_ARITHMETIC)) /* also where a figure is not known */
      noise[i] = TRIAL_ARITHMETIC;
  }
}

enum err trial_noise(double *noise, const struct trial *trial, const json_t *card, const struct trial *baseline_trial,
                     const json_t *baseline, struct error *e)
{
  const char *profile = json_string_value(json_object_get(card, "profile"));
  const json_t *configuration = json_object_get(baseline, "configuration");
  const int64_t seed = json_integer_value(json_object_get(baseline, "seed"));
  json_t *candidates[SEEDS] = {NULL}, *baselines[SEEDS] = {NULL};
  enum err rc = ERR_OK;
  for (size_t i = 0; i < figure_count; i++)
    noise[i] = TRIAL_ARITHMETIC;
  for (int k = 0; k < SEEDS && rc == ERR_OK; k++) {
    rc = trial_run_held(&candidates[k], trial, profile, configuration, seed + 1 + k, e);
    if (rc == ERR_OK && k == 0 && same_figures(candidates[0], card))
      goto out; /* nothing in it is random */
    if (rc == ERR_OK && baseline_trial != NULL)
      rc = trial_run_held(&baselines[k], baseline_trial, profile, configuration, seed + 1 + k, e);
    else
      baselines[k] = record_share(read_iterable(card));
  }
  if (rc == ERR_OK)
    spread_all(noise, candidates, baselines);
out:
  for (size_t k = 0; k < SEEDS; k++) {
    json_decref(candidates[k]);
    json_decref(baselines[k]);
  }
  return rc;
}
