/* Phases taken apart: every operator of every step, summed over equal ones, and the costs beside them. */
#include "core/explain.h"

#include "core/explain_int.h"
#include "core/fit_int.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static enum err out_of_memory(struct error *e)
{
  return error_set(e, ERR_LIMIT, "", "the explanation needs more memory than allowed");
}

/* ---- operators ---- */

/* A phase being taken apart. */
struct breakdown {
  struct explain_phase *phase;
  const struct engine *engine;
  struct device full_clock; /* the engine's device without a power cap */
  size_t most;              /* rows that there is room for */
};

/* The same work at full clock with FLOPs alone, bytes alone, or neither: the legs of its roofline, whatever its form. */
static double leg_s(const struct breakdown *b, const struct op *op, bool has_flops, bool has_bytes)
{
  struct op part = *op;
  if (!has_flops)
    part.flops = 0;
  if (!has_bytes)
    part.weight_bytes = part.kv_bytes = part.activation_bytes = part.rows = 0;
  timing_apply(&part, &b->full_clock);
  return part.work_s;
}

static bool is_same(const struct explain_operator *row, const struct op *op, unsigned kind)
{
  return row->layer_kind == kind && row->op.form == op->form && row->op.bound == op->bound &&
         row->op.precision == op->precision && row->op.devices == op->devices &&
         fabs(row->op.inputs - op->inputs) <= 0 && fabs(row->op.outputs - op->outputs) <= 0 &&
         strcmp(row->op.name, op->name) == 0;
}

/* What differs between executions starts at nothing and is summed; the rest is the operator's own. */
static struct explain_operator *new_row(const struct breakdown *b, const struct op *op, unsigned kind, double layers)
{
  const struct step_constants *constants = &b->engine->constants;
  struct explain_phase *phase = b->phase;
  struct explain_operator *row;
  assert(phase->operators != NULL && phase->operator_count < b->most);
  row = &phase->operators[phase->operator_count++];
  row->op = *op;
  row->op.rows = row->op.sequences = row->op.tokens_per_sequence = row->op.token_experts = row->op.experts_hit = 0;
  row->op.flops = row->op.weight_bytes = row->op.kv_bytes = row->op.activation_bytes = row->op.wire_bytes = 0;
  row->op.work_s = row->op.floor_s = row->op.capped_s = 0;
  row->layer_kind = kind;
  row->layers = layers;
  row->scale = step_scale(op->group, constants);
  row->floor_scale = step_floor_scale(op->group, constants);
  return row;
}

static void sum_execution(struct explain_operator *row, const struct breakdown *b, const struct op *op, double count)
{
  row->count += count;
  row->op.rows += count * op->rows;
  row->op.sequences += count * op->sequences;
  row->op.tokens_per_sequence += count * op->tokens_per_sequence;
  row->op.token_experts += count * op->token_experts;
  row->op.experts_hit += count * op->experts_hit;
  row->op.flops += count * op->flops;
  row->op.weight_bytes += count * op->weight_bytes;
  row->op.kv_bytes += count * op->kv_bytes;
  row->op.activation_bytes += count * op->activation_bytes;
  row->op.wire_bytes += count * op->wire_bytes;
  row->op.is_at_datasheet = row->op.is_at_datasheet || op->is_at_datasheet;
  row->op.work_s += count * op->work_s;
  row->op.floor_s += count * op->floor_s;
  row->op.capped_s += count * op->capped_s;
  row->overhead_s += count * leg_s(b, op, false, false);
  row->compute_s += count * leg_s(b, op, true, false);
  row->memory_s += count * leg_s(b, op, false, true);
}

static void mean_of(struct explain_operator *row)
{
  double *const sums[] = {&row->op.rows,          &row->op.sequences,   &row->op.tokens_per_sequence,
                          &row->op.token_experts, &row->op.experts_hit, &row->op.flops,
                          &row->op.weight_bytes,  &row->op.kv_bytes,    &row->op.activation_bytes,
                          &row->op.wire_bytes,    &row->op.work_s,      &row->op.floor_s,
                          &row->op.capped_s,      &row->overhead_s,     &row->compute_s,
                          &row->memory_s};
  row->scaled_s = row->scale * row->op.work_s + row->floor_scale * row->op.floor_s;
  for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
    *sums[i] /= row->count;
}

static void add_operators(struct breakdown *b, struct op *ops, size_t n, unsigned kind, double layers)
{
  struct explain_phase *phase = b->phase;
  for (size_t i = 0; i < n; i++) {
    struct explain_operator *row = NULL;
    step_operator(&ops[i], b->engine);
    for (size_t k = 0; k < phase->operator_count && row == NULL; k++)
      if (is_same(&phase->operators[k], &ops[i], kind))
        row = &phase->operators[k];
    if (row == NULL)
      row = new_row(b, &ops[i], kind, layers);
    sum_execution(row, b, &ops[i], layers);
  }
}

