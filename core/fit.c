/* The facade: checks that this version can compute what the sketch asks, resolves what it leaves open, searches, reports. */
#include "core/fit.h"

#include "core/advice.h"
#include "core/alternatives.h"
#include "core/contradiction.h"
#include "core/finding.h"
#include "core/energy.h"
#include "core/fit_int.h"
#include "core/judge.h"
#include "core/launch.h"
#include "core/preset.h"
#include "core/scorecard.h"
#include "core/served.h"
#include "core/startup.h"
#include "core/stress.h"
#include "core/traffic.h"
#include "core/variants.h"
#include "core/ways_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *verdict_name(enum verdict verdict)
{
  static const char *const names[] = {"fit", "fit_with_changes", "no_fit"};
  return names[verdict];
}

const char *no_fit_reason_name(enum no_fit_reason reason)
{
  static const char *const names[] = {NULL,
                                      "weights_exceed_memory",
                                      "no_room_for_kv_cache",
                                      "targets_missed",
                                      "layout_impossible",
                                      "quota_exceeded",
                                      "targets_contradict"};
  return names[reason];
}

const char *change_requires_name(enum change_requires requires)
{
  static const char *const names[] = {"configuration", "requantisation", "promise", "procurement", "retraining"};
  return names[requires];
}

const char *bound_name(enum bound bound)
{
  static const char *const names[] = {"compute", "memory_bandwidth", "interconnect", "launch_overhead", NULL};
  return names[bound];
}

const char *limit_name(enum limit limit)
{
  static const char *const names[] = {NULL,           "kv_cache",        "compute", "memory_bandwidth",
                                      "interconnect", "launch_overhead", "queue",   "batch_limit"};
  return names[limit];
}

/* A longer conversation than the model knows positions for is the sketch's mistake, not a slow configuration. */
static enum err check_context(const struct workload *workload, const struct model *model, struct error *e)
{
  const double tokens = length_mean_tokens(&workload->traffic.input) + length_mean_tokens(&workload->traffic.output);
  if (model->max_context_tokens == 0 || tokens <= model->max_context_tokens)
    return ERR_OK;
  return error_set(e, ERR_INVALID, "/traffic/input_tokens",
                   "input and output together are %.0f tokens; %s is made for at most %u", tokens, model->name,
                   model->max_context_tokens);
}

static struct model_precision precision_of(const struct model *model, const struct workload *workload,
                                           struct notes *notes)
{
  const struct model_precision served = served_precision(model, workload->weights, workload->kv_cache);
  if (served.has_static_scales && !model->precision.has_static_scales)
    notes_add(notes, "fp8 weights of a model stored in %s: a checkpoint with static per-tensor scales",
              precision_name(model->precision.dense));
  if (workload->kv_cache == PRECISION_NONE && model->precision.kv_cache == PRECISION_NONE)
    notes_add(notes, "kv_cache precision not given: %s", precision_name(served.kv_cache));
  return served;
}

static void note_fallback(struct notes *fallbacks, const struct hardware *hardware, const struct workload *workload,
                          enum precision weights, const char *part)
{
  enum precision math;
  switch (precision_support(hardware, weights, workload->activations, &math)) {
  case PRECISION_WEIGHT_ONLY:
    notes_add(fallbacks, "%s: %s weights save memory and bandwidth, the math runs in %s", part, precision_name(weights),
              precision_name(math));
    break;
  case PRECISION_FALLBACK:
    notes_add(fallbacks, "%s: %s is not native here, stored and computed in %s", part, precision_name(weights),
              precision_name(math));
    break;
  case PRECISION_UNSUPPORTED:
    notes_add(fallbacks, "%s: %s can not run on this device", part, precision_name(weights));
    break;
  case PRECISION_NATIVE: break;
  }
}

static void note_fallbacks(struct notes *fallbacks, const struct hardware *hardware, const struct workload *workload,
                           const struct model_precision *precision)
{
  note_fallback(fallbacks, hardware, workload, precision->dense, "feed-forward");
  if (precision->attention != precision->dense)
    note_fallback(fallbacks, hardware, workload, precision->attention, "attention");
  if (precision->head != precision->dense && precision->head != precision->attention)
    note_fallback(fallbacks, hardware, workload, precision->head, "lm_head");
}

