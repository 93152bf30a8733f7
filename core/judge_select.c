/* The choice among finalists: replicas are added until the simulation meets what is promised. The closed form, which sees
   means alone, is the lower bound that keeps the number of simulations small. */
#include "core/judge.h"

#include "core/parallel.h"
#include "core/search_int.h"

#include <math.h>
#include <stdio.h>

/* One fleet, simulated. */
struct trial {
  struct candidate candidate; /* its worst_excess and usd_per_request are the simulation's */
  struct judged judged;
  bool is_run; /* false: the queue grows, nothing to simulate */
  double steering_excess;
};

struct judge {
  const struct search_input *input;
  const struct judge_options *options;
  struct arena *arena;
};

static struct judge_case case_of(const struct judge *judge, const struct candidate *candidate, double scale,
                                 size_t requests)
{
  return (struct judge_case){.input = judge->input,
                             .candidate = candidate,
                             .load_scale = scale,
                             .requests = requests,
                             .stop = judge->options->stop,
                             .stop_cls = judge->options->stop_cls};
}

static double offered_per_s(const struct search_input *input)
{
  return input->workload->traffic.load == LOAD_CLOSED ? 0 : input->workload->traffic.requests_per_s;
}

bool judge_is_bounded(const struct search_input *input, const struct candidate *candidate)
{
  const struct workload *workload = input->workload;
  const double shed = workload->serving.concurrency_limit != 0 ? workload->traffic.sheddable_share_ratio : 0;
  const double kept = 1 - (isnan(shed) ? 0 : shed);
  return workload->traffic.client_timeout_ms > 0 || input->replay.rows != NULL ||
         offered_per_s(input) * kept < candidate->capacity_requests_per_s * candidate->replicas;
}

/* Headroom is there when the targets hold at that much more load. */
static enum err add_headroom(struct trial *trial, const struct judge *judge, const struct workload_targets *steering,
                             struct error *e)
{
  const double wanted = judge->input->workload->targets.headroom_ratio;
  const double scale = judge_headroom_scale(wanted);
  const struct judge_case c = case_of(judge, &trial->candidate, scale, JUDGE_REQUESTS_COMPARE);
  const double capacity = trial->candidate.capacity_requests_per_s * trial->candidate.replicas;
  struct judged judged;
  enum err err;
  if (!(wanted > 0) || trial->steering_excess > 0)
    return ERR_OK;
  if (!(wanted < 1) || scale * offered_per_s(judge->input) >= capacity) {
    trial->steering_excess = fmax(trial->steering_excess, wanted);
    return ERR_OK;
  }
  err = judge_run(&judged, &c, judge->arena, e);
  if (err == ERR_OK)
    trial->steering_excess =
        fmax(trial->steering_excess, targets_simulated_excess(steering, &judged.latency, judged.success.rate_ratio));
  return err;
}

/* Everything else that is promised: cost, context, success. The margin to the knee is judged with the steering. */
static void judge_targets(struct trial *trial, const struct search_input *input)
{
  struct scorecard_target list[SCORECARD_TARGETS_MAX];
  struct candidate *candidate = &trial->candidate;
  struct target_figures figures;
  size_t count;
  candidate->usd_per_request /= fmax(1e-9, trial->judged.success.rate_ratio);
  judge_figures(&figures, &trial->judged, candidate, input);
  figures.margin_to_knee_ratio = (double)NAN;
  count = targets_list(list, &input->workload->targets, &figures);
  candidate->worst_excess = targets_worst_excess(list, count);
  if (input->workload->targets.headroom_ratio > 0 && targets_have_latency(&input->workload->targets)) /* else no knee */
    candidate->worst_excess = fmax(candidate->worst_excess, trial->steering_excess);
}

