/* A review as Markdown: fit to be pasted into a wiki, and read there by people who were not in the room. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/figure.h"
#include "api/json_memory.h"
#include "api/pointer.h"
#include "api/read.h"
#include "api/review.h"
#include "api/write.h"

static const char *text_at(const json_t *object, const char *member, const char *otherwise)
{
  const char *text = json_string_value(json_object_get(object, member));
  return text != NULL ? text : otherwise;
}

/* In a table: no line breaks, and bars only between cells. */
static void put_cell(struct text *to, const char *text)
{
  for (; *text != '\0'; text++) {
    if (*text == '|')
      text_puts(to, "\\|");
    else if (*text == '\n' || *text == '\r')
      text_puts(to, " ");
    else
      text_append(to, text, 1);
  }
}

/* "1,234.56": five digits that matter, thousands apart. */
static void put_number(struct text *to, double value)
{
  char digits[64];
  size_t whole;
  if (isnan(value)) {
    text_puts(to, "–");
    return;
  }
  if (fabs(value) >= 10000 || fabs(value - round(value)) <= 0)
    (void)snprintf(digits, sizeof digits, "%.0f", value);
  else
    (void)snprintf(digits, sizeof digits, "%.4g", value);
  whole = strspn(digits, "-0123456789");
  for (size_t i = 0; digits[i] != '\0'; i++) {
    text_append(to, &digits[i], 1);
    if (i + 1 < whole && (whole - i - 1) % 3 == 0 && digits[i] != '-' && strchr(digits, 'e') == NULL)
      text_puts(to, ",");
  }
}

static double number_at(const json_t *object, const char *member)
{
  const json_t *value = json_object_get(object, member);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* The day of a time. */
static void put_day(struct text *to, const json_t *object, const char *member)
{
  text_printf(to, "%.10s", text_at(object, member, "–"));
}

static void put_value(struct text *to, const json_t *value)
{
  char *text = value != NULL && !json_is_null(value) ? json_memory_dumps(value, WRITE_FLAGS | JSON_ENCODE_ANY) : NULL;
  if (json_is_string(value))
    put_cell(to, json_string_value(value));
  else
    put_cell(to, text != NULL ? text : "–");
  free(text);
}

/* ---- Parts ---------------------------------------------------------------------------------------------------------- */

static void put_head(struct text *to, const json_t *review)
{
  const json_t *last = json_object_get(review, "compared_with"),
               *reason = json_object_get(review, "trace_change_reason");
  text_printf(to, "# Fit review %s\n\nOpened ", text_at(review, "week", ""));
  put_day(to, review, "opened_at");
  text_printf(to, " by %s; %s", text_at(review, "opened_by", "a person"), text_at(review, "state", ""));
  if (json_is_string(json_object_get(review, "signed_at"))) {
    text_puts(to, " on ");
    put_day(to, review, "signed_at");
  }
  if (json_is_string(last))
    text_printf(to, ". Compared with %s.\n", json_string_value(last));
  else
    text_puts(to, ". The first review: there is nothing to compare with.\n");
  if (json_is_string(reason))
    text_printf(to, "\nThe trace changed: %s\n", json_string_value(reason));
}

static void put_workload(struct text *to, const json_t *entry)
{
  static const char *const shown[] = {"configuration.gpus", "cost.monthly_usd", "cost.per_successful_request_usd",
                                      "latency.ttft_ms.p50", "latency.itl_ms.p50"};
  const json_t *main = json_object_get(entry, "figures");
  text_puts(to, "| ");
  put_cell(to, text_at(entry, "workload", ""));
  text_puts(to, " | ");
  put_cell(to, text_at(entry, "team", text_at(entry, "owner", "–")));
  text_puts(to, " | ");
  put_cell(to, text_at(entry, "verdict", "not evaluated"));
  text_puts(to, " | ");
  put_cell(to, text_at(entry, "profile", "–"));
  for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
    const double scale = i == 2 ? 1000 : 1;
    text_puts(to, " | ");
    put_number(to, scale * number_at(main, shown[i]));
  }
  text_puts(to, " |\n");
}

static void put_workloads(struct text *to, const json_t *workloads)
{
  const json_t *entry;
  size_t i;
  text_puts(
      to,
      "\n## Workloads\n\n| workload | team | verdict | on | GPUs | USD a month | USD per 1,000 successful requests | "
      "TTFT p50 ms | ITL p50 ms |\n|---|---|---|---|---:|---:|---:|---:|---:|\n");
  json_array_foreach(workloads, i, entry)
  {
    put_workload(to, entry);
  }
}

static bool has_blame(const json_t *rows)
{
  const json_t *row;
  size_t i;
  json_array_foreach(rows, i, row)
  {
    if (json_object_size(json_object_get(row, "change_by")) > 0)
      return true;
  }
  return false;
}

