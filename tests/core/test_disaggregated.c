/* Disaggregated pools: capacities and transfers by hand, decode without interference, Little's law, and that more of
   anything never makes anything slower. */
#include "core/disaggregated.h"

#include <stdalign.h>

#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[1 << 18];

struct plant {
  struct hardware hardware;
  struct model model;
  struct preset preset;
  struct engine engine;
};

static void plant_build(struct plant *p, const char *device, const char *model, unsigned tp)
{
  const struct layout layout = {tp, 1, 1, 1};
  p->hardware = fixture_hardware(device);
  p->model = fixture_model(model);
  p->model.precision.kv_cache = PRECISION_BF16;
  p->preset = fixture_preset(&p->hardware, "", "");
  p->engine = step_engine(&p->model, &p->hardware, &layout, &p->model.precision, PRECISION_NONE, &p->preset);
}

static const struct steady_load open_load = {
    .kind = LOAD_OPEN, .is_poisson = true, .requests_per_s = 1, .prompt_tokens = 4096, .output_tokens = 200};

/* Llama-3.1-8B: a token is 131,072 B of cache; 4096 tokens are 536.9 MB. Four H100 are within one domain: NVLink 4, 2 devices:
   4.2 + 536.9e6/282.8e3 + 0.61e-3·23170 = 1917 µs against NCCL 5.96 + 536.9e6/338.1e3 + 5.89e-3·23170 = 1730.4. Twelve are
   not: 20 + 536.9e6/12.5e3 = 42,970 µs. */
START_TEST(caches_travel_over_what_lies_between_the_pools)
{
  static struct plant p;
  const struct pools near = {2, 2}, far = {4, 8};
  enum collective_span span;
  struct collective_time time;
  double bytes;
  plant_build(&p, "h100-sxm-80gb", "llama-3.1-8b", 1);
  time = disaggregated_transfer(&bytes, &span, &p.engine, &near, &open_load);
  assert_close(bytes, 4096 * 131072.0, 1e-12);
  ck_assert_int_eq(span, SPAN_LINK);
  assert_close((time.floor_s + time.work_s) / US, 1730.4, 1e-3);
  time = disaggregated_transfer(&bytes, &span, &p.engine, &far, &open_load);
  ck_assert_int_eq(span, SPAN_NETWORK);
  assert_close((time.floor_s + time.work_s) / US, 42970, 1e-3);
  plant_build(&p, "h100-sxm-80gb", "llama-3.1-8b", 4); /* each device sends its two KV heads */
  (void)disaggregated_transfer(&bytes, &span, &p.engine, &near, &open_load);
  assert_close(bytes, 4096 * 131072.0 / 4, 1e-12);
  ck_assert_int_eq(span, SPAN_NETWORK);
}
END_TEST

/* 4096 of a budget of 8192 tokens: two prompts a step; each prefill replica finishes them one after the other. Decode: limit
   64 of d replicas, 200 steps a request. */
START_TEST(capacities_by_hand)
{
  static struct plant p;
  const struct step_shape two = {.prefill_tokens = 8192, .prefill_sequences = 2};
  const struct pools pools = {2, 3};
  struct pools_capacity capacity;
  struct step_time prefill, decode;
  plant_build(&p, "h100-sxm-80gb", "llama-3.1-8b", 1);
  p.engine.preset.max_batched_tokens = 8192;
  capacity = disaggregated_capacities(&p.engine, &pools, &open_load, 64);
  step_time(&prefill, &p.engine, &two, 2);
  step_decode(&decode, &p.engine, 64, 4196);
  assert_close(capacity.prefill_requests_per_s, 2 * 2 / prefill.seconds, 1e-9);
  assert_close(capacity.decode_requests_per_s, 3 * 64 / (200 * decode.seconds), 1e-9);
  assert_close(capacity.transfer_requests_per_s, 2 / 1730.4e-6, 1e-3);
  assert_close(disaggregated_capacity(&capacity), fmin(capacity.prefill_requests_per_s, capacity.decode_requests_per_s),
               1e-12);
}
END_TEST

