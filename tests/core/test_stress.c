/* Stress cases: what one change for the worse does, in the direction that physics says. */
#include "core/stress.h"

#include <stdalign.h>

#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)16 << 20], other_memory[(size_t)16 << 20];

struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
};

static void problem_init(struct problem *p)
{
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model("llama-3.1-8b");
  p->workload = fixture_workload();
  fixture_add_price(&p->hardware, "AWS", "p5.4xlarge", 1, 4.5, "on_demand");
  p->workload.serving.tensor_parallel = p->workload.serving.pipeline_parallel = 1;
  p->workload.traffic.requests_per_s = 30;
  p->workload.targets.are_given = true;
  p->workload.targets.ttft_ms.p99 = 1500;
  p->workload.targets.itl_ms.p99 = 200;
}

static void evaluate_in(struct scorecard *card, const struct problem *p, unsigned char *at)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = FIT_FULL};
  struct arena arena;
  struct error e;
  arena_init(&arena, at, sizeof memory);
  ck_assert_msg(fit_evaluate(card, &request, &arena, &e) == ERR_OK, "%s", e.message);
}

static void evaluate(struct scorecard *card, const struct problem *p)
{
  evaluate_in(card, p, memory);
}

START_TEST(names_are_those_of_the_contract)
{
  ck_assert_str_eq(stress_case_name(STRESS_INPUT_DOUBLED), "input_doubled");
  ck_assert_str_eq(stress_case_name(STRESS_POWER_CAP), "power_cap_minus_20_percent");
  ck_assert_str_eq(stress_case_name(STRESS_KERNELS_FALL_BACK), "kernels_fall_back");
}
END_TEST

/* Worse is never better: waits grow, less succeeds. bf16 has no faster kernels to lose, so that case is the configuration as it
   is, with the same 2,000 requests as the others. */
START_TEST(nothing_gets_better)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p);
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  for (int i = 0; i < STRESS_CASES; i++) {
    const struct scorecard_stress *stress = &card.stress[i], *plain = &card.stress[STRESS_KERNELS_FALL_BACK];
    ck_assert_msg(stress->is_computed, "%s", stress_case_name((enum stress_case)i));
    if (isnan(stress->success_ratio))
      continue;
    ck_assert_msg(stress->success_ratio <= plain->success_ratio + 0.001, "%s: %g after %g",
                  stress_case_name((enum stress_case)i), stress->success_ratio, plain->success_ratio);
    ck_assert_msg(!(stress->ttft_p99_s < 0.99 * plain->ttft_p99_s), "%s: %g s after %g s",
                  stress_case_name((enum stress_case)i), stress->ttft_p99_s, plain->ttft_p99_s);
  }
}
END_TEST

/* bf16 weights have no faster path to lose; fp8 weights do. */
START_TEST(kernels_that_fall_back_cost_what_they_gained)
{
  static struct problem p;
  struct scorecard wide, narrow;
  problem_init(&p);
  evaluate(&wide, &p);
  p.workload.weights = PRECISION_FP8;
  evaluate(&narrow, &p);
  ck_assert_int_eq(wide.stress[STRESS_KERNELS_FALL_BACK].verdict, VERDICT_FIT);
  ck_assert(!(narrow.stress[STRESS_KERNELS_FALL_BACK].ttft_p99_s < narrow.latency.ttft_s.p99));
  ck_assert_msg(!(narrow.stress[STRESS_KERNELS_FALL_BACK].ttft_p99_s < 1.2 * narrow.latency.ttft_s.p99), "%g after %g",
                narrow.stress[STRESS_KERNELS_FALL_BACK].ttft_p99_s, narrow.latency.ttft_s.p99);
}
END_TEST

START_TEST(a_lost_replica_of_one_is_no_fit)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p);
  p.workload.traffic.requests_per_s = 2;
  p.workload.serving.replicas = 1;
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  ck_assert_int_eq(card.stress[STRESS_REPLICA_LOST].verdict, VERDICT_NO_FIT);
  ck_assert(isnan(card.stress[STRESS_REPLICA_LOST].ttft_p99_s));
  p.workload.serving.replicas = 2; /* the other one carries all of it */
  evaluate(&card, &p);
  ck_assert_int_eq(card.stress[STRESS_REPLICA_LOST].verdict, VERDICT_FIT);
}
END_TEST

