/* Who waits for a place in a replica: one list through the rows, so that who gives up leaves it from anywhere. */
#include "core/serving_int.h"

#include <math.h>

/* Prompts to be computed. */
static uint32_t prompt_tokens(const struct serving_sim *sim, uint32_t request)
{
  return sim->links[request].is_computed ? 0 : serving_need_tokens(sim, request);
}

void serving_queue_append(struct serving_sim *sim, uint32_t request, double visible_s, bool is_computed)
{
  struct serving_link *link = &sim->links[request];
  *link = (struct serving_link){.visible_s = fmax(sim->last_visible_s, visible_s),
                                .older = sim->queue_tail,
                                .newer = SERVING_NONE,
                                .slot = SERVING_NONE,
                                .is_computed = is_computed};
  sim->last_visible_s = link->visible_s;
  if (sim->queue_tail != SERVING_NONE)
    sim->links[sim->queue_tail].newer = request;
  else
    sim->queue_head = request;
  sim->queue_tail = request;
  if (sim->unseen == SERVING_NONE)
    sim->unseen = request;
}

void serving_queue_prepend(struct serving_sim *sim, uint32_t request)
{
  struct serving_link *link = &sim->links[request];
  *link =
      (struct serving_link){.older = SERVING_NONE, .newer = sim->queue_head, .slot = SERVING_NONE, .is_waiting = true};
  if (sim->queue_head != SERVING_NONE)
    sim->links[sim->queue_head].older = request;
  else
    sim->queue_tail = request;
  sim->queue_head = request;
  sim->waiting_tokens += serving_need_tokens(sim, request);
}

void serving_queue_remove(struct serving_sim *sim, uint32_t request)
{
  struct serving_link *link = &sim->links[request];
  if (link->older != SERVING_NONE)
    sim->links[link->older].newer = link->newer;
  else
    sim->queue_head = link->newer;
  if (link->newer != SERVING_NONE)
    sim->links[link->newer].older = link->older;
  else
    sim->queue_tail = link->older;
  if (sim->unseen == request)
    sim->unseen = link->newer;
  if (link->is_waiting)
    sim->waiting_tokens -= prompt_tokens(sim, request);
  link->is_waiting = false;
}

void serving_queue_see(struct serving_sim *sim, double horizon_s)
{
  while (sim->unseen != SERVING_NONE && sim->links[sim->unseen].visible_s <= horizon_s) {
    struct serving_link *link = &sim->links[sim->unseen];
    link->is_waiting = true;
    sim->waiting_tokens += prompt_tokens(sim, sim->unseen);
    sim->unseen = link->newer;
  }
}
