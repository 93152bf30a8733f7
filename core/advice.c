/* Proposals as a table: what to change, when, to what, and what it takes. */
#include "core/advice.h"

#include "core/scorecard.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct adviser {
  struct finding_case *c;
  struct change_base base;
  struct scorecard_change *items;
  size_t count;
  unsigned withheld;
  char withheld_names[160];
};

/* One kind of advice. `propose` says to what, or that nothing calls for it; it may try evaluations to find out. */
struct proposal {
  const char *knob, *pointer;
  enum change_requires requires;
  enum err (*propose)(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                      struct error *e);
  const char *reason;
};

bool advice_is_allowed(const struct workload *workload, enum change_requires requires)
{
  return workload->constraints.accuracy == ACCURACY_FREE ||
         (requires != REQUIRES_REQUANTISATION && requires != REQUIRES_RETRAINING);
}

/* ---- sentences ---- */

static void write_value(char *to, size_t size, const struct knob_value *value)
{
  switch (value->type) {
  case KNOB_VALUE_NULL: (void)snprintf(to, size, "not set"); break;
  case KNOB_VALUE_NUMBER: (void)snprintf(to, size, "%.6g", value->number); break;
  case KNOB_VALUE_FLAG: (void)snprintf(to, size, "%s", value->number > 0 ? "true" : "false"); break;
  case KNOB_VALUE_TEXT: (void)snprintf(to, size, "%s", value->text); break;
  case KNOB_VALUE_LENGTH: (void)snprintf(to, size, "a mean of %.6g", length_mean_tokens(&value->length)); break;
  }
}

const char *advice_message(struct arena *arena, const struct scorecard_change *change, const char *reason)
{
  const size_t told = 3;
  char from[48], to[48], effects[240] = "";
  size_t used = 0;
  write_value(from, sizeof from, &change->from);
  write_value(to, sizeof to, &change->to);
  for (size_t i = 0; i < change->effect_count && i < told && used < sizeof effects; i++) {
    const struct scorecard_effect *effect = &change->effects[i];
    used += (size_t)(isnan(effect->from)
                         ? snprintf(effects + used, sizeof effects - used, "; %s %.4g", effect->metric, effect->to)
                         : snprintf(effects + used, sizeof effects - used, "; %s %.4g -> %.4g", effect->metric,
                                    effect->from, effect->to));
  }
  return arena_printf(arena, "%s %s -> %s: %s%s", change->knob, from, to, reason, effects);
}

/* ---- when, and to what ---- */

static const struct workload *workload_of(const struct adviser *a)
{
  return a->c->request->workload;
}

static enum err propose_number(bool *is_called_for, struct knob_value *to, bool when, double number)
{
  *is_called_for = when;
  *to = knob_number(number);
  return ERR_OK;
}

static enum err propose_flag(bool *is_called_for, struct knob_value *to, bool when, bool is_set)
{
  *is_called_for = when;
  *to = knob_number(is_set);
  to->type = KNOB_VALUE_FLAG;
  return ERR_OK;
}

static enum err propose_heads(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                              struct error *e)
{
  (void)pointer;
  (void)e;
  return propose_number(is_called_for, to, finding_has(a->c->card, "attention_not_grouped"),
                        finding_grouped_heads(a->c->request->model));
}

/* Where the cache limits the batch or is much of the traffic. */
static enum err propose_kv_format(bool *is_called_for, struct knob_value *to, const struct adviser *a,
                                  const char *pointer, struct error *e)
{
  const double noticed = 0.25;
  const struct scorecard_phase *decode = &a->c->card->decode;
  const double share = decode->kv_bytes / (decode->kv_bytes + decode->weights_bytes);
  (void)pointer;
  (void)e;
  *to = knob_text(precision_name(PRECISION_FP8));
  *is_called_for = precision_element_bytes(a->c->input->precision.kv_cache) >= 2 &&
                   (share > noticed || finding_has(a->c->card, "kv_cache_limits_batch"));
  return ERR_OK;
}

