/* One simulation of a candidate: what is sent, how engines and clients are set, how many of both. */
#include "core/judge_int.h"

#include "core/rng.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

/* ---- how many ---- */

/* A part of a large fleet tells as much as the whole with as many requests: each replica must see several times what it
   holds at once, and several bursts. */
struct size {
  uint32_t replicas, prefill_replicas; /* of these; 0 = no pools */
  size_t requests;
};

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
  while (b != 0) {
    const uint32_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

struct pools judge_pools_left(const struct pools *pools, unsigned lost_replicas)
{
  struct pools left = *pools;
  unsigned *smaller = left.decode_replicas < left.prefill_replicas ? &left.decode_replicas : &left.prefill_replicas;
  *smaller -= *smaller < lost_replicas ? *smaller : lost_replicas;
  return left;
}

/* At most so many replicas, at least one; of pools at least the fewest in their proportion. */
static struct size part_of(const struct judge_case *c, double most)
{
  const uint32_t whole = c->candidate->replicas - c->lost_replicas;
  const struct pools pools = judge_pools_left(&c->input->pools, c->lost_replicas);
  uint32_t parts, each;
  if (pools.prefill_replicas == 0)
    return (struct size){.replicas = (uint32_t)fmin(whole, fmax(1, floor(most)))};
  parts = common_divisor(pools.prefill_replicas, pools.decode_replicas);
  each = whole / parts;
  parts = (uint32_t)fmin(parts, fmax(1, floor(most / each)));
  return (struct size){.replicas = parts * each, .prefill_replicas = parts * (pools.prefill_replicas / (whole / each))};
}

static double requests_each(const struct judge_case *c)
{
  const struct workload_traffic *traffic = &c->input->workload->traffic;
  const double turnovers = 8, bursts = 4;
  const double replicas = c->candidate->replicas;
  if (traffic->load == LOAD_CLOSED)
    return turnovers * traffic->concurrency * c->load_scale / replicas;
  if (traffic->arrival == ARRIVAL_SPIKY)
    return fmax(turnovers * c->candidate->state.in_system, bursts * traffic->requests_per_s * c->load_scale / replicas *
                                                               traffic->burst_duration_s * traffic->burst_peak_to_mean);
  return turnovers * c->candidate->state.in_system;
}

/* Room that a simulated replica takes in the arena. */
static double sequences_each(const struct judge_case *c)
{
  return (double)c->candidate->engine.preset.max_batch * c->candidate->layout.attention_data_parallel;
}

/* Long traces are compared by their busiest stretch, and replayed whole in the end. */
static size_t replayed(const struct judge_case *c)
{
  const size_t count = c->input->replay.count;
  return c->requests >= JUDGE_REQUESTS_FINAL || count < JUDGE_REQUESTS_FINAL ? count : JUDGE_REQUESTS_FINAL;
}

static struct size size_of(const struct judge_case *c)
{
  const double most_requests = 2.5 * JUDGE_REQUESTS_FINAL;
  const double each = fmax(1, requests_each(c));
  const double most_replicas = floor(JUDGE_SEQUENCES / sequences_each(c));
  struct size size;
  if (c->input->replay.rows != NULL) {
    size = part_of(c, (double)INFINITY);
    size.requests = replayed(c);
    return size;
  }
  size = part_of(c, fmin(most_replicas, floor((double)c->requests / each)));
  size.requests = (size_t)fmax((double)c->requests, fmin(most_requests, ceil(size.replicas * each)));
  return size;
}

/* ---- what is sent ---- */

/* Traffic of the part that is simulated. Replicas that are lost leave theirs to the others. */
static struct workload_traffic traffic_of(const struct judge_case *c, const struct size *size)
{
  struct workload_traffic traffic = c->input->workload->traffic;
  const double share = c->load_scale * size->replicas / (c->candidate->replicas - c->lost_replicas);
  traffic.requests_per_s *= share;
  if (traffic.load == LOAD_CLOSED)
    traffic.concurrency = fmax(1, round(traffic.concurrency * share));
  return traffic;
}

/* Users of a closed loop that start together with answers of one length would go on in step for ever: their first answers
   are cut to random lengths, so that they spread out. The start is not counted anyway. */
static void spread_users(struct arrival *rows, size_t count, double users, uint64_t seed)
{
  struct rng rng;
  const uint64_t stream = 16;
  rng_init_stream(&rng, seed, stream);
  for (size_t i = 0; i < count && (double)i < users; i++)
    rows[i].output_tokens = (uint32_t)fmax(1, ceil(rng_uniform(&rng) * rows[i].output_tokens));
}

static uint32_t scaled_tokens(uint32_t tokens, double ratio)
{
  return (uint32_t)fmin(1e9, fmax(1, round(tokens * ratio)));
}

/* The stretch of `count` requests that takes the least time. */
static size_t busiest(const struct replay *replay, size_t count)
{
  size_t first = 0;
  for (size_t i = 0; i + count <= replay->count; i++)
    if (replay->rows[i + count - 1].send_s - replay->rows[i].send_s <
        replay->rows[first + count - 1].send_s - replay->rows[first].send_s)
      first = i;
  return first;
}

static void replay(struct judge_simulation *sim, const struct judge_case *c)
{
  const struct replay *trace = &c->input->replay;
  const struct arrival *from = trace->rows + busiest(trace, sim->run.count);
  for (size_t i = 0; i < sim->run.count; i++) {
    sim->rows[i] = from[i];
    sim->rows[i].send_s = (from[i].send_s - from[0].send_s) / (trace->rate_scale * c->load_scale);
    sim->rows[i].input_tokens = scaled_tokens(from[i].input_tokens, trace->input_ratio);
    sim->rows[i].output_tokens = scaled_tokens(from[i].output_tokens, trace->output_ratio);
  }
}

/* Times of every stretch of twice so long squeezed into its first half: bursts of twice the rate at the same mean. */
static void double_bursts(struct arrival *rows, size_t count, double burst_s)
{
  for (size_t i = 0; i < count; i++) {
    const double start_s = floor(rows[i].send_s / (2 * burst_s)) * 2 * burst_s;
    rows[i].send_s = start_s + (rows[i].send_s - start_s) / 2;
  }
}

static bool has_cache(const struct judge_case *c)
{
  return c->input->replay.hashes != NULL && c->candidate->engine.preset.has_prefix_caching;
}

/* What a full replica finishes hangs on what its cache holds: with hashes their own requests tell, all there at once. */
static bool is_replayed(const struct judge_case *c)
{
  return c->input->replay.rows != NULL && (!c->is_full_queue || has_cache(c));
}

static enum err draw(struct judge_simulation *sim, const struct judge_case *c, const struct workload_traffic *traffic,
                     struct error *e)
{
  const uint64_t seed = (uint64_t)c->input->workload->seed;
  struct arrivals plan;
  enum err err;
  if (is_replayed(c)) {
    replay(sim, c);
    if (c->doubled_burst_s > 0)
      double_bursts(sim->rows, sim->run.count, c->doubled_burst_s);
    for (size_t i = 0; c->is_full_queue && i < sim->run.count; i++)
      sim->rows[i].send_s = 0;
    return ERR_OK;
  }
  arrivals_of_traffic(&plan, traffic, NULL, 0);
  err = arrivals_draw(sim->rows, sim->run.count, &plan, seed, e);
  if (err == ERR_OK)
    spread_users(sim->rows, sim->run.count, sim->run.users, seed);
  if (err == ERR_OK && c->doubled_burst_s > 0)
    double_bursts(sim->rows, sim->run.count, c->doubled_burst_s);
  return err;
}

/* ---- engines and clients ---- */

/* Blocks such that as many typical sequences fit as the plan holds bytes for; windows and states, which do not grow with
   the tokens, count in them. */
static uint64_t pool_blocks(const struct judge_case *c)
{
  const struct candidate *candidate = c->candidate;
  const double tokens = c->input->cached_tokens + c->input->prompt_tokens + c->input->output_tokens;
  const double block = candidate->engine.preset.kv_block_tokens;
  const double each_bytes = steady_sequence_bytes(&candidate->engine, tokens);
  if (!(each_bytes > 0))
    return 0;
  return (uint64_t)fmax(1, floor(candidate->memory.kv_cache_bytes / each_bytes * ceil(tokens / block))) *
         candidate->layout.attention_data_parallel;
}

static struct serving_settings settings_of(const struct judge_case *c)
{
  const struct candidate *candidate = c->candidate;
  struct serving_settings settings;
  serving_settings_of(&settings, &candidate->engine.preset);
  settings.max_batch *= candidate->layout.attention_data_parallel;
  settings.max_batched_tokens *= candidate->layout.attention_data_parallel;
  settings.kv_blocks = pool_blocks(c);
  serving_settings_add_drafts(&settings, &candidate->engine.drafter);
  settings.shared_prefix_tokens = (uint32_t)c->input->cached_tokens;
  settings.max_context_tokens = c->input->model->max_context_tokens;
  return settings;
}

static void set_clients(struct fleet_run *run, const struct judge_case *c, const struct size *size)
{
  const struct workload *workload = c->input->workload;
  const double limit = c->concurrency_limit != 0 ? c->concurrency_limit : workload->serving.concurrency_limit;
  if (limit > 0)
    run->concurrency_limit =
        (uint32_t)fmax(1, round(limit * size->replicas / (c->candidate->replicas - c->lost_replicas)));
  run->sheddable_share = isnan(workload->traffic.sheddable_share_ratio) ? 0 : workload->traffic.sheddable_share_ratio;
  run->seed = (uint64_t)workload->seed;
  if (workload->traffic.client_timeout_ms > 0) {
    run->timeout_s = workload->traffic.client_timeout_ms * MS;
    run->retries = workload->traffic.client_retries;
  }
}

/* ---- the run ---- */

static bool allocate(struct judge_simulation *sim, const struct size *size, struct arena *arena)
{
  sim->rows = arena_alloc(arena, size->requests, sizeof *sim->rows);
  sim->outcomes = arena_alloc(arena, size->requests, sizeof *sim->outcomes);
  sim->histograms = arena_alloc(arena, 1, sizeof *sim->histograms);
  sim->samples = arena_alloc(arena, 1, sizeof *sim->samples);
  sim->costs = arena_alloc(arena, size->replicas, sizeof *sim->costs);
  return sim->rows != NULL && sim->outcomes != NULL && sim->histograms != NULL && sim->samples != NULL &&
         sim->costs != NULL;
}

static void cost_of(struct serving_cost *out, const struct judge_case *c, const struct engine *engine)
{
  serving_cost_of(out, engine, c->input->cached_tokens + c->input->prompt_tokens, c->input->cached_tokens,
                  c->input->output_tokens);
}

static enum err simulate(struct judge_simulation *sim, const struct judge_case *c, const struct size *size,
                         const struct workload_traffic *traffic, struct arena *arena, struct error *e)
{
  enum err err;
  if (!allocate(sim, size, arena))
    return error_set(e, ERR_LIMIT, "", "the simulation of %zu requests needs more memory than allowed", size->requests);
  serving_latencies_init(&sim->histograms->latencies);
  histogram_init(&sim->histograms->itl);
  histogram_init(&sim->histograms->kv_blocks);
  cost_of(&sim->cost, c, &c->candidate->engine);
  sim->run = (struct fleet_run){.settings = settings_of(c),
                                .cost = &sim->cost,
                                .replicas = size->replicas,
                                .arrivals = sim->rows,
                                .count = size->requests,
                                .users = traffic->load == LOAD_CLOSED ? (uint32_t)traffic->concurrency : 0,
                                .itl = &sim->histograms->itl,
                                .stop = c->stop,
                                .stop_cls = c->stop_cls};
  if (has_cache(c)) {
    sim->run.settings.hash_block_tokens = c->input->replay.hash_block_tokens;
    sim->run.settings.shared_prefix_tokens = 0;
    sim->run.hashes = c->input->replay.hashes;
    sim->run.hash_count = c->input->replay.hash_count;
  }
  if (size->prefill_replicas != 0) {
    const struct pools pools = {size->prefill_replicas, size->replicas - size->prefill_replicas};
    fleet_set_pools(&sim->run, &c->candidate->engine, &pools, c->input->cached_tokens + c->input->prompt_tokens);
  }
  set_clients(&sim->run, c, size);
  if (c->slow_engine != NULL) {
    cost_of(&sim->slow_cost, c, c->slow_engine);
    sim->costs[0] = &sim->slow_cost;
    sim->run.costs = sim->costs;
  }
  if ((err = draw(sim, c, traffic, e)) != ERR_OK)
    return err;
  return fleet_simulate(sim->outcomes, &sim->totals, NULL, &sim->run, arena, e);
}

enum err judge_run(struct judged *out, const struct judge_case *c, struct arena *arena, struct error *e)
{
  const struct size size = size_of(c);
  const struct workload_traffic traffic = traffic_of(c, &size);
  const size_t mark = arena_mark(arena);
  struct judge_simulation sim;
  enum err err;
  memset(out, 0, sizeof *out);
  memset(&sim, 0, sizeof sim);
  err = simulate(&sim, c, &size, &traffic, arena, e);
  if (err == ERR_OK)
    judge_measure(out, c, &sim);
  arena_release(arena, mark);
  return err;
}

/* ---- capacity ---- */

/* All requests wait from the start on. What is finished between the first finish and the last admission (of pools: to those
   that decode, which is when the client sees a token), while the replica is full, is its pace. */
static double pace(const struct serving_outcome *outcomes, size_t count, bool has_pools)
{
  double first_s = (double)INFINITY, last_s = 0, finished = 0;
  for (size_t i = 0; i < count; i++)
    if (outcomes[i].status == SERVING_COMPLETED) {
      first_s = fmin(first_s, outcomes[i].finish_s);
      last_s = fmax(last_s, has_pools ? outcomes[i].first_s : outcomes[i].admitted_s);
    }
  for (size_t i = 0; i < count; i++)
    finished +=
        outcomes[i].status == SERVING_COMPLETED && outcomes[i].finish_s > first_s && outcomes[i].finish_s <= last_s;
  return last_s > first_s ? finished / (last_s - first_s) : 0;
}

enum err judge_capacity(double *requests_per_s, const struct judge_case *c, struct arena *arena, struct error *e)
{
  const double generations = 4;
  struct size size = part_of(c, has_cache(c) ? (double)INFINITY : 1); /* each caches what it gets */
  const size_t mark = arena_mark(arena);
  struct search_input patient = *c->input; /* clients without limits: what the engine can do */
  struct workload workload = *c->input->workload;
  struct judge_case all = *c;
  struct judge_simulation sim;
  enum err err;
  workload.traffic.load = LOAD_OPEN;
  workload.traffic.arrival = ARRIVAL_STEADY;
  workload.traffic.requests_per_s = 1e9;
  workload.traffic.client_timeout_ms = (double)NAN;
  workload.serving.concurrency_limit = 0;
  patient.workload = &workload;
  all.input = &patient;
  all.is_full_queue = true;
  size.requests = (size_t)fmin(JUDGE_REQUESTS_FINAL, fmax(0.5 * JUDGE_REQUESTS_COMPARE,
                                                          generations * c->candidate->batch_limit * size.replicas));
  if (is_replayed(&all))
    size.requests = replayed(&all);
  memset(&sim, 0, sizeof sim);
  err = simulate(&sim, &all, &size, &workload.traffic, arena, e);
  *requests_per_s = err == ERR_OK ? pace(sim.outcomes, size.requests, size.prefill_replicas != 0) / size.replicas : 0;
  if (!(*requests_per_s > 0)) /* nothing but rejected requests, or too few for a full replica */
    *requests_per_s = c->candidate->capacity_requests_per_s;
  arena_release(arena, mark);
  return err;
}
