/* Memory of a replica against figures that engines printed at start (tests/data/memory/memory_open.csv: vLLM on H100
   80 GB unless said) and against sums by hand. */
#include "core/memory.h"

#include "core/parallel.h"
#include "tests/core/fixtures.h"

/* One start of vLLM 0.17-0.19; `point` is that of memory_open.csv. NAN = not printed. kv_gib, tokens as printed. */
struct start {
  const char *point, *model;
  enum precision precision;
  unsigned tp, pp;
  double weights_gib, activation_gib, kv_gib, kv_tokens;
};
static const struct start *starts(size_t *count)
{
  static const struct start rows[] = {
      {"p003", "llama-3.1-70b", PRECISION_FP8, 2, 1, 33.88, 1.96, 37.28, 244304},
      {"p004", "llama-3.1-70b", PRECISION_FP8, 4, 1, 16.96, 1.97, 54.09, 708992},
      {"p019", "llama-3.1-8b", PRECISION_FP8, 1, 1, 8.49, 1.89, 64.61, 529248},
      {"p025", "llama-3.1-8b", PRECISION_BF16, 1, 4, 4.26, (double)NAN, 68.89, 2257264},
      {"p026", "llama-3.1-8b", PRECISION_BF16, 2, 1, 7.51, 1.89, 63.76, 1044688},
      {"p027", "llama-3.1-8b", PRECISION_BF16, 4, 1, 3.77, 1.89, 67.44, 2209792},
      {"p032", "phi-4", PRECISION_BF16, 1, 1, 27.39, 1.52, 46.08, 241568},
      {"p044", "qwen2-72b", PRECISION_BF16, 2, 1, 67.8, 2.29, 3.04, 19920},
      {"p048", "qwen2-7b", PRECISION_BF16, 2, 1, 7.12, 2.21, 63.84, 2390592},
      {"p049", "qwen2-7b", PRECISION_BF16, 4, 1, 3.55, 2.21, 67.34, 5043280},
      {"p051", "qwen3-8b", PRECISION_BF16, 1, 1, 15.27, 2.21, 57.5, 418688},
      {"p053", "llama-3.1-8b", PRECISION_INT4, 1, 1, 5.38, 1.89, 67.71, 554704},
      {"p057", "qwen2-7b", PRECISION_INT8, 1, 1, 8.14, 2.21, 64.64, 1210272},
      {"p062", "granite-3.1-8b", PRECISION_BF16, 4, 1, 3.87, (double)NAN, 68.39, 1792912},
      {"p066", "qwen2-72b", PRECISION_BF16, 4, 1, 33.98, (double)NAN, 36.74, 481600},
      {"p067", "llama-3.1-70b", PRECISION_INT8, 1, 1, 67.72, (double)NAN, 5.01, 16416},
      {"p197", "qwen3-14b", PRECISION_BF16, 1, 1, 27.52, 2.23, 45.23, (double)NAN},
      {"p198", "qwen3-8b", PRECISION_BF16, 1, 3, 5.48, (double)NAN, (double)NAN, (double)NAN},
  };
  *count = FIXTURE_COUNT(rows);
  return rows;
}

/* The logs ran at utilisation 0.95, 8192 batched tokens, 1024 sequences. */
static struct preset log_preset(const struct hardware *hardware)
{
  struct preset preset = fixture_preset(hardware, "vllm", "0.19");
  preset.memory_fraction_ratio = 0.95;
  ck_assert_uint_eq(preset.max_batch, 1024);
  ck_assert_uint_eq(preset.max_batched_tokens, 8192);
  return preset;
}

static void plan_start(struct memory_plan *plan, const struct start *start)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model(start->model);
  const struct layout layout = {start->tp, start->pp, 1, 1};
  const struct preset preset = log_preset(&hardware);
  struct model_precision precision;
  fixture_set_precision(&precision, start->precision);
  if (start->precision == PRECISION_INT4)
    precision.quantised_weight_bytes = 0.5 + 2.0 / 128; /* symmetric, one 16-bit scale a group of 128 */
  memory_plan(plan, &model, &hardware, &layout, &precision, &preset);
}

