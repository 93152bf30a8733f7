/* Gates through the api with a clock that the test moves: what a pipeline sees. Limits are set relative to what one check
   answers, so that each verdict follows from arithmetic and not from the model of the hardware. */
#include "tests/lib/doc.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)
#define COST "cost.per_million_output_tokens_usd"

static struct fake fake;

static void setup(void)
{
  fake_open(&fake, suite_dir());
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

/* One H100 at a price: every cost is proportional to it, so that a change of the price is a change of all costs. */
static const char *sketch_at(double usd_per_hour, const char *more)
{
  return scratch_printf("{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"precision\":\"fp8\",\"traffic\":"
                        "{\"input_tokens\":1024,\"output_tokens\":256,\"requests_per_s\":2.0},"
                        "\"constraints\":{\"prices\":{\"h100-sxm-80gb\":%.9f}},\"profiles\":[\"h100-sxm-80gb\"]%s}",
                        usd_per_hour, more);
}

#define SIGNED "\"signed_off\":[{\"by\":\"ana\",\"at\":\"2026-11-01\",\"team\":\"chat\"}]"

static json_t *put_gate(const char *more, unsigned status)
{
  return fake_json(&fake, "PUT", "/v1/gates/release", scratch_printf("{\"workload\":\"chat\",%s}", more), status);
}

static json_t *check(const char *sketch)
{
  fake.now_ms += 1000;
  return fake_json(&fake, "POST", "/v1/gates/release/checks", sketch, 201);
}

static void assert_verdict(const json_t *answer, const char *verdict, int exit_code)
{
  ck_assert_msg(strcmp(doc_text(answer, "verdict"), verdict) == 0, "%s", doc_brief(answer));
  ck_assert_int_eq(doc_integer(answer, "exit_code"), exit_code);
}

static const json_t *reason(const json_t *answer, const char *metric)
{
  const json_t *rows = doc_array(answer, "reasons");
  for (size_t i = 0; i < json_array_size(rows); i++)
    if (strcmp(doc_text(json_array_get(rows, i), "metric"), metric) == 0)
      return json_array_get(rows, i);
  ck_abort_msg("no reason %s in %s", metric, doc_brief(answer));
  return NULL;
}

/* What the sketch is predicted to have. */
static double predicted(const char *path)
{
  const json_t *answer = fake_json(&fake, "POST", "/v1/evaluations?store=false", sketch_at(2.0, ""), 200);
  return doc_number(answer, scratch_printf("scorecards.0.%s", path));
}

START_TEST(unsigned_and_expired_gates_fail)
{
  const json_t *answer;
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}}", 201);
  answer = check(sketch_at(2.0, ""));
  assert_verdict(answer, "fail", 1);
  ck_assert_str_eq(doc_text(answer, "reasons.0.metric"), "signed_off");
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"signed_off\":[]", 200);
  assert_verdict(check(sketch_at(2.0, "")), "fail", 1);
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"expires_at\":\"2026-12-05\"," SIGNED, 200);
  assert_verdict(check(sketch_at(2.0, "")), "pass", 0);
  fake.now_ms += 5 * DAY_MS; /* the 5th itself */
  assert_verdict(check(sketch_at(2.0, "")), "pass", 0);
  fake.now_ms += DAY_MS;
  answer = check(sketch_at(2.0, ""));
  assert_verdict(answer, "fail", 1);
  ck_assert_str_eq(doc_text(answer, "reasons.0.metric"), "expires_at");
}
END_TEST

START_TEST(targets_are_met_or_missed)
{
  const double ttft = predicted("latency.ttft_ms.p50");
  const json_t *answer;
  (void)put_gate(scratch_printf("\"targets\":{\"ttft_ms\":{\"p50\":%.6f}}," SIGNED, ttft * 1.01), 201);
  answer = check(sketch_at(2.0, ""));
  assert_verdict(answer, "pass", 0);
  ck_assert_double_gt(doc_number(reason(answer, "latency.ttft_ms.p50"), "probability"), 0.5);
  ck_assert_double_eq_tol(doc_number(reason(answer, "latency.ttft_ms.p50"), "margin"), 1 - 1 / 1.01, 1e-6);
  ck_assert_int_eq(doc_integer(answer, "gate_revision"), 1);
  (void)put_gate(scratch_printf("\"targets\":{\"ttft_ms\":{\"p50\":%.6f}}," SIGNED, ttft * 0.99), 200);
  answer = check(sketch_at(2.0, ""));
  assert_verdict(answer, "fail", 1);
  ck_assert_double_lt(doc_number(reason(answer, "latency.ttft_ms.p50"), "probability"), 0.5);
}
END_TEST

