/* Layouts by the least that a request can cost there, until none of the rest can be better than what was found. */
#include "core/search_int.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SEARCH_OPTIONS_MAX (2 * LAYOUTS_MAX)

/* GPUs a request and second where there is no price. */
static double request_cost(const struct candidate *candidate)
{
  if (!isnan(candidate->usd_per_request))
    return candidate->usd_per_request;
  return candidate->gpus / (candidate->state.requests_per_s * candidate->replicas);
}

/* What configurations that meet all targets are chosen by. */
struct rank {
  double request_cost;
  unsigned gpus_billed, replicas;
  double utilisation_ratio;
  struct layout layout;
};

static struct rank rank_of(const struct candidate *candidate)
{
  return (struct rank){request_cost(candidate), candidate->gpus_billed, candidate->replicas,
                       candidate->state.utilisation_ratio, candidate->layout};
}

/* Cheaper per request, then fewer GPUs to pay, fewer replicas and stages, more headroom, the plainer layout: a paid GPU that
   stands unused helps nobody. < 0: a first. */
static int rank_compare(const struct rank *a, const struct rank *b)
{
  const double tie = 1e-9; /* relative */
  if (fabs(a->request_cost - b->request_cost) > tie * fmin(a->request_cost, b->request_cost))
    return a->request_cost < b->request_cost ? -1 : 1;
  if (a->gpus_billed != b->gpus_billed)
    return a->gpus_billed < b->gpus_billed ? -1 : 1;
  if (a->replicas != b->replicas)
    return a->replicas < b->replicas ? -1 : 1;
  if (a->layout.pipeline_parallel != b->layout.pipeline_parallel)
    return a->layout.pipeline_parallel < b->layout.pipeline_parallel ? -1 : 1;
  if (fabs(a->utilisation_ratio - b->utilisation_ratio) > tie)
    return a->utilisation_ratio < b->utilisation_ratio ? -1 : 1;
  return layouts_compare(&a->layout, &b->layout);
}

static bool is_cheaper(const struct candidate *a, const struct candidate *b)
{
  const struct rank left = rank_of(a), right = rank_of(b);
  return rank_compare(&left, &right) < 0;
}

bool search_fits(const struct candidate *candidate)
{
  return candidate->is_within_quota && candidate->worst_excess <= 0;
}

/* Without stated latency targets the preset's come next after the verdict. */
static bool is_steered(const struct candidate *candidate)
{
  return candidate->steering_excess <= 0;
}

double search_distance(double excess, unsigned gpus)
{
  const double nearer = log2(1 / 0.9); /* a tenth a doubling */
  return (1 + fmax(0, excess)) * pow(gpus, nearer);
}

/* A fit beats a miss; among misses the one within quota, then the nearest. */
bool search_is_better(const struct candidate *a, const struct candidate *b)
{
  double left, right;
  if (search_fits(a) != search_fits(b))
    return search_fits(a);
  if (search_fits(a) && is_steered(a) != is_steered(b))
    return is_steered(a);
  if (search_fits(a))
    return is_cheaper(a, b);
  if (a->is_within_quota != b->is_within_quota)
    return a->is_within_quota;
  left = search_distance(a->worst_excess, a->gpus);
  right = search_distance(b->worst_excess, b->gpus);
  return fabs(left - right) > 1e-9 * left ? left < right : is_cheaper(a, b);
}

void search_explain_miss(struct search_result *out, const struct search_input *input)
{
  const struct candidate *best = &out->best;
  const unsigned quota = input->workload->constraints.gpu_quota;
  if (quota != 0 && best->wanted_gpus > quota) {
    out->reason = NO_FIT_QUOTA_EXCEEDED;
    (void)snprintf(out->detail, sizeof out->detail, "%u GPUs are needed, the quota is %u", best->wanted_gpus, quota);
  } else if (best->state.is_saturated) {
    out->reason = NO_FIT_TARGETS_MISSED;
    (void)snprintf(out->detail, sizeof out->detail,
                   "%.3g requests/s are offered, %u replicas finish at most %.3g: the queue grows without end",
                   input->workload->traffic.requests_per_s, best->replicas,
                   best->capacity_requests_per_s * best->replicas);
  } else {
    out->reason = NO_FIT_TARGETS_MISSED;
    (void)snprintf(out->detail, sizeof out->detail, "the closest configuration misses a target by %.3g %%",
                   best->worst_excess * 100);
  }
}

