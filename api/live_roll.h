/* Scrapes of one GPU over a step of time as one record, which adds up to longer steps. Private to api/. */
#ifndef FITD_API_LIVE_ROLL_H
#define FITD_API_LIVE_ROLL_H

#include "api/observation.h"

/* What the members mean depends on the kind: GAUGE and LAST as they say (sum / count is the mean); COUNTER: sum is the
   increase; BITS: sum counts scrapes with a harmful flag, max has every flag seen. */
struct roll_figure {
  unsigned count; /* of scrapes that knew it; 0 = unknown */
  double sum, min, max;
};
struct roll {
  int64_t time_ms; /* start of the step */
  unsigned scrape_count;
  struct roll_figure figures[GPU_QUANTITIES];
};

void roll_init(struct roll *roll, int64_t time_ms);
/* Adds one scrape. previous: the scrape before of the same GPU, for what counters grew; NULL = there is none. */
void roll_add(struct roll *roll, const double now[GPU_QUANTITIES], const double *previous);
void roll_merge(struct roll *into, const struct roll *more);
/* Of a gauge the mean, of a counter the increase, of flags all that were seen, of a number the largest; NaN = unknown. */
double roll_value(const struct roll *roll, enum gpu_quantity quantity);
double roll_min(const struct roll *roll, enum gpu_quantity quantity);
double roll_max(const struct roll *roll, enum gpu_quantity quantity);

/* As stored: a version, the scrapes, and each known quantity with its position, so that records stay readable when
   quantities are appended. Returns the bytes used. */
#define ROLL_BYTES_MAX (8 + GPU_QUANTITIES * 28)
size_t roll_encode(unsigned char to[ROLL_BYTES_MAX], const struct roll *roll);
bool roll_decode(struct roll *roll, const void *bytes, size_t length);

#endif
