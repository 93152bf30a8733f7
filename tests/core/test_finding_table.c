/* The design's table of findings (CORE §7), row by row: each fires where its cause is there and does not on the neighbour
   that lacks it. What only several profiles or live devices show is tested in tests/api. */
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

static void hold(unsigned tensor_parallel, unsigned replicas)
{
  workload.serving.tensor_parallel = tensor_parallel;
  workload.serving.pipeline_parallel = 1;
  workload.serving.replicas = replicas;
}

static void plain(void)
{
}

/* ---- phases ---- */

/* A prompt of one token beside a reader is no prefill to speak of. */
static void one_token_prompts(void)
{
  workload.traffic.input.fixed_tokens = 1;
}

/* 4,096 at once, each with little cache: the matrices are as large as a prompt's. */
static void crowded_decode(void)
{
  workload.traffic.input.fixed_tokens = 16;
  workload.traffic.output.fixed_tokens = 64;
  workload.serving.max_batch = 4096;
  fixture_close_loop(&workload, 4096);
  hold(1, 1);
}

static void eight_ranks_for_eight_billion(void)
{
  workload.traffic.input.fixed_tokens = 64;
  hold(8, 1);
}

/* ---- capacity ---- */

static void one_gpu(void)
{
  workload.constraints.gpu_quota = 1;
  hold(1, 1);
}

static void two_gpus(void)
{
  hold(2, 1);
}

/* 16.06 GB of weights on 16 GB less what the engine keeps: nothing is left, or too little. */
static void barely_holds_weights(void)
{
  hold(1, 1);
  hardware.memory_gib = 19;
  hardware.memory_usable_mib = 19 * 1024;
  hardware.memory_engine_mib = 19 * 1024;
  workload.traffic.input.fixed_tokens = 60000;
}

/* 15 GiB of weights and some 2 of an engine's own, where 92 % of 17 GiB are to be used; 12 GiB are no near miss. */
static void nearly_fits(void)
{
  hold(1, 1);
  hardware.memory_gib = 17;
  hardware.memory_usable_mib = hardware.memory_engine_mib = 17 * 1024;
}

static void hardly_fits(void)
{
  hold(1, 1);
  hardware.memory_gib = 12;
  hardware.memory_usable_mib = hardware.memory_engine_mib = 12 * 1024;
}

static void ungrouped(void)
{
  workload.traffic.input.fixed_tokens = 3584;
  fixture_close_loop(&workload, 64);
  hold(1, 1);
}

static void ungrouped_and_alone(void)
{
  ungrouped();
  workload.traffic.input.fixed_tokens = 64;
  fixture_close_loop(&workload, 1);
}

/* The engine's own limit ends the batch before the pool does. */
static void few_at_once(void)
{
  ungrouped();
  workload.serving.max_batch = 4;
}

static void grouped(void)
{
  ungrouped();
  model = fixture_model("llama-3.1-8b");
}

static void ungrouped_int4(void)
{
  ungrouped();
  workload.weights = PRECISION_INT4;
}

/* ---- precision, shape ---- */

static void in_fp8(void)
{
  workload.weights = PRECISION_FP8;
}

static void odd_width(void)
{
  model.layers[0].feed_forward.intermediate_size = 11008 + 24;
  workload.traffic.input.fixed_tokens = 1024;
  hold(8, 1);
}

static void deep(void)
{
  hold(8, 1);
}

/* Sixteen layers at most are not halved. */
static void shallow(void)
{
  hold(8, 1);
  ck_assert_int_eq(model_append_layers(&model, &model.layers[0], 0, NULL), ERR_OK);
  model.layer_count = 15;
}

static void eager(void)
{
  workload.serving.cuda_graphs = 0;
}

/* ---- links ---- */

static void eight_boards(void)
{
  hold(8, 1);
}

static void four_boards(void)
{
  hold(4, 1);
}

static void one_board(void)
{
  hold(1, 1);
}

static void given_too_many(void)
{
  workload.serving.tensor_parallel = 8;
  workload.traffic.requests_per_s = 1;
}

static void given_enough(void)
{
  workload.serving.tensor_parallel = 1;
  workload.traffic.requests_per_s = 1;
}

/* ---- load ---- */

/* The limit keeps batches small, a looser one does not. */
static void tight_gaps(void)
{
  workload.traffic.requests_per_s = 60;
  workload.targets.itl_ms.p50 = 11;
}

static void loose_gaps(void)
{
  workload.traffic.requests_per_s = 60;
  workload.targets.itl_ms.p50 = 500;
}

static void faster_than_a_step(void)
{
  hold(4, 1);
  workload.targets.itl_ms.p50 = 12;
}

static void slower_than_a_step(void)
{
  hold(4, 1);
  workload.targets.itl_ms.p50 = 60;
}

static void long_prompts(void)
{
  workload.traffic.input.fixed_tokens = 8000;
  hold(1, 1);
}

static void short_prompts(void)
{
  workload.traffic.input.fixed_tokens = 32;
  hold(1, 1);
}

