/* The facade of the core: one sketch × one model × one hardware profile → one scorecard, with every sum kept.
   Everything lives in the arena the caller gives; strings are literals or in the arena.
   Threads: reentrant, no globals. Deterministic: same inputs, same bits.
   Figures that a depth does not compute are NaN. */
#ifndef FITD_CORE_FIT_H
#define FITD_CORE_FIT_H

#include "core/arena.h"
#include "core/hardware.h"
#include "core/knob.h"
#include "core/model.h"
#include "core/workload.h"

#define CORE_VERSION "0.1.0"

enum verdict { VERDICT_FIT, VERDICT_FIT_WITH_CHANGES, VERDICT_NO_FIT };
enum no_fit_reason {
  NO_FIT_NONE,
  NO_FIT_WEIGHTS_EXCEED_MEMORY,
  NO_FIT_NO_ROOM_FOR_KV_CACHE,
  NO_FIT_TARGETS_MISSED,
  NO_FIT_LAYOUT_IMPOSSIBLE,
  NO_FIT_QUOTA_EXCEEDED,
  NO_FIT_TARGETS_CONTRADICT
};
const char *verdict_name(enum verdict verdict);            /* "fit", … */
const char *no_fit_reason_name(enum no_fit_reason reason); /* NULL for NONE */

/* What the time of a phase waits for. */
enum bound { BOUND_COMPUTE, BOUND_MEMORY_BANDWIDTH, BOUND_INTERCONNECT, BOUND_LAUNCH_OVERHEAD, BOUND_COUNT };
const char *bound_name(enum bound bound);

enum limit {
  LIMIT_NONE,
  LIMIT_KV_CACHE,
  LIMIT_COMPUTE,
  LIMIT_MEMORY_BANDWIDTH,
  LIMIT_INTERCONNECT,
  LIMIT_LAUNCH_OVERHEAD,
  LIMIT_QUEUE,
  LIMIT_BATCH
};
const char *limit_name(enum limit limit); /* NULL for NONE */

struct calibration;
/* QUICK: closed form alone. SIMULATED: the best candidates are judged by a short simulation. FULL: a long one, then stress
   cases and variants. */
enum fit_depth { FIT_FULL, FIT_QUICK, FIT_SIMULATED };

struct scorecard_configuration {
  unsigned tensor_parallel, pipeline_parallel, expert_parallel, attention_data_parallel, replicas;
  unsigned gpus, gpus_billed;
  unsigned max_batch; /* engine setting: sequences that one attention rank runs at once */
  enum precision weights, kv_cache, activations;
  const char *const *precision_fallbacks; /* sentences */
  size_t precision_fallback_count;
  const char *launch; /* command line that starts one replica; NULL where the runtime's is not known */
};

struct scorecard_memory { /* per GPU unless said otherwise */
  double usable_bytes, weights_bytes, activations_bytes, runtime_bytes, kv_cache_bytes;
  double kv_bytes_per_token;      /* whole replica, all its GPUs together */
  double kv_bytes_per_session;    /* whole replica */
  double max_concurrent_sessions; /* whole replica; NaN = no limit */
  double max_context_tokens;
  double headroom_ratio;
  unsigned min_gpus; /* 0 = no layout holds it */
  unsigned min_gpus_tensor_parallel, min_gpus_pipeline_parallel;
};

struct scorecard_phase {
  enum bound bound;
  double time_share_ratio;
  double time_s; /* prefill: one prompt alone; decode: one step at the running batch */
  double flops_utilisation_ratio, bandwidth_utilisation_ratio, communication_share_ratio;
  double weights_bytes, kv_bytes;        /* read by one decode step on one GPU */
  double bound_share_ratio[BOUND_COUNT]; /* parts of time_s; sum 1 */
};

struct scorecard_latency { /* seconds */
  struct percentiles ttft_s, itl_s, e2e_s, queue_s;
  double tpot_mean_s;
};

struct scorecard_throughput { /* whole fleet */
  double requests_per_s, output_tok_s, output_tok_s_per_gpu, output_tok_s_per_user;
  double mean_batch;     /* sequences decoding at once in one replica */
  double at_concurrency; /* requests in the system (Little: requests_per_s × e2e) */
};

struct scorecard_limits {
  double knee_requests_per_s, saturation_requests_per_s, margin_to_knee_ratio;
  enum limit first_limit;
};

/* Of the requests that users send; NaN = not simulated. */
struct scorecard_success {
  double rate_ratio;      /* answered within the limits of a success */
  double preempted_ratio; /* computed in part twice, for want of KV blocks */
  double shed_ratio, timed_out_ratio;
  double rejected_ratio; /* longer than the context or than the whole KV pool */
};

