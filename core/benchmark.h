/* Predicting a public benchmark as it was run: layout from what the table states, batch formation of the load, and the
   statistic that the row names (start-up wave kept, ten requests per user). Not the steady state that users ask for:
   keep the two apart. Pure functions. Rules: STEPMODEL §1 and §4, SERVING §6. */
#ifndef FITD_CORE_BENCHMARK_H
#define FITD_CORE_BENCHMARK_H

#include "core/arena.h"
#include "core/band.h"

enum benchmark_load {
  BENCHMARK_CLOSED,  /* so many users, ten requests each */
  BENCHMARK_SINGLE,  /* one stream */
  BENCHMARK_OFFLINE, /* everything queued at t = 0 */
  BENCHMARK_POISSON
};

struct benchmark {
  const struct model *model;        /* borrowed */
  const struct hardware *hardware;  /* borrowed */
  struct model_precision precision; /* as served */
  struct preset preset;             /* with the run's launch flags */
  unsigned gpus;                    /* of the whole system */
  unsigned tensor_parallel, pipeline_parallel, expert_parallel, attention_data_parallel; /* 0 = not stated */
  double input_tokens, output_tokens;                                                    /* means */
  enum benchmark_load load;
  double batch;                            /* users, or static batch; NaN = the engine's choice */
  double requests_per_s;                   /* POISSON */
  double requests;                         /* of the run; NaN = many */
  double prompt_cv_ratio, answer_cv_ratio; /* POISSON: lengths are log-normal about their means */
  double spread_ratio; /* else: even within mean × (1 ± spread); 0 = all alike, prefill-first engines in lock-step */
  double tpot_s;       /* median as measured, if the rest is to be judged given it; 0 or NaN = predicted */
  bool has_fixed_lengths; /* stated: requests that start together end together */
  bool is_static_batch;   /* one batch, no requests join */
  bool is_warm;           /* requests went before it */
  bool has_percentiles;   /* of times to the first token and of end to end: they cost a simulation */
};

struct benchmark_figures { /* seconds; NaN where the load does not define one */
  struct layout layout;
  unsigned replicas;
  double batch; /* running sequences of a replica */
  double tpot_mean_s, tpot_p50_s, itl_p50_s, tpot_p90_s, tpot_p99_s;
  double ttft_mean_s, ttft_p50_s, ttft_p90_s, ttft_p99_s;
  double e2e_mean_s, e2e_p50_s, e2e_p90_s, e2e_p99_s;
  double requests_per_s; /* whole system */
  double utilisation_ratio;
  enum band_class band_class;
};

/* The arena is as it was afterwards. ERR_LIMIT: it is exhausted. ERR_INVALID: the row is impossible (weights exceed memory, a layout that does not divide); message says why. */
enum err benchmark_predict(struct benchmark_figures *out, const struct benchmark *benchmark,
                           const struct step_constants *constants, struct arena *arena, struct error *e) MUST_CHECK;

#endif
