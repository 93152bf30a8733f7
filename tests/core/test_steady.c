/* The steady state: Little's law, bounds that hold at any load, and what saturation means. Expected relations are those
   of queueing theory and of core/steady.h, over a grid of devices, models, lengths and loads. */
#include "core/steady.h"

#include "tests/core/fixtures.h"

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
  const struct step_constants constants = fixture_constants();
  plant->engine =
      step_engine_with(&constants, &plant->model, &plant->hardware, &layout, &precision, PRECISION_NONE, &preset);
  memory_plan(&plant->memory, &plant->model, &plant->hardware, &layout, &precision, &preset);
}

struct shape {
  double prompt, cached, output;
};
static const struct shape shapes[] = {{2048, 0, 256},  {128, 0, 1024}, {30000, 0, 200},
                                      {512, 1536, 64}, {1, 0, 1},      {4000, 0, 1}};

struct setup {
  const char *device, *model;
  unsigned tp;
  const char *runtime;
};
static const struct setup setups[] = {{"h100-sxm-80gb", "llama-3.1-8b", 1, "vllm"},
                                      {"h100-sxm-80gb", "llama-3.1-70b", 4, "sglang"},
                                      {"a100-sxm-80gb", "llama-3.1-70b", 8, "tensorrt-llm"},
                                      {"l40s-48gb", "llama-3.1-8b", 2, "vllm"},
                                      {"t4-16gb", "llama-2-7b", 4, "atom"}};

static struct steady_load load_of(const struct shape *shape)
{
  const struct steady_load load = {.is_poisson = true,
                                   .prompt_tokens = shape->prompt,
                                   .cached_tokens = shape->cached,
                                   .output_tokens = shape->output};
  return load;
}

static void assert_figures(const struct steady_state *s, const struct steady_load *load, const char *what)
{
  const double figures[] = {s->requests_per_s,
                            s->ttft_s,
                            s->tpot_s,
                            s->itl_s,
                            s->e2e_s,
                            s->queue_s,
                            s->decode_batch,
                            s->in_system,
                            s->utilisation_ratio,
                            s->idle_ratio,
                            s->prefill_share_ratio,
                            s->decode_share_ratio};
  for (size_t i = 0; i < FIXTURE_COUNT(figures); i++)
    ck_assert_msg(isfinite(figures[i]) && figures[i] >= 0, "%s: figure %zu is %g", what, i, figures[i]);
  assert_close(s->in_system, s->requests_per_s * s->e2e_s, 1e-9); /* Little */
  assert_close(s->prefill_share_ratio + s->decode_share_ratio, 1, 1e-9);
  assert_close(s->e2e_s, s->ttft_s + (load->output_tokens - 1) * s->tpot_s, 1e-9);
  ck_assert_msg(s->tpot_s >= s->decode.seconds * (1 - 1e-12), "%s: a token takes %g s, a step %g s", what, s->tpot_s,
                s->decode.seconds);
  ck_assert_msg(s->e2e_s >= s->ttft_s && s->ttft_s >= s->queue_s, "%s: e2e %g ttft %g queue %g", what, s->e2e_s,
                s->ttft_s, s->queue_s);
}

/* Calls `check` for every setup × shape whose KV pool holds a request. */
static void over_grid(void (*check)(const struct plant *plant, const struct steady_load *load, double limit))
{
  static struct plant plant;
  unsigned tried = 0;
  for (size_t i = 0; i < FIXTURE_COUNT(setups); i++) {
    plant_build(&plant, setups[i].device, setups[i].model, setups[i].tp, setups[i].runtime);
    for (size_t j = 0; j < FIXTURE_COUNT(shapes); j++) {
      const struct steady_load load = load_of(&shapes[j]);
      bool is_kv;
      const double limit = steady_batch_limit(&is_kv, &plant.engine, &plant.memory, shapes[j].prompt + shapes[j].cached,
                                              shapes[j].output);
      if (limit < 1)
        continue;
      check(&plant, &load, limit);
      tried++;
    }
  }
  ck_assert_uint_ge(tried, 20);
}

/* Work is conserved: no number of users finishes more than the capacity. */
static void check_closed(const struct plant *plant, const struct steady_load *load, double limit)
{
  static const double users[] = {1, 1.5, 2, 3, 8, 60, 500, 3000, 1e5};
  struct steady_load closed = *load;
  const double capacity = steady_capacity(&plant->engine, load, limit);
  double rate_before = 0;
  closed.kind = LOAD_CLOSED;
  for (size_t i = 0; i < FIXTURE_COUNT(users); i++) {
    struct steady_state state;
    char what[160];
    closed.users = users[i];
    (void)snprintf(what, sizeof what, "%s, %g users", plant->hardware.name, users[i]);
    steady_evaluate(&state, &plant->engine, &closed, limit);
    assert_figures(&state, &closed, what);
    assert_close(state.in_system, users[i], 1e-9); /* N = X · R: all users are in the system */
    ck_assert_msg(!state.is_saturated, "%s: a closed loop does not diverge", what);
    ck_assert_msg(state.decode_batch <= fmin(limit, users[i]) * (1 + 1e-9), "%s: %g decode at once", what,
                  state.decode_batch);
    ck_assert_msg(state.requests_per_s <= capacity * 1.001, "%s: %g requests/s, capacity %g", what,
                  state.requests_per_s, capacity);
    ck_assert_msg(state.requests_per_s >= rate_before * 0.97, "%s: %g requests/s, with fewer users %g", what,
                  state.requests_per_s, rate_before);
    rate_before = state.requests_per_s;
  }
}

