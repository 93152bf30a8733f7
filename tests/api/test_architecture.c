/* The native architecture object: what may be left out, and what is refused. Round trips are in test_hf_facts. */
#include "api/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static struct model model;
static struct faults faults;
static json_t *assumptions;

static void prepare(void)
{
  memset(&faults, 0, sizeof faults);
  assumptions = json_array();
}

static void release(void)
{
  json_decref(assumptions);
  scratch_release();
}

static void read_text(const char *text)
{
  char *json = scratch_printf("%s", text);
  json_error_t error;
  json_t *document;
  for (char *at = json; *at != '\0'; at++)
    *at = *at == '\'' ? '"' : *at;
  document = json_loads(json, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  ck_assert_msg(document != NULL, "%s: %s", text, error.text);
  architecture_read(&model, assumptions, scratch_json_steal(document), "/architecture", &faults);
}

static bool has_fault(const char *pointer, enum fault_code code)
{
  for (size_t i = 0; i < faults.count; i++)
    if (faults.items[i].code == code && strcmp(faults.items[i].pointer, pointer) == 0)
      return true;
  return false;
}

static const char *first_fault(void)
{
  return faults.count != 0 ? scratch_printf("%s: %s", faults.items[0].pointer, faults.items[0].detail) : "no fault";
}

#define GQA "'attention':{'kind':'gqa','num_attention_heads':4,'num_key_value_heads':2}"
#define MLP "'feed_forward':{'kind':'dense','intermediate_size':128}"
#define SIZES "'hidden_size':64,'vocab_size':1000"

/* A layer: 64·(64 + 2·32) + 64·64 = 12,288; 3·64·128 = 24,576; two norms 128. Eight of them, a final norm of 64 and
   2·64,000. */
START_TEST(completes_the_shortest_object)
{
  read_text("{" SIZES ",'layers':[{'count':8," GQA "," MLP "}]}");
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_uint_eq(model.layer_count, 8);
  ck_assert_uint_eq(model.layers[0].attention.head_dim, 16);
  ck_assert_uint_eq(model.layers[0].attention.value_head_dim, 16);
  ck_assert_uint_eq(model_parameters_total(&model), 8 * 36992 + 64 + 128000);
  ck_assert_int_eq(model.precision.attention, PRECISION_BF16);
  ck_assert_uint_ge(json_array_size(assumptions), 4);
}
END_TEST

START_TEST(takes_kinds_by_word)
{
  read_text("{" SIZES ",'layers':[{'attention':{'kind':'mha','num_attention_heads':4}," MLP "},"
            "{'attention':{'kind':'mqa','num_attention_heads':4}," MLP "},"
            "{'attention':{'kind':'mla','num_attention_heads':4,'kv_lora_rank':8,'qk_rope_head_dim':4,"
            "'qk_nope_head_dim':8,'v_head_dim':8}," MLP "},"
            "{'attention':{'kind':'linear','parameters':99,'state_elements':7},'feed_forward':{'kind':'none'}},"
            "{'attention':{'kind':'none'},'feed_forward':{'kind':'moe','num_experts':4,'num_experts_per_tok':2,"
            "'intermediate_size':16,'gated':false}}]}");
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_uint_eq(model.layer_kind_count, 5);
  ck_assert_uint_eq(model.layers[0].attention.kv_heads, 4);
  ck_assert_uint_eq(model.layers[1].attention.kv_heads, 1);
  ck_assert_int_eq(model.layers[2].attention.kind, ATTENTION_LATENT);
  ck_assert_int_eq(model.layers[3].attention.kind, ATTENTION_LINEAR);
  ck_assert_int_eq(model.layers[3].feed_forward.kind, FEED_FORWARD_NONE);
  ck_assert_int_eq(model.layers[4].feed_forward.kind, FEED_FORWARD_MOE);
  ck_assert(!model.layers[4].feed_forward.is_gated);
}
END_TEST

START_TEST(reads_precisions)
{
  read_text("{" SIZES ",'precision':{'attention':'float8','experts':'nvfp4','head':'bfloat16','kv_cache':'fp8',"
            "'static_scales':true},'layers':[{" GQA "," MLP "}]}");
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_int_eq(model.precision.attention, PRECISION_FP8);
  ck_assert_int_eq(model.precision.experts, PRECISION_NVFP4);
  ck_assert_int_eq(model.precision.dense, PRECISION_BF16);
  ck_assert_int_eq(model.precision.kv_cache, PRECISION_FP8);
  ck_assert(model.precision.has_static_scales);
}
END_TEST

START_TEST(faults_wrong_objects)
{
  static const struct {
    const char *object, *pointer;
    enum fault_code code;
  } cases[] = {
      {"7", "", FAULT_WRONG_TYPE},
      {"{}", "/hidden_size", FAULT_MISSING},
      {"{}", "/vocab_size", FAULT_MISSING},
      {"{}", "/layers", FAULT_MISSING},
      {"{" SIZES ",'layers':{}}", "/layers", FAULT_WRONG_TYPE},
      {"{" SIZES ",'layers':[]}", "/layers", FAULT_MISSING},
      {"{" SIZES ",'layers':[7]}", "/layers/0", FAULT_WRONG_TYPE},
      {"{" SIZES ",'hiden_size':5,'layers':[]}", "/hiden_size", FAULT_UNKNOWN_FIELD},
      {"{" SIZES ",'layers':[{" GQA "}]}", "/layers/0/feed_forward", FAULT_MISSING},
      {"{" SIZES ",'layers':[{" MLP "}]}", "/layers/0/attention", FAULT_MISSING},
      {"{" SIZES ",'layers':[{'count':0," GQA "," MLP "}]}", "/layers/0/count", FAULT_OUT_OF_RANGE},
      {"{" SIZES ",'layers':[{'count':600," GQA "," MLP "},{'count':600," GQA "," MLP "}]}", "/layers/1",
       FAULT_OUT_OF_RANGE},
      {"{" SIZES ",'layers':[{'attention':{'kind':'gpa'}," MLP "}]}", "/layers/0/attention/kind", FAULT_UNKNOWN_VALUE},
      {"{" SIZES ",'layers':[{'attention':{}," MLP "}]}", "/layers/0/attention/kind", FAULT_MISSING},
      {"{" SIZES ",'layers':[{'attention':{'kind':'gqa','num_attention_heads':4}," MLP "}]}",
       "/layers/0/attention/num_key_value_heads", FAULT_MISSING},
      {"{" SIZES ",'layers':[{'attention':{'kind':'mqa','num_attention_heads':4,'num_key_value_heads':2}," MLP "}]}",
       "/layers/0/attention/num_key_value_heads", FAULT_CONFLICT},
      {"{" SIZES ",'layers':[{'attention':{'kind':'gqa','num_attention_heads':4,'num_key_value_heads':3}," MLP "}]}",
       "/layers/0/attention/num_key_value_heads", FAULT_CONFLICT},
      {"{" SIZES ",'layers':[{'attention':{'kind':'mha','num_attention_heads':0}," MLP "}]}",
       "/layers/0/attention/num_attention_heads", FAULT_OUT_OF_RANGE},
      {"{" SIZES ",'layers':[{'attention':{'kind':'linear','parameters':-1}," MLP "}]}",
       "/layers/0/attention/parameters", FAULT_OUT_OF_RANGE},
      {"{" SIZES ",'layers':[{" GQA ",'feed_forward':{'kind':'dense'}}]}", "/layers/0/feed_forward/intermediate_size",
       FAULT_OUT_OF_RANGE},
      {"{" SIZES ",'precision':{'head':'bf61'},'layers':[{" GQA "," MLP "}]}", "/precision/head", FAULT_UNKNOWN_VALUE},
      {"{" SIZES ",'precision':{'head':8},'layers':[{" GQA "," MLP "}]}", "/precision/head", FAULT_WRONG_TYPE},
      {"{" SIZES ",'extra_parameters':-1,'layers':[{" GQA "," MLP "}]}", "/extra_parameters", FAULT_OUT_OF_RANGE},
  };
  read_text(cases[_i].object);
  ck_assert_msg(has_fault(scratch_printf("/architecture%s", cases[_i].pointer), cases[_i].code), "%s: %s",
                cases[_i].object, first_fault());
}
END_TEST

/* Twice one layer, stored once: 12,288 + 24,576 + 128, with 50 parameters besides; 7 of layers' embeddings, 5 others; final norm
   and 2·64,000. A module beside: the same layer, 2·64², three norms of 64; a tower. */
START_TEST(reads_what_is_shared_and_beside)
{
  struct parameter_counts draft;
  read_text(
      "{" SIZES ",'precision':{},'final_norm_parameters':64,'layer_embedding_parameters':7,'extra_parameters':5,"
      "'vision_parameters':400,'multi_token_prediction':{'modules':2,'own_embeddings':true,'norm_parameters':128," GQA
      "," MLP "},'layers':[{'other_parameters':50,'norm_parameters':128," GQA "," MLP "},"
      "{'shares_parameters':true,'norm_parameters':128," GQA "," MLP "}]}");
  ck_assert_msg(faults.count == 0, "%s", first_fault());
  ck_assert_uint_eq(model_parameters_total(&model), 36992 + 50 + 12 + 64 + 128000);
  ck_assert_uint_eq(model.vision_parameters, 400);
  draft = model_draft_parameters(&model);
  ck_assert_uint_eq(parameter_counts_total(&draft), 2 * (36992 + 8192 + 192 + 128000));
}
END_TEST

START_TEST(refuses_wrong_modules)
{
  read_text("{" SIZES ",'multi_token_prediction':{'modules':0,'layer':{}},'layers':[{" GQA "," MLP "}]}");
  ck_assert(has_fault("/architecture/multi_token_prediction/modules", FAULT_OUT_OF_RANGE));
  ck_assert(has_fault("/architecture/multi_token_prediction/layer", FAULT_UNKNOWN_FIELD));
  ck_assert(has_fault("/architecture/multi_token_prediction/attention", FAULT_MISSING));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/architecture");
  TCase *tcase = suite_case(suite, "architecture", prepare, release);
  tcase_add_test(tcase, completes_the_shortest_object);
  tcase_add_test(tcase, takes_kinds_by_word);
  tcase_add_test(tcase, reads_precisions);
  tcase_add_loop_test(tcase, faults_wrong_objects, 0, 23);
  tcase_add_test(tcase, reads_what_is_shared_and_beside);
  tcase_add_test(tcase, refuses_wrong_modules);
  return suite_run(suite);
}
