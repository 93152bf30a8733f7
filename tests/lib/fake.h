/* The API without a socket: a real store in a temporary directory, a clock that stands until it is moved, random bytes that
   only count up, and requests built from plain text.
   Ownership: fake_close releases everything; responses are the caller's (api_response_fini). Threads: one test's own. */
#ifndef FITD_TESTS_LIB_FAKE_H
#define FITD_TESTS_LIB_FAKE_H

#include "api/api.h"

#include <jansson.h>

struct store;

#define FAKE_START_MS 1796040000000 /* 2026-11-30T12:00:00Z */

struct fake {
  char dir[256];
  struct store *store;
  struct api *api;
  int64_t now_ms;
  unsigned random;
  char not_ready[64];       /* "" = ready */
  char log[1024];           /* last sentence */
  const char *review_teams; /* taken over by fake_reopen */
  int utc_offset_s;
  unsigned threads;      /* beside the test's own, that evaluations are shared out to */
  void (*on_send)(void); /* NULL, or called right before the API is */
};

/* Opens a new store in a new directory below `parent` and the API on it; fails the running test on errors. */
void fake_open(struct fake *fake, const char *parent);
/* Closes both and opens them again on the same file, as a restart does. */
void fake_reopen(struct fake *fake);
void fake_close(struct fake *fake);

struct fake_request {
  const char *method, *path;
  const char *query;     /* as in a URL; NULL = none */
  const json_t *headers; /* {"Name": "value"}; NULL = none */
  const void *body;      /* NULL = none */
  size_t body_len;
  enum scope scope; /* of the caller */
};
void fake_send(struct fake *fake, const struct fake_request *request, struct api_response *response);

/* A request with all rights and a JSON body (text; NULL = none), which must answer `status`; "path?query" is taken apart.
   The parsed answer, owned by the scratch; NULL without one. */
json_t *fake_json(struct fake *fake, const char *method, const char *path, const char *body, unsigned status);

#endif
