/* The launch command against the flags that the engines document: vLLM's `vllm serve`, SGLang's server arguments,
   TensorRT-LLM's `trtllm-serve` and LlmArgs. */
#include "core/launch.h"

#include <stdalign.h>

#include "core/served.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[1 << 15];

struct problem {
  struct workload workload;
  struct model model, draft;
  struct candidate best;
  struct search_input input;
};

/* Llama-3.1-8B in bf16 on H100, one GPU, 64 sequences, 8192 tokens a step; tests change what they are about. */
static void problem_init(struct problem *p, const char *runtime)
{
  memset(p, 0, sizeof *p);
  p->workload = fixture_workload();
  p->model = fixture_model("llama-3.1-8b");
  fixture_text(p->model.hf_id, sizeof p->model.hf_id, "meta-llama/Meta-Llama-3.1-8B");
  fixture_text(p->workload.serving.runtime, sizeof p->workload.serving.runtime, runtime);
  p->workload.serving.max_batch = 64;
  p->workload.serving.max_batched_tokens = 8192;
  p->best.layout = (struct layout){1, 1, 1, 1};
}

/* Resolves the sketch as the facade does, then writes the command. */
static const char *command(struct problem *p, struct arena *arena)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const char *line;
  struct error e;
  p->input.workload = &p->workload;
  p->input.model = &p->model;
  p->input.precision = served_precision(&p->model, p->workload.weights, p->workload.kv_cache);
  p->input.adapters = (struct adapters){p->workload.adapter_count, p->workload.adapter_rank};
  ck_assert_int_eq(preset_resolve(&p->input.preset, &p->workload.serving, &hardware, &e), ERR_OK);
  p->best.engine.preset = p->input.preset;
  arena_init(arena, memory, sizeof memory);
  line = launch_command(&p->best, &p->input, arena);
  ck_assert_ptr_nonnull(line);
  return line;
}

static void assert_command(struct problem *p, const char *expected)
{
  struct arena arena;
  ck_assert_str_eq(command(p, &arena), expected);
}

/* The command ends in `expected`, and one note holds `said`; "" = no note at all. */
static void assert_tail(struct problem *p, const char *expected, const char *said)
{
  struct arena arena;
  struct notes notes;
  const char *line = command(p, &arena);
  bool is_said = false;
  ck_assert_msg(strlen(line) >= strlen(expected) && strcmp(line + strlen(line) - strlen(expected), expected) == 0,
                "\"%s\" does not end in \"%s\"", line, expected);
  notes_init(&notes, &arena);
  launch_notes(&notes, &p->best, &p->input);
  ck_assert(!notes.is_failed);
  for (size_t i = 0; i < notes.count; i++)
    is_said = is_said || (said[0] != '\0' && strstr(notes.items[i], said) != NULL);
  if (said[0] != '\0')
    ck_assert_msg(is_said, "\"%s\" is not said; %zu notes, first \"%s\"", said, notes.count,
                  notes.count > 0 ? notes.items[0] : "");
  else
    ck_assert_msg(notes.count == 0, "said: \"%s\"", notes.count > 0 ? notes.items[0] : "");
}

#define VLLM "--gpu-memory-utilization 0.92"
#define VLLM_0_7 "--gpu-memory-utilization 0.9"
#define SGLANG "--mem-fraction-static 0.88"
#define TENSORRT "--kv_cache_free_gpu_memory_fraction 0.9"

START_TEST(a_plain_replica)
{
  static struct problem p;
  problem_init(&p, "vllm");
  assert_command(&p, "vllm serve meta-llama/Meta-Llama-3.1-8B --tensor-parallel-size 1 --pipeline-parallel-size 1 "
                     "--max-num-seqs 64 --max-num-batched-tokens 8192 --gpu-memory-utilization 0.92");
  assert_tail(&p, VLLM, "");
  problem_init(&p, "sglang");
  assert_command(&p,
                 "python3 -m sglang.launch_server --model-path meta-llama/Meta-Llama-3.1-8B --tp-size 1 --pp-size 1 "
                 "--max-running-requests 64 --chunked-prefill-size 8192 --mem-fraction-static 0.88");
  assert_tail(&p, SGLANG, "");
  problem_init(&p, "tensorrt-llm");
  assert_command(&p, "trtllm-serve meta-llama/Meta-Llama-3.1-8B --tp_size 1 --pp_size 1 --max_batch_size 64 "
                     "--max_num_tokens 8192 --kv_cache_free_gpu_memory_fraction 0.9");
  assert_tail(&p, TENSORRT, "");
}
END_TEST

