/* Rules in order, most specific first; an empty field of a rule matches everything. */
#include "api/launch_flags.h"

#include <math.h>
#include <string.h>

enum budget { BUDGET_PRESET, BUDGET_TOKENS, BUDGET_TWICE_INPUT, BUDGET_USERS_AND_INPUT };

struct rule {
  const char *runtime, *model; /* model: a part of the name */
  const char *hardware[2];     /* beginnings of the identifier */
  const char *weight_precision, *date_from;
  double users_at_least, input, output; /* 0 = any */
  unsigned tensor_parallel_below, attention_ranks_at_least;
  /* what is set; 0 = not */
  enum budget budget;
  unsigned tokens, recv_interval_steps, batch_wait_steps, max_batch, requests;
};

static const struct rule rules[] = {
    /* dstack's comparison of 2024: max-num-seqs 1024, 1,000 prompts of ShareGPT */
    {.runtime = "vllm", .model = "Llama-3.1-405B", .hardware = {"mi300x"}, .max_batch = 1024, .requests = 1000},
    {.runtime = "vllm", .model = "MiniMax", .hardware = {"b200", "b300"}, .budget = BUDGET_TWICE_INPUT},
    {.runtime = "vllm", .model = "MiniMax", .hardware = {"h200"}, .budget = BUDGET_TOKENS, .tokens = 32768},
    {.runtime = "sglang",
     .model = "Qwen3.5",
     .hardware = {"b300"},
     .weight_precision = "fp8",
     .date_from = "2026-04-17",
     .budget = BUDGET_TOKENS,
     .tokens = 16384,
     .recv_interval_steps = 10},
    {.runtime = "sglang",
     .model = "Qwen3.5",
     .hardware = {"b200", "b300"},
     .users_at_least = 16,
     .budget = BUDGET_TOKENS,
     .tokens = 32768,
     .recv_interval_steps = 30},
    {.runtime = "sglang",
     .model = "Qwen3.5",
     .hardware = {"b200", "b300"},
     .budget = BUDGET_TOKENS,
     .tokens = 32768,
     .recv_interval_steps = 10},
    {.runtime = "sglang",
     .model = "DeepSeek-R1",
     .hardware = {"b200", "b300"},
     .weight_precision = "nvfp4",
     .users_at_least = 16,
     .budget = BUDGET_TOKENS,
     .tokens = 16384,
     .recv_interval_steps = 30},
    {.runtime = "sglang",
     .model = "DeepSeek-R1",
     .hardware = {"b200", "b300"},
     .weight_precision = "nvfp4",
     .budget = BUDGET_TOKENS,
     .tokens = 16384,
     .recv_interval_steps = 10},
    {.runtime = "sglang",
     .model = "DeepSeek-R1",
     .hardware = {"b200", "b300"},
     .users_at_least = 16,
     .recv_interval_steps = 30},
    {.runtime = "sglang", .model = "DeepSeek-R1", .hardware = {"b200", "b300"}, .recv_interval_steps = 10},
    {.runtime = "sglang", .model = "DeepSeek-R1", .hardware = {"h200"}, .budget = BUDGET_TOKENS, .tokens = 32768},
    {.runtime = "sglang", .hardware = {"mi355x"}, .budget = BUDGET_TOKENS, .tokens = 196608},
    {.runtime = "sglang",
     .model = "GLM-5",
     .weight_precision = "nvfp4",
     .budget = BUDGET_TOKENS,
     .tokens = 32768,
     .recv_interval_steps = 10},
    {.runtime = "sglang", .model = "GLM-5", .budget = BUDGET_TOKENS, .tokens = 32768},
    {.runtime = "tensorrt-llm",
     .model = "Llama",
     .input = 1024,
     .output = 1024,
     .tensor_parallel_below = 8,
     .budget = BUDGET_TOKENS,
     .tokens = 16384,
     .batch_wait_steps = 20},
    {.runtime = "tensorrt-llm", .model = "Llama", .budget = BUDGET_TOKENS, .tokens = 16384},
    {.runtime = "tensorrt-llm",
     .model = "gpt-oss",
     .attention_ranks_at_least = 2,
     .budget = BUDGET_TOKENS,
     .tokens = 20000,
     .batch_wait_steps = 20},
    {.runtime = "tensorrt-llm",
     .model = "DeepSeek",
     .attention_ranks_at_least = 2,
     .budget = BUDGET_USERS_AND_INPUT,
     .batch_wait_steps = 60},
    {.runtime = "tensorrt-llm", .model = "gpt-oss", .budget = BUDGET_TOKENS, .tokens = 20000},
    {.runtime = "tensorrt-llm", .model = "DeepSeek", .budget = BUDGET_USERS_AND_INPUT},
};

