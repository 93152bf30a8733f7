/* The weekly fit review: every official sketch evaluated again and compared with the last signed review, and an agenda of what
   people must look at. A review is one JSON document; what is in it is described in openapi.json. Private to api/. */
#ifndef FITD_API_REVIEW_H
#define FITD_API_REVIEW_H

#include "api/record.h"
#include "api/trial.h"
#include "api/week.h"

/* A figure moved when it changed by more than this and more than chance explains. */
#define REVIEW_MOVED_RATIO 0.02

/* A review while its content is computed. */
struct review {
  struct api_call *call;
  char week[WEEK_SIZE];
  const json_t *only;              /* names of workloads; NULL = all registered ones */
  const char *trace_change_reason; /* NULL: none was given */
  bool is_scheduled;               /* the daemon opens it: a changed trace goes on the agenda instead */
  json_t *last;                    /* document of the last signed review; NULL: this is the first one; owned */
  int64_t since_ms;                /* when that one was opened, or a week ago */
  json_t *workloads, *items;       /* what is being made; owned */
};

/* Computes workloads and items of review->week. ERR_CONFLICT: a trace changed and no reason is given. ERR_INVALID with
   faults: review->only names something that is not registered. review_fini in any case. */
enum err review_compute(struct review *review, struct error *e) MUST_CHECK;
void review_fini(struct review *review);

/* A new item of the agenda at the end of review->items, to be filled in with put_member and handed to review_item_end; NULL
   when memory is out. Its id follows from kind, workload
   and key alone. title: the one sentence that people read; an item whose title changes is open again. */
json_t *review_item_add(struct review *review, const char *kind, const char *workload, const char *key,
                        char *title_steal);
enum err review_item_end(json_t *item, struct error *e) MUST_CHECK; /* ERR_NOMEM for NULL */

/* What moved between two entries of a workload, and by which input. review_compare.c */
enum err review_compare(struct review *review, struct trial *trial, const json_t *entry, const json_t *cards,
                        const json_t *last_entry, struct error *e) MUST_CHECK;
/* Everything else about one workload, and what the last review left to be done. review_agenda.c */
enum err review_agenda(struct review *review, const json_t *entry, const json_t *sketch, struct error *e) MUST_CHECK;
enum err review_live(struct review *review, const char *workload, struct error *e) MUST_CHECK; /* review_live.c */
enum err review_carry_over(struct review *review, struct error *e) MUST_CHECK;

/* Takes resolutions and added items of an older state of the same review over into `items`. False when memory is out. */
bool review_keep_resolutions(json_t *items, const json_t *old_items);
/* "open", "signing" (some have signed) or "signed". */
const char *review_state(const struct store_review *row, const json_t *document);
/* Markdown of an answered review; malloc'ed, NULL when memory is out. */
char *review_markdown(const json_t *review);

/* What the handlers share; reviews_api.c. ---- */

/* Answers the review of a week as it is stored now. */
enum err review_respond(struct api_call *call, struct api_response *out, unsigned status, enum format format,
                        const char *week, struct error *e);
/* The row and its document for a change, the caller's; ERR_CONFLICT once somebody has signed. */
enum err review_begin(struct store_review *row, json_t **document, const struct api_call *call,
                      struct error *e) MUST_CHECK;
/* Writes a document back as the next version of the row. */
enum err review_save(struct api_call *call, struct store_review *row, const json_t *document, bool is_signed,
                     struct error *e) MUST_CHECK;

#endif
