/* Class defaults by the config's `model_type` field: only what the config leaves to the class. A value given in the
   config always wins over its row. Source: the model classes of the transformers library and the published
   parameter counts (tests/data/model_facts.csv). */
#include "api/hf.h"

#include <string.h>

#define ALL_BIASES (HF_QKV_BIAS | HF_OUTPUT_BIAS | HF_MLP_BIAS)
#define GPT_LIKE (HF_PLAIN_MLP | HF_NORM_BIAS)
#define QWEN2_LIKE (HF_QKV_BIAS | HF_QKV_BIAS_ONLY)
#define DEEPSEEK_LIKE (HF_BIAS_BY_KEY | HF_EXPERT_WIDTH_BY_KEY)
#define GEMMA_LIKE (HF_TIED | HF_BIAS_BY_KEY)
#define GEMMA3_LIKE (GEMMA_LIKE | HF_QK_NORM_HEAD | HF_WINDOW_OPTION)
#define QWEN3_LIKE (HF_QK_NORM_HEAD | HF_BIAS_BY_KEY)
#define QWEN35_LIKE (QWEN3_LIKE | HF_OUTPUT_GATE | HF_EXPERT_WIDTH_BY_KEY | HF_SHARED_BY_KEY)
#define LLAMA4_LIKE (HF_QK_NORM_BY_KEY | HF_SHARED_EXPERT | HF_BIAS_BY_KEY | HF_WINDOW_OPTION)
#define GRANITE_LIKE (HF_TIED | HF_BIAS_BY_KEY | HF_SHARED_BY_KEY)

