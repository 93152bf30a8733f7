/* The running set: admission order as a list, decodes as a heap by their last step, KV blocks by counting. Sequences that
   decode all grow by a token a step, so it is enough to know how many of them cross a block's end at which phase. */
#include "core/serving_int.h"

#include <assert.h>
#include <math.h>

uint64_t serving_blocks(const struct serving_sim *sim, uint64_t tokens)
{
  const uint64_t size = sim->settings->kv_block_tokens;
  return (tokens + size - 1) / size;
}

/* Whole blocks of the shared prefix that a request's prompt has. */
static uint32_t prefix_blocks(const struct serving_sim *sim, uint32_t request)
{
  const uint32_t size = sim->settings->kv_block_tokens;
  const uint32_t prompt = sim->arrivals[request].input_tokens;
  const uint32_t common = prompt < sim->settings->shared_prefix_tokens ? prompt : sim->settings->shared_prefix_tokens;
  return common / size;
}

uint32_t serving_hit_blocks(const struct serving_sim *sim, uint32_t request, uint32_t cached_blocks)
{
  const uint32_t most = (serving_need_tokens(sim, request) - 1) / sim->settings->kv_block_tokens;
  const uint32_t common = prefix_blocks(sim, request);
  const uint32_t cached = common < cached_blocks ? common : cached_blocks;
  return most < cached ? most : cached;
}

struct serving_hit serving_hit_of(const struct serving_sim *sim, uint32_t request)
{
  if (sim->cache.kv_blocks != 0)
    return serving_cache_find(sim, request, serving_need_tokens(sim, request) - 1);
  return (struct serving_hit){.blocks = serving_hit_blocks(sim, request, sim->cached_blocks)};
}

/* The last token that is emitted is never written. */
static uint64_t whole_life_tokens(const struct serving_sim *sim, uint32_t request)
{
  return (uint64_t)sim->arrivals[request].input_tokens + serving_answer_tokens(sim, request) - 1;
}

static uint64_t held_tokens(const struct serving_sim *sim, uint32_t request, uint64_t kv_tokens)
{
  return sim->settings->kv == SERVING_KV_RESERVE ? whole_life_tokens(sim, request) : kv_tokens;
}

uint64_t serving_admission_blocks(const struct serving_sim *sim, uint32_t request, const struct serving_hit *hit)
{
  const uint32_t need = serving_need_tokens(sim, request);
  return serving_blocks(sim, held_tokens(sim, request, need)) - hit->blocks + hit->idle_blocks;
}

void serving_make_room(struct serving_sim *sim)
{
  if (sim->cache.idle != 0)
    serving_cache_shrink(sim, sim->pool_blocks - sim->used_blocks - sim->claimed_blocks);
}

/* Tokens of its answer so far. */
static uint32_t emitted(const struct serving_sim *sim, const struct serving_slot *slot)
{
  if (!slot->is_decoding)
    return slot->need_tokens - sim->arrivals[slot->request].input_tokens;
  return serving_answer_tokens(sim, slot->request) -
         (slot->finish_clock > sim->token_clock ? (uint32_t)(slot->finish_clock - sim->token_clock) : 0);
}

/* Tokens of its last step beyond its answer: computed, not emitted. */
static uint64_t surplus(const struct serving_sim *sim, const struct serving_slot *slot)
{
  return sim->token_clock > slot->finish_clock ? sim->token_clock - slot->finish_clock : 0;
}

/* Written so far; a prompt's place is taken at admission. */
static uint64_t kv_tokens(const struct serving_sim *sim, const struct serving_slot *slot)
{
  if (!slot->is_decoding)
    return slot->need_tokens;
  return (uint64_t)sim->arrivals[slot->request].input_tokens + emitted(sim, slot) + surplus(sim, slot) - 1;
}

static uint64_t shared_tokens(const struct serving_sim *sim, const struct serving_slot *slot)
{
  return (uint64_t)slot->shared_blocks * sim->settings->kv_block_tokens;
}

static bool is_before(const struct serving_finish *a, const struct serving_finish *b)
{
  return a->clock != b->clock ? a->clock < b->clock : a->number < b->number;
}

