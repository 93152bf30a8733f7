/* HTTP: libmicrohttpd in front of the api. One object per listening socket: the TCP address, and the control socket.
   Network threads parse, authenticate and answer what is cheap; the rest goes to the workers with the connection
   suspended meanwhile. What is not valid HTTP, too large or too slow is refused here; everything else is the api's.
   Threads: start, tick, drain and stop from one thread.
   Shutdown: http_drain, tick until http_connections is 0 or patience ends, workers_close (it resumes what is suspended),
   http_stop. */
#ifndef FITD_SERVER_HTTP_H
#define FITD_SERVER_HTTP_H

#include "api/api.h"
#include "server/auth.h"
#include "server/clients.h"
#include "server/log.h"
#include "server/peers.h"
#include "server/workers.h"

struct http;

struct http_options {
  int listen_fd; /* taken over, also when http_start fails */
  unsigned threads, connections_max, idle_timeout_s;
  size_t bodies_max_bytes; /* of all bodies being received */
  struct api *api;
  bool is_https;     /* with the certificate of server/tls.h */
  struct auth *auth; /* NULL: every caller has the admin scope (the control socket) */
  struct workers *workers;
  struct log *log, *audit; /* may be the same */
};

/* What SIGHUP may change. */
struct http_settings {
  struct peer_limits limits;
  struct client_limits clients;
  const char *cors_origins; /* copied */
  bool logs_requests;
};

enum err http_start(struct http **out, const struct http_options *options, const struct http_settings *settings,
                    struct error *e) MUST_CHECK;
void http_set(struct http *http, const struct http_settings *settings);

/* To be called about every 100 ms: closes connections past their deadlines, and idle ones while draining. */
void http_tick(struct http *http);
/* Stops accepting; answers from now on close their connections. */
void http_drain(struct http *http);
unsigned http_connections(struct http *http);
void http_stop(struct http *http);

#endif
