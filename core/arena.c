/* A bump allocator over the caller's block. */
#include "core/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void arena_init(struct arena *arena, void *memory, size_t capacity_bytes)
{
  const size_t alignment = alignof(max_align_t);
  const size_t skip = (alignment - (size_t)((uintptr_t)memory % alignment)) % alignment;
  arena->base = memory;
  arena->capacity_bytes = 0;
  if (capacity_bytes > skip) {
    arena->base += skip;
    arena->capacity_bytes = capacity_bytes - skip;
  }
  arena->used_bytes = 0;
  arena->peak_bytes = 0;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
  const size_t alignment = alignof(max_align_t);
  size_t bytes;
  void *memory;
  if (size != 0 && count > (SIZE_MAX - alignment) / size)
    return NULL;
  bytes = (count * size + alignment - 1) / alignment * alignment;
  if (bytes > arena->capacity_bytes - arena->used_bytes)
    return NULL;
  memory = arena->base + arena->used_bytes;
  arena->used_bytes += bytes;
  if (arena->used_bytes > arena->peak_bytes)
    arena->peak_bytes = arena->used_bytes;
  memset(memory, 0, bytes);
  return memory;
}

const char *arena_printf(struct arena *arena, const char *format, ...)
{
  char text[512];
  va_list args;
  char *copy;
  int n;
  va_start(args, format);
  n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (n < 0)
    return NULL;
  if ((size_t)n >= sizeof text)
    n = (int)sizeof text - 1;
  copy = arena_alloc(arena, (size_t)n + 1, 1);
  if (copy != NULL)
    memcpy(copy, text, (size_t)n);
  return copy;
}

size_t arena_mark(const struct arena *arena)
{
  return arena->used_bytes;
}

void arena_release(struct arena *arena, size_t mark)
{
  assert(mark <= arena->used_bytes);
  arena->used_bytes = mark;
}
