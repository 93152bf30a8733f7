/* Vision towers and their projectors, counted beside the decoder. The kind of tower is told by its keys; each formula was
   derived from the published totals of models with and without the tower (tests/api/test_hf_vision.c). */
#include "api/hf.h"

#include <stdio.h>
#include <string.h>

#include "api/read.h"

/* A stack of transformer blocks. */
struct tower {
  unsigned layers, hidden, width;
  uint64_t attention; /* matrices of one block's attention; 0 = four of hidden × hidden */
  bool is_gated, has_bias;
  unsigned norms; /* vectors of hidden_size in one block */
};

struct vision {
  struct hf hf; /* looks into vision_config */
  unsigned text_hidden;
  struct tower tower;
  unsigned patch;
};

static uint64_t tower_parameters(const struct tower *t)
{
  const uint64_t h = t->hidden;
  const uint64_t ups = t->is_gated ? 2 : 1;
  uint64_t block = (t->attention != 0 ? t->attention : 4 * h * h) + (ups + 1) * h * t->width + t->norms * h;
  if (t->has_bias)
    block += 4 * h + ups * t->width + h;
  return t->layers * block;
}

static uint64_t linear(uint64_t inputs, uint64_t outputs, bool has_bias)
{
  return inputs * outputs + (has_bias ? outputs : 0);
}

/* One patch of three colours to the hidden size. */
static uint64_t patches(const struct vision *v, unsigned frames, bool has_bias)
{
  return linear(3ULL * frames * v->patch * v->patch, v->tower.hidden, has_bias);
}

static unsigned side(struct vision *v, unsigned least)
{
  unsigned image = 0;
  (void)hf_need(&v->hf, "image_size", least, 65536, &image);
  return v->patch != 0 ? image / v->patch : 0;
}

/* ---- kinds of towers ---- */

/* A class token and a table of positions; norms before and after; pixels shuffled into the MLP's width, two projections
   without biases, one more to the decoder. */
static uint64_t read_llama4(struct vision *v)
{
  const uint64_t h = v->tower.hidden;
  const uint64_t positions = side(v, v->patch);
  unsigned in = 0;
  unsigned out = 0;
  unsigned last = 0;
  (void)hf_need(&v->hf, "projector_input_dim", 1, 65536, &in);
  (void)hf_need(&v->hf, "projector_output_dim", 1, 65536, &out);
  (void)hf_need(&v->hf, "vision_output_dim", 1, 65536, &last);
  v->tower.has_bias = true;
  v->tower.norms = 4;
  return tower_parameters(&v->tower) + patches(v, 1, false) + h + (positions * positions + 1) * h + 4 * h +
         linear(v->tower.width, in, false) + linear(in, out, false) + linear(last, v->text_hidden, false);
}

/* SigLIP behind Gemma-3's projection with its norm. */
static uint64_t read_siglip(struct vision *v)
{
  const uint64_t h = v->tower.hidden;
  const uint64_t positions = side(v, v->patch);
  v->tower.has_bias = true;
  v->tower.norms = 4;
  return tower_parameters(&v->tower) + patches(v, 1, true) + positions * positions * h + 2 * h +
         linear(h, v->text_hidden, false) + h;
}

/* Pixtral behind Mistral-3's projector: a norm, neighbouring patches merged, two projections without biases. */
static uint64_t read_pixtral(struct vision *v)
{
  const uint64_t h = v->tower.hidden;
  const json_t *merge = json_object_get(v->hf.root, "spatial_merge_size");
  const uint64_t edge = json_is_integer(merge) && json_integer_value(merge) > 0 && json_integer_value(merge) <= 16
                            ? (uint64_t)json_integer_value(merge)
                            : 2;
  if (!json_is_integer(merge))
    hf_assume(&v->hf, "spatial_merge_size is not given: 2");
  v->tower.is_gated = true;
  v->tower.norms = 2;
  return tower_parameters(&v->tower) + patches(v, 1, false) + h + h + linear(edge * edge * h, h, false) +
         linear(h, v->text_hidden, false) + linear(v->text_hidden, v->text_hidden, false);
}

