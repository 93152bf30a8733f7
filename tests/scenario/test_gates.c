/* A pipeline's view of a gate: curl --fail-with-body and fitd check against the real daemon. */
#include "tests/lib/command.h"
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static const char *sketch_at(double usd_per_hour)
{
  return scratch_printf("{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"precision\":\"fp8\",\"traffic\":"
                        "{\"input_tokens\":1024,\"output_tokens\":256,\"requests_per_s\":2.0},"
                        "\"constraints\":{\"prices\":{\"h100-sxm-80gb\":%.6f}},\"profiles\":[\"h100-sxm-80gb\"]}",
                        usd_per_hour);
}

static void put_gate(const char *more)
{
  (void)web_put_status(
      &fitd, "/v1/gates/release",
      scratch_printf("{\"workload\":\"chat\",%s,\"signed_off\":[{\"by\":\"ana\",\"at\":\"2026-01-01\"}]}", more), 201);
}

static const char *put_file(const char *text)
{
  const char *path = scratch_printf("%s/sketch.json", fitd.dir);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(text, file), 0);
  ck_assert_int_eq(fclose(file), 0);
  return path;
}

/* Where the program is not installed: the library does the same, and the status follows from the answer's. */
static int as_curl(const char *file, const char *query, const char *output)
{
  const struct reply *reply =
      web_post(&fitd, scratch_printf("/v1/gates/release/checks%s", query), scratch_read_file(file));
  FILE *to = fopen(output, "w");
  ck_assert_ptr_nonnull(to);
  ck_assert_int_ge(fputs(reply->body, to), 0);
  ck_assert_int_eq(fclose(to), 0);
  return reply->status >= 400 ? 22 : 0;
}

/* What a pipeline does; the exit status of curl. */
static int curl(const char *file, const char *query, const char *output)
{
  const char *const arguments[] = {"curl",
                                   "--silent",
                                   "--show-error",
                                   "--fail-with-body",
                                   "--header",
                                   "Content-Type: application/json",
                                   "--data-binary",
                                   scratch_printf("@%s", file),
                                   "--output",
                                   output,
                                   scratch_printf("%s/v1/gates/release/checks%s", fitd.url, query),
                                   NULL};
  int status;
  const pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    char *words[16];
    memcpy(words, arguments, sizeof arguments);
    (void)execvp("curl", words);
    _exit(127);
  }
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return as_curl(file, query, output);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(curl_stops_on_what_must_stop)
{
  const char *output = scratch_printf("%s/check.json", fitd.dir);
  const int refused = 22; /* curl's status for an answer from 400 on */
  put_gate("\"max_regression\":{\"cost.per_million_output_tokens_usd\":0.05}");
  ck_assert_int_eq(curl(put_file(sketch_at(2.0)), "?enforce=true", output), 0);
  ck_assert_int_eq(curl(put_file(sketch_at(2.01)), "?enforce=true", output), 0);
  ck_assert_int_eq(curl(put_file(sketch_at(2.2)), "?enforce=true", output), refused);
  ck_assert_ptr_nonnull(strstr(scratch_read_file(output), "10.00 % worse; the limit is 5.00 % worse"));
  ck_assert_int_eq(curl(put_file(sketch_at(2.2)), "", output), 0);
  ck_assert_int_eq(
      curl(put_file(sample_sketch(&(struct sample_sketch){.workload = "search"})), "?enforce=true", output), refused);
  ck_assert_ptr_nonnull(strstr(scratch_read_file(output), "no_target"));
}
END_TEST

static struct command_result check(const char *sketch, const char *more)
{
  return command_run((const char *const[]){"check", "release", put_file(sketch), "--server", fitd.url, more, NULL},
                     NULL);
}

START_TEST(command_exits_with_the_verdict)
{
  struct command_result result;
  put_gate("\"max_regression\":{\"cost.per_million_output_tokens_usd\":0.05}");
  result = check(sketch_at(2.0), NULL);
  ck_assert_int_eq(result.exit_status, 0);
  ck_assert_msg(strncmp(result.out, "pass: gate release, workload chat\n", 34) == 0, "%s", result.out);
  result = check(sketch_at(2.2), NULL);
  ck_assert_int_eq(result.exit_status, 1);
  ck_assert_ptr_nonnull(strstr(result.out, "the limit is 5.00 % worse"));
  result = check(sample_sketch(&(struct sample_sketch){.workload = "search"}), "--json");
  ck_assert_int_eq(result.exit_status, 3);
  ck_assert_str_eq(doc_text(doc_parse(result.out), "verdict"), "no_target");
}
END_TEST

START_TEST(command_without_a_verdict_exits_4)
{
  struct command_result result;
  put_gate("\"targets\":{\"quality\":[{\"benchmark\":\"ifeval\",\"min\":0.8}]}");
  ck_assert_int_eq(check(sketch_at(2.0), NULL).exit_status, 2);
  result = check("{\"workload\":\"chat\"}", NULL);
  ck_assert_int_eq(result.exit_status, 4);
  ck_assert_ptr_nonnull(strstr(result.err, "/model"));
  result =
      command_run((const char *const[]){"check", "nobody", put_file(sketch_at(2.0)), "--server", fitd.url, NULL}, NULL);
  ck_assert_int_eq(result.exit_status, 4);
  result = command_run((const char *const[]){"check", "release", put_file(sketch_at(2.0)), NULL}, NULL);
  ck_assert_int_eq(result.exit_status, 4);
  daemon_stop(&fitd);
  ck_assert_int_eq(check(sketch_at(2.0), NULL).exit_status, 4);
}
END_TEST

START_TEST(agreements_survive_kill_9)
{
  const char *sketch = sketch_at(2.0);
  const json_t *check_answer, *decision;
  put_gate("\"max_regression\":{\"cost.per_million_output_tokens_usd\":0.05}");
  check_answer = web_post_created(&fitd, "/v1/gates/release/checks", sketch);
  decision =
      web_post_created(&fitd, "/v1/decisions",
                       "{\"workload\":\"chat\",\"knob\":\"clock\",\"to\":1,\"rationale\":\"r\",\"owner\":\"ana\","
                       "\"rollback_plan\":\"undo\"}");
  daemon_kill(&fitd);
  daemon_launch(&fitd, NULL);
  ck_assert_str_eq(doc_text(web_get_ok(&fitd, "/v1/gates/release"), "baselines.h100-sxm-80gb.scorecard"),
                   doc_text(check_answer, "scorecard"));
  doc_assert_same(doc_at(web_get_ok(&fitd, "/v1/gates/release/checks"), "items.0"), check_answer);
  doc_assert_same(web_get_ok(&fitd, scratch_printf("/v1/decisions/%s", doc_text(decision, "id"))), decision);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("gates");
  TCase *tcase = suite_case(suite, "gates", setup, teardown);
  tcase_add_test(tcase, curl_stops_on_what_must_stop);
  tcase_add_test(tcase, command_exits_with_the_verdict);
  tcase_add_test(tcase, command_without_a_verdict_exits_4);
  tcase_add_test(tcase, agreements_survive_kill_9);
  return suite_run(suite);
}
