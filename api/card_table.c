/* Scorecards as lines of a table, from their JSON. */
#include "api/card_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct card_column_head card_column_heads[CARD_COLUMNS] = {
    {"profile", NULL, false},
    {"verdict", NULL, false},
    {"GPUs", NULL, false},
    {"TTFT p50 ms", "TTFT p99 ms", true},
    {"ITL p50 ms", "ITL p99 ms", true},
    {"ok %", NULL, true},
    {"USD/1M", NULL, true},
    {"USD/month", NULL, true},
    {"limit or reason", NULL, false},
    {"tok/s", NULL, true},
};

const json_t *card_at(const json_t *value, const char *path)
{
  char key[64];
  while (value != NULL) {
    const size_t length = strcspn(path, ".");
    if (length == 0 || length >= sizeof key)
      return NULL;
    memcpy(key, path, length);
    key[length] = '\0';
    value = json_object_get(value, key);
    if (path[length] == '\0')
      return value;
    path += length + 1;
  }
  return NULL;
}

static void separate_thousands(char to[CARD_FIGURE_SIZE], const char *digits)
{
  const size_t length = strlen(digits);
  size_t n = 0;
  for (size_t i = 0; i < length && n + 2 < CARD_FIGURE_SIZE; i++) {
    if (i > 0 && (length - i) % 3 == 0)
      to[n++] = ',';
    to[n++] = digits[i];
  }
  to[n] = '\0';
}

const char *card_figure(char to[CARD_FIGURE_SIZE], const json_t *value, double factor)
{
  const double x = json_number_value(value) * factor;
  char digits[CARD_FIGURE_SIZE];
  if (!json_is_number(value) || !(fabs(x) < 1e15))
    (void)snprintf(to, CARD_FIGURE_SIZE, "-");
  else if (x >= 999.5) {
    (void)snprintf(digits, sizeof digits, "%.0f", x);
    separate_thousands(to, digits);
  } else if (x >= 99.95 || !(fabs(x - round(x)) > 0.0))
    (void)snprintf(to, CARD_FIGURE_SIZE, "%.0f", x);
  else if (x >= 9.995)
    (void)snprintf(to, CARD_FIGURE_SIZE, "%.1f", x);
  else if (x >= 0.9995)
    (void)snprintf(to, CARD_FIGURE_SIZE, "%.2f", x);
  else
    (void)snprintf(to, CARD_FIGURE_SIZE, "%.3g", x);
  return to;
}

static bool has_p99(const json_t *card)
{
  return json_is_number(card_at(card, "latency.ttft_ms.p99")) && json_is_number(card_at(card, "latency.itl_ms.p99"));
}

bool cards_have_p99(const json_t *cards)
{
  for (size_t i = 0; i < json_array_size(cards); i++)
    if (has_p99(json_array_get(cards, i)))
      return true;
  return false;
}

const char *card_column_title(enum card_column column, bool is_p99)
{
  const struct card_column_head *head = &card_column_heads[column];
  return is_p99 && head->title_p99 != NULL ? head->title_p99 : head->title;
}

static void put_figure(struct card_row *row, enum card_column column, const json_t *card, const char *path,
                       double factor)
{
  char figure[CARD_FIGURE_SIZE];
  (void)snprintf(row->cells[column], sizeof row->cells[column], "%s", card_figure(figure, card_at(card, path), factor));
}

/* The 99th percentile where it is known; a median says that it is one where others are not. */
static void put_latency(struct card_row *row, enum card_column column, const json_t *card, const char *metric,
                        bool is_p99)
{
  const json_t *latency = card_at(card, metric);
  const json_t *value = json_object_get(latency, has_p99(card) ? "p99" : "p50");
  char figure[CARD_FIGURE_SIZE];
  (void)snprintf(row->cells[column], sizeof row->cells[column], "%s%s",
                 is_p99 && !has_p99(card) && json_is_number(value) ? "p50 " : "", card_figure(figure, value, 1.0));
}

static void put_word(struct card_row *row, enum card_column column, const char *word)
{
  (void)snprintf(row->cells[column], sizeof row->cells[column], "%s", word != NULL ? word : "-");
}

