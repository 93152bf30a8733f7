/* Rows of the history from an evaluation, spliced answers, and the filters of its lists. */
#include "api/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/card_table.h"
#include "api/json_memory.h"
#include "api/read.h"
#include "api/write.h"

/* ---- Texts ---------------------------------------------------------------------------------------------------------- */

enum err evaluation_texts_make(struct evaluation_texts *out, const struct evaluation *evaluation, struct error *e)
{
  const size_t count = json_array_size(evaluation->scorecards);
  bool is_complete;
  out->count = 0;
  out->head = json_memory_dumps(evaluation->head, WRITE_FLAGS);
  out->cards = calloc(count + 1, sizeof *out->cards);
  is_complete = out->head != NULL && out->cards != NULL;
  for (size_t i = 0; i < count && is_complete; i++) {
    out->cards[i] = json_memory_dumps(json_array_get(evaluation->scorecards, i), WRITE_FLAGS);
    is_complete = out->cards[i] != NULL;
    out->count++;
  }
  if (is_complete)
    return ERR_OK;
  evaluation_texts_fini(out);
  return error_set(e, ERR_NOMEM, "", "not enough memory to write the evaluation");
}

void evaluation_texts_fini(struct evaluation_texts *texts)
{
  for (size_t i = 0; i < texts->count; i++)
    free(texts->cards[i]);
  free(texts->cards);
  free(texts->head);
  *texts = (struct evaluation_texts){NULL, NULL, 0};
}

char *evaluation_splice(size_t *length, const char *head, char *const *cards, size_t count)
{
  const size_t head_length = strlen(head);
  struct text text = {NULL, 0, 0, false};
  text_append(&text, head, head_length > 0 ? head_length - 1 : 0); /* without its closing brace */
  text_puts(&text, ",\"scorecards\":[");
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      text_puts(&text, ",");
    text_puts(&text, cards[i]);
  }
  text_puts(&text, "]}");
  return text_take(&text, length);
}

/* ---- Rows ----------------------------------------------------------------------------------------------------------- */

static const json_t *at(const json_t *value, const char *a, const char *b, const char *c)
{
  value = json_object_get(value, a);
  if (b != NULL)
    value = json_object_get(value, b);
  return c != NULL ? json_object_get(value, c) : value;
}

static double figure(const json_t *value)
{
  return json_is_number(value) ? json_number_value(value) : STORE_FIGURE_ABSENT;
}

/* A copy of a text member; "" when it is absent or null. *is_failed is set when memory is out. */
static char *copy(const json_t *value, bool *is_failed)
{
  char *text = strdup(json_is_string(value) ? json_string_value(value) : "");
  if (text == NULL)
    *is_failed = true;
  return text;
}

/* A stored stack is searched by its name, one that is given in full by its canonical text. */
static char *stack_text(const json_t *stack, bool *is_failed)
{
  char *text;
  if (!json_is_object(stack) || json_object_get(stack, "name") != NULL)
    return copy(json_is_object(stack) ? json_object_get(stack, "name") : stack, is_failed);
  text = write_canonical(stack);
  if (text == NULL)
    *is_failed = true;
  return text;
}

static enum err scorecard_row(struct store_scorecard *row, const json_t *card, const char *document, int64_t now_ms,
                              struct error *e)
{
  bool is_failed = false;
  *row = (struct store_scorecard){.created_at_ms = now_ms};
  row->id = copy(at(card, "id", NULL, NULL), &is_failed);
  row->evaluation = copy(at(card, "evaluation", NULL, NULL), &is_failed);
  row->workload = copy(at(card, "workload", NULL, NULL), &is_failed);
  row->model = copy(at(card, "model", NULL, NULL), &is_failed);
  row->profile = copy(at(card, "profile", NULL, NULL), &is_failed);
  row->verdict = copy(at(card, "verdict", NULL, NULL), &is_failed);
  row->label = copy(at(card, "label", NULL, NULL), &is_failed);
  row->stack = stack_text(at(card, "stack", NULL, NULL), &is_failed);
  row->context_ref = copy(at(card, "context", "ref", NULL), &is_failed);
  row->sketch_digest = copy(at(card, "sketch_digest", NULL, NULL), &is_failed);
  row->core_version = copy(at(card, "core_version", NULL, NULL), &is_failed);
  row->trace_digest = copy(at(card, "trace_digest", NULL, NULL), &is_failed);
  row->model_revision = (int)json_integer_value(at(card, "model_revision", NULL, NULL));
  row->profile_revision = (int)json_integer_value(at(card, "profile_revision", NULL, NULL));
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++)
    *store_scorecard_figure(row, i) = figure(card_at(card, store_figures[i].path));
  row->document = strdup(document);
  if (!is_failed && row->document != NULL)
    return ERR_OK;
  store_scorecard_fini(row);
  return error_set(e, ERR_NOMEM, "", "not enough memory to store the scorecard");
}

static enum err evaluation_row(struct store_evaluation *row, const json_t *head, const char *sketch,
                               const char *document, int64_t now_ms, struct error *e)
{
  bool is_failed = false;
  *row = (struct store_evaluation){.created_at_ms = now_ms};
  row->id = copy(at(head, "id", NULL, NULL), &is_failed);
  row->workload = copy(at(head, "workload", NULL, NULL), &is_failed);
  row->model = copy(at(head, "model", NULL, NULL), &is_failed);
  row->label = copy(at(head, "label", NULL, NULL), &is_failed);
  row->core_version = copy(at(head, "core_version", NULL, NULL), &is_failed);
  row->sketch_digest = copy(at(head, "sketch_digest", NULL, NULL), &is_failed);
  row->sketch = strdup(sketch);
  row->document = strdup(document);
  if (!is_failed && row->sketch != NULL && row->document != NULL)
    return ERR_OK;
  store_evaluation_fini(row);
  return error_set(e, ERR_NOMEM, "", "not enough memory to store the evaluation");
}

