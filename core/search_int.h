/* What the parts of the search share: core/search_fleet.c makes a fleet of one layout, core/search_knee.c finds how much load
   it bears and how many replicas it takes, core/search.c chooses. Private to those, core/frontier.c and core/stress.c. */
#ifndef FITD_CORE_SEARCH_INT_H
#define FITD_CORE_SEARCH_INT_H

#include "core/layouts.h"
#include "core/search.h"

enum { SEARCH_REPLICAS_MAX = 65536 };

/* `max_batch` 0: the sketch's, or what the pool runs. False when the layout can not hold the model and one request; *out then
   keeps the nearest to it. */
bool search_prepare(struct candidate *candidate, struct search_result *out, const struct search_input *input,
                    const struct layout *layout, unsigned max_batch);

/* Rate of one replica that always runs so many sequences. */
double search_capacity_at(const struct search_input *input, const struct candidate *candidate, double batch);

/* Over the limits on latency; infinite where the queue grows. The second over those that steer: without stated ones the
   interactive preset, and saturation alone decides the verdict. */
double search_latency_excess(const struct search_input *input, const struct workload_targets *targets,
                             const struct steady_state *state);
double search_steering_excess(const struct search_input *input, const struct steady_state *state);

/* The multiple of the load at which an open sketch's limits must hold, for the headroom asked. */
double search_judged_scale(const struct search_input *input);

/* Sets worst_excess from all targets, by the figures already there. */
void search_judge(struct candidate *candidate, const struct search_input *input);

/* Replicas that carry the load, with the headroom asked. */
unsigned search_capacity_replicas(const struct search_input *input, const struct candidate *candidate);

/* The fewest up to `most` that meet the latency limits that steer; 0 when `most` do not. */
unsigned search_fewest_replicas(const struct search_input *input, struct candidate *candidate, unsigned most);

/* Replicas of any use. */
unsigned search_most_replicas(const struct search_input *input);

/* Excess over the latency limits that steer with a replica to oneself: no number of replicas lowers it. */
double search_excess_alone(const struct search_input *input, const struct candidate *candidate);

double search_max_context_tokens(const struct search_input *input, const struct candidate *candidate);

/* Knee and what is judged by it, where headroom is asked. */
void search_headroom_knee(struct candidate *candidate, const struct search_input *input);
void search_add_headroom(struct candidate *candidate, const struct search_input *input);
void search_respect_quota(struct candidate *candidate, const struct search_input *input);

#endif
