/* What a sketch can ask for beside a plain engine, checked and resolved before the search: power cap, adapters, speculative
   decoding, pools. What came of it is reported by core/fit_report.c. */
#include "core/fit_int.h"

#include "core/served.h"

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
    return error_set(e, ERR_INVALID, "/constraints/power_cap_w", "a power cap of %g W is not possible: over 0",
                     asked_w);
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
  notes_add(
      notes,
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
  if ((err = check_speculation(input, draft, e)) != ERR_OK ||
      (draft != NULL && (err = check_draft(input, draft, e)) != ERR_OK))
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
  notes_add(
      notes,
      "speculative decoding: each of %u drafts is accepted alike, so a step hands out %.3g tokens; itl_ms is the time "
      "between two such deliveries, tpot_ms the mean time of a token",
      speculation->draft_tokens, speculation->tokens_per_step);
  return ERR_OK;
}

/* ---- pools ---- */

static enum err check_pools(const struct workload_serving *serving, struct error *e)
{
  const unsigned most = 65536;
  const unsigned prefill = serving->prefill_replicas, decode = serving->decode_replicas;
  if (prefill == 0 || prefill > most)
    return error_set(e, ERR_INVALID, "/serving/disaggregated/prefill_replicas", "%u replicas are not possible: 1 to %u",
                     prefill, most);
  if (decode == 0 || decode > most)
    return error_set(e, ERR_INVALID, "/serving/disaggregated/decode_replicas", "%u replicas are not possible: 1 to %u",
                     decode, most);
  if (serving->replicas != 0 && serving->replicas != prefill + decode)
    return error_set(e, ERR_INVALID, "/serving/disaggregated", "%u + %u replicas are not the %u of /serving/replicas",
                     prefill, decode, serving->replicas);
  return ERR_OK;
}

static enum err resolve_pools(struct search_input *input, struct notes *notes, struct error *e)
{
  const struct workload_serving *serving = &input->workload->serving;
  enum err err;
  if (serving->prefill_replicas == 0 && serving->decode_replicas == 0)
    return ERR_OK;
  if ((err = check_pools(serving, e)) != ERR_OK)
    return err;
  input->pools = (struct pools){serving->prefill_replicas, serving->decode_replicas};
  notes_add(
      notes,
      "disaggregated: replicas = %u for prefill + %u for decode, of one layout; the launch command lacks the options "
      "of either role and of the cache transfer",
      serving->prefill_replicas, serving->decode_replicas);
  return ERR_OK;
}

/* ---- the whole ---- */

enum err fit_options_resolve(struct search_input *input, const struct fit_request *request, struct notes *notes,
                             struct arena *arena, struct error *e)
{
  enum err err;
  if ((err = resolve_power(input, notes, arena, e)) != ERR_OK || (err = resolve_adapters(input, notes, e)) != ERR_OK)
    return err;
  if ((err = resolve_speculation(input, request->draft_model, notes, arena, e)) != ERR_OK)
    return err;
  return resolve_pools(input, notes, e);
}
