/* How much load one replica bears within the limits on latency. Replicas share the load evenly, so that number, found once,
   tells the knee of every fleet of them and the fewest that do. */
#include "core/search_int.h"

#include <math.h>

static double excess_at(const struct search_input *input, const struct candidate *candidate, double scale)
{
  struct steady_state state;
  search_state_at(&state, input, candidate, 1, scale);
  return search_steering_excess(input, &state);
}

/* Load at which there is nothing left to look for. */
static double highest_scale(const struct search_input *input, const struct candidate *candidate)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  const double fleet = input->pools.prefill_replicas != 0 ? search_given_replicas(input) : 1;
  if (traffic->load == LOAD_CLOSED)
    return 4 * candidate->batch_limit * fleet / traffic->concurrency;
  return candidate->capacity_requests_per_s * fleet / traffic->requests_per_s;
}

/* An excess from -1 to infinity as a number from -1/2 to 1/2, straight where a queue makes it grow like 1 / (1 - load). */
static double bent(double excess)
{
  return 0.5 - 1 / (2 + excess);
}

/* By the chord, with half the weight for an end that stays put (Illinois). What a search asks about is often not far from the
   knee, so the load of each replica now comes first, then the brink of saturation. */
static double find_limit(const struct search_input *input, const struct candidate *candidate, double alone_excess,
                         unsigned replicas)
{
  const double tolerance = 1e-7;
  double low = 0, at_low = bent(alone_excess), high = highest_scale(input, candidate), at_high = 0.5;
  const double first[] = {1.0 / replicas, (1 - tolerance) * high};
  bool was_low = false;
  for (int i = 0; i < 40 && high - low > tolerance * high; i++) {
    const double chord = low + (high - low) * at_low / (at_low - at_high);
    const double aside = 0.3 * tolerance * high; /* lands on the far side of the root, so that the bracket closes */
    const double aimed = chord + (chord - low < high - chord ? aside : -aside);
    const double next = i < 2 && first[i] < high ? first[i] : aimed;
    const double middle = fmin(high, fmax(low, next));
    const double found = bent(excess_at(input, candidate, middle));
    const bool is_low = found <= 0;
    if (i > 1 && is_low == was_low)
      *(is_low ? &at_high : &at_low) /= 2;
    *(is_low ? &low : &high) = middle;
    *(is_low ? &at_low : &at_high) = found;
    was_low = is_low;
  }
  return low;
}

/* `replicas` is where to look first. */
static double limit_scale(struct candidate *candidate, const struct search_input *input, unsigned replicas)
{
  const unsigned first = input->pools.prefill_replicas != 0 ? 1 : replicas;
  if (isnan(candidate->limit_scale)) {
    const double alone = search_excess_alone(input, candidate);
    candidate->limit_scale = alone <= 0 ? find_limit(input, candidate, alone, first) : 0;
  }
  return candidate->limit_scale;
}

void search_find_knee(struct candidate *candidate, const struct search_input *input)
{
  struct steady_state state;
  double scale;
  if (!targets_have_latency(&input->workload->targets))
    return;
  scale = limit_scale(candidate, input, candidate->replicas);
  candidate->knee_requests_per_s = 0;
  if (!(scale > 0))
    return;
  search_state_at(&state, input, candidate, 1, scale);
  candidate->knee_requests_per_s = state.requests_per_s * candidate->replicas;
  candidate->margin_to_knee_ratio = 1 - candidate->state.requests_per_s / state.requests_per_s;
}

static bool replicas_suffice(const struct search_input *input, const struct candidate *candidate, unsigned replicas)
{
  struct steady_state state;
  search_state_at(&state, input, candidate, replicas, search_judged_scale(input));
  return search_steering_excess(input, &state) <= 0;
}

/* The number that the limit of one replica gives, put right where its rounding matters. */
unsigned search_fewest_replicas(const struct search_input *input, struct candidate *candidate, unsigned most)
{
  const unsigned least = search_capacity_replicas(input, candidate);
  unsigned replicas;
  if (least > most)
    return 0;
  if (replicas_suffice(input, candidate, least))
    return least;
  if (least == most || (most < SEARCH_REPLICAS_MAX && !replicas_suffice(input, candidate, most)))
    return 0;
  replicas = (unsigned)fmin(most, ceil(search_judged_scale(input) / limit_scale(candidate, input, 2 * least)));
  while (replicas > least + 1 && replicas_suffice(input, candidate, replicas - 1))
    replicas--;
  while (!replicas_suffice(input, candidate, replicas))
    if (replicas++ == most)
      return 0;
  return replicas;
}

/* The knee matters where headroom is asked; else only the winner's is of interest. */
void search_headroom_knee(struct candidate *candidate, const struct search_input *input)
{
  if (isnan(input->workload->targets.headroom_ratio))
    return;
  search_find_knee(candidate, input);
  search_judge(candidate, input);
}

/* More of them than users stand idle for good. */
unsigned search_most_replicas(const struct search_input *input)
{
  const struct workload_traffic *traffic = &input->workload->traffic;
  if (traffic->load == LOAD_CLOSED)
    return (unsigned)fmin(SEARCH_REPLICAS_MAX, fmax(1, ceil(traffic->concurrency)));
  return SEARCH_REPLICAS_MAX;
}

static bool has_headroom(const struct search_input *input, const struct candidate *candidate, unsigned replicas,
                         double most_each_per_s)
{
  struct steady_state state;
  search_state_at(&state, input, candidate, replicas, 1);
  return state.requests_per_s <= most_each_per_s;
}

/* Replicas until the fleet's load is so far below its knee: the more, the less each has to do. None are added where no number
   of them is enough. */
void search_add_headroom(struct candidate *candidate, const struct search_input *input)
{
  const double wanted = input->workload->targets.headroom_ratio;
  const double most_each_per_s = (1 - wanted) * candidate->knee_requests_per_s / candidate->replicas;
  unsigned low = candidate->replicas, high = search_most_replicas(input);
  if (!(candidate->margin_to_knee_ratio < wanted) || low >= high ||
      !has_headroom(input, candidate, high, most_each_per_s))
    return;
  while (high - low > 1) {
    const unsigned middle = low + (high - low) / 2;
    if (has_headroom(input, candidate, middle, most_each_per_s))
      high = middle;
    else
      low = middle;
  }
  search_set_replicas(candidate, input, high);
  search_headroom_knee(candidate, input);
}
