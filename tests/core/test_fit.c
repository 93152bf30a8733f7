/* The facade: verdicts with their reasons, figures that belong together, limits, cancelling, and what is refused. */
#include "core/fit.h"

#include <stdalign.h>

#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[1 << 16];

struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
};

static void problem_init(struct problem *p, const char *device, const char *model)
{
  p->hardware = fixture_hardware(device);
  p->model = fixture_model(model);
  p->workload = fixture_workload();
  fixture_add_price(&p->hardware, "AWS", "p5.48xlarge", 8, 4.5, "on_demand");
}

static enum err evaluate_in(struct scorecard *card, const struct problem *p, size_t capacity_bytes, struct error *e)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = FIT_QUICK};
  struct arena arena;
  arena_init(&arena, memory, capacity_bytes);
  return fit_evaluate(card, &request, &arena, e);
}

static void evaluate(struct scorecard *card, const struct problem *p)
{
  struct error e;
  ck_assert_msg(evaluate_in(card, p, sizeof memory, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
}

static void assert_sum_is_one(const double *shares, size_t count)
{
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    ck_assert(shares[i] >= 0);
    sum += shares[i];
  }
  assert_close(sum, 1, 1e-9);
}

static void assert_phase(const struct scorecard_phase *phase)
{
  assert_sum_is_one(phase->bound_share_ratio, BOUND_COUNT);
  ck_assert(phase->time_s > 0 && phase->flops_utilisation_ratio > 0 && phase->flops_utilisation_ratio <= 1);
  ck_assert(phase->communication_share_ratio >= 0 && phase->communication_share_ratio <= 1);
  for (int i = 0; i < BOUND_COUNT; i++)
    ck_assert(phase->bound_share_ratio[phase->bound] >= phase->bound_share_ratio[i]);
}

/* What must hold on every card with a configuration that is not saturated. */
static void assert_card(const struct scorecard *card, const struct problem *p)
{
  const struct scorecard_configuration *c = &card->configuration;
  const double bill[] = {card->cost.by_bound_compute,      card->cost.by_bound_weights, card->cost.by_bound_kv_cache,
                         card->cost.by_bound_interconnect, card->cost.by_bound_launch,  card->cost.by_bound_idle};
  const double output = p->workload.traffic.output.fixed_tokens;
  ck_assert_uint_eq(c->gpus, c->replicas * c->tensor_parallel * c->pipeline_parallel);
  ck_assert_uint_ge(c->gpus_billed, c->gpus);
  ck_assert_uint_lt(c->gpus_billed, c->gpus + 8);
  ck_assert_msg(c->tensor_parallel * c->pipeline_parallel >= card->memory.min_gpus && card->memory.min_gpus > 0,
                "a replica has tp %u pp %u, at least %u GPUs are needed", c->tensor_parallel, c->pipeline_parallel,
                card->memory.min_gpus);
  assert_phase(&card->prefill);
  assert_phase(&card->decode);
  assert_close(card->prefill.time_share_ratio + card->decode.time_share_ratio, 1, 1e-9);
  assert_sum_is_one(bill, FIXTURE_COUNT(bill));
  assert_close(card->memory.usable_bytes,
               card->memory.weights_bytes + card->memory.activations_bytes + card->memory.runtime_bytes +
                   card->memory.kv_cache_bytes,
               1e-9);
  assert_close(card->throughput.output_tok_s, card->throughput.requests_per_s * output, 1e-9);
  assert_close(card->throughput.output_tok_s_per_gpu * c->gpus, card->throughput.output_tok_s, 1e-9);
  assert_close(card->throughput.at_concurrency, card->throughput.requests_per_s * card->latency.e2e_s.mean,
               1e-9); /* Little */
  assert_close(card->latency.e2e_s.p50, card->latency.ttft_s.p50 + (output - 1) * card->latency.tpot_mean_s, 1e-9);
  ck_assert(card->latency.e2e_s.p50 >= card->latency.ttft_s.p50 &&
            card->latency.ttft_s.p50 >= card->latency.queue_s.p50 && card->latency.queue_s.p50 >= 0);
  ck_assert_msg(card->latency.tpot_mean_s >= card->decode.time_s * (1 - 1e-9), "TPOT %g below its step %g",
                card->latency.tpot_mean_s, card->decode.time_s);
  ck_assert(card->limits.saturation_requests_per_s >= card->throughput.requests_per_s * 0.999);
  assert_close(card->cost.monthly_usd, card->cost.usd_per_gpu_hour * c->gpus_billed * 730, 1e-9);
  assert_close(card->cost.per_attempted_request_usd * card->throughput.requests_per_s * 3600,
               card->cost.usd_per_gpu_hour * c->gpus_billed, 1e-9);
  ck_assert_uint_gt(card->assumption_count, 0);
}

START_TEST(figures_of_a_card_belong_together)
{
  static const char *const devices[] = {"h100-sxm-80gb", "a100-sxm-80gb", "l40s-48gb", "b200-sxm-180gb",
                                        "mi300x-192gb"};
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "qwen3-14b"};
  static const double loads[] = {0.05, 2, 30, -1, -40}; /* requests a second; negative: users */
  unsigned cards = 0;
  for (size_t d = 0; d < FIXTURE_COUNT(devices); d++)
    for (size_t m = 0; m < FIXTURE_COUNT(models); m++)
      for (size_t l = 0; l < FIXTURE_COUNT(loads); l++) {
        static struct problem p;
        struct scorecard card;
        problem_init(&p, devices[d], models[m]);
        p.workload.traffic.requests_per_s = loads[l];
        if (loads[l] < 0)
          fixture_close_loop(&p.workload, -loads[l]);
        evaluate(&card, &p);
        if (!card.has_configuration)
          continue;
        assert_card(&card, &p);
        cards++;
      }
  ck_assert_uint_ge(cards, 60);
}
END_TEST

