/* The KV pool: groups of layers, blocks, generations of latent caches; figures that engines printed at start
   (tests/data/memory/memory_open.csv) or sums by hand. */
#include "core/memory.h"

#include "tests/core/fixtures.h"

static struct attention grouped(unsigned query_heads, unsigned kv_heads, unsigned head_dim, unsigned window)
{
  struct attention a;
  memset(&a, 0, sizeof a);
  a.kind = ATTENTION_GROUPED;
  a.query_heads = query_heads;
  a.kv_heads = kv_heads;
  a.head_dim = a.value_head_dim = head_dim;
  a.window_tokens = window;
  return a;
}

static struct attention latent(void)
{
  struct attention a;
  memset(&a, 0, sizeof a);
  a.kind = ATTENTION_LATENT;
  a.query_heads = 128;
  a.kv_heads = 1;
  a.query_lora_rank = 1536;
  a.kv_lora_rank = 512;
  a.rope_head_dim = 64;
  a.nope_head_dim = a.value_head_dim = 128;
  return a;
}

/* Gated delta rule of Qwen3-Next; state in `bytes` an element, convolution of four inputs in two. */
static struct attention recurrent(uint64_t bytes)
{
  struct attention a;
  memset(&a, 0, sizeof a);
  a.kind = ATTENTION_LINEAR;
  a.linear_key_heads = 16;
  a.linear_value_heads = 32;
  a.linear_key_head_dim = a.linear_value_head_dim = 128;
  a.linear_conv_kernel = 4;
  a.linear_state_bytes = 32 * 128 * 128 * bytes + 8192 * 4 * 2;
  return a;
}

static void append(struct model *model, struct attention attention, unsigned count)
{
  struct layer layer;
  memset(&layer, 0, sizeof layer);
  layer.attention = attention;
  layer.feed_forward.kind = FEED_FORWARD_NONE;
  ck_assert_int_eq(model_append_layers(model, &layer, count, NULL), ERR_OK);
}

static struct preset vllm(const char *version)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  return fixture_preset(&hardware, "vllm", version);
}

/* Gemma-3-12b: 8 layers see everything, 40 a window of 1024; 8 KV heads of 256. Groups of 8: 1 + 5. A block of a group is
   8 · 16 · 2 · 8 · 256 · 2 B = 1 MiB. vLLM 0.19 printed 48,867 blocks, 130,304 tokens (48867/6 = 8144.5 → 8144 · 16) and a
   concurrency of 15.88 at 8192 tokens: 512 blocks for the full group, 512 + 1 for each of five: 3077 (p009). */
START_TEST(windowed_layers_form_groups)
{
  const struct layout layout = {1, 1, 1, 1};
  const struct preset preset = vllm("0.19");
  struct model model = fixture_model("llama-3.1-8b");
  struct model_precision precision;
  struct memory_pool pool;
  model.layer_count = model.layer_kind_count = 0;
  append(&model, grouped(16, 8, 256, 0), 8);
  append(&model, grouped(16, 8, 256, 1024), 40);
  fixture_set_precision(&precision, PRECISION_BF16);
  memory_pool_cut(&pool, &model, &layout, &precision, &preset, 48867 * MIB);
  assert_close(pool.block_bytes, MIB, 1e-12);
  assert_close(pool.blocks, 48867, 1e-12);
  assert_close(pool.groups, 6, 1e-12);
  assert_close(pool.printed_tokens, 130304, 1e-12);
  assert_close(memory_pool_sequences(&model, &layout, &precision, &preset, 48867 * MIB, 8192), 48867.0 / 3077, 1e-12);
  /* decoding at 8192 tokens: 512 blocks of the full group and 64 of each windowed one */
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 8192), (512 + 5 * 64) * MIB, 1e-12);
}
END_TEST

/* vLLM 0.8 charges every layer: 16 tokens are 6 MiB, 8192 tokens 3072 MiB. */
START_TEST(older_versions_charge_windows_in_full)
{
  const struct layout layout = {1, 1, 1, 1};
  const struct preset preset = vllm("0.8");
  struct model model = fixture_model("llama-3.1-8b");
  struct model_precision precision;
  struct memory_pool pool;
  model.layer_count = model.layer_kind_count = 0;
  append(&model, grouped(16, 8, 256, 0), 8);
  append(&model, grouped(16, 8, 256, 1024), 40);
  fixture_set_precision(&precision, PRECISION_BF16);
  memory_pool_cut(&pool, &model, &layout, &precision, &preset, 6000 * MIB);
  assert_close(pool.groups, 1, 1e-12);
  assert_close(pool.printed_tokens, 16000, 1e-12);
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 8192), 3072 * MIB, 1e-12);
}
END_TEST

/* Qwen3-Next on vLLM 0.11, tp 2: 12 layers with KV (one head of 256: 1,024 B a token), 36 with a state of
   (32·128·128·2 + 8192·3·2)/2 = 548,864 B, which 536 tokens would hold: blocks of 544, the next multiple of 16. 44.59 GiB
   are 7162 blocks of 12·544·1024 B; a quarter is 1790 · 544 = 973,760 tokens; 262,144 tokens take 482 blocks and one for
   each of three groups: 14.77 at once, as printed (p161). */
