/* Looking things up in a snapshot of the catalogue. */
#include "api/catalogue.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_of(const char *wanted, const char *seen)
{
  return wanted[0] == '\0' || strcmp(wanted, seen) == 0;
}

const struct catalogue_calibration *catalogue_find_calibration(const struct catalogue_snapshot *snapshot,
                                                               const char *profile, const char *model,
                                                               const char *stack)
{
  for (size_t i = 0; i < snapshot->calibration_count; i++) {
    const struct catalogue_calibration *row = &snapshot->calibrations[i];
    if (strcmp(row->profile, profile) == 0 && is_of(row->model, model) && is_of(row->stack, stack))
      return row;
  }
  return NULL;
}

static int compare_stack_name(const void *key, const void *row)
{
  const struct catalogue_stack *stack = row;
  return strcmp(key, stack->name);
}

const struct catalogue_stack *catalogue_find_stack(const struct catalogue_snapshot *snapshot, const char *name)
{
  if (snapshot->stack_count == 0)
    return NULL;
  return bsearch(name, snapshot->stacks, snapshot->stack_count, sizeof *snapshot->stacks, compare_stack_name);
}

static int compare_profile_name(const void *key, const void *row)
{
  const struct catalogue_profile *profile = row;
  return strcmp(key, profile->hardware.name);
}

const struct catalogue_profile *catalogue_find_profile(const struct catalogue_snapshot *snapshot, const char *name)
{
  if (snapshot->profile_count == 0)
    return NULL;
  return bsearch(name, snapshot->profiles, snapshot->profile_count, sizeof *snapshot->profiles, compare_profile_name);
}

/* "meta-llama/Meta-Llama-3.1-70B-Instruct" → "llama-3.1-70b": a Hugging Face id without organisation and the decorations
   that do not change the architecture, in lower case. */
static void plain_name(char to[65], const char *id)
{
  static const char *const suffixes[] = {"-instruct", "-hf", "-it", "-base", "-chat"};
  const char *slash = strrchr(id, '/');
  const char *from = slash != NULL ? slash + 1 : id;
  size_t length;
  if (strncasecmp(from, "meta-", 5) == 0)
    from += 5;
  for (length = 0; length < 64 && from[length] != '\0'; length++)
    to[length] = (char)tolower((unsigned char)from[length]);
  to[length] = '\0';
  for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
    const size_t n = strlen(suffixes[i]);
    if (length > n && strcmp(to + length - n, suffixes[i]) == 0)
      to[length -= n] = '\0';
  }
}

const struct catalogue_model *catalogue_find_model(const struct catalogue_snapshot *snapshot, const char *name)
{
  char plain[65];
  size_t i;
  for (i = 0; i < snapshot->model_count; i++)
    if (strcmp(snapshot->models[i].name, name) == 0)
      return &snapshot->models[i];
  for (i = 0; i < snapshot->model_count; i++)
    if (snapshot->models[i].alias[0] != '\0' && strcasecmp(snapshot->models[i].alias, name) == 0)
      return &snapshot->models[i];
  if (strchr(name, '/') == NULL)
    return NULL;
  plain_name(plain, name);
  for (i = 0; i < snapshot->model_count; i++)
    if (strcmp(snapshot->models[i].name, plain) == 0)
      return &snapshot->models[i];
  return NULL;
}
