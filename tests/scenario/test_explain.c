/* Every figure of a scorecard is the sum of what explain says it is made of: all stored profiles × architectures × kinds of
   traffic. Expected values are the stored scorecard's; the sums are made here. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <math.h>
#include <string.h>

#define EXACT 1e-9 /* documents keep 15 digits */

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static void assert_same(const json_t *card, const char *what, double explained, double stated)
{
  ck_assert_msg(fabs(explained - stated) <= EXACT * fabs(stated), "%s on %s: %s is %.15g, explained as %.15g",
                doc_text(card, "model"), doc_text(card, "profile"), what, stated, explained);
}

static double sum_of(const json_t *rows, const char *member)
{
  double sum = 0;
  for (size_t i = 0; i < json_array_size(rows); i++)
    sum += doc_number(json_array_get(rows, i), member);
  return sum;
}

static double sum_of_members(const json_t *object)
{
  json_t *rows = scratch_json_steal(json_deep_copy(object)), *value;
  const char *key;
  double sum = 0;
  json_object_foreach(rows, key, value)
  {
    sum += json_number_value(value);
  }
  return sum;
}

/* ---- phases ---------------------------------------------------------------------------------------------------------- */

/* count × (scale × time + floor_scale × floor) is what the row gives as its part; every row says how and from where. */
static void assert_row(const json_t *card, const json_t *row)
{
  const double each_ms = doc_number(row, "scale") * doc_number(row, "time_ms") +
                         doc_number(row, "floor_scale") * doc_number(row, "floor_ms");
  assert_same(card, doc_text(row, "name"), doc_number(row, "count") * each_ms, doc_number(row, "scaled_time_ms"));
  ck_assert_msg(strlen(doc_text(row, "formula")) > 8 && strlen(doc_text(row, "source")) > 8, "%s", doc_brief(row));
  ck_assert_msg(strstr(doc_text(row, "formula"), "nan") == NULL && strstr(doc_text(row, "formula"), "inf") == NULL,
                "%s", doc_text(row, "formula"));
  ck_assert_msg(doc_number(row, "flops") + sum_of_members(doc_at(row, "bytes")) > 0, "%s", doc_brief(row));
}

static void assert_phase(const json_t *card, const json_t *phase, double stated_ms)
{
  const json_t *operators = doc_array(phase, "operators");
  const double operators_ms = sum_of(operators, "scaled_time_ms");
  const double fixed_ms = sum_of(doc_array(phase, "fixed_costs"), "time_ms");
  ck_assert_uint_gt(json_array_size(operators), 3);
  for (size_t i = 0; i < json_array_size(operators); i++)
    assert_row(card, json_array_get(operators, i));
  assert_same(card, "the phase", operators_ms + fixed_ms, stated_ms);
  assert_same(card, "time_ms", doc_number(phase, "time_ms"), stated_ms);
  assert_same(card, "operators_ms", doc_number(phase, "operators_ms"), operators_ms);
  assert_same(card, "by_group_ms", sum_of_members(doc_at(phase, "by_group_ms")), operators_ms);
  assert_same(card, "by_bound_ms", sum_of_members(doc_at(phase, "by_bound_ms")), stated_ms);
}

/* What a bound takes is what the operators take that wait for it; floors wait for launches, a collective's for its link. */
static void assert_bound(const json_t *card, const json_t *phase, const char *bound)
{
  const json_t *operators = doc_array(phase, "operators");
  double ms = 0;
  for (size_t i = 0; i < json_array_size(operators); i++) {
    const json_t *row = json_array_get(operators, i);
    const double work_ms = doc_number(row, "count") * doc_number(row, "scale") * doc_number(row, "time_ms");
    const bool is_collective = strcmp(doc_text(row, "group"), "collective") == 0;
    if (strcmp(doc_text(row, "bound"), bound) == 0)
      ms += is_collective ? doc_number(row, "scaled_time_ms") : work_ms;
  }
  assert_same(card, bound, doc_number(phase, scratch_printf("by_bound_ms.%s", bound)), ms);
}

