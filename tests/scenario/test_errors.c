/* What a client is told when it is wrong: which field, what was seen, what would be right, and the status that says whose
   mistake it was. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <string.h>

#define ONE_PROFILE "\"profiles\":[\"h100-sxm-80gb\"]"

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

/* POSTs a sketch that must be refused with 422. */
static json_t *refusal(const char *sketch)
{
  return reply_assert_problem(web_post(&fitd, "/v1/evaluations", sketch), 422);
}

static const json_t *assert_fault(const json_t *problem, const char *pointer)
{
  const json_t *fault = doc_fault(problem, pointer);
  ck_assert_msg(fault != NULL, "no fault at %s: %s", pointer, doc_brief(problem));
  ck_assert_str_ne(doc_text(fault, "code"), "");
  ck_assert_str_ne(doc_text(fault, "detail"), "");
  return fault;
}

static void assert_suggestion(const json_t *problem, const char *pointer, const char *suggestion)
{
  ck_assert_str_eq(doc_text(assert_fault(problem, pointer), "suggestion"), suggestion);
}

START_TEST(five_faults_in_one_answer)
{
  const json_t *problem = refusal("{\"workload\":\"support-chat\",\"model\":\"lama-3.1-70b\","
                                  "\"traffic\":{\"input_tokens\":-5,\"output_tokens\":\"many\",\"requests_per_s\":2,"
                                  "\"arival\":\"poisson\"},\"serving\":{\"runtime\":\"vlm\"}}");
  assert_suggestion(problem, "/model", "llama-3.1-70b");
  (void)assert_fault(problem, "/traffic/input_tokens");
  (void)assert_fault(problem, "/traffic/output_tokens");
  assert_suggestion(problem, "/traffic/arival", "arrival");
  assert_suggestion(problem, "/serving/runtime", "vllm");
  ck_assert_uint_eq(json_array_size(doc_array(problem, "errors")), 5);
  ck_assert_ptr_nonnull(strstr(doc_text(assert_fault(problem, "/traffic/input_tokens"), "detail"), "-5"));
}
END_TEST

START_TEST(missing_members_are_named)
{
  const json_t *problem = refusal("{}");
  (void)assert_fault(problem, "/workload");
  (void)assert_fault(problem, "/model");
  (void)assert_fault(problem, "/traffic");
}
END_TEST

START_TEST(more_than_64_faults_say_so)
{
  char body[4096] = "{\"workload\":\"w\",\"model\":\"llama-3.1-70b\",\"traffic\":{\"requests_per_s\":1,"
                    "\"input_tokens\":1,\"output_tokens\":1}";
  size_t length = strlen(body);
  const json_t *problem;
  for (int i = 0; i < 100; i++)
    length += (size_t)snprintf(body + length, sizeof body - length, ",\"zz%d\":1", i);
  (void)snprintf(body + length, sizeof body - length, "}");
  problem = refusal(body);
  ck_assert_uint_eq(json_array_size(doc_array(problem, "errors")), 64);
  ck_assert_msg(strstr(doc_text(problem, "detail"), "64") != NULL, "%s", doc_text(problem, "detail"));
}
END_TEST

START_TEST(pointers_are_escaped)
{
  (void)assert_fault(refusal(sample_sketch_with("\"a/b~c\":1")), "/a~1b~0c");
}
END_TEST

/* Texts that are no JSON at all, and the place of the first fault where it is beyond doubt. */
static const struct {
  const char *what, *text;
  int line; /* 0: not asserted */
} BROKEN[] = {
    {"syntax", "{\"workload\":\"w\",\n\"model\":\"m\",\n\"traffic\" 5}", 3},
    {"cut short", "{\"workload\":\"w\",\n", 0},
    {"no quotes", "{\n  workload: 1\n}", 2},
    {"duplicate key", "{\"workload\":\"a\",\n\"workload\":\"b\"}", 2},
    {"NaN", "{\"workload\":\"a\",\n\n\"seed\":NaN}", 3},
    {"Infinity", "{\"seed\":Infinity}", 1},
    {"bad UTF-8", "{\"workload\":\"\xff\xfe\"}", 1},
    {"lone surrogate", "{\"workload\":\"\\ud800\"}", 1},
    {"two documents", "{}{}", 0},
    {"comment", "{ // a\n}", 1},
};

