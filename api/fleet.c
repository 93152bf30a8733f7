/* Engines of one workload taken together, and the prediction that they are held against. */
#include "api/fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double add(double sum, double more)
{
  if (isnan(more))
    return sum;
  return isnan(sum) ? more : sum + more;
}

double fleet_requests(const struct live_engine_step *step)
{
  const double ended =
      add(engine_step_value(step, ENGINE_requests_succeeded), engine_step_value(step, ENGINE_requests_failed));
  const struct buckets *first = &step->histograms[HISTOGRAM_ttft_ms];
  if (!isnan(ended))
    return ended;
  return first->count > 0 ? buckets_total(first) : (double)NAN;
}

static void add_engine(struct fleet_workload *out, const struct live_engine *engine)
{
  const double *now = engine->now.quantities;
  struct live_engine_step window;
  live_engine_window(&window, engine);
  out->requests_running = add(out->requests_running, now[ENGINE_requests_running]);
  out->requests_waiting = add(out->requests_waiting, now[ENGINE_requests_waiting]);
  if (!isnan(now[ENGINE_kv_cache_usage_ratio]))
    out->kv_cache_usage_ratio = isnan(out->kv_cache_usage_ratio)
                                    ? now[ENGINE_kv_cache_usage_ratio]
                                    : fmax(out->kv_cache_usage_ratio, now[ENGINE_kv_cache_usage_ratio]);
  if (window.covered_s > 0) {
    out->requests_per_s = add(out->requests_per_s, fleet_requests(&window) / window.covered_s);
    out->output_tokens_per_s =
        add(out->output_tokens_per_s, engine_step_value(&window, ENGINE_output_tokens_total) / window.covered_s);
  }
  engine_step_merge(&out->window, &window);
}

bool fleet_workload_of(struct fleet_workload *out, const struct live_nodes *nodes, const char *name)
{
  const double unknown = (double)NAN;
  *out = (struct fleet_workload){.requests_running = unknown,
                                 .requests_waiting = unknown,
                                 .kv_cache_usage_ratio = unknown,
                                 .requests_per_s = unknown,
                                 .output_tokens_per_s = unknown};
  (void)snprintf(out->name, sizeof out->name, "%s", name);
  engine_step_init(&out->window, 0);
  for (size_t i = 0; i < nodes->count; i++) {
    const struct live_node *node = &nodes->rows[i];
    if (strcmp(node->workload, name) != 0)
      continue;
    if (out->profile == NULL || node->engine.is_seen)
      out->profile = node->profile;
    out->node_count++;
    if (node->state != LIVE_UP || !node->engine.is_seen)
      continue;
    out->fresh_count++;
    add_engine(out, &node->engine);
  }
  return out->node_count > 0;
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum err fleet_workload_names(const char ***names, size_t *count, const struct live_nodes *nodes, struct error *e)
{
  const char **all = calloc(nodes->count + 1, sizeof *all);
  size_t found = 0, kept = 0;
  if (all == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the workloads");
  for (size_t i = 0; i < nodes->count; i++)
    if (nodes->rows[i].workload[0] != '\0')
      all[found++] = nodes->rows[i].workload;
  qsort(all, found, sizeof *all, compare_names);
  for (size_t i = 0; i < found; i++)
    if (kept == 0 || strcmp(all[kept - 1], all[i]) != 0)
      all[kept++] = all[i];
  *names = all;
  *count = kept;
  return ERR_OK;
}

enum err fleet_official_card(json_t **card, struct api_call *call, const char *workload, const char *profile,
                             struct error *e)
{
  struct store_evaluation evaluation;
  struct store_scorecards cards = {.rows = NULL};
  enum err code = store_evaluation_official(call_store(call), &evaluation, workload, e);
  *card = NULL;
  if (code == ERR_NOT_FOUND)
    return ERR_OK;
  if (code != ERR_OK)
    return code;
  code = store_evaluation_scorecards(call_store(call), &cards, evaluation.id, e);
  for (size_t i = 0; code == ERR_OK && i < cards.count; i++)
    if (strcmp(cards.rows[i].profile, profile) == 0) {
      *card = json_loads(cards.rows[i].document, 0, NULL);
      if (*card == NULL)
        code = error_set(e, ERR_NOMEM, "", "not enough memory to read a scorecard");
      break;
    }
  store_scorecards_fini(&cards);
  store_evaluation_fini(&evaluation);
  return code;
}
