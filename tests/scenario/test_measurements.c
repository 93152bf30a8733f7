/* Measurements beside predictions, calibrations that evaluations then use, and quality targets against posted results. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <math.h>
#include <string.h>

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

/* A closed loop on four GPUs of one kind, as a benchmark runs it. `more` ends with a comma when it is not empty. */
static const char *sketch_of(unsigned concurrency, const char *more)
{
  return scratch_printf("{\"workload\":\"bench\",\"model\":\"llama-3.1-70b\",\"precision\":\"fp8\",%s\"traffic\":{"
                        "\"input_tokens\":1024,\"output_tokens\":512,\"concurrency\":%u},\"serving\":{"
                        "\"tensor_parallel\":4,\"replicas\":1},\"profiles\":[\"h100-sxm-80gb\"]}",
                        more, concurrency);
}

static const char *body_of(const char *sketch, const char *measured)
{
  return scratch_printf("{\"sketch\":%s,\"profile\":\"h100-sxm-80gb\",\"measured\":{%s},\"source\":\"a test\"}", sketch,
                        measured);
}

START_TEST(measurement_stands_beside_its_prediction)
{
  const json_t *card = sample_scorecard(&fitd, sketch_of(16, ""));
  const double predicted = doc_number(card, "latency.tpot_ms.mean");
  const json_t *measurement =
      web_post_created(&fitd, "/v1/measurements",
                       body_of(sketch_of(16, ""), scratch_printf("\"latency.tpot_ms.mean\":%.6f", predicted * 2)));
  const json_t *figure = json_object_get(doc_at(measurement, "figures"), "latency.tpot_ms.mean");
  ck_assert_double_eq_tol(doc_number(figure, "predicted"), predicted, 1e-6 * predicted);
  ck_assert_double_eq_tol(doc_number(figure, "relative_error"), -0.5, 1e-6);
  ck_assert_str_eq(doc_text(measurement, "model"), "llama-3.1-70b");
  ck_assert(doc_is_null(measurement, "calibration"));
  card = web_get_ok(&fitd, scratch_printf("/v1/scorecards/%s", doc_text(measurement, "scorecard")));
  ck_assert_str_eq(doc_text(card, "label"), "measurement");
  doc_assert_same(web_get_ok(&fitd, scratch_printf("/v1/measurements/%s", doc_text(measurement, "id"))), measurement);
  ck_assert_uint_eq(
      json_array_size(doc_array(web_get_ok(&fitd, "/v1/measurements?workload=bench&profile=h100-sxm-80gb"), "items")),
      1);
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/measurements?model=other"), "items")), 0);
  figure =
      doc_at(web_get_ok(&fitd, "/v1/series?metric=latency.tpot_ms.mean&source=observed&workload=bench"), "series.0");
  ck_assert_double_eq_tol(doc_number(figure, "points.0.value"), predicted * 2, 1e-5 * predicted);
  ck_assert_str_eq(doc_text(figure, "source"), "observed");
}
END_TEST

static void assert_fault(const char *path, const char *body, const char *pointer)
{
  const json_t *problem = reply_assert_problem(web_post(&fitd, path, body), 422);
  ck_assert_msg(doc_fault(problem, pointer) != NULL, "%s %s: %s", path, pointer, doc_brief(problem));
}

START_TEST(faults_of_a_measurement)
{
  const char *path = "/v1/measurements", *sketch = sketch_of(16, "");
  assert_fault(path, "{}", "/sketch");
  assert_fault(path, "{\"sketch\":[]}", "/sketch");
  assert_fault(path, body_of(sketch, ""), "/measured");
  assert_fault(path, body_of(sketch, "\"latency.tpot_ms.men\":2"), "/measured/latency.tpot_ms.men");
  assert_fault(path, body_of(sketch, "\"latency.tpot_ms.mean\":-2"), "/measured/latency.tpot_ms.mean");
  assert_fault(path, body_of(sketch, "\"latency.tpot_ms.mean\":\"2\""), "/measured/latency.tpot_ms.mean");
  assert_fault(path,
               scratch_printf("{\"sketch\":%s,\"profile\":\"h100\",\"measured\":{\"latency.tpot_ms.mean\":2},"
                              "\"source\":\"x\"}",
                              sketch),
               "/profile");
  assert_fault(path,
               scratch_printf("{\"sketch\":%s,\"profile\":\"h100-sxm-80gb\",\"stack\":\"none\",\"measured\":{"
                              "\"latency.tpot_ms.mean\":2},\"source\":\"x\"}",
                              sketch),
               "/stack");
  (void)reply_assert_problem(web_get(&fitd, "/v1/measurements/nothing"), 404);
}
END_TEST

