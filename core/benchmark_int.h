/* One benchmark's run, resolved: shared by core/benchmark.c (closed forms) and core/benchmark_replay.c (simulation). */
#ifndef FITD_CORE_BENCHMARK_INT_H
#define FITD_CORE_BENCHMARK_INT_H

#include "core/benchmark.h"

#define BENCHMARK_REQUESTS_PER_USER 10 /* closed loop, SERVING §6 */

/* Everything about one run that does not change while its batch is searched. */
struct benchmark_run {
  const struct benchmark *benchmark;
  struct engine engine;
  unsigned replicas;
  double users;     /* of one replica */
  double cap;       /* sequences a replica can run */
  double kv_tokens; /* that its pool holds */
  double context;   /* mean of a decoding sequence */
  struct prompt_time prompt;
};

/* Time that the first steps of a run lose to kernels that are compiled or loaded then. */
double benchmark_cold_start_s(const struct benchmark_run *run);

/* A run of a known number of requests with Poisson arrivals, request by request: latencies and batch over those of the closed
   form. */
enum err benchmark_replay(struct benchmark_figures *out, const struct benchmark_run *run, struct arena *arena,
                          struct error *e) MUST_CHECK;

#endif