/* Tokens of the prompt that are found in the prefix cache: whole blocks of the shared prefix, never the whole prompt. */
static double cached_tokens(const struct workload *workload, const struct preset *preset, struct notes *notes)
{
  const double shared = workload->traffic.shared_prefix_tokens;
  const double block = preset->kv_block_tokens;
  const double prompt = length_mean_tokens(&workload->traffic.input);
  if (isnan(shared) || shared <= 0)
    return 0;
  if (!preset->has_prefix_caching) {
    notes_add(notes, "shared_prefix_tokens has no effect: prefix caching is off in %s %s", preset->runtime,
              preset->version);
    return 0;
  }
  return fmax(0, floor(fmin(shared, prompt - 1) / block) * block);
}

static void note_settings(struct notes *notes, const struct workload *workload, const struct preset *preset,
                          const struct hardware *hardware)
{
  const struct workload_serving *serving = &workload->serving;
  bool is_assumed;
  (void)hardware_memory_bytes(hardware, &is_assumed);
  if (is_assumed)
    notes_add(notes, "memory that engines see on this profile is not recorded: the driver's figure less 0.6 %%");
  if (serving->runtime[0] == '\0' || serving->runtime_version[0] == '\0')
    notes_add(notes, "serving runtime: preset %s %s", preset->runtime, preset->version);
  else if (strcmp(serving->runtime_version, preset->version) != 0)
    notes_add(notes, "serving runtime: %s %s with the preset of %s", preset->runtime, serving->runtime_version,
              preset->version);
  if (serving->max_batch == 0)
    notes_add(notes, "max_batch not given: what the KV pool runs, at most %u, the preset's", preset->max_batch);
  if (serving->max_batched_tokens == 0)
    notes_add(notes, "max_batched_tokens not given: %u, the preset's", preset->max_batched_tokens);
  if (isnan(serving->memory_fraction_ratio))
    notes_add(notes, "memory_fraction not given: %g, the preset's", preset->memory_fraction_ratio);
  if (!isnan(workload->constraints.change_cost_usd))
    notes_add(notes, "change_cost_usd %.15g is set against what an advice saves a month, nothing else",
              workload->constraints.change_cost_usd);
  if (hardware->family == HARDWARE_POOLED || !hardware->family_is_given)
    notes_add(notes, "operator constants: those of family %s", hardware_family_name(hardware->family));
}

static void note_traffic(struct notes *notes, const struct workload *workload)
{
  const struct workload_traffic *traffic = &workload->traffic;
  if (traffic->load == LOAD_OPEN && !traffic->arrival_is_given)
    notes_add(notes, "arrival not given: poisson");
  if (!targets_have_latency(&workload->targets))
    notes_add(notes, "no latency targets: preset interactive limits (TTFT p99 2 s, ITL p99 100 ms) steer the choice");
}

/* Where the figures come from. */
static void note_source(struct notes *notes, const struct scorecard *card, const struct judged *judged,
                        const struct search_input *input)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  if (card->is_simulated) {
    notes_add(notes,
              "latency, success and the limits of the load are simulated: %zu requests of the steady state, seed %lld; "
              "phases, bounds and memory are the closed form's",
              judged->counted, (long long)input->workload->seed);
    if (traffic->sheddable_share_ratio > 0 && input->workload->serving.concurrency_limit == 0)
      notes_add(notes, "sheddable_share has no effect without serving.concurrency_limit: nothing is ever refused");
    return;
  }
  if (traffic->load == LOAD_OPEN && traffic->arrival == ARRIVAL_SPIKY)
    notes_add(notes, "spiky arrivals are computed at their mean rate as poisson: bursts need the simulation");
  if (input->workload->serving.concurrency_limit != 0)
    notes_add(notes, "concurrency_limit %u needs the simulation: it changes no figure here",
              input->workload->serving.concurrency_limit);
  if (traffic->client_timeout_ms > 0 || traffic->sheddable_share_ratio > 0 || input->workload->success.are_given)
    notes_add(notes, "client, sheddable_share and success need the simulation: they change no figure here");
  notes_add(notes,
            "closed form of steady load: p50 figures are steady-state means, all requests are taken as successful");
}

