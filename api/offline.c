/* One evaluation without a server or a store, against the built-in catalogue: what `fitd evaluate FILE` runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/evaluation.h"
#include "api/history.h"
#include "api/problem.h"
#include "api/read.h"
#include "api/trace.h"

#define INSTANCE "/v1/evaluations"

/* The same problem document that the server would answer. */
static enum err problem(char **json, const struct error *e, const struct faults *faults, struct error *out)
{
  struct api_response response = {.status = 0};
  problem_of_error(&response, ERR_INVALID, e, faults, "offline", INSTANCE);
  *json = response.bytes;
  if (*json == NULL)
    return error_set(out, ERR_NOMEM, "", "not enough memory for the problem document");
  return ERR_INVALID;
}

static enum err plain_problem(char **json, unsigned status, const char *slug, const struct error *e, struct error *out)
{
  struct api_response response = {.status = 0};
  api_problem(&response, status, slug, "offline", INSTANCE, "%s", e->message);
  *json = response.bytes;
  if (*json == NULL)
    return error_set(out, ERR_NOMEM, "", "not enough memory for the problem document");
  return ERR_INVALID;
}

static int word_index(const char *word, const char *const *words)
{
  for (int i = 0; words[i] != NULL; i++)
    if (strcmp(words[i], word) == 0)
      return i;
  return -1;
}

static enum err run(char **json, bool *fits, const struct sketch *sketch, const struct api_offline *asked,
                    const struct api_deps *deps, struct faults *faults, struct error *e)
{
  static const char *const depths[] = {"full", "quick", NULL}; /* order of enum fit_depth */
  const int index = asked->depth != NULL ? word_index(asked->depth, depths) : FIT_FULL;
  const struct evaluation_options options = {.label = asked->label,
                                             .depth = index == FIT_QUICK ? FIT_QUICK : FIT_FULL,
                                             .depth_is_given = asked->depth != NULL,
                                             .now_ms = deps->now_ms(deps->cls),
                                             .arena_bytes = deps->arena_bytes,
                                             .deps = deps};
  struct evaluation evaluation = {.head = NULL};
  struct evaluation_texts texts = {NULL, NULL, 0};
  enum err rc = evaluation_run(&evaluation, sketch, &options, e);
  if (rc == ERR_INVALID)
    faults_add(faults, FAULT_UNSUPPORTED, e->pointer, NULL, "%s", e->message);
  if (rc == ERR_OK)
    rc = evaluation_texts_make(&texts, &evaluation, e);
  if (rc == ERR_OK) {
    *fits = evaluation.fits;
    *json = evaluation_splice(NULL, texts.head, texts.cards, texts.count);
    if (*json == NULL)
      rc = error_set(e, ERR_NOMEM, "", "not enough memory for the answer");
  }
  evaluation_texts_fini(&texts);
  evaluation_fini(&evaluation);
  return rc;
}

/* The faults that the server would find in the query. */
static void check_options(const char *depth, const char *label, struct faults *faults)
{
  static const char *const depths[] = {"full", "quick", NULL};
  char text[65];
  const struct read_field field = {.kind = READ_TEXT, .to = text, .size = sizeof text};
  json_t *value;
  if (depth != NULL && word_index(depth, depths) < 0)
    faults_add(faults, FAULT_UNKNOWN_VALUE, "?depth", read_nearest(depth, depths),
               "\"%.48s\" is not known; one of full or quick is expected", depth);
  if (label == NULL)
    return;
  value = json_string(label);
  if (value != NULL)
    read_value(value, "?label", &field, faults);
  else
    faults_add(faults, FAULT_WRONG_TYPE, "?label", NULL, "is not UTF-8 text");
  json_decref(value);
}

/* ---- The trace ---- */

/* By the ending of the name; false: it is none of a trace's. */
static bool choose_carrier(enum trace_carrier *carrier, const char *file)
{
  static const char *const endings[] = {".csv", ".jsonl", ".ndjson"};
  const char *ending = strrchr(file, '.');
  for (size_t i = 0; ending != NULL && i < sizeof endings / sizeof endings[0]; i++)
    if (strcasecmp(ending, endings[i]) == 0) {
      *carrier = i == 0 ? TRACE_CSV : TRACE_JSON_LINES;
      return true;
    }
  return false;
}

