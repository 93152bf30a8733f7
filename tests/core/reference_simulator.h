/* The rules of core/serving.h and core/fleet.h once more, the slow way: every step is taken, every sequence looked at in
   every step, every block counted by walking over all sequences, every event found by looking at everybody. No jumps, no
   heap, no phases. The simulation must agree with it. */
#ifndef FITD_TESTS_CORE_REFERENCE_SIMULATOR_H
#define FITD_TESTS_CORE_REFERENCE_SIMULATOR_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fleet.h"
#include "core/rng.h"

struct reference_sequence {
  uint32_t row, computed, need, emitted; /* computed < need: its prompt is not done */
  uint32_t blocks, shared;               /* all it sees, and those of the cache among them */
  bool has_step;                         /* takes part in the step that is being put together */
  bool is_gone;                          /* nobody waits for it */
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

static inline void reference_receive(struct reference *r, uint32_t row, double when)
{
  struct serving_outcome *o = &r->outcomes[row];
  double visible = when + (r->cost->server_s + r->cost->server_token_s * r->run->arrivals[row].input_tokens);
  if (visible < r->last_visible)
    visible = r->last_visible;
  r->last_visible = o->visible_s = visible;
  o->status = SERVING_UNFINISHED;
  o->replica = r->index;
  r->incoming[r->incoming_count++] = row;
  r->in_system++;
}

static inline void reference_look(struct reference *r, double now)
{
  const bool is_idle = r->running_count == 0;
  const double horizon = r->run->settings.has_look_ahead && !is_idle ? r->previous_start : now;
  if (!is_idle && r->since_recv < r->run->settings.recv_interval_steps)
    return;
  r->since_recv = 0;
  while (r->incoming_count != 0 && r->outcomes[r->incoming[0]].visible_s <= horizon) {
    r->waiting[r->waiting_count++] = r->incoming[0];
    memmove(r->incoming, r->incoming + 1, --r->incoming_count * sizeof *r->incoming);
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

static inline void reference_preempt_last(struct reference *r)
{
  const struct reference_sequence *victim = &r->running[--r->running_count];
  reference_release(r, victim);
  memmove(r->waiting + 1, r->waiting, r->waiting_count * sizeof *r->waiting);
  r->waiting[0] = victim->row;
  r->waiting_count++;
  r->outcomes[victim->row].output_tokens = victim->emitted;
  r->outcomes[victim->row].preemptions++;
  r->preemptions++;
}

/* Tokens that all sequences get in the next decode step. */
static inline uint32_t reference_step_tokens(const struct reference *r)
{
  const double rate = reference_tokens_per_step(r), steps = (double)r->decode_steps;
  return (uint32_t)(floor((steps + 1) * rate) - floor(steps * rate));
}

/* A decode writes its last token: the KV of computed tokens plus one. */
static inline bool reference_schedule_decodes(struct reference *r, uint32_t *budget)
{
  const struct serving_settings *s = &r->run->settings;
  bool has_preempted = false;
  for (size_t i = 0; i < r->running_count; i++) {
    struct reference_sequence *q = &r->running[i];
    if (q->computed < q->need)
      continue;
    while (s->kv != SERVING_KV_RESERVE && q->computed + reference_step_tokens(r) > q->blocks * s->kv_block_tokens) {
      while (reference_free(r) == 0 && i < r->running_count) {
        reference_preempt_last(r);
        has_preempted = true;
      }
      if (i >= r->running_count)
        return true;
      q->blocks++;
      reference_evict(r);
    }
    q->has_step = true;
    *budget -= 1 + s->draft_tokens;
  }
  return has_preempted;
}

static inline void reference_schedule_partials(struct reference *r, uint32_t *budget)
{
  for (size_t i = 0; i < r->running_count; i++) {
    struct reference_sequence *q = &r->running[i];
    if (q->computed >= q->need)
      continue;
    q->chunk = reference_min(q->need - q->computed, *budget);
    *budget -= q->chunk;
  }
}

static inline bool reference_has_partial(const struct reference *r)
{
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].computed + r->running[i].chunk < r->running[i].need)
      return true;
  return false;
}

static inline uint32_t reference_prompt_tokens(const struct reference *r)
{
  uint32_t tokens = 0;
  for (size_t i = 0; i < r->running_count; i++)
    tokens += r->running[i].chunk;
  return tokens;
}

static inline size_t reference_decoding(const struct reference *r)
{
  size_t n = 0;
  for (size_t i = 0; i < r->running_count; i++)
    n += r->running[i].computed >= r->running[i].need && r->running[i].chunk == 0;
  return n;
}

/* SGLang: what is written (places of admitted prompts too) plus a share of what is still to come. */
static inline bool reference_ratio_allows(const struct reference *r, const struct reference_sequence *next,
                                          uint32_t unused_blocks)
{
  const struct serving_settings *s = &r->run->settings;
  double written = (double)r->cached * s->kv_block_tokens, left = 0;
  written += (double)(reference_cached(r, true) * s->hash_block_tokens);
  for (size_t i = 0; i <= r->running_count; i++) {
    const struct reference_sequence *q = i < r->running_count ? &r->running[i] : next;
    const uint32_t held = q->computed >= q->need && q->chunk == 0 ? q->computed : q->need;
    written += held - q->shared * s->kv_block_tokens;
    left += r->run->arrivals[q->row].output_tokens - q->emitted;
  }
  written += (double)unused_blocks * s->kv_block_tokens;
  return written + s->kv_ratio * left <= (double)r->pool * s->kv_block_tokens;
}

static inline bool reference_admit_one(struct reference *r, uint32_t *budget)
{
  const struct serving_settings *s = &r->run->settings;
  const uint32_t row = r->waiting[0];
  const struct arrival *a = &r->run->arrivals[row];
  struct reference_sequence q = {
      .row = row, .emitted = r->outcomes[row].output_tokens, .last_token = r->last_token[row]};
  uint32_t tokens, unused = 0;
  q.need = a->input_tokens + q.emitted;
  q.shared = reference_min(reference_min(a->input_tokens, s->shared_prefix_tokens) / s->kv_block_tokens,
                           (q.need - 1) / s->kv_block_tokens);
  q.shared = reference_min(q.shared, (uint32_t)r->cached);
  for (uint32_t i = 0; i < reference_hashes(r, row) && (i + 1) * s->hash_block_tokens < q.need; i++) {
    const struct reference_cached *cached = reference_find(r, row, i);
    if (cached == NULL)
      break;
    q.shared += reference_cached_size(r);
    unused += cached->users == 0 ? reference_cached_size(r) : 0;
  }
  q.computed = q.shared * s->kv_block_tokens;
  tokens = s->kv == SERVING_KV_RESERVE ? a->input_tokens + a->output_tokens - 1 : q.need;
  q.blocks = reference_ceil(tokens, s->kv_block_tokens);
  if (r->running_count >= s->max_batch || *budget == 0)
    return false;
  if (q.blocks - q.shared + unused + (r->running_count != 0 ? s->kv_watermark_blocks : 0) > reference_free(r))
    return false;
  if (s->kv == SERVING_KV_RATIO && r->running_count != 0 && !reference_ratio_allows(r, &q, unused))
    return false;
  q.chunk = q.need - q.computed;
  if (q.chunk > *budget && !s->has_whole_prompts)
    q.chunk = *budget;
  if (q.chunk > *budget && (q.chunk <= s->max_batched_tokens || reference_prompt_tokens(r) != 0))
    return false;
  *budget -= reference_min(q.chunk, *budget);
  if (r->outcomes[row].preemptions == 0) {
    r->outcomes[row].admitted_s = r->now;
    r->outcomes[row].cached_tokens = q.computed;
  }
  for (uint32_t i = 0; i < reference_hashes(r, row) && i * s->hash_block_tokens < q.computed; i++)
    reference_find(r, row, i)->users++;
  r->running[r->running_count++] = q;
  reference_evict(r);
  memmove(r->waiting, r->waiting + 1, --r->waiting_count * sizeof *r->waiting);
  return true;
}

static inline void reference_admit(struct reference *r, uint32_t budget)
{
  const struct serving_settings *s = &r->run->settings;
  const size_t decoding = reference_decoding(r);
  double together = (double)(decoding * (1 + s->draft_tokens));
  if (r->waiting_count == 0 || reference_has_partial(r))
    return;
  if (r->running_count != 0 && r->since_admit % s->admit_interval_steps != 0)
    return;
  for (size_t i = 0; i < r->waiting_count; i++)
    together += r->run->arrivals[r->waiting[i]].input_tokens + r->outcomes[r->waiting[i]].output_tokens;
  if (r->waited < s->batch_wait_steps && decoding != 0 && together < s->batch_wait_ratio * s->max_batched_tokens) {
    r->waited++;
    return;
  }
  r->waited = 0;
  while (r->waiting_count != 0 && reference_admit_one(r, &budget))
    ;
}

static inline void reference_schedule(struct reference *r)
{
  uint32_t budget = r->run->settings.max_batched_tokens;
  for (size_t i = 0; i < r->running_count; i++) {
    r->running[i].has_step = false;
    r->running[i].chunk = 0;
  }
  if (r->run->settings.is_prefill_first) {
    reference_schedule_partials(r, &budget);
    reference_admit(r, budget);
    if (reference_prompt_tokens(r) == 0)
      (void)reference_schedule_decodes(r, &budget);
  } else {
    const bool has_preempted = reference_schedule_decodes(r, &budget);
    reference_schedule_partials(r, &budget);
    if (!has_preempted)
      reference_admit(r, budget);
  }
}

static inline double reference_step_s(const struct reference *r)
{
  const struct serving_cost *c = r->cost;
  const double tokens = (double)r->decode_steps * reference_tokens_per_step(r), uneven = tokens - floor(tokens);
  double batch = 0, context = 0, seconds = c->prompt_step_s, prompts = c->prompt_fixed_s;
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].has_step) {
      batch += 1;
      context += r->running[i].computed + 1 + uneven;
    }
  if (batch > 0) {
    int segment = 0;
    while (segment + 1 < SERVING_SEGMENTS && batch >= (double)(2u << segment))
      segment++;
    seconds = c->decode[segment].step_s + c->decode[segment].sequence_s * batch +
              c->decode[segment].context_token_s * context;
  }
  if (reference_prompt_tokens(r) == 0)
    return seconds;
  for (size_t i = 0; i < r->running_count; i++) {
    const double n = r->running[i].chunk, before = r->running[i].computed;
    prompts += n * c->prompt_token_s + c->prompt_pair_s * n * (before + n / 2);
  }
  return prompts > 0 ? seconds + prompts : seconds;
}

