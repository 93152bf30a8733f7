/* The clock of the simulation: what is visible, how many steps are alike, how long they take, who gets a token at their
   end. The sum of k decode steps whose context grows by one token a sequence each is an arithmetic series. */
#include "core/serving_int.h"

#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#define STOP_POLL_ROUNDS 1024

static bool is_too_long(const struct serving_sim *sim, uint32_t row)
{
  const struct serving_settings *settings = sim->settings;
  const struct arrival *arrival = &sim->arrivals[row];
  const uint64_t tokens = (uint64_t)arrival->input_tokens + arrival->output_tokens;
  const uint64_t kept = settings->shared_prefix_tokens / settings->kv_block_tokens;
  const uint64_t shared = serving_hit_blocks(sim, row, (uint32_t)kept);
  if (settings->max_context_tokens != 0 && tokens > settings->max_context_tokens)
    return true;
  return serving_blocks(sim, tokens - 1) - shared + kept > sim->pool_blocks;
}

/* A request that can never run is refused at once; in a closed loop its user goes on with the next row. */
static void send_next(struct serving_sim *sim, double send_s)
{
  while (sim->next_row < sim->count) {
    const uint32_t row = (uint32_t)sim->next_row++;
    struct serving_outcome *outcome = &sim->outcomes[row];
    const double server_s = sim->cost->server_s + sim->cost->server_token_s * sim->arrivals[row].input_tokens;
    outcome->send_s = send_s;
    outcome->visible_s = fmax(sim->last_visible_s, send_s + server_s);
    sim->last_visible_s = outcome->visible_s;
    outcome->status = is_too_long(sim, row) ? SERVING_REJECTED : SERVING_UNFINISHED;
    if (outcome->status == SERVING_UNFINISHED)
      return;
    sim->totals->rejected++;
    if (!sim->is_closed)
      return;
  }
}

static void take_visible(struct serving_sim *sim)
{
  const bool is_idle = sim->running == 0;
  const double horizon_s = sim->settings->has_look_ahead && !is_idle ? sim->previous_start_s : sim->time_s;
  if (is_idle)
    sim->recv_phase = 0;
  if (sim->recv_phase != 0)
    return;
  for (; sim->next_visible < sim->next_row; sim->next_visible++) {
    const struct serving_outcome *outcome = &sim->outcomes[sim->next_visible];
    if (outcome->status == SERVING_REJECTED)
      continue;
    if (outcome->visible_s > horizon_s)
      break;
    sim->waiting_tokens += sim->arrivals[sim->next_visible].input_tokens;
  }
  serving_skip_rejected(sim);
}

/* Decode steps of the present batch: the first one's length and what each adds to the one before. */
struct pace {
  double first_s, slope_s;
};

static double elapsed_s(const struct pace *pace, uint64_t steps)
{
  const double k = (double)steps;
  return k * pace->first_s + pace->slope_s * (0.5 * k * (k - 1));
}

/* Fewest steps, at most `most`, that end at `when_s` or later. */
static uint64_t steps_until(const struct serving_sim *sim, const struct pace *pace, double when_s, uint64_t most)
{
  const double left_s = when_s - sim->time_s;
  const double b = pace->first_s - 0.5 * pace->slope_s;
  uint64_t steps;
  if (left_s <= 0)
    return 0;
  if (sim->time_s + elapsed_s(pace, most) < when_s)
    return most;
  steps = (uint64_t)(2 * left_s / (b + sqrt(b * b + 2 * pace->slope_s * left_s)));
  while (steps > 0 && sim->time_s + elapsed_s(pace, steps - 1) >= when_s)
    steps--;
  while (steps < most && sim->time_s + elapsed_s(pace, steps) < when_s)
    steps++;
  return steps;
}

/* … until the next arrival is taken in: at a step end that polls, one step late with look-ahead. */
static uint64_t arrival_steps(const struct serving_sim *sim, const struct pace *pace, uint64_t most)
{
  const uint64_t interval = sim->settings->recv_interval_steps;
  const uint64_t late = sim->settings->has_look_ahead ? 1 : 0;
  uint64_t steps, over;
  if (sim->next_visible == sim->next_row)
    return most;
  steps = steps_until(sim, pace, sim->outcomes[sim->next_visible].visible_s, most) + late;
  if (steps == 0)
    steps = 1;
  over = (sim->recv_phase + steps) % interval;
  return over == 0 ? steps : steps + interval - over;
}

static uint64_t jump_steps(const struct serving_sim *sim, const struct serving_step *step, const struct pace *pace)
{
  uint64_t steps = sim->slots[sim->heap[0]].finish_step - sim->decode_step;
  const uint64_t scheduled = serving_schedule_steps(step, sim);
  uint64_t arriving;
  if (step->prompt_tokens != 0)
    return 1;
  if (scheduled < steps)
    steps = scheduled;
  steps = serving_growth_steps(sim, steps);
  arriving = arrival_steps(sim, pace, steps);
  return arriving < steps ? arriving : steps;
}

