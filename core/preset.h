/* What an inference engine does by default: scheduler policy, limits, memory rule and host costs, per runtime and
   generation. A sketch's `serving` overrides each of them. Tables and sources: SERVING §1-3, STEPMODEL §3, MEMORY §3-4. */
#ifndef FITD_CORE_PRESET_H
#define FITD_CORE_PRESET_H

#include "core/hardware.h"
#include "core/workload.h"

/* How an engine sizes its KV pool. */
enum memory_rule { MEMORY_RULE_VLLM, MEMORY_RULE_SGLANG, MEMORY_RULE_TENSORRT, MEMORY_RULE_LLAMA_CPP };

/* What a cache of latent attention (MLA) stores for a token. */
enum latent_cache {
  LATENT_CACHE_COMPRESSED, /* the latent, whole on every rank */
  LATENT_CACHE_PADDED,     /* the same, rounded up to a multiple of 128 elements */
  LATENT_CACHE_FULL_HEADS  /* keys and values of all heads, at the key's width rounded up to 128 elements */
};

/* How a version of an engine counts memory. Figures are medians of start-up logs (MEMORY §2-3). */
struct memory_traits {
  enum latent_cache latent_cache;
  bool is_first_engine;      /* vLLM's V0: profiles the forward pass without a copy of the hidden state */
  bool has_window_groups;    /* windowed layers hold their window; otherwise the whole context */
  bool has_expert_workspace; /* of the grouped kernels, on top of the activation peak */
  bool has_graphs_in_budget; /* an estimate of the CUDA graphs is taken off the pool */
  bool has_absorbed_latent;  /* MLA multiplies its projections into two larger ones and keeps them beside the rest */
  bool has_native_mxfp4;     /* from Hopper on; otherwise mxfp4 experts are repacked */
  double attention_workspace_gib; /* of kernels for latent attention and for sinks; printed with the weights */
  unsigned state_blocks;          /* blocks that a sequence holds in each group of recurrent layers */
  /* Growth outside of the framework's allocator in GiB, on 1, 2, 4 and 8 ranks of a replica. */
  double non_torch_gib[4];
  double pcie_non_torch_gib; /* 2 ranks and more without custom all-reduce */
  /* One rank in special places; 0 = as everywhere. */
  double pipeline_non_torch_gib;     /* a stage of one rank */
  double cdna_non_torch_gib;         /* a CDNA device */
  double large_device_non_torch_gib; /* a device of 70 GiB and more */
};

struct preset {
  const char *runtime; /* wire name */
  const char *version; /* the newest that the constants stand for */
  enum memory_rule memory_rule;
  double server_constant_s; /* request parsing, tokenising, streaming: before and after the engine */
  double look_ahead_steps;  /* asynchronous scheduling sees a request this many steps late */
  double memory_fraction_ratio;
  double wide_memory_fraction_loss_ratio; /* taken off it where the tensor degree is 4 or more */
  struct memory_traits memory;
  double kv_reserve_output_ratio; /* share of the output held per running sequence: 1 reserves it all, 0.6 grows */
  unsigned max_batch, max_batched_tokens; /* on devices of 70 GiB and more */
  unsigned small_max_batch, small_max_batched_tokens;
  unsigned kv_block_tokens;
  unsigned recv_interval_steps, batch_wait_steps;
  bool has_chunked_prefill, has_prefix_caching;
  double sampler_multiple;   /* logits buffers at the memory profile. MEMORY §3: 3.636 from vLLM 0.17, 9.475 before */
  bool is_old_engine;        /* engines of 2024 and before: more host time a layer and a sequence (core/step.def) */
  bool has_compiled_prefill; /* prefill steps cost the host nothing extra (C++ engines) */
  bool has_prefill_graphs;   /* SGLang: pieces of prefill steps are captured too */
  bool is_eager;             /* no CUDA graphs: the host launches every kernel */
};

/* The preset of the sketch's runtime and version with the sketch's own settings applied, for this device.
   ERR_INVALID with pointer /serving/runtime or /serving/runtime_version. */
enum err preset_resolve(struct preset *out, const struct workload_serving *serving, const struct hardware *hardware,
                        struct error *e) MUST_CHECK;

/* Known runtimes, NULL-terminated, for suggestions. */
extern const char *const preset_runtimes[];

#endif
