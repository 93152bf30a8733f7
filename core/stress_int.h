/* What the stress cases and their ways out share. Private to core/stress*.c. */
#ifndef FITD_CORE_STRESS_INT_H
#define FITD_CORE_STRESS_INT_H

#include "core/stress.h"

/* One case: what the simulation is given. The candidate's engine points to the hardware here. */
struct stress_variant {
  struct workload workload;
  struct hardware hardware, throttled;
  struct search_input input;
  struct candidate candidate;
  struct engine slow_engine;
  struct search_result obstacle;
  struct judge_case run;
  bool is_known;    /* false: the profile does not say what the case needs */
  bool is_hopeless; /* nothing is left to serve with, or nothing fits */
};

/* A case of which nothing is known: no fit. */
void stress_clear(struct scorecard_stress *out);

/* The case with as many replicas as the candidate has, whose capacity is known. Into a clear `out`. */
enum err stress_simulate(struct scorecard_stress *out, struct stress_variant *v, struct arena *arena,
                         struct error *e) MUST_CHECK;

/* What makes the case bearable that came out as `before` with `given` replicas: more of them, else a promise that
   gives way. `way->pointer` stays NULL where neither does. The message is left to the caller. */
enum err stress_way_out(struct scorecard_change *way, struct stress_variant *v, const struct scorecard_stress *before,
                        unsigned given, struct arena *arena, struct error *e) MUST_CHECK;

#endif
