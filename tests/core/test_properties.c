/* What must hold of the time of a step, of a prompt and of the steady state whatever the model, the device and the load:
   random architectures on random devices under random loads, from a fixed seed. Nothing here knows how the core computes;
   expected relations are those of arithmetic and physics. Constants are the priors, so a refit moves no case. */
#include "core/parallel.h"
#include "core/served.h"
#include "core/steady.h"

#include "tests/core/fixtures.h"

#define CASES 2000
#define LEAST_CASES 1000 /* that a seed must reach: the rest are layouts that a model does not allow */

/* One random case; engines borrow from it, so it stays where it is. */
struct plant {
  struct model model;
  struct hardware hardware;
  struct layout layout;
  struct model_precision precision;
  struct preset preset;
  struct engine engine;
  double batch, context, prompt, past;
  char what[384];
};

#define PICK(state, array) ((array)[fixture_random_index((state), FIXTURE_COUNT(array))])

static double random_count(uint64_t *state, double low, double high)
{
  return floor(exp(fixture_random(state, log(low), log(high))));
}

static struct attention random_attention(uint64_t *state, unsigned hidden)
{
  static const unsigned heads[] = {8, 16, 32, 64}, shares[] = {1, 2, 4, 8}, dims[] = {64, 128, 256};
  struct attention a;
  memset(&a, 0, sizeof a);
  a.query_heads = PICK(state, heads);
  a.kv_heads = a.query_heads / PICK(state, shares);
  a.head_dim = a.value_head_dim = PICK(state, dims);
  a.window_tokens = fixture_random(state, 0, 1) < 0.3 ? (unsigned)random_count(state, 128, 8192) : 0;
  if (fixture_random(state, 0, 1) < 0.2) {
    a.kind = ATTENTION_LATENT;
    a.kv_lora_rank = 512;
    a.query_lora_rank = fixture_random(state, 0, 1) < 0.5 ? 0 : 1536;
    a.rope_head_dim = 64;
    a.nope_head_dim = a.head_dim = a.value_head_dim = 128;
    a.window_tokens = 0;
  } else if (fixture_random(state, 0, 1) < 0.2) {
    a.kind = ATTENTION_LINEAR;
    a.linear_parameters = 4 * (uint64_t)hidden * hidden;
    a.linear_state_elements = 128 * (uint64_t)hidden;
    a.window_tokens = 0;
  }
  return a;
}

static struct feed_forward random_feed_forward(uint64_t *state, unsigned hidden)
{
  static const unsigned experts[] = {8, 16, 64, 128, 256};
  struct feed_forward f;
  memset(&f, 0, sizeof f);
  f.kind = FEED_FORWARD_DENSE;
  f.intermediate_size = 4 * hidden;
  f.is_gated = fixture_random(state, 0, 1) < 0.8;
  if (fixture_random(state, 0, 1) < 0.4) {
    f.kind = FEED_FORWARD_MOE;
    f.experts = PICK(state, experts);
    f.experts_per_token = 1 + fixture_random_index(state, 8);
    f.intermediate_size = hidden / 2;
    f.shared_intermediate_size = fixture_random(state, 0, 1) < 0.5 ? 0 : hidden / 2;
  }
  return f;
}

static void random_model(struct model *model, uint64_t *state)
{
  static const unsigned widths[] = {512, 1024, 2048, 4096, 8192, 16384}, vocabularies[] = {32000, 128256, 262144};
  memset(model, 0, sizeof *model);
  fixture_text(model->name, sizeof model->name, "random");
  model->hidden_size = PICK(state, widths);
  model->vocab_size = PICK(state, vocabularies);
  model->has_tied_embeddings = fixture_random(state, 0, 1) < 0.3;
  model->final_norm_parameters = model->hidden_size;
  fixture_set_precision(&model->precision, PRECISION_BF16);
  for (unsigned kinds = 1 + fixture_random_index(state, 3); kinds > 0; kinds--) {
    struct layer layer = {.attention = random_attention(state, model->hidden_size),
                          .feed_forward = random_feed_forward(state, model->hidden_size),
                          .norm_parameters = 2 * model->hidden_size};
    ck_assert_int_eq(model_append_layers(model, &layer, 1 + fixture_random_index(state, 40), NULL), ERR_OK);
  }
}

