/* fitd evaluate: one sketch, evaluated in this process or by a server; a table for people, the answer's JSON for
   programs, and an exit status for pipelines. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "api/api.h"
#include "server/client.h"
#include "server/commands.h"
#include "server/deps.h"

#define WIDTH_DEFAULT 120

struct options {
  const char *file, *depth, *label, *server, *trace;
  bool is_json;
};

/* Answer of either way: `status` is what the command returns when nothing else goes wrong. */
struct result {
  char *json; /* evaluation or problem document; NULL = none */
  int status;
};

/* ---- Evaluation ---- */

static void evaluate_offline(struct result *result, const struct api_offline *asked, const struct config *config)
{
  struct deps deps = {.store = NULL, .log = NULL};
  struct error e = {.code = ERR_OK, .message = ""};
  struct api_deps api_deps;
  bool fits = false;
  enum err err;
  err = workers_open(&deps.workers, commands_cores() - 1, 0, 0, &e); /* beside this thread */
  deps_fill(&api_deps, &deps, (size_t)config->evaluation_memory << 20);
  if (err == ERR_OK)
    err = api_evaluate_offline(&result->json, &fits, asked, &api_deps, &e);
  workers_close(deps.workers);
  if (err == ERR_OK) {
    result->status = fits ? EXIT_STATUS_OK : EXIT_STATUS_FAILED;
    return;
  }
  result->status = err == ERR_INVALID ? EXIT_STATUS_INVALID : EXIT_STATUS_UNAVAILABLE;
  if (result->json == NULL)
    (void)fprintf(stderr, "fitd: %s\n", e.message[0] != '\0' ? e.message : error_text(err));
}

static void evaluate_here(struct result *result, const struct options *options, const struct config *config,
                          const char *sketch, size_t length)
{
  struct api_offline asked = {.body = sketch,
                              .body_len = length,
                              .depth = options->depth,
                              .label = options->label,
                              .trace_file = options->trace};
  char *trace = NULL;
  if (options->trace != NULL) {
    trace = commands_read_file(options->trace, API_TRACE_MAX_BYTES, &asked.trace_len);
    if (trace == NULL) {
      result->status = EXIT_STATUS_INVALID;
      return;
    }
    asked.trace = trace;
  }
  evaluate_offline(result, &asked, config);
  free(trace);
}

static char *server_url(const struct options *options)
{
  char *label = client_escape(options->label != NULL ? options->label : "");
  char *depth = client_escape(options->depth != NULL ? options->depth : "");
  size_t base = strlen(options->server), size;
  char *url = NULL;
  while (base > 0 && options->server[base - 1] == '/')
    base--;
  if (label != NULL && depth != NULL) {
    size = base + strlen(label) + strlen(depth) + 64;
    url = malloc(size);
    if (url != NULL)
      (void)snprintf(url, size, "%.*s/v1/evaluations%s%s%s%s%s", (int)base, options->server,
                     *label != '\0' || *depth != '\0' ? "?" : "", *label != '\0' ? "label=" : "", label,
                     *depth == '\0'   ? ""
                     : *label != '\0' ? "&depth="
                                      : "depth=",
                     depth);
  }
  free(depth);
  free(label);
  return url;
}

static bool document_fits(const char *json)
{
  json_t *document = json_loads(json, 0, NULL);
  const json_t *card;
  size_t i;
  bool fits = false;
  json_array_foreach(json_object_get(document, "scorecards"), i, card)
  {
    const char *verdict = json_string_value(json_object_get(card, "verdict"));
    fits |= verdict != NULL && strcmp(verdict, "fit") == 0;
  }
  json_decref(document);
  return fits;
}

/* A sketch that was judged not valid is the caller's to mend; a refusal of any other kind leaves no verdict. */
static int status_of(const struct client_answer *answer)
{
  switch (answer->status) {
  case 200:
  case 201: return document_fits(answer->bytes) ? EXIT_STATUS_OK : EXIT_STATUS_FAILED;
  case 400:
  case 413:
  case 415:
  case 422: return EXIT_STATUS_INVALID;
  default: return EXIT_STATUS_UNAVAILABLE;
  }
}

