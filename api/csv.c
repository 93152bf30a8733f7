/* An RFC 4180 reader by hand: no library of the stack reads CSV. */
#include "api/csv.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char byte_order_mark[] = "\xEF\xBB\xBF"; /* spreadsheets write one */

void csv_init(struct csv *csv, const char *text, size_t length)
{
  memset(csv, 0, sizeof *csv);
  csv->next = text;
  csv->end = text + length;
  if (length >= strlen(byte_order_mark) && memcmp(text, byte_order_mark, strlen(byte_order_mark)) == 0)
    csv->next += strlen(byte_order_mark);
  csv->line = csv->next_line = 1;
}

void csv_fini(struct csv *csv)
{
  free(csv->buffer);
  csv->buffer = NULL;
}

static void skip_line_end(struct csv *csv)
{
  if (csv->next < csv->end && *csv->next == '\r')
    csv->next++;
  if (csv->next < csv->end && *csv->next == '\n') {
    csv->next++;
    csv->next_line++;
  }
}

static bool is_line_end(const struct csv *csv)
{
  return csv->next == csv->end || *csv->next == '\n' ||
         (*csv->next == '\r' && (csv->next + 1 == csv->end || csv->next[1] == '\n'));
}

/* A field never grows by unquoting, so the rest of the text is room enough for a whole record. */
static bool reserve(struct csv *csv)
{
  const size_t needed = (size_t)(csv->end - csv->next) + CSV_FIELDS_MAX + 1;
  if (csv->buffer != NULL)
    return true;
  csv->buffer = malloc(needed);
  csv->buffer_size = needed;
  return csv->buffer != NULL;
}

static bool stray(const struct csv *csv, struct error *e)
{
  const char *what = *csv->next == '"' ? "quote" : *csv->next == '\0' ? "NUL" : "character after its closing quote";
  (void)error_set(e, ERR_INVALID, "", "line %u: field %zu holds a stray %s", csv->next_line, csv->count, what);
  return false;
}

static bool read_quoted(struct csv *csv, char **to, struct error *e)
{
  csv->next++;
  while (csv->next < csv->end) {
    if (*csv->next == '"') {
      csv->next++;
      if (csv->next == csv->end || *csv->next != '"')
        return is_line_end(csv) || *csv->next == ',' || stray(csv, e);
    }
    if (*csv->next == '\0')
      return stray(csv, e);
    csv->next_line += *csv->next == '\n';
    *(*to)++ = *csv->next++;
  }
  (void)error_set(e, ERR_INVALID, "", "line %u: a quoted field has no closing quote", csv->line);
  return false;
}

static bool read_plain(struct csv *csv, char **to, struct error *e)
{
  while (!is_line_end(csv) && *csv->next != ',') {
    if (*csv->next == '\0' || *csv->next == '"')
      return stray(csv, e);
    *(*to)++ = *csv->next++;
  }
  return true;
}

static bool read_field(struct csv *csv, char **to, struct error *e)
{
  bool ok;
  if (csv->count == CSV_FIELDS_MAX) {
    (void)error_set(e, ERR_INVALID, "", "line %u: more than %d fields", csv->line, CSV_FIELDS_MAX);
    return false;
  }
  csv->fields[csv->count++] = *to;
  ok = csv->next < csv->end && *csv->next == '"' ? read_quoted(csv, to, e) : read_plain(csv, to, e);
  *(*to)++ = '\0';
  return ok;
}

bool csv_next(struct csv *csv, struct error *e)
{
  char *to;
  e->code = ERR_OK;
  if (!reserve(csv)) {
    (void)error_set(e, ERR_NOMEM, "", "not enough memory to read the table");
    return false;
  }
  while (csv->next < csv->end && is_line_end(csv))
    skip_line_end(csv);
  if (csv->next == csv->end)
    return false;
  csv->line = csv->next_line;
  csv->count = 0;
  to = csv->buffer;
  for (;;) {
    if (!read_field(csv, &to, e))
      return false;
    if (is_line_end(csv))
      break;
    csv->next++; /* the comma */
  }
  skip_line_end(csv);
  return true;
}

size_t csv_column(const struct csv *csv, const char *name)
{
  for (size_t i = 0; i < csv->count; i++)
    if (strcmp(csv->fields[i], name) == 0)
      return i;
  return SIZE_MAX;
}

const char *csv_field(const struct csv *csv, size_t column)
{
  return column < csv->count ? csv->fields[column] : "";
}