static enum err try_replicas(struct trial *trial, const struct judge *judge, unsigned replicas, size_t requests,
                             struct error *e)
{
  struct workload_targets preset;
  const struct workload_targets *steering = search_steering(judge->input, &preset);
  struct candidate *candidate = &trial->candidate;
  struct judge_case c;
  double overload_excess = -1;
  enum err err;
  search_set_replicas(candidate, judge->input, replicas);
  trial->is_run = judge_is_bounded(judge->input, candidate);
  if (!trial->is_run) {
    candidate->state.is_saturated = true;
    candidate->worst_excess = trial->steering_excess =
        offered_per_s(judge->input) / (candidate->capacity_requests_per_s * replicas);
    return ERR_OK;
  }
  c = case_of(judge, candidate, 1, requests);
  if ((err = judge_run(&trial->judged, &c, judge->arena, e)) != ERR_OK)
    return err;
  candidate->state.is_saturated = false;
  if (judge->input->replay.hashes == NULL) /* a cache may carry more than a replica that computes everything */
    overload_excess = offered_per_s(judge->input) / (candidate->capacity_requests_per_s * replicas) - 1;
  trial->steering_excess = targets_simulated_excess(steering, &trial->judged.latency, trial->judged.success.rate_ratio);
  if (isnan(judge->input->workload->targets.success_rate_ratio)) /* else overload is judged by what succeeds */
    trial->steering_excess = fmax(trial->steering_excess, overload_excess);
  if ((err = add_headroom(trial, judge, steering, e)) != ERR_OK)
    return err;
  judge_targets(trial, judge->input);
  if (isnan(judge->input->workload->targets.success_rate_ratio) && overload_excess >= 0)
    candidate->worst_excess = fmax(candidate->worst_excess, fmax(1e-9, overload_excess));
  return ERR_OK;
}

/* More replicas than this can not be had: by the quota, or because each user of a closed loop has one. */
static unsigned most_replicas(const struct judge *judge, const struct candidate *candidate)
{
  const unsigned quota = judge->input->workload->constraints.gpu_quota;
  const unsigned each = parallel_gpus(&candidate->layout);
  double most = 65536;
  if (quota != 0)
    most = fmax(1, quota / each);
  if (judge->input->workload->traffic.load == LOAD_CLOSED)
    most = fmin(most, fmax(1, judge->input->workload->traffic.concurrency));
  return (unsigned)most;
}

/* For a probe: what the largest fleet in reach misses, all miss, and one that it keeps is enough. *is_settled false: it keeps
   the limits on latency but costs too much, a smaller one may fit. */
static enum err try_largest(struct trial *best, bool *is_settled, const struct judge *judge, struct error *e)
{
  const double reach = 500; /* what the leaps come to */
  const unsigned replicas = best->candidate.replicas;
  struct trial largest = *best;
  const double most = fmin(most_replicas(judge, &best->candidate), reach * replicas);
  enum err err;
  *is_settled = true;
  if (most <= replicas)
    return ERR_OK;
  err = try_replicas(&largest, judge, (unsigned)most, JUDGE_REQUESTS_COMPARE, e);
  *is_settled = largest.steering_excess > 0 || search_fits(&largest.candidate);
  if (err == ERR_OK && search_fits(&largest.candidate))
    *best = largest;
  return err;
}

/* Grows the fleet by leaps until the simulation holds what is promised; *low is then the largest that does not. Gives up
   where more replicas hardly help: latency is at its floor. Of fleets that all miss it the nearest is kept. */
static enum err grow(struct trial *best, unsigned *low, const struct judge *judge, double usd_bound, struct error *e)
{
  const double helps = 0.98;
  const int leaps = 6;
  const unsigned most = most_replicas(judge, &best->candidate);
  struct trial next = *best, nearest = *best;
  double leap = 0.25;
  if (judge->options->is_probe && best->steering_excess > 0) {
    bool is_settled;
    const enum err err = try_largest(best, &is_settled, judge, e);
    if (err != ERR_OK || is_settled)
      return err;
  }
  for (int i = 0; i < leaps && best->steering_excess > 0; i++, leap *= 2) {
    const unsigned replicas = best->candidate.replicas;
    const double wanted = fmin(most, replicas + fmax(1, ceil(leap * replicas)));
    enum err err;
    if (wanted <= replicas || best->candidate.usd_per_request * wanted / replicas > usd_bound)
      break;
    if ((err = try_replicas(&next, judge, (unsigned)wanted, JUDGE_REQUESTS_COMPARE, e)) != ERR_OK)
      return err;
    if (next.steering_excess > helps * best->steering_excess)
      break;
    *low = replicas;
    *best = next;
    if (search_is_better(&next.candidate, &nearest.candidate))
      nearest = next;
  }
  if (best->steering_excess > 0)
    *best = nearest;
  return ERR_OK;
}

