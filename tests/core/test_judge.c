/* Candidates judged by simulation: what holds on every card of it, where it must agree with the closed form, what the knee
   and saturation mean, and the cases of bursts, clients that give up and slow replicas. */
#include "core/judge.h"

#include <stdalign.h>

#include "core/fit_int.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)32 << 20];

/* A problem with its closed form's choice. */
struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
  struct search_input input;
  struct search_result result;
  struct arena arena;
};

static void problem_init(struct problem *p, const char *device, const char *model)
{
  memset(p, 0, sizeof *p);
  p->hardware = fixture_hardware(device);
  p->model = fixture_model(model);
  p->workload = fixture_workload();
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

static struct judge_case case_of(const struct problem *p)
{
  return (struct judge_case){
      .input = &p->input, .candidate = &p->result.best, .load_scale = 1, .requests = JUDGE_REQUESTS_FINAL};
}

static void judge(struct judged *judged, struct problem *p, const struct judge_case *c)
{
  struct error e;
  const enum err err = judge_run(judged, c, &p->arena, &e);
  ck_assert_msg(err == ERR_OK, "%s", err == ERR_OK ? "" : e.message);
}

static void evaluate(struct scorecard *card, const struct problem *p, enum fit_depth depth)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = depth};
  struct arena arena;
  struct error e;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(fit_evaluate(card, &request, &arena, &e) == ERR_OK, "%s", e.message);
}

static void assert_ordered(const struct percentiles *p)
{
  ck_assert_msg(p->p50 <= p->p90 && p->p90 <= p->p99, "%g %g %g", p->p50, p->p90, p->p99);
}

/* At each level of probability: what is longer for every request is longer there too. */
static void assert_at_least(const struct percentiles *longer, const struct percentiles *shorter)
{
  ck_assert(longer->p50 >= shorter->p50 && longer->p90 >= shorter->p90 && longer->p99 >= shorter->p99 &&
            longer->mean >= shorter->mean);
}

START_TEST(what_holds_on_every_simulation)
{
  static const double loads[] = {0.1, 3, 40, -1, -30}; /* requests a second; negative: users */
  static const enum arrival_kind arrivals[] = {ARRIVAL_POISSON, ARRIVAL_STEADY, ARRIVAL_SPIKY};
  for (size_t i = 0; i < FIXTURE_COUNT(loads); i++)
    for (size_t k = 0; k < FIXTURE_COUNT(arrivals); k++) {
      static struct problem p;
      struct judge_case c;
      struct judged judged;
      problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
      p.workload.traffic.output = (struct length){.kind = LENGTH_QUANTILES, .p50_tokens = 150, .p99_tokens = 900};
      p.workload.traffic.requests_per_s = loads[i];
      p.workload.traffic.arrival = arrivals[k];
      p.workload.traffic.burst_peak_to_mean = 3;
      p.workload.traffic.burst_duration_s = 10;
      if (loads[i] < 0)
        fixture_close_loop(&p.workload, -loads[i]);
      search(&p);
      c = case_of(&p);
      judge(&judged, &p, &c);
      assert_ordered(&judged.latency.ttft_s);
      assert_ordered(&judged.latency.itl_s);
      assert_ordered(&judged.latency.e2e_s);
      assert_ordered(&judged.latency.queue_s);
      assert_at_least(&judged.latency.e2e_s, &judged.latency.ttft_s);
      assert_at_least(&judged.latency.ttft_s, &judged.latency.queue_s);
      assert_close(judged.in_system, judged.completed_per_s * judged.latency.e2e_s.mean, 1e-9);
      assert_close(judged.success.rate_ratio, 1, 1e-9); /* no limits are given */
      ck_assert(judged.busy_ratio > 0 && judged.busy_ratio <= 1 && judged.failed_work_ratio < 0.1);
      ck_assert(judged.kv_p99_ratio > 0 && judged.kv_p99_ratio <= 1);
      ck_assert_uint_gt(judged.counted, JUDGE_REQUESTS_FINAL / 3);
      if (loads[i] > 0)
        assert_close(judged.completed_per_s, loads[i], 1e-9);
    }
}
END_TEST

/* CORE §5: at low steady load both say the same. Prompts of 1,500 tokens, which leave room in a step: one that fills a
   step's budget to the token is cut in two as soon as anything decodes beside it, which the closed form does not see. */
