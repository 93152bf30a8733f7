/* LoRA adapters held beside the model: what they add to a step. Pure functions. Their memory is in core/memory_weights.c.
   All linear layers of attention and feed-forward are adapted; routed experts, routers, embeddings and head are not. */
#ifndef FITD_CORE_ADAPTERS_H
#define FITD_CORE_ADAPTERS_H

#include "core/timing.h"

struct adapters {
  unsigned count, rank; /* held at once; count 0 = none */
};

/* The thin products of one layer as one operator, given the layer's own operators; false: it has none. */
bool adapters_operator(struct op *out, const struct adapters *adapters, const struct op *ops, size_t n,
                       const struct step_shape *shape, const struct device *device);

#endif