static void add_step(struct breakdown *b, const struct step_shape *shape)
{
  const struct engine *engine = b->engine;
  const struct model *model = engine->model;
  struct op ops[OPERATORS_LAYER_MAX];
  size_t n;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    n = step_layer_operators(ops, engine, kind, shape);
    add_operators(b, ops, n, kind, engine->layers_of_kind[kind]);
  }
  n = operators_of_head(ops, model, &engine->precision, &engine->layout, shape);
  add_operators(b, ops, n, model->layer_kind_count, 1);
}

/* An operator has at most one row for each thing it can wait for: compute, memory, interconnect. */
static bool begin(struct breakdown *b, struct explain_phase *phase, const struct engine *engine, struct arena *arena)
{
  const size_t most = 3 * ((size_t)engine->model->layer_kind_count * OPERATORS_LAYER_MAX + OPERATORS_HEAD_MAX);
  *b = (struct breakdown){.phase = phase, .engine = engine, .full_clock = engine->device, .most = most};
  b->full_clock.power.cap_ratio = 1;
  phase->operators = arena_alloc(arena, most, sizeof *phase->operators);
  return phase->operators != NULL;
}

/* ---- costs beside operators ---- */

static void add_fixed(struct explain_phase *phase, const char *name, const char *constant, double constant_us,
                      double times)
{
  if (times > 0)
    phase->fixed[phase->fixed_count++] =
        (struct explain_fixed){name, constant, constant_us, times, constant_us * US * times};
}

static double layers_with(const struct engine *engine, bool (*has)(const struct layer *layer))
{
  double count = 0;
  for (unsigned kind = 0; kind < engine->model->layer_kind_count; kind++)
    if (has(&engine->model->layers[kind]))
      count += engine->layers_of_kind[kind];
  return count;
}

static bool has_experts(const struct layer *layer)
{
  return layer->feed_forward.kind == FEED_FORWARD_MOE;
}

static bool has_indexer(const struct layer *layer)
{
  return layer->attention.index_top_k != 0;
}

static void add_host(struct explain_phase *phase, const struct engine *engine)
{
  const double layers = engine->model->layer_count;
  const double layer_us = engine->eager_s / layers / US;
  const bool is_ampere =
      fabs(layer_us - engine->constants.eager_ampere_us) < fabs(layer_us - engine->constants.eager_us);
  if (engine->eager_s <= 0)
    return;
  add_fixed(phase, "host launches every kernel (no graphs), beyond what the device hides",
            is_ampere ? "eager_ampere_us" : "eager_us", layer_us, layers * phase->chunks);
  phase->fixed[phase->fixed_count - 1].seconds = phase->time.eager_s;
}

/* What a draft model does in the same steps, as one sum. */
static void add_draft(struct explain_phase *phase, const struct engine *engine)
{
  const double times = fmax(phase->chunks, engine->drafter.draft_tokens);
  if (phase->time.draft_s > 0)
    add_fixed(phase, "draft model", "core/speculative.c", phase->time.draft_s / times / US, times);
}

static void add_costs(struct explain_phase *phase, const struct engine *engine, double batch)
{
  const struct step_constants *constants = &engine->constants;
  const bool is_old = engine->preset.is_old_engine;
  const double chunks = phase->chunks;
  add_fixed(phase, "layers", is_old ? "layer_old_us" : "layer_us",
            is_old ? constants->layer_old_us : constants->layer_us, engine->model->layer_count * chunks);
  add_fixed(phase, "expert routing", "experts_layer_us", constants->experts_layer_us,
            layers_with(engine, has_experts) * chunks);
  if (step_quantises_for_experts(engine))
    add_fixed(phase, "expert inputs to 8 bit", "experts_quantise_us", constants->experts_quantise_us,
              layers_with(engine, has_experts) * chunks);
  add_fixed(phase, "sparse attention index", "indexer_layer_us", constants->indexer_layer_us,
            layers_with(engine, has_indexer) * chunks);
  add_fixed(phase, "steps", "step_us", constants->step_us, chunks);
  add_fixed(phase, "sequences", is_old ? "sequence_old_us" : "sequence_us",
            is_old ? constants->sequence_old_us : constants->sequence_us, batch * chunks);
  add_host(phase, engine);
  add_draft(phase, engine);
}

/* ---- phases ---- */

static void finish(struct explain_phase *phase)
{
  for (size_t i = 0; i < phase->operator_count; i++)
    mean_of(&phase->operators[i]);
}

