/* The black box of the fit: stored runs, predicted with this or that set of factors. */
#include "api/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/explain.h"
#include "api/measurement.h"
#include "api/trace.h"

#define FIGURES_MAX ((size_t)CALIBRATE_RUNS_MAX * 8)

struct calibrate {
  struct explain_inputs *runs; /* runs_max of them */
  size_t run_count;
  struct calibrate_figure *figures;
  size_t figure_count;
  struct calibration_observation *observations; /* of those that are used */
  enum band_class class;                        /* of the first run */
};

enum err calibrate_new(struct calibrate **out, size_t runs_max, struct error *e)
{
  struct calibrate *calibrate = calloc(1, sizeof *calibrate);
  *out = calibrate;
  if (calibrate != NULL) {
    calibrate->runs = calloc(runs_max + 1, sizeof *calibrate->runs);
    calibrate->figures = calloc(FIGURES_MAX, sizeof *calibrate->figures);
    calibrate->observations = calloc(FIGURES_MAX, sizeof *calibrate->observations);
  }
  if (calibrate != NULL && calibrate->runs != NULL && calibrate->figures != NULL && calibrate->observations != NULL)
    return ERR_OK;
  return error_set(e, ERR_NOMEM, "", "not enough memory for a calibration");
}

void calibrate_free(struct calibrate *calibrate)
{
  if (calibrate == NULL)
    return;
  for (size_t i = 0; i < calibrate->run_count; i++)
    explain_inputs_fini(&calibrate->runs[i]);
  free(calibrate->runs);
  free(calibrate->figures);
  free(calibrate->observations);
  free(calibrate);
}

static void add_figure(struct calibrate *calibrate, size_t run, const char *path, double measured)
{
  static const struct scorecard nothing;
  struct calibrate_figure *figure = &calibrate->figures[calibrate->figure_count];
  double ignored;
  if (calibrate->figure_count == FIGURES_MAX ||
      !measured_predict(&ignored, &figure->observation.metric, &nothing, path))
    return;
  figure->run = run;
  figure->before = (double)NAN;
  figure->observation.measured = measured;
  (void)snprintf(figure->path, sizeof figure->path, "%s", path);
  calibrate->figure_count++;
}

enum err calibrate_add(struct calibrate *calibrate, struct api_call *call, const struct store_measurement *measurement,
                       struct error *e)
{
  json_t *document = json_loads(measurement->document, 0, NULL), *figure;
  const size_t run = calibrate->run_count;
  const char *path;
  enum err rc;
  if (document == NULL)
    return error_set(e, ERR_INTERNAL, "", "a stored measurement can not be parsed, or memory is out");
  calibrate->run_count++;
  rc = explain_load(&calibrate->runs[run], call, measurement->scorecard, e);
  json_object_foreach(json_object_get(document, "figures"), path, figure)
  {
    if (rc == ERR_OK)
      add_figure(calibrate, run, path, json_number_value(json_object_get(figure, "measured")));
  }
  json_decref(document);
  return rc;
}

/* ---- Predicting ----------------------------------------------------------------------------------------------------- */

