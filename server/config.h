/* Settings of the daemon: defaults < file < environment < flags. All faults of all sources are reported together.
   Threads: plain values; the caller decides who reads them. Errors: faults whose pointer is the place ("fitd.conf:12",
   "FITD_LISTEN", "--listen"). */
#ifndef FITD_SERVER_CONFIG_H
#define FITD_SERVER_CONFIG_H

#include <stdio.h>

#include "core/error.h"
#include "server/log.h"

#define CONFIG_TEXT_SIZE 512
#define CONFIG_FLAGS_MAX 64

#define CONFIG_MEMBER_TEXT(key) char key[CONFIG_TEXT_SIZE];
#define CONFIG_MEMBER_COUNT(key) unsigned key;
#define CONFIG_MEMBER_BOOL(key) bool key;
#define CONFIG_MEMBER_LEVEL(key) enum log_level key;
/* Counts carry the unit of their row in config.def. */
struct config {
#define SETTING(key, kind, fallback, min, max, unit, reload, sentence) CONFIG_MEMBER_##kind(key)
#include "server/config.def"
#undef SETTING
};

/* Where settings come from, kept for SIGHUP. Strings are borrowed from argv and the environment. */
struct config_sources {
  const char *file; /* NULL = none */
  char *const *environment;
  struct {
    size_t setting; /* row in config.def */
    const char *value;
  } flags[CONFIG_FLAGS_MAX];
  size_t flag_count;
};

/* Looks at argv[*at]: takes --config FILE, --key VALUE and --key=VALUE, moving *at to the last word taken. Returns false
   when the word is no setting. A flag without its value, or with too many flags, adds a fault and returns true. */
bool config_take_flag(struct config_sources *sources, int argc, char *const *argv, int *at, struct faults *faults);

/* The flag most like `word`, for messages: "--listen", or NULL. */
const char *config_nearest_flag(const char *word, char *buffer, size_t size);

/* Fills *config from all sources; keeps going after a fault. */
void config_load(struct config *config, const struct config_sources *sources, struct faults *faults);

/* Takes the reloadable settings of `fresh`; names of other settings that differ are written to `fixed` ("a, b"). */
void config_reload(struct config *config, const struct config *fresh, char *fixed, size_t size);

/* The documented file with the values of `config`, which reads back to the same values. */
void config_dump(FILE *to, const struct config *config);
/* One paragraph a setting for --help. */
void config_help(FILE *to);
void config_print_faults(FILE *to, const struct faults *faults);

#endif
