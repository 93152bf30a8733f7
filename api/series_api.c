/* GET /v1/series: figures of scorecards, or of measurements, over time. Written as text: a year of several figures is
   thousands of numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/history.h"
#include "api/json_memory.h"
#include "api/read.h"
#include "api/write.h"

#define METRICS_MAX 32
#define POINTS_MAX 20000 /* of one metric */
#define MINUTE_MS INT64_C(60000)
#define DAY_MS (24 * 60 * MINUTE_MS)
#define MONDAY_MS (4 * DAY_MS) /* 1970-01-05 */

static const char *const by_words[] = {"profile", "model", "label", "stack", "context.ref", "verdict", NULL};

struct request {
  struct store_series_query query;
  const char *metrics[METRICS_MAX];
  size_t metric_count;
  enum format format;
};

/* "15m", "6h", "1d", "2w". */
static bool parse_bucket(int64_t *bucket_ms, const char *text)
{
  static const struct {
    char unit;
    int64_t ms;
  } units[] = {{'m', MINUTE_MS}, {'h', 60 * MINUTE_MS}, {'d', DAY_MS}, {'w', 7 * DAY_MS}};
  int64_t number = 0;
  size_t i;
  for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 4; i++)
    number = number * 10 + (text[i] - '0');
  for (size_t k = 0; k < sizeof units / sizeof units[0]; k++)
    if (number > 0 && text[i] == units[k].unit && text[i + 1] == '\0') {
      *bucket_ms = number * units[k].ms;
      return true;
    }
  return false;
}

static void read_bucket(struct request *request, struct api_call *call)
{
  const char *text = call_query(call, "bucket");
  char excerpt[READ_EXCERPT_SIZE];
  request->query.bucket_ms = DAY_MS;
  if (text != NULL && !parse_bucket(&request->query.bucket_ms, text))
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "?bucket", "1d",
               "is \"%s\"; a number of minutes, hours, days or weeks is expected, as 15m, 6h, 1d or 1w",
               read_excerpt(excerpt, text));
  if (request->query.bucket_ms % (7 * DAY_MS) == 0)
    request->query.offset_ms = MONDAY_MS;
}

#define STRESS(path)                                                                                                   \
  "stress.input_doubled." path, "stress.output_doubled." path, "stress.bursts_doubled." path,                          \
      "stress.power_cap_minus_20_percent." path, "stress.one_gpu_throttled." path, "stress.replica_lost." path,        \
      "stress.kernels_fall_back." path,
#define PATH(path) path,
static const char *const predicted_paths[] = {
#include "api/figure_paths.def"
    NULL};
#undef PATH
#undef STRESS

static bool is_listed(const char *path, const char *const *paths)
{
  for (; *paths != NULL; paths++)
    if (strcmp(*paths, path) == 0)
      return true;
  return false;
}

/* What is measured are the figures that have columns. */
static void check_metric(struct api_call *call, const char *path, bool is_observed)
{
  const char *observed_paths[STORE_FIGURE_COUNT + 1] = {NULL};
  const char *const *paths = is_observed ? observed_paths : predicted_paths;
  char excerpt[READ_EXCERPT_SIZE];
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++)
    observed_paths[i] = store_figures[i].path;
  if (!is_listed(path, paths))
    faults_add(call->faults, FAULT_UNKNOWN_VALUE, "?metric", read_nearest(path, paths),
               "\"%s\" is not the dotted path of a figure%s", read_excerpt(excerpt, path),
               is_observed ? " that is measured" : "");
}

/* After read_by, which says where from. */
static void read_metrics(struct request *request, struct api_call *call)
{
  const size_t given = call->request->query != NULL
                           ? call->request->query(call->request->cls, "metric", request->metrics, METRICS_MAX)
                           : 0;
  request->metric_count = given < METRICS_MAX ? given : METRICS_MAX;
  if (given == 0)
    faults_add(call->faults, FAULT_MISSING, "?metric", "cost.per_successful_request_usd",
               "is required: the dotted path of a figure; it may be given several times");
  if (given > METRICS_MAX)
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "?metric", NULL, "is given %zu times; at most %d are answered at once",
               given, METRICS_MAX);
  for (size_t i = 0; i < request->metric_count; i++)
    check_metric(call, request->metrics[i], request->query.is_observed);
}

static void read_by(struct request *request, struct api_call *call)
{
  static const char *const sources[] = {"predicted", "observed", NULL};
  int by = STORE_BY_PROFILE, source = 0;
  const struct read_field by_field = {.kind = READ_WORD, .to = &by, .words = by_words};
  const struct read_field source_field = {.kind = READ_WORD, .to = &source, .words = sources};
  history_query(call, "by", &by_field);
  history_query(call, "source", &source_field);
  request->query.by = (enum store_series_by)by;
  request->query.is_observed = source == 1;
  if (source == 1 && by != STORE_BY_PROFILE && by != STORE_BY_MODEL && by != STORE_BY_STACK)
    faults_add(call->faults, FAULT_CONFLICT, "?by", "stack", "measurements have no %s", by_words[by]);
}

static int64_t bucket_floor(const struct store_series_query *query, int64_t time_ms)
{
  const int64_t since = time_ms - query->offset_ms;
  return since <= 0 ? query->offset_ms : since / query->bucket_ms * query->bucket_ms + query->offset_ms;
}

/* Whole buckets: the one that since lies in, until the end of the one that until lies in. */
static void read_times(struct request *request, struct api_call *call)
{
  struct store_series_query *query = &request->query;
  int64_t since_ms = 0, until_ms = call->now_ms + 1;
  history_time(call, "since", &since_ms);
  history_time(call, "until", &until_ms);
  if (since_ms >= until_ms)
    faults_add(call->faults, FAULT_CONFLICT, "?until", NULL, "until is not after since");
  query->since_ms = bucket_floor(query, since_ms);
  query->until_ms = bucket_floor(query, until_ms - 1) + query->bucket_ms;
}

