/* Layers with a state instead of a KV cache: gated delta rule (Qwen3-Next), its finer kin of Kimi-Linear, lightning
   attention (MiniMax-Text), short convolutions (LFM2); Mamba is in hf_state.c. Each fills the parameters and the state of
   one block; sizes for the operators share the linear_* fields. */
#include "api/hf.h"

#include <string.h>

#define HEADS_MAX 4096
#define HEAD_DIM_MAX 8192

/* The recurrent state in the format that the config names, the convolution's in 16 bits. */
void hf_linear_set_state(struct hf *hf, struct attention *a, uint64_t recurrent, uint64_t convolution)
{
  const char *name = hf_text(hf, "mamba_ssm_cache_dtype");
  enum precision precision;
  if (name == NULL)
    name = hf_text(hf, "mamba_ssm_dtype");
  precision = name != NULL ? precision_parse(name) : PRECISION_NONE;
  a->linear_state_elements = recurrent + convolution;
  a->linear_state_bytes = (precision == PRECISION_FP32 ? 4 : 2) * recurrent + 2 * convolution;
  if (precision != PRECISION_FP32 && recurrent != 0)
    hf_assume(hf, "the recurrent state of linear layers is kept in 16 bits");
}

/* q, k, v and output gate z from one projection, beta and alpha of each value head from another; a convolution over q, k
   and v without bias; decay and time step of each value head; a norm over one value head; the output projection. */
static void read_gated_delta(struct hf *hf, uint64_t hidden, struct attention *a)
{
  uint64_t keys;
  uint64_t values;
  (void)hf_need(hf, "linear_num_key_heads", 1, HEADS_MAX, &a->linear_key_heads);
  (void)hf_need(hf, "linear_key_head_dim", 1, HEAD_DIM_MAX, &a->linear_key_head_dim);
  (void)hf_need(hf, "linear_num_value_heads", 1, HEADS_MAX, &a->linear_value_heads);
  (void)hf_need(hf, "linear_value_head_dim", 1, HEAD_DIM_MAX, &a->linear_value_head_dim);
  (void)hf_need(hf, "linear_conv_kernel_dim", 1, 1024, &a->linear_conv_kernel);
  keys = (uint64_t)a->linear_key_heads * a->linear_key_head_dim;
  values = (uint64_t)a->linear_value_heads * a->linear_value_head_dim;
  a->linear_parameters = hidden * (2 * keys + 2 * values + 2ULL * a->linear_value_heads) + values * hidden;
  a->linear_parameters += (2 * keys + values) * a->linear_conv_kernel;
  a->linear_parameters += 2ULL * a->linear_value_heads + a->linear_value_head_dim;
  hf_linear_set_state(hf, a, values * a->linear_key_head_dim, (2 * keys + values) * a->linear_conv_kernel);
}

/* q, k, v, output gate and output projection of equal width, and a norm over all heads. */
static void read_lightning(struct hf *hf, uint64_t hidden, struct attention *a)
{
  unsigned heads = 0;
  unsigned head_dim = 0;
  uint64_t width;
  (void)hf_need(hf, "num_attention_heads", 1, HEADS_MAX, &heads);
  (void)hf_need(hf, "head_dim", 1, HEAD_DIM_MAX, &head_dim);
  width = (uint64_t)heads * head_dim;
  a->linear_key_heads = a->linear_value_heads = heads;
  a->linear_key_head_dim = a->linear_value_head_dim = head_dim;
  a->linear_parameters = 5 * hidden * width + width;
  hf_linear_set_state(hf, a, width * head_dim, 0);
}

/* Kimi-Linear. q, k and v with a short convolution each; a decay for every channel through a low rank, with its bias and a
   decay for each head; beta of each head; an output gate through a low rank; a norm over one head; the output. */
static void read_channel_delta(struct hf *hf, uint64_t hidden, struct attention *a)
{
  unsigned heads = 0;
  unsigned head_dim = 0;
  uint64_t width;
  (void)hf_need(hf, "linear_attn_config.num_heads", 1, HEADS_MAX, &heads);
  (void)hf_need(hf, "linear_attn_config.head_dim", 1, HEAD_DIM_MAX, &head_dim);
  (void)hf_need(hf, "linear_attn_config.short_conv_kernel_size", 1, 1024, &a->linear_conv_kernel);
  width = (uint64_t)heads * head_dim;
  a->linear_key_heads = a->linear_value_heads = heads;
  a->linear_key_head_dim = a->linear_value_head_dim = head_dim;
  a->linear_parameters = 4 * hidden * width + 3 * width * a->linear_conv_kernel;
  a->linear_parameters += 2 * head_dim * (hidden + width); /* decay and gate */
  a->linear_parameters += width + heads + hidden * heads + head_dim;
  hf_linear_set_state(hf, a, width * head_dim, 3 * width * a->linear_conv_kernel);
}

/* LFM2. Two gates and the input from one projection, a convolution over the input, the output projection. */
static void read_short_convolution(struct hf *hf, uint64_t hidden, struct attention *a)
{
  const bool has_bias = hf_flag(hf, "conv_bias", false);
  (void)hf_need(hf, "conv_L_cache", 1, 1024, &a->linear_conv_kernel);
  a->linear_parameters = 4 * hidden * hidden + hidden * a->linear_conv_kernel + (has_bias ? 5 * hidden : 0);
  hf_linear_set_state(hf, a, 0, hidden * a->linear_conv_kernel);
}

void hf_linear_read(struct hf *hf, const struct hf_sizes *sizes, struct attention *out)
{
  out->kind = ATTENTION_LINEAR;
  if (hf_has(hf, "linear_num_key_heads linear_num_value_heads"))
    read_gated_delta(hf, sizes->hidden, out);
  else if (hf_has(hf, "linear_attn_config"))
    read_channel_delta(hf, sizes->hidden, out);
  else if (hf_has(hf, "attn_type_list"))
    read_lightning(hf, sizes->hidden, out);
  else if (hf_has(hf, "conv_L_cache"))
    read_short_convolution(hf, sizes->hidden, out);
  else
    hf_state_read(hf, sizes, out);
}
