/* Speculative decoding: tokens a step by hand, what verification and drafts cost, when it pays, and that a draft that is
   never right never makes anything faster. */
#include "core/speculative.h"

#include <stdalign.h>

#include "core/steady.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[1 << 18];

START_TEST(tokens_a_step_by_hand)
{
  assert_close(speculative_tokens_per_step(4, 0, 1000), 1, 1e-12);
  assert_close(speculative_tokens_per_step(4, 1, 1000), 5, 1e-12);
  assert_close(speculative_tokens_per_step(4, 0.7, 1000), (1 - 0.16807) / 0.3, 1e-12); /* 2.7731 */
  assert_close(speculative_tokens_per_step(0, 0.7, 1000), 1, 1e-12);
  assert_close(speculative_tokens_per_step(1, 0.25, 1000), 1.25, 1e-12);
  assert_close(speculative_tokens_per_step(8, 1, 4), 3, 1e-12); /* three are left after the first */
  assert_close(speculative_tokens_per_step(8, 1, 1), 1, 1e-12);
}
END_TEST

struct plant {
  struct hardware hardware;
  struct model model, draft;
  struct preset preset;
  struct engine plain, drafting;
};

/* Llama-3.1-70B, drafted for by the 8B or by a layer of itself. */
static void plant_build(struct plant *p, unsigned tp, unsigned drafts, double acceptance, bool is_module)
{
  const struct layout layout = {tp, 1, 1, 1};
  struct speculation speculation = {.draft_tokens = drafts, .model = &p->draft, .is_module = is_module};
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model("llama-3.1-70b");
  p->model.precision.kv_cache = PRECISION_BF16;
  if (is_module)
    speculative_module(&p->draft, &p->model);
  else
    p->draft = fixture_model("llama-3.1-8b");
  p->draft.precision.kv_cache = PRECISION_BF16;
  p->preset = fixture_preset(&p->hardware, "", "");
  p->plain = step_engine(&p->model, &p->hardware, &layout, &p->model.precision, PRECISION_NONE, &p->preset);
  p->drafting = p->plain;
  speculation.precision = p->draft.precision;
  speculation.tokens_per_step = speculative_tokens_per_step(drafts, acceptance, 1e6);
  speculative_attach(&p->drafting, &speculation);
}

/* With one sequence all is read once a step: weights of the 70B, four times those of the 8B (its 7.5 G parameters of layers
   and head in 16 bit over 2830.75 GB/s: test_step has 5.30 ms of its 6.71 ms step), the KV cache once and four times. */
START_TEST(a_step_verifies_and_drafts)
{
  static struct plant p;
  struct step_time plain, spec, draft;
  struct engine small;
  plant_build(&p, 4, 4, 0.7, false);
  small = step_engine(&p.draft, &p.hardware, &p.plain.layout, &p.draft.precision, PRECISION_NONE, &p.preset);
  step_decode(&plain, &p.plain, 1, 1000);
  step_decode(&draft, &small, 1, 1000);
  step_decode(&spec, &p.drafting, 1, 1000);
  assert_close(spec.draft_s, 4 * (draft.seconds - draft.fixed_s - draft.sequences_s), 1e-9);
  assert_close(spec.weight_bytes, plain.weight_bytes + 4 * draft.weight_bytes, 1e-12);
  assert_close(spec.kv_bytes, plain.kv_bytes + 4 * draft.kv_bytes, 1e-12); /* verification reads it once */
  assert_close(spec.fixed_s, plain.fixed_s, 1e-12);                        /* scheduled once */
  assert_close(spec.sequences_s, plain.sequences_s, 1e-12);
  ck_assert(spec.seconds - spec.draft_s > plain.seconds);
  ck_assert(spec.seconds - spec.draft_s < 1.05 * plain.seconds); /* five tokens instead of one: bandwidth-bound */
  ck_assert(spec.flops_s <= spec.seconds);
}
END_TEST