/* Two attention ranks of 4 GPUs, experts over all 8. vLLM counts per rank; SGLang counts all and divides by dp-size, and
   its tensor degree is that of all ranks; TensorRT-LLM's attention is data parallel over each GPU or not at all.
   SGLang takes 0.03 off its memory fraction from 4 GPUs on. */
START_TEST(ranks_of_attention_and_experts)
{
  static struct problem p;
  problem_init(&p, "vllm");
  p.best.layout =
      (struct layout){.tensor_parallel = 4, .pipeline_parallel = 1, .expert_parallel = 8, .attention_data_parallel = 2};
  assert_command(&p, "vllm serve meta-llama/Meta-Llama-3.1-8B --tensor-parallel-size 4 --pipeline-parallel-size 1 "
                     "--data-parallel-size 2 --enable-expert-parallel --max-num-seqs 64 "
                     "--max-num-batched-tokens 8192 --gpu-memory-utilization 0.92");
  fixture_text(p.workload.serving.runtime, sizeof p.workload.serving.runtime, "sglang");
  assert_command(&p,
                 "python3 -m sglang.launch_server --model-path meta-llama/Meta-Llama-3.1-8B --tp-size 8 --pp-size 1 "
                 "--dp-size 2 --enable-dp-attention --ep-size 8 --max-running-requests 128 "
                 "--chunked-prefill-size 16384 --mem-fraction-static 0.85");
  fixture_text(p.workload.serving.runtime, sizeof p.workload.serving.runtime, "tensorrt-llm");
  assert_command(&p,
                 "trtllm-serve meta-llama/Meta-Llama-3.1-8B --tp_size 8 --pp_size 1 --ep_size 8 --max_batch_size 64 "
                 "--max_num_tokens 8192 --kv_cache_free_gpu_memory_fraction 0.9 "
                 "--extra_llm_api_options options.yaml");
  assert_tail(&p, "options.yaml", "options.yaml holds {enable_attention_dp: true}");
  assert_tail(&p, "options.yaml", "no attention over 2 ranks of 4 GPUs");
}
END_TEST

START_TEST(weights_in_another_format)
{
  static struct problem p;
  problem_init(&p, "vllm");
  p.workload.weights = PRECISION_FP8;
  assert_tail(&p, VLLM " --quantization fp8", "static scales");
  p.workload.weights = PRECISION_FP16;
  assert_tail(&p, VLLM " --dtype float16", "");
  p.workload.weights = PRECISION_BF16;
  assert_tail(&p, VLLM, "");
  p.workload.weights = PRECISION_INT4;
  assert_tail(&p, VLLM, "name a checkpoint in int4");
  p.workload.weights = PRECISION_NVFP4;
  assert_tail(&p, VLLM, "name a checkpoint in nvfp4");
  problem_init(&p, "vllm"); /* stored in fp8 already: nothing to convert; and no way back */
  fixture_set_precision(&p.model.precision, PRECISION_FP8);
  p.model.precision.kv_cache = PRECISION_NONE;
  assert_tail(&p, VLLM, "");
  p.workload.weights = PRECISION_FP8;
  assert_tail(&p, VLLM, "");
  p.workload.weights = PRECISION_BF16;
  assert_tail(&p, VLLM, "name a checkpoint in bf16");
  problem_init(&p, "sglang");
  p.workload.weights = PRECISION_FP8;
  assert_tail(&p, SGLANG " --quantization fp8", "static scales");
  problem_init(&p, "tensorrt-llm");
  p.workload.weights = PRECISION_FP8;
  assert_tail(&p, TENSORRT, "name a checkpoint in fp8");
}
END_TEST

START_TEST(cache_in_another_format)
{
  static struct problem p;
  problem_init(&p, "vllm");
  p.workload.kv_cache = PRECISION_FP8;
  assert_tail(&p, VLLM " --kv-cache-dtype fp8", "");
  p.model.precision.kv_cache = PRECISION_FP8; /* auto */
  assert_tail(&p, VLLM, "");
  p.workload.kv_cache = PRECISION_BF16;
  assert_tail(&p, VLLM, "lacks an option for a KV cache in bf16");
  problem_init(&p, "vllm");
  p.workload.kv_cache = PRECISION_INT8;
  assert_tail(&p, VLLM, "lacks an option for a KV cache in int8");
  problem_init(&p, "sglang");
  p.workload.kv_cache = PRECISION_FP8;
  assert_tail(&p, SGLANG " --kv-cache-dtype fp8_e4m3", "");
  problem_init(&p, "tensorrt-llm");
  p.workload.kv_cache = PRECISION_FP8;
  assert_tail(&p, TENSORRT " --extra_llm_api_options options.yaml",
              "{kv_cache_config: {free_gpu_memory_fraction: 0.9, dtype: fp8}}");
}
END_TEST

