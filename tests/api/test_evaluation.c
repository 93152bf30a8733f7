/* From a computed scorecard to documents, tables and the recommendation. Cards, catalogue and evaluation documents are made
   by hand, so that every expected figure stands in this file. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/evaluation.h"
#include "core/units.h"
#include "tests/lib/suite.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- A small catalogue: data sheet figures ------------------------------------------------------------------------------ */

#define PROFILES 3
static struct catalogue_profile profiles[PROFILES];
static struct catalogue_model models[1];
static const char *profile_names[] = {"a100-sxm-80gb", "h100-sxm-80gb", "t4-16gb", NULL};
static const char *model_names[] = {"llama-3.1-8b", NULL};
static struct catalogue_snapshot snapshot = {.profile_count = PROFILES,
                                             .profiles = profiles,
                                             .model_count = 1,
                                             .models = models,
                                             .profile_names = profile_names,
                                             .model_names = model_names};

static void make_profile(struct catalogue_profile *row, const char *name, const char *architecture, double memory_gib,
                         double bandwidth_gb_s, double fp16_tflops, double units, double clock_mhz)
{
  struct hardware *hardware = &row->hardware;
  hardware_init(hardware);
  (void)snprintf(hardware->name, sizeof hardware->name, "%s", name);
  (void)snprintf(hardware->architecture, sizeof hardware->architecture, "%s", architecture);
  (void)snprintf(hardware->link_kind, sizeof hardware->link_kind, "PCIe");
  (void)snprintf(hardware->confidence, sizeof hardware->confidence, "high");
  hardware->memory_gib = memory_gib;
  hardware->memory_bandwidth_gb_s = bandwidth_gb_s;
  hardware->fp16_tflops = fp16_tflops;
  hardware->bf16_tflops = fp16_tflops;
  hardware->compute_units = units;
  hardware->boost_clock_mhz = clock_mhz;
  hardware->domain_size = 8;
  hardware->unidirectional_gb_s = 32;
  hardware->pcie_gen = 4;
  hardware->tdp_w = 400;
  hardware_resolve(hardware);
  row->revision = 1;
}

static void add_price(struct hardware *hardware, double usd_h)
{
  hardware->price_count = 1;
  hardware->prices[0] = (struct hardware_price){.cloud = "AWS",
                                                .instance = "p0.8xlarge",
                                                .region = "us-east-1",
                                                .date = "2026-07-20",
                                                .commitment = "on_demand",
                                                .accelerators = 1,
                                                .usd_per_accelerator_hour = usd_h};
  hardware->price_usd_per_hour = usd_h;
}

/* Llama-3.1-8B, from its published config. */
static void make_model(struct catalogue_model *row)
{
  const struct layer layer = {
      .attention =
          {.kind = ATTENTION_GROUPED, .query_heads = 32, .kv_heads = 8, .head_dim = 128, .value_head_dim = 128},
      .feed_forward = {.kind = FEED_FORWARD_DENSE, .intermediate_size = 14336, .is_gated = true},
      .norm_parameters = 2 * 4096};
  struct model *model = &row->model;
  memset(row, 0, sizeof *row);
  (void)snprintf(row->name, sizeof row->name, "llama-3.1-8b");
  (void)snprintf(model->name, sizeof model->name, "llama-3.1-8b");
  model->hidden_size = 4096;
  model->vocab_size = 128256;
  model->max_context_tokens = 131072;
  model->final_norm_parameters = 4096;
  model->precision = (struct model_precision){.embeddings = PRECISION_BF16,
                                              .attention = PRECISION_BF16,
                                              .dense = PRECISION_BF16,
                                              .experts = PRECISION_BF16,
                                              .head = PRECISION_BF16};
  ck_assert_int_eq((int)model_append_layers(model, &layer, 32, NULL), ERR_OK);
  row->revision = 2;
}

static struct sketch sketch;
static struct faults faults;
static unsigned char random_state;

