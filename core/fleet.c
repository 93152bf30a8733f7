/* One loop over what happens next in the whole fleet. At one instant steps end first, then clients give up, clocks change,
   requests are sent, and only then the next steps are decided: so all of them see all that is there by then. */
#include "core/fleet_int.h"

#include "core/rng.h"

#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#define STOP_POLL_ROUNDS 1024

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

static void leave_replica(struct fleet *fleet, uint32_t row)
{
  const uint32_t replica = fleet->outcomes[row].replica;
  fleet_least_set(&fleet->load, replica, fleet->load.keys[replica] - 1);
  fleet->in_system--;
}

static void dispatch(struct fleet *fleet, uint32_t row)
{
  const uint32_t index = fleet_least_index(&fleet->load);
  struct serving_sim *replica = &fleet->replicas[index];
  fleet->outcomes[row].replica = index;
  fleet_least_set(&fleet->load, index, fleet->load.keys[index] + 1);
  if (++fleet->in_system > fleet->totals->peak_in_system)
    fleet->totals->peak_in_system = fleet->in_system;
  serving_offer(replica, row, fleet->now_s);
  if (replica->phase != SERVING_AT_BOUNDARY)
    fleet_least_set(&fleet->next, index, serving_next_s(replica));
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
    leave_replica(fleet, row);
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
    struct serving_sim *replica = &fleet->replicas[outcome->replica];
    leave_replica(fleet, row);
    serving_abandon(replica, row, fleet->now_s);
    if (replica->phase != SERVING_AT_BOUNDARY)
      fleet_least_set(&fleet->next, outcome->replica, serving_next_s(replica));
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
  outcome->visible_s = outcome->admitted_s = outcome->first_s = 0;
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

/* The first change of a clock after `when_s`. */
static double clock_after_s(const struct fleet_run *run, double when_s)
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
  fleet->clock_s = clock_after_s(fleet->run, fleet->now_s);
}

static bool has_released(const struct fleet *fleet)
{
  return fleet->front.head != SERVING_NONE && !is_full(fleet);
}