static void bursts(void)
{
  workload.traffic.arrival = ARRIVAL_SPIKY;
  workload.traffic.arrival_is_given = true;
  workload.traffic.burst_peak_to_mean = 10;
  workload.traffic.burst_duration_s = 10;
  workload.traffic.requests_per_s = 6;
  hold(1, 1);
}

static void no_bursts(void)
{
  bursts();
  workload.traffic.arrival = ARRIVAL_STEADY;
}

static void sums_too_small(void)
{
  workload.targets.ttft_ms.p50 = 200;
  workload.targets.itl_ms.p50 = 20;
  workload.targets.e2e_ms.p50 = 4000;
}

/* 200 + 255 × 20 = 5,300. */
static void sums_that_agree(void)
{
  sums_too_small();
  workload.targets.e2e_ms.p50 = 5400;
}

static void half_power(void)
{
  workload.constraints.power_cap_w = 350;
}

static void slow_clock(void)
{
  hardware.sustained_clock_fraction = 0.8;
}

static void sixty_an_hour(void)
{
  workload.traffic.requests_per_s = 60 / 3600.0;
}

/* Without prices of an API, 120 an hour are the limit. */
static void many_an_hour(void)
{
  workload.traffic.requests_per_s = 130 / 3600.0;
}

static void cheaper_api(void)
{
  workload.traffic.requests_per_s = 0.1;
  workload.constraints.managed_input_usd_per_million_tokens = 0.6;
  workload.constraints.managed_output_usd_per_million_tokens = 2.4;
}

static void dearer_api(void)
{
  cheaper_api();
  workload.traffic.requests_per_s = 2;
}

/* ---- trouble ---- */

/* 39 full sessions of 4,000 tokens, admitted with 96 tokens each: all of them grow, not all of them can stay. */
static void growing_answers(void)
{
  workload.traffic.input.fixed_tokens = 96;
  workload.traffic.output.fixed_tokens = 3900;
  workload.serving.max_batch = 256;
  fixture_close_loop(&workload, 200);
  hold(1, 1);
}

static void few_growing_answers(void)
{
  growing_answers();
  fixture_close_loop(&workload, 8);
}

static void impatient(void)
{
  workload.traffic.requests_per_s = 40;
  workload.traffic.client_timeout_ms = 4000;
  workload.traffic.client_retries = 2;
  hold(1, 1);
}

static void patient(void)
{
  impatient();
  workload.traffic.requests_per_s = 2;
}

static void locked(void)
{
  workload.constraints.accuracy = ACCURACY_LOCKED;
}

static void tight_limits(void)
{
  workload.traffic.input.fixed_tokens = 1024;
  workload.traffic.requests_per_s = 9;
  workload.targets.itl_ms.p99 = 60;
  hold(1, 1);
}

static void roomy_limits(void)
{
  tight_limits();
  workload.targets.itl_ms.p99 = 1000;
}

/* 15 s + 8.8 GB × 8 … + 80 layers × 0.8 s: over a minute, and there is no other replica. */
static void one_replica(void)
{
  workload.restarts_per_day = 2;
  hold(8, 1);
}

static void two_replicas(void)
{
  workload.restarts_per_day = 2;
  hold(8, 2);
}

static void measured(void)
{
  fixture_text(hardware.measured_as, sizeof hardware.measured_as, "h200_sxm");
}

static void no_price(void)
{
  hardware.price_count = 0;
}

typedef void set_up(void);

