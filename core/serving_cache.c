/* The prefix cache: blocks of prompts by their hash, within the KV pool. Blocks that running sequences use count as theirs;
   the others stay until the pool needs their place, the longest unused first and of one prompt its end first. A hash stands
   for all of the prompt up to its block's end, so a prompt finds blocks from its start on until one is missing. */
#include "core/serving_int.h"

size_t serving_cache_blocks(const struct serving_settings *settings, size_t hash_count)
{
  const uint64_t pool = settings->hash_block_tokens == 0 ? 0
                        : settings->kv_blocks == 0
                            ? UINT64_MAX
                            : settings->kv_blocks / (settings->hash_block_tokens / settings->kv_block_tokens);
  return hash_count < pool ? hash_count : (size_t)pool;
}

size_t serving_cache_buckets(size_t blocks)
{
  size_t buckets = blocks != 0 ? 1 : 0;
  while (buckets < blocks)
    buckets *= 2;
  return buckets;
}

void serving_cache_init(struct serving_cache *cache, const struct serving_settings *settings, size_t blocks)
{
  cache->kv_blocks = settings->hash_block_tokens / settings->kv_block_tokens;
  cache->mask = (uint32_t)serving_cache_buckets(blocks) - 1;
  cache->free = cache->oldest = cache->newest = SERVING_NONE;
  for (size_t i = 0; i <= cache->mask && blocks != 0; i++)
    cache->buckets[i] = SERVING_NONE;
  for (size_t i = blocks; i > 0; i--) {
    cache->blocks[i - 1].next = cache->free;
    cache->free = (uint32_t)(i - 1);
  }
}

/* Fibonacci hashing: consecutive numbers spread evenly. */
static uint32_t *bucket_of(const struct serving_cache *cache, uint32_t hash)
{
  return &cache->buckets[(uint32_t)((hash * 0x9E3779B97F4A7C15u) >> 32) & cache->mask];
}

static uint32_t find(const struct serving_cache *cache, uint32_t hash)
{
  uint32_t block = *bucket_of(cache, hash);
  while (block != SERVING_NONE && cache->blocks[block].hash != hash)
    block = cache->blocks[block].next;
  return block;
}

/* ---- unused blocks, by the time they were last used ---- */

static void idle_append(struct serving_cache *cache, uint32_t index)
{
  struct serving_cached *block = &cache->blocks[index];
  block->older = cache->newest;
  block->newer = SERVING_NONE;
  if (cache->newest != SERVING_NONE)
    cache->blocks[cache->newest].newer = index;
  else
    cache->oldest = index;
  cache->newest = index;
  cache->idle++;
}

static void idle_remove(struct serving_cache *cache, uint32_t index)
{
  const struct serving_cached *block = &cache->blocks[index];
  if (block->older != SERVING_NONE)
    cache->blocks[block->older].newer = block->newer;
  else
    cache->oldest = block->newer;
  if (block->newer != SERVING_NONE)
    cache->blocks[block->newer].older = block->older;
  else
    cache->newest = block->older;
  cache->idle--;
}

static void evict(struct serving_cache *cache)
{
  const uint32_t index = cache->oldest;
  struct serving_cached *block = &cache->blocks[index];
  uint32_t *place = bucket_of(cache, block->hash);
  while (*place != index)
    place = &cache->blocks[*place].next;
  *place = block->next;
  idle_remove(cache, index);
  block->next = cache->free;
  cache->free = index;
}

void serving_cache_shrink(struct serving_sim *sim, uint64_t blocks)
{
  struct serving_cache *cache = &sim->cache;
  while (cache->idle != 0 && cache->idle * cache->kv_blocks > blocks)
    evict(cache);
}

/* ---- what requests do with them ---- */

static const uint32_t *hashes_of(const struct serving_sim *sim, uint32_t request)
{
  return sim->hashes + sim->arrivals[request].hash_first;
}

/* The last block of a prompt is kept only when it is full. */
static uint32_t whole_blocks(const struct serving_sim *sim, uint32_t request)
{
  const struct arrival *arrival = &sim->arrivals[request];
  const uint32_t whole = arrival->input_tokens / sim->settings->hash_block_tokens;
  return arrival->hash_count < whole ? arrival->hash_count : whole;
}

struct serving_hit serving_cache_find(const struct serving_sim *sim, uint32_t request, uint32_t most_tokens)
{
  const struct serving_cache *cache = &sim->cache;
  const uint32_t whole = whole_blocks(sim, request), most = most_tokens / sim->settings->hash_block_tokens;
  const uint32_t *hashes = hashes_of(sim, request);
  struct serving_hit hit = {0};
  for (uint32_t i = 0; i < whole && i < most; i++) {
    const uint32_t index = find(cache, hashes[i]);
    if (index == SERVING_NONE)
      break;
    hit.blocks += cache->kv_blocks;
    hit.idle_blocks += cache->blocks[index].users == 0 ? cache->kv_blocks : 0;
  }
  return hit;
}

/* From now on it counts as the sequence's. */
static void use(struct serving_sim *sim, uint32_t index)
{
  if (sim->cache.blocks[index].users++ != 0)
    return;
  idle_remove(&sim->cache, index);
  sim->used_blocks += sim->cache.kv_blocks;
  sim->held_blocks += sim->cache.kv_blocks;
}

void serving_cache_use(struct serving_sim *sim, const struct serving_slot *slot)
{
  const uint32_t *hashes = hashes_of(sim, slot->request);
  for (uint32_t i = 0; i < slot->shared_blocks / sim->cache.kv_blocks; i++)
    use(sim, find(&sim->cache, hashes[i]));
}

/* A sequence's own block becomes the cache's; one that another has left there meanwhile takes its place. */
static void keep(struct serving_sim *sim, uint32_t hash)
{
  struct serving_cache *cache = &sim->cache;
  uint32_t index = find(cache, hash);
  sim->used_blocks -= cache->kv_blocks;
  if (index == SERVING_NONE) {
    index = cache->free;
    cache->free = cache->blocks[index].next;
    cache->blocks[index] = (struct serving_cached){.hash = hash, .next = *bucket_of(cache, hash)};
    *bucket_of(cache, hash) = index;
    idle_append(cache, index);
  }
  use(sim, index);
}

void serving_cache_keep(struct serving_sim *sim, struct serving_slot *slot)
{
  const uint32_t size = sim->cache.kv_blocks, whole = whole_blocks(sim, slot->request);
  const uint32_t *hashes = hashes_of(sim, slot->request);
  const uint32_t had = slot->shared_blocks / size;
  if (whole <= had)
    return;
  for (uint32_t i = had; i < whole; i++)
    keep(sim, hashes[i]);
  sim->own_tokens -= (uint64_t)(whole - had) * sim->settings->hash_block_tokens;
  slot->shared_blocks = whole * size;
}

void serving_cache_leave(struct serving_sim *sim, const struct serving_slot *slot)
{
  struct serving_cache *cache = &sim->cache;
  const uint32_t *hashes = hashes_of(sim, slot->request);
  for (uint32_t i = slot->shared_blocks / cache->kv_blocks; i > 0; i--) {
    const uint32_t index = find(cache, hashes[i - 1]);
    if (--cache->blocks[index].users != 0)
      continue;
    idle_append(cache, index);
    sim->used_blocks -= cache->kv_blocks;
    sim->held_blocks -= cache->kv_blocks;
  }
}
