/* GET /metrics: fitd in the Prometheus text format. The process, the nodes, and of each workload the newest scorecards of its
   official sketch. Figures that are not known have no sample. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/derate.h"
#include "api/fleet.h"
#include "api/handlers.h"
#include "api/live.h"
#include "api/metrics.h"
#include "api/write.h"
#include "core/fit.h"

#define PAGE 1000

/* ---- Text ---- */

static void family(struct text *text, const char *name, const char *type, const char *help)
{
  text_printf(text, "# HELP fitd_%s %s\n# TYPE fitd_%s %s\n", name, help, name, type);
}

static void sample(struct text *text, const char *name, const char *labels, double value)
{
  if (!isfinite(value))
    return;
  text_printf(text, "fitd_%s%s%s%s %.17g\n", name, labels[0] != '\0' ? "{" : "", labels, labels[0] != '\0' ? "}" : "",
              value);
}

static void single(struct text *text, const char *name, const char *type, const char *help, double value)
{
  if (!isfinite(value))
    return;
  family(text, name, type, help);
  sample(text, name, "", value);
}

/* ---- The process ---- */

/* The names of process_… are those of every exporter, without a prefix of ours. */
static void process(struct text *text, const char *name, const char *type, const char *help, double value)
{
  if (isfinite(value))
    text_printf(text, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.17g\n", name, help, name, type, name,
                value);
}

static void write_process(struct text *text, struct api_call *call)
{
  const struct api_deps *deps = call_deps(call);
  const double unknown = (double)NAN;
  struct api_stats stats = {.cpu_s = unknown,
                            .resident_bytes = unknown,
                            .open_descriptors = unknown,
                            .max_descriptors = unknown,
                            .scrapes = unknown,
                            .scrape_failures = unknown,
                            .scrapes_late = unknown};
  if (deps->stats != NULL)
    deps->stats(deps->cls, &stats);
  family(text, "build_info", "gauge", "Version of the service; always 1.");
  text_printf(text, "fitd_build_info{version=\"%s\"} 1\n", CORE_VERSION);
  process(text, "cpu_seconds_total", "counter", "CPU time used by the process.", stats.cpu_s);
  process(text, "resident_memory_bytes", "gauge", "Memory of the process that is resident.", stats.resident_bytes);
  process(text, "open_fds", "gauge", "Open file descriptors.", stats.open_descriptors);
  process(text, "max_fds", "gauge", "Most file descriptors that may be open.", stats.max_descriptors);
  process(text, "start_time_seconds", "gauge", "Unix time at which the service opened its API.",
          (double)metrics_opened_at_ms(call->api) / 1e3);
  family(text, "http_requests_total", "counter", "Requests handled, by class of the status.");
  for (unsigned class = 1; class <= 5; class ++) {
    char labels[16];
    (void)snprintf(labels, sizeof labels, "code=\"%uxx\"", class);
    sample(text, "http_requests_total", labels, (double)metrics_requests(call->api, class));
  }
  single(text, "scrapes_total", "counter", "Scrapes of nodes that ended.", stats.scrapes);
  single(text, "scrape_failures_total", "counter", "Scrapes of nodes that failed.", stats.scrape_failures);
  single(text, "scrapes_late_total", "counter", "Scrapes begun more than a second after they were due.",
         stats.scrapes_late);
}

/* ---- Nodes ---- */

static void node_family(struct text *text, const struct live_nodes *nodes, const char *name, const char *help,
                        double (*value)(const struct live_node *node))
{
  if (nodes->count == 0)
    return;
  family(text, name, "gauge", help);
  for (size_t i = 0; i < nodes->count; i++) {
    char labels[160];
    (void)snprintf(labels, sizeof labels, "node=\"%s\",profile=\"%s\"", nodes->rows[i].name, nodes->rows[i].profile);
    sample(text, name, labels, value(&nodes->rows[i]));
  }
}

