/* Configs that are wrong: every fault at its key, all at once. */
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

START_TEST(faults_wrong_values)
{
  static const struct {
    const char *config, *pointer;
    enum fault_code code;
  } cases[] = {
      {"[]", "", FAULT_WRONG_TYPE},
      {"'text'", "", FAULT_WRONG_TYPE},
      {"{}", "/hidden_size", FAULT_MISSING},
      {"{}", "/vocab_size", FAULT_MISSING},
      {"{}", "/num_hidden_layers", FAULT_MISSING},
      {"{}", "/num_attention_heads", FAULT_MISSING},
      {"{}", "/intermediate_size", FAULT_MISSING},
      {"{" LLAMA "'hidden_size':null}", "/hidden_size", FAULT_MISSING},
      {"{" LLAMA "'hidden_size':'4096'}", "/hidden_size", FAULT_WRONG_TYPE},
      {"{" LLAMA "'hidden_size':4096.0}", "/hidden_size", FAULT_WRONG_TYPE},
      {"{" LLAMA "'hidden_size':-4096}", "/hidden_size", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'hidden_size':9223372036854775807}", "/hidden_size", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'n_embd':0}", "/n_embd", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'num_hidden_layers':1000000000}", "/num_hidden_layers", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'num_hidden_layers':1e9}", "/num_hidden_layers", FAULT_WRONG_TYPE},
      {"{" LLAMA "'num_attention_heads':0}", "/num_attention_heads", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'num_attention_heads':[4]}", "/num_attention_heads", FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'num_key_value_heads':3}", "/num_key_value_heads", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'num_key_value_heads':8}", "/num_key_value_heads", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'num_key_value_heads':0}", "/num_key_value_heads", FAULT_OUT_OF_RANGE},
      {"{" LLAMA SIZES "'num_key_value_heads':[1,1]}", "/num_key_value_heads", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'head_dim':0}", "/head_dim", FAULT_OUT_OF_RANGE},
      {"{" LLAMA "'hidden_size':65,'num_hidden_layers':8,'num_attention_heads':4,'intermediate_size':8}",
       "/num_attention_heads", FAULT_CONFLICT},
      {"{'tie_word_embeddings':'yes'}", "/tie_word_embeddings", FAULT_WRONG_TYPE},
      {"{'model_type':'llama','attention_bias':1}", "/attention_bias", FAULT_MISSING},
      {"{" LLAMA SIZES "'layer_types':['full_attention']}", "/layer_types", FAULT_CONFLICT},
      {"{'model_type':7}", "/model_type", FAULT_WRONG_TYPE},
      {"{" SIZES "'vocab_size':9,'torch_dtype':16}", "/torch_dtype", FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'num_local_experts':8,'num_experts_per_tok':1,'moe_layers':7}", "/moe_layers",
       FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'awq','bits':4,'group_size':'128'}}",
       "/quantization_config/group_size", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'layer_types':7}", "/layer_types", FAULT_WRONG_TYPE},
      {"{" LLAMA "'num_hidden_layers':1,'layer_types':['magic']}", "/layer_types", FAULT_UNSUPPORTED},
      {"{" LLAMA "'num_hidden_layers':1,'layer_types':['sliding_attention']}", "/sliding_window", FAULT_MISSING},
      {"{" LLAMA SIZES "'sliding_window':0}", "/sliding_window", FAULT_OUT_OF_RANGE},
      {"{" LLAMA SIZES "'sliding_window':8,'sliding_window_pattern':'LX'}", "/sliding_window_pattern",
       FAULT_UNKNOWN_VALUE},
      {"{" LLAMA SIZES "'hybrid_override_pattern':'MM'}", "/hybrid_override_pattern", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'hybrid_override_pattern':'MMMMQQQQ'}", "/hybrid_override_pattern", FAULT_UNKNOWN_VALUE},
      {"{" LLAMA SIZES "'attn_type_list':[0,1,2,0,0,0,0,0]}", "/attn_type_list", FAULT_UNKNOWN_VALUE},
      {"{" LLAMA SIZES "'full_attention_interval':4}", "/full_attention_interval", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'num_local_experts':8}", "/num_experts_per_tok", FAULT_MISSING},
      {"{" LLAMA SIZES "'num_local_experts':8,'num_experts_per_tok':9}", "/num_experts_per_tok", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'num_local_experts':8,'num_experts_per_tok':1,'decoder_sparse_step':0}", "/decoder_sparse_step",
       FAULT_OUT_OF_RANGE},
      {"{" LLAMA SIZES "'kv_lora_rank':512}", "/qk_rope_head_dim", FAULT_MISSING},
      {"{" LLAMA SIZES "'block_configs':[{}]}", "/block_configs", FAULT_CONFLICT},
      {"{" LLAMA SIZES "'compress_ratios':[4,128]}", "/compress_ratios", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'is_encoder_decoder':true}", "/is_encoder_decoder", FAULT_UNSUPPORTED},
      {"{" LLAMA "'hidden_size':64,'num_hidden_layers':8,'state_size':16}", "/conv_kernel", FAULT_MISSING},
      {"{'model_type':'opt','hidden_size':64,'word_embed_proj_dim':32}", "/word_embed_proj_dim", FAULT_UNSUPPORTED},
      {"{" SIZES "'vocab_size':9,'torch_dtype':'int3'}", "/torch_dtype", FAULT_UNKNOWN_VALUE},
      {"{" LLAMA SIZES "'quantization_config':'fp8'}", "/quantization_config", FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'quantization_config':{}}", "/quantization_config/quant_method", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'aqlm'}}", "/quantization_config/quant_method",
       FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'gptq','bits':3}}", "/quantization_config/bits",
       FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'fp8','modules_to_not_convert':'lm_head'}}",
       "/quantization_config/modules_to_not_convert", FAULT_WRONG_TYPE},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'compressed-tensors'}}",
       "/quantization_config/config_groups", FAULT_UNSUPPORTED},
      {"{" LLAMA SIZES "'quantization_config':{'quant_method':'modelopt','quant_algo':'MIXED_PRECISION'}}",
       "/quantization_config/quant_algo", FAULT_UNSUPPORTED},
  };
  reading_read_text(cases[_i].config);
  if (strstr(cases[_i].config, "attention_bias") != NULL) /* a wrong flag is told beside what is missing */
    ck_assert(reading_has_fault("/hf_config/attention_bias", FAULT_WRONG_TYPE));
  else
    ck_assert_msg(reading_has_fault(scratch_printf("/hf_config%s", cases[_i].pointer), cases[_i].code), "%s: %s",
                  cases[_i].config, reading_first_fault());
}
END_TEST