static void assert_phases(const json_t *card, const json_t *explained)
{
  static const char *const bounds[] = {"compute", "memory_bandwidth", "interconnect"};
  static const char *const phases[] = {"prefill", "decode"};
  const json_t *operators = doc_array(explained, "decode.operators");
  double weights = 0;
  assert_phase(card, doc_at(explained, "prefill"), doc_number(card, "phases.prefill.time_ms"));
  assert_phase(card, doc_at(explained, "decode"), doc_number(card, "phases.decode.step_ms"));
  for (size_t phase = 0; phase < 2; phase++)
    for (size_t i = 0; i < 3; i++)
      assert_bound(card, doc_at(explained, phases[phase]), bounds[i]);
  for (size_t i = 0; i < json_array_size(operators); i++)
    weights +=
        doc_number(json_array_get(operators, i), "count") * doc_number(json_array_get(operators, i), "bytes.weights");
  assert_same(card, "bytes.weights", weights / doc_number(card, "configuration.pipeline_parallel"),
              doc_number(card, "phases.decode.bytes.weights"));
}

/* ---- memory, latency, cost ------------------------------------------------------------------------------------------- */

static void assert_memory(const json_t *card, const json_t *memory)
{
  static const char *const parts[] = {"weights", "activations", "runtime", "kv_cache"};
  const json_t *terms = doc_array(memory, "terms");
  double all = 0;
  for (size_t p = 0; p < 4; p++) {
    double gib = 0;
    for (size_t i = 0; i < json_array_size(terms); i++) {
      const json_t *term = json_array_get(terms, i);
      ck_assert_uint_gt(strlen(doc_text(term, "formula")), 8);
      if (strcmp(doc_text(term, "part"), parts[p]) == 0)
        gib += doc_number(term, "gib");
      if (p < 3)
        ck_assert_msg(doc_number(term, "gib") >= 0 || strcmp(doc_text(term, "part"), "kv_cache") == 0, "%s",
                      doc_brief(term));
    }
    assert_same(card, parts[p], fmax(0, gib), doc_number(card, scratch_printf("memory.%s_gib", parts[p])));
    all += gib;
  }
  assert_same(card, "memory.usable_gib", all, doc_number(card, "memory.usable_gib"));
}

static void assert_sessions(const json_t *card, const json_t *memory)
{
  const double session_gib = doc_number(memory, "kv_sequence.gib_per_session");
  const double gpus =
      doc_number(card, "configuration.tensor_parallel") * doc_number(card, "configuration.pipeline_parallel");
  assert_same(card, "memory.kv_gib_per_session", session_gib * gpus, doc_number(card, "memory.kv_gib_per_session"));
  if (session_gib > 0)
    assert_same(card, "memory.max_concurrent_sessions",
                floor(doc_number(card, "memory.kv_cache_gib") / session_gib * (1 + 1e-13)) *
                    doc_number(card, "configuration.attention_data_parallel"),
                doc_number(card, "memory.max_concurrent_sessions"));
}

static double part_ms(const json_t *latency, const char *name)
{
  const json_t *parts = doc_array(latency, "ttft_parts");
  for (size_t i = 0; i < json_array_size(parts); i++)
    if (strcmp(doc_text(json_array_get(parts, i), "name"), name) == 0)
      return doc_number(json_array_get(parts, i), "ms");
  ck_abort_msg("no part %s", name);
  return 0;
}

static void assert_latency(const json_t *card, const json_t *latency)
{
  const double step_ms = doc_number(latency, "inputs.decode_step_ms");
  const double itl_ms = step_ms / (1 - doc_number(latency, "inputs.prefill_load"));
  const double ttft_ms = sum_of(doc_array(latency, "ttft_parts"), "ms");
  assert_same(card, "decode_step_ms", step_ms, doc_number(card, "phases.decode.step_ms"));
  if (doc_is_null(card, "latency.ttft_ms.p50")) {
    ck_assert_msg(json_is_true(doc_at(latency, "is_saturated")), "%s", doc_brief(latency));
    return;
  }
  if (!doc_is_null(card, "success.rate")) { /* simulated: near the closed form, not the same */
    ck_assert_ptr_nonnull(strstr(doc_text(latency, "note"), "simulated"));
    return;
  }
  assert_same(card, "latency.ttft_ms.p50", ttft_ms, doc_number(card, "latency.ttft_ms.p50"));
  if (doc_number(latency, "inputs.output_tokens") <= 1) { /* no gap between tokens exists */
    ck_assert(doc_is_null(card, "latency.itl_ms.p50") && doc_is_null(card, "latency.tpot_ms.mean"));
    ck_assert(doc_is_null(latency, "itl_ms.ms"));
    assert_same(card, "latency.e2e_ms.p50", ttft_ms, doc_number(card, "latency.e2e_ms.p50"));
    return;
  }
  /* near saturation 1 - load keeps fewer digits than load does */
  ck_assert_double_le(fabs(itl_ms / doc_number(card, "latency.itl_ms.p50") - 1), 1e-6);
  assert_same(card, "latency.queue_ms.p50",
              part_ms(latency, "slot_wait") + part_ms(latency, "step_wait") + part_ms(latency, "prompt_wait"),
              doc_number(card, "latency.queue_ms.p50"));
  assert_same(card, "latency.e2e_ms.p50",
              ttft_ms + (doc_number(latency, "inputs.median_output_tokens") - 1) * doc_number(latency, "itl_ms.ms"),
              doc_number(card, "latency.e2e_ms.p50"));
}