/* ---- Calibrations ---- */

static const char *const stack = "\"stack\":\"prod\",";

/* What a slower installation would measure: step times of 1.3 times the prediction. */
static const char *measure(unsigned concurrency)
{
  const json_t *card = sample_scorecard(&fitd, sketch_of(concurrency, stack));
  const json_t *measurement = web_post_created(
      &fitd, "/v1/measurements",
      body_of(sketch_of(concurrency, stack), scratch_printf("\"latency.tpot_ms.mean\":%.9f,\"latency.itl_ms.p99\":99",
                                                            1.3 * doc_number(card, "latency.tpot_ms.mean"))));
  return doc_text(measurement, "id");
}

static const json_t *calibrate(void)
{
  const char *a = measure(4), *b = measure(16), *c = measure(48), *d = measure(96);
  return web_post_created(
      &fitd, "/v1/calibrations",
      scratch_printf("{\"profile\":\"h100-sxm-80gb\",\"model\":\"llama-3.1-70b\",\"stack\":\"prod\","
                     "\"measurements\":[\"%s\",\"%s\",\"%s\",\"%s\"]}",
                     a, b, c, d));
}

static double tpot(const char *more)
{
  return doc_number(sample_scorecard(&fitd, sketch_of(32, more)), "latency.tpot_ms.mean");
}

START_TEST(calibration_moves_what_it_matches)
{
  const json_t *calibration, *before, *after;
  double plain;
  const char *id;
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"runtime\":\"vllm 0.10\"}", 201);
  (void)web_put_status(&fitd, "/v1/stacks/test", "{\"runtime\":\"vllm 0.11\"}", 201);
  before = sample_scorecard(&fitd, sketch_of(32, stack));
  plain = doc_number(before, "latency.tpot_ms.mean");
  calibration = calibrate();
  id = doc_text(calibration, "id");
  /* The cards' figures are simulated, those of the fit in closed form: they agree within 3 %. */
  ck_assert_double_eq_tol(doc_number(calibration, "residuals.before.tpot"), 1 - 1 / 1.3, 0.03 / 1.3);
  ck_assert_double_lt(doc_number(calibration, "residuals.after.tpot"), 0.03);
  ck_assert(doc_is_null(calibration, "residuals.after.ttft"));
  ck_assert_double_gt(doc_number(calibration, "factors.work"), 1.1);
  ck_assert(doc_is_null(calibration, "retired_at"));
  after = sample_scorecard(&fitd, sketch_of(32, stack));
  ck_assert_double_eq_tol(doc_number(after, "latency.tpot_ms.mean") / plain, 1.3, 0.05); /* a load it never saw */
  ck_assert_str_eq(doc_text(after, "provenance.calibration"), id);
  ck_assert(doc_is_null(before, "provenance.calibration"));
  ck_assert_double_eq_tol(tpot(""), plain, 1e-9 * plain);
  ck_assert_double_eq_tol(tpot("\"stack\":\"test\","), plain, 1e-9 * plain);
  reply_assert_status(web_get(&fitd, scratch_printf("/v1/scorecards/%s/explain", doc_text(after, "id"))), 200);
  reply_assert_status(web_delete(&fitd, scratch_printf("/v1/calibrations/%s", id)), 204);
  (void)reply_assert_problem(web_delete(&fitd, scratch_printf("/v1/calibrations/%s", id)), 409);
  ck_assert_double_eq_tol(tpot(stack), plain, 1e-9 * plain);
  ck_assert(!doc_is_null(web_get_ok(&fitd, scratch_printf("/v1/calibrations/%s", id)), "retired_at"));
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/calibrations?stack=prod"), "items")), 1);
}
END_TEST

