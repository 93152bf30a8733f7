/* CSV from rows of JSON: a header of dotted paths, then what each row has there. */
#include "api/row_csv.h"

#include <string.h>

#include "api/read.h"
#include "api/write.h"

/* The main figures of a scorecard; its findings, advice and stress are documents of their own. */
#define CARD_COLUMNS_CSV                                                                                               \
  "id,created_at,workload,model,label,profile,verdict,no_fit_reason,"                                                  \
  "configuration.tensor_parallel,configuration.pipeline_parallel,configuration.replicas,configuration.gpus,"           \
  "configuration.max_batch,configuration.precision.weights,configuration.precision.kv_cache,"                          \
  "memory.weights_gib,memory.kv_cache_gib,memory.kv_bytes_per_token,memory.max_concurrent_sessions,"                   \
  "memory.max_context_tokens,memory.min_gpus,"                                                                         \
  "phases.prefill.bound,phases.prefill.time_ms,phases.decode.bound,phases.decode.step_ms,"                             \
  "latency.ttft_ms.p50,latency.ttft_ms.p90,latency.ttft_ms.p99,latency.itl_ms.p50,latency.itl_ms.p90,"                 \
  "latency.itl_ms.p99,latency.tpot_ms.mean,latency.e2e_ms.p50,latency.e2e_ms.p90,latency.e2e_ms.p99,"                  \
  "throughput.requests_per_s,throughput.output_tokens_per_s,throughput.output_tokens_per_s_per_gpu,"                   \
  "throughput.output_tokens_per_s_per_user,throughput.mean_batch,throughput.at_concurrency,"                           \
  "limits.knee_requests_per_s,limits.saturation_requests_per_s,limits.margin_to_knee,limits.first_limit,success.rate," \
  "cost.usd_per_gpu_hour,cost.price_basis,cost.per_attempted_request_usd,cost.per_successful_request_usd,"             \
  "cost.per_million_output_tokens_usd,cost.monthly_usd,"                                                               \
  "model_revision,profile_revision,core_version,sketch_digest,evaluation,trace_digest,stack,context,seed,quality,"     \
  "no_fit_detail"

static const struct {
  const char *pattern, *columns;
} lists[] = {
#define ROW(pattern, columns) {pattern, columns},
#include "api/page_columns.def"
#undef ROW
};

const char *row_csv_columns(const char *pattern)
{
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
    if (strcmp(lists[i].pattern, pattern) == 0)
      return lists[i].columns;
  return NULL;
}

/* The next of a list of paths; false at its end. Names of more than 127 bytes are cut: nothing is called so. */
static bool next_path(char path[128], const char **rest)
{
  const size_t length = strcspn(*rest, ",");
  const size_t kept = length < 127 ? length : 127;
  if (**rest == '\0')
    return false;
  memcpy(path, *rest, kept);
  path[kept] = '\0';
  *rest += length;
  *rest += **rest == ',' ? 1 : 0;
  return true;
}

/* A new reference; NULL for what is absent. */
static json_t *value_at(struct text *text, const json_t *value, const char *path)
{
  const size_t length = strcspn(path, ".");
  const char *rest = path + length + (path[length] == '.' ? 1 : 0);
  if (json_is_array(value)) {
    json_t *each = json_array();
    for (size_t i = 0; i < json_array_size(value); i++) {
      json_t *one = value_at(text, json_array_get(value, i), path);
      if (json_array_append_new(each, one != NULL ? one : json_null()) != 0)
        text->is_failed = true;
    }
    return each;
  }
  value = json_object_getn(value, path, length);
  return *rest == '\0' ? json_incref(read_iterable(value)) : value_at(text, value, rest);
}

static void put_row(struct text *text, const json_t *row, const char *columns)
{
  char path[128];
  for (bool is_first = true; next_path(path, &columns); is_first = false) {
    json_t *value = value_at(text, row, path);
    if (!is_first)
      text_puts(text, ",");
    text_csv_value(text, value);
    json_decref(value);
  }
  text_puts(text, "\r\n");
}

char *row_csv(const json_t *rows, const char *columns)
{
  struct text text = {NULL, 0, 0, false};
  char path[128];
  const char *rest = columns;
  for (bool is_first = true; next_path(path, &rest); is_first = false) {
    if (!is_first)
      text_puts(&text, ",");
    text_csv_field(&text, path);
  }
  text_puts(&text, "\r\n");
  for (size_t i = 0; i < json_array_size(rows); i++)
    put_row(&text, json_array_get(rows, i), columns);
  return text_take(&text, NULL);
}
