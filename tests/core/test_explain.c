/* Explanations against hand derivations, and that their parts add up to what the facade says. */
#include "core/explain.h"

#include "tests/core/fixtures.h"

#define ARENA_BYTES (8u << 20)

static struct hardware hardware;
static struct model model;
static struct workload workload;
static struct scorecard card;
static struct explanation x;
static struct arena arena;
static unsigned char *memory;

static void setup(void)
{
  memory = malloc(ARENA_BYTES);
  ck_assert_ptr_nonnull(memory);
  arena_init(&arena, memory, ARENA_BYTES);
  hardware = fixture_hardware("h100-sxm-80gb");
  model = fixture_model("llama-3.1-8b");
  workload = fixture_workload();
}

static void teardown(void)
{
  free(memory);
}

/* Evaluates, then explains the configuration that was found. */
static void run(void)
{
  const struct fit_request request = {
      .workload = &workload, .model = &model, .hardware = &hardware, .depth = FIT_QUICK};
  struct explain_configuration configuration;
  struct error e;
  ck_assert_msg(fit_evaluate(&card, &request, &arena, &e) == ERR_OK, "%s", e.message);
  configuration =
      (struct explain_configuration){card.configuration.tensor_parallel, card.configuration.pipeline_parallel,
                                     card.configuration.expert_parallel, card.configuration.attention_data_parallel,
                                     card.configuration.replicas,        card.configuration.max_batch};
  ck_assert_msg(explain(&x, &request, card.has_configuration ? &configuration : NULL, &arena, &e) == ERR_OK, "%s",
                e.message);
}

static const struct explain_operator *row_of(const struct explain_phase *phase, const char *name)
{
  for (size_t i = 0; i < phase->operator_count; i++)
    if (strcmp(phase->operators[i].op.name, name) == 0)
      return &phase->operators[i];
  ck_abort_msg("no operator %s", name);
  return NULL;
}

static double sum_of(const struct explain_phase *phase)
{
  double seconds = 0;
  for (size_t i = 0; i < phase->operator_count; i++)
    seconds += phase->operators[i].scaled_s;
  for (size_t i = 0; i < phase->fixed_count; i++)
    seconds += phase->fixed[i].seconds;
  return seconds;
}

static void assert_adds_up(void)
{
  assert_close(sum_of(&x.prefill), card.prefill.time_s, 1e-12);
  assert_close(sum_of(&x.decode), card.decode.time_s, 1e-12);
  assert_close(x.parts.server_s + x.parts.slot_wait_s + x.parts.step_wait_s + x.parts.prompt_wait_s +
                   x.parts.prefill_s + x.parts.host_s + x.parts.transfer_s,
               card.latency.ttft_s.p50, 1e-12);
}

/* Llama-3.1-8B, 2,048 tokens: the fused query, key and value projection is 2048 × 4096 × (32 + 2·8)·128 = 6144 in each of
   32 layers: 2·2048·4096·6144 FLOPs, 2·4096·6144 bytes of weights, 2·2048·(4096 + 6144) of activations. */
START_TEST(an_operator_by_hand)
{
  const struct explain_operator *row;
  char formula[EXPLAIN_FORMULA_SIZE];
  run();
  row = row_of(&x.prefill, "qkv projection");
  assert_close(row->count, 32, 0);
  assert_close(row->layers, 32, 0);
  assert_close(row->op.flops, 103079215104.0, 0);
  assert_close(row->op.weight_bytes, 50331648.0, 0);
  assert_close(row->op.activation_bytes, 41943040.0, 0);
  assert_close(row->op.work_s, 103079215104.0 / (989.5e12 * 0.8), 0.05); /* near the published efficiency of H100 */
  ck_assert_int_eq((int)row->op.bound, BOUND_COMPUTE);
  assert_close(row->compute_s, row->op.work_s, 1e-12);
  explain_formula(formula, row, &x.candidate.engine);
  ck_assert_ptr_nonnull(strstr(formula, "max(FLOPs / (989.5 TFLOP/s × 0."));
  ck_assert_ptr_nonnull(strstr(formula, "bytes / (3350 GB/s × 0."));
  ck_assert_str_eq(explain_source(row), "core/timing.def LINEAR");
  assert_adds_up();
}
END_TEST

