/* The catalogue of accelerators and models: what is built in, revisions, models from their Hugging Face configuration, and the
   workloads a team registers. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <stdlib.h>
#include <string.h>

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static size_t count_items(const char *path)
{
  return json_array_size(doc_array(web_get_ok(&fitd, path), "items"));
}

START_TEST(first_start_loads_the_catalogue)
{
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-32b"};
  ck_assert_uint_eq(count_items("/v1/profiles?limit=1000"), 51);
  ck_assert_uint_ge(count_items("/v1/models?limit=1000"), 30);
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
    (void)web_get_ok(&fitd, scratch_printf("/v1/models/%s", models[i]));
}
END_TEST

START_TEST(profile_carries_the_fields_of_the_data)
{
  const json_t *profile = web_get_ok(&fitd, "/v1/profiles/h100-sxm-80gb");
  ck_assert_int_eq(doc_integer(profile, "revision"), 1);
  ck_assert_double_eq_tol(doc_number(profile, "memory_bandwidth_gb_s"), 3350, 1e-9);
  ck_assert_double_eq_tol(doc_number(profile, "memory_engine_mib"), 81091, 1e-9);
  ck_assert_double_eq_tol(doc_number(profile, "peak_tflops_dense.bf16"), 989.5, 1e-9);
  ck_assert_int_eq(doc_integer(profile, "interconnect.domain_size"), 8);
  ck_assert_double_eq_tol(doc_number(profile, "tdp_w"), 700, 1e-9);
  ck_assert_double_eq_tol(doc_number(profile, "price_usd_per_hour"), 6.88, 1e-9);
  ck_assert_str_eq(doc_text(profile, "confidence"), "high");
  ck_assert_str_eq(doc_text(web_get_ok(&fitd, "/v1/profiles/rtx3090-24gb"), "confidence"), "recalled");
}
END_TEST

START_TEST(only_a_change_makes_a_revision)
{
  const char *path = "/v1/profiles/our-h100";
  (void)web_put_status(&fitd, path, sample_profile(3350, "2.5"), 201);
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, path), "revision"), 1);
  (void)web_put_status(&fitd, path, sample_profile(3350, "2.5"), 200);
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, path), "revision"), 1);
  (void)web_put_status(&fitd, path, sample_profile(3350, "2.1"), 200);
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, path), "revision"), 2);
  ck_assert_uint_eq(count_items("/v1/profiles/our-h100/revisions"), 2);
  ck_assert_double_eq_tol(doc_number(web_get_ok(&fitd, "/v1/profiles/our-h100/revisions/1"), "price_usd_per_hour"), 2.5,
                          1e-9);
  ck_assert_double_eq_tol(doc_number(web_get_ok(&fitd, "/v1/profiles/our-h100/revisions/2"), "price_usd_per_hour"), 2.1,
                          1e-9);
}
END_TEST

START_TEST(scorecards_keep_the_revision_they_used)
{
  const char *sketch = sample_sketch_with("\"profiles\":[\"our-h100\"]");
  const char *id;
  (void)web_put_status(&fitd, "/v1/profiles/our-h100", sample_profile(3350, "2.5"), 201);
  id = doc_text(sample_scorecard(&fitd, sketch), "id");
  (void)web_put_status(&fitd, "/v1/profiles/our-h100", sample_profile(3350, "5"), 200);
  ck_assert_int_eq(doc_integer(sample_scorecard(&fitd, sketch), "profile_revision"), 2);
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, scratch_printf("/v1/scorecards/%s", id)), "profile_revision"), 1);
}
END_TEST

START_TEST(what_is_read_can_be_written_back)
{
  /* GET, change one value, PUT: the obvious thing to do. */
  json_t *profile = web_get_ok(&fitd, "/v1/profiles/l4-24gb");
  ck_assert_int_eq(json_object_set_new(profile, "available", json_true()), 0);
  (void)web_put_status(&fitd, "/v1/profiles/l4-24gb", doc_dump(profile), 200);
  ck_assert(json_is_true(doc_at(web_get_ok(&fitd, "/v1/profiles/l4-24gb"), "available")));
}
END_TEST

