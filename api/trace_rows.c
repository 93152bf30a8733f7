/* The rows of a trace: the columns of four known recordings, and the cells below them. Nothing stops at the first bad row;
   every fault names its line. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/read.h"
#include "api/trace_int.h"

static const struct trace_format formats[] = {
    {"native", {"arrival_s", "input_tokens", "output_tokens", "prefix_hashes"}, 9, false},
    {"azure", {"TIMESTAMP", "ContextTokens", "GeneratedTokens", NULL}, 9, true},
    {"mooncake", {"timestamp", "input_length", "output_length", "hash_ids"}, 6, true},
    {"burstgpt", {"Timestamp", "Request tokens", "Response tokens", NULL}, 9, true},
};
#define FORMATS (sizeof formats / sizeof formats[0])

void trace_fault(struct trace_reading *reading, enum fault_code code, const char *column, const char *suggestion,
                 const char *format, ...)
{
  char line[32], row[64], pointer[160], detail[256];
  va_list args;
  (void)snprintf(line, sizeof line, "%u", reading->line);
  read_pointer(row, sizeof row, "/lines", line);
  if (column != NULL)
    read_pointer(pointer, sizeof pointer, row, column);
  va_start(args, format);
  (void)vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  faults_add(reading->faults, code, column != NULL ? pointer : row, suggestion, "line %u: %s%s%s", reading->line,
             column != NULL ? column : "", column != NULL ? " " : "", detail);
}

/* ---- Names of columns ---- */

size_t trace_find_name(const char *const *names, size_t count, const char *name)
{
  for (size_t i = 0; name != NULL && i < count; i++)
    if (strcasecmp(names[i], name) == 0)
      return i;
  return SIZE_MAX;
}

bool trace_is_column(const struct trace_format *format, const char *name)
{
  for (size_t k = 0; k < TRACE_COLUMNS; k++)
    if (format->columns[k] != NULL && strcasecmp(format->columns[k], name) == 0)
      return true;
  return false;
}

/* The format that most of the names belong to. */
static const struct trace_format *likely_format(const char *const *names, size_t count, size_t *matches)
{
  const struct trace_format *best = NULL;
  *matches = 0;
  for (size_t f = 0; f < FORMATS; f++) {
    size_t seen = 0;
    for (size_t k = 0; k < TRACE_HASHES; k++)
      seen += trace_find_name(names, count, formats[f].columns[k]) != SIZE_MAX ? 1 : 0;
    if (seen > *matches) {
      *matches = seen;
      best = &formats[f];
    }
  }
  return best;
}

static void join_names(char *to, size_t size, const char *const *names, size_t count)
{
  char excerpt[READ_EXCERPT_SIZE];
  size_t n = 0;
  to[0] = '\0';
  for (size_t i = 0; i < count && n + 1 < size; i++) {
    const int wrote = snprintf(to + n, size - n, "%s%s", i > 0 ? ", " : "", read_excerpt(excerpt, names[i]));
    n += wrote > 0 ? (size_t)wrote : 0;
  }
}

static void refuse_names(struct trace_reading *reading, const char *const *names, size_t count)
{
  char seen[96];
  join_names(seen, sizeof seen, names, count);
  trace_fault(
      reading, FAULT_MISSING, NULL, NULL,
      "the columns \"%s\" are of no known trace; expected are arrival_s, input_tokens, output_tokens[, prefix_hashes] "
      "or those of Azure, Mooncake or BurstGPT",
      seen);
}

/* The name nearest to a missing column that is not one itself. */
static const char *nearest_stray(const struct trace_format *format, const char *column, const char *const *names,
                                 size_t count)
{
  const char *strays[TRACE_NAMES_MAX + 1];
  size_t n = 0;
  for (size_t i = 0; i < count && n < TRACE_NAMES_MAX; i++)
    if (!trace_is_column(format, names[i]))
      strays[n++] = names[i];
  strays[n] = NULL;
  return read_nearest(column, strays);
}