static void random_hardware(struct hardware *hardware, uint64_t *state)
{
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  *hardware = fixture_hardware_of(&devices[fixture_random_index(state, count)]);
  if (fixture_random(state, 0, 1) < 0.15)
    hardware->power_cap_w = hardware->tdp_w * fixture_random(state, 0.3, 1);
  if (fixture_random(state, 0, 1) < 0.15)
    hardware->sustained_clock_fraction = fixture_random(state, 0.5, 1);
  if (fixture_random(state, 0, 1) < 0.15)
    hardware->share = fixture_random(state, 0.1, 1);
}

static bool random_layout(struct plant *plant, uint64_t *state)
{
  static const unsigned tensor[] = {1, 1, 2, 4, 8}, pipeline[] = {1, 1, 1, 2, 4}, data[] = {1, 1, 1, 2, 8};
  char why[192];
  plant->layout = (struct layout){PICK(state, tensor), PICK(state, pipeline), 1, PICK(state, data)};
  if (fixture_random(state, 0, 1) < 0.3)
    plant->layout.expert_parallel = plant->layout.tensor_parallel * plant->layout.attention_data_parallel;
  return parallel_check(why, sizeof why, &plant->model, &plant->hardware, &plant->layout);
}

static struct engine engine_on(const struct plant *plant, const struct hardware *hardware)
{
  const struct step_constants constants = fixture_constants();
  return step_engine_with(&constants, &plant->model, hardware, &plant->layout, &plant->precision, PRECISION_NONE,
                          &plant->preset);
}

static void describe(struct plant *plant)
{
  const struct layer *layer = &plant->model.layers[0];
  const struct layout *l = &plant->layout;
  (void)snprintf(
      plant->what, sizeof plant->what,
      "%s cap %g clock %g share %g, hidden %u, %u layers of %u kinds (first: attention %d %u/%u heads of %u, "
      "feed-forward %d), %s weights, %s cache, tp %u pp %u ep %u dp %u, %s, batch %g at %g, prompt %g after %g",
      plant->hardware.name, plant->hardware.power_cap_w, plant->hardware.sustained_clock_fraction,
      plant->hardware.share, plant->model.hidden_size, plant->model.layer_count, plant->model.layer_kind_count,
      (int)layer->attention.kind, layer->attention.query_heads, layer->attention.kv_heads, layer->attention.head_dim,
      (int)layer->feed_forward.kind, precision_name(plant->precision.experts),
      precision_name(plant->precision.kv_cache), l->tensor_parallel, l->pipeline_parallel, l->expert_parallel,
      l->attention_data_parallel, plant->preset.runtime, plant->batch, plant->context, plant->prompt, plant->past);
}

/* False where the model can not be cut that way. */
static bool random_plant(struct plant *plant, uint64_t *state)
{
  static const enum precision weights[] = {PRECISION_NONE, PRECISION_BF16, PRECISION_FP32,  PRECISION_FP8,
                                           PRECISION_INT8, PRECISION_INT4, PRECISION_NVFP4, PRECISION_MXFP4};
  static const enum precision caches[] = {PRECISION_BF16, PRECISION_FP8};
  static const char *const runtimes[] = {"vllm", "sglang", "tensorrt-llm", "atom"};
  random_model(&plant->model, state);
  random_hardware(&plant->hardware, state);
  if (!random_layout(plant, state))
    return false;
  plant->precision = served_precision(&plant->model, PICK(state, weights), PICK(state, caches));
  plant->preset = fixture_preset(&plant->hardware, PICK(state, runtimes), "");
  plant->batch = random_count(state, 1, 2000);
  plant->context = random_count(state, 1, 100000);
  plant->prompt = random_count(state, 1, 50000);
  plant->past = fixture_random(state, 0, 1) < 0.5 ? 0 : random_count(state, 1, 50000);
  plant->engine = engine_on(plant, &plant->hardware);
  describe(plant);
  return true;
}

