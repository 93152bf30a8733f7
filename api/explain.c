/* The explanation as a document: rows with what they are made of, and under each list what it adds up to. */
#include "api/explain.h"

#include <math.h>
#include <string.h>

#include "api/card_table.h"
#include "api/put.h"
#include "api/write.h"
#include "core/units.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static void put_number(json_t **object, const char *name, double value)
{
  put_member(object, name, write_number(value));
}

static void put_text(json_t **object, const char *name, const char *text)
{
  put_member(object, name, write_text(text));
}

struct figure {
  const char *name;
  double value;
};

/* The member itself, null when absent. */
static json_t *shared(const json_t *object, const char *name)
{
  json_t *value = json_object_get(object, name);
  return value != NULL ? json_incref(value) : json_null();
}

static json_t *figures(const struct figure *rows, size_t count)
{
  json_t *object = json_object();
  for (size_t i = 0; i < count; i++)
    put_number(&object, rows[i].name, rows[i].value);
  return object;
}

/* ---- phases ---------------------------------------------------------------------------------------------------------- */

/* Whatever of these the operator has. */
static json_t *shape(const struct op *op)
{
  const struct figure rows[] = {{"rows", op->rows},
                                {"inputs", op->inputs},
                                {"outputs", op->outputs},
                                {"sequences", op->sequences},
                                {"query_heads", op->query_heads},
                                {"head_dim", op->head_dim},
                                {"tokens_per_sequence", op->tokens_per_sequence},
                                {"token_experts", op->token_experts},
                                {"experts_hit", op->experts_hit},
                                {"devices", op->devices},
                                {"stages", op->stages}};
  json_t *object = json_object();
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (rows[i].value > 0)
      put_number(&object, rows[i].name, rows[i].value);
  return object;
}

static json_t *write_operator(const struct explain_operator *row, const struct engine *engine)
{
  const struct op *op = &row->op;
  const struct figure bytes[] = {{"weights", op->weight_bytes},
                                 {"kv", op->kv_bytes},
                                 {"activations", op->activation_bytes},
                                 {"wire", op->wire_bytes}};
  const bool is_head = row->layer_kind == engine->model->layer_kind_count;
  char formula[EXPLAIN_FORMULA_SIZE];
  json_t *object = json_object();
  explain_formula(formula, row, engine);
  put_text(&object, "name", op->name);
  put_text(&object, "group", operator_group_name(op->group));
  put_number(&object, "layer_kind", is_head ? (double)NAN : row->layer_kind);
  put_number(&object, "layers", row->layers);
  put_number(&object, "count", row->count);
  put_member(&object, "shape", shape(op));
  put_text(&object, "precision", op->precision != PRECISION_NONE ? precision_name(op->precision) : NULL);
  put_number(&object, "flops", op->flops);
  put_member(&object, "bytes", figures(bytes, COUNT_OF(bytes)));
  put_number(&object, "time_ms", op->work_s / MS);
  put_number(&object, "floor_ms", op->floor_s / MS);
  put_number(&object, "capped_ms", op->capped_s / MS);
  put_number(&object, "scale", row->scale);
  put_number(&object, "floor_scale", row->floor_scale);
  put_number(&object, "scaled_time_ms", row->scaled_s / MS);
  put_text(&object, "bound", bound_name(op->bound));
  put_text(&object, "formula", formula);
  put_text(&object, "source", explain_source(row));
  return object;
}

static json_t *write_fixed(const struct explain_fixed *row)
{
  json_t *object = json_object();
  put_text(&object, "name", row->name);
  put_text(&object, "constant", row->constant);
  put_number(&object, "constant_us", row->constant_us);
  put_number(&object, "times", row->times);
  put_number(&object, "time_ms", row->seconds / MS);
  return object;
}

static json_t *by_group(const struct explain_phase *phase)
{
  json_t *object = json_object();
  for (int group = 0; group < OPERATOR_GROUP_COUNT; group++) {
    double seconds = 0;
    for (size_t i = 0; i < phase->operator_count; i++)
      if ((int)phase->operators[i].op.group == group)
        seconds += phase->operators[i].scaled_s;
    put_number(&object, operator_group_name((enum operator_group)group), seconds / MS);
  }
  return object;
}

static json_t *by_bound(const struct step_time *time)
{
  json_t *object = json_object();
  for (int bound = 0; bound < BOUND_COUNT; bound++)
    put_number(&object, bound_name((enum bound)bound), time->bound_s[bound] / MS);
  return object;
}

