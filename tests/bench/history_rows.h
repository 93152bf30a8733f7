/* The rows of bench_history: evaluations of four profiles with the documents of a real one. Header only. */
#ifndef FITD_TESTS_BENCH_HISTORY_ROWS_H
#define FITD_TESTS_BENCH_HISTORY_ROWS_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "server/deps.h"
#include "storage/store.h"

#define PROFILES 4
#define WORKLOADS 25

static const char *const profiles[PROFILES] = {"h100-sxm-80gb", "h200-sxm-141gb", "l40s-48gb", "a100-sxm-80gb"};
static char documents[PROFILES][16384], head[8192], sketch[2048];
static char text_model[] = "llama-3.1-70b", text_fit[] = "fit", text_none[] = "", text_digest[] = "sha256:0",
            text_version[] = "0.1.0", text_nightly[] = "nightly";
static struct store_scorecard shape[PROFILES]; /* figures of each */
static int64_t begin_ms, step_ms;              /* of the first evaluation; between two */

static _Noreturn void fail(const char *what, const char *why)
{
  (void)fprintf(stderr, "bench_history: %s: %s\n", what, why);
  exit(2);
}

static int64_t unix_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Evaluation i and its cards (place 1 …), by the time of i. */
static void make_id(char id[37], int64_t time_ms, unsigned i, unsigned place)
{
  (void)snprintf(id, 37, "%08x-%04x-7%03x-8000-%04x%08x", (unsigned)(time_ms >> 16), (unsigned)(time_ms & 0xffff),
                 place, 0u, i);
}

static void put(char *document, const char *key, const char *value)
{
  char *at = strstr(document, key);
  if (at == NULL)
    fail("document", key);
  memcpy(at + strlen(key), value, strlen(value));
}

static int64_t time_of(unsigned i)
{
  return begin_ms + (int64_t)i * step_ms;
}

static void workload_of(char to[16], unsigned i)
{
  (void)snprintf(to, 16, "workload-%02u", i % WORKLOADS);
}

static enum err insert_evaluation(struct store_tx *tx, unsigned i, int64_t time_ms, struct error *e)
{
  char id[37], card_id[37], workload[16], document[16384];
  struct store_evaluation evaluation = {.id = id,
                                        .created_at_ms = time_ms,
                                        .workload = workload,
                                        .model = text_model,
                                        .label = i % 10 == 0 ? text_nightly : text_none,
                                        .core_version = text_version,
                                        .sketch_digest = text_digest,
                                        .sketch = sketch,
                                        .document = head};
  enum err rc;
  workload_of(workload, i);
  make_id(id, time_ms, i, 0);
  rc = store_evaluation_insert(tx, &evaluation, e);
  for (unsigned k = 0; k < PROFILES && rc == ERR_OK; k++) {
    struct store_scorecard row = shape[k];
    make_id(card_id, time_ms, i, k + 1);
    memcpy(document, documents[k], sizeof document);
    put(document, "\"id\":\"", card_id);
    put(document, "\"evaluation\":\"", id);
    row.id = card_id;
    row.evaluation = id;
    row.ordinal = (int)k;
    row.created_at_ms = time_ms;
    row.workload = workload;
    row.label = evaluation.label;
    row.document = document;
    row.monthly_usd *= 1 + 0.2 * sin(i * 0.001);
    rc = store_scorecard_insert(tx, &row, e);
  }
  return rc;
}

struct range {
  unsigned first, count;
};

static enum err insert_range(struct store_tx *tx, void *cls, struct error *e)
{
  const struct range *range = cls;
  enum err rc = ERR_OK;
  for (unsigned i = range->first; i < range->first + range->count && rc == ERR_OK; i++)
    rc = insert_evaluation(tx, i, time_of(i), e);
  return rc;
}

/* A real evaluation gives the documents; workload, ids and times are replaced in them. */
static void make_documents(void)
{
  static struct deps deps;
  struct api_deps api_deps;
  struct error e = {.code = ERR_OK, .message = ""};
  struct api_offline asked;
  char *text = NULL;
  bool fits;
  json_t *evaluation;
  (void)snprintf(sketch, sizeof sketch,
                 "{\"workload\":\"workload-00\",\"model\":\"llama-3.1-70b\",\"precision\":\"fp8\",\"traffic\":{"
                 "\"input_tokens\":2048,\"output_tokens\":256,\"requests_per_s\":4},\"profiles\":[\"%s\",\"%s\","
                 "\"%s\",\"%s\"]}",
                 profiles[0], profiles[1], profiles[2], profiles[3]);
  deps_fill(&api_deps, &deps, (size_t)64 << 20);
  asked = (struct api_offline){.body = sketch, .body_len = strlen(sketch), .depth = "quick"};
  if (api_evaluate_offline(&text, &fits, &asked, &api_deps, &e) != ERR_OK)
    fail("evaluation", e.message);
  evaluation = json_loads(text, 0, NULL);
  (void)snprintf(head, sizeof head, "{\"workload\":\"workload-00\"}");
  for (size_t k = 0; k < PROFILES; k++) {
    json_t *card = json_array_get(json_object_get(evaluation, "scorecards"), k);
    char *document = json_dumps(card, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (document == NULL || strlen(document) >= sizeof documents[k])
      fail("document", "too long");
    memcpy(documents[k], document, strlen(document) + 1);
    shape[k] = (struct store_scorecard){.model = text_model,
                                        .profile = strdup(json_string_value(json_object_get(card, "profile"))),
                                        .verdict = text_fit,
                                        .stack = text_none,
                                        .context_ref = text_none,
                                        .sketch_digest = text_digest,
                                        .core_version = text_version,
                                        .model_revision = 1,
                                        .profile_revision = 1};
    for (size_t f = 0; f < STORE_FIGURE_COUNT; f++)
      *store_scorecard_figure(&shape[k], f) = 10.0 + (double)f;
    free(document);
  }
  json_decref(evaluation);
  free(text);
}

#endif
