/* Token lengths as distributions, and the faults of a sketch that no single field shows.
   Bounds of single fields are the reader's (api/sketch*.c). */
#include "core/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define Z_P99 2.3263478740408408 /* standard normal quantile of 0.99 */

/* Standard normal quantile by Newton's method. For p ≥ ½ the distribution function is concave right of 0, so the
   iteration climbs to the root without overshooting. */
static double normal_quantile(double p)
{
  double z = 0.0;
  if (p < 0.5)
    return -normal_quantile(1.0 - p);
  for (int i = 0; i < 100; i++) {
    const double upper_tail = 0.5 * erfc(z * M_SQRT1_2);
    const double density = exp(-0.5 * z * z) * 0.5 * M_SQRT1_2 * M_2_SQRTPI;
    const double step = (upper_tail - (1.0 - p)) / density;
    z += step;
    if (!(fabs(step) > 1e-15))
      break;
  }
  return z;
}

/* Median and sigma of ln(tokens). */
static void log_normal(const struct length *length, double *median_tokens, double *sigma)
{
  if (length->kind == LENGTH_QUANTILES) {
    *median_tokens = length->p50_tokens;
    *sigma = log(length->p99_tokens / length->p50_tokens) / Z_P99;
  } else {
    const double variance = log1p(length->cv_ratio * length->cv_ratio);
    *median_tokens = length->mean_tokens * exp(-0.5 * variance);
    *sigma = sqrt(variance);
  }
}

double length_mean_tokens(const struct length *length)
{
  double median_tokens, sigma;
  switch (length->kind) {
  case LENGTH_FIXED: return length->fixed_tokens;
  case LENGTH_MOMENTS: return length->mean_tokens;
  case LENGTH_QUANTILES: log_normal(length, &median_tokens, &sigma); return median_tokens * exp(0.5 * sigma * sigma);
  case LENGTH_ABSENT: break;
  }
  return (double)NAN;
}

double length_quantile_tokens(const struct length *length, double p)
{
  double median_tokens, sigma;
  switch (length->kind) {
  case LENGTH_FIXED: return length->fixed_tokens;
  case LENGTH_QUANTILES:
  case LENGTH_MOMENTS:
    log_normal(length, &median_tokens, &sigma);
    return median_tokens * exp(sigma * normal_quantile(p));
  case LENGTH_ABSENT: break;
  }
  return (double)NAN;
}

static void percentiles_init(struct percentiles *limits)
{
  limits->p50 = limits->p90 = limits->p99 = limits->mean = (double)NAN;
}

static void targets_init(struct workload_targets *targets)
{
  percentiles_init(&targets->ttft_ms);
  percentiles_init(&targets->itl_ms);
  percentiles_init(&targets->tpot_ms);
  percentiles_init(&targets->e2e_ms);
  targets->max_context_tokens = (double)NAN;
  targets->cost_per_successful_request_usd = (double)NAN;
  targets->cost_per_million_output_tokens_usd = (double)NAN;
  targets->cost_monthly_usd = (double)NAN;
  targets->success_rate_ratio = (double)NAN;
  targets->headroom_ratio = (double)NAN;
}

static void length_init(struct length *length)
{
  length->fixed_tokens = length->p50_tokens = length->p99_tokens = (double)NAN;
  length->mean_tokens = length->cv_ratio = (double)NAN;
}

static void traffic_init(struct workload_traffic *traffic)
{
  length_init(&traffic->input);
  length_init(&traffic->output);
  traffic->requests_per_s = (double)NAN;
  traffic->concurrency = (double)NAN;
  traffic->rate_scale = (double)NAN;
  traffic->burst_peak_to_mean = (double)NAN;
  traffic->burst_duration_s = (double)NAN;
  traffic->shared_prefix_tokens = (double)NAN;
  traffic->client_timeout_ms = (double)NAN;
  traffic->sheddable_share_ratio = (double)NAN;
}

void workload_init(struct workload *workload)
{
  memset(workload, 0, sizeof *workload);
  traffic_init(&workload->traffic);
  targets_init(&workload->targets);
  targets_init(&workload->success);
  workload->constraints.power_cap_w = (double)NAN;
  workload->constraints.managed_input_usd_per_million_tokens = (double)NAN;
  workload->constraints.managed_output_usd_per_million_tokens = (double)NAN;
  workload->constraints.change_cost_usd = (double)NAN;
  workload->serving.chunked_prefill = -1;
  workload->serving.prefix_caching = -1;
  workload->serving.cuda_graphs = -1;
  workload->serving.memory_fraction_ratio = (double)NAN;
  workload->serving.speculative_acceptance_ratio = (double)NAN;
  workload->restarts_per_day = (double)NAN;
  workload->deploys_per_week = (double)NAN;
  workload->seed = 1;
}

void workload_set_precision(struct workload *workload, enum precision word)
{
  const bool is_whole =
      word == PRECISION_FP32 || word == PRECISION_BF16 || word == PRECISION_FP16 || word == PRECISION_FP8;
  workload->precision_is_word = word != PRECISION_NONE;
  workload->weights = word;
  workload->kv_cache = workload->activations = is_whole ? word : PRECISION_NONE;
}

static void check_length(const struct length *length, const char *pointer, struct faults *faults)
{
  char at[64];
  if (length->kind != LENGTH_QUANTILES || !(length->p50_tokens > length->p99_tokens))
    return;
  (void)snprintf(at, sizeof at, "%s/p99", pointer);
  faults_add(faults, FAULT_CONFLICT, at, NULL, "is %.15g; p99 must not be below p50 = %.15g", length->p99_tokens,
             length->p50_tokens);
}

