/* The entry of `fitd accuracy`: built-in catalogue, constants by file, one answer as JSON or Markdown. */
#include "api/accuracy.h"
#include "api/api.h"
#include "api/read.h"
#include "api/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* {"scale_linear": 1.0, …}: the members that are given replace those of *constants. */
static void constants_read(struct step_constants *constants, const json_t *object, const char *pointer,
                           struct faults *faults)
{
  const struct read_field fields[] = {
#define STEP(member, unit, value, spread, sentence)                                                                    \
  {.name = #member, .kind = READ_NUMBER, .to = &constants->member, .min = 0, .max = 1e6},
#include "core/step.def"
#undef STEP
  };
  (void)read_object(object, pointer, fields, sizeof fields / sizeof fields[0], faults);
}

static void fold_read(struct accuracy_fold *fold, const json_t *item, const char *pointer, struct faults *faults)
{
  const json_t *constants = json_object_get(item, "constants");
  const char *hardware = json_string_value(json_object_get(item, "hw"));
  const char *model = json_string_value(json_object_get(item, "model"));
  char at[160];
  read_pointer(at, sizeof at, pointer, "constants");
  if (hardware == NULL || model == NULL)
    faults_add(faults, FAULT_MISSING, pointer, NULL, "a fold names the left-out \"hw\" and \"model\"");
  (void)snprintf(fold->hardware, sizeof fold->hardware, "%s", hardware != NULL ? hardware : "");
  (void)snprintf(fold->model, sizeof fold->model, "%s", model != NULL ? model : "");
  constants_read(&fold->constants, constants, at, faults);
}

/* {"constants": {…}?, "folds": [{"hw", "model", "constants"}]?}. */
static enum err parameters_read(struct step_constants *all, struct accuracy_fold **folds, size_t *fold_count,
                                const char *text, struct error *e)
{
  struct faults faults = {.count = 0};
  json_t *document = NULL;
  const json_t *constants, *list;
  int line, column;
  enum err err = read_json(&document, text, strlen(text), &line, &column, e);
  if (err != ERR_OK)
    return err;
  constants = json_object_get(document, "constants");
  list = json_object_get(document, "folds");
  if (constants != NULL)
    constants_read(all, constants, "/constants", &faults);
  *folds = calloc(json_array_size(list) + 1, sizeof **folds);
  if (*folds == NULL)
    err = error_set(e, ERR_NOMEM, "", "not enough memory for the folds");
  for (size_t i = 0; err == ERR_OK && i < json_array_size(list); i++) {
    char at[64];
    (void)snprintf(at, sizeof at, "/folds/%zu", i);
    (*folds)[i].constants = *all;
    fold_read(&(*folds)[(*fold_count)++], json_array_get(list, i), at, &faults);
  }
  if (err == ERR_OK && faults.count > 0)
    err = error_set(e, ERR_INVALID, faults.items[0].pointer, "%s", faults.items[0].detail);
  json_decref(document);
  return err;
}

struct lookup {
  char *(*load)(const char *name, void *cls);
  void *cls;
};

/* A config that the caller has under that name; false when it has none or it can not be read. */
static bool find_model(struct model *out, const char *name, void *cls)
{
  const struct lookup *lookup = cls;
  struct faults faults = {.count = 0};
  char *text = lookup->load(name, lookup->cls);
  json_t *config = text != NULL ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
  json_t *assumptions = json_array();
  if (config != NULL && assumptions != NULL)
    hf_config_read(out, assumptions, config, NULL, "/hf_config", &faults);
  free(text);
  json_decref(assumptions);
  json_decref(config);
  return config != NULL && faults.count == 0;
}

static enum err write_answer(char **answer, const struct accuracy *accuracy, bool is_json, struct error *e)
{
  json_t *document = is_json ? accuracy_write_json(accuracy) : NULL;
  if (is_json)
    *answer = document != NULL ? json_dumps(document, WRITE_FLAGS) : NULL;
  else
    *answer = accuracy_write_text(accuracy);
  json_decref(document);
  return *answer != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "", "not enough memory for the report");
}

enum err api_accuracy(char **answer, const struct api_accuracy *request, struct error *e)
{
  struct step_constants all = step_constants_default;
  struct accuracy_constants constants = {&all, NULL, 0};
  struct lookup lookup = {request->load_model, request->cls};
  struct accuracy_fold *folds = NULL;
  struct catalogue *catalogue = NULL;
  const struct catalogue_snapshot *snapshot = NULL;
  struct accuracy accuracy;
  enum err err = ERR_OK;
  *answer = NULL;
  if (request->parameters != NULL)
    err = parameters_read(&all, &folds, &constants.fold_count, request->parameters, e);
  constants.folds = folds;
  if (err == ERR_OK)
    err = catalogue_open(&catalogue, NULL, e);
  if (err == ERR_OK)
    err = catalogue_acquire(&snapshot, catalogue, e);
  if (err == ERR_OK)
    err = accuracy_run(&accuracy, request->csv, request->csv_len, snapshot, &constants,
                       request->load_model != NULL ? find_model : NULL, &lookup, e);
  if (err == ERR_OK) {
    err = write_answer(answer, &accuracy, request->is_json, e);
    accuracy_fini(&accuracy);
  }
  if (snapshot != NULL)
    catalogue_release(catalogue, snapshot);
  if (catalogue != NULL)
    catalogue_close(catalogue);
  free(folds);
  return err;
}
