/* Findings about the model's own shape: attention, alignment, depth against width, and what a runtime has no fast kernel
   for. */
#include "core/finding.h"

#include "core/parallel.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

/* ---- grouped attention ---- */

const struct attention *finding_plain_attention(const struct model *model)
{
  for (unsigned i = 0; i < model->layer_count; i++) {
    const struct attention *a = &model->layers[model->layer_order[i]].attention;
    if (a->kind == ATTENTION_GROUPED && !a->shares_kv)
      return a;
  }
  return NULL;
}

unsigned finding_grouped_heads(const struct model *model)
{
  const unsigned group = 8;
  const struct attention *a = finding_plain_attention(model);
  unsigned heads;
  if (a == NULL || a->kv_heads <= 1 || (a->kv_heads <= group && a->kv_heads != a->query_heads))
    return 0;
  heads = a->kv_heads == a->query_heads ? a->query_heads / group : group;
  heads = heads > 0 ? heads : 1;
  while (heads > 1 && a->query_heads % heads != 0)
    heads--;
  return heads < a->kv_heads ? heads : 0;
}

/* Share of a decode step's traffic that is KV cache. */
static double kv_share(const struct scorecard *card)
{
  const double moved = card->decode.weights_bytes + card->decode.kv_bytes;
  return card->has_latency && moved > 0 ? card->decode.kv_bytes / moved : 0;
}

static bool kv_dominates(const struct scorecard *card)
{
  const double noticed = 0.4;
  return card->limits.first_limit == LIMIT_KV_CACHE || card->no_fit_reason == NO_FIT_NO_ROOM_FOR_KV_CACHE ||
         kv_share(card) > noticed;
}

static void find_ungrouped(struct finding_case *c)
{
  const struct attention *a = finding_plain_attention(c->input->model);
  const unsigned heads = finding_grouped_heads(c->input->model);
  const double bytes = c->card->memory.kv_bytes_per_token;
  if (heads == 0 || !kv_dominates(c->card))
    return;
  const struct scorecard_evidence evidence[] = {{"query_heads", a->query_heads},
                                                {"kv_heads", a->kv_heads},
                                                {"grouped_kv_heads", heads},
                                                {"kv_bytes_per_token", bytes},
                                                {"kv_bytes_per_token_grouped", bytes * heads / a->kv_heads},
                                                {"kv_share_of_decode_bytes", kv_share(c->card)}};
  FINDING_ADD(
      c, "attention_not_grouped", SEVERITY_WARNING,
      arena_printf(c->arena,
                   "%u KV heads for %u query heads: %.3g KiB of cache a token, and it is the cache that limits; "
                   "%u KV heads hold %.3g KiB",
                   a->kv_heads, a->query_heads, bytes / KIB, heads, bytes * heads / a->kv_heads / KIB),
      evidence);
}

/* Weights of half the bytes are advised by habit: says how little of a step's traffic they are. */
static void find_masked(struct finding_case *c)
{
  const struct attention *a = finding_plain_attention(c->input->model);
  const unsigned heads = finding_grouped_heads(c->input->model);
  const double share = kv_share(c->card);
  const double by_heads = heads != 0 ? share * (1 - (double)heads / a->kv_heads) : 0;
  const bool is_quantised = precision_weight_bytes(c->input->precision.dense) < 2;
  const struct scorecard_evidence evidence[] = {
      {"kv_share_of_decode_bytes", share},        {"weights_gb", c->card->decode.weights_bytes / GIGA},
      {"kv_gb", c->card->decode.kv_bytes / GIGA}, {"saved_by_halving_weights", (1 - share) / 2},
      {"saved_by_halving_kv_cache", share / 2},   {"saved_by_grouped_heads", by_heads}};
  if (!(share > 0.5))
    return;
  FINDING_ADD(c, "quantisation_masks_structure", is_quantised ? SEVERITY_WARNING : SEVERITY_INFO,
              arena_printf(c->arena,
                           "%.0f %% of what a decode step reads is KV cache: weights of half the bytes save %.0f %% of "
                           "it, half a KV cache %.0f %%, and what fills the cache is the attention's structure",
                           100 * share, 50 * (1 - share), 50 * share),
              evidence);
}

