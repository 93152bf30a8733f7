/* The SQLite store of fitd: catalogue documents with revisions, traces, evaluations, scorecards, tokens, idempotency keys, nodes and roll-ups.
   Documents are opaque TEXT: the store never parses them; columns exist for what is searched.

   Threads: every function may be called from any thread. Reads borrow one of a few read-only connections. All writing
   goes through the one writer thread, which commits waiting jobs together (group commit) and owns the only connection
   that writes or checkpoints.
   Ownership: row structs own their strings and are released with the matching _fini; strings passed in are copied.
   Errors: ERR_NOT_FOUND, ERR_CONFLICT where named; ERR_UNAVAILABLE when the file can not be used (full disk,
   read-only, corrupt …); ERR_NOMEM; ERR_BUSY; ERR_INTERNAL for a bug. SQL text goes to the log callback, never into
   messages. */
#ifndef FITD_STORAGE_STORE_H
#define FITD_STORAGE_STORE_H

#include <math.h>
#include <stdint.h>

#include "core/error.h"

struct store;
struct store_tx; /* the writer's open transaction; valid inside a store_work callback only */

struct store_options {
  const char *path;                             /* database file; created when absent */
  unsigned readers;                             /* read connections, 1..16 */
  void (*log)(void *cls, const char *sentence); /* may be NULL; called from any thread */
  void *log_cls;
};

/* Opens, takes the lock file (<path>.lock, flock), migrates to head. ERR_BUSY: another process holds the lock.
   ERR_PRECONDITION: foreign file, a newer schema, or a changed released migration (message says which). */
enum err store_open(struct store **out, const struct store_options *options, struct error *e) MUST_CHECK;
void store_close(struct store *store);

/* Copies options->path to a new file, of one moment, checked and on disk; a daemon may go on with the database meanwhile.
   ERR_NOT_FOUND, ERR_CONFLICT: `to` exists; ERR_PRECONDITION, ERR_UNAVAILABLE: the database is not ours or damaged. */
enum err store_backup(const struct store_options *options, const char *to, struct error *e) MUST_CHECK;

/* Puts a checked copy of `from` in the place of options->path, which no process may have open (ERR_BUSY). What was there is
   kept as *aside (malloc'ed, NULL when there was nothing), also after an error. */
enum err store_restore(char **aside, const char *from, const struct store_options *options, struct error *e) MUST_CHECK;

/* OK when a read works and the last write did not fail for a lasting reason; message says what is wrong. While it is
   not, the writer tries every second by itself whether writing works again. */
enum err store_check(struct store *store, struct error *e) MUST_CHECK;
int store_schema_version(const struct store *store);

/* Runs `work` on the writer thread inside a transaction and returns after COMMIT: OK means durable. An error of `work`
   rolls back what this call did, and nothing else. `name` appears in logs. Never to be called from inside a `work`. */
typedef enum err store_work(struct store_tx *tx, void *cls, struct error *e);
enum err store_write(struct store *store, const char *name, store_work *work, void *cls, struct error *e) MUST_CHECK;

/* A page of a list. `after` is the key of the last row seen ("" = from the start). */
struct store_page {
  unsigned limit; /* rows wanted; one more is read to tell whether there is a next page */
  bool ascending;
  char after[80];
};

/* ---- Catalogue: named documents with revisions -------------------------------------------------------------------- */
enum store_catalogue { STORE_MODEL, STORE_PROFILE, STORE_WORKLOAD, STORE_STACK, STORE_CATALOGUE_COUNT };

struct store_document {
  char *name;
  int revision; /* 1, 2, … */
  int64_t created_at_ms;
  bool is_builtin; /* from the seed; a user's revision is not */
  char *alias;     /* second name (Hugging Face id); "" = none */
  char *digest;    /* of what was sent, for "did it change" */
  char *source;    /* what was sent (canonical JSON) */
  char *document;  /* what is answered */
};
void store_document_fini(struct store_document *row);

