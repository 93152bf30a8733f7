/* Prices: which quote applies to a profile under a sketch's constraints, what a fleet is billed, what a request costs.
   Pure functions; strings go to the caller's arena. A profile without a price gives NaN, never 0. */
#ifndef FITD_CORE_COST_H
#define FITD_CORE_COST_H

#include "core/fit.h"

struct price {
  double usd_per_gpu_hour;            /* NaN = none known */
  double billed_unit_gpus;            /* devices that are rented together; 1 without an instance */
  const struct hardware_price *quote; /* borrowed from the profile; NULL: the sketch's own price, or none known */
};

/* For layouts whose tensor-parallel group has `group_gpus`, which one instance must hold. In this order: the sketch's own
   price for the profile; the cheapest such quote of the asked cloud and commitment; without a wish the one nearest to
   the median of all on-demand quotes (a real quote, never the median itself). */
struct price cost_price(const struct hardware *hardware, const struct workload_constraints *constraints,
                        unsigned group_gpus);

/* Where the price is from: "AWS p5.48xlarge on_demand 2026-07-20"; NULL = none known. ERR_LIMIT. */
enum err cost_basis(const char **out, const struct price *price, struct arena *arena, struct error *e) MUST_CHECK;

unsigned cost_billed_gpus(const struct price *price, unsigned gpus);

/* Cost of a fleet of `gpus_billed` that finishes `requests_per_s` and `output_tok_s`; success_ratio scales successes. */
void cost_fleet(struct scorecard_cost *out, const struct price *price, unsigned gpus_billed, double requests_per_s,
                double output_tok_s, double success_ratio);

/* What a fleet's capacity goes into, as shares of that of the GPUs that serve. */
struct cost_use {
  double serving_ratio; /* of the paid GPUs, those that carry a replica */
  double busy_ratio, failed_work_ratio, startup_ratio, headroom_ratio;
};

/* Divides per_successful_request_usd, which must be filled. */
void cost_divide(struct scorecard_cost *out, const struct cost_use *use);

#endif