static void check_needed(struct trace_reading *reading, const char *const *names, size_t count)
{
  const struct trace_format *format = reading->format;
  char excerpt[READ_EXCERPT_SIZE];
  for (size_t k = 0; k < TRACE_HASHES; k++) {
    const char *stray;
    if (trace_find_name(names, count, format->columns[k]) != SIZE_MAX)
      continue;
    stray = nearest_stray(format, format->columns[k], names, count);
    if (stray != NULL)
      trace_fault(reading, FAULT_MISSING, format->columns[k], NULL, "is required by the %s columns; \"%s\" is seen",
                  format->name, read_excerpt(excerpt, stray));
    else
      trace_fault(reading, FAULT_MISSING, format->columns[k], NULL, "is required by the %s columns", format->name);
  }
}

static void check_once(struct trace_reading *reading, const char *const *names, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (trace_is_column(reading->format, names[i]) && trace_find_name(names, i, names[i]) != SIZE_MAX)
      trace_fault(reading, FAULT_CONFLICT, names[i], NULL, "is there twice");
}

/* Columns of ours are all known; a recording may have others, which are left alone and named. */
static void check_others(struct trace_reading *reading, const char *const *names, size_t count)
{
  const struct trace_format *format = reading->format;
  const char *others[TRACE_NAMES_MAX], *words[TRACE_COLUMNS + 1] = {NULL};
  char list[300];
  size_t n = 0;
  for (size_t i = 0; i < count && n < TRACE_NAMES_MAX; i++)
    if (!trace_is_column(format, names[i]))
      others[n++] = names[i];
  if (n == 0)
    return;
  if (format->is_recorded) {
    join_names(list, sizeof list, others, n);
    trace_assume(reading->trace, "columns that are not used: %s", list);
    return;
  }
  memcpy(words, format->columns, sizeof format->columns);
  for (size_t i = 0; i < n; i++)
    trace_fault(reading, FAULT_UNKNOWN_FIELD, others[i], read_nearest(others[i], words), "is not known here");
}

/* Decides the format by the names of the header or of the first object; false after faults. */
bool trace_read_names(struct trace_reading *reading, const char *const *names, size_t count)
{
  const size_t before = reading->faults->count;
  size_t matches;
  reading->format = likely_format(names, count, &matches);
  if (matches < 2) { /* one may be chance: a timestamp is in every log */
    refuse_names(reading, names, count);
    return false;
  }
  reading->trace->format = reading->format->name;
  check_needed(reading, names, count);
  check_once(reading, names, count);
  check_others(reading, names, count);
  return reading->faults->count == before;
}

/* ---- One row ---- */

static bool read_arrival(struct trace_reading *reading, struct store_trace_request *row, const struct trace_cell *cell)
{
  const char *name = reading->format->columns[TRACE_ARRIVAL];
  char why[160];
  const enum trace_time time = trace_cell_time(&row->arrival_ns, cell, reading->format->decimals, why);
  if (time == TRACE_TIME_NONE) {
    trace_fault(reading, FAULT_OUT_OF_RANGE, name, NULL, "%s", why);
    return false;
  }
  if (reading->rows.time == TRACE_TIME_NONE)
    reading->rows.time = time;
  if ((time == TRACE_TIME_NUMBER) != (reading->rows.time == TRACE_TIME_NUMBER)) {
    trace_fault(reading, FAULT_CONFLICT, name, NULL, "is a %s, the first one a %s",
                time == TRACE_TIME_NUMBER ? "number" : "date", time == TRACE_TIME_NUMBER ? "date" : "number");
    return false;
  }
  if (time == TRACE_TIME_DATE_WITHOUT_ZONE)
    reading->rows.time = time;
  return true;
}

static bool read_tokens(struct trace_reading *reading, uint32_t *tokens, const struct trace_cell *cell,
                        enum trace_column column)
{
  const uint32_t min = reading->format->is_recorded ? 0 : 1;
  char seen[80];
  if (trace_cell_tokens(tokens, cell, min))
    return true;
  trace_fault(reading, FAULT_OUT_OF_RANGE, reading->format->columns[column], NULL,
              "is %s; a whole number from %u to %d is expected", trace_cell_seen(seen, cell), (unsigned)min,
              TRACE_TOKENS_MAX);
  return false;
}

