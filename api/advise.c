/* A sketch is made of the config and the traffic; the closed form finds the GPUs that serve it cheapest, the simulation says
   what their users see. */
#include "api/advise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluation.h"
#include "api/put.h"
#include "api/variant.h"
#include "api/write.h"
#include "core/units.h"

static const struct advise_traffic kinds[] = {
    {"chat", 1024, 256, 2, 1000, 60}, /* a turn of a conversation, read while it is written */
    {"rag", 8192, 512, 1, 3000, 60},  /* documents in the prompt */
    {"code", 4096, 256, 2, 1500, 40}, /* a file around the cursor, somebody waits */
    {"batch", 2048, 512, 4, 0, 0},    /* nobody waits */
};
const char *const advise_traffic_names[] = {"chat", "rag", "code", "batch", NULL};

enum { ROWS_MAX = 8 /* on one screen */ };

/* One profile: cards of all variants that there are. */
struct row {
  const struct catalogue_profile *profile;
  struct scorecard cards[VARIANT_COUNT];
  bool has_card[VARIANT_COUNT];
};

struct work {
  struct sketch sketch;
  struct workload workloads[VARIANT_COUNT];
  struct model models[VARIANT_COUNT];
  bool applies[VARIANT_COUNT];
  struct arena arena;
  struct row rows[];
};

/* ---- The sketch ------------------------------------------------------------------------------------------------------ */

static json_t *write_sketch(const json_t *config, const struct advise_traffic *kind, double requests_per_s)
{
  json_t *sketch = json_object(), *targets = json_object();
  put_member(&sketch, "workload", json_string("advise"));
  put_member(&sketch, "model", json_pack("{s:O}", "hf_config", config));
  put_member(&sketch, "traffic",
             json_pack("{s:i, s:i, s:o}", "input_tokens", (int)kind->input_tokens, "output_tokens",
                       (int)kind->output_tokens, "requests_per_s", write_number(requests_per_s)));
  if (kind->ttft_p99_ms > 0)
    put_member(&targets, "ttft_ms", json_pack("{s:o}", "p99", write_number(kind->ttft_p99_ms)));
  if (kind->itl_p99_ms > 0)
    put_member(&targets, "itl_ms", json_pack("{s:o}", "p99", write_number(kind->itl_p99_ms)));
  put_member(&sketch, "targets", targets);
  return sketch;
}

/* The body is the config: pointers start there. */
static void hand_on(struct faults *to, const struct faults *from)
{
  static const char prefix[] = "/model/hf_config";
  for (size_t i = 0; i < from->count; i++) {
    const struct fault *fault = &from->items[i];
    const bool is_inside = strncmp(fault->pointer, prefix, strlen(prefix)) == 0;
    faults_add(to, fault->code, is_inside ? fault->pointer + strlen(prefix) : fault->pointer,
               fault->suggestion[0] != '\0' ? fault->suggestion : NULL, "%s", fault->detail);
  }
}