START_TEST(available_profiles_are_the_default)
{
  json_t *profile = web_get_ok(&fitd, "/v1/profiles/h800-sxm-80gb");
  const json_t *evaluation;
  ck_assert_int_eq(json_object_set_new(profile, "available", json_true()), 0);
  (void)web_put_status(&fitd, "/v1/profiles/h800-sxm-80gb", doc_dump(profile), 200);
  evaluation = sample_evaluate(&fitd, sample_sketch_with(NULL));
  ck_assert_uint_eq(json_array_size(doc_array(evaluation, "scorecards")), 1);
  ck_assert_str_eq(doc_text(evaluation, "scorecards.0.profile"), "h800-sxm-80gb");
}
END_TEST

START_TEST(users_revision_wins_over_the_built_in)
{
  (void)web_put_status(&fitd, "/v1/profiles/h100-sxm-80gb", sample_profile(3000, "1.99"), 200);
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL);
  ck_assert_double_eq_tol(doc_number(web_get_ok(&fitd, "/v1/profiles/h100-sxm-80gb"), "memory_bandwidth_gb_s"), 3000,
                          1e-9);
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, "/v1/profiles/h100-sxm-80gb"), "revision"), 2);
  ck_assert_uint_eq(count_items("/v1/profiles?limit=1000"), 51);
}
END_TEST

START_TEST(deleted_built_ins_stay_deleted)
{
  ck_assert_int_eq(web_delete(&fitd, "/v1/profiles/t4-16gb")->status, 204);
  ck_assert_int_eq(web_delete(&fitd, "/v1/models/qwen3-32b")->status, 204);
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL);
  (void)reply_assert_problem(web_get(&fitd, "/v1/profiles/t4-16gb"), 404);
  (void)reply_assert_problem(web_get(&fitd, "/v1/models/qwen3-32b"), 404);
  ck_assert_uint_eq(count_items("/v1/profiles?limit=1000"), 50);
  (void)reply_assert_problem(web_post(&fitd, "/v1/evaluations", sample_sketch_with("\"profiles\":[\"t4-16gb\"]")), 422);
  (void)web_put_status(&fitd, "/v1/profiles/t4-16gb", sample_profile(300, "0.5"), 201);
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL);
  ck_assert_double_eq_tol(doc_number(web_get_ok(&fitd, "/v1/profiles/t4-16gb"), "memory_bandwidth_gb_s"), 300, 1e-9);
  (void)web_get_ok(&fitd, "/v1/profiles/l4-24gb");
}
END_TEST

START_TEST(bad_profiles_are_refused)
{
  json_t *profile = doc_parse(sample_profile(-1, "2.5"));
  const json_t *problem;
  ck_assert_int_eq(json_object_set_new(profile, "tdp_wat", json_integer(700)), 0);
  problem = reply_assert_problem(web_put(&fitd, "/v1/profiles/bad", doc_dump(profile)), 422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/memory_bandwidth_gb_s"));
  ck_assert_str_eq(doc_text(doc_fault(problem, "/tdp_wat"), "suggestion"), "tdp_w");
  ck_assert_int_eq(web_get(&fitd, "/v1/profiles/bad")->status, 404);
}
END_TEST

START_TEST(bad_names_are_refused)
{
  static const char *const names[] = {
      "Upper", ".dot",  "-dash",    "a+b",
      "a%20b", "a%2Fb", "%C3%BCml", "a1234567890123456789012345678901234567890123456789012345678901234"}; /* 65 long */
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const struct reply *reply = web_put(&fitd, scratch_printf("/v1/profiles/%s", names[i]), sample_profile(3350, "1"));
    ck_assert_msg(reply->status == 422 || reply->status == 404 || reply->status == 400, "%s → %ld", names[i],
                  reply->status);
    (void)reply_assert_problem(reply, reply->status);
  }
}
END_TEST