/* Stores a new revision when `digest` differs from the newest one; *revision gets the revision now newest, *created
   whether the name is new, *changed whether a revision was added (any may be NULL). expected_revision ≥ 0: must be the
   newest now (0 = must not exist), else ERR_PRECONDITION. A builtin row never replaces a newest revision that a user made. */
enum err store_document_put(struct store_tx *tx, enum store_catalogue kind, const struct store_document *row,
                            int expected_revision, int *revision, bool *created, bool *changed,
                            struct error *e) MUST_CHECK;
/* revision 0 = newest. Names first, then aliases (aliases compare without case). ERR_NOT_FOUND. */
enum err store_document_get(struct store *store, struct store_document *out, enum store_catalogue kind,
                            const char *name, int revision, struct error *e) MUST_CHECK;
/* Deletes all revisions. A built-in leaves its name behind, so that no start brings it back. ERR_NOT_FOUND; ERR_CONFLICT while
   scorecards refer to it (to a stack: by its name). */
enum err store_document_delete(struct store_tx *tx, enum store_catalogue kind, const char *name,
                               struct error *e) MUST_CHECK;

struct store_documents {
  struct store_document *rows;
  size_t count;
  bool has_more;
};
void store_documents_fini(struct store_documents *list);
/* Newest revision of each name, ordered by name ascending whatever page->ascending says; `after` is a name. */
enum err store_document_list(struct store *store, struct store_documents *out, enum store_catalogue kind,
                             const struct store_page *page, struct error *e) MUST_CHECK;
/* All revisions of one name (not alias), newest first unless ascending; `after` is a revision number as text, else
   ERR_INVALID. */
enum err store_document_revisions(struct store *store, struct store_documents *out, enum store_catalogue kind,
                                  const char *name, const struct store_page *page, struct error *e) MUST_CHECK;
/* Counts changes of one catalogue in this process; a cache is fresh while the number stands. */
uint64_t store_catalogue_version(const struct store *store, enum store_catalogue kind);

/* ---- Traces: recorded requests ------------------------------------------------------------------------------------- */
/* The requests are kept by their digest and never change; the name refers to the newest ones put under it. Requests that
   neither a name nor a scorecard refers to any more are dropped. */
struct store_trace {
  char *name;
  int revision; /* 1, 2, …; the older ones are not kept under the name */
  int64_t created_at_ms;
  char *digest;   /* of the requests */
  char *document; /* what is answered about them: one JSON object */
  uint32_t request_count;
};
void store_trace_fini(struct store_trace *row);

struct store_trace_request {
  int64_t arrival_ns; /* from the first request on, never falling */
  uint32_t input_tokens, output_tokens;
  uint32_t prefix_first, prefix_count; /* which of prefix_hashes are this request's */
};
struct store_trace_requests {
  struct store_trace_request *rows;
  size_t count;
  uint32_t *prefix_hashes; /* of all rows, in their order */
  size_t prefix_hash_count;
};
void store_trace_requests_fini(struct store_trace_requests *requests);

/* Puts `requests`, whose digest the row has, under its name; request_count and revision of the row are not read. Nothing
   changes when digest and document are those stored. Otherwise as store_document_put. */
enum err store_trace_put(struct store_tx *tx, const struct store_trace *row,
                         const struct store_trace_requests *requests, int expected_revision, int *revision,
                         bool *created, struct error *e) MUST_CHECK;
/* ERR_NOT_FOUND. */
enum err store_trace_get(struct store *store, struct store_trace *out, const char *name, struct error *e) MUST_CHECK;
/* ERR_NOT_FOUND; ERR_CONFLICT while scorecards refer to the requests and no other name has them. */
enum err store_trace_delete(struct store_tx *tx, const char *name, struct error *e) MUST_CHECK;
/* `count` requests from number `first` (from 0) on, fewer at the end. ERR_NOT_FOUND: no such requests are kept (replaced
   or deleted meanwhile). */
enum err store_trace_requests_get(struct store *store, struct store_trace_requests *out, const char *digest,
                                  size_t first, size_t count, struct error *e) MUST_CHECK;

