/* What the nodes say belongs on the agenda: workloads whose figures drifted, and GPUs that are held down. */
#include <math.h>
#include <string.h>

#include "api/concurrency.h"
#include "api/derate.h"
#include "api/drift.h"
#include "api/put.h"
#include "api/review.h"
#include "api/write.h"

static bool has_drifted(const struct drift *drift)
{
  return drift->state == DRIFT_SHIFTED || drift->state == DRIFT_OFF;
}

static enum err add_drift(struct review *review, const char *workload, const char *profile, const struct drift *drift,
                          struct error *e)
{
  struct text title = {0};
  json_t *item;
  text_printf(&title, "%s on %s drifted (%s)", workload, profile, drift_state_name(drift->state));
  if (drift->suspect_count > 0)
    text_printf(&title, "; likeliest: %s", drift->suspects[0].message);
  item = review_item_add(review, "drift", workload, profile, text_take(&title, NULL));
  put_member(&item, "profile", json_string(profile));
  put_member(&item, "state", json_string(drift_state_name(drift->state)));
  put_member(&item, "onset", record_time(drift->onset_ms));
  return review_item_end(item, e);
}

static enum err add_throttled(struct review *review, const char *workload, const char *profile,
                              const struct derate *derate, struct error *e)
{
  struct text title = {0};
  struct live_limit limit;
  json_t *item;
  text_printf(&title, "%u of %u GPUs (%s) that serve %s are held down", derate->throttled_count, derate->gpu_count,
              profile, workload);
  if (live_limit_get(&limit, live_of(review->call->api), workload))
    text_printf(&title, ": let in %u requests at once instead of %u", limit.limit, limit.rated_limit);
  item = review_item_add(review, "throttled", workload, profile, text_take(&title, NULL));
  put_member(&item, "profile", json_string(profile));
  put_member(&item, "gpus", json_integer(derate->gpu_count));
  put_member(&item, "throttled", json_integer(derate->throttled_count));
  put_member(&item, "slowest_clock_fraction", write_number(derate->slowest_ratio));
  put_member(&item, "recommended_concurrency_limit", concurrency_last_write(live_of(review->call->api), workload));
  return review_item_end(item, e);
}

static enum err add_both(struct review *review, const char *workload, const struct live_nodes *nodes, struct error *e)
{
  struct fleet_workload fleet;
  struct derate derate;
  struct drift drift;
  json_t *card = NULL;
  enum err rc;
  if (!fleet_workload_of(&fleet, nodes, workload))
    return ERR_OK;
  derate_of(&derate, nodes, fleet.profile, workload, (double)NAN);
  rc = fleet_official_card(&card, review->call, workload, fleet.profile, e);
  if (rc == ERR_OK)
    rc = drift_find(&drift, review->call, nodes, &fleet, card, e);
  if (rc == ERR_OK && has_drifted(&drift))
    rc = add_drift(review, workload, fleet.profile, &drift, e);
  if (rc == ERR_OK && derate.throttled_count > 0)
    rc = add_throttled(review, workload, fleet.profile, &derate, e);
  json_decref(card);
  return rc;
}

enum err review_live(struct review *review, const char *workload, struct error *e)
{
  struct live *live = live_of(review->call->api);
  struct live_nodes nodes = {.rows = NULL};
  enum err rc = live_sync(live, call_store(review->call), e);
  if (rc == ERR_OK)
    rc = live_nodes_copy(&nodes, live, review->call->now_ms, e);
  if (rc == ERR_OK)
    rc = add_both(review, workload, &nodes, e);
  live_nodes_fini(&nodes);
  return rc;
}
