/* Whole evaluations of the built-in catalogue: every model on every profile under random sketches from a fixed seed, held
   to what must be true of any answer; and public measurements, predicted as a user would ask for them. */
#include "api/csv.h"
#include "api/evaluation.h"
#include "core/served.h"
#include "tests/core/fixtures.h"
#include "tests/lib/scratch.h"

#define USD_PER_GPU_HOUR 2.5

static struct catalogue *catalogue;
static const struct catalogue_snapshot *snapshot;

static void open_catalogue(void)
{
  ck_assert_int_eq(catalogue_open(&catalogue, NULL, NULL), ERR_OK);
  ck_assert_int_eq(catalogue_acquire(&snapshot, catalogue, NULL), ERR_OK);
}

static void close_catalogue(void)
{
  catalogue_release(catalogue, snapshot);
  catalogue_close(catalogue);
}

#define PICK(state, array) ((array)[fixture_random_index((state), FIXTURE_COUNT(array))])

struct asked {
  const struct model *model;
  struct hardware hardware;
  struct workload workload;
  struct scorecard card;
  char what[448];
};

static double random_count(uint64_t *state, double low, double high)
{
  return floor(exp(fixture_random(state, log(low), log(high))));
}

static void random_lengths(struct workload *workload, const struct model *model, uint64_t *state)
{
  const double most = model->max_context_tokens != 0 ? model->max_context_tokens : 131072;
  workload->traffic.input.fixed_tokens = random_count(state, 1, fmin(60000, 0.55 * most));
  workload->traffic.output.fixed_tokens = random_count(state, 1, fmin(8000, 0.4 * most));
  if (fixture_random(state, 0, 1) < 0.2)
    workload->traffic.shared_prefix_tokens = floor(workload->traffic.input.fixed_tokens * fixture_random(state, 0, 1));
}

static void random_load(struct workload *workload, uint64_t *state)
{
  if (fixture_random(state, 0, 1) < 0.5) {
    fixture_close_loop(workload, random_count(state, 1, 3000));
  } else {
    workload->traffic.requests_per_s = exp(fixture_random(state, log(0.01), log(200)));
    workload->traffic.arrival = fixture_random(state, 0, 1) < 0.7 ? ARRIVAL_POISSON : ARRIVAL_STEADY;
  }
}

static void random_serving(struct workload *workload, uint64_t *state)
{
  static const char *const runtimes[] = {"", "vllm", "sglang", "tensorrt-llm", "atom"};
  static const unsigned tensor[] = {0, 0, 1, 1, 2, 4, 8}, pipeline[] = {0, 0, 0, 1, 2, 4}, data[] = {0, 0, 0, 1, 2, 8},
                        replicas[] = {0, 0, 1, 2, 5};
  struct workload_serving *serving = &workload->serving;
  fixture_text(serving->runtime, sizeof serving->runtime, PICK(state, runtimes));
  serving->tensor_parallel = PICK(state, tensor);
  serving->pipeline_parallel = PICK(state, pipeline);
  serving->attention_data_parallel = PICK(state, data);
  serving->replicas = PICK(state, replicas);
  if (serving->attention_data_parallel > 1 && serving->tensor_parallel != 0 && fixture_random(state, 0, 1) < 0.6)
    serving->expert_parallel = serving->tensor_parallel * serving->attention_data_parallel;
  if (fixture_random(state, 0, 1) < 0.3)
    serving->max_batch = (unsigned)random_count(state, 1, 2000);
}

static void set_price(struct workload *workload, const struct hardware *hardware, double usd)
{
  struct workload_price_override *price = &workload->constraints.price_overrides[0];
  workload->constraints.price_override_count = 1;
  fixture_text(price->profile, sizeof price->profile, hardware->name);
  price->usd_per_gpu_hour = usd;
}

