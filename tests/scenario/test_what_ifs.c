/* What-ifs over HTTP: grids and cases, cells that are refused, and that a cell is the evaluation of the changed sketch. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SKETCH(model, more)                                                                                            \
  "\"sketch\":{\"workload\":\"chat\",\"model\":\"" model                                                               \
  "\",\"traffic\":{\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2},"                                 \
  "\"profiles\":[\"h100-sxm-80gb\"]" more "}"
#define MHA SKETCH("llama-2-7b", "")

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static json_t *what_if(const char *body)
{
  const struct reply *reply = web_post(&fitd, "/v1/what-ifs", body);
  reply_assert_status(reply, 200);
  ck_assert_ptr_nonnull(reply->json);
  return reply->json;
}

static double number(const json_t *document, const char *path)
{
  return doc_number(document, path);
}

/* The last setting moves fastest; every profile has its line. */
START_TEST(a_grid_is_every_combination)
{
  const json_t *document = what_if("{" SKETCH("llama-2-7b", "") ",\"vary\":{\"/traffic/input_tokens\":[512,1024,2048],"
                                                                "\"/precision/weights\":[\"fp16\",\"fp8\"]}}");
  const json_t *cells = doc_array(document, "cells");
  static const int inputs[] = {512, 512, 1024, 1024, 2048, 2048};
  ck_assert_uint_eq(json_array_size(cells), 6);
  ck_assert_uint_eq(json_array_size(doc_array(document, "base")), 1);
  for (size_t i = 0; i < 6; i++) {
    const json_t *set = json_object_get(json_array_get(cells, i), "set");
    ck_assert_int_eq(json_integer_value(json_object_get(set, "/traffic/input_tokens")), inputs[i]);
    ck_assert_str_eq(json_string_value(json_object_get(set, "/precision/weights")), i % 2 == 0 ? "fp16" : "fp8");
    ck_assert_str_eq(doc_text(json_array_get(cells, i), "configuration.precision.weights"),
                     i % 2 == 0 ? "fp16" : "fp8");
  }
}
END_TEST

/* 32 KV heads of 128 values, keys and values, 32 layers, 2 bytes: 524,288 bytes a token; 4 heads: an eighth. The pool is the
   same, so eight times the sessions, give or take the block that is rounded. */
START_TEST(grouping_divides_the_cache)
{
  const json_t *document = what_if("{" MHA ",\"vary\":{\"/model/num_key_value_heads\":[32,4]}}");
  ck_assert_double_eq_tol(number(document, "base.0.memory.kv_bytes_per_token"), 524288, 1);
  ck_assert_double_eq_tol(number(document, "cells.0.memory.kv_bytes_per_token"), 524288, 1);
  ck_assert_double_eq_tol(number(document, "cells.1.memory.kv_bytes_per_token"), 65536, 1);
  ck_assert_double_ge(number(document, "cells.1.memory.max_concurrent_sessions"),
                      7.5 * number(document, "cells.0.memory.max_concurrent_sessions"));
  ck_assert_double_eq_tol(
      json_number_value(json_object_get(doc_at(document, "cells.1.change"), "memory.kv_bytes_per_token")), -0.875,
      1e-9);
  ck_assert_uint_eq(json_object_size(doc_at(document, "cells.0.change")), 0);
}
END_TEST

