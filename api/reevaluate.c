/* Official sketches that are evaluated without anybody asking. The daemon is a client of its own API here: what it stores is
   what a person would get from POST /v1/evaluations with the same sketch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/write.h"

#define DAY_MS ((int64_t)24 * 3600 * 1000)
#define RETRY_MS ((int64_t)10 * 60 * 1000) /* after a failure, which time rarely heals */

/* When the workload is due; INT64_MAX = not before it is put again. */
static enum err due_ms(int64_t *due, struct store *store, const struct store_document *workload, const json_t *document,
                       struct error *e)
{
  const char *reevaluate = json_string_value(json_object_get(document, "reevaluate"));
  struct store_evaluation last;
  const enum err rc = store_evaluation_official(store, &last, workload->name, e);
  *due = 0;
  if (rc == ERR_NOT_FOUND)
    return ERR_OK;
  if (rc != ERR_OK)
    return rc;
  if (last.official_revision == workload->revision)
    *due = reevaluate != NULL && strcmp(reevaluate, "daily") == 0 ? last.created_at_ms + DAY_MS : INT64_MAX;
  store_evaluation_fini(&last);
  return ERR_OK;
}

static enum err evaluate(struct api *api, const char *workload, const json_t *sketch, struct error *e)
{
  static const struct api_caller caller = {SCOPE_EVALUATE, "schedule"};
  char *body = write_canonical(sketch);
  struct api_request request = {.method = "POST",
                                .path = "/v1/evaluations",
                                .query_text = "",
                                .request_id = "schedule",
                                .caller = &caller,
                                .body = body};
  struct api_response response;
  enum err rc = ERR_OK;
  if (body == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to evaluate workload %s", workload);
  request.body_len = strlen(body);
  api_handle(api, &request, &response);
  if (response.status != 201)
    rc = error_set(e, ERR_UNAVAILABLE, "", "the official sketch of workload %s can not be evaluated: %u %.200s",
                   workload, response.status, response.bytes != NULL ? response.bytes : "");
  api_response_fini(&response);
  free(body);
  return rc;
}

static void note_due(struct api_reevaluation *state, int64_t due)
{
  if (due < state->round_next_ms)
    state->round_next_ms = due;
}

/* Evaluates it when it is due; *is_done tells whether that was so. */
static enum err visit(bool *is_done, struct api *api, struct api_reevaluation *state,
                      const struct store_document *workload, int64_t now_ms, struct error *e)
{
  const struct api_call call = {.api = api};
  json_t *document = json_loads(workload->document, 0, NULL);
  int64_t due = 0;
  enum err rc;
  *is_done = false;
  if (document == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read workload %s", workload->name);
  rc = due_ms(&due, call_store(&call), workload, document, e);
  if (rc == ERR_OK && due <= now_ms) {
    *is_done = true;
    rc = evaluate(api, workload->name, json_object_get(document, "sketch"), e);
    due = now_ms + DAY_MS; /* an estimate that only makes the next round come too early */
  }
  note_due(state, rc == ERR_OK ? due : now_ms + RETRY_MS);
  json_decref(document);
  return rc;
}

static bool begin_round(struct api_reevaluation *state, struct store *store, int64_t now_ms)
{
  const uint64_t version = store_catalogue_version(store, STORE_WORKLOAD) + 1; /* never the 0 of a fresh state */
  if (state->after[0] != '\0')
    return true;
  if (version == state->seen_version && now_ms < state->next_ms)
    return false;
  state->seen_version = version;
  state->round_next_ms = INT64_MAX;
  return true;
}

enum err api_reevaluate(struct api *api, struct api_reevaluation *state, bool *again, struct error *e)
{
  const struct api_call call = {.api = api};
  const int64_t now_ms = call_deps(&call)->now_ms(call_deps(&call)->cls);
  struct store_page page = {.limit = 100, .ascending = true};
  struct store_documents list;
  bool is_done = false;
  enum err rc;
  *again = false;
  if (!begin_round(state, call_store(&call), now_ms))
    return ERR_OK;
  memcpy(page.after, state->after, sizeof page.after);
  rc = store_document_list(call_store(&call), &list, STORE_WORKLOAD, &page, e);
  for (size_t i = 0; rc == ERR_OK && !is_done && i < list.count; i++) {
    (void)snprintf(state->after, sizeof state->after, "%s", list.rows[i].name);
    rc = visit(&is_done, api, state, &list.rows[i], now_ms, e);
  }
  *again = rc == ERR_OK && (is_done || list.has_more);
  if (rc == ERR_OK && !*again) {
    state->after[0] = '\0';
    state->next_ms = state->round_next_ms;
  }
  store_documents_fini(&list);
  return rc;
}
