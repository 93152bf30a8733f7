/* The memory model against start-up logs of real engines: tests/data/memory/memory_open.csv, or the table that
   FITD_MEMORY_TABLE names. Prints one line a check, then every point that misses (all of them with FITD_MEMORY_ALL) and
   every one that can not be answered, with the reason. */
#include "tests/accuracy/start_logs.h"

/* ---- checks ---- */

struct result {
  const struct point *point;
  double predicted, printed, error; /* error in the check's own terms */
};
struct check {
  const char *name;
  double within;
  size_t count;
  struct result results[POINTS_MAX];
  size_t refused_count;
  struct {
    const struct point *point;
    const char *why;
  } refused[POINTS_MAX];
};

static void add(struct check *check, const struct point *point, double predicted, double printed, double scale)
{
  check->results[check->count++] = (struct result){point, predicted, printed, fabs(predicted - printed) / fabs(scale)};
}

static void refuse(struct check *check, const struct point *point, const char *why)
{
  check->refused[check->refused_count].point = point;
  check->refused[check->refused_count++].why = why;
}

static int by_error(const void *a, const void *b)
{
  const struct result *left = a, *right = b;
  return (left->error > right->error) - (left->error < right->error);
}

static size_t within(const struct check *check)
{
  size_t count = 0;
  for (size_t i = 0; i < check->count; i++)
    count += check->results[i].error <= check->within;
  return count;
}

static double median(const struct check *check)
{
  if (check->count == 0)
    return (double)NAN;
  if (check->count % 2 == 1)
    return check->results[check->count / 2].error;
  return (check->results[check->count / 2 - 1].error + check->results[check->count / 2].error) / 2;
}

static void report(struct check *check)
{
  qsort(check->results, check->count, sizeof check->results[0], by_error);
  printf("%-58s median %8.4f %%   within %g %%: %zu of %zu\n", check->name, 100 * median(check), 100 * check->within,
         within(check), check->count);
  for (size_t i = check->count;
       i > 0 && (getenv("FITD_MEMORY_ALL") != NULL || check->results[i - 1].error > check->within); i--) {
    const struct result *r = &check->results[i - 1];
    printf("    %s %s %s, %s, %s, tp %s pp %s %s: predicted %.5g, printed %.5g (off %.2f %%)\n", r->point->text[POINT],
           r->point->text[ENGINE], r->point->text[VERSION], r->point->text[MODEL], r->point->text[GPU],
           r->point->text[TP], r->point->text[PP], r->point->text[QUANTIZATION], r->predicted, r->printed,
           100 * r->error);
  }
  for (size_t i = 0; i < check->refused_count; i++)
    printf("    %s %s %s: not answered: %s\n", check->refused[i].point->text[POINT],
           check->refused[i].point->text[ENGINE], check->refused[i].point->text[MODEL], check->refused[i].why);
}

static void check_weights(struct check *check, const struct subject *s)
{
  const double printed = metric(s->point, "weights_gib");
  struct memory_plan plan;
  if (isnan(printed))
    return;
  if (isnan(number(s->point, TP))) {
    refuse(check, s->point, "the log does not say over how many GPUs");
    return;
  }
  if (says(s->point, QUANTIZATION, "nvfp4")) {
    refuse(check, s->point, "no config says which modules this release leaves unquantised");
    return;
  }
  memory_plan_stage(&plan, &s->c, 0);
  add(check, s->point, plan.weights_bytes / GIB, printed, printed);
}

/* Pool of the rank that decides, where the log prints the first stage's. */
static double deciding_pool_bytes(const struct subject *s)
{
  const double printed = metric(s->point, "kv_cache_gib") * GIB;
  struct memory_plan first, tightest;
  memory_plan_stage(&first, &s->c, 0);
  memory_plan_of(&tightest, &s->c);
  return printed - (first.kv_cache_bytes - tightest.kv_cache_bytes);
}

