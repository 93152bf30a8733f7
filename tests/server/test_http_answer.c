/* Parts of an answer that need no connection: which origins CORS lets in, and that headers never overflow. */
#include "server/http_call.h"

#include "tests/lib/suite.h"

#include <string.h>

static void nothing(void)
{
}

static const struct {
  const char *allowed, *origin;
  bool is_allowed;
} ORIGINS[] = {
    {"https://a.example", "https://a.example", true},
    {"https://a.example, https://b.example", "https://b.example", true},
    {"https://a.example,https://b.example", "HTTPS://B.EXAMPLE", true},
    {"*", "https://anything", true},
    {"", "https://a.example", false},
    {"https://a.example", "https://a.example.evil.org", false},
    {"https://a.example", "https://a.exampl", false},
    {"https://a.example", "http://a.example", false},
    {"https://a.example", "https://a.example:8443", false},
    {"https://a.example", "", false},
    {"https://a.example", "null", false},
};

START_TEST(origins)
{
  ck_assert_msg(http_origin_is_allowed(ORIGINS[_i].allowed, ORIGINS[_i].origin) == ORIGINS[_i].is_allowed,
                "\"%s\" with \"%s\"", ORIGINS[_i].origin, ORIGINS[_i].allowed);
}
END_TEST

START_TEST(headers_beyond_the_room_are_left_out)
{
  struct api_response response = {.status = 200};
  for (int i = 0; i < 20; i++)
    http_add_header(&response, "X-Some", "value");
  ck_assert_uint_eq(response.header_count, sizeof response.headers / sizeof response.headers[0]);
  ck_assert_str_eq(response.headers[response.header_count - 1].value, "value");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("http_answer");
  TCase *tcase = suite_case(suite, "http_answer", nothing, nothing);
  tcase_add_loop_test(tcase, origins, 0, sizeof ORIGINS / sizeof ORIGINS[0]);
  tcase_add_test(tcase, headers_beyond_the_room_are_left_out);
  return suite_run(suite);
}
