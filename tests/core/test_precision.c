/* Formats: bytes, names, and the path that a device takes for each of them. */
#include "core/precision.h"

#include "tests/core/fixtures.h"

/* STEPMODEL §1.4: bf16 2, fp8 1, int4 .53, nvfp4 4.5 bits = .5625, mxfp4 4.25 bits = .53125. */
START_TEST(bytes_include_the_scales_of_the_format)
{
  assert_close(precision_weight_bytes(PRECISION_FP32), 4, 1e-12);
  assert_close(precision_weight_bytes(PRECISION_BF16), 2, 1e-12);
  assert_close(precision_weight_bytes(PRECISION_FP16), 2, 1e-12);
  assert_close(precision_weight_bytes(PRECISION_FP8), 1, 1e-12);
  assert_close(precision_weight_bytes(PRECISION_INT8), 1, 1e-12);
  assert_close(precision_weight_bytes(PRECISION_INT4), 0.53, 1e-12);
  assert_close(precision_weight_bytes(PRECISION_NVFP4), 4.5 / 8, 1e-12);
  assert_close(precision_weight_bytes(PRECISION_MXFP4), 4.25 / 8, 1e-12);
  ck_assert(precision_weight_bytes(PRECISION_NONE) <= 0);
  assert_close(precision_element_bytes(PRECISION_FP8), 1, 1e-12);
  assert_close(precision_element_bytes(PRECISION_NVFP4), 0.5, 1e-12);
}
END_TEST

START_TEST(names_and_aliases_are_read_back)
{
  static const struct {
    const char *name;
    enum precision precision;
  } rows[] = {{"bfloat16", PRECISION_BF16}, {"float16", PRECISION_FP16}, {"half", PRECISION_FP16},
              {"float32", PRECISION_FP32},  {"e4m3", PRECISION_FP8},     {"w4a16", PRECISION_INT4},
              {"w8a8", PRECISION_INT8},     {"none", PRECISION_NONE},    {"", PRECISION_NONE},
              {"fp9", PRECISION_NONE},      {"BF16", PRECISION_NONE}};
  for (int i = PRECISION_NONE + 1; i < PRECISION_COUNT; i++)
    ck_assert_int_eq(precision_parse(precision_name((enum precision)i)), (enum precision)i);
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++)
    ck_assert_msg(precision_parse(rows[i].name) == rows[i].precision, "%s", rows[i].name);
}
END_TEST

/* CORE §2: fp8 on Ampere is weight-only, int4 nearly everywhere, no fp4 before Blackwell, no bf16 before Ampere. */
START_TEST(devices_run_what_they_can)
{
  static const struct {
    const char *device;
    enum precision weights, activations;
    enum precision_support support;
    enum precision math;
  } rows[] = {
      {"h100-sxm-80gb", PRECISION_BF16, PRECISION_NONE, PRECISION_NATIVE, PRECISION_BF16},
      {"h100-sxm-80gb", PRECISION_FP8, PRECISION_NONE, PRECISION_NATIVE, PRECISION_FP8},
      {"h100-sxm-80gb", PRECISION_FP8, PRECISION_BF16, PRECISION_WEIGHT_ONLY, PRECISION_BF16},
      {"h100-sxm-80gb", PRECISION_NVFP4, PRECISION_NONE, PRECISION_WEIGHT_ONLY, PRECISION_BF16},
      {"h100-sxm-80gb", PRECISION_INT4, PRECISION_NONE, PRECISION_WEIGHT_ONLY, PRECISION_BF16},
      {"a100-sxm-80gb", PRECISION_FP8, PRECISION_NONE, PRECISION_WEIGHT_ONLY, PRECISION_BF16},
      {"a100-sxm-80gb", PRECISION_INT8, PRECISION_NONE, PRECISION_NATIVE, PRECISION_INT8},
      {"b200-sxm-180gb", PRECISION_NVFP4, PRECISION_NONE, PRECISION_NATIVE, PRECISION_NVFP4},
      {"b200-sxm-180gb", PRECISION_MXFP4, PRECISION_NONE, PRECISION_NATIVE, PRECISION_MXFP4},
      {"b200-sxm-180gb", PRECISION_NF4, PRECISION_NONE, PRECISION_WEIGHT_ONLY, PRECISION_BF16},
      {"b300-sxm-270gb", PRECISION_INT8, PRECISION_NONE, PRECISION_WEIGHT_ONLY,
       PRECISION_BF16}, /* 153 against 2250 TFLOP/s */
      {"v100-sxm-32gb", PRECISION_BF16, PRECISION_NONE, PRECISION_FALLBACK, PRECISION_FP16},
      {"v100-sxm-32gb", PRECISION_FP16, PRECISION_NONE, PRECISION_NATIVE, PRECISION_FP16},
      {"v100-sxm-32gb", PRECISION_INT8, PRECISION_NONE, PRECISION_WEIGHT_ONLY, PRECISION_FP16},
      {"h100-sxm-80gb", PRECISION_NONE, PRECISION_NONE, PRECISION_UNSUPPORTED, PRECISION_BF16},
  };
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    const struct hardware hardware = fixture_hardware(rows[i].device);
    enum precision math;
    const enum precision_support support = precision_support(&hardware, rows[i].weights, rows[i].activations, &math);
    ck_assert_msg(support == rows[i].support && math == rows[i].math, "%s %s: %s in %s", rows[i].device,
                  precision_name(rows[i].weights), precision_support_name(support), precision_name(math));
  }
}
END_TEST

/* Without any 16-bit peak nothing runs; the facade never sees such a profile (hardware_check refuses it). */
START_TEST(a_device_without_peaks_supports_nothing)
{
  struct hardware hardware;
  enum precision math;
  hardware_init(&hardware);
  for (int i = PRECISION_NONE; i < PRECISION_COUNT; i++)
    ck_assert_int_eq(precision_support(&hardware, (enum precision)i, PRECISION_NONE, &math), PRECISION_UNSUPPORTED);
  ck_assert_str_eq(precision_support_name(PRECISION_NATIVE), "native");
  ck_assert_str_eq(precision_support_name(PRECISION_WEIGHT_ONLY), "weight_only");
  ck_assert_str_eq(precision_support_name(PRECISION_FALLBACK), "fallback");
  ck_assert_str_eq(precision_support_name(PRECISION_UNSUPPORTED), "unsupported");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("precision");
  tcase_add_test(tcase, bytes_include_the_scales_of_the_format);
  tcase_add_test(tcase, names_and_aliases_are_read_back);
  tcase_add_test(tcase, devices_run_what_they_can);
  tcase_add_test(tcase, a_device_without_peaks_supports_nothing);
  return fixture_run("core/precision", tcase);
}
