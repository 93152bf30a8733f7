/* Which cuts are possible, and what is said about those that are not. */
#include "core/parallel.h"

#include "core/collectives.h"
#include "tests/core/fixtures.h"

static void assert_degrees(const char *device, const char *name, const unsigned *expected, size_t count)
{
  const struct hardware hardware = fixture_hardware(device);
  const struct model model = fixture_model(name);
  unsigned degrees[64];
  const size_t n = parallel_tensor_degrees(degrees, 64, &model, &hardware);
  ck_assert_msg(n == count, "%s on %s: %zu degrees instead of %zu", name, device, n, count);
  for (size_t i = 0; i < count; i++)
    ck_assert_msg(degrees[i] == expected[i], "%s on %s: degree %u instead of %u", name, device, degrees[i],
                  expected[i]);
}

/* 64 heads, 8 KV heads: powers of two; beyond 8 the KV heads are replicated; intermediate 28672 = 2^12 · 7. */
START_TEST(degrees_divide_heads_within_the_domain)
{
  static const unsigned eight[] = {1, 2, 4, 8}, wide[] = {1, 2, 4, 8, 16, 32, 64};
  assert_degrees("h100-sxm-80gb", "llama-3.1-70b", eight, 4);
  assert_degrees("gb200-nvl72", "llama-3.1-70b", wide, 7);
  assert_degrees("l40s-48gb", "llama-3.1-70b", eight, 4); /* eight boards of a PCIe host */
  assert_degrees("gh200-96gb", "llama-3.1-70b", eight, 1);
}
END_TEST

/* Falcon-7B: 71 heads (a prime) over one KV head; 18176 = 71 · 256. Qwen2-7B: 28 heads and 4 KV heads: 7 and 14 split
   neither KV heads nor replicate them evenly (7 is no multiple of 4), 28 does but leaves a domain of 8. */
START_TEST(odd_head_counts_allow_few_degrees)
{
  static const unsigned falcon[] = {1, 71}, qwen[] = {1, 2, 4}, wide_qwen[] = {1, 2, 4};
  assert_degrees("h100-sxm-80gb", "falcon-7b", falcon, 1);
  assert_degrees("gb200-nvl72", "falcon-7b", falcon, 2);
  assert_degrees("h100-sxm-80gb", "qwen2-7b", qwen, 3);
  assert_degrees("gb200-nvl72", "qwen2-7b", wide_qwen, 3); /* 28 does not divide 18944 = 2^9 · 37 */
}
END_TEST

START_TEST(the_list_stops_at_its_size)
{
  const struct hardware hardware = fixture_hardware("gb200-nvl72");
  const struct model model = fixture_model("llama-3.1-70b");
  unsigned degrees[3] = {0, 0, 77};
  ck_assert_uint_eq(parallel_tensor_degrees(degrees, 2, &model, &hardware), 2);
  ck_assert_uint_eq(degrees[2], 77);
}
END_TEST

/* Possible 1 2 4 8: the nearest one is named, the smaller at equal distance. */
START_TEST(an_impossible_degree_names_the_nearest)
{
  static const struct {
    unsigned tp;
    const char *nearest, *because;
  } rows[] = {{3, "nearest possible: 2", "64 attention heads"},
              {5, "nearest possible: 4", "64"},
              {6, "nearest possible: 4", "64"},
              {7, "nearest possible: 8", "64"},
              {9, "nearest possible: 8", "domain"},
              {16, "nearest possible: 8", "8 devices"},
              {1000, "nearest possible: 8", "domain"}};
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-70b");
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    const struct layout layout = {rows[i].tp, 1, 1, 1};
    char why[192], degree[32];
    ck_assert(!parallel_check(why, sizeof why, &model, &hardware, &layout));
    (void)snprintf(degree, sizeof degree, "tensor_parallel %u", rows[i].tp);
    ck_assert_msg(strstr(why, rows[i].nearest) != NULL && strstr(why, rows[i].because) != NULL &&
                      strstr(why, degree) != NULL,
                  "tp %u: \"%s\"", rows[i].tp, why);
  }
}
END_TEST

START_TEST(possible_layouts_have_nothing_to_say)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-70b");
  const struct layout layouts[] = {{1, 1, 1, 1}, {8, 1, 1, 1}, {4, 3, 1, 1}, {1, 80, 1, 1}};
  for (size_t i = 0; i < FIXTURE_COUNT(layouts); i++) {
    char why[192] = "x";
    ck_assert(parallel_check(why, sizeof why, &model, &hardware, &layouts[i]));
    ck_assert_str_eq(why, "");
  }
}
END_TEST

START_TEST(pipelines_have_no_more_stages_than_layers)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-70b");
  const struct layout layout = {1, 81, 1, 1};
  char why[192];
  ck_assert(!parallel_check(why, sizeof why, &model, &hardware, &layout));
  ck_assert_msg(strstr(why, "81") != NULL && strstr(why, "nearest possible: 80") != NULL, "\"%s\"", why);
}
END_TEST

START_TEST(dense_models_have_no_experts_to_spread)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model model = fixture_model("llama-3.1-70b");
  const struct layout experts = {1, 1, 2, 1}, data = {1, 1, 1, 4};
  char why[192];
  ck_assert(!parallel_check(why, sizeof why, &model, &hardware, &experts));
  ck_assert_ptr_nonnull(strstr(why, "expert_parallel 2"));
  ck_assert(!parallel_check(why, sizeof why, &model, &hardware, &data));
  ck_assert_ptr_nonnull(strstr(why, "attention_data_parallel 4"));
}
END_TEST

START_TEST(intermediate_sizes_are_divided_too)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  struct model model = fixture_model("llama-3.1-70b");
  const struct layout layout = {8, 1, 1, 1};
  char why[192];
  model.layers[0].feed_forward.intermediate_size = 28668; /* = 4 · 7167 */
  ck_assert(!parallel_check(why, sizeof why, &model, &hardware, &layout));
  ck_assert_msg(strstr(why, "28668") != NULL && strstr(why, "nearest possible: 4") != NULL, "\"%s\"", why);
}
END_TEST

/* 126 layers over 4 stages: 32, 32, 31, 31. */
START_TEST(stages_and_devices_are_counted)
{
  const struct model model = fixture_model("llama-3.1-405b");
  const struct layout layout = {8, 4, 1, 1}, one = {1, 1, 1, 1}, all = {1, 126, 1, 1};
  ck_assert_uint_eq(parallel_stage_layers(&model, &layout), 32);
  ck_assert_uint_eq(parallel_stage_layers(&model, &one), 126);
  ck_assert_uint_eq(parallel_stage_layers(&model, &all), 1);
  ck_assert_uint_eq(parallel_gpus(&layout), 32);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("parallel");
  tcase_add_test(tcase, degrees_divide_heads_within_the_domain);
  tcase_add_test(tcase, odd_head_counts_allow_few_degrees);
  tcase_add_test(tcase, the_list_stops_at_its_size);
  tcase_add_test(tcase, an_impossible_degree_names_the_nearest);
  tcase_add_test(tcase, possible_layouts_have_nothing_to_say);
  tcase_add_test(tcase, pipelines_have_no_more_stages_than_layers);
  tcase_add_test(tcase, dense_models_have_no_experts_to_spread);
  tcase_add_test(tcase, intermediate_sizes_are_divided_too);
  tcase_add_test(tcase, stages_and_devices_are_counted);
  return fixture_run("core/parallel", tcase);
}
