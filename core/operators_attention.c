/* Attention blocks: grouped, latent (MLA, with or without an indexer) and linear. STEPMODEL §2. */
#include "core/operators_int.h"

#include "core/units.h"

#include <math.h>

static double window_context(const struct attention *attention, double context)
{
  return attention->window_tokens != 0 ? fmin(context, attention->window_tokens) : context;
}

/* One query token a sequence, and the drafts that it verifies, against its cached context, which is read once. KV heads below one per rank are replicated, never split. */
static struct op decode_attention(const struct operator_context *context, const struct attention *attention)
{
  struct op op = {.name = "decode attention",
                  .group = OPERATOR_ATTENTION,
                  .form = FORM_DECODE_ATTENTION,
                  .precision = context->precision->kv_cache};
  const double held = window_context(attention, context->shape->decode_context_tokens);
  const double head_dims = attention->head_dim + attention->value_head_dim;
  op.sequences = context->shape->decode_sequences;
  op.query_heads = operator_split(context, attention->query_heads);
  op.head_dim = attention->head_dim;
  op.tokens_per_sequence = 1 + context->shape->draft_tokens;
  op.kv_bytes = op.sequences * operator_split(context, attention->kv_heads) * head_dims *
                precision_element_bytes(op.precision) * held;
  op.flops = 2 * op.sequences * op.tokens_per_sequence * op.query_heads * head_dims * held;
  return op;
}

/* Query-key pairs of one prompt's chunk: half the square of the new tokens (in tiles of 128) plus all past ones. */
static double causal_pairs(const struct step_shape *shape, double new_tokens)
{
  const double tile = 128;
  return new_tokens * (new_tokens + tile) / 2 + new_tokens * shape->prefill_past_tokens;
}

static double chunk_tokens(const struct step_shape *shape)
{
  return shape->prefill_tokens / shape->prefill_sequences;
}

/* Causal attention of a chunk. PREDICTOR §2c. */
static struct op prefill_attention(const struct operator_context *context, const struct attention *attention)
{
  struct op op = {.name = "prefill attention",
                  .group = OPERATOR_ATTENTION,
                  .form = FORM_PREFILL_ATTENTION,
                  .precision = context->precision->kv_cache};
  const struct step_shape *shape = context->shape;
  const double half_tile = 64;
  const double new_tokens = chunk_tokens(shape);
  const double head_dims = attention->head_dim + attention->value_head_dim;
  double pairs = causal_pairs(shape, new_tokens);
  if (attention->window_tokens != 0)
    pairs = fmin(pairs, new_tokens * (attention->window_tokens + half_tile));
  op.sequences = shape->prefill_sequences;
  op.query_heads = operator_split(context, attention->query_heads);
  op.head_dim = attention->head_dim;
  op.tokens_per_sequence = new_tokens;
  op.flops = 2 * op.sequences * op.query_heads * head_dims * pairs;
  op.activation_bytes = ACTIVATION_ELEMENT_BYTES * shape->prefill_tokens * op.query_heads * head_dims;
  op.kv_bytes = ACTIVATION_ELEMENT_BYTES * op.sequences * (new_tokens + shape->prefill_past_tokens) *
                operator_split(context, attention->kv_heads) * head_dims;
  return op;
}

static size_t grouped(struct op *ops, const struct operator_context *context, const struct attention *attention)
{
  const double query_heads = operator_split(context, attention->query_heads);
  const double kv_heads = attention->shares_kv ? 0 : operator_split(context, attention->kv_heads);
  const double kv_dims = attention->head_dim + (attention->values_are_keys ? 0 : attention->value_head_dim);
  const double inputs = attention->input_size != 0 ? attention->input_size : context->model->hidden_size;
  const double qkv = query_heads * (attention->has_output_gate ? 2 : 1) * attention->head_dim + kv_heads * kv_dims;
  const enum precision precision = context->precision->attention;
  size_t n = 0;
  ops[n] = operator_linear(context, "qkv projection", inputs, qkv, precision);
  ops[n++].slices = kv_heads > 0 ? 3 : 1;
  if (context->shape->decode_sequences > 0)
    ops[n++] = decode_attention(context, attention);
  if (context->shape->prefill_tokens > 0)
    ops[n++] = prefill_attention(context, attention);
  ops[n] = operator_linear(context, "output projection", query_heads * attention->value_head_dim,
                           context->model->hidden_size, precision);
  ops[n++].slices = 1;
  return n;
}

