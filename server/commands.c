/* fitd token, fitd migrate, and what the commands share. Commands that need the store open it themselves, or, when a daemon
   holds it, send the same request to the daemon's control socket. */
#include "server/addresses.h"
#include "server/commands.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/fit.h"
#include "server/client.h"
#include "server/control.h"
#include "server/deps.h"
#include "server/listener.h"
#include "server/zone.h"

#define SYSTEM_DIRECTORY "/var/lib/fitd"
#define SKETCH_MAX_BYTES (256 * 1024)

/* SIGPIPE is ignored in the whole process, because the daemon and the HTTP client need that: a reader that has seen enough
   (`| head`) is met here instead. */
int commands_end_output(int status, int failed)
{
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  if (errno == EPIPE)
    return status;
  (void)fprintf(stderr, "fitd: writing the result failed: %s\n", strerror(errno));
  return failed;
}

int commands_help(void)
{
  (void)fputs(
      "fitd: which hardware fits an inference workload, at what latency and cost.\n\n"
      "  fitd [serve] [SETTINGS]           run the service\n"
      "  fitd evaluate FILE [--json] [--depth quick|full] [--label TEXT] [--server URL | --trace FILE]\n"
      "                                    evaluate a workload sketch (FILE - reads standard input), here or on a\n"
      "                                    server (token in FITD_TOKEN). --trace: the requests (.csv, .jsonl or\n"
      "                                    .ndjson) of the trace that the sketch names. Exit 0 fit, 1 no fit,\n"
      "                                    2 not valid, 4 not available\n"
      "  fitd advise CONFIG.json [--traffic chat|rag|code|batch] [--requests-per-s RATE] [--json]\n"
      "                                    which GPUs serve a Hugging Face config, as it is, grouped, in FP8 and both\n"
      "  fitd check GATE FILE --server URL [--json]\n"
      "                                    check a sketch (or {sketch, measured}) at a gate of a server (token in\n"
      "                                    FITD_TOKEN). Exit 0 pass, 1 fail, 2 inconclusive, 3 no target, 4 no "
      "verdict\n"
      "  fitd accuracy FILE [--json | --rows] [--models DIR] [--constants FILE]\n"
      "                                    predict a table of measurements (CSV) and print the errors; --rows prints\n"
      "                                    each prediction, --models names a folder of Hugging Face configs\n"
      "                                    (org--name.json) that go before the catalogue, --constants other step\n"
      "                                    constants\n"
      "  fitd scrape URL|FILE [--json]     what is seen at an exporter, or in a page kept in a file: devices, "
      "engines,\n"
      "                                    and what is left out and why. Exit 0 read, 1 not\n"
      "  fitd token create --name NAME --scope read|evaluate|review|admin [SETTINGS]\n"
      "  fitd token list [SETTINGS]\n"
      "  fitd token revoke --name NAME [SETTINGS]\n"
      "  fitd migrate [SETTINGS]           bring the database to this version's schema\n"
      "  fitd backup FILE [SETTINGS]       copy the database, of one moment and checked, while the service goes on\n"
      "  fitd restore FILE [SETTINGS]      put a checked copy in place of the database of a stopped service; the old\n"
      "                                    one is kept beside it\n"
      "  fitd --check-config [FILE] [SETTINGS]\n"
      "                                    check the settings and exit\n"
      "  fitd --dump-config [SETTINGS]     print the settings in force as a documented file\n"
      "  fitd --version, fitd --help\n\n"
      "Settings come from the defaults, --config FILE (key = value lines), the environment (FITD_<KEY>) and flags;\n"
      "later ones are stronger. SIGTERM ends the service after running requests, SIGHUP re-reads settings and\n"
      "reopens the log.\n\n",
      stdout);
  config_help(stdout);
  return commands_end_output(EXIT_STATUS_OK, EXIT_STATUS_FAILED);
}

