/* A profile as its nodes deliver it: the slowest clock held under load, the power limit in force, the memory that is there.
   Private to api/. */
#ifndef FITD_API_DERATE_H
#define FITD_API_DERATE_H

#include "api/live.h"
#include "core/hardware.h"

/* Of the nodes of a profile. Where nodes carry the workload's name, only those count; workload NULL: all. */
void derate_of(struct derate *out, const struct live_nodes *nodes, const char *profile, const char *workload,
               double rated_mhz);
bool derate_is_known(const struct derate *derate); /* there is something to apply */
/* Sets sustained_clock_fraction, power_cap_w and memory where the nodes say less than the profile. A model that is spread
   over devices waits for the slowest, so that one counts. */
void derate_apply(struct hardware *hardware, const struct derate *derate);
/* As a scorecard keeps it, and back: figures can be explained with the hardware that they were made for. NULL when memory is
   out. */
json_t *derate_write(const struct derate *derate);
void derate_read(struct derate *out, const json_t *object);
/* One sentence for assumptions. */
#define DERATE_SENTENCE_SIZE 320
void derate_describe(char to[DERATE_SENTENCE_SIZE], const struct derate *derate, const char *profile);

#endif
