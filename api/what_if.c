/* Cells one after the other on every profile. A cell starts from copies of what the sketch was read into; settings are made
   by core/knob.h, whole parts of the sketch by its reader. */
#include "api/what_if.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pointer.h"
#include "api/put.h"
#include "api/read.h"
#include "api/trace.h"
#include "api/write.h"
#include "core/knob.h"
#include "core/units.h"

/* What is evaluated: large, so it lives on the heap. */
struct subject {
  struct workload workload;
  struct model model, draft_model;
  struct hardware hardware;
  bool has_draft_model;
};

/* Settings of one cell. */
struct assignment {
  const char *pointer;
  const json_t *value;
};

struct work {
  const struct what_if *what_if;
  const struct catalogue_snapshot *snapshot;
  struct subject *cell;   /* as the cell's settings make it, but for the profile */
  struct subject *tried;  /* the same on one profile, with everything set */
  struct scorecard *base; /* of each profile */
  struct faults *faults;
  struct fit_trace_means trace; /* once for all cells */
  bool has_trace;
  struct arena arena;
};

/* ---- Figures ------------------------------------------------------------------------------------------------------- */

static const struct figure {
  const char *group, *name, *part; /* path; part NULL = a plain number */
  size_t offset;
  double unit;
} figures[] = {
#define FIGURE(group, name, part, member, unit)                                                                        \
  {                                                                                                                    \
    group, name, part, offsetof(struct scorecard, member), unit                                                        \
  }
    FIGURE("memory", "kv_cache_gib", NULL, memory.kv_cache_bytes, GIB),
    FIGURE("memory", "kv_bytes_per_token", NULL, memory.kv_bytes_per_token, 1),
    FIGURE("memory", "max_concurrent_sessions", NULL, memory.max_concurrent_sessions, 1),
    FIGURE("memory", "max_context_tokens", NULL, memory.max_context_tokens, 1),
    FIGURE("latency", "ttft_ms", "p50", latency.ttft_s.p50, MS),
    FIGURE("latency", "itl_ms", "p50", latency.itl_s.p50, MS),
    FIGURE("latency", "tpot_ms", "mean", latency.tpot_mean_s, MS),
    FIGURE("latency", "e2e_ms", "p50", latency.e2e_s.p50, MS),
    FIGURE("throughput", "requests_per_s", NULL, throughput.requests_per_s, 1),
    FIGURE("throughput", "output_tokens_per_s", NULL, throughput.output_tok_s, 1),
    FIGURE("throughput", "output_tokens_per_s_per_gpu", NULL, throughput.output_tok_s_per_gpu, 1),
    FIGURE("throughput", "output_tokens_per_s_per_user", NULL, throughput.output_tok_s_per_user, 1),
    FIGURE("throughput", "mean_batch", NULL, throughput.mean_batch, 1),
    FIGURE("limits", "saturation_requests_per_s", NULL, limits.saturation_requests_per_s, 1),
    FIGURE("cost", "per_successful_request_usd", NULL, cost.per_successful_request_usd, 1),
    FIGURE("cost", "per_million_output_tokens_usd", NULL, cost.per_million_output_tokens_usd, 1),
    FIGURE("cost", "monthly_usd", NULL, cost.monthly_usd, 1),
#undef FIGURE
};

static double figure_of(const struct scorecard *card, const struct figure *figure)
{
  double value;
  memcpy(&value, (const char *)card + figure->offset, sizeof value);
  return value / figure->unit;
}

static json_t *member(json_t **to, const char *name)
{
  json_t *object = json_object_get(*to, name);
  if (object == NULL && *to != NULL) {
    put_member(to, name, json_object());
    object = json_object_get(*to, name);
  }
  return object;
}

static void put_figure(json_t **to, const struct figure *figure, const struct scorecard *card)
{
  json_t *group = member(to, figure->group), *value = write_number(figure_of(card, figure));
  if (figure->part != NULL)
    value = json_pack("{s:o}", figure->part, value);
  if (json_object_set_new(group, figure->name, value) != 0) { /* takes the value even without a group */
    json_decref(*to);
    *to = NULL;
  }
}

