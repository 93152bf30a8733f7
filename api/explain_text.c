/* The explanation as Markdown: one table a list, the sums under it. */
#include "api/explain.h"

#include "api/card_table.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

struct column {
  const char *title, *path;
};

/* Text as it stands, numbers as people read them. */
static void put_value(struct text *text, const json_t *value)
{
  char figure[CARD_FIGURE_SIZE];
  const char *string = json_string_value(value);
  text_puts(text, string != NULL ? string : card_figure(figure, value, 1.0));
}

static void put_table(struct text *text, const json_t *rows, const struct column *columns, size_t count)
{
  for (size_t i = 0; i < count; i++)
    text_printf(text, "| %s ", columns[i].title);
  text_puts(text, "|\n");
  for (size_t i = 0; i < count; i++)
    text_puts(text, "| --- ");
  text_puts(text, "|\n");
  for (size_t row = 0; row < json_array_size(rows); row++) {
    for (size_t i = 0; i < count; i++) {
      text_puts(text, "| ");
      put_value(text, card_at(json_array_get(rows, row), columns[i].path));
      text_puts(text, " ");
    }
    text_puts(text, "|\n");
  }
  text_puts(text, "\n");
}

static void put_fact(struct text *text, const char *name, const json_t *value)
{
  if (value == NULL || json_is_null(value))
    return;
  text_printf(text, "- %s: ", name);
  put_value(text, value);
  text_puts(text, "\n");
}

static void put_facts(struct text *text, const json_t *document, const struct column *facts, size_t count)
{
  for (size_t i = 0; i < count; i++)
    put_fact(text, facts[i].title, card_at(document, facts[i].path));
  text_puts(text, "\n");
}

static void put_head(struct text *text, const json_t *document)
{
  static const struct column facts[] = {{"scorecard", "scorecard"},
                                        {"model", "model"},
                                        {"model revision", "model_revision"},
                                        {"profile revision", "profile_revision"},
                                        {"sketch", "sketch_digest"},
                                        {"core of the scorecard", "core_version"},
                                        {"core now", "core_version_now"},
                                        {"operator constants", "provenance.constants"},
                                        {"note", "note"}};
  text_puts(text, "## Explanation: ");
  put_value(text, json_object_get(document, "workload"));
  text_puts(text, " on ");
  put_value(text, json_object_get(document, "profile"));
  text_puts(text, "\n\n");
  put_facts(text, document, facts, COUNT_OF(facts));
}

static void put_phase(struct text *text, const char *title, const json_t *phase)
{
  static const struct column facts[] = {{"tokens", "tokens"},
                                        {"cached tokens", "cached_tokens"},
                                        {"chunks", "chunks"},
                                        {"sequences", "batch"},
                                        {"context, tokens", "context_tokens"}};
  static const struct column operators[] = {{"operator", "name"},
                                            {"times", "count"},
                                            {"format", "precision"},
                                            {"FLOPs", "flops"},
                                            {"weight bytes", "bytes.weights"},
                                            {"KV bytes", "bytes.kv"},
                                            {"activation bytes", "bytes.activations"},
                                            {"wire bytes", "bytes.wire"},
                                            {"ms", "time_ms"},
                                            {"floor ms", "floor_ms"},
                                            {"scale", "scale"},
                                            {"floor scale", "floor_scale"},
                                            {"part of the phase, ms", "scaled_time_ms"},
                                            {"waits for", "bound"},
                                            {"formula", "formula"}};
  static const struct column fixed[] = {
      {"fixed cost", "name"}, {"constant", "constant"}, {"µs", "constant_us"}, {"times", "times"}, {"ms", "time_ms"}};
  static const struct column sums[] = {{"operators, ms", "operators_ms"},
                                       {"fixed costs, ms", "fixed_ms"},
                                       {"together, ms", "time_ms"},
                                       {"waiting for compute, ms", "by_bound_ms.compute"},
                                       {"waiting for memory, ms", "by_bound_ms.memory_bandwidth"},
                                       {"waiting for the interconnect, ms", "by_bound_ms.interconnect"},
                                       {"launches, ms", "by_bound_ms.launch_overhead"}};
  if (!json_is_object(phase))
    return;
  text_printf(text, "### %s\n\n", title);
  put_facts(text, phase, facts, COUNT_OF(facts));
  put_table(text, json_object_get(phase, "operators"), operators, COUNT_OF(operators));
  put_table(text, json_object_get(phase, "fixed_costs"), fixed, COUNT_OF(fixed));
  put_facts(text, phase, sums, COUNT_OF(sums));
}