/* The shares of the bill are those of the phases, weighted by their shares of the time. */
static void assert_bill(const json_t *card, const json_t *explained, const char *of_cost, const char *of_bound)
{
  const char *path = scratch_printf("by_bound_ms.%s", of_bound);
  const json_t *prefill = doc_at(explained, "prefill"), *decode = doc_at(explained, "decode");
  const double share =
      doc_number(explained, "cost.time_shares.prefill") * doc_number(prefill, path) / doc_number(prefill, "time_ms") +
      doc_number(explained, "cost.time_shares.decode") * doc_number(decode, path) / doc_number(decode, "time_ms");
  double stated = doc_number(card, scratch_printf("cost.by_bound.%s", of_cost));
  if (strcmp(of_cost, "weights") == 0)
    stated += doc_number(card, "cost.by_bound.kv_cache");
  ck_assert_msg(fabs(share - stated) <= EXACT, "%s: %.15g, explained as %.15g", of_cost, stated, share);
}

static void assert_cost(const json_t *card, const json_t *explained)
{
  const json_t *cost = doc_at(explained, "cost"), *items = doc_array(cost, "items");
  const double answered = doc_is_null(card, "success.rate")
                              ? 1
                              : 1 - doc_number(card, "success.shed") - doc_number(card, "success.timed_out") -
                                    doc_number(card, "success.rejected");
  const double rate = doc_number(card, "throughput.requests_per_s") / answered;
  assert_bill(card, explained, "compute", "compute");
  assert_bill(card, explained, "weights", "memory_bandwidth");
  assert_bill(card, explained, "interconnect", "interconnect");
  assert_bill(card, explained, "launch", "launch_overhead");
  assert_same(card, "requests_per_s", doc_number(cost, "requests_per_s"), rate);
  assert_same(card, "gpus_billed", doc_number(cost, "gpus_billed"), doc_number(card, "configuration.gpus_billed"));
  if (doc_is_null(card, "cost.usd_per_gpu_hour")) {
    ck_assert(doc_is_null(cost, "usd_per_hour"));
    return;
  }
  assert_same(card, "usd_per_hour", doc_number(cost, "usd_per_hour"),
              doc_number(card, "cost.usd_per_gpu_hour") * doc_number(card, "configuration.gpus_billed"));
  assert_same(card, "cost.per_attempted_request_usd", doc_number(cost, "usd_per_hour") / 3600 / rate,
              doc_number(card, "cost.per_attempted_request_usd"));
  for (size_t i = 0; i < json_array_size(items); i++) {
    const char *name = doc_text(json_array_get(items, i), "name");
    assert_same(card, name, doc_number(json_array_get(items, i), "usd"),
                doc_number(card, scratch_printf("cost.%s", name)));
  }
}

static void assert_band(const json_t *card)
{
  static const char *const keys[] = {"latency.ttft_ms", "latency.itl_ms", "throughput"};
  const json_t *uncertainty = doc_at(card, "uncertainty");
  for (size_t i = 0; i < 3; i++) {
    const json_t *band = json_object_get(uncertainty, keys[i]);
    ck_assert_uint_eq(json_array_size(band), 2);
    ck_assert_double_lt(json_number_value(json_array_get(band, 0)), 1);
    ck_assert_double_gt(json_number_value(json_array_get(band, 0)), 0);
    ck_assert_double_gt(json_number_value(json_array_get(band, 1)), 1);
  }
  ck_assert_uint_gt(strlen(doc_text(card, "provenance.band_class")), 4);
}

/* ---- all of it ------------------------------------------------------------------------------------------------------- */

static json_t *explanation_of(const json_t *card)
{
  return web_get_ok(&fitd, scratch_printf("/v1/scorecards/%s/explain", doc_text(card, "id")));
}

