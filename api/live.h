/* What is known of the nodes right now: the state of each target, of its GPUs and of its engines, made of what scrapes bring
   in. Kept in memory; roll-ups of finished steps go to the store.
   Threads: every function may be called from any thread. Ownership: views are copies of the caller. Private to api/. */
#ifndef FITD_API_LIVE_H
#define FITD_API_LIVE_H

#include <jansson.h>

#include "api/api.h"
#include "api/live_roll.h"
#include "api/observation.h"
#include "storage/store.h"

#define LIVE_WINDOW_MINUTES 5     /* over which a sustained figure is taken */
#define LIVE_THROTTLE_RAISE_S 60  /* held down this long without a pause: throttled */
#define LIVE_THROTTLE_CLEAR_S 120 /* free this long: not any more */
#define LIVE_BUSY_RATIO 0.5       /* busy time from which a GPU's clock counts as one under load */
#define LIVE_CLOCK_LOW_RATIO 0.85 /* without reasons: a busy clock below this share of the largest is held down */
#define LIVE_ENGINE_STEP_S 300
#define LIVE_GPU_STEP_S 60
#define LIVE_LONG_STEP_S 3600

enum live_state { LIVE_PENDING, LIVE_UP, LIVE_NO_DATA, LIVE_DOWN, LIVE_STALE };
const char *live_state_name(enum live_state state);

enum live_tristate { LIVE_NO, LIVE_YES, LIVE_UNKNOWN };

struct live_gpu {
  struct observed_gpu now; /* of the last scrape that had it */
  int64_t seen_at_ms;
  bool is_fresh;                       /* in the last scrape, which is not stale */
  enum live_tristate throttled;        /* with hysteresis */
  int64_t throttled_since_ms;          /* 0 = not known */
  int64_t free_since_ms;               /* after it was held down; 0 = it was not, or still is */
  int64_t bad_since_ms, good_since_ms; /* of the present streak; 0 = none */
  unsigned throttle_bits;              /* seen since throttled */
  unsigned last_xid;                   /* 0 = none */
  int64_t last_xid_at_ms;
  int64_t driver_changed_at_ms;                 /* 0 = not since the start */
  struct roll minutes[LIVE_WINDOW_MINUTES + 1]; /* the last one is running; time_ms -1 = none */
  int64_t stored_ms;                            /* start of the last minute that went to the store */
};

struct live_engine {
  bool is_seen;
  struct observed_engine now; /* counters and histograms as the engine shows them */
  /* What was observed in the running step of LIVE_ENGINE_STEP_S and in the one before: together five to ten minutes. */
  struct live_engine_step {
    int64_t time_ms;
    double covered_s; /* between scrapes: what counters grew, they grew in this time */
    unsigned scrape_count;
    double gauge_sum[ENGINE_QUANTITIES],
        gauge_max[ENGINE_QUANTITIES]; /* max NaN = unknown; sum of a counter: its increase */
    unsigned gauge_count[ENGINE_QUANTITIES];
    struct buckets histograms[ENGINE_HISTOGRAMS];
  } step, before;
  int64_t stored_ms; /* start of the last step that went to the store */
  int64_t seen_at_ms;
  unsigned reset_count;
};

struct live_node {
  char name[65], profile[65], workload[65];
  unsigned interval_s;
  enum live_state state;
  int64_t last_scrape_ms, last_success_ms; /* 0 = never */
  unsigned last_duration_ms, failure_count;
  char last_error[200]; /* "" = none */
  char exporters[64];
  uint64_t sample_count, recognised_count, skipped_count, out_of_range_count;
  struct live_gpu *gpus;
  size_t gpu_count;
  struct live_engine engine;
};

struct live;
enum err live_open(struct live **out, struct error *e) MUST_CHECK;
void live_close(struct live *live);

/* Brings the set of nodes into line with the store, when it has changed. */
enum err live_sync(struct live *live, struct store *store, struct error *e) MUST_CHECK;
void live_observe(struct live *live, const struct api_scrape *scrape);

