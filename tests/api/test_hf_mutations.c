/* Every key of every stored config, removed or made wrong, one at a time: the answer is faults that point into the config,
   or a possible model; and figures that moved because a key was gone come with an assumption that says so. */
#include "tests/lib/reading.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

/* What a wrong reading would get wrong. */
struct figures {
  uint64_t total, active, vision, state, scales;
  double growing_bytes, windowed_bytes, weights_bytes;
  unsigned context;
};

static struct figures figures_of(const struct model *model)
{
  const struct kv_bytes kv = model_kv_bytes(model, model->precision.kv_cache);
  const struct parameter_counts counts = model_parameters(model);
  return (struct figures){.total = model_parameters_total(model),
                          .active = model_parameters_active(model),
                          .vision = model->vision_parameters,
                          .state = reading_state_elements(),
                          .scales = counts.scales,
                          .growing_bytes = kv.growing_per_token_bytes,
                          .windowed_bytes = kv.windowed_per_token_bytes,
                          .weights_bytes = model_weights_bytes(model),
                          .context = model->max_context_tokens};
}

static bool figures_equal(const struct figures *a, const struct figures *b)
{
  return a->total == b->total && a->active == b->active && a->vision == b->vision && a->state == b->state &&
         a->scales == b->scales && reading_is_same(a->growing_bytes, b->growing_bytes) &&
         reading_is_same(a->windowed_bytes, b->windowed_bytes) && reading_is_same(a->weights_bytes, b->weights_bytes) &&
         a->context == b->context;
}

/* Changes of one key. GONE and EMPTY leave the value open, NOTHING gives one that may be right, the others are wrong. */
enum change { CHANGE_GONE, CHANGE_NULL, CHANGE_ZERO, CHANGE_WRONG };
static const struct {
  const char *value; /* NULL = the key is removed */
  enum change change;
} mutations[] = {
    {NULL, CHANGE_GONE},
    {"null", CHANGE_NULL},
    {"0", CHANGE_ZERO},
    {"-1", CHANGE_WRONG},
    {"9223372036854775807", CHANGE_WRONG},
    {"1e300", CHANGE_WRONG},
    {"\"x\"", CHANGE_WRONG},
    {"[null]", CHANGE_WRONG},
    {"{\"x\":[]}", CHANGE_WRONG},
};
/* The object of a hf_quant_config.json. */
#define SIDE_FILE "quantization"
#define MUTATIONS (sizeof mutations / sizeof mutations[0])

struct trial {
  const char *file, *part, *key;
  size_t mutation;
  const json_t *assumptions; /* of the config as it is */
  struct figures figures;
};

static const char *describe(const struct trial *t)
{
  const char *value = mutations[t->mutation].value;
  return scratch_printf("%s: %s/%s = %s", t->file, t->part, t->key, value != NULL ? value : "removed");
}

static bool says_something_new(const struct trial *t)
{
  size_t i;
  size_t j;
  json_t *sentence;
  json_t *known;
  json_array_foreach(reading.assumptions, i, sentence)
  {
    bool is_known = false;
    json_array_foreach(t->assumptions, j, known) is_known = is_known || json_equal(sentence, known) != 0;
    if (!is_known)
      return true;
  }
  return false;
}

static void check_faults(const struct trial *t)
{
  const char *place = strcmp(t->part, SIDE_FILE) == 0 ? "/hf_quant_config/quantization" : "/hf_config";
  for (size_t i = 0; i < reading.faults.count; i++)
    ck_assert_msg(strncmp(reading.faults.items[i].pointer, place, strlen(place)) == 0 &&
                      reading.faults.items[i].detail[0] != '\0',
                  "%s: %s", describe(t), reading.faults.items[i].pointer);
}

/* Zero is a value like others, and null in a few keys: neither leaves anything open. */
static bool may_move_silently(const struct trial *t)
{
  static const char *const null_means_none[] = {"sliding_window",    "quantization_config",  "vision_config",
                                                "weight_block_size", "n_shared_experts",     "kv_cache_scheme",
                                                "q_lora_rank",       "attention_chunk_size", "kv_cache_quant_algo"};
  if (mutations[t->mutation].change == CHANGE_ZERO)
    return true;
  for (size_t i = 0; i < sizeof null_means_none / sizeof null_means_none[0]; i++)
    if (mutations[t->mutation].change != CHANGE_WRONG && strcmp(t->key, null_means_none[i]) == 0)
      return true;
  return false;
}

