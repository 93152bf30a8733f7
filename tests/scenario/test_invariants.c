/* What holds on every scorecard ever made, checked over models × all stored profiles × kinds of traffic; and that no member of a
   sketch is silently ignored, nor any value of one able to do worse than be refused. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <math.h>
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

static const char *const MODELS[] = {"llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b",  "qwen3-32b",
                                     "qwen3-0.6b",   "phi-4",         "mistral-7b-v0.3", "gemma-2-9b"};
enum { MODEL_COUNT = sizeof MODELS / sizeof MODELS[0] };

static const char *const TRAFFICS[] = {
    "\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2",
    "\"input_tokens\":1,\"output_tokens\":1,\"requests_per_s\":0.01",
    "\"input_tokens\":100,\"output_tokens\":1000,\"requests_per_s\":300",
    "\"input_tokens\":500,\"output_tokens\":100,\"concurrency\":64",
    "\"input_tokens\":1000,\"output_tokens\":300,\"requests_per_s\":20,\"arrival\":\"steady\"",
};

/* All profile names as a JSON array. */
static const char *all_profiles(void)
{
  json_t *names = scratch_json_steal(json_array());
  const json_t *items = doc_array(web_get_ok(&fitd, "/v1/profiles?limit=1000"), "items");
  for (size_t i = 0; i < json_array_size(items); i++)
    ck_assert_int_eq(json_array_append_new(names, json_string(doc_text(json_array_get(items, i), "id"))), 0);
  return doc_dump(names);
}

#define HOLDS(card, condition)                                                                                         \
  ck_assert_msg(condition, "%s on %s: not %s: %s", doc_text(card, "model"), doc_text(card, "profile"), #condition,     \
                doc_brief(card))

static void assert_within(const json_t *card, const char *path, double low, double high)
{
  const double value = doc_is_null(card, path) ? low : doc_number(card, path);
  ck_assert_msg(value >= low && value <= high, "%s on %s: %s = %g", doc_text(card, "model"), doc_text(card, "profile"),
                path, value);
}

static void assert_layout(const json_t *card)
{
  const long long gpus = doc_integer(card, "configuration.gpus");
  HOLDS(card, gpus == doc_integer(card, "configuration.tensor_parallel") *
                          doc_integer(card, "configuration.attention_data_parallel") *
                          doc_integer(card, "configuration.pipeline_parallel") *
                          doc_integer(card, "configuration.replicas"));
  HOLDS(card, doc_integer(card, "memory.min_gpus") <= gpus);
  HOLDS(card, doc_integer(card, "configuration.max_batch") >= 1);
}

static void assert_memory(const json_t *card)
{
  const double usable_gib = doc_number(card, "memory.usable_gib");
  const double parts_gib = doc_number(card, "memory.weights_gib") + doc_number(card, "memory.activations_gib") +
                           doc_number(card, "memory.runtime_gib") + doc_number(card, "memory.kv_cache_gib");
  HOLDS(card, fabs(usable_gib - parts_gib) <= 1e-6 * usable_gib);
  HOLDS(card, doc_integer(card, "memory.max_concurrent_sessions") >= 1);
}

/* Depth full has them all. */
static void assert_percentiles(const json_t *card, const char *name)
{
  const double p50 = doc_number(card, scratch_printf("latency.%s.p50", name));
  const double p90 = doc_number(card, scratch_printf("latency.%s.p90", name));
  const double p99 = doc_number(card, scratch_printf("latency.%s.p99", name));
  HOLDS(card, p50 <= p90 && p90 <= p99);
}

static void assert_simulated(const json_t *card)
{
  static const char *const names[] = {"ttft_ms", "e2e_ms", "queue_ms", "itl_ms"};
  static const char *const levels[] = {"p50", "p90", "p99", "mean"};
  const bool has_gaps = !doc_is_null(card, "latency.itl_ms.p50");
  for (size_t i = 0; i < (has_gaps ? 4 : 3); i++)
    assert_percentiles(card, names[i]);
  for (size_t i = 0; i < 4; i++) {
    const double queue_ms = doc_number(card, scratch_printf("latency.queue_ms.%s", levels[i]));
    const double ttft_ms = doc_number(card, scratch_printf("latency.ttft_ms.%s", levels[i]));
    HOLDS(card, queue_ms <= ttft_ms && ttft_ms <= doc_number(card, scratch_printf("latency.e2e_ms.%s", levels[i])));
  }
  assert_within(card, "success.rate", 0, 1);
  assert_within(card, "memory.headroom", 0, 1);
}

