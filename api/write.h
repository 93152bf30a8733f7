/* Writers: figures to JSON (non-finite becomes null on purpose), canonical text, digests, ids, times. */
#ifndef FITD_API_WRITE_H
#define FITD_API_WRITE_H

#include <jansson.h>
#include <stdint.h>

#include "core/error.h"

/* Flags for every document we answer or store: compact, 15 significant digits (0.1 prints as 0.1). */
#define WRITE_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(15))

/* A number, or null when it is not finite. A double that is a whole number below 2^53 is written as an integer.
   NULL only when memory is out. */
json_t *write_number(double value);
json_t *write_text(const char *text); /* null for NULL */
bool write_is_utf8(const char *text);

/* Sorted keys, compact: equal documents give equal text. malloc'ed; NULL when memory is out. */
char *write_canonical(const json_t *value);

/* "sha256:<64 hex>" of bytes. */
#define WRITE_DIGEST_SIZE 72
void write_digest(char to[WRITE_DIGEST_SIZE], const void *bytes, size_t count);

/* 2 × count lower-case digits and a terminator. */
void write_hex(char *to, const unsigned char *bytes, size_t count);

/* UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, 74 random bits; `sequence` (0..4095) goes into rand_a so that ids of one
   answer sort in its order. */
#define WRITE_UUID_SIZE 37
void write_uuid7(char to[WRITE_UUID_SIZE], int64_t unix_ms, unsigned sequence, const unsigned char random[8]);

/* RFC 3339 UTC with milliseconds: 2026-11-30T12:00:00.123Z. */
#define WRITE_TIME_SIZE 32
void write_time(char to[WRITE_TIME_SIZE], int64_t unix_ms);
/* Parses RFC 3339 (any offset) or a bare date (midnight UTC). */
bool write_time_parse(int64_t *unix_ms, const char *text);

/* Growing text; `is_failed` remembers a failed allocation, so callers check once at the end. */
struct text {
  char *bytes;
  size_t length, capacity;
  bool is_failed;
};
void text_append(struct text *text, const char *bytes, size_t count);
void text_puts(struct text *text, const char *string);
void text_printf(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
/* Gives the bytes to the caller (NULL when an allocation failed) and empties the object. */
char *text_take(struct text *text, size_t *length);

/* One RFC 4180 field, quoted where needed. */
void text_csv_field(struct text *text, const char *value);
/* The same for a JSON value: text as it is, null and absent empty, everything else as JSON prints it. */
void text_csv_value(struct text *text, const json_t *value);

/* Characters that would end a cell of a Markdown table or begin markup are escaped: the text may come from a client. */
void text_markdown(struct text *text, const char *from);
/* A title and an array of strings as a list; nothing without any. */
void text_sentences(struct text *text, const char *title, const json_t *sentences);

#endif