/* The head is 4096 × 128256 in 16 bits, once a step, for the last token alone. */
START_TEST(the_head_is_no_layer)
{
  const struct explain_operator *row;
  run();
  row = row_of(&x.prefill, "lm_head");
  ck_assert_uint_eq(row->layer_kind, model.layer_kind_count);
  assert_close(row->count, 1, 0);
  assert_close(row->op.rows, 1, 0);
  assert_close(row->op.weight_bytes, 2.0 * 4096 * 128256, 0);
}
END_TEST

/* 5,000 tokens in chunks of 2,048: three steps, the last of 904. Causal pairs in tiles of 128: new·(new + 128)/2 + new·past.
   2048·2176/2 = 2228224 each of two, 904·1032/2 = 466464, past 2048·2048 + 904·4096 = 7897088: 12820000 pairs, with
   2·32·(128 + 128) FLOPs each over 32 layers and 3 chunks. */
START_TEST(chunks_are_summed)
{
  double flops = 0, count = 0;
  workload.traffic.input.fixed_tokens = 5000;
  workload.serving.max_batched_tokens = 2048;
  run();
  assert_close(x.prefill.chunks, 3, 0);
  assert_close(row_of(&x.prefill, "output projection")->count, 96, 0);
  assert_close(row_of(&x.prefill, "output projection")->op.rows, 5000.0 / 3, 1e-12);
  for (size_t i = 0; i < x.prefill.operator_count; i++)
    if (strcmp(x.prefill.operators[i].op.name, "prefill attention") == 0) {
      flops += x.prefill.operators[i].count * x.prefill.operators[i].op.flops;
      count += x.prefill.operators[i].count;
    }
  assert_close(count, 96, 0);
  assert_close(flops, 32 * 2.0 * 32 * 256 * 12820000.0, 1e-12);
  assert_adds_up();
}
END_TEST

/* Two all-reduces a layer are one row that counts twice. */
START_TEST(equal_operators_share_a_row)
{
  workload.serving.tensor_parallel = 4;
  run();
  assert_close(row_of(&x.decode, "all-reduce")->count, 64, 0);
  ck_assert_uint_eq(row_of(&x.decode, "all-reduce")->op.devices, 4);
  assert_adds_up();
}
END_TEST

/* Without graphs the host's time beyond the device's is a cost of its own: 4-norm of both. */
START_TEST(the_host_is_a_fixed_cost)
{
  double device_s, host_s;
  const struct explain_fixed *last;
  workload.serving.cuda_graphs = 0;
  run();
  last = &x.decode.fixed[x.decode.fixed_count - 1];
  ck_assert_str_eq(last->constant, "eager_us");
  device_s = card.decode.time_s - last->seconds;
  host_s = last->constant_us * 1e-6 * last->times;
  assert_close(card.decode.time_s, pow(pow(device_s, 4) + pow(host_s, 4), 0.25), 1e-9);
  assert_adds_up();
}
END_TEST

static double memory_of(const char *part, const char *name)
{
  double bytes = 0;
  for (size_t i = 0; i < x.memory_count; i++)
    if (strcmp(x.memory[i].part, part) == 0 && (name == NULL || strcmp(x.memory[i].name, name) == 0))
      bytes += x.memory[i].bytes;
  return bytes;
}

/* Embedding and head of 8B: 128,256 rows (a multiple of 64) × 4096 × 2 B = 501 × 2 MiB each, nothing to round. Per layer
   gate and up 2·4096·14336·2 B = 112 × 2 MiB, down 56 × 2 MiB. Attention: qkv 24 × 2 MiB, output 16 × 2 MiB; cos and sin of
   131,072 positions × 128 × 2 B. Norms 2·4096·2 B a layer, the last one 4096·2 B. */
