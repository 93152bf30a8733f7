/* Time of one engine step, explained: the operator sums of all layers, the scales that turn them into a step, the fixed
   costs, and what each second waits for. Pure functions.
   Formula and constants: STEPMODEL §3; out-of-sample error of TPOT in closed loop 8-9 % median (to be remeasured here). */
#ifndef FITD_CORE_STEP_H
#define FITD_CORE_STEP_H

#include <stdint.h>

#include "core/adapters.h"
#include "core/memory.h"
#include "core/speculative.h"

/* Constants of the step formula; members and meaning: core/step.def. */
struct step_constants {
#define STEP(name, unit, value, prior, spread, sentence) double name;
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
  struct adapters adapters;                       /* none unless set */
  struct drafter drafter;                         /* likewise: speculative_attach */
  uint16_t layers_of_kind[MODEL_LAYER_KINDS_MAX]; /* counted once */
  struct step_constants constants;
  double group_scale[OPERATOR_GROUP_COUNT], group_floor_scale[OPERATOR_GROUP_COUNT]; /* step_scale, step_floor_scale */
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
      eager_s;     /* launch costs: kernel floors, per layer, per sequence, per step */
  double draft_s;  /* part of it that a draft model takes; in none of the groups and launch costs above */
  double capped_s; /* part of the operators' work that a power cap adds */
  double flops_s;  /* FLOPs of each operator over its own peak: utilisation = flops_s / seconds */
  double weight_bytes, kv_bytes, activation_bytes; /* moved by one device */
};

/* One step. `batch` is the number of sequences that the replica's scheduler handles in it (STEPMODEL's B): it differs from
   the shape's sequences under attention data or pipeline parallelism. */
void step_time(struct step_time *out, const struct engine *engine, const struct step_shape *shape, double batch);

/* The operators of one layer of a kind, adapters included. */
size_t step_layer_operators(struct op ops[OPERATORS_LAYER_MAX], const struct engine *engine, unsigned kind,
                            const struct step_shape *shape);

/* Time of an operator in a step: timing_apply, and never less in all than the datasheet's peak and bandwidth allow. */
void step_operator(struct op *op, const struct engine *engine);

/* Whether the inputs of routed experts are scaled to 8 bit in kernels of their own. */
bool step_quantises_for_experts(const struct engine *engine);

/* What turns an operator's work and floor of this group into a part of the step. */
double step_scale(enum operator_group group, const struct step_constants *constants);
double step_floor_scale(enum operator_group group, const struct step_constants *constants);

/* A step of `batch` decoding sequences of the replica at a mean context. With a draft model it verifies what that has
   drafted, and step_decode takes the drafting in: a step hands out drafter.tokens_per_step tokens a sequence. */
struct step_shape step_decode_shape(const struct engine *engine, double batch, double context_tokens);
void step_decode(struct step_time *out, const struct engine *engine, double batch, double context_tokens);

/* What one prompt costs. `alone` sums its chunks with nothing else running; `added` is what its chunks add to steps that
   carry `batch` decodes anyway (weights are read once): P of STEPMODEL §4, per stage. */
struct prompt_time {
  double added_s, alone_s;
  unsigned chunks;          /* steps that carry a part of it */
  struct step_time profile; /* sum over the chunks alone, for bounds and utilisation */
};
void step_prompt(struct prompt_time *out, const struct engine *engine, double prompt_tokens, double past_tokens,
                 double batch, double context_tokens);

/* The prompt's chunks: how many steps it is spread over, and the shape of one of them, from 0. */
unsigned step_prompt_chunks(const struct engine *engine, double prompt_tokens);
struct step_shape step_chunk_shape(const struct engine *engine, double prompt_tokens, double past_tokens,
                                   unsigned index);

/* A step that carries prompts, and decodes where the shape has some; a draft model's pass over the prompts is in it, its
   drafting is not. */
void step_chunk(struct step_time *out, const struct engine *engine, const struct step_shape *shape, double batch);

/* Before and after the engine: the runtime's constant and the handling of the prompt's tokens. */
double step_server_s(const struct engine *engine, double prompt_tokens);

/* What a prompt costs the sequences that decode meanwhile: its added work and a share of the host cost of steps without
   graphs, which all prompts of one step share. `chunks` steps carry it; `batch` sequences with `output_tokens` each run. */
double step_prompt_stall_s(const struct engine *engine, double added_s, double chunks, double prompt_tokens,
                           double batch, double output_tokens);

/* Host cost of the steps that carry a prompt (no graph is captured for them): all of it is in the time to the first token;
   sequences that decode in such a step wait for the stalled part, the rest is hidden behind their work. */
double step_prompt_host_s(const struct engine *engine, double chunks);
double step_prompt_host_stalled_s(const struct engine *engine, double chunks);

/* GPUs that work on different prompts at once: work of one prompt over them is its share of their time. */
double step_prompt_parts(const struct engine *engine);

/* Time of one prompt in steps that carry prompts alone, as many as the token budget holds; its share, like added_s. */
double step_prompt_packed_s(const struct engine *engine, double prompt_tokens, double past_tokens);

/* Whole prompts that the token budget of one step holds; at least 1. */
double step_prompts_at_once(const struct engine *engine, double prompt_tokens);

/* added_s alone, given the decode step of the same batch and context: what fixed points iterate on. */
double step_prompt_added_s(const struct engine *engine, const struct step_time *decode, double prompt_tokens,
                           double past_tokens, double batch, double context_tokens);

/* The same for several prompts that ride in one step, all together: what the step has to spare is filled once. */
double step_prompts_added_s(const struct engine *engine, const struct step_time *decode, double prompts,
                            double prompt_tokens, double past_tokens, double batch, double context_tokens);

#endif
