/* Frontiers as CSV (RFC 4180, one line a point) and as Markdown to paste into a merge request. */
#include "api/frontier.h"

#include "api/card_table.h"

/* ---- CSV ------------------------------------------------------------------------------------------------------------ */

static const char *const paths[] = {"profile",
                                    "configuration.tensor_parallel",
                                    "configuration.pipeline_parallel",
                                    "configuration.expert_parallel",
                                    "configuration.attention_data_parallel",
                                    "configuration.gpus",
                                    "configuration.max_batch",
                                    "configuration.precision.weights",
                                    "configuration.precision.kv_cache",
                                    "batch",
                                    "output_tokens_per_s_per_gpu",
                                    "output_tokens_per_s_per_user",
                                    "requests_per_s",
                                    "latency.ttft_ms.p50",
                                    "latency.itl_ms.p50",
                                    "latency.tpot_ms.mean",
                                    "cost.usd_per_gpu_hour",
                                    "cost.per_million_output_tokens_usd",
                                    "limiter",
                                    "targets_met",
                                    NULL};

static void put_lines(struct text *text, const char *variant, const json_t *points)
{
  for (size_t i = 0; i < json_array_size(points); i++) {
    text_csv_field(text, variant);
    for (size_t k = 0; paths[k] != NULL; k++) {
      text_puts(text, ",");
      text_csv_value(text, card_at(json_array_get(points, i), paths[k]));
    }
    text_puts(text, "\r\n");
  }
}

char *frontier_csv(const json_t *document)
{
  const json_t *variants = json_object_get(document, "variants");
  struct text text = {NULL, 0, 0, false};
  text_puts(&text, "variant");
  for (size_t k = 0; paths[k] != NULL; k++)
    text_printf(&text, ",%s", paths[k]);
  text_puts(&text, "\r\n");
  put_lines(&text, "as_is", json_object_get(document, "points"));
  for (size_t i = 0; i < json_array_size(variants); i++) {
    const json_t *variant = json_array_get(variants, i);
    put_lines(&text, json_string_value(json_object_get(variant, "variant")), json_object_get(variant, "points"));
  }
  return text_take(&text, NULL);
}

/* ---- Markdown -------------------------------------------------------------------------------------------------------- */

static void put_layout(struct text *text, const json_t *point)
{
  static const char *const degrees[][2] = {{"tp", "tensor_parallel"},
                                           {"pp", "pipeline_parallel"},
                                           {"ep", "expert_parallel"},
                                           {"dp", "attention_data_parallel"}};
  const json_t *configuration = json_object_get(point, "configuration");
  for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
    const json_int_t degree = json_integer_value(json_object_get(configuration, degrees[i][1]));
    if (i == 0 || degree > 1)
      text_printf(text, "%s%s %lld", i == 0 ? "" : " ", degrees[i][0], (long long)degree);
  }
}

static void put_points(struct text *text, const json_t *points)
{
  static const struct {
    const char *path;
    double factor;
  } figures[] = {{"batch", 1},
                 {"output_tokens_per_s_per_gpu", 1},
                 {"output_tokens_per_s_per_user", 1},
                 {"latency.ttft_ms.p50", 1},
                 {"latency.itl_ms.p50", 1},
                 {"cost.per_million_output_tokens_usd", 1}};
  text_puts(text, "| profile | layout | batch | tok/s a GPU | tok/s a user | TTFT ms | ITL ms | USD/1M | limiter |\n"
                  "|---|---|---:|---:|---:|---:|---:|---:|---|\n");
  for (size_t i = 0; i < json_array_size(points); i++) {
    const json_t *point = json_array_get(points, i);
    char figure[CARD_FIGURE_SIZE];
    text_puts(text, "| ");
    text_markdown(text, json_string_value(json_object_get(point, "profile")));
    text_puts(text, " | ");
    put_layout(text, point);
    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++)
      text_printf(text, " | %s", card_figure(figure, card_at(point, figures[k].path), figures[k].factor));
    text_puts(text, " | ");
    text_markdown(text, json_string_value(json_object_get(point, "limiter")));
    text_puts(text, " |\n");
  }
}

static void put_gain(struct text *text, const json_t *gain)
{
  char at[CARD_FIGURE_SIZE], base[CARD_FIGURE_SIZE], gained[CARD_FIGURE_SIZE], ratio[CARD_FIGURE_SIZE];
  const json_t *pair = json_object_get(gain, "output_tokens_per_s_per_gpu");
  if (!json_is_number(json_object_get(gain, "ratio")))
    return;
  text_printf(text, "At %s tokens/s a user: %s tokens/s a GPU instead of %s, %s times as many.\n\n",
              card_figure(at, json_object_get(gain, "output_tokens_per_s_per_user"), 1),
              card_figure(gained, json_array_get(pair, 1), 1), card_figure(base, json_array_get(pair, 0), 1),
              card_figure(ratio, json_object_get(gain, "ratio"), 1));
}

char *frontier_markdown(const json_t *document)
{
  const json_t *variants = json_object_get(document, "variants");
  struct text text = {NULL, 0, 0, false};
  text_puts(&text, "## Frontier of ");
  text_markdown(&text, json_string_value(json_object_get(document, "workload")));
  text_puts(&text, "\n\n");
  text_markdown(&text, json_string_value(json_object_get(document, "model")));
  text_puts(&text, ", ");
  card_traffic(&text, json_object_get(document, "traffic"));
  text_puts(&text,
            ". Each line is one replica that always has `batch` requests in flight; none is beaten by another.\n\n");
  put_points(&text, json_object_get(document, "points"));
  for (size_t i = 0; i < json_array_size(variants); i++) {
    const json_t *variant = json_array_get(variants, i);
    text_printf(&text, "\n### %s (%s)\n\n", json_string_value(json_object_get(variant, "variant")),
                json_string_value(json_object_get(variant, "requires")));
    put_gain(&text, json_object_get(variant, "gain"));
    put_points(&text, json_object_get(variant, "points"));
  }
  text_sentences(&text, "Assumptions:", json_object_get(document, "assumptions"));
  return text_take(&text, NULL);
}
