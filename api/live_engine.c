/* What a node's engines did in a step of time: means of gauges, growth of counters, and the requests that histograms counted
   in it. As a document it is opaque to the store. */
#include <math.h>
#include <string.h>

#include "api/live.h"
#include "api/put.h"
#include "api/write.h"

void engine_step_init(struct live_engine_step *step, int64_t time_ms)
{
  *step = (struct live_engine_step){.time_ms = time_ms};
  for (size_t q = 0; q < ENGINE_QUANTITIES; q++)
    step->gauge_max[q] = (double)NAN;
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++)
    buckets_init(&step->histograms[h]);
}

static void add_quantity(struct live_engine_step *step, size_t q, double now, double before)
{
  const bool is_counter = engine_quantities[q].kind == QUANTITY_COUNTER;
  if (isnan(now) || (is_counter && isnan(before)))
    return;
  step->gauge_sum[q] += !is_counter ? now : now >= before ? now - before : now;
  step->gauge_max[q] = step->gauge_count[q] == 0 ? now : fmax(step->gauge_max[q], now);
  step->gauge_count[q]++;
}

/* Without a scrape before it, only gauges can be told: a counter's past belongs to no step. */
void engine_step_add(struct live_engine_step *step, const struct observed_engine *now,
                     const struct observed_engine *previous, double interval_s, bool *has_reset)
{
  *has_reset = false;
  step->scrape_count++;
  step->covered_s += previous != NULL ? interval_s : 0;
  for (size_t q = 0; q < ENGINE_QUANTITIES; q++)
    add_quantity(step, q, now->quantities[q], previous != NULL ? previous->quantities[q] : (double)NAN);
  for (size_t h = 0; h < ENGINE_HISTOGRAMS && previous != NULL; h++) {
    struct buckets grown;
    bool is_anew;
    if (now->histograms[h].count == 0 || previous->histograms[h].count == 0)
      continue;
    buckets_increase(&grown, &previous->histograms[h], &now->histograms[h], &is_anew);
    *has_reset = *has_reset || is_anew;
    if (buckets_total(&grown) > 0 && !buckets_merge(&step->histograms[h], &grown))
      step->histograms[h] = grown; /* other bounds altogether: what is newer counts */
  }
}

void engine_step_merge(struct live_engine_step *into, const struct live_engine_step *more)
{
  into->scrape_count += more->scrape_count;
  into->covered_s += more->covered_s;
  for (size_t q = 0; q < ENGINE_QUANTITIES; q++) {
    if (more->gauge_count[q] == 0)
      continue;
    into->gauge_max[q] = into->gauge_count[q] == 0 ? more->gauge_max[q] : fmax(into->gauge_max[q], more->gauge_max[q]);
    into->gauge_sum[q] += more->gauge_sum[q];
    into->gauge_count[q] += more->gauge_count[q];
  }
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++)
    (void)buckets_merge(&into->histograms[h], &more->histograms[h]); /* no bound in common: the first one's stay */
}

double engine_step_value(const struct live_engine_step *step, enum engine_quantity quantity)
{
  if (step->gauge_count[quantity] == 0)
    return (double)NAN;
  return engine_quantities[quantity].kind == QUANTITY_COUNTER ? step->gauge_sum[quantity]
                                                              : step->gauge_sum[quantity] / step->gauge_count[quantity];
}

static json_t *histogram_write(const struct buckets *buckets)
{
  json_t *object = json_object(), *upper = json_array(), *cumulative = json_array();
  for (size_t i = 0; i < buckets->count; i++) {
    put_element(&upper, write_number(buckets->upper[i])); /* +Inf becomes null */
    put_element(&cumulative, write_number(buckets->cumulative[i]));
  }
  put_member(&object, "upper", upper);
  put_member(&object, "cumulative", cumulative);
  put_member(&object, "sum", write_number(buckets->sum));
  return object;
}

json_t *engine_step_write(const struct live_engine_step *step)
{
  json_t *document = json_object(), *quantities = json_object(), *histograms = json_object();
  put_member(&document, "scrapes", json_integer(step->scrape_count));
  put_member(&document, "seconds", write_number(step->covered_s));
  for (size_t q = 0; q < ENGINE_QUANTITIES; q++) {
    json_t *one;
    if (step->gauge_count[q] == 0)
      continue;
    one = json_object();
    put_member(&one, "sum", write_number(step->gauge_sum[q]));
    put_member(&one, "count", json_integer(step->gauge_count[q]));
    put_member(&one, "max", write_number(step->gauge_max[q]));
    put_member(&quantities, engine_quantities[q].name, one);
  }
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++)
    if (step->histograms[h].count > 0)
      put_member(&histograms, engine_histogram_names[h], histogram_write(&step->histograms[h]));
  put_member(&document, "quantities", quantities);
  put_member(&document, "histograms", histograms);
  return document;
}

static void histogram_read(struct buckets *out, const json_t *object)
{
  const json_t *upper = json_object_get(object, "upper"), *cumulative = json_object_get(object, "cumulative"),
               *sum = json_object_get(object, "sum");
  buckets_init(out);
  for (size_t i = 0; i < json_array_size(upper); i++) {
    const json_t *bound = json_array_get(upper, i);
    (void)buckets_add(out, json_is_number(bound) ? json_number_value(bound) : (double)INFINITY,
                      json_number_value(json_array_get(cumulative, i)));
  }
  if (json_is_number(sum))
    out->sum = json_number_value(sum);
}

void engine_step_read(struct live_engine_step *out, const json_t *document)
{
  const json_t *quantities = json_object_get(document, "quantities"),
               *histograms = json_object_get(document, "histograms");
  engine_step_init(out, out->time_ms);
  out->scrape_count = (unsigned)json_integer_value(json_object_get(document, "scrapes"));
  out->covered_s = json_number_value(json_object_get(document, "seconds"));
  for (size_t q = 0; q < ENGINE_QUANTITIES; q++) {
    const json_t *one = json_object_get(quantities, engine_quantities[q].name);
    if (one == NULL)
      continue;
    out->gauge_sum[q] = json_number_value(json_object_get(one, "sum"));
    out->gauge_count[q] = (unsigned)json_integer_value(json_object_get(one, "count"));
    out->gauge_max[q] = json_number_value(json_object_get(one, "max"));
  }
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++)
    histogram_read(&out->histograms[h], json_object_get(histograms, engine_histogram_names[h]));
}