/* Llama-3.1-405B in bf16 on one H100 host: test_memory derives 12 GPUs (tp 4 × pp 3); tensor parallelism ends at its 8
   GPUs with 94.5 GiB of weights each against 71.3 usable. */
START_TEST(weights_that_exceed_every_host_are_no_fit)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-405b");
  p.workload.constraints.gpu_quota = 8;
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_WEIGHTS_EXCEED_MEMORY);
  ck_assert(!card.has_configuration && !card.has_latency);
  ck_assert_ptr_nonnull(card.no_fit_detail);
  ck_assert_uint_eq(card.memory.min_gpus, 12);
  ck_assert_uint_eq(card.memory.min_gpus_tensor_parallel, 4);
  ck_assert_uint_eq(card.memory.min_gpus_pipeline_parallel, 3);
  assert_close(card.memory.weights_bytes / GIB, 94.5, 0.01);
  ck_assert(isnan(card.latency.ttft_s.p50) && isnan(card.throughput.requests_per_s) && isnan(card.cost.monthly_usd));
  ck_assert_uint_ge(card.finding_count, 1);
  ck_assert_str_eq(card.findings[0].code, "weights_exceed_memory");
  ck_assert_int_eq(card.findings[0].severity, SEVERITY_CRITICAL);
}
END_TEST

START_TEST(the_layout_that_min_gpus_names_fits)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-405b");
  p.workload.traffic.requests_per_s = 0.01;
  p.workload.serving.tensor_parallel = 4;
  p.workload.serving.pipeline_parallel = 3;
  evaluate(&card, &p);
  ck_assert_msg(card.verdict == VERDICT_FIT, "%s", card.no_fit_detail);
  ck_assert_uint_eq(card.configuration.gpus, 12);
  ck_assert_uint_eq(card.configuration.gpus_billed, 16);
}
END_TEST

