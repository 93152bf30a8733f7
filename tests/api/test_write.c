/* Writers: numbers, canonical text, digests against published vectors, ids, times against the calendar, text and CSV. */
#include "api/write.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void setup(void)
{
}

static void teardown(void)
{
  scratch_release();
}

static const char *dump(json_t *value)
{
  char *text = json_dumps(scratch_json_steal(value), WRITE_FLAGS | JSON_ENCODE_ANY);
  const char *copy;
  ck_assert_ptr_nonnull(text);
  copy = scratch_printf("%s", text);
  free(text);
  return copy;
}

START_TEST(numbers)
{
  ck_assert_str_eq(dump(write_number(3.0)), "3");
  ck_assert_str_eq(dump(write_number(-0.0)), "0");
  ck_assert_str_eq(dump(write_number(0.1)), "0.1");
  ck_assert_str_eq(dump(write_number(405853388800.0)), "405853388800");
  ck_assert_str_eq(dump(write_number(9007199254740991.0)), "9007199254740991");
  ck_assert_str_eq(dump(write_number(1e300)), "1e300");
  ck_assert_str_eq(dump(write_number((double)NAN)), "null");
  ck_assert_str_eq(dump(write_number((double)INFINITY)), "null");
  ck_assert_str_eq(dump(write_number((double)-INFINITY)), "null");
}
END_TEST

START_TEST(texts_survive_a_cut_character)
{
  ck_assert_str_eq(dump(write_text(NULL)), "null");
  ck_assert_str_eq(dump(write_text("é")), "\"é\"");
  ck_assert_str_eq(dump(write_text("a\xc3")), "\"a?\"");
  ck_assert_str_eq(dump(write_text("\xf0\x9f\x98")), "\"???\"");
  ck_assert_str_eq(dump(write_text("\xed\xa0\x80x")), "\"???x\""); /* a surrogate is no character */
}
END_TEST

START_TEST(canonical_text_sorts_keys)
{
  json_t *a = scratch_json_steal(json_loads("{\"b\": [1, {\"d\": 1, \"c\": 2}], \"a\": 0.1}", 0, NULL));
  char *text = write_canonical(a);
  ck_assert_str_eq(text, "{\"a\":0.1,\"b\":[1,{\"c\":2,\"d\":1}]}");
  free(text);
}
END_TEST

