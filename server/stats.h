/* Figures of the process for /metrics. Threads: any. */
#ifndef FITD_SERVER_STATS_H
#define FITD_SERVER_STATS_H

#include "api/api.h"

/* What the kernel says of this process; a figure that it does not say is left NaN. */
void stats_process(struct api_stats *out);

#endif
