/* What an evaluation answers: every member of the scorecard the contract promises, and the relations that hold between its
   figures whatever the model predicts. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Accelerators of the catalogue with an on-demand price and a confidence above "recalled", counted by hand. */
#define DEFAULT_PROFILES 24

#define NAMED_PROFILES                                                                                                 \
  "\"profiles\":[\"l40s-48gb\",\"h100-sxm-80gb\",\"a100-sxm-80gb\",\"h200-sxm-141gb\",\"h100-pcie-80gb\",\"t4-16gb\"]"
/* Without a price in the catalogue. */
#define UNPRICED_PROFILE "\"profiles\":[\"h800-sxm-80gb\"]"

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

/* Every member of the contract's scorecard, by the object it stands in. Below a null parent nothing more is asked. */
static const struct {
  const char *parent, *members;
} MEMBERS[] = {
    {"", "id evaluation created_at label workload model model_revision context profile profile_revision stack "
         "core_version"},
    {"", "sketch_digest trace_digest seed verdict no_fit_reason configuration memory phases latency throughput limits"},
    {"", "success quality cost energy startup stress targets findings advice ways_out precision_ladder sensitivity"},
    {"", "alternatives uncertainty provenance assumptions"},
    {"configuration.",
     "tensor_parallel pipeline_parallel expert_parallel attention_data_parallel replicas gpus gpus_billed"},
    {"configuration.", "max_batch precision precision_fallbacks launch"},
    {"configuration.precision.", "weights kv_cache activations"},
    {"memory.",
     "usable_gib weights_gib activations_gib runtime_gib kv_cache_gib kv_bytes_per_token kv_gib_per_session"},
    {"memory.", "max_concurrent_sessions max_context_tokens headroom min_gpus"},
    {"phases.", "prefill decode"},
    {"phases.prefill.", "bound time_share time_ms flops_utilisation bandwidth_utilisation"},
    {"phases.decode.", "bound time_share step_ms flops_utilisation bandwidth_utilisation communication_share bytes"},
    {"phases.decode.bytes.", "weights kv"},
    {"latency.", "ttft_ms itl_ms tpot_ms e2e_ms queue_ms"},
    {"latency.ttft_ms.", "p50 p90 p99"},
    {"latency.itl_ms.", "p50 p90 p99"},
    {"latency.tpot_ms.", "mean"},
    {"latency.e2e_ms.", "p50 p90 p99"},
    {"latency.queue_ms.", "p50 p90 p99"},
    {"throughput.", "requests_per_s output_tokens_per_s output_tokens_per_s_per_gpu output_tokens_per_s_per_user"},
    {"throughput.", "mean_batch at_concurrency"},
    {"limits.", "knee_requests_per_s saturation_requests_per_s margin_to_knee first_limit"},
    {"success.", "rate preempted shed timed_out"},
    {"cost.", "usd_per_gpu_hour price_basis per_attempted_request_usd per_successful_request_usd"},
    {"cost.", "per_million_output_tokens_usd monthly_usd items by_bound"},
    {"cost.items.", "busy_usd idle_usd headroom_usd failed_usd startup_usd"},
    {"cost.by_bound.", "compute weights kv_cache interconnect launch idle"},
    {"energy.", "watts_per_gpu joules_per_request kwh_per_million_output_tokens"},
    {"startup.", "weights_load_s ready_s"},
    {"provenance.", "constants band_class calibration"},
};

static void assert_members(const json_t *card, const char *parent, const char *members)
{
  while (*members != '\0') {
    const size_t length = strcspn(members, " ");
    const char *path = scratch_printf("%s%.*s", parent, (int)length, members);
    ck_assert_msg(doc_at(card, path) != NULL || doc_is_null(card, path), "%s is absent", path);
    members += length + strspn(members + length, " ");
  }
}

static bool is_one_of(const char *text, const char *const *words)
{
  for (size_t i = 0; words[i] != NULL; i++)
    if (strcmp(text, words[i]) == 0)
      return true;
  return false;
}

static void assert_share(const json_t *card, const char *path)
{
  if (!doc_is_null(card, path))
    ck_assert_msg(doc_number(card, path) >= 0 && doc_number(card, path) <= 1, "%s: %s = %g", doc_text(card, "profile"),
                  path, doc_number(card, path));
}