/* The module: one layer of 855.6 M parameters and the head of 1050.7 M, both over four ranks in 16 bit. */
START_TEST(a_module_is_one_layer_and_the_head)
{
  static struct plant p;
  struct step_time plain, spec;
  const double layer = 8192.0 * 10240 + 8192.0 * 8192 + 3 * 8192.0 * 28672;
  plant_build(&p, 4, 3, 0.7, true);
  step_decode(&plain, &p.plain, 1, 1000);
  step_decode(&spec, &p.drafting, 1, 1000);
  assert_close(spec.weight_bytes - plain.weight_bytes, 3 * 2 * (layer + 8192.0 * 128256) / 4, 1e-9);
  assert_close(p.drafting.drafter.weights_bytes, 2 * layer / 4 + 2 * 16384, 1e-6); /* the head is the model's own */
  assert_close(spec.kv_bytes - plain.kv_bytes, 3 * 2 * 2 * 8 * 128 * 1000.0 / 4, 1e-9);
  /* a token more is cached in one layer more of 80 */
  assert_close(steady_sequence_bytes(&p.drafting, 1600) / steady_sequence_bytes(&p.plain, 1600), 81.0 / 80, 1e-9);
}
END_TEST

START_TEST(a_checkpoint_brings_its_own_module)
{
  static struct model model, module;
  model = fixture_model("llama-3.1-8b");
  model.draft.modules = 1;
  model.draft.layer = model.layers[0];
  model.draft.layer.feed_forward.intermediate_size = 1234;
  speculative_module(&module, &model);
  ck_assert_uint_eq(module.layer_count, 1);
  ck_assert_uint_eq(module.layers[module.layer_order[0]].feed_forward.intermediate_size, 1234);
  ck_assert_uint_eq(module.draft.modules, 0);
  ck_assert_uint_eq(module.vocab_size, model.vocab_size);
}
END_TEST

/* The 8B has 32 heads and 8 KV heads: eight ranks split it; 40 heads of 10 KV heads do not split over 8 ranks but over 5. */
START_TEST(a_draft_splits_as_far_as_its_heads_allow)
{
  static struct plant p;
  struct speculation speculation = {.draft_tokens = 2, .tokens_per_step = 2};
  plant_build(&p, 8, 2, 0.5, false);
  ck_assert_uint_eq(p.drafting.drafter.layout.tensor_parallel, 8);
  p.draft = fixture_model("phi-4");
  p.draft.precision.kv_cache = PRECISION_BF16;
  speculation.model = &p.draft;
  speculation.precision = p.draft.precision;
  speculative_attach(&p.plain, &speculation);
  ck_assert_uint_eq(p.plain.drafter.layout.tensor_parallel, 5);
}
END_TEST

/* ---- properties ---- */

static double token_s(const struct engine *engine, double batch, double context)
{
  struct step_time time;
  double parts;
  step_decode(&time, engine, batch, context);
  parts = time.floors_s + time.layers_s + time.sequences_s + time.fixed_s + time.draft_s;
  for (int i = 0; i < OPERATOR_GROUP_COUNT; i++)
    parts += time.group_s[i];
  assert_close(parts, time.seconds, 1e-9);
  ck_assert_msg(time.flops_s <= time.seconds, "%g s of FLOPs in %g s", time.flops_s, time.seconds);
  return time.seconds / engine->drafter.tokens_per_step;
}

START_TEST(a_draft_that_is_never_right_is_never_faster)
{
  static struct plant p;
  uint64_t random = 3;
  for (int i = 0; i < 300; i++) {
    const double batch = exp(fixture_random(&random, 0, 6)), context = fixture_random(&random, 1, 30000);
    const unsigned drafts = 1 + fixture_random_index(&random, 64);
    double before = (double)INFINITY;
    plant_build(&p, 1u << fixture_random_index(&random, 4), drafts, 0, i % 2 == 0);
    ck_assert_msg(token_s(&p.drafting, batch, context) > token_s(&p.plain, batch, context), "batch %g drafts %u", batch,
                  drafts);
    for (double acceptance = 0; acceptance <= 1; acceptance += 0.25) { /* better guesses never hurt */
      p.drafting.drafter.tokens_per_step = speculative_tokens_per_step(drafts, acceptance, 1e6);
      ck_assert(token_s(&p.drafting, batch, context) <= before);
      before = token_s(&p.drafting, batch, context);
    }
  }
}
END_TEST

/* Public runs of 70B models with a small draft report two to three times the speed for one user, and a loss where the batch
   computes (hundreds of sequences). */