START_TEST(digests)
{
  char digest[WRITE_DIGEST_SIZE];
  /* FIPS 180-4 example "abc", and the digest of nothing */
  write_digest(digest, "abc", 3);
  ck_assert_str_eq(digest, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  write_digest(digest, "", 0);
  ck_assert_str_eq(digest, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
END_TEST

START_TEST(ids)
{
  /* RFC 9562 appendix A.6: Unix ms 0x017F22E279B0, version 7, rand_a 0xCC3, variant 10, rest 0x18C4DC0C0C07398F */
  const unsigned char random[8] = {0x18, 0xC4, 0xDC, 0x0C, 0x0C, 0x07, 0x39, 0x8F};
  char id[WRITE_UUID_SIZE], next[WRITE_UUID_SIZE];
  write_uuid7(id, 0x017F22E279B0, 0xCC3, random);
  ck_assert_str_eq(id, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  write_uuid7(next, 0x017F22E279B0, 0xCC4, random);
  ck_assert_int_lt(strcmp(id, next), 0);
}
END_TEST

START_TEST(times_are_written)
{
  static const struct {
    int64_t unix_ms;
    const char *text;
  } rows[] = {{0, "1970-01-01T00:00:00.000Z"},
              {-1, "1969-12-31T23:59:59.999Z"},
              {951782400123, "2000-02-29T00:00:00.123Z"}, /* date -u -d 2000-02-29 +%s */
              {1796040000000, "2026-11-30T12:00:00.000Z"}};
  char text[WRITE_TIME_SIZE];
  size_t i;
  for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t back;
    write_time(text, rows[i].unix_ms);
    ck_assert_str_eq(text, rows[i].text);
    ck_assert(write_time_parse(&back, text));
    ck_assert_int_eq(back, rows[i].unix_ms);
  }
}
END_TEST

START_TEST(times_are_parsed)
{
  static const struct {
    const char *text;
    int64_t unix_ms;
  } rows[] = {{"2026-11-30", 1795996800000},
              {"2026-11-30T12:00:00Z", 1796040000000},
              {"2026-11-30t12:00:00.5z", 1796040000500},
              {"2026-11-30 14:00:00+02:00", 1796040000000},
              {"2026-11-30T14:00:00 02:00", 1796040000000}, /* + of an unescaped query */
              {"2026-11-30T06:30:00-05:30", 1796040000000},
              {"1969-12-31T23:59:59.9999Z", -1},
              {"2016-12-31T23:59:60Z", 1483228800000}}; /* a leap second is the next second */
  static const char *const bad[] = {"",
                                    "2026",
                                    "2026-13-01",
                                    "2026-02-29",
                                    "1900-02-29",
                                    "2026-11-31",
                                    "2026-11-30T12:00:00",
                                    "2026-11-30T24:00:00Z",
                                    "26-11-30",
                                    "2026-11-30x",
                                    "2026-11-30T12:00:00.Z",
                                    "2026-11-30T12:00:00+2:00",
                                    "2026-11-30T12:00:00Zx",
                                    "2026-11-30T12:00:00+24:00",
                                    "now"};
  int64_t unix_ms;
  size_t i;
  for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    ck_assert_msg(write_time_parse(&unix_ms, rows[i].text), "%s", rows[i].text);
    ck_assert_msg(unix_ms == rows[i].unix_ms, "%s: %lld", rows[i].text, (long long)unix_ms);
  }
  for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ck_assert_msg(!write_time_parse(&unix_ms, bad[i]), "%s", bad[i]);
}
END_TEST

START_TEST(text_grows)
{
  struct text text = {NULL, 0, 0, false};
  char *bytes;
  size_t length;
  int i;
  for (i = 0; i < 1000; i++)
    text_printf(&text, "%d,", i);
  bytes = text_take(&text, &length);
  ck_assert_uint_eq(length, 10 * 2 + 90 * 3 + 900 * 4);
  ck_assert_uint_eq(strlen(bytes), length);
  ck_assert_str_eq(bytes + length - 8, "998,999,");
  free(bytes);
  bytes = text_take(&text, &length); /* taken: empty again */
  ck_assert_str_eq(bytes, "");
  ck_assert_uint_eq(length, 0);
  free(bytes);
}
END_TEST

START_TEST(failed_text_gives_nothing)
{
  struct text text = {NULL, 0, 0, false};
  size_t length = 1;
  text_puts(&text, "kept");
  text.is_failed = true; /* as after a failed allocation */
  text_puts(&text, "more");
  ck_assert_ptr_null(text_take(&text, &length));
  ck_assert_uint_eq(length, 0);
}
END_TEST

START_TEST(csv_fields)
{
  struct text text = {NULL, 0, 0, false};
  char *bytes;
  text_csv_field(&text, "plain");
  text_puts(&text, "|");
  text_csv_field(&text, "a,b");
  text_puts(&text, "|");
  text_csv_field(&text, "say \"x\"\n");
  text_puts(&text, "|");
  text_csv_field(&text, NULL);
  bytes = text_take(&text, NULL);
  ck_assert_str_eq(bytes, "plain|\"a,b\"|\"say \"\"x\"\"\n\"|");
  free(bytes);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/write");
  TCase *tcase = suite_case(suite, "write", setup, teardown);
  tcase_add_test(tcase, numbers);
  tcase_add_test(tcase, texts_survive_a_cut_character);
  tcase_add_test(tcase, canonical_text_sorts_keys);
  tcase_add_test(tcase, digests);
  tcase_add_test(tcase, ids);
  tcase_add_test(tcase, times_are_written);
  tcase_add_test(tcase, times_are_parsed);
  tcase_add_test(tcase, text_grows);
  tcase_add_test(tcase, failed_text_gives_nothing);
  tcase_add_test(tcase, csv_fields);
  return suite_run(suite);
}