static double node_up(const struct live_node *node)
{
  return node->state == LIVE_UP || node->state == LIVE_NO_DATA;
}

static double node_success(const struct live_node *node)
{
  return node->last_success_ms > 0 ? (double)node->last_success_ms / 1e3 : (double)NAN;
}

static double node_gpus(const struct live_node *node)
{
  double count = 0;
  for (size_t i = 0; i < node->gpu_count; i++)
    count += node->gpus[i].is_fresh;
  return count;
}

static double node_throttled(const struct live_node *node)
{
  double count = 0;
  for (size_t i = 0; i < node->gpu_count; i++)
    count += node->gpus[i].is_fresh && node->gpus[i].throttled == LIVE_YES;
  return count;
}

static double node_clock(const struct live_node *node)
{
  double slowest = (double)NAN;
  for (size_t i = 0; i < node->gpu_count; i++) {
    const double clock = node->gpus[i].is_fresh ? live_clock_fraction(&node->gpus[i], (double)NAN) : (double)NAN;
    if (!isnan(clock) && !(slowest <= clock))
      slowest = clock;
  }
  return slowest;
}

static void write_nodes(struct text *text, const struct live_nodes *nodes)
{
  node_family(text, nodes, "node_up", "Whether the last scrape of the node worked.", node_up);
  node_family(text, nodes, "node_last_success_timestamp_seconds", "Unix time of the last scrape that worked.",
              node_success);
  node_family(text, nodes, "node_gpus", "GPUs in the last scrape, unless it is stale.", node_gpus);
  node_family(text, nodes, "node_gpus_throttled", "Of them those that are held down.", node_throttled);
  node_family(text, nodes, "node_slowest_clock_ratio",
              "Sustained clock of the slowest busy GPU as a share of its largest.", node_clock);
}

/* ---- Limits ---- */

/* Of each workload that nodes serve, as concurrency-limit answered last. */
static void limit_family(struct text *text, const struct live_limit *limits, size_t count, const char *name,
                         const char *help, double (*value)(const struct live_limit *limit))
{
  family(text, name, "gauge", help);
  for (size_t i = 0; i < count; i++) {
    char labels[160];
    (void)snprintf(labels, sizeof labels, "workload=\"%s\",profile=\"%s\"", limits[i].workload, limits[i].profile);
    sample(text, name, labels, value(&limits[i]));
  }
}

static double limit_now(const struct live_limit *limit)
{
  return limit->limit;
}

static double limit_rated(const struct live_limit *limit)
{
  return limit->rated_limit;
}

static double limit_computed_s(const struct live_limit *limit)
{
  return (double)limit->at_ms / 1e3;
}

/* Writes nothing when it fails. */
static enum err write_limits(struct text *text, struct live *live, const struct live_nodes *nodes, struct error *e)
{
  const char **names = NULL;
  struct live_limit *limits = NULL;
  size_t named = 0, count = 0;
  enum err code = fleet_workload_names(&names, &named, nodes, e);
  if (code == ERR_OK && (limits = calloc(named + 1, sizeof *limits)) == NULL)
    code = error_set(e, ERR_NOMEM, "", "not enough memory for the metrics");
  for (size_t i = 0; i < named && code == ERR_OK; i++)
    count += live_limit_get(&limits[count], live, names[i]);
  if (code == ERR_OK && count > 0) {
    limit_family(text, limits, count, "workload_concurrency_limit",
                 "Requests to let in at once, at the clocks sustained now.", limit_now);
    limit_family(text, limits, count, "workload_concurrency_limit_rated",
                 "Requests to let in at once, at the clocks of the datasheet.", limit_rated);
    limit_family(text, limits, count, "workload_concurrency_limit_timestamp_seconds",
                 "Unix time at which the limits were computed.", limit_computed_s);
  }
  free(limits);
  free(names);
  return code;
}

/* ---- Scorecards ---- */

