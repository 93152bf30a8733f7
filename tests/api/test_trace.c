/* Reading traces: the columns of four recordings, their canonical form and statistics, and what is refused with its line.
   Figures of the excerpts come from tests/data/traces/expected.py, the others are derived beside them. */
#include "api/trace.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static struct trace trace;
static struct faults faults;
static struct error error;

static void setup(void)
{
  trace = (struct trace){.format = ""};
}

static void teardown(void)
{
  trace_fini(&trace);
  scratch_release();
}

static enum err read_bytes(enum trace_carrier carrier, const char *text, size_t length)
{
  /* A copy without a terminator, so that reading past the end is caught. */
  char *exact = malloc(length > 0 ? length : 1);
  enum err result;
  ck_assert_ptr_nonnull(exact);
  memcpy(exact, text, length);
  trace_fini(&trace);
  faults.count = 0;
  faults.is_truncated = false;
  error = (struct error){.code = ERR_OK};
  result = trace_read(&trace, carrier, exact, length, &faults, &error);
  free(exact);
  return result;
}

static void assert_read(enum err result)
{
  ck_assert_msg(result == ERR_OK, "%s; %s", error.message, faults.count > 0 ? faults.items[0].detail : "no fault");
}

static void read_csv(const char *text)
{
  assert_read(read_bytes(TRACE_CSV, text, strlen(text)));
}

static void read_lines(const char *text)
{
  assert_read(read_bytes(TRACE_JSON_LINES, text, strlen(text)));
}

static const json_t *statistics(void)
{
  return scratch_json_steal(trace_statistics(&trace.requests));
}

static bool assumes(const char *words)
{
  size_t i;
  json_t *sentence;
  json_array_foreach(trace.assumptions, i, sentence)
  {
    if (strstr(json_string_value(sentence), words) != NULL)
      return true;
  }
  return false;
}

/* ---- Excerpts of what is public ---- */

struct lengths {
  double mean, p50, p90, p99, max;
};

static void check_lengths(const json_t *seen, const struct lengths *expected)
{
  ck_assert_double_eq_tol(doc_number(seen, "mean"), expected->mean, 1e-9);
  ck_assert_double_eq_tol(doc_number(seen, "p50"), expected->p50, 0.1);
  ck_assert_double_eq_tol(doc_number(seen, "p90"), expected->p90, 0.1);
  ck_assert_double_eq_tol(doc_number(seen, "p99"), expected->p99, 0.1);
  ck_assert_double_eq_tol(doc_number(seen, "max"), expected->max, 0.1);
}

static void read_file(const char *name, enum trace_carrier carrier)
{
  const char *text = scratch_read_file(suite_source_path(scratch_printf("tests/data/traces/%s", name)));
  assert_read(read_bytes(carrier, text, strlen(text)));
}

START_TEST(azure_code)
{
  const json_t *seen;
  read_file("azure_2023_code_400.csv", TRACE_CSV);
  seen = statistics();
  ck_assert_str_eq(trace.format, "azure");
  ck_assert_int_eq(doc_integer(seen, "requests"), 400);
  ck_assert_double_eq_tol(doc_number(seen, "duration_s"), 225.106049, 1e-9);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.mean"), 1.7724979038657465, 1e-12);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.peak_minute"), 337.0 / 60.0, 1e-12);
  ck_assert_double_eq_tol(doc_number(seen, "interarrival_cv"), 12.988696215616125, 1e-9);
  check_lengths(doc_at(seen, "input_tokens"), &(struct lengths){2137.545, 1468, 5831, 7436, 7436});
  check_lengths(doc_at(seen, "output_tokens"), &(struct lengths){24.55, 13, 44, 218, 697});
  ck_assert(json_is_null(doc_at(seen, "prefix")));
  ck_assert_str_eq(trace.digest, "sha256:1c2546ad8aef8ef92a737d5495f3059ac32264cee1acb0fce36e660b60b3c051");
  ck_assert(trace.has_start);
  ck_assert_int_eq(trace.starts_at_ms, INT64_C(1700158623979)); /* 2023-11-16T18:17:03.979Z by date(1) */
  ck_assert(assumes("UTC"));
}
END_TEST

