/* xoshiro256++ and the variates made of it by inversion, so that each costs one number and common random numbers stay
   aligned between runs. */
#include "core/rng.h"

#include <math.h>

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
  return (x << bits) | (x >> (64 - bits));
}

static uint64_t split_mix(uint64_t *state)
{
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void rng_init(struct rng *rng, uint64_t seed)
{
  uint64_t state = seed;
  for (int i = 0; i < 4; i++)
    rng->word[i] = split_mix(&state);
}

void rng_init_stream(struct rng *rng, uint64_t seed, uint64_t stream)
{
  uint64_t state = stream;
  const uint64_t mixed = split_mix(&state);
  state = seed ^ mixed;
  rng_init(rng, split_mix(&state));
}

uint64_t rng_next(struct rng *rng)
{
  uint64_t *const s = rng->word;
  const uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
  const uint64_t shifted = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= shifted;
  s[3] = rotate_left(s[3], 45);
  return result;
}

/* The middles of 2^52 equal intervals: never 0, never 1. */
double rng_uniform(struct rng *rng)
{
  return ((double)(rng_next(rng) >> 12) + 0.5) * 0x1p-52;
}

double rng_exponential(struct rng *rng)
{
  return -log1p(-rng_uniform(rng));
}

static double tail_quantile(double p)
{
  static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                             -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                             3.754408661907416e+00};
  const double q = sqrt(-2 * log(p));
  return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
         ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
}

static double middle_quantile(double p)
{
  static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                             1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                             6.680131188771972e+01, -1.328068155288572e+01};
  const double q = p - 0.5;
  const double r = q * q;
  return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
         (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

double rng_normal_quantile(double p)
{
  const double tail = 0.02425;
  if (p < tail)
    return tail_quantile(p);
  if (p > 1 - tail)
    return -tail_quantile(1 - p);
  return middle_quantile(p);
}

double rng_normal(struct rng *rng)
{
  return rng_normal_quantile(rng_uniform(rng));
}
