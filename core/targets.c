/* Targets as a table of limits; "at least" targets are judged with the sign turned. */
#include "core/targets.h"

#include "core/units.h"

#include <math.h>
#include <string.h>

struct list {
  struct scorecard_target *items;
  size_t count;
};

static double relative_margin(double target, double actual, bool is_at_least)
{
  return is_at_least ? actual / target - 1 : 1 - actual / target;
}

static void add(struct list *list, const char *metric, double target, double actual, bool is_at_least)
{
  struct scorecard_target *item;
  if (isnan(target) || list->count == SCORECARD_TARGETS_MAX)
    return;
  item = &list->items[list->count++];
  item->metric = metric;
  item->target = target;
  item->actual = actual;
  item->margin_ratio = isnan(actual) ? (double)NAN : relative_margin(target, actual, is_at_least);
  item->met = isnan(actual) ? -1 : item->margin_ratio >= 0;
}

/* A tail is never below the median: a limit on it that the median exceeds is missed, whatever the tail is. */
static void add_tail(struct list *list, const char *metric, double target, double tail, double median)
{
  struct scorecard_target *item;
  if (!isnan(tail)) {
    add(list, metric, target, tail, false);
    return;
  }
  if (isnan(target) || list->count == SCORECARD_TARGETS_MAX)
    return;
  item = &list->items[list->count++];
  item->metric = metric;
  item->target = target;
  item->actual = (double)NAN;
  item->margin_ratio = median > target ? relative_margin(target, median, false) : (double)NAN;
  item->met = median > target ? 0 : -1;
}

static void add_latency(struct list *list, const char *const metrics[3], const struct percentiles *limit_ms,
                        const struct percentiles *seen_s)
{
  add(list, metrics[0], limit_ms->p50, seen_s->p50 / MS, false);
  add_tail(list, metrics[1], limit_ms->p90, seen_s->p90 / MS, seen_s->p50 / MS);
  add_tail(list, metrics[2], limit_ms->p99, seen_s->p99 / MS, seen_s->p50 / MS);
}

struct percentiles targets_median(double p50)
{
  return (struct percentiles){p50, (double)NAN, (double)NAN, (double)NAN};
}

size_t targets_list(struct scorecard_target items[SCORECARD_TARGETS_MAX], const struct workload_targets *targets,
                    const struct target_figures *figures)
{
  static const char *const ttft[] = {"latency.ttft_ms.p50", "latency.ttft_ms.p90", "latency.ttft_ms.p99"};
  static const char *const itl[] = {"latency.itl_ms.p50", "latency.itl_ms.p90", "latency.itl_ms.p99"};
  static const char *const e2e[] = {"latency.e2e_ms.p50", "latency.e2e_ms.p90", "latency.e2e_ms.p99"};
  struct list list = {items, 0};
  add_latency(&list, ttft, &targets->ttft_ms, &figures->ttft_s);
  add_latency(&list, itl, &targets->itl_ms, &figures->itl_s);
  add(&list, "latency.tpot_ms.mean", targets->tpot_ms.mean, figures->tpot_s / MS, false);
  add_latency(&list, e2e, &targets->e2e_ms, &figures->e2e_s);
  add(&list, "memory.max_context_tokens", targets->max_context_tokens, figures->max_context_tokens, true);
  add(&list, "cost.per_successful_request_usd", targets->cost_per_successful_request_usd,
      figures->per_successful_request_usd, false);
  add(&list, "cost.per_million_output_tokens_usd", targets->cost_per_million_output_tokens_usd,
      figures->per_million_output_tokens_usd, false);
  add(&list, "cost.monthly_usd", targets->cost_monthly_usd, figures->monthly_usd, false);
  add(&list, "success.rate", targets->success_rate_ratio, figures->success_rate_ratio, true);
  add(&list, "limits.margin_to_knee", targets->headroom_ratio, figures->margin_to_knee_ratio, true);
  return list.count;
}

