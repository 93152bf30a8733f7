/* Profiles of one evaluation on several threads: the answer has the bytes of one thread. */
#include <stdlib.h>

#include "tests/api/live_fixtures.h"

/* Four profiles, one of which can not hold the model; `more`: further members. */
static const char *sketch(const char *more)
{
  return scratch_printf("{\"workload\": \"chat\", \"model\": \"llama-3.1-70b\", \"traffic\": {\"input_tokens\": 1024, "
                        "\"output_tokens\": 128, \"requests_per_s\": 2}%s}",
                        more);
}

#define NAMED ", \"profiles\": [\"h100-sxm-80gb\", \"t4-16gb\", \"l40s-48gb\", \"mi300x-192gb\"]"

/* Without what no two answers have in common. */
static const char *answer(unsigned threads, const char *query, const char *more, unsigned status)
{
  json_t *document, *card;
  char *text, *kept;
  size_t i;
  fake.threads = threads;
  document = ask("POST", "/v1/evaluations", query, sketch(more), status);
  json_object_del(document, "id");
  json_object_del(json_object_get(document, "recommendation"), "scorecard");
  json_object_del(json_object_get(json_object_get(document, "recommendation"), "runner_up"), "scorecard");
  json_array_foreach(json_object_get(document, "scorecards"), i, card)
  {
    json_object_del(card, "id");
    json_object_del(card, "evaluation");
  }
  text = json_dumps(document, JSON_COMPACT);
  kept = scratch_printf("%s", text);
  free(text);
  return kept;
}

static void assert_same(const char *query, const char *more, unsigned status)
{
  const char *alone = answer(0, query, more, status);
  ck_assert_uint_gt(strlen(alone), 200);
  for (unsigned threads = 1; threads <= 4; threads += 3)
    ck_assert_str_eq(answer(threads, query, more, status), alone);
}

START_TEST(quick_is_the_same)
{
  assert_same("store=false&depth=quick", "", 200);
}
END_TEST

/* All candidates quick, the best five again in full. */
START_TEST(the_default_depth_is_the_same)
{
  assert_same("store=false", "", 200);
}
END_TEST

START_TEST(full_is_the_same)
{
  assert_same("store=false", NAMED ", \"targets\": {\"ttft_ms\": {\"p99\": 900}}", 200);
}
END_TEST

/* The same fault, whichever thread meets it first: the core's, about pools. */
START_TEST(a_fault_is_the_same)
{
  assert_same("store=false",
              NAMED
              ", \"serving\": {\"replicas\": 3, \"disaggregated\": {\"prefill_replicas\": 1, \"decode_replicas\": 1}}",
              422);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("evaluation in parallel");
  TCase *tcase = suite_case(suite, "parallel", setup, teardown);
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, quick_is_the_same);
  tcase_add_test(tcase, the_default_depth_is_the_same);
  tcase_add_test(tcase, full_is_the_same);
  tcase_add_test(tcase, a_fault_is_the_same);
  return suite_run(suite);
}