static void check_model(const struct trial *t)
{
  static struct faults found;
  const struct figures seen = figures_of(&reading.model);
  memset(&found, 0, sizeof found);
  model_check(&reading.model, &found);
  ck_assert_msg(found.count == 0, "%s: %s", describe(t), found.items[0].pointer);
  ck_assert_msg(seen.total > 0 && seen.active > 0 && seen.active <= seen.total, "%s: counts", describe(t));
  ck_assert_msg(seen.growing_bytes + seen.windowed_bytes > 0.0 || seen.state > 0, "%s: no KV", describe(t));
  ck_assert_msg(figures_equal(&seen, &t->figures) || says_something_new(t) || may_move_silently(t),
                "%s: %llu instead of %llu, silently", describe(t), (unsigned long long)seen.total,
                (unsigned long long)t->figures.total);
}

static void judge(const struct trial *t, const json_t *document, const json_t *quantisation)
{
  reading_read(document, quantisation);
  if (reading.faults.count != 0)
    check_faults(t);
  else
    check_model(t);
}

/* A copy of `document` whose `part` ("" = the document itself) has the changed key. */
static json_t *mutate(const json_t *document, const struct trial *t)
{
  json_t *copy = json_copy((json_t *)(uintptr_t)document);
  json_t *part = copy;
  const char *value = mutations[t->mutation].value;
  if (*t->part != '\0') {
    part = json_copy(json_object_get(copy, t->part));
    ck_assert_int_eq(json_object_set_new(copy, t->part, part), 0);
  }
  if (value == NULL)
    ck_assert_int_eq(json_object_del(part, t->key), 0);
  else
    ck_assert_int_eq(json_object_set_new(part, t->key, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
  return copy;
}

static size_t try_keys(const json_t *document, struct trial *t)
{
  const json_t *quantisation = reading_load_quantisation(t->file);
  const json_t *changing = strcmp(t->part, SIDE_FILE) == 0 ? quantisation : document;
  const json_t *part = *t->part != '\0' ? json_object_get(changing, t->part) : changing;
  size_t tried = 0;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)part, t->key, value)
  {
    for (t->mutation = 0; t->mutation < MUTATIONS; t->mutation++) {
      json_t *changed = mutate(changing, t);
      if (quantisation != NULL && strcmp(t->part, SIDE_FILE) == 0)
        judge(t, document, changed);
      else
        judge(t, changed, quantisation);
      json_decref(changed);
      tried++;
    }
  }
  return tried;
}

static size_t try_config(const char *file)
{
  static const char *const parts[] = {
      "", "text_config", "quantization_config", "vision_config", "attn_config", "ffn_config", "linear_attn_config"};
  const json_t *document = reading_load(file);
  struct trial t = {.file = file};
  size_t tried = 0;
  reading_read(document, reading_load_quantisation(file));
  ck_assert_msg(reading.faults.count == 0, "%s: %s", file, reading_first_fault());
  t.assumptions = scratch_json_steal(json_incref(reading.assumptions));
  t.figures = figures_of(&reading.model);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    t.part = parts[i];
    if (*t.part == '\0' || json_is_object(json_object_get(document, t.part)))
      tried += try_keys(document, &t);
  }
  t.part = SIDE_FILE;
  return tried + (reading_load_quantisation(file) != NULL ? try_keys(document, &t) : 0);
}

START_TEST(answers_every_mutation)
{
  static const char *const families[] = {"dbrx",
                                         "ernie-4.5-21b-a3b",
                                         "experts-on-a-latent",
                                         "falcon-h1-0.5b",
                                         "falcon-mamba-7b",
                                         "gemma-3n-small",
                                         "glm-4-9b",
                                         "granite-4.0-h-micro",
                                         "granite-4.0-h-small",
                                         "jamba-v0.1",
                                         "kimi-linear-48b-a3b",
                                         "lfm2-1.2b",
                                         "mamba-2.8b",
                                         "mpt-7b",
                                         "searched-blocks"};
  struct reading_facts facts;
  size_t tried = 0;
  reading_facts_open(&facts);
  while (reading_facts_next(&facts))
    tried += try_config(reading_fact(&facts, "config_file"));
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
    tried += try_config(scratch_printf("../families/%s.json", families[i]));
  printf("mutated configs: %zu\n", tried);
  ck_assert_uint_gt(tried, 20000);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/hf_mutations");
  TCase *tcase = suite_case(suite, "hf_mutations", reading_prepare, reading_release);
  tcase_add_test(tcase, answers_every_mutation);
  return suite_run(suite);
}
