/* The step model boiled down to few coefficients, so that the simulation sums steps in closed form: a line in batch and
   context on each factor of two of the batch, exact at its ends for the typical context. */
#include "core/serving.h"

#include <math.h>
#include <string.h>

const struct serving_decode *serving_segment(const struct serving_cost *cost, uint32_t batch)
{
  const int segment = batch > 1 ? 31 - __builtin_clz(batch) : 0;
  return &cost->decode[segment < SERVING_SEGMENTS ? segment : SERVING_SEGMENTS - 1];
}

double serving_prompt_s(const struct serving_cost *cost, double tokens, double past_tokens)
{
  return tokens * (cost->prompt_token_s + cost->prompt_pair_s * (past_tokens + 0.5 * tokens));
}

static double decode_s(const struct engine *engine, double batch, double context_tokens)
{
  struct step_time step;
  step_decode(&step, engine, batch, context_tokens);
  return step.seconds;
}

static void fill_decode(struct serving_cost *out, const struct engine *engine, double context)
{
  for (int i = 0; i < SERVING_SEGMENTS; i++) {
    struct serving_decode *line = &out->decode[i];
    const double low = ldexp(1, i), high = 2 * low;
    const double low_s = decode_s(engine, low, context), high_s = decode_s(engine, high, context);
    const double low_longer_s = decode_s(engine, low, 2 * context), high_longer_s = decode_s(engine, high, 2 * context);
    line->context_token_s = fmax(0, low_longer_s - low_s + high_longer_s - high_s) / ((low + high) * context);
    line->sequence_s = (high_s - low_s) / low - line->context_token_s * context;
    line->step_s = low_s - low * (line->sequence_s + line->context_token_s * context);
  }
}

static double added_s(const struct engine *engine, double tokens, double past_tokens, double context)
{
  struct step_time decode;
  step_decode(&decode, engine, 1, context);
  return step_prompt_added_s(engine, &decode, tokens, past_tokens, 1, context);
}

static double alone_s(const struct engine *engine, double tokens, double past_tokens, double context)
{
  struct prompt_time prompt;
  step_prompt(&prompt, engine, tokens, past_tokens, 1, context);
  return prompt.alone_s / step_prompt_parts(engine);
}

/* A chunk in a step of its own, and half of it, give the step and the chunk's part of it; a step is never less than nothing.
   What of alone_s comes after the engine's step, on its way through stages or on its own rank, makes the answer late. */
static void fill_alone(struct serving_cost *out, const struct engine *engine, double chunk, double past, double context)
{
  const double host_s = step_prompt_host_stalled_s(engine, 1);
  const double whole_s = alone_s(engine, chunk, past, context) + host_s - out->prompt_fixed_s;
  const double half_s = alone_s(engine, chunk / 2, past, context) + host_s - out->prompt_fixed_s;
  const double prompt_s = serving_prompt_s(out, chunk, past), half_prompt_s = serving_prompt_s(out, chunk / 2, past);
  double ratio;
  if (!(prompt_s > half_prompt_s)) {
    out->prompt_step_s = fmax(0, whole_s);
    return;
  }
  ratio = (whole_s - half_s) / (prompt_s - half_prompt_s);
  if (whole_s - ratio * prompt_s < 0)
    ratio = whole_s / prompt_s;
  out->prompt_alone_saved_ratio = 1 - ratio;
  out->prompt_step_s = fmax(0, whole_s - ratio * prompt_s);
  out->prompt_late_ratio = (step_prompt_parts(engine) - 1) * alone_s(engine, chunk, past, context) / prompt_s;
}

/* What one step computes of the typical prompt, after a longer past (attention) and half of it (what does not grow with the
   tokens): three figures for three coefficients. */
static void fill_prompt(struct serving_cost *out, const struct engine *engine, double tokens, double past,
                        double context)
{
  const double chunk = step_chunk_shape(engine, tokens, past, 0).prefill_tokens;
  const double whole_s = added_s(engine, chunk, past, context), half_s = added_s(engine, chunk / 2, past, context);
  const double later_s = added_s(engine, chunk, past + tokens, context);
  double halves_s;
  out->prompt_pair_s = fmax(0, later_s - whole_s) / (chunk * tokens);
  halves_s = whole_s - half_s - (serving_prompt_s(out, chunk, past) - serving_prompt_s(out, chunk / 2, past));
  out->prompt_token_s = fmax(0, halves_s) / (chunk / 2);
  out->prompt_fixed_s = whole_s - serving_prompt_s(out, chunk, past) + step_prompt_host_stalled_s(engine, 1);
  fill_alone(out, engine, chunk, past, context);
}

void serving_cost_of(struct serving_cost *out, const struct engine *engine, double input_tokens, double cached_tokens,
                     double output_tokens)
{
  const double tokens = fmax(1, input_tokens - cached_tokens);
  const double context = input_tokens + output_tokens / 2;
  const unsigned chunks = step_prompt_chunks(engine, tokens);
  memset(out, 0, sizeof *out);
  fill_decode(out, engine, context);
  fill_prompt(out, engine, tokens, cached_tokens, context);
  out->server_s = step_server_s(engine, 0);
  out->server_token_s = step_server_s(engine, 1) - out->server_s;
  out->server_s += step_prompt_host_s(engine, chunks) - step_prompt_host_stalled_s(engine, chunks);
}

/* SGLang admits on a guess of how much of all answers is still to come; it starts at 0.7 and decays to a tenth. */
#define SGLANG_SETTLED_RATIO 0.1

void serving_settings_of(struct serving_settings *out, const struct preset *preset)
{
  const bool is_sglang = preset->memory_rule == MEMORY_RULE_SGLANG;
  *out = (struct serving_settings){.is_prefill_first = is_sglang || preset->is_old_engine || preset->is_eager,
                                   .has_whole_prompts = !preset->has_chunked_prefill,
                                   .has_look_ahead = preset->look_ahead_steps > 0,
                                   .max_batch = preset->max_batch,
                                   .max_batched_tokens = preset->max_batched_tokens,
                                   .recv_interval_steps = preset->recv_interval_steps,
                                   .admit_interval_steps = 1,
                                   .batch_wait_steps = preset->batch_wait_steps,
                                   .batch_wait_ratio = 0.9, /* of the launch scripts that set a wait (SERVING §1) */
                                   .kv_block_tokens = preset->kv_block_tokens};
  out->kv = preset->kv_reserve_output_ratio >= 1 ? SERVING_KV_RESERVE : SERVING_KV_GROW;
  if (is_sglang) {
    out->kv = SERVING_KV_RATIO;
    out->kv_ratio = SGLANG_SETTLED_RATIO;
  }
}

void serving_settings_add_drafts(struct serving_settings *settings, const struct drafter *drafter)
{
  const uint32_t most = settings->max_batched_tokens / (1 + drafter->draft_tokens);
  settings->draft_tokens = drafter->draft_tokens;
  settings->tokens_per_step = drafter->draft_tokens != 0 ? drafter->tokens_per_step : 0;
  if (settings->max_batch > most)
    settings->max_batch = most;
}

uint32_t serving_decodes_beside(const struct serving_settings *settings, uint32_t prompt_tokens)
{
  const uint32_t budget = settings->max_batched_tokens;
  if (settings->is_prefill_first || !settings->has_whole_prompts)
    return UINT32_MAX;
  if (prompt_tokens >= budget)
    return 0;
  return (budget - prompt_tokens) / (1 + settings->draft_tokens);
}
