/* Traces through the real daemon: put, read, page, replace under conditions, limits, and sketches that name them. */
#include "tests/lib/command.h"
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#define CSV "Content-Type: text/csv"
#define LINES "Content-Type: application/jsonl"
#define SMALL "arrival_s,input_tokens,output_tokens\n0,100,10\n1,200,20\n"

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static const struct reply *put(const char *name, const char *type, const char *condition, const char *body,
                               size_t bytes)
{
  const char *const headers[] = {type, condition, NULL};
  const struct request request = {.method = "PUT",
                                  .path = scratch_printf("/v1/traces/%s", name),
                                  .headers = headers,
                                  .body = body,
                                  .body_bytes = bytes};
  return web_send(&fitd, &request);
}

static const json_t *put_file(const char *name, const char *type, const char *file, long status)
{
  const char *text = scratch_read_file(suite_source_path(scratch_printf("tests/data/traces/%s", file)));
  const struct reply *reply = put(name, type, NULL, text, 0);
  reply_assert_status(reply, status);
  return reply->json;
}

START_TEST(put_and_get)
{
  const json_t *made = put_file("azure-code", CSV, "azure_2023_code_400.csv", 201);
  const json_t *seen = web_get_ok(&fitd, "/v1/traces/azure-code");
  doc_assert_same(seen, made);
  ck_assert_str_eq(doc_text(seen, "name"), "azure-code");
  ck_assert_int_eq(doc_integer(seen, "revision"), 1);
  ck_assert_str_eq(doc_text(seen, "format"), "azure");
  ck_assert_str_eq(doc_text(seen, "starts_at"), "2023-11-16T18:17:03.979Z");
  ck_assert_int_eq(doc_integer(seen, "statistics.requests"), 400); /* all else: tests/api/test_trace.c */
  made = put_file("azure-code", CSV, "azure_2023_code_400.csv", 200);
  ck_assert_int_eq(doc_integer(made, "revision"), 1);
  made = put_file("azure-code", LINES, "mooncake_synthetic_150.jsonl", 200);
  ck_assert_int_eq(doc_integer(made, "revision"), 2);
  ck_assert_str_eq(doc_text(made, "format"), "mooncake");
}
END_TEST

START_TEST(listed_and_deleted)
{
  const json_t *list;
  reply_assert_status(put("b", CSV, NULL, SMALL, 0), 201);
  reply_assert_status(put("a", "Content-Type: text/csv; charset=UTF-8", NULL, SMALL, 0), 201);
  list = web_get_ok(&fitd, "/v1/traces?limit=1&fields=name,statistics.requests");
  ck_assert_str_eq(doc_text(list, "items.0.name"), "a");
  ck_assert_int_eq(doc_integer(list, "items.0.statistics.requests"), 2);
  list = web_get_ok(&fitd, scratch_printf("/v1/traces?limit=1&fields=name,statistics.requests&cursor=%s",
                                          doc_text(list, "next_cursor")));
  ck_assert_str_eq(doc_text(list, "items.0.name"), "b");
  ck_assert(doc_is_null(list, "next_cursor"));
  reply_assert_status(web_delete(&fitd, "/v1/traces/a"), 204);
  (void)reply_assert_problem(web_get(&fitd, "/v1/traces/a"), 404);
  (void)reply_assert_problem(web_delete(&fitd, "/v1/traces/a"), 404);
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/traces"), "items")), 1);
}
END_TEST

