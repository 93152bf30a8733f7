/* Table-driven reading of JSON objects. Every fault is collected with its pointer; a faulty field leaves its value as it
   was, so that checks which look at several fields can still run. */
#include "api/read.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/json_memory.h"
#include "api/write.h"

#define READ_DEPTH_MAX 32
#define NEAREST_MAX 64 /* longer words have no neighbours */
#define WORDS_MAX 128  /* of one object's fields */

const char *read_excerpt(char to[READ_EXCERPT_SIZE], const char *text)
{
  size_t n = 0;
  while (n < 48 && text[n] != '\0')
    n++;
  if (text[n] != '\0')
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80)
      n--;
  memcpy(to, text, n);
  to[n] = '\0';
  if (text[n] != '\0')
    memcpy(to + n, "…", sizeof "…");
  for (; n > 0; n--)
    if ((unsigned char)to[n - 1] < 0x20 || to[n - 1] == 0x7F)
      to[n - 1] = '?';
  return to;
}

json_t *read_iterable(const json_t *value)
{
  json_t *iterable;
  memcpy(&iterable, &value, sizeof iterable);
  return iterable;
}

const char *read_type_name(const json_t *value)
{
  if (value == NULL)
    return "nothing";
  switch (json_typeof(value)) {
  case JSON_OBJECT: return "an object";
  case JSON_ARRAY: return "an array";
  case JSON_STRING: return "a string";
  case JSON_INTEGER: return "an integer";
  case JSON_REAL: return "a number";
  case JSON_TRUE: return "true";
  case JSON_FALSE: return "false";
  case JSON_NULL: return "null";
  }
  return "an unknown type";
}

void read_pointer(char *to, size_t size, const char *parent, const char *key)
{
  size_t n = 0;
  const char *escape;
  for (; *parent != '\0' && n + 1 < size; parent++)
    to[n++] = *parent;
  if (n + 1 < size)
    to[n++] = '/';
  for (; *key != '\0' && n + 1 < size; key++) {
    escape = *key == '~' ? "~0" : *key == '/' ? "~1" : NULL;
    if (escape == NULL) {
      to[n++] = *key;
    } else if (n + 2 < size) {
      to[n++] = escape[0];
      to[n++] = escape[1];
    }
  }
  to[n] = '\0';
}

void read_pointer_index(char *to, size_t size, const char *parent, size_t index)
{
  (void)snprintf(to, size, "%s/%zu", parent, index);
}

/* ---- Nearest words: optimal string alignment (swaps count once), without case ------------------------------------ */

static char lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
  const unsigned ab = a < b ? a : b;
  return ab < c ? ab : c;
}

static unsigned edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
  unsigned rows[3][NEAREST_MAX + 1];
  unsigned *before = rows[0], *above = rows[1], *row = rows[2], *spare;
  size_t i, j;
  for (j = 0; j <= b_len; j++)
    above[j] = (unsigned)j;
  memcpy(before, above, sizeof rows[0]);
  for (i = 1; i <= a_len; i++) {
    row[0] = (unsigned)i;
    for (j = 1; j <= b_len; j++) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1));
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]) &&
          before[j - 2] + 1 < row[j])
        row[j] = before[j - 2] + 1;
    }
    spare = before;
    before = above;
    above = row;
    row = spare;
  }
  return above[b_len];
}

/* One word begins with the other: "ttft" for "ttft_ms", "memory" for "memory_gib". */
static bool shares_beginning(const char *a, size_t a_len, const char *b, size_t b_len)
{
  const size_t shorter = a_len < b_len ? a_len : b_len;
  return shorter >= 3 && strncasecmp(a, b, shorter) == 0;
}

const char *read_nearest(const char *seen, const char *const *words)
{
  const size_t seen_len = strnlen(seen, NEAREST_MAX + 1);
  const unsigned tolerance = seen_len < 3 ? 0 : (unsigned)(seen_len + 2) / 4 + (seen_len > 4 ? 1 : 0);
  unsigned best_distance = UINT_MAX;
  const char *best = NULL;
  if (seen_len > NEAREST_MAX)
    return NULL;
  for (; *words != NULL; words++) {
    const size_t length = strnlen(*words, NEAREST_MAX + 1);
    unsigned distance;
    if (length > NEAREST_MAX)
      continue;
    distance = edit_distance(seen, seen_len, *words, length);
    if (distance > tolerance && !shares_beginning(seen, seen_len, *words, length))
      continue;
    if (distance < best_distance) {
      best_distance = distance;
      best = *words;
    }
  }
  return best;
}

