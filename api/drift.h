/* Whether what is observed of a workload has moved away from itself and from the prediction, since when, and what may be
   behind it. Private to api/. */
#ifndef FITD_API_DRIFT_H
#define FITD_API_DRIFT_H

#include "api/fleet.h"

enum drift_state {
  DRIFT_NO_DATA, /* nothing fresh, or too little yet: never taken for fine */
  DRIFT_STEADY,  /* no lasting shift */
  DRIFT_SHIFTED, /* one, that lasts */
  DRIFT_OFF      /* steady, and outside the prediction's band */
};
const char *drift_state_name(enum drift_state state);

#define DRIFT_METRICS 3
#define DRIFT_SUSPECTS_MAX 8
struct drift_metric {
  const char *name;           /* "ttft_ms" … means, which histograms know exactly */
  double predicted, observed; /* observed: lately; NaN = unknown */
  double band[2];             /* of observed / predicted, p10 and p90; NaN = none */
  size_t point_count;
  bool is_shifted;
  int64_t onset_ms;
  double before, after;
};
struct drift_suspect {
  const char *code, *message;
  double before, after; /* NaN = not known */
  double weight;        /* |ln(after / before)|, or the share of time for reasons that were set */
};
struct drift {
  enum drift_state state;
  struct drift_metric metrics[DRIFT_METRICS];
  int64_t onset_ms;                                  /* the earliest of the shifted metrics; 0 = none */
  struct drift_suspect suspects[DRIFT_SUSPECTS_MAX]; /* the likeliest first */
  size_t suspect_count;
};

/* Over the last day. card: the official prediction, may be NULL. */
enum err drift_find(struct drift *out, struct api_call *call, const struct live_nodes *nodes,
                    const struct fleet_workload *workload, const json_t *card, struct error *e) MUST_CHECK;

#endif
