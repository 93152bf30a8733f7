/* /v1/nodes: which exporters are scraped, how that goes, and what was seen of each GPU. Secrets go in and never out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/document.h"
#include "api/handlers.h"
#include "api/json_memory.h"
#include "api/live.h"
#include "api/nodes.h"
#include "api/put.h"
#include "api/read.h"
#include "api/row_csv.h"
#include "api/write.h"

#define POINTS_MAX 10080 /* a week of minutes */

/* ---- Answers ---- */

/* The rated clock of a profile in MHz; NaN when either is unknown. */
static double rated_mhz(const struct catalogue_snapshot *snapshot, const char *profile)
{
  const struct catalogue_profile *row = catalogue_find_profile(snapshot, profile);
  return row != NULL ? row->hardware.boost_clock_mhz : (double)NAN;
}

static json_t *node_document(const struct store_node *row)
{
  json_t *document = json_loads(row->document, 0, NULL), *answer = json_object();
  char created[WRITE_TIME_SIZE];
  write_time(created, row->created_at_ms);
  put_member(&answer, "name", json_string(row->name));
  put_member(&answer, "revision", json_integer(row->revision));
  put_member(&answer, "created_at", json_string(created));
  if (answer != NULL && (document == NULL || json_object_update(answer, document) != 0)) {
    json_decref(answer);
    answer = NULL;
  }
  json_decref(document);
  return answer;
}

static void put_live(json_t **answer, const struct live_node *node, double rated)
{
  json_t *gpus = json_array();
  for (size_t i = 0; i < node->gpu_count; i++)
    put_element(&gpus, live_gpu_write(&node->gpus[i], rated));
  put_member(answer, "health", live_health_write(node));
  put_member(answer, "gpus", gpus);
  put_member(answer, "engine", live_engine_write(&node->engine));
}

/* The configuration alone is what conditions compare: the rest changes with every scrape. */
static void node_tag(char tag[ETAG_SIZE], const struct store_node *row)
{
  char text[96];
  (void)snprintf(text, sizeof text, "%s %d %lld", row->name, row->revision, (long long)row->created_at_ms);
  etag_of(tag, text, strlen(text));
}

static enum err answer_node(struct api_call *call, struct api_response *out, unsigned status, struct error *e)
{
  struct store_node row = {.name = NULL};
  struct live_node node = {.name = ""};
  const struct catalogue_snapshot *snapshot = NULL;
  json_t *answer = NULL;
  enum err code = live_sync(live_of(call->api), call_store(call), e);
  if (code == ERR_OK)
    code = store_node_get(call_store(call), &row, call->params[0], e);
  if (code == ERR_OK)
    code = live_node_copy(&node, live_of(call->api), call->params[0], call->now_ms, e);
  if (code == ERR_OK)
    code = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (code != ERR_OK)
    goto out;
  answer = node_document(&row);
  put_live(&answer, &node, rated_mhz(snapshot, node.profile));
  code = respond_json_steal(out, status, answer, e);
out:
  if (snapshot != NULL)
    catalogue_release(call_catalogue(call), snapshot);
  live_node_fini(&node);
  store_node_fini(&row);
  return code;
}

enum err nodes_get(struct api_call *call, struct api_response *out, struct error *e)
{
  return answer_node(call, out, 200, e);
}

static enum err list_items(json_t **items, struct api_call *call, const struct store_nodes *list, struct error *e)
{
  enum err code = ERR_OK;
  *items = json_array();
  for (size_t i = 0; i < list->count && code == ERR_OK; i++) {
    struct live_node node;
    json_t *item = node_document(&list->rows[i]);
    code = live_node_copy(&node, live_of(call->api), list->rows[i].name, call->now_ms, e);
    if (code == ERR_NOT_FOUND) { /* deleted between the two looks */
      json_decref(item);
      code = ERR_OK;
      continue;
    }
    if (code == ERR_OK) {
      put_member(&item, "health", live_health_write(&node));
      put_member(&item, "gpus", json_integer((json_int_t)node.gpu_count));
      put_element(items, item);
    } else {
      json_decref(item);
    }
    live_node_fini(&node);
  }
  return code;
}