struct card {
  json_t *document;
  char labels[160]; /* workload="…",profile="…" */
};
struct cards {
  struct card *rows;
  size_t count, capacity;
};

static enum err add_card(struct cards *cards, const struct store_scorecard *row, struct error *e)
{
  if (cards->count == cards->capacity) {
    struct card *larger = reallocarray(cards->rows, 2 * cards->capacity + 16, sizeof *larger);
    if (larger == NULL)
      return error_set(e, ERR_NOMEM, "", "not enough memory for the metrics");
    cards->rows = larger;
    cards->capacity = 2 * cards->capacity + 16;
  }
  cards->rows[cards->count].document = json_loads(row->document, 0, NULL);
  if (cards->rows[cards->count].document == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the metrics");
  (void)snprintf(cards->rows[cards->count].labels, sizeof cards->rows->labels, "workload=\"%s\",profile=\"%s\"",
                 row->workload, row->profile);
  cards->count++;
  return ERR_OK;
}

static enum err add_workload(struct cards *cards, struct store *store, const char *workload, struct error *e)
{
  struct store_evaluation evaluation;
  struct store_scorecards list;
  enum err code = store_evaluation_official(store, &evaluation, workload, e);
  if (code != ERR_OK)
    return code == ERR_NOT_FOUND ? ERR_OK : code;
  code = store_evaluation_scorecards(store, &list, evaluation.id, e);
  for (size_t i = 0; code == ERR_OK && i < list.count; i++)
    code = add_card(cards, &list.rows[i], e);
  store_scorecards_fini(&list);
  store_evaluation_fini(&evaluation);
  return code;
}

static enum err load_cards(struct cards *cards, struct store *store, struct error *e)
{
  struct store_page page = {.limit = PAGE};
  bool has_more = true;
  enum err code = ERR_OK;
  while (has_more && code == ERR_OK) {
    struct store_documents list;
    code = store_document_list(store, &list, STORE_WORKLOAD, &page, e);
    if (code != ERR_OK)
      break;
    for (size_t i = 0; i < list.count && code == ERR_OK; i++)
      code = add_workload(cards, store, list.rows[i].name, e);
    has_more = list.has_more;
    if (list.count > 0)
      (void)snprintf(page.after, sizeof page.after, "%s", list.rows[list.count - 1].name);
    store_documents_fini(&list);
  }
  return code;
}

static void cards_fini(struct cards *cards)
{
  for (size_t i = 0; i < cards->count; i++)
    json_decref(cards->rows[i].document);
  free(cards->rows);
}

/* The number at a dotted path of two or three names; NaN when there is none. */
static double at_path(const json_t *document, const char *path)
{
  char copy[80], *rest = copy, *name;
  (void)snprintf(copy, sizeof copy, "%s", path);
  while ((name = strsep(&rest, ".")) != NULL)
    document = json_object_get(document, name);
  return json_is_number(document) ? json_number_value(document) : (double)NAN;
}

/* Latencies in seconds, as Prometheus wants them, with the percentile as a label. */
static void write_latency(struct text *text, const struct cards *cards, const char *name, const char *metric,
                          const char *help)
{
  static const char *const percentiles[] = {"p50", "p90", "p99"};
  family(text, name, "gauge", help);
  for (size_t i = 0; i < cards->count; i++)
    for (size_t p = 0; p < 3; p++) {
      char path[80], labels[200];
      (void)snprintf(path, sizeof path, "latency.%s.%s", metric, percentiles[p]);
      (void)snprintf(labels, sizeof labels, "%s,percentile=\"%s\"", cards->rows[i].labels, percentiles[p]);
      sample(text, name, labels, at_path(cards->rows[i].document, path) / 1e3);
    }
}

static void write_figures(struct text *text, const struct cards *cards)
{
  static const struct {
    const char *name, *path, *help;
  } figures[] = {
      {"scorecard_gpus", "configuration.gpus", "GPUs of the best configuration."},
      {"scorecard_requests_per_second", "throughput.requests_per_s", "Requests served."},
      {"scorecard_output_tokens_per_second", "throughput.output_tokens_per_s", "Tokens generated."},
      {"scorecard_margin_to_knee_ratio", "limits.margin_to_knee", "Load that may be added before a target is missed."},
      {"scorecard_success_ratio", "success.rate", "Requests that succeed."},
      {"scorecard_memory_headroom_ratio", "memory.headroom", "Share of the KV cache that stays free."},
      {"scorecard_cost_per_successful_request_usd", "cost.per_successful_request_usd",
       "Cost of a request that succeeds."},
      {"scorecard_cost_monthly_usd", "cost.monthly_usd", "Cost of a month."}};
  for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
    family(text, figures[f].name, "gauge", figures[f].help);
    for (size_t i = 0; i < cards->count; i++)
      sample(text, figures[f].name, cards->rows[i].labels, at_path(cards->rows[i].document, figures[f].path));
  }
}