static json_t *write_configuration(const struct scorecard_configuration *from)
{
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:{s:s, s:s}}", "tensor_parallel", (int)from->tensor_parallel,
                   "pipeline_parallel", (int)from->pipeline_parallel, "expert_parallel", (int)from->expert_parallel,
                   "attention_data_parallel", (int)from->attention_data_parallel, "replicas", (int)from->replicas,
                   "gpus", (int)from->gpus, "max_batch", (int)from->max_batch, "precision", "weights",
                   precision_name(from->weights), "kv_cache", precision_name(from->kv_cache));
}

static void put_card(json_t **to, const struct scorecard *card)
{
  put_member(to, "verdict", json_string(verdict_name(card->verdict)));
  put_member(to, "no_fit_reason", write_text(no_fit_reason_name(card->no_fit_reason)));
  put_member(to, "configuration", card->has_configuration ? write_configuration(&card->configuration) : json_null());
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
    put_figure(to, &figures[i], card);
  if (*to != NULL)
    put_member(to, "bound", card->has_configuration ? json_string(bound_name(card->decode.bound)) : json_null());
  put_member(to, "limiter", write_text(limit_name(card->limits.first_limit)));
}

/* Relative to the sketch as it is, where both have a figure and it moves at all. */
static json_t *write_change(const struct scorecard *base, const struct scorecard *card)
{
  const double noise = 1e-9;
  json_t *change = json_object();
  char path[96];
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
    const struct figure *figure = &figures[i];
    const double ratio = figure_of(card, figure) / figure_of(base, figure) - 1;
    if (!isfinite(ratio) || fabs(ratio) < noise)
      continue;
    (void)snprintf(path, sizeof path, "%s.%s%s%s", figure->group, figure->name, figure->part != NULL ? "." : "",
                   figure->part != NULL ? figure->part : "");
    put_member(&change, path, write_number(ratio));
  }
  return change;
}

/* ---- Settings ------------------------------------------------------------------------------------------------------- */

static size_t assignments_of(struct assignment out[WHAT_IF_AXES_MAX], const struct what_if *what_if, size_t cell)
{
  size_t count = 0;
  json_t *set = NULL, *value;
  const char *pointer;
  if (what_if->cases != NULL)
    set = read_iterable(json_object_get(json_array_get(what_if->cases, cell), "set"));
  json_object_foreach(set, pointer, value)
  {
    if (count < WHAT_IF_AXES_MAX)
      out[count++] = (struct assignment){pointer, value};
  }
  for (size_t i = what_if->axis_count; i > 0; i--) { /* the last axis moves fastest */
    const struct what_if_axis *axis = &what_if->axes[i - 1];
    const size_t values = json_array_size(axis->values);
    out[i - 1] = (struct assignment){axis->pointer, json_array_get(axis->values, cell % values)};
    cell /= values;
  }
  return what_if->cases != NULL ? count : what_if->axis_count;
}

static bool length_of(struct length *out, const json_t *value)
{
  const json_t *p50 = json_object_get(value, "p50"), *p99 = json_object_get(value, "p99");
  const json_t *mean = json_object_get(value, "mean"), *cv = json_object_get(value, "cv");
  memset(out, 0, sizeof *out);
  if (json_object_size(value) == 2 && json_is_number(p50) && json_is_number(p99)) {
    out->kind = LENGTH_QUANTILES;
    out->p50_tokens = json_number_value(p50);
    out->p99_tokens = json_number_value(p99);
    return true;
  }
  out->kind = LENGTH_MOMENTS;
  out->mean_tokens = json_number_value(mean);
  out->cv_ratio = json_number_value(cv);
  return json_object_size(value) == 2 && json_is_number(mean) && json_is_number(cv);
}

