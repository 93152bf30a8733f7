/* Evaluation documents as people read them: the terminal table, Markdown, CSV. The document is made by hand. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/evaluation.h"
#include "api/row_csv.h"
#include "tests/lib/suite.h"

static const char document_text[] =
    "{\"id\":\"e\",\"created_at\":\"2026-11-30T12:00:00.000Z\",\"workload\":\"support-chat\",\"model\":\"llama-3.1-"
    "70b\","
    "\"traffic\":{\"input_tokens\":2048,\"output_tokens\":{\"p50\":256,\"p99\":900},\"requests_per_s\":4},"
    "\"recommendation\":{\"scorecard\":\"s1\",\"profile\":\"h100-sxm-80gb\",\"runner_up\":{\"profile\":\"a100-sxm-"
    "80gb\"},"
    "\"summary\":\"x\"},\"scorecards\":["
    "{\"id\":\"s1\",\"workload\":\"support-chat\",\"profile\":\"h100-sxm-80gb\",\"verdict\":\"fit\",\"no_fit_reason\":"
    "null,"
    "\"configuration\":{\"tensor_parallel\":4,\"pipeline_parallel\":1,\"replicas\":2,\"gpus\":8,\"max_batch\":48},"
    "\"latency\":{\"ttft_ms\":{\"p50\":181.26},\"itl_ms\":{\"p50\":21.44},\"e2e_ms\":{\"p50\":5678}},"
    "\"throughput\":{\"output_tokens_per_s\":1184.4},\"limits\":{\"first_limit\":\"kv_cache\"},"
    "\"cost\":{\"per_successful_request_usd\":0.0038222,\"per_million_output_tokens_usd\":12.906,"
    "\"monthly_usd\":40179.2},\"assumptions\":[\"a|b\"]},"
    "{\"id\":\"s2\",\"profile\":\"a100-sxm-80gb\",\"verdict\":\"no_fit\",\"no_fit_reason\":\"targets_missed\","
    "\"configuration\":{\"tensor_parallel\":8,\"pipeline_parallel\":2,\"replicas\":1,\"gpus\":16,\"max_batch\":4},"
    "\"latency\":{\"ttft_ms\":{\"p50\":1234.5},\"itl_ms\":{\"p50\":0.98765},\"e2e_ms\":{\"p50\":99960}},"
    "\"throughput\":{\"output_tokens_per_s\":99.96},\"cost\":{\"per_million_output_tokens_usd\":null,"
    "\"monthly_usd\":null},\"targets\":[{\"metric\":\"latency.itl_ms.p50\",\"met\":true},"
    "{\"metric\":\"latency.ttft_ms.p50\",\"met\":false}]},"
    "{\"id\":\"s3\",\"profile\":\"t4-16gb\",\"verdict\":\"no_fit\",\"no_fit_reason\":\"weights_exceed_memory\","
    "\"configuration\":null,\"latency\":null,\"memory\":{\"min_gpus\":16}}]}";

static void assert_text(unsigned width, const char *expected)
{
  char *text = NULL;
  struct error e = {.code = ERR_OK};
  ck_assert_int_eq((int)api_evaluation_text(&text, document_text, width, &e), ERR_OK);
  ck_assert_str_eq(text, expected);
  free(text);
}

START_TEST(table_on_a_wide_terminal)
{
  assert_text(
      140,
      "support-chat: llama-3.1-70b, 2,048 in / p50 256, p99 900 out tokens, 4 requests/s (poisson)\n"
      "fit: 8 (tp4 x2) on h100-sxm-80gb, 3.82 USD per 1,000 successful requests (40,179 USD a month), TTFT p50 181 ms, "
      "ITL "
      "p50 21.4 ms, first limit\nkv_cache; next best a100-sxm-80gb\n"
      "\n"
      "profile        verdict  GPUs             TTFT p50 ms  ITL p50 ms  ok %  USD/1M  USD/month  limit or "
      "reason                     tok/s\n"
      "h100-sxm-80gb  fit      8 (tp4 x2)               181        21.4     -    12.9     40,179  kv_cache             "
      "               1,184\n"
      "a100-sxm-80gb  no_fit   16 (tp8 pp2 x1)        1,234       0.988     -       -          -  "
      "targets_missed: ttft_ms.p50           100\n"
      "t4-16gb        no_fit   -                          -           -     -       -          -  "
      "weights_exceed_memory: min 16 GPUs      -\n");
}
END_TEST

/* 113 columns leave 22 for the last one. */
START_TEST(the_last_column_is_cut_before_it_goes)
{
  char *text = NULL;
  struct error e = {.code = ERR_OK};
  ck_assert_int_eq((int)api_evaluation_text(&text, document_text, 113, &e), ERR_OK);
  ck_assert_ptr_nonnull(strstr(text, "  kv_cache\n"));
  ck_assert_ptr_nonnull(strstr(text, "  targets_missed: ttft_…\n"));
  ck_assert_ptr_nonnull(strstr(text, "  weights_exceed_memory…\n"));
  free(text);
}
END_TEST

