/* The frontier of the sketch as it is, then of its variants, each with what it gains at equal interactivity. */
#include "api/frontier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/put.h"
#include "api/variant.h"
#include "api/write.h"
#include "core/frontier.h"
#include "core/units.h"
#include "api/trace.h"

enum { POINTS_MAX = 16384 };

/* One computation: arrays are the heap's, everything else lives in the arena of one profile. */
struct work {
  const struct sketch *sketch;
  const struct frontier_options *options;
  struct frontier frontier; /* of the variant in hand */
  struct frontier_point *base;
  size_t base_count;
  struct arena arena;
  json_t *assumptions, *left_out; /* of the sketch as it is */
};

/* ---- Points -------------------------------------------------------------------------------------------------------- */

static json_t *write_configuration(const struct frontier_point *point)
{
  json_t *to = json_object(), *precision = json_object();
  put_member(&precision, "weights", json_string(precision_name(point->weights)));
  put_member(&precision, "kv_cache", json_string(precision_name(point->kv_cache)));
  put_member(&precision, "activations", json_string(precision_name(point->activations)));
  put_member(&to, "tensor_parallel", json_integer(point->layout.tensor_parallel));
  put_member(&to, "pipeline_parallel", json_integer(point->layout.pipeline_parallel));
  put_member(&to, "expert_parallel", json_integer(point->layout.expert_parallel));
  put_member(&to, "attention_data_parallel", json_integer(point->layout.attention_data_parallel));
  put_member(&to, "replicas", json_integer(1));
  put_member(&to, "gpus", json_integer(point->gpus));
  put_member(&to, "max_batch", json_integer(point->max_batch));
  put_member(&to, "precision", precision);
  return to;
}

static json_t *write_latency(const struct frontier_point *point)
{
  json_t *to = json_object();
  put_member(&to, "ttft_ms", json_pack("{s:o}", "p50", write_number(point->ttft_s / MS)));
  put_member(&to, "itl_ms", json_pack("{s:o}", "p50", write_number(point->itl_s / MS)));
  put_member(&to, "tpot_ms", json_pack("{s:o}", "mean", write_number(point->tpot_s / MS)));
  return to;
}

static json_t *write_point(const struct work *work, const struct frontier_point *point)
{
  const struct catalogue_profile *profile = work->sketch->profiles[point->profile];
  json_t *to = json_object();
  put_member(&to, "profile", json_string(profile->hardware.name));
  put_member(&to, "configuration", write_configuration(point));
  put_member(&to, "batch", write_number(point->batch));
  put_member(&to, "output_tokens_per_s_per_gpu", write_number(point->output_tok_s_per_gpu));
  put_member(&to, "output_tokens_per_s_per_user", write_number(point->output_tok_s_per_user));
  put_member(&to, "requests_per_s", write_number(point->requests_per_s));
  put_member(&to, "latency", write_latency(point));
  put_member(&to, "cost",
             json_pack("{s:o, s:o}", "usd_per_gpu_hour", write_number(point->usd_per_gpu_hour),
                       "per_million_output_tokens_usd", write_number(point->per_million_output_tokens_usd)));
  put_member(&to, "limiter", write_text(limit_name(point->limiter)));
  put_member(&to, "targets_met", point->targets_met < 0 ? json_null() : json_boolean(point->targets_met == 1));
  return to;
}

static json_t *write_points(const struct work *work)
{
  json_t *points = json_array();
  for (size_t i = 0; i < work->frontier.count; i++)
    put_element(&points, write_point(work, &work->frontier.points[i]));
  return points;
}

/* ---- Computing ----------------------------------------------------------------------------------------------------- */

/* Profiles share most of their sentences. */
static void keep_sentences(json_t **array, const struct notes *notes)
{
  for (size_t i = 0; i < notes->count; i++) {
    bool is_known = false;
    for (size_t k = 0; k < json_array_size(*array) && !is_known; k++)
      is_known = strcmp(json_string_value(json_array_get(*array, k)), notes->items[i]) == 0;
    if (!is_known)
      put_element(array, json_string(notes->items[i]));
  }
}

static void leave_out(struct work *work, const struct catalogue_profile *profile, const char *reason)
{
  put_element(&work->left_out, json_pack("{s:s, s:s}", "profile", profile->hardware.name, "reason", reason));
}