static void describe(struct asked *asked)
{
  const struct workload *w = &asked->workload;
  const struct workload_serving *s = &w->serving;
  (void)snprintf(
      asked->what, sizeof asked->what,
      "%s on %s, %s weights, %s cache, %g in (%g shared), %g out, %s %g, %s tp %u pp %u ep %u dp %u replicas "
      "%u max_batch %u",
      asked->model->name, asked->hardware.name, precision_name(w->weights), precision_name(w->kv_cache),
      w->traffic.input.fixed_tokens, w->traffic.shared_prefix_tokens, w->traffic.output.fixed_tokens,
      w->traffic.load == LOAD_CLOSED ? "users" : "requests/s",
      w->traffic.load == LOAD_CLOSED ? w->traffic.concurrency : w->traffic.requests_per_s, s->runtime,
      s->tensor_parallel, s->pipeline_parallel, s->expert_parallel, s->attention_data_parallel, s->replicas,
      s->max_batch);
}

static void evaluate(struct scorecard *card, const struct workload *workload, const struct model *model,
                     const struct hardware *hardware)
{
  static unsigned char block[1 << 20];
  const struct fit_request request = {.workload = workload, .model = model, .hardware = hardware, .depth = FIT_QUICK};
  struct arena arena;
  struct error e;
  arena_init(&arena, block, sizeof block);
  ck_assert_msg(fit_evaluate(card, &request, &arena, &e) == ERR_OK, "%s on %s: %s %s", model->name, hardware->name,
                e.pointer, e.message);
}

static void ask(struct asked *asked, uint64_t *state)
{
  static const enum precision weights[] = {PRECISION_NONE, PRECISION_NONE, PRECISION_BF16, PRECISION_FP8,
                                           PRECISION_INT8, PRECISION_INT4, PRECISION_NVFP4};
  static const enum precision caches[] = {PRECISION_NONE, PRECISION_BF16, PRECISION_FP8};
  asked->model = &snapshot->models[fixture_random_index(state, snapshot->model_count)].model;
  asked->hardware = snapshot->profiles[fixture_random_index(state, snapshot->profile_count)].hardware;
  asked->workload = fixture_workload();
  asked->workload.weights = PICK(state, weights);
  asked->workload.kv_cache = PICK(state, caches);
  random_lengths(&asked->workload, asked->model, state);
  random_load(&asked->workload, state);
  random_serving(&asked->workload, state);
  set_price(&asked->workload, &asked->hardware, USD_PER_GPU_HOUR);
  describe(asked);
  evaluate(&asked->card, &asked->workload, asked->model, &asked->hardware);
}

/* Calls `check` for `cases` random sketches that have an answer. */
static void over_sketches(uint64_t seed, unsigned cases, void (*check)(const struct asked *asked))
{
  static struct asked asked;
  uint64_t state = seed;
  unsigned answered = 0;
  for (unsigned i = 0; i < cases; i++) {
    ask(&asked, &state);
    if (!asked.card.has_configuration)
      continue;
    check(&asked);
    answered++;
  }
  ck_assert_uint_ge(answered, cases / 3);
}

#define SKETCH_TEST(name, seed, cases, check)                                                                          \
  START_TEST(name)                                                                                                     \
  {                                                                                                                    \
    over_sketches(seed, cases, check);                                                                                 \
  }                                                                                                                    \
  END_TEST

/* The configuration that was found, written down as a sketch. */
static struct workload pinned(const struct asked *asked)
{
  const struct scorecard_configuration *found = &asked->card.configuration;
  struct workload workload = asked->workload;
  workload.serving.tensor_parallel = found->tensor_parallel;
  workload.serving.pipeline_parallel = found->pipeline_parallel;
  workload.serving.expert_parallel = found->expert_parallel;
  workload.serving.attention_data_parallel = found->attention_data_parallel;
  workload.serving.replicas = found->replicas;
  return workload;
}

static bool is_saturated(const struct scorecard *card)
{
  return isnan(card->latency.ttft_s.p50);
}

