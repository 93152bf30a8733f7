/* The number of requests that a load balancer should let into a workload's fleet at once, given what its devices hold right
   now. Private to api/. */
#ifndef FITD_API_CONCURRENCY_H
#define FITD_API_CONCURRENCY_H

#include "api/call.h"
#include "api/live.h"

/* What was answered last for the workload, {"limit", "why", "computed_at"}; null when nobody asked yet. */
json_t *concurrency_last_write(struct live *live, const char *workload);

#endif
