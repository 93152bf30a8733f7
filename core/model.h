/* A model's architecture as a list of layers, and the exact counts that follow from it: parameters, weight bytes,
   KV bytes per token. Built by api/hf_config.c from a Hugging Face config or a native architecture object; nothing
   here is decided by model name. A layer is one mixer of tokens (attention or a state) and one feed-forward, either may
   be absent: blocks that hold more than that are several layers in a row.
   Value struct: copy freely, owns nothing. All functions are pure.
   Source: CORE §1 of the design; parameter conventions are those of the published checkpoints (tests/data/model_facts.csv). */
#ifndef FITD_CORE_MODEL_H
#define FITD_CORE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/precision.h"

#define MODEL_NAME_MAX 64
#define MODEL_HF_ID_MAX 128
#define MODEL_LAYERS_MAX 1024     /* layers of one model */
#define MODEL_LAYER_KINDS_MAX 128 /* different layers of one model */
#define MODEL_HIDDEN_MAX 262144
#define MODEL_VOCAB_MAX 16777216
#define MODEL_CONTEXT_MAX 1073741824
#define MODEL_EXTRA_MAX 1125899906842624    /* parameters outside of layers, embeddings and head */
#define MODEL_LAYER_OTHER_MAX 1099511627776 /* other parameters of one layer */
#define MODEL_DRAFT_MODULES_MAX 64

enum attention_kind {
  ATTENTION_GROUPED, /* MHA, GQA, MQA: kv_heads tells which */
  ATTENTION_LATENT,  /* MLA: one compressed latent per token */
  ATTENTION_LINEAR,  /* linear attention or SSM: constant state per sequence */
  ATTENTION_NONE
};

struct attention {
  enum attention_kind kind;
  unsigned query_heads;
  unsigned kv_heads; /* GROUPED: 1 … query_heads */
  unsigned head_dim;
  unsigned value_head_dim;  /* = head_dim unless the config says otherwise */
  unsigned input_size;      /* width of what queries, keys and values are projected from; 0 = hidden_size */
  unsigned window_tokens;   /* sliding window or chunk; 0 = the whole context */
  unsigned query_norm_size; /* parameters of a norm on the queries; 0 = none */
  unsigned key_norm_size;
  bool has_qkv_bias;
  bool has_output_bias;
  bool has_output_gate;     /* the query projection carries a gate of the same width */
  bool values_are_keys;     /* no value projection: values are the keys before norm and rotation; both are cached */
  bool shares_kv;           /* uses an earlier layer's KV: holds none itself */
  unsigned sink_parameters; /* attention sinks, one per head where present */
  /* LATENT */
  unsigned query_lora_rank; /* 0 = full-rank query projection */
  unsigned kv_lora_rank;
  unsigned rope_head_dim;
  unsigned nope_head_dim;
  unsigned index_top_k; /* sparse attention by indexer; 0 = none */
  unsigned index_heads;
  unsigned index_head_dim;
  /* LINEAR */
  unsigned linear_key_heads;
  unsigned linear_key_head_dim;
  unsigned linear_value_heads;
  unsigned linear_value_head_dim;
  unsigned linear_conv_kernel;
  uint64_t linear_state_elements; /* per sequence and layer */
  uint64_t linear_state_bytes;    /* the same in bytes, at the formats of its parts; 0 = 2 bytes an element */
  uint64_t linear_parameters;     /* all parameters of the block: they do not follow from the fields above */
};

enum feed_forward_kind { FEED_FORWARD_DENSE, FEED_FORWARD_MOE, FEED_FORWARD_NONE };

struct feed_forward {
  enum feed_forward_kind kind;
  unsigned intermediate_size; /* DENSE: of the MLP; MOE: of one routed expert */
  bool is_gated;              /* three matrices (SwiGLU …) instead of two */
  bool has_up_bias;           /* on gate and up projections */
  bool has_down_bias;
  /* MOE */
  unsigned experts;
  unsigned experts_per_token;
  unsigned latent_size;              /* routed experts work on a projection of this width; 0 = on the hidden state */
  unsigned shared_intermediate_size; /* all shared experts together; 0 = none */
  bool has_router_bias;
  bool has_shared_gate; /* a sigmoid gate on the shared expert: hidden_size parameters */
  bool has_expert_bias;
};

/* One kind of layer. norm_parameters counts all norms of the layer but query and key norms. */
struct layer {
  struct attention attention;
  struct feed_forward feed_forward;
  unsigned norm_parameters;
  bool shares_parameters;    /* runs with an earlier layer's parameters: stores none itself, its KV is its own */
  uint64_t other_parameters; /* matrices beside attention and feed-forward, multiplied once a token (adapters …) */
};

/* Multi-token prediction: modules beside the decoder that draft tokens. Each projects the hidden state and the embedding
   of the next token together to hidden_size, runs one layer, and normalises both inputs and the output. */
struct draft {
  unsigned modules;        /* 0 = none */
  bool has_own_embeddings; /* each stores a copy of the input embedding and the head */
  struct layer layer;
};

