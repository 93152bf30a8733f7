/* Builders shared by the operator lists. Private to core/operators*.c. */
#ifndef FITD_CORE_OPERATORS_INT_H
#define FITD_CORE_OPERATORS_INT_H

#include "core/operators.h"

#define ACTIVATION_ELEMENT_BYTES 2.0 /* the residual stream and what prefill attention reads are 16-bit */

/* Everything an operator list depends on. Borrowed. */
struct operator_context {
  const struct model *model;
  const struct model_precision *precision; /* as served */
  const struct layout *layout;
  const struct step_shape *shape;
  double tokens; /* of this rank in this step */
};

/* Share of something that tensor parallelism cuts: never below one, replicated where it does not split. */
double operator_split(const struct operator_context *context, unsigned value);

/* [rows × inputs] · [inputs × outputs] with weights in `precision`. */
struct op operator_linear(const struct operator_context *context, const char *name, double inputs, double outputs,
                          enum precision precision);

/* Work with efficiencies of its own: max(FLOPs / (P·ec), bytes / (BW·em)) + floor, 16-bit math unless op.precision says
   otherwise. */
struct op operator_stated(const char *name, enum operator_group group, double flops, double bytes,
                          double compute_efficiency, double memory_efficiency, double floor_s);

/* Attention block of one layer with its projections; returns the number of operators. */
size_t operators_of_attention(struct op *ops, const struct operator_context *context,
                              const struct attention *attention);

/* Feed-forward block: dense, or router, routed and shared experts. */
size_t operators_of_feed_forward(struct op *ops, const struct operator_context *context,
                                 const struct feed_forward *feed_forward);

#endif
