/* GET /v1/portfolio: every registered workload with what its official sketch costs and why, from its newest official
   evaluation. */
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "api/card_table.h"
#include "api/handlers.h"
#include "api/put.h"
#include "api/write.h"

static const char *const bounds[] = {"compute", "weights", "kv_cache", "interconnect", "launch", "idle"};
#define BOUNDS (sizeof bounds / sizeof bounds[0])

/* The member at the path with a reference of its own, null when absent. */
static json_t *copy_at(const json_t *card, const char *path)
{
  const json_t *value = card_at(card, path);
  return value != NULL ? json_deep_copy(value) : json_null();
}

/* The best scorecard of the newest official evaluation, parsed; NULL when there is none yet. */
static enum err newest_card(json_t **card, struct store *store, const char *workload, struct error *e)
{
  struct store_evaluation evaluation;
  struct store_scorecards cards;
  enum err rc = store_evaluation_official(store, &evaluation, workload, e);
  *card = NULL;
  if (rc == ERR_NOT_FOUND)
    return ERR_OK;
  if (rc != ERR_OK)
    return rc;
  rc = store_evaluation_scorecards(store, &cards, evaluation.id, e);
  store_evaluation_fini(&evaluation);
  if (rc != ERR_OK)
    return rc;
  if (cards.count > 0) {
    *card = json_loads(cards.rows[0].document, 0, NULL);
    if (*card == NULL)
      rc = error_set(e, ERR_INTERNAL, "", "a stored scorecard can not be parsed, or memory is out");
  }
  store_scorecards_fini(&cards);
  return rc;
}

static json_t *item(const struct store_document *workload, const json_t *document, const json_t *card)
{
  static const char *const figures[][2] = {{"scorecard", "id"},
                                           {"created_at", "created_at"},
                                           {"model", "model"},
                                           {"profile", "profile"},
                                           {"verdict", "verdict"},
                                           {"no_fit_reason", "no_fit_reason"},
                                           {"gpus", "configuration.gpus"},
                                           {"monthly_usd", "cost.monthly_usd"},
                                           {"per_successful_request_usd", "cost.per_successful_request_usd"},
                                           {"first_limit", "limits.first_limit"}};
  json_t *out = json_object(), *by_bound = json_object();
  char path[64];
  put_member(&out, "workload", write_text(workload->name));
  put_member(&out, "owner", copy_at(document, "owner"));
  put_member(&out, "team", copy_at(document, "team"));
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
    put_member(&out, figures[i][0], copy_at(card, figures[i][1]));
  for (size_t i = 0; i < BOUNDS; i++) {
    (void)snprintf(path, sizeof path, "cost.by_bound.%s", bounds[i]);
    put_member(&by_bound, bounds[i], copy_at(card, path));
  }
  put_member(&out, "by_bound", by_bound);
  return out;
}

struct portfolio {
  json_t *items;
  double monthly_usd, by_bound_usd[BOUNDS];
  unsigned priced, without_price, fits;
};

static void add_to_totals(struct portfolio *portfolio, const json_t *item)
{
  const json_t *monthly = json_object_get(item, "monthly_usd"), *by_bound = json_object_get(item, "by_bound");
  const char *verdict = json_string_value(json_object_get(item, "verdict"));
  portfolio->fits += verdict != NULL && strcmp(verdict, "fit") == 0;
  if (!json_is_number(monthly)) {
    portfolio->without_price++;
    return;
  }
  portfolio->priced++;
  portfolio->monthly_usd += json_number_value(monthly);
  for (size_t i = 0; i < BOUNDS; i++)
    portfolio->by_bound_usd[i] += json_number_value(monthly) * json_number_value(json_object_get(by_bound, bounds[i]));
}

static enum err add_workload(struct portfolio *portfolio, struct store *store, const struct store_document *workload,
                             struct error *e)
{
  json_t *document = json_loads(workload->document, 0, NULL), *card = NULL, *added = NULL;
  enum err rc = newest_card(&card, store, workload->name, e);
  if (rc == ERR_OK) {
    added = item(workload, document, card);
    if (added != NULL)
      add_to_totals(portfolio, added);
    put_element(&portfolio->items, added);
    if (portfolio->items == NULL)
      rc = error_set(e, ERR_NOMEM, "", "not enough memory for the portfolio");
  }
  json_decref(card);
  json_decref(document);
  return rc;
}