#define assert_at_most(less, more, tolerance, asked)                                                                   \
  do {                                                                                                                 \
    const double less_ = (less), more_ = (more);                                                                       \
    ck_assert_msg(less_ <= more_ * (1 + (tolerance)), "%s is %.9g, above %s, %.9g (by %.3g): %s", #less, less_, #more, \
                  more_, less_ / more_ - 1, (asked)->what);                                                            \
  } while (0)
#define assert_same(a, b, asked)                                                                                       \
  do {                                                                                                                 \
    const double a_ = (a), b_ = (b);                                                                                   \
    ck_assert_msg(fabs(a_ - b_) <= 1e-6 * fabs(b_), "%s is %.9g, %s is %.9g: %s", #a, a_, #b, b_, (asked)->what);      \
  } while (0)

static void check_latency(const struct asked *asked)
{
  const struct scorecard *card = &asked->card;
  const struct scorecard_latency *latency = &card->latency;
  const double figures[] = {latency->ttft_s.p50, latency->itl_s.p50,   latency->e2e_s.p50,
                            latency->e2e_s.mean, latency->queue_s.p50, latency->tpot_mean_s};
  const bool has_gaps = length_mean_tokens(&asked->workload.traffic.output) > 1; /* one token has none: null */
  for (size_t i = 0; i < FIXTURE_COUNT(figures); i++)
    if (has_gaps || (i != 1 && i != 5))
      ck_assert_msg(isfinite(figures[i]) && figures[i] >= 0, "latency %zu is %g: %s", i, figures[i], asked->what);
    else
      ck_assert(isnan(figures[i]));
  assert_at_most(latency->queue_s.p50, latency->ttft_s.p50, 1e-9, asked);
  assert_at_most(latency->ttft_s.p50, latency->e2e_s.p50, 1e-9, asked);
  if (has_gaps)
    assert_at_most(card->decode.time_s, latency->itl_s.p50, 1e-9, asked);
  assert_same(card->throughput.at_concurrency, card->throughput.requests_per_s * latency->e2e_s.mean, asked);
  if (asked->workload.traffic.load == LOAD_CLOSED)
    assert_same(card->throughput.at_concurrency, asked->workload.traffic.concurrency, asked);
  else
    assert_same(card->throughput.requests_per_s, asked->workload.traffic.requests_per_s, asked);
}

static void check_phase(const struct scorecard_phase *phase, const struct asked *asked)
{
  double shares = 0;
  for (int bound = 0; bound < BOUND_COUNT; bound++)
    shares += phase->bound_share_ratio[bound];
  assert_same(shares, 1, asked);
  ck_assert_msg(phase->time_s > 0 && isfinite(phase->time_s), "%g s: %s", phase->time_s, asked->what);
  assert_at_most(phase->flops_utilisation_ratio, 1, 1e-9, asked);
  assert_at_most(phase->bandwidth_utilisation_ratio, 1, 1e-9, asked);
}

static void check_cost(const struct asked *asked)
{
  const struct scorecard_cost *cost = &asked->card.cost;
  const double usd_s = USD_PER_GPU_HOUR * asked->card.configuration.gpus / 3600; /* an override is billed by the GPU */
  assert_same(cost->per_attempted_request_usd, usd_s / asked->card.throughput.requests_per_s, asked);
  assert_same(cost->per_million_output_tokens_usd, usd_s / asked->card.throughput.output_tok_s * 1e6, asked);
  assert_same(cost->monthly_usd, USD_PER_GPU_HOUR * asked->card.configuration.gpus * 730, asked);
  assert_same(cost->by_bound_compute + cost->by_bound_weights + cost->by_bound_kv_cache + cost->by_bound_interconnect +
                  cost->by_bound_launch + cost->by_bound_idle,
              1, asked);
}

static void check_figures(const struct asked *asked)
{
  const struct scorecard *card = &asked->card;
  const struct scorecard_configuration *c = &card->configuration;
  const struct scorecard_memory *m = &card->memory;
  const struct scorecard_throughput *t = &card->throughput;
  ck_assert_msg((card->verdict == VERDICT_FIT) == (card->no_fit_reason == NO_FIT_NONE), "%s", asked->what);
  ck_assert_msg(c->gpus == c->replicas * c->tensor_parallel * c->pipeline_parallel * c->attention_data_parallel,
                "%u GPUs: %s", c->gpus, asked->what);
  assert_same(m->weights_bytes + m->activations_bytes + m->runtime_bytes + m->kv_cache_bytes, m->usable_bytes, asked);
  assert_at_most(t->requests_per_s, card->limits.saturation_requests_per_s, 1e-9, asked);
  assert_same(t->output_tok_s, t->requests_per_s * asked->workload.traffic.output.fixed_tokens, asked);
  assert_same(t->output_tok_s_per_gpu * c->gpus, t->output_tok_s, asked);
  ck_assert_msg(t->output_tok_s > 0 && isfinite(t->output_tok_s) && t->mean_batch >= 0, "%s", asked->what);
  assert_same(card->prefill.time_share_ratio + card->decode.time_share_ratio, 1, asked);
  check_phase(&card->prefill, asked);
  check_phase(&card->decode, asked);
  check_cost(asked);
  if (is_saturated(card))
    ck_assert_msg(card->verdict == VERDICT_NO_FIT && card->no_fit_detail != NULL, "%s", asked->what);
  else
    check_latency(asked);
}

SKETCH_TEST(figures_of_an_answer_agree_with_each_other, 1, 2000, check_figures)

/* A request is computed by one attention rank and passes all stages: company does not make its prompt shorter. */
static void check_first_token(const struct asked *asked)
{
  if (!is_saturated(&asked->card))
    assert_at_most(asked->card.prefill.time_s, asked->card.latency.ttft_s.p50, 1e-9, asked);
}

SKETCH_TEST(the_first_token_waits_for_the_whole_prompt, 2, 1000, check_first_token)

/* Without tensor parallelism nothing is replicated: a token takes what the architecture says, on however many stages. */
static void check_token_bytes(const struct asked *asked)
{
  const struct scorecard_configuration *c = &asked->card.configuration;
  const struct kv_bytes kv = model_kv_bytes(asked->model, c->kv_cache);
  const double token = kv.growing_per_token_bytes + kv.windowed_per_token_bytes;
  assert_at_most(token, asked->card.memory.kv_bytes_per_token, 1e-9, asked);
  if (c->tensor_parallel == 1)
    assert_same(asked->card.memory.kv_bytes_per_token, token, asked);
}

SKETCH_TEST(a_token_takes_what_the_architecture_says, 3, 1000, check_token_bytes)

static void check_least(const struct asked *asked)
{
  const struct scorecard_configuration *c = &asked->card.configuration;
  if (c->attention_data_parallel * c->expert_parallel == 1)
    ck_assert_msg(asked->card.memory.min_gpus <= c->gpus / c->replicas, "min_gpus %u, but a replica of %u runs: %s",
                  asked->card.memory.min_gpus, c->gpus / c->replicas, asked->what);
}

SKETCH_TEST(no_answer_uses_fewer_than_min_gpus, 4, 4000, check_least)

static void check_narrow(const struct asked *asked)
{
  struct workload wide = pinned(asked), narrow = wide;
  struct scorecard wide_card, narrow_card;
  wide.weights = wide.kv_cache = PRECISION_BF16;
  narrow.weights = narrow.kv_cache = PRECISION_FP8;
  evaluate(&wide_card, &wide, asked->model, &asked->hardware);
  evaluate(&narrow_card, &narrow, asked->model, &asked->hardware);
  if (!wide_card.has_configuration)
    return;
  ck_assert_msg(narrow_card.has_configuration, "bf16 fits and fp8 does not: %s", asked->what);
  assert_at_most(narrow_card.memory.weights_bytes, wide_card.memory.weights_bytes, 1e-9, asked);
  assert_at_most(narrow_card.memory.kv_bytes_per_token, wide_card.memory.kv_bytes_per_token, 1e-9, asked);
}

SKETCH_TEST(fp8_never_takes_more_memory_than_bf16, 5, 400, check_narrow)

/* A step that reaches every expert reads each stored matrix once and no embedding: what model_weights_bytes counts on disk,
   less the embedding, plus the head where it is the same matrix. Biases and norms are below 0.2 %. Blocks that share their
   parameters are read every time they run. */
START_TEST(a_step_reads_every_weight_once)
{
  const struct layout layout = {1, 1, 1, 1};
  const struct hardware *hardware = &catalogue_find_profile(snapshot, "h200-sxm-141gb")->hardware;
  const struct preset preset = fixture_preset(hardware, "vllm", "");
  for (size_t i = 0; i < snapshot->model_count; i++) {
    const struct model *model = &snapshot->models[i].model;
    const struct model_precision precision = served_precision(model, PRECISION_NONE, PRECISION_NONE);
    const struct engine engine = step_engine(model, hardware, &layout, &precision, PRECISION_NONE, &preset);
    const double embedding = (double)model_parameters(model).embeddings * precision_weight_bytes(precision.embeddings);
    const double tied = model->has_tied_embeddings ? (double)model->vocab_size * model->hidden_size : 0;
    const double stored = model_weights_bytes(model) - embedding + tied * precision_weight_bytes(precision.head);
    bool shares = false;
    struct step_time time;
    for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
      shares = shares || model->layers[kind].shares_parameters;
    step_decode(&time, &engine, 1e6, 1);
    ck_assert_msg(time.weight_bytes > 0.998 * stored && (shares || time.weight_bytes < 1.002 * stored),
                  "%s: a step reads %.6g GB of %.6g", model->name, time.weight_bytes / 1e9, stored / 1e9);
  }
}
END_TEST

/* Divisors; power, clock and share are factors on a profile that states none of them. */
struct worsening {
  const char *name;
  double memory, bandwidth, flops, link, power, clock, share;
};
static const struct worsening worsenings[] = {
    {"memory / 1.1", 1.1, 1, 1, 1, 1, 1, 1}, {"bandwidth / 1.1", 1, 1.1, 1, 1, 1, 1, 1},
    {"FLOP/s / 1.1", 1, 1, 1.1, 1, 1, 1, 1}, {"links / 1.1", 1, 1, 1, 1.1, 1, 1, 1},
    {"power x 0.7", 1, 1, 1, 1, 0.7, 1, 1},  {"clock x 0.8", 1, 1, 1, 1, 1, 0.8, 1},
    {"half a share", 1, 1, 1, 1, 1, 1, 0.5}, {"clock x 0.8 under power x 0.7", 1, 1, 1, 1, 0.7, 0.8, 1}};
static const struct worsening *worsening; /* that the running test is about */

static struct hardware worse_than(const struct hardware *hardware)
{
  struct hardware worse = *hardware;
  double *const peaks[] = {&worse.fp32_tflops, &worse.bf16_tflops, &worse.fp16_tflops, &worse.fp8_tflops,
                           &worse.int8_tflops, &worse.int4_tflops, &worse.fp4_tflops};
  for (size_t i = 0; i < FIXTURE_COUNT(peaks); i++)
    *peaks[i] /= worsening->flops;
  worse.memory_gib /= worsening->memory;
  worse.memory_usable_mib /= worsening->memory;
  worse.memory_engine_mib /= worsening->memory;
  worse.memory_bandwidth_gb_s /= worsening->bandwidth;
  worse.link_scale_ratio = 1 / worsening->link;
  worse.power_cap_w = worsening->power * worse.tdp_w;
  worse.sustained_clock_fraction = worsening->clock;
  worse.share = worsening->share;
  return worse;
}

static void check_worse(const struct asked *asked)
{
  const double tolerance =
      2e-3; /* of a batch limit in whole sequences, of the search for the best batch, of the solver */
  const struct workload workload = pinned(asked);
  const struct hardware worse = worse_than(&asked->hardware);
  struct hardware better = asked->hardware;
  struct scorecard base, card;
  if (worsening->power < 1 && worsening->clock < 1)
    better.power_cap_w = worse.power_cap_w; /* the clock alone is what differs */
  evaluate(&base, &workload, asked->model, &better);
  evaluate(&card, &workload, asked->model, &worse);
  if (!card.has_configuration)
    return;
  ck_assert_msg(card.limits.saturation_requests_per_s <= base.limits.saturation_requests_per_s * (1 + tolerance),
                "%s: saturation %.9g instead of %.9g requests/s: %s", worsening->name,
                card.limits.saturation_requests_per_s, base.limits.saturation_requests_per_s, asked->what);
  ck_assert_msg(is_saturated(&card) || !is_saturated(&base), "%s: not saturated any more: %s", worsening->name,
                asked->what);
  if (!is_saturated(&card))
    ck_assert_msg(card.latency.e2e_s.mean >= base.latency.e2e_s.mean * (1 - tolerance),
                  "%s: %.9g s instead of %.9g s: %s", worsening->name, card.latency.e2e_s.mean, base.latency.e2e_s.mean,
                  asked->what);
}

START_TEST(a_worse_device_is_never_better)
{
  worsening = &worsenings[_i];
  over_sketches(6, 400, check_worse);
}
END_TEST

static void check_replicas(const struct asked *asked)
{
  const double tolerance = 1e-3; /* of the fixed point */
  struct workload workload = pinned(asked);
  struct scorecard more;
  if (is_saturated(&asked->card))
    return;
  workload.serving.replicas++;
  evaluate(&more, &workload, asked->model, &asked->hardware);
  ck_assert_msg(!is_saturated(&more), "saturated with one replica more: %s", asked->what);
  assert_at_most(more.latency.ttft_s.p50, asked->card.latency.ttft_s.p50, tolerance, asked);
  if (!isnan(more.latency.itl_s.p50))
    assert_at_most(more.latency.itl_s.p50, asked->card.latency.itl_s.p50, tolerance, asked);
  assert_at_most(more.latency.e2e_s.mean, asked->card.latency.e2e_s.mean, tolerance, asked);
  assert_at_most(asked->card.throughput.requests_per_s, more.throughput.requests_per_s, tolerance, asked);
}

SKETCH_TEST(more_replicas_are_never_slower, 13, 600, check_replicas)

static void check_price(const struct asked *asked)
{
  struct workload workload = asked->workload;
  struct scorecard dear;
  set_price(&workload, &asked->hardware, 2 * USD_PER_GPU_HOUR);
  evaluate(&dear, &workload, asked->model, &asked->hardware);
  ck_assert_msg(dear.configuration.gpus == asked->card.configuration.gpus, "%s", asked->what);
  assert_same(dear.cost.per_successful_request_usd, 2 * asked->card.cost.per_successful_request_usd, asked);
  assert_same(dear.cost.monthly_usd, 2 * asked->card.cost.monthly_usd, asked);
}

SKETCH_TEST(costs_are_proportional_to_prices, 14, 400, check_price)

static bool is_refused_at(const char *pointer, const char *input, const char *output, const char *max_batch)
{
  static struct faults faults;
  struct sketch sketch;
  const char *text = scratch_printf("{\"workload\":\"w\",\"model\":\"llama-3.1-8b\",\"serving\":{\"max_batch\":%s},"
                                    "\"traffic\":{\"input_tokens\":%s,\"output_tokens\":%s,\"concurrency\":4}}",
                                    max_batch, input, output);
  memset(&faults, 0, sizeof faults);
  sketch_read(&sketch, snapshot, scratch_json_steal(json_loads(text, 0, NULL)), "", &faults);
  sketch_fini(&sketch);
  return faults.count == 1 && strcmp(faults.items[0].pointer, pointer) == 0;
}

START_TEST(impossible_numbers_are_refused_where_they_stand)
{
  ck_assert(!is_refused_at("", "100", "100", "8"));
  ck_assert(is_refused_at("/traffic/input_tokens", "0", "100", "8"));
  ck_assert(is_refused_at("/traffic/output_tokens", "100", "0", "8"));
  ck_assert(is_refused_at("/traffic/input_tokens", "1000000000", "100", "8"));
  ck_assert(is_refused_at("/traffic/output_tokens", "100", "1000000000", "8"));
  ck_assert(is_refused_at("/serving/max_batch", "100", "100", "-1"));
  ck_assert(is_refused_at("/serving/max_batch", "100", "100", "0"));
  scratch_release();
}
END_TEST

/* clang-format off */
#define COLUMNS(X)                                                                                                     \
  X(id) X(model) X(hw) X(n_gpus) X(tp) X(pp) X(ep) X(attention_dp) X(weight_precision) X(kv_precision) X(isl) X(osl)    \
  X(length_scale) X(concurrency_or_batch) X(arrival) X(metric) X(value) X(runtime) X(runtime_version)
/* clang-format on */

struct table {
  struct csv csv;
#define COLUMN(name) size_t name;
  COLUMNS(COLUMN)
#undef COLUMN
};

#define FIELD(table, column) csv_field(&(table)->csv, (table)->column)
#define NUMBER(table, column) strtod(FIELD(table, column), NULL)
#define COUNT(table, column) ((unsigned)NUMBER(table, column))

/* vLLM from 0.10 on, TensorRT-LLM from 1.0 on. */
static bool is_current(const char *runtime, const char *version)
{
  if (strcmp(runtime, "vllm") == 0)
    return strncmp(version, "0.", 2) == 0 && strtoul(version + 2, NULL, 10) >= 10;
  return strcmp(runtime, "tensorrt-llm") == 0 && strncmp(version, "1.", 2) == 0;
}

/* Mean time of a token in a closed loop of at least four users whose tensor degree is stated. */
static bool is_wanted(const struct table *table)
{
  return strcmp(FIELD(table, metric), "tpot_ms_mean") == 0 && strcmp(FIELD(table, arrival), "closed-loop") == 0 &&
         COUNT(table, tp) >= 1 && NUMBER(table, concurrency_or_batch) >= 4 &&
         is_current(FIELD(table, runtime), FIELD(table, runtime_version));
}

/* The table's convention: attention over several ranks is not cut within them, whatever `tp` says. */
static unsigned tensor_degree(const struct table *table)
{
  return COUNT(table, attention_dp) > 1 ? 1 : COUNT(table, tp);
}

/* Whether no row before had this hardware, model, runtime and layout. */
static bool is_first(const struct table *table)
{
  static char seen[64][192];
  static size_t seen_count;
  char key[192];
  (void)snprintf(key, sizeof key, "%s %s %s %s %u %s", FIELD(table, hw), FIELD(table, model), FIELD(table, runtime),
                 FIELD(table, n_gpus), tensor_degree(table), FIELD(table, attention_dp));
  for (size_t i = 0; i < seen_count; i++)
    if (strcmp(seen[i], key) == 0)
      return false;
  ck_assert_uint_lt(seen_count, FIXTURE_COUNT(seen));
  fixture_text(seen[seen_count++], sizeof seen[0], key);
  return true;
}

static struct workload sketch_of(const struct table *table)
{
  struct workload workload = fixture_workload();
  struct workload_serving *serving = &workload.serving;
  fixture_close_loop(&workload, NUMBER(table, concurrency_or_batch));
  workload.traffic.input.fixed_tokens = NUMBER(table, isl) * NUMBER(table, length_scale);
  workload.traffic.output.fixed_tokens = NUMBER(table, osl) * NUMBER(table, length_scale);
  workload.weights = precision_parse(FIELD(table, weight_precision));
  workload.kv_cache = precision_parse(FIELD(table, kv_precision));
  fixture_text(serving->runtime, sizeof serving->runtime, FIELD(table, runtime));
  fixture_text(serving->runtime_version, sizeof serving->runtime_version, FIELD(table, runtime_version));
  serving->pipeline_parallel = COUNT(table, pp);
  serving->expert_parallel = COUNT(table, ep);
  serving->attention_data_parallel = COUNT(table, attention_dp);
  serving->tensor_parallel = tensor_degree(table);
  serving->replicas =
      COUNT(table, n_gpus) / (serving->tensor_parallel * serving->pipeline_parallel * serving->attention_data_parallel);
  return workload;
}

/* Predicted over measured. */
static double predict_row(const struct table *table)
{
  const struct catalogue_model *model = catalogue_find_model(snapshot, FIELD(table, model));
  const struct catalogue_profile *profile = catalogue_find_profile(snapshot, FIELD(table, hw));
  const struct workload workload = sketch_of(table);
  const double measured_ms = NUMBER(table, value);
  struct scorecard card;
  ck_assert_msg(model != NULL && profile != NULL, "%s", FIELD(table, id));
  evaluate(&card, &workload, &model->model, &profile->hardware);
  ck_assert_msg(card.has_latency, "%s: %s", FIELD(table, id), card.no_fit_detail);
  printf("%s %-16s %-26s %s GPUs, tp %u, %-5s %5.0f/%-4.0f %4s users, %-12s %7.2f ms, measured %7.2f (%+.0f %%)\n",
         FIELD(table, id), profile->hardware.name, FIELD(table, model), FIELD(table, n_gpus), tensor_degree(table),
         FIELD(table, weight_precision), workload.traffic.input.fixed_tokens, workload.traffic.output.fixed_tokens,
         FIELD(table, concurrency_or_batch), FIELD(table, runtime), 1000 * card.latency.tpot_mean_s, measured_ms,
         100 * (1000 * card.latency.tpot_mean_s / measured_ms - 1));
  return 1000 * card.latency.tpot_mean_s / measured_ms;
}

/* The first such row of every hardware, model, runtime and layout: the rule was there before any prediction. */
START_TEST(four_of_five_measurements_are_met_within_a_quarter)
{
  const char *text = scratch_read_file(suite_source_path("tests/accuracy/measured_open.csv"));
  struct table table;
  struct error e = {.code = ERR_OK};
  unsigned rows = 0, close = 0;
  csv_init(&table.csv, text, strlen(text));
  ck_assert(csv_next(&table.csv, &e));
#define COLUMN(name) ck_assert_uint_ne(table.name = csv_column(&table.csv, #name), SIZE_MAX);
  COLUMNS(COLUMN)
#undef COLUMN
  while (csv_next(&table.csv, &e))
    if (is_wanted(&table) && is_first(&table)) {
      rows++;
      close += fabs(predict_row(&table) - 1) <= 0.25;
    }
  csv_fini(&table.csv);
  scratch_release();
  printf("%u of %u within 25 %%\n", close, rows);
  ck_assert_int_eq(e.code, ERR_OK);
  ck_assert_uint_eq(rows, 44);
  ck_assert_uint_ge(close, 36);
}
END_TEST

int main(void)
{
  const TTest *const tests[] = {figures_of_an_answer_agree_with_each_other,
                                the_first_token_waits_for_the_whole_prompt,
                                a_token_takes_what_the_architecture_says,
                                no_answer_uses_fewer_than_min_gpus,
                                fp8_never_takes_more_memory_than_bf16,
                                a_step_reads_every_weight_once,
                                more_replicas_are_never_slower,
                                costs_are_proportional_to_prices,
                                impossible_numbers_are_refused_where_they_stand,
                                four_of_five_measurements_are_met_within_a_quarter};
  Suite *suite = suite_create("catalogue physics");
  TCase *tcase = tcase_create("catalogue physics");
  tcase_set_timeout(tcase, 120);
  tcase_add_unchecked_fixture(tcase, open_catalogue, close_catalogue);
  for (size_t i = 0; i < FIXTURE_COUNT(tests); i++)
    tcase_add_test(tcase, tests[i]);
  tcase_add_loop_test(tcase, a_worse_device_is_never_better, 0, (int)FIXTURE_COUNT(worsenings));
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
