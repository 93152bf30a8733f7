/* Judging: what is met, missed or not decided, and by how much. */
#include "core/targets.h"

#include "tests/core/fixtures.h"

#define MEDIAN(p50)                                                                                                    \
  {                                                                                                                    \
    (p50), (double)NAN, (double)NAN, (double)NAN                                                                       \
  }

static const struct target_figures figures = {.ttft_s = MEDIAN(0.5),
                                              .itl_s = MEDIAN(0.02),
                                              .tpot_s = 0.025,
                                              .e2e_s = MEDIAN(10),
                                              .max_context_tokens = 8000,
                                              .per_successful_request_usd = 0.01,
                                              .per_million_output_tokens_usd = 20,
                                              .monthly_usd = 1000,
                                              .success_rate_ratio = (double)NAN,
                                              .margin_to_knee_ratio = 0.3};

static struct workload_targets none(void)
{
  return fixture_workload().targets;
}

static const struct scorecard_target *find(const struct scorecard_target *list, size_t count, const char *metric)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i].metric, metric) == 0)
      return &list[i];
  ck_abort_msg("no target %s", metric);
  return NULL;
}

START_TEST(without_targets_there_is_nothing_to_judge)
{
  const struct workload_targets targets = none();
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  ck_assert_uint_eq(targets_list(list, &targets, &figures), 0);
  ck_assert(targets_worst_excess(list, 0) <= 0);
  ck_assert(!targets_have_latency(&targets));
  ck_assert(targets_latency_excess(&targets, 1e9, 1e9, 1e9, 1e9) <= 0);
}
END_TEST

/* TTFT 500 ms against 400: missed by a quarter; ITL 20 ms against 40: met by half; monthly 1000 against 1000: just met;
   context 8000 of at least 16000: half of it missing; headroom 0.3 of at least 0.2: met by half. */
START_TEST(decided_targets_have_margins)
{
  struct workload_targets targets = none();
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  size_t count;
  targets.ttft_ms.p50 = 400;
  targets.itl_ms.p50 = 40;
  targets.cost_monthly_usd = 1000;
  targets.max_context_tokens = 16000;
  targets.headroom_ratio = 0.2;
  count = targets_list(list, &targets, &figures);
  ck_assert_uint_eq(count, 5);
  ck_assert_int_eq(find(list, count, "latency.ttft_ms.p50")->met, 0);
  assert_close(find(list, count, "latency.ttft_ms.p50")->actual, 500, 1e-12);
  assert_close(find(list, count, "latency.ttft_ms.p50")->margin_ratio, -0.25, 1e-9);
  ck_assert_int_eq(find(list, count, "latency.itl_ms.p50")->met, 1);
  assert_close(find(list, count, "latency.itl_ms.p50")->margin_ratio, 0.5, 1e-9);
  ck_assert_int_eq(find(list, count, "cost.monthly_usd")->met, 1);
  ck_assert_int_eq(find(list, count, "memory.max_context_tokens")->met, 0);
  assert_close(find(list, count, "memory.max_context_tokens")->margin_ratio, -0.5, 1e-9);
  ck_assert_int_eq(find(list, count, "limits.margin_to_knee")->met, 1);
  assert_close(find(list, count, "limits.margin_to_knee")->margin_ratio, 0.5, 1e-9);
  assert_close(targets_worst_excess(list, count), 0.5, 1e-9);
}
END_TEST

/* A tail is at least the median: missed when the median is above it, else not decided by a closed form. */
START_TEST(tails_are_decided_only_against)
{
  struct workload_targets targets = none();
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  size_t count;
  targets.ttft_ms.p90 = 600;
  targets.ttft_ms.p99 = 250;
  count = targets_list(list, &targets, &figures);
  ck_assert_uint_eq(count, 2);
  ck_assert_int_eq(find(list, count, "latency.ttft_ms.p90")->met, -1);
  ck_assert(isnan(find(list, count, "latency.ttft_ms.p90")->actual) &&
            isnan(find(list, count, "latency.ttft_ms.p90")->margin_ratio));
  ck_assert_int_eq(find(list, count, "latency.ttft_ms.p99")->met, 0);
  assert_close(targets_worst_excess(list, count), 1, 1e-9); /* 500 against 250 */
}
END_TEST

/* What a simulation knows: p90 580 of 600 met, p99 700 of 250 missed by 1.8, success 0.95 of 0.99 missed by 0.0404. */
START_TEST(known_tails_are_decided)
{
  struct workload_targets targets = none();
  struct target_figures simulated = figures;
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  size_t count;
  targets.ttft_ms.p90 = 600;
  targets.ttft_ms.p99 = 250;
  targets.success_rate_ratio = 0.99;
  simulated.ttft_s = (struct percentiles){0.5, 0.58, 0.7, 0.52};
  simulated.success_rate_ratio = 0.95;
  count = targets_list(list, &targets, &simulated);
  ck_assert_uint_eq(count, 3);
  ck_assert_int_eq(find(list, count, "latency.ttft_ms.p90")->met, 1);
  assert_close(find(list, count, "latency.ttft_ms.p90")->actual, 580, 1e-9);
  ck_assert_int_eq(find(list, count, "latency.ttft_ms.p99")->met, 0);
  assert_close(find(list, count, "latency.ttft_ms.p99")->margin_ratio, -1.8, 1e-9);
  ck_assert_int_eq(find(list, count, "success.rate")->met, 0);
  assert_close(targets_worst_excess(list, count), 1.8, 1e-9);
}
END_TEST

/* Each limit against its own percentile: ITL p99 90 of 60 is over by a half, whatever its median; a success rate of 0.9 where
   0.99 is asked by 1 - 0.9/0.99. */