bool read_is_name(const char *text)
{
  size_t i;
  for (i = 0; text[i] != '\0'; i++) {
    const bool is_mark = text[i] == '.' || text[i] == '_' || text[i] == '-';
    const bool is_plain = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
    if (i == 64 || !(is_plain || (is_mark && i > 0)))
      return false;
  }
  return i > 0;
}

/* ---- One value ------------------------------------------------------------------------------------------------------ */

static void wrong_type(const json_t *value, const char *pointer, const char *wanted, struct faults *faults)
{
  faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; %s is expected", read_type_name(value), wanted);
}

static bool has_bounds(const struct read_field *field)
{
  return field->min < 0.0 || field->min > 0.0 || field->max < 0.0 || field->max > 0.0;
}

static bool within_bounds(double x, const struct read_field *field, const char *pointer, struct faults *faults)
{
  if (!has_bounds(field) || (x >= field->min && x <= field->max))
    return true;
  if (field->max < 1e15)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "is %.15g; must be between %.15g and %.15g", x, field->min,
               field->max);
  else
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "is %.15g; must be at least %.15g", x, field->min);
  return false;
}

static void read_number(const json_t *value, const char *pointer, const struct read_field *field, struct faults *faults)
{
  const double x = json_number_value(value);
  double *to = field->to;
  if (!json_is_number(value))
    wrong_type(value, pointer, "a number", faults);
  else if (within_bounds(x, field, pointer, faults))
    *to = x;
}

/* Reads an integer within the bounds of the field and of its C type. */
static bool read_whole(const json_t *value, const char *pointer, const struct read_field *field, struct faults *faults,
                       json_int_t *x)
{
  if (!json_is_integer(value)) {
    if (json_is_real(value))
      faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %.15g; an integer is expected", json_real_value(value));
    else
      wrong_type(value, pointer, "an integer", faults);
    return false;
  }
  *x = json_integer_value(value);
  return within_bounds((double)*x, field, pointer, faults);
}

static void read_count(const json_t *value, const char *pointer, const struct read_field *field, struct faults *faults)
{
  unsigned *to = field->to;
  json_int_t x;
  if (!read_whole(value, pointer, field, faults, &x))
    return;
  if (x < 0 || x > (json_int_t)UINT_MAX)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "is %" JSON_INTEGER_FORMAT "; must be between 0 and %u", x,
               UINT_MAX);
  else
    *to = (unsigned)x;
}

static void read_integer(const json_t *value, const char *pointer, const struct read_field *field,
                         struct faults *faults)
{
  int64_t *to = field->to;
  json_int_t x;
  if (read_whole(value, pointer, field, faults, &x))
    *to = x;
}

/* U+202A … U+202E and U+2066 … U+2069 in UTF-8: they make what follows read in another order than it stands in. */
static bool turns_direction(const unsigned char *text)
{
  return text[0] == 0xE2 && ((text[1] == 0x80 && text[2] >= 0xAA && text[2] <= 0xAE) ||
                             (text[1] == 0x81 && text[2] >= 0xA6 && text[2] <= 0xA9));
}

bool read_has_control(const char *text, const char *allowed)
{
  for (; *text != '\0'; text++)
    if (((unsigned char)*text < 0x20 && strchr(allowed, *text) == NULL) || *text == 0x7F ||
        turns_direction((const unsigned char *)text))
      return true;
  return false;
}

bool read_is_blank(const char *text)
{
  return text[strspn(text, " \t\r\n")] == '\0';
}