static void refuse_hashes(struct trace_reading *reading, const struct trace_cell *cell)
{
  char seen[80];
  trace_fault(reading, FAULT_WRONG_TYPE, reading->format->columns[TRACE_HASHES], NULL,
              "is %s; whole numbers from 0 on are expected, %s", trace_cell_seen(seen, cell),
              cell->value != NULL ? "in an array" : "separated by blanks");
}

/* "17 18 19"; *ok tells whether it was that. */
static enum err read_hash_text(struct trace_reading *reading, bool *ok, const char *text, struct error *e)
{
  const char *at = text + strspn(text, " ;");
  enum err result = ERR_OK;
  while (*at != '\0' && result == ERR_OK) {
    uint64_t hash = 0;
    const char *const start = at;
    for (; *at >= '0' && *at <= '9' && hash <= (UINT64_MAX - (uint64_t)(*at - '0')) / 10; at++)
      hash = hash * 10 + (uint64_t)(*at - '0');
    if (at == start || (*at != '\0' && *at != ' ' && *at != ';'))
      return ERR_OK;
    result = trace_rows_add_hash(&reading->rows, hash, e);
    at += strspn(at, " ;");
  }
  *ok = true;
  return result;
}

static enum err read_hash_array(struct trace_reading *reading, bool *ok, const json_t *array, struct error *e)
{
  enum err result = ERR_OK;
  for (size_t i = 0; i < json_array_size(array) && result == ERR_OK; i++) {
    const json_t *hash = json_array_get(array, i);
    if (!json_is_integer(hash) || json_integer_value(hash) < 0)
      return ERR_OK;
    result = trace_rows_add_hash(&reading->rows, (uint64_t)json_integer_value(hash), e);
  }
  *ok = true;
  return result;
}

/* The hashes of a row are appended; what a faulty row leaves behind does no harm, since no trace comes of it. */
static enum err read_hashes(struct trace_reading *reading, struct store_trace_request *row,
                            const struct trace_cell *cell, struct error *e)
{
  const size_t before = reading->rows.hash_count;
  const uint32_t blocks = (row->input_tokens + TRACE_BLOCK_TOKENS - 1) / TRACE_BLOCK_TOKENS;
  bool ok = false;
  enum err result = ERR_OK;
  row->prefix_first = (uint32_t)before;
  if (json_is_array(cell->value))
    result = read_hash_array(reading, &ok, cell->value, e);
  else if (cell->value == NULL && cell->text != NULL)
    result = read_hash_text(reading, &ok, cell->text, e);
  else
    ok = cell->value == NULL;
  if (result != ERR_OK)
    return result;
  if (!ok)
    refuse_hashes(reading, cell);
  else if (reading->rows.hash_count - before > blocks)
    trace_fault(reading, FAULT_CONFLICT, reading->format->columns[TRACE_HASHES], NULL,
                "has %zu hashes; an input of %u tokens is %u blocks of %d", reading->rows.hash_count - before,
                (unsigned)row->input_tokens, (unsigned)blocks, TRACE_BLOCK_TOKENS);
  row->prefix_count = (uint32_t)(reading->rows.hash_count - before);
  return ERR_OK;
}

enum err trace_read_row(struct trace_reading *reading, const struct trace_cell cells[TRACE_COLUMNS], struct error *e)
{
  struct store_trace_request row = {.arrival_ns = 0};
  const size_t hashes_before = reading->rows.hash_count;
  const bool has_time = read_arrival(reading, &row, &cells[TRACE_ARRIVAL]);
  const bool has_input = read_tokens(reading, &row.input_tokens, &cells[TRACE_INPUT], TRACE_INPUT);
  const bool has_output = read_tokens(reading, &row.output_tokens, &cells[TRACE_OUTPUT], TRACE_OUTPUT);
  enum err result = has_input ? read_hashes(reading, &row, &cells[TRACE_HASHES], e) : ERR_OK;
  if (result != ERR_OK || !has_time || !has_input || !has_output)
    return result;
  if (row.input_tokens == 0 || row.output_tokens == 0) {
    reading->rows.left_out++;
    reading->rows.hash_count = hashes_before;
    return ERR_OK;
  }
  return trace_rows_add(&reading->rows, &row, e);
}
