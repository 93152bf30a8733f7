/* Families of decoders that the stored configs do not have, in configs put together from what is public about them
   (tests/data/families), each with its count derived by hand from its layers. A layer's norms are two of hidden_size unless
   said otherwise. */
#include "tests/lib/reading.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define QWEN3 "{'model_type':'qwen3','tie_word_embeddings':true,'torch_dtype':'bfloat16',"
/* Checks the total of a config of tests/data/families. */
static void expect_total(const char *name, unsigned long long total)
{
  reading_read_file(scratch_printf("../families/%s.json", name));
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(model_parameters_total(&reading.model), total);
}

static void expect_kv(double growing_bytes, double windowed_bytes, unsigned long long state_elements)
{
  const struct kv_bytes kv = model_kv_bytes(&reading.model, PRECISION_BF16);
  ck_assert(reading_is_same(kv.growing_per_token_bytes, growing_bytes));
  ck_assert(reading_is_same(kv.windowed_per_token_bytes, windowed_bytes));
  ck_assert_uint_eq(reading_state_elements(), state_elements);
}

/* ---- state space models ---- */

/* Mamba-2.8B, a layer, 5,120 wide: projection to x and gate 2560·10240 = 26,214,400; convolution 5120·(4 + 1) = 25,600; from
   x time step 160, B and C 16 each: 5120·192 = 983,040; time step back 160·5120 + 5120 = 824,320; decays 5120·16 = 81,920;
   skip 5,120; output 5120·2560 = 13,107,200; one norm 2,560: 41,244,160. 64 of them 2,639,626,240; embedding 50280·2560 =
   128,716,800; final norm 2,560. State 64·(5120·16 + 5120·4). */
START_TEST(counts_mamba)
{
  expect_total("mamba-2.8b", 2768345600);
  expect_kv(0, 0, 64ULL * (81920 + 20480));
}
END_TEST

/* Falcon-Mamba-7B is 8,192 wide though it says expand 16: projection 67,108,864; convolution 40,960; 8192·(256 + 32) =
   2,359,296; 256·8192 + 8192 = 2,105,344; decays 131,072; skip 8,192; output 33,554,432; norm 4,096: 105,312,256. 64 of them
   6,739,984,384; embedding and head 2·65024·4096 = 532,676,608; final norm 4,096. */
START_TEST(counts_falcon_mamba)
{
  expect_total("falcon-mamba-7b", 7272665088);
}
END_TEST

/* ---- attention every few states ---- */

/* Jamba. Mamba blocks as above with norms of time step, B and C, 256 + 16 + 16: 105,308,448, 28 of them 2,948,636,544;
   attention 4096·(4096 + 2·1024) + 4096² = 41,943,040, four of them 167,772,160; MLPs 3·4096·14336 = 176,160,768, 16 of
   them 2,818,572,288; 16 layers of 16 such experts and a router 4096·16: 45,098,205,184; norms 32·8192; embedding and head
   2·65536·4096 = 536,870,912; final norm 4,096. KV 4·2·8·128·2 bytes. */
START_TEST(counts_jamba)
{
  expect_total("jamba-v0.1", 51570323328);
  expect_kv(16384, 0, 28ULL * (131072 + 32768));
  ck_assert_uint_eq(reading.model.layers[reading.model.layer_order[4]].attention.kind, ATTENTION_GROUPED);
  ck_assert_uint_eq(reading.model.layers[reading.model.layer_order[3]].feed_forward.kind, FEED_FORWARD_MOE);
}
END_TEST

/* Granite-4.0-H-Small. Mamba-2, 8,192 wide: projection 4096·(8192 + 8448 + 128) = 68,681,728; convolution 8448·5 = 42,240;
   3·128; norm 8,192; output 33,554,432: 102,286,976, 36 of them 3,682,331,136; attention 41,943,040, four of them
   167,772,160; 40 times 72 experts of 3·4096·768 = 9,437,184, router 294,912 and shared 3·4096·1536 = 18,874,368:
   27,945,861,120; norms 40·8192 + 4096; embedding 411,041,792. */
START_TEST(counts_granite_hybrids)
{
  expect_total("granite-4.0-h-small", 32207337984);
  expect_kv(16384, 0, 36ULL * (8192 * 128 + 8448 * 4));
}
END_TEST

/* The same without experts keeps the shared MLP alone (Granite-4.0-H-Micro): projection 2048·(4096 + 4352 + 64) =
   17,432,576; convolution 21,760; 3·64; norm 4,096; output 8,388,608: 25,847,232, 36 of them 930,500,352; attention
   10,485,760, four of them 41,943,040; 40 MLPs of 3·2048·8192 = 50,331,648; norms 41·4096 - 2048; embedding 205,520,896. */
