/* Comparing two scorecards. Blame is computed, not guessed: every input that changed is swapped alone, from the first
   scorecard's inputs, and evaluated; what the swaps do not explain together is their interaction. */
#include "api/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/card_table.h"
#include "api/put.h"
#include "api/read.h"
#include "api/write.h"
#include "api/trace.h"

const char *compare_input_name(enum compare_input input)
{
  static const char *const names[COMPARE_INPUTS] = {"sketch", "trace", "model",       "profile",
                                                    "price",  "stack", "calibration", "core_version"};
  return names[input];
}

/* ---- What differs --------------------------------------------------------------------------------------------------- */

static json_t *pair_of(const json_t *before, const json_t *after)
{
  return json_pack("{s:o, s:o}", "before", before != NULL ? json_deep_copy(before) : json_null(), "after",
                   after != NULL ? json_deep_copy(after) : json_null());
}

static json_t *figure_pair(const json_t *before, const json_t *after)
{
  json_t *pair = pair_of(before, after);
  const double a = json_is_number(before) ? json_number_value(before) : (double)NAN;
  const double b = json_is_number(after) ? json_number_value(after) : (double)NAN;
  put_member(&pair, "change", write_number(b - a));
  put_member(&pair, "relative", write_number((b - a) / fabs(a)));
  return pair;
}

static bool is_plain(const json_t *value)
{
  return value == NULL || json_is_null(value);
}

/* What tells scorecards apart without being said by the core; and what inputs say better. */
static bool is_identity(const char *path)
{
  static const char *const names[] = {"id",
                                      "evaluation",
                                      "created_at",
                                      "label",
                                      "workload",
                                      "model",
                                      "model_revision",
                                      "context",
                                      "profile",
                                      "profile_revision",
                                      "stack",
                                      "sketch_digest",
                                      "seed",
                                      "core_version",
                                      "trace_digest",
                                      "provenance.calibration"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i], path) == 0)
      return true;
  return false;
}

/* Walks both documents at once: numbers into `figures`, words and switches into `words`. Lists are left to the reader. */
static void walk(json_t **figures, json_t **words, const char *path, json_t *before, json_t *after)
{
  json_t *object = json_is_object(before) ? before : after, *member;
  const char *key;
  char at[200];
  if (is_identity(path) || json_equal(before, after) != 0)
    return;
  if (json_is_object(object)) {
    json_object_foreach(object, key, member)
    {
      (void)snprintf(at, sizeof at, "%s%s%s", path, path[0] != '\0' ? "." : "", key);
      walk(figures, words, at, json_object_get(before, key), json_object_get(after, key));
    }
    return;
  }
  if ((json_is_number(before) || is_plain(before)) && (json_is_number(after) || is_plain(after)))
    put_member(figures, path, figure_pair(before, after));
  else if (!json_is_array(before) && !json_is_array(after))
    put_member(words, path, pair_of(before, after));
}

/* ---- Which inputs changed ------------------------------------------------------------------------------------------- */

/* NaN is as good as NaN. */
static bool is_same_number(double a, double b)
{
  return (isnan(a) && isnan(b)) || fabs(a - b) <= 0;
}

static bool is_same_quote(const struct hardware_price *a, const struct hardware_price *b)
{
  return strcmp(a->cloud, b->cloud) == 0 && strcmp(a->instance, b->instance) == 0 && strcmp(a->date, b->date) == 0 &&
         strcmp(a->region, b->region) == 0 && strcmp(a->commitment, b->commitment) == 0 &&
         is_same_number(a->accelerators, b->accelerators) &&
         is_same_number(a->usd_per_accelerator_hour, b->usd_per_accelerator_hour);
}

/* What the sketch itself says one GPU of the profile costs; NaN when it says nothing. */
static double own_price(const struct explain_inputs *inputs)
{
  const struct workload_constraints *constraints = &inputs->sketch.workload.constraints;
  for (unsigned i = 0; i < constraints->price_override_count; i++)
    if (strcmp(constraints->price_overrides[i].profile, inputs->profile.hardware.name) == 0)
      return constraints->price_overrides[i].usd_per_gpu_hour;
  return (double)NAN;
}

