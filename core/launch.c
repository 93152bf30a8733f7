/* Flags as documented for vLLM 0.8 and later, SGLang 0.5 and TensorRT-LLM 1.0. A flag is written where the engine would
   otherwise do something else than what was computed; its own defaults are left alone. */
#include "core/launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum engine_kind { ENGINE_VLLM, ENGINE_SGLANG, ENGINE_TENSORRT, ENGINE_OTHER };

/* Two names and every flag at its longest are about 900 bytes. */
struct text {
  char bytes[2048];
  size_t used;
};

PRINTF_LIKE(2, 3) static void add(struct text *text, const char *format, ...)
{
  const size_t room = sizeof text->bytes - text->used;
  va_list args;
  int length;
  va_start(args, format);
  length = vsnprintf(text->bytes + text->used, room, format, args);
  va_end(args);
  if (length > 0)
    text->used += (size_t)length < room ? (size_t)length : room - 1;
}

static enum engine_kind engine_of(const struct preset *preset)
{
  static const char *const names[] = {"vllm", "sglang", "tensorrt-llm"};
  for (int kind = ENGINE_VLLM; kind < ENGINE_OTHER; kind++)
    if (strcmp(preset->runtime, names[kind]) == 0)
      return (enum engine_kind)kind;
  return ENGINE_OTHER;
}

/* People paste the command into a shell, and names are free text of whoever put the model: what a shell or the engine could
   read otherwise is no name. */
static bool is_plain(const char *name)
{
  static const char *const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";
  return name[0] != '\0' && name[0] != '-' && name[strspn(name, letters)] == '\0';
}

/* What the engine loads; a word to replace where the sketch brings a model without a name. */
static const char *checkpoint(const struct model *model)
{
  if (is_plain(model->hf_id))
    return model->hf_id;
  return is_plain(model->name) ? model->name : "MODEL";
}

static unsigned ranks(const struct layout *layout)
{
  return layout->tensor_parallel * layout->attention_data_parallel;
}

static bool is_16_bit(enum precision precision)
{
  return precision == PRECISION_BF16 || precision == PRECISION_FP16;
}

/* ---- formats ---- */

enum weights_change { WEIGHTS_AS_STORED, WEIGHTS_CAST, WEIGHTS_FP8_ON_LOAD, WEIGHTS_OTHER_CHECKPOINT };

static bool is_wide(enum precision precision)
{
  return is_16_bit(precision) || precision == PRECISION_FP32;
}

static enum weights_change weights_change(const struct search_input *input)
{
  const struct model_precision *stored = &input->model->precision, *served = &input->precision;
  const bool is_stored_wide = is_wide(stored->dense) && is_wide(stored->attention) && is_wide(stored->experts);
  if (served->dense == stored->dense && served->attention == stored->attention && served->experts == stored->experts)
    return WEIGHTS_AS_STORED;
  if (is_stored_wide && is_wide(served->dense) && is_wide(served->experts))
    return WEIGHTS_CAST;
  if (is_stored_wide && served->dense == PRECISION_FP8 && engine_of(&input->preset) < ENGINE_TENSORRT)
    return WEIGHTS_FP8_ON_LOAD;
  return WEIGHTS_OTHER_CHECKPOINT;
}

static const char *dtype_name(enum precision precision)
{
  return precision == PRECISION_FP16 ? "float16" : precision == PRECISION_FP32 ? "float32" : "bfloat16";
}

static void add_weights(struct text *line, const struct search_input *input)
{
  const enum weights_change change = weights_change(input);
  if (change == WEIGHTS_CAST)
    add(line, " --dtype %s", dtype_name(input->precision.dense));
  else if (change == WEIGHTS_FP8_ON_LOAD)
    add(line, " --quantization fp8");
}

/* Engines take the format that the checkpoint states, else that of its activations. */
static bool is_cache_default(const struct search_input *input)
{
  const enum precision stored = input->model->precision.kv_cache, served = input->precision.kv_cache;
  return served == stored || (is_16_bit(served) && (stored == PRECISION_NONE || is_16_bit(stored)));
}

