/* An allocator for jansson that remembers its failures, one flag a thread. */
#include "api/json_memory.h"

#include <stdlib.h>

#define TREE_FACTOR 80 /* bytes of a tree for a byte of text at worst, measured with [{},{},…] */

static _Thread_local bool has_failed;

static void *allocate(size_t bytes)
{
  void *block = malloc(bytes);
  has_failed |= block == NULL;
  return block;
}

void json_memory_watch(void)
{
  json_set_alloc_funcs(allocate, free);
}

void json_memory_begin(void)
{
  has_failed = false;
}

bool json_memory_has_failed(void)
{
  return has_failed;
}

static bool is_enough(size_t text_bytes)
{
  void *block = malloc(TREE_FACTOR * text_bytes);
  free(block);
  return block != NULL;
}

json_t *json_memory_loadb(bool *is_out, const char *text, size_t length, size_t flags, json_error_t *problem)
{
  const bool had_failed = has_failed;
  json_t *document = NULL;
  has_failed = !is_enough(length);
  if (!has_failed)
    document = json_loadb(text, length, flags, problem);
  *is_out = has_failed;
  has_failed |= had_failed;
  if (*is_out) {
    json_decref(document);
    return NULL;
  }
  return document;
}

char *json_memory_dumps(const json_t *value, size_t flags)
{
  const bool had_failed = has_failed;
  char *text;
  has_failed = false;
  text = json_dumps(value, flags);
  if (has_failed) {
    free(text);
    text = NULL;
  }
  has_failed |= had_failed;
  return text;
}