static void over_plants(uint64_t seed, void (*check)(const struct plant *plant))
{
  static struct plant plant;
  uint64_t state = seed;
  unsigned tried = 0;
  for (unsigned i = 0; i < CASES; i++) {
    if (!random_plant(&plant, &state))
      continue;
    check(&plant);
    tried++;
  }
  ck_assert_uint_ge(tried, LEAST_CASES);
}

#define PLANT_TEST(name, seed, check)                                                                                  \
  START_TEST(name)                                                                                                     \
  {                                                                                                                    \
    over_plants(seed, check);                                                                                          \
  }                                                                                                                    \
  END_TEST

/* `less` must not be above `more`, beyond rounding. */
#define assert_at_most(less, more, plant)                                                                              \
  do {                                                                                                                 \
    const double less_ = (less), more_ = (more);                                                                       \
    ck_assert_msg(less_ <= more_ * (1 + 1e-9), "%s is %.9g, above %s, %.9g (by %.3g): %s", #less, less_, #more, more_, \
                  less_ / more_ - 1, (plant)->what);                                                                   \
  } while (0)

static double decode_s(const struct plant *plant, double batch, double context)
{
  struct step_time time;
  step_decode(&time, &plant->engine, batch, context);
  return time.seconds;
}

static double prompt_alone_s(const struct plant *plant, const struct engine *engine, double prompt, double past)
{
  struct prompt_time time;
  step_prompt(&time, engine, prompt, past, plant->batch, plant->context);
  return time.alone_s;
}

static void check_sums(const struct step_time *time, const struct plant *plant)
{
  double bounds = 0, groups = 0;
  for (int bound = 0; bound < BOUND_COUNT; bound++) {
    ck_assert_msg(isfinite(time->bound_s[bound]) && time->bound_s[bound] >= 0, "bound %d: %s", bound, plant->what);
    bounds += time->bound_s[bound];
  }
  for (int group = 0; group < OPERATOR_GROUP_COUNT; group++) {
    ck_assert_msg(isfinite(time->group_s[group]) && time->group_s[group] >= 0, "group %d: %s", group, plant->what);
    groups += time->group_s[group];
  }
  groups += time->floors_s + time->layers_s + time->sequences_s + time->fixed_s + time->eager_s + time->draft_s;
  ck_assert_msg(isfinite(time->seconds) && time->seconds > 0, "%g s: %s", time->seconds, plant->what);
  ck_assert_msg(fabs(bounds / time->seconds - 1) < 1e-9, "bounds are %g of it: %s", bounds / time->seconds,
                plant->what);
  ck_assert_msg(fabs(groups / time->seconds - 1) < 1e-9, "groups are %g of it: %s", groups / time->seconds,
                plant->what);
}

static void check_parts(const struct plant *plant)
{
  struct step_time decode;
  struct prompt_time prompt;
  step_decode(&decode, &plant->engine, plant->batch, plant->context);
  step_prompt(&prompt, &plant->engine, plant->prompt, plant->past, plant->batch, plant->context);
  check_sums(&decode, plant);
  check_sums(&prompt.profile, plant);
  ck_assert_msg(isfinite(prompt.added_s) && prompt.added_s >= 0, "added %g s: %s", prompt.added_s, plant->what);
  ck_assert_msg(prompt.chunks >= 1, "%u chunks: %s", prompt.chunks, plant->what);
}

PLANT_TEST(every_part_is_finite_and_the_parts_make_the_whole, 1, check_parts)

/* ---- rooflines: the datasheet's bandwidth and the peak of the format that the math runs in ---- */

static void check_roofline(const struct plant *plant)
{
  const double bandwidth = hardware_bandwidth_bytes_s(&plant->hardware);
  struct step_time decode;
  struct prompt_time prompt;
  step_decode(&decode, &plant->engine, plant->batch, plant->context);
  step_prompt(&prompt, &plant->engine, plant->prompt, plant->past, plant->batch, plant->context);
  assert_at_most((decode.weight_bytes + decode.kv_bytes) / bandwidth, decode.seconds, plant);
  assert_at_most((prompt.profile.weight_bytes + prompt.profile.kv_bytes) / bandwidth, prompt.alone_s, plant);
  assert_at_most(decode.flops_s, decode.seconds, plant);
  assert_at_most(prompt.profile.flops_s, prompt.alone_s, plant);
}

