/* Steady state by fixed point: the batch a request sees gives its time, its time and the rate give the batch. */
#include "core/steady.h"

#include <math.h>
#include <string.h>

static double mean_context(const struct steady_load *load)
{
  return load->cached_tokens + load->prompt_tokens + load->output_tokens / 2;
}

double steady_sequence_bytes(const struct engine *engine, double tokens)
{
  const struct drafter *drafter = &engine->drafter;
  const double own = memory_sequence_bytes(engine->model, &engine->layout, &engine->precision, &engine->preset, tokens);
  if (drafter->draft_tokens == 0)
    return own;
  return own + memory_sequence_bytes(drafter->model, &drafter->layout, &drafter->precision, &engine->preset, tokens);
}

/* A running sequence holds its prompt and, on average over its life, part of its output; engines that reserve hold all of
   it (STEPMODEL §4). The block that is half full is rounded up inside memory_sequence_bytes. */
double steady_kv_batch(const struct engine *engine, const struct memory_plan *memory, double prompt_tokens,
                       double output_tokens)
{
  const double held = prompt_tokens + engine->preset.kv_reserve_output_ratio * output_tokens;
  const double sequence = steady_sequence_bytes(engine, held);
  return sequence > 0 ? fmax(0, memory->kv_cache_bytes / sequence) : (double)INFINITY;
}

/* A step verifies whole sequences of drafts within its token budget. */
static double verified_at_once(const struct engine *engine)
{
  return floor(engine->preset.max_batched_tokens / (1.0 + engine->drafter.draft_tokens));
}

double steady_batch_limit(bool *is_kv, const struct engine *engine, const struct memory_plan *memory,
                          double prompt_tokens, double output_tokens)
{
  const double ranks = engine->layout.attention_data_parallel;
  const double by_kv = steady_kv_batch(engine, memory, prompt_tokens, output_tokens);
  const double by_setting = fmin(engine->preset.max_batch, verified_at_once(engine));
  *is_kv = by_kv < by_setting + 1; /* a setting that uses the pool up is the pool's limit */
  return ranks * fmin(by_kv, by_setting);
}

static double decode_steps(const struct engine *engine, const struct steady_load *load)
{
  return load->output_tokens / engine->drafter.tokens_per_step;
}

/* Prompts that are due in each decode step, one GPU's part of them: a request of `batch` brings one in its life. */
static double prompts_due(const struct engine *engine, const struct steady_load *load, double batch)
{
  return batch / step_prompt_parts(engine) / decode_steps(engine, load);
}

/* Of those, in one step: whole prompts as far as the token budget goes. */
static double prompts_together(const struct engine *engine, const struct steady_load *load, double batch)
{
  return fmax(1, fmin(prompts_due(engine, load, batch), step_prompts_at_once(engine, load->prompt_tokens)));
}

/* What a prompt makes the others wait. A decode step has room for prompts once: when more steps carry prompts than decodes
   are due, the rest of the prompts goes in steps of their own, with the same host work. */
static double stall_s(const struct engine *engine, const struct steady_load *load, const struct steady_base *base,
                      double added_s, double batch)
{
  const unsigned chunks = step_prompt_chunks(engine, load->prompt_tokens);
  const double steps_each = chunks / step_prompts_at_once(engine, load->prompt_tokens);
  const double beside_decodes = fmin(1, 1 / (prompts_due(engine, load, batch) * steps_each));
  const double stall = step_prompt_stall_s(engine, added_s, chunks, load->prompt_tokens, batch, load->output_tokens);
  return beside_decodes * stall + (1 - beside_decodes) * (base->packed_s + stall - added_s);
}

/* Engine time of one request that shares its steps with batch - 1 others, all alike: osl·s(B) + B·P, with P what each prompt
   makes the others wait. Fills decode, the prompt's added_s and stall_s of *out. */
