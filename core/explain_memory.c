/* The memory sum by module. A module's bytes are what the stage's weights lose when it is taken out of the model, so they
   hold replication, padding and the allocator's rounding, and add up whatever the sum is made of. */
#include "core/explain_int.h"

#include "core/units.h"

#include <math.h>

/* ---- modules taken out, one after the other ---- */

static void each_layer(struct model *model, void (*change)(struct layer *layer))
{
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    change(&model->layers[kind]);
}

static void without_routed(struct layer *layer)
{
  struct feed_forward *feed_forward = &layer->feed_forward;
  if (feed_forward->kind != FEED_FORWARD_MOE)
    return;
  feed_forward->experts = 0;
  feed_forward->intermediate_size = 0;
  feed_forward->latent_size = 0;
  feed_forward->has_router_bias = false;
}

static void without_feed_forward(struct layer *layer)
{
  layer->feed_forward.kind = FEED_FORWARD_NONE;
}

static void without_attention(struct layer *layer)
{
  layer->attention.kind = ATTENTION_NONE;
}

static void without_norms(struct layer *layer)
{
  layer->norm_parameters = 0;
  layer->other_parameters = 0;
}

static void take_routed(struct model *model)
{
  each_layer(model, without_routed);
}

static void take_feed_forward(struct model *model)
{
  each_layer(model, without_feed_forward);
}

static void take_attention(struct model *model)
{
  each_layer(model, without_attention);
}

static void take_norms(struct model *model)
{
  each_layer(model, without_norms);
}

static void take_vocabulary(struct model *model)
{
  model->vocab_size = 0;
}

static void take_vision(struct model *model)
{
  model->vision_parameters = 0;
}

enum module { MODULE_ROUTED, MODULE_DENSE, MODULE_ATTENTION, MODULE_NORMS, MODULE_VOCABULARY, MODULE_VISION };
static const struct {
  const char *name;
  void (*take)(struct model *model);
} modules[] = {
    [MODULE_ROUTED] = {"routed experts and routers", take_routed},
    [MODULE_DENSE] = {"dense feed-forward and shared experts", take_feed_forward},
    [MODULE_ATTENTION] = {"attention and rotary table", take_attention},
    [MODULE_NORMS] = {"norms and other parameters of layers", take_norms},
    [MODULE_VOCABULARY] = {"embedding and lm_head", take_vocabulary},
    [MODULE_VISION] = {"vision tower", take_vision},
};
#define MODULES (sizeof modules / sizeof modules[0])

/* ---- terms ---- */

struct terms {
  struct explanation *out;
  const struct preset *preset;
  struct arena *arena;
  bool is_failed;
};

static void add(struct terms *terms, const char *part, const char *name, double bytes, const char *formula)
{
  terms->is_failed = terms->is_failed || formula == NULL;
  terms->out->memory[terms->out->memory_count++] = (struct explain_memory){part, name, bytes, formula};
}

static const char *matrices(const struct terms *terms, uint64_t parameters, enum precision precision)
{
  return arena_printf(terms->arena,
                      "%.6g parameters in %s (%.4g B) over tensor parallel %u, stage %u of %u; what does not split is "
                      "whole on each rank, every tensor rounded up by the allocator",
                      (double)parameters, precision_name(precision),
                      model_bytes_per_weight(terms->out->input.model, precision), terms->out->layout.tensor_parallel,
                      terms->out->stage + 1, terms->out->layout.pipeline_parallel);
}

static const char *module_formula(const struct terms *terms, enum module module, const struct parameter_counts *counts)
{
  const struct model_precision *precision = &terms->out->input.precision;
  switch (module) {
  case MODULE_ROUTED: return matrices(terms, counts->experts + counts->router, precision->experts);
  case MODULE_DENSE: return matrices(terms, counts->dense, precision->dense);
  case MODULE_ATTENTION: return matrices(terms, counts->attention, precision->attention);
  case MODULE_NORMS: return matrices(terms, counts->norms, precision->embeddings);
  case MODULE_VOCABULARY: return matrices(terms, counts->embeddings + counts->head, precision->embeddings);
  case MODULE_VISION: return matrices(terms, terms->out->input.model->vision_parameters, precision->embeddings);
  }
  return "";
}

static double weights_bytes(const struct terms *terms, const struct model *model)
{
  const struct search_input *input = &terms->out->input;
  const struct memory_case c = {.model = model,
                                .hardware = input->hardware,
                                .layout = &terms->out->layout,
                                .precision = &input->precision,
                                .preset = terms->preset};
  struct memory_plan plan;
  memory_plan_stage(&plan, &c, terms->out->stage);
  return plan.weights_bytes;
}

static void add_weights(struct terms *terms, struct model *model)
{
  const struct model *whole = terms->out->input.model;
  const struct parameter_counts counts = model_parameters(whole);
  double left = terms->out->plan.weights_bytes;
  double before = weights_bytes(terms, whole);
  *model = *whole;
  for (size_t i = 0; i < MODULES; i++) {
    double after;
    modules[i].take(model);
    after = weights_bytes(terms, model);
    left -= before - after;
    if (before > after)
      add(terms, "weights", modules[i].name, before - after, module_formula(terms, (enum module)i, &counts));
    before = after;
  }
  add(terms, "weights", "final norm and what is outside of layers", left,
      "what the modules above leave of the weights");
}

