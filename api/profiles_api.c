/* /v1/profiles: hardware profiles with the fields of core/hardware.def. */
#include <stdio.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/document.h"
#include "api/handlers.h"

enum err profiles_put(struct api_call *call, struct api_response *out, struct error *e)
{
  struct hardware hardware;
  json_t *source = document_strip(&document_profiles, call->body), *document = NULL;
  enum err code = ERR_INVALID;
  document_check_name(call, &document_profiles);
  if (source == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the profile");
  profile_read(&hardware, source, "", call->faults);
  if (call->faults->count > 0)
    goto out;
  if (hardware.display_name[0] == '\0')
    (void)snprintf(hardware.display_name, sizeof hardware.display_name, "%s", call->params[0]);
  document = profile_write(&hardware, source);
  if (document == NULL)
    code = error_set(e, ERR_NOMEM, "", "not enough memory to read the profile");
  else
    code = document_put(call, out, &document_profiles, "", source, document, e);
out:
  json_decref(document);
  json_decref(source);
  return code;
}

enum err profiles_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_list(call, out, &document_profiles, e);
}

enum err profiles_get(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_get(call, out, &document_profiles, e);
}

enum err profiles_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_delete(call, out, &document_profiles, e);
}

enum err profiles_revisions_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_revisions(call, out, &document_profiles, e);
}

enum err profiles_revisions_get(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_revision(call, out, &document_profiles, e);
}
