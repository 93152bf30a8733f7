/* What to do, as the scorecard says it: advice, ways out and alternatives. Pointers and values are such that the sketch with
   the value put at the pointer is the one that was evaluated. */
#include "api/evaluation.h"

#include <math.h>
#include <string.h>

#include "api/write.h"

/* Consumes `value`; false when memory is out, which a NULL value means too. */
static bool put(json_t *object, const char *key, json_t *value)
{
  return json_object_set_new(object, key, value) == 0;
}

static json_t *write_length(const struct length *length)
{
  const bool by_quantiles = length->kind == LENGTH_QUANTILES;
  json_t *to = json_object();
  if (put(to, by_quantiles ? "p50" : "mean", write_number(by_quantiles ? length->p50_tokens : length->mean_tokens)) &&
      put(to, by_quantiles ? "p99" : "cv", write_number(by_quantiles ? length->p99_tokens : length->cv_ratio)))
    return to;
  json_decref(to);
  return NULL;
}

static json_t *write_value(const struct knob_value *value)
{
  switch (value->type) {
  case KNOB_VALUE_NULL: return json_null();
  case KNOB_VALUE_NUMBER: return write_number(value->number);
  case KNOB_VALUE_FLAG: return json_boolean(value->number > 0);
  case KNOB_VALUE_TEXT: return write_text(value->text);
  case KNOB_VALUE_LENGTH: return write_length(&value->length);
  }
  return NULL;
}

/* ---- one word for three formats ---- */

static bool is_format(const char *pointer)
{
  return strncmp(pointer, "/precision/", strlen("/precision/")) == 0;
}

/* The object that says what the word said, with one of its formats changed. */
static json_t *write_formats(const struct scorecard_change *change, const struct workload *workload)
{
  static const char *const names[] = {"weights", "kv_cache", "activations"};
  const enum precision given[] = {workload->weights, workload->kv_cache, workload->activations};
  const char *changed = change->pointer + strlen("/precision/");
  json_t *to = json_object();
  bool is_ok = true;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i], changed) == 0)
      is_ok = put(to, names[i], write_value(&change->to)) && is_ok;
    else if (given[i] != PRECISION_NONE)
      is_ok = put(to, names[i], json_string(precision_name(given[i]))) && is_ok;
  if (is_ok)
    return to;
  json_decref(to);
  return NULL;
}

/* A sketch that gives its precision as one word has nothing below "/precision" to change. */
static bool put_values(json_t *to, const struct scorecard_change *change, const struct sketch *sketch)
{
  const bool is_word = sketch->workload.precision_is_word && is_format(change->pointer);
  if (is_word)
    return put(to, "pointer", json_string("/precision")) &&
           put(to, "from", json_string(precision_name(sketch->workload.weights))) &&
           put(to, "to", write_formats(change, &sketch->workload));
  return put(to, "pointer", json_string(change->pointer)) && put(to, "from", write_value(&change->from)) &&
         put(to, "to", write_value(&change->to));
}

/* ---- changes ---- */

static json_t *write_effects(const struct scorecard_change *change)
{
  json_t *to = json_object();
  bool is_ok = to != NULL;
  for (size_t i = 0; i < change->effect_count && is_ok; i++) {
    const struct scorecard_effect *effect = &change->effects[i];
    json_t *pair = json_array();
    is_ok = json_array_append_new(pair, write_number(effect->from)) == 0 &&
            json_array_append_new(pair, write_number(effect->to)) == 0;
    is_ok = put(to, effect->metric, pair) && is_ok;
  }
  if (is_ok)
    return to;
  json_decref(to);
  return NULL;
}

json_t *scorecard_change_write(const struct scorecard_change *change, const struct sketch *sketch)
{
  json_t *to = json_object();
  if (put(to, "knob", json_string(change->knob)) && put_values(to, change, sketch) &&
      put(to, "requires", json_string(change_requires_name(change->requires))) &&
      put(to, "message", write_text(change->message)) &&
      put(to, "payback_months", write_number(change->payback_months)) && put(to, "effect", write_effects(change)))
    return to;
  json_decref(to);
  return NULL;
}

static json_t *write_changes(const struct scorecard_change *changes, size_t count, const struct sketch *sketch)
{
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    if (json_array_append_new(array, scorecard_change_write(&changes[i], sketch)) != 0) {
      json_decref(array);
      return NULL;
    }
  return array;
}

json_t *scorecard_advice(const struct scorecard *card, const struct sketch *sketch)
{
  return write_changes(card->advice, card->advice_count, sketch);
}

json_t *scorecard_ways_out(const struct scorecard *card, const struct sketch *sketch)
{
  return write_changes(card->ways_out, card->way_out_count, sketch);
}

/* ---- alternatives ---- */

json_t *scorecard_alternatives(const struct scorecard *card)
{
  const struct scorecard_alternatives *from = &card->alternatives;
  json_t *to = json_object(), *managed = json_null();
  bool is_ok = true;
  if (!isnan(from->managed_per_request_usd)) {
    managed = json_object();
    is_ok = put(managed, "per_request_usd", write_number(from->managed_per_request_usd)) &&
            put(managed, "break_even_requests_per_hour", write_number(from->break_even_requests_per_h));
  }
  is_ok = put(to, "managed_api", managed) && is_ok;
  is_ok = put(to, "self_host_justified",
              from->self_host_is_justified < 0 ? json_null() : json_boolean(from->self_host_is_justified)) &&
          is_ok;
  if (is_ok)
    return to;
  json_decref(to);
  return NULL;
}
