/* Both keep the one failure in mind by dropping the container. */
#include "api/put.h"

static void drop(json_t **container)
{
  json_decref(*container);
  *container = NULL;
}

void put_member(json_t **object, const char *name, json_t *value)
{
  if (*object == NULL)
    json_decref(value);
  else if (json_object_set_new(*object, name, value) != 0)
    drop(object);
}

void put_element(json_t **array, json_t *value)
{
  if (*array == NULL)
    json_decref(value);
  else if (json_array_append_new(*array, value) != 0)
    drop(array);
}