/* The items are all of the price of a success; energy and starts are what there is a board limit and a model for. */
static void assert_bill(const json_t *card)
{
  static const char *const items[] = {"busy", "idle", "headroom", "failed", "startup"};
  double sum = 0;
  HOLDS(card, doc_number(card, "startup.ready_s") > doc_number(card, "startup.weights_load_s"));
  if (!doc_is_null(card, "energy.watts_per_gpu"))
    HOLDS(card, doc_number(card, "energy.watts_per_gpu") > 0 && doc_number(card, "energy.joules_per_request") > 0);
  if (doc_is_null(card, "cost.per_successful_request_usd"))
    return;
  for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
    const double usd = doc_number(card, scratch_printf("cost.items.%s_usd", items[i]));
    HOLDS(card, usd >= 0);
    sum += usd;
  }
  HOLDS(card, fabs(sum / doc_number(card, "cost.per_successful_request_usd") - 1) < 1e-9);
}

static void assert_stress(const json_t *card)
{
  static const char *const cases[] = {"input_doubled", "output_doubled",    "bursts_doubled",
                                      "replica_lost",  "one_gpu_throttled", "kernels_fall_back"};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const json_t *stressed = doc_at(card, scratch_printf("stress.%s", cases[i]));
    HOLDS(card, json_is_object(stressed));
    if (!doc_is_null(stressed, "success.rate"))
      assert_within(card, scratch_printf("stress.%s.success.rate", cases[i]), 0, 1);
  }
  if (doc_integer(card, "configuration.replicas") == 1)
    ck_assert_str_eq(doc_text(card, "stress.replica_lost.verdict"), "no_fit");
}

static void assert_times(const json_t *card)
{
  const double ttft_ms = doc_number(card, "latency.ttft_ms.p50"), e2e_ms = doc_number(card, "latency.e2e_ms.p50");
  const double arrivals =
      doc_number(card, "throughput.requests_per_s") * doc_number(card, "latency.e2e_ms.mean") / 1000;
  HOLDS(card, e2e_ms >= ttft_ms);
  HOLDS(card, ttft_ms >= doc_number(card, "latency.queue_ms.p50"));
  HOLDS(card, fabs(doc_number(card, "throughput.at_concurrency") - arrivals) <= 0.01 * arrivals);
}

/* A replica never runs more requests together than its configuration allows. */
static void assert_batch(const json_t *card)
{
  HOLDS(card, doc_number(card, "throughput.mean_batch") <= (double)doc_integer(card, "configuration.max_batch") + 1e-9);
}