/* Between a fleet that holds it and one that does not. */
static enum err shrink(struct trial *best, unsigned low, const struct judge *judge, struct error *e)
{
  const int rounds = 4;
  struct trial next = *best;
  for (int i = 0; i < rounds && best->candidate.replicas > low + 1; i++) {
    const unsigned middle = low + (best->candidate.replicas - low) / 2;
    const enum err err = try_replicas(&next, judge, middle, JUDGE_REQUESTS_COMPARE, e);
    if (err != ERR_OK)
      return err;
    if (next.steering_excess <= 0)
      *best = next;
    else
      low = middle;
  }
  return ERR_OK;
}

/* Where latency has no stated limit, the preset only steers: a fleet that can not keep it is as small as the load allows. */
static bool is_hopeless(const struct trial *trial, const struct search_input *input)
{
  return trial->steering_excess > 0 && !targets_have_latency(&input->workload->targets);
}

static unsigned first_replicas(const struct judge *judge, const struct candidate *finalist)
{
  const double needed = floor(offered_per_s(judge->input) / finalist->capacity_requests_per_s) + 1;
  return (unsigned)fmin(most_replicas(judge, finalist), fmax(finalist->replicas, needed));
}

static enum err judge_finalist(struct trial *out, const struct judge *judge, const struct candidate *finalist,
                               double usd_bound, struct error *e)
{
  const unsigned given = search_given_replicas(judge->input);
  const struct judge_case c = case_of(judge, finalist, 1, JUDGE_REQUESTS_COMPARE);
  struct trial smallest;
  unsigned low;
  enum err err;
  out->candidate = *finalist;
  if ((err = judge_capacity(&out->candidate.capacity_requests_per_s, &c, judge->arena, e)) != ERR_OK)
    return err;
  low = first_replicas(judge, &out->candidate);
  if ((err = try_replicas(out, judge, given != 0 ? given : low, JUDGE_REQUESTS_COMPARE, e)) != ERR_OK || given != 0)
    return err;
  smallest = *out;
  if ((err = grow(out, &low, judge, usd_bound, e)) != ERR_OK)
    return err;
  if (is_hopeless(out, judge->input))
    *out = smallest;
  if (out->steering_excess > 0 || judge->options->is_probe)
    return ERR_OK;
  return shrink(out, low, judge, e);
}

/* A long run may still miss by little what a short one met: a few more replicas then. */
static enum err confirm(struct trial *best, const struct judge *judge, struct error *e)
{
  const unsigned most = most_replicas(judge, &best->candidate);
  const bool was_met = best->steering_excess <= 0;
  enum err err = try_replicas(best, judge, best->candidate.replicas, judge->options->requests, e);
  for (int i = 0; i < 2 && err == ERR_OK && was_met && best->steering_excess > 0; i++) {
    const double replicas = best->candidate.replicas + fmax(1, ceil(0.03 * best->candidate.replicas));
    if (search_given_replicas(judge->input) != 0 || replicas > most)
      break;
    err = try_replicas(best, judge, (unsigned)replicas, judge->options->requests, e);
  }
  return err;
}

/* Among fits one that steers right first. */
static bool is_better(const struct trial *a, const struct trial *b)
{
  const bool a_steers = a->steering_excess <= 0, b_steers = b->steering_excess <= 0;
  if (search_fits(&a->candidate) && search_fits(&b->candidate) && a_steers != b_steers)
    return a_steers;
  return search_is_better(&a->candidate, &b->candidate);
}

/* ---- a second look, when the simulation misses what the closed form met ---- */

enum { BATCHES_TRIED = 4 };

static enum err consider(struct trial *best, const struct judge *judge, const struct candidate *finalist,
                         bool is_confirmed, struct error *e)
{
  struct trial next;
  enum err err = judge_finalist(&next, judge, finalist, (double)INFINITY, e);
  if (err == ERR_OK && is_confirmed && search_fits(&next.candidate))
    err = confirm(&next, judge, e);
  if (err == ERR_OK && is_better(&next, best))
    *best = next;
  return err;
}

/* The same fleet with fewer sequences at once: those that run get their tokens sooner, the others wait. From somewhat above
   the mean batch on, as a limit that never binds changes nothing. */
