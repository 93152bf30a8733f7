/* One change point by medians: of every split the one that leaves the least spread, judged against the scatter. */
#include "core/shift.h"

#include <math.h>
#include <string.h>

/* The value at rank n/2 of few values, by Hoare's selection in place. */
static double median_in_place(double *values, size_t count)
{
  size_t low = 0, high = count - 1;
  const size_t rank = count / 2;
  while (low < high) {
    const double pivot = values[low + (high - low) / 2];
    size_t i = low, k = high;
    for (;;) {
      while (values[i] < pivot)
        i++;
      while (values[k] > pivot)
        k--;
      if (i >= k)
        break;
      const double held = values[i];
      values[i++] = values[k];
      values[k--] = held;
    }
    if (rank <= k)
      high = k;
    else
      low = k + 1;
  }
  return values[rank];
}

static double median(const double *values, size_t count, double *scratch)
{
  memcpy(scratch, values, count * sizeof *values);
  return median_in_place(scratch, count);
}

/* How far values lie from their median, all together. */
static double spread(double *median_out, const double *values, size_t count, double *scratch)
{
  double sum = 0;
  *median_out = median(values, count, scratch);
  for (size_t i = 0; i < count; i++)
    sum += fabs(values[i] - *median_out);
  return sum;
}

/* Standard deviation from the median absolute difference of neighbours: 1.4826 for a normal distribution, and a difference
   of two scatters by √2. A shift moves one difference only. */
static double scatter(const double *logs, size_t count, double *scratch)
{
  for (size_t i = 1; i < count; i++)
    scratch[i - 1] = fabs(logs[i] - logs[i - 1]);
  return 1.4826 * median_in_place(scratch, count - 1) / sqrt(2);
}

/* The last points lie on the new side: it has not gone back. */
static bool lasts(const double *logs, size_t count, double before, double after)
{
  for (size_t i = count - SHIFT_SIDE_MIN; i < count; i++)
    if (fabs(logs[i] - after) >= fabs(logs[i] - before))
      return false;
  return true;
}

static bool is_significant(const struct shift *best, double before, double after, size_t count)
{
  const size_t left = best->onset, right = count - best->onset, smaller = left < right ? left : right;
  const double size = fabs(after - before);
  return size >= log1p(SHIFT_LEAST_RATIO) && size >= SHIFT_NOISE_FACTOR * best->noise_ratio / sqrt((double)smaller);
}

struct shift shift_find(const double *values, size_t count)
{
  double logs[SHIFT_POINTS_MAX], scratch[SHIFT_POINTS_MAX], least = (double)INFINITY, before = 0, after = 0;
  const size_t skipped = count > SHIFT_POINTS_MAX ? count - SHIFT_POINTS_MAX : 0, used = count - skipped;
  struct shift best = {.is_found = false};
  if (used < 2 * SHIFT_SIDE_MIN)
    return best;
  for (size_t i = 0; i < used; i++)
    logs[i] = log(values[skipped + i]);
  best.noise_ratio = scatter(logs, used, scratch);
  for (size_t at = SHIFT_SIDE_MIN; at + SHIFT_SIDE_MIN <= used; at++) {
    double left, right;
    const double cost = spread(&left, logs, at, scratch) + spread(&right, logs + at, used - at, scratch);
    if (cost >= least)
      continue;
    least = cost;
    best.onset = at;
    before = left;
    after = right;
  }
  best.is_found = is_significant(&best, before, after, used) && lasts(logs, used, before, after);
  best.before = exp(before);
  best.after = exp(after);
  best.onset += skipped;
  return best;
}
