/* Gaps between tokens, pooled over all requests. All decodes of a step have the same gap but those that joined since the
   last decode step: their last token came out of a prompt. */
#include "core/serving_int.h"

#include <math.h>

static void add_joined(struct serving_sim *sim, double end_s)
{
  for (uint32_t i = 0; i < sim->joined_count; i++)
    histogram_add(sim->itl, end_s - sim->joined[i].token_s, sim->joined[i].sequences);
  histogram_add(sim->itl, end_s - sim->last_decode_s, sim->decoding - sim->joined_sequences);
  sim->joined_count = sim->joined_sequences = 0;
}

/* Steps from `first_s` on, each longer by `slope_s`; neighbours within 0.1 % count alike. */
static void add_steps(struct serving_sim *sim, double first_s, double slope_s, uint64_t steps)
{
  while (steps != 0) {
    const double alike = floor(0.001 * first_s / slope_s); /* infinite without slope */
    const uint64_t run = alike >= (double)steps ? steps : (uint64_t)fmax(1, alike);
    histogram_add(sim->itl, first_s + slope_s * (double)(run - 1) / 2, run * sim->decoding);
    first_s += slope_s * (double)run;
    steps -= run;
  }
}

void serving_gaps_decoded(struct serving_sim *sim, double first_end_s, double first_s, double slope_s, uint64_t steps)
{
  add_joined(sim, first_end_s);
  add_steps(sim, first_s + slope_s, slope_s, steps - 1);
}

void serving_gaps_joined(struct serving_sim *sim)
{
  const bool is_new = sim->joined_count == 0 || sim->joined[sim->joined_count - 1].token_s < sim->time_s;
  if (is_new)
    sim->joined[sim->joined_count++] = (struct serving_joined){.token_s = sim->time_s};
  sim->joined[sim->joined_count - 1].sequences++;
  sim->joined_sequences++;
}

/* The newest goes, so if anybody has joined, it is the last of them. finish_s keeps the time of its last token. */
void serving_gaps_preempted(struct serving_sim *sim, uint32_t slot)
{
  struct serving_outcome *outcome = &sim->outcomes[sim->slots[slot].request];
  outcome->finish_s = sim->last_decode_s;
  if (sim->joined_sequences == 0)
    return;
  outcome->finish_s = sim->joined[sim->joined_count - 1].token_s;
  sim->joined_sequences--;
  if (--sim->joined[sim->joined_count - 1].sequences == 0)
    sim->joined_count--;
}
