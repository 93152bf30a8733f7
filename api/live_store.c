/* From memory to the store: steps that are over, hours made of their minutes, and an end to what is too old. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_memory.h"
#include "api/live.h"
#include "api/nodes.h"
#include "api/write.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define HOUR_MS (INT64_C(3600) * 1000)
#define STEPS_AN_HOUR 60
#define GPU_ROWS_MAX (STEPS_AN_HOUR * 256)

/* ---- Rows on their way ---- */

struct finished {
  int64_t now_ms;
  struct store_gpu_sample *gpus;
  size_t gpu_count, gpu_capacity;
  struct store_engine_sample *engines;
  size_t engine_count, engine_capacity;
  bool is_out_of_memory;
};

static void *grow(void *rows, size_t count, size_t *capacity, size_t row_size)
{
  void *larger = rows;
  if (count == *capacity) {
    larger = reallocarray(rows, *capacity == 0 ? 64 : 2 * *capacity, row_size);
    if (larger != NULL)
      *capacity = *capacity == 0 ? 64 : 2 * *capacity;
  }
  return larger;
}

static bool add_gpu_row(struct finished *to, const char *node, const char *gpu, unsigned step_s,
                        const struct roll *roll)
{
  struct store_gpu_sample *larger = grow(to->gpus, to->gpu_count, &to->gpu_capacity, sizeof *larger), *row;
  unsigned char bytes[ROLL_BYTES_MAX];
  if (larger == NULL)
    return false;
  to->gpus = larger;
  row = &to->gpus[to->gpu_count];
  *row =
      (struct store_gpu_sample){.node = strdup(node), .gpu = strdup(gpu), .step_s = step_s, .time_ms = roll->time_ms};
  row->figures_bytes = roll_encode(bytes, roll);
  row->figures = malloc(row->figures_bytes);
  to->gpu_count++;
  if (row->node == NULL || row->gpu == NULL || row->figures == NULL)
    return false;
  memcpy(row->figures, bytes, row->figures_bytes);
  return true;
}

static bool add_engine_row(struct finished *to, const char *node, unsigned step_s, const struct live_engine_step *step)
{
  struct store_engine_sample *larger = grow(to->engines, to->engine_count, &to->engine_capacity, sizeof *larger), *row;
  json_t *document;
  if (larger == NULL)
    return false;
  to->engines = larger;
  row = &to->engines[to->engine_count++];
  document = engine_step_write(step);
  *row = (struct store_engine_sample){.node = strdup(node),
                                      .step_s = step_s,
                                      .time_ms = step->time_ms,
                                      .document = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL};
  json_decref(document);
  return row->node != NULL && row->document != NULL;
}

static void finished_fini(struct finished *finished)
{
  for (size_t i = 0; i < finished->gpu_count; i++) {
    free(finished->gpus[i].node);
    free(finished->gpus[i].gpu);
    free(finished->gpus[i].figures);
  }
  for (size_t i = 0; i < finished->engine_count; i++) {
    free(finished->engines[i].node);
    free(finished->engines[i].document);
  }
  free(finished->gpus);
  free(finished->engines);
}

static enum err put_rows(struct store_tx *tx, void *cls, struct error *e)
{
  const struct finished *finished = cls;
  enum err code = ERR_OK;
  for (size_t i = 0; i < finished->gpu_count && code == ERR_OK; i++)
    code = store_gpu_sample_put(tx, &finished->gpus[i], e);
  for (size_t i = 0; i < finished->engine_count && code == ERR_OK; i++)
    code = store_engine_sample_put(tx, &finished->engines[i], e);
  return code;
}

static enum err write_rows(struct store *store, struct finished *finished, struct error *e)
{
  if (finished->is_out_of_memory)
    return error_set(e, ERR_NOMEM, "", "not enough memory to store what was observed");
  if (finished->gpu_count + finished->engine_count == 0)
    return ERR_OK;
  return store_write(store, "observed", put_rows, finished, e);
}

/* ---- Steps that are over ---- */

static bool is_due(int64_t time_ms, int64_t stored_ms, int64_t step_s, int64_t now_ms)
{
  return time_ms >= 0 && time_ms > stored_ms && time_ms + step_s * 1000 <= now_ms;
}

static void take_steps(void *cls, struct live_node *node)
{
  struct finished *to = cls;
  bool is_fine = true;
  for (size_t i = 0; i < node->gpu_count; i++) {
    struct live_gpu *gpu = &node->gpus[i];
    for (size_t m = 0; m <= LIVE_WINDOW_MINUTES; m++) {
      if (!is_due(gpu->minutes[m].time_ms, gpu->stored_ms, LIVE_GPU_STEP_S, to->now_ms))
        continue;
      is_fine = is_fine && add_gpu_row(to, node->name, gpu->now.id, LIVE_GPU_STEP_S, &gpu->minutes[m]);
      gpu->stored_ms = gpu->minutes[m].time_ms;
    }
  }
  if (node->engine.is_seen) {
    const struct live_engine_step *const steps[] = {&node->engine.before, &node->engine.step};
    for (size_t i = 0; i < 2; i++) {
      if (!is_due(steps[i]->time_ms, node->engine.stored_ms, LIVE_ENGINE_STEP_S, to->now_ms))
        continue;
      is_fine = is_fine && add_engine_row(to, node->name, LIVE_ENGINE_STEP_S, steps[i]);
      node->engine.stored_ms = steps[i]->time_ms;
    }
  }
  to->is_out_of_memory = to->is_out_of_memory || !is_fine;
}