/* ---- vLLM and SGLang ---- */

/* vLLM makes slots for these ranks only. 0 = too large for any. */
static unsigned adapter_slot_rank(unsigned rank)
{
  static const unsigned slots[] = {8, 16, 32, 64, 128, 256, 320, 512};
  for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
    if (rank <= slots[i])
      return slots[i];
  return 0;
}

/* The module of the checkpoint itself; any other head is a checkpoint of its own, which the sketch does not name. */
static bool drafts_with_own_module(const struct search_input *input)
{
  return input->speculation.is_module && input->model->draft.modules > 0;
}

/* The command line of vLLM's first engine has other words for it. */
static bool says_speculation(const struct preset *preset, const struct search_input *input)
{
  const enum engine_kind kind = engine_of(preset);
  const bool is_known = !input->speculation.is_module || drafts_with_own_module(input);
  return is_known && (kind == ENGINE_SGLANG || (kind == ENGINE_VLLM && !preset->is_old_engine));
}

static void add_vllm_speculation(struct text *line, const struct preset *preset, const struct search_input *input)
{
  const struct speculation *speculation = &input->speculation;
  if (speculation->draft_tokens == 0 || !says_speculation(preset, input))
    return;
  if (speculation->is_module)
    add(line, " --speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":%u}'", speculation->draft_tokens);
  else
    add(line, " --speculative-config '{\"model\":\"%s\",\"num_speculative_tokens\":%u}'",
        checkpoint(speculation->model), speculation->draft_tokens);
}

/* The longest sequence that vLLM takes without chunked prefill. */
static unsigned vllm_whole_prompt_tokens(const struct preset *preset, const struct model *model)
{
  const unsigned longest = model->max_context_tokens;
  return longest != 0 && longest < preset->max_batched_tokens ? longest : preset->max_batched_tokens;
}

static void add_vllm_settings(struct text *line, const struct preset *preset, const struct search_input *input)
{
  const struct workload_serving *serving = &input->workload->serving;
  if (preset->is_eager)
    add(line, " --enforce-eager");
  if (!preset->has_chunked_prefill) /* refused where a sequence could be longer than a step */
    add(line, "%s --max-model-len %u", preset->is_old_engine ? "" : " --no-enable-chunked-prefill",
        vllm_whole_prompt_tokens(preset, input->model));
  else if (serving->chunked_prefill == 1)
    add(line, " --enable-chunked-prefill");
  if (serving->prefix_caching == 1)
    add(line, " --enable-prefix-caching");
  if (serving->prefix_caching == 0 && !preset->is_old_engine) /* off there anyway */
    add(line, " --no-enable-prefix-caching");
  if (serving->kv_block_tokens != 0)
    add(line, " --block-size %u", serving->kv_block_tokens);
  if (input->adapters.count != 0 && adapter_slot_rank(input->adapters.rank) != 0)
    add(line, " --enable-lora --max-loras %u --max-lora-rank %u", input->adapters.count,
        adapter_slot_rank(input->adapters.rank));
}

/* Limits are those of one attention rank, as vLLM counts them; it refuses more sequences than tokens in a step. */
static void vllm(struct text *line, const struct candidate *best, const struct search_input *input)
{
  const struct preset *preset = &best->engine.preset;
  const struct layout *layout = &best->layout;
  const unsigned sequences =
      preset->max_batch < preset->max_batched_tokens ? preset->max_batch : preset->max_batched_tokens;
  add(line, "vllm serve %s --tensor-parallel-size %u --pipeline-parallel-size %u", checkpoint(input->model),
      layout->tensor_parallel, layout->pipeline_parallel);
  if (layout->attention_data_parallel > 1)
    add(line, " --data-parallel-size %u", layout->attention_data_parallel);
  if (layout->expert_parallel > 1)
    add(line, " --enable-expert-parallel");
  add(line, " --max-num-seqs %u --max-num-batched-tokens %u --gpu-memory-utilization %.3g", sequences,
      preset->max_batched_tokens, preset->memory_fraction_ratio);
  add_weights(line, input);
  if (!is_cache_default(input) && input->precision.kv_cache == PRECISION_FP8)
    add(line, " --kv-cache-dtype fp8");
  add_vllm_settings(line, preset, input);
  add_vllm_speculation(line, preset, input);
}