START_TEST(low_steady_load_agrees_with_the_closed_form)
{
  static const char *const devices[] = {"h100-sxm-80gb", "l40s-48gb", "mi300x-192gb", "b200-sxm-180gb"};
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "qwen3-14b"};
  static const double rates[] = {0.01, 0.05};
  for (size_t d = 0; d < FIXTURE_COUNT(devices); d++)
    for (size_t m = 0; m < FIXTURE_COUNT(models); m++)
      for (size_t r = 0; r < FIXTURE_COUNT(rates); r++)
        for (int poisson = 0; poisson < 2; poisson++) {
          static struct problem p;
          struct judge_case c;
          struct judged judged;
          problem_init(&p, devices[d], models[m]);
          p.workload.traffic.requests_per_s = rates[r];
          p.workload.traffic.input.fixed_tokens = 1500;
          p.workload.traffic.arrival = poisson ? ARRIVAL_POISSON : ARRIVAL_STEADY;
          search(&p);
          c = case_of(&p);
          judge(&judged, &p, &c);
          assert_close(judged.latency.ttft_s.mean, p.result.best.state.ttft_s, 0.03);
          assert_close(judged.latency.tpot_mean_s, p.result.best.state.tpot_s, 0.03);
          assert_close(judged.latency.itl_s.mean, p.result.best.state.itl_s, 0.03);
          assert_close(judged.latency.e2e_s.mean, p.result.best.state.e2e_s, 0.03);
        }
}
END_TEST

/* Prompts of experts alone take less than they add to a step of decodes (what they add was fitted with larger groups of
   tokens), from one that shares its step's budget up to one of three chunks. */
START_TEST(low_steady_load_of_experts_agrees_too)
{
  static const char *const devices[] = {"h100-sxm-80gb", "mi300x-192gb", "b200-sxm-180gb"};
  static const unsigned tokens[] = {300, 1500, 6000, 20000};
  for (size_t i = 0; i < 2 * FIXTURE_COUNT(devices) * FIXTURE_COUNT(tokens); i++) {
    static struct problem p;
    const struct steady_state *state = &p.result.best.state;
    struct judge_case c;
    struct judged judged;
    problem_init(&p, devices[i / 2 % FIXTURE_COUNT(devices)], "llama-3.1-8b");
    p.model = fixture_mixture(i % 2 != 0);
    p.model.max_context_tokens = 32768;
    p.workload.traffic.requests_per_s = 0.01;
    p.workload.traffic.input.fixed_tokens = tokens[i / 2 / FIXTURE_COUNT(devices)];
    search(&p);
    c = case_of(&p);
    judge(&judged, &p, &c);
    assert_close(judged.latency.ttft_s.mean, state->ttft_s, 0.03);
    assert_close(judged.latency.tpot_mean_s, state->tpot_s, 0.03);
    assert_close(judged.latency.e2e_s.mean, state->e2e_s, 0.03);
  }
}
END_TEST

/* One user alone never waits: the simulation is the closed form. */
START_TEST(a_single_user_is_exact)
{
  static struct problem p;
  struct judge_case c;
  struct judged judged;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  fixture_close_loop(&p.workload, 1);
  search(&p);
  c = case_of(&p);
  judge(&judged, &p, &c);
  assert_close(judged.latency.ttft_s.p50, p.result.best.state.ttft_s, 0.005); /* a histogram's bin */
  assert_close(judged.latency.e2e_s.mean, p.result.best.state.e2e_s, 0.005);
  assert_close(judged.completed_per_s, p.result.best.state.requests_per_s, 0.005);
  assert_close(judged.latency.queue_s.p99 + 1, 1, 1e-9);
}
END_TEST

/* A full replica's pace and the closed form's capacity are two ways to the same figure. */
START_TEST(capacity_is_near_the_closed_form)
{
  static const char *const devices[] = {"h100-sxm-80gb", "l40s-48gb", "a100-sxm-80gb"};
  for (size_t d = 0; d < FIXTURE_COUNT(devices); d++) {
    static struct problem p;
    struct judge_case c;
    struct error e;
    double capacity;
    problem_init(&p, devices[d], "llama-3.1-8b");
    search(&p);
    c = case_of(&p);
    ck_assert_int_eq(judge_capacity(&capacity, &c, &p.arena, &e), ERR_OK);
    assert_close(capacity, p.result.best.capacity_requests_per_s, 0.15);
  }
}
END_TEST