START_TEST(counts_granite_without_experts)
{
  expect_total("granite-4.0-h-micro", 930500352ULL + 41943040 + 40ULL * 50331648 + 40 * 4096 + 2048 + 205520896);
}
END_TEST

/* Falcon-H1-0.5B. State: projection 1024·(1536 + 1792 + 24) = 3,432,448; convolution 1792·5 = 8,960; 3·24; output
   1,572,864: 5,014,344; attention 1024·(512 + 2·128) + 512·1024 = 1,310,720; MLP 3·1024·2048 = 6,291,456; norms 2,048:
   12,618,568, 36 of them 454,268,448; embedding and head 67,141,632; final norm 1,024. */
START_TEST(counts_attention_beside_a_state)
{
  expect_total("falcon-h1-0.5b", 521411104);
  expect_kv(36.0 * 2 * 2 * 64 * 2, 0, 36ULL * (1536 * 128 + 1792 * 4));
  ck_assert_uint_eq(reading.model.layer_count, 72);
  ck_assert(reading_assumes("36 blocks"));
}
END_TEST

/* Kimi-Linear-48B-A3B. KDA: q, k, v and output 4·2304·4096 = 37,748,736; convolutions 3·4096·4 = 49,152; decay and gate
   2·128·(2304 + 4096) = 1,638,400; decay's bias 4,096, of heads 32; beta 73,728; norm 128: 39,514,272, 20 of them
   790,285,440. MLA: q 2304·32·192 = 14,155,776; latent 2304·576 = 1,327,104 and norm 512; up 512·32·256 = 4,194,304; output
   9,437,184: 29,114,880, 7 of them 203,804,160. One dense MLP 3·2304·9216 = 63,700,992; 26 times 256 experts of 3·2304·1024
   = 7,077,888, one shared, router 589,824 + 256: 47,309,789,696; norms 27·4608 + 2304; embedding and head 754,974,720.
   KV 7·576·2 bytes; state 20·(4096·128 + 3·4096·4). */
START_TEST(counts_kimi_linear)
{
  expect_total("kimi-linear-48b-a3b", 49122681728);
  expect_kv(7 * 576 * 2, 0, 20ULL * (524288 + 49152));
}
END_TEST

/* LFM2-1.2B. MLP width 2·12288 / 3 = 8192: 3·2048·8192 = 50,331,648, 16 of them; ten convolutions 4·2048² + 2048·3 =
   16,783,360; six attentions 10,485,760 + norms 2·64; norms 16·4096 + 2048; embedding 65536·2048 = 134,217,728. */
START_TEST(counts_short_convolutions)
{
  expect_total("lfm2-1.2b", 1170340608);
  expect_kv(6 * 2048, 0, 10ULL * 2048 * 3);
}
END_TEST

/* ---- own spellings ---- */

/* DBRX, a layer: attention 6144·(6144 + 2·1024) + 6144² = 88,080,384; 16 experts of 3·6144·10752 = 198,180,864; router
   98,304; norms 12,288: 3,259,084,800. 40 of them 130,363,392,000; embedding and head 2·100352·6144; final norm. */
START_TEST(counts_dbrx)
{
  expect_total("dbrx", 130363392000ULL + 2ULL * 100352 * 6144 + 6144);
  ck_assert_uint_eq(model_parameters_active(&reading.model),
                    130363392000ULL + 2ULL * 100352 * 6144 + 6144 - 40ULL * 12 * 198180864);
  reading_read_text("{'model_type':'dbrx','d_model':6144,'attn_config':{'kv_n_heads':'8'},'n_heads':48}");
  ck_assert(reading_has_fault("/hf_config/attn_config/kv_n_heads", FAULT_WRONG_TYPE));
}
END_TEST

/* MPT-7B, no biases: a layer 12·4096² + two norms 8,192 = 201,334,784, 32 of them; embedding 50432·4096; final norm. */
START_TEST(counts_mpt)
{
  expect_total("mpt-7b", 32ULL * 201334784 + 50432ULL * 4096 + 4096);
}
END_TEST

/* GLM-4-9B, a layer: qkv 4096·(4096 + 2·2·128) = 18,874,368 and biases 4,608; output 16,777,216; MLP 3·4096·13696 =
   168,296,448; norms 8,192: 203,960,832. 40 of them, embedding and head 2·151552·4096, final norm. KV 40·2·2·128·2. */
START_TEST(counts_chatglm)
{
  expect_total("glm-4-9b", 40ULL * 203960832 + 2ULL * 151552 * 4096 + 4096);
  expect_kv(40960, 0, 0);
}
END_TEST