START_TEST(it_pays_for_few_and_not_for_many)
{
  static struct plant p;
  double gain;
  plant_build(&p, 4, 4, 0.8, true);
  gain = token_s(&p.plain, 1, 2000) / token_s(&p.drafting, 1, 2000);
  ck_assert_msg(gain > 1.8 && gain < 3.36, "%g times", gain); /* at most the tokens a step */
  ck_assert(token_s(&p.drafting, 1000, 100) > token_s(&p.plain, 1000, 100) * 0.9);
  plant_build(&p, 4, 4, 0.3, false);
  ck_assert(token_s(&p.drafting, 1000, 100) > token_s(&p.plain, 1000, 100));
}
END_TEST

/* ---- the steady state ---- */

START_TEST(littles_law_holds_with_drafts)
{
  static struct plant p;
  struct steady_load load = {.is_poisson = true, .prompt_tokens = 1000, .output_tokens = 300};
  plant_build(&p, 4, 4, 0.7, true);
  for (int closed = 0; closed < 2; closed++)
    for (double offered = 0.1; offered < 20; offered *= 3) {
      struct steady_state state;
      load.kind = closed != 0 ? LOAD_CLOSED : LOAD_OPEN;
      load.requests_per_s = offered;
      load.users = ceil(4 * offered);
      steady_evaluate(&state, &p.drafting, &load, 64);
      assert_close(state.in_system, state.requests_per_s * state.e2e_s, 1e-9);
      if (closed != 0)
        assert_close(state.in_system, load.users, 1e-3);
      assert_close(state.e2e_s, state.ttft_s + 299 * state.tpot_s, 1e-9);
      assert_close(state.itl_s, state.tpot_s * p.drafting.drafter.tokens_per_step, 1e-9);
      if (!state.is_saturated)
        assert_close(state.decode_batch, fmin(64, state.requests_per_s * 300 * state.tpot_s), 1e-9);
    }
}
END_TEST

START_TEST(verification_fits_the_token_budget)
{
  static struct plant p;
  struct memory_plan plan = {.kv_cache_bytes = 1e15};
  bool is_kv;
  plant_build(&p, 4, 7, 0.7, true);
  p.drafting.preset.max_batch = 1000;
  p.drafting.preset.max_batched_tokens = 2050;
  assert_close(steady_batch_limit(&is_kv, &p.drafting, &plan, 100, 100), 256, 1e-12); /* ⌊2050 / 8⌋ */
}
END_TEST

/* ---- sketches ---- */

struct problem {
  struct hardware hardware;
  struct model model, draft;
  struct workload workload;
  bool has_draft;
};

static void problem_init(struct problem *p)
{
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model("llama-3.1-70b");
  p->draft = fixture_model("llama-3.1-8b");
  p->has_draft = false;
  p->workload = fixture_workload();
  p->workload.traffic.requests_per_s = 0.1;
  p->workload.serving.tensor_parallel = 4;
  p->workload.serving.replicas = 1;
}

static void speculate(struct problem *p, unsigned drafts, double acceptance)
{
  p->workload.serving.speculative_draft_tokens = drafts;
  p->workload.serving.speculative_acceptance_ratio = acceptance;
}

static void name_draft(struct problem *p)
{
  fixture_text(p->workload.serving.speculative_draft_model, 65, "llama-3.1-8b");
  p->has_draft = true;
}

