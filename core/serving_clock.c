/* The clock of a replica: what is visible, how many steps are alike, how long they take, who gets a token at their end.
   The sum of k decode steps whose context grows by one token a sequence each is an arithmetic series. */
#include "core/serving_int.h"

#include <math.h>
#include <stddef.h>

static void take_visible(struct serving_sim *sim)
{
  const bool is_idle = sim->running == 0;
  if (is_idle)
    sim->recv_phase = 0;
  if (sim->recv_phase == 0)
    serving_queue_see(sim, sim->settings->has_look_ahead && !is_idle ? sim->previous_start_s : sim->time_s);
}

static double elapsed_s(const struct serving_pace *pace, uint64_t steps)
{
  const double k = (double)steps;
  return k * pace->first_s + pace->slope_s * (0.5 * k * (k - 1));
}

/* Fewest steps, at most `most`, that end at `when_s` or later. */
static uint64_t steps_until(const struct serving_sim *sim, double when_s, uint64_t most)
{
  const struct serving_pace *pace = &sim->pace;
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
static uint64_t arrival_steps(const struct serving_sim *sim, uint64_t most)
{
  const uint64_t interval = sim->settings->recv_interval_steps;
  const uint64_t late = sim->settings->has_look_ahead ? 1 : 0;
  uint64_t steps, over;
  if (sim->unseen == SERVING_NONE || most == 1)
    return most;
  steps = steps_until(sim, sim->links[sim->unseen].visible_s, most) + late;
  if (steps == 0)
    steps = 1;
  over = (sim->recv_phase + steps) % interval;
  if (over != 0)
    steps += interval - over;
  return steps < most ? steps : most;
}

/* … until something finishes, memory runs out or the schedule changes of itself. */
static uint64_t alike_steps(const struct serving_sim *sim)
{
  uint64_t finishing, scheduled;
  if (!sim->step.has_decodes || sim->step.prompt_tokens != 0)
    return 1;
  finishing = serving_step_of(sim, sim->heap[0].clock) - sim->decode_step;
  scheduled = serving_schedule_steps(&sim->step, sim);
  return serving_growth_steps(sim, scheduled < finishing ? scheduled : finishing);
}

static void set_steps(struct serving_sim *sim, uint64_t steps)
{
  sim->steps = steps;
  sim->end_s = sim->time_s + (elapsed_s(&sim->pace, steps) + sim->prompts_s);
}

static void set_pace(struct serving_sim *sim)
{
  const struct serving_step *step = &sim->step;
  const struct serving_decode *decode = serving_segment(sim->cost, sim->decoding);
  sim->pace = (struct serving_pace){.first_s = sim->cost->prompt_step_s * sim->pace_ratio};
  if (step->has_decodes) {
    /* tokens come whole, the mean context that steps read grows evenly */
    const double uneven = (double)sim->decode_step * sim->tokens_per_step - (double)sim->token_clock;
    const double context_tokens = (double)sim->context_tokens + sim->decoding * uneven;
    const double first_s =
        decode->step_s + decode->sequence_s * sim->decoding + decode->context_token_s * context_tokens;
    sim->pace.first_s = first_s * sim->pace_ratio;
    sim->pace.slope_s = decode->context_token_s * (sim->decoding * sim->tokens_per_step) * sim->pace_ratio;
  }
  sim->prompts_s = 0;
  if (step->prompt_tokens != 0) {
    const double part = step->has_decodes ? 1 : 1 - sim->cost->prompt_alone_saved_ratio;
    sim->prompts_s = fmax(0, part * step->prompt_s + sim->cost->prompt_fixed_s) * sim->pace_ratio;
  }
}

void serving_plan(struct serving_sim *sim)
{
  serving_drop_orphans(sim);
  do {
    take_visible(sim);
    if (sim->running == 0 && serving_waiting_head(sim) == SERVING_NONE) {
      sim->phase = SERVING_RESTING;
      return;
    }
    serving_schedule(&sim->step, sim); /* carries nothing when the last one was preempted: it comes back at once */
  } while (!sim->step.has_decodes && sim->step.prompt_tokens == 0);
  set_pace(sim);
  set_steps(sim, arrival_steps(sim, alike_steps(sim)));
  sim->phase = SERVING_STEPPING;
}

double serving_next_s(const struct serving_sim *sim)
{
  if (sim->phase == SERVING_STEPPING)
    return sim->end_s;
  return sim->unseen != SERVING_NONE ? sim->links[sim->unseen].visible_s : (double)INFINITY;
}

/* ---- what happens from outside ---- */

bool serving_is_too_long(const struct serving_sim *sim, uint32_t request)
{
  const struct serving_settings *settings = sim->settings;
  const struct arrival *arrival = &sim->arrivals[request];
  const uint64_t tokens = (uint64_t)arrival->input_tokens + arrival->output_tokens;
  const uint64_t kept = settings->shared_prefix_tokens / settings->kv_block_tokens;
  const uint64_t shared = serving_hit_blocks(sim, request, (uint32_t)kept);
  uint64_t surplus = 0; /* of the last step, beyond the answer */
  if (settings->max_context_tokens != 0 && tokens > settings->max_context_tokens)
    return true;
  if (settings->kv != SERVING_KV_RESERVE)
    surplus = serving_step_tokens_most(sim) - 1;
  return serving_blocks(sim, tokens - 1 + surplus) - shared + kept > sim->pool_blocks;
}

static void offer(struct serving_sim *sim, uint32_t request, double visible_s, bool is_computed)
{
  serving_queue_append(sim, request, visible_s, is_computed);
  if (sim->phase == SERVING_STEPPING && sim->unseen == request)
    set_steps(sim, arrival_steps(sim, sim->steps));
}

void serving_offer(struct serving_sim *sim, uint32_t request, double now_s)
{
  const double server_s = sim->cost->server_s + sim->cost->server_token_s * sim->arrivals[request].input_tokens;
  struct serving_outcome *outcome = &sim->outcomes[request];
  offer(sim, request, now_s + server_s, false);
  outcome->visible_s = sim->last_visible_s;
  outcome->status = SERVING_UNFINISHED;
}

void serving_offer_computed(struct serving_sim *sim, uint32_t request, double arrives_s)
{
  offer(sim, request, arrives_s, true);
}

/* A step that is under way is finished as it was begun. */
static void end_soon(struct serving_sim *sim, double now_s)
{
  uint64_t steps;
  if (sim->phase != SERVING_STEPPING)
    return;
  steps = steps_until(sim, now_s, sim->steps);
  set_steps(sim, steps != 0 ? steps : 1);
}

static void add_orphan(struct serving_sim *sim, uint32_t slot)
{
  uint32_t place = sim->orphan_count++;
  for (; place > 0 && sim->slots[sim->orphans[place - 1]].number > sim->slots[slot].number; place--)
    sim->orphans[place] = sim->orphans[place - 1];
  sim->orphans[place] = slot;
  sim->slots[slot].is_orphan = true;
}

void serving_abandon(struct serving_sim *sim, uint32_t request, double now_s)
{
  const uint32_t slot = sim->links[request].slot;
  if (slot == SERVING_NONE) {
    sim->totals->wasted_tokens += sim->outcomes[request].output_tokens;
    serving_queue_remove(sim, request);
  } else {
    add_orphan(sim, slot);
  }
  end_soon(sim, now_s);
}

void serving_set_pace(struct serving_sim *sim, double ratio, double now_s)
{
  sim->pace_ratio = ratio;
  end_soon(sim, now_s);
}

/* ---- the end of a step ---- */

/* A matter of the client alone: the engine goes on meanwhile. */
static double late_s(const struct serving_sim *sim, uint32_t request)
{
  const uint32_t cached = sim->outcomes[request].cached_tokens;
  if (!(sim->cost->prompt_late_ratio > 0))
    return 0;
  return sim->cost->prompt_late_ratio *
         serving_prompt_s(sim->cost, sim->arrivals[request].input_tokens - cached, cached);
}

static void finish(struct serving_sim *sim, uint32_t slot)
{
  const uint32_t request = sim->slots[slot].request;
  struct serving_outcome *outcome = &sim->outcomes[request];
  serving_leave(sim, slot);
  sim->links[request].slot = SERVING_NONE;
  outcome->output_tokens = serving_answer_tokens(sim, request);
  sim->totals->end_s = sim->time_s;
  sim->ended[sim->ended_count++] = request;
  if (outcome->output_tokens != sim->arrivals[request].output_tokens)
    return;
  outcome->finish_s = sim->time_s + late_s(sim, request);
  outcome->status = SERVING_COMPLETED;
  sim->totals->completed++;
}

/* Its prompt is done: a token, the first one or after a preemption the next. */
static void complete_prompt(struct serving_sim *sim, uint32_t slot)
{
  const uint32_t request = sim->slots[slot].request;
  struct serving_outcome *outcome = &sim->outcomes[request];
  sim->totals->output_tokens++;
  if (sim->slots[slot].is_orphan) {
    sim->totals->wasted_tokens++;
    return;
  }
  serving_keep_prefix(sim, slot);
  sim->remaining_tokens--;
  if (outcome->output_tokens == 0)
    outcome->first_s = sim->time_s + late_s(sim, request);
  else if (sim->itl != NULL)
    histogram_add(sim->itl, sim->time_s - outcome->finish_s, 1);
  if (outcome->output_tokens + 1 == serving_answer_tokens(sim, request)) {
    finish(sim, slot);
    return;
  }
  outcome->output_tokens++;
  serving_start_decoding(sim, slot);
  if (sim->itl != NULL)
    serving_gaps_joined(sim, slot);
}

static void count_time(struct serving_sim *sim, double seconds)
{
  struct serving_totals *totals = sim->totals;
  const struct serving_step *step = &sim->step;
  totals->busy_s += seconds;
  totals->running_sequence_s += sim->running * seconds;
  totals->prompt_tokens += step->prompt_tokens;
  totals->prompt_steps += step->prompt_tokens != 0;
  if (!step->has_decodes)
    return;
  totals->decode_sequence_s += sim->decoding * seconds;
  totals->decode_steps += sim->steps;
}

static void emit(struct serving_sim *sim, double start_s)
{
  const bool has_decodes = sim->step.has_decodes;
  if (has_decodes) {
    if (sim->itl != NULL)
      serving_gaps_decoded(sim, start_s + sim->pace.first_s + sim->prompts_s);
    sim->last_decode_s = sim->time_s;
    serving_decode_steps(sim, sim->steps);
  }
  serving_drop_orphans(sim);
  while (has_decodes && sim->decoding != 0 && sim->heap[0].clock <= sim->token_clock)
    finish(sim, sim->heap[0].slot);
  for (uint32_t i = 0; i < sim->completed_count; i++)
    complete_prompt(sim, sim->completed[i]);
}

void serving_commit(struct serving_sim *sim)
{
  const double start_s = sim->time_s;
  sim->ended_count = 0;
  if (sim->phase == SERVING_RESTING) {
    sim->time_s = sim->previous_start_s = serving_next_s(sim);
    sim->admit_phase = 0;
    sim->phase = SERVING_AT_BOUNDARY;
    return;
  }
  count_time(sim, elapsed_s(&sim->pace, sim->steps) + sim->prompts_s);
  sim->previous_start_s = start_s + elapsed_s(&sim->pace, sim->steps - 1);
  sim->time_s = sim->end_s;
  sim->phase = SERVING_AT_BOUNDARY;
  if (sim->step.prompt_tokens != 0)
    sim->recv_phase = sim->admit_phase = 0;
  else
    serving_schedule_skip(sim, sim->steps);
  emit(sim, start_s);
}
