/* Reading traces: CSV with a header, or JSON lines. Both give the rows cells, and each line its number. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/csv.h"
#include "api/read.h"
#include "api/trace_int.h"

/* ---- CSV ---- */

static bool is_utf8(struct trace_reading *reading, const struct csv *csv)
{
  for (size_t i = 0; i < csv->count; i++)
    if (!write_is_utf8(csv->fields[i])) {
      trace_fault(reading, FAULT_WRONG_TYPE, NULL, NULL, "field %zu is not UTF-8 text", i + 1);
      return false;
    }
  return true;
}

static void trim(char *field)
{
  size_t length = strlen(field), blanks = strspn(field, " \t");
  memmove(field, field + blanks, length - blanks + 1);
  for (length -= blanks; length > 0 && (field[length - 1] == ' ' || field[length - 1] == '\t'); length--)
    field[length - 1] = '\0';
}

static bool read_header(struct trace_reading *reading, struct csv *csv)
{
  const char *names[CSV_FIELDS_MAX];
  for (size_t i = 0; i < csv->count; i++) {
    trim(csv->fields[i]);
    names[i] = csv->fields[i];
  }
  if (!is_utf8(reading, csv) || !trace_read_names(reading, names, csv->count))
    return false;
  reading->field_count = csv->count;
  for (size_t k = 0; k < TRACE_COLUMNS; k++)
    reading->places[k] = trace_find_name(names, csv->count, reading->format->columns[k]);
  return true;
}

static enum err read_record(struct trace_reading *reading, const struct csv *csv, struct error *e)
{
  struct trace_cell cells[TRACE_COLUMNS];
  if (csv->count != reading->field_count) {
    trace_fault(reading, FAULT_WRONG_TYPE, NULL, NULL, "has %zu fields, the header %zu", csv->count,
                reading->field_count);
    return ERR_OK;
  }
  if (!is_utf8(reading, csv))
    return ERR_OK;
  for (size_t k = 0; k < TRACE_COLUMNS; k++)
    cells[k] = (struct trace_cell){.text = reading->places[k] != SIZE_MAX ? csv->fields[reading->places[k]] : NULL};
  return trace_read_row(reading, cells, e);
}

/* A quote out of place may swallow any number of lines, so nothing after it is read. */
static enum err read_csv(struct trace_reading *reading, const char *text, size_t length, struct error *e)
{
  struct csv csv;
  enum err result = ERR_OK;
  csv_init(&csv, text, length);
  while (result == ERR_OK && !reading->faults->is_truncated && csv_next(&csv, e)) {
    reading->line = csv.line;
    if (reading->format != NULL)
      result = read_record(reading, &csv, e);
    else if (!read_header(reading, &csv))
      break;
  }
  if (result == ERR_OK && e->code == ERR_INVALID) {
    reading->line = csv.next_line;
    trace_fault(reading, FAULT_WRONG_TYPE, NULL, NULL, "is no CSV (%s); nothing after it was read", e->message);
  } else if (result == ERR_OK) {
    result = e->code;
  }
  csv_fini(&csv);
  return result;
}

/* ---- JSON lines ---- */

