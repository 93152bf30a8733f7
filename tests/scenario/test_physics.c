/* Figures that follow from the architecture and the datasheet alone, and the directions every prediction must keep: more
   hardware is not slower, more work is not faster. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <string.h>

#define GIB 1073741824.0

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

/* The dense models of the issue: 2 (K and V) × layers × KV heads × head dimension × 2 bytes, and parameters as counted from
   their configurations (model_facts.csv). */
struct dense_model {
  const char *name;
  long long kv_bytes_per_token; /* 2·32·8·128·2, 2·80·8·128·2, 2·126·8·128·2 */
  long long parameters;
  const char *profile; /* one that holds it at this tensor_parallel */
  int tensor_parallel;
};

static const struct dense_model DENSE_MODELS[] = {
    {"llama-3.1-8b", 131072, 8030261248, "h100-sxm-80gb", 1},
    {"llama-3.1-70b", 327680, 70553706496, "h100-sxm-80gb", 4},
    {"llama-3.1-405b", 516096, 405853388800, "h200-sxm-141gb", 8},
};

/* A scorecard of the 70B on `profile` at tp 4, lightly loaded, so that layout and load stay put. */
static json_t *fixed_card(const char *profile, int input_tokens, int replicas, const char *more)
{
  const struct sample_sketch sketch = {
      .input_tokens = input_tokens,
      .requests_per_s = 0.5,
      .more = scratch_printf(
          "\"profiles\":[\"%s\"],\"serving\":{\"tensor_parallel\":4,\"replicas\":%d,\"max_batch\":32}%s%s", profile,
          replicas, more != NULL ? "," : "", more != NULL ? more : "")};
  json_t *card = sample_scorecard(&fitd, sample_sketch(&sketch));
  ck_assert_str_eq(doc_text(card, "verdict"), "fit");
  return card;
}

static json_t *dense_card(const struct dense_model *model)
{
  const struct sample_sketch sketch = {
      .model = model->name,
      .requests_per_s = 0.1,
      .more = scratch_printf("\"profiles\":[\"%s\"],\"serving\":{\"tensor_parallel\":%d,\"replicas\":1}",
                             model->profile, model->tensor_parallel)};
  return sample_scorecard(&fitd, sample_sketch(&sketch));
}

START_TEST(kv_bytes_per_token_are_exact)
{
  const struct dense_model *model = &DENSE_MODELS[_i];
  const json_t *stored = web_get_ok(&fitd, scratch_printf("/v1/models/%s", model->name));
  ck_assert_int_eq(doc_integer(stored, "derived.kv_bytes_per_token"), model->kv_bytes_per_token);
  ck_assert_int_eq(doc_integer(stored, "derived.parameters_total"), model->parameters);
  ck_assert_int_eq(doc_integer(stored, "derived.parameters_active"), model->parameters);
  ck_assert_int_eq(doc_integer(dense_card(model), "memory.kv_bytes_per_token"), model->kv_bytes_per_token);
}
END_TEST

START_TEST(weights_are_parameters_times_bytes)
{
  const struct dense_model *model = &DENSE_MODELS[_i];
  const json_t *card = dense_card(model);
  const double expected_gib = (double)model->parameters * 2 / GIB / model->tensor_parallel;
  const json_t *stored = web_get_ok(&fitd, scratch_printf("/v1/models/%s", model->name));
  ck_assert_double_eq_tol(doc_number(card, "memory.weights_gib"), expected_gib, 0.01 * expected_gib);
  ck_assert_double_eq_tol(doc_number(stored, "derived.weights_bytes"), (double)model->parameters * 2,
                          0.01 * (double)model->parameters * 2);
}
END_TEST

/* 92 % of what the engine reports (the default of vLLM from 0.21 on) is what weights, activations, runtime and KV cache share. */
START_TEST(usable_memory_is_what_the_engine_may_take)
{
  const double h100_gib = 81091.0 / 1024;
  const json_t *card = fixed_card("h100-sxm-80gb", 2048, 1, NULL);
  ck_assert_double_eq_tol(doc_number(card, "memory.usable_gib"), 0.92 * h100_gib, 0.005 * h100_gib);
}
END_TEST

