/* The rules of core/serving.h once more, the slow way: every step is taken, every sequence looked at in every step, every
   block counted by walking over all sequences. No jumps, no heap, no phases. core/serving.c must agree with it. */
#ifndef FITD_TESTS_CORE_REFERENCE_SIMULATOR_H
#define FITD_TESTS_CORE_REFERENCE_SIMULATOR_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/serving.h"

struct reference_sequence {
  uint32_t row, computed, need, emitted; /* computed < need: its prompt is not done */
  uint32_t blocks, shared;               /* all it sees, and those of the cache among them */
  bool has_step;                         /* takes part in the step that is being put together */
  uint32_t chunk;
};

struct reference {
  const struct serving_run *run;
  struct serving_outcome *outcomes;
  struct reference_sequence *running; /* in order of admission */
  size_t running_count;
  uint32_t *waiting; /* first to last */
  size_t waiting_count;
  size_t sent, visible;
  double now, previous_start, last_visible;
  uint64_t pool, cached;
  unsigned since_recv, since_admit, waited;
  double *last_token;
  struct histogram *gaps;
  double running_sequence_s, decode_sequence_s, busy_s;
  uint64_t steps, prompt_tokens, prompt_steps;
};

static inline uint32_t reference_ceil(uint32_t tokens, uint32_t size)
{
  return tokens / size + (tokens % size != 0);
}