/* P(met) by the published band: p10 and p90 of measured / predicted are ratios a and b; at a target of b × predicted it is
   0.9, at a × predicted 0.1, and at the prediction itself 0.5. */
START_TEST(certainty_uses_the_band)
{
  const double ttft = predicted("latency.ttft_ms.p50");
  const json_t *evaluation = fake_json(&fake, "POST", "/v1/evaluations?store=false", sketch_at(2.0, ""), 200);
  const json_t *band = json_object_get(doc_at(evaluation, "scorecards.0.uncertainty"), "latency.ttft_ms");
  const double low = json_number_value(json_array_get(band, 0)), high = json_number_value(json_array_get(band, 1));
  const struct {
    double target, probability;
    const char *verdict;
  } cases[] = {{ttft * high, 0.9, "pass"}, {ttft * 1.02, -1, "inconclusive"}, {ttft * low, 0.1, "fail"}};
  for (size_t i = 0; i < 3; i++) {
    const json_t *answer;
    (void)put_gate(
        scratch_printf("\"targets\":{\"ttft_ms\":{\"p50\":%.12f}},\"certainty\":0.8," SIGNED, cases[i].target),
        i == 0 ? 201 : 200);
    answer = check(sketch_at(2.0, ""));
    ck_assert_str_eq(doc_text(answer, "verdict"), cases[i].verdict);
    if (cases[i].probability > 0)
      ck_assert_double_eq_tol(doc_number(answer, "reasons.0.probability"), cases[i].probability, 1e-6);
  }
}
END_TEST

START_TEST(unknown_figures_and_quality_are_inconclusive)
{
  const json_t *answer;
  (void)put_gate("\"targets\":{\"quality\":[{\"benchmark\":\"ifeval\",\"min\":0.8}]}," SIGNED, 201);
  answer = check(sketch_at(2.0, ""));
  assert_verdict(answer, "inconclusive", 2);
  ck_assert_str_eq(doc_text(answer, "reasons.0.metric"), "quality");
  (void)fake_json(
      &fake, "POST", "/v1/quality-results",
      "{\"model\":\"llama-3.1-8b\",\"precision\":{\"weights\":\"fp8\"},\"benchmark\":\"ifeval\",\"score\":0.79,"
      "\"source\":\"nightly\"}",
      201);
  assert_verdict(check(sketch_at(2.0, "")), "fail", 1);
  fake.now_ms += 1000;
  (void)fake_json(
      &fake, "POST", "/v1/quality-results",
      "{\"model\":\"llama-3.1-8b\",\"precision\":{\"weights\":\"fp8\"},\"benchmark\":\"ifeval\",\"score\":0.82,"
      "\"source\":\"nightly\"}",
      201);
  answer = check(sketch_at(2.0, ""));
  assert_verdict(answer, "pass", 0);
  ck_assert_double_eq_tol(doc_number(answer, "reasons.0.margin"), 0.82 / 0.8 - 1, 1e-12);
}
END_TEST

START_TEST(another_workload_is_no_target)
{
  const json_t *answer;
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"profiles\":[\"h100-sxm-80gb\"]," SIGNED, 201);
  answer = check("{\"workload\":\"search\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":100,"
                 "\"output_tokens\":10,\"requests_per_s\":1}}");
  assert_verdict(answer, "no_target", 3);
  ck_assert(doc_is_null(answer, "scorecard"));
  answer = check("{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":100,"
                 "\"output_tokens\":10,\"requests_per_s\":1},\"profiles\":[\"l4-24gb\"]}");
  assert_verdict(answer, "no_target", 3);
}
END_TEST

