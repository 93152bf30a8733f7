/* Length distributions against hand-derived values, and the faults that take more than one field. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "core/workload.h"
#include "tests/lib/suite.h"

START_TEST(fixed_length_is_its_mean_and_every_quantile)
{
  const struct length length = {.kind = LENGTH_FIXED, .fixed_tokens = 2048};
  ck_assert_double_eq_tol(length_mean_tokens(&length), 2048.0, 1e-9);
  ck_assert_double_eq_tol(length_quantile_tokens(&length, 0.01), 2048.0, 1e-9);
  ck_assert_double_eq_tol(length_quantile_tokens(&length, 0.99), 2048.0, 1e-9);
}
END_TEST

/* p50 256, p99 900: sigma = ln(900/256)/2.3263479 = ln(3.515625)/2.3263479 = 1.2572173/2.3263479 = 0.5404254;
   mean = 256·exp(0.5404254²/2) = 256·exp(0.1460298) = 256·1.1572307 = 296.251. */
START_TEST(quantiles_give_the_log_normal_through_them)
{
  const struct length length = {.kind = LENGTH_QUANTILES, .p50_tokens = 256, .p99_tokens = 900};
  ck_assert_double_eq_tol(length_quantile_tokens(&length, 0.5), 256.0, 1e-9);
  ck_assert_double_eq_tol(length_quantile_tokens(&length, 0.99), 900.0, 1e-9);
  ck_assert_double_eq_tol(length_mean_tokens(&length), 296.251, 1e-2);
}
END_TEST

/* mean 1000, cv 1: sigma² = ln 2, median = 1000/√2 = 707.1068; the p90 quantile of the normal is 1.2815516, so
   p90 = 707.1068·exp(0.8325546·1.2815516) = 707.1068·2.906536 = 2055.231. */
START_TEST(moments_give_the_log_normal_with_them)
{
  const struct length length = {.kind = LENGTH_MOMENTS, .mean_tokens = 1000, .cv_ratio = 1};
  ck_assert_double_eq_tol(length_mean_tokens(&length), 1000.0, 1e-9);
  ck_assert_double_eq_tol(length_quantile_tokens(&length, 0.5), 1000.0 / sqrt(2.0), 1e-9);
  ck_assert_double_eq_tol(length_quantile_tokens(&length, 0.9), 2055.231, 0.005);
}
END_TEST

START_TEST(without_spread_all_quantiles_are_equal)
{
  const struct length quantiles = {.kind = LENGTH_QUANTILES, .p50_tokens = 300, .p99_tokens = 300};
  const struct length moments = {.kind = LENGTH_MOMENTS, .mean_tokens = 300, .cv_ratio = 0};
  ck_assert_double_eq_tol(length_mean_tokens(&quantiles), 300.0, 1e-9);
  ck_assert_double_eq_tol(length_quantile_tokens(&quantiles, 0.999), 300.0, 1e-9);
  ck_assert_double_eq_tol(length_quantile_tokens(&moments, 0.001), 300.0, 1e-9);
}
END_TEST

/* The standard normal distribution function at the quantile gives p back, also far out and on both sides. */
START_TEST(quantile_inverts_the_distribution)
{
  static const double ps[] = {1e-9, 1e-4, 0.01, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999, 0.999999};
  const struct length length = {.kind = LENGTH_MOMENTS, .mean_tokens = exp(0.5), .cv_ratio = sqrt(exp(1.0) - 1.0)};
  for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
    const double z = log(length_quantile_tokens(&length, ps[i])); /* sigma 1, median 1 */
    ck_assert_double_eq_tol(0.5 * erfc(-z / sqrt(2.0)) / ps[i], 1.0, 1e-7);
  }
}
END_TEST

START_TEST(absent_length_has_no_mean)
{
  const struct length length = {.kind = LENGTH_ABSENT};
  ck_assert(isnan(length_mean_tokens(&length)));
  ck_assert(isnan(length_quantile_tokens(&length, 0.5)));
}
END_TEST

/* ---- Faults ----------------------------------------------------------------------------------------------------------- */

static struct workload workload;
static struct faults faults;

static void setup(void)
{
  workload_init(&workload);
  workload.traffic.input = (struct length){.kind = LENGTH_FIXED, .fixed_tokens = 2048};
  workload.traffic.output = (struct length){.kind = LENGTH_FIXED, .fixed_tokens = 256};
  workload.traffic.load = LOAD_OPEN;
  workload.traffic.requests_per_s = 4;
  memset(&faults, 0, sizeof faults);
}

static void assert_only_fault(enum fault_code code, const char *pointer)
{
  workload_check(&workload, &faults);
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_str_eq(faults.items[0].pointer, pointer);
  ck_assert_int_eq((int)faults.items[0].code, (int)code);
  ck_assert_str_ne(faults.items[0].detail, "");
}

START_TEST(init_leaves_everything_absent)
{
  struct workload fresh;
  workload_init(&fresh);
  ck_assert_int_eq((int)fresh.seed, 1);
  ck_assert_int_eq(fresh.serving.chunked_prefill, -1);
  ck_assert(isnan(fresh.traffic.requests_per_s) && isnan(fresh.targets.ttft_ms.p99));
  ck_assert(isnan(fresh.success.itl_ms.mean) && isnan(fresh.constraints.power_cap_w));
}
END_TEST