/* The revision of the workload whose official sketch this is, 0 when it is another sketch. */
static enum err official_revision(int *revision, struct store *store, const struct sketch *sketch, struct error *e)
{
  struct store_document row;
  char digest[WRITE_DIGEST_SIZE];
  json_t *document = NULL;
  enum err rc = store_document_get(store, &row, STORE_WORKLOAD, sketch->workload.name, 0, e);
  *revision = 0;
  if (rc == ERR_NOT_FOUND)
    return ERR_OK;
  if (rc != ERR_OK)
    return rc;
  document = json_loads(row.document, 0, NULL);
  if (!sketch_digest(digest, json_object_get(document, "sketch")))
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to compare with the official sketch");
  else if (strcmp(digest, sketch->digest) == 0)
    *revision = row.revision;
  json_decref(document);
  store_document_fini(&row);
  return rc;
}

struct rows {
  struct store_evaluation evaluation;
  struct store_scorecard *cards;
  size_t count;
};

static enum err insert_rows(struct store_tx *tx, void *cls, struct error *e)
{
  const struct rows *rows = cls;
  enum err rc = store_evaluation_insert(tx, &rows->evaluation, e);
  for (size_t i = 0; i < rows->count && rc == ERR_OK; i++)
    rc = store_scorecard_insert(tx, &rows->cards[i], e);
  return rc;
}

enum err evaluation_store(struct store *store, const struct evaluation *evaluation, const struct sketch *sketch,
                          const struct evaluation_texts *texts, int64_t now_ms, struct error *e)
{
  struct rows rows = {.cards = calloc(texts->count + 1, sizeof *rows.cards)};
  enum err rc;
  if (rows.cards == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to store %zu scorecards", texts->count);
  rc = evaluation_row(&rows.evaluation, evaluation->head, sketch->canonical, texts->head, now_ms, e);
  if (rc == ERR_OK && !evaluation->is_quick)
    rc = official_revision(&rows.evaluation.official_revision, store, sketch, e);
  for (size_t i = 0; i < texts->count && rc == ERR_OK; i++) {
    struct store_scorecard *row = &rows.cards[i];
    rc = scorecard_row(row, json_array_get(evaluation->scorecards, i), texts->cards[i], now_ms, e);
    row->ordinal = (int)i;
    rows.count += rc == ERR_OK ? 1 : 0;
  }
  if (rc == ERR_OK)
    rc = store_write(store, "evaluation", insert_rows, &rows, e);
  for (size_t i = 0; i < rows.count; i++)
    store_scorecard_fini(&rows.cards[i]);
  free(rows.cards);
  store_evaluation_fini(&rows.evaluation);
  return rc;
}

/* ---- Filters -------------------------------------------------------------------------------------------------------- */

void history_query(struct api_call *call, const char *key, const struct read_field *field)
{
  const char *text = call_query(call, key);
  char pointer[80];
  json_t *value;
  if (text == NULL)
    return;
  (void)snprintf(pointer, sizeof pointer, "?%s", key);
  value = json_string(text);
  if (value != NULL)
    read_value(value, pointer, field, call->faults);
  else
    faults_add(call->faults, FAULT_WRONG_TYPE, pointer, NULL, "is not UTF-8 text");
  json_decref(value);
}

void history_time(struct api_call *call, const char *key, int64_t *to_ms)
{
  const char *text = call_query(call, key);
  char pointer[80], excerpt[READ_EXCERPT_SIZE];
  if (text == NULL || write_time_parse(to_ms, text))
    return;
  (void)snprintf(pointer, sizeof pointer, "?%s", key);
  faults_add(call->faults, FAULT_OUT_OF_RANGE, pointer, NULL,
             "\"%s\" is not a time: RFC 3339 (2026-11-30T12:00:00Z) or a date is expected",
             read_excerpt(excerpt, text));
}

enum err history_filter(struct store_history_filter *out, struct store_page *page, struct api_call *call,
                        struct error *e)
{
  static const char *const verdicts[] = {"fit", "fit_with_changes", "no_fit", NULL};
  static const char *const booleans[] = {"true", "false", NULL};
  const size_t before = call->faults->count;
  int verdict = -1, latest = 1;
  const struct read_field verdict_field = {.kind = READ_WORD, .to = &verdict, .words = verdicts};
  const struct read_field latest_field = {.kind = READ_WORD, .to = &latest, .words = booleans};
  *out = (struct store_history_filter){.workload = call_query(call, "workload"),
                                       .model = call_query(call, "model"),
                                       .profile = call_query(call, "profile"),
                                       .label = call_query(call, "label"),
                                       .stack = call_query(call, "stack"),
                                       .context_ref = call_query(call, "context.ref")};
  (void)call_page(call, page); /* counted below */
  history_query(call, "verdict", &verdict_field);
  history_query(call, "latest", &latest_field);
  out->verdict = verdict >= 0 ? verdicts[verdict] : NULL;
  out->latest = latest == 0;
  history_time(call, "since", &out->since_ms);
  history_time(call, "until", &out->until_ms);
  if (out->since_ms != 0 && out->until_ms != 0 && out->since_ms >= out->until_ms)
    faults_add(call->faults, FAULT_CONFLICT, "?until", NULL, "until is not after since");
  return call->faults->count == before ? ERR_OK : error_set(e, ERR_INVALID, "", "the query is not valid");
}
