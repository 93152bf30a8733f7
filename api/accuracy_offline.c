/* The entry of `fitd accuracy`: built-in catalogue, constants by file, one answer as JSON or Markdown. */
#include "api/accuracy.h"
#include "api/api.h"
#include "api/json_memory.h"
#include "api/read.h"
#include "api/write.h"

#include <stdlib.h>
#include <string.h>

/* {"scale_linear": 1.0, …}: the members that are given replace those of *constants. */
static void constants_read(struct step_constants *constants, const json_t *object, const char *pointer,
                           struct faults *faults)
{
  const struct read_field fields[] = {
#define STEP(member, unit, value, prior, spread, sentence)                                                             \
  {.name = #member, .kind = READ_NUMBER, .to = &constants->member, .min = 0, .max = 1e6},
#include "core/step.def"
#undef STEP
  };
  (void)read_object(object, pointer, fields, sizeof fields / sizeof fields[0], faults);
}

/* The constants of a fold start from those of the whole. */
static void fold_read(struct accuracy_fold *fold, const json_t *item, const char *pointer, struct faults *faults)
{
  const json_t *constants = json_object_get(item, "constants");
  const struct read_field fields[] = {
      {.name = "hw", .kind = READ_TEXT, .is_required = true, .to = fold->hardware, .size = sizeof fold->hardware},
      {.name = "model", .kind = READ_TEXT, .is_required = true, .to = fold->model, .size = sizeof fold->model},
      {.name = "constants", .kind = READ_IGNORE, .is_required = true},
  };
  char at[160];
  read_pointer(at, sizeof at, pointer, "constants");
  if (read_object(item, pointer, fields, sizeof fields / sizeof fields[0], faults) && constants != NULL)
    constants_read(&fold->constants, constants, at, faults);
}

static enum err folds_read(struct accuracy_fold **folds, size_t *fold_count, const struct step_constants *all,
                           const json_t *list, struct faults *faults, struct error *e)
{
  const size_t count = json_array_size(list);
  if (list != NULL && !json_is_array(list))
    faults_add(faults, FAULT_WRONG_TYPE, "/folds", NULL, "is %s; an array of folds is expected", read_type_name(list));
  *folds = calloc(count + 1, sizeof **folds);
  if (*folds == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the folds");
  for (*fold_count = 0; *fold_count < count; ++*fold_count) {
    struct accuracy_fold *fold = &(*folds)[*fold_count];
    char at[64];
    read_pointer_index(at, sizeof at, "/folds", *fold_count);
    fold->constants = *all;
    fold_read(fold, json_array_get(list, *fold_count), at, faults);
  }
  return ERR_OK;
}

/* {"constants": {…}?, "folds": [{"hw", "model", "constants"}]?}. */
static enum err parameters_read(struct step_constants *all, struct accuracy_fold **folds, size_t *fold_count,
                                const char *text, struct error *e)
{
  const struct read_field fields[] = {{.name = "constants", .kind = READ_IGNORE},
                                      {.name = "folds", .kind = READ_IGNORE}};
  struct faults faults = {.count = 0};
  json_t *document = NULL;
  const json_t *constants;
  int line, column;
  enum err err = read_json(&document, text, strlen(text), &line, &column, e);
  if (err != ERR_OK)
    return err;
  constants = json_object_get(document, "constants");
  if (read_object(document, "", fields, sizeof fields / sizeof fields[0], &faults) && constants != NULL)
    constants_read(all, constants, "/constants", &faults);
  err = folds_read(folds, fold_count, all, json_object_get(document, "folds"), &faults, e);
  if (err == ERR_OK && faults.count > 0)
    err = error_set(e, ERR_INVALID, faults.items[0].pointer, "%s: %s",
                    faults.items[0].pointer[0] != '\0' ? faults.items[0].pointer : "the parameters",
                    faults.items[0].detail);
  json_decref(document);
  return err;
}

struct lookup {
  char *(*load)(const char *name, void *cls);
  void *cls;
};

/* A config that the caller has under that name. One that can not be read is a fault: the catalogue's would be another
   model than the one that was asked for. */
static enum err find_model(struct model *out, bool *found, const char *name, void *cls, struct error *e)
{
  const struct lookup *lookup = cls;
  struct faults faults = {.count = 0};
  char *text = lookup->load(name, lookup->cls);
  json_t *config = NULL, *assumptions = json_array();
  int line, column;
  enum err err = ERR_OK;
  *found = text != NULL;
  if (text != NULL)
    err = read_json(&config, text, strlen(text), &line, &column, e);
  if (config != NULL && assumptions != NULL)
    hf_config_read(out, assumptions, config, NULL, "", &faults);
  if (assumptions == NULL)
    err = error_set(e, ERR_NOMEM, "", "not enough memory for a model");
  if (faults.count > 0)
    err = error_set(e, ERR_INVALID, faults.items[0].pointer, "config of %s: %s: %s", name, faults.items[0].pointer,
                    faults.items[0].detail);
  free(text);
  json_decref(assumptions);
  json_decref(config);
  return err;
}

static enum err write_answer(char **answer, const struct accuracy *accuracy, enum api_accuracy_form form,
                             struct error *e)
{
  json_t *document;
  switch (form) {
  case API_ACCURACY_TABLE: *answer = accuracy_write_text(accuracy); break;
  case API_ACCURACY_ROWS: *answer = accuracy_write_rows(accuracy); break;
  case API_ACCURACY_JSON:
    document = accuracy_write_json(accuracy);
    *answer = document != NULL ? json_memory_dumps(document, WRITE_FLAGS) : NULL;
    json_decref(document);
    break;
  }
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
    err = write_answer(answer, &accuracy, request->form, e);
    accuracy_fini(&accuracy);
  }
  if (snapshot != NULL)
    catalogue_release(catalogue, snapshot);
  if (catalogue != NULL)
    catalogue_close(catalogue);
  free(folds);
  return err;
}