/* kv_gib_per_session holds one request at its longest; all sessions together fill the pool of the replica. */
START_TEST(sessions_fill_the_pool)
{
  const json_t *card = fixed_card("h100-sxm-80gb", 2048, 1, NULL);
  const double per_session_gib = doc_number(card, "memory.kv_gib_per_session");
  const double pool_gib = doc_number(card, "memory.kv_cache_gib") * 4;
  ck_assert_double_ge(per_session_gib, 2048 * 327680.0 / GIB);
  ck_assert_double_le(per_session_gib, 1.02 * (2048 + 256 + 16) * 327680.0 / GIB);
  ck_assert_double_eq_tol(doc_number(card, "memory.max_concurrent_sessions"), pool_gib / per_session_gib,
                          1.0 + 0.02 * pool_gib / per_session_gib);
}
END_TEST

/* Llama-3.1-405B in bf16 is 405,853,388,800 × 2 B = 755.96 GiB. An H100 reports 81,091 MiB, of which the engine may use
   0.9: 71.27 GiB. So 10.6 → at least 11 GPUs, before activations and runtime. Eleven do not do: 11 divides no head count,
   and 126 layers over 11 stages put 12 layers of 5.94 GiB on the fullest, which leaves 0.02 GiB for everything else. Two
   nodes of eight (47.2 GiB of weights each) certainly do. */
static void assert_405b_does_not_fit(const json_t *card)
{
  ck_assert_str_ne(doc_text(card, "verdict"), "fit"); /* it may with changes: four bits a weight, more stages */
  ck_assert_int_ge(doc_integer(card, "memory.min_gpus"), 12);
  ck_assert_int_le(doc_integer(card, "memory.min_gpus"), 16);
}

START_TEST(llama_405b_on_one_h100)
{
  const struct sample_sketch sketch = {
      .model = "llama-3.1-405b",
      .more = "\"profiles\":[\"h100-sxm-80gb\"],\"serving\":{\"tensor_parallel\":1,\"replicas\":1}"};
  const json_t *card = sample_scorecard(&fitd, sample_sketch(&sketch));
  ck_assert_str_eq(doc_text(card, "no_fit_reason"), "weights_exceed_memory");
  assert_405b_does_not_fit(card);
}
END_TEST

START_TEST(llama_405b_under_a_quota_of_one_gpu)
{
  const struct sample_sketch sketch = {.model = "llama-3.1-405b",
                                       .more = "\"profiles\":[\"h100-sxm-80gb\"],\"constraints\":{\"gpu_quota\":1}"};
  const json_t *card = sample_scorecard(&fitd, sample_sketch(&sketch));
  const char *reason = doc_text(card, "no_fit_reason");
  ck_assert_msg(strcmp(reason, "weights_exceed_memory") == 0 || strcmp(reason, "quota_exceeded") == 0, "%s", reason);
  assert_405b_does_not_fit(card);
}
END_TEST

START_TEST(quota_bounds_the_fleet)
{
  /* 70B in bf16 is 131.4 GiB: two H100 at 71.27 GiB hold it barely or not, four do. */
  const json_t *card =
      sample_scorecard(&fitd, sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"],\"constraints\":{\"gpu_quota\":4}"));
  ck_assert_str_eq(doc_text(card, "verdict"), "fit");
  ck_assert_int_le(doc_integer(card, "configuration.gpus"), 4);
}
END_TEST

static void assert_not_slower(const json_t *fast, const json_t *slow)
{
  static const char *const metrics[] = {"latency.ttft_ms.p50", "latency.itl_ms.p50", "latency.e2e_ms.p50"};
  for (size_t i = 0; i < 3; i++)
    ck_assert_double_le(doc_number(fast, metrics[i]), doc_number(slow, metrics[i]) * (1 + 1e-9));
}