static enum err add_profile(struct work *work, unsigned index, const struct workload *workload,
                            const struct model *model, bool is_base, struct error *e)
{
  const struct catalogue_profile *profile = work->sketch->profiles[index];
  struct fit_request request = {.workload = workload,
                                .model = model,
                                .hardware = &profile->hardware,
                                .depth = FIT_QUICK,
                                .draft_model = work->sketch->has_draft_model ? &work->sketch->draft_model : NULL};
  const size_t mark = arena_mark(&work->arena), searched = work->frontier.searched;
  struct notes notes;
  enum err rc;
  trace_replay_give(&request, work->sketch);
  notes_init(&notes, &work->arena);
  if (!variant_runs_on(workload, model, &profile->hardware)) {
    if (is_base)
      leave_out(work, profile, "the device does not run this precision");
    return ERR_OK;
  }
  rc = frontier_add(&work->frontier, index, &request, &notes, &work->arena, e);
  if (rc == ERR_OK && is_base && work->frontier.searched == searched)
    leave_out(work, profile, "no layout holds the model and one request");
  if (rc == ERR_OK && is_base)
    keep_sentences(&work->assumptions, &notes);
  arena_release(&work->arena, mark);
  return rc;
}

static enum err compute(struct work *work, const struct workload *workload, const struct model *model, bool is_base,
                        struct error *e)
{
  struct frontier *frontier = &work->frontier;
  enum err rc = ERR_OK;
  frontier->count = frontier->first = frontier->evaluated = frontier->searched = 0;
  frontier->has_cost = work->options->has_cost;
  for (size_t i = 0; i < work->sketch->profile_count && rc == ERR_OK; i++) {
    rc = add_profile(work, (unsigned)i, workload, model, is_base, e);
    if (rc == ERR_OK && work->options->by_profile)
      frontier_close_group(frontier);
  }
  frontier_close_group(frontier);
  return rc;
}

/* ---- Variants ------------------------------------------------------------------------------------------------------ */

/* The interactivity that the sketch asks for; without such a target the middle of the base's own range. */
static double compared_at(const char **basis, const struct work *work)
{
  const struct workload_targets *targets = &work->sketch->workload.targets;
  const double limits_ms[] = {targets->itl_ms.p50, targets->itl_ms.p90, targets->itl_ms.p99, targets->tpot_ms.mean};
  double least_ms = (double)NAN, low = (double)INFINITY, high = 0;
  for (size_t i = 0; i < sizeof limits_ms / sizeof limits_ms[0]; i++)
    least_ms = fmin(least_ms, limits_ms[i]);
  *basis = "targets";
  if (!isnan(least_ms))
    return 1 / (least_ms * MS);
  *basis = "middle";
  for (size_t i = 0; i < work->base_count; i++) {
    low = fmin(low, work->base[i].output_tok_s_per_user);
    high = fmax(high, work->base[i].output_tok_s_per_user);
  }
  return sqrt(low * high); /* rates spread over orders of magnitude */
}

static json_t *write_gain(const struct work *work)
{
  const char *basis;
  const double at = compared_at(&basis, work);
  const double base = frontier_throughput_at(work->base, work->base_count, at);
  const double gained = frontier_throughput_at(work->frontier.points, work->frontier.count, at);
  json_t *gain;
  if (work->base_count == 0)
    return json_null();
  gain = json_object();
  put_member(&gain, "output_tokens_per_s_per_user", write_number(at));
  put_member(&gain, "basis", json_string(basis));
  put_member(&gain, "output_tokens_per_s_per_gpu", json_pack("[o, o]", write_number(base), write_number(gained)));
  put_member(&gain, "ratio", write_number(gained / base));
  return gain;
}

static enum err add_variant(json_t **variants, struct work *work, enum variant variant, struct workload *workload,
                            struct model *model, struct error *e)
{
  json_t *to;
  enum err rc;
  *workload = work->sketch->workload;
  *model = work->sketch->model;
  if (!variant_apply(variant, workload, model))
    return ERR_OK;
  rc = compute(work, workload, model, false, e);
  if (rc != ERR_OK)
    return rc;
  to = json_object();
  put_member(&to, "variant", json_string(variant_name(variant)));
  put_member(&to, "requires", write_text(variant_requires(variant)));
  put_member(&to, "gain", write_gain(work));
  put_member(&to, "points", write_points(work));
  put_element(variants, to);
  return ERR_OK;
}

