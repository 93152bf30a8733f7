/* Evaluations: what goes in comes out, and lists by their filters. */
#include "tests/storage/fixture.h"

START_TEST(test_round_trip)
{
  struct store_evaluation row = make_evaluation(T0_MS, 7, "chat"), got;
  row.label = text("nightly");
  ck_assert_err(write_row(insert_evaluation, &row), ERR_OK);
  ck_assert_err(store_evaluation_get(store, &got, row.id, &error), ERR_OK);
  ck_assert_str_eq(got.id, row.id);
  ck_assert_int_eq(got.created_at_ms, T0_MS);
  ck_assert_str_eq(got.workload, "chat");
  ck_assert_str_eq(got.model, "llama-3.1-70b");
  ck_assert_str_eq(got.label, "nightly");
  ck_assert_str_eq(got.core_version, "0.1.0");
  ck_assert_str_eq(got.sketch_digest, "sha256:aa");
  ck_assert_str_eq(got.sketch, "{\"a\":1}");
  ck_assert_str_eq(got.document, "{\"b\":\"\xc3\xbc\"}");
  store_evaluation_fini(&got);
}
END_TEST

START_TEST(test_refusals)
{
  struct store_evaluation row = make_evaluation(T0_MS, 7, "chat"), got;
  ck_assert_err(store_evaluation_get(store, &got, row.id, &error), ERR_NOT_FOUND);
  ck_assert_err(write_row(insert_evaluation, &row), ERR_OK);
  ck_assert_err(write_row(insert_evaluation, &row), ERR_CONFLICT);
  ck_assert_says("is stored already");
  row.id = make_id(T0_MS + 1, 7); /* an id that belies created_at_ms would get lost in ranges of time */
  ck_assert_err(write_row(insert_evaluation, &row), ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(last_log, "write test failed"));
}
END_TEST

START_TEST(test_list)
{
  struct store_history_filter filter = {.workload = "chat", .profile = "not a column here"};
  const struct store_page page = {.limit = 10};
  struct store_evaluations list;
  for (unsigned i = 0; i < 6; i++) {
    struct store_evaluation row = make_evaluation(T0_MS + i, 0, i % 2 == 0 ? "chat" : "code");
    row.label = text(i == 4 ? "nightly" : "");
    ck_assert_err(write_row(insert_evaluation, &row), ERR_OK);
  }
  ck_assert_err(store_evaluation_list(store, &list, &filter, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 3);
  ck_assert(!list.has_more);
  ck_assert_int_eq(list.rows[0].created_at_ms, T0_MS + 4);
  ck_assert_int_eq(list.rows[2].created_at_ms, T0_MS);
  store_evaluations_fini(&list);
  filter.label = "nightly";
  ck_assert_err(store_evaluation_list(store, &list, &filter, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  store_evaluations_fini(&list);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/evaluations");
  TCase *tcase = suite_case(suite, "evaluations", setup, teardown);
  tcase_add_test(tcase, test_round_trip);
  tcase_add_test(tcase, test_refusals);
  tcase_add_test(tcase, test_list);
  return suite_run(suite);
}
