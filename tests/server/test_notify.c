/* Notifications as a supervisor receives them: on a datagram socket of the test's own. */
#include "server/notify.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int supervisor;
static char dir[128], place[192], received[128];

static void setup(void)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  suite_make_dir(dir, sizeof dir);
  ck_assert_int_lt(snprintf(place, sizeof place, "%s/n", dir), (int)sizeof address.sun_path);
  memcpy(address.sun_path, place, strlen(place));
  supervisor = socket(AF_UNIX, SOCK_DGRAM, 0);
  ck_assert_int_ge(supervisor, 0);
  ck_assert_int_eq(bind(supervisor, (const struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(unsetenv("WATCHDOG_USEC") | unsetenv("WATCHDOG_PID"), 0);
  ck_assert_int_eq(setenv("NOTIFY_SOCKET", place, 1), 0);
}

static void teardown(void)
{
  close(supervisor);
  suite_remove_dir(dir);
}

/* The next datagram; "" when there is none. */
static const char *heard(void)
{
  const ssize_t length = recv(supervisor, received, sizeof received - 1, MSG_DONTWAIT);
  received[length > 0 ? length : 0] = '\0';
  return received;
}

START_TEST(states_arrive)
{
  struct notify notify;
  notify_init(&notify);
  ck_assert(notify_send(&notify, "READY=1"));
  ck_assert_str_eq(heard(), "READY=1");
  notify_alive(&notify, 1000000);
  ck_assert_str_eq(heard(), ""); /* no watchdog was asked for */
}
END_TEST

/* Half of the 10 s that the supervisor waits. */
START_TEST(signs_of_life_come_twice_as_often_as_asked)
{
  struct notify notify;
  ck_assert_int_eq(setenv("WATCHDOG_USEC", "10000000", 1), 0);
  notify_init(&notify);
  notify_alive(&notify, 6000000);
  ck_assert_str_eq(heard(), "WATCHDOG=1");
  notify_alive(&notify, 10900000);
  ck_assert_str_eq(heard(), "");
  notify_alive(&notify, 11000000);
  ck_assert_str_eq(heard(), "WATCHDOG=1");
}
END_TEST

START_TEST(another_process_watchdog_is_not_ours)
{
  struct notify notify;
  ck_assert_int_eq(setenv("WATCHDOG_USEC", "10000000", 1), 0);
  ck_assert_int_eq(setenv("WATCHDOG_PID", "1", 1), 0);
  notify_init(&notify);
  notify_alive(&notify, 60000000);
  ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(without_a_supervisor_nothing_happens)
{
  struct notify notify;
  ck_assert_int_eq(unsetenv("NOTIFY_SOCKET"), 0);
  notify_init(&notify);
  ck_assert(notify_send(&notify, "READY=1"));
  ck_assert_int_eq(setenv("NOTIFY_SOCKET", "vsock:2:1", 1), 0); /* a kind that is not spoken here */
  notify_init(&notify);
  ck_assert(notify_send(&notify, "READY=1"));
  ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(a_supervisor_that_is_gone_is_reported)
{
  struct notify notify;
  ck_assert_int_eq(unlink(place), 0);
  notify_init(&notify);
  ck_assert(!notify_send(&notify, "READY=1"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("notify");
  TCase *tcase = suite_case(suite, "notify", setup, teardown);
  tcase_add_test(tcase, states_arrive);
  tcase_add_test(tcase, signs_of_life_come_twice_as_often_as_asked);
  tcase_add_test(tcase, another_process_watchdog_is_not_ours);
  tcase_add_test(tcase, without_a_supervisor_nothing_happens);
  tcase_add_test(tcase, a_supervisor_that_is_gone_is_reported);
  return suite_run(suite);
}