enum err nodes_list(struct api_call *call, struct api_response *out, struct error *e)
{
  struct store_nodes list = {.rows = NULL};
  struct store_page page;
  json_t *items = NULL;
  enum err code;
  if (!call_page(call, &page))
    return ERR_INVALID;
  code = live_sync(live_of(call->api), call_store(call), e);
  if (code == ERR_OK)
    code = store_node_list(call_store(call), &list, &page, e);
  if (code == ERR_OK)
    code = list_items(&items, call, &list, e);
  if (code == ERR_OK)
    code = respond_page_steal(call, out, items, list.has_more ? list.rows[list.count - 1].name : NULL, e);
  else
    json_decref(items);
  store_nodes_fini(&list);
  return code;
}

/* ---- Writing ---- */

static void check_name(struct api_call *call)
{
  char normal[65] = "";
  const struct read_field field = {.kind = READ_NAME, .to = normal, .size = sizeof normal};
  json_t *given = json_string(call->params[0]);
  read_value(given, "{name}", &field, call->faults);
  json_decref(given);
}

static enum err check_profile(struct api_call *call, const struct node *node, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  const enum err code = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (code != ERR_OK)
    return code;
  if (node->profile[0] != '\0' && catalogue_find_profile(snapshot, node->profile) == NULL)
    faults_add(call->faults, FAULT_UNKNOWN_NAME, "/profile", read_nearest(node->profile, snapshot->profile_names),
               "\"%s\" is no stored profile", node->profile);
  catalogue_release(call_catalogue(call), snapshot);
  return ERR_OK;
}

/* The sentence of the check tells what is wrong with the address, never what answers there. */
static enum err check_address(struct api_call *call, const struct node *node, struct error *e)
{
  const struct api_deps *deps = call_deps(call);
  struct node_address address;
  const char *fault;
  enum err code;
  if (deps->check_target == NULL || !node_address_read(&address, node->target.url, &fault))
    return ERR_OK; /* the fault is known already */
  code = deps->check_target(deps->cls, address.host, address.port, e);
  if (code != ERR_INVALID)
    return code;
  faults_add(call->faults, FAULT_OUT_OF_RANGE, "/url", NULL, "%s", e->message);
  return ERR_OK;
}

static enum err check_conditions(int *expected, const struct api_call *call, struct error *e)
{
  struct store_node row = {.name = NULL};
  char tag[ETAG_SIZE];
  enum err code = store_node_get(call_store(call), &row, call->params[0], e);
  *expected = -1;
  if (code != ERR_OK && code != ERR_NOT_FOUND)
    return code;
  if (code == ERR_OK)
    node_tag(tag, &row);
  code = document_compare_tag(call, "node", row.name != NULL ? tag : NULL, e);
  if (code == ERR_OK && call->request->header != NULL &&
      (call->request->header(call->request->cls, "If-Match") != NULL ||
       call->request->header(call->request->cls, "If-None-Match") != NULL))
    *expected = row.revision;
  store_node_fini(&row);
  return code;
}

struct put_work {
  struct store_node row;
  int expected;
  bool is_created;
};

static enum err put_work(struct store_tx *tx, void *cls, struct error *e)
{
  struct put_work *work = cls;
  return store_node_put(tx, &work->row, work->expected, &work->is_created, e);
}

static enum err store(struct put_work *work, struct api_call *call, const struct node *node, struct error *e)
{
  json_t *document = node_write(node), *secrets = node_write_secrets(node);
  enum err code = ERR_OK;
  work->row = (struct store_node){.name = call->params[0], .created_at_ms = call->now_ms};
  work->row.document = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL;
  work->row.secrets = secrets != NULL ? json_memory_dumps(secrets, WRITE_FLAGS) : NULL;
  if (work->row.document == NULL || work->row.secrets == NULL)
    code = error_set(e, ERR_NOMEM, "", "not enough memory to store the node");
  if (code == ERR_OK)
    code = store_write(call_store(call), "node", put_work, work, e);
  if (work->row.secrets != NULL)
    explicit_bzero(work->row.secrets, strlen(work->row.secrets));
  free(work->row.secrets);
  free(work->row.document);
  json_decref(document);
  json_decref(secrets);
  return code;
}

