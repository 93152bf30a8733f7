/* The state of nodes: kept in line with the store, fed by scrapes, copied out for answers. */
#include "api/live.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/nodes.h"

#define STALE_MIN_MS 60000
#define LIMITS_MAX 256
#define FORGET_GPU_MS ((int64_t)3600 * 1000) /* a GPU that is not seen any more */

struct live {
  pthread_mutex_t mutex;
  struct live_node *nodes; /* sorted by name */
  size_t count;
  uint64_t version; /* of the store's nodes, plus 1; 0 = never read */
  int64_t last_hour;
  struct live_limit limits[LIMITS_MAX];
};

const char *live_state_name(enum live_state state)
{
  static const char *const names[] = {"pending", "up", "no_data", "down", "stale"};
  return names[state];
}

enum err live_open(struct live **out, struct error *e)
{
  struct live *live = calloc(1, sizeof *live);
  if (live == NULL || pthread_mutex_init(&live->mutex, NULL) != 0) {
    free(live);
    return error_set(e, ERR_NOMEM, "", "not enough memory for the state of nodes");
  }
  *out = live;
  return ERR_OK;
}

static void node_release(struct live_node *node)
{
  free(node->gpus);
  node->gpus = NULL;
}

void live_close(struct live *live)
{
  if (live == NULL)
    return;
  for (size_t i = 0; i < live->count; i++)
    node_release(&live->nodes[i]);
  free(live->nodes);
  (void)pthread_mutex_destroy(&live->mutex);
  free(live);
}

static int compare_nodes(const void *a, const void *b)
{
  return strcmp(((const struct live_node *)a)->name, ((const struct live_node *)b)->name);
}

static struct live_node *find_node(const struct live *live, const char *name)
{
  struct live_node key = {.name = ""};
  if (live->count == 0)
    return NULL;
  (void)snprintf(key.name, sizeof key.name, "%s", name);
  return bsearch(&key, live->nodes, live->count, sizeof key, compare_nodes);
}

/* ---- The set of nodes ---- */

/* What was known of a node goes on unless it is another target now. */
static void adopt(struct live *live, struct live_node *fresh, const struct node *node)
{
  struct live_node *known = find_node(live, node->name);
  if (known != NULL && strcmp(known->profile, node->profile) == 0) {
    *fresh = *known;
    known->gpus = NULL;
    known->gpu_count = 0;
  }
  (void)snprintf(fresh->name, sizeof fresh->name, "%s", node->name);
  (void)snprintf(fresh->profile, sizeof fresh->profile, "%s", node->profile);
  (void)snprintf(fresh->workload, sizeof fresh->workload, "%s", node->workload);
  fresh->interval_s = (unsigned)ceil(node->interval_s);
}

enum err live_sync(struct live *live, struct store *store, struct error *e)
{
  const uint64_t version = store_node_version(store) + 1;
  struct nodes nodes = {.rows = NULL};
  struct live_node *fresh;
  enum err code = ERR_OK;
  bool is_current;
  (void)pthread_mutex_lock(&live->mutex);
  is_current = live->version == version;
  (void)pthread_mutex_unlock(&live->mutex);
  if (is_current)
    return ERR_OK;
  code = nodes_load(&nodes, store, e);
  if (code != ERR_OK)
    return code;
  fresh = calloc(nodes.count + 1, sizeof *fresh);
  if (fresh == NULL) {
    nodes_fini(&nodes);
    return error_set(e, ERR_NOMEM, "", "not enough memory for the state of nodes");
  }
  (void)pthread_mutex_lock(&live->mutex);
  for (size_t i = 0; i < nodes.count; i++)
    adopt(live, &fresh[i], &nodes.rows[i]);
  for (size_t i = 0; i < live->count; i++)
    node_release(&live->nodes[i]);
  free(live->nodes);
  live->nodes = fresh;
  live->count = nodes.count;
  live->version = version;
  (void)pthread_mutex_unlock(&live->mutex);
  nodes_fini(&nodes);
  return ERR_OK;
}