static void finish(struct serving_sim *sim, uint32_t slot)
{
  const uint32_t row = sim->slots[slot].request;
  struct serving_outcome *outcome = &sim->outcomes[row];
  serving_leave(sim, slot);
  outcome->output_tokens = sim->arrivals[row].output_tokens;
  outcome->finish_s = sim->time_s;
  outcome->status = SERVING_COMPLETED;
  sim->totals->completed++;
  sim->totals->end_s = sim->time_s;
  if (sim->is_closed)
    send_next(sim, sim->time_s);
}

/* Its prompt is done: a token, the first one or after a preemption the next. */
static void complete_prompt(struct serving_sim *sim, uint32_t slot)
{
  const uint32_t row = sim->slots[slot].request;
  struct serving_outcome *outcome = &sim->outcomes[row];
  serving_keep_prefix(sim, slot);
  sim->totals->output_tokens++;
  sim->remaining_tokens--;
  if (outcome->output_tokens == 0)
    outcome->first_s = sim->time_s;
  else if (sim->itl != NULL)
    histogram_add(sim->itl, sim->time_s - outcome->finish_s, 1);
  if (outcome->output_tokens + 1 == sim->arrivals[row].output_tokens) {
    finish(sim, slot);
    return;
  }
  outcome->output_tokens++;
  serving_start_decoding(sim, slot);
  if (sim->itl != NULL)
    serving_gaps_joined(sim);
}

static void count_time(struct serving_sim *sim, const struct serving_step *step, double seconds, uint64_t steps)
{
  struct serving_totals *totals = sim->totals;
  totals->busy_s += seconds;
  totals->running_sequence_s += sim->running * seconds;
  totals->prompt_tokens += step->prompt_tokens;
  totals->prompt_steps += step->prompt_tokens != 0;
  if (!step->has_decodes)
    return;
  totals->decode_sequence_s += sim->decoding * seconds;
  totals->decode_steps += steps;
}

static void decode(struct serving_sim *sim, const struct pace *pace, double first_end_s, uint64_t steps)
{
  if (sim->itl != NULL)
    serving_gaps_decoded(sim, first_end_s, pace->first_s, pace->slope_s, steps);
  sim->last_decode_s = sim->time_s;
  serving_decode_steps(sim, steps);
  while (sim->decoding != 0 && sim->slots[sim->heap[0]].finish_step <= sim->decode_step)
    finish(sim, sim->heap[0]);
}

static void run_step(struct serving_sim *sim, const struct serving_step *step)
{
  struct pace pace = {.first_s = sim->cost->prompt_step_s};
  uint64_t steps = 1;
  double seconds, prompts_s = 0;
  const double start_s = sim->time_s;
  if (step->has_decodes) {
    const struct serving_decode *decode = serving_segment(sim->cost, sim->decoding);
    pace.first_s =
        decode->step_s + decode->sequence_s * sim->decoding + decode->context_token_s * (double)sim->context_tokens;
    pace.slope_s = decode->context_token_s * sim->decoding;
    steps = jump_steps(sim, step, &pace);
  }
  if (step->prompt_tokens != 0)
    prompts_s = fmax(0, step->prompt_s + sim->cost->prompt_fixed_s);
  seconds = elapsed_s(&pace, steps) + prompts_s;
  count_time(sim, step, seconds, steps);
  sim->previous_start_s = start_s + elapsed_s(&pace, steps - 1);
  sim->time_s = start_s + seconds;
  if (step->prompt_tokens != 0)
    sim->recv_phase = sim->admit_phase = 0;
  else
    serving_schedule_skip(sim, steps);
  if (step->has_decodes)
    decode(sim, &pace, start_s + pace.first_s + prompts_s, steps);
  for (uint32_t i = 0; i < sim->completed_count; i++)
    complete_prompt(sim, sim->completed[i]);
}

/* One event; false when nothing is left to come. */
static bool advance(struct serving_sim *sim)
{
  struct serving_step step;
  take_visible(sim);
  if (sim->running == 0 && serving_waiting_head(sim) == SERVING_NONE) {
    if (sim->next_visible == sim->next_row)
      return false;
    sim->time_s = sim->outcomes[sim->next_visible].visible_s;
    sim->previous_start_s = sim->time_s;
    sim->admit_phase = 0;
    return true;
  }
  serving_schedule(&step, sim);
  if (step.has_decodes || step.prompt_tokens != 0)
    run_step(sim, &step);
  return true;
}

static enum err advance_all(struct serving_sim *sim, const struct serving_run *run, struct error *e)
{
  for (uint64_t round = 1; advance(sim); round++)
    if (round % STOP_POLL_ROUNDS == 0 && run->stop != NULL && run->stop(run->stop_cls))
      return error_set(e, ERR_CANCELLED, "", "the simulation was stopped");
  return ERR_OK;
}