static double band_width(const json_t *card)
{
  const json_t *band = json_object_get(doc_at(card, "uncertainty"), "latency.itl_ms");
  return log(json_number_value(json_array_get(band, 1)) / json_number_value(json_array_get(band, 0)));
}

START_TEST(calibration_narrows_the_band)
{
  double wide;
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"runtime\":\"vllm 0.10\"}", 201);
  wide = band_width(sample_scorecard(&fitd, sketch_of(32, stack)));
  (void)calibrate();
  /* four good runs against the eight that the class's band counts as: at best sqrt(8 / 12) */
  ck_assert_double_lt(band_width(sample_scorecard(&fitd, sketch_of(32, stack))), 0.85 * wide);
  ck_assert_double_gt(band_width(sample_scorecard(&fitd, sketch_of(32, stack))), 0.8 * wide);
}
END_TEST

START_TEST(the_newest_calibration_is_used)
{
  const char *first, *second;
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"runtime\":\"vllm 0.10\"}", 201);
  first = doc_text(calibrate(), "id");
  second = doc_text(calibrate(), "id"); /* of runs that the first has moved the predictions of */
  ck_assert_str_eq(doc_text(sample_scorecard(&fitd, sketch_of(32, stack)), "provenance.calibration"), second);
  reply_assert_status(web_delete(&fitd, scratch_printf("/v1/calibrations/%s", second)), 204);
  ck_assert_str_eq(doc_text(sample_scorecard(&fitd, sketch_of(32, stack)), "provenance.calibration"), first);
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL);
  ck_assert_str_eq(doc_text(sample_scorecard(&fitd, sketch_of(32, stack)), "provenance.calibration"), first);
}
END_TEST

START_TEST(faults_of_a_calibration)
{
  const char *path = "/v1/calibrations", *id;
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"runtime\":\"vllm 0.10\"}", 201);
  id = measure(8);
  assert_fault(path, "{\"profile\":\"h100-sxm-80gb\"}", "/measurements");
  assert_fault(path, "{\"profile\":\"h100-sxm-80gb\",\"measurements\":[]}", "/measurements");
  assert_fault(path, "{\"profile\":\"h100-sxm-80gb\",\"measurements\":[\"x\"]}", "/measurements/0");
  assert_fault(path, scratch_printf("{\"profile\":\"h1\",\"measurements\":[\"%s\"]}", id), "/profile");
  assert_fault(path, scratch_printf("{\"profile\":\"l40s-48gb\",\"measurements\":[\"%s\"]}", id), "/measurements/0");
  assert_fault(path,
               scratch_printf("{\"profile\":\"h100-sxm-80gb\",\"model\":\"qwen3-32b\",\"measurements\":[\"%s\"]}", id),
               "/measurements/0");
  assert_fault(path, scratch_printf("{\"profile\":\"h100-sxm-80gb\",\"stack\":\"o\",\"measurements\":[\"%s\"]}", id),
               "/measurements/0");
  assert_fault(path, scratch_printf("{\"profile\":\"h100-sxm-80gb\",\"measurements\":[\"%s\",\"%s\"]}", id, id),
               "/measurements/1");
  id = doc_text(web_post_created(&fitd, "/v1/measurements", body_of(sketch_of(16, ""), "\"latency.itl_ms.p99\":30")),
                "id");
  assert_fault(path, scratch_printf("{\"profile\":\"h100-sxm-80gb\",\"measurements\":[\"%s\"]}", id), "/measurements");
  (void)reply_assert_problem(web_delete(&fitd, "/v1/calibrations/none"), 404);
}
END_TEST

/* ---- Quality ---- */

static const char *quality_of(const char *precision)
{
  const json_t *card = sample_scorecard(
      &fitd,
      sample_sketch_with(scratch_printf("\"precision\":\"%s\",\"targets\":{\"quality\":[{\"benchmark\":\"ifeval\","
                                        "\"slice\":\"de\",\"min\":0.81}]},\"profiles\":[\"h100-sxm-80gb\"]",
                                        precision)));
  return doc_text(card, "quality");
}