/* Columns go from the right until the line fits; nothing but a long word is wider than the terminal. */
START_TEST(table_on_a_narrow_terminal)
{
  assert_text(40, "support-chat: llama-3.1-70b, 2,048 in /\n"
                  "p50 256, p99 900 out tokens, 4\n"
                  "requests/s (poisson)\n"
                  "fit: 8 (tp4 x2) on h100-sxm-80gb, 3.82\n"
                  "USD per 1,000 successful requests\n"
                  "(40,179 USD a month), TTFT p50 181 ms,\n"
                  "ITL p50 21.4 ms, first limit kv_cache;\n"
                  "next best a100-sxm-80gb\n"
                  "\n"
                  "profile        verdict  GPUs\n"
                  "h100-sxm-80gb  fit      8 (tp4 x2)\n"
                  "a100-sxm-80gb  no_fit   16 (tp8 pp2 x1)\n"
                  "t4-16gb        no_fit   -\n");
}
END_TEST

#define SIMULATED                                                                                                      \
  "{\"workload\":\"w\",\"model\":\"m\",\"traffic\":{\"trace\":%s},\"recommendation\":{\"scorecard\":%s,"               \
  "\"summary\":\"none of 2 fits\"},\"scorecards\":["                                                                   \
  "{\"id\":\"a\",\"profile\":\"p1\",\"verdict\":\"fit\",\"configuration\":{\"tensor_parallel\":1,\"replicas\":1,"      \
  "\"gpus\":1},\"latency\":{\"ttft_ms\":{\"p50\":100,\"p99\":900},\"itl_ms\":{\"p50\":10,\"p99\":30}},"                \
  "\"success\":{\"rate\":0.987},\"limits\":{\"first_limit\":\"queue\"},\"ways_out\":[{\"message\":\"two replicas\"}]," \
  "\"advice\":[{\"message\":\"fp8 weights\"},{\"message\":\"another\"}]},"                                             \
  "{\"id\":\"b\",\"profile\":\"p2\",\"verdict\":\"fit\",\"latency\":{\"ttft_ms\":{\"p50\":200,\"p99\":null},"          \
  "\"itl_ms\":{\"p50\":20,\"p99\":null}},\"success\":{\"rate\":null}}]}"

/* A card that was simulated shows its 99th percentiles; one that was not says that it has medians. */
START_TEST(simulated_cards_show_p99_and_what_comes_next)
{
  char document[2048], *text = NULL;
  struct error e = {.code = ERR_OK};
  json_t *parsed;
  (void)snprintf(document, sizeof document, SIMULATED, "{\"name\":\"azure\",\"rate_scale\":2}", "\"a\"");
  ck_assert_int_eq((int)api_evaluation_text(&text, document, 100, &e), ERR_OK);
  ck_assert_str_eq(text,
                   "w: m, trace azure at 2 times its rate\n"
                   "fit: 1 (tp1 x1) on p1, no price known, TTFT p99 900 ms, ITL p99 30 ms, first limit queue\n"
                   "next, on p1: fp8 weights\n"
                   "\n"
                   "profile  verdict  GPUs        TTFT p99 ms  ITL p99 ms  ok %  USD/1M  USD/month  limit or reason\n"
                   "p1       fit      1 (tp1 x1)          900          30  98.7       -          -  queue\n"
                   "p2       fit      -               p50 200      p50 20     -       -          -  -\n");
  free(text);
  parsed = json_loads(document, 0, NULL);
  text = evaluation_markdown(parsed);
  ck_assert_ptr_nonnull(strstr(text, "| TTFT p99 ms | ITL p99 ms | ok % |"));
  ck_assert_ptr_nonnull(strstr(text, "| 900 | 30 | 98.7 |"));
  free(text);
  json_decref(parsed);
}
END_TEST

