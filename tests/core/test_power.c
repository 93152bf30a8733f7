/* Power caps: ratios of measured runs, what slows at once and what does not, the caps that change nothing, and that no cap
   ever makes anything faster. */
#include "core/power.h"

#include <stdalign.h>

#include "core/benchmark.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[1 << 16];

/* ---- clocks ---- */

/* PREDICTOR §6: weight streams 0.57-0.80 of the limit, compute-bound products all of it; attention less of both. */
START_TEST(draws_are_those_measured)
{
  ck_assert(power_draw_ratio(false, 0, 1) >= 0.57 && power_draw_ratio(false, 0, 1) <= 0.80);
  assert_close(power_draw_ratio(false, 1, 0), 1, 1e-12);
  assert_close(power_draw_ratio(false, 2, 1), 1, 1e-12);
  ck_assert(power_draw_ratio(true, 0, 1) >= 0.53 && power_draw_ratio(true, 0, 1) <= 0.70);
  ck_assert(power_draw_ratio(true, 1, 0) >= 0.83 && power_draw_ratio(true, 1, 0) <= 0.96);
  for (double compute = 0; compute < 1; compute += 0.01) /* continuous, growing with the share of computing */
    ck_assert(power_draw_ratio(false, compute + 0.01, 1) > power_draw_ratio(false, compute, 1));
}
END_TEST

START_TEST(a_cap_above_the_draw_costs_nothing)
{
  const struct power half = {0.5, 1}, slow = {0.5, 0.4};
  double compute_s = 1, memory_s = 0;
  double before = 0;
  assert_close(power_clock_ratio(&half, 0.5), 1, 1e-12);
  assert_close(power_clock_ratio(&half, 0.2), 1, 1e-12);
  ck_assert(power_clock_ratio(&half, 1) < 1 && power_clock_ratio(&half, 1) > 0.5);
  for (double cap = 0.01; cap <= 1; cap += 0.01) {
    const struct power power = {cap, 1};
    const double clock = power_clock_ratio(&power, 1);
    ck_assert(clock > before && clock <= 1 && clock >= cap); /* watts buy more clock when there are few */
    before = clock;
  }
  power_slow_down(&slow, false, &compute_s, &memory_s); /* the board is slower than the cap asks for */
  assert_close(compute_s, 1, 1e-12);
}
END_TEST

START_TEST(the_lower_cap_counts)
{
  const double none = (double)NAN;
  assert_close(power_lower_cap_w(500, 400), 400, 1e-12);
  assert_close(power_lower_cap_w(none, 400), 400, 1e-12);
  assert_close(power_lower_cap_w(500, none), 500, 1e-12);
  ck_assert(isnan(power_lower_cap_w(none, none)));
}
END_TEST

/* ---- measured runs ---- */

static struct model mixtral(void)
{
  const struct fixture_dense dense = {"mixtral-8x7b", 4096, 14336, 32, 32, 8, 128, 32000, 32768, FIXTURE_PLAIN};
  struct layer layer = fixture_dense_layer(&dense);
  struct model model = fixture_model_of(&dense);
  layer.feed_forward.kind = FEED_FORWARD_MOE;
  layer.feed_forward.experts = 8;
  layer.feed_forward.experts_per_token = 2;
  model.layer_count = model.layer_kind_count = 0;
  ck_assert_int_eq(model_append_layers(&model, &layer, 32, NULL), ERR_OK);
  return model;
}

static struct model run_model(const char *name)
{
  const struct fixture_dense llama = {"llama-2-70b", 8192, 28672, 80, 64, 8, 128, 32000, 4096, FIXTURE_PLAIN};
  const struct fixture_dense gptj = {"gpt-j-6b", 4096, 16384, 28, 16, 16, 256, 50400, 2048, FIXTURE_UNGATED};
  if (strcmp(name, "mixtral-8x7b") == 0)
    return mixtral();
  return fixture_model_of(strcmp(name, "gpt-j-6b") == 0 ? &gptj : &llama);
}

