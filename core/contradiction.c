/* Limits beside each other, and beside the roofline. */
#include "core/contradiction.h"

#include "core/parallel.h"
#include "core/scorecard.h"
#include "core/served.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct search {
  struct scorecard *card;
  const struct search_input *input;
  struct arena *arena;
  bool is_failed; /* the arena was exhausted */
  bool is_found;
  bool is_below[SCORECARD_TARGETS_MAX]; /* targets that the device's floor misses */
};

/* Three limits of one percentile; NaN = not given. */
struct limits {
  const char *percentile;
  double p;
  double ttft_ms, itl_ms, e2e_ms;
};

/* Only what can not be is called a contradiction: a card that fits may carry the other. */
static void add(struct search *s, enum severity severity, const char *message,
                const struct scorecard_evidence *evidence, size_t count)
{
  if (message == NULL) {
    s->is_failed = true;
    return;
  }
  scorecard_add_finding(s->card, severity == SEVERITY_CRITICAL ? "targets_contradict" : "tail_targets_add_up", severity,
                        message, evidence, count);
  if (severity != SEVERITY_CRITICAL || s->is_found)
    return;
  s->is_found = true;
  s->card->no_fit_detail = message;
}

/* ---- limits against each other ---- */

/* Between the deliveries of an answer of that quantile of length; a draft makes several tokens come at once. */
static double gaps(const struct search *s, double p)
{
  const double tokens = fmax(1, length_quantile_tokens(&s->input->workload->traffic.output, p));
  return (tokens - 1) / (s->input->speculation.draft_tokens != 0 ? s->input->speculation.tokens_per_step : 1);
}

/* A request ends with its last token: first token and gaps are parts of it. Medians add up like the requests they are of;
   tails need not fall on the same request, so a sum over them binds nothing and is only told. */
static void compare_sum(struct search *s, const struct limits *l)
{
  const double count = gaps(s, l->p);
  const double ttft_ms = isnan(l->ttft_ms) ? 0 : l->ttft_ms;
  const double sum_ms = ttft_ms + count * l->itl_ms;
  const bool is_median = l->p < 0.6;
  const struct scorecard_evidence evidence[] = {
      {"ttft_ms", ttft_ms}, {"itl_ms", l->itl_ms}, {"e2e_ms", l->e2e_ms},
      {"gaps", count},      {"sum_ms", sum_ms},    {"itl_ms_that_e2e_allows", (l->e2e_ms - ttft_ms) / fmax(1, count)}};
  if (!(sum_ms > l->e2e_ms))
    return;
  add(s, is_median ? SEVERITY_CRITICAL : SEVERITY_WARNING,
      arena_printf(s->arena,
                   is_median ? "/targets/ttft_ms/%s %.6g + %.6g x /targets/itl_ms/%s %.6g is %.6g ms, more than "
                               "/targets/e2e_ms/%s %.6g"
                             : "a request at its limits of /targets/ttft_ms/%s %.6g + %.6g x /targets/itl_ms/%s %.6g "
                               "takes %.6g ms: /targets/e2e_ms/%s %.6g is the limit that binds",
                   l->percentile, ttft_ms, count, l->percentile, l->itl_ms, sum_ms, l->percentile, l->e2e_ms),
      evidence, sizeof evidence / sizeof evidence[0]);
}

static void compare_parts(struct search *s, const struct limits *l)
{
  const struct scorecard_evidence evidence[] = {{"ttft_ms", l->ttft_ms}, {"e2e_ms", l->e2e_ms}};
  if (!(l->ttft_ms > l->e2e_ms)) {
    compare_sum(s, l);
    return;
  }
  add(s, SEVERITY_CRITICAL,
      arena_printf(s->arena,
                   "/targets/ttft_ms/%s allows %.6g ms for a part of what /targets/e2e_ms/%s gives %.6g ms to",
                   l->percentile, l->ttft_ms, l->percentile, l->e2e_ms),
      evidence, sizeof evidence / sizeof evidence[0]);
}

/* ---- limits against the device ---- */

/* What no engine can be below: all parameters that a token uses are multiplied once at the peak of the fastest format in
   use, and read once a step at full bandwidth, over as many devices as one replica can have. */
struct floors {
  double devices;
  double prefill_s; /* of the mean prompt, what is cached left out */
  double step_s;    /* of one sequence alone */
};

/* Whatever cut the sketch holds: a limit that another cut could keep is missed, not impossible. */
static double widest_group(const struct search_input *input)
{
  const unsigned held = input->workload->serving.tensor_parallel;
  unsigned degrees[64];
  const size_t count = parallel_tensor_degrees(degrees, 64, input->model, input->hardware);
  const unsigned widest = count > 0 ? degrees[count - 1] : 1;
  return held > widest ? held : widest;
}