/* All pages of the CSV, one header before them, have the digest that the trace states, and are taken back as they are. */
START_TEST(pages_are_the_trace)
{
  const json_t *trace = put_file("mooncake", LINES, "mooncake_synthetic_150.jsonl", 201);
  const char *all = "", *cursor = "";
  struct sha256_ctx sha256;
  uint8_t digest[SHA256_DIGEST_SIZE];
  char hex[2 * SHA256_DIGEST_SIZE + 1];
  for (int page = 0; page < 4; page++) {
    const struct reply *csv =
        web_get(&fitd, scratch_printf("/v1/traces/mooncake/requests?limit=40&format=csv%s", cursor));
    const char *link = reply_header(csv, "Link"), *rows = strchr(csv->body, '\n') + 1;
    reply_assert_status(csv, 200);
    all = scratch_printf("%s%s", all, page == 0 ? csv->body : rows);
    ck_assert_int_eq(link != NULL, page < 3); /* 150 = 3 × 40 + 30 */
    if (link != NULL)
      cursor = scratch_printf("&%.*s", (int)strcspn(strstr(link, "cursor="), ">"), strstr(link, "cursor="));
  }
  sha256_init(&sha256);
  sha256_update(&sha256, strlen(all), (const uint8_t *)all);
  sha256_digest(&sha256, sizeof digest, digest);
  for (size_t i = 0; i < sizeof digest; i++)
    (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
  ck_assert_str_eq(doc_text(trace, "digest"), scratch_printf("sha256:%s", hex));
  reply_assert_status(put("again", CSV, NULL, all, 0), 201);
  ck_assert_str_eq(doc_text(web_get_ok(&fitd, "/v1/traces/again"), "digest"), doc_text(trace, "digest"));
}
END_TEST

START_TEST(requests_as_json)
{
  const json_t *page;
  (void)put_file("mooncake", LINES, "mooncake_synthetic_150.jsonl", 201);
  page = web_get_ok(&fitd, "/v1/traces/mooncake/requests?limit=149");
  ck_assert_uint_eq(json_array_size(doc_array(page, "items")), 149);
  ck_assert_int_eq(doc_integer(page, "items.0.input_tokens"), 40160); /* the first line of the file */
  ck_assert_int_eq(doc_integer(page, "items.0.output_tokens"), 6);
  ck_assert_uint_eq(json_array_size(doc_array(page, "items.0.prefix_hashes")), 79);
  page = web_get_ok(&fitd,
                    scratch_printf("/v1/traces/mooncake/requests?limit=149&cursor=%s", doc_text(page, "next_cursor")));
  ck_assert_uint_eq(json_array_size(doc_array(page, "items")), 1);
  ck_assert_double_eq_tol(doc_number(page, "items.0.arrival_s"), 44.31, 1e-9);
  ck_assert(doc_is_null(page, "next_cursor"));
  (void)reply_assert_problem(web_get(&fitd, "/v1/traces/mooncake/requests?format=md"), 406);
}
END_TEST

START_TEST(a_cursor_ends_with_its_trace)
{
  const json_t *page;
  const char *next;
  reply_assert_status(put("chat", CSV, NULL, SMALL, 0), 201);
  page = web_get_ok(&fitd, "/v1/traces/chat/requests?limit=1");
  next = scratch_printf("/v1/traces/chat/requests?limit=1&cursor=%s", doc_text(page, "next_cursor"));
  (void)web_get_ok(&fitd, next);
  reply_assert_status(put("chat", CSV, NULL, SMALL "2,1,1\n", 0), 200);
  ck_assert_ptr_nonnull(doc_fault(reply_assert_problem(web_get(&fitd, next), 422), "?cursor"));
}
END_TEST

START_TEST(conditions)
{
  const struct reply *made = put("chat", CSV, "If-None-Match: *", SMALL, 0);
  const char *match;
  reply_assert_status(made, 201);
  ck_assert_str_eq(reply_header(made, "Location"), "/v1/traces/chat");
  match = scratch_printf("If-Match: %s", reply_header(made, "ETag"));
  (void)reply_assert_problem(put("chat", CSV, "If-None-Match: *", SMALL, 0), 412);
  (void)reply_assert_problem(put("chat", CSV, "If-Match: \"other\"", SMALL, 0), 412);
  (void)reply_assert_problem(put("none", CSV, "If-Match: *", SMALL, 0), 412);
  reply_assert_status(put("chat", CSV, match, SMALL "2,1,1\n", 0), 200);
  (void)reply_assert_problem(put("chat", CSV, match, SMALL, 0), 412);
  (void)reply_assert_problem(web_with(&fitd, "DELETE", "/v1/traces/chat", match, NULL), 412);
  reply_assert_status(web_with(&fitd, "GET", "/v1/traces/chat", "If-None-Match: *", NULL), 304);
}
END_TEST

START_TEST(refusals)
{
  const json_t *problem = reply_assert_problem(put("Chat", CSV, NULL,
                                                   "arrival_s,input_tokens,output_tokens\n"
                                                   "0,x,10\n-1,1,1\n",
                                                   0),
                                               422);
  ck_assert_uint_eq(json_array_size(doc_array(problem, "errors")), 3);
  ck_assert_ptr_nonnull(doc_fault(problem, "{name}"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/lines/2/input_tokens"));
  ck_assert_ptr_nonnull(strstr(doc_text(doc_fault(problem, "/lines/3/arrival_s"), "detail"), "line 3"));
  (void)reply_assert_problem(put("chat", "Content-Type: application/json", NULL, SMALL, 0), 415);
  (void)reply_assert_problem(put("chat", "Content-Type: text/csv; charset=iso-8859-1", NULL, SMALL, 0), 415);
  (void)reply_assert_problem(put("chat", CSV, "Content-Encoding: gzip", SMALL, 0), 415);
  problem = reply_assert_problem(put("chat", CSV, NULL, "", 0), 422);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "is empty"));
  (void)reply_assert_problem(web_with(&fitd, "PUT", "/v1/traces/chat", CSV, "a,b\n\xE9,1\n"), 422);
  (void)reply_assert_problem(web_get(&fitd, "/v1/traces/chat"), 404);
}
END_TEST

/* More than the 256 kB of other routes, up to 64 MiB, also without a length up front. */
START_TEST(large_bodies)
{
  const size_t limit = 64 * 1024 * 1024;
  char *text = scratch_alloc(limit + 2);
  const json_t *problem;
  size_t length = (size_t)snprintf(text, 64, "arrival_s,input_tokens,output_tokens\n");
  while (length < 5000000)
    length += (size_t)snprintf(text + length, 64, "%zu,1000,100\n", length);
  reply_assert_status(put("large", CSV, NULL, text, length), 201);
  memset(text + length, '\n', limit + 1 - length);
  reply_assert_status(put("large", CSV, "Transfer-Encoding: chunked", text, limit), 200);
  problem = reply_assert_problem(put("large", CSV, NULL, text, limit + 1), 413);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "67108864"));
  problem = reply_assert_problem(put("large", CSV, "Transfer-Encoding: chunked", text, limit + 1), 413);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "67108864"));
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, "/v1/traces/large"), "revision"), 1);
}
END_TEST

