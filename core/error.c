/* Error and fault objects: fixed-size text, always terminated, cut rather than overflowing. */
#include "core/error.h"

#include <stdio.h>
#include <string.h>

static void copy_text(char *to, size_t size, const char *from)
{
  size_t n = strlen(from);
  if (n >= size)
    n = size - 1;
  memcpy(to, from, n);
  to[n] = '\0';
}

enum err error_setv(struct error *e, enum err code, const char *pointer, const char *format, va_list arguments)
{
  if (e != NULL) {
    e->code = code;
    copy_text(e->pointer, sizeof e->pointer, pointer);
    (void)vsnprintf(e->message, sizeof e->message, format, arguments);
  }
  return code;
}

enum err error_set(struct error *e, enum err code, const char *pointer, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  (void)error_setv(e, code, pointer, format, arguments);
  va_end(arguments);
  return code;
}

const char *error_slug(enum err code)
{
  static const char *const slugs[] = {
#define ERROR(name, slug, text) slug,
#include "core/error.def"
#undef ERROR
  };
  return slugs[code];
}

const char *error_text(enum err code)
{
  static const char *const texts[] = {
#define ERROR(name, slug, text) text,
#include "core/error.def"
#undef ERROR
  };
  return texts[code];
}

void faults_add(struct faults *faults, enum fault_code code, const char *pointer, const char *suggestion,
                const char *format, ...)
{
  struct fault *fault;
  va_list args;
  if (faults->count == FAULTS_MAX) {
    faults->is_truncated = true;
    return;
  }
  fault = &faults->items[faults->count++];
  fault->code = code;
  copy_text(fault->pointer, sizeof fault->pointer, pointer);
  copy_text(fault->suggestion, sizeof fault->suggestion, suggestion != NULL ? suggestion : "");
  va_start(args, format);
  (void)vsnprintf(fault->detail, sizeof fault->detail, format, args);
  va_end(args);
}

const char *fault_code_name(enum fault_code code)
{
  static const char *const names[] = {"unknown_field", "missing",      "wrong_type", "out_of_range",
                                      "unknown_value", "unknown_name", "conflict",   "unsupported"};
  return names[code];
}
