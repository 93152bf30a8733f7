/* The HTTP contract without HTTP: bytes of a request in, bytes of an answer out. Knows JSON, core and storage; no
   sockets, no threads of its own. Every handler is testable without a socket.
   Threads: api_handle may run on many threads at once with one struct api.
   Ownership: api_response owns its strings until api_response_fini. */
#ifndef FITD_API_API_H
#define FITD_API_API_H

#include <stdint.h>

#include "core/error.h"

struct store;
struct api;

/* Each scope includes the ones before it. */
enum scope { SCOPE_PUBLIC, SCOPE_READ, SCOPE_EVALUATE, SCOPE_REVIEW, SCOPE_ADMIN };
const char *scope_name(enum scope scope);
bool scope_parse(enum scope *scope, const char *name); /* read | evaluate | review | admin */

struct api_caller {
  enum scope scope;
  const char *name; /* of the token; "" = loopback without tokens, or the control socket */
};

struct api_request {
  const char *method;     /* GET, HEAD, POST, … as received */
  const char *path;       /* decoded, without query */
  const char *query_text; /* undecoded query string, for digests; "" = none */
  const char *request_id;
  const struct api_caller *caller;
  const void *body;
  size_t body_len;
  const char *(*header)(const void *cls, const char *name); /* NULL when absent; names compare without case */
  /* All values of one query key in order; returns how many there are (may exceed max). */
  size_t (*query)(const void *cls, const char *key, const char **values, size_t max);
  /* Calls `each` for every query key present, so that unknown ones can be refused. */
  void (*query_keys)(const void *cls, void (*each)(void *each_cls, const char *key), void *each_cls);
  const void *cls;
};

struct api_header {
  char name[32];
  char value[1024];
};
struct api_response {
  unsigned status;
  char type[64]; /* Content-Type; "" with an empty body */
  struct api_header
      headers[8]; /* ETag, Location, Link, Allow, Retry-After …; Vary, Date, Request-Id are the server's */
  size_t header_count;
  char *bytes; /* malloc'ed; NULL = empty */
  size_t bytes_len;
};
void api_response_fini(struct api_response *response);

/* Figures of the process for GET /metrics; NaN = not known. */
struct api_stats {
  double cpu_s, resident_bytes, open_descriptors, max_descriptors;
  double scrapes, scrape_failures, scrapes_late;
};

struct api_deps {
  struct store *store;
  int64_t (*now_ms)(void *cls); /* Unix time */
  void (*random_bytes)(void *cls, void *to, size_t count);
  void (*log)(void *cls, const char *sentence); /* details of internal errors; may be NULL */
  /* "" when ready, else which check failed. */
  void (*not_ready_reason)(void *cls, char *reason, size_t size);
  /* May an address be scraped? ERR_INVALID with a sentence when it resolves to none, or to one outside scrape_allow. NULL:
     every one may. */
  enum err (*check_target)(void *cls, const char *host, const char *port, struct error *e);
  void (*stats)(void *cls, struct api_stats *out); /* fills in what it knows; may be NULL */
  void *cls;
  size_t arena_bytes;       /* memory one evaluation may use */
  const char *review_teams; /* who must sign a review: names with commas between them; "" or NULL = one team, any */
  /* Runs job(job_cls, i) for every i below count, in any order and maybe several at once on threads of the server, and returns
     when all are done. NULL: one after the other. */
  void (*run_all)(void *cls, size_t count, void (*job)(void *job_cls, size_t index), void *job_cls);
  int (*utc_offset_s)(void *cls, int64_t unix_ms); /* of the time zone in which weeks are counted; NULL = UTC */
};

/* Loads the built-in catalogue into an empty or older store (its rows never replace a user's). */
enum err api_open(struct api **out, const struct api_deps *deps, struct error *e) MUST_CHECK;
void api_close(struct api *api);

/* Evaluates the official sketch of one workload that is due: one that was put and not evaluated since, or whose
   `reevaluate` is daily and that was evaluated a day ago. *again tells whether more may be due. For one thread; `state` starts
   as zeros. ERR_UNAVAILABLE …: that evaluation failed (the message names the workload) and is tried again later. */
struct api_reevaluation {
  uint64_t seen_version; /* of the workloads, when the last round began */
  int64_t next_ms;       /* nothing is due before, unless a workload is put */
  int64_t round_next_ms;
  char after[80]; /* the last workload of this round; "" between rounds */
};
enum err api_reevaluate(struct api *api, struct api_reevaluation *state, bool *again, struct error *e) MUST_CHECK;