/* Prompts twice as long on a fleet that was just large enough. */
START_TEST(a_tight_fleet_does_not_bear_doubled_inputs)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p);
  evaluate(&card, &p);
  ck_assert_int_eq(card.stress[STRESS_INPUT_DOUBLED].verdict, VERDICT_NO_FIT);
  ck_assert_int_ne(card.stress[STRESS_INPUT_DOUBLED].first_limit, LIMIT_NONE);
  ck_assert_uint_gt(card.stress[STRESS_INPUT_DOUBLED].concurrency_limit, 0);
  ck_assert_uint_lt(card.stress[STRESS_INPUT_DOUBLED].concurrency_limit,
                    card.stress[STRESS_ONE_GPU_THROTTLED].concurrency_limit);
}
END_TEST

START_TEST(without_a_board_limit_there_is_no_cap_to_lower)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p);
  p.hardware.tdp_w = (double)NAN;
  evaluate(&card, &p);
  ck_assert(!card.stress[STRESS_POWER_CAP].is_computed);
  ck_assert(isnan(card.energy.watts_per_gpu) && isnan(card.energy.joules_per_request));
}
END_TEST

/* Hours at a quarter of the busiest one leave the fleet as it is, and the bill with it: the day's requests are 1/2.5 of
   what it could do at that rate, each of them dearer. Mean 1, most 2.5 → 12 hours of 2.5 and … by hand: (12·2.5 + 12·x)/24
   = 1 has no positive x, so: 6 hours of 2.5, 18 of 0.5: mean 1. */
START_TEST(the_busiest_hour_sizes_the_fleet_and_the_day_pays_it)
{
  static struct problem p;
  struct scorecard flat, day;
  problem_init(&p);
  p.workload.traffic.requests_per_s = 75;
  evaluate(&flat, &p);
  p.workload.traffic.requests_per_s = 30;
  p.workload.traffic.has_hourly_shape = true;
  for (int hour = 0; hour < 24; hour++)
    p.workload.traffic.hourly_shape[hour] = hour < 6 ? 2.5 : 0.5;
  evaluate(&day, &p);
  ck_assert_uint_eq(day.configuration.replicas, flat.configuration.replicas);
  assert_close(day.throughput.requests_per_s, 75, 1e-9);
  assert_close(day.cost.monthly_usd, flat.cost.monthly_usd, 1e-12);
  assert_close(day.cost.per_successful_request_usd, 2.5 * flat.cost.per_successful_request_usd, 1e-9);
  ck_assert(day.cost.items.idle_usd > flat.cost.items.idle_usd);
}
END_TEST

/* 16.06 GB of bf16 weights at 2 GB/s, 15 s, 32 layers of 0.8 s: 48.6 s. Ten restarts a day of the one replica are 486 s in
   which nobody answers. */
START_TEST(restarts_are_paid_and_missed)
{
  static struct problem p;
  struct scorecard plain, restarted;
  problem_init(&p);
  p.workload.traffic.requests_per_s = 2;
  p.workload.serving.replicas = 1;
  evaluate(&plain, &p);
  assert_close(plain.startup.weights_load_s, 8.03, 0.01);
  assert_close(plain.startup.ready_s, 15 + plain.startup.weights_load_s + 32 * 0.8, 1e-9);
  assert_close(plain.cost.items.startup_usd + 1, 1, 1e-12);
  p.workload.restarts_per_day = 10;
  evaluate(&restarted, &p);
  assert_close(restarted.success.rate_ratio, plain.success.rate_ratio * (1 - 10 * plain.startup.ready_s / 86400), 1e-9);
  ck_assert(restarted.cost.items.startup_usd > 0);
  p.hardware.storage_read_gb_s = 8;
  evaluate(&restarted, &p);
  assert_close(restarted.startup.weights_load_s, plain.startup.weights_load_s / 4, 1e-9);
}
END_TEST

/* The configuration as it is, held, with so many replicas. */
static void hold_configuration(struct problem *p, const struct scorecard *card, double replicas)
{
  const struct scorecard_configuration *c = &card->configuration;
  p->workload.serving.tensor_parallel = c->tensor_parallel;
  p->workload.serving.pipeline_parallel = c->pipeline_parallel;
  p->workload.serving.max_batch = c->max_batch;
  p->workload.serving.replicas = (unsigned)replicas;
}