/* ---- Which layouts are worth it ---- */

/* The best that a layout can come to: the whole bill over all the requests that it finishes at capacity, with the fewest
   replicas that carry the load. */
static struct rank best_rank(const struct search_input *input, const struct candidate *candidate)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  const bool has_price = !isnan(candidate->price.usd_per_gpu_hour), is_open = traffic->load == LOAD_OPEN;
  const unsigned given = search_given_replicas(input);
  const unsigned replicas = given != 0 ? given : search_capacity_replicas(input, candidate);
  const unsigned gpus = replicas * parallel_gpus(&candidate->layout);
  const double capacity = candidate->capacity_requests_per_s * replicas;
  struct rank rank = {0, cost_billed_gpus(&candidate->price, gpus), replicas, 0, candidate->layout};
  double paid = gpus; /* more replicas may share an instance, except where the load alone tells their number */
  if (has_price)
    paid = candidate->price.usd_per_gpu_hour / SECONDS_PER_HOUR * (is_open || given != 0 ? rank.gpus_billed : gpus);
  rank.request_cost = paid / (is_open ? fmin(traffic->requests_per_s, capacity) : capacity);
  if (is_open)
    rank.utilisation_ratio = traffic->requests_per_s / capacity;
  else if (traffic->concurrency < candidate->batch_limit) /* never more at once, on however many replicas */
    rank.request_cost *=
        candidate->capacity_requests_per_s / search_capacity_at(input, candidate, traffic->concurrency);
  return rank;
}

/* Stages that weights alone rule out: the largest holds at least its share of what a single one would. */
static void skip_stages(struct layout *layout, const struct memory_plan *memory, const struct layout_wish *wish,
                        const struct model *model)
{
  const double least = floor(memory->weights_bytes / memory->usable_bytes);
  if (layout->pipeline_parallel != 1)
    return;
  while (layout->pipeline_parallel < least && layouts_deepen(layout, false, wish, model))
    continue;
}

/* What is kept between layouts. */
struct hunt {
  struct search_result *out;
  const struct search_input *input;
  struct layout_wish wish;
  size_t wanted; /* finalists */
};

/* What a newcomer must beat; NULL while every one is welcome. */
static const struct candidate *to_beat(const struct hunt *hunt)
{
  return hunt->out->finalist_count == hunt->wanted ? &hunt->out->finalists[hunt->wanted - 1] : NULL;
}

/* The same when it is a fit that nothing but a cheaper one can beat, else NULL. */
static const struct candidate *fit_to_beat(const struct hunt *hunt)
{
  const struct candidate *worst = to_beat(hunt);
  return worst != NULL && search_fits(worst) && is_steered(worst) ? worst : NULL;
}

/* Nothing that this can come to is better than the fits that were found. */
static bool is_beaten(const struct hunt *hunt, const struct rank *rank)
{
  const struct candidate *worst = fit_to_beat(hunt);
  const struct rank mark = worst != NULL ? rank_of(worst) : *rank;
  if (hunt->input->is_verdict_enough && worst != NULL)
    return true;
  return rank_compare(&mark, rank) < 0;
}

/* ---- Options of one round ---- */

