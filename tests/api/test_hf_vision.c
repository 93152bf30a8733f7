/* Vision towers, each derived by hand; h is the tower's hidden size. A block with biases everywhere and layer norms is
   4h² + 4h + 2hw + w + h + 4h. */
#include "tests/lib/reading.h"

#include <string.h>

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define DECODER(hidden)                                                                                                \
  "'text_config':{'model_type':'llama','torch_dtype':'bfloat16','tie_word_embeddings':false,'vocab_size':1000,"        \
  "'hidden_size':" hidden ",'num_hidden_layers':2,'num_attention_heads':4,'num_key_value_heads':2,'head_dim':16,"      \
  "'attention_bias':false,'intermediate_size':128,'max_position_embeddings':4096}"

/* SigLIP of Gemma-3 (h 1152, w 4304): blocks 15,239,504·27 = 411,466,608; patches 3·14²·1152 + 1152 = 678,528; positions
   64²·1152 = 4,718,592; last norm 2,304; projection to 5376 with a norm 6,193,152 + 1,152: 423,060,336.
   Pixtral (h 1024, w 4096), no biases, gated, RMS norms: blocks 4h² + 3hw + 2h = 16,779,264, 24 of them; patches 602,112; first
   norm 1,024; projector to 5120: norm 1,024, merger 4096·1024, 1024·5120, 5120²: 438,958,080.
   Qwen2.5-VL (h 1280, w 3420), gated with biases, RMS norms: 19,702,200·32; patches 3·2·14²·1280 = 1,505,280; norm 1,280;
   merger 5120² + 5120 + 5120·3584 + 3584: 676,550,144.
   Qwen3-VL with two deep mergers (h 64, w 128): block 33,472·3; patches 3·2·16²·64 + 64 = 98,368; positions 100·64; merger norm
   128, 256² + 256, 256·512 + 512 = 197,504 with it; deep ones with norms of 512: 197,888 each.
   MoonViT (h 1152, w 4304): blocks 411,466,608; patches 678,528; positions 64²·1152; last norm 2,304; merger norm 2,304,
   4608² + 4608, 4608·7168 + 7168: 471,143,920. */
START_TEST(counts_towers)
{
  static const struct {
    const char *config;
    unsigned long long parameters;
  } cases[] = {
      {"{'model_type':'gemma3'," DECODER("5376") ",'vision_config':{'model_type':'siglip_vision_model',"
                                                 "'hidden_size':1152,'num_hidden_layers':27,'intermediate_size':4304,'"
                                                 "patch_size':14,'image_size':896}}",
       423060336},
      {"{'model_type':'mistral3','spatial_merge_size':2," DECODER(
           "5120") ",'vision_config':{'model_type':'pixtral',"
                   "'hidden_size':1024,'num_hidden_layers':24,'intermediate_size':4096,'patch_size':14,'image_size':"
                   "1540}}",
       438958080},
      {"{'model_type':'qwen2_5_vl'," DECODER("3584") ",'vision_config':{'depth':32,'hidden_size':1280,"
                                                     "'intermediate_size':3420,'patch_size':14,'temporal_patch_size':2,"
                                                     "'spatial_merge_size':2,'out_hidden_size':3584,"
                                                     "'fullatt_block_indexes':[7,15,23,31]}}",
       676550144},
      {"{'model_type':'qwen3_vl'," DECODER(
           "512") ",'vision_config':{'depth':3,'hidden_size':64,'intermediate_size':128,"
                  "'patch_size':16,'temporal_patch_size':2,'spatial_merge_size':2,'out_hidden_size':512,"
                  "'num_position_embeddings':100,'deepstack_visual_indexes':[1,2]}}",
       3 * 33472 + 98368 + 6400 + 197504 + 2 * 197888},
      {"{'model_type':'kimi_k25'," DECODER(
           "7168") ",'vision_config':{'vt_hidden_size':1152,'vt_num_hidden_layers':27,"
                   "'vt_intermediate_size':4304,'patch_size':14,'init_pos_emb_height':64,'init_pos_emb_width':64}}",
       471143920},
  };
  reading_read_text(cases[_i].config);
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(reading.model.vision_parameters, cases[_i].parameters);
  ck_assert(reading_assumes("vision tower is counted apart"));
}
END_TEST

/* Qwen3.5-27B (h 1152, w 4304): blocks 411,466,608; patches 3·2·16²·1152 + 1152; positions 2304·1152; merger norm 2,304,
   4608² + 4608, 4608·5120 + 5120: 460,730,096. Gemma-4 (h 1152): heads 4·1152² and norms 2·72, MLP 3·1152·4304, four norms:
   20,187,792·27; patches 884,736; positions 2·10240·1152; projection 1152·2816: 572,792,112. Totals leave them out. */
START_TEST(keeps_towers_out_of_totals)
{
  static const struct {
    const char *file;
    unsigned long long parameters;
  } cases[] = {{"Qwen--Qwen3.5-27B.json", 460730096}, {"google--gemma-4-26B-A4B.json", 572792112}};
  json_t *document = reading_load(cases[_i].file);
  unsigned long long total;
  reading_read(document, NULL);
  total = model_parameters_total(&reading.model);
  ck_assert_uint_eq(reading.model.vision_parameters, cases[_i].parameters);
  ck_assert_int_eq(json_object_del(document, "vision_config"), 0);
  reading_read(document, NULL);
  ck_assert_uint_eq(reading.model.vision_parameters, 0);
  ck_assert_uint_eq(model_parameters_total(&reading.model), total);
}
END_TEST

START_TEST(says_what_it_can_not_count)
{
  reading_read_text(
      "{'model_type':'new_vl','audio_config':{'depth':1}," DECODER("64") ",'vision_config':{'depth':32}}");
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(reading.model.vision_parameters, 0);
  ck_assert(reading_assumes("vision tower is not counted"));
  ck_assert(reading_assumes("audio tower is not counted"));
}
END_TEST

START_TEST(faults_wrong_towers)
{
  reading_read_text("{'model_type':'gemma3'," DECODER(
      "64") ",'vision_config':{'model_type':'siglip_vision_model',"
            "'hidden_size':'1152','num_hidden_layers':0,'intermediate_size':4304,'patch_size':14,"
            "'image_size':-1}}");
  ck_assert(reading_has_fault("/hf_config/vision_config/hidden_size", FAULT_WRONG_TYPE));
  ck_assert(reading_has_fault("/hf_config/vision_config/num_hidden_layers", FAULT_OUT_OF_RANGE));
  ck_assert(reading_has_fault("/hf_config/vision_config/image_size", FAULT_OUT_OF_RANGE));
  reading_read_text("{'model_type':'gemma3'," DECODER("64") ",'vision_config':[]}");
  ck_assert(reading_has_fault("/hf_config/vision_config", FAULT_WRONG_TYPE));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_vision");
  TCase *tcase = suite_case(suite, "hf_vision", reading_prepare, reading_release);
  tcase_add_loop_test(tcase, counts_towers, 0, 5);
  tcase_add_loop_test(tcase, keeps_towers_out_of_totals, 0, 2);
  tcase_add_test(tcase, says_what_it_can_not_count);
  tcase_add_test(tcase, faults_wrong_towers);
  return suite_run(suite);
}
