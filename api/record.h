/* What the records of agreements (knobs, decisions, gates, reviews) share: fields of their bodies beyond the plain kinds of
   api/read.h, and answers spliced from a stored document. Private to api/. */
#ifndef FITD_API_RECORD_H
#define FITD_API_RECORD_H

#include "api/call.h"

/* Values for read_field.call. ---- */

/* const json_t **to: the value itself, borrowed from the body. */
void record_read_any(const json_t *value, const char *pointer, void *to, struct faults *faults);
/* const char **to: text of people, borrowed from the body: several lines are allowed, 1 … 4000 bytes. */
void record_read_prose(const json_t *value, const char *pointer, void *to, struct faults *faults);
/* const char **to: one line of it, 1 … 200 bytes. */
void record_read_line(const json_t *value, const char *pointer, void *to, struct faults *faults);

/* A date or a time as it was given. */
struct record_moment {
  bool is_given, is_date; /* a bare date stands for its day */
  int64_t ms;             /* of a date: midnight UTC, the day's beginning */
  char text[40];
};
void record_read_moment(const json_t *value, const char *pointer, void *to, struct faults *faults);
/* The same from a query value; the pointer of a fault is "?key". */
void record_query_moment(struct record_moment *to, struct api_call *call, const char *key);
/* The last millisecond that a moment covers: of a date the end of its day. */
int64_t record_moment_end_ms(const struct record_moment *moment);
/* Later than today anywhere on Earth, or than now by more than clocks differ: what was done can not lie there. */
bool record_moment_is_ahead(const struct record_moment *moment, int64_t now_ms);

/* Answers. ---- */

/* `head` is an object, `document` the text of one: one text with the members of both, head's first. malloc'ed, NULL when
   memory is out. head is stolen and may be NULL (memory was out). */
char *record_splice_steal(json_t *head, const char *document);
/* A stored document, which must parse. *out is the caller's. */
enum err record_parse(json_t **out, const char *document, struct error *e) MUST_CHECK;
json_t *record_time(int64_t unix_ms); /* null for 0 */
json_t *record_share(json_t *value);  /* a reference of its own; null for NULL */
/* Name of the token that sent the request; null without one. */
json_t *record_token(const struct api_call *call);

/* Memory ran out while an answer was made. */
enum err record_nomem(struct error *e);
/* ERR_INVALID when the call has faults, else ERR_OK. */
enum err record_check(const struct api_call *call, struct error *e) MUST_CHECK;
/* A list page from texts that are the caller's. */
enum err record_respond_texts(struct api_call *call, struct api_response *out, char **texts, size_t count,
                              const char *next_after, struct error *e);
void record_free_texts(char **texts, size_t count);

#endif