static void heap_up(struct serving_finish *heap, uint32_t place)
{
  const struct serving_finish moved = heap[place];
  for (; place > 0 && is_before(&moved, &heap[(place - 1) / 2]); place = (place - 1) / 2)
    heap[place] = heap[(place - 1) / 2];
  heap[place] = moved;
}

static void heap_down(struct serving_finish *heap, uint32_t count, uint32_t place)
{
  const struct serving_finish moved = heap[place];
  for (uint32_t child = 2 * place + 1; child < count; child = 2 * place + 1) {
    child += child + 1 < count && is_before(&heap[child + 1], &heap[child]);
    if (is_before(&moved, &heap[child]))
      break;
    heap[place] = heap[child];
    place = child;
  }
  heap[place] = moved;
}

/* The first one mostly; one that is preempted or abandoned is looked for. */
static void heap_remove(struct serving_sim *sim, uint32_t slot)
{
  uint32_t place = 0;
  while (sim->heap[place].slot != slot)
    place++;
  sim->heap[place] = sim->heap[--sim->decoding];
  if (place == sim->decoding)
    return;
  heap_down(sim->heap, sim->decoding, place);
  heap_up(sim->heap, place);
}

static void list_append(struct serving_sim *sim, uint32_t slot)
{
  sim->slots[slot].older = sim->newest;
  sim->slots[slot].newer = SERVING_NONE;
  if (sim->newest != SERVING_NONE)
    sim->slots[sim->newest].newer = slot;
  else
    sim->oldest = slot;
  sim->newest = slot;
}

static void list_remove(struct serving_sim *sim, const struct serving_slot *slot)
{
  if (slot->older != SERVING_NONE)
    sim->slots[slot->older].newer = slot->newer;
  else
    sim->oldest = slot->newer;
  if (slot->newer != SERVING_NONE)
    sim->slots[slot->newer].older = slot->older;
  else
    sim->newest = slot->older;
}

/* Block phase of the step at which a sequence with so many tokens starts a block. */
static uint32_t *growth_of(struct serving_sim *sim, uint64_t tokens)
{
  const uint32_t size = sim->settings->kv_block_tokens;
  const uint32_t until = (size - (uint32_t)(tokens % size)) % size;
  return &sim->growth[(sim->block_phase + until) % size];
}

/* So many tokens are in its place now or will be without asking again. */
static uint32_t admit(struct serving_sim *sim, uint32_t request, const struct serving_hit *hit, uint32_t tokens)
{
  const uint32_t slot = sim->free_slots[--sim->free_count];
  struct serving_slot *s = &sim->slots[slot];
  *s = (struct serving_slot){.number = sim->admissions++,
                             .request = request,
                             .need_tokens = serving_need_tokens(sim, request),
                             .shared_blocks = hit->blocks,
                             .joined_place = SERVING_NONE};
  sim->links[request].slot = slot;
  sim->used_blocks += serving_blocks(sim, held_tokens(sim, request, tokens)) - hit->blocks;
  if (sim->cache.kv_blocks != 0)
    serving_cache_use(sim, s);
  serving_make_room(sim);
  list_append(sim, slot);
  sim->own_tokens += tokens - shared_tokens(sim, s);
  sim->remaining_tokens += serving_answer_tokens(sim, request) - sim->outcomes[request].output_tokens;
  sim->running++;
  if (sim->used_blocks > sim->totals->peak_kv_blocks)
    sim->totals->peak_kv_blocks = sim->used_blocks;
  if (sim->running > sim->totals->peak_batch)
    sim->totals->peak_batch = sim->running;
  return slot;
}

uint32_t serving_admit(struct serving_sim *sim, uint32_t request, const struct serving_hit *hit)
{
  return admit(sim, request, hit, serving_need_tokens(sim, request));
}

uint32_t serving_admit_computed(struct serving_sim *sim, uint32_t request, const struct serving_hit *hit)
{
  return admit(sim, request, hit, serving_need_tokens(sim, request) - 1);
}

