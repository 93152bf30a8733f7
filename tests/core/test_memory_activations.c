/* Activation peaks, buffers and graphs against figures that engines printed (tests/data/memory/memory_open.csv, p…) and
   sums by hand. */
#include "core/memory.h"

#include "tests/core/fixtures.h"

struct start {
  const char *point, *device, *model, *version;
  unsigned tp, pp, max_batch, max_tokens;
  int chunked;
  double activation_gib; /* printed */
};

static void plan(struct memory_plan *out, const struct start *start)
{
  struct memory_case c;
  const struct hardware hardware = fixture_hardware(start->device);
  const struct model model = fixture_model(start->model);
  const struct layout layout = {start->tp, start->pp, 1, 1};
  struct preset preset = fixture_preset(&hardware, "vllm", start->version);
  struct model_precision precision;
  fixture_set_precision(&precision, PRECISION_BF16);
  preset.max_batch = start->max_batch;
  preset.max_batched_tokens = start->max_tokens;
  if (start->chunked >= 0)
    preset.has_chunked_prefill = start->chunked != 0;
  c = (struct memory_case){
      .model = &model, .hardware = &hardware, .layout = &layout, .precision = &precision, .preset = &preset};
  memory_plan_stage(out, &c, 0);
}

/* Sampler-bound, forward-bound, first stages, the first engine with and without chunked prefill, a card without
   FlashAttention, large batch limits. */
START_TEST(activation_peaks_as_printed)
{
  static const struct start rows[] = {
      {"p026", "h100-sxm-80gb", "llama-3.1-8b", "0.19", 2, 1, 1024, 8192, -1, 1.89},
      {"p189", "h100-sxm-80gb", "llama-3.1-8b", "0.11", 1, 1, 1024, 8192, -1, 4.76},
      {"p194", "h100-sxm-80gb", "qwen3-14b", "0.15", 1, 1, 1024, 8192, -1, 5.64},
      {"p196", "h100-sxm-80gb", "qwen3-14b", "0.17", 1, 1, 1024, 8192, -1, 2.23},
      {"p025", "h100-sxm-80gb", "llama-3.1-8b", "0.19", 1, 4, 1024, 8192, -1, 1.05},
      {"p198", "h100-sxm-80gb", "qwen3-8b", "0.19", 1, 3, 1024, 8192, -1, 0.96},
      {"p087", "l40s-48gb", "llama-3.1-8b", "0.6.4", 1, 1, 256, 20000, -1, 2.07},
      {"p088", "l40s-48gb", "llama-3.1-8b", "0.6.4", 1, 1, 256, 29000, -1, 2.99},
      {"p089", "l40s-48gb", "llama-3.1-8b", "0.6.4", 1, 1, 256, 512, 1, 0.06},
      {"p118", "a100-sxm-80gb", "llama-3.1-8b", "0.6.5", 1, 1, 256, 2048, -1, 1.19},
      {"p120", "a100-sxm-80gb", "llama-3-8b", "0.6.6", 1, 1, 2048, 8192, -1, 9.37},
      {"p134", "v100-sxm-32gb", "qwen2-7b", "0.8.5", 1, 1, 256, 32768, 0, 4.35},
  };
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    struct memory_plan out;
    plan(&out, &rows[i]);
    ck_assert_msg(fabs(out.activations_bytes / GIB - rows[i].activation_gib) < 0.03, "%s: %.3f GiB, printed %.2f",
                  rows[i].point, out.activations_bytes / GIB, rows[i].activation_gib);
  }
}
END_TEST

/* p113: the first engine profiles as many sequences as full images fit its budget, here one, so the forward pass decides;
   with 256 of them the sampler would, at 1.50 GiB. */
START_TEST(images_leave_no_room_for_sequences)
{
  const struct hardware hardware = fixture_hardware("l40s-48gb");
  const struct layout layout = {1, 1, 1, 1};
  struct model model = fixture_model("qwen2-7b");
  struct preset preset = fixture_preset(&hardware, "vllm", "0.6.6");
  struct model_precision precision;
  struct memory_plan with, without;
  const struct memory_case c = {
      .model = &model, .hardware = &hardware, .layout = &layout, .precision = &precision, .preset = &preset};
  fixture_set_precision(&precision, PRECISION_BF16);
  preset.max_batched_tokens = 8192;
  memory_plan_stage(&without, &c, 0);
  model.vision_parameters = 1;
  memory_plan_stage(&with, &c, 0);
  ck_assert(fabs(with.activations_bytes / GIB - 1.16) < 0.06);
  ck_assert(without.activations_bytes / GIB > 1.45);
}
END_TEST

/* Qwen3-30B-A3B: 128 experts of 768, 8 a token, hidden 2048, 151,936 words; 8192 tokens, 1024 sequences. Sampler
   3.636·4·151936·1024 + 8192·(2.39·2048 + 4429) = 2,339,171,271 B = 2.178 GiB; workspace 2·8192·8·(2048 + 2048) = 0.5 GiB
   from 0.11 on. 0.19 printed 2.68 (p050). */
START_TEST(experts_need_a_workspace)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct layout layout = {1, 1, 1, 1};
  struct model model = fixture_model("qwen3-8b");
  struct feed_forward *f = &model.layers[0].feed_forward;
  struct model_precision precision;
  struct memory_plan out;
  struct preset preset = fixture_preset(&hardware, "vllm", "0.19");
  model.hidden_size = 2048;
  *f = (struct feed_forward){
      .kind = FEED_FORWARD_MOE, .intermediate_size = 768, .is_gated = true, .experts = 128, .experts_per_token = 8};
  fixture_set_precision(&precision, PRECISION_BF16);
  memory_plan(&out, &model, &hardware, &layout, &precision, &preset);
  assert_close(out.activations_bytes / GIB, 2.678, 1e-3);
  precision.experts = PRECISION_MXFP4; /* kernels without one */
  memory_plan(&out, &model, &hardware, &layout, &precision, &preset);
  assert_close(out.activations_bytes / GIB, 2.178, 1e-3);
}
END_TEST