static inline void reference_emit(struct reference *r, struct reference_sequence *q, uint32_t most)
{
  struct serving_outcome *o = &r->outcomes[q->row];
  const bool is_first = q->emitted == 0;
  const uint32_t tokens = reference_min(most, r->run->arrivals[q->row].output_tokens - q->emitted);
  r->output_tokens += tokens;
  q->emitted += tokens;
  if (!is_first && (q->has_step || !q->is_gone))
    histogram_add(r->gaps, r->now - q->last_token, 1);
  if (q->is_gone) {
    r->wasted_tokens += q->emitted;
    return;
  }
  if (is_first)
    o->first_s = r->now;
  r->last_token[q->row] = q->last_token = r->now;
  o->output_tokens = q->emitted;
  if (q->emitted == r->run->arrivals[q->row].output_tokens) {
    o->finish_s = r->now;
    o->status = SERVING_COMPLETED;
    r->in_system--;
  }
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

/* Sequences that get a token in this step. */
static inline size_t reference_steps(const struct reference *r)
{
  size_t decodes = 0;
  for (size_t i = 0; i < r->running_count; i++)
    decodes += r->running[i].has_step;
  return decodes;
}

static inline void reference_finish_step(struct reference *r)
{
  const uint32_t tokens = reference_step_tokens(r);
  const bool has_decodes = reference_steps(r) != 0;
  size_t kept = 0;
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].has_step) {
      r->running[i].computed += tokens;
      r->running[i].need += tokens;
      reference_emit(r, &r->running[i], tokens);
    }
  for (size_t i = 0; i < r->running_count; i++) {
    struct reference_sequence *q = &r->running[i];
    q->computed += q->chunk;
    if (q->chunk != 0 && q->computed == q->need && !q->is_gone)
      reference_keep_prefix(r, q);
    if (q->chunk != 0 && q->computed == q->need)
      reference_emit(r, q, 1);
    else if (q->is_gone && !q->has_step)
      r->wasted_tokens += q->emitted;
  }
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].is_gone)
      reference_release(r, &r->running[i]);
  for (size_t i = 0; i < r->running_count; i++) {
    const struct reference_sequence *q = &r->running[i];
    if (!q->is_gone && r->outcomes[q->row].status != SERVING_COMPLETED)
      r->running[kept++] = *q;
    else if (!q->is_gone)
      reference_release(r, q);
  }
  r->running_count = kept;
  r->decode_steps += has_decodes;
  r->is_stepping = false;
}

