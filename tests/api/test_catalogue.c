/* Snapshots: rebuilt only when something changed, alive as long as someone holds them, found by name and alias. */
#include "api/catalogue.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <string.h>

static struct fake fake;

static void setup(void)
{
  fake_open(&fake, suite_dir());
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

static const struct catalogue_snapshot *acquire(struct catalogue *catalogue)
{
  const struct catalogue_snapshot *snapshot;
  struct error e;
  ck_assert_msg(catalogue_acquire(&snapshot, catalogue, &e) == ERR_OK, "%s", e.message);
  return snapshot;
}

static struct catalogue *open_catalogue(struct store *store)
{
  struct catalogue *catalogue;
  struct error e;
  ck_assert_int_eq(catalogue_open(&catalogue, store, &e), ERR_OK);
  return catalogue;
}

static void put_profile(const char *name, double bandwidth_gb_s)
{
  const char *body =
      scratch_printf("{\"memory_gib\": 48, \"memory_bandwidth_gb_s\": %g, \"peak_tflops_dense\": {\"bf16\": 181},"
                     "\"interconnect\": {\"kind\": \"PCIe\", \"domain_size\": 4}, \"compute_units\": 142}",
                     bandwidth_gb_s);
  const struct fake_request request = {.method = "PUT",
                                       .path = scratch_printf("/v1/profiles/%s", name),
                                       .body = body,
                                       .body_len = strlen(body),
                                       .scope = SCOPE_ADMIN};
  struct api_response response;
  fake_send(&fake, &request, &response);
  ck_assert_msg(response.status == 200 || response.status == 201, "%u %s", response.status, response.bytes);
  api_response_fini(&response);
}

START_TEST(snapshot_is_shared_until_something_changes)
{
  struct catalogue *catalogue = open_catalogue(fake.store);
  const struct catalogue_snapshot *first = acquire(catalogue), *second = acquire(catalogue), *third;
  ck_assert_ptr_eq(first, second);
  ck_assert_ptr_null(catalogue_find_profile(first, "lab-card"));
  put_profile("lab-card", 864);
  third = acquire(catalogue);
  ck_assert_ptr_ne(first, third);
  ck_assert_uint_eq(third->profile_count, first->profile_count + 1); /* the old one is still readable */
  ck_assert_double_eq_tol(catalogue_find_profile(third, "lab-card")->hardware.memory_bandwidth_gb_s, 864, 1e-12);
  put_profile("lab-card", 864); /* nothing changed: nothing is rebuilt */
  catalogue_release(catalogue, second);
  second = acquire(catalogue);
  ck_assert_ptr_eq(second, third);
  catalogue_release(catalogue, first);
  catalogue_release(catalogue, second);
  catalogue_release(catalogue, third);
  put_profile("lab-card", 900);
  third = acquire(catalogue);
  ck_assert_int_eq(catalogue_find_profile(third, "lab-card")->revision, 2);
  catalogue_release(catalogue, third);
  catalogue_close(catalogue);
}
END_TEST

START_TEST(seed_alone_equals_a_fresh_store)
{
  struct catalogue *seed = open_catalogue(NULL), *stored = open_catalogue(fake.store);
  const struct catalogue_snapshot *a = acquire(seed), *b = acquire(stored);
  size_t i;
  ck_assert_uint_gt(a->model_count, 30);
  ck_assert_uint_eq(a->model_count, b->model_count);
  ck_assert_uint_eq(a->profile_count, b->profile_count);
  for (i = 0; i < a->profile_count; i++)
    ck_assert_str_eq(a->profiles[i].hardware.name, b->profiles[i].hardware.name);
  for (i = 0; i < a->model_count; i++) {
    ck_assert_str_eq(a->models[i].name, b->models[i].name);
    ck_assert_str_eq(a->models[i].alias, b->models[i].alias);
    ck_assert(model_parameters_total(&a->models[i].model) == model_parameters_total(&b->models[i].model));
  }
  catalogue_release(seed, a);
  catalogue_release(stored, b);
  catalogue_close(seed);
  catalogue_close(stored);
}
END_TEST

START_TEST(models_are_found_by_name_and_alias)
{
  struct catalogue *catalogue = open_catalogue(NULL);
  const struct catalogue_snapshot *snapshot = acquire(catalogue);
  const struct catalogue_model *by_name = catalogue_find_model(snapshot, "llama-3.1-70b");
  size_t i, names = 0;
  ck_assert_ptr_nonnull(by_name);
  ck_assert_ptr_eq(catalogue_find_model(snapshot, "META-LLAMA/llama-3.1-70B-instruct"), by_name);
  ck_assert_ptr_null(catalogue_find_model(snapshot, "llama"));
  ck_assert_ptr_null(catalogue_find_model(snapshot, ""));
  ck_assert_ptr_null(catalogue_find_profile(snapshot, ""));
  for (i = 0; i < snapshot->model_count; i++)
    names += snapshot->models[i].alias[0] != '\0' ? 2 : 1;
  for (i = 0; snapshot->model_names[i] != NULL; i++)
    ck_assert_ptr_nonnull(catalogue_find_model(snapshot, snapshot->model_names[i]));
  ck_assert_uint_eq(i, names);
  catalogue_release(catalogue, snapshot);
  catalogue_close(catalogue);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/catalogue");
  TCase *tcase = suite_case(suite, "catalogue", setup, teardown);
  tcase_add_test(tcase, snapshot_is_shared_until_something_changes);
  tcase_add_test(tcase, seed_alone_equals_a_fresh_store);
  tcase_add_test(tcase, models_are_found_by_name_and_alias);
  return suite_run(suite);
}