/* Parts of the cost of a successful request: what the fleet's capacity goes into. Sum: per_successful_request_usd. */
struct scorecard_cost_items {
  double busy_usd; /* work for requests that succeed */
  double idle_usd;
  double headroom_usd; /* what the asked headroom keeps free */
  double failed_usd;   /* work for the others, and work done twice */
  double startup_usd;  /* restarts and deploys */
};

struct scorecard_cost {
  double usd_per_gpu_hour; /* NaN = no price known */
  const char *price_basis; /* NULL = no price known */
  double per_attempted_request_usd, per_successful_request_usd, per_million_output_tokens_usd, monthly_usd;
  double by_bound_compute, by_bound_weights, by_bound_kv_cache, by_bound_interconnect, by_bound_launch,
      by_bound_idle; /* shares, sum 1 */
  struct scorecard_cost_items items;
};

struct scorecard_energy { /* NaN where the profile states no board limit */
  double watts_per_gpu;   /* mean */
  double joules_per_request, kwh_per_million_output_tokens;
};

struct scorecard_startup { /* of one replica */
  double weights_load_s, ready_s;
};

struct scorecard_target {
  const char *metric;    /* "latency.ttft_ms.p99" */
  double target, actual; /* in the metric's wire unit; actual NaN = not decided at this depth */
  double margin_ratio;   /* > 0: met by that share of the target */
  int met;               /* 1 yes, 0 no, -1 not decided */
};
#define SCORECARD_TARGETS_MAX 24

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_CRITICAL };
struct scorecard_evidence {
  const char *name;
  double value;
};
struct scorecard_finding {
  const char *code;
  enum severity severity;
  const char *message;
  struct scorecard_evidence evidence[6];
  size_t evidence_count;
};
#define SCORECARD_FINDINGS_MAX 32

/* p10 and p90 of measured / predicted, from the out-of-sample errors of the load's class. */
struct scorecard_uncertainty {
  double ttft_ratio[2], itl_ratio[2], throughput_ratio[2]; /* NaN without latency */
  const char *band_class;                                  /* NULL without latency */
};

/* The same sketch with its weights in another format, best configuration each. */
struct scorecard_rung {
  enum precision precision;
  enum precision_support support; /* by the device */
  enum verdict verdict;
  unsigned gpus;                                              /* 0 = no configuration */
  double weights_bytes;                                       /* per GPU */
  double output_tok_s, itl_p50_s, per_successful_request_usd; /* NaN = none */
};
#define SCORECARD_RUNGS_MAX 8

/* Change of the cost per request at saturation for 10 % more of each, at this configuration: negative is cheaper. */
struct scorecard_sensitivity {
  double memory_ratio, memory_bandwidth_ratio, compute_ratio, interconnect_ratio; /* NaN = not computed */
};

/* What it takes to make a change, from the cheapest on. */
enum change_requires {
  REQUIRES_CONFIGURATION,
  REQUIRES_REQUANTISATION,
  REQUIRES_PROMISE, /* the product promises something else */
  REQUIRES_PROCUREMENT,
  REQUIRES_RETRAINING
};
const char *change_requires_name(enum change_requires requires);

/* One setting changed (core/knob.h), with what the evaluation of the changed sketch says of it. */
struct scorecard_effect {
  const char *metric; /* dotted path of the scorecard */
  double from, to;    /* in the metric's wire unit; NaN = the scorecard has none */
};
#define SCORECARD_EFFECTS_MAX 8
struct scorecard_change {
  const char *knob, *pointer;
  struct knob_value from, to;
  enum change_requires requires;
  const char *message;
  struct scorecard_effect effects[SCORECARD_EFFECTS_MAX];
  size_t effect_count;
  double payback_months; /* NaN: no change_cost_usd in the sketch, or nothing is saved */
};

struct scorecard_alternatives { /* NaN = no managed_api in the sketch, or no price */
  double managed_per_request_usd;
  double break_even_requests_per_h; /* rate from which this fleet costs less than the managed API */
  int self_host_is_justified;       /* 1 yes, 0 no, -1 not known */
};

/* One change for the worse to the configuration as it is; depth full. */
enum stress_case {
  STRESS_INPUT_DOUBLED,
  STRESS_OUTPUT_DOUBLED,
  STRESS_BURSTS_DOUBLED,
  STRESS_POWER_CAP, /* a fifth lower */
  STRESS_ONE_GPU_THROTTLED,
  STRESS_REPLICA_LOST,
  STRESS_KERNELS_FALL_BACK, /* math in 16 bit */
  STRESS_CASES
};
const char *stress_case_name(enum stress_case which); /* "input_doubled", … */

