/* What the next step carries, by the rules of SERVING §2. A request that can not be admitted stays so until something
   finishes, is preempted or arrives, or a counter of steps runs out: that is what lets the simulation jump. */
#include "core/serving_int.h"

/* The answers still to come, weighed, beside all that is written: only growing while nothing leaves, as the ratio is ≤ 1. */
static bool ratio_allows(const struct serving_sim *sim, uint32_t request, const struct serving_hit *hit)
{
  const struct serving_settings *settings = sim->settings;
  const uint64_t size = settings->kv_block_tokens;
  const uint32_t left = serving_answer_tokens(sim, request) - sim->outcomes[request].output_tokens;
  const uint64_t held = sim->held_blocks + hit->idle_blocks - hit->blocks;
  const uint64_t written = sim->own_tokens + held * size + serving_need_tokens(sim, request);
  return (double)written + settings->kv_ratio * (double)(sim->remaining_tokens + left) <=
         (double)(sim->pool_blocks * size);
}

static bool memory_allows(const struct serving_sim *sim, uint32_t request, const struct serving_hit *hit)
{
  const uint64_t free_blocks = sim->pool_blocks - sim->used_blocks - sim->claimed_blocks;
  const uint64_t spare = sim->running != 0 ? sim->settings->kv_watermark_blocks : 0;
  if (serving_admission_blocks(sim, request, hit) + spare > free_blocks)
    return false;
  return sim->settings->kv != SERVING_KV_RATIO || sim->running == 0 || ratio_allows(sim, request, hit);
}

/* Tokens of its prompt that a request may compute in this step; 0 = none. A whole prompt above the budget goes alone. */
static uint32_t chunk_tokens(const struct serving_sim *sim, uint32_t need, uint32_t budget, bool has_prompts)
{
  if (need <= budget)
    return need;
  if (!sim->settings->has_whole_prompts)
    return budget;
  return need > sim->settings->max_batched_tokens && !has_prompts ? need : 0;
}

static void add_chunk(struct serving_step *step, struct serving_sim *sim, uint32_t slot, uint32_t done, uint32_t tokens)
{
  const uint32_t need = sim->slots[slot].need_tokens;
  step->prompt_tokens += tokens;
  step->prompt_s += serving_prompt_s(sim->cost, tokens, done);
  if (done + tokens == need) {
    sim->completed[sim->completed_count++] = slot;
    sim->partial = SERVING_NONE;
  } else {
    sim->partial = slot;
    sim->partial_done_tokens = done + tokens;
  }
}

static void continue_partial(struct serving_step *step, struct serving_sim *sim, uint32_t *budget)
{
  uint32_t left;
  if (sim->partial == SERVING_NONE || *budget == 0)
    return;
  left = sim->slots[sim->partial].need_tokens - sim->partial_done_tokens;
  if (left > *budget)
    left = *budget;
  *budget -= left;
  add_chunk(step, sim, sim->partial, sim->partial_done_tokens, left);
}

static void note_admission(struct serving_sim *sim, uint32_t request, uint32_t cached_tokens)
{
  struct serving_outcome *outcome = &sim->outcomes[request];
  sim->totals->cached_tokens += cached_tokens;
  if (outcome->preemptions != 0)
    return;
  outcome->admitted_s = sim->time_s;
  outcome->cached_tokens = cached_tokens;
}

static void admit_waiting(struct serving_step *step, struct serving_sim *sim, uint32_t budget)
{
  for (uint32_t request = serving_waiting_head(sim); request != SERVING_NONE; request = serving_waiting_head(sim)) {
    struct serving_hit hit;
    uint32_t tokens, slot, cached;
    if (sim->running == sim->settings->max_batch || budget == 0 || sim->links[request].is_computed)
      return;
    hit = serving_hit_of(sim, request);
    if (!memory_allows(sim, request, &hit))
      return;
    cached = hit.blocks * sim->settings->kv_block_tokens;
    tokens = chunk_tokens(sim, serving_need_tokens(sim, request) - cached, budget, step->prompt_tokens != 0);
    if (tokens == 0)
      return;
    serving_queue_remove(sim, request);
    slot = serving_admit(sim, request, &hit);
    note_admission(sim, request, cached);
    budget -= tokens < budget ? tokens : budget;
    add_chunk(step, sim, slot, cached, tokens);
  }
}

/* Of a step's budget. */
static uint32_t decode_tokens(const struct serving_sim *sim)
{
  return sim->decoding * (1 + sim->settings->draft_tokens);
}

/* TensorRT-LLM's batch wait: while something decodes, prompts wait for company. */
static bool has_few_prompts(const struct serving_sim *sim)
{
  const struct serving_settings *settings = sim->settings;
  return settings->batch_wait_steps != 0 && sim->decoding != 0 &&
         (double)(decode_tokens(sim) + sim->waiting_tokens) < settings->batch_wait_ratio * settings->max_batched_tokens;
}

static bool is_held(const struct serving_sim *sim)
{
  return sim->waited_steps < sim->settings->batch_wait_steps && has_few_prompts(sim);
}

