/* GET of scorecards: the list over the whole history, and one of them. */
#include <stdio.h>
#include <stdlib.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/history.h"

enum err scorecards_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_history_filter filter;
  struct store_scorecards list = {.rows = NULL};
  struct store_page page;
  struct page_rows rows = {.size = sizeof *list.rows,
                           .document_at = offsetof(struct store_scorecard, document),
                           .key_at = offsetof(struct store_scorecard, id)};
  enum err rc = history_filter(&filter, &page, call, e);
  if (rc == ERR_OK)
    rc = store_scorecard_list(call_store(call), &list, &filter, &page, e);
  if (rc != ERR_OK)
    return rc;
  rows.rows = list.rows;
  rows.count = list.count;
  rows.has_more = list.has_more;
  rc = respond_page_rows(call, out, &rows, e);
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
