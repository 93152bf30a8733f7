/* Cells of a trace: times in decimal or as dates, and token counts. Decimal times are converted digit by digit: a double
   has no room for the nanoseconds of a Unix time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/read.h"
#include "api/trace_int.h"

#define TIME_MAX_NS INT64_C(9000000000000000000) /* 285 years */
#define NS_PER_MS 1000000
#define DATE_DIGITS 19 /* YYYY-MM-DD hh:mm:ss */

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static const char *skip_blanks(const char *text)
{
  return text + strspn(text, " \t");
}

static bool is_end(const char *at)
{
  return *skip_blanks(at) == '\0';
}

const char *trace_cell_seen(char to[80], const struct trace_cell *cell)
{
  char excerpt[READ_EXCERPT_SIZE];
  if (cell->text == NULL)
    (void)snprintf(to, 80, "%s", cell->value != NULL ? read_type_name(cell->value) : "missing");
  else if (is_end(cell->text))
    (void)snprintf(to, 80, "empty");
  else if (cell->is_number)
    (void)snprintf(to, 80, "%s", cell->text);
  else
    (void)snprintf(to, 80, "\"%s\"", read_excerpt(excerpt, cell->text));
  return to;
}

/* ---- Times ---- */

/* value × 10 + digit, or no change and false beyond TIME_MAX_NS. */
static bool push_digit(int64_t *value, int digit)
{
  if (*value > (TIME_MAX_NS - digit) / 10)
    return false;
  *value = *value * 10 + digit;
  return true;
}

/* The digits after the point as a number of `decimals` digits, the next digit rounding. */
static bool take_fraction(int64_t *value, const char **at, int decimals)
{
  bool ok = true;
  for (int i = 0; i < decimals; i++)
    ok = push_digit(value, is_digit(**at) ? *(*at)++ - '0' : 0) && ok;
  if (ok && **at >= '5' && **at <= '9')
    ++*value;
  while (is_digit(**at))
    (*at)++;
  return ok;
}

/* Digits with a point and no sign or exponent: exact. */
static bool plain_time(int64_t *ns, const char *text, int decimals, bool *is_too_large)
{
  const char *at = text;
  *ns = 0;
  for (; is_digit(*at); at++)
    *is_too_large |= !push_digit(ns, *at - '0');
  if (*at == '.')
    at++;
  *is_too_large |= !take_fraction(ns, &at, decimals);
  return is_end(at) && (is_digit(text[0]) || (text[0] == '.' && is_digit(text[1])));
}

static bool any_time(double *ns, const char *text, int decimals)
{
  char *end = NULL;
  if (text[strspn(text, "0123456789.eE+-")] != '\0' && !is_end(text + strspn(text, "0123456789.eE+-")))
    return false; /* strtod also reads nan, inf and hexadecimal */
  *ns = strtod(text, &end) * pow(10.0, decimals);
  return end != text && is_end(end);
}

static enum trace_time number_time(int64_t *ns, const char *text, int decimals, const char *seen, char why[160])
{
  bool is_too_large = false;
  double value = 0.0;
  if (plain_time(ns, text, decimals, &is_too_large) && !is_too_large)
    return TRACE_TIME_NUMBER;
  if (!any_time(&value, text, decimals)) {
    (void)snprintf(why, 160, "is %s; a number or a date and time (2026-11-30T12:00:00.123Z) is expected", seen);
  } else if (value < 0.0) {
    (void)snprintf(why, 160, "is %s; a time must not be negative", seen);
  } else if (!(value <= (double)TIME_MAX_NS)) {
    (void)snprintf(why, 160, "is %s; a time of at most 9e9 s is expected", seen);
  } else {
    *ns = llround(value);
    return TRACE_TIME_NUMBER;
  }
  return TRACE_TIME_NONE;
}

/* Nanoseconds below the millisecond, which write_time_parse leaves out. */
static int64_t below_ms(const char *fraction)
{
  int64_t ns = 0;
  if (*fraction != '.')
    return 0;
  fraction++;
  return take_fraction(&ns, &fraction, 9) ? ns % NS_PER_MS : 0;
}

static enum trace_time date_time(int64_t *ns, const char *text, const char *seen, char why[160])
{
  char date[64];
  size_t length = strlen(text);
  const char *zone;
  int64_t ms = 0;
  bool has_zone = false;
  while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
    length--;
  if (length < DATE_DIGITS || length > sizeof date - 2)
    goto refused;
  (void)snprintf(date, sizeof date, "%.*s", (int)length, text);
  zone = date + DATE_DIGITS;
  zone += *zone == '.' ? 1 + strspn(zone + 1, "0123456789") : 0;
  has_zone = *zone != '\0';
  if (!has_zone)
    (void)snprintf(date + length, sizeof date - length, "Z");
  if (!write_time_parse(&ms, date) || ms < 0 || ms > TIME_MAX_NS / NS_PER_MS - 1)
    goto refused;
  *ns = ms * NS_PER_MS + below_ms(date + DATE_DIGITS);
  return has_zone ? TRACE_TIME_DATE : TRACE_TIME_DATE_WITHOUT_ZONE;
refused:
  (void)snprintf(why, 160, "is %s; a date and time like 2026-11-30T12:00:00.123Z, from 1970 on, is expected", seen);
  return TRACE_TIME_NONE;
}

enum trace_time trace_cell_time(int64_t *ns, const struct trace_cell *cell, int decimals, char why[160])
{
  const char *text = cell->text != NULL ? skip_blanks(cell->text) : "";
  char seen[80];
  (void)trace_cell_seen(seen, cell);
  /* 2026-11: a dash after four digits; 1e-05 has none there */
  if (strspn(text, "0123456789") == 4 && text[4] == '-')
    return date_time(ns, text, seen, why);
  return number_time(ns, text, decimals, seen, why);
}

/* ---- Tokens ---- */

bool trace_cell_tokens(uint32_t *tokens, const struct trace_cell *cell, uint32_t min)
{
  const char *at = cell->text != NULL ? skip_blanks(cell->text) : "";
  uint32_t value = 0;
  if (!is_digit(*at) || (cell->value != NULL && !json_is_integer(cell->value)))
    return false;
  for (; is_digit(*at) && value <= TRACE_TOKENS_MAX; at++)
    value = value * 10 + (uint32_t)(*at - '0');
  *tokens = value;
  return is_end(at) && value >= min && value <= TRACE_TOKENS_MAX;
}