START_TEST(weights_by_hand)
{
  workload.serving.tensor_parallel = 1;
  run();
  assert_close(memory_of("weights", "embedding and lm_head"), 2 * 501 * 2 * MIB, 0);
  assert_close(memory_of("weights", "dense feed-forward and shared experts"), 32 * 168 * 2 * MIB, 0);
  assert_close(memory_of("weights", "attention and rotary table"), 32 * 40 * 2 * MIB + 2.0 * 131072 * 128, 0);
  assert_close(memory_of("weights", "norms and other parameters of layers"), 32 * 2 * 4096 * 2.0, 0);
  assert_close(memory_of("weights", "final norm and what is outside of layers"), 4096 * 2.0, 0);
}
END_TEST

START_TEST(memory_adds_up)
{
  static const char *const runtimes[] = {"vllm", "sglang", "tensorrt-llm"};
  for (size_t i = 0; i < 3; i++) {
    fixture_text(workload.serving.runtime, sizeof workload.serving.runtime, runtimes[i]);
    run();
    assert_close(memory_of("weights", NULL), card.memory.weights_bytes, 1e-12);
    assert_close(memory_of("activations", NULL), card.memory.activations_bytes, 1e-12);
    assert_close(memory_of("runtime", NULL), card.memory.runtime_bytes, 1e-12);
    assert_close(memory_of("kv_cache", NULL), card.memory.kv_cache_bytes, 1e-12);
    assert_close(x.memory_fraction_ratio, x.candidate.engine.preset.memory_fraction_ratio, 1e-12);
    assert_adds_up();
  }
}
END_TEST

/* Llama-3.1-405B on one T4: it holds nothing of it, but what was tried is explained. */
START_TEST(what_does_not_fit_is_explained_too)
{
  hardware = fixture_hardware("t4-16gb");
  model = fixture_model("llama-3.1-405b");
  workload.serving.tensor_parallel = workload.serving.pipeline_parallel = 1;
  run();
  ck_assert(!x.has_candidate && x.has_memory && !card.has_configuration);
  ck_assert_uint_eq(x.decode.operator_count, 0);
  assert_close(memory_of("weights", NULL), card.memory.weights_bytes, 1e-12);
  ck_assert_double_lt(memory_of("kv_cache", NULL), 0);
  ck_assert_ptr_null(card.uncertainty.band_class);
}
END_TEST

/* A cap slows work down and shows by how much; the legs stay those of the full clock. */
START_TEST(a_power_cap_is_a_part_of_the_work)
{
  struct explain_operator full;
  const struct explain_operator *capped;
  char formula[EXPLAIN_FORMULA_SIZE];
  workload.serving.tensor_parallel = workload.serving.replicas = 1;
  run();
  full = *row_of(&x.prefill, "gate and up projection");
  hardware.power_cap_w = 300;
  hardware_resolve(&hardware);
  run();
  capped = row_of(&x.prefill, "gate and up projection");
  ck_assert_double_gt(capped->op.capped_s, 0);
  assert_close(capped->op.work_s - capped->op.capped_s, full.op.work_s, 1e-12);
  assert_close(capped->compute_s, full.compute_s, 1e-12);
  explain_formula(formula, capped, &x.candidate.engine);
  ck_assert_ptr_nonnull(strstr(formula, "of the clock under the power cap"));
  assert_adds_up();
}
END_TEST

/* Users of a closed loop beyond the batch wait for a place: users / rate is the time in the system (Little). */
START_TEST(users_beyond_the_batch_wait_for_a_place)
{
  fixture_close_loop(&workload, 100);
  workload.serving.max_batch = 16;
  workload.serving.replicas = workload.serving.tensor_parallel = 1;
  run();
  ck_assert_double_gt(x.parts.slot_wait_s, 0);
  assert_close(x.requests_per_s * x.candidate.state.e2e_s, 100, 1e-9);
  ck_assert(x.candidate.state.view.batch > 8 && x.candidate.state.view.batch <= 16);
  assert_adds_up();
}
END_TEST

