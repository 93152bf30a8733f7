/* Configs of published models against the counts in tests/data/model_facts.csv. */
#include "tests/lib/reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static void check_row(const struct reading_facts *facts)
{
  const char *name = reading_fact(facts, "model");
  const struct kv_bytes kv = model_kv_bytes(&reading.model, PRECISION_BF16);
  ck_assert_msg(model_parameters_total(&reading.model) == reading_number(facts, "params_total_derived"), "%s: total",
                name);
  ck_assert_msg(model_parameters_active(&reading.model) == reading_number(facts, "params_active_derived"), "%s: active",
                name);
  const double kv_bytes = (double)reading_number(facts, "kv_bytes_per_token_bf16");
  const double past_window_bytes = (double)reading_number(facts, "kv_growing_bytes_per_token_past_window");
  ck_assert_msg(reading_is_same(kv.growing_per_token_bytes + kv.windowed_per_token_bytes, kv_bytes), "%s: KV", name);
  ck_assert_msg(reading_is_same(kv.growing_per_token_bytes, past_window_bytes), "%s: KV past the window", name);
  ck_assert_msg(reading_windowed_layers() == reading_number(facts, "kv_windowed_layers"), "%s: windowed layers", name);
  ck_assert_msg(reading_state_elements() == reading_number(facts, "recurrent_state_elements_per_seq"), "%s: state",
                name);
  ck_assert_msg(reading.model.layer_count == reading_number(facts, "layers"), "%s: layers", name);
  ck_assert_msg(reading.model.vocab_size == reading_number(facts, "vocab"), "%s: vocab", name);
  ck_assert_msg(reading.model.has_tied_embeddings == (strcmp(reading_fact(facts, "tied_embeddings"), "true") == 0),
                "%s: tied", name);
  if (reading.model.max_context_tokens != 0) /* Falcon leaves it to its class */
    ck_assert_msg(reading.model.max_context_tokens == reading_number(facts, "max_positions"), "%s: context", name);
}

/* Every config resolves, and every row with derived figures is exact to the integer. */
START_TEST(agrees_with_the_facts)
{
  struct reading_facts facts;
  unsigned exact = 0;
  unsigned other = 0;
  reading_facts_open(&facts);
  while (reading_facts_next(&facts)) {
    const bool is_derived = *reading_fact(&facts, "params_total_derived") != '\0';
    reading_read_file(reading_fact(&facts, "config_file"));
    ck_assert_msg(reading.faults.count == 0, "%s: %s", reading_fact(&facts, "model"), reading_first_fault());
    if (is_derived)
      check_row(&facts);
    exact += is_derived;
    other += !is_derived;
  }
  ck_assert_uint_eq(exact, 81);
  ck_assert_uint_eq(other, 7);
}
END_TEST

/* ---- published totals ---- */

/* The class defaults of Llama-4's tower, which the stored copies of its configs lack. */
static json_t *with_llama4_tower(json_t *document)
{
  json_t *tower = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "hidden_size", 1408, "num_hidden_layers", 34,
                            "intermediate_size", 5632, "patch_size", 14, "image_size", 336, "projector_input_dim", 4096,
                            "projector_output_dim", 4096, "vision_output_dim", 4096);
  ck_assert_int_eq(json_object_set_new(document, "vision_config", tower), 0);
  return document;
}

/* What checkpoints hold though no config speaks of it: rotary frequencies of old Llamas, half a head each layer; GPT-2's
   causal masks; and heads that are tied and stored all the same, as Gemma-4's published total has it too. */
static unsigned long long unsaid(const struct reading_facts *facts)
{
  const struct model *model = &reading.model;
  const char *extra = reading_fact(facts, "explained_extra_in_published");
  const bool is_gemma4 = strcmp(reading_fact(facts, "model_type"), "gemma4") == 0;
  if (strstr(extra, "rotary") != NULL)
    return (unsigned long long)model->layer_count * model->layers[0].attention.head_dim / 2;
  if (strstr(extra, "causal-mask") != NULL)
    return (unsigned long long)model->layer_count * model->max_context_tokens * model->max_context_tokens;
  if (strstr(extra, "lm_head stored") != NULL || strstr(extra, "tied lm_head") != NULL || is_gemma4)
    return (unsigned long long)model->vocab_size * model->hidden_size;
  return 0;
}

