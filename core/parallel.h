/* Which layouts a model can be cut into on a device, and the nearest possible one where a wanted one is not.
   Pure functions. Rules: CORE §3. */
#ifndef FITD_CORE_PARALLEL_H
#define FITD_CORE_PARALLEL_H

#include "core/operators.h"

/* "" and true when the layout is possible; else a sentence with the numbers and the nearest possible degree. */
bool parallel_check(char *why, size_t why_size, const struct model *model, const struct hardware *hardware,
                    const struct layout *layout);

/* Tensor-parallel degrees possible for this model on this device, ascending; at most `max`. */
size_t parallel_tensor_degrees(unsigned *degrees, size_t max, const struct model *model,
                               const struct hardware *hardware);

/* Layers of the largest pipeline stage. */
unsigned parallel_stage_layers(const struct model *model, const struct layout *layout);

unsigned parallel_gpus(const struct layout *layout); /* of one replica */

/* Routed experts of the layer that has most; 0 in a dense model. */
unsigned parallel_experts(const struct model *model);

#endif