/* ---- Scrapes ---- */

static struct live_gpu *find_gpu(struct live_node *node, const char *id)
{
  for (size_t i = 0; i < node->gpu_count; i++)
    if (strcmp(node->gpus[i].now.id, id) == 0)
      return &node->gpus[i];
  return NULL;
}

static struct live_gpu *add_gpu(struct live_node *node)
{
  struct live_gpu *larger = reallocarray(node->gpus, node->gpu_count + 1, sizeof *larger), *gpu;
  if (larger == NULL)
    return NULL;
  node->gpus = larger;
  gpu = &larger[node->gpu_count++];
  *gpu = (struct live_gpu){.throttled = LIVE_UNKNOWN, .stored_ms = -1};
  for (size_t i = 0; i <= LIVE_WINDOW_MINUTES; i++)
    roll_init(&gpu->minutes[i], -1);
  return gpu;
}

/* Whether its clock is one under load. Instances of a card report no utilisation: there the card's power tells. */
static bool is_busy(const double *now)
{
  const double active =
      !isnan(now[GPU_engine_active_ratio]) ? now[GPU_engine_active_ratio] : now[GPU_utilisation_ratio];
  if (!isnan(active))
    return active >= LIVE_BUSY_RATIO;
  return now[GPU_power_w] >= LIVE_BUSY_RATIO * now[GPU_power_limit_w];
}

/* Held down now? By the reasons, else by the clock of a busy GPU. */
static enum live_tristate is_held(const double *now)
{
  const double reasons = now[GPU_throttle_reasons];
  if (!isnan(reasons))
    return ((uint64_t)reasons & THROTTLE_HARMFUL) != 0 ? LIVE_YES : LIVE_NO;
  if (isnan(now[GPU_busy_sm_clock_mhz]) || isnan(now[GPU_sm_clock_max_mhz]))
    return LIVE_UNKNOWN;
  return now[GPU_busy_sm_clock_mhz] < LIVE_CLOCK_LOW_RATIO * now[GPU_sm_clock_max_mhz] ? LIVE_YES : LIVE_NO;
}

/* Raised after a while without a pause, cleared after a longer one: a flicker neither alarms nor reassures. What is not
   known changes nothing. */
static void judge_throttling(struct live_gpu *gpu, int64_t at_ms)
{
  const double reasons = gpu->now.quantities[GPU_throttle_reasons];
  const enum live_tristate held = is_held(gpu->now.quantities);
  if (held == LIVE_UNKNOWN)
    return;
  if (held == LIVE_YES) {
    gpu->bad_since_ms = gpu->bad_since_ms > 0 ? gpu->bad_since_ms : at_ms;
    gpu->good_since_ms = 0;
    gpu->throttle_bits |= isnan(reasons) ? 0u : (unsigned)reasons & THROTTLE_HARMFUL;
  } else {
    gpu->good_since_ms = gpu->good_since_ms > 0 ? gpu->good_since_ms : at_ms;
    gpu->bad_since_ms = 0;
  }
  if (gpu->bad_since_ms > 0 && gpu->throttled != LIVE_YES &&
      at_ms - gpu->bad_since_ms >= LIVE_THROTTLE_RAISE_S * INT64_C(1000)) {
    gpu->throttled = LIVE_YES;
    gpu->throttled_since_ms = gpu->bad_since_ms;
    gpu->free_since_ms = 0;
  } else if (gpu->good_since_ms > 0 &&
             (gpu->throttled == LIVE_UNKNOWN || at_ms - gpu->good_since_ms >= LIVE_THROTTLE_CLEAR_S * INT64_C(1000))) {
    gpu->free_since_ms = gpu->throttled == LIVE_YES ? gpu->good_since_ms : gpu->free_since_ms;
    gpu->throttled = LIVE_NO;
    gpu->throttled_since_ms = 0;
    gpu->throttle_bits = 0;
  }
}

