/* /v1/stacks: software stacks by name, so that measurements, calibrations and scorecards can say which one they are of. */
#include "api/catalogue.h"
#include "api/document.h"
#include "api/handlers.h"
#include "api/put.h"

enum err stacks_put(struct api_call *call, struct api_response *out, struct error *e)
{
  json_t *source = document_strip(&document_stacks, call->body), *document = NULL;
  struct catalogue_stack stack;
  enum err code = ERR_OK;
  if (source == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the stack");
  document_check_name(call, &document_stacks);
  stack_read(&stack, source, "", call->faults);
  if (call->faults->count > 0) {
    code = ERR_INVALID;
    goto out;
  }
  document = stack_write(&stack);
  if (json_object_get(source, "description") != NULL)
    put_member(&document, "description", json_incref(json_object_get(source, "description")));
  if (document == NULL)
    code = error_set(e, ERR_NOMEM, "", "not enough memory to read the stack");
  else
    code = document_put(call, out, &document_stacks, "", source, document, e);
out:
  json_decref(document);
  json_decref(source);
  return code;
}

enum err stacks_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_list(call, out, &document_stacks, e);
}

enum err stacks_get(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_get(call, out, &document_stacks, e);
}

enum err stacks_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_delete(call, out, &document_stacks, e);
}

enum err stacks_revisions_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_revisions(call, out, &document_stacks, e);
}

enum err stacks_revisions_get(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_revision(call, out, &document_stacks, e);
}