static enum err take_calibration(struct search_input *input, const struct calibration *calibration, struct arena *arena,
                                 struct error *e)
{
  struct step_constants *constants;
  if (calibration == NULL)
    return ERR_OK;
  constants = arena_alloc(arena, 1, sizeof *constants);
  if (constants == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  *constants = calibration_constants(calibration, &step_constants_default);
  input->calibration = calibration;
  input->constants = constants;
  return ERR_OK;
}

enum err fit_resolve(struct search_input *input, const struct fit_request *request, struct notes *notes,
                     struct arena *arena, struct error *e)
{
  const struct workload *workload = request->workload;
  enum err err;
  memset(input, 0, sizeof *input);
  input->workload = workload;
  input->model = request->model;
  input->hardware = request->hardware;
  input->is_brief = request->is_brief;
  input->is_verdict_enough = request->is_verdict_enough && request->depth == FIT_QUICK;
  if ((err = take_calibration(input, request->calibration, arena, e)) != ERR_OK)
    return err;
  if ((err = traffic_resolve(input, request, notes, arena, e)) != ERR_OK)
    return err;
  workload = input->workload;
  if ((err = check_context(workload, request->model, e)) != ERR_OK)
    return err;
  if ((err = preset_resolve(&input->preset, &workload->serving, request->hardware, e)) != ERR_OK)
    return err;
  input->precision = precision_of(request->model, workload, notes);
  note_settings(notes, workload, &input->preset, request->hardware);
  note_traffic(notes, workload);
  input->cached_tokens = cached_tokens(workload, &input->preset, notes);
  input->prompt_tokens = length_mean_tokens(&workload->traffic.input) - input->cached_tokens;
  input->output_tokens = length_mean_tokens(&workload->traffic.output);
  input->median_output_tokens = length_quantile_tokens(&workload->traffic.output, 0.5);
  return fit_options_resolve(input, request, notes, arena, e);
}

/* Percentiles need the simulation: a target on one stays open unless the median already misses it. */
static void note_undecided(struct notes *notes, struct scorecard *card)
{
  char list[320] = "";
  size_t used = 0;
  for (size_t i = 0; i < card->target_count && used < sizeof list; i++)
    if (card->targets[i].met < 0)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", card->targets[i].metric);
  if (used == 0)
    return;
  notes_add(notes, "targets not decided by the closed form, and not counted in the verdict: %s", list);
  scorecard_add_finding(card, "targets_undecided", SEVERITY_WARNING,
                        "the verdict leaves targets out that the closed form can not decide: those whose met is null",
                        NULL, 0);
}

/* Never served short, never dropped silently. */
static enum err report_rejected(struct scorecard *card, struct arena *arena, struct error *e)
{
  const struct scorecard_evidence evidence[] = {{"rejected", card->success.rejected_ratio}};
  const char *message;
  if (!(card->success.rejected_ratio > 0))
    return ERR_OK;
  message = arena_printf(arena,
                         "%.3g %% of the requests are longer than the context or the whole KV pool: an engine refuses "
                         "them, and none of them is a success",
                         100 * card->success.rejected_ratio);
  if (message == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  scorecard_add_finding(card, "requests_rejected", SEVERITY_WARNING, message, evidence, 1);
  return ERR_OK;
}

static void note_chunking(struct notes *notes, const struct search_input *input)
{
  if (input->workload->serving.chunked_prefill >= 0 && input->prompt_tokens <= input->preset.max_batched_tokens)
    notes_add(notes,
              "chunked_prefill makes no difference in the closed form: the prompt fits into one step of %u tokens",
              input->preset.max_batched_tokens);
}

/* The request again at another depth, for comparisons. */
static enum err repeat(struct scorecard *out, const struct fit_request *request, enum fit_depth depth,
                       struct arena *arena, struct error *e)
{
  struct fit_request again = *request;
  const size_t mark = arena_mark(arena);
  enum err err;
  again.depth = depth;
  again.is_verdict_enough = depth == FIT_SIMULATED; /* no knee: nothing here compares it */
  err = fit_evaluate(out, &again, arena, e);
  arena_release(arena, mark);
  return err;
}

/* What depth full adds: variants, what all figures mean, and what to do about them. */
static enum err complete(struct scorecard *out, const struct fit_request *request, const struct search_input *input,
                         const struct search_result *result, struct arena *arena, struct error *e)
{
  struct scorecard closed_form, simulated;
  struct finding_case findings = {out, request, input, result, arena, false, &closed_form, &simulated};
  enum err err = ERR_OK;
  const struct judge_options options = {
      .requests = JUDGE_REQUESTS_COMPARE, .stop = request->stop, .stop_cls = request->stop_cls};
  if (out->is_simulated)
    err = stress_fill(out, input, &result->best, &options, arena, e);
  if (err == ERR_OK && out->no_fit_reason != NO_FIT_TARGETS_CONTRADICT)
    err = variants_fill(out, request, arena, e);
  if (err != ERR_OK)
    return err;
  alternatives_fill(out, request->workload);
  if ((err = finding_fill(&findings, e)) != ERR_OK ||
      (err = repeat(&closed_form, request, FIT_QUICK, arena, e)) != ERR_OK ||
      (err = repeat(&simulated, request, FIT_SIMULATED, arena, e)) != ERR_OK)
    return err;
  if ((err = advice_fill(&findings, e)) != ERR_OK)
    return err;
  return ways_out_fill(&findings, e);
}

/* The simulation's choice in place of the closed form's, and its knee where the depth or a promise asks for it. */
static enum err judge(struct judged *judged, bool *is_judged, struct search_result *result,
                      const struct search_input *input, const struct fit_request *request, struct arena *arena,
                      struct error *e)
{
  const bool is_full = request->depth == FIT_FULL;
  const struct judge_options options = {.requests = is_full ? JUDGE_REQUESTS_FINAL : JUDGE_REQUESTS_COMPARE,
                                        .is_probe = request->is_probe,
                                        .stop = request->stop,
                                        .stop_cls = request->stop_cls};
  const struct judge_case c = {.input = input,
                               .candidate = &result->best,
                               .load_scale = 1,
                               .stop = request->stop,
                               .stop_cls = request->stop_cls};
  struct judge_knee knee;
  enum err err = judge_select(judged, is_judged, result, input, &options, arena, e);
  if (err != ERR_OK || !*is_judged || request->is_verdict_enough ||
      !(is_full || input->workload->targets.headroom_ratio > 0))
    return err;
  err = judge_knee(&knee, &c, judged, arena, e);
  result->best.knee_requests_per_s = knee.requests_per_s;
  result->best.margin_to_knee_ratio = knee.margin_ratio;
  judged->is_queue_first = knee.is_queue;
  return err;
}

/* What follows from how busy the fleet is: the bill's items, energy, starts. The bill goes by capacity, as an engine that
   always has something to do is not full; boards draw by time. The closed form takes all requests as successful. */
static void fill_use(struct scorecard *out, struct notes *notes, const struct judged *judged,
                     const struct candidate *best, const struct search_input *input)
{
  const double share = input->load_share_ratio;
  const double sent_per_s = out->is_simulated ? judged->sent_per_s : out->throughput.requests_per_s;
  const double busy = (out->is_simulated ? judged->busy_ratio : 1 - best->state.idle_ratio) * share;
  const struct cost_use use = {.serving_ratio = (double)best->gpus / best->gpus_billed,
                               .busy_ratio = fmin(1, sent_per_s / out->limits.saturation_requests_per_s) * share,
                               .failed_work_ratio = out->is_simulated ? judged->failed_work_ratio : 0,
                               .startup_ratio = startup_lost_ratio(best, input),
                               .headroom_ratio = input->workload->targets.headroom_ratio};
  cost_divide(&out->cost, &use);
  out->energy = energy_of(best, busy, out->throughput.requests_per_s * share, out->throughput.output_tok_s * share);
  out->startup = startup_of(best, input->hardware);
  startup_note(notes, best, input);
  if (!isnan(out->energy.watts_per_gpu))
    notes_add(notes, "energy: boards alone; idle ones draw 15 %% of their limit (assumed)");
}

enum err fit_evaluate(struct scorecard *out, const struct fit_request *request, struct arena *arena, struct error *e)
{
  struct notes notes, fallbacks;
  struct search_input input;
  struct search_result result;
  struct judged judged;
  bool is_judged = false;
  enum err err;
  scorecard_clear(out);
  notes_init(&notes, arena);
  notes_init(&fallbacks, arena);
  if ((err = fit_resolve(&input, request, &notes, arena, e)) != ERR_OK)
    return err;
  note_fallbacks(&fallbacks, request->hardware, request->workload, &input.precision);
  if ((err = search_best(&result, &input, request->depth == FIT_QUICK ? 1 : SEARCH_FINALISTS, request->stop,
                         request->stop_cls, e)) != ERR_OK)
    return err;
  if (request->depth != FIT_QUICK && (err = judge(&judged, &is_judged, &result, &input, request, arena, e)) != ERR_OK)
    return err;
  if ((err = scorecard_fill(out, &result, &input, arena, e)) != ERR_OK ||
      (err = fit_options_report(out, &notes, &result, &input, arena, e)) != ERR_OK)
    return err;
  if (is_judged)
    judge_report(out, &judged, &result.best, &input);
  if ((err = report_rejected(out, arena, e)) != ERR_OK)
    return err;
  if (result.has_candidate) {
    launch_notes(&notes, &result.best, &input);
    fill_use(out, &notes, &judged, &result.best, &input);
  }
  note_source(&notes, out, &judged, &input);
  note_chunking(&notes, &input);
  note_undecided(&notes, out);
  out->configuration.weights = served_has_experts(request->model) ? input.precision.experts : input.precision.dense;
  out->configuration.kv_cache = input.precision.kv_cache;
  (void)precision_support(request->hardware, out->configuration.weights, request->workload->activations,
                          &out->configuration.activations);
  out->configuration.precision_fallbacks = notes_take(&fallbacks, &out->configuration.precision_fallback_count);
  out->assumptions = notes_take(&notes, &out->assumption_count);
  if (notes.is_failed || fallbacks.is_failed)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  if ((err = contradiction_report(out, &input, arena, e)) != ERR_OK)
    return err;
  return request->depth == FIT_FULL && !request->are_figures_enough ? complete(out, request, &input, &result, arena, e)
                                                                    : ERR_OK;
}

/* Fit before miss; within a verdict priced by cost, then unpriced by GPUs; configurations before none. */
static int compare_cost(const struct scorecard *a, const struct scorecard *b)
{
  const double cost_a = a->cost.per_successful_request_usd, cost_b = b->cost.per_successful_request_usd;
  if (isnan(cost_a) != isnan(cost_b))
    return isnan(cost_a) ? 1 : -1;
  if (!isnan(cost_a) && cost_a < cost_b)
    return -1;
  if (!isnan(cost_a) && cost_a > cost_b)
    return 1;
  if (a->configuration.gpus != b->configuration.gpus)
    return a->configuration.gpus < b->configuration.gpus ? -1 : 1;
  return 0;
}

int fit_compare(const struct scorecard *a, const char *name_a, const struct scorecard *b, const char *name_b)
{
  int order;
  if (a->verdict != b->verdict)
    return a->verdict < b->verdict ? -1 : 1;
  if (a->has_configuration != b->has_configuration)
    return a->has_configuration ? -1 : 1;
  order = compare_cost(a, b);
  return order != 0 ? order : strcmp(name_a, name_b);
}