static void add_sglang_settings(struct text *line, const struct preset *preset, const struct search_input *input)
{
  const struct workload_serving *serving = &input->workload->serving;
  if (preset->is_eager)
    add(line, " --disable-cuda-graph");
  if (!preset->has_prefix_caching)
    add(line, " --disable-radix-cache");
  if (serving->kv_block_tokens != 0)
    add(line, " --page-size %u", serving->kv_block_tokens);
  if (preset->recv_interval_steps > 1)
    add(line, " --scheduler-recv-interval %u", preset->recv_interval_steps);
  if (input->adapters.count != 0)
    add(line, " --enable-lora --max-loras-per-batch %u --max-lora-rank %u --lora-target-modules all",
        input->adapters.count, input->adapters.rank);
}

/* One chain of drafts, and the token that verifying them adds. */
static void add_sglang_speculation(struct text *line, const struct preset *preset, const struct search_input *input)
{
  const struct speculation *speculation = &input->speculation;
  if (speculation->draft_tokens == 0 || !says_speculation(preset, input))
    return;
  if (speculation->is_module)
    add(line, " --speculative-algorithm EAGLE");
  else
    add(line, " --speculative-algorithm STANDALONE --speculative-draft-model-path %s", checkpoint(speculation->model));
  add(line, " --speculative-num-steps %u --speculative-eagle-topk 1 --speculative-num-draft-tokens %u",
      speculation->draft_tokens, speculation->draft_tokens + 1);
}

/* Tensor degree, sequences and chunk are those of all attention ranks together: SGLang divides them by --dp-size. */
static void sglang(struct text *line, const struct candidate *best, const struct search_input *input)
{
  const struct preset *preset = &best->engine.preset;
  const struct layout *layout = &best->layout;
  const unsigned data = layout->attention_data_parallel;
  const double loss = layout->tensor_parallel >= 4 ? preset->wide_memory_fraction_loss_ratio : 0;
  add(line, "python3 -m sglang.launch_server --model-path %s --tp-size %u --pp-size %u", checkpoint(input->model),
      ranks(layout), layout->pipeline_parallel);
  if (data > 1)
    add(line, " --dp-size %u --enable-dp-attention", data);
  if (layout->expert_parallel > 1)
    add(line, " --ep-size %u", layout->expert_parallel);
  add(line, " --max-running-requests %u", preset->max_batch * data);
  if (preset->has_chunked_prefill)
    add(line, " --chunked-prefill-size %u", preset->max_batched_tokens * data);
  else
    add(line, " --chunked-prefill-size -1 --max-prefill-tokens %u", preset->max_batched_tokens);
  add(line, " --mem-fraction-static %.3g", preset->memory_fraction_ratio - loss);
  add_weights(line, input);
  if (!is_cache_default(input) && input->precision.kv_cache == PRECISION_FP8)
    add(line, " --kv-cache-dtype fp8_e4m3");
  add_sglang_settings(line, preset, input);
  add_sglang_speculation(line, preset, input);
}

/* ---- TensorRT-LLM ---- */

