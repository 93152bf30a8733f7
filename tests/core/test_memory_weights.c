/* Weights beside the dense decoder of test_memory.c: adapters, vision towers, stages, scales, what kernels keep. Sums by
   hand; p… are points of tests/data/memory/memory_open.csv. */
#include "core/memory.h"

#include "tests/core/fixtures.h"

struct setting {
  struct hardware hardware;
  struct model model;
  struct layout layout;
  struct model_precision precision;
  struct preset preset;
  struct memory_case c;
};

static void set(struct setting *s, const char *model, enum precision format, const char *runtime, const char *version)
{
  memset(s, 0, sizeof *s);
  s->hardware = fixture_hardware("h100-sxm-80gb");
  s->model = fixture_model(model);
  s->layout = (struct layout){1, 1, 1, 1};
  fixture_set_precision(&s->precision, format);
  s->preset = fixture_preset(&s->hardware, runtime, version);
  s->c = (struct memory_case){.model = &s->model,
                              .hardware = &s->hardware,
                              .layout = &s->layout,
                              .precision = &s->precision,
                              .preset = &s->preset};
}

static double weights(struct setting *s)
{
  return memory_weights_of(&s->c);
}

/* phi-4, one slot of rank 16. A layer: qkv 3·5120 + 7680, o 2·5120, gate_up 2·5120 + 35840, down 17920 + 5120: 102,400
   numbers a rank, 40 layers, 2 B: 131,072,000 B. vLLM with LoRA on printed 8.6253 GiB in nf4 (p116), 0.13 GiB above the
   weights themselves. */
START_TEST(adapters_take_their_rank_in_every_layer)
{
  struct setting s;
  double without;
  set(&s, "phi-4", PRECISION_BF16, "vllm", "0.19");
  without = weights(&s);
  s.c.adapter_count = 1;
  s.c.adapter_rank = 16;
  assert_close(weights(&s) - without, 131072000, 1e-9);
  s.c.adapter_count = 4;
  assert_close(weights(&s) - without, 4 * 131072000.0, 1e-9);
}
END_TEST

/* A tower of 400 million parameters of 2 B: split over the ranks unless the checkpoint keeps it whole. 200,000,000 B are
   a multiple of 512; 8·10^8 B need 382 segments of 2 MiB (801,112,064 B), a remainder above 1 MiB that goes back. */
START_TEST(a_vision_tower_is_split_or_whole)
{
  struct setting s;
  double without;
  set(&s, "llama-3.1-8b", PRECISION_BF16, "vllm", "0.19");
  s.layout.tensor_parallel = 4;
  without = weights(&s);
  s.model.vision_parameters = 400000000;
  assert_close(weights(&s) - without, 200e6, 0.005);
  s.c.has_whole_vision = true;
  assert_close(weights(&s) - without, 800e6, 0.005);
}
END_TEST

/* A tied head is stored again where the embedding sits on another stage: 256 · 64 rows and so on are equal, so both ends
   weigh the same but for the final norm. */
START_TEST(a_tied_head_is_copied_to_the_last_stage)
{
  struct setting s;
  struct memory_plan first, middle, last;
  set(&s, "granite-3.1-8b", PRECISION_BF16, "vllm", "0.19");
  s.layout.pipeline_parallel = 4;
  memory_plan_stage(&first, &s.c, 0);
  memory_plan_stage(&middle, &s.c, 1);
  memory_plan_stage(&last, &s.c, 3);
  assert_close(first.weights_bytes - middle.weights_bytes, 49216.0 * 4096 * 2, 0.01);
  assert_close(last.weights_bytes - first.weights_bytes, 4096 * 2, 1e-9);
}
END_TEST

/* Llama-3.1-8B in fp8 with a scale for every output channel: (6144 + 4096 + 28672 + 4096) · 4 B = 172,032 B a layer, in
   steps of 512 B; with one for every 128 × 128 block a layer has 48·32 + 32·32 + 224·32 + 32·112 = 13,312 of them. */
START_TEST(scales_by_channel_and_by_block)
{
  struct setting s;
  double without;
  set(&s, "llama-3.1-8b", PRECISION_FP8, "vllm", "0.19");
  without = weights(&s) - 32 * 4 * 512; /* one scale a matrix takes 512 B */
  s.precision.scale_block_outputs = 1;
  assert_close(weights(&s) - without, 32 * 172032, 1e-9);
  s.precision.scale_block_outputs = s.precision.scale_block_inputs = 128;
  assert_close(weights(&s) - without, 32 * 13312 * 4, 1e-9);
}
END_TEST

/* DeepSeek-V2-Lite's attention. 0.18 and later keep a workspace of 128 MiB beside it (p058, p059 print 0.124 and 0.127 GiB
   above the tensors); 0.7 keeps both absorbed products: 2048 · 16·576 + 16·512 · 2048 = 35,651,584 of 2 B a layer. */
START_TEST(kernels_for_latents_keep_more)
{
  struct setting s;
  double plain;
  set(&s, "llama-3.1-8b", PRECISION_BF16, "vllm", "0.11");
  s.model.hidden_size = 2048;
  s.model.layers[0].attention = (struct attention){.kind = ATTENTION_LATENT,
                                                   .query_heads = 16,
                                                   .kv_heads = 1,
                                                   .kv_lora_rank = 512,
                                                   .rope_head_dim = 64,
                                                   .nope_head_dim = 128,
                                                   .value_head_dim = 128};
  plain = weights(&s);
  s.preset = fixture_preset(&s.hardware, "vllm", "0.19");
  assert_close(weights(&s) - plain, 128 * MIB, 1e-9);
  s.preset = fixture_preset(&s.hardware, "vllm", "0.7.3");
  assert_close(weights(&s) - plain, 32 * 35651584 * 2.0, 0.02);
}
END_TEST

/* Llama-2-7b in F16 on one GPU: 12603.02 MiB (p200). 32 layers of 4·4096² + 3·4096·11008 = 202,375,168 and a head of
   32,000 · 4096, 2 B each, are 12,602.0 MiB; norms 65 · 8 KiB. The embedding stays on the CPU. */
START_TEST(llama_cpp_leaves_the_embedding_on_the_cpu)
{
  struct setting s;
  set(&s, "llama-2-7b", PRECISION_FP16, "llama.cpp", "");
  assert_close(weights(&s) / MIB, 12603.02, 2e-4);
  assert_close(weights(&s), 2.0 * (32 * 202375168.0 + 131072000.0 + 65 * 4096), 1e-12);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("memory_weights");
  tcase_add_test(tcase, adapters_take_their_rank_in_every_layer);
  tcase_add_test(tcase, a_vision_tower_is_split_or_whole);
  tcase_add_test(tcase, a_tied_head_is_copied_to_the_last_stage);
  tcase_add_test(tcase, scales_by_channel_and_by_block);
  tcase_add_test(tcase, kernels_for_latents_keep_more);
  tcase_add_test(tcase, llama_cpp_leaves_the_embedding_on_the_cpu);
  return fixture_run("core/memory_weights", tcase);
}
