/* s(B) = G + .95·A + .90·E + .80·C + .75·F + .50·F_experts + c_layer·layers + c_experts·expert layers + a + b·B, with G
   linear work, A attention, E experts, C collectives, F kernel floors. STEPMODEL §3. */
#include "core/step.h"

#include "core/served.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

const struct step_constants step_constants_default = {
#define STEP(name, unit, value, prior, spread, sentence) .name = (value),
#include "core/step.def"
#undef STEP
};

/* Grouped products in 8 bit scale their inputs in a kernel before each; those of 16 and 4 bit take them as they are or do
   it within. Devices without 8-bit units unpack the weights. */
bool step_quantises_for_experts(const struct engine *engine)
{
  const enum precision precision = engine->precision.experts;
  return (precision == PRECISION_FP8 || precision == PRECISION_INT8) &&
         hardware_peak_flops(engine->hardware, precision) > 0;
}

/* Per-layer costs that no operator explains. */
static double unexplained_layers_s(const struct engine *engine)
{
  const struct model *model = engine->model;
  const struct step_constants *constants = &engine->constants;
  const double quantise_us = step_quantises_for_experts(engine) ? constants->experts_quantise_us : 0;
  const double layer_us = engine->preset.is_old_engine ? constants->layer_old_us : constants->layer_us;
  double microseconds = layer_us * model->layer_count;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct layer *layer = &model->layers[kind];
    const double count = engine->layers_of_kind[kind];
    if (layer->feed_forward.kind == FEED_FORWARD_MOE)
      microseconds += (constants->experts_layer_us + quantise_us) * count;
    if (layer->attention.index_top_k != 0)
      microseconds += constants->indexer_layer_us * count;
  }
  return microseconds * US;
}

/* Without graphs the host launches every kernel: it is the longer of host and device that counts (TP4 = TP8 in eager
   engines of 2023). STEPMODEL §3. */
static double eager_host_s(const struct engine *engine)
{
  const enum hardware_family family = engine->hardware->family;
  const bool is_old_host = family == HARDWARE_AMPERE_DC || family == HARDWARE_AMPERE_RTX || family == HARDWARE_VOLTA;
  const double layer_us = is_old_host ? engine->constants.eager_ampere_us : engine->constants.eager_us;
  return engine->preset.is_eager ? layer_us * US * engine->model->layer_count : 0;
}

/* Mixtures of a 16-bit release are published in 8 bit with block scales, activations scaled as they come. Per tensor and
   ahead of time is how TensorRT-LLM's own tool makes them. */
static bool has_static_scales(const struct model *model, const struct model_precision *precision,
                              const struct preset *preset)
{
  const bool is_by_block =
      served_has_experts(model) && !model->precision.has_static_scales && preset->memory_rule != MEMORY_RULE_TENSORRT;
  return precision->has_static_scales && !is_by_block;
}

struct engine step_engine_with(const struct step_constants *constants, const struct model *model,
                               const struct hardware *hardware, const struct layout *layout,
                               const struct model_precision *precision, enum precision activations,
                               const struct preset *preset)
{
  struct engine engine = {.model = model, .hardware = hardware, .layout = *layout, .precision = *precision};
  engine.constants = *constants;
  engine.preset = *preset;
  engine.precision.has_static_scales = has_static_scales(model, precision, preset);
  engine.device = timing_device(hardware, &engine.precision, activations);
  for (unsigned i = 0; i < model->layer_count; i++)
    engine.layers_of_kind[model->layer_order[i]]++;
  if (preset->has_prefill_graphs)
    engine.constants.scale_floor *= constants->scale_floor_sglang_graph;
  engine.layers_s = unexplained_layers_s(&engine);
  engine.eager_s = eager_host_s(&engine);
  engine.drafter.tokens_per_step = 1;
  for (int group = 0; group < OPERATOR_GROUP_COUNT; group++) {
    engine.group_scale[group] = step_scale((enum operator_group)group, constants);
    engine.group_floor_scale[group] = step_floor_scale((enum operator_group)group, &engine.constants);
  }
  return engine;
}

struct engine step_engine(const struct model *model, const struct hardware *hardware, const struct layout *layout,
                          const struct model_precision *precision, enum precision activations,
                          const struct preset *preset)
{
  return step_engine_with(&step_constants_default, model, hardware, layout, precision, activations, preset);
}

