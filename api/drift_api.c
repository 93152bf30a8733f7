/* GET /v1/drift: per workload what was predicted, what is observed, since when it has moved, and what may be behind it. */
#include <math.h>
#include <stdlib.h>

#include "api/drift.h"
#include "api/handlers.h"
#include "api/put.h"
#include "api/write.h"

static json_t *metric_write(const struct drift_metric *metric)
{
  json_t *object = json_object();
  put_member(&object, "metric", json_string(metric->name));
  put_member(&object, "predicted", write_number(metric->predicted));
  put_member(&object, "observed", write_number(metric->observed));
  put_member(&object, "residual", write_number(metric->observed / metric->predicted - 1));
  put_member(&object, "points", json_integer((json_int_t)metric->point_count));
  put_member(&object, "shifted", json_boolean(metric->is_shifted));
  put_member(&object, "onset", live_time(metric->onset_ms));
  put_member(&object, "before", write_number(metric->is_shifted ? metric->before : (double)NAN));
  put_member(&object, "after", write_number(metric->is_shifted ? metric->after : (double)NAN));
  return object;
}

static json_t *drift_write(const struct drift *drift, const struct fleet_workload *workload, const json_t *card)
{
  json_t *object = json_object(), *metrics = json_array(), *suspects = json_array();
  for (size_t i = 0; i < DRIFT_METRICS; i++)
    put_element(&metrics, metric_write(&drift->metrics[i]));
  for (size_t i = 0; i < drift->suspect_count; i++) {
    const struct drift_suspect *from = &drift->suspects[i];
    put_element(&suspects, json_pack("{s:s, s:s, s:o, s:o, s:o}", "code", from->code, "message", from->message,
                                     "before", write_number(from->before), "after", write_number(from->after), "weight",
                                     write_number(from->weight)));
  }
  put_member(&object, "workload", json_string(workload->name));
  put_member(&object, "profile", json_string(workload->profile));
  put_member(&object, "state", json_string(drift_state_name(drift->state)));
  put_member(&object, "onset", live_time(drift->onset_ms));
  put_member(&object, "scorecard", card != NULL ? json_incref(json_object_get(card, "id")) : json_null());
  put_member(&object, "metrics", metrics);
  put_member(&object, "suspects", suspects);
  return object;
}

static enum err item(json_t **items, struct api_call *call, const struct live_nodes *nodes, const char *name,
                     struct error *e)
{
  struct fleet_workload workload;
  struct drift drift;
  json_t *card = NULL;
  enum err code;
  (void)fleet_workload_of(&workload, nodes, name);
  code = fleet_official_card(&card, call, name, workload.profile, e);
  if (code == ERR_OK)
    code = drift_find(&drift, call, nodes, &workload, card, e);
  if (code == ERR_OK)
    put_element(items, drift_write(&drift, &workload, card));
  json_decref(card);
  return code;
}

enum err drift_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct live_nodes nodes = {.rows = NULL};
  const char **names = NULL;
  size_t count = 0;
  json_t *items = json_array(), *answer;
  enum err code = live_sync(live_of(call->api), call_store(call), e);
  if (code == ERR_OK)
    code = live_nodes_copy(&nodes, live_of(call->api), call->now_ms, e);
  if (code == ERR_OK)
    code = fleet_workload_names(&names, &count, &nodes, e);
  for (size_t i = 0; i < count && code == ERR_OK; i++)
    code = item(&items, call, &nodes, names[i], e);
  if (code == ERR_OK) {
    answer = json_object();
    put_member(&answer, "time", live_time(call->now_ms));
    put_member(&answer, "items", items);
    items = NULL;
    code = respond_json_steal(out, 200, answer, e);
  }
  json_decref(items);
  free(names);
  live_nodes_fini(&nodes);
  return code;
}
