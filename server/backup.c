/* fitd backup and fitd restore: both work on files, so that a daemon that does not start can still be rescued. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/commands.h"
#include "server/deps.h"
#include "storage/store.h"

/* FILE and settings. False: the reason is printed. */
static bool read_arguments(const char **file, struct config *config, int argc, char *const *argv)
{
  struct config_sources sources = {.file = NULL, .environment = environ};
  struct faults faults = {.count = 0};
  *file = NULL;
  for (int i = 0; i < argc; i++) {
    if (argv[i][0] != '-' && *file == NULL) {
      *file = argv[i];
    } else if (!config_take_flag(&sources, argc, argv, &i, &faults)) {
      (void)commands_refuse_word(argv[i]);
      return false;
    }
  }
  if (*file == NULL)
    (void)fputs("fitd: say which FILE\n", stderr);
  return *file != NULL && commands_load_config(config, &sources, &faults, true);
}

static int end(enum err err, const struct error *e, const char *verb)
{
  if (err == ERR_OK)
    return commands_end_output(EXIT_STATUS_OK, EXIT_STATUS_FAILED);
  (void)fprintf(stderr, "fitd: %s: %s\n", verb, e->message);
  return EXIT_STATUS_FAILED;
}

int command_backup(int argc, char *const *argv)
{
  struct config config;
  struct deps deps = {.store = NULL, .log = NULL};
  struct error e = {.code = ERR_OK};
  const char *file;
  enum err err;
  if (!read_arguments(&file, &config, argc, argv))
    return EXIT_STATUS_INVALID;
  const struct store_options options = {.path = config.database, .readers = 1, .log = deps_log, .log_cls = &deps};
  err = store_backup(&options, file, &e);
  if (err == ERR_OK)
    (void)printf("%s is a copy of %s\n", file, config.database);
  return end(err, &e, "backup");
}

int command_restore(int argc, char *const *argv)
{
  struct config config;
  struct deps deps = {.store = NULL, .log = NULL};
  struct error e = {.code = ERR_OK};
  const char *file;
  char *aside = NULL;
  enum err err;
  if (!read_arguments(&file, &config, argc, argv))
    return EXIT_STATUS_INVALID;
  const struct store_options options = {.path = config.database, .readers = 1, .log = deps_log, .log_cls = &deps};
  err = store_restore(&aside, file, &options, &e);
  if (aside != NULL)
    (void)printf("the old database is kept as %s\n", aside);
  if (err == ERR_OK)
    (void)printf("%s is restored from %s\n", config.database, file);
  free(aside);
  return end(err, &e, "restore");
}