START_TEST(simulated_excess_takes_the_worst_percentile)
{
  struct workload_targets targets = none();
  const struct scorecard_latency latency = {.ttft_s = {0.5, 0.6, 0.7, 0.52},
                                            .itl_s = {0.02, 0.03, 0.09, 0.025},
                                            .e2e_s = {5, 8, 10, 6},
                                            .tpot_mean_s = 0.025};
  ck_assert(targets_simulated_excess(&targets, &latency, 0.5) <= 0);
  targets.ttft_ms.p50 = 500;
  targets.e2e_ms.p99 = 20000;
  assert_close(targets_simulated_excess(&targets, &latency, 1) + 1, 1, 1e-9);
  targets.itl_ms.p99 = 60;
  assert_close(targets_simulated_excess(&targets, &latency, 1), 0.5, 1e-9);
  targets.tpot_ms.mean = 10;
  assert_close(targets_simulated_excess(&targets, &latency, 1), 1.5, 1e-9);
  targets = none();
  targets.success_rate_ratio = 0.99;
  assert_close(targets_simulated_excess(&targets, &latency, 0.9), 1 - 0.9 / 0.99, 1e-9);
}
END_TEST

START_TEST(unknown_figures_are_not_decided)
{
  struct workload_targets targets = none();
  struct target_figures unpriced = figures;
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  size_t count;
  targets.success_rate_ratio = 0.99;
  targets.cost_monthly_usd = 1;
  unpriced.monthly_usd = (double)NAN;
  count = targets_list(list, &targets, &unpriced);
  ck_assert_uint_eq(count, 2);
  ck_assert_int_eq(find(list, count, "success.rate")->met, -1);
  ck_assert_int_eq(find(list, count, "cost.monthly_usd")->met, -1);
  ck_assert(targets_worst_excess(list, count) <= 0);
}
END_TEST

START_TEST(every_target_has_its_metric)
{
  static const char *const metrics[] = {"latency.ttft_ms.p50",
                                        "latency.ttft_ms.p90",
                                        "latency.ttft_ms.p99",
                                        "latency.itl_ms.p50",
                                        "latency.itl_ms.p90",
                                        "latency.itl_ms.p99",
                                        "latency.e2e_ms.p50",
                                        "latency.e2e_ms.p90",
                                        "latency.e2e_ms.p99",
                                        "latency.tpot_ms.mean",
                                        "memory.max_context_tokens",
                                        "cost.per_successful_request_usd",
                                        "cost.per_million_output_tokens_usd",
                                        "cost.monthly_usd",
                                        "success.rate",
                                        "limits.margin_to_knee"};
  const struct percentiles all = {1, 2, 3, 4};
  const struct workload_targets targets = {true, all, all, all, all, 1, 1, 1, 1, 1, 1};
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  const size_t count = targets_list(list, &targets, &figures);
  ck_assert_uint_eq(count, FIXTURE_COUNT(metrics));
  for (size_t i = 0; i < count; i++)
    (void)find(list, count, metrics[i]);
}
END_TEST

/* The tightest limit of a metric counts: TTFT 500 ms against p50 1000 and p99 400: 0.25 over. */
START_TEST(latency_excess_takes_the_tightest_limit)
{
  struct workload_targets targets = none();
  targets.ttft_ms.p50 = 1000;
  targets.ttft_ms.p99 = 400;
  ck_assert(targets_have_latency(&targets));
  assert_close(targets_latency_excess(&targets, 0.5, 0.02, 0.02, 10), 0.25, 1e-9);
  targets.tpot_ms.mean = 10;
  assert_close(targets_latency_excess(&targets, 0.5, 0.02, 0.02, 10), 1, 1e-9); /* 20 against 10 ms */
  targets.e2e_ms.p90 = 2500;
  assert_close(targets_latency_excess(&targets, 0.5, 0.02, 0.02, 10), 3, 1e-9); /* 10 s against 2.5 */
  targets.cost_monthly_usd = 1;                                                 /* no latency */
  assert_close(targets_latency_excess(&targets, 0.5, 0.02, 0.02, 10), 3, 1e-9);
}
END_TEST

START_TEST(any_latency_limit_counts_as_one)
{
  double *limits[4];
  struct workload_targets targets;
  for (size_t i = 0; i < FIXTURE_COUNT(limits); i++) {
    targets = none();
    limits[0] = &targets.ttft_ms.p90;
    limits[1] = &targets.itl_ms.p99;
    limits[2] = &targets.tpot_ms.mean;
    limits[3] = &targets.e2e_ms.p50;
    *limits[i] = 5;
    ck_assert_msg(targets_have_latency(&targets), "limit %zu", i);
    ck_assert(targets_latency_excess(&targets, 1, 1, 1, 1) > 0);
  }
  targets = targets_preset();
  ck_assert(targets_have_latency(&targets) && !targets.are_given);
  assert_close(targets_latency_excess(&targets, 4, 0.05, 0.05, 9), 1, 1e-9);   /* TTFT 2 s */
  assert_close(targets_latency_excess(&targets, 1, 0.15, 0.15, 9), 0.5, 1e-9); /* ITL 100 ms */
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("targets");
  tcase_add_test(tcase, without_targets_there_is_nothing_to_judge);
  tcase_add_test(tcase, decided_targets_have_margins);
  tcase_add_test(tcase, tails_are_decided_only_against);
  tcase_add_test(tcase, known_tails_are_decided);
  tcase_add_test(tcase, simulated_excess_takes_the_worst_percentile);
  tcase_add_test(tcase, unknown_figures_are_not_decided);
  tcase_add_test(tcase, every_target_has_its_metric);
  tcase_add_test(tcase, latency_excess_takes_the_tightest_limit);
  tcase_add_test(tcase, any_latency_limit_counts_as_one);
  return fixture_run("core/targets", tcase);
}
