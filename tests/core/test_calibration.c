/* Fitting factors: what made the measurements is found again, what they say nothing about stays 1, bounds hold, and bands
   never get wider. The "device" here is a sum of four known parts, so every expectation is worked out by hand. */
#include "core/calibration.h"

#include "tests/lib/suite.h"

#include <math.h>

#define RUNS 16

static void nothing(void)
{
}

/* Parts of a step of run i, in ms: work falls with i, host work of sequences grows, as in a sweep of concurrency. */
static double figure(const struct calibration *c, size_t i, bool has_prompts)
{
  return c->factor_ratio[CALIBRATION_WORK] * (10 + (double)(i % 4)) + c->factor_ratio[CALIBRATION_FIXED] * 2 +
         c->factor_ratio[CALIBRATION_SEQUENCE] * (double)i +
         (has_prompts ? c->factor_ratio[CALIBRATION_PROMPT] * (double)(i * i) / 16 : 0.0);
}

static void observe(struct calibration_observation *to, const struct calibration *truth, const struct calibration *c,
                    bool has_prompts)
{
  for (size_t i = 0; i < RUNS; i++) {
    to[i] = (struct calibration_observation){
        .metric = BAND_TPOT, .measured = figure(truth, i, has_prompts), .predicted = figure(c, i, has_prompts)};
    for (int f = 0; f < CALIBRATION_FACTOR_COUNT; f++) {
      const struct calibration moved = calibration_moved(c, (enum calibration_factor)f);
      to[i].moved[f] = figure(&moved, i, has_prompts);
    }
  }
}

static struct calibration fit(const struct calibration *truth, bool has_prompts)
{
  struct calibration_observation observations[RUNS];
  struct calibration c = calibration_none();
  for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
    observe(observations, truth, &c, has_prompts);
    calibration_improve(&c, observations, RUNS);
  }
  return c;
}

START_TEST(factors_are_found_again)
{
  struct calibration_observation observations[RUNS];
  struct calibration truth = calibration_none(), c;
  double scratch[RUNS], before, after;
  truth.factor_ratio[CALIBRATION_WORK] = 1.2;
  truth.factor_ratio[CALIBRATION_SEQUENCE] = 0.8;
  c = calibration_none();
  observe(observations, &truth, &c, true);
  before = calibration_error_ratio(observations, RUNS, BAND_TPOT, scratch);
  c = fit(&truth, true);
  observe(observations, &truth, &c, true);
  after = calibration_error_ratio(observations, RUNS, BAND_TPOT, scratch);
  ck_assert_double_gt(before, 0.02);
  ck_assert_double_lt(after, 0.01);
  ck_assert_double_gt(c.factor_ratio[CALIBRATION_WORK], 1.1);
  ck_assert_double_lt(c.factor_ratio[CALIBRATION_SEQUENCE], 0.9);
}
END_TEST

START_TEST(perfect_predictions_change_nothing)
{
  const struct calibration truth = calibration_none(), c = fit(&truth, true);
  for (int f = 0; f < CALIBRATION_FACTOR_COUNT; f++)
    ck_assert_double_eq_tol(c.factor_ratio[f], 1, 1e-12);
}
END_TEST

START_TEST(what_is_not_seen_stays)
{
  struct calibration truth = calibration_none(), c;
  truth.factor_ratio[CALIBRATION_WORK] = 1.3;
  truth.factor_ratio[CALIBRATION_PROMPT] = 2;
  c = fit(&truth, false);
  ck_assert_double_eq_tol(c.factor_ratio[CALIBRATION_PROMPT], 1, 1e-12);
}
END_TEST

START_TEST(factors_are_bounded)
{
  struct calibration truth = calibration_none(), c;
  for (int f = 0; f < CALIBRATION_FACTOR_COUNT; f++)
    truth.factor_ratio[f] = 100;
  c = fit(&truth, true);
  for (int f = 0; f < CALIBRATION_FACTOR_COUNT; f++)
    ck_assert_double_le(c.factor_ratio[f], CALIBRATION_BOUND * (1 + 1e-12));
  ck_assert_double_gt(c.factor_ratio[CALIBRATION_WORK], 2);
}
END_TEST

/* One run that took ten times as long (a cold start) may not drag the rest along: half of it is gone with Huber's loss. */
START_TEST(one_outlier_is_outvoted)
{
  struct calibration_observation observations[RUNS];
  const struct calibration truth = calibration_none();
  struct calibration c = calibration_none();
  for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
    observe(observations, &truth, &c, true);
    observations[3].measured *= 10;
    calibration_improve(&c, observations, RUNS);
  }
  observe(observations, &truth, &c, true);
  for (size_t i = 0; i < RUNS; i++)
    ck_assert_double_lt(fabs(observations[i].predicted / observations[i].measured - 1), 0.1);
}
END_TEST