static void note_xid(struct live_gpu *gpu, const double *now, const double *before, int64_t at_ms)
{
  const bool has_grown = before != NULL && now[GPU_xid_errors] > before[GPU_xid_errors];
  const unsigned xid = isnan(now[GPU_xid]) ? 0 : (unsigned)now[GPU_xid];
  if ((xid != 0 && xid != gpu->last_xid) || has_grown)
    gpu->last_xid_at_ms = at_ms;
  if (xid != 0)
    gpu->last_xid = xid;
}

/* The running minute; when another began, the older ones move up. */
static struct roll *running_minute(struct live_gpu *gpu, int64_t at_ms)
{
  const int64_t minute_ms = at_ms - at_ms % (LIVE_GPU_STEP_S * INT64_C(1000));
  struct roll *last = &gpu->minutes[LIVE_WINDOW_MINUTES];
  if (last->time_ms != minute_ms) {
    memmove(&gpu->minutes[0], &gpu->minutes[1], LIVE_WINDOW_MINUTES * sizeof gpu->minutes[0]);
    roll_init(last, minute_ms);
  }
  return last;
}

static void observe_gpu(struct live_node *node, const struct observed_gpu *seen, int64_t at_ms)
{
  struct live_gpu *gpu = find_gpu(node, seen->id);
  double before[GPU_QUANTITIES];
  const bool is_known = gpu != NULL;
  if (gpu == NULL)
    gpu = add_gpu(node);
  if (gpu == NULL)
    return; /* out of memory: the next scrape tries again */
  memcpy(before, gpu->now.quantities, sizeof before);
  if (is_known && strcmp(gpu->now.driver, seen->driver) != 0)
    gpu->driver_changed_at_ms = at_ms;
  gpu->now = *seen;
  gpu->seen_at_ms = at_ms;
  gpu->now.quantities[GPU_busy_sm_clock_mhz] =
      is_busy(seen->quantities) ? seen->quantities[GPU_sm_clock_mhz] : (double)NAN;
  judge_throttling(gpu, at_ms);
  note_xid(gpu, gpu->now.quantities, is_known ? before : NULL, at_ms);
  roll_add(running_minute(gpu, at_ms), gpu->now.quantities, is_known ? before : NULL);
}

static void forget_gpus(struct live_node *node, int64_t now_ms)
{
  size_t kept = 0;
  for (size_t i = 0; i < node->gpu_count; i++)
    if (now_ms - node->gpus[i].seen_at_ms < FORGET_GPU_MS)
      node->gpus[kept++] = node->gpus[i];
  node->gpu_count = kept;
}

static void observe_engine(struct live_engine *engine, const struct observed_engine *seen, int64_t at_ms)
{
  const int64_t step_ms = at_ms - at_ms % (LIVE_ENGINE_STEP_S * INT64_C(1000));
  bool has_reset;
  if (!seen->is_seen)
    return;
  if (!engine->is_seen) {
    engine_step_init(&engine->step, step_ms);
    engine_step_init(&engine->before, -1);
    engine->stored_ms = -1;
  } else if (engine->step.time_ms != step_ms) {
    engine->before = engine->step;
    engine_step_init(&engine->step, step_ms);
  }
  engine_step_add(&engine->step, seen, engine->is_seen ? &engine->now : NULL,
                  (double)(at_ms - engine->seen_at_ms) / 1e3, &has_reset);
  engine->seen_at_ms = at_ms;
  engine->reset_count += has_reset;
  engine->now = *seen;
  engine->is_seen = true;
}

static void observe_page(struct live_node *node, const struct api_scrape *scrape)
{
  const struct observation *seen = scrape->observation;
  node->last_success_ms = scrape->at_ms;
  node->failure_count = 0;
  node->last_error[0] = '\0';
  node->sample_count = seen->sample_count;
  node->recognised_count = seen->recognised_count;
  node->skipped_count = seen->skipped_count;
  node->out_of_range_count = seen->out_of_range_count;
  memcpy(node->exporters, seen->exporters, sizeof node->exporters);
  for (size_t i = 0; i < seen->gpu_count; i++)
    observe_gpu(node, &seen->gpus[i], scrape->at_ms);
  forget_gpus(node, scrape->at_ms);
  observe_engine(&node->engine, &seen->engine, scrape->at_ms);
}