/* What the file says of the cache replaces what the command says of it, so the memory share stands in both. */
static void add_tensorrt_cache(struct text *file, const struct preset *preset, const struct search_input *input)
{
  const struct workload_serving *serving = &input->workload->serving;
  const bool is_fp8 = !is_cache_default(input) && input->precision.kv_cache == PRECISION_FP8;
  if (!is_fp8 && preset->has_prefix_caching && serving->kv_block_tokens == 0)
    return;
  add(file, ", kv_cache_config: {free_gpu_memory_fraction: %.3g", preset->memory_fraction_ratio);
  if (is_fp8)
    add(file, ", dtype: fp8");
  if (!preset->has_prefix_caching)
    add(file, ", enable_block_reuse: false");
  if (serving->kv_block_tokens != 0)
    add(file, ", tokens_per_block: %u", serving->kv_block_tokens);
  add(file, "}");
}

/* Settings without a flag, as the members of a YAML mapping; "" = none. Each begins with ", ". */
static void tensorrt_file(struct text *file, const struct candidate *best, const struct search_input *input)
{
  const struct preset *preset = &best->engine.preset;
  file->bytes[0] = '\0';
  if (best->layout.attention_data_parallel > 1)
    add(file, ", enable_attention_dp: true");
  if (preset->has_chunked_prefill)
    add(file, ", enable_chunked_prefill: true");
  if (preset->is_eager)
    add(file, ", cuda_graph_config: null");
  if (weights_change(input) == WEIGHTS_CAST)
    add(file, ", dtype: %s", dtype_name(input->precision.dense));
  add_tensorrt_cache(file, preset, input);
}

static void tensorrt(struct text *line, const struct candidate *best, const struct search_input *input)
{
  const struct preset *preset = &best->engine.preset;
  struct text file = {.used = 0};
  tensorrt_file(&file, best, input);
  add(line, "trtllm-serve %s --tp_size %u --pp_size %u", checkpoint(input->model), ranks(&best->layout),
      best->layout.pipeline_parallel);
  if (best->layout.expert_parallel > 1)
    add(line, " --ep_size %u", best->layout.expert_parallel);
  add(line, " --max_batch_size %u --max_num_tokens %u --kv_cache_free_gpu_memory_fraction %.3g", preset->max_batch,
      preset->max_batched_tokens, preset->memory_fraction_ratio);
  if (file.used > 0)
    add(line, " --extra_llm_api_options options.yaml");
}

const char *launch_command(const struct candidate *best, const struct search_input *input, struct arena *arena)
{
  struct text line = {.used = 0};
  switch (engine_of(&best->engine.preset)) {
  case ENGINE_VLLM: vllm(&line, best, input); break;
  case ENGINE_SGLANG: sglang(&line, best, input); break;
  case ENGINE_TENSORRT: tensorrt(&line, best, input); break;
  case ENGINE_OTHER:
    add(&line, "%s --model %s --tensor-parallel-size %u", best->engine.preset.runtime, checkpoint(input->model),
        best->layout.tensor_parallel);
    break;
  }
  return arena_printf(arena, "%s", line.bytes);
}

/* ---- what the command can not say ---- */

static void note_weights(struct notes *notes, const struct search_input *input)
{
  const enum weights_change change = weights_change(input);
  const enum precision asked = input->workload->weights;
  if (change == WEIGHTS_OTHER_CHECKPOINT)
    notes_add(notes, "launch: %s is not stored in %s and %s does not convert it on load: name a checkpoint in %s",
              checkpoint(input->model), precision_name(asked), input->preset.runtime, precision_name(asked));
  else if (change == WEIGHTS_FP8_ON_LOAD)
    notes_add(notes, "launch: --quantization fp8 converts on load and scales activations as it runs; a checkpoint in "
                     "fp8 with static scales is what was computed");
}

static void note_model(struct notes *notes, const struct search_input *input)
{
  if (!is_plain(input->model->hf_id) && !is_plain(input->model->name))
    notes_add(notes, "launch: MODEL stands for the path of the checkpoint, which has no name here");
}

static void note_cache(struct notes *notes, const struct search_input *input)
{
  if (!is_cache_default(input) && input->precision.kv_cache != PRECISION_FP8)
    notes_add(notes, "launch: the command lacks an option for a KV cache in %s",
              precision_name(input->precision.kv_cache));
}