START_TEST(too_many_requests)
{
  const size_t count = 1000001;
  char *text = scratch_alloc(6 * count + 64);
  size_t length = (size_t)snprintf(text, 64, "arrival_s,input_tokens,output_tokens\n");
  const json_t *problem;
  for (size_t i = 0; i < count; i++, length += 6)
    memcpy(text + length, "0,1,1\n", 6);
  problem = reply_assert_problem(put("many", CSV, NULL, text, length), 413);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "1000000 requests"));
}
END_TEST

/* Less memory for bodies than the route takes: the limit in force is named, at once. */
START_TEST(small_body_memory)
{
  const char *const less[] = {"--body_memory", "1", NULL};
  char *text = scratch_alloc(1024 * 1024 + 1);
  const json_t *problem;
  daemon_stop(&fitd);
  daemon_launch(&fitd, less);
  memset(text, '\n', 1024 * 1024);
  problem = reply_assert_problem(put("chat", CSV, NULL, text, 1024 * 1024), 413);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "1048575"));
  memcpy(text, SMALL, strlen(SMALL));
  reply_assert_status(put("chat", CSV, NULL, text, 1024 * 1024 - 1), 201);
}
END_TEST

static const json_t *evaluate_trace(const char *trace, const char *pointer)
{
  const char *sketch =
      scratch_printf("{\"workload\":\"w\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":100,"
                     "\"output_tokens\":10,\"trace\":%s}}",
                     trace);
  return doc_fault(reply_assert_problem(web_post(&fitd, "/v1/evaluations", sketch), 422), pointer);
}

