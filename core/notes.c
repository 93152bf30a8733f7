/* Sentences in an arena. */
#include "core/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void notes_init(struct notes *notes, struct arena *arena)
{
  memset(notes, 0, sizeof *notes);
  notes->arena = arena;
}

void notes_add(struct notes *notes, const char *format, ...)
{
  char text[400];
  va_list args;
  const char *copy;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  copy = notes->count < NOTES_MAX ? arena_printf(notes->arena, "%s", text) : NULL;
  if (copy == NULL)
    notes->is_failed = true;
  else
    notes->items[notes->count++] = copy;
}

const char *const *notes_take(struct notes *notes, size_t *count)
{
  const char **list;
  *count = 0;
  if (notes->count == 0 || notes->is_failed)
    return NULL;
  list = arena_alloc(notes->arena, notes->count, sizeof *list);
  if (list == NULL) {
    notes->is_failed = true;
    return NULL;
  }
  memcpy(list, notes->items, notes->count * sizeof *list);
  *count = notes->count;
  return list;
}
