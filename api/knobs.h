/* Knobs as agreements: what is registered for a workload, which value is in force, whether a value is safe, and which knobs
   a sketch turns without a decision. Private to api/. */
#ifndef FITD_API_KNOBS_H
#define FITD_API_KNOBS_H

#include "api/catalogue.h"

struct agreed_knob {
  char name[65];
  json_t *document;  /* kind, pointer, owner, rollback_plan, value, safe_range; owned */
  json_t *value;     /* in force: of the last decision, else the registered one; owned */
  char decision[37]; /* that decision; "" = none */
};
struct knobs {
  struct agreed_knob *rows;
  size_t count;
};
/* All knobs of a workload as of a moment. */
enum err knobs_load(struct knobs *out, struct store *store, const char *workload, int64_t as_of_ms,
                    struct error *e) MUST_CHECK;
void knobs_fini(struct knobs *knobs);
const struct agreed_knob *knobs_find(const struct knobs *knobs, const char *name); /* NULL when there is none */

/* Text of a member; NULL when it is null or absent. */
const char *knobs_text(const struct agreed_knob *knob, const char *member);

/* [{"knob", "pointer", "kind", "from", "to", "owner"}] of the knobs that the sketch sets to another value than the one in
   force. What a sketch leaves open is not turned. NULL when memory is out. */
json_t *knobs_undecided(const struct knobs *knobs, const json_t *sketch);

/* A safe range: {"min"?, "max"?}, {"values": […]}, or as an array two numbers or the values. */
void knobs_check_range(const json_t *range, const char *pointer, struct faults *faults);
bool knobs_is_safe(const json_t *range, const json_t *value);

/* Whether the pointer is one of a sketch and takes the value (NULL: only the pointer is looked at): the value is put into
   the workload's official sketch, or a plain one where none is stored, and that is read. Faults of the pointer are added at
   pointer_at, those of the value at value_at. */
enum err knobs_check_value(struct store *store, const struct catalogue_snapshot *snapshot, const char *workload,
                           const char *pointer, const char *pointer_at, const json_t *value, const char *value_at,
                           struct faults *faults, struct error *e) MUST_CHECK;

#endif
