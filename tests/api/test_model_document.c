/* Bodies that bring models, and the figures answered about them. */
#include "api/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static struct model model;
static struct faults faults;

static json_t *load(const char *name)
{
  json_t *document = json_load_file(suite_source_path(scratch_printf("tests/data/models/%s", name)), 0, NULL);
  ck_assert_ptr_nonnull(document);
  return document;
}

/* Reads a body and returns its `derived`. Takes the references of its members; NULL leaves one out. */
static json_t *derive(json_t *config, json_t *quant_config, json_t *architecture)
{
  json_t *assumptions;
  json_t *derived;
  json_t *body = scratch_json_steal(json_pack("{s:o*, s:o*, s:o*}", "hf_config", config, "hf_quant_config",
                                              quant_config, "architecture", architecture));
  memset(&faults, 0, sizeof faults);
  model_read(&model, &assumptions, body, "", &faults);
  derived = scratch_json_steal(model_derived_write(&model, assumptions));
  json_decref(assumptions);
  return derived;
}

/* Llama-3.1-8B, counts as in test_model. */
START_TEST(derives_a_dense_model)
{
  const json_t *derived = derive(load("meta-llama--Meta-Llama-3.1-8B.json"), NULL, NULL);
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_int_eq(doc_integer(derived, "parameters_total"), 8030261248);
  ck_assert_int_eq(doc_integer(derived, "parameters_active"), 8030261248);
  ck_assert_int_eq(doc_integer(derived, "parameters_by_module.attention"), 32 * 41943040LL);
  ck_assert_int_eq(doc_integer(derived, "parameters_by_module.head"), 525336576);
  ck_assert_int_eq(doc_integer(derived, "weights_bytes"), 16060522496);
  ck_assert_int_eq(doc_integer(derived, "kv_bytes_per_token"), 131072);
  ck_assert_int_eq(doc_integer(derived, "state_bytes_per_sequence"), 0);
  ck_assert_ptr_null(doc_at(derived, "kv_bytes_per_token_past_window"));
  ck_assert_str_eq(doc_text(derived, "attention.0.kind"), "gqa");
  ck_assert_int_eq(doc_integer(derived, "attention.0.layers"), 32);
  ck_assert(doc_is_null(derived, "attention.0.window_tokens"));
}
END_TEST

/* Gemma-2-9B: 42 layers of 2·8·256·2 = 8,192 bytes, every other one a window of 4,096. */
START_TEST(derives_windows)
{
  const json_t *derived = derive(load("google--gemma-2-9b-it.json"), NULL, NULL);
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_int_eq(doc_integer(derived, "kv_bytes_per_token"), 344064);
  ck_assert_int_eq(doc_integer(derived, "kv_bytes_per_token_past_window"), 172032);
  ck_assert_int_eq(doc_integer(derived, "attention.0.window_tokens"), 4096);
  ck_assert_int_eq(doc_integer(derived, "attention.0.layers"), 21);
  ck_assert_uint_gt(json_array_size(doc_array(derived, "assumptions")), 0);
}
END_TEST

/* The side file makes weights and KV cache fp8: half of 327,680 bytes a token. */
START_TEST(takes_the_side_file)
{
  const json_t *derived = derive(load("nvidia--Llama-3.1-70B-Instruct-FP8.json"),
                                 load("nvidia--Llama-3.1-70B-Instruct-FP8.hf_quant_config.json"), NULL);
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_int_eq(doc_integer(derived, "kv_bytes_per_token"), 163840);
  ck_assert_str_eq(doc_text(derived, "kv_cache_precision"), "fp8");
}
END_TEST

/* Nemotron-3-Nano keeps its recurrent state in float32: 23 layers of 4·64·64·128 and 2·4·6144 bytes of convolution. */
START_TEST(derives_states)
{
  const json_t *derived = derive(load("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json"), NULL, NULL);
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_int_eq(doc_integer(derived, "state_bytes_per_sequence"), 23 * (4 * 524288 + 2 * 24576));
  ck_assert_int_eq(doc_integer(derived, "kv_bytes_per_token"), 6144);
}
END_TEST

/* DeepSeek-V3: 684,531,386,000 published parameters are the decoder's 671,026,419,200, the prediction module's
   13,463,426,304 and 41,540,496 scales. Gemma-4's tower is in test_hf_vision. */
START_TEST(keeps_apart_what_is_beside)
{
  const json_t *derived = derive(load("deepseek-ai--DeepSeek-V3.json"), NULL, NULL);
  ck_assert_int_eq(doc_integer(derived, "parameters_total"), 671026419200);
  ck_assert_int_eq(doc_integer(derived, "parameters_multi_token_prediction"), 13463426304);
  ck_assert_int_eq(doc_integer(derived, "quantisation_scales"), 41540496);
  ck_assert_int_eq(doc_integer(derived, "parameters_vision"), 0);
  derived = derive(load("google--gemma-4-26B-A4B.json"), NULL, NULL);
  ck_assert_int_eq(doc_integer(derived, "parameters_vision"), 572792112);
  ck_assert_int_eq(doc_integer(derived, "parameters_total"), 25233141760);
}
END_TEST

START_TEST(takes_what_it_answered)
{
  json_t *first = derive(load("deepseek-ai--DeepSeek-V3.json"), NULL, NULL);
  json_t *second = derive(NULL, NULL, architecture_write(&model));
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_int_eq(json_object_del(first, "assumptions"), 0); /* nothing was left open the second time */
  ck_assert_int_eq((int)json_array_size(doc_array(second, "assumptions")), 0);
  ck_assert_int_eq(json_object_del(second, "assumptions"), 0);
  ck_assert_str_eq(doc_dump(first), doc_dump(second));
}
END_TEST

static void expect_fault(const char *pointer, enum fault_code code)
{
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_str_eq(faults.items[0].pointer, pointer);
  ck_assert_int_eq(faults.items[0].code, code);
}

START_TEST(refuses_unclear_bodies)
{
  (void)derive(NULL, NULL, NULL);
  expect_fault("/hf_config", FAULT_MISSING);
  (void)derive(load("openai-community--gpt2.json"), NULL, json_object());
  expect_fault("/architecture", FAULT_CONFLICT);
  (void)derive(NULL, json_object(), json_object());
  expect_fault("/architecture", FAULT_CONFLICT);
  (void)derive(load("openai-community--gpt2.json"), json_object(), NULL);
  expect_fault("/hf_quant_config/quantization", FAULT_MISSING);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/model_document");
  TCase *tcase = suite_case(suite, "model_document", NULL, scratch_release);
  tcase_add_test(tcase, derives_a_dense_model);
  tcase_add_test(tcase, derives_windows);
  tcase_add_test(tcase, takes_the_side_file);
  tcase_add_test(tcase, derives_states);
  tcase_add_test(tcase, keeps_apart_what_is_beside);
  tcase_add_test(tcase, takes_what_it_answered);
  tcase_add_test(tcase, refuses_unclear_bodies);
  return suite_run(suite);
}