static enum err read_config(struct sketch *out, const json_t *config, const struct advise_traffic *kind,
                            double requests_per_s, const struct catalogue_snapshot *snapshot, struct faults *faults,
                            struct error *e)
{
  struct faults found = {.count = 0};
  json_t *body = write_sketch(config, kind, requests_per_s);
  const unsigned tokens = kind->input_tokens + kind->output_tokens;
  if (body == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the config");
  sketch_read(out, snapshot, body, "", &found);
  json_decref(body);
  hand_on(faults, &found);
  if (found.count == 0 && out->model.max_context_tokens != 0 && tokens > out->model.max_context_tokens)
    faults_add(faults, FAULT_CONFLICT, "?traffic", NULL,
               "%s means %u tokens a conversation; this model is made for at most %u", kind->name, tokens,
               out->model.max_context_tokens);
  return faults->count > 0 ? error_set(e, ERR_INVALID, "", "the config is not valid") : ERR_OK;
}

/* ---- Evaluating ----------------------------------------------------------------------------------------------------- */

static enum err evaluate(struct row *row, struct work *work, int variant, enum fit_depth depth, struct error *e)
{
  const struct fit_request request = {.workload = &work->workloads[variant],
                                      .model = &work->models[variant],
                                      .hardware = &row->profile->hardware,
                                      .depth = depth};
  const size_t mark = arena_mark(&work->arena);
  enum err rc;
  if (!work->applies[variant] || !variant_runs_on(request.workload, request.model, request.hardware))
    return ERR_OK;
  rc = fit_evaluate(&row->cards[variant], &request, &work->arena, e);
  row->has_card[variant] = rc == ERR_OK;
  arena_release(&work->arena, mark);
  return rc;
}

/* The variant that a row is placed by: the best of what it offers. */
static const struct scorecard *best_of(const struct row *row)
{
  const struct scorecard *best = NULL;
  for (int variant = 0; variant < VARIANT_COUNT; variant++)
    if (row->has_card[variant] && (best == NULL || fit_compare(&row->cards[variant], "", best, "") < 0))
      best = &row->cards[variant];
  return best;
}

static int by_rank(const void *a, const void *b)
{
  const struct row *x = a, *y = b;
  const struct scorecard *left = best_of(x), *right = best_of(y);
  if (left == NULL || right == NULL)
    return (left == NULL) - (right == NULL);
  return fit_compare(left, x->profile->hardware.name, right, y->profile->hardware.name);
}

static void prepare_variants(struct work *work)
{
  for (int variant = 0; variant < VARIANT_COUNT; variant++) {
    work->workloads[variant] = work->sketch.workload;
    work->models[variant] = work->sketch.model;
    work->applies[variant] = variant_apply((enum variant)variant, &work->workloads[variant], &work->models[variant]);
  }
}

static enum err evaluate_all(struct work *work, size_t *shown, struct error *e)
{
  const size_t count = work->sketch.profile_count;
  enum err rc = ERR_OK;
  for (size_t i = 0; i < count && rc == ERR_OK; i++) {
    work->rows[i].profile = work->sketch.profiles[i];
    for (int variant = 0; variant < VARIANT_COUNT && rc == ERR_OK; variant++)
      rc = evaluate(&work->rows[i], work, variant, FIT_QUICK, e);
  }
  qsort(work->rows, count, sizeof work->rows[0], by_rank);
  *shown = count < ROWS_MAX ? count : ROWS_MAX;
  for (size_t i = 0; i < *shown && rc == ERR_OK; i++)
    for (int variant = 0; variant < VARIANT_COUNT && rc == ERR_OK; variant++)
      if (work->rows[i].has_card[variant] && work->rows[i].cards[variant].has_configuration)
        rc = evaluate(&work->rows[i], work, variant, FIT_SIMULATED, e);
  qsort(work->rows, *shown, sizeof work->rows[0], by_rank);
  return rc;
}

/* ---- The document ---------------------------------------------------------------------------------------------------- */

static json_t *write_card(const struct scorecard *card)
{
  const struct scorecard_configuration *configuration = &card->configuration;
  json_t *to = json_object();
  put_member(&to, "verdict", json_string(verdict_name(card->verdict)));
  put_member(&to, "no_fit_reason", write_text(no_fit_reason_name(card->no_fit_reason)));
  put_member(&to, "gpus", card->has_configuration ? json_integer(configuration->gpus) : json_null());
  put_member(&to, "tensor_parallel",
             card->has_configuration ? json_integer(configuration->tensor_parallel) : json_null());
  put_member(&to, "replicas", card->has_configuration ? json_integer(configuration->replicas) : json_null());
  put_member(&to, "ttft_p99_ms", write_number(card->latency.ttft_s.p99 / MS));
  put_member(&to, "itl_p99_ms", write_number(card->latency.itl_s.p99 / MS));
  put_member(&to, "monthly_usd", write_number(card->cost.monthly_usd));
  put_member(&to, "limiter", write_text(limit_name(card->limits.first_limit)));
  return to;
}

static json_t *write_row(const struct row *row)
{
  json_t *to = json_object();
  put_member(&to, "profile", json_string(row->profile->hardware.name));
  for (int variant = 0; variant < VARIANT_COUNT; variant++)
    put_member(&to, variant_name((enum variant)variant),
               row->has_card[variant] ? write_card(&row->cards[variant]) : json_null());
  return to;
}

static json_t *write_variants(const struct work *work)
{
  json_t *array = json_array();
  for (int variant = 0; variant < VARIANT_COUNT; variant++)
    put_element(&array,
                json_pack("{s:s, s:s, s:o, s:b}", "variant", variant_name((enum variant)variant), "title",
                          variant_title((enum variant)variant), "requires",
                          write_text(variant_requires((enum variant)variant)), "applies", (int)work->applies[variant]));
  return array;
}

static json_t *write_traffic(const struct advise_traffic *kind, double requests_per_s)
{
  return json_pack("{s:s, s:i, s:i, s:o, s:o, s:o}", "kind", kind->name, "input_tokens", (int)kind->input_tokens,
                   "output_tokens", (int)kind->output_tokens, "requests_per_s", write_number(requests_per_s),
                   "ttft_p99_ms", kind->ttft_p99_ms > 0 ? write_number(kind->ttft_p99_ms) : json_null(), "itl_p99_ms",
                   kind->itl_p99_ms > 0 ? write_number(kind->itl_p99_ms) : json_null());
}

static json_t *write_document(const struct work *work, size_t shown, json_t *traffic)
{
  json_t *to = json_object(), *gpus = json_array();
  for (size_t i = 0; i < shown; i++)
    put_element(&gpus, write_row(&work->rows[i]));
  put_member(&to, "parameters", json_integer((json_int_t)model_parameters_total(&work->sketch.model)));
  put_member(&to, "core_version", json_string(CORE_VERSION));
  put_member(&to, "traffic", traffic);
  put_member(&to, "variants", write_variants(work));
  put_member(&to, "gpus", gpus);
  put_member(&to, "left_out", json_integer((json_int_t)(work->sketch.profile_count - shown)));
  put_member(&to, "assumptions", json_incref(work->sketch.model_assumptions));
  return to;
}

enum err advise_document(json_t **out, const json_t *config, const struct advise_options *options,
                         const struct catalogue_snapshot *snapshot, struct faults *faults, struct error *e)
{
  const struct advise_traffic *kind = &kinds[options->traffic];
  const double requests_per_s = options->requests_per_s > 0 ? options->requests_per_s : kind->requests_per_s;
  struct work *work = calloc(1, sizeof *work + (snapshot->profile_count + 1) * sizeof work->rows[0]);
  void *memory = malloc(options->arena_bytes);
  size_t shown = 0;
  enum err rc;
  *out = NULL;
  if (work == NULL || memory == NULL) {
    rc = error_set(e, ERR_NOMEM, "", "not enough memory for advice");
    goto out;
  }
  arena_init(&work->arena, memory, options->arena_bytes);
  rc = read_config(&work->sketch, config, kind, requests_per_s, snapshot, faults, e);
  if (rc == ERR_OK) {
    prepare_variants(work);
    rc = evaluate_all(work, &shown, e);
  }
  if (rc == ERR_OK && (*out = write_document(work, shown, write_traffic(kind, requests_per_s))) == NULL)
    rc = error_set(e, ERR_NOMEM, "", "not enough memory to write the advice");
  if (rc == ERR_INVALID && faults->count == 0)
    faults_add(faults, FAULT_UNSUPPORTED, "", NULL, "%s", e->message);
  sketch_fini(&work->sketch);
out:
  free(memory);
  free(work);
  return rc;
}