enum err nodes_put(struct api_call *call, struct api_response *out, struct error *e)
{
  struct node node;
  struct put_work work = {.expected = -1};
  enum err code;
  check_name(call);
  node_read(&node, call->body, call->faults);
  code = check_profile(call, &node, e);
  if (code == ERR_OK && node.workload[0] != '\0') /* its first sketch may come from what is observed here */
    code = document_check_workload(call, node.workload, "/workload", true, e);
  if (code == ERR_OK)
    code = check_address(call, &node, e);
  if (code == ERR_OK && call->faults->count > 0)
    code = ERR_INVALID;
  if (code == ERR_OK)
    code = check_conditions(&work.expected, call, e);
  if (code == ERR_OK)
    code = store(&work, call, &node, e);
  explicit_bzero(&node, sizeof node);
  if (code == ERR_OK)
    code = answer_node(call, out, work.is_created ? 201 : 200, e);
  if (code == ERR_OK && work.is_created)
    respond_header(out, "Location", "/v1/nodes/%s", call->params[0]);
  return code;
}

static enum err delete_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_node_delete(tx, cls, e);
}

enum err nodes_delete(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum err code = store_write(call_store(call), "node delete", delete_work, call->params[0], e);
  if (code == ERR_OK)
    out->status = 204;
  return code;
}

/* ---- Series ---- */

static bool read_time(int64_t *unix_ms, struct api_call *call, const char *key, int64_t fallback)
{
  const char *text = call_query(call, key);
  char pointer[32];
  *unix_ms = fallback;
  if (text == NULL || write_time_parse(unix_ms, text))
    return true;
  (void)snprintf(pointer, sizeof pointer, "?%s", key);
  faults_add(call->faults, FAULT_OUT_OF_RANGE, pointer, NULL,
             "is no time as in RFC 3339, such as 2026-11-30T12:00:00Z");
  return false;
}

/* The quantity of ?metric=, GPU_QUANTITIES for a fault. */
static size_t read_metric(struct api_call *call, const char *name)
{
  const char *names[GPU_QUANTITIES + 1] = {NULL};
  for (size_t q = 0; q < GPU_QUANTITIES; q++) {
    names[q] = gpu_quantities[q].name;
    if (strcmp(names[q], name) == 0)
      return q;
  }
  faults_add(call->faults, FAULT_UNKNOWN_VALUE, "?metric", read_nearest(name, names), "is no quantity of a GPU");
  return GPU_QUANTITIES;
}

static json_t *point_write(const struct roll *roll, size_t quantity)
{
  const enum gpu_quantity q = (enum gpu_quantity)quantity;
  json_t *point = json_object();
  put_member(&point, "time", live_time(roll->time_ms));
  if (gpu_quantities[q].kind == QUANTITY_BITS)
    put_member(&point, "value", live_throttle_names((unsigned)roll->figures[q].max));
  else
    put_member(&point, "value", write_number(roll_value(roll, q)));
  put_member(&point, "min", write_number(roll_min(roll, q)));
  put_member(&point, "max", write_number(roll_max(roll, q)));
  put_member(&point, "count", json_integer(roll->figures[q].count));
  return point;
}

/* Times without the quantity have no point: unknown is not 0. */
static json_t *points_write(const struct store_gpu_samples *list, size_t quantity)
{
  json_t *points = json_array();
  struct roll roll;
  for (size_t i = 0; i < list->count; i++) {
    roll.time_ms = list->rows[i].time_ms;
    if (roll_decode(&roll, list->rows[i].figures, list->rows[i].figures_bytes) && roll.figures[quantity].count > 0)
      put_element(&points, point_write(&roll, quantity));
  }
  return points;
}

struct series_request {
  size_t quantities[GPU_QUANTITIES];
  size_t count;
  struct store_sample_filter filter;
};