/* Two hosts of 8 are billed for 12 GPUs as for 16: tp 8 × pp 2 uses them all. */
START_TEST(stages_are_searched_where_no_single_one_holds_the_model)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-405b");
  p.workload.traffic.requests_per_s = 0.01;
  evaluate(&card, &p);
  ck_assert_msg(card.verdict == VERDICT_FIT, "%s", card.no_fit_detail);
  ck_assert_uint_gt(card.configuration.pipeline_parallel, 1);
  ck_assert_uint_eq(card.configuration.gpus_billed, 16);
}
END_TEST

START_TEST(llama_70b_needs_two_gpus)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_NONE);
  ck_assert_ptr_null(card.no_fit_detail);
  ck_assert_uint_ge(card.configuration.gpus, 2);
  ck_assert_uint_eq(card.memory.min_gpus, 2);
  /* 80 layers · 2 · 8 heads · 128 · 2 B, over all GPUs of the replica */
  assert_close(card.memory.kv_bytes_per_token, 327680, 1e-9);
  assert_close(card.memory.kv_bytes_per_session, 327680 * 2304.0, 1e-9);
  ck_assert_ptr_nonnull(strstr(card.configuration.launch, "vllm serve llama-3.1-70b --tensor-parallel-size"));
}
END_TEST

static const struct scorecard_target *find(const struct scorecard *card, const char *metric)
{
  for (size_t i = 0; i < card->target_count; i++)
    if (strcmp(card->targets[i].metric, metric) == 0)
      return &card->targets[i];
  ck_abort_msg("no target %s", metric);
  return NULL;
}

START_TEST(targets_are_met_missed_or_not_decided)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.targets.ttft_ms.p50 = 2000;
  p.workload.targets.ttft_ms.p99 = 4000;
  p.workload.targets.cost_monthly_usd = 1;
  evaluate(&card, &p);
  ck_assert_uint_eq(card.target_count, 3);
  ck_assert_int_eq(find(&card, "latency.ttft_ms.p50")->met, 1);
  assert_close(find(&card, "latency.ttft_ms.p50")->actual, card.latency.ttft_s.p50 * 1000, 1e-9);
  ck_assert_int_eq(find(&card, "latency.ttft_ms.p99")->met, -1);
  ck_assert_int_eq(find(&card, "cost.monthly_usd")->met, 0);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_TARGETS_MISSED);
  ck_assert(card.has_configuration);
}
END_TEST

/* More than one replica can carry, with one replica asked: the queue grows, and no latency is claimed. */
START_TEST(a_growing_queue_has_no_latency)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.requests_per_s = 1000;
  p.workload.serving.replicas = 1;
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_TARGETS_MISSED);
  ck_assert(isnan(card.latency.ttft_s.p50) && isnan(card.latency.e2e_s.p50) && isnan(card.throughput.at_concurrency));
  assert_close(card.throughput.requests_per_s, card.limits.saturation_requests_per_s, 1e-9);
  ck_assert(card.throughput.requests_per_s < 1000);
}
END_TEST

START_TEST(cost_is_proportional_to_the_price)
{
  static struct problem p;
  struct scorecard one, three;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  evaluate(&one, &p);
  p.hardware.prices[0].usd_per_accelerator_hour *= 3;
  evaluate(&three, &p);
  ck_assert_uint_eq(one.configuration.gpus, three.configuration.gpus);
  assert_close(three.cost.per_successful_request_usd, 3 * one.cost.per_successful_request_usd, 1e-9);
  assert_close(three.cost.per_million_output_tokens_usd, 3 * one.cost.per_million_output_tokens_usd, 1e-9);
  assert_close(three.cost.monthly_usd, 3 * one.cost.monthly_usd, 1e-9);
  assert_close(three.latency.ttft_s.p50, one.latency.ttft_s.p50, 1e-12);
}
END_TEST

