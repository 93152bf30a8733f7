/* What teams agreed on: knobs, decisions, gates, reviews. Part of storage/store.h, which says what holds for all of it. */
#ifndef FITD_STORAGE_AGREEMENTS_H
#define FITD_STORAGE_AGREEMENTS_H

#include "storage/store.h"

/* ---- Knobs: what a team may turn in a workload's sketch ------------------------------------------------------------- */
struct store_knob {
  int64_t id; /* order of creation: key of pages */
  char *workload, *name;
  int revision;
  int64_t created_at_ms, changed_at_ms;
  char *document;
};
struct store_knobs {
  struct store_knob *rows;
  size_t count;
  bool has_more;
};
void store_knob_fini(struct store_knob *row);
void store_knobs_fini(struct store_knobs *list);
/* Puts workload, name, document at changed_at_ms. expected_revision as for documents: ERR_PRECONDITION. */
enum err store_knob_put(struct store_tx *tx, const struct store_knob *row, int expected_revision, bool *created,
                        struct error *e) MUST_CHECK;
enum err store_knob_get(struct store *store, struct store_knob *out, const char *workload, const char *name,
                        struct error *e) MUST_CHECK;
enum err store_knob_delete(struct store_tx *tx, const char *workload, const char *name, struct error *e) MUST_CHECK;
/* In order of creation; workload NULL or "" = all; `after` is an id. */
enum err store_knob_list(struct store *store, struct store_knobs *out, const char *workload,
                         const struct store_page *page, struct error *e) MUST_CHECK;

/* ---- Decisions: dated records of a knob turned ---------------------------------------------------------------------- */
struct store_decision {
  char *id;
  int64_t created_at_ms, effective_at_ms;
  char *workload, *knob;
  char *supersedes; /* id; "" = none */
  bool is_revert;
  int64_t review_by_ms; /* 0 = never */
  char *document;
  char *ended_by, *status; /* read only, as of a moment: id or ""; in_force | superseded | reverted | due */
};
struct store_decisions {
  struct store_decision *rows;
  size_t count;
  bool has_more;
};
struct store_decision_filter {
  const char *workload, *knob, *status; /* "" or NULL = any */
  int64_t as_of_ms;                     /* later decisions are not there yet */
  int64_t since_ms, until_ms;           /* of effective_at_ms; 0 = open */
  bool only_in_force;                   /* also those that are due */
};
void store_decision_fini(struct store_decision *row);
void store_decisions_fini(struct store_decisions *list);
/* ERR_NOT_FOUND: what it supersedes; ERR_CONFLICT: that is not in force any more. */
enum err store_decision_insert(struct store_tx *tx, const struct store_decision *row, struct error *e) MUST_CHECK;
/* Newest first unless ascending; `after` is an id. */
enum err store_decision_list(struct store *store, struct store_decisions *out,
                             const struct store_decision_filter *filter, const struct store_page *page,
                             struct error *e) MUST_CHECK;
enum err store_decision_get(struct store *store, struct store_decision *out, const char *id, int64_t as_of_ms,
                            struct error *e) MUST_CHECK;

/* ---- Gates: signed targets that pipelines check --------------------------------------------------------------------- */
struct store_gate {
  int64_t id;
  char *name, *workload;
  int revision;
  int64_t created_at_ms, changed_at_ms;
  char *document;
};
struct store_gates {
  struct store_gate *rows;
  size_t count;
  bool has_more;
};
void store_gate_fini(struct store_gate *row);
void store_gates_fini(struct store_gates *list);
/* Puts name, workload, document at changed_at_ms. Signed anew: baselines that nobody chose are dropped. */
enum err store_gate_put(struct store_tx *tx, const struct store_gate *row, int expected_revision, bool is_signed_anew,
                        bool *created, struct error *e) MUST_CHECK;
enum err store_gate_get(struct store *store, struct store_gate *out, const char *name, struct error *e) MUST_CHECK;
/* With its baselines and waivers; its checks stay. */
enum err store_gate_delete(struct store_tx *tx, const char *name, struct error *e) MUST_CHECK;
/* By name; workload NULL or "" = all; `after` is a name. */
enum err store_gate_list(struct store *store, struct store_gates *out, const char *workload,
                         const struct store_page *page, struct error *e) MUST_CHECK;