/* ---- alignment ---- */

/* Matrix units work on tiles: 128 outputs by 64 inputs is the usual one of 16-bit kernels. What is not a multiple is
   filled up and computed for nothing. */
static const double tile_outputs = 128, tile_inputs = 64;

static double filled(double size, double tile)
{
  return ceil(size / tile) * tile;
}

struct alignment {
  double flops, padded_flops;
  double worst_loss;
  struct op worst;
};

static void add_operator(struct alignment *sum, const struct op *op, double times)
{
  const double ratio = filled(op->outputs, tile_outputs) / op->outputs * filled(op->inputs, tile_inputs) / op->inputs;
  const double loss = times * op->flops * (ratio - 1);
  sum->flops += times * op->flops;
  sum->padded_flops += times * op->flops * ratio;
  if (loss <= sum->worst_loss)
    return;
  sum->worst_loss = loss;
  sum->worst = *op;
}

static void find_misaligned(struct finding_case *c)
{
  const double noticed = 0.01, costly = 0.03;
  const struct engine *engine = &c->result->best.engine;
  const struct step_shape shape = step_chunk_shape(engine, c->input->prompt_tokens, c->input->cached_tokens, 0);
  struct alignment sum = {.flops = 0};
  struct op ops[OPERATORS_LAYER_MAX];
  double lost;
  for (unsigned kind = 0; kind < c->input->model->layer_kind_count; kind++) {
    const size_t count = step_layer_operators(ops, engine, kind, &shape);
    for (size_t i = 0; i < count; i++)
      if (ops[i].form == FORM_LINEAR)
        add_operator(&sum, &ops[i], engine->layers_of_kind[kind]);
  }
  lost = sum.flops > 0 ? sum.padded_flops / sum.flops - 1 : 0;
  const struct scorecard_evidence evidence[] = {
      {"lost_ratio", lost},
      {"outputs", sum.worst.outputs},
      {"aligned_outputs", fmax(tile_outputs, floor(sum.worst.outputs / tile_outputs + 0.5) * tile_outputs)},
      {"inputs", sum.worst.inputs},
      {"aligned_inputs", fmax(tile_inputs, floor(sum.worst.inputs / tile_inputs + 0.5) * tile_inputs)},
      {"tensor_parallel", engine->layout.tensor_parallel}};
  if (!(lost > noticed))
    return;
  FINDING_ADD(c, "shape_misaligned", lost > costly ? SEVERITY_WARNING : SEVERITY_INFO,
              arena_printf(c->arena,
                           "%.1f %% of the matrix work of prefill fills up tiles of %.0f x %.0f: on one of %u ranks %s "
                           "has %.0f inputs and %.0f outputs; nearest aligned: %.0f and %.0f",
                           100 * lost, tile_outputs, tile_inputs, engine->layout.tensor_parallel, sum.worst.name,
                           sum.worst.inputs, sum.worst.outputs, evidence[4].value, evidence[2].value),
              evidence);
}

/* ---- depth against width ---- */

/* Half the layers at √2 times the width: as many parameters, half the kernels. Widths stay multiples of tiles on every
   rank. False where the model is no plain stack of equal layers. */
static bool reshape(struct model *out, const struct model *model, const struct hardware *hardware,
                    const struct layout *layout)
{
  const double tile = tile_outputs * layout->tensor_parallel;
  struct layer *layer = &out->layers[0];
  unsigned step;
  char why[192];
  *out = *model;
  if (model->layer_kind_count != 1 || model->layer_count < 16 || layer->attention.kind != ATTENTION_GROUPED ||
      layer->feed_forward.kind != FEED_FORWARD_DENSE || layer->attention.input_size != 0)
    return false;
  step = layer->attention.kv_heads > layout->tensor_parallel ? layer->attention.kv_heads : layout->tensor_parallel;
  layer->attention.query_heads = (unsigned)fmax(1, floor(layer->attention.query_heads * M_SQRT2 / step + 0.5)) * step;
  out->hidden_size = (unsigned)(filled(model->hidden_size * M_SQRT2, tile_outputs));
  layer->feed_forward.intermediate_size = (unsigned)filled(layer->feed_forward.intermediate_size * M_SQRT2, tile);
  layer->norm_parameters = (unsigned)(layer->norm_parameters * M_SQRT2);
  out->layer_count = model->layer_count / 2;
  return parallel_check(why, sizeof why, out, hardware, layout);
}