/* The base layout is kept, so the same sketch with that layout held and the setting made says the same. */
START_TEST(a_cell_is_the_evaluation_of_the_changed_sketch)
{
  const json_t *document = what_if("{" MHA ",\"vary\":{\"/traffic/requests_per_s\":[5.5]}}");
  const json_t *cell = doc_at(document, "cells.0");
  const char *body = scratch_printf(
      "{\"workload\":\"chat\",\"model\":\"llama-2-7b\",\"profiles\":[\"h100-sxm-80gb\"],\"traffic\":{"
      "\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":5.5},\"serving\":{\"tensor_parallel\":%d,"
      "\"pipeline_parallel\":%d,\"expert_parallel\":1,\"attention_data_parallel\":1,\"replicas\":%d}}",
      (int)doc_integer(document, "base.0.configuration.tensor_parallel"),
      (int)doc_integer(document, "base.0.configuration.pipeline_parallel"),
      (int)doc_integer(document, "base.0.configuration.replicas"));
  static const char *const same[] = {"latency.ttft_ms.p50", "latency.itl_ms.p50", "throughput.output_tokens_per_s",
                                     "limits.saturation_requests_per_s", "cost.monthly_usd"};
  const struct reply *reply = web_post(&fitd, "/v1/evaluations?store=false&depth=quick", body);
  const json_t *card;
  reply_assert_status(reply, 200);
  card = doc_at(reply->json, "scorecards.0");
  ck_assert_str_eq(doc_text(card, "verdict"), doc_text(cell, "verdict"));
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    ck_assert_double_eq_tol(number(card, same[i]), number(cell, same[i]), 1e-9 * fabs(number(cell, same[i])));
}
END_TEST

/* Ten times the load: the base layout saturates, a search adds replicas. */
START_TEST(search_lets_the_layout_follow)
{
  const json_t *held = what_if("{" MHA ",\"vary\":{\"/traffic/requests_per_s\":[60]}}");
  const json_t *searched = what_if("{" MHA ",\"vary\":{\"/traffic/requests_per_s\":[60]},\"search\":true}");
  ck_assert_str_eq(doc_text(held, "cells.0.verdict"), "no_fit");
  ck_assert_int_eq(doc_integer(held, "cells.0.configuration.gpus"), doc_integer(held, "base.0.configuration.gpus"));
  ck_assert_str_eq(doc_text(searched, "cells.0.verdict"), "fit");
  ck_assert_int_gt(doc_integer(searched, "cells.0.configuration.gpus"),
                   doc_integer(searched, "base.0.configuration.gpus"));
}
END_TEST

START_TEST(cases_have_names_and_set_whole_parts)
{
  const json_t *document = what_if("{" SKETCH(
      "llama-2-7b",
      ",\"targets\":{\"itl_ms\":{\"p50\":50}}") ",\"cases\":["
                                                "{\"label\":\"newer\",\"set\":{\"/model\":\"llama-3.1-8b\"}},"
                                                "{\"label\":\"eight bits\",\"set\":{\"/precision\":\"fp8\"}},"
                                                "{\"label\":\"long "
                                                "tail\",\"set\":{\"/traffic/"
                                                "output_tokens\":{\"p50\":200,\"p99\":900}}},"
                                                "{\"label\":\"cooler\",\"set\":{\"/profile/power_cap_w\":400}}]}");
  static const char *const labels[] = {"newer", "eight bits", "long tail", "cooler"};
  for (size_t i = 0; i < 4; i++) {
    const json_t *cell = json_array_get(doc_array(document, "cells"), i);
    ck_assert_str_eq(doc_text(cell, "label"), labels[i]);
    ck_assert_msg(doc_at(cell, "error") == NULL, "%s", doc_dump(cell));
    ck_assert_uint_gt(json_object_size(json_object_get(cell, "change")), 0);
  }
  ck_assert_double_eq_tol(number(document, "cells.0.memory.kv_bytes_per_token"), 131072, 1);
  ck_assert_str_eq(doc_text(document, "cells.1.configuration.precision.kv_cache"), "fp8");
}
END_TEST