static void assert_shares(const json_t *card)
{
  static const char *const paths[] = {"phases.prefill.time_share",
                                      "phases.prefill.flops_utilisation",
                                      "phases.prefill.bandwidth_utilisation",
                                      "phases.decode.time_share",
                                      "phases.decode.flops_utilisation",
                                      "phases.decode.bandwidth_utilisation",
                                      "phases.decode.communication_share",
                                      "cost.by_bound.compute",
                                      "cost.by_bound.weights",
                                      "cost.by_bound.kv_cache",
                                      "cost.by_bound.interconnect",
                                      "cost.by_bound.launch",
                                      "cost.by_bound.idle"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
    assert_within(card, paths[i], 0, 1);
}

static void assert_card(const json_t *card)
{
  assert_layout(card);
  assert_memory(card);
  assert_times(card);
  assert_batch(card);
  assert_shares(card);
  assert_bill(card);
  if (!doc_is_null(card, "success.rate")) {
    assert_simulated(card);
    assert_stress(card);
  }
}

/* Every third model with a simulation, each model under some traffic; the others in closed form. */
START_TEST(invariants_hold_everywhere)
{
  const char *profiles = all_profiles();
  size_t checked = 0;
  for (size_t m = 0; m < suite_rounds(MODEL_COUNT); m++) {
    const size_t i = (m + (size_t)_i) % MODEL_COUNT;
    const char *depth = (i + (size_t)_i) % 3 == 0 ? "full" : "quick";
    const char *sketch = scratch_printf("{\"workload\":\"w\",\"model\":\"%s\",\"traffic\":{%s},\"profiles\":%s}",
                                        MODELS[i], TRAFFICS[_i], profiles);
    const struct reply *reply = web_post(&fitd, scratch_printf("/v1/evaluations?store=false&depth=%s", depth), sketch);
    const json_t *cards;
    ck_assert_msg(reply->status == 200 || reply->status == 201, "%ld: %.300s", reply->status, reply->body);
    ck_assert_uint_gt(doc_assert_finite(reply->json), 0);
    cards = doc_array(reply->json, "scorecards");
    ck_assert_uint_eq(json_array_size(cards), 51);
    for (size_t j = 0; j < json_array_size(cards); j++)
      if (strcmp(doc_text(json_array_get(cards, j), "verdict"), "fit") == 0) {
        assert_card(json_array_get(cards, j));
        checked++;
      }
  }
  ck_assert_uint_gt(checked, suite_rounds(100));
}
END_TEST

/* Members of the sketch with a value that is not the default. Each has to change a figure, be named in the assumptions, or be
   refused by name. */
static const struct {
  const char *name, *traffic, *serving, *more;
} MEMBERS[] = {
    {"sheddable_share", "\"sheddable_share\":0.2", NULL, NULL},
    {"client", "\"client\":{\"timeout_ms\":1000,\"retries\":2}", NULL, NULL},
    {"shared_prefix_tokens", "\"shared_prefix_tokens\":1024", NULL, NULL},
    {"hourly_shape", "\"hourly_shape\":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]", NULL, NULL},
    {"arrival", "\"arrival\":\"steady\"", NULL, NULL},
    {"spiky", "\"arrival\":\"spiky\",\"burst\":{\"peak_to_mean\":4,\"duration_s\":30}", NULL, NULL},
    {"runtime", NULL, "\"runtime\":\"sglang\"", NULL},
    {"runtime_version", NULL, "\"runtime_version\":\"0.11\"", NULL},
    {"pipeline_parallel", NULL, "\"pipeline_parallel\":2", NULL},
    {"expert_parallel", NULL, "\"expert_parallel\":2", NULL},
    {"attention_data_parallel", NULL, "\"attention_data_parallel\":2", NULL},
    {"max_batch", NULL, "\"max_batch\":8", NULL},
    {"max_batched_tokens", NULL, "\"max_batched_tokens\":512", NULL},
    {"chunked_prefill", NULL, "\"chunked_prefill\":false", NULL},
    {"recv_interval_steps", NULL, "\"recv_interval_steps\":10", NULL},
    {"batch_wait_steps", NULL, "\"batch_wait_steps\":10", NULL},
    {"kv_block_tokens", NULL, "\"kv_block_tokens\":128", NULL},
    {"memory_fraction", NULL, "\"memory_fraction\":0.7", NULL},
    {"cuda_graphs", NULL, "\"cuda_graphs\":false", NULL},
    {"concurrency_limit", NULL, "\"concurrency_limit\":2", NULL},
    {"speculative", NULL, "\"speculative\":{\"draft_tokens\":4,\"acceptance_rate\":0.7}", NULL},
    {"disaggregated", NULL, "\"disaggregated\":{\"prefill_replicas\":1,\"decode_replicas\":1}", NULL},
    {"precision", NULL, NULL, "\"precision\":\"fp8\""},
    {"adapters", NULL, NULL, "\"adapters\":{\"count\":4,\"rank\":16}"},
    {"power_cap_w", NULL, NULL, "\"constraints\":{\"power_cap_w\":300}"},
    {"accuracy", NULL, NULL, "\"constraints\":{\"accuracy\":\"locked\"}"},
    {"prices", NULL, NULL, "\"constraints\":{\"prices\":{\"h100-sxm-80gb\":1.5}}"},
    {"price", NULL, NULL, "\"constraints\":{\"price\":{\"cloud\":\"nebius\",\"commitment\":\"on_demand\"}}"},
    {"managed_api", NULL, NULL,
     "\"constraints\":{\"managed_api\":{\"usd_per_million_input_tokens\":0.6,\"usd_per_million_output_tokens\":2.4}}"},
    {"change_cost_usd", NULL, NULL, "\"constraints\":{\"change_cost_usd\":40000}"},
    {"success", NULL, NULL, "\"success\":{\"ttft_ms\":1000}"},
    {"operations", NULL, NULL, "\"operations\":{\"restarts_per_day\":2}"},
    {"stack", NULL, NULL, "\"stack\":{\"driver\":\"550\"}"},
    {"hardware", NULL, NULL, "\"hardware\":\"live\""},
    {"seed", NULL, NULL, "\"seed\":7"},
    {"context", NULL, NULL, "\"context\":{\"commit\":\"abc\"}"},
    {"max_context_tokens", NULL, NULL, "\"targets\":{\"max_context_tokens\":32768}"},
    {"headroom", NULL, NULL, "\"targets\":{\"headroom\":0.2}"},
    {"quality", NULL, NULL, "\"targets\":{\"quality\":[{\"benchmark\":\"ifeval\",\"min\":0.8}]}"},
};

static const struct reply *evaluate_member(const char *traffic, const char *serving, const char *more)
{
  return web_post(&fitd, "/v1/evaluations?store=false",
                  scratch_printf("{\"workload\":\"w\",\"model\":\"llama-3.1-70b\",\"profiles\":[\"h100-sxm-80gb\"],"
                                 "\"traffic\":{\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2%s%s},"
                                 "\"serving\":{\"tensor_parallel\":4,\"replicas\":1%s%s}%s%s}",
                                 traffic != NULL ? "," : "", traffic != NULL ? traffic : "", serving != NULL ? "," : "",
                                 serving != NULL ? serving : "", more != NULL ? "," : "", more != NULL ? more : ""));
}

static const char *figures_of(const struct reply *reply)
{
  static const char *const varying[] = {"id", "evaluation", "created_at", "sketch_digest", NULL};
  json_t *card = doc_at(reply->json, "scorecards.0");
  ck_assert_ptr_nonnull(card);
  doc_strip(card, varying);
  return doc_dump(card);
}

START_TEST(no_member_is_silently_ignored)
{
  const char *name = MEMBERS[_i].name;
  const struct reply *plain = evaluate_member(NULL, NULL, NULL);
  const struct reply *reply = evaluate_member(MEMBERS[_i].traffic, MEMBERS[_i].serving, MEMBERS[_i].more);
  if (reply->status == 422) {
    const json_t *problem = reply_assert_problem(reply, 422);
    ck_assert_msg(strstr(doc_text(problem, "errors.0.pointer"), name) != NULL, "%s", doc_brief(problem));
    return;
  }
  ck_assert_msg(strcmp(figures_of(reply), figures_of(plain)) != 0, "%s changes nothing and nothing says so", name);
}
END_TEST

/* Every value at every place of a complete sketch: an answer or a refusal that names a field, never anything else. */
static const char *const VALUES[] = {"null",
                                     "true",
                                     "-1",
                                     "0",
                                     "0.5",
                                     "1e300",
                                     "-1e300",
                                     "1e-320",
                                     "4611686018427387904",
                                     "\"\"",
                                     "\"\\u0001\\u00fc\"",
                                     "[]",
                                     "{}",
                                     "[[]]",
                                     "{\"a\":1}",
                                     "1e9",
                                     "65",
                                     "3"};
enum { VALUE_COUNT = sizeof VALUES / sizeof VALUES[0] };

static const char FULL_SKETCH[] =
    "{\"workload\":\"support-chat\",\"model\":\"llama-3.1-70b\",\"precision\":{\"weights\":\"fp8\",\"kv_cache\":"
    "\"fp8\","
    "\"activations\":\"fp8\"},\"traffic\":{\"input_tokens\":2048,\"output_tokens\":{\"p50\":256,\"p99\":900},"
    "\"requests_per_s\":4.0,\"arrival\":\"poisson\",\"shared_prefix_tokens\":512,\"client\":{\"timeout_ms\":10000,"
    "\"retries\":2},\"sheddable_share\":0.2},\"targets\":{\"ttft_ms\":{\"p50\":300,\"p99\":1000},\"itl_ms\":{\"p50\":"
    "30,"
    "\"p99\":60},\"e2e_ms\":{\"p99\":5800},\"max_context_tokens\":32768,\"cost\":{\"per_successful_request_usd\":0.004}"
    ","
    "\"success_rate\":0.99,\"headroom\":0.2,\"quality\":[{\"benchmark\":\"ifeval\",\"slice\":\"de\",\"min\":0.81}]},"
    "\"success\":{\"ttft_ms\":1000,\"mean_itl_ms\":60,\"e2e_ms\":5800},\"constraints\":{\"gpu_quota\":16,\"power_cap_"
    "w\":500,"
    "\"accuracy\":\"free\",\"price\":{\"cloud\":\"aws\",\"commitment\":\"on_demand\"},\"managed_api\":{"
    "\"usd_per_million_input_tokens\":0.6,\"usd_per_million_output_tokens\":2.4},\"change_cost_usd\":40000},"
    "\"serving\":{\"runtime\":\"vllm\",\"runtime_version\":\"0.19\",\"tensor_parallel\":8,\"pipeline_parallel\":1,"
    "\"expert_parallel\":1,\"attention_data_parallel\":1,\"replicas\":2,\"max_batch\":64,\"max_batched_tokens\":8192,"
    "\"chunked_prefill\":true,\"prefix_caching\":true,\"recv_interval_steps\":1,\"batch_wait_steps\":0,"
    "\"kv_block_tokens\":16,\"memory_fraction\":0.9,\"cuda_graphs\":true,\"concurrency_limit\":256},\"operations\":{"
    "\"restarts_per_day\":2,\"deploys_per_week\":3},\"stack\":{\"driver\":\"a\",\"framework\":\"b\",\"runtime\":\"c\","
    "\"kernels\":\"d\"},\"hardware\":\"datasheet\",\"profiles\":[\"h100-sxm-80gb\"],\"seed\":1,\"context\":{\"commit\":"
    "\"a\","
    "\"ref\":\"b\",\"url\":\"c\"}}";

static void assert_harmless(const char *sketch, const char *key, const char *value)
{
  static size_t calls; /* the simulation takes a hundred times as long: now and then */
  const char *depth = calls++ % 25 == 0 ? "full" : "quick";
  const struct reply *reply = web_post(&fitd, scratch_printf("/v1/evaluations?store=false&depth=%s", depth), sketch);
  if (reply->status == 200 || reply->status == 201)
    return;
  ck_assert_msg(reply->status == 422, "%s = %s → %ld %.300s", key, value, reply->status, reply->body);
  ck_assert_uint_gt(json_array_size(doc_array(reply_assert_problem(reply, 422), "errors")), 0);
}

/* In few rounds each member gets other values of the list. */
static size_t mutate(const json_t *sketch, json_t *object)
{
  const size_t step = VALUE_COUNT / suite_rounds(VALUE_COUNT);
  size_t tried = 0;
  json_t *value, *copy = scratch_json_steal(json_deep_copy(object));
  const char *key;
  json_object_foreach(copy, key, value)
  {
    for (size_t i = tried % step; i < VALUE_COUNT; i += step) {
      ck_assert_int_eq(json_object_set(object, key, doc_parse(VALUES[i])), 0);
      assert_harmless(doc_dump(sketch), key, VALUES[i]);
      tried++;
    }
    ck_assert_int_eq(json_object_set_new(object, key, json_deep_copy(value)), 0);
    if (json_is_object(value))
      tried += mutate(sketch, json_object_get(object, key));
  }
  return tried;
}

START_TEST(no_value_does_harm)
{
  json_t *sketch = doc_parse(FULL_SKETCH);
  assert_harmless(FULL_SKETCH, "", "");
  ck_assert_uint_gt(mutate(sketch, sketch), suite_rounds(1000));
  ck_assert_int_eq(web_get(&fitd, "/healthz")->status, 200);
}
END_TEST

int main(void)
{
  const int traffics = (int)(sizeof TRAFFICS / sizeof TRAFFICS[0]);
  Suite *suite = suite_create("invariants");
  TCase *tcase = suite_case(suite, "invariants", setup, teardown);
  tcase_add_loop_test(tcase, invariants_hold_everywhere, 0, traffics);
  tcase_add_loop_test(tcase, no_member_is_silently_ignored, 0, (int)(sizeof MEMBERS / sizeof MEMBERS[0]));
  tcase_add_test(tcase, no_value_does_harm);
  return suite_run(suite);
}