/* "price +10.0 %, sketch -0.3 %", of what the figure was; steps that do nothing are left out. */
static void put_blame(struct text *to, const json_t *row)
{
  const double before = fabs(number_at(row, "before"));
  const char *input, *between = "";
  json_t *change;
  json_object_foreach(read_iterable(json_object_get(row, "change_by")), input, change)
  {
    const double percent = 100 * json_number_value(change) / before;
    if (!(before > 0) || !(fabs(percent) >= 0.05))
      continue;
    text_printf(to, "%s%s %+.1f %%", between,
                strcmp(input, "interaction") == 0      ? "together"
                : strcmp(input, "not_reproduced") == 0 ? "not explained"
                                                       : input,
                percent);
    between = ", ";
  }
  text_puts(to, between[0] != '\0' ? " |" : "– |");
}

static void put_moved(struct text *to, const json_t *profile)
{
  const json_t *rows = json_object_get(profile, "figures"), *row;
  const bool is_blamed = has_blame(rows);
  size_t i;
  text_printf(to, "\n| %s (%s) | before | now | change |%s\n|---|---:|---:|---:|%s\n", text_at(profile, "profile", ""),
              text_at(profile, "verdict", ""), is_blamed ? " by |" : "", is_blamed ? "---|" : "");
  json_array_foreach(rows, i, row)
  {
    text_printf(to, "| %s%s%s | ", text_at(row, "label", ""), text_at(row, "unit", "")[0] != '\0' ? ", " : "",
                text_at(row, "unit", ""));
    put_number(to, number_at(row, "before"));
    text_puts(to, " | ");
    put_number(to, number_at(row, "after"));
    text_printf(to, " | %+.1f %% %s |", 100 * number_at(row, "relative"),
                json_is_true(json_object_get(row, "better")) ? "better" : "worse");
    if (is_blamed) {
      text_puts(to, " ");
      put_blame(to, row);
    }
    text_puts(to, "\n");
  }
}

static void put_inputs(struct text *to, const json_t *inputs)
{
  const json_t *input;
  size_t i;
  json_array_foreach(inputs, i, input)
  {
    text_printf(to, "%s- %s", i == 0 ? "\nChanged inputs:\n\n" : "", text_at(input, "input", ""));
    if (json_is_string(json_object_get(input, "where")))
      text_printf(to, " `%s`", text_at(input, "where", ""));
    text_puts(to, ": ");
    put_value(to, json_object_get(input, "before"));
    text_puts(to, " → ");
    put_value(to, json_object_get(input, "after"));
    text_puts(to, "\n");
  }
}

static void put_resolution(struct text *to, const json_t *item)
{
  const json_t *resolution = json_object_get(item, "resolution");
  if (!json_is_object(resolution)) {
    text_puts(to, "\n**Open.**\n");
    return;
  }
  if (json_is_string(json_object_get(resolution, "decision")))
    text_printf(to, "\n**Decision** `%s`", text_at(resolution, "decision", ""));
  else if (json_is_string(json_object_get(resolution, "action")))
    text_printf(to, "\n**Action:** %s — %s, due %s", text_at(resolution, "action", ""),
                text_at(resolution, "owner", ""), text_at(resolution, "due", ""));
  else
    text_printf(to, "\n**No action**, because %s", text_at(resolution, "no_action_because", ""));
  if (json_is_string(json_object_get(resolution, "by")))
    text_printf(to, " (%s)", text_at(resolution, "by", ""));
  text_puts(to, "\n");
}

static void put_item(struct text *to, const json_t *item)
{
  const json_t *profile;
  size_t i;
  text_printf(to, "\n### %s\n\n`%s`", text_at(item, "title", ""), text_at(item, "id", ""));
  if (json_is_string(json_object_get(item, "note")))
    text_printf(to, " — %s", text_at(item, "note", ""));
  text_puts(to, "\n");
  json_array_foreach(json_object_get(item, "profiles"), i, profile)
  {
    put_moved(to, profile);
  }
  put_inputs(to, json_object_get(item, "inputs"));
  put_resolution(to, item);
}

static void put_agenda(struct text *to, const json_t *items)
{
  const json_t *item;
  size_t i;
  text_puts(to, "\n## Agenda\n");
  if (json_array_size(items) == 0)
    text_puts(to, "\nNothing moved and nothing is left to be done.\n");
  json_array_foreach(items, i, item)
  {
    put_item(to, item);
  }
}

static void put_signatures(struct text *to, const json_t *review)
{
  const json_t *row;
  size_t i;
  text_puts(to, "\n## Signed off\n\n");
  json_array_foreach(json_object_get(review, "sign_offs"), i, row)
  {
    text_printf(to, "- %s: %s, ", text_at(row, "team", ""), text_at(row, "by", ""));
    put_day(to, row, "at");
    text_printf(to, " — %s\n", text_at(row, "rationale", ""));
  }
  if (i == 0)
    text_puts(to, "Nobody yet.\n");
  json_array_foreach(json_object_get(review, "addenda"), i, row)
  {
    text_puts(to, i == 0 ? "\n## Addenda\n\n- " : "- ");
    put_day(to, row, "at");
    text_printf(to, ", %s: %s\n", text_at(row, "by", ""), text_at(row, "text", ""));
  }
}

char *review_markdown(const json_t *review)
{
  struct text text = {0};
  put_head(&text, review);
  put_workloads(&text, json_object_get(review, "workloads"));
  put_agenda(&text, json_object_get(review, "items"));
  put_signatures(&text, review);
  return text_take(&text, NULL);
}