static void fastest(double *peak_flops, double *bytes, const struct search_input *input, enum precision format)
{
  enum precision math;
  (void)precision_support(input->hardware, format, input->workload->activations, &math);
  *peak_flops = fmax(*peak_flops, hardware_peak_flops(input->hardware, math));
  *bytes = fmin(*bytes, model_bytes_per_weight(input->model, format));
}

static struct floors floors_of(const struct search_input *input)
{
  const struct parameter_counts counts = model_parameters(input->model);
  const double active = (double)model_parameters_active(input->model) - (double)counts.embeddings;
  const double layers = fmax(0, active - (double)counts.head); /* the head is needed for the last token alone */
  const struct model_precision *precision = &input->precision;
  double peak_flops = 0, bytes = (double)INFINITY;
  struct floors floors = {.devices = widest_group(input)};
  fastest(&peak_flops, &bytes, input, precision->dense);
  fastest(&peak_flops, &bytes, input, precision->attention);
  if (served_has_experts(input->model))
    fastest(&peak_flops, &bytes, input, precision->experts);
  if (peak_flops > 0)
    floors.prefill_s = 2 * layers * fmax(0, input->prompt_tokens) / (peak_flops * floors.devices);
  floors.step_s = layers * bytes / (hardware_bandwidth_bytes_s(input->hardware) * floors.devices);
  return floors;
}

static void compare_floor(struct search *s, const struct limits *l, const char *metric, double limit_ms, double floor_s,
                          const struct floors *floors)
{
  const struct scorecard_evidence evidence[] = {
      {"limit_ms", limit_ms}, {"floor_ms", floor_s / MS}, {"gpus", floors->devices}};
  char name[48];
  if (!(limit_ms < floor_s / MS))
    return;
  (void)snprintf(name, sizeof name, "latency.%s.%s", metric, l->percentile);
  for (size_t i = 0; i < s->card->target_count; i++)
    s->is_below[i] = s->is_below[i] || strcmp(s->card->targets[i].metric, name) == 0;
  add(s, SEVERITY_CRITICAL,
      arena_printf(s->arena,
                   "/targets/%s/%s %.6g is below the physical floor of %s: %.3g ms at full peak and bandwidth of %.0f "
                   "GPUs",
                   metric, l->percentile, limit_ms, s->input->hardware->name, floor_s / MS, floors->devices),
      evidence, sizeof evidence / sizeof evidence[0]);
}

/* Half of the prompts and more are shorter than their mean where lengths vary: the floor is that of a typical one. */
static void compare_floors(struct search *s, const struct limits *l, const struct floors *floors)
{
  const double mean = length_mean_tokens(&s->input->workload->traffic.input);
  const double typical = length_quantile_tokens(&s->input->workload->traffic.input, 0.5);
  const double prefill_s = floors->prefill_s * fmin(1, typical / mean);
  compare_floor(s, l, "ttft_ms", l->ttft_ms, prefill_s, floors);
  compare_floor(s, l, "itl_ms", l->itl_ms, floors->step_s, floors);
  compare_floor(s, l, "e2e_ms", l->e2e_ms, prefill_s + gaps(s, l->p) * floors->step_s, floors);
}

/* ---- the whole ---- */

/* Nothing that the card says of a configuration is left; a limit below the floor is missed by every one. */
static void withdraw(const struct search *s)
{
  struct scorecard *card = s->card;
  card->verdict = VERDICT_NO_FIT;
  card->no_fit_reason = NO_FIT_TARGETS_CONTRADICT;
  card->has_configuration = false;
  card->has_latency = false;
  for (size_t i = 0; i < card->target_count; i++) {
    card->targets[i].actual = card->targets[i].margin_ratio = (double)NAN;
    card->targets[i].met = s->is_below[i] ? 0 : -1;
  }
}

enum err contradiction_report(struct scorecard *card, const struct search_input *input, struct arena *arena,
                              struct error *e)
{
  const struct workload_targets *t = &input->workload->targets;
  const struct limits limits[] = {{"p50", 0.5, t->ttft_ms.p50, t->itl_ms.p50, t->e2e_ms.p50},
                                  {"p90", 0.9, t->ttft_ms.p90, t->itl_ms.p90, t->e2e_ms.p90},
                                  {"p99", 0.99, t->ttft_ms.p99, t->itl_ms.p99, t->e2e_ms.p99}};
  const struct floors floors = floors_of(input);
  struct search s = {.card = card, .input = input, .arena = arena};
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    compare_parts(&s, &limits[i]);
    compare_floors(&s, &limits[i], &floors);
  }
  if (s.is_failed)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  if (s.is_found)
    withdraw(&s);
  return ERR_OK;
}
