/* The commands of the program besides the daemon. Each takes the words after its name and returns the exit status.
   Threads: called from main, which has initialised the libraries. */
#ifndef FITD_SERVER_COMMANDS_H
#define FITD_SERVER_COMMANDS_H

#include "server/config.h"

enum exit_status {
  EXIT_STATUS_OK = 0,          /* also: something fits */
  EXIT_STATUS_FAILED = 1,      /* also: nothing fits */
  EXIT_STATUS_INVALID = 2,     /* usage, configuration, or a sketch that is not valid */
  EXIT_STATUS_UNAVAILABLE = 4, /* the server, or what an evaluation needs, is not available */
};

int command_evaluate(int argc, char *const *argv); /* evaluate.c */
int command_advise(int argc, char *const *argv);   /* advise.c */
int command_check(int argc, char *const *argv);    /* check.c */
int command_accuracy(int argc, char *const *argv); /* accuracy.c */
int command_scrape(int argc, char *const *argv);   /* scrape_command.c */
int command_token(int argc, char *const *argv);
int command_migrate(int argc, char *const *argv);
int command_backup(int argc, char *const *argv);
int command_restore(int argc, char *const *argv);

/* The words after `fitd serve`: fills *config and *sources; *runs tells whether the daemon shall run, else the exit status
   is returned (--dump-config and --check-config are done here). */
int commands_settings(bool *runs, struct config *config, struct config_sources *sources, int argc, char *const *argv);

/* A file of at most 256 kB, or standard input for "-"; *length without a terminator. NULL after saying why. */
char *commands_read_sketch(const char *path, size_t *length);
/* The same of at most `max_bytes`. */
char *commands_read_file(const char *path, size_t max_bytes, size_t *length);

/* The detail and every fault of a problem document, to standard error. evaluate.c */
void commands_print_faults(const char *json);

/* 0 = Monday … 6 = Sunday, 7 = off; -1: the setting is none of these. */
int commands_review_day(const struct config *config);

unsigned commands_cores(void);

/* Loads the settings; prints faults. The database's default path is filled in when `resolves_database`. */
bool commands_load_config(struct config *config, const struct config_sources *sources, struct faults *faults,
                          bool resolves_database);

/* A word of a command's own: "--name VALUE" has a value, "--name" a flag; without a name an argument, filled in the order of
   the table ("-" is one). */
struct command_word {
  const char *name;
  const char **value; /* NULL = not given yet */
  bool *flag;
};
/* Takes argv[*at], and moves *at to the value where there is one; false: none of these. */
bool commands_take_word(const struct command_word *words, size_t count, int argc, char *const *argv, int *at);

/* Complains about a word that is neither flag nor argument; returns EXIT_STATUS_INVALID. */
int commands_refuse_word(const char *word);
/* Flushes standard output. Returns `status`, also when the reader closed the pipe early; `failed`, after saying why, when
   the output could not be written. */
int commands_end_output(int status, int failed);
int commands_help(void);
int commands_version(void);

#endif
