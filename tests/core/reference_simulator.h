/* The rules of core/serving.h once more, the slow way: every step is taken, every sequence looked at in every step, every
   block counted by walking over all sequences. No jumps, no heap, no phases. The simulation must agree with it; what is
   around a replica: tests/core/reference_fleet.h. */
#ifndef FITD_TESTS_CORE_REFERENCE_SIMULATOR_H
#define FITD_TESTS_CORE_REFERENCE_SIMULATOR_H

#include "tests/core/reference_memory.h"

static inline void reference_receive(struct reference *r, uint32_t row, double when)
{
  struct serving_outcome *o = &r->outcomes[row];
  double visible = when + (r->cost->server_s + r->cost->server_token_s * r->run->arrivals[row].input_tokens);
  if (visible < r->last_visible)
    visible = r->last_visible;
  r->last_visible = o->visible_s = r->visible[row] = visible;
  o->status = SERVING_UNFINISHED;
  o->replica = r->index;
  r->incoming[r->incoming_count++] = row;
  r->is_computed[row] = false;
  r->in_system++;
}

static inline void reference_look(struct reference *r, double now)
{
  const bool is_idle = r->running_count == 0;
  const double horizon = r->run->settings.has_look_ahead && !is_idle ? r->previous_start : now;
  if (!is_idle && r->since_recv < r->run->settings.recv_interval_steps)
    return;
  r->since_recv = 0;
  while (r->incoming_count != 0 && r->visible[r->incoming[0]] <= horizon) {
    r->waiting[r->waiting_count++] = r->incoming[0];
    memmove(r->incoming, r->incoming + 1, --r->incoming_count * sizeof *r->incoming);
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
  r->is_computed[victim->row] = false;
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
    left += reference_answer(r, q->row) - q->emitted;
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
  unused = reference_find_prefix(r, &q);
  q.computed = q.shared * s->kv_block_tokens;
  tokens = s->kv == SERVING_KV_RESERVE ? a->input_tokens + reference_answer(r, row) - 1 : q.need;
  q.blocks = reference_ceil(tokens, s->kv_block_tokens);
  if (r->running_count >= s->max_batch || *budget == 0 || r->is_computed[row])
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
  reference_use_prefix(r, &q);
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
  if (r->waiting_count == 0 || reference_has_partial(r) || r->is_computed[r->waiting[0]])
    return;
  if (r->running_count != 0 && r->since_admit % s->admit_interval_steps != 0)
    return;
  for (size_t i = 0; i < r->waiting_count; i++)
    if (!r->is_computed[r->waiting[i]])
      together += r->run->arrivals[r->waiting[i]].input_tokens + r->outcomes[r->waiting[i]].output_tokens;
  if (r->waited < s->batch_wait_steps && decoding != 0 && together < s->batch_wait_ratio * s->max_batched_tokens) {
    r->waited++;
    return;
  }
  r->waited = 0;
  while (r->waiting_count != 0 && reference_admit_one(r, &budget))
    ;
}

/* Blocks that all decodes take in the next step. */
static inline uint64_t reference_growth(const struct reference *r)
{
  const struct serving_settings *s = &r->run->settings;
  uint64_t blocks = 0;
  for (size_t i = 0; i < r->running_count && s->kv != SERVING_KV_RESERVE; i++) {
    const struct reference_sequence *q = &r->running[i];
    if (q->computed >= q->need)
      blocks += reference_ceil(q->computed + reference_step_tokens(r), s->kv_block_tokens) - q->blocks;
  }
  return blocks;
}

/* Those that come with their cache decode from this step on. */
static inline bool reference_join_one(struct reference *r)
{
  const struct serving_settings *s = &r->run->settings;
  const uint32_t row = r->waiting[0];
  const struct arrival *a = &r->run->arrivals[row];
  const uint32_t most = (uint32_t)ceil(reference_tokens_per_step(r));
  struct reference_sequence q = {.row = row, .computed = a->input_tokens, .need = a->input_tokens, .emitted = 1};
  uint32_t blocks, unused, spare = r->running_count != 0 ? (uint32_t)s->kv_watermark_blocks : 0;
  if (!r->is_computed[row] || r->running_count == s->max_batch)
    return false;
  q.blocks = reference_ceil(a->input_tokens, s->kv_block_tokens);
  blocks = reference_ceil(a->input_tokens + most, s->kv_block_tokens);
  if (s->kv == SERVING_KV_RESERVE)
    q.blocks = blocks = reference_ceil(a->input_tokens + a->output_tokens - 1, s->kv_block_tokens);
  q.need++; /* the token that its first step reads */
  unused = reference_find_prefix(r, &q);
  if (blocks - q.shared + unused + reference_growth(r) + spare > reference_free(r))
    return false;
  if (s->kv == SERVING_KV_RATIO && r->running_count != 0 && !reference_ratio_allows(r, &q, unused))
    return false;
  q.need--;
  q.last_token = r->last_token[row] = r->outcomes[row].first_s = r->now;
  r->outcomes[row].waited_s += r->now - r->visible[row];
  reference_use_prefix(r, &q);
  r->running[r->running_count++] = q;
  reference_evict(r);
  reference_keep_prefix(r, &r->running[r->running_count - 1]);
  memmove(r->waiting, r->waiting + 1, --r->waiting_count * sizeof *r->waiting);
  return true;
}

static inline void reference_schedule(struct reference *r)
{
  uint32_t budget = r->run->settings.max_batched_tokens;
  for (size_t i = 0; i < r->running_count; i++)
    r->running[i].chunk = 0;
  if (r->running_count == 0 || r->since_admit % r->run->settings.admit_interval_steps == 0)
    while (r->waiting_count != 0 && reference_join_one(r))
      ;
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
    const double chunk = n * c->prompt_token_s + c->prompt_pair_s * n * (before + n / 2);
    prompts += batch > 0 ? chunk : chunk - c->prompt_alone_saved_ratio * chunk;
  }
  return prompts > 0 ? seconds + prompts : seconds;
}

