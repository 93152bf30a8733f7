/* One thread, poll on the listening socket and on an event that ends it. */
#include "server/acceptor.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct acceptor {
  struct acceptor_options options;
  int stop_fd;
  pthread_t thread;
};

enum { PATIENCE_MS = 20 }; /* while there is no room or no descriptor */

/* True when the end was asked for within the time. */
static bool wait_for_stop(const struct acceptor *acceptor, int milliseconds)
{
  struct pollfd stop = {.fd = acceptor->stop_fd, .events = POLLIN};
  return poll(&stop, 1, milliseconds) > 0;
}

static bool accept_one(struct acceptor *acceptor)
{
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  const int fd =
      accept4(acceptor->options.listen_fd, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0)
    return false;
  acceptor->options.add(acceptor->options.cls, fd, (const struct sockaddr *)&address, length);
  return true;
}

/* Out of descriptors or memory: the client stays in the backlog until some are free. */
static bool is_shortage(int error)
{
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void *accept_all(void *cls)
{
  struct acceptor *acceptor = cls;
  for (;;) {
    struct pollfd fds[2] = {{.fd = acceptor->stop_fd, .events = POLLIN},
                            {.fd = acceptor->options.listen_fd, .events = POLLIN}};
    if (!acceptor->options.has_room(acceptor->options.cls)) {
      if (wait_for_stop(acceptor, PATIENCE_MS))
        return NULL;
      continue;
    }
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
      return NULL; /* only a bug of ours makes poll fail */
    if (fds[0].revents != 0)
      return NULL;
    if (!accept_one(acceptor) && is_shortage(errno) && wait_for_stop(acceptor, PATIENCE_MS))
      return NULL;
  }
}

enum err acceptor_start(struct acceptor **out, const struct acceptor_options *options, struct error *e)
{
  struct acceptor *acceptor = calloc(1, sizeof *acceptor);
  int failure = ENOMEM;
  *out = NULL;
  if (acceptor != NULL) {
    acceptor->options = *options;
    acceptor->stop_fd = eventfd(0, EFD_CLOEXEC);
    failure = acceptor->stop_fd < 0 ? errno : pthread_create(&acceptor->thread, NULL, accept_all, acceptor);
  }
  if (failure == 0) {
    *out = acceptor;
    return ERR_OK;
  }
  if (acceptor != NULL && acceptor->stop_fd >= 0)
    (void)close(acceptor->stop_fd);
  free(acceptor);
  (void)close(options->listen_fd);
  return error_set(e, ERR_UNAVAILABLE, "", "the thread that accepts connections can not be started: %s",
                   strerror(failure));
}

void acceptor_stop(struct acceptor *acceptor)
{
  const uint64_t one = 1;
  if (acceptor == NULL)
    return;
  /* An eventfd that is read by nobody takes 2^64 writes before it refuses one. */
  if (write(acceptor->stop_fd, &one, sizeof one) == (ssize_t)sizeof one)
    (void)pthread_join(acceptor->thread, NULL);
  (void)close(acceptor->options.listen_fd);
  (void)close(acceptor->stop_fd);
  free(acceptor);
}