static void assert_identity(const json_t *card, json_t *explained)
{
  static const char *const members[] = {"workload",         "model",         "model_revision", "profile",
                                        "profile_revision", "sketch_digest", "core_version"};
  ck_assert_str_eq(doc_text(explained, "scorecard"), doc_text(card, "id"));
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
    ck_assert_msg(json_equal(doc_at(explained, members[i]), doc_at(card, members[i])), "%s", members[i]);
  ck_assert_msg(json_array_size(doc_array(explained, "differences")) == 0, "%s on %s: %s", doc_text(card, "model"),
                doc_text(card, "profile"), doc_dump(doc_at(explained, "differences")));
  ck_assert(doc_is_null(explained, "note"));
  ck_assert_uint_gt(doc_assert_finite(explained), 0);
}

static bool check_card(const json_t *card)
{
  json_t *explained = explanation_of(card);
  assert_identity(card, explained);
  if (!doc_is_null(explained, "memory"))
    assert_memory(card, doc_at(explained, "memory"));
  if (doc_is_null(card, "configuration")) {
    ck_assert(doc_is_null(explained, "prefill") && doc_is_null(explained, "decode") && doc_is_null(explained, "cost"));
    ck_assert(doc_is_null(card, "provenance.band_class"));
    return false;
  }
  assert_sessions(card, doc_at(explained, "memory"));
  assert_phases(card, explained);
  assert_latency(card, doc_at(explained, "latency"));
  assert_cost(card, explained);
  assert_band(card);
  return true;
}

/* All profile names as a JSON array. */
static const char *all_profiles(void)
{
  json_t *names = scratch_json_steal(json_array());
  const json_t *items = doc_array(web_get_ok(&fitd, "/v1/profiles?limit=1000"), "items");
  for (size_t i = 0; i < json_array_size(items); i++)
    ck_assert_int_eq(json_array_append_new(names, json_string(doc_text(json_array_get(items, i), "id"))), 0);
  return doc_dump(names);
}