START_TEST(what_does_not_fit_fails)
{
  (void)put_gate("\"max_regression\":{\"" COST "\":0.05}," SIGNED, 201);
  assert_verdict(check("{\"workload\":\"chat\",\"model\":\"llama-3.1-70b\",\"traffic\":{\"input_tokens\":1000,"
                       "\"output_tokens\":100,\"requests_per_s\":1},\"serving\":{\"tensor_parallel\":1,"
                       "\"pipeline_parallel\":1},\"profiles\":[\"l4-24gb\"]}"),
                 "fail", 1);
}
END_TEST

/* ---- Regressions ---- */

START_TEST(regressions_against_the_first_passing_check)
{
  const json_t *first, *again, *problem;
  (void)put_gate("\"max_regression\":{\"" COST "\":0.05}," SIGNED, 201);
  first = check(sketch_at(2.0, ""));
  assert_verdict(first, "pass", 0);
  ck_assert_str_eq(doc_text(first, "baseline_scorecard"), doc_text(first, "scorecard"));
  again = check(sketch_at(2.0, ""));
  assert_verdict(again, "pass", 0);
  ck_assert_str_eq(doc_text(again, "baseline_scorecard"), doc_text(first, "scorecard"));
  assert_verdict(check(sketch_at(2.2, "")), "fail", 1);  /* 10 % */
  assert_verdict(check(sketch_at(2.01, "")), "pass", 0); /* 0.5 % */
  /* checks do not move it: ten times 0.5 % is still 5 % of the first */
  assert_verdict(check(sketch_at(2.12, "")), "fail", 1);
  assert_verdict(check(sketch_at(1.0, "")), "pass", 0);
  problem = fake_json(&fake, "POST", "/v1/gates/release/checks?enforce=true", sketch_at(2.2, ""), 409);
  ck_assert_str_eq(doc_text(problem, "type"), "/problems/gate-not-passed");
  ck_assert_str_eq(doc_text(problem, "verdict"), "fail");
  ck_assert_str_eq(doc_text(problem, "reasons.0.profile"), "h100-sxm-80gb");
  ck_assert_double_eq_tol(doc_number(problem, "reasons.0.change"), 0.1, 1e-6);
  ck_assert_double_eq_tol(doc_number(problem, "reasons.0.margin"), -0.05, 1e-6);
  (void)fake_json(&fake, "POST", "/v1/gates/release/checks?enforce=true", sketch_at(2.0, ""), 201);
}
END_TEST

START_TEST(nearer_to_the_limit_than_can_be_told_is_inconclusive)
{
  double smallest;
  (void)put_gate("\"max_regression\":{\"" COST "\":0.05}," SIGNED, 201);
  smallest = doc_number(check(sketch_at(2.0, "")), "smallest_detectable_change");
  ck_assert_double_gt(smallest, 0);
  ck_assert_double_lt(smallest, 0.01);
  assert_verdict(check(sketch_at(2.0 * (1.05 + smallest / 2), "")), "inconclusive", 2);
  assert_verdict(check(sketch_at(2.0 * (1.05 - smallest / 2), "")), "inconclusive", 2);
  assert_verdict(check(sketch_at(2.0 * (1.05 + 2 * smallest), "")), "fail", 1);
  assert_verdict(check(sketch_at(2.0 * (1.05 - 2 * smallest), "")), "pass", 0);
}
END_TEST

START_TEST(inconclusive_may_only_warn)
{
  (void)put_gate(
      "\"targets\":{\"quality\":[{\"benchmark\":\"ifeval\",\"min\":0.8}]},\"on_inconclusive\":\"warn\"," SIGNED, 201);
  ck_assert_str_eq(
      doc_text(fake_json(&fake, "POST", "/v1/gates/release/checks?enforce=true", sketch_at(2.0, ""), 201), "verdict"),
      "inconclusive");
  (void)put_gate("\"targets\":{\"quality\":[{\"benchmark\":\"ifeval\",\"min\":0.8}]}," SIGNED, 200);
  (void)fake_json(&fake, "POST", "/v1/gates/release/checks?enforce=true", sketch_at(2.0, ""), 409);
}
END_TEST

