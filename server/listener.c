/* Listening sockets. They are made here and not by the HTTP library so that a refusal says what is wrong. */
#include "server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define RESERVED_FILES 128 /* for the database, the log and outgoing connections */
#define CAPACITY_MIN 16

static bool is_port(const char *text)
{
  unsigned value = 0;
  size_t i;
  for (i = 0; i < 5 && text[i] >= '0' && text[i] <= '9'; i++)
    value = value * 10 + (unsigned)(text[i] - '0');
  return i > 0 && text[i] == '\0' && value <= 65535;
}

enum err listener_parse(char host[256], char port[8], const char *address, struct error *e)
{
  const char *colon = strrchr(address, ':'), *begin = address;
  size_t length;
  if (colon == NULL || !is_port(colon + 1))
    return error_set(e, ERR_INVALID, "", "listen is \"%.100s\"; ADDRESS:PORT with a port of 0 to 65535 is expected",
                     address);
  length = (size_t)(colon - address);
  if (length >= 2 && begin[0] == '[' && begin[length - 1] == ']') {
    begin++;
    length -= 2;
  } else if (memchr(begin, ':', length) != NULL) {
    return error_set(e, ERR_INVALID, "", "listen is \"%.100s\"; an IPv6 address stands in brackets, as in [::1]:8080",
                     address);
  }
  if (length == 0 || length > 255)
    return error_set(e, ERR_INVALID, "", "listen is \"%.100s\"; an address is missing before the port", address);
  memcpy(host, begin, length);
  host[length] = '\0';
  memcpy(port, colon + 1, strlen(colon + 1) + 1);
  return ERR_OK;
}

bool listener_is_loopback(const struct sockaddr *address)
{
  if (address->sa_family == AF_INET) {
    struct sockaddr_in v4;
    memcpy(&v4, address, sizeof v4);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  if (address->sa_family == AF_INET6) {
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof v6);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127);
  }
  return address->sa_family == AF_UNIX;
}

void listener_describe(char *to, size_t size, const struct sockaddr *address)
{
  const socklen_t length = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
  if (getnameinfo(address, length, to, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
    (void)snprintf(to, size, "?");
}

/* Writes the URL of the bound socket, with the port that the system chose. */
static enum err describe(struct listener *listener, bool is_https, struct error *e)
{
  struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
  socklen_t size = sizeof bound;
  char host[64], port[8];
  int error;
  if (getsockname(listener->fd, (struct sockaddr *)&bound, &size) != 0)
    return error_set(e, ERR_UNAVAILABLE, "", "the bound address can not be read: %s", strerror(errno));
  error = getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0)
    return error_set(e, ERR_UNAVAILABLE, "", "the bound address can not be read: %s", gai_strerror(error));
  listener->is_loopback = listener_is_loopback((struct sockaddr *)&bound);
  (void)snprintf(listener->url, sizeof listener->url, bound.ss_family == AF_INET6 ? "%s://[%s]:%s" : "%s://%s:%s",
                 is_https ? "https" : "http", host, port);
  return ERR_OK;
}

static int bind_one(const struct addrinfo *found)
{
  const int on = 1;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, found->ai_protocol);
  if (fd < 0)
    return -1;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
    return fd;
  (void)close(fd);
  return -1;
}

enum err listener_open_tcp(struct listener *out, const char *address, bool is_https, struct error *e)
{
  const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  struct addrinfo *found = NULL;
  char host[256], port[8];
  int error;
  enum err err = listener_parse(host, port, address, e);
  out->fd = -1;
  if (err != ERR_OK)
    return err;
  error = getaddrinfo(host, port, &wanted, &found);
  if (error != 0)
    return error_set(e, ERR_UNAVAILABLE, "", "listen address %s is not known: %s", host, gai_strerror(error));
  out->fd = bind_one(found);
  if (out->fd < 0)
    err = error_set(e, ERR_UNAVAILABLE, "", "can not listen on %s: %s", address, strerror(errno));
  freeaddrinfo(found);
  if (err == ERR_OK)
    err = describe(out, is_https, e);
  if (err != ERR_OK && out->fd >= 0) {
    (void)close(out->fd);
    out->fd = -1;
  }
  return err;
}

enum err listener_open_unix(int *fd, const char *path, struct error *e)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {0}};
  mode_t mask;
  bool is_bound;
  *fd = -1;
  if (strlen(path) >= sizeof address.sun_path)
    return error_set(e, ERR_LIMIT, "", "the control socket's path has %zu bytes, at most %zu work: %.150s",
                     strlen(path), sizeof address.sun_path - 1, path);
  memcpy(address.sun_path, path, strlen(path) + 1);
  if (unlink(path) != 0 && errno != ENOENT)
    return error_set(e, ERR_UNAVAILABLE, "", "the old control socket %.150s can not be removed: %s", path,
                     strerror(errno));
  *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*fd < 0)
    return error_set(e, ERR_UNAVAILABLE, "", "no control socket: %s", strerror(errno));
  mask = umask(0177);
  is_bound = bind(*fd, (struct sockaddr *)&address, sizeof address) == 0;
  (void)umask(mask);
  if (!is_bound || listen(*fd, BACKLOG) != 0) {
    (void)error_set(e, ERR_UNAVAILABLE, "", "can not listen on the control socket %.150s: %s", path, strerror(errno));
    (void)close(*fd);
    *fd = -1;
    return ERR_UNAVAILABLE;
  }
  return ERR_OK;
}

unsigned listener_capacity(unsigned wanted)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return wanted;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit); /* what stands after it counts */
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= (rlim_t)wanted + RESERVED_FILES)
    return wanted;
  return limit.rlim_cur > RESERVED_FILES + CAPACITY_MIN ? (unsigned)(limit.rlim_cur - RESERVED_FILES) : CAPACITY_MIN;
}