static enum err read_request(struct request *request, struct api_call *call, struct error *e)
{
  *request = (struct request){.query = {.workload = call_query(call, "workload"),
                                        .profile = call_query(call, "profile"),
                                        .points_max = POINTS_MAX}};
  read_bucket(request, call);
  read_by(request, call);
  read_metrics(request, call);
  read_times(request, call);
  return call->faults->count == 0 ? ERR_OK : error_set(e, ERR_INVALID, "", "the query is not valid");
}

/* ---- Writing -------------------------------------------------------------------------------------------------------- */

static const char *unit_of(const char *path)
{
  for (size_t i = 0; i < STORE_FIGURE_COUNT; i++)
    if (strcmp(store_figures[i].path, path) == 0)
      return store_figures[i].unit;
  return NULL;
}

/* JSON text of a string of ours or of the store's; labels may hold anything. */
static void put_string(struct text *text, const char *value)
{
  json_t *json = write_text(value);
  char *bytes = json_memory_dumps(json, JSON_ENCODE_ANY);
  json_decref(json);
  if (bytes != NULL)
    text_puts(text, bytes);
  else
    text->is_failed = true;
  free(bytes);
}

static void put_json(struct text *text, const struct store_series *series, const struct request *request,
                     const char *metric)
{
  const struct store_series_query *query = &request->query;
  text_puts(text, "{\"workload\":");
  put_string(text, series->workload);
  text_puts(text, ",\"profile\":");
  put_string(text, series->profile);
  if (query->by != STORE_BY_PROFILE) {
    text_printf(text, ",\"%s\":", by_words[query->by]);
    put_string(text, series->by[0] != '\0' ? series->by : NULL);
  }
  text_puts(text, ",\"metric\":");
  put_string(text, metric);
  text_puts(text, ",\"unit\":");
  put_string(text, unit_of(metric));
  text_printf(text, ",\"source\":\"%s\",\"points\":[", query->is_observed ? "observed" : "predicted");
  for (size_t i = 0; i < series->count; i++) {
    const struct store_point *point = &series->points[i];
    char time[WRITE_TIME_SIZE];
    write_time(time, point->time_ms);
    text_printf(text, "%s{\"time\":\"%s\",\"value\":%.15g,\"min\":%.15g,\"max\":%.15g,\"count\":%lld}",
                i > 0 ? "," : "", time, point->mean, point->least, point->greatest, (long long)point->count);
  }
  text_puts(text, "]}");
}

static void put_csv(struct text *text, const struct store_series *series, const struct request *request,
                    const char *metric)
{
  const char *unit = unit_of(metric);
  for (size_t i = 0; i < series->count; i++) {
    const struct store_point *point = &series->points[i];
    char time[WRITE_TIME_SIZE];
    write_time(time, point->time_ms);
    text_csv_field(text, series->workload);
    text_puts(text, ",");
    text_csv_field(text, series->profile);
    text_puts(text, ",");
    if (request->query.by != STORE_BY_PROFILE) {
      text_csv_field(text, series->by);
      text_puts(text, ",");
    }
    text_printf(text, "%s,%s,%s,%s,%.15g,%.15g,%.15g,%lld\r\n", metric, unit != NULL ? unit : "",
                request->query.is_observed ? "observed" : "predicted", time, point->mean, point->least, point->greatest,
                (long long)point->count);
  }
}

static enum err put_metric(struct text *text, bool *is_first, struct api_call *call, struct request *request,
                           const char *metric, struct error *e)
{
  struct store_series_list list;
  enum err rc;
  request->query.path = metric;
  rc = store_series_list(call_store(call), &list, &request->query, e);
  if (rc == ERR_LIMIT) {
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "?bucket", NULL,
               "makes more than %d points of %s; a larger bucket or a shorter time is needed", POINTS_MAX, metric);
    return ERR_INVALID;
  }
  for (size_t i = 0; rc == ERR_OK && i < list.count; i++) {
    if (list.rows[i].count == 0)
      continue;
    if (request->format == FORMAT_CSV) {
      put_csv(text, &list.rows[i], request, metric);
      continue;
    }
    text_puts(text, *is_first ? "" : ",");
    put_json(text, &list.rows[i], request, metric);
    *is_first = false;
  }
  store_series_list_fini(&list);
  return rc;
}

static void put_head(struct text *text, const struct request *request)
{
  if (request->format == FORMAT_JSON)
    text_puts(text, "{\"series\":[");
  else
    text_printf(text, "workload,profile,%s%smetric,unit,source,time,value,min,max,count\r\n",
                request->query.by != STORE_BY_PROFILE ? by_words[request->query.by] : "",
                request->query.by != STORE_BY_PROFILE ? "," : "");
}

enum err series_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct text text = {NULL, 0, 0, false};
  struct request request;
  const enum format format = call_format(call, FORMAT_JSON | FORMAT_CSV);
  bool is_first = true;
  size_t length;
  enum err rc;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMAT_JSON | FORMAT_CSV);
  rc = read_request(&request, call, e);
  if (rc != ERR_OK)
    return rc;
  request.format = format;
  put_head(&text, &request);
  for (size_t i = 0; rc == ERR_OK && i < request.metric_count; i++)
    rc = put_metric(&text, &is_first, call, &request, request.metrics[i], e);
  if (format == FORMAT_JSON)
    text_puts(&text, "]}");
  if (rc != ERR_OK) {
    free(text_take(&text, &length));
    return rc;
  }
  return respond_string_steal(out, 200, format == FORMAT_CSV ? "text/csv" : "application/json",
                              text_take(&text, &length), e);
}