/* A limit of 0 on every figure: an unchanged sketch passes, also when only prose and context changed, or when it pins what
   the search had found. */
START_TEST(an_unchanged_sketch_always_passes)
{
  const json_t *first;
  (void)put_gate(
      "\"max_regression\":{\"" COST "\":0,\"cost.monthly_usd\":0,\"latency.ttft_ms.p50\":0,"
      "\"latency.itl_ms.p50\":0,\"latency.e2e_ms.p50\":0,\"latency.tpot_ms.mean\":0,"
      "\"throughput.output_tokens_per_s\":0,\"memory.max_context_tokens\":0,\"configuration.gpus\":0}," SIGNED,
      201);
  first = check(sketch_at(2.0, ""));
  assert_verdict(first, "pass", 0);
  assert_verdict(check(sketch_at(2.0, ",\"context\":{\"commit\":\"abc\"}")), "pass", 0);
  assert_verdict(check(sketch_at(2.0, ",\"serving\":{\"replicas\":1,\"tensor_parallel\":1}")), "pass", 0);
}
END_TEST

/* Twice the load with the number of replicas left open: what regresses is told at the baseline's fleet. */
START_TEST(open_knobs_are_held_at_the_baseline)
{
  const char *heavier;
  const json_t *answer;
  (void)put_gate("\"max_regression\":{\"latency.itl_ms.p50\":0.01}," SIGNED, 201);
  assert_verdict(check(sketch_at(2.0, "")), "pass", 0);
  heavier =
      "{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"precision\":\"fp8\",\"traffic\":{\"input_tokens\":1024,"
      "\"output_tokens\":256,\"requests_per_s\":12.0},\"constraints\":{\"prices\":{\"h100-sxm-80gb\":2.0}},"
      "\"profiles\":[\"h100-sxm-80gb\"]}";
  answer = check(heavier);
  assert_verdict(answer, "fail", 1);
  ck_assert_str_eq(doc_text(answer, "reasons.0.kind"), "regression");
  ck_assert_double_gt(doc_number(answer, "reasons.0.actual"), doc_number(answer, "reasons.0.baseline"));
}
END_TEST

START_TEST(a_chosen_baseline_is_kept)
{
  const char *chosen;
  const json_t *gate;
  (void)put_gate("\"max_regression\":{\"" COST "\":0.05}," SIGNED, 201);
  (void)check(sketch_at(2.0, ""));
  chosen = doc_text(fake_json(&fake, "POST", "/v1/evaluations", sketch_at(3.0, ""), 201), "scorecards.0.id");
  gate = fake_json(&fake, "POST", "/v1/gates/release/baseline", scratch_printf("{\"scorecard\":\"%s\"}", chosen), 200);
  ck_assert_str_eq(doc_text(gate, "baselines.h100-sxm-80gb.scorecard"), chosen);
  assert_verdict(check(sketch_at(3.1, "")), "pass", 0);
  /* signing anew drops what nobody chose, and keeps this */
  (void)put_gate("\"max_regression\":{\"" COST "\":0.05},\"signed_off\":[{\"by\":\"ben\",\"at\":\"2026-11-30\"}]", 200);
  ck_assert_str_eq(doc_text(check(sketch_at(3.1, "")), "baseline_scorecard"), chosen);
  (void)fake_json(&fake, "POST", "/v1/gates/release/baseline", "{\"scorecard\":\"nothing\"}", 422);
  (void)fake_json(&fake, "POST", "/v1/gates/nobody/baseline", "{\"scorecard\":\"nothing\"}", 404);
}
END_TEST

START_TEST(signing_anew_starts_a_new_baseline)
{
  (void)put_gate("\"max_regression\":{\"" COST "\":0.05}," SIGNED, 201);
  (void)check(sketch_at(2.0, ""));
  assert_verdict(check(sketch_at(2.2, "")), "fail", 1);
  (void)put_gate("\"max_regression\":{\"" COST "\":0.05},\"signed_off\":[{\"by\":\"ben\",\"at\":\"2026-11-30\"}]", 200);
  assert_verdict(check(sketch_at(2.2, "")), "pass", 0);
}
END_TEST

