/* Rates, bursts and lengths of drawn requests against their definitions; common random numbers; refusals. */
#include "core/arrivals.h"

#include "tests/core/fixtures.h"

enum { ROWS = 100000 };
static struct arrival rows[ROWS], others[ROWS];

static struct arrivals open_plan(enum arrival_kind kind)
{
  const struct arrivals plan = {.load = LOAD_OPEN,
                                .arrival = kind,
                                .requests_per_s = 4,
                                .burst_peak_to_mean = 4,
                                .burst_duration_s = 30,
                                .input = {.kind = LENGTH_QUANTILES, .p50_tokens = 1000, .p99_tokens = 8000},
                                .output = {.kind = LENGTH_MOMENTS, .mean_tokens = 200, .cv_ratio = 0.8}};
  return plan;
}

static void draw(struct arrival *to, size_t count, const struct arrivals *plan, uint64_t seed)
{
  struct error e;
  const enum err err = arrivals_draw(to, count, plan, seed, &e);
  size_t good = 0;
  ck_assert_msg(err == ERR_OK, "%s", err == ERR_OK ? "" : e.message);
  for (size_t i = 0; i < count; i++)
    good += (i == 0 || to[i].send_s >= to[i - 1].send_s) && to[i].send_s >= 0 && to[i].input_tokens >= 1 &&
            to[i].output_tokens >= 1;
  ck_assert_uint_eq(good, count);
}

static double share_up_to(uint32_t tokens)
{
  size_t n = 0;
  for (size_t i = 0; i < ROWS; i++)
    n += rows[i].input_tokens <= tokens;
  return (double)n / ROWS;
}

START_TEST(test_poisson)
{
  const struct arrivals plan = open_plan(ARRIVAL_POISSON);
  double squares = 0;
  draw(rows, ROWS, &plan, 1);
  assert_close(rows[ROWS - 1].send_s, ROWS / 4.0, 5 / sqrt(ROWS));
  for (size_t i = 1; i < ROWS; i++)
    squares += pow(rows[i].send_s - rows[i - 1].send_s, 2);
  assert_close(squares / ROWS, 2 / 16.0, 5 * sqrt(20.0 / ROWS) / 2); /* E[gap²] = 2/λ² */
}
END_TEST

START_TEST(test_steady)
{
  const struct arrivals plan = open_plan(ARRIVAL_STEADY);
  draw(rows, ROWS, &plan, 1);
  for (size_t i = 1; i < ROWS; i += 7)
    assert_close(rows[i].send_s - rows[i - 1].send_s, 0.25, 1e-6);
}
END_TEST

/* On for 30 s at 16 a second, off for 90 s: API.md's period is duration × peak to mean. */
START_TEST(test_spiky)
{
  const struct arrivals plan = open_plan(ARRIVAL_SPIKY);
  size_t in_first = 0, within = 0;
  draw(rows, ROWS, &plan, 1);
  for (size_t i = 0; i < ROWS; i++) {
    within += fmod(rows[i].send_s, 120) <= 30 + 1e-6;
    in_first += rows[i].send_s < 120;
  }
  ck_assert_uint_eq(within, ROWS);
  ck_assert_double_eq_tol((double)in_first, 480, 5 * sqrt(480));
  ck_assert_double_eq_tol(rows[ROWS - 1].send_s, ROWS / 4.0, 5 * 120);
}
END_TEST

START_TEST(test_lengths)
{
  const struct arrivals plan = open_plan(ARRIVAL_POISSON);
  double sum = 0, squares = 0;
  draw(rows, ROWS, &plan, 3);
  ck_assert_double_eq_tol(share_up_to(1000), 0.5, 5 * sqrt(0.25 / ROWS));
  ck_assert_double_eq_tol(share_up_to(8000), 0.99, 5 * sqrt(0.0099 / ROWS));
  for (size_t i = 0; i < ROWS; i++) {
    sum += rows[i].output_tokens;
    squares += pow(rows[i].output_tokens - 200.0, 2);
  }
  assert_close(sum / ROWS, 200, 5 * 0.8 / sqrt(ROWS));
  assert_close(sqrt(squares / ROWS) / 200, 0.8, 0.03);
}
END_TEST

START_TEST(test_fixed_lengths)
{
  struct arrivals plan = open_plan(ARRIVAL_POISSON);
  plan.input = (struct length){.kind = LENGTH_FIXED, .fixed_tokens = 777};
  draw(rows, 1000, &plan, 3);
  for (int i = 0; i < 1000; i++)
    ck_assert_uint_eq(rows[i].input_tokens, 777);
}
END_TEST