PLANT_TEST(no_step_beats_bandwidth_or_peak, 2, check_roofline)

/* ---- more work is never faster ---- */

static void check_work(const struct plant *plant)
{
  const double step = decode_s(plant, plant->batch, plant->context);
  assert_at_most(step, decode_s(plant, plant->batch + 1, plant->context), plant);
  assert_at_most(step, decode_s(plant, plant->batch * 2, plant->context), plant);
  assert_at_most(decode_s(plant, plant->batch * 2, plant->context), 2 * step, plant); /* one after the other */
  assert_at_most(step, decode_s(plant, plant->batch, plant->context + 1), plant);
  assert_at_most(step, decode_s(plant, plant->batch, plant->context * 2), plant);
}

PLANT_TEST(decode_never_gets_faster_with_batch_or_context, 3, check_work)

static void check_past(const struct plant *plant)
{
  const double alone = prompt_alone_s(plant, &plant->engine, plant->prompt, plant->past);
  assert_at_most(alone, prompt_alone_s(plant, &plant->engine, plant->prompt, plant->past + 128), plant);
  assert_at_most(alone, prompt_alone_s(plant, &plant->engine, plant->prompt, plant->past * 2 + 1), plant);
}

PLANT_TEST(prompts_never_get_faster_with_what_is_before_them, 4, check_past)

static void check_prompt(const struct plant *plant)
{
  const double alone = prompt_alone_s(plant, &plant->engine, plant->prompt, plant->past);
  assert_at_most(alone, prompt_alone_s(plant, &plant->engine, plant->prompt + 1, plant->past), plant);
  assert_at_most(alone, prompt_alone_s(plant, &plant->engine, plant->prompt * 1.25, plant->past), plant);
  assert_at_most(alone, prompt_alone_s(plant, &plant->engine, plant->prompt * 2, plant->past), plant);
}

PLANT_TEST(prompts_never_get_faster_with_length, 5, check_prompt)

/* ---- a better device is never slower, a worse one never faster ---- */

static void assert_slower_on(const struct plant *plant, const struct hardware *worse, const char *how)
{
  const struct engine engine = engine_on(plant, worse);
  const double step = decode_s(plant, plant->batch, plant->context);
  const double alone = prompt_alone_s(plant, &plant->engine, plant->prompt, plant->past);
  const double slower_alone = prompt_alone_s(plant, &engine, plant->prompt, plant->past);
  struct step_time slower;
  step_decode(&slower, &engine, plant->batch, plant->context);
  ck_assert_msg(slower.seconds >= step * (1 - 1e-9), "%s: a step takes %.9g s instead of %.9g s: %s", how,
                slower.seconds, step, plant->what);
  ck_assert_msg(slower_alone >= alone * (1 - 1e-9), "%s: a prompt takes %.9g s instead of %.9g s: %s", how,
                slower_alone, alone, plant->what);
}

static double or_one(double ratio)
{
  return isnan(ratio) ? 1 : ratio;
}

static void check_rates(const struct plant *plant)
{
  struct hardware worse = plant->hardware;
  worse.memory_bandwidth_gb_s /= 1.1;
  assert_slower_on(plant, &worse, "bandwidth / 1.1");
  worse = plant->hardware;
  double *const peaks[] = {&worse.fp32_tflops, &worse.bf16_tflops, &worse.fp16_tflops,
                           &worse.fp8_tflops,  &worse.int8_tflops, &worse.fp4_tflops};
  for (size_t i = 0; i < FIXTURE_COUNT(peaks); i++)
    *peaks[i] /= 1.1;
  assert_slower_on(plant, &worse, "FLOP/s / 1.1");
  worse = plant->hardware;
  worse.link_scale_ratio = 1 / 1.1;
  assert_slower_on(plant, &worse, "links / 1.1");
  worse = plant->hardware;
  worse.power_cap_w = 0.8 * fmin(worse.tdp_w, isnan(worse.power_cap_w) ? worse.tdp_w : worse.power_cap_w);
  assert_slower_on(plant, &worse, "power cap x 0.8");
}