/* The lists and their sums, behind what the phase is of. */
static void put_phase(json_t **object, const struct explain_phase *phase, const struct engine *engine)
{
  json_t *operators = json_array(), *fixed = json_array();
  double operators_s = 0, fixed_s = 0;
  for (size_t i = 0; i < phase->operator_count; i++) {
    operators_s += phase->operators[i].scaled_s;
    put_element(&operators, write_operator(&phase->operators[i], engine));
  }
  for (size_t i = 0; i < phase->fixed_count; i++) {
    fixed_s += phase->fixed[i].seconds;
    put_element(&fixed, write_fixed(&phase->fixed[i]));
  }
  put_member(object, "operators", operators);
  put_member(object, "fixed_costs", fixed);
  put_number(object, "operators_ms", operators_s / MS);
  put_number(object, "fixed_ms", fixed_s / MS);
  put_number(object, "time_ms", phase->time.seconds / MS);
  put_member(object, "by_group_ms", by_group(phase));
  put_member(object, "by_bound_ms", by_bound(&phase->time));
}

static json_t *write_prefill(const struct explanation *x)
{
  json_t *object = json_object();
  put_number(&object, "tokens", x->prefill.tokens);
  put_number(&object, "cached_tokens", x->prefill.past_tokens);
  put_number(&object, "chunks", x->prefill.chunks);
  put_text(&object, "formula",
           "one prompt alone: sum of count × (scale × time + floor_scale × floor) over operators, and the fixed costs; "
           "figures of an operator are those of one execution on one device, the mean where chunks differ; "
           "capped_ms is the part of time_ms that a power cap adds");
  put_phase(&object, &x->prefill, &x->candidate.engine);
  return object;
}

static json_t *write_decode(const struct explanation *x)
{
  json_t *object = json_object();
  put_number(&object, "batch", x->decode.batch);
  put_number(&object, "context_tokens", x->decode.context_tokens);
  put_text(&object, "formula",
           "one step at the batch that a request sees: sum of count × (scale × time + floor_scale × floor) over "
           "operators, and the fixed costs; bytes of one device, all pipeline stages");
  put_phase(&object, &x->decode, &x->candidate.engine);
  return object;
}

static const char *feed_forward_name(const struct feed_forward *feed_forward)
{
  switch (feed_forward->kind) {
  case FEED_FORWARD_DENSE: return "dense";
  case FEED_FORWARD_MOE: return "experts";
  case FEED_FORWARD_NONE: break;
  }
  return "none";
}

static json_t *layer_kinds(const struct model *model)
{
  json_t *array = json_array();
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct layer *layer = &model->layers[kind];
    json_t *object = json_object();
    put_number(&object, "layers", model_layers_of_kind(model, kind));
    put_text(&object, "attention", attention_name(&layer->attention));
    put_number(&object, "window_tokens",
               layer->attention.window_tokens != 0 ? layer->attention.window_tokens : (double)NAN);
    put_text(&object, "feed_forward", feed_forward_name(&layer->feed_forward));
    put_element(&array, object);
  }
  return array;
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static const char *memory_source(const char *part)
{
  static const char *const sources[][2] = {{"weights", "core/memory_weights.c"},
                                           {"activations", "core/memory_activations.c"},
                                           {"runtime", "core/memory_activations.c, core/preset.c"},
                                           {"kv_cache", "core/memory.c"}};
  for (size_t i = 0; i < COUNT_OF(sources); i++)
    if (strcmp(sources[i][0], part) == 0)
      return sources[i][1];
  return NULL;
}

static json_t *memory_terms(const struct explanation *x)
{
  json_t *array = json_array();
  for (size_t i = 0; i < x->memory_count; i++) {
    const struct explain_memory *term = &x->memory[i];
    json_t *object = json_object();
    put_text(&object, "part", term->part);
    put_text(&object, "name", term->name);
    put_number(&object, "gib", term->bytes / GIB);
    put_text(&object, "formula", term->formula);
    put_text(&object, "source", memory_source(term->part));
    put_element(&array, object);
  }
  return array;
}

static json_t *memory_layout(const struct explanation *x)
{
  const struct figure rows[] = {{"tensor_parallel", x->layout.tensor_parallel},
                                {"pipeline_parallel", x->layout.pipeline_parallel},
                                {"expert_parallel", x->layout.expert_parallel},
                                {"attention_data_parallel", x->layout.attention_data_parallel},
                                {"stage", x->stage + 1}};
  return figures(rows, COUNT_OF(rows));
}

