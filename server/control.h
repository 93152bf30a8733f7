/* The control socket: the same API on a Unix socket beside the database, for commands beside a running daemon. Whoever can
   open it (the owner) has the admin scope. */
#ifndef FITD_SERVER_CONTROL_H
#define FITD_SERVER_CONTROL_H

#include "server/http.h"

/* "<database>.sock". ERR_LIMIT when it does not fit. */
enum err control_path(char *to, size_t size, const char *database, struct error *e) MUST_CHECK;

struct control;
/* `options` as for the API; listen_fd, auth and threads are set here. The caller holds the database's lock, so a socket that
   lies there is a leftover and is replaced. */
enum err control_start(struct control **out, const char *database, const struct http_options *options,
                       const struct http_settings *settings, struct error *e) MUST_CHECK;
struct http *control_http(struct control *control);
void control_stop(struct control *control);

#endif
