/* Content coding of answers. gzip runs at level 1 with a window that fits the document: for JSON that is most of the gain
   for a fraction of the time and memory. */
/* zlib then declares its input const. */
#define ZLIB_CONST
#include "server/encoding.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define GZIP_LEVEL 1

static const char *skip_blanks(const char *at)
{
  return at + strspn(at, " \t");
}

/* True when the parameters after a coding (";q=0.5") give a weight above 0; a malformed weight gives none. */
static bool has_weight(const char *parameters, size_t length)
{
  const char *end = parameters + length, *at = skip_blanks(parameters);
  if (at >= end)
    return true;
  at = skip_blanks(at + 1); /* the ';' */
  if (end - at < 3 || (*at != 'q' && *at != 'Q') || at[1] != '=')
    return false;
  if (at[2] == '1')
    return true;
  for (at += 3; at < end; at++)
    if (*at >= '1' && *at <= '9')
      return true;
  return false;
}

bool encoding_accepts_gzip(const char *accept_encoding)
{
  const char *at = accept_encoding;
  bool any = false;
  while (*(at = skip_blanks(at)) != '\0') {
    size_t length = strcspn(at, ","), name = strcspn(at, ",; \t");
    bool is_allowed = has_weight(at + name, length - name);
    if ((name == 4 && strncasecmp(at, "gzip", 4) == 0) || (name == 6 && strncasecmp(at, "x-gzip", 6) == 0))
      return is_allowed;
    if (name == 1 && *at == '*')
      any = is_allowed;
    at += length;
    at += *at == ',';
  }
  return any;
}

static int window_bits(size_t length)
{
  int bits = 9;
  while (bits < 15 && ((size_t)1 << bits) < length)
    bits++;
  return bits;
}

enum err encoding_gzip(char **out, size_t *out_len, const char *bytes, size_t length)
{
  z_stream stream;
  int bits = window_bits(length);
  enum err err = ERR_OK;
  *out = NULL;
  memset(&stream, 0, sizeof stream);
  if (length > (size_t)1 << 30)
    return ERR_LIMIT;
  if (deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, bits + 16, bits > 9 ? bits - 7 : 1, Z_DEFAULT_STRATEGY) != Z_OK)
    return ERR_NOMEM;
  *out = malloc(length);
  if (*out == NULL) {
    err = ERR_NOMEM;
    goto out;
  }
  stream.next_in = (const Bytef *)bytes;
  stream.avail_in = (uInt)length;
  stream.next_out = (Bytef *)*out;
  stream.avail_out = (uInt)length;
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) {
    err = ERR_LIMIT; /* the room was the length of the plain form */
    goto out;
  }
  *out_len = length - stream.avail_out;
out:
  (void)deflateEnd(&stream); /* tells of unwritten data after ERR_LIMIT, which is what we want */
  if (err != ERR_OK) {
    free(*out);
    *out = NULL;
  }
  return err;
}

#define GZIP_END "-gzip\""

bool encoding_strip_gzip_tags(char *to, const char *tags)
{
  const size_t mark = sizeof GZIP_END - 1;
  bool found = false;
  while (*tags != '\0') {
    if (strncmp(tags, GZIP_END, mark) == 0) {
      tags += mark - 1; /* the closing quote stays */
      found = true;
    }
    *to++ = *tags++;
  }
  *to = '\0';
  return found;
}

bool encoding_mark_gzip_tag(char *tag, size_t size)
{
  size_t length = strlen(tag);
  if (length < 2 || tag[length - 1] != '"' || length + sizeof GZIP_END - 1 > size)
    return false;
  memcpy(tag + length - 1, GZIP_END, sizeof GZIP_END);
  return true;
}
