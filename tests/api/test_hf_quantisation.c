/* Formats of module groups, with what quantisation leaves alone and what its scales take. */
#include "tests/lib/reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define LLAMA "'model_type':'llama','torch_dtype':'bfloat16','tie_word_embeddings':false,'vocab_size':1000,"
#define SIZES "'hidden_size':64,'num_hidden_layers':8,'num_attention_heads':4,'intermediate_size':128,"
#define TAIL "'max_position_embeddings':4096,'num_key_value_heads':2"

START_TEST(reads_formats_of_published_models)
{
  static const struct {
    const char *file;
    enum precision attention, dense, experts, head, kv_cache;
    bool is_static;
  } cases[] = {
      {"Qwen--Qwen2.5-7B-Instruct-AWQ.json", PRECISION_INT4, PRECISION_INT4, PRECISION_INT4, PRECISION_BF16,
       PRECISION_NONE, false},
      {"Qwen--Qwen3-32B-FP8.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16, PRECISION_NONE, false},
      {"Qwen--Qwen3-235B-A22B-FP8.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16, PRECISION_NONE,
       false},
      {"RedHatAI--Meta-Llama-3.1-8B-Instruct-FP8.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16,
       PRECISION_NONE, true},
      {"mistralai--Devstral-2-123B-Instruct-2512.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16,
       PRECISION_NONE, true},
      {"nvidia--Llama-3.1-70B-Instruct-FP8.json", PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16,
       PRECISION_FP8, true},
      {"nvidia--Qwen3-235B-A22B-NVFP4.json", PRECISION_NVFP4, PRECISION_NVFP4, PRECISION_NVFP4, PRECISION_BF16,
       PRECISION_FP8, false},
      {"openai--gpt-oss-20b.json", PRECISION_BF16, PRECISION_BF16, PRECISION_MXFP4, PRECISION_BF16, PRECISION_NONE,
       false},
      {"moonshotai--Kimi-K2.5.json", PRECISION_BF16, PRECISION_BF16, PRECISION_INT4, PRECISION_BF16, PRECISION_NONE,
       false},
      {"unsloth--Meta-Llama-3.1-8B-Instruct-bnb-4bit.json", PRECISION_NF4, PRECISION_NF4, PRECISION_NF4, PRECISION_BF16,
       PRECISION_NONE, false},
      {"allenai--OLMo-2-1124-7B.json", PRECISION_BF16, PRECISION_BF16, PRECISION_BF16, PRECISION_BF16, PRECISION_NONE,
       false},
  };
  reading_read_file(cases[_i].file);
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_int_eq(reading.model.precision.embeddings, PRECISION_BF16);
  ck_assert_int_eq(reading.model.precision.attention, cases[_i].attention);
  ck_assert_int_eq(reading.model.precision.dense, cases[_i].dense);
  ck_assert_int_eq(reading.model.precision.experts, cases[_i].experts);
  ck_assert_int_eq(reading.model.precision.head, cases[_i].head);
  ck_assert_int_eq(reading.model.precision.kv_cache, cases[_i].kv_cache);
  ck_assert_int_eq(reading.model.precision.has_static_scales, cases[_i].is_static);
}
END_TEST

/* What stays unquantised, by the ways in which tools write it. */
START_TEST(reads_ignore_lists)
{
  static const struct {
    const char *entries;
    bool attention, dense; /* quantised */
  } cases[] = {
      {"'lm_head'", true, true},
      {"'re:.*self_attn.*'", false, true},
      {"'reading.model.layers.*.self_attn'", false, true},
      {"'re:.*mlp\\\\.(gate|up|down)_proj.*'", true, false},
      {"'reading.model.layers.0.mlp.gate','reading.model.layers.0.input_layernorm','reading.model.embed_tokens','"
       "visual'",
       true, true},
      {"'reading.model.layers.0','reading.model.layers.7'", true, true},
      {"'re:.*layers\\\\.(0|1|2|3|4)\\\\..*'", false, false},
      {"'reading.model.layers.0.self_attn','reading.model.layers.1.self_attn','reading.model.layers.2.self_attn','"
       "config."
       "model.layers.3.self_attn',"
       "'reading.model.layers.4.self_attn','reading.model.layers.99.mlp'",
       false, true},
      {"'reading.model.layers.1.linear_attn.in_proj_ba','reading.model.layers.1.mlp.shared_expert_gate'", true, true},
      {"17, 'not a module'", true, true},
  };
  reading_read_text(scratch_printf("{" LLAMA SIZES TAIL
                                   ",'quantization_config':{'quant_method':'fp8','modules_to_not_convert':[%s]}}",
                                   cases[_i].entries));
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_int_eq(reading.model.precision.attention, cases[_i].attention ? PRECISION_FP8 : PRECISION_BF16);
  ck_assert_int_eq(reading.model.precision.dense, cases[_i].dense ? PRECISION_FP8 : PRECISION_BF16);
}
END_TEST

START_TEST(reads_quantisation_methods)
{
  static const struct {
    const char *config;
    enum precision precision, kv_cache;
    double weight_bytes;
  } cases[] = {
      {"{'quant_method':'gptq','bits':8,'group_size':128}", PRECISION_INT8, PRECISION_NONE, 1.0 + 3.0 / 128},
      {"{'quant_method':'gptq','bits':4,'group_size':32}", PRECISION_INT4, PRECISION_NONE, 0.5 + 2.5 / 32},
      {"{'quant_method':'awq','bits':4,'group_size':-1}", PRECISION_INT4, PRECISION_NONE, 0.5},
      {"{'quant_method':'bitsandbytes','load_in_8bit':true}", PRECISION_INT8, PRECISION_NONE, 0.0},
      {"{'quant_method':'bitsandbytes','load_in_4bit':true}", PRECISION_NF4, PRECISION_NONE, 0.5625},
      {"{'quant_method':'fbgemm_fp8','modules_to_not_convert':[]}", PRECISION_FP8, PRECISION_NONE, 0.0},
      {"{'quant_method':'modelopt','quant_algo':'NVFP4','kv_cache_quant_algo':'FP8'}", PRECISION_NVFP4, PRECISION_FP8,
       0.0},
      {"{'quant_method':'compressed-tensors','config_groups':{'a':{'weights':{'num_bits':8,'type':'int'}}},"
       "'kv_cache_scheme':{'num_bits':8,'type':'float'}}",
       PRECISION_INT8, PRECISION_FP8, 0.0},
      {"{'quant_method':'compressed-tensors','config_groups':{'a':{'weights':{'num_bits':4,'type':'float',"
       "'group_size':16}}}}",
       PRECISION_NVFP4, PRECISION_NONE, 0.0},
  };
  reading_read_text(scratch_printf("{" LLAMA SIZES TAIL ",'quantization_config':%s}", cases[_i].config));
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_int_eq(reading.model.precision.attention, cases[_i].precision);
  ck_assert_int_eq(reading.model.precision.kv_cache, cases[_i].kv_cache);
  ck_assert(reading_is_same(reading.model.precision.quantised_weight_bytes, cases[_i].weight_bytes));
  ck_assert_int_eq(reading.model.precision.head, PRECISION_BF16);
}
END_TEST

/* Scales of the config above, by hand. A layer's matrices are q 64×64, k and v 32×64, o 64×64, gate and up 128×64, down
   64×128: one each is 7; with blocks of 32×32 2·2, 1·2, 1·2, 2·2, 4·2, 4·2 and 2·4 are 36; one for every output 64 + 32 + 32
   + 64 + 128 + 128 + 64 = 512. Static activation scales are one more for each of the 7. Eight layers. */
START_TEST(counts_scales)
{
  static const struct {
    const char *config;
    unsigned scales;
  } cases[] = {
      {"{'quant_method':'fp8'}", 8 * 7},
      {"{'quant_method':'fp8','weight_block_size':null}", 8 * 7},
      {"{'quant_method':'fp8','activation_scheme':'static'}", 8 * 14},
      {"{'quant_method':'fp8','weight_block_size':[32,32]}", 8 * 36},
      {"{'quant_method':'fbgemm_fp8'}", 8 * 512},
      {"{'quant_method':'modelopt','quant_algo':'FP8'}", 8 * 14},
      {"{'quant_method':'modelopt','quant_algo':'FP8_PER_CHANNEL_PER_TOKEN'}", 8 * 512},
      {"{'quant_method':'compressed-tensors','config_groups':{'a':{'weights':{'num_bits':8,'type':'float',"
       "'strategy':'channel'}}}}",
       8 * 512},
      {"{'quant_method':'compressed-tensors','config_groups':{'a':{'weights':{'num_bits':8,'type':'float',"
       "'strategy':'block','block_structure':[32,32]}}}}",
       8 * 36},
      {"{'quant_method':'compressed-tensors','config_groups':{'a':{'weights':{'num_bits':8,'type':'int',"
       "'strategy':'tensor'},'input_activations':{'dynamic':false}}}}",
       8 * 14},
      {"{'quant_method':'bitsandbytes','load_in_8bit':true}", 8 * 512},
      {"{'quant_method':'gptq','bits':8,'group_size':128}", 0},
      {"{'quant_method':'awq','bits':4,'group_size':128}", 0},
  };
  struct parameter_counts counts;
  reading_read_text(scratch_printf("{" LLAMA SIZES TAIL ",'quantization_config':%s}", cases[_i].config));
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  counts = model_parameters(&reading.model);
  ck_assert_uint_eq(counts.scales, cases[_i].scales);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_quantisation");
  TCase *tcase = suite_case(suite, "hf_quantisation", reading_prepare, reading_release);
  tcase_add_loop_test(tcase, reads_formats_of_published_models, 0, 11);
  tcase_add_loop_test(tcase, reads_ignore_lists, 0, 10);
  tcase_add_loop_test(tcase, reads_quantisation_methods, 0, 9);
  tcase_add_loop_test(tcase, counts_scales, 0, 13);
  return suite_run(suite);
}
