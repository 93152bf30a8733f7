/* Bisection on the evaluation. The cut that fits at the far end is held meanwhile, which spares most of the search; the open
   search has the last word on the point found and on the one before it. */
#include "core/ways_out_int.h"

#include <math.h>

/* Two points so close are one: less than the 1 % that a way out is minimal to. */
static const double close_ratio = 1.005;

static double scaled_tokens(double tokens, double scale)
{
  return fmax(1, tokens * scale);
}

struct knob_value way_value(const struct way *way, double at)
{
  struct knob_value value = knob_number(at);
  if (way->length.kind == LENGTH_ABSENT)
    return value;
  value.type = KNOB_VALUE_LENGTH;
  value.length = way->length;
  value.length.p50_tokens = scaled_tokens(way->length.p50_tokens, at);
  value.length.p99_tokens = scaled_tokens(way->length.p99_tokens, at);
  value.length.mean_tokens = scaled_tokens(way->length.mean_tokens, at);
  return value;
}

enum err ways_try(bool *fits, struct scorecard *card, const struct ways_search *s, const char *pointer,
                  const struct knob_value *value, struct error *e)
{
  bool is_possible;
  const enum err err = change_evaluate(card, &is_possible, &s->base, pointer, value, e);
  *fits = err == ERR_OK && is_possible && card->verdict == VERDICT_FIT;
  return err;
}

enum err ways_probe(bool *fits, struct scorecard *card, const struct ways_search *s, const char *pointer,
                    const struct knob_value *value, struct error *e)
{
  struct ways_search probing = *s;
  probing.base.is_probe = true;
  return ways_try(fits, card, &probing, pointer, value, e);
}

static enum err try_at(bool *fits, struct scorecard *card, const struct ways_search *s, const struct way *way,
                       double at, struct error *e)
{
  const struct knob_value value = way_value(way, at);
  return ways_probe(fits, card, s, way->pointer, &value, e);
}

/* ---- points ---- */

/* Four digits, away from where the way begins: a figure that can be written into a sketch. */
static double rounded(const struct way *way, double at)
{
  const double unit = pow(10, floor(log10(at)) - 3);
  const double up = ceil(at / unit * (1 - 1e-12)) * unit, down = floor(at / unit * (1 + 1e-12)) * unit;
  const bool is_up = way->end > way->from;
  if (way->is_whole)
    return at;
  return is_up ? fmin(up, way->end) : fmax(down, way->end);
}

static bool are_close(const struct ways_search *s, const struct way *way, double a, double b)
{
  const bool are_near = fmax(a, b) <= close_ratio * fmin(a, b);
  return way->is_whole ? fabs(a - b) <= 1 || (s->is_coarse && are_near) : are_near;
}

static double middle(const struct way *way, double a, double b)
{
  const double at = sqrt(a * b), least = fmin(a, b) + 1, most = fmax(a, b) - 1;
  return way->is_whole ? fmin(most, fmax(least, floor(at + 0.5))) : at;
}

/* One step back towards where the way begins. */
static double before(const struct way *way, double at)
{
  const bool is_up = way->end > way->from;
  const double step = way->is_whole ? 1 : at * 0.01;
  const double back = is_up ? at - step : at + step;
  return is_up ? fmax(back, way->from) : fmin(back, way->from);
}

static bool is_start(const struct way *way, double at)
{
  return way->end > way->from ? at <= way->from : at >= way->from;
}

/* ---- bisection ---- */

/* A search with the cut of a card held, which spares most of its evaluations. */
struct held {
  struct workload workload;
  struct fit_request request;
  struct ways_search search;
};

/* Where the way itself is a part of the cut, or the sketch gives it, nothing changes. */
static void hold(struct held *held, const struct ways_search *s, const struct scorecard *card)
{
  const struct scorecard_configuration *cut = &card->configuration;
  held->workload = *s->base.request->workload;
  held->request = *s->base.request;
  held->search = *s;
  held->request.workload = &held->workload;
  held->search.base.request = &held->request;
  if (!card->has_configuration)
    return;
  held->workload.serving.tensor_parallel = cut->tensor_parallel;
  held->workload.serving.pipeline_parallel = cut->pipeline_parallel;
  held->workload.serving.expert_parallel = cut->expert_parallel;
  held->workload.serving.attention_data_parallel = cut->attention_data_parallel;
}

/* Between a point that does not fit and one that does. */
static enum err bisect(double *fit, const struct ways_search *s, const struct way *way, double miss, struct error *e)
{
  struct scorecard tried;
  bool fits;
  while (!are_close(s, way, miss, *fit)) {
    const double at = middle(way, miss, *fit);
    const enum err err = try_at(&fits, &tried, s, way, at, e);
    if (err != ERR_OK)
      return err;
    if (fits)
      *fit = at;
    else
      miss = at;
  }
  return ERR_OK;
}

