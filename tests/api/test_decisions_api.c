/* Knobs and decisions through the api with a clock that the test moves: what is refused, what is in force on a day, how a
   decision ends, and what became of what it expected. */
#include "tests/lib/doc.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <string.h>

#define DAY_MS INT64_C(86400000)

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

static const char sketch_text[] =
    "{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"precision\":\"fp8\",\"traffic\":{\"input_tokens\":1024,"
    "\"output_tokens\":256,\"requests_per_s\":%s},\"serving\":{\"max_batch\":%d},\"profiles\":[\"h100-sxm-80gb\"]}";

static const char *sketch_of(const char *rate, int max_batch)
{
  return scratch_printf(sketch_text, rate, max_batch);
}

static void put_workload(int max_batch)
{
  const char *body = scratch_printf("{\"sketch\":%s,\"owner\":\"ana\"}", sketch_of("2.0", max_batch));
  const unsigned expected =
      fake_json(&fake, "GET", "/v1/workloads?limit=1", NULL, 200) != NULL &&
              json_array_size(doc_array(fake_json(&fake, "GET", "/v1/workloads", NULL, 200), "items")) > 0
          ? 200
          : 201;
  (void)fake_json(&fake, "PUT", "/v1/workloads/chat", body, expected);
}

static void put_knob(void)
{
  put_workload(64);
  (void)fake_json(&fake, "PUT", "/v1/knobs/chat/max-batch",
                  "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"owner\":\"ana\","
                  "\"rollback_plan\":\"set it back\",\"value\":64,\"safe_range\":{\"min\":16,\"max\":128}}",
                  201);
}

static const char *decide(const char *more)
{
  const char *body =
      scratch_printf("{\"workload\":\"chat\",\"knob\":\"max-batch\",\"rationale\":\"measured on Monday\",%s}", more);
  return doc_text(fake_json(&fake, "POST", "/v1/decisions", body, 201), "id");
}

static const json_t *decision(const char *id)
{
  return fake_json(&fake, "GET", scratch_printf("/v1/decisions/%s", id), NULL, 200);
}

static void assert_status(const char *id, const char *status)
{
  ck_assert_str_eq(doc_text(decision(id), "status"), status);
}

static const json_t *items(const char *query)
{
  return doc_array(fake_json(&fake, "GET", scratch_printf("/v1/decisions?%s", query), NULL, 200), "items");
}

START_TEST(knob_is_kept_and_replaced)
{
  json_t *knob;
  put_knob();
  knob = fake_json(&fake, "GET", "/v1/knobs/chat/max-batch", NULL, 200);
  ck_assert_int_eq(doc_integer(knob, "revision"), 1);
  ck_assert_int_eq(doc_integer(knob, "value"), 64);
  /* what GET gave may be sent back and changes nothing */
  ck_assert_int_eq(doc_integer(fake_json(&fake, "PUT", "/v1/knobs/chat/max-batch", doc_dump(knob), 200), "revision"),
                   1);
  ck_assert_int_eq(json_object_set_new(knob, "owner", json_string("ben")), 0);
  ck_assert_int_eq(doc_integer(fake_json(&fake, "PUT", "/v1/knobs/chat/max-batch", doc_dump(knob), 200), "revision"),
                   2);
  ck_assert_uint_eq(json_array_size(doc_array(fake_json(&fake, "GET", "/v1/knobs?workload=chat", NULL, 200), "items")),
                    1);
  ck_assert_uint_eq(json_array_size(doc_array(fake_json(&fake, "GET", "/v1/knobs/search", NULL, 200), "items")), 0);
  (void)fake_json(&fake, "DELETE", "/v1/knobs/chat/max-batch", NULL, 204);
  (void)fake_json(&fake, "GET", "/v1/knobs/chat/max-batch", NULL, 404);
}
END_TEST