static enum err try_smaller_batches(struct trial *best, const struct judge *judge, bool is_confirmed, struct error *e)
{
  const double above = 1.5, less = 2.0 / 3;
  const double far_off = 0.5; /* no spread of the simulation's is below its mean by so much */
  const struct layout layout = best->candidate.layout;
  const unsigned replicas = best->candidate.replicas;
  const size_t mark = arena_mark(judge->arena);
  struct search_result *obstacle;
  enum err err = ERR_OK;
  double batch;
  if (!best->is_run || judge->input->workload->serving.max_batch != 0)
    return ERR_OK;
  obstacle = arena_alloc(judge->arena, 1, sizeof *obstacle);
  if (obstacle == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  batch = fmin(best->candidate.engine.preset.max_batch,
               ceil(above * best->judged.decode_batch / layout.attention_data_parallel)) /
          less;
  for (int i = 0; i < BATCHES_TRIED && err == ERR_OK && !search_fits(&best->candidate); i++) {
    struct candidate smaller;
    batch = floor(batch * less);
    if (batch < 1)
      break;
    if (!search_prepare(&smaller, obstacle, judge->input, &layout, (unsigned)batch))
      continue;
    search_set_replicas(&smaller, judge->input, replicas);
    if (smaller.steering_excess > far_off)
      continue;
    err = consider(best, judge, &smaller, is_confirmed, e);
  }
  arena_release(judge->arena, mark);
  return err;
}

/* Those that the closed form ranks next, and that met everything there. */
static enum err try_next_finalists(struct trial *best, const struct judge *judge, struct error *e)
{
  const size_t mark = arena_mark(judge->arena);
  const bool is_confirmed = judge->options->requests > JUDGE_REQUESTS_COMPARE;
  struct search_result *more = arena_alloc(judge->arena, 1, sizeof *more);
  enum err err;
  if (more == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  err = search_best(more, judge->input, SEARCH_FINALISTS_MOST, judge->options->stop, judge->options->stop_cls, e);
  for (size_t i = SEARCH_FINALISTS; err == ERR_OK && i < more->finalist_count && !search_fits(&best->candidate); i++)
    if (search_fits(&more->finalists[i]))
      err = consider(best, judge, &more->finalists[i], is_confirmed, e);
  arena_release(judge->arena, mark);
  return err;
}

/* A long run may miss what the short ones met. */
static enum err look_again(struct trial *best, const struct judge *judge, struct error *e)
{
  enum err err = try_smaller_batches(best, judge, judge->options->requests > JUDGE_REQUESTS_COMPARE, e);
  return err == ERR_OK && !search_fits(&best->candidate) ? try_next_finalists(best, judge, e) : err;
}

static void conclude(struct search_result *result, const struct trial *best, const struct search_input *input)
{
  const unsigned wanted = result->best.wanted_gpus;
  result->best = best->candidate;
  result->best.wanted_gpus = wanted > best->candidate.gpus ? wanted : best->candidate.gpus;
  result->fits = search_fits(&result->best);
  result->reason = NO_FIT_NONE;
  if (!result->fits)
    search_explain_miss(result, input);
}

enum err judge_select(struct judged *judged, bool *is_judged, struct search_result *result,
                      const struct search_input *input, const struct judge_options *options, struct arena *arena,
                      struct error *e)
{
  const struct judge judge = {input, options, arena};
  struct trial best, next;
  enum err err = ERR_OK;
  *is_judged = false;
  if (!result->has_candidate)
    return ERR_OK;
  for (size_t i = 0; i < result->finalist_count; i++) {
    const struct candidate *finalist = &result->finalists[i];
    const double usd_bound = i > 0 && search_fits(&best.candidate) ? best.candidate.usd_per_request : (double)INFINITY;
    if (i > 0 && search_fits(&best.candidate) && best.steering_excess <= 0 &&
        !search_is_better(finalist, &best.candidate))
      continue;
    if ((err = judge_finalist(&next, &judge, finalist, usd_bound, e)) != ERR_OK)
      return err;
    if (search_fits(finalist) && !search_fits(&next.candidate) &&
        (err = try_smaller_batches(&next, &judge, false, e)) != ERR_OK)
      return err;
    if (i == 0 || is_better(&next, &best))
      best = next;
    if (options->is_probe && search_fits(&best.candidate))
      break;
  }
  if (best.is_run && (options->requests > JUDGE_REQUESTS_COMPARE) && (err = confirm(&best, &judge, e)) != ERR_OK)
    return err;
  if (result->fits && !search_fits(&best.candidate) && (err = look_again(&best, &judge, e)) != ERR_OK)
    return err;
  conclude(result, &best, input);
  *judged = best.judged;
  *is_judged = best.is_run;
  return ERR_OK;
}
