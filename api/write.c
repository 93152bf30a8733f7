/* Values, digests, ids and times as the wire wants them. What JSON can not say (NaN, infinities) becomes null here, on
   purpose, and nowhere else. */
#include "api/write.h"
#include "api/json_memory.h"

#include <math.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS_PER_S 1000
#define S_PER_DAY 86400

json_t *write_number(double value)
{
  const double exact_below = 9007199254740992.0; /* 2^53: every whole double below is an exact integer */
  if (!isfinite(value))
    return json_null();
  if (fabs(value) < exact_below) {
    const json_int_t whole = (json_int_t)value;
    const double rest = value - (double)whole;
    if (!(rest < 0.0) && !(rest > 0.0))
      return json_integer(whole);
  }
  return json_real(value);
}

/* Length of the valid UTF-8 sequence at `text`, 0 when there is none (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *text)
{
  static const struct {
    unsigned char first_min, first_max, second_min, second_max;
    size_t length;
  } forms[] = {{0x00, 0x7F, 0x00, 0xFF, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
               {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
               {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
  size_t form, i;
  for (form = 0; form < sizeof forms / sizeof forms[0]; form++)
    if (text[0] >= forms[form].first_min && text[0] <= forms[form].first_max)
      break;
  if (form == sizeof forms / sizeof forms[0])
    return 0;
  if (text[1] < forms[form].second_min || text[1] > forms[form].second_max)
    return 0;
  for (i = 2; i < forms[form].length; i++)
    if ((text[i] & 0xC0) != 0x80)
      return 0;
  return forms[form].length;
}

bool write_is_utf8(const char *text)
{
  const unsigned char *at = (const unsigned char *)text;
  while (*at != '\0') {
    const size_t length = utf8_length(at);
    if (length == 0)
      return false;
    at += length;
  }
  return true;
}

json_t *write_text(const char *text)
{
  json_t *value;
  char *copy;
  size_t i = 0;
  if (text == NULL)
    return json_null();
  value = json_string(text);
  if (value != NULL)
    return value;
  /* A sentence of fixed size may have been cut inside a character: show what is whole. */
  copy = strdup(text);
  if (copy == NULL)
    return NULL;
  while (copy[i] != '\0') {
    const size_t length = utf8_length((const unsigned char *)copy + i);
    if (length == 0)
      copy[i++] = '?';
    else
      i += length;
  }
  value = json_string(copy);
  free(copy);
  return value;
}

char *write_canonical(const json_t *value)
{
  return json_memory_dumps(value, WRITE_FLAGS | JSON_SORT_KEYS | JSON_ENCODE_ANY);
}

void write_digest(char to[WRITE_DIGEST_SIZE], const void *bytes, size_t count)
{
  static const char prefix[] = "sha256:";
  struct sha256_ctx context;
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_init(&context);
  sha256_update(&context, count, bytes);
  sha256_digest(&context, sizeof digest, digest);
  memcpy(to, prefix, sizeof prefix - 1);
  write_hex(to + sizeof prefix - 1, digest, sizeof digest);
}

void write_hex(char *to, const unsigned char *bytes, size_t count)
{
  static const char digits[] = "0123456789abcdef";
  size_t i;
  for (i = 0; i < count; i++) {
    to[2 * i] = digits[bytes[i] >> 4];
    to[2 * i + 1] = digits[bytes[i] & 15];
  }
  to[2 * count] = '\0';
}

