/* What the simulation of a candidate and the reading of its outcomes share. Private to core/judge*.c. */
#ifndef FITD_CORE_JUDGE_INT_H
#define FITD_CORE_JUDGE_INT_H

#include "core/fleet.h"
#include "core/judge.h"

/* Histograms of one run; large, so in the arena. */
struct judge_histograms {
  struct serving_latencies latencies;
  struct histogram itl, kv_blocks;
};

/* Samples of the KV pool in use over a run. */
#define JUDGE_SAMPLES 1024

struct judge_samples {
  double level[JUDGE_SAMPLES + 1], slope[JUDGE_SAMPLES + 1]; /* changes at each sample */
};

/* A fleet's run as it was done. */
struct judge_simulation {
  struct fleet_run run;
  struct serving_cost cost, slow_cost;
  const struct serving_cost **costs;
  struct arrival *rows;
  struct serving_outcome *outcomes;
  struct fleet_totals totals;
  struct judge_histograms *histograms;
  struct judge_samples *samples;
};

/* Reads what the users of the steady state saw. */
void judge_measure(struct judged *out, const struct judge_case *c, const struct judge_simulation *sim);

#endif
