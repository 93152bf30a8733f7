/* Bytes no proper client sends: ambiguous framing, broken targets, slow and half-closed connections. None may be served as
   if it were well, and none may keep others waiting. */
#include "tests/lib/daemon.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"
#include "tests/lib/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_S 5.0
#define SLOW_CLIENT_MAX_S 15.0

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static struct wire_answer exchange(const char *text)
{
  return wire_exchange(&fitd, text, strlen(text), ANSWER_TIMEOUT_S);
}

#define POST_HEAD "POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

/* Requests whose end or target is in doubt: refused with 400 (or the status that fits better) and the connection closed, so
   that what follows on it cannot be taken for a second request. */
static const struct {
  const char *what, *text;
  int other_status; /* also right; 0: only 400; -1: closing without a word */
} AMBIGUOUS[] = {
    {"Content-Length and Transfer-Encoding",
     POST_HEAD
     "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
     0},
    {"two Content-Lengths",
     POST_HEAD "Content-Length: 2\r\nContent-Length: 50\r\n\r\n{}GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 0},
    {"Content-Length that is no number", POST_HEAD "Content-Length: 2x\r\n\r\n{}", 0},
    {"negative Content-Length", POST_HEAD "Content-Length: -2\r\n\r\n{}", 0},
    {"two Hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: example.org\r\n\r\n", 0},
    {"no Host", "GET /healthz HTTP/1.1\r\n\r\n", 0},
    {"gzip, chunked", POST_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501},
    {"unknown Transfer-Encoding", POST_HEAD "Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501},
    {"chunk size that is no number", POST_HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 0},
    {"space before the colon", "GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n", 0},
    {"no request at all", "\x16\x03\x01\x02\x01\x01\xfc\x03\r\n\r\n", -1},
};

/* libmicrohttpd 0.9.75 sends the head of its own 400 twice where Content-Length is no number, so a second status line alone
   is no second request: only a second answer with another status is. */
START_TEST(ambiguous_requests_are_refused)
{
  const struct wire_answer answer = exchange(AMBIGUOUS[_i].text);
  const int status = wire_status(&answer, 0), second = wire_status(&answer, 1), other = AMBIGUOUS[_i].other_status;
  const bool is_silent = answer.bytes == 0 && other == -1;
  ck_assert_msg(status == 400 || (other > 0 && status == other) || is_silent, "%s → %d: %.200s", AMBIGUOUS[_i].what,
                status, answer.text);
  ck_assert_msg(second == 0 || second == status, "%s: a second request was served", AMBIGUOUS[_i].what);
  ck_assert_msg(answer.is_closed, "%s: the connection stays open", AMBIGUOUS[_i].what);
}
END_TEST

START_TEST(nul_in_the_path_is_refused)
{
  static const char *const paths[] = {"/healthz%00", "/v1/profiles/h100-sxm-80gb%00.json", "/v1%00/profiles",
                                      "/v1/scorecards?workload=a%00b"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    const struct wire_answer answer =
        exchange(scratch_printf("GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", paths[i]));
    const int status = wire_status(&answer, 0);
    ck_assert_msg(status == 400 || status == 404 || status == 422, "%s → %d", paths[i], status);
  }
}
END_TEST

START_TEST(large_headers_are_431)
{
  char *value = scratch_alloc(40001);
  struct wire_answer answer;
  memset(value, 'a', 40000);
  answer = exchange(scratch_printf("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: %s\r\n\r\n", value));
  ck_assert_msg(wire_status(&answer, 0) == 431, "%.200s", answer.text);
}
END_TEST

START_TEST(long_targets_are_414)
{
  char *target = scratch_alloc(40001);
  struct wire_answer answer;
  memset(target, 'a', 40000);
  answer = exchange(scratch_printf("GET /%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target));
  ck_assert_msg(wire_status(&answer, 0) == 414 || wire_status(&answer, 0) == 431, "%.200s", answer.text);
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order)
{
  const struct wire_answer answer =
      exchange("GET /healthz HTTP/1.1\r\nHost: localhost\r\nRequest-Id: one-1\r\n\r\n"
               "GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nRequest-Id: two-2\r\n\r\n"
               "GET /healthz HTTP/1.1\r\nHost: localhost\r\nRequest-Id: three-3\r\nConnection: close\r\n\r\n");
  const char *one = strstr(answer.text, "one-1"), *two = strstr(answer.text, "two-2");
  const char *three = strstr(answer.text, "three-3");
  ck_assert_int_eq(wire_status(&answer, 0), 200);
  ck_assert_int_eq(wire_status(&answer, 1), 404);
  ck_assert_int_eq(wire_status(&answer, 2), 200);
  ck_assert(one != NULL && two > one && three > two);
  ck_assert(answer.is_closed);
}
END_TEST

START_TEST(http_1_0_is_served_and_closed)
{
  const struct wire_answer answer = exchange("GET /healthz HTTP/1.0\r\n\r\n");
  ck_assert_msg(wire_status(&answer, 0) == 200, "%.200s", answer.text);
  ck_assert(answer.is_closed);
  ck_assert_ptr_null(strcasestr(answer.text, "Transfer-Encoding"));
}
END_TEST

START_TEST(half_closed_client_gets_its_answer)
{
  const char *body = sample_sketch_with(NULL);
  const char *request = scratch_printf("POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                       strlen(body), body);
  const int fd = wire_connect(&fitd);
  struct wire_answer answer;
  ck_assert(wire_send(fd, request, strlen(request)));
  ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
  answer = wire_read(fd, 15);
  close(fd);
  ck_assert_msg(wire_status(&answer, 0) == 201 && wire_is_complete(&answer), "%.200s", answer.text);
}
END_TEST

START_TEST(client_gone_does_not_hurt)
{
  const char *body = sample_sketch_with(NULL);
  const char *request = scratch_printf("POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\n"
                                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                       strlen(body), body);
  const struct linger reset = {.l_onoff = 1, .l_linger = 0};
  for (int i = 0; i < 20; i++) {
    const int fd = wire_connect(&fitd);
    ck_assert(wire_send(fd, request, i % 2 == 0 ? strlen(request) : strlen(request) / 2));
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(fd);
  }
  ck_assert_int_eq(web_get(&fitd, "/healthz")->status, 200);
}
END_TEST

/* Sends one header byte every 300 ms until the daemon has had enough. */
struct slow_client {
  int fd;
  double closed_after_s;
  atomic_bool is_closed;
};

static void *send_slowly(void *cls)
{
  struct slow_client *client = cls;
  const double start_s = suite_now_s();
  char byte;
  for (;;) {
    const double now_s = suite_now_s() - start_s;
    const bool is_cut = send(client->fd, "a", 1, MSG_NOSIGNAL) < 0 || recv(client->fd, &byte, 1, MSG_DONTWAIT) >= 0;
    if (is_cut || now_s > SLOW_CLIENT_MAX_S) {
      client->closed_after_s = now_s;
      atomic_store(&client->is_closed, true);
      return NULL;
    }
    suite_sleep_s(0.3);
  }
}

START_TEST(slow_headers_are_cut_while_others_are_served)
{
  struct slow_client client = {.fd = wire_connect(&fitd)};
  const char *start = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
  pthread_t thread;
  size_t served = 0;
  ck_assert(wire_send(client.fd, start, strlen(start)));
  ck_assert_int_eq(pthread_create(&thread, NULL, send_slowly, &client), 0);
  while (!atomic_load(&client.is_closed)) {
    const double start_s = suite_now_s();
    ck_assert_int_eq(web_get(&fitd, "/healthz")->status, 200);
    ck_assert_double_lt(suite_now_s() - start_s, 1.0);
    served++;
    suite_sleep_s(0.05);
  }
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  close(client.fd);
  ck_assert_uint_gt(served, 10);
  ck_assert_msg(client.closed_after_s < 10, "a client that never finishes its headers was kept for %.1f s",
                client.closed_after_s);
}
END_TEST

START_TEST(many_idle_connections_do_not_starve_others)
{
  int fds[200];
  for (size_t i = 0; i < 200; i++)
    fds[i] = wire_connect(&fitd);
  ck_assert_int_eq(web_get(&fitd, "/healthz")->status, 200);
  for (size_t i = 0; i < 200; i++)
    close(fds[i]);
}
END_TEST

START_TEST(expect_100_continue)
{
  const char *body = sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]");
  const char *head = scratch_printf(
      POST_HEAD "Expect: 100-continue\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", strlen(body));
  const int fd = wire_connect(&fitd);
  struct wire_answer interim, answer;
  ck_assert(wire_send(fd, head, strlen(head)));
  interim = wire_read(fd, 0.5);
  ck_assert_int_eq(wire_status(&interim, 0), 100);
  ck_assert(wire_send(fd, body, strlen(body)));
  answer = wire_read(fd, ANSWER_TIMEOUT_S);
  close(fd);
  ck_assert_int_eq(wire_status(&answer, 0), 201);
}
END_TEST

START_TEST(expect_100_continue_is_refused_early)
{
  const char *head = POST_HEAD "Expect: 100-continue\r\nContent-Length: 30000000\r\n\r\n";
  const struct wire_answer answer = exchange(head);
  ck_assert_msg(wire_status(&answer, 0) == 413, "%.200s", answer.text);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("http");
  TCase *tcase = suite_case(suite, "http", setup, teardown);
  tcase_add_loop_test(tcase, ambiguous_requests_are_refused, 0, (int)(sizeof AMBIGUOUS / sizeof AMBIGUOUS[0]));
  tcase_add_test(tcase, nul_in_the_path_is_refused);
  tcase_add_test(tcase, large_headers_are_431);
  tcase_add_test(tcase, long_targets_are_414);
  tcase_add_test(tcase, pipelined_requests_are_answered_in_order);
  tcase_add_test(tcase, http_1_0_is_served_and_closed);
  tcase_add_test(tcase, half_closed_client_gets_its_answer);
  tcase_add_test(tcase, client_gone_does_not_hurt);
  tcase_add_test(tcase, slow_headers_are_cut_while_others_are_served);
  tcase_add_test(tcase, many_idle_connections_do_not_starve_others);
  tcase_add_test(tcase, expect_100_continue);
  tcase_add_test(tcase, expect_100_continue_is_refused_early);
  return suite_run(suite);
}
