/* /v1/workloads: a workload's official sketch, who owns it, and how often it is evaluated again. */
#include <string.h>

#include "api/document.h"
#include "api/evaluation.h"
#include "api/handlers.h"
#include "api/read.h"
#include "api/trace.h"
#include "api/write.h"

static const char *const reevaluations[] = {"daily", "never", NULL};

/* The sketch must be one that can be evaluated now, under this workload's name. */
static enum err check_sketch(struct api_call *call, const json_t *body, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  struct sketch sketch;
  const size_t before = call->faults->count;
  enum err code = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (code != ERR_OK)
    return code;
  sketch_read(&sketch, snapshot, body, "/sketch", call->faults);
  if (call->faults->count == before && strcmp(sketch.workload.name, call->params[0]) != 0)
    faults_add(call->faults, FAULT_CONFLICT, "/sketch/workload", call->params[0],
               "is \"%s\", but the path names \"%s\"", sketch.workload.name, call->params[0]);
  code = trace_check_sketch(call, &sketch, "/sketch", e);
  sketch_fini(&sketch);
  catalogue_release(call_catalogue(call), snapshot);
  return code;
}

static json_t *workload_write(const json_t *source, const char *owner, const char *team, int reevaluate)
{
  json_t *document = json_object();
  const char *key;
  json_t *value;
  if (json_object_set(document, "sketch", json_object_get(source, "sketch")) != 0 ||
      json_object_set_new(document, "owner", write_text(owner[0] != '\0' ? owner : NULL)) != 0 ||
      json_object_set_new(document, "team", write_text(team[0] != '\0' ? team : NULL)) != 0 ||
      json_object_set_new(document, "reevaluate", write_text(reevaluations[reevaluate])) != 0) {
    json_decref(document);
    return NULL;
  }
  json_object_foreach(read_iterable(source), key, value)
  { /* description */
    if (json_object_get(document, key) == NULL && json_object_set(document, key, value) != 0) {
      json_decref(document);
      return NULL;
    }
  }
  return document;
}

enum err workloads_put(struct api_call *call, struct api_response *out, struct error *e)
{
  char owner[129] = "", team[129] = "";
  int reevaluate = 1;
  const struct read_field fields[] = {
      {.name = "sketch", .kind = READ_IGNORE, .is_required = true}, /* read below, with the catalogue */
      {.name = "owner", .kind = READ_TEXT, .allows_null = true, .to = owner, .size = sizeof owner},
      {.name = "team", .kind = READ_TEXT, .allows_null = true, .to = team, .size = sizeof team},
      {.name = "reevaluate", .kind = READ_WORD, .to = &reevaluate, .words = reevaluations},
  };
  json_t *source = document_strip(&document_workloads, call->body), *document = NULL, *sketch;
  enum err code = ERR_OK;
  if (source == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the workload");
  document_check_name(call, &document_workloads);
  sketch = json_object_get(source, "sketch");
  if (read_object(source, "", fields, sizeof fields / sizeof fields[0], call->faults) && sketch != NULL)
    code = check_sketch(call, sketch, e);
  if (code == ERR_OK && call->faults->count > 0)
    code = ERR_INVALID;
  if (code != ERR_OK)
    goto out;
  document = workload_write(source, owner, team, reevaluate);
  if (document == NULL)
    code = error_set(e, ERR_NOMEM, "", "not enough memory to read the workload");
  else
    code = document_put(call, out, &document_workloads, "", source, document, e);
out:
  json_decref(document);
  json_decref(source);
  return code;
}

enum err workloads_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_list(call, out, &document_workloads, e);
}

enum err workloads_get(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_get(call, out, &document_workloads, e);
}

enum err workloads_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_delete(call, out, &document_workloads, e);
}
