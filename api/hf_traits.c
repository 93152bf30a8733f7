/* Class defaults by the config's `model_type` field: only what the config leaves to the class. A value given in the
   config always wins over its row. Source: the model classes of the transformers library and the published
   parameter counts (tests/data/model_facts.csv). */
#include "api/hf.h"

#include <string.h>

#define ALL_BIASES (HF_QKV_BIAS | HF_OUTPUT_BIAS | HF_MLP_BIAS)
#define GPT_LIKE (HF_PLAIN_MLP | HF_NORM_BIAS)

static const struct hf_traits table[] = {
    {"bloom", GPT_LIKE | ALL_BIASES | HF_TIED | HF_EMBEDDING_NORM, 2, 0, 0},
    {"cohere", HF_TIED | HF_QK_NORM_FULL | HF_QK_NORM_BY_KEY, 1, 0, 0},
    {"cohere2", HF_TIED, 1, 4, 0},
    {"deepseek", 0, 2, 0, 0},
    {"deepseek_v2", 0, 2, 0, 0},
    {"deepseek_v3", HF_ROUTER_BIAS, 2, 0, 0},
    {"deepseek_v32", HF_ROUTER_BIAS, 2, 0, 0},
    {"falcon", GPT_LIKE | HF_TIED | HF_NORM_BY_FIELDS, 2, 0, 0},
    {"gemma", HF_TIED, 2, 0, 0},
    {"gemma2", HF_TIED, 4, 2, 0},
    {"gemma3", HF_TIED | HF_QK_NORM_HEAD, 4, 6, 0},
    {"gemma3_text", HF_TIED | HF_QK_NORM_HEAD, 4, 6, 0},
    {"glm4_moe", HF_QK_NORM_HEAD | HF_QK_NORM_BY_KEY | HF_QKV_BIAS_ONLY | HF_ROUTER_BIAS, 2, 0, 0},
    {"glm_moe_dsa", HF_ROUTER_BIAS, 2, 0, 0},
    {"gpt2", GPT_LIKE | ALL_BIASES | HF_TIED | HF_POSITIONS, 2, 0, 0},
    {"gpt_bigcode", GPT_LIKE | ALL_BIASES | HF_TIED | HF_POSITIONS, 2, 0, 0},
    {"gpt_neox", GPT_LIKE | ALL_BIASES, 2, 0, 0},
    {"gpt_oss", HF_QKV_BIAS | HF_OUTPUT_BIAS | HF_SINKS | HF_ROUTER_BIAS | HF_EXPERT_BIAS, 2, 2, 0},
    {"gptj", GPT_LIKE | HF_MLP_BIAS | HF_HEAD_BIAS, 1, 0, 0},
    {"granite", 0, 2, 0, 0},
    {"granitemoe", 0, 2, 0, 0},
    {"kimi_k2", HF_ROUTER_BIAS, 2, 0, 0},
    {"llama", 0, 2, 0, 0},
    {"llama4", HF_QK_NORM_BY_KEY | HF_SHARED_EXPERT, 2, 4, 0},
    {"llama4_text", HF_QK_NORM_BY_KEY | HF_SHARED_EXPERT, 2, 4, 0},
    {"mamba2", 0, 1, 0, 0},
    {"mimo", HF_QKV_BIAS | HF_QKV_BIAS_ONLY, 2, 0, 0},
    {"minimax_m2", HF_QK_NORM_FULL, 2, 0, 0},
    {"minimax_text_01", 0, 2, 0, 0},
    {"ministral3", 0, 2, 0, 0},
    {"mistral", 0, 2, 0, 0},
    {"mistral3", 0, 2, 0, 0},
    {"mixtral", 0, 2, 0, 0},
    {"nemotron_h", HF_PLAIN_MLP, 1, 0, 0},
    {"olmo", 0, 0, 0, 0},
    {"olmo2", HF_QK_NORM_FULL, 2, 0, 0},
    {"olmo3", HF_QK_NORM_FULL, 2, 4, 0},
    {"olmoe", HF_QK_NORM_FULL, 2, 0, 0},
    {"opt", GPT_LIKE | ALL_BIASES | HF_TIED | HF_POSITIONS, 2, 0, 2},
    {"phi", GPT_LIKE | ALL_BIASES | HF_HEAD_BIAS, 1, 0, 0},
    {"phi3", 0, 2, 0, 0},
    {"qwen2", HF_QKV_BIAS | HF_QKV_BIAS_ONLY, 2, 0, 0},
    {"qwen2_moe", HF_QKV_BIAS | HF_QKV_BIAS_ONLY, 2, 0, 0},
    {"qwen3", HF_QK_NORM_HEAD, 2, 0, 0},
    {"qwen3_5", HF_QK_NORM_HEAD | HF_OUTPUT_GATE, 2, 0, 0},
    {"qwen3_5_moe", HF_QK_NORM_HEAD | HF_OUTPUT_GATE, 2, 0, 0},
    {"qwen3_5_moe_text", HF_QK_NORM_HEAD | HF_OUTPUT_GATE, 2, 0, 0},
    {"qwen3_5_text", HF_QK_NORM_HEAD | HF_OUTPUT_GATE, 2, 0, 0},
    {"qwen3_moe", HF_QK_NORM_HEAD, 2, 0, 0},
    {"qwen3_next", HF_QK_NORM_HEAD | HF_OUTPUT_GATE, 2, 0, 0},
    {"seed_oss", HF_QKV_BIAS | HF_QKV_BIAS_ONLY, 2, 0, 0},
    {"starcoder2", GPT_LIKE | ALL_BIASES | HF_TIED, 2, 0, 0},
};
static const struct hf_traits llama_like = {"", HF_QK_NORM_HEAD | HF_QK_NORM_BY_KEY, 2, 0, 0};

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
