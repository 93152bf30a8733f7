/* The README's first hour, line by line as a newcomer would type it: every command must succeed, and leave what it says. */
#include "tests/lib/command.h"
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <check.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTION "\n## The first hour\n"
#define BLOCK "\n```sh\n"

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

/* All shell blocks of the section, after one another. */
static const char *commands_of_section(void)
{
  const char *readme = scratch_read_file(suite_source_path("README.md"));
  const char *at = strstr(readme, SECTION), *end, *block;
  const char *commands = "set -eu\n";
  ck_assert_ptr_nonnull(at);
  at += strlen(SECTION);
  end = strstr(at, "\n## ");
  ck_assert_ptr_nonnull(end);
  while ((block = strstr(at, BLOCK)) != NULL && block < end) {
    block += strlen(BLOCK);
    at = strstr(block, "\n```");
    ck_assert_ptr_nonnull(at);
    commands = scratch_printf("%s%.*s\n", commands, (int)(at - block), block);
  }
  return commands;
}

/* In a directory of its own, with the tested binary first on the path. */
static int run_shell(const char *commands, const char *output)
{
  char binary[512];
  pid_t child;
  (void)snprintf(binary, sizeof binary, "%s", command_binary());
  child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    const char *path = scratch_printf("%s:%s", realpath(dirname(binary), NULL), getenv("PATH"));
    const int out = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600), in = open("/dev/null", O_RDONLY);
    if (out < 0 || in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 || setenv("PATH", path, 1) != 0 ||
        setenv("FITD_URL", fitd.url, 1) != 0 || chdir(fitd.dir) != 0)
      _exit(126);
    (void)execl("/bin/sh", "sh", "-c", commands, (char *)NULL);
    _exit(127);
  }
  return command_wait(child, 300);
}

START_TEST(the_first_hour_works)
{
  const char *output = scratch_printf("%s/output", fitd.dir);
  const int status = run_shell(commands_of_section(), output);
  json_t *checks, *reviews;
  ck_assert_msg(status == 0, "exit status %d after: %s", status, scratch_read_file(output));
  checks = web_get_ok(&fitd, "/v1/gates/release/checks");
  ck_assert_uint_eq(json_array_size(json_object_get(checks, "items")), 2);
  reviews = web_get_ok(&fitd, "/v1/reviews");
  ck_assert_uint_eq(json_array_size(json_object_get(reviews, "items")), 1);
  ck_assert_str_eq(json_string_value(json_object_get(json_array_get(json_object_get(reviews, "items"), 0), "state")),
                   "signed");
  ck_assert_ptr_nonnull(strstr(scratch_read_file(output), "# Fit review"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("readme");
  TCase *tcase = suite_case(suite, "first hour", setup, teardown);
  tcase_set_timeout(tcase, 300);
  tcase_add_test(tcase, the_first_hour_works);
  return suite_run(suite);
}
