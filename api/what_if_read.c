/* The body of a what-if: the sketch, and either a grid or named cases. Pointers that lead nowhere are faults of the body;
   values that do not fit are those of their cell. */
#include "api/what_if.h"

#include <string.h>

#include "api/pointer.h"
#include "api/read.h"
#include "core/knob.h"

/* A setting as a whole, of which knobs are parts, is read by the sketch's own reader. */
static bool is_whole(const char *pointer)
{
  const size_t length = strlen(pointer);
  if (strcmp(pointer, "/model") == 0 || strncmp(pointer, "/constraints/price", strlen("/constraints/price")) == 0)
    return true;
  for (size_t i = 0; knob_pointers[i] != NULL; i++)
    if (strncmp(knob_pointers[i], pointer, length) == 0 && knob_pointers[i][length] == '/')
      return strncmp(pointer, "/profile", strlen("/profile")) != 0;
  return false;
}

static bool is_known(const char *pointer)
{
  for (size_t i = 0; knob_pointers[i] != NULL; i++)
    if (strcmp(knob_pointers[i], pointer) == 0)
      return true;
  return is_whole(pointer);
}

static void check_pointer(const char *pointer, const char *at, struct faults *faults)
{
  char excerpt[READ_EXCERPT_SIZE];
  if (!pointer_is_valid(pointer) || pointer[0] == '\0')
    faults_add(faults, FAULT_WRONG_TYPE, at, NULL,
               "\"%s\" is no JSON Pointer; one into the sketch, /model/... or /profile/... is expected",
               read_excerpt(excerpt, pointer));
  else if (!is_known(pointer))
    faults_add(faults, FAULT_UNKNOWN_FIELD, at, read_nearest(pointer, knob_pointers),
               "\"%s\" leads to nothing that can be varied", read_excerpt(excerpt, pointer));
}

static void read_axis(struct what_if *what_if, const char *pointer, const json_t *values, struct faults *faults)
{
  char at[160];
  read_pointer(at, sizeof at, "/vary", pointer);
  check_pointer(pointer, at, faults);
  if (!json_is_array(values) || json_array_size(values) == 0) {
    faults_add(faults, FAULT_WRONG_TYPE, at, NULL, "is %s; an array of one value at least is expected",
               json_is_array(values) ? "empty" : read_type_name(values));
    return;
  }
  if (what_if->axis_count == WHAT_IF_AXES_MAX) {
    faults_add(faults, FAULT_OUT_OF_RANGE, at, NULL, "is more than %d settings", WHAT_IF_AXES_MAX);
    return;
  }
  what_if->axes[what_if->axis_count++] = (struct what_if_axis){pointer, values};
  if (what_if->cell_count <= WHAT_IF_CELLS_MAX) /* beyond it any number is too many */
    what_if->cell_count *= json_array_size(values);
}

static void read_vary(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct what_if *what_if = to;
  json_t *object = read_iterable(value), *values;
  const char *key;
  if (!json_is_object(value) || json_object_size(value) == 0) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; an object of JSON Pointers, each with an array of values, is expected",
               json_is_object(value) ? "empty" : read_type_name(value));
    return;
  }
  what_if->cell_count = 1;
  json_object_foreach(object, key, values) read_axis(what_if, key, values, faults);
}

static void read_set(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  json_t *object = read_iterable(value), *member;
  const char *key;
  char at[160];
  (void)to;
  if (!json_is_object(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; an object of JSON Pointers with values is expected",
               read_type_name(value));
    return;
  }
  json_object_foreach(object, key, member)
  {
    read_pointer(at, sizeof at, pointer, key);
    check_pointer(key, at, faults);
  }
}

static void read_cases(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct what_if *what_if = to;
  char label[65], at[160];
  const struct read_field fields[] = {
      {.name = "label", .kind = READ_TEXT, .is_required = true, .to = label, .size = sizeof label},
      {.name = "set", .kind = READ_CALL, .is_required = true, .call = read_set},
  };
  if (!json_is_array(value) || json_array_size(value) == 0) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; an array of {\"label\", \"set\"} is expected",
               json_is_array(value) ? "empty" : read_type_name(value));
    return;
  }
  what_if->cases = value;
  what_if->cell_count = json_array_size(value);
  for (size_t i = 0; i < what_if->cell_count && i < WHAT_IF_CELLS_MAX; i++) {
    read_pointer_index(at, sizeof at, pointer, i);
    (void)read_object(json_array_get(value, i), at, fields, sizeof fields / sizeof fields[0], faults);
  }
}

static void check_size(const struct what_if *what_if, struct faults *faults)
{
  const size_t profiles = what_if->sketch.profile_count;
  double cells = what_if->cases != NULL ? (double)what_if->cell_count : 1;
  for (size_t i = 0; i < what_if->axis_count; i++)
    cells *= (double)json_array_size(what_if->axes[i].values);
  if (cells * (double)profiles > WHAT_IF_CELLS_MAX)
    faults_add(faults, FAULT_OUT_OF_RANGE, what_if->cases != NULL ? "/cases" : "/vary", NULL,
               "%.0f cells on %zu profiles are %.0f evaluations; at most %d are made", cells, profiles,
               cells * (double)profiles, WHAT_IF_CELLS_MAX);
}

void what_if_read(struct what_if *out, const struct catalogue_snapshot *snapshot, const json_t *body,
                  struct faults *faults)
{
  const struct read_field fields[] = {
      {.name = "sketch", .kind = READ_IGNORE, .is_required = true},
      {.name = "vary", .kind = READ_CALL, .to = out, .call = read_vary},
      {.name = "cases", .kind = READ_CALL, .to = out, .call = read_cases},
      {.name = "search", .kind = READ_BOOL, .to = &out->searches},
  };
  const json_t *sketch = json_object_get(body, "sketch");
  memset(out, 0, sizeof *out);
  out->body = body;
  if (!read_object(body, "", fields, sizeof fields / sizeof fields[0], faults))
    return;
  if (sketch != NULL)
    sketch_read(&out->sketch, snapshot, sketch, "/sketch", faults);
  if (json_object_get(body, "vary") != NULL && json_object_get(body, "cases") != NULL)
    faults_add(faults, FAULT_CONFLICT, "/cases", NULL, "give vary or cases, not both");
  else if (json_object_get(body, "vary") == NULL && json_object_get(body, "cases") == NULL)
    faults_add(faults, FAULT_MISSING, "/vary", NULL, "is required, or cases");
  if (faults->count == 0)
    check_size(out, faults);
}

void what_if_fini(struct what_if *what_if)
{
  sketch_fini(&what_if->sketch);
}
