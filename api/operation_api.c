/* What operators and tools ask: is it alive, is it ready, which version, which API. */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/write.h"
#include "core/fit.h"

/* Made at build time from api/openapi.json (tools/embed-text.sh). */
extern const char api_openapi[];
extern const size_t api_openapi_length;

enum err healthz_get(struct api_call *call, struct api_response *out, struct error *e)
{
  (void)call;
  return respond_json_steal(out, 200, json_pack("{s:s}", "status", "ok"), e);
}

enum err readyz_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const struct api_deps *deps = call_deps(call);
  char reason[320] = "";
  enum err code;
  if (deps->not_ready_reason != NULL)
    deps->not_ready_reason(deps->cls, reason, sizeof reason);
  if (reason[0] != '\0')
    return error_set(e, ERR_UNAVAILABLE, "", "not ready: %.300s", reason);
  code = store_check(call_store(call), e);
  if (code != ERR_OK) {
    const struct error cause = *e;
    return error_set(e, ERR_UNAVAILABLE, "", "not ready: store: %.290s", cause.message);
  }
  return respond_json_steal(out, 200, json_pack("{s:s}", "status", "ready"), e);
}

enum err version_get(struct api_call *call, struct api_response *out, struct error *e)
{
  json_t *version = json_pack("{s:s, s:s, s:s, s:i}", "name", "fitd", "version", CORE_VERSION, "core_version",
                              CORE_VERSION, "schema_version", store_schema_version(call_store(call)));
  return respond_json_steal(out, 200, version, e);
}

enum err openapi_get(struct api_call *call, struct api_response *out, struct error *e)
{
  char *bytes = malloc(api_openapi_length + 1);
  (void)call;
  if (bytes != NULL)
    memcpy(bytes, api_openapi, api_openapi_length + 1);
  return respond_text_steal(out, 200, "application/json", bytes, api_openapi_length, e);
}
