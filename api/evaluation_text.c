/* The terminal view of an evaluation: one screen of plain text, widest columns first to go. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/card_table.h"

#define GAP 2         /* blanks between columns */
#define LIMIT_LEAST 8 /* columns below which the limit, which may be cut, says nothing */

/* Columns a UTF-8 text takes, counting one a code point. */
static size_t columns_of(const char *text)
{
  size_t n = 0;
  for (; *text != '\0'; text++)
    n += ((unsigned char)*text & 0xC0) != 0x80 ? 1 : 0;
  return n;
}

/* Breaks at blanks so that no line is longer than `width`, as far as words allow. */
static void put_wrapped(struct text *text, const char *sentence, size_t width)
{
  size_t used = 0;
  while (*sentence != '\0') {
    char word[512];
    size_t length = strcspn(sentence, " "), columns;
    if (length >= sizeof word)
      length = sizeof word - 1;
    memcpy(word, sentence, length);
    word[length] = '\0';
    columns = columns_of(word);
    if (used > 0 && used + 1 + columns > width) {
      text_puts(text, "\n");
      used = 0;
    }
    text_printf(text, "%s%s", used > 0 ? " " : "", word);
    used += (used > 0 ? 1 : 0) + columns;
    sentence += length;
    sentence += *sentence == ' ' ? 1 : 0;
  }
  text_puts(text, "\n");
}

/* The cell, cut with an ellipsis where it is wider than its column. */
static void put_cut(struct text *text, const char *cell, size_t width)
{
  size_t used = 0, bytes = 0;
  if (columns_of(cell) <= width) {
    text_puts(text, cell);
    return;
  }
  while (used + 1 < width) {
    bytes++;
    while (((unsigned char)cell[bytes] & 0xC0) == 0x80)
      bytes++;
    used++;
  }
  text_append(text, cell, bytes);
  text_puts(text, "…");
}

static void put_padded(struct text *text, const char *cell, size_t width, bool is_right, bool is_last)
{
  const size_t columns = columns_of(cell);
  const int blanks = columns < width ? (int)(width - columns) : 0;
  if (is_right)
    text_printf(text, "%*s", blanks, "");
  put_cut(text, cell, width);
  if (!is_right && !is_last)
    text_printf(text, "%*s", blanks, "");
}

static void put_line(struct text *text, const char *const cells[CARD_COLUMNS], const size_t widths[CARD_COLUMNS],
                     size_t shown)
{
  for (size_t i = 0; i < shown; i++) {
    const bool is_last = i + 1 == shown;
    put_padded(text, cells[i], widths[i], card_column_heads[i].is_number, is_last);
    text_puts(text, is_last ? "\n" : "  ");
  }
}

/* Widths from titles and cells; returns how many columns fit, always at least the first. The sentence is narrowed
   before it goes. */
static size_t measure(size_t widths[CARD_COLUMNS], const char *const titles[CARD_COLUMNS], const struct card_row *rows,
                      size_t count, size_t width)
{
  size_t total = 0, shown = 0;
  for (size_t c = 0; c < CARD_COLUMNS; c++) {
    widths[c] = columns_of(titles[c]);
    for (size_t i = 0; i < count; i++) {
      const size_t columns = columns_of(rows[i].cells[c]);
      widths[c] = columns > widths[c] ? columns : widths[c];
    }
  }
  for (size_t c = 0; c < CARD_COLUMNS; c++) {
    const size_t left = total + GAP < width ? width - total - GAP : 0;
    if (c == COLUMN_LIMIT && left >= LIMIT_LEAST && widths[c] > left)
      widths[c] = left;
    total += widths[c] + (c > 0 ? GAP : 0);
    if (c > 0 && total > width)
      break;
    shown++;
  }
  return shown;
}

static enum err put_table(struct text *text, const json_t *cards, size_t width, struct error *e)
{
  const size_t count = json_array_size(cards);
  const bool is_p99 = cards_have_p99(cards);
  struct card_row *rows = calloc(count + 1, sizeof *rows);
  const char *cells[CARD_COLUMNS];
  size_t widths[CARD_COLUMNS], shown;
  if (rows == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for a table of %zu rows", count);
  for (size_t i = 0; i < count; i++)
    card_row_make(&rows[i], json_array_get(cards, i), is_p99);
  for (size_t c = 0; c < CARD_COLUMNS; c++)
    cells[c] = card_column_title((enum card_column)c, is_p99);
  shown = measure(widths, cells, rows, count, width);
  put_line(text, cells, widths, shown);
  for (size_t i = 0; i < count; i++) {
    for (size_t c = 0; c < CARD_COLUMNS; c++)
      cells[c] = rows[i].cells[c];
    put_line(text, cells, widths, shown);
  }
  free(rows);
  return ERR_OK;
}

static void put_header(struct text *text, const json_t *document, size_t width)
{
  const char *workload = json_string_value(json_object_get(document, "workload"));
  const char *model = json_string_value(json_object_get(document, "model"));
  struct text line = {NULL, 0, 0, false};
  char *bytes;
  text_printf(&line, "%s: %s, ", workload != NULL ? workload : "-", model != NULL ? model : "-");
  card_traffic(&line, json_object_get(document, "traffic"));
  bytes = text_take(&line, NULL);
  if (bytes != NULL)
    put_wrapped(text, bytes, width);
  else
    text->is_failed = true;
  free(bytes);
}

enum err api_evaluation_text(char **text, const char *json, unsigned width, struct error *e)
{
  json_t *document = json_loads(json, 0, NULL);
  struct text out = {NULL, 0, 0, false}, line = {NULL, 0, 0, false}, next = {NULL, 0, 0, false};
  char *recommendation = NULL, *step = NULL;
  enum err rc;
  *text = NULL;
  if (!json_is_array(json_object_get(document, "scorecards"))) {
    json_decref(document);
    return error_set(e, ERR_INVALID, "/scorecards", "the document is not an evaluation");
  }
  card_recommendation(&line, document);
  recommendation = text_take(&line, NULL);
  text_puts(&next, ""); /* without a step the text is empty */
  card_next_step(&next, document);
  step = text_take(&next, NULL);
  put_header(&out, document, width);
  if (recommendation != NULL)
    put_wrapped(&out, recommendation, width);
  if (step != NULL && step[0] != '\0')
    put_wrapped(&out, step, width);
  text_puts(&out, "\n");
  rc = put_table(&out, json_object_get(document, "scorecards"), width, e);
  *text = text_take(&out, NULL);
  if (rc == ERR_OK && (*text == NULL || recommendation == NULL || step == NULL))
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for the table");
  if (rc != ERR_OK) {
    free(*text);
    *text = NULL;
  }
  free(step);
  free(recommendation);
  json_decref(document);
  return rc;
}
