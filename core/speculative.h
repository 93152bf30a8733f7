/* Speculative decoding: a draft proposes tokens one after the other, the model verifies all of them in one step. Pure
   functions; pointers are borrowed.
   A step hands out 1 + a + … + a^k tokens on average: of k drafts each is accepted with rate a while those before it were. */
#ifndef FITD_CORE_SPECULATIVE_H
#define FITD_CORE_SPECULATIVE_H

#include "core/timing.h"

#define SPECULATIVE_DRAFT_TOKENS_MAX 64

struct engine;
struct step_time;

/* What the sketch asks for. */
struct speculation {
  unsigned draft_tokens; /* 0 = none */
  double tokens_per_step;
  const struct model *model; /* that drafts */
  struct model_precision precision;
  bool is_module; /* one layer that shares the model's embedding and head */
};

/* The same laid out beside one engine. */
struct drafter {
  unsigned draft_tokens;  /* 0 = nothing drafts */
  double tokens_per_step; /* 1 where nothing drafts */
  const struct model *model;
  struct layout layout;
  struct model_precision precision;
  struct device device;
  uint16_t layers_of_kind[MODEL_LAYER_KINDS_MAX];
  double layers_s;
  double weights_bytes; /* on each of its devices */
};

/* More than a request has left after its first token are of no use. */
double speculative_tokens_per_step(unsigned draft_tokens, double acceptance_ratio, double output_tokens);

/* The draft of an engine that is given none: one layer of the model and its head (multi-token prediction, EAGLE). */
void speculative_module(struct model *out, const struct model *model);

/* On the engine's devices, with its tensor degree or the largest smaller one that the draft splits into. */
void speculative_attach(struct engine *engine, const struct speculation *speculation);

/* Adds what the draft does in a step of the engine: its own steps for every sequence, its pass over a prompt's chunk. */
void speculative_add_drafts(struct step_time *sum, const struct engine *engine, const struct step_shape *shape);
void speculative_add_chunk(struct step_time *sum, const struct engine *engine, const struct step_shape *shape);

#endif
