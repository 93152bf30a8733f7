/* Findings: each where its cause is there, with the numbers that show it, and not where the cause is not. */
#include "core/finding.h"

#include <stdalign.h>

#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)64 << 20];
static struct workload workload;
static struct model model;
static struct hardware hardware;
static struct scorecard card;

static void use(const char *device, const char *name)
{
  workload = fixture_workload();
  model = fixture_model(name);
  hardware = fixture_hardware(device);
  fixture_add_price(&hardware, "AWS", "instance", 1, 2, "on_demand");
}

static void evaluate(void)
{
  const struct fit_request request = {.workload = &workload, .model = &model, .hardware = &hardware, .depth = FIT_FULL};
  struct arena arena;
  struct error e;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(fit_evaluate(&card, &request, &arena, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
}

static const struct scorecard_finding *find(const char *code)
{
  for (size_t i = 0; i < card.finding_count; i++)
    if (strcmp(card.findings[i].code, code) == 0)
      return &card.findings[i];
  return NULL;
}

static double evidence(const char *code, const char *name)
{
  const struct scorecard_finding *f = find(code);
  ck_assert_msg(f != NULL, "%s is not found", code);
  for (size_t i = 0; i < f->evidence_count; i++)
    if (strcmp(f->evidence[i].name, name) == 0)
      return f->evidence[i].value;
  ck_abort_msg("%s has no evidence %s", code, name);
  return (double)NAN;
}

static void assert_none(const char *code)
{
  ck_assert_msg(find(code) == NULL, "%s: %s", code, find(code)->message);
}

/* A prompt of 2,048 tokens computes; a step of one token reads 16 GB of weights. */
START_TEST(phases_say_what_they_wait_for)
{
  use("h100-sxm-80gb", "llama-3.1-8b");
  evaluate();
  ck_assert_double_gt(evidence("prefill_compute_bound", "compute_share"), 0.4);
  ck_assert_double_gt(evidence("decode_bandwidth_bound", "memory_share"), 0.5);
  ck_assert_double_gt(evidence("decode_bandwidth_bound", "weights_gb"), 13);
  assert_none("launch_bound");
}
END_TEST

/* Steps of a small model on eight devices are too short for their kernels. */
START_TEST(short_steps_are_launches)
{
  use("h100-sxm-80gb", "qwen3-8b");
  workload.serving.tensor_parallel = 8;
  workload.traffic.input.fixed_tokens = 64;
  evaluate();
  ck_assert_double_gt(evidence("launch_bound", "launch_share"), 0.3);
}
END_TEST

/* 32 KV heads of 32: half a mebibyte a token. 24 GiB of cache hold few sessions of 3,840 tokens. */
static void use_ungrouped(void)
{
  use("l40s-48gb", "llama-2-7b");
  workload.traffic.input.fixed_tokens = 3584;
  fixture_close_loop(&workload, 64);
  workload.serving.replicas = 1;
  workload.serving.tensor_parallel = workload.serving.pipeline_parallel = 1;
}

START_TEST(a_full_cache_is_named_with_its_cause)
{
  use_ungrouped();
  evaluate();
  ck_assert_int_eq(card.limits.first_limit, LIMIT_KV_CACHE);
  assert_close(evidence("kv_cache_limits_batch", "kv_bytes_per_token"), 524288, 1e-12);
  assert_close(evidence("attention_not_grouped", "grouped_kv_heads"), 4, 1e-12);
  assert_close(evidence("attention_not_grouped", "kv_bytes_per_token_grouped"), 524288.0 / 8, 1e-12);
  model = fixture_model("llama-3.1-8b");
  evaluate();
  assert_none("attention_not_grouped");
}
END_TEST

/* Most of a step's traffic is cache: halving the weights saves what is left of it by half. */
START_TEST(quantisation_does_not_mend_attention)
{
  double share;
  use_ungrouped();
  workload.weights = PRECISION_INT4;
  evaluate();
  share = evidence("quantisation_masks_structure", "kv_share_of_decode_bytes");
  ck_assert_double_gt(share, 0.5);
  assert_close(evidence("quantisation_masks_structure", "saved_by_halving_weights"), (1 - share) / 2, 1e-12);
  assert_close(evidence("quantisation_masks_structure", "saved_by_grouped_heads"), share * 7 / 8, 1e-12);
  ck_assert_int_eq(find("quantisation_masks_structure")->severity, SEVERITY_WARNING);
  use("h100-sxm-80gb", "llama-3.1-8b");
  evaluate();
  assert_none("quantisation_masks_structure");
}
END_TEST

/* fp8 on A100: weights of one byte, the math in bf16 at 312 TFLOP/s. */
START_TEST(a_format_without_units_falls_back)
{
  use("a100-sxm-80gb", "llama-3.1-8b");
  workload.weights = PRECISION_FP8;
  evaluate();
  assert_close(evidence("precision_fallback", "math_peak_tflops"), 312, 1e-12);
  assert_close(evidence("precision_fallback", "stored_bytes_per_weight"), 1, 1e-12);
  ck_assert(evidence("precision_fallback", "per_successful_request_usd_in_bf16") > 0);
  hardware = fixture_hardware("h100-sxm-80gb");
  evaluate();
  assert_none("precision_fallback");
}
END_TEST

START_TEST(clocks_that_do_not_hold_are_named)
{
  use("h100-sxm-80gb", "llama-3.1-8b");
  hardware.sustained_clock_fraction = 0.8;
  evaluate();
  assert_close(evidence("thermally_throttled", "bf16_tflops_sustained"), 0.8 * 989.5, 1e-12);
  hardware.sustained_clock_fraction = 0.98;
  evaluate();
  assert_none("thermally_throttled");
}
END_TEST

START_TEST(a_power_cap_shows_in_clocks)
{
  use("h100-sxm-80gb", "llama-3.1-8b");
  workload.constraints.power_cap_w = 350;
  evaluate();
  ck_assert_double_lt(evidence("power_capped", "prefill_clock_share"), 0.95);
}
END_TEST

/* Boards of one host, a bridge pair, a switch. */
START_TEST(tensor_parallel_over_pcie_is_taxed)
{
  double pcie, bridge;
  use("l40s-48gb", "llama-3.1-8b");
  workload.serving.tensor_parallel = 8;
  evaluate();
  pcie = evidence("pcie_tensor_parallel", "communication_share");
  assert_close(evidence("interconnect_tax", "communication_share"), pcie, 1e-12);
  ck_assert_double_gt(pcie, 0.2);
  use("a100-pcie-80gb", "llama-3.1-8b");
  workload.serving.tensor_parallel = 4;
  evaluate();
  bridge = evidence("tp_leaves_interconnect_domain", "communication_share");
  assert_none("pcie_tensor_parallel");
  workload.serving.tensor_parallel = 2;
  evaluate();
  assert_none("tp_leaves_interconnect_domain");
  use("a100-sxm-80gb", "llama-3.1-8b");
  workload.serving.tensor_parallel = 4;
  evaluate();
  assert_none("tp_leaves_interconnect_domain");
  assert_none("pcie_tensor_parallel");
  assert_none("interconnect_tax");
  ck_assert_double_lt(card.decode.communication_share_ratio, bridge);
}
END_TEST

/* 11,008 on 8 ranks is 1,376 outputs: 10.75 tiles of 128; heads of 4,096 / 8 = 512 are whole tiles. */
START_TEST(shapes_off_the_tile_lose_work)
{
  use("h100-sxm-80gb", "llama-2-7b");
  workload.traffic.input.fixed_tokens = 1024;
  workload.serving.tensor_parallel = 8;
  evaluate();
  assert_close(evidence("shape_misaligned", "aligned_outputs") / 128,
               floor(evidence("shape_misaligned", "outputs") / 128 + 0.5), 1e-12);
  ck_assert_double_lt(evidence("shape_misaligned", "lost_ratio"), 0.03);
  use("h100-sxm-80gb", "llama-3.1-8b"); /* 4,096, 6,144 and 28,672: all of them multiples of 128 */
  evaluate();
  assert_none("shape_misaligned");
}
END_TEST

START_TEST(wide_models_take_shorter_steps_than_deep_ones)
{
  use("h100-sxm-80gb", "llama-3.1-70b");
  workload.serving.tensor_parallel = 8;
  evaluate();
  assert_close(evidence("depth_width", "reshaped_layers"), 40, 1e-12);
  assert_close(evidence("depth_width", "reshaped_hidden_size"), 11648, 1e-12); /* 8192 √2 = 11585.2 → 91 × 128 */
  ck_assert(evidence("depth_width", "reshaped_step_ms") < evidence("depth_width", "step_ms"));
}
END_TEST

START_TEST(no_graphs_is_off_the_fast_path)
{
  use("h100-sxm-80gb", "llama-3.1-8b");
  workload.serving.cuda_graphs = 0;
  evaluate();
  ck_assert(evidence("off_fast_path", "step_ms") > evidence("off_fast_path", "step_ms_on_fast_path"));
  workload.serving.cuda_graphs = 1;
  evaluate();
  assert_none("off_fast_path");
  model.layers[0].attention.head_dim = model.layers[0].attention.value_head_dim = 136;
  evaluate();
  assert_close(evidence("off_fast_path", "head_dim"), 136, 1e-12);
}
END_TEST

/* 36 requests an hour; 2,048 tokens at 0.6 and 256 at 2.4 USD a million are 0.0018432 USD. The fleet costs 2 USD an hour. */
START_TEST(little_traffic_is_cheaper_elsewhere)
{
  use("h100-sxm-80gb", "llama-3.1-8b");
  workload.traffic.requests_per_s = 0.01;
  workload.constraints.managed_input_usd_per_million_tokens = 0.6;
  workload.constraints.managed_output_usd_per_million_tokens = 2.4;
  evaluate();
  ck_assert_uint_eq(card.configuration.gpus, 1);
  assert_close(evidence("low_volume", "managed_per_request_usd"), 0.0018432, 1e-9);
  assert_close(evidence("low_volume", "break_even_requests_per_h"), 2 / 0.0018432, 1e-9);
  assert_close(evidence("low_volume", "per_request_usd"), 2.0 / 36, 1e-9);
  ck_assert_int_eq(card.alternatives.self_host_is_justified, 0);
  workload.traffic.requests_per_s = 2; /* 7,200 an hour, where 1,085 earn the fleet back */
  evaluate();
  assert_none("low_volume");
  ck_assert_int_eq(card.alternatives.self_host_is_justified, 1);
  workload.traffic.requests_per_s = 0.02; /* 72 an hour, and no price to compare with */
  workload.constraints.managed_input_usd_per_million_tokens = (double)NAN;
  evaluate();
  ck_assert_ptr_nonnull(find("low_volume"));
  ck_assert_int_eq(card.alternatives.self_host_is_justified, -1);
}
END_TEST

/* One step alone takes longer than the limit: no batching policy helps. */
START_TEST(a_scheduler_can_not_make_a_step_shorter)
{
  use("h100-sxm-80gb", "llama-3.1-70b");
  workload.serving.tensor_parallel = 4;
  workload.targets.itl_ms.p50 = 12; /* the roofline is 10.4 */
  evaluate();
  ck_assert_int_ne(card.verdict, VERDICT_FIT);
  ck_assert(evidence("scheduler_cannot_help", "step_ms_alone") > 10);
  ck_assert_double_gt(evidence("scheduler_cannot_help", "active_parameters"), 70e9);
  workload.targets.itl_ms.p50 = 60;
  evaluate();
  assert_none("scheduler_cannot_help");
}
END_TEST

START_TEST(devices_of_a_family_are_not_calibrated)
{
  use("h200-sxm-141gb", "llama-3.1-8b");
  evaluate();
  if (strcmp(card.constants_provenance, "own") != 0)
    ck_assert(evidence("uncalibrated", "itl_p10") < 1 && evidence("uncalibrated", "itl_p90") > 1);
  else
    assert_none("uncalibrated");
}
END_TEST

/* Grouped heads by hand: 32 of 32 → 4, 64 of 64 → 8, 40 of 40 → 5, 10 of 40 → 8, 8 of 32 and 1 of 71 stay. */
START_TEST(heads_are_grouped_by_eight)
{
  static const struct {
    unsigned query, kv, grouped;
  } cases[] = {{32, 32, 4}, {64, 64, 8}, {40, 40, 5}, {40, 10, 8}, {32, 8, 0}, {71, 1, 0}, {8, 8, 1}, {4, 4, 1}};
  for (size_t i = 0; i < FIXTURE_COUNT(cases); i++) {
    struct model m = fixture_model("llama-2-7b");
    m.layers[0].attention.query_heads = cases[i].query;
    m.layers[0].attention.kv_heads = cases[i].kv;
    ck_assert_msg(finding_grouped_heads(&m) == cases[i].grouped, "%u of %u: %u", cases[i].kv, cases[i].query,
                  finding_grouped_heads(&m));
  }
}
END_TEST

START_TEST(every_finding_has_finite_evidence_or_none)
{
  static const char *const devices[] = {"h100-sxm-80gb", "l40s-48gb", "mi300x-192gb", "b200-sxm-180gb", "t4-16gb"};
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "llama-2-7b", "falcon-7b"};
  for (size_t d = 0; d < FIXTURE_COUNT(devices); d++)
    for (size_t m = 0; m < FIXTURE_COUNT(models); m++) {
      use(devices[d], models[m]);
      workload.traffic.input.fixed_tokens = 1024;
      evaluate();
      for (size_t i = 0; i < card.finding_count; i++) {
        const struct scorecard_finding *f = &card.findings[i];
        ck_assert(f->message != NULL && f->message[0] != '\0');
        for (size_t k = 0; k < f->evidence_count; k++)
          ck_assert_msg(!isinf(f->evidence[k].value), "%s %s", f->code, f->evidence[k].name);
      }
    }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("finding");
  tcase_add_test(tcase, phases_say_what_they_wait_for);
  tcase_add_test(tcase, short_steps_are_launches);
  tcase_add_test(tcase, a_full_cache_is_named_with_its_cause);
  tcase_add_test(tcase, quantisation_does_not_mend_attention);
  tcase_add_test(tcase, a_format_without_units_falls_back);
  tcase_add_test(tcase, clocks_that_do_not_hold_are_named);
  tcase_add_test(tcase, a_power_cap_shows_in_clocks);
  tcase_add_test(tcase, tensor_parallel_over_pcie_is_taxed);
  tcase_add_test(tcase, shapes_off_the_tile_lose_work);
  tcase_add_test(tcase, wide_models_take_shorter_steps_than_deep_ones);
  tcase_add_test(tcase, no_graphs_is_off_the_fast_path);
  tcase_add_test(tcase, little_traffic_is_cheaper_elsewhere);
  tcase_add_test(tcase, a_scheduler_can_not_make_a_step_shorter);
  tcase_add_test(tcase, devices_of_a_family_are_not_calibrated);
  tcase_add_test(tcase, heads_are_grouped_by_eight);
  tcase_add_test(tcase, every_finding_has_finite_evidence_or_none);
  return fixture_run("core/finding", tcase);
}