/* The far end, else points between it and the start, nearest to the end first. */
static enum err find_any(double *at, struct scorecard *card, bool *fits, const struct ways_search *s,
                         const struct way *way, struct error *e)
{
  static const double parts[] = {1, 0.4}; /* of the way, in ratios */
  enum err err = ERR_OK;
  *fits = false;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !*fits && err == ERR_OK; i++) {
    const double point = way->from * pow(way->end / way->from, parts[i]);
    *at = way->is_whole ? floor(point + 0.5) : point;
    if (is_start(way, *at) || (i > 0 && !way->is_winding))
      break;
    err = try_at(fits, card, s, way, *at, e);
  }
  return err;
}

enum err way_search(double *at, bool *is_found, const struct ways_search *s, const struct way *way, struct error *e)
{
  enum { ROUNDS = 40 };
  struct scorecard card, back;
  double miss = way->from;
  bool fits;
  enum err err = find_any(at, &card, is_found, s, way, e);
  for (int i = 0; i < ROUNDS && *is_found && err == ERR_OK; i++) {
    struct held held;
    double previous;
    hold(&held, s, &card);
    if ((err = bisect(at, &held.search, way, miss, e)) != ERR_OK)
      return err;
    *at = rounded(way, *at);
    if ((err = try_at(is_found, &card, s, way, *at, e)) != ERR_OK || !*is_found)
      return err;
    previous = before(way, *at);
    if (is_start(way, previous))
      return ERR_OK;
    if ((err = try_at(&fits, &back, s, way, previous, e)) != ERR_OK || !fits)
      return err;
    card = back; /* another cut fits nearer: from there on */
    *at = previous;
    miss = way->from;
  }
  return err;
}

/* ---- from the closed form to the simulation ---- */

static const double first_step = 0.01;

/* So much further from the start (ratio > 0) or back towards it, at least by one of a count. */
static double moved(const struct way *way, double at, double ratio)
{
  const bool is_up = (way->end > way->from) == (ratio > 0);
  const double to = is_up ? at * (1 + fabs(ratio)) : at / (1 + fabs(ratio));
  const double low = fmin(way->from, way->end), high = fmax(way->from, way->end);
  const double whole = is_up ? fmax(ceil(to), at + 1) : fmin(floor(to), at - 1);
  return fmin(high, fmax(low, way->is_whole ? whole : to));
}

/* Back towards the start while it still fits. */
static enum err step_back(double *fit, double *miss, const struct ways_search *s, const struct way *way,
                          struct error *e)
{
  const double growth = 4;
  double step = first_step;
  enum err err = ERR_OK;
  for (bool fits = true; fits && err == ERR_OK; step *= growth) {
    struct scorecard card;
    *miss = moved(way, *fit, -step);
    if (is_start(way, *miss))
      return ERR_OK;
    err = try_at(&fits, &card, s, way, *miss, e);
    *fit = fits ? *miss : *fit;
  }
  return err;
}

/* On towards the end until it fits. */
static enum err step_on(double *fit, double *miss, bool *is_found, const struct ways_search *s, const struct way *way,
                        struct error *e)
{
  const double growth = 4;
  double step = first_step;
  enum err err = ERR_OK;
  while (!*is_found && err == ERR_OK && fabs(*miss - way->end) > 1e-9 * way->end) {
    struct scorecard card;
    *fit = moved(way, *miss, step);
    err = try_at(is_found, &card, s, way, *fit, e);
    *miss = *is_found ? *miss : *fit;
    step *= growth;
  }
  return err;
}

enum err way_settle(double *at, bool *is_found, const struct ways_search *s, const struct way *way, struct error *e)
{
  enum { ROUNDS = 6 };
  struct scorecard card;
  bool fits;
  enum err err = try_at(&fits, &card, s, way, *at, e);
  *is_found = fits;
  for (int i = 0; i < ROUNDS && err == ERR_OK; i++) {
    struct held held;
    double fit = *at, miss = *at;
    hold(&held, s, &card);
    err = fits ? step_back(&fit, &miss, &held.search, way, e) : step_on(&fit, &miss, is_found, &held.search, way, e);
    if (err != ERR_OK || !*is_found || (err = bisect(&fit, &held.search, way, miss, e)) != ERR_OK)
      return err;
    *at = rounded(way, fit);
    miss = moved(way, *at, -first_step);
    if (is_start(way, miss))
      return ERR_OK;
    err = try_at(&fits, &card, s, way, miss, e); /* by another cut? */
    if (!fits)
      return err;
    *at = miss;
  }
  return err;
}
