/* A fleet from the first request to the last one: what it takes, what can not work, what comes of it. */
#include "core/fleet_int.h"

#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#define STOP_POLL_ROUNDS 1024

static enum err check_slowdown(const struct fleet_slowdown *slow, const struct fleet_run *run, struct error *e)
{
  if (!(slow->from_s >= 0 && slow->until_s > slow->from_s))
    return error_set(e, ERR_INVALID, "", "a slow clock from %g s until %g s", slow->from_s, slow->until_s);
  if (!(slow->ratio > 0 && isfinite(slow->ratio)))
    return error_set(e, ERR_INVALID, "", "a slow clock's steps last %g times as long", slow->ratio);
  if (slow->replica != FLEET_ALL_REPLICAS && slow->replica >= run->replicas)
    return error_set(e, ERR_INVALID, "", "the clock of replica %u of %u", slow->replica, run->replicas);
  return ERR_OK;
}

static enum err check(const struct fleet_run *run, const struct serving_rows *rows, struct error *e)
{
  enum err err = serving_settings_check(&run->settings, rows, e);
  if (err != ERR_OK)
    return err;
  if (run->replicas == 0)
    return error_set(e, ERR_INVALID, "/serving/replicas", "0 replicas serve nothing");
  if (run->prefill_replicas >= run->replicas)
    return error_set(e, ERR_INVALID, "/serving/disaggregated", "%u of %u replicas compute prompts, none decodes",
                     run->prefill_replicas, run->replicas);
  if (!(run->transfer_s >= 0 && run->transfer_token_s >= 0))
    return error_set(e, ERR_INVALID, "/serving/disaggregated", "a cache travels %g s and %g s a token", run->transfer_s,
                     run->transfer_token_s);
  if (!(run->sheddable_share >= 0 && run->sheddable_share <= 1))
    return error_set(e, ERR_INVALID, "/traffic/sheddable_share", "%g is not a share; expected 0 to 1",
                     run->sheddable_share);
  if (!(run->timeout_s >= 0))
    return error_set(e, ERR_INVALID, "/traffic/client/timeout_ms", "%g s is not a time to wait", run->timeout_s);
  for (size_t i = 0; i < run->slowdown_count && err == ERR_OK; i++)
    err = check_slowdown(&run->slowdowns[i], run, e);
  return err;
}

/* Replicas that take requests in. */
static uint32_t takers_of(const struct fleet_run *run)
{
  return run->prefill_replicas != 0 ? run->prefill_replicas : run->replicas;
}

static size_t pools_bytes(const struct fleet_run *run)
{
  if (run->prefill_replicas == 0 || run->prefill_replicas >= run->replicas)
    return 0;
  return serving_rounded_bytes(run->replicas, sizeof(double)) +
         fleet_least_bytes(run->replicas - run->prefill_replicas);
}

size_t fleet_arena_bytes(const struct fleet_run *run)
{
  const size_t replicas = run->replicas;
  const size_t clients =
      run->timeout_s > 0 ? serving_links_bytes(run->count) + serving_rounded_bytes(run->count, sizeof(double)) : 0;
  return alignof(max_align_t) + serving_links_bytes(run->count) + clients +
         replicas * serving_sim_bytes(&run->settings, run->count, run->hash_count) +
         serving_rounded_bytes(replicas, sizeof(struct serving_sim)) +
         serving_rounded_bytes(replicas, sizeof(struct serving_totals)) +
         serving_rounded_bytes(replicas, sizeof(uint32_t)) + fleet_least_bytes(run->replicas) +
         fleet_least_bytes(takers_of(run)) + pools_bytes(run);
}

static bool allocate_pools(struct fleet *fleet, struct arena *arena)
{
  const struct fleet_run *run = fleet->run;
  if (run->prefill_replicas == 0)
    return true;
  fleet->link_free_s = arena_alloc(arena, run->replicas, sizeof *fleet->link_free_s);
  return fleet->link_free_s != NULL &&
         fleet_least_init(&fleet->decoding, run->replicas - run->prefill_replicas, 0, arena);
}

