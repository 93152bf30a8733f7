/* Reading a Hugging Face config.json: the parts shared by the files hf_*.c. A config is read leniently (unknown keys are
   ignored), but what is read must be right: every wrong value becomes a fault at its key, every value that the config
   leaves to its class becomes an assumption. Private to api/. */
#ifndef FITD_API_HF_H
#define FITD_API_HF_H

#include <jansson.h>

#include "core/model.h"

/* What the class behind a `model_type` does that its config does not say (hf_traits.c). */
enum hf_trait {
  HF_TIED = 1U << 0,      /* ties the head to the embedding unless told otherwise */
  HF_PLAIN_MLP = 1U << 1, /* two matrices instead of three */
  HF_QKV_BIAS = 1U << 2,  /* biases where no key tells */
  HF_OUTPUT_BIAS = 1U << 3,
  HF_MLP_BIAS = 1U << 4,
  HF_HEAD_BIAS = 1U << 5,
  HF_NORM_BIAS = 1U << 6,     /* layer norms with weight and bias instead of RMS norms */
  HF_QK_NORM_HEAD = 1U << 7,  /* query and key norms over one head */
  HF_QK_NORM_FULL = 1U << 8,  /* … over all heads */
  HF_QKV_BIAS_ONLY = 1U << 9, /* attention_bias leaves the output projection alone */
  HF_POSITIONS = 1U << 10,    /* learned position table */
  HF_EMBEDDING_NORM = 1U << 11,
  HF_ROUTER_BIAS = 1U << 12, /* also a correction bias of the router */
  HF_SINKS = 1U << 13,
  HF_OUTPUT_GATE = 1U << 14,
  HF_NORM_BY_FIELDS = 1U << 15, /* norms per layer depend on fields (Falcon) */
  HF_EXPERT_BIAS = 1U << 16,
  HF_QK_NORM_BY_KEY = 1U << 17,      /* … only where use_qk_norm says so */
  HF_SHARED_EXPERT = 1U << 18,       /* one shared expert as wide as a routed one, without a key for it */
  HF_BIAS_BY_KEY = 1U << 19,         /* attention_bias is an option of the class */
  HF_WINDOW_OPTION = 1U << 20,       /* so is a window, in all layers */
  HF_DRAFT_COPIES = 1U << 21,        /* prediction modules store copies of embedding and head */
  HF_DRAFT_UNSAID = 1U << 22,        /* checkpoints hold one prediction module without a key for it */
  HF_STATE_NORMS = 1U << 23,         /* norms on time step, B and C of Mamba-1 */
  HF_UNUSED_KV_STORED = 1U << 24,    /* layers that share an earlier KV store projections for it all the same */
  HF_LAYER_LIST_NEEDED = 1U << 25,   /* layers of different kinds, in an order of the checkpoint's own */
  HF_EXPERT_WIDTH_BY_KEY = 1U << 26, /* experts have a width of their own */
  HF_SHARED_BY_KEY = 1U << 27,       /* so have shared experts */
  HF_STATE_NORM_BY_KEY = 1U << 28    /* Mamba-2's gated norm is an option of the class */
};
struct hf_traits {
  const char *model_type;
  unsigned flags;
  unsigned norms;         /* per layer, query and key norms not counted */
  unsigned full_interval; /* every n-th layer sees the whole context where the config has a window; 0 = none does */
  unsigned extra_positions;
};
/* The row of a model_type; the Llama-like default with *is_known false when there is none. */
const struct hf_traits *hf_traits_find(const char *model_type, bool *is_known);

/* Keys of the decoder's part that were looked up and found: what is left over may be structure that nobody read. */
#define HF_USED_MAX 320
struct hf_used {
  size_t count;
  const char *keys[HF_USED_MAX]; /* borrowed from the config */
};

struct hf {
  const json_t *root, *text; /* text: the decoder's part (text_config …), or root itself */
  char root_pointer[128], text_pointer[128];
  const char *model_type; /* "" = not given */
  const struct hf_traits *traits;
  bool is_known_type;
  struct hf_used *used;
  json_t *assumptions;
  struct faults *faults;
  size_t faults_before; /* of other parts of the body */
};
bool hf_has_trait(const struct hf *hf, enum hf_trait trait);

/* First of the space-separated `keys` that is present and not null in the decoder's part; `pointer` gets its place. A key
   "a.b" is b of the object a. */
const json_t *hf_get(const struct hf *hf, const char *keys, char pointer[160]);
bool hf_has(const struct hf *hf, const char *keys);
/* Neither a value nor null: the config does not speak of it at all. */
bool hf_is_silent(const struct hf *hf, const char *keys);
/* The value when it is a positive whole number, else 0: for decisions, where reading adds the faults elsewhere. */
unsigned hf_peek(const struct hf *hf, const char *keys);

/* Whole numbers. False when absent or faulty (fault added). hf_need adds a fault when absent. */
bool hf_count(struct hf *hf, const char *keys, unsigned least, unsigned largest, unsigned *to);
bool hf_need(struct hf *hf, const char *keys, unsigned least, unsigned largest, unsigned *to);
bool hf_flag(struct hf *hf, const char *keys, bool otherwise);
/* NULL when absent or faulty. */
const char *hf_text(struct hf *hf, const char *keys);
const json_t *hf_list(struct hf *hf, const char *keys);
void hf_fault(struct hf *hf, enum fault_code code, const char *keys, const char *format, ...) PRINTF_LIKE(4, 5);
void hf_fault_at(struct hf *hf, enum fault_code code, const char *pointer, const char *format, ...) PRINTF_LIKE(4, 5);
void hf_assume(struct hf *hf, const char *format, ...) PRINTF_LIKE(2, 3);