/* Names with commas between them. */
static void read_metrics(struct series_request *request, struct api_call *call)
{
  const char *names = call_query(call, "metric");
  if (names == NULL || *names == '\0')
    faults_add(call->faults, FAULT_MISSING, "?metric", NULL,
               "is missing: names of quantities with commas between them, such as sm_clock_mhz,power_w");
  while (names != NULL && *names != '\0' && request->count < GPU_QUANTITIES) {
    const size_t length = strcspn(names, ",");
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), names);
    request->quantities[request->count++] = read_metric(call, name);
    names += length + (names[length] == ',');
  }
}

/* Minutes as far back as they may be kept and fit into one answer, else hours. */
static bool read_series(struct series_request *request, struct api_call *call)
{
  static const char *const steps[] = {"1m", "1h", NULL};
  const char *step = call_query(call, "step");
  const size_t before = call->faults->count;
  read_metrics(request, call);
  (void)read_time(&request->filter.until_ms, call, "until", call->now_ms);
  (void)read_time(&request->filter.since_ms, call, "since", request->filter.until_ms - 6 * 3600 * INT64_C(1000));
  if (step != NULL && strcmp(step, steps[0]) != 0 && strcmp(step, steps[1]) != 0)
    faults_add(call->faults, FAULT_UNKNOWN_VALUE, "?step", read_nearest(step, steps), "is neither 1m nor 1h");
  request->filter.node = call->params[0];
  request->filter.gpu = call->params[1];
  request->filter.step_s = step != NULL && strcmp(step, "1h") == 0 ? LIVE_LONG_STEP_S : LIVE_GPU_STEP_S;
  request->filter.limit = POINTS_MAX;
  if (step == NULL && request->filter.until_ms - request->filter.since_ms > POINTS_MAX * INT64_C(60000))
    request->filter.step_s = LIVE_LONG_STEP_S;
  return call->faults->count == before;
}

/* One line a point. */
static char *gpu_series_csv(const json_t *answer)
{
  const json_t *series = json_object_get(answer, "series");
  json_t *rows = json_array();
  char *text;
  for (size_t i = 0; i < json_array_size(series); i++) {
    const json_t *one = json_array_get(series, i), *points = json_object_get(one, "points");
    for (size_t k = 0; k < json_array_size(points); k++) {
      json_t *row = json_copy(json_array_get(points, k));
      put_member(&row, "metric", json_incref(json_object_get(one, "metric")));
      put_element(&rows, row);
    }
  }
  text = rows != NULL ? row_csv(rows, "metric,time,value,min,max,count") : NULL;
  json_decref(rows);
  return text;
}

enum err nodes_gpu_series_get(struct api_call *call, struct api_response *out, struct error *e)
{
  const enum format format = call_format(call, FORMAT_JSON | FORMAT_CSV);
  struct series_request request = {.count = 0};
  struct store_gpu_samples list = {.rows = NULL};
  struct store_node row = {.name = NULL};
  json_t *answer, *series;
  enum err code;
  if (format == FORMAT_NOT_ACCEPTABLE)
    return call_not_acceptable(call, out, FORMAT_JSON | FORMAT_CSV);
  if (!read_series(&request, call))
    return ERR_INVALID;
  code = store_node_get(call_store(call), &row, call->params[0], e);
  if (code == ERR_OK)
    code = store_gpu_sample_list(call_store(call), &list, &request.filter, e);
  store_node_fini(&row);
  if (code != ERR_OK)
    return code;
  answer = json_object();
  series = json_array();
  for (size_t i = 0; i < request.count; i++) {
    json_t *one = json_object();
    put_member(&one, "metric", json_string(gpu_quantities[request.quantities[i]].name));
    put_member(&one, "points", points_write(&list, request.quantities[i]));
    put_element(&series, one);
  }
  put_member(&answer, "node", json_string(call->params[0]));
  put_member(&answer, "gpu", json_string(call->params[1]));
  put_member(&answer, "step_s", json_integer(request.filter.step_s));
  put_member(&answer, "truncated", json_boolean(list.has_more));
  put_member(&answer, "series", series);
  store_gpu_samples_fini(&list);
  return respond_form_steal(out, format, answer, gpu_series_csv, NULL, e);
}