/* MLA reads one latent per token, the same on every rank: it does not shrink with tensor parallelism. */
static struct op latent_decode(const struct operator_context *context, const struct attention *attention)
{
  struct op op = {.name = "latent decode attention",
                  .group = OPERATOR_ATTENTION,
                  .form = FORM_LATENT_DECODE,
                  .precision = context->precision->kv_cache};
  double held = context->shape->decode_context_tokens;
  if (attention->index_top_k != 0)
    held = fmin(held, attention->index_top_k);
  op.sequences = context->shape->decode_sequences;
  op.query_heads = operator_split(context, attention->query_heads);
  op.tokens_per_sequence = 1 + context->shape->draft_tokens;
  op.kv_bytes = op.sequences * held * (attention->kv_lora_rank + attention->rope_head_dim) *
                precision_element_bytes(op.precision);
  op.flops = 2 * op.sequences * op.tokens_per_sequence * op.query_heads * held *
             (2.0 * attention->kv_lora_rank + attention->rope_head_dim);
  return op;
}

static struct op latent_prefill(const struct operator_context *context, const struct attention *attention)
{
  struct op op = {.name = "latent prefill attention",
                  .group = OPERATOR_ATTENTION,
                  .form = FORM_LATENT_PREFILL,
                  .precision = context->precision->kv_cache};
  const double new_tokens = chunk_tokens(context->shape);
  const double sparse_heads = 64; /* kernels of the sparse path fill up to this many, whatever a rank holds */
  double query_heads = operator_split(context, attention->query_heads);
  double pairs = causal_pairs(context->shape, new_tokens);
  double dims = attention->nope_head_dim + attention->rope_head_dim + attention->value_head_dim;
  if (attention->index_top_k != 0 && pairs > new_tokens * attention->index_top_k) {
    pairs = new_tokens * attention->index_top_k; /* sparse attention works on the latents themselves */
    dims = 2.0 * attention->kv_lora_rank + attention->rope_head_dim;
    query_heads = fmax(query_heads, sparse_heads);
  }
  op.sequences = context->shape->prefill_sequences;
  op.query_heads = query_heads;
  op.tokens_per_sequence = new_tokens;
  op.flops = 2 * op.sequences * op.query_heads * dims * pairs;
  return op;
}

/* The indexer of sparse attention scores every past token with a few small fp8 heads, on every rank. */
static size_t indexer(struct op *ops, const struct operator_context *context, const struct attention *attention)
{
  const struct step_shape *shape = context->shape;
  const double width = (double)attention->index_heads * attention->index_head_dim;
  const double scored = shape->decode_sequences * shape->decode_context_tokens;
  size_t n = 0;
  ops[n++] = operator_linear(context, "indexer query projection", attention->query_lora_rank, width,
                             context->precision->attention);
  ops[n++] = operator_linear(context, "indexer key projection", context->model->hidden_size, attention->index_head_dim,
                             context->precision->attention);
  if (shape->decode_sequences > 0) {
    ops[n++] = operator_stated("indexer keys", OPERATOR_ATTENTION, 0, scored * attention->index_head_dim, 1, 0.6, 0);
    ops[n] = operator_stated("indexer scores", OPERATOR_ATTENTION, 2 * width * scored * (1 + shape->draft_tokens), 0,
                             0.3, 1, 0);
    ops[n++].precision = PRECISION_FP8;
  }
  if (shape->prefill_tokens > 0) {
    const double pairs = shape->prefill_sequences * causal_pairs(shape, chunk_tokens(shape));
    ops[n] = operator_stated("indexer scores of the prompt", OPERATOR_ATTENTION, 2 * width * pairs, 0, 0.4, 1, 0);
    ops[n++].precision = PRECISION_FP8;
  }
  return n;
}

