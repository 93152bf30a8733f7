/* What handlers ask of a request: query values and the wanted representation. */
#include "api/call.h"

#include <string.h>
#include <strings.h>

const char *call_query(const struct api_call *call, const char *key)
{
  const char *value = NULL;
  if (call->request->query == NULL || call->request->query(call->request->cls, key, &value, 1) == 0)
    return NULL;
  return value != NULL ? value : "";
}

bool call_charset_is_utf8(const char *type)
{
  const char *charset = strcasestr(type, "charset=");
  if (charset == NULL)
    return true;
  charset += strlen("charset=");
  charset += *charset == '"';
  return strncasecmp(charset, "utf-8", 5) == 0 || strncasecmp(charset, "us-ascii", 8) == 0;
}

/* ---- Accept (RFC 9110 §12.5.1) ---------------------------------------------------------------------------------- */

static size_t trimmed(const char **at, const char *end)
{
  while (*at < end && (**at == ' ' || **at == '\t'))
    (*at)++;
  while (end > *at && (end[-1] == ' ' || end[-1] == '\t'))
    end--;
  return (size_t)(end - *at);
}

/* "0.25" → 250; anything from 1 up is 1000. */
static int thousandths(const char *at, const char *end)
{
  int value = 0, scale = 100;
  if (at < end && *at >= '1' && *at <= '9')
    return 1000;
  for (; at < end && (*at == '.' || (*at >= '0' && *at <= '9')); at++) {
    if (*at == '.' || at[-1] == '=')
      continue; /* the digit before the point is 0 */
    value += (*at - '0') * scale;
    scale /= 10;
  }
  return value;
}

/* The q of one media range in thousandths; 1000 when none is given. */
static int range_quality(const char *range, const char *end)
{
  const char *at = memchr(range, ';', (size_t)(end - range));
  for (; at != NULL; at = memchr(at, ';', (size_t)(end - at))) {
    for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
      ;
    if (end - at >= 2 && (at[0] == 'q' || at[0] == 'Q') && at[1] == '=')
      return thousandths(at + 2, end);
  }
  return 1000;
}

/* How exactly a media range names a type: 0 not at all, 1 any, 2 its family, 3 itself. */
static int range_precision(const char *range, const char *end, const char *type)
{
  const char *parameters = memchr(range, ';', (size_t)(end - range));
  const char *slash = strchr(type, '/');
  const size_t length = trimmed(&range, parameters != NULL ? parameters : end);
  const size_t family = (size_t)(slash - type) + 1;
  if (length == strlen(type) && strncasecmp(range, type, length) == 0)
    return 3;
  if (length == family + 1 && strncasecmp(range, type, family) == 0 && range[family] == '*')
    return 2;
  return length == 3 && strncmp(range, "*/*", 3) == 0 ? 1 : 0;
}

/* What the most exact range of the header says about a type, in thousandths. */
static int accept_quality(const char *header, const char *type)
{
  int best_precision = 0, quality = 0;
  const char *at = header;
  while (*at != '\0') {
    const char *end = at + strcspn(at, ",");
    const int precision = range_precision(at, end, type);
    if (precision > best_precision) {
      best_precision = precision;
      quality = range_quality(at, end);
    }
    at = *end == ',' ? end + 1 : end;
  }
  return quality;
}

static const struct {
  enum format format;
  const char *word, *type;
} formats[] = {{FORMAT_JSON, "json", "application/json"},
               {FORMAT_CSV, "csv", "text/csv"},
               {FORMAT_MARKDOWN, "md", "text/markdown"}};
#define FORMAT_KINDS (sizeof formats / sizeof formats[0])

enum format call_format(const struct api_call *call, unsigned allowed)
{
  const char *word = call_query(call, "format");
  const char *accept = call->request->header != NULL ? call->request->header(call->request->cls, "Accept") : NULL;
  enum format best = FORMAT_NOT_ACCEPTABLE;
  int best_quality = 0;
  size_t i;
  for (i = 0; i < FORMAT_KINDS; i++) {
    int quality;
    if ((allowed & (unsigned)formats[i].format) == 0)
      continue;
    if (word != NULL)
      quality = strcmp(word, formats[i].word) == 0 ? 1000 : 0;
    else
      quality = accept == NULL || accept[0] == '\0' ? 1000 : accept_quality(accept, formats[i].type);
    if (quality > best_quality) {
      best_quality = quality;
      best = formats[i].format;
    }
  }
  return best;
}

enum err call_not_acceptable(struct api_call *call, struct api_response *out, unsigned allowed)
{
  char list[128] = "";
  size_t i;
  for (i = 0; i < FORMAT_KINDS; i++) {
    if ((allowed & (unsigned)formats[i].format) == 0)
      continue;
    if (list[0] != '\0')
      strncat(list, ", ", sizeof list - strlen(list) - 1);
    strncat(list, formats[i].type, sizeof list - strlen(list) - 1);
  }
  api_problem(out, 406, "not-acceptable", call->request->request_id, call->request->path,
              "this answer can be had as %s", list);
  return ERR_OK;
}
