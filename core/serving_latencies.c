/* From outcomes to what is reported of them. */
#include "core/serving.h"

void serving_latencies_init(struct serving_latencies *latencies)
{
  histogram_init(&latencies->ttft_s);
  histogram_init(&latencies->tpot_s);
  histogram_init(&latencies->e2e_s);
  histogram_init(&latencies->queue_s);
}

static void add_one(struct serving_latencies *latencies, const struct serving_outcome *outcome)
{
  histogram_add(&latencies->ttft_s, outcome->first_s - outcome->send_s, 1);
  histogram_add(&latencies->e2e_s, outcome->finish_s - outcome->send_s, 1);
  histogram_add(&latencies->queue_s, outcome->admitted_s - outcome->visible_s + outcome->waited_s, 1);
  if (outcome->output_tokens > 1)
    histogram_add(&latencies->tpot_s, (outcome->finish_s - outcome->first_s) / (outcome->output_tokens - 1), 1);
}

void serving_latencies_add(struct serving_latencies *latencies, const struct serving_outcome *outcomes, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (outcomes[i].status == SERVING_COMPLETED)
      add_one(latencies, &outcomes[i]);
}
