/* The CSV reader against RFC 4180: expected fields are written out by hand from the text of the standard. */
#include "api/csv.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <stdint.h>
#include <string.h>

static struct csv csv;
static struct error e;

static void setup(void)
{
  memset(&csv, 0, sizeof csv);
  memset(&e, 0, sizeof e);
}

static void teardown(void)
{
  csv_fini(&csv);
  scratch_release();
}

static void start(const char *text)
{
  csv_init(&csv, text, strlen(text));
}

/* The next record has these fields; the list ends with NULL. */
static void expect_record(unsigned line, const char *const *fields)
{
  size_t count = 0;
  ck_assert_msg(csv_next(&csv, &e), "no record on line %u: %s", line, e.message);
  ck_assert_uint_eq(csv.line, line);
  for (; fields[count] != NULL; count++)
    ck_assert_str_eq(csv_field(&csv, count), fields[count]);
  ck_assert_uint_eq(csv.count, count);
}
#define RECORD(line, ...) expect_record(line, (const char *const[]){__VA_ARGS__, NULL})

static void expect_end(void)
{
  ck_assert(!csv_next(&csv, &e));
  ck_assert_int_eq(e.code, ERR_OK);
}

static void expect_fault(const char *message)
{
  ck_assert(!csv_next(&csv, &e));
  ck_assert_int_eq(e.code, ERR_INVALID);
  ck_assert_str_eq(e.message, message);
}

START_TEST(plain_records)
{
  start("a,b,c\n1,2,3\n");
  RECORD(1, "a", "b", "c");
  RECORD(2, "1", "2", "3");
  expect_end();
}
END_TEST

START_TEST(line_ends_may_be_crlf_and_the_last_may_be_absent)
{
  start("a,b\r\n1,2\r\n3,4");
  RECORD(1, "a", "b");
  RECORD(2, "1", "2");
  RECORD(3, "3", "4");
  expect_end();
}
END_TEST

START_TEST(a_lone_carriage_return_belongs_to_its_field)
{
  start("a\rb,c\n");
  RECORD(1, "a\rb", "c");
  expect_end();
}
END_TEST

START_TEST(quotes_hold_commas_quotes_and_lines)
{
  start("\"a,b\",\"say \"\"yes\"\"\",\"two\r\nlines\"\nnext,\"\",\"\"\"\"\n");
  RECORD(1, "a,b", "say \"yes\"", "two\r\nlines");
  RECORD(3, "next", "", "\"");
  expect_end();
}
END_TEST

START_TEST(empty_fields_count_and_empty_lines_do_not)
{
  start("\n,\n\n\"\"\n\n");
  RECORD(2, "", "");
  RECORD(4, "");
  expect_end();
}
END_TEST

START_TEST(spaces_are_part_of_a_field)
{
  start(" a , b\n");
  RECORD(1, " a ", " b");
}
END_TEST

START_TEST(a_byte_order_mark_is_not_part_of_the_first_name)
{
  start("\xEF\xBB\xBFid,x\n");
  RECORD(1, "id", "x");
}
END_TEST

START_TEST(nothing_at_all)
{
  start("");
  expect_end();
}
END_TEST

START_TEST(columns_by_name_and_short_records)
{
  start("id,model,value\nm1,x\n");
  ck_assert(csv_next(&csv, &e));
  ck_assert_uint_eq(csv_column(&csv, "value"), 2);
  ck_assert_uint_eq(csv_column(&csv, "val"), SIZE_MAX);
  ck_assert(csv_next(&csv, &e));
  ck_assert_str_eq(csv_field(&csv, 1), "x");
  ck_assert_str_eq(csv_field(&csv, 2), "");
  ck_assert_str_eq(csv_field(&csv, SIZE_MAX), "");
}
END_TEST

START_TEST(a_quote_without_end_names_the_line_it_starts_on)
{
  start("a\n\"b\nc\nd\n");
  RECORD(1, "a");
  expect_fault("line 2: a quoted field has no closing quote");
}
END_TEST

START_TEST(strays_are_named_with_line_and_field)
{
  start("a,b\n1,2\"3\n");
  RECORD(1, "a", "b");
  expect_fault("line 2: field 2 holds a stray quote");
  csv_fini(&csv);
  start("\"a\"b,c\n");
  expect_fault("line 1: field 1 holds a stray character after its closing quote");
}
END_TEST

START_TEST(a_nul_is_refused_inside_and_outside_of_quotes)
{
  csv_init(&csv, "a,b\0c\n", 6);
  expect_fault("line 1: field 2 holds a stray NUL");
  csv_fini(&csv);
  csv_init(&csv, "a,\"b\n\0c\"\n", 9);
  expect_fault("line 2: field 2 holds a stray NUL");
}
END_TEST

static char *line_of_fields(size_t count)
{
  char *text = scratch_alloc(2 * count + 1);
  for (size_t i = 0; i < count; i++)
    memcpy(text + 2 * i, i + 1 < count ? "x," : "x\n", 2);
  return text;
}

START_TEST(sixty_four_fields_are_read_and_sixty_five_refused)
{
  start(line_of_fields(64));
  ck_assert(csv_next(&csv, &e));
  ck_assert_uint_eq(csv.count, 64);
  ck_assert_str_eq(csv_field(&csv, 63), "x");
  expect_end();
  csv_fini(&csv);
  start(line_of_fields(65));
  expect_fault("line 1: more than 64 fields");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/csv");
  TCase *tcase = suite_case(suite, "csv", setup, teardown);
  tcase_add_test(tcase, plain_records);
  tcase_add_test(tcase, line_ends_may_be_crlf_and_the_last_may_be_absent);
  tcase_add_test(tcase, a_lone_carriage_return_belongs_to_its_field);
  tcase_add_test(tcase, quotes_hold_commas_quotes_and_lines);
  tcase_add_test(tcase, empty_fields_count_and_empty_lines_do_not);
  tcase_add_test(tcase, spaces_are_part_of_a_field);
  tcase_add_test(tcase, a_byte_order_mark_is_not_part_of_the_first_name);
  tcase_add_test(tcase, nothing_at_all);
  tcase_add_test(tcase, columns_by_name_and_short_records);
  tcase_add_test(tcase, a_quote_without_end_names_the_line_it_starts_on);
  tcase_add_test(tcase, strays_are_named_with_line_and_field);
  tcase_add_test(tcase, a_nul_is_refused_inside_and_outside_of_quotes);
  tcase_add_test(tcase, sixty_four_fields_are_read_and_sixty_five_refused);
  return suite_run(suite);
}