/* Nearly idle: server, the prompt alone with its host work, the transfer; then steps of one sequence. */
START_TEST(a_lone_request_waits_for_nobody)
{
  static struct plant p;
  const struct pools pools = {1, 1};
  struct steady_load load = open_load;
  struct steady_state state;
  struct prompt_time prompt;
  struct step_time decode;
  plant_build(&p, "h100-sxm-80gb", "llama-3.1-8b", 1);
  load.requests_per_s = 1e-9;
  disaggregated_evaluate(&state, &p.engine, &pools, &load, 64);
  step_prompt(&prompt, &p.engine, 4096, 0, 1, 4196);
  step_decode(&decode, &p.engine, 1, 4196);
  assert_close(state.ttft_s,
               p.preset.server_constant_s + 4096 * p.engine.constants.prefill_token_us * 1e-6 + prompt.alone_s +
                   step_prompt_host_s(&p.engine, prompt.chunks) + 1730.4e-6,
               1e-4);
  assert_close(state.tpot_s, decode.seconds, 1e-6);
  ck_assert(state.queue_s < 1e-6 && state.idle_ratio > 0.999 && !state.is_saturated);
}
END_TEST

/* At half of one prefill replica's capacity the M/D/1 wait is half a service: u/(2(1 - u)) · D. */
START_TEST(prompts_queue_as_for_one_server)
{
  static struct plant p;
  const struct pools pools = {1, 4};
  struct steady_load load = open_load;
  struct pools_capacity capacity;
  struct steady_state state;
  plant_build(&p, "h100-sxm-80gb", "llama-3.1-8b", 1);
  load.prompt_tokens = 16000; /* alone, chunk by chunk */
  capacity = disaggregated_capacities(&p.engine, &pools, &load, 64);
  load.requests_per_s = capacity.prefill_requests_per_s / 2;
  disaggregated_evaluate(&state, &p.engine, &pools, &load, 64);
  assert_close(1 / capacity.prefill_requests_per_s, state.prompt.alone_s, 1e-9);
  assert_close(state.prefill_wait_s, 0.5 * state.prompt.alone_s, 0.05); /* and a little for the link */
  load.is_poisson = false;
  disaggregated_evaluate(&state, &p.engine, &pools, &load, 64);
  ck_assert(state.prefill_wait_s <= 0 && state.view.slot_wait_s <= 0);
}
END_TEST

static void assert_state(const struct steady_state *state, const struct steady_load *load, const struct pools *pools,
                         const struct engine *engine)
{
  const double replicas = pools->prefill_replicas + pools->decode_replicas;
  struct steady_parts parts;
  ck_assert(isfinite(state->ttft_s) && isfinite(state->e2e_s) && state->tpot_s > 0);
  assert_close(state->in_system, state->requests_per_s * state->e2e_s, 1e-12);
  assert_close(state->e2e_s, state->ttft_s + (load->output_tokens - 1) * state->tpot_s, 1e-9);
  assert_close(state->itl_s, state->decode.seconds, 1e-12); /* no prompt in any decode step */
  ck_assert(state->ttft_s >= state->queue_s + state->prompt.alone_s + state->transfer_s);
  ck_assert(state->idle_ratio >= -1e-12 && state->idle_ratio <= 1);
  ck_assert(state->prefill_share_ratio >= 0 && state->prefill_share_ratio <= 1);
  if (load->kind == LOAD_CLOSED)
    assert_close(state->in_system * replicas, load->users, 1e-2);
  else if (!state->is_saturated)
    assert_close(state->requests_per_s * replicas, load->requests_per_s, 1e-9);
  steady_parts(&parts, engine, state);
  assert_close(parts.server_s + parts.slot_wait_s + parts.step_wait_s + parts.prompt_wait_s + parts.prefill_s +
                   parts.host_s + parts.transfer_s,
               state->ttft_s, 1e-9);
  assert_close(parts.slot_wait_s + parts.step_wait_s + parts.prompt_wait_s, state->queue_s, 1e-9);
}

