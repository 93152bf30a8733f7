/* The live state as JSON. */
#include <math.h>

#include "api/live.h"
#include "api/put.h"
#include "api/write.h"

json_t *live_time(int64_t unix_ms)
{
  char text[WRITE_TIME_SIZE];
  if (unix_ms <= 0)
    return json_null();
  write_time(text, unix_ms);
  return json_string(text);
}

static json_t *text_or_null(const char *text)
{
  return write_text(text[0] != '\0' ? text : NULL);
}

json_t *live_health_write(const struct live_node *node)
{
  json_t *health = json_object();
  put_member(&health, "state", json_string(live_state_name(node->state)));
  put_member(&health, "last_scrape_at", live_time(node->last_scrape_ms));
  put_member(&health, "last_success_at", live_time(node->last_success_ms));
  put_member(&health, "last_error", text_or_null(node->last_error));
  put_member(&health, "consecutive_failures", json_integer(node->failure_count));
  put_member(&health, "duration_ms", node->last_scrape_ms > 0 ? json_integer(node->last_duration_ms) : json_null());
  put_member(&health, "exporters", text_or_null(node->exporters));
  put_member(&health, "samples", json_integer((json_int_t)node->sample_count));
  put_member(&health, "samples_recognised", json_integer((json_int_t)node->recognised_count));
  put_member(&health, "lines_skipped", json_integer((json_int_t)node->skipped_count));
  put_member(&health, "values_out_of_range", json_integer((json_int_t)node->out_of_range_count));
  put_member(&health, "engine_restarts", json_integer(node->engine.reset_count));
  return health;
}

json_t *live_throttle_names(unsigned bits)
{
  json_t *names = json_array();
  for (size_t i = 0; i < sizeof throttle_names / sizeof throttle_names[0]; i++)
    if ((bits >> i & 1) != 0)
      put_element(&names, json_string(throttle_names[i]));
  if (bits >> 9 != 0)
    put_element(&names, json_string("other"));
  return names;
}

static json_t *tristate(enum live_tristate value)
{
  return value == LIVE_UNKNOWN ? json_null() : json_boolean(value == LIVE_YES);
}

json_t *live_gpu_write(const struct live_gpu *gpu, double rated_mhz)
{
  const double *now = gpu->now.quantities;
  json_t *object = json_object(), *quantities = json_object();
  for (size_t q = 0; q < GPU_QUANTITIES; q++)
    if (q != GPU_throttle_reasons)
      put_member(&quantities, gpu_quantities[q].name, write_number(now[q]));
  put_member(&object, "gpu", json_string(gpu->now.id));
  put_member(&object, "uuid", text_or_null(gpu->now.uuid));
  put_member(&object, "pci_bus_id", text_or_null(gpu->now.bus));
  put_member(&object, "model", text_or_null(gpu->now.model));
  put_member(&object, "driver", text_or_null(gpu->now.driver));
  put_member(&object, "partition", text_or_null(gpu->now.partition));
  put_member(&object, "last_seen_at", live_time(gpu->seen_at_ms));
  put_member(&object, "fresh", json_boolean(gpu->is_fresh));
  put_member(&object, "throttled", gpu->is_fresh ? tristate(gpu->throttled) : json_null());
  put_member(&object, "throttled_since", live_time(gpu->throttled_since_ms));
  put_member(&object, "throttle_reasons",
             isnan(now[GPU_throttle_reasons]) ? json_null() : live_throttle_names((unsigned)now[GPU_throttle_reasons]));
  put_member(&object, "sustained_clock_fraction",
             write_number(gpu->is_fresh ? live_clock_fraction(gpu, rated_mhz) : (double)NAN));
  put_member(&object, "last_xid", gpu->last_xid > 0 ? json_integer(gpu->last_xid) : json_null());
  put_member(&object, "last_xid_at", live_time(gpu->last_xid_at_ms));
  put_member(&object, "quantities", quantities);
  return object;
}

static json_t *bounds_write(struct bucket_bounds bounds)
{
  json_t *object = json_object();
  if (isnan(bounds.upper)) {
    json_decref(object);
    return json_null();
  }
  put_member(&object, "above", write_number(bounds.lower));
  put_member(&object, "at_most", write_number(bounds.upper));
  return object;
}

json_t *live_histogram_write(const struct buckets *buckets)
{
  json_t *object;
  if (buckets->count == 0)
    return json_null();
  object = json_object();
  put_member(&object, "count", write_number(buckets_total(buckets)));
  put_member(&object, "mean", write_number(buckets_mean(buckets)));
  put_member(&object, "p50", bounds_write(buckets_quantile(buckets, 0.5)));
  put_member(&object, "p90", bounds_write(buckets_quantile(buckets, 0.9)));
  put_member(&object, "p99", bounds_write(buckets_quantile(buckets, 0.99)));
  return object;
}

json_t *live_engine_write(const struct live_engine *engine)
{
  struct live_engine_step window;
  json_t *object, *now, *observed;
  if (!engine->is_seen)
    return json_null();
  live_engine_window(&window, engine);
  object = json_object();
  now = json_object();
  observed = json_object();
  for (size_t q = 0; q < ENGINE_QUANTITIES; q++)
    put_member(&now, engine_quantities[q].name, write_number(engine->now.quantities[q]));
  for (size_t h = 0; h < ENGINE_HISTOGRAMS; h++)
    put_member(&observed, engine_histogram_names[h], live_histogram_write(&window.histograms[h]));
  put_member(&object, "model", text_or_null(engine->now.model));
  put_member(&object, "window_since", live_time(window.time_ms));
  put_member(&object, "quantities", now);
  put_member(&object, "observed", observed);
  return object;
}