static enum err predict_run(struct scorecard *card, const struct explain_inputs *run,
                            const struct calibration *calibration, struct arena *arena, struct error *e)
{
  struct workload *pinned = malloc(sizeof *pinned);
  struct fit_request request = {.workload = pinned,
                                .model = &run->sketch.model,
                                .hardware = &run->profile.hardware,
                                .depth = FIT_QUICK,
                                .calibration = calibration,
                                .draft_model = run->sketch.has_draft_model ? &run->sketch.draft_model : NULL};
  enum err rc;
  if (pinned == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for a calibration");
  trace_replay_give(&request, &run->sketch);
  explain_pin(pinned, &run->sketch.workload, run->has_configuration ? &run->configuration : NULL);
  rc = fit_evaluate(card, &request, arena, e);
  free(pinned);
  return rc;
}

static enum band_class class_of(const struct scorecard *card)
{
  for (int class = 0; card->uncertainty.band_class != NULL && class < BAND_CLASS_COUNT; class ++)
    if (strcmp(band_class_name((enum band_class) class), card->uncertainty.band_class) == 0)
      return (enum band_class) class;
  return BAND_DENSE_CLOSED_LOOP;
}

/* Every figure of every run; moved < 0: with the factors as they stand. */
static enum err predict_all(struct calibrate *calibrate, const struct calibration *calibration, int moved,
                            struct arena *arena, struct error *e)
{
  struct scorecard *card = malloc(sizeof *card);
  enum err rc = card != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "", "not enough memory for a calibration");
  size_t at = 0;
  for (size_t run = 0; run < calibrate->run_count && rc == ERR_OK; run++) {
    const size_t mark = arena_mark(arena);
    rc = predict_run(card, &calibrate->runs[run], calibration, arena, e);
    if (rc == ERR_OK && run == 0)
      calibrate->class = class_of(card);
    for (; rc == ERR_OK && at < calibrate->figure_count && calibrate->figures[at].run == run; at++) {
      struct calibration_observation *o = &calibrate->figures[at].observation;
      double value = (double)NAN;
      enum band_metric metric;
      if (card->has_latency)
        (void)measured_predict(&value, &metric, card, calibrate->figures[at].path); /* was one when it was added */
      *(moved < 0 ? &o->predicted : &o->moved[moved]) = value;
    }
    arena_release(arena, mark);
  }
  free(card);
  return rc;
}

/* ---- The fit -------------------------------------------------------------------------------------------------------- */

static size_t collect(struct calibrate *calibrate)
{
  size_t count = 0;
  for (size_t i = 0; i < calibrate->figure_count; i++)
    if (calibrate->figures[i].observation.predicted > 0)
      calibrate->observations[count++] = calibrate->figures[i].observation;
  return count;
}

static void keep_before(struct calibrate *calibrate)
{
  for (size_t i = 0; i < calibrate->figure_count; i++)
    calibrate->figures[i].before = calibrate->figures[i].observation.predicted;
}

static enum err improve(struct calibration *calibration, struct calibrate *calibrate, struct arena *arena,
                        struct error *e)
{
  enum err rc = ERR_OK;
  for (int factor = 0; factor < CALIBRATION_FACTOR_COUNT && rc == ERR_OK; factor++) {
    const struct calibration moved = calibration_moved(calibration, (enum calibration_factor)factor);
    rc = predict_all(calibrate, &moved, factor, arena, e);
  }
  if (rc != ERR_OK)
    return rc;
  calibration_improve(calibration, calibrate->observations, collect(calibrate));
  return predict_all(calibrate, calibration, -1, arena, e);
}

enum err calibrate_run(struct calibration *out, struct calibrate *calibrate, size_t arena_bytes, struct error *e)
{
  void *memory = malloc(arena_bytes);
  struct arena arena;
  enum err rc;
  *out = calibration_none();
  if (memory == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for a calibration");
  arena_init(&arena, memory, arena_bytes);
  rc = predict_all(calibrate, out, -1, &arena, e);
  keep_before(calibrate);
  if (rc == ERR_OK && collect(calibrate) == 0)
    rc = error_set(e, ERR_INVALID, "/measurements",
                   "none of the measured figures can be used: mean TPOT, p50 of ITL, TTFT and E2E, and throughput can");
  for (int round = 0; round < CALIBRATION_ROUNDS && rc == ERR_OK; round++)
    rc = improve(out, calibrate, &arena, e);
  if (rc == ERR_OK)
    calibration_narrow(out, calibrate->observations, collect(calibrate), calibrate->class);
  free(memory);
  return rc;
}

const struct calibrate_figure *calibrate_figures(size_t *count, const struct calibrate *calibrate)
{
  *count = calibrate->figure_count;
  return calibrate->figures;
}