struct store_traces {
  struct store_trace *rows;
  size_t count;
  bool has_more;
};
void store_traces_fini(struct store_traces *list);
/* By name ascending whatever page->ascending says; `after` is a name. */
enum err store_trace_list(struct store *store, struct store_traces *out, const struct store_page *page,
                          struct error *e) MUST_CHECK;

/* ---- History: evaluations and their scorecards ---------------------------------------------------------------------- */
/* Ids are UUIDv7 in lower case whose time is created_at_ms, and the store insists (ERR_INTERNAL): lists turn ranges of
   time into ranges of ids. */
struct store_evaluation {
  char *id; /* UUIDv7 */
  int64_t created_at_ms;
  char *workload, *model, *label, *core_version, *sketch_digest; /* label "" = none */
  char *sketch;                                                  /* canonical JSON as received */
  char *document;        /* the answer without its scorecards: one JSON object */
  int official_revision; /* of the workload whose official sketch this is; 0 = any other sketch */
};
void store_evaluation_fini(struct store_evaluation *row);

#define STORE_FIGURE_ABSENT ((double)NAN) /* stored as NULL */
struct store_scorecard {
  char *id; /* UUIDv7 */
  char *evaluation;
  int ordinal; /* place in the evaluation's answer, from 0 */
  int64_t created_at_ms;
  char *workload, *model, *profile, *verdict, *label, *stack, *context_ref, *sketch_digest, *core_version;
  int model_revision, profile_revision;
#define FIGURE(column, path, unit) double column;
#include "storage/figures.def"
#undef FIGURE
  char *document;     /* the whole scorecard, JSON */
  char *trace_digest; /* of the requests that were replayed; "" or NULL = none */
};
void store_scorecard_fini(struct store_scorecard *row);
/* The member of store_figures[figure]. */
double *store_scorecard_figure(struct store_scorecard *row, size_t figure);

/* ERR_CONFLICT: stored already; for a scorecard also when its evaluation is not stored, or when a model or profile
   revision above 0 or a trace is not (deleted meanwhile). Revision 0 = given inline. */
enum err store_evaluation_insert(struct store_tx *tx, const struct store_evaluation *row, struct error *e) MUST_CHECK;
enum err store_scorecard_insert(struct store_tx *tx, const struct store_scorecard *row, struct error *e) MUST_CHECK;
enum err store_evaluation_get(struct store *store, struct store_evaluation *out, const char *id,
                              struct error *e) MUST_CHECK;
enum err store_scorecard_get(struct store *store, struct store_scorecard *out, const char *id,
                             struct error *e) MUST_CHECK;
/* The document alone, for the hot path: *document is malloc'ed, the caller frees it. ERR_NOT_FOUND. */
enum err store_scorecard_document(struct store *store, char **document, size_t *length, const char *id,
                                  struct error *e) MUST_CHECK;

/* "" or NULL = any. Times: since inclusive, until exclusive; 0 = open. */
struct store_history_filter {
  const char *workload, *model, *profile, *verdict, *label, *stack, *context_ref, *evaluation;
  int64_t since_ms, until_ms;
  bool latest;           /* of what the other members select, the newest per workload × profile */
  const char *benchmark; /* quality results */
  bool only_in_use;      /* calibrations */
};
struct store_evaluations {
  struct store_evaluation *rows;
  size_t count;
  bool has_more;
};
struct store_scorecards {
  struct store_scorecard *rows;
  size_t count;
  bool has_more;
};
void store_evaluations_fini(struct store_evaluations *list);
void store_scorecards_fini(struct store_scorecards *list);
/* Newest first unless ascending; `after` is an id. Evaluations use workload, model, label, since, until of the filter. */
enum err store_evaluation_list(struct store *store, struct store_evaluations *out,
                               const struct store_history_filter *filter, const struct store_page *page,
                               struct error *e) MUST_CHECK;