START_TEST(closed_loop_obeys_littles_law_at_every_number_of_users)
{
  over_grid(check_closed);
}
END_TEST

/* A share of a user (a fleet with more replicas than users): the request runs alone, so its times are those of one user. */
static void check_fraction(const struct plant *plant, const struct steady_load *load, double limit)
{
  static const double users[] = {1e-6, 0.1, 0.5, 0.9};
  struct steady_load closed = *load;
  struct steady_state alone, state;
  closed.kind = LOAD_CLOSED;
  closed.users = 1;
  steady_evaluate(&alone, &plant->engine, &closed, limit);
  for (size_t i = 0; i < FIXTURE_COUNT(users); i++) {
    char what[160];
    closed.users = users[i];
    (void)snprintf(what, sizeof what, "%s, %g users", plant->hardware.name, users[i]);
    steady_evaluate(&state, &plant->engine, &closed, limit);
    assert_figures(&state, &closed, what);
    assert_close(state.in_system, users[i], 1e-9);
    ck_assert_msg(state.e2e_s <= alone.e2e_s * 1.03 && state.e2e_s >= alone.e2e_s * 0.97, "%s: e2e %g, alone %g", what,
                  state.e2e_s, alone.e2e_s);
  }
}

START_TEST(closed_loop_with_less_than_one_user_is_one_request_alone)
{
  over_grid(check_fraction);
}
END_TEST

static void check_open(const struct plant *plant, const struct steady_load *load, double limit)
{
  static const double shares[] = {1e-6, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.999};
  struct steady_load open = *load;
  const double capacity = steady_capacity(&plant->engine, load, limit);
  open.kind = LOAD_OPEN;
  for (int poisson = 0; poisson < 2; poisson++) {
    double e2e_before = 0;
    open.is_poisson = poisson != 0;
    for (size_t i = 0; i < FIXTURE_COUNT(shares); i++) {
      struct steady_state state;
      char what[192];
      open.requests_per_s = shares[i] * capacity;
      (void)snprintf(what, sizeof what, "%s, %g in %g out, %g of capacity", plant->hardware.name, load->prompt_tokens,
                     load->output_tokens, shares[i]);
      steady_evaluate(&state, &plant->engine, &open, limit);
      assert_figures(&state, &open, what);
      assert_close(state.requests_per_s, open.requests_per_s, 1e-9); /* what comes in goes out */
      assert_close(state.utilisation_ratio, shares[i], 1e-9);
      ck_assert_msg(!state.is_saturated, "%s: saturated", what);
      ck_assert_msg(state.decode_batch <= limit * (1 + 1e-9), "%s: %g decode at once, limit %g", what,
                    state.decode_batch, limit);
      ck_assert_msg(state.e2e_s >= e2e_before * (1 - 1e-3), "%s: e2e %g, at lower load %g", what, state.e2e_s,
                    e2e_before);
      e2e_before = state.e2e_s;
    }
  }
}

START_TEST(open_loop_obeys_littles_law_below_capacity)
{
  over_grid(check_open);
}
END_TEST

/* core/steady.h: beyond capacity the flag is set and the figures are those at capacity. */
static void check_saturation(const struct plant *plant, const struct steady_load *load, double limit)
{
  static const double shares[] = {1, 1.0001, 1.5, 20, 1e6};
  struct steady_load open = *load;
  const double capacity = steady_capacity(&plant->engine, load, limit);
  open.kind = LOAD_OPEN;
  for (size_t i = 0; i < FIXTURE_COUNT(shares); i++) {
    struct steady_state state;
    char what[160];
    open.requests_per_s = shares[i] * capacity;
    (void)snprintf(what, sizeof what, "%s, %g of capacity", plant->hardware.name, shares[i]);
    steady_evaluate(&state, &plant->engine, &open, limit);
    ck_assert_msg(state.is_saturated, "%s: not flagged", what);
    assert_figures(&state, &open, what);
    ck_assert_msg(state.requests_per_s <= capacity * (1 + 1e-9), "%s: %g requests/s finish, capacity %g", what,
                  state.requests_per_s, capacity);
    ck_assert_msg(state.decode_batch <= limit * (1 + 1e-9), "%s: %g decode at once, limit %g", what, state.decode_batch,
                  limit);
  }
}

