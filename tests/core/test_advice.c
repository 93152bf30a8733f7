/* Advice: its effect is what the changed sketch evaluates to, nothing is advised that makes it worse, and a locked accuracy
   withholds what would touch it. */
#include "core/advice.h"

#include <stdalign.h>

#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)64 << 20], other_memory[(size_t)64 << 20];
static struct workload workload;
static struct model model;
static struct hardware hardware;
static struct scorecard card;

static void use(const char *device, const char *name, double billed_unit)
{
  workload = fixture_workload();
  model = fixture_model(name);
  hardware = fixture_hardware(device);
  fixture_add_price(&hardware, "AWS", "instance", billed_unit, 2, "on_demand");
}

static void evaluate(void)
{
  const struct fit_request request = {.workload = &workload, .model = &model, .hardware = &hardware};
  struct arena arena;
  struct error e;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(fit_evaluate(&card, &request, &arena, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
}

/* By the short simulation; NULL: as it is. */
static void evaluate_changed(struct scorecard *out, const struct scorecard_change *change)
{
  struct workload w = workload;
  struct model m = model;
  struct hardware h = hardware;
  const struct knob_subject subject = {&w, &m, &h};
  const struct fit_request request = {.workload = &w, .model = &m, .hardware = &h, .depth = FIT_SIMULATED};
  struct arena arena;
  struct error e;
  arena_init(&arena, other_memory, sizeof other_memory);
  if (change != NULL)
    ck_assert_int_eq(knob_set(&subject, change->pointer, &change->to, &e), ERR_OK);
  ck_assert_int_eq(knob_check(&subject, &e), ERR_OK);
  ck_assert_int_eq(fit_evaluate(out, &request, &arena, &e), ERR_OK);
}

static const struct scorecard_change *find(const char *pointer)
{
  for (size_t i = 0; i < card.advice_count; i++)
    if (strcmp(card.advice[i].pointer, pointer) == 0)
      return &card.advice[i];
  return NULL;
}

static const struct scorecard_change *must_find(const char *pointer)
{
  const struct scorecard_change *found = find(pointer);
  ck_assert_msg(found != NULL, "%s is not advised", pointer);
  return found;
}

static const struct scorecard_finding *finding(const char *code)
{
  for (size_t i = 0; i < card.finding_count; i++)
    if (strcmp(card.findings[i].code, code) == 0)
      return &card.findings[i];
  return NULL;
}

static double evidence(const char *code, const char *name)
{
  const struct scorecard_finding *f = finding(code);
  ck_assert_msg(f != NULL, "%s is not found", code);
  for (size_t i = 0; i < f->evidence_count; i++)
    if (strcmp(f->evidence[i].name, name) == 0)
      return f->evidence[i].value;
  return (double)NAN;
}

static double figure(const struct scorecard *c, const char *metric)
{
  const struct {
    const char *metric;
    double value;
  } figures[] = {{"configuration.gpus", c->configuration.gpus},
                 {"cost.per_successful_request_usd", c->cost.per_successful_request_usd},
                 {"cost.monthly_usd", c->cost.monthly_usd},
                 {"memory.max_concurrent_sessions", c->memory.max_concurrent_sessions},
                 {"memory.max_context_tokens", c->memory.max_context_tokens},
                 {"memory.kv_bytes_per_token", c->memory.kv_bytes_per_token},
                 {"memory.weights_gib", c->memory.weights_bytes / GIB},
                 {"latency.ttft_ms.p99", c->latency.ttft_s.p99 / MS},
                 {"latency.itl_ms.p99", c->latency.itl_s.p99 / MS},
                 {"latency.ttft_ms.p50", c->latency.ttft_s.p50 / MS},
                 {"latency.itl_ms.p50", c->latency.itl_s.p50 / MS},
                 {"latency.e2e_ms.p50", c->latency.e2e_s.p50 / MS},
                 {"throughput.output_tokens_per_s_per_gpu", c->throughput.output_tok_s_per_gpu},
                 {"limits.saturation_requests_per_s", c->limits.saturation_requests_per_s}};
  for (size_t i = 0; i < FIXTURE_COUNT(figures); i++)
    if (strcmp(figures[i].metric, metric) == 0)
      return figures[i].value;
  ck_abort_msg("no figure %s", metric);
  return (double)NAN;
}

static void assert_true_to_evaluation(const struct scorecard_change *change)
{
  static struct scorecard changed, unchanged;
  evaluate_changed(&changed, change);
  evaluate_changed(&unchanged, NULL);
  ck_assert_uint_gt(change->effect_count, 0);
  for (size_t i = 0; i < change->effect_count; i++) {
    const struct scorecard_effect *effect = &change->effects[i];
    assert_close(effect->to, figure(&changed, effect->metric), 1e-12);
    if (!isnan(effect->from))
      assert_close(effect->from, figure(&unchanged, effect->metric), 1e-12);
  }
  ck_assert_int_le(changed.verdict, unchanged.verdict);
  ck_assert(changed.verdict < unchanged.verdict ||
            changed.cost.per_successful_request_usd <= unchanged.cost.per_successful_request_usd * 1.001);
}

START_TEST(effects_are_what_the_changed_sketch_gives)
{
  static const char *const devices[] = {"h100-sxm-80gb", "l40s-48gb", "a100-sxm-80gb"};
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "llama-2-7b", "qwen3-14b"};
  uint64_t random = 0xad71ce;
  size_t seen = 0;
  for (int i = 0; i < (int)suite_rounds(60); i++) {
    use(devices[fixture_random_index(&random, 3)], models[fixture_random_index(&random, 4)],
        1 + 7.0 * fixture_random_index(&random, 2));
    workload.traffic.input.fixed_tokens = floor(fixture_random(&random, 128, 3500));
    workload.traffic.requests_per_s = fixture_random(&random, 0.2, 30);
    if (fixture_random_index(&random, 3) == 0)
      fixture_close_loop(&workload, floor(fixture_random(&random, 1, 300)));
    if (fixture_random_index(&random, 2) == 0)
      workload.targets.itl_ms.p50 = fixture_random(&random, 10, 60);
    if (fixture_random_index(&random, 3) == 0)
      workload.serving.tensor_parallel = 4;
    if (fixture_random_index(&random, 3) == 0)
      workload.serving.max_batch = 16;
    if (fixture_random_index(&random, 5) == 0)
      workload.serving.cuda_graphs = 0;
    evaluate();
    for (size_t k = 0; k < card.advice_count; k++)
      assert_true_to_evaluation(&card.advice[k]);
    seen += card.advice_count;
  }
  ck_assert_uint_gt(seen, suite_rounds(30));
}
END_TEST

/* 32 sessions of a 7B with 32 KV heads fill an L40S; four KV heads hold eight times as many. */
static void use_ungrouped(void)
{
  use("l40s-48gb", "llama-2-7b", 1);
  workload.traffic.input.fixed_tokens = 3584;
  fixture_close_loop(&workload, 64);
  workload.serving.replicas = 1;
  workload.serving.tensor_parallel = workload.serving.pipeline_parallel = 1;
}

START_TEST(grouped_heads_are_advised_as_retraining)
{
  const struct scorecard_change *heads;
  double before, after = (double)NAN;
  use_ungrouped();
  evaluate();
  before = card.memory.max_concurrent_sessions;
  heads = must_find("/model/num_key_value_heads");
  assert_close(heads->from.number, 32, 1e-12);
  assert_close(heads->to.number, 4, 1e-12);
  ck_assert_int_eq(heads->requires, REQUIRES_RETRAINING);
  for (size_t i = 0; i < heads->effect_count; i++)
    if (strcmp(heads->effects[i].metric, "memory.max_concurrent_sessions") == 0)
      after = heads->effects[i].to;
  ck_assert_msg(after >= 7 * before, "%g sessions become %g", before, after);
  must_find("/precision/kv_cache");
}
END_TEST

START_TEST(locked_accuracy_withholds_and_says_so)
{
  static const enum accuracy_policy policies[] = {ACCURACY_LOCKED, ACCURACY_VALIDATED};
  for (size_t i = 0; i < FIXTURE_COUNT(policies); i++) {
    use_ungrouped();
    workload.constraints.accuracy = policies[i];
    evaluate();
    for (size_t k = 0; k < card.advice_count; k++)
      ck_assert(card.advice[k].requires != REQUIRES_RETRAINING && card.advice[k].requires != REQUIRES_REQUANTISATION);
    ck_assert(evidence("accuracy_locked", "withheld") >= 2);
    ck_assert_ptr_nonnull(strstr(finding("accuracy_locked")->message, "num_key_value_heads"));
  }
  use_ungrouped();
  evaluate();
  ck_assert_ptr_null(finding("accuracy_locked"));
}
END_TEST

/* Eight GPUs a replica for what one serves: seven eighths of the bill are saved, 7 x 2 USD x 730 h a month. */
START_TEST(too_many_shards_are_found_and_paid_back)
{
  const struct scorecard_change *tensor;
  use("h100-sxm-80gb", "llama-3.1-8b", 1);
  workload.traffic.requests_per_s = 1;
  workload.serving.tensor_parallel = 8;
  workload.constraints.change_cost_usd = 40000;
  evaluate();
  tensor = must_find("/serving/tensor_parallel");
  assert_close(tensor->to.number, 1, 1e-12);
  assert_close(tensor->payback_months, 40000 / (7 * 2 * 730.0), 1e-9);
  assert_close(evidence("over_sharded", "gpus"), 8, 1e-12);
  assert_close(evidence("over_sharded", "gpus_that_suffice"), 1, 1e-12);
}
END_TEST

START_TEST(a_batch_limit_that_binds_is_lifted)
{
  use("h100-sxm-80gb", "llama-3.1-8b", 1);
  workload.serving.max_batch = 4;
  workload.serving.replicas = 1;
  fixture_close_loop(&workload, 64);
  evaluate();
  ck_assert_int_eq(card.limits.first_limit, LIMIT_BATCH);
  ck_assert_double_gt(must_find("/serving/max_batch")->to.number, 16);
}
END_TEST

START_TEST(eager_runs_get_graphs)
{
  use("h100-sxm-80gb", "llama-3.1-8b", 1);
  workload.serving.cuda_graphs = 0;
  evaluate();
  ck_assert(must_find("/serving/cuda_graphs")->to.type == KNOB_VALUE_FLAG);
}
END_TEST

START_TEST(a_power_cap_is_lifted_where_it_is_set)
{
  use("h100-sxm-80gb", "llama-3.1-8b", 1);
  workload.constraints.power_cap_w = 300;
  evaluate();
  assert_close(must_find("/constraints/power_cap_w")->to.number, 700, 1e-12);
  ck_assert_ptr_null(find("/profile/power_cap_w"));
  workload.constraints.power_cap_w = (double)NAN;
  hardware.power_cap_w = 300;
  evaluate();
  assert_close(must_find("/profile/power_cap_w")->to.number, 700, 1e-12);
}
END_TEST

/* Patience is a promise: 25 % more of it lets fewer GPUs carry the load; the finding tells both sides. */
START_TEST(interactivity_has_its_price)
{
  use("h100-sxm-80gb", "llama-3.1-70b", 1);
  workload.traffic.requests_per_s = 400; /* of a fleet, so that a replica more or less is a small step */
  workload.targets.itl_ms.p50 = 24;
  evaluate();
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  assert_close(must_find("/targets/itl_ms/p50")->to.number, 30, 1e-12);
  ck_assert_int_eq(find("/targets/itl_ms/p50")->requires, REQUIRES_PROMISE);
  ck_assert(evidence("batch_trades_interactivity", "cost_at_looser") < evidence("batch_trades_interactivity", "cost"));
  ck_assert(evidence("batch_trades_interactivity", "cost_at_tighter") > evidence("batch_trades_interactivity", "cost"));
}
END_TEST

/* A sketch whose precision is one word is changed by that word. */
START_TEST(a_precision_given_as_a_word_changes_as_one)
{
  use("h100-sxm-80gb", "llama-3.1-70b", 1);
  workload_set_precision(&workload, PRECISION_BF16);
  evaluate();
  ck_assert_str_eq(must_find("/precision")->to.text, "fp8");
  ck_assert_str_eq(find("/precision")->from.text, "bf16");
  ck_assert_ptr_null(find("/precision/weights"));
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("advice");
  tcase_add_test(tcase, effects_are_what_the_changed_sketch_gives);
  tcase_add_test(tcase, grouped_heads_are_advised_as_retraining);
  tcase_add_test(tcase, locked_accuracy_withholds_and_says_so);
  tcase_add_test(tcase, too_many_shards_are_found_and_paid_back);
  tcase_add_test(tcase, a_batch_limit_that_binds_is_lifted);
  tcase_add_test(tcase, eager_runs_get_graphs);
  tcase_add_test(tcase, a_power_cap_is_lifted_where_it_is_set);
  tcase_add_test(tcase, interactivity_has_its_price);
  tcase_add_test(tcase, a_precision_given_as_a_word_changes_as_one);
  return fixture_run("core/advice", tcase);
}
