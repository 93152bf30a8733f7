/* Every layout in turn; its batches are halved until the rest is covered. */
#include "core/frontier.h"

#include "core/fit_int.h"
#include "core/search_int.h"
#include "core/served.h"
#include "core/units.h"

#include <math.h>

size_t frontier_batches(double batches[FRONTIER_BATCHES_MAX], double limit)
{
  size_t count = 0;
  for (double batch = 1; batch < limit && count + 2 < FRONTIER_BATCHES_MAX; batch *= 2) {
    batches[count++] = batch;
    if (batch >= 2 && 1.5 * batch < limit)
      batches[count++] = 1.5 * batch;
  }
  batches[count++] = limit;
  return count;
}

/* ---- The set ---- */

static double cost_of(const struct frontier_point *point)
{
  return isnan(point->per_million_output_tokens_usd) ? (double)INFINITY : point->per_million_output_tokens_usd;
}

bool frontier_covers(const struct frontier *frontier, const struct frontier_point *a, const struct frontier_point *b)
{
  return a->output_tok_s_per_gpu >= b->output_tok_s_per_gpu && a->output_tok_s_per_user >= b->output_tok_s_per_user &&
         (!frontier->has_cost || cost_of(a) <= cost_of(b));
}

static bool is_covered(const struct frontier *frontier, const struct frontier_point *point)
{
  for (size_t i = frontier->first; i < frontier->count; i++)
    if (frontier_covers(frontier, &frontier->points[i], point))
      return true;
  return false;
}

/* Equals are kept once: the first that came. */
static enum err insert(struct frontier *frontier, const struct frontier_point *point, struct error *e)
{
  size_t kept = frontier->first;
  if (is_covered(frontier, point))
    return ERR_OK;
  for (size_t i = frontier->first; i < frontier->count; i++)
    if (!frontier_covers(frontier, point, &frontier->points[i]))
      frontier->points[kept++] = frontier->points[i];
  frontier->count = kept;
  if (frontier->count == frontier->capacity)
    return error_set(e, ERR_LIMIT, "", "the frontier has more than %zu points", frontier->capacity);
  frontier->points[frontier->count++] = *point;
  return ERR_OK;
}

static bool comes_before(const struct frontier_point *a, const struct frontier_point *b)
{
  if (a->output_tok_s_per_gpu < b->output_tok_s_per_gpu || a->output_tok_s_per_gpu > b->output_tok_s_per_gpu)
    return a->output_tok_s_per_gpu > b->output_tok_s_per_gpu;
  if (a->output_tok_s_per_user < b->output_tok_s_per_user || a->output_tok_s_per_user > b->output_tok_s_per_user)
    return a->output_tok_s_per_user > b->output_tok_s_per_user;
  return cost_of(a) < cost_of(b);
}

void frontier_close_group(struct frontier *frontier)
{
  struct frontier_point *points = frontier->points;
  for (size_t i = frontier->first + 1; i < frontier->count; i++) {
    const struct frontier_point moved = points[i];
    size_t to = i;
    for (; to > frontier->first && comes_before(&moved, &points[to - 1]); to--)
      points[to] = points[to - 1];
    points[to] = moved;
  }
  frontier->first = frontier->count;
}

double frontier_throughput_at(const struct frontier_point *points, size_t count, double output_tok_s_per_user)
{
  double best = (double)NAN;
  for (size_t i = 0; i < count; i++)
    if (points[i].output_tok_s_per_user >= output_tok_s_per_user && !(points[i].output_tok_s_per_gpu <= best))
      best = points[i].output_tok_s_per_gpu;
  return best;
}

/* ---- One point ---- */

/* What is being walked. */
struct walk {
  struct frontier *frontier;
  const struct search_input *input;
  struct candidate candidate;
  struct frontier_point blank; /* what all batches of the layout share */
  double batches[FRONTIER_BATCHES_MAX];
  struct error *e;
};

static enum limit limiter_of(const struct walk *walk, const struct steady_state *state, double batch)
{
  static const enum limit limits[BOUND_COUNT] = {LIMIT_COMPUTE, LIMIT_MEMORY_BANDWIDTH, LIMIT_INTERCONNECT,
                                                 LIMIT_LAUNCH_OVERHEAD};
  double share[BOUND_COUNT];
  int largest = 0;
  if (batch >= floor(walk->candidate.batch_limit))
    return walk->candidate.kv_limits_batch ? LIMIT_KV_CACHE : LIMIT_BATCH;
  for (int bound = 0; bound < BOUND_COUNT; bound++) {
    share[bound] = state->prefill_share_ratio * state->prompt.profile.bound_s[bound] / state->prompt.profile.seconds +
                   state->decode_share_ratio * state->decode.bound_s[bound] / state->decode.seconds;
    if (share[bound] > share[largest])
      largest = bound;
  }
  return limits[largest];
}

