/* Values of a config by key: aliases, checks and faults. */
#include "api/hf.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/read.h"

bool hf_has_trait(const struct hf *hf, enum hf_trait trait)
{
  return (hf->traits->flags & (unsigned)trait) != 0;
}

/* Copies the first of the space-separated words; returns what follows it, or NULL at the end. */
static const char *next_key(const char *keys, char key[64])
{
  const size_t length = strcspn(keys, " ");
  const size_t n = length < 63 ? length : 63;
  if (length == 0)
    return NULL;
  memcpy(key, keys, n);
  key[n] = '\0';
  return keys + length + (keys[length] == ' ');
}

static void mark_used(const struct hf *hf, const char *key)
{
  const char *own = json_object_iter_key(json_object_iter_at(read_iterable(hf->text), key));
  for (size_t i = 0; i < hf->used->count; i++)
    if (hf->used->keys[i] == own)
      return;
  if (own != NULL && hf->used->count < HF_USED_MAX)
    hf->used->keys[hf->used->count++] = own;
}

/* The value of one key; "a.b" is b of the object a. */
static const json_t *look_up(const struct hf *hf, char key[64], char pointer[160])
{
  char *dot = strchr(key, '.');
  const json_t *value;
  if (dot != NULL)
    *dot = '\0';
  value = json_object_get(hf->text, key);
  read_pointer(pointer, 160, hf->text_pointer, key);
  if (value != NULL)
    mark_used(hf, key);
  if (dot != NULL) {
    char parent[160];
    memcpy(parent, pointer, sizeof parent);
    read_pointer(pointer, 160, parent, dot + 1);
    value = json_object_get(value, dot + 1);
  }
  return value;
}

const json_t *hf_get(const struct hf *hf, const char *keys, char pointer[160])
{
  char key[64];
  const json_t *found = NULL;
  const char *rest = next_key(keys, key);
  read_pointer(pointer, 160, hf->text_pointer, key);
  for (; rest != NULL; rest = next_key(rest, key)) { /* to the end: other names of the same thing count as read */
    char at[160];
    const json_t *value = look_up(hf, key, at);
    if (found != NULL || value == NULL || json_is_null(value))
      continue;
    memcpy(pointer, at, sizeof at);
    found = value;
  }
  return found;
}

bool hf_is_silent(const struct hf *hf, const char *keys)
{
  char key[64];
  char at[160];
  for (const char *rest = next_key(keys, key); rest != NULL; rest = next_key(rest, key))
    if (look_up(hf, key, at) != NULL)
      return false;
  return true;
}

bool hf_has(const struct hf *hf, const char *keys)
{
  char pointer[160];
  return hf_get(hf, keys, pointer) != NULL;
}

unsigned hf_peek(const struct hf *hf, const char *keys)
{
  char pointer[160];
  const json_t *value = hf_get(hf, keys, pointer);
  const json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
  return number > 0 && number <= UINT_MAX ? (unsigned)number : 0;
}

/* A key may be asked for more than once; its fault is told once. */
static void add_once(struct hf *hf, enum fault_code code, const char *pointer, const char *detail)
{
  for (size_t i = 0; i < hf->faults->count; i++)
    if (hf->faults->items[i].code == code && strcmp(hf->faults->items[i].pointer, pointer) == 0)
      return;
  faults_add(hf->faults, code, pointer, NULL, "%s", detail);
}

void hf_fault_at(struct hf *hf, enum fault_code code, const char *pointer, const char *format, ...)
{
  char detail[320];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  add_once(hf, code, pointer, detail);
}

bool hf_count(struct hf *hf, const char *keys, unsigned least, unsigned largest, unsigned *to)
{
  char pointer[160];
  const json_t *value = hf_get(hf, keys, pointer);
  if (value == NULL)
    return false;
  if (!json_is_integer(value)) {
    hf_fault_at(hf, FAULT_WRONG_TYPE, pointer, "expected a whole number between %u and %u, saw %s", least, largest,
                read_type_name(value));
    return false;
  }
  if (json_integer_value(value) < least || json_integer_value(value) > largest) {
    hf_fault_at(hf, FAULT_OUT_OF_RANGE, pointer, "%" JSON_INTEGER_FORMAT " is not between %u and %u",
                json_integer_value(value), least, largest);
    return false;
  }
  *to = (unsigned)json_integer_value(value);
  return true;
}

bool hf_need(struct hf *hf, const char *keys, unsigned least, unsigned largest, unsigned *to)
{
  if (hf_has(hf, keys))
    return hf_count(hf, keys, least, largest, to);
  hf_fault(hf, FAULT_MISSING, keys, "needed: a whole number between %u and %u", least, largest);
  return false;
}

bool hf_bias(struct hf *hf, enum hf_trait trait)
{
  const bool bias = hf_flag(hf, "bias enable_bias use_bias add_bias_linear", hf_has_trait(hf, trait));
  return hf_has(hf, "no_bias") ? !hf_flag(hf, "no_bias", !bias) : bias;
}

bool hf_flag(struct hf *hf, const char *keys, bool otherwise)
{
  char pointer[160];
  const json_t *value = hf_get(hf, keys, pointer);
  if (value == NULL)
    return otherwise;
  if (!json_is_boolean(value)) {
    hf_fault_at(hf, FAULT_WRONG_TYPE, pointer, "expected true or false, saw %s", read_type_name(value));
    return otherwise;
  }
  return json_is_true(value);
}

const char *hf_text(struct hf *hf, const char *keys)
{
  char pointer[160];
  const json_t *value = hf_get(hf, keys, pointer);
  if (value != NULL && !json_is_string(value))
    hf_fault_at(hf, FAULT_WRONG_TYPE, pointer, "expected text, saw %s", read_type_name(value));
  return json_string_value(value);
}

const json_t *hf_list(struct hf *hf, const char *keys)
{
  char pointer[160];
  const json_t *value = hf_get(hf, keys, pointer);
  if (value != NULL && !json_is_array(value))
    hf_fault_at(hf, FAULT_WRONG_TYPE, pointer, "expected a list, saw %s", read_type_name(value));
  return json_is_array(value) ? value : NULL;
}

void hf_fault(struct hf *hf, enum fault_code code, const char *keys, const char *format, ...)
{
  char pointer[160];
  char detail[320];
  va_list args;
  (void)hf_get(hf, keys, pointer);
  va_start(args, format);
  (void)vsnprintf(detail, sizeof detail, format, args);
  va_end(args);
  add_once(hf, code, pointer, detail);
}

void hf_assume(struct hf *hf, const char *format, ...)
{
  char sentence[400];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  /* Cut text may end inside a character; the sentence is then left out, as json_string refuses it. */
  if (json_array_append_new(hf->assumptions, json_string(sentence)) != 0)
    faults_add(hf->faults, FAULT_OUT_OF_RANGE, hf->root_pointer, NULL, "an assumption could not be recorded");
}
