/* Knobs: every pointer can be read and set, bounds and types are kept to, and what hangs together moves together. */
#include "core/knob.h"

#include "tests/core/fixtures.h"

struct all {
  struct workload workload;
  struct model model;
  struct hardware hardware;
  struct knob_subject subject;
};

static void all_init(struct all *all)
{
  all->workload = fixture_workload();
  all->model = fixture_model("llama-2-7b");
  all->hardware = fixture_hardware("h100-sxm-80gb");
  all->subject = (struct knob_subject){&all->workload, &all->model, &all->hardware};
}

static enum err set(struct all *all, const char *pointer, struct knob_value value)
{
  struct error e;
  const enum err err = knob_set(&all->subject, pointer, &value, &e);
  if (err != ERR_OK)
    ck_assert_str_eq(e.pointer, pointer);
  return err;
}

static void must_set(struct all *all, const char *pointer, struct knob_value value)
{
  ck_assert_msg(set(all, pointer, value) == ERR_OK, "%s is refused", pointer);
}

static struct knob_value get(const struct all *all, const char *pointer)
{
  struct knob_value value;
  struct error e;
  ck_assert_msg(knob_get(&value, pointer, &all->subject, &e) == ERR_OK, "%s: %s", pointer, e.message);
  return value;
}

static struct knob_value flag(bool is_set)
{
  struct knob_value value = knob_number(is_set);
  value.type = KNOB_VALUE_FLAG;
  return value;
}

static struct knob_value null(void)
{
  struct knob_value value = knob_number((double)NAN);
  value.type = KNOB_VALUE_NULL;
  return value;
}

/* A value within every bound of that kind: 1 where a field may be 0 or more, 20 where watts start at 10. */
static struct knob_value sample(enum knob_kind kind, const char *pointer)
{
  const bool is_share = strstr(pointer, "rate") != NULL || strstr(pointer, "share") != NULL ||
                        strstr(pointer, "fraction") != NULL || strstr(pointer, "headroom") != NULL;
  const bool is_large = strstr(pointer, "_mib") != NULL;
  switch (kind) {
  case KNOB_KIND_REAL: return knob_number(is_large ? 2048 : is_share ? 0.5 : strstr(pointer, "pcie_gen") ? 4 : 64.25);
  case KNOB_KIND_COUNT: return knob_number(2);
  case KNOB_KIND_FLAG: return flag(true);
  case KNOB_KIND_PRECISION: return knob_text("fp8");
  case KNOB_KIND_WORD: return knob_text(strstr(pointer, "arrival") != NULL ? "steady" : "sglang");
  case KNOB_KIND_LENGTH: return knob_number(100);
  }
  return knob_number(0);
}

static void assert_equal(const struct knob_value *a, const struct knob_value *b, const char *pointer)
{
  ck_assert_msg(a->type == b->type, "%s: type %d, not %d", pointer, (int)a->type, (int)b->type);
  if (a->type == KNOB_VALUE_TEXT)
    ck_assert_str_eq(a->text, b->text);
  else
    ck_assert_msg(fabs(a->number - b->number) <= 0, "%s: %g, not %g", pointer, a->number, b->number);
}

static bool is_of_another_load(const char *pointer)
{
  return strcmp(pointer, "/traffic/concurrency") == 0 || strcmp(pointer, "/traffic/trace/rate_scale") == 0;
}

START_TEST(every_pointer_gives_back_what_was_set)
{
  size_t seen = 0;
  for (size_t i = 0; knob_pointers[i] != NULL; i++) {
    const char *pointer = knob_pointers[i];
    struct all all;
    enum knob_kind kind;
    bool is_nullable;
    struct knob_value value, before, after;
    all_init(&all);
    ck_assert_msg(knob_kind(&kind, &is_nullable, pointer, &all.subject), "%s has no kind", pointer);
    before = get(&all, pointer);
    if (is_of_another_load(pointer) || (strncmp(pointer, "/model/", 7) == 0 && before.type == KNOB_VALUE_NULL))
      continue;
    if (kind == KNOB_KIND_REAL && strstr(pointer, "clock_fraction") != NULL)
      value = knob_number(0.9);
    else if (strstr(pointer, "thermal") != NULL || strstr(pointer, "boost") != NULL)
      value = knob_number(120);
    else
      value = sample(kind, pointer);
    must_set(&all, pointer, value);
    after = get(&all, pointer);
    assert_equal(&after, &value, pointer);
    ck_assert_int_eq(set(&all, pointer, null()), is_nullable ? ERR_OK : ERR_INVALID);
    seen++;
  }
  ck_assert_uint_gt(seen, 100);
}
END_TEST