int commands_version(void)
{
  (void)printf("fitd %s\n", CORE_VERSION);
  return commands_end_output(EXIT_STATUS_OK, EXIT_STATUS_FAILED);
}

bool commands_take_word(const struct command_word *words, size_t count, int argc, char *const *argv, int *at)
{
  const bool is_argument = argv[*at][0] != '-' || argv[*at][1] == '\0';
  for (size_t i = 0; i < count; i++) {
    const struct command_word *word = &words[i];
    if (word->name == NULL && is_argument && *word->value == NULL)
      *word->value = argv[*at];
    else if (word->name == NULL || strcmp(argv[*at], word->name) != 0)
      continue;
    else if (word->flag != NULL)
      *word->flag = true;
    else if (*at + 1 < argc)
      *word->value = argv[++*at];
    else
      return false;
    return true;
  }
  return false;
}

int commands_refuse_word(const char *word)
{
  char buffer[64];
  const char *nearest = word[0] == '-' ? config_nearest_flag(word, buffer, sizeof buffer) : NULL;
  (void)fprintf(stderr, "fitd: \"%s\" is not known here", word);
  if (nearest != NULL)
    (void)fprintf(stderr, "; did you mean %s?", nearest);
  (void)fputs(nearest != NULL ? "\n" : "; fitd --help lists what is\n", stderr);
  return EXIT_STATUS_INVALID;
}

bool commands_load_config(struct config *config, const struct config_sources *sources, struct faults *faults,
                          bool resolves_database)
{
  config_load(config, sources, faults);
  config_print_faults(stderr, faults);
  if (resolves_database && config->database[0] == '\0')
    (void)snprintf(config->database, sizeof config->database, "%s",
                   access(SYSTEM_DIRECTORY, W_OK) == 0 ? SYSTEM_DIRECTORY "/fitd.db" : "./fitd.db");
  return faults->count == 0;
}

int commands_review_day(const struct config *config)
{
  static const char *const days[] = {"monday", "tuesday",  "wednesday", "thursday",
                                     "friday", "saturday", "sunday",    "off"};
  for (int day = 0; day < 8; day++)
    if (strcasecmp(config->review_day, days[day]) == 0)
      return day;
  return -1;
}

/* What a value alone does not tell. */
static bool checks_meaning(const struct config *config)
{
  struct error e = {.code = ERR_OK};
  struct addresses allowed;
  struct zone *zone = NULL;
  enum err err = addresses_parse(&allowed, config->scrape_allow, &e);
  if (err == ERR_OK && config->time_zone[0] != '\0')
    err = zone_open(&zone, config->time_zone, &e);
  zone_close(zone);
  if (err != ERR_OK)
    (void)fprintf(stderr, "fitd: %s\n", e.message);
  return err == ERR_OK;
}

int commands_settings(bool *runs, struct config *config, struct config_sources *sources, int argc, char *const *argv)
{
  struct faults faults = {.count = 0};
  struct error e = {.code = ERR_OK};
  char host[256], port[8];
  bool dumps = false, checks = false;
  int i;
  *runs = false;
  for (i = 0; i < argc; i++) {
    if (strcmp(argv[i], "--dump-config") == 0)
      dumps = true;
    else if (strcmp(argv[i], "--check-config") == 0) {
      checks = true;
      if (i + 1 < argc && argv[i + 1][0] != '-')
        sources->file = argv[++i];
    } else if (!config_take_flag(sources, argc, argv, &i, &faults))
      return commands_refuse_word(argv[i]);
  }
  if (!commands_load_config(config, sources, &faults, !dumps))
    return EXIT_STATUS_INVALID;
  if (listener_parse(host, port, config->listen, &e) != ERR_OK) {
    (void)fprintf(stderr, "fitd: %s\n", e.message);
    return EXIT_STATUS_INVALID;
  }
  if (commands_review_day(config) < 0) {
    (void)fprintf(stderr, "fitd: review_day is \"%s\"; monday … sunday or off is expected\n", config->review_day);
    return EXIT_STATUS_INVALID;
  }
  if (!checks_meaning(config))
    return EXIT_STATUS_INVALID;
  if (dumps)
    config_dump(stdout, config);
  else if (checks)
    (void)puts("the settings are valid");
  *runs = !dumps && !checks;
  return commands_end_output(EXIT_STATUS_OK, EXIT_STATUS_FAILED);
}