/* p50 ≤ p90 ≤ p99 of those that are known; p50 always is. */
static void assert_percentiles(const json_t *card, const char *metric)
{
  const double p50 = doc_number(card, scratch_printf("%s.p50", metric));
  double last = p50;
  static const char *const higher[] = {"p90", "p99"};
  ck_assert_msg(p50 >= 0, "%s.p50 = %g", metric, p50);
  for (size_t i = 0; i < 2; i++) {
    const char *path = scratch_printf("%s.%s", metric, higher[i]);
    if (doc_is_null(card, path))
      continue;
    ck_assert_msg(doc_number(card, path) >= last, "%s: %s = %g under %g", doc_text(card, "profile"), path,
                  doc_number(card, path), last);
    last = doc_number(card, path);
  }
}

static void assert_memory_adds_up(const json_t *card)
{
  const double parts = doc_number(card, "memory.weights_gib") + doc_number(card, "memory.activations_gib") +
                       doc_number(card, "memory.runtime_gib") + doc_number(card, "memory.kv_cache_gib");
  ck_assert_double_eq_tol(doc_number(card, "memory.usable_gib"), parts, 0.002);
  ck_assert_double_gt(doc_number(card, "memory.kv_cache_gib"), 0);
}

static void assert_layout_adds_up(const json_t *card)
{
  ck_assert_int_eq(
      doc_integer(card, "configuration.gpus"),
      doc_integer(card, "configuration.tensor_parallel") * doc_integer(card, "configuration.attention_data_parallel") *
          doc_integer(card, "configuration.pipeline_parallel") * doc_integer(card, "configuration.replicas"));
  ck_assert_int_ge(doc_integer(card, "configuration.gpus_billed"), doc_integer(card, "configuration.gpus"));
}

static void assert_latency(const json_t *card)
{
  static const char *const metrics[] = {"latency.ttft_ms", "latency.itl_ms", "latency.e2e_ms", "latency.queue_ms"};
  static const char *const percentiles[] = {"p50", "p90", "p99"};
  for (size_t i = 0; i < 4; i++)
    assert_percentiles(card, metrics[i]);
  for (size_t i = 0; i < 3; i++) {
    const char *e2e = scratch_printf("latency.e2e_ms.%s", percentiles[i]);
    const char *ttft = scratch_printf("latency.ttft_ms.%s", percentiles[i]);
    if (!doc_is_null(card, e2e) && !doc_is_null(card, ttft))
      ck_assert_double_ge(doc_number(card, e2e), doc_number(card, ttft));
  }
  ck_assert_double_gt(doc_number(card, "latency.ttft_ms.p50"), 0);
  ck_assert_double_gt(doc_number(card, "latency.itl_ms.p50"), 0);
  ck_assert_double_gt(doc_number(card, "latency.tpot_ms.mean"), 0);
}

/* N = λ·W. All requests of the sample are alike, so the mean stay is close to the median one. */
static void assert_littles_law(const json_t *card)
{
  const double expected =
      doc_number(card, "throughput.requests_per_s") * doc_number(card, "latency.e2e_ms.p50") / 1000.0;
  ck_assert_double_eq_tol(doc_number(card, "throughput.at_concurrency"), expected, 0.1 * expected);
}

static void assert_shares(const json_t *card)
{
  static const char *const shares[] = {"memory.headroom",
                                       "phases.prefill.time_share",
                                       "phases.prefill.flops_utilisation",
                                       "phases.prefill.bandwidth_utilisation",
                                       "phases.decode.time_share",
                                       "phases.decode.flops_utilisation",
                                       "phases.decode.bandwidth_utilisation",
                                       "phases.decode.communication_share",
                                       "success.rate",
                                       "success.preempted",
                                       "success.shed",
                                       "success.timed_out"};
  static const char *const bounds[] = {"compute", "memory_bandwidth", "interconnect", "launch_overhead", NULL};
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
    assert_share(card, shares[i]);
  ck_assert_double_eq_tol(doc_number(card, "phases.prefill.time_share") + doc_number(card, "phases.decode.time_share"),
                          1.0, 1e-6);
  ck_assert(is_one_of(doc_text(card, "phases.prefill.bound"), bounds));
  ck_assert(is_one_of(doc_text(card, "phases.decode.bound"), bounds));
}