/* What is wrong with one cell is said in its place; the others are answered. */
static const struct {
  const char *set, *pointer;
} BAD_CELLS[] = {
    {"\"/traffic/requests_per_s\":-3", "/traffic/requests_per_s"},
    {"\"/traffic/input_tokens\":\"many\"", "/traffic/input_tokens"},
    {"\"/traffic/input_tokens\":9000", "/traffic/input_tokens"}, /* made for 4,096 */
    {"\"/model/num_key_value_heads\":5", "/model/layers/0/attention/num_key_value_heads"},
    {"\"/profile/power_cap_w\":900", "/profile/power_cap_w"}, /* above the board's 700 */
    {"\"/model\":\"llama-3.1-8x\"", "/model"},
    {"\"/precision/weights\":\"fp3\"", "/precision/weights"},
    {"\"/traffic/output_tokens\":{\"p50\":1}", "/traffic/output_tokens"},
};

START_TEST(a_bad_cell_is_refused_alone)
{
  const json_t *document = what_if(scratch_printf("{" MHA ",\"cases\":[{\"label\":\"bad\",\"set\":{%s}},"
                                                  "{\"label\":\"good\",\"set\":{\"/traffic/requests_per_s\":3}}]}",
                                                  BAD_CELLS[_i].set));
  const json_t *bad = doc_at(document, "cells.0"), *good = doc_at(document, "cells.1");
  ck_assert_msg(strcmp(doc_text(bad, "error.pointer"), BAD_CELLS[_i].pointer) == 0, "%s", doc_dump(bad));
  ck_assert_uint_gt(strlen(doc_text(bad, "error.detail")), 5);
  ck_assert(doc_at(bad, "verdict") == NULL);
  ck_assert_str_eq(doc_text(good, "verdict"), "fit");
}
END_TEST

/* An impossible layout is a verdict, as in an evaluation. */
START_TEST(an_impossible_layout_is_a_verdict)
{
  const json_t *document = what_if("{" MHA ",\"vary\":{\"/serving/tensor_parallel\":[3,2]}}");
  ck_assert_str_eq(doc_text(document, "cells.0.no_fit_reason"), "layout_impossible");
  ck_assert_int_eq(doc_integer(document, "cells.1.configuration.tensor_parallel"), 2);
}
END_TEST

static const struct {
  const char *body, *pointer;
} REFUSALS[] = {
    {"{" MHA "}", "/vary"},
    {"{" MHA ",\"vary\":{},\"cases\":[]}", "/cases"},
    {"{" MHA ",\"vary\":{\"/traffic/input_tokns\":[1]}}", "/vary/~1traffic~1input_tokns"},
    {"{" MHA ",\"vary\":{\"traffic\":[1]}}", "/vary/traffic"},
    {"{" MHA ",\"vary\":{\"/traffic/input_tokens\":1}}", "/vary/~1traffic~1input_tokens"},
    {"{" MHA ",\"vary\":{\"/profile\":[1]}}", "/vary/~1profile"},
    {"{" MHA ",\"cases\":[{\"set\":{}}]}", "/cases/0/label"},
    {"{" MHA ",\"cases\":[{\"label\":\"a\",\"set\":{\"/workload\":\"b\"}}]}", "/cases/0/set/~1workload"},
    {"{" MHA ",\"vary\":{\"/traffic/input_tokens\":[1]},\"search\":1}", "/search"},
    {"{\"vary\":{\"/traffic/input_tokens\":[1]}}", "/sketch"},
    {"{" SKETCH("llama-9", "") ",\"vary\":{\"/traffic/input_tokens\":[1]}}", "/sketch/model"},
};

START_TEST(refusals_name_the_field)
{
  const json_t *problem = reply_assert_problem(web_post(&fitd, "/v1/what-ifs", REFUSALS[_i].body), 422);
  ck_assert_msg(doc_fault(problem, REFUSALS[_i].pointer) != NULL, "%s", doc_brief(problem));
}
END_TEST

static const char *numbers(int count)
{
  char *list = scratch_alloc((size_t)count * 8 + 1);
  for (int i = 0; i < count; i++)
    (void)snprintf(list + strlen(list), 8, "%s%d", i > 0 ? "," : "", 100 + i);
  return list;
}

