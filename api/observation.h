/* What one scrape of one node saw, in canonical quantities: what the server hands to the api. Unknown is NaN, never 0.
   Ownership: the gpus belong to the observation's maker. Threads: plain values. */
#ifndef FITD_API_OBSERVATION_H
#define FITD_API_OBSERVATION_H

#include <stdint.h>

#include "core/buckets.h"
#include "core/error.h"

enum quantity_kind { QUANTITY_GAUGE, QUANTITY_COUNTER, QUANTITY_BITS, QUANTITY_LAST };
struct quantity {
  const char *name;
  enum quantity_kind kind;
  double min, max;
  const char *sentence;
};

#define QUANTITY(name, kind, min, max, sentence) GPU_##name,
enum gpu_quantity {
#include "api/gpu_quantity.def"
  GPU_QUANTITIES
};
#undef QUANTITY
#define QUANTITY(name, kind, min, max, sentence) ENGINE_##name,
enum engine_quantity {
#include "api/engine_quantity.def"
  ENGINE_QUANTITIES
};
#undef QUANTITY
extern const struct quantity gpu_quantities[GPU_QUANTITIES], engine_quantities[ENGINE_QUANTITIES];

/* Histograms of an engine; the first four in milliseconds. */
enum engine_histogram {
  HISTOGRAM_ttft_ms,
  HISTOGRAM_itl_ms,
  HISTOGRAM_e2e_ms,
  HISTOGRAM_queue_ms,
  HISTOGRAM_input_tokens,
  HISTOGRAM_output_tokens,
  ENGINE_HISTOGRAMS
};
extern const char *const engine_histogram_names[ENGINE_HISTOGRAMS];

/* NVML's bits of throttle_reasons (DCGM field 112). Higher ones are kept. */
enum throttle_bits {
  THROTTLE_IDLE = 0x001,
  THROTTLE_CLOCKS_SETTING = 0x002,
  THROTTLE_POWER_CAP = 0x004,
  THROTTLE_HW_SLOWDOWN = 0x008,
  THROTTLE_SYNC_BOOST = 0x010,
  THROTTLE_SW_THERMAL = 0x020,
  THROTTLE_HW_THERMAL = 0x040,
  THROTTLE_POWER_BRAKE = 0x080,
  THROTTLE_DISPLAY = 0x100,
  THROTTLE_THERMAL = THROTTLE_SW_THERMAL | THROTTLE_HW_THERMAL,
  THROTTLE_POWER = THROTTLE_POWER_CAP | THROTTLE_POWER_BRAKE,
  THROTTLE_HARMFUL = 0x0FC
};
extern const char *const throttle_names[9]; /* by bit */

struct observed_gpu {
  char id[48]; /* "0"; "1.7" for an instance of a card; [A-Za-z0-9._-] */
  char uuid[64], bus[24], model[64], driver[32];
  char partition[24]; /* "3g.40gb", "cpx"; "" = a whole card */
  bool is_partition;  /* power, clocks and temperatures are the card's then */
  double quantities[GPU_QUANTITIES];
};

struct observed_engine {
  bool is_seen;
  char model[128]; /* as the engine calls it */
  double quantities[ENGINE_QUANTITIES];
  struct buckets histograms[ENGINE_HISTOGRAMS];
};

struct observation {
  struct observed_gpu *gpus;
  size_t gpu_count;
  struct observed_engine engine;
  char exporters[64]; /* whose metrics were recognised: "dcgm,vllm" */
  uint64_t sample_count, recognised_count, skipped_count, out_of_range_count;
};

/* ---- What the scraper and the api say to each other ---- */
struct api;

/* "auto", "dcgm", …: what a node's `exporter` may be, NULL at the end. */
extern const char *const observation_exporters[];

/* A node as the scraper needs it, with the secrets that no answer has. "" = none. */
struct api_target {
  char name[65], url[512];
  int exporter; /* of observation_exporters */
  unsigned interval_ms, timeout_ms;
  char bearer_token[1025], username[129], password[257];
  char ca_file[257], server_name[257];
};
struct api_targets {
  struct api_target *rows;
  size_t count;
};
/* Changes whenever the targets may have. */
uint64_t api_targets_version(const struct api *api);
enum err api_targets_load(struct api_targets *out, struct api *api, struct error *e) MUST_CHECK;
void api_targets_fini(struct api_targets *targets); /* overwrites the secrets */

struct api_scrape {
  const char *node;
  int64_t at_ms; /* Unix time when it was over */
  unsigned duration_ms;
  const struct observation *observation; /* NULL: it failed */
  const char *failure;                   /* one sentence without anything from the page */
};
/* What comes in for nodes that are gone is dropped. */
void api_observe(struct api *api, const struct api_scrape *scrape);

struct api_retention {
  unsigned minutes_days, hours_days; /* how long roll-ups of a minute and of an hour are kept */
};
/* Stores the steps that are over by now; once an hour also rolls them up and deletes what is past its time. Waits for the
   store. */
enum err api_store_observed(struct api *api, const struct api_retention *retention, struct error *e) MUST_CHECK;

/* Computes the concurrency limit of one workload whose nodes, or whose official evaluation, are not what its last one was
   computed with: throttled GPUs, clocks, power limits, memory. *again tells whether there may be more. For one thread; `state`
   starts as zeros. ERR_UNAVAILABLE …: that one failed (the message names the workload) and is tried again in the next round. */
struct api_limits {
  char after[65]; /* the last workload of this round; "" between rounds */
};
enum err api_refresh_limits(struct api *api, struct api_limits *state, bool *again, struct error *e) MUST_CHECK;

#endif