START_TEST(without_a_price_there_is_a_finding_and_no_zero)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.hardware.price_count = 0;
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  ck_assert(isnan(card.cost.usd_per_gpu_hour) && isnan(card.cost.monthly_usd) &&
            isnan(card.cost.per_successful_request_usd));
  ck_assert_ptr_null(card.cost.price_basis);
  ck_assert_uint_eq(card.finding_count, 1);
  ck_assert_str_eq(card.findings[0].code, "no_price");
}
END_TEST

/* A shared prefix of 1500 tokens is found in whole blocks of 16: 1488 are not computed again, so TTFT falls; without
   prefix caching it has no effect and that is said. */
START_TEST(a_shared_prefix_is_not_computed_again)
{
  static struct problem p;
  struct scorecard plain, shared, off;
  bool is_said = false;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.requests_per_s = 0.1;
  p.workload.serving.replicas = 1;
  evaluate(&plain, &p);
  p.workload.traffic.shared_prefix_tokens = 1500;
  evaluate(&shared, &p);
  ck_assert(shared.latency.ttft_s.p50 < plain.latency.ttft_s.p50);
  ck_assert(shared.prefill.time_s < 0.5 * plain.prefill.time_s);
  assert_close(shared.memory.kv_bytes_per_session, plain.memory.kv_bytes_per_session, 1e-9); /* it still takes room */
  p.workload.serving.prefix_caching = 0;
  evaluate(&off, &p);
  assert_close(off.latency.ttft_s.p50, plain.latency.ttft_s.p50, 1e-9);
  for (size_t i = 0; i < off.assumption_count; i++)
    is_said |= strstr(off.assumptions[i], "shared_prefix_tokens has no effect") != NULL;
  ck_assert(is_said);
}
END_TEST

/* A version that no release note has seen yet takes the newest preset, and the card says so. */
START_TEST(versions_without_a_preset_are_named)
{
  static struct problem p;
  struct scorecard card;
  bool is_said = false;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  (void)snprintf(p.workload.serving.runtime, sizeof p.workload.serving.runtime, "vllm");
  (void)snprintf(p.workload.serving.runtime_version, sizeof p.workload.serving.runtime_version, "99.1");
  evaluate(&card, &p);
  for (size_t i = 0; i < card.assumption_count; i++)
    is_said |= strstr(card.assumptions[i], "vllm 99.1 with the preset of 0.") != NULL;
  ck_assert(is_said);
}
END_TEST

START_TEST(formats_a_device_lacks_are_named)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "a100-sxm-80gb", "llama-3.1-70b");
  p.workload.weights = PRECISION_FP8;
  p.workload.kv_cache = PRECISION_FP8;
  evaluate(&card, &p);
  ck_assert_int_eq(card.configuration.weights, PRECISION_FP8);
  ck_assert_int_eq(card.configuration.kv_cache, PRECISION_FP8);
  ck_assert_int_eq(card.configuration.activations, PRECISION_BF16);
  ck_assert_uint_ge(card.configuration.precision_fallback_count, 1);
  ck_assert_ptr_nonnull(strstr(card.configuration.precision_fallbacks[0], "fp8"));
  assert_close(card.memory.kv_bytes_per_token, 327680 / 2.0, 1e-9);
  p.hardware = fixture_hardware("h100-sxm-80gb");
  evaluate(&card, &p);
  ck_assert_uint_eq(card.configuration.precision_fallback_count, 0);
  ck_assert_int_eq(card.configuration.activations, PRECISION_FP8);
}
END_TEST