START_TEST(what_does_not_fit_shows_the_first_way_out)
{
  char document[2048], *text = NULL;
  struct error e = {.code = ERR_OK};
  (void)snprintf(document, sizeof document, SIMULATED, "\"azure\"", "null");
  ck_assert_int_eq((int)api_evaluation_text(&text, document, 100, &e), ERR_OK);
  ck_assert_ptr_nonnull(strstr(text, "w: m, trace azure\nno_fit: none of 2 fits\nnext, on p1: two replicas\n\n"));
  free(text);
}
END_TEST

START_TEST(text_of_something_else_is_refused)
{
  char *text = NULL;
  struct error e = {.code = ERR_OK};
  ck_assert_int_eq((int)api_evaluation_text(&text, "{\"id\":1}", 80, &e), ERR_INVALID);
  ck_assert_int_eq((int)api_evaluation_text(&text, "no JSON", 80, &e), ERR_INVALID);
  ck_assert_ptr_null(text);
}
END_TEST

static size_t count_of(const char *text, const char *part)
{
  size_t n = 0;
  for (; (text = strstr(text, part)) != NULL; text += strlen(part))
    n++;
  return n;
}

START_TEST(markdown_has_a_row_a_profile_and_escapes)
{
  json_t *document = json_loads(document_text, 0, NULL);
  char *text = evaluation_markdown(document);
  ck_assert_ptr_nonnull(strstr(text, "## Fit of support-chat\n"));
  ck_assert_uint_eq(count_of(text, "\n| "), 4);
  ck_assert_ptr_nonnull(
      strstr(text, "| h100-sxm-80gb | fit | 8 (tp4 x2) | 181 | 21.4 | - | 12.9 | 40,179 | kv_cache | 1,184 |"));
  ck_assert_ptr_nonnull(strstr(text, "- a\\|b\n"));
  free(text);
  text = scorecard_markdown(json_array_get(json_object_get(document, "scorecards"), 1));
  ck_assert_ptr_nonnull(strstr(text, "a100-sxm-80gb"));
  ck_assert_ptr_nonnull(strstr(text, "| latency.ttft_ms.p50 | - | - | no |"));
  free(text);
  json_decref(document);
}
END_TEST

START_TEST(csv_has_a_line_a_card_and_as_many_fields_everywhere)
{
  json_t *document = json_loads(document_text, 0, NULL);
  char *text = evaluation_csv(document);
  const char *line = text;
  size_t lines = 0, fields = 0;
  for (const char *end; (end = strstr(line, "\r\n")) != NULL; line = end + 2, lines++) {
    size_t commas = 0;
    for (const char *c = line; c < end; c++)
      commas += *c == ',' ? 1 : 0;
    fields = lines == 0 ? commas : fields;
    ck_assert_uint_eq(commas, fields);
  }
  ck_assert_uint_eq(lines, 4);
  ck_assert_str_eq(line, "");
  free(text);
  text = row_csv(json_object_get(document, "scorecards"), "profile,cost.monthly_usd,configuration.gpus");
  ck_assert_str_eq(text, "profile,cost.monthly_usd,configuration.gpus\r\nh100-sxm-80gb,40179.2,8\r\n"
                         "a100-sxm-80gb,,16\r\nt4-16gb,,\r\n");
  free(text);
  json_decref(document);
}
END_TEST

static Suite *text_suite(void)
{
  Suite *suite = suite_create("evaluation text");
  TCase *tcase = tcase_create("tables");
  tcase_add_test(tcase, table_on_a_wide_terminal);
  tcase_add_test(tcase, the_last_column_is_cut_before_it_goes);
  tcase_add_test(tcase, table_on_a_narrow_terminal);
  tcase_add_test(tcase, simulated_cards_show_p99_and_what_comes_next);
  tcase_add_test(tcase, what_does_not_fit_shows_the_first_way_out);
  tcase_add_test(tcase, text_of_something_else_is_refused);
  tcase_add_test(tcase, markdown_has_a_row_a_profile_and_escapes);
  tcase_add_test(tcase, csv_has_a_line_a_card_and_as_many_fields_everywhere);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return suite_run(text_suite());
}
