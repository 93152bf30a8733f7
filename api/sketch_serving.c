/* The serving block of a sketch: the engine, its layout and its launch settings. */
#include "api/sketch_parts.h"

#include <stdio.h>

#include "api/read.h"
#include "core/preset.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static void read_speculative(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_serving *serving = to;
  const struct read_field fields[] = {
      {.name = "draft_tokens",
       .kind = READ_COUNT,
       .is_required = true,
       .to = &serving->speculative_draft_tokens,
       .min = 1,
       .max = 64},
      {.name = "acceptance_rate",
       .kind = READ_NUMBER,
       .is_required = true,
       .to = &serving->speculative_acceptance_ratio,
       .min = 0,
       .max = 1},
      {.name = "draft_model",
       .kind = READ_TEXT,
       .to = serving->speculative_draft_model,
       .size = sizeof serving->speculative_draft_model},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

static void read_disaggregated(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_serving *serving = to;
  const struct read_field fields[] = {
      {.name = "prefill_replicas",
       .kind = READ_COUNT,
       .is_required = true,
       .to = &serving->prefill_replicas,
       .min = 1,
       .max = SKETCH_GPUS_MAX},
      {.name = "decode_replicas",
       .kind = READ_COUNT,
       .is_required = true,
       .to = &serving->decode_replicas,
       .min = 1,
       .max = SKETCH_GPUS_MAX},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
}

void sketch_read_serving(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct workload_serving *serving = to;
  int runtime = -1;
  const struct read_field fields[] = {
      {.name = "runtime", .kind = READ_WORD, .to = &runtime, .words = preset_runtimes},
      {.name = "runtime_version",
       .kind = READ_TEXT,
       .to = serving->runtime_version,
       .size = sizeof serving->runtime_version},
      {.name = "tensor_parallel", .kind = READ_COUNT, .to = &serving->tensor_parallel, .min = 1, .max = 1024},
      {.name = "pipeline_parallel", .kind = READ_COUNT, .to = &serving->pipeline_parallel, .min = 1, .max = 1024},
      {.name = "expert_parallel", .kind = READ_COUNT, .to = &serving->expert_parallel, .min = 1, .max = 4096},
      {.name = "attention_data_parallel",
       .kind = READ_COUNT,
       .to = &serving->attention_data_parallel,
       .min = 1,
       .max = 1024},
      {.name = "replicas", .kind = READ_COUNT, .to = &serving->replicas, .min = 1, .max = SKETCH_GPUS_MAX},
      {.name = "max_batch", .kind = READ_COUNT, .to = &serving->max_batch, .min = 1, .max = 65536},
      {.name = "max_batched_tokens",
       .kind = READ_COUNT,
       .to = &serving->max_batched_tokens,
       .min = 1,
       .max = SKETCH_TOKENS_MAX},
      {.name = "chunked_prefill", .kind = READ_TRISTATE, .to = &serving->chunked_prefill},
      {.name = "prefix_caching", .kind = READ_TRISTATE, .to = &serving->prefix_caching},
      {.name = "cuda_graphs", .kind = READ_TRISTATE, .to = &serving->cuda_graphs},
      {.name = "recv_interval_steps", .kind = READ_COUNT, .to = &serving->recv_interval_steps, .min = 1, .max = 10000},
      {.name = "batch_wait_steps", .kind = READ_COUNT, .to = &serving->batch_wait_steps, .min = 0, .max = 10000},
      {.name = "kv_block_tokens", .kind = READ_COUNT, .to = &serving->kv_block_tokens, .min = 1, .max = 4096},
      {.name = "memory_fraction", .kind = READ_NUMBER, .to = &serving->memory_fraction_ratio, .min = 0.05, .max = 1},
      {.name = "concurrency_limit", .kind = READ_COUNT, .to = &serving->concurrency_limit, .min = 1, .max = 1e7},
      {.name = "speculative", .kind = READ_CALL, .to = serving, .call = read_speculative},
      {.name = "disaggregated", .kind = READ_CALL, .to = serving, .call = read_disaggregated},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  if (runtime >= 0)
    (void)snprintf(serving->runtime, sizeof serving->runtime, "%s", preset_runtimes[runtime]);
}
