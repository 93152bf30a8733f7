/* What an agreement or a measurement must not say: each body is one that is taken, with one thing wrong in it, and the answer
   names the place. Bodies begin as the one of their kind; the members given here take the place of its own. */
#include "tests/lib/doc.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <string.h>

static struct fake fake; /* it is Monday, 2026-11-30, noon */

#define SKETCH                                                                                                         \
  "{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":500,\"output_tokens\":50,"          \
  "\"requests_per_s\":1},\"profiles\":[\"h100-sxm-80gb\"]}"
#define SIGNED "\"signed_off\":[{\"by\":\"ana\",\"at\":\"2026-11-30\",\"rationale\":\"sold so\",\"team\":\"apps\"}]"

static const struct kind {
  const char *method, *path, *body;
} evaluation = {"POST", "/v1/evaluations?store=false&depth=quick", SKETCH},
  gate = {"PUT", "/v1/gates/g", "{\"workload\":\"chat\",\"targets\":{\"ttft_ms\":{\"p50\":5000}}," SIGNED "}"},
  check = {"POST", "/v1/gates/release/checks", "{\"sketch\":" SKETCH "}"},
  waiver = {"POST", "/v1/gates/release/waivers",
            "{\"metric\":\"latency.ttft_ms.p50\",\"by\":\"ana\",\"rationale\":\"r\",\"expires_at\":\"2026-12-31\"}"},
  knob = {"PUT", "/v1/knobs/chat/k",
          "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"owner\":\"ana\",\"rollback_plan\":"
          "\"back\",\"value\":64,\"safe_range\":[16,128]}"},
  decision = {"POST", "/v1/decisions",
              "{\"date\":\"2026-11-30\",\"workload\":\"chat\",\"knob\":\"batch\",\"from\":64,\"to\":32,\"rationale\":"
              "\"r\",\"owner\":\"ana\",\"rollback_plan\":\"back\"}"},
  stack = {"PUT", "/v1/stacks/s", "{\"driver\":\"570\"}"},
  node = {"PUT", "/v1/nodes/n", "{\"url\":\"http://10.0.0.1/metrics\",\"profile\":\"h100-sxm-80gb\"}"},
  measurement = {"POST", "/v1/measurements",
                 "{\"sketch\":" SKETCH ",\"profile\":\"h100-sxm-80gb\",\"source\":\"lab\",\"measured\":"
                 "{\"latency.ttft_ms.p50\":50}}"},
  quality = {"POST", "/v1/quality-results",
             "{\"model\":\"llama-3.1-8b\",\"precision\":\"fp8\",\"benchmark\":\"ifeval\",\"score\":0.8,\"source\":"
             "\"lab\"}"},
  review = {"POST", "/v1/reviews", "{\"week\":\"2026-W48\"}"},
  item = {"POST", "/v1/reviews/2026-W49/items", "{\"title\":\"t\"}"};