/* ERNIE-4.5-21B-A3B: attention 2560·(2560 + 2·512) + 2560² = 15,728,640; first MLP 3·2560·12288 = 94,371,840; 27 times 64
   experts of 3·2560·1536 = 11,796,480, two shared, router 163,840 + 64; norms 28·5120 + 2560; embedding 264,765,440. */
START_TEST(counts_ernie)
{
  expect_total("ernie-4.5-21b-a3b",
               28ULL * 15728640 + 94371840 + 27ULL * (66 * 11796480ULL + 163904) + 28 * 5120 + 2560 + 264765440);
}
END_TEST

/* Experts on a latent (Nemotron-3-Super's shape, small): hidden 64, 8 experts of two matrices 16·32, latent down and up
   2·64·16, router 64·8, a shared MLP 2·64·48; a norm. Attention 64·(64 + 2·32) + 64² and a norm. */
START_TEST(counts_experts_on_a_latent)
{
  expect_total("experts-on-a-latent", 12288 + 64 + 8 * 1024 + 2048 + 512 + 6144 + 64 + 2 * 6400 + 64);
}
END_TEST

/* ---- blocks found by search ---- */

/* hidden 64, 8 heads of 8. Block 0: two heads a group, so 4 KV heads: 64·(64 + 64) + 64² = 12,288; MLP of ⌊2·3·64/3⌋ = 128,
   rounded up to 256: 3·64·256 = 49,152; two norms. Block 1: a plain matrix for attention 4,096; an MLP of 512 by name:
   98,304; two norms. Block 2: no attention, the first MLP, one norm. Block 3: nothing. */
START_TEST(counts_searched_blocks)
{
  expect_total("searched-blocks", 12288 + 49152 + 128 + 4096 + 98304 + 128 + 49152 + 64 + 2 * 6400 + 64);
  expect_kv(2 * 4 * 8 * 2, 0, 0);
  ck_assert_uint_eq(reading.model.layer_count, 3);
  reading_read_text("{'model_type':'nemotron-nas','hidden_size':64,'num_attention_heads':8,'vocab_size':9,"
                    "'block_configs':[{'attention':{'n_heads_in_group':3},'ffn':7}]}");
  ck_assert(reading_has_fault("/hf_config/block_configs", FAULT_UNSUPPORTED));
}
END_TEST

/* ---- layers that share ---- */

/* Zamba2 with class defaults. State blocks: projection 2560·(5120 + 5248 + 8) = 26,562,560; convolution 5248·5 = 26,240;
   3·8; norm 5,120; output 13,107,200; a norm 2,560: 39,703,704, 54 of them 2,144,000,016. The shared block, once: q, k and v
   from 5,120 wide inputs 3·5120² = 78,643,200; output 5120·2560 = 13,107,200; MLP 3·2560·10240 = 78,643,200; norms 5120 +
   2560: 170,401,280. Nine projections 2560² = 58,982,400; embedding 81,920,000; final norm 2,560. Each of the nine uses
   holds KV: 9·2·32·160·2 bytes. */
START_TEST(counts_shared_blocks_once)
{
  reading_read_file("Zyphra--Zamba2-2.7B.json");
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(model_parameters_total(&reading.model), 2144000016ULL + 170401280 + 58982400 + 81920000 + 2560);
  expect_kv(9 * 2 * 32 * 160 * 2, 0, 54ULL * (5120 * 64 + 5248 * 4));
  ck_assert_uint_eq(reading.model.layer_count, 63);
  ck_assert(reading_assumes("used 9 times"));
}
END_TEST

/* Two blocks taken in turn, and adapters of rank 128 on every use: 128·(2560 + 2·10240) = 2,949,120 of the MLP and
   128·6·5120 = 3,932,160 of attention. */
START_TEST(counts_adapters_of_shared_blocks)
{
  json_t *document = reading_load("Zyphra--Zamba2-2.7B.json");
  unsigned long long once;
  reading_read(document, NULL);
  once = model_parameters_total(&reading.model);
  ck_assert_int_eq(json_object_set_new(document, "num_mem_blocks", json_integer(2)), 0);
  ck_assert_int_eq(json_object_set_new(document, "use_shared_mlp_adapter", json_true()), 0);
  ck_assert_int_eq(json_object_set_new(document, "use_shared_attention_adapter", json_true()), 0);
  reading_read(document, NULL);
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(model_parameters_total(&reading.model), once + 170401280 + 9ULL * (2949120 + 3932160));
}
END_TEST

/* Eight layers of 2·2·16·2 = 128 bytes of KV, hidden 64: a key and a value projection are 4,096 parameters, a key norm 16.
   The last three use the KV of earlier ones, or every second one does. */