/* 1 % (CORE §8) plus half a printed digit. */
START_TEST(weights_are_within_one_percent_of_what_was_printed)
{
  size_t count;
  const struct start *rows = starts(&count);
  for (size_t i = 0; i < count; i++) {
    struct memory_plan plan;
    double gib;
    plan_start(&plan, &rows[i]);
    gib = plan.weights_bytes / GIB;
    printf("%s %-14s tp %u pp %u weights %.3f printed %.3f\n", rows[i].point, rows[i].model, rows[i].tp, rows[i].pp,
           gib, rows[i].weights_gib);
    ck_assert_msg(fabs(gib - rows[i].weights_gib) <= 0.01 * rows[i].weights_gib + 0.005,
                  "%s %s tp %u pp %u: weights %.3f GiB, printed %.3f", rows[i].point, rows[i].model, rows[i].tp,
                  rows[i].pp, gib, rows[i].weights_gib);
  }
}
END_TEST

START_TEST(activation_peak_is_within_a_tenth_of_a_gib_of_what_was_printed)
{
  size_t count, checked = 0;
  const struct start *rows = starts(&count);
  for (size_t i = 0; i < count; i++) {
    struct memory_plan plan;
    if (isnan(rows[i].activation_gib))
      continue;
    plan_start(&plan, &rows[i]);
    ck_assert_msg(fabs(plan.activations_bytes / GIB - rows[i].activation_gib) <= 0.1,
                  "%s %s: activation %.3f GiB, printed %.3f", rows[i].point, rows[i].model,
                  plan.activations_bytes / GIB, rows[i].activation_gib);
    checked++;
  }
  ck_assert_uint_ge(checked, 12);
}
END_TEST

/* Within 1 % of the budget 0.95 · 81091 MiB = 75.23 GiB (MEMORY §5.1: the pool may be a small remainder). For p025 (four
   stages) the smallest pool decides: printed tokens · 2 · 8 layers · 8 heads · 128 · 2 B = 68.89 GiB. */
START_TEST(kv_pool_is_within_one_percent_of_the_budget_of_what_was_printed)
{
  const double budget_gib = 0.95 * 81091 / 1024;
  size_t count, checked = 0, missed = 0;
  const struct start *rows = starts(&count);
  for (size_t i = 0; i < count; i++) {
    struct memory_plan plan;
    double off;
    if (isnan(rows[i].kv_gib))
      continue;
    plan_start(&plan, &rows[i]);
    off = (plan.kv_cache_bytes / GIB - rows[i].kv_gib) / budget_gib;
    printf("%s %-14s tp %u pp %u kv %.2f printed %.2f: %+.2f %% of the budget\n", rows[i].point, rows[i].model,
           rows[i].tp, rows[i].pp, plan.kv_cache_bytes / GIB, rows[i].kv_gib, 100 * off);
    missed += fabs(off) > 0.01;
    checked++;
  }
  ck_assert_uint_ge(checked, 15);
  ck_assert_msg(missed == 0, "%zu of %zu KV pools are off by more than 1 %% of the budget", missed, checked);
}
END_TEST

