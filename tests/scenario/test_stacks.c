/* Named stacks and what the daemon does with official sketches by itself. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static const char *const one_profile = "\"profiles\":[\"h100-sxm-80gb\"]";

static size_t count(const char *path)
{
  return json_array_size(doc_array(web_get_ok(&fitd, path), "items"));
}

START_TEST(stack_is_revised_and_named)
{
  const json_t *card;
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"driver\":\"570\",\"runtime\":\"vllm 0.10\"}", 201);
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"driver\":\"570\",\"runtime\":\"vllm 0.10\"}", 200);
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, "/v1/stacks/prod"), "revision"), 1);
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"driver\":\"575\",\"runtime\":\"vllm 0.10\"}", 200);
  ck_assert_str_eq(doc_text(web_get_ok(&fitd, "/v1/stacks/prod/revisions/1"), "driver"), "570");
  ck_assert_uint_eq(count("/v1/stacks/prod/revisions"), 2);
  card = sample_scorecard(&fitd, sample_sketch_with(scratch_printf("\"stack\":\"prod\",%s", one_profile)));
  ck_assert_str_eq(doc_text(card, "stack.name"), "prod");
  ck_assert_int_eq(doc_integer(card, "stack.revision"), 2);
  ck_assert_str_eq(doc_text(card, "stack.driver"), "575");
  (void)sample_scorecard(&fitd, sample_sketch_with(one_profile));
  ck_assert_uint_eq(count("/v1/scorecards?stack=prod"), 1);
  ck_assert_uint_eq(count("/v1/scorecards?stack=other"), 0);
}
END_TEST

START_TEST(unknown_stack_is_refused_with_the_nearest)
{
  const json_t *problem;
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"driver\":\"570\"}", 201);
  problem = reply_assert_problem(
      web_post(&fitd, "/v1/evaluations", sample_sketch_with(scratch_printf("\"stack\":\"prd\",%s", one_profile))), 422);
  ck_assert_str_eq(doc_text(doc_fault(problem, "/stack"), "suggestion"), "prod");
}
END_TEST

START_TEST(faults_of_a_stack)
{
  const json_t *problem = reply_assert_problem(web_put(&fitd, "/v1/stacks/prod", "{\"drivr\":\"570\"}"), 422);
  ck_assert_str_eq(doc_text(doc_fault(problem, "/drivr"), "suggestion"), "driver");
  problem = reply_assert_problem(web_put(&fitd, "/v1/stacks/prod", "{}"), 422);
  ck_assert_ptr_nonnull(doc_fault(problem, ""));
  (void)reply_assert_problem(web_put(&fitd, "/v1/stacks/prod", "{\"driver\":570}"), 422);
  (void)reply_assert_problem(web_get(&fitd, "/v1/stacks/none"), 404);
}
END_TEST

START_TEST(stack_stays_while_history_refers_to_it)
{
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"driver\":\"570\"}", 201);
  (void)web_put_status(&fitd, "/v1/stacks/idle", "{\"driver\":\"570\"}", 201);
  (void)sample_scorecard(&fitd, sample_sketch_with(scratch_printf("\"stack\":\"prod\",%s", one_profile)));
  (void)reply_assert_problem(web_delete(&fitd, "/v1/stacks/prod"), 409);
  reply_assert_status(web_delete(&fitd, "/v1/stacks/idle"), 204);
  ck_assert_uint_eq(count("/v1/stacks"), 1);
}
END_TEST

/* ---- Official sketches ---- */

static void put_workload(const char *sketch, const char *reevaluate)
{
  const struct reply *reply = web_put(
      &fitd, "/v1/workloads/support-chat",
      scratch_printf("{\"sketch\":%s,\"owner\":\"ana\",\"team\":\"chat\",\"reevaluate\":\"%s\"}", sketch, reevaluate));
  ck_assert_msg(reply->status == 200 || reply->status == 201, "%ld: %.300s", reply->status, reply->body);
}

static void wait_for_evaluations(size_t expected)
{
  const double until_s = suite_now_s() + 30;
  while (count("/v1/evaluations") < expected && suite_now_s() < until_s)
    suite_sleep_s(0.05);
  ck_assert_uint_eq(count("/v1/evaluations"), expected);
}

START_TEST(official_sketch_is_evaluated_when_put)
{
  const char *first = sample_sketch_with(one_profile);
  const char *second = sample_sketch_with(scratch_printf("%s,\"precision\":\"fp8\"", one_profile));
  put_workload(first, "never");
  wait_for_evaluations(1);
  put_workload(first, "daily"); /* a new revision, which nothing was evaluated for */
  wait_for_evaluations(2);
  put_workload(second, "daily");
  wait_for_evaluations(3);
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL); /* a restart forgets nothing and repeats nothing */
  suite_sleep_s(1.5);
  ck_assert_uint_eq(count("/v1/evaluations"), 3);
}
END_TEST

START_TEST(official_sketch_that_a_person_evaluated_is_not_due)
{
  const char *sketch = sample_sketch_with(one_profile);
  put_workload(sketch, "daily");
  wait_for_evaluations(1);
  (void)sample_evaluate(&fitd, sketch);
  suite_sleep_s(1.5);
  ck_assert_uint_eq(count("/v1/evaluations"), 2);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("scenario/stacks");
  TCase *tcase = suite_case(suite, "stacks", setup, teardown);
  tcase_add_test(tcase, stack_is_revised_and_named);
  tcase_add_test(tcase, unknown_stack_is_refused_with_the_nearest);
  tcase_add_test(tcase, faults_of_a_stack);
  tcase_add_test(tcase, stack_stays_while_history_refers_to_it);
  tcase_add_test(tcase, official_sketch_is_evaluated_when_put);
  tcase_add_test(tcase, official_sketch_that_a_person_evaluated_is_not_due);
  return suite_run(suite);
}
