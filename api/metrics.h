/* Counters of the api for /metrics; kept in struct api. Private to api/. */
#ifndef FITD_API_METRICS_H
#define FITD_API_METRICS_H

#include <stdint.h>

struct api;
int64_t metrics_opened_at_ms(const struct api *api);
uint64_t metrics_requests(const struct api *api, unsigned status_class); /* 1 … 5 */

#endif
