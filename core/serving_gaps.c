/* Gaps between tokens, pooled over all requests. All decodes of a step have the same gap but those that joined since the
   last decode step: their last token came out of a prompt. */
#include "core/serving_int.h"

#include <math.h>

static bool is_same_time(double a_s, double b_s)
{
  return a_s <= b_s && a_s >= b_s;
}

/* Those of one prompt step are neighbours, mostly. */
static void add_joined(struct serving_sim *sim, double end_s)
{
  uint32_t alike = 0;
  for (uint32_t i = 0; i < sim->joined_count; i++) {
    struct serving_slot *s = &sim->slots[sim->joined[i]];
    const uint32_t next = i + 1 < sim->joined_count ? sim->joined[i + 1] : SERVING_NONE;
    s->joined_place = SERVING_NONE;
    alike++;
    if (next != SERVING_NONE && is_same_time(sim->slots[next].token_s, s->token_s))
      continue;
    histogram_add(sim->itl, end_s - s->token_s, alike);
    alike = 0;
  }
  histogram_add(sim->itl, end_s - sim->last_decode_s, sim->decoding - sim->joined_count);
  sim->joined_count = 0;
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

void serving_gaps_decoded(struct serving_sim *sim, double first_end_s)
{
  const struct serving_pace *pace = &sim->pace;
  add_joined(sim, first_end_s);
  add_steps(sim, pace->first_s + pace->slope_s, pace->slope_s, sim->steps - 1);
}

void serving_gaps_joined(struct serving_sim *sim, uint32_t slot)
{
  struct serving_slot *s = &sim->slots[slot];
  s->token_s = sim->time_s;
  s->joined_place = sim->joined_count;
  sim->joined[sim->joined_count++] = slot;
}

/* finish_s keeps the time of the last token of one that will come back. */
void serving_gaps_left(struct serving_sim *sim, uint32_t slot)
{
  const struct serving_slot *s = &sim->slots[slot];
  double *token_s = &sim->outcomes[s->request].finish_s;
  if (!s->is_orphan)
    *token_s = s->joined_place != SERVING_NONE ? s->token_s : sim->last_decode_s;
  if (s->joined_place == SERVING_NONE)
    return;
  sim->joined[s->joined_place] = sim->joined[--sim->joined_count];
  sim->slots[sim->joined[s->joined_place]].joined_place = s->joined_place;
}
