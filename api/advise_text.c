/* Advice as one screen: a table that reads well both as Markdown and on a terminal. */
#include "api/advise.h"

#include <stdio.h>
#include <string.h>

#include "api/card_table.h"
#include "api/variant.h"

/* "2 GPUs, 812/34 ms, 8,760 USD, kv_cache": GPUs, p99 of TTFT and ITL, a month's bill, what limits. */
static void describe(char *to, size_t size, const json_t *card)
{
  const char *reason = json_string_value(json_object_get(card, "no_fit_reason"));
  const char *limiter = json_string_value(json_object_get(card, "limiter"));
  const json_t *gpus = json_object_get(card, "gpus");
  char ttft[CARD_FIGURE_SIZE], itl[CARD_FIGURE_SIZE], usd[CARD_FIGURE_SIZE];
  if (card == NULL || json_is_null(card))
    (void)snprintf(to, size, "-");
  else if (reason != NULL)
    (void)snprintf(to, size, "no: %s", reason);
  else
    (void)snprintf(to, size, "%lld GPU%s, %s/%s ms, %s USD, %s", (long long)json_integer_value(gpus),
                   json_integer_value(gpus) == 1 ? "" : "s", card_figure(ttft, json_object_get(card, "ttft_p99_ms"), 1),
                   card_figure(itl, json_object_get(card, "itl_p99_ms"), 1),
                   card_figure(usd, json_object_get(card, "monthly_usd"), 1), limiter != NULL ? limiter : "-");
}

enum { CELL_SIZE = 80 };

static void cell_of(char to[CELL_SIZE], const json_t *row, int column)
{
  if (column == 0)
    (void)snprintf(to, CELL_SIZE, "%s", json_string_value(json_object_get(row, "profile")));
  else
    describe(to, CELL_SIZE, json_object_get(row, variant_name((enum variant)(column - 1))));
}

static bool applies(const json_t *document, int variant)
{
  return json_is_true(
      json_object_get(json_array_get(json_object_get(document, "variants"), (size_t)variant), "applies"));
}

/* Variants that change nothing have no column. */
static void put_table(struct text *text, const json_t *document)
{
  const json_t *rows = json_object_get(document, "gpus");
  int widths[VARIANT_COUNT + 1];
  char cell[CELL_SIZE];
  for (int c = 0; c <= VARIANT_COUNT; c++) {
    widths[c] = (int)strlen(c == 0 ? "GPU" : variant_title((enum variant)(c - 1)));
    for (size_t i = 0; i < json_array_size(rows); i++) {
      cell_of(cell, json_array_get(rows, i), c);
      widths[c] = (int)strlen(cell) > widths[c] ? (int)strlen(cell) : widths[c];
    }
  }
  for (int c = 0; c <= VARIANT_COUNT; c++)
    if (c == 0 || applies(document, c - 1))
      text_printf(text, "| %-*s ", widths[c], c == 0 ? "GPU" : variant_title((enum variant)(c - 1)));
  text_puts(text, "|\n");
  for (int c = 0; c <= VARIANT_COUNT; c++)
    if (c == 0 || applies(document, c - 1))
      text_printf(text, "|%.*s", widths[c] + 2,
                  "---------------------------------------------------------------------------------");
  text_puts(text, "|\n");
  for (size_t i = 0; i < json_array_size(rows); i++) {
    for (int c = 0; c <= VARIANT_COUNT; c++) {
      cell_of(cell, json_array_get(rows, i), c);
      if (c == 0 || applies(document, c - 1))
        text_printf(text, "| %-*s ", widths[c], cell);
    }
    text_puts(text, "|\n");
  }
}

char *advise_markdown(const json_t *document)
{
  const json_t *traffic = json_object_get(document, "traffic");
  const json_t *left_out = json_object_get(document, "left_out");
  struct text text = {NULL, 0, 0, false};
  char figure[CARD_FIGURE_SIZE];
  text_printf(&text, "%s parameters, %s traffic: ", card_figure(figure, json_object_get(document, "parameters"), 1),
              json_string_value(json_object_get(traffic, "kind")));
  card_traffic(&text, traffic);
  text_puts(&text, "\n\n");
  put_table(&text, document);
  text_puts(&text, "\nGPUs, p99 of TTFT and ITL, USD a month, what limits.");
  for (int variant = VARIANT_GQA; variant < VARIANT_COUNT; variant++)
    if (applies(document, variant))
      text_printf(&text, " %s takes %s.", variant_title((enum variant)variant),
                  variant_requires((enum variant)variant));
  if (json_integer_value(left_out) > 0)
    text_printf(&text, " %lld dearer GPU kinds are not shown.", (long long)json_integer_value(left_out));
  text_puts(&text, "\n");
  return text_take(&text, NULL);
}
