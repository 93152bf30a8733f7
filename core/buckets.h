/* Histograms as engines publish them: cumulative counts below upper bounds, the last of which is +Inf. What a quantile can
   be known to is the bucket it falls into, so that is what is answered, with both its bounds.
   Ownership: plain values. Errors: none; what can not be known is NaN. */
#ifndef FITD_CORE_BUCKETS_H
#define FITD_CORE_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>

#define BUCKETS_MAX 64

struct buckets {
  size_t count;                   /* of buckets; 0 = no histogram */
  double upper[BUCKETS_MAX];      /* rising */
  double cumulative[BUCKETS_MAX]; /* observations at most upper */
  double sum;                     /* of all observed values; NaN = not known */
};
void buckets_init(struct buckets *buckets);

/* Adds observations of one series below one bound: series of several engines come one after the other. False when there are
   too many bounds, or a value is no count. */
bool buckets_add(struct buckets *buckets, double upper, double cumulative);

/* Observations in all. */
double buckets_total(const struct buckets *buckets);

/* What was observed between two readings of the same histogram. Where a count fell, or the bounds are others, the engine
   began anew: all of `now` is new then, and *has_reset is set. */
void buckets_increase(struct buckets *out, const struct buckets *before, const struct buckets *now, bool *has_reset);

/* Adds the observations of another histogram; only bounds that both have are kept, since nothing is known between others.
   False, changing nothing, when there is none. An empty one takes the other's. */
bool buckets_merge(struct buckets *into, const struct buckets *more);

struct bucket_bounds {
  double lower,
      upper; /* the quantile lies above lower and at most at upper, which may be infinite; NaN: nothing observed */
};
struct bucket_bounds buckets_quantile(const struct buckets *buckets, double quantile);

/* sum / total; NaN when either is not known or nothing was observed. */
double buckets_mean(const struct buckets *buckets);

/* Share of the observations at most `value`: at least .lower, at most .upper. */
struct bucket_bounds buckets_share(const struct buckets *buckets, double value);

#endif