static double targets_missed(const json_t *document)
{
  const json_t *targets = json_object_get(document, "targets");
  double count = 0;
  for (size_t i = 0; i < json_array_size(targets); i++)
    count += json_is_false(json_object_get(json_array_get(targets, i), "met"));
  return count;
}

static double created_at_s(const json_t *document)
{
  const char *text = json_string_value(json_object_get(document, "created_at"));
  int64_t unix_ms;
  return text != NULL && write_time_parse(&unix_ms, text) ? (double)unix_ms / 1e3 : (double)NAN;
}

static double is_fit(const json_t *document)
{
  const char *verdict = json_string_value(json_object_get(document, "verdict"));
  return verdict != NULL && strcmp(verdict, verdict_name(VERDICT_FIT)) == 0;
}

static void write_computed(struct text *text, const struct cards *cards)
{
  static const struct {
    const char *name, *help;
    double (*value)(const json_t *document);
  } figures[] = {{"scorecard_fit", "Whether the workload fits the profile.", is_fit},
                 {"scorecard_targets_missed", "Targets that are missed.", targets_missed},
                 {"scorecard_created_timestamp_seconds", "Unix time of the evaluation.", created_at_s}};
  for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
    family(text, figures[f].name, "gauge", figures[f].help);
    for (size_t i = 0; i < cards->count; i++)
      sample(text, figures[f].name, cards->rows[i].labels, figures[f].value(cards->rows[i].document));
  }
}

/* A family without a sample is nothing that promtool objects to, but nothing that anybody needs either. */
static void write_cards(struct text *text, const struct cards *cards)
{
  if (cards->count == 0)
    return;
  write_computed(text, cards);
  write_figures(text, cards);
  write_latency(text, cards, "scorecard_ttft_seconds", "ttft_ms", "Time to the first token.");
  write_latency(text, cards, "scorecard_itl_seconds", "itl_ms", "Time between tokens.");
  write_latency(text, cards, "scorecard_e2e_seconds", "e2e_ms", "Time of a whole request.");
}

enum err metrics_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct text text = {NULL, 0, 0, false};
  struct live_nodes nodes = {.rows = NULL};
  struct cards cards = {.rows = NULL};
  enum err code = live_sync(live_of(call->api), call_store(call), e);
  if (code == ERR_OK)
    code = live_nodes_copy(&nodes, live_of(call->api), call->now_ms, e);
  if (code == ERR_OK)
    code = load_cards(&cards, call_store(call), e);
  if (code == ERR_OK)
    code = write_limits(&text, live_of(call->api), &nodes, e);
  if (code == ERR_OK) {
    write_process(&text, call);
    write_nodes(&text, &nodes);
    write_cards(&text, &cards);
    code = respond_string_steal(out, 200, "text/plain; version=0.0.4; charset=utf-8", text_take(&text, NULL), e);
  }
  cards_fini(&cards);
  live_nodes_fini(&nodes);
  return code;
}
