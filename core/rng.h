/* Pseudo-random numbers of simulations: seeded, split into independent streams, the same bits on every build.
   xoshiro256++ (Blackman and Vigna), seeded by SplitMix64. Value struct; no shared state. */
#ifndef FITD_CORE_RNG_H
#define FITD_CORE_RNG_H

#include <stdint.h>

struct rng {
  uint64_t word[4];
};

void rng_init(struct rng *rng, uint64_t seed);

/* A stream of its own for each `stream` of a seed: what one stream draws does not move another. */
void rng_init_stream(struct rng *rng, uint64_t seed, uint64_t stream);

uint64_t rng_next(struct rng *rng);

/* In the open interval (0, 1). */
double rng_uniform(struct rng *rng);

/* With mean 1. One uniform number each, increasing in it. */
double rng_exponential(struct rng *rng);
double rng_normal(struct rng *rng);

/* Quantile of the standard normal distribution, p in (0, 1); relative error below 1.2e-9 (Acklam). */
double rng_normal_quantile(double p);

#endif
