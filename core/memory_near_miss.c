/* What would fit where a request does not: a smaller batch limit, a smaller step, a shorter request or a larger share of
   the device, each alone. CORE §3. */
#include "core/memory_int.h"

#include <math.h>

/* Largest value 1 … most for which one request of `tokens` fits when the preset's limit is set to it; 0 = none. Room only
   falls with either limit. */
static unsigned largest_limit(const struct memory_case *base, double tokens, bool is_batch)
{
  struct preset preset = *base->preset;
  struct memory_case c = *base;
  unsigned *limit = is_batch ? &preset.max_batch : &preset.max_batched_tokens;
  unsigned low = 0, high = *limit;
  c.preset = &preset;
  while (low < high) {
    const unsigned middle = high - (high - low) / 2;
    *limit = middle;
    if (memory_missing_bytes(&c, tokens) <= 0)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Tokens of the longest request that fits, in whole blocks. */
static double longest_request(const struct memory_case *c, double most)
{
  const double block = c->preset->kv_block_tokens;
  double low = 0, high = floor(most / block);
  while (low < high) {
    const double middle = high - floor((high - low) / 2);
    if (memory_missing_bytes(c, middle * block) <= 0)
      low = middle;
    else
      high = middle - 1;
  }
  return low * block;
}

static double fraction_that_fits(const struct memory_case *base, double missing, double total)
{
  const double most = 0.98;
  const double needed = memory_fraction(base) + missing / total;
  if (base->preset->memory_rule == MEMORY_RULE_TENSORRT) /* a fraction of what is free, not of the device */
    return (double)NAN;
  return needed <= most ? needed : (double)NAN;
}

void memory_near_miss(struct memory_near_miss *out, const struct memory_case *c, double tokens)
{
  const double near_ratio = 0.10;
  const double total = hardware_memory_bytes(c->hardware, NULL);
  const double missing = memory_missing_bytes(c, tokens);
  *out = (struct memory_near_miss){.fits = missing <= 0,
                                   .missing_bytes = fmax(0, missing),
                                   .missing_ratio = fmax(0, missing / total),
                                   .longest_tokens = tokens,
                                   .largest_max_batch = c->preset->max_batch,
                                   .largest_batched_tokens = c->preset->max_batched_tokens,
                                   .needed_fraction_ratio = memory_fraction(c)};
  out->is_near = !out->fits && out->missing_ratio <= near_ratio;
  if (out->fits)
    return;
  out->longest_tokens = longest_request(c, tokens);
  out->largest_max_batch = largest_limit(c, tokens, true);
  out->largest_batched_tokens = largest_limit(c, tokens, false);
  out->needed_fraction_ratio = fraction_that_fits(c, missing, total);
}
