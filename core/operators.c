/* Operator lists of a layer and of the head: shapes, FLOPs and bytes of one execution on one device. STEPMODEL §2. */
#include "core/operators.h"

#include "core/operators_int.h"

#include <math.h>

double operator_split(const struct operator_context *context, unsigned value)
{
  return ceil((double)value / context->layout->tensor_parallel);
}

double operators_tokens(const struct step_shape *shape)
{
  return shape->decode_sequences * (1 + shape->draft_tokens) + shape->prefill_tokens;
}

struct op operator_linear(const struct operator_context *context, const char *name, double inputs, double outputs,
                          enum precision precision)
{
  const double rows = context->tokens;
  return (struct op){.name = name,
                     .group = OPERATOR_LINEAR,
                     .form = FORM_LINEAR,
                     .precision = precision,
                     .rows = rows,
                     .inputs = inputs,
                     .outputs = outputs,
                     .flops = 2 * rows * inputs * outputs,
                     .weight_bytes = inputs * outputs * model_bytes_per_weight(context->model, precision),
                     .activation_bytes = ACTIVATION_ELEMENT_BYTES * rows * (inputs + outputs)};
}

struct op operator_stated(const char *name, enum operator_group group, double flops, double bytes,
                          double compute_efficiency, double memory_efficiency, double floor_s)
{
  struct op op = {.name = name, .group = group, .form = FORM_STATED, .precision = PRECISION_BF16};
  op.flops = flops;
  op.activation_bytes = bytes;
  op.compute_efficiency = compute_efficiency;
  op.memory_efficiency = memory_efficiency;
  op.floor_s = floor_s;
  return op;
}

static struct op stream(const char *name, enum operator_group group, double bytes)
{
  struct op op = {.name = name, .group = group, .form = FORM_STREAM, .activation_bytes = bytes};
  return op;
}

/* Ring convention: V = 2(n-1)/n · bytes pass through each device. */
static struct op all_reduce(const struct model *model, double tokens, unsigned devices)
{
  const double n = devices;
  return (struct op){.name = "all-reduce",
                     .group = OPERATOR_COLLECTIVE,
                     .form = FORM_ALL_REDUCE,
                     .devices = devices,
                     .wire_bytes = 2 * (n - 1) / n * tokens * model->hidden_size * ACTIVATION_ELEMENT_BYTES};
}

static size_t dense(struct op *ops, const struct operator_context *context, double intermediate, bool is_gated)
{
  const enum precision precision = context->precision->dense;
  const double hidden = context->model->hidden_size;
  const unsigned slices = is_gated ? 2 : 1;
  ops[0] = operator_linear(context, is_gated ? "gate and up projection" : "up projection", hidden,
                           intermediate * slices, precision);
  ops[0].slices = slices;
  ops[1] = operator_linear(context, "down projection", intermediate, hidden, precision);
  ops[1].slices = 1;
  return 2;
}

/* Router: a small 16-bit product whose launch is counted with the experts'. */
static struct op router(const struct operator_context *context, const struct feed_forward *feed_forward)
{
  struct op op = operator_linear(context, "router", context->model->hidden_size, feed_forward->experts, PRECISION_BF16);
  op.form = FORM_STATED;
  op.compute_efficiency = 0.75;
  op.memory_efficiency = 0.8;
  return op;
}

/* Tokens of all attention ranks meet at the experts. With expert parallelism a device holds whole experts and their share
   of the tokens; without, a slice of every expert. Uniform routing touches E·(1 - (1 - k/E)^T) of E experts. */
static struct op experts(const struct operator_context *context, const struct feed_forward *feed_forward)
{
  struct op op = {.name = "routed experts",
                  .group = OPERATOR_EXPERTS,
                  .form = FORM_EXPERTS,
                  .precision = context->precision->experts};
  const struct layout *layout = context->layout;
  const double ranks = layout->tensor_parallel * layout->attention_data_parallel;
  const double ways = layout->expert_parallel > 1 ? ranks : 1;
  const double tokens = context->tokens * layout->attention_data_parallel;
  const double total = feed_forward->experts, used = feed_forward->experts_per_token;
  const double matrices = feed_forward->is_gated ? 3 : 2;
  op.token_experts = tokens * used / ways;
  op.experts_hit = fmin(total / ways * (1 - pow(1 - used / total, tokens)), fmax(op.token_experts, used / ways));
  op.inputs = feed_forward->latent_size != 0 ? feed_forward->latent_size : context->model->hidden_size;
  op.outputs = feed_forward->intermediate_size * ways / ranks;
  op.flops = 2 * matrices * op.token_experts * op.inputs * op.outputs;
  op.weight_bytes =
      matrices * op.experts_hit * op.inputs * op.outputs * model_bytes_per_weight(context->model, op.precision);
  op.activation_bytes = op.token_experts * (4 * op.inputs + 6 * op.outputs);
  return op;
}

/* Into and out of the width that latent experts work on; every rank does both. */
static size_t latent_projections(struct op *ops, const struct operator_context *context,
                                 const struct feed_forward *feed_forward)
{
  const double hidden = context->model->hidden_size;
  ops[0] =
      operator_linear(context, "latent down-projection", hidden, feed_forward->latent_size, context->precision->dense);
  ops[1] =
      operator_linear(context, "latent up-projection", feed_forward->latent_size, hidden, context->precision->dense);
  return 2;
}