static inline void reference_drop_gone(struct reference *r)
{
  size_t kept = 0;
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].is_gone) {
      r->wasted_tokens += r->running[i].emitted;
      reference_release(r, &r->running[i]);
    } else
      r->running[kept++] = r->running[i];
  r->running_count = kept;
}

static inline double reference_slowness(const struct reference *r, double now)
{
  double ratio = 1;
  for (size_t i = 0; i < r->run->slowdown_count; i++) {
    const struct fleet_slowdown *s = &r->run->slowdowns[i];
    if ((s->replica == r->index || s->replica == FLEET_ALL_REPLICAS) && now >= s->from_s && now < s->until_s)
      ratio *= s->ratio;
  }
  return ratio;
}

/* The step that begins now, if there is anything to do. */
static inline void reference_begin(struct reference *r, double now)
{
  double seconds;
  size_t decodes;
  r->now = now;
  reference_drop_gone(r);
  if (r->running_count == 0 && r->waiting_count == 0)
    r->since_admit = 0;
  do { /* again when the last one was preempted */
    reference_look(r, now);
    if (r->running_count == 0 && r->waiting_count == 0)
      return;
    reference_schedule(r);
    decodes = reference_steps(r);
  } while (decodes == 0 && reference_prompt_tokens(r) == 0);
  seconds = reference_step_s(r) * reference_slowness(r, now);
  r->is_stepping = true;
  r->previous_start = now;
  r->now = now + seconds;
  r->busy_s += seconds;
  r->running_sequence_s += seconds * (double)r->running_count;
  r->decode_sequence_s += seconds * (double)decodes;
  r->steps++;
  r->prompt_tokens += reference_prompt_tokens(r);
  r->prompt_steps += reference_prompt_tokens(r) != 0;
  if (reference_prompt_tokens(r) != 0) {
    r->since_recv = r->run->settings.recv_interval_steps; /* due at once */
    r->since_admit = 0;
  } else {
    r->since_recv++;
    r->since_admit++;
  }
}

