/* Which addresses a list of networks allows: bounds of prefixes, and what is dangerous anywhere. */
#include "server/addresses.h"
#include "tests/lib/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static struct error e;

static bool allows(const char *networks, const char *address)
{
  struct addresses list;
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  ck_assert_msg(addresses_parse(&list, networks, &e) == ERR_OK, "%s", e.message);
  if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
    return addresses_allow(&list, (const struct sockaddr *)&v4);
  ck_assert_int_eq(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
  return addresses_allow(&list, (const struct sockaddr *)&v6);
}

START_TEST(prefixes)
{
  ck_assert(allows("10.0.0.0/8", "10.255.255.255"));
  ck_assert(!allows("10.0.0.0/8", "11.0.0.0"));
  ck_assert(allows("172.16.0.0/12", "172.31.255.255"));
  ck_assert(!allows("172.16.0.0/12", "172.32.0.0"));
  ck_assert(allows(" 192.0.2.7 , fd00::/8", "192.0.2.7"));
  ck_assert(!allows("192.0.2.7", "192.0.2.6"));
  ck_assert(allows("fd00::/8", "fdff::1"));
  ck_assert(!allows("fd00::/8", "fe00::1"));
  ck_assert(allows("0.0.0.0/0", "203.0.113.1"));
  ck_assert(!allows("0.0.0.0/0", "2001:db8::1"));
  ck_assert(!allows("", "10.0.0.1"));
}
END_TEST

START_TEST(dangerous_addresses_need_their_own_network)
{
  static const char *const dangerous[] = {
      "127.0.0.1",       "127.1.2.3", "0.0.0.0", "169.254.169.254", "100.100.100.200", "224.0.0.1", "240.0.0.1",
      "255.255.255.255", "::1",       "::",      "fe80::1",         "fd00:ec2::254",   "ff02::1"};
  for (size_t i = 0; i < sizeof dangerous / sizeof dangerous[0]; i++)
    ck_assert_msg(!allows("0.0.0.0/0,::/0,100.64.0.0/10,fc00::/7", dangerous[i]), "%s", dangerous[i]);
  ck_assert(allows("127.0.0.0/8", "127.0.0.1"));
  ck_assert(allows("127.0.0.1", "127.0.0.1"));
  ck_assert(!allows("127.0.0.1", "127.0.0.2"));
  ck_assert(!allows("126.0.0.0/7", "127.0.0.1"));
  ck_assert(allows("169.254.169.254/32", "169.254.169.254"));
  ck_assert(allows("::1", "::1"));
  ck_assert(allows("100.64.0.0/10", "100.100.100.201"));
}
END_TEST

START_TEST(ipv4_inside_ipv6_is_ipv4)
{
  ck_assert(!allows("::/0", "::ffff:127.0.0.1"));
  ck_assert(allows("10.0.0.0/8", "::ffff:10.1.2.3"));
  ck_assert(!allows("::/0,64:ff9b::/96", "64:ff9b::7f00:1"));
  ck_assert(allows("10.0.0.0/8", "64:ff9b::a00:1"));
}
END_TEST

START_TEST(lists_that_are_none)
{
  static const char *const bad[] = {"10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "10.0.0.0/x",
                                    "example.com", "::/129",   "1.2.3.4/-1"};
  struct addresses list;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ck_assert_msg(addresses_parse(&list, bad[i], &e) == ERR_INVALID, "%s", bad[i]);
  ck_assert_int_eq(addresses_parse(&list, "10.0.0.0/8,,", &e), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
}
END_TEST

START_TEST(hosts_are_resolved)
{
  struct addresses list;
  ck_assert_int_eq(addresses_parse(&list, "10.0.0.0/8", &e), ERR_OK);
  ck_assert_int_eq(addresses_check_host(&list, "10.1.2.3", "80", &e), ERR_OK);
  ck_assert_int_eq(addresses_check_host(&list, "localhost", "80", &e), ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(e.message, "scrape_allow"));
  ck_assert_int_eq(addresses_check_host(&list, "0x7f000001", "80", &e), ERR_INVALID);
  ck_assert_int_eq(addresses_check_host(&list, "2130706433", "80", &e), ERR_INVALID);
  ck_assert_int_eq(addresses_check_host(&list, "0177.1", "80", &e), ERR_INVALID);
  ck_assert_int_eq(addresses_check_host(&list, "nothing.invalid", "80", &e), ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(e.message, "does not resolve"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("addresses");
  TCase *tcase = suite_case(suite, "addresses", NULL, NULL);
  tcase_add_test(tcase, prefixes);
  tcase_add_test(tcase, dangerous_addresses_need_their_own_network);
  tcase_add_test(tcase, ipv4_inside_ipv6_is_ipv4);
  tcase_add_test(tcase, lists_that_are_none);
  tcase_add_test(tcase, hosts_are_resolved);
  return suite_run(suite);
}
