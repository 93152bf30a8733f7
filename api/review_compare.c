/* What moved in a workload since the last signed review, and which of its inputs are not what they were. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/compare.h"
#include "api/figure.h"
#include "api/pointer.h"
#include "api/put.h"
#include "api/read.h"
#include "api/review.h"
#include "api/write.h"

#define FIGURES_MAX 64
#define TITLE_FIGURES 3
#define DIFFERENCES_MAX 24 /* of two sketches */

/* One workload being compared. */
struct comparison {
  struct review *review;
  struct trial *trial; /* of the sketch as it is now */
  struct trial old;    /* of the sketch as it was */
  bool is_old_open;
  bool is_noise_known;
  double noise[FIGURES_MAX];
  json_t *inputs, *profiles; /* what changed; what moved */
};

/* ---- Inputs --------------------------------------------------------------------------------------------------------- */

static void add_input(struct comparison *c, const char *input, const char *where, const json_t *before,
                      const json_t *after)
{
  json_t *row;
  if (pointer_same_value(before, after))
    return;
  row = json_object();
  put_member(&row, "input", json_string(input));
  put_member(&row, "where", write_text(where));
  put_member(&row, "before", record_share(read_iterable(before)));
  put_member(&row, "after", record_share(read_iterable(after)));
  put_element(&c->inputs, row);
}

/* Members that differ, one input each, with their pointers; prose and context change no figure. */
static void compare_sketches(struct comparison *c, const json_t *before, const json_t *after, const char *pointer)
{
  const char *key;
  json_t *value;
  char at[160];
  if (!json_is_object(before) || !json_is_object(after)) {
    if (json_array_size(c->inputs) < DIFFERENCES_MAX)
      add_input(c, "sketch", pointer, before, after);
    return;
  }
  json_object_foreach(read_iterable(after), key, value)
  {
    read_pointer(at, sizeof at, pointer, key);
    if (strcmp(key, "description") != 0 && strcmp(key, "$schema") != 0 && strcmp(at, "/context") != 0 &&
        strcmp(at, "/stack") != 0)
      compare_sketches(c, json_object_get(before, key), value, at);
  }
  json_object_foreach(read_iterable(before), key, value)
  {
    read_pointer(at, sizeof at, pointer, key);
    if (json_object_get(after, key) == NULL && strcmp(key, "description") != 0 && strcmp(at, "/context") != 0)
      add_input(c, "sketch", at, value, NULL);
  }
}

static enum err compare_sketch_texts(struct comparison *c, const json_t *entry, const json_t *last, struct error *e)
{
  const char *id = json_string_value(json_object_get(last, "evaluation"));
  struct store_evaluation row = {.id = NULL};
  json_t *before = NULL, *after = NULL;
  enum err rc;
  if (id == NULL || pointer_same_value(json_object_get(entry, "sketch_digest"), json_object_get(last, "sketch_digest")))
    return ERR_OK;
  rc = store_evaluation_get(call_store(c->review->call), &row, id, e);
  if (rc == ERR_OK)
    rc = record_parse(&before, row.sketch, e);
  if (rc == ERR_OK)
    rc = record_parse(&after, c->trial->sketch.canonical, e);
  if (rc == ERR_OK)
    compare_sketches(c, before, after, "");
  json_decref(before);
  json_decref(after);
  store_evaluation_fini(&row);
  return rc;
}

/* Of the workload as a whole, from the first pair of scorecards. */
static void compare_common(struct comparison *c, const json_t *before, const json_t *after)
{
  static const char *const members[][2] = {{"model_revision", "model"},
                                           {"stack", "stack"},
                                           {"trace_digest", "trace"},
                                           {"seed", "seed"},
                                           {"core_version", "core_version"}};
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
    add_input(c, members[i][1], NULL, json_object_get(before, members[i][0]), json_object_get(after, members[i][0]));
}

