/* /v1/quality-results: what benchmarks said about a model in the formats it was served in. */
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/json_memory.h"
#include "api/put.h"
#include "api/read.h"
#include "api/sketch_parts.h"
#include "api/write.h"
#include "core/precision.h"

struct result {
  char model[129], stack[65], benchmark[128], slice[128], source[513];
  double score;
  struct workload workload; /* its precision */
};

static void read_body(struct result *to, struct api_call *call)
{
  const struct read_field fields[] = {
      {.name = "model", .kind = READ_TEXT, .is_required = true, .to = to->model, .size = sizeof to->model},
      {.name = "precision", .kind = READ_CALL, .is_required = true, .to = &to->workload, .call = sketch_read_precision},
      {.name = "stack", .kind = READ_NAME, .allows_null = true, .to = to->stack, .size = sizeof to->stack},
      {.name = "benchmark", .kind = READ_TEXT, .is_required = true, .to = to->benchmark, .size = sizeof to->benchmark},
      {.name = "slice", .kind = READ_TEXT, .allows_null = true, .to = to->slice, .size = sizeof to->slice},
      /* a fraction, as everywhere: 81 % is 0.81, 7.9 of 10 is 0.79 */
      {.name = "score", .kind = READ_NUMBER, .is_required = true, .to = &to->score, .min = 0, .max = 1},
      {.name = "source", .kind = READ_TEXT, .is_required = true, .to = to->source, .size = sizeof to->source},
  };
  const size_t before = call->faults->count;
  memset(to, 0, sizeof *to);
  workload_init(&to->workload);
  (void)read_object(call->body, "", fields, sizeof fields / sizeof fields[0], call->faults);
  if (call->faults->count == before && to->workload.weights == PRECISION_NONE)
    faults_add(call->faults, FAULT_MISSING, "/precision/weights", NULL, "is required");
}

/* Names as the catalogue has them; a stack must be stored. */
static enum err resolve(struct result *result, struct api_call *call, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  const struct catalogue_model *model;
  enum err rc = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (rc != ERR_OK)
    return rc;
  model = result->model[0] != '\0' ? catalogue_find_model(snapshot, result->model) : NULL;
  if (model != NULL)
    (void)snprintf(result->model, sizeof result->model, "%s", model->name);
  else if (result->model[0] != '\0')
    sketch_unknown_name("/model", "model", result->model, snapshot->model_names, call->faults);
  if (result->stack[0] != '\0' && catalogue_find_stack(snapshot, result->stack) == NULL)
    sketch_unknown_name("/stack", "stack", result->stack, snapshot->stack_names, call->faults);
  catalogue_release(call_catalogue(call), snapshot);
  return call->faults->count == 0 ? ERR_OK : error_set(e, ERR_INVALID, "", "the result is not valid");
}

static const char *format_name(enum precision precision)
{
  return precision == PRECISION_NONE ? "" : precision_name(precision);
}

static json_t *text_or_null(const char *text)
{
  return write_text(text[0] != '\0' ? text : NULL);
}

static json_t *document_write(const char *id, const struct api_call *call, const struct result *result)
{
  char created_at[WRITE_TIME_SIZE];
  json_t *document = json_object(), *precision = json_object();
  write_time(created_at, call->now_ms);
  put_member(&precision, "weights", text_or_null(format_name(result->workload.weights)));
  put_member(&precision, "kv_cache", text_or_null(format_name(result->workload.kv_cache)));
  put_member(&precision, "activations", text_or_null(format_name(result->workload.activations)));
  put_member(&document, "id", write_text(id));
  put_member(&document, "created_at", write_text(created_at));
  put_member(&document, "model", write_text(result->model));
  put_member(&document, "precision", precision);
  put_member(&document, "stack", text_or_null(result->stack));
  put_member(&document, "benchmark", write_text(result->benchmark));
  put_member(&document, "slice", text_or_null(result->slice));
  put_member(&document, "score", write_number(result->score));
  put_member(&document, "source", write_text(result->source));
  return document;
}

static enum err insert(struct store_tx *tx, void *cls, struct error *e)
{
  return store_quality_insert(tx, cls, e);
}

static enum err store(struct api_call *call, struct api_response *out, struct result *result, struct error *e)
{
  char id[37], weights[32], kv_cache[32];
  struct store_quality row = {.id = id,
                              .created_at_ms = call->now_ms,
                              .model = result->model,
                              .weights = weights,
                              .kv_cache = kv_cache,
                              .stack = result->stack,
                              .benchmark = result->benchmark,
                              .slice = result->slice,
                              .score = result->score};
  json_t *document;
  enum err rc;
  call_new_id(call, id, 0);
  (void)snprintf(weights, sizeof weights, "%s", format_name(result->workload.weights));
  (void)snprintf(kv_cache, sizeof kv_cache, "%s", format_name(result->workload.kv_cache));
  document = document_write(id, call, result);
  row.document = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL;
  json_decref(document);
  if (row.document == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to store the result");
  rc = store_write(call_store(call), "quality result", insert, &row, e);
  if (rc == ERR_OK)
    return respond_string_steal(out, 201, "application/json", row.document, e);
  free(row.document);
  return rc;
}

enum err quality_results_post(struct api_call *call, struct api_response *out, struct error *e)
{
  struct result result;
  enum err rc;
  read_body(&result, call);
  rc = resolve(&result, call, e);
  return rc == ERR_OK ? store(call, out, &result, e) : rc;
}

enum err quality_results_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_history_filter filter;
  struct store_qualities list = {.rows = NULL};
  struct store_page page;
  enum err rc = history_filter(&filter, &page, call, e);
  if (rc == ERR_OK)
    rc = store_quality_list(call_store(call), &list, &filter, call_query(call, "benchmark"), &page, e);
  if (rc != ERR_OK)
    return rc;
  const struct page_rows rows = {.rows = list.rows,
                                 .size = sizeof *list.rows,
                                 .count = list.count,
                                 .document_at = offsetof(struct store_quality, document),
                                 .key_at = offsetof(struct store_quality, id),
                                 .has_more = list.has_more};
  rc = respond_page_rows(call, out, &rows, e);
  store_qualities_fini(&list);
  return rc;
}