/* Tokens of a pool that is printed to 0.01 GiB: exact to a block, given the rounding of the print. */
START_TEST(tokens_of_a_printed_pool_are_exact_to_a_block)
{
  size_t count, checked = 0;
  const struct start *rows = starts(&count);
  for (size_t i = 0; i < count; i++) {
    struct memory_plan plan;
    double per_token, low, high;
    if (isnan(rows[i].kv_tokens))
      continue;
    plan_start(&plan, &rows[i]);
    per_token = plan.kv_growing_per_token_bytes;
    low = floor((rows[i].kv_gib - 0.005) * GIB / per_token / 16) * 16;
    high = floor((rows[i].kv_gib + 0.005) * GIB / per_token / 16) * 16;
    ck_assert_msg(rows[i].kv_tokens >= low - 16 && rows[i].kv_tokens <= high + 16,
                  "%s %s: %.0f tokens printed, pool gives %.0f to %.0f", rows[i].point, rows[i].model,
                  rows[i].kv_tokens, low, high);
    ck_assert(fabs(fmod(plan.kv_tokens, 16)) <= 0);
    checked++;
  }
  ck_assert_uint_ge(checked, 15);
}
END_TEST

/* Llama-3.1-8B, one GPU, bf16, by hand. Per layer in elements: qkv 4096·(32+8+8)·128 = 25,165,824; o 4096² = 16,777,216;
   gate_up 4096·28672 = 117,440,512; down 58,720,256: in bytes 48, 32, 224 and 112 MiB, all multiples of 2 MiB, so the
   allocator adds nothing; norms 2·4096·2 B = 16 KiB. 32 layers: 416 MiB + 16 KiB each = 13,312.5 MiB.
   Tables: 128,256 is a multiple of 64; 128,256·4096·2 B = 1,002 MiB each, two of them. Rotary 131,072·128·2 B = 32 MiB.
   Final norm 8 KiB. Sum 13,312.5 + 2,004 + 32 + 0.0078 = 15,348.508 MiB = 14.98877 GiB; vLLM prints 14.9888 (p087). */
START_TEST(weights_of_llama_8b_by_hand)
{
  const struct model model = fixture_model("llama-3.1-8b");
  const struct layout layout = {1, 1, 1, 1};
  struct model_precision precision;
  fixture_set_precision(&precision, PRECISION_BF16);
  assert_close(memory_weights_bytes(&model, &layout, &precision) / MIB, 15348.5078125, 1e-9);
  assert_close(memory_weights_bytes(&model, &layout, &precision) / GIB, 14.9888, 4e-6);
}
END_TEST

/* Printed by vLLM 0.6 to 0.28 on other cards: p120 p081 p091 p114 p074 p149. */
START_TEST(weights_do_not_depend_on_the_version_of_the_engine)
{
  static const struct {
    const char *model;
    unsigned tp;
    double gib;
  } rows[] = {{"llama-3-8b", 1, 14.9595}, {"llama-3-8b", 2, 7.48}, {"llama-3.1-8b", 2, 7.5122},
              {"qwen2-7b", 1, 14.25},     {"qwen2-7b", 2, 7.1217}, {"qwen3-14b", 1, 27.52}};
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    const struct model model = fixture_model(rows[i].model);
    const struct layout layout = {rows[i].tp, 1, 1, 1};
    struct model_precision precision;
    fixture_set_precision(&precision, PRECISION_BF16);
    assert_close(memory_weights_bytes(&model, &layout, &precision) / GIB, rows[i].gib, 0.01);
  }
}
END_TEST

/* What is stored beside the decoder (vision tower, projector) is on the GPU too: SigLIP and projector of Gemma-3 take
   0.79 GiB (MEMORY §1). 400 million parameters of 2 B on top of Llama-3.1-8B. */
START_TEST(parameters_beside_the_decoder_take_memory)
{
  struct model model = fixture_model("llama-3.1-8b");
  const struct layout layout = {1, 1, 1, 1};
  struct model_precision precision;
  double without;
  fixture_set_precision(&precision, PRECISION_BF16);
  without = memory_weights_bytes(&model, &layout, &precision);
  model.extra_parameters = 400000000;
  assert_close(memory_weights_bytes(&model, &layout, &precision) - without, 800e6, 0.01);
}
END_TEST

/* Group scales of the checkpoint, where it says so: 0.53 B of int4 by default, here 0.6. Linear weights of Llama-3.1-8B:
   32 · 218,103,808 = 6,979,321,856. */