static double service_s(struct steady_state *out, const struct engine *engine, const struct steady_load *load,
                        const struct steady_base *base, double batch)
{
  const double together = prompts_together(engine, load, batch);
  step_decode(&out->decode, engine, batch, mean_context(load));
  out->prompt.added_s = step_prompts_added_s(engine, &out->decode, together, load->prompt_tokens, load->cached_tokens,
                                             batch, mean_context(load));
  out->stall_s = stall_s(engine, load, base, out->prompt.added_s / together, batch);
  return decode_steps(engine, load) * out->decode.seconds + batch * out->stall_s;
}

/* The batch that finishes most requests, and how many. */
struct peak {
  double batch, requests_per_s;
};

static struct peak peak_at(const struct engine *engine, const struct steady_load *load, const struct steady_base *base,
                           double batch)
{
  struct steady_state state;
  return (struct peak){batch, batch / service_s(&state, engine, load, base, batch)};
}

/* Golden section between two batches. */
static struct peak narrowed(struct peak peak, const struct engine *engine, const struct steady_load *load,
                            const struct steady_base *base, double low, double high)
{
  for (int i = 0; i < 4; i++) {
    const double golden = 0.381966;
    const bool is_below = peak.batch - low > high - peak.batch;
    const double batch =
        is_below ? peak.batch - golden * (peak.batch - low) : peak.batch + golden * (high - peak.batch);
    const struct peak next = peak_at(engine, load, base, batch);
    const bool is_better = next.requests_per_s > peak.requests_per_s;
    const double bound = is_better ? peak.batch : batch;
    if (is_better == is_below)
      high = bound;
    else
      low = bound;
    if (is_better)
      peak = next;
  }
  return peak;
}

static struct peak higher(struct peak a, struct peak b)
{
  return b.requests_per_s > a.requests_per_s ? b : a;
}

/* A larger batch makes steps cheaper by the token, and while not every step carries a prompt nothing else changes. Beyond
   that, prompts and decodes fill the same room, most of it where the prompts due just fill the token budget, and a smaller
   batch may finish a few per cent more: an engine need not use all it could hold. */
static struct peak peak_of(const struct engine *engine, const struct steady_load *load, const struct steady_base *base,
                           double batch_limit)
{
  const double limit = fmax(1, batch_limit);
  const double steps_due = prompts_due(engine, load, limit) * step_prompt_chunks(engine, load->prompt_tokens);
  const double filled = step_prompts_at_once(engine, load->prompt_tokens);
  const double least = fmax(1, limit / steps_due / 2), ratio = 0.7;
  struct peak peak = peak_at(engine, load, base, limit);
  if (steps_due <= 1)
    return peak;
  for (double batch = ratio * limit; batch > least; batch *= ratio)
    peak = higher(peak, peak_at(engine, load, base, batch));
  if (steps_due > filled)
    peak = higher(peak, peak_at(engine, load, base, limit * filled / steps_due));
  if (peak.batch < limit)
    peak = narrowed(peak, engine, load, base, fmax(1, ratio * peak.batch), fmin(limit, peak.batch / ratio));
  return peak;
}

double steady_capacity(const struct engine *engine, const struct steady_load *load, double batch_limit)
{
  const struct steady_base base = {.packed_s = step_prompt_packed_s(engine, load->prompt_tokens, load->cached_tokens)};
  return peak_of(engine, load, &base, batch_limit).requests_per_s;
}

void steady_base_of(struct steady_base *out, const struct engine *engine, const struct steady_load *load,
                    double batch_limit)
{
  struct peak peak;
  step_prompt(&out->prompt, engine, load->prompt_tokens, load->cached_tokens, 1, mean_context(load));
  out->packed_s = step_prompt_packed_s(engine, load->prompt_tokens, load->cached_tokens);
  peak = peak_of(engine, load, out, batch_limit);
  out->peak_batch = peak.batch;
  out->peak_requests_per_s = peak.requests_per_s;
}

