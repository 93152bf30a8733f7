/* One replica from the first request to the last one, and its settings checked. */
#include "core/serving_int.h"

#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#define STOP_POLL_ROUNDS 1024

static enum err check_hashes(const struct serving_settings *settings, const struct serving_rows *rows, struct error *e)
{
  if (settings->hash_block_tokens % settings->kv_block_tokens != 0)
    return error_set(e, ERR_INVALID, "/serving/kv_block_tokens", "a hash stands for %u tokens, which %u do not divide",
                     settings->hash_block_tokens, settings->kv_block_tokens);
  if (settings->shared_prefix_tokens != 0)
    return error_set(e, ERR_INVALID, "/traffic/shared_prefix_tokens", "both a shared prefix and hashes of prompts");
  for (size_t i = 0; i < rows->count; i++)
    if (rows->arrivals[i].hash_first > rows->hash_count ||
        rows->arrivals[i].hash_count > rows->hash_count - rows->arrivals[i].hash_first)
      return error_set(e, ERR_INVALID, "", "request %zu has hashes that are not there", i);
  return ERR_OK;
}

static enum err check_batch(const struct serving_settings *settings, struct error *e)
{
  if (settings->max_batch == 0 ||
      (uint64_t)settings->max_batch * (1 + (uint64_t)settings->draft_tokens) > settings->max_batched_tokens)
    return error_set(e, ERR_INVALID, "/serving/max_batch",
                     "%u sequences of %u tokens do not share a step of max_batched_tokens %u: expected 1 up to that",
                     settings->max_batch, 1 + settings->draft_tokens, settings->max_batched_tokens);
  if (settings->tokens_per_step > 0 &&
      !(settings->tokens_per_step >= 1 && settings->tokens_per_step <= 1.0 + settings->draft_tokens))
    return error_set(e, ERR_INVALID, "/serving/speculative", "%g tokens a step of %u drafts; expected 1 to %u",
                     settings->tokens_per_step, settings->draft_tokens, 1 + settings->draft_tokens);
  return ERR_OK;
}

enum err serving_settings_check(const struct serving_settings *settings, const struct serving_rows *rows,
                                struct error *e)
{
  enum err err;
  if (rows->count >= SERVING_NONE || rows->hash_count >= SERVING_NONE)
    return error_set(e, ERR_INVALID, "", "%zu requests with %zu hashes are more than one simulation takes", rows->count,
                     rows->hash_count);
  err = check_batch(settings, e);
  if (err != ERR_OK)
    return err;
  if (settings->kv_block_tokens == 0 || settings->recv_interval_steps == 0 || settings->admit_interval_steps == 0)
    return error_set(e, ERR_INVALID, "/serving", "a block of 0 tokens or an interval of 0 steps");
  if (settings->batch_wait_steps != 0 && settings->admit_interval_steps > 1)
    return error_set(e, ERR_INVALID, "/serving/batch_wait_steps", "a batch wait with an interval between admissions");
  if (settings->kv == SERVING_KV_RATIO && !(settings->kv_ratio >= 0 && settings->kv_ratio <= 1))
    return error_set(e, ERR_INVALID, "/serving", "a share %g of the answers to come; expected 0 to 1",
                     settings->kv_ratio);
  return settings->hash_block_tokens != 0 ? check_hashes(settings, rows, e) : ERR_OK;
}

static uint32_t slot_count(const struct serving_settings *settings, size_t requests)
{
  return requests < settings->max_batch ? (uint32_t)requests : settings->max_batch;
}

size_t serving_rounded_bytes(size_t count, size_t size)
{
  const size_t alignment = alignof(max_align_t);
  return (count * size + alignment - 1) / alignment * alignment;
}

size_t serving_sim_bytes(const struct serving_settings *settings, size_t requests, size_t hash_count)
{
  const size_t slots = slot_count(settings, requests), cached = serving_cache_blocks(settings, hash_count);
  return serving_rounded_bytes(slots, sizeof(struct serving_slot)) +
         serving_rounded_bytes(slots, sizeof(struct serving_finish)) +
         5 * serving_rounded_bytes(slots, sizeof(uint32_t)) +
         serving_rounded_bytes(settings->kv_block_tokens, sizeof(uint32_t)) +
         serving_rounded_bytes(cached, sizeof(struct serving_cached)) +
         serving_rounded_bytes(serving_cache_buckets(cached), sizeof(uint32_t));
}

size_t serving_links_bytes(size_t requests)
{
  return serving_rounded_bytes(requests, sizeof(struct serving_link));
}

static enum err allocate_cache(struct serving_cache *cache, const struct serving_settings *settings, size_t blocks,
                               struct arena *arena, struct error *e)
{
  cache->blocks = arena_alloc(arena, blocks, sizeof *cache->blocks);
  cache->buckets = arena_alloc(arena, serving_cache_buckets(blocks), sizeof *cache->buckets);
  if (cache->blocks == NULL || cache->buckets == NULL)
    return error_set(e, ERR_LIMIT, "", "the cache of %zu blocks does not fit into the arena", blocks);
  serving_cache_init(cache, settings, blocks);
  return ERR_OK;
}

