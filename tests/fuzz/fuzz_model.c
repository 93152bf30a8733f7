/* Model bodies: a Hugging Face config or a native architecture. What is read without fault counts to something, and its
   native form reads back without fault. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(const struct model *model)
{
  static struct model again;
  static struct faults faults;
  json_t *native = architecture_write(model), *assumptions = json_array();
  if (native == NULL || assumptions == NULL)
    abort();
  faults.count = 0;
  architecture_read(&again, assumptions, native, "", &faults);
  if (faults.count != 0 || model_parameters_total(&again) != model_parameters_total(model))
    abort();
  json_decref(native);
  json_decref(assumptions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct faults faults;
  static struct model model;
  struct error e = {.code = ERR_OK};
  json_t *body = NULL, *assumptions = NULL, *derived;
  int line, column;
  if (read_json(&body, data, size, &line, &column, &e) != ERR_OK)
    return 0;
  faults.count = 0;
  faults.is_truncated = false;
  model_read(&model, &assumptions, body, "", &faults);
  for (size_t i = 0; i < faults.count; i++)
    if (faults.items[i].detail[0] == '\0')
      abort();
  if (faults.count == 0) {
    if (model_parameters_total(&model) == 0 || model_parameters_active(&model) > model_parameters_total(&model))
      abort();
    derived = model_derived_write(&model, assumptions);
    if (derived == NULL)
      abort();
    json_decref(derived);
    read_back(&model);
  }
  json_decref(assumptions);
  json_decref(body);
  return 0;
}
