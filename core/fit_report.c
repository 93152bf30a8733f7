/* What came of the options that a sketch can ask for (core/fit_options.c): findings with their evidence, figures that the
   plain scorecard does not know of, and what had to be assumed. */
#include "core/fit_int.h"

#include "core/parallel.h"
#include "core/scorecard.h"
#include "core/units.h"

#include <math.h>

/* ---- power cap ---- */

/* Mean share of its clock that the device keeps in its own work; links and hosts have clocks of their own. */
static double clock_share(const struct step_time *time)
{
  double work_s = 0;
  for (int group = 0; group < OPERATOR_GROUP_COUNT; group++)
    if (group != OPERATOR_COLLECTIVE)
      work_s += time->group_s[group];
  return work_s > 0 ? 1 - time->capped_s / work_s : 1;
}

static enum err report_power(struct scorecard *card, const struct search_result *result,
                             const struct search_input *input, struct arena *arena, struct error *e)
{
  const double noticed = 0.99;
  const struct hardware *hardware = input->hardware;
  const struct steady_state *state = &result->best.state;
  const double prefill = clock_share(&state->prompt.profile), decode = clock_share(&state->decode);
  const struct scorecard_evidence evidence[] = {{"power_cap_w", hardware->power_cap_w},
                                                {"tdp_w", hardware->tdp_w},
                                                {"prefill_clock_share", prefill},
                                                {"decode_clock_share", decode}};
  const char *message;
  if (!(hardware->power_cap_w < hardware->tdp_w) || !result->has_candidate)
    return ERR_OK;
  message = arena_printf(arena, "a cap of %g W on a board of %g W: prefill keeps %.0f %% of its clock, decode %.0f %%",
                         hardware->power_cap_w, hardware->tdp_w, 100 * prefill, 100 * decode);
  if (message == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  scorecard_add_finding(card, "power_capped", fmin(prefill, decode) < noticed ? SEVERITY_WARNING : SEVERITY_INFO,
                        message, evidence, sizeof evidence / sizeof evidence[0]);
  return ERR_OK;
}

/* ---- speculative decoding ---- */

/* A session of the scorecard holds the draft's cache too. */
static void report_draft_cache(struct scorecard_memory *memory, const struct candidate *best,
                               const struct search_input *input)
{
  const struct drafter *drafter = &best->engine.drafter;
  const double tokens = input->cached_tokens + input->prompt_tokens + input->output_tokens;
  const double session = steady_sequence_bytes(&best->engine, tokens);
  const double draft =
      memory_sequence_bytes(drafter->model, &drafter->layout, &drafter->precision, &best->engine.preset, tokens);
  memory->kv_bytes_per_session += draft * drafter->layout.tensor_parallel;
  if (session > 0)
    memory->max_concurrent_sessions =
        floor(fmax(0, best->memory.kv_cache_bytes) / session) * best->layout.attention_data_parallel;
}

/* The same engine without a draft, at the batch that a request sees. */
static double plain_step_s(const struct candidate *best, const struct search_input *input)
{
  struct engine plain = best->engine;
  struct step_time time;
  plain.drafter.draft_tokens = 0;
  step_decode(&time, &plain, best->state.view.batch,
              input->cached_tokens + input->prompt_tokens + input->output_tokens / 2);
  return time.seconds;
}

static enum err report_speculation(struct scorecard *card, const struct search_result *result,
                                   const struct search_input *input, struct arena *arena, struct error *e)
{
  const struct candidate *best = &result->best;
  const struct drafter *drafter = &best->engine.drafter;
  double plain_s, token_s;
  const char *message;
  if (input->speculation.draft_tokens == 0 || !result->has_candidate)
    return ERR_OK;
  report_draft_cache(&card->memory, best, input);
  plain_s = plain_step_s(best, input);
  token_s = best->state.decode.seconds / drafter->tokens_per_step;
  const struct scorecard_evidence evidence[] = {{"tokens_per_step", drafter->tokens_per_step},
                                                {"step_ms", best->state.decode.seconds / MS},
                                                {"draft_ms", best->state.decode.draft_s / MS},
                                                {"plain_step_ms", plain_s / MS},
                                                {"speed_up", plain_s / token_s}};
  message = arena_printf(arena,
                         "%.3g tokens come with a step of %.3g ms, of which drafting takes %.3g ms; a step without "
                         "a draft takes %.3g ms: %.3g times as fast a token",
                         drafter->tokens_per_step, best->state.decode.seconds / MS, best->state.decode.draft_s / MS,
                         plain_s / MS, plain_s / token_s);
  if (message == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  scorecard_add_finding(card, token_s < plain_s ? "speculation_pays" : "speculation_slows",
                        token_s < plain_s ? SEVERITY_INFO : SEVERITY_WARNING, message, evidence,
                        sizeof evidence / sizeof evidence[0]);
  return ERR_OK;
}

/* ---- pipeline ---- */

static void note_network(struct notes *notes, const char *what, const struct hardware *hardware)
{
  bool is_assumed;
  const double bytes_s = collective_network_bytes_s(hardware, &is_assumed);
  if (is_assumed)
    notes_add(notes, "inter_node_gb_s_per_gpu is not given: %g GB/s for %s", bytes_s / GIGA, what);
}

static void report_pipeline(struct notes *notes, const struct search_result *result, const struct search_input *input)
{
  const struct layout *layout = &result->best.layout;
  if (result->has_candidate && layout->pipeline_parallel > 1 &&
      collective_span_of(input->hardware, parallel_gpus(layout)) == SPAN_NETWORK)
    note_network(notes, "the hand-off between pipeline stages", input->hardware);
}

/* ---- pools ---- */

static enum err report_pools(struct scorecard *card, struct notes *notes, const struct search_result *result,
                             const struct search_input *input, struct arena *arena, struct error *e)
{
  static const char *const over[] = {"the interconnect", "PCIe", "the network between nodes"};
  const struct candidate *best = &result->best;
  const struct pools *pools = &input->pools;
  const struct steady_load load = {.prompt_tokens = input->prompt_tokens,
                                   .cached_tokens = input->cached_tokens,
                                   .output_tokens = input->output_tokens};
  struct pools_capacity capacity;
  enum collective_span span;
  const char *message;
  double bytes;
  if (pools->prefill_replicas == 0 || !result->has_candidate)
    return ERR_OK;
  capacity = disaggregated_capacities(&best->engine, pools, &load, best->batch_limit);
  (void)disaggregated_transfer(&bytes, &span, &best->engine, pools, &load);
  if (span == SPAN_NETWORK)
    note_network(notes, "the transfer of KV caches between pools", input->hardware);
  const struct scorecard_evidence evidence[] = {{"prefill_requests_per_s", capacity.prefill_requests_per_s},
                                                {"decode_requests_per_s", capacity.decode_requests_per_s},
                                                {"transfer_requests_per_s", capacity.transfer_requests_per_s},
                                                {"transfer_ms", best->state.transfer_s / MS},
                                                {"transfer_gib_per_gpu", bytes / GIB}};
  message = arena_printf(arena,
                         "the prefill pool sustains %.3g requests/s, the decode pool %.3g; %.3g GiB of KV cache a "
                         "request and GPU take %.3g ms over %s",
                         capacity.prefill_requests_per_s, capacity.decode_requests_per_s, bytes / GIB,
                         best->state.transfer_s / MS, over[span]);
  if (message == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  scorecard_add_finding(card, "disaggregated_pools", SEVERITY_INFO, message, evidence,
                        sizeof evidence / sizeof evidence[0]);
  return ERR_OK;
}

/* ---- the whole ---- */

enum err fit_options_report(struct scorecard *card, struct notes *notes, const struct search_result *result,
                            const struct search_input *input, struct arena *arena, struct error *e)
{
  enum err err;
  report_pipeline(notes, result, input);
  if ((err = report_power(card, result, input, arena, e)) != ERR_OK)
    return err;
  if ((err = report_speculation(card, result, input, arena, e)) != ERR_OK)
    return err;
  return report_pools(card, notes, result, input, arena, e);
}