static const struct hf_traits table[] = {
    {"bamba", HF_BIAS_BY_KEY, 2, 0, 0},
    {"bloom", GPT_LIKE | ALL_BIASES | HF_TIED | HF_EMBEDDING_NORM, 2, 0, 0},
    {"chatglm", HF_BIAS_BY_KEY, 2, 0, 0},
    {"cohere", HF_TIED | HF_QK_NORM_FULL | HF_QK_NORM_BY_KEY | HF_BIAS_BY_KEY, 1, 0, 0},
    {"cohere2", HF_TIED | HF_BIAS_BY_KEY | HF_WINDOW_OPTION, 1, 4, 0},
    {"dbrx", 0, 2, 0, 0},
    {"deepseek", DEEPSEEK_LIKE, 2, 0, 0},
    {"deepseek_v2", DEEPSEEK_LIKE, 2, 0, 0},
    {"deepseek_v3", DEEPSEEK_LIKE | HF_ROUTER_BIAS | HF_DRAFT_COPIES, 2, 0, 0},
    {"deepseek_v32", DEEPSEEK_LIKE | HF_ROUTER_BIAS | HF_DRAFT_COPIES, 2, 0, 0},
    {"ernie4_5", HF_TIED, 2, 0, 0},
    {"ernie4_5_moe", HF_TIED | HF_ROUTER_BIAS | HF_EXPERT_WIDTH_BY_KEY, 2, 0, 0},
    {"falcon", GPT_LIKE | HF_TIED | HF_NORM_BY_FIELDS, 2, 0, 0},
    {"falcon_h1", HF_BIAS_BY_KEY | HF_STATE_NORM_BY_KEY, 2, 0, 0},
    {"falcon_mamba", HF_TIED, 1, 0, 0},
    {"gemma", GEMMA_LIKE, 2, 0, 0},
    {"gemma2", GEMMA_LIKE | HF_WINDOW_OPTION, 4, 2, 0},
    {"gemma3", GEMMA3_LIKE, 4, 6, 0},
    {"gemma3_text", GEMMA3_LIKE, 4, 6, 0},
    {"gemma3n", GEMMA3_LIKE | HF_UNUSED_KV_STORED, 4, 5, 0},
    {"gemma3n_text", GEMMA3_LIKE | HF_UNUSED_KV_STORED, 4, 5, 0},
    {"gemma4", GEMMA3_LIKE | HF_ROUTER_BIAS | HF_EXPERT_WIDTH_BY_KEY, 4, 6, 0},
    {"gemma4_text", GEMMA3_LIKE | HF_ROUTER_BIAS | HF_EXPERT_WIDTH_BY_KEY, 4, 6, 0},
    {"glm4_moe",
     DEEPSEEK_LIKE | HF_QK_NORM_HEAD | HF_QK_NORM_BY_KEY | HF_QKV_BIAS_ONLY | HF_ROUTER_BIAS | HF_DRAFT_COPIES, 2, 0,
     0},
    {"glm_moe_dsa", DEEPSEEK_LIKE | HF_ROUTER_BIAS, 2, 0, 0},
    {"gpt2", GPT_LIKE | ALL_BIASES | HF_TIED | HF_POSITIONS, 2, 0, 0},
    {"gpt_bigcode", GPT_LIKE | ALL_BIASES | HF_TIED | HF_POSITIONS, 2, 0, 0},
    {"gpt_neox", GPT_LIKE | ALL_BIASES, 2, 0, 0},
    {"gpt_oss", HF_QKV_BIAS | HF_OUTPUT_BIAS | HF_SINKS | HF_ROUTER_BIAS | HF_EXPERT_BIAS | HF_WINDOW_OPTION, 2, 2, 0},
    {"gptj", GPT_LIKE | HF_MLP_BIAS | HF_HEAD_BIAS, 1, 0, 0},
    {"granite", HF_BIAS_BY_KEY, 2, 0, 0},
    {"granitemoe", HF_BIAS_BY_KEY, 2, 0, 0},
    {"granitemoehybrid", GRANITE_LIKE, 2, 0, 0},
    {"granitemoeshared", HF_BIAS_BY_KEY | HF_SHARED_BY_KEY, 2, 0, 0},
    {"jamba", HF_STATE_NORMS, 2, 0, 0},
    {"kimi_k2", DEEPSEEK_LIKE | HF_ROUTER_BIAS, 2, 0, 0},
    {"kimi_linear", HF_LAYER_LIST_NEEDED | HF_ROUTER_BIAS | HF_EXPERT_WIDTH_BY_KEY, 2, 0, 0},
    {"lfm2", HF_TIED | HF_QK_NORM_HEAD, 2, 0, 0},
    {"lfm2_moe", HF_TIED | HF_QK_NORM_HEAD | HF_EXPERT_WIDTH_BY_KEY, 2, 0, 0},
    {"llama", HF_BIAS_BY_KEY, 2, 0, 0},
    {"llama4", LLAMA4_LIKE, 2, 4, 0},
    {"llama4_text", LLAMA4_LIKE, 2, 4, 0},
    {"mamba", HF_TIED, 1, 0, 0},
    {"mamba2", 0, 1, 0, 0},
    {"mimo", QWEN2_LIKE, 2, 0, 0},
    {"minimax_m2", HF_QK_NORM_FULL, 2, 0, 0},
    {"minimax_text_01", HF_LAYER_LIST_NEEDED | HF_SHARED_BY_KEY, 2, 0, 0},
    {"ministral3", HF_WINDOW_OPTION, 2, 0, 0},
    {"mistral", HF_WINDOW_OPTION, 2, 0, 0},
    {"mistral3", HF_WINDOW_OPTION, 2, 0, 0},
    {"mixtral", HF_WINDOW_OPTION, 2, 0, 0},
    {"mpt", GPT_LIKE | ALL_BIASES | HF_TIED, 2, 0, 0},
    {"nemotron-nas", HF_BIAS_BY_KEY, 2, 0, 0},
    {"nemotron_h", HF_PLAIN_MLP | HF_EXPERT_WIDTH_BY_KEY | HF_SHARED_BY_KEY, 1, 0, 0},
    {"olmo", HF_BIAS_BY_KEY, 0, 0, 0},
    {"olmo2", HF_QK_NORM_FULL | HF_BIAS_BY_KEY, 2, 0, 0},
    {"olmo3", HF_QK_NORM_FULL | HF_BIAS_BY_KEY | HF_WINDOW_OPTION, 2, 4, 0},
    {"olmoe", HF_QK_NORM_FULL | HF_BIAS_BY_KEY, 2, 0, 0},
    {"opt", GPT_LIKE | ALL_BIASES | HF_TIED | HF_POSITIONS, 2, 0, 2},
    {"phi", GPT_LIKE | ALL_BIASES | HF_HEAD_BIAS, 1, 0, 0},
    {"phi3", HF_WINDOW_OPTION, 2, 0, 0},
    {"qwen2", QWEN2_LIKE, 2, 0, 0},
    {"qwen2_5_vl", QWEN2_LIKE, 2, 0, 0},
    {"qwen2_moe", QWEN2_LIKE | HF_EXPERT_WIDTH_BY_KEY | HF_SHARED_BY_KEY, 2, 0, 0},
    {"qwen2_vl", QWEN2_LIKE, 2, 0, 0},
    {"qwen3", QWEN3_LIKE, 2, 0, 0},
    {"qwen3_5", QWEN35_LIKE, 2, 0, 0},
    {"qwen3_5_moe", QWEN35_LIKE, 2, 0, 0},
    {"qwen3_5_moe_text", QWEN35_LIKE, 2, 0, 0},
    {"qwen3_5_text", QWEN35_LIKE, 2, 0, 0},
    {"qwen3_moe", QWEN3_LIKE | HF_EXPERT_WIDTH_BY_KEY, 2, 0, 0},
    {"qwen3_next", QWEN35_LIKE | HF_DRAFT_UNSAID, 2, 0, 0},
    {"qwen3_vl", QWEN3_LIKE, 2, 0, 0},
    {"qwen3_vl_moe", QWEN3_LIKE | HF_EXPERT_WIDTH_BY_KEY, 2, 0, 0},
    {"qwen3_vl_moe_text", QWEN3_LIKE | HF_EXPERT_WIDTH_BY_KEY, 2, 0, 0},
    {"qwen3_vl_text", QWEN3_LIKE, 2, 0, 0},
    {"seed_oss", QWEN2_LIKE, 2, 0, 0},
    {"starcoder2", GPT_LIKE | ALL_BIASES | HF_TIED | HF_WINDOW_OPTION, 2, 0, 0},
    {"zamba2", HF_TIED | HF_LAYER_LIST_NEEDED, 2, 0, 0},
};
static const struct hf_traits llama_like = {"", HF_QK_NORM_HEAD | HF_QK_NORM_BY_KEY | HF_BIAS_BY_KEY, 2, 0, 0};

const struct hf_traits *hf_traits_find(const char *model_type, bool *is_known)
{
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (strcmp(table[i].model_type, model_type) == 0) {
      *is_known = true;
      return &table[i];
    }
  *is_known = false;
  return &llama_like;
}
