/* A stack: what runs beneath the model, in the words of whoever runs it. */
#include "api/catalogue.h"

#include "api/put.h"
#include "api/read.h"
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

json_t *stack_write(const struct catalogue_stack *stack)
{
  json_t *object = json_object();
  for (int i = 0; i < STACK_PARTS; i++)
    if (stack->parts[i][0] != '\0')
      put_member(&object, names[i], write_text(stack->parts[i]));
  return object;
}