/* A share of one stands for a system that only prefills. */
static double prefill_load_ratio(const struct steady_state *state, double others_per_s)
{
  const double most_prefill = 1 - 1e-9;
  return fmin(most_prefill, others_per_s * state->stall_s);
}

double steady_steps_waited(const struct preset *preset)
{
  return 0.5 + preset->look_ahead_steps + (preset->recv_interval_steps - 1) / 2.0 + preset->batch_wait_steps;
}

/* For prompts before it. One after the other, that is M/D/1 on prefill work; where a step takes several, those that wait
   go together into the next one, and what is left to wait for is the rest of the running one. */
static double prompt_wait_s(const struct steady_state *state, double host_s, double load)
{
  const double together = fmax(1, state->view.at_once);
  return load / (2 * (1 - pow(load, together))) * (state->prompt.added_s + host_s);
}

/* From sending to the first token, waiting for a slot excluded. The engine is busy with others with probability `busy`;
   then the request waits for the rest of the running step and the scheduler's look-ahead, and for prompts before it. Each
   chunk rides in a step that carries the decodes too, where there are any. SERVING §2, §6. */
static struct steady_parts first_token(const struct engine *engine, const struct steady_state *state, double busy,
                                       double prefill_load, double batch)
{
  const struct preset *preset = &engine->preset;
  const double beside_s =
      state->prompt.added_s * step_prompt_parts(engine) + state->prompt.chunks * state->decode.seconds;
  struct steady_parts parts = {.server_s = step_server_s(engine, state->view.input_tokens),
                               .prefill_load_ratio = prefill_load};
  parts.steps_waited = steady_steps_waited(preset);
  parts.host_s = step_prompt_host_s(engine, state->prompt.chunks);
  parts.prefill_s = state->prompt.alone_s;
  if (batch > 1)
    parts.prefill_s += busy * (beside_s - parts.prefill_s);
  parts.step_wait_s = busy * parts.steps_waited * state->itl_s;
  parts.prompt_wait_s = prompt_wait_s(state, parts.host_s, prefill_load);
  return parts;
}

void steady_parts(struct steady_parts *out, const struct engine *engine, const struct steady_state *state)
{
  const struct steady_view *view = &state->view;
  *out = first_token(engine, state, view->busy_ratio, prefill_load_ratio(state, view->others_per_s),
                     state->has_pools ? 1 : view->batch);
  out->slot_wait_s = view->slot_wait_s;
  out->prompt_wait_s += state->prefill_wait_s;
  out->transfer_s = state->transfer_s;
}

/* Times at the step and prompt costs already in *out, when prompts of others arrive at a rate. Decodes slow down by the
   share of time that prefill takes. */
static void set_times(struct steady_state *out, const struct engine *engine, const struct steady_load *load,
                      double batch, double others_per_s, double busy)
{
  const double prefill_load = prefill_load_ratio(out, others_per_s);
  struct steady_parts parts;
  out->itl_s = out->decode.seconds / (1 - prefill_load);
  out->tpot_s = out->itl_s / engine->drafter.tokens_per_step;
  parts = first_token(engine, out, busy, prefill_load, batch);
  out->queue_s = parts.step_wait_s + parts.prompt_wait_s;
  out->ttft_s = parts.server_s + out->queue_s + parts.prefill_s + parts.host_s;
  out->e2e_s = out->ttft_s + (load->output_tokens - 1) * out->tpot_s;
}

static void set_view(struct steady_state *out, double batch, double others_per_s, double busy)
{
  out->view.batch = batch;
  out->view.others_per_s = others_per_s;
  out->view.busy_ratio = busy;
}

static double decoding(const struct steady_state *state, const struct steady_load *load, double requests_per_s)
{
  return requests_per_s * load->output_tokens * state->tpot_s;
}

/* Iteration towards x = f(x), f continuous and f(low) ≥ low, f(high) ≤ high: by the secant through the last two points,
   a few rounds instead of a dozen. The bounds close in with every round; where the secant leaves them or takes long, they
   are halved. */