static void read_text(const json_t *value, const char *pointer, const struct read_field *field, struct faults *faults)
{
  const char *text = json_string_value(value);
  const size_t length = json_string_length(value);
  if (text == NULL)
    wrong_type(value, pointer, "a string", faults);
  else if (length == 0)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "is empty; 1 to %zu bytes are expected", field->size - 1);
  else if (length >= field->size)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "has %zu bytes; at most %zu are allowed", length,
               field->size - 1);
  else if (read_has_control(text, ""))
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "contains control characters");
  else if (read_is_blank(text))
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "is blank");
  else
    memcpy(field->to, text, length + 1);
}

/* The name that was probably meant: lower case, other characters as '-'. */
static const char *suggest_name(char to[65], const char *text)
{
  size_t i;
  for (i = 0; i < 64 && text[i] != '\0'; i++) {
    const char c = lower(text[i]);
    to[i] = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ? c : '-';
  }
  to[i] = '\0';
  return read_is_name(to) ? to : NULL;
}

static void read_name(const json_t *value, const char *pointer, const struct read_field *field, struct faults *faults)
{
  const char *text = json_string_value(value);
  char excerpt[READ_EXCERPT_SIZE], suggestion[65];
  if (text == NULL)
    wrong_type(value, pointer, "a name (string)", faults);
  else if (!read_is_name(text) || strlen(text) >= field->size)
    faults_add(faults, FAULT_UNKNOWN_VALUE, pointer, suggest_name(suggestion, text),
               "\"%s\" is not a name: 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit",
               read_excerpt(excerpt, text));
  else
    memcpy(field->to, text, strlen(text) + 1);
}

/* "a, b or c", cut to the buffer. */
static void join_words(char *to, size_t size, const char *const *words)
{
  size_t i, n = 0;
  to[0] = '\0';
  for (i = 0; words[i] != NULL && n < size; i++) {
    const char *between = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
    const int wrote = snprintf(to + n, size - n, "%s%s", between, words[i]);
    n += wrote > 0 ? (size_t)wrote : 0;
  }
}

static void read_word(const json_t *value, const char *pointer, const struct read_field *field, struct faults *faults)
{
  const char *text = json_string_value(value);
  char excerpt[READ_EXCERPT_SIZE], list[200];
  int *to = field->to;
  int i;
  join_words(list, sizeof list, field->words);
  if (text == NULL) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; one of %s is expected", read_type_name(value), list);
    return;
  }
  for (i = 0; field->words[i] != NULL; i++) {
    if (strcmp(field->words[i], text) == 0) {
      *to = i;
      return;
    }
  }
  faults_add(faults, FAULT_UNKNOWN_VALUE, pointer, read_nearest(text, field->words),
             "\"%s\" is not known; one of %s is expected", read_excerpt(excerpt, text), list);
}

static void read_boolean(const json_t *value, const char *pointer, const struct read_field *field,
                         struct faults *faults)
{
  if (!json_is_boolean(value))
    wrong_type(value, pointer, "true or false", faults);
  else if (field->kind == READ_BOOL)
    *(bool *)field->to = json_is_true(value);
  else
    *(int *)field->to = json_is_true(value) ? 1 : 0;
}

void read_value(const json_t *value, const char *pointer, const struct read_field *field, struct faults *faults)
{
  if (json_is_null(value) && field->allows_null)
    return;
  switch (field->kind) {
  case READ_NUMBER: read_number(value, pointer, field, faults); break;
  case READ_COUNT: read_count(value, pointer, field, faults); break;
  case READ_INTEGER: read_integer(value, pointer, field, faults); break;
  case READ_BOOL:
  case READ_TRISTATE: read_boolean(value, pointer, field, faults); break;
  case READ_TEXT: read_text(value, pointer, field, faults); break;
  case READ_NAME: read_name(value, pointer, field, faults); break;
  case READ_WORD: read_word(value, pointer, field, faults); break;
  case READ_CALL: field->call(value, pointer, field->to, faults); break;
  case READ_IGNORE: break;
  }
}

/* ---- Objects -------------------------------------------------------------------------------------------------------- */

static const struct read_field *find_field(const struct read_field *fields, size_t count, const char *name)
{
  size_t i;
  for (i = 0; i < count; i++)
    if (strcmp(fields[i].name, name) == 0)
      return &fields[i];
  return NULL;
}