static int judge(const struct walk *walk, const struct frontier_point *point, double e2e_median_s)
{
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  const struct search_input *input = walk->input;
  const struct target_figures figures = {
      .ttft_s = targets_median(point->ttft_s),
      .itl_s = targets_median(point->itl_s),
      .tpot_s = point->tpot_s,
      .e2e_s = targets_median(e2e_median_s),
      .max_context_tokens = search_max_context_tokens(input, &walk->candidate),
      .per_successful_request_usd = point->per_million_output_tokens_usd * input->output_tokens / 1e6,
      .per_million_output_tokens_usd = point->per_million_output_tokens_usd,
      .monthly_usd = (double)NAN,
      .success_rate_ratio = (double)NAN,
      .margin_to_knee_ratio = (double)NAN,
  };
  const size_t count = targets_list(list, &input->workload->targets, &figures);
  int met = count > 0 ? 1 : -1;
  for (size_t i = 0; i < count; i++)
    if (list[i].met == 0 || met == 0)
      met = 0;
    else if (list[i].met < 0)
      met = -1;
  return met;
}

static void evaluate(struct frontier_point *point, struct walk *walk, double batch)
{
  const struct search_input *input = walk->input;
  const struct steady_load load = {.kind = LOAD_CLOSED,
                                   .users = batch,
                                   .prompt_tokens = input->prompt_tokens,
                                   .cached_tokens = input->cached_tokens,
                                   .output_tokens = input->output_tokens};
  struct steady_state state;
  double tok_s;
  steady_evaluate_on(&state, &walk->candidate.base, &walk->candidate.engine, &load, walk->candidate.batch_limit);
  tok_s = state.requests_per_s * input->output_tokens;
  *point = walk->blank;
  point->batch = batch;
  point->max_batch = (unsigned)ceil(batch / walk->candidate.layout.attention_data_parallel);
  point->requests_per_s = state.requests_per_s;
  point->output_tok_s_per_gpu = tok_s / point->gpus;
  point->output_tok_s_per_user = 1 / search_gap_s(input, state.tpot_s);
  point->per_million_output_tokens_usd *= 1e6 / SECONDS_PER_HOUR / point->output_tok_s_per_gpu;
  point->ttft_s = state.ttft_s;
  point->itl_s = search_gap_s(input, state.itl_s);
  point->tpot_s = search_gap_s(input, state.tpot_s);
  point->e2e_s = state.e2e_s;
  point->limiter = limiter_of(walk, &state, batch);
  point->targets_met = judge(walk, point, state.ttft_s + (input->median_output_tokens - 1) * state.tpot_s);
  walk->frontier->evaluated++;
}

/* ---- One layout ---- */

/* The best that batches between two others can be. Interactivity falls and throughput grows with the batch but for dips
   where prompts no longer fit beside the decodes: over 227,000 batches of six models on 17 devices with prompts of 30 to
   12,000 tokens and answers of 8 to 1,500, none was over a fifth. */
static struct frontier_point corner_of(const struct frontier_point *at_low, const struct frontier_point *at_high)
{
  const double dip = 1.25;
  struct frontier_point corner = *at_high;
  corner.output_tok_s_per_user = dip * fmax(at_low->output_tok_s_per_user, at_high->output_tok_s_per_user);
  corner.output_tok_s_per_gpu = dip * fmax(at_low->output_tok_s_per_gpu, at_high->output_tok_s_per_gpu);
  corner.per_million_output_tokens_usd =
      fmin(at_low->per_million_output_tokens_usd, at_high->per_million_output_tokens_usd) / dip;
  return corner;
}

static enum err walk_between(struct walk *walk, size_t low, size_t high, const struct frontier_point *at_low,
                             const struct frontier_point *at_high)
{
  const size_t middle = low + (high - low) / 2;
  const struct frontier_point corner = corner_of(at_low, at_high);
  struct frontier_point point;
  enum err err;
  if (middle == low || is_covered(walk->frontier, &corner))
    return ERR_OK;
  evaluate(&point, walk, walk->batches[middle]);
  if ((err = insert(walk->frontier, &point, walk->e)) != ERR_OK ||
      (err = walk_between(walk, low, middle, at_low, &point)) != ERR_OK)
    return err;
  return walk_between(walk, middle, high, &point, at_high);
}