/* Of one GPU of the stage whose pool holds least. */
static json_t *write_memory(const struct explanation *x)
{
  const struct memory_plan *plan = &x->plan;
  const struct figure sums[] = {{"weights_gib", plan->weights_bytes / GIB},
                                {"activations_gib", plan->activations_bytes / GIB},
                                {"runtime_gib", plan->runtime_bytes / GIB},
                                {"kv_cache_gib", plan->kv_cache_bytes / GIB}};
  const struct figure sequence[] = {
      {"bytes_per_token", plan->kv_growing_per_token_bytes},
      {"gib_per_session", x->session_bytes / GIB},
      {"session_tokens", x->input.cached_tokens + x->input.prompt_tokens + x->input.output_tokens}};
  json_t *object = json_object(), *kv = figures(sequence, COUNT_OF(sequence));
  put_text(&kv, "formula",
           "blocks of one request on one GPU; max_concurrent_sessions = floor(kv_cache_gib / gib_per_session) × "
           "attention_data_parallel; the scorecard's bytes are those of all GPUs of the replica");
  put_member(&object, "layout", memory_layout(x));
  put_number(&object, "total_gib", plan->total_bytes / GIB);
  put_number(&object, "memory_fraction", x->memory_fraction_ratio);
  put_number(&object, "usable_gib", plan->usable_bytes / GIB);
  put_member(&object, "sums", figures(sums, COUNT_OF(sums)));
  put_member(&object, "terms", memory_terms(x));
  put_member(&object, "kv_sequence", kv);
  return object;
}

/* ---- latency and cost ------------------------------------------------------------------------------------------------ */

static json_t *named(const char *name, const char *unit_name, double value, const char *formula)
{
  json_t *object = json_object();
  put_text(&object, "name", name);
  put_number(&object, unit_name, value);
  put_text(&object, "formula", formula);
  return object;
}

static json_t *first_token(const struct explanation *x)
{
  const struct steady_parts *parts = &x->parts;
  const struct {
    const char *name;
    double seconds;
    const char *formula;
  } rows[] = {
      {"server", parts->server_s, "parsing, tokenising, streaming: the runtime's constant"},
      {"slot_wait", parts->slot_wait_s, "for one of max_batch places: M/D/c of the load, or users beyond the batch"},
      {"step_wait", parts->step_wait_s, "busy × steps_waited × itl: rest of the running step and scheduler look-ahead"},
      {"prompt_wait", parts->prompt_wait_s,
       "load / (2 (1 - load^n)) × prompt, load = prefill_load, n prompts in a step: those before it"},
      {"prefill", parts->prefill_s,
       "its chunks beside running decodes, or alone (prefill.time_ms), by how often the engine is busy"},
      {"host", parts->host_s, "prefill_layer constant × layers × chunks: no graphs are captured for prompts"},
      {"transfer", parts->transfer_s, "KV cache of the prompt to a decode replica: disaggregated pools only"},
  };
  json_t *array = json_array();
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    put_element(&array, named(rows[i].name, "ms", rows[i].seconds / MS, rows[i].formula));
  return array;
}

/* Depth full: the scorecard's latency, load and success come from a simulation of the same engine. */
static bool is_simulated(const json_t *card)
{
  return json_is_number(card_at(card, "success.rate"));
}

static const char *latency_note(const struct explanation *x, const json_t *card)
{
  if (is_simulated(card))
    return "means of steady load in closed form; the scorecard's latency is of requests simulated one by one";
  return x->candidate.state.is_saturated ? "the queue grows without end: figures are those just below saturation"
                                         : NULL;
}

static json_t *write_latency(const struct explanation *x, const json_t *card)
{
  const struct steady_state *state = &x->candidate.state;
  const struct figure inputs[] = {{"busy", state->view.busy_ratio},
                                  {"steps_waited", x->parts.steps_waited},
                                  {"prefill_load", x->parts.prefill_load_ratio},
                                  {"prompt_added_ms", state->prompt.added_s / MS},
                                  {"decode_step_ms", state->decode.seconds / MS},
                                  {"tokens_per_step", x->candidate.engine.drafter.tokens_per_step},
                                  {"output_tokens", x->input.output_tokens},
                                  {"median_output_tokens", x->input.median_output_tokens}};
  json_t *object = json_object();
  put_member(&object, "is_saturated", json_boolean(state->is_saturated));
  put_text(&object, "note", latency_note(x, card));
  put_member(&object, "inputs", figures(inputs, COUNT_OF(inputs)));
  put_member(&object, "ttft_parts", first_token(x));
  put_member(&object, "ttft_ms", named("ttft", "ms", state->ttft_s / MS, "sum of ttft_parts"));
  put_member(&object, "queue_ms", named("queue", "ms", state->queue_s / MS, "the three waits of ttft_parts"));
  put_member(&object, "itl_ms",
             named("itl", "ms", search_gap_s(&x->input, state->itl_s) / MS, "decode_step / (1 - prefill_load)"));
  put_member(
      &object, "e2e_ms",
      named("e2e", "ms", x->candidate.e2e_median_s / MS, "ttft + (median_output_tokens - 1) × itl / tokens_per_step"));
  return object;
}

