/* Formats as served: the checkpoint's own, or what a sketch or a benchmark row asks for, module by module. Pure functions.
   STEPMODEL §1.4-1.5. */
#ifndef FITD_CORE_SERVED_H
#define FITD_CORE_SERVED_H

#include "core/model.h"

/* `weights` NONE keeps the checkpoint's formats; `kv_cache` NONE keeps the checkpoint's or, where it says nothing, its 16-bit
   format.
   Asking for a format quantises what public quantisers do: 8 bit all linear layers; 4 bit the routed experts of a mixture
   (nvfp4 the other linear layers too, but attention only where it is plain and was released in 16 bit), all linear layers
   of a dense model. Embeddings and head stay in 16 bit. */
struct model_precision served_precision(const struct model *model, enum precision weights, enum precision kv_cache);

/* Whether any layer routes tokens to experts. */
bool served_has_experts(const struct model *model);

#endif
