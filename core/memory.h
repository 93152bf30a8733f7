/* GPU memory as the engine will report it: weights with allocator rounding, activation peak, non-torch growth, and the KV
   pool that is left. Pure functions. Formulas and measured errors: MEMORY §1-4 (weights within 1 %, KV pool within 1 % of
   the budget where the engine's version is known). */
#ifndef FITD_CORE_MEMORY_H
#define FITD_CORE_MEMORY_H

#include "core/operators.h"
#include "core/preset.h"

struct memory_plan {                                                      /* bytes on the fullest GPU of a replica */
  double total_bytes;                                                     /* as the engine prints it */
  double usable_bytes;                                                    /* budget: sum of the four below */
  double weights_bytes, activations_bytes, runtime_bytes, kv_cache_bytes; /* kv ≤ 0: no room */
  double kv_growing_per_token_bytes;                                      /* on one GPU of a stage */
  double kv_tokens; /* of the whole replica, floored to blocks; as if no layer were windowed */
};

void memory_plan(struct memory_plan *out, const struct model *model, const struct hardware *hardware,
                 const struct layout *layout, const struct model_precision *precision, const struct preset *preset);

/* Bytes on one GPU of the KV of one sequence with `tokens` of context: blocks rounded up, windows and states respected. */
double memory_sequence_bytes(const struct model *model, const struct layout *layout,
                             const struct model_precision *precision, const struct preset *preset, double tokens);

/* Smallest valid layout that holds the weights and one request of `tokens` context; 0 when none of up to 1,024 GPUs does. */
unsigned memory_min_gpus(struct layout *layout, const struct model *model, const struct hardware *hardware,
                         const struct model_precision *precision, const struct preset *preset, double tokens);

/* Bytes of the weights on one GPU of the largest stage. */
double memory_weights_bytes(const struct model *model, const struct layout *layout,
                            const struct model_precision *precision);

#endif
