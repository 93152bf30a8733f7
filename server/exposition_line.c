/* Sample lines: a name, labels, a value, perhaps a timestamp and an exemplar. The first fault ends the line. */
#include "server/exposition_line.h"

#include <math.h>
#include <string.h>

bool line_refuse(struct line *line, const char *reason)
{
  if (line->reason == NULL)
    line->reason = reason;
  return false;
}

static bool refuse_value(struct line *line, const char *reason)
{
  line->is_value_fault = true;
  return line_refuse(line, reason);
}

static bool is_blank(char c)
{
  return c == ' ' || c == '\t';
}

static bool is_name_start(char c)
{
  return (unsigned char)((c | 0x20) - 'a') < 26 || c == '_' || c == ':';
}

static bool is_name_rest(char c)
{
  return is_name_start(c) || (unsigned char)(c - '0') < 10;
}

static bool is_at(const struct line *line, char c)
{
  return line->at < line->end && *line->at == c;
}

size_t line_blanks(struct line *line)
{
  const char *from = line->at;
  while (line->at < line->end && is_blank(*line->at))
    line->at++;
  return (size_t)(line->at - from);
}

/* The form of UTF-8 in RFC 3629: no surrogates, nothing longer than needed, nothing past U+10FFFF. */
static size_t utf8_length(const unsigned char *at, size_t count)
{
  static const struct {
    unsigned char first_min, first_max, second_min, second_max, length;
  } forms[] = {{0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
               {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
               {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    if (at[0] < forms[i].first_min || at[0] > forms[i].first_max)
      continue;
    if (count < forms[i].length || at[1] < forms[i].second_min || at[1] > forms[i].second_max)
      return 0;
    for (size_t k = 2; k < forms[i].length; k++)
      if ((at[k] & 0xC0) != 0x80)
        return 0;
    return forms[i].length;
  }
  return 0;
}

bool exposition_is_utf8(const char *text, size_t count)
{
  const unsigned char *at = (const unsigned char *)text;
  while (count > 0) {
    uint64_t eight;
    size_t length = 1;
    if (count >= sizeof eight) {
      memcpy(&eight, at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof eight;
        count -= sizeof eight;
        continue;
      }
    }
    if (*at >= 0x80)
      length = utf8_length(at, count);
    if (length == 0)
      return false;
    at += length;
    count -= length;
  }
  return true;
}

/* ---- Names and quoted text ---- */

static bool read_plain_name(struct exposition_text *name, struct line *line, bool allows_colon)
{
  const char *const from = line->at;
  if (from == line->end || !is_name_start(*from))
    return line_refuse(line, "expected a name");
  while (line->at < line->end && is_name_rest(*line->at))
    line->at++;
  *name = (struct exposition_text){from, (size_t)(line->at - from)};
  if (!allows_colon && memchr(from, ':', name->length) != NULL)
    return line_refuse(line, "a label name holds a colon");
  return true;
}

/* \\, \" and \n; any other backslash stays. */
static struct exposition_text unescape(struct line *line, const char *from, const char *end)
{
  char *const start = line->unescaped, *to = start;
  for (const char *at = from; at < end; at++) {
    const char next = *at == '\\' && at + 1 < end ? at[1] : '\0';
    if (next == '\\' || next == '"' || next == 'n') {
      *to++ = next;
      if (next == 'n')
        to[-1] = '\n';
      at++;
    } else {
      *to++ = *at;
    }
  }
  line->unescaped = to;
  return (struct exposition_text){start, (size_t)(to - start)};
}

/* At a quotation mark. */
static bool read_quoted(struct exposition_text *text, struct line *line)
{
  const char *const from = ++line->at;
  const char *at = from, *const end = line->end;
  bool has_escapes = false;
  unsigned char bits = 0;
  while (at < end && *at != '"') {
    bits |= (unsigned char)*at;
    if (*at == '\\' && at + 1 < end) {
      has_escapes = true;
      at++;
      bits |= (unsigned char)*at;
    }
    at++;
  }
  if (at == end)
    return line_refuse(line, "a quotation mark is not closed");
  line->at = at + 1;
  if (bits >= 0x80 && !exposition_is_utf8(from, (size_t)(at - from)))
    return line_refuse(line, "text in quotes is not UTF-8");
  *text = has_escapes ? unescape(line, from, at) : (struct exposition_text){from, (size_t)(at - from)};
  return true;
}

static bool read_quoted_name(struct exposition_text *name, struct line *line)
{
  return read_quoted(name, line) && (name->length > 0 || line_refuse(line, "a name is empty"));
}

bool line_name(struct exposition_text *name, struct line *line)
{
  return is_at(line, '"') ? read_quoted_name(name, line) : read_plain_name(name, line, true);
}

/* ---- Labels ---- */

struct label_list {
  struct exposition_label *at;
  size_t count;
  struct exposition_text *name; /* where a quoted metric name goes; NULL: none may come */
};

static bool is_same(struct exposition_text a, struct exposition_text b)
{
  return a.length == b.length && a.at[0] == b.at[0] && memcmp(a.at, b.at, a.length) == 0;
}

static bool add_label(struct label_list *list, struct line *line, struct exposition_label label)
{
  if (list->count == EXPOSITION_LABELS_MAX)
    return line_refuse(line, "too many labels");
  for (size_t i = 0; i < list->count; i++)
    if (is_same(list->at[i].name, label.name))
      return line_refuse(line, "a label name occurs twice");
  list->at[list->count++] = label;
  return true;
}

static bool read_label_value(struct label_list *list, struct line *line, struct exposition_label label)
{
  line->at++; /* = */
  (void)line_blanks(line);
  if (!is_at(line, '"'))
    return line_refuse(line, "expected a label value in double quotes");
  return read_quoted(&label.value, line) && add_label(list, line, label);
}

/* name="value", or a metric name in quotes. */
static bool read_label(struct label_list *list, struct line *line)
{
  struct exposition_label label = {.name = {NULL, 0}};
  const bool is_quoted = is_at(line, '"');
  if (!(is_quoted ? read_quoted_name(&label.name, line) : read_plain_name(&label.name, line, false)))
    return false;
  (void)line_blanks(line);
  if (is_at(line, '='))
    return read_label_value(list, line, label);
  if (!is_quoted)
    return line_refuse(line, "expected = after a label name");
  if (list->name == NULL || list->name->at != NULL)
    return line_refuse(line, "a second metric name");
  *list->name = label.name;
  return true;
}

/* At the brace; ends behind the closing one. */
static bool read_labels(struct label_list *list, struct line *line)
{
  line->at++;
  (void)line_blanks(line);
  while (!is_at(line, '}')) {
    if (!read_label(list, line))
      return false;
    (void)line_blanks(line);
    if (is_at(line, '}'))
      break;
    if (!is_at(line, ','))
      return line_refuse(line, "expected a comma or } after a label");
    line->at++;
    (void)line_blanks(line);
  }
  line->at++;
  return true;
}

/* ---- Values ---- */

static struct exposition_text read_token(struct line *line)
{
  const char *const from = line->at;
  while (line->at < line->end && !is_blank(*line->at))
    line->at++;
  return (struct exposition_text){from, (size_t)(line->at - from)};
}

static bool read_value(double *value, struct line *line)
{
  struct exposition_text token;
  if (line->at == line->end || is_blank(*line->at))
    return refuse_value(line, "there is no value");
  token = read_token(line);
  return exposition_number(value, token) || refuse_value(line, "the value is not a number");
}

/* Milliseconds as an integer, or in OpenMetrics seconds as a finite number. */
static bool read_timestamp(double *timestamp_ms, struct line *line)
{
  const struct exposition_text token = read_token(line);
  if (!line->is_openmetrics)
    return exposition_integer(timestamp_ms, token) ||
           line_refuse(line, "the timestamp is not a whole number of milliseconds");
  if (!exposition_number(timestamp_ms, token) || !isfinite(*timestamp_ms))
    return line_refuse(line, "the timestamp is not a number of seconds");
  *timestamp_ms *= 1e3;
  return true;
}

/* Exactly one space, as OpenMetrics wants it. */
static bool expect_space(struct line *line, const char *reason)
{
  if (!is_at(line, ' '))
    return line_refuse(line, reason);
  line->at++;
  return true;
}

static bool ends_with(struct exposition_text text, const char *end)
{
  const size_t length = strlen(end);
  return text.length > length && memcmp(text.at + text.length - length, end, length) == 0;
}

/* # {labels} value [timestamp], to the end of the line. */
static bool read_exemplar(struct exposition_sample *sample, struct line *line, struct exposition_label *labels)
{
  struct label_list list = {.at = labels};
  double ignored_ms;
  if (!ends_with(sample->name, "_total") && !ends_with(sample->name, "_bucket"))
    return line_refuse(line, "only counters and buckets have exemplars");
  line->at++;
  if (!expect_space(line, "expected a space after #"))
    return false;
  if (!is_at(line, '{'))
    return line_refuse(line, "expected the labels of an exemplar");
  if (!read_labels(&list, line) || !expect_space(line, "expected the value of an exemplar"))
    return false;
  if (!exposition_number(&sample->exemplar_value, read_token(line)))
    return line_refuse(line, "the value of an exemplar is not a number");
  sample->has_exemplar = true;
  sample->exemplar_labels = labels;
  sample->exemplar_label_count = list.count;
  if (line->at == line->end)
    return true;
  line->at++;
  return read_timestamp(&ignored_ms, line) &&
         (line->at == line->end || line_refuse(line, "unexpected text at the end"));
}

/* Behind the labels: the value, and what may follow it. */
static bool read_openmetrics_rest(struct exposition_sample *sample, struct line *line, struct exposition_label *labels)
{
  if (line->at == line->end)
    return refuse_value(line, "there is no value");
  if (!expect_space(line, "expected a space before the value") || !read_value(&sample->value, line))
    return false;
  if (line->at == line->end)
    return true;
  if (!expect_space(line, "expected one space after the value"))
    return false;
  if (!is_at(line, '#')) {
    if (!read_timestamp(&sample->timestamp_ms, line))
      return false;
    sample->has_timestamp = true;
    if (line->at == line->end)
      return true;
    line->at++;
    if (!is_at(line, '#'))
      return line_refuse(line, "unexpected text after the timestamp");
  }
  return read_exemplar(sample, line, labels);
}

static bool read_text_rest(struct exposition_sample *sample, struct line *line)
{
  (void)line_blanks(line);
  if (!read_value(&sample->value, line))
    return false;
  (void)line_blanks(line);
  if (line->at == line->end)
    return true;
  sample->has_timestamp = true;
  if (!read_timestamp(&sample->timestamp_ms, line))
    return false;
  (void)line_blanks(line);
  return line->at == line->end || line_refuse(line, "unexpected text after the timestamp");
}

bool line_sample(struct exposition_sample *sample, struct line *line, struct exposition_label *labels)
{
  struct label_list list = {.at = labels, .name = &sample->name};
  bool is_named, has_gap = false;
  *sample = (struct exposition_sample){.labels = labels};
  is_named = !is_at(line, '{');
  if (is_named && !read_plain_name(&sample->name, line, true))
    return false;
  if (!line->is_openmetrics)
    has_gap = line_blanks(line) > 0;
  if (is_at(line, '{')) {
    if (!read_labels(&list, line))
      return false;
    if (sample->name.at == NULL)
      return line_refuse(line, "there is no metric name");
  } else if (line->at < line->end && !has_gap && !is_blank(*line->at)) {
    return line_refuse(line, "a metric name holds a character that it may not");
  }
  sample->label_count = list.count;
  return line->is_openmetrics ? read_openmetrics_rest(sample, line, labels + EXPOSITION_LABELS_MAX)
                              : read_text_rest(sample, line);
}