static bool allocate(struct fleet *fleet, struct serving_rows *rows, struct serving_totals **totals,
                     struct arena *arena)
{
  const struct fleet_run *run = fleet->run;
  struct serving_link *later = NULL;
  rows->links = arena_alloc(arena, run->count, sizeof *rows->links);
  fleet->replicas = arena_alloc(arena, run->replicas, sizeof *fleet->replicas);
  fleet->at_boundary = arena_alloc(arena, run->replicas, sizeof *fleet->at_boundary);
  if (*totals == NULL)
    *totals = arena_alloc(arena, run->replicas, sizeof **totals);
  if (run->timeout_s > 0) {
    later = arena_alloc(arena, run->count, sizeof *later);
    fleet->deadline_s = arena_alloc(arena, run->count, sizeof *fleet->deadline_s);
    if (later == NULL || fleet->deadline_s == NULL)
      return false;
  }
  fleet->front = fleet->retries = (struct fleet_list){rows->links, SERVING_NONE, SERVING_NONE};
  fleet->deadlines = (struct fleet_list){later, SERVING_NONE, SERVING_NONE};
  return rows->links != NULL && fleet->replicas != NULL && fleet->at_boundary != NULL && *totals != NULL &&
         fleet_least_init(&fleet->next, run->replicas, (double)INFINITY, arena) &&
         fleet_least_init(&fleet->load, takers_of(run), 0, arena) && allocate_pools(fleet, arena);
}

static enum err start(struct fleet *fleet, struct serving_rows *rows, struct serving_totals **totals,
                      struct arena *arena, struct error *e)
{
  const struct fleet_run *run = fleet->run;
  enum err err = ERR_OK;
  if (!allocate(fleet, rows, totals, arena))
    return error_set(e, ERR_LIMIT, "", "%zu requests to %u replicas do not fit into the arena", run->count,
                     run->replicas);
  for (uint32_t i = 0; i < run->replicas && err == ERR_OK; i++) {
    const struct serving_cost *own = run->costs != NULL ? run->costs[i] : NULL;
    err = serving_sim_init(&fleet->replicas[i], &run->settings, own != NULL ? own : run->cost, rows, &(*totals)[i],
                           arena, e);
    fleet->at_boundary[fleet->at_boundary_count++] = i;
    if (run->prefill_replicas != 0)
      fleet->replicas[i].part = fleet_is_decoder(run, i) ? SERVING_ANSWERS : SERVING_PROMPTS;
  }
  fleet->idle_users = run->users;
  fleet->clock_s = fleet_clock_after_s(run, -1);
  return err;
}

static void sum_up(struct serving_totals *sum, const struct serving_totals *one)
{
  sum->completed += one->completed;
  sum->preemptions += one->preemptions;
  sum->decode_steps += one->decode_steps;
  sum->prompt_steps += one->prompt_steps;
  sum->output_tokens += one->output_tokens;
  sum->wasted_tokens += one->wasted_tokens;
  sum->prompt_tokens += one->prompt_tokens;
  sum->cached_tokens += one->cached_tokens;
  sum->busy_s += one->busy_s;
  sum->decode_sequence_s += one->decode_sequence_s;
  sum->running_sequence_s += one->running_sequence_s;
  if (one->peak_kv_blocks > sum->peak_kv_blocks)
    sum->peak_kv_blocks = one->peak_kv_blocks;
  if (one->peak_batch > sum->peak_batch)
    sum->peak_batch = one->peak_batch;
  sum->end_s = fmax(sum->end_s, one->end_s);
}

static enum err advance_all(struct fleet *fleet, struct error *e)
{
  const struct fleet_run *run = fleet->run;
  for (uint64_t round = 1; fleet_advance(fleet); round++)
    if (round % STOP_POLL_ROUNDS == 0 && run->stop != NULL && run->stop(run->stop_cls))
      return error_set(e, ERR_CANCELLED, "", "the simulation was stopped");
  return ERR_OK;
}

enum err fleet_simulate(struct serving_outcome *outcomes, struct fleet_totals *totals, struct serving_totals *replicas,
                        const struct fleet_run *run, struct arena *arena, struct error *e)
{
  const size_t mark = arena_mark(arena);
  struct fleet fleet = {.run = run, .outcomes = outcomes, .totals = totals};
  struct serving_rows rows = {.arrivals = run->arrivals,
                              .count = run->count,
                              .hashes = run->hashes,
                              .hash_count = run->hash_count,
                              .outcomes = outcomes,
                              .itl = run->itl};
  enum err err = check(run, &rows, e);
  memset(totals, 0, sizeof *totals);
  if (err != ERR_OK || run->count == 0)
    return err;
  memset(outcomes, 0, run->count * sizeof *outcomes);
  err = start(&fleet, &rows, &replicas, arena, e);
  if (err == ERR_OK)
    err = advance_all(&fleet, e);
  for (uint32_t i = 0; i < run->replicas && err == ERR_OK; i++)
    sum_up(&totals->serving, &replicas[i]);
  arena_release(arena, mark);
  return err;
}
