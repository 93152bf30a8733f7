/* One list of allocations a test, released together, so that scenario code reads like a scenario. */
#include "tests/lib/scratch.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct item {
  struct item *next;
  void *memory;
  json_t *json;
};

static struct item *items;

static struct item *add_item(void)
{
  struct item *item = calloc(1, sizeof *item);
  ck_assert_ptr_nonnull(item);
  item->next = items;
  items = item;
  return item;
}

void *scratch_alloc(size_t bytes)
{
  struct item *item = add_item();
  item->memory = calloc(1, bytes > 0 ? bytes : 1);
  ck_assert_ptr_nonnull(item->memory);
  return item->memory;
}

char *scratch_printf(const char *format, ...)
{
  va_list args;
  char *text;
  int length;
  va_start(args, format);
  length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  ck_assert_int_ge(length, 0);
  text = scratch_alloc((size_t)length + 1);
  va_start(args, format);
  (void)vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}

json_t *scratch_json_steal(json_t *document)
{
  ck_assert_ptr_nonnull(document);
  add_item()->json = document;
  return document;
}

char *scratch_read_file(const char *path)
{
  FILE *file = fopen(path, "rb");
  size_t bytes = 0, got;
  long size;
  char *text;
  ck_assert_msg(file != NULL, "cannot open %s", path);
  ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
  size = ftell(file);
  ck_assert_int_ge(size, 0);
  rewind(file);
  text = scratch_alloc((size_t)size + 1);
  while (bytes < (size_t)size && (got = fread(text + bytes, 1, (size_t)size - bytes, file)) > 0)
    bytes += got;
  ck_assert_int_eq(fclose(file), 0);
  return text;
}

void scratch_release(void)
{
  while (items != NULL) {
    struct item *item = items;
    items = item->next;
    json_decref(item->json);
    free(item->memory);
    free(item);
  }
}