START_TEST(shares_kv_between_layers)
{
  static const char base[] = "'hidden_size':64,'num_hidden_layers':8,'num_attention_heads':4,'num_key_value_heads':2,"
                             "'head_dim':16,'intermediate_size':128,'vocab_size':100,'attention_bias':false";
  unsigned long long whole;
  reading_read_text(scratch_printf(QWEN3 "%s}", base));
  whole = model_parameters_total(&reading.model);
  reading_read_text(scratch_printf(QWEN3 "%s,'num_kv_shared_layers':3}", base));
  ck_assert_uint_eq(model_parameters_total(&reading.model), whole - 3 * (4096 + 16));
  expect_kv(5 * 128, 0, 0);
  reading_read_text(scratch_printf(QWEN3 "%s,'use_cla':true,'cla_share_factor':2}", base));
  ck_assert_uint_eq(model_parameters_total(&reading.model), whole - 4 * (4096 + 16));
  expect_kv(4 * 128, 0, 0);
  reading_read_text(scratch_printf(QWEN3 "%s,'num_kv_shared_layers':8}", base));
  ck_assert(reading_has_fault("/hf_config/num_kv_shared_layers", FAULT_OUT_OF_RANGE));
}
END_TEST

/* ---- Gemma ---- */

/* Gemma-4-26B-A4B, hidden 2816. Windowed attention q and o 2·2816·4096, k and v 2·2816·2048, norms 512: 34,603,520, 25
   layers; global attention q and o 2·2816·8192, k alone 2816·1024, norms 1024: 49,021,952, 5 layers. Every layer: 128 experts
   of 3·2816·704 = 5,947,392; router 360,448 and a scale for each expert 128; MLP 3·2816·2112 = 17,842,176; seven norms and
   the router's scale of 2816. Embedding 738,197,504; final norm. Global layers cache 2 heads of 512: 4,096 bytes; windowed
   ones 8 of 256: 8,192. The published total adds the tower and a head stored twice (test_hf_facts). */
START_TEST(counts_gemma4)
{
  reading_read_file("google--gemma-4-26B-A4B.json");
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(model_parameters_total(&reading.model),
                    25ULL * 34603520 + 5ULL * 49021952 +
                        30ULL * (128 * 5947392ULL + 360448 + 128 + 17842176 + 8 * 2816) + 738197504 + 2816);
  expect_kv(5 * 4096, 25 * 8192, 0);
  ck_assert_uint_eq(reading_windowed_layers(), 25);
}
END_TEST

/* Gemma-3n, small: hidden 64, 2 layers, 4 heads of 16, 2 KV heads, MLP 128, and all it adds. A layer: attention
   64·(64 + 64) + 4096 + norms 32 = 12,320; MLP 24,576; four norms 256. Embeddings of layers of width 8: gate and projection
   1,024 and a norm 64; two updates of 4 streams: 4·4 + 4·16 + 64·4 = 336 and two vectors 128; side path of rank 4: 512 and a
   norm 64. Outside: tables 100·64 and 90·8·2; projection 64·16 and a norm 8; streams 6·64²; final norm 64. The last layer
   shares KV: its unused projections are stored all the same. */
START_TEST(counts_gemma3n)
{
  const unsigned layer = 12320 + 24576 + 256 + 1024 + 64 + 336 + 128 + 512 + 64;
  expect_total("gemma-3n-small", 2 * layer + 6400 + 1440 + 1024 + 8 + 6 * 4096 + 64);
  expect_kv(0, 128, 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_families");
  TCase *tcase = suite_case(suite, "hf_families", reading_prepare, reading_release);
  tcase_add_test(tcase, counts_mamba);
  tcase_add_test(tcase, counts_falcon_mamba);
  tcase_add_test(tcase, counts_jamba);
  tcase_add_test(tcase, counts_granite_hybrids);
  tcase_add_test(tcase, counts_granite_without_experts);
  tcase_add_test(tcase, counts_attention_beside_a_state);
  tcase_add_test(tcase, counts_kimi_linear);
  tcase_add_test(tcase, counts_short_convolutions);
  tcase_add_test(tcase, counts_dbrx);
  tcase_add_test(tcase, counts_mpt);
  tcase_add_test(tcase, counts_chatglm);
  tcase_add_test(tcase, counts_ernie);
  tcase_add_test(tcase, counts_experts_on_a_latent);
  tcase_add_test(tcase, counts_searched_blocks);
  tcase_add_test(tcase, counts_shared_blocks_once);
  tcase_add_test(tcase, counts_adapters_of_shared_blocks);
  tcase_add_test(tcase, shares_kv_between_layers);
  tcase_add_test(tcase, counts_gemma4);
  tcase_add_test(tcase, counts_gemma3n);
  return suite_run(suite);
}
