/* The two clocks of the server: wall time for what is recorded, monotonic time for durations and deadlines.
   Reading them can not fail with these clock ids. */
#ifndef FITD_SERVER_CLOCK_H
#define FITD_SERVER_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_unix_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline int64_t clock_monotonic_us(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