static double printed_tokens(const struct subject *s)
{
  const double tokens = metric(s->point, "kv_tokens");
  return isnan(tokens) ? metric(s->point, "gpu_blocks") * s->preset.kv_block_tokens : tokens;
}

static void check_tokens(struct check *check, const struct subject *s)
{
  const double pool = metric(s->point, "kv_cache_gib");
  const double printed = printed_tokens(s);
  struct memory_pool cut;
  if (isnan(pool) || isnan(printed))
    return;
  memory_pool_cut(&cut, &s->model, &s->layout, &s->precision, &s->preset, deciding_pool_bytes(s));
  add(check, s->point, cut.printed_tokens, printed, printed);
}

static void check_concurrency(struct check *check, const struct subject *s)
{
  const double printed = metric(s->point, "max_concurrency");
  const double context = number(s->point, CONTEXT);
  if (isnan(printed) || isnan(context) || isnan(metric(s->point, "kv_cache_gib")))
    return;
  add(check, s->point,
      memory_pool_sequences(&s->model, &s->layout, &s->precision, &s->preset, deciding_pool_bytes(s), context), printed,
      printed);
}

static void check_pool(struct check *known, struct check *assumed, const struct subject *s)
{
  const double printed = metric(s->point, "kv_cache_gib");
  struct memory_plan plan;
  struct check *check = s->has_limits && s->has_fraction && s->total_is_printed ? known : assumed;
  if (isnan(printed) || is_engine(s->point, "sglang"))
    return;
  if (!s->has_total) {
    refuse(known, s->point, "the device's memory is not known");
    return;
  }
  if (s->is_inferred) {
    refuse(known, s->point, "the model is a guess from the shape of its KV cache, its weights are not printed");
    return;
  }
  memory_plan_stage(&plan, &s->c, 0);
  add(check, s->point, plan.kv_cache_bytes / GIB, printed, plan.usable_bytes / GIB);
}

/* The rules of engines that print what is free before the pool, on a device that has just that much: SGLang before it
   loads (its figure for the weights is what loading took), TensorRT-LLM after. */
static void check_rule(struct check *check, const struct subject *s)
{
  const double context_gib = 0.5;
  const double after_weights = metric(s->point, "avail_after_weights_gib");
  const double before_pool = metric(s->point, "avail_before_kv_gib");
  const double printed = metric(s->point, "kv_cache_gib");
  struct subject own = *s;
  struct memory_plan plan;
  own.c.model = &own.model;
  own.c.hardware = &own.hardware;
  own.c.layout = &own.layout;
  own.c.precision = &own.precision;
  own.c.preset = &own.preset;
  if (!isnan(after_weights) && isnan(number(s->point, TP))) {
    refuse(check, s->point, "the log does not say over how many GPUs; its pool of 2^19 tokens looks like a limit");
    return;
  }
  if (!isnan(after_weights)) {
    own.hardware.memory_engine_mib = (after_weights + metric(s->point, "weights_gib") + context_gib) * KIB;
    memory_plan_of(&plan, &own.c);
    own.c.replicated_bytes += metric(s->point, "weights_gib") * GIB - plan.weights_bytes;
  } else if (!isnan(before_pool)) {
    memory_plan_of(&plan, &own.c);
    own.hardware.memory_engine_mib =
        before_pool * KIB + (plan.weights_bytes + plan.activations_bytes + plan.runtime_bytes) / MIB;
  } else {
    return;
  }
  own.hardware.share = (double)NAN;
  memory_plan_of(&plan, &own.c);
  add(check, s->point, plan.kv_cache_bytes / GIB, printed, printed);
}

/* Parts: activation and buffers in GiB, so `within` is a figure in GiB / 100. */
static void check_part(struct check *check, const struct subject *s, const char *name, double predicted_bytes)
{
  const double printed = metric(s->point, name);
  if (!isnan(printed) && is_engine(s->point, "vllm"))
    add(check, s->point, predicted_bytes / GIB, printed, 100);
}

