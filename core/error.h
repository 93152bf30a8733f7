/* Errors and input faults. Every function of fitd that can fail returns enum err (0 = ERR_OK); details go into
   objects of fixed size that the caller owns, so reporting an error can not fail.
   Threads: objects are the caller's; nothing here is shared. */
#ifndef FITD_CORE_ERROR_H
#define FITD_CORE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first) __attribute__((format(printf, format_index, first)))

enum err {
#define ERROR(name, slug, text) ERR_##name,
#include "core/error.def"
#undef ERROR
};

/* One failure. `pointer` is an RFC 6901 JSON pointer relative to the object that was read ("" = the whole). */
struct error {
  enum err code;
  char pointer[160];
  char message[320];
};

/* Fills *e (when not NULL) and returns `code`, so that `return error_set(e, ERR_INVALID, "/tp", "…")` works. */
enum err error_set(struct error *e, enum err code, const char *pointer, const char *format, ...) PRINTF_LIKE(4, 5);
/* The same for functions that take a sentence themselves. */
enum err error_setv(struct error *e, enum err code, const char *pointer, const char *format, va_list arguments)
    PRINTF_LIKE(4, 0);

/* "not-found" and the like; the default sentence of a code. Never NULL. */
const char *error_slug(enum err code);
const char *error_text(enum err code);

/* What is wrong with one field of an input document. */
enum fault_code {
  FAULT_UNKNOWN_FIELD, /* no such field here */
  FAULT_MISSING,       /* a required field is absent */
  FAULT_WRONG_TYPE,    /* string where a number is expected, 3.5 where an integer is … */
  FAULT_OUT_OF_RANGE,  /* a number outside its physical or stated bounds */
  FAULT_UNKNOWN_VALUE, /* not one of the allowed words */
  FAULT_UNKNOWN_NAME,  /* names nothing that is stored */
  FAULT_CONFLICT,      /* two fields that exclude or contradict each other */
  FAULT_UNSUPPORTED,   /* understood, and not supported */
};

struct fault {
  enum fault_code code;
  char pointer[160];
  char detail[320];
  char suggestion[96]; /* "" = none */
};

/* All faults of one document, collected so that the client sees them in one answer. */
#define FAULTS_MAX 64
struct faults {
  size_t count;
  bool is_truncated; /* more than FAULTS_MAX were found */
  struct fault items[FAULTS_MAX];
};

/* Adds a fault; `suggestion` may be NULL. Beyond FAULTS_MAX only is_truncated is set. */
void faults_add(struct faults *faults, enum fault_code code, const char *pointer, const char *suggestion,
                const char *format, ...) PRINTF_LIKE(5, 6);

/* "unknown_field", "missing", … as the wire calls it. */
const char *fault_code_name(enum fault_code code);

#endif