/* Below capacity the queue stays, above it grows as long as the run is. */
START_TEST(saturation_is_where_the_queue_grows)
{
  static struct problem p;
  struct judge_case c;
  struct judged below, above;
  struct error e;
  double capacity, rate;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.replicas = 1;
  search(&p);
  c = case_of(&p);
  ck_assert_int_eq(judge_capacity(&capacity, &c, &p.arena, &e), ERR_OK);
  rate = p.workload.traffic.requests_per_s;
  c.load_scale = 0.9 * capacity / rate;
  judge(&below, &p, &c);
  c.load_scale = 1.2 * capacity / rate;
  judge(&above, &p, &c);
  ck_assert_msg(below.latency.queue_s.p99 < 5, "%g s", below.latency.queue_s.p99);
  /* at 1.2 of the capacity the last of N requests waits about N/6 capacities; half of them more than a third of that */
  ck_assert_msg(above.latency.queue_s.p50 > (double)JUDGE_REQUESTS_FINAL / 24 / capacity, "%g s",
                above.latency.queue_s.p50);
}
END_TEST

START_TEST(more_load_is_never_faster)
{
  static struct problem p;
  struct judge_case c;
  struct judged judged;
  double last_s = 0;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.replicas = 1;
  search(&p);
  c = case_of(&p);
  for (double scale = 0.5; scale <= 5; scale += 0.5) {
    c.load_scale = scale;
    judge(&judged, &p, &c);
    ck_assert_msg(judged.latency.e2e_s.mean >= last_s, "%g s after %g s", judged.latency.e2e_s.mean, last_s);
    last_s = judged.latency.e2e_s.mean;
  }
}
END_TEST

/* Without a block of its own, success is the highest percentile's limit of each target; with one, that alone. */
START_TEST(success_is_what_the_sketch_says)
{
  struct workload workload = fixture_workload();
  struct judge_success limits = judge_success_of(&workload);
  ck_assert(isnan(limits.ttft_s) && isnan(limits.mean_itl_s) && isnan(limits.e2e_s));
  workload.targets.ttft_ms.p50 = 300;
  workload.targets.ttft_ms.p99 = 1000;
  workload.targets.itl_ms.p90 = 50;
  limits = judge_success_of(&workload);
  assert_close(limits.ttft_s, 1, 1e-12);
  assert_close(limits.mean_itl_s, 0.05, 1e-12);
  ck_assert(isnan(limits.e2e_s));
  workload.success.are_given = true;
  workload.success.e2e_ms.mean = 5800;
  limits = judge_success_of(&workload);
  ck_assert(isnan(limits.ttft_s) && isnan(limits.mean_itl_s));
  assert_close(limits.e2e_s, 5.8, 1e-12);
}
END_TEST

/* A limit at the median is kept by half of the requests; the work for the others is in vain. */
START_TEST(success_and_failed_work_follow_the_limit)
{
  static struct problem p;
  struct judge_case c;
  struct judged plain, limited;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.output = (struct length){.kind = LENGTH_QUANTILES, .p50_tokens = 150, .p99_tokens = 900};
  search(&p);
  c = case_of(&p);
  judge(&plain, &p, &c);
  p.workload.success.are_given = true;
  p.workload.success.e2e_ms.mean = 1000 * plain.latency.e2e_s.p50;
  judge(&limited, &p, &c);
  assert_close(limited.success.rate_ratio, 0.5, 0.02);
  ck_assert(limited.failed_work_ratio > 0.5 && limited.failed_work_ratio < 0.95); /* the longer half */
}
END_TEST

/* Answers that are longer than the model's context are refused and counted, never served short. */
START_TEST(requests_beyond_the_context_are_rejected)
{
  static struct problem p;
  struct judge_case c;
  struct judged judged;
  problem_init(&p, "h100-sxm-80gb", "llama-3-8b"); /* 8,192 tokens */
  p.workload.traffic.input = (struct length){.kind = LENGTH_QUANTILES, .p50_tokens = 3000, .p99_tokens = 12000};
  search(&p);
  c = case_of(&p);
  judge(&judged, &p, &c);
  /* ln(7936/3000) / (ln 4 / 2.3263) = 1.632: 5.1 % of a log-normal lie above */
  assert_close(judged.success.rejected_ratio, 0.0513, 0.1);
  assert_close(judged.success.rate_ratio, 1 - judged.success.rejected_ratio, 1e-9);
}
END_TEST

/* Twice what one replica can do, from clients that give up after 10 s and try once more: the engine works on answers that
   nobody waits for. A limit on the requests inside keeps them short; background traffic is refused first. */
