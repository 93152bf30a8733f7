/* A growing list of sentences in an arena: assumptions, fallbacks. A failed allocation is remembered and reported once. */
#ifndef FITD_CORE_NOTES_H
#define FITD_CORE_NOTES_H

#include "core/arena.h"

#define NOTES_MAX 64

struct notes {
  struct arena *arena;
  const char *items[NOTES_MAX];
  size_t count;
  bool is_failed; /* the arena was exhausted or NOTES_MAX reached */
};

void notes_init(struct notes *notes, struct arena *arena);
void notes_add(struct notes *notes, const char *format, ...) PRINTF_LIKE(2, 3);

/* The list as an array in the arena; NULL and is_failed when the arena is exhausted, NULL for no notes. */
const char *const *notes_take(struct notes *notes, size_t *count);

#endif
