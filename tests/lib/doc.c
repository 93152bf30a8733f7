/* JSON lookups for tests: failing loudly with the path beats a NULL three lines later. */
#include "tests/lib/doc.h"

#include "tests/lib/scratch.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *step_into(const json_t *doc, const char *name)
{
  if (json_is_array(doc))
    return json_array_get(doc, strtoul(name, NULL, 10));
  return json_object_get(doc, name);
}

/* Walks the path; stops early at a JSON null. */
static json_t *walk(const json_t *doc, const char *path, bool *is_whole)
{
  char name[128];
  json_t *at = NULL;
  *is_whole = false;
  for (;;) {
    const size_t length = strcspn(path, ".");
    ck_assert_uint_lt(length, sizeof name);
    memcpy(name, path, length);
    name[length] = '\0';
    at = step_into(doc, name);
    *is_whole = path[length] == '\0';
    if (at == NULL || *is_whole || json_is_null(at))
      return at;
    doc = at;
    path += length + 1;
  }
}

json_t *doc_at(const json_t *doc, const char *path)
{
  bool is_whole;
  json_t *at = walk(doc, path, &is_whole);
  return is_whole ? at : NULL;
}

bool doc_is_null(const json_t *doc, const char *path)
{
  bool is_whole;
  return json_is_null(walk(doc, path, &is_whole));
}

double doc_number(const json_t *doc, const char *path)
{
  const json_t *at = doc_at(doc, path);
  ck_assert_msg(json_is_number(at), "%s is not a number but %s", path, doc_brief(at));
  ck_assert_msg(isfinite(json_number_value(at)), "%s is not finite", path);
  return json_number_value(at);
}

long long doc_integer(const json_t *doc, const char *path)
{
  const json_t *at = doc_at(doc, path);
  ck_assert_msg(json_is_integer(at), "%s is not an integer but %s", path, doc_brief(at));
  return json_integer_value(at);
}

const char *doc_text(const json_t *doc, const char *path)
{
  const json_t *at = doc_at(doc, path);
  ck_assert_msg(json_is_string(at), "%s is not a string but %s", path, doc_brief(at));
  return json_string_value(at);
}

const json_t *doc_array(const json_t *doc, const char *path)
{
  const json_t *at = doc_at(doc, path);
  ck_assert_msg(json_is_array(at), "%s is not an array but %s", path, doc_brief(at));
  return at;
}

const json_t *doc_fault(const json_t *problem, const char *pointer)
{
  const json_t *errors = json_object_get(problem, "errors");
  for (size_t i = 0; i < json_array_size(errors); i++) {
    const json_t *fault = json_array_get(errors, i);
    const char *at = json_string_value(json_object_get(fault, "pointer"));
    if (at != NULL && strcmp(at, pointer) == 0)
      return fault;
  }
  return NULL;
}

void doc_strip(json_t *doc, const char *const *names)
{
  size_t index;
  const char *key;
  json_t *value;
  for (size_t i = 0; json_is_object(doc) && names[i] != NULL; i++)
    (void)json_object_del(doc, names[i]);
  json_object_foreach(doc, key, value)
  {
    doc_strip(value, names);
  }
  json_array_foreach(doc, index, value)
  {
    doc_strip(value, names);
  }
}

size_t doc_assert_finite(json_t *doc)
{
  size_t count = 0, index;
  const char *key;
  json_t *value;
  if (json_is_number(doc)) {
    ck_assert_msg(isfinite(json_number_value(doc)), "a number is not finite");
    return 1;
  }
  json_object_foreach(doc, key, value)
  {
    count += doc_assert_finite(value);
  }
  json_array_foreach(doc, index, value)
  {
    count += doc_assert_finite(value);
  }
  return count;
}

json_t *doc_parse(const char *text)
{
  json_error_t error;
  json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  ck_assert_msg(doc != NULL, "not JSON (%s): %.300s", error.text, text);
  return scratch_json_steal(doc);
}

const char *doc_dump(const json_t *doc)
{
  char *text, *copy;
  if (doc == NULL)
    return "absent";
  text = json_dumps(doc, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
  ck_assert_ptr_nonnull(text);
  copy = scratch_printf("%s", text);
  free(text);
  return copy;
}

const char *doc_brief(const json_t *doc)
{
  return scratch_printf("%.2000s", doc_dump(doc));
}

void doc_assert_same(const json_t *seen, const json_t *expected)
{
  const char *a = doc_dump(seen), *b = doc_dump(expected);
  size_t same = 0, from;
  while (a[same] != '\0' && a[same] == b[same])
    same++;
  from = same > 80 ? same - 80 : 0;
  ck_assert_msg(a[same] == b[same], "documents part at byte %zu: seen …%.160s… expected …%.160s…", same, a + from,
                b + from);
}
