/* Readers: every kind of fault with its pointer, suggestions, pointers, bodies. Expected values are the contract's words. */
#include "api/read.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct faults faults;

static void setup(void)
{
  memset(&faults, 0, sizeof faults);
}

static void teardown(void)
{
  scratch_release();
}

static json_t *parse(const char *text)
{
  return scratch_json_steal(json_loads(text, JSON_DECODE_ANY, NULL));
}

static void expect_fault(size_t index, enum fault_code code, const char *pointer, const char *suggestion)
{
  ck_assert_uint_lt(index, faults.count);
  ck_assert_str_eq(faults.items[index].pointer, pointer);
  ck_assert_int_eq(faults.items[index].code, code);
  ck_assert_str_eq(faults.items[index].suggestion, suggestion);
}

static const char *const colours[] = {"red", "green", "blue", NULL};

struct sample {
  double number, bounded;
  unsigned count;
  int64_t integer;
  bool flag;
  int tristate, word;
  char text[6], name[65];
};

static void read_sample(struct sample *out, const char *text)
{
  const struct read_field fields[] = {
      {.name = "number", .kind = READ_NUMBER, .to = &out->number},
      {.name = "bounded", .kind = READ_NUMBER, .to = &out->bounded, .min = 0, .max = 10},
      {.name = "count", .kind = READ_COUNT, .to = &out->count},
      {.name = "integer", .kind = READ_INTEGER, .allows_null = true, .to = &out->integer},
      {.name = "flag", .kind = READ_BOOL, .to = &out->flag},
      {.name = "tristate", .kind = READ_TRISTATE, .to = &out->tristate},
      {.name = "word", .kind = READ_WORD, .to = &out->word, .words = colours},
      {.name = "text", .kind = READ_TEXT, .to = out->text, .size = sizeof out->text},
      {.name = "name", .kind = READ_NAME, .is_required = true, .to = out->name, .size = sizeof out->name},
      {.name = "other", .kind = READ_IGNORE},
  };
  memset(out, 0, sizeof *out);
  out->tristate = -1;
  out->word = -1;
  out->integer = 7;
  ck_assert(read_object(parse(text), "/a", fields, sizeof fields / sizeof fields[0], &faults));
}

START_TEST(good_values)
{
  struct sample sample;
  read_sample(&sample, "{\"number\": -1.5, \"bounded\": 10, \"count\": 4294967295, \"integer\": null, \"flag\": true,"
                       "\"tristate\": false, \"word\": \"blue\", \"text\": \"h\xc3\xa9llo\", \"name\": \"a.b-c_9\","
                       "\"other\": {\"x\": 1}, \"$schema\": \"s\", \"description\": \"d\"}");
  /* "héllo" is six bytes and does not fit; everything else is fine */
  ck_assert_uint_eq(faults.count, 1);
  expect_fault(0, FAULT_OUT_OF_RANGE, "/a/text", "");
  ck_assert_double_eq_tol(sample.number, -1.5, 1e-12);
  ck_assert_double_eq_tol(sample.bounded, 10, 1e-12);
  ck_assert_uint_eq(sample.count, 4294967295u);
  ck_assert_int_eq(sample.integer, 7); /* null counts as absent */
  ck_assert(sample.flag);
  ck_assert_int_eq(sample.tristate, 0);
  ck_assert_int_eq(sample.word, 2);
  ck_assert_str_eq(sample.text, "");
  ck_assert_str_eq(sample.name, "a.b-c_9");
}
END_TEST

START_TEST(every_fault_at_once)
{
  struct sample sample;
  read_sample(&sample,
              "{\"nmber\": 1, \"number\": \"1\", \"bounded\": 10.5, \"count\": 3.0, \"integer\": true, \"flag\": 1,"
              "\"tristate\": null, \"word\": \"gren\", \"text\": \"\", \"na/me~\": 1}");
  expect_fault(0, FAULT_UNKNOWN_FIELD, "/a/nmber", "number");
  expect_fault(1, FAULT_UNKNOWN_FIELD, "/a/na~1me~0", "name");
  expect_fault(2, FAULT_WRONG_TYPE, "/a/number", "");
  expect_fault(3, FAULT_OUT_OF_RANGE, "/a/bounded", "");
  expect_fault(4, FAULT_WRONG_TYPE, "/a/count", "");
  expect_fault(5, FAULT_WRONG_TYPE, "/a/integer", "");
  expect_fault(6, FAULT_WRONG_TYPE, "/a/flag", "");
  expect_fault(7, FAULT_WRONG_TYPE, "/a/tristate", "");
  expect_fault(8, FAULT_UNKNOWN_VALUE, "/a/word", "green");
  expect_fault(9, FAULT_OUT_OF_RANGE, "/a/text", "");
  expect_fault(10, FAULT_MISSING, "/a/name", "");
  ck_assert_uint_eq(faults.count, 11);
  ck_assert_int_eq(sample.word, -1); /* a faulty field leaves its value */
}
END_TEST

START_TEST(counts_are_bounded_by_their_type)
{
  struct sample sample;
  read_sample(&sample, "{\"count\": 4294967296, \"name\": \"x\"}");
  expect_fault(0, FAULT_OUT_OF_RANGE, "/a/count", "");
  setup();
  read_sample(&sample, "{\"count\": -1, \"name\": \"x\"}");
  expect_fault(0, FAULT_OUT_OF_RANGE, "/a/count", "");
}
END_TEST