char *commands_read_sketch(const char *path, size_t *length)
{
  return commands_read_file(path, SKETCH_MAX_BYTES, length);
}

char *commands_read_file(const char *path, size_t max_bytes, size_t *length)
{
  bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "re");
  char *bytes = malloc(max_bytes + 1);
  bool ok = file != NULL && bytes != NULL;
  if (file == NULL) {
    (void)fprintf(stderr, "fitd: %s can not be read: %s\n", path, strerror(errno));
  } else if (bytes != NULL) {
    *length = fread(bytes, 1, max_bytes + 1, file);
    if (ferror(file)) {
      (void)fprintf(stderr, "fitd: reading %s failed: %s\n", path, strerror(errno));
      ok = false;
    } else if (*length > max_bytes) {
      (void)fprintf(stderr, "fitd: %s is larger than the limit of %zu kB\n", path, max_bytes / 1024);
      ok = false;
    }
  }
  if (file != NULL && !is_stdin)
    (void)fclose(file);
  if (!ok) {
    free(bytes);
    bytes = NULL;
  }
  return bytes;
}

unsigned commands_cores(void)
{
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (unsigned)count : 1;
}

static int complain(const struct error *e)
{
  (void)fprintf(stderr, "fitd: %s\n", e->message);
  return EXIT_STATUS_FAILED;
}

static enum err open_store(struct deps *deps, const struct config *config, struct error *e)
{
  const struct store_options options = {.path = config->database, .readers = 1, .log = deps_log, .log_cls = deps};
  return store_open(&deps->store, &options, e);
}

static int complain_of_database(const struct config *config, const struct error *e)
{
  (void)fprintf(stderr, "fitd: database %s: %s\n", config->database, e->message);
  return EXIT_STATUS_FAILED;
}

/* ---- One request to the api, wherever the store is ---- */

struct request {
  const char *method, *path;
  const char *body; /* NULL = none */
};

static const char *header(const void *cls, const char *name)
{
  (void)cls;
  return strcmp(name, "Content-Type") == 0 ? "application/json" : NULL;
}

static size_t no_query(const void *cls, const char *key, const char **values, size_t max)
{
  (void)cls;
  (void)key;
  (void)values;
  (void)max;
  return 0;
}

static void no_query_keys(const void *cls, void (*each)(void *each_cls, const char *key), void *each_cls)
{
  (void)cls;
  (void)each;
  (void)each_cls;
}

static enum err send_here(struct client_answer *out, struct deps *deps, const struct config *config,
                          const struct request *wanted, struct error *e)
{
  const struct api_caller caller = {.scope = SCOPE_ADMIN, .name = ""};
  const struct api_request request = {.method = wanted->method,
                                      .path = wanted->path,
                                      .query_text = "",
                                      .request_id = "command",
                                      .caller = &caller,
                                      .body = wanted->body,
                                      .body_len = wanted->body != NULL ? strlen(wanted->body) : 0,
                                      .header = header,
                                      .query = no_query,
                                      .query_keys = no_query_keys,
                                      .cls = NULL};
  struct api_response response = {.status = 0};
  struct api_deps api_deps;
  struct api *api = NULL;
  enum err err;
  deps_fill(&api_deps, deps, (size_t)config->evaluation_memory << 20);
  err = api_open(&api, &api_deps, e);
  if (err != ERR_OK)
    return err;
  api_handle(api, &request, &response);
  api_close(api);
  out->status = (long)response.status;
  out->length = response.bytes_len;
  out->bytes = malloc(response.bytes_len + 1);
  if (out->bytes == NULL)
    err = error_set(e, ERR_NOMEM, "", "no memory for the answer");
  else if (response.bytes_len > 0)
    memcpy(out->bytes, response.bytes, response.bytes_len);
  if (out->bytes != NULL)
    out->bytes[response.bytes_len] = '\0';
  api_response_fini(&response);
  return err;
}