/* What was not computed is null, and the assumptions say that every request is taken to succeed. */
static double success_rate(const json_t *card)
{
  return doc_is_null(card, "success.rate") ? 1.0 : doc_number(card, "success.rate");
}

/* 730 hours a month; the offered load is fixed, so what one request costs follows from the bill. */
static void assert_cost_follows(const json_t *card)
{
  const double monthly = doc_number(card, "cost.monthly_usd");
  const double requests = doc_number(card, "throughput.requests_per_s") * 730 * 3600;
  const double attempted = doc_number(card, "cost.per_attempted_request_usd");
  const double rate = success_rate(card);
  ck_assert_double_gt(monthly, 0);
  ck_assert_double_eq_tol(
      monthly, doc_number(card, "cost.usd_per_gpu_hour") * 730 * (double)doc_integer(card, "configuration.gpus_billed"),
      1e-6 * monthly);
  ck_assert_double_eq_tol(attempted, monthly / requests, 0.01 * attempted);
  ck_assert_double_eq_tol(doc_number(card, "cost.per_successful_request_usd"), attempted / rate, 1e-6 * attempted);
  ck_assert_str_ne(doc_text(card, "cost.price_basis"), "");
}

static void assert_sum(const json_t *object, double expected, double tolerance)
{
  double sum = 0;
  const char *key;
  json_t *value, *copy = scratch_json_steal(json_deep_copy(object));
  json_object_foreach(copy, key, value)
  {
    if (json_is_null(value))
      return;
    sum += json_number_value(value);
  }
  ck_assert_double_eq_tol(sum, expected, tolerance);
}

static void assert_cost_partitions(const json_t *card)
{
  const double cost = doc_number(card, "cost.per_successful_request_usd");
  if (!doc_is_null(card, "cost.items"))
    assert_sum(doc_at(card, "cost.items"), cost, 1e-6 * cost);
  if (!doc_is_null(card, "cost.by_bound"))
    assert_sum(doc_at(card, "cost.by_bound"), 1.0, 1e-6);
}

static bool is_priced(const json_t *card)
{
  return !doc_is_null(card, "cost.per_successful_request_usd");
}

static void assert_serving_card(const json_t *card)
{
  assert_layout_adds_up(card);
  assert_memory_adds_up(card);
  assert_latency(card);
  assert_littles_law(card);
  assert_shares(card);
  ck_assert_double_eq_tol(doc_number(card, "throughput.output_tokens_per_s"),
                          256 * doc_number(card, "throughput.requests_per_s"), 1.0);
  if (is_priced(card)) {
    assert_cost_follows(card);
    assert_cost_partitions(card);
  }
}

static void assert_card(const json_t *card)
{
  static const char *const verdicts[] = {"fit", "fit_with_changes", "no_fit", NULL};
  static const char *const reasons[] = {"weights_exceed_memory",
                                        "no_room_for_kv_cache",
                                        "targets_missed",
                                        "layout_impossible",
                                        "quota_exceeded",
                                        "targets_contradict",
                                        NULL};
  const char *verdict = doc_text(card, "verdict");
  ck_assert_msg(is_one_of(verdict, verdicts), "%s", verdict);
  if (strcmp(verdict, "fit") != 0)
    ck_assert(is_one_of(doc_text(card, "no_fit_reason"), reasons));
  else
    ck_assert(json_is_null(doc_at(card, "no_fit_reason")));
  if (strcmp(verdict, "fit") == 0)
    assert_serving_card(card);
  ck_assert_str_eq(doc_text(card, "workload"), "support-chat");
  ck_assert_str_eq(doc_text(card, "model"), "llama-3.1-70b");
  ck_assert_int_eq(doc_integer(card, "model_revision"), 1);
  ck_assert_int_eq(doc_integer(card, "profile_revision"), 1);
  ck_assert_str_eq(doc_text(card, "quality"), "unmeasured");
}

