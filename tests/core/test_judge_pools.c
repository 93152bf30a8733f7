/* Prefill and decode pools judged by simulation: where it must agree with the closed form, what each pool limits, stress. */
#include "core/judge.h"

#include <stdalign.h>

#include "core/fit_int.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)32 << 20];

struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
  struct search_input input;
  struct search_result result;
  struct arena arena;
};

static void problem_init(struct problem *p, unsigned prefill_replicas, unsigned decode_replicas)
{
  memset(p, 0, sizeof *p);
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model("llama-3.1-8b");
  p->workload = fixture_workload();
  p->workload.traffic.input.fixed_tokens = 1500;
  p->workload.serving.prefill_replicas = prefill_replicas;
  p->workload.serving.decode_replicas = decode_replicas;
  p->workload.serving.tensor_parallel = 1;
  fixture_add_price(&p->hardware, "AWS", "p5.48xlarge", 1, 4.5, "on_demand");
}

static void search(struct problem *p)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = FIT_QUICK};
  struct notes notes;
  struct error e;
  arena_init(&p->arena, memory, sizeof memory);
  notes_init(&notes, &p->arena);
  ck_assert_msg(fit_resolve(&p->input, &request, &notes, &p->arena, &e) == ERR_OK, "%s", e.message);
  ck_assert_int_eq(search_best(&p->result, &p->input, 1, NULL, NULL, &e), ERR_OK);
  ck_assert(p->result.has_candidate);
}

static void judge(struct judged *judged, struct problem *p)
{
  const struct judge_case c = {
      .input = &p->input, .candidate = &p->result.best, .load_scale = 1, .requests = JUDGE_REQUESTS_FINAL};
  struct error e;
  const enum err err = judge_run(judged, &c, &p->arena, &e);
  ck_assert_msg(err == ERR_OK, "%s", err == ERR_OK ? "" : e.message);
}

static void evaluate(struct scorecard *card, const struct problem *p)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = FIT_FULL};
  struct arena arena;
  struct error e;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(fit_evaluate(card, &request, &arena, &e) == ERR_OK, "%s", e.message);
}

START_TEST(low_steady_load_agrees_with_the_closed_form)
{
  static const double rates[] = {0.01, 0.1};
  for (size_t r = 0; r < FIXTURE_COUNT(rates); r++)
    for (int poisson = 0; poisson < 2; poisson++) {
      static struct problem p;
      const struct steady_state *state = &p.result.best.state;
      struct judged judged;
      problem_init(&p, 1, 3);
      p.workload.traffic.requests_per_s = rates[r];
      p.workload.traffic.arrival = poisson ? ARRIVAL_POISSON : ARRIVAL_STEADY;
      search(&p);
      judge(&judged, &p);
      assert_close(judged.latency.ttft_s.mean, state->ttft_s, 0.03);
      assert_close(judged.latency.tpot_mean_s, state->tpot_s, 0.03);
      assert_close(judged.latency.itl_s.mean, state->itl_s, 0.03);
      assert_close(judged.latency.e2e_s.mean, state->e2e_s, 0.03);
    }
}
END_TEST

/* Short answers: one prefill replica limits however many decode. Long ones: those that decode do. Both forms say the same of
   it; prompts that do not fill a step's budget to the token are cut, which only the simulation sees. */
START_TEST(capacity_is_near_the_closed_form)
{
  static const struct {
    unsigned decode_replicas, output_tokens;
  } cases[] = {{2, 256}, {8, 256}, {1, 4096}, {2, 4096}};
  for (size_t i = 0; i < FIXTURE_COUNT(cases); i++) {
    static struct problem p;
    const struct judge_case c = {.input = &p.input, .candidate = &p.result.best, .load_scale = 1};
    struct error e;
    double capacity;
    problem_init(&p, 1, cases[i].decode_replicas);
    p.workload.traffic.output.fixed_tokens = cases[i].output_tokens;
    p.workload.traffic.requests_per_s = 1;
    search(&p);
    ck_assert_int_eq(judge_capacity(&capacity, &c, &p.arena, &e), ERR_OK);
    assert_close(capacity, p.result.best.capacity_requests_per_s, 0.15);
  }
}
END_TEST