static json_t *cost_items(const struct scorecard_cost *cost)
{
  json_t *array = json_array();
  put_element(&array, named("per_attempted_request_usd", "usd", cost->per_attempted_request_usd,
                            "usd_per_hour / 3600 / requests_per_s"));
  put_element(&array, named("per_successful_request_usd", "usd", cost->per_successful_request_usd,
                            "usd_per_hour / 3600 / (requests_per_s × success_rate)"));
  put_element(&array, named("per_million_output_tokens_usd", "usd", cost->per_million_output_tokens_usd,
                            "usd_per_hour / 3600 / output_tokens_per_s × 1e6"));
  put_element(&array, named("monthly_usd", "usd", cost->monthly_usd, "usd_per_hour × 730"));
  return array;
}

static json_t *cost_shares(const struct candidate *candidate)
{
  const double busy = candidate->busy_ratio;
  const struct figure rows[] = {{"idle", 1 - busy},
                                {"prefill", busy * candidate->state.prefill_share_ratio},
                                {"decode", busy * candidate->state.decode_share_ratio}};
  return figures(rows, COUNT_OF(rows));
}

/* What the bill is divided by. */
struct yield {
  double requests_per_s, output_tok_s, success_ratio;
};

/* The scorecard's own where they are simulated: what users send is more than what is answered. */
static struct yield yield_of(const struct explanation *x, const json_t *card)
{
  const double lost = json_number_value(card_at(card, "success.shed")) +
                      json_number_value(card_at(card, "success.timed_out")) +
                      json_number_value(card_at(card, "success.rejected"));
  if (!is_simulated(card) && !x->candidate.state.is_saturated)
    return (struct yield){x->requests_per_s, x->requests_per_s * x->input.output_tokens, 1};
  const double share = x->input.load_share_ratio;
  return (struct yield){json_number_value(card_at(card, "throughput.requests_per_s")) * share / (1 - lost),
                        json_number_value(card_at(card, "throughput.output_tokens_per_s")) * share,
                        is_simulated(card) ? json_number_value(card_at(card, "success.rate")) : 1};
}

static json_t *write_cost(const struct explanation *x, const json_t *card)
{
  const struct candidate *best = &x->candidate;
  const struct price *price = &best->price;
  const struct yield yield = yield_of(x, card);
  struct scorecard_cost cost = x->cost;
  json_t *object = json_object();
  cost_fleet(&cost, price, best->gpus_billed, yield.requests_per_s, yield.output_tok_s, yield.success_ratio);
  put_text(&object, "price_basis", x->cost.price_basis);
  put_number(&object, "usd_per_gpu_hour", price->usd_per_gpu_hour);
  put_number(&object, "gpus", best->gpus);
  put_number(&object, "rented_together", price->billed_unit_gpus);
  put_number(&object, "gpus_billed", best->gpus_billed);
  put_number(&object, "usd_per_hour", price->usd_per_gpu_hour * best->gpus_billed);
  put_number(&object, "requests_per_s", yield.requests_per_s);
  put_number(&object, "output_tokens_per_s", yield.output_tok_s);
  put_number(&object, "success_rate", yield.success_ratio);
  put_member(&object, "items", cost_items(&cost));
  put_member(&object, "time_shares", cost_shares(best));
  put_text(&object, "by_bound_formula",
           "time_shares.prefill × prefill.by_bound_ms / prefill.time_ms + the same of decode; memory_bandwidth is "
           "divided into kv_cache and weights by the bytes of a decode step; idle as it is");
  return object;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------- */

static json_t *write_constants(const struct step_constants *constants)
{
  const struct {
    const char *name, *unit, *sentence;
    double value;
  } rows[] = {
#define STEP(name, unit, value, prior, spread, sentence) {#name, unit, sentence, constants->name},
#include "core/step.def"
#undef STEP
  };
  json_t *array = json_array();
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    json_t *object = json_object();
    put_text(&object, "name", rows[i].name);
    put_number(&object, "value", rows[i].value);
    put_text(&object, "unit", rows[i].unit);
    put_text(&object, "sentence", rows[i].sentence);
    put_element(&array, object);
  }
  return array;
}

