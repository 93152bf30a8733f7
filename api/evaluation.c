/* One evaluation: the core over every candidate profile in one arena, cards in the order of the answer, and the
   recommendation that follows from it. */
#include "api/evaluation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/trace.h"
#include "api/derate.h"
#include "api/quality.h"
#include "api/write.h"

/* A card as computed, kept for ordering; its strings died with the arena, its JSON has copies. */
struct result {
  struct scorecard card;
  const struct catalogue_profile *source;
  const char *profile; /* borrowed from the snapshot */
  json_t *document;
  enum err code;
  struct error error;
};

static void new_id(char to[WRITE_UUID_SIZE], const struct evaluation_options *options, unsigned sequence)
{
  unsigned char random[8];
  options->deps->random_bytes(options->deps->cls, random, sizeof random);
  write_uuid7(to, options->now_ms, sequence, random);
}

static int by_rank(const void *a, const void *b)
{
  const struct result *x = a, *y = b;
  return fit_compare(&x->card, x->profile, &y->card, y->profile);
}

/* What a profile is reckoned with, and the sentence that says so. */
struct hardware_now {
  struct hardware hardware;
  struct derate derate;
  char note[DERATE_SENTENCE_SIZE]; /* "" = as on the datasheet */
};

static void take_hardware(struct hardware_now *now, const struct catalogue_profile *profile,
                          const struct scorecard_identity *identity)
{
  now->hardware = profile->hardware;
  now->note[0] = '\0';
  if (identity->nodes == NULL)
    return;
  derate_of(&now->derate, identity->nodes, profile->hardware.name, identity->sketch->workload.name,
            profile->hardware.boost_clock_mhz);
  derate_apply(&now->hardware, &now->derate);
  derate_describe(now->note, &now->derate, profile->hardware.name);
}

/* One evaluation's profiles, each a job of its own: they share what is only read. */
struct jobs {
  struct result *results;
  const struct scorecard_identity *identity; /* of all; a job completes its copy */
  const struct evaluation_options *options;
  enum fit_depth depth;
};

