/* Idempotency-Key: the first answer to a POST is kept for 24 hours and given again for the same key. Private to api/. */
#ifndef FITD_API_IDEMPOTENCY_H
#define FITD_API_IDEMPOTENCY_H

#include "api/call.h"

struct idempotency {
  bool is_claimed; /* this request runs under a key: finish it with its answer */
  const char *key; /* borrowed from the request */
  char digest[72]; /* over method, path with query, and body */
};

/* Call before the handler. *is_answered: `out` already holds the answer (the first one again, or a refusal), do not run
   the handler. Claims of a process that did not live to finish them (older than opened_at_ms) are taken over. */
enum err idempotency_begin(struct idempotency *out, bool *is_answered, struct api_call *call,
                           struct api_response *response, int64_t opened_at_ms, struct error *e) MUST_CHECK;

/* Call after the handler when is_claimed: keeps a 2xx answer, frees the key after a refusal so that it can be used again. */
enum err idempotency_end(const struct idempotency *idempotency, const struct api_call *call,
                         const struct api_response *response, struct error *e) MUST_CHECK;

#endif
