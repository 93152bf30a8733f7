/* Lengths that a table leaves out, and how lengths spread. */
#include "api/data_sets.h"

#include "tests/lib/suite.h"

#include <math.h>
#include <string.h>

static struct model model;

/* A run of a model of so many parameters: all of them in the embedding. */
static struct benchmark run_of(double parameters, double input, double output, enum benchmark_load load)
{
  struct benchmark benchmark = {.model = &model, .load = load, .requests = (double)NAN};
  memset(&model, 0, sizeof model);
  model.hidden_size = 1000;
  model.vocab_size = (uint32_t)(parameters / 1000);
  model.has_tied_embeddings = true;
  benchmark.input_tokens = input;
  benchmark.output_tokens = output;
  return benchmark;
}

START_TEST(mlperf_runs_have_the_data_set_of_their_model)
{
  struct benchmark benchmark = run_of(69.0e9, (double)NAN, 293, BENCHMARK_POISSON);
  data_sets_apply(&benchmark, true);
  ck_assert_double_eq_tol(benchmark.input_tokens, 294, 1e-9);
  ck_assert_double_eq_tol(benchmark.output_tokens, 293, 1e-9); /* as stated */
  ck_assert_double_eq_tol(benchmark.answer_cv_ratio, 0.63, 1e-9);
  ck_assert(isnan(benchmark.requests));
}
END_TEST

START_TEST(other_runs_without_lengths_are_chat)
{
  struct benchmark benchmark = run_of(69.0e9, (double)NAN, (double)NAN, BENCHMARK_CLOSED);
  data_sets_apply(&benchmark, false);
  ck_assert_double_eq_tol(benchmark.input_tokens, 256, 1e-9);
  ck_assert_double_eq_tol(benchmark.output_tokens, 300, 1e-9);
  ck_assert_double_eq_tol(benchmark.requests, 200, 1e-9);
}
END_TEST

/* AccelMark: 300 requests a level for small models, 200 for long prompts, in the engine's process. */
START_TEST(load_generators_in_process)
{
  struct benchmark small = run_of(8.0e9, 256, 346, BENCHMARK_POISSON),
                   slow = run_of(8.0e9, 28640, 256, BENCHMARK_POISSON);
  small.preset.server_constant_s = 0.015;
  data_sets_apply(&small, false);
  data_sets_apply(&slow, false);
  ck_assert_double_eq_tol(small.requests, 300, 1e-9);
  ck_assert_double_eq_tol(small.preset.server_constant_s, 0.005, 1e-12);
  ck_assert_double_eq_tol(slow.requests, 200, 1e-9);
  ck_assert(!(slow.prompt_cv_ratio > 0));
}
END_TEST

START_TEST(stated_lengths_and_counts_stand)
{
  struct benchmark closed = run_of(8.0e9, 1024, 256, BENCHMARK_CLOSED),
                   open = run_of(8.0e9, 215, 180, BENCHMARK_POISSON);
  open.requests = 1000;
  data_sets_apply(&closed, false);
  data_sets_apply(&open, false);
  ck_assert_double_eq_tol(closed.input_tokens, 1024, 1e-9);
  ck_assert_double_eq_tol(closed.output_tokens, 256, 1e-9);
  ck_assert(isnan(closed.requests));
  ck_assert(!(closed.answer_cv_ratio > 0));
  ck_assert_double_eq_tol(open.requests, 1000, 1e-9);
  ck_assert(open.prompt_cv_ratio > 0.7 && open.prompt_cv_ratio < 0.85); /* conversations: SERVING §4 */
}
END_TEST

/* 1024 + 8192 tokens: 1500 requests; other engines and stated batches keep the engine's choice. */
START_TEST(guide_runs_queue_a_known_number)
{
  struct benchmark guide = run_of(8.0e9, 1024, 8192, BENCHMARK_OFFLINE), other = guide, batch = guide;
  guide.batch = other.batch = (double)NAN;
  batch.batch = 64;
  guide.preset.memory_rule = batch.preset.memory_rule = MEMORY_RULE_TENSORRT;
  data_sets_apply(&guide, false);
  data_sets_apply(&other, false);
  data_sets_apply(&batch, false);
  ck_assert_double_eq_tol(guide.requests, 1500, 1e-9);
  ck_assert(guide.has_fixed_lengths && !other.has_fixed_lengths && !batch.has_fixed_lengths);
  ck_assert(isnan(other.requests) && isnan(batch.requests));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/data_sets");
  TCase *tcase = suite_case(suite, "lengths", NULL, NULL);
  tcase_add_test(tcase, mlperf_runs_have_the_data_set_of_their_model);
  tcase_add_test(tcase, other_runs_without_lengths_are_chat);
  tcase_add_test(tcase, load_generators_in_process);
  tcase_add_test(tcase, stated_lengths_and_counts_stand);
  tcase_add_test(tcase, guide_runs_queue_a_known_number);
  return suite_run(suite);
}