/* The cheapest rung of the ladder that the device runs at least as weights alone. */
static enum err propose_weights(bool *is_called_for, struct knob_value *to, const struct adviser *a,
                                const char *pointer, struct error *e)
{
  const struct scorecard *card = a->c->card;
  const struct scorecard_rung *best = NULL;
  double best_cost = (double)INFINITY;
  (void)e;
  *is_called_for = false;
  if (workload_of(a)->precision_is_word != (strcmp(pointer, "/precision") == 0))
    return ERR_OK;
  for (size_t i = 0; i < card->ladder_count; i++) {
    const struct scorecard_rung *rung = &card->ladder[i];
    const double cost = isnan(rung->per_successful_request_usd) ? rung->gpus : rung->per_successful_request_usd;
    if (rung->gpus == 0 || rung->support > PRECISION_WEIGHT_ONLY || rung->precision == card->configuration.weights ||
        rung->verdict > card->verdict || cost >= best_cost)
      continue;
    best = rung;
    best_cost = cost;
  }
  *is_called_for = best != NULL;
  *to = knob_text(precision_name(best != NULL ? best->precision : PRECISION_NONE));
  return ERR_OK;
}

/* What the search takes when the sketch leaves a setting open: proposed where it differs. */
static enum err propose_open(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                             unsigned given, unsigned (*chosen)(const struct scorecard_configuration *configuration),
                             struct error *e)
{
  struct knob_value nothing = knob_number((double)NAN);
  struct scorecard open;
  bool is_possible;
  enum err err;
  *is_called_for = false;
  nothing.type = KNOB_VALUE_NULL;
  if (given == 0)
    return ERR_OK;
  if ((err = change_evaluate(&open, &is_possible, &a->base, pointer, &nothing, e)) != ERR_OK)
    return err;
  *is_called_for = is_possible && open.has_configuration && chosen(&open.configuration) != given;
  *to = knob_number(is_possible && open.has_configuration ? chosen(&open.configuration) : 0);
  return ERR_OK;
}

static unsigned tensor_parallel_of(const struct scorecard_configuration *configuration)
{
  return configuration->tensor_parallel;
}

static unsigned replicas_of(const struct scorecard_configuration *configuration)
{
  return configuration->replicas;
}

static unsigned max_batch_of(const struct scorecard_configuration *configuration)
{
  return configuration->max_batch;
}

static enum err propose_tensor(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                               struct error *e)
{
  return propose_open(is_called_for, to, a, pointer, workload_of(a)->serving.tensor_parallel, tensor_parallel_of, e);
}

static enum err propose_replicas(bool *is_called_for, struct knob_value *to, const struct adviser *a,
                                 const char *pointer, struct error *e)
{
  return propose_open(is_called_for, to, a, pointer, workload_of(a)->serving.replicas, replicas_of, e);
}

static enum err propose_batch(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                              struct error *e)
{
  const bool limits = a->c->card->limits.first_limit == LIMIT_BATCH;
  return propose_open(is_called_for, to, a, pointer, limits ? workload_of(a)->serving.max_batch : 0, max_batch_of, e);
}

/* Above 0.95 engines run out of memory at the first irregular allocation. */
static enum err propose_fraction(bool *is_called_for, struct knob_value *to, const struct adviser *a,
                                 const char *pointer, struct error *e)
{
  const double most = 0.95;
  (void)pointer;
  (void)e;
  return propose_number(is_called_for, to,
                        a->c->card->limits.first_limit == LIMIT_KV_CACHE &&
                            a->c->result->best.engine.preset.memory_fraction_ratio < most,
                        most);
}

static enum err propose_graphs(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                               struct error *e)
{
  (void)pointer;
  (void)e;
  return propose_flag(is_called_for, to, workload_of(a)->serving.cuda_graphs == 0, true);
}

static enum err propose_prefix(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                               struct error *e)
{
  (void)pointer;
  (void)e;
  return propose_flag(
      is_called_for, to,
      workload_of(a)->traffic.shared_prefix_tokens > 0 && !a->c->result->best.engine.preset.has_prefix_caching, true);
}

static enum err propose_chunks(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                               struct error *e)
{
  (void)pointer;
  (void)e;
  return propose_flag(is_called_for, to, workload_of(a)->serving.chunked_prefill == 0, true);
}

static enum err propose_budget(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                               struct error *e)
{
  const double smaller = 2048;
  (void)pointer;
  (void)e;
  return propose_number(is_called_for, to,
                        finding_has(a->c->card, "head_of_line_blocking") &&
                            a->c->result->best.engine.preset.max_batched_tokens > smaller,
                        smaller);
}