START_TEST(prices_make_the_cost)
{
  fixture_add_price(&hardware, "AWS", "p5.48xlarge", 8, 4.0, "on_demand");
  run();
  assert_close(x.cost.per_attempted_request_usd, 8 * 4.0 / 3600 / 2, 1e-12); /* rented by eight, 2 requests/s */
  assert_close(x.cost.per_attempted_request_usd, card.cost.per_attempted_request_usd, 0);
  assert_close(x.cost.monthly_usd, 8 * 4.0 * 730, 1e-12);
}
END_TEST

START_TEST(bands_follow_the_load)
{
  run();
  ck_assert_str_eq(card.uncertainty.band_class, "open_loop");
  ck_assert_double_lt(card.uncertainty.itl_ratio[0], 1);
  ck_assert_double_gt(card.uncertainty.itl_ratio[1], 1);
  fixture_close_loop(&workload, 8);
  run();
  ck_assert_str_eq(card.uncertainty.band_class, "dense_closed_loop");
  ck_assert_double_lt(card.uncertainty.ttft_ratio[0], 1);
  ck_assert_double_gt(card.uncertainty.throughput_ratio[1], 1);
}
END_TEST

/* An arena that is too small is a limit, whatever its size. */
START_TEST(a_small_arena_is_a_limit)
{
  const struct fit_request request = {.workload = &workload, .model = &model, .hardware = &hardware};
  const struct explain_configuration configuration = {1, 1, 1, 1, 1, 64};
  size_t size = 0, refused = 0;
  enum err err;
  do {
    struct error e;
    arena_init(&arena, memory, size);
    err = explain(&x, &request, &configuration, &arena, &e);
    ck_assert(err == ERR_OK || err == ERR_LIMIT);
    refused += err == ERR_LIMIT;
    size += 512;
  } while (err != ERR_OK && size < ARENA_BYTES);
  ck_assert_int_eq(err, ERR_OK);
  ck_assert_uint_gt(refused, 10);
}
END_TEST

/* Adapters and hand-off are operators, a draft model is one sum, a transfer a part of TTFT. */
START_TEST(options_add_up)
{
  workload.serving.tensor_parallel = 1;
  workload.serving.pipeline_parallel = 2;
  workload.serving.cuda_graphs = 0;
  workload.serving.speculative_draft_tokens = 3;
  workload.serving.speculative_acceptance_ratio = 0.6;
  workload.serving.prefill_replicas = workload.serving.decode_replicas = 2;
  workload.constraints.power_cap_w = 400;
  workload.adapter_count = 4;
  workload.adapter_rank = 16;
  run();
  ck_assert_double_gt(row_of(&x.decode, "adapters")->scaled_s, 0);
  ck_assert_double_gt(row_of(&x.decode, "hand-off between stages")->scaled_s, 0);
  ck_assert_double_gt(x.decode.time.draft_s, 0);
  ck_assert_double_gt(x.parts.transfer_s, 0);
  assert_adds_up();
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("explain");
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, an_operator_by_hand);
  tcase_add_test(tcase, the_head_is_no_layer);
  tcase_add_test(tcase, chunks_are_summed);
  tcase_add_test(tcase, equal_operators_share_a_row);
  tcase_add_test(tcase, the_host_is_a_fixed_cost);
  tcase_add_test(tcase, weights_by_hand);
  tcase_add_test(tcase, memory_adds_up);
  tcase_add_test(tcase, what_does_not_fit_is_explained_too);
  tcase_add_test(tcase, a_power_cap_is_a_part_of_the_work);
  tcase_add_test(tcase, users_beyond_the_batch_wait_for_a_place);
  tcase_add_test(tcase, prices_make_the_cost);
  tcase_add_test(tcase, bands_follow_the_load);
  tcase_add_test(tcase, options_add_up);
  tcase_add_test(tcase, a_small_arena_is_a_limit);
  return fixture_run("explain", tcase);
}
