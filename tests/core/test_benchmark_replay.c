/* Benchmarks simulated as their clients drove them: lengths of data sets in the tails, the start-up wave, runs at a measured
   time per token, and what cold first steps do. */
#include "core/benchmark.h"

#include <stdalign.h>

#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[32u << 20];
static struct model model;
static struct hardware hardware;

/* Llama-3.1-8B in fp8 on one H100. */
static struct benchmark benchmark_of(const char *runtime, enum benchmark_load load)
{
  struct benchmark benchmark = {.model = &model, .hardware = &hardware, .gpus = 1, .tensor_parallel = 1, .load = load};
  model = fixture_model("llama-3.1-8b");
  hardware = fixture_hardware("h100-sxm-80gb");
  benchmark.preset = fixture_preset(&hardware, runtime, "");
  fixture_set_precision(&benchmark.precision, PRECISION_FP8);
  benchmark.precision.kv_cache = PRECISION_FP8;
  benchmark.batch = benchmark.requests = benchmark.requests_per_s = (double)NAN;
  benchmark.has_percentiles = true;
  return benchmark;
}

static struct benchmark open_loop(double requests_per_s, double output_tokens, double answer_cv)
{
  struct benchmark benchmark = benchmark_of("tensorrt-llm", BENCHMARK_POISSON);
  benchmark.requests_per_s = requests_per_s;
  benchmark.input_tokens = 300;
  benchmark.output_tokens = output_tokens;
  benchmark.prompt_cv_ratio = 0.8;
  benchmark.answer_cv_ratio = answer_cv;
  return benchmark;
}

static struct benchmark closed_loop(const char *runtime, double users, double input_tokens, double output_tokens)
{
  struct benchmark benchmark = benchmark_of(runtime, BENCHMARK_CLOSED);
  benchmark.batch = users;
  benchmark.input_tokens = input_tokens;
  benchmark.output_tokens = output_tokens;
  benchmark.spread_ratio = 1 / 0.9 - 1; /* lengths drawn from 0.8 to 1 of the nominal one */
  return benchmark;
}

static struct benchmark_figures predict(const struct benchmark *benchmark)
{
  struct benchmark_figures figures;
  struct arena arena;
  struct error e;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(benchmark_predict(&figures, benchmark, &step_constants_default, &arena, &e) == ERR_OK, "%s", e.message);
  return figures;
}

/* ---- offline ---- */

static double offline_rate(double batch, double requests)
{
  struct benchmark benchmark = benchmark_of("tensorrt-llm", BENCHMARK_OFFLINE);
  benchmark.batch = batch;
  benchmark.requests = requests;
  benchmark.input_tokens = benchmark.output_tokens = 1000;
  benchmark.has_fixed_lengths = true;
  return predict(&benchmark).requests_per_s;
}

/* Two waves take twice one; one and a half take one and a smaller one, which is faster than a whole; fewer requests than
   places are one batch. */
START_TEST(requests_of_one_length_go_in_waves)
{
  const double whole_s = 100 / offline_rate(100, 100), half_s = 50 / offline_rate(100, 50);
  assert_close(200 / offline_rate(100, 200), 2 * whole_s, 1e-9);
  assert_close(150 / offline_rate(100, 150), whole_s + half_s, 1e-9);
  ck_assert(half_s < whole_s && half_s > whole_s / 2);
  assert_close(offline_rate(50, 50), offline_rate(100, 50), 1e-9);
}
END_TEST

/* ---- open loops ---- */

/* Answers of one length: a request takes its first token's time and so many measured ones. */
START_TEST(a_measured_time_per_token_is_met)
{
  struct benchmark benchmark = open_loop(10, 200, 0);
  struct benchmark_figures figures;
  benchmark.tpot_s = 0.025;
  figures = predict(&benchmark);
  assert_close(figures.tpot_p50_s, 0.025, 1e-12);
  assert_close((figures.e2e_p50_s - figures.ttft_p50_s) / (199 * 0.025), 1, 0.02);
  ck_assert(figures.ttft_p50_s > 0.5 * 0.025); /* the rest of a step at least, in the mean, and one of its own */
  ck_assert(figures.ttft_p50_s < 4 * 0.025);
  ck_assert(figures.ttft_p99_s > figures.ttft_p90_s && figures.ttft_p90_s > figures.ttft_p50_s);
}
END_TEST

/* A log-normal of cv 0.62 has σ = sqrt(ln(1 + 0.62²)) = 0.570, its median is exp(-σ²/2) = 0.850 of the mean and its p99
   exp(2.326 σ - σ²/2) = 3.20 times the mean: OpenOrca's answers, 250 and 950 of 294 tokens (SERVING §6). */