PLANT_TEST(less_bandwidth_flops_link_or_power_is_never_faster, 6, check_rates)

static void check_clock(const struct plant *plant)
{
  struct hardware worse = plant->hardware;
  worse.sustained_clock_fraction = 0.8 * or_one(worse.sustained_clock_fraction);
  assert_slower_on(plant, &worse, "sustained clock x 0.8");
}

PLANT_TEST(a_lower_sustained_clock_is_never_faster, 7, check_clock)

static void check_share(const struct plant *plant)
{
  struct hardware worse = plant->hardware;
  worse.share = 0.5 * or_one(worse.share);
  assert_slower_on(plant, &worse, "share x 0.5");
}

PLANT_TEST(half_a_device_is_never_faster, 8, check_share)

/* ---- scaling laws ---- */

static bool is_one_device(const struct layout *layout)
{
  return parallel_gpus(layout) == 1;
}

static bool has_experts_or_windows(const struct model *model)
{
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    if (model->layers[kind].feed_forward.kind == FEED_FORWARD_MOE || model->layers[kind].attention.window_tokens != 0 ||
        model->layers[kind].attention.kind == ATTENTION_LINEAR)
      return true;
  return false;
}

/* Weights are read once whatever the batch, caches by sequence and token, host costs by sequence, steps alike. */
static void check_scaling(const struct plant *plant)
{
  struct step_time one, two, far;
  const double stages = plant->layout.pipeline_parallel; /* fewer sequences than stages leave some idle */
  const double batch = plant->batch * stages * plant->layout.attention_data_parallel;
  step_decode(&one, &plant->engine, batch, plant->context);
  step_decode(&two, &plant->engine, 2 * batch, plant->context);
  step_decode(&far, &plant->engine, batch, 2 * plant->context);
  if (is_one_device(&plant->layout))
    ck_assert_msg(one.group_s[OPERATOR_COLLECTIVE] <= 0 && one.bound_s[BOUND_INTERCONNECT] <= 0, "%s", plant->what);
  else
    ck_assert_msg(one.bound_s[BOUND_INTERCONNECT] > 0, "%s", plant->what);
  assert_close(two.kv_bytes, 2 * one.kv_bytes, 1e-9);
  assert_close(two.sequences_s, 2 * one.sequences_s, 1e-9);
  assert_close(two.layers_s, one.layers_s, 1e-12);
  assert_close(two.fixed_s, one.fixed_s, 1e-12);
  assert_close(far.weight_bytes, one.weight_bytes, 1e-12);
  if (has_experts_or_windows(&plant->model))
    return;
  assert_close(two.weight_bytes, one.weight_bytes, 1e-12);
  assert_close(far.kv_bytes, 2 * one.kv_bytes, 1e-9);
}

PLANT_TEST(each_term_scales_by_its_own_law, 9, check_scaling)

/* Twice the devices read no less than half of the weights each, and never more than before. */
static void check_split(const struct plant *plant)
{
  struct plant wider = *plant;
  char why[192];
  struct step_time before, after;
  wider.layout.tensor_parallel *= 2;
  if (wider.layout.expert_parallel > 1)
    wider.layout.expert_parallel *= 2;
  if (!parallel_check(why, sizeof why, &wider.model, &wider.hardware, &wider.layout))
    return;
  wider.engine = engine_on(&wider, &wider.hardware);
  step_decode(&before, &plant->engine, plant->batch, plant->context);
  step_decode(&after, &wider.engine, plant->batch, plant->context);
  assert_at_most(after.weight_bytes, before.weight_bytes, plant);
  assert_at_most(after.kv_bytes, before.kv_bytes, plant);
  assert_at_most(before.weight_bytes, 2.001 * after.weight_bytes, plant);
  assert_at_most(memory_weights_bytes(&wider.model, &wider.layout, &wider.precision),
                 memory_weights_bytes(&plant->model, &plant->layout, &plant->precision), plant);
}