static enum err add_variants(json_t **variants, struct work *work, struct error *e)
{
  struct workload *workload = malloc(sizeof *workload);
  struct model *model = malloc(sizeof *model);
  enum err rc = ERR_OK;
  if (workload == NULL || model == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for a variant of the model");
  for (int variant = VARIANT_GQA; variant < VARIANT_COUNT && rc == ERR_OK; variant++)
    rc = add_variant(variants, work, (enum variant)variant, workload, model, e);
  free(workload);
  free(model);
  return rc;
}

/* ---- The document -------------------------------------------------------------------------------------------------- */

static json_t *write_objectives(const struct frontier_options *options)
{
  json_t *array = json_array();
  put_element(&array, json_string("output_tokens_per_s_per_gpu"));
  put_element(&array, json_string("output_tokens_per_s_per_user"));
  if (options->has_cost)
    put_element(&array, json_string("cost.per_million_output_tokens_usd"));
  return array;
}

static void extend(json_t **array, const json_t *more)
{
  for (size_t i = 0; i < json_array_size(more); i++)
    put_element(array, json_incref(json_array_get(more, i)));
}

/* Ends with what is still to be computed: points and variants. */
static json_t *write_head(const struct work *work)
{
  const struct sketch *sketch = work->sketch;
  json_t *to = json_object();
  put_member(&to, "workload", json_string(sketch->workload.name));
  put_member(&to, "model", json_string(sketch->model_name));
  put_member(&to, "core_version", json_string(CORE_VERSION));
  put_member(&to, "sketch_digest", json_string(sketch->digest));
  put_member(&to, "traffic", json_incref(sketch->traffic));
  put_member(&to, "objectives", write_objectives(work->options));
  put_member(&to, "by", json_string(work->options->by_profile ? "profile" : "all"));
  return to;
}

static enum err fill(json_t **document, struct work *work, struct error *e)
{
  const bool is_locked = work->sketch->workload.constraints.accuracy == ACCURACY_LOCKED;
  json_t *variants = json_array();
  enum err rc = compute(work, &work->sketch->workload, &work->sketch->model, true, e);
  if (rc != ERR_OK)
    goto out;
  put_member(document, "searched", json_integer((json_int_t)work->frontier.searched));
  put_member(document, "points", write_points(work));
  work->base_count = work->frontier.count;
  memcpy(work->base, work->frontier.points, work->base_count * sizeof *work->base);
  if (!is_locked)
    rc = add_variants(&variants, work, e);
  if (rc != ERR_OK)
    goto out;
  put_member(document, "variants", json_incref(variants));
  put_member(document, "variants_withheld", is_locked ? json_string("accuracy is locked") : json_null());
  put_member(document, "left_out", json_incref(work->left_out));
  extend(&work->assumptions, work->sketch->model_assumptions);
  put_member(document, "assumptions", json_incref(work->assumptions));
  if (*document == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to write the frontier");
out:
  json_decref(variants);
  return rc;
}

enum err frontier_document(json_t **out, const struct sketch *sketch, const struct frontier_options *options,
                           struct error *e)
{
  struct work work = {.sketch = sketch, .options = options, .assumptions = json_array(), .left_out = json_array()};
  void *memory = malloc(options->arena_bytes);
  json_t *document = write_head(&work);
  enum err rc;
  *out = NULL;
  work.frontier.points = malloc(POINTS_MAX * sizeof *work.frontier.points);
  work.frontier.capacity = POINTS_MAX;
  work.base = malloc(POINTS_MAX * sizeof *work.base);
  if (memory == NULL || document == NULL || work.frontier.points == NULL || work.base == NULL ||
      !sketch_is_whole(sketch)) {
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for a frontier");
    goto out;
  }
  arena_init(&work.arena, memory, options->arena_bytes);
  rc = fill(&document, &work, e);
  if (rc == ERR_OK) {
    *out = document;
    document = NULL;
  }
out:
  json_decref(document);
  json_decref(work.assumptions);
  json_decref(work.left_out);
  free(work.base);
  free(work.frontier.points);
  free(memory);
  return rc;
}