static int verdict_rank(const json_t *card)
{
  static const char *const verdicts[] = {"fit", "fit_with_changes", "no_fit"};
  for (int rank = 0; rank < 3; rank++)
    if (strcmp(doc_text(card, "verdict"), verdicts[rank]) == 0)
      return rank;
  ck_abort_msg("verdict %s", doc_text(card, "verdict"));
}

/* Two neighbours that serve and have the same verdict. */
static void assert_pair_order(const json_t *a, const json_t *b)
{
  if (is_priced(a) && is_priced(b)) {
    ck_assert_double_le(doc_number(a, "cost.per_successful_request_usd"),
                        doc_number(b, "cost.per_successful_request_usd"));
    return;
  }
  ck_assert_msg(is_priced(a) || !is_priced(b), "unpriced %s before priced %s", doc_text(a, "profile"),
                doc_text(b, "profile"));
  if (!is_priced(a)) {
    const long long a_gpus = doc_integer(a, "configuration.gpus"), b_gpus = doc_integer(b, "configuration.gpus");
    ck_assert_int_le(a_gpus, b_gpus);
    ck_assert(a_gpus < b_gpus || strcmp(doc_text(a, "profile"), doc_text(b, "profile")) < 0);
  }
}

static void assert_order(const json_t *cards)
{
  for (size_t i = 0; i + 1 < json_array_size(cards); i++) {
    const json_t *a = json_array_get(cards, i), *b = json_array_get(cards, i + 1);
    ck_assert_int_le(verdict_rank(a), verdict_rank(b));
    if (verdict_rank(a) == verdict_rank(b) && verdict_rank(a) < 2)
      assert_pair_order(a, b);
  }
}

static void assert_recommendation(const json_t *evaluation)
{
  const json_t *best = doc_at(evaluation, "scorecards.0");
  ck_assert_str_eq(doc_text(evaluation, "recommendation.scorecard"), doc_text(best, "id"));
  ck_assert_str_eq(doc_text(evaluation, "recommendation.profile"), doc_text(best, "profile"));
  ck_assert_int_eq(doc_integer(evaluation, "recommendation.gpus"), doc_integer(best, "configuration.gpus"));
  ck_assert_double_eq_tol(doc_number(evaluation, "recommendation.monthly_usd"), doc_number(best, "cost.monthly_usd"),
                          1e-9);
  ck_assert_str_ne(doc_text(evaluation, "recommendation.limiter"), "");
  ck_assert_str_ne(doc_text(evaluation, "recommendation.summary"), "");
  ck_assert_ptr_nonnull(doc_at(evaluation, "recommendation.runner_up"));
}

START_TEST(answers_201_with_the_place_of_the_evaluation)
{
  const struct reply *reply = web_post(&fitd, "/v1/evaluations", sample_sketch_with(NAMED_PROFILES));
  const char *id;
  reply_assert_status(reply, 201);
  id = doc_text(reply->json, "id");
  ck_assert_uint_eq(strlen(id), 36);
  ck_assert_msg(id[14] == '7', "%s is not a UUID of version 7", id);
  ck_assert_ptr_nonnull(reply_header(reply, "Location"));
  ck_assert_str_eq(reply_header(reply, "Location"), scratch_printf("/v1/evaluations/%s", id));
  ck_assert_str_eq(doc_text(reply->json, "workload"), "support-chat");
  ck_assert_str_ne(doc_text(reply->json, "core_version"), "");
  ck_assert_str_ne(doc_text(reply->json, "created_at"), "");
  ck_assert_int_eq(strncmp(doc_text(reply->json, "sketch_digest"), "sha256:", 7), 0);
}
END_TEST

START_TEST(scorecard_has_every_member)
{
  const json_t *card = sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"));
  for (size_t i = 0; i < sizeof MEMBERS / sizeof MEMBERS[0]; i++)
    assert_members(card, MEMBERS[i].parent, MEMBERS[i].members);
}
END_TEST

START_TEST(named_profiles_give_one_scorecard_each)
{
  json_t *evaluation = sample_evaluate(&fitd, sample_sketch_with(NAMED_PROFILES));
  const json_t *cards = doc_array(evaluation, "scorecards");
  ck_assert_uint_eq(json_array_size(cards), 6);
  for (size_t i = 0; i < json_array_size(cards); i++)
    assert_card(json_array_get(cards, i));
  assert_order(cards);
  assert_recommendation(evaluation);
  ck_assert_uint_gt(doc_assert_finite(evaluation), 100);
  ck_assert_str_eq(doc_text(cards, "0.verdict"), "fit");
}
END_TEST