static void post_quality(const char *precision, double score)
{
  (void)web_post_created(&fitd, "/v1/quality-results",
                         scratch_printf("{\"model\":\"meta-llama/Llama-3.1-70B\",\"precision\":\"%s\",\"benchmark\":"
                                        "\"ifeval\",\"slice\":\"de\",\"score\":%.3f,\"source\":\"a test\"}",
                                        precision, score));
}

START_TEST(quality_is_that_of_model_and_precision)
{
  const json_t *items;
  ck_assert_str_eq(quality_of("fp8"), "unmeasured");
  post_quality("bf16", 0.9);
  ck_assert_str_eq(quality_of("fp8"), "unmeasured");
  ck_assert_str_eq(quality_of("bf16"), "met");
  post_quality("fp8", 0.80);
  ck_assert_str_eq(quality_of("fp8"), "missed");
  post_quality("fp8", 0.81); /* the newest counts, and exactly the target is met */
  ck_assert_str_eq(quality_of("fp8"), "met");
  items = doc_array(web_get_ok(&fitd, "/v1/quality-results?model=llama-3.1-70b&benchmark=ifeval"), "items");
  ck_assert_uint_eq(json_array_size(items), 3);
  ck_assert_double_eq_tol(doc_number(items, "0.score"), 0.81, 1e-12);
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/quality-results?benchmark=mmlu"), "items")), 0);
}
END_TEST

START_TEST(quality_targets_are_listed)
{
  const json_t *card, *target = NULL, *each;
  size_t i;
  post_quality("fp8", 0.9);
  card = sample_scorecard(
      &fitd, sample_sketch_with("\"precision\":\"fp8\",\"targets\":{\"quality\":[{\"benchmark\":\"ifeval\",\"slice\":"
                                "\"de\",\"min\":0.75},{\"benchmark\":\"mmlu\",\"min\":0.5}]},"
                                "\"profiles\":[\"h100-sxm-80gb\"]"));
  ck_assert_str_eq(doc_text(card, "quality"), "unmeasured"); /* one of two */
  json_array_foreach(doc_at(card, "targets"), i, each)
  {
    if (strcmp(doc_text(each, "metric"), "quality.ifeval.de") == 0)
      target = each;
    else if (strcmp(doc_text(each, "metric"), "quality.mmlu") == 0)
      ck_assert(doc_is_null(each, "met"));
  }
  ck_assert_ptr_nonnull(target);
  ck_assert_double_eq_tol(doc_number(target, "margin"), 0.2, 1e-9);
  ck_assert(json_is_true(doc_at(target, "met")));
}
END_TEST

START_TEST(faults_of_a_quality_result)
{
  const char *path = "/v1/quality-results";
  assert_fault(path,
               "{\"model\":\"llama-3.1-70\",\"precision\":\"fp8\",\"benchmark\":\"b\",\"score\":1,\"source\":\"s\"}",
               "/model");
  assert_fault(path,
               "{\"model\":\"llama-3.1-70b\",\"precision\":\"fp9\",\"benchmark\":\"b\",\"score\":1,\"source\":\"s\"}",
               "/precision");
  assert_fault(path, "{\"model\":\"llama-3.1-70b\",\"precision\":{},\"benchmark\":\"b\",\"score\":1,\"source\":\"s\"}",
               "/precision/weights");
  assert_fault(path,
               "{\"model\":\"llama-3.1-70b\",\"precision\":\"fp8\",\"benchmark\":\"b\",\"score\":\"1\","
               "\"source\":\"s\",\"stack\":\"none\"}",
               "/score");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("scenario/measurements");
  TCase *tcase = suite_case(suite, "measurements", setup, teardown);
  tcase_add_test(tcase, measurement_stands_beside_its_prediction);
  tcase_add_test(tcase, faults_of_a_measurement);
  tcase_add_test(tcase, calibration_moves_what_it_matches);
  tcase_add_test(tcase, calibration_narrows_the_band);
  tcase_add_test(tcase, the_newest_calibration_is_used);
  tcase_add_test(tcase, faults_of_a_calibration);
  tcase_add_test(tcase, quality_is_that_of_model_and_precision);
  tcase_add_test(tcase, quality_targets_are_listed);
  tcase_add_test(tcase, faults_of_a_quality_result);
  return suite_run(suite);
}