enum err store_scorecard_list(struct store *store, struct store_scorecards *out,
                              const struct store_history_filter *filter, const struct store_page *page,
                              struct error *e) MUST_CHECK;
/* The newest evaluation of the workload's official sketch, of any of its revisions. ERR_NOT_FOUND. */
enum err store_evaluation_official(struct store *store, struct store_evaluation *out, const char *workload,
                                   struct error *e) MUST_CHECK;
/* All scorecards of one evaluation in the order of the answer. */
enum err store_evaluation_scorecards(struct store *store, struct store_scorecards *out, const char *evaluation,
                                     struct error *e) MUST_CHECK;

/* ---- Series: figures over time --------------------------------------------------------------------------------------- */
struct store_figure {
  const char *path, *unit; /* "latency.ttft_ms.p99", "ms" */
};
#define FIGURE(column, path, unit) STORE_FIGURE_##column,
enum store_figure_index {
#include "storage/figures.def"
  STORE_FIGURE_COUNT
};
#undef FIGURE
extern const struct store_figure store_figures[STORE_FIGURE_COUNT]; /* those with columns, in their order */

enum store_series_by {
  STORE_BY_PROFILE,
  STORE_BY_MODEL,
  STORE_BY_LABEL,
  STORE_BY_STACK,
  STORE_BY_CONTEXT,
  STORE_BY_VERDICT
};
/* Predictions are figures of scorecards; what was observed comes from measurements. A path without a column is looked up in
   every document, which takes its time. */
struct store_series_query {
  const char *workload, *profile; /* "" or NULL = all */
  const char *path;               /* of the figure: names joined by dots */
  bool is_observed;
  enum store_series_by by;    /* what else parts the series beside workload and profile */
  int64_t bucket_ms;          /* > 0 */
  int64_t offset_ms;          /* where a bucket begins: 0, or some Monday for weeks */
  int64_t since_ms, until_ms; /* beginnings of buckets: since inclusive, until exclusive */
  size_t points_max;          /* more are ERR_LIMIT */
};
struct store_point {
  int64_t time_ms; /* where its bucket begins */
  int64_t count;
  double mean, least, greatest;
};
struct store_series {
  char *workload, *profile, *by; /* by "" with STORE_BY_PROFILE */
  struct store_point *points;
  size_t count;
};
struct store_series_list {
  struct store_series *rows;
  size_t count;
};
void store_series_list_fini(struct store_series_list *list);
/* By workload, profile, by; points in order of time, buckets without a value left out. */
enum err store_series_list(struct store *store, struct store_series_list *out, const struct store_series_query *query,
                           struct error *e) MUST_CHECK;

/* ---- Measurements: runs beside their predictions --------------------------------------------------------------------- */
/* Ids here are UUIDv7 like those of scorecards. */
struct store_measurement {
  char *id;
  int64_t created_at_ms;
  char *workload, *model, *profile;
  char *stack;     /* its name, or its canonical text where it was given in full; "" = not said */
  char *scorecard; /* the prediction for the same sketch */
  char *document;
};
struct store_measured {
  const char *path;           /* of the figure */
  double measured, predicted; /* predicted NaN = there is none */
};
struct store_measurements {
  struct store_measurement *rows;
  size_t count;
  bool has_more;
};
void store_measurement_fini(struct store_measurement *row);
void store_measurements_fini(struct store_measurements *list);
enum err store_measurement_insert(struct store_tx *tx, const struct store_measurement *row,
                                  const struct store_measured *figures, size_t count, struct error *e) MUST_CHECK;
/* ERR_NOT_FOUND. */
enum err store_measurement_get(struct store *store, struct store_measurement *out, const char *id,
                               struct error *e) MUST_CHECK;
/* Newest first unless ascending; uses workload, model, profile, stack, since and until of the filter. */
enum err store_measurement_list(struct store *store, struct store_measurements *out,
                                const struct store_history_filter *filter, const struct store_page *page,
                                struct error *e) MUST_CHECK;