static bool is_same_price(const struct explain_inputs *a, const struct explain_inputs *b)
{
  const struct workload_constraints *x = &a->sketch.workload.constraints, *y = &b->sketch.workload.constraints;
  const struct hardware *left = &a->profile.hardware, *right = &b->profile.hardware;
  bool is_same = is_same_number(own_price(a), own_price(b)) && strcmp(x->price_cloud, y->price_cloud) == 0 &&
                 strcmp(x->price_commitment, y->price_commitment) == 0 &&
                 is_same_number(left->price_usd_per_hour, right->price_usd_per_hour) &&
                 left->price_count == right->price_count;
  for (unsigned i = 0; is_same && i < left->price_count; i++)
    is_same = is_same_quote(&left->prices[i], &right->prices[i]);
  return is_same;
}

static void take_prices(struct hardware *to, const struct hardware *from)
{
  to->price_usd_per_hour = from->price_usd_per_hour;
  to->price_count = from->price_count;
  memcpy(to->prices, from->prices, sizeof to->prices);
}

/* The device itself; a revision that changed nothing but prices is another price, not another profile. */
static bool is_same_device(const struct explain_inputs *a, const struct explain_inputs *b)
{
  struct hardware with_prices = a->profile.hardware;
  json_t *nothing, *left, *right;
  bool is_same;
  if (strcmp(a->profile.hardware.name, b->profile.hardware.name) != 0)
    return false;
  take_prices(&with_prices, &b->profile.hardware);
  nothing = json_object();
  left = profile_write(&with_prices, nothing);
  right = profile_write(&b->profile.hardware, nothing);
  is_same = left != NULL && right != NULL && json_equal(left, right) != 0;
  json_decref(right);
  json_decref(left);
  json_decref(nothing);
  return is_same;
}

static bool is_same_model(const struct explain_inputs *a, const struct explain_inputs *b)
{
  json_t *left, *right;
  bool is_same;
  if (a->sketch.model_revision > 0 && b->sketch.model_revision > 0)
    return a->sketch.model_revision == b->sketch.model_revision &&
           strcmp(a->sketch.model_name, b->sketch.model_name) == 0;
  left = architecture_write(&a->sketch.model);
  right = architecture_write(&b->sketch.model);
  is_same = left != NULL && right != NULL && json_equal(left, right) != 0;
  json_decref(right);
  json_decref(left);
  return is_same;
}

/* The sketch without what is an input of its own. */
static bool is_same_sketch(const struct explain_inputs *a, const struct explain_inputs *b)
{
  static const char *const others[] = {"model", "stack", "profiles"};
  const struct explain_inputs *const both[2] = {a, b};
  char digests[2][WRITE_DIGEST_SIZE] = {"", "-"};
  for (int i = 0; i < 2; i++) {
    json_t *body = json_loads(both[i]->sketch.canonical, 0, NULL), *constraints = json_object_get(body, "constraints");
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
      (void)json_object_del(body, others[k]); /* -1 when absent, which is as good */
    (void)json_object_del(constraints, "price");
    (void)json_object_del(constraints, "prices");
    if (constraints != NULL && json_object_size(constraints) == 0)
      (void)json_object_del(body, "constraints");
    if (!sketch_digest(digests[i], body))
      digests[i][0] = '\0';
    json_decref(body);
  }
  return strcmp(digests[0], digests[1]) == 0;
}

static bool is_same_at(const struct explain_inputs *a, const struct explain_inputs *b, const char *path)
{
  const json_t *x = card_at(a->card, path), *y = card_at(b->card, path);
  if (is_plain(x) || is_plain(y))
    return is_plain(x) && is_plain(y);
  return json_equal(read_iterable(x), read_iterable(y)) != 0;
}

