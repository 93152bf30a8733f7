/* A Hugging Face config.json → struct model. The decoder's part is found (text_config …), what the layers are is planned,
   their kinds are read, and the list of layers is put together. */
#include "api/catalogue.h"
#include "api/hf.h"

#include <stdio.h>
#include <string.h>

#include "api/read.h"

#define CONTEXT "max_position_embeddings n_positions seq_length max_sequence_length max_seq_len n_ctx"

/* ---- opening ---- */

static void find_text(struct hf *hf)
{
  static const char *const keys[] = {"text_config", "llm_config", "language_config", "language_model_config"};
  hf->text = hf->root;
  (void)snprintf(hf->text_pointer, sizeof hf->text_pointer, "%s", hf->root_pointer);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    const json_t *part = json_object_get(hf->root, keys[i]);
    if (json_is_object(part)) {
      hf->text = part;
      read_pointer(hf->text_pointer, sizeof hf->text_pointer, hf->root_pointer, keys[i]);
      return;
    }
  }
}

static void find_traits(struct hf *hf)
{
  const char *type = hf_text(hf, "model_type");
  if (type == NULL)
    type = json_string_value(json_object_get(hf->root, "model_type"));
  hf->model_type = type != NULL ? type : "";
  if (strlen(hf->model_type) > 64) {
    hf_fault(hf, FAULT_OUT_OF_RANGE, "model_type", "longer than 64 bytes");
    hf->model_type = "";
  }
  hf->traits = hf_traits_find(hf->model_type, &hf->is_known_type);
  if (!hf->is_known_type)
    hf_assume(
        hf,
        "model_type \"%s\" is not known: what the config leaves open is taken as in Llama (two RMS norms a layer, "
        "gated MLP, no biases, head not tied)",
        hf->model_type);
}

static bool hf_open(struct hf *hf, const json_t *config, const char *pointer)
{
  hf->root = config;
  (void)snprintf(hf->root_pointer, sizeof hf->root_pointer, "%s", pointer);
  if (!json_is_object(config)) {
    faults_add(hf->faults, FAULT_WRONG_TYPE, pointer, NULL, "expected the object of a config.json, saw %s",
               read_type_name(config));
    return false;
  }
  find_text(hf);
  find_traits(hf);
  hf_refuse_unsupported(hf);
  return true;
}

/* ---- the whole model ---- */

static void read_sizes(struct hf *hf, struct hf_sizes *sizes)
{
  (void)hf_need(hf, "hidden_size n_embd d_model n_embed", 1, MODEL_HIDDEN_MAX, &sizes->hidden);
  (void)hf_need(hf, "vocab_size padded_vocab_size", 1, MODEL_VOCAB_MAX, &sizes->vocab);
  if (!hf_has(hf, CONTEXT))
    hf_assume(hf, "the config states no longest context");
  (void)hf_count(hf, CONTEXT, 1, MODEL_CONTEXT_MAX, &sizes->context);
  if (hf_has(hf, "word_embed_proj_dim") && hf_peek(hf, "word_embed_proj_dim") != sizes->hidden)
    hf_fault(hf, FAULT_UNSUPPORTED, "word_embed_proj_dim",
             "an embedding of another width than hidden_size: not supported");
}

/* tie_word_embeddings may sit outside the decoder's part. */
static bool read_tied(struct hf *hf)
{
  const json_t *outer = json_object_get(hf->root, "tie_word_embeddings");
  const bool otherwise = hf_has_trait(hf, HF_TIED);
  if (hf_has(hf, "tie_word_embeddings tie_embedding"))
    return hf_flag(hf, "tie_word_embeddings tie_embedding", otherwise);
  if (json_is_boolean(outer))
    return json_is_true(outer);
  if (outer != NULL && !json_is_null(outer))
    hf_fault(hf, FAULT_WRONG_TYPE, "tie_word_embeddings", "expected true or false, saw %s", read_type_name(outer));
  hf_assume(hf, "tie_word_embeddings is not given: the head is %s the embedding, as the class does",
            otherwise ? "tied to" : "stored beside");
  return otherwise;
}

static void set_norms(struct hf *hf, struct model *model, unsigned *norm_parameters)
{
  const bool has_bias = hf_has_trait(hf, HF_NORM_BIAS) && !hf_flag(hf, "no_bias", false);
  *norm_parameters = model->hidden_size * (has_bias ? 2 : 1);
  model->final_norm_parameters = hf->traits->norms != 0 ? *norm_parameters : 0;
  model->embedding_norm_parameters = hf_has_trait(hf, HF_EMBEDDING_NORM) ? *norm_parameters : 0;
}

static void set_outer(struct hf *hf, const struct hf_sizes *sizes, struct model *model)
{
  model->hidden_size = sizes->hidden;
  model->vocab_size = sizes->vocab;
  model->max_context_tokens = sizes->context;
  model->has_tied_embeddings = read_tied(hf);
  model->has_head_bias = hf_flag(hf, "lm_head_bias", hf_has_trait(hf, HF_HEAD_BIAS));
  if (model->has_head_bias && !hf_has(hf, "lm_head_bias"))
    hf_assume(hf, "the head has a bias, as the class \"%s\" does", hf->model_type);
  if (hf_has_trait(hf, HF_POSITIONS) && sizes->context == 0)
    hf_fault(hf, FAULT_MISSING, CONTEXT, "needed: the rows of the learned position table");
  if (hf_has_trait(hf, HF_POSITIONS))
    model->position_embeddings = sizes->context + hf->traits->extra_positions;
  if (json_is_object(json_object_get(hf->root, "audio_config")))
    hf_assume(hf, "the audio tower is not counted");
}

