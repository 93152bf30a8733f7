/* Ways out: each fits, none is larger than it has to be, and their order is that of what they take. */
#include "core/ways_out.h"

#include <stdalign.h>

#include "core/knob.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)64 << 20], other_memory[(size_t)64 << 20];

struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
};

/* False where the simulation of so many sequences needs more memory than there is. */
static bool evaluate_in(struct scorecard *card, const struct problem *p, enum fit_depth depth, unsigned char *at)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = depth};
  struct arena arena;
  struct error e;
  enum err err;
  arena_init(&arena, at, sizeof memory);
  err = fit_evaluate(card, &request, &arena, &e);
  ck_assert_msg(err == ERR_OK || err == ERR_LIMIT, "%s: %s", e.pointer, e.message);
  return err == ERR_OK;
}

/* Whether the problem with the value set fits; a setting that is refused does not. */
static bool fits_with(const struct problem *p, const char *pointer, const struct knob_value *value)
{
  static struct scorecard card;
  struct problem changed = *p;
  const struct knob_subject subject = {&changed.workload, &changed.model, &changed.hardware};
  struct error e;
  if (knob_set(&subject, pointer, value, &e) != ERR_OK || knob_check(&subject, &e) != ERR_OK)
    return false;
  return evaluate_in(&card, &changed, FIT_SIMULATED, other_memory) && card.verdict == VERDICT_FIT;
}

static double toward(double to, double from, double step)
{
  return from > to ? fmin(from, to + step) : fmax(from, to - step);
}

/* Back towards what was by 1 %, at least one of a count; false where there is no step of that kind. */
static bool step_back(struct knob_value *back, const struct scorecard_change *way)
{
  const struct knob_subject none = {NULL, NULL, NULL};
  struct workload workload;
  struct knob_subject subject = none;
  enum knob_kind kind;
  subject.workload = &workload;
  *back = way->to;
  if (way->to.type == KNOB_VALUE_LENGTH) {
    back->length.p50_tokens *= 1.01;
    back->length.p99_tokens *= 1.01;
    back->length.mean_tokens *= 1.01;
    return true;
  }
  if (way->to.type != KNOB_VALUE_NUMBER || strncmp(way->pointer, "/model/", 7) == 0 ||
      strstr(way->pointer, "_parallel") != NULL)
    return false;
  ck_assert(knob_kind(&kind, NULL, way->pointer, &subject) || strncmp(way->pointer, "/profile/", 9) == 0);
  if (strncmp(way->pointer, "/profile/", 9) == 0)
    kind = KNOB_KIND_REAL;
  back->number = toward(way->to.number, way->from.number,
                        kind == KNOB_KIND_REAL ? way->to.number * 0.01 : fmax(1, ceil(way->to.number * 0.01)));
  return true;
}

/* Lists: everything nearer to what was does not fit. */
static void assert_nearest_in_list(const struct problem *p, const struct scorecard_change *way)
{
  static const char *const formats[] = {"bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4"};
  if (way->to.type == KNOB_VALUE_TEXT) {
    for (size_t i = 0; strcmp(formats[i], way->to.text) != 0; i++) {
      const struct knob_value nearer = knob_text(formats[i]);
      ck_assert_msg(!fits_with(p, way->pointer, &nearer), "%s fits with %s already", way->pointer, formats[i]);
    }
  } else if (strcmp(way->pointer, "/model/num_key_value_heads") == 0) {
    for (double heads = way->from.number; heads > way->to.number; heads--) {
      const struct knob_value nearer = knob_number(heads);
      ck_assert_msg(!fits_with(p, way->pointer, &nearer), "%g KV heads fit already", heads);
    }
  }
}

static void assert_minimal(const struct problem *p, const struct scorecard_change *way)
{
  struct knob_value back;
  ck_assert_msg(fits_with(p, way->pointer, &way->to), "%s: it does not fit", way->message);
  if (step_back(&back, way))
    ck_assert_msg(!fits_with(p, way->pointer, &back), "%s: %.9g fits as well", way->message, back.number);
  else
    assert_nearest_in_list(p, way);
}

static void assert_ordered(const struct scorecard *card)
{
  bool is_cheap = false;
  for (size_t i = 0; i < card->way_out_count; i++) {
    const struct scorecard_change *way = &card->ways_out[i];
    ck_assert(i == 0 || card->ways_out[i - 1].requires <= way->requires);
    ck_assert(way->message != NULL && way->knob != NULL);
    is_cheap = is_cheap || way->requires <= REQUIRES_REQUANTISATION;
  }
  ck_assert_int_eq(card->verdict, is_cheap ? VERDICT_FIT_WITH_CHANGES : VERDICT_NO_FIT);
  ck_assert_int_ne(card->no_fit_reason, NO_FIT_NONE);
}