struct scorecard_stress {
  bool is_computed;
  enum verdict verdict;
  double ttft_p99_s, itl_p99_s; /* NaN: the queue grows, or nothing is left to serve with */
  double success_ratio, per_successful_request_usd;
  enum limit first_limit;
  unsigned concurrency_limit; /* requests at once that keep the latency limits; 0 = none, or no limits are given */
  const char *missed_metric;  /* of the targets the one that is missed by most; NULL = none, or nothing is served */
  double missed_target, missed_actual;
  const struct scorecard_change *way_out; /* of a sketch that fits: what the same configuration needs to bear the case;
                                             NULL = it bears it, or no single change that was looked at does */
};

struct scorecard {
  enum verdict verdict;
  enum no_fit_reason no_fit_reason;
  const char *no_fit_detail; /* a sentence with the numbers; NULL when it fits */
  bool has_configuration;    /* false: configuration, phases, latency … are not filled */
  bool has_latency;
  struct scorecard_configuration configuration;
  struct scorecard_memory memory;
  struct scorecard_phase prefill, decode;
  struct scorecard_latency latency;
  struct scorecard_throughput throughput;
  struct scorecard_limits limits;
  struct scorecard_success success;
  bool is_simulated; /* percentiles, success and what follows from them come from a simulation */
  struct scorecard_cost cost;
  struct scorecard_energy energy;
  struct scorecard_startup startup;
  struct scorecard_target targets[SCORECARD_TARGETS_MAX];
  size_t target_count;
  struct scorecard_finding findings[SCORECARD_FINDINGS_MAX];
  size_t finding_count;
  const char *constants_provenance; /* own | class | pooled */
  const char *const *assumptions;   /* sentences, every default that was filled in */
  size_t assumption_count;
  struct scorecard_uncertainty uncertainty;
  struct scorecard_rung ladder[SCORECARD_RUNGS_MAX]; /* depth full, accuracy not locked */
  size_t ladder_count;
  struct scorecard_sensitivity sensitivity; /* depth full */
  struct scorecard_stress stress[STRESS_CASES];
  const struct scorecard_change *advice; /* depth full; in the arena */
  size_t advice_count;
  const struct scorecard_change *ways_out; /* likewise, when nothing fits: each alone makes it fit, cheapest first */
  size_t way_out_count;
  struct scorecard_alternatives alternatives; /* depth full */
};

struct arrival;

/* What the closed form knows of a trace: lengths by their moments, the rate over its span. */
struct fit_trace_means {
  struct length input, output;
  double requests_per_s;
};
/* Of at least 2 requests. */
struct fit_trace_means fit_trace_means(const struct arrival *rows, size_t count);

struct fit_request {
  const struct workload *workload;
  const struct model *model;
  const struct hardware *hardware;
  enum fit_depth depth;
  bool is_brief; /* for grids: without the smallest number of GPUs, and without the knee where no headroom is asked */
  bool (*stop)(void *cls); /* polled in long loops; may be NULL */
  void *stop_cls;
  const struct calibration
      *calibration;        /* fitted to measurements of this model here (core/calibration.h); NULL = none */
  bool are_figures_enough; /* depth full without what it adds to them: stress cases, variants, advice (comparisons) */
  bool is_verdict_enough;  /* whether anything fits is asked: figures are some fit's (quick), the knee is left out */
  bool is_probe;           /* simulated: the verdict alone is read, so that the first fit ends the choice */
  const struct model *draft_model; /* that the workload's speculative_draft_model names; NULL where it names none */
  const struct arrival *trace;     /* LOAD_TRACE: the requests to replay, in order of time; borrowed */
  size_t trace_count;
  const struct fit_trace_means *trace_means; /* of these, where many evaluations share them; NULL = worked out here */
  const uint32_t *trace_hashes;              /* of their prompts' blocks; NULL = none */
  size_t trace_hash_count;
  unsigned trace_hash_block_tokens; /* of a prompt, that one hash stands for */
};

/* Best configuration on this profile, or why there is none ("infeasible" is a verdict, not an error).
   Errors: ERR_LIMIT arena exhausted, ERR_CANCELLED stop said so, ERR_INVALID the sketch asks for something that this
   version can not compute (pointer into the sketch). */
enum err fit_evaluate(struct scorecard *out, const struct fit_request *request, struct arena *arena,
                      struct error *e) MUST_CHECK;

/* Order of scorecards in an answer: verdict, priced by cost per successful request, unpriced by GPUs and name.
   < 0: a before b. Names break ties. */
int fit_compare(const struct scorecard *a, const char *name_a, const struct scorecard *b, const char *name_b);

#endif