/* What the rows say of single layers goes over what all layers of their kind have in common. */
static void specialise(struct hf *hf, const struct hf_sizes *sizes, const struct hf_row *row, struct layer *layer)
{
  struct attention *a = &layer->attention;
  if (a->kind == ATTENTION_GROUPED && row->kv_heads != 0)
    a->kv_heads = row->kv_heads;
  if (layer->feed_forward.kind == FEED_FORWARD_DENSE && row->intermediate_size != 0)
    layer->feed_forward.intermediate_size = row->intermediate_size;
  layer->shares_parameters = row->shares_parameters;
  layer->other_parameters = row->other_parameters;
  if (a->kind != ATTENTION_GROUPED || !row->shares_kv)
    return;
  a->shares_kv = true;
  if (hf_has_trait(hf, HF_UNUSED_KV_STORED))
    layer->other_parameters += (uint64_t)sizes->hidden * a->kv_heads * (a->head_dim + a->value_head_dim);
  else
    a->key_norm_size = 0;
}

static struct layer build_layer(const struct hf_row *row, const struct hf_attention *attention,
                                const struct hf_feed_forward *feed_forward)
{
  const struct attention *mixers[] = {&attention->full, &attention->window, &attention->linear, NULL};
  const struct feed_forward *mlps[] = {&feed_forward->dense, &feed_forward->moe, NULL};
  const struct attention *mixer = mixers[row->mixer];
  const struct feed_forward *mlp = mlps[row->mlp];
  struct layer layer;
  memset(&layer, 0, sizeof layer);
  layer.attention.kind = ATTENTION_NONE;
  layer.feed_forward.kind = FEED_FORWARD_NONE;
  if (mixer != NULL)
    layer.attention = *mixer;
  if (mlp != NULL)
    layer.feed_forward = *mlp;
  return layer;
}

/* Faults here name what the keys said together, since each key alone was right. */
static void check_built(struct hf *hf, const struct model *model)
{
  struct faults found;
  memset(&found, 0, sizeof found);
  model_check(model, &found);
  for (size_t i = 0; i < found.count; i++)
    faults_add(hf->faults, found.items[i].code, hf->text_pointer, NULL, "%s: %s", found.items[i].pointer,
               found.items[i].detail);
}

static void append_layers(struct hf *hf, const struct hf_sizes *sizes, const struct hf_plan *plan,
                          const struct hf_attention *attention, const struct hf_feed_forward *feed_forward,
                          unsigned norm_parameters, struct model *out)
{
  struct error e;
  for (unsigned i = 0; i < plan->rows; i++) {
    struct layer layer = build_layer(&plan->row[i], attention, feed_forward);
    specialise(hf, sizes, &plan->row[i], &layer);
    layer.norm_parameters = plan->row[i].norms * norm_parameters;
    if (model_append_layers(out, &layer, 1, &e) != ERR_OK) {
      faults_add(hf->faults, FAULT_OUT_OF_RANGE, hf->text_pointer, NULL, "%s", e.message);
      return;
    }
  }
  check_built(hf, out);
}

/* Everything is read before anything is built, so that all faults are told at once. */
static void read_model(struct hf *hf, const json_t *quant_config, struct model *out)
{
  struct hf_sizes sizes = {0, 0, 0};
  struct hf_plan plan;
  struct hf_attention attention;
  struct hf_feed_forward feed_forward;
  unsigned norm_parameters = 0;
  read_sizes(hf, &sizes);
  hf_plan_read(hf, &sizes, &plan);
  hf_attention_read(hf, &sizes, &plan, &attention);
  hf_feed_forward_read(hf, &sizes, &plan, &feed_forward);
  set_outer(hf, &sizes, out);
  set_norms(hf, out, &norm_parameters);
  hf_draft_read(hf, &plan, &attention, &feed_forward, plan.row[0].norms * norm_parameters, out);
  hf_gemma_read(hf, &sizes, &plan, out);
  hf_vision_read(hf, out);
  hf_name_unread(hf);
  if (hf->faults->count == hf->faults_before && !hf->faults->is_truncated)
    append_layers(hf, &sizes, &plan, &attention, &feed_forward, norm_parameters, out);
  hf_precision_read(hf, quant_config, out, &out->precision);
}

void hf_config_read(struct model *out, json_t *assumptions, const json_t *config, const json_t *quant_config,
                    const char *pointer, struct faults *faults)
{
  struct hf_used used = {.count = 0};
  struct hf hf = {.used = &used, .assumptions = assumptions, .faults = faults, .faults_before = faults->count};
  memset(out, 0, sizeof *out);
  if (hf_open(&hf, config, pointer))
    read_model(&hf, quant_config, out);
}
