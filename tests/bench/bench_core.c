/* CPU time of the core's hot paths, each beside a bare roofline loop over the same number of operators in the same run:
   rates on a shared machine swing, ratios hardly do. Prints; fails when a goal of CORE §9 is missed. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/catalogue.h"
#include "core/fit_int.h"
#include "core/frontier.h"
#include "core/judge.h"
#include "core/search.h"
#include "core/stress.h"

static double cpu_s(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Operators of a layer and of the head, as the step walks them. */
enum { OPERATORS = 11 };

/* max(FLOPs / peak, bytes / bandwidth) over the operators of one step: what a plain roofline does. */
static double roofline_us(unsigned repeats)
{
  static volatile double flops[OPERATORS], bytes[OPERATORS], sink;
  const double began = cpu_s();
  for (int i = 0; i < OPERATORS; i++) {
    flops[i] = 1e9 * (i + 1);
    bytes[i] = 1e8 * (i + 3);
  }
  for (unsigned r = 0; r < repeats; r++) {
    double sum = 0;
    for (int i = 0; i < OPERATORS; i++)
      sum += fmax(flops[i] / 1e15, bytes[i] / 3e12);
    sink += sum;
  }
  return 1e6 * (cpu_s() - began) / repeats;
}

struct setting {
  struct model model;
  struct hardware hardware;
  struct workload workload;
  struct engine engine;
  struct memory_plan memory;
};

/* A model on H100, tensor parallel 4, from the built-in catalogue; all of its profiles beside it. */
enum { PROFILES_MAX = 128 };
static struct hardware profiles[PROFILES_MAX];
static size_t profile_count;

static bool set_up(struct setting *s, const char *model)
{
  const struct layout layout = {4, 1, 1, 1};
  struct catalogue *catalogue = NULL;
  const struct catalogue_snapshot *snapshot = NULL;
  struct preset preset;
  if (catalogue_open(&catalogue, NULL, NULL) != ERR_OK || catalogue_acquire(&snapshot, catalogue, NULL) != ERR_OK)
    return false;
  s->model = catalogue_find_model(snapshot, model)->model;
  profile_count = snapshot->profile_count < PROFILES_MAX ? snapshot->profile_count : PROFILES_MAX;
  for (size_t i = 0; i < profile_count; i++)
    profiles[i] = snapshot->profiles[i].hardware;
  s->hardware = catalogue_find_profile(snapshot, "h100-sxm-80gb")->hardware;
  catalogue_release(catalogue, snapshot);
  catalogue_close(catalogue);
  workload_init(&s->workload);
  s->workload.traffic.input = (struct length){.kind = LENGTH_FIXED, .fixed_tokens = 2048};
  s->workload.traffic.output = (struct length){.kind = LENGTH_FIXED, .fixed_tokens = 256};
  s->workload.traffic.load = LOAD_OPEN;
  s->workload.traffic.requests_per_s = 2;
  if (preset_resolve(&preset, &s->workload.serving, &s->hardware, NULL) != ERR_OK)
    return false;
  s->engine = step_engine(&s->model, &s->hardware, &layout, &s->model.precision, PRECISION_NONE, &preset);
  s->engine.precision.kv_cache = PRECISION_BF16;
  memory_plan(&s->memory, &s->model, &s->hardware, &layout, &s->engine.precision, &preset);
  return true;
}

static double step_us(const struct setting *s, unsigned repeats)
{
  static volatile double sink;
  const double began = cpu_s();
  for (unsigned r = 0; r < repeats; r++) {
    struct step_time time;
    step_decode(&time, &s->engine, 16 + r % 64, 2176);
    sink += time.seconds;
  }
  return 1e6 * (cpu_s() - began) / repeats;
}

/* One layout analytically: memory and the steady state of a given load. */
static double layout_us(const struct setting *s, unsigned repeats)
{
  static volatile double sink;
  const double began = cpu_s();
  for (unsigned r = 0; r < repeats; r++) {
    const struct steady_load load = {.kind = LOAD_OPEN,
                                     .is_poisson = true,
                                     .requests_per_s = 1 + 0.01 * (r % 100),
                                     .prompt_tokens = 2048,
                                     .output_tokens = 256};
    struct memory_plan memory;
    struct steady_state state;
    bool is_kv;
    memory_plan(&memory, &s->model, &s->hardware, &s->engine.layout, &s->engine.precision, &s->engine.preset);
    steady_evaluate(&state, &s->engine, &load, steady_batch_limit(&is_kv, &s->engine, &memory, 2048, 256));
    sink += state.e2e_s;
  }
  return 1e6 * (cpu_s() - began) / repeats;
}

