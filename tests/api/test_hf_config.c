/* Configs one key at a time: windows, experts, heads, nested decoders and types nobody knows. */
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

START_TEST(assumes_nothing_when_all_is_said)
{
  reading_read_text("{" LLAMA SIZES TAIL ",'head_dim':16,'attention_bias':false,'some_new_key':{'x':[1]}}");
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(json_array_size(reading.assumptions), 0);
}
END_TEST

/* A layer of the config above: 64·(64 + 2·32) + 64·64 = 12,288; 3·64·128 = 24,576; norms 128. Eight of them, the final norm
   and 2·64,000: 424,000. */
START_TEST(takes_an_unknown_type_by_its_fields)
{
  reading_read_text("{'model_type':'brand_new','vocab_size':1000," SIZES TAIL "}");
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(model_parameters_total(&reading.model), 8 * 36992 + 64 + 128000);
  ck_assert(reading_assumes("brand_new"));
  ck_assert(reading_assumes("tie_word_embeddings"));
  ck_assert(reading_assumes("head_dim"));
  ck_assert(reading_assumes("dtype"));
}
END_TEST

/* Keys that say what the model is made of, and that nobody here knows. Other names of keys that were read, switches that are
   off, numerics and sampling are none. */
START_TEST(names_structure_that_it_did_not_read)
{
  reading_read_text("{'model_type':'brand_new','vocab_size':1000," SIZES TAIL
                    ",'num_widgets':4,'flux_dim':[8,8],'num_experts_extra':0,'norm_layer_eps':1,'num_beams':4,"
                    "'sliding_window':512,'sliding_window_size':512,'use_layer_magic':false,'colour':'red'}");
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert(reading_assumes("were not read: num_widgets, flux_dim"));
  ck_assert(!reading_assumes("sliding_window_size"));
  ck_assert(!reading_assumes("beams"));
  reading_read_text("{" LLAMA SIZES TAIL ",'num_widgets':4}");
  ck_assert(!reading_assumes("num_widgets"));
}
END_TEST

START_TEST(reads_windows)
{
  static const struct {
    const char *keys;
    unsigned windowed, window_tokens;
  } cases[] = {
      {"'sliding_window':512", 8, 512},
      {"'sliding_window':null", 0, 0},
      {"'sliding_window':512,'use_sliding_window':false", 0, 0},
      {"'sliding_window':512,'use_sliding_window':null", 8, 512},
      {"'sliding_window':512,'max_window_layers':6", 0, 0},
      {"'sliding_window':512,'max_window_layers':6,'use_sliding_window':true", 2, 512},
      {"'sliding_window':4096", 0, 0},
      {"'sliding_window':512,'sliding_window_pattern':4", 6, 512},
      {"'sliding_window':512,'_sliding_window_pattern':2", 4, 512},
      {"'sliding_window':512,'sliding_window_pattern':'LLLG'", 6, 512},
      {"'sliding_window':512,'layer_types':['sliding_attention','full_attention','sliding_attention','full_attention',"
       "'sliding_attention','full_attention','full_attention','full_attention']",
       3, 512},
      {"'attention_chunk_size':1024", 6, 1024},
      {"'attention_chunk_size':1024,'no_rope_layers':[1,1,1,0,1,1,0,0]", 5, 1024},
  };
  reading_read_text(scratch_printf("{" LLAMA SIZES TAIL ",%s}", cases[_i].keys));
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(reading_windowed_layers(), cases[_i].windowed);
  for (unsigned kind = 0; kind < reading.model.layer_kind_count; kind++)
    if (reading.model.layers[kind].attention.window_tokens != 0)
      ck_assert_uint_eq(reading.model.layers[kind].attention.window_tokens, cases[_i].window_tokens);
}
END_TEST

START_TEST(reads_where_experts_are)
{
  static const struct {
    const char *keys;
    unsigned layers;
  } cases[] = {
      {"'num_local_experts':4", 8},
      {"'num_experts':4,'decoder_sparse_step':2", 4},
      {"'num_experts':4,'decoder_sparse_step':1,'mlp_only_layers':[0,7]", 6},
      {"'n_routed_experts':4,'first_k_dense_replace':3", 5},
      {"'n_routed_experts':4,'first_k_dense_replace':1,'moe_layer_freq':2", 3},
      {"'n_routed_experts':4,'moe_layer_freq':[0,1,1,1,1,1,1,0]", 6},
      {"'num_local_experts':4,'interleave_moe_layer_step':4", 2},
      {"'num_local_experts':4,'moe_layers':[1,3,5]", 3},
      {"'num_experts':4,'expert_layer_period':2,'expert_layer_offset':1", 4},
      {"'num_experts':0", 0},
  };
  unsigned layers = 0;
  reading_read_text(scratch_printf("{" LLAMA SIZES TAIL ",'num_experts_per_tok':2,%s}", cases[_i].keys));
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  for (unsigned kind = 0; kind < reading.model.layer_kind_count; kind++)
    if (reading.model.layers[kind].feed_forward.kind == FEED_FORWARD_MOE)
      layers += model_layers_of_kind(&reading.model, kind);
  ck_assert_uint_eq(layers, cases[_i].layers);
}
END_TEST

/* KV bytes of 8 layers with these heads: 2·2 bytes·16 a head. */
START_TEST(reads_kv_heads_by_layer)
{
  reading_read_text("{" LLAMA SIZES "'num_key_value_heads':[4,4,2,2,1,1,1,1]}");
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert(reading_is_same(model_kv_bytes(&reading.model, PRECISION_BF16).growing_per_token_bytes, 16 * 64));
  reading_read_text("{" LLAMA SIZES "'num_key_value_heads':[4,4,3,2,1,1,1,1]}");
  ck_assert(reading_has_fault("/hf_config/num_key_value_heads", FAULT_CONFLICT));
  reading_read_text("{" LLAMA SIZES "'num_key_value_heads':null}");
  ck_assert(reading_is_same(model_kv_bytes(&reading.model, PRECISION_BF16).growing_per_token_bytes, 8 * 4 * 64));
  ck_assert(reading_assumes("num_key_value_heads"));
}
END_TEST

START_TEST(finds_nested_decoders)
{
  reading_read_text(
      "{'model_type':'new_vl','tie_word_embeddings':true,'dtype':'float16','vision_config':{'hidden_size':7},"
      "'llm_config':{'model_type':'llama','vocab_size':1000," SIZES TAIL "}}");
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert(reading.model.has_tied_embeddings);
  ck_assert_int_eq(reading.model.precision.attention, PRECISION_FP16);
  ck_assert(reading_assumes("vision tower"));
  reading_read_text("{'text_config':{'model_type':'llama','hidden_size':-1}}");
  ck_assert(reading_has_fault("/hf_config/text_config/hidden_size", FAULT_OUT_OF_RANGE));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_config");
  TCase *tcase = suite_case(suite, "hf_config", reading_prepare, reading_release);
  tcase_add_test(tcase, assumes_nothing_when_all_is_said);
  tcase_add_test(tcase, takes_an_unknown_type_by_its_fields);
  tcase_add_test(tcase, names_structure_that_it_did_not_read);
  tcase_add_loop_test(tcase, reads_windows, 0, 13);
  tcase_add_loop_test(tcase, reads_where_experts_are, 0, 10);
  tcase_add_test(tcase, reads_kv_heads_by_layer);
  tcase_add_test(tcase, finds_nested_decoders);
  return suite_run(suite);
}
