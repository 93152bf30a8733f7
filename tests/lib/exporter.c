/* The misbehaving exporter. Connections are closed after each answer. */
#include "tests/lib/exporter.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#define PATHS_MAX 64
#define BOMB_BYTES (50u << 20)

struct exporter {
  int listen_fd;
  unsigned port;
  pthread_t thread;
  atomic_bool is_stopping;
  atomic_uint open_count;
  pthread_mutex_t mutex; /* guards what follows */
  char *page, *authorization;
  struct {
    char path[64];
    unsigned count;
  } hits[PATHS_MAX];
};

struct connection {
  struct exporter *exporter;
  int fd;
};

static bool send_all(int fd, const void *bytes, size_t count)
{
  const char *at = bytes;
  while (count > 0) {
    const ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    at += sent;
    count -= (size_t)sent;
  }
  return true;
}

static void answer(int fd, const char *status, const char *headers, const void *body, size_t length)
{
  char head[512];
  (void)snprintf(head, sizeof head, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n", status, length,
                 headers);
  if (send_all(fd, head, strlen(head)))
    (void)send_all(fd, body, length);
}

static void answer_text(int fd, const char *status, const char *headers, const char *text)
{
  answer(fd, status, headers, text, strlen(text));
}

/* Until the client gives up. */
static void wait_for_end(const struct connection *c)
{
  struct pollfd poll_fd = {.fd = c->fd, .events = POLLIN};
  char byte;
  while (!atomic_load(&c->exporter->is_stopping))
    if (poll(&poll_fd, 1, 20) > 0 && recv(c->fd, &byte, 1, 0) <= 0)
      return;
}