static double evaluate_us(struct setting *s, enum fit_depth depth, unsigned repeats)
{
  static unsigned char memory[16 << 20];
  const double began = cpu_s();
  for (unsigned r = 0; r < repeats; r++) {
    const struct fit_request request = {
        .workload = &s->workload, .model = &s->model, .hardware = &s->hardware, .depth = depth};
    struct scorecard card;
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    if (fit_evaluate(&card, &request, &arena, NULL) != ERR_OK)
      return (double)NAN;
  }
  return 1e6 * (cpu_s() - began) / repeats;
}

/* A cell of a grid: the layout is held, nothing is searched. */
static double cell_us(struct setting *s, unsigned repeats)
{
  static unsigned char memory[1 << 20];
  const struct workload_serving serving = s->workload.serving;
  const double began = cpu_s();
  enum err err = ERR_OK;
  s->workload.serving.tensor_parallel = 4;
  s->workload.serving.pipeline_parallel = s->workload.serving.expert_parallel = 1;
  s->workload.serving.attention_data_parallel = s->workload.serving.replicas = 1;
  for (unsigned r = 0; r < repeats && err == ERR_OK; r++) {
    const struct fit_request request = {
        .workload = &s->workload, .model = &s->model, .hardware = &s->hardware, .depth = FIT_QUICK, .is_brief = true};
    struct scorecard card;
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    err = fit_evaluate(&card, &request, &arena, NULL);
  }
  s->workload.serving = serving;
  return err == ERR_OK ? 1e6 * (cpu_s() - began) / repeats : (double)NAN;
}

/* The closed form over every profile of the catalogue. */
static double all_profiles_us(const struct setting *s, unsigned repeats)
{
  static unsigned char memory[16 << 20];
  const double began = cpu_s();
  for (unsigned r = 0; r < repeats; r++)
    for (size_t i = 0; i < profile_count; i++) {
      const struct fit_request request = {
          .workload = &s->workload, .model = &s->model, .hardware = &profiles[i], .depth = FIT_QUICK};
      struct scorecard card;
      struct arena arena;
      arena_init(&arena, memory, sizeof memory);
      if (fit_evaluate(&card, &request, &arena, NULL) != ERR_OK)
        return (double)NAN;
    }
  return 1e6 * (cpu_s() - began) / repeats;
}

static double frontier_us(const struct setting *s, unsigned repeats)
{
  static unsigned char memory[1 << 20];
  static struct frontier_point points[1024];
  const double began = cpu_s();
  for (unsigned r = 0; r < repeats; r++) {
    const struct fit_request request = {
        .workload = &s->workload, .model = &s->model, .hardware = &s->hardware, .depth = FIT_QUICK};
    struct frontier frontier = {.points = points, .capacity = sizeof points / sizeof points[0]};
    struct arena arena;
    struct notes notes;
    arena_init(&arena, memory, sizeof memory);
    notes_init(&notes, &arena);
    if (frontier_add(&frontier, 0, &request, &notes, &arena, NULL) != ERR_OK)
      return (double)NAN;
  }
  return 1e6 * (cpu_s() - began) / repeats;
}

/* What depth full simulates: the finalists, the winner's long run, its knee, and the stress cases. */
static double simulated_us(const struct setting *s, unsigned repeats)
{
  static unsigned char memory[32 << 20];
  const struct fit_request request = {.workload = &s->workload, .model = &s->model, .hardware = &s->hardware};
  const struct judge_options options = {.requests = JUDGE_REQUESTS_FINAL};
  const struct judge_options compared = {.requests = JUDGE_REQUESTS_COMPARE};
  static struct search_result result;
  static struct scorecard card;
  double spent_s = 0;
  for (unsigned i = 0; i < repeats; i++) {
    struct search_input input;
    struct judged judged;
    struct judge_knee knee;
    struct notes notes;
    struct arena arena;
    bool is_judged;
    double began;
    arena_init(&arena, memory, sizeof memory);
    notes_init(&notes, &arena);
    if (fit_resolve(&input, &request, &notes, &arena, NULL) != ERR_OK ||
        search_best(&result, &input, SEARCH_FINALISTS, NULL, NULL, NULL) != ERR_OK)
      return (double)NAN;
    began = cpu_s();
    if (judge_select(&judged, &is_judged, &result, &input, &options, &arena, NULL) != ERR_OK || !is_judged)
      return (double)NAN;
    const struct judge_case c = {.input = &input, .candidate = &result.best, .load_scale = 1};
    if (judge_knee(&knee, &c, &judged, &arena, NULL) != ERR_OK ||
        stress_fill(&card, &input, &result.best, &compared, &arena, NULL) != ERR_OK)
      return (double)NAN;
    spent_s += cpu_s() - began;
  }
  return 1e6 * spent_s / repeats;
}

