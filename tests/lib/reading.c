#include "tests/lib/reading.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

struct reading_outcome reading;

void reading_prepare(void)
{
  memset(&reading.faults, 0, sizeof reading.faults);
  reading.assumptions = json_array();
}

void reading_release(void)
{
  json_decref(reading.assumptions);
  scratch_release();
}

/* ---- reading ---- */

json_t *reading_load(const char *file)
{
  const char *path = suite_source_path(scratch_printf("tests/data/models/%s", file));
  json_error_t error;
  json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  ck_assert_msg(document != NULL, "%s: %s", path, error.text);
  return scratch_json_steal(document);
}

json_t *reading_load_quantisation(const char *file)
{
  char *name = scratch_printf("%.*s.hf_quant_config.json", (int)(strlen(file) - strlen(".json")), file);
  json_t *document = json_load_file(suite_source_path(scratch_printf("tests/data/models/%s", name)), 0, NULL);
  return document != NULL ? scratch_json_steal(document) : NULL;
}

void reading_read(const json_t *document, const json_t *quantisation)
{
  json_decref(reading.assumptions);
  reading_prepare();
  hf_config_read(&reading.model, reading.assumptions, document, quantisation, "/hf_config", &reading.faults);
}

void reading_read_file(const char *file)
{
  reading_read(reading_load(file), reading_load_quantisation(file));
}

void reading_read_text(const char *text)
{
  char *json = scratch_printf("%s", text);
  json_error_t error;
  json_t *document;
  for (char *at = json; *at != '\0'; at++)
    *at = *at == '\'' ? '"' : *at;
  document = json_loads(json, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  ck_assert_msg(document != NULL, "%s: %s", text, error.text);
  reading_read(scratch_json_steal(document), NULL);
}

/* ---- the outcome ---- */

bool reading_has_fault(const char *pointer, enum fault_code code)
{
  for (size_t i = 0; i < reading.faults.count; i++)
    if (reading.faults.items[i].code == code && strcmp(reading.faults.items[i].pointer, pointer) == 0)
      return true;
  return false;
}

bool reading_assumes(const char *part)
{
  size_t i;
  json_t *sentence;
  json_array_foreach(reading.assumptions, i, sentence)
  {
    if (strstr(json_string_value(sentence), part) != NULL)
      return true;
  }
  return false;
}

const char *reading_first_fault(void)
{
  const struct fault *fault = &reading.faults.items[0];
  return reading.faults.count != 0 ? scratch_printf("%s: %s", fault->pointer, fault->detail) : "no fault";
}

unsigned long long reading_state_elements(void)
{
  const struct model *model = &reading.model;
  unsigned long long sum = 0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    sum += model_layers_of_kind(model, kind) * model->layers[kind].attention.linear_state_elements;
  return sum;
}

unsigned reading_windowed_layers(void)
{
  const struct model *model = &reading.model;
  unsigned sum = 0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    sum += model->layers[kind].attention.window_tokens != 0 ? model_layers_of_kind(model, kind) : 0;
  return sum;
}

bool reading_is_same(double seen, double wanted)
{
  return !(seen < wanted) && !(seen > wanted);
}

/* ---- the table of facts ---- */

/* Splits one CSV line in place; quoted fields may hold commas and doubled quotes. */
static void split(struct reading_row *row, char *line)
{
  char *from = line;
  row->count = 0;
  for (bool more = true; more;) {
    const bool is_quoted = *from == '"';
    char *to = from + is_quoted;
    ck_assert_uint_lt(row->count, READING_COLUMNS_MAX);
    row->fields[row->count++] = to;
    for (from = to; *from != '\0' && (is_quoted ? *from != '"' || from[1] == '"' : *from != ',');) {
      from += is_quoted && *from == '"';
      *to++ = *from++;
    }
    from += is_quoted && *from == '"';
    more = *from == ',';
    from += more;
    *to = '\0';
  }
}

void reading_facts_open(struct reading_facts *facts)
{
  facts->rest = scratch_read_file(suite_source_path("tests/data/model_facts.csv"));
  split(&facts->header, strsep(&facts->rest, "\n"));
}

bool reading_facts_next(struct reading_facts *facts)
{
  char *line = strsep(&facts->rest, "\n");
  if (line == NULL || *line == '\0')
    return false;
  line[strcspn(line, "\r")] = '\0';
  split(&facts->row, line);
  ck_assert_uint_eq(facts->row.count, facts->header.count);
  return true;
}

const char *reading_fact(const struct reading_facts *facts, const char *column)
{
  for (size_t i = 0; i < facts->header.count; i++)
    if (strcmp(facts->header.fields[i], column) == 0)
      return facts->row.fields[i];
  ck_abort_msg("no column %s", column);
  return "";
}

unsigned long long reading_number(const struct reading_facts *facts, const char *column)
{
  return strtoull(reading_fact(facts, column), NULL, 10);
}
