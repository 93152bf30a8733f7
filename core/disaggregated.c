/* Two queues in a row: prompts wait for a prefill replica, then their caches for a place in a decode replica. Decode steps
   carry no prompts, so nothing interferes with them. */
#include "core/disaggregated.h"

#include "core/parallel.h"

#include <math.h>
#include <string.h>

static double mean_context(const struct steady_load *load)
{
  return load->cached_tokens + load->prompt_tokens + load->output_tokens / 2;
}

/* ---- what each pool sustains ---- */

/* Short prompts share a step up to its token budget; long ones are computed alone, chunk by chunk. */
static double prompt_at_load_s(const struct engine *engine, const struct steady_load *load)
{
  const double together = floor(engine->preset.max_batched_tokens / load->prompt_tokens);
  struct prompt_time prompt;
  struct step_time step;
  if (together < 2) {
    step_prompt(&prompt, engine, load->prompt_tokens, load->cached_tokens, 1, mean_context(load));
    return prompt.alone_s;
  }
  const struct step_shape shape = {.prefill_tokens = together * load->prompt_tokens,
                                   .prefill_past_tokens = load->cached_tokens,
                                   .prefill_sequences = together};
  step_chunk(&step, engine, &shape, together);
  return step.seconds / together;
}

/* Attention ranks compute prompts of their own, pipeline stages different ones at a time. */
static double prefill_servers(const struct engine *engine, const struct pools *pools)
{
  return (double)pools->prefill_replicas * engine->layout.attention_data_parallel * engine->layout.pipeline_parallel;
}

struct collective_time disaggregated_transfer(double *bytes, enum collective_span *span, const struct engine *engine,
                                              const struct pools *pools, const struct steady_load *load)
{
  const double replicas = (double)pools->prefill_replicas + pools->decode_replicas;
  *bytes = steady_sequence_bytes(engine, load->cached_tokens + load->prompt_tokens);
  *span = collective_span_of(engine->hardware, replicas * parallel_gpus(&engine->layout));
  return collective_send(engine->hardware, *span, *bytes);
}

/* Caches that travel at once: each attention rank of the smaller pool sends or takes one. */
static double links(const struct engine *engine, const struct pools *pools)
{
  return (double)fmin(pools->prefill_replicas, pools->decode_replicas) * engine->layout.attention_data_parallel;
}

static double transfer_s(const struct engine *engine, const struct pools *pools, const struct steady_load *load)
{
  enum collective_span span;
  double bytes;
  const struct collective_time time = disaggregated_transfer(&bytes, &span, engine, pools, load);
  return time.floor_s + time.work_s;
}

struct pools_capacity disaggregated_capacities(const struct engine *engine, const struct pools *pools,
                                               const struct steady_load *load, double batch_limit)
{
  const double batch = fmax(1, batch_limit);
  struct step_time step;
  step_decode(&step, engine, batch, mean_context(load));
  return (struct pools_capacity){
      .prefill_requests_per_s = prefill_servers(engine, pools) / prompt_at_load_s(engine, load),
      .decode_requests_per_s =
          pools->decode_replicas * batch * engine->drafter.tokens_per_step / (load->output_tokens * step.seconds),
      .transfer_requests_per_s = links(engine, pools) / transfer_s(engine, pools, load)};
}

double disaggregated_capacity(const struct pools_capacity *capacity)
{
  return fmin(fmin(capacity->prefill_requests_per_s, capacity->decode_requests_per_s),
              capacity->transfer_requests_per_s);
}

/* ---- steady state ---- */

struct fleet {
  const struct engine *engine;
  const struct pools *pools;
  const struct steady_load *load;
  struct pools_capacity capacity;
  double prefill_s; /* own prompt, with the host work of its steps */
  double batch_limit;
  double others_ratio; /* share of the rate that is of others: a user does not meet himself */
  bool has_queues;     /* requests with an even spacing do not meet */
};

/* Everything at the decode step already in *out, when the fleet finishes this many requests a second. */
static void set_times(struct steady_state *out, const struct fleet *fleet, double rate)
{
  const struct engine *engine = fleet->engine;
  const double others_per_s = rate * fleet->others_ratio;
  const double decoding = others_per_s * fleet->load->output_tokens * out->tpot_s / fleet->pools->decode_replicas;
  out->view.busy_ratio = 1 - exp(-decoding);
  if (fleet->has_queues) {
    out->view.slot_wait_s = steady_queue_s(others_per_s, fleet->capacity.decode_requests_per_s,
                                           fleet->pools->decode_replicas * floor(fmax(1, fleet->batch_limit)));
    out->prefill_wait_s =
        steady_queue_s(others_per_s, fleet->capacity.prefill_requests_per_s, prefill_servers(engine, fleet->pools)) +
        steady_queue_s(others_per_s, fleet->capacity.transfer_requests_per_s, links(engine, fleet->pools));
  }
  out->queue_s = out->prefill_wait_s + out->view.slot_wait_s +
                 out->view.busy_ratio * steady_steps_waited(&engine->preset) * out->itl_s;
  out->ttft_s = step_server_s(engine, out->view.input_tokens) + out->queue_s + fleet->prefill_s + out->transfer_s;
  out->e2e_s = out->ttft_s + (fleet->load->output_tokens - 1) * out->tpot_s;
}