START_TEST(a_checkpoints_own_bytes_per_weight_count)
{
  struct model model = fixture_model("llama-3.1-8b");
  const struct layout layout = {1, 1, 1, 1};
  struct model_precision precision;
  double by_default;
  fixture_set_precision(&precision, PRECISION_INT4);
  by_default = memory_weights_bytes(&model, &layout, &precision);
  precision.quantised_weight_bytes = model.precision.quantised_weight_bytes = 0.6;
  assert_close(memory_weights_bytes(&model, &layout, &precision) - by_default, (0.6 - 0.53) * 6979321856.0, 0.02);
}
END_TEST

/* The rules of MEMORY §3-4 for one model on one device, 8B on H100 (total 81091 MiB = 79.191 GiB), from the parts:
   vLLM: 0.9·total - weights - activations - 0.25 GiB.
   SGLang: 0.88·free_before - weights, with free_before = total less a context of 0.5 GiB.
   TensorRT-LLM: 0.9 of what is free after weights, activations and buffers. */
START_TEST(each_engine_sizes_its_pool_by_its_own_rule)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-8b");
  const struct layout layout = {1, 1, 1, 1};
  const double total = 81091 * MIB, weights = 15348.5078125 * MIB;
  struct model_precision precision;
  struct preset preset = fixture_preset(&hardware, "vllm", "0.19");
  struct memory_plan plan;
  fixture_set_precision(&precision, PRECISION_BF16);
  memory_plan(&plan, &model, &hardware, &layout, &precision, &preset);
  assert_close(plan.total_bytes, total, 1e-12);
  assert_close(plan.kv_cache_bytes, 0.9 * total - weights - plan.activations_bytes - 0.25 * GIB, 1e-9);
  preset = fixture_preset(&hardware, "sglang", "");
  memory_plan(&plan, &model, &hardware, &layout, &precision, &preset);
  assert_close(plan.kv_cache_bytes, 0.88 * (total - 0.5 * GIB) - weights, 1e-9);
  preset = fixture_preset(&hardware, "tensorrt-llm", "");
  memory_plan(&plan, &model, &hardware, &layout, &precision, &preset);
  assert_close(plan.kv_cache_bytes, 0.9 * (total - weights - plan.activations_bytes - 0.25 * GIB), 1e-9);
  assert_close(plan.usable_bytes,
               plan.weights_bytes + plan.activations_bytes + plan.runtime_bytes + plan.kv_cache_bytes, 1e-9);
}
END_TEST

/* Sampler term of MEMORY §3 for vLLM 0.16 (a = 9.475), Llama-3.1-8B, S 1024, T 8192:
   9.475·4·128256·1024 + 8192·(2.39·4096 + 4429) = 4,977,563,238 + 116,477,297 B = 4.744 GiB (printed with 0.11: 4.76). */
START_TEST(older_versions_profile_a_larger_sampler)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-8b");
  const struct layout layout = {1, 1, 1, 1};
  const struct preset preset = fixture_preset(&hardware, "vllm", "0.11");
  struct model_precision precision;
  struct memory_plan plan;
  fixture_set_precision(&precision, PRECISION_BF16);
  memory_plan(&plan, &model, &hardware, &layout, &precision, &preset);
  assert_close(plan.activations_bytes / GIB, 4.744, 1e-3);
  ck_assert(fabs(plan.activations_bytes / GIB - 4.76) < 0.1);
}
END_TEST

/* Blocks of 16: 1 token holds 16, 17 tokens 32. 8B: 32 layers · 2 · 8 · 128 · 2 B = 131,072 B a token; tp 8 one head an
   eighth; tp 16 still one head (replicated); fp8 half. */
