/* What the nodes say about workloads and profiles, beside what was predicted. Private to api/. */
#ifndef FITD_API_FLEET_H
#define FITD_API_FLEET_H

#include "api/call.h"
#include "api/live.h"

/* The engines that serve one workload, together, over the window of the live state. */
struct fleet_workload {
  char name[65];
  unsigned node_count, fresh_count;                                /* nodes with engines; those whose scrapes work */
  const char *profile;                                             /* of the first node; borrowed from the nodes */
  double requests_running, requests_waiting, kv_cache_usage_ratio; /* now; sums, and the fullest; NaN = unknown */
  double requests_per_s, output_tokens_per_s;                      /* over the window; NaN = unknown */
  struct live_engine_step window;
};
/* False: no node serves it. */
bool fleet_workload_of(struct fleet_workload *out, const struct live_nodes *nodes, const char *name);

/* Names of the workloads that nodes serve, each once, in order; malloc'ed array of borrowed strings. */
enum err fleet_workload_names(const char ***names, size_t *count, const struct live_nodes *nodes,
                              struct error *e) MUST_CHECK;

/* Requests over the window by what counters grew, or by the first tokens counted; NaN = unknown. */
double fleet_requests(const struct live_engine_step *step);

/* The scorecard of a profile in the newest official evaluation of a workload, parsed; NULL when there is none. */
enum err fleet_official_card(json_t **card, struct api_call *call, const char *workload, const char *profile,
                             struct error *e) MUST_CHECK;

#endif
