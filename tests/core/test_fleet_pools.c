/* Pools and drafts in the simulation against the closed forms where load is low. */
#include "core/fleet.h"

#include "tests/core/serving_fixtures.h"

struct plant {
  struct hardware hardware;
  struct model model, draft;
  struct engine engine;
};

/* Engines borrow model and hardware: the plant must stay where it is. */
static void plant_build_with(struct plant *p, const char *model, struct layout layout)
{
  struct model_precision precision;
  struct preset preset;
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model(model);
  preset = fixture_preset(&p->hardware, "vllm", "");
  fixture_set_precision(&precision, PRECISION_BF16);
  p->engine = step_engine(&p->model, &p->hardware, &layout, &precision, PRECISION_NONE, &preset);
}

static void plant_build(struct plant *p, const char *model, unsigned tp)
{
  plant_build_with(p, model, (struct layout){tp, 1, 1, 1});
}

enum { ROWS = 20000 };
static struct arrival rows[ROWS];
static struct serving_outcome outcomes[ROWS];

static const struct steady_load low_load = {
    .kind = LOAD_OPEN, .is_poisson = true, .requests_per_s = 1e-3, .prompt_tokens = 2000, .output_tokens = 400};

static struct fleet_run run_of(const struct plant *p, const struct serving_cost *cost)
{
  struct fleet_run run = {.cost = cost, .replicas = 1, .arrivals = rows, .count = ROWS};
  serving_settings_of(&run.settings, &p->engine.preset);
  serving_settings_add_drafts(&run.settings, &p->engine.drafter);
  return run;
}

static void compare(const struct fleet_run *run, const struct steady_state *steady, double rate)
{
  static unsigned char memory[4 << 20];
  const struct arrivals plan = {.load = LOAD_OPEN,
                                .arrival = ARRIVAL_POISSON,
                                .requests_per_s = rate,
                                .input = {.kind = LENGTH_FIXED, .fixed_tokens = low_load.prompt_tokens},
                                .output = {.kind = LENGTH_FIXED, .fixed_tokens = low_load.output_tokens}};
  struct fleet_totals totals;
  struct arena arena;
  struct error e;
  double ttft_s = 0, tpot_s = 0, e2e_s = 0;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_int_eq(arrivals_draw(rows, ROWS, &plan, 1, &e), ERR_OK);
  ck_assert_int_eq(fleet_simulate(outcomes, &totals, NULL, run, &arena, &e), ERR_OK);
  for (int i = 0; i < ROWS; i++) {
    ttft_s += (outcomes[i].first_s - outcomes[i].send_s) / ROWS;
    e2e_s += (outcomes[i].finish_s - outcomes[i].send_s) / ROWS;
    tpot_s += (outcomes[i].finish_s - outcomes[i].first_s) / (low_load.output_tokens - 1) / ROWS;
  }
  assert_close(ttft_s, steady->ttft_s, 0.03);
  assert_close(tpot_s, steady->tpot_s, 0.03);
  assert_close(e2e_s, steady->e2e_s, 0.03);
}

START_TEST(test_pools_at_low_load)
{
  static struct plant p;
  static const struct pools cases[] = {{1, 1}, {2, 2}, {4, 8}};
  for (size_t i = 0; i < FIXTURE_COUNT(cases); i++) {
    struct steady_load load = low_load;
    struct steady_state steady;
    struct serving_cost cost;
    struct fleet_run run;
    plant_build(&p, i == 2 ? "llama-3.1-70b" : "llama-3.1-8b", i == 2 ? 4 : 1);
    serving_cost_of(&cost, &p.engine, load.prompt_tokens, 0, load.output_tokens);
    run = run_of(&p, &cost);
    fleet_set_pools(&run, &p.engine, &cases[i], load.prompt_tokens);
    disaggregated_evaluate(&steady, &p.engine, &cases[i], &load, 64);
    load.requests_per_s = 0.1 / steady.e2e_s;
    disaggregated_evaluate(&steady, &p.engine, &cases[i], &load, 64);
    compare(&run, &steady, load.requests_per_s);
  }
}
END_TEST

