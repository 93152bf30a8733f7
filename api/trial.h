/* A sketch that was sent or stored, read with the catalogue of the moment; and its evaluations on behalf of gates and reviews: as
   it is, held at a configuration that is in use, and how far chance alone moves a comparison. Private to api/. */
#ifndef FITD_API_TRIAL_H
#define FITD_API_TRIAL_H

#include "api/call.h"
#include "api/evaluation.h"

/* A sketch read from a stored or sent document with its own snapshot. */
struct trial {
  const struct api_call *call;
  const struct catalogue_snapshot *snapshot;
  struct sketch sketch;
  enum fit_depth depth; /* of its runs; full unless changed after opening */
};
/* Faults go to `faults`, pointers under `pointer`; then the sketch can not be run. trial_close after ERR_OK. */
enum err trial_open(struct trial *out, struct api_call *call, const json_t *sketch, const char *pointer,
                    struct faults *faults, struct error *e) MUST_CHECK;
void trial_close(struct trial *trial);
/* The sketch that a stored scorecard was made from; *is_open false: it can not be read any more with what is stored. */
enum err trial_open_scorecard(struct trial *out, bool *is_open, struct api_call *call, const json_t *card,
                              struct error *e) MUST_CHECK;

/* Replaces the candidates by the named profiles. ERR_CONFLICT names one that is not stored. */
enum err trial_use_profiles(struct trial *trial, const json_t *names, struct error *e) MUST_CHECK;

/* Runs and stores it; label may be NULL. is_partial: not all candidates of the sketch, so never its official evaluation.
   What core can not compute becomes a fault at `pointer`. */
enum err trial_run_stored(struct evaluation *out, struct trial *trial, const char *label, bool is_partial,
                          const char *pointer, struct faults *faults, struct error *e) MUST_CHECK;

/* The scorecard of one profile with everything that the sketch leaves to the search held at `configuration` (of a
   scorecard; NULL holds nothing), and with another seed: its figures, without stress cases, variants and advice. Nothing is
   stored. *card is the caller's. */
enum err trial_run_held(json_t **card, const struct trial *trial, const char *profile, const json_t *configuration,
                        int64_t seed, struct error *e) MUST_CHECK;

/* By how much each figure of figures[] may differ between two runs by chance: twice the standard deviation of the paired
   differences over a few seeds, at least TRIAL_ARITHMETIC. `card` is what `trial` gave held at the baseline's
   configuration and seed. baseline_sketch NULL: only the candidate can be repeated. */
#define TRIAL_ARITHMETIC 1e-6 /* what searches and rounding leave open */
enum err trial_noise(double *noise, const struct trial *trial, const json_t *card, const struct trial *baseline_trial,
                     const json_t *baseline, struct error *e) MUST_CHECK;

#endif
