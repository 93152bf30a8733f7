/* Engine presets as a table; a version picks the newest row that is not newer than it. */
#include "core/preset.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One generation of a runtime, from a version on. */
struct preset_row {
  unsigned from[3]; /* major, minor, patch */
  struct preset preset;
};

/* vLLM's memory by generation. MEMORY §3: 0.18 counts other buffers than 0.10; V0 is the engine before V1; up to 0.6.4 the
   CUDA context counts. Figures are medians of start-up logs, cells that no log covers repeat their neighbour. 0.10.1
   samples by kernels that sort no logits where they are installed, as in five of its seven logs (one machine). */
#define VLLM_MEMORY_0_18                                                                                               \
  .has_window_groups = true, .has_expert_workspace = true, .has_native_mxfp4 = true, .state_blocks = 2,                \
  .attention_workspace_gib = 0.125, .non_torch_gib = {0.25, 2.07, 2.17, 2.17}, .pcie_non_torch_gib = 0.25,             \
  .pipeline_non_torch_gib = 0.07
#define VLLM_MEMORY_0_8 .non_torch_gib = {0.13, 0.55, 1.84, 1.84}, .pcie_non_torch_gib = 0.21
#define VLLM_MEMORY_0_10 VLLM_MEMORY_0_8, .has_window_groups = true, .state_blocks = 1
#define VLLM_MEMORY_0_10_1                                                                                             \
  .has_window_groups = true, .state_blocks = 1, .non_torch_gib = {0.02, 0.12, 0.14, 0.14}, .pcie_non_torch_gib = 0.21
#define VLLM_MEMORY_V0                                                                                                 \
  .is_first_engine = true, .state_blocks = 1, .non_torch_gib = {0.07, 3.58, 1.39, 2.10}, .pcie_non_torch_gib = 0.20,   \
  .cdna_non_torch_gib = 6.07
#define VLLM_MEMORY_0_6_5                                                                                              \
  .is_first_engine = true, .latent_cache = LATENT_CACHE_FULL_HEADS, .state_blocks = 1,                                 \
  .non_torch_gib = {0.14, 3.58, 1.39, 2.10}, .pcie_non_torch_gib = 0.20, .cdna_non_torch_gib = 6.07
#define VLLM_MEMORY_0_6_4                                                                                              \
  .is_first_engine = true, .latent_cache = LATENT_CACHE_FULL_HEADS, .state_blocks = 1,                                 \
  .non_torch_gib = {0.41, 3.58, 1.79, 2.10}, .pcie_non_torch_gib = 0.41, .cdna_non_torch_gib = 6.07,                   \
  .large_device_non_torch_gib = 1.79

/* The others keep their buffers outside of the framework's allocator too; no log tells how much. */
#define SGLANG_MEMORY .state_blocks = 1, .non_torch_gib = {0.25, 2.07, 2.17, 2.17}, .pcie_non_torch_gib = 0.25
#define TENSORRT_MEMORY SGLANG_MEMORY

#define VLLM_COMMON                                                                                                    \
  .runtime = "vllm", .memory_rule = MEMORY_RULE_VLLM, .kv_reserve_output_ratio = 0.6, .kv_block_tokens = 16,           \
  .recv_interval_steps = 1, .server_constant_s = 15 * MS
#define VLLM_V1                                                                                                        \
  VLLM_COMMON, .look_ahead_steps = 1, .max_batch = 1024, .max_batched_tokens = 8192, .small_max_batch = 256,           \
               .small_max_batched_tokens = 2048, .has_chunked_prefill = true, .has_prefix_caching = true
/* From 0.6 on, outputs of a step are handled while the next one runs. */
#define VLLM_V0                                                                                                        \
  VLLM_COMMON, .look_ahead_steps = 1, .memory_fraction_ratio = 0.9, .max_batch = 256, .max_batched_tokens = 2048,      \
               .small_max_batch = 256, .small_max_batched_tokens = 2048, .sampler_multiple = 9.475,                    \
               .is_old_engine = true