START_TEST(overload_with_impatient_clients)
{
  static struct problem p;
  struct judge_case c;
  struct judged open, limited;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.replicas = p.workload.serving.tensor_parallel = 1;
  p.workload.traffic.requests_per_s = 25;
  p.workload.traffic.client_timeout_ms = 10000;
  p.workload.traffic.client_retries = 1;
  search(&p);
  c = case_of(&p);
  judge(&open, &p, &c);
  ck_assert_msg(open.success.timed_out_ratio > 0.3, "%g", open.success.timed_out_ratio);
  ck_assert_msg(open.failed_work_ratio > 0.3, "%g", open.failed_work_ratio);
  p.workload.traffic.sheddable_share_ratio = 0.6;
  c.concurrency_limit = 40;
  judge(&limited, &p, &c);
  ck_assert_msg(limited.success.shed_ratio > 0.3 && limited.success.shed_ratio <= 0.6 * 1.05, "%g",
                limited.success.shed_ratio);
  ck_assert_msg(limited.success.rate_ratio > open.success.rate_ratio, "%g, without a limit %g",
                limited.success.rate_ratio, open.success.rate_ratio);
  ck_assert(limited.latency.itl_s.p99 <= open.latency.itl_s.p99);
}
END_TEST

/* One of the fleet's replicas at 0.6 of its clock gets fewer requests, but those take longer. (The tail of first tokens is
   ten of a thousand requests, and which ones moves it by as much as the clock does.) */
START_TEST(a_slow_replica_shows_in_the_tail)
{
  static struct problem p;
  static struct engine slow;
  struct hardware throttled;
  struct judge_case c;
  struct judged plain, with_slow;
  const struct candidate *best = &p.result.best;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.replicas = 4;
  p.workload.serving.tensor_parallel = 1;
  p.workload.traffic.requests_per_s = 30;
  search(&p);
  c = case_of(&p);
  judge(&plain, &p, &c);
  throttled = p.hardware;
  throttled.sustained_clock_fraction = 0.6;
  slow =
      step_engine(&p.model, &throttled, &best->layout, &best->engine.precision, PRECISION_NONE, &best->engine.preset);
  c.slow_engine = &slow;
  judge(&with_slow, &p, &c);
  ck_assert(with_slow.latency.ttft_s.p50 > plain.latency.ttft_s.p50);
  ck_assert(with_slow.latency.e2e_s.p99 > 1.1 * plain.latency.e2e_s.p99);
  c.slow_engine = NULL;
  c.lost_replicas = 2;
  judge(&with_slow, &p, &c);
  ck_assert(with_slow.latency.itl_s.p90 > plain.latency.itl_s.p90);
  assert_close(with_slow.completed_per_s, 30, 1e-9); /* the others carry it */
}
END_TEST

/* The article's case: 470 requests/s whose p99 of 5.8 s breaches the limit at one size; what depth full answers keeps it.
   Bursts at three times the mean need more. */
START_TEST(the_breached_limit_of_470_requests_is_kept_at_a_price)
{
  static struct problem p;
  struct scorecard cards[2], breached;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.requests_per_s = 470;
  p.workload.traffic.input.fixed_tokens = 1024;
  p.workload.serving.tensor_parallel = p.workload.serving.pipeline_parallel = 1;
  p.workload.targets.are_given = true;
  p.workload.targets.e2e_ms.p99 = 5000;
  for (int spiky = 0; spiky < 2; spiky++) {
    p.workload.traffic.arrival = spiky ? ARRIVAL_SPIKY : ARRIVAL_POISSON;
    p.workload.traffic.burst_peak_to_mean = 3;
    p.workload.traffic.burst_duration_s = 20;
    evaluate(&cards[spiky], &p, FIT_FULL);
    ck_assert_int_eq(cards[spiky].verdict, VERDICT_FIT);
    ck_assert(cards[spiky].latency.e2e_s.p99 <= 5);
    ck_assert_int_eq(cards[spiky].targets[0].met, 1);
  }
  ck_assert_uint_gt(cards[1].configuration.replicas, cards[0].configuration.replicas);
  ck_assert(cards[1].cost.per_successful_request_usd > cards[0].cost.per_successful_request_usd);
  p.workload.traffic.arrival = ARRIVAL_POISSON;
  p.workload.serving.replicas = cards[0].configuration.replicas * 3 / 4;
  evaluate(&breached, &p, FIT_FULL);
  ck_assert_int_eq(breached.verdict, VERDICT_NO_FIT);
  ck_assert(breached.limits.margin_to_knee_ratio < 0 || isnan(breached.limits.margin_to_knee_ratio));
}
END_TEST