START_TEST(azure_conversation)
{
  const json_t *seen;
  read_file("azure_2023_conv_400.csv", TRACE_CSV);
  seen = statistics();
  ck_assert_int_eq(doc_integer(seen, "requests"), 400);
  ck_assert_double_eq_tol(doc_number(seen, "duration_s"), 106.330212, 1e-9);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.mean"), 3.752461247796628, 1e-12);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.peak_minute"), 209.0 / 60.0, 1e-12);
  ck_assert_double_eq_tol(doc_number(seen, "interarrival_cv"), 1.3417158515333543, 1e-9);
  check_lengths(doc_at(seen, "input_tokens"), &(struct lengths){927.615, 990, 1314, 4085, 4107});
  check_lengths(doc_at(seen, "output_tokens"), &(struct lengths){260.0225, 217, 427, 575, 649});
  ck_assert_str_eq(trace.digest, "sha256:02b2c1973d79c4990267f7f9dd62225d2a2d167d70eb5133559ffe0907502c52");
}
END_TEST

START_TEST(mooncake)
{
  const json_t *seen;
  read_file("mooncake_synthetic_150.jsonl", TRACE_JSON_LINES);
  seen = statistics();
  ck_assert_str_eq(trace.format, "mooncake");
  ck_assert_int_eq(doc_integer(seen, "requests"), 150);
  ck_assert_double_eq_tol(doc_number(seen, "duration_s"), 44.31, 1e-9);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.mean"), 3.3626720830512298, 1e-12);
  ck_assert(json_is_null(doc_at(seen, "requests_per_s.peak_minute"))); /* not one full minute */
  ck_assert_double_eq_tol(doc_number(seen, "interarrival_cv"), 0.9911009804083475, 1e-9);
  check_lengths(doc_at(seen, "input_tokens"), &(struct lengths){13585.133333333333, 11172, 36640, 54647, 56397});
  check_lengths(doc_at(seen, "output_tokens"), &(struct lengths){175.91333333333333, 120, 399, 776, 791});
  ck_assert_int_eq(doc_integer(seen, "prefix.blocks"), 4074);
  ck_assert_int_eq(doc_integer(seen, "prefix.distinct_blocks"), 3763);
  ck_assert_double_eq_tol(doc_number(seen, "prefix.shared_input_share"), 0.07798328565049048, 1e-12);
  ck_assert_str_eq(trace.digest, "sha256:e8fc8ba7c88b7ef70e37e411a2093ad904c7b23e376e48155a7e49288619ca00");
  ck_assert(!trace.has_start);
}
END_TEST

/* What BurstGPT's README describes; a response of 0 tokens is a request that failed. */
START_TEST(burstgpt)
{
  read_csv("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
           "5,ChatGPT,472,18,490,Conversation log\n"
           "45,ChatGPT,1087,0,1087,Conversation log\n"
           "118,GPT-4,417,276,693,API log\n");
  ck_assert_str_eq(trace.format, "burstgpt");
  ck_assert_uint_eq(trace.requests.count, 2);
  ck_assert_int_eq(trace.requests.rows[1].arrival_ns, INT64_C(113000000000));
  ck_assert_uint_eq(trace.requests.rows[1].input_tokens, 417);
  ck_assert_uint_eq(trace.requests.rows[1].output_tokens, 276);
  ck_assert(assumes("left out: 1"));
  ck_assert(assumes("not used: Model, Total tokens, Log Type"));
  ck_assert(assumes("came at 5 s"));
}
END_TEST

/* ---- Statistics by hand ---- */

#define HEAD "arrival_s,input_tokens,output_tokens\n"

