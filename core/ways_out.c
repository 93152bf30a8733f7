/* Which settings can give way, how far, and what comes of each. */
#include "core/ways_out_int.h"

#include "core/advice.h"
#include "core/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ways {
  struct ways_search search;    /* by the closed form */
  struct ways_search simulated; /* that has the last word */
  bool has_closed_miss;         /* else only the simulation sees what is missed, and looks for the way alone */
  struct scorecard_change *items;
  double cost[WAYS_OUT_MAX]; /* of the changed sketch, for the order */
  size_t count;
};

static const struct workload *workload_of(const struct ways *w)
{
  return w->search.c->request->workload;
}

static const struct scorecard *card_of(const struct ways *w)
{
  return w->search.c->card;
}

/* ---- what is found ---- */

static const char *reason_of(enum change_requires requires)
{
  switch (requires) {
  case REQUIRES_CONFIGURATION: return "a setting of the engine makes it fit";
  case REQUIRES_REQUANTISATION: return "fits once requantised; its accuracy is to be measured";
  case REQUIRES_PROMISE: return "this promise fits";
  case REQUIRES_PROCUREMENT: return "so much hardware fits";
  case REQUIRES_RETRAINING: return "fits once retrained";
  }
  return "";
}

static enum err add(struct ways *w, const char *knob, const char *pointer, enum change_requires requires,
                    const struct knob_value *to, const struct scorecard *changed, struct error *e)
{
  struct finding_case *c = w->search.c;
  struct scorecard_change *change;
  if (w->count == WAYS_OUT_MAX)
    return ERR_OK;
  change = &w->items[w->count];
  change->knob = knob;
  change->pointer = pointer;
  change->requires = requires;
  change->from = change_value(c->request, c->card, &c->input->preset, pointer);
  change->to = *to;
  change->payback_months = (double)NAN;
  change_effects(change, c->simulated, changed);
  change->message = advice_message(c->arena, change, reason_of(requires));
  if (change->message == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  w->cost[w->count++] = change_cost(changed);
  return ERR_OK;
}

/* One value tried as it stands: by the closed form where that sees the miss, then by the simulation. */
static enum err try_value(bool *fits, struct ways *w, const char *knob, const char *pointer,
                          enum change_requires requires, const struct knob_value *to, struct error *e)
{
  struct scorecard changed;
  enum err err = ERR_OK;
  *fits = true;
  if (w->has_closed_miss)
    err = ways_try(fits, &changed, &w->search, pointer, to, e);
  if (err == ERR_OK && *fits)
    err = ways_try(fits, &changed, &w->simulated, pointer, to, e);
  return err == ERR_OK && *fits ? add(w, knob, pointer, requires, to, &changed, e) : err;
}

static enum err try_simulated(struct ways *w, const struct way *way, const struct knob_value *to, struct error *e)
{
  struct scorecard changed;
  bool fits;
  const enum err err = ways_try(&fits, &changed, &w->simulated, way->pointer, to, e);
  return err == ERR_OK && fits ? add(w, way->knob, way->pointer, way->requires, to, &changed, e) : err;
}

/* Where only the simulation sees the miss, the search begins at the start, once the end is known to fit. */
static enum err find_start(double *at, bool *is_found, struct ways *w, const struct way *way, struct error *e)
{
  const struct knob_value end = way_value(way, way->end);
  struct scorecard card;
  *at = way->from;
  return ways_probe(is_found, &card, &w->simulated, way->pointer, &end, e);
}

static enum err go(struct ways *w, const struct way *way, struct error *e)
{
  struct knob_value to;
  double at;
  bool is_found;
  enum err err =
      w->has_closed_miss ? way_search(&at, &is_found, &w->search, way, e) : find_start(&at, &is_found, w, way, e);
  if (err == ERR_OK && is_found)
    err = way_settle(&at, &is_found, &w->simulated, way, e);
  if (err != ERR_OK || !is_found)
    return err;
  to = way_value(way, at);
  return try_simulated(w, way, &to, e);
}

/* ---- numbers ---- */

/* A limit of the sketch on its way up (latency, cost) or down; NaN `from`: not given. */
static enum err go_number(struct ways *w, const char *knob, const char *pointer, enum change_requires requires,
                          bool is_whole, double from, double end, struct error *e)
{
  const struct way way = {
      .knob = knob, .pointer = pointer, .requires = requires, .is_whole = is_whole, .from = from, .end = end};
  if (isnan(from) || (is_whole ? fabs(from - end) < 1 : fabs(from - end) <= 1e-9 * from))
    return ERR_OK;
  return go(w, &way, e);
}

/* Further than any product would promise, and still a number. */
static const double far = 1000;

/* A percentile can be promised up to what the next higher one is. */
static enum err go_percentiles(struct ways *w, const char *knob, const char *const pointers[3],
                               const struct percentiles *limit_ms, struct error *e)
{
  const double limits[] = {limit_ms->p50, limit_ms->p90, limit_ms->p99};
  enum err err = ERR_OK;
  for (int i = 0; i < 3 && err == ERR_OK; i++) {
    double most = fmin(864e5, limits[i] * far);
    for (int higher = i + 1; higher < 3; higher++)
      most = fmin(most, isnan(limits[higher]) ? (double)INFINITY : limits[higher]);
    err = go_number(w, knob, pointers[i], REQUIRES_PROMISE, false, limits[i], most, e);
  }
  return err;
}

static enum err go_latency(struct ways *w, struct error *e)
{
  static const char *const ttft[] = {"/targets/ttft_ms/p50", "/targets/ttft_ms/p90", "/targets/ttft_ms/p99"};
  static const char *const itl[] = {"/targets/itl_ms/p50", "/targets/itl_ms/p90", "/targets/itl_ms/p99"};
  static const char *const e2e[] = {"/targets/e2e_ms/p50", "/targets/e2e_ms/p90", "/targets/e2e_ms/p99"};
  const struct workload_targets *t = &workload_of(w)->targets;
  enum err err = go_percentiles(w, "ttft_ms", ttft, &t->ttft_ms, e);
  if (err == ERR_OK)
    err = go_percentiles(w, "itl_ms", itl, &t->itl_ms, e);
  if (err == ERR_OK)
    err = go_number(w, "tpot_ms", "/targets/tpot_ms/mean", REQUIRES_PROMISE, false, t->tpot_ms.mean,
                    t->tpot_ms.mean * far, e);
  return err == ERR_OK ? go_percentiles(w, "e2e_ms", e2e, &t->e2e_ms, e) : err;
}

static enum err go_cost(struct ways *w, struct error *e)
{
  const struct workload_targets *t = &workload_of(w)->targets;
  const struct {
    const char *knob, *pointer;
    double from;
  } costs[] = {
      {"per_successful_request_usd", "/targets/cost/per_successful_request_usd", t->cost_per_successful_request_usd},
      {"per_million_output_tokens_usd", "/targets/cost/per_million_output_tokens_usd",
       t->cost_per_million_output_tokens_usd},
      {"monthly_usd", "/targets/cost/monthly_usd", t->cost_monthly_usd}};
  enum err err = ERR_OK;
  for (size_t i = 0; i < sizeof costs / sizeof costs[0] && err == ERR_OK; i++)
    err = go_number(w, costs[i].knob, costs[i].pointer, REQUIRES_PROMISE, false, costs[i].from, costs[i].from * far, e);
  return err;
}

/* Other limits: a smaller margin, fewer successes, a shorter context. */
static enum err go_margins(struct ways *w, struct error *e)
{
  const double least_headroom = 0.01, least_success = 0.5;
  const struct workload_targets *t = &workload_of(w)->targets;
  enum err err =
      go_number(w, "headroom", "/targets/headroom", REQUIRES_PROMISE, false, t->headroom_ratio, least_headroom, e);
  if (err == ERR_OK)
    err = go_number(w, "success_rate", "/targets/success_rate", REQUIRES_PROMISE, false, t->success_rate_ratio,
                    least_success, e);
  if (err == ERR_OK)
    err = go_number(w, "max_context_tokens", "/targets/max_context_tokens", REQUIRES_PROMISE, true,
                    t->max_context_tokens, 1, e);
  return err;
}

typedef enum err try_group(struct ways *w, struct error *e);

/* Where nothing fits even without any target, none of them is the way out. */
static enum err go_targets(struct ways *w, struct error *e)
{
  static try_group *const groups[] = {go_latency, go_cost, go_margins};
  const struct change_base *base = w->has_closed_miss ? &w->search.base : &w->simulated.base;
  struct workload workload = *workload_of(w), none;
  struct fit_request request = *base->request;
  struct scorecard card;
  const size_t mark = arena_mark(base->arena);
  enum err err;
  workload_init(&none);
  workload.targets = none.targets;
  request.workload = &workload;
  request.depth = base->depth;
  request.is_verdict_enough = base->is_verdict_enough;
  request.is_probe = true;
  err = fit_evaluate(&card, &request, base->arena, e);
  arena_release(base->arena, mark);
  for (size_t i = 0; i < sizeof groups / sizeof groups[0] && err == ERR_OK && card.verdict == VERDICT_FIT; i++)
    err = groups[i](w, e);
  return err;
}

static enum err go_load(struct ways *w, struct error *e)
{
  const struct workload_traffic *traffic = &workload_of(w)->traffic;
  if (traffic->load == LOAD_CLOSED)
    return go_number(w, "concurrency", "/traffic/concurrency", REQUIRES_PROMISE, true, traffic->concurrency, 1, e);
  return go_number(w, "requests_per_s", "/traffic/requests_per_s", REQUIRES_PROMISE, false, traffic->requests_per_s,
                   fmax(1e-9, traffic->requests_per_s / far), e);
}

/* A fixed length moves by tokens, the mean of a distribution with it, quantiles together. */
static enum err go_length(struct ways *w, const char *knob, const char *pointer, const struct length *length,
                          double least_tokens, struct error *e)
{
  struct way way = {.knob = knob, .pointer = pointer, .requires = REQUIRES_PROMISE, .from = 1};
  if (length->kind == LENGTH_ABSENT)
    return ERR_OK;
  if (length->kind == LENGTH_FIXED)
    return go_number(w, knob, pointer, REQUIRES_PROMISE, true, length->fixed_tokens, least_tokens, e);
  way.end = fmin(1, least_tokens / length_mean_tokens(length));
  way.length = *length;
  return way.end < 1 ? go(w, &way, e) : ERR_OK;
}

static enum err go_tokens(struct ways *w, struct error *e)
{
  const struct workload *workload = workload_of(w);
  enum err err = go_length(w, "input_tokens", "/traffic/input_tokens", &workload->traffic.input, 1, e);
  if (err == ERR_OK)
    err = go_length(w, "output_tokens", "/traffic/output_tokens", &workload->traffic.output, 2, e);
  if (err == ERR_OK && workload->adapter_count > 1)
    err = go_number(w, "adapters", "/adapters/count", REQUIRES_PROMISE, true, workload->adapter_count, 1, e);
  return err;
}

/* ---- hardware ---- */

static enum err go_hardware(struct ways *w, struct error *e)
{
  const struct workload_constraints *constraints = &workload_of(w)->constraints;
  const struct hardware *profile = w->search.c->request->hardware;
  const double quota = constraints->gpu_quota != 0 ? (double)constraints->gpu_quota : (double)NAN;
  enum err err =
      go_number(w, "gpu_quota", "/constraints/gpu_quota", REQUIRES_PROCUREMENT, true, quota, fmin(1e6, quota * far), e);
  if (err == ERR_OK && constraints->power_cap_w < profile->tdp_w)
    err = go_number(w, "power_cap_w", "/constraints/power_cap_w", REQUIRES_PROCUREMENT, false, constraints->power_cap_w,
                    profile->tdp_w, e);
  if (err == ERR_OK && profile->power_cap_w < profile->tdp_w)
    err = go_number(w, "power_cap_w", "/profile/power_cap_w", REQUIRES_PROCUREMENT, false, profile->power_cap_w,
                    profile->tdp_w, e);
  return err;
}

/* ---- the engine ---- */

static enum err go_winding(struct ways *w, const char *knob, const char *pointer, double from, double end,
                           struct error *e)
{
  const struct way way = {.knob = knob,
                          .pointer = pointer,
                          .requires = REQUIRES_CONFIGURATION,
                          .is_whole = true,
                          .is_winding = true,
                          .from = from,
                          .end = end};
  return from > 0 && fabs(from - end) >= 1 ? go(w, &way, e) : ERR_OK;
}

/* One direction, else the other: there is one smallest change of a setting. */
static enum err go_both(struct ways *w, const char *knob, const char *pointer, double from, double least, double most,
                        struct error *e)
{
  const size_t before = w->count;
  const enum err err = go_winding(w, knob, pointer, from, least, e);
  return err == ERR_OK && w->count == before ? go_winding(w, knob, pointer, from, most, e) : err;
}

static enum err go_engine(struct ways *w, struct error *e)
{
  const double most_fraction = 0.98;
  const struct workload_serving *serving = &workload_of(w)->serving;
  const struct preset *preset = &w->search.c->input->preset;
  const double batch = serving->max_batch != 0 ? serving->max_batch : card_of(w)->configuration.max_batch;
  enum err err = go_both(w, "max_batch", "/serving/max_batch", batch, 1, serving->max_batch != 0 ? 65536 : batch, e);
  if (err == ERR_OK)
    err = go_both(w, "max_batched_tokens", "/serving/max_batched_tokens", preset->max_batched_tokens,
                  fmax(64, serving->max_batch), 65536, e);
  if (err == ERR_OK && preset->memory_fraction_ratio < most_fraction)
    err = go_number(w, "memory_fraction", "/serving/memory_fraction", REQUIRES_CONFIGURATION, false,
                    preset->memory_fraction_ratio, most_fraction, e);
  if (err == ERR_OK && serving->replicas != 0)
    err = go_number(w, "replicas", "/serving/replicas", REQUIRES_CONFIGURATION, true, serving->replicas,
                    fmin(65536, serving->replicas * far), e);
  if (err == ERR_OK && serving->recv_interval_steps > 1)
    err = go_number(w, "recv_interval_steps", "/serving/recv_interval_steps", REQUIRES_CONFIGURATION, true,
                    serving->recv_interval_steps, 1, e);
  return err;
}

/* A setting that is on or off, turned over; one that is given as a count, taken back. */
static enum err try_switches(struct ways *w, struct error *e)
{
  const struct workload_serving *serving = &workload_of(w)->serving;
  const bool has_prefix = workload_of(w)->traffic.shared_prefix_tokens > 0;
  const bool has_draft = serving->speculative_draft_tokens != 0;
  const struct {
    const char *knob, *pointer;
    bool is_given;
    int turned; /* -1: null */
  } switches[] = {
      {"cuda_graphs", "/serving/cuda_graphs", serving->cuda_graphs == 0, 1},
      {"prefix_caching", "/serving/prefix_caching", has_prefix && !w->search.c->input->preset.has_prefix_caching, 1},
      {"chunked_prefill", "/serving/chunked_prefill", serving->chunked_prefill >= 0, !serving->chunked_prefill},
      {"draft_tokens", "/serving/speculative/draft_tokens", has_draft, -1},
      {"batch_wait_steps", "/serving/batch_wait_steps", serving->batch_wait_steps != 0, -1},
  };
  enum err err = ERR_OK;
  for (size_t i = 0; i < sizeof switches / sizeof switches[0] && err == ERR_OK; i++) {
    struct knob_value to = knob_number(switches[i].turned);
    bool fits;
    to.type = switches[i].turned < 0 ? KNOB_VALUE_NULL : KNOB_VALUE_FLAG;
    if (switches[i].is_given)
      err = try_value(&fits, w, switches[i].knob, switches[i].pointer, REQUIRES_CONFIGURATION, &to, e);
  }
  return err;
}

/* ---- lists: the first that fits, nearest first ---- */

static enum err try_counts(struct ways *w, const char *knob, const char *pointer, enum change_requires requires,
                           const unsigned *counts, size_t count, struct error *e)
{
  bool fits = false;
  enum err err = ERR_OK;
  for (size_t i = 0; i < count && !fits && err == ERR_OK; i++) {
    const struct knob_value to = knob_number(counts[i]);
    err = try_value(&fits, w, knob, pointer, requires, &to, e);
  }
  return err;
}

/* Degrees above the given one, then below: more of them holds more. */
static enum err try_tensor(struct ways *w, struct error *e)
{
  const struct fit_request *request = w->search.c->request;
  const unsigned given = request->workload->serving.tensor_parallel;
  unsigned degrees[64], order[64];
  const size_t count = parallel_tensor_degrees(degrees, 64, request->model, request->hardware);
  size_t above = 0, below;
  if (given == 0)
    return ERR_OK;
  for (size_t i = 0; i < count; i++)
    if (degrees[i] > given)
      order[above++] = degrees[i];
  below = above;
  for (size_t i = count; i > 0; i--)
    if (degrees[i - 1] < given)
      order[below++] = degrees[i - 1];
  return try_counts(w, "tensor_parallel", "/serving/tensor_parallel", REQUIRES_CONFIGURATION, order, below, e);
}

/* Stages beside a given tensor degree; where both are open the search has tried them. */
static enum err try_stages(struct ways *w, struct error *e)
{
  const struct workload_serving *serving = &workload_of(w)->serving;
  const unsigned given = serving->pipeline_parallel != 0 ? serving->pipeline_parallel : 1;
  unsigned stages[7];
  size_t count = 0;
  if (serving->tensor_parallel == 0 && serving->pipeline_parallel == 0)
    return ERR_OK;
  for (unsigned more = given + 1; more <= 8; more++)
    stages[count++] = more;
  for (unsigned less = given < 8 ? given - 1 : 0; less > 0 && count < 7; less--)
    stages[count++] = less;
  return try_counts(w, "pipeline_parallel", "/serving/pipeline_parallel", REQUIRES_CONFIGURATION, stages, count, e);
}

static enum err try_heads(struct ways *w, struct error *e)
{
  const struct model *model = w->search.c->request->model;
  const struct attention *a = finding_plain_attention(model);
  unsigned heads[64];
  size_t count = 0;
  for (unsigned fewer = a != NULL ? a->kv_heads - 1 : 0; fewer > 0 && count < 64; fewer--)
    if (a->kv_heads % fewer == 0)
      heads[count++] = fewer;
  return try_counts(w, "num_key_value_heads", "/model/num_key_value_heads", REQUIRES_RETRAINING, heads, count, e);
}

/* From the widest to the narrowest, from what is served now on. */
static enum err try_formats(struct ways *w, const char *knob, const char *pointer, double now_bytes,
                            const enum precision *formats, size_t count, struct error *e)
{
  bool fits = false;
  enum err err = ERR_OK;
  for (size_t i = 0; i < count && !fits && err == ERR_OK; i++) {
    const struct knob_value to = knob_text(precision_name(formats[i]));
    if (precision_weight_bytes(formats[i]) < now_bytes)
      err = try_value(&fits, w, knob, pointer, REQUIRES_REQUANTISATION, &to, e);
  }
  return err;
}

static enum err try_precision(struct ways *w, struct error *e)
{
  static const enum precision weights[] = {PRECISION_FP8, PRECISION_INT8, PRECISION_INT4, PRECISION_NVFP4,
                                           PRECISION_MXFP4};
  static const enum precision caches[] = {PRECISION_FP8};
  const struct scorecard_configuration *c = &card_of(w)->configuration;
  const bool is_word = workload_of(w)->precision_is_word;
  const enum err err = try_formats(w, is_word ? "precision" : "weights", is_word ? "/precision" : "/precision/weights",
                                   precision_weight_bytes(c->weights), weights, sizeof weights / sizeof weights[0], e);
  return err == ERR_OK
             ? try_formats(w, "kv_cache", "/precision/kv_cache", precision_element_bytes(c->kv_cache), caches, 1, e)
             : err;
}

/* ---- order ---- */

static bool goes_before(const struct scorecard_change *a, double cost_a, const struct scorecard_change *b,
                        double cost_b)
{
  if (a->requires != b->requires)
  return a->requires < b->requires;
  return cost_a < cost_b * (1 - 1e-9) || (isnan(cost_b) && !isnan(cost_a));
}

/* Few and nearly in order: insertion keeps equals as they were found. */
static void sort(struct ways *w)
{
  for (size_t i = 1; i < w->count; i++)
    for (size_t k = i; k > 0 && goes_before(&w->items[k], w->cost[k], &w->items[k - 1], w->cost[k - 1]); k--) {
      const struct scorecard_change change = w->items[k];
      const double cost = w->cost[k];
      w->items[k] = w->items[k - 1];
      w->cost[k] = w->cost[k - 1];
      w->items[k - 1] = change;
      w->cost[k - 1] = cost;
    }
}

/* ---- the whole ---- */

/* Speed and load are no way out of a memory that is too small. */
static enum err try_all(struct ways *w, struct error *e)
{
  static try_group *const always[] = {go_engine, try_switches, try_tensor, try_stages, go_tokens, go_hardware};
  static try_group *const served[] = {go_targets, go_load};
  const enum no_fit_reason reason = card_of(w)->no_fit_reason;
  const bool is_memory = reason == NO_FIT_WEIGHTS_EXCEED_MEMORY || reason == NO_FIT_NO_ROOM_FOR_KV_CACHE;
  enum err err = ERR_OK;
  for (size_t i = 0; i < sizeof always / sizeof always[0] && err == ERR_OK; i++)
    err = always[i](w, e);
  for (size_t i = 0; i < sizeof served / sizeof served[0] && !is_memory && err == ERR_OK; i++)
    err = served[i](w, e);
  if (err == ERR_OK && advice_is_allowed(workload_of(w), REQUIRES_REQUANTISATION))
    err = try_precision(w, e);
  if (err == ERR_OK && advice_is_allowed(workload_of(w), REQUIRES_RETRAINING))
    err = try_heads(w, e);
  return err;
}

enum err ways_out_fill(struct finding_case *c, struct error *e)
{
  struct ways w = {.search = {c, {c->request, FIT_QUICK, c->arena, true, false}, false},
                   .simulated = {c, {c->request, FIT_SIMULATED, c->arena, true, false}, true},
                   .has_closed_miss = c->closed_form->verdict != VERDICT_FIT};
  enum err err;
  if (c->card->verdict == VERDICT_FIT || c->simulated->verdict == VERDICT_FIT)
    return ERR_OK; /* a miss that takes the long simulation to see is within the short one's noise */
  w.items = arena_alloc(c->arena, WAYS_OUT_MAX, sizeof *w.items);
  if (w.items == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  err = try_all(&w, e);
  sort(&w);
  c->card->ways_out = w.items;
  c->card->way_out_count = w.count;
  for (size_t i = 0; i < w.count; i++)
    if (w.items[i].requires <= REQUIRES_REQUANTISATION)
      c->card->verdict = VERDICT_FIT_WITH_CHANGES;
  return err;
}