static enum err send_to_daemon(struct client_answer *out, const struct config *config, const struct request *wanted,
                               struct error *e)
{
  char socket_path[CONFIG_TEXT_SIZE + 8], url[256];
  const struct client_request request = {.method = wanted->method,
                                         .url = url,
                                         .unix_socket = socket_path,
                                         .token = NULL,
                                         .body = wanted->body,
                                         .body_len = wanted->body != NULL ? strlen(wanted->body) : 0};
  enum err err = control_path(socket_path, sizeof socket_path, config->database, e);
  (void)snprintf(url, sizeof url, "http://localhost%s", wanted->path);
  return err == ERR_OK ? client_send(out, &request, e) : err;
}

static enum err send_request(struct client_answer *out, const struct config *config, const struct request *wanted,
                             struct error *e)
{
  struct deps deps = {.store = NULL, .log = NULL};
  enum err err = open_store(&deps, config, e);
  *out = (struct client_answer){0, NULL, 0};
  if (err == ERR_BUSY)
    return send_to_daemon(out, config, wanted, e);
  if (err != ERR_OK)
    return err;
  err = send_here(out, &deps, config, wanted, e);
  store_close(deps.store);
  return err;
}

/* ---- fitd token ---- */

struct token_options {
  const char *action, *name, *scope;
};

static int print_problem(const struct client_answer *answer)
{
  json_t *problem = json_loads(answer->bytes, 0, NULL);
  const char *detail = json_string_value(json_object_get(problem, "detail"));
  (void)fprintf(stderr, "fitd: %s (status %ld)\n", detail != NULL ? detail : "the request was refused", answer->status);
  json_decref(problem);
  return EXIT_STATUS_FAILED;
}

static const char *text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "-";
}

static int print_tokens(const json_t *document)
{
  size_t i;
  const json_t *items = json_object_get(document, "items"), *row;
  (void)printf("%-24s %-10s %-26s %s\n", "NAME", "SCOPE", "CREATED", "REVOKED");
  json_array_foreach(items, i, row)(void) printf("%-24s %-10s %-26s %s\n", text_of(row, "name"), text_of(row, "scope"),
                                                 text_of(row, "created_at"), text_of(row, "revoked_at"));
  if (json_is_string(json_object_get(document, "next_cursor")))
    (void)fputs("fitd: there are more tokens; GET /v1/tokens pages through them\n", stderr);
  return commands_end_output(EXIT_STATUS_OK, EXIT_STATUS_FAILED);
}

/* The token alone goes to standard output, so that a script can take it. */
static int print_new_token(const json_t *document, const struct token_options *options)
{
  (void)fprintf(stderr, "fitd: token %s with scope %s; it is not shown again\n", options->name, options->scope);
  return puts(text_of(document, "token")) < 0 ? EXIT_STATUS_FAILED : EXIT_STATUS_OK;
}

static int run_token(const struct config *config, const struct token_options *options, const struct request *request)
{
  struct error e = {.code = ERR_OK};
  struct client_answer answer;
  json_t *document;
  int status = EXIT_STATUS_OK;
  if (send_request(&answer, config, request, &e) != ERR_OK)
    return complain(&e);
  document = json_loads(answer.bytes, 0, NULL);
  if (answer.status < 200 || answer.status > 299)
    status = print_problem(&answer);
  else if (strcmp(options->action, "list") == 0)
    status = print_tokens(document);
  else if (strcmp(options->action, "create") == 0)
    status = print_new_token(document, options);
  json_decref(document);
  client_answer_fini(&answer);
  return status;
}

