/* Judging candidates by simulation: the closed form of the search prunes, what users would see under the sketch's arrivals
   decides. Percentiles, success and load come from here. Private to core.
   Requests are drawn with the sketch's seed, the same ones for every candidate (common random numbers). Everything is
   taken from the arena and given back. Threads: reentrant. */
#ifndef FITD_CORE_JUDGE_H
#define FITD_CORE_JUDGE_H

#include "core/search.h"

/* Requests that make a p99 meaningful, and those that compare candidates (CORE §5). */
enum { JUDGE_REQUESTS_FINAL = 20000, JUDGE_REQUESTS_COMPARE = 2000 };

/* Places for sequences in all simulated replicas together, which bounds their memory: larger fleets are simulated in part. */
enum { JUDGE_SEQUENCES = 32768 };

/* One candidate's fleet under a multiple of the sketch's load. */
struct judge_case {
  const struct search_input *input;
  const struct candidate *candidate;
  double load_scale;
  size_t requests;                           /* at least; more where so few would not reach a steady state */
  unsigned lost_replicas, concurrency_limit; /* 0 = none, and as the sketch has it */
  double doubled_burst_s;           /* arrivals come in bursts of so long at twice their rate; 0 = as they come */
  bool is_full_queue;               /* all requests at once, of the sketch's lengths: what a full replica finishes */
  const struct engine *slow_engine; /* of one replica, where it differs; NULL = all alike */
  bool (*stop)(void *cls);
  void *stop_cls;
};

/* What its users see, the start and the end of the simulation cut off. NaN = nothing to tell it from. */
struct judged {
  struct scorecard_latency latency; /* of requests that were answered */
  struct scorecard_success success;
  size_t counted;                     /* requests that the shares above are of */
  double sent_per_s, completed_per_s; /* to and by the whole fleet; retries are no requests of their own */
  double in_system;                   /* requests at once in the fleet (Little: completed_per_s × mean e2e) */
  double decode_batch;                /* of one replica, mean */
  double busy_ratio;                  /* of a replica's time */
  double failed_work_ratio;           /* share of the work that went into requests without success */
  bool is_queue_first;                /* judge_knee.is_queue */
  double kv_p99_ratio;                /* share of the KV pool held in 99 % of the time; NaN = no pool */
};

/* ERR_LIMIT arena exhausted, ERR_CANCELLED. */
enum err judge_run(struct judged *out, const struct judge_case *c, struct arena *arena, struct error *e) MUST_CHECK;

/* What is left of pools when so many replicas are lost: of the one that loses the larger share of itself. */
struct pools judge_pools_left(const struct pools *pools, unsigned lost_replicas);

/* Rate at which one replica (of pools: each, in the mean) finishes requests while it always has some waiting: beyond it the queue grows. */
enum err judge_capacity(double *requests_per_s, const struct judge_case *c, struct arena *arena,
                        struct error *e) MUST_CHECK;

/* What decides besides the simulation itself. */
struct judge_options {
  size_t requests; /* of the winner's own simulation */
  bool is_probe;   /* any fit will do: as of fit_request */
  bool (*stop)(void *cls);
  void *stop_cls;
};

/* Replaces the closed form's choice: of the finalists the cheapest that meets every target in simulation, with the fewest
   replicas that do, else the nearest miss. Fits, reason and detail follow; capacities of its candidates are simulated ones
   then. *is_judged: false = no candidate, or nothing to simulate (the queue grows). */
enum err judge_select(struct judged *judged, bool *is_judged, struct search_result *result,
                      const struct search_input *input, const struct judge_options *options, struct arena *arena,
                      struct error *e) MUST_CHECK;

/* The highest rate that meets every limit on latency and success, and how far below it the load is; NaN without such. */
struct judge_knee {
  double requests_per_s, margin_ratio;
  bool is_queue; /* beyond it requests wait too long, while answers come as fast as they should and capacity is left */
};
enum err judge_knee(struct judge_knee *out, const struct judge_case *c, const struct judged *judged,
                    struct arena *arena, struct error *e) MUST_CHECK;

/* Load at which so much headroom is used up. */
double judge_headroom_scale(double headroom_ratio);

/* The figures of the simulation in place of the closed form's, the targets judged by them. */
void judge_report(struct scorecard *card, const struct judged *judged, const struct candidate *best,
                  const struct search_input *input);

/* What targets are judged by; costs are the candidate's. */
void judge_figures(struct target_figures *out, const struct judged *judged, const struct candidate *candidate,
                   const struct search_input *input);

/* Overload has an end: clients give up, what may be shed is enough, or a trace is over. */
bool judge_is_bounded(const struct search_input *input, const struct candidate *candidate);

/* Limits that one request keeps to be a success; NaN = none. The sketch's own, or the highest percentile given of each
   target. */
struct judge_success {
  double ttft_s, mean_itl_s, e2e_s;
};
struct judge_success judge_success_of(const struct workload *workload);

#endif
