/* The frontier of throughput against interactivity: configurations of which none is at least as good in every objective.
   A point is one replica of a layout that always has `batch` requests in flight (a closed loop of so many users), so it does
   not depend on the load that the sketch names. Objectives: output tokens/s per GPU, output tokens/s per user, and where
   asked the cost of a million output tokens.
   Searched: the layouts of core/layouts.h, with the fewest stages that hold the model and every doubling, and batches in
   half octaves up to what the pool and the batch limit run.
   Exact over that set: a stretch of batches is left out only where the best that it could hold is covered (core/frontier.c
   says how far that reaches; a test holds the rest against enumeration).
   Deterministic. Everything is the caller's; threads: reentrant. */
#ifndef FITD_CORE_FRONTIER_H
#define FITD_CORE_FRONTIER_H

#include "core/fit.h"
#include "core/notes.h"
#include "core/operators.h"

struct frontier_point {
  unsigned profile; /* the caller's number for it */
  struct layout layout;
  unsigned gpus;      /* of one replica */
  unsigned max_batch; /* engine setting: sequences that one attention rank runs at once */
  double batch;       /* requests in flight in the replica */
  enum precision weights, kv_cache, activations;
  double output_tok_s_per_gpu, output_tok_s_per_user;
  double usd_per_gpu_hour,
      per_million_output_tokens_usd;   /* whole instances, filled with such replicas; NaN = no price */
  double ttft_s, itl_s, tpot_s, e2e_s; /* e2e: mean */
  double requests_per_s;               /* of the replica */
  enum limit limiter; /* the pool or the batch limit where the batch is at it, else what its steps wait for */
  int targets_met;    /* 1 yes, 0 no, -1 not decided by means of a steady state, or none given */
};

/* Points that no other dominates, from the highest throughput to the highest interactivity within a group. */
struct frontier {
  struct frontier_point *points; /* the caller's array */
  size_t count, capacity;
  bool has_cost;    /* cost is an objective; where there is no price it is worse than any */
  size_t first;     /* points before this one belong to finished groups and do not compete */
  size_t evaluated; /* batches computed, of `searched` */
  size_t searched;
};

/* Adds what one profile has to offer. The sketch's latency targets only mark points. ERR_LIMIT: arena or capacity;
   ERR_CANCELLED; ERR_INVALID: what fit_evaluate would refuse, and pools, which have no batch of their own. `notes` gets a
   sentence for every default that was filled in. */
enum err frontier_add(struct frontier *frontier, unsigned profile, const struct fit_request *request,
                      struct notes *notes, struct arena *arena, struct error *e) MUST_CHECK;

/* Sorts the group that is open and starts the next. */
void frontier_close_group(struct frontier *frontier);

/* At least as good in every objective. */
bool frontier_covers(const struct frontier *frontier, const struct frontier_point *a, const struct frontier_point *b);

/* Highest throughput per GPU among points that give each user at least so many tokens/s; NaN when none does. */
double frontier_throughput_at(const struct frontier_point *points, size_t count, double output_tok_s_per_user);

/* Batches that are looked at below a limit: 1, 2, 3, 4, 6, 8, 12 … and the limit itself, ascending; their number. */
enum { FRONTIER_BATCHES_MAX = 64 };
size_t frontier_batches(double batches[FRONTIER_BATCHES_MAX], double limit);

#endif