/* Requests that came with their cache take no part in what prompts do. */
static bool has_prompt_waiting(const struct serving_sim *sim)
{
  const uint32_t request = serving_waiting_head(sim);
  return request != SERVING_NONE && !sim->links[request].is_computed;
}

static bool is_admitting(struct serving_sim *sim)
{
  if (!has_prompt_waiting(sim))
    return false;
  if (sim->admit_phase != 0 && sim->running != 0)
    return false;
  sim->waited_steps = is_held(sim) ? sim->waited_steps + 1 : 0;
  return sim->waited_steps == 0;
}

/* Room for the tokens that this step's decodes write. */
static void make_room(struct serving_step *step, struct serving_sim *sim)
{
  while (sim->decoding != 0 && serving_growth_blocks(sim, 1) > sim->pool_blocks - sim->used_blocks) {
    serving_cache_shrink(sim, 0); /* the older ones have taken all there was */
    serving_preempt_newest(sim);
    step->has_preempted = true;
  }
  step->has_decodes = sim->decoding != 0;
}

static void schedule_mixed(struct serving_step *step, struct serving_sim *sim)
{
  uint32_t budget;
  make_room(step, sim);
  sim->claimed_blocks = serving_growth_blocks(sim, 1);
  serving_make_room(sim);
  budget = sim->settings->max_batched_tokens - decode_tokens(sim);
  continue_partial(step, sim, &budget);
  if (!step->has_preempted && sim->partial == SERVING_NONE && is_admitting(sim))
    admit_waiting(step, sim, budget);
}

static void schedule_prefill_first(struct serving_step *step, struct serving_sim *sim)
{
  uint32_t budget = sim->settings->max_batched_tokens;
  continue_partial(step, sim, &budget);
  if (sim->partial == SERVING_NONE && is_admitting(sim))
    admit_waiting(step, sim, budget);
  if (step->prompt_tokens == 0)
    make_room(step, sim);
}

/* From here on its client sees its first token. */
static void join(struct serving_sim *sim, uint32_t request, const struct serving_hit *hit)
{
  struct serving_outcome *outcome = &sim->outcomes[request];
  uint32_t slot;
  serving_queue_remove(sim, request);
  slot = serving_admit_computed(sim, request, hit);
  serving_keep_prefix(sim, slot);
  serving_start_decoding(sim, slot);
  if (sim->itl != NULL)
    serving_gaps_joined(sim, slot);
  outcome->first_s = sim->time_s;
  outcome->waited_s += sim->time_s - sim->links[request].visible_s;
}

static bool computed_fits(const struct serving_sim *sim, uint32_t request, const struct serving_hit *hit)
{
  const uint64_t spare = sim->running != 0 ? sim->settings->kv_watermark_blocks : 0;
  if (sim->running == sim->settings->max_batch ||
      serving_computed_blocks(sim, request, hit) + spare > sim->pool_blocks - sim->used_blocks)
    return false;
  return sim->settings->kv != SERVING_KV_RATIO || sim->running == 0 || ratio_allows(sim, request, hit);
}

/* Answers whose prompts were computed elsewhere decode from this step on. */
static void join_computed(struct serving_sim *sim)
{
  if (sim->admit_phase != 0 && sim->running != 0)
    return;
  for (uint32_t request = serving_waiting_head(sim); request != SERVING_NONE; request = serving_waiting_head(sim)) {
    const struct serving_hit hit = serving_hit_of(sim, request);
    if (!sim->links[request].is_computed || !computed_fits(sim, request, &hit))
      return;
    join(sim, request, &hit);
  }
}

void serving_schedule(struct serving_step *step, struct serving_sim *sim)
{
  *step = (struct serving_step){0};
  sim->completed_count = 0;
  if (sim->part == SERVING_ANSWERS)
    join_computed(sim);
  if (sim->settings->is_prefill_first)
    schedule_prefill_first(step, sim);
  else
    schedule_mixed(step, sim);
}

uint64_t serving_schedule_steps(const struct serving_step *step, const struct serving_sim *sim)
{
  if (serving_waiting_head(sim) == SERVING_NONE)
    return UINT64_MAX;
  if (step->has_preempted)
    return 1;
  if (sim->admit_phase != 0)
    return sim->settings->admit_interval_steps - sim->admit_phase;
  if (sim->waited_steps != 0)
    return sim->settings->batch_wait_steps - sim->waited_steps + 1;
  return UINT64_MAX;
}

/* The boundaries within a jump look at the waiting ones too. */
void serving_schedule_skip(struct serving_sim *sim, uint64_t steps)
{
  const struct serving_settings *settings = sim->settings;
  if (has_few_prompts(sim) && has_prompt_waiting(sim))
    sim->waited_steps = (uint32_t)((sim->waited_steps + steps - 1) % (settings->batch_wait_steps + 1));
  sim->recv_phase = (uint32_t)((sim->recv_phase + steps) % settings->recv_interval_steps);
  sim->admit_phase = (uint32_t)((sim->admit_phase + steps) % settings->admit_interval_steps);
}
