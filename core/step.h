/* Time of one engine step, explained: the operator sums of all layers, the scales that turn them into a step, the fixed
   costs, and what each second waits for. Pure functions.
   Formula and constants: STEPMODEL §3; out-of-sample error of TPOT in closed loop 8-9 % median (to be remeasured here). */
#ifndef FITD_CORE_STEP_H
#define FITD_CORE_STEP_H

#include <stdint.h>

#include "core/memory.h"
#include "core/timing.h"

/* Constants of the step formula; members and meaning: core/step.def. */
struct step_constants {
#define STEP(name, unit, value, spread, sentence) double name;
#include "core/step.def"
#undef STEP
};
extern const struct step_constants step_constants_default;

/* Everything a step's time depends on besides its shape. Borrowed pointers. */
struct engine {
  const struct model *model;
  const struct hardware *hardware;
  struct layout layout;
  struct model_precision precision; /* as served */
  struct preset preset;
  struct device device;
  uint16_t layers_of_kind[MODEL_LAYER_KINDS_MAX]; /* counted once */
  struct step_constants constants;
  double layers_s; /* per-layer costs that no operator explains, all layers */
  double eager_s;  /* host time of a step without graphs; 0 with them */
};

struct engine step_engine(const struct model *model, const struct hardware *hardware, const struct layout *layout,
                          const struct model_precision *precision, enum precision activations,
                          const struct preset *preset);

/* The same with other constants (fits, calibration). */
struct engine step_engine_with(const struct step_constants *constants, const struct model *model,
                               const struct hardware *hardware, const struct layout *layout,
                               const struct model_precision *precision, enum precision activations,
                               const struct preset *preset);

struct step_time {
  double seconds;
  double bound_s[BOUND_COUNT];          /* parts of `seconds` */
  double group_s[OPERATOR_GROUP_COUNT]; /* scaled operator work, without floors */
  double floors_s, layers_s, sequences_s, fixed_s,
      eager_s;    /* launch costs: kernel floors, per layer, per sequence, per step */
  double flops_s; /* FLOPs of each operator over its own peak: utilisation = flops_s / seconds */
  double weight_bytes, kv_bytes, activation_bytes; /* moved by one device */
};

/* One step. `batch` is the number of sequences that the replica's scheduler handles in it (STEPMODEL's B): it differs from
   the shape's sequences under attention data or pipeline parallelism. */
void step_time(struct step_time *out, const struct engine *engine, const struct step_shape *shape, double batch);

/* A step of `batch` decoding sequences of the replica at a mean context. */
void step_decode(struct step_time *out, const struct engine *engine, double batch, double context_tokens);

/* What one prompt costs. `alone` sums its chunks with nothing else running; `added` is what its chunks add to steps that
   carry `batch` decodes anyway (weights are read once): P of STEPMODEL §4, per stage. */
struct prompt_time {
  double added_s, alone_s;
  double chunks;            /* steps that carry a part of it */
  struct step_time profile; /* sum over the chunks alone, for bounds and utilisation */
};
void step_prompt(struct prompt_time *out, const struct engine *engine, double prompt_tokens, double past_tokens,
                 double batch, double context_tokens);

/* Host cost of the steps that carry a prompt (no graph is captured for them): in the time to the first token alone. */
double step_prompt_host_s(const struct engine *engine, double chunks);

/* added_s alone, given the decode step of the same batch and context: what fixed points iterate on. */
double step_prompt_added_s(const struct engine *engine, const struct step_time *decode, double prompt_tokens,
                           double past_tokens, double batch, double context_tokens);

#endif