START_TEST(default_profiles_are_the_priced_and_confirmed_ones)
{
  json_t *evaluation = sample_evaluate(&fitd, sample_sketch_with(NULL));
  const json_t *cards = doc_array(evaluation, "scorecards");
  ck_assert_uint_eq(json_array_size(cards), DEFAULT_PROFILES);
  for (size_t i = 0; i < json_array_size(cards); i++)
    assert_card(json_array_get(cards, i));
  assert_order(cards);
  assert_recommendation(evaluation);
  ck_assert_uint_gt(doc_assert_finite(evaluation), 500);
}
END_TEST

START_TEST(steady_throughput_is_the_offered_load)
{
  const json_t *card = sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"));
  ck_assert_double_eq_tol(doc_number(card, "throughput.requests_per_s"), 2.0, 0.02);
  ck_assert_double_gt(doc_number(card, "limits.saturation_requests_per_s"), 2.0);
}
END_TEST

/* The command to run is the configuration that was evaluated. */
START_TEST(launch_line_is_the_configuration)
{
  const json_t *card = sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"));
  const char *launch = doc_text(card, "configuration.launch");
  const char *batch = scratch_printf("--max-num-seqs %lld", doc_integer(card, "configuration.max_batch"));
  const char *tensor =
      scratch_printf("--tensor-parallel-size %lld", doc_integer(card, "configuration.tensor_parallel"));
  ck_assert_msg(strncmp(launch, "vllm serve meta-llama/Llama-3.1-70B-Instruct ", 45) == 0, "%s", launch);
  ck_assert_msg(strstr(launch, batch) != NULL, "no %s in: %s", batch, launch);
  ck_assert_msg(strstr(launch, tensor) != NULL, "no %s in: %s", tensor, launch);
}
END_TEST

START_TEST(launch_line_converts_what_is_asked_in_fp8)
{
  const json_t *card = sample_scorecard(
      &fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"],\"precision\":{\"weights\":\"fp8\"}"));
  const char *launch = doc_text(card, "configuration.launch");
  ck_assert_msg(strstr(launch, " --quantization fp8") != NULL, "%s", launch);
}
END_TEST

/* Asking for exactly what was found gives what was found. */
START_TEST(found_configuration_can_be_pinned)
{
  const json_t *found = sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"l40s-48gb\"]"));
  const char *serving = scratch_printf(
      "\"profiles\":[\"l40s-48gb\"],\"serving\":{\"tensor_parallel\":%lld,\"replicas\":%lld,"
      "\"pipeline_parallel\":%lld,\"max_batch\":%lld}",
      doc_integer(found, "configuration.tensor_parallel"), doc_integer(found, "configuration.replicas"),
      doc_integer(found, "configuration.pipeline_parallel"), doc_integer(found, "configuration.max_batch"));
  const json_t *pinned = sample_scorecard(&fitd, sample_sketch_with(serving));
  doc_assert_same(doc_at(pinned, "memory"), doc_at(found, "memory"));
  doc_assert_same(doc_at(pinned, "latency"), doc_at(found, "latency"));
}
END_TEST

/* Closed loop: 16 users who send again when answered are 16 in the system, and the rate follows from the stay. */
START_TEST(closed_loop_holds_its_concurrency)
{
  const char *sketch = "{\"workload\":\"support-chat\",\"model\":\"llama-3.1-70b\",\"traffic\":{\"input_tokens\":2048,"
                       "\"output_tokens\":256,\"concurrency\":16},\"profiles\":[\"h100-sxm-80gb\"],"
                       "\"serving\":{\"tensor_parallel\":4,\"replicas\":1}}";
  const json_t *card = sample_scorecard(&fitd, sketch);
  ck_assert_double_eq_tol(doc_number(card, "throughput.at_concurrency"), 16, 0.01);
  ck_assert_double_le(doc_number(card, "throughput.mean_batch"), 16);
  assert_littles_law(card);
}
END_TEST