START_TEST(a_sequence_holds_whole_blocks)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-8b");
  const struct preset preset = fixture_preset(&hardware, "vllm", "0.19");
  struct layout layout = {1, 1, 1, 1};
  struct model_precision precision;
  fixture_set_precision(&precision, PRECISION_BF16);
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 1), 16 * 131072, 1e-12);
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 17), 32 * 131072, 1e-12);
  layout.tensor_parallel = 8;
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 16), 16 * 131072 / 8.0, 1e-12);
  layout.tensor_parallel = 16;
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 16), 16 * 131072 / 8.0, 1e-12);
  precision.kv_cache = PRECISION_FP8;
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 16), 16 * 131072 / 16.0, 1e-12);
}
END_TEST

/* A window of 4096 stops growing: 100,000 tokens hold no more than the window and one partly filled block. */
START_TEST(a_window_bounds_what_a_sequence_holds)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct preset preset = fixture_preset(&hardware, "sglang", "");
  const struct layout layout = {1, 1, 1, 1};
  struct model model = fixture_model("llama-3.1-8b");
  struct model_precision precision;
  fixture_set_precision(&precision, PRECISION_BF16);
  model.layers[0].attention.window_tokens = 4096;
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 1000), 1000 * 131072.0, 1e-12);
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 100000), 4096 * 131072.0, 0.01);
}
END_TEST

/* One request on one GPU of the fullest stage can not be smaller than its tokens in that stage's layers: 126 layers over
   4 stages are 32 + 32 + 31 + 31. */
START_TEST(the_fullest_stage_holds_whole_layers)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-405b");
  const struct preset preset = fixture_preset(&hardware, "vllm", "0.19");
  const struct layout layout = {8, 4, 1, 1};
  struct model_precision precision;
  struct memory_plan plan;
  fixture_set_precision(&precision, PRECISION_BF16);
  memory_plan(&plan, &model, &hardware, &layout, &precision, &preset);
  assert_close(plan.kv_growing_per_token_bytes, 32 * 2 * 128 * 2.0, 1e-12);
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 1600), 1600 * 32 * 2 * 128 * 2.0, 1e-12);
}
END_TEST

/* Llama-3.1-70B bf16 on H100, vLLM: budget 0.9·79.191 = 71.27 GiB a GPU. One GPU: 131.4 GiB of weights. Two: 65.7 weights
   + 2.07 buffers + 1.96 activation = 69.8; 1.5 GiB are left and one request of 2304 tokens takes 2304 · 163,840 B =
   0.35 GiB. */
START_TEST(llama_70b_needs_two_gpus)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-70b");
  const struct preset preset = fixture_preset(&hardware, "vllm", "0.19");
  struct model_precision precision;
  struct layout layout;
  fixture_set_precision(&precision, PRECISION_BF16);
  ck_assert_uint_eq(memory_min_gpus(&layout, &model, &hardware, &precision, &preset, 2304), 2);
  ck_assert_uint_eq(layout.tensor_parallel, 2);
  ck_assert_uint_eq(layout.pipeline_parallel, 1);
  fixture_set_precision(&precision, PRECISION_FP8); /* 67.7 GiB and 1.96 activation: room for KV as p067 printed */
  ck_assert_uint_eq(memory_min_gpus(&layout, &model, &hardware, &precision, &preset, 2304), 1);
}
END_TEST

/* Llama-3.1-405B bf16 on H100. A layer: qkv 16384·(128+8+8)·128 = 301,989,888; o 268,435,456; three matrices of
   16384·53248 = 2,617,245,696; 3,187,671,040 elements = 5.9375 GiB. 126 layers 748.1 GiB, two tables of 3.914 GiB.
   Budget 71.27 GiB; sampler 3.636·4·128256·1024 + 8192·(2.39·16384 + 4429) = 2.267e9 B = 2.11 GiB; buffers at most
   2.17 GiB: 66.99 GiB are left for weights and KV, so at least 755.9/66.99 = 11.3 GPUs: 12. And 12 do: tp 4 × pp 3 has
   42 layers of 5.9375/4 and a table of 0.98 GiB: 63.4 GiB. Tensor degrees above 8 leave the domain, and 12 = 8·1.5 is not
   a multiple of 8. */