static void setup(void)
{
  make_profile(&profiles[0], "a100-sxm-80gb", "Ampere", 79.6, 2039, 312, 108, 1410);
  make_profile(&profiles[1], "h100-sxm-80gb", "Hopper", 79.6, 3350, 989.5, 132, 1980);
  make_profile(&profiles[2], "t4-16gb", "Turing", 15.0, 320, 65, 40, 1590);
  add_price(&profiles[1].hardware, 6.88);
  make_model(&models[0]);
  memset(&faults, 0, sizeof faults);
  memset(&sketch, 0, sizeof sketch);
  random_state = 0;
}

static void teardown(void)
{
  sketch_fini(&sketch);
}

#define ALL_PROFILES "[\"t4-16gb\",\"a100-sxm-80gb\",\"h100-sxm-80gb\"]"

/* A sketch of the 8B model with further members. */
static void read_sketch(const char *profile_list, const char *more)
{
  char text[1024];
  json_t *body;
  (void)snprintf(text, sizeof text,
                 "{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"profiles\":%s,\"traffic\":{\"input_tokens\":2048,"
                 "\"output_tokens\":256,\"requests_per_s\":2}%s}",
                 profile_list, more);
  body = json_loads(text, 0, NULL);
  ck_assert_msg(body != NULL, "%s", text);
  sketch_fini(&sketch);
  sketch_read(&sketch, &snapshot, body, "", &faults);
  json_decref(body);
  ck_assert_msg(faults.count == 0, "%s: %s", faults.items[0].pointer, faults.items[0].detail);
}

/* ---- One scorecard -------------------------------------------------------------------------------------------------- */

static const json_t *at(const json_t *value, const char *path)
{
  char key[64];
  while (*path != '\0') {
    const size_t length = strcspn(path, "/");
    memcpy(key, path, length);
    key[length] = '\0';
    value = json_is_array(value) ? json_array_get(value, (size_t)strtoul(key, NULL, 10)) : json_object_get(value, key);
    path += length + (path[length] == '/' ? 1 : 0);
  }
  return value;
}

static double number(const json_t *value, const char *path)
{
  ck_assert_msg(json_is_number(at(value, path)), "%s is not a number", path);
  return json_number_value(at(value, path));
}

