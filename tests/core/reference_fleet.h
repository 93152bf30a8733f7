/* The rules of core/fleet.h once more, the slow way: every event is found by looking at everybody. */
#ifndef FITD_TESTS_CORE_REFERENCE_FLEET_H
#define FITD_TESTS_CORE_REFERENCE_FLEET_H

#include "core/rng.h"
#include "tests/core/reference_simulator.h"

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

/* The least loaded from one index on, before another. */
static inline struct reference *reference_least(const struct reference_fleet *f, uint32_t from, uint32_t until)
{
  struct reference *least = &f->replicas[from];
  for (uint32_t i = from + 1; i < until; i++)
    if (f->replicas[i].in_system < least->in_system)
      least = &f->replicas[i];
  return least;
}

static inline void reference_dispatch(struct reference_fleet *f, uint32_t row)
{
  const uint32_t pool = f->run->prefill_replicas;
  reference_receive(reference_least(f, 0, pool != 0 ? pool : f->run->replicas), row, f->now);
}

static inline void reference_hand_over(struct reference_fleet *f, struct reference *from, uint32_t row)
{
  struct reference *to = reference_least(f, f->run->prefill_replicas, f->run->replicas);
  const double start = fmax(f->now, fmax(from->link_free, to->link_free));
  const double end = start + (f->run->transfer_s + f->run->transfer_token_s * f->run->arrivals[row].input_tokens);
  from->link_free = to->link_free = end;
  f->outcomes[row].waited_s = start - f->now;
  f->outcomes[row].replica = to->index;
  to->last_visible = to->visible[row] = fmax(end, to->last_visible);
  to->is_computed[row] = true;
  to->incoming[to->incoming_count++] = row;
  to->in_system++;
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
  o->visible_s = o->admitted_s = o->first_s = o->waited_s = 0;
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
    if (f->replicas[i].is_stepping && f->replicas[i].now <= f->now) {
      struct reference *r = &f->replicas[i];
      reference_finish_step(r);
      for (size_t k = 0; k < r->ended_count; k++)
        reference_hand_over(f, r, r->ended[k]);
      r->ended_count = 0;
    }
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
  r->visible = reference_array(run->count, sizeof *r->visible);
  r->is_computed = reference_array(run->count, sizeof *r->is_computed);
  r->ended = reference_array(run->count, sizeof *r->ended);
  r->has_prompts_only = index < run->prefill_replicas;
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
    free(replicas[i].visible);
    free(replicas[i].is_computed);
    free(replicas[i].ended);
  }
  free(out->front);
  free(out->retries);
  free(out->deadline);
  free(last_token);
}

#endif
