/* The closed form of steady load on one replica: what a request waits and takes when arrivals come at a rate, or when a
   number of users each keep one request in flight. No percentiles: means of a steady state. Pure functions.
   Formulas: STEPMODEL §4 (batch and interference), SERVING §6 (TTFT). Little's law holds by construction. */
#ifndef FITD_CORE_STEADY_H
#define FITD_CORE_STEADY_H

#include "core/step.h"

/* What is asked of one replica. */
struct steady_load {
  enum load_kind kind;   /* OPEN or CLOSED */
  bool is_poisson;       /* OPEN: an arriving request finds the mean number of others; else an even spacing */
  double requests_per_s; /* OPEN */
  double users;          /* CLOSED */
  double prompt_tokens;  /* to be computed; cached prefix excluded */
  double cached_tokens;  /* prefix found in the cache */
  double output_tokens;  /* mean, ≥ 1 */
};

struct steady_state {
  bool is_saturated; /* OPEN: the rate is beyond what the replica can do; the figures are those at capacity */
  double requests_per_s;
  double ttft_s, tpot_s, itl_s, e2e_s, queue_s;
  double decode_batch;      /* mean number of sequences decoding at once */
  double in_system;         /* Little: requests_per_s × e2e_s */
  double utilisation_ratio; /* share of the replica's capacity that the load takes */
  struct step_time decode;  /* one step at the batch a request sees */
  struct prompt_time prompt;
  double prefill_share_ratio, decode_share_ratio; /* of busy time; sum 1 */
  double idle_ratio;                              /* time with nothing in the engine */
};

/* Sequences that the KV pool of one attention rank runs at once. */
double steady_kv_batch(const struct engine *engine, const struct memory_plan *memory, double prompt_tokens,
                       double output_tokens);

/* Sequences that can run at once: KV pool and batch limit. *is_kv tells which of the two binds. ≥ 0; below 1 nothing runs. */
double steady_batch_limit(bool *is_kv, const struct engine *engine, const struct memory_plan *memory,
                          double prompt_tokens, double output_tokens);

void steady_evaluate(struct steady_state *out, const struct engine *engine, const struct steady_load *load,
                     double batch_limit);

/* Rate at which a replica that always has work finishes requests: beyond it the queue grows. */
double steady_capacity(const struct engine *engine, const struct steady_load *load, double batch_limit);

#endif
