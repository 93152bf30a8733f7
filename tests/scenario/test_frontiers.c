/* Frontiers over HTTP: what every point holds, that none beats another, variants and their withholding, representations. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <math.h>
#include <string.h>

#define PROFILES "\"profiles\":[\"h100-sxm-80gb\",\"l40s-48gb\",\"a100-sxm-80gb\"]"

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static json_t *frontier_of(const char *query, const char *sketch)
{
  const struct reply *reply = web_post(&fitd, scratch_printf("/v1/frontiers%s", query), sketch);
  reply_assert_status(reply, 200);
  ck_assert_ptr_nonnull(reply->json);
  return reply->json;
}

static double figure(const json_t *points, size_t i, const char *path)
{
  return doc_number(json_array_get(points, i), path);
}

static void assert_undominated(const json_t *points)
{
  for (size_t i = 0; i < json_array_size(points); i++)
    for (size_t k = 0; k < json_array_size(points); k++)
      ck_assert_msg(
          i == k ||
              figure(points, k, "output_tokens_per_s_per_gpu") < figure(points, i, "output_tokens_per_s_per_gpu") ||
              figure(points, k, "output_tokens_per_s_per_user") < figure(points, i, "output_tokens_per_s_per_user"),
          "point %zu beats point %zu", k, i);
}

START_TEST(points_hold_what_the_contract_names)
{
  const json_t *document = frontier_of("", sample_sketch_with(PROFILES));
  const json_t *points = doc_array(document, "points");
  ck_assert_uint_gt(json_array_size(points), 8);
  assert_undominated(points);
  for (size_t i = 0; i < json_array_size(points); i++) {
    const json_t *point = json_array_get(points, i);
    const double gpus = doc_number(point, "configuration.gpus");
    ck_assert_double_eq_tol(figure(points, i, "output_tokens_per_s_per_user"),
                            1000 / doc_number(point, "latency.tpot_ms.mean"), 1e-6);
    ck_assert_double_eq_tol(doc_number(point, "requests_per_s") * 256 / gpus,
                            figure(points, i, "output_tokens_per_s_per_gpu"), 1e-6);
    ck_assert_double_eq(doc_number(point, "configuration.tensor_parallel") *
                            doc_number(point, "configuration.pipeline_parallel") *
                            doc_number(point, "configuration.attention_data_parallel"),
                        gpus);
    ck_assert_double_ge(doc_number(point, "batch"), 1);
    ck_assert_str_eq(doc_text(point, "configuration.precision.weights"), "bf16");
    ck_assert_ptr_nonnull(doc_text(point, "limiter"));
    (void)doc_number(point, "latency.ttft_ms.p50");
    (void)doc_number(point, "latency.itl_ms.p50");
    (void)doc_number(point, "cost.per_million_output_tokens_usd");
  }
}
END_TEST

/* A point is the evaluation of its configuration with `batch` users. */
START_TEST(a_point_is_an_evaluation)
{
  const json_t *point = json_array_get(doc_array(frontier_of("", sample_sketch_with(PROFILES)), "points"), 4);
  const char *body = scratch_printf(
      "{\"workload\":\"w\",\"model\":\"llama-3.1-70b\",\"profiles\":[\"%s\"],\"traffic\":{\"input_tokens\":2048,"
      "\"output_tokens\":256,\"concurrency\":%d},\"serving\":{\"replicas\":1,\"tensor_parallel\":%d,"
      "\"pipeline_parallel\":%d,\"expert_parallel\":1,\"attention_data_parallel\":1}}",
      doc_text(point, "profile"), (int)doc_number(point, "batch"),
      (int)doc_integer(point, "configuration.tensor_parallel"),
      (int)doc_integer(point, "configuration.pipeline_parallel"));
  const struct reply *reply = web_post(&fitd, "/v1/evaluations?store=false&depth=quick", body);
  const json_t *card;
  reply_assert_status(reply, 200);
  card = doc_at(reply->json, "scorecards.0");
  ck_assert_double_eq_tol(doc_number(card, "throughput.output_tokens_per_s_per_gpu"),
                          doc_number(point, "output_tokens_per_s_per_gpu"),
                          1e-5 * doc_number(point, "output_tokens_per_s_per_gpu"));
  ck_assert_double_eq_tol(doc_number(card, "throughput.output_tokens_per_s_per_user"),
                          doc_number(point, "output_tokens_per_s_per_user"),
                          1e-5 * doc_number(point, "output_tokens_per_s_per_user"));
}
END_TEST

