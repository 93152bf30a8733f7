/* Content coding: what Accept-Encoding allows, gzip that zlib reads back, entity tags of the two forms. */
#include "server/encoding.h"

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void nothing(void)
{
}

static const struct {
  const char *value;
  bool is_allowed;
} ACCEPTS[] = {
    {"gzip", true},
    {"GZIP", true},
    {"x-gzip", true},
    {"deflate, gzip, br", true},
    {"gzip;q=1", true},
    {"gzip; q=0.001", true},
    {"gzip ;q=0.5", true},
    {"*", true},
    {"br, *;q=0.1", true},
    {"", false},
    {"identity", false},
    {"gzip;q=0", false},
    {"gzip;q=0.000", false},
    {"*, gzip;q=0", false},
    {"*;q=0", false},
    {"gzipped", false},
    {"br;q=1.0, deflate", false},
    {"gzip;q=x", false},
    {"gzip;level=9", false},
};

START_TEST(accept_encoding)
{
  ck_assert_msg(encoding_accepts_gzip(ACCEPTS[_i].value) == ACCEPTS[_i].is_allowed, "\"%s\"", ACCEPTS[_i].value);
}
END_TEST

/* zlib's own reader is the judge. */
static void assert_unpacks_to(const char *packed, size_t packed_len, const char *plain, size_t length)
{
  z_stream stream;
  unsigned char *back = malloc(length + 1), *copy = malloc(packed_len);
  memset(&stream, 0, sizeof stream);
  ck_assert(back != NULL && copy != NULL);
  memcpy(copy, packed, packed_len);
  ck_assert_int_eq(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = copy;
  stream.avail_in = (uInt)packed_len;
  stream.next_out = back;
  stream.avail_out = (uInt)length + 1;
  ck_assert_int_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
  ck_assert_uint_eq(stream.total_out, length);
  ck_assert_mem_eq(back, plain, length);
  ck_assert_int_eq(inflateEnd(&stream), Z_OK);
  free(copy);
  free(back);
}

/* Lengths around every window size from 512 B to 32 kB, and far beyond. */
START_TEST(gzip_reads_back)
{
  static const size_t lengths[] = {600, 1024, 1025, 4096, 9001, 32768, 32769, 300000};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    const size_t length = lengths[i];
    char *plain = malloc(length), *packed;
    size_t packed_len;
    ck_assert_ptr_nonnull(plain);
    for (size_t at = 0; at < length; at++)
      plain[at] = "{\"ttft_ms\":1234.5},"[(at + at / 700) % 19];
    ck_assert_int_eq((int)encoding_gzip(&packed, &packed_len, plain, length), ERR_OK);
    ck_assert_uint_lt(packed_len, length / 2);
    assert_unpacks_to(packed, packed_len, plain, length);
    free(packed);
    free(plain);
  }
}
END_TEST

START_TEST(noise_is_left_alone)
{
  char noise[2048], *packed;
  size_t packed_len;
  unsigned state = 1;
  for (size_t i = 0; i < sizeof noise; i++) {
    state = state * 1664525u + 1013904223u;
    noise[i] = (char)(state >> 24);
  }
  ck_assert_int_eq((int)encoding_gzip(&packed, &packed_len, noise, sizeof noise), ERR_LIMIT);
  ck_assert_ptr_null(packed);
}
END_TEST

static const struct {
  const char *from, *to;
  bool found;
} TAGS[] = {
    {"\"a-gzip\"", "\"a\"", true},
    {"\"a\", W/\"b-gzip\",\"c-gzip\"", "\"a\", W/\"b\",\"c\"", true},
    {"\"a-gzipped\"", "\"a-gzipped\"", false},
    {"*", "*", false},
    {"", "", false},
};

START_TEST(tags_are_stripped)
{
  char to[64];
  ck_assert(encoding_strip_gzip_tags(to, TAGS[_i].from) == TAGS[_i].found);
  ck_assert_str_eq(to, TAGS[_i].to);
}
END_TEST

START_TEST(tags_are_marked)
{
  char tag[16] = "\"abc\"", full[10] = "\"abc\"", bare[16] = "abc";
  ck_assert(encoding_mark_gzip_tag(tag, sizeof tag));
  ck_assert_str_eq(tag, "\"abc-gzip\"");
  ck_assert(!encoding_mark_gzip_tag(full, sizeof full)); /* 10 characters and a NUL do not fit into 10 */
  ck_assert_str_eq(full, "\"abc\"");
  ck_assert(!encoding_mark_gzip_tag(bare, sizeof bare));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("encoding");
  TCase *tcase = suite_case(suite, "encoding", nothing, scratch_release);
  tcase_add_loop_test(tcase, accept_encoding, 0, sizeof ACCEPTS / sizeof ACCEPTS[0]);
  tcase_add_test(tcase, gzip_reads_back);
  tcase_add_test(tcase, noise_is_left_alone);
  tcase_add_loop_test(tcase, tags_are_stripped, 0, sizeof TAGS / sizeof TAGS[0]);
  tcase_add_test(tcase, tags_are_marked);
  return suite_run(suite);
}
