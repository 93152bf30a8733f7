/* Settings: every source, their order of strength, and what is said about each kind of mistake. */
#include "server/config.h"

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

static struct config config;
static struct faults faults;
static char dir[256];

static void setup(void)
{
  suite_make_dir(dir, sizeof dir);
  memset(&faults, 0, sizeof faults);
}

static void teardown(void)
{
  suite_remove_dir(dir);
  scratch_release();
}

static const char *write_file(const char *text)
{
  const char *path = scratch_printf("%s/a.conf", dir);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(text, file), 0);
  ck_assert_int_eq(fclose(file), 0);
  return path;
}

static void load_file(const char *text)
{
  struct config_sources sources = {.file = write_file(text), .environment = NULL};
  config_load(&config, &sources, &faults);
}

static const char *dump(const struct config *of)
{
  const char *path = scratch_printf("%s/dump.conf", dir);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  config_dump(file, of);
  ck_assert_int_eq(fclose(file), 0);
  return scratch_read_file(path);
}

START_TEST(defaults_are_valid)
{
  struct config_sources sources = {.file = NULL, .environment = NULL};
  config_load(&config, &sources, &faults);
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_str_eq(config.listen, "127.0.0.1:8080");
  ck_assert_str_eq(config.database, "");
  ck_assert_uint_eq(config.drain_timeout, 10);
  ck_assert(config.access_log);
  ck_assert_int_eq((int)config.log_level, LOG_INFO);
}
END_TEST

START_TEST(example_is_the_dump_of_the_defaults)
{
  struct config_sources sources = {.file = NULL, .environment = NULL};
  config_load(&config, &sources, &faults);
  ck_assert_str_eq(dump(&config), scratch_read_file(suite_source_path("deploy/fitd.conf.example")));
}
END_TEST

START_TEST(dump_reads_back)
{
  struct config again;
  struct config_sources sources = {.environment = NULL};
  load_file(
      "listen = [::1]:9\nqueue = 7\naccess_log = false\nlog_level = error\ncors_origins = https://a.b, https://c.d\n");
  ck_assert_uint_eq(faults.count, 0);
  sources.file = write_file(dump(&config));
  config_load(&again, &sources, &faults);
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_mem_eq(&again, &config, sizeof config);
  ck_assert_uint_eq(again.queue, 7);
  ck_assert_str_eq(again.cors_origins, "https://a.b, https://c.d");
}
END_TEST

/* defaults < file < environment < flags, tried on one key each. */
START_TEST(later_sources_are_stronger)
{
  char file_text[] = "queue = 1\nreaders = 2\nidle_timeout = 3\n";
  char first[] = "FITD_READERS=4", second[] = "FITD_IDLE_TIMEOUT=5", foreign[] = "FITD_PORT=tcp://10.0.0.1:80";
  char *const environment[] = {first, second, foreign, NULL};
  char word[] = "--idle-timeout", value[] = "6", joined[] = "--header_timeout=8";
  char *const argv[] = {word, value, joined};
  struct config_sources sources = {.file = write_file(file_text), .environment = environment};
  int at;
  for (at = 0; at < 3; at++)
    ck_assert(config_take_flag(&sources, 3, argv, &at, &faults));
  config_load(&config, &sources, &faults);
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_uint_eq(config.connections, 8192);
  ck_assert_uint_eq(config.queue, 1);
  ck_assert_uint_eq(config.readers, 4);
  ck_assert_uint_eq(config.idle_timeout, 6);
  ck_assert_uint_eq(config.header_timeout, 8);
}
END_TEST

static const struct {
  const char *text;
  enum fault_code code;
  unsigned line;
  const char *says, *suggests;
} MISTAKES[] = {
    {"# fine\n\nlisen = a:1\n", FAULT_UNKNOWN_FIELD, 3, "lisen", "listen"},
    {"queue 5\n", FAULT_WRONG_TYPE, 1, "key = value", ""},
    {"queue = many\n", FAULT_WRONG_TYPE, 1, "whole number", ""},
    {"queue = 5.0\n", FAULT_WRONG_TYPE, 1, "whole number", ""},
    {"queue = -5\n", FAULT_WRONG_TYPE, 1, "-5", ""},
    {"queue =\n", FAULT_WRONG_TYPE, 1, "whole number", ""},
    {"queue = 0\n", FAULT_OUT_OF_RANGE, 1, "1 to 65536", ""},
    {"queue = 65537\n", FAULT_OUT_OF_RANGE, 1, "1 to 65536", ""},
    {"queue = 99999999999999999999999\n", FAULT_OUT_OF_RANGE, 1, "1 to 65536", ""},
    {"access_log = yes\n", FAULT_UNKNOWN_VALUE, 1, "true or false", ""},
    {"log_level = loud\n", FAULT_UNKNOWN_VALUE, 1, "debug, info, warning or error", ""},
    {"listen =\n", FAULT_OUT_OF_RANGE, 1, "3 to 255", ""},
    {"queue = 5\nqueue = 6\n", FAULT_CONFLICT, 2, "twice", ""},
};

