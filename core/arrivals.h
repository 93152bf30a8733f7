/* When requests come and how long they are: the input of core/serving.h. Rows are the caller's; a seed gives the same rows
   everywhere, and times, prompts and answers come from streams of their own, so that changing one leaves the others as
   they are (common random numbers between candidates). Pure functions. */
#ifndef FITD_CORE_ARRIVALS_H
#define FITD_CORE_ARRIVALS_H

#include "core/workload.h"

/* One request. */
struct arrival {
  double send_s;
  uint32_t input_tokens, output_tokens;
  uint32_t hash_first, hash_count; /* of its prompt's blocks, in the run's array; 0 of them: nothing to share by hash */
};

struct arrivals {
  enum load_kind load;
  enum arrival_kind arrival; /* OPEN */
  double requests_per_s;     /* OPEN, mean */
  double burst_peak_to_mean,
      burst_duration_s;        /* SPIKY: on at peak × mean for the duration, off until the mean is met */
  struct length input, output; /* ABSENT with a trace: its own */
  const struct arrival *trace; /* TRACE, in order of time; borrowed */
  size_t trace_count;
  double rate_scale; /* TRACE: 2 plays it twice as fast */
};

/* What a sketch's traffic says. */
void arrivals_of_traffic(struct arrivals *out, const struct workload_traffic *traffic, const struct arrival *trace,
                         size_t trace_count);

/* Fills `count` rows in order of time; those of a closed loop are all at 0 (its users decide when they send). Tokens are whole
   and ≥ 1; hashes of prompts are a trace's own. ERR_INVALID: a trace with fewer rows, rates or lengths that are not given. */
enum err arrivals_draw(struct arrival *rows, size_t count, const struct arrivals *plan, uint64_t seed,
                       struct error *e) MUST_CHECK;

/* Mean rate of rows in order of time, at least 2; those that all come at once are taken as of one second, the resolution of
   coarse traces. */
double arrivals_rate_per_s(const struct arrival *rows, size_t count);

#endif
