/* A stored scorecard's inputs: its evaluation's sketch, read with exactly the model and profile that it was made with. */
#include "api/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/card_table.h"
#include "api/derate.h"
#include "api/document.h"
#include "api/trace.h"

static enum err no_memory(struct error *e)
{
  return error_set(e, ERR_NOMEM, "", "not enough memory to explain the scorecard");
}

static const char *text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "";
}

static int count_of(const json_t *card, const char *path)
{
  return (int)json_integer_value(card_at(card, path));
}

/* One revision of a catalogue document as it was sent. */
static enum err load_source(json_t **out, struct store *store, enum store_catalogue kind, const char *name,
                            int revision, struct error *e)
{
  struct store_document row = {.name = NULL};
  enum err rc = store_document_get(store, &row, kind, name, revision, e);
  *out = rc == ERR_OK ? json_loads(row.source, 0, NULL) : NULL;
  store_document_fini(&row);
  if (rc == ERR_OK && *out == NULL)
    rc = error_set(e, ERR_INTERNAL, "", "revision %d of \"%s\" is not JSON, or memory is out", revision, name);
  return rc;
}

static enum err unreadable(const char *what, const struct faults *faults, struct error *e)
{
  return error_set(e, ERR_CONFLICT, "", "this version can not read the %s of the scorecard: %.100s: %.160s", what,
                   faults->items[0].pointer, faults->items[0].detail);
}

/* As the nodes delivered it when the figures were made. */
static void apply_live(struct hardware *hardware, const json_t *card)
{
  const json_t *live = json_object_get(card, "live_hardware");
  struct derate derate;
  if (live == NULL)
    return;
  derate_read(&derate, live);
  derate_apply(hardware, &derate);
}

static enum err load_profile(struct explain_inputs *out, struct store *store, struct error *e)
{
  const char *name = text_of(out->card, "profile");
  struct faults faults = {.count = 0};
  json_t *source = NULL, *body = NULL;
  enum err rc;
  out->profile.revision = count_of(out->card, "profile_revision");
  rc = load_source(&source, store, STORE_PROFILE, name, out->profile.revision, e);
  if (rc != ERR_OK)
    return rc;
  body = document_strip(&document_profiles, source);
  if (body == NULL)
    rc = no_memory(e);
  else
    profile_read(&out->profile.hardware, body, "", &faults);
  apply_live(&out->profile.hardware, out->card);
  if (faults.count > 0)
    rc = unreadable("profile", &faults, e);
  (void)snprintf(out->profile.hardware.name, sizeof out->profile.hardware.name, "%s", name);
  json_decref(body);
  json_decref(source);
  return rc;
}

/* Over what the sketch found under that name today. Models given inline are read from the sketch. */
static enum err load_model(struct explain_inputs *out, struct store *store, struct error *e)
{
  const char *name = text_of(out->card, "model");
  const int revision = count_of(out->card, "model_revision");
  struct faults faults = {.count = 0};
  json_t *source = NULL, *assumptions = NULL;
  char alias[129];
  enum err rc;
  if (revision == 0 || revision == out->sketch.model_revision)
    return ERR_OK;
  rc = load_source(&source, store, STORE_MODEL, name, revision, e);
  if (rc != ERR_OK)
    return rc;
  model_document_read(&out->sketch.model, alias, &assumptions, source, &faults);
  if (faults.count > 0)
    rc = unreadable("model", &faults, e);
  (void)snprintf(out->sketch.model.name, sizeof out->sketch.model.name, "%s", name);
  out->sketch.model_revision = revision;
  json_decref(assumptions);
  json_decref(source);
  return rc;
}

/* The sketch for this profile alone: what it says about others may name what is no longer stored. */
static enum err narrow(json_t *body, const json_t *card, struct error *e)
{
  const char *profile = text_of(card, "profile");
  json_t *constraints = json_object_get(body, "constraints");
  json_t *price = json_incref(json_object_get(json_object_get(constraints, "prices"), profile));
  bool is_failed = json_object_set_new(body, "profiles", json_pack("[s]", profile)) != 0;
  if (count_of(card, "model_revision") > 0)
    is_failed = json_object_set(body, "model", json_object_get(card, "model")) != 0 || is_failed;
  if (price != NULL)
    is_failed = json_object_set_new(constraints, "prices", json_pack("{s:O}", profile, price)) != 0 || is_failed;
  else
    (void)json_object_del(constraints, "prices"); /* -1 when absent, which is as good */
  json_decref(price);
  return is_failed ? no_memory(e) : ERR_OK;
}