static void put_memory(struct text *text, const json_t *memory)
{
  static const struct column terms[] = {{"part", "part"}, {"term", "name"}, {"GiB", "gib"}, {"formula", "formula"}};
  static const struct column facts[] = {{"device, GiB", "total_gib"},
                                        {"memory_fraction", "memory_fraction"},
                                        {"usable, GiB", "usable_gib"},
                                        {"KV bytes a token on one GPU", "kv_sequence.bytes_per_token"},
                                        {"KV of one request on one GPU, GiB", "kv_sequence.gib_per_session"}};
  if (!json_is_object(memory))
    return;
  text_puts(text, "### Memory of one GPU\n\n");
  put_table(text, json_object_get(memory, "terms"), terms, COUNT_OF(terms));
  put_facts(text, memory, facts, COUNT_OF(facts));
}

static void put_latency(struct text *text, const json_t *latency)
{
  static const struct column parts[] = {{"part of TTFT", "name"}, {"ms", "ms"}, {"formula", "formula"}};
  static const struct column facts[] = {{"TTFT, ms", "ttft_ms.ms"},
                                        {"decode step, ms", "inputs.decode_step_ms"},
                                        {"share of time with prompts of others", "inputs.prefill_load"},
                                        {"ITL = step / (1 - share), ms", "itl_ms.ms"},
                                        {"end to end, ms", "e2e_ms.ms"},
                                        {"note", "note"}};
  if (!json_is_object(latency))
    return;
  text_puts(text, "### Latency\n\n");
  put_table(text, json_object_get(latency, "ttft_parts"), parts, COUNT_OF(parts));
  put_facts(text, latency, facts, COUNT_OF(facts));
}

static void put_cost(struct text *text, const json_t *cost)
{
  static const struct column items[] = {{"item", "name"}, {"USD", "usd"}, {"formula", "formula"}};
  static const struct column facts[] = {{"price", "price_basis"},         {"USD per GPU hour", "usd_per_gpu_hour"},
                                        {"GPUs billed", "gpus_billed"},   {"USD an hour", "usd_per_hour"},
                                        {"requests/s", "requests_per_s"}, {"output tokens/s", "output_tokens_per_s"}};
  if (!json_is_object(cost))
    return;
  text_puts(text, "### Cost\n\n");
  put_facts(text, cost, facts, COUNT_OF(facts));
  put_table(text, json_object_get(cost, "items"), items, COUNT_OF(items));
}

char *explain_markdown(const json_t *document)
{
  static const struct column constants[] = {
      {"constant", "name"}, {"value", "value"}, {"unit", "unit"}, {"meaning", "sentence"}};
  struct text text = {NULL, 0, 0, false};
  put_head(&text, document);
  put_phase(&text, "Prefill of one prompt", json_object_get(document, "prefill"));
  put_phase(&text, "A decode step", json_object_get(document, "decode"));
  put_memory(&text, json_object_get(document, "memory"));
  put_latency(&text, json_object_get(document, "latency"));
  put_cost(&text, json_object_get(document, "cost"));
  if (json_is_array(json_object_get(document, "constants"))) {
    text_puts(&text, "### Constants of the step\n\n");
    put_table(&text, json_object_get(document, "constants"), constants, COUNT_OF(constants));
  }
  return text_take(&text, NULL);
}