static const struct {
  const char *model, *traffic, *more;
} SKETCHES[] = {
    {"llama-3.1-70b", "\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":2", ""},
    {"llama-3.1-8b", "\"input_tokens\":1,\"output_tokens\":1,\"requests_per_s\":0.01", ""},
    {"llama-3.1-8b", "\"input_tokens\":40000,\"output_tokens\":300,\"concurrency\":24",
     ",\"precision\":\"fp8\",\"serving\":{\"max_batched_tokens\":2048}"},
    {"gpt-oss-120b",
     "\"input_tokens\":{\"p50\":1000,\"p99\":6000},\"output_tokens\":{\"p50\":200,\"p99\":900},"
     "\"requests_per_s\":8",
     ",\"targets\":{\"ttft_ms\":{\"p50\":800},\"headroom\":0.2}"},
    {"deepseek-v3", "\"input_tokens\":3000,\"output_tokens\":500,\"concurrency\":64",
     ",\"serving\":{\"runtime\":\"sglang\",\"tensor_parallel\":8}"},
    {"deepseek-v3.2", "\"input_tokens\":9000,\"output_tokens\":500,\"requests_per_s\":1", ""},
    {"qwen3-next-80b-a3b",
     "\"input_tokens\":4000,\"output_tokens\":800,\"requests_per_s\":3,"
     "\"shared_prefix_tokens\":1000",
     ",\"serving\":{\"cuda_graphs\":false}"},
    {"gemma-2-9b", "\"input_tokens\":6000,\"output_tokens\":100,\"requests_per_s\":20,\"arrival\":\"steady\"",
     ",\"serving\":{\"pipeline_parallel\":2,\"replicas\":1},\"constraints\":{\"gpu_quota\":8}"},
    {"llama-3.1-8b", "\"input_tokens\":3000,\"output_tokens\":100,\"requests_per_s\":3",
     ",\"constraints\":{\"power_cap_w\":250}"},
    {"mamba-codestral-7b", "\"input_tokens\":500,\"output_tokens\":100,\"concurrency\":400",
     ",\"serving\":{\"runtime\":\"tensorrt-llm\"}"},
};

START_TEST(every_profile_adds_up)
{
  const char *const profiles[] = {all_profiles(), "[\"h100-sxm-80gb\",\"l40s-48gb\",\"mi300x-192gb\",\"gh200-96gb\"]"};
  static const char *const depths[] = {"quick", "full"};
  size_t served = 0;
  for (size_t depth = 0; depth < 2; depth++) {
    const char *sketch = scratch_printf("{\"workload\":\"w\",\"model\":\"%s\",\"traffic\":{%s}%s,\"profiles\":%s}",
                                        SKETCHES[_i].model, SKETCHES[_i].traffic, SKETCHES[_i].more, profiles[depth]);
    const char *path = scratch_printf("/v1/evaluations?depth=%s", depths[depth]);
    const json_t *cards = doc_array(web_post_created(&fitd, path, sketch), "scorecards");
    ck_assert_uint_ge(json_array_size(cards), 4);
    for (size_t i = 0; i < json_array_size(cards); i++)
      served += check_card(json_array_get(cards, i)) ? 1 : 0;
  }
  ck_assert_uint_gt(served, 5);
}
END_TEST

/* ---- revisions ------------------------------------------------------------------------------------------------------- */

static const char *model_body(int intermediate_size)
{
  return scratch_printf("{\"hf_config\":{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
                        "\"hidden_size\":2048,\"intermediate_size\":%d,\"num_hidden_layers\":16,"
                        "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":128256,"
                        "\"max_position_embeddings\":8192,\"torch_dtype\":\"bfloat16\",\"tie_word_embeddings\":true}}",
                        intermediate_size);
}

/* A year later: the profile has other figures and prices, the model another shape, and the daemon was started again. */
START_TEST(old_scorecards_keep_their_revisions)
{
  json_t *card, *newer;
  web_put_status(&fitd, "/v1/profiles/ours", sample_profile(3350, "2.5"), 201);
  web_put_status(&fitd, "/v1/models/ours", model_body(8192), 201);
  card = sample_scorecard(&fitd, sample_sketch(&(struct sample_sketch){
                                     .model = "ours",
                                     .more = "\"profiles\":[\"ours\"],\"constraints\":{\"prices\":{\"ours\":3.5,"
                                             "\"l40s-48gb\":1}}"}));
  web_put_status(&fitd, "/v1/profiles/ours", sample_profile(1000, "9"), 200);
  web_put_status(&fitd, "/v1/models/ours", model_body(4096), 200);
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL);
  ck_assert(check_card(card));
  ck_assert_double_eq_tol(doc_number(explanation_of(card), "cost.usd_per_gpu_hour"), 3.5, 1e-12);
  newer = sample_scorecard(&fitd,
                           sample_sketch(&(struct sample_sketch){.model = "ours", .more = "\"profiles\":[\"ours\"]"}));
  ck_assert_int_eq((int)doc_integer(newer, "profile_revision"), 2);
  ck_assert(check_card(newer));
  ck_assert_double_gt(doc_number(explanation_of(newer), "decode.time_ms"),
                      doc_number(explanation_of(card), "decode.time_ms"));
}
END_TEST

START_TEST(models_given_inline_are_explained)
{
  const json_t *stored = doc_at(web_get_ok(&fitd, "/v1/models/llama-3.1-8b"), "architecture");
  const char *sketch =
      scratch_printf("{\"workload\":\"w\",\"model\":{\"architecture\":%s},\"traffic\":{\"input_tokens\":100,"
                     "\"output_tokens\":10,\"requests_per_s\":1},\"profiles\":[\"h100-sxm-80gb\"]}",
                     doc_dump(stored));
  ck_assert(check_card(sample_scorecard(&fitd, sketch)));
}
END_TEST

START_TEST(an_answer_is_quick)
{
  const json_t *card = sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"));
  double best_s = 1;
  for (int i = 0; i < 20; i++) {
    const double start_s = suite_now_s();
    (void)explanation_of(card);
    best_s = fmin(best_s, suite_now_s() - start_s);
  }
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ck_assert_msg(best_s < 0.005, "%.1f ms", best_s * 1e3);
#else
  ck_assert_double_lt(best_s, 0.1);
#endif
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("explain");
  TCase *tcase = suite_case(suite, "explain", setup, teardown);
  tcase_add_loop_test(tcase, every_profile_adds_up, 0, sizeof SKETCHES / sizeof SKETCHES[0]);
  tcase_add_test(tcase, old_scorecards_keep_their_revisions);
  tcase_add_test(tcase, models_given_inline_are_explained);
  tcase_add_test(tcase, an_answer_is_quick);
  return suite_run(suite);
}
