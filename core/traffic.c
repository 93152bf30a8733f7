/* A day's shape and a trace, turned into what the closed form knows: one rate, two length distributions. */
#include "core/traffic.h"

#include "core/arrivals.h"

#include <math.h>

static enum err copy_workload(struct workload **out, struct search_input *input, struct arena *arena, struct error *e)
{
  *out = arena_alloc(arena, 1, sizeof **out);
  if (*out == NULL)
    return error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
  **out = *input->workload;
  input->workload = *out;
  return ERR_OK;
}

/* requests_per_s is the day's mean; the fleet is there for the busiest hour and is paid all day. */
static enum err take_busiest_hour(struct search_input *input, struct notes *notes, struct arena *arena, struct error *e)
{
  const size_t hours = sizeof input->workload->traffic.hourly_shape / sizeof input->workload->traffic.hourly_shape[0];
  struct workload *workload;
  double sum = 0, most = 0;
  enum err err = copy_workload(&workload, input, arena, e);
  if (err != ERR_OK)
    return err;
  for (size_t i = 0; i < hours; i++) {
    sum += workload->traffic.hourly_shape[i];
    most = fmax(most, workload->traffic.hourly_shape[i]);
  }
  if (!(sum > 0))
    return error_set(e, ERR_INVALID, "/traffic/hourly_shape", "at least one hour must carry load");
  input->load_share_ratio = sum / (double)hours / most;
  workload->traffic.requests_per_s /= input->load_share_ratio;
  workload->traffic.concurrency = ceil(workload->traffic.concurrency / input->load_share_ratio);
  notes_add(notes,
            "hourly_shape: the load given is the day's mean; figures are those of the busiest hour at %.3g times it, "
            "costs of a request are the day's",
            1 / input->load_share_ratio);
  return ERR_OK;
}

/* Mean and spread of what the trace holds. */
static struct length length_of(const struct arrival *rows, size_t count, bool is_output)
{
  double sum = 0, squares = 0, mean;
  for (size_t i = 0; i < count; i++) {
    const double tokens = is_output ? rows[i].output_tokens : rows[i].input_tokens;
    sum += tokens;
    squares += tokens * tokens;
  }
  mean = sum / (double)count;
  return (struct length){.kind = LENGTH_MOMENTS,
                         .fixed_tokens = (double)NAN,
                         .p50_tokens = (double)NAN,
                         .p99_tokens = (double)NAN,
                         .mean_tokens = fmax(1, mean),
                         .cv_ratio = sqrt(fmax(0, squares / (double)count / mean / mean - 1))};
}

struct fit_trace_means fit_trace_means(const struct arrival *rows, size_t count)
{
  return (struct fit_trace_means){.input = length_of(rows, count, false),
                                  .output = length_of(rows, count, true),
                                  .requests_per_s = arrivals_rate_per_s(rows, count)};
}

static enum err take_trace(struct search_input *input, const struct fit_request *request, struct notes *notes,
                           struct arena *arena, struct error *e)
{
  const struct workload_traffic *stated = &request->workload->traffic;
  const double scale = isnan(stated->rate_scale) ? 1 : stated->rate_scale;
  const struct arrival *rows = request->trace;
  const size_t count = request->trace_count;
  struct fit_trace_means means;
  struct workload *workload;
  enum err err;
  if (rows == NULL)
    return error_set(e, ERR_INVALID, "/traffic/trace",
                     "the requests of a trace are with the server that stores it: they can not be replayed here");
  if (count < 2)
    return error_set(e, ERR_INVALID, "/traffic/trace", "a replay needs at least 2 requests; the trace has %zu", count);
  if ((err = copy_workload(&workload, input, arena, e)) != ERR_OK)
    return err;
  input->replay = (struct replay){.rows = rows,
                                  .count = count,
                                  .hashes = request->trace_hashes,
                                  .hash_count = request->trace_hash_count,
                                  .hash_block_tokens = request->trace_hash_block_tokens,
                                  .rate_scale = scale,
                                  .input_ratio = 1,
                                  .output_ratio = 1};
  means = request->trace_means != NULL ? *request->trace_means : fit_trace_means(rows, count);
  workload->traffic.load = LOAD_OPEN;
  workload->traffic.arrival = ARRIVAL_POISSON;
  workload->traffic.input = means.input;
  workload->traffic.output = means.output;
  workload->traffic.requests_per_s = scale * means.requests_per_s;
  notes_add(
      notes,
      "trace %s: %zu requests, %.3g a second in the mean, %.0f tokens in and %.0f out; the closed form takes them "
      "as poisson of these means, the simulation replays them",
      stated->trace, count, workload->traffic.requests_per_s, workload->traffic.input.mean_tokens,
      workload->traffic.output.mean_tokens);
  return ERR_OK;
}

enum err traffic_resolve(struct search_input *input, const struct fit_request *request, struct notes *notes,
                         struct arena *arena, struct error *e)
{
  const struct workload_traffic *traffic = &request->workload->traffic;
  input->load_share_ratio = 1;
  if (traffic->load != LOAD_TRACE)
    return traffic->has_hourly_shape ? take_busiest_hour(input, notes, arena, e) : ERR_OK;
  if (traffic->has_hourly_shape)
    notes_add(notes, "hourly_shape is not used: a trace has its own times");
  if (traffic->arrival_is_given)
    notes_add(notes, "arrival is not used: a trace has its own times");
  if (traffic->input.kind != LENGTH_ABSENT || traffic->output.kind != LENGTH_ABSENT)
    notes_add(notes, "input_tokens and output_tokens are not used: a trace has its own lengths");
  return take_trace(input, request, notes, arena, e);
}
