/* What-ifs as CSV (RFC 4180, one line a cell) and as Markdown. */
#include "api/what_if.h"

#include <stdlib.h>

#include "api/card_table.h"
#include "api/json_memory.h"

static const char *const paths[] = {"verdict",
                                    "no_fit_reason",
                                    "configuration.tensor_parallel",
                                    "configuration.pipeline_parallel",
                                    "configuration.expert_parallel",
                                    "configuration.attention_data_parallel",
                                    "configuration.replicas",
                                    "configuration.gpus",
                                    "configuration.max_batch",
                                    "memory.kv_cache_gib",
                                    "memory.kv_bytes_per_token",
                                    "memory.max_concurrent_sessions",
                                    "memory.max_context_tokens",
                                    "latency.ttft_ms.p50",
                                    "latency.itl_ms.p50",
                                    "latency.tpot_ms.mean",
                                    "latency.e2e_ms.p50",
                                    "throughput.requests_per_s",
                                    "throughput.output_tokens_per_s",
                                    "throughput.output_tokens_per_s_per_gpu",
                                    "throughput.output_tokens_per_s_per_user",
                                    "throughput.mean_batch",
                                    "limits.saturation_requests_per_s",
                                    "cost.per_successful_request_usd",
                                    "cost.per_million_output_tokens_usd",
                                    "cost.monthly_usd",
                                    "bound",
                                    "limiter",
                                    "error.pointer",
                                    "error.detail",
                                    NULL};

/* Pointers that any cell sets, in the order of their first appearance: a column each. */
static json_t *columns_of(const json_t *cells)
{
  json_t *columns = json_object(), *value;
  const char *pointer;
  for (size_t i = 0; i < json_array_size(cells); i++) {
    json_t *set = json_object_get(json_array_get(cells, i), "set");
    json_object_foreach(set, pointer, value)
    {
      if (json_object_set(columns, pointer, value) != 0) {
        json_decref(columns);
        return NULL;
      }
    }
  }
  return columns;
}

static void put_lines(struct text *text, json_t *columns, const json_t *cells)
{
  const char *pointer;
  json_t *unused;
  for (size_t i = 0; i < json_array_size(cells); i++) {
    const json_t *cell = json_array_get(cells, i), *set = json_object_get(cell, "set");
    text_csv_value(text, json_object_get(cell, "label"));
    text_puts(text, ",");
    text_csv_value(text, json_object_get(cell, "profile"));
    json_object_foreach(columns, pointer, unused)
    {
      text_puts(text, ",");
      text_csv_value(text, json_object_get(set, pointer));
    }
    for (size_t k = 0; paths[k] != NULL; k++) {
      text_puts(text, ",");
      text_csv_value(text, card_at(cell, paths[k]));
    }
    text_puts(text, "\r\n");
  }
}

char *what_if_csv(const json_t *document)
{
  json_t *columns = columns_of(json_object_get(document, "cells")), *unused;
  struct text text = {NULL, 0, 0, columns == NULL};
  const char *pointer;
  text_puts(&text, "label,profile");
  json_object_foreach(columns, pointer, unused)
  {
    text_puts(&text, ",");
    text_csv_field(&text, pointer);
  }
  for (size_t k = 0; paths[k] != NULL; k++)
    text_printf(&text, ",%s", paths[k]);
  text_puts(&text, "\r\n");
  put_lines(&text, columns, json_object_get(document, "base"));
  put_lines(&text, columns, json_object_get(document, "cells"));
  json_decref(columns);
  return text_take(&text, NULL);
}

/* ---- Markdown -------------------------------------------------------------------------------------------------------- */

static void put_set(struct text *text, const json_t *cell)
{
  json_t *set = json_object_get(cell, "set"), *value;
  const char *pointer, *separator = "";
  if (json_object_size(set) == 0)
    text_puts(text, "as it is");
  json_object_foreach(set, pointer, value)
  {
    char *printed = json_memory_dumps(value, WRITE_FLAGS | JSON_ENCODE_ANY);
    text_puts(text, separator);
    text_markdown(text, pointer);
    text_puts(text, " = ");
    text_markdown(text, printed);
    text->is_failed = text->is_failed || printed == NULL;
    free(printed);
    separator = ", ";
  }
}

static void put_rows(struct text *text, const json_t *cells)
{
  static const char *const figures[] = {"configuration.gpus",
                                        "configuration.max_batch",
                                        "latency.ttft_ms.p50",
                                        "latency.itl_ms.p50",
                                        "throughput.output_tokens_per_s",
                                        "limits.saturation_requests_per_s",
                                        "cost.per_million_output_tokens_usd",
                                        "cost.monthly_usd"};
  for (size_t i = 0; i < json_array_size(cells); i++) {
    const json_t *cell = json_array_get(cells, i), *detail = card_at(cell, "error.detail");
    char figure[CARD_FIGURE_SIZE];
    text_puts(text, "| ");
    if (json_is_string(json_object_get(cell, "label"))) {
      text_markdown(text, json_string_value(json_object_get(cell, "label")));
      text_puts(text, ": ");
    }
    put_set(text, cell);
    text_puts(text, " | ");
    text_markdown(text, json_string_value(json_object_get(cell, "profile")));
    text_puts(text, " | ");
    text_markdown(text,
                  detail != NULL ? json_string_value(detail) : json_string_value(json_object_get(cell, "verdict")));
    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++)
      text_printf(text, " | %s", card_figure(figure, card_at(cell, figures[k]), 1));
    text_puts(text, " | ");
    text_markdown(text, json_string_value(json_object_get(cell, "limiter")));
    text_puts(text, " |\n");
  }
}

char *what_if_markdown(const json_t *document)
{
  struct text text = {NULL, 0, 0, false};
  text_puts(&text, "## What if: ");
  text_markdown(&text, json_string_value(json_object_get(document, "workload")));
  text_puts(&text, "\n\n");
  text_markdown(&text, json_string_value(json_object_get(document, "model")));
  text_puts(&text, ", ");
  card_traffic(&text, json_object_get(document, "traffic"));
  text_puts(&text, "\n\n| what | profile | verdict | GPUs | batch | TTFT ms | ITL ms | tok/s | saturation/s | USD/1M | "
                   "USD/month | limit |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n");
  put_rows(&text, json_object_get(document, "base"));
  put_rows(&text, json_object_get(document, "cells"));
  return text_take(&text, NULL);
}