START_TEST(littles_law_holds_in_both_loops)
{
  static struct plant p;
  uint64_t random = 5;
  plant_build(&p, "h100-sxm-80gb", "llama-3.1-8b", 1);
  for (int i = 0; i < 400; i++) {
    const struct pools pools = {1 + fixture_random_index(&random, 6), 1 + fixture_random_index(&random, 6)};
    struct steady_load load = open_load;
    struct steady_state state;
    load.kind = i % 2 == 0 ? LOAD_OPEN : LOAD_CLOSED;
    load.is_poisson = i % 3 != 0;
    load.requests_per_s = exp(fixture_random(&random, -5, 5));
    load.users = ceil(exp(fixture_random(&random, 0, 6)));
    load.prompt_tokens = ceil(exp(fixture_random(&random, 0, 10)));
    load.cached_tokens = 16 * floor(fixture_random(&random, 0, 60));
    load.output_tokens = ceil(exp(fixture_random(&random, 0, 7)));
    disaggregated_evaluate(&state, &p.engine, &pools, &load, exp(fixture_random(&random, 0, 6)));
    assert_state(&state, &load, &pools, &p.engine);
  }
}
END_TEST

/* More replicas, a faster network or a larger batch limit never lower the capacity nor raise the time to the first token at
   the same load; a larger fleet may leave the domain, so a wide one is taken. */
START_TEST(more_is_never_slower)
{
  static struct plant p, fast;
  uint64_t random = 9;
  plant_build(&p, "gb200-nvl72", "llama-3.1-8b", 1);
  plant_build(&fast, "h100-sxm-80gb", "llama-3.1-8b", 1);
  for (int i = 0; i < 200; i++) {
    const struct pools pools = {1 + fixture_random_index(&random, 10), 1 + fixture_random_index(&random, 10)};
    const struct pools more_prefill = {pools.prefill_replicas + 2, pools.decode_replicas},
                       more_decode = {pools.prefill_replicas, pools.decode_replicas + 2}, wide = {9, 9};
    struct steady_load load = open_load;
    struct pools_capacity capacity = disaggregated_capacities(&p.engine, &pools, &load, 64);
    struct steady_state few, many;
    load.requests_per_s = disaggregated_capacity(&capacity) * fixture_random(&random, 0.01, 0.95);
    disaggregated_evaluate(&few, &p.engine, &pools, &load, 64);
    disaggregated_evaluate(&many, &p.engine, &more_prefill, &load, 64);
    ck_assert(many.ttft_s <= few.ttft_s * (1 + 1e-9) && fabs(many.tpot_s / few.tpot_s - 1) < 1e-4);
    disaggregated_evaluate(&many, &p.engine, &more_decode, &load, 64);
    ck_assert(many.ttft_s <= few.ttft_s * (1 + 1e-9) && many.tpot_s <= few.tpot_s * (1 + 1e-4));
    fast.hardware.inter_node_gb_s = fixture_random(&random, 1, 100);
    load.requests_per_s = 0.1;
    disaggregated_evaluate(&few, &fast.engine, &wide, &load, 64);
    fast.hardware.inter_node_gb_s *= 2;
    disaggregated_evaluate(&many, &fast.engine, &wide, &load, 64);
    ck_assert(many.ttft_s < few.ttft_s);
  }
}
END_TEST

/* ---- sketches ---- */

struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
};

static void problem_init(struct problem *p, unsigned prefill, unsigned decode)
{
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model("llama-3.1-70b");
  p->workload = fixture_workload();
  p->workload.serving.tensor_parallel = 2;
  p->workload.serving.prefill_replicas = prefill;
  p->workload.serving.decode_replicas = decode;
  fixture_add_price(&p->hardware, "AWS", "p5.48xlarge", 8, 4.5, "on_demand");
}

static enum err evaluate(struct scorecard *card, const struct problem *p, struct error *e)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = FIT_QUICK};
  struct arena arena;
  arena_init(&arena, memory, sizeof memory);
  return fit_evaluate(card, &request, &arena, e);
}

