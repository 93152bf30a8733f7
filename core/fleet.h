/* Replicas of one engine behind a load balancer, simulated request by request: each request goes at once to the replica
   that has the fewest, the first of equals. Clients may give up and try again, background requests may be shed at a
   concurrency limit, clocks may drop for a while. What a replica does by itself: core/serving.h.
   Memory is the caller's (arena, rows, outcomes); deterministic: same inputs, same bits. A fleet of one without clients
   that give up and without a limit is serving_simulate, to the bit.
   Threads: reentrant, no globals. */
#ifndef FITD_CORE_FLEET_H
#define FITD_CORE_FLEET_H

#include "core/disaggregated.h"
#include "core/serving.h"

#define FLEET_ALL_REPLICAS UINT32_MAX

/* Steps that begin within [from_s, until_s) last `ratio` times as long: 1 / 0.6 for a clock at 0.6. They must not overlap for
   one replica. */
struct fleet_slowdown {
  double from_s, until_s; /* until_s may be infinite */
  double ratio;           /* > 0 */
  uint32_t replica;       /* or FLEET_ALL_REPLICAS */
};

struct fleet_run {
  struct serving_settings settings; /* of each replica */
  const struct serving_cost *cost;  /* of a replica */
  const struct serving_cost *const
      *costs; /* [replicas]; NULL in it, or NULL for all: `cost`. A slow replica has its own */
  uint32_t replicas;
  uint32_t prefill_replicas; /* the first so many only compute prompts, the others only decode; 0 = all do both */
  double transfer_s,
      transfer_token_s; /* of a prompt's cache from one to the other: so long and for each token of the prompt;
                                          each replica sends or takes in one at a time. The client sees the first token
                                          when it decodes */
  const struct arrival *arrivals; /* in order of time */
  size_t count;
  const uint32_t *hashes; /* of the arrivals' prompts; only with settings.hash_block_tokens */
  size_t hash_count;
  uint32_t
      users; /* closed loop over the whole fleet: each sends the next row when its last request ends, whatever came of
                     it; 0 = open, at the rows' times */

  uint32_t concurrency_limit; /* requests in the whole fleet at once; beyond it requests wait in front in the order of
                                 sending, background ones are refused (SERVING_SHED); 0 = none */
  double sheddable_share;     /* of requests that are background, 0 … 1; which ones: by `seed` */
  uint64_t seed;

  double
      timeout_s; /* a client gives up so long after sending, first token or not; 0 = never. The engine goes on until the
                       step under way has ended */
  uint32_t retries; /* times that it then sends the same request again at once */

  const struct fleet_slowdown *slowdowns;
  size_t slowdown_count;

  struct histogram *itl;   /* all gaps between tokens of all requests; NULL = not kept */
  bool (*stop)(void *cls); /* polled; may be NULL */
  void *stop_cls;
};

struct fleet_totals {
  struct serving_totals serving; /* over all replicas: sums; peaks of any one of them; end_s of the last request */
  uint64_t shed, timed_out;      /* requests; with serving.completed and .rejected: all rows */
  uint64_t attempts;             /* sent, again or not; shed and rejected ones too */
  uint32_t peak_in_system;       /* requests in replicas at once, all together */
};

/* Replicas of both pools, and what the caches of prompts take between them, around so many tokens. */
void fleet_set_pools(struct fleet_run *run, const struct engine *engine, const struct pools *pools,
                     double prompt_tokens);

/* Bytes of arena that a run takes. */
size_t fleet_arena_bytes(const struct fleet_run *run);

/* Simulates until every row has an outcome. outcomes[i] is of arrivals[i]: its times count from the start, send_s is the
   first attempt's, all else the last one's. `replicas` takes the totals of each replica, [run->replicas]; may be NULL. The
   arena is as it was afterwards.
   Errors: ERR_INVALID what can not work, ERR_LIMIT arena exhausted, ERR_CANCELLED stop said so. */
enum err fleet_simulate(struct serving_outcome *outcomes, struct fleet_totals *totals, struct serving_totals *replicas,
                        const struct fleet_run *run, struct arena *arena, struct error *e) MUST_CHECK;

#endif