START_TEST(test_drafts_at_low_load)
{
  static struct plant p;
  static const double acceptances[] = {0, 0.6, 0.9};
  for (size_t i = 0; i < FIXTURE_COUNT(acceptances); i++) {
    struct speculation speculation = {.draft_tokens = 4, .model = &p.draft, .is_module = true};
    struct steady_load load = low_load;
    struct steady_state steady;
    struct serving_cost cost;
    struct fleet_run run;
    plant_build(&p, "llama-3.1-70b", 4);
    speculative_module(&p.draft, &p.model);
    speculation.precision = p.engine.precision;
    speculation.tokens_per_step = speculative_tokens_per_step(4, acceptances[i], load.output_tokens);
    speculative_attach(&p.engine, &speculation);
    serving_cost_of(&cost, &p.engine, load.prompt_tokens, 0, load.output_tokens);
    run = run_of(&p, &cost);
    steady_evaluate(&steady, &p.engine, &load, 64);
    load.requests_per_s = 0.1 / steady.e2e_s;
    steady_evaluate(&steady, &p.engine, &load, 64);
    compare(&run, &steady, load.requests_per_s);
  }
}
END_TEST

/* A prompt goes through its stages one after the other, or is computed by its own attention rank. */
START_TEST(test_stages_and_ranks_at_low_load)
{
  static struct plant p;
  static const struct layout layouts[] = {
      {.tensor_parallel = 4, .pipeline_parallel = 2, .expert_parallel = 1, .attention_data_parallel = 1},
      {.tensor_parallel = 2, .pipeline_parallel = 4, .expert_parallel = 1, .attention_data_parallel = 1},
      {.tensor_parallel = 1, .pipeline_parallel = 1, .expert_parallel = 8, .attention_data_parallel = 8}};
  for (size_t i = 0; i < FIXTURE_COUNT(layouts); i++) {
    struct steady_load load = low_load;
    struct steady_state steady;
    struct serving_cost cost;
    struct fleet_run run;
    plant_build_with(&p, i == 2 ? "llama-3.1-8b" : "llama-3.1-70b", layouts[i]);
    serving_cost_of(&cost, &p.engine, load.prompt_tokens, 0, load.output_tokens);
    run = run_of(&p, &cost);
    steady_evaluate(&steady, &p.engine, &load, 64);
    load.requests_per_s = 0.1 / steady.e2e_s;
    steady_evaluate(&steady, &p.engine, &load, 64);
    compare(&run, &steady, load.requests_per_s);
  }
}
END_TEST

/* 4 × (1 + 4 drafts) tokens are a budget of 20, so no more than 4 sequences decode. */
START_TEST(test_drafts_take_places)
{
  struct serving_settings settings = plain_settings();
  struct drafter drafter = {.draft_tokens = 4, .tokens_per_step = 2.5};
  settings.max_batched_tokens = 24;
  serving_settings_add_drafts(&settings, &drafter);
  ck_assert_uint_eq(settings.max_batch, 4);
  ck_assert_uint_eq(settings.draft_tokens, 4);
  assert_close(settings.tokens_per_step, 2.5, 1e-12);
}
END_TEST

/* Whole prompts of 1,000 tokens: a budget of 1,000 lets them in when nothing decodes, one of 1,064 beside 64 decodes. Cut
   prompts and steps of prompts alone never wait for decodes. */
START_TEST(test_decodes_beside_a_prompt)
{
  struct serving_settings settings = plain_settings();
  ck_assert_uint_eq(serving_decodes_beside(&settings, 1000), UINT32_MAX);
  settings.has_whole_prompts = true;
  settings.max_batched_tokens = 1000;
  ck_assert_uint_eq(serving_decodes_beside(&settings, 1000), 0);
  settings.max_batched_tokens = 1064;
  ck_assert_uint_eq(serving_decodes_beside(&settings, 1000), 64);
  settings.draft_tokens = 3;
  ck_assert_uint_eq(serving_decodes_beside(&settings, 1000), 16);
  settings.is_prefill_first = true;
  ck_assert_uint_eq(serving_decodes_beside(&settings, 1000), UINT32_MAX);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("fleet_pools");
  tcase_add_test(tcase, test_pools_at_low_load);
  tcase_add_test(tcase, test_drafts_at_low_load);
  tcase_add_test(tcase, test_stages_and_ranks_at_low_load);
  tcase_add_test(tcase, test_drafts_take_places);
  tcase_add_test(tcase, test_decodes_beside_a_prompt);
  return fixture_run("fleet_pools", tcase);
}
