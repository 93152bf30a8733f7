/* GET /v1/scorecards/{id}/compare/{other}. */
#include <stdlib.h>

#include "api/compare.h"
#include "api/handlers.h"

#define FORMATS (FORMAT_JSON | FORMAT_CSV | FORMAT_MARKDOWN)

static enum err respond(struct api_response *out, enum format format, json_t *document, struct error *e)
{
  char *text;
  if (format == FORMAT_JSON)
    return respond_json_steal(out, 200, document, e);
  text = format == FORMAT_CSV ? compare_csv(document) : compare_markdown(document);
  json_decref(document);
  return respond_string_steal(out, 200, format == FORMAT_CSV ? "text/csv" : "text/markdown", text, e);
}

enum err scorecards_compare_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  struct explain_inputs *sides;
  json_t *document = NULL;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMATS);
  sides = calloc(2, sizeof *sides);
  if (sides == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to compare scorecards");
  rc = explain_load(&sides[0], call, call->params[0], e);
  if (rc == ERR_OK)
    rc = explain_load(&sides[1], call, call->params[1], e);
  if (rc == ERR_OK)
    rc = compare_write(&document, &sides[0], &sides[1], call_deps(call)->arena_bytes, e);
  if (rc == ERR_OK)
    rc = respond(out, format, document, e);
  explain_inputs_fini(&sides[0]);
  explain_inputs_fini(&sides[1]);
  free(sides);
  return rc;
}
