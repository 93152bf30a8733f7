/* When targets are due. Pure, so that hours of it are tested in no time. */
#include "server/scrape.h"

int64_t scrape_first_due(const char *name, int64_t interval_us, int64_t now_us)
{
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (; *name != '\0'; name++)
    hash = (hash ^ (unsigned char)*name) * 1099511628211u;
  return now_us + (int64_t)((hash ^ hash >> 32) % (uint64_t)interval_us);
}

int64_t scrape_next_due(int64_t due_us, int64_t interval_us, unsigned failures, int64_t now_us)
{
  const int64_t most_us = SCRAPE_BACK_OFF_MAX_S * INT64_C(1000000);
  int64_t steps = 1, next_us;
  for (unsigned i = 1; i < failures && steps * 2 * interval_us <= most_us; i++)
    steps *= 2;
  next_us = due_us + steps * interval_us;
  if (next_us <= now_us) /* what was missed is left out */
    next_us += ((now_us - next_us) / interval_us + 1) * interval_us;
  return next_us;
}