static enum err value_of(struct knob_value *out, const char *pointer, const json_t *value, struct error *e)
{
  memset(out, 0, sizeof *out);
  switch (json_typeof(value)) {
  case JSON_NULL: out->type = KNOB_VALUE_NULL; return ERR_OK;
  case JSON_INTEGER:
  case JSON_REAL: *out = knob_number(json_number_value(value)); return ERR_OK;
  case JSON_TRUE:
  case JSON_FALSE:
    out->type = KNOB_VALUE_FLAG;
    out->number = json_is_true(value) ? 1 : 0;
    return ERR_OK;
  case JSON_STRING: *out = knob_text(json_string_value(value)); return ERR_OK;
  case JSON_OBJECT:
    out->type = KNOB_VALUE_LENGTH;
    if (length_of(&out->length, value))
      return ERR_OK;
    break;
  case JSON_ARRAY: break;
  }
  return error_set(e, ERR_INVALID, pointer,
                   "is %s; a number, a text, a flag, null, {p50, p99} or {mean, cv} is expected",
                   read_type_name(value));
}

static bool is_knob(const char *pointer)
{
  for (size_t i = 0; knob_pointers[i] != NULL; i++)
    if (strcmp(knob_pointers[i], pointer) == 0)
      return true;
  return false;
}

/* The requests that are at hand are those of the sketch's own trace. */
static enum err check_trace(const struct workload_traffic *cell, const struct workload_traffic *sketch, struct error *e)
{
  if (cell->load != LOAD_TRACE || strcmp(cell->trace, sketch->trace) == 0)
    return ERR_OK;
  if (sketch->load != LOAD_TRACE)
    return error_set(e, ERR_INVALID, "/traffic/trace", "the sketch replays no trace, so no cell can");
  return error_set(e, ERR_INVALID, "/traffic/trace", "is \"%s\"; cells replay the trace of the sketch, \"%s\"",
                   cell->trace, sketch->trace);
}

/* Whole parts of the sketch: the document changed and read again. */
static enum err read_again(struct work *work, const struct assignment *list, size_t count, struct error *e)
{
  json_t *body = json_deep_copy(json_object_get(work->what_if->body, "sketch"));
  struct sketch sketch;
  enum err rc = ERR_OK;
  work->faults->count = 0;
  work->faults->is_truncated = false;
  for (size_t i = 0; i < count && rc == ERR_OK; i++)
    if (!is_knob(list[i].pointer) && !pointer_set(body, list[i].pointer, read_iterable(list[i].value)))
      rc = error_set(e, ERR_INVALID, list[i].pointer, "can not be set in this sketch");
  if (rc != ERR_OK) {
    json_decref(body);
    return rc;
  }
  sketch_read(&sketch, work->snapshot, body, "", work->faults);
  if (work->faults->count > 0) {
    const struct fault *fault = &work->faults->items[0];
    rc = error_set(e, ERR_INVALID, fault->pointer, "%s", fault->detail);
  } else if (!sketch_is_whole(&sketch)) {
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to read the sketch");
  } else {
    rc = check_trace(&sketch.workload.traffic, &work->what_if->sketch.workload.traffic, e);
    work->cell->workload = sketch.workload;
    work->cell->model = sketch.model;
    work->cell->draft_model = sketch.draft_model;
    work->cell->has_draft_model = sketch.has_draft_model;
  }
  sketch_fini(&sketch);
  json_decref(body);
  return rc;
}

/* What all profiles share of a cell. */
static enum err start_cell(struct work *work, const struct assignment *list, size_t count, struct error *e)
{
  const struct sketch *sketch = &work->what_if->sketch;
  for (size_t i = 0; i < count; i++)
    if (!is_knob(list[i].pointer))
      return read_again(work, list, count, e);
  work->cell->workload = sketch->workload;
  work->cell->model = sketch->model;
  work->cell->draft_model = sketch->draft_model;
  work->cell->has_draft_model = sketch->has_draft_model;
  return ERR_OK;
}

/* The layout that is best for the sketch as it is; experts follow where a cell moves the ranks. */
static void keep_layout(struct workload_serving *serving, const struct scorecard_configuration *configuration,
                        const struct assignment *list, size_t count)
{
  bool moves_ranks = false;
  for (size_t i = 0; i < count; i++)
    moves_ranks = moves_ranks || strcmp(list[i].pointer, "/serving/tensor_parallel") == 0 ||
                  strcmp(list[i].pointer, "/serving/attention_data_parallel") == 0;
  serving->tensor_parallel = configuration->tensor_parallel;
  serving->pipeline_parallel = configuration->pipeline_parallel;
  serving->attention_data_parallel = configuration->attention_data_parallel;
  if (!moves_ranks)
    serving->expert_parallel = configuration->expert_parallel;
  if (serving->prefill_replicas == 0)
    serving->replicas = configuration->replicas;
}

