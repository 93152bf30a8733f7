/* Limits of a client address: the token bucket's arithmetic, what counts as one client, and a table that floods do not fill. */
#include "server/clients.h"

#include "tests/lib/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <string.h>

static struct clients *clients;
static struct error error;
static const int64_t second_us = 1000000, start_us = 5000000;

static void setup(void)
{
  const struct client_limits limits = {.connections = 2, .requests_per_s = 4};
  ck_assert_int_eq((int)clients_open(&clients, &limits, &error), ERR_OK);
}

static void teardown(void)
{
  clients_close(clients);
}

static struct client *enter(const char *text)
{
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
    return clients_enter(clients, (const struct sockaddr *)&v4);
  ck_assert_int_eq(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
  return clients_enter(clients, (const struct sockaddr *)&v6);
}

static unsigned taken_at(struct client *client, int64_t now_us, unsigned tries)
{
  unsigned taken = 0;
  for (unsigned i = 0; i < tries; i++)
    taken += clients_take_request(clients, client, now_us) == 0;
  return taken;
}

/* 4 a second, twice as many at once: 8 of 20; half a second later 2 more; after a long pause 8 again. */
START_TEST(rate_and_burst)
{
  struct client *client = enter("192.0.2.1");
  ck_assert_uint_eq(taken_at(client, start_us, 20), 8);
  ck_assert_uint_eq(taken_at(client, start_us + second_us / 2, 20), 2);
  ck_assert_uint_eq(taken_at(client, start_us + 100 * second_us, 20), 8);
  ck_assert_uint_eq(clients_take_request(clients, client, start_us + 100 * second_us),
                    1); /* s: a quarter, rounded up */
}
END_TEST

START_TEST(clients_do_not_share)
{
  struct client *one = enter("192.0.2.1"), *other = enter("192.0.2.2");
  ck_assert_uint_eq(taken_at(one, start_us, 20), 8);
  ck_assert_uint_eq(taken_at(other, start_us, 20), 8);
}
END_TEST

START_TEST(a_64_is_one_client)
{
  struct client *one = enter("2001:db8:1:2::1");
  ck_assert_ptr_eq(one, enter("2001:db8:1:2:ffff::9"));
  ck_assert_ptr_ne(one, enter("2001:db8:1:3::1"));
  ck_assert_ptr_eq(enter("192.0.2.1"), enter("::ffff:192.0.2.1"));
}
END_TEST

START_TEST(connections_are_counted)
{
  struct client *client = enter("192.0.2.1");
  (void)enter("192.0.2.1");
  ck_assert(!clients_has_too_many(clients, client));
  (void)enter("192.0.2.1");
  ck_assert(clients_has_too_many(clients, client));
  clients_leave(clients, client);
  ck_assert(!clients_has_too_many(clients, client));
}
END_TEST

START_TEST(limits_of_zero_are_none)
{
  const struct client_limits none = {0, 0};
  struct client *client = enter("192.0.2.1");
  clients_set_limits(clients, &none);
  for (int i = 0; i < 10; i++)
    (void)enter("192.0.2.1");
  ck_assert(!clients_has_too_many(clients, client));
  ck_assert_uint_eq(taken_at(client, start_us, 1000), 1000);
}
END_TEST

START_TEST(unix_sockets_are_not_limited)
{
  const struct sockaddr local = {.sa_family = AF_UNIX};
  struct client *client = clients_enter(clients, &local);
  ck_assert_ptr_null(client);
  ck_assert_uint_eq(taken_at(client, start_us, 100), 100);
  clients_leave(clients, client);
}
END_TEST

/* More addresses than places: those with connections keep theirs, a new one is served without limit. */
START_TEST(a_flood_of_addresses_takes_no_place_in_use)
{
  struct client *first = enter("198.51.100.1");
  unsigned placed = 0;
  ck_assert_uint_eq(taken_at(first, start_us, 20), 8);
  for (unsigned i = 0; i < 20000; i++) {
    char text[32];
    (void)snprintf(text, sizeof text, "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
    placed += enter(text) != NULL;
  }
  ck_assert_uint_lt(placed, 4096);
  ck_assert_uint_eq(taken_at(first, start_us, 20), 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("clients");
  TCase *tcase = suite_case(suite, "clients", setup, teardown);
  tcase_add_test(tcase, rate_and_burst);
  tcase_add_test(tcase, clients_do_not_share);
  tcase_add_test(tcase, a_64_is_one_client);
  tcase_add_test(tcase, connections_are_counted);
  tcase_add_test(tcase, limits_of_zero_are_none);
  tcase_add_test(tcase, unix_sockets_are_not_limited);
  tcase_add_test(tcase, a_flood_of_addresses_takes_no_place_in_use);
  return suite_run(suite);
}