static void problem_init(struct problem *p, const char *device, const char *model)
{
  p->hardware = fixture_hardware(device);
  p->model = fixture_model(model);
  p->workload = fixture_workload();
  fixture_add_price(&p->hardware, "AWS", "instance", 8, 3, "on_demand");
}

static void draw_limits(struct workload *w, uint64_t *random)
{
  if (fixture_random_index(random, 2) == 0)
    w->targets.ttft_ms.p50 = fixture_random(random, 30, 500);
  if (fixture_random_index(random, 2) == 0)
    w->targets.itl_ms.p50 = fixture_random(random, 4, 40);
  if (fixture_random_index(random, 4) == 0)
    w->targets.e2e_ms.p99 = fixture_random(random, 1000, 8000);
  if (fixture_random_index(random, 3) == 0)
    w->targets.cost_per_successful_request_usd = fixture_random(random, 0.0001, 0.003);
  if (fixture_random_index(random, 3) == 0)
    w->targets.max_context_tokens = floor(fixture_random(random, 8192, 200000));
  if (fixture_random_index(random, 3) == 0)
    w->targets.headroom_ratio = fixture_random(random, 0.1, 0.6);
  if (fixture_random_index(random, 2) == 0)
    w->constraints.gpu_quota = 1u << fixture_random_index(random, 4);
}

static void draw_serving(struct workload *w, uint64_t *random)
{
  if (fixture_random_index(random, 4) == 0)
    w->serving.max_batch = 1u << (2 + fixture_random_index(random, 6));
  if (fixture_random_index(random, 4) == 0)
    w->serving.replicas = 1 + fixture_random_index(random, 2);
  if (w->constraints.gpu_quota == 0 && fixture_random_index(random, 3) == 0)
    w->serving.tensor_parallel = 1u << fixture_random_index(random, 3);
}

/* Requests enough to strain a few GPUs, limits that are often too tight. */
static void draw(struct problem *p, uint64_t *random)
{
  static const char *const devices[] = {"h100-sxm-80gb", "l40s-48gb", "a100-sxm-80gb", "h200-sxm-141gb"};
  static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "llama-2-7b", "qwen3-14b"};
  problem_init(p, devices[fixture_random_index(random, 4)], models[fixture_random_index(random, 4)]);
  p->workload.traffic.input.fixed_tokens = floor(fixture_random(random, 128, 3000));
  p->workload.traffic.output.fixed_tokens = floor(fixture_random(random, 16, 600));
  p->workload.traffic.requests_per_s = fixture_random(random, 0.5, 40);
  if (fixture_random_index(random, 4) == 0)
    fixture_close_loop(&p->workload, floor(fixture_random(random, 1, 400)));
  else if (fixture_random_index(random, 3) == 0)
    p->workload.traffic.output = (struct length){LENGTH_QUANTILES, (double)NAN, 200, 700, (double)NAN, (double)NAN};
  draw_limits(&p->workload, random);
  draw_serving(&p->workload, random);
}

START_TEST(every_way_out_fits_and_is_minimal)
{
  static struct scorecard card;
  uint64_t random = 0x5eed0000u + (uint64_t)_i;
  unsigned seen = 0, misses = 0;
  for (unsigned i = 0; i < suite_rounds(25); i++) {
    struct problem p;
    draw(&p, &random);
    if (!evaluate_in(&card, &p, FIT_FULL, memory))
      continue;
    if (card.verdict == VERDICT_FIT) {
      ck_assert_uint_eq(card.way_out_count, 0);
      continue;
    }
    misses++;
    assert_ordered(&card);
    for (size_t k = 0; k < card.way_out_count; k++)
      assert_minimal(&p, &card.ways_out[k]);
    seen += (unsigned)card.way_out_count;
  }
  ck_assert_msg(misses >= suite_rounds(8) && seen >= suite_rounds(8), "%u ways out of %u misses", seen, misses);
}
END_TEST

static const struct scorecard_change *find(const struct scorecard *card, const char *pointer)
{
  for (size_t i = 0; i < card->way_out_count; i++)
    if (strcmp(card->ways_out[i].pointer, pointer) == 0)
      return &card->ways_out[i];
  return NULL;
}

