/* What each client address uses: open connections and requests a second, each with a limit. An IPv6 client is its /64, the
   smallest block that is given out. Behind a proxy every request has the proxy's address: leave the limits off there.
   Threads: any. Ownership: a client lives while it has connections, longer while its place is not needed. */
#ifndef FITD_SERVER_CLIENTS_H
#define FITD_SERVER_CLIENTS_H

#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"

struct client_limits {
  unsigned connections;    /* open at once; 0 = no limit */
  unsigned requests_per_s; /* on average, twice as many at once; 0 = no limit */
};

struct clients;
struct client;

enum err clients_open(struct clients **out, const struct client_limits *limits, struct error *e) MUST_CHECK;
void clients_close(struct clients *clients); /* after every client has left */
void clients_set_limits(struct clients *clients, const struct client_limits *limits);

/* Counts a new connection. NULL for what has no address of its own (a Unix socket) and when all places are taken by
   clients with connections: neither is limited. */
struct client *clients_enter(struct clients *clients, const struct sockaddr *address);
void clients_leave(struct clients *clients, struct client *client); /* NULL is fine */

/* 0 when the request may go on, else after how many seconds it may be tried again. */
unsigned clients_take_request(struct clients *clients, struct client *client, int64_t now_us);
/* Whether the client has more connections open than it may. */
bool clients_has_too_many(struct clients *clients, const struct client *client);

#endif