/* ---- Calibrations: factors fitted to measurements --------------------------------------------------------------------- */
struct store_calibration {
  char *id;
  int64_t created_at_ms;
  char *profile, *model, *stack; /* model, stack "" = of any */
  int64_t retired_at_ms;         /* 0 = in use */
  char *document;                /* without retired_at */
};
struct store_calibrations {
  struct store_calibration *rows;
  size_t count;
  bool has_more;
};
void store_calibration_fini(struct store_calibration *row);
void store_calibrations_fini(struct store_calibrations *list);
enum err store_calibration_insert(struct store_tx *tx, const struct store_calibration *row, struct error *e) MUST_CHECK;
/* ERR_NOT_FOUND; ERR_CONFLICT: it is retired already. */
enum err store_calibration_retire(struct store_tx *tx, const char *id, int64_t now_ms, struct error *e) MUST_CHECK;
enum err store_calibration_get(struct store *store, struct store_calibration *out, const char *id,
                               struct error *e) MUST_CHECK;
/* Newest first unless ascending; uses model, profile, stack, since and until of the filter. Retired ones too unless
   only_in_use. */
enum err store_calibration_list(struct store *store, struct store_calibrations *out,
                                const struct store_history_filter *filter, bool only_in_use,
                                const struct store_page *page, struct error *e) MUST_CHECK;
uint64_t store_calibration_version(const struct store *store); /* changes with every insert and retirement */

/* ---- Quality results -------------------------------------------------------------------------------------------------- */
struct store_quality {
  char *id;
  int64_t created_at_ms;
  char *model, *weights, *kv_cache; /* formats as served; kv_cache "" = not said */
  char *stack, *benchmark, *slice;  /* stack, slice "" = none */
  double score;
  char *document;
};
struct store_qualities {
  struct store_quality *rows;
  size_t count;
  bool has_more;
};
void store_quality_fini(struct store_quality *row);
void store_qualities_fini(struct store_qualities *list);
enum err store_quality_insert(struct store_tx *tx, const struct store_quality *row, struct error *e) MUST_CHECK;
/* Newest first unless ascending; uses model, stack, since and until of the filter; benchmark NULL = any. */
enum err store_quality_list(struct store *store, struct store_qualities *out, const struct store_history_filter *filter,
                            const char *benchmark, const struct store_page *page, struct error *e) MUST_CHECK;
/* The newest score of this model in these formats (a result that says nothing of the KV cache is of any). ERR_NOT_FOUND. */
enum err store_quality_newest(struct store *store, double *score, const char *model, const char *weights,
                              const char *kv_cache, const char *benchmark, const char *slice,
                              struct error *e) MUST_CHECK;

/* ---- Tokens ------------------------------------------------------------------------------------------------------- */
struct store_token {
  char *id, *name, *scope;
  char *salt, *hash;                    /* hex; hash = SHA-256(salt bytes, token text) */
  int64_t created_at_ms, revoked_at_ms; /* 0 = in force */
};
struct store_tokens {
  struct store_token *rows;
  size_t count;
};
void store_token_fini(struct store_token *row);
void store_tokens_fini(struct store_tokens *list);
/* ERR_CONFLICT: a token of that name is in force. */
enum err store_token_insert(struct store_tx *tx, const struct store_token *row, struct error *e) MUST_CHECK;
enum err store_token_revoke(struct store_tx *tx, const char *name, int64_t now_ms, struct error *e) MUST_CHECK;
enum err store_token_list(struct store *store, struct store_tokens *out,
                          struct error *e) MUST_CHECK;   /* revoked ones too */
uint64_t store_token_version(const struct store *store); /* changes with every insert and revoke */

/* ---- Nodes that are scraped, and roll-ups of what was seen ----------------------------------------------------------- */
struct store_node {
  char *name;
  int revision; /* 1, 2, …; only the newest is kept */
  int64_t created_at_ms;
  char *document; /* what is answered: no secrets */
  char *secrets;  /* what is not */
};
struct store_nodes {
  struct store_node *rows;
  size_t count;
  bool has_more;
};
void store_node_fini(struct store_node *row);
void store_nodes_fini(struct store_nodes *list);
/* The revision of the row is not read; expected_revision as in store_document_put. */
enum err store_node_put(struct store_tx *tx, const struct store_node *row, int expected_revision, bool *created,
                        struct error *e) MUST_CHECK;