START_TEST(without_a_price_cost_is_null_and_says_so)
{
  const json_t *card = sample_scorecard(&fitd, sample_sketch_with(UNPRICED_PROFILE));
  const char *findings = doc_dump(doc_array(card, "findings"));
  static const char *const figures[] = {"cost.usd_per_gpu_hour", "cost.per_attempted_request_usd",
                                        "cost.per_successful_request_usd", "cost.per_million_output_tokens_usd",
                                        "cost.monthly_usd"};
  ck_assert_str_eq(doc_text(card, "verdict"), "fit");
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
    ck_assert_msg(doc_is_null(card, figures[i]), "%s is not null", figures[i]);
  ck_assert_msg(strcasestr(findings, "price") != NULL, "no finding about the price: %s", findings);
}
END_TEST

START_TEST(recommendation_prefers_priced)
{
  const json_t *evaluation =
      sample_evaluate(&fitd, sample_sketch_with("\"profiles\":[\"h800-sxm-80gb\",\"h100-sxm-80gb\"]"));
  ck_assert_str_eq(doc_text(evaluation, "recommendation.profile"), "h100-sxm-80gb");
  ck_assert_str_eq(doc_text(evaluation, "scorecards.1.profile"), "h800-sxm-80gb");
}
END_TEST

START_TEST(nothing_fits_gives_no_recommendation)
{
  const json_t *evaluation = sample_evaluate(
      &fitd, sample_sketch_with("\"profiles\":[\"t4-16gb\"],\"serving\":{\"tensor_parallel\":1,\"replicas\":1}"));
  ck_assert_str_ne(doc_text(evaluation, "scorecards.0.verdict"), "fit");
  ck_assert(doc_is_null(evaluation, "recommendation.scorecard"));
}
END_TEST

START_TEST(targets_are_judged)
{
  const json_t *card = sample_scorecard(
      &fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"],\"targets\":{\"ttft_ms\":{\"p50\":60000},"
                                "\"itl_ms\":{\"p50\":1000}}"));
  const json_t *targets = doc_array(card, "targets");
  ck_assert_uint_eq(json_array_size(targets), 2);
  for (size_t i = 0; i < 2; i++) {
    const json_t *target = json_array_get(targets, i);
    const double actual = doc_number(card, doc_text(target, "metric"));
    ck_assert_double_eq_tol(doc_number(target, "actual"), actual, 1e-9);
    ck_assert(json_is_true(doc_at(target, "met")));
    ck_assert_double_eq_tol(doc_number(target, "margin"), 1 - actual / doc_number(target, "target"), 1e-6);
  }
}
END_TEST

START_TEST(missed_target_is_not_a_fit)
{
  /* No accelerator reads 140 GB of weights in a microsecond. */
  const json_t *card = sample_scorecard(
      &fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"],\"targets\":{\"itl_ms\":{\"p50\":0.001}}"));
  ck_assert_str_ne(doc_text(card, "verdict"), "fit");
  ck_assert_str_eq(doc_text(card, "targets.0.metric"), "latency.itl_ms.p50");
  ck_assert(json_is_false(doc_at(card, "targets.0.met")));
}
END_TEST

START_TEST(quick_leaves_tails_out)
{
  const json_t *evaluation = web_post_created(
      &fitd, "/v1/evaluations?depth=quick",
      sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"],\"targets\":{\"ttft_ms\":{\"p99\":60000}}"));
  const json_t *card = doc_at(evaluation, "scorecards.0");
  ck_assert(doc_is_null(card, "latency.ttft_ms.p90"));
  ck_assert(doc_is_null(card, "latency.ttft_ms.p99"));
  ck_assert(json_is_null(doc_at(card, "targets.0.met")));
  (void)doc_number(card, "latency.ttft_ms.p50");
}
END_TEST

START_TEST(same_request_gives_the_same_bytes)
{
  static const char *const varying[] = {"id", "evaluation", "created_at", "scorecard", "links", "runner_up", NULL};
  json_t *first = sample_evaluate(&fitd, sample_sketch_with(NAMED_PROFILES));
  json_t *second = sample_evaluate(&fitd, sample_sketch_with(NAMED_PROFILES));
  ck_assert_str_ne(doc_text(first, "id"), doc_text(second, "id"));
  doc_strip(first, varying);
  doc_strip(second, varying);
  doc_assert_same(first, second);
}
END_TEST

