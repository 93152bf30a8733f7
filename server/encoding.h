/* Content coding of answers: what the client accepts, gzip, and entity tags that tell the codings apart. A strong ETag
   names the bytes sent, so the gzip form of "x" is "x-gzip"; the api only knows "x".
   Threads: pure functions. */
#ifndef FITD_SERVER_ENCODING_H
#define FITD_SERVER_ENCODING_H

#include "core/error.h"

/* Whether an Accept-Encoding value allows gzip (RFC 9110 §12.5.3: a qvalue above 0; "*" counts unless gzip is named). */
bool encoding_accepts_gzip(const char *accept_encoding);

/* Compresses into a malloc'ed block. ERR_NOMEM; ERR_LIMIT when the result would not be smaller. */
enum err encoding_gzip(char **out, size_t *out_len, const char *bytes, size_t length) MUST_CHECK;

/* Copies a list of entity tags without their "-gzip" ends; returns whether there were any. `to` has room for
   strlen(tags) + 1 bytes. */
bool encoding_strip_gzip_tags(char *to, const char *tags);

/* "x" → "x-gzip" in place. False, and nothing changed, when it does not fit or is no quoted tag. */
bool encoding_mark_gzip_tag(char *tag, size_t size);

#endif