struct fixed_point {
  double low, high;
  double last_x, last_gap; /* f(x) - x of the round before */
  int rounds;
};

static double fixed_point_next(struct fixed_point *point, double x, double f)
{
  const int patience = 8;
  const double gap = f - x;
  double next = point->rounds > 0 ? x - gap * (x - point->last_x) / (gap - point->last_gap) : 0.5 * (x + f);
  if (gap > 0)
    point->low = x;
  else
    point->high = x;
  if (!(next > point->low && next < point->high) || point->rounds >= patience) /* also when it is NaN */
    next = 0.5 * (point->low + point->high);
  point->last_x = x;
  point->last_gap = gap;
  point->rounds++;
  return next;
}

/* A Poisson arrival finds the time-average number of others (PASTA) and adds itself; with even spacing there is no such
   crowding beyond the mean. */
static void solve_open(struct steady_state *out, const struct engine *engine, const struct steady_load *load,
                       const struct steady_base *base, double rate)
{
  const double batch_limit = base->peak_batch;
  struct fixed_point point = {.low = 1, .high = fmax(1, batch_limit)};
  double batch = 1;
  for (int i = 0; i < 60; i++) {
    const double busy = 1 - exp(-fmax(0, out->decode_batch));
    double next;
    (void)service_s(out, engine, load, base, batch);
    set_times(out, engine, load, batch, rate, busy);
    set_view(out, batch, rate, busy);
    out->decode_batch = decoding(out, load, rate);
    next = fmin(batch_limit, load->is_poisson ? 1 + out->decode_batch : fmax(1, out->decode_batch));
    if (fabs(next - batch) <= 1e-4 * batch)
      break;
    batch = fixed_point_next(&point, batch, next);
  }
  out->requests_per_s = rate;
}

/* Rate of `running` users whose steps and prompts cost what *out says: rate = users / e2e(rate), and e2e grows with the
   rate. Others are the users but oneself (arrival theorem). */
static double closed_rate(struct steady_state *out, const struct engine *engine, const struct steady_load *load,
                          double running, double batch)
{
  const double others = fmax(0, (running - 1) / running);
  const double busy = fmin(1, fmax(0, running - 1));
  struct fixed_point point = {.low = 0};
  double rate;
  set_times(out, engine, load, batch, 0, busy);
  rate = point.high = running / out->e2e_s;
  for (int i = 0; i < 60; i++) {
    double next;
    set_times(out, engine, load, batch, rate * others, busy);
    next = running / out->e2e_s;
    if (fabs(next - rate) <= 1e-12 * rate)
      break;
    rate = fixed_point_next(&point, rate, next);
  }
  set_view(out, batch, rate * others, busy);
  return rate;
}

static void solve_closed(struct steady_state *out, const struct engine *engine, const struct steady_load *load,
                         const struct steady_base *base)
{
  const double running = fmin(load->users, fmax(1, base->peak_batch));
  const double others = fmax(0, (running - 1) / running);
  struct fixed_point point = {.low = 1, .high = fmax(1, running)};
  double batch = fmax(1, running);
  for (int i = 0; i < 60; i++) {
    double next;
    (void)service_s(out, engine, load, base, batch);
    out->requests_per_s = closed_rate(out, engine, load, running, batch);
    next = fmin(fmax(1, running), 1 + others * decoding(out, load, out->requests_per_s));
    if (fabs(next - batch) <= 1e-5 * batch)
      break;
    batch = fixed_point_next(&point, batch, next);
  }
}

/* Users beyond the batch limit wait for a slot: by Little's law their time in the system is users / rate. */
static void add_slot_wait(struct steady_state *out, double users)
{
  const double in_system_s = users / out->requests_per_s;
  const double wait_s = in_system_s - out->e2e_s;
  if (wait_s <= 0)
    return;
  out->view.slot_wait_s = wait_s;
  out->queue_s += wait_s;
  out->ttft_s += wait_s;
  out->e2e_s += wait_s;
}