/* Figures that this version computes otherwise than the scorecard has them; none where both are of one core. What a
   simulation has told the scorecard is not explained by steady load, and not compared. */
static json_t *differences(const struct explanation *x, const json_t *card)
{
  const double digits = 1e-9; /* documents keep 15 */
  const struct steady_state *state = &x->candidate.state;
  const double none = x->has_candidate ? 0.0 : (double)NAN;
  const double waits = x->has_candidate && !state->is_saturated ? 0.0 : (double)NAN;
  const struct {
    const char *name;
    double value;
    bool is_simulated; /* at depth full */
  } now[] = {{"phases.prefill.time_ms", x->prefill.time.seconds / MS + none, false},
             {"phases.decode.step_ms", x->decode.time.seconds / MS + none, false},
             {"latency.ttft_ms.p50", state->ttft_s / MS + waits, true},
             {"latency.itl_ms.p50", search_gap_s(&x->input, state->itl_s) / MS + waits, true},
             {"latency.e2e_ms.p50", x->candidate.e2e_median_s / MS + waits, true},
             {"memory.usable_gib", x->plan.usable_bytes / GIB, false},
             {"memory.weights_gib", x->plan.weights_bytes / GIB, false},
             {"memory.activations_gib", x->plan.activations_bytes / GIB, false},
             {"memory.runtime_gib", x->plan.runtime_bytes / GIB, false},
             {"memory.kv_cache_gib", fmax(0, x->plan.kv_cache_bytes) / GIB, false},
             {"cost.per_attempted_request_usd", x->cost.per_attempted_request_usd + none, true}};
  json_t *array = json_array();
  for (size_t i = 0; i < COUNT_OF(now); i++) {
    const json_t *then = card_at(card, now[i].name);
    const bool is_known = json_is_number(then) && isfinite(now[i].value);
    const double value = json_number_value(then);
    json_t *object;
    if (now[i].is_simulated && (is_simulated(card) || json_is_null(card_at(card, "latency.ttft_ms.p50"))))
      continue;
    if (is_known ? fabs(value - now[i].value) <= digits * fabs(value) : json_is_number(then) == isfinite(now[i].value))
      continue;
    object = json_object();
    put_text(&object, "metric", now[i].name);
    put_number(&object, "scorecard", json_is_number(then) ? value : (double)NAN);
    put_number(&object, "now", now[i].value);
    put_element(&array, object);
  }
  return array;
}

static const char *note_of(const json_t *card, const json_t *different)
{
  const char *then = json_string_value(json_object_get(card, "core_version"));
  if (then != NULL && strcmp(then, CORE_VERSION) != 0)
    return "the scorecard was made by another version of the core: this explains what the version of now computes";
  if (json_array_size(different) > 0)
    return "this build of the core computes other figures than the scorecard has: see differences";
  return NULL;
}

static void put_identity(json_t **object, const struct explanation *x, const json_t *card)
{
  static const char *const members[] = {"workload",         "model",         "model_revision", "profile",
                                        "profile_revision", "sketch_digest", "configuration",  "core_version"};
  json_t *different = differences(x, card);
  put_member(object, "scorecard", shared(card, "id"));
  for (size_t i = 0; i < COUNT_OF(members); i++)
    put_member(object, members[i], shared(card, members[i]));
  put_text(object, "core_version_now", CORE_VERSION);
  put_text(object, "note", note_of(card, different));
  put_member(object, "differences", different);
}

json_t *explain_write(const struct explanation *x, const struct explain_inputs *inputs)
{
  const json_t *card = inputs->card;
  const bool has = x->has_candidate;
  json_t *object = json_object();
  put_identity(&object, x, card);
  put_member(&object, "layer_kinds", layer_kinds(&inputs->sketch.model));
  put_member(&object, "prefill", has ? write_prefill(x) : json_null());
  put_member(&object, "decode", has ? write_decode(x) : json_null());
  put_member(&object, "memory", x->has_memory ? write_memory(x) : json_null());
  put_member(&object, "latency", has ? write_latency(x, card) : json_null());
  put_member(&object, "cost", has ? write_cost(x, card) : json_null());
  put_member(&object, "constants", has ? write_constants(&x->candidate.engine.constants) : json_null());
  put_member(&object, "uncertainty", shared(card, "uncertainty"));
  put_member(&object, "provenance", shared(card, "provenance"));
  return object;
}