static inline void reference_emit(struct reference *r, struct reference_sequence *q, uint32_t most)
{
  struct serving_outcome *o = &r->outcomes[q->row];
  const bool is_first = q->emitted == 0;
  const uint32_t tokens = reference_min(most, reference_answer(r, q->row) - q->emitted);
  r->output_tokens += tokens;
  q->emitted += tokens;
  q->surplus = most - tokens;
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
  if (q->emitted == reference_answer(r, q->row) && q->emitted < r->run->arrivals[q->row].output_tokens) {
    q->is_ended = true;
    r->ended[r->ended_count++] = q->row;
    r->in_system--;
  } else if (q->emitted == r->run->arrivals[q->row].output_tokens) {
    o->finish_s = r->now;
    o->status = SERVING_COMPLETED;
    r->in_system--;
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

static inline bool reference_has_ended(const struct reference *r, const struct reference_sequence *q)
{
  return q->is_gone || q->is_ended || r->outcomes[q->row].status == SERVING_COMPLETED;
}

/* First those that nobody waits for, then in the order in which the answers ended, those of one prompt step last. */
static inline void reference_release_ended(struct reference *r, uint32_t step_tokens)
{
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].is_gone)
      reference_release(r, &r->running[i]);
  for (uint32_t surplus = step_tokens; surplus-- > 0;)
    for (size_t i = 0; i < r->running_count; i++) {
      const struct reference_sequence *q = &r->running[i];
      if (!q->is_gone && reference_has_ended(r, q) && q->surplus == surplus)
        reference_release(r, q);
    }
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
  reference_release_ended(r, tokens);
  for (size_t i = 0; i < r->running_count; i++)
    if (!reference_has_ended(r, &r->running[i]))
      r->running[kept++] = r->running[i];
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
  do { /* again when the last one was preempted */
    reference_look(r, now);
    if (r->running_count == 0 && r->waiting_count == 0) {
      r->since_admit = 0;
      return;
    }
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
  return r->incoming_count != 0 ? r->visible[r->incoming[0]] : (double)INFINITY;
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
  if (reference_take_out(r->incoming, &r->incoming_count, row) ||
      reference_take_out(r->waiting, &r->waiting_count, row)) {
    r->wasted_tokens += r->outcomes[row].output_tokens;
    return;
  }
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].row == row)
      r->running[i].is_gone = true;
}

#endif
