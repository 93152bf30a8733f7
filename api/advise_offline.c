/* Advice without a server or a store, against the built-in catalogue: what `fitd advise CONFIG.json` runs. */
#include "api/advise.h"
#include "api/api.h"
#include "api/json_memory.h"
#include "api/problem.h"
#include "api/read.h"
#include "api/write.h"

#include <stdlib.h>
#include <string.h>

#define INSTANCE "/v1/advise"

static enum err problem(char **json, const struct error *e, const struct faults *faults, struct error *out)
{
  struct api_response response = {.status = 0};
  problem_of_error(&response, ERR_INVALID, e, faults, "offline", INSTANCE);
  *json = response.bytes;
  return *json != NULL ? ERR_INVALID : error_set(out, ERR_NOMEM, "", "not enough memory for the problem document");
}

static void read_options(struct advise_options *options, const char *traffic, const char *requests_per_s,
                         struct faults *faults)
{
  char *end = NULL;
  for (int i = 0; traffic != NULL && advise_traffic_names[i] != NULL; i++)
    if (strcmp(traffic, advise_traffic_names[i]) == 0) {
      options->traffic = i;
      traffic = NULL;
      break;
    }
  if (traffic != NULL)
    faults_add(faults, FAULT_UNKNOWN_VALUE, "?traffic", read_nearest(traffic, advise_traffic_names),
               "\"%.48s\" is none of chat, rag, code, batch", traffic);
  if (requests_per_s == NULL)
    return;
  options->requests_per_s = strtod(requests_per_s, &end);
  if (end == requests_per_s || *end != '\0' || !(options->requests_per_s >= 1e-9 && options->requests_per_s <= 1e9))
    faults_add(faults, FAULT_OUT_OF_RANGE, "?requests_per_s", NULL,
               "is no rate; a number over 0 up to 1e9 is expected");
}

static enum err advise(char **json, const json_t *config, struct advise_options *options, struct faults *faults,
                       struct error *e)
{
  const struct catalogue_snapshot *snapshot;
  struct catalogue *catalogue = NULL;
  json_t *document = NULL;
  enum err rc = catalogue_open(&catalogue, NULL, e);
  if (rc != ERR_OK)
    return rc;
  rc = catalogue_acquire(&snapshot, catalogue, e);
  if (rc == ERR_OK) {
    rc = faults->count == 0 ? advise_document(&document, config, options, snapshot, faults, e) : ERR_INVALID;
    catalogue_release(catalogue, snapshot);
  }
  if (rc == ERR_OK && (*json = json_memory_dumps(document, WRITE_FLAGS)) == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for the answer");
  json_decref(document);
  catalogue_close(catalogue);
  return rc;
}

enum err api_advise_offline(char **json, const void *body, size_t body_len, const char *traffic,
                            const char *requests_per_s, const struct api_deps *deps, struct error *e)
{
  struct advise_options options = {.arena_bytes = deps->arena_bytes};
  struct faults faults = {.count = 0};
  json_t *config = NULL;
  int line = 0, column = 0;
  enum err rc;
  *json = NULL;
  rc = read_json(&config, body, body_len, &line, &column, e);
  if (rc == ERR_INVALID)
    return problem(json, e, &faults, e);
  if (rc != ERR_OK)
    return rc;
  read_options(&options, traffic, requests_per_s, &faults);
  rc = advise(json, config, &options, &faults, e);
  json_decref(config);
  return rc == ERR_INVALID ? problem(json, e, &faults, e) : rc;
}

enum err api_advise_text(char **text, const char *json, struct error *e)
{
  json_t *document = json_loads(json, 0, NULL);
  *text = document != NULL ? advise_markdown(document) : NULL;
  json_decref(document);
  return *text != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "", "the advice can not be shown, or memory is out");
}