/* Later InferenceX scripts send requests before the run, those of 2025 do not. Their first steps tell when it began. */
static const char warmed_up_from[] = "2026-04-01";

static bool equals_or_any(const char *wanted, const char *value)
{
  return wanted == NULL || strcmp(wanted, value) == 0;
}

static bool hardware_matches(const struct rule *rule, const char *hardware)
{
  if (rule->hardware[0] == NULL)
    return true;
  for (size_t i = 0; i < 2 && rule->hardware[i] != NULL; i++)
    if (strncmp(hardware, rule->hardware[i], strlen(rule->hardware[i])) == 0)
      return true;
  return false;
}

static bool shape_matches(const struct rule *rule, const struct benchmark *benchmark, const struct launch_run *run)
{
  if (rule->users_at_least > 0 && !(benchmark->batch >= rule->users_at_least))
    return false;
  if (rule->input > 0 && !(fabs(rule->input - run->nominal_input_tokens) < 0.5))
    return false;
  if (rule->output > 0 && !(fabs(rule->output - run->nominal_output_tokens) < 0.5))
    return false;
  if (benchmark->attention_data_parallel < rule->attention_ranks_at_least)
    return false;
  return rule->tensor_parallel_below == 0 || benchmark->tensor_parallel < rule->tensor_parallel_below;
}

static bool matches(const struct rule *rule, const struct benchmark *benchmark, const struct launch_run *run)
{
  return strcmp(rule->runtime, run->runtime) == 0 && (rule->model == NULL || strstr(run->model, rule->model) != NULL) &&
         hardware_matches(rule, run->hardware) && equals_or_any(rule->weight_precision, run->weight_precision) &&
         (rule->date_from == NULL || strcmp(run->date, rule->date_from) >= 0) && shape_matches(rule, benchmark, run);
}

static void apply(struct benchmark *benchmark, const struct rule *rule, const struct launch_run *run)
{
  struct preset *preset = &benchmark->preset;
  const double users = isnan(benchmark->batch) ? 0 : benchmark->batch;
  switch (rule->budget) {
  case BUDGET_PRESET: break;
  case BUDGET_TOKENS: preset->max_batched_tokens = rule->tokens; break;
  case BUDGET_TWICE_INPUT: preset->max_batched_tokens = (unsigned)(2 * run->nominal_input_tokens); break;
  case BUDGET_USERS_AND_INPUT:
    preset->max_batched_tokens = (unsigned)fmax(8192, users + run->nominal_input_tokens + 64);
    break;
  }
  if (rule->recv_interval_steps != 0)
    preset->recv_interval_steps = rule->recv_interval_steps;
  if (rule->batch_wait_steps != 0)
    preset->batch_wait_steps = rule->batch_wait_steps;
  if (rule->max_batch != 0)
    preset->max_batch = rule->max_batch;
  if (rule->requests != 0 && benchmark->load == BENCHMARK_POISSON)
    benchmark->requests = rule->requests;
}

void launch_flags_apply(struct benchmark *benchmark, const struct launch_run *run)
{
  benchmark->is_warm = strcmp(run->date, warmed_up_from) >= 0;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    if (matches(&rules[i], benchmark, run)) {
      apply(benchmark, &rules[i], run);
      return;
    }
  }
}
