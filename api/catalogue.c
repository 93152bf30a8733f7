/* The parsed catalogue: built from the store's newest revisions (or from the embedded seed), shared between threads,
   rebuilt when the store says that something changed. Also what brings the seed into the store. */
#include "api/catalogue.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/document.h"
#include "api/read.h"

#define PAGE_ROWS 200

struct live_snapshot {
  struct catalogue_snapshot snapshot;
  struct live_snapshot *next;
};

struct catalogue {
  pthread_mutex_t lock;
  struct store *store;                          /* NULL: the seed alone */
  struct live_snapshot *live;                   /* the first one is current, the others are still in use somewhere */
  uint64_t versions[STORE_CATALOGUE_COUNT + 1]; /* of the current one; calibrations last */
};

/* ---- One document --------------------------------------------------------------------------------------------------- */

/* A document of ours that can not be read is our mistake, not the client's: say which and why. */
static enum err unreadable(const char *noun, const char *name, const struct faults *faults, struct error *e)
{
  return error_set(e, ERR_INTERNAL, "", "the stored %s \"%s\" can not be read: %.100s: %.160s", noun, name,
                   faults->items[0].pointer, faults->items[0].detail);
}

static enum err parse(json_t **out, const char *noun, const char *name, const char *text, struct error *e)
{
  json_error_t problem;
  *out = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
  if (*out == NULL)
    return error_set(e, ERR_INTERNAL, "", "the stored %s \"%s\" is not JSON: line %d: %.120s", noun, name, problem.line,
                     problem.text);
  return ERR_OK;
}