/* Margin, knee and verdict of a card are one story. */
START_TEST(headroom_is_there_when_it_is_asked)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.traffic.requests_per_s = 30;
  p.workload.targets.are_given = true;
  p.workload.targets.ttft_ms.p99 = 1000;
  p.workload.targets.itl_ms.p99 = 150;
  p.workload.targets.headroom_ratio = 0.25;
  evaluate(&card, &p, FIT_FULL);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  ck_assert(card.limits.margin_to_knee_ratio >= 0.25);
  assert_close(card.limits.margin_to_knee_ratio, 1 - card.throughput.requests_per_s / card.limits.knee_requests_per_s,
               1e-9);
  ck_assert(card.limits.knee_requests_per_s <= card.limits.saturation_requests_per_s);
}
END_TEST

/* The knee is found in short runs, the card's own run is a long one: what that has shown to hold is not taken back. Two
   tokens an answer make the noise large beside the margin. */
START_TEST(a_closed_loop_keeps_knee_and_saturation_above_its_load)
{
  static const double users[] = {1, 2, 8, 64};
  static const unsigned tokens[] = {1, 2, 9};
  for (size_t i = 0; i < FIXTURE_COUNT(users) * FIXTURE_COUNT(tokens); i++) {
    static struct problem p;
    struct scorecard card;
    problem_init(&p, "l40s-48gb", "llama-3.1-8b");
    fixture_close_loop(&p.workload, users[i % FIXTURE_COUNT(users)]);
    p.workload.traffic.input.fixed_tokens = 115;
    p.workload.traffic.output.fixed_tokens = tokens[i / FIXTURE_COUNT(users)];
    p.workload.targets.are_given = true;
    p.workload.targets.ttft_ms.p99 = 5000;
    p.workload.targets.e2e_ms.p99 = i % 2 == 0 ? 250 : 60000;
    evaluate(&card, &p, FIT_FULL);
    ck_assert(card.limits.saturation_requests_per_s >= card.throughput.requests_per_s);
    ck_assert(!(card.limits.knee_requests_per_s > card.limits.saturation_requests_per_s));
    ck_assert(card.verdict != VERDICT_FIT || card.limits.margin_to_knee_ratio >= 0);
  }
}
END_TEST

/* Without limits on latency there is no knee, so headroom before it is neither kept nor missed: undecided, which is no miss,
   however far the preset limits that steer the choice are away. */
START_TEST(headroom_without_latency_targets_is_undecided)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "l40s-48gb", "llama-3.1-8b");
  fixture_close_loop(&p.workload, 64);
  p.workload.traffic.input.fixed_tokens = 60000;
  p.workload.serving.tensor_parallel = p.workload.serving.replicas = 1;
  p.workload.targets.are_given = true;
  p.workload.targets.headroom_ratio = 0.1;
  evaluate(&card, &p, FIT_FULL);
  ck_assert(card.latency.ttft_s.p99 > 2);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  ck_assert_uint_eq(card.target_count, 1);
  ck_assert_int_eq(card.targets[0].met, -1);
}
END_TEST

/* The closed form sees the mean load, at which tokens come fast enough. In bursts too many run at once; with fewer places they
   wait their turn, and the gaps between tokens keep their limit. */
START_TEST(a_smaller_batch_keeps_what_the_closed_form_promised)
{
  static struct problem p;
  struct scorecard quick, full;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.tensor_parallel = p.workload.serving.pipeline_parallel = p.workload.serving.replicas = 1;
  p.workload.traffic.input.fixed_tokens = 256;
  p.workload.traffic.output.fixed_tokens = 512;
  p.workload.traffic.requests_per_s = 6;
  p.workload.traffic.arrival = ARRIVAL_SPIKY;
  p.workload.traffic.burst_peak_to_mean = 6;
  p.workload.traffic.burst_duration_s = 10;
  p.workload.targets.are_given = true;
  p.workload.targets.ttft_ms.p99 = 30000;
  p.workload.targets.itl_ms.p90 = 14;
  evaluate(&quick, &p, FIT_QUICK);
  ck_assert_int_eq(quick.verdict, VERDICT_FIT);
  evaluate(&full, &p, FIT_FULL);
  ck_assert_int_eq(full.verdict, VERDICT_FIT);
  ck_assert_uint_lt(full.configuration.max_batch, quick.configuration.max_batch / 4);
  ck_assert(full.latency.itl_s.p90 <= 0.014 && full.latency.ttft_s.p99 > 1);
  p.workload.serving.max_batch = quick.configuration.max_batch; /* held: a miss, as nothing else can be tried */
  evaluate(&full, &p, FIT_FULL);
  ck_assert_int_ne(full.verdict, VERDICT_FIT);
  ck_assert(full.latency.itl_s.p90 > 0.014);
}
END_TEST