START_TEST(what_is_wrong_is_refused_and_changes_nothing)
{
  static const struct {
    const char *pointer;
    double number;
  } numbers[] = {{"/serving/max_batch", 0},
                 {"/serving/max_batch", 1.5},
                 {"/serving/max_batch", 65537},
                 {"/serving/memory_fraction", 1.01},
                 {"/traffic/requests_per_s", -1},
                 {"/traffic/requests_per_s", (double)NAN},
                 {"/traffic/concurrency", 4},
                 {"/traffic/input_tokens", 0},
                 {"/precision/weights", 8},
                 {"/serving/chunked_prefill", 1},
                 {"/model/num_key_value_heads", -1},
                 {"/model/num_hidden_layers", 0},
                 {"/model/num_experts", 8},
                 {"/model/no_such", 1},
                 {"/profile/memory_gib", 0.5},
                 {"/serving/no_such", 1},
                 {"", 1},
                 {"/model/num_hidden_layers", 1025}};
  struct all all, before;
  for (size_t i = 0; i < FIXTURE_COUNT(numbers); i++) {
    all_init(&all);
    before = all;
    ck_assert_msg(set(&all, numbers[i].pointer, knob_number(numbers[i].number)) == ERR_INVALID, "%s takes %g",
                  numbers[i].pointer, numbers[i].number);
    ck_assert_mem_eq(&all.workload, &before.workload, sizeof all.workload);
    ck_assert_mem_eq(&all.model, &before.model, sizeof all.model);
    ck_assert_mem_eq(&all.hardware, &before.hardware, sizeof all.hardware);
  }
  all_init(&all);
  ck_assert_int_eq(set(&all, "/precision/weights", knob_text("fp9")), ERR_INVALID);
  ck_assert_int_eq(set(&all, "/serving/max_batch", knob_text("64")), ERR_INVALID);
  ck_assert_int_eq(set(&all, "/traffic/arrival", knob_text("never")), ERR_INVALID);
}
END_TEST

START_TEST(a_root_that_is_not_given_can_not_be_changed)
{
  struct all all;
  all_init(&all);
  all.subject.model = NULL;
  ck_assert_int_eq(set(&all, "/model/num_key_value_heads", knob_number(8)), ERR_INVALID);
  all.subject.hardware = NULL;
  ck_assert_int_eq(set(&all, "/profile/memory_gib", knob_number(96)), ERR_INVALID);
  must_set(&all, "/serving/max_batch", knob_number(8));
}
END_TEST

/* 32 KV heads of 128 elements, keys and values, 32 layers, 2 bytes: 524,288 bytes a token; 8 heads hold a quarter. */
START_TEST(kv_heads_change_in_every_layer)
{
  struct all all;
  all_init(&all);
  assert_close(model_kv_bytes(&all.model, PRECISION_BF16).growing_per_token_bytes, 524288, 1e-12);
  must_set(&all, "/model/num_key_value_heads", knob_number(8));
  assert_close(model_kv_bytes(&all.model, PRECISION_BF16).growing_per_token_bytes, 131072, 1e-12);
  must_set(&all, "/model/num_hidden_layers", knob_number(16));
  assert_close(model_kv_bytes(&all.model, PRECISION_BF16).growing_per_token_bytes, 65536, 1e-12);
}
END_TEST

START_TEST(kinds_of_layers_keep_their_shares)
{
  struct all all;
  struct layer windowed;
  all_init(&all);
  windowed = all.model.layers[0];
  windowed.attention.window_tokens = 1024;
  ck_assert_int_eq(model_append_layers(&all.model, &windowed, 32, NULL), ERR_OK);
  must_set(&all, "/model/num_hidden_layers", knob_number(20));
  ck_assert_uint_eq(model_layers_of_kind(&all.model, 0), 10);
  ck_assert_uint_eq(model_layers_of_kind(&all.model, 1), 10);
}
END_TEST

