/* The parsed catalogue: every stored profile, model and stack as structs, so that an evaluation parses none. A snapshot is
   immutable and shared by reference count; it is rebuilt when the store's catalogue version has moved.
   Threads: acquire and release from any thread. Private to api/. */
#ifndef FITD_API_CATALOGUE_H
#define FITD_API_CATALOGUE_H

#include <jansson.h>

#include "core/calibration.h"
#include "core/hardware.h"
#include "core/model.h"
#include "storage/store.h"

struct catalogue; /* the holder: one per struct api */

struct catalogue_profile {
  struct hardware hardware;
  int revision;
};
struct catalogue_model {
  char name[65];
  char alias[129]; /* Hugging Face id; "" = none */
  struct model model;
  int revision;
};
enum stack_part { STACK_DRIVER, STACK_FRAMEWORK, STACK_RUNTIME, STACK_KERNELS, STACK_PARTS };
struct catalogue_stack {
  char name[65];
  char parts[STACK_PARTS][128]; /* "" = not given */
  int revision;
};
struct catalogue_calibration {
  char id[37];
  char profile[65], model[129], stack[640]; /* model, stack "" = of any */
  struct calibration calibration;
};
struct catalogue_snapshot {
  unsigned references; /* guarded by the holder */
  size_t profile_count;
  struct catalogue_profile *profiles; /* sorted by name */
  size_t model_count;
  struct catalogue_model *models; /* sorted by name */
  size_t stack_count;
  struct catalogue_stack *stacks; /* sorted by name */
  size_t calibration_count;
  struct catalogue_calibration *calibrations; /* in use, newest first */
  bool is_seed_alone;                         /* without a store: what only a store can hold is not known */
  const char **profile_names;                 /* NULL-terminated, for suggestions */
  const char **model_names;                   /* names and aliases */
  const char **stack_names;
};

/* store NULL: the built-in seed alone. */
enum err catalogue_open(struct catalogue **out, struct store *store, struct error *e) MUST_CHECK;
void catalogue_close(struct catalogue *catalogue);

enum err catalogue_acquire(const struct catalogue_snapshot **out, struct catalogue *catalogue,
                           struct error *e) MUST_CHECK;
void catalogue_release(struct catalogue *catalogue, const struct catalogue_snapshot *snapshot);

/* NULL when unknown. Models are found by name, by alias (without case), or by a Hugging Face id whose plain form (no
   organisation, no "Meta-", "-Instruct", "-hf" …) is the name: such repositories share one architecture. */
const struct catalogue_profile *catalogue_find_profile(const struct catalogue_snapshot *snapshot, const char *name);
const struct catalogue_stack *catalogue_find_stack(const struct catalogue_snapshot *snapshot, const char *name);
/* The newest that matches; `stack` as store_measurement has it. */
const struct catalogue_calibration *catalogue_find_calibration(const struct catalogue_snapshot *snapshot,
                                                               const char *profile, const char *model,
                                                               const char *stack);
const struct catalogue_model *catalogue_find_model(const struct catalogue_snapshot *snapshot, const char *name);

/* The embedded seed files, generated at build time from deploy/catalog (build/gen/seed.c). */
struct catalogue_seed {
  const char *name;
  const char *json; /* profile document, or {"name","alias","hf_config"} for models */
};
extern const struct catalogue_seed catalogue_seed_profiles[]; /* ends with name NULL */
extern const struct catalogue_seed catalogue_seed_models[];

/* Writes the seed into the store: new names and new builtin revisions only. */
enum err catalogue_seed_store(struct store *store, int64_t now_ms, struct error *e) MUST_CHECK;

/* Documents ↔ core structs. Readers add faults with pointers under `pointer`. */

void profile_read(struct hardware *out, const json_t *document, const char *pointer, struct faults *faults);
json_t *profile_write(const struct hardware *hardware,
                      const json_t *source); /* normalised document, source's notes kept */

/* What is kept of a fit, from and to its document's members "factors" and "band_scale". False: not what we wrote. */
bool calibration_read(struct calibration *out, const json_t *document);
json_t *calibration_factors_write(const struct calibration *calibration);
json_t *calibration_bands_write(const struct calibration *calibration);

/* {"driver", "framework", "runtime", "kernels"}, at least one of them. */
void stack_read(struct catalogue_stack *out, const json_t *body, const char *pointer, struct faults *faults);
/* The name of a stored stack, or a stack in full. */
void stack_check(const json_t *value, const char *pointer, const struct catalogue_snapshot *snapshot,
                 struct faults *faults);
json_t *stack_write(const struct catalogue_stack *stack); /* the parts that are given; NULL when memory is out */

/* A model body: {"hf_config":…, "hf_quant_config"?:…} or {"architecture":…}. Assumptions (sentences) go to *assumptions, a
   JSON array the caller owns. api/hf_config.c, api/architecture.c. */
void model_read(struct model *out, json_t **assumptions, const json_t *body, const char *pointer,
                struct faults *faults);
void hf_config_read(struct model *out, json_t *assumptions, const json_t *config, const json_t *quant_config,
                    const char *pointer, struct faults *faults);
void architecture_read(struct model *out, json_t *assumptions, const json_t *architecture, const char *pointer,
                       struct faults *faults);
json_t *architecture_write(const struct model *model); /* the native object; architecture_read reads it back */
json_t *model_derived_write(const struct model *model, const json_t *assumptions); /* the answer's `derived` */

#endif
