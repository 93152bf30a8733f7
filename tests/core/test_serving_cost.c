/* The coefficients against the step model they stand for, and the simulation against the closed form where load is low. */
#include "core/serving.h"

#include "core/steady.h"
#include "tests/core/serving_fixtures.h"

struct plant {
  struct hardware hardware;
  struct model model;
  struct engine engine;
  struct memory_plan memory;
};

/* Engines borrow model and hardware: the plant must stay where it is. */
static void plant_build(struct plant *plant, const char *device, const char *model, unsigned tp, const char *runtime)
{
  const struct layout layout = {tp, 1, 1, 1};
  struct model_precision precision;
  struct preset preset;
  plant->hardware = fixture_hardware(device);
  plant->model = fixture_model(model);
  preset = fixture_preset(&plant->hardware, runtime, "");
  fixture_set_precision(&precision, PRECISION_BF16);
  plant->engine = step_engine(&plant->model, &plant->hardware, &layout, &precision, PRECISION_NONE, &preset);
  memory_plan(&plant->memory, &plant->model, &plant->hardware, &layout, &precision, &preset);
}

struct setup {
  const char *device, *model;
  unsigned tp;
  const char *runtime;
};
static const struct setup setups[] = {{"h100-sxm-80gb", "llama-3.1-8b", 1, "vllm"},
                                      {"h100-sxm-80gb", "llama-3.1-70b", 4, "sglang"},
                                      {"a100-sxm-80gb", "llama-3.1-70b", 8, "tensorrt-llm"},
                                      {"l40s-48gb", "llama-3.1-8b", 2, "vllm"},
                                      {"b200-sxm-180gb", "qwen3-14b", 1, "atom"}};

/* Beside the knots of the line, and at half and double the typical context, the step is within 4 %. */
START_TEST(test_decode_steps)
{
  static struct plant plant;
  static const double contexts[] = {0.5, 1, 2};
  for (size_t i = 0; i < FIXTURE_COUNT(setups); i++) {
    struct serving_cost cost;
    plant_build(&plant, setups[i].device, setups[i].model, setups[i].tp, setups[i].runtime);
    serving_cost_of(&cost, &plant.engine, 2000, 0, 400);
    for (uint32_t batch = 1; batch <= 256; batch += 1 + batch / 3)
      for (size_t c = 0; c < FIXTURE_COUNT(contexts); c++) {
        const double context = 2200 * contexts[c];
        const struct serving_decode *line = serving_segment(&cost, batch);
        struct step_time step;
        step_decode(&step, &plant.engine, batch, context);
        assert_close(line->step_s + batch * (line->sequence_s + line->context_token_s * context), step.seconds, 0.04);
      }
  }
}
END_TEST

/* Exact for the typical prompt and half of it; with collectives over PCIe other lengths are off by up to 6 %. */
START_TEST(test_prompts)
{
  static struct plant plant;
  for (size_t i = 0; i < FIXTURE_COUNT(setups); i++) {
    struct serving_cost cost;
    struct prompt_time prompt;
    double hidden_s; /* of the host's work: before the engine, so that no decode waits for it */
    plant_build(&plant, setups[i].device, setups[i].model, setups[i].tp, setups[i].runtime);
    serving_cost_of(&cost, &plant.engine, 2000, 0, 400);
    hidden_s = cost.server_s - step_server_s(&plant.engine, 0);
    ck_assert_double_ge(hidden_s, 0);
    for (double tokens = 1000; tokens <= 4000; tokens += 1000) {
      step_prompt(&prompt, &plant.engine, tokens, 0, 1, 2200);
      assert_close(serving_prompt_s(&cost, tokens, 0) + cost.prompt_fixed_s + hidden_s,
                   prompt.added_s + step_prompt_host_s(&plant.engine, 1), 0.06);
    }
    step_prompt(&prompt, &plant.engine, 2000, 0, 1, 2200);
    assert_close(cost.prompt_step_s + (1 - cost.prompt_alone_saved_ratio) * serving_prompt_s(&cost, 2000, 0) +
                     cost.prompt_fixed_s + hidden_s,
                 prompt.alone_s + step_prompt_host_s(&plant.engine, 1), 1e-9);
  }
}
END_TEST