/* Dense models of the data set and the names they are stored under here. */
static const struct {
  const char *name, *file;
} DENSE[] = {
    {"yi-34b", "01-ai--Yi-34B.json"},
    {"smollm2", "HuggingFaceTB--SmolLM2-135M-Instruct.json"},
    {"qwen2-72b", "Qwen--Qwen2-72B-Instruct.json"},
    {"qwen2.5-0.5b", "Qwen--Qwen2-0.5B-Instruct.json"},
    {"qwen3", "Qwen--Qwen3-32B.json"},
    {"codellama", "codellama--CodeLlama-34b-Instruct-hf.json"},
    {"llama-2", "meta-llama--Llama-2-13b-hf.json"},
    {"llama-3.2", "meta-llama--Llama-3.2-1B-Instruct.json"},
    {"llama-405", "meta-llama--Meta-Llama-3.1-405B.json"},
    {"mistral", "mistralai--Mistral-7B-Instruct-v0.3.json"},
    {"phi-4", "microsoft--phi-4.json"},
};

static const char *config_body(const char *file)
{
  return scratch_printf("{\"hf_config\":%s}",
                        scratch_read_file(suite_source_path(scratch_printf("tests/data/models/%s", file))));
}

/* A number of model_facts.csv: the row by its configuration file, the column by its name. The rows asked for have no quoted
   commas before the columns asked for. */
static long long fact(const char *file, const char *column)
{
  const char *facts = scratch_read_file(suite_source_path("tests/data/model_facts.csv"));
  const char *row = strstr(facts, scratch_printf(",%s,", file));
  const char *head = strstr(facts, scratch_printf(",%s,", column));
  ck_assert_ptr_nonnull(row);
  ck_assert_ptr_nonnull(head);
  while (row[-1] != '\n')
    row--;
  for (const char *at = facts; at <= head; at++)
    if (*at == ',')
      row = strchr(row, ',') + 1;
  return strtoll(row, NULL, 10);
}

static void assert_derived(const json_t *model, const char *file)
{
  ck_assert_int_gt(fact(file, "params_total_derived"), 0);
  ck_assert_int_eq(doc_integer(model, "derived.parameters_total"), fact(file, "params_total_derived"));
  ck_assert_int_eq(doc_integer(model, "derived.kv_bytes_per_token"), fact(file, "kv_bytes_per_token_bf16"));
}

START_TEST(model_from_its_configuration)
{
  const char *name = scratch_printf("our-%s", DENSE[_i].name), *path = scratch_printf("/v1/models/%s", name);
  assert_derived(web_put_status(&fitd, path, config_body(DENSE[_i].file), 201), DENSE[_i].file);
  assert_derived(web_get_ok(&fitd, path), DENSE[_i].file);
  ck_assert_str_eq(
      doc_text(sample_scorecard(
                   &fitd, sample_sketch(&(struct sample_sketch){
                              .model = name, .requests_per_s = 0.1, .more = "\"profiles\":[\"h200-sxm-141gb\"]"})),
               "model"),
      name);
}
END_TEST

START_TEST(inspecting_stores_nothing)
{
  const size_t before = count_items("/v1/models?limit=1000");
  for (size_t i = 0; i < sizeof DENSE / sizeof DENSE[0]; i++) {
    const struct reply *reply = web_post(&fitd, "/v1/models/inspect", config_body(DENSE[i].file));
    reply_assert_status(reply, 200);
    assert_derived(reply->json, DENSE[i].file);
  }
  ck_assert_uint_eq(count_items("/v1/models?limit=1000"), before);
}
END_TEST