static enum err read_profile_row(struct catalogue_profile *out, const char *name, const json_t *document,
                                 struct error *e)
{
  struct faults faults = {.count = 0};
  json_t *body = document_strip(&document_profiles, document);
  if (body == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  profile_read(&out->hardware, body, "", &faults);
  json_decref(body);
  if (faults.count > 0)
    return unreadable("profile", name, &faults, e);
  (void)snprintf(out->hardware.name, sizeof out->hardware.name, "%s", name);
  return ERR_OK;
}

static enum err read_model_row(struct catalogue_model *out, const char *name, const json_t *document, struct error *e)
{
  struct faults faults = {.count = 0};
  json_t *assumptions = NULL;
  model_document_read(&out->model, out->alias, &assumptions, document, &faults);
  json_decref(assumptions);
  if (faults.count > 0)
    return unreadable("model", name, &faults, e);
  (void)snprintf(out->name, sizeof out->name, "%s", name);
  (void)snprintf(out->model.name, sizeof out->model.name, "%s", name);
  (void)snprintf(out->model.hf_id, sizeof out->model.hf_id, "%s", out->alias);
  return ERR_OK;
}

static enum err read_stack_row(struct catalogue_stack *out, const char *name, const json_t *document, struct error *e)
{
  struct faults faults = {.count = 0};
  stack_read(out, document, "", &faults);
  if (faults.count > 0)
    return unreadable("stack", name, &faults, e);
  (void)snprintf(out->name, sizeof out->name, "%s", name);
  return ERR_OK;
}

/* ---- Snapshots ------------------------------------------------------------------------------------------------------ */

static void snapshot_free(struct live_snapshot *live)
{
  free(live->snapshot.profiles);
  free(live->snapshot.models);
  free(live->snapshot.stacks);
  free(live->snapshot.calibrations);
  free(live->snapshot.profile_names);
  free(live->snapshot.model_names);
  free(live->snapshot.stack_names);
  free(live);
}

/* One more zeroed element at the end of an array that grows in powers of two. */
static void *array_grow(void *array, size_t count, size_t size)
{
  unsigned char *grown = array;
  if ((count & (count - 1)) == 0) { /* 0, 1, 2, 4, …: full */
    grown = realloc(array, (count == 0 ? 1 : 2 * count) * size);
    if (grown == NULL)
      return NULL;
  }
  memset(grown + count * size, 0, size);
  return grown;
}

static enum err add_profile(struct catalogue_snapshot *snapshot, const char *name, int revision, const json_t *document,
                            struct error *e)
{
  struct catalogue_profile *row, *rows = array_grow(snapshot->profiles, snapshot->profile_count, sizeof *rows);
  enum err code;
  if (rows == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  snapshot->profiles = rows;
  row = &rows[snapshot->profile_count];
  row->revision = revision;
  code = read_profile_row(row, name, document, e);
  if (code == ERR_OK)
    snapshot->profile_count++;
  return code;
}

static enum err add_model(struct catalogue_snapshot *snapshot, const char *name, int revision, const json_t *document,
                          struct error *e)
{
  struct catalogue_model *row, *rows = array_grow(snapshot->models, snapshot->model_count, sizeof *rows);
  enum err code;
  if (rows == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  snapshot->models = rows;
  row = &rows[snapshot->model_count];
  row->revision = revision;
  code = read_model_row(row, name, document, e);
  if (code == ERR_OK)
    snapshot->model_count++;
  return code;
}

static enum err add_stack(struct catalogue_snapshot *snapshot, const char *name, int revision, const json_t *document,
                          struct error *e)
{
  struct catalogue_stack *row, *rows = array_grow(snapshot->stacks, snapshot->stack_count, sizeof *rows);
  enum err code;
  if (rows == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  snapshot->stacks = rows;
  row = &rows[snapshot->stack_count];
  row->revision = revision;
  code = read_stack_row(row, name, document, e);
  if (code == ERR_OK)
    snapshot->stack_count++;
  return code;
}

static const struct catalogue_seed no_seed[] = {{NULL, NULL}};

/* What a snapshot is filled with, in this order. */
static const struct family {
  const char *noun;
  enum store_catalogue kind;
  const struct catalogue_seed *seed;
  enum err (*add)(struct catalogue_snapshot *snapshot, const char *name, int revision, const json_t *document,
                  struct error *e);
} families[] = {{"profile", STORE_PROFILE, catalogue_seed_profiles, add_profile},
                {"model", STORE_MODEL, catalogue_seed_models, add_model},
                {"stack", STORE_STACK, no_seed, add_stack}};

static enum err add_text(struct catalogue_snapshot *snapshot, const struct family *family, const char *name,
                         int revision, const char *text, struct error *e)
{
  json_t *document;
  enum err code = parse(&document, family->noun, name, text, e);
  if (code == ERR_OK)
    code = family->add(snapshot, name, revision, document, e);
  json_decref(document);
  return code;
}

static enum err add_stored(struct catalogue_snapshot *snapshot, struct store *store, const struct family *family,
                           struct error *e)
{
  struct store_page page = {.limit = PAGE_ROWS, .ascending = true};
  bool has_more = true;
  enum err code = ERR_OK;
  while (has_more && code == ERR_OK) {
    struct store_documents list = {.rows = NULL};
    size_t i;
    code = store_document_list(store, &list, family->kind, &page, e);
    for (i = 0; i < list.count && code == ERR_OK; i++)
      code = add_text(snapshot, family, list.rows[i].name, list.rows[i].revision, list.rows[i].source, e);
    has_more = list.has_more && list.count > 0;
    if (has_more)
      (void)snprintf(page.after, sizeof page.after, "%s", list.rows[list.count - 1].name);
    store_documents_fini(&list);
  }
  return code;
}

static enum err add_calibration(struct catalogue_snapshot *snapshot, const struct store_calibration *stored,
                                struct error *e)
{
  struct catalogue_calibration *row,
      *rows = array_grow(snapshot->calibrations, snapshot->calibration_count, sizeof *rows);
  json_t *document;
  bool is_read;
  if (rows == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  snapshot->calibrations = rows;
  row = &rows[snapshot->calibration_count];
  document = json_loads(stored->document, 0, NULL);
  is_read = calibration_read(&row->calibration, document);
  json_decref(document);
  if (!is_read)
    return error_set(e, ERR_INTERNAL, "", "the stored calibration %s can not be read", stored->id);
  (void)snprintf(row->id, sizeof row->id, "%s", stored->id);
  (void)snprintf(row->profile, sizeof row->profile, "%s", stored->profile);
  (void)snprintf(row->model, sizeof row->model, "%s", stored->model);
  (void)snprintf(row->stack, sizeof row->stack, "%s", stored->stack);
  snapshot->calibration_count++;
  return ERR_OK;
}

static enum err add_calibrations(struct catalogue_snapshot *snapshot, struct store *store, struct error *e)
{
  const struct store_history_filter filter = {.workload = NULL};
  struct store_page page = {.limit = PAGE_ROWS};
  bool has_more = true;
  enum err code = ERR_OK;
  while (has_more && code == ERR_OK) {
    struct store_calibrations list;
    code = store_calibration_list(store, &list, &filter, true, &page, e);
    for (size_t i = 0; i < list.count && code == ERR_OK; i++)
      code = add_calibration(snapshot, &list.rows[i], e);
    has_more = list.has_more && list.count > 0;
    if (has_more)
      (void)snprintf(page.after, sizeof page.after, "%s", list.rows[list.count - 1].id);
    store_calibrations_fini(&list);
  }
  return code;
}

static enum err add_seed(struct catalogue_snapshot *snapshot, const struct family *family, struct error *e)
{
  const struct catalogue_seed *seed = family->seed;
  enum err code = ERR_OK;
  for (; seed->name != NULL && code == ERR_OK; seed++)
    code = add_text(snapshot, family, seed->name, 1, seed->json, e);
  return code;
}

static int compare_profiles(const void *a, const void *b)
{
  const struct catalogue_profile *left = a, *right = b;
  return strcmp(left->hardware.name, right->hardware.name);
}

static int compare_models(const void *a, const void *b)
{
  const struct catalogue_model *left = a, *right = b;
  return strcmp(left->name, right->name);
}

static int compare_stacks(const void *a, const void *b)
{
  const struct catalogue_stack *left = a, *right = b;
  return strcmp(left->name, right->name);
}

static enum err index_stacks(struct catalogue_snapshot *snapshot, struct error *e)
{
  snapshot->stack_names = calloc(snapshot->stack_count + 1, sizeof *snapshot->stack_names);
  if (snapshot->stack_names == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  if (snapshot->stack_count > 0)
    qsort(snapshot->stacks, snapshot->stack_count, sizeof *snapshot->stacks, compare_stacks);
  for (size_t i = 0; i < snapshot->stack_count; i++)
    snapshot->stack_names[i] = snapshot->stacks[i].name;
  return ERR_OK;
}

static enum err index_names(struct catalogue_snapshot *snapshot, struct error *e)
{
  size_t i, count = 0;
  snapshot->profile_names = calloc(snapshot->profile_count + 1, sizeof *snapshot->profile_names);
  snapshot->model_names = calloc(2 * snapshot->model_count + 1, sizeof *snapshot->model_names);
  if (snapshot->profile_names == NULL || snapshot->model_names == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  if (snapshot->profile_count > 0)
    qsort(snapshot->profiles, snapshot->profile_count, sizeof *snapshot->profiles, compare_profiles);
  if (snapshot->model_count > 0)
    qsort(snapshot->models, snapshot->model_count, sizeof *snapshot->models, compare_models);
  for (i = 0; i < snapshot->profile_count; i++)
    snapshot->profile_names[i] = snapshot->profiles[i].hardware.name;
  for (i = 0; i < snapshot->model_count; i++)
    snapshot->model_names[count++] = snapshot->models[i].name;
  for (i = 0; i < snapshot->model_count; i++)
    if (snapshot->models[i].alias[0] != '\0')
      snapshot->model_names[count++] = snapshot->models[i].alias;
  return ERR_OK;
}

static enum err snapshot_fill(struct catalogue_snapshot *snapshot, struct store *store, struct error *e)
{
  enum err code = ERR_OK;
  for (size_t i = 0; i < sizeof families / sizeof families[0] && code == ERR_OK; i++)
    code = store != NULL ? add_stored(snapshot, store, &families[i], e) : add_seed(snapshot, &families[i], e);
  snapshot->is_seed_alone = store == NULL;
  if (code == ERR_OK && store != NULL)
    code = add_calibrations(snapshot, store, e);
  if (code == ERR_OK)
    code = index_names(snapshot, e);
  return code == ERR_OK ? index_stacks(snapshot, e) : code;
}

/* ---- The holder ----------------------------------------------------------------------------------------------------- */

enum err catalogue_open(struct catalogue **out, struct store *store, struct error *e)
{
  struct catalogue *catalogue = calloc(1, sizeof *catalogue);
  *out = NULL;
  if (catalogue == NULL || pthread_mutex_init(&catalogue->lock, NULL) != 0) {
    free(catalogue);
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  }
  catalogue->store = store;
  *out = catalogue;
  return ERR_OK;
}

void catalogue_close(struct catalogue *catalogue)
{
  struct live_snapshot *live, *next;
  if (catalogue == NULL)
    return;
  for (live = catalogue->live; live != NULL; live = next) {
    next = live->next;
    snapshot_free(live);
  }
  (void)pthread_mutex_destroy(&catalogue->lock);
  free(catalogue);
}

/* Frees what neither is current nor used. */
static void sweep(const struct catalogue *catalogue)
{
  struct live_snapshot *kept = catalogue->live, *live;
  while (kept != NULL && kept->next != NULL) {
    live = kept->next;
    if (live->snapshot.references == 0) {
      kept->next = live->next;
      snapshot_free(live);
    } else {
      kept = live;
    }
  }
}

/* The versions are read before the rows: a change in between makes the snapshot look old, never fresh. */
static enum err refresh(struct catalogue *catalogue, struct error *e)
{
  struct store *store = catalogue->store;
  uint64_t versions[STORE_CATALOGUE_COUNT + 1] = {0};
  struct live_snapshot *live;
  enum err code;
  for (size_t i = 0; store != NULL && i < sizeof families / sizeof families[0]; i++)
    versions[families[i].kind] = store_catalogue_version(store, families[i].kind);
  if (store != NULL)
    versions[STORE_CATALOGUE_COUNT] = store_calibration_version(store);
  if (catalogue->live != NULL && memcmp(versions, catalogue->versions, sizeof versions) == 0)
    return ERR_OK;
  live = calloc(1, sizeof *live);
  if (live == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  code = snapshot_fill(&live->snapshot, store, e);
  if (code != ERR_OK) {
    snapshot_free(live);
    return code;
  }
  live->next = catalogue->live;
  catalogue->live = live;
  memcpy(catalogue->versions, versions, sizeof versions);
  sweep(catalogue);
  return ERR_OK;
}

enum err catalogue_acquire(const struct catalogue_snapshot **out, struct catalogue *catalogue, struct error *e)
{
  enum err code;
  *out = NULL;
  (void)pthread_mutex_lock(&catalogue->lock);
  code = refresh(catalogue, e);
  if (code == ERR_OK) {
    catalogue->live->snapshot.references++;
    *out = &catalogue->live->snapshot;
  }
  (void)pthread_mutex_unlock(&catalogue->lock);
  return code;
}

void catalogue_release(struct catalogue *catalogue, const struct catalogue_snapshot *snapshot)
{
  struct live_snapshot *live;
  if (snapshot == NULL)
    return;
  (void)pthread_mutex_lock(&catalogue->lock);
  for (live = catalogue->live; live != NULL && &live->snapshot != snapshot; live = live->next)
    ;
  if (live != NULL)
    live->snapshot.references--;
  sweep(catalogue);
  (void)pthread_mutex_unlock(&catalogue->lock);
}

/* ---- Seed ----------------------------------------------------------------------------------------------------------- */

static enum err seed_profile_row(struct store_document *out, const struct catalogue_seed *seed, int64_t now_ms,
                                 struct error *e)
{
  struct catalogue_profile row;
  json_t *document = NULL, *body = NULL, *answer = NULL;
  enum err code = parse(&document, "profile", seed->name, seed->json, e);
  if (code == ERR_OK)
    code = read_profile_row(&row, seed->name, document, e);
  if (code == ERR_OK) {
    body = document_strip(&document_profiles, document);
    answer = profile_write(&row.hardware, body);
    code = body == NULL || answer == NULL ? error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue")
                                          : document_row(out, seed->name, "", body, answer, now_ms, e);
  }
  json_decref(answer);
  json_decref(body);
  json_decref(document);
  return code;
}

static enum err seed_model_row(struct store_document *out, const struct catalogue_seed *seed, int64_t now_ms,
                               struct error *e)
{
  struct faults faults = {.count = 0};
  struct model *model = calloc(1, sizeof *model);
  json_t *document = NULL, *body = NULL, *answer = NULL, *assumptions = NULL;
  char alias[129];
  enum err code = model != NULL ? parse(&document, "model", seed->name, seed->json, e) : ERR_NOMEM;
  if (code != ERR_OK)
    goto out;
  model_document_read(model, alias, &assumptions, document, &faults);
  if (faults.count > 0) {
    code = unreadable("model", seed->name, &faults, e);
    goto out;
  }
  (void)snprintf(model->name, sizeof model->name, "%s", seed->name);
  body = document_strip(&document_models, document);
  answer = model_document_write(model, alias, assumptions);
  code = body == NULL || answer == NULL ? error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue")
                                        : document_row(out, seed->name, alias, body, answer, now_ms, e);
out:
  json_decref(answer);
  json_decref(body);
  json_decref(assumptions);
  json_decref(document);
  free(model);
  return code;
}

static size_t seed_count(const struct catalogue_seed *seed)
{
  size_t count = 0;
  while (seed[count].name != NULL)
    count++;
  return count;
}

struct seed_work {
  size_t profile_count, count;
  struct store_document *rows; /* profiles first */
};

static enum err seed_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct seed_work *work = cls;
  enum err code = ERR_OK;
  size_t i;
  for (i = 0; i < work->count && code == ERR_OK; i++)
    code = store_document_put(tx, i < work->profile_count ? STORE_PROFILE : STORE_MODEL, &work->rows[i], -1, NULL, NULL,
                              NULL, e);
  return code;
}

enum err catalogue_seed_store(struct store *store, int64_t now_ms, struct error *e)
{
  struct seed_work work = {.profile_count = seed_count(catalogue_seed_profiles)};
  const size_t total = work.profile_count + seed_count(catalogue_seed_models);
  enum err code = ERR_OK;
  size_t i;
  work.rows = calloc(total + 1, sizeof *work.rows);
  if (work.rows == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the catalogue");
  for (; work.count < total && code == ERR_OK; work.count++) {
    struct store_document *row = &work.rows[work.count];
    if (work.count < work.profile_count)
      code = seed_profile_row(row, &catalogue_seed_profiles[work.count], now_ms, e);
    else
      code = seed_model_row(row, &catalogue_seed_models[work.count - work.profile_count], now_ms, e);
    row->is_builtin = true;
  }
  if (code == ERR_OK)
    code = store_write(store, "seed", seed_work, &work, e);
  for (i = 0; i < work.count; i++)
    store_document_fini(&work.rows[i]);
  free(work.rows);
  return code;
}
