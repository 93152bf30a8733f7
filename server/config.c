/* Settings: one table made from config.def, one parser of values for the file, the environment and the flags.
   The dump of the defaults is deploy/fitd.conf.example. */
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, COUNT, BOOL, LEVEL };
enum reload { FIXED, RELOADABLE };

struct setting {
  const char *key;
  enum kind kind;
  const char *fallback;
  size_t min, max; /* of counts; of texts, the length in bytes */
  const char *unit;
  enum reload reload;
  const char *sentence;
  size_t offset, size;
};

static const struct setting settings[] = {
#define SETTING(key, kind, fallback, min, max, unit, reload, sentence)                                                 \
  {#key,                                                                                                               \
   kind,                                                                                                               \
   fallback,                                                                                                           \
   min,                                                                                                                \
   max,                                                                                                                \
   unit,                                                                                                               \
   reload,                                                                                                             \
   sentence,                                                                                                           \
   offsetof(struct config, key),                                                                                       \
   sizeof(((struct config *)0)->key)},
#include "server/config.def"
#undef SETTING
};
#define SETTING_COUNT (sizeof settings / sizeof settings[0])

static void *member(struct config *config, const struct setting *setting)
{
  return (char *)config + setting->offset;
}

static const void *member_of(const struct config *config, const struct setting *setting)
{
  return (const char *)config + setting->offset;
}

/* ---- Names ---- */

/* True when key and word are equal with '-' and '_' and, for variables, case made alike. */
static bool is_key(const char *key, const char *word, size_t length)
{
  size_t i;
  if (strlen(key) != length)
    return false;
  for (i = 0; i < length; i++)
    if ((word[i] == '-' ? '_' : word[i]) != key[i])
      return false;
  return true;
}

static bool find_setting(size_t *at, const char *word, size_t length)
{
  for (*at = 0; *at < SETTING_COUNT; (*at)++)
    if (is_key(settings[*at].key, word, length))
      return true;
  return false;
}

/* Edit distance, cut off at 63 bytes of either word. */
static unsigned distance(const char *a, const char *b)
{
  unsigned row[64];
  size_t i, j, n = strnlen(b, 63), m = strnlen(a, 63);
  for (j = 0; j <= n; j++)
    row[j] = (unsigned)j;
  for (i = 1; i <= m; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (j = 1; j <= n; j++) {
      unsigned change = diagonal + (a[i - 1] != b[j - 1]);
      unsigned least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
      diagonal = row[j];
      row[j] = change < least ? change : least;
    }
  }
  return row[n];
}

static const char *nearest_key(const char *word)
{
  const char *best = NULL;
  unsigned best_distance = strlen(word) < 6 ? 3 : 4;
  size_t i;
  for (i = 0; i < SETTING_COUNT; i++) {
    unsigned d = distance(word, settings[i].key);
    if (d < best_distance) {
      best_distance = d;
      best = settings[i].key;
    }
  }
  return best;
}

static void dashes(char *text, char from, char to)
{
  for (; *text != '\0'; text++)
    if (*text == from)
      *text = to;
}

const char *config_nearest_flag(const char *word, char *buffer, size_t size)
{
  char key[64];
  const char *nearest;
  (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(word + strspn(word, "-"), "="), word + strspn(word, "-"));
  dashes(key, '-', '_');
  nearest = nearest_key(key);
  if (nearest == NULL)
    return NULL;
  (void)snprintf(buffer, size, "--%s", nearest);
  dashes(buffer, '_', '-');
  return buffer;
}

/* ---- Values ---- */

static void read_count(unsigned *to, const struct setting *setting, const char *value, const char *place,
                       struct faults *faults)
{
  char *end;
  unsigned long number;
  errno = 0;
  number = strtoul(value, &end, 10);
  if (!isdigit((unsigned char)value[0]) || *end != '\0') {
    faults_add(faults, FAULT_WRONG_TYPE, place, NULL, "%s is \"%.60s\"; a whole number of %s is expected", setting->key,
               value, setting->unit);
    return;
  }
  if (errno != 0 || number < setting->min || number > setting->max) {
    faults_add(faults, FAULT_OUT_OF_RANGE, place, NULL, "%s is %.60s; allowed are %zu to %zu %s", setting->key, value,
               setting->min, setting->max, setting->unit);
    return;
  }
  *to = (unsigned)number;
}

static void read_text(char *to, const struct setting *setting, const char *value, const char *place,
                      struct faults *faults)
{
  size_t length = strlen(value);
  if (length < setting->min || length > setting->max)
    faults_add(faults, FAULT_OUT_OF_RANGE, place, NULL, "%s has %zu bytes; allowed are %zu to %zu", setting->key,
               length, setting->min, setting->max);
  else
    memcpy(to, value, length + 1);
}

static void read_bool(bool *to, const struct setting *setting, const char *value, const char *place,
                      struct faults *faults)
{
  bool is_true = strcmp(value, "true") == 0;
  if (!is_true && strcmp(value, "false") != 0)
    faults_add(faults, FAULT_UNKNOWN_VALUE, place, NULL, "%s is \"%.60s\"; true or false is expected", setting->key,
               value);
  else
    *to = is_true;
}

