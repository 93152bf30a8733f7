/* What one engine step consists of: the operators of a layer and of the head with their shapes, FLOPs and bytes on one
   device. No time in here (core/timing.h prices an operator), so the list is the same for every device.
   Pure functions; the caller owns the arrays. Formulas: STEPMODEL §2. */
#ifndef FITD_CORE_OPERATORS_H
#define FITD_CORE_OPERATORS_H

#include "core/fit.h"
#include "core/model.h"

/* How one replica is cut over devices. A replica has tensor × attention data × pipeline devices. */
struct layout {
  unsigned tensor_parallel, pipeline_parallel, expert_parallel, attention_data_parallel;
};

/* One step on one attention rank. Counts are doubles: the closed form works with means. */
struct step_shape {
  double decode_sequences;      /* each adds one token */
  double draft_tokens;          /* that each verifies beside it */
  double decode_context_tokens; /* mean context of those */
  double prefill_tokens;        /* of the chunk, all prompts together */
  double prefill_past_tokens;   /* of each prompt before this chunk */
  double prefill_sequences;     /* prompts in the chunk */
};

/* Tokens that the step computes. */
double operators_tokens(const struct step_shape *shape);

enum operator_group {
  OPERATOR_LINEAR,
  OPERATOR_ATTENTION,
  OPERATOR_EXPERTS, /* routed experts: two grouped products */
  OPERATOR_STATE,   /* recurrent state of linear attention */
  OPERATOR_COLLECTIVE,
  OPERATOR_ELEMENTWISE,
  OPERATOR_HEAD,
  OPERATOR_GROUP_COUNT
};

/* Which time formula applies. */
enum operator_form {
  FORM_LINEAR,
  FORM_DECODE_ATTENTION,
  FORM_PREFILL_ATTENTION,
  FORM_LATENT_DECODE, /* MLA against the latent cache */
  FORM_LATENT_PREFILL,
  FORM_EXPERTS,
  FORM_ALL_REDUCE,
  FORM_HAND_OFF, /* activations from each pipeline stage to the next */
  FORM_STREAM,
  FORM_STATED /* efficiencies and floor stand in the operator itself */
};

struct op {
  const char *name;
  enum operator_group group;
  enum operator_form form;
  enum precision precision;     /* of the weights or the KV cache */
  unsigned slices;              /* linear layers fused into this one that take adapters; 0 = none does */
  double rows, inputs, outputs; /* LINEAR: M, K, N */
  double sequences, query_heads, head_dim, tokens_per_sequence; /* attention, on this device */
  unsigned devices;                                             /* ALL_REDUCE; HAND_OFF: of one stage */
  unsigned stages;                                              /* HAND_OFF */
  double token_experts, experts_hit; /* EXPERTS: token × expert pairs and experts with work, on this device */
  double compute_efficiency, memory_efficiency; /* STATED */
  /* of one execution on one device */
  double flops, weight_bytes, kv_bytes, activation_bytes, wire_bytes;
  /* filled in by timing_apply, but for the floor of STATED */
  double work_s, floor_s; /* without and with nothing to do */
  double capped_s;        /* part of the work that a power cap adds */
  enum bound bound;       /* of the work */
  bool is_at_datasheet;   /* fitted constants made it faster than its device (core/step.c) */
};

#define OPERATORS_LAYER_MAX 24
#define OPERATORS_HEAD_MAX 4

/* The operators of one layer for this shape; returns their number. */
size_t operators_of_layer(struct op ops[OPERATORS_LAYER_MAX], const struct model *model, const struct layer *layer,
                          const struct model_precision *precision, const struct layout *layout,
                          const struct step_shape *shape);

/* lm_head over the rows that need logits (one a decode, the last of each prompt) and sampling; where there are several
   pipeline stages, what passes between them. */
size_t operators_of_head(struct op ops[OPERATORS_HEAD_MAX], const struct model *model,
                         const struct model_precision *precision, const struct layout *layout,
                         const struct step_shape *shape);

const char *operator_group_name(enum operator_group group);

#endif
