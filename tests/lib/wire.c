/* Sockets without any HTTP of their own. */
#include "tests/lib/wire.h"

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX ((size_t)4 << 20)

int wire_connect(const struct daemon *daemon)
{
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)daemon->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ck_assert_int_ge(fd, 0);
  ck_assert_msg(connect(fd, (const struct sockaddr *)&address, sizeof address) == 0, "connect: %s", strerror(errno));
  ck_assert_int_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
  return fd;
}

bool wire_send(int fd, const char *data, size_t bytes)
{
  while (bytes > 0) {
    const ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent < 0)
      return false;
    data += sent;
    bytes -= (size_t)sent;
  }
  return true;
}

struct wire_answer wire_read(int fd, double timeout_s)
{
  const double deadline_s = suite_now_s() + timeout_s;
  struct wire_answer answer = {.text = scratch_alloc(ANSWER_BYTES_MAX)};
  for (;;) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    const double left_s = deadline_s - suite_now_s();
    ssize_t got;
    if (left_s <= 0 || answer.bytes + 1 >= ANSWER_BYTES_MAX)
      return answer;
    if (poll(&poll_fd, 1, (int)(left_s * 1000) + 1) <= 0)
      continue;
    got = recv(fd, answer.text + answer.bytes, ANSWER_BYTES_MAX - answer.bytes - 1, 0);
    if (got <= 0) {
      answer.is_closed = true;
      return answer;
    }
    answer.bytes += (size_t)got;
  }
}

struct wire_answer wire_exchange(const struct daemon *daemon, const char *text, size_t bytes, double timeout_s)
{
  const int fd = wire_connect(daemon);
  struct wire_answer answer;
  (void)wire_send(fd, text, bytes); /* a daemon that refuses early has answered all the same */
  answer = wire_read(fd, timeout_s);
  close(fd);
  return answer;
}

int wire_status(const struct wire_answer *answer, size_t n)
{
  const char *at = answer->text;
  for (;;) {
    at = strstr(at, "HTTP/1.");
    if (at == NULL)
      return 0;
    if (n-- == 0)
      return (int)strtol(at + strlen("HTTP/1.1 "), NULL, 10);
    at++;
  }
}

bool wire_is_complete(const struct wire_answer *answer)
{
  const char *end = strstr(answer->text, "\r\n\r\n");
  const char *length = strcasestr(answer->text, "\r\nContent-Length:");
  if (end == NULL || length == NULL || length > end)
    return false;
  return answer->bytes - (size_t)(end + 4 - answer->text) == strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
}