/* Every second one request for 121 s: gaps do not vary, minutes hold 60, 60 and 2. */
START_TEST(steady)
{
  char *text = scratch_printf(HEAD);
  const json_t *seen;
  for (int i = 0; i <= 121; i++)
    text = scratch_printf("%s%d,100,%d\n", text, i, i + 1);
  read_csv(text);
  seen = statistics();
  ck_assert_double_eq_tol(doc_number(seen, "interarrival_cv"), 0.0, 1e-12);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.mean"), 1.0, 1e-12);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.peak_minute"), 1.0, 1e-12);
  /* outputs 1 … 122: 61 of them do not exceed 61; 0.9 × 122 = 109.8, 0.99 × 122 = 120.78 */
  check_lengths(doc_at(seen, "output_tokens"), &(struct lengths){61.5, 61, 110, 121, 122});
}
END_TEST

/* Gaps 1, 1, 1, 177: mean 45, deviations -44, -44, -44, 132; variance (3 × 1936 + 17424) / 4 = 5808. Minutes hold 4, 0,
   0 and 1 requests. */
START_TEST(burst_and_empty_minutes)
{
  const json_t *seen;
  read_csv(HEAD "0,10,1\n1,10,1\n2,10,1\n3,10,1\n180,10,1\n");
  seen = statistics();
  ck_assert_double_eq_tol(doc_number(seen, "interarrival_cv"), 76.21023553303061 / 45.0, 1e-12);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.mean"), 4.0 / 180.0, 1e-12);
  ck_assert_double_eq_tol(doc_number(seen, "requests_per_s.peak_minute"), 4.0 / 60.0, 1e-12);
}
END_TEST

START_TEST(one_request_and_one_moment)
{
  const json_t *seen;
  read_csv(HEAD "7.5,10,3");
  seen = statistics();
  ck_assert_double_eq_tol(doc_number(seen, "duration_s"), 0.0, 1e-12);
  ck_assert(json_is_null(doc_at(seen, "requests_per_s.mean")));
  ck_assert(json_is_null(doc_at(seen, "interarrival_cv")));
  check_lengths(doc_at(seen, "output_tokens"), &(struct lengths){3, 3, 3, 3, 3});
  read_csv(HEAD "1,10,3\n1,20,3\n1,30,3\n");
  seen = statistics();
  ck_assert(json_is_null(doc_at(seen, "requests_per_s.mean")));
  ck_assert(json_is_null(doc_at(seen, "interarrival_cv")));
  ck_assert_uint_eq(trace.requests.rows[2].input_tokens, 30); /* equal times keep the order of the file */
}
END_TEST

/* Blocks of 512. The second request repeats both blocks of the first and adds one: 1,024; the third repeats one whole block and the input ends within it: 300; the fourth has known blocks, but not at its
   start: 0. In all 1,324 of 600 + 1,500 + 300 + 2,000 = 4,400. */
START_TEST(prefix_share)
{
  const json_t *seen;
  read_csv("arrival_s,input_tokens,output_tokens,prefix_hashes\n"
           "0,600,1,70 80\n1,1500,1,70 80 90\n2,300,1,70\n3,2000,1,11 70 80 90\n");
  seen = statistics();
  ck_assert_int_eq(doc_integer(seen, "prefix.block_tokens"), 512);
  ck_assert_int_eq(doc_integer(seen, "prefix.blocks"), 10);
  ck_assert_int_eq(doc_integer(seen, "prefix.distinct_blocks"), 4);
  ck_assert_double_eq_tol(doc_number(seen, "prefix.shared_input_share"), 1324.0 / 4400.0, 1e-12);
  ck_assert(assumes("512 tokens"));
}
END_TEST

/* A block that comes twice in the first request is new there: nothing came before. */
START_TEST(prefix_of_the_first_request)
{
  read_csv("arrival_s,input_tokens,output_tokens,prefix_hashes\n0,1024,1,5 5\n");
  ck_assert_double_eq_tol(doc_number(statistics(), "prefix.shared_input_share"), 0.0, 1e-12);
  ck_assert_int_eq(doc_integer(statistics(), "prefix.distinct_blocks"), 1);
}
END_TEST

/* ---- One form for equal recordings ---- */

static const char *digest_of(const char *csv)
{
  read_csv(csv);
  return scratch_printf("%s", trace.digest);
}