static void check_parts(struct check *activations, struct check *buffers, struct check *graphs, const struct subject *s)
{
  struct memory_plan plan;
  memory_plan_stage(&plan, &s->c, 0);
  if (s->has_limits)
    check_part(activations, s, "activation_peak_gib", plan.activations_bytes);
  check_part(buffers, s, "non_torch_gib",
             plan.runtime_bytes - (s->preset.memory.has_graphs_in_budget ? plan.graphs_bytes : 0));
  if (!isnan(number(s->point, SEQUENCES)))
    check_part(graphs, s, "graph_gib", plan.graphs_bytes);
}

/* Files of one format: mixtures keep single tensors in others. */
static void check_llama_cpp_weights(struct check *check, const struct subject *s)
{
  const double printed = metric(s->point, "gpu_weights_mib");
  if (!isnan(printed) && (says(s->point, QUANTIZATION, "F16") || says(s->point, QUANTIZATION, "Q4_0")))
    add(check, s->point, memory_weights_of(&s->c) / MIB, printed, printed);
}

static void check_llama_cpp(struct check *kv, struct check *split, struct check *buffers, const struct subject *s)
{
  const double context = number(s->point, CONTEXT);
  const struct layout one = {1, 1, 1, 1};
  if (isnan(metric(s->point, "kv_self_mib")))
    return;
  add(kv, s->point, memory_sequence_bytes(&s->model, &one, &s->precision, &s->preset, context) / MIB,
      metric(s->point, "kv_self_mib"), metric(s->point, "kv_self_mib"));
  for (unsigned i = 0; i < s->layout.pipeline_parallel; i++) {
    struct memory_plan plan;
    double printed = metric(s->point, scratch_printf("kv_buffer_mib_CUDA%u", i));
    memory_plan_stage(&plan, &s->c, i);
    if (!isnan(printed))
      add(split, s->point, plan.kv_growing_per_token_bytes * context / MIB, printed, printed);
    printed = metric(s->point, scratch_printf("compute_buffer_mib_%s",
                                              s->layout.pipeline_parallel > 1 ? scratch_printf("CUDA%u", i) : "Metal"));
    if (!isnan(printed))
      add(buffers, s->point, plan.activations_bytes / MIB, printed, printed);
  }
}

/* The host's pool of 4 GiB counts its blocks too. */
static void check_blocks(struct check *check, const struct subject *s)
{
  const double printed = metric(s->point, "cpu_blocks");
  struct memory_pool cut;
  if (isnan(printed))
    return;
  memory_pool_cut(&cut, &s->model, &s->layout, &s->precision, &s->preset, 4 * GIB);
  add(check, s->point, cut.blocks, printed, printed);
}

enum {
  WEIGHTS,
  TOKENS_OF_POOL,
  SEQUENCES_OF_POOL,
  POOL,
  POOL_ASSUMED,
  RULES,
  ACTIVATIONS,
  BUFFERS,
  GRAPHS,
  LLAMA_KV,
  LLAMA_SPLIT,
  LLAMA_WEIGHTS,
  LLAMA_COMPUTE,
  HOST_BLOCKS,
  CHECK_COUNT
};
static struct check checks[CHECK_COUNT] = {
    [WEIGHTS] = {.name = "weights per GPU", .within = 0.01},
    [TOKENS_OF_POOL] = {.name = "tokens of a printed KV pool", .within = 0.01},
    [SEQUENCES_OF_POOL] = {.name = "sequences of a printed KV pool", .within = 0.01},
    [POOL] = {.name = "KV pool, everything predicted, of the budget", .within = 0.01},
    [POOL_ASSUMED] = {.name = "  the same where limits, version or total are not stated", .within = 0.01},
    [RULES] = {.name = "KV pool from the free memory that SGLang, TensorRT print", .within = 0.01},
    [ACTIVATIONS] = {.name = "activation peak, GiB / 100", .within = 0.001},
    [BUFFERS] = {.name = "non-torch growth, GiB / 100", .within = 0.002},
    [GRAPHS] = {.name = "CUDA graphs, GiB / 100", .within = 0.003},
    [LLAMA_KV] = {.name = "llama.cpp: KV cache", .within = 1e-12},
    [LLAMA_SPLIT] = {.name = "llama.cpp: KV cache of each GPU", .within = 1e-12},
    [LLAMA_WEIGHTS] = {.name = "llama.cpp: weights on the GPU, files of one format", .within = 0.01},
    [LLAMA_COMPUTE] = {.name = "llama.cpp: compute buffer", .within = 0.01},
    [HOST_BLOCKS] = {.name = "blocks of the host's pool", .within = 1e-12},
};