static void find_changes(bool changed[COMPARE_INPUTS], const struct explain_inputs *a, const struct explain_inputs *b)
{
  changed[COMPARE_SKETCH] = !is_same_sketch(a, b);
  changed[COMPARE_TRACE] = !is_same_at(a, b, "trace_digest");
  changed[COMPARE_MODEL] = !is_same_model(a, b);
  changed[COMPARE_PROFILE] = !is_same_device(a, b);
  changed[COMPARE_PRICE] = !is_same_price(a, b);
  changed[COMPARE_STACK] = !is_same_at(a, b, "stack");
  changed[COMPARE_CALIBRATION] = !is_same_at(a, b, "provenance.calibration");
  changed[COMPARE_CORE_VERSION] = !is_same_at(a, b, "core_version");
}

/* What an input is, in a few words or as it stands on the scorecard. */
static json_t *input_value(const struct explain_inputs *inputs, enum compare_input input)
{
  static const char *const paths[COMPARE_INPUTS] = {[COMPARE_SKETCH] = "sketch_digest",
                                                    [COMPARE_TRACE] = "trace_digest",
                                                    [COMPARE_STACK] = "stack",
                                                    [COMPARE_CALIBRATION] = "provenance.calibration",
                                                    [COMPARE_CORE_VERSION] = "core_version"};
  const json_t *value = paths[input] != NULL ? card_at(inputs->card, paths[input]) : NULL;
  if (input == COMPARE_MODEL)
    return json_pack("{s:s, s:i}", "model", inputs->sketch.model_name, "revision", inputs->sketch.model_revision);
  if (input == COMPARE_PROFILE)
    return json_pack("{s:s, s:i}", "profile", inputs->profile.hardware.name, "revision", inputs->profile.revision);
  if (input == COMPARE_PRICE) {
    const json_t *usd = card_at(inputs->card, "cost.usd_per_gpu_hour"),
                 *basis = card_at(inputs->card, "cost.price_basis");
    return json_pack("{s:o, s:o}", "usd_per_gpu_hour", usd != NULL ? json_deep_copy(usd) : json_null(), "price_basis",
                     basis != NULL ? json_deep_copy(basis) : json_null());
  }
  return value != NULL ? json_deep_copy(value) : json_null();
}

static json_t *inputs_write(const bool changed[COMPARE_INPUTS], const struct explain_inputs *a,
                            const struct explain_inputs *b)
{
  json_t *array = json_array();
  for (int i = 0; i < COMPARE_INPUTS; i++) {
    json_t *item;
    if (!changed[i])
      continue;
    item = json_object();
    put_member(&item, "input", write_text(compare_input_name((enum compare_input)i)));
    put_member(&item, "before", input_value(a, (enum compare_input)i));
    put_member(&item, "after", input_value(b, (enum compare_input)i));
    put_element(&array, item);
  }
  return array;
}

/* ---- Evaluating again ----------------------------------------------------------------------------------------------- */

/* Whose each input is. */
struct mixture {
  const struct explain_inputs *of[COMPARE_INPUTS];
};

static struct mixture all_of(const struct explain_inputs *inputs)
{
  struct mixture mixture;
  for (int i = 0; i < COMPARE_INPUTS; i++)
    mixture.of[i] = inputs;
  return mixture;
}

/* A price that the sketch states is that of one GPU, whichever the profile. */
static void mix_prices(struct workload_constraints *constraints, struct hardware *hardware,
                       const struct explain_inputs *from)
{
  const struct workload_constraints *source = &from->sketch.workload.constraints;
  const double own = own_price(from);
  memcpy(constraints->price_cloud, source->price_cloud, sizeof constraints->price_cloud);
  memcpy(constraints->price_commitment, source->price_commitment, sizeof constraints->price_commitment);
  constraints->price_override_count = isnan(own) ? 0u : 1u;
  memcpy(constraints->price_overrides[0].profile, hardware->name, sizeof constraints->price_overrides[0].profile);
  constraints->price_overrides[0].usd_per_gpu_hour = own;
  take_prices(hardware, &from->profile.hardware);
}