/* Gemma-4: heads with norms on queries and keys, two tables of positions, one projection. */
static uint64_t read_gemma4(struct vision *v)
{
  const uint64_t h = v->tower.hidden;
  unsigned heads = 0;
  unsigned kv_heads = 0;
  unsigned head_dim = 0;
  unsigned positions = 0;
  (void)hf_need(&v->hf, "num_attention_heads", 1, 4096, &heads);
  (void)hf_need(&v->hf, "num_key_value_heads", 1, 4096, &kv_heads);
  (void)hf_need(&v->hf, "head_dim", 1, 8192, &head_dim);
  (void)hf_need(&v->hf, "position_embedding_size", 1, 1048576, &positions);
  v->tower.attention = 2 * h * head_dim * ((uint64_t)heads + kv_heads) + 2ULL * head_dim;
  v->tower.is_gated = true;
  v->tower.norms = 4;
  return tower_parameters(&v->tower) + patches(v, 1, false) + 2ULL * positions * h + linear(h, v->text_hidden, false);
}

/* Neighbouring patches merged by two projections with biases; `norm` parameters of the norm before them. */
static uint64_t merger(struct vision *v, uint64_t edge, uint64_t outputs, uint64_t norm)
{
  const uint64_t merged = edge * edge * v->tower.hidden;
  return norm + linear(merged, merged, true) + linear(merged, outputs, true);
}

/* Layers whose patches enter the decoder beside those of the last. */
static uint64_t deep_stacks(struct vision *v)
{
  const json_t *list = hf_list(&v->hf, "deepstack_visual_indexes");
  size_t i;
  json_t *entry;
  json_array_foreach(read_iterable(list), i, entry)
  {
    if (!json_is_integer(entry))
      hf_fault(&v->hf, FAULT_WRONG_TYPE, "deepstack_visual_indexes", "entry %zu is no number of a layer", i);
  }
  return json_array_size(list);
}

/* Qwen3-VL and Qwen3.5: layer norms, a table of positions, a merger, and one for every deep stack index with its norm
   over the merged patches. */
static uint64_t read_qwen3(struct vision *v)
{
  const uint64_t h = v->tower.hidden;
  const uint64_t deep = deep_stacks(v);
  unsigned frames = 0;
  unsigned positions = 0;
  unsigned outputs = 0;
  unsigned edge = 0;
  (void)hf_need(&v->hf, "temporal_patch_size", 1, 64, &frames);
  (void)hf_need(&v->hf, "num_position_embeddings", 1, 1048576, &positions);
  (void)hf_need(&v->hf, "out_hidden_size", 1, 65536, &outputs);
  (void)hf_need(&v->hf, "spatial_merge_size", 1, 16, &edge);
  v->tower.has_bias = true;
  v->tower.norms = 4;
  return tower_parameters(&v->tower) + patches(v, frames, true) + positions * h + merger(v, edge, outputs, 2 * h) +
         deep * merger(v, edge, outputs, 2 * edge * edge * h);
}

/* Qwen2.5-VL: RMS norms, gated MLPs, no table of positions. */
static uint64_t read_qwen25(struct vision *v)
{
  unsigned frames = 0;
  unsigned outputs = 0;
  unsigned edge = 0;
  (void)hf_need(&v->hf, "temporal_patch_size", 1, 64, &frames);
  (void)hf_need(&v->hf, "out_hidden_size", 1, 65536, &outputs);
  (void)hf_need(&v->hf, "spatial_merge_size", 1, 16, &edge);
  v->tower.is_gated = v->tower.has_bias = true;
  v->tower.norms = 2;
  return tower_parameters(&v->tower) + patches(v, frames, false) + merger(v, edge, outputs, v->tower.hidden);
}