static void send_first(struct serving_sim *sim, const struct serving_run *run)
{
  if (sim->is_closed)
    for (uint32_t user = 0; user < run->users; user++)
      send_next(sim, 0);
  else
    while (sim->next_row < sim->count)
      send_next(sim, sim->arrivals[sim->next_row].send_s);
}

static enum err check(const struct serving_run *run, struct error *e)
{
  const struct serving_settings *settings = &run->settings;
  if (run->count >= SERVING_NONE)
    return error_set(e, ERR_INVALID, "", "%zu requests are more than one simulation takes", run->count);
  if (settings->max_batch == 0 || settings->max_batched_tokens < settings->max_batch)
    return error_set(e, ERR_INVALID, "/serving/max_batch",
                     "%u sequences do not share a step of max_batched_tokens %u: expected 1 up to that",
                     settings->max_batch, settings->max_batched_tokens);
  if (settings->kv_block_tokens == 0 || settings->recv_interval_steps == 0 || settings->admit_interval_steps == 0)
    return error_set(e, ERR_INVALID, "/serving", "a block of 0 tokens or an interval of 0 steps");
  if (settings->batch_wait_steps != 0 && settings->admit_interval_steps > 1)
    return error_set(e, ERR_INVALID, "/serving/batch_wait_steps", "a batch wait with an interval between admissions");
  if (settings->kv == SERVING_KV_RATIO && !(settings->kv_ratio >= 0 && settings->kv_ratio <= 1))
    return error_set(e, ERR_INVALID, "/serving", "a share %g of the answers to come; expected 0 to 1",
                     settings->kv_ratio);
  return ERR_OK;
}

static uint32_t slot_count(const struct serving_run *run)
{
  return run->count < run->settings.max_batch ? (uint32_t)run->count : run->settings.max_batch;
}

static size_t rounded_bytes(size_t count, size_t size)
{
  const size_t alignment = alignof(max_align_t);
  return (count * size + alignment - 1) / alignment * alignment;
}

size_t serving_arena_bytes(const struct serving_run *run)
{
  const size_t slots = slot_count(run);
  return alignof(max_align_t) + rounded_bytes(slots, sizeof(struct serving_slot)) +
         4 * rounded_bytes(slots, sizeof(uint32_t)) + rounded_bytes(slots, sizeof(struct serving_joined)) +
         rounded_bytes(run->settings.kv_block_tokens, sizeof(uint32_t));
}

static enum err allocate(struct serving_sim *sim, uint32_t slots, struct arena *arena, struct error *e)
{
  sim->slots = arena_alloc(arena, slots, sizeof *sim->slots);
  sim->free_slots = arena_alloc(arena, slots, sizeof *sim->free_slots);
  sim->heap = arena_alloc(arena, slots, sizeof *sim->heap);
  sim->completed = arena_alloc(arena, slots, sizeof *sim->completed);
  sim->preempted = arena_alloc(arena, slots, sizeof *sim->preempted);
  sim->joined = arena_alloc(arena, slots, sizeof *sim->joined);
  sim->growth = arena_alloc(arena, sim->settings->kv_block_tokens, sizeof *sim->growth);
  if (sim->slots == NULL || sim->free_slots == NULL || sim->heap == NULL || sim->completed == NULL ||
      sim->preempted == NULL || sim->joined == NULL || sim->growth == NULL)
    return error_set(e, ERR_LIMIT, "", "the simulation of %u sequences does not fit into the arena", slots);
  for (uint32_t slot = 0; slot < slots; slot++)
    sim->free_slots[sim->free_count++] = slots - 1 - slot;
  return ERR_OK;
}

enum err serving_simulate(struct serving_outcome *outcomes, struct serving_totals *totals,
                          const struct serving_run *run, struct arena *arena, struct error *e)
{
  const size_t mark = arena_mark(arena);
  const uint64_t unlimited = UINT64_MAX / 4;
  struct serving_sim sim = {.settings = &run->settings,
                            .cost = run->cost,
                            .arrivals = run->arrivals,
                            .outcomes = outcomes,
                            .totals = totals,
                            .itl = run->itl,
                            .count = run->count,
                            .is_closed = run->users != 0,
                            .partial = SERVING_NONE,
                            .oldest = SERVING_NONE,
                            .newest = SERVING_NONE};
  enum err err = check(run, e);
  memset(totals, 0, sizeof *totals);
  if (err != ERR_OK || run->count == 0)
    return err;
  memset(outcomes, 0, run->count * sizeof *outcomes);
  sim.pool_blocks = run->settings.kv_blocks != 0 ? run->settings.kv_blocks : unlimited;
  err = allocate(&sim, slot_count(run), arena, e);
  if (err == ERR_OK) {
    send_first(&sim, run);
    err = advance_all(&sim, run, e);
  }
  arena_release(arena, mark);
  return err;
}
