/* HTTP requests to the daemon under test with libcurl. Replies belong to the scratch.
   Errors: a request that gets no answer at all fails the running test. Threads: the test's own thread only. */
#ifndef FITD_TESTS_LIB_WEB_H
#define FITD_TESTS_LIB_WEB_H

#include "tests/lib/daemon.h"

#include <jansson.h>
#include <stddef.h>

struct reply {
  const char *what; /* method and path of the request, for messages */
  long status;
  char *head; /* status line and headers as received */
  char *body; /* terminated; bytes as sent, never decompressed */
  size_t body_bytes;
  json_t *json; /* the parsed body when its type is JSON, else NULL */
};

struct request {
  const char *method;
  const char *path;           /* from the slash on, query included */
  const char *const *headers; /* "Name: value", NULL at the end; NULL = none */
  const char *body;           /* NULL = none; JSON unless a header says otherwise */
  size_t body_bytes;          /* 0 = strlen(body) */
  const char *socket;         /* path of a Unix socket instead of the port */
};

const struct reply *web_send(const struct daemon *daemon, const struct request *request);

const struct reply *web_get(const struct daemon *daemon, const char *path);
const struct reply *web_post(const struct daemon *daemon, const char *path, const char *body);
const struct reply *web_put(const struct daemon *daemon, const char *path, const char *body);
const struct reply *web_delete(const struct daemon *daemon, const char *path);
/* With one header, "Name: value". */
const struct reply *web_with(const struct daemon *daemon, const char *method, const char *path, const char *header,
                             const char *body);

/* These fail the test with the answer's text when the status differs, and return the parsed body. */
json_t *web_get_ok(const struct daemon *daemon, const char *path);
json_t *web_post_created(const struct daemon *daemon, const char *path, const char *body);
json_t *web_put_status(const struct daemon *daemon, const char *path, const char *body, long status);

void reply_assert_status(const struct reply *reply, long status);
/* problem+json with this status and every member RFC 9457 and the contract ask for; returns the body. */
json_t *reply_assert_problem(const struct reply *reply, long status);
/* The value of a header (name in any case), owned by the scratch; NULL when absent. */
const char *reply_header(const struct reply *reply, const char *name);

#endif
