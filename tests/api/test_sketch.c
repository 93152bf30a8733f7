/* Every field of a sketch: what it turns into, and which fault at which pointer its misuse gives. The catalogue is made by
   hand, so that the tests need no seed. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluation.h"
#include "tests/lib/suite.h"

/* ---- A small catalogue ------------------------------------------------------------------------------------------------ */

#define PROFILES 3
static struct catalogue_profile profiles[PROFILES];
static struct catalogue_model models[1];
static const char *profile_names[] = {"h100-sxm-80gb", "l40s-48gb", "recalled-24gb", NULL};
static const char *model_names[] = {"llama-3.1-8b", "meta-llama/Llama-3.1-8B", NULL};
static struct catalogue_stack stacks[1] = {{.name = "prod-2026", .parts = {"570", "", "vllm 0.10", ""}, .revision = 4}};
static const char *stack_names[] = {"prod-2026", NULL};
static struct catalogue_snapshot snapshot = {.profile_count = PROFILES,
                                             .profiles = profiles,
                                             .model_count = 1,
                                             .models = models,
                                             .stack_count = 1,
                                             .stacks = stacks,
                                             .stack_names = stack_names,
                                             .profile_names = profile_names,
                                             .model_names = model_names};

static void add_price(struct hardware *hardware)
{
  hardware->price_count = 1;
  hardware->prices[0] = (struct hardware_price){.cloud = "AWS", .commitment = "on_demand", .accelerators = 8};
  hardware->prices[0].usd_per_accelerator_hour = 6.88;
  hardware->price_usd_per_hour = 6.88;
}

