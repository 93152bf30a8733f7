/* Evaluations on their way into and out of the store: what is answered and what is stored are the same bytes, so a stored
   document is spliced and never parsed again. Private to api/. */
#ifndef FITD_API_HISTORY_H
#define FITD_API_HISTORY_H

#include "api/call.h"
#include "api/evaluation.h"

/* One document per part, as text; owned. */
struct evaluation_texts {
  char *head;
  char **cards;
  size_t count;
};
enum err evaluation_texts_make(struct evaluation_texts *out, const struct evaluation *evaluation,
                               struct error *e) MUST_CHECK;
void evaluation_texts_fini(struct evaluation_texts *texts);

/* {head…,"scorecards":[cards…]}; malloc'ed, NULL when memory is out. */
char *evaluation_splice(size_t *length, const char *head, char *const *cards, size_t count);

/* The evaluation and all its scorecards in one transaction. */
enum err evaluation_store(struct store *store, const struct evaluation *evaluation, const struct sketch *sketch,
                          const struct evaluation_texts *texts, int64_t now_ms, struct error *e) MUST_CHECK;

/* Page, workload=, model=, …, since=, until=, latest= of a list. Strings are borrowed from the request. ERR_INVALID with
   faults. */
enum err history_filter(struct store_history_filter *out, struct store_page *page, struct api_call *call,
                        struct error *e) MUST_CHECK;

/* A moment of the query, RFC 3339 or a date; absent: *to_ms is kept. */
void history_time(struct api_call *call, const char *key, int64_t *to_ms);

/* One query value read like a JSON string by `field`; absent: nothing happens. The pointer of faults is "?key". */
struct read_field;
void history_query(struct api_call *call, const char *key, const struct read_field *field);

#endif
