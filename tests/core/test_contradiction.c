/* Targets that contradict each other or physics are named and not answered; tails that merely add up are told. */
#include "core/contradiction.h"

#include <stdalign.h>

#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)64 << 20];
static struct workload workload;
static struct model model;
static struct hardware hardware;
static struct scorecard card;

static void setup(void)
{
  workload = fixture_workload(); /* 2,048 tokens in, 256 out: 255 gaps */
  model = fixture_model("llama-3.1-8b");
  hardware = fixture_hardware("h100-sxm-80gb");
}

static void evaluate(enum fit_depth depth)
{
  const struct fit_request request = {.workload = &workload, .model = &model, .hardware = &hardware, .depth = depth};
  struct arena arena;
  struct error e;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(fit_evaluate(&card, &request, &arena, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
}

static const struct scorecard_finding *finding(enum severity severity)
{
  const char *code = severity == SEVERITY_CRITICAL ? "targets_contradict" : "tail_targets_add_up";
  for (size_t i = 0; i < card.finding_count; i++)
    if (strcmp(card.findings[i].code, code) == 0 && card.findings[i].severity == severity)
      return &card.findings[i];
  return NULL;
}

static double evidence(const struct scorecard_finding *f, const char *name)
{
  for (size_t i = 0; i < f->evidence_count; i++)
    if (strcmp(f->evidence[i].name, name) == 0)
      return f->evidence[i].value;
  return (double)NAN;
}

static void assert_withdrawn(const char *field, const char *other)
{
  const struct scorecard_finding *f = finding(SEVERITY_CRITICAL);
  ck_assert_ptr_nonnull(f);
  ck_assert_msg(strstr(f->message, field) != NULL && strstr(f->message, other) != NULL, "%s", f->message);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_TARGETS_CONTRADICT);
  ck_assert(!card.has_configuration && !card.has_latency);
  for (size_t i = 0; i < card.target_count; i++)
    ck_assert(card.targets[i].met == (strcmp(other, "physical floor") == 0 ? 0 : -1) && isnan(card.targets[i].actual));
}

/* 200 + 255 x 20 = 5,300 ms of medians against 5,000; against 5,300 they agree to the millisecond. */
START_TEST(medians_that_add_up_to_more_than_theirs_contradict)
{
  workload.targets.ttft_ms.p50 = 200;
  workload.targets.itl_ms.p50 = 20;
  workload.targets.e2e_ms.p50 = 5000;
  evaluate(FIT_QUICK);
  assert_withdrawn("/targets/itl_ms/p50", "/targets/e2e_ms/p50");
  assert_close(evidence(finding(SEVERITY_CRITICAL), "sum_ms"), 5300, 1e-12);
  evaluate(FIT_FULL);
  assert_withdrawn("/targets/itl_ms/p50", "/targets/e2e_ms/p50");
  ck_assert_uint_eq(card.ladder_count, 0);
  workload.targets.e2e_ms.p50 = 5300;
  evaluate(FIT_QUICK);
  ck_assert_ptr_null(finding(SEVERITY_CRITICAL));
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
}
END_TEST

START_TEST(a_part_may_not_take_longer_than_the_whole)
{
  workload.targets.ttft_ms.p99 = 3000;
  workload.targets.e2e_ms.p99 = 2900;
  evaluate(FIT_QUICK);
  assert_withdrawn("/targets/ttft_ms/p99", "/targets/e2e_ms/p99");
}
END_TEST

/* 1,000 + 255 x 60 = 16,300 ms: tails of different requests. The limit on the whole leaves (5,800 - 1,000) / 255 a gap. */
START_TEST(tails_that_add_up_to_more_are_told)
{
  const struct scorecard_finding *f;
  workload.targets.ttft_ms.p99 = 1000;
  workload.targets.itl_ms.p99 = 60;
  workload.targets.e2e_ms.p99 = 5800;
  evaluate(FIT_QUICK);
  f = finding(SEVERITY_WARNING);
  ck_assert_ptr_nonnull(f);
  assert_close(evidence(f, "sum_ms"), 16300, 1e-12);
  assert_close(evidence(f, "itl_ms_that_e2e_allows"), 4800.0 / 255, 1e-12);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
}
END_TEST

/* Eight H100: 26.8 TB/s and 7,916 TFLOP/s. Layers of the 8B model have 8.03 billion parameters less two tables of
   128,256 x 4,096 and the last norm's 4,096: 6.9796 billion, 13.959 GB read a step: 0.5209 ms; 2,048 tokens at 2 FLOPs a
   parameter: 3.6115 ms. */
START_TEST(limits_below_the_roofline_contradict_physics)
{
  const double floor_itl_ms = 6979588096.0 * 2 / (8 * 3350e9) * 1e3;
  const double floor_ttft_ms = 2048 * 2 * 6979588096.0 / (8 * 989.5e12) * 1e3;
  workload.targets.itl_ms.p50 = floor_itl_ms * 0.99;
  evaluate(FIT_QUICK);
  assert_withdrawn("/targets/itl_ms/p50", "physical floor");
  assert_close(evidence(finding(SEVERITY_CRITICAL), "floor_ms"), floor_itl_ms, 1e-3);
  workload.targets.itl_ms.p50 = floor_itl_ms * 1.01;
  evaluate(FIT_QUICK);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_TARGETS_MISSED);
  workload.targets.itl_ms.p50 = (double)NAN;
  workload.targets.ttft_ms.p99 = floor_ttft_ms * 0.99;
  evaluate(FIT_QUICK);
  assert_withdrawn("/targets/ttft_ms/p99", "physical floor");
  workload.targets.ttft_ms.p99 = (double)NAN;
  workload.targets.e2e_ms.p90 = (floor_ttft_ms + 255 * floor_itl_ms) * 0.99;
  evaluate(FIT_QUICK);
  assert_withdrawn("/targets/e2e_ms/p90", "physical floor");
  workload.targets.e2e_ms.p90 = 60000;
  evaluate(FIT_QUICK);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
}
END_TEST

/* Three tokens a step: an answer has a third of the gaps. */
START_TEST(a_draft_makes_fewer_gaps)
{
  workload.serving.speculative_draft_tokens = 2;
  workload.serving.speculative_acceptance_ratio = 1;
  workload.targets.itl_ms.p50 = 20;
  workload.targets.e2e_ms.p50 = 1690; /* 85 x 20 = 1,700 */
  evaluate(FIT_QUICK);
  assert_withdrawn("/targets/itl_ms/p50", "/targets/e2e_ms/p50");
  workload.targets.e2e_ms.p50 = 1710;
  evaluate(FIT_QUICK);
  ck_assert_int_ne(card.no_fit_reason, NO_FIT_TARGETS_CONTRADICT);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("contradiction");
  tcase_add_checked_fixture(tcase, setup, NULL);
  tcase_add_test(tcase, medians_that_add_up_to_more_than_theirs_contradict);
  tcase_add_test(tcase, a_part_may_not_take_longer_than_the_whole);
  tcase_add_test(tcase, tails_that_add_up_to_more_are_told);
  tcase_add_test(tcase, limits_below_the_roofline_contradict_physics);
  tcase_add_test(tcase, a_draft_makes_fewer_gaps);
  return fixture_run("core/contradiction", tcase);
}