static enum err propose_no_draft(bool *is_called_for, struct knob_value *to, const struct adviser *a,
                                 const char *pointer, struct error *e)
{
  (void)pointer;
  (void)e;
  *to = knob_number((double)NAN);
  to->type = KNOB_VALUE_NULL;
  *is_called_for = finding_has(a->c->card, "speculation_slows");
  return ERR_OK;
}

static enum err propose_poll(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                             struct error *e)
{
  (void)pointer;
  (void)e;
  return propose_number(is_called_for, to, workload_of(a)->serving.recv_interval_steps > 1, 1);
}

/* The board's own limit, in the block that holds the cap. */
static enum err propose_power(bool *is_called_for, struct knob_value *to, const struct adviser *a, const char *pointer,
                              struct error *e)
{
  const struct hardware *profile = a->c->request->hardware;
  const double asked_w = workload_of(a)->constraints.power_cap_w;
  const bool is_profiles = !(asked_w < profile->tdp_w) || profile->power_cap_w <= asked_w;
  const bool wants_profile = strncmp(pointer, "/profile/", strlen("/profile/")) == 0;
  (void)e;
  return propose_number(is_called_for, to, finding_has(a->c->card, "power_capped") && is_profiles == wants_profile,
                        profile->tdp_w);
}

static const struct proposal proposals[] = {
    {"cuda_graphs", "/serving/cuda_graphs", REQUIRES_CONFIGURATION, propose_graphs,
     "the host no longer launches every kernel of a step"},
    {"prefix_caching", "/serving/prefix_caching", REQUIRES_CONFIGURATION, propose_prefix,
     "the shared prefix is computed once"},
    {"tensor_parallel", "/serving/tensor_parallel", REQUIRES_CONFIGURATION, propose_tensor,
     "the search finds this cut better"},
    {"replicas", "/serving/replicas", REQUIRES_CONFIGURATION, propose_replicas, "so many carry the load"},
    {"max_batch", "/serving/max_batch", REQUIRES_CONFIGURATION, propose_batch,
     "the limit, not the device, ends the batch"},
    {"memory_fraction", "/serving/memory_fraction", REQUIRES_CONFIGURATION, propose_fraction,
     "what the engine leaves unused becomes KV cache"},
    {"chunked_prefill", "/serving/chunked_prefill", REQUIRES_CONFIGURATION, propose_chunks,
     "prompts share steps with those who are reading"},
    {"max_batched_tokens", "/serving/max_batched_tokens", REQUIRES_CONFIGURATION, propose_budget,
     "smaller chunks hold up those who are reading for less"},
    {"draft_tokens", "/serving/speculative/draft_tokens", REQUIRES_CONFIGURATION, propose_no_draft,
     "drafting takes longer than it saves"},
    {"recv_interval_steps", "/serving/recv_interval_steps", REQUIRES_CONFIGURATION, propose_poll,
     "new requests are seen at every step"},
    {"kv_cache", "/precision/kv_cache", REQUIRES_REQUANTISATION, propose_kv_format,
     "half the bytes a cached token; its accuracy is to be measured"},
    {"weights", "/precision/weights", REQUIRES_REQUANTISATION, propose_weights,
     "the cheapest rung of the precision ladder; its accuracy is to be measured"},
    {"precision", "/precision", REQUIRES_REQUANTISATION, propose_weights,
     "the cheapest rung of the precision ladder; its accuracy is to be measured"},
    {"power_cap_w", "/constraints/power_cap_w", REQUIRES_PROCUREMENT, propose_power, "the board runs at its own limit"},
    {"power_cap_w", "/profile/power_cap_w", REQUIRES_PROCUREMENT, propose_power, "the board runs at its own limit"},
    {"num_key_value_heads", "/model/num_key_value_heads", REQUIRES_RETRAINING, propose_heads,
     "query heads share KV heads"},
};

/* ---- confirming ---- */

static bool is_less(double to, double from, double ratio)
{
  return to < from * ratio;
}

/* Better is: a better verdict; the same at 2 % less cost; or at no more cost something that users or the next surge feel. */
static bool is_better(const struct scorecard *from, const struct scorecard *to)
{
  const double cost_from = change_cost(from), cost_to = change_cost(to);
  if (!to->has_latency || to->verdict > from->verdict)
    return false;
  if (to->verdict < from->verdict || is_less(cost_to, cost_from, 0.98))
    return true;
  if (cost_to > cost_from * 1.001)
    return false;
  return is_less(to->latency.itl_s.p50, from->latency.itl_s.p50, 0.95) ||
         is_less(to->latency.ttft_s.p50, from->latency.ttft_s.p50, 0.95) ||
         is_less(from->memory.max_concurrent_sessions, to->memory.max_concurrent_sessions, 0.8) ||
         is_less(from->limits.saturation_requests_per_s, to->limits.saturation_requests_per_s, 0.9);
}

