/* Who may do what: loopback without tokens, scopes with them, and one process a database. */
#include "tests/lib/command.h"
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"
#include "tests/lib/wire.h"

#include <string.h>
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

static struct command_result token_command(const char *verb, const char *name, const char *scope)
{
  const char *arguments[12] = {"token", verb, "--database", fitd.database};
  size_t count = 4;
  if (name != NULL) {
    arguments[count++] = "--name";
    arguments[count++] = name;
  }
  if (scope != NULL) {
    arguments[count++] = "--scope";
    arguments[count++] = scope;
  }
  return command_run(arguments, NULL);
}

/* The longest word of the output is the token. */
static const char *longest_word(const char *text)
{
  const char *best = "";
  size_t best_length = 0;
  while (*text != '\0') {
    const size_t length = strcspn(text, " \t\r\n");
    if (length > best_length) {
      best = text;
      best_length = length;
    }
    text += length;
    text += strspn(text, " \t\r\n");
  }
  return scratch_printf("%.*s", (int)best_length, best);
}

static const char *create_token(const char *name, const char *scope)
{
  const struct command_result result = token_command("create", name, scope);
  const char *token;
  ck_assert_msg(result.exit_status == 0, "%d: %s%s", result.exit_status, result.out, result.err);
  token = longest_word(result.out);
  ck_assert_msg(strlen(token) >= 20, "no token in: %s", result.out);
  return token;
}

static const struct reply *send_as(const char *token, const char *method, const char *path, const char *body)
{
  return web_with(&fitd, method, path, scratch_printf("Authorization: Bearer %s", token), body);
}

static const char *one_profile_sketch(void)
{
  return sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]");
}

START_TEST(without_tokens_loopback_may_do_everything)
{
  (void)sample_scorecard(&fitd, one_profile_sketch());
  (void)web_put_status(&fitd, "/v1/profiles/ours", sample_profile(3350, "2"), 201);
}
END_TEST

START_TEST(tokens_close_the_door)
{
  const char *token = create_token("ci", "evaluate");
  const struct reply *reply = web_get(&fitd, "/v1/scorecards");
  (void)reply_assert_problem(reply, 401);
  ck_assert_ptr_nonnull(reply_header(reply, "WWW-Authenticate"));
  ck_assert_ptr_nonnull(strstr(reply_header(reply, "WWW-Authenticate"), "Bearer"));
  (void)reply_assert_problem(web_post(&fitd, "/v1/evaluations", one_profile_sketch()), 401);
  reply_assert_status(send_as(token, "GET", "/v1/scorecards", NULL), 200);
  reply_assert_status(send_as(token, "POST", "/v1/evaluations", one_profile_sketch()), 201);
}
END_TEST

START_TEST(wrong_credentials_are_401)
{
  const char *token = create_token("ci", "admin");
  const char *last =
      scratch_printf("%.*s%s", (int)strlen(token) - 1, token, token[strlen(token) - 1] == 'a' ? "b" : "a");
  (void)reply_assert_problem(send_as(last, "GET", "/v1/scorecards", NULL), 401);
  (void)reply_assert_problem(send_as("", "GET", "/v1/scorecards", NULL), 401);
  (void)reply_assert_problem(send_as("nonsense", "GET", "/v1/scorecards", NULL), 401);
  (void)reply_assert_problem(
      web_with(&fitd, "GET", "/v1/scorecards", scratch_printf("Authorization: Basic %s", token), NULL), 401);
  reply_assert_status(send_as(token, "GET", "/v1/scorecards", NULL), 200);
}
END_TEST

/* read < evaluate < review < admin, each including the ones before. */
START_TEST(scopes_bound_what_a_token_may_do)
{
  const char *reader = create_token("dashboard", "read"), *pipeline = create_token("ci", "evaluate");
  const char *admin = create_token("root", "admin");
  reply_assert_status(send_as(reader, "GET", "/v1/profiles", NULL), 200);
  (void)reply_assert_problem(send_as(reader, "POST", "/v1/evaluations", one_profile_sketch()), 403);
  reply_assert_status(send_as(pipeline, "POST", "/v1/evaluations", one_profile_sketch()), 201);
  (void)reply_assert_problem(send_as(pipeline, "PUT", "/v1/profiles/ours", sample_profile(3350, "2")), 403);
  reply_assert_status(send_as(admin, "GET", "/v1/profiles", NULL), 200);
  reply_assert_status(send_as(admin, "POST", "/v1/evaluations", one_profile_sketch()), 201);
  reply_assert_status(send_as(admin, "PUT", "/v1/profiles/ours", sample_profile(3350, "2")), 201);
}
END_TEST

