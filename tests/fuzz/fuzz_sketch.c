/* Sketches against the built-in catalogue: read, and what reads without fault is evaluated on its first profile. Every refusal
   says where and why, every figure of a scorecard is a number or null. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluation.h"
#include "api/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)64 << 20)

static const struct catalogue_snapshot *snapshot_once(void)
{
  static const struct catalogue_snapshot *snapshot;
  static struct catalogue *catalogue;
  struct error e;
  if (snapshot == NULL &&
      (catalogue_open(&catalogue, NULL, &e) != ERR_OK || catalogue_acquire(&snapshot, catalogue, &e) != ERR_OK))
    abort();
  return snapshot;
}

static void check_faults(const struct faults *faults)
{
  for (size_t i = 0; i < faults->count; i++)
    if (faults->items[i].detail[0] == '\0')
      abort();
}

/* A refusal names a field; a card becomes JSON, which has no NaN. */
static void evaluate(const struct sketch *sketch)
{
  static void *memory;
  struct scorecard_identity identity = {.sketch = sketch, .profile = sketch->profiles[0]};
  struct scorecard card;
  struct arena arena;
  struct error e = {.code = ERR_OK};
  const struct fit_request request = {.workload = &sketch->workload,
                                      .model = &sketch->model,
                                      .hardware = &sketch->profiles[0]->hardware,
                                      .depth = FIT_QUICK,
                                      .draft_model = sketch->has_draft_model ? &sketch->draft_model : NULL};
  enum err err;
  if (memory == NULL && (memory = malloc(ARENA_BYTES)) == NULL)
    abort();
  arena_init(&arena, memory, ARENA_BYTES);
  err = fit_evaluate(&card, &request, &arena, &e);
  if (err == ERR_OK) {
    json_t *document = scorecard_write(&card, &identity);
    if (document == NULL)
      abort();
    json_decref(document);
  } else if (err != ERR_INVALID || e.message[0] == '\0') {
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct faults faults;
  static struct sketch sketch;
  struct error e = {.code = ERR_OK};
  json_t *body = NULL;
  int line, column;
  if (read_json(&body, data, size, &line, &column, &e) != ERR_OK) {
    if (e.message[0] == '\0')
      abort();
    return 0;
  }
  faults.count = 0;
  faults.is_truncated = false;
  sketch_read(&sketch, snapshot_once(), body, "", &faults);
  check_faults(&faults);
  if (faults.count == 0 && sketch.profile_count > 0)
    evaluate(&sketch);
  sketch_fini(&sketch);
  json_decref(body);
  return 0;
}
