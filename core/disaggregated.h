/* Disaggregated serving: some replicas only compute prompts, the others only decode, and the KV cache of a prompt travels
   between them. The closed form of steady load over both pools; means, no percentiles. Pure functions.
   Replicas of both pools have the same layout; figures of a state are those of one replica of the fleet. */
#ifndef FITD_CORE_DISAGGREGATED_H
#define FITD_CORE_DISAGGREGATED_H

#include "core/collectives.h"
#include "core/steady.h"

struct pools {
  unsigned prefill_replicas, decode_replicas; /* 0 = there are no pools */
};

/* Rates that each part of the fleet sustains for itself; the least is the fleet's. */
struct pools_capacity {
  double prefill_requests_per_s, decode_requests_per_s, transfer_requests_per_s;
};
struct pools_capacity disaggregated_capacities(const struct engine *engine, const struct pools *pools,
                                               const struct steady_load *load, double batch_limit);
double disaggregated_capacity(const struct pools_capacity *capacity);

/* What one prompt's KV cache takes from a prefill replica to a decode replica: each device sends its own part. */
struct collective_time disaggregated_transfer(double *bytes, enum collective_span *span, const struct engine *engine,
                                              const struct pools *pools, const struct steady_load *load);

/* `load` is the whole fleet's: its rate or all its users. */
void disaggregated_evaluate(struct steady_state *out, const struct engine *engine, const struct pools *pools,
                            const struct steady_load *load, double batch_limit);

#endif
