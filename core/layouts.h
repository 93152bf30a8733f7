/* The layouts that a search looks at: tensor × attention data × expert × pipeline parallelism within what the sketch holds.
   A base has no more pipeline stages than it is told to have; layouts_deepen adds stages to it. Pure functions.
   Stages cost latency and buy memory alone: the fewest that hold the model, and doublings of that, are worth a look. */
#ifndef FITD_CORE_LAYOUTS_H
#define FITD_CORE_LAYOUTS_H

#include "core/parallel.h"
#include "core/workload.h"

enum { LAYOUTS_MAX = 512, LAYOUT_STAGES_MAX = 8 /* as many as hosts are joined to one replica in practice */ };

/* Degrees that are held, 0 = open. */
struct layout_wish {
  struct layout held;
  unsigned most_gpus; /* of a replica; 0 = any number. Held degrees alone may exceed it */
  bool has_pools;     /* pools are not cut into stages */
};
struct layout_wish layouts_wish(const struct workload *workload);

/* Bases, by ascending GPUs; their number, at most LAYOUTS_MAX. Held degrees are taken as they are, possible or not: the
   caller checks with parallel_check. */
size_t layouts_list(struct layout out[LAYOUTS_MAX], const struct layout_wish *wish, const struct model *model,
                    const struct hardware *hardware);

/* The next number of stages to look at after `layout`, which does or does not hold the model; false when there is none. */
bool layouts_deepen(struct layout *layout, bool holds, const struct layout_wish *wish, const struct model *model);

/* Order that makes equal layouts the only ties: fewer stages, then fewer GPUs, expert ranks and attention data ranks. */
int layouts_compare(const struct layout *a, const struct layout *b);

#endif