START_TEST(llama_405b_needs_twelve_gpus)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-405b");
  const struct preset preset = fixture_preset(&hardware, "vllm", "0.19");
  struct model_precision precision;
  struct layout layout;
  fixture_set_precision(&precision, PRECISION_BF16);
  ck_assert_uint_eq(memory_min_gpus(&layout, &model, &hardware, &precision, &preset, 2304), 12);
  ck_assert_uint_eq(layout.tensor_parallel, 4);
  ck_assert_uint_eq(layout.pipeline_parallel, 3);
}
END_TEST

/* The smallest layout is one that holds, and nothing smaller holds: plain enumeration. */
START_TEST(min_gpus_equals_enumeration)
{
  static const char *const devices[] = {"h100-sxm-80gb", "a100-pcie-80gb", "l40s-48gb", "t4-16gb", "b200-sxm-180gb"};
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "falcon-7b", "qwen2-72b"};
  for (size_t d = 0; d < FIXTURE_COUNT(devices); d++)
    for (size_t m = 0; m < FIXTURE_COUNT(models); m++) {
      const struct hardware hardware = fixture_hardware(devices[d]);
      const struct model model = fixture_model(models[m]);
      const struct preset preset = fixture_preset(&hardware, "vllm", "0.19");
      struct model_precision precision;
      struct layout layout;
      unsigned least = 0;
      char why[192];
      fixture_set_precision(&precision, PRECISION_BF16);
      for (unsigned tp = 1; tp <= 72; tp++)
        for (unsigned pp = 1; pp <= model.layer_count; pp++) {
          const struct layout tried = {tp, pp, 1, 1};
          struct memory_plan plan;
          if ((least != 0 && tp * pp >= least) || !parallel_check(why, sizeof why, &model, &hardware, &tried))
            continue;
          memory_plan(&plan, &model, &hardware, &tried, &precision, &preset);
          if (plan.kv_cache_bytes >= memory_sequence_bytes(&model, &tried, &precision, &preset, 1000))
            least = tp * pp;
        }
      ck_assert_msg(memory_min_gpus(&layout, &model, &hardware, &precision, &preset, 1000) == least,
                    "%s on %s: %u, by enumeration %u", models[m], devices[d],
                    memory_min_gpus(&layout, &model, &hardware, &precision, &preset, 1000), least);
    }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("memory");
  tcase_add_test(tcase, weights_are_within_one_percent_of_what_was_printed);
  tcase_add_test(tcase, activation_peak_is_within_a_tenth_of_a_gib_of_what_was_printed);
  tcase_add_test(tcase, kv_pool_is_within_one_percent_of_the_budget_of_what_was_printed);
  tcase_add_test(tcase, tokens_of_a_printed_pool_are_exact_to_a_block);
  tcase_add_test(tcase, weights_of_llama_8b_by_hand);
  tcase_add_test(tcase, weights_do_not_depend_on_the_version_of_the_engine);
  tcase_add_test(tcase, parameters_beside_the_decoder_take_memory);
  tcase_add_test(tcase, a_checkpoints_own_bytes_per_weight_count);
  tcase_add_test(tcase, each_engine_sizes_its_pool_by_its_own_rule);
  tcase_add_test(tcase, older_versions_profile_a_larger_sampler);
  tcase_add_test(tcase, a_sequence_holds_whole_blocks);
  tcase_add_test(tcase, a_window_bounds_what_a_sequence_holds);
  tcase_add_test(tcase, the_fullest_stage_holds_whole_layers);
  tcase_add_test(tcase, llama_70b_needs_two_gpus);
  tcase_add_test(tcase, llama_405b_needs_twelve_gpus);
  tcase_add_test(tcase, min_gpus_equals_enumeration);
  return fixture_run("core/memory", tcase);
}
