/* A copy of what the pointer leads into, changed, and the facade called with it. */
#include "core/change.h"

#include "core/units.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static bool leads_into(const char *pointer, const char *root)
{
  return strncmp(pointer, root, strlen(root)) == 0;
}

/* A change that is refused, or that takes more memory than allowed to evaluate, can not be confirmed. */
static enum err sort_out(bool *is_possible, enum err err)
{
  *is_possible = err == ERR_OK;
  return err == ERR_INVALID || err == ERR_LIMIT ? ERR_OK : err;
}

static enum err set_and_evaluate(struct scorecard *out, bool *is_possible, const struct change_base *base,
                                 const struct knob_subject *subject, const char *pointer,
                                 const struct knob_value *value, struct error *e)
{
  struct fit_request request = *base->request;
  const size_t mark = arena_mark(base->arena);
  enum err err = knob_set(subject, pointer, value, e);
  if (err == ERR_OK)
    err = knob_check(subject, e);
  if (subject->workload != NULL)
    request.workload = subject->workload;
  if (subject->model != NULL)
    request.model = subject->model;
  if (subject->hardware != NULL)
    request.hardware = subject->hardware;
  request.depth = base->depth;
  request.is_verdict_enough = base->is_verdict_enough;
  request.is_probe = base->is_probe;
  if (err == ERR_OK)
    err = fit_evaluate(out, &request, base->arena, e);
  arena_release(base->arena, mark);
  return sort_out(is_possible, err);
}

static enum err change_model(struct scorecard *out, bool *is_possible, const struct change_base *base,
                             const char *pointer, const struct knob_value *value, struct error *e)
{
  struct model model = *base->request->model;
  const struct knob_subject subject = {.model = &model};
  return set_and_evaluate(out, is_possible, base, &subject, pointer, value, e);
}

enum err change_evaluate(struct scorecard *out, bool *is_possible, const struct change_base *base, const char *pointer,
                         const struct knob_value *value, struct error *e)
{
  struct workload workload;
  struct hardware hardware;
  struct knob_subject subject = {.workload = NULL};
  if (leads_into(pointer, "/model/"))
    return change_model(out, is_possible, base, pointer, value, e);
  if (leads_into(pointer, "/profile/")) {
    hardware = *base->request->hardware;
    subject.hardware = &hardware;
  } else {
    workload = *base->request->workload;
    subject.workload = &workload;
  }
  return set_and_evaluate(out, is_possible, base, &subject, pointer, value, e);
}

/* knob_get only reads: the subject's pointers are not const because knob_set shares them. */
static struct knob_value given_value(const struct fit_request *request, const char *pointer)
{
  struct knob_value value = knob_number((double)NAN);
  struct workload workload;
  struct hardware hardware;
  struct model model;
  struct knob_subject subject = {.workload = NULL};
  if (leads_into(pointer, "/model/")) {
    model = *request->model;
    subject.model = &model;
  } else if (leads_into(pointer, "/profile/")) {
    hardware = *request->hardware;
    subject.hardware = &hardware;
  } else {
    workload = *request->workload;
    subject.workload = &workload;
  }
  if (knob_get(&value, pointer, &subject, NULL) != ERR_OK)
    value.type = KNOB_VALUE_NULL;
  return value;
}

static struct knob_value count_or_null(unsigned count)
{
  struct knob_value value = knob_number(count);
  if (count == 0)
    value.type = KNOB_VALUE_NULL;
  return value;
}

