/* A comparison as CSV and as Markdown. */
#include "api/compare.h"

#include <stdlib.h>
#include <string.h>

#include "api/card_table.h"
#include "api/json_memory.h"
#include "api/read.h"

static void put_number(struct text *text, const json_t *value)
{
  if (json_is_number(value))
    text_printf(text, "%.15g", json_number_value(value));
}

/* The change that one input made, "" where it made none or is not among the steps. */
static const json_t *step_of(const json_t *item, const char *input)
{
  const json_t *steps = json_object_get(item, "steps");
  for (size_t i = 0; i < json_array_size(steps); i++) {
    const json_t *step = json_array_get(steps, i);
    const char *name = json_string_value(json_object_get(step, "input"));
    if (name != NULL && strcmp(name, input) == 0)
      return json_object_get(step, "change");
  }
  return NULL;
}

static const json_t *waterfall_of(const json_t *document, const char *metric)
{
  const json_t *items = json_object_get(document, "waterfall");
  for (size_t i = 0; i < json_array_size(items); i++) {
    const json_t *item = json_array_get(items, i);
    const char *name = json_string_value(json_object_get(item, "metric"));
    if (name != NULL && strcmp(name, metric) == 0)
      return item;
  }
  return NULL;
}

char *compare_csv(const json_t *document)
{
  struct text text = {NULL, 0, 0, false};
  const char *metric;
  json_t *figure;
  text_puts(&text, "metric,before,after,change,relative");
  for (int i = 0; i < COMPARE_INPUTS; i++)
    text_printf(&text, ",%s", compare_input_name((enum compare_input)i));
  text_puts(&text, ",interaction,not_reproduced\r\n");
  json_object_foreach(json_object_get(document, "figures"), metric, figure)
  {
    static const char *const members[] = {"before", "after", "change", "relative"};
    const json_t *item = waterfall_of(document, metric);
    text_csv_field(&text, metric);
    for (size_t i = 0; i < 4; i++) {
      text_puts(&text, ",");
      put_number(&text, json_object_get(figure, members[i]));
    }
    for (int i = 0; i < COMPARE_INPUTS; i++) {
      text_puts(&text, ",");
      put_number(&text, step_of(item, compare_input_name((enum compare_input)i)));
    }
    text_puts(&text, ",");
    put_number(&text, json_object_get(item, "interaction"));
    text_puts(&text, ",");
    put_number(&text, json_object_get(item, "not_reproduced"));
    text_puts(&text, "\r\n");
  }
  return text_take(&text, NULL);
}

/* ---- Markdown ------------------------------------------------------------------------------------------------------- */

static void put_figure(struct text *text, const json_t *value)
{
  char figure[CARD_FIGURE_SIZE];
  text_puts(text, card_figure(figure, value, 1));
}

static const char *word(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "-";
}

static void put_side(struct text *text, const char *name, const json_t *side)
{
  text_printf(text, "- %s: %s on %s, %s, %s (`%s`)\n", name, word(side, "workload"), word(side, "profile"),
              word(side, "verdict"), word(side, "created_at"), word(side, "scorecard"));
}

static void put_value(struct text *text, const json_t *value)
{
  char *bytes =
      json_is_string(value) ? NULL : json_memory_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
  text_puts(text, json_is_string(value) ? json_string_value(value) : bytes != NULL ? bytes : "-");
  free(bytes);
}

static void put_inputs(struct text *text, const json_t *inputs)
{
  if (json_array_size(inputs) == 0) {
    text_puts(text, "\nNo input changed.\n");
    return;
  }
  text_puts(text, "\n| input | before | after |\n|---|---|---|\n");
  for (size_t i = 0; i < json_array_size(inputs); i++) {
    const json_t *input = json_array_get(inputs, i);
    text_printf(text, "| %s | ", word(input, "input"));
    put_value(text, json_object_get(input, "before"));
    text_puts(text, " | ");
    put_value(text, json_object_get(input, "after"));
    text_puts(text, " |\n");
  }
}

static void put_relative(struct text *text, const json_t *value)
{
  if (json_is_number(value))
    text_printf(text, "%+.1f %%", 100 * json_number_value(value));
  else
    text_puts(text, "-");
}

static void put_words(struct text *text, const json_t *words)
{
  const char *path;
  json_t *pair;
  json_object_foreach(read_iterable(words), path, pair)
  {
    text_printf(text, "| %s | ", path);
    put_value(text, json_object_get(pair, "before"));
    text_puts(text, " | ");
    put_value(text, json_object_get(pair, "after"));
    text_puts(text, " | |\n");
  }
}

static void put_figures(struct text *text, const json_t *document)
{
  const char *path;
  json_t *figure;
  text_puts(text, "\n| figure | before | after | change |\n|---|---|---|---|\n");
  put_words(text, json_object_get(document, "words"));
  json_object_foreach(json_object_get(document, "figures"), path, figure)
  {
    text_printf(text, "| %s | ", path);
    put_figure(text, json_object_get(figure, "before"));
    text_puts(text, " | ");
    put_figure(text, json_object_get(figure, "after"));
    text_puts(text, " | ");
    put_relative(text, json_object_get(figure, "relative"));
    text_puts(text, " |\n");
  }
}

static void put_waterfall(struct text *text, const json_t *document)
{
  const json_t *items = json_object_get(document, "waterfall"), *inputs = json_object_get(document, "inputs");
  if (json_array_size(items) == 0)
    return;
  text_puts(text, "\n| figure | before |");
  for (size_t i = 0; i < json_array_size(inputs); i++)
    text_printf(text, " %s |", word(json_array_get(inputs, i), "input"));
  text_puts(text, " interaction | after |\n|---|---|");
  for (size_t i = 0; i < json_array_size(inputs); i++)
    text_puts(text, "---|");
  text_puts(text, "---|---|\n");
  for (size_t k = 0; k < json_array_size(items); k++) {
    const json_t *item = json_array_get(items, k);
    text_printf(text, "| %s | ", word(item, "metric"));
    put_figure(text, json_object_get(item, "before"));
    for (size_t i = 0; i < json_array_size(inputs); i++) {
      text_puts(text, " | ");
      put_figure(text, step_of(item, word(json_array_get(inputs, i), "input")));
    }
    text_puts(text, " | ");
    put_figure(text, json_object_get(item, "interaction"));
    text_puts(text, " | ");
    put_figure(text, json_object_get(item, "after"));
    text_puts(text, " |\n");
  }
}

char *compare_markdown(const json_t *document)
{
  struct text text = {NULL, 0, 0, false};
  text_puts(&text, "# Comparison\n\n");
  put_side(&text, "before", json_object_get(document, "before"));
  put_side(&text, "after", json_object_get(document, "after"));
  put_inputs(&text, json_object_get(document, "inputs"));
  put_figures(&text, document);
  put_waterfall(&text, document);
  return text_take(&text, NULL);
}