/* 70.55 billion parameters in bf16 are 131 GiB: too many for one H100 and for 71.3 GiB of it; in fp8 they fit. */
START_TEST(weights_too_large_are_requantised)
{
  struct problem p;
  struct scorecard card;
  const struct scorecard_change *way;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.traffic.requests_per_s = 0.1;
  p.workload.constraints.gpu_quota = 1;
  ck_assert(evaluate_in(&card, &p, FIT_FULL, memory));
  ck_assert_int_eq(card.verdict, VERDICT_FIT_WITH_CHANGES);
  way = find(&card, "/precision/weights");
  ck_assert_ptr_nonnull(way);
  ck_assert_str_eq(way->to.text, "fp8");
  ck_assert_str_eq(way->from.text, "bf16");
  way = find(&card, "/constraints/gpu_quota");
  ck_assert_ptr_nonnull(way);
  assert_close(way->to.number, 2, 1e-12);
  p.workload.constraints.accuracy = ACCURACY_LOCKED;
  ck_assert(evaluate_in(&card, &p, FIT_FULL, memory));
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_ptr_null(find(&card, "/precision/weights"));
  ck_assert_ptr_nonnull(find(&card, "/constraints/gpu_quota"));
}
END_TEST

/* A promise of more context than the model has positions for is met by what it has. */
START_TEST(context_is_promised_as_far_as_it_goes)
{
  struct problem p;
  struct scorecard card;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.targets.max_context_tokens = 200000;
  ck_assert(evaluate_in(&card, &p, FIT_FULL, memory));
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_TARGETS_MISSED);
  ck_assert_ptr_nonnull(find(&card, "/targets/max_context_tokens"));
  assert_close(find(&card, "/targets/max_context_tokens")->to.number, 131072, 1e-12);
}
END_TEST

/* Limits that exclude each other have ways out too: the whole's rises to what its parts come to, 200 + 255 x 20. */
START_TEST(contradictions_have_ways_out)
{
  struct problem p;
  struct scorecard card;
  const struct scorecard_change *way;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-8b");
  p.workload.targets.ttft_ms.p50 = 200;
  p.workload.targets.itl_ms.p50 = 20;
  p.workload.targets.e2e_ms.p50 = 4000;
  ck_assert(evaluate_in(&card, &p, FIT_FULL, memory));
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_TARGETS_CONTRADICT);
  way = find(&card, "/targets/e2e_ms/p50");
  ck_assert_ptr_nonnull(way);
  assert_close(way->to.number, 5300, 0.01);
}
END_TEST

START_TEST(any_arena_gives_an_answer_or_a_limit)
{
  struct problem p;
  struct scorecard card;
  struct error e;
  enum err last = ERR_LIMIT;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.constraints.gpu_quota = 1;
  for (size_t capacity = 0; capacity < 1 << 18; capacity += capacity < 4096 ? 61 : 4093) {
    const struct fit_request request = {.workload = &p.workload, .model = &p.model, .hardware = &p.hardware};
    struct arena arena;
    arena_init(&arena, memory, capacity);
    last = fit_evaluate(&card, &request, &arena, &e);
    ck_assert(last == ERR_OK || last == ERR_LIMIT);
  }
  ck_assert_int_eq(last, ERR_OK);
}
END_TEST

static bool stop_after(void *left)
{
  return --*(int *)left < 0;
}

START_TEST(stop_cancels_a_search_on_its_way)
{
  struct problem p;
  struct scorecard card;
  struct error e;
  problem_init(&p, "h100-sxm-80gb", "llama-3.1-70b");
  p.workload.constraints.gpu_quota = 4;
  p.workload.targets.itl_ms.p50 = 12;
  for (int polls = 0; polls < 40; polls += 7) {
    int left = polls;
    const struct fit_request request = {
        .workload = &p.workload, .model = &p.model, .hardware = &p.hardware, .stop = stop_after, .stop_cls = &left};
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    ck_assert_int_eq(fit_evaluate(&card, &request, &arena, &e), ERR_CANCELLED);
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("ways_out");
  tcase_add_loop_test(tcase, every_way_out_fits_and_is_minimal, 0, 4);
  tcase_add_test(tcase, weights_too_large_are_requantised);
  tcase_add_test(tcase, context_is_promised_as_far_as_it_goes);
  tcase_add_test(tcase, contradictions_have_ways_out);
  tcase_add_test(tcase, any_arena_gives_an_answer_or_a_limit);
  tcase_add_test(tcase, stop_cancels_a_search_on_its_way);
  return fixture_run("core/ways_out", tcase);
}