static void note_adapters(struct notes *notes, const struct search_input *input, enum engine_kind kind)
{
  const bool is_too_large = kind == ENGINE_VLLM && adapter_slot_rank(input->adapters.rank) == 0;
  if (input->adapters.count == 0)
    return;
  if (kind >= ENGINE_TENSORRT || is_too_large)
    notes_add(notes, "launch: the command lacks the options of adapters");
  else
    notes_add(notes, "launch: name the adapters with %s name=path",
              kind == ENGINE_VLLM ? "--lora-modules" : "--lora-paths");
}

static void note_speculation(struct notes *notes, const struct preset *preset, const struct search_input *input)
{
  if (input->speculation.draft_tokens != 0 && !says_speculation(preset, input))
    notes_add(notes, "launch: the command lacks the options of speculative decoding%s",
              input->speculation.is_module ? ": they name the checkpoint of the draft" : "");
}

static void note_vllm(struct notes *notes, const struct candidate *best, const struct search_input *input)
{
  const struct preset *preset = &best->engine.preset;
  const struct layout *layout = &best->layout;
  if (!preset->has_chunked_prefill)
    notes_add(notes, "launch: without chunked prefill vllm takes sequences of up to %u tokens only, one step's budget",
              vllm_whole_prompt_tokens(preset, input->model));
  if (preset->is_old_engine && (layout->attention_data_parallel > 1 || layout->expert_parallel > 1))
    notes_add(notes, "launch: vllm before 0.8 has neither --data-parallel-size nor --enable-expert-parallel");
}

/* TensorRT-LLM's attention is whole on each GPU or cut over all of them. */
static void note_tensorrt(struct notes *notes, const struct candidate *best, const struct search_input *input)
{
  struct text file = {.used = 0};
  tensorrt_file(&file, best, input);
  if (file.used > 0)
    notes_add(notes, "launch: options.yaml holds {%s}", file.bytes + strlen(", "));
  if (best->layout.attention_data_parallel > 1 && best->layout.tensor_parallel > 1)
    notes_add(notes,
              "launch: tensorrt-llm has no attention over %u ranks of %u GPUs; the command makes it %u ranks of one",
              best->layout.attention_data_parallel, best->layout.tensor_parallel, ranks(&best->layout));
}

/* Only SGLang polls at an interval that it is told; TensorRT-LLM's wait for a batch needs a share of the budget too. */
static void note_waits(struct notes *notes, const struct preset *preset, enum engine_kind kind)
{
  if (preset->recv_interval_steps > 1 && kind != ENGINE_SGLANG)
    notes_add(notes, "launch: the command lacks recv_interval_steps %u: %s has no such option",
              preset->recv_interval_steps, preset->runtime);
  if (preset->batch_wait_steps > 0)
    notes_add(notes, "launch: the command lacks batch_wait_steps %u%s", preset->batch_wait_steps,
              kind == ENGINE_TENSORRT ? ": batch_wait_timeout_iters, beside batch_wait_max_tokens_ratio" : "");
}

/* No other engine's options are known well enough to be written down. */
static void note_other(struct notes *notes, const struct candidate *best)
{
  notes_add(notes, "launch: of %s only the model and the tensor degree are written: set the rest by hand",
            best->engine.preset.runtime);
}

void launch_notes(struct notes *notes, const struct candidate *best, const struct search_input *input)
{
  const struct preset *preset = &best->engine.preset;
  const enum engine_kind kind = engine_of(preset);
  if (kind == ENGINE_OTHER) {
    note_other(notes, best);
    return;
  }
  note_model(notes, input);
  note_weights(notes, input);
  note_cache(notes, input);
  note_adapters(notes, input, kind);
  note_speculation(notes, preset, input);
  note_waits(notes, preset, kind);
  if (kind == ENGINE_VLLM)
    note_vllm(notes, best, input);
  if (kind == ENGINE_TENSORRT)
    note_tensorrt(notes, best, input);
}