START_TEST(revoked_token_is_401)
{
  const char *kept = create_token("kept", "admin"), *token = create_token("ci", "evaluate");
  struct command_result result;
  reply_assert_status(send_as(token, "GET", "/v1/scorecards", NULL), 200);
  result = token_command("revoke", "ci", NULL);
  ck_assert_msg(result.exit_status == 0, "%d: %s%s", result.exit_status, result.out, result.err);
  (void)reply_assert_problem(send_as(token, "GET", "/v1/scorecards", NULL), 401);
  reply_assert_status(send_as(kept, "GET", "/v1/scorecards", NULL), 200);
}
END_TEST

START_TEST(token_is_shown_once)
{
  const char *token = create_token("ci", "evaluate");
  const struct command_result list = token_command("list", NULL, NULL);
  ck_assert_msg(list.exit_status == 0, "%s", list.err);
  ck_assert_ptr_nonnull(strstr(list.out, "ci"));
  ck_assert_ptr_null(strstr(list.out, token));
  ck_assert_ptr_null(strstr(scratch_read_file(fitd.log), token));
  ck_assert_int_ne(token_command("create", "ci", "evaluate").exit_status, 0); /* the name is taken */
}
END_TEST

START_TEST(token_survives_a_restart)
{
  const char *token = create_token("ci", "evaluate");
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL);
  (void)reply_assert_problem(web_get(&fitd, "/v1/scorecards"), 401);
  reply_assert_status(send_as(token, "GET", "/v1/scorecards", NULL), 200);
}
END_TEST

START_TEST(token_can_be_made_without_a_daemon)
{
  const char *token;
  daemon_stop(&fitd);
  token = create_token("ci", "evaluate");
  daemon_launch(&fitd, NULL);
  reply_assert_status(send_as(token, "GET", "/v1/scorecards", NULL), 200);
}
END_TEST

START_TEST(bad_token_commands_are_refused)
{
  const struct command_result scope = token_command("create", "ci", "evaluat");
  ck_assert_int_ne(scope.exit_status, 0);
  ck_assert_msg(strstr(scope.err, "evaluate") != NULL, "%s", scope.err);
  ck_assert_int_ne(token_command("create", "Not A Name", "read").exit_status, 0);
  ck_assert_int_ne(token_command("revoke", "nobody", NULL).exit_status, 0);
  reply_assert_status(web_get(&fitd, "/v1/scorecards"), 200); /* none was made */
}
END_TEST

START_TEST(health_is_public)
{
  (void)create_token("ci", "evaluate");
  reply_assert_status(web_get(&fitd, "/healthz"), 200);
  reply_assert_status(web_get(&fitd, "/readyz"), 200);
}
END_TEST

START_TEST(open_address_needs_a_token)
{
  const char *const arguments[] = {"--listen", "0.0.0.0:0", "--database", fitd.database, NULL};
  struct command_result result;
  daemon_stop(&fitd);
  result = command_run(arguments, NULL);
  ck_assert_int_gt(result.exit_status, 0);
  ck_assert_msg(strcasestr(result.err, "token") != NULL, "%s", result.err);
  ck_assert_str_eq(result.out, "");
}
END_TEST

START_TEST(database_has_one_process)
{
  const char *const arguments[] = {"--listen", "127.0.0.1:0", "--database", fitd.database, NULL};
  const struct command_result result = command_run(arguments, NULL);
  ck_assert_int_gt(result.exit_status, 0);
  ck_assert_str_ne(result.err, "");
  ck_assert_ptr_null(strstr(result.out, "listening"));
  (void)sample_scorecard(&fitd, one_profile_sketch()); /* the first is not disturbed */
}
END_TEST