/* 4,096 cells are answered, 4,097 are refused with their number. */
START_TEST(there_are_4096_cells_at_most)
{
  const json_t *document = what_if(scratch_printf(
      "{" MHA ",\"vary\":{\"/traffic/input_tokens\":[%s],\"/traffic/output_tokens\":[%s]}}", numbers(64), numbers(64)));
  const json_t *problem;
  ck_assert_uint_eq(json_array_size(doc_array(document, "cells")), 4096);
  problem = reply_assert_problem(
      web_post(&fitd, "/v1/what-ifs",
               scratch_printf("{" MHA ",\"vary\":{\"/traffic/input_tokens\":[%s]}}", numbers(4097))),
      422);
  ck_assert_msg(strstr(doc_text(problem, "errors.0.detail"), "4097") != NULL, "%s", doc_brief(problem));
}
END_TEST

/* A head, the base and a line a cell; the pointers are columns. */
START_TEST(csv_and_markdown_have_a_line_a_cell)
{
  static const char body[] = "{" MHA ",\"vary\":{\"/traffic/input_tokens\":[512,1024,2048]}}";
  const struct reply *csv = web_post(&fitd, "/v1/what-ifs?format=csv", body);
  const struct reply *md = web_post(&fitd, "/v1/what-ifs?format=md", body);
  size_t lines = 0, rows = 0;
  reply_assert_status(csv, 200);
  reply_assert_status(md, 200);
  for (const char *at = csv->body; (at = strstr(at, "\r\n")) != NULL; at += 2)
    lines++;
  for (const char *at = md->body; (at = strstr(at, "\n| ")) != NULL; at++)
    rows++;
  ck_assert_uint_eq(lines, 5);
  ck_assert_uint_eq(rows, 5);
  ck_assert(strncmp(csv->body, "label,profile,/traffic/input_tokens,verdict,", 44) == 0);
}
END_TEST

/* 61 requests a second apart: 60 gaps in 60 seconds. */
static void put_trace(const char *name, int input_tokens)
{
  static const char *const headers[] = {"Content-Type: text/csv", NULL};
  const char *csv = "arrival_s,input_tokens,output_tokens\n";
  struct request request = {.method = "PUT", .path = scratch_printf("/v1/traces/%s", name), .headers = headers};
  for (int i = 0; i <= 60; i++)
    csv = scratch_printf("%s%d,%d,50\n", csv, i, input_tokens);
  request.body = csv;
  reply_assert_status(web_send(&fitd, &request), 201);
}

#define REPLAY                                                                                                         \
  "\"sketch\":{\"workload\":\"chat\",\"model\":\"llama-2-7b\",\"traffic\":{\"trace\":\"minute\"},"                     \
  "\"profiles\":[\"h100-sxm-80gb\"]}"

/* A request a second of 1,000 tokens in and 50 out, and what the same load says when it is given as numbers. */
START_TEST(a_trace_is_its_mean_load)
{
  static const char *const same[] = {"latency.ttft_ms.p50", "latency.itl_ms.p50", "throughput.output_tokens_per_s",
                                     "throughput.mean_batch", "cost.monthly_usd"};
  const json_t *recorded, *given;
  put_trace("minute", 1000);
  recorded = what_if("{" REPLAY ",\"vary\":{\"/traffic/trace/rate_scale\":[1,3],\"/precision/weights\":[\"fp16\","
                     "\"fp8\"]}}");
  given = what_if("{\"sketch\":{\"workload\":\"chat\",\"model\":\"llama-2-7b\",\"traffic\":{\"input_tokens\":1000,"
                  "\"output_tokens\":50,\"requests_per_s\":1},\"profiles\":[\"h100-sxm-80gb\"]},"
                  "\"vary\":{\"/traffic/requests_per_s\":[1,3],\"/precision/weights\":[\"fp16\",\"fp8\"]}}");
  ck_assert_double_eq_tol(number(recorded, "base.0.throughput.requests_per_s"), 1, 1e-9);
  ck_assert_double_eq_tol(number(recorded, "cells.2.throughput.requests_per_s"), 3, 1e-9);
  for (int cell = 0; cell < 4; cell++)
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
      const char *path = scratch_printf("cells.%d.%s", cell, same[i]);
      ck_assert_double_eq_tol(number(recorded, path), number(given, path), 1e-6 * fabs(number(given, path)));
    }
}
END_TEST