static int token_action(const struct config *config, const struct token_options *options)
{
  struct request request = {.method = "GET", .path = "/v1/tokens", .body = NULL};
  char path[160];
  char *body = NULL;
  json_t *json;
  int status;
  assert(options->action != NULL);
  if (strcmp(options->action, "create") == 0) {
    json = json_pack("{s:s,s:s}", "name", options->name, "scope", options->scope);
    request.method = "POST";
    request.body = body = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (body == NULL) {
      (void)fputs("fitd: the name is not UTF-8\n", stderr);
      return EXIT_STATUS_INVALID;
    }
  } else if (strcmp(options->action, "revoke") == 0) {
    assert(options->name != NULL);
    request.method = "DELETE";
    request.path = path;
    if (options->name[strspn(options->name, "abcdefghijklmnopqrstuvwxyz0123456789._-")] != '\0' ||
        (size_t)snprintf(path, sizeof path, "/v1/tokens/%s", options->name) >= sizeof path) {
      (void)fprintf(stderr, "fitd: \"%s\" is not the name of a token\n", options->name);
      return EXIT_STATUS_INVALID;
    }
  }
  status = run_token(config, options, &request);
  free(body);
  return status;
}

static bool check_token_options(const struct token_options *options)
{
  const char *action = options->action;
  bool creates = action != NULL && strcmp(action, "create") == 0,
       revokes = action != NULL && strcmp(action, "revoke") == 0;
  if (!creates && !revokes && (action == NULL || strcmp(action, "list") != 0))
    (void)fputs("fitd: token create, token list or token revoke is expected\n", stderr);
  else if ((creates || revokes) && options->name == NULL)
    (void)fprintf(stderr, "fitd: token %s needs --name NAME\n", action);
  else if (creates && options->scope == NULL)
    (void)fputs("fitd: token create needs --scope read|evaluate|review|admin\n", stderr);
  else
    return true;
  return false;
}

int command_token(int argc, char *const *argv)
{
  struct token_options options = {NULL, NULL, NULL};
  struct config_sources sources = {.file = NULL, .environment = environ};
  struct faults faults = {.count = 0};
  struct config config;
  const struct command_word words[] = {{.value = &options.action},
                                       {.name = "--name", .value = &options.name},
                                       {.name = "--scope", .value = &options.scope}};
  for (int i = 0; i < argc; i++)
    if (!commands_take_word(words, sizeof words / sizeof words[0], argc, argv, &i) &&
        !config_take_flag(&sources, argc, argv, &i, &faults))
      return commands_refuse_word(argv[i]);
  if (!check_token_options(&options) || !commands_load_config(&config, &sources, &faults, true))
    return EXIT_STATUS_INVALID;
  return token_action(&config, &options);
}

/* ---- fitd migrate ---- */

int command_migrate(int argc, char *const *argv)
{
  struct config_sources sources = {.file = NULL, .environment = environ};
  struct faults faults = {.count = 0};
  struct config config;
  struct deps deps = {.store = NULL, .log = NULL};
  struct error e = {.code = ERR_OK};
  int i;
  for (i = 0; i < argc; i++)
    if (!config_take_flag(&sources, argc, argv, &i, &faults))
      return commands_refuse_word(argv[i]);
  if (!commands_load_config(&config, &sources, &faults, true))
    return EXIT_STATUS_INVALID;
  if (open_store(&deps, &config, &e) != ERR_OK)
    return complain_of_database(&config, &e);
  (void)printf("%s is at schema version %d\n", config.database, store_schema_version(deps.store));
  store_close(deps.store);
  return ferror(stdout) ? EXIT_STATUS_FAILED : EXIT_STATUS_OK;
}
