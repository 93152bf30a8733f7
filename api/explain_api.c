/* GET of what a scorecard's figures are made of. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/explain.h"
#include "api/handlers.h"
#include "api/trace.h"

#define FORMATS (FORMAT_JSON | FORMAT_MARKDOWN)

static enum err respond(struct api_response *out, enum format format, json_t *document, struct error *e)
{
  char *text;
  if (document == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to explain the scorecard");
  if (format == FORMAT_JSON)
    return respond_json_steal(out, 200, document, e);
  text = explain_markdown(document);
  json_decref(document);
  return respond_text_steal(out, 200, "text/markdown", text, text != NULL ? strlen(text) : 0, e);
}

/* What this version's core refuses was accepted once: a conflict of versions, no mistake of the client. */
static enum err compute(struct explanation *out, const struct explain_inputs *inputs, struct arena *arena,
                        struct error *e)
{
  struct fit_request request = {.workload = &inputs->sketch.workload,
                                .model = &inputs->sketch.model,
                                .hardware = &inputs->profile.hardware,
                                .depth = FIT_QUICK,
                                .calibration = inputs->has_calibration ? &inputs->calibration : NULL,
                                .draft_model = inputs->sketch.has_draft_model ? &inputs->sketch.draft_model : NULL};
  enum err rc;
  trace_replay_give(&request, &inputs->sketch);
  rc = explain(out, &request, inputs->has_configuration ? &inputs->configuration : NULL, arena, e);
  return rc == ERR_INVALID ? error_set(e, ERR_CONFLICT, "", "this version can not compute the scorecard: %.200s: %s",
                                       e->pointer, e->message)
                           : rc;
}

static enum err answer(struct api_call *call, struct api_response *out, const struct explain_inputs *inputs,
                       enum format format, struct error *e)
{
  const size_t size = call_deps(call)->arena_bytes;
  struct explanation *explanation = calloc(1, sizeof *explanation);
  void *memory = malloc(size);
  struct arena arena;
  enum err rc;
  if (explanation == NULL || memory == NULL) {
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to explain the scorecard");
    goto out;
  }
  arena_init(&arena, memory, size);
  rc = compute(explanation, inputs, &arena, e);
  if (rc == ERR_OK)
    rc = respond(out, format, explain_write(explanation, inputs), e);
out:
  free(memory);
  free(explanation);
  return rc;
}

enum err scorecards_explain_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  struct explain_inputs *inputs;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMATS);
  inputs = calloc(1, sizeof *inputs);
  if (inputs == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to explain the scorecard");
  rc = explain_load(inputs, call, call->params[0], e);
  if (rc == ERR_OK)
    rc = answer(call, out, inputs, format, e);
  explain_inputs_fini(inputs);
  free(inputs);
  return rc;
}