static enum err evaluate(struct scorecard *card, const struct problem *p, struct error *e)
{
  const struct fit_request request = {.workload = &p->workload,
                                      .model = &p->model,
                                      .hardware = &p->hardware,
                                      .depth = FIT_QUICK,
                                      .draft_model = p->has_draft ? &p->draft : NULL};
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

static bool is_found(const struct scorecard *card, const char *code)
{
  for (size_t i = 0; i < card->finding_count; i++)
    if (strcmp(card->findings[i].code, code) == 0)
      return true;
  return false;
}

START_TEST(a_card_says_what_is_drafted)
{
  static struct problem p;
  struct scorecard plain, module, named, useless;
  problem_init(&p);
  plain = card_of(&p);
  speculate(&p, 4, 0.7);
  module = card_of(&p);
  ck_assert(is_said(&module, "draft_model not given"));
  ck_assert(is_said(&module, "hands out 2.77 tokens"));
  ck_assert(is_found(&module, "speculation_pays"));
  ck_assert(module.latency.tpot_mean_s < plain.latency.tpot_mean_s);
  ck_assert(module.latency.itl_s.p50 > plain.latency.itl_s.p50); /* deliveries are rarer */
  ck_assert(module.prefill.time_s > plain.prefill.time_s);       /* the draft reads the prompt too */
  assert_close(module.memory.kv_bytes_per_token, 81.0 / 80 * plain.memory.kv_bytes_per_token, 1e-9);
  assert_close(module.memory.kv_bytes_per_session, 81.0 / 80 * plain.memory.kv_bytes_per_session, 1e-9);
  ck_assert(module.memory.max_context_tokens <= plain.memory.max_context_tokens);
  assert_close(module.throughput.at_concurrency, module.throughput.requests_per_s * module.latency.e2e_s.mean, 1e-9);
  name_draft(&p);
  named = card_of(&p);
  ck_assert(!is_said(&named, "draft_model not given"));
  /* 8.03 G parameters in 16 bit over four ranks: 3.74 GiB */
  assert_close((named.memory.weights_bytes - plain.memory.weights_bytes) / GIB, 3.74, 0.02);
  speculate(&p, 4, 0);
  useless = card_of(&p);
  ck_assert(is_found(&useless, "speculation_slows"));
  ck_assert(useless.latency.tpot_mean_s > plain.latency.tpot_mean_s);
  ck_assert(useless.limits.saturation_requests_per_s < plain.limits.saturation_requests_per_s);
}
END_TEST

static void assert_refused(const struct problem *p, const char *pointer)
{
  struct scorecard card;
  struct error e = {0};
  ck_assert_msg(evaluate(&card, p, &e) == ERR_INVALID, "%s is not refused", pointer);
  ck_assert_str_eq(e.pointer, pointer);
}

START_TEST(what_can_not_draft_is_refused_at_its_field)
{
  static struct problem p;
  problem_init(&p);
  speculate(&p, 65, 0.7);
  assert_refused(&p, "/serving/speculative/draft_tokens");
  speculate(&p, 20, 0.7);
  p.workload.serving.max_batched_tokens = 20;
  assert_refused(&p, "/serving/speculative/draft_tokens");
  p.workload.serving.max_batched_tokens = 0;
  speculate(&p, 4, 1.01);
  assert_refused(&p, "/serving/speculative/acceptance_rate");
  speculate(&p, 4, (double)NAN);
  assert_refused(&p, "/serving/speculative/acceptance_rate");
  speculate(&p, 4, 0.7);
  name_draft(&p);
  p.has_draft = false;
  assert_refused(&p, "/serving/speculative/draft_model");
  p.has_draft = true;
  p.draft.vocab_size = 32000;
  assert_refused(&p, "/serving/speculative/draft_model");
  p.draft = fixture_model("llama-3-8b"); /* the same vocabulary, 8,192 tokens */
  p.workload.traffic.input.fixed_tokens = 8000;
  assert_refused(&p, "/serving/speculative/draft_model");
}
END_TEST

START_TEST(the_same_sketch_gives_the_same_card)
{
  static struct problem p;
  struct scorecard first, second;
  problem_init(&p);
  speculate(&p, 3, 1);
  name_draft(&p);
  first = card_of(&p);
  second = card_of(&p);
  ck_assert_mem_eq(&first.latency, &second.latency, sizeof first.latency);
  ck_assert_mem_eq(&first.memory, &second.memory, sizeof first.memory);
  ck_assert_mem_eq(&first.throughput, &second.throughput, sizeof first.throughput);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("speculative");
  tcase_add_test(tcase, tokens_a_step_by_hand);
  tcase_add_test(tcase, a_step_verifies_and_drafts);
  tcase_add_test(tcase, a_module_is_one_layer_and_the_head);
  tcase_add_test(tcase, a_checkpoint_brings_its_own_module);
  tcase_add_test(tcase, a_draft_splits_as_far_as_its_heads_allow);
  tcase_add_test(tcase, a_draft_that_is_never_right_is_never_faster);
  tcase_add_test(tcase, it_pays_for_few_and_not_for_many);
  tcase_add_test(tcase, littles_law_holds_with_drafts);
  tcase_add_test(tcase, verification_fits_the_token_budget);
  tcase_add_test(tcase, a_card_says_what_is_drafted);
  tcase_add_test(tcase, what_can_not_draft_is_refused_at_its_field);
  tcase_add_test(tcase, the_same_sketch_gives_the_same_card);
  return fixture_run("core/speculative", tcase);
}