/* A step at the batch that a request sees. */
static bool explain_decode(struct explanation *out, struct arena *arena)
{
  struct explain_phase *phase = &out->decode;
  const struct candidate *candidate = &out->candidate;
  const struct search_input *input = &out->input;
  struct step_shape shape;
  struct breakdown b;
  phase->batch = phase->tokens = candidate->state.view.batch;
  phase->context_tokens = input->cached_tokens + input->prompt_tokens + input->output_tokens / 2;
  phase->chunks = 1;
  phase->time = candidate->state.decode;
  if (!begin(&b, phase, &candidate->engine, arena))
    return false;
  shape = step_decode_shape(&candidate->engine, phase->batch, phase->context_tokens);
  add_step(&b, &shape);
  add_costs(phase, &candidate->engine, phase->batch);
  finish(phase);
  return true;
}

/* The chunks of one prompt with nothing else running. */
static bool explain_prefill(struct explanation *out, struct arena *arena)
{
  struct explain_phase *phase = &out->prefill;
  const struct engine *engine = &out->candidate.engine;
  const double alone = 1;
  struct breakdown b;
  phase->tokens = out->input.prompt_tokens;
  phase->past_tokens = out->input.cached_tokens;
  phase->chunks = out->candidate.state.prompt.chunks;
  phase->time = out->candidate.state.prompt.profile;
  if (!begin(&b, phase, engine, arena))
    return false;
  for (unsigned i = 0; i < phase->chunks; i++) {
    const struct step_shape shape = step_chunk_shape(engine, phase->tokens, phase->past_tokens, i);
    add_step(&b, &shape);
  }
  add_costs(phase, engine, alone);
  finish(phase);
  return true;
}

static enum err explain_cost(struct explanation *out, struct arena *arena, struct error *e)
{
  const struct candidate *best = &out->candidate;
  const double each = best->state.is_saturated ? best->capacity_requests_per_s : best->state.requests_per_s;
  const double all_succeed = 1;
  out->requests_per_s = each * best->replicas * out->input.load_share_ratio; /* the day's mean */
  cost_fleet(&out->cost, &best->price, best->gpus_billed, out->requests_per_s,
             out->requests_per_s * out->input.output_tokens, all_succeed);
  return cost_basis(&out->cost.price_basis, &best->price, arena, e);
}

/* ---- the whole ---- */

/* The sketch with everything given that was searched: evaluating it is evaluating that one configuration. */
void explain_pin(struct workload *to, const struct workload *from, const struct explain_configuration *configuration)
{
  *to = *from;
  if (configuration == NULL)
    return;
  to->serving.tensor_parallel = configuration->tensor_parallel;
  to->serving.pipeline_parallel = configuration->pipeline_parallel;
  to->serving.expert_parallel = configuration->expert_parallel;
  to->serving.attention_data_parallel = configuration->attention_data_parallel;
  to->serving.replicas = configuration->replicas;
  to->serving.max_batch = configuration->max_batch;
}

static enum err take_apart(struct explanation *out, const struct search_result *result, struct arena *arena,
                           struct error *e)
{
  enum err err;
  out->has_candidate = result->has_candidate;
  out->has_memory = result->has_candidate || result->has_tightest;
  if (result->has_candidate) {
    out->candidate = result->best;
    out->layout = result->best.layout;
    out->plan = result->best.memory;
    steady_parts(&out->parts, &out->candidate.engine, &out->candidate.state);
    if ((err = explain_cost(out, arena, e)) != ERR_OK)
      return err;
    if (!explain_prefill(out, arena) || !explain_decode(out, arena))
      return out_of_memory(e);
  } else if (result->has_tightest) {
    out->layout = result->tightest_layout;
    out->plan = result->tightest;
  }
  if (!out->has_memory)
    return ERR_OK;
  return explain_memory(out, result->has_candidate ? &out->candidate.engine.preset : &out->input.preset, arena, e);
}

enum err explain(struct explanation *out, const struct fit_request *request,
                 const struct explain_configuration *configuration, struct arena *arena, struct error *e)
{
  struct workload *pinned = arena_alloc(arena, 1, sizeof *pinned);
  struct search_result *result = arena_alloc(arena, 1, sizeof *result);
  struct fit_request fixed = *request;
  struct notes notes;
  enum err err;
  memset(out, 0, sizeof *out);
  if (pinned == NULL || result == NULL)
    return out_of_memory(e);
  explain_pin(pinned, request->workload, configuration);
  fixed.workload = pinned;
  notes_init(&notes, arena);
  if ((err = fit_resolve(&out->input, &fixed, &notes, arena, e)) != ERR_OK)
    return err;
  if ((err = search_best(result, &out->input, 1, request->stop, request->stop_cls, e)) != ERR_OK)
    return err;
  return take_apart(out, result, arena, e);
}