START_TEST(sketches_name_traces)
{
  const json_t *fault;
  reply_assert_status(put("azure-conv", CSV, NULL, SMALL, 0), 201);
  fault = evaluate_trace("\"azure-con\"", "/traffic/trace");
  ck_assert_str_eq(doc_text(fault, "code"), "unknown_name");
  ck_assert_str_eq(doc_text(fault, "suggestion"), "azure-conv");
  fault = evaluate_trace("{\"name\":\"azure_conv\",\"rate_scale\":2}", "/traffic/trace/name");
  ck_assert_str_eq(doc_text(fault, "suggestion"), "azure-conv");
  fault = evaluate_trace("\"quite-another-name\"", "/traffic/trace");
  ck_assert_ptr_null(doc_at(fault, "suggestion"));
  fault = doc_fault(reply_assert_problem(web_put(&fitd, "/v1/workloads/w",
                                                 "{\"sketch\":{\"workload\":\"w\",\"model\":\"llama-3.1-8b\","
                                                 "\"traffic\":{\"input_tokens\":100,\"output_tokens\":10,"
                                                 "\"trace\":\"azure-con\"}}}"),
                                         422),
                    "/sketch/traffic/trace");
  ck_assert_str_eq(doc_text(fault, "suggestion"), "azure-conv");
}
END_TEST

START_TEST(survives_a_power_cut)
{
  const json_t *made = put_file("mooncake", LINES, "mooncake_synthetic_150.jsonl", 201);
  daemon_kill(&fitd);
  daemon_launch(&fitd, NULL);
  doc_assert_same(web_get_ok(&fitd, "/v1/traces/mooncake"), made);
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/traces/mooncake/requests?limit=1000"), "items")),
                    150);
}
END_TEST

/* Two minutes at one request a second: replayed whole, the digest on the card; the trace stays while a card refers to it. */
START_TEST(a_trace_is_replayed)
{
  char *csv = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&csv, &size);
  const struct reply *reply;
  const json_t *card;
  ck_assert_ptr_nonnull(file);
  fprintf(file, "arrival_s,input_tokens,output_tokens\n");
  for (int i = 0; i < 120; i++)
    fprintf(file, "%d,%d,%d\n", i, 500 + i, 50 + i % 7);
  fprintf(file, "120,300000,10\n");
  ck_assert_int_eq(fclose(file), 0);
  reply = put("steady-minutes", CSV, NULL, csv, 0);
  ck_assert_msg(reply->status == 201, "%ld %.300s", reply->status, reply->body);
  free(csv);
  card = doc_at(web_post_created(&fitd, "/v1/evaluations?depth=full",
                                 "{\"workload\":\"w\",\"model\":\"llama-3.1-8b\",\"profiles\":[\"h100-sxm-80gb\"],"
                                 "\"traffic\":{\"trace\":\"steady-minutes\",\"arrival\":\"steady\"}}"),
                "scorecards.0");
  ck_assert_ptr_nonnull(
      strstr(doc_dump(doc_at(card, "assumptions")), "arrival is not used: a trace has its own times"));
  ck_assert_str_eq(doc_text(card, "trace_digest"), doc_text(reply->json, "digest"));
  ck_assert_double_eq_tol(doc_number(card, "success.rejected"), 1.0 / 121, 1e-9); /* 131,072 tokens of context */
  ck_assert_double_eq_tol(doc_number(card, "throughput.requests_per_s"), 120.0 / 121, 1e-9); /* of one a second */
  ck_assert_ptr_nonnull(strstr(doc_dump(doc_at(card, "findings")), "requests_rejected"));
}
END_TEST

static const char *write_sketch(const char *text)
{
  const char *path = scratch_printf("%s/sketch.json", fitd.dir);
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(text, file), 0);
  ck_assert_int_eq(fclose(file), 0);
  return path;
}

static struct command_result evaluate_file(const char *sketch, const char *trace, const char *server)
{
  const char *const arguments[] = {
      "evaluate", "--json", write_sketch(sketch), "--trace", trace, server != NULL ? "--server" : NULL, server, NULL};
  return command_run(arguments, NULL);
}

