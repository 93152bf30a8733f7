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
static json_t *evaluate_asked(enum err *rc, bool *fits, const struct api_offline *asked)
{
  struct error e = {.code = ERR_OK};
  char *text = NULL;
  json_t *document = NULL;
  *rc = api_evaluate_offline(&text, fits, asked, &deps, &e);
  if (text != NULL)
    document = json_loads(text, 0, NULL);
  free(text);
  return document;
}

static json_t *evaluate(enum err *rc, bool *fits, const char *body, const char *depth, const char *label)
{
  const struct api_offline asked = {.body = body, .body_len = strlen(body), .depth = depth, .label = label};
  return evaluate_asked(rc, fits, &asked);
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

#define REPLAY                                                                                                         \
  "{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"profiles\":[\"h100-sxm-80gb\"],\"traffic\":{\"trace\":"         \
  "\"mine\"}}"
#define ROWS "arrival_s,input_tokens,output_tokens\r\n"

/* Three requests in four seconds are two gaps: half a request a second; 100, 200 and 300 tokens are 200 in the mean. */
START_TEST(a_file_is_replayed)
{
  static const char *const files[][2] = {
      {"t.csv", ROWS "0,100,10\r\n1,200,20\r\n4,300,30"},
      {"T.JSONL", "{\"arrival_s\":0,\"input_tokens\":100,\"output_tokens\":10}\n"
                  "{\"arrival_s\":1,\"input_tokens\":200,\"output_tokens\":20}\r\n"
                  "{\"arrival_s\":4,\"input_tokens\":300,\"output_tokens\":30}"},
  };
  const struct api_offline asked = {.body = REPLAY,
                                    .body_len = strlen(REPLAY),
                                    .trace_file = files[_i][0],
                                    .trace = files[_i][1],
                                    .trace_len = strlen(files[_i][1])};
  enum err rc;
  bool fits = false;
  json_t *document = evaluate_asked(&rc, &fits, &asked);
  const json_t *card = json_array_get(json_object_get(document, "scorecards"), 0);
  char *text = json_dumps(json_object_get(card, "assumptions"), JSON_ENSURE_ASCII);
  ck_assert_int_eq((int)rc, ERR_OK);
  ck_assert(fits);
  ck_assert_msg(strstr(text, "trace mine: 3 requests, 0.5 a second in the mean, 200 tokens in and 20 out") != NULL,
                "%s", text);
  ck_assert_uint_eq(strlen(json_string_value(json_object_get(card, "trace_digest"))), strlen("sha256:") + 64);
  free(text);
  json_decref(document);
}
END_TEST

/* The service says it of the stored trace; here it is said of the evaluation. */
START_TEST(requests_that_failed_are_counted)
{
  static const char rows[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n"
                             "2023-11-16 18:17:04.0319600,31,0\n2023-11-16 18:17:09.0319600,31,8\n";
  const struct api_offline asked = {
      .body = REPLAY, .body_len = strlen(REPLAY), .trace_file = "t.csv", .trace = rows, .trace_len = strlen(rows)};
  enum err rc;
  bool fits;
  json_t *document = evaluate_asked(&rc, &fits, &asked);
  const json_t *card = json_array_get(json_object_get(document, "scorecards"), 0);
  char *text = json_dumps(json_object_get(card, "assumptions"), JSON_ENSURE_ASCII);
  ck_assert_int_eq((int)rc, ERR_OK);
  ck_assert_msg(strstr(text, "trace mine: requests without input or output tokens, which failed, are left out: 1") !=
                    NULL,
                "%s", text);
  free(text);
  json_decref(document);
}
END_TEST

static const struct {
  const char *body, *file, *rows, *pointer, *detail;
} refused_traces[] = {
    {REPLAY, NULL, NULL, "/traffic/trace", "--trace FILE"},
    {BODY("h100-sxm-80gb", "1"), "t.csv", ROWS "0,1,1\n1,1,1\n", "/traffic", "replays no trace"},
    {REPLAY, "t.txt", ROWS "0,1,1\n1,1,1\n", "--trace", ".csv"},
    {REPLAY, "csv", ROWS "0,1,1\n1,1,1\n", "--trace", ".csv"},
    {REPLAY, "t.csv", ROWS "0,1,1\n1,x,1\n", "/lines/3/input_tokens", "line 3"},
    {REPLAY, "t.jsonl", ROWS "0,1,1\n", "/lines/1", "line 1"},
    {REPLAY, "t.csv", "", "", "is empty"},
    {REPLAY, "t.csv", ROWS "0,1,1\n", "/traffic/trace", "at least 2 requests"},
};

START_TEST(a_file_that_is_no_trace_is_refused)
{
  const char *rows = refused_traces[_i].rows;
  const struct api_offline asked = {.body = refused_traces[_i].body,
                                    .body_len = strlen(refused_traces[_i].body),
                                    .trace_file = refused_traces[_i].file,
                                    .trace = rows,
                                    .trace_len = rows != NULL ? strlen(rows) : 0};
  enum err rc;
  bool fits;
  json_t *problem = evaluate_asked(&rc, &fits, &asked);
  const json_t *fault = json_array_get(json_object_get(problem, "errors"), 0);
  ck_assert_int_eq((int)rc, ERR_INVALID);
  ck_assert_int_eq((int)json_integer_value(json_object_get(problem, "status")), 422);
  ck_assert_str_eq(first_pointer(problem), refused_traces[_i].pointer);
  ck_assert_msg(strstr(json_string_value(json_object_get(fault, "detail")), refused_traces[_i].detail) != NULL, "%s",
                json_string_value(json_object_get(fault, "detail")));
  json_decref(problem);
}
END_TEST

/* One request above the million that a trace may hold. */
START_TEST(a_trace_that_is_too_large_is_refused)
{
  const size_t count = 1000001, row = strlen("0,1,1\n"), head = strlen(ROWS);
  char *rows = malloc(head + count * row + 1);
  struct api_offline asked = {.body = REPLAY, .body_len = strlen(REPLAY), .trace_file = "t.csv", .trace = rows};
  enum err rc;
  bool fits;
  json_t *problem;
  ck_assert_ptr_nonnull(rows);
  memcpy(rows, ROWS, head);
  for (size_t i = 0; i < count; i++)
    memcpy(rows + head + i * row, "0,1,1\n", row);
  asked.trace_len = head + count * row;
  problem = evaluate_asked(&rc, &fits, &asked);
  ck_assert_int_eq((int)rc, ERR_INVALID);
  ck_assert_int_eq((int)json_integer_value(json_object_get(problem, "status")), 413);
  ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(problem, "detail")), "1000000 requests"));
  json_decref(problem);
  free(rows);
}
END_TEST

static Suite *offline_suite(void)
{
  Suite *suite = suite_create("offline");
  TCase *tcase = tcase_create("offline");
  tcase_add_test(tcase, a_sound_sketch_is_evaluated);
  tcase_add_test(tcase, no_fit_is_an_answer);
  tcase_add_loop_test(tcase, bad_input_comes_back_as_a_problem, 0, (int)(sizeof refused / sizeof refused[0]));
  tcase_add_loop_test(tcase, a_file_is_replayed, 0, 2);
  tcase_add_test(tcase, requests_that_failed_are_counted);
  tcase_add_loop_test(tcase, a_file_that_is_no_trace_is_refused, 0,
                      (int)(sizeof refused_traces / sizeof refused_traces[0]));
  tcase_add_test(tcase, a_trace_that_is_too_large_is_refused);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return suite_run(offline_suite());
}