static enum err allocate(struct serving_sim *sim, uint32_t slots, struct arena *arena, struct error *e)
{
  sim->slots = arena_alloc(arena, slots, sizeof *sim->slots);
  sim->free_slots = arena_alloc(arena, slots, sizeof *sim->free_slots);
  sim->heap = arena_alloc(arena, slots, sizeof *sim->heap);
  sim->completed = arena_alloc(arena, slots, sizeof *sim->completed);
  sim->ended = arena_alloc(arena, slots, sizeof *sim->ended);
  sim->orphans = arena_alloc(arena, slots, sizeof *sim->orphans);
  sim->joined = arena_alloc(arena, slots, sizeof *sim->joined);
  sim->growth = arena_alloc(arena, sim->settings->kv_block_tokens, sizeof *sim->growth);
  if (sim->slots == NULL || sim->free_slots == NULL || sim->heap == NULL || sim->completed == NULL ||
      sim->ended == NULL || sim->orphans == NULL || sim->joined == NULL || sim->growth == NULL)
    return error_set(e, ERR_LIMIT, "", "the simulation of %u sequences does not fit into the arena", slots);
  for (uint32_t slot = 0; slot < slots; slot++)
    sim->free_slots[sim->free_count++] = slots - 1 - slot;
  return ERR_OK;
}

enum err serving_sim_init(struct serving_sim *out, const struct serving_settings *settings,
                          const struct serving_cost *cost, const struct serving_rows *rows,
                          struct serving_totals *totals, struct arena *arena, struct error *e)
{
  const uint64_t unlimited = UINT64_MAX / 4;
  const size_t cached = serving_cache_blocks(settings, rows->hash_count);
  enum err err;
  *out = (struct serving_sim){.settings = settings,
                              .cost = cost,
                              .arrivals = rows->arrivals,
                              .outcomes = rows->outcomes,
                              .links = rows->links,
                              .hashes = rows->hashes,
                              .totals = totals,
                              .itl = rows->itl,
                              .pace_ratio = 1,
                              .tokens_per_step = settings->tokens_per_step > 0 ? settings->tokens_per_step : 1,
                              .pool_blocks = settings->kv_blocks != 0 ? settings->kv_blocks : unlimited,
                              .queue_head = SERVING_NONE,
                              .queue_tail = SERVING_NONE,
                              .unseen = SERVING_NONE,
                              .partial = SERVING_NONE,
                              .oldest = SERVING_NONE,
                              .newest = SERVING_NONE};
  memset(totals, 0, sizeof *totals);
  err = allocate(out, slot_count(settings, rows->count), arena, e);
  return err == ERR_OK && cached != 0 ? allocate_cache(&out->cache, settings, cached, arena, e) : err;
}

size_t serving_arena_bytes(const struct serving_run *run)
{
  return alignof(max_align_t) + serving_sim_bytes(&run->settings, run->count, run->hash_count) +
         serving_links_bytes(run->count);
}

/* A request that can never run is refused at once; in a closed loop its user goes on with the next row. */
static bool send(struct serving_sim *sim, const struct serving_run *run, size_t *next, double now_s)
{
  while (*next < run->count) {
    const uint32_t row = (uint32_t)(*next)++;
    struct serving_outcome *outcome = &sim->outcomes[row];
    const double send_s = run->users != 0 ? now_s : run->arrivals[row].send_s;
    outcome->send_s = send_s;
    outcome->attempts = 1;
    if (!serving_is_too_long(sim, row)) {
      serving_offer(sim, row, send_s);
      return true;
    }
    outcome->status = SERVING_REJECTED;
    sim->totals->rejected++;
  }
  return false;
}

static enum err advance(struct serving_sim *sim, const struct serving_run *run, struct error *e)
{
  size_t next = 0;
  for (uint32_t user = 0; run->users == 0 || user < run->users; user++)
    if (!send(sim, run, &next, 0))
      break;
  serving_plan(sim);
  for (uint64_t round = 1; !isinf(serving_next_s(sim)); round++) {
    if (round % STOP_POLL_ROUNDS == 0 && run->stop != NULL && run->stop(run->stop_cls))
      return error_set(e, ERR_CANCELLED, "", "the simulation was stopped");
    serving_commit(sim);
    for (uint32_t i = 0; run->users != 0 && i < sim->ended_count; i++)
      (void)send(sim, run, &next, sim->time_s);
    serving_plan(sim);
  }
  return ERR_OK;
}

enum err serving_simulate(struct serving_outcome *outcomes, struct serving_totals *totals,
                          const struct serving_run *run, struct arena *arena, struct error *e)
{
  const size_t mark = arena_mark(arena);
  struct serving_rows rows = {.arrivals = run->arrivals,
                              .count = run->count,
                              .hashes = run->hashes,
                              .hash_count = run->hash_count,
                              .outcomes = outcomes,
                              .itl = run->itl};
  struct serving_sim sim;
  enum err err = serving_settings_check(&run->settings, &rows, e);
  memset(totals, 0, sizeof *totals);
  if (err != ERR_OK || run->count == 0)
    return err;
  memset(outcomes, 0, run->count * sizeof *outcomes);
  rows.links = arena_alloc(arena, run->count, sizeof *rows.links);
  if (rows.links == NULL)
    err = error_set(e, ERR_LIMIT, "", "%zu requests do not fit into the arena", run->count);
  if (err == ERR_OK)
    err = serving_sim_init(&sim, &run->settings, run->cost, &rows, totals, arena, e);
  if (err == ERR_OK)
    err = advance(&sim, run, e);
  arena_release(arena, mark);
  return err;
}