/* 70B is grouped by eight already and stored in bf16: fp8 alone is another curve. Half the weight bytes and half the cache
   a token are worth more than a tenth and less than four times the throughput where users want 25 tokens/s. */
START_TEST(variants_are_curves_with_their_gain)
{
  const json_t *document = frontier_of("", sample_sketch_with("\"targets\":{\"itl_ms\":{\"p50\":40}}," PROFILES));
  const json_t *variants = doc_array(document, "variants"), *fp8 = json_array_get(variants, 0);
  ck_assert_uint_eq(json_array_size(variants), 1);
  ck_assert_str_eq(doc_text(fp8, "variant"), "fp8");
  ck_assert_str_eq(doc_text(fp8, "requires"), "requantisation");
  ck_assert_str_eq(doc_text(fp8, "gain.basis"), "targets");
  ck_assert_double_eq_tol(doc_number(fp8, "gain.output_tokens_per_s_per_user"), 25, 1e-9);
  ck_assert_double_gt(doc_number(fp8, "gain.ratio"), 1.1);
  ck_assert_double_lt(doc_number(fp8, "gain.ratio"), 4);
  assert_undominated(doc_array(fp8, "points"));
  ck_assert(doc_is_null(document, "variants_withheld"));
}
END_TEST

/* An older model with a KV head for every query head: grouping, fp8 and both. */
START_TEST(ungrouped_attention_has_a_grouped_variant)
{
  const struct sample_sketch sketch = {.model = "llama-2-7b", .input_tokens = 1024, .more = PROFILES};
  const json_t *variants = doc_array(frontier_of("", sample_sketch(&sketch)), "variants");
  static const char *const names[] = {"gqa_8_1", "fp8", "gqa_8_1_fp8"};
  ck_assert_uint_eq(json_array_size(variants), 3);
  for (size_t i = 0; i < 3; i++) {
    ck_assert_str_eq(doc_text(json_array_get(variants, i), "variant"), names[i]);
    ck_assert_double_gt(doc_number(json_array_get(variants, i), "gain.ratio"), 1);
  }
}
END_TEST

START_TEST(locked_accuracy_has_no_variants)
{
  const json_t *document = frontier_of("", sample_sketch_with("\"constraints\":{\"accuracy\":\"locked\"}," PROFILES));
  ck_assert_uint_eq(json_array_size(doc_array(document, "variants")), 0);
  ck_assert_ptr_nonnull(strstr(doc_text(document, "variants_withheld"), "locked"));
}
END_TEST

/* Cheaper devices than the fastest stay for their cost alone. */
START_TEST(cost_is_a_third_objective_on_request)
{
  const char *sketch = sample_sketch_with(PROFILES);
  const json_t *two = frontier_of("", sketch), *three = frontier_of("?cost=true", sketch);
  ck_assert_uint_eq(json_array_size(doc_array(two, "objectives")), 2);
  ck_assert_uint_eq(json_array_size(doc_array(three, "objectives")), 3);
  ck_assert_uint_ge(json_array_size(doc_array(three, "points")), json_array_size(doc_array(two, "points")));
}
END_TEST

START_TEST(profiles_may_have_a_frontier_each)
{
  const json_t *points = doc_array(frontier_of("?by=profile", sample_sketch_with(PROFILES)), "points");
  static const char *const names[] = {"h100-sxm-80gb", "l40s-48gb", "a100-sxm-80gb"};
  size_t seen = 0;
  for (size_t i = 0; i < json_array_size(points); i++) {
    const char *name = doc_text(json_array_get(points, i), "profile");
    if (i == 0 || strcmp(name, doc_text(json_array_get(points, i - 1), "profile")) != 0)
      ck_assert_str_eq(name, names[seen++]);
  }
  ck_assert_uint_eq(seen, 3);
}
END_TEST