size_t operators_of_feed_forward(struct op *ops, const struct operator_context *context,
                                 const struct feed_forward *feed_forward)
{
  size_t n = 0;
  switch (feed_forward->kind) {
  case FEED_FORWARD_DENSE:
    return dense(ops, context, operator_split(context, feed_forward->intermediate_size), feed_forward->is_gated);
  case FEED_FORWARD_MOE:
    ops[n++] = router(context, feed_forward);
    ops[n++] = experts(context, feed_forward);
    if (feed_forward->latent_size != 0)
      n += latent_projections(ops + n, context, feed_forward);
    if (feed_forward->shared_intermediate_size != 0)
      n += dense(ops + n, context, operator_split(context, feed_forward->shared_intermediate_size),
                 feed_forward->is_gated);
    return n;
  case FEED_FORWARD_NONE: break;
  }
  return n;
}

/* One after each block within the tensor-parallel group; with attention data parallelism one after attention, and one
   equivalent over all ranks (dispatch and combine) around the experts. STEPMODEL §2. */
static size_t collectives(struct op *ops, const struct operator_context *context, const struct layer *layer)
{
  const struct layout *layout = context->layout;
  const unsigned ranks = layout->tensor_parallel * layout->attention_data_parallel;
  size_t n = 0;
  if (layout->tensor_parallel > 1 && layer->attention.kind != ATTENTION_NONE)
    ops[n++] = all_reduce(context->model, context->tokens, layout->tensor_parallel);
  if (layout->attention_data_parallel > 1) {
    if (layer->feed_forward.kind == FEED_FORWARD_MOE) {
      ops[n] = all_reduce(context->model, context->tokens * layout->attention_data_parallel, ranks);
      ops[n++].name = "expert dispatch and combine";
    }
  } else if (layout->tensor_parallel > 1 && layer->feed_forward.kind != FEED_FORWARD_NONE) {
    ops[n++] = all_reduce(context->model, context->tokens, layout->tensor_parallel);
  }
  return n;
}

size_t operators_of_layer(struct op ops[OPERATORS_LAYER_MAX], const struct model *model, const struct layer *layer,
                          const struct model_precision *precision, const struct layout *layout,
                          const struct step_shape *shape)
{
  /* Norms, activation and residuals read and write the stream about ten times. STEPMODEL §2. */
  const double elementwise_passes = 10;
  const struct operator_context context = {model, precision, layout, shape, operators_tokens(shape)};
  size_t n = operators_of_attention(ops, &context, &layer->attention);
  n += operators_of_feed_forward(ops + n, &context, &layer->feed_forward);
  if (layer->other_parameters != 0)
    ops[n++] = operator_linear(&context, "other projections", model->hidden_size,
                               (double)layer->other_parameters / model->hidden_size / layout->tensor_parallel,
                               precision->dense);
  n += collectives(ops + n, &context, layer);
  ops[n++] = stream("norms, activation, residuals", OPERATOR_ELEMENTWISE,
                    elementwise_passes * ACTIVATION_ELEMENT_BYTES * context.tokens * model->hidden_size);
  return n;
}

/* Once a step all activations pass from each stage to the next; every tensor-parallel rank holds and sends them whole. */
static struct op hand_off(const struct model *model, const struct layout *layout, const struct step_shape *shape)
{
  struct op op = {.name = "hand-off between stages", .group = OPERATOR_COLLECTIVE, .form = FORM_HAND_OFF};
  const double tokens = operators_tokens(shape);
  op.devices = layout->tensor_parallel * layout->attention_data_parallel;
  op.stages = layout->pipeline_parallel;
  op.wire_bytes = (op.stages - 1.0) * tokens * model->hidden_size * ACTIVATION_ELEMENT_BYTES;
  return op;
}

size_t operators_of_head(struct op ops[OPERATORS_HEAD_MAX], const struct model *model,
                         const struct model_precision *precision, const struct layout *layout,
                         const struct step_shape *shape)
{
  const double sampling_bytes_per_logit = 12; /* fp32 logits written, read and reduced once more. STEPMODEL §2. */
  struct operator_context context = {model, precision, layout, shape,
                                     shape->decode_sequences * (1 + shape->draft_tokens) +
                                         (shape->prefill_tokens > 0 ? shape->prefill_sequences : 0)};
  const double vocabulary = operator_split(&context, model->vocab_size);
  size_t n = 2;
  ops[0] = operator_linear(&context, "lm_head", model->hidden_size, vocabulary, precision->head);
  ops[0].group = OPERATOR_HEAD;
  ops[1] = stream("sampling", OPERATOR_HEAD, sampling_bytes_per_logit * context.tokens * vocabulary);
  if (model->extra_parameters != 0) { /* of every token, not only of those with logits */
    context.tokens = operators_tokens(shape);
    ops[n++] = operator_linear(&context, "projections outside of layers", model->hidden_size,
                               (double)model->extra_parameters / model->hidden_size / layout->tensor_parallel,
                               precision->dense);
  }
  if (layout->pipeline_parallel > 1)
    ops[n++] = hand_off(model, layout, shape);
  return n;
}

const char *operator_group_name(enum operator_group group)
{
  static const char *const names[OPERATOR_GROUP_COUNT] = {"linear",     "attention",   "experts", "state",
                                                          "collective", "elementwise", "head"};
  return names[group];
}
