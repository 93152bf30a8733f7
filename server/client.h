/* A small HTTP client for the commands: one request, one answer, over TCP or a Unix socket.
   Threads: any; curl_global_init comes first. */
#ifndef FITD_SERVER_CLIENT_H
#define FITD_SERVER_CLIENT_H

#include "core/error.h"

struct client_request {
  const char *method, *url;
  const char *unix_socket; /* NULL = TCP */
  const char *token;       /* NULL = none */
  const char *body;        /* JSON; NULL = none */
  size_t body_len;
};
struct client_answer {
  long status;
  char *bytes; /* terminated */
  size_t length;
};

/* ERR_UNAVAILABLE: no answer came (message says why); ERR_INVALID: a URL that is none; ERR_LIMIT: more than 64 MiB. */
enum err client_send(struct client_answer *out, const struct client_request *request, struct error *e) MUST_CHECK;
void client_answer_fini(struct client_answer *answer);

/* The value, percent-encoded for a query; the caller frees it. NULL when memory is out. */
char *client_escape(const char *value);

#endif
