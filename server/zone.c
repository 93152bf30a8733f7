/* Zone files: transitions in a sorted list, and behind the last of them a rule in the form of POSIX's TZ. */
#include "server/zone.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY "/usr/share/zoneinfo/"
#define FILE_MAX 65536
#define HEADER 44
#define DAY_S 86400
#define HOUR_S 3600

/* "M3.5.0/2": the week-th (5: last) weekday of a month, and when on that day. */
struct turn {
  int month, week, weekday, second;
};

/* What holds after the last transition. */
struct rule {
  bool has_summer;
  int winter_s, summer_s; /* offsets */
  struct turn begin, end; /* of summer, in the local time that ends there */
};

struct zone {
  int64_t *times; /* sorted */
  int *offsets;   /* from the transition on */
  size_t count;
  int first_s; /* before all of them */
  struct rule rule;
};

/* ---- Calendar ------------------------------------------------------------------------------------------------------- */

static bool is_leap(int64_t year)
{
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days from 1970-01-01 to January 1st of a year. */
static int64_t days_before(int64_t year)
{
  const int64_t y = year - 1;
  return y * 365 + y / 4 - y / 100 + y / 400 - 719162;
}

static int64_t year_of(int64_t unix_s)
{
  const int64_t days = unix_s / DAY_S;
  int64_t year = 1970 + days / 366;
  while (days_before(year + 1) <= days)
    year++;
  return year;
}

static int64_t turn_s(const struct turn *turn, int64_t year)
{
  static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const int length = lengths[turn->month - 1] + (turn->month == 2 && is_leap(year) ? 1 : 0);
  int64_t first = days_before(year), day;
  for (int month = 1; month < turn->month; month++)
    first += lengths[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
  day = (turn->weekday - (first + 4) % 7 + 7) % 7 + (turn->week - 1) * 7; /* 1970-01-01 was a Thursday */
  if (day >= length)
    day -= 7;
  return (first + day) * DAY_S + turn->second;
}

static int rule_offset_s(const struct rule *rule, int64_t unix_s)
{
  int64_t year, begin, end;
  bool is_summer;
  if (!rule->has_summer)
    return rule->winter_s;
  year = year_of(unix_s + rule->winter_s);
  begin = turn_s(&rule->begin, year) - rule->winter_s;
  end = turn_s(&rule->end, year) - rule->summer_s;
  is_summer = begin < end ? unix_s >= begin && unix_s < end : unix_s >= begin || unix_s < end; /* the south */
  return is_summer ? rule->summer_s : rule->winter_s;
}

/* ---- "CET-1CEST,M3.5.0,M10.5.0/3" ----------------------------------------------------------------------------------- */

static bool take(const char **at, char wanted)
{
  if (**at != wanted)
    return false;
  (*at)++;
  return true;
}

static bool take_number(const char **at, int *to, int min, int max)
{
  int value = 0, digits = 0;
  for (; **at >= '0' && **at <= '9' && digits < 4; (*at)++, digits++)
    value = value * 10 + (**at - '0');
  *to = value;
  return digits > 0 && value >= min && value <= max;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(const char **at, int *seconds)
{
  const bool is_negative = **at == '-';
  int hours, minutes = 0, rest = 0;
  if (**at == '-' || **at == '+')
    (*at)++;
  if (!take_number(at, &hours, 0, 167))
    return false;
  if (take(at, ':') && !take_number(at, &minutes, 0, 59))
    return false;
  if (take(at, ':') && !take_number(at, &rest, 0, 59))
    return false;
  *seconds = (hours * HOUR_S + minutes * 60 + rest) * (is_negative ? -1 : 1);
  return true;
}

/* "CET" or "<+03>". */
static bool take_abbreviation(const char **at)
{
  const char *const from = *at;
  if (take(at, '<')) {
    *at += strcspn(*at, ">");
    return take(at, '>');
  }
  while ((**at >= 'a' && **at <= 'z') || (**at >= 'A' && **at <= 'Z'))
    (*at)++;
  return *at - from >= 3;
}

static bool take_turn(const char **at, struct turn *to)
{
  to->second = 2 * HOUR_S;
  return take(at, ',') && take(at, 'M') && take_number(at, &to->month, 1, 12) && take(at, '.') &&
         take_number(at, &to->week, 1, 5) && take(at, '.') && take_number(at, &to->weekday, 0, 6) &&
         (!take(at, '/') || take_time(at, &to->second));
}

static bool parse_rule(struct rule *to, const char *text)
{
  int west_s;
  *to = (struct rule){.has_summer = false};
  if (!take_abbreviation(&text) || !take_time(&text, &west_s))
    return false;
  to->winter_s = -west_s; /* POSIX counts to the west */
  if (*text == '\0')
    return true;
  to->has_summer = true;
  to->summer_s = to->winter_s + HOUR_S;
  if (!take_abbreviation(&text))
    return false;
  if (*text != ',') {
    if (!take_time(&text, &west_s))
      return false;
    to->summer_s = -west_s;
  }
  return take_turn(&text, &to->begin) && take_turn(&text, &to->end) && *text == '\0';
}

/* ---- The file ------------------------------------------------------------------------------------------------------- */

static uint32_t big_endian(const unsigned char *at)
{
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int64_t big_endian_64(const unsigned char *at)
{
  return (int64_t)((uint64_t)big_endian(at) << 32 | big_endian(at + 4));
}

/* One of the two blocks: its counts, and where its parts lie. */
struct block {
  size_t times, types, size; /* transitions, kinds of local time, bytes with the header */
  const unsigned char *at;   /* behind the header */
};

static bool read_block(struct block *to, const unsigned char *bytes, size_t count, size_t time_bytes)
{
  if (count < HEADER || memcmp(bytes, "TZif", 4) != 0 || bytes[4] < '2')
    return false;
  for (size_t i = 20; i < HEADER; i += 4)
    if (big_endian(bytes + i) > FILE_MAX)
      return false;
  to->times = big_endian(bytes + 32);
  to->types = big_endian(bytes + 36);
  to->at = bytes + HEADER;
  to->size = HEADER + to->times * (time_bytes + 1) + to->types * 6 + big_endian(bytes + 40) +
             big_endian(bytes + 28) * (time_bytes + 4) + big_endian(bytes + 24) + big_endian(bytes + 20);
  return to->size <= count && to->types > 0;
}

static bool read_transitions(struct zone *zone, const struct block *block)
{
  const unsigned char *kinds = block->at + block->times * 8, *types = kinds + block->times;
  zone->first_s = (int32_t)big_endian(types);
  for (size_t i = 0; i < block->times; i++) {
    if (kinds[i] >= block->types)
      return false;
    zone->times[i] = big_endian_64(block->at + i * 8);
    zone->offsets[i] = (int32_t)big_endian(types + (size_t)kinds[i] * 6);
    if (i > 0 && zone->times[i] <= zone->times[i - 1])
      return false;
  }
  zone->count = block->times;
  return true;
}

/* "\n", the rule, "\n"; an empty one says that the last offset stays. */
static bool read_footer(struct zone *zone, const unsigned char *bytes, size_t count)
{
  char text[128];
  if (count < 2 || count > sizeof text || bytes[0] != '\n' || bytes[count - 1] != '\n')
    return false;
  memcpy(text, bytes + 1, count - 2);
  text[count - 2] = '\0';
  zone->rule = (struct rule){.winter_s = zone->count > 0 ? zone->offsets[zone->count - 1] : zone->first_s};
  return text[0] == '\0' || parse_rule(&zone->rule, text);
}

enum err zone_parse(struct zone **out, const unsigned char *bytes, size_t count, struct error *e)
{
  struct block old, block;
  struct zone *zone = NULL;
  *out = NULL;
  if (!read_block(&old, bytes, count, 4) || !read_block(&block, bytes + old.size, count - old.size, 8))
    return error_set(e, ERR_INVALID, "", "is no zone file of version 2 or later");
  zone = calloc(1, sizeof *zone);
  if (zone != NULL) {
    zone->times = calloc(block.times + 1, sizeof *zone->times);
    zone->offsets = calloc(block.times + 1, sizeof *zone->offsets);
  }
  if (zone == NULL || zone->times == NULL || zone->offsets == NULL) {
    zone_close(zone);
    return error_set(e, ERR_NOMEM, "", "not enough memory for a time zone");
  }
  if (!read_transitions(zone, &block) ||
      !read_footer(zone, bytes + old.size + block.size, count - old.size - block.size)) {
    zone_close(zone);
    return error_set(e, ERR_INVALID, "", "is a damaged zone file");
  }
  *out = zone;
  return ERR_OK;
}

void zone_close(struct zone *zone)
{
  if (zone == NULL)
    return;
  free(zone->times);
  free(zone->offsets);
  free(zone);
}

int zone_offset_s(const struct zone *zone, int64_t unix_s)
{
  size_t low = 0, high = zone->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (zone->times[middle] <= unix_s)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == zone->count)
    return rule_offset_s(&zone->rule, unix_s);
  return low == 0 ? zone->first_s : zone->offsets[low - 1];
}

/* Names of zones; nothing that leads out of the directory. */
static bool is_name(const char *name)
{
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
  return name[0] != '\0' && name[0] != '/' && name[strspn(name, letters)] == '\0';
}

enum err zone_open(struct zone **out, const char *name, struct error *e)
{
  unsigned char bytes[FILE_MAX];
  char path[256];
  FILE *file;
  size_t count;
  enum err rc;
  *out = NULL;
  if (strcmp(name, "UTC") == 0) {
    *out = calloc(1, sizeof **out); /* no transition, offset 0 */
    return *out != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "", "not enough memory for a time zone");
  }
  if (!is_name(name) || snprintf(path, sizeof path, DIRECTORY "%s", name) >= (int)sizeof path)
    return error_set(e, ERR_INVALID, "", "time_zone \"%.64s\" is no name such as Europe/Berlin or UTC", name);
  file = fopen(path, "re");
  if (file == NULL)
    return error_set(e, ERR_INVALID, "", "time_zone %s: %s: %s", name, path, strerror(errno));
  count = fread(bytes, 1, sizeof bytes, file);
  (void)fclose(file);
  rc = zone_parse(out, bytes, count, e);
  return rc == ERR_INVALID ? error_set(e, rc, "", "time_zone %s: %s is no zone file", name, path) : rc;
}