/* Twice the rate: half the times, the same lengths. Other lengths: the same times. */
START_TEST(test_common_random_numbers)
{
  struct arrivals plan = open_plan(ARRIVAL_POISSON);
  draw(rows, ROWS, &plan, 9);
  plan.requests_per_s = 8;
  plan.output.mean_tokens = 400;
  draw(others, ROWS, &plan, 9);
  for (size_t i = 0; i < ROWS; i += 7) {
    assert_close(others[i].send_s, rows[i].send_s / 2, 1e-12);
    ck_assert_uint_eq(others[i].input_tokens, rows[i].input_tokens);
    ck_assert_int_le(abs((int)others[i].output_tokens - 2 * (int)rows[i].output_tokens), 1);
  }
  draw(others, ROWS, &plan, 10);
  ck_assert_uint_ne(others[5].input_tokens * 100000ul + others[6].input_tokens,
                    rows[5].input_tokens * 100000ul + rows[6].input_tokens);
}
END_TEST

START_TEST(test_closed_loop_starts_together)
{
  struct arrivals plan = open_plan(ARRIVAL_POISSON);
  plan.load = LOAD_CLOSED;
  rows[99].hash_count = 5; /* of whoever had the rows before */
  draw(rows, 100, &plan, 1);
  ck_assert_double_eq_tol(rows[99].send_s, 0, 1e-15);
  ck_assert_uint_eq(rows[99].hash_count, 0);
}
END_TEST

START_TEST(test_trace)
{
  static const struct arrival trace[] = {
      {.send_s = 100, .input_tokens = 10, .output_tokens = 1},
      {.send_s = 100.5, .input_tokens = 20, .output_tokens = 2},
      {.send_s = 104, .input_tokens = 30, .output_tokens = 3, .hash_first = 7, .hash_count = 2}};
  struct arrivals plan = {.load = LOAD_TRACE, .trace = trace, .trace_count = 3, .rate_scale = 2};
  draw(rows, 3, &plan, 1);
  ck_assert_double_eq_tol(rows[0].send_s, 0, 1e-15);
  ck_assert_double_eq_tol(rows[1].send_s, 0.25, 1e-15);
  ck_assert_double_eq_tol(rows[2].send_s, 2, 1e-15);
  ck_assert_uint_eq(rows[2].input_tokens, 30);
  ck_assert_uint_eq(rows[2].output_tokens, 3);
  ck_assert_uint_eq(rows[2].hash_first, 7);
  ck_assert_uint_eq(rows[2].hash_count, 2);
  plan.output = (struct length){.kind = LENGTH_FIXED, .fixed_tokens = 50};
  draw(rows, 3, &plan, 1);
  ck_assert_uint_eq(rows[2].input_tokens, 30);
  ck_assert_uint_eq(rows[2].output_tokens, 50);
}
END_TEST

START_TEST(test_plan_of_traffic)
{
  struct workload workload = fixture_workload();
  struct arrivals plan;
  arrivals_of_traffic(&plan, &workload.traffic, NULL, 0);
  draw(rows, 10, &plan, 1);
  ck_assert_uint_eq(rows[9].input_tokens, 2048);
  ck_assert_uint_eq(rows[9].output_tokens, 256);
}
END_TEST

static void assert_refused(const struct arrivals *plan, const char *pointer, const char *seen)
{
  struct error e;
  ck_assert_int_eq(arrivals_draw(rows, 10, plan, 1, &e), ERR_INVALID);
  ck_assert_str_eq(e.pointer, pointer);
  ck_assert_msg(strstr(e.message, seen) != NULL, "\"%s\" does not name %s", e.message, seen);
}

START_TEST(test_refusals)
{
  static const struct arrival trace[9];
  struct arrivals plan = {.load = LOAD_TRACE, .trace = trace, .trace_count = 9, .rate_scale = 1};
  assert_refused(&plan, "/traffic/trace", "9");
  plan.trace_count = 10;
  plan.rate_scale = (double)NAN;
  assert_refused(&plan, "/traffic/trace/rate_scale", "nan");
  plan = open_plan(ARRIVAL_POISSON);
  plan.requests_per_s = 0;
  assert_refused(&plan, "/traffic/requests_per_s", "0");
  plan = open_plan(ARRIVAL_SPIKY);
  plan.burst_peak_to_mean = 0.5;
  assert_refused(&plan, "/traffic/burst", "0.5");
  plan = open_plan(ARRIVAL_POISSON);
  plan.input.kind = LENGTH_ABSENT;
  assert_refused(&plan, "/traffic/input_tokens", "length");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("arrivals");
  tcase_add_test(tcase, test_poisson);
  tcase_add_test(tcase, test_steady);
  tcase_add_test(tcase, test_spiky);
  tcase_add_test(tcase, test_lengths);
  tcase_add_test(tcase, test_fixed_lengths);
  tcase_add_test(tcase, test_common_random_numbers);
  tcase_add_test(tcase, test_closed_loop_starts_together);
  tcase_add_test(tcase, test_trace);
  tcase_add_test(tcase, test_plan_of_traffic);
  tcase_add_test(tcase, test_refusals);
  return fixture_run("arrivals", tcase);
}