/* ERR_NOT_FOUND. Takes the roll-ups along. */
enum err store_node_delete(struct store_tx *tx, const char *name, struct error *e) MUST_CHECK;
enum err store_node_get(struct store *store, struct store_node *out, const char *name, struct error *e) MUST_CHECK;
/* By name ascending; `after` is a name. */
enum err store_node_list(struct store *store, struct store_nodes *out, const struct store_page *page,
                         struct error *e) MUST_CHECK;
uint64_t store_node_version(const struct store *store); /* changes with every put and delete */

struct store_gpu_sample {
  char *node, *gpu; /* node is NULL in lists */
  unsigned step_s;
  int64_t time_ms; /* start of the step */
  void *figures;   /* opaque */
  size_t figures_bytes;
};
struct store_engine_sample {
  char *node; /* NULL in lists */
  unsigned step_s;
  int64_t time_ms;
  char *document;
};
struct store_gpu_samples {
  struct store_gpu_sample *rows;
  size_t count;
  bool has_more;
};
struct store_engine_samples {
  struct store_engine_sample *rows;
  size_t count;
  bool has_more;
};
void store_gpu_samples_fini(struct store_gpu_samples *list);
void store_engine_samples_fini(struct store_engine_samples *list);
/* Replaces the one of the same step and time. Nothing happens when the node is gone. */
enum err store_gpu_sample_put(struct store_tx *tx, const struct store_gpu_sample *row, struct error *e) MUST_CHECK;
enum err store_engine_sample_put(struct store_tx *tx, const struct store_engine_sample *row,
                                 struct error *e) MUST_CHECK;
/* Deletes roll-ups of that step that start before. */
enum err store_samples_prune(struct store_tx *tx, unsigned step_s, int64_t before_ms, struct error *e) MUST_CHECK;
struct store_sample_filter {
  const char *node, *gpu; /* gpu NULL: all, one after the other */
  unsigned step_s;
  int64_t since_ms, until_ms; /* inclusive, exclusive */
  size_t limit;
};
/* In order of time. */
enum err store_gpu_sample_list(struct store *store, struct store_gpu_samples *out,
                               const struct store_sample_filter *filter, struct error *e) MUST_CHECK;
enum err store_engine_sample_list(struct store *store, struct store_engine_samples *out,
                                  const struct store_sample_filter *filter, struct error *e) MUST_CHECK;

/* ---- Idempotency keys ---------------------------------------------------------------------------------------------- */
struct store_idempotency {
  char *key, *caller, *request_digest; /* digest over method, path with query, and body */
  int64_t created_at_ms;
  int status;                          /* 0 = still running */
  char *content_type, *headers, *body; /* of the first answer */
};
void store_idempotency_fini(struct store_idempotency *row);
/* Claims (key, caller) as running; ERR_CONFLICT when it exists and is younger than `not_before_ms` (older rows are replaced). */
enum err store_idempotency_claim(struct store_tx *tx, const struct store_idempotency *row, int64_t not_before_ms,
                                 struct error *e) MUST_CHECK;
/* Finish: ERR_NOT_FOUND when it is not claimed. Release: OK also then. Keys that still run when the store is closed or
   killed are released by the next store_open. */
enum err store_idempotency_finish(struct store_tx *tx, const struct store_idempotency *row, struct error *e) MUST_CHECK;
enum err store_idempotency_release(struct store_tx *tx, const char *key, const char *caller,
                                   struct error *e) MUST_CHECK;
enum err store_idempotency_get(struct store *store, struct store_idempotency *out, const char *key, const char *caller,
                               struct error *e) MUST_CHECK;

#include "storage/agreements.h"

#endif