/* Of one profile. A revision that only brought another price is told as the price. */
static void compare_profile(struct comparison *c, const char *profile, const json_t *before, const json_t *after)
{
  const json_t *old_price = pointer_get(before, "/cost/usd_per_gpu_hour");
  const json_t *new_price = pointer_get(after, "/cost/usd_per_gpu_hour");
  const bool is_price = !pointer_same_value(old_price, new_price);
  add_input(c, "price", profile, old_price, new_price);
  if (!is_price)
    add_input(c, "profile", profile, json_object_get(before, "profile_revision"),
              json_object_get(after, "profile_revision"));
  add_input(c, "calibration", profile, pointer_get(before, "/provenance/calibration"),
            pointer_get(after, "/provenance/calibration"));
}

/* ---- Figures -------------------------------------------------------------------------------------------------------- */

/* How much chance alone may move, from the first profile that seems to have moved. */
static enum err learn_noise(struct comparison *c, const json_t *before, const json_t *after, struct error *e)
{
  if (c->is_noise_known)
    return ERR_OK;
  c->is_noise_known = true;
  if (figure_count > FIGURES_MAX)
    return error_set(e, ERR_INTERNAL, "", "there are more figures than a review has room for");
  return trial_noise(c->noise, c->trial, after, c->is_old_open ? &c->old : NULL, before, e);
}

static bool may_have_moved(const json_t *before, const json_t *after)
{
  for (size_t i = 0; i < figure_count; i++)
    if (fabs(figure_change(figure_value(before, figures[i].metric), figure_value(after, figures[i].metric))) >
        REVIEW_MOVED_RATIO)
      return true;
  return false;
}

static json_t *figure_row(const struct figure *figure, double before, double after)
{
  json_t *row = json_object();
  put_member(&row, "metric", json_string(figure->metric));
  put_member(&row, "label", json_string(figure->label));
  put_member(&row, "unit", json_string(figure->unit));
  put_member(&row, "before", write_number(before));
  put_member(&row, "after", write_number(after));
  put_member(&row, "relative", write_number(figure_change(before, after)));
  put_member(&row, "better", json_boolean(figure_worsening(figure, before, after) < 0));
  return row;
}

/* Figures that moved; an empty array when none did. */
static json_t *moved_figures(const struct comparison *c, const json_t *before, const json_t *after)
{
  json_t *rows = json_array();
  for (size_t i = 0; i < figure_count; i++) {
    const double a = figure_value(before, figures[i].metric), b = figure_value(after, figures[i].metric);
    const double change = fabs(figure_change(a, b));
    if (change > REVIEW_MOVED_RATIO && change > c->noise[i])
      put_element(&rows, figure_row(&figures[i], a, b));
  }
  return rows;
}

/* ---- Which input moved them ----------------------------------------------------------------------------------------- */

/* What is left when all steps are told: of several inputs together, and what this version does not reproduce. */
static void put_rest(json_t **to, const json_t *figure, const char *name)
{
  const double rest = json_number_value(json_object_get(figure, name));
  if (fabs(rest) > TRIAL_ARITHMETIC * fabs(json_number_value(json_object_get(figure, "before"))))
    put_member(to, name, write_number(rest));
}

/* {"price": 0.4, "sketch": -0.1, "interaction": 0.01}: the steps of the waterfall, in the figure's unit. */
static json_t *change_by(const json_t *figure)
{
  const json_t *steps = json_object_get(figure, "steps"), *step;
  json_t *to = json_object();
  size_t i;
  json_array_foreach(steps, i, step)
  {
    put_member(&to, json_string_value(json_object_get(step, "input")), record_share(json_object_get(step, "change")));
  }
  put_rest(&to, figure, "interaction");
  put_rest(&to, figure, "not_reproduced");
  return to;
}

static bool add_blame(json_t *rows, const json_t *waterfall)
{
  const json_t *figure;
  json_t *row;
  size_t i, k;
  json_array_foreach(rows, i, row)
  {
    json_array_foreach(waterfall, k, figure)
    {
      if (pointer_same_value(json_object_get(row, "metric"), json_object_get(figure, "metric")) &&
          json_object_set_new(row, "change_by", change_by(figure)) != 0)
        return false;
    }
  }
  return true;
}