void live_observe(struct live *live, const struct api_scrape *scrape)
{
  struct live_node *node;
  (void)pthread_mutex_lock(&live->mutex);
  node = find_node(live, scrape->node);
  if (node != NULL) {
    node->last_scrape_ms = scrape->at_ms;
    node->last_duration_ms = scrape->duration_ms;
    if (scrape->observation != NULL) {
      observe_page(node, scrape);
    } else {
      node->failure_count++;
      (void)snprintf(node->last_error, sizeof node->last_error, "%s", scrape->failure);
    }
  }
  (void)pthread_mutex_unlock(&live->mutex);
}

int64_t live_last_hour(struct live *live)
{
  int64_t hour;
  (void)pthread_mutex_lock(&live->mutex);
  hour = live->last_hour;
  (void)pthread_mutex_unlock(&live->mutex);
  return hour;
}

void live_set_last_hour(struct live *live, int64_t hour)
{
  (void)pthread_mutex_lock(&live->mutex);
  live->last_hour = hour;
  (void)pthread_mutex_unlock(&live->mutex);
}

void live_each(struct live *live, void (*each)(void *cls, struct live_node *node), void *cls)
{
  (void)pthread_mutex_lock(&live->mutex);
  for (size_t i = 0; i < live->count; i++)
    each(cls, &live->nodes[i]);
  (void)pthread_mutex_unlock(&live->mutex);
}

bool live_limit_get(struct live_limit *out, struct live *live, const char *workload)
{
  bool is_found = false;
  (void)pthread_mutex_lock(&live->mutex);
  for (size_t i = 0; i < LIMITS_MAX && !is_found; i++)
    if (live->limits[i].at_ms > 0 && strcmp(live->limits[i].workload, workload) == 0) {
      *out = live->limits[i];
      is_found = true;
    }
  (void)pthread_mutex_unlock(&live->mutex);
  return is_found;
}

void live_limit_set(struct live *live, const struct live_limit *limit)
{
  size_t at = 0;
  (void)pthread_mutex_lock(&live->mutex);
  for (size_t i = 0; i < LIMITS_MAX; i++) {
    if (strcmp(live->limits[i].workload, limit->workload) == 0) {
      at = i;
      break;
    }
    if (live->limits[i].at_ms < live->limits[at].at_ms)
      at = i;
  }
  live->limits[at] = *limit;
  (void)pthread_mutex_unlock(&live->mutex);
}

/* ---- Copies ---- */

static int64_t stale_after_ms(const struct live_node *node)
{
  const int64_t three = INT64_C(3000) * node->interval_s;
  return three > STALE_MIN_MS ? three : STALE_MIN_MS;
}

static enum live_state state_of(const struct live_node *node, int64_t now_ms)
{
  if (node->last_scrape_ms == 0)
    return LIVE_PENDING;
  if (node->last_success_ms == 0)
    return LIVE_DOWN;
  if (now_ms - node->last_success_ms > stale_after_ms(node))
    return LIVE_STALE;
  if (node->failure_count > 0)
    return LIVE_DOWN;
  return node->sample_count > 0 ? LIVE_UP : LIVE_NO_DATA;
}

static bool copy_node(struct live_node *out, const struct live_node *node, int64_t now_ms)
{
  *out = *node;
  out->state = state_of(node, now_ms);
  out->gpus = calloc(node->gpu_count + 1, sizeof *out->gpus);
  if (out->gpus == NULL) {
    out->gpu_count = 0;
    return false;
  }
  for (size_t i = 0; i < node->gpu_count; i++) {
    out->gpus[i] = node->gpus[i];
    out->gpus[i].is_fresh = out->state != LIVE_STALE && node->gpus[i].seen_at_ms == node->last_success_ms;
  }
  return true;
}

void live_node_fini(struct live_node *node)
{
  node_release(node);
}