static void cell_of_json(struct trace_cell *cell, const json_t *value)
{
  *cell = (struct trace_cell){.value = value, .is_number = json_is_number(value)};
  if (json_is_string(value))
    cell->text = json_string_value(value);
  if (!json_is_number(value))
    return;
  if (json_is_integer(value))
    (void)snprintf(cell->printed, sizeof cell->printed, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  else
    (void)snprintf(cell->printed, sizeof cell->printed, "%.17g", json_real_value(value));
  cell->text = cell->printed;
}

/* Members are found without regard to case, as columns are. */
static const json_t *member(const json_t *object, const char *name)
{
  const json_t *exact = name != NULL ? json_object_get(object, name) : NULL;
  const char *key;
  json_t *value;
  if (exact != NULL || name == NULL)
    return exact;
  json_object_foreach(read_iterable(object), key, value)
  {
    if (strcasecmp(key, name) == 0)
      return value;
  }
  return NULL;
}

static bool read_keys(struct trace_reading *reading, const json_t *object)
{
  const char *names[TRACE_NAMES_MAX], *key;
  size_t count = 0;
  json_t *value;
  json_object_foreach(read_iterable(object), key, value)
  {
    if (count < TRACE_NAMES_MAX)
      names[count++] = key;
  }
  return trace_read_names(reading, names, count);
}

/* Rows after the first: the names may differ, and ours are all known. */
static void check_keys(struct trace_reading *reading, const json_t *object)
{
  const char *key;
  json_t *value;
  json_object_foreach(read_iterable(object), key, value)
  {
    if (!trace_is_column(reading->format, key))
      trace_fault(reading, FAULT_UNKNOWN_FIELD, key, NULL, "is not known here");
  }
}

static enum err read_object_line(struct trace_reading *reading, const json_t *object, struct error *e)
{
  struct trace_cell cells[TRACE_COLUMNS];
  if (!json_is_object(object)) {
    trace_fault(reading, FAULT_WRONG_TYPE, NULL, NULL, "is %s; an object is expected", read_type_name(object));
    return ERR_OK;
  }
  if (reading->format != NULL && !reading->format->is_recorded)
    check_keys(reading, object);
  if (reading->format == NULL && !read_keys(reading, object))
    return ERR_OK;
  for (size_t k = 0; k < TRACE_COLUMNS; k++)
    cell_of_json(&cells[k], member(object, reading->format->columns[k]));
  return trace_read_row(reading, cells, e);
}

static enum err read_line(struct trace_reading *reading, const char *line, size_t length, struct error *e)
{
  json_t *value = NULL;
  int in_line, column;
  enum err result = read_json(&value, line, length, &in_line, &column, e);
  if (result == ERR_OK)
    result = read_object_line(reading, value, e);
  else if (result == ERR_INVALID) {
    trace_fault(reading, FAULT_WRONG_TYPE, NULL, NULL, "is no JSON: %s", e->message);
    result = ERR_OK;
  }
  json_decref(value);
  return result;
}

static enum err read_json_lines(struct trace_reading *reading, const char *text, size_t length, struct error *e)
{
  const char *at = text, *const end = text + length;
  enum err result = ERR_OK;
  if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
    at += 3;
  while (at < end && result == ERR_OK && !reading->faults->is_truncated) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    const size_t bytes = (size_t)((stop != NULL ? stop : end) - at);
    reading->line++;
    if (bytes > 0 && !(bytes == 1 && *at == '\r'))
      result = read_line(reading, at, bytes, e);
    if (reading->format == NULL && reading->faults->count > 0)
      break; /* without known names every line would be a fault */
    at = stop != NULL ? stop + 1 : end;
  }
  return result;
}

/* ---- The whole ---- */

static bool is_utf16(const char *text, size_t length)
{
  return length >= 2 &&
         (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0 || text[0] == '\0' || text[1] == '\0');
}

static enum err read_text(struct trace_reading *reading, enum trace_carrier carrier, const char *text, size_t length,
                          struct error *e)
{
  reading->line = 1;
  if (is_utf16(text, length)) {
    trace_fault(reading, FAULT_WRONG_TYPE, NULL, NULL, "is UTF-16 or binary; UTF-8 text is expected");
    return ERR_OK;
  }
  if (carrier == TRACE_CSV)
    return read_csv(reading, text, length, e);
  reading->line = 0;
  return read_json_lines(reading, text, length, e);
}

static void check_rows(struct trace_reading *reading)
{
  if (reading->faults->count > 0)
    return;
  if (reading->rows.requests.count == 0 && reading->rows.left_out > 0)
    faults_add(reading->faults, FAULT_MISSING, "", NULL, "none of %zu requests has input and output tokens",
               reading->rows.left_out);
  else if (reading->rows.requests.count == 0)
    faults_add(reading->faults, FAULT_MISSING, "", NULL, "the trace is empty; at least one request is expected");
  if (reading->rows.left_out > 0)
    trace_assume(reading->trace, "requests without input or output tokens, which failed, are left out: %zu",
                 reading->rows.left_out);
  if (reading->rows.hash_count > 0)
    trace_assume(reading->trace, "a prefix hash stands for %d tokens of input and all before them", TRACE_BLOCK_TOKENS);
}

enum err trace_read(struct trace *out, enum trace_carrier carrier, const char *text, size_t length,
                    struct faults *faults, struct error *e)
{
  struct trace_reading reading = {.trace = out, .faults = faults};
  enum err result;
  *out = (struct trace){.format = "", .assumptions = json_array()};
  result = read_text(&reading, carrier, text, length, e);
  if (result == ERR_OK)
    check_rows(&reading);
  if (result == ERR_OK && faults->count > 0)
    result = error_set(e, ERR_INVALID, "", "the trace is not valid");
  if (result == ERR_OK)
    result = trace_canonical(out, &reading.rows, e);
  if (result == ERR_OK && out->assumptions == NULL)
    result = error_set(e, ERR_NOMEM, "", "not enough memory to read the trace");
  trace_rows_fini(&reading.rows);
  if (result != ERR_OK)
    trace_fini(out);
  return result;
}
