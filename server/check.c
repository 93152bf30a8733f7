/* fitd check: one sketch against a gate of a server; reasons for people, the answer's JSON for programs, and the verdict as
   exit status for pipelines. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/client.h"
#include "server/commands.h"

struct options {
  const char *gate, *file, *server;
  bool is_json;
};

/* ---- Output ---- */

static const char *text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "-";
}

static void print_value(const char *before, const json_t *value)
{
  char *text = value == NULL || json_is_null(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
  (void)printf("%s%s", before, text != NULL ? text : "open");
  free(text);
}

static void print_reasons(const json_t *check)
{
  const json_t *reason;
  size_t i;
  json_array_foreach(json_object_get(check, "reasons"), i, reason)
  {
    const char *profile = json_string_value(json_object_get(reason, "profile"));
    (void)printf("  %s%s%s%s%s\n", text_of(reason, "message"), profile != NULL ? " [" : "",
                 profile != NULL ? profile : "", profile != NULL ? "]" : "",
                 json_is_true(json_object_get(reason, "waived")) ? " (waived)" : "");
  }
}

static void print_undecided(const json_t *check)
{
  const json_t *change;
  size_t i;
  json_array_foreach(json_object_get(check, "undecided_changes"), i, change)
  {
    (void)printf("  turned without a decision: %s (%s)", text_of(change, "knob"), text_of(change, "pointer"));
    print_value(" from ", json_object_get(change, "from"));
    print_value(" to ", json_object_get(change, "to"));
    (void)printf(", owner %s\n", text_of(change, "owner"));
  }
}

static void print_waivers(const json_t *check)
{
  const json_t *waiver;
  size_t i;
  json_array_foreach(json_object_get(check, "waivers"), i, waiver)(void) printf(
      "  waiver%s: %s by %s until %s: %s\n", json_is_true(json_object_get(waiver, "used")) ? " used" : "",
      text_of(waiver, "metric"), text_of(waiver, "by"), text_of(waiver, "expires_at"), text_of(waiver, "rationale"));
}

static void print_check(const json_t *check)
{
  (void)printf("%s: gate %s, workload %s\n", text_of(check, "verdict"), text_of(check, "gate"),
               text_of(check, "workload"));
  print_reasons(check);
  print_undecided(check);
  print_waivers(check);
  (void)printf("  scorecard %s, baseline %s\n", text_of(check, "scorecard"), text_of(check, "baseline_scorecard"));
}

/* No verdict was reached; a pipeline must not take that for one. */
static int print_problem(const struct client_answer *answer)
{
  json_t *problem = json_loads(answer->bytes, 0, NULL);
  const char *detail = json_string_value(json_object_get(problem, "detail"));
  const json_t *fault;
  size_t i;
  (void)fprintf(stderr, "fitd: %s (status %ld)\n", detail != NULL ? detail : "the answer of the server is no check",
                answer->status);
  json_array_foreach(json_object_get(problem, "errors"), i, fault)(void)
      fprintf(stderr, "  %s: %s\n", text_of(fault, "pointer"), text_of(fault, "detail"));
  json_decref(problem);
  return EXIT_STATUS_UNAVAILABLE;
}

static int print_answer(const struct client_answer *answer, bool is_json)
{
  json_t *check = answer->status == 201 ? json_loads(answer->bytes, 0, NULL) : NULL;
  const json_t *code = json_object_get(check, "exit_code");
  int status = EXIT_STATUS_UNAVAILABLE;
  if (!json_is_integer(code) || json_integer_value(code) < 0 || json_integer_value(code) > 3) {
    json_decref(check);
    return print_problem(answer);
  }
  status = (int)json_integer_value(code);
  if (is_json)
    (void)puts(answer->bytes);
  else
    print_check(check);
  json_decref(check);
  return commands_end_output(status, EXIT_STATUS_UNAVAILABLE);
}

/* ---- The command ---- */

static char *check_url(const struct options *options)
{
  char *gate = client_escape(options->gate), *url = NULL;
  size_t base = strlen(options->server), size;
  while (base > 0 && options->server[base - 1] == '/')
    base--;
  if (gate != NULL) {
    size = base + strlen(gate) + 32;
    url = malloc(size);
    if (url != NULL)
      (void)snprintf(url, size, "%.*s/v1/gates/%s/checks", (int)base, options->server, gate);
  }
  free(gate);
  return url;
}

static int check(const struct options *options, const char *sketch, size_t length)
{
  const char *token = getenv("FITD_TOKEN");
  char *url = check_url(options);
  const struct client_request request = {.method = "POST",
                                         .url = url,
                                         .body = sketch,
                                         .body_len = length,
                                         .token = token != NULL && token[0] != '\0' ? token : NULL};
  struct client_answer answer;
  struct error e = {.code = ERR_OK, .message = ""};
  const enum err err = url != NULL ? client_send(&answer, &request, &e) : error_set(&e, ERR_NOMEM, "", "no memory");
  int status;
  free(url);
  if (err != ERR_OK) {
    (void)fprintf(stderr, "fitd: %s\n", e.message);
    return EXIT_STATUS_UNAVAILABLE;
  }
  status = print_answer(&answer, options->is_json);
  client_answer_fini(&answer);
  return status;
}

int command_check(int argc, char *const *argv)
{
  struct options options = {.gate = NULL};
  size_t length = 0;
  char *sketch;
  int status;
  const struct command_word words[] = {{.value = &options.gate},
                                       {.value = &options.file},
                                       {.name = "--server", .value = &options.server},
                                       {.name = "--json", .flag = &options.is_json}};
  for (int i = 0; i < argc; i++)
    if (!commands_take_word(words, sizeof words / sizeof words[0], argc, argv, &i)) {
      (void)commands_refuse_word(argv[i]);
      return EXIT_STATUS_UNAVAILABLE; /* 2 would be the verdict "inconclusive" */
    }
  if (options.file == NULL || options.server == NULL) {
    (void)fputs("fitd: check needs a GATE, a FILE (or - for standard input) and --server URL\n", stderr);
    return EXIT_STATUS_UNAVAILABLE;
  }
  sketch = commands_read_sketch(options.file, &length);
  if (sketch == NULL)
    return EXIT_STATUS_UNAVAILABLE;
  status = check(&options, sketch, length);
  free(sketch);
  return status;
}