/* One a second, two at once: of many in one go most are refused, and say when to come back. */
START_TEST(a_client_above_its_rate_is_429)
{
  const char *const more[] = {"--client-rate", "1", NULL};
  const struct reply *reply = NULL;
  unsigned answered = 0, refused = 0;
  daemon_stop(&fitd);
  daemon_launch(&fitd, more);
  for (int i = 0; i < 20; i++) {
    const struct reply *next = web_get(&fitd, "/version");
    answered += next->status == 200;
    refused += next->status == 429;
    if (next->status == 429)
      reply = next;
  }
  ck_assert_uint_eq(answered + refused, 20);
  ck_assert_uint_ge(answered, 2);
  ck_assert_ptr_nonnull(reply);
  (void)reply_assert_problem(reply, 429);
  ck_assert_str_eq(reply_header(reply, "Retry-After"), "1");
}
END_TEST

START_TEST(a_client_with_too_many_connections_is_429)
{
  const char *const more[] = {"--client-connections", "2", NULL};
  struct wire_answer answer;
  int fds[2];
  daemon_stop(&fitd);
  daemon_launch(&fitd, more);
  reply_assert_status(web_get(&fitd, "/version"), 200);
  for (int i = 0; i < 2; i++) {
    static const char request[] = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
    fds[i] = wire_connect(&fitd);
    ck_assert(wire_send(fds[i], request, sizeof request - 1));
    answer = wire_read(fds[i], 0.5);
    ck_assert_int_eq(wire_status(&answer, 0), 200);
  }
  (void)reply_assert_problem(web_get(&fitd, "/version"), 429);
  close(fds[0]);
  close(fds[1]);
}
END_TEST

/* Who tried to change what, and what became of it: refused attempts too, reads not. */
START_TEST(writes_are_audited)
{
  const char *file = scratch_printf("%s/audit.log", fitd.dir);
  const char *const more[] = {"--audit-file", file, NULL};
  const char *token = create_token("ci", "evaluate"), *text;
  daemon_stop(&fitd);
  daemon_launch(&fitd, more);
  reply_assert_status(send_as(token, "GET", "/v1/profiles", NULL), 200);
  reply_assert_status(send_as(token, "POST", "/v1/evaluations", one_profile_sketch()), 201);
  (void)reply_assert_problem(send_as(token, "DELETE", "/v1/profiles/h100-sxm-80gb", NULL), 403);
  (void)reply_assert_problem(web_delete(&fitd, "/v1/models/llama-3.1-8b"), 401);
  daemon_stop(&fitd);
  text = scratch_read_file(file);
  ck_assert_ptr_nonnull(strstr(text,
                               "\"audit\":\"/v1/evaluations\",\"method\":\"POST\",\"status\":201,\"caller\":\"ci\","
                               "\"client\":\"127.0.0.1\""));
  ck_assert_ptr_nonnull(strstr(text, "\"audit\":\"/v1/profiles/h100-sxm-80gb\",\"method\":\"DELETE\",\"status\":403,"
                                     "\"caller\":\"ci\""));
  ck_assert_ptr_nonnull(strstr(text, "\"audit\":\"/v1/models/llama-3.1-8b\",\"method\":\"DELETE\",\"status\":401,"
                                     "\"caller\":\"\""));
  ck_assert_ptr_null(strstr(text, "GET"));
  ck_assert_ptr_null(strstr(text, token));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("access");
  TCase *tcase = suite_case(suite, "access", setup, teardown);
  tcase_add_test(tcase, without_tokens_loopback_may_do_everything);
  tcase_add_test(tcase, tokens_close_the_door);
  tcase_add_test(tcase, wrong_credentials_are_401);
  tcase_add_test(tcase, scopes_bound_what_a_token_may_do);
  tcase_add_test(tcase, revoked_token_is_401);
  tcase_add_test(tcase, token_is_shown_once);
  tcase_add_test(tcase, token_survives_a_restart);
  tcase_add_test(tcase, token_can_be_made_without_a_daemon);
  tcase_add_test(tcase, bad_token_commands_are_refused);
  tcase_add_test(tcase, health_is_public);
  tcase_add_test(tcase, open_address_needs_a_token);
  tcase_add_test(tcase, database_has_one_process);
  tcase_add_test(tcase, a_client_above_its_rate_is_429);
  tcase_add_test(tcase, a_client_with_too_many_connections_is_429);
  tcase_add_test(tcase, writes_are_audited);
  return suite_run(suite);
}
