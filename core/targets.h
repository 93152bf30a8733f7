/* Judging figures against a sketch's targets. A percentile above the median that is not known (closed form) is decided only
   where the median already misses it. Pure functions. */
#ifndef FITD_CORE_TARGETS_H
#define FITD_CORE_TARGETS_H

#include "core/fit.h"

/* The figures that targets speak of; seconds inside, NaN = not known at this depth. */
struct target_figures {
  struct percentiles ttft_s, itl_s, e2e_s;
  double tpot_s; /* mean */
  double max_context_tokens;
  double per_successful_request_usd, per_million_output_tokens_usd, monthly_usd;
  double success_rate_ratio;
  double margin_to_knee_ratio;
};

/* Percentiles of which the median alone is known. */
struct percentiles targets_median(double p50);

/* Lists every target of the sketch with what is known about it; returns their number. */
size_t targets_list(struct scorecard_target list[SCORECARD_TARGETS_MAX], const struct workload_targets *targets,
                    const struct target_figures *figures);

/* Where a sketch states the limit on a latency: "latency.ttft_ms.p99" → "/targets/ttft_ms/p99"; NULL for other metrics. */
const char *targets_latency_pointer(const char *metric);

/* Largest relative excess over the limits that are decided: ≤ 0 when all of them are met. */
double targets_worst_excess(const struct scorecard_target *list, size_t count);

/* The same over latency limits alone, each against a median: what the closed form's knee and number of replicas depend on. */
double targets_latency_excess(const struct workload_targets *targets, double ttft_s, double itl_s, double tpot_s,
                              double e2e_s);
bool targets_has_limit(const struct percentiles *limit); /* any percentile of it, or the mean */
/* … each against its own percentile, with the success rate where one is asked. */
double targets_simulated_excess(const struct workload_targets *targets, const struct scorecard_latency *latency,
                                double success_ratio);
bool targets_have_latency(const struct workload_targets *targets);

/* Interactive limits that steer the choice when a sketch states none (TTFT p99 2 s, ITL p99 100 ms). */
struct workload_targets targets_preset(void);

#endif
