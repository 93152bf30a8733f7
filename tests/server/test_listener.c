/* Listening addresses: how they are read, what counts as this machine, and the control socket's file. */
#include "server/listener.h"

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct error error;
static char dir[256];

static void setup(void)
{
  suite_make_dir(dir, sizeof dir);
}

static void teardown(void)
{
  suite_remove_dir(dir);
  scratch_release();
}

static const struct {
  const char *text, *host, *port; /* host NULL: refused */
} ADDRESSES[] = {
    {"127.0.0.1:8080", "127.0.0.1", "8080"},
    {"[::1]:0", "::1", "0"},
    {"localhost:65535", "localhost", "65535"},
    {"localhost:65536", NULL, NULL},
    {"localhost:", NULL, NULL},
    {"localhost", NULL, NULL},
    {":8080", NULL, NULL},
    {"[]:8080", NULL, NULL},
    {"::1:8080", NULL, NULL},
    {"127.0.0.1:http", NULL, NULL},
    {"127.0.0.1:-1", NULL, NULL},
    {"127.0.0.1:000080", NULL, NULL},
};

START_TEST(addresses_are_read)
{
  char host[256], port[8];
  if (ADDRESSES[_i].host == NULL) {
    ck_assert_msg(listener_parse(host, port, ADDRESSES[_i].text, &error) == ERR_INVALID, "%s", ADDRESSES[_i].text);
    ck_assert_ptr_nonnull(strstr(error.message, ADDRESSES[_i].text));
    return;
  }
  ck_assert_int_eq((int)listener_parse(host, port, ADDRESSES[_i].text, &error), ERR_OK);
  ck_assert_str_eq(host, ADDRESSES[_i].host);
  ck_assert_str_eq(port, ADDRESSES[_i].port);
}
END_TEST

static const struct {
  int family;
  const char *text;
  bool is_loopback;
} PEERS[] = {
    {AF_INET, "127.0.0.1", true},         {AF_INET, "127.255.255.254", true},   {AF_INET, "128.0.0.1", false},
    {AF_INET, "10.0.0.1", false},         {AF_INET, "0.0.0.0", false},          {AF_INET6, "::1", true},
    {AF_INET6, "::ffff:127.0.0.1", true}, {AF_INET6, "::ffff:10.0.0.1", false}, {AF_INET6, "::", false},
    {AF_INET6, "fe80::1", false},
};

START_TEST(loopback_is_this_machine)
{
  struct sockaddr_storage address = {.ss_family = (sa_family_t)PEERS[_i].family};
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  if (PEERS[_i].family == AF_INET) {
    ck_assert_int_eq(inet_pton(AF_INET, PEERS[_i].text, &v4.sin_addr), 1);
    memcpy(&address, &v4, sizeof v4);
  } else {
    ck_assert_int_eq(inet_pton(AF_INET6, PEERS[_i].text, &v6.sin6_addr), 1);
    memcpy(&address, &v6, sizeof v6);
  }
  ck_assert_msg(listener_is_loopback((struct sockaddr *)&address) == PEERS[_i].is_loopback, "%s", PEERS[_i].text);
}
END_TEST

START_TEST(port_0_picks_one_and_a_taken_one_is_refused)
{
  struct listener first, second;
  ck_assert_int_eq((int)listener_open_tcp(&first, "127.0.0.1:0", false, &error), ERR_OK);
  ck_assert(first.is_loopback);
  ck_assert_ptr_eq(strstr(first.url, "http://127.0.0.1:"), first.url);
  ck_assert_str_ne(first.url, "http://127.0.0.1:0");
  ck_assert_int_eq((int)listener_open_tcp(&second, first.url + strlen("http://"), false, &error), ERR_UNAVAILABLE);
  ck_assert_int_eq(second.fd, -1);
  ck_assert_ptr_nonnull(strstr(error.message, "in use"));
  ck_assert_int_eq(close(first.fd), 0);
}
END_TEST

START_TEST(every_interface_is_not_loopback)
{
  struct listener all;
  ck_assert_int_eq((int)listener_open_tcp(&all, "0.0.0.0:0", true, &error), ERR_OK);
  ck_assert(!all.is_loopback);
  ck_assert_int_eq(close(all.fd), 0);
}
END_TEST

START_TEST(the_control_socket_is_the_owners)
{
  const char *path = scratch_printf("%s/a.sock", dir);
  struct stat status;
  int first, second;
  ck_assert_int_eq((int)listener_open_unix(&first, path, &error), ERR_OK);
  ck_assert_int_eq(stat(path, &status), 0);
  ck_assert(S_ISSOCK(status.st_mode));
  ck_assert_uint_eq(status.st_mode & 0777, 0600);
  ck_assert_int_eq((int)listener_open_unix(&second, path, &error), ERR_OK); /* a leftover is replaced */
  ck_assert_int_eq(close(first) + close(second), 0);
}
END_TEST

START_TEST(a_long_path_is_refused_with_its_limit)
{
  int fd;
  ck_assert_int_eq((int)listener_open_unix(&fd, scratch_printf("%s/%0120d", dir, 1), &error), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(error.message, "107"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("listener");
  TCase *tcase = suite_case(suite, "listener", setup, teardown);
  tcase_add_loop_test(tcase, addresses_are_read, 0, sizeof ADDRESSES / sizeof ADDRESSES[0]);
  tcase_add_loop_test(tcase, loopback_is_this_machine, 0, sizeof PEERS / sizeof PEERS[0]);
  tcase_add_test(tcase, port_0_picks_one_and_a_taken_one_is_refused);
  tcase_add_test(tcase, every_interface_is_not_loopback);
  tcase_add_test(tcase, the_control_socket_is_the_owners);
  tcase_add_test(tcase, a_long_path_is_refused_with_its_limit);
  return suite_run(suite);
}
