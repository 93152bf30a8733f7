/* What variants change, and where they change nothing. */
#include "api/variant.h"

#include "tests/core/fixtures.h"

static struct workload workload;
static struct model model;

static void start(const char *name)
{
  workload = fixture_workload();
  model = fixture_model(name);
}

/* 32 heads with a KV head each: 4 are left, weights stay. */
START_TEST(heads_are_grouped_by_eight)
{
  start("llama-2-7b");
  ck_assert(variant_apply(VARIANT_GQA, &workload, &model));
  ck_assert_uint_eq(model.layers[0].attention.kv_heads, 4);
  ck_assert_uint_eq(model.layers[0].attention.query_heads, 32);
  ck_assert_int_eq(workload.weights, PRECISION_NONE);
}
END_TEST

/* 64 heads over 8 are grouped by eight, 71 over 1 by more, 28 heads are no multiple of eight. */
START_TEST(grouped_heads_stay)
{
  static const char *const models[] = {"llama-3.1-70b", "falcon-7b", "qwen2-7b"};
  for (size_t i = 0; i < FIXTURE_COUNT(models); i++) {
    start(models[i]);
    ck_assert_msg(!variant_apply(VARIANT_GQA, &workload, &model), "%s", models[i]);
    ck_assert_msg(!variant_apply(VARIANT_GQA_FP8, &workload, &model), "%s", models[i]);
  }
}
END_TEST

/* bf16 weights and cache become fp8; what the device computes with is left to it. */
START_TEST(weights_and_cache_become_fp8)
{
  start("llama-3.1-70b");
  workload.activations = PRECISION_BF16;
  ck_assert(variant_apply(VARIANT_FP8, &workload, &model));
  ck_assert_int_eq(workload.weights, PRECISION_FP8);
  ck_assert_int_eq(workload.kv_cache, PRECISION_FP8);
  ck_assert_int_eq(workload.activations, PRECISION_NONE);
}
END_TEST

/* int4 weights are smaller already: their cache alone changes; with an fp8 cache there is nothing left. */
START_TEST(narrow_formats_stay)
{
  start("llama-3.1-70b");
  workload.weights = PRECISION_INT4;
  ck_assert(variant_apply(VARIANT_FP8, &workload, &model));
  ck_assert_int_eq(workload.weights, PRECISION_INT4);
  ck_assert_int_eq(workload.kv_cache, PRECISION_FP8);
  ck_assert(!variant_apply(VARIANT_FP8, &workload, &model));
}
END_TEST

START_TEST(both_change_both)
{
  start("llama-2-7b");
  ck_assert(variant_apply(VARIANT_GQA_FP8, &workload, &model));
  ck_assert_uint_eq(model.layers[0].attention.kv_heads, 4);
  ck_assert_int_eq(workload.weights, PRECISION_FP8);
}
END_TEST

START_TEST(as_is_is_as_is)
{
  struct model before;
  start("llama-2-7b");
  before = model;
  ck_assert(variant_apply(VARIANT_AS_IS, &workload, &model));
  ck_assert_mem_eq(&before, &model, sizeof model);
  ck_assert_ptr_null(variant_requires(VARIANT_AS_IS));
}
END_TEST

/* No 4-bit floats before Blackwell; fp8 runs on Ampere as weights only. */
START_TEST(devices_run_what_they_can)
{
  const struct hardware ampere = fixture_hardware("a100-sxm-80gb"), blackwell = fixture_hardware("b200-sxm-180gb");
  enum precision math;
  start("llama-3.1-70b");
  workload.weights = PRECISION_FP8;
  ck_assert(variant_runs_on(&workload, &model, &ampere));
  workload.weights = PRECISION_NVFP4;
  ck_assert(variant_runs_on(&workload, &model, &blackwell));
  ck_assert(variant_runs_on(&workload, &model, &ampere) ==
            (precision_support(&ampere, PRECISION_NVFP4, PRECISION_NONE, &math) != PRECISION_UNSUPPORTED));
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("variant");
  tcase_add_test(tcase, heads_are_grouped_by_eight);
  tcase_add_test(tcase, grouped_heads_stay);
  tcase_add_test(tcase, weights_and_cache_become_fp8);
  tcase_add_test(tcase, narrow_formats_stay);
  tcase_add_test(tcase, both_change_both);
  tcase_add_test(tcase, as_is_is_as_is);
  tcase_add_test(tcase, devices_run_what_they_can);
  return fixture_run("api/variant", tcase);
}