struct knob_value change_value(const struct fit_request *request, const struct scorecard *card,
                               const struct preset *preset, const char *pointer)
{
  const struct scorecard_configuration *c = &card->configuration;
  const struct knob_value value = given_value(request, pointer);
  const struct {
    const char *pointer;
    struct knob_value value;
  } taken[] = {{"/precision/weights", knob_text(precision_name(c->weights))},
               {"/precision/kv_cache", knob_text(precision_name(c->kv_cache))},
               {"/serving/tensor_parallel", count_or_null(c->tensor_parallel)},
               {"/serving/replicas", count_or_null(c->replicas)},
               {"/serving/max_batch", count_or_null(c->max_batch)},
               {"/serving/max_batched_tokens", count_or_null(preset->max_batched_tokens)},
               {"/serving/memory_fraction", knob_number(preset->memory_fraction_ratio)}};
  for (size_t i = 0; i < sizeof taken / sizeof taken[0] && value.type == KNOB_VALUE_NULL; i++)
    if (strcmp(taken[i].pointer, pointer) == 0)
      return taken[i].value;
  return value;
}

/* ---- effects ---- */

/* The most telling figures first. Those of a configuration mean nothing on a card without one. */
static const struct figure {
  const char *metric;
  size_t offset;
  double unit;
  bool needs_configuration;
} figures[] = {
#define FIGURE(metric, member, unit, needs)                                                                            \
  {                                                                                                                    \
    metric, offsetof(struct scorecard, member), unit, needs                                                            \
  }
    FIGURE("cost.per_successful_request_usd", cost.per_successful_request_usd, 1, true),
    FIGURE("cost.monthly_usd", cost.monthly_usd, 1, true),
    FIGURE("memory.max_concurrent_sessions", memory.max_concurrent_sessions, 1, false),
    FIGURE("latency.ttft_ms.p99", latency.ttft_s.p99, MS, true),
    FIGURE("latency.itl_ms.p99", latency.itl_s.p99, MS, true),
    FIGURE("latency.ttft_ms.p50", latency.ttft_s.p50, MS, true),
    FIGURE("latency.itl_ms.p50", latency.itl_s.p50, MS, true),
    FIGURE("latency.e2e_ms.p50", latency.e2e_s.p50, MS, true),
    FIGURE("throughput.output_tokens_per_s_per_gpu", throughput.output_tok_s_per_gpu, 1, true),
    FIGURE("limits.saturation_requests_per_s", limits.saturation_requests_per_s, 1, true),
    FIGURE("memory.max_context_tokens", memory.max_context_tokens, 1, false),
    FIGURE("memory.kv_bytes_per_token", memory.kv_bytes_per_token, 1, false),
    FIGURE("memory.weights_gib", memory.weights_bytes, GIB, false),
#undef FIGURE
};

static double figure_of(const struct scorecard *card, const struct figure *figure)
{
  if (figure->needs_configuration && !card->has_latency)
    return (double)NAN;
  return *(const double *)(const void *)((const char *)card + figure->offset) / figure->unit;
}

static void add_effect(struct scorecard_change *change, const char *metric, double from, double to)
{
  const double noticed = 0.005;
  if (change->effect_count == SCORECARD_EFFECTS_MAX || !isfinite(to) || fabs(to - from) <= noticed * fabs(from))
    return;
  change->effects[change->effect_count++] = (struct scorecard_effect){metric, isfinite(from) ? from : (double)NAN, to};
}

static double gpus_of(const struct scorecard *card)
{
  return card->has_configuration ? (double)card->configuration.gpus : (double)NAN;
}

void change_effects(struct scorecard_change *change, const struct scorecard *from, const struct scorecard *to)
{
  change->effect_count = 0;
  add_effect(change, "configuration.gpus", gpus_of(from), gpus_of(to));
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
    add_effect(change, figures[i].metric, figure_of(from, &figures[i]), figure_of(to, &figures[i]));
}

double change_cost(const struct scorecard *card)
{
  if (!card->has_latency)
    return (double)NAN;
  return isnan(card->cost.per_successful_request_usd) ? card->configuration.gpus
                                                      : card->cost.per_successful_request_usd;
}

double change_payback_months(const struct scorecard *from, const struct scorecard *to, const struct workload *workload)
{
  const double saved_usd = from->has_latency && to->has_latency ? from->cost.monthly_usd - to->cost.monthly_usd : 0;
  return saved_usd > 0 ? workload->constraints.change_cost_usd / saved_usd : (double)NAN;
}