static enum err collect(struct portfolio *portfolio, struct store *store, struct error *e)
{
  struct store_page page = {.limit = 200, .ascending = true};
  bool has_more = true;
  enum err rc = ERR_OK;
  while (has_more && rc == ERR_OK) {
    struct store_documents list;
    rc = store_document_list(store, &list, STORE_WORKLOAD, &page, e);
    for (size_t i = 0; i < list.count && rc == ERR_OK; i++)
      rc = add_workload(portfolio, store, &list.rows[i], e);
    has_more = list.has_more && list.count > 0;
    if (has_more)
      (void)snprintf(page.after, sizeof page.after, "%s", list.rows[list.count - 1].name);
    store_documents_fini(&list);
  }
  return rc;
}

/* Shares of the whole bill: where a portfolio's money waits. */
static json_t *totals(const struct portfolio *portfolio)
{
  json_t *out = json_object(), *by_bound = json_object();
  put_member(&out, "workloads", json_integer((json_int_t)json_array_size(portfolio->items)));
  put_member(&out, "fit", json_integer(portfolio->fits));
  put_member(&out, "without_price", json_integer(portfolio->without_price));
  put_member(&out, "monthly_usd", portfolio->priced > 0 ? write_number(portfolio->monthly_usd) : json_null());
  for (size_t i = 0; i < BOUNDS; i++)
    put_member(&by_bound, bounds[i],
               portfolio->monthly_usd > 0 ? write_number(portfolio->by_bound_usd[i] / portfolio->monthly_usd)
                                          : json_null());
  put_member(&out, "by_bound", by_bound);
  return out;
}

static void csv_value(struct text *text, const json_t *value)
{
  if (json_is_number(value))
    text_printf(text, "%.15g", json_number_value(value));
  else
    text_csv_field(text, json_is_string(value) ? json_string_value(value) : "");
}

static char *csv(const json_t *items)
{
  static const char *const columns[] = {"workload",   "owner",   "team", "scorecard",   "model",
                                        "profile",    "verdict", "gpus", "monthly_usd", "per_successful_request_usd",
                                        "first_limit"};
  const size_t count = sizeof columns / sizeof columns[0];
  struct text text = {NULL, 0, 0, false};
  char path[64];
  for (size_t k = 0; k < count; k++)
    text_printf(&text, "%s,", columns[k]);
  for (size_t k = 0; k < BOUNDS; k++)
    text_printf(&text, "by_bound.%s%s", bounds[k], k + 1 < BOUNDS ? "," : "\r\n");
  for (size_t i = 0; i < json_array_size(items); i++) {
    const json_t *row = json_array_get(items, i);
    for (size_t k = 0; k < count; k++) {
      csv_value(&text, json_object_get(row, columns[k]));
      text_puts(&text, ",");
    }
    for (size_t k = 0; k < BOUNDS; k++) {
      (void)snprintf(path, sizeof path, "by_bound.%s", bounds[k]);
      csv_value(&text, card_at(row, path));
      text_puts(&text, k + 1 < BOUNDS ? "," : "\r\n");
    }
  }
  return text_take(&text, NULL);
}

enum err portfolio_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMAT_JSON | FORMAT_CSV);
  struct portfolio portfolio = {.items = json_array()};
  json_t *document = NULL;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    rc = call_not_acceptable(call, out, FORMAT_JSON | FORMAT_CSV);
  else
    rc = collect(&portfolio, call_store(call), e);
  if (format == FORMAT_NOT_ACCEPTABLE || rc != ERR_OK)
    goto out;
  if (format == FORMAT_CSV) {
    rc = respond_string_steal(out, 200, "text/csv", csv(portfolio.items), e);
    goto out;
  }
  document = json_object();
  put_member(&document, "workloads", json_incref(portfolio.items));
  put_member(&document, "total", totals(&portfolio));
  rc = respond_json_steal(out, 200, json_incref(document), e);
out:
  json_decref(document);
  json_decref(portfolio.items);
  return rc;
}