/* When it has something to do next. */
static inline double reference_next_s(const struct reference *r)
{
  if (r->is_stepping)
    return r->now;
  return r->incoming_count != 0 ? r->outcomes[r->incoming[0]].visible_s : (double)INFINITY;
}

static inline bool reference_take_out(uint32_t *rows, size_t *count, uint32_t row)
{
  for (size_t i = 0; i < *count; i++)
    if (rows[i] == row) {
      memmove(rows + i, rows + i + 1, (--*count - i) * sizeof *rows);
      return true;
    }
  return false;
}

static inline void reference_abandon(struct reference *r, uint32_t row)
{
  r->in_system--;
  if (reference_take_out(r->incoming, &r->incoming_count, row))
    return;
  if (reference_take_out(r->waiting, &r->waiting_count, row)) {
    r->wasted_tokens += r->outcomes[row].output_tokens;
    return;
  }
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].row == row)
      r->running[i].is_gone = true;
}

/* ---- the fleet ---- */

struct reference_fleet {
  const struct fleet_run *run;
  struct serving_outcome *outcomes;
  struct reference *replicas;
  double now;
  size_t next_row;
  uint32_t *front, *retries; /* rows */
  size_t front_count, retry_count;
  double *deadline; /* infinite: none */
  uint64_t attempts, shed, timed_out, rejected;
};