/* "8 (tp 4 x 2)": GPUs, and how they are used where there is more than one. */
static void put_gpus(struct card_row *row, const json_t *card)
{
  char *cell = row->cells[COLUMN_GPUS];
  const size_t size = sizeof row->cells[COLUMN_GPUS];
  const json_t *gpus = card_at(card, "configuration.gpus");
  const double pp = json_number_value(card_at(card, "configuration.pipeline_parallel"));
  const double tp = json_number_value(card_at(card, "configuration.tensor_parallel"));
  const double replicas = json_number_value(card_at(card, "configuration.replicas"));
  if (!json_is_number(gpus))
    (void)snprintf(cell, size, "-");
  else if (pp > 1)
    (void)snprintf(cell, size, "%.0f (tp%.0f pp%.0f x%.0f)", json_number_value(gpus), tp, pp, replicas);
  else
    (void)snprintf(cell, size, "%.0f (tp%.0f x%.0f)", json_number_value(gpus), tp, replicas);
}

/* The first target that is missed, by its path; NULL when none is. */
static const char *missed_target(const json_t *card)
{
  const json_t *targets = json_object_get(card, "targets");
  for (size_t i = 0; i < json_array_size(targets); i++) {
    const json_t *target = json_array_get(targets, i);
    if (json_is_false(json_object_get(target, "met")))
      return json_string_value(json_object_get(target, "metric"));
  }
  return NULL;
}

static void put_limit(struct card_row *row, const json_t *card)
{
  const char *reason = json_string_value(json_object_get(card, "no_fit_reason"));
  const json_t *min_gpus = card_at(card, "memory.min_gpus");
  const char *missed = missed_target(card);
  char *cell = row->cells[COLUMN_LIMIT];
  const size_t size = sizeof row->cells[COLUMN_LIMIT];
  if (reason == NULL)
    put_word(row, COLUMN_LIMIT, json_string_value(card_at(card, "limits.first_limit")));
  else if (strcmp(reason, "targets_missed") == 0 && missed != NULL)
    (void)snprintf(cell, size, "%s: %s", reason, strncmp(missed, "latency.", 8) == 0 ? missed + 8 : missed);
  else if (strcmp(reason, "weights_exceed_memory") == 0 && json_is_number(min_gpus))
    (void)snprintf(cell, size, "%s: min %.0f GPUs", reason, json_number_value(min_gpus));
  else
    put_word(row, COLUMN_LIMIT, reason);
}

void card_row_make(struct card_row *row, const json_t *card, bool is_p99)
{
  put_word(row, COLUMN_PROFILE, json_string_value(json_object_get(card, "profile")));
  put_word(row, COLUMN_VERDICT, json_string_value(json_object_get(card, "verdict")));
  put_gpus(row, card);
  put_latency(row, COLUMN_TTFT, card, "latency.ttft_ms", is_p99);
  put_latency(row, COLUMN_ITL, card, "latency.itl_ms", is_p99);
  put_figure(row, COLUMN_SUCCESS, card, "success.rate", 100.0);
  put_figure(row, COLUMN_TOKENS, card, "throughput.output_tokens_per_s", 1.0);
  put_figure(row, COLUMN_TOKEN_PRICE, card, "cost.per_million_output_tokens_usd", 1.0);
  put_figure(row, COLUMN_MONTHLY, card, "cost.monthly_usd", 1.0);
  put_limit(row, card);
}

/* ---- Sentences ------------------------------------------------------------------------------------------------------ */

static void describe_tokens(struct text *text, const json_t *length)
{
  char a[CARD_FIGURE_SIZE], b[CARD_FIGURE_SIZE];
  if (json_is_number(length))
    text_puts(text, card_figure(a, length, 1.0));
  else if (json_object_get(length, "p50") != NULL)
    text_printf(text, "p50 %s, p99 %s", card_figure(a, json_object_get(length, "p50"), 1.0),
                card_figure(b, json_object_get(length, "p99"), 1.0));
  else
    text_printf(text, "mean %s, cv %s", card_figure(a, json_object_get(length, "mean"), 1.0),
                card_figure(b, json_object_get(length, "cv"), 1.0));
}