START_TEST(tails_of_answers_are_tails_of_requests)
{
  struct benchmark benchmark = open_loop(10, 294, 0.62);
  struct benchmark_figures figures;
  benchmark.tpot_s = 0.020;
  figures = predict(&benchmark);
  assert_close(figures.e2e_p50_s / (0.850 * 294 * 0.020), 1, 0.08);
  assert_close(figures.e2e_p99_s / (3.20 * 294 * 0.020), 1, 0.12);
}
END_TEST

/* Without a measured time the pace is the closed form's own: both say the same of the same run. */
START_TEST(the_closed_form_sets_the_pace)
{
  struct benchmark predicted = open_loop(10, 200, 0.5), given = predicted, plain = predicted;
  struct benchmark_figures figures = predict(&predicted), same;
  plain.has_percentiles = false;
  assert_close(figures.tpot_p50_s, predict(&plain).tpot_p50_s, 1e-12);
  given.tpot_s = figures.tpot_p50_s;
  same = predict(&given);
  assert_close(same.ttft_p99_s, figures.ttft_p99_s, 1e-12);
  assert_close(same.e2e_p99_s, figures.e2e_p99_s, 1e-12);
}
END_TEST

/* ---- closed loops ---- */

/* One user never waits. The longest of ten even lengths within 10 / 9 of the mean ends below 1.112 of it. */
START_TEST(one_user_waits_for_nobody)
{
  const struct benchmark benchmark = closed_loop("vllm", 1, 1000, 500);
  const struct benchmark_figures figures = predict(&benchmark);
  assert_close(figures.ttft_p99_s / figures.ttft_p50_s, 1, 0.15);
  ck_assert(figures.e2e_p99_s <= figures.ttft_p99_s + 1.112 * 500 * 1.02 * figures.tpot_p50_s);
  ck_assert(figures.e2e_p99_s >= 500 * figures.tpot_p50_s);
}
END_TEST

/* Of ten requests a user the first is sent with all others': the hundredth part that waits longest is the last tenth of
   them. Twice the users, twice the wait. */
START_TEST(the_wave_is_the_tail)
{
  const struct benchmark few = closed_loop("vllm", 32, 7373, 922), many = closed_loop("vllm", 64, 7373, 922);
  const struct benchmark_figures small = predict(&few), large = predict(&many);
  assert_close(large.ttft_p99_s / small.ttft_p99_s, 2, 0.2);
  ck_assert(small.ttft_p99_s > 8 * small.ttft_p50_s);
}
END_TEST

/* What the first steps lose to compiling is the whole wave's, and nobody else's. */
START_TEST(cold_steps_delay_the_wave)
{
  struct benchmark cold = closed_loop("sglang", 32, 7373, 922), warm = cold;
  struct benchmark_figures slow, fast;
  const double cold_s = step_constants_default.prefill_cold_sglang_ms / 1000;
  warm.is_warm = true;
  slow = predict(&cold);
  fast = predict(&warm);
  assert_close((slow.ttft_p99_s - fast.ttft_p99_s) / cold_s, 1, 0.05);
  assert_close(slow.ttft_p50_s, fast.ttft_p50_s, 1e-12);
}
END_TEST

/* A short prompt before the run compiles nothing that several of them in one step need; Blackwell compiles nothing. */
START_TEST(short_prompts_warm_up_little)
{
  struct benchmark cold = closed_loop("sglang", 32, 922, 922), warm = cold;
  double hopper_s, blackwell_s;
  warm.is_warm = true;
  hopper_s = predict(&warm).ttft_p99_s;
  assert_close(hopper_s, predict(&cold).ttft_p99_s, 1e-12);
  hardware.family = HARDWARE_BLACKWELL_DC;
  blackwell_s = predict(&warm).ttft_p99_s;
  ck_assert(predict(&cold).ttft_p99_s > 1.2 * blackwell_s);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("benchmark_replay");
  tcase_add_test(tcase, requests_of_one_length_go_in_waves);
  tcase_add_test(tcase, a_measured_time_per_token_is_met);
  tcase_add_test(tcase, tails_of_answers_are_tails_of_requests);
  tcase_add_test(tcase, the_closed_form_sets_the_pace);
  tcase_add_test(tcase, one_user_waits_for_nobody);
  tcase_add_test(tcase, the_wave_is_the_tail);
  tcase_add_test(tcase, cold_steps_delay_the_wave);
  tcase_add_test(tcase, short_prompts_warm_up_little);
  return fixture_run("core/benchmark_replay", tcase);
}
