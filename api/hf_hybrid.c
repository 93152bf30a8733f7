/* Configs whose layers are not one attention and one MLP each: state space models, patterns of single mixers, blocks found
   by search, and blocks that hold attention beside a state. */
#include "api/hf.h"

#include <string.h>

#include "api/read.h"

static struct hf_row row_of(enum hf_mixer mixer, enum hf_mlp mlp, unsigned norms)
{
  return (struct hf_row){.mixer = (uint8_t)mixer, .mlp = (uint8_t)mlp, .norms = (uint8_t)norms};
}

/* Nemotron-H: one letter a layer, M state, * attention, - MLP, E experts. */
static void plan_pattern(struct hf *hf, struct hf_plan *plan)
{
  const char *pattern = hf_text(hf, "hybrid_override_pattern");
  if (pattern == NULL || strlen(pattern) != plan->rows) {
    hf_fault(hf, FAULT_CONFLICT, "hybrid_override_pattern", "expected text with one letter for each of %u layers",
             plan->rows);
    return;
  }
  for (unsigned i = 0; i < plan->rows; i++) {
    switch (pattern[i]) {
    case 'M': plan->row[i] = row_of(HF_MIXER_LINEAR, HF_MLP_NONE, 1); break;
    case '*': plan->row[i] = row_of(HF_MIXER_FULL, HF_MLP_NONE, 1); break;
    case '-': plan->row[i] = row_of(HF_MIXER_NONE, HF_MLP_DENSE, 1); break;
    case 'E': plan->row[i] = row_of(HF_MIXER_NONE, HF_MLP_MOE, 1); break;
    default:
      hf_fault(hf, FAULT_UNKNOWN_VALUE, "hybrid_override_pattern", "letter %u is none of M, *, - and E", i + 1);
      return;
    }
  }
}

/* ---- blocks found by architecture search ---- */

struct block {
  struct hf *hf;
  const json_t *config;
  unsigned index, hidden, query_heads;
};

static const json_t *block_member(const struct block *b, const char *part, const char *key)
{
  const json_t *value = json_object_get(json_object_get(b->config, part), key);
  return json_is_null(value) ? NULL : value;
}

static void block_fault(const struct block *b, const char *part, const char *what)
{
  hf_fault(b->hf, FAULT_UNSUPPORTED, "block_configs", "block %u: its %s %s", b->index, part, what);
}

/* A part that is left out, or a plain matrix with its norm. True when nothing else is to be read. */
static bool block_is_replaced(const struct block *b, const char *part, struct hf_row *row)
{
  if (!json_is_object(json_object_get(b->config, part))) {
    block_fault(b, part, "is no object");
    return true;
  }
  if (json_is_true(block_member(b, part, "no_op")))
    return true;
  row->norms++;
  if (!json_is_true(block_member(b, part, "replace_with_linear")))
    return false;
  row->other_parameters += (uint64_t)b->hidden * b->hidden;
  return true;
}

static void block_attention(const struct block *b, struct hf_row *row)
{
  const json_int_t group = json_integer_value(block_member(b, "attention", "n_heads_in_group"));
  json_int_t kv_heads = json_integer_value(block_member(b, "attention", "num_key_value_heads"));
  if (block_is_replaced(b, "attention", row))
    return;
  if (group > 0 && group <= b->query_heads && b->query_heads % group == 0)
    kv_heads = b->query_heads / group;
  if (kv_heads < 1 || kv_heads > b->query_heads) {
    block_fault(b, "attention", "has neither a n_heads_in_group that divides the heads nor num_key_value_heads");
    return;
  }
  row->mixer = HF_MIXER_FULL;
  row->kv_heads = (unsigned)kv_heads;
}

/* ffn_mult is of the two-matrix MLP: two thirds of it for three matrices, rounded up to a multiple of 256. */
static void block_mlp(const struct block *b, struct hf_row *row)
{
  const double multiple = json_number_value(block_member(b, "ffn", "ffn_mult"));
  json_int_t width = json_integer_value(block_member(b, "ffn", "intermediate_size"));
  if (block_is_replaced(b, "ffn", row))
    return;
  if (multiple > 0.0 && multiple < 64.0)
    width = ((json_int_t)(2.0 * multiple * b->hidden / 3.0) + 255) / 256 * 256;
  if (width < 1 || width > 1048576) {
    block_fault(b, "ffn", "has neither a ffn_mult below 64 nor an intermediate_size");
    return;
  }
  row->mlp = HF_MLP_DENSE;
  row->intermediate_size = (unsigned)width;
}

/* Blocks without attention and MLP are no layers at all. */
static void plan_blocks(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan)
{
  const json_t *list = hf_layer_list(hf, "block_configs", plan->rows);
  const unsigned layers = plan->rows;
  if (list == NULL)
    return;
  plan->rows = 0;
  for (unsigned i = 0; i < layers; i++) {
    const struct block b = {hf, json_array_get(list, i), i, sizes->hidden, hf_peek(hf, HF_HEADS)};
    struct hf_row row = row_of(HF_MIXER_NONE, HF_MLP_NONE, 0);
    block_attention(&b, &row);
    block_mlp(&b, &row);
    if (row.norms != 0)
      plan->row[plan->rows++] = row;
  }
  if (plan->rows == 0)
    hf_fault(hf, FAULT_OUT_OF_RANGE, "block_configs", "all blocks are left out");
}

/* ---- two mixers in one block ---- */

/* Makes room for the rows of two-row blocks. */
static bool fits(struct hf *hf, const char *keys, unsigned rows)
{
  if (rows <= MODEL_LAYERS_MAX)
    return true;
  hf_fault(hf, FAULT_OUT_OF_RANGE, keys, "%u layers with their parts are more than %d", rows, MODEL_LAYERS_MAX);
  return false;
}