static void add_activations(struct terms *terms)
{
  const struct preset *preset = terms->preset;
  const double bytes = terms->out->plan.activations_bytes;
  if (preset->memory_rule == MEMORY_RULE_SGLANG)
    add(terms, "activations", "activation peak", bytes, "lives in what memory_fraction holds back");
  else
    add(terms, "activations", "activation peak", bytes,
        arena_printf(terms->arena,
                     "the engine's profile run: the larger of one layer's forward pass over %u tokens and the sampler "
                     "of %u sequences (%.4g copies of fp32 logits), and the workspaces of routed experts",
                     preset->max_batched_tokens, preset->max_batch, preset->sampler_multiple));
}

static void add_runtime(struct terms *terms)
{
  const struct memory_plan *plan = &terms->out->plan;
  const unsigned ranks = terms->out->layout.tensor_parallel * terms->out->layout.attention_data_parallel;
  const bool has_graphs =
      terms->preset->memory.has_graphs_in_budget && plan->graphs_bytes > 0 && plan->graphs_bytes <= plan->runtime_bytes;
  const double graphs = has_graphs ? plan->graphs_bytes : 0;
  add(terms, "runtime", "outside of the framework's allocator", plan->runtime_bytes - graphs,
      arena_printf(terms->arena, "median of %s start-up logs with %u ranks: context and collective buffers",
                   terms->preset->runtime, ranks));
  if (has_graphs)
    add(terms, "runtime", "CUDA graphs", graphs, "the engine's own estimate for the sizes it captures");
}

/* The share that the engine was told to use, from the plan that it led to. */
static double fraction_of(const struct memory_plan *plan, enum memory_rule rule)
{
  switch (rule) {
  case MEMORY_RULE_VLLM:
  case MEMORY_RULE_LLAMA_CPP: return plan->usable_bytes / plan->total_bytes;
  case MEMORY_RULE_SGLANG:
    return (plan->kv_cache_bytes + plan->weights_bytes) / (plan->total_bytes - plan->runtime_bytes);
  case MEMORY_RULE_TENSORRT:
    return plan->kv_cache_bytes /
           (plan->total_bytes - plan->weights_bytes - plan->activations_bytes - plan->runtime_bytes);
  }
  return (double)NAN;
}

static const char *pool_formula(enum memory_rule rule)
{
  switch (rule) {
  case MEMORY_RULE_VLLM:
  case MEMORY_RULE_LLAMA_CPP: return "memory_fraction × total - weights - activations - runtime";
  case MEMORY_RULE_SGLANG: return "memory_fraction × (total - runtime) - weights";
  case MEMORY_RULE_TENSORRT: return "memory_fraction × (total - weights - activations - runtime)";
  }
  return NULL;
}

/* The scorecard shows an empty pool where the rest exceeds the budget; the sum shows by how much. */
static void add_pool(struct terms *terms)
{
  add(terms, "kv_cache", "KV cache pool", terms->out->plan.kv_cache_bytes, pool_formula(terms->preset->memory_rule));
}

/* The stage whose plan this is: the one whose pool holds the fewest tokens. */
static unsigned stage_of(const struct terms *terms)
{
  const struct search_input *input = &terms->out->input;
  const struct memory_plan *seen = &terms->out->plan;
  const struct memory_case c = {.model = input->model,
                                .hardware = input->hardware,
                                .layout = &terms->out->layout,
                                .precision = &input->precision,
                                .preset = terms->preset};
  for (unsigned i = 0; i < terms->out->layout.pipeline_parallel; i++) {
    struct memory_plan plan;
    memory_plan_stage(&plan, &c, i);
    if (fabs(plan.weights_bytes - seen->weights_bytes) <= 0 && fabs(plan.kv_cache_bytes - seen->kv_cache_bytes) <= 0)
      return i;
  }
  return 0;
}

enum err explain_memory(struct explanation *out, const struct preset *preset, struct arena *arena, struct error *e)
{
  struct terms terms = {out, preset, arena, false};
  struct model *model = arena_alloc(arena, 1, sizeof *model);
  const struct search_input *input = &out->input;
  if (model == NULL)
    return error_set(e, ERR_LIMIT, "", "the explanation needs more memory than allowed");
  out->stage = stage_of(&terms);
  out->memory_fraction_ratio = fraction_of(&out->plan, preset->memory_rule);
  const double session_tokens = input->cached_tokens + input->prompt_tokens + input->output_tokens;
  out->session_bytes =
      out->has_candidate ? steady_sequence_bytes(&out->candidate.engine, session_tokens)
                         : memory_sequence_bytes(input->model, &out->layout, &input->precision, preset, session_tokens);
  add_weights(&terms, model);
  add_activations(&terms);
  add_runtime(&terms);
  add_pool(&terms);
  return terms.is_failed ? error_set(e, ERR_LIMIT, "", "the explanation needs more memory than allowed") : ERR_OK;
}