static void fill_shares(struct steady_state *out, const struct engine *engine, const struct steady_load *load)
{
  const double batch = fmax(1, out->decode_batch);
  const double prefill_s = out->stall_s;
  const double decode_s = load->output_tokens * out->decode.seconds / engine->drafter.tokens_per_step / batch;
  out->prefill_share_ratio = prefill_s / (prefill_s + decode_s);
  out->decode_share_ratio = 1 - out->prefill_share_ratio;
}

/* Sakasegawa's approximation, halved because service times are nearly constant (M/D/c); exact for one server. */
double steady_queue_s(double requests_per_s, double capacity_requests_per_s, double servers)
{
  const double utilisation = requests_per_s / capacity_requests_per_s;
  const double exponent = sqrt(2 * (servers + 1)) - 1;
  return 0.5 * pow(utilisation, exponent) / (1 - utilisation) / capacity_requests_per_s;
}

/* A replica is a queue with as many servers as sequences run at once. */
static void add_slot_queue(struct steady_state *out, double rate, double capacity, double batch_limit)
{
  const double wait_s = steady_queue_s(rate, capacity, fmax(1, floor(batch_limit)));
  out->view.slot_wait_s = wait_s;
  out->queue_s += wait_s;
  out->ttft_s += wait_s;
  out->e2e_s += wait_s;
}

/* Poisson number in the system: e^-n of the time there is none; below a billionth it is never. */
static double idle_ratio(double in_system)
{
  const double idle = exp(-in_system);
  return idle < 1e-9 ? 0 : idle;
}

/* Beyond capacity the queue has no steady state: the figures are those just below it. */
static void evaluate_open(struct steady_state *out, const struct steady_base *base, const struct engine *engine,
                          const struct steady_load *load, double batch_limit)
{
  const double most = 1 - 1e-6, capacity = base->peak_requests_per_s;
  const double rate = fmin(load->requests_per_s, most * capacity);
  out->is_saturated = load->requests_per_s >= capacity;
  solve_open(out, engine, load, base, rate);
  if (load->is_poisson)
    add_slot_queue(out, rate, capacity, batch_limit);
  out->utilisation_ratio = load->requests_per_s / capacity;
  out->idle_ratio = idle_ratio(out->requests_per_s * out->e2e_s);
}

static void evaluate_closed(struct steady_state *out, const struct steady_base *base, const struct engine *engine,
                            const struct steady_load *load)
{
  solve_closed(out, engine, load, base);
  out->requests_per_s = fmin(out->requests_per_s, base->peak_requests_per_s);
  add_slot_wait(out, load->users);
  out->utilisation_ratio = out->requests_per_s / base->peak_requests_per_s;
}

void steady_evaluate_on(struct steady_state *out, const struct steady_base *base, const struct engine *engine,
                        const struct steady_load *load, double batch_limit)
{
  memset(out, 0, sizeof *out);
  out->view.input_tokens = load->prompt_tokens + load->cached_tokens;
  out->view.at_once = step_prompts_at_once(engine, load->prompt_tokens);
  out->prompt = base->prompt;
  if (load->kind == LOAD_CLOSED)
    evaluate_closed(out, base, engine, load);
  else
    evaluate_open(out, base, engine, load, batch_limit);
  out->decode_batch = fmin(batch_limit, decoding(out, load, out->requests_per_s));
  if (load->kind == LOAD_CLOSED)
    out->decode_batch = fmin(out->decode_batch, load->users);
  out->in_system = out->requests_per_s * out->e2e_s;
  fill_shares(out, engine, load);
}

void steady_evaluate(struct steady_state *out, const struct engine *engine, const struct steady_load *load,
                     double batch_limit)
{
  struct steady_base base;
  steady_base_of(&base, engine, load, batch_limit);
  steady_evaluate_on(out, &base, engine, load, batch_limit);
}
