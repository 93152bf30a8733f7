/* State of the slow reference and its memory: every block counted by walking over all sequences, every block of the cache
   found by looking at all. */
#ifndef FITD_TESTS_CORE_REFERENCE_MEMORY_H
#define FITD_TESTS_CORE_REFERENCE_MEMORY_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fleet.h"

struct reference_sequence {
  uint32_t row, computed, need, emitted; /* computed < need: its prompt is not done */
  uint32_t blocks, shared;               /* all it sees, and those of the cache among them */
  bool has_step;                         /* takes part in the step that is being put together */
  bool is_gone, is_ended;                /* nobody waits for it; another replica goes on */
  uint32_t surplus;                      /* tokens of its last step beyond its answer */
  double last_token;
  uint32_t chunk;
};

/* A block of a prompt in the cache. */
struct reference_cached {
  uint32_t hash, users;
  uint64_t left; /* when its last user left, counted in such events */
};

/* One replica. */
struct reference {
  const struct fleet_run *run;
  const struct serving_cost *cost;
  uint32_t index;
  struct serving_outcome *outcomes;
  struct reference_sequence *running; /* in order of admission */
  size_t running_count;
  uint32_t *waiting; /* first to last */
  size_t waiting_count;
  uint32_t *incoming; /* sent but not seen, in the order of sending */
  size_t incoming_count;
  double *visible;   /* of each row, here */
  bool *is_computed; /* rows that came with their cache */
  bool has_prompts_only;
  double link_free;
  uint32_t *ended; /* rows whose prompts are done */
  size_t ended_count;
  bool is_stepping;
  double now, previous_start, last_visible; /* now: end of the step under way, or where the last one ended */
  uint64_t pool, cached;
  struct reference_cached *cache;
  size_t cache_count;
  uint64_t leaves;
  unsigned since_recv, since_admit, waited;
  double *last_token;
  struct histogram *gaps;
  double running_sequence_s, decode_sequence_s, busy_s;
  uint64_t steps, decode_steps, prompt_tokens, prompt_steps, output_tokens, wasted_tokens, preemptions;
  size_t in_system;
};

static inline uint32_t reference_ceil(uint32_t tokens, uint32_t size)
{
  return tokens / size + (tokens % size != 0);
}

