/* What the server refuses before api_handle sees it (no token, a body too large, a full queue), so that /metrics counts every
   answer. A public header. Threads: any. */
#ifndef FITD_API_REFUSALS_H
#define FITD_API_REFUSALS_H

struct api;
void api_count_refusal(struct api *api, unsigned status);

#endif