static int report(const char *what, double us, double bare_us, double goal_us)
{
  printf("%-46s %8.2f us CPU, %7.1f x the roofline loop", what, us, us / bare_us);
  if (goal_us > 0)
    printf(" (goal %g us)", goal_us);
  printf("\n");
  return goal_us > 0 && !(us <= goal_us);
}

static void set_targets(struct setting *s, double ttft_p50_ms, double itl_p50_ms)
{
  s->workload.targets.are_given = true;
  s->workload.targets.ttft_ms.p50 = ttft_p50_ms;
  s->workload.targets.itl_ms.p50 = itl_p50_ms;
}

static int report_dense(struct setting *s, double bare_us)
{
  int missed = report("one step, explained", step_us(s, 200000), bare_us, 0);
  missed += report("one layout: memory and steady state", layout_us(s, 20000), bare_us, 20);
  missed += report("fit_evaluate, one profile, no targets", evaluate_us(s, FIT_QUICK, 500), bare_us, 1000);
  set_targets(s, 1000, 60);
  missed += report("fit_evaluate, one profile, latency targets", evaluate_us(s, FIT_QUICK, 500), bare_us, 1000);
  s->workload.targets.headroom_ratio = 0.2;
  missed += report("… with headroom", evaluate_us(s, FIT_QUICK, 200), bare_us, 1000);
  s->workload.targets.headroom_ratio = (double)NAN;
  missed += report("… over all profiles", all_profiles_us(s, 4), bare_us, 30000);
  s->workload.targets.ttft_ms.p99 = 2000;
  s->workload.targets.itl_ms.p99 = 150;
  missed += report("… judged by a short simulation", evaluate_us(s, FIT_SIMULATED, 20), bare_us, 0);
  missed += report("… simulation and stress of depth full", simulated_us(s, 10), bare_us, 40000);
  missed += report("… depth full", evaluate_us(s, FIT_FULL, 10), bare_us, 100000);
  missed += report("a what-if cell (4,096 in 0.5 s)", cell_us(s, 500), bare_us, 122);
  return missed + report("frontier of one profile", frontier_us(s, 20), bare_us, 0);
}

/* Where the search has to look at everything: users, experts, limits that nothing keeps. */
static int report_hard(struct setting *dense, struct setting *experts, double bare_us)
{
  int missed = report("experts, no targets", evaluate_us(experts, FIT_QUICK, 50), bare_us, 1000);
  set_targets(experts, 2000, 60);
  missed += report("experts, latency targets", evaluate_us(experts, FIT_QUICK, 50), bare_us, 1000);
  missed += report("frontier of experts", frontier_us(experts, 5), bare_us, 0);
  dense->workload.traffic.load = LOAD_CLOSED;
  dense->workload.traffic.concurrency = 500;
  missed += report("500 users, latency targets", evaluate_us(dense, FIT_QUICK, 50), bare_us, 1000);
  dense->workload.targets.headroom_ratio = 0.5;
  missed += report("… with headroom", evaluate_us(dense, FIT_QUICK, 50), bare_us, 1000);
  set_targets(dense, 1000, 1);
  missed += report("… that nothing keeps", evaluate_us(dense, FIT_QUICK, 50), bare_us, 1000);
  return missed + report("… that nothing keeps, depth full", evaluate_us(dense, FIT_FULL, 1), bare_us, 100000);
}

int main(void)
{
  static struct setting dense, experts;
  const double bare_us = roofline_us(2000000);
  int missed = 0;
  if (!set_up(&dense, "llama-3.1-70b") || !set_up(&experts, "deepseek-v3")) {
    (void)fprintf(stderr, "the catalogue can not be loaded\n");
    return 2;
  }
  printf("plain roofline over %d operators: %.3f us CPU\n", OPERATORS, bare_us);
  missed = report_dense(&dense, bare_us) + report_hard(&dense, &experts, bare_us);
  if (missed > 0)
    printf("%d goals missed\n", missed);
  return missed > 0;
}