START_TEST(blocks_grow_to_the_size_of_a_state)
{
  const struct layout layout = {2, 1, 1, 1};
  const struct preset preset = vllm("0.11");
  struct model model = fixture_model("llama-3.1-8b");
  struct model_precision precision;
  struct memory_pool pool;
  model.layer_count = model.layer_kind_count = 0;
  append(&model, grouped(16, 2, 256, 0), 12);
  append(&model, recurrent(2), 36);
  fixture_set_precision(&precision, PRECISION_BF16);
  memory_pool_cut(&pool, &model, &layout, &precision, &preset, 44.59 * GIB);
  assert_close(pool.block_tokens, 544, 1e-12);
  assert_close(pool.printed_tokens, 973760, 1e-12);
  ck_assert(fabs(memory_pool_sequences(&model, &layout, &precision, &preset, 44.59 * GIB, 262144) - 14.77) < 0.005);
}
END_TEST

/* Qwen3.5-35B-A3B on vLLM 0.17, fp8 cache, one GPU: 2 heads of 256 are 1,024 B a token in 10 layers; 30 layers keep
   32·128·128·4 + 8192·3·2 = 2,146,304 B = 2096 tokens. 6.08 GiB: 304 blocks, 76 · 2096 = 159,296 tokens; 65,536 tokens
   take 32 blocks and two for each of three groups: 304/38 = 8.00 (p163). */
START_TEST(states_in_32_bits_and_an_fp8_cache)
{
  const struct layout layout = {1, 1, 1, 1};
  const struct preset preset = vllm("0.17");
  struct model model = fixture_model("llama-3.1-8b");
  struct model_precision precision;
  struct memory_pool pool;
  model.layer_count = model.layer_kind_count = 0;
  append(&model, grouped(16, 2, 256, 0), 10);
  append(&model, recurrent(4), 30);
  fixture_set_precision(&precision, PRECISION_BF16);
  precision.kv_cache = PRECISION_FP8;
  memory_pool_cut(&pool, &model, &layout, &precision, &preset, 6.08 * GIB);
  assert_close(pool.block_tokens, 2096, 1e-12);
  assert_close(pool.printed_tokens, 159296, 1e-12);
  assert_close(memory_pool_sequences(&model, &layout, &precision, &preset, 6.08 * GIB, 65536), 8, 1e-12);
}
END_TEST

/* DeepSeek-R1's 61 layers on 8 ranks. The latent of 512 + 64 is whole on every rank: 70,272 B; vLLM 0.7 pads it to 640
   (p122: 21.43 GiB are 18,418 blocks of 16 tokens, 78,080 B each); 0.6.6 keeps 16 heads · 2 · 256. */
START_TEST(latent_caches_by_generation)
{
  static const struct {
    const char *version;
    double bytes;
  } rows[] = {{"0.19", 61 * 576 * 2}, {"0.8", 61 * 576 * 2}, {"0.7.3", 61 * 640 * 2}, {"0.6.6", 61 * 16 * 2 * 256 * 2}};
  const struct layout layout = {8, 1, 1, 1};
  struct model model = fixture_model("llama-3.1-8b");
  struct model_precision precision;
  struct memory_pool pool;
  model.layer_count = model.layer_kind_count = 0;
  append(&model, latent(), 61);
  fixture_set_precision(&precision, PRECISION_BF16);
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    const struct preset preset = vllm(rows[i].version);
    assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 16), 16 * rows[i].bytes, 1e-12);
    memory_pool_cut(&pool, &model, &layout, &precision, &preset, 21.43 * GIB);
    if (strcmp(rows[i].version, "0.7.3") == 0)
      assert_close(pool.blocks, 18418, 1e-12);
  }
}
END_TEST

/* An indexer adds 128 B of fp8 key and one 4-byte scale a layer: GLM-5 on SGLang holds 1,152 + 132 B a layer (p079). */
START_TEST(an_indexer_caches_its_keys)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct preset preset = fixture_preset(&hardware, "sglang", "");
  const struct layout layout = {8, 1, 1, 1};
  struct model model = fixture_model("llama-3.1-8b");
  struct attention a = latent();
  struct model_precision precision;
  a.index_top_k = 2048;
  a.index_heads = 32;
  a.index_head_dim = 128;
  model.layer_count = model.layer_kind_count = 0;
  append(&model, a, 78);
  fixture_set_precision(&precision, PRECISION_BF16);
  assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 1), 78 * 1284, 1e-12);
}
END_TEST

/* llama.cpp: 32 layers and the head over 4 GPUs are 9 + 8 + 8 + 7 and the head. 8B, fp16, 8192 tokens: 32 MiB a layer,
   the fullest GPU holds 288 MiB (p213). */
START_TEST(llama_cpp_splits_whole_layers)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct preset preset = fixture_preset(&hardware, "llama.cpp", "");
  const struct model model = fixture_model("llama-3-8b");
  struct model_precision precision;
  fixture_set_precision(&precision, PRECISION_BF16);
  for (unsigned devices = 1; devices <= 8; devices *= 2) {
    static const double mib[] = {0, 1024, 544, 0, 288, 0, 0, 0, 160};
    const struct layout layout = {1, devices, 1, 1};
    assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 8192) / MIB, mib[devices], 1e-12);
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("memory_kv");
  tcase_add_test(tcase, windowed_layers_form_groups);
  tcase_add_test(tcase, older_versions_charge_windows_in_full);
  tcase_add_test(tcase, blocks_grow_to_the_size_of_a_state);
  tcase_add_test(tcase, states_in_32_bits_and_an_fp8_cache);
  tcase_add_test(tcase, latent_caches_by_generation);
  tcase_add_test(tcase, an_indexer_caches_its_keys);
  tcase_add_test(tcase, llama_cpp_splits_whole_layers);
  return fixture_run("core/memory_kv", tcase);
}
