/* Times by inversion of the cumulative rate: all open processes use the same exponential gaps, measured in requests. */
#include "core/arrivals.h"

#include "core/rng.h"

#include <math.h>

enum stream { STREAM_TIMES = 1, STREAM_INPUTS, STREAM_OUTPUTS };

#define MOST_TOKENS 1e9

void arrivals_of_traffic(struct arrivals *out, const struct workload_traffic *traffic, const struct arrival *trace,
                         size_t trace_count)
{
  *out = (struct arrivals){.load = traffic->load,
                           .arrival = traffic->arrival,
                           .requests_per_s = traffic->requests_per_s,
                           .burst_peak_to_mean = traffic->burst_peak_to_mean,
                           .burst_duration_s = traffic->burst_duration_s,
                           .input = traffic->input,
                           .output = traffic->output,
                           .trace = trace,
                           .trace_count = trace_count,
                           .rate_scale = isnan(traffic->rate_scale) ? 1 : traffic->rate_scale};
}

/* Time within which an on/off source sends `expected` requests in the mean: it sends only while on, at the peak rate. */
static double spiky_time_s(const struct arrivals *plan, double expected)
{
  const double on_s = expected / (plan->requests_per_s * plan->burst_peak_to_mean);
  const double bursts = floor(on_s / plan->burst_duration_s);
  return on_s + bursts * plan->burst_duration_s * (plan->burst_peak_to_mean - 1);
}

static void draw_open(struct arrival *rows, size_t count, const struct arrivals *plan, uint64_t seed)
{
  struct rng rng;
  double expected = 0;
  rng_init_stream(&rng, seed, STREAM_TIMES);
  for (size_t i = 0; i < count; i++) {
    expected += plan->arrival == ARRIVAL_STEADY ? 1 : rng_exponential(&rng);
    rows[i] = (struct arrival){.send_s = expected / plan->requests_per_s};
    if (plan->arrival == ARRIVAL_SPIKY)
      rows[i].send_s = spiky_time_s(plan, expected);
  }
}

static void copy_trace(struct arrival *rows, size_t count, const struct arrivals *plan)
{
  for (size_t i = 0; i < count; i++) {
    rows[i] = plan->trace[i];
    rows[i].send_s = (plan->trace[i].send_s - plan->trace[0].send_s) / plan->rate_scale;
  }
}

static uint32_t whole_tokens(double tokens)
{
  return (uint32_t)fmin(MOST_TOKENS, fmax(1, round(tokens)));
}

/* A log-normal length is median · exp(σ·z); fixed lengths have σ = 0. */
struct length_draw {
  struct rng rng;
  double median_tokens, sigma;
};

static struct length_draw length_draw_of(const struct length *length, uint64_t seed, enum stream stream)
{
  const double p99 = 0.99;
  struct length_draw draw = {.median_tokens = length_quantile_tokens(length, 0.5)};
  draw.sigma = log(length_quantile_tokens(length, p99) / draw.median_tokens) / rng_normal_quantile(p99);
  rng_init_stream(&draw.rng, seed, (uint64_t)stream);
  return draw;
}

static uint32_t length_draw_next(struct length_draw *draw)
{
  return whole_tokens(draw->median_tokens * exp(draw->sigma * rng_normal(&draw->rng)));
}

static void draw_lengths(struct arrival *rows, size_t count, const struct arrivals *plan, uint64_t seed)
{
  if (plan->input.kind != LENGTH_ABSENT) {
    struct length_draw input = length_draw_of(&plan->input, seed, STREAM_INPUTS);
    for (size_t i = 0; i < count; i++)
      rows[i].input_tokens = length_draw_next(&input);
  }
  if (plan->output.kind != LENGTH_ABSENT) {
    struct length_draw output = length_draw_of(&plan->output, seed, STREAM_OUTPUTS);
    for (size_t i = 0; i < count; i++)
      rows[i].output_tokens = length_draw_next(&output);
  }
}

static enum err check_trace(const struct arrivals *plan, size_t count, struct error *e)
{
  if (plan->trace_count < count)
    return error_set(e, ERR_INVALID, "/traffic/trace", "the trace has %zu requests; %zu are to be replayed",
                     plan->trace_count, count);
  if (!(plan->rate_scale > 0))
    return error_set(e, ERR_INVALID, "/traffic/trace/rate_scale", "%g is not a positive number", plan->rate_scale);
  return ERR_OK;
}

static enum err check_open(const struct arrivals *plan, struct error *e)
{
  if (!(plan->requests_per_s > 0))
    return error_set(e, ERR_INVALID, "/traffic/requests_per_s", "%g is not a positive number", plan->requests_per_s);
  if (plan->arrival == ARRIVAL_SPIKY && !(plan->burst_peak_to_mean >= 1 && plan->burst_duration_s > 0))
    return error_set(e, ERR_INVALID, "/traffic/burst", "a peak of %g × mean for %g s; expected at least 1 and above 0",
                     plan->burst_peak_to_mean, plan->burst_duration_s);
  return ERR_OK;
}

static enum err check(const struct arrivals *plan, size_t count, struct error *e)
{
  if (plan->load == LOAD_TRACE)
    return check_trace(plan, count, e);
  if (!(length_mean_tokens(&plan->input) > 0))
    return error_set(e, ERR_INVALID, "/traffic/input_tokens", "no length of prompts is given");
  if (!(length_mean_tokens(&plan->output) > 0))
    return error_set(e, ERR_INVALID, "/traffic/output_tokens", "no length of answers is given");
  return plan->load == LOAD_OPEN ? check_open(plan, e) : ERR_OK;
}

enum err arrivals_draw(struct arrival *rows, size_t count, const struct arrivals *plan, uint64_t seed, struct error *e)
{
  const enum err err = check(plan, count, e);
  if (err != ERR_OK || count == 0)
    return err;
  if (plan->load == LOAD_TRACE)
    copy_trace(rows, count, plan);
  else if (plan->load == LOAD_OPEN)
    draw_open(rows, count, plan, seed);
  else
    for (size_t i = 0; i < count; i++)
      rows[i] = (struct arrival){.send_s = 0};
  draw_lengths(rows, count, plan, seed);
  return ERR_OK;
}

double arrivals_rate_per_s(const struct arrival *rows, size_t count)
{
  const double span_s = rows[count - 1].send_s - rows[0].send_s;
  return (double)(count - 1) / (span_s > 0 ? span_s : 1);
}