struct store_gate_baseline {
  char *profile, *scorecard;
  int64_t set_at_ms;
  bool is_chosen; /* replaces what is there; else it stays where there is one */
};
struct store_gate_baselines {
  struct store_gate_baseline *rows;
  size_t count;
};
void store_gate_baselines_fini(struct store_gate_baselines *list);
enum err store_gate_baselines(struct store *store, struct store_gate_baselines *out, int64_t gate,
                              struct error *e) MUST_CHECK;
enum err store_gate_set_baseline(struct store_tx *tx, int64_t gate, const struct store_gate_baseline *row,
                                 struct error *e) MUST_CHECK;

/* A waiver, or a check as listed. */
struct store_gate_record {
  char *id;
  int64_t created_at_ms, expires_at_ms; /* of a check 0 */
  char *document;
};
struct store_gate_records {
  struct store_gate_record *rows;
  size_t count;
  bool has_more;
};
void store_gate_records_fini(struct store_gate_records *list);
enum err store_gate_waiver_insert(struct store_tx *tx, int64_t gate, const struct store_gate_record *row,
                                  struct error *e) MUST_CHECK;
/* Those that expire after the moment, oldest first. */
enum err store_gate_waivers(struct store *store, struct store_gate_records *out, int64_t gate, int64_t after_ms,
                            struct error *e) MUST_CHECK;

struct store_gate_check {
  const char *id;
  int64_t created_at_ms;
  const char *gate, *workload, *verdict, *document;
};
struct store_gate_check_filter {
  const char *gate, *workload; /* one of them; the other NULL */
  const char *verdict;         /* NULL = any */
  int64_t since_ms;            /* 0 = ever */
};
enum err store_gate_check_insert(struct store_tx *tx, const struct store_gate_check *row, struct error *e) MUST_CHECK;
/* Newest first unless ascending; `after` is an id. */
enum err store_gate_check_list(struct store *store, struct store_gate_records *out,
                               const struct store_gate_check_filter *filter, const struct store_page *page,
                               struct error *e) MUST_CHECK;

/* ---- Reviews: one a week -------------------------------------------------------------------------------------------- */
struct store_review {
  char *week; /* "2026-W48" */
  int version;
  int64_t created_at_ms, changed_at_ms;
  int64_t signed_at_ms; /* 0 = open; from then on the row stands */
  char *document;
};
struct store_reviews {
  struct store_review *rows;
  size_t count;
  bool has_more;
};
void store_review_fini(struct store_review *row);
void store_reviews_fini(struct store_reviews *list);
/* ERR_CONFLICT: there is one of that week. */
enum err store_review_insert(struct store_tx *tx, const struct store_review *row, struct error *e) MUST_CHECK;
/* Replaces the document that had row->version. ERR_CONFLICT: it has another one now, or is signed. */
enum err store_review_update(struct store_tx *tx, const struct store_review *row, struct error *e) MUST_CHECK;
enum err store_review_get(struct store *store, struct store_review *out, const char *week, struct error *e) MUST_CHECK;
/* The last signed one of an earlier week. ERR_NOT_FOUND. */
enum err store_review_last_signed(struct store *store, struct store_review *out, const char *before_week,
                                  struct error *e) MUST_CHECK;
/* Newest week first unless ascending; `after` is a week. */
enum err store_review_list(struct store *store, struct store_reviews *out, const struct store_page *page,
                           struct error *e) MUST_CHECK;

struct store_review_addenda {
  char **documents;
  size_t count;
};
void store_review_addenda_fini(struct store_review_addenda *list);
enum err store_review_addendum_insert(struct store_tx *tx, const char *id, const char *week, int64_t created_at_ms,
                                      const char *document, struct error *e) MUST_CHECK;
/* In order of time. */
enum err store_review_addenda(struct store *store, struct store_review_addenda *out, const char *week,
                              struct error *e) MUST_CHECK;

#endif