START_TEST(a_changed_width_keeps_norms_as_wide)
{
  struct all all;
  all_init(&all);
  must_set(&all, "/model/hidden_size", knob_number(2048));
  ck_assert_uint_eq(all.model.layers[0].norm_parameters, 4096);
  ck_assert_uint_eq(all.model.final_norm_parameters, 2048);
}
END_TEST

START_TEST(memory_moves_what_engines_see)
{
  struct all all;
  double before;
  all_init(&all);
  before = hardware_memory_bytes(&all.hardware, NULL);
  must_set(&all, "/profile/memory_gib", knob_number(2 * all.hardware.memory_gib));
  assert_close(hardware_memory_bytes(&all.hardware, NULL), 2 * before, 1e-12);
}
END_TEST

START_TEST(a_price_replaces_quotes)
{
  struct all all;
  all_init(&all);
  fixture_add_price(&all.hardware, "AWS", "p5.48xlarge", 8, 4.5, "on_demand");
  fixture_add_price(&all.hardware, "GCP", "a3", 8, 5.5, "on_demand");
  must_set(&all, "/profile/price_usd_per_hour", knob_number(3));
  ck_assert_uint_eq(all.hardware.price_count, 1);
  assert_close(all.hardware.prices[0].usd_per_accelerator_hour, 3, 1e-12);
  must_set(&all, "/profile/price_usd_per_hour", null());
  ck_assert_uint_eq(all.hardware.price_count, 0);
}
END_TEST

START_TEST(lengths_take_numbers_and_distributions)
{
  struct all all;
  struct knob_value value = knob_number(0), seen;
  all_init(&all);
  value.type = KNOB_VALUE_LENGTH;
  value.length = (struct length){.kind = LENGTH_QUANTILES, .p50_tokens = 100, .p99_tokens = 400};
  must_set(&all, "/traffic/output_tokens", value);
  seen = get(&all, "/traffic/output_tokens");
  ck_assert_int_eq(seen.type, KNOB_VALUE_LENGTH);
  assert_close(seen.length.p99_tokens, 400, 1e-12);
  must_set(&all, "/traffic/output_tokens", knob_number(64));
  assert_close(length_mean_tokens(&all.workload.traffic.output), 64, 1e-12);
  value.length.p99_tokens = 1e8;
  ck_assert_int_eq(set(&all, "/traffic/output_tokens", value), ERR_INVALID);
}
END_TEST

START_TEST(what_only_makes_sense_together_is_checked_at_the_end)
{
  struct all all;
  struct error e;
  all_init(&all);
  ck_assert_int_eq(knob_check(&all.subject, &e), ERR_OK);
  must_set(&all, "/model/num_key_value_heads", knob_number(7));
  ck_assert_int_eq(knob_check(&all.subject, &e), ERR_INVALID);
  ck_assert_str_eq(e.pointer, "/model/layers/0/attention/num_key_value_heads");
  must_set(&all, "/model/num_key_value_heads", knob_number(8));
  must_set(&all, "/profile/power_cap_w", knob_number(900));
  ck_assert_int_eq(knob_check(&all.subject, &e), ERR_INVALID);
  ck_assert_str_eq(e.pointer, "/profile/power_cap_w");
  must_set(&all, "/profile/power_cap_w", knob_number(500));
  must_set(&all, "/targets/ttft_ms/p50", knob_number(300));
  must_set(&all, "/targets/ttft_ms/p99", knob_number(200));
  ck_assert_int_eq(knob_check(&all.subject, &e), ERR_INVALID);
  ck_assert_str_eq(e.pointer, "/targets/ttft_ms/p99");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("knob");
  tcase_add_test(tcase, every_pointer_gives_back_what_was_set);
  tcase_add_test(tcase, what_is_wrong_is_refused_and_changes_nothing);
  tcase_add_test(tcase, a_root_that_is_not_given_can_not_be_changed);
  tcase_add_test(tcase, kv_heads_change_in_every_layer);
  tcase_add_test(tcase, kinds_of_layers_keep_their_shares);
  tcase_add_test(tcase, a_changed_width_keeps_norms_as_wide);
  tcase_add_test(tcase, memory_moves_what_engines_see);
  tcase_add_test(tcase, a_price_replaces_quotes);
  tcase_add_test(tcase, lengths_take_numbers_and_distributions);
  tcase_add_test(tcase, what_only_makes_sense_together_is_checked_at_the_end);
  return fixture_run("core/knob", tcase);
}
