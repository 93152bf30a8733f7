/* Deadlines of connections, on socket pairs and with the time given by the test. */
#include "server/peers.h"

#include "server/clock.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND_US 1000000

static struct peers *peers;
static struct peer *peer;
static struct error error;
static int ends[2]; /* 0: the server's, 1: the client's */
static int64_t now_us;

static void setup(void)
{
  const struct peer_limits limits = {.idle_s = 10, .header_s = 5, .body_s = 15, .send_s = 60};
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ck_assert_int_eq((int)peers_open(&peers, &limits, &error), ERR_OK);
  peer = peers_add(peers, ends[0], true);
  ck_assert_ptr_nonnull(peer);
  now_us = clock_monotonic_us();
}

static void teardown(void)
{
  peers_remove(peers, peer);
  peers_close(peers);
  (void)close(ends[0]);
  (void)close(ends[1]);
}

/* Past the end of a phase the client reads an end; shortly before, nothing. */
static void assert_ends_after(int64_t seconds, bool has_answer)
{
  char bytes[512];
  ssize_t count;
  ck_assert_uint_eq(peers_sweep(peers, now_us + seconds * SECOND_US - SECOND_US / 10, false), 0);
  ck_assert_int_eq((int)recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT), -1);
  ck_assert_uint_eq(peers_sweep(peers, now_us + seconds * SECOND_US + SECOND_US / 10, false), 1);
  count = recv(ends[1], bytes, sizeof bytes - 1, MSG_DONTWAIT);
  ck_assert_int_eq(count > 0, has_answer);
  if (count > 0) {
    const char *body;
    bytes[count] = '\0';
    ck_assert_ptr_eq(strstr(bytes, "HTTP/1.1 408 "), bytes);
    body = strstr(bytes, "\r\n\r\n");
    ck_assert_ptr_nonnull(body);
    ck_assert_ptr_nonnull(strstr(bytes, scratch_printf("Content-Length: %zu\r\n", strlen(body + 4))));
    ck_assert_int_eq((int)recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT), 0);
  }
}

START_TEST(a_new_connection_has_the_time_of_a_header)
{
  assert_ends_after(5, true);
}
END_TEST

START_TEST(a_request_line_does_not_extend_it)
{
  peers_enter(peers, peer, PEER_HEADER, now_us + 4 * SECOND_US);
  assert_ends_after(5, true);
}
END_TEST

START_TEST(between_requests)
{
  peers_enter(peers, peer, PEER_IDLE, now_us);
  assert_ends_after(15, true);
}
END_TEST

START_TEST(a_later_header_has_its_own_time)
{
  peers_enter(peers, peer, PEER_IDLE, now_us);
  peers_enter(peers, peer, PEER_HEADER, now_us + 2 * SECOND_US);
  assert_ends_after(7, true);
}
END_TEST

START_TEST(a_body)
{
  peers_enter(peers, peer, PEER_BODY, now_us);
  assert_ends_after(15, true);
}
END_TEST

START_TEST(sending_ends_without_a_second_answer)
{
  peers_enter(peers, peer, PEER_SENDING, now_us);
  assert_ends_after(60, false);
}
END_TEST

START_TEST(handling_has_no_end)
{
  peers_enter(peers, peer, PEER_HANDLING, now_us);
  ck_assert_uint_eq(peers_sweep(peers, now_us + 3600LL * SECOND_US, false), 0);
}
END_TEST

/* While draining, an idle connection reads what was sent before and then an end; a busy one is left alone. */
START_TEST(draining_ends_idle_connections_only)
{
  char bytes[8];
  peers_enter(peers, peer, PEER_HANDLING, now_us);
  ck_assert_uint_eq(peers_sweep(peers, now_us, true), 0);
  ck_assert_int_eq((int)recv(ends[0], bytes, sizeof bytes, MSG_DONTWAIT), -1);
  peers_enter(peers, peer, PEER_IDLE, now_us);
  ck_assert_int_eq((int)send(ends[1], "GET", 3, 0), 3);
  ck_assert_uint_eq(peers_sweep(peers, now_us, true), 0);
  ck_assert_int_eq((int)recv(ends[0], bytes, sizeof bytes, MSG_DONTWAIT), 3);
  ck_assert_int_eq((int)recv(ends[0], bytes, sizeof bytes, MSG_DONTWAIT), 0);
}
END_TEST

START_TEST(the_list_survives_any_order_of_removal)
{
  struct peer *more[3];
  for (size_t i = 0; i < 3; i++) {
    more[i] = peers_add(peers, ends[0], true);
    ck_assert_ptr_nonnull(more[i]);
  }
  ck_assert_uint_eq(peers_count(peers), 4);
  peers_remove(peers, more[1]);
  peers_remove(peers, more[2]);
  peers_remove(peers, more[0]);
  ck_assert_uint_eq(peers_count(peers), 1);
  ck_assert_uint_eq(peers_sweep(peers, now_us + 6 * SECOND_US, false), 1);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("peers");
  TCase *tcase = suite_case(suite, "peers", setup, teardown);
  tcase_add_test(tcase, a_new_connection_has_the_time_of_a_header);
  tcase_add_test(tcase, a_request_line_does_not_extend_it);
  tcase_add_test(tcase, between_requests);
  tcase_add_test(tcase, a_later_header_has_its_own_time);
  tcase_add_test(tcase, a_body);
  tcase_add_test(tcase, sending_ends_without_a_second_answer);
  tcase_add_test(tcase, handling_has_no_end);
  tcase_add_test(tcase, draining_ends_idle_connections_only);
  tcase_add_test(tcase, the_list_survives_any_order_of_removal);
  return suite_run(suite);
}