enum { ROWS = 20000 };
static struct arrival rows[ROWS];
static struct serving_outcome outcomes[ROWS];

struct means {
  double ttft_s, tpot_s, e2e_s, batch;
};

static struct means simulate_mean(const struct plant *plant, const struct steady_load *load)
{
  const struct arrivals plan = {.load = load->kind,
                                .arrival = load->is_poisson ? ARRIVAL_POISSON : ARRIVAL_STEADY,
                                .requests_per_s = load->requests_per_s,
                                .input = {.kind = LENGTH_FIXED, .fixed_tokens = load->prompt_tokens},
                                .output = {.kind = LENGTH_FIXED, .fixed_tokens = load->output_tokens}};
  struct serving_cost cost;
  struct serving_run run = {.cost = &cost, .arrivals = rows, .count = ROWS, .users = (uint32_t)load->users};
  struct serving_totals totals;
  struct means means = {0};
  struct error e;
  serving_cost_of(&cost, &plant->engine, load->prompt_tokens, 0, load->output_tokens);
  serving_settings_of(&run.settings, &plant->engine.preset);
  run.settings.kv_blocks = (uint64_t)(plant->memory.kv_tokens / run.settings.kv_block_tokens);
  ck_assert_int_eq(arrivals_draw(rows, ROWS, &plan, 1, &e), ERR_OK);
  simulate_ok(outcomes, &totals, &run);
  for (int i = 0; i < ROWS; i++) {
    means.ttft_s += (outcomes[i].first_s - outcomes[i].send_s) / ROWS;
    means.e2e_s += (outcomes[i].finish_s - outcomes[i].send_s) / ROWS;
    means.tpot_s += (outcomes[i].finish_s - outcomes[i].first_s) / (load->output_tokens - 1) / ROWS;
  }
  means.batch = totals.decode_sequence_s / totals.end_s;
  return means;
}

static void compare_low_load(const struct plant *plant, struct steady_load load)
{
  struct steady_state steady;
  struct means means;
  bool is_kv;
  const double limit =
      steady_batch_limit(&is_kv, &plant->engine, &plant->memory, load.prompt_tokens, load.output_tokens);
  steady_evaluate(&steady, &plant->engine, &load, limit);
  load.requests_per_s = 0.1 / steady.e2e_s;
  steady_evaluate(&steady, &plant->engine, &load, limit);
  means = simulate_mean(plant, &load);
  assert_close(means.ttft_s, steady.ttft_s, 0.03);
  assert_close(means.tpot_s, steady.tpot_s, 0.03);
  assert_close(means.e2e_s, steady.e2e_s, 0.03);
  if (load.kind == LOAD_OPEN)
    assert_close(means.batch, 0.1, 0.06); /* the rest of 0.1 are prompts */
}

/* A tenth of a request in the system on average; and one user. */
START_TEST(test_low_load_is_the_closed_form)
{
  static struct plant plant;
  for (size_t i = 0; i < FIXTURE_COUNT(setups); i++) {
    struct steady_load load = {
        .kind = LOAD_OPEN, .is_poisson = true, .requests_per_s = 1e-3, .prompt_tokens = 2000, .output_tokens = 400};
    plant_build(&plant, setups[i].device, setups[i].model, setups[i].tp, setups[i].runtime);
    compare_low_load(&plant, load);
    load.is_poisson = false;
    compare_low_load(&plant, load);
    load.kind = LOAD_CLOSED;
    load.users = 1;
    compare_low_load(&plant, load);
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("serving_cost");
  tcase_add_test(tcase, test_decode_steps);
  tcase_add_test(tcase, test_prompts);
  tcase_add_test(tcase, test_low_load_is_the_closed_form);
  return fixture_run("serving_cost", tcase);
}