/* ---- Waivers, stacks, measurements, undecided changes ---- */

START_TEST(waivers_expire_and_say_when_they_were_used)
{
  const json_t *answer;
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":1}},\"max_regression\":{\"" COST "\":0.05}," SIGNED, 201);
  (void)fake_json(&fake, "POST", "/v1/gates/release/waivers",
                  "{\"metric\":\"latency.ttft_ms.p50\",\"by\":\"ana\",\"rationale\":\"r\"}", 422);
  (void)fake_json(
      &fake, "POST", "/v1/gates/release/waivers",
      "{\"metric\":\"latency.ttft_ms.p50\",\"by\":\"ana\",\"rationale\":\"r\",\"expires_at\":\"2026-11-29\"}", 422);
  (void)fake_json(&fake, "POST", "/v1/gates/release/waivers",
                  "{\"metric\":\"signed_off\",\"by\":\"ana\",\"rationale\":\"r\",\"expires_at\":\"2026-12-09\"}", 422);
  answer = fake_json(&fake, "POST", "/v1/gates/release/waivers",
                     "{\"metric\":\"latency.ttft_ms.p50\",\"by\":\"ana\",\"rationale\":\"the kernel lands on Friday\","
                     "\"expires_at\":\"2026-12-04\"}",
                     201);
  ck_assert_str_eq(doc_text(answer, "token"), "test");
  answer = check(sketch_at(2.0, ""));
  assert_verdict(answer, "pass", 0);
  ck_assert_str_eq(doc_text(answer, "waiver.by"), "ana");
  ck_assert(json_is_true(doc_at(answer, "waiver.used")));
  ck_assert(json_is_true(json_object_get(reason(answer, "latency.ttft_ms.p50"), "waived")));
  ck_assert(doc_is_null(answer, "baseline_scorecard")); /* what passed by a waiver is no baseline */
  ck_assert_uint_eq(json_array_size(doc_array(fake_json(&fake, "GET", "/v1/gates/release", NULL, 200), "waivers")), 1);
  /* shown, and not used, where the metric was met anyway */
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}}," SIGNED, 200);
  answer = check(sketch_at(2.0, ""));
  ck_assert(json_is_false(doc_at(answer, "waiver.used")));
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":1}}," SIGNED, 200);
  fake.now_ms += 5 * DAY_MS;
  answer = check(sketch_at(2.0, ""));
  assert_verdict(answer, "fail", 1);
  ck_assert(doc_is_null(answer, "waiver"));
}
END_TEST

START_TEST(the_stack_must_be_the_required_one)
{
  (void)fake_json(&fake, "PUT", "/v1/stacks/pinned", "{\"driver\":\"570.86\",\"runtime\":\"vllm 0.19\"}", 201);
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"require_stack\":\"pinned\"," SIGNED, 201);
  assert_verdict(check(sketch_at(2.0, "")), "fail", 1);
  assert_verdict(check(sketch_at(2.0, ",\"stack\":{\"driver\":\"560\"}")), "fail", 1);
  assert_verdict(check(sketch_at(2.0, ",\"stack\":\"pinned\"")), "pass", 0);
  assert_verdict(check(sketch_at(2.0, ",\"stack\":{\"driver\":\"570.86\",\"runtime\":\"vllm 0.19\"}")), "pass", 0);
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"require_stack\":{\"driver\":\"570.86\"}," SIGNED, 200);
  assert_verdict(check(sketch_at(2.0, ",\"stack\":\"pinned\"")), "pass", 0);
}
END_TEST

