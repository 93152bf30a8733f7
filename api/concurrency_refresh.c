/* Concurrency limits that follow the nodes without anybody asking: the daemon is a client of its own API here, and asks again
   whenever the answer would be another one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/catalogue.h"
#include "api/derate.h"
#include "api/fleet.h"
#include "api/observation.h"

#define CLOCK_STEP 0.02 /* a clock that moves by less is the same one */

static bool has_moved(double a, double b, double by)
{
  return isnan(a) != isnan(b) || fabs(a - b) > by;
}

/* Something that the limit was computed with is not so any more. Clocks count while a GPU is held down, which takes a while
   to be said and to be taken back (LIVE_THROTTLE_RAISE_S, …_CLEAR_S), and only when they fall: a flicker changes no limit, and
   what is lifted is lifted when the GPU is free again. */
static bool is_outdated(const struct live_limit *limit, const struct derate *now, const char *evaluation)
{
  const struct derate *then = &limit->derate;
  if (strcmp(limit->evaluation, evaluation) != 0 || now->throttled_count != then->throttled_count ||
      has_moved(now->power_limit_w, then->power_limit_w, 1) || has_moved(now->memory_gib, then->memory_gib, 0.5))
    return true;
  return now->throttled_count > 0 && !(now->slowest_ratio >= then->slowest_ratio - CLOCK_STEP);
}

/* The same as concurrency-limit takes. */
static enum err see_gpus(struct derate *out, struct api_call *call, const struct live_nodes *nodes,
                         const char *workload, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  const struct catalogue_profile *row;
  struct fleet_workload fleet;
  enum err code;
  *out = (struct derate){.gpu_count = 0};
  if (!fleet_workload_of(&fleet, nodes, workload))
    return ERR_OK;
  code = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (code != ERR_OK)
    return code;
  row = catalogue_find_profile(snapshot, fleet.profile);
  derate_of(out, nodes, fleet.profile, workload, row != NULL ? row->hardware.boost_clock_mhz : (double)NAN);
  catalogue_release(call_catalogue(call), snapshot);
  return ERR_OK;
}

/* Without fresh GPUs nothing is known: the last answer stands. */
static enum err is_due(bool *due, struct api_call *call, const struct live_nodes *nodes, const char *workload,
                       struct error *e)
{
  struct store_evaluation evaluation;
  struct live_limit limit;
  struct derate derate;
  enum err code = see_gpus(&derate, call, nodes, workload, e);
  *due = false;
  if (code != ERR_OK || derate.gpu_count == 0)
    return code;
  code = store_evaluation_official(call_store(call), &evaluation, workload, e);
  if (code != ERR_OK)
    return code == ERR_NOT_FOUND ? ERR_OK : code;
  *due = !live_limit_get(&limit, live_of(call->api), workload) || is_outdated(&limit, &derate, evaluation.id);
  store_evaluation_fini(&evaluation);
  return ERR_OK;
}

static enum err ask(struct api *api, const char *workload, struct error *e)
{
  static const struct api_caller caller = {SCOPE_READ, "schedule"};
  char path[128];
  const struct api_request request = {
      .method = "GET", .path = path, .query_text = "", .request_id = "schedule", .caller = &caller};
  struct api_response response;
  enum err code = ERR_OK;
  (void)snprintf(path, sizeof path, "/v1/workloads/%s/concurrency-limit", workload);
  api_handle(api, &request, &response);
  if (response.status != 200)
    code = error_set(e, ERR_UNAVAILABLE, "", "the concurrency limit of workload %s can not be computed: %u %.200s",
                     workload, response.status, response.bytes != NULL ? response.bytes : "");
  api_response_fini(&response);
  return code;
}

/* One limit, in the order of names from the last one on, so that one that fails keeps no other from its turn. */
static enum err refresh(bool *is_done, struct api_call *call, struct api_limits *state, const struct live_nodes *nodes,
                        struct error *e)
{
  const char **names = NULL;
  size_t count = 0;
  enum err code = fleet_workload_names(&names, &count, nodes, e);
  *is_done = false;
  for (size_t i = 0; i < count && code == ERR_OK && !*is_done; i++) {
    if (strcmp(names[i], state->after) <= 0)
      continue;
    (void)snprintf(state->after, sizeof state->after, "%s", names[i]);
    code = is_due(is_done, call, nodes, names[i], e);
    if (code == ERR_OK && *is_done)
      code = ask(call->api, names[i], e);
  }
  if (code == ERR_OK && !*is_done)
    state->after[0] = '\0';
  free(names);
  return code;
}

enum err api_refresh_limits(struct api *api, struct api_limits *state, bool *again, struct error *e)
{
  struct api_call call = {.api = api};
  struct live_nodes nodes = {.rows = NULL};
  enum err code = live_sync(live_of(api), call_store(&call), e);
  *again = false;
  if (code == ERR_OK)
    code = live_nodes_copy(&nodes, live_of(api), live_now_ms(api), e);
  if (code == ERR_OK)
    code = refresh(again, &call, state, &nodes, e);
  live_nodes_fini(&nodes);
  return code;
}
