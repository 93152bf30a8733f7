/* Small things, kept in one place so that every record refuses and answers alike. */
#include "api/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_memory.h"
#include "api/read.h"
#include "api/write.h"

#define PROSE_MAX 4000
#define LINE_MAX_BYTES 200
#define DAY_MS INT64_C(86400000)
#define RECORD_FIRST_MS INT64_C(946684800000) /* 2000-01-01 */

/* A date of today may lie ahead of UTC by as much as the earliest time zone does; clocks may differ by minutes. */
#define DATE_AHEAD_MS (INT64_C(14) * 3600 * 1000)
#define TIME_AHEAD_MS (INT64_C(5) * 60 * 1000)

void record_read_any(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const json_t **kept = to;
  (void)pointer;
  (void)faults;
  *kept = value;
}

static void read_words(const json_t *value, const char *pointer, const char **to, size_t max, const char *allowed,
                       struct faults *faults)
{
  const size_t length = json_string_length(value);
  if (!json_is_string(value))
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; a text is expected", read_type_name(value));
  else if (length == 0 || length > max)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "has %zu bytes; 1 to %zu are expected", length, max);
  else if (read_has_control(json_string_value(value), allowed))
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "holds control characters");
  else if (read_is_blank(json_string_value(value)))
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "is blank");
  else
    *to = json_string_value(value);
}

void record_read_prose(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  read_words(value, pointer, to, PROSE_MAX, "\n\r\t", faults);
}

void record_read_line(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  read_words(value, pointer, to, LINE_MAX_BYTES, "", faults);
}

static bool parse_moment(struct record_moment *to, const char *text)
{
  if (strlen(text) >= sizeof to->text || !write_time_parse(&to->ms, text))
    return false;
  to->is_given = true;
  to->is_date = strlen(text) == strlen("2026-11-30");
  (void)snprintf(to->text, sizeof to->text, "%s", text);
  return true;
}

/* A year mistyped as 0206 or 1026 would be in force for all time. */
static void check_moment(const struct record_moment *moment, const char *pointer, struct faults *faults)
{
  if (moment->ms < RECORD_FIRST_MS)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "\"%s\" lies before the year 2000", moment->text);
}

void record_read_moment(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  char excerpt[READ_EXCERPT_SIZE];
  if (!json_is_string(value))
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; a date or an RFC 3339 time is expected",
               read_type_name(value));
  else if (!parse_moment(to, json_string_value(value)))
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL,
               "\"%s\" is not a time: a date (2026-11-30) or RFC 3339 (2026-11-30T12:00:00Z) is expected",
               read_excerpt(excerpt, json_string_value(value)));
  else
    check_moment(to, pointer, faults);
}

void record_query_moment(struct record_moment *to, struct api_call *call, const char *key)
{
  const char *text = call_query(call, key);
  char pointer[80], excerpt[READ_EXCERPT_SIZE];
  *to = (struct record_moment){.is_given = false};
  if (text == NULL || parse_moment(to, text))
    return;
  (void)snprintf(pointer, sizeof pointer, "?%s", key);
  faults_add(call->faults, FAULT_OUT_OF_RANGE, pointer, NULL,
             "\"%s\" is not a time: a date (2026-11-30) or RFC 3339 (2026-11-30T12:00:00Z) is expected",
             read_excerpt(excerpt, text));
}

int64_t record_moment_end_ms(const struct record_moment *moment)
{
  return moment->is_date ? moment->ms + DAY_MS - 1 : moment->ms;
}

bool record_moment_is_ahead(const struct record_moment *moment, int64_t now_ms)
{
  return moment->is_given && moment->ms > now_ms + (moment->is_date ? DATE_AHEAD_MS : TIME_AHEAD_MS);
}

char *record_splice_steal(json_t *head, const char *document)
{
  char *text = head != NULL ? json_memory_dumps(head, WRITE_FLAGS) : NULL, *whole;
  const bool has_head = json_object_size(head) > 0, has_more = strcmp(document, "{}") != 0;
  size_t size;
  json_decref(head);
  if (text == NULL)
    return NULL;
  size = strlen(text) + strlen(document) + 2;
  whole = malloc(size);
  if (whole != NULL) /* the head without its closing brace, the document without its opening one */
    (void)snprintf(whole, size, "%.*s%s%s", (int)strlen(text) - 1, text, has_head && has_more ? "," : "", document + 1);
  free(text);
  return whole;
}

enum err record_parse(json_t **out, const char *document, struct error *e)
{
  *out = json_loads(document, 0, NULL);
  if (*out == NULL)
    return error_set(e, ERR_INTERNAL, "", "a stored document can not be parsed, or memory is out");
  return ERR_OK;
}

json_t *record_time(int64_t unix_ms)
{
  char text[WRITE_TIME_SIZE];
  if (unix_ms == 0)
    return json_null();
  write_time(text, unix_ms);
  return json_string(text);
}

json_t *record_share(json_t *value)
{
  return value != NULL ? json_incref(value) : json_null();
}

json_t *record_token(const struct api_call *call)
{
  const char *name = call->request->caller->name;
  return write_text(name != NULL && name[0] != '\0' ? name : NULL);
}

enum err record_nomem(struct error *e)
{
  return error_set(e, ERR_NOMEM, "", "not enough memory for the answer");
}

enum err record_check(const struct api_call *call, struct error *e)
{
  return call->faults->count > 0 ? error_set(e, ERR_INVALID, "", "the request is not valid") : ERR_OK;
}

enum err record_respond_texts(struct api_call *call, struct api_response *out, char **texts, size_t count,
                              const char *next_after, struct error *e)
{
  for (size_t i = 0; i < count; i++)
    if (texts[i] == NULL)
      return record_nomem(e);
  return respond_page_texts(call, out, (const char *const *)texts, count, next_after, e);
}

void record_free_texts(char **texts, size_t count)
{
  if (texts == NULL)
    return;
  for (size_t i = 0; i < count; i++)
    free(texts[i]);
  free(texts);
}
