/* State space layers: Mamba-1 (a decay for every channel and state element) and Mamba-2 (one for every head). */
#include "api/hf.h"

#define HEADS_MAX 4096
#define HEAD_DIM_MAX 8192
#define INNER_MAX 1048576
#define GROUPS "n_groups mamba_n_groups mamba_ngroups"
#define STATE "ssm_state_size mamba_d_state state_size"
#define KERNEL "conv_kernel mamba_d_conv"

static uint64_t conv_bias(struct hf *hf, uint64_t convolved)
{
  if (!hf_has(hf, "use_conv_bias mamba_conv_bias"))
    hf_assume(hf, "use_conv_bias is not given: the convolution has a bias");
  return hf_flag(hf, "use_conv_bias mamba_conv_bias", true) ? convolved : 0;
}

/* The width of the block, told as a multiple of hidden_size. */
static uint64_t expanded(struct hf *hf, uint64_t hidden)
{
  unsigned expand = 2;
  if (!hf_count(hf, "mamba_expand expand", 1, 64, &expand))
    hf_assume(hf, "expand is not given: the state block is %u times as wide as hidden_size", expand);
  return hidden * expand;
}

static void read_heads(struct hf *hf, uint64_t hidden, struct attention *a)
{
  static const char dims[] = "mamba_head_dim mamba_d_head";
  const char *keys = hf_has(hf, HF_HEADS) ? "mamba_num_heads mamba_n_heads n_mamba_heads" : "num_heads";
  (void)hf_need(hf, keys, 1, HEADS_MAX, &a->linear_value_heads);
  if (hf_has(hf, dims)) {
    (void)hf_count(hf, dims, 1, HEAD_DIM_MAX, &a->linear_value_head_dim);
  } else if (!hf_has(hf, HF_HEADS)) {
    (void)hf_need(hf, "head_dim", 1, HEAD_DIM_MAX, &a->linear_value_head_dim);
  } else if (a->linear_value_heads != 0) {
    const uint64_t inner = expanded(hf, hidden);
    a->linear_value_head_dim = (unsigned)(inner / a->linear_value_heads);
    hf_assume(hf, "the head size of state layers is not given: their width / heads = %u", a->linear_value_head_dim);
    if (inner % a->linear_value_heads != 0 || a->linear_value_head_dim > HEAD_DIM_MAX)
      hf_fault(hf, FAULT_CONFLICT, keys, "%u heads do not divide a block %ju wide into heads of at most %d",
               a->linear_value_heads, (uintmax_t)inner, HEAD_DIM_MAX);
  }
}

/* Whether a gated norm follows the state. */
static bool has_norm(struct hf *hf)
{
  if (!hf_has_trait(hf, HF_STATE_NORM_BY_KEY))
    return true;
  if (!hf_has(hf, "mamba_rms_norm"))
    hf_assume(hf, "mamba_rms_norm is not given: no norm behind the state");
  return hf_flag(hf, "mamba_rms_norm", false);
}

/* One projection to gate, x, B, C and time steps; a convolution over x, B and C; decay, skip and time step bias of each
   head; a gated norm; the output projection. Groups share B and C as key heads do. */
static void read_mamba2(struct hf *hf, uint64_t hidden, struct attention *a)
{
  uint64_t inner;
  uint64_t convolved;
  uint64_t projected;
  const bool has_bias = hf_flag(hf, "mamba_proj_bias use_bias add_bias_linear", false);
  read_heads(hf, hidden, a);
  (void)hf_need(hf, GROUPS, 1, HEADS_MAX, &a->linear_key_heads);
  (void)hf_need(hf, STATE, 1, HEAD_DIM_MAX, &a->linear_key_head_dim);
  (void)hf_need(hf, KERNEL, 1, 1024, &a->linear_conv_kernel);
  inner = (uint64_t)a->linear_value_heads * a->linear_value_head_dim;
  convolved = inner + 2ULL * a->linear_key_heads * a->linear_key_head_dim;
  projected = inner + convolved + a->linear_value_heads;
  a->linear_parameters = hidden * projected + inner * hidden;
  a->linear_parameters += (has_bias ? projected : 0) + (hf_flag(hf, "projectors_bias", has_bias) ? hidden : 0);
  a->linear_parameters += convolved * a->linear_conv_kernel + conv_bias(hf, convolved);
  a->linear_parameters += 3ULL * a->linear_value_heads + (has_norm(hf) ? inner : 0);
  hf_linear_set_state(hf, a, inner * a->linear_key_head_dim, convolved * a->linear_conv_kernel);
}

