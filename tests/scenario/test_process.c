/* fitd as a process: command line, settings, signals, exit statuses, and what is left when it is gone. */
#include "tests/lib/command.h"
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"
#include "tests/lib/wire.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <arpa/inet.h>
#include <unistd.h>

#define CLIENTS 8

static struct daemon fitd;

static void setup_directory(void)
{
  daemon_prepare(&fitd);
}

static void setup_daemon(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static const char *write_file(const char *name, const char *text)
{
  const char *path = scratch_printf("%s/%s", fitd.dir, name);
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(text, file), 0);
  ck_assert_int_eq(fclose(file), 0);
  return path;
}

static struct command_result run2(const char *first, const char *second)
{
  const char *const arguments[] = {first, second, NULL};
  return command_run(arguments, NULL);
}

static struct command_result check_config(const char *path)
{
  const char *const arguments[] = {"--check-config", "--config", path, NULL};
  return command_run(arguments, NULL);
}

static void assert_exit(const struct command_result *result, int status)
{
  ck_assert_msg(result->exit_status == status, "exit status %d instead of %d\nout: %.500s\nerr: %.500s",
                result->exit_status, status, result->out, result->err);
}

START_TEST(help_lists_commands_and_settings)
{
  static const char *const words[] = {"serve",    "evaluate",      "token",          "--listen", "--database",
                                      "--config", "--dump-config", "--check-config", "--version"};
  const struct command_result result = run2("--help", NULL);
  assert_exit(&result, 0);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    ck_assert_msg(strstr(result.out, words[i]) != NULL, "%s is not in the help", words[i]);
}
END_TEST

START_TEST(version_is_one_line)
{
  const struct command_result result = run2("--version", NULL);
  assert_exit(&result, 0);
  ck_assert_msg(strncmp(result.out, "fitd ", 5) == 0, "%s", result.out);
  ck_assert_ptr_eq(strchr(result.out, '\n'), result.out + strlen(result.out) - 1);
}
END_TEST

START_TEST(unknown_words_are_refused)
{
  const struct command_result option = run2("--lisen", "127.0.0.1:0"), command = run2("evalate", NULL);
  ck_assert_int_gt(option.exit_status, 0);
  ck_assert_msg(strstr(option.err, "--lisen") != NULL, "%s", option.err);
  ck_assert_int_gt(command.exit_status, 0);
  ck_assert_msg(strstr(command.err, "evalate") != NULL, "%s", command.err);
}
END_TEST

START_TEST(dumped_configuration_is_the_documented_one)
{
  const struct command_result result = run2("--dump-config", NULL);
  assert_exit(&result, 0);
  ck_assert_str_eq(result.out, scratch_read_file(suite_source_path("deploy/fitd.conf.example")));
}
END_TEST

START_TEST(dumped_configuration_is_a_good_one)
{
  const struct command_result dump = run2("--dump-config", NULL);
  const struct command_result check = check_config(write_file("fitd.conf", dump.out));
  assert_exit(&check, 0);
}
END_TEST

START_TEST(bad_configuration_is_named_by_line)
{
  const struct command_result unknown = check_config(write_file("a.conf", "# a comment\n\nlisen = 127.0.0.1:0\n"));
  const struct command_result shapeless = check_config(write_file("b.conf", "listen = 127.0.0.1:0\njust words\n"));
  const struct command_result missing = check_config(scratch_printf("%s/none.conf", fitd.dir));
  ck_assert_int_gt(unknown.exit_status, 0);
  ck_assert_msg(strstr(unknown.err, "3") != NULL && strstr(unknown.err, "lisen") != NULL, "%s", unknown.err);
  ck_assert_int_gt(shapeless.exit_status, 0);
  ck_assert_msg(strstr(shapeless.err, "2") != NULL, "%s", shapeless.err);
  ck_assert_int_gt(missing.exit_status, 0);
}
END_TEST

START_TEST(bad_addresses_are_refused)
{
  static const char *const addresses[] = {"127.0.0.1:99999", "127.0.0.1:http", "nowhere.invalid:0", "", "127.0.0.1:-1"};
  for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
    const char *const arguments[] = {"--listen", addresses[i], "--database", fitd.database, NULL};
    const struct command_result result = command_run(arguments, NULL);
    ck_assert_msg(result.exit_status > 0, "--listen '%s' → %d", addresses[i], result.exit_status);
    ck_assert_str_ne(result.err, "");
  }
}
END_TEST

