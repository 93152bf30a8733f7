/* Traces: recorded requests read from CSV or JSON lines, put into one canonical form, and what can be said about them.
   Private to api/. Threads: objects are the caller's. */
#ifndef FITD_API_TRACE_H
#define FITD_API_TRACE_H

#include <jansson.h>

#include "api/write.h"
#include "storage/store.h"

#define TRACE_REQUESTS_MAX 1000000
#define TRACE_HASHES_MAX 4000000
#define TRACE_TOKENS_MAX 10000000
#define TRACE_BLOCK_TOKENS 512 /* of the input that one prefix hash stands for: Mooncake's */

/* In canonical form: by arrival, the first at 0, prefix hashes numbered by first appearance. */
struct trace {
  const char *format; /* whose columns: "native", "azure", "mooncake", "burstgpt" */
  struct store_trace_requests requests;
  bool has_start; /* the arrivals were dates */
  int64_t starts_at_ms;
  json_t *assumptions;            /* array of sentences: what was done to the rows */
  char digest[WRITE_DIGEST_SIZE]; /* SHA-256 of trace_write_csv over all requests */
};

enum trace_carrier { TRACE_CSV, TRACE_JSON_LINES };

/* ERR_INVALID: faults were added, one a bad cell, under /lines/<number>/<column>. ERR_LIMIT: more requests or hashes than
   the limits above, which the message names. ERR_NOMEM. After an error *out is empty. */
enum err trace_read(struct trace *out, enum trace_carrier carrier, const char *text, size_t length,
                    struct faults *faults, struct error *e) MUST_CHECK;
void trace_fini(struct trace *trace);

/* What GET answers besides name, revision and time; NULL when memory is out. */
json_t *trace_document(const struct trace *trace);
/* The figures alone; percentiles are the smallest value that at least that share of the requests does not exceed. */
json_t *trace_statistics(const struct store_trace_requests *requests);

/* "arrival_s,input_tokens,output_tokens,prefix_hashes" and one record a request, RFC 4180: what trace_read takes back. */
void trace_write_csv(struct text *text, const struct store_trace_requests *requests);
/* One request as a JSON object. */
void trace_write_json(struct text *text, const struct store_trace_requests *requests, size_t index);

struct api_call;
struct sketch;
struct fit_request;
/* Loads the requests that the sketch, read from `pointer`, replays; adds a fault with the nearest name when no such trace
   is stored. traces_api.c */
enum err trace_check_sketch(struct api_call *call, struct sketch *sketch, const char *pointer,
                            struct error *e) MUST_CHECK;

/* The requests of a sketch's trace, owned by it (trace_replay.c): from a stored one; from rows just read, whose hashes are
   taken over; released; handed to core. */
enum err trace_replay_load(struct sketch *sketch, struct store *store, const struct store_trace *row,
                           struct error *e) MUST_CHECK;
enum err trace_replay_set(struct sketch *sketch, struct store_trace_requests *requests, const char *digest,
                          struct error *e) MUST_CHECK;
void trace_replay_fini(struct sketch *sketch);
void trace_replay_give(struct fit_request *request, const struct sketch *sketch);

#endif