/* Falcon-H1: attention and state side by side behind one norm, then the MLP behind another. */
static void plan_side_by_side(struct hf *hf, struct hf_plan *plan)
{
  const unsigned layers = plan->rows;
  if (!fits(hf, "num_hidden_layers", 2 * layers))
    return;
  for (unsigned i = 0; i < layers; i++) {
    plan->row[2 * i] = row_of(HF_MIXER_FULL, HF_MLP_NONE, 1);
    plan->row[2 * i + 1] = row_of(HF_MIXER_LINEAR, HF_MLP_DENSE, 1);
  }
  plan->rows = 2 * layers;
  hf_assume(hf, "each of %u blocks is listed as two layers: attention, then the state beside it with the MLP", layers);
}

/* Low-rank adapters of one invocation of a shared block: on gate and up projections, on queries, keys and values. */
static uint64_t adapter_parameters(struct hf *hf, uint64_t hidden, uint64_t attention_input)
{
  unsigned rank = 0;
  uint64_t parameters = 0;
  const bool has_mlp_adapter = hf_flag(hf, "use_shared_mlp_adapter", true);
  const bool has_attention_adapter = hf_flag(hf, "use_shared_attention_adapter", false);
  if (!hf_has(hf, "use_shared_mlp_adapter"))
    hf_assume(hf, "use_shared_mlp_adapter is not given: every use of a shared block has adapters on its MLP");
  if (!hf_has(hf, "use_shared_attention_adapter"))
    hf_assume(hf, "use_shared_attention_adapter is not given: none");
  if (!has_mlp_adapter && !has_attention_adapter)
    return 0;
  (void)hf_need(hf, "adapter_rank", 1, 65536, &rank);
  if (has_mlp_adapter)
    parameters += rank * (hidden + 2ULL * hf_peek(hf, "intermediate_size"));
  if (has_attention_adapter)
    parameters += rank * 3 * 2 * attention_input;
  return parameters;
}

/* Zamba2: a few transformer blocks that many layers share. Each use reads the hidden state beside the embedding (a norm of
   both widths, one of the MLP's input), passes through a projection of its own and enters that layer's state block. */
static void plan_shared_blocks(struct hf *hf, const struct hf_sizes *sizes, const json_t *types, struct hf_plan *plan)
{
  const unsigned input = hf_peek(hf, "attention_hidden_size");
  const unsigned wide = sizes->hidden != 0 ? input / sizes->hidden : 0;
  const unsigned layers = plan->rows;
  unsigned blocks = 1;
  unsigned uses = 0;
  uint64_t own;
  struct hf_row rows[2];
  if (wide == 0 || wide > 8 || wide * sizes->hidden != input) {
    hf_fault(hf, FAULT_MISSING, "attention_hidden_size", "needed: a small multiple of hidden_size %u", sizes->hidden);
    return;
  }
  (void)hf_need(hf, "num_mem_blocks", 1, MODEL_LAYERS_MAX, &blocks);
  own = (uint64_t)sizes->hidden * sizes->hidden + adapter_parameters(hf, sizes->hidden, input);
  plan->rows = 0;
  rows[0] = row_of(HF_MIXER_FULL, HF_MLP_DENSE, wide + 1);
  for (unsigned i = 0; i < layers; i++) {
    const char *type = json_string_value(json_array_get(types, i));
    const bool is_hybrid = type != NULL && strcmp(type, "hybrid") == 0;
    if (!is_hybrid && (type == NULL || strcmp(type, "mamba") != 0)) {
      hf_fault(hf, FAULT_UNSUPPORTED, "layers_block_type", "entry %u is neither mamba nor hybrid", i);
      return;
    }
    if (!fits(hf, "layers_block_type", plan->rows + 2))
      return;
    rows[0].shares_parameters = uses >= blocks;
    rows[1] = row_of(HF_MIXER_LINEAR, HF_MLP_NONE, 1);
    rows[1].other_parameters = is_hybrid ? own : 0;
    if (is_hybrid)
      plan->row[plan->rows++] = rows[0];
    plan->row[plan->rows++] = rows[1];
    uses += is_hybrid;
  }
  hf_assume(hf, "%u shared blocks are used %u times: each use is listed as a layer of its own, its parameters once",
            blocks, uses);
}

static bool has_shared_blocks(const json_t *types)
{
  size_t i;
  json_t *type;
  json_array_foreach(read_iterable(types), i, type)
  {
    if (json_is_string(type) && strcmp(json_string_value(type), "hybrid") == 0)
      return true;
  }
  return false;
}

/* ---- which of them ---- */

bool hf_plan_hybrid(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan)
{
  const json_t *types = hf_list(hf, "layers_block_type");
  if (hf_has(hf, "state_size") && !hf_has(hf, HF_HEADS)) {
    for (unsigned i = 0; i < plan->rows; i++)
      plan->row[i] = row_of(HF_MIXER_LINEAR, HF_MLP_NONE, 1);
  } else if (hf_has(hf, "hybrid_override_pattern")) {
    plan_pattern(hf, plan);
  } else if (hf_has(hf, "block_configs")) {
    plan_blocks(hf, sizes, plan);
  } else if (hf_has(hf, "mamba_d_ssm")) {
    plan_side_by_side(hf, plan);
  } else if (has_shared_blocks(types)) {
    if (json_array_size(types) == plan->rows)
      plan_shared_blocks(hf, sizes, types, plan);
    else
      hf_fault(hf, FAULT_CONFLICT, "layers_block_type", "%zu entries for %u layers", json_array_size(types),
               plan->rows);
  } else {
    return false;
  }
  return true;
}