START_TEST(more_replicas_are_not_slower)
{
  const json_t *one = fixed_card("h100-sxm-80gb", 2048, 1, NULL);
  const json_t *two = fixed_card("h100-sxm-80gb", 2048, 2, NULL);
  const json_t *four = fixed_card("h100-sxm-80gb", 2048, 4, NULL);
  assert_not_slower(two, one);
  assert_not_slower(four, two);
  ck_assert_double_ge(doc_number(two, "limits.saturation_requests_per_s"),
                      1.9 * doc_number(one, "limits.saturation_requests_per_s"));
  /* hosts of 8: two replicas of 4 GPUs are billed as one is, four as two hosts */
  ck_assert_double_eq_tol(doc_number(two, "cost.monthly_usd"), doc_number(one, "cost.monthly_usd"), 0.01);
  ck_assert_double_eq_tol(doc_number(four, "cost.monthly_usd"), 2 * doc_number(one, "cost.monthly_usd"), 0.01);
}
END_TEST

START_TEST(fp8_halves_the_weights)
{
  /* Embedding and head (2 × 128,256 × 8,192 of 70.55e9 parameters, 3 %) may stay in 16 bits: 0.5 to 0.515, plus scales. */
  const json_t *bf16 = fixed_card("h100-sxm-80gb", 2048, 1, "\"precision\":\"bf16\"");
  const json_t *fp8 = fixed_card("h100-sxm-80gb", 2048, 1, "\"precision\":\"fp8\"");
  const double ratio = doc_number(fp8, "memory.weights_gib") / doc_number(bf16, "memory.weights_gib");
  ck_assert_double_ge(ratio, 0.5);
  ck_assert_double_le(ratio, 0.525);
  ck_assert_int_eq(doc_integer(fp8, "memory.kv_bytes_per_token"), 327680 / 2);
  ck_assert_str_eq(doc_text(fp8, "configuration.precision.weights"), "fp8");
  assert_not_slower(fp8, bf16);
}
END_TEST

START_TEST(more_bandwidth_never_slows_decode)
{
  static const double factors[] = {1.0, 1.25, 1.5, 2.0};
  double first_ms = 0, last_ms = 0;
  for (size_t i = 0; i < 4; i++) {
    const char *name = scratch_printf("bandwidth-%zu", i);
    double itl_ms;
    (void)web_put_status(&fitd, scratch_printf("/v1/profiles/%s", name), sample_profile(3350 * factors[i], "2.5"), 201);
    itl_ms = doc_number(fixed_card(name, 2048, 1, NULL), "latency.itl_ms.p50");
    if (i == 0)
      first_ms = itl_ms;
    else
      ck_assert_double_le(itl_ms, last_ms);
    last_ms = itl_ms;
  }
  ck_assert_double_lt(last_ms, first_ms); /* decode of a 70B model waits for memory: twice the bandwidth must show */
}
END_TEST

START_TEST(cost_is_proportional_to_price)
{
  static const char *const figures[] = {"cost.per_attempted_request_usd", "cost.per_successful_request_usd",
                                        "cost.per_million_output_tokens_usd", "cost.monthly_usd"};
  const json_t *two = fixed_card("h100-sxm-80gb", 2048, 1, "\"constraints\":{\"prices\":{\"h100-sxm-80gb\":2}}");
  const json_t *six = fixed_card("h100-sxm-80gb", 2048, 1, "\"constraints\":{\"prices\":{\"h100-sxm-80gb\":6}}");
  ck_assert_double_eq_tol(doc_number(two, "cost.usd_per_gpu_hour"), 2.0, 1e-9);
  ck_assert_double_eq_tol(doc_number(two, "cost.monthly_usd"), 2.0 * 4 * 730, 1e-6);
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
    ck_assert_double_eq_tol(doc_number(six, figures[i]), 3 * doc_number(two, figures[i]),
                            1e-6 * doc_number(six, figures[i]));
}
END_TEST