static struct scorecard card_of(const struct problem *p)
{
  struct scorecard card;
  struct error e;
  ck_assert_msg(evaluate(&card, p, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
  ck_assert_msg(card.has_latency, "%s", card.no_fit_detail);
  return card;
}

static bool is_said(const struct scorecard *card, const char *part)
{
  for (size_t i = 0; i < card->assumption_count; i++)
    if (strstr(card->assumptions[i], part) != NULL)
      return true;
  return false;
}

static double evidence(const struct scorecard *card, const char *name)
{
  for (size_t i = 0; i < card->finding_count; i++)
    for (size_t j = 0; j < card->findings[i].evidence_count; j++)
      if (strcmp(card->findings[i].code, "disaggregated_pools") == 0 &&
          strcmp(card->findings[i].evidence[j].name, name) == 0)
        return card->findings[i].evidence[j].value;
  ck_abort_msg("no evidence %s", name);
  return 0;
}

static void assert_finite(const struct scorecard *card)
{
  const double figures[] = {card->latency.ttft_s.p50,
                            card->latency.itl_s.p50,
                            card->latency.tpot_mean_s,
                            card->latency.e2e_s.p50,
                            card->latency.queue_s.p50,
                            card->throughput.requests_per_s,
                            card->throughput.at_concurrency,
                            card->throughput.mean_batch,
                            card->limits.saturation_requests_per_s,
                            card->cost.per_successful_request_usd,
                            card->cost.by_bound_idle,
                            card->prefill.time_share_ratio,
                            card->decode.time_share_ratio,
                            card->decode.flops_utilisation_ratio,
                            card->decode.bandwidth_utilisation_ratio};
  for (size_t i = 0; i < FIXTURE_COUNT(figures); i++)
    ck_assert_msg(isfinite(figures[i]) && figures[i] >= 0, "figure %zu is %g", i, figures[i]);
}

START_TEST(a_card_counts_both_pools)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, 1, 2);
  p.workload.traffic.requests_per_s = 1;
  card = card_of(&p);
  ck_assert_uint_eq(card.configuration.replicas, 3);
  ck_assert_uint_eq(card.configuration.gpus, 6);
  ck_assert(is_said(&card, "replicas = 1 for prefill + 2 for decode"));
  ck_assert(!is_said(&card, "inter_node_gb_s_per_gpu"));
  assert_close(card.throughput.requests_per_s, 1, 1e-9);
  assert_close(card.throughput.at_concurrency, card.latency.e2e_s.mean, 1e-9);
  assert_close(card.latency.itl_s.p50, card.decode.time_s, 1e-12);
  assert_close(card.limits.saturation_requests_per_s,
               fmin(evidence(&card, "prefill_requests_per_s"), evidence(&card, "decode_requests_per_s")), 1e-9);
  ck_assert(card.latency.ttft_s.p50 >
            card.latency.queue_s.p50 + card.prefill.time_s + evidence(&card, "transfer_ms") * MS);
  assert_finite(&card);
}
END_TEST

/* Long prompts and short answers: the prefill pool stops first, and that is compute; the other way round the decode pool. */
START_TEST(the_weaker_pool_is_the_limit)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, 1, 3);
  p.workload.traffic.input.fixed_tokens = 8000;
  p.workload.traffic.output.fixed_tokens = 50;
  p.workload.traffic.requests_per_s = 0.2;
  card = card_of(&p);
  ck_assert(evidence(&card, "prefill_requests_per_s") < evidence(&card, "decode_requests_per_s"));
  ck_assert_int_eq(card.limits.first_limit, LIMIT_COMPUTE);
  assert_close(card.limits.saturation_requests_per_s, evidence(&card, "prefill_requests_per_s"), 1e-9);
  p.workload.traffic.input.fixed_tokens = 200;
  p.workload.traffic.output.fixed_tokens = 2000;
  p.workload.serving.max_batch = 4;
  card = card_of(&p);
  ck_assert(evidence(&card, "prefill_requests_per_s") > evidence(&card, "decode_requests_per_s"));
  ck_assert_int_eq(card.limits.first_limit, LIMIT_BATCH);
  p.hardware.inter_node_gb_s = 0.01; /* a network that carries nothing */
  p.workload.serving.decode_replicas = 9;
  p.workload.traffic.requests_per_s = 0.01;
  card = card_of(&p);
  ck_assert_int_eq(card.limits.first_limit, LIMIT_INTERCONNECT);
}
END_TEST

START_TEST(a_fleet_beyond_one_domain_needs_a_network)
{
  static struct problem p;
  struct scorecard near, far;
  problem_init(&p, 2, 2);
  near = card_of(&p);
  ck_assert(!is_said(&near, "inter_node_gb_s_per_gpu"));
  p.workload.serving.decode_replicas = 3;
  far = card_of(&p);
  ck_assert(is_said(&far, "12.5 GB/s for the transfer of KV caches"));
  ck_assert(evidence(&far, "transfer_ms") > 5 * evidence(&near, "transfer_ms"));
}
END_TEST

