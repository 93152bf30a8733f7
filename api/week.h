/* ISO 8601 weeks as text ("2026-W48"): they begin on Monday, and belong to the year that their Thursday lies in.
   Private to api/. */
#ifndef FITD_API_WEEK_H
#define FITD_API_WEEK_H

#include <stdbool.h>
#include <stdint.h>

#define WEEK_SIZE 9

/* The week of a local time (Unix time plus the offset of the time zone). */
void week_of(char to[WEEK_SIZE], int64_t local_ms);
/* 0 = Monday … 6, and the hour of a local time. */
int week_day(int64_t local_ms);
int week_hour(int64_t local_ms);
/* A week that exists: W53 only in years that have it. */
bool week_is_valid(const char *text);

#endif
