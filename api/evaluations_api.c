/* POST and GET of evaluations. */
#include <stdio.h>
#include <stdlib.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/live.h"
#include "api/read.h"
#include "api/trial.h"
#include "api/write.h"

#define LABEL_MAX 64
#define FORMATS (FORMAT_JSON | FORMAT_CSV | FORMAT_MARKDOWN)

struct post_options {
  char label[LABEL_MAX + 1];
  int depth; /* index into the words; -1 = not given */
  int store; /* 0 = true, 1 = false: index into the words */
};

static void read_options(struct post_options *options, struct api_call *call)
{
  static const char *const depths[] = {"full", "quick", NULL}; /* order of enum fit_depth */
  static const char *const booleans[] = {"true", "false", NULL};
  const struct read_field label = {.kind = READ_TEXT, .to = options->label, .size = sizeof options->label};
  const struct read_field depth = {.kind = READ_WORD, .to = &options->depth, .words = depths};
  const struct read_field store = {.kind = READ_WORD, .to = &options->store, .words = booleans};
  *options = (struct post_options){.depth = -1};
  history_query(call, "label", &label);
  history_query(call, "depth", &depth);
  history_query(call, "store", &store);
}

/* What core can not compute yet is a fault of the sketch like any other. */
static enum err run(struct evaluation *out, struct api_call *call, const struct sketch *sketch,
                    const struct post_options *options, struct error *e)
{
  const struct evaluation_options evaluation = {.label = options->label[0] != '\0' ? options->label : NULL,
                                                .depth = options->depth == FIT_QUICK ? FIT_QUICK : FIT_FULL,
                                                .depth_is_given = options->depth >= 0,
                                                .now_ms = call->now_ms,
                                                .arena_bytes = call_deps(call)->arena_bytes,
                                                .deps = call_deps(call),
                                                .live = live_of(call->api)};
  const enum err rc = evaluation_run(out, sketch, &evaluation, e);
  if (rc == ERR_INVALID)
    faults_add(call->faults, FAULT_UNSUPPORTED, e->pointer, NULL, "%s", e->message);
  return rc;
}

/* The document in the wanted representation. */
static enum err respond(struct api_response *out, unsigned status, enum format format, char *spliced, size_t length,
                        struct error *e)
{
  json_t *document;
  char *text;
  enum err rc;
  if (spliced == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the answer");
  if (format == FORMAT_JSON)
    return respond_text_steal(out, status, "application/json", spliced, length, e);
  document = json_loadb(spliced, length, 0, NULL);
  free(spliced);
  if (document == NULL)
    return error_set(e, ERR_INTERNAL, "", "the evaluation can not be parsed, or memory is out");
  text = format == FORMAT_CSV ? evaluation_csv(document) : evaluation_markdown(document);
  rc = respond_string_steal(out, status, format == FORMAT_CSV ? "text/csv" : "text/markdown", text, e);
  json_decref(document);
  return rc;
}

/* Computes, stores and answers one sketch that was read without fault. */
static enum err evaluate(struct api_call *call, struct api_response *out, const struct sketch *sketch,
                         const struct post_options *options, enum format format, struct error *e)
{
  const bool is_stored = options->store == 0;
  struct evaluation evaluation = {.head = NULL};
  struct evaluation_texts texts = {NULL, NULL, 0};
  char *spliced;
  size_t length = 0;
  enum err rc = run(&evaluation, call, sketch, options, e);
  if (rc == ERR_OK)
    rc = evaluation_texts_make(&texts, &evaluation, e);
  if (rc == ERR_OK && is_stored)
    rc = evaluation_store(call_store(call), &evaluation, sketch, &texts, call->now_ms, e);
  if (rc != ERR_OK)
    goto out;
  spliced = evaluation_splice(&length, texts.head, texts.cards, texts.count);
  rc = respond(out, is_stored ? 201 : 200, format, spliced, length, e);
  if (rc == ERR_OK && is_stored)
    respond_header(out, "Location", "/v1/evaluations/%s", evaluation.id);
out:
  evaluation_texts_fini(&texts);
  evaluation_fini(&evaluation);
  return rc;
}

enum err evaluations_post(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  struct post_options options;
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
    rc = evaluate(call, out, &trial.sketch, &options, format, e);
  trial_close(&trial);
  return rc;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------- */

enum err evaluations_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_history_filter filter;
  struct store_evaluations list = {.rows = NULL};
  struct store_page page;
  struct page_rows rows = {.size = sizeof *list.rows,
                           .document_at = offsetof(struct store_evaluation, document),
                           .key_at = offsetof(struct store_evaluation, id)};
  enum err rc = history_filter(&filter, &page, call, e);
  if (rc == ERR_OK)
    rc = store_evaluation_list(call_store(call), &list, &filter, &page, e);
  if (rc != ERR_OK)
    return rc;
  rows.rows = list.rows;
  rows.count = list.count;
  rows.has_more = list.has_more;
  rc = respond_page_rows(call, out, &rows, e);
  store_evaluations_fini(&list);
  return rc;
}

/* Immutable, so the id is its tag; other representations are told apart. */
static const char *tag_suffix(enum format format)
{
  if (format == FORMAT_CSV)
    return "-csv";
  return format == FORMAT_MARKDOWN ? "-md" : "";
}

enum err evaluations_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMATS);
  struct store_evaluation row = {.id = NULL};
  struct store_scorecards list = {.rows = NULL};
  char **cards = NULL;
  char *spliced = NULL;
  size_t length = 0;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMATS);
  rc = store_evaluation_get(call_store(call), &row, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  rc = store_evaluation_scorecards(call_store(call), &list, call->params[0], e);
  if (rc != ERR_OK)
    goto out;
  cards = calloc(list.count + 1, sizeof *cards);
  for (size_t i = 0; cards != NULL && i < list.count; i++)
    cards[i] = list.rows[i].document;
  if (cards != NULL)
    spliced = evaluation_splice(&length, row.document, cards, list.count);
  rc = respond(out, 200, format, spliced, length, e);
  if (rc == ERR_OK) {
    char tag[80];
    (void)snprintf(tag, sizeof tag, "%s%s", row.id, tag_suffix(format));
    respond_etag(out, tag);
  }
out:
  free(cards);
  store_scorecards_fini(&list);
  store_evaluation_fini(&row);
  return rc;
}

enum err evaluations_sketch_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_evaluation row = {.id = NULL};
  char *sketch;
  enum err rc = store_evaluation_get(call_store(call), &row, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  sketch = row.sketch;
  row.sketch = NULL;
  rc = respond_string_steal(out, 200, "application/json", sketch, e);
  store_evaluation_fini(&row);
  return rc;
}
