/* A stored trace as the requests that the core replays, kept with the sketch that names it. */
#include "api/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluation.h"
#include "core/arrivals.h"

enum err trace_replay_set(struct sketch *sketch, struct store_trace_requests *requests, const char *digest,
                          struct error *e)
{
  struct sketch_replay *replay = &sketch->replay;
  struct arrival *rows = calloc(requests->count + 1, sizeof *rows);
  if (rows == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to replay %zu requests", requests->count);
  for (size_t i = 0; i < requests->count; i++) {
    const struct store_trace_request *row = &requests->rows[i];
    rows[i] = (struct arrival){.send_s = (double)row->arrival_ns * 1e-9,
                               .input_tokens = row->input_tokens,
                               .output_tokens = row->output_tokens,
                               .hash_first = row->prefix_first,
                               .hash_count = row->prefix_count};
  }
  replay->rows = rows;
  replay->count = requests->count;
  replay->hashes = requests->prefix_hashes;
  replay->hash_count = requests->prefix_hash_count;
  requests->prefix_hashes = NULL; /* taken over */
  (void)snprintf(replay->digest, sizeof replay->digest, "%s", digest);
  return ERR_OK;
}

enum err trace_replay_load(struct sketch *sketch, struct store *store, const struct store_trace *row, struct error *e)
{
  struct store_trace_requests requests = {.rows = NULL};
  enum err rc = store_trace_requests_get(store, &requests, row->digest, 0, TRACE_REQUESTS_MAX, e);
  if (rc == ERR_OK)
    rc = trace_replay_set(sketch, &requests, row->digest, e);
  store_trace_requests_fini(&requests);
  return rc;
}

void trace_replay_fini(struct sketch *sketch)
{
  free(sketch->replay.rows);
  free(sketch->replay.hashes);
  memset(&sketch->replay, 0, sizeof sketch->replay);
}

void trace_replay_give(struct fit_request *request, const struct sketch *sketch)
{
  const struct sketch_replay *replay = &sketch->replay;
  request->trace = replay->rows;
  request->trace_count = replay->count;
  request->trace_hashes = replay->hash_count > 0 ? replay->hashes : NULL;
  request->trace_hash_count = replay->hash_count;
  request->trace_hash_block_tokens = TRACE_BLOCK_TOKENS;
}