START_TEST(foreign_database_is_refused)
{
  const char *const arguments[] = {"--listen", "127.0.0.1:0", "--database",
                                   write_file("foreign.db",
                                              "this is no database, only a text of more than a hundred bytes "
                                              "so that no header is missing in it at all"),
                                   NULL};
  const struct command_result result = command_run(arguments, NULL);
  ck_assert_int_gt(result.exit_status, 0);
  ck_assert_msg(strstr(result.err, "database") != NULL, "%s", result.err);
}
END_TEST

static const char *fitting_sketch(void)
{
  return sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\",\"l40s-48gb\"]");
}

static const char *unfit_sketch(void)
{
  return sample_sketch_with("\"profiles\":[\"t4-16gb\"],\"serving\":{\"tensor_parallel\":1,\"replicas\":1}");
}

static struct command_result evaluate_json(const char *file, const char *input)
{
  const char *const arguments[] = {"evaluate", "--json", file, NULL};
  return command_run(arguments, input);
}

START_TEST(evaluate_without_a_server)
{
  const struct command_result result = evaluate_json(write_file("sketch.json", fitting_sketch()), NULL);
  json_t *evaluation;
  assert_exit(&result, 0);
  evaluation = doc_parse(result.out);
  ck_assert_uint_eq(json_array_size(doc_array(evaluation, "scorecards")), 2);
  ck_assert_str_eq(doc_text(evaluation, "scorecards.0.verdict"), "fit");
  ck_assert_uint_gt(doc_assert_finite(evaluation), 50);
}
END_TEST

/* The same core, the same JSON. */
START_TEST(evaluate_agrees_with_the_daemon)
{
  static const char *const varying[] = {"id", "evaluation", "created_at", "scorecard", "links", "runner_up", NULL};
  const struct command_result result = evaluate_json(write_file("sketch.json", fitting_sketch()), NULL);
  json_t *here = doc_parse(result.out), *there;
  daemon_launch(&fitd, NULL);
  there = sample_evaluate(&fitd, fitting_sketch());
  doc_strip(here, varying);
  doc_strip(there, varying);
  doc_assert_same(doc_at(here, "scorecards"), doc_at(there, "scorecards"));
}
END_TEST

START_TEST(evaluate_reads_standard_input)
{
  const struct command_result result = evaluate_json("-", fitting_sketch());
  assert_exit(&result, 0);
  ck_assert_str_eq(doc_text(doc_parse(result.out), "scorecards.0.verdict"), "fit");
}
END_TEST

START_TEST(evaluate_prints_a_table_on_a_terminal)
{
  const char *const arguments[] = {"evaluate", write_file("sketch.json", fitting_sketch()), NULL};
  const struct command_result result = command_run_on_terminal(arguments);
  const char *first = strstr(result.out, "h100-sxm-80gb"), *second = strstr(result.out, "l40s-48gb");
  assert_exit(&result, 0);
  ck_assert_msg(result.out[0] != '{', "%s", result.out);
  ck_assert_msg(first != NULL && second != NULL, "%s", result.out);
}
END_TEST

START_TEST(evaluate_exit_statuses)
{
  const struct command_result unfit = run2("evaluate", write_file("unfit.json", unfit_sketch()));
  const struct command_result wrong = run2("evaluate", write_file("wrong.json", sample_sketch_with("\"tragets\":{}")));
  const struct command_result broken = run2("evaluate", write_file("broken.json", "{\"workload\":\n5,,}"));
  const struct command_result missing = run2("evaluate", scratch_printf("%s/none.json", fitd.dir));
  const struct command_result none = run2("evaluate", NULL);
  assert_exit(&unfit, 1);
  assert_exit(&wrong, 2);
  ck_assert_msg(strstr(wrong.err, "/tragets") != NULL && strstr(wrong.err, "targets") != NULL, "%s", wrong.err);
  assert_exit(&broken, 2);
  ck_assert_msg(strstr(broken.err, "line 2") != NULL, "%s", broken.err);
  assert_exit(&missing, 2);
  ck_assert_msg(strstr(missing.err, "none.json") != NULL, "%s", missing.err);
  assert_exit(&none, 2);
}
END_TEST

START_TEST(evaluate_names_the_whole_document)
{
  const struct command_result result = run2("evaluate", write_file("array.json", "[]"));
  assert_exit(&result, 2);
  ck_assert_msg(strncmp(result.err, "fitd: (the whole document): ", 28) == 0, "%s", result.err);
  ck_assert_msg(strstr(result.err, "\n  (the whole document): ") != NULL, "%s", result.err);
}
END_TEST