void write_uuid7(char to[WRITE_UUID_SIZE], int64_t unix_ms, unsigned sequence, const unsigned char random[8])
{
  const uint64_t ms = (uint64_t)unix_ms;
  unsigned char id[16];
  char hex[33];
  size_t i;
  for (i = 0; i < 6; i++)
    id[i] = (unsigned char)(ms >> (8 * (5 - i)) & 0xFF);
  id[6] = (unsigned char)(0x70 | (sequence >> 8 & 0x0F)); /* version 7 */
  id[7] = (unsigned char)(sequence & 0xFF);
  memcpy(id + 8, random, 8);
  id[8] = (unsigned char)((id[8] & 0x3F) | 0x80); /* variant 10 */
  write_hex(hex, id, sizeof id);
  (void)snprintf(to, WRITE_UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

void write_time(char to[WRITE_TIME_SIZE], int64_t unix_ms)
{
  int64_t ms = unix_ms % MS_PER_S;
  time_t seconds;
  struct tm utc;
  if (ms < 0)
    ms += MS_PER_S;
  seconds = (time_t)((unix_ms - ms) / MS_PER_S);
  if (gmtime_r(&seconds, &utc) == NULL || utc.tm_year < -1900 || utc.tm_year > 9999 - 1900) {
    (void)snprintf(to, WRITE_TIME_SIZE, "9999-12-31T23:59:59.999Z"); /* beyond what RFC 3339 can say */
    return;
  }
  /* The remainders tell the compiler that the fields have the width they have. */
  (void)snprintf(to, WRITE_TIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (utc.tm_year + 1900) % 10000,
                 (utc.tm_mon + 1) % 100, utc.tm_mday % 100, utc.tm_hour % 100, utc.tm_min % 100, utc.tm_sec % 100,
                 (int)ms % 1000);
}

/* Takes exactly `digits` decimal digits from *at. */
static bool take_digits(const char **at, int digits, int *value)
{
  *value = 0;
  for (; digits > 0; digits--, (*at)++) {
    if (**at < '0' || **at > '9')
      return false;
    *value = *value * 10 + (**at - '0');
  }
  return true;
}

static bool take_char(const char **at, char wanted)
{
  if (**at != wanted)
    return false;
  (*at)++;
  return true;
}

/* Days from 1970-01-01 in the proleptic Gregorian calendar, counted in eras of 400 years that start in March. */
static int64_t days_from_civil(int year, int month, int day)
{
  const int64_t y = month <= 2 ? year - 1 : year;
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t year_of_era = y - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static int days_in_month(int year, int month)
{
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month == 2 && is_leap ? 29 : days[month - 1];
}

static bool take_date(const char **at, int64_t *days)
{
  int year, month, day;
  if (!take_digits(at, 4, &year) || !take_char(at, '-') || !take_digits(at, 2, &month) || !take_char(at, '-') ||
      !take_digits(at, 2, &day))
    return false;
  if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
    return false;
  *days = days_from_civil(year, month, day);
  return true;
}

static bool take_clock(const char **at, int64_t *ms)
{
  int hour, minute, second, scale = 100, fraction = 0;
  if (!take_digits(at, 2, &hour) || !take_char(at, ':') || !take_digits(at, 2, &minute) || !take_char(at, ':') ||
      !take_digits(at, 2, &second) || hour > 23 || minute > 59 || second > 60)
    return false;
  if (**at == '.') {
    (*at)++;
    if (**at < '0' || **at > '9')
      return false;
    for (; **at >= '0' && **at <= '9'; (*at)++, scale /= 10)
      fraction += (**at - '0') * scale; /* digits below the millisecond count 0 */
  }
  *ms = (int64_t)((hour * 60 + minute) * 60 + second) * MS_PER_S + fraction;
  return true;
}

static bool take_offset(const char **at, int64_t *ms)
{
  const char sign = **at;
  int hours, minutes;
  *ms = 0;
  if (sign == 'Z' || sign == 'z') {
    (*at)++;
    return true;
  }
  if (sign != '+' && sign != '-' && sign != ' ') /* an unescaped + of a query string arrives as a space */
    return false;
  (*at)++;
  if (!take_digits(at, 2, &hours) || !take_char(at, ':') || !take_digits(at, 2, &minutes) || hours > 23 || minutes > 59)
    return false;
  *ms = (int64_t)(hours * 60 + minutes) * 60 * MS_PER_S * (sign == '-' ? -1 : 1);
  return true;
}

bool write_time_parse(int64_t *unix_ms, const char *text)
{
  const char *at = text;
  int64_t days, clock_ms = 0, offset_ms = 0;
  if (!take_date(&at, &days))
    return false;
  if (*at != '\0') {
    if (*at != 'T' && *at != 't' && *at != ' ')
      return false;
    at++;
    if (!take_clock(&at, &clock_ms) || !take_offset(&at, &offset_ms) || *at != '\0')
      return false;
  }
  *unix_ms = days * S_PER_DAY * MS_PER_S + clock_ms - offset_ms;
  return true;
}
