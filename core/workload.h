/* A workload sketch in core's terms: what is to be served, how requests come, what is promised. Read by api/sketch.c,
   checked here for what only makes sense together. Value struct without ownership: names are copied in.
   Absent numbers are NaN, absent counts 0, so "given" is testable. Times in the wire's milliseconds carry _ms. */
#ifndef FITD_CORE_WORKLOAD_H
#define FITD_CORE_WORKLOAD_H

#include <stdint.h>

#include "core/error.h"
#include "core/precision.h"

enum length_kind { LENGTH_ABSENT, LENGTH_FIXED, LENGTH_QUANTILES, LENGTH_MOMENTS };

/* Tokens of a prompt or an answer. QUANTILES: log-normal through p50 and p99; MOMENTS: log-normal with mean and cv. */
struct length {
  enum length_kind kind;
  double fixed_tokens;
  double p50_tokens, p99_tokens;
  double mean_tokens, cv_ratio;
};
double length_mean_tokens(const struct length *length);
double length_quantile_tokens(const struct length *length, double p); /* p in (0, 1) */

enum arrival_kind { ARRIVAL_POISSON, ARRIVAL_STEADY, ARRIVAL_SPIKY };
enum load_kind { LOAD_ABSENT, LOAD_OPEN, LOAD_CLOSED, LOAD_TRACE };

/* p50, p90, p99 of a target in the wire's unit; NaN = not asked. */
struct percentiles {
  double p50, p90, p99, mean;
};

struct workload_traffic {
  struct length input, output;
  enum load_kind load;
  double requests_per_s; /* LOAD_OPEN */
  double concurrency;    /* LOAD_CLOSED: users, each with one request at a time */
  char trace[65];        /* LOAD_TRACE */
  double rate_scale;
  enum arrival_kind arrival;
  bool arrival_is_given;
  double burst_peak_to_mean, burst_duration_s;
  double shared_prefix_tokens;
  bool has_hourly_shape;
  double hourly_shape[24];
  double client_timeout_ms;
  unsigned client_retries;
  double sheddable_share_ratio;
};

struct workload_targets {
  bool are_given;
  struct percentiles ttft_ms, itl_ms, tpot_ms, e2e_ms;
  double max_context_tokens;
  double cost_per_successful_request_usd;
  double cost_per_million_output_tokens_usd;
  double cost_monthly_usd;
  double success_rate_ratio;
  double headroom_ratio; /* least margin_to_knee */
};

struct workload_price_override {
  char profile[65];
  double usd_per_gpu_hour;
};

enum accuracy_policy { ACCURACY_FREE, ACCURACY_VALIDATED, ACCURACY_LOCKED };

struct workload_constraints {
  unsigned gpu_quota; /* 0 = none */
  double power_cap_w;
  enum accuracy_policy accuracy;
  char price_cloud[32]; /* "" = not given */
  char price_commitment[32];
  unsigned price_override_count;
  struct workload_price_override price_overrides[64];
  double managed_input_usd_per_million_tokens, managed_output_usd_per_million_tokens;
  double change_cost_usd;
};

/* 0, NaN or a negative tristate = not given: the runtime's preset or the search decides. */
struct workload_serving {
  char runtime[32];         /* "" = vllm */
  char runtime_version[32]; /* "" = newest preset */
  unsigned tensor_parallel, pipeline_parallel, expert_parallel, attention_data_parallel, replicas;
  unsigned max_batch, max_batched_tokens;
  int chunked_prefill; /* -1 not given, 0 no, 1 yes */
  int prefix_caching;
  int cuda_graphs;
  unsigned recv_interval_steps;
  unsigned batch_wait_steps;
  unsigned kv_block_tokens;
  double memory_fraction_ratio;
  unsigned concurrency_limit;
  unsigned speculative_draft_tokens;
  double speculative_acceptance_ratio;
  char speculative_draft_model[65];
  unsigned prefill_replicas, decode_replicas; /* disaggregated pools */
};

struct workload {
  char name[65];
  enum precision weights, kv_cache, activations; /* NONE = what the model says */
  bool precision_is_word;                        /* one word stands for the three */
  unsigned adapter_count, adapter_rank;
  struct workload_traffic traffic;
  struct workload_targets targets;
  struct workload_targets success; /* only the mean/highest limits are used: ttft_ms.mean, itl_ms.mean, e2e_ms.mean */
  struct workload_constraints constraints;
  struct workload_serving serving;
  double restarts_per_day, deploys_per_week;
  bool uses_live_hardware; /* asked for; whoever evaluates gives hardware as it is then */
  int64_t seed;
};

/* Everything absent; seed 1. */
void workload_init(struct workload *workload);

/* One word for weights, KV cache and activations where all three exist in that format; formats that only weights are stored
   in leave the other two to the model and the runtime. */
void workload_set_precision(struct workload *workload, enum precision word);

/* Faults that need more than one field: exactly one load, p50 ≤ p99, spiky without burst, parallel degrees against the
   quota … Pointers are those of the sketch ("/traffic/output_tokens/p99"). */
void workload_check(const struct workload *workload, struct faults *faults);

#endif