START_TEST(spelling_does_not_matter)
{
  const char *plain = digest_of(HEAD "0,5,6\n0.25,7,8\n1.5,9,10\n");
  static const char *const same[] = {
      "ARRIVAL_S,Input_Tokens,output_tokens\r\n0,5,6\r\n0.25,7,8\r\n1.5,9,10", /* no final newline */
      "\xEF\xBB\xBF" HEAD "\n0.0,5,6\n\n2.5e-1,7,8\n15E-1,9,10\n",
      "output_tokens,arrival_s,input_tokens\n6,1700000000,5\n8,1700000000.25,7\n10,1700000001.5,9\n",
      HEAD "\"0\",\"5\",\"6\"\n 0.2500000000 , 7,8 \n1.4999999999,9,10\n",
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-28 23:59:59.9000000,5,6\n2024-02-29 00:00:00.15,7,8\n"
      "2024-02-29 00:00:01.4,9,10\n",
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 02:00:00.000000+02:00,5,6\n2024-05-10T00:00:00.250Z,7,8\n"
      "2024-05-10 00:00:01.5+00:00,9,10\n",
      "timestamp,input_length,output_length,hash_ids\n1000,5,6,\n1250,7,8,\n2500,9,10,\n"};
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    ck_assert_msg(strcmp(digest_of(same[i]), plain) == 0, "%zu: %s", i, same[i]);
  read_lines("\xEF\xBB\xBF{\"arrival_s\":0,\"input_tokens\":5,\"output_tokens\":6}\r\n\r\n"
             "{\"output_tokens\":8,\"input_tokens\":7,\"arrival_s\":0.25,\"prefix_hashes\":[]}\n"
             "{\"arrival_s\":1.5,\"input_tokens\":9,\"output_tokens\":10}");
  ck_assert_str_eq(trace.digest, plain);
  ck_assert_str_ne(digest_of(HEAD "0,5,6\n0.25,7,8\n1.5,9,11\n"), plain);
  ck_assert_str_ne(digest_of(HEAD "0,5,6\n0.25,7,8\n1.500000001,9,10\n"), plain);
}
END_TEST

START_TEST(order_does_not_matter_and_is_said)
{
  const char *sorted = digest_of(HEAD "0,5,6\n1,7,8\n2,9,10\n");
  ck_assert(!assumes("sorted"));
  ck_assert_str_eq(digest_of(HEAD "2,9,10\n0,5,6\n1,7,8\n"), sorted);
  ck_assert(assumes("1 request came earlier"));
  ck_assert_str_eq(digest_of(HEAD "2,9,10\n1,7,8\n0,5,6\n"), sorted);
  ck_assert(assumes("2 requests came earlier"));
}
END_TEST

/* The hashes go with their requests when these are sorted, and are numbered afterwards. */
START_TEST(hashes_follow_their_requests)
{
  const char *head = "arrival_s,input_tokens,output_tokens,prefix_hashes\n";
  const char *one = digest_of(scratch_printf("%s1,2000,1,18446744073709551615 7\n0,2000,1,9 7 3\n", head));
  const struct store_trace_request *rows = trace.requests.rows;
  static const uint32_t expected[] = {0, 1, 2, 3, 1}; /* 9 7 3, then 2^64-1 7 */
  ck_assert_uint_eq(rows[0].prefix_count, 3);
  ck_assert_uint_eq(rows[1].prefix_count, 2);
  ck_assert_uint_eq(rows[1].prefix_first, 3);
  ck_assert_uint_eq(trace.requests.prefix_hash_count, 5);
  ck_assert_mem_eq(trace.requests.prefix_hashes, expected, sizeof expected);
  ck_assert_str_eq(digest_of(scratch_printf("%s0,2000,1,0;1;2\n1,2000,1, 3 1 \n", head)), one);
}
END_TEST