double step_scale(enum operator_group group, const struct step_constants *constants)
{
  switch (group) {
  case OPERATOR_ATTENTION: return constants->scale_attention;
  case OPERATOR_EXPERTS: return constants->scale_experts;
  case OPERATOR_STATE: return constants->scale_state;
  case OPERATOR_COLLECTIVE: return constants->scale_collective;
  case OPERATOR_LINEAR:
  case OPERATOR_ELEMENTWISE:
  case OPERATOR_HEAD:
  case OPERATOR_GROUP_COUNT: break;
  }
  return constants->scale_linear;
}

double step_floor_scale(enum operator_group group, const struct step_constants *constants)
{
  if (group == OPERATOR_COLLECTIVE)
    return constants->scale_collective; /* the latency of its link */
  if (group == OPERATOR_HEAD)
    return 1.0; /* not fused with anything */
  return group == OPERATOR_EXPERTS ? constants->scale_experts_floor : constants->scale_floor;
}

/* Floors are launches, but a collective's floor is the latency of its link. */
static void add_floor(struct step_time *out, const struct op *op, double floor_s)
{
  if (op->group == OPERATOR_COLLECTIVE) {
    out->group_s[op->group] += floor_s;
    out->bound_s[BOUND_INTERCONNECT] += floor_s;
  } else {
    out->floors_s += floor_s;
    out->bound_s[BOUND_LAUNCH_OVERHEAD] += floor_s;
  }
}

/* Fitted efficiencies and scales may multiply to more than the datasheet has (grouped products on Hopper, whose fit splits
   their time between floor and stream). */
void step_operator(struct op *op, const struct engine *engine)
{
  const double stream_s = (op->weight_bytes + op->kv_bytes) / engine->device.bandwidth_bytes_s;
  double least_s;
  timing_apply(op, &engine->device);
  least_s = fmax(stream_s, op->flops > 0 ? op->flops / timing_peak_flops(op, &engine->device) : 0);
  least_s = (least_s - engine->group_floor_scale[op->group] * op->floor_s) / engine->group_scale[op->group];
  op->is_at_datasheet = op->work_s < least_s;
  op->work_s = fmax(op->work_s, least_s);
}

static void add_operators(struct step_time *out, const struct engine *engine, struct op *ops, size_t n, double count)
{
  for (size_t i = 0; i < n; i++) {
    struct op *op = &ops[i];
    const double scale = count * engine->group_scale[op->group];
    double work_s;
    step_operator(op, engine);
    work_s = scale * op->work_s;
    out->group_s[op->group] += work_s;
    out->bound_s[op->bound] += work_s;
    out->capped_s += scale * op->capped_s;
    add_floor(out, op, count * engine->group_floor_scale[op->group] * op->floor_s);
    if (op->flops > 0)
      out->flops_s += count * op->flops / timing_peak_flops(op, &engine->device);
    out->weight_bytes += count * op->weight_bytes;
    out->kv_bytes += count * op->kv_bytes;
    out->activation_bytes += count * op->activation_bytes;
  }
}

static void add_fixed(struct step_time *out, const struct engine *engine, double batch)
{
  const struct step_constants *constants = &engine->constants;
  const double sequence_us = engine->preset.is_old_engine ? constants->sequence_old_us : constants->sequence_us;
  out->layers_s = engine->layers_s;
  out->sequences_s = sequence_us * US * batch;
  out->fixed_s = constants->step_us * US;
  out->bound_s[BOUND_LAUNCH_OVERHEAD] += out->layers_s + out->sequences_s + out->fixed_s;
}

/* Device and host overlap: a 4-norm of the two, near the larger. What the host adds is launch overhead. */
static void add_eager(struct step_time *out, const struct engine *engine)
{
  const double device_s = out->seconds;
  const double ratio = engine->eager_s / device_s;
  if (engine->eager_s <= 0)
    return;
  out->seconds = device_s * pow(1 + ratio * ratio * ratio * ratio, 0.25);
  out->eager_s = out->seconds - device_s;
  out->bound_s[BOUND_LAUNCH_OVERHEAD] += out->eager_s;
}

size_t step_layer_operators(struct op ops[OPERATORS_LAYER_MAX], const struct engine *engine, unsigned kind,
                            const struct step_shape *shape)
{
  const struct layer *layer = &engine->model->layers[kind];
  size_t n = operators_of_layer(ops, engine->model, layer, &engine->precision, &engine->layout, shape);
  if (engine->adapters.count != 0 && adapters_operator(&ops[n], &engine->adapters, ops, n, shape, &engine->device))
    n++;
  return n;
}