/* Tokens a second of eight H200, each a replica, TensorRT-LLM in fp8. */
static double offline_tok_s(const char *name, double input, double output, double limit_w, double cap_w)
{
  static struct model model;
  static struct hardware hardware;
  struct benchmark benchmark = {.model = &model, .hardware = &hardware, .gpus = 8, .tensor_parallel = 1};
  struct benchmark_figures figures;
  struct arena arena;
  struct error e;
  model = run_model(name);
  hardware = fixture_hardware("h200-sxm-141gb");
  hardware.tdp_w = limit_w;
  hardware.power_cap_w = cap_w;
  fixture_text(hardware.measured_as, sizeof hardware.measured_as, "h200_sxm");
  benchmark.preset = fixture_preset(&hardware, "tensorrt-llm", "");
  fixture_set_precision(&benchmark.precision, PRECISION_FP8);
  benchmark.precision.has_static_scales = true;
  benchmark.precision.kv_cache = PRECISION_FP8;
  benchmark.load = BENCHMARK_OFFLINE;
  benchmark.batch = benchmark.requests = benchmark.requests_per_s = (double)NAN;
  benchmark.input_tokens = input;
  benchmark.output_tokens = output;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(benchmark_predict(&figures, &benchmark, &step_constants_default, &arena, &e) == ERR_OK, "%s",
                e.message);
  return figures.requests_per_s * output;
}

/* MLPerf offline on eight H200 under caps. The three of the rated 700 W, and two against a run at 1,000 W. */
START_TEST(measured_ratios_hold_within_ten_per_cent)
{
  static const struct {
    const char *model;
    double input, output, from_w, to_w, measured;
  } runs[] = {{"llama-2-70b", 294, 291, 700, 500, 25262.0 / 31303},
              {"mixtral-8x7b", 190, 146, 700, 500, 48988.0 / 59022},
              {"gpt-j-6b", 775, 69, 700, 350, 0.65},
              {"llama-2-70b", 294, 291, 1000, 700, 31303.0 / 34864},
              {"llama-2-70b", 294, 291, 1000, 500, 25262.0 / 34864}};
  for (size_t i = 0; i < FIXTURE_COUNT(runs); i++) {
    const double full = offline_tok_s(runs[i].model, runs[i].input, runs[i].output, runs[i].from_w, (double)NAN);
    const double capped = offline_tok_s(runs[i].model, runs[i].input, runs[i].output, runs[i].from_w, runs[i].to_w);
    ck_assert_msg(fabs(capped / full / runs[i].measured - 1) <= 0.10, "%s %g of %g W: measured %.3f, predicted %.3f",
                  runs[i].model, runs[i].to_w, runs[i].from_w, runs[i].measured, capped / full);
  }
}
END_TEST

/* ---- sketches ---- */

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
  p->workload.traffic.requests_per_s = 0.5;
  p->workload.serving.tensor_parallel = 1;
  p->workload.serving.replicas = 1;
  fixture_add_price(&p->hardware, "AWS", "p5.48xlarge", 8, 4.5, "on_demand");
}

static enum err evaluate_raw(struct scorecard *card, const struct problem *p, struct error *e)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = FIT_QUICK};
  struct arena arena;
  arena_init(&arena, memory, sizeof memory);
  return fit_evaluate(card, &request, &arena, e);
}

