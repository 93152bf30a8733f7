/* GPU memory as the engine will report it: weights with allocator rounding, activation peak, non-torch growth, and the KV
   pool that is left. Pure functions. Formulas and measured errors: MEMORY §1-4; tests/accuracy/test_memory.c compares them
   with start-up logs. */
#ifndef FITD_CORE_MEMORY_H
#define FITD_CORE_MEMORY_H

#include "core/operators.h"
#include "core/preset.h"

/* What a plan is made for. Borrows what it points to. */
struct memory_case {
  const struct model *model;
  const struct hardware *hardware;
  const struct layout *layout;
  const struct model_precision *precision;
  const struct preset *preset;
  unsigned adapter_count, adapter_rank; /* LoRA adapters held at once; 0 = none */
  bool has_whole_vision;   /* every rank holds the whole vision tower; otherwise it is split like the rest */
  double replicated_bytes; /* on every rank beside the model: tables of scaled positions, a draft model */
  double non_torch_bytes;  /* as an earlier start printed it; 0 = by version, ranks and link */
  double context_tokens;   /* longest sequence the engine is started for; 0 = the model's */
};

/* Bytes on the GPU whose pool holds the fewest blocks: the engine gives every rank that many. */
struct memory_plan {
  double total_bytes;                                                     /* as the engine prints it */
  double usable_bytes;                                                    /* budget: sum of the four below */
  double weights_bytes, activations_bytes, runtime_bytes, kv_cache_bytes; /* kv ≤ 0: no room */
  double graphs_bytes; /* CUDA graphs, ±0.3 GiB: part of runtime_bytes where the engine counts them, else on top of the
                          budget in the part that memory_fraction leaves */
  double kv_growing_per_token_bytes; /* on one GPU of that stage, windowed layers too */
  double kv_tokens;                  /* of the whole replica, floored to blocks; as if no layer were windowed */
};

void memory_plan(struct memory_plan *out, const struct model *model, const struct hardware *hardware,
                 const struct layout *layout, const struct model_precision *precision, const struct preset *preset);
void memory_plan_of(struct memory_plan *out, const struct memory_case *c);

/* The same on one pipeline stage, 0 … pipeline_parallel - 1: engines print the first one's. */
void memory_plan_stage(struct memory_plan *out, const struct memory_case *c, unsigned stage);

/* Bytes on one GPU of the fullest stage that one sequence with `tokens` of context holds while it decodes: whole blocks,
   windows and states respected as the engine does. */
double memory_sequence_bytes(const struct model *model, const struct layout *layout,
                             const struct model_precision *precision, const struct preset *preset, double tokens);

/* How an engine cuts a KV pool of the fullest stage into blocks. Layers that see everything, a window or keep a state form
   groups of equal size; a block holds `block_tokens` of one group. */
struct memory_pool {
  double block_tokens, block_bytes;
  double blocks;
  double groups;
  double printed_tokens; /* what the engine prints: with several groups not its capacity */
};
void memory_pool_cut(struct memory_pool *out, const struct model *model, const struct layout *layout,
                     const struct model_precision *precision, const struct preset *preset, double pool_bytes);

/* Sequences of `tokens` that such a pool holds at once, each as large as it gets during prefill: the engine's "maximum
   concurrency". */
double memory_pool_sequences(const struct model *model, const struct layout *layout,
                             const struct model_precision *precision, const struct preset *preset, double pool_bytes,
                             double tokens);

/* Smallest valid layout that holds the weights and one request of `tokens` context; 0 when none of up to 1,024 GPUs does. */
unsigned memory_min_gpus(struct layout *layout, const struct model *model, const struct hardware *hardware,
                         const struct model_precision *precision, const struct preset *preset, double tokens);

/* For one tensor degree the fewest pipeline stages, at most `most`, that hold as much; 0 when none. */
unsigned memory_fewest_stages(const struct model *model, const struct hardware *hardware,
                              const struct model_precision *precision, const struct preset *preset,
                              unsigned tensor_parallel, unsigned most, double tokens);

/* Bytes of the weights on one GPU of the largest stage. */
double memory_weights_bytes(const struct model *model, const struct layout *layout,
                            const struct model_precision *precision);
double memory_weights_of(const struct memory_case *c);

/* What is missing for one request of `tokens`, and what would fit instead. Everything per GPU. */
struct memory_near_miss {
  bool fits;
  bool is_near;                    /* misses by at most 10 % of the device's memory */
  double missing_bytes;            /* 0 when it fits */
  double missing_ratio;            /* of the device's memory */
  double longest_tokens;           /* of a request that fits as it is; 0 = none */
  unsigned largest_max_batch;      /* limit of running sequences that leaves room; 0 = none does */
  unsigned largest_batched_tokens; /* token budget of a step that leaves room; 0 = none does */
  double needed_fraction_ratio;    /* memory fraction that would leave room; NaN = none up to 0.98 */
};
void memory_near_miss(struct memory_near_miss *out, const struct memory_case *c, double tokens);

#endif