static enum err evaluate_profile(struct result *result, const struct jobs *jobs, struct arena *arena, struct error *e)
{
  const struct catalogue_profile *profile = result->source;
  const struct sketch *sketch = jobs->identity->sketch;
  const struct sketch_calibration *calibration = sketch_calibration(sketch, profile);
  struct scorecard_identity identity = *jobs->identity;
  struct quality quality = {.verdict = QUALITY_UNMEASURED};
  struct hardware_now now;
  struct fit_request request = {.workload = &sketch->workload,
                                .model = &sketch->model,
                                .hardware = &now.hardware,
                                .depth = jobs->depth,
                                .are_figures_enough = jobs->options->are_figures_enough,
                                .calibration = calibration != NULL ? &calibration->calibration : NULL,
                                .draft_model = sketch->has_draft_model ? &sketch->draft_model : NULL};
  enum err rc;
  trace_replay_give(&request, sketch);
  take_hardware(&now, profile, &identity);
  identity.profile = profile;
  identity.calibration = calibration;
  identity.quality = &quality;
  identity.hardware_note = now.note[0] != '\0' ? now.note : NULL;
  identity.derate = identity.nodes != NULL ? &now.derate : NULL;
  result->profile = profile->hardware.name;
  json_decref(result->document);
  result->document = NULL;
  rc = fit_evaluate(&result->card, &request, arena, e);
  if (rc == ERR_OK)
    rc = quality_judge(&quality, jobs->options->deps->store, sketch, &result->card, e);
  if (rc != ERR_OK)
    return rc;
  result->document = scorecard_write(&result->card, &identity);
  if (result->document == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to write the scorecard of %s", result->profile);
  return rc;
}

static void run_job(void *cls, size_t index)
{
  const struct jobs *jobs = cls;
  const size_t each_bytes = 192; /* what a simulation keeps of a request */
  const size_t arena_bytes = jobs->options->arena_bytes + jobs->identity->sketch->replay.count * each_bytes;
  struct result *result = &jobs->results[index];
  void *memory = malloc(arena_bytes);
  struct arena arena;
  if (memory == NULL) {
    result->code = error_set(&result->error, ERR_NOMEM, "", "not enough memory for an evaluation");
    return;
  }
  arena_init(&arena, memory, arena_bytes);
  result->code = evaluate_profile(result, jobs, &arena, &result->error);
  free(memory);
}

/* As many at a time as the server has threads to spare; the first fault in the order of the results is the one reported. */
static enum err run_jobs(struct jobs *jobs, size_t count, struct error *e)
{
  const struct api_deps *deps = jobs->options->deps;
  if (deps->run_all != NULL)
    deps->run_all(deps->cls, count, run_job, jobs);
  else
    for (size_t i = 0; i < count; i++)
      run_job(jobs, i);
  for (size_t i = 0; i < count; i++)
    if (jobs->results[i].code != ERR_OK) {
      *e = jobs->results[i].error;
      return jobs->results[i].code;
    }
  return ERR_OK;
}

/* Full for profiles that the sketch names and where the caller asks for it; of the default candidates only for the best,
   whose order quick figures decide. */
static enum err evaluate_all(struct result *results, const struct scorecard_identity *identity,
                             const struct evaluation_options *options, struct error *e)
{
  const size_t best = 5;
  const struct sketch *sketch = identity->sketch;
  const size_t count = sketch->profile_count;
  const bool is_deepened = !options->depth_is_given && !sketch->profiles_are_named;
  struct jobs jobs = {results, identity, options, options->depth_is_given ? options->depth : FIT_FULL};
  enum err rc;
  if (is_deepened)
    jobs.depth = FIT_QUICK;
  for (size_t i = 0; i < count; i++)
    results[i].source = sketch->profiles[i];
  rc = run_jobs(&jobs, count, e);
  if (rc != ERR_OK || !is_deepened)
    return rc;
  qsort(results, count, sizeof *results, by_rank);
  jobs.depth = FIT_FULL;
  return run_jobs(&jobs, count < best ? count : best, e);
}

/* ---- Recommendation ------------------------------------------------------------------------------------------------- */

static json_t *member(const json_t *card, const char *group, const char *key)
{
  return json_object_get(json_object_get(card, group), key);
}

/* A reference of its own, null when absent. */
static json_t *share(json_t *value)
{
  return value != NULL ? json_incref(value) : json_null();
}

static json_t *pick(const json_t *card)
{
  return json_pack("{s:o, s:o, s:o, s:o}", "scorecard", share(json_object_get(card, "id")), "profile",
                   share(json_object_get(card, "profile")), "gpus", share(member(card, "configuration", "gpus")),
                   "monthly_usd", share(member(card, "cost", "monthly_usd")));
}

/* The figure between its words; nothing when it is not known. */
static void describe_figure(struct text *text, const char *before, const json_t *value, const char *after)
{
  if (json_is_number(value))
    text_printf(text, "%s%.4g%s", before, json_number_value(value), after);
}

/* Degrees beyond one, so that the GPUs are their product. */
static void describe_degree(struct text *text, const char *name, const json_t *degree)
{
  if (json_number_value(degree) > 1)
    text_printf(text, ", %s %.0f", name, json_number_value(degree));
}

/* "2 x h100-sxm-80gb (tensor parallel 2, replicas 1) serves 4 requests/s, TTFT p50 …" */
static void describe_fit(struct text *text, const json_t *card, const json_t *next)
{
  const json_t *monthly = member(card, "cost", "monthly_usd");
  const json_t *limit = member(card, "limits", "first_limit");
  text_printf(text, "%.0f x %s (tensor parallel %.0f", json_number_value(member(card, "configuration", "gpus")),
              json_string_value(json_object_get(card, "profile")),
              json_number_value(member(card, "configuration", "tensor_parallel")));
  describe_degree(text, "attention data parallel", member(card, "configuration", "attention_data_parallel"));
  describe_degree(text, "pipeline parallel", member(card, "configuration", "pipeline_parallel"));
  text_printf(text, ", replicas %.0f)", json_number_value(member(card, "configuration", "replicas")));
  describe_figure(text, " serves ", member(card, "throughput", "requests_per_s"), " requests/s");
  describe_figure(text, ", TTFT p50 ", json_object_get(member(card, "latency", "ttft_ms"), "p50"), " ms");
  describe_figure(text, ", ITL p50 ", json_object_get(member(card, "latency", "itl_ms"), "p50"), " ms");
  if (json_is_number(monthly))
    text_printf(text, ", %.0f USD a month", json_number_value(monthly));
  else
    text_puts(text, ", no price is known");
  if (json_is_string(limit))
    text_printf(text, "; first limit %s", json_string_value(limit));
  if (next != NULL)
    text_printf(text, "; next best %s", json_string_value(json_object_get(next, "profile")));
}

/* Why nothing fits: how often each reason stands, and the nearest profile's own sentence. */
static void describe_misses(struct text *text, const json_t *cards)
{
  const size_t count = json_array_size(cards);
  const json_t *nearest = json_array_get(cards, 0);
  const char *detail = json_string_value(json_object_get(nearest, "no_fit_detail"));
  bool is_first = true;
  if (count == 1)
    text_puts(text, "the only candidate profile does not fit (");
  else
    text_printf(text, "none of %zu candidate profiles fits (", count);
  for (int reason = NO_FIT_WEIGHTS_EXCEED_MEMORY; reason <= NO_FIT_TARGETS_CONTRADICT; reason++) {
    const char *name = no_fit_reason_name((enum no_fit_reason)reason);
    size_t times = 0;
    for (size_t i = 0; i < count; i++) {
      const char *seen = json_string_value(json_object_get(json_array_get(cards, i), "no_fit_reason"));
      times += seen != NULL && strcmp(seen, name) == 0 ? 1 : 0;
    }
    if (times > 0)
      text_printf(text, "%s%s: %zu", is_first ? "" : ", ", name, times);
    is_first = is_first && times == 0;
  }
  text_printf(text, "); nearest %s", json_string_value(json_object_get(nearest, "profile")));
  if (detail != NULL)
    text_printf(text, ": %s", detail);
}

static bool is_fit(const json_t *card)
{
  const char *verdict = json_string_value(json_object_get(card, "verdict"));
  return verdict != NULL && strcmp(verdict, verdict_name(VERDICT_FIT)) == 0;
}

/* Cards are in order, priced ones first within a verdict, so the first fit is the one to take. All members but the
   summary are null when nothing fits. */
static json_t *recommend(const json_t *cards)
{
  const json_t *first = json_array_get(cards, 0), *second = json_array_get(cards, 1);
  struct text text = {0};
  json_t *out = NULL, *next = NULL;
  char *summary;
  if (!is_fit(first))
    first = NULL;
  if (first == NULL || !is_fit(second))
    second = NULL;
  if (first != NULL)
    describe_fit(&text, first, second);
  else
    describe_misses(&text, cards);
  summary = text_take(&text, NULL);
  out = pick(first);
  next = second != NULL ? pick(second) : json_null();
  if (summary == NULL || out == NULL || next == NULL ||
      json_object_set_new(out, "limiter", share(member(first, "limits", "first_limit"))) != 0 ||
      json_object_set(out, "runner_up", next) != 0 || json_object_set_new(out, "summary", json_string(summary)) != 0) {
    json_decref(out);
    out = NULL;
  }
  json_decref(next);
  free(summary);
  return out;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------ */

/* Ids follow the order of the answer, so that they sort like it. Takes the documents over from the results. */
static json_t *collect(struct result *results, size_t count, const struct evaluation_options *options)
{
  json_t *cards = json_array();
  char id[WRITE_UUID_SIZE];
  bool is_failed = cards == NULL;
  for (size_t i = 0; i < count; i++) {
    json_t *document = results[i].document;
    results[i].document = NULL;
    new_id(id, options, (unsigned)i + 1);
    if (json_object_set_new(document, "id", json_string(id)) != 0)
      is_failed = true;
    if (json_array_append_new(cards, document) != 0)
      is_failed = true;
  }
  if (!is_failed)
    return cards;
  json_decref(cards);
  return NULL;
}

static json_t *write_head(const struct scorecard_identity *identity, const json_t *cards)
{
  const struct sketch *sketch = identity->sketch;
  json_t *recommendation = recommend(cards);
  if (recommendation == NULL)
    return NULL;
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:O, s:s, s:s, s:o}", "id", identity->evaluation, "created_at",
                   identity->created_at, "workload", sketch->workload.name, "model", sketch->model_name, "label",
                   write_text(identity->label), "traffic", sketch->traffic, "core_version", CORE_VERSION,
                   "sketch_digest", sketch->digest, "recommendation", recommendation);
}