/* What the closed form finds better, if the simulation finds so too; its figures are the effects. */
static enum err add(struct adviser *a, const char *knob, const char *pointer, enum change_requires requires,
                    const struct knob_value *to, const char *reason, struct error *e)
{
  const struct change_base base = {a->c->request, FIT_SIMULATED, a->c->arena, true, false};
  const struct scorecard *from = a->c->simulated;
  struct scorecard_change *change = &a->items[a->count];
  struct scorecard changed;
  bool is_possible;
  enum err err;
  if (a->count == ADVICE_MAX)
    return ERR_OK;
  err = change_evaluate(&changed, &is_possible, &base, pointer, to, e);
  if (err != ERR_OK)
    return err;
  if (!is_possible || !is_better(from, &changed))
    return ERR_OK;
  change->knob = knob;
  change->pointer = pointer;
  change->requires = requires;
  change->from = change_value(a->c->request, a->c->card, &a->c->input->preset, pointer);
  change->to = *to;
  change_effects(change, from, &changed);
  change->payback_months = change_payback_months(from, &changed, workload_of(a));
  change->message = advice_message(a->c->arena, change, reason);
  if (change->message == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  a->count++;
  return ERR_OK;
}

static void withhold(struct adviser *a, const char *knob)
{
  const size_t used = strlen(a->withheld_names);
  (void)snprintf(a->withheld_names + used, sizeof a->withheld_names - used, "%s%s", a->withheld > 0 ? ", " : "", knob);
  a->withheld++;
}

/* Fewer GPUs that do the same are a finding of their own. */
static void find_over_sharded(struct adviser *a, const struct scorecard *changed)
{
  const struct scorecard *card = a->c->closed_form;
  const struct scorecard_evidence evidence[] = {
      {"gpus", card->configuration.gpus},
      {"gpus_that_suffice", changed->configuration.gpus},
      {"tensor_parallel", card->configuration.tensor_parallel},
      {"tensor_parallel_that_suffices", changed->configuration.tensor_parallel},
      {"per_successful_request_usd", card->cost.per_successful_request_usd},
      {"per_successful_request_usd_then", changed->cost.per_successful_request_usd}};
  if (changed->configuration.gpus >= card->configuration.gpus || changed->verdict > card->verdict ||
      finding_has(a->c->card, "over_sharded"))
    return;
  FINDING_ADD(a->c, "over_sharded", SEVERITY_WARNING,
              arena_printf(a->c->arena, "%u GPUs serve what %u would: tensor_parallel %u with %u replicas suffices",
                           card->configuration.gpus, changed->configuration.gpus,
                           changed->configuration.tensor_parallel, changed->configuration.replicas),
              evidence);
}

static enum err consider(struct adviser *a, const struct proposal *p, struct error *e)
{
  struct scorecard changed;
  struct knob_value to;
  bool is_called_for, is_possible;
  enum err err = p->propose(&is_called_for, &to, a, p->pointer, e);
  if (err != ERR_OK || !is_called_for)
    return err;
  if (!advice_is_allowed(workload_of(a), p->requires)) {
    withhold(a, p->knob);
    return ERR_OK;
  }
  if ((err = change_evaluate(&changed, &is_possible, &a->base, p->pointer, &to, e)) != ERR_OK || !is_possible ||
      !is_better(a->c->closed_form, &changed))
    return err;
  if (p->propose == propose_tensor || p->propose == propose_replicas)
    find_over_sharded(a, &changed);
  return add(a, p->knob, p->pointer, p->requires, &to, p->reason, e);
}

/* ---- interactivity against throughput ---- */

/* The limit on gaps that binds: the one with the least margin, where none is decided the tightest. */
static const char *binding_gap(double *limit_ms, const struct scorecard *card)
{
  static const struct {
    const char *metric, *pointer;
  } gaps[] = {{"latency.itl_ms.p50", "/targets/itl_ms/p50"},
              {"latency.tpot_ms.mean", "/targets/tpot_ms/mean"},
              {"latency.itl_ms.p90", "/targets/itl_ms/p90"},
              {"latency.itl_ms.p99", "/targets/itl_ms/p99"}};
  const char *pointer = NULL;
  double least = (double)INFINITY;
  for (size_t i = 0; i < card->target_count; i++)
    for (size_t k = 0; k < sizeof gaps / sizeof gaps[0]; k++) {
      const struct scorecard_target *t = &card->targets[i];
      const double rank = isnan(t->margin_ratio) ? 1 + t->target : t->margin_ratio;
      if (strcmp(t->metric, gaps[k].metric) != 0 || rank >= least)
        continue;
      least = rank;
      pointer = gaps[k].pointer;
      *limit_ms = t->target;
    }
  return pointer;
}

/* The points of the frontier either side: what a quarter more and a fifth less patience cost. */
static enum err find_trade(struct adviser *a, struct error *e)
{
  const double looser = 1.25, tighter = 0.8;
  struct scorecard loose, tight;
  double limit_ms = (double)NAN;
  const char *pointer = binding_gap(&limit_ms, a->c->card);
  struct knob_value to = knob_number(limit_ms * looser), back = knob_number(limit_ms * tighter);
  bool is_possible;
  enum err err;
  if (pointer == NULL || a->c->closed_form->verdict != VERDICT_FIT)
    return ERR_OK;
  if ((err = change_evaluate(&loose, &is_possible, &a->base, pointer, &to, e)) != ERR_OK || !is_possible ||
      !is_less(change_cost(&loose), change_cost(a->c->closed_form), 0.98))
    return err;
  if ((err = change_evaluate(&tight, &is_possible, &a->base, pointer, &back, e)) != ERR_OK)
    return err;
  const struct scorecard_evidence evidence[] = {
      {"limit_ms", limit_ms},
      {"cost", change_cost(a->c->closed_form)},
      {"looser_limit_ms", to.number},
      {"cost_at_looser", change_cost(&loose)},
      {"tighter_limit_ms", back.number},
      {"cost_at_tighter", is_possible && tight.verdict == VERDICT_FIT ? change_cost(&tight) : (double)NAN}};
  FINDING_ADD(a->c, "batch_trades_interactivity", SEVERITY_INFO,
              arena_printf(a->c->arena,
                           "%s holds the batch down: at %.4g instead of %.4g ms a request costs %.3g instead of %.3g%s",
                           pointer, to.number, limit_ms, change_cost(&loose), change_cost(a->c->closed_form),
                           isnan(a->c->card->cost.per_successful_request_usd) ? " GPUs" : " USD"),
              evidence);
  return add(a, "itl_ms", pointer, REQUIRES_PROMISE, &to, "more patience lets a larger batch run", e);
}

/* ---- accuracy ---- */

static void find_locked(struct adviser *a)
{
  const bool is_locked = workload_of(a)->constraints.accuracy == ACCURACY_LOCKED;
  const struct scorecard_evidence evidence[] = {{"withheld", a->withheld}};
  if (workload_of(a)->constraints.accuracy == ACCURACY_FREE)
    return;
  FINDING_ADD(a->c, "accuracy_locked", SEVERITY_INFO,
              arena_printf(a->c->arena,
                           "accuracy is %s: no change to weights, formats or architecture is advised%s; "
                           "withheld: %s",
                           is_locked ? "locked" : "to be validated",
                           is_locked ? "" : " without quality results, and none are known",
                           a->withheld > 0 ? a->withheld_names : "nothing"),
              evidence);
}

/* ---- the whole ---- */

enum err advice_fill(struct finding_case *c, struct error *e)
{
  struct adviser a = {.c = c, .base = {c->request, FIT_QUICK, c->arena, false, false}};
  enum err err = ERR_OK;
  a.items = arena_alloc(c->arena, ADVICE_MAX, sizeof *a.items);
  if (a.items == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  for (size_t i = 0; i < sizeof proposals / sizeof proposals[0] && c->card->has_latency && err == ERR_OK; i++)
    err = consider(&a, &proposals[i], e);
  if (err == ERR_OK && c->card->has_latency)
    err = find_trade(&a, e);
  find_locked(&a);
  c->card->advice = a.items;
  c->card->advice_count = a.count;
  if (err == ERR_OK && c->is_failed)
    err = error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  return err;
}
