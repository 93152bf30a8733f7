/* /v1/models: configs come in, the normalised architecture and what follows from it go out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/document.h"
#include "api/handlers.h"
#include "api/read.h"
#include "api/write.h"

/* What model_read knows: the body without what identifies it or was derived from it. */
static json_t *config_of(const json_t *body)
{
  json_t *config = document_strip(&document_models, body);
  if (json_is_object(config)) {
    (void)json_object_del(config, "alias"); /* -1 when absent, which is as good */
    (void)json_object_del(config, "derived");
  }
  return config;
}

void model_document_read(struct model *out, char alias[129], json_t **assumptions, const json_t *body,
                         struct faults *faults)
{
  const struct read_field field = {.kind = READ_TEXT, .allows_null = true, .to = alias, .size = 129};
  const json_t *given = json_object_get(body, "alias");
  json_t *config = config_of(body);
  alias[0] = '\0';
  *assumptions = NULL;
  if (given != NULL)
    read_value(given, "/alias", &field, faults);
  model_read(out, assumptions, config, "", faults);
  json_decref(config);
}

json_t *model_document_write(const struct model *model, const char *alias, const json_t *assumptions)
{
  json_t *document = json_object();
  if (json_object_set_new(document, "alias", write_text(alias[0] != '\0' ? alias : NULL)) != 0 ||
      json_object_set_new(document, "architecture", architecture_write(model)) != 0 ||
      json_object_set_new(document, "derived", model_derived_write(model, assumptions)) != 0) {
    json_decref(document);
    return NULL;
  }
  return document;
}

/* A body as read: what is stored and what is answered. */
struct model_body {
  char alias[129];
  json_t *source, *document;
};

static enum err read_body(struct model_body *out, struct api_call *call, const char *name, struct error *e)
{
  struct model *model = calloc(1, sizeof *model);
  json_t *assumptions = NULL;
  enum err code = ERR_OK;
  *out = (struct model_body){.source = NULL};
  if (model == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the model");
  model_document_read(model, out->alias, &assumptions, call->body, call->faults);
  if (call->faults->count > 0) {
    code = ERR_INVALID;
  } else {
    (void)snprintf(model->name, sizeof model->name, "%s", name);
    out->source = document_strip(&document_models, call->body);
    out->document = model_document_write(model, out->alias, assumptions);
    if (out->source == NULL || out->document == NULL)
      code = error_set(e, ERR_NOMEM, "", "not enough memory to read the model");
  }
  json_decref(assumptions);
  free(model);
  return code;
}

static void model_body_fini(struct model_body *body)
{
  json_decref(body->source);
  json_decref(body->document);
}

enum err models_put(struct api_call *call, struct api_response *out, struct error *e)
{
  struct model_body body;
  enum err code;
  document_check_name(call, &document_models);
  code = read_body(&body, call, call->params[0], e);
  if (code == ERR_OK)
    code = document_put(call, out, &document_models, body.alias, body.source, body.document, e);
  model_body_fini(&body);
  return code;
}

enum err models_inspect_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct model_body body;
  enum err code = read_body(&body, call, "", e);
  if (code == ERR_OK)
    code = respond_json_steal(out, 200, json_incref(body.document), e);
  model_body_fini(&body);
  return code;
}

enum err models_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_list(call, out, &document_models, e);
}

enum err models_get(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_get(call, out, &document_models, e);
}

enum err models_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_delete(call, out, &document_models, e);
}

enum err models_revisions_list(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_revisions(call, out, &document_models, e);
}

enum err models_revisions_get(struct api_call *call, struct api_response *out, struct error *e)
{
  return document_revision(call, out, &document_models, e);
}