/* Deeper while a layout does not hold the model, then while stages can do better. */
static size_t add_options(struct rank options[SEARCH_OPTIONS_MAX], size_t count, const struct hunt *hunt,
                          const struct layout *base)
{
  const struct search_input *input = hunt->input;
  struct layout layout = *base;
  struct rank best = {(double)INFINITY, 0, 0, 0, *base};
  char why[192];
  bool holds;
  do {
    struct candidate candidate;
    struct rank rank;
    if (!parallel_check(why, sizeof why, input->model, input->hardware, &layout)) {
      if (!hunt->out->has_tightest)
        (void)snprintf(hunt->out->detail, sizeof hunt->out->detail, "%s", why);
      return count;
    }
    holds = search_prepare(&candidate, hunt->out, input, &layout, 0);
    if (!holds) {
      skip_stages(&layout, &candidate.memory, &hunt->wish, input->model);
      continue;
    }
    rank = best_rank(input, &candidate);
    if (count < SEARCH_OPTIONS_MAX)
      options[count++] = rank;
    if (rank_compare(&rank, &best) >= 0)
      return count;
    best = rank;
  } while (layouts_deepen(&layout, holds, &hunt->wish, input->model));
  return count;
}

/* Cheapest first, so that the first fits cut the rest off. */
static void sort_options(struct rank *options, size_t count)
{
  for (size_t i = 1; i < count; i++) {
    const struct rank moved = options[i];
    size_t to = i;
    for (; to > 0 && rank_compare(&moved, &options[to - 1]) < 0; to--)
      options[to] = options[to - 1];
    options[to] = moved;
  }
}

/* ---- One option ---- */

/* What no number of replicas mends: a floor of latency above a limit, a context that the pool does not hold, a cost. */
static double least_excess(const struct search_input *input, const struct candidate *candidate, double least_cost,
                           double floor_excess)
{
  const struct workload_targets *targets = &input->workload->targets;
  double excess = targets_have_latency(targets) ? floor_excess : -1;
  if (!isnan(targets->max_context_tokens))
    excess = fmax(excess, 1 - search_max_context_tokens(input, candidate) / targets->max_context_tokens);
  if (!isnan(targets->cost_per_successful_request_usd) && !isnan(candidate->price.usd_per_gpu_hour))
    excess = fmax(excess, least_cost / targets->cost_per_successful_request_usd - 1);
  return excess;
}

/* Whether a layout that misses by so much at least is out of the race, even with a single replica. */
static bool is_hopeless(const struct hunt *hunt, const struct candidate *candidate, double excess)
{
  const struct candidate *worst = to_beat(hunt);
  const double least = (1 - 1e-9) * search_distance(excess, parallel_gpus(&candidate->layout));
  return worst != NULL && excess > 0 &&
         (search_fits(worst) || (worst->is_within_quota && search_distance(worst->worst_excess, worst->gpus) < least));
}

/* Replicas beyond which a fleet costs more than the fits that were found, or there is no use for more. */
static unsigned most_replicas(const struct hunt *hunt, const struct candidate *candidate)
{
  const struct workload_traffic *traffic = &hunt->input->workload->traffic;
  const struct candidate *worst = fit_to_beat(hunt);
  const double gpus = parallel_gpus(&candidate->layout);
  double usd_per_s = candidate->price.usd_per_gpu_hour / SECONDS_PER_HOUR;
  if (traffic->load == LOAD_CLOSED || worst == NULL)
    return search_most_replicas(hunt->input);
  usd_per_s = isnan(usd_per_s) ? gpus : usd_per_s * gpus;
  return (unsigned)fmin(SEARCH_REPLICAS_MAX, floor(request_cost(worst) * traffic->requests_per_s / usd_per_s + 1e-6));
}

/* Into the finalists in their order; the worst of them gives way. */
static void keep(const struct hunt *hunt, const struct candidate *candidate)
{
  struct search_result *out = hunt->out;
  size_t place = out->finalist_count;
  while (place > 0 && search_is_better(candidate, &out->finalists[place - 1]))
    place--;
  if (place == hunt->wanted)
    return;
  if (out->finalist_count < hunt->wanted)
    out->finalist_count++;
  for (size_t i = out->finalist_count - 1; i > place; i--)
    out->finalists[i] = out->finalists[i - 1];
  out->finalists[place] = *candidate;
  out->has_candidate = true;
}

