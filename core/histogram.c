/* The bin of a value is read off its floating-point representation: exponent and the first seven bits of the mantissa. */
#include "core/histogram.h"

#include <math.h>
#include <string.h>

#define MANTISSA_BITS 52
#define BIN_BITS 7

void histogram_init(struct histogram *histogram)
{
  memset(histogram, 0, sizeof *histogram);
}

static uint64_t bits_of(double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Bins before the first one of the histogram, counted from the smallest normal number. */
static uint64_t first_bin(void)
{
  return (uint64_t)(1023 + HISTOGRAM_LOWEST_EXPONENT) << BIN_BITS;
}

void histogram_add(struct histogram *histogram, double value, uint64_t times)
{
  const uint64_t bin = bits_of(value) >> (MANTISSA_BITS - BIN_BITS);
  if (times == 0)
    return;
  if (histogram->count == 0 || value < histogram->least)
    histogram->least = value;
  if (histogram->count == 0 || value > histogram->most)
    histogram->most = value;
  histogram->count += times;
  histogram->sum += value * (double)times;
  if (value < ldexp(1, HISTOGRAM_LOWEST_EXPONENT))
    histogram->zeros += times;
  else if (bin - first_bin() < HISTOGRAM_BINS)
    histogram->bins[bin - first_bin()] += times;
  else
    histogram->bins[HISTOGRAM_BINS - 1] += times;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
  if (from->count == 0)
    return;
  into->least = into->count == 0 ? from->least : fmin(into->least, from->least);
  into->most = into->count == 0 ? from->most : fmax(into->most, from->most);
  into->count += from->count;
  into->zeros += from->zeros;
  into->sum += from->sum;
  for (size_t i = 0; i < HISTOGRAM_BINS; i++)
    into->bins[i] += from->bins[i];
}

static double middle_of(size_t bin)
{
  const double octave = ldexp(1, HISTOGRAM_LOWEST_EXPONENT + (int)(bin / HISTOGRAM_BINS_PER_OCTAVE));
  return octave * (1 + ((double)(bin % HISTOGRAM_BINS_PER_OCTAVE) + 0.5) / HISTOGRAM_BINS_PER_OCTAVE);
}

double histogram_percentile(const struct histogram *histogram, double p)
{
  const double rank = ceil(p * (double)histogram->count);
  double seen = (double)histogram->zeros;
  if (histogram->count == 0)
    return (double)NAN;
  if (seen >= rank)
    return histogram->least;
  for (size_t i = 0; i < HISTOGRAM_BINS; i++) {
    seen += (double)histogram->bins[i];
    if (seen >= rank && histogram->bins[i] != 0)
      return fmin(histogram->most, fmax(histogram->least, middle_of(i)));
  }
  return histogram->most;
}

double histogram_mean(const struct histogram *histogram)
{
  return histogram->count == 0 ? (double)NAN : histogram->sum / (double)histogram->count;
}