void step_time(struct step_time *out, const struct engine *engine, const struct step_shape *shape, double batch)
{
  const struct model *model = engine->model;
  struct op ops[OPERATORS_LAYER_MAX];
  size_t n;
  memset(out, 0, sizeof *out);
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    n = step_layer_operators(ops, engine, kind, shape);
    add_operators(out, engine, ops, n, engine->layers_of_kind[kind]);
  }
  n = operators_of_head(ops, model, &engine->precision, &engine->layout, shape);
  add_operators(out, engine, ops, n, 1);
  add_fixed(out, engine, batch);
  for (int bound = 0; bound < BOUND_COUNT; bound++)
    out->seconds += out->bound_s[bound];
  add_eager(out, engine);
}

/* Sequences of one attention rank in one step: pipeline stages work on their own part of the batch, but never on less than
   a whole sequence: where there are fewer than stages, some stand still. STEPMODEL §1.3. */
static double rank_sequences(const struct engine *engine, double batch)
{
  const double rank = batch / engine->layout.attention_data_parallel;
  return fmax(rank / engine->layout.pipeline_parallel, fmin(1, rank));
}

struct step_shape step_decode_shape(const struct engine *engine, double batch, double context_tokens)
{
  const struct step_shape shape = {.decode_sequences = rank_sequences(engine, batch),
                                   .draft_tokens = engine->drafter.draft_tokens,
                                   .decode_context_tokens = context_tokens};
  return shape;
}

void step_decode(struct step_time *out, const struct engine *engine, double batch, double context_tokens)
{
  const struct step_shape shape = step_decode_shape(engine, batch, context_tokens);
  step_time(out, engine, &shape, batch);
  if (engine->drafter.draft_tokens != 0)
    speculative_add_drafts(out, engine, &shape);
}

void step_chunk(struct step_time *out, const struct engine *engine, const struct step_shape *shape, double batch)
{
  step_time(out, engine, shape, batch);
  if (engine->drafter.draft_tokens != 0)
    speculative_add_chunk(out, engine, shape);
}

static void accumulate(struct step_time *sum, const struct step_time *part)
{
  sum->seconds += part->seconds;
  for (int bound = 0; bound < BOUND_COUNT; bound++)
    sum->bound_s[bound] += part->bound_s[bound];
  for (int group = 0; group < OPERATOR_GROUP_COUNT; group++)
    sum->group_s[group] += part->group_s[group];
  sum->floors_s += part->floors_s;
  sum->layers_s += part->layers_s;
  sum->sequences_s += part->sequences_s;
  sum->fixed_s += part->fixed_s;
  sum->eager_s += part->eager_s;
  sum->draft_s += part->draft_s;
  sum->capped_s += part->capped_s;
  sum->flops_s += part->flops_s;
  sum->weight_bytes += part->weight_bytes;
  sum->kv_bytes += part->kv_bytes;
  sum->activation_bytes += part->activation_bytes;
}

/* Whole prompts go in one step when the engine does not chunk. */
static double chunk_tokens(const struct engine *engine, double prompt_tokens)
{
  return engine->preset.has_chunked_prefill ? fmin(prompt_tokens, engine->preset.max_batched_tokens) : prompt_tokens;
}

unsigned step_prompt_chunks(const struct engine *engine, double prompt_tokens)
{
  return prompt_tokens > 0 ? (unsigned)ceil(prompt_tokens / chunk_tokens(engine, prompt_tokens)) : 0;
}

struct step_shape step_chunk_shape(const struct engine *engine, double prompt_tokens, double past_tokens,
                                   unsigned index)
{
  const double chunk = chunk_tokens(engine, prompt_tokens);
  const struct step_shape shape = {.prefill_tokens = fmin(chunk, prompt_tokens - index * chunk),
                                   .prefill_past_tokens = past_tokens + index * chunk,
                                   .prefill_sequences = 1};
  return shape;
}

double step_prompt_host_s(const struct engine *engine, double chunks)
{
  double layer_us = engine->constants.prefill_layer_us;
  if (engine->preset.memory_rule == MEMORY_RULE_TENSORRT)
    layer_us = engine->constants.prefill_layer_trt_us;
  else if (engine->preset.memory_rule == MEMORY_RULE_SGLANG)
    layer_us = engine->preset.has_prefill_graphs ? engine->constants.prefill_layer_sglang_graph_us
                                                 : engine->constants.prefill_layer_sglang_us;
  return engine->preset.has_compiled_prefill ? 0 : layer_us * US * engine->model->layer_count * chunks;
}