static struct scorecard evaluate(const struct problem *p)
{
  struct scorecard card;
  struct error e;
  ck_assert_msg(evaluate_raw(&card, p, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
  ck_assert(card.has_latency);
  return card;
}

static bool is_said(const struct scorecard *card, const char *part)
{
  for (size_t i = 0; i < card->assumption_count; i++)
    if (strstr(card->assumptions[i], part) != NULL)
      return true;
  return false;
}

static const struct scorecard_finding *finding(const struct scorecard *card)
{
  for (size_t i = 0; i < card->finding_count; i++)
    if (strcmp(card->findings[i].code, "power_capped") == 0)
      return &card->findings[i];
  return NULL;
}

static double evidence(const struct scorecard *card, const char *name)
{
  const struct scorecard_finding *found = finding(card);
  ck_assert_ptr_nonnull(found);
  for (size_t i = 0; i < found->evidence_count; i++)
    if (strcmp(found->evidence[i].name, name) == 0)
      return found->evidence[i].value;
  ck_abort_msg("no evidence %s", name);
  return 0;
}

/* 560 W is 0.8 of 700 W: above what weight streaming (at most 0.80 of it, 0.69 here) and attention draw. A single sequence
   computes for a small part of its step, so decode keeps its time while the prompt slows. */
START_TEST(prefill_slows_at_once_and_decode_below_its_own_draw)
{
  static struct problem p;
  struct scorecard full, mild, hard;
  problem_init(&p);
  full = evaluate(&p);
  p.workload.constraints.power_cap_w = 560;
  mild = evaluate(&p);
  p.workload.constraints.power_cap_w = 300;
  hard = evaluate(&p);
  ck_assert_ptr_null(finding(&full));
  assert_close(mild.decode.time_s, full.decode.time_s, 1e-3);
  ck_assert(mild.prefill.time_s > 1.1 * full.prefill.time_s);
  ck_assert(hard.decode.time_s > 1.05 * full.decode.time_s);
  ck_assert(hard.prefill.time_s > 1.1 * mild.prefill.time_s);
  ck_assert(hard.prefill.time_s / full.prefill.time_s > hard.decode.time_s / full.decode.time_s);
  ck_assert_int_eq(finding(&mild)->severity, SEVERITY_WARNING);
  assert_close(evidence(&mild, "power_cap_w"), 560, 1e-12);
  assert_close(evidence(&mild, "tdp_w"), 700, 1e-12);
  assert_close(evidence(&mild, "decode_clock_share"), 1, 1e-3);
  ck_assert(evidence(&mild, "prefill_clock_share") < 0.9 && evidence(&mild, "prefill_clock_share") > 0.8);
  ck_assert(evidence(&hard, "decode_clock_share") < 0.9);
  ck_assert(is_said(&hard, "below half of the board's 700 W"));
}
END_TEST

START_TEST(caps_that_change_nothing_say_so)
{
  static struct problem p;
  struct scorecard full, capped;
  problem_init(&p);
  full = evaluate(&p);
  for (double cap = 700; cap <= 10000; cap += 3100) {
    p.workload.constraints.power_cap_w = cap;
    capped = evaluate(&p);
    ck_assert_mem_eq(&capped.latency, &full.latency, sizeof full.latency);
    ck_assert(is_said(&capped, "has no effect: the board's own limit is 700 W"));
    ck_assert_ptr_null(finding(&capped));
  }
  p.workload.constraints.power_cap_w = 300;
  p.hardware.tdp_w = (double)NAN;
  capped = evaluate(&p);
  ck_assert_mem_eq(&capped.latency, &full.latency, sizeof full.latency);
  ck_assert(is_said(&capped, "states no tdp_w"));
}
END_TEST

START_TEST(profile_and_sketch_cap_alike_and_the_lower_counts)
{
  static struct problem p;
  struct scorecard profile, sketch, both, other;
  problem_init(&p);
  p.hardware.power_cap_w = 400;
  profile = evaluate(&p);
  p.workload.constraints.power_cap_w = 550;
  both = evaluate(&p);
  ck_assert_mem_eq(&both.latency, &profile.latency, sizeof both.latency);
  p.hardware.power_cap_w = 550;
  p.workload.constraints.power_cap_w = 400;
  other = evaluate(&p);
  ck_assert_mem_eq(&other.latency, &profile.latency, sizeof both.latency);
  p.hardware.power_cap_w = (double)NAN;
  sketch = evaluate(&p);
  ck_assert_mem_eq(&sketch.latency, &profile.latency, sizeof both.latency);
  assert_close(evidence(&profile, "power_cap_w"), 400, 1e-12);
}
END_TEST

START_TEST(impossible_caps_are_refused_and_absurd_ones_stay_finite)
{
  static const double impossible[] = {0, -5};
  static struct problem p;
  struct scorecard card;
  struct error e;
  problem_init(&p);
  for (size_t i = 0; i < FIXTURE_COUNT(impossible); i++) {
    p.workload.constraints.power_cap_w = impossible[i];
    ck_assert_int_eq(evaluate_raw(&card, &p, &e), ERR_INVALID);
    ck_assert_str_eq(e.pointer, "/constraints/power_cap_w");
  }
  p.workload.constraints.power_cap_w = 10;
  p.workload.traffic.requests_per_s = 0.001;
  card = evaluate(&p);
  ck_assert(isfinite(card.latency.ttft_s.p50) && isfinite(card.latency.tpot_mean_s) && card.latency.tpot_mean_s > 0);
  ck_assert(evidence(&card, "prefill_clock_share") > 0 && evidence(&card, "prefill_clock_share") < 0.2);
}
END_TEST

/* ---- properties ---- */

static double step_s(const struct hardware *hardware, const struct model *model, const struct step_shape *shape)
{
  const struct layout layout = {2, 1, 1, 1};
  struct model_precision precision = model->precision;
  const struct preset preset = fixture_preset(hardware, "", "");
  struct engine engine;
  struct step_time time;
  precision.kv_cache = PRECISION_BF16;
  engine = step_engine(model, hardware, &layout, &precision, PRECISION_NONE, &preset);
  step_time(&time, &engine, shape, shape->decode_sequences + shape->prefill_sequences);
  return time.seconds;
}

/* At any load: less power is never faster, more bandwidth or compute under the same cap never slower. */
START_TEST(a_cap_is_never_faster)
{
  static const char *const devices[] = {"h100-sxm-80gb", "a100-sxm-80gb", "l40s-48gb", "b200-sxm-180gb"};
  static struct model models[2];
  uint64_t random = 7;
  models[0] = fixture_model("llama-3.1-8b");
  models[1] = mixtral();
  for (int i = 0; i < 1500; i++) {
    struct hardware hardware = fixture_hardware(devices[fixture_random_index(&random, FIXTURE_COUNT(devices))]);
    const struct model *model = &models[fixture_random_index(&random, 2)];
    const double prompts = floor(fixture_random(&random, 0, 3));
    const struct step_shape shape = {.decode_sequences = exp(fixture_random(&random, 0, 6)),
                                     .decode_context_tokens = fixture_random(&random, 1, 30000),
                                     .prefill_tokens = prompts * floor(fixture_random(&random, 1, 4000)),
                                     .prefill_sequences = prompts};
    const double full = step_s(&hardware, model, &shape);
    double low, high;
    hardware.power_cap_w = hardware.tdp_w * fixture_random(&random, 0.02, 1);
    high = step_s(&hardware, model, &shape);
    hardware.power_cap_w *= 0.8;
    low = step_s(&hardware, model, &shape);
    ck_assert_msg(full <= high && high <= low, "%s %s: %g %g %g", hardware.name, model->name, full, high, low);
    hardware.memory_bandwidth_gb_s *= 1.3;
    high = step_s(&hardware, model, &shape);
    ck_assert_msg(high <= low * (1 + 1e-12), "bandwidth: %g %g", high, low);
    hardware.bf16_tflops *= 1.3;
    hardware.fp16_tflops *= 1.3;
    ck_assert(step_s(&hardware, model, &shape) <= high * (1 + 1e-12));
  }
}
END_TEST

/* A throttled board (0.7 of its clock) draws less than a cap of 0.9 asks for: the cap costs it nothing. */
START_TEST(a_cap_and_a_slow_clock_do_not_add_up)
{
  const struct step_shape shape = {.prefill_tokens = 4096, .prefill_sequences = 1};
  static struct model model;
  struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  double slow, both, capped;
  model = fixture_model("llama-3.1-8b");
  hardware.sustained_clock_fraction = 0.7;
  slow = step_s(&hardware, &model, &shape);
  hardware.power_cap_w = 630;
  both = step_s(&hardware, &model, &shape);
  assert_close(both, slow, 1e-12);
  hardware.sustained_clock_fraction = (double)NAN;
  capped = step_s(&hardware, &model, &shape);
  ck_assert(capped < both);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("power");
  tcase_add_test(tcase, draws_are_those_measured);
  tcase_add_test(tcase, a_cap_above_the_draw_costs_nothing);
  tcase_add_test(tcase, the_lower_cap_counts);
  tcase_add_test(tcase, measured_ratios_hold_within_ten_per_cent);
  tcase_add_test(tcase, prefill_slows_at_once_and_decode_below_its_own_draw);
  tcase_add_test(tcase, caps_that_change_nothing_say_so);
  tcase_add_test(tcase, profile_and_sketch_cap_alike_and_the_lower_counts);
  tcase_add_test(tcase, impossible_caps_are_refused_and_absurd_ones_stay_finite);
  tcase_add_test(tcase, a_cap_is_never_faster);
  tcase_add_test(tcase, a_cap_and_a_slow_clock_do_not_add_up);
  return fixture_run("core/power", tcase);
}