START_TEST(digest_follows_the_content_not_the_spelling)
{
  const char *plain = sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"],\"seed\":1");
  const char *spaced = "{ \"seed\" : 1, \"profiles\" : [ \"h100-sxm-80gb\" ], \"traffic\" : { \"requests_per_s\" : 2, "
                       "\"output_tokens\" : 256,"
                       " \"input_tokens\" : 2048 }, \"model\" : \"llama-3.1-70b\", \"workload\" : \"support-chat\" }";
  const char *other = sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"],\"seed\":2");
  const char *digest = doc_text(sample_evaluate(&fitd, plain), "sketch_digest");
  ck_assert_str_eq(doc_text(sample_evaluate(&fitd, spaced), "sketch_digest"), digest);
  ck_assert_str_ne(doc_text(sample_evaluate(&fitd, other), "sketch_digest"), digest);
}
END_TEST

START_TEST(schema_and_description_are_allowed_anywhere)
{
  const char *sketch =
      "{\"$schema\":\"https://example.org/sketch.json\",\"description\":\"chat\",\"workload\":\"support-chat\","
      "\"model\":\"llama-3.1-70b\",\"traffic\":{\"description\":\"measured in May\",\"input_tokens\":2048,"
      "\"output_tokens\":256,\"requests_per_s\":2},\"profiles\":[\"h100-sxm-80gb\"]}";
  (void)sample_scorecard(&fitd, sketch);
}
END_TEST

START_TEST(hugging_face_id_is_an_alias)
{
  const struct sample_sketch alias = {.model = "meta-llama/Llama-3.1-70B-Instruct",
                                      .more = "\"profiles\":[\"h100-sxm-80gb\"]"};
  ck_assert_str_eq(doc_text(sample_scorecard(&fitd, sample_sketch(&alias)), "model"), "llama-3.1-70b");
}
END_TEST

START_TEST(defaults_are_listed_as_assumptions)
{
  const json_t *card = sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"));
  const char *assumptions = doc_dump(doc_array(card, "assumptions"));
  ck_assert_msg(strcasestr(assumptions, "kv_cache") != NULL || strcasestr(assumptions, "precision") != NULL,
                "nothing about the precision that was not given: %s", assumptions);
  ck_assert_msg(strcasestr(assumptions, "vllm") != NULL, "nothing about the runtime that was not given: %s",
                assumptions);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("evaluate");
  TCase *tcase = suite_case(suite, "evaluate", setup, teardown);
  tcase_add_test(tcase, answers_201_with_the_place_of_the_evaluation);
  tcase_add_test(tcase, scorecard_has_every_member);
  tcase_add_test(tcase, named_profiles_give_one_scorecard_each);
  tcase_add_test(tcase, default_profiles_are_the_priced_and_confirmed_ones);
  tcase_add_test(tcase, steady_throughput_is_the_offered_load);
  tcase_add_test(tcase, launch_line_is_the_configuration);
  tcase_add_test(tcase, launch_line_converts_what_is_asked_in_fp8);
  tcase_add_test(tcase, found_configuration_can_be_pinned);
  tcase_add_test(tcase, closed_loop_holds_its_concurrency);
  tcase_add_test(tcase, without_a_price_cost_is_null_and_says_so);
  tcase_add_test(tcase, recommendation_prefers_priced);
  tcase_add_test(tcase, nothing_fits_gives_no_recommendation);
  tcase_add_test(tcase, targets_are_judged);
  tcase_add_test(tcase, missed_target_is_not_a_fit);
  tcase_add_test(tcase, quick_leaves_tails_out);
  tcase_add_test(tcase, same_request_gives_the_same_bytes);
  tcase_add_test(tcase, digest_follows_the_content_not_the_spelling);
  tcase_add_test(tcase, schema_and_description_are_allowed_anywhere);
  tcase_add_test(tcase, hugging_face_id_is_an_alias);
  tcase_add_test(tcase, defaults_are_listed_as_assumptions);
  return suite_run(suite);
}