static void ask_for_settings(struct problem *p, const char *runtime)
{
  problem_init(p, runtime);
  p->workload.serving.cuda_graphs = 0;
  p->workload.serving.prefix_caching = 0;
  p->workload.serving.kv_block_tokens = 64;
  p->workload.serving.memory_fraction_ratio = 0.8;
}

START_TEST(settings_of_the_sketch)
{
  static struct problem p;
  ask_for_settings(&p, "vllm");
  assert_tail(&p, "--gpu-memory-utilization 0.8 --enforce-eager --no-enable-prefix-caching --block-size 64", "");
  ask_for_settings(&p, "sglang");
  p.workload.serving.recv_interval_steps = 10;
  p.best.layout.tensor_parallel = 4; /* a stated fraction is taken as it is */
  assert_tail(&p,
              "--mem-fraction-static 0.8 --disable-cuda-graph --disable-radix-cache --page-size 64 "
              "--scheduler-recv-interval 10",
              "");
  ask_for_settings(&p, "tensorrt-llm");
  assert_tail(&p, "--kv_cache_free_gpu_memory_fraction 0.8 --extra_llm_api_options options.yaml",
              "{cuda_graph_config: null, kv_cache_config: {free_gpu_memory_fraction: 0.8, enable_block_reuse: false, "
              "tokens_per_block: 64}}");
}
END_TEST

START_TEST(settings_that_an_engine_lacks_are_admitted)
{
  static struct problem p;
  problem_init(&p, "vllm");
  p.workload.serving.recv_interval_steps = 10;
  assert_tail(&p, VLLM, "lacks recv_interval_steps 10");
  problem_init(&p, "tensorrt-llm");
  p.workload.serving.batch_wait_steps = 20;
  assert_tail(&p, TENSORRT, "lacks batch_wait_steps 20");
}
END_TEST

START_TEST(the_first_engine_has_no_data_parallel_options)
{
  static struct problem p;
  problem_init(&p, "vllm");
  fixture_text(p.workload.serving.runtime_version, sizeof p.workload.serving.runtime_version, "0.7");
  p.best.layout.attention_data_parallel = 2;
  p.workload.serving.prefix_caching = 0; /* off by default there */
  assert_tail(&p, VLLM_0_7 " --max-model-len 8192", "before 0.8");
  p.workload.serving.chunked_prefill = 1;
  assert_tail(&p, VLLM_0_7 " --enable-chunked-prefill", "before 0.8");
}
END_TEST

/* vLLM: "max_num_batched_tokens must be greater than or equal to max_num_seqs"; without chunks it refuses a budget below
   max_model_len. SGLang: -1 turns chunks off. */
START_TEST(what_an_engine_would_refuse_is_not_asked)
{
  static struct problem p;
  problem_init(&p, "vllm");
  p.workload.serving.max_batched_tokens = 32;
  assert_tail(&p, "--max-num-seqs 32 --max-num-batched-tokens 32 " VLLM, "");
  problem_init(&p, "vllm");
  p.workload.serving.chunked_prefill = 0;
  assert_tail(&p, VLLM " --no-enable-chunked-prefill --max-model-len 8192", "up to 8192 tokens");
  problem_init(&p, "sglang");
  p.workload.serving.chunked_prefill = 0;
  assert_tail(&p, "--chunked-prefill-size -1 --max-prefill-tokens 8192 " SGLANG, "");
  problem_init(&p, "tensorrt-llm");
  p.workload.serving.chunked_prefill = 1;
  assert_tail(&p, "options.yaml", "{enable_chunked_prefill: true}");
}
END_TEST