const char *targets_latency_pointer(const char *metric)
{
  static const char *const limits[][2] = {
      {"latency.ttft_ms.p50", "/targets/ttft_ms/p50"},   {"latency.ttft_ms.p90", "/targets/ttft_ms/p90"},
      {"latency.ttft_ms.p99", "/targets/ttft_ms/p99"},   {"latency.itl_ms.p50", "/targets/itl_ms/p50"},
      {"latency.itl_ms.p90", "/targets/itl_ms/p90"},     {"latency.itl_ms.p99", "/targets/itl_ms/p99"},
      {"latency.tpot_ms.mean", "/targets/tpot_ms/mean"}, {"latency.e2e_ms.p50", "/targets/e2e_ms/p50"},
      {"latency.e2e_ms.p90", "/targets/e2e_ms/p90"},     {"latency.e2e_ms.p99", "/targets/e2e_ms/p99"}};
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
    if (strcmp(limits[i][0], metric) == 0)
      return limits[i][1];
  return NULL;
}

double targets_worst_excess(const struct scorecard_target *list, size_t count)
{
  double worst = -1;
  for (size_t i = 0; i < count; i++)
    if (list[i].met == 0)
      worst = fmax(worst, -list[i].margin_ratio);
  return worst;
}

static double excess_of(const struct percentiles *limit_ms, double median_s)
{
  const double ms = median_s / MS;
  double tightest = limit_ms->p50;
  tightest =
      fmin(isnan(tightest) ? (double)INFINITY : tightest, isnan(limit_ms->p90) ? (double)INFINITY : limit_ms->p90);
  tightest = fmin(tightest, isnan(limit_ms->p99) ? (double)INFINITY : limit_ms->p99);
  tightest = fmin(tightest, isnan(limit_ms->mean) ? (double)INFINITY : limit_ms->mean);
  return isinf(tightest) ? -1 : ms / tightest - 1;
}

double targets_latency_excess(const struct workload_targets *targets, double ttft_s, double itl_s, double tpot_s,
                              double e2e_s)
{
  const double ttft = excess_of(&targets->ttft_ms, ttft_s);
  const double itl = fmax(excess_of(&targets->itl_ms, itl_s), excess_of(&targets->tpot_ms, tpot_s));
  return fmax(fmax(ttft, itl), excess_of(&targets->e2e_ms, e2e_s));
}

static double excess_over(const struct percentiles *limit_ms, const struct percentiles *seen_s)
{
  const double limits_ms[] = {limit_ms->p50, limit_ms->p90, limit_ms->p99, limit_ms->mean};
  const double seen[] = {seen_s->p50, seen_s->p90, seen_s->p99, seen_s->mean};
  double worst = -1;
  for (int i = 0; i < 4; i++)
    worst = fmax(worst, seen[i] / MS / limits_ms[i] - 1); /* NaN where there is no limit: not larger */
  return worst;
}

double targets_simulated_excess(const struct workload_targets *targets, const struct scorecard_latency *latency,
                                double success_ratio)
{
  const struct percentiles tpot_s = {(double)NAN, (double)NAN, (double)NAN, latency->tpot_mean_s};
  double worst = fmax(excess_over(&targets->ttft_ms, &latency->ttft_s), excess_over(&targets->itl_ms, &latency->itl_s));
  worst = fmax(worst, fmax(excess_over(&targets->tpot_ms, &tpot_s), excess_over(&targets->e2e_ms, &latency->e2e_s)));
  if (!isnan(targets->success_rate_ratio) && !isnan(success_ratio))
    worst = fmax(worst, 1 - success_ratio / targets->success_rate_ratio);
  return worst;
}

bool targets_has_limit(const struct percentiles *limit)
{
  return !isnan(limit->p50) || !isnan(limit->p90) || !isnan(limit->p99) || !isnan(limit->mean);
}

bool targets_have_latency(const struct workload_targets *targets)
{
  return targets_has_limit(&targets->ttft_ms) || targets_has_limit(&targets->itl_ms) ||
         targets_has_limit(&targets->tpot_ms) || targets_has_limit(&targets->e2e_ms);
}

struct workload_targets targets_preset(void)
{
  const struct percentiles none = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};
  struct workload_targets targets = {.are_given = false,
                                     .ttft_ms = none,
                                     .itl_ms = none,
                                     .tpot_ms = none,
                                     .e2e_ms = none,
                                     .max_context_tokens = (double)NAN,
                                     .cost_per_successful_request_usd = (double)NAN,
                                     .cost_per_million_output_tokens_usd = (double)NAN,
                                     .cost_monthly_usd = (double)NAN,
                                     .success_rate_ratio = (double)NAN,
                                     .headroom_ratio = (double)NAN};
  targets.ttft_ms.p99 = 2000;
  targets.itl_ms.p99 = 100;
  return targets;
}
