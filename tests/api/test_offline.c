/* `fitd evaluate` without a server: the built-in catalogue, the same documents, problems for bad input. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "tests/lib/suite.h"

static int64_t fixed_time(void *cls)
{
  (void)cls;
  return 1796040000123;
}

static void fill(void *cls, void *to, size_t count)
{
  (void)cls;
  memset(to, 0x5a, count);
}

static const struct api_deps deps = {.now_ms = fixed_time, .random_bytes = fill, .arena_bytes = (size_t)1 << 24};

/* Runs and parses what comes back; NULL when nothing does. */
static json_t *evaluate(enum err *rc, bool *fits, const char *body, const char *depth, const char *label)
{
  struct error e = {.code = ERR_OK};
  char *text = NULL;
  json_t *document = NULL;
  *rc = api_evaluate_offline(&text, fits, body, strlen(body), depth, label, &deps, &e);
  if (text != NULL)
    document = json_loads(text, 0, NULL);
  free(text);
  return document;
}

static const char *first_pointer(const json_t *problem)
{
  return json_string_value(json_object_get(json_array_get(json_object_get(problem, "errors"), 0), "pointer"));
}

#define BODY(profile, tp)                                                                                              \
  "{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"profiles\":[\"" profile                                         \
  "\"],\"serving\":{\"tensor_parallel\":" tp ",\"pipeline_parallel\":1,\"replicas\":1},"                               \
  "\"traffic\":{\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":1}}"

START_TEST(a_sound_sketch_is_evaluated)
{
  enum err rc;
  bool fits = false;
  json_t *document = evaluate(&rc, &fits, BODY("h100-sxm-80gb", "1"), "quick", "mine");
  const json_t *card = json_array_get(json_object_get(document, "scorecards"), 0);
  ck_assert_int_eq((int)rc, ERR_OK);
  ck_assert(fits);
  ck_assert_str_eq(json_string_value(json_object_get(card, "verdict")), "fit");
  ck_assert_str_eq(json_string_value(json_object_get(card, "label")), "mine");
  ck_assert_str_eq(json_string_value(json_object_get(document, "created_at")), "2026-11-30T12:00:00.123Z");
  json_decref(document);
}
END_TEST

/* 16.06 GB of bf16 weights do not fit the 16 GiB of a T4 beside its activations. */
START_TEST(no_fit_is_an_answer)
{
  enum err rc;
  bool fits = true;
  json_t *document = evaluate(&rc, &fits, BODY("t4-16gb", "1"), NULL, NULL);
  ck_assert_int_eq((int)rc, ERR_OK);
  ck_assert(!fits);
  ck_assert_uint_eq(json_array_size(json_object_get(document, "scorecards")), 1);
  json_decref(document);
}
END_TEST

static const struct {
  const char *body, *depth, *pointer; /* NULL = no errors[]: a 400 */
} refused[] = {
    {"{", NULL, NULL},
    {"", NULL, NULL},
    {"{\"a\":1,\"a\":2}", NULL, NULL},
    {BODY("h100-sxm-80g", "1"), NULL, "/profiles/0"},
    {BODY("h100-sxm-80gb", "0"), NULL, "/serving/tensor_parallel"},
    {BODY("h100-sxm-80gb", "1"), "deep", "?depth"},
    {"{\"workload\":\"w\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"trace\":\"t\"}}", NULL, "/traffic/trace"},
};

START_TEST(bad_input_comes_back_as_a_problem)
{
  enum err rc;
  bool fits = true;
  json_t *problem = evaluate(&rc, &fits, refused[_i].body, refused[_i].depth, NULL);
  ck_assert_int_eq((int)rc, ERR_INVALID);
  ck_assert(!fits);
  ck_assert_int_eq((int)json_integer_value(json_object_get(problem, "status")),
                   refused[_i].pointer != NULL ? 422 : 400);
  if (refused[_i].pointer != NULL)
    ck_assert_str_eq(first_pointer(problem), refused[_i].pointer);
  else
    ck_assert_ptr_null(json_object_get(problem, "errors"));
  json_decref(problem);
}
END_TEST

static Suite *offline_suite(void)
{
  Suite *suite = suite_create("offline");
  TCase *tcase = tcase_create("offline");
  tcase_add_test(tcase, a_sound_sketch_is_evaluated);
  tcase_add_test(tcase, no_fit_is_an_answer);
  tcase_add_loop_test(tcase, bad_input_comes_back_as_a_problem, 0, (int)(sizeof refused / sizeof refused[0]));
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return suite_run(offline_suite());
}
