/* What can be said about a trace: its rate and how bursty it is, how long requests are, how much of them repeats. */
#include <math.h>
#include <stdlib.h>

#include "api/put.h"
#include "api/trace.h"

#define NS_PER_S 1e9
#define NS_PER_MINUTE INT64_C(60000000000)
#define SECONDS_PER_MINUTE 60

static double duration_s(const struct store_trace_requests *requests)
{
  return (double)requests->rows[requests->count - 1].arrival_ns / NS_PER_S;
}

/* ---- Rate ---- */

/* Gaps over time: what the reciprocal of the mean gap is. */
static double mean_per_s(const struct store_trace_requests *requests)
{
  const double duration = duration_s(requests);
  return duration > 0.0 ? (double)(requests->count - 1) / duration : (double)NAN;
}

/* Requests of the fullest minute, minutes counted from the first request; a trace below one has none that is full. */
static double peak_per_s(const struct store_trace_requests *requests)
{
  size_t most = 0, first = 0;
  if (requests->rows[requests->count - 1].arrival_ns < NS_PER_MINUTE)
    return (double)NAN;
  for (size_t i = 0; i < requests->count; i++) {
    if (requests->rows[i].arrival_ns / NS_PER_MINUTE != requests->rows[first].arrival_ns / NS_PER_MINUTE)
      first = i;
    most = i - first + 1 > most ? i - first + 1 : most;
  }
  return (double)most / SECONDS_PER_MINUTE;
}

/* Standard deviation of the gaps between arrivals over their mean: 0 steady, 1 Poisson, more is bursty. */
static double gap_cv(const struct store_trace_requests *requests)
{
  const double gaps = (double)requests->count - 1.0, mean_s = duration_s(requests) / gaps;
  double sum = 0.0;
  if (requests->count < 3 || !(mean_s > 0.0))
    return (double)NAN;
  for (size_t i = 1; i < requests->count; i++) {
    const int64_t gap_ns = requests->rows[i].arrival_ns - requests->rows[i - 1].arrival_ns;
    const double off_s = (double)gap_ns / NS_PER_S - mean_s;
    sum += off_s * off_s;
  }
  return sqrt(sum / gaps) / mean_s;
}

/* ---- Lengths ---- */

static int by_size(const void *a, const void *b)
{
  const uint32_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* The smallest value that at least `percent` of all do not exceed. */
static uint32_t percentile(const uint32_t *sorted, size_t count, size_t percent)
{
  return sorted[(count * percent + 99) / 100 - 1];
}

static json_t *lengths(const uint32_t *sorted, size_t count)
{
  json_t *out = json_object();
  double sum = 0.0;
  for (size_t i = 0; i < count; i++)
    sum += sorted[i];
  put_member(&out, "mean", write_number(sum / (double)count));
  put_member(&out, "p50", json_integer(percentile(sorted, count, 50)));
  put_member(&out, "p90", json_integer(percentile(sorted, count, 90)));
  put_member(&out, "p99", json_integer(percentile(sorted, count, 99)));
  put_member(&out, "max", json_integer(sorted[count - 1]));
  return out;
}

static json_t *lengths_of(const struct store_trace_requests *requests, bool is_output)
{
  uint32_t *sorted = calloc(requests->count, sizeof *sorted);
  json_t *out;
  if (sorted == NULL)
    return NULL;
  for (size_t i = 0; i < requests->count; i++)
    sorted[i] = is_output ? requests->rows[i].output_tokens : requests->rows[i].input_tokens;
  qsort(sorted, requests->count, sizeof *sorted, by_size);
  out = lengths(sorted, requests->count);
  free(sorted);
  return out;
}

/* ---- Prefixes ---- */

/* Tokens of the leading blocks that an earlier request had too. Hashes are numbered by first appearance, so those of
   earlier requests are the numbers below `known`. */
static double repeated_tokens(const struct store_trace_requests *requests, const struct store_trace_request *row,
                              uint32_t known)
{
  double tokens = 0.0;
  for (uint32_t k = 0; k < row->prefix_count && requests->prefix_hashes[row->prefix_first + k] < known; k++)
    tokens += TRACE_BLOCK_TOKENS;
  return tokens < row->input_tokens ? tokens : row->input_tokens;
}

static json_t *prefix(const struct store_trace_requests *requests)
{
  json_t *out = json_object();
  double repeated = 0.0, all = 0.0;
  uint32_t known = 0;
  if (requests->prefix_hash_count == 0) {
    json_decref(out);
    return json_null();
  }
  for (size_t i = 0; i < requests->count; i++) {
    const struct store_trace_request *row = &requests->rows[i];
    repeated += repeated_tokens(requests, row, known);
    all += row->input_tokens;
    for (uint32_t k = 0; k < row->prefix_count; k++)
      if (requests->prefix_hashes[row->prefix_first + k] >= known)
        known = requests->prefix_hashes[row->prefix_first + k] + 1;
  }
  put_member(&out, "block_tokens", json_integer(TRACE_BLOCK_TOKENS));
  put_member(&out, "blocks", json_integer((json_int_t)requests->prefix_hash_count));
  put_member(&out, "distinct_blocks", json_integer(known));
  put_member(&out, "shared_input_share", write_number(repeated / all));
  return out;
}

/* ---- The whole ---- */

json_t *trace_statistics(const struct store_trace_requests *requests)
{
  json_t *out = json_object(), *rate = json_object();
  put_member(&rate, "mean", write_number(mean_per_s(requests)));
  put_member(&rate, "peak_minute", write_number(peak_per_s(requests)));
  put_member(&out, "requests", json_integer((json_int_t)requests->count));
  put_member(&out, "duration_s", write_number(duration_s(requests)));
  put_member(&out, "requests_per_s", rate);
  put_member(&out, "interarrival_cv", write_number(gap_cv(requests)));
  put_member(&out, "input_tokens", lengths_of(requests, false));
  put_member(&out, "output_tokens", lengths_of(requests, true));
  put_member(&out, "prefix", prefix(requests));
  return out;
}

json_t *trace_document(const struct trace *trace)
{
  json_t *out = json_object();
  char start[WRITE_TIME_SIZE];
  write_time(start, trace->starts_at_ms);
  put_member(&out, "digest", write_text(trace->digest));
  put_member(&out, "format", write_text(trace->format));
  put_member(&out, "starts_at", write_text(trace->has_start ? start : NULL));
  put_member(&out, "statistics", trace_statistics(&trace->requests));
  put_member(&out, "assumptions", json_incref(trace->assumptions));
  return out;
}