static enum err store_steps(struct api *api, int64_t now_ms, struct error *e)
{
  struct finished finished = {.now_ms = now_ms};
  enum err code;
  live_each(live_of(api), take_steps, &finished);
  code = write_rows(live_store(api), &finished, e);
  finished_fini(&finished);
  return code;
}

/* ---- Hours ---- */

static enum err roll_gpus(struct finished *to, struct store *store, const char *node, int64_t hour_ms, struct error *e)
{
  const struct store_sample_filter filter = {node, NULL, LIVE_GPU_STEP_S, hour_ms, hour_ms + HOUR_MS, GPU_ROWS_MAX};
  struct store_gpu_samples list;
  struct roll hour, minute = {.time_ms = 0};
  enum err code = store_gpu_sample_list(store, &list, &filter, e);
  if (code != ERR_OK)
    return code;
  for (size_t i = 0; i < list.count; i++) {
    const bool is_first = i == 0 || strcmp(list.rows[i].gpu, list.rows[i - 1].gpu) != 0,
               is_last = i + 1 == list.count || strcmp(list.rows[i].gpu, list.rows[i + 1].gpu) != 0;
    if (is_first)
      roll_init(&hour, hour_ms);
    if (roll_decode(&minute, list.rows[i].figures, list.rows[i].figures_bytes))
      roll_merge(&hour, &minute);
    if (is_last && !add_gpu_row(to, node, list.rows[i].gpu, LIVE_LONG_STEP_S, &hour))
      to->is_out_of_memory = true;
  }
  store_gpu_samples_fini(&list);
  return ERR_OK;
}

static enum err roll_engine(struct finished *to, struct store *store, const char *node, int64_t hour_ms,
                            struct error *e)
{
  const struct store_sample_filter filter = {node, NULL, LIVE_ENGINE_STEP_S, hour_ms, hour_ms + HOUR_MS, STEPS_AN_HOUR};
  struct store_engine_samples list;
  struct live_engine_step hour, step;
  enum err code = store_engine_sample_list(store, &list, &filter, e);
  if (code != ERR_OK)
    return code;
  engine_step_init(&hour, hour_ms);
  for (size_t i = 0; i < list.count; i++) {
    json_t *document = json_loads(list.rows[i].document, 0, NULL);
    step.time_ms = list.rows[i].time_ms;
    engine_step_read(&step, document);
    json_decref(document);
    engine_step_merge(&hour, &step);
  }
  if (list.count > 0 && !add_engine_row(to, node, LIVE_LONG_STEP_S, &hour))
    to->is_out_of_memory = true;
  store_engine_samples_fini(&list);
  return ERR_OK;
}

/* The hour before this one, of one node. */
static enum err roll_node(struct store *store, const char *node, int64_t hour_ms, struct error *e)
{
  struct finished finished = {.now_ms = 0};
  enum err code = roll_gpus(&finished, store, node, hour_ms, e);
  if (code == ERR_OK)
    code = roll_engine(&finished, store, node, hour_ms, e);
  if (code == ERR_OK)
    code = write_rows(store, &finished, e);
  finished_fini(&finished);
  return code;
}

struct prune {
  const struct api_retention *retention;
  int64_t now_ms;
};

static enum err prune(struct store_tx *tx, void *cls, struct error *e)
{
  const struct prune *work = cls;
  const int64_t minutes_ms = work->now_ms - work->retention->minutes_days * DAY_MS,
                hours_ms = work->now_ms - work->retention->hours_days * DAY_MS;
  enum err code = store_samples_prune(tx, LIVE_GPU_STEP_S, minutes_ms, e);
  if (code == ERR_OK)
    code = store_samples_prune(tx, LIVE_ENGINE_STEP_S, minutes_ms, e);
  if (code == ERR_OK)
    code = store_samples_prune(tx, LIVE_LONG_STEP_S, hours_ms, e);
  return code;
}

static enum err end_hour(struct api *api, int64_t now_ms, const struct api_retention *retention, struct error *e)
{
  const int64_t hour_ms = now_ms - now_ms % HOUR_MS - HOUR_MS;
  struct prune work = {retention, now_ms};
  struct nodes nodes;
  enum err code = nodes_load(&nodes, live_store(api), e);
  for (size_t i = 0; code == ERR_OK && i < nodes.count; i++)
    code = roll_node(live_store(api), nodes.rows[i].name, hour_ms, e);
  nodes_fini(&nodes);
  if (code == ERR_OK)
    code = store_write(live_store(api), "observed prune", prune, &work, e);
  return code;
}

enum err api_store_observed(struct api *api, const struct api_retention *retention, struct error *e)
{
  const int64_t now_ms = live_now_ms(api), hour = now_ms / HOUR_MS;
  enum err code = live_sync(live_of(api), live_store(api), e);
  if (code == ERR_OK)
    code = store_steps(api, now_ms, e);
  if (code != ERR_OK || live_last_hour(live_of(api)) == hour)
    return code;
  code = end_hour(api, now_ms, retention, e);
  if (code == ERR_OK)
    live_set_last_hour(live_of(api), hour);
  return code;
}

void api_observe(struct api *api, const struct api_scrape *scrape)
{
  struct error e;
  if (live_sync(live_of(api), live_store(api), &e) == ERR_OK)
    live_observe(live_of(api), scrape);
}
