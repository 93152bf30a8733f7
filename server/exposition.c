/* The page: bytes cut into lines, comments and metadata checked, samples handed on. */
#include "server/exposition.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/exposition_line.h"

enum exposition_format exposition_format_of(const char *content_type)
{
  static const char openmetrics[] = "application/openmetrics-text";
  return content_type != NULL && strncasecmp(content_type, openmetrics, sizeof openmetrics - 1) == 0
             ? EXPOSITION_OPENMETRICS
             : EXPOSITION_TEXT;
}

bool exposition_is(struct exposition_text text, const char *word)
{
  return strlen(word) == text.length && memcmp(text.at, word, text.length) == 0;
}

enum err exposition_init(struct exposition *parser, enum exposition_format format, struct exposition_limits limits,
                         struct exposition_sink sink, struct error *e)
{
  *parser = (struct exposition){.format = format, .limits = limits, .sink = sink};
  parser->labels = calloc(2 * EXPOSITION_LABELS_MAX, sizeof *parser->labels);
  if (parser->labels == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read an exposition");
  return ERR_OK;
}

void exposition_fini(struct exposition *parser)
{
  free(parser->carry);
  free(parser->unescaped);
  free(parser->labels);
  *parser = (struct exposition){.format = EXPOSITION_TEXT};
}

/* ---- Metadata ---- */

static struct exposition_text take_word(struct line *line)
{
  const char *const from = line->at;
  while (line->at < line->end && *line->at != ' ' && *line->at != '\t')
    line->at++;
  return (struct exposition_text){from, (size_t)(line->at - from)};
}

static bool is_type(const struct line *line, struct exposition_text type)
{
  static const char *const both[] = {"counter", "gauge", "histogram", "summary"};
  static const char *const later[] = {"gaugehistogram", "stateset", "info", "unknown"};
  static const char *const text_only[] = {"untyped", "gauge_histogram"};
  for (size_t i = 0; i < sizeof both / sizeof both[0]; i++)
    if (exposition_is(type, both[i]) || exposition_is(type, later[i]))
      return true;
  return !line->is_openmetrics && (exposition_is(type, text_only[0]) || exposition_is(type, text_only[1]));
}

/* A unit is the last word of the name. */
static bool is_unit_of(struct exposition_text unit, struct exposition_text name)
{
  return unit.length == 0 || (name.length > unit.length + 1 && name.at[name.length - unit.length - 1] == '_' &&
                              memcmp(name.at + name.length - unit.length, unit.at, unit.length) == 0);
}

/* What stands behind the name. */
static bool check_metadata(struct line *line, struct exposition_text keyword, struct exposition_text name)
{
  struct exposition_text rest = {line->at, (size_t)(line->end - line->at)};
  if (exposition_is(keyword, "HELP"))
    return exposition_is_utf8(rest.at, rest.length) || line_refuse(line, "a help text is not UTF-8");
  if (exposition_is(keyword, "UNIT"))
    return is_unit_of(rest, name) || line_refuse(line, "the unit is not the end of the name");
  if (!line->is_openmetrics)
    while (rest.length > 0 && (rest.at[rest.length - 1] == ' ' || rest.at[rest.length - 1] == '\t'))
      rest.length--;
  return is_type(line, rest) || line_refuse(line, "unknown metric type");
}

/* Behind HELP, TYPE or UNIT and a blank. Only the text format has help without text. */
static bool read_metadata(struct line *line, struct exposition_text keyword)
{
  struct exposition_text name;
  if (!line_name(&name, line))
    return false;
  if (line->at == line->end)
    return (!line->is_openmetrics && exposition_is(keyword, "HELP")) ||
           line_refuse(line, "expected text after the name");
  if (line->is_openmetrics && *line->at != ' ')
    return line_refuse(line, "expected a space after the name");
  if (line->is_openmetrics)
    line->at++;
  else if (line_blanks(line) == 0)
    return line_refuse(line, "expected a blank after the name");
  return check_metadata(line, keyword, name);
}

/* Whatever is not HELP or TYPE with something behind it is a comment. */
static bool read_text_comment(struct line *line)
{
  struct exposition_text keyword;
  line->at++;
  if (line_blanks(line) == 0)
    return true;
  keyword = take_word(line);
  if (!exposition_is(keyword, "HELP") && !exposition_is(keyword, "TYPE"))
    return true;
  (void)line_blanks(line);
  return line->at == line->end || read_metadata(line, keyword);
}

/* OpenMetrics has no other comments than these, with single spaces. */
static bool read_openmetrics_comment(struct exposition *parser, struct line *line)
{
  static const char *const keywords[] = {"HELP", "TYPE", "UNIT"};
  struct exposition_text keyword;
  if (exposition_is((struct exposition_text){line->at, (size_t)(line->end - line->at)}, "# EOF")) {
    parser->is_ended = true;
    return true;
  }
  line->at++;
  if (line->at == line->end || *line->at != ' ')
    return line_refuse(line, "expected a space after #");
  line->at++;
  keyword = take_word(line);
  for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
    if (exposition_is(keyword, keywords[i])) {
      if (line->at == line->end || *line->at != ' ')
        return line_refuse(line, "expected a space and a name");
      line->at++;
      return read_metadata(line, keyword);
    }
  return line_refuse(line, "expected HELP, TYPE, UNIT or EOF after #");
}

/* ---- Lines ---- */

static enum err refuse_line(struct exposition *parser, const struct line *line, struct error *e)
{
  if (line->is_value_fault && parser->sink.skipped != NULL) {
    parser->skipped_count++;
    parser->sink.skipped(parser->sink.cls, parser->line_count, line->reason);
    return ERR_OK;
  }
  return error_set(e, ERR_INVALID, "", "line %llu, column %zu: %s", (unsigned long long)parser->line_count,
                   (size_t)(line->at - line->start) + 1, line->reason);
}

static enum err make_room_for_values(struct exposition *parser, size_t length, struct error *e)
{
  char *larger;
  if (length <= parser->unescaped_capacity)
    return ERR_OK;
  larger = realloc(parser->unescaped, 2 * length);
  if (larger == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read an exposition");
  parser->unescaped = larger;
  parser->unescaped_capacity = 2 * length;
  return ERR_OK;
}

static enum err read_sample(struct exposition *parser, struct line *line, struct error *e)
{
  struct exposition_sample sample;
  if (!line_sample(&sample, line, parser->labels))
    return refuse_line(parser, line, e);
  if (parser->sample_count == parser->limits.samples_max)
    return error_set(e, ERR_LIMIT, "", "line %llu: more than %llu samples", (unsigned long long)parser->line_count,
                     (unsigned long long)parser->limits.samples_max);
  parser->sample_count++;
  parser->sink.sample(parser->sink.cls, &sample);
  return ERR_OK;
}

static enum err read_line(struct exposition *parser, const char *at, size_t length, struct error *e)
{
  struct line line = {
      .start = at, .at = at, .end = at + length, .is_openmetrics = parser->format == EXPOSITION_OPENMETRICS};
  bool is_fine = true;
  parser->line_count++;
  if (length > parser->limits.line_max_bytes)
    return error_set(e, ERR_LIMIT, "", "line %llu is longer than %zu bytes", (unsigned long long)parser->line_count,
                     parser->limits.line_max_bytes);
  if (make_room_for_values(parser, length, e) != ERR_OK)
    return ERR_NOMEM;
  line.unescaped = parser->unescaped;
  if (!line.is_openmetrics) {
    if (length > 0 && at[length - 1] == '\r')
      line.end--;
    (void)line_blanks(&line);
    if (line.at == line.end)
      return ERR_OK;
  }
  if (parser->is_ended)
    is_fine = line_refuse(&line, "text after # EOF");
  else if (line.at == line.end)
    is_fine = line_refuse(&line, "an empty line");
  else if (*line.at != '#')
    return read_sample(parser, &line, e);
  else
    is_fine = line.is_openmetrics ? read_openmetrics_comment(parser, &line) : read_text_comment(&line);
  return is_fine ? ERR_OK : refuse_line(parser, &line, e);
}

/* Keeps the start of a line. One byte past the limit is enough to refuse it. */
static enum err carry(struct exposition *parser, const char *bytes, size_t count, struct error *e)
{
  const size_t length = parser->carry_length + count;
  if (length > parser->limits.line_max_bytes)
    return error_set(e, ERR_LIMIT, "", "line %llu is longer than %zu bytes", (unsigned long long)parser->line_count + 1,
                     parser->limits.line_max_bytes);
  if (length > parser->carry_capacity) {
    char *larger = realloc(parser->carry, 2 * length);
    if (larger == NULL)
      return error_set(e, ERR_NOMEM, "", "not enough memory to read an exposition");
    parser->carry = larger;
    parser->carry_capacity = 2 * length;
  }
  memcpy(parser->carry + parser->carry_length, bytes, count);
  parser->carry_length = length;
  return ERR_OK;
}

/* The rest of a line whose start is carried. */
static enum err end_carried(struct exposition *parser, const char *bytes, size_t count, struct error *e)
{
  enum err code = carry(parser, bytes, count, e);
  if (code == ERR_OK)
    code = read_line(parser, parser->carry, parser->carry_length, e);
  parser->carry_length = 0;
  return code;
}

enum err exposition_feed(struct exposition *parser, const char *bytes, size_t count, struct error *e)
{
  const char *at = bytes, *const end = bytes + count;
  enum err code = ERR_OK;
  while (at < end && code == ERR_OK) {
    const char *const feed = memchr(at, '\n', (size_t)(end - at));
    if (feed == NULL)
      return carry(parser, at, (size_t)(end - at), e);
    code = parser->carry_length > 0 ? end_carried(parser, at, (size_t)(feed - at), e)
                                    : read_line(parser, at, (size_t)(feed - at), e);
    at = feed + 1;
  }
  return code;
}

enum err exposition_finish(struct exposition *parser, struct error *e)
{
  if (parser->carry_length > 0) {
    const enum err code = end_carried(parser, "", 0, e);
    if (code != ERR_OK)
      return code;
  }
  if (parser->format == EXPOSITION_OPENMETRICS && !parser->is_ended)
    return error_set(e, ERR_INVALID, "", "line %llu: the page ends without # EOF",
                     (unsigned long long)parser->line_count + 1);
  return ERR_OK;
}
