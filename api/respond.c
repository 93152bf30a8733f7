/* Filling an answer: bodies, headers, entity tags. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/json_memory.h"
#include "api/write.h"

void api_response_fini(struct api_response *response)
{
  free(response->bytes);
  response->bytes = NULL;
  response->bytes_len = 0;
}

enum err respond_text_steal(struct api_response *out, unsigned status, const char *type, char *bytes, size_t length,
                            struct error *e)
{
  if (bytes == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the answer");
  api_response_fini(out);
  out->status = status;
  (void)snprintf(out->type, sizeof out->type, "%s", type);
  out->bytes = bytes;
  out->bytes_len = length;
  return ERR_OK;
}

enum err respond_string_steal(struct api_response *out, unsigned status, const char *type, char *text, struct error *e)
{
  return respond_text_steal(out, status, type, text, text != NULL ? strlen(text) : 0, e);
}

enum err respond_json_steal(struct api_response *out, unsigned status, json_t *json, struct error *e)
{
  char *bytes = json != NULL ? json_memory_dumps(json, WRITE_FLAGS | JSON_ENCODE_ANY) : NULL;
  json_decref(json);
  return respond_string_steal(out, status, "application/json", bytes, e);
}

enum err respond_form_steal(struct api_response *out, enum format format, json_t *document,
                            char *(*csv)(const json_t *document), char *(*markdown)(const json_t *document),
                            struct error *e)
{
  const bool is_csv = format == FORMAT_CSV;
  enum err code;
  if (format == FORMAT_JSON)
    return respond_json_steal(out, 200, document, e);
  code = respond_string_steal(out, 200, is_csv ? "text/csv" : "text/markdown",
                              is_csv ? csv(document) : markdown(document), e);
  json_decref(document);
  return code;
}

void respond_header(struct api_response *out, const char *name, const char *format, ...)
{
  struct api_header *header;
  va_list args;
  if (out->header_count == sizeof out->headers / sizeof out->headers[0])
    return; /* no answer of ours has that many */
  header = &out->headers[out->header_count++];
  (void)snprintf(header->name, sizeof header->name, "%s", name);
  va_start(args, format);
  (void)vsnprintf(header->value, sizeof header->value, format, args);
  va_end(args);
}

void respond_etag(struct api_response *out, const char *tag)
{
  respond_header(out, "ETag", "\"%s\"", tag);
}

const char *respond_header_value(const struct api_response *out, const char *name)
{
  size_t i;
  for (i = 0; i < out->header_count; i++)
    if (strcmp(out->headers[i].name, name) == 0)
      return out->headers[i].value;
  return NULL;
}

void etag_of(char to[ETAG_SIZE], const void *bytes, size_t count)
{
  char digest[WRITE_DIGEST_SIZE];
  write_digest(digest, bytes, count);
  (void)snprintf(to, ETAG_SIZE, "%.32s", digest + strlen("sha256:"));
}

bool etag_matches(const char *header, const char *tag)
{
  const size_t length = strlen(tag);
  const char *at;
  if (header[strspn(header, " \t")] == '*')
    return true;
  for (at = strchr(header, '"'); at != NULL; at = strchr(at, '"')) {
    const char *end = strchr(at + 1, '"');
    const size_t seen = end != NULL ? (size_t)(end - at - 1) : 0;
    if (end == NULL)
      return false;
    if (seen == length && strncmp(at + 1, tag, length) == 0)
      return true;
    at = end + 1;
  }
  return false;
}
