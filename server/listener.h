/* Listening sockets: the TCP address of the API and the Unix socket of the control channel.
   Errors: ERR_INVALID for an address that can not be read, ERR_UNAVAILABLE when the system refuses it. */
#ifndef FITD_SERVER_LISTENER_H
#define FITD_SERVER_LISTENER_H

#include <sys/socket.h>

#include "core/error.h"

struct listener {
  int fd;
  bool is_loopback; /* only this machine reaches it */
  char url[96];     /* http://127.0.0.1:8080, or https */
};

/* "127.0.0.1:8080", "[::1]:0", "localhost:8080", "0.0.0.0:8080". */
enum err listener_open_tcp(struct listener *out, const char *address, bool is_https, struct error *e) MUST_CHECK;
/* Replaces a socket left at `path`; the caller holds the lock that makes it ours. Mode 0600. */
enum err listener_open_unix(int *fd, const char *path, struct error *e) MUST_CHECK;

/* Splits an address without opening anything; host and port are cut to their buffers' size by failing. */
enum err listener_parse(char host[256], char port[8], const char *address, struct error *e) MUST_CHECK;

/* Raises the limit of open files as far as it goes; how many of `wanted` connections then fit beside everything else. */
unsigned listener_capacity(unsigned wanted);

bool listener_is_loopback(const struct sockaddr *address);
/* The numeric address without its port, for logs; "?" when there is none. */
void listener_describe(char *to, size_t size, const struct sockaddr *address);

#endif