/* What was done to the rows, which the service says of the stored trace, is said of the evaluation. */
static enum err note_assumptions(struct sketch *sketch, const struct trace *trace, struct error *e)
{
  const char *name = sketch->workload.traffic.trace;
  const json_t *sentence;
  size_t i;
  json_array_foreach(trace->assumptions, i, sentence)
  {
    json_t *note = json_sprintf("trace %s: %s", name, json_string_value(sentence));
    if (note == NULL || json_array_append_new(sketch->notes, note) != 0)
      return error_set(e, ERR_NOMEM, "", "not enough memory to describe the trace");
  }
  return ERR_OK;
}

/* The requests of the file become those that the sketch replays. A file without a trace in the sketch, and the other way
   round, is a fault. */
static enum err take_trace(struct sketch *sketch, const struct api_offline *asked, struct faults *faults,
                           struct error *e)
{
  const bool names_trace = sketch->workload.traffic.load == LOAD_TRACE;
  enum trace_carrier carrier;
  struct trace trace;
  enum err rc;
  if (asked->trace_file == NULL && names_trace)
    faults_add(faults, FAULT_UNSUPPORTED, "/traffic/trace", NULL,
               "the requests of \"%s\" are with the service that stores them: give their file with --trace FILE",
               sketch->workload.traffic.trace);
  else if (asked->trace_file != NULL && !names_trace)
    faults_add(faults, FAULT_CONFLICT, "/traffic", NULL,
               "--trace %.60s was given, but the sketch replays no trace: \"trace\": \"NAME\" stands in the place of "
               "requests_per_s or concurrency",
               asked->trace_file);
  else if (asked->trace_file != NULL && !choose_carrier(&carrier, asked->trace_file))
    faults_add(faults, FAULT_UNSUPPORTED, "--trace", NULL, "%.120s ends in none of .csv, .jsonl, .ndjson",
               asked->trace_file);
  else if (asked->trace_file != NULL) {
    rc = trace_read(&trace, carrier, asked->trace, asked->trace_len, faults, e);
    if (rc == ERR_OK)
      rc = note_assumptions(sketch, &trace, e);
    if (rc == ERR_OK)
      rc = trace_replay_set(sketch, &trace.requests, trace.digest, e);
    trace_fini(&trace);
    return rc;
  }
  return ERR_OK;
}

/* ---- The whole ---- */

static enum err evaluate_body(char **json, bool *fits, const json_t *body, const struct api_offline *asked,
                              const struct api_deps *deps, struct error *e)
{
  struct catalogue *catalogue = NULL;
  const struct catalogue_snapshot *snapshot = NULL;
  struct faults faults = {.count = 0};
  struct sketch sketch;
  enum err rc = catalogue_open(&catalogue, NULL, e);
  if (rc != ERR_OK)
    return rc;
  rc = catalogue_acquire(&snapshot, catalogue, e);
  if (rc != ERR_OK)
    goto out;
  check_options(asked->depth, asked->label, &faults);
  sketch_read(&sketch, snapshot, body, "", &faults);
  if (faults.count == 0)
    rc = take_trace(&sketch, asked, &faults, e);
  if (rc == ERR_OK && faults.count == 0)
    rc = run(json, fits, &sketch, asked, deps, &faults, e);
  else if (rc == ERR_LIMIT)
    rc = plain_problem(json, 413, "payload-too-large", e, e);
  sketch_fini(&sketch);
  if (faults.count > 0)
    rc = problem(json, e, &faults, e);
out:
  if (snapshot != NULL)
    catalogue_release(catalogue, snapshot);
  catalogue_close(catalogue);
  return rc;
}

enum err api_evaluate_offline(char **json, bool *fits, const struct api_offline *asked, const struct api_deps *deps,
                              struct error *e)
{
  struct error seen = {.code = ERR_OK};
  json_t *parsed = NULL;
  int line, column;
  enum err rc;
  *json = NULL;
  *fits = false;
  rc = read_json(&parsed, asked->body, asked->body_len, &line, &column, &seen);
  if (rc == ERR_INVALID)
    return plain_problem(json, 400, "malformed-body", &seen, e);
  if (rc != ERR_OK)
    return error_set(e, rc, seen.pointer, "%s", seen.message);
  rc = evaluate_body(json, fits, parsed, asked, deps, e);
  json_decref(parsed);
  return rc;
}