START_TEST(inline_configuration_in_a_sketch)
{
  const char *config = config_body("meta-llama--Meta-Llama-3.1-70B.json");
  const char *sketch = scratch_printf("{\"workload\":\"w\",\"model\":%s,\"profiles\":[\"h100-sxm-80gb\"],\"traffic\":{"
                                      "\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2}}",
                                      config);
  const json_t *inlined = sample_scorecard(&fitd, sketch);
  const json_t *stored = sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"));
  doc_assert_same(doc_at(inlined, "memory"), doc_at(stored, "memory"));
  doc_assert_same(doc_at(inlined, "latency"), doc_at(stored, "latency"));
}
END_TEST

START_TEST(bad_configurations_are_refused)
{
  static const char *const bodies[] = {"{}",
                                       "{\"hf_config\":{}}",
                                       "{\"hf_config\":[]}",
                                       "{\"hf_confg\":{}}",
                                       "{\"hf_config\":{\"model_type\":\"llama\",\"hidden_size\":-4096}}",
                                       "{\"hf_config\":{\"model_type\":\"no-such-thing\",\"hidden_size\":4096}}"};
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
    const struct reply *reply = web_post(&fitd, "/v1/models/inspect", bodies[i]);
    ck_assert_uint_gt(json_array_size(doc_array(reply_assert_problem(reply, 422), "errors")), 0);
  }
}
END_TEST

START_TEST(unchanged_model_keeps_its_revision)
{
  const char *body = config_body("Qwen--Qwen3-32B.json"), *path = "/v1/models/ours";
  (void)web_put_status(&fitd, path, body, 201);
  (void)web_put_status(&fitd, path, body, 200);
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, path), "revision"), 1);
  (void)web_put_status(&fitd, path, config_body("Qwen--Qwen3-14B.json"), 200);
  ck_assert_int_eq(doc_integer(web_get_ok(&fitd, path), "revision"), 2);
}
END_TEST

START_TEST(history_keeps_a_model_from_deletion)
{
  (void)web_put_status(&fitd, "/v1/models/ours", config_body("Qwen--Qwen3-32B.json"), 201);
  (void)web_put_status(&fitd, "/v1/models/spare", config_body("Qwen--Qwen3-32B.json"), 201);
  (void)sample_scorecard(
      &fitd, sample_sketch(&(struct sample_sketch){.model = "ours", .more = "\"profiles\":[\"h100-sxm-80gb\"]"}));
  (void)reply_assert_problem(web_delete(&fitd, "/v1/models/ours"), 409);
  ck_assert_int_eq(web_delete(&fitd, "/v1/models/spare")->status, 204);
  ck_assert_int_eq(web_get(&fitd, "/v1/models/spare")->status, 404);
  (void)web_get_ok(&fitd, "/v1/models/ours");
}
END_TEST

START_TEST(history_keeps_a_profile_from_deletion)
{
  (void)web_put_status(&fitd, "/v1/profiles/ours", sample_profile(3350, "2"), 201);
  (void)web_put_status(&fitd, "/v1/profiles/spare", sample_profile(3350, "2"), 201);
  (void)sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"ours\"]"));
  (void)reply_assert_problem(web_delete(&fitd, "/v1/profiles/ours"), 409);
  ck_assert_int_eq(web_delete(&fitd, "/v1/profiles/spare")->status, 204);
  ck_assert_int_eq(web_delete(&fitd, "/v1/profiles/spare")->status, 404);
}
END_TEST

