/* What a sketch can ask for beside a plain engine, as the facade resolves and reports it. Each option's own physics is in
   the test of its module. */
#include "core/fit.h"

#include <stdalign.h>

#include "core/step.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[1 << 18];

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
  p->workload.traffic.requests_per_s = 0.2;
  p->workload.serving.replicas = 1;
}

static struct scorecard evaluate(const struct problem *p)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = FIT_QUICK};
  struct scorecard card;
  struct arena arena;
  struct error e;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(fit_evaluate(&card, &request, &arena, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
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

/* What the step takes of a collective's time. */
static double scale(void)
{
  return step_constants_default.scale_collective;
}

/* Llama-3.1-70B on H100, four stages of one GPU: 3 hops. One sequence decodes: 8192·2 B a hop, latency 4.2 µs each, so
   scale·3·(4.2 + 16384/282.8e3 + 0.61e-3·128) = scale · 13.008 µs of interconnect. */
START_TEST(stages_wait_for_each_other)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.serving.tensor_parallel = 1;
  p.workload.serving.pipeline_parallel = 4;
  p.workload.traffic.requests_per_s = 1e-4;
  card = evaluate(&p);
  assert_close(card.decode.communication_share_ratio * card.decode.time_s / US, scale() * 13.008, 1e-3);
  ck_assert(!is_said(&card, "inter_node_gb_s_per_gpu"));
  ck_assert(!is_said(&card, "not computed"));
}
END_TEST

/* Two hosts: the middle hop goes over the network; a prompt of 2048 tokens moves 2048·8192·2 B = 33.6 MB over it. */
START_TEST(an_unknown_network_is_assumed_and_said)
{
  static struct problem p;
  struct scorecard usual, stated;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.serving.tensor_parallel = 8;
  p.workload.serving.pipeline_parallel = 2;
  usual = evaluate(&p);
  ck_assert(
      is_said(&usual, "inter_node_gb_s_per_gpu is not given: 12.5 GB/s for the hand-off between pipeline stages"));
  p.hardware.inter_node_gb_s = 50;
  stated = evaluate(&p);
  ck_assert(!is_said(&stated, "inter_node_gb_s_per_gpu is not given"));
  /* 33.6 MB over 12.5 instead of 50 GB/s */
  assert_close((usual.prefill.time_s - stated.prefill.time_s) / MS, scale() * 33.554432 * (1 / 12.5 - 1 / 50.0), 1e-6);
  ck_assert(stated.latency.ttft_s.p50 < usual.latency.ttft_s.p50);
}
END_TEST

/* One sequence in four stages: a step works on a whole sequence, so its token takes as long as on one device that holds the
   model, and the hand-off. */
START_TEST(a_lone_sequence_is_not_cut_by_stages)
{
  static struct problem p;
  struct scorecard one, four;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.tensor_parallel = 1;
  p.workload.traffic.requests_per_s = 1e-5;
  p.workload.traffic.input.fixed_tokens = 60000;
  one = evaluate(&p);
  p.workload.serving.pipeline_parallel = 4;
  four = evaluate(&p);
  assert_close(four.decode.time_s * (1 - four.decode.communication_share_ratio), one.decode.time_s, 1e-6);
}
END_TEST

static void ask_for_everything(struct problem *p)
{
  p->workload.constraints.power_cap_w = 300;
  p->workload.adapter_count = 4;
  p->workload.adapter_rank = 16;
  p->workload.serving.speculative_draft_tokens = 3;
  p->workload.serving.speculative_acceptance_ratio = 0.6;
  p->workload.serving.prefill_replicas = 8;
  p->workload.serving.decode_replicas = 8;
  p->workload.serving.replicas = 0;
}

START_TEST(any_arena_gives_an_answer_or_a_limit)
{
  static struct problem p;
  bool is_enough = false;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  ask_for_everything(&p);
  for (size_t capacity = 0; capacity < 1 << 16; capacity += 512) {
    const struct fit_request request = {
        .workload = &p.workload, .model = &p.model, .hardware = &p.hardware, .depth = FIT_QUICK};
    struct scorecard card;
    struct arena arena;
    struct error e;
    enum err err;
    arena_init(&arena, memory, capacity);
    err = fit_evaluate(&card, &request, &arena, &e);
    ck_assert_msg(err == ERR_OK || err == ERR_LIMIT, "%zu bytes: %s", capacity, error_slug(err));
    ck_assert_msg(!is_enough || err == ERR_OK, "%zu bytes fail, less was enough", capacity);
    is_enough = err == ERR_OK;
  }
  ck_assert(is_enough);
}
END_TEST

static void assert_finite(const struct scorecard *card)
{
  const double figures[] = {card->memory.weights_bytes,           card->memory.kv_bytes_per_token,
                            card->memory.kv_bytes_per_session,    card->prefill.time_s,
                            card->prefill.time_share_ratio,       card->decode.time_s,
                            card->decode.flops_utilisation_ratio, card->decode.communication_share_ratio,
                            card->throughput.requests_per_s,      card->throughput.output_tok_s_per_user,
                            card->throughput.mean_batch,          card->limits.saturation_requests_per_s,
                            card->cost.by_bound_compute,          card->cost.by_bound_weights,
                            card->cost.by_bound_kv_cache,         card->cost.by_bound_interconnect,
                            card->cost.by_bound_launch,           card->cost.by_bound_idle};
  double bill = 0;
  for (size_t i = 0; i < FIXTURE_COUNT(figures); i++)
    ck_assert_msg(isfinite(figures[i]) && figures[i] >= 0, "figure %zu is %g", i, figures[i]);
  for (size_t i = FIXTURE_COUNT(figures) - 6; i < FIXTURE_COUNT(figures); i++)
    bill += figures[i];
  assert_close(bill, 1, 1e-9);
  ck_assert(card->decode.flops_utilisation_ratio <= 1);
  for (size_t i = 0; i < card->finding_count; i++)
    for (size_t j = 0; j < card->findings[i].evidence_count; j++)
      ck_assert_msg(isfinite(card->findings[i].evidence[j].value), "%s of %s", card->findings[i].evidence[j].name,
                    card->findings[i].code);
}

static void random_options(struct problem *p, uint64_t *random)
{
  struct workload_serving *serving = &p->workload.serving;
  serving->tensor_parallel = 1u << fixture_random_index(random, 4);
  serving->pipeline_parallel = 1 + fixture_random_index(random, 3);
  serving->cuda_graphs = fixture_random_index(random, 2) == 0 ? 0 : -1;
  p->workload.constraints.power_cap_w = fixture_random(random, 10, 1500);
  p->workload.adapter_count = fixture_random_index(random, 3) * 7;
  p->workload.adapter_rank = 1 + fixture_random_index(random, 128);
  serving->speculative_draft_tokens = fixture_random_index(random, 10);
  serving->speculative_acceptance_ratio = fixture_random_index(random, 5) / 4.0;
  p->workload.traffic.requests_per_s = exp(fixture_random(random, -7, 3));
  p->workload.traffic.input.fixed_tokens = ceil(exp(fixture_random(random, 0, 9)));
  p->workload.traffic.output.fixed_tokens = ceil(exp(fixture_random(random, 0, 7)));
  if (fixture_random_index(random, 2) == 0)
    fixture_close_loop(&p->workload, ceil(exp(fixture_random(random, 0, 5))));
  if (fixture_random_index(random, 2) == 0) {
    serving->replicas = 0;
    serving->prefill_replicas = 1 + fixture_random_index(random, 4);
    serving->decode_replicas = 1 + fixture_random_index(random, 4);
  }
}

/* Whatever is asked for together, figures are numbers, shares add up, and Little's law holds. */
START_TEST(random_sketches_give_sound_cards)
{
  static const char *const devices[] = {"h100-sxm-80gb", "a100-pcie-80gb", "l40s-48gb", "b200-sxm-180gb", "gh200-96gb"};
  static struct problem p;
  uint64_t random = 42;
  unsigned cards = 0;
  for (int i = 0; i < 250; i++) {
    const struct fit_request request = {
        .workload = &p.workload, .model = &p.model, .hardware = &p.hardware, .depth = FIT_QUICK};
    struct scorecard card;
    struct arena arena;
    struct error e;
    problem_init(&p, devices[fixture_random_index(&random, FIXTURE_COUNT(devices))],
                 i % 2 == 0 ? "llama-3.1-8b" : "qwen3-14b");
    random_options(&p, &random);
    arena_init(&arena, memory, sizeof memory);
    ck_assert_msg(fit_evaluate(&card, &request, &arena, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
    if (!card.has_latency)
      continue;
    cards++;
    assert_finite(&card);
    if (!isnan(card.latency.ttft_s.p50)) {
      ck_assert(card.latency.ttft_s.p50 >= card.latency.queue_s.p50 && card.latency.queue_s.p50 >= 0);
      ck_assert(card.latency.e2e_s.p50 >= card.latency.ttft_s.p50);
      assert_close(card.throughput.at_concurrency, card.throughput.requests_per_s * card.latency.e2e_s.mean, 1e-9);
      if (p.workload.traffic.load == LOAD_CLOSED)
        assert_close(card.throughput.at_concurrency, p.workload.traffic.concurrency, 2e-2);
    }
  }
  ck_assert_uint_ge(cards, 120);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("fit_options");
  tcase_add_test(tcase, stages_wait_for_each_other);
  tcase_add_test(tcase, an_unknown_network_is_assumed_and_said);
  tcase_add_test(tcase, a_lone_sequence_is_not_cut_by_stages);
  tcase_add_test(tcase, any_arena_gives_an_answer_or_a_limit);
  tcase_add_test(tcase, random_sketches_give_sound_cards);
  return fixture_run("core/fit_options", tcase);
}