/* A trace has its own lengths: others would change nothing, and that is no answer. */
static enum err check_length(const struct workload *workload, const char *pointer, struct error *e)
{
  if (workload->traffic.load != LOAD_TRACE ||
      (strcmp(pointer, "/traffic/input_tokens") != 0 && strcmp(pointer, "/traffic/output_tokens") != 0))
    return ERR_OK;
  return error_set(e, ERR_INVALID, pointer, "the sketch replays the trace \"%s\", which has its own lengths",
                   workload->traffic.trace);
}

static enum err set_all(const struct knob_subject *subject, const struct assignment *list, size_t count,
                        struct error *e)
{
  enum err rc = ERR_OK;
  for (size_t i = 0; i < count && rc == ERR_OK; i++) {
    struct knob_value value;
    if (!is_knob(list[i].pointer))
      continue;
    rc = check_length(subject->workload, list[i].pointer, e);
    if (rc == ERR_OK)
      rc = value_of(&value, list[i].pointer, list[i].value, e);
    if (rc == ERR_OK)
      rc = knob_set(subject, list[i].pointer, &value, e);
  }
  return rc == ERR_OK ? knob_check(subject, e) : rc;
}

/* ---- Evaluating ----------------------------------------------------------------------------------------------------- */

static enum err evaluate(struct scorecard *card, struct work *work, const struct subject *subject, struct error *e)
{
  struct fit_request request = {.workload = &subject->workload,
                                .model = &subject->model,
                                .hardware = &subject->hardware,
                                .depth = FIT_QUICK,
                                .is_brief = true,
                                .draft_model = subject->has_draft_model ? &subject->draft_model : NULL};
  const size_t mark = arena_mark(&work->arena);
  enum err rc;
  trace_replay_give(&request, &work->what_if->sketch);
  request.trace_means = work->has_trace ? &work->trace : NULL;
  rc = fit_evaluate(card, &request, &work->arena, e);
  arena_release(&work->arena, mark);
  return rc;
}

static enum err evaluate_cell(struct scorecard *card, struct work *work, size_t profile, const struct assignment *list,
                              size_t count, struct error *e)
{
  const struct scorecard *base = &work->base[profile];
  struct subject *tried = work->tried;
  const struct knob_subject subject = {&tried->workload, &tried->model, &tried->hardware};
  enum err rc;
  *tried = *work->cell;
  tried->hardware = work->what_if->sketch.profiles[profile]->hardware;
  if (!work->what_if->searches && base->has_configuration)
    keep_layout(&tried->workload.serving, &base->configuration, list, count);
  rc = set_all(&subject, list, count, e);
  return rc == ERR_OK ? evaluate(card, work, tried, e) : rc;
}

static json_t *start_answer(const struct work *work, size_t profile, const struct assignment *list, size_t count)
{
  json_t *to = json_object(), *set = json_object();
  for (size_t i = 0; i < count; i++)
    put_member(&set, list[i].pointer, json_incref(read_iterable(list[i].value)));
  put_member(&to, "profile", json_string(work->what_if->sketch.profiles[profile]->hardware.name));
  put_member(&to, "set", set);
  return to;
}

static enum err add_cell(json_t **cells, struct work *work, size_t cell, struct error *e)
{
  const struct what_if *what_if = work->what_if;
  struct assignment list[WHAT_IF_AXES_MAX];
  const size_t count = assignments_of(list, what_if, cell);
  struct error fault = {.code = ERR_OK};
  const enum err started = start_cell(work, list, count, &fault);
  for (size_t profile = 0; profile < what_if->sketch.profile_count; profile++) {
    json_t *to = start_answer(work, profile, list, count);
    struct scorecard card;
    const enum err rc = started != ERR_OK ? started : evaluate_cell(&card, work, profile, list, count, &fault);
    if (what_if->cases != NULL)
      put_member(&to, "label", json_incref(json_object_get(json_array_get(what_if->cases, cell), "label")));
    if (rc == ERR_INVALID) {
      put_member(&to, "error", json_pack("{s:s, s:s}", "pointer", fault.pointer, "detail", fault.message));
    } else if (rc != ERR_OK) {
      json_decref(to);
      *e = fault;
      return rc;
    } else {
      put_card(&to, &card);
      put_member(&to, "change", write_change(&work->base[profile], &card));
    }
    put_element(cells, to);
  }
  return *cells != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "", "not enough memory for the cells");
}