START_TEST(broken_observations_count_for_nothing)
{
  struct calibration_observation observations[2] = {{.metric = BAND_TPOT, .measured = 0, .predicted = 1},
                                                    {.metric = BAND_TPOT, .measured = 1, .predicted = (double)NAN}};
  struct calibration c = calibration_none();
  double scratch[2];
  calibration_improve(&c, observations, 2);
  calibration_improve(&c, observations, 0);
  for (int f = 0; f < CALIBRATION_FACTOR_COUNT; f++)
    ck_assert_double_eq_tol(c.factor_ratio[f], 1, 1e-12);
  ck_assert(isnan(calibration_error_ratio(observations, 2, BAND_TPOT, scratch)));
}
END_TEST

START_TEST(first_tokens_move_prompts_alone)
{
  struct calibration_observation o = {
      .metric = BAND_TTFT, .measured = 200, .predicted = 100, .moved = {102, 102, 102, 102}};
  struct calibration c = calibration_none();
  calibration_improve(&c, &o, 1);
  ck_assert_double_eq_tol(c.factor_ratio[CALIBRATION_WORK], 1, 1e-12);
  ck_assert_double_gt(c.factor_ratio[CALIBRATION_PROMPT], 1.1);
}
END_TEST

START_TEST(constants_are_multiplied)
{
  struct calibration c = calibration_none();
  struct step_constants constants;
  c.factor_ratio[CALIBRATION_WORK] = 2;
  c.factor_ratio[CALIBRATION_FIXED] = 0.5;
  constants = calibration_constants(&c, &step_constants_default);
  ck_assert_double_eq_tol(constants.scale_linear, 2 * step_constants_default.scale_linear, 1e-12);
  ck_assert_double_eq_tol(constants.layer_us, step_constants_default.layer_us / 2, 1e-12);
  ck_assert_double_eq_tol(constants.sequence_us, step_constants_default.sequence_us, 1e-12);
  ck_assert_double_eq_tol(constants.prefill_token_us, step_constants_default.prefill_token_us, 1e-12);
}
END_TEST

/* Residuals of 0: what is left is the class's band as 8 observations among 8 + n, so sqrt(8 / 24) for n = 16. */
START_TEST(band_narrows_with_good_runs)
{
  struct calibration_observation observations[RUNS];
  struct calibration c = calibration_none();
  struct band narrow, wide = band_of(BAND_DENSE_CLOSED_LOOP, BAND_TPOT);
  observe(observations, &c, &c, true);
  calibration_narrow(&c, observations, RUNS, BAND_DENSE_CLOSED_LOOP);
  ck_assert_double_eq_tol(c.band_scale[BAND_TPOT], sqrt(8.0 / 24), 1e-12);
  ck_assert_double_eq_tol(c.band_scale[BAND_TTFT], 1, 1e-12);
  narrow = calibration_band(&c, BAND_DENSE_CLOSED_LOOP, BAND_TPOT);
  ck_assert_double_eq_tol(log(narrow.low_ratio), sqrt(8.0 / 24) * log(wide.low_ratio), 1e-12);
  ck_assert_double_eq_tol(log(narrow.high_ratio), sqrt(8.0 / 24) * log(wide.high_ratio), 1e-12);
}
END_TEST

START_TEST(band_never_widens)
{
  struct calibration_observation o = {.metric = BAND_TPOT, .measured = 500, .predicted = 1};
  struct calibration c = calibration_none();
  calibration_narrow(&c, &o, 1, BAND_DENSE_CLOSED_LOOP);
  ck_assert_double_eq_tol(c.band_scale[BAND_TPOT], 1, 1e-12);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("core/calibration");
  TCase *tcase = suite_case(suite, "calibration", nothing, nothing);
  tcase_add_test(tcase, factors_are_found_again);
  tcase_add_test(tcase, perfect_predictions_change_nothing);
  tcase_add_test(tcase, what_is_not_seen_stays);
  tcase_add_test(tcase, factors_are_bounded);
  tcase_add_test(tcase, one_outlier_is_outvoted);
  tcase_add_test(tcase, broken_observations_count_for_nothing);
  tcase_add_test(tcase, first_tokens_move_prompts_alone);
  tcase_add_test(tcase, constants_are_multiplied);
  tcase_add_test(tcase, band_narrows_with_good_runs);
  tcase_add_test(tcase, band_never_widens);
  return suite_run(suite);
}