/* Opens the review of this week when its day (0 = Monday) and hour have come, in the time zone of the deps, and nobody has yet.
   Nothing happens while no workload is registered. */
enum err api_review_due(struct api *api, int day, int hour, struct error *e) MUST_CHECK;

/* What the server must know before it reads a body. For an unknown path pattern is "" and the scope PUBLIC: api_handle
   answers 404 or 405 by itself. */
struct api_route_info {
  const char *pattern; /* "/v1/scorecards/{id}": for logs and counters */
  enum scope scope;
  bool needs_worker; /* may compute or write: not on a network thread */
  bool computes;     /* takes a worker for long: evaluations */
  bool takes_body;   /* false: a body is refused */
  size_t body_max_bytes;
};
void api_route_info(struct api_route_info *out, const char *method, const char *path);

/* Handles one request completely: routing, 404/405/OPTIONS/HEAD, parsing, scopes, conditional requests, Idempotency-Key.
   Always sets an answer. */
void api_handle(struct api *api, const struct api_request *request, struct api_response *response);

/* application/problem+json for refusals that the server makes itself: 400, 401, 403, 413, 414, 415, 429, 431, 503 …
   `slug` ends the type URI; never fails (a bare status is left when memory is out). */
void api_problem(struct api_response *response, unsigned status, const char *slug, const char *request_id,
                 const char *path, const char *format, ...) PRINTF_LIKE(6, 7);

/* One evaluation against the built-in catalogue, without a store: what `fitd evaluate FILE` runs. All is borrowed. */
struct api_offline {
  const void *body; /* the sketch */
  size_t body_len;
  const char *depth;      /* "full" | "quick"; NULL = as the service without one */
  const char *label;      /* NULL = none */
  const char *trace_file; /* whose requests stand for the sketch's trace; .csv, .jsonl or .ndjson; NULL = none */
  const char *trace;      /* what the file holds */
  size_t trace_len;
};
#define API_TRACE_MAX_BYTES ((size_t)64 * 1024 * 1024) /* of a trace, in a body or in a file */

/* *json gets the same document as POST /v1/evaluations (or the problem document), malloc'ed. Return: ERR_OK, ERR_INVALID
   with a problem document, or another error without one. *fits tells whether any scorecard fits. */
enum err api_evaluate_offline(char **json, bool *fits, const struct api_offline *asked, const struct api_deps *deps,
                              struct error *e) MUST_CHECK;

/* Which GPUs serve a bare Hugging Face config, without a store: what `fitd advise CONFIG.json` runs. *json gets the same
   document as POST /v1/advise (or the problem document), malloc'ed. traffic, requests_per_s: as in its query; NULL = default.
   Return: as of api_evaluate_offline. */
enum err api_advise_offline(char **json, const void *body, size_t body_len, const char *traffic,
                            const char *requests_per_s, const struct api_deps *deps, struct error *e) MUST_CHECK;
/* Such a document as one screen of text; malloc'ed. */
enum err api_advise_text(char **text, const char *json, struct error *e) MUST_CHECK;

/* The terminal view of an evaluation document (as answered by POST /v1/evaluations): verdict, the numbers that matter,
   what limits each profile. malloc'ed text in *text. width: columns of the terminal. */
enum err api_evaluation_text(char **text, const char *json, unsigned width, struct error *e) MUST_CHECK;

/* Predictions against a table of measurements (tests/accuracy/README.md describes its columns), with the built-in
   catalogue: what `fitd accuracy` prints. Errors: ERR_INVALID with the line, the column or the field at fault. */
enum api_accuracy_form {
  API_ACCURACY_TABLE, /* Markdown */
  API_ACCURACY_JSON,
  API_ACCURACY_ROWS /* CSV, one line an answered row */
};
struct api_accuracy {
  const char *csv;
  size_t csv_len;
  const char *parameters; /* JSON with other step constants and folds; NULL = the built-in constants */
  /* A Hugging Face config for a model of the table, malloc'ed text, or NULL to take the catalogue's; may be NULL. */
  char *(*load_model)(const char *name, void *cls);
  void *cls;
  enum api_accuracy_form form;
};
enum err api_accuracy(char **answer, const struct api_accuracy *request, struct error *e) MUST_CHECK;

#endif