double step_prompt_host_stalled_s(const struct engine *engine, double chunks)
{
  if (engine->preset.is_old_engine || engine->preset.is_eager)
    return 0; /* every step of theirs pays the host */
  return engine->constants.scale_prefill_host * step_prompt_host_s(engine, chunks);
}

double step_server_s(const struct engine *engine, double prompt_tokens)
{
  const double token_us = engine->preset.has_compiled_prefill ? 0 : engine->constants.prefill_token_us;
  return engine->preset.server_constant_s + token_us * US * prompt_tokens;
}

double step_prompt_stall_s(const struct engine *engine, double added_s, double chunks, double prompt_tokens,
                           double batch, double output_tokens)
{
  const double due = batch / output_tokens; /* prompts a step, in the mean */
  const double fitting = engine->preset.max_batched_tokens / prompt_tokens;
  return added_s + step_prompt_host_stalled_s(engine, chunks) / fmax(1, fmin(due, fitting));
}

/* Groups of tokens are larger in prefill than in the decode steps that scale_experts was found on. */
static double prefill_experts_s(const struct engine *engine, const struct step_time *step)
{
  return (engine->constants.scale_prefill_experts - 1) * step->group_s[OPERATOR_EXPERTS];
}

double step_prompt_parts(const struct engine *engine)
{
  return (double)engine->layout.attention_data_parallel * engine->layout.pipeline_parallel;
}

double step_prompts_added_s(const struct engine *engine, const struct step_time *decode, double prompts,
                            double prompt_tokens, double past_tokens, double batch, double context_tokens)
{
  const unsigned chunks = step_prompt_chunks(engine, prompt_tokens);
  const double parts = step_prompt_parts(engine);
  double added_s = 0;
  struct step_time step;
  for (unsigned i = 0; i < chunks; i++) {
    struct step_shape shape = step_chunk_shape(engine, prompt_tokens, past_tokens, i);
    shape.prefill_tokens *= prompts;
    shape.prefill_sequences = prompts;
    shape.decode_sequences = rank_sequences(engine, batch);
    shape.draft_tokens = engine->drafter.draft_tokens;
    shape.decode_context_tokens = context_tokens;
    step_chunk(&step, engine, &shape, batch);
    added_s += fmax(0, step.seconds + prefill_experts_s(engine, &step) -
                           (decode->seconds - decode->draft_s + prefill_experts_s(engine, decode))) /
               parts;
  }
  return engine->constants.scale_prefill * added_s;
}

double step_prompt_added_s(const struct engine *engine, const struct step_time *decode, double prompt_tokens,
                           double past_tokens, double batch, double context_tokens)
{
  return step_prompts_added_s(engine, decode, 1, prompt_tokens, past_tokens, batch, context_tokens);
}

double step_prompts_at_once(const struct engine *engine, double prompt_tokens)
{
  return fmax(1, floor(engine->preset.max_batched_tokens / prompt_tokens));
}

double step_prompt_packed_s(const struct engine *engine, double prompt_tokens, double past_tokens)
{
  const unsigned chunks = step_prompt_chunks(engine, prompt_tokens);
  const double together = chunks > 1 ? 1 : step_prompts_at_once(engine, prompt_tokens);
  double seconds = 0;
  struct step_time step;
  for (unsigned i = 0; i < chunks; i++) {
    struct step_shape shape = step_chunk_shape(engine, prompt_tokens, past_tokens, i);
    shape.prefill_tokens *= together;
    shape.prefill_sequences = together;
    step_chunk(&step, engine, &shape, together);
    seconds += (step.seconds + prefill_experts_s(engine, &step)) / together;
  }
  return engine->constants.scale_prefill * seconds / step_prompt_parts(engine);
}

void step_prompt(struct prompt_time *out, const struct engine *engine, double prompt_tokens, double past_tokens,
                 double batch, double context_tokens)
{
  struct step_time decode, step;
  memset(out, 0, sizeof *out);
  step_decode(&decode, engine, batch, context_tokens);
  out->added_s = step_prompt_added_s(engine, &decode, prompt_tokens, past_tokens, batch, context_tokens);
  out->chunks = step_prompt_chunks(engine, prompt_tokens);
  for (unsigned i = 0; i < out->chunks; i++) {
    const struct step_shape shape = step_chunk_shape(engine, prompt_tokens, past_tokens, i);
    step_chunk(&step, engine, &shape, 1);
    accumulate(&out->profile, &step);
  }
  out->alone_s = out->profile.seconds;
}