/* MEMORY §3's table; a figure from an earlier start replaces it. */
START_TEST(buffers_by_version_ranks_and_link)
{
  static const struct {
    const char *device, *version;
    unsigned tp, pp;
    double gib;
  } rows[] = {{"h100-sxm-80gb", "0.19", 1, 1, 0.25}, {"h100-sxm-80gb", "0.19", 2, 1, 2.07},
              {"h100-sxm-80gb", "0.18", 4, 1, 2.17}, {"h100-sxm-80gb", "0.19", 1, 4, 0.07},
              {"h100-sxm-80gb", "0.11", 1, 1, 0.13}, {"h100-sxm-80gb", "0.11", 2, 1, 0.55},
              {"h100-sxm-80gb", "0.10", 4, 1, 1.84}, {"l40s-48gb", "0.10.2", 8, 1, 0.21},
              {"l40s-48gb", "0.7.3", 1, 1, 0.07},    {"a100-sxm-80gb", "0.7.3", 8, 1, 2.1},
              {"l40s-48gb", "0.6.6", 1, 1, 0.14},    {"a100-sxm-80gb", "0.10.1.1", 2, 1, 0.12},
              {"mi300x-192gb", "0.6.5", 1, 1, 6.07}, {"l40s-48gb", "0.6.4", 1, 1, 0.41},
              {"h100-sxm-80gb", "0.6.4", 1, 1, 1.79}};
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    const struct hardware hardware = fixture_hardware(rows[i].device);
    const struct model model = fixture_model("llama-3.1-8b");
    const struct layout layout = {rows[i].tp, rows[i].pp, 1, 1};
    const struct preset preset = fixture_preset(&hardware, "vllm", rows[i].version);
    struct model_precision precision;
    struct memory_plan out;
    struct memory_case c = {
        .model = &model, .hardware = &hardware, .layout = &layout, .precision = &precision, .preset = &preset};
    fixture_set_precision(&precision, PRECISION_BF16);
    memory_plan_stage(&out, &c, 0);
    ck_assert_msg(fabs(out.runtime_bytes / GIB - rows[i].gib) < 1e-9, "%s %s tp %u: %.2f", rows[i].device,
                  rows[i].version, rows[i].tp, out.runtime_bytes / GIB);
    c.non_torch_bytes = 1.5 * GIB;
    memory_plan_stage(&out, &c, 0);
    assert_close(out.runtime_bytes, 1.5 * GIB, 1e-12);
  }
}
END_TEST

/* 0.130 + 0.0216 · 32 GiB for 51 sizes, outside of the budget up to 0.20 and in it from 0.21 on; none in eager mode. */
START_TEST(graphs_enter_the_budget_with_0_21)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-8b");
  const struct layout layout = {1, 1, 1, 1};
  struct preset preset = fixture_preset(&hardware, "vllm", "0.20.1");
  struct model_precision precision;
  struct memory_plan out;
  fixture_set_precision(&precision, PRECISION_BF16);
  memory_plan(&out, &model, &hardware, &layout, &precision, &preset);
  assert_close(out.graphs_bytes, (0.130 + 0.0216 * 32) * GIB, 1e-9);
  assert_close(out.runtime_bytes, 0.25 * GIB, 1e-9);
  preset = fixture_preset(&hardware, "vllm", "0.21");
  memory_plan(&out, &model, &hardware, &layout, &precision, &preset);
  assert_close(out.runtime_bytes, (0.25 + 0.130 + 0.0216 * 32) * GIB, 1e-9);
  preset.is_eager = true;
  memory_plan(&out, &model, &hardware, &layout, &precision, &preset);
  assert_close(out.runtime_bytes, 0.25 * GIB, 1e-9);
}
END_TEST

/* llama.cpp, 8B, ubatch 512: 258.5 MiB at 512 tokens of context, 560 at 8192 (p216, p217), 640 on several GPUs (p212). */
START_TEST(llama_cpp_compute_buffer)
{
  static const struct {
    unsigned devices;
    double context, mib;
  } rows[] = {{1, 512, 258.5}, {1, 8192, 560}, {2, 8192, 640}, {8, 8192, 640}};
  const struct hardware hardware = fixture_hardware("l40s-48gb");
  const struct model model = fixture_model("llama-3-8b");
  const struct preset preset = fixture_preset(&hardware, "llama.cpp", "");
  struct model_precision precision;
  fixture_set_precision(&precision, PRECISION_FP16);
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    const struct layout layout = {1, rows[i].devices, 1, 1};
    const struct memory_case c = {.model = &model,
                                  .hardware = &hardware,
                                  .layout = &layout,
                                  .precision = &precision,
                                  .preset = &preset,
                                  .context_tokens = rows[i].context};
    struct memory_plan out;
    memory_plan_of(&out, &c);
    assert_close(out.activations_bytes / MIB, rows[i].mib, 1e-9);
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("memory_activations");
  tcase_add_test(tcase, activation_peaks_as_printed);
  tcase_add_test(tcase, images_leave_no_room_for_sequences);
  tcase_add_test(tcase, experts_need_a_workspace);
  tcase_add_test(tcase, buffers_by_version_ranks_and_link);
  tcase_add_test(tcase, graphs_enter_the_budget_with_0_21);
  tcase_add_test(tcase, llama_cpp_compute_buffer);
  return fixture_run("core/memory_activations", tcase);
}
