/* GET of scorecards: the list over the whole history, and one of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/history.h"

/* fields= chooses the columns; the main figures otherwise. */
static enum err respond_csv(struct api_call *call, struct api_response *out, const char *const *documents, size_t count,
                            const char *next, struct error *e)
{
  json_t *cards = json_array();
  char *text = NULL;
  enum err rc = respond_page_texts(call, out, NULL, 0, next, e); /* for the Link to the next page */
  for (size_t i = 0; i < count && rc == ERR_OK; i++)
    if (json_array_append_new(cards, json_loads(documents[i], 0, NULL)) != 0)
      rc = error_set(e, ERR_INTERNAL, "", "a stored scorecard can not be parsed, or memory is out");
  if (rc == ERR_OK) {
    text = scorecards_csv(cards, call_query(call, "fields"));
    rc = respond_text_steal(out, 200, "text/csv", text, text != NULL ? strlen(text) : 0, e);
  }
  json_decref(cards);
  return rc;
}

enum err scorecards_list(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMAT_JSON | FORMAT_CSV);
  struct store_history_filter filter;
  struct store_scorecards list = {.rows = NULL};
  struct store_page page;
  const char **documents = NULL;
  const char *next;
  bool is_valid;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMAT_JSON | FORMAT_CSV);
  is_valid = call_page(call, &page);
  if (!history_filter(&filter, call) || !is_valid)
    return error_set(e, ERR_INVALID, "", "the query is not valid");
  rc = store_scorecard_list(call_store(call), &list, &filter, &page, e);
  if (rc != ERR_OK)
    return rc;
  next = list.has_more && list.count > 0 ? list.rows[list.count - 1].id : NULL;
  documents = calloc(list.count + 1, sizeof *documents);
  for (size_t i = 0; documents != NULL && i < list.count; i++)
    documents[i] = list.rows[i].document;
  if (documents == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for the list");
  else if (format == FORMAT_CSV)
    rc = respond_csv(call, out, documents, list.count, next, e);
  else
    rc = respond_page_texts(call, out, documents, list.count, next, e);
  free(documents);
  store_scorecards_fini(&list);
  return rc;
}

static enum err respond_markdown(struct api_response *out, const char *document, struct error *e)
{
  json_t *card = json_loads(document, 0, NULL);
  char *text;
  enum err rc;
  if (card == NULL)
    return error_set(e, ERR_INTERNAL, "", "a stored scorecard can not be parsed, or memory is out");
  text = scorecard_markdown(card);
  json_decref(card);
  rc = respond_text_steal(out, 200, "text/markdown", text, text != NULL ? strlen(text) : 0, e);
  return rc;
}

enum err scorecards_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMAT_JSON | FORMAT_MARKDOWN);
  char *document = NULL;
  size_t length = 0;
  char tag[96];
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMAT_JSON | FORMAT_MARKDOWN);
  rc = store_scorecard_document(call_store(call), &document, &length, call->params[0], e);
  if (rc != ERR_OK)
    return rc;
  if (format == FORMAT_MARKDOWN) {
    rc = respond_markdown(out, document, e);
    free(document);
  } else {
    rc = respond_text_steal(out, 200, "application/json", document, length, e);
  }
  if (rc == ERR_OK) {
    (void)snprintf(tag, sizeof tag, "%s%s", call->params[0], format == FORMAT_MARKDOWN ? "-md" : "");
    respond_etag(out, tag);
  }
  return rc;
}