START_TEST(the_same_input_gives_the_same_bytes)
{
  static struct problem p;
  static unsigned char first_memory[sizeof memory];
  struct scorecard first, second;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.targets.itl_ms.p99 = 40;
  p.workload.targets.headroom_ratio = 0.3;
  memset(memory, 0, sizeof memory);
  evaluate(&first, &p);
  memcpy(first_memory, memory, sizeof memory);
  memset(memory, 0, sizeof memory);
  evaluate(&second, &p);
  ck_assert_mem_eq(memory, first_memory, sizeof memory); /* sentences, and pointers between them */
  ck_assert_mem_eq(&first.latency, &second.latency, sizeof first.latency);
  ck_assert_mem_eq(&first.throughput, &second.throughput, sizeof first.throughput);
  ck_assert_mem_eq(&first.cost, &second.cost, sizeof first.cost);
  ck_assert_mem_eq(first.decode.bound_share_ratio, second.decode.bound_share_ratio,
                   sizeof first.decode.bound_share_ratio);
  ck_assert_uint_eq(first.configuration.gpus, second.configuration.gpus);
  ck_assert_uint_eq(first.target_count, second.target_count);
}
END_TEST

START_TEST(any_arena_gives_an_answer_or_a_limit)
{
  static struct problem p;
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-405b"};
  for (size_t m = 0; m < FIXTURE_COUNT(models); m++) {
    bool is_enough = false;
    problem_init(&p, "h100-sxm-80gb", models[m]);
    p.workload.weights = PRECISION_INT4; /* with a fallback sentence */
    p.workload.traffic.shared_prefix_tokens = 100;
    for (size_t capacity = 0; capacity < 16384; capacity += 16) {
      struct scorecard card;
      struct error e;
      const enum err err = evaluate_in(&card, &p, capacity, &e);
      ck_assert_msg(err == ERR_OK || err == ERR_LIMIT, "%zu bytes: %s", capacity, error_slug(err));
      ck_assert_msg(!is_enough || err == ERR_OK, "%zu bytes fail, less was enough", capacity);
      if (err == ERR_LIMIT)
        ck_assert_uint_gt(strlen(e.message), 10);
      is_enough = err == ERR_OK;
    }
    ck_assert(is_enough);
    ck_assert_int_eq(evaluate_in(&(struct scorecard){0}, &p, 0, NULL), ERR_LIMIT);
  }
}
END_TEST

static bool stop_at_once(void *cls)
{
  *(bool *)cls = true;
  return true;
}

START_TEST(stop_cancels)
{
  static struct problem p;
  struct arena arena;
  struct scorecard card;
  struct error e;
  bool is_asked = false;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  const struct fit_request request = {.workload = &p.workload,
                                      .model = &p.model,
                                      .hardware = &p.hardware,
                                      .depth = FIT_FULL,
                                      .stop = stop_at_once,
                                      .stop_cls = &is_asked};
  arena_init(&arena, memory, sizeof memory);
  ck_assert_int_eq(fit_evaluate(&card, &request, &arena, &e), ERR_CANCELLED);
  ck_assert_int_eq(e.code, ERR_CANCELLED);
  ck_assert(is_asked);
}
END_TEST

static void assert_refused(const struct problem *p, const char *pointer)
{
  struct scorecard card;
  struct error e = {0};
  ck_assert_msg(evaluate_in(&card, p, sizeof memory, &e) == ERR_INVALID, "%s is not refused", pointer);
  ck_assert_str_eq(e.pointer, pointer);
  ck_assert_uint_gt(strlen(e.message), 10);
}

START_TEST(what_can_not_be_computed_is_refused_at_its_field)
{
  static struct problem p;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.load = LOAD_TRACE;
  assert_refused(&p, "/traffic/trace");
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  fixture_text(p.workload.serving.runtime, sizeof p.workload.serving.runtime, "ollama");
  assert_refused(&p, "/serving/runtime");
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.input.fixed_tokens = 131000; /* + 256 > 131,072 */
  assert_refused(&p, "/traffic/input_tokens");
}
END_TEST

START_TEST(an_impossible_layout_is_a_verdict)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.serving.tensor_parallel = 3;
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_LAYOUT_IMPOSSIBLE);
  ck_assert_msg(strstr(card.no_fit_detail, "nearest possible: 2") != NULL, "\"%s\"", card.no_fit_detail);
}
END_TEST