/* A sketch that core can not compute is a fault of the body. */
static enum err evaluate_bases(json_t **bases, struct work *work, struct error *e)
{
  const struct sketch *sketch = &work->what_if->sketch;
  struct error fault = {.code = ERR_OK};
  enum err rc = start_cell(work, NULL, 0, e);
  for (size_t i = 0; i < sketch->profile_count && rc == ERR_OK; i++) {
    json_t *to = start_answer(work, i, NULL, 0);
    work->cell->hardware = sketch->profiles[i]->hardware;
    rc = evaluate(&work->base[i], work, work->cell, &fault);
    if (rc == ERR_OK)
      put_card(&to, &work->base[i]);
    put_element(bases, to);
  }
  if (fault.code != ERR_OK)
    return error_set(e, fault.code, fault.pointer, "%s", fault.message);
  return rc;
}

/* ---- The document ---------------------------------------------------------------------------------------------------- */

static json_t *write_document(const struct what_if *what_if, json_t *bases, json_t *cells)
{
  const struct sketch *sketch = &what_if->sketch;
  json_t *to = json_object();
  put_member(&to, "workload", json_string(sketch->workload.name));
  put_member(&to, "model", json_string(sketch->model_name));
  put_member(&to, "core_version", json_string(CORE_VERSION));
  put_member(&to, "sketch_digest", json_string(sketch->digest));
  put_member(&to, "traffic", json_incref(sketch->traffic));
  put_member(&to, "layout", json_string(what_if->searches ? "searched" : "of the sketch"));
  put_member(&to, "base", json_incref(bases));
  put_member(&to, "cells", json_incref(cells));
  return to;
}

static enum err compute(json_t **out, struct work *work, struct error *e)
{
  json_t *bases = json_array(), *cells = json_array();
  enum err rc = evaluate_bases(&bases, work, e);
  for (size_t i = 0; i < work->what_if->cell_count && rc == ERR_OK; i++)
    rc = add_cell(&cells, work, i, e);
  if (rc == ERR_OK) {
    *out = write_document(work->what_if, bases, cells);
    if (*out == NULL || bases == NULL)
      rc = error_set(e, ERR_NOMEM, "", "not enough memory to write the what-ifs");
  }
  json_decref(bases);
  json_decref(cells);
  return rc;
}

enum err what_if_document(json_t **out, const struct what_if *what_if, const struct catalogue_snapshot *snapshot,
                          size_t arena_bytes, struct error *e)
{
  const struct sketch_replay *replay = &what_if->sketch.replay;
  struct work work = {.what_if = what_if, .snapshot = snapshot};
  void *memory = malloc(arena_bytes);
  enum err rc;
  *out = NULL;
  work.has_trace = replay->count >= 2; /* what is less is refused as it is evaluated */
  if (work.has_trace)
    work.trace = fit_trace_means(replay->rows, replay->count);
  work.cell = malloc(sizeof *work.cell);
  work.tried = malloc(sizeof *work.tried);
  work.faults = malloc(sizeof *work.faults);
  work.base = calloc(what_if->sketch.profile_count + 1, sizeof *work.base);
  if (!sketch_is_whole(&what_if->sketch)) {
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to read the sketch");
  } else if (memory != NULL && work.cell != NULL && work.tried != NULL && work.faults != NULL && work.base != NULL) {
    arena_init(&work.arena, memory, arena_bytes);
    rc = compute(out, &work, e);
  } else {
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for what-ifs");
  }
  free(work.base);
  free(work.faults);
  free(work.tried);
  free(work.cell);
  free(memory);
  return rc;
}