static double next_send_s(const struct fleet *fleet)
{
  if (has_released(fleet) || fleet->retries.head != SERVING_NONE)
    return fleet->now_s;
  if (fleet->next_row == fleet->run->count)
    return (double)INFINITY;
  if (fleet->run->users == 0)
    return fmax(fleet->now_s, fleet->run->arrivals[fleet->next_row].send_s);
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

/* One event; false when nothing is left to come. */
static bool advance(struct fleet *fleet)
{
  const uint32_t late = fleet->deadline_s != NULL ? fleet->deadlines.head : SERVING_NONE;
  const double end_s = fleet_least_key(&fleet->next), send_s = next_send_s(fleet);
  const double late_s = late != SERVING_NONE ? fleet->deadline_s[late] : (double)INFINITY;
  const double next_s = fmin(fmin(end_s, late_s), send_s);
  if (fleet->at_boundary_count != 0 && fmin(next_s, fleet->clock_s) > fleet->now_s) {
    plan(fleet);
    return true;
  }
  if (isinf(next_s))
    return false;
  fleet->now_s = fmin(next_s, fleet->clock_s);
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

/* ---- the run ---- */

static enum err check_slowdown(const struct fleet_slowdown *slow, const struct fleet_run *run, struct error *e)
{
  if (!(slow->from_s >= 0 && slow->until_s > slow->from_s))
    return error_set(e, ERR_INVALID, "", "a slow clock from %g s until %g s", slow->from_s, slow->until_s);
  if (!(slow->ratio > 0 && isfinite(slow->ratio)))
    return error_set(e, ERR_INVALID, "", "a slow clock's steps last %g times as long", slow->ratio);
  if (slow->replica != FLEET_ALL_REPLICAS && slow->replica >= run->replicas)
    return error_set(e, ERR_INVALID, "", "the clock of replica %u of %u", slow->replica, run->replicas);
  return ERR_OK;
}

static enum err check(const struct fleet_run *run, const struct serving_rows *rows, struct error *e)
{
  enum err err = serving_settings_check(&run->settings, rows, e);
  if (err != ERR_OK)
    return err;
  if (run->replicas == 0)
    return error_set(e, ERR_INVALID, "/serving/replicas", "0 replicas serve nothing");
  if (!(run->sheddable_share >= 0 && run->sheddable_share <= 1))
    return error_set(e, ERR_INVALID, "/traffic/sheddable_share", "%g is not a share; expected 0 to 1",
                     run->sheddable_share);
  if (!(run->timeout_s >= 0))
    return error_set(e, ERR_INVALID, "/traffic/client/timeout_ms", "%g s is not a time to wait", run->timeout_s);
  for (size_t i = 0; i < run->slowdown_count && err == ERR_OK; i++)
    err = check_slowdown(&run->slowdowns[i], run, e);
  return err;
}

size_t fleet_arena_bytes(const struct fleet_run *run)
{
  const size_t replicas = run->replicas;
  const size_t clients =
      run->timeout_s > 0 ? serving_links_bytes(run->count) + serving_rounded_bytes(run->count, sizeof(double)) : 0;
  return alignof(max_align_t) + serving_links_bytes(run->count) + clients +
         replicas * serving_sim_bytes(&run->settings, run->count, run->hash_count) +
         serving_rounded_bytes(replicas, sizeof(struct serving_sim)) +
         serving_rounded_bytes(replicas, sizeof(struct serving_totals)) +
         serving_rounded_bytes(replicas, sizeof(uint32_t)) + 2 * fleet_least_bytes(run->replicas);
}

static bool allocate(struct fleet *fleet, struct serving_rows *rows, struct serving_totals **totals,
                     struct arena *arena)
{
  const struct fleet_run *run = fleet->run;
  struct serving_link *later = NULL;
  rows->links = arena_alloc(arena, run->count, sizeof *rows->links);
  fleet->replicas = arena_alloc(arena, run->replicas, sizeof *fleet->replicas);
  fleet->at_boundary = arena_alloc(arena, run->replicas, sizeof *fleet->at_boundary);
  if (*totals == NULL)
    *totals = arena_alloc(arena, run->replicas, sizeof **totals);
  if (run->timeout_s > 0) {
    later = arena_alloc(arena, run->count, sizeof *later);
    fleet->deadline_s = arena_alloc(arena, run->count, sizeof *fleet->deadline_s);
    if (later == NULL || fleet->deadline_s == NULL)
      return false;
  }
  fleet->front = fleet->retries = (struct fleet_list){rows->links, SERVING_NONE, SERVING_NONE};
  fleet->deadlines = (struct fleet_list){later, SERVING_NONE, SERVING_NONE};
  return rows->links != NULL && fleet->replicas != NULL && fleet->at_boundary != NULL && *totals != NULL &&
         fleet_least_init(&fleet->next, run->replicas, (double)INFINITY, arena) &&
         fleet_least_init(&fleet->load, run->replicas, 0, arena);
}

static enum err start(struct fleet *fleet, struct serving_rows *rows, struct serving_totals **totals,
                      struct arena *arena, struct error *e)
{
  const struct fleet_run *run = fleet->run;
  enum err err = ERR_OK;
  if (!allocate(fleet, rows, totals, arena))
    return error_set(e, ERR_LIMIT, "", "%zu requests to %u replicas do not fit into the arena", run->count,
                     run->replicas);
  for (uint32_t i = 0; i < run->replicas && err == ERR_OK; i++) {
    const struct serving_cost *own = run->costs != NULL ? run->costs[i] : NULL;
    err = serving_sim_init(&fleet->replicas[i], &run->settings, own != NULL ? own : run->cost, rows, &(*totals)[i],
                           arena, e);
    fleet->at_boundary[fleet->at_boundary_count++] = i;
  }
  fleet->idle_users = run->users;
  fleet->clock_s = clock_after_s(run, -1);
  return err;
}

static void sum_up(struct serving_totals *sum, const struct serving_totals *one)
{
  sum->completed += one->completed;
  sum->preemptions += one->preemptions;
  sum->decode_steps += one->decode_steps;
  sum->prompt_steps += one->prompt_steps;
  sum->output_tokens += one->output_tokens;
  sum->wasted_tokens += one->wasted_tokens;
  sum->prompt_tokens += one->prompt_tokens;
  sum->cached_tokens += one->cached_tokens;
  sum->busy_s += one->busy_s;
  sum->decode_sequence_s += one->decode_sequence_s;
  sum->running_sequence_s += one->running_sequence_s;
  if (one->peak_kv_blocks > sum->peak_kv_blocks)
    sum->peak_kv_blocks = one->peak_kv_blocks;
  if (one->peak_batch > sum->peak_batch)
    sum->peak_batch = one->peak_batch;
  sum->end_s = fmax(sum->end_s, one->end_s);
}

static enum err advance_all(struct fleet *fleet, struct error *e)
{
  const struct fleet_run *run = fleet->run;
  for (uint64_t round = 1; advance(fleet); round++)
    if (round % STOP_POLL_ROUNDS == 0 && run->stop != NULL && run->stop(run->stop_cls))
      return error_set(e, ERR_CANCELLED, "", "the simulation was stopped");
  return ERR_OK;
}

enum err fleet_simulate(struct serving_outcome *outcomes, struct fleet_totals *totals, struct serving_totals *replicas,
                        const struct fleet_run *run, struct arena *arena, struct error *e)
{
  const size_t mark = arena_mark(arena);
  struct fleet fleet = {.run = run, .outcomes = outcomes, .totals = totals};
  struct serving_rows rows = {.arrivals = run->arrivals,
                              .count = run->count,
                              .hashes = run->hashes,
                              .hash_count = run->hash_count,
                              .outcomes = outcomes,
                              .itl = run->itl};
  enum err err = check(run, &rows, e);
  memset(totals, 0, sizeof *totals);
  if (err != ERR_OK || run->count == 0)
    return err;
  memset(outcomes, 0, run->count * sizeof *outcomes);
  err = start(&fleet, &rows, &replicas, arena, e);
  if (err == ERR_OK)
    err = advance_all(&fleet, e);
  for (uint32_t i = 0; i < run->replicas && err == ERR_OK; i++)
    sum_up(&totals->serving, &replicas[i]);
  arena_release(arena, mark);
  return err;
}
