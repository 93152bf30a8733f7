/* What a sketch can ask for beside a plain engine: checked and resolved before the search, reported after it. */
#include "core/fit_int.h"

#include "core/collectives.h"
#include "core/parallel.h"
#include "core/scorecard.h"
#include "core/served.h"
#include "core/units.h"

#include <math.h>

/* ---- power cap ---- */

static enum err cap_hardware(struct search_input *input, double cap_w, struct arena *arena, struct error *e)
{
  struct hardware *capped = arena_alloc(arena, 1, sizeof *capped);
  if (capped == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  *capped = *input->hardware;
  capped->power_cap_w = cap_w;
  input->hardware = capped;
  return ERR_OK;
}

/* The lower one of the profile's cap and the sketch's counts. */
static enum err resolve_power(struct search_input *input, struct notes *notes, struct arena *arena, struct error *e)
{
  const double least_measured_ratio = 0.5;
  const double asked_w = input->workload->constraints.power_cap_w;
  const double tdp_w = input->hardware->tdp_w;
  const double cap_w = power_lower_cap_w(input->hardware->power_cap_w, asked_w);
  if (asked_w <= 0)
    return error_set(e, ERR_INVALID, "/constraints/power_cap_w", "a power cap of %g W is not possible: over 0", asked_w);
  if (isnan(cap_w))
    return ERR_OK;
  if (isnan(tdp_w)) {
    notes_add(notes, "power_cap_w %g has no effect: the profile states no tdp_w to compare it with", cap_w);
    return ERR_OK;
  }
  if (cap_w >= tdp_w) {
    notes_add(notes, "power_cap_w %g has no effect: the board's own limit is %g W", cap_w, tdp_w);
    return ERR_OK;
  }
  if (cap_w < least_measured_ratio * tdp_w)
    notes_add(notes, "power_cap_w %g is below half of the board's %g W: slower clocks than in any measured run", cap_w,
              tdp_w);
  return asked_w <= cap_w ? cap_hardware(input, cap_w, arena, e) : ERR_OK; /* else it is the profile's own */
}

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

/* ---- adapters ---- */

/* A rank above the width of the model is no low-rank adapter: a slip. */
static enum err resolve_adapters(struct search_input *input, struct notes *notes, struct error *e)
{
  const struct workload *workload = input->workload;
  const struct adapters adapters = {workload->adapter_count, workload->adapter_rank};
  if (adapters.count == 0)
    return ERR_OK;
  if (adapters.rank == 0 || adapters.rank > input->model->hidden_size)
    return error_set(e, ERR_INVALID, "/adapters/rank", "rank %u is not possible: 1 to %u, the hidden size",
                     adapters.rank, input->model->hidden_size);
  input->adapters = adapters;
  notes_add(notes,
            "adapters: %u of rank %u in 16 bit, all held on the GPU, on every linear layer of attention and feed-forward "
            "but routed experts; the sequences of a step use different ones",
            adapters.count, adapters.rank);
  return ERR_OK;
}

/* ---- speculative decoding ---- */

static enum err check_speculation(const struct search_input *input, const struct model *draft, struct error *e)
{
  const struct workload_serving *serving = &input->workload->serving;
  const unsigned drafts = serving->speculative_draft_tokens;
  const double acceptance = serving->speculative_acceptance_ratio;
  if (drafts > SPECULATIVE_DRAFT_TOKENS_MAX || drafts >= input->preset.max_batched_tokens)
    return error_set(e, ERR_INVALID, "/serving/speculative/draft_tokens",
                     "%u drafts a step are not possible: at most %u, and fewer than max_batched_tokens %u", drafts,
                     SPECULATIVE_DRAFT_TOKENS_MAX, input->preset.max_batched_tokens);
  if (!(acceptance >= 0 && acceptance <= 1))
    return error_set(e, ERR_INVALID, "/serving/speculative/acceptance_rate", "%g is not a rate: 0 to 1", acceptance);
  if (serving->speculative_draft_model[0] != '\0' && draft == NULL)
    return error_set(e, ERR_INVALID, "/serving/speculative/draft_model", "no model is named \"%s\"",
                     serving->speculative_draft_model);
  return ERR_OK;
}

/* Drafts are token ids of the model: another vocabulary can not propose them; padding of tables is no difference. */
static enum err check_draft(const struct search_input *input, const struct model *draft, struct error *e)
{
  const double padding_ratio = 0.01;
  const double vocabulary = input->model->vocab_size;
  const double tokens = input->cached_tokens + input->prompt_tokens + input->output_tokens;
  if (fabs(draft->vocab_size - vocabulary) > padding_ratio * vocabulary)
    return error_set(e, ERR_INVALID, "/serving/speculative/draft_model",
                     "%s has %u tokens in its vocabulary, %s has %u: one can not draft for the other", draft->name,
                     draft->vocab_size, input->model->name, input->model->vocab_size);
  if (draft->max_context_tokens != 0 && tokens > draft->max_context_tokens)
    return error_set(e, ERR_INVALID, "/serving/speculative/draft_model",
                     "%s is made for at most %u tokens; input and output together are %.0f", draft->name,
                     draft->max_context_tokens, tokens);
  return ERR_OK;
}

static enum err draft_module(struct speculation *speculation, const struct search_input *input, struct arena *arena,
                             struct error *e)
{
  struct model *module = arena_alloc(arena, 1, sizeof *module);
  if (module == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  speculative_module(module, input->model);
  speculation->model = module;
  speculation->precision = input->precision;
  speculation->is_module = true;
  return ERR_OK;
}

static enum err resolve_speculation(struct search_input *input, const struct model *draft, struct notes *notes,
                                    struct arena *arena, struct error *e)
{
  const struct workload_serving *serving = &input->workload->serving;
  struct speculation *speculation = &input->speculation;
  enum err err;
  if (serving->speculative_draft_tokens == 0)
    return ERR_OK;
  if ((err = check_speculation(input, draft, e)) != ERR_OK || (draft != NULL && (err = check_draft(input, draft, e)) != ERR_OK))
    return err;
  speculation->draft_tokens = serving->speculative_draft_tokens;
  speculation->tokens_per_step = speculative_tokens_per_step(
      speculation->draft_tokens, serving->speculative_acceptance_ratio, input->output_tokens);
  if (draft == NULL && (err = draft_module(speculation, input, arena, e)) != ERR_OK)
    return err;
  if (draft == NULL) {
    notes_add(notes, "speculative.draft_model not given: one layer of the model and its head draft (multi-token "
                     "prediction, EAGLE)");
  } else {
    speculation->model = draft;
    speculation->precision = served_precision(draft, PRECISION_NONE, input->precision.kv_cache);
  }
  notes_add(notes,
            "speculative decoding: each of %u drafts is accepted alike, so a step hands out %.3g tokens; itl_ms is the time "
            "between two such deliveries, tpot_ms the mean time of a token",
            speculation->draft_tokens, speculation->tokens_per_step);
  return ERR_OK;
}

/* A session of the scorecard holds the draft's cache too. */
static void report_draft_cache(struct scorecard_memory *memory, const struct candidate *best,
                               const struct search_input *input)
{
  const struct drafter *drafter = &best->engine.drafter;
  const double tokens = input->cached_tokens + input->prompt_tokens + input->output_tokens;
  const double session = steady_sequence_bytes(&best->engine, tokens);
  const double draft = memory_sequence_bytes(drafter->model, &drafter->layout, &drafter->precision,
                                             &best->engine.preset, tokens);
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
  message = arena_printf(arena, "%.3g tokens come with a step of %.3g ms, of which drafting takes %.3g ms; a step without "
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

/* ---- the whole ---- */

enum err fit_options_resolve(struct search_input *input, const struct fit_request *request, struct notes *notes,
                             struct arena *arena, struct error *e)
{
  enum err err;
  if ((err = resolve_power(input, notes, arena, e)) != ERR_OK || (err = resolve_adapters(input, notes, e)) != ERR_OK)
    return err;
  return resolve_speculation(input, request->draft_model, notes, arena, e);
}

enum err fit_options_report(struct scorecard *card, struct notes *notes, const struct search_result *result,
                            const struct search_input *input, struct arena *arena, struct error *e)
{
  enum err err;
  report_pipeline(notes, result, input);
  if ((err = report_power(card, result, input, arena, e)) != ERR_OK)
    return err;
  return report_speculation(card, result, input, arena, e);
}