PLANT_TEST(tensor_parallelism_divides_at_most_by_its_degree, 10, check_split)

/* ---- the steady state ---- */

struct offer {
  struct steady_load load;
  double limit, capacity;
};

/* False where the KV pool of this plant runs nothing. */
static bool offer_of(struct offer *offer, const struct plant *plant, enum load_kind kind)
{
  struct memory_plan memory;
  bool is_kv;
  const double output = fmax(1, fmin(plant->context, 8000));
  memory_plan(&memory, &plant->model, &plant->hardware, &plant->layout, &plant->precision, &plant->preset);
  offer->limit = steady_batch_limit(&is_kv, &plant->engine, &memory, plant->prompt, output);
  if (!(offer->limit >= 1))
    return false;
  offer->load = (struct steady_load){
      .kind = kind, .is_poisson = true, .prompt_tokens = plant->prompt, .output_tokens = output, .users = plant->batch};
  offer->capacity = steady_capacity(&plant->engine, &offer->load, offer->limit);
  offer->load.requests_per_s = (0.02 + 0.95 * fmod(plant->batch * 0.618, 1)) * offer->capacity; /* as good as random */
  return true;
}

static void check_steady_figures(const struct steady_state *s, const struct plant *plant, const struct offer *offer)
{
  const double figures[] = {s->requests_per_s, s->ttft_s, s->tpot_s, s->itl_s, s->e2e_s, s->queue_s, s->decode_batch};
  struct steady_parts parts;
  for (size_t i = 0; i < FIXTURE_COUNT(figures); i++)
    ck_assert_msg(isfinite(figures[i]) && figures[i] >= 0, "figure %zu is %g: %s", i, figures[i], plant->what);
  steady_parts(&parts, &plant->engine, s);
  assert_at_most(s->queue_s, s->ttft_s, plant);
  assert_at_most(s->ttft_s, s->e2e_s, plant);
  assert_at_most(s->decode.seconds, s->itl_s, plant);
  assert_at_most(s->requests_per_s, offer->capacity, plant);
  assert_close(s->in_system, s->requests_per_s * s->e2e_s, 1e-9); /* Little */
  assert_close(parts.slot_wait_s + parts.step_wait_s + parts.prompt_wait_s + parts.prefill_s + parts.server_s +
                   parts.host_s + parts.transfer_s,
               s->ttft_s, 1e-9);
}

static void check_load(const struct plant *plant, enum load_kind kind)
{
  struct offer offer;
  struct steady_state state;
  if (!offer_of(&offer, plant, kind))
    return;
  steady_evaluate(&state, &plant->engine, &offer.load, offer.limit);
  check_steady_figures(&state, plant, &offer);
  ck_assert_msg(!state.is_saturated, "saturated below capacity: %s", plant->what);
  if (kind == LOAD_CLOSED)
    assert_close(state.in_system, offer.load.users, 1e-6); /* N = X · R: every user is somewhere */
  else
    assert_close(state.requests_per_s, offer.load.requests_per_s, 1e-9); /* what comes in goes out */
}

static void check_loads(const struct plant *plant)
{
  check_load(plant, LOAD_CLOSED);
  check_load(plant, LOAD_OPEN);
}

PLANT_TEST(steady_states_obey_littles_law, 11, check_loads)

/* The batch that the times were computed at is the batch that the times make: 1 + others. */
static void check_converged(const struct plant *plant)
{
  struct offer offer;
  struct steady_state state;
  double seen;
  if (!offer_of(&offer, plant, LOAD_OPEN))
    return;
  steady_evaluate(&state, &plant->engine, &offer.load, offer.limit);
  seen = fmin(offer.limit, 1 + state.decode_batch);
  ck_assert_msg(fabs(state.view.batch - seen) < 0.02 * seen, "computed at a batch of %g, which makes %g: %s",
                state.view.batch, seen, plant->what);
}

PLANT_TEST(open_load_is_solved_not_given_up, 13, check_converged)