/* Pools of four and eight are simulated as one and two where so few requests are asked for: the same figures but for the
   noise. Both are near the closed form at half of what the prefill pool can do. */
START_TEST(a_part_tells_what_the_whole_does)
{
  static struct problem p;
  const struct judge_case c = {
      .input = &p.input, .candidate = &p.result.best, .load_scale = 1, .requests = JUDGE_REQUESTS_COMPARE};
  const struct steady_state *state = &p.result.best.state;
  struct judged part, whole;
  struct error e;
  problem_init(&p, 4, 8);
  p.workload.traffic.requests_per_s = 60;
  search(&p);
  judge(&whole, &p);
  ck_assert_int_eq(judge_run(&part, &c, &p.arena, &e), ERR_OK);
  assert_close(part.latency.ttft_s.mean, whole.latency.ttft_s.mean, 0.1);
  assert_close(part.latency.e2e_s.mean, whole.latency.e2e_s.mean, 0.03);
  assert_close(part.decode_batch, whole.decode_batch, 0.03);
  assert_close(whole.latency.ttft_s.mean, state->ttft_s, 0.15);
  assert_close(whole.latency.itl_s.mean, state->itl_s, 0.05);
  assert_close(whole.decode_batch, state->decode_batch, 0.05);
  assert_close(whole.in_system, 60 * whole.latency.e2e_s.mean, 1e-9);
}
END_TEST

static void assert_simulated(const struct scorecard *card)
{
  ck_assert(card->is_simulated);
  ck_assert_int_eq(card->verdict, VERDICT_FIT);
  ck_assert(card->latency.ttft_s.p50 <= card->latency.ttft_s.p90 &&
            card->latency.ttft_s.p90 <= card->latency.ttft_s.p99);
  ck_assert(card->limits.knee_requests_per_s <= card->limits.saturation_requests_per_s);
  assert_close(card->limits.margin_to_knee_ratio,
               1 - card->throughput.requests_per_s / card->limits.knee_requests_per_s, 1e-9);
}

/* Twice the prompts are more than two prefill replicas compute; a slow one of them shows, a lost one more; one that is the
   only one of its kind leaves nothing to serve with. */
START_TEST(cards_of_pools_have_percentiles_and_stress)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, 2, 4);
  p.workload.traffic.requests_per_s = 36;
  p.workload.targets.are_given = true;
  p.workload.targets.ttft_ms.p99 = 2000;
  p.workload.targets.itl_ms.p99 = 60;
  evaluate(&card, &p);
  assert_simulated(&card);
  ck_assert(isnan(card.stress[STRESS_INPUT_DOUBLED].ttft_p99_s)); /* the queue grows */
  ck_assert_int_eq(card.stress[STRESS_INPUT_DOUBLED].first_limit, LIMIT_COMPUTE);
  ck_assert(card.stress[STRESS_ONE_GPU_THROTTLED].ttft_p99_s > 1.1 * card.latency.ttft_s.p99);
  ck_assert(card.stress[STRESS_REPLICA_LOST].ttft_p99_s > card.stress[STRESS_ONE_GPU_THROTTLED].ttft_p99_s);
  assert_close(card.stress[STRESS_REPLICA_LOST].itl_p99_s, card.latency.itl_s.p99, 0.1); /* decoding goes on */
  ck_assert(card.stress[STRESS_REPLICA_LOST].concurrency_limit <
            card.stress[STRESS_KERNELS_FALL_BACK].concurrency_limit);
  p.workload.serving.prefill_replicas = 1;
  p.workload.traffic.requests_per_s = 10;
  evaluate(&card, &p);
  assert_simulated(&card);
  ck_assert_int_eq(card.stress[STRESS_REPLICA_LOST].verdict, VERDICT_NO_FIT);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("pools");
  tcase_add_test(tcase, low_steady_load_agrees_with_the_closed_form);
  tcase_add_test(tcase, capacity_is_near_the_closed_form);
  tcase_add_test(tcase, a_part_tells_what_the_whole_does);
  tcase_add_test(tcase, cards_of_pools_have_percentiles_and_stress);
  return fixture_run("core/judge_pools", tcase);
}