START_TEST(mistakes_are_named_by_line)
{
  load_file(MISTAKES[_i].text);
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_int_eq((int)faults.items[0].code, (int)MISTAKES[_i].code);
  ck_assert_str_eq(faults.items[0].pointer, scratch_printf("%s/a.conf:%u", dir, MISTAKES[_i].line));
  ck_assert_msg(strstr(faults.items[0].detail, MISTAKES[_i].says) != NULL, "%s", faults.items[0].detail);
  ck_assert_str_eq(faults.items[0].suggestion, MISTAKES[_i].suggests);
}
END_TEST

START_TEST(all_mistakes_are_reported_at_once)
{
  load_file("lisen = a\nqueue = 0\nlog_level = loud\n");
  ck_assert_uint_eq(faults.count, 3);
}
END_TEST

START_TEST(overlong_line_is_refused)
{
  char *text = scratch_alloc(3001);
  memset(text, 'a', 3000);
  load_file(text);
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_msg(strstr(faults.items[0].detail, "more than") != NULL, "%s", faults.items[0].detail);
}
END_TEST

START_TEST(missing_file_is_refused)
{
  struct config_sources sources = {.file = "/nonexistent/fitd.conf", .environment = NULL};
  config_load(&config, &sources, &faults);
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_str_eq(faults.items[0].pointer, "/nonexistent/fitd.conf");
}
END_TEST

START_TEST(bad_variable_is_named)
{
  char variable[] = "FITD_QUEUE=0";
  char *const environment[] = {variable, NULL};
  struct config_sources sources = {.file = NULL, .environment = environment};
  config_load(&config, &sources, &faults);
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_str_eq(faults.items[0].pointer, "FITD_QUEUE");
}
END_TEST

START_TEST(flags_that_are_none)
{
  struct config_sources sources = {.file = NULL, .environment = NULL};
  char unknown[] = "--lisen", last[] = "--listen", buffer[64];
  char *const argv[] = {unknown, last};
  int at = 0;
  ck_assert(!config_take_flag(&sources, 2, argv, &at, &faults));
  ck_assert_str_eq(config_nearest_flag(unknown, buffer, sizeof buffer), "--listen");
  ck_assert_ptr_null(config_nearest_flag("--xyzzyxyzzy", buffer, sizeof buffer));
  at = 1;
  ck_assert(config_take_flag(&sources, 2, argv, &at, &faults));
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_int_eq((int)faults.items[0].code, FAULT_MISSING);
}
END_TEST

START_TEST(reload_takes_only_what_may_change)
{
  struct config fresh;
  char fixed[64];
  struct config_sources sources = {.file = NULL, .environment = NULL};
  config_load(&config, &sources, &faults);
  load_file("listen = 127.0.0.1:1\nthreads = 9\nlog_level = debug\ncors_origins = *\n");
  fresh = config;
  config_load(&config, &sources, &faults);
  config_reload(&config, &fresh, fixed, sizeof fixed);
  ck_assert_str_eq(fixed, "listen, threads");
  ck_assert_str_eq(config.listen, "127.0.0.1:8080");
  ck_assert_uint_eq(config.threads, 0);
  ck_assert_int_eq((int)config.log_level, LOG_DEBUG);
  ck_assert_str_eq(config.cors_origins, "*");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("config");
  TCase *tcase = suite_case(suite, "config", setup, teardown);
  tcase_add_test(tcase, defaults_are_valid);
  tcase_add_test(tcase, example_is_the_dump_of_the_defaults);
  tcase_add_test(tcase, dump_reads_back);
  tcase_add_test(tcase, later_sources_are_stronger);
  tcase_add_loop_test(tcase, mistakes_are_named_by_line, 0, sizeof MISTAKES / sizeof MISTAKES[0]);
  tcase_add_test(tcase, all_mistakes_are_reported_at_once);
  tcase_add_test(tcase, overlong_line_is_refused);
  tcase_add_test(tcase, missing_file_is_refused);
  tcase_add_test(tcase, bad_variable_is_named);
  tcase_add_test(tcase, flags_that_are_none);
  tcase_add_test(tcase, reload_takes_only_what_may_change);
  return suite_run(suite);
}