START_TEST(what_is_written_is_read_back)
{
  struct text text = {NULL, 0, 0, false};
  struct trace first;
  size_t length;
  char *csv;
  read_file("mooncake_synthetic_150.jsonl", TRACE_JSON_LINES);
  first = trace;
  trace = (struct trace){.format = ""};
  trace_write_csv(&text, &first.requests);
  csv = text_take(&text, &length);
  assert_read(read_bytes(TRACE_CSV, csv, length));
  ck_assert_str_eq(trace.format, "native");
  ck_assert_str_eq(trace.digest, first.digest);
  free(csv);
  for (size_t i = 0; i < first.requests.count; i++) {
    if (i > 0)
      text_puts(&text, "\n");
    trace_write_json(&text, &first.requests, i);
  }
  csv = text_take(&text, &length);
  assert_read(read_bytes(TRACE_JSON_LINES, csv, length));
  ck_assert_str_eq(trace.digest, first.digest);
  free(csv);
  trace_fini(&first);
}
END_TEST

/* Unix times with more digits than a double has; the tenth digit rounds. */
START_TEST(times_are_exact)
{
  read_csv(HEAD "1700158623.979960001,1,1\n1700158623.9799600024,1,1\n1700158623.9799600025,1,1\n"
                "1700158623.97996000351,1,1\n");
  ck_assert_int_eq(trace.requests.rows[1].arrival_ns, 1);
  ck_assert_int_eq(trace.requests.rows[2].arrival_ns, 2);
  ck_assert_int_eq(trace.requests.rows[3].arrival_ns, 3);
  read_csv(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-12-31 23:59:59.9999999,1,1\n2024-01-01 00:00:00.0000001,1,1\n");
  ck_assert_int_eq(trace.requests.rows[1].arrival_ns, 200);
}
END_TEST

/* ---- What is refused ---- */

struct refusal {
  const char *text, *pointer, *words, *suggestion;
};

static void check_refusal(enum trace_carrier carrier, const struct refusal *refusal)
{
  const enum err result = read_bytes(carrier, refusal->text, strlen(refusal->text));
  const struct fault *fault = &faults.items[0];
  ck_assert_msg(result == ERR_INVALID && faults.count == 1, "%s: %s, %zu faults: %s", refusal->text, error_slug(result),
                faults.count, faults.count > 0 ? fault->detail : "");
  ck_assert_msg(strcmp(fault->pointer, refusal->pointer) == 0 && strstr(fault->detail, refusal->words) != NULL,
                "%s: %s: %s", refusal->text, fault->pointer, fault->detail);
  ck_assert_msg(strcmp(fault->suggestion, refusal->suggestion != NULL ? refusal->suggestion : "") == 0, "%s: %s",
                refusal->text, fault->suggestion);
  ck_assert_ptr_null(trace.requests.rows);
}

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
#define HASHES "arrival_s,input_tokens,output_tokens,prefix_hashes\n"

START_TEST(csv_refusals)
{
  static const struct refusal refusals[] = {
      {"", "", "is empty", NULL},
      {"\r\n\n", "", "is empty", NULL},
      {HEAD, "", "is empty", NULL},
      {HEAD "0,1,x\n", "/lines/2/output_tokens", "line 2: output_tokens is \"x\"; a whole number from 1 to 10000000",
       NULL},
      {HEAD "\n\n0,1,\n", "/lines/4/output_tokens", "is empty", NULL},
      {HEAD "0,1.5,1\n", "/lines/2/input_tokens", "is \"1.5\"", NULL},
      {HEAD "0,0,1\n", "/lines/2/input_tokens", "from 1", NULL},
      {HEAD "0,10000001,1\n", "/lines/2/input_tokens", "10000001", NULL},
      {HEAD "0,99999999999999999999999,1\n", "/lines/2/input_tokens", "whole number", NULL},
      {HEAD "0,-3,1\n", "/lines/2/input_tokens", "is \"-3\"", NULL},
      {HEAD "0,1,1 2\n", "/lines/2/output_tokens", "is \"1 2\"", NULL},
      {HEAD "-1,1,1\n", "/lines/2/arrival_s", "is \"-1\"; a time must not be negative", NULL},
      {HEAD "nan,1,1\n", "/lines/2/arrival_s", "is \"nan\"; a number or a date", NULL},
      {HEAD "inf,1,1\n", "/lines/2/arrival_s", "a number or a date", NULL},
      {HEAD "0x10,1,1\n", "/lines/2/arrival_s", "a number or a date", NULL},
      {HEAD "1e,1,1\n", "/lines/2/arrival_s", "a number or a date", NULL},
      {HEAD ".,1,1\n", "/lines/2/arrival_s", "a number or a date", NULL},
      {HEAD ",1,1\n", "/lines/2/arrival_s", "is empty", NULL},
      {HEAD "1e300,1,1\n", "/lines/2/arrival_s", "at most 9e9 s", NULL},
      {HEAD "9000000001,1,1\n", "/lines/2/arrival_s", "at most 9e9 s", NULL},
      {HEAD "99999999999999999999999,1,1\n", "/lines/2/arrival_s", "at most 9e9 s", NULL},
      {HEAD "0,1,1\n2,3\n", "/lines/3", "line 3: has 2 fields, the header 3", NULL},
      {HEAD "0,1,1,1\n", "/lines/2", "has 4 fields", NULL},
      {HEAD "0,1,1\n2024-01-01 00:00:00,1,1\n", "/lines/3/arrival_s", "is a date, the first one a number", NULL},
      {AZURE "2023-02-29 00:00:00,1,1", "/lines/2/TIMESTAMP", "from 1970 on", NULL},
      {AZURE "1969-12-31 23:59:59,1,1", "/lines/2/TIMESTAMP", "from 1970 on", NULL},
      {AZURE "2023-11-16 18:17,1,1", "/lines/2/TIMESTAMP", "a date and time like", NULL},
      {AZURE "2023-11-16 18:17:03.,1,1", "/lines/2/TIMESTAMP", "a date and time like", NULL},
      {AZURE "2023-11-16 18:17:03 PM,1,1", "/lines/2/TIMESTAMP", "a date and time like", NULL},
      {AZURE "2023-11-16 18:17:03,0,0", "", "none of 1 requests", NULL},
      {HASHES "0,512,1,1 2\n", "/lines/2/prefix_hashes", "has 2 hashes; an input of 512 tokens is 1 blocks of 512",
       NULL},
      {HASHES "0,512,1,a\n", "/lines/2/prefix_hashes", "is \"a\"; whole numbers from 0 on", NULL},
      {HASHES "0,512,1,-1\n", "/lines/2/prefix_hashes", "is \"-1\"", NULL},
      {HASHES "0,512,1,18446744073709551616\n", "/lines/2/prefix_hashes", "whole numbers", NULL},
      {"TIMESTAMP,ContextTokens,GeneratedToken\n", "/lines/1/GeneratedTokens", "\"GeneratedToken\" is seen", NULL},
      {"arrival_s,input_tokens,output_tokens,prefix_hash\n0,1,1,\n", "/lines/1/prefix_hash", "not known",
       "prefix_hashes"},
      {"TIMESTAMP,ContextTokens,Model\n", "/lines/1/GeneratedTokens", "required by the azure columns", NULL},
      {"0,1,1\n2,3,4\n", "/lines/1", "the columns \"0, 1, 1\" are of no known trace", NULL},
      {"timestamp,value\n1,2\n", "/lines/1", "of no known trace", NULL},
      {"arrival_s,input_tokens,input_tokens,output_tokens\n", "/lines/1/input_tokens", "twice", NULL},
      {HEAD "0,1,\"1\n2,3,4\n", "/lines/4", "is no CSV", NULL},
      {"timestamp,input_length,output_length,note\n0,1,1,caf\xE9\n", "/lines/2", "field 4 is not UTF-8", NULL},
      {"\xFF\xFE"
       "a",
       "/lines/1", "UTF-16", NULL},
  };
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
    check_refusal(TRACE_CSV, &refusals[i]);
}
END_TEST

#define LINE "{\"timestamp\":0,\"input_length\":600,\"output_length\":1,\"hash_ids\":[1,2]}\n"

START_TEST(json_refusals)
{
  static const struct refusal refusals[] = {
      {"", "", "is empty", NULL},
      {LINE "{\"timestamp\":0,", "/lines/2", "line 2: is no JSON", NULL},
      {LINE "[]\n", "/lines/2", "is an array; an object is expected", NULL},
      {LINE "{\"timestamp\":0,\"input_length\":600}\n", "/lines/2/output_length", "is missing", NULL},
      {LINE "{\"timestamp\":-5,\"input_length\":6,\"output_length\":1}\n", "/lines/2/timestamp",
       "is -5; a time must not be negative", NULL},
      {LINE "{\"timestamp\":true,\"input_length\":6,\"output_length\":1}\n", "/lines/2/timestamp", "is true", NULL},
      {LINE "{\"timestamp\":null,\"input_length\":6,\"output_length\":1}\n", "/lines/2/timestamp", "is null", NULL},
      {LINE "{\"timestamp\":NaN,\"input_length\":6,\"output_length\":1}\n", "/lines/2", "is no JSON", NULL},
      {LINE "{\"timestamp\":1,\"input_length\":\"6\",\"output_length\":1}\n", "/lines/2/input_length", "is \"6\"",
       NULL},
      {LINE "{\"timestamp\":1,\"input_length\":6.0,\"output_length\":1}\n", "/lines/2/input_length", "is 6", NULL},
      {LINE "{\"timestamp\":1,\"input_length\":6,\"output_length\":1,\"hash_ids\":7}\n", "/lines/2/hash_ids",
       "in an array", NULL},
      {LINE "{\"timestamp\":1,\"input_length\":6,\"output_length\":1,\"hash_ids\":[1.5]}\n", "/lines/2/hash_ids",
       "in an array", NULL},
      {LINE "{\"timestamp\":1,\"input_length\":6,\"output_length\":1,\"hash_ids\":[1,2]}\n", "/lines/2/hash_ids",
       "has 2 hashes", NULL},
      {LINE "{\"timestamp\":1,\"timestamp\":2,\"input_length\":6,\"output_length\":1}\n", "/lines/2", "is no JSON",
       NULL},
      {"{\"a\":1}\n{\"b\":2}\n", "/lines/1", "of no known trace", NULL},
      {"{\"arrival_s\":0,\"input_tokens\":1,\"output_tokens\":1}\n"
       "{\"arrival_s\":0,\"input_tokens\":1,\"output_tokens\":1,\"model\":\"x\"}\n",
       "/lines/2/model", "not known", NULL},
  };
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
    check_refusal(TRACE_JSON_LINES, &refusals[i]);
}
END_TEST

/* As in a sketch: what is not known, with what was meant, and what is missing. */
START_TEST(a_misspelt_column)
{
  const char *text = "arrival_s,input_tokens,output_token\n0,1,1\n";
  ck_assert_int_eq(read_bytes(TRACE_CSV, text, strlen(text)), ERR_INVALID);
  ck_assert_uint_eq(faults.count, 2);
  ck_assert_str_eq(faults.items[0].pointer, "/lines/1/output_tokens");
  ck_assert_str_eq(faults.items[1].pointer, "/lines/1/output_token");
  ck_assert_str_eq(faults.items[1].suggestion, "output_tokens");
}
END_TEST

START_TEST(all_faults_at_once)
{
  char *text = scratch_printf("%s", HEAD "x,y,z\n0,1,1\n1,2\n");
  ck_assert_int_eq(read_bytes(TRACE_CSV, text, strlen(text)), ERR_INVALID);
  ck_assert_uint_eq(faults.count, 4);
  ck_assert_str_eq(faults.items[2].pointer, "/lines/2/output_tokens");
  ck_assert_str_eq(faults.items[3].pointer, "/lines/4");
  for (int i = 0; i < 100; i++)
    text = scratch_printf("%s0,0,1\n", text);
  ck_assert_int_eq(read_bytes(TRACE_CSV, text, strlen(text)), ERR_INVALID);
  ck_assert_uint_eq(faults.count, FAULTS_MAX);
  ck_assert(faults.is_truncated);
  ck_assert_str_eq(faults.items[FAULTS_MAX - 1].pointer, "/lines/64/input_tokens"); /* 4, then one a line from 5 on */
}
END_TEST

START_TEST(zero_bytes_are_refused)
{
  static const char inside[] = HEAD "0,1\0,1\n", wide[] = "a\0r\0r\0";
  ck_assert_int_eq(read_bytes(TRACE_CSV, inside, sizeof inside - 1), ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(faults.items[0].detail, "NUL"));
  ck_assert_int_eq(read_bytes(TRACE_CSV, wide, sizeof wide - 1), ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(faults.items[0].detail, "UTF-16"));
  ck_assert_int_eq(read_bytes(TRACE_JSON_LINES, wide, sizeof wide - 1), ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(faults.items[0].detail, "UTF-16"));
}
END_TEST

static char *repeated(const char *head, const char *row, size_t count, size_t *length)
{
  const size_t row_length = strlen(row);
  char *text = scratch_alloc(strlen(head) + count * row_length + 1);
  memcpy(text, head, strlen(head));
  for (size_t i = 0; i < count; i++)
    memcpy(text + strlen(head) + i * row_length, row, row_length);
  *length = strlen(head) + count * row_length;
  return text;
}

START_TEST(limits)
{
  size_t length;
  const char *hashes = "0,2097152,1,";
  const char *text = repeated(HEAD, "0,1,1\n", TRACE_REQUESTS_MAX, &length);
  assert_read(read_bytes(TRACE_CSV, text, length));
  ck_assert_uint_eq(trace.requests.count, TRACE_REQUESTS_MAX);
  text = repeated(HEAD, "0,1,1\n", TRACE_REQUESTS_MAX + 1, &length);
  ck_assert_int_eq(read_bytes(TRACE_CSV, text, length), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(error.message, "1000000 requests"));
  hashes = repeated(hashes, "1 ", 4096, &length);
  text = repeated(HASHES, scratch_printf("%s\n", hashes), TRACE_HASHES_MAX / 4096 + 1, &length);
  ck_assert_int_eq(read_bytes(TRACE_CSV, text, length), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(error.message, "4000000 prefix hashes"));
}
END_TEST

/* Cutting a good text anywhere gives a shorter trace or a fault, and never more. */
START_TEST(any_beginning_is_read_or_refused)
{
  static const char *const texts[] = {AZURE "2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.03,3180,8",
                                      HASHES "0,512,1,1\n\"1\",\"512\",1,2 \n", LINE LINE};
  for (size_t i = 0; i < 3; i++)
    for (size_t length = 0; length <= strlen(texts[i]); length++) {
      const enum err result = read_bytes(i == 2 ? TRACE_JSON_LINES : TRACE_CSV, texts[i], length);
      ck_assert_msg(result == ERR_OK ? trace.requests.count > 0 && faults.count == 0
                                     : result == ERR_INVALID && faults.count > 0,
                    "%zu: %.*s", i, (int)length, texts[i]);
    }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/trace");
  TCase *tcase = suite_case(suite, "trace", setup, teardown);
  tcase_add_test(tcase, azure_code);
  tcase_add_test(tcase, azure_conversation);
  tcase_add_test(tcase, mooncake);
  tcase_add_test(tcase, burstgpt);
  tcase_add_test(tcase, steady);
  tcase_add_test(tcase, burst_and_empty_minutes);
  tcase_add_test(tcase, one_request_and_one_moment);
  tcase_add_test(tcase, prefix_share);
  tcase_add_test(tcase, prefix_of_the_first_request);
  tcase_add_test(tcase, spelling_does_not_matter);
  tcase_add_test(tcase, order_does_not_matter_and_is_said);
  tcase_add_test(tcase, hashes_follow_their_requests);
  tcase_add_test(tcase, what_is_written_is_read_back);
  tcase_add_test(tcase, times_are_exact);
  tcase_add_test(tcase, csv_refusals);
  tcase_add_test(tcase, json_refusals);
  tcase_add_test(tcase, a_misspelt_column);
  tcase_add_test(tcase, all_faults_at_once);
  tcase_add_test(tcase, zero_bytes_are_refused);
  tcase_add_test(tcase, limits);
  tcase_add_test(tcase, any_beginning_is_read_or_refused);
  return suite_run(suite);
}