/* The file on the command line and the trace in the service are the same requests and get the same card. */
static const struct {
  const char *type, *file;
} recordings[] = {
    {CSV, "azure_2023_conv_400.csv"}, {CSV, "azure_2023_code_400.csv"}, {LINES, "mooncake_synthetic_150.jsonl"}};

START_TEST(the_command_replays_files)
{
  static const char sketch[] = "{\"workload\":\"w\",\"model\":\"llama-3.1-8b\",\"profiles\":[\"h100-sxm-80gb\"],"
                               "\"traffic\":{\"trace\":{\"name\":\"recorded\",\"rate_scale\":0.5}}}";
  static const char *const same[] = {"verdict",    "trace_digest", "seed",    "configuration", "latency",
                                     "throughput", "limits",       "success", "cost",          "stress"};
  const char *path = suite_source_path(scratch_printf("tests/data/traces/%s", recordings[_i].file));
  struct command_result result;
  const json_t *there, *here;
  (void)put_file("recorded", recordings[_i].type, recordings[_i].file, 201);
  there = doc_at(web_post_created(&fitd, "/v1/evaluations", sketch), "scorecards.0");
  result = evaluate_file(sketch, path, NULL);
  ck_assert_msg(result.exit_status == 0 || result.exit_status == 1, "%d %.300s", result.exit_status, result.err);
  here = doc_at(doc_parse(result.out), "scorecards.0");
  ck_assert(!doc_is_null(here, "latency.ttft_ms.p99"));
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    doc_assert_same(doc_at(here, same[i]), doc_at(there, same[i]));
}
END_TEST

START_TEST(the_command_refuses_files)
{
  static const char sketch[] = "{\"workload\":\"w\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"trace\":\"recorded\"}}";
  const char *path = scratch_printf("%s/rows.csv", fitd.dir);
  FILE *file = fopen(path, "wb");
  struct command_result result;
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs("arrival_s,input_tokens,output_tokens\n0,x,10\n1,1,1\n-1,1,1\n", file), 0);
  ck_assert_int_eq(fclose(file), 0);
  result = evaluate_file(sketch, path, NULL);
  ck_assert_int_eq(result.exit_status, 2);
  ck_assert_msg(strstr(result.err, "/lines/2/input_tokens: ") != NULL, "%s", result.err);
  ck_assert_msg(strstr(result.err, "/lines/4/arrival_s: ") != NULL, "%s", result.err);
  result = evaluate_file(sketch, scratch_printf("%s/none.csv", fitd.dir), NULL);
  ck_assert_int_eq(result.exit_status, 2);
  ck_assert_msg(strstr(result.err, "none.csv can not be read") != NULL, "%s", result.err);
  result = evaluate_file(sketch, path, "http://127.0.0.1:9");
  ck_assert_int_eq(result.exit_status, 2);
  ck_assert_msg(strstr(result.err, "PUT /v1/traces/NAME") != NULL, "%s", result.err);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("scenario/traces");
  TCase *tcase = suite_case(suite, "traces", setup, teardown);
  tcase_add_test(tcase, put_and_get);
  tcase_add_test(tcase, listed_and_deleted);
  tcase_add_test(tcase, pages_are_the_trace);
  tcase_add_test(tcase, requests_as_json);
  tcase_add_test(tcase, a_cursor_ends_with_its_trace);
  tcase_add_test(tcase, conditions);
  tcase_add_test(tcase, refusals);
  tcase_add_test(tcase, large_bodies);
  tcase_add_test(tcase, too_many_requests);
  tcase_add_test(tcase, small_body_memory);
  tcase_add_test(tcase, sketches_name_traces);
  tcase_add_test(tcase, a_trace_is_replayed);
  tcase_add_test(tcase, survives_a_power_cut);
  tcase_add_loop_test(tcase, the_command_replays_files, 0, sizeof recordings / sizeof recordings[0]);
  tcase_add_test(tcase, the_command_refuses_files);
  return suite_run(suite);
}