/* A copy of one node's state, or of all. ERR_NOT_FOUND, ERR_NOMEM. */
enum err live_node_copy(struct live_node *out, struct live *live, const char *name, int64_t now_ms,
                        struct error *e) MUST_CHECK;
void live_node_fini(struct live_node *node);
struct live_nodes {
  struct live_node *rows;
  size_t count;
};
enum err live_nodes_copy(struct live_nodes *out, struct live *live, int64_t now_ms, struct error *e) MUST_CHECK;
void live_nodes_fini(struct live_nodes *nodes);

/* Shows every node in turn, which `each` may change; nothing else gets in meanwhile. */
void live_each(struct live *live, void (*each)(void *cls, struct live_node *node), void *cls);

/* Hours since 1970 that were rolled up last; 0 = none since the start. */
int64_t live_last_hour(struct live *live);
void live_set_last_hour(struct live *live, int64_t hour);

/* Over the window, or since the GPU is held down: the sustained share of the clock, NaN when the GPU was not busy or a clock is unknown. rated_mhz: of the
   profile, where the exporter names no largest clock; NaN = unknown. */
double live_clock_fraction(const struct live_gpu *gpu, double rated_mhz);
void live_window(struct roll *out, const struct live_gpu *gpu);
/* Observed in the window of the engine: the running step and the one before. */
void live_engine_window(struct live_engine_step *out, const struct live_engine *engine);

/* What nodes deliver of a profile (api/derate.h). */
struct derate {
  unsigned node_count, gpu_count; /* fresh ones of the profile */
  unsigned busy_count;            /* whose clock under load is known */
  unsigned throttled_count;
  double slowest_ratio, mean_ratio; /* sustained clock fractions; NaN = none is known */
  double power_limit_w, memory_gib; /* smallest of whole devices; NaN = none is known */
};

/* The concurrency limit answered last for a workload. */
struct live_limit {
  char workload[65], profile[65];
  unsigned limit, rated_limit; /* now, and at the datasheet's clocks */
  int64_t at_ms;
  char why[320];
  char evaluation[37];  /* the official one, of which the configuration is */
  struct derate derate; /* what the nodes said */
};
bool live_limit_get(struct live_limit *out, struct live *live, const char *workload);
void live_limit_set(struct live *live, const struct live_limit *limit); /* the oldest makes room */

/* api.c; NULL offline. */
struct live *live_of(const struct api *api);
struct store *live_store(const struct api *api);
int64_t live_now_ms(const struct api *api);

/* live_write.c: as answers show them; NULL when memory is out. rated_mhz as in live_clock_fraction. */
json_t *live_health_write(const struct live_node *node);
json_t *live_gpu_write(const struct live_gpu *gpu, double rated_mhz);
json_t *live_engine_write(const struct live_engine *engine);
json_t *live_throttle_names(unsigned bits);
/* {"p50": {"above": …, "at_most": …}, "p90", "p99", "mean", "count"}; a bound that is not known is null. */
json_t *live_histogram_write(const struct buckets *buckets);
json_t *live_time(int64_t unix_ms); /* null for 0 */

/* live_engine.c: one step of engines as a document and back. */
json_t *engine_step_write(const struct live_engine_step *step);
void engine_step_read(struct live_engine_step *out, const json_t *document);
void engine_step_init(struct live_engine_step *step, int64_t time_ms);
/* previous: the scrape before, `interval_s` ago; NULL = there is none. */
void engine_step_add(struct live_engine_step *step, const struct observed_engine *now,
                     const struct observed_engine *previous, double interval_s, bool *has_reset);
/* Growth of a counter, mean of a gauge; NaN = unknown. */
double engine_step_value(const struct live_engine_step *step, enum engine_quantity quantity);
void engine_step_merge(struct live_engine_step *into, const struct live_engine_step *more);

#endif
