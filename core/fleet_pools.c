/* What the closed form knows of prefill and decode pools, as the simulation takes it. */
#include "core/fleet.h"

#include <math.h>

static double transfer_s(const struct engine *engine, const struct pools *pools, double prompt_tokens)
{
  const struct steady_load load = {.prompt_tokens = prompt_tokens, .output_tokens = 1};
  enum collective_span span;
  double bytes;
  const struct collective_time time = disaggregated_transfer(&bytes, &span, engine, pools, &load);
  return time.floor_s + time.work_s;
}

/* A line through the typical prompt and one twice as long. */
void fleet_set_pools(struct fleet_run *run, const struct engine *engine, const struct pools *pools,
                     double prompt_tokens)
{
  const double typical_s = transfer_s(engine, pools, prompt_tokens);
  const double longer_s = transfer_s(engine, pools, 2 * prompt_tokens);
  run->replicas = pools->prefill_replicas + pools->decode_replicas;
  run->prefill_replicas = pools->prefill_replicas;
  run->transfer_token_s = (longer_s - typical_s) / prompt_tokens;
  run->transfer_s = fmax(0, typical_s - run->transfer_token_s * prompt_tokens);
}