/* MoonViT (Kimi): as Qwen3's, with a norm at the end. */
static uint64_t read_moonvit(struct vision *v)
{
  const uint64_t h = v->tower.hidden;
  unsigned rows = 0;
  unsigned columns = 0;
  (void)hf_need(&v->hf, "init_pos_emb_height", 1, 4096, &rows);
  (void)hf_need(&v->hf, "init_pos_emb_width", 1, 4096, &columns);
  v->tower.has_bias = true;
  v->tower.norms = 4;
  return tower_parameters(&v->tower) + patches(v, 1, true) + (uint64_t)rows * columns * h + 2 * h +
         merger(v, 2, v->text_hidden, 2 * h);
}

/* ---- which of them ---- */

#define LAYERS "num_hidden_layers depth vt_num_hidden_layers"
#define HIDDEN "hidden_size vt_hidden_size"
#define WIDTH "intermediate_size vt_intermediate_size"

static const struct {
  const char *model_type; /* NULL = told by the keys alone */
  const char *keys[6];    /* all of them present */
  uint64_t (*read)(struct vision *v);
} kinds[] = {
    {NULL, {"vt_hidden_size", "init_pos_emb_height", "init_pos_emb_width"}, read_moonvit},
    {NULL,
     {"depth", "num_position_embeddings", "out_hidden_size", "spatial_merge_size", "temporal_patch_size"},
     read_qwen3},
    {NULL,
     {"depth", "out_hidden_size", "spatial_merge_size", "temporal_patch_size", "fullatt_block_indexes"},
     read_qwen25},
    {NULL, {"image_size", "projector_input_dim", "projector_output_dim", "vision_output_dim"}, read_llama4},
    {NULL,
     {"position_embedding_size", "pooling_kernel_size", "num_attention_heads", "num_key_value_heads", "head_dim"},
     read_gemma4},
    {"siglip_vision_model", {"image_size"}, read_siglip},
    {"pixtral", {"hidden_size"}, read_pixtral},
};

static bool is_kind(struct vision *v, size_t kind)
{
  const char *type = hf_text(&v->hf, "model_type");
  if (kinds[kind].model_type != NULL && (type == NULL || strcmp(type, kinds[kind].model_type) != 0))
    return false;
  for (size_t i = 0; i < sizeof kinds[kind].keys / sizeof kinds[kind].keys[0]; i++)
    if (kinds[kind].keys[i] != NULL && !hf_has(&v->hf, kinds[kind].keys[i]))
      return false;
  return hf_has(&v->hf, LAYERS) && hf_has(&v->hf, HIDDEN) && hf_has(&v->hf, WIDTH) && hf_has(&v->hf, "patch_size");
}

static uint64_t read_tower(struct vision *v)
{
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (!is_kind(v, i))
      continue;
    (void)hf_count(&v->hf, LAYERS, 1, MODEL_LAYERS_MAX, &v->tower.layers);
    (void)hf_count(&v->hf, HIDDEN, 1, 65536, &v->tower.hidden);
    (void)hf_count(&v->hf, WIDTH, 1, 262144, &v->tower.width);
    (void)hf_count(&v->hf, "patch_size", 1, 4096, &v->patch);
    return kinds[i].read(v);
  }
  return 0;
}

void hf_vision_read(struct hf *hf, struct model *out)
{
  const json_t *config = json_object_get(hf->root, "vision_config");
  struct hf_used used = {.count = 0};
  struct vision v;
  if (config == NULL || json_is_null(config))
    return;
  memset(&v, 0, sizeof v);
  v.hf = *hf;
  v.hf.used = &used;
  v.text_hidden = out->hidden_size;
  v.hf.text = config;
  read_pointer(v.hf.text_pointer, sizeof v.hf.text_pointer, hf->root_pointer, "vision_config");
  if (!json_is_object(config)) {
    hf_fault_at(hf, FAULT_WRONG_TYPE, v.hf.text_pointer, "expected an object, saw %s", read_type_name(config));
    return;
  }
  out->vision_parameters = read_tower(&v);
  if (out->vision_parameters != 0)
    hf_assume(hf, "the vision tower is counted apart from the decoder");
  else
    hf_assume(hf, "the vision tower is not counted: its kind of config is not known");
}