/* Runs a command whose output nobody reads, as in `fitd … | head` after head has left; *complaint is what it said. */
static int run_unread(const char *const *arguments, const char **complaint)
{
  const char *path = write_file("unread.log", "");
  FILE *in = fopen("/dev/null", "rb"), *err = fopen(path, "wb");
  int fds[2], status;
  ck_assert(in != NULL && err != NULL);
  ck_assert_int_eq(pipe(fds), 0);
  ck_assert_int_eq(close(fds[0]), 0);
  status = command_wait(command_spawn(arguments, fileno(in), fds[1], fileno(err)), 60);
  ck_assert_int_eq(close(fds[1]), 0);
  ck_assert_int_eq(fclose(in), 0);
  ck_assert_int_eq(fclose(err), 0);
  *complaint = scratch_read_file(path);
  return status;
}

/* The verdict still is the exit status. */
START_TEST(a_closed_pipe_is_no_failure)
{
  const char *fit = write_file("fit.json", fitting_sketch()), *unfit = write_file("unfit.json", unfit_sketch());
  const struct {
    const char *arguments[4];
    int status;
  } cases[] = {{{"evaluate", fit}, 0},
               {{"evaluate", "--json", fit}, 0},
               {{"evaluate", "--json", unfit}, 1},
               {{"--help"}, 0},
               {{"--version"}, 0},
               {{"--dump-config"}, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *complaint;
    ck_assert_int_eq(run_unread(cases[i].arguments, &complaint), cases[i].status);
    ck_assert_str_eq(complaint, "");
  }
}
END_TEST

START_TEST(a_full_disk_is_a_failure)
{
  const char *const arguments[] = {"evaluate", write_file("fit.json", fitting_sketch()), NULL};
  const char *path = write_file("full.log", "");
  FILE *in = fopen("/dev/null", "rb"), *out = fopen("/dev/full", "wb"), *err = fopen(path, "wb");
  ck_assert(in != NULL && out != NULL && err != NULL);
  ck_assert_int_eq(command_wait(command_spawn(arguments, fileno(in), fileno(out), fileno(err)), 60), 4);
  ck_assert_int_eq(fclose(in) | fclose(out) | fclose(err), 0);
  ck_assert_msg(strstr(scratch_read_file(path), "writing the result failed") != NULL, "%s", scratch_read_file(path));
}
END_TEST

/* With --json a refusal is JSON too, the one the daemon would send. */
START_TEST(evaluate_refuses_in_json)
{
  const struct command_result result =
      evaluate_json(write_file("wrong.json", sample_sketch_with("\"tragets\":{}")), NULL);
  assert_exit(&result, 2);
  ck_assert_ptr_nonnull(doc_fault(doc_parse(result.out), "/tragets"));
}
END_TEST

/* Requests whose bodies are half sent when the signal comes were accepted: each gets its whole answer. */
START_TEST(sigterm_cuts_no_request_short)
{
  const char *body = sample_sketch_with(NULL);
  const size_t half = strlen(body) / 2;
  const char *head =
      scratch_printf("POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n",
                     strlen(body));
  int fds[CLIENTS];
  for (size_t i = 0; i < CLIENTS; i++) {
    fds[i] = wire_connect(&fitd);
    ck_assert(wire_send(fds[i], head, strlen(head)));
    ck_assert(wire_send(fds[i], body, half));
  }
  suite_sleep_s(0.3);
  ck_assert_int_eq(kill(fitd.pid, SIGTERM), 0);
  suite_sleep_s(0.3);
  for (size_t i = 0; i < CLIENTS; i++)
    ck_assert_msg(wire_send(fds[i], body + half, strlen(body) - half), "connection %zu was cut", i);
  for (size_t i = 0; i < CLIENTS; i++) {
    const struct wire_answer answer = wire_read(fds[i], 15);
    ck_assert_msg(wire_status(&answer, 0) == 201 && wire_is_complete(&answer), "connection %zu: %.200s", i,
                  answer.text);
    close(fds[i]);
  }
  ck_assert_int_eq(command_wait(fitd.pid, 15), 0);
  fitd.pid = 0;
  daemon_launch(&fitd, NULL);
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/evaluations"), "items")), CLIENTS);
}
END_TEST

/* Signals while evaluations run: what was answered is stored, what was started is answered. */
START_TEST(sigterm_while_evaluating)
{
  const char *body = sample_sketch_with(NULL);
  const char *request = scratch_printf("POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\n"
                                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                       strlen(body), body);
  int fds[CLIENTS];
  for (size_t i = 0; i < CLIENTS; i++) {
    fds[i] = wire_connect(&fitd);
    ck_assert(wire_send(fds[i], "POST", 4)); /* accepted and read before the signal */
  }
  suite_sleep_s(0.2);
  for (size_t i = 0; i < CLIENTS; i++)
    ck_assert(wire_send(fds[i], request + 4, strlen(request) - 4));
  ck_assert_int_eq(kill(fitd.pid, SIGTERM), 0);
  for (size_t i = 0; i < CLIENTS; i++) {
    const struct wire_answer answer = wire_read(fds[i], 15);
    ck_assert_msg(wire_status(&answer, 0) == 201 && wire_is_complete(&answer), "connection %zu: %.200s", i,
                  answer.text);
    close(fds[i]);
  }
  ck_assert_int_eq(command_wait(fitd.pid, 15), 0);
  fitd.pid = 0;
}
END_TEST

START_TEST(idle_clients_do_not_delay_the_end_for_long)
{
  const int fd = wire_connect(&fitd);
  const double start_s = suite_now_s();
  daemon_stop(&fitd);
  ck_assert_double_lt(suite_now_s() - start_s, 12); /* the drain is bounded by 10 s */
  close(fd);
}
END_TEST

static void assert_no_socket_in(const char *dir_path)
{
  struct dirent *entry;
  DIR *dir = opendir(dir_path);
  ck_assert_ptr_nonnull(dir);
  while ((entry = readdir(dir)) != NULL) {
    struct stat status;
    ck_assert_int_eq(lstat(scratch_printf("%s/%s", dir_path, entry->d_name), &status), 0);
    ck_assert_msg(!S_ISSOCK(status.st_mode), "%s is left behind", entry->d_name);
  }
  ck_assert_int_eq(closedir(dir), 0);
}

static void assert_port_is_closed(unsigned port)
{
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_ne(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
  close(fd);
}

START_TEST(nothing_is_left_behind)
{
  (void)sample_evaluate(&fitd, fitting_sketch());
  daemon_stop(&fitd);
  assert_no_socket_in(fitd.dir);
  assert_port_is_closed(fitd.port);
  ck_assert_int_eq(access(scratch_printf("%s-wal", fitd.database), F_OK), -1); /* checkpointed */
}
END_TEST

/* Commands talk to a running daemon over a socket beside the database, which is the owner's alone. */
START_TEST(control_socket_is_the_owners_only)
{
  size_t sockets = 0;
  struct dirent *entry;
  DIR *dir = opendir(fitd.dir);
  ck_assert_ptr_nonnull(dir);
  while ((entry = readdir(dir)) != NULL) {
    struct stat status;
    ck_assert_int_eq(lstat(scratch_printf("%s/%s", fitd.dir, entry->d_name), &status), 0);
    if (!S_ISSOCK(status.st_mode))
      continue;
    sockets++;
    ck_assert_msg((status.st_mode & 077) == 0, "%s has mode %o", entry->d_name, status.st_mode & 0777);
  }
  ck_assert_int_eq(closedir(dir), 0);
  ck_assert_uint_eq(sockets, 1);
}
END_TEST

START_TEST(hangup_is_survived)
{
  ck_assert_int_eq(kill(fitd.pid, SIGHUP), 0);
  suite_sleep_s(0.2);
  ck_assert_int_eq(web_get(&fitd, "/healthz")->status, 200);
}
END_TEST

START_TEST(settings_are_checked_for_their_meaning)
{
  static const char *const flags[][2] = {{"--time-zone", "Europe/Berlni"},
                                         {"--time-zone", "../../etc/passwd"},
                                         {"--scrape-allow", "10.0.0.0/8,nowhere"},
                                         {"--review-day", "moonday"}};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    const char *const arguments[] = {"--check-config", flags[i][0], flags[i][1], NULL};
    const struct command_result result = command_run(arguments, NULL);
    ck_assert_msg(result.exit_status == 2 && result.err[0] != '\0', "%s %s → %d", flags[i][0], flags[i][1],
                  result.exit_status);
  }
}
END_TEST

static void say_networks(const char *networks)
{
  (void)write_file("fitd.conf", scratch_printf("scrape_allow = %s\n", networks));
}

/* The list of networks changes with the daemon running; one that is none changes nothing. */
START_TEST(hangup_reads_the_networks_again)
{
  static const char node[] = "{\"url\":\"http://127.0.0.1:9/metrics\",\"profile\":\"h100-sxm-80gb\"}";
  static const struct {
    const char *networks;
    long status;
  } steps[] = {{"127.0.0.0/8", 201}, {"nowhere", 200}, {"10.0.0.0/8", 422}, {"127.0.0.0/8", 200}};
  const char *more[] = {"--config", scratch_printf("%s/fitd.conf", fitd.dir), NULL};
  long status = 0;
  say_networks("10.0.0.0/8");
  daemon_launch(&fitd, more);
  reply_assert_status(web_put(&fitd, "/v1/nodes/n", node), 422);
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    say_networks(steps[i].networks);
    ck_assert_int_eq(kill(fitd.pid, SIGHUP), 0);
    for (unsigned waits = 0; waits < 100 && status != steps[i].status; waits++) {
      suite_sleep_s(0.05); /* the signal is handled in the main loop */
      status = web_put(&fitd, "/v1/nodes/n", node)->status;
    }
    ck_assert_int_eq(status, steps[i].status);
  }
}
END_TEST