static double longest_tokens(const struct length *length)
{
  return length_quantile_tokens(length, 0.99);
}

static void check_prefix(const struct workload_traffic *traffic, struct faults *faults)
{
  const double longest = longest_tokens(&traffic->input);
  if (traffic->shared_prefix_tokens > longest)
    faults_add(faults, FAULT_CONFLICT, "/traffic/shared_prefix_tokens", NULL,
               "a shared prefix of %.15g tokens does not fit prompts of at most %.6g tokens (p99 of input_tokens)",
               traffic->shared_prefix_tokens, longest);
}

static void check_arrival(const struct workload_traffic *traffic, struct faults *faults)
{
  const bool has_burst = !isnan(traffic->burst_peak_to_mean) || !isnan(traffic->burst_duration_s);
  if (traffic->arrival == ARRIVAL_SPIKY && !has_burst)
    faults_add(faults, FAULT_MISSING, "/traffic/burst", NULL,
               "spiky arrival needs burst: {\"peak_to_mean\": …, \"duration_s\": …}");
  if (traffic->arrival != ARRIVAL_SPIKY && has_burst)
    faults_add(faults, FAULT_CONFLICT, "/traffic/burst", NULL, "a burst needs \"arrival\": \"spiky\"");
  if (traffic->arrival == ARRIVAL_SPIKY && (traffic->load == LOAD_CLOSED || traffic->load == LOAD_TRACE))
    faults_add(faults, FAULT_CONFLICT, "/traffic/arrival", NULL, "spiky arrival needs requests_per_s: %s",
               traffic->load == LOAD_CLOSED ? "users of a closed loop send again when answered"
                                            : "a trace brings its own arrival times");
}

static void check_traffic(const struct workload_traffic *traffic, struct faults *faults)
{
  if (traffic->load == LOAD_ABSENT)
    faults_add(faults, FAULT_MISSING, "/traffic", NULL,
               "exactly one of requests_per_s, concurrency, trace is required");
  /* Lengths that are given stand for the requests of a trace too; those that are not come with it. */
  if (traffic->load != LOAD_TRACE && traffic->input.kind == LENGTH_ABSENT)
    faults_add(faults, FAULT_MISSING, "/traffic/input_tokens", NULL, "is required");
  if (traffic->load != LOAD_TRACE && traffic->output.kind == LENGTH_ABSENT)
    faults_add(faults, FAULT_MISSING, "/traffic/output_tokens", NULL, "is required");
  check_length(&traffic->input, "/traffic/input_tokens", faults);
  check_length(&traffic->output, "/traffic/output_tokens", faults);
  check_prefix(traffic, faults);
  check_arrival(traffic, faults);
}

/* A lower percentile can not be allowed to be worse than a higher one. */
static void check_percentiles(const struct percentiles *limits, const char *metric, struct faults *faults)
{
  const double values[] = {limits->p50, limits->p90, limits->p99};
  static const char *const names[] = {"p50", "p90", "p99"};
  char pointer[64];
  for (unsigned high = 1; high < 3; high++)
    for (unsigned low = 0; low < high; low++)
      if (values[low] > values[high]) {
        (void)snprintf(pointer, sizeof pointer, "/targets/%s/%s", metric, names[high]);
        faults_add(faults, FAULT_CONFLICT, pointer, NULL, "is %.15g; must not be below %s = %.15g", values[high],
                   names[low], values[low]);
        break;
      }
}

static void check_layout(const struct workload *workload, struct faults *faults)
{
  const struct workload_serving *serving = &workload->serving;
  const double tp = serving->tensor_parallel != 0 ? serving->tensor_parallel : 1;
  const double pp = serving->pipeline_parallel != 0 ? serving->pipeline_parallel : 1;
  const double dp = serving->attention_data_parallel != 0 ? serving->attention_data_parallel : 1;
  const double replicas = serving->replicas != 0 ? serving->replicas : 1;
  const double gpus = tp * pp * dp * replicas;
  if (workload->constraints.gpu_quota != 0 && gpus > workload->constraints.gpu_quota)
    faults_add(faults, FAULT_CONFLICT, "/constraints/gpu_quota", NULL,
               "the layout under /serving takes at least %.15g GPUs, more than the quota of %u", gpus,
               workload->constraints.gpu_quota);
  if (serving->expert_parallel > 1 && serving->tensor_parallel != 0 && serving->attention_data_parallel != 0 &&
      fmod(tp * dp, serving->expert_parallel) > 0.0)
    faults_add(faults, FAULT_CONFLICT, "/serving/expert_parallel", NULL,
               "expert_parallel %u does not divide tensor_parallel × attention_data_parallel = %.15g",
               serving->expert_parallel, tp * dp);
  if (serving->max_batched_tokens != 0 && serving->max_batched_tokens < serving->max_batch)
    faults_add(faults, FAULT_CONFLICT, "/serving/max_batched_tokens", NULL,
               "max_batched_tokens %u is below max_batch %u: a decode step takes one token a sequence",
               serving->max_batched_tokens, serving->max_batch);
}

void workload_check(const struct workload *workload, struct faults *faults)
{
  check_traffic(&workload->traffic, faults);
  check_percentiles(&workload->targets.ttft_ms, "ttft_ms", faults);
  check_percentiles(&workload->targets.itl_ms, "itl_ms", faults);
  check_percentiles(&workload->targets.tpot_ms, "tpot_ms", faults);
  check_percentiles(&workload->targets.e2e_ms, "e2e_ms", faults);
  check_layout(workload, faults);
}
