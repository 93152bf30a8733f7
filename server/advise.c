/* fitd advise: a bare Hugging Face config in, one screen out: which GPUs, how many, what they cost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "server/commands.h"
#include "server/deps.h"

struct options {
  const char *file, *traffic, *requests_per_s;
  bool is_json;
};

static int print_screen(const char *json)
{
  struct error e = {.code = ERR_OK, .message = ""};
  char *text = NULL;
  if (api_advise_text(&text, json, &e) != ERR_OK) {
    (void)fprintf(stderr, "fitd: %s\n", e.message);
    return EXIT_STATUS_UNAVAILABLE;
  }
  (void)fputs(text, stdout);
  free(text);
  return EXIT_STATUS_OK;
}

static int advise(const struct options *options, const struct config *config, const char *body, size_t length)
{
  struct deps deps = {.store = NULL, .log = NULL};
  struct error e = {.code = ERR_OK, .message = ""};
  struct api_deps api_deps;
  char *json = NULL;
  int status = EXIT_STATUS_OK;
  enum err err;
  deps_fill(&api_deps, &deps, (size_t)config->evaluation_memory << 20);
  err = api_advise_offline(&json, body, length, options->traffic, options->requests_per_s, &api_deps, &e);
  if (err != ERR_OK)
    status = err == ERR_INVALID ? EXIT_STATUS_INVALID : EXIT_STATUS_UNAVAILABLE;
  if (json == NULL)
    (void)fprintf(stderr, "fitd: %s\n", e.message[0] != '\0' ? e.message : error_text(err));
  else if (options->is_json)
    (void)puts(json);
  else if (err == ERR_OK)
    status = print_screen(json);
  if (json != NULL && err != ERR_OK)
    commands_print_faults(json);
  free(json);
  return commands_end_output(status, EXIT_STATUS_UNAVAILABLE);
}

int command_advise(int argc, char *const *argv)
{
  struct options options = {.file = NULL};
  struct config_sources sources = {.file = NULL, .environment = environ};
  struct faults faults = {.count = 0};
  struct config config;
  size_t length = 0;
  char *body;
  int status;
  const struct command_word words[] = {{.value = &options.file},
                                       {.name = "--traffic", .value = &options.traffic},
                                       {.name = "--requests-per-s", .value = &options.requests_per_s},
                                       {.name = "--json", .flag = &options.is_json}};
  for (int i = 0; i < argc; i++)
    if (!commands_take_word(words, sizeof words / sizeof words[0], argc, argv, &i) &&
        !config_take_flag(&sources, argc, argv, &i, &faults))
      return commands_refuse_word(argv[i]);
  if (options.file == NULL) {
    (void)fputs("fitd: advise needs a FILE, the config.json of a model, or - for standard input\n", stderr);
    return EXIT_STATUS_INVALID;
  }
  if (!commands_load_config(&config, &sources, &faults, false))
    return EXIT_STATUS_INVALID;
  body = commands_read_sketch(options.file, &length);
  if (body == NULL)
    return EXIT_STATUS_INVALID;
  status = advise(&options, &config, body, length);
  free(body);
  return status;
}
