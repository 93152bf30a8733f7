/* POST /v1/what-ifs. */
#include <stdio.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/trace.h"
#include "api/what_if.h"

#define FORMATS (FORMAT_JSON | FORMAT_CSV | FORMAT_MARKDOWN)

/* What core can not compute yet is a fault of the sketch like any other. */
static enum err compute(struct api_call *call, struct api_response *out, const struct what_if *what_if,
                        const struct catalogue_snapshot *snapshot, enum format format, struct error *e)
{
  json_t *document;
  char at[sizeof e->pointer + sizeof "/sketch"];
  const enum err rc = what_if_document(&document, what_if, snapshot, call_deps(call)->arena_bytes, e);
  if (rc == ERR_INVALID) {
    (void)snprintf(at, sizeof at, "/sketch%s", e->pointer);
    faults_add(call->faults, FAULT_UNSUPPORTED, at, NULL, "%s", e->message);
  }
  return rc == ERR_OK ? respond_form_steal(out, format, document, what_if_csv, what_if_markdown, e) : rc;
}

enum err what_ifs_post(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  const struct catalogue_snapshot *snapshot;
  struct what_if what_if;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMATS);
  rc = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (rc != ERR_OK)
    return rc;
  what_if_read(&what_if, snapshot, call->body, call->faults);
  rc = trace_check_sketch(call, &what_if.sketch, "/sketch", e);
  if (rc == ERR_OK && call->faults->count > 0)
    rc = error_set(e, ERR_INVALID, "", "the what-if is not valid");
  else if (rc == ERR_OK)
    rc = compute(call, out, &what_if, snapshot, format, e);
  what_if_fini(&what_if);
  catalogue_release(call_catalogue(call), snapshot);
  return rc;
}