/* All profiles of one evaluation see the nodes at one moment. */
static enum err look_at_nodes(struct live_nodes *nodes, struct scorecard_identity *identity,
                              const struct evaluation_options *options, struct error *e)
{
  enum err rc;
  if (!identity->sketch->workload.uses_live_hardware)
    return ERR_OK;
  if (options->live == NULL)
    return error_set(e, ERR_INVALID, "/hardware", "live hardware needs a service that scrapes its nodes: fitd serve");
  rc = live_nodes_copy(nodes, options->live, options->now_ms, e);
  identity->nodes = nodes;
  return rc;
}

enum err evaluation_run(struct evaluation *out, const struct sketch *sketch, const struct evaluation_options *options,
                        struct error *e)
{
  struct scorecard_identity identity = {.label = options->label, .sketch = sketch};
  struct live_nodes nodes = {.rows = NULL};
  struct result *results = NULL;
  enum err rc;
  memset(out, 0, sizeof *out);
  if (!sketch_is_whole(sketch))
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the sketch");
  new_id(out->id, options, 0);
  memcpy(identity.evaluation, out->id, sizeof identity.evaluation);
  write_time(identity.created_at, options->now_ms);
  results = calloc(sketch->profile_count + 1, sizeof *results);
  if (results == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for %zu scorecards", sketch->profile_count);
  rc = look_at_nodes(&nodes, &identity, options, e);
  if (rc == ERR_OK)
    rc = evaluate_all(results, &identity, options, e);
  if (rc != ERR_OK)
    goto out;
  qsort(results, sketch->profile_count, sizeof *results, by_rank);
  out->is_quick = options->depth_is_given && options->depth == FIT_QUICK;
  out->fits = sketch->profile_count > 0 && results[0].card.verdict == VERDICT_FIT;
  out->scorecards = collect(results, sketch->profile_count, options);
  if (out->scorecards != NULL && !evaluation_name_cheaper(out->scorecards, &sketch->workload))
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to compare the profiles");
  out->head = out->scorecards != NULL ? write_head(&identity, out->scorecards) : NULL;
  if (out->head == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to write the evaluation");
out:
  for (size_t i = 0; i < sketch->profile_count; i++)
    json_decref(results[i].document);
  free(results);
  live_nodes_fini(&nodes);
  if (rc != ERR_OK)
    evaluation_fini(out);
  return rc;
}

void evaluation_fini(struct evaluation *evaluation)
{
  json_decref(evaluation->head);
  json_decref(evaluation->scorecards);
  memset(evaluation, 0, sizeof *evaluation);
}

json_t *evaluation_document(const struct evaluation *evaluation)
{
  json_t *document = json_copy(evaluation->head);
  if (document == NULL || json_object_set(document, "scorecards", evaluation->scorecards) != 0) {
    json_decref(document);
    return NULL;
  }
  return document;
}
