/* GET /v1/workloads/{name}/observed-sketch: the traffic block of a sketch as the engines' histograms have seen it. Means are
   exact where engines publish sums; percentiles lie in a bucket, which is given beside them. */
#include <math.h>

#include "api/fleet.h"
#include "api/handlers.h"
#include "api/put.h"
#include "api/write.h"

/* A value within its bucket, in the middle of it by ratio; NaN when the bucket has no end. */
static double middle(struct bucket_bounds bounds)
{
  if (isnan(bounds.upper) || isinf(bounds.upper))
    return (double)NAN;
  return bounds.lower >= 1 ? sqrt(bounds.lower * bounds.upper) : bounds.upper / 2;
}

/* {"p50", "p99"} where the histogram tells them apart, else the mean as a number, else null. */
static json_t *lengths(const struct buckets *buckets, double total_tokens, double requests)
{
  const double p50 = ceil(middle(buckets_quantile(buckets, 0.5))), p99 = ceil(middle(buckets_quantile(buckets, 0.99)));
  const double mean = buckets_total(buckets) > 0 ? buckets_mean(buckets) : total_tokens / requests;
  if (p50 >= 1 && p99 > p50)
    return json_pack("{s:o, s:o}", "p50", write_number(p50), "p99", write_number(p99));
  return isfinite(mean) && mean >= 1 ? write_number(round(mean)) : json_null();
}

static json_t *basis(const struct fleet_workload *workload)
{
  const struct live_engine_step *window = &workload->window;
  json_t *object = json_object();
  put_member(&object, "nodes_fresh", json_integer(workload->fresh_count));
  put_member(&object, "seconds_observed", write_number(window->covered_s));
  put_member(&object, "requests", write_number(fleet_requests(window)));
  put_member(&object, "input_tokens", live_histogram_write(&window->histograms[HISTOGRAM_input_tokens]));
  put_member(&object, "output_tokens", live_histogram_write(&window->histograms[HISTOGRAM_output_tokens]));
  put_member(&object, "prefix_hit_ratio",
             write_number(engine_step_value(window, ENGINE_prefix_hits_tokens) /
                          engine_step_value(window, ENGINE_prefix_queries_tokens)));
  return object;
}

enum err workloads_observed_sketch_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct live_nodes nodes = {.rows = NULL};
  struct fleet_workload workload;
  json_t *answer, *traffic;
  double requests;
  enum err code = live_sync(live_of(call->api), call_store(call), e);
  if (code == ERR_OK)
    code = live_nodes_copy(&nodes, live_of(call->api), call->now_ms, e);
  if (code != ERR_OK)
    return code;
  if (!fleet_workload_of(&workload, &nodes, call->params[0]))
    code = error_set(e, ERR_NOT_FOUND, "", "no node serves the workload %s", call->params[0]);
  else if (workload.fresh_count == 0)
    code = error_set(e, ERR_UNAVAILABLE, "", "no engine of the workload %s answers scrapes at the moment",
                     call->params[0]);
  live_nodes_fini(&nodes);
  if (code != ERR_OK)
    return code;
  requests = fleet_requests(&workload.window);
  traffic = json_object();
  put_member(&traffic, "input_tokens",
             lengths(&workload.window.histograms[HISTOGRAM_input_tokens],
                     engine_step_value(&workload.window, ENGINE_input_tokens_total), requests));
  put_member(&traffic, "output_tokens",
             lengths(&workload.window.histograms[HISTOGRAM_output_tokens],
                     engine_step_value(&workload.window, ENGINE_output_tokens_total), requests));
  put_member(&traffic, "requests_per_s", write_number(workload.requests_per_s));
  answer = json_object();
  put_member(&answer, "workload", json_string(call->params[0]));
  put_member(&answer, "traffic", traffic);
  put_member(&answer, "basis", basis(&workload));
  return respond_json_steal(out, 200, answer, e);
}
