/* GET /v1/workloads/{name}/concurrency-limit: the largest number of requests in the system at which the configuration in use
   keeps every latency target, searched by evaluating the official sketch as a closed loop on that configuration: at
   sustained clocks, and at the datasheet's to say what throttling costs. */
#include "api/concurrency.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/derate.h"
#include "api/fleet.h"
#include "api/handlers.h"
#include "api/put.h"
#include "api/trial.h"
#include "api/write.h"

#define LIMIT_MAX 65536

struct search {
  struct api_call *call;
  struct trial trial;
  const json_t *card; /* the official one, whose configuration is in use */
  const char *profile;
  char first_missed[64]; /* target that is missed just above the limit; "" = memory */
  double sessions;       /* what the KV cache of the fleet holds; NaN = no limit */
};

static double member(const json_t *object, const char *group, const char *name)
{
  const json_t *value = json_object_get(json_object_get(object, group), name);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* The first latency target that a card misses, or NULL. What is not decided at this depth counts as kept. */
static const char *missed_target(const json_t *card)
{
  const json_t *targets = json_object_get(card, "targets");
  for (size_t i = 0; i < json_array_size(targets); i++) {
    const json_t *target = json_array_get(targets, i);
    const char *metric = json_string_value(json_object_get(target, "metric"));
    if (metric != NULL && strncmp(metric, "latency.", 8) == 0 && json_is_false(json_object_get(target, "met")))
      return metric;
  }
  return NULL;
}

/* A closed loop of the sketch's requests with neither a limit nor impatience: what the fleet itself can keep. */
static void close_loop(struct sketch *sketch, unsigned concurrency)
{
  struct workload_traffic *traffic = &sketch->workload.traffic;
  if (traffic->load == LOAD_TRACE && sketch->replay.count > 1) {
    const struct fit_trace_means means = fit_trace_means(sketch->replay.rows, sketch->replay.count);
    traffic->input = means.input;
    traffic->output = means.output;
  }
  traffic->load = LOAD_CLOSED;
  traffic->concurrency = concurrency;
  traffic->requests_per_s = (double)NAN;
  traffic->client_timeout_ms = (double)NAN;
  sketch->workload.serving.concurrency_limit = 0;
}

static enum err keeps_targets(bool *keeps, struct search *search, unsigned concurrency, bool is_live, struct error *e)
{
  struct workload *workload = &search->trial.sketch.workload;
  json_t *card;
  const char *missed;
  enum err code;
  close_loop(&search->trial.sketch, concurrency);
  workload->uses_live_hardware = is_live;
  code = trial_run_held(&card, &search->trial, search->profile, json_object_get(search->card, "configuration"),
                        workload->seed, e);
  if (code != ERR_OK)
    return code;
  missed = missed_target(card);
  *keeps = missed == NULL && json_is_object(json_object_get(card, "configuration"));
  if (missed != NULL)
    (void)snprintf(search->first_missed, sizeof search->first_missed, "%s", missed);
  json_decref(card);
  return ERR_OK;
}

/* The numbers that are known to keep the targets and to miss them, and which one to try next. */
struct bracket {
  unsigned kept, missed; /* 0 = none */
  unsigned next, leap;
};

static void narrow(struct bracket *b, bool keeps, unsigned most)
{
  *(keeps ? &b->kept : &b->missed) = b->next;
  if (b->missed == 0)
    b->next = b->leap < most - b->next ? b->next + b->leap : most;
  else if (b->kept == 0)
    b->next = b->leap < b->missed ? b->missed - b->leap : 1;
  else
    b->next = b->kept + (b->missed - b->kept) / 2;
  b->leap *= 2;
}

/* The largest number that keeps them, 0 when one request alone does not: leaps from `start` on, then halves the gap. */
static enum err find_from(unsigned *limit, struct search *search, unsigned start, bool is_live, struct error *e)
{
  const unsigned most = search->sessions < LIMIT_MAX ? (unsigned)fmax(1, floor(search->sessions)) : LIMIT_MAX;
  struct bracket b = {0, 0, start > 1 ? start : 1, 1};
  search->first_missed[0] = '\0';
  while (b.missed == 0 ? b.kept < most : b.missed - b.kept > 1) {
    bool keeps = false;
    const enum err code = keeps_targets(&keeps, search, b.next, is_live, e);
    if (code != ERR_OK)
      return code;
    narrow(&b, keeps, most);
  }
  *limit = b.kept;
  return ERR_OK;
}

/* Short simulations find about where it is, those of a scorecard decide. */
static enum err find_limit(unsigned *limit, struct search *search, bool is_live, struct error *e)
{
  enum err code;
  search->trial.depth = FIT_SIMULATED;
  code = find_from(limit, search, 1, is_live, e);
  search->trial.depth = FIT_FULL;
  return code == ERR_OK ? find_from(limit, search, *limit, is_live, e) : code;
}

/* ---- Answers ---- */

json_t *concurrency_last_write(struct live *live, const char *workload)
{
  struct live_limit last;
  json_t *object;
  if (!live_limit_get(&last, live, workload))
    return json_null();
  object = json_object();
  put_member(&object, "limit", json_integer(last.limit));
  put_member(&object, "limit_at_datasheet", json_integer(last.rated_limit));
  put_member(&object, "why", json_string(last.why));
  put_member(&object, "computed_at", live_time(last.at_ms));
  return object;
}

static void explain(char why[320], const struct search *search, const struct derate *derate, unsigned limit,
                    unsigned rated_limit)
{
  const char *boundary = search->first_missed[0] != '\0' ? search->first_missed : "memory for sessions";
  if (limit == 0)
    (void)snprintf(why, 320, "one request alone misses %s on this configuration: no limit restores it", boundary);
  else if (derate->throttled_count > 0 && limit < rated_limit)
    (void)snprintf(
        why, 320,
        "%u of %u GPUs are held down, the slowest to %.2g of its clock: %u requests at once keep %s where %u "
        "would at full clocks",
        derate->throttled_count, derate->gpu_count, derate->slowest_ratio, limit, boundary, rated_limit);
  else
    (void)snprintf(why, 320, "%u requests at once keep every latency target; the next limit is %s%s", limit, boundary,
                   derate->gpu_count == 0 ? "; no fresh node: at the datasheet's clocks" : "");
}

static void copy_text(char *to, size_t size, const char *from)
{
  (void)snprintf(to, size, "%.*s", (int)size - 1, from != NULL ? from : "");
}

/* What it was computed from, by which the daemon knows when it is outdated. */
static void note(struct live_limit *last, const struct search *search)
{
  copy_text(last->workload, sizeof last->workload, search->call->params[0]);
  copy_text(last->profile, sizeof last->profile, search->profile);
  copy_text(last->evaluation, sizeof last->evaluation, json_string_value(json_object_get(search->card, "evaluation")));
}

static json_t *answer(const struct search *search, const struct live_limit *last)
{
  json_t *object = json_object(), *basis = json_object();
  put_member(&basis, "limit_at_datasheet", json_integer(last->rated_limit));
  put_member(&basis, "next_target", write_text(search->first_missed[0] != '\0' ? search->first_missed : NULL));
  put_member(&basis, "sessions_in_memory", write_number(search->sessions));
  put_member(&basis, "gpus_fresh", json_integer(last->derate.gpu_count));
  put_member(&basis, "gpus_throttled", json_integer(last->derate.throttled_count));
  put_member(&basis, "slowest_clock_fraction", write_number(last->derate.slowest_ratio));
  put_member(&object, "workload", json_string(search->call->params[0]));
  put_member(&object, "profile", json_string(search->profile));
  put_member(&object, "concurrency_limit", json_integer(last->limit));
  put_member(&object, "why", json_string(last->why));
  put_member(&object, "basis", basis);
  put_member(&object, "scorecard", json_incref(json_object_get(search->card, "id")));
  put_member(&object, "computed_at", live_time(last->at_ms));
  return object;
}

/* ---- Where it starts from ---- */

/* The profile that serves the workload: of its nodes, else the best of its official evaluation. */
static enum err find_card(json_t **card, struct api_call *call, const struct live_nodes *nodes, struct error *e)
{
  struct fleet_workload workload;
  struct store_evaluation evaluation;
  struct store_scorecards cards = {.rows = NULL};
  enum err code = ERR_OK;
  *card = NULL;
  if (fleet_workload_of(&workload, nodes, call->params[0]))
    code = fleet_official_card(card, call, call->params[0], workload.profile, e);
  if (code != ERR_OK || *card != NULL)
    return code;
  code = store_evaluation_official(call_store(call), &evaluation, call->params[0], e);
  if (code == ERR_NOT_FOUND)
    return error_set(e, ERR_CONFLICT, "", "the official sketch of %s has not been evaluated yet", call->params[0]);
  if (code != ERR_OK)
    return code;
  code = store_evaluation_scorecards(call_store(call), &cards, evaluation.id, e);
  if (code == ERR_OK && cards.count > 0)
    *card = json_loads(cards.rows[0].document, 0, NULL);
  store_scorecards_fini(&cards);
  store_evaluation_fini(&evaluation);
  if (code == ERR_OK && *card == NULL)
    code = error_set(e, ERR_CONFLICT, "", "the official sketch of %s has no scorecard", call->params[0]);
  return code;
}

static enum err open_sketch(struct search *search, struct error *e)
{
  struct store_document row = {.name = NULL};
  json_t *document = NULL;
  enum err code = store_document_get(call_store(search->call), &row, STORE_WORKLOAD, search->call->params[0], 0, e);
  if (code != ERR_OK)
    return code;
  document = json_loads(row.document, 0, NULL);
  code =
      trial_open(&search->trial, search->call, json_object_get(document, "sketch"), "/sketch", search->call->faults, e);
  if (code == ERR_OK && search->call->faults->count > 0) {
    trial_close(&search->trial);
    code = ERR_INVALID;
  }
  json_decref(document);
  store_document_fini(&row);
  return code;
}

static enum err find_both(json_t **out, struct search *search, const struct live_nodes *nodes, struct error *e)
{
  const struct catalogue_profile *row = catalogue_find_profile(search->trial.snapshot, search->profile);
  struct live_limit last = {.at_ms = search->call->now_ms};
  enum err code;
  search->sessions =
      member(search->card, "memory", "max_concurrent_sessions") * member(search->card, "configuration", "replicas");
  derate_of(&last.derate, nodes, search->profile, search->call->params[0],
            row != NULL ? row->hardware.boost_clock_mhz : (double)NAN);
  code = find_limit(&last.rated_limit, search, false, e);
  if (code == ERR_OK)
    code = find_limit(&last.limit, search, true, e);
  if (code != ERR_OK)
    return code;
  explain(last.why, search, &last.derate, last.limit, last.rated_limit);
  note(&last, search);
  live_limit_set(live_of(search->call->api), &last);
  *out = answer(search, &last);
  return ERR_OK;
}

enum err workloads_concurrency_limit_get(struct api_call *call, struct api_response *out, struct error *e)
{
  struct search search = {.call = call};
  struct live_nodes nodes = {.rows = NULL};
  json_t *card = NULL, *document = NULL;
  bool is_open = false;
  enum err code = open_sketch(&search, e);
  is_open = code == ERR_OK;
  if (code == ERR_OK)
    code = live_sync(live_of(call->api), call_store(call), e);
  if (code == ERR_OK)
    code = live_nodes_copy(&nodes, live_of(call->api), call->now_ms, e);
  if (code == ERR_OK)
    code = find_card(&card, call, &nodes, e);
  if (code == ERR_OK && !json_is_object(json_object_get(card, "configuration")))
    code = error_set(e, ERR_CONFLICT, "", "the official scorecard of %s has no configuration: nothing fits",
                     call->params[0]);
  search.card = card;
  search.profile = json_string_value(json_object_get(card, "profile"));
  if (code == ERR_OK)
    code = find_both(&document, &search, &nodes, e);
  if (code == ERR_OK)
    code = respond_json_steal(out, 200, document, e);
  json_decref(card);
  live_nodes_fini(&nodes);
  if (is_open)
    trial_close(&search.trial);
  return code;
}