/* Verdict, then priced by cost, then unpriced by GPUs, then the name. */
START_TEST(cards_have_an_order)
{
  struct scorecard cheap = {.verdict = VERDICT_FIT, .has_configuration = true}, dear = cheap, small = cheap,
                   large = cheap, miss = cheap, nothing = {.verdict = VERDICT_NO_FIT};
  cheap.cost.per_successful_request_usd = 1;
  dear.cost.per_successful_request_usd = 2;
  small.cost.per_successful_request_usd = large.cost.per_successful_request_usd =
      nothing.cost.per_successful_request_usd = (double)NAN;
  small.configuration.gpus = 1;
  large.configuration.gpus = 2;
  miss.verdict = VERDICT_NO_FIT;
  miss.cost.per_successful_request_usd = 0.1;
  {
    const struct scorecard *const order[] = {&cheap, &dear, &small, &large, &miss, &nothing};
    for (size_t i = 0; i < FIXTURE_COUNT(order); i++)
      for (size_t j = 0; j < FIXTURE_COUNT(order); j++) {
        const int result = fit_compare(order[i], "m", order[j], "m");
        ck_assert_msg(i < j ? result < 0 : i > j ? result > 0 : result == 0, "%zu against %zu: %d", i, j, result);
      }
  }
  ck_assert_int_lt(fit_compare(&cheap, "a", &cheap, "b"), 0);
}
END_TEST

START_TEST(words_of_the_wire)
{
  ck_assert_str_eq(verdict_name(VERDICT_FIT), "fit");
  ck_assert_str_eq(verdict_name(VERDICT_FIT_WITH_CHANGES), "fit_with_changes");
  ck_assert_str_eq(verdict_name(VERDICT_NO_FIT), "no_fit");
  ck_assert_ptr_null(no_fit_reason_name(NO_FIT_NONE));
  ck_assert_str_eq(no_fit_reason_name(NO_FIT_TARGETS_CONTRADICT), "targets_contradict");
  ck_assert_str_eq(bound_name(BOUND_LAUNCH_OVERHEAD), "launch_overhead");
  ck_assert_ptr_null(limit_name(LIMIT_NONE));
  ck_assert_str_eq(limit_name(LIMIT_KV_CACHE), "kv_cache");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("fit");
  tcase_add_test(tcase, figures_of_a_card_belong_together);
  tcase_add_test(tcase, weights_that_exceed_every_host_are_no_fit);
  tcase_add_test(tcase, the_layout_that_min_gpus_names_fits);
  tcase_add_test(tcase, stages_are_searched_where_no_single_one_holds_the_model);
  tcase_add_test(tcase, llama_70b_needs_two_gpus);
  tcase_add_test(tcase, targets_are_met_missed_or_not_decided);
  tcase_add_test(tcase, a_growing_queue_has_no_latency);
  tcase_add_test(tcase, cost_is_proportional_to_the_price);
  tcase_add_test(tcase, without_a_price_there_is_a_finding_and_no_zero);
  tcase_add_test(tcase, a_shared_prefix_is_not_computed_again);
  tcase_add_test(tcase, versions_without_a_preset_are_named);
  tcase_add_test(tcase, formats_a_device_lacks_are_named);
  tcase_add_test(tcase, the_same_input_gives_the_same_bytes);
  tcase_add_test(tcase, any_arena_gives_an_answer_or_a_limit);
  tcase_add_test(tcase, stop_cancels);
  tcase_add_test(tcase, what_can_not_be_computed_is_refused_at_its_field);
  tcase_add_test(tcase, an_impossible_layout_is_a_verdict);
  tcase_add_test(tcase, cards_have_an_order);
  tcase_add_test(tcase, words_of_the_wire);
  return fixture_run("core/fit", tcase);
}
