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

/* What the last times were computed at, kept for steady_parts. */
struct steady_view {
  double batch;        /* sequences in the steps that a request takes part in, itself included */
  double others_per_s; /* prompts of others that arrive meanwhile */
  double busy_ratio;   /* probability that an arrival finds the engine running */
  double slot_wait_s;  /* for one of the batch's places */
  double input_tokens; /* of its prompt, cached ones too */
  double at_once;      /* prompts like it that one step takes, ≥ 1; 0 where none ride with decodes */
};

struct steady_state {
  bool is_saturated; /* OPEN: the rate is beyond what the replica can do; the figures are those at capacity */
  double requests_per_s;
  double ttft_s, tpot_s, e2e_s, queue_s;
  double itl_s;             /* between two deliveries: with a draft several tokens come at once, tpot_s is less */
  double decode_batch;      /* mean number of sequences decoding at once */
  double in_system;         /* Little: requests_per_s × e2e_s */
  double utilisation_ratio; /* share of the replica's capacity that the load takes */
  struct step_time decode;  /* one step at the batch a request sees */
  struct prompt_time prompt;
  double prefill_share_ratio, decode_share_ratio; /* of busy time; sum 1 */
  double idle_ratio;                              /* time with nothing in the engine */
  struct steady_view view;
  double stall_s; /* what one prompt makes the decoding sequences wait */
  bool has_pools; /* core/disaggregated.h: prompts wait and are computed elsewhere, then their cache travels */
  double prefill_wait_s, transfer_s;
};

/* What the time to the first token consists of: ttft_s is the sum of the first seven, queue_s that of the waits. */
struct steady_parts {
  double server_s;           /* parsing, tokenising, streaming */
  double slot_wait_s;        /* for one of the batch's places */
  double step_wait_s;        /* rest of the running step and the scheduler's look-ahead */
  double prompt_wait_s;      /* prompts of others before it */
  double prefill_s;          /* its own chunks, with the decodes that ride along */
  double host_s;             /* host work of the steps that carry its prompt */
  double transfer_s;         /* of its KV cache to a decode replica; 0 without pools */
  double steps_waited;       /* step_wait_s = busy × this × itl */
  double prefill_load_ratio; /* share of time that prompts of others take: itl_s = decode step / (1 - this) */
};

/* KV bytes that a sequence of so many tokens holds on one GPU, a draft model's included. */
double steady_sequence_bytes(const struct engine *engine, double tokens);

/* Sequences that the KV pool of one attention rank runs at once. */
double steady_kv_batch(const struct engine *engine, const struct memory_plan *memory, double prompt_tokens,
                       double output_tokens);

/* Sequences that can run at once: KV pool and batch limit. *is_kv tells which of the two binds. ≥ 0; below 1 nothing runs. */
double steady_batch_limit(bool *is_kv, const struct engine *engine, const struct memory_plan *memory,
                          double prompt_tokens, double output_tokens);

void steady_evaluate(struct steady_state *out, const struct engine *engine, const struct steady_load *load,
                     double batch_limit);

/* What a replica does whatever its load: computed once where many loads of the same lengths are looked at. */
struct steady_base {
  struct prompt_time prompt;              /* with nothing else running */
  double packed_s;                        /* of a prompt in steps that carry prompts alone */
  double peak_batch, peak_requests_per_s; /* the batch that finishes most requests, and how many */
};
void steady_base_of(struct steady_base *out, const struct engine *engine, const struct steady_load *load,
                    double batch_limit);

/* steady_evaluate on the base of the same engine, lengths and batch limit. */
void steady_evaluate_on(struct steady_state *out, const struct steady_base *base, const struct engine *engine,
                        const struct steady_load *load, double batch_limit);

/* Recomputed from a state of steady_evaluate, on demand: the search needs the sums alone. */
void steady_parts(struct steady_parts *out, const struct engine *engine, const struct steady_state *state);

/* Mean wait of Poisson arrivals for one of so many servers that together finish `capacity` requests a second. */
double steady_queue_s(double requests_per_s, double capacity_requests_per_s, double servers);

/* Steps until the engine takes a request in that arrives while it runs. */
double steady_steps_waited(const struct preset *preset);

/* Rate at which a replica that always has work finishes requests, at the batch within the limit that finishes most: beyond
   it the queue grows. */
double steady_capacity(const struct engine *engine, const struct steady_load *load, double batch_limit);

#endif