static void make_catalogue(void)
{
  static const char *const confidences[PROFILES] = {"high", "high", "recalled"};
  for (size_t i = 0; i < PROFILES; i++) {
    hardware_init(&profiles[i].hardware);
    (void)snprintf(profiles[i].hardware.name, sizeof profiles[i].hardware.name, "%s", profile_names[i]);
    (void)snprintf(profiles[i].hardware.confidence, sizeof profiles[i].hardware.confidence, "%s", confidences[i]);
    profiles[i].revision = 3;
  }
  add_price(&profiles[0].hardware);
  add_price(&profiles[2].hardware);
  models[0] = (struct catalogue_model){.name = "llama-3.1-8b", .alias = "meta-llama/Llama-3.1-8B", .revision = 2};
  models[0].model.hidden_size = 4096;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------- */

static struct sketch sketch;
static struct faults faults;
static json_t *body;

static void setup(void)
{
  make_catalogue();
  body = NULL;
  memset(&faults, 0, sizeof faults);
  memset(&sketch, 0, sizeof sketch);
}

static void teardown(void)
{
  sketch_fini(&sketch);
  json_decref(body);
}

#define TRAFFIC "{\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":4}"
#define BASE "{\"workload\":\"support-chat\",\"model\":\"llama-3.1-8b\",\"traffic\":" TRAFFIC "}"

static void read_text(const char *text)
{
  json_error_t problem;
  sketch_fini(&sketch);
  json_decref(body);
  memset(&faults, 0, sizeof faults);
  body = json_loads(text, JSON_DECODE_ANY, &problem);
  ck_assert_msg(body != NULL, "%s: %s", text, problem.text);
  sketch_read(&sketch, &snapshot, body, "", &faults);
}

/* The base sketch with one top-level member set. */
static void read_with(const char *member, const char *value)
{
  json_t *base = json_loads(BASE, 0, NULL);
  char *text;
  ck_assert_int_eq(json_object_set_new(base, member, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
  text = json_dumps(base, 0);
  json_decref(base);
  read_text(text);
  free(text);
}

static void print_faults(void)
{
  for (size_t i = 0; i < faults.count; i++)
    fprintf(stderr, "  %s %s: %s (%s)\n", faults.items[i].pointer, fault_code_name(faults.items[i].code),
            faults.items[i].detail, faults.items[i].suggestion);
}

static const struct fault *find_fault(const char *pointer)
{
  for (size_t i = 0; i < faults.count; i++)
    if (strcmp(faults.items[i].pointer, pointer) == 0)
      return &faults.items[i];
  return NULL;
}

#define T(more) "{\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":4," more "}"
#define IO "\"input_tokens\":2048,\"output_tokens\":256"

/* One member of the base sketch replaced; exactly one fault follows. */
static const struct {
  const char *member, *value, *pointer;
  enum fault_code code;
  const char *suggestion; /* NULL = none expected */
} one_fault[] = {
#include "tests/api/sketch_faults.def"
};

START_TEST(misuse_of_a_field_is_one_fault)
{
  const struct fault *fault;
  read_with(one_fault[_i].member, one_fault[_i].value);
  if (faults.count != 1)
    print_faults();
  ck_assert_msg(faults.count == 1, "%s %s: %zu faults", one_fault[_i].member, one_fault[_i].value, faults.count);
  fault = &faults.items[0];
  ck_assert_str_eq(fault->pointer, one_fault[_i].pointer);
  ck_assert_msg(fault->code == one_fault[_i].code, "%s is %s", fault->pointer, fault_code_name(fault->code));
  ck_assert_str_ne(fault->detail, "");
  if (one_fault[_i].suggestion == NULL)
    ck_assert_str_eq(fault->suggestion, "");
  else if (one_fault[_i].suggestion[0] != '*') /* "*": whatever is near */
    ck_assert_str_eq(fault->suggestion, one_fault[_i].suggestion);
}
END_TEST

START_TEST(five_faults_come_together)
{
  read_text(
      "{\"workload\":\"support-chat\",\"model\":\"lama-3.1-8b\",\"precison\":\"fp8\",\"traffic\":"
      "{\"input_tokens\":-5,\"output_tokens\":{\"p50\":900,\"p99\":256},\"requests_per_s\":4,\"concurrency\":8}}");
  ck_assert_uint_eq(faults.count, 5);
  ck_assert_str_eq(find_fault("/model")->suggestion, "llama-3.1-8b");
  ck_assert_str_eq(find_fault("/precison")->suggestion, "precision");
  ck_assert_int_eq((int)find_fault("/traffic/input_tokens")->code, FAULT_OUT_OF_RANGE);
  ck_assert_int_eq((int)find_fault("/traffic/output_tokens/p99")->code, FAULT_CONFLICT);
  ck_assert_int_eq((int)find_fault("/traffic/concurrency")->code, FAULT_CONFLICT);
}
END_TEST

START_TEST(required_fields_are_named)
{
  read_text("{}");
  ck_assert_uint_eq(faults.count, 3);
  ck_assert_int_eq((int)find_fault("/workload")->code, FAULT_MISSING);
  ck_assert_int_eq((int)find_fault("/model")->code, FAULT_MISSING);
  ck_assert_int_eq((int)find_fault("/traffic")->code, FAULT_MISSING);
}
END_TEST

START_TEST(a_body_that_is_no_object_is_one_fault)
{
  static const char *const bodies[] = {"[]", "7", "\"x\"", "null"};
  for (size_t i = 0; i < 4; i++) {
    read_text(bodies[i]);
    ck_assert_uint_eq(faults.count, 1);
    ck_assert_str_eq(faults.items[0].pointer, "");
  }
}
END_TEST

/* ---- Values -------------------------------------------------------------------------------------------------------- */

static void assert_sound(void)
{
  if (faults.count > 0)
    print_faults();
  ck_assert_uint_eq(faults.count, 0);
}

/* The example of the contract, with what this catalogue has. */
static const char whole[] =
    "{\"$schema\":\"x\",\"description\":\"y\",\"workload\":\"support-chat\",\"model\":\"META-LLAMA/llama-3.1-8b\","
    "\"precision\":{\"weights\":\"fp8\",\"kv_cache\":\"fp8\",\"activations\":\"bf16\"},"
    "\"adapters\":{\"count\":4,\"rank\":16},"
    "\"traffic\":{\"description\":\"z\",\"input_tokens\":2048,\"output_tokens\":{\"p50\":256,\"p99\":900},"
    "\"requests_per_s\":4.0,\"arrival\":\"spiky\",\"burst\":{\"peak_to_mean\":4.0,\"duration_s\":30},"
    "\"shared_prefix_tokens\":512,\"hourly_shape\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24],"
    "\"client\":{\"timeout_ms\":10000,\"retries\":2},\"sheddable_share\":0.2},"
    "\"targets\":{\"ttft_ms\":{\"p50\":300,\"p99\":1000},\"itl_ms\":{\"p50\":30,\"p90\":45,\"p99\":60},"
    "\"e2e_ms\":{\"p99\":5800},\"max_context_tokens\":32768,\"cost\":{\"per_successful_request_usd\":0.004},"
    "\"success_rate\":0.99,\"headroom\":0.2,\"quality\":[{\"benchmark\":\"ifeval\",\"slice\":\"de\",\"min\":0.81}]},"
    "\"success\":{\"ttft_ms\":1000,\"mean_itl_ms\":60,\"e2e_ms\":5800},"
    "\"constraints\":{\"gpu_quota\":16,\"power_cap_w\":500,\"accuracy\":\"validated\","
    "\"price\":{\"cloud\":\"aws\",\"commitment\":\"on_demand\"},\"prices\":{\"l40s-48gb\":2.1},"
    "\"managed_api\":{\"usd_per_million_input_tokens\":0.6,\"usd_per_million_output_tokens\":2.4},"
    "\"change_cost_usd\":40000},"
    "\"serving\":{\"runtime\":\"vllm\",\"runtime_version\":\"0.19\",\"tensor_parallel\":8,\"pipeline_parallel\":1,"
    "\"expert_parallel\":2,\"attention_data_parallel\":1,\"replicas\":2,\"max_batch\":64,\"max_batched_tokens\":8192,"
    "\"chunked_prefill\":true,\"prefix_caching\":false,\"recv_interval_steps\":3,\"batch_wait_steps\":5,"
    "\"kv_block_tokens\":32,\"memory_fraction\":0.9,\"cuda_graphs\":true,\"concurrency_limit\":256,"
    "\"speculative\":{\"draft_tokens\":4,\"acceptance_rate\":0.7,\"draft_model\":\"llama-3.1-8b\"},"
    "\"disaggregated\":{\"prefill_replicas\":1,\"decode_replicas\":3}},"
    "\"operations\":{\"restarts_per_day\":2,\"deploys_per_week\":3},"
    "\"stack\":{\"driver\":\"550\",\"framework\":\"2.5\",\"runtime\":\"vllm 0.19\",\"kernels\":\"fa3\"},"
    "\"hardware\":\"live\",\"profiles\":[\"l40s-48gb\",\"h100-sxm-80gb\"],\"seed\":7,"
    "\"context\":{\"commit\":\"abc\",\"ref\":\"main\",\"url\":\"u\"}}";

START_TEST(traffic_is_read)
{
  const struct workload_traffic *traffic = &sketch.workload.traffic;
  read_text(whole);
  assert_sound();
  ck_assert_str_eq(sketch.workload.name, "support-chat");
  ck_assert_int_eq((int)traffic->input.kind, LENGTH_FIXED);
  ck_assert_double_eq_tol(traffic->input.fixed_tokens, 2048, 1e-9);
  ck_assert_int_eq((int)traffic->output.kind, LENGTH_QUANTILES);
  ck_assert_double_eq_tol(traffic->output.p50_tokens, 256, 1e-9);
  ck_assert_double_eq_tol(traffic->output.p99_tokens, 900, 1e-9);
  ck_assert_int_eq((int)traffic->load, LOAD_OPEN);
  ck_assert_double_eq_tol(traffic->requests_per_s, 4, 1e-9);
  ck_assert_int_eq((int)traffic->arrival, ARRIVAL_SPIKY);
  ck_assert(traffic->arrival_is_given && traffic->has_hourly_shape);
  ck_assert_double_eq_tol(traffic->burst_peak_to_mean, 4, 1e-9);
  ck_assert_double_eq_tol(traffic->burst_duration_s, 30, 1e-9);
  ck_assert_double_eq_tol(traffic->shared_prefix_tokens, 512, 1e-9);
  ck_assert_double_eq_tol(traffic->hourly_shape[23], 24, 1e-9);
  ck_assert_double_eq_tol(traffic->client_timeout_ms, 10000, 1e-9);
  ck_assert_uint_eq(traffic->client_retries, 2);
  ck_assert_double_eq_tol(traffic->sheddable_share_ratio, 0.2, 1e-9);
}
END_TEST

START_TEST(promises_are_read)
{
  const struct workload *workload = &sketch.workload;
  read_text(whole);
  ck_assert(workload->targets.are_given && workload->success.are_given);
  ck_assert_double_eq_tol(workload->targets.ttft_ms.p50, 300, 1e-9);
  ck_assert_double_eq_tol(workload->targets.ttft_ms.p99, 1000, 1e-9);
  ck_assert(isnan(workload->targets.ttft_ms.p90));
  ck_assert_double_eq_tol(workload->targets.itl_ms.p90, 45, 1e-9);
  ck_assert_double_eq_tol(workload->targets.e2e_ms.p99, 5800, 1e-9);
  ck_assert_double_eq_tol(workload->targets.max_context_tokens, 32768, 1e-9);
  ck_assert_double_eq_tol(workload->targets.cost_per_successful_request_usd, 0.004, 1e-9);
  ck_assert_double_eq_tol(workload->targets.success_rate_ratio, 0.99, 1e-9);
  ck_assert_double_eq_tol(workload->targets.headroom_ratio, 0.2, 1e-9);
  ck_assert_double_eq_tol(workload->success.itl_ms.mean, 60, 1e-9);
  ck_assert_uint_eq(workload->constraints.gpu_quota, 16);
  ck_assert_double_eq_tol(workload->constraints.power_cap_w, 500, 1e-9);
  ck_assert_int_eq((int)workload->constraints.accuracy, ACCURACY_VALIDATED);
  ck_assert_str_eq(workload->constraints.price_cloud, "AWS");
  ck_assert_str_eq(workload->constraints.price_commitment, "on_demand");
  ck_assert_uint_eq(workload->constraints.price_override_count, 1);
  ck_assert_str_eq(workload->constraints.price_overrides[0].profile, "l40s-48gb");
  ck_assert_double_eq_tol(workload->constraints.price_overrides[0].usd_per_gpu_hour, 2.1, 1e-9);
  ck_assert_double_eq_tol(workload->constraints.managed_output_usd_per_million_tokens, 2.4, 1e-9);
  ck_assert_double_eq_tol(workload->constraints.change_cost_usd, 40000, 1e-9);
}
END_TEST

START_TEST(serving_is_read)
{
  const struct workload_serving *serving = &sketch.workload.serving;
  read_text(whole);
  ck_assert_str_eq(serving->runtime, "vllm");
  ck_assert_str_eq(serving->runtime_version, "0.19");
  ck_assert_uint_eq(serving->tensor_parallel, 8);
  ck_assert_uint_eq(serving->expert_parallel, 2);
  ck_assert_uint_eq(serving->replicas, 2);
  ck_assert_uint_eq(serving->max_batch, 64);
  ck_assert_uint_eq(serving->max_batched_tokens, 8192);
  ck_assert_int_eq(serving->chunked_prefill, 1);
  ck_assert_int_eq(serving->prefix_caching, 0);
  ck_assert_int_eq(serving->cuda_graphs, 1);
  ck_assert_uint_eq(serving->recv_interval_steps, 3);
  ck_assert_uint_eq(serving->batch_wait_steps, 5);
  ck_assert_uint_eq(serving->kv_block_tokens, 32);
  ck_assert_double_eq_tol(serving->memory_fraction_ratio, 0.9, 1e-9);
  ck_assert_uint_eq(serving->concurrency_limit, 256);
  ck_assert_uint_eq(serving->speculative_draft_tokens, 4);
  ck_assert_double_eq_tol(serving->speculative_acceptance_ratio, 0.7, 1e-9);
  ck_assert_str_eq(serving->speculative_draft_model, "llama-3.1-8b");
  ck_assert(sketch.has_draft_model);
  ck_assert_uint_eq(sketch.draft_model.hidden_size, 4096);
  ck_assert_uint_eq(serving->decode_replicas, 3);
}
END_TEST

START_TEST(top_level_is_read)
{
  read_text(whole);
  ck_assert_str_eq(sketch.model_name, "llama-3.1-8b"); /* found by its alias */
  ck_assert_int_eq(sketch.model_revision, 2);
  ck_assert_int_eq((int)sketch.workload.weights, PRECISION_FP8);
  ck_assert_int_eq((int)sketch.workload.activations, PRECISION_BF16);
  ck_assert_uint_eq(sketch.workload.adapter_rank, 16);
  ck_assert(sketch.workload.uses_live_hardware && sketch.profiles_are_named);
  ck_assert_uint_eq(sketch.profile_count, 2);
  ck_assert_str_eq(sketch.profiles[0]->hardware.name, "l40s-48gb");
  ck_assert_int_eq((int)sketch.workload.seed, 7);
  ck_assert_double_eq_tol(sketch.workload.restarts_per_day, 2, 1e-9);
  ck_assert_str_eq(json_string_value(json_object_get(sketch.context, "ref")), "main");
  ck_assert_str_eq(json_string_value(json_object_get(sketch.stack, "kernels")), "fa3");
}
END_TEST

START_TEST(what_is_not_used_is_noted)
{
  read_text(BASE);
  ck_assert_uint_eq(json_array_size(sketch.notes), 0);
  read_with("traffic", "{\"input_tokens\":100,\"output_tokens\":10,\"concurrency\":4,\"arrival\":\"steady\"}");
  ck_assert_uint_eq(json_array_size(sketch.notes), 1);
  ck_assert_ptr_nonnull(strstr(json_string_value(json_array_get(sketch.notes, 0)), "traffic.arrival"));
}
END_TEST

START_TEST(one_precision_word_stands_for_all_three)
{
  read_with("precision", "\"fp8\"");
  ck_assert_int_eq((int)sketch.workload.weights, PRECISION_FP8);
  ck_assert_int_eq((int)sketch.workload.kv_cache, PRECISION_FP8);
  ck_assert_int_eq((int)sketch.workload.activations, PRECISION_FP8);
  read_with("precision", "\"int4\""); /* a format of weights alone */
  ck_assert_int_eq((int)sketch.workload.weights, PRECISION_INT4);
  ck_assert_int_eq((int)sketch.workload.kv_cache, PRECISION_NONE);
  ck_assert_int_eq((int)sketch.workload.activations, PRECISION_NONE);
}
END_TEST

START_TEST(loads_other_than_a_rate_are_read)
{
  read_with("traffic", "{" IO ",\"concurrency\":64}");
  assert_sound();
  ck_assert_int_eq((int)sketch.workload.traffic.load, LOAD_CLOSED);
  ck_assert_double_eq_tol(sketch.workload.traffic.concurrency, 64, 1e-9);
  read_with("traffic", "{\"trace\":\"azure-conv\"}");
  assert_sound();
  ck_assert_int_eq((int)sketch.workload.traffic.load, LOAD_TRACE);
  ck_assert_double_eq_tol(sketch.workload.traffic.rate_scale, 1, 1e-9);
  read_with("traffic", "{\"trace\":{\"name\":\"azure-conv\",\"rate_scale\":2.5}}");
  assert_sound();
  ck_assert_str_eq(sketch.workload.traffic.trace, "azure-conv");
  ck_assert_double_eq_tol(sketch.workload.traffic.rate_scale, 2.5, 1e-9);
}
END_TEST

START_TEST(a_stack_may_be_a_name)
{
  read_with("stack", "\"prod-2026\"");
  assert_sound();
  ck_assert_str_eq(sketch.stack_name, "prod-2026");
  ck_assert_uint_eq(json_array_size(sketch.notes), 0);
  ck_assert_str_eq(json_string_value(json_object_get(sketch.stack, "runtime")), "vllm 0.10");
  ck_assert_int_eq(json_integer_value(json_object_get(sketch.stack, "revision")), 4);
  ck_assert_ptr_null(json_object_get(sketch.stack, "framework"));
}
END_TEST

START_TEST(an_unknown_stack_is_a_fault)
{
  read_with("stack", "\"prod-2025\"");
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_str_eq(faults.items[0].pointer, "/stack");
  ck_assert_str_eq(faults.items[0].suggestion, "prod-2026");
}
END_TEST

START_TEST(without_a_store_a_stack_is_its_name)
{
  snapshot.is_seed_alone = true;
  snapshot.stack_count = 0;
  read_with("stack", "\"prod-2025\"");
  snapshot.is_seed_alone = false;
  snapshot.stack_count = 1;
  assert_sound();
  ck_assert_str_eq(json_string_value(json_object_get(sketch.stack, "name")), "prod-2025");
  ck_assert_uint_eq(json_array_size(sketch.notes), 1);
}
END_TEST

/* ---- Candidates, digest ------------------------------------------------------------------------------------------------ */

START_TEST(default_candidates_are_priced_and_not_recalled)
{
  read_text(BASE);
  ck_assert_uint_eq(sketch.profile_count, 1);
  ck_assert_str_eq(sketch.profiles[0]->hardware.name, "h100-sxm-80gb");
  ck_assert(!sketch.profiles_are_named);
}
END_TEST

START_TEST(available_profiles_come_before_the_default)
{
  profiles[1].hardware.is_available = true;
  profiles[2].hardware.is_available = true;
  read_text(BASE);
  ck_assert_uint_eq(sketch.profile_count, 2);
  ck_assert_str_eq(sketch.profiles[0]->hardware.name, "l40s-48gb");
  ck_assert_str_eq(sketch.profiles[1]->hardware.name, "recalled-24gb");
}
END_TEST

START_TEST(without_candidates_profiles_must_be_named)
{
  profiles[0].hardware.price_count = 0;
  profiles[0].hardware.price_usd_per_hour = (double)NAN;
  read_text(BASE);
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_str_eq(faults.items[0].pointer, "/profiles");
}
END_TEST

static void digest_of(char to[72], const char *text)
{
  read_text(text);
  assert_sound();
  memcpy(to, sketch.digest, 72);
}

START_TEST(digest_is_that_of_the_meaning)
{
  char a[72], b[72], c[72], d[72];
  digest_of(a, BASE);
  digest_of(b, "{\"traffic\": {\"requests_per_s\":4, \"output_tokens\":256, \"input_tokens\":2048},\n"
               "\"model\":\"llama-3.1-8b\", \"workload\":\"support-chat\"}");
  digest_of(c, "{\"$schema\":\"s\",\"description\":\"d\",\"context\":{\"ref\":\"main\"},\"workload\":\"support-chat\","
               "\"model\":\"llama-3.1-8b\",\"traffic\":{\"description\":\"d\",\"input_tokens\":2048,"
               "\"output_tokens\":256,\"requests_per_s\":4}}");
  digest_of(d, "{\"workload\":\"support-chat\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":2049,"
               "\"output_tokens\":256,\"requests_per_s\":4}}");
  ck_assert_int_eq(strncmp(a, "sha256:", 7), 0);
  ck_assert_uint_eq(strlen(a), 7 + 64);
  ck_assert_str_eq(a, b);
  ck_assert_str_eq(a, c);
  ck_assert_str_ne(a, d);
}
END_TEST

/* The digest of BASE, by sha256sum over its canonical text (sorted keys, no blanks). */
START_TEST(digest_is_sha256_of_the_canonical_text)
{
  read_text(BASE);
  ck_assert_str_eq(sketch.canonical,
                   "{\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":2048,\"output_tokens\":256,"
                   "\"requests_per_s\":4},\"workload\":\"support-chat\"}");
  ck_assert_str_eq(sketch.digest, "sha256:8e1257cbe65ac8d4a2e567a99afa334d890e1dbdc5ed09daec0fd52da2122763");
}
END_TEST

START_TEST(canonical_text_keeps_everything)
{
  json_t *kept;
  read_text(whole);
  kept = json_loads(sketch.canonical, 0, NULL);
  ck_assert(json_equal(kept, body));
  json_decref(kept);
}
END_TEST

START_TEST(pointers_take_the_prefix)
{
  json_t *nested = json_loads("{\"workload\":\"w\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":0,"
                              "\"output_tokens\":{\"p50\":2,\"p99\":1},\"requests_per_s\":1}}",
                              0, NULL);
  sketch_read(&sketch, &snapshot, nested, "/sketch", &faults);
  json_decref(nested);
  ck_assert_uint_eq(faults.count, 2);
  ck_assert_ptr_nonnull(find_fault("/sketch/traffic/input_tokens"));
  ck_assert_ptr_nonnull(find_fault("/sketch/traffic/output_tokens/p99"));
}
END_TEST

/* ---- Knobs ---------------------------------------------------------------------------------------------------------- */

enum bounded { REAL, WHOLE, COUNT, LENGTH, FLAG, FORMAT, SPREAD, ARRIVAL, WORD };
static const struct {
  enum bounded storage;
  const char *pointer;
  double least, most;
} knobs[] = {
#define KNOB(storage, null, pointer, member, least, most) {storage, pointer, least, most},
#include "core/knob.def"
#undef KNOB
};

/* The base sketch with a number at a pointer, objects made on the way. */
static void read_number_at(const char *pointer, double number, bool is_whole)
{
  json_t *base = json_loads(BASE, 0, NULL), *at = base, *value;
  char key[64], *text;
  for (;;) {
    const size_t length = strcspn(pointer + 1, "/");
    (void)snprintf(key, sizeof key, "%.*s", (int)length, pointer + 1);
    pointer += length + 1;
    if (*pointer == '\0')
      break;
    if (!json_is_object(json_object_get(at, key)))
      ck_assert_int_eq(json_object_set_new(at, key, json_object()), 0);
    at = json_object_get(at, key);
  }
  value = is_whole ? json_integer((json_int_t)number) : json_real(number);
  ck_assert_int_eq(json_object_set_new(at, key, value), 0);
  text = json_dumps(base, 0);
  json_decref(base);
  read_text(text);
  free(text);
}

static bool is_out_of_range(const char *pointer)
{
  const struct fault *fault = find_fault(pointer);
  return fault != NULL && fault->code == FAULT_OUT_OF_RANGE;
}

/* What a knob takes is what the sketch may say: both sides of both bounds. */
START_TEST(knobs_have_the_bounds_of_the_sketch)
{
  const bool is_whole = knobs[_i].storage != REAL;
  const double beyond = is_whole ? 1 : 1e-6;
  const char *pointer = knobs[_i].pointer;
  if (knobs[_i].storage > LENGTH)
    return;
  read_number_at(pointer, knobs[_i].least, is_whole);
  ck_assert_msg(!is_out_of_range(pointer), "%s refuses %g", pointer, knobs[_i].least);
  read_number_at(pointer, is_whole ? knobs[_i].least - beyond : knobs[_i].least * (1 - beyond) - beyond * 1e-9,
                 is_whole);
  ck_assert_msg(is_out_of_range(pointer), "%s takes less than %g", pointer, knobs[_i].least);
  read_number_at(pointer, knobs[_i].most, is_whole);
  ck_assert_msg(!is_out_of_range(pointer), "%s refuses %g", pointer, knobs[_i].most);
  read_number_at(pointer, is_whole ? knobs[_i].most + beyond : knobs[_i].most * (1 + beyond), is_whole);
  ck_assert_msg(is_out_of_range(pointer), "%s takes more than %g", pointer, knobs[_i].most);
}
END_TEST

static Suite *sketch_suite(void)
{
  Suite *suite = suite_create("sketch");
  TCase *tcase = tcase_create("sketch");
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, misuse_of_a_field_is_one_fault, 0, (int)(sizeof one_fault / sizeof one_fault[0]));
  tcase_add_test(tcase, five_faults_come_together);
  tcase_add_test(tcase, required_fields_are_named);
  tcase_add_test(tcase, a_body_that_is_no_object_is_one_fault);
  tcase_add_test(tcase, traffic_is_read);
  tcase_add_test(tcase, promises_are_read);
  tcase_add_test(tcase, serving_is_read);
  tcase_add_test(tcase, top_level_is_read);
  tcase_add_test(tcase, what_is_not_used_is_noted);
  tcase_add_test(tcase, one_precision_word_stands_for_all_three);
  tcase_add_test(tcase, loads_other_than_a_rate_are_read);
  tcase_add_test(tcase, a_stack_may_be_a_name);
  tcase_add_test(tcase, an_unknown_stack_is_a_fault);
  tcase_add_test(tcase, without_a_store_a_stack_is_its_name);
  tcase_add_test(tcase, default_candidates_are_priced_and_not_recalled);
  tcase_add_test(tcase, available_profiles_come_before_the_default);
  tcase_add_test(tcase, without_candidates_profiles_must_be_named);
  tcase_add_test(tcase, digest_is_that_of_the_meaning);
  tcase_add_test(tcase, digest_is_sha256_of_the_canonical_text);
  tcase_add_test(tcase, canonical_text_keeps_everything);
  tcase_add_test(tcase, pointers_take_the_prefix);
  tcase_add_loop_test(tcase, knobs_have_the_bounds_of_the_sketch, 0, (int)(sizeof knobs / sizeof knobs[0]));
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return suite_run(sketch_suite());
}