static void find_depth(struct finding_case *c)
{
  const double noticed = 0.05;
  const struct candidate *best = &c->result->best;
  const double context = c->input->cached_tokens + c->input->prompt_tokens + c->input->output_tokens / 2;
  struct model wide;
  struct engine engine;
  struct step_time time;
  double before_s;
  if (c->input->speculation.draft_tokens != 0 || !reshape(&wide, c->input->model, c->input->hardware, &best->layout))
    return;
  step_decode(&time, &best->engine, best->state.view.batch, context);
  before_s = time.seconds;
  engine = step_engine(&wide, c->input->hardware, &best->layout, &c->input->precision, c->input->workload->activations,
                       &best->engine.preset);
  step_decode(&time, &engine, best->state.view.batch, context);
  const struct scorecard_evidence evidence[] = {{"layers", c->input->model->layer_count},
                                                {"hidden_size", c->input->model->hidden_size},
                                                {"reshaped_layers", wide.layer_count},
                                                {"reshaped_hidden_size", wide.hidden_size},
                                                {"step_ms", before_s / MS},
                                                {"reshaped_step_ms", time.seconds / MS}};
  if (!(1 - time.seconds / before_s > noticed))
    return;
  FINDING_ADD(
      c, "depth_width", SEVERITY_INFO,
      arena_printf(c->arena,
                   "%u layers of width %u are long and thin here: %u of width %u have %.3g times the parameters "
                   "and take %.3g ms a step instead of %.3g; it means retraining",
                   c->input->model->layer_count, c->input->model->hidden_size, wide.layer_count, wide.hidden_size,
                   (double)model_parameters_total(&wide) / (double)model_parameters_total(c->input->model),
                   time.seconds / MS, before_s / MS),
      evidence);
}

/* ---- fast paths ---- */

static void find_eager(struct finding_case *c)
{
  const struct candidate *best = &c->result->best;
  const double context = c->input->cached_tokens + c->input->prompt_tokens + c->input->output_tokens / 2;
  struct engine graphs = best->engine;
  struct step_time eager, fast;
  if (!best->engine.preset.is_eager)
    return;
  graphs.preset.is_eager = false;
  graphs.eager_s = 0;
  step_decode(&eager, &best->engine, best->state.view.batch, context);
  step_decode(&fast, &graphs, best->state.view.batch, context);
  const struct scorecard_evidence evidence[] = {{"step_ms", eager.seconds / MS},
                                                {"step_ms_on_fast_path", fast.seconds / MS}};
  FINDING_ADD(c, "off_fast_path", SEVERITY_WARNING,
              arena_printf(c->arena,
                           "without CUDA graphs the host launches every kernel: a decode step takes %.3g ms, with them "
                           "%.3g",
                           eager.seconds / MS, fast.seconds / MS),
              evidence);
}

/* Head sizes that fused attention kernels of the public runtimes are built for. */
static void find_head_size(struct finding_case *c)
{
  static const unsigned fused[] = {32, 64, 80, 96, 112, 120, 128, 160, 192, 224, 256, 512};
  const struct attention *a = finding_plain_attention(c->input->model);
  const struct scorecard_evidence evidence[] = {{"head_dim", a != NULL ? a->head_dim : (double)NAN}};
  if (a == NULL)
    return;
  for (size_t i = 0; i < sizeof fused / sizeof fused[0]; i++)
    if (a->head_dim == fused[i])
      return;
  FINDING_ADD(
      c, "off_fast_path", SEVERITY_WARNING,
      arena_printf(c->arena,
                   "no fused attention kernel is built for heads of %u: the runtime falls back to a slower one, "
                   "which these figures, computed for a fused one, do not show",
                   a->head_dim),
      evidence);
}

void finding_of_structure(struct finding_case *c)
{
  find_ungrouped(c);
  if (!c->card->has_latency)
    return;
  find_masked(c);
  find_misaligned(c);
  find_depth(c);
  find_eager(c);
  find_head_size(c);
}