/* The waterfall between the two scorecards, as /v1/scorecards/{id}/compare gives it; without one, as where this version can not
   read what a scorecard was made from, the figures stand without. */
static enum err blame(const struct comparison *c, json_t *rows, const json_t *before, const json_t *after,
                      struct error *e)
{
  struct api_call *call = c->review->call;
  struct explain_inputs *sides = calloc(2, sizeof *sides);
  json_t *document = NULL;
  enum err rc = sides != NULL ? ERR_OK : record_nomem(e);
  if (rc == ERR_OK)
    rc = explain_load(&sides[0], call, json_string_value(json_object_get(before, "id")), e);
  if (rc == ERR_OK)
    rc = explain_load(&sides[1], call, json_string_value(json_object_get(after, "id")), e);
  if (rc == ERR_OK)
    rc = compare_write(&document, &sides[0], &sides[1], call_deps(call)->arena_bytes, e);
  if (rc == ERR_OK && !add_blame(rows, json_object_get(document, "waterfall")))
    rc = record_nomem(e);
  if (sides != NULL) {
    explain_inputs_fini(&sides[0]);
    explain_inputs_fini(&sides[1]);
  }
  free(sides);
  json_decref(document);
  return rc == ERR_NOT_FOUND || rc == ERR_CONFLICT ? ERR_OK : rc;
}

static enum err compare_pair(struct comparison *c, const char *profile, const json_t *before, const json_t *after,
                             struct error *e)
{
  const bool is_verdict_same =
      pointer_same_value(json_object_get(before, "verdict"), json_object_get(after, "verdict"));
  json_t *rows, *row;
  enum err rc = ERR_OK;
  compare_profile(c, profile, before, after);
  if (!may_have_moved(before, after) && is_verdict_same)
    return ERR_OK;
  rc = learn_noise(c, before, after, e);
  if (rc != ERR_OK)
    return rc;
  rows = moved_figures(c, before, after);
  if (json_array_size(rows) > 0)
    rc = blame(c, rows, before, after, e);
  if (rc != ERR_OK || (json_array_size(rows) == 0 && is_verdict_same)) {
    json_decref(rows);
    return rc;
  }
  row = json_object();
  put_member(&row, "profile", json_string(profile));
  put_member(&row, "before_scorecard", record_share(json_object_get(before, "id")));
  put_member(&row, "scorecard", record_share(json_object_get(after, "id")));
  put_member(&row, "verdict_before", record_share(json_object_get(before, "verdict")));
  put_member(&row, "verdict", record_share(json_object_get(after, "verdict")));
  put_member(&row, "figures", rows);
  put_element(&c->profiles, row);
  return ERR_OK;
}

/* ---- The item ------------------------------------------------------------------------------------------------------- */

static void print_inputs(struct text *text, const json_t *inputs)
{
  const json_t *input;
  const char *seen = "";
  size_t i, told = 0;
  json_array_foreach(inputs, i, input)
  {
    const char *name = json_string_value(json_object_get(input, "input"));
    if (strcmp(name, seen) == 0)
      continue;
    text_printf(text, "%s%s", told++ == 0 ? "; changed: " : ", ", name);
    seen = name;
  }
  if (told == 0)
    text_puts(text, "; no input changed");
}

/* "chat moved on h100 (and 2 more): monthly cost +20.0 %, …; changed: price" */
static char *title_of(const struct comparison *c, const char *workload)
{
  const json_t *first = json_array_get(c->profiles, 0), *rows = json_object_get(first, "figures"), *row;
  const size_t more = json_array_size(c->profiles) - 1;
  struct text text = {0};
  size_t i;
  text_printf(&text, "%s moved on %s", workload, json_string_value(json_object_get(first, "profile")));
  if (more > 0)
    text_printf(&text, " (and %zu more)", more);
  if (!pointer_same_value(json_object_get(first, "verdict_before"), json_object_get(first, "verdict")))
    text_printf(&text, ": %s became %s", json_string_value(json_object_get(first, "verdict_before")),
                json_string_value(json_object_get(first, "verdict")));
  json_array_foreach(rows, i, row)
  {
    if (i == TITLE_FIGURES)
      break;
    text_printf(&text, "%s%s %+.1f %%", i == 0 ? ": " : ", ", json_string_value(json_object_get(row, "label")),
                100 * json_number_value(json_object_get(row, "relative")));
  }
  print_inputs(&text, c->inputs);
  return text_take(&text, NULL);
}