static inline size_t reference_in_system(const struct reference_fleet *f)
{
  size_t n = 0;
  for (uint32_t i = 0; i < f->run->replicas; i++)
    n += f->replicas[i].in_system;
  return n;
}

static inline bool reference_is_full(const struct reference_fleet *f)
{
  return f->run->concurrency_limit != 0 && reference_in_system(f) >= f->run->concurrency_limit;
}

static inline void reference_dispatch(struct reference_fleet *f, uint32_t row)
{
  struct reference *least = &f->replicas[0];
  for (uint32_t i = 1; i < f->run->replicas; i++)
    if (f->replicas[i].in_system < least->in_system)
      least = &f->replicas[i];
  reference_receive(least, row, f->now);
}

static inline void reference_close(struct reference_fleet *f, uint32_t row, enum serving_status status)
{
  f->outcomes[row].status = status;
  f->outcomes[row].finish_s = f->now;
}

static inline void reference_send(struct reference_fleet *f, uint32_t row)
{
  struct serving_outcome *o = &f->outcomes[row];
  bool is_background = false;
  struct rng rng;
  f->attempts++;
  if (o->attempts++ == 0)
    o->send_s = f->now;
  if (!reference_fits_at_all(&f->replicas[0], row)) {
    f->rejected++;
    reference_close(f, row, SERVING_REJECTED);
    return;
  }
  rng_init_stream(&rng, f->run->seed, row);
  is_background = rng_uniform(&rng) < f->run->sheddable_share;
  if (reference_is_full(f) && is_background) {
    f->shed++;
    reference_close(f, row, SERVING_SHED);
    return;
  }
  if (f->run->timeout_s > 0)
    f->deadline[row] = f->now + f->run->timeout_s;
  if (reference_is_full(f))
    f->front[f->front_count++] = row;
  else
    reference_dispatch(f, row);
}

static inline void reference_give_up(struct reference_fleet *f, uint32_t row)
{
  struct serving_outcome *o = &f->outcomes[row];
  f->deadline[row] = (double)INFINITY;
  if (!reference_take_out(f->front, &f->front_count, row))
    reference_abandon(&f->replicas[o->replica], row);
  o->output_tokens = o->preemptions = o->cached_tokens = 0;
  if (o->attempts > f->run->retries) {
    f->timed_out++;
    reference_close(f, row, SERVING_TIMED_OUT);
    return;
  }
  o->visible_s = o->admitted_s = o->first_s = 0;
  f->retries[f->retry_count++] = row;
}

static inline bool reference_is_open(const struct reference_fleet *f, size_t row)
{
  const enum serving_status status = f->outcomes[row].status;
  return row < f->next_row && (status == SERVING_UNSENT || status == SERVING_UNFINISHED);
}

/* Of an attempt that is under way. */
static inline double reference_deadline_s(const struct reference_fleet *f, size_t row)
{
  return reference_is_open(f, row) ? f->deadline[row] : (double)INFINITY;
}

static inline bool reference_has_idle_user(const struct reference_fleet *f)
{
  size_t open = 0;
  for (size_t row = 0; row < f->next_row; row++)
    open += reference_is_open(f, row);
  return open < f->run->users;
}

static inline double reference_next_event_s(const struct reference_fleet *f)
{
  double next = (double)INFINITY;
  for (uint32_t i = 0; i < f->run->replicas; i++)
    next = fmin(next, reference_next_s(&f->replicas[i]));
  for (size_t row = 0; row < f->run->count; row++)
    next = fmin(next, reference_deadline_s(f, row));
  if (f->run->users == 0 && f->next_row < f->run->count)
    next = fmin(next, f->run->arrivals[f->next_row].send_s);
  return next;
}

static inline void reference_end_steps(struct reference_fleet *f)
{
  for (uint32_t i = 0; i < f->run->replicas; i++)
    if (f->replicas[i].is_stepping && f->replicas[i].now <= f->now)
      reference_finish_step(&f->replicas[i]);
}

