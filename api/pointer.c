/* Tokens are unescaped into a buffer of fixed size: names longer than that are in none of our documents. */
#include "api/pointer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/read.h"

#define TOKEN_MAX 160

bool pointer_is_valid(const char *pointer)
{
  if (pointer[0] == '\0')
    return true;
  if (pointer[0] != '/')
    return false;
  for (const char *at = strchr(pointer, '~'); at != NULL; at = strchr(at + 1, '~'))
    if (at[1] != '0' && at[1] != '1')
      return false;
  return true;
}

/* Takes the token behind the slash at *at and moves on; false at the end, or when it is too long. */
static bool next_token(char token[TOKEN_MAX], const char **at)
{
  size_t length = 0;
  const char *from = *at;
  if (*from != '/')
    return false;
  for (from++; *from != '\0' && *from != '/'; from++) {
    char c = *from;
    if (c == '~' && (from[1] == '0' || from[1] == '1'))
      c = *++from == '0' ? '~' : '/';
    if (length + 1 == TOKEN_MAX)
      return false;
    token[length++] = c;
  }
  token[length] = '\0';
  *at = from;
  return true;
}

/* "0", "12"; false for anything else. */
static bool parse_index(size_t *index, const char *token)
{
  *index = 0;
  for (size_t i = 0; token[i] != '\0'; i++) {
    if (token[i] < '0' || token[i] > '9' || i >= 6)
      return false;
    *index = *index * 10 + (size_t)(token[i] - '0');
  }
  return token[0] != '\0' && (token[0] != '0' || token[1] == '\0');
}

static json_t *step(const json_t *value, const char *token)
{
  size_t index;
  if (json_is_object(value))
    return json_object_get(value, token);
  return json_is_array(value) && parse_index(&index, token) ? json_array_get(value, index) : NULL;
}

json_t *pointer_get(const json_t *document, const char *pointer)
{
  json_t *value = read_iterable(document);
  char token[TOKEN_MAX];
  const char *at = pointer;
  while (value != NULL && next_token(token, &at))
    value = step(value, token);
  return *at == '\0' ? value : NULL;
}

static bool set_here(json_t *parent, const char *token, json_t *value)
{
  size_t index;
  if (json_is_object(parent))
    return json_object_set(parent, token, value) == 0;
  return json_is_array(parent) && parse_index(&index, token) && json_array_set(parent, index, value) == 0;
}

bool pointer_set(json_t *document, const char *pointer, json_t *value)
{
  char token[TOKEN_MAX];
  const char *at = pointer;
  json_t *parent = document;
  if (!next_token(token, &at))
    return false;
  while (*at != '\0') {
    json_t *child = step(parent, token);
    if (child == NULL && json_is_object(parent)) {
      child = json_object();
      if (json_object_set_new(parent, token, child) != 0)
        return false;
    }
    parent = child;
    if (parent == NULL || !next_token(token, &at))
      return false;
  }
  return set_here(parent, token, value);
}

json_t *pointer_sketch_value(const json_t *sketch, const char *pointer)
{
  json_t *precision = json_object_get(sketch, "precision");
  if (strncmp(pointer, "/precision/", 11) == 0 && json_is_string(precision))
    return precision;
  return pointer_get(sketch, pointer);
}

static bool same_object(const json_t *a, const json_t *b)
{
  const char *key;
  json_t *value;
  if (json_object_size(a) != json_object_size(b))
    return false;
  json_object_foreach(read_iterable(a), key, value)
  {
    const json_t *other = json_object_get(b, key);
    if (other == NULL || !pointer_same_value(value, other))
      return false;
  }
  return true;
}

static bool same_array(const json_t *a, const json_t *b)
{
  if (json_array_size(a) != json_array_size(b))
    return false;
  for (size_t i = 0; i < json_array_size(a); i++)
    if (!pointer_same_value(json_array_get(a, i), json_array_get(b, i)))
      return false;
  return true;
}

bool pointer_same_value(const json_t *a, const json_t *b)
{
  if (a == NULL || json_is_null(a) || b == NULL || json_is_null(b))
    return (a == NULL || json_is_null(a)) && (b == NULL || json_is_null(b));
  if (json_is_number(a) && json_is_number(b))
    return fabs(json_number_value(a) - json_number_value(b)) <= 0;
  if (json_is_object(a) && json_is_object(b))
    return same_object(a, b);
  if (json_is_array(a) && json_is_array(b))
    return same_array(a, b);
  return json_equal(read_iterable(a), read_iterable(b)) == 1;
}
