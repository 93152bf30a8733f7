/* A stack: what runs beneath the model, in the words of whoever runs it. */
#include "api/catalogue.h"

#include "api/put.h"
#include "api/read.h"
#include "api/sketch_parts.h"
#include "api/write.h"

static const char *const names[STACK_PARTS] = {"driver", "framework", "runtime", "kernels"};

void stack_read(struct catalogue_stack *out, const json_t *body, const char *pointer, struct faults *faults)
{
  const size_t before = faults->count;
  struct read_field fields[STACK_PARTS];
  bool is_empty = true;
  for (int i = 0; i < STACK_PARTS; i++) {
    out->parts[i][0] = '\0';
    fields[i] = (struct read_field){
        .name = names[i], .kind = READ_TEXT, .to = out->parts[i], .size = sizeof out->parts[i], .allows_null = true};
  }
  if (!read_object(body, pointer, fields, STACK_PARTS, faults))
    return;
  for (int i = 0; i < STACK_PARTS; i++)
    is_empty = is_empty && out->parts[i][0] == '\0';
  if (is_empty && faults->count == before)
    faults_add(faults, FAULT_MISSING, pointer, NULL,
               "names nothing: at least one of driver, framework, runtime and kernels is expected");
}

void stack_check(const json_t *value, const char *pointer, const struct catalogue_snapshot *snapshot,
                 struct faults *faults)
{
  char name[65] = "";
  const struct read_field field = {.kind = READ_NAME, .to = name, .size = sizeof name};
  struct catalogue_stack stack;
  if (json_is_object(value))
    stack_read(&stack, value, pointer, faults);
  else if (!json_is_string(value))
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL,
               "is %s; the name of a stack or {\"driver\", \"framework\", \"runtime\", \"kernels\"} is expected",
               read_type_name(value));
  else
    read_value(value, pointer, &field, faults);
  if (name[0] != '\0' && catalogue_find_stack(snapshot, name) == NULL)
    sketch_unknown_name(pointer, "stack", name, snapshot->stack_names, faults);
}

json_t *stack_write(const struct catalogue_stack *stack)
{
  json_t *object = json_object();
  for (int i = 0; i < STACK_PARTS; i++)
    if (stack->parts[i][0] != '\0')
      put_member(&object, names[i], write_text(stack->parts[i]));
  return object;
}