START_TEST(broken_json_names_the_place)
{
  const json_t *problem = reply_assert_problem(web_post(&fitd, "/v1/evaluations", BROKEN[_i].text), 400);
  const char *all = doc_dump(problem);
  ck_assert_msg(strstr(all, "line") != NULL && strstr(all, "column") != NULL, "%s: %s", BROKEN[_i].what, all);
  if (BROKEN[_i].line > 0) {
    const char *plain = scratch_printf("line %d", BROKEN[_i].line),
               *member = scratch_printf("\"line\":%d", BROKEN[_i].line);
    ck_assert_msg(strstr(all, plain) != NULL || strstr(all, member) != NULL, "%s: %s", BROKEN[_i].what, all);
  }
}
END_TEST

START_TEST(empty_body_is_no_json)
{
  (void)reply_assert_problem(web_post(&fitd, "/v1/evaluations", ""), 400);
}
END_TEST

static const char *nested(int depth)
{
  char *text = scratch_alloc((size_t)(2 * depth) + 1);
  memset(text, '[', (size_t)depth);
  memset(text + depth, ']', (size_t)depth);
  return text;
}

START_TEST(depth_is_bounded_at_32)
{
  (void)reply_assert_problem(web_post(&fitd, "/v1/evaluations", nested(32)), 422);
  (void)reply_assert_problem(web_post(&fitd, "/v1/evaluations", nested(33)), 400);
  (void)reply_assert_problem(web_post(&fitd, "/v1/evaluations", nested(100000)), 400);
}
END_TEST

START_TEST(unknown_names_get_a_suggestion)
{
  assert_suggestion(refusal(sample_sketch(&(struct sample_sketch){.model = "llama-3.1-70"})), "/model",
                    "llama-3.1-70b");
  assert_suggestion(refusal(sample_sketch_with("\"profiles\":[\"l40s-48gb\",\"h100-sxm-80g\"]")), "/profiles/1",
                    "h100-sxm-80gb");
  assert_suggestion(refusal(sample_sketch_with("\"precision\":\"fp9\"")), "/precision", "fp8");
  assert_suggestion(refusal(sample_sketch_with("\"tragets\":{}")), "/tragets", "targets");
}
END_TEST

START_TEST(unknown_query_key_is_refused)
{
  const json_t *problem =
      reply_assert_problem(web_post(&fitd, "/v1/evaluations?sotre=false", sample_sketch_with(ONE_PROFILE)), 422);
  ck_assert_msg(strstr(doc_dump(problem), "sotre") != NULL && strstr(doc_dump(problem), "store") != NULL, "%s",
                doc_brief(problem));
}
END_TEST

START_TEST(bad_query_value_is_refused)
{
  static const char *const queries[] = {"store=perhaps", "depth=deep", "store=true&store=false"};
  for (size_t i = 0; i < 3; i++)
    (void)reply_assert_problem(
        web_post(&fitd, scratch_printf("/v1/evaluations?%s", queries[i]), sample_sketch_with(ONE_PROFILE)), 422);
}
END_TEST

static const char *traffic_sketch(const char *traffic)
{
  return scratch_printf("{\"workload\":\"w\",\"model\":\"llama-3.1-70b\"," ONE_PROFILE ",\"traffic\":{%s}}", traffic);
}

/* Traffic blocks with one thing wrong, and where. */
static const struct {
  const char *traffic, *pointer;
} BAD_TRAFFIC[] = {
    {"\"input_tokens\":0,\"output_tokens\":256,\"requests_per_s\":2", "/traffic/input_tokens"},
    {"\"input_tokens\":-1,\"output_tokens\":256,\"requests_per_s\":2", "/traffic/input_tokens"},
    {"\"input_tokens\":1000000000,\"output_tokens\":256,\"requests_per_s\":2", "/traffic/input_tokens"},
    {"\"input_tokens\":2048,\"output_tokens\":0,\"requests_per_s\":2", "/traffic/output_tokens"},
    {"\"input_tokens\":2048,\"output_tokens\":1000000000,\"requests_per_s\":2", "/traffic/output_tokens"},
    {"\"input_tokens\":2048,\"output_tokens\":null,\"requests_per_s\":2", "/traffic/output_tokens"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":0", "/traffic/requests_per_s"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":-2", "/traffic/requests_per_s"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":\"2\"", "/traffic/requests_per_s"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"concurrency\":0", "/traffic/concurrency"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"concurrency\":1.5", "/traffic/concurrency"},
    {"\"output_tokens\":256,\"requests_per_s\":2", "/traffic/input_tokens"},
    {"\"input_tokens\":{\"p50\":900,\"p99\":100},\"output_tokens\":256,\"requests_per_s\":2", "/traffic/input_tokens"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2,\"arrival\":\"posson\"", "/traffic/arrival"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2,\"hourly_shape\":[1,2,3]",
     "/traffic/hourly_shape"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2,\"shared_prefix_tokens\":4096",
     "/traffic/shared_prefix_tokens"},
    {"\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2,\"concurrency\":64", "/traffic"},
    {"\"input_tokens\":2048,\"output_tokens\":256", "/traffic"},
};

