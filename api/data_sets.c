/* MLPerf pairs each model with one data set, told apart by its parameters. Other engines' rows are ShareGPT-like chat, or
   prompts of random tokens. */
#include "api/data_sets.h"

#include "core/units.h"

#include <math.h>
#include <stddef.h>

#define LENGTH_CV 0.8 /* of conversations: 0.7 to 0.85 (SERVING §4) */
#define LONG_PROMPT_TOKENS 8192

/* Mean lengths (STEPMODEL §4, SERVING §4) and the coefficient of variation of answers: a log-normal with the ratio of p99 to
   p50 of end-to-end times over those per token in submissions. CNN-DailyMail's answers all end at the limit of 128. */
static const struct data_set {
  double parameters, input, output, output_cv;
} mlperf[] = {
    {6.05e9, 600, 60, 0.8},      /* CNN-DailyMail, GPT-J */
    {8.03e9, 778, 128, 0},       /* CNN-DailyMail */
    {46.7e9, 425, 145, 0.8},     /* OpenOrca, GSM8K and MBXP */
    {68.98e9, 294, 294, 0.63},   /* OpenOrca: median 250, p99 950 */
    {405.85e9, 9400, 680, 0.31}, /* LongBench, RULER and GovReport */
    {671.03e9, 800, 3880, 1.3},  /* mathematics and reasoning */
};

static struct data_set data_set_of(const struct benchmark *benchmark, bool is_mlperf)
{
  const double parameters = (double)model_parameters_total(benchmark->model);
  for (size_t i = 0; is_mlperf && i < sizeof mlperf / sizeof mlperf[0]; i++)
    if (fabs(parameters / mlperf[i].parameters - 1) < 0.02)
      return mlperf[i];
  if (parameters < 1e9)
    return (struct data_set){parameters, 104, 212, LENGTH_CV}; /* chat with the smallest models is short */
  return (struct data_set){parameters, 256, 300, LENGTH_CV};
}

/* AccelMark's load generators: in the engine's process, so many requests a level (SERVING §3, §6; suites of 70B models and of
   long prompts send fewer). */
static void set_in_process(struct benchmark *benchmark)
{
  const bool is_slow =
      (double)model_parameters_total(benchmark->model) > 60e9 || benchmark->input_tokens >= LONG_PROMPT_TOKENS;
  benchmark->requests = is_slow ? 200 : 300;
  benchmark->preset.server_constant_s = fmin(5 * MS, benchmark->preset.server_constant_s);
}

/* Runs of TensorRT-LLM's performance guide queue so many requests of one length, by the tokens of one (recalled). */
static void guide_requests(struct benchmark *benchmark)
{
  static const struct {
    double tokens, requests;
  } runs[] = {{256, 30000}, {2600, 3000}, {9300, 1500}, {(double)INFINITY, 1000}};
  const double tokens = benchmark->input_tokens + benchmark->output_tokens;
  size_t i = 0;
  while (tokens > runs[i].tokens)
    i++;
  benchmark->requests = runs[i].requests;
  benchmark->has_fixed_lengths = true;
}

void data_sets_apply(struct benchmark *benchmark, bool is_mlperf)
{
  const struct data_set set = data_set_of(benchmark, is_mlperf);
  const bool is_stated = !isnan(benchmark->input_tokens) && !isnan(benchmark->output_tokens);
  const bool is_cut =
      !is_mlperf && benchmark->input_tokens >= LONG_PROMPT_TOKENS; /* from longer texts, to one length */
  const bool is_guide = !is_mlperf && is_stated && benchmark->load == BENCHMARK_OFFLINE && isnan(benchmark->batch) &&
                        isnan(benchmark->requests) && benchmark->preset.memory_rule == MEMORY_RULE_TENSORRT;
  if (benchmark->load == BENCHMARK_POISSON) {
    benchmark->prompt_cv_ratio = is_cut ? 0 : LENGTH_CV;
    benchmark->answer_cv_ratio = set.output_cv;
  }
  if (!is_mlperf && isnan(benchmark->requests) && (benchmark->load == BENCHMARK_POISSON || !is_stated))
    set_in_process(benchmark);
  if (is_guide)
    guide_requests(benchmark);
  if (isnan(benchmark->input_tokens))
    benchmark->input_tokens = set.input;
  if (isnan(benchmark->output_tokens))
    benchmark->output_tokens = set.output;
}