static void set_value(struct config *config, const struct setting *setting, const char *value, const char *place,
                      struct faults *faults)
{
  void *to = member(config, setting);
  switch (setting->kind) {
  case TEXT: read_text(to, setting, value, place, faults); break;
  case COUNT: read_count(to, setting, value, place, faults); break;
  case BOOL: read_bool(to, setting, value, place, faults); break;
  case LEVEL:
    if (!log_level_parse(to, value))
      faults_add(faults, FAULT_UNKNOWN_VALUE, place, NULL, "%s is \"%.60s\"; debug, info, warning or error is expected",
                 setting->key, value);
    break;
  }
}

/* ---- Sources ---- */

static char *trim(char *text)
{
  char *end = text + strlen(text);
  while (end > text && isspace((unsigned char)end[-1]))
    *--end = '\0';
  while (isspace((unsigned char)*text))
    text++;
  return text;
}

static void read_line(struct config *config, char *line, const char *place, bool seen[], struct faults *faults)
{
  char *key = trim(line), *equals = strchr(key, '='), *value;
  size_t at;
  if (*key == '\0' || *key == '#')
    return;
  if (equals == NULL) {
    faults_add(faults, FAULT_WRONG_TYPE, place, NULL, "\"%.60s\" is not of the form key = value", key);
    return;
  }
  *equals = '\0';
  key = trim(key);
  value = trim(equals + 1);
  if (!find_setting(&at, key, strlen(key))) {
    faults_add(faults, FAULT_UNKNOWN_FIELD, place, nearest_key(key), "there is no setting \"%.60s\"", key);
    return;
  }
  if (seen[at])
    faults_add(faults, FAULT_CONFLICT, place, NULL, "%s is set twice in this file", key);
  seen[at] = true;
  set_value(config, &settings[at], value, place, faults);
}

static void read_file(struct config *config, const char *path, struct faults *faults)
{
  FILE *file = fopen(path, "re");
  char line[1024], place[sizeof((struct fault *)0)->pointer];
  bool seen[SETTING_COUNT] = {false};
  unsigned number = 0;
  if (file == NULL) {
    faults_add(faults, FAULT_UNKNOWN_NAME, path, NULL, "the file can not be read: %s", strerror(errno));
    return;
  }
  while (fgets(line, sizeof line, file) != NULL) {
    (void)snprintf(place, sizeof place, "%.140s:%u", path, ++number);
    if (strchr(line, '\n') == NULL && !feof(file)) {
      faults_add(faults, FAULT_OUT_OF_RANGE, place, NULL, "the line has more than %zu bytes", sizeof line - 2);
      break;
    }
    read_line(config, line, place, seen, faults);
  }
  if (ferror(file))
    faults_add(faults, FAULT_UNKNOWN_NAME, path, NULL, "reading the file failed: %s", strerror(errno));
  (void)fclose(file);
}

/* Variables that are no setting are left alone: container platforms set FITD_… variables of their own. */
static void read_variable(struct config *config, const char *variable, struct faults *faults)
{
  char key[64], place[72];
  const char *equals = strchr(variable, '=');
  size_t i, at, length;
  if (equals == NULL || strncmp(variable, "FITD_", 5) != 0)
    return;
  length = (size_t)(equals - variable) - 5;
  if (length >= sizeof key)
    return;
  for (i = 0; i < length; i++)
    key[i] = (char)tolower((unsigned char)variable[5 + i]);
  (void)snprintf(place, sizeof place, "%.*s", (int)(equals - variable), variable);
  if (find_setting(&at, key, length))
    set_value(config, &settings[at], equals + 1, place, faults);
}

bool config_take_flag(struct config_sources *sources, int argc, char *const *argv, int *at, struct faults *faults)
{
  const char *word = argv[*at], *value;
  size_t length, setting = 0;
  bool is_file;
  if (strncmp(word, "--", 2) != 0)
    return false;
  length = strcspn(word + 2, "=");
  is_file = is_key("config", word + 2, length);
  if (!is_file && !find_setting(&setting, word + 2, length))
    return false;
  if (word[2 + length] == '=') {
    value = word + 3 + length;
  } else if (*at + 1 < argc) {
    value = argv[++*at];
  } else {
    faults_add(faults, FAULT_MISSING, word, NULL, "a value must follow");
    return true;
  }
  if (is_file) {
    sources->file = value;
  } else if (sources->flag_count == CONFIG_FLAGS_MAX) {
    faults_add(faults, FAULT_OUT_OF_RANGE, word, NULL, "more than %d flags", CONFIG_FLAGS_MAX);
  } else {
    sources->flags[sources->flag_count].setting = setting;
    sources->flags[sources->flag_count++].value = value;
  }
  return true;
}