static void fill_card(struct scorecard *card)
{
  static const char *const fallbacks[] = {"fp8 weights run in bf16"};
  static const char *const assumptions[] = {"arrival not given: poisson"};
  const struct percentiles unknown = {.p50 = (double)NAN, .p90 = (double)NAN, .p99 = (double)NAN, .mean = (double)NAN};
  memset(card, 0, sizeof *card);
  card->alternatives = (struct scorecard_alternatives){(double)NAN, (double)NAN, -1};
  card->success = (struct scorecard_success){(double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN};
  card->cost.items.busy_usd = card->energy.watts_per_gpu = card->startup.ready_s = (double)NAN;
  card->has_configuration = card->has_latency = true;
  card->configuration = (struct scorecard_configuration){.tensor_parallel = 4,
                                                         .pipeline_parallel = 1,
                                                         .expert_parallel = 1,
                                                         .attention_data_parallel = 1,
                                                         .replicas = 2,
                                                         .gpus = 8,
                                                         .gpus_billed = 8,
                                                         .max_batch = 48,
                                                         .weights = PRECISION_FP8,
                                                         .kv_cache = PRECISION_BF16,
                                                         .activations = PRECISION_BF16,
                                                         .precision_fallbacks = fallbacks,
                                                         .precision_fallback_count = 1};
  card->memory = (struct scorecard_memory){.usable_bytes = 72 * GIB,
                                           .weights_bytes = 16.5 * GIB,
                                           .kv_bytes_per_token = 131072,
                                           .kv_bytes_per_session = 0.25 * GIB,
                                           .max_concurrent_sessions = (double)NAN,
                                           .min_gpus = 1};
  card->prefill = (struct scorecard_phase){.bound = BOUND_COMPUTE, .time_share_ratio = 0.15, .time_s = 0.180};
  card->decode = (struct scorecard_phase){.bound = BOUND_MEMORY_BANDWIDTH,
                                          .time_share_ratio = 0.85,
                                          .time_s = 0.021,
                                          .weights_bytes = 4e9,
                                          .kv_bytes = 1e9};
  card->latency.ttft_s = card->latency.itl_s = card->latency.e2e_s = card->latency.queue_s = unknown;
  card->latency.ttft_s.p50 = 0.25;
  card->latency.tpot_mean_s = 0.022;
  card->throughput.requests_per_s = 4;
  card->limits = (struct scorecard_limits){.knee_requests_per_s = (double)NAN, .first_limit = LIMIT_KV_CACHE};
  card->cost.usd_per_gpu_hour = 6.88;
  card->cost.price_basis = "aws";
  card->cost.by_bound_idle = 1;
  card->targets[0] = (struct scorecard_target){
      .metric = "latency.ttft_ms.p50", .target = 300, .actual = 250, .margin_ratio = 0.1, .met = 1};
  card->targets[1] = (struct scorecard_target){
      .metric = "latency.ttft_ms.p99", .target = 1000, .actual = (double)NAN, .margin_ratio = (double)NAN, .met = -1};
  card->target_count = 2;
  card->findings[0] = (struct scorecard_finding){.code = "no_price",
                                                 .severity = SEVERITY_WARNING,
                                                 .message = "no price",
                                                 .evidence = {{"gpus", 8}},
                                                 .evidence_count = 1};
  card->finding_count = 1;
  card->constants_provenance = "pooled";
  card->assumptions = assumptions;
  card->assumption_count = 1;
}

static json_t *write_card(const struct scorecard *card)
{
  struct scorecard_identity identity = {.id = "id-1", .evaluation = "id-0", .created_at = "2026-11-30T12:00:00.000Z"};
  json_t *document;
  identity.sketch = &sketch;
  identity.profile = &profiles[1];
  document = scorecard_write(card, &identity);
  ck_assert_ptr_nonnull(document);
  return document;
}

/* The contract's scorecard, and no_fit_detail (the sentence behind the reason). */
START_TEST(all_members_stand_in_the_order_of_the_contract)
{
  static const char *const members[] = {
      "id",          "evaluation",     "created_at",    "label",         "workload",
      "model",       "model_revision", "context",       "profile",       "profile_revision",
      "stack",       "core_version",   "sketch_digest", "trace_digest",  "seed",
      "verdict",     "no_fit_reason",  "no_fit_detail", "configuration", "memory",
      "phases",      "latency",        "throughput",    "limits",        "success",
      "quality",     "cost",           "energy",        "startup",       "stress",
      "targets",     "findings",       "advice",        "ways_out",      "precision_ladder",
      "sensitivity", "alternatives",   "uncertainty",   "provenance",    "assumptions"};
  struct scorecard card;
  json_t *document, *value;
  const char *key;
  size_t i = 0;
  read_sketch(ALL_PROFILES, "");
  fill_card(&card);
  document = write_card(&card);
  json_object_foreach(document, key, value)
  {
    ck_assert_uint_lt(i, COUNT_OF(members));
    ck_assert_str_eq(key, members[i++]);
  }
  ck_assert_uint_eq(i, COUNT_OF(members));
  json_decref(document);
}
END_TEST

START_TEST(figures_come_in_wire_units)
{
  struct scorecard card;
  json_t *document;
  read_sketch(ALL_PROFILES, ",\"context\":{\"ref\":\"main\"},\"stack\":{\"driver\":\"550\"},\"seed\":9");
  fill_card(&card);
  document = write_card(&card);
  ck_assert_double_eq_tol(number(document, "memory/weights_gib"), 16.5, 1e-9);
  ck_assert_double_eq_tol(number(document, "memory/kv_gib_per_session"), 0.25, 1e-9);
  ck_assert_double_eq_tol(number(document, "memory/kv_bytes_per_token"), 131072, 1e-9);
  ck_assert_double_eq_tol(number(document, "phases/prefill/time_ms"), 180, 1e-9);
  ck_assert_double_eq_tol(number(document, "phases/decode/step_ms"), 21, 1e-9);
  ck_assert_double_eq_tol(number(document, "phases/decode/bytes/weights"), 4e9, 1e-9);
  ck_assert_double_eq_tol(number(document, "latency/ttft_ms/p50"), 250, 1e-9);
  ck_assert_double_eq_tol(number(document, "latency/tpot_ms/mean"), 22, 1e-9);
  ck_assert_str_eq(json_string_value(at(document, "phases/decode/bound")), "memory_bandwidth");
  ck_assert_str_eq(json_string_value(at(document, "limits/first_limit")), "kv_cache");
  ck_assert_str_eq(json_string_value(at(document, "configuration/precision/weights")), "fp8");
  ck_assert_str_eq(json_string_value(at(document, "context/ref")), "main");
  ck_assert_str_eq(json_string_value(at(document, "stack/driver")), "550");
  ck_assert_double_eq_tol(number(document, "seed"), 9, 1e-9);
  ck_assert_double_eq_tol(number(document, "model_revision"), 2, 1e-9);
  ck_assert_double_eq_tol(number(document, "findings/0/evidence/gpus"), 8, 1e-9);
  json_decref(document);
}
END_TEST

START_TEST(what_is_not_known_is_null)
{
  static const char *const null_paths[] = {"label",
                                           "trace_digest",
                                           "no_fit_reason",
                                           "configuration/launch",
                                           "memory/max_concurrent_sessions",
                                           "latency/ttft_ms/p90",
                                           "latency/ttft_ms/p99",
                                           "limits/knee_requests_per_s",
                                           "success/rate",
                                           "cost/items/busy_usd",
                                           "energy/watts_per_gpu",
                                           "startup/ready_s",
                                           "stress/replica_lost",
                                           "alternatives/managed_api",
                                           "targets/1/actual",
                                           "targets/1/met",
                                           "provenance/calibration"};
  struct scorecard card;
  json_t *document;
  read_sketch(ALL_PROFILES, "");
  fill_card(&card);
  document = write_card(&card);
  for (size_t i = 0; i < COUNT_OF(null_paths); i++)
    ck_assert_msg(json_is_null(at(document, null_paths[i])), "%s is not null", null_paths[i]);
  ck_assert(json_is_true(at(document, "targets/0/met")));
  ck_assert_uint_eq(json_array_size(at(document, "ways_out")), 0);
  ck_assert_str_eq(json_string_value(at(document, "quality")), "unmeasured");
  json_decref(document);
}
END_TEST

START_TEST(without_a_configuration_there_is_no_latency_and_no_bill)
{
  struct scorecard card;
  json_t *document;
  read_sketch(ALL_PROFILES, "");
  fill_card(&card);
  card.verdict = VERDICT_NO_FIT;
  card.no_fit_reason = NO_FIT_WEIGHTS_EXCEED_MEMORY;
  card.no_fit_detail = "too large";
  card.has_configuration = card.has_latency = false;
  document = write_card(&card);
  ck_assert_str_eq(json_string_value(at(document, "no_fit_reason")), "weights_exceed_memory");
  ck_assert_str_eq(json_string_value(at(document, "no_fit_detail")), "too large");
  ck_assert(json_is_null(at(document, "configuration")) && json_is_null(at(document, "latency")));
  ck_assert(json_is_null(at(document, "cost/monthly_usd")) && json_is_null(at(document, "cost/by_bound/idle")));
  ck_assert_double_eq_tol(number(document, "cost/usd_per_gpu_hour"), 6.88, 1e-9);
  ck_assert_double_eq_tol(number(document, "memory/min_gpus"), 1, 1e-9);
  json_decref(document);
}
END_TEST

/* ---- Evaluating ------------------------------------------------------------------------------------------------------- */

static void count_up(void *cls, void *to, size_t count)
{
  (void)cls;
  for (size_t i = 0; i < count; i++)
    ((unsigned char *)to)[i] = random_state++;
}

static const struct api_deps deps = {.random_bytes = count_up};

static enum err run(struct evaluation *evaluation, enum fit_depth depth, size_t arena_bytes, struct error *e)
{
  const struct evaluation_options options = {.label = "nightly",
                                             .depth = depth,
                                             .depth_is_given = true,
                                             .now_ms = 1796040000123,
                                             .arena_bytes = arena_bytes,
                                             .deps = &deps};
  return evaluation_run(evaluation, &sketch, &options, e);
}

#define ARENA_BYTES ((size_t)1 << 24)

static void run_ok(struct evaluation *evaluation)
{
  struct error e = {.code = ERR_OK};
  ck_assert_msg(run(evaluation, FIT_QUICK, ARENA_BYTES, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
}

/* Fits first, the priced one before the unpriced one, what does not fit last. The 8B model in bf16 (16 GB) is larger than a
   T4 and larger than two of them once the cache is added; one of them is all that is allowed here. */
START_TEST(order_is_verdict_then_price)
{
  struct evaluation evaluation;
  read_sketch(ALL_PROFILES, ",\"serving\":{\"tensor_parallel\":1,\"pipeline_parallel\":1,\"replicas\":1}");
  run_ok(&evaluation);
  ck_assert_uint_eq(json_array_size(evaluation.scorecards), 3);
  ck_assert_str_eq(json_string_value(at(evaluation.scorecards, "0/profile")), "h100-sxm-80gb");
  ck_assert_str_eq(json_string_value(at(evaluation.scorecards, "1/profile")), "a100-sxm-80gb");
  ck_assert_str_eq(json_string_value(at(evaluation.scorecards, "2/profile")), "t4-16gb");
  ck_assert_str_eq(json_string_value(at(evaluation.scorecards, "2/no_fit_reason")), "weights_exceed_memory");
  ck_assert(evaluation.fits);
  evaluation_fini(&evaluation);
}
END_TEST

START_TEST(recommendation_is_the_first_priced_fit)
{
  struct evaluation evaluation;
  read_sketch(ALL_PROFILES, "");
  run_ok(&evaluation);
  ck_assert_str_eq(json_string_value(at(evaluation.head, "recommendation/profile")), "h100-sxm-80gb");
  ck_assert(json_equal(at(evaluation.head, "recommendation/scorecard"), at(evaluation.scorecards, "0/id")));
  ck_assert(json_equal(at(evaluation.head, "recommendation/gpus"), at(evaluation.scorecards, "0/configuration/gpus")));
  ck_assert(
      json_equal(at(evaluation.head, "recommendation/monthly_usd"), at(evaluation.scorecards, "0/cost/monthly_usd")));
  ck_assert(
      json_equal(at(evaluation.head, "recommendation/limiter"), at(evaluation.scorecards, "0/limits/first_limit")));
  ck_assert_str_eq(json_string_value(at(evaluation.head, "recommendation/runner_up/profile")), "a100-sxm-80gb");
  ck_assert_ptr_nonnull(strstr(json_string_value(at(evaluation.head, "recommendation/summary")), "h100-sxm-80gb"));
  evaluation_fini(&evaluation);
}
END_TEST

/* tensor × attention data × pipeline × replicas are the GPUs: degrees beyond one are all named. */
START_TEST(summary_names_what_makes_the_gpus)
{
  struct evaluation evaluation;
  const char *summary;
  read_sketch("[\"h100-sxm-80gb\"]", ",\"serving\":{\"tensor_parallel\":1,\"pipeline_parallel\":2,\"replicas\":1}");
  run_ok(&evaluation);
  summary = json_string_value(at(evaluation.head, "recommendation/summary"));
  ck_assert_msg(strstr(summary, "2 x h100-sxm-80gb (tensor parallel 1, pipeline parallel 2, replicas 1)") != NULL, "%s",
                summary);
  evaluation_fini(&evaluation);
}
END_TEST

START_TEST(nothing_fits_says_why)
{
  struct evaluation evaluation;
  const char *summary;
  read_sketch("[\"t4-16gb\"]", ",\"serving\":{\"tensor_parallel\":1,\"pipeline_parallel\":1,\"replicas\":1}");
  run_ok(&evaluation);
  summary = json_string_value(at(evaluation.head, "recommendation/summary"));
  ck_assert(!evaluation.fits);
  ck_assert(json_is_null(at(evaluation.head, "recommendation/scorecard")));
  ck_assert(json_is_null(at(evaluation.head, "recommendation/runner_up")));
  ck_assert_msg(strstr(summary, "weights_exceed_memory: 1") != NULL, "%s", summary);
  evaluation_fini(&evaluation);
}
END_TEST

/* Ids rise in the order of the answer, and every card names its evaluation, label and time. */
START_TEST(identity_of_the_cards)
{
  struct evaluation evaluation;
  const char *before;
  read_sketch(ALL_PROFILES, "");
  run_ok(&evaluation);
  before = json_string_value(at(evaluation.head, "id"));
  ck_assert_str_eq(before, evaluation.id);
  for (size_t i = 0; i < 3; i++) {
    const json_t *card = json_array_get(evaluation.scorecards, i);
    const char *id = json_string_value(at(card, "id"));
    ck_assert_uint_eq(strlen(id), 36);
    ck_assert_int_gt(strcmp(id, before), 0);
    ck_assert_str_eq(json_string_value(at(card, "evaluation")), evaluation.id);
    ck_assert_str_eq(json_string_value(at(card, "label")), "nightly");
    ck_assert_str_eq(json_string_value(at(card, "created_at")), "2026-11-30T12:00:00.123Z");
    ck_assert_str_eq(json_string_value(at(card, "sketch_digest")), sketch.digest);
    before = id;
  }
  evaluation_fini(&evaluation);
}
END_TEST

static char *text_without_ids(const struct evaluation *evaluation)
{
  json_t *document = evaluation_document(evaluation), *copy = json_deep_copy(document);
  json_t *card;
  char *text;
  size_t i;
  json_decref(document);
  json_object_del(copy, "id");
  json_object_del(json_object_get(copy, "recommendation"), "scorecard");
  json_object_del(json_object_get(json_object_get(copy, "recommendation"), "runner_up"), "scorecard");
  json_array_foreach(json_object_get(copy, "scorecards"), i, card)
  {
    json_object_del(card, "id");
    json_object_del(card, "evaluation");
  }
  text = json_dumps(copy, JSON_COMPACT);
  json_decref(copy);
  return text;
}

START_TEST(the_same_request_gives_the_same_bytes_apart_from_ids)
{
  struct evaluation first, second;
  char *a, *b;
  read_sketch(ALL_PROFILES, "");
  run_ok(&first);
  run_ok(&second);
  a = text_without_ids(&first);
  b = text_without_ids(&second);
  ck_assert_str_ne(first.id, second.id);
  ck_assert_str_eq(a, b);
  free(a);
  free(b);
  evaluation_fini(&first);
  evaluation_fini(&second);
}
END_TEST

/* Full adds the ladder (the same sketch in other formats, by what the device does with them: the profile of this test
   states a 16-bit peak and no narrower one) and what 10 % more of each resource is worth (more of anything never makes a request dearer). */
START_TEST(depth_full_adds_ladder_and_sensitivity)
{
  static const char *const resources[] = {"memory_gib", "memory_bandwidth", "compute", "interconnect"};
  struct evaluation full, quick;
  struct error e = {.code = ERR_OK};
  read_sketch("[\"h100-sxm-80gb\"]", "");
  ck_assert_int_eq((int)run(&full, FIT_FULL, ARENA_BYTES, &e), ERR_OK);
  ck_assert_int_eq((int)run(&quick, FIT_QUICK, ARENA_BYTES, &e), ERR_OK);
  ck_assert_uint_eq(json_array_size(at(quick.scorecards, "0/precision_ladder")), 0);
  ck_assert_uint_eq(json_array_size(at(full.scorecards, "0/precision_ladder")), 6);
  ck_assert_str_eq(json_string_value(at(full.scorecards, "0/precision_ladder/0/precision")), "bf16");
  ck_assert_str_eq(json_string_value(at(full.scorecards, "0/precision_ladder/0/support")), "native");
  ck_assert_str_eq(json_string_value(at(full.scorecards, "0/precision_ladder/4/precision")), "nvfp4");
  ck_assert_str_eq(json_string_value(at(full.scorecards, "0/precision_ladder/4/support")), "weight_only");
  for (size_t i = 0; i < 4; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "0/sensitivity/%s", resources[i]);
    ck_assert_double_le(json_number_value(at(full.scorecards, path)), 1e-9);
    ck_assert(json_is_null(at(quick.scorecards, path)));
  }
  evaluation_fini(&full);
  evaluation_fini(&quick);
}
END_TEST

static const struct {
  const char *more, *pointer;
} unsupported[] = {
    {",\"hardware\":\"live\"", "/hardware"},
    {",\"serving\":{\"max_batched_tokens\":4,\"speculative\":{\"draft_tokens\":4,\"acceptance_rate\":0.7}}",
     "/serving/speculative/draft_tokens"},
    {",\"serving\":{\"replicas\":3,\"disaggregated\":{\"prefill_replicas\":1,\"decode_replicas\":1}}",
     "/serving/disaggregated"},
};

START_TEST(what_can_not_be_computed_is_refused_with_its_pointer)
{
  struct evaluation evaluation;
  struct error e = {.code = ERR_OK};
  read_sketch(ALL_PROFILES, unsupported[_i].more);
  ck_assert_int_eq((int)run(&evaluation, FIT_QUICK, ARENA_BYTES, &e), ERR_INVALID);
  ck_assert_str_eq(e.pointer, unsupported[_i].pointer);
  ck_assert_ptr_null(evaluation.scorecards);
}
END_TEST

START_TEST(a_small_arena_is_a_limit_not_a_crash)
{
  struct evaluation evaluation;
  struct error e = {.code = ERR_OK};
  read_sketch(ALL_PROFILES, "");
  ck_assert_int_eq((int)run(&evaluation, FIT_QUICK, 64, &e), ERR_LIMIT);
}
END_TEST

static Suite *evaluation_suite(void)
{
  Suite *suite = suite_create("evaluation");
  TCase *cards = tcase_create("cards"), *runs = tcase_create("runs");
  tcase_add_checked_fixture(cards, setup, teardown);
  tcase_add_test(cards, all_members_stand_in_the_order_of_the_contract);
  tcase_add_test(cards, figures_come_in_wire_units);
  tcase_add_test(cards, what_is_not_known_is_null);
  tcase_add_test(cards, without_a_configuration_there_is_no_latency_and_no_bill);
  tcase_add_checked_fixture(runs, setup, teardown);
  tcase_add_test(runs, order_is_verdict_then_price);
  tcase_add_test(runs, recommendation_is_the_first_priced_fit);
  tcase_add_test(runs, summary_names_what_makes_the_gpus);
  tcase_add_test(runs, nothing_fits_says_why);
  tcase_add_test(runs, identity_of_the_cards);
  tcase_add_test(runs, the_same_request_gives_the_same_bytes_apart_from_ids);
  tcase_add_test(runs, depth_full_adds_ladder_and_sensitivity);
  tcase_add_loop_test(runs, what_can_not_be_computed_is_refused_with_its_pointer, 0, (int)COUNT_OF(unsupported));
  tcase_add_test(runs, a_small_arena_is_a_limit_not_a_crash);
  suite_add_tcase(suite, cards);
  suite_add_tcase(suite, runs);
  return suite;
}

int main(void)
{
  return suite_run(evaluation_suite());
}