/* Format per module group, as the checkpoint stores it (STEPMODEL §1.4). */
struct model_precision {
  enum precision embeddings; /* input embedding and norms */
  enum precision attention;
  enum precision dense; /* dense feed-forward and shared experts */
  enum precision experts;
  enum precision head;     /* lm_head */
  enum precision kv_cache; /* NONE = the config does not say */
  bool has_static_scales;  /* per-tensor static activation scales: no separate activation quantisation kernel */
  double
      quantised_weight_bytes; /* of one int4, nf4 or int8 weight with its scales and zeros; 0 = precision_weight_bytes */
  /* 8-bit weights otherwise: so many outputs and inputs of a matrix share one scale of 4 bytes; 0 = all of them. */
  unsigned scale_block_outputs;
  unsigned scale_block_inputs;
};

struct model {
  char name[MODEL_NAME_MAX + 1];
  char hf_id[MODEL_HF_ID_MAX + 1]; /* what an engine loads; "" = not known */
  unsigned hidden_size;
  unsigned vocab_size;
  unsigned max_context_tokens; /* 0 = not stated */
  unsigned layer_count;
  unsigned layer_kind_count;
  uint8_t layer_order[MODEL_LAYERS_MAX]; /* kind of each layer, first to last */
  struct layer layers[MODEL_LAYER_KINDS_MAX];
  bool has_tied_embeddings;
  bool has_head_bias;
  unsigned final_norm_parameters;
  unsigned embedding_norm_parameters;  /* norm straight after the embedding (BLOOM); 0 = none */
  unsigned position_embeddings;        /* rows of a learned position table; 0 = rotary or none */
  uint64_t layer_embedding_parameters; /* embeddings that layers look up for themselves; 0 = none */
  uint64_t extra_parameters;  /* of the decoder, outside of layers, embeddings and head; multiplied once a token */
  uint64_t vision_parameters; /* vision tower and projector: beside the decoder, in none of the totals */
  struct draft draft;         /* likewise */
  struct model_precision precision;
};

/* How many layers of one kind the model has. */
unsigned model_layers_of_kind(const struct model *model, unsigned kind);

/* Adds `count` layers like `layer` at the end; equal layers share one kind. ERR_LIMIT when a bound above is hit. */
enum err model_append_layers(struct model *model, const struct layer *layer, unsigned count,
                             struct error *e) MUST_CHECK;

/* Checks that the numbers are possible (sizes > 0, kv_heads divides query_heads …); adds faults with pointers
   relative to the native architecture object ("/layers/0/attention/num_key_value_heads", "/hidden_size"); layers are
   numbered by runs of equal ones, as the object lists them. */
void model_check(const struct model *model, struct faults *faults);

/* Parameters by module; of one layer, or of the whole model. Exact integers. */
struct parameter_counts {
  uint64_t attention;
  uint64_t dense; /* dense feed-forward and shared experts with their gates, and the layer's other matrices */
  uint64_t router;
  uint64_t experts;        /* all routed experts */
  uint64_t experts_active; /* the experts_per_token of them that one token uses */
  uint64_t norms;
  uint64_t embeddings; /* input embedding, position table, embeddings of layers, embedding norm */
  uint64_t head;       /* lm_head matrix and bias; 0 when tied and without bias */
  uint64_t extra;
  uint64_t scales; /* of 8-bit weights; stored beside the parameters, in none of the totals */
};
/* Of a layer that shares parameters: what it runs with, though it stores none of it. */
struct parameter_counts model_layer_parameters(const struct model *model, const struct layer *layer);
struct parameter_counts model_parameters(const struct model *model); /* shared ones counted once */
struct parameter_counts model_draft_parameters(const struct model *model);
uint64_t parameter_counts_total(const struct parameter_counts *counts);
uint64_t model_parameters_total(const struct model *model);
uint64_t model_parameters_active(const struct model *model); /* input embedding and head included */

/* Bytes of one weight of the model in a format: the checkpoint's group size where it is stored in that format. */
double model_bytes_per_weight(const struct model *model, enum precision precision);

/* Bytes of the decoder's weights on disk at the model's own formats: matrices in the format of their group, with their
   scales; routers, norms and biases in the embeddings' format. */
double model_weights_bytes(const struct model *model);

/* KV bytes one token adds over all layers, in the given format (NONE = bf16): `growing` for layers over the whole
   context, `windowed` for layers that stop growing at their window. */
struct kv_bytes {
  double growing_per_token_bytes;
  double windowed_per_token_bytes;
  double state_per_sequence_bytes; /* linear layers */
};
struct kv_bytes model_kv_bytes(const struct model *model, enum precision kv_cache);

/* KV bytes of one sequence with `tokens` of context: windows and states taken into account. */
double model_kv_sequence_bytes(const struct model *model, enum precision kv_cache, double tokens);

/* "mha", "gqa", "mqa", "mla", "linear", "none". */
const char *attention_name(const struct attention *attention);

#endif