static const struct row {
  const char *code, *device, *model;
  set_up *cause;
  const char *other_device;
  set_up *neighbour;
  const char *evidence; /* one that is positive and finite */
} rows[] = {
    {"prefill_compute_bound", "h100-sxm-80gb", "llama-3.1-8b", plain, NULL, one_token_prompts, "time_ms"},
    {"decode_bandwidth_bound", "h100-sxm-80gb", "llama-3.1-8b", plain, NULL, crowded_decode, "weights_gb"},
    {"launch_bound", "h100-sxm-80gb", "llama-3.1-8b", eight_ranks_for_eight_billion, NULL, plain, "launch_share"},
    {"weights_exceed_memory", "h100-sxm-80gb", "llama-3.1-70b", one_gpu, NULL, two_gpus, "weights_gib"},
    {"no_room_for_kv_cache", "h100-sxm-80gb", "llama-3.1-8b", barely_holds_weights, NULL, one_board, NULL},
    {"near_miss", "h100-sxm-80gb", "llama-3.1-8b", nearly_fits, NULL, hardly_fits, "missing_gib"},
    {"kv_cache_limits_batch", "l40s-48gb", "llama-2-7b", ungrouped, NULL, few_at_once, "kv_bytes_per_token"},
    {"attention_not_grouped", "l40s-48gb", "llama-2-7b", ungrouped, NULL, grouped, "grouped_kv_heads"},
    {"quantisation_masks_structure", "l40s-48gb", "llama-2-7b", ungrouped_int4, NULL, ungrouped_and_alone,
     "saved_by_grouped_heads"},
    {"precision_fallback", "a100-sxm-80gb", "llama-3.1-8b", in_fp8, "h100-sxm-80gb", in_fp8, "math_peak_tflops"},
    {"shape_misaligned", "h100-sxm-80gb", "llama-2-7b", odd_width, NULL, one_board, "aligned_outputs"},
    {"tp_leaves_interconnect_domain", "a100-pcie-80gb", "llama-3.1-8b", four_boards, NULL, two_gpus, "domain_size"},
    {"pcie_tensor_parallel", "l40s-48gb", "llama-3.1-8b", eight_boards, "a100-sxm-80gb", eight_boards,
     "communication_share"},
    {"interconnect_tax", "l40s-48gb", "llama-3.1-8b", eight_boards, NULL, one_board, "communication_share"},
    {"over_sharded", "h100-sxm-80gb", "llama-3.1-8b", given_too_many, NULL, given_enough, "gpus_that_suffice"},
    {"batch_trades_interactivity", "h100-sxm-80gb", "llama-3.1-8b", tight_gaps, NULL, loose_gaps, "cost_at_looser"},
    {"scheduler_cannot_help", "h100-sxm-80gb", "llama-3.1-70b", faster_than_a_step, NULL, slower_than_a_step,
     "step_ms_alone"},
    {"head_of_line_blocking", "h100-sxm-80gb", "llama-3.1-8b", long_prompts, NULL, short_prompts, "prompt_stall_ms"},
    {"spiky_tail", "h100-sxm-80gb", "llama-3.1-8b", bursts, NULL, no_bursts, "queue_p99_ms"},
    {"targets_contradict", "h100-sxm-80gb", "llama-3.1-8b", sums_too_small, NULL, sums_that_agree, NULL},
    {"power_capped", "h100-sxm-80gb", "llama-3.1-8b", half_power, NULL, plain, "prefill_clock_share"},
    {"thermally_throttled", "h100-sxm-80gb", "llama-3.1-8b", slow_clock, NULL, plain, "sustained_clock_fraction"},
    {"low_volume", "h100-sxm-80gb", "llama-3.1-8b", sixty_an_hour, NULL, many_an_hour, "requests_per_h"},
    {"low_volume", "h100-sxm-80gb", "llama-3.1-8b", cheaper_api, NULL, dearer_api, "break_even_requests_per_h"},
    {"depth_width", "h100-sxm-80gb", "llama-3.1-70b", deep, NULL, shallow, "reshaped_step_ms"},
    {"off_fast_path", "h100-sxm-80gb", "llama-3.1-8b", eager, NULL, plain, "step_ms_on_fast_path"},
    {"kv_preemption_loop", "h100-sxm-80gb", "llama-2-7b", growing_answers, NULL, few_growing_answers, "preempted"},
    {"timeout_cascade", "h100-sxm-80gb", "llama-3.1-8b", impatient, NULL, patient, "timed_out"},
    {"accuracy_locked", "h100-sxm-80gb", "llama-3.1-8b", locked, NULL, plain, NULL},
    {"input_growth_breaks", "h100-sxm-80gb", "llama-3.1-8b", tight_limits, NULL, roomy_limits, "actual"},
    {"slow_recovery", "h100-sxm-80gb", "llama-3.1-70b", one_replica, NULL, two_replicas, "requests_meanwhile"},
    {"no_price", "h100-sxm-80gb", "llama-3.1-8b", no_price, NULL, plain, NULL},
    {"uncalibrated", "h200-sxm-141gb", "llama-3.1-8b", plain, NULL, measured, "itl_p90"},
};

static const struct scorecard_finding *find(const char *code)
{
  for (size_t i = 0; i < card.finding_count; i++)
    if (strcmp(card.findings[i].code, code) == 0)
      return &card.findings[i];
  return NULL;
}

static void assert_evidence(const struct scorecard_finding *finding, const char *name)
{
  for (size_t i = 0; i < finding->evidence_count; i++)
    if (strcmp(finding->evidence[i].name, name) == 0) {
      ck_assert_msg(isfinite(finding->evidence[i].value) && finding->evidence[i].value > 0, "%s: %s is %g",
                    finding->code, name, finding->evidence[i].value);
      return;
    }
  ck_abort_msg("%s has no evidence %s", finding->code, name);
}

START_TEST(fires_with_its_cause_and_not_beside_it)
{
  const struct row *row = &rows[_i];
  const struct scorecard_finding *finding;
  use(row->device, row->model);
  row->cause();
  evaluate();
  finding = find(row->code);
  ck_assert_msg(finding != NULL, "%s is not found: %d %s", row->code, card.verdict,
                card.no_fit_detail ? card.no_fit_detail : "");
  ck_assert_msg(finding->message != NULL && strlen(finding->message) > 20, "%s says nothing", row->code);
  if (row->evidence != NULL)
    assert_evidence(finding, row->evidence);
  use(row->other_device != NULL ? row->other_device : row->device, row->model);
  row->neighbour();
  evaluate();
  finding = find(row->code);
  ck_assert_msg(finding == NULL, "%s beside its cause: %s", row->code, finding != NULL ? finding->message : "");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("finding_table");
  tcase_add_loop_test(tcase, fires_with_its_cause_and_not_beside_it, 0, FIXTURE_COUNT(rows));
  return fixture_run("core/finding_table", tcase);
}