/* The fault is at the pointer or, for a conflict within an object, at one of its members. */
START_TEST(traffic_out_of_bounds)
{
  const json_t *problem = refusal(traffic_sketch(BAD_TRAFFIC[_i].traffic));
  const char *pointer = BAD_TRAFFIC[_i].pointer;
  const char *seen = doc_text(problem, "errors.0.pointer");
  ck_assert_msg(strncmp(seen, pointer, strlen(pointer)) == 0, "%s instead of %s: %s", seen, pointer,
                doc_brief(problem));
}
END_TEST

START_TEST(impossible_layout_is_named)
{
  /* 3 does not divide 64 attention heads. */
  const struct reply *reply = web_post(
      &fitd, "/v1/evaluations", sample_sketch_with(ONE_PROFILE ",\"serving\":{\"tensor_parallel\":3,\"replicas\":1}"));
  if (reply->status == 422) {
    const json_t *fault = assert_fault(reply_assert_problem(reply, 422), "/serving/tensor_parallel");
    ck_assert_ptr_nonnull(strstr(doc_text(fault, "detail"), "64"));
    return;
  }
  reply_assert_status(reply, 201);
  /* Not computed, and not a lost case either: another degree is a matter of configuration. */
  ck_assert_str_eq(doc_text(reply->json, "scorecards.0.verdict"), "fit_with_changes");
  ck_assert_str_eq(doc_text(reply->json, "scorecards.0.no_fit_reason"), "layout_impossible");
  ck_assert(doc_is_null(json_array_get(json_object_get(reply->json, "scorecards"), 0), "configuration"));
  ck_assert_str_eq(doc_text(reply->json, "scorecards.0.ways_out.0.pointer"), "/serving/tensor_parallel");
}
END_TEST

/* An unknown member in every object of the sketch. */
static const struct {
  const char *pointer, *more;
} UNKNOWN[] = {
    {"/zzz", "\"zzz\":1"},
    {"/precision/zzz", "\"precision\":{\"weights\":\"fp8\",\"zzz\":1}"},
    {"/adapters/zzz", "\"adapters\":{\"count\":4,\"rank\":16,\"zzz\":1}"},
    {"/targets/zzz", "\"targets\":{\"zzz\":1}"},
    {"/targets/ttft_ms/zzz", "\"targets\":{\"ttft_ms\":{\"p50\":300,\"zzz\":1}}"},
    {"/targets/itl_ms/zzz", "\"targets\":{\"itl_ms\":{\"p50\":30,\"zzz\":1}}"},
    {"/targets/e2e_ms/zzz", "\"targets\":{\"e2e_ms\":{\"p99\":9000,\"zzz\":1}}"},
    {"/targets/cost/zzz", "\"targets\":{\"cost\":{\"per_successful_request_usd\":1,\"zzz\":1}}"},
    {"/targets/quality/0/zzz", "\"targets\":{\"quality\":[{\"benchmark\":\"ifeval\",\"min\":0.8,\"zzz\":1}]}"},
    {"/success/zzz", "\"success\":{\"ttft_ms\":1000,\"zzz\":1}"},
    {"/constraints/zzz", "\"constraints\":{\"gpu_quota\":16,\"zzz\":1}"},
    {"/constraints/price/zzz", "\"constraints\":{\"price\":{\"cloud\":\"aws\",\"zzz\":1}}"},
    {"/constraints/prices/zzz", "\"constraints\":{\"prices\":{\"zzz\":1}}"},
    {"/constraints/managed_api/zzz", "\"constraints\":{\"managed_api\":{\"usd_per_million_input_tokens\":0.6,"
                                     "\"usd_per_million_output_tokens\":2.4,\"zzz\":1}}"},
    {"/serving/zzz", "\"serving\":{\"zzz\":1}"},
    {"/serving/speculative/zzz",
     "\"serving\":{\"speculative\":{\"draft_tokens\":4,\"acceptance_rate\":0.7,\"zzz\":1}}"},
    {"/serving/disaggregated/zzz",
     "\"serving\":{\"disaggregated\":{\"prefill_replicas\":1,\"decode_replicas\":1,\"zzz\":1}}"},
    {"/operations/zzz", "\"operations\":{\"restarts_per_day\":2,\"zzz\":1}"},
    {"/stack/zzz", "\"stack\":{\"driver\":\"550\",\"zzz\":1}"},
    {"/context/zzz", "\"context\":{\"commit\":\"abc\",\"zzz\":1}"},
};