/* The fewest replicas that keep the sketch's own limits on latency: fewer for the quota, or more for the headroom, do not
   mend what these miss. */
static bool is_miss_for_good(const struct search_input *input, const struct candidate *candidate)
{
  return input->is_verdict_enough && targets_have_latency(&input->workload->targets) && !search_fits(candidate);
}

/* Headroom and quota are looked at where the rest leaves a chance: they make a fleet dearer or add to what it misses. */
static void finish(const struct hunt *hunt, struct candidate *candidate)
{
  const struct rank rank = rank_of(candidate);
  if (is_beaten(hunt, &rank) || (!search_fits(candidate) && is_hopeless(hunt, candidate, candidate->worst_excess)))
    return;
  if (is_miss_for_good(hunt->input, candidate)) {
    keep(hunt, candidate);
    return;
  }
  search_headroom_knee(candidate, hunt->input);
  if (search_given_replicas(hunt->input) == 0)
    search_add_headroom(candidate, hunt->input);
  search_respect_quota(candidate, hunt->input);
  keep(hunt, candidate);
}

/* The fleet for one layout and batch limit. Where even many replicas do not suffice, the fewest that carry the load. */
static void consider_fleet(const struct hunt *hunt, struct candidate *candidate, const struct rank *bound)
{
  const struct search_input *input = hunt->input;
  unsigned replicas = search_given_replicas(input);
  const double floor_excess = replicas != 0 ? -1 : search_excess_alone(input, candidate);
  const bool has_fit = fit_to_beat(hunt) != NULL;
  if ((has_fit && floor_excess > 0) ||
      (input->is_verdict_enough && hunt->out->has_candidate && floor_excess > 0 &&
       targets_have_latency(&input->workload->targets)) ||
      is_hopeless(hunt, candidate, least_excess(input, candidate, bound->request_cost, floor_excess)))
    return;
  if (replicas == 0 && floor_excess <= 0)
    replicas = search_fewest_replicas(input, candidate, most_replicas(hunt, candidate));
  if (replicas == 0 && has_fit)
    return;
  search_set_replicas(candidate, input, replicas != 0 ? replicas : search_capacity_replicas(input, candidate));
  finish(hunt, candidate);
}

/* Users of a closed loop wait rather than slow each other down where fewer run at once. That is worth a look where the
   sketch limits their wait too. */
static bool searches_batch(const struct search_input *input)
{
  const struct workload_targets *targets = &input->workload->targets;
  return input->workload->traffic.load == LOAD_CLOSED && input->workload->serving.max_batch == 0 &&
         (targets_has_limit(&targets->ttft_ms) || targets_has_limit(&targets->e2e_ms)) &&
         (targets_has_limit(&targets->itl_ms) || targets_has_limit(&targets->tpot_ms));
}

/* Powers of two below what the pool runs and what the users need; the smaller, the dearer a request. */
static void consider_smaller_batches(const struct hunt *hunt, const struct layout *layout, unsigned settled)
{
  const double users = hunt->input->workload->traffic.concurrency / layout->attention_data_parallel;
  struct candidate candidate;
  unsigned limit = 1;
  while (limit * 2 < settled && limit * 2 < users)
    limit *= 2;
  for (; limit > 0 && limit < settled; limit /= 2) {
    struct rank bound;
    if (!search_prepare(&candidate, hunt->out, hunt->input, layout, limit))
      continue;
    bound = best_rank(hunt->input, &candidate);
    if (is_beaten(hunt, &bound))
      return;
    consider_fleet(hunt, &candidate, &bound);
  }
}