static const struct refusal {
  const struct kind *kind;
  const char *members, *pointer, *suggestion;
} refusals[] = {
    {&evaluation, "\"context\":{\"foo\":\"x\"}", "/context/foo", NULL},
    {&evaluation, "\"context\":{\"comit\":\"x\"}", "/context/comit", "commit"},
    {&evaluation, "\"context\":{\"ref\":5}", "/context/ref", NULL},
    {&evaluation, "\"context\":{\"ref\":\"a\\u0007\"}", "/context/ref", NULL},
    {&evaluation, "\"targets\":{\"ttft_ms\":{}}", "/targets/ttft_ms", NULL},
    {&evaluation, "\"targets\":{\"cost\":{}}", "/targets/cost", NULL},
    {&evaluation, "\"success\":{}", "/success", NULL},
    {&evaluation, "\"targets\":{\"quality\":[{\"benchmark\":\"b\",\"min\":81}]}", "/targets/quality/0/min", NULL},
    {&evaluation, "\"targets\":{\"quality\":[{\"benchmark\":\"b\",\"min\":-0.1}]}", "/targets/quality/0/min", NULL},
    {&evaluation, "\"description\":5", "/description", NULL},
    {&evaluation, "\"$schema\":{}", "/$schema", NULL},
    {&gate, "\"profiles\":[\"l40s-48gb\",\"l40s-48gb\"]", "/profiles/1", NULL},
    {&gate, "\"require_stack\":\"pined\"", "/require_stack", "pinned"},
    {&gate, "\"require_stack\":{\"foo\":\"1\"}", "/require_stack/foo", NULL},
    {&gate, "\"require_stack\":{}", "/require_stack", NULL},
    {&gate, "\"require_stack\":\"\"", "/require_stack", NULL},
    {&gate, "\"signed_off\":[{\"by\":\"ana\",\"at\":\"2026-12-02\"}]", "/signed_off/0/at", NULL},
    {&gate, "\"signed_off\":[{\"by\":\"ana\",\"at\":\"0206-11-30\"}]", "/signed_off/0/at", NULL},
    {&gate, "\"signed_off\":[{\"by\":\" \",\"at\":\"2026-11-30\"}]", "/signed_off/0/by", NULL},
    {&gate, "\"expires_at\":\"1999-12-31\"", "/expires_at", NULL},
    {&gate, "\"name\":\"another\"", "/name", "g"},
    {&check, "\"measured\":{}", "/measured", NULL},
    {&check, "\"measured\":{\"success.rate\":1.5}", "/measured/success.rate", NULL},
    {&check, "\"measured\":{\"latency.itl_ms.p50\":9,\"latency.itl_ms.p99\":8}", "/measured/latency.itl_ms.p99", NULL},
    {&waiver, "\"by\":\"  \"", "/by", NULL},
    {&waiver, "\"by\":\"an\\u202eimda\"", "/by", NULL}, /* reads as another name */
    {&waiver, "\"rationale\":\"\\n\"", "/rationale", NULL},
    {&knob, "\"owner\":\" \"", "/owner", NULL},
    {&decision, "\"date\":\"0000-01-01\"", "/date", NULL},
    {&decision, "\"review\":\"soon\"", "/review", NULL},
    {&decision, "\"review\":\"2026-W54\"", "/review", NULL}, /* 2026 has 53 weeks */
    {&decision, "\"stack\":5", "/stack", NULL},
    {&decision, "\"stack\":\"pined\"", "/stack", "pinned"},
    {&decision, "\"stack\":{\"drivr\":\"570\"}", "/stack/drivr", "driver"},
    {&stack, "\"driver\":\" \"", "/driver", NULL},
    {&stack, "\"description\":[]", "/description", NULL},
    {&node, "\"workload\":\"chta\"", "/workload", "chat"},
    {&node, "\"bearer_token\":\"gr\\u00fcn\"", "/bearer_token", NULL},
    {&measurement, "\"measured\":{\"latency.ttft_ms.p50\":500,\"latency.ttft_ms.p99\":50}",
     "/measured/latency.ttft_ms.p99", NULL},
    {&measurement, "\"measured\":{\"latency.ttft_ms.p90\":500,\"latency.ttft_ms.p99\":50}",
     "/measured/latency.ttft_ms.p99", NULL},
    {&measurement, "\"measured\":{\"latency.ttft_ms.p50\":500,\"latency.e2e_ms.p50\":50}",
     "/measured/latency.e2e_ms.p50", NULL},
    {&measurement, "\"measured\":{\"success.rate\":99}", "/measured/success.rate", NULL},
    {&measurement, "\"source\":\" \"", "/source", NULL},
    {&quality, "\"score\":-1", "/score", NULL},
    {&quality, "\"score\":101", "/score", NULL},
    {&quality, "\"score\":1.0001", "/score", NULL},
    {&review, "\"workloads\":[]", "/workloads", NULL},
    {&review, "\"workloads\":[\"chat\",\"chat\"]", "/workloads/1", NULL},
    {&review, "\"workloads\":[\"chta\"]", "/workloads/0", "chat"},
    {&review, "\"workloads\":[5]", "/workloads/0", NULL},
    {&review, "\"week\":\"0206-W01\"", "/week", "2026-W49"},
    {&item, "\"workload\":\"nothing\"", "/workload", NULL},
    {&item, "\"title\":\" \"", "/title", NULL},
    {&item, "\"due\":\"0206-12-01\"", "/due", NULL},
};