START_TEST(tells_all_faults_at_once)
{
  reading_read_text("{'model_type':'llama','hidden_size':'4096','num_hidden_layers':0,'num_attention_heads':-1,"
                    "'num_key_value_heads':2.5,'vocab_size':[],'torch_dtype':'int3','tie_word_embeddings':7}");
  ck_assert(reading_has_fault("/hf_config/hidden_size", FAULT_WRONG_TYPE));
  ck_assert(reading_has_fault("/hf_config/num_hidden_layers", FAULT_OUT_OF_RANGE));
  ck_assert(reading_has_fault("/hf_config/num_attention_heads", FAULT_OUT_OF_RANGE));
  ck_assert(reading_has_fault("/hf_config/num_key_value_heads", FAULT_WRONG_TYPE));
  ck_assert(reading_has_fault("/hf_config/vocab_size", FAULT_WRONG_TYPE));
  ck_assert(reading_has_fault("/hf_config/torch_dtype", FAULT_UNKNOWN_VALUE));
  ck_assert(reading_has_fault("/hf_config/tie_word_embeddings", FAULT_WRONG_TYPE));
  ck_assert(reading_has_fault("/hf_config/intermediate_size", FAULT_MISSING));
  ck_assert_uint_eq(reading.faults.count, 8);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_faults");
  TCase *tcase = suite_case(suite, "hf_faults", reading_prepare, reading_release);
  tcase_add_loop_test(tcase, faults_wrong_values, 0, 56);
  tcase_add_test(tcase, tells_all_faults_at_once);
  return suite_run(suite);
}
