/* Declarative readers: a table of fields turns a JSON object into C values and collects every fault with its JSON
   pointer: unknown fields (with the nearest known name), wrong types, bounds, unknown words, missing fields.
   Nothing stops at the first fault; values whose field is faulty keep what they held. */
#ifndef FITD_API_READ_H
#define FITD_API_READ_H

#include <jansson.h>

#include "core/error.h"

enum read_kind {
  READ_NUMBER,   /* double *to, min ≤ x ≤ max */
  READ_COUNT,    /* unsigned *to: a JSON integer (3.0 is refused), min ≤ x ≤ max */
  READ_INTEGER,  /* int64_t *to */
  READ_BOOL,     /* bool *to */
  READ_TRISTATE, /* int *to: 0 or 1 */
  READ_TEXT,     /* char to[size]: UTF-8 without control characters, 1 … size-1 bytes */
  READ_NAME,     /* char to[size]: [a-z0-9][a-z0-9._-]{0,63} */
  READ_WORD,     /* int *to = index in `words` (NULL-terminated) */
  READ_CALL,     /* `call` reads the value itself: objects, arrays, alternatives */
  READ_IGNORE    /* allowed, not read here */
};

struct read_field {
  const char *name;
  enum read_kind kind;
  bool is_required;
  bool allows_null; /* null counts as absent; otherwise null is a wrong type */
  void *to;
  size_t size;     /* of text */
  double min, max; /* of numbers; both 0 = no bounds but finite (counts: ≥ 0) */
  const char *const *words;
  void (*call)(const json_t *value, const char *pointer, void *to, struct faults *faults);
};

/* Reads `value` as an object with these fields. `pointer` is the pointer of `value` ("" for the body). $schema and
   description are always allowed, as text. Returns false when value is not an object (fault added). */
bool read_object(const json_t *value, const char *pointer, const struct read_field *fields, size_t count,
                 struct faults *faults);

/* One value by one field row (name used for nothing); for elements of arrays and for alternatives. */
void read_value(const json_t *value, const char *pointer, const struct read_field *field, struct faults *faults);

/* pointer + "/" + escaped key, cut to the buffer. */
void read_pointer(char *to, size_t size, const char *parent, const char *key);
void read_pointer_index(char *to, size_t size, const char *parent, size_t index);

/* The same value for jansson's iterators, which take no const though they only read. Never change it through this. */
json_t *read_iterable(const json_t *value);

/* Text of a client for a sentence: at most 48 bytes, cut between characters, without control characters. */
#define READ_EXCERPT_SIZE 56
const char *read_excerpt(char to[READ_EXCERPT_SIZE], const char *text);

/* "a number", "an object" …: what was seen, for fault sentences. */
const char *read_type_name(const json_t *value);

/* The word of `words` (NULL-terminated) nearest to `seen` by edit distance, NULL when none is near. */
const char *read_nearest(const char *seen, const char *const *words);

/* Control characters but those in `allowed`; those that turn the direction of writing count as such. */
bool read_has_control(const char *text, const char *allowed);
bool read_is_blank(const char *text); /* nothing but spaces and ends of lines */

/* [a-z0-9][a-z0-9._-]{0,63} */
bool read_is_name(const char *text);

/* Parses a body: 400-class errors come back as ERR_INVALID with *line and *column > 0 (syntax, duplicate keys, NaN, bad
   UTF-8, depth over 32). *out is the caller's reference. */
enum err read_json(json_t **out, const void *body, size_t body_len, int *line, int *column, struct error *e) MUST_CHECK;

#endif