static inline uint32_t reference_min(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* KV blocks that a block of the cache takes. */
static inline uint32_t reference_cached_size(const struct reference *r)
{
  return r->run->settings.hash_block_tokens / r->run->settings.kv_block_tokens;
}

/* Blocks of the cache with or without users. */
static inline size_t reference_cached(const struct reference *r, bool has_users)
{
  size_t n = 0;
  for (size_t i = 0; i < r->cache_count; i++)
    n += (r->cache[i].users != 0) == has_users;
  return n;
}

/* What sequences leave free; blocks of the cache without users give way. */
static inline uint64_t reference_free(const struct reference *r)
{
  uint64_t used = r->cached + (uint64_t)reference_cached(r, true) * reference_cached_size(r);
  for (size_t i = 0; i < r->running_count; i++)
    used += r->running[i].blocks - r->running[i].shared;
  ck_assert_msg(used <= r->pool, "%lu of %lu blocks in use", (unsigned long)used, (unsigned long)r->pool);
  return r->pool - used;
}

static inline void reference_evict(struct reference *r)
{
  while (reference_cached(r, false) * reference_cached_size(r) > reference_free(r)) {
    size_t oldest = r->cache_count;
    for (size_t i = 0; i < r->cache_count; i++)
      if (r->cache[i].users == 0 && (oldest == r->cache_count || r->cache[i].left < r->cache[oldest].left))
        oldest = i;
    r->cache[oldest] = r->cache[--r->cache_count];
  }
}

static inline struct reference_cached *reference_find(struct reference *r, uint32_t row, uint32_t block)
{
  const struct arrival *a = &r->run->arrivals[row];
  for (size_t i = 0; i < r->cache_count; i++)
    if (r->cache[i].hash == r->run->hashes[a->hash_first + block])
      return &r->cache[i];
  return NULL;
}

/* Whole blocks of a prompt that have a hash. */
static inline uint32_t reference_hashes(const struct reference *r, uint32_t row)
{
  const struct arrival *a = &r->run->arrivals[row];
  const uint32_t size = r->run->settings.hash_block_tokens;
  return size == 0 ? 0 : reference_min(a->hash_count, a->input_tokens / size);
}

static inline double reference_tokens_per_step(const struct reference *r)
{
  return r->run->settings.tokens_per_step > 0 ? r->run->settings.tokens_per_step : 1;
}

/* Of an answer, by this replica. */
static inline uint32_t reference_answer(const struct reference *r, uint32_t row)
{
  return r->has_prompts_only ? 1 : r->run->arrivals[row].output_tokens;
}

static inline bool reference_fits_at_all(const struct reference *r, uint32_t row)
{
  const struct serving_settings *s = &r->run->settings;
  const struct arrival *a = &r->run->arrivals[row];
  const uint32_t prefix = s->shared_prefix_tokens / s->kv_block_tokens;
  uint32_t surplus = 0; /* what the last step may write beyond the answer */
  uint32_t own = reference_min(a->input_tokens, s->shared_prefix_tokens) / s->kv_block_tokens;
  own = reference_min(own, (a->input_tokens - 1) / s->kv_block_tokens);
  if (s->max_context_tokens != 0 && a->input_tokens + a->output_tokens > s->max_context_tokens)
    return false;
  if (s->kv != SERVING_KV_RESERVE)
    surplus = (uint32_t)ceil(reference_tokens_per_step(r)) - 1;
  return reference_ceil(a->input_tokens + a->output_tokens - 1 + surplus, s->kv_block_tokens) + prefix - own <= r->pool;
}

/* What a sequence finds in the cache; of that, KV blocks that nobody uses. */
static inline uint32_t reference_find_prefix(struct reference *r, struct reference_sequence *q)
{
  const struct serving_settings *s = &r->run->settings;
  const struct arrival *a = &r->run->arrivals[q->row];
  uint32_t unused = 0;
  q->shared = reference_min(reference_min(a->input_tokens, s->shared_prefix_tokens) / s->kv_block_tokens,
                            (q->need - 1) / s->kv_block_tokens);
  q->shared = reference_min(q->shared, (uint32_t)r->cached);
  for (uint32_t i = 0; i < reference_hashes(r, q->row) && (i + 1) * s->hash_block_tokens < q->need; i++) {
    const struct reference_cached *cached = reference_find(r, q->row, i);
    if (cached == NULL)
      break;
    q->shared += reference_cached_size(r);
    unused += cached->users == 0 ? reference_cached_size(r) : 0;
  }
  return unused;
}

/* Blocks of the cache that it has found are in use from now on. */
static inline void reference_use_prefix(struct reference *r, const struct reference_sequence *q)
{
  if (r->run->settings.hash_block_tokens != 0)
    for (uint32_t i = 0; i < q->shared / reference_cached_size(r); i++)
      reference_find(r, q->row, i)->users++;
}

/* Whole blocks of the common prefix stay with the cache. */
static inline void reference_keep_prefix(struct reference *r, struct reference_sequence *q)
{
  const struct serving_settings *s = &r->run->settings;
  const uint32_t common =
      reference_min(r->run->arrivals[q->row].input_tokens, s->shared_prefix_tokens) / s->kv_block_tokens;
  if (common > r->cached) {
    q->shared += common - (uint32_t)r->cached;
    r->cached = common;
  }
  if (s->hash_block_tokens == 0)
    return;
  for (uint32_t i = q->shared / reference_cached_size(r); i < reference_hashes(r, q->row); i++) {
    struct reference_cached *cached = reference_find(r, q->row, i);
    if (cached == NULL) {
      cached = &r->cache[r->cache_count++];
      *cached = (struct reference_cached){.hash = r->run->hashes[r->run->arrivals[q->row].hash_first + i]};
    }
    cached->users++;
    q->shared += reference_cached_size(r);
  }
}

/* It uses no block of the cache any more; the end of a prompt counts as left before its beginning. */
static inline void reference_release(struct reference *r, const struct reference_sequence *q)
{
  for (uint32_t i = r->run->settings.hash_block_tokens == 0 ? 0 : q->shared / reference_cached_size(r); i > 0; i--) {
    struct reference_cached *cached = reference_find(r, q->row, i - 1);
    if (--cached->users == 0)
      cached->left = ++r->leaves;
  }
}

#endif
