/* Weights of a node over the bandwidth of its storage, then the engine's own start. */
#include "core/startup.h"

#include "core/units.h"

#include <math.h>

/* Assumptions, from memory of start-up logs of vLLM and SGLang of 8 to 70 billion parameters, not from a table: a process
   with its libraries and communicators is up in 15 s; a layer takes 0.3 s of graph captures (some dozens of batch sizes)
   and 0.5 s of profiling, compilation and first kernels. */
static const double process_s = 15, capture_layer_s = 0.3, warm_layer_s = 0.5;
/* A local NVMe drive or a fast network volume. */
static const double assumed_storage_gb_s = 2;
static const double node_gpus = 8;

static double storage_bytes_s(const struct hardware *hardware)
{
  return GIGA * (isnan(hardware->storage_read_gb_s) ? assumed_storage_gb_s : hardware->storage_read_gb_s);
}

struct scorecard_startup startup_of(const struct candidate *candidate, const struct hardware *hardware)
{
  const double gpus = (double)candidate->gpus / candidate->replicas; /* of one replica, in nodes of its own or shared */
  const double layers = candidate->engine.model->layer_count;
  const double layer_s = warm_layer_s + (candidate->engine.preset.is_eager ? 0 : capture_layer_s);
  struct scorecard_startup startup;
  startup.weights_load_s =
      candidate->memory.weights_bytes * fmin(gpus, fmax(node_gpus, hardware->domain_size)) / storage_bytes_s(hardware);
  startup.ready_s = process_s + startup.weights_load_s + layers * layer_s;
  return startup;
}

double startup_lost_ratio(const struct candidate *candidate, const struct search_input *input)
{
  const struct workload *workload = input->workload;
  const double restarts = isnan(workload->restarts_per_day) ? 0 : workload->restarts_per_day;    /* one replica each */
  const double deploys = isnan(workload->deploys_per_week) ? 0 : workload->deploys_per_week / 7; /* all of them */
  const double starts_per_day = restarts / candidate->replicas + deploys;
  const double day_s = 24 * SECONDS_PER_HOUR;
  return fmin(1, starts_per_day * startup_of(candidate, input->hardware).ready_s / day_s);
}

double startup_available_ratio(const struct candidate *candidate, const struct search_input *input)
{
  return candidate->replicas == 1 ? 1 - startup_lost_ratio(candidate, input) : 1;
}

void startup_note(struct notes *notes, const struct candidate *candidate, const struct search_input *input)
{
  const double lost = startup_lost_ratio(candidate, input);
  if (isnan(input->hardware->storage_read_gb_s))
    notes_add(notes, "storage_read_gb_s is not given: weights load at %g GB/s a node", assumed_storage_gb_s);
  notes_add(notes,
            "ready_s: %g s for the process, %g s a layer for graphs, %g s a layer for warm-up: assumed, not measured",
            process_s, candidate->engine.preset.is_eager ? 0.0 : capture_layer_s, warm_layer_s);
  if (lost > 0)
    notes_add(notes, "restarts and deploys take %.3g %% of the replicas' time%s", 100 * lost,
              candidate->replicas == 1 ? "; one replica alone answers nothing meanwhile" : "");
}