/* Today's catalogue with the scorecard's revision of its profile: whatever the sketch names is looked up in there. */
static enum err read_sketch(struct explain_inputs *out, const struct catalogue_snapshot *today, const json_t *body,
                            struct error *e)
{
  struct catalogue_snapshot then = *today;
  struct faults *faults = calloc(1, sizeof *faults);
  enum err rc = ERR_OK;
  then.profiles = calloc(today->profile_count + 1, sizeof *then.profiles);
  if (faults == NULL || then.profiles == NULL) {
    rc = no_memory(e);
    goto out;
  }
  for (size_t i = 0; i < today->profile_count; i++) {
    const bool is_it = strcmp(today->profiles[i].hardware.name, out->profile.hardware.name) == 0;
    then.profiles[i] = is_it ? out->profile : today->profiles[i];
  }
  sketch_read(&out->sketch, &then, body, "", faults);
  if (faults->count > 0)
    rc = unreadable("sketch", faults, e);
out:
  free(then.profiles);
  free(faults);
  return rc;
}

static enum err load_sketch(struct explain_inputs *out, struct api_call *call, struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  struct store_evaluation row = {.id = NULL};
  json_t *body = NULL;
  enum err rc = store_evaluation_get(call_store(call), &row, text_of(out->card, "evaluation"), e);
  if (rc != ERR_OK)
    return rc;
  body = json_loads(row.sketch, 0, NULL);
  store_evaluation_fini(&row);
  if (body == NULL)
    return error_set(e, ERR_INTERNAL, "", "a stored sketch can not be parsed, or memory is out");
  rc = narrow(body, out->card, e);
  if (rc == ERR_OK)
    rc = catalogue_acquire(&snapshot, call_catalogue(call), e);
  if (rc == ERR_OK) {
    rc = read_sketch(out, snapshot, body, e);
    catalogue_release(call_catalogue(call), snapshot);
  }
  json_decref(body);
  return rc;
}

/* The requests that were replayed then, whatever the trace's name refers to today. */
static enum err load_trace(struct explain_inputs *out, struct store *store, struct error *e)
{
  char digest[WRITE_DIGEST_SIZE];
  const struct store_trace row = {.digest = digest};
  (void)snprintf(digest, sizeof digest, "%s", text_of(out->card, "trace_digest"));
  return digest[0] != '\0' ? trace_replay_load(&out->sketch, store, &row, e) : ERR_OK;
}

static void read_configuration(struct explain_inputs *out)
{
  const json_t *from = json_object_get(out->card, "configuration");
  out->has_configuration = json_is_object(from);
  out->configuration =
      (struct explain_configuration){.tensor_parallel = (unsigned)count_of(from, "tensor_parallel"),
                                     .pipeline_parallel = (unsigned)count_of(from, "pipeline_parallel"),
                                     .expert_parallel = (unsigned)count_of(from, "expert_parallel"),
                                     .attention_data_parallel = (unsigned)count_of(from, "attention_data_parallel"),
                                     .replicas = (unsigned)count_of(from, "replicas"),
                                     .max_batch = (unsigned)count_of(from, "max_batch")};
}

static enum err load_calibration(struct explain_inputs *out, struct store *store, struct error *e)
{
  const char *id = json_string_value(card_at(out->card, "provenance.calibration"));
  struct store_calibration row;
  json_t *document;
  enum err rc;
  if (id == NULL)
    return ERR_OK;
  rc = store_calibration_get(store, &row, id, e);
  if (rc != ERR_OK)
    return rc;
  document = json_loads(row.document, 0, NULL);
  out->has_calibration = calibration_read(&out->calibration, document);
  if (!out->has_calibration)
    rc = error_set(e, ERR_INTERNAL, "", "the stored calibration %s can not be read, or memory is out", id);
  json_decref(document);
  store_calibration_fini(&row);
  return rc;
}

enum err explain_load(struct explain_inputs *out, struct api_call *call, const char *id, struct error *e)
{
  char *text = NULL;
  size_t length;
  enum err rc = store_scorecard_document(call_store(call), &text, &length, id, e);
  memset(out, 0, sizeof *out);
  if (rc != ERR_OK)
    return rc;
  out->card = json_loadb(text, length, 0, NULL);
  free(text);
  if (out->card == NULL)
    return error_set(e, ERR_INTERNAL, "", "a stored scorecard can not be parsed, or memory is out");
  read_configuration(out);
  rc = load_profile(out, call_store(call), e);
  if (rc == ERR_OK)
    rc = load_sketch(out, call, e);
  if (rc == ERR_OK)
    rc = load_model(out, call_store(call), e);
  if (rc == ERR_OK)
    rc = load_trace(out, call_store(call), e);
  if (rc == ERR_OK)
    rc = load_calibration(out, call_store(call), e);
  return rc;
}

void explain_inputs_fini(struct explain_inputs *inputs)
{
  json_decref(inputs->card);
  sketch_fini(&inputs->sketch);
}