/* Percentiles are there only where the simulation ran. */
static enum fit_depth depth_of(const struct explain_inputs *inputs)
{
  return is_plain(card_at(inputs->card, "latency.ttft_ms.p99")) ? FIT_QUICK : FIT_FULL;
}

struct bench {
  struct workload workload;
  struct catalogue_profile profile;
  struct scorecard card;
  struct arena arena;
  enum fit_depth depth;
};

/* The scorecard of a mixture; *card NULL: it can not be evaluated, as a model too long for the other's prompts. */
static enum err evaluate(json_t **card, struct bench *bench, const struct mixture *mixture, struct error *e)
{
  const struct explain_inputs *calibrated = mixture->of[COMPARE_CALIBRATION];
  const struct sketch *sketch = &mixture->of[COMPARE_SKETCH]->sketch;
  struct fit_request request = {.workload = &bench->workload,
                                .model = &mixture->of[COMPARE_MODEL]->sketch.model,
                                .hardware = &bench->profile.hardware,
                                .depth = bench->depth,
                                .are_figures_enough = true,
                                .calibration = calibrated->has_calibration ? &calibrated->calibration : NULL,
                                .draft_model = sketch->has_draft_model ? &sketch->draft_model : NULL};
  const struct scorecard_identity identity = {.sketch = sketch, .profile = &bench->profile};
  const size_t mark = arena_mark(&bench->arena);
  enum err rc;
  trace_replay_give(&request, sketch);
  bench->workload = sketch->workload;
  bench->profile = mixture->of[COMPARE_PROFILE]->profile;
  mix_prices(&bench->workload.constraints, &bench->profile.hardware, mixture->of[COMPARE_PRICE]);
  *card = NULL;
  rc = fit_evaluate(&bench->card, &request, &bench->arena, e);
  if (rc == ERR_OK) {
    *card = scorecard_write(&bench->card, &identity);
    rc = *card != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "", "not enough memory to compare scorecards");
  }
  arena_release(&bench->arena, mark);
  return rc == ERR_INVALID || rc == ERR_LIMIT ? ERR_OK : rc;
}

/* ---- The waterfall -------------------------------------------------------------------------------------------------- */

struct waterfall {
  bool changed[COMPARE_INPUTS];
  json_t *before, *after;          /* evaluated now, all inputs of one side */
  json_t *swapped[COMPARE_INPUTS]; /* the first side with this one input of the second */
};

static bool moves(const struct waterfall *w, int input)
{
  return w->changed[input] && input != COMPARE_STACK && input != COMPARE_CORE_VERSION;
}

static enum err evaluate_all(struct waterfall *w, struct bench *bench, const struct explain_inputs *a,
                             const struct explain_inputs *b, struct error *e)
{
  const struct mixture first = all_of(a), second = all_of(b);
  enum err rc = evaluate(&w->before, bench, &first, e);
  if (rc == ERR_OK)
    rc = evaluate(&w->after, bench, &second, e);
  for (int i = 0; i < COMPARE_INPUTS && rc == ERR_OK; i++) {
    struct mixture mixture = first;
    mixture.of[i] = b;
    if (moves(w, i))
      rc = evaluate(&w->swapped[i], bench, &mixture, e);
  }
  return rc;
}