static void assert_crowding(const struct plant *plant, struct offer *offer, double users, double more_users)
{
  const double tolerance = 1e-3; /* of the fixed point */
  struct steady_state few, many;
  offer->load.users = users;
  steady_evaluate(&few, &plant->engine, &offer->load, offer->limit);
  offer->load.users = more_users;
  steady_evaluate(&many, &plant->engine, &offer->load, offer->limit);
  assert_at_most(few.ttft_s, many.ttft_s * (1 + tolerance), plant);
  assert_at_most(few.e2e_s, many.e2e_s * (1 + tolerance), plant);
  assert_at_most(few.requests_per_s, many.requests_per_s * (1 + tolerance), plant);
}

/* A request that meets another is not served sooner than one that meets nobody, nor do two get less done than one. */
static void check_company(const struct plant *plant)
{
  struct offer offer;
  if (offer_of(&offer, plant, LOAD_CLOSED))
    assert_crowding(plant, &offer, 1, 2);
}

PLANT_TEST(two_users_wait_no_less_than_one, 14, check_company)

static void check_crowd(const struct plant *plant)
{
  struct offer offer;
  if (is_one_device(&plant->layout) && offer_of(&offer, plant, LOAD_CLOSED))
    assert_crowding(plant, &offer, plant->batch, plant->batch + ceil(0.1 * plant->batch));
}

PLANT_TEST(more_users_never_get_less_done, 17, check_crowd)

/* Room for more sequences is not worth less: an engine need not use it. */
static void check_capacity(const struct plant *plant)
{
  struct offer offer;
  if (!offer_of(&offer, plant, LOAD_OPEN))
    return;
  assert_at_most(0.999 * offer.capacity, steady_capacity(&plant->engine, &offer.load, 1.1 * offer.limit), plant);
  assert_at_most(0.999 * offer.capacity, steady_capacity(&plant->engine, &offer.load, 2 * offer.limit), plant);
}

PLANT_TEST(capacity_never_falls_with_the_batch_limit, 15, check_capacity)

/* Every token passes every matrix: 2 FLOPs for each active weight of the layers, at the widest peak there is, shared by
   all devices of the replica. The slack of one memory-bound step can not be filled twice. */
static void check_capacity_roofline(const struct plant *plant)
{
  const struct parameter_counts counts = model_parameters(&plant->model);
  const double weights = (double)(counts.attention + counts.dense + counts.experts_active);
  const struct linear_path *paths = plant->engine.device.linear;
  const double peak = fmax(fmax(paths[plant->precision.dense].peak_flops, paths[plant->precision.experts].peak_flops),
                           fmax(paths[plant->precision.attention].peak_flops, plant->engine.device.peak_16_bit_flops));
  struct offer offer;
  if (!offer_of(&offer, plant, LOAD_OPEN))
    return;
  assert_at_most(2 * weights * (offer.load.prompt_tokens + offer.load.output_tokens - 1) * offer.capacity,
                 peak * parallel_gpus(&plant->layout), plant);
}

PLANT_TEST(capacity_never_beats_the_peak_of_all_devices, 16, check_capacity_roofline)

int main(void)
{
  const TTest *const tests[] = {every_part_is_finite_and_the_parts_make_the_whole,
                                no_step_beats_bandwidth_or_peak,
                                decode_never_gets_faster_with_batch_or_context,
                                prompts_never_get_faster_with_what_is_before_them,
                                prompts_never_get_faster_with_length,
                                less_bandwidth_flops_link_or_power_is_never_faster,
                                a_lower_sustained_clock_is_never_faster,
                                half_a_device_is_never_faster,
                                each_term_scales_by_its_own_law,
                                tensor_parallelism_divides_at_most_by_its_degree,
                                steady_states_obey_littles_law,
                                open_load_is_solved_not_given_up,
                                two_users_wait_no_less_than_one,
                                more_users_never_get_less_done,
                                capacity_never_falls_with_the_batch_limit,
                                capacity_never_beats_the_peak_of_all_devices};
  TCase *tcase = tcase_create("properties");
  for (size_t i = 0; i < FIXTURE_COUNT(tests); i++)
    tcase_add_test(tcase, tests[i]);
  return fixture_run("properties", tcase);
}