/* A name is free text: nothing that a shell reads otherwise gets into the command. */
START_TEST(the_checkpoint_is_named)
{
  static const char *const hostile[] = {"a b", "x;reboot", "$(id)", "`id`", "-flag", "a'b", "a\nb"};
  static struct problem p;
  struct arena arena;
  problem_init(&p, "vllm");
  p.model.hf_id[0] = '\0';
  ck_assert_ptr_nonnull(strstr(command(&p, &arena), "vllm serve llama-3.1-8b --"));
  for (size_t i = 0; i < FIXTURE_COUNT(hostile); i++) {
    fixture_text(p.model.hf_id, sizeof p.model.hf_id, hostile[i]);
    ck_assert_msg(strstr(command(&p, &arena), "vllm serve llama-3.1-8b --") != NULL, "%s", hostile[i]);
  }
  p.model.name[0] = '\0';
  ck_assert_ptr_nonnull(strstr(command(&p, &arena), "vllm serve MODEL --"));
  assert_tail(&p, VLLM, "MODEL stands for");
}
END_TEST

/* vLLM makes slots for ranks of 8, 16, 32, 64, 128, 256, 320 and 512. */
START_TEST(adapters_have_slots)
{
  static struct problem p;
  problem_init(&p, "vllm");
  p.workload.adapter_count = 4;
  p.workload.adapter_rank = 20;
  assert_tail(&p, VLLM " --enable-lora --max-loras 4 --max-lora-rank 32", "--lora-modules");
  p.workload.adapter_rank = 513;
  assert_tail(&p, VLLM, "lacks the options of adapters");
  problem_init(&p, "sglang");
  p.workload.adapter_count = 4;
  p.workload.adapter_rank = 20;
  assert_tail(&p, SGLANG " --enable-lora --max-loras-per-batch 4 --max-lora-rank 20 --lora-target-modules all",
              "--lora-paths");
  problem_init(&p, "tensorrt-llm");
  p.workload.adapter_count = 4;
  p.workload.adapter_rank = 20;
  assert_tail(&p, TENSORRT, "lacks the options of adapters");
}
END_TEST

static void draft(struct problem *p, const char *runtime, bool is_module)
{
  problem_init(p, runtime);
  p->draft = fixture_model("llama-3.1-8b");
  p->input.speculation = (struct speculation){.draft_tokens = 3, .model = &p->draft, .is_module = is_module};
}

START_TEST(drafts_are_asked_for_where_their_checkpoint_is_known)
{
  static struct problem p;
  draft(&p, "vllm", false);
  assert_tail(&p, " --speculative-config '{\"model\":\"llama-3.1-8b\",\"num_speculative_tokens\":3}'", "");
  draft(&p, "vllm", true);
  assert_tail(&p, VLLM, "lacks the options of speculative decoding: they name the checkpoint");
  p.model.draft.modules = 1;
  assert_tail(&p, " --speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":3}'", "");
  draft(&p, "sglang", false);
  assert_tail(&p,
              SGLANG " --speculative-algorithm STANDALONE --speculative-draft-model-path llama-3.1-8b "
                     "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
              "");
  draft(&p, "tensorrt-llm", false);
  assert_tail(&p, TENSORRT, "lacks the options of speculative decoding");
}
END_TEST

START_TEST(an_engine_of_other_words_is_admitted)
{
  static struct problem p;
  problem_init(&p, "atom");
  assert_tail(&p, "atom --model meta-llama/Meta-Llama-3.1-8B --tensor-parallel-size 1", "set the rest by hand");
}
END_TEST

START_TEST(an_exhausted_arena_gives_none)
{
  static struct problem p;
  struct arena arena;
  problem_init(&p, "vllm");
  (void)command(&p, &arena);
  arena_init(&arena, memory, 16);
  ck_assert_ptr_null(launch_command(&p.best, &p.input, &arena));
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("launch");
  tcase_add_test(tcase, a_plain_replica);
  tcase_add_test(tcase, ranks_of_attention_and_experts);
  tcase_add_test(tcase, weights_in_another_format);
  tcase_add_test(tcase, cache_in_another_format);
  tcase_add_test(tcase, settings_of_the_sketch);
  tcase_add_test(tcase, settings_that_an_engine_lacks_are_admitted);
  tcase_add_test(tcase, the_first_engine_has_no_data_parallel_options);
  tcase_add_test(tcase, what_an_engine_would_refuse_is_not_asked);
  tcase_add_test(tcase, the_checkpoint_is_named);
  tcase_add_test(tcase, adapters_have_slots);
  tcase_add_test(tcase, drafts_are_asked_for_where_their_checkpoint_is_known);
  tcase_add_test(tcase, an_engine_of_other_words_is_admitted);
  tcase_add_test(tcase, an_exhausted_arena_gives_none);
  return fixture_run("core/launch", tcase);
}