START_TEST(a_profile_that_holds_nothing_is_named)
{
  const struct sample_sketch sketch = {.model = "llama-3.1-405b",
                                       .more = "\"profiles\":[\"t4-16gb\",\"h200-sxm-141gb\"],"
                                               "\"constraints\":{\"gpu_quota\":8}"};
  const json_t *document = frontier_of("", sample_sketch(&sketch));
  ck_assert_uint_eq(json_array_size(doc_array(document, "left_out")), 1);
  ck_assert_str_eq(doc_text(document, "left_out.0.profile"), "t4-16gb");
  ck_assert_uint_gt(json_array_size(doc_array(document, "points")), 0);
}
END_TEST

/* One head, then as many lines as points; Markdown as many as there are curves' points. */
START_TEST(csv_and_markdown_say_the_same)
{
  const char *sketch = sample_sketch_with("\"constraints\":{\"accuracy\":\"locked\"}," PROFILES);
  const size_t count = json_array_size(doc_array(frontier_of("", sketch), "points"));
  const struct reply *csv = web_post(&fitd, "/v1/frontiers?format=csv", sketch);
  const struct reply *md = web_post(&fitd, "/v1/frontiers?format=md", sketch);
  size_t lines = 0, rows = 0;
  reply_assert_status(csv, 200);
  reply_assert_status(md, 200);
  for (const char *at = csv->body; (at = strstr(at, "\r\n")) != NULL; at += 2)
    lines++;
  for (const char *at = md->body; (at = strstr(at, "\n| ")) != NULL; at++)
    rows++;
  ck_assert_uint_eq(lines, count + 1);
  ck_assert_uint_eq(rows, count + 1);
  ck_assert_ptr_nonnull(strstr(md->body, "## Frontier of support-chat"));
}
END_TEST

START_TEST(nothing_is_stored)
{
  (void)frontier_of("", sample_sketch_with(PROFILES));
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/evaluations"), "items")), 0);
}
END_TEST

static const struct {
  const char *query, *body, *pointer;
} REFUSALS[] = {
    {"?by=gpu", NULL, "?by"},
    {"?cost=maybe", NULL, "?cost"},
    {"?depth=quick", NULL, "?depth"},
    {"",
     "{\"workload\":\"w\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":10,\"output_tokens\":1,"
     "\"requests_per_s\":1}}",
     "/traffic/output_tokens"},
    {"", "{\"workload\":\"w\",\"model\":\"llama-3.1-8x\",\"traffic\":{\"input_tokens\":10,\"output_tokens\":1}}",
     "/model"},
};

START_TEST(refusals_name_the_field)
{
  const char *body = REFUSALS[_i].body != NULL ? REFUSALS[_i].body : sample_sketch_with(PROFILES);
  const json_t *problem =
      reply_assert_problem(web_post(&fitd, scratch_printf("/v1/frontiers%s", REFUSALS[_i].query), body), 422);
  ck_assert_msg(doc_fault(problem, REFUSALS[_i].pointer) != NULL, "%s", doc_brief(problem));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("frontiers");
  TCase *tcase = suite_case(suite, "frontiers", setup, teardown);
  tcase_add_test(tcase, points_hold_what_the_contract_names);
  tcase_add_test(tcase, a_point_is_an_evaluation);
  tcase_add_test(tcase, variants_are_curves_with_their_gain);
  tcase_add_test(tcase, ungrouped_attention_has_a_grouped_variant);
  tcase_add_test(tcase, locked_accuracy_has_no_variants);
  tcase_add_test(tcase, cost_is_a_third_objective_on_request);
  tcase_add_test(tcase, profiles_may_have_a_frontier_each);
  tcase_add_test(tcase, a_profile_that_holds_nothing_is_named);
  tcase_add_test(tcase, csv_and_markdown_say_the_same);
  tcase_add_test(tcase, nothing_is_stored);
  tcase_add_loop_test(tcase, refusals_name_the_field, 0, sizeof REFUSALS / sizeof REFUSALS[0]);
  return suite_run(suite);
}