/* Sizes of the whole model, read first. */
struct hf_sizes {
  unsigned hidden, vocab, context;
};

/* hf_unread.c: keys that change the architecture in ways that are not counted are faults; keys of an unknown model_type
   that look like structure and were not read become an assumption. */
void hf_refuse_unsupported(struct hf *hf);
void hf_name_unread(struct hf *hf);

/* What each layer consists of: a row for each, or several where a block holds more than one mixer. */
enum hf_mixer { HF_MIXER_FULL, HF_MIXER_WINDOW, HF_MIXER_LINEAR, HF_MIXER_NONE };
enum hf_mlp { HF_MLP_DENSE, HF_MLP_MOE, HF_MLP_NONE };
struct hf_row {
  uint8_t mixer, mlp;
  uint8_t norms; /* of hidden_size each */
  bool shares_kv, shares_parameters;
  unsigned kv_heads, intermediate_size; /* where the config lists them by layer, else 0 */
  uint64_t other_parameters;
};
struct hf_plan {
  unsigned rows;
  unsigned window_tokens; /* of HF_MIXER_WINDOW rows */
  struct hf_row row[MODEL_LAYERS_MAX];
};

/* hf_plan.c: how many layers, and which layer is what. After a fault in their number one
   plain layer is planned, so that the other keys are still checked. */
void hf_plan_read(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan);
bool hf_plan_uses(const struct hf_plan *plan, enum hf_mixer mixer);
bool hf_plan_uses_mlp(const struct hf_plan *plan, enum hf_mlp mlp);

/* Parts of the plan. Lists have one entry a layer: NULL, with a fault, when they do not. */
const json_t *hf_layer_list(struct hf *hf, const char *keys, unsigned layers);
#define HF_LAYER_TYPES "layer_types layers_block_type"
#define HF_EXPERTS "num_local_experts num_experts n_routed_experts moe_num_experts ffn_config.moe_num_experts"
#define HF_EXPERTS_PER_TOKEN                                                                                           \
  "num_experts_per_tok num_experts_per_token experts_per_token top_k_experts moe_k moe_top_k ffn_config.moe_top_k"
#define HF_WINDOW "sliding_window sliding_window_size attention_chunk_size"
#define HF_HEADS "num_attention_heads n_head n_heads"
void hf_plan_windows(struct hf *hf, struct hf_plan *plan);                        /* hf_windows.c */
void hf_plan_fill_windows(struct hf *hf, unsigned context, struct hf_plan *plan); /* their size, or none */
void hf_plan_every(struct hf_plan *plan, unsigned interval, enum hf_mixer between);
void hf_plan_numbers(struct hf *hf, struct hf_plan *plan, const char *keys, const enum hf_mixer mixers[2]);
void hf_plan_experts(struct hf *hf, struct hf_plan *plan); /* hf_experts.c */
bool hf_plan_hybrid(struct hf *hf, const struct hf_sizes *sizes,
                    struct hf_plan *plan); /* hf_hybrid.c: false when the config is none */

/* Attention of full, windowed and linear layers; only what the plan uses is read. hf_attention.c, hf_linear.c, hf_state.c */
struct hf_attention {
  struct attention full, window, linear;
};
void hf_attention_read(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan, struct hf_attention *out);
void hf_linear_read(struct hf *hf, const struct hf_sizes *sizes, struct attention *out);
void hf_state_read(struct hf *hf, const struct hf_sizes *sizes, struct attention *out);
void hf_linear_set_state(struct hf *hf, struct attention *a, uint64_t recurrent, uint64_t convolution);

/* hf_feed_forward.c */
struct hf_feed_forward {
  struct feed_forward dense, moe;
};
void hf_feed_forward_read(struct hf *hf, const struct hf_sizes *sizes, const struct hf_plan *plan,
                          struct hf_feed_forward *out);
/* `bias`, `use_bias` and the like speak for every linear layer of the classes that have them. */
bool hf_bias(struct hf *hf, enum hf_trait trait);

/* hf_gemma.c: what Gemma-3n and Gemma-4 add to layers: embeddings of their own, shared KV, low-rank side paths. */
void hf_gemma_read(struct hf *hf, const struct hf_sizes *sizes, struct hf_plan *plan, struct model *out);

/* What is stored beside the decoder: hf_draft.c, hf_vision.c. */
void hf_draft_read(struct hf *hf, const struct hf_plan *plan, const struct hf_attention *attention,
                   const struct hf_feed_forward *feed_forward, unsigned norm_parameters, struct model *out);
void hf_vision_read(struct hf *hf, struct model *out);

/* hf_quantisation.c: formats of the module groups. `quant_config` is a hf_quant_config.json, or NULL. */
void hf_precision_read(struct hf *hf, const json_t *quant_config, const struct model *model,
                       struct model_precision *out);

/* hf_ignored.c: whether most layers of a group are among the `ignored` modules (a list, or NULL). */
enum hf_group { HF_GROUP_ATTENTION, HF_GROUP_DENSE, HF_GROUP_EXPERTS, HF_GROUP_HEAD, HF_GROUP_ALL, HF_GROUP_OTHER };
bool hf_is_left_alone(struct hf *hf, const json_t *ignored, const struct model *model, enum hf_group group);

#endif