START_TEST(measured_figures_decide_targets)
{
  const json_t *answer;
  (void)put_gate(
      "\"targets\":{\"ttft_ms\":{\"p50\":300}},\"certainty\":0.9,\"require_measurement\":{\"max_age_days\":30}," SIGNED,
      201);
  assert_verdict(check(sketch_at(2.0, "")), "inconclusive", 2);
  answer = check(scratch_printf("{\"sketch\":%s,\"measured\":{\"latency.ttft_ms.p50\":250}}", sketch_at(2.0, "")));
  assert_verdict(answer, "pass", 0);
  ck_assert_str_eq(doc_text(reason(answer, "measurement"), "verdict"), "pass");
  ck_assert_double_eq_tol(doc_number(reason(answer, "latency.ttft_ms.p50"), "actual"), 250, 1e-12);
  assert_verdict(
      check(scratch_printf("{\"sketch\":%s,\"measured\":{\"latency.ttft_ms.p50\":301}}", sketch_at(2.0, ""))), "fail",
      1);
  (void)fake_json(&fake, "POST", "/v1/gates/release/checks",
                  scratch_printf("{\"sketch\":%s,\"measured\":{\"latency.ttft.p50\":301}}", sketch_at(2.0, "")), 422);
}
END_TEST

START_TEST(a_turned_knob_without_a_decision_is_told)
{
  const json_t *answer;
  const char *turned = sketch_at(2.0, ",\"serving\":{\"max_batch\":96}");
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}}," SIGNED, 201);
  (void)fake_json(&fake, "PUT", "/v1/knobs/chat/max-batch",
                  "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"owner\":\"ana\","
                  "\"rollback_plan\":\"set it back\",\"value\":64}",
                  201);
  answer = check(turned);
  assert_verdict(answer, "pass", 0);
  ck_assert_str_eq(doc_text(answer, "undecided_changes.0.knob"), "max-batch");
  ck_assert_int_eq(doc_integer(answer, "undecided_changes.0.from"), 64);
  ck_assert_int_eq(doc_integer(answer, "undecided_changes.0.to"), 96);
  (void)fake_json(&fake, "POST", "/v1/decisions",
                  "{\"workload\":\"chat\",\"knob\":\"max-batch\",\"to\":96,\"rationale\":\"measured\"}", 201);
  ck_assert_uint_eq(json_array_size(doc_array(check(turned), "undecided_changes")), 0);
  ck_assert_uint_eq(json_array_size(doc_array(check(sketch_at(2.0, "")), "undecided_changes")), 0);
}
END_TEST

/* ---- The resource ---- */

START_TEST(repeated_checks_are_identical)
{
  static const char *const moving[] = {"id", "created_at", "scorecard", "baseline_scorecard", "evaluation", NULL};
  json_t *answers[3];
  const char *sketch = sketch_at(2.0, ",\"serving\":{\"max_batch\":96}");
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"max_regression\":{\"" COST "\":0.05}," SIGNED, 201);
  for (size_t i = 0; i < 3; i++) {
    answers[i] = check(sketch);
    doc_strip(answers[i], moving);
  }
  doc_assert_same(answers[1], answers[0]);
  doc_assert_same(answers[2], answers[0]);
}
END_TEST