START_TEST(names_are_checked_and_suggested)
{
  static const struct {
    const char *text, *suggestion;
  } bad[] = {{"\"Support Chat\"", "support-chat"}, {"\"-x\"", ""}, {"\"\"", ""}, {"\"a/b\"", "a-b"}};
  struct sample sample;
  size_t i;
  for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    setup();
    read_sample(&sample, scratch_printf("{\"name\": %s}", bad[i].text));
    ck_assert_uint_eq(faults.count, 1);
    expect_fault(0, FAULT_UNKNOWN_VALUE, "/a/name", bad[i].suggestion);
  }
  ck_assert(read_is_name("0"));
  ck_assert(read_is_name("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")); /* 64 */
  ck_assert(!read_is_name("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
  ck_assert(!read_is_name("A"));
}
END_TEST

START_TEST(control_characters_are_refused)
{
  struct sample sample;
  read_sample(&sample, "{\"text\": \"a\\nb\", \"name\": \"x\"}");
  expect_fault(0, FAULT_OUT_OF_RANGE, "/a/text", "");
}
END_TEST

START_TEST(not_an_object)
{
  ck_assert(!read_object(parse("[]"), "", NULL, 0, &faults));
  expect_fault(0, FAULT_WRONG_TYPE, "", "");
  ck_assert_str_eq(faults.items[0].detail, "is an array; an object is expected");
}
END_TEST

START_TEST(nearest_words)
{
  static const char *const words[] = {"requests_per_s", "concurrency",  "ttft_ms",
                                      "llama-3.1-70b",  "llama-3.1-8b", NULL};
  static const char *const empty[] = {NULL};
  ck_assert_str_eq(read_nearest("request_per_sec", words), "requests_per_s"); /* one gone, two more: 3 */
  ck_assert_str_eq(read_nearest("concurency", words), "concurrency");
  ck_assert_str_eq(read_nearest("concurrecny", words), "concurrency"); /* a swap is one edit */
  ck_assert_str_eq(read_nearest("ttft", words), "ttft_ms");            /* the beginning of a word */
  ck_assert_str_eq(read_nearest("Llama-3.1-70B", words), "llama-3.1-70b");
  ck_assert_str_eq(read_nearest("llama-3.1-7b", words), "llama-3.1-70b"); /* the first of two at distance 1 */
  ck_assert_ptr_null(read_nearest("temperature", words));
  ck_assert_ptr_null(read_nearest("x", words));
  ck_assert_ptr_null(read_nearest("", words));
  ck_assert_ptr_null(read_nearest("concurrency", empty));
  ck_assert_ptr_null(read_nearest("concurrency concurrency concurrency concurrency concurrency concurrency",
                                  words)); /* over 64 bytes */
}
END_TEST

START_TEST(pointers_are_escaped_and_cut)
{
  char pointer[16];
  read_pointer(pointer, sizeof pointer, "/a", "b/c~d");
  ck_assert_str_eq(pointer, "/a/b~1c~0d");
  read_pointer(pointer, sizeof pointer, "/0123456789012", "b");
  ck_assert_str_eq(pointer, "/0123456789012/");
  read_pointer(pointer, sizeof pointer, "", "01234567890123/");
  ck_assert_str_eq(pointer, "/01234567890123"); /* an escape is never cut in two */
  read_pointer_index(pointer, sizeof pointer, "/a", 12);
  ck_assert_str_eq(pointer, "/a/12");
}
END_TEST

START_TEST(excerpts_are_cut_between_characters)
{
  char to[READ_EXCERPT_SIZE];
  ck_assert_str_eq(read_excerpt(to, "a\tb"), "a?b");
  ck_assert_str_eq(read_excerpt(to, "123456789012345678901234567890123456789012345678"),
                   "123456789012345678901234567890123456789012345678");
  ck_assert_str_eq(read_excerpt(to, "12345678901234567890123456789012345678901234567\xc3\xa9"),
                   "12345678901234567890123456789012345678901234567…");
}
END_TEST

static void expect_body(const char *body, size_t length, int line, int column)
{
  struct error e;
  json_t *document;
  int seen_line, seen_column;
  ck_assert_int_eq(read_json(&document, body, length, &seen_line, &seen_column, &e), ERR_INVALID);
  ck_assert_ptr_null(document);
  ck_assert_int_eq(seen_line, line);
  ck_assert_int_eq(seen_column, column);
}

START_TEST(bodies_that_are_not_json)
{
  static const char deep_in_string[] = "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[\"]";
  struct error e;
  json_t *document;
  int line, column;
  expect_body("", 0, 1, 1);
  expect_body("  \n", 3, 1, 1);
  expect_body("{\n  \"a\": }", 10, 2, 8);
  expect_body("{\"a\":1,\"a\":2}", 13, 1, 10);
  expect_body("[NaN]", 5, 1, 4);
  expect_body("[-Infinity]", 11, 1, 2);
  expect_body("\"\xff\"", 3, 1, 1);
  expect_body("{} 1", 4, 1, 4);
  expect_body("\n\n [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 36, 3, 34); /* the 33rd bracket after one blank */
  ck_assert_int_eq(read_json(&document, deep_in_string, strlen(deep_in_string), &line, &column, &e), ERR_OK);
  json_decref(document);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/read");
  TCase *tcase = suite_case(suite, "read", setup, teardown);
  tcase_add_test(tcase, good_values);
  tcase_add_test(tcase, every_fault_at_once);
  tcase_add_test(tcase, counts_are_bounded_by_their_type);
  tcase_add_test(tcase, names_are_checked_and_suggested);
  tcase_add_test(tcase, control_characters_are_refused);
  tcase_add_test(tcase, not_an_object);
  tcase_add_test(tcase, nearest_words);
  tcase_add_test(tcase, pointers_are_escaped_and_cut);
  tcase_add_test(tcase, excerpts_are_cut_between_characters);
  tcase_add_test(tcase, bodies_that_are_not_json);
  return suite_run(suite);
}