START_TEST(unknown_member_of_any_object)
{
  (void)assert_fault(refusal(sample_sketch_with(UNKNOWN[_i].more)), UNKNOWN[_i].pointer);
}
END_TEST

static const struct {
  const char *pointer, *traffic;
} UNKNOWN_TRAFFIC[] = {
    {"/traffic/zzz", "\"input_tokens\":1,\"output_tokens\":1,\"requests_per_s\":1,\"zzz\":1"},
    {"/traffic/input_tokens/zzz", "\"input_tokens\":{\"p50\":1,\"zzz\":1},\"output_tokens\":1,\"requests_per_s\":1"},
    {"/traffic/output_tokens/zzz", "\"input_tokens\":1,\"output_tokens\":{\"p50\":1,\"zzz\":1},\"requests_per_s\":1"},
    {"/traffic/burst/zzz", "\"input_tokens\":1,\"output_tokens\":1,\"requests_per_s\":1,\"arrival\":\"spiky\","
                           "\"burst\":{\"peak_to_mean\":4,\"duration_s\":30,\"zzz\":1}"},
    {"/traffic/client/zzz",
     "\"input_tokens\":1,\"output_tokens\":1,\"requests_per_s\":1,\"client\":{\"timeout_ms\":1000,\"zzz\":1}"},
};

START_TEST(unknown_member_of_traffic)
{
  (void)assert_fault(refusal(traffic_sketch(UNKNOWN_TRAFFIC[_i].traffic)), UNKNOWN_TRAFFIC[_i].pointer);
}
END_TEST

/* The wrong JSON type wherever an object or array is expected: never a crash, always a 422 at the place. */
START_TEST(wrong_types_are_named)
{
  static const char *const members[] = {"precision",  "adapters", "targets", "success", "constraints", "serving",
                                        "operations", "profiles", "seed",    "context", "hardware"};
  static const char *const values[] = {"true", "[[1]]", "{\"a\":{}}", "-1e300", "null"};
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
    for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
      const struct reply *reply =
          web_post(&fitd, "/v1/evaluations", sample_sketch_with(scratch_printf("\"%s\":%s", members[i], values[j])));
      ck_assert_msg(reply->status == 422, "\"%s\":%s → %ld %.300s", members[i], values[j], reply->status, reply->body);
      ck_assert_ptr_nonnull(strstr(reply->body, members[i]));
    }
}
END_TEST

START_TEST(body_that_is_no_object)
{
  static const char *const bodies[] = {"[]", "\"text\"", "5", "null", "true"};
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
    const struct reply *reply = web_post(&fitd, "/v1/evaluations", bodies[i]);
    ck_assert_msg(reply->status == 422 || reply->status == 400, "%s → %ld", bodies[i], reply->status);
    (void)reply_assert_problem(reply, reply->status);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("errors");
  TCase *tcase = suite_case(suite, "errors", setup, teardown);
  tcase_add_test(tcase, five_faults_in_one_answer);
  tcase_add_test(tcase, missing_members_are_named);
  tcase_add_test(tcase, more_than_64_faults_say_so);
  tcase_add_test(tcase, pointers_are_escaped);
  tcase_add_loop_test(tcase, broken_json_names_the_place, 0, (int)(sizeof BROKEN / sizeof BROKEN[0]));
  tcase_add_test(tcase, empty_body_is_no_json);
  tcase_add_test(tcase, depth_is_bounded_at_32);
  tcase_add_test(tcase, unknown_names_get_a_suggestion);
  tcase_add_test(tcase, unknown_query_key_is_refused);
  tcase_add_test(tcase, bad_query_value_is_refused);
  tcase_add_loop_test(tcase, traffic_out_of_bounds, 0, (int)(sizeof BAD_TRAFFIC / sizeof BAD_TRAFFIC[0]));
  tcase_add_test(tcase, impossible_layout_is_named);
  tcase_add_loop_test(tcase, unknown_member_of_any_object, 0, (int)(sizeof UNKNOWN / sizeof UNKNOWN[0]));
  tcase_add_loop_test(tcase, unknown_member_of_traffic, 0, (int)(sizeof UNKNOWN_TRAFFIC / sizeof UNKNOWN_TRAFFIC[0]));
  tcase_add_test(tcase, wrong_types_are_named);
  tcase_add_test(tcase, body_that_is_no_object);
  return suite_run(suite);
}
