/* One loop over what happens next in the whole fleet. At one instant steps end first, then clients give up, clocks change,
   requests are sent, and only then the next steps are decided: so all of them see all that is there by then. */
#include "core/fleet_int.h"

#include "core/rng.h"

#include <math.h>

/* ---- requests ---- */

static void end_request(struct fleet *fleet, uint32_t row, enum serving_status status)
{
  struct serving_outcome *outcome = &fleet->outcomes[row];
  outcome->status = status;
  if (status != SERVING_COMPLETED)
    outcome->finish_s = fleet->now_s;
  if (fleet->run->users != 0)
    fleet->idle_users++;
}

static void add_load(struct fleet *fleet, uint32_t replica, double more)
{
  struct fleet_least *pool = fleet_is_decoder(fleet->run, replica) ? &fleet->decoding : &fleet->load;
  const uint32_t index = fleet_is_decoder(fleet->run, replica) ? replica - fleet->run->prefill_replicas : replica;
  fleet_least_set(pool, index, pool->keys[index] + more);
}

/* Its next step has been decided and may have changed. */
static void note_next(struct fleet *fleet, uint32_t replica)
{
  if (fleet->replicas[replica].phase != SERVING_AT_BOUNDARY)
    fleet_least_set(&fleet->next, replica, serving_next_s(&fleet->replicas[replica]));
}

static void leave_fleet(struct fleet *fleet, uint32_t row)
{
  add_load(fleet, fleet->outcomes[row].replica, -1);
  fleet->in_system--;
}

/* Its prompt is done: the cache goes to the decoding replica with the fewest, when both links are free. */
static void hand_over(struct fleet *fleet, uint32_t row)
{
  const struct fleet_run *run = fleet->run;
  struct serving_outcome *outcome = &fleet->outcomes[row];
  const uint32_t from = outcome->replica, to = run->prefill_replicas + fleet_least_index(&fleet->decoding);
  const double start_s = fmax(fleet->now_s, fmax(fleet->link_free_s[from], fleet->link_free_s[to]));
  const double end_s = start_s + (run->transfer_s + run->transfer_token_s * run->arrivals[row].input_tokens);
  fleet->link_free_s[from] = fleet->link_free_s[to] = end_s;
  outcome->waited_s = start_s - fleet->now_s;
  outcome->replica = to;
  add_load(fleet, from, -1);
  add_load(fleet, to, 1);
  serving_offer_computed(&fleet->replicas[to], row, end_s);
  note_next(fleet, to);
}

static void dispatch(struct fleet *fleet, uint32_t row)
{
  const uint32_t index = fleet_least_index(&fleet->load);
  fleet->outcomes[row].replica = index;
  add_load(fleet, index, 1);
  if (++fleet->in_system > fleet->totals->peak_in_system)
    fleet->totals->peak_in_system = fleet->in_system;
  serving_offer(&fleet->replicas[index], row, fleet->now_s);
  note_next(fleet, index);
}

/* The same requests in every run of a seed, more of them for a larger share. */
static bool is_background(const struct fleet *fleet, uint32_t row)
{
  struct rng rng;
  if (!(fleet->run->sheddable_share > 0))
    return false;
  rng_init_stream(&rng, fleet->run->seed, row);
  return rng_uniform(&rng) < fleet->run->sheddable_share;
}

static bool is_full(const struct fleet *fleet)
{
  return fleet->run->concurrency_limit != 0 && fleet->in_system >= fleet->run->concurrency_limit;
}

static void send(struct fleet *fleet, uint32_t row)
{
  struct serving_outcome *outcome = &fleet->outcomes[row];
  fleet->totals->attempts++;
  if (outcome->attempts++ == 0)
    outcome->send_s = fleet->now_s;
  if (serving_is_too_long(&fleet->replicas[0], row)) {
    fleet->totals->serving.rejected++;
    end_request(fleet, row, SERVING_REJECTED);
    return;
  }
  if (is_full(fleet) && is_background(fleet, row)) {
    fleet->totals->shed++;
    end_request(fleet, row, SERVING_SHED);
    return;
  }
  if (fleet->deadline_s != NULL) {
    fleet->deadline_s[row] = fleet->now_s + fleet->run->timeout_s;
    fleet_list_append(&fleet->deadlines, row);
  }
  if (is_full(fleet))
    fleet_list_append(&fleet->front, row);
  else
    dispatch(fleet, row);
}

/* ---- events ---- */

static void commit(struct fleet *fleet)
{
  const uint32_t index = fleet_least_index(&fleet->next);
  struct serving_sim *replica = &fleet->replicas[index];
  serving_commit(replica);
  for (uint32_t i = 0; i < replica->ended_count; i++) {
    const uint32_t row = replica->ended[i];
    if (fleet->outcomes[row].status != SERVING_COMPLETED) {
      hand_over(fleet, row);
      continue;
    }
    leave_fleet(fleet, row);
    if (fleet->deadline_s != NULL)
      fleet_list_remove(&fleet->deadlines, row);
    end_request(fleet, row, SERVING_COMPLETED);
  }
  fleet->at_boundary[fleet->at_boundary_count++] = index;
  fleet_least_set(&fleet->next, index, (double)INFINITY);
}

