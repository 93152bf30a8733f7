/* fitd accuracy: predicts every row of a table of measurements and prints how far off it is. Files are read here; what is
   in them is the api's to judge. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/api.h"
#include "server/commands.h"

#define TABLE_MAX_BYTES ((size_t)256 << 20)
#define DOCUMENT_MAX_BYTES ((size_t)16 << 20)

struct options {
  const char *file, *models, *constants;
  enum api_accuracy_form form;
};

/* ---- Input ---- */

static bool complain(const char *path, const char *what)
{
  (void)fprintf(stderr, "fitd: %s %s\n", path, what);
  return false;
}

/* Grows with what comes, so that pipes work too. */
static bool read_stream(char **bytes, size_t *length, FILE *file, const char *path, size_t max)
{
  size_t capacity = 0;
  *bytes = NULL;
  *length = 0;
  do {
    char *larger;
    capacity = capacity == 0 ? 65536 : 2 * capacity;
    larger = realloc(*bytes, capacity);
    if (larger == NULL)
      return complain(path, "does not fit into memory");
    *bytes = larger;
    *length += fread(*bytes + *length, 1, capacity - 1 - *length, file);
    if (*length > max)
      return complain(path, "is larger than this command reads");
  } while (*length == capacity - 1);
  if (ferror(file)) {
    (void)fprintf(stderr, "fitd: reading %s failed: %s\n", path, strerror(errno));
    return false;
  }
  (*bytes)[*length] = '\0';
  return true;
}

/* Terminated bytes, malloc'ed; NULL after a complaint. "-" is standard input. */
static char *read_file(const char *path, size_t *length, size_t max)
{
  const bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "re");
  char *bytes = NULL;
  if (file == NULL) {
    (void)fprintf(stderr, "fitd: %s can not be read: %s\n", path, strerror(errno));
    return NULL;
  }
  if (!read_stream(&bytes, length, file, path, max)) {
    free(bytes);
    bytes = NULL;
  }
  if (!is_stdin)
    (void)fclose(file);
  return bytes;
}

/* A NUL would end the text early and hide the rest. */
static char *read_document(const char *path)
{
  size_t length = 0;
  char *text = read_file(path, &length, DOCUMENT_MAX_BYTES);
  if (text != NULL && memchr(text, '\0', length) != NULL) {
    (void)complain(path, "holds a NUL; JSON is expected");
    free(text);
    text = NULL;
  }
  return text;
}

/* "org/name" is <models>/org--name.json. A name that would leave the folder is not in it. */
static char *load_model(const char *name, void *cls)
{
  const struct options *options = cls;
  const char *slash = strchr(name, '/');
  const int organisation = slash != NULL ? (int)(slash - name) : 0;
  const char *rest = slash != NULL ? slash + 1 : name;
  struct stat status;
  char path[1024];
  int length;
  if (*name == '\0' || *name == '.' || strchr(rest, '/') != NULL)
    return NULL;
  length = snprintf(path, sizeof path, "%s/%.*s%s%s.json", options->models, organisation, name,
                    slash != NULL ? "--" : "", rest);
  if (length < 0 || (size_t)length >= sizeof path || stat(path, &status) != 0)
    return NULL;
  return read_document(path);
}

/* ---- The command ---- */

static bool check_models(const char *path)
{
  struct stat status;
  if (stat(path, &status) != 0) {
    (void)fprintf(stderr, "fitd: %s can not be read: %s\n", path, strerror(errno));
    return false;
  }
  return S_ISDIR(status.st_mode) || complain(path, "is not a folder of model configs");
}

static int print(const char *answer, enum api_accuracy_form form)
{
  (void)fputs(answer, stdout);
  if (form == API_ACCURACY_JSON)
    (void)fputc('\n', stdout);
  return commands_end_output(EXIT_STATUS_OK, EXIT_STATUS_UNAVAILABLE);
}

static int run(struct options *options)
{
  struct api_accuracy request = {.form = options->form, .cls = options};
  struct error e = {.code = ERR_OK, .message = ""};
  char *table = NULL, *parameters = NULL, *answer = NULL;
  int status = EXIT_STATUS_INVALID;
  enum err err;
  if (options->models != NULL && !check_models(options->models))
    return EXIT_STATUS_INVALID;
  table = read_file(options->file, &request.csv_len, TABLE_MAX_BYTES);
  if (table == NULL)
    goto out;
  if (options->constants != NULL) {
    parameters = read_document(options->constants);
    if (parameters == NULL)
      goto out;
  }
  request.csv = table;
  request.parameters = parameters;
  request.load_model = options->models != NULL ? load_model : NULL;
  err = api_accuracy(&answer, &request, &e);
  if (err == ERR_OK) {
    status = print(answer, options->form);
  } else {
    (void)fprintf(stderr, "fitd: %s\n", e.message[0] != '\0' ? e.message : error_text(err));
    status = err == ERR_INVALID ? EXIT_STATUS_INVALID : EXIT_STATUS_UNAVAILABLE;
  }
out:
  free(answer);
  free(parameters);
  free(table);
  return status;
}

int command_accuracy(int argc, char *const *argv)
{
  struct options options = {.file = NULL};
  bool is_json = false, is_rows = false;
  const struct command_word words[] = {{.value = &options.file},
                                       {.name = "--models", .value = &options.models},
                                       {.name = "--constants", .value = &options.constants},
                                       {.name = "--json", .flag = &is_json},
                                       {.name = "--rows", .flag = &is_rows}};
  for (int i = 0; i < argc; i++)
    if (!commands_take_word(words, sizeof words / sizeof words[0], argc, argv, &i))
      return commands_refuse_word(argv[i]);
  options.form = is_rows ? API_ACCURACY_ROWS : is_json ? API_ACCURACY_JSON : API_ACCURACY_TABLE;
  if (options.file == NULL) {
    (void)fputs("fitd: accuracy needs a FILE of measurements, or - for standard input\n", stderr);
    return EXIT_STATUS_INVALID;
  }
  return run(&options);
}