#define TENSORRT_COMMON                                                                                                \
  .runtime = "tensorrt-llm", .memory_rule = MEMORY_RULE_TENSORRT, .memory_fraction_ratio = 0.9,                        \
  .memory = {TENSORRT_MEMORY}, .kv_reserve_output_ratio = 1.0, .kv_block_tokens = 32, .recv_interval_steps = 1,        \
  .look_ahead_steps = 0, .max_batch = 2048, .max_batched_tokens = 8192, .small_max_batch = 2048,                       \
  .small_max_batched_tokens = 8192, .has_chunked_prefill = false, .has_prefix_caching = true,                          \
  .sampler_multiple = 3.636

#define SGLANG_COMMON                                                                                                  \
  .runtime = "sglang", .memory_rule = MEMORY_RULE_SGLANG, .memory_fraction_ratio = 0.88,                               \
  .wide_memory_fraction_loss_ratio = 0.03, .memory = {SGLANG_MEMORY}, .kv_reserve_output_ratio = 0.6,                  \
  .kv_block_tokens = 1, .recv_interval_steps = 1, .server_constant_s = 30 * MS, .look_ahead_steps = 1,                 \
  .max_batch = 1024, .max_batched_tokens = 8192, .small_max_batch = 256, .small_max_batched_tokens = 8192,             \
  .has_chunked_prefill = true, .has_prefix_caching = true, .sampler_multiple = 3.636