/* "trace azure-conv at 2 times its rate"; false without one. */
static bool put_trace(struct text *text, const json_t *trace)
{
  const json_t *name = json_is_object(trace) ? json_object_get(trace, "name") : trace;
  const json_t *scale = json_object_get(trace, "rate_scale");
  char figure[CARD_FIGURE_SIZE];
  if (!json_is_string(name))
    return false;
  text_printf(text, "trace %s", json_string_value(name));
  if (json_is_number(scale))
    text_printf(text, " at %s times its rate", card_figure(figure, scale, 1.0));
  return true;
}

void card_traffic(struct text *text, const json_t *traffic)
{
  const json_t *rate = json_object_get(traffic, "requests_per_s"), *users = json_object_get(traffic, "concurrency");
  const char *arrival = json_string_value(json_object_get(traffic, "arrival"));
  char figure[CARD_FIGURE_SIZE];
  if (!json_is_object(traffic))
    return;
  if (put_trace(text, json_object_get(traffic, "trace")))
    return;
  describe_tokens(text, json_object_get(traffic, "input_tokens"));
  text_puts(text, " in / ");
  describe_tokens(text, json_object_get(traffic, "output_tokens"));
  text_puts(text, " out tokens");
  if (json_is_number(rate))
    text_printf(text, ", %s requests/s (%s)", card_figure(figure, rate, 1.0), arrival != NULL ? arrival : "poisson");
  else if (json_is_number(users))
    text_printf(text, ", %s users at once", card_figure(figure, users, 1.0));
}

static const json_t *recommended_card(const json_t *document)
{
  const char *id = json_string_value(card_at(document, "recommendation.scorecard"));
  const json_t *cards = json_object_get(document, "scorecards");
  for (size_t i = 0; id != NULL && i < json_array_size(cards); i++) {
    const json_t *card = json_array_get(cards, i);
    const char *seen = json_string_value(json_object_get(card, "id"));
    if (seen != NULL && strcmp(seen, id) == 0)
      return card;
  }
  return NULL;
}

void card_recommendation(struct text *text, const json_t *document)
{
  const json_t *card = recommended_card(document);
  const char *summary = json_string_value(card_at(document, "recommendation.summary"));
  const char *runner_up = json_string_value(card_at(document, "recommendation.runner_up.profile"));
  const json_t *per_request, *monthly;
  const char *percentile = has_p99(card) ? "p99" : "p50";
  struct card_row row;
  char figure[CARD_FIGURE_SIZE];
  if (card == NULL) {
    text_printf(text, "no_fit: %s", summary != NULL ? summary : "no profile fits");
    return;
  }
  card_row_make(&row, card, false);
  per_request = card_at(card, "cost.per_successful_request_usd");
  monthly = card_at(card, "cost.monthly_usd");
  text_printf(text, "%s: %s on %s", row.cells[COLUMN_VERDICT], row.cells[COLUMN_GPUS], row.cells[COLUMN_PROFILE]);
  if (json_is_number(per_request))
    text_printf(text, ", %s USD per 1,000 successful requests", card_figure(figure, per_request, 1000.0));
  if (json_is_number(monthly))
    text_printf(text, "%s%s USD a month%s", json_is_number(per_request) ? " (" : ", ",
                card_figure(figure, monthly, 1.0), json_is_number(per_request) ? ")" : "");
  else
    text_puts(text, ", no price known");
  text_printf(text, ", TTFT %s %s ms, ITL %s %s ms, first limit %s", percentile, row.cells[COLUMN_TTFT], percentile,
              row.cells[COLUMN_ITL], row.cells[COLUMN_LIMIT]);
  if (runner_up != NULL)
    text_printf(text, "; next best %s", runner_up);
}

void card_next_step(struct text *text, const json_t *document)
{
  const json_t *fitting = recommended_card(document);
  const json_t *card = fitting != NULL ? fitting : json_array_get(json_object_get(document, "scorecards"), 0);
  const json_t *step = fitting == NULL ? json_array_get(json_object_get(card, "ways_out"), 0) : NULL;
  const char *profile = json_string_value(json_object_get(card, "profile")), *message;
  if (step == NULL)
    step = json_array_get(json_object_get(card, "advice"), 0);
  message = json_string_value(json_object_get(step, "message"));
  if (message != NULL && profile != NULL)
    text_printf(text, "next, on %s: %s", profile, message);
}
