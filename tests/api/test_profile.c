/* Profile documents: each built-in one is read without fault and written back with every member it had. */
#include "api/catalogue.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <string.h>

static struct faults faults;

static void setup(void)
{
  memset(&faults, 0, sizeof faults);
}

static void teardown(void)
{
  scratch_release();
}

/* What was given is still there with its value; null may stand for null. */
static void expect_kept(const char *name, json_t *given, json_t *written)
{
  json_t *member;
  const char *key;
  json_object_foreach(given, key, member)
  {
    json_t *kept = json_object_get(written, key);
    ck_assert_msg(kept != NULL, "%s: %s is gone", name, key);
    if (json_is_object(member))
      expect_kept(name, member, kept);
    else if (json_is_number(member))
      ck_assert_double_eq_tol(json_number_value(kept), json_number_value(member), 1e-12);
    else
      ck_assert_msg(json_equal(kept, member), "%s: %s has changed", name, key);
  }
}

START_TEST(every_built_in_profile_is_read_and_kept)
{
  const struct catalogue_seed *seed;
  struct hardware hardware, again;
  size_t count = 0;
  for (seed = catalogue_seed_profiles; seed->name != NULL; seed++, count++) {
    json_t *given = scratch_json_steal(json_loads(seed->json, 0, NULL)), *written;
    profile_read(&hardware, given, "", &faults);
    ck_assert_msg(faults.count == 0, "%s: %s: %s", seed->name, faults.items[0].pointer, faults.items[0].detail);
    ck_assert_str_eq(hardware.name, seed->name);
    written = scratch_json_steal(profile_write(&hardware, given));
    expect_kept(seed->name, given, written);
    profile_read(&again, written, "", &faults);
    ck_assert_uint_eq(faults.count, 0);
    ck_assert_str_eq(again.display_name, hardware.display_name);
    ck_assert_int_eq(again.family, hardware.family);
    ck_assert_uint_eq(again.price_count, hardware.price_count);
    ck_assert_mem_eq(again.prices, hardware.prices, hardware.price_count * sizeof hardware.prices[0]);
  }
  ck_assert_uint_eq(count, 51); /* entries of the source table */
}
END_TEST

static json_t *sample(void)
{
  return scratch_json_steal(json_pack(
      "{s:s, s:i, s:f, s:{s:i, s:n}, s:{s:s, s:i}, s:i, s:[{s:s, s:f}]}", "name", "Lab card", "memory_gib", 48,
      "memory_bandwidth_gb_s", 864.5, "peak_tflops_dense", "bf16", 181, "fp8", "interconnect", "kind", "PCIe",
      "domain_size", 4, "compute_units", 142, "prices", "cloud", "own", "usd_per_accelerator_hour", 1.25));
}

START_TEST(values_arrive)
{
  struct hardware hardware;
  profile_read(&hardware, sample(), "", &faults);
  ck_assert_uint_eq(faults.count, 0);
  ck_assert_str_eq(hardware.display_name, "Lab card");
  ck_assert_double_eq_tol(hardware.memory_gib, 48, 1e-12);
  ck_assert_double_eq_tol(hardware.memory_bandwidth_gb_s, 864.5, 1e-12);
  ck_assert_double_eq_tol(hardware.bf16_tflops, 181, 1e-12);
  ck_assert(isnan(hardware.fp8_tflops));
  ck_assert(isnan(hardware.tdp_w));
  ck_assert_double_eq_tol(hardware.domain_size, 4, 1e-12);
  ck_assert_uint_eq(hardware.price_count, 1);
  ck_assert_str_eq(hardware.prices[0].commitment, "on_demand");
  ck_assert_double_eq_tol(hardware.prices[0].accelerators, 1, 1e-12);
  ck_assert_double_eq_tol(hardware.prices[0].usd_per_accelerator_hour, 1.25, 1e-12);
  ck_assert_int_eq(hardware.family, HARDWARE_POOLED);
  ck_assert(!hardware.is_available);
}
END_TEST

START_TEST(faults_are_under_the_pointer_and_not_repeated)
{
  json_t *body = sample();
  struct hardware hardware;
  ck_assert_int_eq(json_object_set_new(body, "memory_gib", json_string("48")), 0);
  ck_assert_int_eq(json_object_del(body, "interconnect"), 0);
  profile_read(&hardware, body, "/profile", &faults);
  ck_assert_uint_eq(faults.count, 2);
  ck_assert_str_eq(faults.items[0].pointer, "/profile/memory_gib");
  ck_assert_int_eq(faults.items[0].code, FAULT_WRONG_TYPE);
  ck_assert_str_eq(faults.items[1].pointer, "/profile/interconnect");
  ck_assert_int_eq(faults.items[1].code, FAULT_MISSING);
}
END_TEST

START_TEST(absent_numbers_are_written_as_null)
{
  struct hardware hardware;
  json_t *written;
  profile_read(&hardware, sample(), "", &faults);
  written = scratch_json_steal(profile_write(&hardware, NULL));
  ck_assert(json_is_null(json_object_get(written, "tdp_w")));
  ck_assert(json_is_null(json_object_get(json_object_get(written, "peak_tflops_dense"), "fp4")));
  ck_assert_double_eq_tol(json_number_value(json_object_get(json_array_get(json_object_get(written, "prices"), 0),
                                                            "usd_per_accelerator_hour")),
                          1.25, 1e-12);
}
END_TEST

START_TEST(too_many_prices)
{
  json_t *body = sample(), *prices = json_object_get(body, "prices");
  struct hardware hardware;
  while (json_array_size(prices) <= HARDWARE_PRICES_MAX)
    ck_assert_int_eq(json_array_append_new(prices, json_deep_copy(json_array_get(prices, 0))), 0);
  profile_read(&hardware, body, "", &faults);
  ck_assert_uint_eq(faults.count, 1);
  ck_assert_str_eq(faults.items[0].pointer, "/prices");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/profile");
  TCase *tcase = suite_case(suite, "profile", setup, teardown);
  tcase_add_test(tcase, every_built_in_profile_is_read_and_kept);
  tcase_add_test(tcase, values_arrive);
  tcase_add_test(tcase, faults_are_under_the_pointer_and_not_repeated);
  tcase_add_test(tcase, absent_numbers_are_written_as_null);
  tcase_add_test(tcase, too_many_prices);
  return suite_run(suite);
}