/* Newest first. */
static const struct preset_row rows[] = {
    {{0, 21, 0},
     {VLLM_V1, .memory_fraction_ratio = 0.92, .version = "0.28", .sampler_multiple = 3.636,
      .memory = {VLLM_MEMORY_0_18, .has_graphs_in_budget = true}}},
    {{0, 18, 0},
     {VLLM_V1, .memory_fraction_ratio = 0.9, .version = "0.20", .sampler_multiple = 3.636,
      .memory = {VLLM_MEMORY_0_18}}},
    {{0, 17, 0},
     {VLLM_V1, .memory_fraction_ratio = 0.9, .version = "0.17", .sampler_multiple = 3.636,
      .memory = {VLLM_MEMORY_0_8, .has_window_groups = true, .has_expert_workspace = true, .has_native_mxfp4 = true,
                 .state_blocks = 2}}},
    {{0, 11, 0},
     {VLLM_V1, .memory_fraction_ratio = 0.9, .version = "0.16", .sampler_multiple = 9.475,
      .memory = {VLLM_MEMORY_0_8, .has_window_groups = true, .has_expert_workspace = true, .has_native_mxfp4 = true,
                 .state_blocks = 1}}},
    {{0, 10, 2},
     {VLLM_V1, .memory_fraction_ratio = 0.9, .version = "0.10", .sampler_multiple = 9.475,
      .memory = {VLLM_MEMORY_0_10}}},
    {{0, 10, 1},
     {VLLM_V1, .memory_fraction_ratio = 0.9, .version = "0.10.1", .sampler_multiple = 3.636,
      .memory = {VLLM_MEMORY_0_10_1}}},
    {{0, 10, 0},
     {VLLM_V1, .memory_fraction_ratio = 0.9, .version = "0.10.0", .sampler_multiple = 9.475,
      .memory = {VLLM_MEMORY_0_10}}},
    {{0, 8, 0},
     {VLLM_V1, .memory_fraction_ratio = 0.9, .version = "0.9", .sampler_multiple = 9.475,
      .memory = {VLLM_MEMORY_0_8, .state_blocks = 1}}},
    {{0, 7, 0},
     {VLLM_V0, .version = "0.7",
      .memory = {VLLM_MEMORY_V0, .latent_cache = LATENT_CACHE_PADDED, .has_absorbed_latent = true}}},
    {{0, 6, 5}, {VLLM_V0, .version = "0.6.6", .memory = {VLLM_MEMORY_0_6_5}}},
    {{0, 0, 0}, {VLLM_V0, .version = "0.6.4", .memory = {VLLM_MEMORY_0_6_4}}},
    {{0, 5, 10}, {SGLANG_COMMON, .version = "0.5.12", .has_prefill_graphs = true}},
    {{0, 0, 0}, {SGLANG_COMMON, .version = "0.5.9"}},
    {{0, 20, 0}, {TENSORRT_COMMON, .version = "1.0", .server_constant_s = 20 * MS}},
    {{0, 0, 0}, /* C++ runtime: compiled engines, measured in process */
     {TENSORRT_COMMON, .version = "0.9", .server_constant_s = 5 * MS, .has_compiled_prefill = true}},
    {{0, 0, 0},
     {.runtime = "atom",
      .version = "0.1",
      .memory_rule = MEMORY_RULE_VLLM,
      .memory_fraction_ratio = 0.9,
      .memory = {VLLM_MEMORY_0_18},
      .kv_reserve_output_ratio = 0.6,
      .kv_block_tokens = 16,
      .recv_interval_steps = 1,
      .server_constant_s = 25 * MS,
      .look_ahead_steps = 0,
      .max_batch = 1024,
      .max_batched_tokens = 16384,
      .small_max_batch = 256,
      .small_max_batched_tokens = 16384,
      .has_chunked_prefill = true,
      .has_prefix_caching = true,
      .sampler_multiple = 3.636}},
    {{0, 0, 0},
     {.runtime = "llama.cpp", /* one sequence, whole layers on each device; not offered to sketches */
      .version = "b2833",
      .memory_rule = MEMORY_RULE_LLAMA_CPP,
      .memory_fraction_ratio = 1,
      .memory = {.non_torch_gib = {0.5, 0.5, 0.5, 0.5}, .pcie_non_torch_gib = 0.5},
      .kv_reserve_output_ratio = 1.0,
      .kv_block_tokens = 1,
      .recv_interval_steps = 1,
      .max_batch = 1,
      .max_batched_tokens = 512,
      .small_max_batch = 1,
      .small_max_batched_tokens = 512}},
    {{0, 0, 0},
     {.runtime = "splitwise-2023", /* hand-written eager engine of a published profile; not offered to sketches */
      .version = "2023",
      .memory_rule = MEMORY_RULE_VLLM,
      .memory_fraction_ratio = 0.9,
      .memory = {VLLM_MEMORY_0_18},
      .kv_reserve_output_ratio = 1.0,
      .kv_block_tokens = 16,
      .recv_interval_steps = 1,
      .max_batch = 65536,
      .max_batched_tokens = 1048576,
      .small_max_batch = 65536,
      .small_max_batched_tokens = 1048576,
      .sampler_multiple = 3.636,
      .is_eager = true}},
};

const char *const preset_runtimes[] = {"vllm", "sglang", "tensorrt-llm", "atom", NULL};

/* "0.19", "v0.19.1", "1.2.0rc3" → major, minor and patch; what is not given is 0. */
static bool parse_version(unsigned version[3], const char *text)
{
  version[0] = version[1] = version[2] = 0;
  if (*text == 'v')
    text++;
  if (*text < '0' || *text > '9')
    return false;
  for (int i = 0; i < 3; i++) {
    char *end;
    version[i] = (unsigned)strtoul(text, &end, 10);
    if (*end != '.' || end[1] < '0' || end[1] > '9')
      break;
    text = end + 1;
  }
  return true;
}

static bool row_applies(const struct preset_row *row, const unsigned version[3])
{
  for (int i = 0; i < 3; i++)
    if (version[i] != row->from[i])
      return version[i] > row->from[i];
  return true;
}