START_TEST(gates_are_read_strictly)
{
  const json_t *problem =
      fake_json(&fake, "PUT", "/v1/gates/release",
                "{\"workload\":\"chat\",\"profiles\":[\"h100-sxm-80g\"],\"targets\":{\"ttft\":1},\"certainty\":0.2,"
                "\"max_regression\":{\"cost.per_million_output_tokens\":0.1},\"signed_off\":[{\"by\":\"ana\"}],"
                "\"judge\":\"most\"}",
                422);
  ck_assert_str_eq(doc_text(doc_fault(problem, "/profiles/0"), "suggestion"), "h100-sxm-80gb");
  ck_assert_ptr_nonnull(doc_fault(problem, "/targets/ttft"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/certainty"));
  ck_assert_str_eq(doc_text(doc_fault(problem, "/max_regression/cost.per_million_output_tokens"), "suggestion"),
                   "cost.per_million_output_tokens_usd");
  ck_assert_ptr_nonnull(doc_fault(problem, "/signed_off/0/at"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/judge"));
  (void)put_gate(SIGNED, 422); /* asks for nothing */
  (void)fake_json(&fake, "GET", "/v1/gates/release", NULL, 404);
}
END_TEST

START_TEST(gates_are_kept_listed_and_deleted)
{
  json_t *gate;
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}}," SIGNED, 201);
  (void)check(sketch_at(2.0, ""));
  gate = fake_json(&fake, "GET", "/v1/gates/release", NULL, 200);
  ck_assert_str_eq(doc_text(gate, "changed_by"), "test");
  gate = fake_json(&fake, "PUT", "/v1/gates/release", doc_dump(gate), 200);
  ck_assert_int_eq(doc_integer(gate, "revision"), 1);
  ck_assert_uint_eq(json_array_size(doc_array(fake_json(&fake, "GET", "/v1/gates", NULL, 200), "items")), 1);
  ck_assert_uint_eq(json_array_size(doc_array(fake_json(&fake, "GET", "/v1/gates?workload=x", NULL, 200), "items")), 0);
  ck_assert_uint_eq(json_array_size(doc_array(fake_json(&fake, "GET", "/v1/gates/release/checks", NULL, 200), "items")),
                    1);
  ck_assert_uint_eq(
      json_array_size(doc_array(fake_json(&fake, "GET", "/v1/gates/release/checks?verdict=fail", NULL, 200), "items")),
      0);
  (void)fake_json(&fake, "DELETE", "/v1/gates/release", NULL, 204);
  (void)fake_json(&fake, "POST", "/v1/gates/release/checks", sketch_at(2.0, ""), 404);
}
END_TEST

START_TEST(judging_all_or_any_profile)
{
  const char *two = "{\"workload\":\"chat\",\"model\":\"llama-3.1-70b\",\"precision\":\"fp8\",\"traffic\":"
                    "{\"input_tokens\":1024,\"output_tokens\":256,\"requests_per_s\":2.0},"
                    "\"serving\":{\"tensor_parallel\":2,\"pipeline_parallel\":1},"
                    "\"profiles\":[\"h100-sxm-80gb\",\"l4-24gb\"]}"; /* 70 GB of weights are on no two of the latter */
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"judge\":\"all\"," SIGNED, 201);
  assert_verdict(check(two), "fail", 1);
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"judge\":\"any\"," SIGNED, 200);
  assert_verdict(check(two), "pass", 0);
  (void)put_gate("\"targets\":{\"ttft_ms\":{\"p50\":100000}},\"judge\":\"recommended\"," SIGNED, 200);
  assert_verdict(check(two), "pass", 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("gates_api");
  TCase *tcase = suite_case(suite, "gates", setup, teardown);
  tcase_add_test(tcase, unsigned_and_expired_gates_fail);
  tcase_add_test(tcase, targets_are_met_or_missed);
  tcase_add_test(tcase, certainty_uses_the_band);
  tcase_add_test(tcase, unknown_figures_and_quality_are_inconclusive);
  tcase_add_test(tcase, another_workload_is_no_target);
  tcase_add_test(tcase, what_does_not_fit_fails);
  tcase_add_test(tcase, regressions_against_the_first_passing_check);
  tcase_add_test(tcase, nearer_to_the_limit_than_can_be_told_is_inconclusive);
  tcase_add_test(tcase, inconclusive_may_only_warn);
  tcase_add_test(tcase, an_unchanged_sketch_always_passes);
  tcase_add_test(tcase, open_knobs_are_held_at_the_baseline);
  tcase_add_test(tcase, a_chosen_baseline_is_kept);
  tcase_add_test(tcase, signing_anew_starts_a_new_baseline);
  tcase_add_test(tcase, waivers_expire_and_say_when_they_were_used);
  tcase_add_test(tcase, the_stack_must_be_the_required_one);
  tcase_add_test(tcase, measured_figures_decide_targets);
  tcase_add_test(tcase, a_turned_knob_without_a_decision_is_told);
  tcase_add_test(tcase, repeated_checks_are_identical);
  tcase_add_test(tcase, gates_are_read_strictly);
  tcase_add_test(tcase, gates_are_kept_listed_and_deleted);
  tcase_add_test(tcase, judging_all_or_any_profile);
  return suite_run(suite);
}