/* Every way out, applied, makes its case bearable; one replica less, or a limit tighter by 1 %, does not. */
static unsigned assert_way_out(const struct problem *p, const struct scorecard *card, enum stress_case which)
{
  const struct scorecard_change *way = card->stress[which].way_out;
  struct problem changed = *p, less = *p;
  const struct knob_subject subject = {.workload = &changed.workload}, less_subject = {.workload = &less.workload};
  struct scorecard after;
  struct knob_value back;
  struct error e;
  if (way == NULL)
    return 0;
  ck_assert_int_eq(card->stress[which].verdict, VERDICT_NO_FIT);
  hold_configuration(&changed, card, card->configuration.replicas);
  hold_configuration(&less, card, card->configuration.replicas);
  ck_assert_int_eq(knob_set(&subject, way->pointer, &way->to, &e), ERR_OK);
  evaluate_in(&after, &changed, other_memory);
  ck_assert_msg(after.stress[which].verdict == VERDICT_FIT, "%s: %s", stress_case_name(which), way->message);
  back = knob_number(way->requires == REQUIRES_PROMISE ? way->to.number * 0.99 : way->to.number - 1);
  ck_assert_int_eq(knob_set(&less_subject, way->pointer, &back, &e), ERR_OK);
  evaluate_in(&after, &less, other_memory);
  ck_assert_msg(after.stress[which].verdict != VERDICT_FIT, "%s: %g would do as well", way->message, back.number);
  return 1;
}

START_TEST(ways_out_of_stress_are_enough_and_no_more)
{
  static struct problem p;
  struct scorecard card;
  unsigned seen = 0;
  problem_init(&p);
  p.workload.traffic.requests_per_s = 30 + 15 * _i;
  p.workload.traffic.input.fixed_tokens = 1024;
  p.workload.targets.ttft_ms.p99 = _i < 2 ? 1500 : 600;
  p.workload.targets.itl_ms.p99 = 100;
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  for (int which = 0; which < STRESS_CASES; which++)
    seen += assert_way_out(&p, &card, (enum stress_case)which);
  ck_assert_uint_ge(seen, 2);
}
END_TEST

/* Replicas do not shorten a prompt: the promise gives way, to what is seen. */
START_TEST(a_prompt_that_is_too_long_costs_a_promise)
{
  static struct problem p;
  struct scorecard card;
  const struct scorecard_stress *stress = &card.stress[STRESS_INPUT_DOUBLED];
  problem_init(&p);
  p.workload.traffic.requests_per_s = 1;
  p.workload.traffic.input.fixed_tokens = 16384;
  p.workload.targets.ttft_ms.p50 = 800; /* a prompt takes half a second, one of twice the length over a second */
  p.workload.targets.ttft_ms.p99 = p.workload.targets.itl_ms.p99 = (double)NAN;
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  ck_assert_str_eq(stress->missed_metric, "latency.ttft_ms.p50");
  ck_assert_ptr_nonnull(stress->way_out);
  ck_assert_str_eq(stress->way_out->pointer, "/targets/ttft_ms/p50");
  ck_assert_int_eq(stress->way_out->requires, REQUIRES_PROMISE);
  assert_close(stress->way_out->to.number, stress->missed_actual, 0.001);
  ck_assert(stress->way_out->to.number >= stress->missed_actual);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("stress");
  tcase_add_test(tcase, names_are_those_of_the_contract);
  tcase_add_test(tcase, nothing_gets_better);
  tcase_add_test(tcase, kernels_that_fall_back_cost_what_they_gained);
  tcase_add_test(tcase, a_lost_replica_of_one_is_no_fit);
  tcase_add_test(tcase, a_tight_fleet_does_not_bear_doubled_inputs);
  tcase_add_test(tcase, without_a_board_limit_there_is_no_cap_to_lower);
  tcase_add_test(tcase, the_busiest_hour_sizes_the_fleet_and_the_day_pays_it);
  tcase_add_test(tcase, restarts_are_paid_and_missed);
  tcase_add_loop_test(tcase, ways_out_of_stress_are_enough_and_no_more, 0, 4);
  tcase_add_test(tcase, a_prompt_that_is_too_long_costs_a_promise);
  return fixture_run("core/stress", tcase);
}
