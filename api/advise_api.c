/* POST /v1/advise. */
#include "api/advise.h"
#include "api/call.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/read.h"

#include <stdlib.h>

#define FORMATS (FORMAT_JSON | FORMAT_MARKDOWN)

/* A number that a query has as text. */
static void read_rate(double *requests_per_s, struct api_call *call)
{
  const char *text = call_query(call, "requests_per_s");
  char *end = NULL;
  if (text == NULL)
    return;
  *requests_per_s = strtod(text, &end);
  if (end == text || *end != '\0' || !(*requests_per_s >= 1e-9 && *requests_per_s <= 1e9))
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "?requests_per_s", NULL,
               "is no rate; a number over 0 up to 1e9 is expected");
}

enum err advise_post(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  const struct catalogue_snapshot *snapshot;
  struct advise_options options = {.arena_bytes = call_deps(call)->arena_bytes};
  const struct read_field traffic = {.kind = READ_WORD, .to = &options.traffic, .words = advise_traffic_names};
  json_t *document = NULL;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMATS);
  rc = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (rc != ERR_OK)
    return rc;
  history_query(call, "traffic", &traffic);
  read_rate(&options.requests_per_s, call);
  if (call->faults->count > 0)
    rc = error_set(e, ERR_INVALID, "", "the query is not valid");
  else
    rc = advise_document(&document, call->body, &options, snapshot, call->faults, e);
  catalogue_release(call_catalogue(call), snapshot);
  if (rc != ERR_OK)
    return rc;
  if (format == FORMAT_JSON)
    return respond_json_steal(out, 200, document, e);
  rc = respond_string_steal(out, 200, "text/markdown", advise_markdown(document), e);
  json_decref(document);
  return rc;
}
