/* POST /v1/frontiers. */
#include "api/call.h"
#include "api/frontier.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/read.h"
#include "api/trial.h"

#define FORMATS (FORMAT_JSON | FORMAT_CSV | FORMAT_MARKDOWN)

static void read_options(struct frontier_options *options, struct api_call *call)
{
  static const char *const booleans[] = {"false", "true", NULL};
  static const char *const groups[] = {"all", "profile", NULL};
  int has_cost = 0, by_profile = 0;
  const struct read_field cost = {.kind = READ_WORD, .to = &has_cost, .words = booleans};
  const struct read_field by = {.kind = READ_WORD, .to = &by_profile, .words = groups};
  history_query(call, "cost", &cost);
  history_query(call, "by", &by);
  *options = (struct frontier_options){
      .has_cost = has_cost == 1, .by_profile = by_profile == 1, .arena_bytes = call_deps(call)->arena_bytes};
}

/* What core can not compute yet is a fault of the sketch like any other. */
static enum err compute(struct api_call *call, struct api_response *out, const struct sketch *sketch,
                        const struct frontier_options *options, enum format format, struct error *e)
{
  json_t *document;
  const enum err rc = frontier_document(&document, sketch, options, e);
  if (rc == ERR_INVALID)
    faults_add(call->faults, FAULT_UNSUPPORTED, e->pointer, NULL, "%s", e->message);
  return rc == ERR_OK ? respond_form_steal(out, format, document, frontier_csv, frontier_markdown, e) : rc;
}

enum err frontiers_post(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  struct frontier_options options;
  struct trial trial;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMATS);
  read_options(&options, call);
  rc = trial_open(&trial, call, call->body, "", call->faults, e);
  if (rc != ERR_OK)
    return rc;
  if (call->faults->count > 0)
    rc = error_set(e, ERR_INVALID, "", "the sketch is not valid");
  else
    rc = compute(call, out, &trial.sketch, &options, format, e);
  trial_close(&trial);
  return rc;
}