/* Up-projections absorbed into queries and outputs: two batched 16-bit products. */
static struct op absorbed(const struct operator_context *context, const struct attention *attention)
{
  const double weights = (double)attention->kv_lora_rank * operator_split(context, attention->query_heads) *
                         (attention->nope_head_dim + attention->value_head_dim);
  struct op op =
      operator_stated("absorbed up-projections", OPERATOR_LINEAR, 2 * context->tokens * weights, 0, 0.6, 0.6, 8 * US);
  op.weight_bytes = weights * ACTIVATION_ELEMENT_BYTES;
  op.inputs = attention->kv_lora_rank;
  op.outputs = weights / attention->kv_lora_rank;
  op.slices = 1;
  return op;
}

static size_t latent_queries(struct op *ops, const struct operator_context *context, const struct attention *attention)
{
  const enum precision precision = context->precision->attention;
  const double hidden = context->model->hidden_size;
  const double latent = attention->kv_lora_rank + attention->rope_head_dim;
  const double queries =
      operator_split(context, attention->query_heads) * (attention->nope_head_dim + attention->rope_head_dim);
  if (attention->query_lora_rank == 0) {
    ops[0] = operator_linear(context, "query and latent projection", hidden, queries + latent, precision);
    ops[0].slices = 1;
    return 1;
  }
  ops[0] = operator_linear(context, "query and latent down-projection", hidden, attention->query_lora_rank + latent,
                           precision);
  ops[1] = operator_linear(context, "query up-projection", attention->query_lora_rank, queries, precision);
  ops[0].slices = ops[1].slices = 1;
  return 2;
}

static size_t latent(struct op *ops, const struct operator_context *context, const struct attention *attention)
{
  size_t n = latent_queries(ops, context, attention);
  if (attention->index_top_k != 0)
    n += indexer(ops + n, context, attention);
  ops[n++] = absorbed(context, attention);
  ops[n] = operator_linear(context, "output projection",
                           operator_split(context, attention->query_heads) * attention->value_head_dim,
                           context->model->hidden_size, context->precision->attention);
  ops[n++].slices = 1;
  if (context->shape->decode_sequences > 0)
    ops[n++] = latent_decode(context, attention);
  if (context->shape->prefill_tokens > 0)
    ops[n++] = latent_prefill(context, attention);
  return n;
}

/* Projections of a recurrent block move all its parameters once; the state is read and written once a token. STEPMODEL §2
   counts 8 FLOPs per state element and prompt token at 0.15 of the peak (scan kernels), 0.7 of the bandwidth in decode. */
static size_t linear_attention(struct op *ops, const struct operator_context *context,
                               const struct attention *attention)
{
  const struct step_shape *shape = context->shape;
  const double ranks = context->layout->tensor_parallel;
  const double hidden = context->model->hidden_size;
  const double outputs = (double)attention->linear_parameters / hidden / ranks;
  const double elements = (double)attention->linear_state_elements / ranks;
  const double state_bytes = attention->linear_state_bytes != 0 ? (double)attention->linear_state_bytes / ranks
                                                                : elements * ACTIVATION_ELEMENT_BYTES;
  size_t n = 0;
  ops[n++] =
      operator_linear(context, "recurrent input projection", hidden, outputs * 2 / 3, context->precision->attention);
  ops[n++] =
      operator_linear(context, "recurrent output projection", outputs / 3, hidden, context->precision->attention);
  if (shape->decode_sequences > 0) {
    ops[n] = operator_stated("recurrent state", OPERATOR_STATE, 0, 0, 1, 0.7, 15 * US);
    ops[n++].kv_bytes =
        (2 + shape->draft_tokens) * shape->decode_sequences * state_bytes; /* one a draft, to go back to */
  }
  if (shape->prefill_tokens > 0)
    ops[n++] =
        operator_stated("recurrent scan", OPERATOR_STATE, 8 * shape->prefill_tokens * elements, 0, 0.15, 1, 40 * US);
  return n;
}

size_t operators_of_attention(struct op *ops, const struct operator_context *context, const struct attention *attention)
{
  switch (attention->kind) {
  case ATTENTION_GROUPED: return grouped(ops, context, attention);
  case ATTENTION_LATENT: return latent(ops, context, attention);
  case ATTENTION_LINEAR: return linear_attention(ops, context, attention);
  case ATTENTION_NONE: break;
  }
  return 0;
}