static enum err find_row(const struct preset_row **out, const struct workload_serving *serving, struct error *e)
{
  const char *runtime = serving->runtime[0] != '\0' ? serving->runtime : "vllm";
  unsigned version[3] = {0xffff, 0, 0}; /* not given: newer than every row */
  bool is_known = false;
  *out = &rows[0];
  if (serving->runtime_version[0] != '\0' && !parse_version(version, serving->runtime_version))
    return error_set(e, ERR_INVALID, "/serving/runtime_version", "\"%s\" is not a version; expected one like \"0.19\"",
                     serving->runtime_version);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].preset.runtime, runtime) != 0)
      continue;
    is_known = true;
    if (row_applies(&rows[i], version)) {
      *out = &rows[i];
      return ERR_OK;
    }
  }
  if (is_known)
    return error_set(e, ERR_INVALID, "/serving/runtime_version", "no preset of %s covers \"%s\"", runtime,
                     serving->runtime_version);
  return error_set(e, ERR_INVALID, "/serving/runtime",
                   "no preset for runtime \"%s\"; known: vllm, sglang, tensorrt-llm, atom", runtime);
}

/* Up to 0.10 vLLM runs Volta and Turing devices with its first engine. */
static const struct memory_traits *memory_of(const struct preset_row *row, const struct hardware *hardware)
{
  static const struct memory_traits first_engine = {VLLM_MEMORY_V0, .latent_cache = LATENT_CACHE_COMPRESSED};
  const bool is_between = row->from[0] == 0 && row->from[1] >= 8 && row->from[1] <= 10;
  const bool is_vllm = strcmp(row->preset.runtime, "vllm") == 0;
  return is_vllm && is_between && hardware->family == HARDWARE_VOLTA ? &first_engine : &row->preset.memory;
}

/* MEMORY §3: vLLM's own rule for its defaults is the device's memory; from 0.9 on it leaves the A100 out, whose prompts
   gain nothing from larger steps. */
static bool has_large_defaults(const struct preset_row *row, const struct hardware *hardware)
{
  const bool leaves_out = strcmp(row->preset.runtime, "vllm") == 0 && row->from[0] == 0 && row->from[1] >= 10;
  if (leaves_out && hardware->family == HARDWARE_AMPERE_DC)
    return false;
  return hardware_memory_bytes(hardware, NULL) >= 70 * GIB;
}

static void override_count(unsigned *value, unsigned given)
{
  if (given != 0)
    *value = given;
}

static void apply_settings(struct preset *preset, const struct workload_serving *serving)
{
  override_count(&preset->max_batch, serving->max_batch);
  override_count(&preset->max_batched_tokens, serving->max_batched_tokens);
  override_count(&preset->kv_block_tokens, serving->kv_block_tokens);
  override_count(&preset->recv_interval_steps, serving->recv_interval_steps);
  override_count(&preset->batch_wait_steps, serving->batch_wait_steps);
  if (serving->chunked_prefill >= 0)
    preset->has_chunked_prefill = serving->chunked_prefill != 0;
  if (serving->prefix_caching >= 0)
    preset->has_prefix_caching = serving->prefix_caching != 0;
  if (serving->cuda_graphs >= 0)
    preset->is_eager = serving->cuda_graphs == 0;
  if (!isnan(serving->memory_fraction_ratio)) {
    preset->memory_fraction_ratio = serving->memory_fraction_ratio;
    preset->wide_memory_fraction_loss_ratio = 0;
  }
}

enum err preset_resolve(struct preset *out, const struct workload_serving *serving, const struct hardware *hardware,
                        struct error *e)
{
  const struct preset_row *row = NULL;
  enum err err = find_row(&row, serving, e);
  if (err != ERR_OK)
    return err;
  *out = row->preset;
  out->memory = *memory_of(row, hardware);
  if (!has_large_defaults(row, hardware)) {
    out->max_batch = out->small_max_batch;
    out->max_batched_tokens = out->small_max_batched_tokens;
  }
  apply_settings(out, serving);
  return ERR_OK;
}
