/* Evaluations and scorecards as Markdown (to paste into a merge request) and as CSV (RFC 4180, one line a scorecard). */
#include "api/evaluation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/card_table.h"
#include "api/row_csv.h"

/* ---- CSV ------------------------------------------------------------------------------------------------------------ */

char *evaluation_csv(const json_t *document)
{
  return row_csv(json_object_get(document, "scorecards"), row_csv_columns("/v1/scorecards"));
}

/* ---- Markdown -------------------------------------------------------------------------------------------------------- */

static void put_cards(struct text *text, const json_t *cards)
{
  const bool is_p99 = cards_have_p99(cards);
  text_puts(text, "|");
  for (size_t c = 0; c < CARD_COLUMNS; c++)
    text_printf(text, " %s |", card_column_title((enum card_column)c, is_p99));
  text_puts(text, "\n|");
  for (size_t c = 0; c < CARD_COLUMNS; c++)
    text_puts(text, card_column_heads[c].is_number ? "---:|" : "---|");
  text_puts(text, "\n");
  for (size_t i = 0; i < json_array_size(cards); i++) {
    struct card_row row;
    card_row_make(&row, json_array_get(cards, i), is_p99);
    text_puts(text, "|");
    for (size_t c = 0; c < CARD_COLUMNS; c++) {
      text_puts(text, " ");
      text_markdown(text, row.cells[c]);
      text_puts(text, " |");
    }
    text_puts(text, "\n");
  }
}

/* **name** value, for the head of a document. */
static void put_fact(struct text *text, const char *name, const json_t *value)
{
  char figure[CARD_FIGURE_SIZE];
  if (json_is_string(value)) {
    text_printf(text, "- %s: ", name);
    text_markdown(text, json_string_value(value));
    text_puts(text, "\n");
  } else if (json_is_number(value)) {
    text_printf(text, "- %s: %s\n", name, card_figure(figure, value, 1.0));
  }
}

char *evaluation_markdown(const json_t *document)
{
  const json_t *cards = json_object_get(document, "scorecards");
  struct text text = {NULL, 0, 0, false}, line = {NULL, 0, 0, false};
  char *sentence;
  text_puts(&text, "## Fit of ");
  text_markdown(&text, json_string_value(json_object_get(document, "workload")));
  text_puts(&text, "\n\n");
  card_recommendation(&line, document);
  sentence = text_take(&line, NULL);
  text_puts(&text, "**");
  text_markdown(&text, sentence);
  text_puts(&text, "**\n\n");
  text.is_failed = text.is_failed || sentence == NULL;
  free(sentence);
  put_fact(&text, "model", json_object_get(document, "model"));
  text_puts(&text, "- traffic: ");
  card_traffic(&text, json_object_get(document, "traffic"));
  text_puts(&text, "\n");
  put_fact(&text, "label", json_object_get(document, "label"));
  put_fact(&text, "evaluation", json_object_get(document, "id"));
  put_fact(&text, "created", json_object_get(document, "created_at"));
  put_fact(&text, "core", json_object_get(document, "core_version"));
  put_fact(&text, "sketch", json_object_get(document, "sketch_digest"));
  text_puts(&text, "\n");
  put_cards(&text, cards);
  text_sentences(&text, "Assumptions of the first line:", json_object_get(json_array_get(cards, 0), "assumptions"));
  return text_take(&text, NULL);
}

static void put_targets(struct text *text, const json_t *targets)
{
  char a[CARD_FIGURE_SIZE], b[CARD_FIGURE_SIZE];
  if (json_array_size(targets) == 0)
    return;
  text_puts(text, "\n| target | asked | predicted | met |\n|---|---:|---:|---|\n");
  for (size_t i = 0; i < json_array_size(targets); i++) {
    const json_t *target = json_array_get(targets, i), *met = json_object_get(target, "met");
    text_puts(text, "| ");
    text_markdown(text, json_string_value(json_object_get(target, "metric")));
    text_printf(text, " | %s | %s | %s |\n", card_figure(a, json_object_get(target, "target"), 1.0),
                card_figure(b, json_object_get(target, "actual"), 1.0),
                json_is_boolean(met) ? (json_is_true(met) ? "yes" : "no") : "not decided");
  }
}

static void put_findings(struct text *text, const json_t *findings)
{
  if (json_array_size(findings) == 0)
    return;
  text_puts(text, "\nFindings:\n\n");
  for (size_t i = 0; i < json_array_size(findings); i++) {
    const json_t *finding = json_array_get(findings, i);
    text_printf(text, "- %s `%s`: ", json_string_value(json_object_get(finding, "severity")),
                json_string_value(json_object_get(finding, "code")));
    text_markdown(text, json_string_value(json_object_get(finding, "message")));
    text_puts(text, "\n");
  }
}

char *scorecard_markdown(const json_t *scorecard)
{
  static const struct {
    const char *name, *path;
  } facts[] = {
      {"model", "model"},
      {"label", "label"},
      {"no fit", "no_fit_detail"},
      {"launch", "configuration.launch"},
      {"weights format", "configuration.precision.weights"},
      {"KV cache format", "configuration.precision.kv_cache"},
      {"weights, GiB a GPU", "memory.weights_gib"},
      {"KV cache, GiB a GPU", "memory.kv_cache_gib"},
      {"sessions at once", "memory.max_concurrent_sessions"},
      {"longest context, tokens", "memory.max_context_tokens"},
      {"smallest number of GPUs", "memory.min_gpus"},
      {"prefill waits for", "phases.prefill.bound"},
      {"decode waits for", "phases.decode.bound"},
      {"TTFT p99, ms", "latency.ttft_ms.p99"},
      {"ITL p99, ms", "latency.itl_ms.p99"},
      {"end to end p99, ms", "latency.e2e_ms.p99"},
      {"success rate", "success.rate"},
      {"requests/s", "throughput.requests_per_s"},
      {"knee, requests/s", "limits.knee_requests_per_s"},
      {"saturation, requests/s", "limits.saturation_requests_per_s"},
      {"watts a GPU", "energy.watts_per_gpu"},
      {"ready after a start, s", "startup.ready_s"},
      {"USD per GPU hour", "cost.usd_per_gpu_hour"},
      {"price", "cost.price_basis"},
      {"USD per successful request", "cost.per_successful_request_usd"},
      {"scorecard", "id"},
      {"created", "created_at"},
      {"core", "core_version"},
      {"sketch", "sketch_digest"},
  };
  struct text text = {NULL, 0, 0, false};
  json_t *cards = json_array();
  text_puts(&text, "## Scorecard: ");
  text_markdown(&text, json_string_value(json_object_get(scorecard, "workload")));
  text_puts(&text, " on ");
  text_markdown(&text, json_string_value(json_object_get(scorecard, "profile")));
  text_puts(&text, "\n\n");
  if (json_array_append_new(cards, json_deep_copy(scorecard)) != 0)
    text.is_failed = true;
  put_cards(&text, cards);
  text_puts(&text, "\n");
  for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
    put_fact(&text, facts[i].name, card_at(scorecard, facts[i].path));
  put_targets(&text, json_object_get(scorecard, "targets"));
  put_findings(&text, json_object_get(scorecard, "findings"));
  text_sentences(&text, "Assumptions:", json_object_get(scorecard, "assumptions"));
  json_decref(cards);
  return text_take(&text, NULL);
}