static void consider(const struct hunt *hunt, const struct rank *option)
{
  struct candidate candidate;
  unsigned settled;
  if (is_beaten(hunt, option) || !search_prepare(&candidate, hunt->out, hunt->input, &option->layout, 0))
    return;
  settled = candidate.engine.preset.max_batch;
  consider_fleet(hunt, &candidate, option);
  if (searches_batch(hunt->input))
    consider_smaller_batches(hunt, &option->layout, settled);
}

/* ---- The whole ---- */

/* Whether a single replica costs more than the fits that were found. */
static bool is_too_large(const struct hunt *hunt, const struct layout *layout)
{
  const struct workload *workload = hunt->input->workload;
  const struct price price = cost_price(hunt->input->hardware, &workload->constraints, layout->tensor_parallel);
  const unsigned gpus = parallel_gpus(layout);
  struct rank rank = {0, cost_billed_gpus(&price, gpus), 1, 0, *layout};
  if (workload->traffic.load == LOAD_CLOSED)
    return false;
  rank.request_cost =
      isnan(price.usd_per_gpu_hour) ? gpus : price.usd_per_gpu_hour / SECONDS_PER_HOUR * rank.gpus_billed;
  rank.request_cost /= workload->traffic.requests_per_s;
  return is_beaten(hunt, &rank);
}

/* Layouts of as many GPUs before stages, and what stages make of them. */
static void search_round(const struct hunt *hunt, const struct layout *layouts, size_t layout_count)
{
  struct rank options[SEARCH_OPTIONS_MAX];
  size_t count = 0;
  for (size_t i = 0; i < layout_count; i++)
    if (!is_too_large(hunt, &layouts[i]))
      count = add_options(options, count, hunt, &layouts[i]);
  sort_options(options, count);
  for (size_t i = 0; i < count; i++)
    consider(hunt, &options[i]);
}

/* Nothing to choose from: no need to know what it can come to before it is looked at. */
static void search_single(const struct hunt *hunt, const struct layout *layout)
{
  const struct rank bound = {0, 0, 0, 0, *layout};
  char why[192];
  if (parallel_check(why, sizeof why, hunt->input->model, hunt->input->hardware, layout))
    consider(hunt, &bound);
  else
    (void)snprintf(hunt->out->detail, sizeof hunt->out->detail, "%s", why);
}

static void conclude(struct search_result *out, const struct search_input *input)
{
  if (!out->has_candidate)
    return;
  out->best = out->finalists[0];
  if (isnan(out->best.knee_requests_per_s) && !input->is_brief && !input->is_verdict_enough)
    search_find_knee(&out->best, input);
  out->fits = search_fits(&out->best);
  out->reason = NO_FIT_NONE;
  if (!out->fits)
    search_explain_miss(out, input);
}

enum err search_best(struct search_result *out, const struct search_input *input, size_t finalists,
                     bool (*stop)(void *cls), void *stop_cls, struct error *e)
{
  const struct hunt hunt = {out, input, layouts_wish(input->workload),
                            finalists < SEARCH_FINALISTS_MOST ? finalists : SEARCH_FINALISTS_MOST};
  struct layout layouts[LAYOUTS_MAX];
  size_t count, next;
  memset(out, 0, sizeof *out);
  out->reason = NO_FIT_LAYOUT_IMPOSSIBLE;
  count = layouts_list(layouts, &hunt.wish, input->model, input->hardware);
  for (size_t i = 0; i < count; i = next) {
    next = i + 1;
    while (next < count && parallel_gpus(&layouts[next]) == parallel_gpus(&layouts[i]))
      next++;
    if (stop != NULL && stop(stop_cls))
      return error_set(e, ERR_CANCELLED, "", "the evaluation was cancelled");
    if (count == 1 && hunt.wish.held.pipeline_parallel != 0)
      search_single(&hunt, &layouts[0]);
    else
      search_round(&hunt, &layouts[i], next - i);
  }
  conclude(out, input);
  return ERR_OK;
}
