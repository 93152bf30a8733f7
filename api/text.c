/* Growing text. A failed allocation is remembered instead of returned, so writers stay straight lines. */
#include "api/json_memory.h"
#include "api/write.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `count` more bytes and a terminator. */
static bool text_reserve(struct text *text, size_t count)
{
  size_t capacity = text->capacity == 0 ? 256 : text->capacity;
  char *bytes;
  if (text->is_failed || count >= SIZE_MAX / 2 - text->length) {
    text->is_failed = true;
    return false;
  }
  if (text->length + count < text->capacity)
    return true;
  while (capacity <= text->length + count)
    capacity *= 2;
  bytes = realloc(text->bytes, capacity);
  if (bytes == NULL) {
    text->is_failed = true;
    return false;
  }
  text->bytes = bytes;
  text->capacity = capacity;
  return true;
}

void text_append(struct text *text, const char *bytes, size_t count)
{
  if (!text_reserve(text, count))
    return;
  if (count > 0)
    memcpy(text->bytes + text->length, bytes, count);
  text->length += count;
  text->bytes[text->length] = '\0';
}

void text_puts(struct text *text, const char *string)
{
  text_append(text, string, strlen(string));
}

/* What most pieces fit into is reserved first, so that they are formatted once. */
void text_printf(struct text *text, const char *format, ...)
{
  const size_t usual = 160;
  va_list args;
  int needed;
  if (!text_reserve(text, usual))
    return;
  va_start(args, format);
  needed = vsnprintf(text->bytes + text->length, text->capacity - text->length, format, args);
  va_end(args);
  if (needed >= 0 && (size_t)needed >= text->capacity - text->length) {
    if (!text_reserve(text, (size_t)needed))
      return;
    va_start(args, format);
    needed = vsnprintf(text->bytes + text->length, text->capacity - text->length, format, args);
    va_end(args);
  }
  if (needed < 0)
    text->is_failed = true;
  else
    text->length += (size_t)needed;
}

char *text_take(struct text *text, size_t *length)
{
  char *bytes;
  text_append(text, "", 0); /* an empty text is "", not NULL */
  bytes = text->bytes;
  if (text->is_failed) {
    free(bytes);
    bytes = NULL;
  }
  if (length != NULL)
    *length = bytes != NULL ? text->length : 0;
  *text = (struct text){NULL, 0, 0, false};
  return bytes;
}

void text_csv_field(struct text *text, const char *value)
{
  if (value == NULL)
    return;
  if (value[strcspn(value, ",\"\r\n")] == '\0') {
    text_puts(text, value);
    return;
  }
  text_puts(text, "\"");
  for (; *value != '\0'; value++) {
    if (*value == '"')
      text_puts(text, "\"");
    text_append(text, value, 1);
  }
  text_puts(text, "\"");
}

void text_csv_value(struct text *text, const json_t *value)
{
  char *printed;
  if (value == NULL || json_is_null(value))
    return;
  if (json_is_string(value)) {
    text_csv_field(text, json_string_value(value));
    return;
  }
  printed = json_memory_dumps(value, WRITE_FLAGS | JSON_ENCODE_ANY);
  if (printed != NULL)
    text_csv_field(text, printed);
  else
    text->is_failed = true;
  free(printed);
}

void text_markdown(struct text *text, const char *from)
{
  for (; from != NULL && *from != '\0'; from++) {
    if (strchr("|\\`*<>[]#", *from) != NULL)
      text_puts(text, "\\");
    text_append(text, *from == '\n' ? " " : from, 1);
  }
}

void text_sentences(struct text *text, const char *title, const json_t *sentences)
{
  if (json_array_size(sentences) == 0)
    return;
  text_printf(text, "\n%s\n\n", title);
  for (size_t i = 0; i < json_array_size(sentences); i++) {
    text_puts(text, "- ");
    text_markdown(text, json_string_value(json_array_get(sentences, i)));
    text_puts(text, "\n");
  }
}