/* With what it writes in its first step at most, beside what the others write. */
uint64_t serving_computed_blocks(const struct serving_sim *sim, uint32_t request, const struct serving_hit *hit)
{
  const uint64_t tokens = serving_need_tokens(sim, request) - 1 + serving_step_tokens_most(sim);
  return serving_blocks(sim, held_tokens(sim, request, tokens)) - hit->blocks + hit->idle_blocks +
         serving_growth_blocks(sim, 1);
}

/* The prompt is computed and its token emitted: from now on it is a decode. */
void serving_start_decoding(struct serving_sim *sim, uint32_t slot)
{
  struct serving_slot *s = &sim->slots[slot];
  const uint32_t request = s->request;
  const uint32_t tokens = sim->arrivals[request].input_tokens + sim->outcomes[request].output_tokens;
  s->finish_clock = sim->token_clock + serving_answer_tokens(sim, request) - sim->outcomes[request].output_tokens;
  s->is_decoding = true;
  sim->heap[sim->decoding] = (struct serving_finish){.clock = s->finish_clock, .number = s->number, .slot = slot};
  heap_up(sim->heap, sim->decoding++);
  sim->context_tokens += tokens;
  if (sim->settings->kv != SERVING_KV_RESERVE)
    (*growth_of(sim, tokens - 1))++;
}

/* The first to compute more of the shared prefix than the cache holds leaves its blocks there. */
void serving_keep_prefix(struct serving_sim *sim, uint32_t slot)
{
  struct serving_slot *s = &sim->slots[slot];
  const uint32_t common = prefix_blocks(sim, s->request);
  if (sim->cache.kv_blocks != 0)
    serving_cache_keep(sim, s);
  if (common <= sim->cached_blocks)
    return;
  sim->own_tokens -= (uint64_t)(common - sim->cached_blocks) * sim->settings->kv_block_tokens;
  s->shared_blocks += common - sim->cached_blocks;
  sim->held_blocks += common - sim->cached_blocks;
  sim->cached_blocks = common;
}

static void stop_decoding(struct serving_sim *sim, uint32_t slot)
{
  struct serving_slot *s = &sim->slots[slot];
  const uint64_t tokens = kv_tokens(sim, s), over = surplus(sim, s);
  sim->totals->output_tokens -= over;
  sim->remaining_tokens += over;
  sim->context_tokens -= tokens + 1;
  if (sim->settings->kv != SERVING_KV_RESERVE)
    (*growth_of(sim, tokens))--;
  heap_remove(sim, slot);
  s->is_decoding = false;
}

void serving_leave(struct serving_sim *sim, uint32_t slot)
{
  struct serving_slot *s = &sim->slots[slot];
  const uint64_t tokens = kv_tokens(sim, s);
  if (s->is_decoding)
    stop_decoding(sim, slot);
  sim->used_blocks -= serving_blocks(sim, held_tokens(sim, s->request, tokens)) - s->shared_blocks;
  sim->own_tokens -= tokens - shared_tokens(sim, s);
  if (sim->cache.kv_blocks != 0)
    serving_cache_leave(sim, s);
  list_remove(sim, s);
  sim->free_slots[sim->free_count++] = slot;
  sim->running--;
}

void serving_preempt_newest(struct serving_sim *sim)
{
  const uint32_t slot = sim->newest;
  struct serving_slot *s = &sim->slots[slot];
  struct serving_outcome *outcome = &sim->outcomes[s->request];
  const uint32_t output = emitted(sim, s);
  assert(slot != SERVING_NONE);
  if (s->is_decoding && sim->itl != NULL)
    serving_gaps_left(sim, slot);
  serving_leave(sim, slot);
  if (slot == sim->partial)
    sim->partial = SERVING_NONE;
  outcome->output_tokens = output;
  outcome->preemptions++;
  sim->totals->preemptions++;
  sim->remaining_tokens -= serving_answer_tokens(sim, s->request) - output;
  serving_queue_prepend(sim, s->request);
}