static void setup(void)
{
  fake_open(&fake, suite_dir());
  (void)fake_json(&fake, "PUT", "/v1/stacks/pinned", "{\"driver\":\"570\"}", 201);
  (void)fake_json(&fake, "PUT", "/v1/workloads/chat", "{\"sketch\":" SKETCH ",\"owner\":\"ana\"}", 201);
  (void)fake_json(&fake, "PUT", "/v1/gates/release", gate.body, 201);
  (void)fake_json(&fake, "POST", "/v1/reviews", "{\"week\":\"2026-W49\"}", 201);
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

static void send(const struct kind *kind, const char *members, unsigned status)
{
  json_t *body = doc_parse(kind->body);
  ck_assert_int_eq(json_object_update(body, doc_parse(scratch_printf("{%s}", members))), 0);
  (void)fake_json(&fake, kind->method, kind->path, doc_dump(body), status);
}

START_TEST(one_thing_is_wrong)
{
  const struct refusal *refusal = &refusals[_i];
  json_t *body = doc_parse(refusal->kind->body);
  const json_t *problem, *fault;
  ck_assert_int_eq(json_object_update(body, doc_parse(scratch_printf("{%s}", refusal->members))), 0);
  problem = fake_json(&fake, refusal->kind->method, refusal->kind->path, doc_dump(body), 422);
  fault = doc_fault(problem, refusal->pointer);
  ck_assert_msg(fault != NULL && json_array_size(json_object_get(problem, "errors")) == 1, "%s: %s", refusal->members,
                doc_dump(problem));
  if (refusal->suggestion != NULL)
    ck_assert_str_eq(doc_text(fault, "suggestion"), refusal->suggestion);
  else
    ck_assert(json_object_get(fault, "suggestion") == NULL);
}
END_TEST

/* The bodies themselves, and what lies just within. */
START_TEST(nothing_is_wrong)
{
  send(&evaluation, "\"context\":{\"commit\":\"a\",\"ref\":\"b\",\"url\":\"c\",\"description\":\"d\"}", 200);
  send(&evaluation, "\"targets\":{\"quality\":[{\"benchmark\":\"b\",\"min\":1}]},\"description\":\"\"", 200);
  send(&gate, "\"require_stack\":\"pinned\",\"name\":\"g\",\"expires_at\":\"2000-01-01\"", 201);
  send(&gate, "\"require_stack\":{\"driver\":\"570\"}", 200);
  send(&check, "\"measured\":{\"latency.itl_ms.p50\":8,\"latency.itl_ms.p99\":8,\"success.rate\":0}", 201);
  send(&waiver, "\"by\":\"\\u00c5sa \\ud83d\\ude00\"", 201);
  send(&knob, "\"description\":\"why\"", 201);
  send(&decision, "\"review\":\"2026-W53\",\"stack\":\"pinned\"", 201);
  send(&decision, "\"stack\":{\"driver\":\"571\"}", 201);
  send(&stack, "\"description\":null", 201);
  send(&node, "\"workload\":\"chat\",\"bearer_token\":\"aZ09-._~+/==\"", 201);
  send(&node, "\"workload\":\"search\"", 200); /* may be registered later */
  send(&node, "\"workload\":\"chat-eu\"", 200);
  send(&measurement, "\"measured\":{\"latency.ttft_ms.p50\":50,\"latency.ttft_ms.p99\":50,\"success.rate\":1}", 201);
  send(&quality, "\"score\":0", 201);
  send(&quality, "\"score\":1", 201);
  send(&review, "\"workloads\":[\"chat\"]", 201);
  send(&item, "\"workload\":\"chat\"", 201);
}
END_TEST

static void refuse_metric(const char *query, const char *suggestion)
{
  const json_t *problem = fake_json(&fake, "GET", scratch_printf("/v1/series?%s", query), NULL, 422);
  const json_t *fault = doc_fault(problem, "?metric");
  ck_assert_msg(fault != NULL, "%s", doc_dump(problem));
  if (suggestion != NULL)
    ck_assert_str_eq(doc_text(fault, "suggestion"), suggestion);
}

static void assert_known(const json_t *value, const char *path)
{
  const char *key;
  json_t *iterable, *member;
  memcpy(&iterable, &value, sizeof iterable);
  if (json_is_number(value) && strchr(path, '.') != NULL)
    (void)fake_json(&fake, "GET", scratch_printf("/v1/series?metric=%s", path), NULL, 200);
  json_object_foreach(iterable, key, member)
  {
    if (strcmp(key, "way_out") != 0) /* a change, as those in the lists of advice and ways out */
      assert_known(member, path[0] != '\0' ? scratch_printf("%s.%s", path, key) : key);
  }
}

/* Every number that a scorecard has can be asked for, and nothing else. */
START_TEST(series_know_the_figures)
{
  const json_t *document = fake_json(&fake, "POST", "/v1/evaluations?depth=full", SKETCH, 201);
  refuse_metric("metric=nope", NULL);
  refuse_metric("metric=cost", NULL);
  refuse_metric("metric=latency.ttft_ms.p98", "latency.ttft_ms.p90");
  refuse_metric("metric=latency.ttft_ms.p50&metric=cost.monthly_us", "cost.monthly_usd");
  refuse_metric("metric=memory.kv_cache_gib&source=observed", NULL);
  (void)fake_json(&fake, "GET", "/v1/series?metric=latency.ttft_ms.p50&source=observed", NULL, 200);
  assert_known(doc_at(document, "scorecards.0"), "");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("refusals");
  TCase *tcase = tcase_create("refusals");
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, one_thing_is_wrong, 0, (int)(sizeof refusals / sizeof refusals[0]));
  tcase_add_test(tcase, nothing_is_wrong);
  tcase_add_test(tcase, series_know_the_figures);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