static void check_point(const struct subject *s)
{
  if (is_engine(s->point, "llama.cpp")) {
    check_llama_cpp(&checks[LLAMA_KV], &checks[LLAMA_SPLIT], &checks[LLAMA_COMPUTE], s);
    check_llama_cpp_weights(&checks[LLAMA_WEIGHTS], s);
    return;
  }
  check_weights(&checks[WEIGHTS], s);
  check_tokens(&checks[TOKENS_OF_POOL], s);
  check_concurrency(&checks[SEQUENCES_OF_POOL], s);
  check_pool(&checks[POOL], &checks[POOL_ASSUMED], s);
  check_rule(&checks[RULES], s);
  check_parts(&checks[ACTIVATIONS], &checks[BUFFERS], &checks[GRAPHS], s);
  check_blocks(&checks[HOST_BLOCKS], s);
}

static double share_within(const struct check *check)
{
  return check->count != 0 ? (double)within(check) / (double)check->count : 1;
}

/* Shares are worth what they count: the open table's size, and how few of its points are left out. */
static void assert_open_table(void)
{
  ck_assert_uint_ge(checks[WEIGHTS].count, 100);
  ck_assert_uint_le(checks[WEIGHTS].refused_count, 2);
  ck_assert_uint_ge(checks[TOKENS_OF_POOL].count, 95);
  ck_assert_uint_ge(checks[SEQUENCES_OF_POOL].count, 80);
  ck_assert_uint_ge(checks[POOL].count, 60);
  ck_assert_uint_le(checks[POOL].refused_count, 11);
  ck_assert_uint_le(checks[POOL_ASSUMED].count, 25);
  ck_assert_uint_ge(checks[LLAMA_KV].count, 20);
}

START_TEST(memory_of_start_up_logs)
{
  static struct subject s;
  size_t unknown = 0;
  ck_assert_uint_gt(table.count, 0);
  for (size_t i = 0; i < table.count; i++)
    if (subject_of(&s, &table.points[i])) {
      check_point(&s);
    } else {
      printf("%s %s: no config for this model\n", table.points[i].text[POINT], table.points[i].text[MODEL]);
      unknown++;
    }
  for (int i = 0; i < CHECK_COUNT; i++)
    report(&checks[i]);
  ck_assert_uint_eq(unknown, 0);
  ck_assert(median(&checks[WEIGHTS]) <= 0.001 && share_within(&checks[WEIGHTS]) >= 0.85);
  ck_assert(share_within(&checks[TOKENS_OF_POOL]) >= 0.95 && share_within(&checks[SEQUENCES_OF_POOL]) >= 0.95);
  ck_assert(share_within(&checks[POOL]) >= 0.9);
  ck_assert(within(&checks[POOL]) + within(&checks[POOL_ASSUMED]) >=
            0.85 * (double)(checks[POOL].count + checks[POOL_ASSUMED].count));
  ck_assert(share_within(&checks[LLAMA_KV]) >= 1 && share_within(&checks[LLAMA_SPLIT]) >= 1);
  ck_assert(share_within(&checks[HOST_BLOCKS]) >= 1);
  if (getenv("FITD_MEMORY_TABLE") == NULL)
    assert_open_table();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("accuracy/memory");
  TCase *tcase = suite_case(suite, "memory", setup, scratch_release);
  tcase_add_test(tcase, memory_of_start_up_logs);
  return suite_run(suite);
}