static enum err add_items(struct comparison *c, const json_t *entry, const json_t *last, struct error *e)
{
  const char *workload = json_string_value(json_object_get(entry, "workload"));
  struct review *review = c->review;
  json_t *item;
  enum err rc = ERR_OK;
  if (c->inputs == NULL || c->profiles == NULL)
    return record_nomem(e);
  if (json_array_size(c->profiles) > 0) {
    item = review_item_add(review, "moved", workload, "", title_of(c, workload));
    put_member(&item, "compared_with", record_share(json_object_get(review->last, "week")));
    put_member(&item, "profiles", json_incref(c->profiles));
    put_member(&item, "inputs", json_incref(c->inputs));
    rc = review_item_end(item, e);
  }
  if (rc == ERR_OK && !pointer_same_value(json_object_get(entry, "stack"), json_object_get(last, "stack"))) {
    struct text title = {0};
    text_printf(&title, "the stack of %s changed", workload);
    item = review_item_add(review, "stack_change", workload, "", text_take(&title, NULL));
    put_member(&item, "before", record_share(json_object_get(last, "stack")));
    put_member(&item, "after", record_share(json_object_get(entry, "stack")));
    rc = review_item_end(item, e);
  }
  return rc;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------ */

static const char *last_scorecard(const json_t *last, const char *profile)
{
  const json_t *row;
  size_t i;
  json_array_foreach(json_object_get(last, "scorecards"), i, row)
  {
    if (strcmp(json_string_value(json_object_get(row, "profile")), profile) == 0)
      return json_string_value(json_object_get(row, "scorecard"));
  }
  return NULL;
}

static enum err load_card(json_t **out, const struct review *review, const char *id, struct error *e)
{
  char *document;
  size_t length;
  enum err rc = store_scorecard_document(call_store(review->call), &document, &length, id, e);
  if (rc == ERR_OK)
    rc = record_parse(out, document, e);
  free(document);
  return rc;
}

static enum err compare_cards(struct comparison *c, const json_t *cards, const json_t *last, struct error *e)
{
  bool is_first = true;
  enum err rc = ERR_OK;
  for (size_t i = 0; i < json_array_size(cards) && rc == ERR_OK; i++) {
    const json_t *after = json_array_get(cards, i);
    const char *profile = json_string_value(json_object_get(after, "profile"));
    const char *id = last_scorecard(last, profile);
    json_t *before = NULL;
    if (id == NULL)
      continue;
    rc = load_card(&before, c->review, id, e);
    if (rc == ERR_OK && is_first) {
      compare_common(c, before, after);
      rc = trial_open_scorecard(&c->old, &c->is_old_open, c->review->call, before, e);
    }
    is_first = false;
    if (rc == ERR_OK)
      rc = compare_pair(c, profile, before, after, e);
    json_decref(before);
  }
  return rc;
}

enum err review_compare(struct review *review, struct trial *trial, const json_t *entry, const json_t *cards,
                        const json_t *last_entry, struct error *e)
{
  struct comparison c = {.review = review, .trial = trial, .inputs = json_array(), .profiles = json_array()};
  enum err rc;
  if (c.inputs == NULL || c.profiles == NULL)
    rc = record_nomem(e);
  else
    rc = compare_sketch_texts(&c, entry, last_entry, e);
  if (rc == ERR_OK)
    rc = compare_cards(&c, cards, last_entry, e);
  if (rc == ERR_OK)
    rc = add_items(&c, entry, last_entry, e);
  if (c.is_old_open)
    trial_close(&c.old);
  json_decref(c.inputs);
  json_decref(c.profiles);
  return rc;
}
