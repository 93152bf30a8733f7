/* Memory of one evaluation: a block that the caller owns, handed out front to back and released all at once.
   Core allocates from nowhere else, so what an evaluation may use is bounded by the caller.
   Threads: one arena belongs to one thread at a time. */
#ifndef FITD_CORE_ARENA_H
#define FITD_CORE_ARENA_H

#include "core/error.h"

struct arena {
  unsigned char *base;
  size_t capacity_bytes;
  size_t used_bytes;
  size_t peak_bytes; /* largest used_bytes seen, for reports */
};

/* `memory` must stay valid as long as the arena is used; it is borrowed. */
void arena_init(struct arena *arena, void *memory, size_t capacity_bytes);

/* Zeroed memory for `count` items of `size` bytes, aligned for any type; NULL when the arena is exhausted
   (the caller reports ERR_LIMIT) or when count × size overflows. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);

/* Formats into the arena; NULL when exhausted. */
const char *arena_printf(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);

/* Everything allocated after the mark is released by going back to it. */
size_t arena_mark(const struct arena *arena);
void arena_release(struct arena *arena, size_t mark);

#endif
