/* Modules for multi-token prediction, beside the decoder. */
#include "tests/lib/reading.h"

#include "tests/lib/suite.h"

static unsigned long long draft_total(void)
{
  const struct parameter_counts counts = model_draft_parameters(&reading.model);
  return parameter_counts_total(&counts);
}

/* DeepSeek-V3: attention 187,107,328; 257 experts of 3·7168·2048 = 44,040,192; router 256·7168 + 256; two norms; projection
   2·7168² and three norms; embedding and head 2·129280·7168: 13,463,426,304.
   GLM-4.5: attention 136,329,472; 161 experts of 3·5120·1536 = 23,592,960; router 819,360; two norms; 2·5120² and three norms;
   embedding and head 2·151552·5120: 5,539,962,272.
   GLM-5: attention with its indexer 174,394,112; experts and router 9,702,998,272; 2·6144² and five norms; no copies.
   Qwen3-Next has one without saying so: gated attention 27,263,488; 513 experts of 3,145,728; router 1,048,576; gate 2,048;
   2·2048² and five norms: 1,650,471,424. Qwen3.5-27B: attention 104,858,112, MLP 267,386,880, 2·5120² and five norms.
   MiMo-7B: attention 4096·6144 + 4096² and biases 6,144; MLP 3·4096·11008; 2·4096² and five norms. Kimi-K2.5 says none. */
START_TEST(counts_modules)
{
  static const struct {
    const char *file;
    unsigned long long parameters;
  } cases[] = {
      {"deepseek-ai--DeepSeek-V3.json", 13463426304},
      {"zai-org--GLM-4.5.json", 5539962272},
      {"zai-org--GLM-5.json", 174394112 + 9702998272 + 2ULL * 6144 * 6144 + 5 * 6144},
      {"Qwen--Qwen3-Next-80B-A3B-Instruct.json", 1650471424},
      {"Qwen--Qwen3.5-27B.json", 104858112 + 267386880 + 2ULL * 5120 * 5120 + 5 * 5120},
      {"XiaomiMiMo--MiMo-7B-Base.json",
       4096ULL * 6144 + 4096 * 4096 + 6144 + 3ULL * 4096 * 11008 + 2ULL * 4096 * 4096 + 5 * 4096},
      {"moonshotai--Kimi-K2.5.json", 0},
      {"meta-llama--Meta-Llama-3.1-8B.json", 0},
  };
  reading_read_file(cases[_i].file);
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(draft_total(), cases[_i].parameters);
  ck_assert_int_eq(reading_assumes("speculative decoding only"), cases[_i].parameters != 0);
}
END_TEST

/* The number of modules multiplies; the decoder's total does not move. */
START_TEST(multiplies_modules)
{
  json_t *document = reading_load("XiaomiMiMo--MiMo-7B-Base.json");
  unsigned long long one;
  unsigned long long total;
  reading_read(document, NULL);
  one = draft_total();
  total = model_parameters_total(&reading.model);
  ck_assert_int_eq(json_object_set_new(document, "num_nextn_predict_layers", json_integer(3)), 0);
  reading_read(document, NULL);
  ck_assert_uint_eq(draft_total(), 3 * one);
  ck_assert_uint_eq(model_parameters_total(&reading.model), total);
  ck_assert_int_eq(json_object_set_new(document, "num_nextn_predict_layers", json_integer(65)), 0);
  reading_read(document, NULL);
  ck_assert(reading_has_fault("/hf_config/num_nextn_predict_layers", FAULT_OUT_OF_RANGE));
}
END_TEST

/* Nothing is made up where layers are of another build. */
START_TEST(says_what_it_can_not_count)
{
  json_t *document = reading_load("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json");
  ck_assert_int_eq(json_object_set_new(document, "num_nextn_predict_layers", json_integer(1)), 0);
  reading_read(document, NULL);
  ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
  ck_assert_uint_eq(draft_total(), 0);
  ck_assert(reading_assumes("not counted beside layers of this kind"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_draft");
  TCase *tcase = suite_case(suite, "hf_draft", reading_prepare, reading_release);
  tcase_add_loop_test(tcase, counts_modules, 0, 8);
  tcase_add_test(tcase, multiplies_modules);
  tcase_add_test(tcase, says_what_it_can_not_count);
  return suite_run(suite);
}
