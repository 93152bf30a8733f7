/* Weeks from days since 1970-01-01, which was a Thursday. */
#include "api/week.h"

#include <stdio.h>
#include <string.h>

#include "api/write.h"

#define DAY_MS INT64_C(86400000)
#define HOUR_MS INT64_C(3600000)

static int64_t day_of(int64_t local_ms)
{
  return local_ms / DAY_MS - (local_ms % DAY_MS < 0 ? 1 : 0);
}

int week_day(int64_t local_ms)
{
  const int64_t thursday = 3;
  return (int)(((day_of(local_ms) + thursday) % 7 + 7) % 7);
}

int week_hour(int64_t local_ms)
{
  return (int)((local_ms - day_of(local_ms) * DAY_MS) / HOUR_MS);
}

void week_of(char to[WEEK_SIZE], int64_t local_ms)
{
  const int64_t thursday_ms = (day_of(local_ms) - week_day(local_ms) + 3) * DAY_MS;
  char date[WRITE_TIME_SIZE], first[16];
  int64_t first_ms = 0;
  unsigned week;
  write_time(date, thursday_ms);
  (void)snprintf(first, sizeof first, "%.4s-01-01", date);
  if (!write_time_parse(&first_ms, first))
    first_ms = thursday_ms; /* not reached: the text is a date */
  week = (unsigned)((thursday_ms - first_ms) / DAY_MS / 7 + 1);
  (void)snprintf(to, WEEK_SIZE, "%.4s-W%u%u", date, week / 10 % 10, week % 10);
}

bool week_is_valid(const char *text)
{
  char date[16], week[WEEK_SIZE];
  int64_t january_ms;
  int number;
  if (strlen(text) != WEEK_SIZE - 1 || text[4] != '-' || text[5] != 'W')
    return false;
  for (int i = 0; i < WEEK_SIZE - 1; i++)
    if (i != 4 && i != 5 && (text[i] < '0' || text[i] > '9'))
      return false;
  number = (text[6] - '0') * 10 + text[7] - '0';
  (void)snprintf(date, sizeof date, "%.4s-01-04", text); /* always in the first week */
  if (number == 0 || !write_time_parse(&january_ms, date))
    return false;
  week_of(week, january_ms + (number - 1) * 7 * DAY_MS);
  return strcmp(week, text) == 0;
}
