/* The search for the best configuration of one model on one profile: layouts (core/layouts.h) × replicas × batch limit, within
   what the sketch holds. The cheapest request that meets every target; ties go to fewer GPUs to pay, fewer replicas, fewer
   stages, more headroom, then the plainer layout. Where none meets them, the nearest: within the quota, with no more GPUs
   than help (search_distance). Deterministic. Pure functions; nothing is allocated. */
#ifndef FITD_CORE_SEARCH_H
#define FITD_CORE_SEARCH_H

#include "core/calibration.h"
#include "core/cost.h"
#include "core/disaggregated.h"
#include "core/memory.h"
#include "core/targets.h"

/* A trace as it is to be replayed. */
struct replay {
  const struct arrival *rows; /* NULL = none */
  size_t count;
  const uint32_t *hashes;
  size_t hash_count;
  unsigned hash_block_tokens;
  double rate_scale;
  double input_ratio, output_ratio; /* of its lengths */
};

struct search_input {
  const struct workload *workload; /* its traffic has a rate or users, and lengths: core/traffic.h */
  const struct model *model;
  const struct hardware *hardware;
  bool is_brief;                    /* the winner's knee is of no interest */
  struct model_precision precision; /* as served */
  struct preset preset;
  const struct step_constants *constants; /* NULL = the shipped ones */
  const struct calibration *calibration;  /* that made them; NULL = none */
  struct adapters adapters;
  struct speculation speculation;
  struct pools pools;
  double prompt_tokens, cached_tokens, output_tokens; /* means; cached: prefix found in the cache */
  double median_output_tokens;
  double load_share_ratio; /* the day's mean load over the one that figures are for */
  struct replay replay;
  bool is_verdict_enough; /* whether anything fits: any fit will do, and misses are not compared to the last */
};

/* One configuration, evaluated. */
struct candidate {
  struct layout layout;
  struct price price; /* of the instances that hold its tensor-parallel groups */
  unsigned replicas, gpus, gpus_billed;
  struct engine engine;
  struct memory_plan memory;
  double batch_limit; /* sequences a replica can run */
  bool kv_limits_batch;
  struct steady_base base;        /* of one replica, whatever its load; not with pools */
  struct steady_state state;      /* of one replica */
  double capacity_requests_per_s; /* of one replica */
  double limit_scale; /* share of the sketch's load up to which one replica keeps the limits that steer; 0: not even one
                         request, NaN: not looked for yet */
  double knee_requests_per_s;  /* of the fleet; NaN without latency targets */
  double margin_to_knee_ratio; /* NaN without a knee */
  double e2e_median_s;
  double max_context_tokens;
  double usd_per_request; /* NaN without a price */
  double busy_ratio;      /* of the time of all paid GPUs, those that carry nothing included */
  double worst_excess;    /* over decided targets; ≤ 0 = all met */
  double steering_excess; /* over the latency targets, or the preset's where none are stated */
  bool is_within_quota;
  unsigned wanted_gpus; /* of the fleet that the load and the targets ask for, before the quota */
};

/* Candidates that the closed form ranks best, one a layout and batch limit: what a simulation is worth; and those that are
   looked at when it turns the first ones down. */
#define SEARCH_FINALISTS 4
#define SEARCH_FINALISTS_MOST 8

struct search_result {
  bool has_candidate; /* some layout holds weights and a request */
  struct candidate best;
  struct candidate finalists[SEARCH_FINALISTS_MOST]; /* best first */
  size_t finalist_count;
  bool fits;
  /* why nothing was a candidate */
  enum no_fit_reason reason;
  char detail[256];
  struct memory_plan tightest; /* memory of the last layout that did not hold it; for the scorecard */
  struct layout tightest_layout;
  bool has_tightest;
};

/* A gap between tokens of an answer: NaN where answers are one token long. */
double search_gap_s(const struct search_input *input, double seconds);

/* The best and `finalists` - 1 next to it, exactly; 1 is the fastest. ERR_CANCELLED when `stop` says so. */
enum err search_best(struct search_result *out, const struct search_input *input, size_t finalists,
                     bool (*stop)(void *cls), void *stop_cls, struct error *e) MUST_CHECK;

/* The candidate as a fleet of so many replicas; its knee is not computed. */
void search_set_replicas(struct candidate *candidate, const struct search_input *input, unsigned replicas);

/* 0 = the sketch leaves them open. */
unsigned search_given_replicas(const struct search_input *input);

/* How far a miss is from its targets: the worst figure over its limit, where twice the GPUs must bring it a tenth nearer.
   Hardware beyond the size that helps makes no miss a near one. */
double search_distance(double worst_excess, unsigned gpus);

/* A fit beats a miss, a cheaper fit a dearer one, a nearer miss a farther one. */
bool search_is_better(const struct candidate *a, const struct candidate *b);
bool search_fits(const struct candidate *candidate);

/* Knee and margin of the closed form; NaN without latency targets. */
void search_find_knee(struct candidate *candidate, const struct search_input *input);

/* Limits on latency that steer: the sketch's, or the interactive preset where it has none. */
const struct workload_targets *search_steering(const struct search_input *input, struct workload_targets *preset);

/* Why the best candidate is no fit. */
void search_explain_miss(struct search_result *out, const struct search_input *input);

/* Evaluates a fleet of `replicas` like the candidate's at `scale` times the sketch's load; used for the knee. */
void search_state_at(struct steady_state *out, const struct search_input *input, const struct candidate *candidate,
                     unsigned replicas, double scale);

#endif
