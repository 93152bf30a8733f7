/* The two orders that a fleet keeps: who is least, and who came first. */
#include "core/fleet_int.h"

#include <math.h>

static uint32_t leaves_of(uint32_t count)
{
  uint32_t leaves = 1;
  while (leaves < count)
    leaves *= 2;
  return leaves;
}

size_t fleet_least_bytes(uint32_t count)
{
  const size_t leaves = leaves_of(count);
  return serving_rounded_bytes(leaves, sizeof(double)) + serving_rounded_bytes(2 * leaves, sizeof(uint32_t));
}

static uint32_t play(const struct fleet_least *least, uint32_t node)
{
  const uint32_t left = least->winners[2 * node], right = least->winners[2 * node + 1];
  return least->keys[right] < least->keys[left] ? right : left;
}

bool fleet_least_init(struct fleet_least *out, uint32_t count, double key, struct arena *arena)
{
  out->leaves = leaves_of(count);
  out->keys = arena_alloc(arena, out->leaves, sizeof *out->keys);
  out->winners = arena_alloc(arena, 2 * (size_t)out->leaves, sizeof *out->winners);
  if (out->keys == NULL || out->winners == NULL)
    return false;
  for (uint32_t i = 0; i < out->leaves; i++) {
    out->keys[i] = i < count ? key : (double)INFINITY;
    out->winners[out->leaves + i] = i;
  }
  for (uint32_t node = out->leaves - 1; node > 0; node--)
    out->winners[node] = play(out, node);
  return true;
}

void fleet_least_set(struct fleet_least *least, uint32_t index, double key)
{
  least->keys[index] = key;
  for (uint32_t node = (least->leaves + index) / 2; node > 0; node /= 2) {
    const uint32_t winner = play(least, node);
    if (winner == least->winners[node] && winner != index)
      return; /* nothing changes above */
    least->winners[node] = winner;
  }
}

void fleet_list_append(struct fleet_list *list, uint32_t row)
{
  list->links[row].older = list->tail;
  list->links[row].newer = SERVING_NONE;
  if (list->tail != SERVING_NONE)
    list->links[list->tail].newer = row;
  else
    list->head = row;
  list->tail = row;
}

void fleet_list_remove(struct fleet_list *list, uint32_t row)
{
  const struct serving_link *link = &list->links[row];
  if (link->older != SERVING_NONE)
    list->links[link->older].newer = link->newer;
  else
    list->head = link->newer;
  if (link->newer != SERVING_NONE)
    list->links[link->newer].older = link->older;
  else
    list->tail = link->older;
}