static void evaluate_there(struct result *result, const struct options *options, const char *sketch, size_t length)
{
  char *url = server_url(options);
  const char *token = getenv("FITD_TOKEN");
  struct client_request request = {.method = "POST",
                                   .url = url,
                                   .unix_socket = NULL,
                                   .body = sketch,
                                   .body_len = length,
                                   .token = token != NULL && token[0] != '\0' ? token : NULL};
  struct client_answer answer;
  struct error e = {.code = ERR_OK, .message = ""};
  enum err err = url != NULL ? client_send(&answer, &request, &e) : error_set(&e, ERR_NOMEM, "", "no memory");
  free(url);
  if (err != ERR_OK) {
    (void)fprintf(stderr, "fitd: %s\n", e.message);
    result->status = err == ERR_INVALID ? EXIT_STATUS_INVALID : EXIT_STATUS_UNAVAILABLE;
    return;
  }
  result->status = status_of(&answer);
  result->json = answer.bytes; /* taken over */
}

/* ---- Output ---- */

static unsigned terminal_width(void)
{
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : WIDTH_DEFAULT;
}

static void print_fault(const json_t *fault)
{
  const char *pointer = json_string_value(json_object_get(fault, "pointer"));
  const char *detail = json_string_value(json_object_get(fault, "detail"));
  const char *suggestion = json_string_value(json_object_get(fault, "suggestion"));
  (void)fprintf(stderr, "  %s: %s", pointer != NULL && pointer[0] != '\0' ? pointer : "(the whole document)",
                detail != NULL ? detail : "");
  if (suggestion != NULL)
    (void)fprintf(stderr, "; did you mean \"%s\"?", suggestion);
  (void)fputc('\n', stderr);
}

void commands_print_faults(const char *json)
{
  json_t *problem = json_loads(json, 0, NULL);
  const char *detail = json_string_value(json_object_get(problem, "detail"));
  const json_t *fault;
  size_t i;
  (void)fprintf(stderr, "fitd: %s\n", detail != NULL ? detail : "the answer of the server is no evaluation");
  json_array_foreach(json_object_get(problem, "errors"), i, fault) print_fault(fault);
  json_decref(problem);
}

static int print_table(const struct result *result)
{
  struct error e = {.code = ERR_OK, .message = ""};
  char *text = NULL;
  if (api_evaluation_text(&text, result->json, terminal_width(), &e) != ERR_OK) {
    (void)fprintf(stderr, "fitd: %s\n", e.message);
    return EXIT_STATUS_UNAVAILABLE;
  }
  (void)fputs(text, stdout);
  free(text);
  return result->status;
}

static int print_result(const struct result *result, bool is_json)
{
  int status = result->status;
  if (result->json == NULL)
    return status;
  if (is_json)
    (void)puts(result->json);
  if (status != EXIT_STATUS_OK && status != EXIT_STATUS_FAILED)
    commands_print_faults(result->json);
  else if (!is_json)
    status = print_table(result);
  return commands_end_output(status, EXIT_STATUS_UNAVAILABLE);
}

/* ---- The command ---- */

int command_evaluate(int argc, char *const *argv)
{
  struct options options = {.file = NULL};
  struct config_sources sources = {.file = NULL, .environment = environ};
  struct faults faults = {.count = 0};
  struct config config;
  struct result result = {.json = NULL, .status = EXIT_STATUS_UNAVAILABLE};
  size_t length = 0;
  char *sketch;
  int status;
  const struct command_word words[] = {{.value = &options.file},
                                       {.name = "--depth", .value = &options.depth},
                                       {.name = "--label", .value = &options.label},
                                       {.name = "--server", .value = &options.server},
                                       {.name = "--trace", .value = &options.trace},
                                       {.name = "--json", .flag = &options.is_json}};
  for (int i = 0; i < argc; i++)
    if (!commands_take_word(words, sizeof words / sizeof words[0], argc, argv, &i) &&
        !config_take_flag(&sources, argc, argv, &i, &faults))
      return commands_refuse_word(argv[i]);
  if (options.file == NULL) {
    (void)fputs("fitd: evaluate needs a FILE, or - for standard input\n", stderr);
    return EXIT_STATUS_INVALID;
  }
  if (options.trace != NULL && options.server != NULL) {
    (void)fputs("fitd: --trace is for evaluations without a server: put the trace there first (PUT "
                "/v1/traces/NAME) and name it in the sketch\n",
                stderr);
    return EXIT_STATUS_INVALID;
  }
  if (!commands_load_config(&config, &sources, &faults, false))
    return EXIT_STATUS_INVALID;
  sketch = commands_read_sketch(options.file, &length);
  if (sketch == NULL)
    return EXIT_STATUS_INVALID;
  if (options.server != NULL)
    evaluate_there(&result, &options, sketch, length);
  else
    evaluate_here(&result, &options, &config, sketch, length);
  free(sketch);
  status = print_result(&result, options.is_json);
  free(result.json);
  return status;
}
