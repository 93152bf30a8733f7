/* Accepting connections on a thread of our own and handing them to the HTTP library.
   The library could accept by itself, but its way of stopping (MHD_quiesce_daemon with epoll and a thread pool, 0.9.75)
   races with its own threads: both remove the listening socket from an epoll set and the loser aborts the process.
   Threads: start and stop from one thread. */
#ifndef FITD_SERVER_ACCEPTOR_H
#define FITD_SERVER_ACCEPTOR_H

#include <sys/socket.h>

#include "core/error.h"

struct acceptor;

struct acceptor_options {
  int listen_fd;               /* taken over, also when the start fails */
  bool (*has_room)(void *cls); /* false: new clients wait in the backlog */
  void (*add)(void *cls, int fd, const struct sockaddr *address, socklen_t length); /* takes the descriptor over */
  void *cls;
};

enum err acceptor_start(struct acceptor **out, const struct acceptor_options *options, struct error *e) MUST_CHECK;

/* Closes the listening socket: new connections are refused from here on. NULL is allowed. */
void acceptor_stop(struct acceptor *acceptor);

#endif
