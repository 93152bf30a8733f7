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
  ck_assert(is_said(&usual, "inter_node_gb_s_per_gpu is not given: 12.5 GB/s for the hand-off between pipeline stages"));
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

int main(void)
{
  TCase *tcase = tcase_create("fit_options");
  tcase_add_test(tcase, stages_wait_for_each_other);
  tcase_add_test(tcase, an_unknown_network_is_assumed_and_said);
  tcase_add_test(tcase, a_lone_sequence_is_not_cut_by_stages);
  return fixture_run("core/fit_options", tcase);
}