START_TEST(h100_beats_a100)
{
  const json_t *h100 = fixed_card("h100-sxm-80gb", 2048, 1, NULL);
  const json_t *a100 = fixed_card("a100-sxm-80gb", 2048, 1, NULL);
  ck_assert_double_lt(doc_number(h100, "latency.itl_ms.p50"), doc_number(a100, "latency.itl_ms.p50"));
  ck_assert_double_lt(doc_number(h100, "latency.ttft_ms.p50"), doc_number(a100, "latency.ttft_ms.p50"));
}
END_TEST

/* A decode step must read its share of the weights: no step is faster than that at the datasheet's bandwidth. And the forward
   pass of a prompt takes at least 2 FLOP per parameter and token at the datasheet's peak. */
START_TEST(nothing_beats_the_roofline)
{
  const json_t *card = fixed_card("h100-sxm-80gb", 2048, 1, NULL);
  const double weights_bytes = 70553706496.0 * 2 / 4;
  const double prefill_flops = 2.0 * (70553706496.0 - 128256.0 * 8192) * 2048 / 4;
  ck_assert_double_ge(doc_number(card, "latency.itl_ms.p50"), 0.98 * weights_bytes / 3350e9 * 1000);
  ck_assert_double_ge(doc_number(card, "latency.ttft_ms.p50"), 0.95 * prefill_flops / 989.5e12 * 1000);
}
END_TEST

START_TEST(longer_input_raises_ttft)
{
  const json_t *at_2k = fixed_card("h100-sxm-80gb", 2048, 1, NULL);
  const json_t *at_4k = fixed_card("h100-sxm-80gb", 4096, 1, NULL);
  ck_assert_double_ge(doc_number(at_4k, "latency.ttft_ms.p50"), 1.5 * doc_number(at_2k, "latency.ttft_ms.p50"));
  ck_assert_double_ge(doc_number(at_4k, "latency.itl_ms.p50"), doc_number(at_2k, "latency.itl_ms.p50"));
  ck_assert_double_gt(doc_number(at_4k, "memory.kv_gib_per_session"), doc_number(at_2k, "memory.kv_gib_per_session"));
}
END_TEST

START_TEST(more_load_is_not_cheaper_to_wait_for)
{
  static const double loads[] = {0.25, 0.5, 1.0, 1.5};
  double last_ms = 0;
  for (size_t i = 0; i < 4; i++) {
    const struct sample_sketch sketch = {
        .requests_per_s = loads[i],
        .more = "\"profiles\":[\"h100-sxm-80gb\"],\"serving\":{\"tensor_parallel\":4,\"replicas\":1,\"max_batch\":64}"};
    const double e2e_ms = doc_number(sample_scorecard(&fitd, sample_sketch(&sketch)), "latency.e2e_ms.p50");
    ck_assert_double_ge(e2e_ms, last_ms);
    last_ms = e2e_ms;
  }
}
END_TEST

int main(void)
{
  const int models = (int)(sizeof DENSE_MODELS / sizeof DENSE_MODELS[0]);
  Suite *suite = suite_create("physics");
  TCase *tcase = suite_case(suite, "physics", setup, teardown);
  tcase_add_loop_test(tcase, kv_bytes_per_token_are_exact, 0, models);
  tcase_add_loop_test(tcase, weights_are_parameters_times_bytes, 0, models);
  tcase_add_test(tcase, usable_memory_is_what_the_engine_may_take);
  tcase_add_test(tcase, sessions_fill_the_pool);
  tcase_add_test(tcase, llama_405b_on_one_h100);
  tcase_add_test(tcase, llama_405b_under_a_quota_of_one_gpu);
  tcase_add_test(tcase, quota_bounds_the_fleet);
  tcase_add_test(tcase, more_replicas_are_not_slower);
  tcase_add_test(tcase, fp8_halves_the_weights);
  tcase_add_test(tcase, more_bandwidth_never_slows_decode);
  tcase_add_test(tcase, cost_is_proportional_to_price);
  tcase_add_test(tcase, h100_beats_a100);
  tcase_add_test(tcase, nothing_beats_the_roofline);
  tcase_add_test(tcase, longer_input_raises_ttft);
  tcase_add_test(tcase, more_load_is_not_cheaper_to_wait_for);
  return suite_run(suite);
}