START_TEST(saturation_is_flagged_with_the_figures_at_capacity)
{
  over_grid(check_saturation);
}
END_TEST

/* With one request in flight at most, open and closed loop are the same engine. CORE §5 asks 3 %. */
static void check_low_load(const struct plant *plant, const struct steady_load *load, double limit)
{
  struct steady_load one = *load, open = *load;
  struct steady_state closed_state, open_state;
  one.kind = LOAD_CLOSED;
  one.users = 1;
  open.kind = LOAD_OPEN;
  steady_evaluate(&closed_state, &plant->engine, &one, limit);
  open.requests_per_s = 1e-4 / closed_state.e2e_s;
  steady_evaluate(&open_state, &plant->engine, &open, limit);
  assert_close(open_state.tpot_s, closed_state.tpot_s, 0.03);
  assert_close(open_state.ttft_s, closed_state.ttft_s, 0.03);
  assert_close(open_state.e2e_s, closed_state.e2e_s, 0.03);
}

START_TEST(open_loop_approaches_one_user_at_low_load)
{
  over_grid(check_low_load);
}
END_TEST

/* Decodes that ride in a compute-bound chunk cost compute of their own, so a larger batch may lose a little. */
static void check_capacity(const struct plant *plant, const struct steady_load *load, double limit)
{
  double before = 0;
  (void)limit;
  for (double batch = 1; batch <= 4096; batch *= 2) {
    const double capacity = steady_capacity(&plant->engine, load, batch);
    ck_assert_msg(isfinite(capacity) && capacity >= before * 0.95,
                  "%s, %g in %g out: capacity %.9g at batch %g, %.9g at half of it", plant->hardware.name,
                  load->prompt_tokens, load->output_tokens, capacity, batch, before);
    before = capacity;
  }
}

START_TEST(capacity_grows_with_the_batch_limit)
{
  over_grid(check_capacity);
}
END_TEST

/* A waiting line can not be shorter than that of a server that takes jobs one by one and each takes 1/capacity on
   average: with a batch limit of 1 the replica is M/G/1, whose mean wait is at least ρ/(2(1-ρ)) · E[S] (Pollaczek-
   Khinchine with constant service). */
START_TEST(poisson_arrivals_wait_for_the_only_slot)
{
  static struct plant plant;
  struct steady_load load = load_of(&shapes[0]);
  struct steady_state state;
  double capacity;
  plant_build(&plant, "h100-sxm-80gb", "llama-3.1-8b", 1, "vllm");
  load.kind = LOAD_OPEN;
  capacity = steady_capacity(&plant.engine, &load, 1);
  load.requests_per_s = 0.9 * capacity;
  steady_evaluate(&state, &plant.engine, &load, 1);
  ck_assert_msg(state.queue_s >= 0.9 / (2 * 0.1) / capacity, "queue %g s at 0.9 of capacity, M/D/1 waits %g s",
                state.queue_s, 0.9 / (2 * 0.1) / capacity);
}
END_TEST

/* H100, Llama-3.1-8B: pool kv bytes; a sequence of 2048 in and 0.6 · 256 of 256 out holds 2201.6 tokens, in blocks of 16:
   2208, each 32 layers · 2 · 8 · 128 · 2 B = 131072 B. */
START_TEST(batch_limit_is_the_pool_over_the_held_tokens)
{
  static struct plant plant;
  bool is_kv;
  double limit;
  plant_build(&plant, "h100-sxm-80gb", "llama-3.1-8b", 1, "vllm");
  limit = steady_batch_limit(&is_kv, &plant.engine, &plant.memory, 2048, 256);
  assert_close(limit, plant.memory.kv_cache_bytes / (2208.0 * 131072), 1e-12);
  ck_assert(is_kv);
  limit = steady_batch_limit(&is_kv, &plant.engine, &plant.memory, 16, 16);
  assert_close(limit, 1024, 1e-12); /* the preset's max_num_seqs */
  ck_assert(!is_kv);
  plant.memory.kv_cache_bytes = -1;
  limit = steady_batch_limit(&is_kv, &plant.engine, &plant.memory, 2048, 256);
  ck_assert(fabs(limit) <= 0);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("steady");
  tcase_add_test(tcase, closed_loop_obeys_littles_law_at_every_number_of_users);
  tcase_add_test(tcase, closed_loop_with_less_than_one_user_is_one_request_alone);
  tcase_add_test(tcase, open_loop_obeys_littles_law_below_capacity);
  tcase_add_test(tcase, saturation_is_flagged_with_the_figures_at_capacity);
  tcase_add_test(tcase, open_loop_approaches_one_user_at_low_load);
  tcase_add_test(tcase, capacity_grows_with_the_batch_limit);
  tcase_add_test(tcase, poisson_arrivals_wait_for_the_only_slot);
  tcase_add_test(tcase, batch_limit_is_the_pool_over_the_held_tokens);
  return fixture_run("core/steady", tcase);
}
