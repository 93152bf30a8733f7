/* Variants of a sketch or of a profile, each evaluated like any other: nothing here is estimated by rule of thumb. */
#include "core/variants.h"

#include <math.h>

/* Evaluates without variants of its own; what it allocates is released. */
static enum err evaluate(struct scorecard *card, const struct fit_request *request, const struct workload *workload,
                         const struct hardware *hardware, struct arena *arena, struct error *e)
{
  struct fit_request variant = *request;
  const size_t mark = arena_mark(arena);
  enum err err;
  variant.workload = workload;
  variant.hardware = hardware;
  variant.depth = FIT_QUICK;
  err = fit_evaluate(card, &variant, arena, e);
  arena_release(arena, mark);
  return err;
}

static enum err add_rung(struct scorecard *card, const struct fit_request *request, enum precision precision,
                         struct arena *arena, struct error *e)
{
  struct scorecard_rung *rung = &card->ladder[card->ladder_count];
  struct workload workload = *request->workload;
  struct scorecard variant;
  enum precision math;
  enum err err;
  *rung = (struct scorecard_rung){.precision = precision, .verdict = VERDICT_NO_FIT};
  rung->weights_bytes = rung->output_tok_s = rung->itl_p50_s = rung->per_successful_request_usd = (double)NAN;
  workload.activations = PRECISION_NONE; /* what the format's own path uses */
  rung->support = precision_support(request->hardware, precision, workload.activations, &math);
  card->ladder_count++;
  if (rung->support == PRECISION_UNSUPPORTED)
    return ERR_OK;
  workload.weights = precision;
  if ((err = evaluate(&variant, request, &workload, request->hardware, arena, e)) != ERR_OK)
    return err;
  rung->verdict = variant.verdict;
  if (!variant.has_configuration)
    return ERR_OK;
  rung->gpus = variant.configuration.gpus;
  rung->weights_bytes = variant.memory.weights_bytes;
  rung->output_tok_s = variant.throughput.output_tok_s;
  rung->itl_p50_s = variant.latency.itl_s.p50;
  rung->per_successful_request_usd = variant.cost.per_successful_request_usd;
  return ERR_OK;
}

/* From the widest to the narrowest. A sketch that locks accuracy is shown no other precision. */
static enum err fill_ladder(struct scorecard *card, const struct fit_request *request, struct arena *arena,
                            struct error *e)
{
  static const enum precision rungs[] = {PRECISION_BF16, PRECISION_FP8,   PRECISION_INT8,
                                         PRECISION_INT4, PRECISION_NVFP4, PRECISION_MXFP4};
  if (request->workload->constraints.accuracy == ACCURACY_LOCKED)
    return ERR_OK;
  for (size_t i = 0; i < sizeof rungs / sizeof rungs[0]; i++) {
    const enum err err = add_rung(card, request, rungs[i], arena, e);
    if (err != ERR_OK)
      return err;
  }
  return ERR_OK;
}

static const double more = 1.1;

static void more_memory(struct hardware *hardware)
{
  hardware->memory_gib *= more;
  hardware->memory_usable_mib *= more;
  hardware->memory_engine_mib *= more;
}

static void more_bandwidth(struct hardware *hardware)
{
  hardware->memory_bandwidth_gb_s *= more;
}

static void more_compute(struct hardware *hardware)
{
  double *const peaks[] = {&hardware->fp32_tflops, &hardware->tf32_tflops, &hardware->bf16_tflops,
                           &hardware->fp16_tflops, &hardware->fp8_tflops,  &hardware->int8_tflops,
                           &hardware->int4_tflops, &hardware->fp6_tflops,  &hardware->fp4_tflops};
  for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++)
    *peaks[i] *= more;
}

static void more_interconnect(struct hardware *hardware)
{
  hardware->link_scale_ratio = more * (hardware->link_scale_ratio > 0 ? hardware->link_scale_ratio : 1);
}

/* The configuration stays; the batch limit stays open, because more memory is worth what it lets run. */
static void pin(struct workload *workload, const struct scorecard_configuration *configuration)
{
  workload->serving.tensor_parallel = configuration->tensor_parallel;
  workload->serving.pipeline_parallel = configuration->pipeline_parallel;
  workload->serving.expert_parallel = configuration->expert_parallel;
  workload->serving.attention_data_parallel = configuration->attention_data_parallel;
  workload->serving.replicas = configuration->replicas;
}

/* What the same bill buys: a closed loop finishes what it finishes; an open one what the fleet could carry, because its
   own rate is given. */
static double finished_per_s(const struct scorecard *card, const struct workload *workload)
{
  return workload->traffic.load == LOAD_CLOSED ? card->throughput.requests_per_s
                                               : card->limits.saturation_requests_per_s;
}

/* `base` and the better one both in closed form: a simulation's noise is as large as what is looked for. */
static enum err sense(double *ratio, const struct scorecard *base, const struct fit_request *request,
                      const struct workload *pinned, void (*improve)(struct hardware *hardware), struct arena *arena,
                      struct error *e)
{
  struct hardware hardware = *request->hardware;
  struct scorecard better;
  enum err err;
  improve(&hardware);
  if ((err = evaluate(&better, request, pinned, &hardware, arena, e)) != ERR_OK)
    return err;
  if (better.has_configuration)
    *ratio = finished_per_s(base, pinned) / finished_per_s(&better, pinned) - 1;
  return ERR_OK;
}

static enum err fill_sensitivity(struct scorecard *card, const struct fit_request *request, struct arena *arena,
                                 struct error *e)
{
  struct scorecard_sensitivity *out = &card->sensitivity;
  struct workload pinned = *request->workload;
  struct scorecard base;
  enum err err;
  pin(&pinned, &card->configuration);
  if ((err = evaluate(&base, request, &pinned, request->hardware, arena, e)) != ERR_OK || !base.has_configuration)
    return err;
  err = sense(&out->memory_ratio, &base, request, &pinned, more_memory, arena, e);
  if (err == ERR_OK)
    err = sense(&out->memory_bandwidth_ratio, &base, request, &pinned, more_bandwidth, arena, e);
  if (err == ERR_OK)
    err = sense(&out->compute_ratio, &base, request, &pinned, more_compute, arena, e);
  if (err == ERR_OK)
    err = sense(&out->interconnect_ratio, &base, request, &pinned, more_interconnect, arena, e);
  return err;
}

enum err variants_fill(struct scorecard *card, const struct fit_request *request, struct arena *arena, struct error *e)
{
  enum err err = fill_ladder(card, request, arena, e);
  if (err == ERR_OK && card->has_configuration)
    err = fill_sensitivity(card, request, arena, e);
  return err;
}