START_TEST(pointer_and_value_are_those_of_a_sketch)
{
  const json_t *problem, *fault;
  put_workload(64);
  problem = fake_json(&fake, "PUT", "/v1/knobs/chat/b",
                      "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_bach\",\"value\":64}", 422);
  fault = doc_fault(problem, "/pointer");
  ck_assert_ptr_nonnull(fault);
  ck_assert_str_eq(doc_text(fault, "suggestion"), "max_batch");
  problem = fake_json(&fake, "PUT", "/v1/knobs/chat/b",
                      "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"value\":\"many\"}", 422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/value"));
  problem = fake_json(&fake, "PUT", "/v1/knobs/chat/b", "{\"kind\":\"batching\",\"pointer\":\"max_batch\"}", 422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/kind"));
  problem = fake_json(&fake, "PUT", "/v1/knobs/chat/b",
                      "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"value\":4,"
                      "\"safe_range\":[16,128]}",
                      422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/value"));
  problem = fake_json(&fake, "PUT", "/v1/knobs/chat/b",
                      "{\"kind\":\"architecture\",\"pointer\":\"/model/num_kv_heds\",\"value\":8}", 422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/pointer"));
  /* a value of the other kind of range, and a pointer whose field the sketch leaves open */
  (void)fake_json(&fake, "PUT", "/v1/knobs/chat/kv",
                  "{\"kind\":\"precision\",\"pointer\":\"/precision/kv_cache\",\"value\":\"fp8\","
                  "\"safe_range\":[\"fp8\",\"bf16\"]}",
                  201);
  /* a workload that is not registered has the fields of any sketch */
  (void)fake_json(&fake, "PUT", "/v1/knobs/other/tp",
                  "{\"kind\":\"parallelism\",\"pointer\":\"/serving/tensor_parallel\",\"value\":4}", 201);
}
END_TEST

START_TEST(owner_and_plan_come_from_the_knob)
{
  const json_t *made;
  put_knob();
  made = decision(decide("\"to\":96"));
  ck_assert_str_eq(doc_text(made, "owner"), "ana");
  ck_assert_str_eq(doc_text(made, "rollback_plan"), "set it back");
  ck_assert_int_eq(doc_integer(made, "from"), 64);
  ck_assert_str_eq(doc_text(made, "recorded_by"), "test");
  ck_assert_str_eq(doc_text(made, "outcome"), "unmeasured");
}
END_TEST

START_TEST(without_owner_or_plan_it_is_refused)
{
  const json_t *problem;
  put_knob();
  problem = fake_json(&fake, "POST", "/v1/decisions",
                      "{\"workload\":\"chat\",\"knob\":\"max-bach\",\"to\":96,\"rationale\":\"r\"}", 422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/owner"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/rollback_plan"));
  ck_assert_str_eq(doc_text(doc_fault(problem, "/knob"), "suggestion"), "max-batch");
  (void)fake_json(&fake, "POST", "/v1/decisions",
                  "{\"workload\":\"chat\",\"knob\":\"clock\",\"to\":96,\"rationale\":\"r\",\"owner\":\"ben\","
                  "\"rollback_plan\":\"undo\"}",
                  201);
}
END_TEST

START_TEST(unsafe_value_needs_approval)
{
  const json_t *problem;
  put_knob();
  problem = fake_json(&fake, "POST", "/v1/decisions",
                      "{\"workload\":\"chat\",\"knob\":\"max-batch\",\"to\":256,\"rationale\":\"r\"}", 422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/approved_by"));
  (void)decide("\"to\":256,\"approved_by\":\"cto\"");
}
END_TEST

START_TEST(faults_are_named_together)
{
  const json_t *problem;
  put_knob();
  problem =
      fake_json(&fake, "POST", "/v1/decisions",
                "{\"workload\":\"chat\",\"knob\":\"max-batch\",\"to\":96,\"date\":\"2027-06-01\",\"rationale\":\"r\","
                "\"before_scorecard\":\"none\",\"supersedes\":\"nobody\"}",
                422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/date"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/before_scorecard"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/supersedes"));
  problem = fake_json(&fake, "POST", "/v1/decisions", "{\"workload\":\"chat\",\"knob\":\"max-batch\",\"two\":1}", 422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/to"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/rationale"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/two"));
}
END_TEST

START_TEST(a_later_decision_supersedes)
{
  const char *first, *second;
  put_knob();
  first = decide("\"to\":96,\"date\":\"2026-10-05\"");
  assert_status(first, "in_force");
  second = decide("\"to\":80,\"date\":\"2026-11-02\"");
  assert_status(first, "superseded");
  ck_assert_str_eq(doc_text(decision(first), "ended_by"), second);
  assert_status(second, "in_force");
  ck_assert_int_eq(doc_integer(decision(second), "from"), 96);
  /* what was in force on a day, and why */
  ck_assert_uint_eq(json_array_size(items("as_of=2026-10-04")), 0);
  ck_assert_str_eq(doc_text(items("as_of=2026-10-05"), "0.id"), first);
  ck_assert_str_eq(doc_text(items("as_of=2026-11-01"), "0.id"), first);
  ck_assert_str_eq(doc_text(items("as_of=2026-11-01"), "0.status"), "in_force");
  ck_assert_str_eq(doc_text(items("as_of=2026-11-02"), "0.id"), second);
  ck_assert_uint_eq(json_array_size(items("as_of=2026-11-02")), 1);
  ck_assert_str_eq(doc_text(items("status=superseded"), "0.id"), first);
  ck_assert_uint_eq(json_array_size(items("since=2026-11-01")), 1);
  ck_assert_uint_eq(json_array_size(items("until=2026-11-01")), 1);
  ck_assert_uint_eq(json_array_size(items("workload=search")), 0);
}
END_TEST

START_TEST(a_decision_recorded_late_does_not_end_a_newer_one)
{
  const char *newer, *late;
  put_knob();
  newer = decide("\"to\":80,\"date\":\"2026-11-02\"");
  late = decide("\"to\":96,\"date\":\"2026-10-05\"");
  assert_status(newer, "in_force");
  assert_status(late, "superseded");
}
END_TEST

START_TEST(review_by_makes_it_due)
{
  const char *id;
  put_knob();
  id = decide("\"to\":96,\"review_by\":\"2026-12-10\"");
  assert_status(id, "in_force");
  fake.now_ms += 10 * DAY_MS; /* 12-10, noon: the day itself still counts */
  assert_status(id, "in_force");
  fake.now_ms += DAY_MS;
  assert_status(id, "due");
  ck_assert_uint_eq(json_array_size(items("status=due")), 1);
  ck_assert_uint_eq(json_array_size(items("status=in_force")), 0);
  ck_assert_uint_eq(json_array_size(items("as_of=2026-12-20")), 1); /* due, and in force */
}
END_TEST

START_TEST(revert_records_a_decision)
{
  const char *first, *undo_path;
  const json_t *undone;
  put_knob();
  first = decide("\"to\":96,\"date\":\"2026-11-30\"");
  undo_path = scratch_printf("/v1/decisions/%s/revert", first);
  (void)fake_json(&fake, "POST", undo_path, "{\"date\":\"2026-11-29\",\"rationale\":\"r\"}", 422);
  (void)fake_json(&fake, "POST", undo_path, "{}", 422);
  fake.now_ms += 60000;
  undone = fake_json(&fake, "POST", undo_path, "{\"date\":\"2026-11-30\",\"rationale\":\"p99 doubled\"}", 201);
  ck_assert_int_eq(doc_integer(undone, "from"), 96);
  ck_assert_int_eq(doc_integer(undone, "to"), 64);
  ck_assert_str_eq(doc_text(undone, "reverts"), first);
  ck_assert_str_eq(doc_text(undone, "supersedes"), first);
  ck_assert_str_eq(doc_text(undone, "status"), "in_force");
  assert_status(first, "reverted");
  (void)fake_json(&fake, "POST", undo_path, "{\"rationale\":\"again\"}", 409);
  (void)fake_json(&fake, "POST", "/v1/decisions/nobody/revert", "{\"rationale\":\"again\"}", 404);
}
END_TEST

START_TEST(superseding_twice_is_a_conflict)
{
  const char *first;
  put_knob();
  first = decide("\"to\":96");
  fake.now_ms += 60000;
  (void)decide(scratch_printf("\"to\":80,\"supersedes\":\"%s\"", first));
  fake.now_ms += 60000;
  (void)fake_json(&fake, "POST", "/v1/decisions",
                  scratch_printf("{\"workload\":\"chat\",\"knob\":\"max-batch\",\"to\":70,\"rationale\":\"r\","
                                 "\"supersedes\":\"%s\"}",
                                 first),
                  409);
}
END_TEST

START_TEST(decisions_are_not_changed)
{
  const char *id;
  put_knob();
  id = decide("\"to\":96");
  (void)fake_json(&fake, "PUT", scratch_printf("/v1/decisions/%s", id), "{}", 405);
  (void)fake_json(&fake, "DELETE", scratch_printf("/v1/decisions/%s", id), NULL, 405);
}
END_TEST

/* id of the scorecard of a sketch evaluated now. */
static const char *evaluate(const char *rate, int max_batch)
{
  fake.now_ms += 1000;
  return doc_text(fake_json(&fake, "POST", "/v1/evaluations", sketch_of(rate, max_batch), 201), "scorecards.0.id");
}

START_TEST(outcome_follows_the_official_sketch)
{
  const char *before, *after, *id;
  const json_t *made;
  put_knob();
  before = evaluate("2.0", 64);
  after = evaluate("8.0", 64); /* four times the requests on the same fleet: a quarter of the cost of each */
  id = decide(scratch_printf("\"to\":96,\"before_scorecard\":\"%s\",\"after_scorecard\":\"%s\"", before, after));
  made = decision(id);
  ck_assert_double_lt(
      doc_number(json_object_get(json_object_get(made, "expected_effect"), "cost.per_successful_request_usd"),
                 "relative"),
      -0.5);
  ck_assert_str_eq(doc_text(made, "outcome"), "unmeasured");
  /* an experiment is not the official sketch */
  (void)evaluate("8.0", 64);
  ck_assert_str_eq(doc_text(decision(id), "outcome"), "unmeasured");
  /* the official sketch, still at 2 requests/s: nothing came of it */
  (void)evaluate("2.0", 64);
  made = decision(id);
  ck_assert_str_eq(doc_text(made, "outcome"), "short");
  ck_assert_double_eq_tol(
      doc_number(json_object_get(json_object_get(made, "outcome_figures"), "cost.per_successful_request_usd"),
                 "actual_relative"),
      0, 1e-12);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("decisions_api");
  TCase *knobs = suite_case(suite, "knobs", setup, teardown),
        *decisions = suite_case(suite, "decisions", setup, teardown);
  tcase_add_test(knobs, knob_is_kept_and_replaced);
  tcase_add_test(knobs, pointer_and_value_are_those_of_a_sketch);
  tcase_add_test(decisions, owner_and_plan_come_from_the_knob);
  tcase_add_test(decisions, without_owner_or_plan_it_is_refused);
  tcase_add_test(decisions, unsafe_value_needs_approval);
  tcase_add_test(decisions, faults_are_named_together);
  tcase_add_test(decisions, a_later_decision_supersedes);
  tcase_add_test(decisions, a_decision_recorded_late_does_not_end_a_newer_one);
  tcase_add_test(decisions, review_by_makes_it_due);
  tcase_add_test(decisions, revert_records_a_decision);
  tcase_add_test(decisions, superseding_twice_is_a_conflict);
  tcase_add_test(decisions, decisions_are_not_changed);
  tcase_add_test(decisions, outcome_follows_the_official_sketch);
  return suite_run(suite);
}
