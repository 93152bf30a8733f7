/* Draw of a phase by what its operators wait for (core/power.h), of waiting for the host and of idling by one assumed share of
   the board's limit. */
#include "core/energy.h"

#include <math.h>

/* Assumed: boards with a model in memory and nothing to do draw 12 to 20 % of their limit (from memory of vendor tools). */
static const double idle_draw_ratio = 0.15;

static double draw_ratio(const struct step_time *time, const struct engine *engine)
{
  const struct power power = power_of(engine->hardware);
  const double bytes = time->weight_bytes + time->kv_bytes + time->activation_bytes;
  const double stages = engine->layout.pipeline_parallel;
  const double memory_s = bytes / engine->device.bandwidth_bytes_s / stages;
  const double working = fmin(1, fmax(time->flops_s / stages, memory_s) / time->seconds);
  const double draw = power_draw_ratio(false, time->flops_s / stages, memory_s);
  return fmin(power.cap_ratio, idle_draw_ratio + working * (draw - idle_draw_ratio));
}

struct scorecard_energy energy_of(const struct candidate *candidate, double busy_ratio, double requests_per_s,
                                  double output_tok_s)
{
  const struct steady_state *state = &candidate->state;
  const double prefill = draw_ratio(&state->prompt.profile, &candidate->engine);
  const double decode = draw_ratio(&state->decode, &candidate->engine);
  const double busy = state->prefill_share_ratio * prefill + state->decode_share_ratio * decode;
  const double joules_per_kwh = 3.6e6;
  struct scorecard_energy energy;
  energy.watts_per_gpu = candidate->engine.hardware->tdp_w * (busy_ratio * busy + (1 - busy_ratio) * idle_draw_ratio);
  energy.joules_per_request = energy.watts_per_gpu * candidate->gpus / requests_per_s;
  energy.kwh_per_million_output_tokens = energy.watts_per_gpu * candidate->gpus / output_tok_s * 1e6 / joules_per_kwh;
  return energy;
}
