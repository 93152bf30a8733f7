/* The load that figures are computed for: the busiest hour of a day's shape, or a recorded trace, described to the closed
   form by its mean rate and lengths and replayed as it is by the simulation. Private to core. */
#ifndef FITD_CORE_TRAFFIC_H
#define FITD_CORE_TRAFFIC_H

#include "core/notes.h"
#include "core/search.h"

/* Replaces input->workload by one whose traffic has a rate (or users) and lengths, where the sketch says something else;
   fills load_share_ratio and replay. ERR_INVALID: a trace without requests; ERR_LIMIT. */
enum err traffic_resolve(struct search_input *input, const struct fit_request *request, struct notes *notes,
                         struct arena *arena, struct error *e) MUST_CHECK;

#endif