static inline uint32_t reference_min(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

static inline uint64_t reference_free(const struct reference *r)
{
  uint64_t used = r->cached;
  for (size_t i = 0; i < r->running_count; i++)
    used += r->running[i].blocks - r->running[i].shared;
  ck_assert_msg(used <= r->pool, "%lu of %lu blocks in use", (unsigned long)used, (unsigned long)r->pool);
  return r->pool - used;
}

static inline bool reference_fits_at_all(const struct reference *r, uint32_t row)
{
  const struct serving_settings *s = &r->run->settings;
  const struct arrival *a = &r->run->arrivals[row];
  const uint32_t prefix = s->shared_prefix_tokens / s->kv_block_tokens;
  uint32_t own = reference_min(a->input_tokens, s->shared_prefix_tokens) / s->kv_block_tokens;
  own = reference_min(own, (a->input_tokens - 1) / s->kv_block_tokens);
  if (s->max_context_tokens != 0 && a->input_tokens + a->output_tokens > s->max_context_tokens)
    return false;
  return reference_ceil(a->input_tokens + a->output_tokens - 1, s->kv_block_tokens) + prefix - own <= r->pool;
}

static inline void reference_send(struct reference *r, double when)
{
  while (r->sent < r->run->count) {
    const uint32_t row = (uint32_t)r->sent++;
    struct serving_outcome *o = &r->outcomes[row];
    double visible = when + r->run->cost->server_s + r->run->cost->server_token_s * r->run->arrivals[row].input_tokens;
    o->send_s = when;
    o->status = reference_fits_at_all(r, row) ? SERVING_UNFINISHED : SERVING_REJECTED;
    if (o->status == SERVING_UNFINISHED) {
      if (visible < r->last_visible)
        visible = r->last_visible;
      r->last_visible = o->visible_s = visible;
    }
    if (o->status == SERVING_UNFINISHED || r->run->users == 0)
      return;
  }
}

static inline void reference_look(struct reference *r)
{
  const bool is_idle = r->running_count == 0;
  const double horizon = r->run->settings.has_look_ahead && !is_idle ? r->previous_start : r->now;
  if (!is_idle && r->since_recv < r->run->settings.recv_interval_steps)
    return;
  r->since_recv = 0;
  while (r->visible < r->sent &&
         (r->outcomes[r->visible].status == SERVING_REJECTED || r->outcomes[r->visible].visible_s <= horizon)) {
    if (r->outcomes[r->visible].status != SERVING_REJECTED)
      r->waiting[r->waiting_count++] = (uint32_t)r->visible;
    r->visible++;
  }
}

static inline void reference_preempt_last(struct reference *r)
{
  const struct reference_sequence *victim = &r->running[--r->running_count];
  memmove(r->waiting + 1, r->waiting, r->waiting_count * sizeof *r->waiting);
  r->waiting[0] = victim->row;
  r->waiting_count++;
  r->outcomes[victim->row].output_tokens = victim->emitted;
  r->outcomes[victim->row].preemptions++;
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
    if (s->kv != SERVING_KV_RESERVE && q->computed + 1 > q->blocks * s->kv_block_tokens) {
      while (reference_free(r) == 0 && i < r->running_count) {
        reference_preempt_last(r);
        has_preempted = true;
      }
      if (i >= r->running_count)
        break;
      q->blocks++;
    }
    q->has_step = true;
    --*budget;
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
static inline bool reference_ratio_allows(const struct reference *r, const struct reference_sequence *next)
{
  const struct serving_settings *s = &r->run->settings;
  double written = (double)r->cached * s->kv_block_tokens, left = 0;
  for (size_t i = 0; i <= r->running_count; i++) {
    const struct reference_sequence *q = i < r->running_count ? &r->running[i] : next;
    const uint32_t held = q->computed >= q->need && q->chunk == 0 ? q->computed : q->need;
    written += held - q->shared * s->kv_block_tokens;
    left += r->run->arrivals[q->row].output_tokens - q->emitted;
  }
  return written + s->kv_ratio * left <= (double)r->pool * s->kv_block_tokens;
}

static inline bool reference_admit_one(struct reference *r, uint32_t *budget)
{
  const struct serving_settings *s = &r->run->settings;
  const uint32_t row = r->waiting[0];
  const struct arrival *a = &r->run->arrivals[row];
  struct reference_sequence q = {.row = row, .emitted = r->outcomes[row].output_tokens};
  uint32_t tokens;
  q.need = a->input_tokens + q.emitted;
  q.shared = reference_min(reference_min(a->input_tokens, s->shared_prefix_tokens) / s->kv_block_tokens,
                           (q.need - 1) / s->kv_block_tokens);
  q.shared = reference_min(q.shared, (uint32_t)r->cached);
  q.computed = q.shared * s->kv_block_tokens;
  tokens = s->kv == SERVING_KV_RESERVE ? a->input_tokens + a->output_tokens - 1 : q.need;
  q.blocks = reference_ceil(tokens, s->kv_block_tokens);
  if (r->running_count >= s->max_batch || *budget == 0)
    return false;
  if (q.blocks - q.shared + (r->running_count != 0 ? s->kv_watermark_blocks : 0) > reference_free(r))
    return false;
  if (s->kv == SERVING_KV_RATIO && r->running_count != 0 && !reference_ratio_allows(r, &q))
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
  r->running[r->running_count++] = q;
  memmove(r->waiting, r->waiting + 1, --r->waiting_count * sizeof *r->waiting);
  return true;
}

static inline void reference_admit(struct reference *r, uint32_t budget)
{
  const struct serving_settings *s = &r->run->settings;
  const size_t decoding = reference_decoding(r);
  double together = (double)decoding;
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
  const struct serving_cost *c = r->run->cost;
  double batch = 0, context = 0, seconds = c->prompt_step_s, prompts = c->prompt_fixed_s;
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].has_step) {
      batch += 1;
      context += r->running[i].computed + 1;
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

static inline void reference_emit(struct reference *r, struct reference_sequence *q)
{
  struct serving_outcome *o = &r->outcomes[q->row];
  if (q->emitted == 0)
    o->first_s = r->now;
  else
    histogram_add(r->gaps, r->now - r->last_token[q->row], 1);
  r->last_token[q->row] = r->now;
  o->output_tokens = ++q->emitted;
  if (q->emitted == r->run->arrivals[q->row].output_tokens) {
    o->finish_s = r->now;
    o->status = SERVING_COMPLETED;
    if (r->run->users != 0)
      reference_send(r, r->now);
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
}

static inline void reference_finish_step(struct reference *r)
{
  size_t kept = 0;
  for (size_t i = 0; i < r->running_count; i++)
    if (r->running[i].has_step) {
      r->running[i].computed++;
      r->running[i].need++;
      reference_emit(r, &r->running[i]);
    }
  for (size_t i = 0; i < r->running_count; i++) {
    struct reference_sequence *q = &r->running[i];
    q->computed += q->chunk;
    if (q->chunk != 0 && q->computed == q->need) {
      reference_keep_prefix(r, q);
      reference_emit(r, q);
    }
  }
  for (size_t i = 0; i < r->running_count; i++)
    if (r->outcomes[r->running[i].row].status != SERVING_COMPLETED)
      r->running[kept++] = r->running[i];
  r->running_count = kept;
}

static inline void reference_step(struct reference *r)
{
  const struct serving_settings *s = &r->run->settings;
  double seconds;
  size_t decodes = 0;
  reference_schedule(r);
  for (size_t i = 0; i < r->running_count; i++)
    decodes += r->running[i].has_step;
  if (decodes == 0 && reference_prompt_tokens(r) == 0)
    return;
  seconds = reference_step_s(r);
  r->previous_start = r->now;
  r->now += seconds;
  r->busy_s += seconds;
  r->running_sequence_s += seconds * (double)r->running_count;
  r->decode_sequence_s += seconds * (double)decodes;
  r->steps++;
  r->prompt_tokens += reference_prompt_tokens(r);
  r->prompt_steps += reference_prompt_tokens(r) != 0;
  if (reference_prompt_tokens(r) != 0) {
    r->since_recv = s->recv_interval_steps; /* due at once */
    r->since_admit = 0;
  } else {
    r->since_recv++;
    r->since_admit++;
  }
  reference_finish_step(r);
}

static inline void reference_loop(struct reference *r)
{
  for (;;) {
    reference_look(r);
    if (r->running_count == 0 && r->waiting_count == 0) {
      if (r->visible == r->sent)
        return;
      r->now = r->previous_start = r->outcomes[r->visible].visible_s;
      r->since_admit = 0;
      continue;
    }
    reference_step(r);
  }
}

/* Fills outcomes and, of *out, the sums of time. */
static inline void reference_simulate(struct reference *out, struct serving_outcome *outcomes, struct histogram *gaps,
                                      const struct serving_run *run)
{
  struct reference *r = out;
  *r = (struct reference){.run = run, .outcomes = outcomes, .gaps = gaps};
  memset(outcomes, 0, run->count * sizeof *outcomes);
  r->pool = run->settings.kv_blocks != 0 ? run->settings.kv_blocks : UINT64_MAX / 4;
  r->running = calloc(run->settings.max_batch + 1, sizeof *r->running);
  r->waiting = calloc(run->count + 1, sizeof *r->waiting);
  r->last_token = calloc(run->count + 1, sizeof *r->last_token);
  ck_assert(r->running != NULL && r->waiting != NULL && r->last_token != NULL);
  if (run->users != 0)
    for (uint32_t user = 0; user < run->users; user++)
      reference_send(r, 0);
  else
    while (r->sent < run->count)
      reference_send(r, run->arrivals[r->sent].send_s);
  reference_loop(r);
  free(r->running);
  free(r->waiting);
  free(r->last_token);
}

#endif