static double value_at(const json_t *card, const char *path)
{
  const json_t *value = card_at(card, path);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* total = steps + interaction + what today's core does not reproduce, which is the doing of other versions of it. */
static json_t *figure_steps(const struct waterfall *w, const struct store_figure *figure, double before, double after)
{
  const double now = value_at(w->before, figure->path), then = value_at(w->after, figure->path);
  const double unreproduced = (after - then) - (before - now);
  json_t *item = json_object(), *steps = json_array();
  double explained = 0;
  for (int i = 0; i < COMPARE_INPUTS; i++) {
    const double change = value_at(w->swapped[i], figure->path) - now;
    json_t *step;
    if (!moves(w, i) && i != COMPARE_CORE_VERSION)
      continue;
    if (i == COMPARE_CORE_VERSION && !w->changed[i])
      continue;
    step = json_object();
    put_member(&step, "input", write_text(compare_input_name((enum compare_input)i)));
    put_member(&step, "change", write_number(i == COMPARE_CORE_VERSION ? unreproduced : change));
    put_element(&steps, step);
    explained += i == COMPARE_CORE_VERSION ? 0 : change;
  }
  put_member(&item, "metric", write_text(figure->path));
  put_member(&item, "unit", write_text(figure->unit));
  put_member(&item, "before", write_number(before));
  put_member(&item, "after", write_number(after));
  put_member(&item, "total", write_number(after - before));
  put_member(&item, "steps", steps);
  put_member(&item, "interaction", write_number((then - now) - explained));
  put_member(&item, "not_reproduced", write_number(w->changed[COMPARE_CORE_VERSION] ? 0.0 : unreproduced));
  return item;
}

static json_t *waterfall_write(const struct waterfall *w, const struct explain_inputs *a,
                               const struct explain_inputs *b)
{
  json_t *array = json_array();
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++) {
    const double before = value_at(a->card, store_figures[i].path), after = value_at(b->card, store_figures[i].path);
    if (!isnan(before) && !isnan(after) && fabs(after - before) > 0)
      put_element(&array, figure_steps(w, &store_figures[i], before, after));
  }
  return array;
}

static enum err waterfall_make(json_t **out, const bool changed[COMPARE_INPUTS], const struct explain_inputs *a,
                               const struct explain_inputs *b, size_t arena_bytes, struct error *e)
{
  struct waterfall w = {.before = NULL};
  struct bench *bench = calloc(1, sizeof *bench);
  void *memory = malloc(arena_bytes);
  enum err rc = ERR_OK;
  *out = NULL;
  if (bench == NULL || memory == NULL) {
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to compare scorecards");
    goto out;
  }
  memcpy(w.changed, changed, sizeof w.changed);
  arena_init(&bench->arena, memory, arena_bytes);
  bench->depth = depth_of(a) == FIT_FULL && depth_of(b) == FIT_FULL ? FIT_FULL : FIT_QUICK;
  rc = evaluate_all(&w, bench, a, b, e);
  if (rc == ERR_OK)
    *out = w.before != NULL && w.after != NULL ? waterfall_write(&w, a, b) : json_null();
out:
  for (int i = 0; i < COMPARE_INPUTS; i++)
    json_decref(w.swapped[i]);
  json_decref(w.before);
  json_decref(w.after);
  free(memory);
  free(bench);
  return rc;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------ */

static json_t *side_write(const struct explain_inputs *inputs)
{
  static const char *const members[] = {"evaluation", "created_at", "workload", "model", "profile", "label", "verdict"};
  json_t *side = json_object();
  put_member(&side, "scorecard", write_text(json_string_value(json_object_get(inputs->card, "id"))));
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
    put_member(&side, members[i], write_text(json_string_value(json_object_get(inputs->card, members[i]))));
  return side;
}

enum err compare_write(json_t **out, const struct explain_inputs *before, const struct explain_inputs *after,
                       size_t arena_bytes, struct error *e)
{
  bool changed[COMPARE_INPUTS], is_any = false;
  json_t *figures = json_object(), *words = json_object(), *waterfall = json_array();
  enum err rc = ERR_OK;
  find_changes(changed, before, after);
  for (int i = 0; i < COMPARE_INPUTS; i++)
    is_any = is_any || changed[i];
  walk(&figures, &words, "", before->card, after->card);
  if (is_any) {
    json_decref(waterfall);
    rc = waterfall_make(&waterfall, changed, before, after, arena_bytes, e);
  }
  *out = json_object();
  put_member(out, "before", side_write(before));
  put_member(out, "after", side_write(after));
  put_member(out, "inputs", inputs_write(changed, before, after));
  put_member(out, "figures", figures);
  put_member(out, "words", words);
  put_member(out, "waterfall", waterfall != NULL ? waterfall : json_null());
  if (rc == ERR_OK && *out == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to compare scorecards");
  if (rc != ERR_OK) {
    json_decref(*out);
    *out = NULL;
  }
  return rc;
}