static const char *workload_body(const char *more)
{
  return scratch_printf("{\"sketch\":%s,\"owner\":\"ada\",\"team\":\"chat\"%s}",
                        sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"), more);
}

START_TEST(workloads_are_kept)
{
  const json_t *workload;
  (void)web_put_status(&fitd, "/v1/workloads/support-chat", workload_body(",\"reevaluate\":\"daily\""), 201);
  (void)web_put_status(&fitd, "/v1/workloads/support-chat", workload_body(",\"reevaluate\":\"never\""), 200);
  workload = web_get_ok(&fitd, "/v1/workloads/support-chat");
  ck_assert_str_eq(doc_text(workload, "owner"), "ada");
  ck_assert_str_eq(doc_text(workload, "team"), "chat");
  ck_assert_str_eq(doc_text(workload, "reevaluate"), "never");
  ck_assert(json_equal(doc_at(workload, "sketch"), doc_parse(sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"))));
  ck_assert_uint_eq(count_items("/v1/workloads"), 1);
}
END_TEST

/* Scorecards carry the name of a workload, registered or not: they need no official sketch to stand. */
START_TEST(history_outlives_its_workload)
{
  const char *id;
  (void)web_put_status(&fitd, "/v1/workloads/support-chat", workload_body(""), 201);
  id = doc_text(sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]")), "id");
  ck_assert_int_eq(web_delete(&fitd, "/v1/workloads/support-chat")->status, 204);
  (void)reply_assert_problem(web_get(&fitd, "/v1/workloads/support-chat"), 404);
  ck_assert_str_eq(doc_text(web_get_ok(&fitd, scratch_printf("/v1/scorecards/%s", id)), "workload"), "support-chat");
  ck_assert_uint_eq(count_items("/v1/scorecards?workload=support-chat"), 1);
}
END_TEST

START_TEST(workload_must_be_the_one_of_its_sketch)
{
  const json_t *problem = reply_assert_problem(web_put(&fitd, "/v1/workloads/search", workload_body("")), 422);
  ck_assert_msg(doc_fault(problem, "/sketch/workload") != NULL, "%s", doc_brief(problem));
  ck_assert_uint_eq(count_items("/v1/workloads"), 0);
}
END_TEST

START_TEST(workload_sketch_is_checked)
{
  const json_t *problem =
      reply_assert_problem(web_put(&fitd, "/v1/workloads/w",
                                   "{\"sketch\":{\"workload\":\"w\",\"model\":\"llama-3.1-70b\"},\"ownr\":\"ada\"}"),
                           422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/sketch/traffic"));
  ck_assert_str_eq(doc_text(doc_fault(problem, "/ownr"), "suggestion"), "owner");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("catalogue");
  TCase *tcase = suite_case(suite, "catalogue", setup, teardown);
  tcase_add_test(tcase, first_start_loads_the_catalogue);
  tcase_add_test(tcase, profile_carries_the_fields_of_the_data);
  tcase_add_test(tcase, only_a_change_makes_a_revision);
  tcase_add_test(tcase, scorecards_keep_the_revision_they_used);
  tcase_add_test(tcase, what_is_read_can_be_written_back);
  tcase_add_test(tcase, available_profiles_are_the_default);
  tcase_add_test(tcase, users_revision_wins_over_the_built_in);
  tcase_add_test(tcase, deleted_built_ins_stay_deleted);
  tcase_add_test(tcase, bad_profiles_are_refused);
  tcase_add_test(tcase, bad_names_are_refused);
  tcase_add_loop_test(tcase, model_from_its_configuration, 0, (int)(sizeof DENSE / sizeof DENSE[0]));
  tcase_add_test(tcase, inspecting_stores_nothing);
  tcase_add_test(tcase, inline_configuration_in_a_sketch);
  tcase_add_test(tcase, bad_configurations_are_refused);
  tcase_add_test(tcase, unchanged_model_keeps_its_revision);
  tcase_add_test(tcase, history_keeps_a_model_from_deletion);
  tcase_add_test(tcase, history_keeps_a_profile_from_deletion);
  tcase_add_test(tcase, workloads_are_kept);
  tcase_add_test(tcase, history_outlives_its_workload);
  tcase_add_test(tcase, workload_must_be_the_one_of_its_sketch);
  tcase_add_test(tcase, workload_sketch_is_checked);
  return suite_run(suite);
}
