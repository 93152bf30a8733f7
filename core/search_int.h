/* What the two halves of the search share: core/search_fleet.c makes a fleet of one layout, core/search.c chooses. Private to
   those, core/frontier.c and core/stress.c. */
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

/* Replicas that carry the load, with the headroom asked. */
unsigned search_capacity_replicas(const struct search_input *input, const struct candidate *candidate);

/* The fewest up to `most` that meet the latency limits that steer; 0 when `most` do not. */
unsigned search_fewest_replicas(const struct search_input *input, const struct candidate *candidate, unsigned most);

/* Excess over the latency limits that steer with a replica to oneself: no number of replicas lowers it. */
double search_excess_alone(const struct search_input *input, const struct candidate *candidate);

double search_max_context_tokens(const struct search_input *input, const struct candidate *candidate);

/* Knee and what is judged by it, where headroom is asked. */
void search_headroom_knee(struct candidate *candidate, const struct search_input *input);
void search_add_headroom(struct candidate *candidate, const struct search_input *input);
void search_respect_quota(struct candidate *candidate, const struct search_input *input);

#endif
