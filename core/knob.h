/* Single settings of what is evaluated, addressed by JSON Pointer: "/traffic/…", "/serving/…" into the sketch,
   "/model/…" into the resolved architecture, "/profile/…" into the hardware profile. Used wherever one thing is changed
   and all else kept: what-ifs, advice, ways out.
   "/model/NAME" stands for every layer that has such a field.
   Pure functions over the caller's structs. Threads: reentrant. */
#ifndef FITD_CORE_KNOB_H
#define FITD_CORE_KNOB_H

#include "core/hardware.h"
#include "core/model.h"
#include "core/workload.h"

/* What the pointers lead into. A NULL member refuses pointers into it. */
struct knob_subject {
  struct workload *workload;
  struct model *model;
  struct hardware *hardware;
};

/* A value as JSON has it: null, a number, true or false, a word, or the object of a length's distribution. */
enum knob_type { KNOB_VALUE_NULL, KNOB_VALUE_NUMBER, KNOB_VALUE_FLAG, KNOB_VALUE_TEXT, KNOB_VALUE_LENGTH };
struct knob_value {
  enum knob_type type;
  double number; /* of FLAG 0 or 1 */
  const char *text;
  struct length length; /* QUANTILES or MOMENTS; a fixed length is a NUMBER */
};
struct knob_value knob_number(double number);
struct knob_value knob_text(const char *text);

/* How a knob moves. */
enum knob_kind {
  KNOB_KIND_REAL,
  KNOB_KIND_COUNT, /* whole numbers */
  KNOB_KIND_FLAG,
  KNOB_KIND_PRECISION,
  KNOB_KIND_WORD,
  KNOB_KIND_LENGTH
};

/* Which kind of value a pointer takes; false where no knob has it. *is_nullable (may be NULL): null takes a setting back. */
bool knob_kind(enum knob_kind *kind, bool *is_nullable, const char *pointer, const struct knob_subject *subject);

/* KNOB_VALUE_NULL where nothing is set. Texts are literals or the subject's. ERR_INVALID with the pointer: no such knob. */
enum err knob_get(struct knob_value *out, const char *pointer, const struct knob_subject *subject,
                  struct error *e) MUST_CHECK;

/* ERR_INVALID with the pointer where there is no such knob, the type is wrong or the value is out of its bounds; then
   nothing is changed. What only makes sense together (p50 ≤ p99, heads that divide …) is left to knob_check. */
enum err knob_set(const struct knob_subject *subject, const char *pointer, const struct knob_value *value,
                  struct error *e) MUST_CHECK;

/* The checks of workload, model and hardware after all changes are made; ERR_INVALID with the first fault, its pointer
   under /model or /profile where it lies there. */
enum err knob_check(const struct knob_subject *subject, struct error *e) MUST_CHECK;

/* All pointers there are, NULL-terminated: for suggestions. */
extern const char *const knob_pointers[];

#endif