/* What a trace brings can not be set, and only the sketch's own is replayed. */
static const struct {
  const char *set, *pointer, *detail;
} TRACE_CELLS[] = {
    {"\"/traffic/input_tokens\":500", "/traffic/input_tokens", "its own lengths"},
    {"\"/traffic/output_tokens\":500", "/traffic/output_tokens", "its own lengths"},
    {"\"/traffic/requests_per_s\":5", "/traffic/requests_per_s", "another way"},
    {"\"/traffic/trace\":\"other\"", "/traffic/trace", "cells replay the trace of the sketch, \"minute\""},
};

START_TEST(a_cell_does_not_leave_its_trace)
{
  const json_t *document, *bad, *good;
  put_trace("minute", 1000);
  put_trace("other", 10);
  document = what_if(scratch_printf(
      "{" REPLAY ",\"cases\":[{\"label\":\"bad\",\"set\":{%s}},{\"label\":\"given\",\"set\":{\"/traffic\":"
      "{\"input_tokens\":1000,\"output_tokens\":50,\"requests_per_s\":2}}}]}",
      TRACE_CELLS[_i].set));
  bad = doc_at(document, "cells.0");
  good = doc_at(document, "cells.1");
  ck_assert_msg(strcmp(doc_text(bad, "error.pointer"), TRACE_CELLS[_i].pointer) == 0, "%s", doc_dump(bad));
  ck_assert_msg(strstr(doc_text(bad, "error.detail"), TRACE_CELLS[_i].detail) != NULL, "%s", doc_dump(bad));
  ck_assert_double_eq_tol(number(good, "throughput.requests_per_s"), 2, 1e-9);
}
END_TEST

START_TEST(a_cell_has_no_trace_of_its_own)
{
  const json_t *document;
  put_trace("minute", 1000);
  document = what_if("{" MHA ",\"cases\":[{\"label\":\"a\",\"set\":{\"/traffic\":{\"trace\":\"minute\"}}}]}");
  ck_assert_str_eq(doc_text(document, "cells.0.error.pointer"), "/traffic/trace");
  ck_assert_ptr_nonnull(strstr(doc_text(document, "cells.0.error.detail"), "no cell can"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("what_ifs");
  TCase *tcase = suite_case(suite, "what_ifs", setup, teardown);
  tcase_add_test(tcase, a_grid_is_every_combination);
  tcase_add_test(tcase, grouping_divides_the_cache);
  tcase_add_test(tcase, a_cell_is_the_evaluation_of_the_changed_sketch);
  tcase_add_test(tcase, search_lets_the_layout_follow);
  tcase_add_test(tcase, cases_have_names_and_set_whole_parts);
  tcase_add_loop_test(tcase, a_bad_cell_is_refused_alone, 0, sizeof BAD_CELLS / sizeof BAD_CELLS[0]);
  tcase_add_test(tcase, an_impossible_layout_is_a_verdict);
  tcase_add_loop_test(tcase, refusals_name_the_field, 0, sizeof REFUSALS / sizeof REFUSALS[0]);
  tcase_add_test(tcase, there_are_4096_cells_at_most);
  tcase_add_test(tcase, csv_and_markdown_have_a_line_a_cell);
  tcase_add_test(tcase, a_trace_is_its_mean_load);
  tcase_add_loop_test(tcase, a_cell_does_not_leave_its_trace, 0, sizeof TRACE_CELLS / sizeof TRACE_CELLS[0]);
  tcase_add_test(tcase, a_cell_has_no_trace_of_its_own);
  return suite_run(suite);
}