/* Rate of all users: rate · e2e(rate) = users, and the left side grows with the rate. */
static double closed_rate(struct steady_state *out, const struct fleet *fleet)
{
  double low = 0, high;
  set_times(out, fleet, 0);
  high = fmin(fleet->load->users / out->e2e_s, (1 - 1e-9) * disaggregated_capacity(&fleet->capacity));
  for (int i = 0; i < 50; i++) {
    const double middle = (low + high) / 2;
    set_times(out, fleet, middle);
    if (middle * out->e2e_s < fleet->load->users)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* A request sees itself beside the others, of whom no more than the limit run; with an even spacing it is one of the mean. */
static double seen_batch(const struct steady_state *state, const struct fleet *fleet)
{
  const double batch = fleet->has_queues ? 1 + fleet->others_ratio * state->decode_batch : state->decode_batch;
  return fmax(1, fmin(fleet->batch_limit, batch));
}

/* The batch of a decode replica gives the step, the step and the rate give the batch. */
static double solve(struct steady_state *out, const struct fleet *fleet, double rate)
{
  const struct engine *engine = fleet->engine;
  double batch = 1, found = rate;
  for (int i = 0; i < 60; i++) {
    double next;
    step_decode(&out->decode, engine, batch, mean_context(fleet->load));
    out->itl_s = out->decode.seconds;
    out->tpot_s = out->itl_s / engine->drafter.tokens_per_step;
    if (fleet->load->kind == LOAD_CLOSED)
      found = closed_rate(out, fleet);
    set_times(out, fleet, found);
    out->view.batch = batch;
    out->decode_batch = found * fleet->load->output_tokens * out->tpot_s / fleet->pools->decode_replicas;
    next = seen_batch(out, fleet);
    if (fabs(next - batch) <= 1e-5 * batch)
      break;
    batch = 0.5 * (batch + next);
  }
  out->decode_batch = fmin(out->decode_batch, fleet->batch_limit);
  return found;
}

/* Users beyond what the fleet works on at capacity wait where it is weakest: by Little's law for the rest of users / rate. */
static void add_rest_of_users(struct steady_state *out, const struct fleet *fleet, double rate)
{
  const struct pools_capacity *capacity = &fleet->capacity;
  const double wait_s = fmax(0, fleet->load->users / rate - out->e2e_s);
  if (capacity->decode_requests_per_s <= disaggregated_capacity(capacity))
    out->view.slot_wait_s += wait_s;
  else
    out->prefill_wait_s += wait_s;
  out->queue_s += wait_s;
  out->ttft_s += wait_s;
  out->e2e_s += wait_s;
}

/* Shares of the fleet's time: prefill replicas are busy by their load, a decode replica stands still when nobody is there. */
static void fill_shares(struct steady_state *out, const struct fleet *fleet, double rate)
{
  const double prefill = fleet->pools->prefill_replicas * fmin(1, rate / fleet->capacity.prefill_requests_per_s);
  const double decode = fleet->pools->decode_replicas * (1 - exp(-out->decode_batch));
  out->prefill_share_ratio = prefill / (prefill + decode);
  out->decode_share_ratio = 1 - out->prefill_share_ratio;
  out->idle_ratio = 1 - (prefill + decode) / ((double)fleet->pools->prefill_replicas + fleet->pools->decode_replicas);
}

void disaggregated_evaluate(struct steady_state *out, const struct engine *engine, const struct pools *pools,
                            const struct steady_load *load, double batch_limit)
{
  const double most = 1 - 1e-6;
  const double replicas = (double)pools->prefill_replicas + pools->decode_replicas;
  const bool is_closed = load->kind == LOAD_CLOSED;
  struct fleet fleet = {.engine = engine, .pools = pools, .load = load, .batch_limit = batch_limit};
  double capacity, rate;
  fleet.capacity = disaggregated_capacities(engine, pools, load, batch_limit);
  fleet.others_ratio = is_closed ? fmax(0, (load->users - 1) / load->users) : 1;
  fleet.has_queues = is_closed || load->is_poisson;
  capacity = disaggregated_capacity(&fleet.capacity);
  memset(out, 0, sizeof *out);
  out->view.input_tokens = fleet.load->prompt_tokens + fleet.load->cached_tokens;
  step_prompt(&out->prompt, engine, load->prompt_tokens, load->cached_tokens, 1, mean_context(load));
  out->has_pools = true;
  out->transfer_s = transfer_s(engine, pools, load);
  fleet.prefill_s = out->prompt.alone_s + step_prompt_host_s(engine, out->prompt.chunks);
  rate = solve(out, &fleet, is_closed ? 0 : fmin(load->requests_per_s, most * capacity));
  if (is_closed)
    add_rest_of_users(out, &fleet, rate);
  out->is_saturated = !is_closed && load->requests_per_s >= capacity;
  out->utilisation_ratio = (is_closed ? rate : load->requests_per_s) / capacity;
  out->requests_per_s = rate / replicas;
  out->in_system = out->requests_per_s * out->e2e_s;
  fill_shares(out, &fleet, rate);
}