static void drip(const struct connection *c)
{
  static const char page[] = "a_long_name_that_never_ends";
  (void)send_all(c->fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", 38);
  for (size_t i = 0; !atomic_load(&c->exporter->is_stopping); i++) {
    if (!send_all(c->fd, &page[i % (sizeof page - 1)], 1))
      return;
    (void)usleep(20000);
  }
}

static void bomb(int fd)
{
  static char line[4096], packed[1 << 18];
  z_stream stream = {.next_out = (unsigned char *)packed, .avail_out = sizeof packed};
  for (size_t i = 0; i < sizeof line; i++)
    line[i] = i % 64 == 63 ? '\n' : i % 64 == 0 ? '#' : 'x';
  if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    return;
  for (unsigned done = 0; done < BOMB_BYTES; done += sizeof line) {
    stream.next_in = (unsigned char *)line;
    stream.avail_in = sizeof line;
    (void)deflate(&stream, Z_NO_FLUSH);
  }
  (void)deflate(&stream, Z_FINISH);
  answer(fd, "200 OK", "Content-Encoding: gzip\r\n", packed, stream.total_out);
  (void)deflateEnd(&stream);
}

static void many(int fd)
{
  char line[64];
  (void)send_all(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", 38);
  for (int i = 0; i < 400000; i++) {
    const int length = snprintf(line, sizeof line, "m{i=\"%d\"} 1\n", i);
    if (!send_all(fd, line, (size_t)length))
      return;
  }
}

static void answer_secret(const struct connection *c, const char *request)
{
  const char *given = strcasestr(request, "\r\nAuthorization: ");
  bool is_right;
  (void)pthread_mutex_lock(&c->exporter->mutex);
  is_right = given != NULL && c->exporter->authorization != NULL &&
             strncmp(given + 17, c->exporter->authorization, strlen(c->exporter->authorization)) == 0 &&
             given[17 + strlen(c->exporter->authorization)] == '\r';
  (void)pthread_mutex_unlock(&c->exporter->mutex);
  answer_text(c->fd, is_right ? "200 OK" : "401 Unauthorized", "", "up 1\n");
}

static void answer_page(const struct connection *c)
{
  char *page;
  (void)pthread_mutex_lock(&c->exporter->mutex);
  page = strdup(c->exporter->page);
  (void)pthread_mutex_unlock(&c->exporter->mutex);
  answer_text(c->fd, "200 OK", "Content-Type: text/plain; version=0.0.4\r\n", page);
  free(page);
}

static void misbehave(const struct connection *c, const char *path, const char *request)
{
  if (strcmp(path, "/hang") == 0)
    wait_for_end(c);
  else if (strcmp(path, "/drip") == 0)
    drip(c);
  else if (strcmp(path, "/bomb") == 0)
    bomb(c->fd);
  else if (strcmp(path, "/many") == 0)
    many(c->fd);
  else if (strcmp(path, "/loop") == 0)
    answer_text(c->fd, "302 Found", "Location: /loop\r\n", "");
  else if (strcmp(path, "/elsewhere") == 0)
    answer_text(c->fd, "302 Found", "Location: /good\r\n", "up 1\n");
  else if (strcmp(path, "/short") == 0)
    (void)send_all(c->fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nup 1\n", 45);
  else if (strncmp(path, "/status/", 8) == 0)
    answer_text(c->fd, path + 8, "", "up 1\n");
  else if (strcmp(path, "/garbage") == 0)
    answer_text(c->fd, "200 OK", "", "\x01\x02{{{ not metrics\n");
  else if (strcmp(path, "/html") == 0)
    answer_text(c->fd, "200 OK", "Content-Type: text/html\r\n", "<html><body>GPU exporter</body></html>\n");
  else if (strcmp(path, "/empty") == 0)
    answer_text(c->fd, "200 OK", "", "");
  else if (strcmp(path, "/notgzip") == 0)
    answer_text(c->fd, "200 OK", "Content-Encoding: gzip\r\n", "up 1\n");
  else if (strcmp(path, "/deflate") == 0)
    answer_text(c->fd, "200 OK", "Content-Encoding: deflate\r\n", "up 1\n");
  else if (strcmp(path, "/secret") == 0)
    answer_secret(c, request);
  else
    answer_page(c);
}

static void count_hit(struct exporter *exporter, const char *path)
{
  (void)pthread_mutex_lock(&exporter->mutex);
  for (size_t i = 0; i < PATHS_MAX; i++) {
    if (exporter->hits[i].count > 0 && strcmp(exporter->hits[i].path, path) != 0)
      continue;
    (void)snprintf(exporter->hits[i].path, sizeof exporter->hits[i].path, "%s", path);
    exporter->hits[i].count++;
    break;
  }
  (void)pthread_mutex_unlock(&exporter->mutex);
}

static void *serve(void *cls)
{
  struct connection c = *(struct connection *)cls;
  char request[4096], path[64] = "";
  size_t length = 0;
  free(cls);
  while (length + 1 < sizeof request) {
    const ssize_t got = recv(c.fd, request + length, sizeof request - 1 - length, 0);
    if (got <= 0)
      break;
    length += (size_t)got;
    request[length] = '\0';
    if (strstr(request, "\r\n\r\n") != NULL) {
      const size_t end = strncmp(request, "GET ", 4) == 0 ? strcspn(request + 4, " ?") : 0;
      (void)snprintf(path, sizeof path, "%.*s", (int)end, request + 4);
      count_hit(c.exporter, path);
      misbehave(&c, path, request);
      break;
    }
  }
  (void)shutdown(c.fd, SHUT_WR);
  while (recv(c.fd, request, sizeof request, MSG_DONTWAIT) > 0)
    ;
  (void)close(c.fd);
  atomic_fetch_sub(&c.exporter->open_count, 1);
  return NULL;
}

static void *accept_all(void *cls)
{
  struct exporter *exporter = cls;
  struct pollfd poll_fd = {.fd = exporter->listen_fd, .events = POLLIN};
  while (!atomic_load(&exporter->is_stopping)) {
    struct connection *c;
    pthread_t thread;
    const int fd = poll(&poll_fd, 1, 20) > 0 ? accept(exporter->listen_fd, NULL, NULL) : -1;
    if (fd < 0)
      continue;
    c = malloc(sizeof *c);
    *c = (struct connection){exporter, fd};
    atomic_fetch_add(&exporter->open_count, 1);
    if (pthread_create(&thread, NULL, serve, c) != 0)
      abort();
    (void)pthread_detach(thread);
  }
  return NULL;
}

struct exporter *exporter_start(void)
{
  struct exporter *exporter = calloc(1, sizeof *exporter);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  ck_assert_ptr_nonnull(exporter);
  exporter->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ck_assert_int_ge(exporter->listen_fd, 0);
  ck_assert_int_eq(bind(exporter->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(listen(exporter->listen_fd, 1024), 0);
  ck_assert_int_eq(getsockname(exporter->listen_fd, (struct sockaddr *)&address, &size), 0);
  exporter->port = ntohs(address.sin_port);
  exporter->page = strdup("up 1\n");
  ck_assert_int_eq(pthread_mutex_init(&exporter->mutex, NULL), 0);
  ck_assert_int_eq(pthread_create(&exporter->thread, NULL, accept_all, exporter), 0);
  return exporter;
}

void exporter_stop(struct exporter *exporter)
{
  if (exporter == NULL)
    return;
  atomic_store(&exporter->is_stopping, true);
  (void)pthread_join(exporter->thread, NULL);
  while (atomic_load(&exporter->open_count) > 0)
    (void)usleep(1000);
  (void)close(exporter->listen_fd);
  free(exporter->page);
  free(exporter->authorization);
  (void)pthread_mutex_destroy(&exporter->mutex);
  free(exporter);
}

unsigned exporter_port(const struct exporter *exporter)
{
  return exporter->port;
}

static void replace(struct exporter *exporter, char **text, const char *with)
{
  (void)pthread_mutex_lock(&exporter->mutex);
  free(*text);
  *text = strdup(with);
  (void)pthread_mutex_unlock(&exporter->mutex);
}

void exporter_say(struct exporter *exporter, const char *page)
{
  replace(exporter, &exporter->page, page);
}

void exporter_expect(struct exporter *exporter, const char *authorization)
{
  replace(exporter, &exporter->authorization, authorization);
}

unsigned exporter_hits(struct exporter *exporter, const char *path)
{
  unsigned count = 0;
  (void)pthread_mutex_lock(&exporter->mutex);
  for (size_t i = 0; i < PATHS_MAX; i++)
    if (exporter->hits[i].count > 0 && strncmp(exporter->hits[i].path, path, strlen(path)) == 0)
      count += exporter->hits[i].count;
  (void)pthread_mutex_unlock(&exporter->mutex);
  return count;
}