static void plan(struct fleet *fleet)
{
  for (uint32_t i = 0; i < fleet->at_boundary_count; i++) {
    const uint32_t index = fleet->at_boundary[i];
    serving_plan(&fleet->replicas[index]);
    fleet_least_set(&fleet->next, index, serving_next_s(&fleet->replicas[index]));
  }
  fleet->at_boundary_count = 0;
}

static void leave_for_good(struct fleet *fleet, uint32_t row)
{
  struct serving_outcome *outcome = &fleet->outcomes[row];
  if (outcome->status == SERVING_UNSENT) {
    fleet_list_remove(&fleet->front, row);
  } else {
    leave_fleet(fleet, row);
    serving_abandon(&fleet->replicas[outcome->replica], row, fleet->now_s);
    note_next(fleet, outcome->replica);
  }
  outcome->output_tokens = outcome->preemptions = outcome->cached_tokens = 0;
}

static void give_up(struct fleet *fleet)
{
  const uint32_t row = fleet->deadlines.head;
  struct serving_outcome *outcome = &fleet->outcomes[row];
  fleet_list_remove(&fleet->deadlines, row);
  leave_for_good(fleet, row);
  if (outcome->attempts > fleet->run->retries) {
    fleet->totals->timed_out++;
    end_request(fleet, row, SERVING_TIMED_OUT);
    return;
  }
  outcome->status = SERVING_UNSENT;
  outcome->visible_s = outcome->admitted_s = outcome->first_s = outcome->waited_s = 0;
  fleet_list_append(&fleet->retries, row);
}

static double pace_ratio(const struct fleet *fleet, uint32_t replica)
{
  double ratio = 1;
  for (size_t i = 0; i < fleet->run->slowdown_count; i++) {
    const struct fleet_slowdown *slow = &fleet->run->slowdowns[i];
    if ((slow->replica == replica || slow->replica == FLEET_ALL_REPLICAS) && slow->from_s <= fleet->now_s &&
        slow->until_s > fleet->now_s)
      ratio *= slow->ratio;
  }
  return ratio;
}

double fleet_clock_after_s(const struct fleet_run *run, double when_s)
{
  double next_s = (double)INFINITY;
  for (size_t i = 0; i < run->slowdown_count; i++) {
    if (run->slowdowns[i].from_s > when_s)
      next_s = fmin(next_s, run->slowdowns[i].from_s);
    if (run->slowdowns[i].until_s > when_s)
      next_s = fmin(next_s, run->slowdowns[i].until_s);
  }
  return next_s;
}

static void change_clocks(struct fleet *fleet)
{
  for (uint32_t i = 0; i < fleet->run->replicas; i++) {
    struct serving_sim *replica = &fleet->replicas[i];
    const double ratio = pace_ratio(fleet, i);
    if (ratio >= replica->pace_ratio && ratio <= replica->pace_ratio)
      continue;
    serving_set_pace(replica, ratio, fleet->now_s);
    if (replica->phase == SERVING_STEPPING)
      fleet_least_set(&fleet->next, i, serving_next_s(replica));
  }
  fleet->clock_s = fleet_clock_after_s(fleet->run, fleet->now_s);
}

static bool has_released(const struct fleet *fleet)
{
  return fleet->front.head != SERVING_NONE && !is_full(fleet);
}

static double later_s(double a_s, double b_s)
{
  return a_s > b_s ? a_s : b_s;
}

static double next_send_s(const struct fleet *fleet)
{
  if (has_released(fleet) || fleet->retries.head != SERVING_NONE)
    return fleet->now_s;
  if (fleet->next_row == fleet->run->count)
    return (double)INFINITY;
  if (fleet->run->users == 0)
    return later_s(fleet->now_s, fleet->run->arrivals[fleet->next_row].send_s);
  return fleet->idle_users != 0 ? fleet->now_s : (double)INFINITY;
}

static void send_next(struct fleet *fleet)
{
  const uint32_t first = fleet->front.head, again = fleet->retries.head;
  if (has_released(fleet)) {
    fleet_list_remove(&fleet->front, first);
    dispatch(fleet, first);
  } else if (again != SERVING_NONE) {
    fleet_list_remove(&fleet->retries, again);
    send(fleet, again);
  } else {
    if (fleet->run->users != 0)
      fleet->idle_users--;
    send(fleet, (uint32_t)fleet->next_row++);
  }
}

static double earlier_s(double a_s, double b_s)
{
  return a_s < b_s ? a_s : b_s;
}

bool fleet_advance(struct fleet *fleet)
{
  const uint32_t late = fleet->deadline_s != NULL ? fleet->deadlines.head : SERVING_NONE;
  const double end_s = fleet_least_key(&fleet->next), send_s = next_send_s(fleet);
  const double late_s = late != SERVING_NONE ? fleet->deadline_s[late] : (double)INFINITY;
  const double next_s = earlier_s(earlier_s(end_s, late_s), send_s);
  if (fleet->at_boundary_count != 0 && earlier_s(next_s, fleet->clock_s) > fleet->now_s) {
    plan(fleet);
    return true;
  }
  if (isinf(next_s))
    return false;
  fleet->now_s = earlier_s(next_s, fleet->clock_s);
  if (end_s <= fleet->now_s)
    commit(fleet);
  else if (late_s <= fleet->now_s)
    give_up(fleet);
  else if (fleet->clock_s <= fleet->now_s)
    change_clocks(fleet);
  else
    send_next(fleet);
  return true;
}