void config_load(struct config *config, const struct config_sources *sources, struct faults *faults)
{
  char place[64];
  size_t i;
  char *const *variable;
  memset(config, 0, sizeof *config);
  for (i = 0; i < SETTING_COUNT; i++)
    set_value(config, &settings[i], settings[i].fallback, settings[i].key, faults);
  if (sources->file != NULL)
    read_file(config, sources->file, faults);
  for (variable = sources->environment; variable != NULL && *variable != NULL; variable++)
    read_variable(config, *variable, faults);
  for (i = 0; i < sources->flag_count; i++) {
    const struct setting *setting = &settings[sources->flags[i].setting];
    (void)snprintf(place, sizeof place, "--%s", setting->key);
    dashes(place, '_', '-');
    set_value(config, setting, sources->flags[i].value, place, faults);
  }
}

static bool is_same(const struct config *a, const struct config *b, const struct setting *setting)
{
  /* config_load zeroes the whole struct first, so texts compare with their tails. */
  return memcmp(member_of(a, setting), member_of(b, setting), setting->size) == 0;
}

void config_reload(struct config *config, const struct config *fresh, char *fixed, size_t size)
{
  size_t i, used = 0;
  fixed[0] = '\0';
  for (i = 0; i < SETTING_COUNT; i++) {
    if (is_same(config, fresh, &settings[i]))
      continue;
    if (settings[i].reload == RELOADABLE)
      memcpy(member(config, &settings[i]), member_of(fresh, &settings[i]), settings[i].size);
    else if (used < size)
      used += (size_t)snprintf(fixed + used, size - used, "%s%s", used > 0 ? ", " : "", settings[i].key);
  }
}

/* ---- Output ---- */

/* Words of `text` in lines of at most 100 columns, each line begun with `prefix`. */
static void wrap(FILE *to, const char *prefix, const char *text)
{
  size_t column = 0;
  while (*text != '\0') {
    size_t length = strcspn(text, " ");
    if (column > 0 && column + 1 + length > 100) {
      (void)fputc('\n', to);
      column = 0;
    }
    column += (size_t)fprintf(to, "%s%.*s", column == 0 ? prefix : " ", (int)length, text);
    text += length;
    text += strspn(text, " ");
  }
  (void)fputc('\n', to);
}

static void put_value(FILE *to, const struct config *config, const struct setting *setting)
{
  const void *from = member_of(config, setting);
  switch (setting->kind) {
  case TEXT: (void)fprintf(to, "%s%s", *(const char *)from != '\0' ? " " : "", (const char *)from); break;
  case COUNT: (void)fprintf(to, " %u", *(const unsigned *)from); break;
  case BOOL: (void)fprintf(to, " %s", *(const bool *)from ? "true" : "false"); break;
  case LEVEL: (void)fprintf(to, " %s", log_level_name(*(const enum log_level *)from)); break;
  }
}

static void put_bounds(FILE *to, const char *prefix, const struct setting *setting)
{
  if (setting->kind == COUNT)
    (void)fprintf(to, "%s%zu to %zu %s; default %s.%s\n", prefix, setting->min, setting->max, setting->unit,
                  setting->fallback, setting->reload == RELOADABLE ? " Re-read on SIGHUP." : "");
  else
    (void)fprintf(to, "%sDefault: %s.%s\n", prefix, setting->fallback[0] != '\0' ? setting->fallback : "empty",
                  setting->reload == RELOADABLE ? " Re-read on SIGHUP." : "");
}

void config_dump(FILE *to, const struct config *config)
{
  size_t i;
  (void)fputs(
      "# Settings of fitd: key = value, one a line. The environment (FITD_<KEY>) and flags (--<key>) are stronger.\n",
      to);
  for (i = 0; i < SETTING_COUNT; i++) {
    (void)fputc('\n', to);
    wrap(to, "# ", settings[i].sentence);
    put_bounds(to, "# ", &settings[i]);
    (void)fprintf(to, "%s =", settings[i].key);
    put_value(to, config, &settings[i]);
    (void)fputc('\n', to);
  }
}

void config_help(FILE *to)
{
  char flag[64];
  size_t i;
  for (i = 0; i < SETTING_COUNT; i++) {
    (void)snprintf(flag, sizeof flag, "%s", settings[i].key);
    dashes(flag, '_', '-');
    (void)fprintf(to, "  --%s %s\n", flag,
                  settings[i].kind == COUNT  ? "N"
                  : settings[i].kind == BOOL ? "true|false"
                                             : "TEXT");
    wrap(to, "      ", settings[i].sentence);
    put_bounds(to, "      ", &settings[i]);
  }
}

void config_print_faults(FILE *to, const struct faults *faults)
{
  size_t i;
  for (i = 0; i < faults->count; i++) {
    const struct fault *fault = &faults->items[i];
    (void)fprintf(to, "fitd: %s: %s", fault->pointer, fault->detail);
    if (fault->suggestion[0] != '\0')
      (void)fprintf(to, "; did you mean \"%s\"?", fault->suggestion);
    (void)fputc('\n', to);
  }
  if (faults->is_truncated)
    (void)fputs("fitd: … and more\n", to);
}