/* Week and hour of a review are those of the zone: it is another day in Kiritimati (+14) than in Pago Pago (-11). */
START_TEST(weeks_are_those_of_the_configured_zone)
{
  static const char *const zones[] = {"Pacific/Kiritimati", "Pacific/Pago_Pago"};
  const long offsets_s[] = {14 * 3600, -11 * 3600};
  for (size_t i = 0; i < 2; i++) {
    const char *more[] = {"--time-zone", zones[i], NULL};
    char wanted[16];
    struct tm utc;
    time_t local;
    json_t *review;
    daemon_launch(&fitd, more);
    local = time(NULL) + offsets_s[i];
    ck_assert_ptr_nonnull(gmtime_r(&local, &utc));
    ck_assert_uint_gt(strftime(wanted, sizeof wanted, "%G-W%V", &utc), 0);
    review = web_post(&fitd, "/v1/reviews", "{}")->json;
    if (doc_at(review, "week") != NULL) /* 409 when both zones are in one week, which has its review already */
      ck_assert_str_eq(doc_text(review, "week"), wanted);
    else
      ck_assert_ptr_nonnull(web_get_ok(&fitd, scratch_printf("/v1/reviews/%s", wanted)));
    daemon_stop(&fitd);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("process");
  TCase *commands = suite_case(suite, "commands", setup_directory, teardown);
  TCase *running = suite_case(suite, "running", setup_daemon, teardown);
  tcase_add_test(commands, help_lists_commands_and_settings);
  tcase_add_test(commands, version_is_one_line);
  tcase_add_test(commands, unknown_words_are_refused);
  tcase_add_test(commands, dumped_configuration_is_the_documented_one);
  tcase_add_test(commands, dumped_configuration_is_a_good_one);
  tcase_add_test(commands, bad_configuration_is_named_by_line);
  tcase_add_test(commands, bad_addresses_are_refused);
  tcase_add_test(commands, settings_are_checked_for_their_meaning);
  tcase_add_test(commands, hangup_reads_the_networks_again);
  tcase_add_test(commands, weeks_are_those_of_the_configured_zone);
  tcase_add_test(commands, foreign_database_is_refused);
  tcase_add_test(commands, evaluate_without_a_server);
  tcase_add_test(commands, evaluate_agrees_with_the_daemon);
  tcase_add_test(commands, evaluate_reads_standard_input);
  tcase_add_test(commands, evaluate_prints_a_table_on_a_terminal);
  tcase_add_test(commands, evaluate_exit_statuses);
  tcase_add_test(commands, evaluate_names_the_whole_document);
  tcase_add_test(commands, a_closed_pipe_is_no_failure);
  tcase_add_test(commands, a_full_disk_is_a_failure);
  tcase_add_test(commands, evaluate_refuses_in_json);
  tcase_add_test(running, sigterm_cuts_no_request_short);
  tcase_add_test(running, sigterm_while_evaluating);
  tcase_add_test(running, idle_clients_do_not_delay_the_end_for_long);
  tcase_add_test(running, nothing_is_left_behind);
  tcase_add_test(running, control_socket_is_the_owners_only);
  tcase_add_test(running, hangup_is_survived);
  return suite_run(suite);
}