/* Bursts of eight times the mean on one replica: the first tokens come late long before the day's mean is near capacity. */
START_TEST(bursts_end_in_the_queue)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.serving.tensor_parallel = p.workload.serving.replicas = 1;
  p.workload.traffic.arrival = ARRIVAL_SPIKY;
  p.workload.traffic.burst_peak_to_mean = 8;
  p.workload.traffic.burst_duration_s = 20;
  p.workload.targets.are_given = true;
  p.workload.targets.ttft_ms.p99 = 3000;
  evaluate(&card, &p, FIT_FULL);
  ck_assert(card.limits.knee_requests_per_s < 0.9 * card.limits.saturation_requests_per_s);
  ck_assert_int_eq(card.limits.first_limit, LIMIT_QUEUE);
}
END_TEST

/* The short and the long run differ in noise; each depth repeats to the bit. */
START_TEST(depths_agree_and_repeat)
{
  static struct problem p;
  struct scorecard full, again, simulated;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.targets.are_given = true;
  p.workload.targets.ttft_ms.p99 = 2000;
  evaluate(&full, &p, FIT_FULL);
  evaluate(&again, &p, FIT_FULL);
  ck_assert_mem_eq(&full.latency, &again.latency, sizeof full.latency);
  ck_assert_mem_eq(&full.limits, &again.limits, sizeof full.limits);
  evaluate(&simulated, &p, FIT_SIMULATED);
  ck_assert(full.is_simulated && simulated.is_simulated);
  ck_assert_uint_eq(simulated.ladder_count, 0);
  assert_close(simulated.latency.e2e_s.mean, full.latency.e2e_s.mean, 0.05);
  assert_close(simulated.latency.ttft_s.p99, full.latency.ttft_s.p99, 0.2);
}
END_TEST

START_TEST(a_small_arena_is_a_limit)
{
  static struct problem p;
  struct judge_case c;
  struct judged judged;
  struct error e;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  search(&p);
  c = case_of(&p);
  for (size_t bytes = 1 << 12; bytes <= (size_t)1 << 20; bytes *= 4) {
    arena_init(&p.arena, memory, bytes);
    ck_assert_int_eq(judge_run(&judged, &c, &p.arena, &e), ERR_LIMIT);
    ck_assert_uint_eq(p.arena.used_bytes, 0);
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("judge");
  tcase_add_test(tcase, what_holds_on_every_simulation);
  tcase_add_test(tcase, low_steady_load_agrees_with_the_closed_form);
  tcase_add_test(tcase, low_steady_load_of_experts_agrees_too);
  tcase_add_test(tcase, a_single_user_is_exact);
  tcase_add_test(tcase, capacity_is_near_the_closed_form);
  tcase_add_test(tcase, saturation_is_where_the_queue_grows);
  tcase_add_test(tcase, more_load_is_never_faster);
  tcase_add_test(tcase, success_is_what_the_sketch_says);
  tcase_add_test(tcase, success_and_failed_work_follow_the_limit);
  tcase_add_test(tcase, requests_beyond_the_context_are_rejected);
  tcase_add_test(tcase, overload_with_impatient_clients);
  tcase_add_test(tcase, a_slow_replica_shows_in_the_tail);
  tcase_add_test(tcase, the_breached_limit_of_470_requests_is_kept_at_a_price);
  tcase_add_test(tcase, headroom_is_there_when_it_is_asked);
  tcase_add_test(tcase, a_closed_loop_keeps_knee_and_saturation_above_its_load);
  tcase_add_test(tcase, headroom_without_latency_targets_is_undecided);
  tcase_add_test(tcase, a_smaller_batch_keeps_what_the_closed_form_promised);
  tcase_add_test(tcase, bursts_end_in_the_queue);
  tcase_add_test(tcase, depths_agree_and_repeat);
  tcase_add_test(tcase, a_small_arena_is_a_limit);
  return fixture_run("core/judge", tcase);
}