START_TEST(too_much_load_has_no_latency_but_a_capacity)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, 1, 1);
  p.workload.traffic.requests_per_s = 1000;
  ck_assert_int_eq(evaluate(&card, &p, NULL), ERR_OK);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_TARGETS_MISSED);
  ck_assert(isnan(card.latency.ttft_s.p50) && card.throughput.requests_per_s < 1000);
  assert_close(card.throughput.requests_per_s, card.limits.saturation_requests_per_s, 1e-9);
}
END_TEST

START_TEST(users_quotas_and_targets_work_as_ever)
{
  static struct problem p;
  struct scorecard card, same;
  problem_init(&p, 1, 2);
  fixture_close_loop(&p.workload, 50);
  p.workload.targets.ttft_ms.p50 = 60000;
  card = card_of(&p);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  assert_close(card.throughput.at_concurrency, 50, 1e-2);
  ck_assert(card.limits.knee_requests_per_s > 0);
  assert_finite(&card);
  same = card_of(&p);
  ck_assert_mem_eq(&card.latency, &same.latency, sizeof card.latency);
  ck_assert_mem_eq(&card.limits, &same.limits, sizeof card.limits);
  p.workload.constraints.gpu_quota = 4;
  card = card_of(&p);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_QUOTA_EXCEEDED);
}
END_TEST

/* Every option at once: a power cap, adapters, drafts, stages and pools. */
START_TEST(options_combine)
{
  static struct problem p;
  struct scorecard plain, card;
  problem_init(&p, 2, 2);
  p.workload.serving.pipeline_parallel = 2;
  p.workload.traffic.requests_per_s = 0.1;
  plain = card_of(&p);
  p.workload.constraints.power_cap_w = 400;
  p.workload.adapter_count = 8;
  p.workload.adapter_rank = 32;
  p.workload.serving.speculative_draft_tokens = 3;
  p.workload.serving.speculative_acceptance_ratio = 0.6;
  card = card_of(&p);
  assert_finite(&card);
  ck_assert_uint_eq(card.configuration.gpus, 16);
  ck_assert_uint_ge(card.finding_count, 3);
  ck_assert(card.prefill.time_s > plain.prefill.time_s && card.decode.time_s > plain.decode.time_s);
  ck_assert(card.memory.weights_bytes > plain.memory.weights_bytes);
}
END_TEST

static void assert_refused(const struct problem *p, const char *pointer)
{
  struct scorecard card;
  struct error e = {0};
  ck_assert_msg(evaluate(&card, p, &e) == ERR_INVALID, "%s is not refused", pointer);
  ck_assert_str_eq(e.pointer, pointer);
}

START_TEST(impossible_pools_are_refused_at_their_field)
{
  static struct problem p;
  problem_init(&p, 0, 1);
  assert_refused(&p, "/serving/disaggregated/prefill_replicas");
  problem_init(&p, 1, 0);
  assert_refused(&p, "/serving/disaggregated/decode_replicas");
  problem_init(&p, 1000000, 1);
  assert_refused(&p, "/serving/disaggregated/prefill_replicas");
  problem_init(&p, 1, 4000000000u);
  assert_refused(&p, "/serving/disaggregated/decode_replicas");
  problem_init(&p, 1, 2);
  p.workload.serving.replicas = 4;
  assert_refused(&p, "/serving/disaggregated");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("disaggregated");
  tcase_add_test(tcase, caches_travel_over_what_lies_between_the_pools);
  tcase_add_test(tcase, capacities_by_hand);
  tcase_add_test(tcase, a_lone_request_waits_for_nobody);
  tcase_add_test(tcase, prompts_queue_as_for_one_server);
  tcase_add_test(tcase, littles_law_holds_in_both_loops);
  tcase_add_test(tcase, more_is_never_slower);
  tcase_add_test(tcase, a_card_counts_both_pools);
  tcase_add_test(tcase, the_weaker_pool_is_the_limit);
  tcase_add_test(tcase, a_fleet_beyond_one_domain_needs_a_network);
  tcase_add_test(tcase, too_much_load_has_no_latency_but_a_capacity);
  tcase_add_test(tcase, users_quotas_and_targets_work_as_ever);
  tcase_add_test(tcase, options_combine);
  tcase_add_test(tcase, impossible_pools_are_refused_at_their_field);
  return fixture_run("core/disaggregated", tcase);
}
