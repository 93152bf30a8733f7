/* Error and fault objects: what is filled in, what is cut, and that nothing overflows. */
#include "core/error.h"

#include "tests/core/fixtures.h"

START_TEST(setting_an_error_returns_its_code)
{
  struct error e;
  ck_assert_int_eq(error_set(&e, ERR_INVALID, "/tp", "tp %d of \"%s\"", 3, "m"), ERR_INVALID);
  ck_assert_int_eq(e.code, ERR_INVALID);
  ck_assert_str_eq(e.pointer, "/tp");
  ck_assert_str_eq(e.message, "tp 3 of \"m\"");
  ck_assert_int_eq(error_set(NULL, ERR_BUSY, "", "nobody listens"), ERR_BUSY);
}
END_TEST

START_TEST(long_texts_are_cut_and_terminated)
{
  struct error e;
  char text[1000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  (void)error_set(&e, ERR_LIMIT, text, "%s", text);
  ck_assert_uint_eq(strlen(e.pointer), sizeof e.pointer - 1);
  ck_assert_uint_eq(strlen(e.message), sizeof e.message - 1);
}
END_TEST

/* The slugs are the ends of the problem types (API): ten words and "ok", all different. */
START_TEST(every_code_has_a_slug_and_a_sentence)
{
  static const char *const slugs[] = {"ok",
                                      "invalid",
                                      "not-found",
                                      "conflict",
                                      "precondition-failed",
                                      "limit-exceeded",
                                      "busy",
                                      "out-of-memory",
                                      "unavailable",
                                      "cancelled",
                                      "internal"};
  ck_assert_int_eq(ERR_OK, 0);
  ck_assert_int_eq(ERR_INTERNAL, (int)FIXTURE_COUNT(slugs) - 1);
  for (size_t i = 0; i < FIXTURE_COUNT(slugs); i++) {
    ck_assert_str_eq(error_slug((enum err)i), slugs[i]);
    ck_assert_uint_gt(strlen(error_text((enum err)i)), 0);
  }
}
END_TEST

START_TEST(faults_are_collected_up_to_the_bound)
{
  static struct faults faults;
  for (int i = 0; i < FAULTS_MAX; i++)
    faults_add(&faults, FAULT_MISSING, "/a", NULL, "number %d", i);
  ck_assert_uint_eq(faults.count, FAULTS_MAX);
  ck_assert(!faults.is_truncated);
  ck_assert_str_eq(faults.items[FAULTS_MAX - 1].detail, "number 63");
  ck_assert_str_eq(faults.items[0].suggestion, "");
  faults_add(&faults, FAULT_CONFLICT, "/b", "c", "one too many");
  ck_assert_uint_eq(faults.count, FAULTS_MAX);
  ck_assert(faults.is_truncated);
  ck_assert_int_eq(faults.items[FAULTS_MAX - 1].code, FAULT_MISSING);
}
END_TEST

START_TEST(faults_keep_their_fields)
{
  static struct faults faults;
  char text[1000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  faults_add(&faults, FAULT_UNKNOWN_FIELD, "/trafic", "traffic", "no such field");
  ck_assert_int_eq(faults.items[0].code, FAULT_UNKNOWN_FIELD);
  ck_assert_str_eq(faults.items[0].pointer, "/trafic");
  ck_assert_str_eq(faults.items[0].suggestion, "traffic");
  ck_assert_str_eq(faults.items[0].detail, "no such field");
  faults_add(&faults, FAULT_WRONG_TYPE, text, text, "%s", text);
  ck_assert_uint_eq(strlen(faults.items[1].pointer), sizeof faults.items[1].pointer - 1);
  ck_assert_uint_eq(strlen(faults.items[1].suggestion), sizeof faults.items[1].suggestion - 1);
  ck_assert_uint_eq(strlen(faults.items[1].detail), sizeof faults.items[1].detail - 1);
}
END_TEST

START_TEST(fault_codes_have_the_names_of_the_wire)
{
  ck_assert_str_eq(fault_code_name(FAULT_UNKNOWN_FIELD), "unknown_field");
  ck_assert_str_eq(fault_code_name(FAULT_MISSING), "missing");
  ck_assert_str_eq(fault_code_name(FAULT_WRONG_TYPE), "wrong_type");
  ck_assert_str_eq(fault_code_name(FAULT_OUT_OF_RANGE), "out_of_range");
  ck_assert_str_eq(fault_code_name(FAULT_UNKNOWN_VALUE), "unknown_value");
  ck_assert_str_eq(fault_code_name(FAULT_UNKNOWN_NAME), "unknown_name");
  ck_assert_str_eq(fault_code_name(FAULT_CONFLICT), "conflict");
  ck_assert_str_eq(fault_code_name(FAULT_UNSUPPORTED), "unsupported");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("error");
  tcase_add_test(tcase, setting_an_error_returns_its_code);
  tcase_add_test(tcase, long_texts_are_cut_and_terminated);
  tcase_add_test(tcase, every_code_has_a_slug_and_a_sentence);
  tcase_add_test(tcase, faults_are_collected_up_to_the_bound);
  tcase_add_test(tcase, faults_keep_their_fields);
  tcase_add_test(tcase, fault_codes_have_the_names_of_the_wire);
  return fixture_run("core/error", tcase);
}
