/* Counts of durations in log-linear bins: 128 a factor of two, so that a percentile is right to 0.4 % whatever its size.
   Fixed size, no allocation; histograms add up. Value struct; no shared state. */
#ifndef FITD_CORE_HISTOGRAM_H
#define FITD_CORE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

/* From 2^-24 (60 ns) to 2^24 (194 days): smaller values count as zero, larger ones into the last bin. */
#define HISTOGRAM_LOWEST_EXPONENT (-24)
#define HISTOGRAM_OCTAVES 48
#define HISTOGRAM_BINS_PER_OCTAVE 128
#define HISTOGRAM_BINS (HISTOGRAM_OCTAVES * HISTOGRAM_BINS_PER_OCTAVE)

struct histogram {
  uint64_t count;
  uint64_t zeros; /* below the first bin */
  double sum;
  double least, most; /* exact; meaningless while count is 0 */
  uint64_t bins[HISTOGRAM_BINS];
};

void histogram_init(struct histogram *histogram);

/* `value` ≥ 0 and finite, counted `times`. */
void histogram_add(struct histogram *histogram, double value, uint64_t times);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The value with rank ceil(p · count), p in [0, 1]; NaN when empty. */
double histogram_percentile(const struct histogram *histogram, double p);
double histogram_mean(const struct histogram *histogram); /* exact; NaN when empty */

#endif
