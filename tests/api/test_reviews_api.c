/* Weekly reviews through the api with a clock that the test moves: what goes on the agenda, how it is answered, who signs, and
   what is refused. Prices are set, so that what moved follows from arithmetic. */
#include "tests/lib/doc.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)
#define WEEK_MS (7 * DAY_MS)

static struct fake fake; /* begins on Monday, 2026-11-30, noon: 2026-W49 */

static void setup(void)
{
  fake_open(&fake, suite_dir());
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

static void put_workload(const char *name, double usd_per_hour, const char *more, unsigned status)
{
  const char *body = scratch_printf(
      "{\"sketch\":{\"workload\":\"%s\",\"model\":\"llama-3.1-8b\",\"precision\":\"fp8\",\"traffic\":{\"input_tokens\":"
      "1024,\"output_tokens\":256,\"requests_per_s\":2.0},\"constraints\":{\"prices\":{\"h100-sxm-80gb\":%.4f}},"
      "\"profiles\":[\"h100-sxm-80gb\"]%s},\"owner\":\"ana\",\"team\":\"chat\"}",
      name, usd_per_hour, more);
  (void)fake_json(&fake, "PUT", scratch_printf("/v1/workloads/%s", name), body, status);
}

static json_t *open_week(const char *week, unsigned status)
{
  return fake_json(&fake, "POST", "/v1/reviews", scratch_printf("{\"week\":\"%s\"}", week), status);
}

static json_t *sign(const char *week, const char *team, unsigned status)
{
  return fake_json(&fake, "POST", scratch_printf("/v1/reviews/%s/sign-off", week),
                   scratch_printf("{\"team\":\"%s\",\"by\":\"ben\",\"rationale\":\"looked at it\"}", team), status);
}

static json_t *answer(const char *week, const char *item, const char *body, unsigned status)
{
  return fake_json(&fake, "POST", scratch_printf("/v1/reviews/%s/items/%s", week, item), body, status);
}

static const json_t *item_of(const json_t *review, const char *kind)
{
  const json_t *items = doc_array(review, "items");
  for (size_t i = 0; i < json_array_size(items); i++)
    if (strcmp(doc_text(json_array_get(items, i), "kind"), kind) == 0)
      return json_array_get(items, i);
  return NULL;
}

/* Items beside the one that says that nothing was measured yet. */
static size_t count_items(const json_t *review)
{
  return json_array_size(doc_array(review, "items")) - (item_of(review, "measurement") != NULL ? 1 : 0);
}

/* A first review, signed, and the clock a week on. */
static void pass_first_week(void)
{
  (void)open_week("2026-W49", 201);
  ck_assert_str_eq(doc_text(sign("2026-W49", "platform", 200), "state"), "signed");
  fake.now_ms += WEEK_MS;
}

START_TEST(first_review_has_nothing_to_compare)
{
  const json_t *review;
  put_workload("chat", 2.0, "", 201);
  review = open_week("2026-W49", 201);
  ck_assert_str_eq(doc_text(review, "state"), "open");
  ck_assert(doc_is_null(review, "compared_with"));
  ck_assert_uint_eq(count_items(review), 0);
  ck_assert_ptr_nonnull(item_of(review, "measurement"));
  ck_assert_str_eq(doc_text(review, "workloads.0.workload"), "chat");
  ck_assert_str_eq(doc_text(review, "workloads.0.verdict"), "fit");
  (void)fake_json(&fake, "GET", scratch_printf("/v1/evaluations/%s", doc_text(review, "workloads.0.evaluation")), NULL,
                  200);
  (void)open_week("2026-W49", 409);
  (void)open_week("2026-W50", 422);
  (void)open_week("2025-W53", 422);
  (void)open_week("next", 422);
  ck_assert_str_eq(doc_text(fake_json(&fake, "GET", "/v1/reviews", NULL, 200), "items.0.week"), "2026-W49");
  (void)fake_json(&fake, "GET", "/v1/reviews/2026-W40", NULL, 404);
}
END_TEST

START_TEST(an_unchanged_week_moves_nothing)
{
  const json_t *review;
  put_workload("chat", 2.0, "", 201);
  pass_first_week();
  review = fake_json(&fake, "POST", "/v1/reviews", NULL, 201); /* this week */
  ck_assert_str_eq(doc_text(review, "week"), "2026-W50");
  ck_assert_str_eq(doc_text(review, "compared_with"), "2026-W49");
  ck_assert_uint_eq(count_items(review), 0);
  ck_assert_ptr_nonnull(item_of(review, "measurement"));
}
END_TEST

START_TEST(a_price_moves_the_cost_and_must_be_answered)
{
  const json_t *review, *moved;
  put_workload("chat", 2.0, "", 201);
  pass_first_week();
  put_workload("chat", 2.2, "", 200);
  review = open_week("2026-W50", 201);
  moved = item_of(review, "moved");
  ck_assert_ptr_nonnull(moved);
  ck_assert_str_eq(doc_text(moved, "profiles.0.figures.0.metric"), "cost.per_successful_request_usd");
  ck_assert_double_eq_tol(doc_number(moved, "profiles.0.figures.0.relative"), 0.1, 1e-6);
  ck_assert_str_eq(doc_text(moved, "inputs.0.input"), "sketch");
  ck_assert_str_eq(doc_text(moved, "inputs.0.where"), "/constraints/prices/h100-sxm-80gb");
  /* the price alone moved it, and by all of it: 2.0 to 2.2 USD an hour */
  ck_assert_double_eq_tol(doc_number(moved, "profiles.0.figures.0.change_by.price") /
                              doc_number(moved, "profiles.0.figures.0.before"),
                          0.1, 1e-6);
  ck_assert_uint_eq(json_object_size(doc_at(moved, "profiles.0.figures.0.change_by")), 1);
  (void)sign("2026-W50", "platform", 409);
  (void)answer("2026-W50", doc_text(moved, "id"), "{}", 422);
  (void)answer("2026-W50", doc_text(moved, "id"), "{\"action\":\"ask\"}", 422);
  (void)answer("2026-W50", doc_text(moved, "id"), "{\"action\":\"ask\",\"no_action_because\":\"x\"}", 422);
  (void)answer("2026-W50", doc_text(moved, "id"), "{\"decision\":\"nobody\"}", 422);
  (void)answer("2026-W50", "moved-nothing", "{\"no_action_because\":\"x\"}", 404);
  (void)answer("2026-W50", doc_text(moved, "id"), "{\"no_action_because\":\"the contract says so\"}", 200);
  ck_assert_str_eq(doc_text(sign("2026-W50", "platform", 200), "state"), "signed");
}
END_TEST

START_TEST(two_per_cent_are_not_a_move)
{
  put_workload("chat", 2.0, "", 201);
  pass_first_week();
  put_workload("chat", 2.038, "", 200);
  ck_assert_ptr_null(item_of(open_week("2026-W50", 201), "moved"));
}
END_TEST

START_TEST(an_item_keeps_its_id_and_its_answer)
{
  const char *id;
  const json_t *review;
  put_workload("chat", 2.0, "", 201);
  pass_first_week();
  put_workload("chat", 2.2, "", 200);
  id = doc_text(item_of(open_week("2026-W50", 201), "moved"), "id");
  (void)answer("2026-W50", id, "{\"no_action_because\":\"agreed\"}", 200);
  review = fake_json(&fake, "POST", "/v1/reviews/2026-W50/refresh", NULL, 200);
  ck_assert_str_eq(doc_text(item_of(review, "moved"), "id"), id);
  ck_assert_str_eq(doc_text(item_of(review, "moved"), "status"), "resolved");
  put_workload("chat", 2.4, "", 200); /* it moved further than what was agreed to */
  review = fake_json(&fake, "POST", "/v1/reviews/2026-W50/refresh", NULL, 200);
  ck_assert_str_eq(doc_text(item_of(review, "moved"), "id"), id);
  ck_assert_str_eq(doc_text(item_of(review, "moved"), "status"), "open");
}
END_TEST

START_TEST(a_signed_review_stands)
{
  json_t *before, *after;
  put_workload("chat", 2.0, "", 201);
  (void)open_week("2026-W49", 201);
  (void)fake_json(&fake, "POST", "/v1/reviews/2026-W49/addenda", "{\"text\":\"t\",\"by\":\"ana\"}", 409);
  (void)sign("2026-W49", "platform", 200);
  before = fake_json(&fake, "GET", "/v1/reviews/2026-W49", NULL, 200);
  (void)sign("2026-W49", "research", 409);
  (void)fake_json(&fake, "POST", "/v1/reviews/2026-W49/refresh", NULL, 409);
  (void)fake_json(&fake, "POST", "/v1/reviews/2026-W49/items", "{\"title\":\"late\"}", 409);
  (void)answer("2026-W49", "added-1", "{\"no_action_because\":\"x\"}", 409);
  after = fake_json(&fake, "GET", "/v1/reviews/2026-W49", NULL, 200);
  doc_assert_same(after, before);
  (void)fake_json(&fake, "POST", "/v1/reviews/2026-W49/addenda", "{\"text\":\"seen later\",\"by\":\"ana\"}", 201);
  after = fake_json(&fake, "GET", "/v1/reviews/2026-W49", NULL, 200);
  ck_assert_str_eq(doc_text(after, "addenda.0.text"), "seen later");
  ck_assert_int_eq(json_object_set(after, "addenda", doc_at(before, "addenda")), 0);
  doc_assert_same(after, before);
}
END_TEST

START_TEST(every_configured_team_signs)
{
  const json_t *problem;
  fake.review_teams = "platform, research";
  fake_reopen(&fake);
  put_workload("chat", 2.0, "", 201);
  (void)open_week("2026-W49", 201);
  problem = sign("2026-W49", "platfrom", 422);
  ck_assert_str_eq(doc_text(doc_fault(problem, "/team"), "suggestion"), "platform");
  ck_assert_str_eq(doc_text(sign("2026-W49", "platform", 200), "state"), "signing");
  (void)sign("2026-W49", "platform", 409);
  (void)fake_json(&fake, "POST", "/v1/reviews/2026-W49/items", "{\"title\":\"late\"}", 409);
  ck_assert_str_eq(doc_text(sign("2026-W49", "research", 200), "state"), "signed");
}
END_TEST

START_TEST(actions_are_carried_over_until_done)
{
  const json_t *carried;
  put_workload("chat", 2.0, "", 201);
  (void)open_week("2026-W49", 201);
  (void)fake_json(&fake, "POST", "/v1/reviews/2026-W49/items", "{\"title\":\"who pays?\",\"workload\":\"chat\"}", 201);
  (void)answer("2026-W49", "added-1", "{\"action\":\"ask finance\",\"owner\":\"ana\",\"due\":\"2026-12-10\"}", 200);
  (void)sign("2026-W49", "platform", 200);
  fake.now_ms += WEEK_MS; /* 12-07 */
  carried = item_of(open_week("2026-W50", 201), "action");
  ck_assert_str_eq(doc_text(carried, "action"), "ask finance");
  ck_assert_str_eq(doc_text(carried, "owner"), "ana");
  ck_assert(json_is_false(doc_at(carried, "overdue")));
  (void)sign("2026-W50", "platform", 200); /* left open */
  fake.now_ms += WEEK_MS;                  /* 12-14 */
  carried = item_of(open_week("2026-W51", 201), "action");
  ck_assert(json_is_true(doc_at(carried, "overdue")));
  (void)answer("2026-W51", doc_text(carried, "id"), "{\"no_action_because\":\"done: finance pays\"}", 200);
  (void)sign("2026-W51", "platform", 200);
  fake.now_ms += WEEK_MS;
  ck_assert_ptr_null(item_of(open_week("2026-W52", 201), "action"));
}
END_TEST

START_TEST(knobs_and_decisions_are_on_the_agenda)
{
  const json_t *review, *item;
  put_workload("chat", 2.0, ",\"serving\":{\"max_batch\":64}", 201);
  (void)fake_json(&fake, "PUT", "/v1/knobs/chat/max-batch",
                  "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"value\":64}", 201);
  review = open_week("2026-W49", 201);
  ck_assert_ptr_nonnull(item_of(review, "unowned_knob"));
  (void)fake_json(&fake, "PUT", "/v1/knobs/chat/max-batch",
                  "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"value\":64,\"owner\":\"ana\","
                  "\"rollback_plan\":\"set it back\"}",
                  200);
  put_workload("chat", 2.0, ",\"serving\":{\"max_batch\":48}", 200);
  review = fake_json(&fake, "POST", "/v1/reviews/2026-W49/refresh", NULL, 200);
  ck_assert_ptr_null(item_of(review, "unowned_knob"));
  item = item_of(review, "undecided_change");
  ck_assert_ptr_nonnull(item);
  item = answer("2026-W49", doc_text(item, "id"),
                "{\"decision\":{\"to\":48,\"rationale\":\"the KV pool is full at 64\",\"review_by\":\"2026-12-05\"}}",
                200);
  item = fake_json(&fake, "GET", scratch_printf("/v1/decisions/%s", doc_text(item, "resolution.decision")), NULL, 200);
  ck_assert_str_eq(doc_text(item, "review"), "2026-W49");
  ck_assert_str_eq(doc_text(item, "workload"), "chat");
  ck_assert_str_eq(doc_text(item, "knob"), "max-batch");
  (void)sign("2026-W49", "platform", 200);
  fake.now_ms += WEEK_MS;
  review = open_week("2026-W50", 201);
  ck_assert_ptr_null(item_of(review, "undecided_change"));
  ck_assert_str_eq(doc_text(item_of(review, "decision_due"), "decision"), doc_text(item, "id"));
}
END_TEST

START_TEST(failed_gates_and_changed_stacks_are_on_the_agenda)
{
  const json_t *review;
  put_workload("chat", 2.0, ",\"stack\":{\"driver\":\"560\"}", 201);
  pass_first_week();
  put_workload("chat", 2.0, ",\"stack\":{\"driver\":\"570\"}", 200);
  (void)fake_json(&fake, "PUT", "/v1/gates/release", "{\"workload\":\"chat\",\"targets\":{\"ttft_ms\":{\"p50\":1}}}",
                  201);
  (void)fake_json(&fake, "POST", "/v1/gates/release/checks",
                  "{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":100,"
                  "\"output_tokens\":10,\"requests_per_s\":1},\"profiles\":[\"h100-sxm-80gb\"]}",
                  201);
  review = open_week("2026-W50", 201);
  ck_assert_ptr_nonnull(strstr(doc_text(item_of(review, "gate_failure"), "title"), "1 of 1 checks did not pass"));
  ck_assert_str_eq(doc_text(item_of(review, "stack_change"), "after.driver"), "570");
}
END_TEST

static void put_trace(const char *name, int tokens, unsigned status)
{
  const char *body =
      scratch_printf("arrival_s,input_tokens,output_tokens\n0,%d,20\n1,%d,20\n2,%d,20\n", tokens, tokens, tokens);
  const struct fake_request request = {.method = "PUT",
                                       .path = scratch_printf("/v1/traces/%s", name),
                                       .headers = doc_parse("{\"Content-Type\":\"text/csv\"}"),
                                       .body = body,
                                       .body_len = strlen(body),
                                       .scope = SCOPE_ADMIN};
  struct api_response response;
  fake_send(&fake, &request, &response);
  ck_assert_msg(response.status == status, "%u: %.500s", response.status, response.bytes);
  api_response_fini(&response);
}

START_TEST(a_changed_trace_needs_a_reason)
{
  const char *body = "{\"sketch\":{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"trace\":\"monday\"},"
                     "\"profiles\":[\"h100-sxm-80gb\"]}}";
  const json_t *review;
  put_trace("monday", 100, 201);
  (void)fake_json(&fake, "PUT", "/v1/workloads/chat", body, 201);
  pass_first_week();
  put_trace("monday", 200, 200);
  (void)open_week("2026-W50", 409);
  review = fake_json(&fake, "POST", "/v1/reviews",
                     "{\"week\":\"2026-W50\",\"trace_change_reason\":\"the old one was of a demo\"}", 201);
  ck_assert_str_eq(doc_text(item_of(review, "trace_changed"), "reason"), "the old one was of a demo");
}
END_TEST

START_TEST(only_the_named_workloads)
{
  const json_t *review;
  put_workload("chat", 2.0, "", 201);
  put_workload("search", 2.0, "", 201);
  (void)fake_json(&fake, "POST", "/v1/reviews", "{\"workloads\":[\"chatt\"]}", 422);
  review = fake_json(&fake, "POST", "/v1/reviews", "{\"workloads\":[\"search\"]}", 201);
  ck_assert_uint_eq(json_array_size(doc_array(review, "workloads")), 1);
  ck_assert_str_eq(doc_text(review, "workloads.0.workload"), "search");
}
END_TEST

START_TEST(the_daemon_opens_it_at_its_hour)
{
  struct error e = {.code = ERR_OK};
  const json_t *review;
  put_workload("chat", 2.0, "", 201);
  ck_assert_int_eq(api_review_due(fake.api, 0, 13, &e), ERR_OK); /* it is Monday noon */
  (void)fake_json(&fake, "GET", "/v1/reviews/2026-W49", NULL, 404);
  fake.utc_offset_s = 3600;
  ck_assert_int_eq(api_review_due(fake.api, 0, 13, &e), ERR_OK);
  review = fake_json(&fake, "GET", "/v1/reviews/2026-W49", NULL, 200);
  ck_assert_str_eq(doc_text(review, "opened_by"), "schedule");
  ck_assert_int_eq(api_review_due(fake.api, 0, 13, &e), ERR_OK); /* once */
  fake.now_ms += 6 * DAY_MS + 11 * DAY_MS / 24 + DAY_MS / 48;    /* Sunday 23:30 UTC, Monday in the zone */
  ck_assert_int_eq(api_review_due(fake.api, 0, 0, &e), ERR_OK);
  (void)fake_json(&fake, "GET", "/v1/reviews/2026-W50", NULL, 200);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("reviews_api");
  TCase *tcase = suite_case(suite, "reviews", setup, teardown);
  tcase_add_test(tcase, first_review_has_nothing_to_compare);
  tcase_add_test(tcase, an_unchanged_week_moves_nothing);
  tcase_add_test(tcase, a_price_moves_the_cost_and_must_be_answered);
  tcase_add_test(tcase, two_per_cent_are_not_a_move);
  tcase_add_test(tcase, an_item_keeps_its_id_and_its_answer);
  tcase_add_test(tcase, a_signed_review_stands);
  tcase_add_test(tcase, every_configured_team_signs);
  tcase_add_test(tcase, actions_are_carried_over_until_done);
  tcase_add_test(tcase, knobs_and_decisions_are_on_the_agenda);
  tcase_add_test(tcase, failed_gates_and_changed_stacks_are_on_the_agenda);
  tcase_add_test(tcase, a_changed_trace_needs_a_reason);
  tcase_add_test(tcase, only_the_named_workloads);
  tcase_add_test(tcase, the_daemon_opens_it_at_its_hour);
  return suite_run(suite);
}