START_TEST(sound_workload_has_no_fault)
{
  workload_check(&workload, &faults);
  ck_assert_uint_eq(faults.count, 0);
}
END_TEST

START_TEST(load_is_required)
{
  workload.traffic.load = LOAD_ABSENT;
  assert_only_fault(FAULT_MISSING, "/traffic");
}
END_TEST

START_TEST(lengths_are_required)
{
  workload.traffic.output.kind = LENGTH_ABSENT;
  assert_only_fault(FAULT_MISSING, "/traffic/output_tokens");
}
END_TEST

START_TEST(p99_below_p50_is_a_conflict)
{
  workload.traffic.output = (struct length){.kind = LENGTH_QUANTILES, .p50_tokens = 900, .p99_tokens = 256};
  assert_only_fault(FAULT_CONFLICT, "/traffic/output_tokens/p99");
}
END_TEST

START_TEST(prefix_longer_than_the_prompt_is_a_conflict)
{
  workload.traffic.shared_prefix_tokens = 2049;
  assert_only_fault(FAULT_CONFLICT, "/traffic/shared_prefix_tokens");
}
END_TEST

START_TEST(spiky_needs_a_burst)
{
  workload.traffic.arrival = ARRIVAL_SPIKY;
  assert_only_fault(FAULT_MISSING, "/traffic/burst");
}
END_TEST

START_TEST(burst_needs_spiky)
{
  workload.traffic.burst_peak_to_mean = 4;
  workload.traffic.burst_duration_s = 30;
  assert_only_fault(FAULT_CONFLICT, "/traffic/burst");
}
END_TEST

START_TEST(spiky_excludes_a_closed_loop)
{
  workload.traffic.load = LOAD_CLOSED;
  workload.traffic.arrival = ARRIVAL_SPIKY;
  workload.traffic.burst_peak_to_mean = 4;
  workload.traffic.burst_duration_s = 30;
  assert_only_fault(FAULT_CONFLICT, "/traffic/arrival");
}
END_TEST

START_TEST(percentiles_of_a_target_must_rise)
{
  workload.targets.e2e_ms.p50 = 5000;
  workload.targets.e2e_ms.p99 = 4000;
  assert_only_fault(FAULT_CONFLICT, "/targets/e2e_ms/p99");
}
END_TEST

START_TEST(layout_must_stay_within_the_quota)
{
  workload.constraints.gpu_quota = 7;
  workload.serving.tensor_parallel = 4;
  workload.serving.replicas = 2;
  assert_only_fault(FAULT_CONFLICT, "/constraints/gpu_quota");
}
END_TEST

START_TEST(experts_must_divide_the_ranks)
{
  workload.serving.tensor_parallel = 4;
  workload.serving.attention_data_parallel = 1;
  workload.serving.expert_parallel = 3;
  assert_only_fault(FAULT_CONFLICT, "/serving/expert_parallel");
}
END_TEST

START_TEST(token_budget_must_hold_one_token_a_sequence)
{
  workload.serving.max_batch = 64;
  workload.serving.max_batched_tokens = 32;
  assert_only_fault(FAULT_CONFLICT, "/serving/max_batched_tokens");
}
END_TEST

static Suite *workload_suite(void)
{
  Suite *suite = suite_create("workload");
  TCase *lengths = tcase_create("lengths"), *checks = tcase_create("checks");
  tcase_add_test(lengths, fixed_length_is_its_mean_and_every_quantile);
  tcase_add_test(lengths, quantiles_give_the_log_normal_through_them);
  tcase_add_test(lengths, moments_give_the_log_normal_with_them);
  tcase_add_test(lengths, without_spread_all_quantiles_are_equal);
  tcase_add_test(lengths, quantile_inverts_the_distribution);
  tcase_add_test(lengths, absent_length_has_no_mean);
  tcase_add_checked_fixture(checks, setup, NULL);
  tcase_add_test(checks, init_leaves_everything_absent);
  tcase_add_test(checks, sound_workload_has_no_fault);
  tcase_add_test(checks, load_is_required);
  tcase_add_test(checks, lengths_are_required);
  tcase_add_test(checks, p99_below_p50_is_a_conflict);
  tcase_add_test(checks, prefix_longer_than_the_prompt_is_a_conflict);
  tcase_add_test(checks, spiky_needs_a_burst);
  tcase_add_test(checks, burst_needs_spiky);
  tcase_add_test(checks, spiky_excludes_a_closed_loop);
  tcase_add_test(checks, percentiles_of_a_target_must_rise);
  tcase_add_test(checks, layout_must_stay_within_the_quota);
  tcase_add_test(checks, experts_must_divide_the_ranks);
  tcase_add_test(checks, token_budget_must_hold_one_token_a_sequence);
  suite_add_tcase(suite, lengths);
  suite_add_tcase(suite, checks);
  return suite;
}

int main(void)
{
  return suite_run(workload_suite());
}
