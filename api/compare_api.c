/* GET /v1/scorecards/{id}/compare/{other}. */
#include <stdlib.h>

#include "api/compare.h"
#include "api/handlers.h"

#define FORMATS (FORMAT_JSON | FORMAT_CSV | FORMAT_MARKDOWN)

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
    rc = respond_form_steal(out, format, document, compare_csv, compare_markdown, e);
  explain_inputs_fini(&sides[0]);
  explain_inputs_fini(&sides[1]);
  free(sides);
  return rc;
}
