/* Shared by the memory sums. Private to core/memory*.c. */
#ifndef FITD_CORE_MEMORY_INT_H
#define FITD_CORE_MEMORY_INT_H

#include "core/memory.h"

/* ⌈value / parts⌉. */
double memory_split(double value, double parts);

/* Vocabulary rows as engines allocate them: padded to a multiple of 64. */
double memory_padded_vocabulary(const struct model *model);

/* Layers first … end - 1 run on one pipeline stage. */
struct memory_stage {
  unsigned first, end;
  bool is_first, is_last;
};
/* The first stages hold one layer more where the layers do not divide. llama.cpp counts the head as a layer. */
struct memory_stage memory_stage_of(const struct model *model, const struct layout *layout, bool counts_head,
                                    unsigned stage);

/* One figure for each kind of layer. */
typedef double memory_by_kind[MODEL_LAYER_KINDS_MAX];

/* memory_weights.c */
void memory_layer_weights(memory_by_kind out, const struct memory_case *c);
double memory_stage_weights(const struct memory_case *c, const struct memory_stage *stage, const memory_by_kind layers);

/* memory_activations.c: peak of the engine's own profile run on one stage; growth outside of the framework's allocator;
   CUDA graphs. */
double memory_activations_bytes(const struct memory_case *c, const struct memory_stage *stage);
double memory_non_torch_bytes(const struct memory_case *c);
double memory_graphs_bytes(const struct memory_case *c);

/* memory.c: share of the device that the preset gives to this layout; what one request lacks, ≤ 0 where it fits. */
double memory_fraction(const struct memory_case *c);
double memory_missing_bytes(const struct memory_case *c, double tokens);

/* memory_kv.c */
double memory_stage_token_bytes(const struct model *model, const struct layout *layout,
                                const struct model_precision *precision, const struct preset *preset,
                                const struct memory_stage *stage);

#endif