/* What they were given was for nothing. */
void serving_drop_orphans(struct serving_sim *sim)
{
  for (uint32_t i = 0; i < sim->orphan_count; i++) {
    const uint32_t slot = sim->orphans[i];
    struct serving_slot *s = &sim->slots[slot];
    const uint32_t output = emitted(sim, s);
    sim->totals->wasted_tokens += output;
    sim->remaining_tokens -= serving_answer_tokens(sim, s->request) - output;
    if (s->is_decoding && sim->itl != NULL)
      serving_gaps_left(sim, slot);
    serving_leave(sim, slot);
    if (slot == sim->partial)
      sim->partial = SERVING_NONE;
  }
  sim->orphan_count = 0;
}

uint64_t serving_clock_at(const struct serving_sim *sim, uint64_t step)
{
  return (uint64_t)((double)step * sim->tokens_per_step);
}

uint64_t serving_step_of(const struct serving_sim *sim, uint64_t clock)
{
  uint64_t step = (uint64_t)((double)clock / sim->tokens_per_step);
  while (step > 0 && serving_clock_at(sim, step - 1) >= clock)
    step--;
  while (serving_clock_at(sim, step) < clock)
    step++;
  return step;
}

uint64_t serving_step_tokens_most(const struct serving_sim *sim)
{
  return (uint64_t)ceil(sim->tokens_per_step);
}

static uint64_t tokens_of(const struct serving_sim *sim, uint64_t steps)
{
  return serving_clock_at(sim, sim->decode_step + steps) - sim->token_clock;
}

uint64_t serving_growth_blocks(const struct serving_sim *sim, uint64_t steps)
{
  const uint32_t size = sim->settings->kv_block_tokens;
  uint64_t tokens, blocks;
  uint32_t rest;
  if (sim->settings->kv == SERVING_KV_RESERVE)
    return 0;
  tokens = tokens_of(sim, steps);
  rest = (uint32_t)(tokens % size);
  blocks = tokens / size * sim->decoding;
  for (uint32_t i = 0, phase = sim->block_phase; i < rest; i++, phase = phase + 1 == size ? 0 : phase + 1)
    blocks += sim->growth[phase];
  return blocks;
}

/* Tokens a sequence, at most `tokens`, that the free blocks allow. */
static uint64_t growth_tokens(const struct serving_sim *sim, uint64_t tokens)
{
  const uint32_t size = sim->settings->kv_block_tokens;
  const uint64_t free_blocks = sim->pool_blocks - sim->used_blocks;
  uint64_t whole = free_blocks / sim->decoding, left = free_blocks - whole * sim->decoding;
  whole *= size;
  for (uint32_t phase = sim->block_phase; whole < tokens && sim->growth[phase] <= left; whole++) {
    left -= sim->growth[phase];
    phase = phase + 1 == size ? 0 : phase + 1;
  }
  return whole < tokens ? whole : tokens;
}

uint64_t serving_growth_steps(const struct serving_sim *sim, uint64_t steps)
{
  const uint64_t free_blocks = sim->pool_blocks - sim->used_blocks, tokens = tokens_of(sim, steps);
  uint64_t allowed;
  if (sim->settings->kv == SERVING_KV_RESERVE ||
      (tokens / sim->settings->kv_block_tokens + 1) * sim->decoding <= free_blocks)
    return steps;
  allowed = growth_tokens(sim, tokens);
  if (allowed == tokens)
    return steps;
  return serving_step_of(sim, sim->token_clock + allowed + 1) - 1 - sim->decode_step;
}

void serving_decode_steps(struct serving_sim *sim, uint64_t steps)
{
  const uint64_t each = tokens_of(sim, steps), tokens = sim->decoding * each;
  sim->used_blocks += serving_growth_blocks(sim, steps);
  sim->claimed_blocks = 0;
  serving_make_room(sim);
  if (sim->used_blocks > sim->totals->peak_kv_blocks)
    sim->totals->peak_kv_blocks = sim->used_blocks;
  sim->block_phase = (uint32_t)((sim->block_phase + each) % sim->settings->kv_block_tokens);
  sim->decode_step += steps;
  sim->token_clock += each;
  sim->context_tokens += tokens;
  sim->own_tokens += tokens;
  sim->remaining_tokens -= tokens;
  sim->totals->output_tokens += tokens;
}