enum err live_node_copy(struct live_node *out, struct live *live, const char *name, int64_t now_ms, struct error *e)
{
  const struct live_node *node;
  enum err code = ERR_OK;
  *out = (struct live_node){.name = ""};
  (void)pthread_mutex_lock(&live->mutex);
  node = find_node(live, name);
  if (node == NULL)
    code = error_set(e, ERR_NOT_FOUND, "", "there is no node %s", name);
  else if (!copy_node(out, node, now_ms))
    code = error_set(e, ERR_NOMEM, "", "not enough memory for the state of a node");
  (void)pthread_mutex_unlock(&live->mutex);
  return code;
}

void live_nodes_fini(struct live_nodes *nodes)
{
  for (size_t i = 0; i < nodes->count; i++)
    live_node_fini(&nodes->rows[i]);
  free(nodes->rows);
  *nodes = (struct live_nodes){.rows = NULL};
}

enum err live_nodes_copy(struct live_nodes *out, struct live *live, int64_t now_ms, struct error *e)
{
  bool is_fine = true;
  (void)pthread_mutex_lock(&live->mutex);
  *out = (struct live_nodes){.rows = calloc(live->count + 1, sizeof *out->rows)};
  is_fine = out->rows != NULL;
  for (size_t i = 0; is_fine && i < live->count; i++) {
    is_fine = copy_node(&out->rows[i], &live->nodes[i], now_ms);
    out->count++;
  }
  (void)pthread_mutex_unlock(&live->mutex);
  if (is_fine)
    return ERR_OK;
  live_nodes_fini(out);
  return error_set(e, ERR_NOMEM, "", "not enough memory for the state of nodes");
}

/* ---- Figures over the window ---- */

/* Minutes of the window that lie within [from_ms, until_ms). */
static void add_minutes(struct roll *out, const struct live_gpu *gpu, int64_t from_ms, int64_t until_ms)
{
  const int64_t minute_ms = LIVE_GPU_STEP_S * INT64_C(1000);
  roll_init(out, 0);
  for (size_t i = 0; i <= LIVE_WINDOW_MINUTES; i++) {
    const int64_t at_ms = gpu->minutes[i].time_ms;
    if (at_ms >= from_ms && at_ms <= until_ms - minute_ms && gpu->seen_at_ms - at_ms <= LIVE_WINDOW_MINUTES * minute_ms)
      roll_merge(out, &gpu->minutes[i]);
  }
}

void live_window(struct roll *out, const struct live_gpu *gpu)
{
  add_minutes(out, gpu, 0, INT64_MAX);
}

/* Of the present state alone, so that its clock changes when the state does: held down, since then but without the streak
   that may yet end it; free again, since it is. */
static void present_state(struct roll *out, const struct live_gpu *gpu)
{
  if (gpu->throttled != LIVE_YES)
    add_minutes(out, gpu, gpu->free_since_ms, INT64_MAX);
  else
    add_minutes(out, gpu, gpu->throttled_since_ms, gpu->good_since_ms > 0 ? gpu->good_since_ms : INT64_MAX);
}

double live_clock_fraction(const struct live_gpu *gpu, double rated_mhz)
{
  struct roll window;
  double busy, most;
  present_state(&window, gpu);
  busy = roll_value(&window, GPU_busy_sm_clock_mhz);
  if (isnan(busy)) { /* no whole minute of it yet */
    live_window(&window, gpu);
    busy = roll_value(&window, GPU_busy_sm_clock_mhz);
  }
  most = roll_value(&window, GPU_sm_clock_max_mhz);
  if (isnan(most))
    most = rated_mhz;
  return isnan(busy) || isnan(most) ? (double)NAN : fmin(1, busy / most);
}

void live_engine_window(struct live_engine_step *out, const struct live_engine *engine)
{
  *out = engine->step;
  if (engine->before.time_ms < 0 || engine->step.time_ms - engine->before.time_ms != LIVE_ENGINE_STEP_S * INT64_C(1000))
    return;
  engine_step_merge(out, &engine->before);
  out->time_ms = engine->before.time_ms;
}
