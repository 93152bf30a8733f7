/* The log: each line is one JSON object whatever is logged, lines are collected, and nothing blocks or gets lost unsaid. */
#include "server/log.h"

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct log *log_file;
static struct error error;
static char dir[256];
static const char *path;

static void setup(void)
{
  suite_make_dir(dir, sizeof dir);
  path = scratch_printf("%s/fitd.log", dir);
  ck_assert_int_eq((int)log_open(&log_file, path, LOG_INFO, &error), ERR_OK);
}

static void teardown(void)
{
  log_close(log_file);
  suite_remove_dir(dir);
  scratch_release();
}

static json_t *only_line(void)
{
  char *text = scratch_read_file(path), *end = strchr(text, '\n');
  ck_assert_ptr_nonnull(end);
  ck_assert_str_eq(end, "\n");
  return scratch_json_steal(json_loads(text, JSON_REJECT_DUPLICATES, NULL));
}

static const char *text_of(const json_t *line, const char *key)
{
  const char *text = json_string_value(json_object_get(line, key));
  ck_assert_msg(text != NULL, "%s is missing", key);
  return text;
}

START_TEST(a_request_is_one_object)
{
  const struct log_request request = {.id = "id-1",
                                      .method = "GE\"T\\\n\x01",
                                      .route = "/v1/scorecards/{id}",
                                      .caller = "ci",
                                      .termination = "completed",
                                      .status = 200,
                                      .duration_us = 12034,
                                      .bytes = 4096};
  json_t *line;
  log_request(log_file, &request);
  log_flush(log_file);
  line = only_line();
  ck_assert_str_eq(text_of(line, "method"), "GE\"T\\\n\x01");
  ck_assert_str_eq(text_of(line, "id"), "id-1");
  ck_assert_str_eq(text_of(line, "route"), "/v1/scorecards/{id}");
  ck_assert_str_eq(text_of(line, "caller"), "ci");
  ck_assert_str_eq(text_of(line, "termination"), "completed");
  ck_assert_int_eq(json_integer_value(json_object_get(line, "status")), 200);
  ck_assert_int_eq(json_integer_value(json_object_get(line, "bytes")), 4096);
  ck_assert_double_eq_tol(json_real_value(json_object_get(line, "ms")), 12.034, 1e-9);
  ck_assert_uint_eq(strlen(text_of(line, "time")), strlen("2026-11-30T12:00:00.123Z"));
}
END_TEST

/* A method may be as long as the connection's memory: the line is cut and still an object. */
START_TEST(long_texts_are_cut)
{
  char *method = scratch_alloc(30001);
  struct log_request request = {.id = "", .route = "", .caller = "", .termination = ""};
  memset(method, '"', 30000);
  request.method = method;
  log_request(log_file, &request);
  log_flush(log_file);
  ck_assert_ptr_nonnull(strstr(text_of(only_line(), "method"), "\"\"\""));
}
END_TEST

/* UTF-8 passes; stray continuation, overlong, surrogate and cut-off sequences do not break the line. jansson, which refuses
   bad UTF-8, is the judge. */
START_TEST(bad_utf8_stays_json)
{
  const char *message;
  log_write(log_file, LOG_ERROR, "%s",
            "gr\xc3\xbc\xc3\x9f \x80 \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80 \xf0\x9f\x98\x80 \xe2\x82");
  message = text_of(only_line(), "message");
  ck_assert_ptr_eq(strstr(message, "gr\xc3\xbc\xc3\x9f \xef\xbf\xbd "), message);
  ck_assert_ptr_nonnull(strstr(message, " \xf0\x9f\x98\x80 \xef\xbf\xbd"));
}
END_TEST

START_TEST(lines_wait_for_a_flush_and_warnings_do_not)
{
  log_write(log_file, LOG_INFO, "first");
  ck_assert_str_eq(scratch_read_file(path), "");
  log_write(log_file, LOG_WARNING, "second %d", 2);
  ck_assert_ptr_nonnull(strstr(scratch_read_file(path), "\"message\":\"first\""));
  ck_assert_ptr_nonnull(strstr(scratch_read_file(path), "\"level\":\"warning\",\"message\":\"second 2\""));
}
END_TEST

START_TEST(levels_below_are_left_out)
{
  log_write(log_file, LOG_DEBUG, "hidden");
  log_set_level(log_file, LOG_DEBUG);
  log_write(log_file, LOG_DEBUG, "shown");
  log_flush(log_file);
  ck_assert_str_eq(text_of(only_line(), "message"), "shown");
}
END_TEST

START_TEST(reopening_follows_a_rotation)
{
  const char *old = scratch_printf("%s.1", path);
  log_write(log_file, LOG_ERROR, "before");
  ck_assert_int_eq(rename(path, old), 0);
  ck_assert_int_eq((int)log_reopen(log_file, &error), ERR_OK);
  log_write(log_file, LOG_ERROR, "after");
  ck_assert_ptr_nonnull(strstr(scratch_read_file(old), "before"));
  ck_assert_str_eq(text_of(only_line(), "message"), "after");
}
END_TEST

START_TEST(a_file_that_can_not_be_opened_is_an_error)
{
  struct log *none;
  ck_assert_int_eq((int)log_open(&none, "/nonexistent/fitd.log", LOG_INFO, &error), ERR_UNAVAILABLE);
  ck_assert_ptr_null(none);
  ck_assert_ptr_nonnull(strstr(error.message, "/nonexistent/fitd.log"));
}
END_TEST

/* Standard error is a pipe nobody reads: 40,000 lines of over 200 bytes neither block nor fill memory, and once it is
   read again the loss is told. */
START_TEST(a_stuck_reader_costs_lines_not_time)
{
  const double start_s = suite_now_s();
  int ends[2], saved = dup(STDERR_FILENO);
  struct log *log;
  char bytes[8192];
  ssize_t count;
  bool is_told = false;
  ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
  ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
  ck_assert_int_eq((int)log_open(&log, "", LOG_INFO, &error), ERR_OK);
  for (int i = 0; i < 40000; i++)
    log_write(log, LOG_INFO, "%0200d", i);
  ck_assert_double_lt(suite_now_s() - start_s, 10.0);
  ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  for (int round = 0; round < 2000 && !is_told; round++) {
    log_flush(log);
    count = read(ends[0], bytes, sizeof bytes - 1);
    bytes[count > 0 ? count : 0] = '\0';
    is_told = strstr(bytes, "log lines were dropped") != NULL;
  }
  ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
  log_close(log);
  (void)close(saved);
  (void)close(ends[0]);
  (void)close(ends[1]);
  ck_assert(is_told);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("log");
  TCase *tcase = suite_case(suite, "log", setup, teardown);
  tcase_add_test(tcase, a_request_is_one_object);
  tcase_add_test(tcase, long_texts_are_cut);
  tcase_add_test(tcase, bad_utf8_stays_json);
  tcase_add_test(tcase, lines_wait_for_a_flush_and_warnings_do_not);
  tcase_add_test(tcase, levels_below_are_left_out);
  tcase_add_test(tcase, reopening_follows_a_rotation);
  tcase_add_test(tcase, a_file_that_can_not_be_opened_is_an_error);
  tcase_add_test(tcase, a_stuck_reader_costs_lines_not_time);
  return suite_run(suite);
}
