/* Errors by metric and by hardware × model, as JSON and as Markdown. Errors are |predicted / measured - 1|. */
#include "api/accuracy.h"

#include "api/write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct summary {
  size_t count;
  double median, p90, within_25, bias, coverage; /* coverage NaN without bands; bias of ln(predicted / measured) */
};

static int compare_double(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Linear interpolation between order statistics. */
static double quantile(const double *sorted, size_t count, double p)
{
  const double at = p * (double)(count - 1);
  const size_t low = (size_t)floor(at);
  const size_t high = low + 1 < count ? low + 1 : low;
  return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}

static bool is_in_band(const struct accuracy_row *row)
{
  const double ratio = row->measured / row->predicted;
  return ratio >= row->band.low_ratio && ratio <= row->band.high_ratio;
}

typedef bool row_filter(const struct accuracy_row *row, const void *cls);

/* `errors` and `logs` have room for all rows. */
static struct summary summarise(const struct accuracy *accuracy, row_filter *filter, const void *cls, double *errors,
                                double *logs)
{
  struct summary out = {0, (double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN};
  size_t within = 0, banded = 0, covered = 0;
  for (size_t i = 0; i < accuracy->row_count; i++) {
    const struct accuracy_row *row = &accuracy->rows[i];
    if (!filter(row, cls))
      continue;
    errors[out.count] = fabs(row->predicted / row->measured - 1);
    logs[out.count] = log(row->predicted / row->measured);
    within += errors[out.count] <= 0.25;
    banded += row->has_band;
    covered += row->has_band && is_in_band(row);
    out.count++;
  }
  if (out.count == 0)
    return out;
  qsort(errors, out.count, sizeof *errors, compare_double);
  qsort(logs, out.count, sizeof *logs, compare_double);
  out.median = quantile(errors, out.count, 0.5);
  out.p90 = quantile(errors, out.count, 0.9);
  out.bias = quantile(logs, out.count, 0.5);
  out.within_25 = (double)within / (double)out.count;
  if (banded > 0)
    out.coverage = (double)covered / (double)banded;
  return out;
}

struct selection {
  enum accuracy_metric metric;
  int closed;                   /* -1 any, 1 all but Poisson, 0 Poisson alone */
  const char *hardware, *model; /* NULL = any */
};

/* A Poisson run's throughput is the rate that was offered: predicting it proves nothing. */
static bool is_selected(const struct accuracy_row *row, const void *cls)
{
  const struct selection *wanted = cls;
  const bool is_poisson = row->load == BENCHMARK_POISSON;
  if (row->metric != wanted->metric || row->is_offered_rate)
    return false;
  if (wanted->closed >= 0 && (wanted->closed == 1) == is_poisson)
    return false;
  if (wanted->hardware != NULL && strcmp(wanted->hardware, row->hardware) != 0)
    return false;
  return wanted->model == NULL || strcmp(wanted->model, row->model) == 0;
}

struct group {
  const char *hardware, *model;
  enum accuracy_metric metric;
};

static int compare_group(const void *a, const void *b)
{
  const struct group *x = a, *y = b;
  int order = strcmp(x->hardware, y->hardware);
  if (order == 0)
    order = strcmp(x->model, y->model);
  return order != 0 ? order : (int)x->metric - (int)y->metric;
}

/* Distinct hardware × model × metric of the rows, sorted; malloc'ed. */
static struct group *groups_of(const struct accuracy *accuracy, size_t *count)
{
  struct group *groups = malloc((accuracy->row_count + 1) * sizeof *groups);
  size_t kept = 0;
  if (groups == NULL)
    return NULL;
  for (size_t i = 0; i < accuracy->row_count; i++)
    groups[i] = (struct group){accuracy->rows[i].hardware, accuracy->rows[i].model, accuracy->rows[i].metric};
  qsort(groups, accuracy->row_count, sizeof *groups, compare_group);
  for (size_t i = 0; i < accuracy->row_count; i++)
    if (kept == 0 || compare_group(&groups[kept - 1], &groups[i]) != 0)
      groups[kept++] = groups[i];
  *count = kept;
  return groups;
}

static bool put(json_t *object, const char *key, json_t *value)
{
  return json_object_set_new(object, key, value) == 0;
}

static json_t *summary_json(const struct summary *summary, double coverage_of_groups)
{
  json_t *object = json_object();
  if (put(object, "n", json_integer((json_int_t)summary->count)) &&
      put(object, "median_ape", write_number(summary->median)) && put(object, "p90_ape", write_number(summary->p90)) &&
      put(object, "within_25", write_number(summary->within_25)) && put(object, "bias", write_number(summary->bias)) &&
      put(object, "band_coverage", write_number(summary->coverage)) &&
      put(object, "band_coverage_of_groups", write_number(coverage_of_groups)))
    return object;
  json_decref(object);
  return NULL;
}

static json_t *group_json(const struct group *group, const struct summary *summary)
{
  json_t *object = json_object();
  if (put(object, "hw", json_string(group->hardware)) && put(object, "model", json_string(group->model)) &&
      put(object, "metric", json_string(accuracy_metric_name(group->metric))) &&
      put(object, "n", json_integer((json_int_t)summary->count)) &&
      put(object, "median_ape", write_number(summary->median)) && put(object, "bias", write_number(summary->bias)))
    return object;
  json_decref(object);
  return NULL;
}

static json_t *refusals_json(const struct accuracy *accuracy)
{
  json_t *list = json_array();
  for (size_t i = 0; i < accuracy->refusal_count; i++) {
    json_t *item = json_object();
    if (!put(item, "id", json_string(accuracy->refusals[i].id)) ||
        !put(item, "reason", write_text(accuracy->refusals[i].reason)) || json_array_append(list, item) != 0) {
      json_decref(item);
      json_decref(list);
      return NULL;
    }
    json_decref(item);
  }
  return list;
}

/* Scratch for summaries and the groups of a report. */
struct report {
  double *errors, *logs;
  struct group *groups;
  size_t group_count;
};

static bool report_init(struct report *report, const struct accuracy *accuracy)
{
  report->errors = malloc((accuracy->row_count + 1) * sizeof *report->errors);
  report->logs = malloc((accuracy->row_count + 1) * sizeof *report->logs);
  report->groups = groups_of(accuracy, &report->group_count);
  return report->errors != NULL && report->logs != NULL && report->groups != NULL;
}

static void report_fini(struct report *report)
{
  free(report->errors);
  free(report->logs);
  free(report->groups);
}

/* Mean over groups of the share of a group's rows inside the band; NaN without bands. */
static double group_coverage(const struct accuracy *accuracy, const struct report *report,
                             const struct selection *selection)
{
  double sum = 0;
  size_t n = 0;
  for (size_t i = 0; i < report->group_count; i++) {
    struct selection one = *selection;
    struct summary summary;
    if (report->groups[i].metric != selection->metric)
      continue;
    one.hardware = report->groups[i].hardware;
    one.model = report->groups[i].model;
    summary = summarise(accuracy, is_selected, &one, report->errors, report->logs);
    if (!isnan(summary.coverage)) {
      sum += summary.coverage;
      n++;
    }
  }
  return n > 0 ? sum / (double)n : (double)NAN;
}

/* The loads that a figure is taken over, in both documents. */
static const struct {
  const char *key, *name; /* of JSON; of Markdown */
  struct selection selection;
} lines[] = {
    {"tpot", "TPOT and ITL, mean and p50", {ACCURACY_TPOT, -1, NULL, NULL}},
    {"tpot_closed", "… closed loop, single and offline", {ACCURACY_TPOT, 1, NULL, NULL}},
    {"tpot_open", "… open loop (Poisson)", {ACCURACY_TPOT, 0, NULL, NULL}},
    {"tpot_tail", "TPOT and ITL, p90 and p99", {ACCURACY_TPOT_TAIL, -1, NULL, NULL}},
    {"ttft", "TTFT, mean and p50", {ACCURACY_TTFT, -1, NULL, NULL}},
    {"ttft_closed", "… closed loop, single and offline", {ACCURACY_TTFT, 1, NULL, NULL}},
    {"ttft_open", "… open loop (Poisson)", {ACCURACY_TTFT, 0, NULL, NULL}},
    {"ttft_tail", "TTFT, p90 and p99", {ACCURACY_TTFT_TAIL, -1, NULL, NULL}},
    {"ttft_tail_closed", "… closed loop, single and offline", {ACCURACY_TTFT_TAIL, 1, NULL, NULL}},
    {"ttft_tail_open", "… open loop (Poisson)", {ACCURACY_TTFT_TAIL, 0, NULL, NULL}},
    {"e2e", "E2E, mean and p50", {ACCURACY_E2E, -1, NULL, NULL}},
    {"e2e_tail", "E2E, p90 and p99", {ACCURACY_E2E_TAIL, -1, NULL, NULL}},
    {"e2e_tail_closed", "… closed loop, single and offline", {ACCURACY_E2E_TAIL, 1, NULL, NULL}},
    {"e2e_tail_open", "… open loop (Poisson)", {ACCURACY_E2E_TAIL, 0, NULL, NULL}},
    {"throughput", "throughput (offered rates left out)", {ACCURACY_THROUGHPUT, -1, NULL, NULL}},
};

static json_t *metrics_json(const struct accuracy *accuracy, const struct report *report)
{
  json_t *metrics = json_object();
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    const struct summary summary = summarise(accuracy, is_selected, &lines[i].selection, report->errors, report->logs);
    const double covered = group_coverage(accuracy, report, &lines[i].selection);
    if (summary.count > 0 && !put(metrics, lines[i].key, summary_json(&summary, covered))) {
      json_decref(metrics);
      return NULL;
    }
  }
  return metrics;
}

static json_t *groups_json(const struct accuracy *accuracy, const struct report *report)
{
  json_t *list = json_array();
  for (size_t i = 0; i < report->group_count; i++) {
    const struct group *group = &report->groups[i];
    const struct selection one = {group->metric, -1, group->hardware, group->model};
    const struct summary summary = summarise(accuracy, is_selected, &one, report->errors, report->logs);
    if (summary.count > 0 && json_array_append_new(list, group_json(group, &summary)) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

json_t *accuracy_write_json(const struct accuracy *accuracy)
{
  json_t *document = json_object();
  struct report report;
  bool is_complete = report_init(&report, accuracy);
  is_complete = is_complete && put(document, "rows", json_integer((json_int_t)accuracy->total)) &&
                put(document, "answered", json_integer((json_int_t)accuracy->row_count)) &&
                put(document, "refused", refusals_json(accuracy)) &&
                put(document, "metrics", metrics_json(accuracy, &report)) &&
                put(document, "groups", groups_json(accuracy, &report));
  report_fini(&report);
  if (is_complete)
    return document;
  json_decref(document);
  return NULL;
}

static void write_summary_line(struct text *text, const char *name, const struct summary *summary, double of_groups)
{
  if (summary->count == 0)
    return;
  text_printf(text, "| %s | %zu | %.1f %% | %.1f %% | %.1f %% | %+.1f %% |", name, summary->count,
              100 * summary->median, 100 * summary->p90, 100 * summary->within_25, 100 * (exp(summary->bias) - 1));
  if (isnan(summary->coverage))
    text_puts(text, " | |\n");
  else
    text_printf(text, " %.1f %% | %.1f %% |\n", 100 * summary->coverage, 100 * of_groups);
}

static void write_metrics(struct text *text, const struct accuracy *accuracy, const struct report *report)
{
  text_puts(text, "| rows | n | median error | p90 | within 25 % | bias | inside the band | mean over groups |\n"
                  "|---|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    const struct summary summary = summarise(accuracy, is_selected, &lines[i].selection, report->errors, report->logs);
    write_summary_line(text, lines[i].name, &summary, group_coverage(accuracy, report, &lines[i].selection));
  }
}

static void write_groups(struct text *text, const struct accuracy *accuracy, const struct report *report)
{
  text_puts(text, "\n| hardware | model | metric | n | median error | bias |\n|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < report->group_count; i++) {
    const struct group *group = &report->groups[i];
    const struct selection one = {group->metric, -1, group->hardware, group->model};
    const struct summary summary = summarise(accuracy, is_selected, &one, report->errors, report->logs);
    if (summary.count > 0)
      text_printf(text, "| %s | %s | %s | %zu | %.1f %% | %+.1f %% |\n", group->hardware, group->model,
                  accuracy_metric_name(group->metric), summary.count, 100 * summary.median,
                  100 * (exp(summary.bias) - 1));
  }
}

char *accuracy_write_text(const struct accuracy *accuracy)
{
  struct text text = {NULL, 0, 0, false};
  struct report report;
  const bool has_room = report_init(&report, accuracy);
  size_t length;
  if (has_room) {
    text_printf(&text, "%zu rows, %zu answered (%.1f %%), %zu refused\n\n", accuracy->total, accuracy->row_count,
                accuracy->total > 0 ? 100.0 * (double)accuracy->row_count / (double)accuracy->total : 0.0,
                accuracy->refusal_count);
    write_metrics(&text, accuracy, &report);
    write_groups(&text, accuracy, &report);
    for (size_t i = 0; i < accuracy->refusal_count; i++)
      text_printf(&text, "%srefused %s: %s\n", i == 0 ? "\n" : "", accuracy->refusals[i].id,
                  accuracy->refusals[i].reason);
  }
  report_fini(&report);
  return has_room ? text_take(&text, &length) : NULL;
}

static const char *load_name(enum benchmark_load load)
{
  static const char *const names[] = {"closed", "single", "offline", "poisson"};
  return names[load];
}

char *accuracy_write_rows(const struct accuracy *accuracy)
{
  struct text text = {NULL, 0, 0, false};
  text_puts(&text, "id,metric,load,hw,model,measured,predicted,low,high,class\n");
  for (size_t i = 0; i < accuracy->row_count; i++) {
    const struct accuracy_row *row = &accuracy->rows[i];
    text_csv_field(&text, row->id);
    text_printf(&text, ",%s,%s,", accuracy_metric_name(row->metric), load_name(row->load));
    text_csv_field(&text, row->hardware);
    text_puts(&text, ",");
    text_csv_field(&text, row->model);
    text_printf(&text, ",%.10g,%.10g,", row->measured, row->predicted);
    if (row->has_band)
      text_printf(&text, "%.10g,%.10g,", row->predicted * row->band.low_ratio, row->predicted * row->band.high_ratio);
    else
      text_puts(&text, ",,");
    text_printf(&text, "%s\n", band_class_name(row->band_class));
  }
  return text_take(&text, NULL);
}
