/* Launch flags of public benchmark runs: what the scripts of their dates say, keyed by what a table states. Facts, not
   fits: a run's polling interval or token budget moves its TTFT by two to five times. Private to api/accuracy.c.
   Sources: InferenceX scripts (843c6254) by date, engine defaults where those are silent. */
#ifndef FITD_API_LAUNCH_FLAGS_H
#define FITD_API_LAUNCH_FLAGS_H

#include "core/benchmark.h"

struct launch_run {
  const char *runtime, *model, *hardware, *weight_precision, *date; /* as the table writes them; "" = not stated */
  double nominal_input_tokens, nominal_output_tokens;               /* before length_scale */
};

/* Sets what the first matching rule states; the preset keeps the rest. */
void launch_flags_apply(struct benchmark *benchmark, const struct launch_run *run);

#endif