/* The rank of the time step: a number, or "auto" for a 16th of hidden_size. */
static unsigned time_step_rank(struct hf *hf, unsigned hidden)
{
  static const char keys[] = "time_step_rank mamba_dt_rank";
  char pointer[160];
  unsigned rank = (hidden + 15) / 16;
  const json_t *value = hf_get(hf, keys, pointer);
  if (value == NULL)
    hf_assume(hf, "the rank of the time step is not given: hidden_size / 16 = %u", rank);
  else if (!json_is_string(value))
    (void)hf_count(hf, keys, 1, 65536, &rank);
  return rank;
}

/* The block's own width, which Jamba calls otherwise because intermediate_size is its MLP's. */
static uint64_t inner_size(struct hf *hf, uint64_t hidden)
{
  unsigned inner = 0;
  if (!hf_has(hf, HF_HEADS) && hf_count(hf, "intermediate_size", 1, INNER_MAX, &inner))
    return inner;
  if (!hf_has(hf, HF_HEADS))
    hf_assume(hf, "intermediate_size is not given: expand tells the width of the state blocks");
  return expanded(hf, hidden);
}

/* One projection to x and gate; a convolution over x; time step, B and C from x, with norms in Jamba; the time step back
   to all channels, with a bias; decays, a skip; the output projection. */
static void read_mamba1(struct hf *hf, uint64_t hidden, struct attention *a)
{
  const bool has_bias = hf_flag(hf, "mamba_proj_bias use_bias", false);
  const uint64_t inner = inner_size(hf, hidden);
  const uint64_t rank = time_step_rank(hf, (unsigned)hidden);
  unsigned state = 0;
  (void)hf_need(hf, STATE, 1, HEAD_DIM_MAX, &state);
  (void)hf_need(hf, KERNEL, 1, 1024, &a->linear_conv_kernel);
  a->linear_parameters = 3 * hidden * inner + (has_bias ? 2 * inner + hidden : 0);
  a->linear_parameters += inner * a->linear_conv_kernel + conv_bias(hf, inner);
  a->linear_parameters += inner * (rank + 2ULL * state) + rank * inner + inner;
  a->linear_parameters += inner * state + inner;
  a->linear_parameters += hf_has_trait(hf, HF_STATE_NORMS) ? rank + 2ULL * state : 0;
  if (hf_has_trait(hf, HF_STATE_NORMS))
    hf_assume(hf, "time step, B and C are normalised, as the class \"%s\" does", hf->model_type);
  hf_linear_set_state(hf, a, inner * state, inner * a->linear_conv_kernel);
}

void hf_state_read(struct hf *hf, const struct hf_sizes *sizes, struct attention *out)
{
  if (hf_has(hf, GROUPS))
    read_mamba2(hf, sizes->hidden, out);
  else if (hf_has(hf, "n_mamba_heads mamba_n_heads mamba_num_heads num_heads"))
    hf_fault(hf, FAULT_MISSING, GROUPS, "needed beside the heads of state space layers");
  else if (hf_has(hf, STATE))
    read_mamba1(hf, sizes->hidden, out);
  else
    hf_fault(
        hf, FAULT_UNSUPPORTED, HF_LAYER_TYPES " hybrid_override_pattern full_attention_interval",
        "linear layers without linear_num_key_heads …, n_groups …, state_size … or conv_L_cache are not supported");
}