static void unknown_field(const char *key, const char *pointer, const struct read_field *fields, size_t count,
                          struct faults *faults)
{
  const char *words[WORDS_MAX + 1];
  char at[160], excerpt[READ_EXCERPT_SIZE];
  size_t i;
  for (i = 0; i < count && i < WORDS_MAX; i++)
    words[i] = fields[i].name;
  words[i] = NULL;
  read_pointer(at, sizeof at, pointer, key);
  faults_add(faults, FAULT_UNKNOWN_FIELD, at, read_nearest(key, words), "the field \"%s\" is not known here",
             read_excerpt(excerpt, key));
}

/* $schema and description are the client's own words: any text. */
static void check_remark(const json_t *value, const char *pointer, const char *key, struct faults *faults)
{
  char at[160];
  if (json_is_string(value) || json_is_null(value))
    return;
  read_pointer(at, sizeof at, pointer, key);
  wrong_type(value, at, "a string", faults);
}

bool read_object(const json_t *value, const char *pointer, const struct read_field *fields, size_t count,
                 struct faults *faults)
{
  json_t *object, *member;
  char at[160];
  const char *key;
  size_t i;
  if (!json_is_object(value)) {
    wrong_type(value, pointer, "an object", faults);
    return false;
  }
  object = read_iterable(value);
  json_object_foreach(object, key, member)
  {
    if (find_field(fields, count, key) != NULL)
      continue;
    if (strcmp(key, "$schema") == 0 || strcmp(key, "description") == 0)
      check_remark(member, pointer, key, faults);
    else
      unknown_field(key, pointer, fields, count, faults);
  }
  for (i = 0; i < count; i++) {
    member = json_object_get(value, fields[i].name);
    read_pointer(at, sizeof at, pointer, fields[i].name);
    if (member != NULL && !(json_is_null(member) && fields[i].allows_null))
      read_value(member, at, &fields[i], faults);
    else if (fields[i].is_required)
      faults_add(faults, FAULT_MISSING, at, NULL, "is required");
  }
  return true;
}

/* ---- Bodies --------------------------------------------------------------------------------------------------------- */

/* Walks over the text once; *line and *column tell where nesting goes beyond the limit. Strings are skipped, syntax is
   the parser's business. */
static bool is_too_deep(const char *text, size_t length, int *line, int *column)
{
  int depth = 0;
  bool in_string = false;
  size_t i;
  *line = 1;
  *column = 0;
  for (i = 0; i < length; i++) {
    const char c = text[i];
    if (((unsigned char)c & 0xC0) != 0x80)
      (*column)++;
    if (c == '\n') {
      (*line)++;
      *column = 0;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (in_string && c == '\\') {
      i++; /* what is escaped can not end the string */
      (*column)++;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > READ_DEPTH_MAX)
        return true;
    } else if (!in_string && (c == ']' || c == '}')) {
      depth--;
    }
  }
  return false;
}

static bool is_blank(const char *text, size_t length)
{
  size_t i;
  for (i = 0; i < length; i++)
    if (strchr(" \t\r\n", text[i]) == NULL || text[i] == '\0')
      return false;
  return true;
}

enum err read_json(json_t **out, const void *body, size_t body_len, int *line, int *column, struct error *e)
{
  json_error_t problem;
  bool is_out;
  *out = NULL;
  *line = 1;
  *column = 1;
  if (body == NULL || is_blank(body, body_len))
    return error_set(e, ERR_INVALID, "", "the body is empty; a JSON document is expected");
  if (is_too_deep(body, body_len, line, column))
    return error_set(e, ERR_INVALID, "", "line %d, column %d: nested deeper than %d levels", *line, *column,
                     READ_DEPTH_MAX);
  *out = json_memory_loadb(&is_out, body, body_len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
  if (is_out)
    return error_set(e, ERR_NOMEM, "", "not enough memory to parse the body");
  if (*out != NULL)
    return ERR_OK;
  *line = problem.line > 0 ? problem.line : 1;
  *column = problem.column > 0 ? problem.column : 1;
  return error_set(e, ERR_INVALID, "", "line %d, column %d: %s", *line, *column, problem.text);
}