/* Decoder, vision tower, prediction modules and scales make up the published total, and the named extra where it has one. */
static void check_published(const struct reading_facts *facts)
{
  const char *name = reading_fact(facts, "model");
  const struct parameter_counts decoder = model_parameters(&reading.model);
  const struct parameter_counts draft = model_draft_parameters(&reading.model);
  const unsigned long long beside =
      reading.model.vision_parameters + parameter_counts_total(&draft) + decoder.scales + draft.scales + unsaid(facts);
  ck_assert_msg(parameter_counts_total(&decoder) + beside == reading_number(facts, "params_total_published"),
                "%s: %llu and %llu beside", name, (unsigned long long)parameter_counts_total(&decoder), beside);
  if (*reading_fact(facts, "explained_extra_in_published") != '\0')
    ck_assert_msg(beside == reading_number(facts, "explained_extra_in_published"), "%s: %llu beside", name, beside);
}

/* One row is out: the published w4a16 count has scales per channel, the composed config per group (see its note). */
START_TEST(agrees_with_published_totals)
{
  struct reading_facts facts;
  unsigned rows = 0;
  reading_facts_open(&facts);
  while (reading_facts_next(&facts)) {
    const char *file = reading_fact(&facts, "config_file");
    json_t *document = reading_load(file);
    if (*reading_fact(&facts, "params_total_published") == '\0' ||
        strstr(reading_fact(&facts, "match_status"), "differs") != NULL)
      continue;
    if (strcmp(reading_fact(&facts, "model_type"), "llama4") == 0)
      document = with_llama4_tower(document);
    reading_read(document, reading_load_quantisation(file));
    ck_assert_msg(reading.faults.count == 0, "%s: %s", file, reading_first_fault());
    check_published(&facts);
    rows++;
  }
  printf("published totals reached: %u\n", rows);
  ck_assert_uint_ge(rows, 59);
}
END_TEST

/* Stored bytes of quantised checkpoints. GPTQ stores group indices besides (4 bytes an input feature: 0.08 %). */
START_TEST(weighs_quantised_checkpoints)
{
  struct reading_facts facts;
  unsigned rows = 0;
  reading_facts_open(&facts);
  while (reading_facts_next(&facts)) {
    const double stored_bytes = (double)reading_number(&facts, "stored_bytes_derived");
    if (*reading_fact(&facts, "stored_bytes_derived") == '\0')
      continue;
    reading_read_file(reading_fact(&facts, "config_file"));
    ck_assert_double_eq_tol(model_weights_bytes(&reading.model) / stored_bytes, 1.0, 0.001);
    rows++;
  }
  ck_assert_uint_ge(rows, 7);
}
END_TEST

/* What is written reads back to the same object, the same counts and no assumption. */
static void check_round_trip(const char *name)
{
  json_t *written = scratch_json_steal(architecture_write(&reading.model));
  json_t *sentences = scratch_json_steal(json_array());
  static struct model copy;
  architecture_read(&copy, sentences, written, "/architecture", &reading.faults);
  ck_assert_msg(reading.faults.count == 0, "%s: %s", name, reading_first_fault());
  ck_assert_uint_eq(json_array_size(sentences), 0);
  ck_assert_msg(json_equal(written, scratch_json_steal(architecture_write(&copy))), "%s: written twice", name);
  ck_assert_uint_eq(copy.layer_count, reading.model.layer_count);
  ck_assert_int_eq(memcmp(copy.layer_order, reading.model.layer_order, sizeof reading.model.layer_order), 0);
  ck_assert_uint_eq(model_parameters_total(&copy), model_parameters_total(&reading.model));
  ck_assert_uint_eq(model_parameters_active(&copy), model_parameters_active(&reading.model));
  ck_assert(reading_is_same(model_weights_bytes(&copy), model_weights_bytes(&reading.model)));
  ck_assert(reading_is_same(model_kv_sequence_bytes(&copy, PRECISION_BF16, 9999.0),
                            model_kv_sequence_bytes(&reading.model, PRECISION_BF16, 9999.0)));
  ck_assert_int_eq(copy.precision.kv_cache, reading.model.precision.kv_cache);
  ck_assert_int_eq(copy.precision.has_static_scales, reading.model.precision.has_static_scales);
}

START_TEST(round_trips_every_model)
{
  struct reading_facts facts;
  unsigned rows = 0;
  reading_facts_open(&facts);
  while (reading_facts_next(&facts)) {
    reading_read_file(reading_fact(&facts, "config_file"));
    ck_assert_msg(reading.faults.count == 0, "%s", reading_first_fault());
    check_round_trip(reading_fact(&facts, "model"));
    rows++;
  }
  ck_assert_uint_eq(rows, 88);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_facts");
  TCase *tcase = suite_case(suite, "hf_facts", reading_prepare, reading_release);
  tcase_add_test(tcase, agrees_with_the_facts);
  tcase_add_test(tcase, agrees_with_published_totals);
  tcase_add_test(tcase, weighs_quantised_checkpoints);
  tcase_add_test(tcase, round_trips_every_model);
  return suite_run(suite);
}
