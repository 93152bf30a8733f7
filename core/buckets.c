/* Cumulative histograms: summed over engines, subtracted between readings, and read for quantiles. */
#include "core/buckets.h"

#include <math.h>
#include <string.h>

void buckets_init(struct buckets *buckets)
{
  *buckets = (struct buckets){.sum = (double)NAN};
}

/* The first bucket whose bound is at least `upper`. */
static size_t place(const struct buckets *buckets, double upper)
{
  size_t at = 0;
  while (at < buckets->count && buckets->upper[at] < upper)
    at++;
  return at;
}

static bool has_bound(const struct buckets *buckets, size_t at, double upper)
{
  return at < buckets->count && buckets->upper[at] <= upper;
}

bool buckets_add(struct buckets *buckets, double upper, double cumulative)
{
  const size_t at = place(buckets, upper);
  if (isnan(upper) || !isfinite(cumulative) || cumulative < 0)
    return false;
  if (has_bound(buckets, at, upper)) {
    buckets->cumulative[at] += cumulative;
    return true;
  }
  if (buckets->count == BUCKETS_MAX)
    return false;
  memmove(&buckets->upper[at + 1], &buckets->upper[at], (buckets->count - at) * sizeof buckets->upper[0]);
  memmove(&buckets->cumulative[at + 1], &buckets->cumulative[at],
          (buckets->count - at) * sizeof buckets->cumulative[0]);
  buckets->upper[at] = upper;
  buckets->cumulative[at] = cumulative;
  buckets->count++;
  return true;
}

double buckets_total(const struct buckets *buckets)
{
  return buckets->count > 0 ? buckets->cumulative[buckets->count - 1] : 0;
}

static bool has_begun_anew(const struct buckets *before, const struct buckets *now)
{
  if (before->count != now->count || now->sum < before->sum)
    return true;
  for (size_t i = 0; i < now->count; i++)
    if (now->upper[i] < before->upper[i] || now->upper[i] > before->upper[i] ||
        now->cumulative[i] < before->cumulative[i])
      return true;
  return false;
}

void buckets_increase(struct buckets *out, const struct buckets *before, const struct buckets *now, bool *has_reset)
{
  *has_reset = has_begun_anew(before, now);
  *out = *now;
  if (*has_reset)
    return;
  for (size_t i = 0; i < now->count; i++)
    out->cumulative[i] = now->cumulative[i] - before->cumulative[i];
  out->sum = now->sum - before->sum;
}

bool buckets_merge(struct buckets *into, const struct buckets *more)
{
  struct buckets merged = {.sum = into->sum + more->sum};
  if (more->count == 0)
    return true;
  if (into->count == 0) {
    *into = *more;
    return true;
  }
  for (size_t i = 0; i < into->count; i++) {
    const size_t at = place(more, into->upper[i]);
    if (!has_bound(more, at, into->upper[i]))
      continue;
    merged.upper[merged.count] = into->upper[i];
    merged.cumulative[merged.count++] = into->cumulative[i] + more->cumulative[at];
  }
  if (merged.count == 0)
    return false;
  *into = merged;
  return true;
}

/* The rank is that of the nearest-rank definition: the smallest value that at least the share `quantile` does not exceed. */
struct bucket_bounds buckets_quantile(const struct buckets *buckets, double quantile)
{
  const double total = buckets_total(buckets), rank = fmax(quantile * total, fmin(total, 1));
  struct bucket_bounds bounds = {0, 0};
  if (!(total > 0))
    return (struct bucket_bounds){(double)NAN, (double)NAN};
  for (size_t i = 0; i < buckets->count; i++) {
    bounds.upper = buckets->upper[i];
    if (buckets->cumulative[i] >= rank)
      return bounds;
    bounds.lower = buckets->upper[i];
  }
  return bounds;
}

double buckets_mean(const struct buckets *buckets)
{
  const double total = buckets_total(buckets);
  return total > 0 ? buckets->sum / total : (double)NAN;
}

struct bucket_bounds buckets_share(const struct buckets *buckets, double value)
{
  const double total = buckets_total(buckets);
  struct bucket_bounds share = {0, 1};
  if (!(total > 0))
    return (struct bucket_bounds){(double)NAN, (double)NAN};
  for (size_t i = 0; i < buckets->count; i++) {
    if (buckets->upper[i] <= value)
      share.lower = buckets->cumulative[i] / total;
    if (buckets->upper[i] >= value) {
      share.upper = buckets->cumulative[i] / total;
      break;
    }
  }
  return share;
}
