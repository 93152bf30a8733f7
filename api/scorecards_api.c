/* GET of scorecards: the list over the whole history, and one of them. */
#include <stdio.h>
#include <stdlib.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/history.h"

/* fields= chooses the columns; the main figures otherwise. */
static enum err respond_csv(struct api_call *call, struct api_response *out, const char *const *documents, size_t count,
                            const char *next, struct error *e)
{
  json_t *cards;
  enum err rc = page_parse_documents(&cards, documents, count, e);
  if (rc == ERR_OK)
    rc = respond_page_csv_steal(call, out, scorecards_csv(cards, call_query(call, "fields")), next, e);
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
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMAT_JSON | FORMAT_CSV);
  rc = history_filter(&filter, &page, call, e);
  if (rc == ERR_OK)
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
  if (card == NULL)
    return error_set(e, ERR_INTERNAL, "", "a stored scorecard can not be parsed, or memory is out");
  text = scorecard_markdown(card);
  json_decref(card);
  return respond_string_steal(out, 200, "text/markdown", text, e);
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