/* In the order in which the attempts were sent. */
static inline void reference_lose_patience(struct reference_fleet *f)
{
  for (;;) {
    size_t first = f->run->count;
    for (size_t row = 0; row < f->run->count; row++)
      if (reference_deadline_s(f, row) <= f->now && (first == f->run->count || f->deadline[row] < f->deadline[first]))
        first = row;
    if (first == f->run->count)
      return;
    reference_give_up(f, (uint32_t)first);
  }
}

static inline bool reference_send_one(struct reference_fleet *f)
{
  uint32_t row;
  if (f->front_count != 0 && !reference_is_full(f)) {
    row = f->front[0];
    (void)reference_take_out(f->front, &f->front_count, row);
    reference_dispatch(f, row);
    return true;
  }
  if (f->retry_count != 0) {
    row = f->retries[0];
    (void)reference_take_out(f->retries, &f->retry_count, row);
    reference_send(f, row);
    return true;
  }
  if (f->next_row == f->run->count)
    return false;
  if (f->run->users != 0 ? !reference_has_idle_user(f) : f->run->arrivals[f->next_row].send_s > f->now)
    return false;
  row = (uint32_t)f->next_row++;
  reference_send(f, row);
  return true;
}

static inline void reference_loop(struct reference_fleet *f)
{
  for (f->now = 0; !isinf(f->now); f->now = reference_next_event_s(f)) {
    reference_end_steps(f);
    reference_lose_patience(f);
    while (reference_send_one(f))
      ;
    for (uint32_t i = 0; i < f->run->replicas; i++)
      if (!f->replicas[i].is_stepping)
        reference_begin(&f->replicas[i], f->now);
  }
}

static inline void *reference_array(size_t count, size_t size)
{
  void *array = calloc(count + 1, size);
  ck_assert_ptr_nonnull(array);
  return array;
}

static inline void reference_init(struct reference *r, const struct fleet_run *run, uint32_t index,
                                  struct serving_outcome *outcomes, struct histogram *gaps, double *last_token)
{
  *r = (struct reference){.run = run, .index = index, .outcomes = outcomes, .gaps = gaps, .last_token = last_token};
  r->cost = run->costs != NULL && run->costs[index] != NULL ? run->costs[index] : run->cost;
  r->pool = run->settings.kv_blocks != 0 ? run->settings.kv_blocks : UINT64_MAX / 4;
  r->running = reference_array(run->settings.max_batch, sizeof *r->running);
  r->waiting = reference_array(run->count, sizeof *r->waiting);
  r->incoming = reference_array(run->count, sizeof *r->incoming);
  r->cache = reference_array(run->hash_count, sizeof *r->cache);
}

/* Fills outcomes and, of *out, the counts; replicas[run->replicas] take the sums of each one. */
static inline void reference_simulate_fleet(struct reference_fleet *out, struct reference *replicas,
                                            struct serving_outcome *outcomes, struct histogram *gaps,
                                            const struct fleet_run *run)
{
  double *last_token = reference_array(run->count, sizeof *last_token);
  *out = (struct reference_fleet){.run = run, .outcomes = outcomes, .replicas = replicas};
  memset(outcomes, 0, run->count * sizeof *outcomes);
  out->front = reference_array(run->count, sizeof *out->front);
  out->retries = reference_array(run->count, sizeof *out->retries);
  out->deadline = reference_array(run->count, sizeof *out->deadline);
  for (size_t row = 0; row < run->count; row++)
    out->deadline[row] = (double)INFINITY;
  for (uint32_t i = 0; i < run->replicas; i++)
    reference_init(&replicas[i], run, i, outcomes, gaps, last_token);
  reference_loop(out);
  for (uint32_t i = 0; i < run->replicas; i++) {
    free(replicas[i].running);
    free(replicas[i].waiting);
    free(replicas[i].incoming);
    free(replicas[i].cache);
  }
  free(out->front);
  free(out->retries);
  free(out->deadline);
  free(last_token);
}

#endif