static enum err walk_batches(struct walk *walk)
{
  const size_t count = frontier_batches(walk->batches, floor(walk->candidate.batch_limit));
  struct frontier_point low, high;
  enum err err;
  walk->frontier->searched += count;
  evaluate(&low, walk, walk->batches[0]);
  if ((err = insert(walk->frontier, &low, walk->e)) != ERR_OK || count == 1)
    return err;
  evaluate(&high, walk, walk->batches[count - 1]);
  if ((err = insert(walk->frontier, &high, walk->e)) != ERR_OK)
    return err;
  return walk_between(walk, 0, count - 1, &low, &high);
}

/* GPUs paid for each one used, where instances are filled with replicas of this size. */
static double paid_ratio(double unit_gpus, double gpus)
{
  return gpus >= unit_gpus ? ceil(gpus / unit_gpus) * unit_gpus / gpus : unit_gpus / (floor(unit_gpus / gpus) * gpus);
}

static void describe(struct walk *walk, unsigned profile)
{
  const struct candidate *candidate = &walk->candidate;
  const struct model_precision *precision = &walk->input->precision;
  struct frontier_point *blank = &walk->blank;
  *blank = (struct frontier_point){.profile = profile, .layout = candidate->layout};
  blank->gpus = parallel_gpus(&candidate->layout);
  blank->usd_per_gpu_hour = candidate->price.usd_per_gpu_hour;
  blank->per_million_output_tokens_usd =
      blank->usd_per_gpu_hour * paid_ratio(candidate->price.billed_unit_gpus, blank->gpus);
  blank->weights = served_has_experts(walk->input->model) ? precision->experts : precision->dense;
  blank->kv_cache = precision->kv_cache;
  (void)precision_support(walk->input->hardware, blank->weights, walk->input->workload->activations,
                          &blank->activations);
}

/* A base and its stages. */
static enum err walk_layout(struct walk *walk, unsigned profile, const struct layout_wish *wish,
                            const struct layout *base)
{
  struct layout layout = *base;
  char why[192];
  bool holds;
  do {
    struct search_result nearest = {.has_candidate = false};
    enum err err;
    if (!parallel_check(why, sizeof why, walk->input->model, walk->input->hardware, &layout))
      return ERR_OK;
    holds = search_prepare(&walk->candidate, &nearest, walk->input, &layout, 0);
    if (!holds)
      continue;
    describe(walk, profile);
    if ((err = walk_batches(walk)) != ERR_OK)
      return err;
  } while (layouts_deepen(&layout, holds, wish, walk->input->model));
  return ERR_OK;
}

static enum err resolve(struct search_input *input, struct workload *workload, const struct fit_request *request,
                        struct notes *notes, struct arena *arena, struct error *e)
{
  struct fit_request closed = *request;
  enum err err;
  *workload = *request->workload;
  if (workload->traffic.load == LOAD_OPEN) { /* the rate is of no interest here: nothing is to be said about it */
    workload->traffic.load = LOAD_CLOSED;
    workload->traffic.concurrency = 1;
  }
  closed.workload = workload;
  if ((err = fit_resolve(input, &closed, notes, arena, e)) != ERR_OK)
    return err;
  if (input->pools.prefill_replicas != 0)
    return error_set(e, ERR_INVALID, "/serving/disaggregated",
                     "pools have no frontier: prefill and decode replicas run batches of their own");
  if (!(input->output_tokens > 1))
    return error_set(e, ERR_INVALID, "/traffic/output_tokens",
                     "answers of one token have no interactivity: more than 1 is needed for a frontier");
  return ERR_OK;
}

enum err frontier_add(struct frontier *frontier, unsigned profile, const struct fit_request *request,
                      struct notes *notes, struct arena *arena, struct error *e)
{
  const struct layout_wish wish = layouts_wish(request->workload);
  struct layout layouts[LAYOUTS_MAX];
  struct search_input input;
  struct workload workload;
  struct walk walk = {.frontier = frontier, .input = &input, .e = e};
  size_t count;
  enum err err = resolve(&input, &workload, request, notes, arena, e);
  if (err != ERR_OK)
    return err;
  count = layouts_list(layouts, &wish, request->model, input.hardware);
  for (size_t i = 0; i < count; i++) {
    if (request->stop != NULL && request->stop(request->stop_cls))
      return error_set(e, ERR_CANCELLED, "", "the frontier was cancelled");
    if ((err = walk_layout(&walk, profile, &wish, &layouts[i])) != ERR_OK)
      return err;
  }
  return ERR_OK;
}
